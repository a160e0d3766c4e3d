package prometheus_test

import (
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/testing/protocmp"

	"collab/adapters/prometheus"
	"collab/test/must"
)

type families map[string]*dto.MetricFamily

// scrape returns what a handler answers, as Prometheus reads it.
func scrape(t *testing.T, h http.Handler) families {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	kind := w.Header().Get("Content-Type")
	if w.Code != http.StatusOK || !strings.HasPrefix(kind, "text/plain; version=0.0.4; charset=utf-8") {
		t.Fatalf("%d, %s: %s", w.Code, kind, w.Body)
	}
	return parse(t, w.Body)
}

func parse(t *testing.T, r io.Reader) families {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return must.Do(parser.TextToMetricFamilies(r)).Or(t)
}

// takeProcessFamilies removes the families of the process and of Go's runtime and returns them.
func takeProcessFamilies(all families) families {
	own := families{}
	for name, f := range all {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			own[name] = f
			delete(all, name)
		}
	}
	return own
}

// scrapeBoth scrapes a few instruments and the process by Handler and by OpenTelemetry's exporter.
func scrapeBoth(t *testing.T) (ours, theirs families) {
	t.Helper()
	registry := client.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	other := must.Do(exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())).Or(t)
	own := sdkmetric.NewManualReader()
	res := resource.NewSchemaless(attribute.String("service.name", "a \"name\" \\ of\ntwo lines"), attribute.Int("host.cpus", 2))
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(own), sdkmetric.WithReader(other), sdkmetric.WithResource(res))
	m, ctx := provider.Meter("test"), t.Context()
	sets := []metric.MeasurementOption{
		metric.WithAttributes(),
		metric.WithAttributes(attribute.String("http.route", `/a "quoted" \ route`+"\nin lines"), attribute.Int("status-code", 200)),
		metric.WithAttributes(attribute.Bool("b.c", true), attribute.Float64("a", 0.5), attribute.StringSlice("list", []string{"x", "y"})),
	}
	seconds := metric.WithExplicitBucketBoundaries(.0005, .001, .5, 1, 2.5, 10)
	for i, set := range sets {
		n := int64(i+1) * 1e6
		must.Get(m.Int64Counter("requests", metric.WithDescription("Requests \\ of\nall."))).Add(ctx, n, set)
		must.Get(m.Int64Counter("already.total", metric.WithUnit("{thing}"))).Add(ctx, n, set)
		must.Get(m.Float64Counter("cpu.time", metric.WithUnit("s"))).Add(ctx, float64(n)/3, set)
		must.Get(m.Int64UpDownCounter("memory.held", metric.WithUnit("By"))).Add(ctx, -n, set)
		must.Get(m.Float64UpDownCounter("level")).Add(ctx, 1e-9, set)
		must.Get(m.Int64Gauge("size_bytes", metric.WithUnit("By"))).Record(ctx, math.MaxInt64, set)
		must.Get(m.Float64Gauge("ends", metric.WithUnit("s"))).Record(ctx, math.Inf(1-2*i), set)
		duration := must.Get(m.Float64Histogram("duration", metric.WithUnit("s"), seconds))
		tokens := must.Get(m.Int64Histogram("tokens", metric.WithUnit("{token}"), metric.WithExplicitBucketBoundaries(1, 67108864)))
		for _, value := range []float64{0, .0005, .75, 3, 11} {
			duration.Record(ctx, value, set)
			tokens.Record(ctx, n*int64(value), set)
		}
	}
	runtime.GC()
	return scrape(t, prometheus.Handler(own)), scrape(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}

func TestMetricsAreThoseOfOpenTelemetrysExporter(t *testing.T) {
	ours, theirs := scrapeBoth(t)
	takeProcessFamilies(ours)
	takeProcessFamilies(theirs)
	if len(theirs) != 10 {
		t.Errorf("the exporter has %d families", len(theirs))
	}
	if diff := cmp.Diff(theirs, ours, protocmp.Transform(),
		protocmp.SortRepeated(func(a, b *dto.LabelPair) bool { return a.GetName() < b.GetName() }),
		protocmp.SortRepeated(func(a, b *dto.Metric) bool { return signature(a) < signature(b) })); diff != "" {
		t.Errorf("(-exporter +ours):\n%s", diff)
	}
}

// signature is a text with the labels of a metric.
func signature(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

func TestFiguresOfTheProcessAreThoseOfPrometheusClient(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("they come from Linux' files")
	}
	ours, theirs := scrapeBoth(t)
	ours, theirs = takeProcessFamilies(ours), takeProcessFamilies(theirs)
	if len(theirs) < 35 {
		t.Fatalf("the client has %d figures", len(theirs))
	}
	for name, want := range theirs {
		got := ours[name]
		delete(ours, name)
		if got == nil || got.GetHelp() == "" || got.GetType() != want.GetType() || len(got.GetMetric()) != 1 {
			t.Errorf("%s: got %v, want %v", name, got, want)
			continue
		}
		a, b := got.GetMetric()[0], want.GetMetric()[0]
		if signature(a) != signature(b) {
			t.Errorf("%s: the labels are %q, want %q", name, signature(a), signature(b))
		}
		x, y := value(a), value(b)
		if math.Abs(x-y) > 16 && math.Abs(x-y) > max(x, y)/2 {
			t.Errorf("%s is %g, want about %g", name, x, y)
		}
		if len(a.GetSummary().GetQuantile()) != len(b.GetSummary().GetQuantile()) {
			t.Errorf("%s has the quantiles %v, want %v", name, a.GetSummary(), b.GetSummary())
		}
	}
	for name := range ours {
		t.Errorf("%s is no figure of the client", name)
	}
}

// value is the value of a gauge or counter, the number of a summary's values.
func value(m *dto.Metric) float64 {
	return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount())
}

func TestResponsesAreCompressedForThoseThatTakeIt(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	prometheus.Handler(reader).ServeHTTP(w, r)
	body, err := gzip.NewReader(w.Body)
	if err != nil || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v: %v", err, w.Header())
	}
	if parse(t, body)["go_goroutines"] == nil {
		t.Error("there are no goroutines")
	}
	w = httptest.NewRecorder()
	r.Header.Del("Accept-Encoding")
	if prometheus.Handler(reader).ServeHTTP(w, r); w.Header().Get("Content-Encoding") != "" {
		t.Errorf("not accepted: %v", w.Header())
	}
}

func TestSeriesAreInTheOrderOfTheirLabels(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	things := must.Get(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test").Int64Counter("things"))
	want := ""
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		things.Add(t.Context(), 1, metric.WithAttributes(attribute.String("name", name)))
		want += "things_total{name=\"" + name + "\"} 1\n"
	}
	w := httptest.NewRecorder()
	prometheus.Handler(reader).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.HasSuffix(w.Body.String(), "# TYPE things_total counter\n"+want) {
		t.Errorf("the answer is\n%s", w.Body)
	}
}

func TestAnErrorIsAnswered(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	must.NoError(t, provider.Shutdown(t.Context()))
	w := httptest.NewRecorder()
	prometheus.Handler(reader).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "shutdown") {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}
