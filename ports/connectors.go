package ports

import (
	"context"
	"time"

	"collab/domain/connector"
	"collab/domain/id"
)

// Connections holds what organisations are connected to.
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
	List(ctx context.Context, o id.Org, after connector.Position, limit int, each func(connector.Instance) error) error

	// Add fails with Conflict on a taken id. It is called under the organisation's
	// Lock.
	Add(ctx context.Context, o id.Org, i connector.Instance) error

	// Update replaces an instance by what fn makes of it, locked against
	// other changes, and returns what it is then; an error of fn comes back
	// unchanged, and nothing is changed. Fn changes neither ID nor Org, may run more
	// than once, and touches nothing else. In Atomic the instance stays locked
	// until its end.
	Update(ctx context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error)

	// Remove deletes the instance, its credentials and its flows.
	Remove(ctx context.Context, o id.Org, i id.Connector) error

	// Due claims instances of all organisations but those without that are due at
	// now (connector.Instance.Claimed), those due for longest first, limit of them at
	// most, and returns them as claimed. Of any number of callers at once one gets
	// each.
	Due(ctx context.Context, now time.Time, limit int, without ...id.Org) ([]connector.Instance, error)
}

// Credentials holds the sealed credentials of instances, the present version of
// each.
type Credentials interface {
	// Get fails with NotFound for an instance that has none.
	Get(ctx context.Context, o id.Org, i id.Connector) (connector.Sealed, error)

	// Put adds or replaces what the instance has; NotFound when there is no such
	// instance. It is called with the instance locked by Update in the same
	// transaction.
	Put(ctx context.Context, o id.Org, s connector.Sealed) error
}

// Flows holds authorizations on their way.
type Flows interface {
	// Add fails with Conflict on a taken state, NotFound when its instance is not
	// there.
	Add(ctx context.Context, f connector.Flow) error

	// Get finds a flow by the digest of its state, of any organisation: that is all
	// that a browser comes with.
	Get(ctx context.Context, state string) (connector.Flow, error)

	// Update replaces a flow by what fn makes of it, as Connectors.Update does. It
	// is found as by Get.
	Update(ctx context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error)

	// Sweep removes the flows of all organisations that expired before the time.
	Sweep(ctx context.Context, before time.Time) error
}

// Clients holds the clients that were registered at authorization servers. They
// are the deployment's, not an organisation's.
type Clients interface {
	// Get fails with NotFound when there is none for the issuer with that address.
	Get(ctx context.Context, issuer, redirect string) (connector.Registered, error)

	// Put adds a client, unless another is there for its issuer and address that
	// does not expire before the time; it returns the one that is there then.
	Put(ctx context.Context, c connector.Registered, expires time.Time) (connector.Registered, error)

	// Use keeps the client's UsedAt; NotFound unless the one with its id is there.
	Use(ctx context.Context, c connector.Registered) error

	// Remove deletes the client if it is the one with that id; another stays.
	Remove(ctx context.Context, issuer, redirect, client string) error

	// Sweep removes clients that were used before the time last, those unused for
	// longest first, limit of them at most, and returns how many it removed.
	Sweep(ctx context.Context, before time.Time, limit int) (int, error)
}

// Revocations holds the authorizations that are to be taken back, of instances
// that are gone.
type Revocations interface {
	// Add fails with Conflict on a taken id.
	Add(ctx context.Context, r connector.Revocation) error

	// Due claims revocations that are due at now by putting them off to until;
	// otherwise as Connectors.Due.
	Due(ctx context.Context, now, until time.Time, limit int, without ...id.Org) ([]connector.Revocation, error)

	// Put replaces one that is there.
	Put(ctx context.Context, r connector.Revocation) error

	// Remove deletes one; one that is not there is no error.
	Remove(ctx context.Context, o id.Org, i id.Connector) error
}

// ToolServers speaks the Model Context Protocol with the servers of instances. Its
// errors have messages for people that hold nothing of what the server said, and
// nothing of the credentials, and one of these kinds:
//
//   - Invalid: the address is not one to be called;
//   - Forbidden: the server does not accept the credentials;
//   - Unavailable: it cannot be reached, or does not speak the protocol.
type ToolServers interface {
	// Tools connects to the server and lists what it offers: the first tools, at
	// most connector.MaxTools of connector.MaxToolTexts.
	Tools(ctx context.Context, a connector.Access) ([]connector.Tool, error)
}

// Authorizer speaks OAuth with the authorization servers of tool servers, as the
// Model Context Protocol asks of its clients. Its errors are as those of
// ToolServers; Forbidden is for what an authorization server refuses for good.
type Authorizer interface {
	// Discover asks the tool server which authorization server lets people in, and
	// that one how. Invalid also for one that does not offer what is needed: PKCE
	// with S256 above all.
	Discover(ctx context.Context, p connector.Provider, address string) (connector.AuthServer, error)

	// Register makes a client at an authorization server that sends people back to
	// the address.
	Register(ctx context.Context, s connector.AuthServer, redirect string) (connector.Client, *time.Time, error)

	// Page returns the address of the authorization server's page, for a verifier
	// of PKCE.
	Page(s connector.AuthServer, c connector.Client, redirect, state, verifier string) (string, error)

	// Redeem exchanges a code for credentials. An error whose cause is a
	// connector.UnknownClient says that our client is known there no more.
	Redeem(ctx context.Context, s connector.AuthServer, c connector.Client, redirect, code, verifier string) (connector.Credentials, error)

	// Renew exchanges the refresh token in a renewal for other credentials, whose
	// renewal has the same refresh token where the server gave no other. Forbidden
	// when the authorization was withdrawn; otherwise as Redeem.
	Renew(ctx context.Context, renewal string) (connector.Credentials, error)

	// Revoke takes the authorization back. Where the server has no way to, it does
	// nothing.
	Revoke(ctx context.Context, renewal string) error
}
