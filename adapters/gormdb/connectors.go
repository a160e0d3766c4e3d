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

type connectorRow struct {
	OrgID     string         `gorm:"type:uuid;primaryKey"`
	ID        string         `gorm:"type:uuid;primaryKey"`
	Provider  string         `gorm:"not null"`
	Label     string         `gorm:"not null"`
	Name      sql.NullString // as it was given
	Config    string         `gorm:"not null"` // text, because it comes back byte for byte
	URL       string         `gorm:"not null"`
	Hosting   string         `gorm:"not null"`
	Transport string         `gorm:"not null"`
	Status    string         `gorm:"not null"`
	CreatedBy string         `gorm:"type:uuid;not null"`
	Created   int64          `gorm:"column:created_at;not null"`
	LastUsed  sql.NullInt64  `gorm:"column:last_used_at"`
	LastError string         `gorm:"not null"`
	Tools     sql.NullString // a JSON array of toolRow; null for none
	Failures  int64          `gorm:"not null"`
	Version   int64          `gorm:"not null"`
	Expires   sql.NullInt64  `gorm:"column:expires_at"`
	Renew     sql.NullInt64  `gorm:"column:renew_at"`
	Due       sql.NullInt64  `gorm:"column:due_at"`
}

func (connectorRow) TableName() string { return "connectors" }

type toolRow struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

var connectorTable = tenant[connectorRow]("Connector", nil)

func rowOfConnector(i connector.Instance) (*connectorRow, error) {
	r := &connectorRow{
		ID: string(i.ID), Provider: i.Provider, Label: i.Label, Name: optional(i.Name), Config: i.Config, URL: i.URL,
		Hosting: string(i.Hosting), Transport: string(i.Transport), Status: string(i.Status()), CreatedBy: string(i.CreatedBy), Created: i.CreatedAt.UnixMilli(),
		LastUsed: optionalMillis(i.LastUsedAt), LastError: i.LastError, Failures: int64(i.Failures), Version: i.Version,
		Expires: optionalMillis(i.ExpiresAt), Renew: optionalMillis(i.RenewAt), Due: optionalMillis(i.DueAt),
	}
	if len(i.Tools) == 0 {
		return r, nil
	}
	tools := make([]toolRow, len(i.Tools))
	for n, t := range i.Tools {
		tools[n] = toolRow(t)
	}
	text, err := written(tools)
	r.Tools = sql.NullString{String: text, Valid: true}
	return r, err
}

func (r *connectorRow) instance() (connector.Instance, error) {
	i := connector.Instance{
		ID: id.Connector(r.ID), Org: id.Org(r.OrgID), Provider: r.Provider, Label: r.Label, Name: pointer[string](r.Name), Config: r.Config, URL: r.URL,
		Hosting: connector.Hosting(r.Hosting), Transport: connector.Transport(r.Transport), CreatedBy: id.User(r.CreatedBy), CreatedAt: instant(r.Created),
		LastUsedAt: optionalInstant(r.LastUsed), LastError: r.LastError, Failures: int(r.Failures), Version: r.Version,
		ExpiresAt: optionalInstant(r.Expires), RenewAt: optionalInstant(r.Renew), DueAt: optionalInstant(r.Due),
	}.Restore(connector.Status(r.Status))
	if !r.Tools.Valid {
		return i, nil
	}
	var tools []toolRow
	err := json.Unmarshal([]byte(r.Tools.String), &tools)
	for _, t := range tools {
		i.Tools = append(i.Tools, connector.Tool(t))
	}
	return i, err
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
	r, err := rowOfConnector(i)
	if err != nil {
		return failed(ctx, err, "Connector")
	}
	return connectorTable.of(q.write, o).add(ctx, r)
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
				_, err = connectorTable.of(c.write, i.Org).key(string(i.ID)).set(ctx, "due_at = ?", optionalMillis(i.DueAt))
			}
		}
		return due, err
	})
}

// claimDue reads and holds rows that are due, of other organisations than some,
// and passes over those that somebody else holds.
func claimDue[R, T any](ctx context.Context, s selection[R], record func(*R) (T, error), now time.Time, limit int, without []id.Org) ([]T, error) {
	d := dialectOf(s.db)
	s = s.filter("due_at <= ? AND NOT ("+d.in("org_id", "uuid")+")", now.UnixMilli(), list(d, without))
	return all(ctx, s.claim("due_at, org_id, id", limit), record)
}

type credentialsRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	ConnectorID string `gorm:"type:uuid;primaryKey"`
	Version     int64  `gorm:"not null"`
	Entries     []byte `gorm:"not null"`
	Renewal     []byte // null for none
}

func (credentialsRow) TableName() string { return "connector_credentials" }

var credentialsTable = tenant[credentialsRow]("Credentials", nil)

func (r *credentialsRow) sealed() (connector.Sealed, error) {
	return connector.Sealed{Instance: id.Connector(r.ConnectorID), Version: r.Version, Entries: r.Entries, Renewal: r.Renewal}, nil
}

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
		return credentialsTable.of(c.write, o).put(ctx, &credentialsRow{
			ConnectorID: string(s.Instance), Version: s.Version, Entries: s.Entries, Renewal: s.Renewal,
		})
	})
}
