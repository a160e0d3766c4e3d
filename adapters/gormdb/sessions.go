package gormdb

import (
	"context"
	"maps"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/session"
	"collab/ports"
)

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

var _ ports.Sessions = sessions{}

func (q sessions) rows() selection {
	return sessionTable.crossTenant(q.write, crossTenantSessions)
}

func (q sessions) Get(ctx context.Context, s id.Session) (session.Session, error) {
	if !q.inside() {
		return get(ctx, sessionTable.crossTenant(q.read, crossTenantSessions).key(string(s)), (*sessionRow).session)
	}
	return get(ctx, q.rows().key(string(s)).held(), (*sessionRow).session)
}

func (q sessions) Put(ctx context.Context, s session.Session) error {
	n, err := q.rows().insert(ctx, (*sessionRow)(&s), sessionTable.replacing(sessionTable.changes)+" WHERE NOT sessions.is_ended")
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
	_, err := q.rows().key(string(s)).remove(ctx)
	return err
}

func (q sessions) Use(ctx context.Context, uses map[id.Session]time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		for _, s := range slices.Sorted(maps.Keys(uses)) { // in one order, so that two servers do not wait for each other
			at := uses[s].UnixMilli()
			if _, err := (sessions{c}).rows().key(string(s)).filter("NOT is_ended AND last_used_at < ?", at).set(ctx, "last_used_at = ?", at); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q sessions) Prune(ctx context.Context, before time.Time) error {
	_, err := q.rows().filter("expires_at < ?", before.UnixMilli()).remove(ctx)
	return err
}
