package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
)

var (
	noSniff = []string{"nosniff"}
	noStore = []string{"no-store"}
	private = []string{"private, no-cache"}

	noReferrer = []string{"no-referrer"}
)

// ServeHTTP implements http.Handler. Around CORS and the routes it gives the request an id,
// recovers from panics, and records a log line, a duration and a span.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r, began: a.Now(), address: limit.ClientAddress(r, a.Proxies), id: a.requestID(r), budgets: a.budgets}
	c.deadlines = stream.Start(c, r, c.began)
	c.Set("X-Request-Id", c.id)
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = private
	a.active.Add(1)
	if a.Tracer == nil {
		defer a.finish(c)
		a.inner.ServeHTTP(c, r)
		return
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := a.Tracer.Start(ctx, methodLabel(r.Method), trace.WithSpanKind(trace.SpanKindServer))
	defer endSpan(span, c)
	defer a.finish(c)
	c.r = r.WithContext(ctx)
	a.inner.ServeHTTP(c, c.r)
}

// requestID returns the client's id of the request if it is safe to log, else a new one.
func (a *api) requestID(r *http.Request) string {
	if v := r.Header["X-Request-Id"]; len(v) == 1 && isSafeID(v[0]) {
		return v[0]
	}
	return a.NewID()
}

func isSafeID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 128
}

// finish ends a request: it replies to a panic, releases budgets, and records the outcome.
func (a *api) finish(c *call) {
	aborted := false
	switch p := recover(); {
	case p == nil:
	case isAbort(p):
		aborted = true
	default:
		a.Log.LogAttrs(c.r.Context(), slog.LevelError, "panic",
			slog.String("request", c.id), slog.String("route", c.template()), slog.String("error", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		if aborted = c.sent; !aborted {
			c.writeError(viewError(nil))
		}
	}
	if c.clientClosed {
		c.status = statusClientClosed
	} else if c.status == 0 {
		c.status = http.StatusOK // a hijacked connection, or an empty response
	}
	c.releaseAll()
	a.active.Add(-1)
	ended := a.Now()
	s := a.unmatched
	if c.route != nil {
		s = c.route.series
	}
	ctx := c.r.Context()
	entry := s.entryOf(outcome{methodLabel(c.r.Method), c.status})
	a.duration.Record(ctx, ended.Sub(c.began).Seconds(), entry.options...)
	a.recent.add(ended, ended.Sub(c.began), c.status)
	level := slog.LevelInfo
	if c.route != nil && c.route.Guard == unlimited {
		level = slog.LevelDebug // probes and scrapes
	}
	if entry.line.Enabled(ctx, level) {
		a.log(ctx, level, c, entry.line, ended)
	}
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// requestLine is the message of the log line of a request.
const requestLine = "request"

// log writes the line of a request without query, header and body, as they may contain
// secrets.
func (a *api) log(ctx context.Context, level slog.Level, c *call, handler slog.Handler, at time.Time) {
	record := slog.NewRecord(at, level, requestLine, 0)
	record.AddAttrs(
		slog.Float64("duration_seconds", at.Sub(c.began).Seconds()),
		slog.Int64("bytes", c.bytes),
		slog.String("request", c.id),
		slog.String("address", c.address))
	if c.caller.User != "" {
		record.AddAttrs(slog.String("user", string(c.caller.User)))
	}
	if c.caller.Org != "" {
		record.AddAttrs(slog.String("org", string(c.caller.Org)))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace", span.TraceID().String()))
	}
	_ = handler.Handle(ctx, record) // an error of the log cannot be logged
}

func endSpan(span trace.Span, c *call) {
	span.SetName(methodLabel(c.r.Method) + " " + c.template())
	span.SetAttributes(
		attribute.String("http.request.method", methodLabel(c.r.Method)),
		attribute.String("http.route", c.template()),
		attribute.Int("http.response.status_code", c.status),
		attribute.String("request.id", c.id))
	if c.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// methodLabel returns the method as a label, or _OTHER for an unknown method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "_OTHER"
}

// series records the requests of one route. Attributes of a method and status are made once,
// which saves allocations.
type series struct {
	route    string
	log      slog.Handler
	outcomes atomic.Pointer[map[outcome]*entry]
}

type outcome struct {
	method string
	status int
}

// entry has the options that requests with the same outcome share.
type entry struct {
	options []metric.RecordOption // of their durations
	line    slog.Handler          // of their log lines, with the common attributes
}

func (a *api) newSeries(route string) *series {
	s := &series{route: route, log: a.Log.Handler()}
	s.outcomes.Store(&map[outcome]*entry{})
	return s
}

func (s *series) entryOf(key outcome) *entry {
	for {
		known := s.outcomes.Load()
		if n, ok := (*known)[key]; ok {
			return n
		}
		extended := maps.Clone(*known)
		extended[key] = &entry{
			options: []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
				attribute.String("http.request.method", key.method),
				attribute.String("http.route", s.route),
				attribute.Int("http.response.status_code", key.status)))},
			line: s.log.WithAttrs([]slog.Attr{slog.String("method", key.method), slog.String("route", s.route), slog.Int("status", key.status)}),
		}
		s.outcomes.CompareAndSwap(known, &extended)
	}
}
