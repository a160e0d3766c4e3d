package assembly

import (
	"context"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/fx"

	"collab/adapters/gormdb"
	"collab/adapters/otlp"
	"collab/adapters/prometheus"
	"collab/app/assembly/config"
)

// telemetry has the registry of metrics and the tracer.
type telemetry struct {
	meters metric.MeterProvider
	tracer trace.Tracer // nil when no collector is configured
	scrape http.Handler
}

// counter is a metric whose value another package has.
type counter struct {
	name, description string
	read              func() int64
}

// count registers counters.
func (t telemetry) count(counters ...counter) error {
	for _, c := range counters {
		observe := func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(c.read())
			return nil
		}
		_, err := t.meters.Meter("collab").Int64ObservableCounter(c.name,
			metric.WithDescription(c.description), metric.WithInt64Callback(observe))
		if err != nil {
			return err
		}
	}
	return nil
}

// observeReplicas registers the metrics of reads that replicas might answer. The lag of a replica that
// is not read is -1.
func (t telemetry) observeReplicas(read func() gormdb.ReplicaStats) error {
	m := t.meters.Meter("collab")
	reads, err := m.Int64ObservableCounter("collab.replica.reads", metric.WithDescription("Lists that may be stale, by the server that was read."))
	if err != nil {
		return err
	}
	lag, err := m.Int64ObservableUpDownCounter("collab.replica.lag", metric.WithUnit("s"),
		metric.WithDescription("How far replicas are behind the primary at most."))
	if err != nil {
		return err
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := read()
		o.ObserveInt64(reads, stats.Replica, metric.WithAttributes(attribute.String("source", "replica")))
		o.ObserveInt64(reads, stats.Primary, metric.WithAttributes(attribute.String("source", "primary")))
		for name, seconds := range stats.Lags {
			o.ObserveInt64(lag, seconds, metric.WithAttributes(attribute.String("replica", name)))
		}
		return nil
	}, reads, lag)
	return err
}

// maxSeries is how many combinations of labels a metric has at most. Routes, methods and statuses may make
// more than the library's 2,000.
const maxSeries = 10_000

func newTelemetry(lc fx.Lifecycle, c config.Config, log *slog.Logger) (telemetry, error) {
	reader := sdkmetric.NewManualReader()
	server := resource.NewSchemaless(attribute.String("service.name", c.ServiceName))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(server), sdkmetric.WithCardinalityLimit(maxSeries))
	lc.Append(fx.StopHook(meters.Shutdown))
	t := telemetry{meters: meters, scrape: prometheus.Handler(reader)}
	if !c.OTLPEndpoint.IsSet() {
		return t, nil
	}
	// The client reads the OTEL_EXPORTER_OTLP_* variables itself.
	spans, err := otlptrace.New(context.Background(), otlp.NewClient(true))
	if err != nil {
		return telemetry{}, err
	}
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(loggedSpans{spans, log}), sdktrace.WithResource(server))
	lc.Append(fx.StopHook(drainHook(traceTimeout, traces.Shutdown, log.Warn, "traces not sent")))
	t.tracer = traces.Tracer("collab")
	return t, nil
}

// loggedSpans logs the errors of an exporter, which the library would write to standard error.
type loggedSpans struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (l loggedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn("traces not sent", "error", err)
	}
	return nil
}
