package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/test/must"
)

func TestValidRequestIDsAreEchoed(t *testing.T) {
	a := newAPI(t)
	for sent, echoed := range map[string]bool{
		"abc-123_X.Z": true, "": false, "a b": false, "a\"b": false, "é": false, "a\nb": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		r := get("/healthz")
		r.Header["X-Request-Id"] = []string{sent}
		got := send(a, r).Header().Get("X-Request-Id")
		if (got == sent) != echoed || !echoed && !strings.HasPrefix(got, "id-") {
			t.Errorf("the id of a request with %q is %q", sent, got)
		}
	}
	r := get("/healthz")
	r.Header["X-Request-Id"] = []string{"a", "b"}
	if got := send(a, r).Header().Get("X-Request-Id"); !strings.HasPrefix(got, "id-") {
		t.Errorf("the id of a request with two is %q", got)
	}
}

// logging returns an option that writes the log to the buffer.
func logging(level slog.Level) (func(*Options), *bytes.Buffer) {
	var b bytes.Buffer
	return func(o *Options) {
		o.Log = slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level}))
	}, &b
}

// lines decodes the lines of a log.
func lines(t testing.TB, b *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(b.Bytes()) {
		var attrs map[string]any
		must.NoError(t, json.Unmarshal(line, &attrs))
		all = append(all, attrs)
	}
	return all
}

// onlyLine returns the only line of a log.
func onlyLine(t testing.TB, b *bytes.Buffer) map[string]any {
	t.Helper()
	all := lines(t, b)
	if len(all) != 1 {
		t.Fatalf("the log is %v, want one line", all)
	}
	return all[0]
}

func TestRequestLogLine(t *testing.T) {
	logs, b := logging(slog.LevelInfo)
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	a := serveEndpoint(t, http.MethodPost, public, func(c *call) error {
		c.caller = access.Caller{User: "user-1", Org: "org-1"}
		manual.Advance(1500 * time.Millisecond)
		return c.succeed()
	}, logs, func(o *Options) { o.Now = manual.Now })
	send(a, post("/test?token=hidden", `{"password":"hidden"}`, "Authorization: Bearer hidden", "X-Request-Id: r-1"))
	if strings.Contains(b.String(), "hidden") {
		t.Errorf("a secret is in the log: %s", b)
	}
	line := onlyLine(t, b)
	delete(line, "time")
	must.Equal(t, map[string]any{
		"level": "INFO", "msg": "request", "method": "POST", "route": "/test", "status": 200.0, "duration_seconds": 1.5, "bytes": float64(len(success)),
		"request": "r-1", "address": "192.0.2.1", "user": "user-1", "org": "org-1",
	}, line)
}

func TestRequestLogLineHasForwardedAddress(t *testing.T) {
	logs, b := logging(slog.LevelInfo)
	a := serveEndpoint(t, http.MethodGet, public, (*call).succeed, logs, func(o *Options) { o.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	for remote, want := range map[string]string{"10.0.0.1:1": "192.0.2.1", "192.0.2.9:1": "192.0.2.9"} {
		r := get("/test", "X-Forwarded-For: 198.51.100.1, 192.0.2.1")
		r.RemoteAddr = remote
		b.Reset()
		send(a, r)
		must.Equal[any](t, want, onlyLine(t, b)["address"])
	}
}

func TestUnlimitedEndpointsAreLoggedAtDebug(t *testing.T) {
	logs, b := logging(slog.LevelInfo)
	send(newAPI(t, logs), get("/healthz"))
	must.Is(t, "", b.String())
}

func TestInternalErrorsAreLoggedAndNotSent(t *testing.T) {
	for name, test := range map[string]struct {
		handle handler
		status int
	}{
		"unknown error":          {func(*call) error { return errors.New("disk on fire") }, 500},
		"internal fault":         {func(*call) error { return fault.New(fault.Internal, "disk on fire") }, 500},
		"panic":                  {func(*call) error { panic("disk on fire") }, 500},
		"unavailable dependency": {func(*call) error { return fault.Wrap(fault.Unavailable, errors.New("disk on fire"), "Later") }, 503},
	} {
		t.Run(name, func(t *testing.T) {
			logs, b := logging(slog.LevelWarn)
			w := send(serveEndpoint(t, http.MethodGet, public, test.handle, logs), get("/test"))
			checkError(t, w, test.status)
			if strings.Contains(w.Body.String(), "fire") {
				t.Errorf("the response is %s", w.Body)
			}
			if (w.Header().Get("Retry-After") != "") != (test.status == 503) {
				t.Errorf("Retry-After is %q", w.Header().Get("Retry-After"))
			}
			line := onlyLine(t, b)
			if !strings.Contains(fmt.Sprint(line["error"]), "disk on fire") || line["request"] != "id-1" {
				t.Errorf("logged %v", line)
			}
		})
	}
}

func TestPanicAfterFlushAbortsTheConnection(t *testing.T) {
	server := httptest.NewServer(serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		_, _ = c.Write([]byte("half"))
		_ = c.FlushError()
		panic("boom")
	}))
	defer server.Close()
	response := must.Do(server.Client().Get(server.URL + "/test")).Or(t)
	defer response.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(response.Body); err == nil {
		t.Errorf("the response ended with %q and no error", &b)
	}
}

func TestCancelledRequestIsLoggedAs499(t *testing.T) {
	logs, b := logging(slog.LevelInfo)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		return fault.Wrap(fault.Unavailable, c.r.Context().Err(), "Later")
	}, logs)
	send(a, get("/test").WithContext(ctx))
	if line := onlyLine(t, b); line["status"] != 499.0 || line["level"] != "INFO" {
		t.Errorf("logged %v", line)
	}
}

func TestStatusOfErrorKinds(t *testing.T) {
	for kind, status := range map[fault.Kind]int{
		fault.Invalid: 400, fault.Unauthenticated: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Gone: 410, fault.Conflict: 409, fault.Stale: 412,
		fault.TooLarge: 413, fault.Unsupported: 415, fault.Mismatch: 422, fault.Limited: 429, fault.Internal: 500, fault.Unavailable: 503,
		fault.Kind(200): 500,
	} {
		w := send(serveEndpoint(t, http.MethodGet, public, func(*call) error { return fmt.Errorf("outer: %w", fault.New(kind, "Because")) }), get("/test"))
		if e := checkError(t, w, status); status != 500 && e.Message != "Because" {
			t.Errorf("the message of %d is %q", status, e.Message)
		}
	}
	must.Is(t, 503, viewError(context.DeadlineExceeded).Status)
}

// collecting returns an option with a meter, and a function that returns its metrics.
func collecting(t testing.TB) (func(*Options), func() []metricdata.Metrics) {
	reader := sdkmetric.NewManualReader()
	return func(o *Options) { o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test") }, func() []metricdata.Metrics {
		var all metricdata.ResourceMetrics
		must.NoError(t, reader.Collect(context.Background(), &all))
		return all.ScopeMetrics[0].Metrics
	}
}

// sums returns the values of counters by their names, each followed by the value of its attribute.
func sums(all []metricdata.Metrics) map[string]int64 {
	values := map[string]int64{}
	for _, m := range all {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range sum.DataPoints {
				name := m.Name
				for _, a := range p.Attributes.ToSlice() {
					name += a.Value.AsString()
				}
				values[name] = p.Value
			}
		}
	}
	return values
}

func TestRequestMetrics(t *testing.T) {
	meter, collect := collecting(t)
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	inFlight := int64(0)
	a := serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		manual.Advance(time.Second)
		inFlight = sums(collect())["http.server.active_requests"]
		return c.succeed()
	}, meter, func(o *Options) { o.Now = manual.Now })
	send(a, get("/test"))
	send(a, get("/test?x=1"))
	send(a, httptest.NewRequest("BREW", "/test", nil))
	must.Is(t, 1, inFlight)
	var got []string
	for _, m := range collect() {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "http.server.request.duration" {
			for _, p := range h.DataPoints {
				value := func(k string) string { v, _ := p.Attributes.Value(attribute.Key(k)); return v.String() }
				got = append(got, fmt.Sprintf("%s %s %s: %d in %gs", value("http.request.method"), value("http.route"), value("http.response.status_code"), p.Count, p.Sum))
			}
		}
	}
	slices.Sort(got)
	must.Equal(t, []string{"GET /test 200: 2 in 2s", "_OTHER unmatched 405: 1 in 0s"}, got)
}

func TestRequestSpanContinuesTheTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	logs, b := logging(slog.LevelInfo)
	a := serveEndpoint(t, http.MethodGet, public, func(*call) error { return errors.New("broken") }, logs, func(o *Options) {
		o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	})
	send(a, get("/test?secret=1", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans", len(ended))
	}
	s := ended[0]
	if s.Name() != "GET /test" || s.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || s.Parent().SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("%s %s under %s", s.Name(), s.SpanContext().TraceID(), s.Parent().SpanID())
	}
	if text := fmt.Sprint(s.Attributes()); strings.Contains(text, "secret") || !strings.Contains(text, "id-1") || !strings.Contains(text, "500") {
		t.Errorf("attributes %s", text)
	}
	if all := lines(t, b); all[len(all)-1]["trace"] != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("logged %v", all)
	}
}

func TestNoOriginIsAllowedByDefault(t *testing.T) {
	w := send(newAPI(t), get("/api/v1/tasks", "Origin: https://app.example"))
	must.Is(t, "", w.Header().Get("Access-Control-Allow-Origin"))
}

func TestGuardsCheckRoles(t *testing.T) {
	roles := append(org.Roles(), "")
	for g, allowed := range map[guard][]org.Role{
		caller:  roles,
		member:  org.Roles(),
		writer:  {org.Owner, org.Admin, org.Member},
		manager: {org.Owner, org.Admin},
		owner:   {org.Owner},
	} {
		for _, role := range roles {
			actor := org.Actor{User: "u", Role: role}
			if role != "" {
				actor.Org = "o"
			}
			err := g.check(actor)
			if (err == nil) != slices.Contains(allowed, role) || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s of %q: %v", g, role, err)
			}
		}
	}
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", "BEARER  abc ": "abc", "Basic abc": "", "abc": "", "Bearer": "", "": "",
	} {
		if got := bearer([]string{header}); got != want {
			t.Errorf("%q is %q, want %q", header, got, want)
		}
	}
	if bearer(nil) != "" || bearer([]string{"Bearer a", "Bearer b"}) != "" {
		t.Error("a token without a header, or of two headers")
	}
}

func TestCookieOfAFailedSignInIsRemoved(t *testing.T) {
	w := send(newAPI(t), get("/api/v1/auth/cli-callback?state=%3Cscript%3E"))
	checkError(t, w, 400)
	must.Is(t, "collab_cli=; Path=/api/v1/auth; Max-Age=0; HttpOnly; Secure; SameSite=Lax", w.Header().Get("Set-Cookie"))
}
