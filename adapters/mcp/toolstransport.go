package mcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"collab/adapters/outbound"
	"collab/domain/connector"
)

var (
	errOtherOrigin = errors.New("another origin than the server's")
	errLimit       = errors.New("too many requests, response bytes or JSON values")
)

// outcome is the result of a request.
type outcome struct {
	status    int   // unless it is a success
	err       error // of the request, or of reading its response
	responded bool  // a response was received
}

// refused reports whether the server did not accept the credentials.
func (o outcome) refused() bool {
	return o.status == http.StatusUnauthorized || o.status == http.StatusForbidden
}

// limitedTransport is the http.RoundTripper of one Tools call, or of a session. It sets the headers of the requests,
// enforces limits and records outcomes, which the SDK reports as text alone.
type limitedTransport struct {
	ctx     context.Context // ends all requests
	guarded *http.Client
	address string
	origin  string
	headers http.Header
	values  int // the limit of JSON values of a response

	mu       sync.Mutex
	last     outcome // guarded by mu
	final    bool    // guarded by mu; last does not change any more
	requests int     // guarded by mu
	bytes    int64   // guarded by mu; that remain of MaxResponses

	// unrefused has the POST requests since resetLimits that were not refused with 401 or 403, nor with 404 as their
	// session has ended.
	unrefused map[*http.Request]bool // guarded by mu
}

func newLimitedTransport(ctx context.Context, guarded *http.Client, a connector.Access) (*limitedTransport, error) {
	address, err := addressOf(a.URL)
	if err != nil {
		return nil, err
	}
	headers, err := headersFor(a)
	if err != nil {
		return nil, err
	}
	return &limitedTransport{
		ctx: ctx, guarded: guarded, address: address.String(), origin: outbound.Origin(address), headers: headers,
		values: maxValues, bytes: MaxResponses, unrefused: map[*http.Request]bool{},
	}, nil
}

// resetLimits starts the limits anew for the next call.
func (x *limitedTransport) resetLimits() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.final, x.requests, x.bytes = outcome{}, false, 0, MaxResponses
	clear(x.unrefused)
}

// ineffective reports whether the server has refused all POST requests since resetLimits, if there were any.
func (x *limitedTransport) ineffective() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.unrefused) == 0
}

// client returns the guarded client with x around its transport.
func (x *limitedTransport) client() *http.Client {
	return &http.Client{Transport: x, CheckRedirect: x.guarded.CheckRedirect}
}

func (x *limitedTransport) outcome() outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// record sets the last outcome. It ignores requests after the end of its context, those
// that end a session, and those after a limit or a broken event stream.
func (x *limitedTransport) record(r *http.Request, o outcome) {
	if r.Method == http.MethodDelete || x.ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.final {
		x.last = o
		x.final = errors.Is(o.err, errLimit) || errors.Is(o.err, errOtherOrigin) ||
			r.Method == http.MethodGet && o.responded && o.err != nil
	}
}

// RoundTrip makes a request, which must be to the server's origin.
func (x *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.send(r)
	if err != nil {
		x.record(r, outcome{err: err})
		return nil, err
	}
	o := outcome{responded: true}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		o.status = resp.StatusCode
	}
	if o.refused() || o.status == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "" {
		x.mu.Lock()
		delete(x.unrefused, r)
		x.mu.Unlock()
	}
	x.record(r, o)
	return resp, nil
}

func (x *limitedTransport) send(r *http.Request) (*http.Response, error) {
	if err := x.check(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper does
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(x.ctx, cancel)
	end := func() { stop(); cancel() }
	sent := r.Clone(ctx)
	maps.Copy(sent.Header, x.headers)
	resp, err := x.guarded.Transport.RoundTrip(sent)
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &responseBody{
		buffered: bufio.NewReader(resp.Body), close: resp.Body.Close, transport: x, request: r, end: end,
	}
	return resp, nil
}

// check returns an error for another origin, and beyond the limit of requests.
func (x *limitedTransport) check(r *http.Request) error {
	if outbound.Origin(r.URL) != x.origin || r.URL.User != nil {
		return errOtherOrigin
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.requests++; x.requests > maxRequests {
		return errLimit
	}
	if r.Method == http.MethodPost {
		x.unrefused[r] = true
	}
	return nil
}

// responseBody is a body that counts bytes and JSON values, and records read errors. A Read returns no more than
// the rest of an event: the SDK has several parsers, one after the other, of a stream, each with a buffer of its own, and what
// one of them reads beyond an event is lost.
type responseBody struct {
	buffered  *bufio.Reader
	close     func() error
	transport *limitedTransport
	request   *http.Request
	end       func()
	closed    atomic.Bool
	// Responses to GET are event streams; of others the SDK decides whether they are.
	body   jsonScanner
	events eventScanner
}

// fill reads the buffered bytes, at least one, up to the end of an event.
func (h *responseBody) fill(p []byte) (n int, err error) {
	for n < len(p) && (n == 0 || h.buffered.Buffered() > 0) {
		b, err := h.buffered.ReadByte()
		if err != nil {
			return n, err
		}
		p[n] = b
		n++
		ended, ok := h.events.next(b)
		if !ok || h.request.Method != http.MethodGet && !h.body.next(b) ||
			max(h.events.data.values, h.body.values) > h.transport.values {
			return 0, errLimit
		}
		if ended {
			break
		}
	}
	return n, nil
}

func (h *responseBody) Read(p []byte) (int, error) {
	n, err := h.fill(p)
	h.transport.mu.Lock()
	h.transport.bytes -= int64(n)
	remaining := h.transport.bytes
	h.transport.mu.Unlock()
	if remaining < 0 {
		n, err = 0, errLimit
	}
	if remaining == 0 && err != nil && err != io.EOF {
		err = errLimit // the guarded client's limit is the same and fails first
	}
	if err != nil && err != io.EOF && !h.closed.Load() {
		h.transport.record(h.request, outcome{err: err, responded: true})
	}
	return n, err
}

func (h *responseBody) Close() error {
	h.closed.Store(true)
	err := h.close()
	h.end()
	return err
}

// addressOf parses the URL of a server. It returns Invalid for one that cannot be called.
func addressOf(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return nil, refusedAddress(toolServer)
	}
	return u, nil
}
