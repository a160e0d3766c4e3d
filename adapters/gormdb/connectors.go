package gormdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
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

func rowOfConnector(o id.Org, i connector.Instance) (*connectorRow, error) {
	r := &connectorRow{
		OrgID: string(o), ID: string(i.ID), Provider: i.Provider, Label: i.Label, Name: optional(i.Name), Config: i.Config, URL: i.URL,
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

const selectConnectors = "SELECT org_id, id, provider, label, name, config, url, hosting, transport, status, created_by, created_at, " +
	"last_used_at, last_error, tools, failures, version, expires_at, renew_at, due_at FROM connectors WHERE "

func scanConnector(s scanner) (connector.Instance, error) {
	var r connectorRow
	if err := s.Scan(
		&r.OrgID, &r.ID, &r.Provider, &r.Label, &r.Name, &r.Config, &r.URL, &r.Hosting, &r.Transport, &r.Status, &r.CreatedBy, &r.Created,
		&r.LastUsed, &r.LastError, &r.Tools, &r.Failures, &r.Version, &r.Expires, &r.Renew, &r.Due,
	); err != nil {
		return connector.Instance{}, err
	}
	return r.instance()
}

type connectors struct{ *conn }

var _ ports.Connectors = connectors{}

func (q connectors) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Instance, error) {
	return get(ctx, q.read, "Connector", scanConnector, selectConnectors+"org_id = ? AND id = ?", string(o), string(i))
}

func (q connectors) List(ctx context.Context, o id.Org, after connector.Position, limit int, fn func(connector.Instance) error) error {
	query, args := selectConnectors+"org_id = ?", []any{string(o)}
	if after != (connector.Position{}) {
		query, args = query+" AND (created_at, id) > (?, ?)", append(args, after.CreatedAt.UnixMilli(), place(after.ID))
	}
	query, page := q.dialect.page(query, "created_at, id", limit)
	return each(ctx, q.read, "Connector", scanConnector, fn, query, append(args, page...)...)
}

func (q connectors) Add(ctx context.Context, o id.Org, i connector.Instance) error {
	r, err := rowOfConnector(o, i)
	if err != nil {
		return failed(ctx, err, "Connector")
	}
	return add(ctx, q.write, "Connector", r)
}

func (q connectors) Update(ctx context.Context, o id.Org, i id.Connector, fn func(connector.Instance) (connector.Instance, error)) (updated connector.Instance, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		there, err := get(ctx, c.write, "Connector", scanConnector, selectConnectors+"org_id = ? AND id = ?"+c.dialect.held(), string(o), string(i))
		if err != nil {
			return err
		}
		next, err := fn(there)
		if err != nil {
			return err
		}
		r, err := rowOfConnector(o, next)
		if err != nil {
			return failed(ctx, err, "Connector")
		}
		tx := c.write.WithContext(ctx).Model(&connectorRow{}).Where("org_id = ? AND id = ?", string(o), string(i)).Select("*").Omit("org_id", "id").Updates(r)
		if err := failed(ctx, tx.Error, "Connector"); err != nil {
			return err
		}
		updated, err = r.instance()
		return failed(ctx, err, "Connector")
	})
	if err != nil {
		return connector.Instance{}, err
	}
	return updated, nil
}

// Remove is a transaction so that it is run again when it and somebody who has
// one of the flows have waited for each other.
func (q connectors) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	return q.atomic(ctx, func(c *conn) error {
		// Its flows go first, as whoever changes one may go on to the connector: a
		// cascade would meet them the other way round.
		if _, err := exec(ctx, c.write, "Connector", "DELETE FROM connector_flows WHERE org_id = ? AND connector_id = ?", string(o), string(i)); err != nil {
			return err
		}
		n, err := exec(ctx, c.write, "Connector", "DELETE FROM connectors WHERE org_id = ? AND id = ?", string(o), string(i))
		if err == nil && n == 0 {
			err = fault.Missing("Connector")
		}
		return err
	})
}

// Due puts off each instance by its key: a join with all of them would have
// Postgres go through the table, and they are few beside what is done for each.
func (q connectors) Due(ctx context.Context, now time.Time, limit int, without ...id.Org) (due []connector.Instance, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		due, err = all(ctx, acrossConnectors.on(c.write), "Connector", scanConnector,
			selectConnectors+"due_at <= ? AND NOT ("+c.dialect.in("org_id", "uuid")+") ORDER BY due_at, org_id, id LIMIT ?"+c.dialect.claimed(),
			now.UnixMilli(), list(c.dialect, without), limit)
		if err != nil {
			return err
		}
		for n, i := range due {
			if due[n], err = i.Claimed(now); err != nil {
				return err
			}
			_, err = exec(ctx, c.write, "Connector", "UPDATE connectors SET due_at = ? WHERE org_id = ? AND id = ?", optionalMillis(due[n].DueAt), string(i.Org), string(i.ID))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

type credentialsRow struct {
	OrgID       string `gorm:"type:uuid;primaryKey"`
	ConnectorID string `gorm:"type:uuid;primaryKey"`
	Version     int64  `gorm:"not null"`
	Entries     []byte `gorm:"not null"`
	Renewal     []byte // null for none
}

func (credentialsRow) TableName() string { return "connector_credentials" }

func scanCredentials(s scanner) (connector.Sealed, error) {
	var r credentialsRow
	if err := s.Scan(&r.ConnectorID, &r.Version, &r.Entries, &r.Renewal); err != nil {
		return connector.Sealed{}, err
	}
	return connector.Sealed{Instance: id.Connector(r.ConnectorID), Version: r.Version, Entries: r.Entries, Renewal: r.Renewal}, nil
}

type credentials struct{ *conn }

var _ ports.Credentials = credentials{}

func (q credentials) Get(ctx context.Context, o id.Org, i id.Connector) (connector.Sealed, error) {
	return get(ctx, q.read, "Credentials", scanCredentials,
		"SELECT connector_id, version, entries, renewal FROM connector_credentials WHERE org_id = ? AND connector_id = ?", string(o), string(i))
}

func (q credentials) Put(ctx context.Context, o id.Org, s connector.Sealed) error {
	return q.atomic(ctx, func(c *conn) error {
		if err := c.holdConnector(ctx, o, s.Instance); err != nil {
			return err
		}
		tx := c.write.WithContext(ctx).Clauses(replace).Create(&credentialsRow{
			OrgID: string(o), ConnectorID: string(s.Instance), Version: s.Version, Entries: s.Entries, Renewal: s.Renewal,
		})
		return failed(ctx, tx.Error, "Credentials")
	})
}

// holdConnector holds the instance against deletion before something refers to
// it: a reference that is broken would end a transaction on Postgres.
func (c *conn) holdConnector(ctx context.Context, o id.Org, i id.Connector) error {
	_, err := get(ctx, c.write, "Connector", scanInt, "SELECT 1 FROM connectors WHERE org_id = ? AND id = ?"+c.dialect.shared(), string(o), string(i))
	return err
}
