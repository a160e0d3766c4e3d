package gormdb

import (
	"context"
	"database/sql"

	"gorm.io/gorm/clause"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

// nothing makes an INSERT pass over a row whose key is taken, which leaves a
// transaction on Postgres usable, where an error would end it.
var nothing = clause.OnConflict{DoNothing: true}

type userRow struct {
	ID         string `gorm:"type:uuid;primaryKey"`
	ProviderID string `gorm:"not null"`
	Name       string `gorm:"not null"`
	Email      string `gorm:"not null"`
	EmailKey   string `gorm:"not null"` // the address as it is compared
	AvatarURL  string `gorm:"not null"`
	Created    int64  `gorm:"column:created_at;not null"`
	Updated    int64  `gorm:"column:updated_at;not null"`

	IsFull            bool          `gorm:"not null"`
	IsBlocked         bool          `gorm:"not null"`
	Seen              stampRow      `gorm:"embedded;embeddedPrefix:seen_"`
	NameIssuedAt      int64         `gorm:"not null"`
	EmailIssuedAt     int64         `gorm:"not null"`
	AvatarURLIssuedAt int64         `gorm:"not null"`
	Deleted           sql.NullInt64 `gorm:"column:deleted_at"`
}

func (userRow) TableName() string { return "users" }

// userColumns are of the table with the alias u, in the order of dest.
const userColumns = "u.id, u.provider_id, u.name, u.email, u.avatar_url, u.created_at, u.updated_at, u.is_full, u.is_blocked, u.seen_at, u.seen_rank, u.seen_message, u.name_issued_at, u.email_issued_at, u.avatar_url_issued_at, u.deleted_at"

func (r *userRow) dest() []any {
	return []any{
		&r.ID, &r.ProviderID, &r.Name, &r.Email, &r.AvatarURL, &r.Created, &r.Updated, &r.IsFull, &r.IsBlocked,
		&r.Seen.At, &r.Seen.Rank, &r.Seen.Message, &r.NameIssuedAt, &r.EmailIssuedAt, &r.AvatarURLIssuedAt, &r.Deleted,
	}
}

func rowOfUser(u org.User) *userRow {
	return &userRow{
		ID: string(u.ID), ProviderID: u.ProviderID, Name: u.Name, Email: u.Email, EmailKey: identity.FoldEmail(u.Email), AvatarURL: u.AvatarURL,
		Created: u.CreatedAt.UnixMilli(), Updated: u.UpdatedAt.UnixMilli(), IsFull: u.Full, IsBlocked: u.Blocked, Seen: rowOfStamp(u.Seen),
		NameIssuedAt: u.NameIssuedAt.UnixMilli(), EmailIssuedAt: u.EmailIssuedAt.UnixMilli(), AvatarURLIssuedAt: u.AvatarURLIssuedAt.UnixMilli(),
		Deleted: optionalMillis(u.DeletedAt),
	}
}

func (r *userRow) user() org.User {
	return org.User{
		ID: id.User(r.ID), ProviderID: r.ProviderID, Name: r.Name, Email: r.Email, AvatarURL: r.AvatarURL,
		CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated), Full: r.IsFull, Blocked: r.IsBlocked, Seen: r.Seen.stamp(),
		NameIssuedAt: instant(r.NameIssuedAt), EmailIssuedAt: instant(r.EmailIssuedAt), AvatarURLIssuedAt: instant(r.AvatarURLIssuedAt),
		DeletedAt: optionalInstant(r.Deleted),
	}
}

func scanUser(s scanner) (org.User, error) {
	var r userRow
	if err := s.Scan(r.dest()...); err != nil {
		return org.User{}, err
	}
	return r.user(), nil
}

type users struct{ *conn }

var _ ports.Users = users{}

func (q users) Get(ctx context.Context, user id.User) (org.User, error) {
	return get(ctx, q.read, "User", scanUser, "SELECT "+userColumns+" FROM users u WHERE u.id = ?", string(user))
}

func (q users) ByProvider(ctx context.Context, providerID string) (org.User, error) {
	return get(ctx, q.read, "User", scanUser, "SELECT "+userColumns+" FROM users u WHERE u.provider_id = ?", providerID)
}

func (q users) Upsert(ctx context.Context, fresh org.User, fn func(org.User) (org.User, error)) (stored org.User, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		stored, err = upsert(ctx, c, upserted[org.User]{
			what:  "User",
			scan:  scanUser,
			query: "SELECT " + userColumns + " FROM users u WHERE u.provider_id = ?",
			key:   fresh.ProviderID,
			row:   func(u org.User) any { return rowOfUser(u) },
			where: func(u org.User) string { return string(u.ID) },
			copy: func(u org.User) org.User {
				u.DeletedAt = another(u.DeletedAt)
				return u
			},
		}, fresh, fn)
		return err
	})
	return stored, err
}

func (q users) Memberships(ctx context.Context, user id.User) ([]org.Membership, error) {
	return all(ctx, acrossMemberships.on(q.read), "Membership", scanMembership,
		"SELECT "+membershipColumns+" FROM memberships m WHERE m.user_id = ? ORDER BY m.used_at DESC, m.joined_at DESC, m.org_id DESC", string(user))
}
