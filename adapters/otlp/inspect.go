package otlp

import (
	"context"
	"errors"
	"fmt"

	"collab/adapters/inspect"
)

// Inspect sends an empty list to the collector, as the server sends traces. At is the
// address to print.
func Inspect(ctx context.Context, at fmt.Stringer) (f inspect.Findings) {
	to := NewClient(false)
	err := to.Start(ctx)
	if err == nil {
		err = errors.Join(to.UploadTraces(ctx, nil), to.Stop(ctx))
	}
	if err != nil {
		f.Wrong("start the collector, let this machine reach it, or set OTEL_EXPORTER_OTLP_ENDPOINT; the server works without it", "%s", at).Err = err
		return f
	}
	f.OK("%s takes traces", at)
	return f
}
