package gormdb

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/session"
	"collab/ports"
)

type sessionRow struct {
	ID        string         `gorm:"primaryKey"`
	OrgID     sql.NullString `gorm:"type:uuid"`
	UserID    string         `gorm:"type:uuid;not null"`
	Created   int64          `gorm:"column:created_at;not null"`
	LastUsed  int64          `gorm:"column:last_used_at;not null"`
	Expires   int64          `gorm:"column:expires_at;not null"`
	Address   string         `gorm:"not null"`
	UserAgent string         `gorm:"not null"`
	IsUnnamed bool           `gorm:"not null"`
	IsEnded   bool           `gorm:"not null"`
}

func (sessionRow) TableName() string { return "sessions" }

var sessionTable = tenant[sessionRow]("Session", nil)

func (r *sessionRow) session() (session.Session, error) {
	return session.Session{
		ID: id.Session(r.ID), Org: id.Org(r.OrgID.String), User: id.User(r.UserID), CreatedAt: instant(r.Created), LastUsedAt: instant(r.LastUsed),
		ExpiresAt: instant(r.Expires), Address: r.Address, UserAgent: r.UserAgent, Unnamed: r.IsUnnamed, Ended: r.IsEnded,
	}, nil
}

type sessions struct{ *conn }

var _ ports.Sessions = sessions{}

func (q sessions) rows() selection[sessionRow] {
	return sessionTable.crossTenant(q.write, crossTenantSessions)
}

func (q sessions) Get(ctx context.Context, s id.Session) (session.Session, error) {
	if !q.inside() {
		return get(ctx, sessionTable.crossTenant(q.read, crossTenantSessions).key(string(s)), (*sessionRow).session)
	}
	return get(ctx, q.rows().key(string(s)).held(), (*sessionRow).session)
}

var putSession = sessionTable.replaces("NOT sessions.is_ended")

func (q sessions) Put(ctx context.Context, s session.Session) error {
	n, err := exec(ctx, q.write, "Session", crossTenantSQL(crossTenantSessions, putSession, bind(&sessionRow{
		ID: string(s.ID), OrgID: set(s.Org), UserID: string(s.User), Created: s.CreatedAt.UnixMilli(), LastUsed: s.LastUsedAt.UnixMilli(),
		Expires: s.ExpiresAt.UnixMilli(), Address: s.Address, UserAgent: s.UserAgent, IsUnnamed: s.Unnamed, IsEnded: s.Ended,
	}, sessionTable.fields, nil)...))
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
