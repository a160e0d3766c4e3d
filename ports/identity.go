package ports

import (
	"context"
	"time"

	"collab/domain/identity"
	"collab/domain/session"
)

// IdentityTokens verifies the identity provider's tokens.
type IdentityTokens interface {
	// Verify returns the claims of a token that the provider signed, that names us as its
	// audience and has not expired. Unauthenticated for any other; Unavailable if the
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

// SignIn signs a browser in at the identity provider.
type SignIn interface {
	// Start returns the provider's address to redirect the browser to. Callback is our
	// redirect address.
	Start(ctx context.Context, f identity.Flow, callback string) (string, error)

	// Finish returns the identity token for the provider's response; Unauthenticated if
	// it yields none.
	Finish(ctx context.Context, f identity.Flow, callback string, r identity.Return) (string, error)

	// End returns the provider's address at which a browser ends its session there, and which
	// redirects it back to ours with the state. It is empty if the provider has none.
	End(ctx context.Context, back, state string) (string, error)
}

// ServiceTokens signs and reads our own tokens.
type ServiceTokens interface {
	// Issue returns the signed token with these claims.
	Issue(c session.Claims) (string, error)

	// IssuedHere reports whether the token names us as its issuer. It does not verify the
	// signature.
	IssuedHere(token string) bool

	// Read returns the claims of a token with a valid signature of a known key, even if it
	// has expired. Unauthenticated for any other.
	Read(token string) (session.Claims, error)
}

// DeviceGrants holds the sign-ins of devices. They are found by digests of codes, as nothing
// else is known of a device or of the browser in which its code is typed.
type DeviceGrants interface {
	// Add fails with Conflict if the device code or the user code is taken.
	Add(ctx context.Context, g session.DeviceGrant) error

	// ByUserCode returns the grant with this digest of its user code.
	ByUserCode(ctx context.Context, digest string) (session.DeviceGrant, error)

	// Update locks the grant with this digest of its device code, stores what fn returns for it,
	// and returns that. An error of fn is returned unchanged, and nothing is stored. Fn must keep
	// Code and UserCode, may run more than once, and has no side effects. In Atomic the grant
	// stays locked until the transaction ends.
	Update(ctx context.Context, digest string, fn func(session.DeviceGrant) (session.DeviceGrant, error)) (session.DeviceGrant, error)

	// Prune removes grants that expired before the time.
	Prune(ctx context.Context, before time.Time) error
}
