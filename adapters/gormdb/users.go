package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

type userRow struct {
	User     userFields `gorm:"embedded"`
	EmailKey string     `gorm:"->:false;<-"` // the address as it is compared
}

// userFields are those of org.User.
type userFields struct {
	ID         id.User `gorm:"primaryKey"`
	ProviderID string  `gorm:"<-:create"`
	Name       string
	Email      string
	AvatarURL  string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Full              bool           `gorm:"column:is_full"`
	Seen              identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
	NameIssuedAt      time.Time
	EmailIssuedAt     time.Time
	AvatarURLIssuedAt time.Time
	Blocked           bool `gorm:"column:is_blocked"`
	DeletedAt         *time.Time
}

var userTable = shared[userRow]("users", "User")

func rowOfUser(u org.User) *userRow { return &userRow{userFields(u), identity.FoldEmail(u.Email)} }

func (r *userRow) user() (org.User, error) { return org.User(r.User), nil }

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
