package gormdb

import (
	"context"
	"database/sql"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/replay"
	"collab/ports"
)

type inboxRow struct {
	Source  string `gorm:"primaryKey"`
	Message string `gorm:"primaryKey"`
	Noted   int64  `gorm:"column:noted_at;not null"`
}

func (inboxRow) TableName() string { return "inbox" }

type inbox struct{ *conn }

var _ ports.Inbox = inbox{}

func (q inbox) Accept(ctx context.Context, source, message string, now time.Time) error {
	return add(ctx, q.write, "Message", &inboxRow{Source: source, Message: message, Noted: now.UnixMilli()})
}

func (q inbox) Prune(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, q.write, "Message", "DELETE FROM inbox WHERE noted_at < ?", before.UnixMilli())
	return err
}

type auditRow struct {
	ID         string         `gorm:"type:uuid;primaryKey"`
	OrgID      sql.NullString `gorm:"type:uuid"` // null for what concerns the deployment
	At         int64          `gorm:"not null"`
	ActorID    sql.NullString `gorm:"type:uuid"`
	IsOperator bool           `gorm:"not null"`
	Action     string         `gorm:"not null"`
	Target     string         `gorm:"not null"`
	Detail     string         `gorm:"not null"`
	Address    string         `gorm:"not null"`
	Request    string         `gorm:"not null"`
}

func (auditRow) TableName() string { return "audit" }

func scanEntry(s scanner) (audit.Entry, error) {
	var r auditRow
	if err := s.Scan(&r.ID, &r.OrgID, &r.At, &r.ActorID, &r.IsOperator, &r.Action, &r.Target, &r.Detail, &r.Address, &r.Request); err != nil {
		return audit.Entry{}, err
	}
	return audit.Entry{
		ID: id.Entry(r.ID), Org: id.Org(r.OrgID.String), At: instant(r.At), Actor: id.User(r.ActorID.String), Operator: r.IsOperator,
		Action: audit.Action(r.Action), Target: r.Target, Detail: r.Detail, Address: r.Address, Request: r.Request,
	}, nil
}

type auditLog struct{ *conn }

var _ ports.Audit = auditLog{}

func (q auditLog) Add(ctx context.Context, e audit.Entry) error {
	db := q.write
	if e.Org == "" {
		db = acrossAudit.on(db)
	}
	return add(ctx, db, "Entry", &auditRow{
		ID: string(e.ID), OrgID: set(e.Org), At: e.At.UnixMilli(), ActorID: set(e.Actor), IsOperator: e.Operator,
		Action: string(e.Action), Target: e.Target, Detail: e.Detail, Address: e.Address, Request: e.Request,
	})
}

func (q auditLog) List(ctx context.Context, o id.Org, after id.Entry, limit int, fn func(audit.Entry) error) error {
	query := "SELECT id, org_id, at, actor_id, is_operator, action, target, detail, address, request FROM audit WHERE org_id = ?"
	args := []any{string(o)}
	if after != "" {
		query += " AND (at, id) < (SELECT b.at, b.id FROM audit b WHERE b.org_id = ? AND b.id = ?)"
		args = append(args, string(o), place(after))
	}
	query, limited := q.dialect.page(query, "at DESC, id DESC", limit)
	return each(ctx, q.read, "Entry", scanEntry, fn, query, append(args, limited...)...)
}

type replayRow struct {
	Key         string `gorm:"primaryKey"`
	Fingerprint string `gorm:"not null"`
	Claim       string `gorm:"not null"`
	IsDone      bool   `gorm:"not null"`
	Answer      []byte
	Expires     int64 `gorm:"column:expires_at;not null"`
}

func (replayRow) TableName() string { return "replays" }

const replayColumns = "key, fingerprint, claim, is_done, answer, expires_at"

func scanReplay(s scanner) (replay.Record, error) {
	var r replayRow
	if err := s.Scan(&r.Key, &r.Fingerprint, &r.Claim, &r.IsDone, &r.Answer, &r.Expires); err != nil {
		return replay.Record{}, err
	}
	return replay.Record{Key: r.Key, Fingerprint: r.Fingerprint, Claim: r.Claim, Done: r.IsDone, Answer: r.Answer, ExpiresAt: instant(r.Expires)}, nil
}

type replays struct{ *conn }

var _ ports.Replays = replays{}

// Begin lets the key decide: the row is taken over when it is no longer live,
// and else it is read. It may be gone by then, and then all begins again.
func (q replays) Begin(ctx context.Context, r replay.Record, now time.Time) (replay.Record, error) {
	for range attempts {
		stored, ours, err := row(ctx, q.write, "Key", scanReplay,
			"INSERT INTO replays ("+replayColumns+") VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, "+
				"claim = excluded.claim, is_done = excluded.is_done, answer = excluded.answer, expires_at = excluded.expires_at "+
				"WHERE replays.expires_at <= ? RETURNING "+replayColumns,
			r.Key, r.Fingerprint, r.Claim, r.Done, r.Answer, r.ExpiresAt.UnixMilli(), now.UnixMilli())
		if err != nil || ours {
			return stored, err
		}
		there, found, err := row(ctx, q.write, "Key", scanReplay, "SELECT "+replayColumns+" FROM replays WHERE key = ?", r.Key)
		if err != nil || found {
			return there, err
		}
	}
	return replay.Record{}, fault.New(fault.Unavailable, "The key is in use by too many at once")
}

func (q replays) Finish(ctx context.Context, r replay.Record) error {
	n, err := exec(ctx, q.write, "Key", "UPDATE replays SET fingerprint = ?, is_done = ?, answer = ?, expires_at = ? WHERE key = ? AND claim = ?",
		r.Fingerprint, r.Done, r.Answer, r.ExpiresAt.UnixMilli(), r.Key, r.Claim)
	if err == nil && n == 0 {
		err = fault.Missing("Key")
	}
	return err
}

func (q replays) Abandon(ctx context.Context, key, claim string) error {
	_, err := exec(ctx, q.write, "Key", "DELETE FROM replays WHERE key = ? AND claim = ?", key, claim)
	return err
}

func (q replays) Prune(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, q.write, "Key", "DELETE FROM replays WHERE expires_at < ?", before.UnixMilli())
	return err
}
