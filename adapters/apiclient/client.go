// Package apiclient is a client of the HTTP interface. Its methods and types in api.go are
// generated from docs/openapi.yaml, as far as they are used; the rest is the transport below
// them: tokens and their renewal, idempotency keys, retries, pacing and errors. It is a leaf:
// it imports the standard library alone.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxProblem   = 64 << 10         // bytes read of the body of an error
	maxResponse  = 64 << 20         // bytes read of the body of a response that is neither a list nor a content
	maxWait      = 2 * time.Minute  // for one retry, whatever the server asks for
	firstWait    = time.Second / 4  // before the first retry; twice as long before each further one
	defaultTry   = 6                // attempts for a request
	idleTimeout  = 90 * time.Second // without a byte of a response, three heartbeats of the change feed, or of a body that is taken
	responseWait = 2 * time.Minute  // for the head of a response, after the request was sent
	pingAfter    = 30 * time.Second // without a byte on a connection of HTTP/2, until it is tried
	pingWait     = 15 * time.Second // for the response to a ping, after which the connection is left
)

// Prefix begins every path of the interface.
const Prefix = "/api/v1"

// Config says which server a client speaks to, and as whom.
type Config struct {
	Server    string // the server's address, scheme and host
	Token     string // a service token; empty for operations without a caller
	Operator  string // the operator's secret, for operators' operations
	UserAgent string

	// Renewed, if set, is given each token that replaces Token. It may be called from any
	// goroutine, by one at a time.
	Renewed func(token string)

	Attempts  int               // for each request, 6 if zero
	Transport http.RoundTripper // http.DefaultTransport's settings if nil
	Now       func() time.Time
	// Wait returns after d, or with ctx's error.
	Wait   func(ctx context.Context, d time.Duration) error
	Jitter func(d time.Duration) time.Duration // a random duration in [d/2, d)
	NewKey func() string                       // an idempotency key
}

// Client makes requests to one server. Its methods may be called from several goroutines.
type Client struct {
	Config
	http http.Client

	mu    sync.Mutex
	token string
	next  time.Time // when the next request may begin, if requests are few

	renewal sync.Mutex // held while the token is renewed
}

// New returns a client. It makes no request.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("server address %q: must be like https://collab.example.com", c.Server)
	}
	c.Server = strings.TrimSuffix(c.Server, "/")
	if c.Attempts == 0 {
		c.Attempts = defaultTry
	}
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost, t.ResponseHeaderTimeout = 64, responseWait
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait}
		c.Transport = t
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	if c.Jitter == nil {
		c.Jitter = func(d time.Duration) time.Duration { return d/2 + mathrand.N(d/2+1) }
	}
	if c.NewKey == nil {
		c.NewKey = rand.Text
	}
	// Redirects are not followed: they could take the token to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{Config: c, token: c.Token, http: http.Client{Transport: c.Transport, CheckRedirect: stay}}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Error is a response with a status of 300 or above.
type Error struct {
	Status     int
	Message    string        // the server's sentence
	Code       string        // the status's name, or a code of OAuth
	RequestID  string        // the server's id of the request, or empty
	RetryAfter time.Duration // zero if the server did not say
	Header     http.Header   // in a conflict the record that is stored: ETag and X-Collab headers
}

func (e *Error) Error() string {
	if e.RequestID == "" {
		return fmt.Sprintf("%s (%d)", e.Message, e.Status)
	}
	return fmt.Sprintf("%s (%d, request %s)", e.Message, e.Status, e.RequestID)
}

// Status returns the status of a response that is an error, and 0 for other errors.
func Status(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// unanswered is the error of a request whose response did not come, or is none of the interface.
type unanswered struct{ error }

func (e unanswered) Unwrap() error { return e.error }

// Unanswered reports whether an error says that the interface has not answered a request: nobody has, or something
// else, as a proxy or a network that asks people to sign in.
func Unanswered(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code == ""
	}
	_, ok := errors.AsType[unanswered](err)
	return ok
}

// Content is the raw body of an upload. It is sent again after a refusal if Reader is an
// io.Seeker.
type Content struct {
	Reader io.Reader
	Size   int64  // in bytes; -1 if unknown
	Type   string // the content type; application/octet-stream if empty
}

// Change is a field of a patch: absent if zero, null if it has no value.
type Change[T any] struct {
	set   bool
	value *T
}

// Set changes a field to a value.
func Set[T any](value T) Change[T] { return Change[T]{true, &value} }

// Clear changes a field to null.
func Clear[T any]() Change[T] { return Change[T]{set: true} }

// IsZero reports whether the field is left alone.
func (c Change[T]) IsZero() bool { return !c.set }

// MarshalJSON returns the value or null.
func (c Change[T]) MarshalJSON() ([]byte, error) { return json.Marshal(c.value) }

// List is a response that is an array, read as it arrives.
type List[T any] struct {
	Header http.Header
	body   io.ReadCloser
}

// Close ends the response. All does so itself.
func (l *List[T]) Close() error { return l.body.Close() }

// All returns the records. The last pair has an error if the response is not a whole list.
func (l *List[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		defer l.body.Close()
		var record T
		d := NewDecoder(l.body)
		begin, err := d.Token()
		if err == nil && begin != json.Delim('[') {
			err = fmt.Errorf("it begins with %v", begin)
		}
		for err == nil && d.More() {
			record = *new(T)
			if err = d.Decode(&record); err == nil && !yield(record, nil) {
				return
			}
		}
		if err == nil {
			_, err = d.Token()
		}
		if err != nil {
			yield(*new(T), fmt.Errorf("the answer is not a whole list: %w", unanswered{err}))
		}
	}
}

// As returns the rest of a list with records of another type, such as one with fewer fields.
func As[T, S any](l *List[S]) *List[T] { return &List[T]{l.Header, l.body} }

func list[T any](c *Client, r *request) (*List[T], error) {
	response, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return &List[T]{response.Header, response.Body}, nil
}

func receive[T any](c *Client, r *request) (T, error) {
	response, err := c.send(r)
	if err != nil {
		return *new(T), err
	}
	return Decode[T](response)
}

// Decode reads a response whose JSON is a T, and closes it.
func Decode[T any](response *http.Response) (v T, err error) {
	defer response.Body.Close()
	body := &io.LimitedReader{R: response.Body, N: maxResponse}
	err = NewDecoder(body).Decode(&v)
	if err != nil && body.N == 0 {
		err = fmt.Errorf("the answer has more than %d bytes", maxResponse)
	}
	if err != nil {
		return v, fmt.Errorf("%s %s: %w", response.Request.Method, response.Request.URL.Path, unanswered{err})
	}
	return v, nil
}

// NewDecoder returns a decoder that takes a number of any size, such as 1e400 in the metadata of a task, with each digit.
func NewDecoder(r io.Reader) *json.Decoder {
	d := json.NewDecoder(r)
	d.UseNumber()
	return d
}

// segment returns a value as a segment of a path.
func segment(value string) string { return url.PathEscape(value) }

// request is a request that can be made several times.
type request struct {
	ctx          context.Context
	method, path string // the path with its query
	header       http.Header
	body         func() (io.ReadCloser, error) // nil without one
	size         int64
	resendable   bool // the body can be read again
	open         bool // without credentials
	err          error
}

// Properties of operations.
const (
	open  = 1 << iota // it needs no credentials, and gets none
	keyed             // it takes an idempotency key
)

// keyOfRequest is the context's key of withKey.
type keyOfRequest struct{}

// withKey returns a context with which requests that take an idempotency key have this one.
func withKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfRequest{}, key)
}

// request prepares a request: params is nil or a struct whose fields are tagged with query or
// header, body is nil, a Content or encoded as JSON.
func (c *Client) request(ctx context.Context, method, path string, params, body any, properties int) *request {
	r := &request{ctx: ctx, method: method, path: path, header: http.Header{"User-Agent": {c.UserAgent}}, resendable: true, open: properties&open != 0}
	if properties&keyed != 0 {
		key, chosen := ctx.Value(keyOfRequest{}).(string)
		if !chosen {
			key = c.NewKey()
		}
		r.header.Set("Idempotency-Key", key)
	}
	r.add(params)
	switch body := body.(type) {
	case nil:
	case Content:
		r.raw(body)
	default:
		text, err := json.Marshal(body)
		r.err, r.size = err, int64(len(text))
		r.header.Set("Content-Type", "application/json")
		r.body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	}
	return r
}

// raw has the request send bytes, which are no form and no JSON to the server.
func (r *request) raw(content Content) {
	r.header.Set("Content-Type", cmp.Or(content.Type, "application/octet-stream"))
	r.size = content.Size
	seeker, isSeeker := content.Reader.(io.Seeker)
	r.resendable = isSeeker
	var start int64
	if isSeeker {
		start, r.err = seeker.Seek(0, io.SeekCurrent)
	}
	var last *part
	r.body = func() (io.ReadCloser, error) {
		if last != nil {
			last.end()
			if _, err := seeker.Seek(start, io.SeekStart); err != nil {
				return nil, err
			}
		}
		last = &part{r: content.Reader}
		return io.NopCloser(last), nil
	}
}

// part is the part of content that one request sends. A transport may read it after the request has failed, so it
// is to be ended before another request reads the content.
type part struct {
	mu sync.Mutex
	r  io.Reader // guarded by mu; nil: the part has ended
}

func (p *part) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return p.r.Read(b)
}

func (p *part) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.r = nil
}

// add adds the fields of params that are not zero.
func (r *request) add(params any) {
	if params == nil {
		return
	}
	query := url.Values{}
	v := reflect.ValueOf(params)
	for i := range v.NumField() {
		field := v.Field(i)
		if field.IsZero() {
			continue
		}
		text := fmt.Sprint(reflect.Indirect(field).Interface())
		tag := v.Type().Field(i).Tag
		if name, ok := tag.Lookup("query"); ok {
			query.Set(name, text)
		} else {
			r.header.Set(tag.Get("header"), text)
		}
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
}

// Do makes a request that api.go has no method for. A POST is given an idempotency key. The
// body is nil, a Content or encoded as JSON.
func (c *Client) Do(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	properties := 0
	if method == http.MethodPost {
		properties = keyed
	}
	r := c.request(ctx, method, path, nil, body, properties)
	for name, values := range header {
		r.header[name] = values
	}
	return c.send(r)
}

// send makes the request until it is answered for good, and returns a response with a status
// below 300. The body is to be closed.
func (c *Client) send(r *request) (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	for attempt := 1; ; attempt++ {
		token := ""
		if !r.open {
			token = c.present()
		}
		response, err := c.once(r, token)
		problem, _ := errors.AsType[*Error](err)
		if problem.refusesToken() && token != "" && r.resendable {
			renewed := c.renew(r.ctx, token)
			status := Status(renewed)
			switch {
			case renewed == nil:
				response, err = c.once(r, c.present())
				problem, _ = errors.AsType[*Error](err)
			case status == 0 || status == http.StatusTooManyRequests || status >= 500 || Unanswered(renewed):
				return nil, renewed // the session may still be valid
			}
		}
		if err == nil {
			return response, nil
		}
		if attempt >= c.Attempts || r.ctx.Err() != nil || !r.again(problem, err) {
			return nil, err
		}
		delay := c.Jitter(min(firstWait<<(attempt-1), maxWait))
		if problem != nil {
			delay = max(delay, problem.RetryAfter)
		}
		if delay > maxWait {
			return nil, err
		}
		if waited := c.Wait(r.ctx, delay); waited != nil {
			return nil, waited
		}
	}
}

// refusesToken reports whether e, which may be nil, is the server's refusal of the token. One of a proxy, which refuses
// every token, has neither a code nor the scheme of the server.
func (e *Error) refusesToken() bool {
	return e != nil && e.Status == http.StatusUnauthorized && (e.Code != "" || e.Header.Get("Www-Authenticate") == "Bearer")
}

// again reports whether a request that failed may be made again: it was refused for now, or
// whether it was carried out is unknown and does not matter.
func (r *request) again(problem *Error, err error) bool {
	if !r.resendable {
		return false
	}
	if problem != nil {
		return problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusServiceUnavailable ||
			problem.Status == http.StatusBadGateway || problem.Status == http.StatusGatewayTimeout
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return true // nothing was sent
	}
	return r.method == http.MethodGet || r.method == http.MethodHead || r.header.Get("Idempotency-Key") != ""
}

// once makes the request once, when the pace allows it. It returns a response with a status below 300; the error for
// another is an *Error.
func (c *Client) once(r *request, token string) (*http.Response, error) {
	if err := c.pace(r.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	request, err := http.NewRequestWithContext(ctx, r.method, c.Server+r.path, nil)
	if err != nil {
		cancel(err)
		return nil, err
	}
	request.Header = r.header.Clone()
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if c.Operator != "" && !r.open {
		request.Header.Set("X-Admin-Secret", c.Operator)
	}
	if r.body != nil {
		if request.Body, err = r.body(); err != nil {
			cancel(err)
			return nil, err
		}
		request.ContentLength = r.size
		sent := &sending{ReadCloser: request.Body}
		sent.stalled = time.AfterFunc(idleTimeout, func() { cancel(errStalled) })
		defer sent.end()
		request.Body = sent
	}
	response, err := c.http.Do(request)
	if err != nil {
		cause := context.Cause(ctx)
		cancel(err)
		if cause != nil {
			return nil, cause
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the address has a query
		}
		return nil, fmt.Errorf("%s %s: %w", r.method, c.Server, unanswered{err})
	}
	c.slowDown(response.Header)
	response.Body = &watched{response.Body, ctx, cancel}
	if response.StatusCode >= 300 {
		return nil, problemOf(response)
	}
	return response, nil
}

// errStalled is the cause with which a request ends of which the server takes nothing any more.
var errStalled = fmt.Errorf("the server took nothing for %v", idleTimeout)

// sending is the body of a request. The request ends if the next part of it is not asked for within
// idleTimeout, because what was sent is not taken.
type sending struct {
	io.ReadCloser

	mu       sync.Mutex
	stalled  *time.Timer // guarded by mu; ends the request
	answered bool        // guarded by mu
}

func (s *sending) Read(p []byte) (int, error) {
	s.restart(0) // reading may take any time
	n, err := s.ReadCloser.Read(p)
	if err == nil {
		s.restart(idleTimeout)
	} else {
		s.restart(idleTimeout + responseWait)
	}
	return n, err
}

// restart has the request end after d, or not if d is 0.
func (s *sending) restart(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled.Stop(); d > 0 && !s.answered {
		s.stalled.Reset(d)
	}
}

// end is called when the response has begun.
func (s *sending) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	s.stalled.Stop()
}

// errIdle is the cause with which a response ends of which nothing arrives any more.
var errIdle = fmt.Errorf("the server sent nothing for %v", idleTimeout)

// watched ends a response of which no byte arrives for idleTimeout.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (w *watched) Read(p []byte) (int, error) {
	timer := time.AfterFunc(idleTimeout, func() { w.cancel(errIdle) })
	n, err := w.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && err != io.EOF && context.Cause(w.ctx) != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.cancel(context.Canceled)
	return err
}

// problemOf reads an error and closes the response.
func problemOf(response *http.Response) *Error {
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // what arrived is enough
	e := &Error{Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id"), Header: response.Header}
	var fields struct{ Message, Error string }
	if json.Unmarshal(text, &fields) == nil {
		e.Message, e.Code = fields.Message, fields.Error
	}
	if e.Message == "" {
		e.Message = http.StatusText(response.StatusCode)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

func (c *Client) present() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// renew replaces the token, unless another request has replaced it since.
func (c *Client) renew(ctx context.Context, old string) error {
	c.renewal.Lock()
	defer c.renewal.Unlock()
	if c.present() != old {
		return nil
	}
	session, err := c.RefreshToken(ctx, Refresh{Token: old})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.token = session.Token
	c.mu.Unlock()
	if c.Renewed != nil {
		c.Renewed(session.Token)
	}
	return nil
}

// pace waits until the next request may begin.
func (c *Client) pace(ctx context.Context) error {
	c.mu.Lock()
	delay := c.next.Sub(c.Now())
	c.mu.Unlock()
	if delay <= 0 {
		return nil
	}
	return c.Wait(ctx, min(delay, maxWait))
}

// slowDown has requests begin no faster than the server admits them once less than a
// twentieth of the limit remains.
func (c *Client) slowDown(h http.Header) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(h.Get(name), 10, 64)
		return n
	}
	limit, remaining, reset := number("RateLimit-Limit"), number("RateLimit-Remaining"), number("RateLimit-Reset")
	if limit <= 0 || remaining >= limit/20 || remaining >= limit {
		return
	}
	each := time.Duration(reset) * time.Second / time.Duration(limit-remaining)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.Now(); c.next.Before(now) {
		c.next = now
	}
	c.next = c.next.Add(each)
}
