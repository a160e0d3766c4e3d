package gormdb

import (
	"context"
	"database/sql"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

type userRow struct {
	ID         string `gorm:"type:uuid;primaryKey"`
	ProviderID string `gorm:"<-:create;not null"`
	Name       string `gorm:"not null"`
	Email      string `gorm:"not null"`
	EmailKey   string `gorm:"->:false;<-;not null"` // the address as it is compared
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

var userTable = shared[userRow]("User")

func rowOfUser(u org.User) *userRow {
	return &userRow{
		ID: string(u.ID), ProviderID: u.ProviderID, Name: u.Name, Email: u.Email, EmailKey: identity.FoldEmail(u.Email), AvatarURL: u.AvatarURL,
		Created: u.CreatedAt.UnixMilli(), Updated: u.UpdatedAt.UnixMilli(), IsFull: u.Full, IsBlocked: u.Blocked, Seen: rowOfStamp(u.Seen),
		NameIssuedAt: u.NameIssuedAt.UnixMilli(), EmailIssuedAt: u.EmailIssuedAt.UnixMilli(), AvatarURLIssuedAt: u.AvatarURLIssuedAt.UnixMilli(),
		Deleted: optionalMillis(u.DeletedAt),
	}
}

func (r *userRow) user() (org.User, error) {
	return org.User{
		ID: id.User(r.ID), ProviderID: r.ProviderID, Name: r.Name, Email: r.Email, AvatarURL: r.AvatarURL,
		CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated), Full: r.IsFull, Blocked: r.IsBlocked, Seen: r.Seen.stamp(),
		NameIssuedAt: instant(r.NameIssuedAt), EmailIssuedAt: instant(r.EmailIssuedAt), AvatarURLIssuedAt: instant(r.AvatarURLIssuedAt),
		DeletedAt: optionalInstant(r.Deleted),
	}, nil
}

type users struct{ *conn }

var _ ports.Users = users{}

func (q users) Get(ctx context.Context, user id.User) (org.User, error) {
	return get(ctx, userTable.on(q.read).key(string(user)), (*userRow).user)
}

func (q users) ByProvider(ctx context.Context, providerID string) (org.User, error) {
	return get(ctx, userTable.on(q.read).filter("provider_id = ?", providerID), (*userRow).user)
}

func (q users) Upsert(ctx context.Context, fresh org.User, fn func(org.User) (org.User, error)) (org.User, error) {
	return atomically(ctx, q.conn, func(c *conn) (org.User, error) {
		return upsert(ctx, userTable.on(c.write), fresh.ProviderID, (*userRow).user, rowOfUser, fresh, fn)
	})
}

func (q users) Memberships(ctx context.Context, user id.User) ([]org.Membership, error) {
	theirs := memberTable.crossTenant(q.read, crossTenantMemberships).filter("user_id = ?", string(user))
	return all(ctx, theirs.page("used_at DESC, joined_at DESC, org_id DESC", 0), (*membershipRow).membership)
}
