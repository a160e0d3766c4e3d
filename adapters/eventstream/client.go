// Package eventstream reads server-sent events, and is a client of HTTP servers that answer
// with JSON in them, as the providers of models do. The stream is read in the caller's
// goroutine, because text comes in thousands of small events. It is a leaf: it
// imports the standard library alone.
package eventstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxProblem   = 64 << 10 // bytes read of the body of an error response
	maxDocument  = 4 << 20  // bytes read of a JSON document
	maxName      = 64       // bytes of a name in an error
	drainTimeout = 100 * time.Millisecond
)

// errTruncated is returned for a stream that ends before its last event.
var errTruncated = errors.New("the stream ended before its last event")

// errProtocol is returned for a request body that cannot be encoded, for a response that is
// not an event stream, and for an event that is too long.
var errProtocol = errors.New("protocol error")

// statusError is a response with a status of 400 or above. It has only identifiers of the
// response, because other text may quote the request.
type statusError struct {
	Status    int
	Problem   Problem
	RequestID string // the server's id of the request, or empty
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s (request %s)", e.Status, e.Problem, Name(e.RequestID))
}

// Problem is the error object in a response or event. JSON of another form than
// {"type": …, "code": …} decodes to the zero Problem.
type Problem struct{ Type, Code string }

// UnmarshalJSON never fails.
func (p *Problem) UnmarshalJSON(data []byte) error {
	var fields struct {
		Type any `json:"type"`
		Code any `json:"code"`
	}
	_ = json.Unmarshal(data, &fields) // a problem may be any JSON
	p.Type, _ = fields.Type.(string)
	switch code := fields.Code.(type) {
	case string:
		p.Code = code
	case float64:
		p.Code = strconv.Itoa(int(code))
	}
	return nil
}

// String returns the names of the problem, fit for a log.
func (p Problem) String() string { return Name(p.Type) + " " + Name(p.Code) }

// Client makes requests to one server. It retries nothing and follows no redirects, which
// could send headers and body to another host.
type Client struct {
	http   http.Client
	host   string
	base   string      // of addresses; ends in a slash
	header http.Header // of requests without a body
	posted http.Header // of requests with a body
}

// NewClient returns a client of the server at base, an http or https URL that paths are
// appended to. Each request has the headers. CheckRedirect of client is not used.
func NewClient(base string, header http.Header, client *http.Client) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be an http or https address")
	}
	root := u.JoinPath("/").ResolveReference(&url.URL{Path: "."}) // without a query
	c := &Client{http: *client, host: u.Hostname(), base: root.String(), header: http.Header{"User-Agent": {"collab"}}}
	maps.Copy(c.header, header)
	c.posted = maps.Clone(c.header)
	c.posted.Set("Content-Type", "application/json")
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Host returns the server's host name without its port.
func (c *Client) Host() string { return c.host }

// do makes a request. The caller must close the body of the response, whose status is below
// 400.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if req.Header = c.header; body != nil {
		req.Header = c.posted
	}
	res, err := c.http.Do(req)
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return res, err
	}
	defer res.Body.Close()
	var response struct {
		Error Problem `json:"error"`
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, maxProblem)).Decode(&response) // invalid JSON has no identifiers
	return nil, &statusError{res.StatusCode, response.Error, cmp.Or(res.Header.Get("Request-Id"), res.Header.Get("X-Request-Id"))}
}

// Receiver has the callbacks of Stream, which calls them sequentially in its goroutine.
type Receiver struct {
	// Open is called before the first event of a stream.
	Open func()
	// Event is called with the data of each event, which may be empty and must not be
	// retained. It reports whether the event is the last.
	Event func(data []byte) (last bool, err error)
	// Wait is called before a read that may block, with no complete event left.
	Wait func() error
	// Sent is called if the whole request was sent, before the other callbacks or the return of an error.
	Sent func()
	// Alive is called when bytes were received.
	Alive func()
}

// Stream posts the body as JSON and passes the events of the response to the receiver.
// It returns nil after the last event, a *statusError, errTruncated or errProtocol
// wrapped, an error of the receiver unchanged, or an error of the connection. The end of
// ctx ends the request.
func (c *Client) Stream(ctx context.Context, path string, body any, to Receiver) error {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // an escape has six bytes
	if err := encoder.Encode(body); err != nil {
		return fmt.Errorf("%w: the request cannot be encoded: %T", errProtocol, err)
	}
	var sent atomic.Bool
	res, err := c.do(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(i httptrace.WroteRequestInfo) {
		sent.Store(i.Err == nil)
	}}), http.MethodPost, path, encoded.Bytes())
	if sent.Load() {
		to.Sent()
	}
	if err != nil {
		return err
	}
	defer res.Body.Close() // also ends the request at the server
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if kind = strings.TrimSpace(kind); res.StatusCode != http.StatusOK || !strings.EqualFold(kind, "text/event-stream") {
		return fmt.Errorf("%w: status %d with %s is no stream", errProtocol, res.StatusCode, Name(kind))
	}
	to.Open()
	events := newReader(res.Body, to.Wait, to.Alive)
	for {
		data, err := events.next()
		if err != nil {
			return err
		}
		last, err := to.Event(data)
		switch {
		case err != nil && events.truncated && !json.Valid(data):
			return fmt.Errorf("%w, within an event", errTruncated)
		case err != nil:
			return err
		case last:
			if err := to.Wait(); err != nil {
				return err
			}
			// A connection is reused only if the body was read to its end.
			timer := time.AfterFunc(drainTimeout, func() { _ = res.Body.Close() })
			_, _ = io.CopyN(io.Discard, res.Body, bufferSize)
			timer.Stop()
			return nil
		}
	}
}

// get decodes the JSON document at the path.
func (c *Client) get(ctx context.Context, path string, into any) error {
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(io.LimitReader(res.Body, maxDocument)).Decode(into)
}

// Missing returns the ids that are neither in the list at the path list, which is
// {"data": [{"id": …}]}, nor at the path item followed by the id. If the server has no list or refuses
// the headers, status is that of its response; it is 0 for other errors, which are those of Reason.
func (c *Client) Missing(ctx context.Context, list, item string, ids []string) (missing []string, status int, err error) {
	fail := func(err error) ([]string, int, error) {
		if refused, ok := errors.AsType[*statusError](err); ok {
			return nil, refused.Status, refused
		}
		return nil, 0, errors.New(Reason(err))
	}
	type record struct {
		ID string `json:"id"`
	}
	var all struct {
		Data []record `json:"data"`
	}
	if err := c.get(ctx, list, &all); err != nil {
		return fail(err)
	}
	for _, id := range ids {
		if slices.Contains(all.Data, record{id}) {
			continue
		}
		// A list may be incomplete and has no aliases.
		err := c.get(ctx, item+url.PathEscape(id), &record{})
		var refused *statusError
		switch {
		case errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed):
			missing = append(missing, id)
		case err != nil:
			return fail(err)
		}
	}
	return missing, 0, nil
}

// Reason returns the cause of a failed request without content of request or response.
func Reason(err error) string {
	var status *statusError
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, errTruncated), errors.Is(err, errProtocol):
		return err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer came in time"
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &certificate):
		return certificate.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	}
	for in := errors.Unwrap(err); in != nil; in = errors.Unwrap(err) {
		err = in
	}
	return fmt.Sprintf("the connection failed with a %T", err)
}

// Name returns s if it has the form of an identifier, "-" if it is empty, and "other" for
// other text, which could be a part of a conversation.
func Name(s string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./+", r))
	}
	switch {
	case s == "":
		return "-"
	case len(s) > maxName || strings.ContainsFunc(s, odd):
		return "other"
	}
	return s
}
