package access

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/ports"
)

// Request is the origin, session and expiry of an authenticated request.
type Request struct {
	Origin  audit.Origin
	Session id.Session // of the service token; empty for an identity token
	Expires time.Time  // when the token is no longer accepted; zero: never

	// Position is that of ports.Store from which lists may be read that may be stale.
	Position string
}

type requestKey struct{}

// NewContext returns a context that carries the request. Reauthorize, Locked, Atomic and
// EndOtherSessions check its token again.
func NewContext(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// FromContext returns the request that the context carries, the zero value if it carries none.
func FromContext(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}

// From returns a function that returns the collections of the store for lists that may be stale, at
// the position of the request that ctx carries.
func From(s ports.Store) func(ctx context.Context) ports.Records {
	return func(ctx context.Context) ports.Records { return s.From(FromContext(ctx).Position) }
}

// Origin returns the origin of the request that the context carries, for the audit log.
func Origin(ctx context.Context) audit.Origin { return FromContext(ctx).Origin }
