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
	Name       *string // as it was given
	Config     string  // text, because it comes back byte for byte
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
		Status: i.Status(), CreatedBy: i.CreatedBy, CreatedAt: i.CreatedAt, LastUsedAt: i.LastUsedAt, LastError: i.LastError, Failures: i.Failures,
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

var _ ports.Connectors = connectors{}

func (q connectors) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Instance, error) {
	return get(ctx, connectorTable.of(q.read, o).key(string(i)), (*connectorRow).instance)
}

func (q connectors) List(ctx context.Context, o id.Org, after connector.Position, limit int, fn func(connector.Instance) error) error {
	s := connectorTable.of(q.read, o)
	if after != (connector.Position{}) {
		s = s.after("created_at, id", after.CreatedAt.UnixMilli(), place(after.ID))
	}
	return each(ctx, s.page("created_at, id", limit), (*connectorRow).instance, fn)
}

func (q connectors) Add(ctx context.Context, o id.Org, i connector.Instance) error {
	return connectorTable.of(q.write, o).add(ctx, rowOfConnector(i))
}

func (q connectors) Update(ctx context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error) {
	return atomically(ctx, q.conn, func(c *conn) (connector.Instance, error) {
		return update(ctx, connectorTable.of(c.write, o).key(string(i)), (*connectorRow).instance, rowOfConnector, fn)
	})
}

// Remove is a transaction so that it is run again when it and somebody who has
// one of the flows have waited for each other.
func (q connectors) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	return q.atomic(ctx, func(c *conn) error {
		// Its flows go first, as whoever changes one may go on to the connector: a
		// cascade would meet them the other way round.
		if _, err := flowTable.of(c.write, o).filter("connector_id = ?", string(i)).remove(ctx); err != nil {
			return err
		}
		s := connectorTable.of(c.write, o).key(string(i))
		return s.one(s.remove(ctx))
	})
}

// Due puts off each instance by its key: a join with all of them would have
// Postgres go through the table, and they are few beside what is done for each.
func (q connectors) Due(ctx context.Context, now time.Time, limit int, without ...id.Org) ([]connector.Instance, error) {
	return atomically(ctx, q.conn, func(c *conn) ([]connector.Instance, error) {
		due, err := claimDue(ctx, connectorTable.crossTenant(c.write, crossTenantConnectors), (*connectorRow).instance, now, limit, without)
		for n := 0; n < len(due) && err == nil; n++ {
			i := &due[n]
			if *i, err = i.Claimed(now); err == nil {
				_, err = connectorTable.of(c.write, i.Org).key(string(i.ID)).set(ctx, "due_at = ?", i.DueAt.UnixMilli())
			}
		}
		return due, err
	})
}

// claimDue reads and holds rows that are due, of other organisations than some,
// and passes over those that somebody else holds.
func claimDue[R, T any](ctx context.Context, s selection, record func(*R) (T, error), now time.Time, limit int, without []id.Org) ([]T, error) {
	d := dialectOf(s.db)
	s = s.filter("due_at <= ? AND NOT ("+d.in("org_id", "uuid")+")", now.UnixMilli(), list(d, without))
	return all(ctx, s.claim("due_at, org_id, id", limit), record)
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

var _ ports.Credentials = credentials{}

func (q credentials) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Sealed, error) {
	return get(ctx, credentialsTable.of(q.read, o).key(string(i)), (*credentialsRow).sealed)
}

func (q credentials) Put(ctx context.Context, o id.Org, s connector.Sealed) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := connectorTable.of(c.write, o).key(string(s.Instance)).kept(ctx); err != nil {
			return err
		}
		return credentialsTable.of(c.write, o).put(ctx, &credentialsRow{Sealed: sealedFields(s)})
	})
}
