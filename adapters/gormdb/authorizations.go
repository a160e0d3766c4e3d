package gormdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"collab/domain/connector"
	"collab/domain/id"
	"collab/ports"
)

type flowRow struct {
	State       string `gorm:"primaryKey"`
	OrgID       string `gorm:"<-:create;type:uuid;not null"`
	ConnectorID string `gorm:"<-:create;type:uuid;not null"`
	UserID      string `gorm:"type:uuid;not null"`
	Status      string `gorm:"not null"`
	Server      string `gorm:"not null"` // JSON of authServerRow
	Client      string `gorm:"not null"`
	Redirect    string `gorm:"not null"`
	Verifier    []byte `gorm:"not null"`
	Browser     string `gorm:"not null"`
	Error       string `gorm:"not null"`
	Created     int64  `gorm:"column:created_at;not null"`
	Expires     int64  `gorm:"column:expires_at;not null"`
}

func (flowRow) TableName() string { return "connector_flows" }

type authServerRow struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization"`
	Token         string   `json:"token"`
	Registration  string   `json:"registration,omitempty"`
	Revocation    string   `json:"revocation,omitempty"`
	AuthMethods   []string `json:"authMethods,omitempty"`
	Documents     bool     `json:"documents,omitempty"`
	NamesItself   bool     `json:"namesItself,omitempty"`
	Resource      string   `json:"resource"`
	Scopes        []string `json:"scopes,omitempty"`
}

func rowOfFlow(f connector.Flow) (*flowRow, error) {
	server, err := written(authServerRow(f.Server))
	return &flowRow{
		State: f.State, OrgID: string(f.Org), ConnectorID: string(f.Instance), UserID: string(f.User), Status: string(f.Status()), Server: server,
		Client: f.Client, Redirect: f.Redirect, Verifier: f.Verifier, Browser: f.Browser, Error: f.Error,
		Created: f.CreatedAt.UnixMilli(), Expires: f.ExpiresAt.UnixMilli(),
	}, err
}

func (r *flowRow) flow() (connector.Flow, error) {
	var server authServerRow
	err := json.Unmarshal([]byte(r.Server), &server)
	return connector.Flow{
		State: r.State, Org: id.Org(r.OrgID), User: id.User(r.UserID), Instance: id.Connector(r.ConnectorID), Server: connector.AuthServer(server),
		Client: r.Client, Redirect: r.Redirect, Verifier: r.Verifier, Browser: r.Browser, Error: r.Error,
		CreatedAt: instant(r.Created), ExpiresAt: instant(r.Expires),
	}.Restore(connector.FlowStatus(r.Status)), err
}

var flowTable = tenant[flowRow]("Authorization", nil)

type flows struct{ *conn }

var _ ports.Flows = flows{}

func (q flows) Add(ctx context.Context, f connector.Flow) error {
	r, err := rowOfFlow(f)
	if err != nil {
		return failed(ctx, err, "Authorization")
	}
	return q.atomic(ctx, func(c *conn) error {
		if err := connectorTable.of(c.write, f.Org).key(string(f.Instance)).kept(ctx); err != nil {
			return err
		}
		return flowTable.of(c.write, f.Org).add(ctx, r)
	})
}

func (q flows) Get(ctx context.Context, state string) (connector.Flow, error) {
	return get(ctx, flowTable.crossTenant(q.read, crossTenantFlows).key(state), (*flowRow).flow)
}

func (q flows) Update(ctx context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error) {
	return atomically(ctx, q.conn, func(c *conn) (connector.Flow, error) {
		return update(ctx, flowTable.crossTenant(c.write, crossTenantFlows).key(state), (*flowRow).flow, rowOfFlow, fn)
	})
}

func (q flows) Sweep(ctx context.Context, before time.Time) error {
	_, err := flowTable.crossTenant(q.write, crossTenantFlows).filter("expires_at < ?", before.UnixMilli()).remove(ctx)
	return err
}

type clientRow struct {
	Issuer   string        `gorm:"primaryKey"`
	Redirect string        `gorm:"primaryKey"`
	ClientID string        `gorm:"not null"`
	Secret   []byte        // null for a public client
	Method   string        `gorm:"not null"`
	Expires  sql.NullInt64 `gorm:"column:expires_at"`
	Used     int64         `gorm:"column:used_at;not null"`
}

func (clientRow) TableName() string { return "connector_clients" }

var clientTable = shared[clientRow]("Client")

func (r *clientRow) client() (connector.Registered, error) {
	return connector.Registered{
		Issuer: r.Issuer, Redirect: r.Redirect, ID: r.ClientID, Secret: r.Secret, Method: r.Method, ExpiresAt: optionalInstant(r.Expires), UsedAt: instant(r.Used),
	}, nil
}

type clients struct{ *conn }

var _ ports.Clients = clients{}

func (q clients) Get(ctx context.Context, issuer, redirect string) (connector.Registered, error) {
	return get(ctx, clientTable.on(q.read).key(issuer, redirect), (*clientRow).client)
}

// Put takes over the row of a client that expires too soon.
func (q clients) Put(ctx context.Context, v connector.Registered, expires time.Time) (connector.Registered, error) {
	return takeOver(ctx, clientTable.on(q.write), &clientRow{
		Issuer: v.Issuer, Redirect: v.Redirect, ClientID: v.ID, Secret: v.Secret, Method: v.Method, Expires: optionalMillis(v.ExpiresAt), Used: v.UsedAt.UnixMilli(),
	}, (*clientRow).client, "connector_clients.expires_at < ?", expires.UnixMilli(), v.Issuer, v.Redirect)
}

func (q clients) Use(ctx context.Context, v connector.Registered) error {
	s := clientTable.on(q.write).key(v.Issuer, v.Redirect).filter("client_id = ?", v.ID)
	return s.one(s.set(ctx, "used_at = ?", v.UsedAt.UnixMilli()))
}

func (q clients) Remove(ctx context.Context, issuer, redirect, client string) error {
	_, err := clientTable.on(q.write).key(issuer, redirect).filter("client_id = ?", client).remove(ctx)
	return err
}

// Sweep leaves alone what others sweep, or use, at the same time. Each goes by its
// key, as Connectors.Due has it.
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
	OrgID    string `gorm:"type:uuid;primaryKey"`
	ID       string `gorm:"type:uuid;primaryKey"`
	Renewal  []byte `gorm:"not null"`
	Attempts int64  `gorm:"not null"`
	Due      int64  `gorm:"column:due_at;not null"`
}

func (revocationRow) TableName() string { return "connector_revocations" }

var revocationTable = tenant[revocationRow]("Revocation", nil)

func rowOfRevocation(v connector.Revocation) *revocationRow {
	return &revocationRow{ID: string(v.ID), Renewal: v.Renewal, Attempts: int64(v.Attempts), Due: v.DueAt.UnixMilli()}
}

func (r *revocationRow) revocation() (connector.Revocation, error) {
	return connector.Revocation{
		ID: id.Connector(r.ID), Org: id.Org(r.OrgID), Renewal: r.Renewal, Attempts: int(r.Attempts), DueAt: instant(r.Due),
	}, nil
}

type revocations struct{ *conn }

var _ ports.Revocations = revocations{}

func (q revocations) Add(ctx context.Context, v connector.Revocation) error {
	return revocationTable.of(q.write, v.Org).add(ctx, rowOfRevocation(v))
}

// Due puts off each by its key, as that of instances does.
func (q revocations) Due(ctx context.Context, now, until time.Time, limit int, without ...id.Org) ([]connector.Revocation, error) {
	return atomically(ctx, q.conn, func(c *conn) ([]connector.Revocation, error) {
		due, err := claimDue(ctx, revocationTable.crossTenant(c.write, crossTenantConnectors), (*revocationRow).revocation, now, limit, without)
		for n := 0; n < len(due) && err == nil; n++ {
			due[n].DueAt = instant(until.UnixMilli())
			_, err = revocationTable.of(c.write, due[n].Org).key(string(due[n].ID)).set(ctx, "due_at = ?", until.UnixMilli())
		}
		return due, err
	})
}

func (q revocations) Put(ctx context.Context, v connector.Revocation) error {
	return revocationTable.of(q.write, v.Org).key(string(v.ID)).save(ctx, rowOfRevocation(v))
}

func (q revocations) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	_, err := revocationTable.of(q.write, o).key(string(i)).remove(ctx)
	return err
}
