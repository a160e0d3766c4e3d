package gormdb

import (
	"context"
	"time"

	"collab/domain/connector"
	"collab/domain/id"
	"collab/ports"
)

type connectorRow struct {
	OrgID      id.Org       `gorm:"primaryKey"`
	ID         id.Connector `gorm:"primaryKey"`
	Provider   string
	Label      string
	Name       *string // as entered
	Config     string  // text, to be returned unchanged
	URL        string
	Hosting    connector.Hosting
	Transport  connector.Transport
	Status     connector.Status
	CreatedBy  id.User
	CreatedAt  time.Time
	LastUsedAt *time.Time
	LastError  string
	Tools      []toolRow `gorm:"serializer:json;default:null"`
	Failures   int
	Version    int64
	ExpiresAt  *time.Time
	RenewAt    *time.Time
	DueAt      *time.Time
}

type toolRow struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

var connectorTable = tenant[connectorRow]("connectors", "Connector")

func rowOfConnector(i connector.Instance) *connectorRow {
	r := &connectorRow{
		ID: i.ID, Provider: i.Provider, Label: i.Label, Name: i.Name, Config: i.Config, URL: i.URL, Hosting: i.Hosting, Transport: i.Transport,
		Status: i.Status(), CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, LastUsedAt: i.LastUsedAt,
		LastError: i.LastError, Failures: i.Failures,
		Version: i.Version, ExpiresAt: i.ExpiresAt, RenewAt: i.RenewAt, DueAt: i.DueAt,
	}
	for _, t := range i.Tools {
		r.Tools = append(r.Tools, toolRow(t))
	}
	return r
}

func (r *connectorRow) instance() (connector.Instance, error) {
	i := connector.Instance{
		ID: r.ID, Org: r.OrgID, Provider: r.Provider, Label: r.Label, Name: r.Name, Config: r.Config, URL: r.URL, Hosting: r.Hosting,
		Transport: r.Transport, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, LastError: r.LastError,
		Failures: r.Failures, Version: r.Version, ExpiresAt: r.ExpiresAt, RenewAt: r.RenewAt, DueAt: r.DueAt,
	}.Restore(r.Status)
	for _, t := range r.Tools {
		i.Tools = append(i.Tools, connector.Tool(t))
	}
	return i, nil
}

type connectors struct{ *conn }

func (g group) Connectors() ports.Connectors { return connectors(g) }

func (q connectors) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Instance, error) {
	return get(ctx, connectorTable.of(q.read, o).key(string(i)), (*connectorRow).instance)
}

func (q connectors) List(
	ctx context.Context, o id.Org, after id.Position[id.Connector], limit int, fn func(connector.Instance) error,
) error {
	return each(ctx, byTime(connectorTable.of(q.read, o), "created_at, id", after, limit), (*connectorRow).instance, fn)
}

func (q connectors) Add(ctx context.Context, o id.Org, i connector.Instance) error {
	return connectorTable.of(q.write, o).add(ctx, rowOfConnector(i))
}

func (q connectors) Update(
	ctx context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error),
) (connector.Instance, error) {
	return update(ctx, q.conn, connectorTable.of(q.write, o).key(string(i)), (*connectorRow).instance, rowOfConnector, fn)
}

// Remove is a transaction so that it is retried after a deadlock with a change of
// one of the flows.
func (q connectors) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	return q.atomic(ctx, func(c *conn) error {
		// Its flows are deleted first, as changes of a flow lock it before the connector:
		// a cascade would lock them in the reverse order.
		if err := flowTable.of(c.write, o).filter("connector_id = ?", string(i)).delete(ctx); err != nil {
			return err
		}
		s := connectorTable.of(c.write, o).key(string(i))
		return s.requireRow(s.remove(ctx))
	})
}

func (q connectors) Claim(ctx context.Context, now time.Time, without ...id.Org) (connector.Instance, error) {
	return atomically(ctx, q.conn, func(c *conn) (i connector.Instance, err error) {
		if i, err = lockDue(ctx, connectorTable.crossTenant(c.write, crossTenantConnectors), (*connectorRow).instance, now, without); err != nil {
			return i, err
		}
		if i, err = i.Claimed(now); err == nil {
			_, err = connectorTable.of(c.write, i.Org).key(string(i.ID)).set(ctx, "due_at = ?", i.DueAt.UnixMilli())
		}
		return i, err
	})
}

// lockDue reads and locks the row that has been due for longest, except those of some organisations and
// those that another transaction has locked.
func lockDue[R, T any](ctx context.Context, s selection, record func(*R) (T, error), now time.Time, without []id.Org) (T, error) {
	d := dialectOf(s.db)
	s = s.filter("due_at <= ? AND NOT ("+d.in("org_id", "?", "uuid")+")", now.UnixMilli(), list(d, without))
	return get(ctx, s.claim("due_at, org_id, id", 1), record)
}

type credentialsRow struct {
	OrgID  id.Org       `gorm:"primaryKey"`
	Sealed sealedFields `gorm:"embedded"`
}

// sealedFields are those of connector.Sealed.
type sealedFields struct {
	Instance id.Connector `gorm:"column:connector_id;primaryKey"`
	Version  int64
	Entries  []byte
	Renewal  []byte `gorm:"default:null"`
}

var credentialsTable = tenant[credentialsRow]("connector_credentials", "Credentials")

func (r *credentialsRow) sealed() (connector.Sealed, error) { return connector.Sealed(r.Sealed), nil }

type credentials struct{ *conn }

func (g group) Credentials() ports.Credentials { return credentials(g) }

func (q credentials) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Sealed, error) {
	return get(ctx, credentialsTable.of(q.read, o).key(string(i)), (*credentialsRow).sealed)
}

func (q credentials) Put(ctx context.Context, o id.Org, s connector.Sealed) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := connectorTable.of(c.write, o).key(string(s.Instance)).lockKeys(ctx, 1); err != nil {
			return err
		}
		return credentialsTable.of(c.write, o).put(ctx, &credentialsRow{Sealed: sealedFields(s)})
	})
}

type flowRow struct {
	State       string       `gorm:"primaryKey"`
	OrgID       id.Org       `gorm:"<-:create"`
	ConnectorID id.Connector `gorm:"<-:create"`
	UserID      id.User
	Status      connector.FlowStatus
	Server      authServerRow `gorm:"serializer:json"`
	Client      string
	Redirect    string
	Verifier    []byte
	Browser     string
	Error       string
	CreatedAt   time.Time
	ExpiresAt   time.Time
}

type authServerRow struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization"`
	Token         string   `json:"token"`
	Registration  string   `json:"registration,omitempty"`
	Revocation    string   `json:"revocation,omitempty"`
	AuthMethods   []string `json:"authMethods,omitempty"`
	Documents     bool     `json:"documents,omitempty"`
	ReturnsIssuer bool     `json:"namesItself,omitempty"`
	Resource      string   `json:"resource"`
	Scopes        []string `json:"scopes,omitempty"`
}

var flowTable = tenant[flowRow]("connector_flows", "Authorization")

func rowOfFlow(f connector.Flow) *flowRow {
	return &flowRow{
		State: f.State, OrgID: f.Org, ConnectorID: f.Instance, UserID: f.User, Status: f.Status(),
		Server: authServerRow(f.Server), Client: f.Client,
		Redirect: f.Redirect, Verifier: f.Verifier, Browser: f.Browser, Error: f.Error, CreatedAt: f.CreatedAt, ExpiresAt: f.ExpiresAt,
	}
}

func (r *flowRow) flow() (connector.Flow, error) {
	return connector.Flow{
		State: r.State, Org: r.OrgID, User: r.UserID, Instance: r.ConnectorID, Server: connector.AuthServer(r.Server), Client: r.Client,
		Redirect: r.Redirect, Verifier: r.Verifier, Browser: r.Browser, Error: r.Error, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}.Restore(r.Status), nil
}

type flows struct{ *conn }

func (g group) Flows() ports.Flows { return flows(g) }

func (q flows) Add(ctx context.Context, f connector.Flow) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := connectorTable.of(c.write, f.Org).key(string(f.Instance)).lockKeys(ctx, 1); err != nil {
			return err
		}
		return flowTable.of(c.write, f.Org).add(ctx, rowOfFlow(f))
	})
}

func (q flows) Get(ctx context.Context, state string) (connector.Flow, error) {
	return get(ctx, flowTable.crossTenant(q.read, crossTenantFlows).key(state), (*flowRow).flow)
}

func (q flows) Update(ctx context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error) {
	return update(ctx, q.conn, flowTable.crossTenant(q.write, crossTenantFlows).key(state), (*flowRow).flow, rowOfFlow, fn)
}

func (q flows) Sweep(ctx context.Context, before time.Time) error {
	return flowTable.crossTenant(q.write, crossTenantFlows).filter("expires_at < ?", before.UnixMilli()).delete(ctx)
}

type clientRow struct {
	Issuer    string `gorm:"primaryKey"`
	Redirect  string `gorm:"primaryKey"`
	ID        string `gorm:"column:client_id"`
	Secret    []byte `gorm:"default:null"` // null for a public client
	Method    string
	ExpiresAt *time.Time
	UsedAt    time.Time
}

var clientTable = shared[clientRow]("connector_clients", "Client")

func (r *clientRow) client() (connector.Registered, error) { return connector.Registered(*r), nil }

type clients struct{ *conn }

func (g group) Clients() ports.Clients { return clients(g) }

func (q clients) Get(ctx context.Context, issuer, redirect string) (connector.Registered, error) {
	return get(ctx, clientTable.on(q.read).key(issuer, redirect), (*clientRow).client)
}

// Put replaces a client that expires too soon.
func (q clients) Put(ctx context.Context, v connector.Registered, expires time.Time) (connector.Registered, error) {
	return upsertIf(ctx, clientTable.on(q.write), (*clientRow)(&v), (*clientRow).client,
		"connector_clients.expires_at < ?", expires.UnixMilli(), v.Issuer, v.Redirect)
}

func (q clients) Use(ctx context.Context, v connector.Registered) error {
	s := clientTable.on(q.write).key(v.Issuer, v.Redirect).filter("client_id = ?", v.ID)
	return s.requireRow(s.set(ctx, "used_at = ?", v.UsedAt.UnixMilli()))
}

func (q clients) Remove(ctx context.Context, issuer, redirect, client string) error {
	return clientTable.on(q.write).key(issuer, redirect).filter("client_id = ?", client).delete(ctx)
}

// Sweep skips clients that are used or swept concurrently. It deletes each by its key: with a join
// Postgres would scan the table.
func (q clients) Sweep(ctx context.Context, before time.Time, limit int) (int, error) {
	return atomically(ctx, q.conn, func(c *conn) (int, error) {
		old, err := all(ctx, clientTable.on(c.write).filter("used_at < ?", before.UnixMilli()).claim("used_at", limit), (*clientRow).client)
		for n := 0; n < len(old) && err == nil; n++ {
			err = clients{c}.Remove(ctx, old[n].Issuer, old[n].Redirect, old[n].ID)
		}
		return len(old), err
	})
}

type revocationRow struct {
	ID       id.Connector `gorm:"primaryKey"`
	Org      id.Org       `gorm:"column:org_id;primaryKey"`
	Renewal  []byte
	Attempts int
	DueAt    time.Time
}

var revocationTable = tenant[revocationRow]("connector_revocations", "Revocation")

func (r *revocationRow) revocation() (connector.Revocation, error) {
	return connector.Revocation(*r), nil
}

type revocations struct{ *conn }

func (g group) Revocations() ports.Revocations { return revocations(g) }

func (q revocations) Add(ctx context.Context, v connector.Revocation) error {
	return revocationTable.of(q.write, v.Org).add(ctx, (*revocationRow)(&v))
}

func (q revocations) Claim(ctx context.Context, now, until time.Time, without ...id.Org) (connector.Revocation, error) {
	return atomically(ctx, q.conn, func(c *conn) (connector.Revocation, error) {
		v, err := lockDue(ctx, revocationTable.crossTenant(c.write, crossTenantConnectors), (*revocationRow).revocation, now, without)
		if err != nil {
			return v, err
		}
		v.DueAt = instant(until.UnixMilli())
		_, err = revocationTable.of(c.write, v.Org).key(string(v.ID)).set(ctx, "due_at = ?", until.UnixMilli())
		return v, err
	})
}

func (q revocations) Put(ctx context.Context, v connector.Revocation) error {
	return revocationTable.of(q.write, v.Org).key(string(v.ID)).save(ctx, (*revocationRow)(&v))
}

func (q revocations) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	return revocationTable.of(q.write, o).key(string(i)).delete(ctx)
}
