package analytics

import (
	"context"
	"net/http"

	"collab/adapters/inspect"
)

// Inspect requests a page of PostHog's server. It does not check the key, because the server
// accepts any.
func Inspect(ctx context.Context, client *http.Client, at inspect.Address) (f inspect.Findings) {
	status, err := inspect.Get(ctx, client, at.Text())
	switch {
	case err != nil:
		f.Wrong("let this machine reach it, or set COLLAB_POSTHOG_URL; the server works without it", "%s", at).Err = err
	case status >= 500:
		f.Wrong("set COLLAB_POSTHOG_URL, or try again later; the server works without it", "%s answers %d", at, status)
	default:
		f.OK("%s answers; whether it knows the key shows with the first call of a model", at)
	}
	return f
}
