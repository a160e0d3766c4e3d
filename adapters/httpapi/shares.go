package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/metric"

	"collab/adapters/httpapi/limit"
	"collab/app/webhooks"
)

// shares are the places of a server that organisations share, by kind of work. Nil shares have no limits.
type shares struct{ requests, streams, transfers, calls, webhooks *limit.Shares }

// newShares returns the shares of a server. Beside other organisations, requests that use the database get one place
// for every two processors, because each place delays the others, and providers' messages get two. Places that are
// held for long do not delay others, so that only the last eighth is reserved for other organisations.
func newShares(c limit.Concurrency) shares {
	if c == (limit.Concurrency{}) {
		return shares{}
	}
	long := func(work string, places int) *limit.Shares {
		return limit.NewShares(work, places, places-places/8, 16)
	}
	return shares{
		requests: limit.NewShares("requests", c.Requests, c.Requests/64, 1), streams: long("change feeds", c.Streams), transfers: long("uploads and downloads", c.Transfers),
		calls: long("calls of models and providers", c.Calls), webhooks: limit.NewShares("messages", c.Webhooks, max(2, c.Webhooks/32), 1),
	}
}

// of returns the shares of an endpoint: those of which a request takes a place while it is handled, which may be nil,
// and those while it uses the database.
func (s shares) of(r row) (request, database *limit.Shares) {
	path := strings.TrimPrefix(r.Path, prefix)
	switch {
	case !r.Guard.token():
		return nil, nil
	case path == "/sync/changes":
		return s.streams, s.requests
	case path == "/chat":
		return s.calls, s.requests
	case path == "/sync/files" && r.Method == http.MethodPost, path == "/sync/files/{id}" && (r.Method == http.MethodGet || r.Method == http.MethodPut), path == "/sync/uploads/{id}/complete",
		path == "/sync/resumable-uploads" && r.Method == http.MethodPost, path == "/sync/resumable-uploads/{id}" && r.Method == http.MethodPatch,
		path == "/sync/files/{id}/versions/{version}" && r.Method == http.MethodGet, path == "/sync/batch", path == "/sync/batch/read":
		return s.transfers, s.requests
	case path == "/billing/checkout", path == "/billing/portal", path == "/billing/downgrade", path == "/mcp-oauth/start",
		path == "/connectors/{instanceId}/credentials" && r.Method == http.MethodGet:
		return nil, s.calls // they wait for providers between uses of the database
	}
	return nil, s.requests
}

// shareHolder returns the key under which the request takes places: its organisation, or the caller
// without one.
func (c *call) shareHolder() string {
	if c.caller.Org != "" {
		return string(c.caller.Org)
	}
	return string(c.caller.User)
}

// enter takes a place for the request's use of the database, unless it has one or needs none. After a refusal it
// returns the same error.
func (c *call) enter() error { return c.enterUntil(c.r.Context()) }

// enterUntil is enter with a context that ends the waiting.
func (c *call) enterUntil(ctx context.Context) error {
	if c.route == nil || c.databasePlace.Held() || c.overShare != nil {
		return c.overShare
	}
	c.databasePlace, c.overShare = c.route.databaseShares.Enter(ctx, c.shareHolder())
	return c.overShare
}

// releasePlace releases the place of enter before the response is sent or content is transferred, so that it is not
// held while the server waits for clients or the object store. A recorded response is stored first.
func (c *call) releasePlace() {
	if !c.recorded() {
		c.databasePlace.Leave()
	}
}

// yield releases the place of enter until the returned function is called. That enters again even if the client has
// disconnected, so that the received content is stored.
func (c *call) yield() func() error {
	c.databasePlace.Leave()
	return func() error { return c.enterUntil(context.WithoutCancel(c.r.Context())) }
}

// enterWebhook takes a place for a provider's message about an organisation, until the end of
// the request. The organisation is named by the provider's id.
func (a *api) enterWebhook(c *call) webhooks.Enter {
	return func(ctx context.Context, organisation string) (err error) {
		c.requestPlace, err = a.shares.webhooks.Enter(ctx, organisation)
		return err
	}
}

// instrumentShares creates the instruments of the shares.
func (a *api) instrumentShares() error {
	figure := func(of func(limit.SharesFigures) int64) metric.Int64ObservableOption {
		return observe("kind", a.shares.kinds, func(s *limit.Shares) int64 { return of(s.Figures()) })
	}
	_, used := a.Meter.Int64ObservableUpDownCounter("collab.share.used", metric.WithUnit("{place}"),
		metric.WithDescription("Places that are taken, by kind of work."), figure(func(f limit.SharesFigures) int64 { return f.Used }))
	_, waiting := a.Meter.Int64ObservableUpDownCounter("collab.share.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait because their organisation has its share or no place is free."),
		figure(func(f limit.SharesFigures) int64 { return f.Waiting }))
	_, refusals := a.Meter.Int64ObservableCounter("collab.share.refusals", metric.WithUnit("{refusal}"),
		metric.WithDescription("Requests refused because their organisation had its share or no place was free for too long."),
		figure(func(f limit.SharesFigures) int64 { return f.Refusals }))
	return errors.Join(used, waiting, refusals)
}
