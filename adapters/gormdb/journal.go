package gormdb

import (
	"context"
	"database/sql"
	"time"

	"collab/domain/audit"
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

var inboxTable = shared[inboxRow]("Message")

type inbox struct{ *conn }

var _ ports.Inbox = inbox{}

func (q inbox) Accept(ctx context.Context, source, message string, now time.Time) error {
	return inboxTable.on(q.write).add(ctx, &inboxRow{Source: source, Message: message, Noted: now.UnixMilli()})
}

func (q inbox) Prune(ctx context.Context, before time.Time) error {
	_, err := inboxTable.on(q.write).filter("noted_at < ?", before.UnixMilli()).remove(ctx)
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

var auditTable = tenant[auditRow]("Entry", nil)

func (r *auditRow) entry() (audit.Entry, error) {
	return audit.Entry{
		ID: id.Entry(r.ID), Org: id.Org(r.OrgID.String), At: instant(r.At), Actor: id.User(r.ActorID.String), Operator: r.IsOperator,
		Action: audit.Action(r.Action), Target: r.Target, Detail: r.Detail, Address: r.Address, Request: r.Request,
	}, nil
}

type auditLog struct{ *conn }

var _ ports.Audit = auditLog{}

func (q auditLog) Add(ctx context.Context, e audit.Entry) error {
	rows := auditTable.of(q.write, e.Org)
	if e.Org == "" {
		rows = auditTable.crossTenant(q.write, crossTenantAudit)
	}
	return rows.add(ctx, &auditRow{
		ID: string(e.ID), At: e.At.UnixMilli(), ActorID: set(e.Actor), IsOperator: e.Operator,
		Action: string(e.Action), Target: e.Target, Detail: e.Detail, Address: e.Address, Request: e.Request,
	})
}

func (q auditLog) List(ctx context.Context, o id.Org, after id.Entry, limit int, fn func(audit.Entry) error) error {
	s := auditTable.of(q.read, o)
	if after != "" {
		s = s.filter("(at, id) < (SELECT b.at, b.id FROM audit b WHERE b.org_id = ? AND b.id = ?)", string(o), place(after))
	}
	return each(ctx, s.page("at DESC, id DESC", limit), (*auditRow).entry, fn)
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

var replayTable = shared[replayRow]("Key")

func rowOfReplay(r replay.Record) *replayRow {
	return &replayRow{Key: r.Key, Fingerprint: r.Fingerprint, Claim: r.Claim, IsDone: r.Done, Answer: r.Answer, Expires: r.ExpiresAt.UnixMilli()}
}

func (r *replayRow) replay() (replay.Record, error) {
	return replay.Record{Key: r.Key, Fingerprint: r.Fingerprint, Claim: r.Claim, Done: r.IsDone, Answer: r.Answer, ExpiresAt: instant(r.Expires)}, nil
}

type replays struct{ *conn }

var _ ports.Replays = replays{}

func (q replays) Begin(ctx context.Context, r replay.Record, now time.Time) (replay.Record, error) {
	return takeOver(ctx, replayTable.on(q.write), rowOfReplay(r), (*replayRow).replay, "replays.expires_at <= ?", now.UnixMilli(), r.Key)
}

func (q replays) claimed(key, claim string) selection[replayRow] {
	return replayTable.on(q.write).filter("key = ? AND claim = ?", key, claim)
}

func (q replays) Finish(ctx context.Context, r replay.Record) error {
	return q.claimed(r.Key, r.Claim).save(ctx, rowOfReplay(r))
}

func (q replays) Abandon(ctx context.Context, key, claim string) error {
	_, err := q.claimed(key, claim).remove(ctx)
	return err
}

func (q replays) Prune(ctx context.Context, before time.Time) error {
	_, err := replayTable.on(q.write).filter("expires_at < ?", before.UnixMilli()).remove(ctx)
	return err
}
