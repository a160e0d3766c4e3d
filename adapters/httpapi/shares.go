package httpapi

import (
	"context"

	"collab/adapters/httpapi/limit"
	"collab/app/webhooks"
)

// shares are the permits of a server that organisations share, by kind of work. Nil shares have no limits.
type shares struct{ requests, streams, transfers, calls, webhooks *limit.Shares }

// newShares returns the shares of a server. Beside other organisations, requests that use the database get one permit
// for every two processors, because each permit delays the others, and providers' messages get two. Permits that are
// held for long do not delay others, so that only the last eighth is reserved for other organisations.
func newShares(c limit.Concurrency) shares {
	if c == (limit.Concurrency{}) {
		return shares{}
	}
	long := func(work string, permits int) *limit.Shares {
		return limit.NewShares(work, permits, permits-permits/8, 16)
	}
	return shares{
		requests: limit.NewShares("requests", c.Requests, c.Requests/64, 1),
		streams:  long("change feeds", c.Streams), transfers: long("uploads and downloads", c.Transfers),
		calls: long("calls of models and providers", c.Calls), webhooks: limit.NewShares("messages", c.Webhooks, max(2, c.Webhooks/32), 1),
	}
}

// work is the kind of work that a request does, which decides the shares of which it acquires permits.
type work string

// The kinds of work.
const (
	none       work = ""           // acquires no permits
	inMemory   work = "in memory"  // none either; the handler does not block, and is not charged to the memory budget
	queries    work = "queries"    // of requests, while it uses the database
	streams    work = "streams"    // of streams, and of requests while it uses the database
	uploads    work = "uploads"    // of transfers, and of requests while it uses the database
	downloads  work = "downloads"  // the same
	generation work = "generation" // of calls, and of requests while it uses the database
	calls      work = "calls"      // of calls; it waits for providers between uses of the database
)

// of returns the shares of which a request acquires a permit while it is handled, and while it uses the database. They
// may be nil.
func (s shares) of(w work) (request, database *limit.Shares) {
	switch w {
	case none, inMemory:
		return nil, nil
	case streams:
		return s.streams, s.requests
	case uploads, downloads:
		return s.transfers, s.requests
	case generation:
		return s.calls, s.requests
	case calls:
		return nil, s.calls
	}
	return nil, s.requests
}

// shareHolder returns the key under which the request acquires permits: its organisation, or the caller
// without one.
func (c *call) shareHolder() string {
	if c.caller.Org != "" {
		return string(c.caller.Org)
	}
	return string(c.caller.User)
}

// acquirePermit acquires a permit for the request's use of the database, unless it has one or needs none. After a
// refusal it returns the same error.
func (c *call) acquirePermit() error { return c.acquirePermitWith(c.r.Context()) }

// acquirePermitWith is acquirePermit with a context that ends the waiting.
func (c *call) acquirePermitWith(ctx context.Context) error {
	if c.route == nil || c.databasePermit.Held() || c.permitErr != nil {
		return c.permitErr
	}
	c.databasePermit, c.permitErr = c.route.databaseShares.Acquire(ctx, c.shareHolder())
	return c.permitErr
}

// releasePermit releases the permit of acquirePermit before the response is sent or content is transferred, so that it
// is not held while the server waits for clients or the object store. A recorded response is stored first.
func (c *call) releasePermit() {
	if !c.recorded() {
		c.databasePermit.Release()
	}
}

// yieldPermit releases the permit of acquirePermit until the returned function is called. That acquires one again even
// if the client has disconnected, so that the received content is stored.
func (c *call) yieldPermit() func() error {
	c.databasePermit.Release()
	return func() error { return c.acquirePermitWith(context.WithoutCancel(c.r.Context())) }
}

// acquireWebhook acquires a permit for a provider's message about an organisation, until the end of
// the request. The organisation is named by the provider's id.
func (a *api) acquireWebhook(c *call) webhooks.Admit {
	return func(ctx context.Context, organisation string) (err error) {
		c.requestPermit, err = a.shares.webhooks.Acquire(ctx, organisation)
		return err
	}
}
