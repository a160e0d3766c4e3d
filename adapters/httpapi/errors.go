package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"collab/adapters/encode"
	"collab/adapters/httpapi/stream"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/object"
)

// statusClientClosed is the logged and measured status of a request whose client disconnected before
// the response. It is never sent.
const statusClientClosed = 499

// defaultRetryAfter is the Retry-After of a response whose error has none, in seconds.
const defaultRetryAfter = 5

// statuses maps the kinds of errors to statuses.
var statuses = [...]int{
	fault.Internal:        http.StatusInternalServerError,
	fault.Invalid:         http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden:       http.StatusForbidden,
	fault.NotFound:        http.StatusNotFound,
	fault.Gone:            http.StatusGone,
	fault.Conflict:        http.StatusConflict,
	fault.Stale:           http.StatusPreconditionFailed,
	fault.Mismatch:        http.StatusUnprocessableEntity,
	fault.TooLarge:        http.StatusRequestEntityTooLarge,
	fault.Unsupported:     http.StatusUnsupportedMediaType,
	fault.Limited:         http.StatusTooManyRequests,
	fault.Unavailable:     http.StatusServiceUnavailable,
}

// errorView is an error in a response.
type errorView struct {
	Status     int
	Message    string
	RetryAfter int            // seconds; 0: the header is not sent
	Stored     *object.Object // the object of a conflict, whose metadata the headers have; nil: unknown
}

// viewError returns the view of an error. An error without a kind is a 500 without details.
func viewError(err error) errorView {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return errorView{Status: http.StatusServiceUnavailable, Message: "The request took too long", RetryAfter: defaultRetryAfter}
		}
		e = &fault.Error{}
	}
	r := errorView{Status: statuses[e.Kind], Message: e.Message, RetryAfter: e.RetryAfter}
	if conflict, ok := errors.AsType[*objects.ConflictError](err); ok {
		r.Stored = &conflict.Stored
	}
	switch r.Status {
	case http.StatusInternalServerError:
		r.Message, r.RetryAfter = "Internal server error", 0
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if r.RetryAfter <= 0 {
			r.RetryAfter = defaultRetryAfter
		}
	case http.StatusConflict: // of an idempotency key whose first request is running
	default:
		r.RetryAfter = 0
	}
	return r
}

// fail replies with an error. The cause of a 5xx is logged under the request's id.
func (a *api) fail(c *call, err error) {
	r := a.classify(c, err)
	if c.sent {
		// The status was sent, so aborting the response shows that it is incomplete.
		panic(http.ErrAbortHandler)
	}
	refused := r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable
	if refused && c.r.ProtoMajor == 1 && c.r.Body != http.NoBody && !c.bodyRead {
		// Otherwise net/http reads the rest of the body before it sends the response.
		c.Set("Connection", "close")
	}
	if c.route != nil && c.route.Guard == browser && c.prefersPage() {
		c.writeErrorPage(r)
		return
	}
	c.writeError(r)
}

// classify logs the error of a 5xx and returns its view.
func (a *api) classify(c *call, err error) errorView {
	timedOut := errors.Is(context.Cause(c.r.Context()), stream.ErrTimeout)
	if timedOut {
		err = fault.Wrap(fault.Unavailable, err, "The request took too long")
	}
	r := viewError(err)
	switch {
	case c.clientClosed || !timedOut && c.r.Context().Err() != nil && errors.Is(err, context.Canceled):
		c.clientClosed = true
	case r.Status >= http.StatusInternalServerError:
		level := slog.LevelError
		if r.Status == http.StatusServiceUnavailable {
			level = slog.LevelWarn
		}
		a.Log.LogAttrs(c.r.Context(), level, "request failed",
			slog.String("request", c.id), slog.String("route", c.template()), slog.String("error", err.Error()))
	}
	return r
}

// writeError writes the error as JSON.
func (c *call) writeError(r errorView) {
	h := c.Header()
	delete(h, "Etag")
	delete(h, "Link")
	delete(h, cursorHeader)
	if r.Stored != nil {
		c.setMetadataHeaders(*r.Stored)
		c.Set("Etag", etag(r.Stored.Version))
	}
	if r.RetryAfter > 0 {
		c.Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	if r.Status == http.StatusUnauthorized && c.route != nil && c.route.Guard.token() {
		c.Set("Www-Authenticate", "Bearer")
	}
	b := stream.GetBuffer()
	*b = encode.AppendError(*b, r.Status, r.Message)
	c.send(r.Status, *b)
	stream.PutBuffer(b)
}

// writeErrorPage writes the error as a page.
func (c *call) writeErrorPage(r errorView) {
	if r.RetryAfter > 0 {
		c.Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	// The template cannot fail.
	_ = c.page(r.Status, "problem", map[string]string{"Title": http.StatusText(r.Status), "Message": r.Message, "Request": c.id}, "'none'")
}

// html writes a page under its content security policy.
func (c *call) html(status int, policy string, page []byte) {
	c.Set("Content-Security-Policy", policy)
	c.sendAs([]string{"text/html; charset=utf-8"}, status, page)
}
