package gormdb

import (
	"context"
	"maps"
	"slices"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/replay"
	"collab/domain/session"
	"collab/ports"
)

type inboxRow struct {
	Source  string `gorm:"primaryKey"`
	Message string `gorm:"primaryKey"`
	NotedAt time.Time
}

var inboxTable = shared[inboxRow]("inbox", "Message")

type inbox struct{ *conn }

func (g group) Inbox() ports.Inbox { return inbox(g) }

func (q inbox) Accept(ctx context.Context, source, message string, now time.Time) error {
	return inboxTable.on(q.write).add(ctx, &inboxRow{Source: source, Message: message, NotedAt: now})
}

func (q inbox) Prune(ctx context.Context, before time.Time) error {
	return inboxTable.on(q.write).filter("noted_at < ?", before.UnixMilli()).delete(ctx)
}

type auditRow struct {
	ID       id.Entry `gorm:"primaryKey"`
	Org      id.Org   `gorm:"column:org_id;default:null"` // null for entries of the deployment
	At       time.Time
	Actor    id.User `gorm:"column:actor_id;default:null"`
	Operator bool    `gorm:"column:is_operator"`
	Action   audit.Action
	Target   string
	Detail   string
	Address  string
	Request  string
}

var auditTable = tenant[auditRow]("audit", "Entry")

func (r *auditRow) entry() (audit.Entry, error) { return audit.Entry(*r), nil }

type auditLog struct{ *conn }

func (g group) Audit() ports.Audit { return auditLog(g) }

func (q auditLog) Add(ctx context.Context, e audit.Entry) error {
	rows := auditTable.of(q.write, e.Org)
	if e.Org == "" {
		rows = auditTable.crossTenant(q.write, crossTenantAudit)
	}
	return rows.add(ctx, (*auditRow)(&e))
}

func (q auditLog) List(ctx context.Context, o id.Org, f audit.Filter, fn func(audit.Entry) error) error {
	s := auditTable.of(q.read, o).matching("actor_id", string(f.Actor)).matching("action", string(f.Action)).
		matching(dialectOf(q.read).kindOfAction(), f.Kind).matching("target", f.Target)
	if f.Source != "" {
		s = s.filter("actor_id IS NULL AND is_operator = ?", f.Source == audit.Operators)
	}
	if !f.From.IsZero() {
		s = s.filter("at >= ?", f.From.UnixMilli())
	}
	if !f.To.IsZero() {
		s = s.filter("at < ?", f.To.UnixMilli())
	}
	if f.After != "" {
		s = s.filter("(at, id) < (SELECT b.at, b.id FROM audit b WHERE b.org_id = ? AND b.id = ?)", string(o), cursorID(f.After))
	}
	return each(ctx, s.page("at DESC, id DESC", f.Limit), (*auditRow).entry, fn)
}

type replayRow struct {
	Key         string `gorm:"primaryKey"`
	Fingerprint string
	Claim       string
	Done        bool   `gorm:"column:is_done"`
	Answer      []byte `gorm:"default:null"`
	ExpiresAt   time.Time
}

var replayTable = shared[replayRow]("replays", "Key")

func (r *replayRow) replay() (replay.Record, error) { return replay.Record(*r), nil }

type replays struct{ *conn }

func (g group) Replays() ports.Replays { return replays(g) }

func (q replays) Begin(ctx context.Context, r replay.Record, now time.Time) (replay.Record, error) {
	return upsertIf(ctx, replayTable.on(q.write), (*replayRow)(&r), (*replayRow).replay, "replays.expires_at <= ?", now.UnixMilli(), r.Key)
}

func (q replays) claimed(key, claim string) selection {
	return replayTable.on(q.write).filter("key = ? AND claim = ?", key, claim)
}

func (q replays) Finish(ctx context.Context, r replay.Record) error {
	return q.claimed(r.Key, r.Claim).save(ctx, (*replayRow)(&r))
}

func (q replays) Abandon(ctx context.Context, key, claim string) error {
	return q.claimed(key, claim).delete(ctx)
}

func (q replays) Prune(ctx context.Context, before time.Time) error {
	return replayTable.on(q.write).filter("expires_at < ?", before.UnixMilli()).delete(ctx)
}

type sessionRow struct {
	ID         id.Session `gorm:"type:text;primaryKey"`
	User       id.User    `gorm:"column:user_id"`
	Org        id.Org     `gorm:"column:org_id;default:null"`
	CreatedAt  time.Time
	LastUsedAt time.Time
	ExpiresAt  time.Time
	Address    string
	UserAgent  string
	Unnamed    bool `gorm:"column:is_unnamed"`
	Ended      bool `gorm:"column:is_ended"`
}

var sessionTable = tenant[sessionRow]("sessions", "Session")

func (r *sessionRow) session() (session.Session, error) { return session.Session(*r), nil }

type sessions struct{ *conn }

func (g group) Sessions() ports.Sessions { return sessions(g) }

func (q sessions) rows() selection {
	return sessionTable.crossTenant(q.write, crossTenantSessions)
}

func (q sessions) Get(ctx context.Context, s id.Session) (session.Session, error) {
	if !q.inTransaction() {
		return get(ctx, sessionTable.crossTenant(q.read, crossTenantSessions).key(string(s)), (*sessionRow).session)
	}
	return get(ctx, q.rows().key(string(s)).forUpdate(), (*sessionRow).session)
}

func (q sessions) Put(ctx context.Context, s session.Session) error {
	n, err := q.rows().insert(ctx, (*sessionRow)(&s), sessionTable.onConflictUpdate(sessionTable.changes)+" WHERE NOT sessions.is_ended")
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "The session has ended")
	}
	return err
}

func (q sessions) List(ctx context.Context, user id.User) ([]session.Session, error) {
	s := sessionTable.crossTenant(q.read, crossTenantSessions).filter("user_id = ? AND NOT is_ended", string(user))
	return all(ctx, s.page("last_used_at DESC, id DESC", 0), (*sessionRow).session)
}

func (q sessions) Remove(ctx context.Context, s id.Session) error {
	return q.rows().key(string(s)).delete(ctx)
}

func (q sessions) Use(ctx context.Context, uses map[id.Session]time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		for _, s := range slices.Sorted(maps.Keys(uses)) { // in one order, so that two servers do not wait for each other
			at := uses[s].UnixMilli()
			older := sessions{c}.rows().key(string(s)).filter("NOT is_ended AND last_used_at < ?", at)
			if _, err := older.set(ctx, "last_used_at = ?", at); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q sessions) Prune(ctx context.Context, before time.Time) error {
	return q.rows().filter("expires_at < ?", before.UnixMilli()).delete(ctx)
}
