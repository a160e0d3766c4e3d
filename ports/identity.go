package ports

import (
	"context"

	"collab/domain/identity"
	"collab/domain/session"
)

// IdentityTokens verifies the identity provider's tokens.
type IdentityTokens interface {
	// Verify returns the claims of a token that is signed by the provider, meant
	// for us and valid now. Unauthenticated for any other; Unavailable when the
	// provider's keys cannot be read.
	Verify(ctx context.Context, token string) (identity.Claims, error)
}

// IdentityEvents reads the identity provider's webhook messages.
type IdentityEvents interface {
	// Read verifies the signature over the raw body and translates the message.
	// Header returns a header's value, empty when it is absent. Unauthenticated
	// for a bad signature, Invalid for a signed body that cannot be read.
	Read(header func(name string) string, body []byte) (identity.Event, error)
}

// SignIn sends a browser to the identity provider and takes it back.
type SignIn interface {
	// Start returns the address to send the browser to. Callback is our address
	// to come back to.
	Start(ctx context.Context, f identity.Flow, callback string) (string, error)

	// Finish returns the identity token that the browser came back with.
	// Unauthenticated when it came back without one.
	Finish(ctx context.Context, f identity.Flow, callback string, r identity.Return) (string, error)
}

// ServiceTokens signs and reads our own tokens.
type ServiceTokens interface {
	// Issue returns the signed token with these claims.
	Issue(c session.Claims) (string, error)

	// Ours reports whether the token names us as its issuer, which says nothing
	// about its signature.
	Ours(token string) bool

	// Read returns the claims of a token with a good signature of a known key,
	// whatever its age. Unauthenticated for any other.
	Read(token string) (session.Claims, error)
}
