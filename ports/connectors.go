package ports

import (
	"context"
	"time"

	"collab/domain/connector"
	"collab/domain/id"
)

// Connections hands over the collections of connectors.
type Connections interface {
	Connectors() Connectors
	Credentials() Credentials
	Flows() Flows
	Clients() Clients
	Revocations() Revocations
}

// Connectors holds the instances of tool servers.
type Connectors interface {
	Get(ctx context.Context, o id.Org, i id.Connector) (connector.Instance, error)

	// List calls each with the instances of the organisation by CreatedAt, then id;
	// after and limit page it, zero values mean from the start and all. An error of
	// each ends the list and is returned.
	List(ctx context.Context, o id.Org, after id.Position[id.Connector], limit int, each func(connector.Instance) error) error

	// Add fails with Conflict on a taken id. The caller holds the organisation's Lock.
	Add(ctx context.Context, o id.Org, i connector.Instance) error

	// Update locks the instance, stores what fn returns for it, and returns that. An error
	// of fn is returned unchanged, and nothing is stored. Fn must keep ID and Org, may run
	// more than once, and has no side effects. In Atomic the instance stays locked until
	// the transaction ends.
	Update(ctx context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error)

	// Remove deletes the instance, its credentials and its flows.
	Remove(ctx context.Context, o id.Org, i id.Connector) error

	// Claim claims the instance that has been due for longest at now (connector.Instance.Claimed),
	// of all organisations except without, and returns it as claimed. NotFound if none is due.
	// Concurrent callers never get the same instance.
	Claim(ctx context.Context, now time.Time, without ...id.Org) (connector.Instance, error)
}

// Credentials holds the present sealed credentials of instances.
type Credentials interface {
	// Get fails with NotFound for an instance that has none.
	Get(ctx context.Context, o id.Org, i id.Connector) (connector.Sealed, error)

	// Put adds or replaces the credentials of an instance; NotFound if there is no such
	// instance. The caller holds its lock by Update in the same transaction.
	Put(ctx context.Context, o id.Org, s connector.Sealed) error
}

// Flows holds authorizations that have been started.
type Flows interface {
	// Add fails with Conflict on a taken state, NotFound if its instance does not exist.
	Add(ctx context.Context, f connector.Flow) error

	// Get finds a flow of any organisation by the digest of its state, because a browser
	// presents nothing else.
	Get(ctx context.Context, state string) (connector.Flow, error)

	// Update is to flows what Connectors.Update is to instances; state is as in Get.
	Update(ctx context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error)

	// Sweep removes the flows of all organisations that expired before the time.
	Sweep(ctx context.Context, before time.Time) error
}

// Clients holds the clients that were registered at authorization servers. They
// are the deployment's, not an organisation's.
type Clients interface {
	// Get fails with NotFound if there is none for the issuer with that redirect address.
	Get(ctx context.Context, issuer, redirect string) (connector.Registered, error)

	// Put adds a client unless one exists for its issuer and redirect address that does
	// not expire before the time. It returns the stored client.
	Put(ctx context.Context, c connector.Registered, expires time.Time) (connector.Registered, error)

	// Use stores the client's UsedAt; NotFound unless the stored client has its id.
	Use(ctx context.Context, c connector.Registered) error

	// Remove deletes the client if it has that id.
	Remove(ctx context.Context, issuer, redirect, client string) error

	// Sweep removes at most limit clients that were last used before the time, those
	// unused for longest first, and returns how many it removed.
	Sweep(ctx context.Context, before time.Time, limit int) (int, error)
}

// Revocations holds the authorizations of deleted instances that are to be revoked.
type Revocations interface {
	// Add fails with Conflict on a taken id.
	Add(ctx context.Context, r connector.Revocation) error

	// Claim claims a revocation that is due at now until the second time; otherwise it is as
	// Connectors.Claim.
	Claim(ctx context.Context, now, until time.Time, without ...id.Org) (connector.Revocation, error)

	// Put replaces an existing revocation.
	Put(ctx context.Context, r connector.Revocation) error

	// Remove deletes a revocation. A missing one is no error.
	Remove(ctx context.Context, o id.Org, i id.Connector) error
}

// ToolServers speaks the Model Context Protocol with the servers of instances. The messages
// of its errors contain neither the server's text nor credentials. Their kinds are:
//
//   - Invalid: the address may not be called;
//   - Forbidden: the server does not accept the credentials;
//   - Unavailable: it cannot be reached, or does not speak the protocol.
type ToolServers interface {
	// Tools connects to the server and lists its first tools, at most connector.MaxTools
	// with at most connector.MaxToolTexts.
	Tools(ctx context.Context, a connector.Access) ([]connector.Tool, error)
}

// Authorizer speaks OAuth with the authorization servers of tool servers, as the Model
// Context Protocol requires of its clients. Its errors are as those of ToolServers;
// Forbidden is a permanent refusal of the authorization server.
type Authorizer interface {
	// Discover reads the tool server's authorization server and its metadata. Invalid also
	// for a server without a required feature, such as PKCE with S256.
	Discover(ctx context.Context, p connector.Provider, address string) (connector.AuthServer, error)

	// Register registers a client with the redirect address. It returns when the client's
	// secret expires, nil for never.
	Register(ctx context.Context, s connector.AuthServer, redirect string) (connector.Client, *time.Time, error)

	// AuthCodeURL returns the address of the authorization server's page, with the challenge of
	// the PKCE verifier.
	AuthCodeURL(s connector.AuthServer, c connector.Client, redirect, state, verifier string) (string, error)

	// Exchange exchanges a code for credentials. An error whose cause is a
	// connector.UnknownClient means that the server no longer knows our client.
	Exchange(ctx context.Context, s connector.AuthServer, c connector.Client, redirect, code, verifier string) (connector.Credentials, error)

	// Renew exchanges the refresh token in a renewal for new credentials, which keep the
	// refresh token if the server issues no new one. Forbidden if the authorization was
	// withdrawn; otherwise as Exchange.
	Renew(ctx context.Context, renewal string) (connector.Credentials, error)

	// Revoke revokes the authorization. It does nothing if the server does not support that.
	Revoke(ctx context.Context, renewal string) error
}
