package analytics_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"collab/adapters/analytics"
	"collab/domain/chat"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// some returns a successful generation.
func some() chat.Generation {
	return chat.Generation{
		ID: "019a0000-0000-7000-8000-000000000001", Org: "019a0000-0000-7000-8000-000000000002", User: "019a0000-0000-7000-8000-000000000003",
		Model: "claude-sonnet-5-5", Provider: "anthropic", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC),
		FirstChunk: 250 * time.Millisecond, Duration: 1500 * time.Millisecond,
		Usage:      chat.Usage{Input: 1230, Output: 45, CacheRead: 200, CacheCreated: 30, Searches: 2},
		Provenance: chat.Provider, Outcome: chat.Completed, Stop: "end_turn", Tools: 3, WebSearch: true, Attempts: 2,
	}
}

// broken returns a generation that failed before its first chunk.
func broken() chat.Generation {
	g := some()
	g.FirstChunk, g.Usage, g.Provenance = 0, chat.Usage{Input: 7}, chat.Estimated
	g.Outcome, g.Failure, g.Stop = chat.Failed, "overloaded", ""
	return g
}

func TestTheLogHasALineForEachCall(t *testing.T) {
	var out bytes.Buffer
	l := analytics.NewLog(slog.New(slog.NewJSONHandler(&out, nil)))
	l.Record(some())
	l.Record(broken())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	var got map[string]any
	must.NoError(t, json.Unmarshal([]byte(lines[0]), &got))
	delete(got, "time")
	want := map[string]any{
		"level": "INFO", "msg": "generation",
		"id": "019a0000-0000-7000-8000-000000000001", "org": "019a0000-0000-7000-8000-000000000002", "user": "019a0000-0000-7000-8000-000000000003",
		"model": "claude-sonnet-5-5", "provider": "anthropic", "began": "2026-01-02T03:04:05.678Z", "first_chunk_seconds": 0.25, "duration_seconds": 1.5,
		"input_tokens": 1230., "output_tokens": 45., "cache_read_tokens": 200., "cache_made_tokens": 30., "searches": 2., "usage_source": "provider",
		"outcome": "completed", "failure": "", "stop": "end_turn", "tools": 3., "web_search": true, "attempts": 2.,
	}
	must.Equal(t, want, got)
	if !strings.Contains(lines[1], `"outcome":"failed","failure":"overloaded"`) {
		t.Errorf("the second line is %s", lines[1])
	}
}

// recorder keeps the recorded generations.
type recorder []chat.Generation

func (k *recorder) Record(g chat.Generation) { *k = append(*k, g) }

func TestAFanRecordsInEachElement(t *testing.T) {
	var one, other recorder
	fan := analytics.Fan{&one, &other}
	fan.Record(some())
	fan.Record(broken())
	for _, k := range []recorder{one, other} {
		must.Equal(t, []chat.Generation{some(), broken()}, []chat.Generation(k))
	}
}

// collected has the metrics and spans of OpenTelemetry.
type collected struct {
	*analytics.Telemetry
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
}

func collect(t *testing.T) collected {
	t.Helper()
	c := collected{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans))
	c.Telemetry = must.Do(analytics.NewTelemetry(meters.Meter("test"), tracers.Tracer("test"))).Or(t)
	return c
}

// figures returns the unit, the boundaries and the sums by attributes of each histogram, by
// name.
func (c collected) figures(t *testing.T) (units map[string]string, bounds map[string][]float64, sums map[string]float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.NoError(t, c.reader.Collect(t.Context(), &all))
	units, bounds, sums = map[string]string{}, map[string][]float64{}, map[string]float64{}
	encode := attribute.DefaultEncoder()
	for _, m := range all.ScopeMetrics[0].Metrics {
		units[m.Name] = m.Unit
		switch h := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range h.DataPoints {
				bounds[m.Name] = p.Bounds
				sums[m.Name+" "+p.Attributes.Encoded(encode)] = p.Sum
			}
		case metricdata.Histogram[int64]:
			for _, p := range h.DataPoints {
				bounds[m.Name] = p.Bounds
				sums[m.Name+" "+p.Attributes.Encoded(encode)] = float64(p.Sum)
			}
		default:
			t.Errorf("%s is a %T", m.Name, h)
		}
	}
	return units, bounds, sums
}

func TestTelemetryRecordsMetrics(t *testing.T) {
	c := collect(t)
	c.Record(some())
	c.Record(some())
	c.Record(broken())
	gone := some()
	gone.Outcome, gone.Model = chat.ClientGone, "other"
	c.Record(gone)
	units, bounds, sums := c.figures(t)
	if diff := cmp.Diff(map[string]string{
		"gen_ai.client.operation.duration": "s", "gen_ai.client.operation.time_to_first_chunk": "s", "gen_ai.client.token.usage": "{token}",
	}, units); diff != "" {
		t.Errorf("other figures (-want +got):\n%s", diff)
	}
	for name, b := range bounds {
		if len(b) != 14 {
			t.Errorf("%s has the boundaries %v", name, b)
		}
	}
	const call = "gen_ai.operation.name=chat,gen_ai.provider.name=anthropic,gen_ai.request.model=claude-sonnet-5-5"
	const other = "gen_ai.operation.name=chat,gen_ai.provider.name=anthropic,gen_ai.request.model=other"
	if diff := cmp.Diff(map[string]float64{
		"gen_ai.client.operation.duration " + call:                         3,
		"gen_ai.client.operation.duration error.type=overloaded," + call:   1.5,
		"gen_ai.client.operation.duration " + other:                        1.5,
		"gen_ai.client.operation.time_to_first_chunk " + call:              0.5,
		"gen_ai.client.operation.time_to_first_chunk " + other:             0.25,
		"gen_ai.client.token.usage " + call + ",gen_ai.token.type=input":   2467,
		"gen_ai.client.token.usage " + call + ",gen_ai.token.type=output":  90,
		"gen_ai.client.token.usage " + other + ",gen_ai.token.type=input":  1230,
		"gen_ai.client.token.usage " + other + ",gen_ai.token.type=output": 45,
	}, sums); diff != "" {
		t.Errorf("other figures (-want +got):\n%s", diff)
	}
}

func TestTelemetryRecordsASpan(t *testing.T) {
	c := collect(t)
	c.Record(some())
	c.Record(broken())
	spans := c.spans.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	s := spans[0]
	if s.Name != "chat claude-sonnet-5-5" || s.SpanKind != trace.SpanKindClient || !s.StartTime.Equal(some().StartedAt) ||
		s.EndTime.Sub(s.StartTime) != 1500*time.Millisecond || s.Status.Code != codes.Unset || s.Parent.IsValid() {
		t.Errorf("the span is %+v", s)
	}
	got := map[string]any{}
	for _, a := range s.Attributes {
		got[string(a.Key)] = a.Value.AsInterface()
	}
	if diff := cmp.Diff(map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-5-5", "gen_ai.request.stream": true,
		"gen_ai.usage.input_tokens": int64(1230), "gen_ai.usage.output_tokens": int64(45),
		"gen_ai.usage.cache_read.input_tokens": int64(200), "gen_ai.usage.cache_write.input_tokens": int64(30),
		"gen_ai.response.time_to_first_chunk": 0.25, "gen_ai.response.finish_reasons": []string{"end_turn"},
		"user.id": "019a0000-0000-7000-8000-000000000003", "collab.org.id": "019a0000-0000-7000-8000-000000000002",
		"collab.request.id": "019a0000-0000-7000-8000-000000000001", "collab.outcome": "completed", "collab.usage.source": "provider",
		"collab.searches": int64(2), "collab.tools": int64(3), "collab.web_search": true, "collab.attempts": int64(2),
	}, got); diff != "" {
		t.Errorf("other attributes (-want +got):\n%s", diff)
	}
	if f := spans[1]; f.Status.Code != codes.Error || f.Status.Description != "overloaded" {
		t.Errorf("the span of a failure has the status %+v", f.Status)
	}
	t.Run("or none where there is no tracer", func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		o := must.Do(analytics.NewTelemetry(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"), nil)).Or(t)
		o.Record(some())
		if _, _, sums := (collected{reader: reader}).figures(t); len(sums) != 4 {
			t.Errorf("%v was measured", sums)
		}
	})
}

// TestContentIsNotRecorded has a stop reason that could quote a response.
func TestContentIsNotRecorded(t *testing.T) {
	const secret = "the secret"
	for _, stop := range []string{secret, strings.Repeat("x", 65), "ünd", "a\n"} {
		g := some()
		g.Stop = stop
		var out bytes.Buffer
		analytics.NewLog(slog.New(slog.NewJSONHandler(&out, nil))).Record(g)
		c := collect(t)
		c.Record(g)
		for _, s := range c.spans.GetSpans() {
			for _, a := range s.Attributes {
				out.WriteString(a.Value.String())
			}
		}
		withPostHog(t, &out, nil, func(t *testing.T, p *analytics.PostHog, s *captureServer) {
			p.Record(g)
			end(t, p)
			out.WriteString(s.requests[0].body)
		})
		if strings.Contains(out.String(), secret) || strings.Contains(out.String(), stop) || strings.Count(out.String(), "other") != 3 {
			t.Errorf("of %q came %s", stop, out.String())
		}
	}
}
