package gormdb

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

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

const sessionColumns = "id, org_id, user_id, created_at, last_used_at, expires_at, address, user_agent, is_unnamed, is_ended"

func scanSession(s scanner) (session.Session, error) {
	var r sessionRow
	if err := s.Scan(&r.ID, &r.OrgID, &r.UserID, &r.Created, &r.LastUsed, &r.Expires, &r.Address, &r.UserAgent, &r.IsUnnamed, &r.IsEnded); err != nil {
		return session.Session{}, err
	}
	return session.Session{
		ID: id.Session(r.ID), Org: id.Org(r.OrgID.String), User: id.User(r.UserID), CreatedAt: instant(r.Created), LastUsedAt: instant(r.LastUsed),
		ExpiresAt: instant(r.Expires), Address: r.Address, UserAgent: r.UserAgent, Unnamed: r.IsUnnamed, Ended: r.IsEnded,
	}, nil
}

type sessions struct{ *conn }

var _ ports.Sessions = sessions{}

func (q sessions) written() *gorm.DB { return acrossSessions.on(q.write) }

func (q sessions) Get(ctx context.Context, s id.Session) (session.Session, error) {
	const query = "SELECT " + sessionColumns + " FROM sessions WHERE id = ?"
	if !q.inside() {
		return get(ctx, acrossSessions.on(q.read), "Session", scanSession, query, string(s))
	}
	return get(ctx, q.written(), "Session", scanSession, query+q.dialect.held(), string(s))
}

func (q sessions) Put(ctx context.Context, s session.Session) error {
	n, err := exec(ctx, q.written(), "Session",
		"INSERT INTO sessions ("+sessionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET org_id = excluded.org_id, "+
			"user_id = excluded.user_id, created_at = excluded.created_at, last_used_at = excluded.last_used_at, expires_at = excluded.expires_at, "+
			"address = excluded.address, user_agent = excluded.user_agent, is_unnamed = excluded.is_unnamed, is_ended = excluded.is_ended "+
			"WHERE NOT sessions.is_ended",
		string(s.ID), set(s.Org), string(s.User), s.CreatedAt.UnixMilli(), s.LastUsedAt.UnixMilli(), s.ExpiresAt.UnixMilli(),
		s.Address, s.UserAgent, s.Unnamed, s.Ended)
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "The session has ended")
	}
	return err
}

func (q sessions) List(ctx context.Context, user id.User) ([]session.Session, error) {
	return all(ctx, acrossSessions.on(q.read), "Session", scanSession,
		"SELECT "+sessionColumns+" FROM sessions WHERE user_id = ? AND NOT is_ended ORDER BY last_used_at DESC, id DESC", string(user))
}

func (q sessions) Remove(ctx context.Context, s id.Session) error {
	_, err := exec(ctx, q.written(), "Session", "DELETE FROM sessions WHERE id = ?", string(s))
	return err
}

func (q sessions) Use(ctx context.Context, uses map[id.Session]time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		for _, s := range slices.Sorted(maps.Keys(uses)) { // in one order, so that two servers do not wait for each other
			at := uses[s].UnixMilli()
			if _, err := exec(ctx, sessions{c}.written(), "Session",
				"UPDATE sessions SET last_used_at = ? WHERE id = ? AND NOT is_ended AND last_used_at < ?", at, string(s), at); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q sessions) Prune(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, q.written(), "Session", "DELETE FROM sessions WHERE expires_at < ?", before.UnixMilli())
	return err
}
