package openai

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
	server := inspect.ModelServer{Address: at, KeyVariable: "COLLAB_OPENAI_API_KEY", URLVariable: "COLLAB_OPENAI_URL", Models: models}
	return server.Findings(m.client.Missing(ctx, "models", "models/", models))
}
