package otlp_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"collab/adapters/otlp"
	"collab/test/must"
)

// spans are two spans with everything that spans can have.
func spans() []sdktrace.ReadOnlySpan {
	start := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	at := func(span byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{0xfb, 0xff, 3, 15: 0x9a}, SpanID: trace.SpanID{0xfe, 7: span}, TraceFlags: trace.FlagsSampled,
		})
	}
	attributes := []attribute.KeyValue{
		attribute.String("s", "ü\n"), attribute.Int64("i", -1), attribute.Bool("b", true),
		attribute.Float64("f", 1e300), attribute.StringSlice("l", []string{"x", "y"}),
	}
	res := resource.NewSchemaless(attribute.String("service.name", "test"))
	return tracetest.SpanStubs{
		{
			Name: "parent", SpanContext: at(1), SpanKind: trace.SpanKindServer, Resource: res,
			StartTime: start, EndTime: start.Add(time.Second),
			Attributes: attributes, Links: []sdktrace.Link{{SpanContext: at(3), Attributes: attributes}}, DroppedAttributes: 2,
			InstrumentationScope: instrumentation.Scope{Name: "scope", Version: "1"},
		},
		{
			Name: "child", SpanContext: at(2), Parent: at(1), SpanKind: trace.SpanKindClient, Resource: res,
			StartTime: start, EndTime: start.Add(2 * time.Second),
			Events:               []sdktrace.Event{{Name: "event", Time: start, Attributes: attributes}},
			Status:               sdktrace.Status{Code: codes.Error, Description: "failed"},
			InstrumentationScope: instrumentation.Scope{Name: "scope", Version: "1"},
		},
	}.Snapshots()
}

// request is a request that a collector received.
type request struct {
	TLS, Path, Query, Certificate string
	Header                        http.Header
	Body                          any
}

// collector records requests and responds to them.
type collector struct {
	t        *testing.T
	received []request
	status   int
	header   http.Header
	response []byte
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := request{Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone()}
	if r.TLS != nil {
		got.TLS = "TLS"
		for _, certificate := range r.TLS.PeerCertificates {
			got.Certificate += certificate.SerialNumber.String()
		}
	}
	got.Header.Del("Content-Length") // OpenTelemetry's client has none with compression
	var content io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		content = plain
	}
	body := must.Do(io.ReadAll(content)).Or(c.t)
	got.Body = body
	if r.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(body, &got.Body); err != nil {
			c.t.Errorf("%v: %s", err, body)
		}
	}
	c.received = append(c.received, got)
	for name := range c.header {
		w.Header().Set(name, c.header.Get(name))
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	_, _ = w.Write(c.response)
}

// export sends the spans with a client and returns the received requests.
func (c *collector) export(t *testing.T, client otlptrace.Client) ([]request, error) {
	t.Helper()
	c.received = nil
	e, err := otlptrace.New(t.Context(), client)
	if err == nil {
		err = errors.Join(e.ExportSpans(t.Context(), spans()), e.Shutdown(t.Context()))
	}
	return c.received, err
}

// servers returns the addresses of the collector without and with TLS, and the files of its
// certificate and key.
func (c *collector) servers(t *testing.T) (plain, secure, certificate, key string) {
	t.Helper()
	p, s := httptest.NewServer(c), httptest.NewUnstartedServer(c)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients without the certificate
	s.StartTLS()
	t.Cleanup(p.Close)
	t.Cleanup(s.Close)
	pair := s.TLS.Certificates[0]
	private := must.Do(x509.MarshalPKCS8PrivateKey(pair.PrivateKey)).Or(t)
	file := func(name, kind string, content []byte) string {
		name = filepath.Join(t.TempDir(), name)
		must.NoError(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return name
	}
	return p.URL, s.URL, file("certificate", "CERTIFICATE", pair.Certificate[0]), file("key", "PRIVATE KEY", private)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRequestsAreThoseOfOpenTelemetrysClient(t *testing.T) {
	c := &collector{t: t}
	plain, secure, certificate, key := c.servers(t)
	fill := strings.NewReplacer("{plain}", plain, "{secure}", secure, "{host}", strings.TrimPrefix(plain, "http://"),
		"{certificate}", certificate, "{key}", key)
	for _, variables := range []string{ // each after OTEL_EXPORTER_OTLP_
		"ENDPOINT={plain}",
		"ENDPOINT={plain}/",
		"ENDPOINT= {plain}/a/../b//c/?q=1",
		"ENDPOINT=HTTP://{host}",
		"ENDPOINT={secure}|TRACES_ENDPOINT={plain}",
		"ENDPOINT={secure}|TRACES_ENDPOINT={plain}/as/it//is/",
		"ENDPOINT={plain}|TRACES_ENDPOINT=http://[",
		"ENDPOINT=https://{host}|INSECURE=true",
		"ENDPOINT={plain}|INSECURE=true|TRACES_INSECURE=no|CERTIFICATE={certificate}", // TLS to a server without it
		"ENDPOINT={secure}",                                                           // unknown to the client
		"ENDPOINT={secure}|CERTIFICATE={certificate}",
		"ENDPOINT={secure}|CERTIFICATE=/none|TRACES_CERTIFICATE={certificate}",
		"ENDPOINT={secure}|CERTIFICATE={certificate}|TRACES_CERTIFICATE={key}",
		"ENDPOINT={secure}|CERTIFICATE={certificate}|CLIENT_CERTIFICATE={certificate}|CLIENT_KEY={key}",
		"ENDPOINT={secure}|CERTIFICATE={certificate}|TRACES_CLIENT_CERTIFICATE={certificate}|TRACES_CLIENT_KEY={key}",
		"ENDPOINT={secure}|CERTIFICATE={certificate}|TRACES_CLIENT_CERTIFICATE={certificate}|CLIENT_KEY={key}",
		"ENDPOINT={plain}|CERTIFICATE={certificate}", // refused
		"ENDPOINT={plain}|HEADERS=X-Key=a%20b%3D, x-other = 1 ,Basic=dXNlcg==,,none,=nameless,no name=1,bad=%zz",
		"ENDPOINT={plain}|HEADERS=X-Key=1,X-More=2|TRACES_HEADERS=x-key=3",
		"ENDPOINT={plain}|HEADERS=User-Agent=mine,Content-Type=text/plain",
		"ENDPOINT={plain}|COMPRESSION=gzip",
		"ENDPOINT={plain}|COMPRESSION=gzip|TRACES_COMPRESSION=none",
		"ENDPOINT={plain}|PROTOCOL=http/json|TRACES_COMPRESSION=gzip",
		"ENDPOINT={plain}|PROTOCOL=http/json|TRACES_PROTOCOL=http/protobuf",
		"ENDPOINT={plain}|TRACES_PROTOCOL=http/json",
		"ENDPOINT={plain}|PROTOCOL=grpc|TIMEOUT=soon",
	} {
		t.Run(variables, func(t *testing.T) {
			for variable := range strings.SplitSeq(variables, "|") {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv("OTEL_EXPORTER_OTLP_"+name, fill.Replace(value))
			}
			want, wantErr := c.export(t, otlptracehttp.NewClient())
			got, err := c.export(t, otlp.NewClient(true))
			if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) || (err == nil) != (len(got) == 1) {
				t.Errorf("errors %v and %v, requests (-OpenTelemetry's +ours):\n%s", wantErr, err, diff)
			}
		})
	}
}

func TestResponsesAreReadAsByOpenTelemetrysClient(t *testing.T) {
	partial := &collectorpb.ExportTraceServiceResponse{
		PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "too old"},
	}
	asProtobuf, err1 := proto.Marshal(partial)
	asJSON, err2 := protojson.Marshal(partial)
	partial.PartialSuccess.RejectedSpans = 0
	warning, err3 := proto.Marshal(partial)
	must.NoError(t, errors.Join(err1, err2, err3))
	for name, row := range map[string]struct {
		status   int
		kind     string
		response []byte
		want     string // part of the error, which OpenTelemetry's has too
	}{
		"all taken":           {200, "application/x-protobuf", nil, ""},
		"all taken, as JSON":  {200, "application/json", []byte(`{"partialSuccess":{}}`), ""},
		"some taken":          {200, "application/x-protobuf", asProtobuf, "2 spans"},
		"some taken, as JSON": {202, "application/json", asJSON, "too old"},
		"a warning":           {200, "application/x-protobuf", warning, "too old"},
		"another type":        {200, "text/plain", asProtobuf, ""},
		"too much":            {200, "text/plain", make([]byte, 4<<20+1), "too l"},
		"no key":              {401, "text/plain", []byte(" no key \n"), "no key"},
		"a failure":           {500, "application/json", []byte(`{"code":13}`), `{"code":13}`},
		"a redirect":          {307, "text/plain", []byte("elsewhere"), "307"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &collector{t: t, status: row.status, header: http.Header{"Content-Type": {row.kind}}, response: row.response}
			plain, _, _, _ := c.servers(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", plain)
			for _, client := range []otlptrace.Client{otlptracehttp.NewClient(), otlp.NewClient(true)} {
				got, err := c.export(t, client)
				if len(got) != 1 || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
					t.Errorf("%T: %d requests, %v", client, len(got), err)
				}
			}
		})
	}
}

func TestErrorsQuoteLittleOfResponsesAndNoSecrets(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=Bearer%20of-the-collector")
	var written atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		response := []byte(strings.TrimPrefix(r.Header.Get("api-key"), "Bearer ") + strings.Repeat(" is no key", 1<<12))
		for r.URL.Path == "/endless/v1/traces" && written.Load() < 1<<28 {
			n, err := w.Write(response)
			if written.Add(int64(n)); err != nil {
				return
			}
		}
		_, _ = w.Write(response)
	}))
	defer s.Close()
	for path, want := range map[string]string{"": "… is no key", "/endless": "too long"} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL+path)
		_, err := (&collector{}).export(t, otlp.NewClient(false))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 || strings.Contains(err.Error(), "of-the-collector") {
			t.Errorf("%q: %v", path, err)
		}
	}
	if written.Load() > 1<<26 {
		t.Errorf("%d bytes of an endless answer were read", written.Load())
	}
}

// collectorFunc replies to requests without a network.
type collectorFunc func(*http.Request) (*http.Response, error)

func (f collectorFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestsAreRepeatedForAMinute(t *testing.T) {
	const second = time.Second
	for name, row := range map[string]struct {
		retries                bool
		status                 int
		retryAfter             string
		minElapsed, maxElapsed time.Duration // from the first request to the end
		requests               int           // minimum
	}{
		"the collector is overloaded":   {true, 503, "", 60 * second, 105 * second, 3},
		"it limits rates":               {true, 429, "0", 60 * second, 105 * second, 3},
		"it says when":                  {true, 502, "25", 50 * second, 50 * second, 3},
		"it gives the hour":             {true, 504, "Sat, 01 Jan 2000 00:00:20 GMT", 60 * second, 105 * second, 3},
		"it says when, and that is far": {true, 503, "61", 0, 0, 1},
		"it says never":                 {true, 503, "99999999999", 0, 0, 1},
		"it has an error":               {true, 500, "1", 0, 0, 1},
		"nothing is repeated":           {false, 503, "1", 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, requests := time.Now(), 0
				c := otlp.NewClient(row.retries)
				c.SetTransport(collectorFunc(func(r *http.Request) (*http.Response, error) {
					if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 {
						t.Errorf("request %d: %d bytes, %v", requests, len(body), err)
					}
					requests++
					return &http.Response{
						StatusCode: row.status, Header: http.Header{"Retry-After": {row.retryAfter}}, Body: io.NopCloser(strings.NewReader("later")),
					}, nil
				}))
				e, err := otlptrace.New(t.Context(), c)
				must.NoError(t, err)
				err = e.ExportSpans(t.Context(), spans())
				took := time.Since(start)
				if err == nil || !strings.HasSuffix(err.Error(), ": later") || requests < row.requests || took < row.minElapsed || took > row.maxElapsed {
					t.Errorf("%d requests in %v, %v", requests, took, err)
				}
			})
		})
	}
}

func TestShutdownCancelsRequestsAndBackoff(t *testing.T) {
	for name, busy := range map[string]bool{"a request": true, "backoff": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := otlp.NewClient(true)
				c.SetTransport(collectorFunc(func(r *http.Request) (*http.Response, error) {
					if busy {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
				}))
				e, err := otlptrace.New(t.Context(), c)
				must.NoError(t, err)
				start, ended := time.Now(), make(chan error)
				go func() { ended <- e.ExportSpans(t.Context(), spans()) }()
				synctest.Wait()
				err = e.Shutdown(t.Context())
				if exportErr := <-ended; err != nil || !errors.Is(exportErr, context.Canceled) || time.Since(start) > 0 {
					t.Errorf("got %v after %v, %v", exportErr, time.Since(start), err)
				}
			})
		})
	}
}

func TestUnansweredExportsAreRetried(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
	synctest.Test(t, func(t *testing.T) {
		start, requests := time.Now(), 0
		c := otlp.NewClient(true)
		c.SetTransport(collectorFunc(func(r *http.Request) (*http.Response, error) {
			if requests++; requests > 1 {
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			}
			<-r.Context().Done()
			if took := time.Since(start); took != 1500*time.Millisecond {
				t.Errorf("the request ends after %v", took)
			}
			return nil, r.Context().Err()
		}))
		if err := c.UploadTraces(t.Context(), nil); err != nil || requests != 2 {
			t.Errorf("%d requests, %v", requests, err)
		}
	})
}
