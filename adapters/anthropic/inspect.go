package anthropic

import (
	"context"

	"collab/adapters/inspect"
)

// Inspect asks the server for the models of the registry. At is the address to print.
func Inspect(ctx context.Context, o Options, at inspect.Address, models []string) (f inspect.Findings) {
	m, err := New(o)
	if err != nil {
		f.Wrong("look at the variable", "").Err = err
		return f
	}
	server := inspect.ModelServer{Address: at, KeyVariable: "COLLAB_ANTHROPIC_API_KEY", URLVariable: "COLLAB_ANTHROPIC_URL", Models: models}
	return server.Findings(m.client.Missing(ctx, "v1/models?limit=1000", "v1/models/", models))
}
