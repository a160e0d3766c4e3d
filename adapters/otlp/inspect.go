package otlp

import (
	"context"
	"errors"
	"fmt"

	"collab/adapters/inspect"
)

// Inspect sends no spans to the collector at the address, as the server sends traces.
func Inspect(ctx context.Context, address fmt.Stringer) (f inspect.Findings) {
	client := NewClient(false)
	err := client.Start(ctx)
	if err == nil {
		err = errors.Join(client.UploadTraces(ctx, nil), client.Stop(ctx))
	}
	if err != nil {
		f.Wrong("start the collector, let this machine reach it, or set OTEL_EXPORTER_OTLP_ENDPOINT; "+
			"the server works without it", "%s", address).Err = err
		return f
	}
	f.OK("%s takes traces", address)
	return f
}
