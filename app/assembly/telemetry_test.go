package assembly

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx/fxtest"

	"collab/test/must"
)

func TestACollectorThatDoesNotAnswerDelaysAStopLittle(t *testing.T) {
	for name, respond := range map[string]func(http.ResponseWriter, *http.Request){
		"no response": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"refused":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				respond(w, r)
			}))
			t.Cleanup(func() {
				collector.CloseClientConnections()
				collector.Close()
			})
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
			var log must.Log
			lc := fxtest.NewLifecycle(t)
			signals := must.Do(newTelemetry(lc, read(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL), slog.New(slog.NewTextHandler(&log, nil)))).Or(t)
			lc.RequireStart()
			_, span := signals.tracer.Start(t.Context(), "a")
			span.End()
			// The stop began long ago: traces have 100 ms left.
			stop, cancel := context.WithTimeout(t.Context(), stopTimeout-traceTimeout+100*time.Millisecond)
			defer cancel()
			must.NoError(t, lc.Stop(stop))
			if !strings.Contains(log.String(), "traces not sent") {
				t.Errorf("the log has %q", &log)
			}
		})
	}
}
