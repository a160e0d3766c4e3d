package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

var (
	errElsewhere = errors.New("another origin than the server's")
	errTooMuch   = errors.New("more than is read of a server, or asked of it")
)

// outcome is how the last request went.
type outcome struct {
	status int   // unless it is a success
	err    error // of the request, or of reading its answer
	begun  bool  // there was an answer
}

// exchange is all requests of one look at a server. It gives them their headers,
// bounds them and remembers how they went, which the SDK's errors tell by texts
// alone.
type exchange struct {
	ctx     context.Context // which all of it ends with
	guarded *http.Client
	origin  string
	headers http.Header

	mu       sync.Mutex
	last     outcome // guarded by mu
	settled  bool    // guarded by mu; nothing that comes later says more about the server than last
	requests int     // guarded by mu
	bytes    int64   // guarded by mu; that are left of MaxAnswers
}

func newExchange(ctx context.Context, guarded *http.Client, address *url.URL, headers http.Header) *exchange {
	return &exchange{ctx: ctx, guarded: guarded, origin: originOf(address), headers: headers, bytes: MaxAnswers}
}

// client returns the guarded client with the exchange around its transport.
func (x *exchange) client() *http.Client {
	return &http.Client{Transport: x, CheckRedirect: x.guarded.CheckRedirect}
}

func (x *exchange) outcome() outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// note keeps how a request went. What comes after the exchange's end, or is about
// the end of a session, says nothing about the server; nor does an answer that was
// on its way when the exchange refused to go on, or when the stream of events broke
// by which all answers come.
func (x *exchange) note(r *http.Request, o outcome) {
	if r.Method == http.MethodDelete || x.ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.settled {
		x.last = o
		x.settled = errors.Is(o.err, errTooMuch) || errors.Is(o.err, errElsewhere) ||
			r.Method == http.MethodGet && o.begun && o.err != nil
	}
}

// RoundTrip makes one request to the server, and to nobody else.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.send(r)
	if err != nil {
		x.note(r, outcome{err: err})
		return nil, err
	}
	o := outcome{begun: true}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		o.status = resp.StatusCode
	}
	x.note(r, o)
	return resp, nil
}

func (x *exchange) send(r *http.Request) (*http.Response, error) {
	if err := x.admit(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper does
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(x.ctx, cancel)
	end := func() { stop(); cancel() }
	sent := r.Clone(ctx)
	for name, values := range x.headers {
		sent.Header[name] = values
	}
	next := x.guarded.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(sent)
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &heard{from: resp.Body, x: x, request: r, end: end}
	return resp, nil
}

// admit refuses what is not for the server, and what is too much.
func (x *exchange) admit(r *http.Request) error {
	if originOf(r.URL) != x.origin {
		return errElsewhere
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.requests++; x.requests > maxRequests {
		return errTooMuch
	}
	return nil
}

// heard is the body of an answer.
type heard struct {
	from    io.ReadCloser
	x       *exchange
	request *http.Request
	end     func()
	closed  atomic.Bool
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	h.x.mu.Lock()
	h.x.bytes -= int64(n)
	left := h.x.bytes
	h.x.mu.Unlock()
	if left < 0 {
		n, err = 0, errTooMuch
	}
	if left == 0 && err != nil && err != io.EOF {
		err = errTooMuch // which the guarded client has noticed first
	}
	if err != nil && err != io.EOF && !h.closed.Load() {
		h.x.note(h.request, outcome{err: err, begun: true})
	}
	return n, err
}

func (h *heard) Close() error {
	h.closed.Store(true)
	err := h.from.Close()
	h.end()
	return err
}

// addressOf reads the address of a server. Invalid where it is none to be called.
func addressOf(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || originOf(u) == "" {
		return nil, notCallable()
	}
	return u, nil
}

// originOf returns the origin of an address over HTTP, empty for any other, and
// for one that brings a user along.
func originOf(u *url.URL) string {
	ports := map[string]string{"http": "80", "https": "443"}
	port := ports[u.Scheme]
	if port == "" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	if p := u.Port(); p != "" {
		port = p
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
