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

type flowRow struct {
	State       string `gorm:"primaryKey"`
	OrgID       string `gorm:"type:uuid;not null"`
	ConnectorID string `gorm:"type:uuid;not null"`
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

const selectFlow = "SELECT state, org_id, connector_id, user_id, status, server, client, redirect, verifier, browser, error, created_at, expires_at " +
	"FROM connector_flows WHERE state = ?"

func scanFlow(s scanner) (connector.Flow, error) {
	var r flowRow
	if err := s.Scan(
		&r.State, &r.OrgID, &r.ConnectorID, &r.UserID, &r.Status, &r.Server, &r.Client, &r.Redirect, &r.Verifier, &r.Browser, &r.Error, &r.Created, &r.Expires,
	); err != nil {
		return connector.Flow{}, err
	}
	return r.flow()
}

type flows struct{ *conn }

var _ ports.Flows = flows{}

func (q flows) Add(ctx context.Context, f connector.Flow) error {
	r, err := rowOfFlow(f)
	if err != nil {
		return failed(ctx, err, "Authorization")
	}
	return q.atomic(ctx, func(c *conn) error {
		if err := c.holdConnector(ctx, f.Org, f.Instance); err != nil {
			return err
		}
		return add(ctx, c.write, "Authorization", r)
	})
}

func (q flows) Get(ctx context.Context, state string) (connector.Flow, error) {
	return get(ctx, acrossFlows.on(q.read), "Authorization", scanFlow, selectFlow, state)
}

func (q flows) Update(ctx context.Context, state string, fn func(connector.Flow) (connector.Flow, error)) (updated connector.Flow, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		there, err := get(ctx, acrossFlows.on(c.write), "Authorization", scanFlow, selectFlow+c.dialect.held(), state)
		if err != nil {
			return err
		}
		o := string(there.Org)
		next, err := fn(there)
		if err != nil {
			return err
		}
		r, err := rowOfFlow(next)
		if err != nil {
			return failed(ctx, err, "Authorization")
		}
		tx := c.write.WithContext(ctx).Model(&flowRow{}).Where("org_id = ? AND state = ?", o, state).Select("*").Omit("state", "org_id", "connector_id").Updates(r)
		if err := failed(ctx, tx.Error, "Authorization"); err != nil {
			return err
		}
		updated, err = r.flow()
		return failed(ctx, err, "Authorization")
	})
	if err != nil {
		return connector.Flow{}, err
	}
	return updated, nil
}

func (q flows) Sweep(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, acrossFlows.on(q.write), "Authorization", "DELETE FROM connector_flows WHERE expires_at < ?", before.UnixMilli())
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

const clientColumns = "issuer, redirect, client_id, secret, method, expires_at, used_at"

const selectClient = "SELECT " + clientColumns + " FROM connector_clients WHERE issuer = ? AND redirect = ?"

func scanClient(s scanner) (connector.Registered, error) {
	var r clientRow
	if err := s.Scan(&r.Issuer, &r.Redirect, &r.ClientID, &r.Secret, &r.Method, &r.Expires, &r.Used); err != nil {
		return connector.Registered{}, err
	}
	return connector.Registered{
		Issuer: r.Issuer, Redirect: r.Redirect, ID: r.ClientID, Secret: r.Secret, Method: r.Method, ExpiresAt: optionalInstant(r.Expires), UsedAt: instant(r.Used),
	}, nil
}

type clients struct{ *conn }

var _ ports.Clients = clients{}

func (q clients) Get(ctx context.Context, issuer, redirect string) (connector.Registered, error) {
	return get(ctx, q.read, "Client", scanClient, selectClient, issuer, redirect)
}

// Put lets the key decide, as Replays.Begin does: the row is taken over when its
// client expires too soon, and else it is read. It may be gone by then, and then
// all begins again.
func (q clients) Put(ctx context.Context, v connector.Registered, expires time.Time) (connector.Registered, error) {
	for range attempts {
		stored, ours, err := row(ctx, q.write, "Client", scanClient,
			"INSERT INTO connector_clients ("+clientColumns+") VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (issuer, redirect) DO UPDATE SET "+
				"client_id = excluded.client_id, secret = excluded.secret, method = excluded.method, expires_at = excluded.expires_at, used_at = excluded.used_at "+
				"WHERE connector_clients.expires_at < ? RETURNING "+clientColumns,
			v.Issuer, v.Redirect, v.ID, v.Secret, v.Method, optionalMillis(v.ExpiresAt), v.UsedAt.UnixMilli(), expires.UnixMilli())
		if err != nil || ours {
			return stored, err
		}
		there, found, err := row(ctx, q.write, "Client", scanClient, selectClient, v.Issuer, v.Redirect)
		if err != nil || found {
			return there, err
		}
	}
	return connector.Registered{}, fault.New(fault.Unavailable, "The client is changed by too many at once")
}

func (q clients) Use(ctx context.Context, v connector.Registered) error {
	n, err := exec(ctx, q.write, "Client", "UPDATE connector_clients SET used_at = ? WHERE issuer = ? AND redirect = ? AND client_id = ?",
		v.UsedAt.UnixMilli(), v.Issuer, v.Redirect, v.ID)
	if err == nil && n == 0 {
		err = fault.Missing("Client")
	}
	return err
}

func (q clients) Remove(ctx context.Context, issuer, redirect, client string) error {
	_, err := exec(ctx, q.write, "Client", "DELETE FROM connector_clients WHERE issuer = ? AND redirect = ? AND client_id = ?", issuer, redirect, client)
	return err
}

// Sweep leaves alone what others sweep, or use, at the same time. Each goes by its
// key, as Connectors.Due has it.
func (q clients) Sweep(ctx context.Context, before time.Time, limit int) (n int, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		old, err := all(ctx, c.write, "Client", scanClient,
			"SELECT "+clientColumns+" FROM connector_clients WHERE used_at < ? ORDER BY used_at LIMIT ?"+c.dialect.claimed(), before.UnixMilli(), limit)
		if err != nil {
			return err
		}
		for _, v := range old {
			if err := (clients{c}).Remove(ctx, v.Issuer, v.Redirect, v.ID); err != nil {
				return err
			}
		}
		n = len(old)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

type revocationRow struct {
	OrgID    string `gorm:"type:uuid;primaryKey"`
	ID       string `gorm:"type:uuid;primaryKey"`
	Renewal  []byte `gorm:"not null"`
	Attempts int64  `gorm:"not null"`
	Due      int64  `gorm:"column:due_at;not null"`
}

func (revocationRow) TableName() string { return "connector_revocations" }

func scanRevocation(s scanner) (connector.Revocation, error) {
	var r revocationRow
	if err := s.Scan(&r.OrgID, &r.ID, &r.Renewal, &r.Attempts, &r.Due); err != nil {
		return connector.Revocation{}, err
	}
	return connector.Revocation{
		ID: id.Connector(r.ID), Org: id.Org(r.OrgID), Renewal: r.Renewal, Attempts: int(r.Attempts), DueAt: instant(r.Due),
	}, nil
}

type revocations struct{ *conn }

var _ ports.Revocations = revocations{}

func (q revocations) Add(ctx context.Context, v connector.Revocation) error {
	return add(ctx, q.write, "Revocation", &revocationRow{
		OrgID: string(v.Org), ID: string(v.ID), Renewal: v.Renewal, Attempts: int64(v.Attempts), Due: v.DueAt.UnixMilli(),
	})
}

// Due puts off each by its key, as that of instances does.
func (q revocations) Due(ctx context.Context, now, until time.Time, limit int, without ...id.Org) (due []connector.Revocation, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		due, err = all(ctx, acrossConnectors.on(c.write), "Revocation", scanRevocation,
			"SELECT org_id, id, renewal, attempts, due_at FROM connector_revocations WHERE due_at <= ? AND NOT ("+c.dialect.in("org_id", "uuid")+") "+
				"ORDER BY due_at, org_id, id LIMIT ?"+c.dialect.claimed(),
			now.UnixMilli(), list(c.dialect, without), limit)
		if err != nil {
			return err
		}
		for n, v := range due {
			due[n].DueAt = instant(until.UnixMilli())
			if _, err := exec(ctx, c.write, "Revocation", "UPDATE connector_revocations SET due_at = ? WHERE org_id = ? AND id = ?", until.UnixMilli(), string(v.Org), string(v.ID)); err != nil {
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

func (q revocations) Put(ctx context.Context, v connector.Revocation) error {
	n, err := exec(ctx, q.write, "Revocation", "UPDATE connector_revocations SET renewal = ?, attempts = ?, due_at = ? WHERE org_id = ? AND id = ?",
		v.Renewal, v.Attempts, v.DueAt.UnixMilli(), string(v.Org), string(v.ID))
	if err == nil && n == 0 {
		err = fault.Missing("Revocation")
	}
	return err
}

func (q revocations) Remove(ctx context.Context, o id.Org, i id.Connector) error {
	_, err := exec(ctx, q.write, "Revocation", "DELETE FROM connector_revocations WHERE org_id = ? AND id = ?", string(o), string(i))
	return err
}
