package analytics

import (
	"context"
	"errors"
	"time"

	"collab/domain/chat"
	"collab/ports"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

var _ ports.Generations = (*Telemetry)(nil)

// Histogram boundaries of the GenAI conventions.
var (
	secondBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBounds  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
)

// Telemetry records metrics and spans by OpenTelemetry's GenAI conventions.
type Telemetry struct {
	tracer   trace.Tracer // nil: no spans
	duration metric.Float64Histogram
	first    metric.Float64Histogram
	tokens   metric.Int64Histogram
}

// NewTelemetry returns a Telemetry that uses the meter and, unless it is nil, the tracer.
func NewTelemetry(m metric.Meter, t trace.Tracer) (*Telemetry, error) {
	duration, err1 := m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("How long calls of models took."), metric.WithExplicitBucketBoundaries(secondBounds...))
	first, err2 := m.Float64Histogram("gen_ai.client.operation.time_to_first_chunk", metric.WithUnit("s"),
		metric.WithDescription("How long the first chunk took."), metric.WithExplicitBucketBoundaries(secondBounds...))
	tokens, err3 := m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that a call used, input and output apart."), metric.WithExplicitBucketBoundaries(tokenBounds...))
	return &Telemetry{tracer: t, duration: duration, first: first, tokens: tokens}, errors.Join(err1, err2, err3)
}

// Record records a generation. The user is an attribute of the span alone, because metrics
// need a bounded number of attribute values.
func (t *Telemetry) Record(g chat.Generation) {
	ctx := context.Background()
	base := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", g.Provider),
		attribute.String("gen_ai.request.model", g.Model),
	}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(base[:len(base):len(base)], more...)...)
	}
	var failure []attribute.KeyValue
	if f := failed(g); f != "" {
		failure = append(failure, attribute.String("error.type", f))
	}
	t.duration.Record(ctx, g.Duration.Seconds(), with(failure...))
	if g.FirstChunk > 0 {
		t.first.Record(ctx, g.FirstChunk.Seconds(), with(failure...))
	}
	t.tokens.Record(ctx, g.Usage.Input, with(attribute.String("gen_ai.token.type", "input")))
	t.tokens.Record(ctx, g.Usage.Output, with(attribute.String("gen_ai.token.type", "output")))
	if t.tracer != nil {
		t.span(g, append(base, failure...))
	}
}

// span records the span of a finished generation.
func (t *Telemetry) span(g chat.Generation, attributes []attribute.KeyValue) {
	attributes = append(attributes,
		attribute.Bool("gen_ai.request.stream", true),
		attribute.Int64("gen_ai.usage.input_tokens", g.Usage.Input),
		attribute.Int64("gen_ai.usage.output_tokens", g.Usage.Output),
		attribute.Int64("gen_ai.usage.cache_read.input_tokens", g.Usage.CacheRead),
		attribute.Int64("gen_ai.usage.cache_write.input_tokens", g.Usage.CacheCreated),
		attribute.String("user.id", string(g.User)),
		attribute.String("collab.org.id", string(g.Org)),
		attribute.String("collab.request.id", string(g.ID)),
		attribute.String("collab.outcome", string(g.Outcome)),
		attribute.String("collab.usage.source", string(g.Provenance)),
		attribute.Int64("collab.searches", g.Usage.Searches),
		attribute.Int("collab.tools", g.Tools),
		attribute.Bool("collab.web_search", g.WebSearch),
		attribute.Int("collab.attempts", g.Attempts),
	)
	if g.FirstChunk > 0 {
		attributes = append(attributes, attribute.Float64("gen_ai.response.time_to_first_chunk", g.FirstChunk.Seconds()))
	}
	if g.Stop != "" {
		attributes = append(attributes, attribute.StringSlice("gen_ai.response.finish_reasons", []string{reason(g.Stop)}))
	}
	_, span := t.tracer.Start(context.Background(), "chat "+g.Model,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithNewRoot(), trace.WithTimestamp(g.StartedAt), trace.WithAttributes(attributes...))
	if f := failed(g); f != "" {
		span.SetStatus(codes.Error, f)
	}
	span.End(trace.WithTimestamp(g.StartedAt.Add(max(g.Duration, time.Duration(0)))))
}
