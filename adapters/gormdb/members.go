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

// replace makes an INSERT replace the row with the same primary key.
var replace = clause.OnConflict{UpdateAll: true}

type membershipRow struct {
	OrgID               string `gorm:"type:uuid;primaryKey"`
	UserID              string `gorm:"type:uuid;primaryKey"`
	Role                string `gorm:"not null"`
	OnboardingCompleted bool   `gorm:"not null"`
	JoinedAt            int64  `gorm:"not null"`
	UsedAt              int64  `gorm:"not null"`

	ProviderRole string        `gorm:"not null"`
	RoleIssuedAt int64         `gorm:"not null"`
	RoleSetHere  bool          `gorm:"not null"`
	Seen         stampRow      `gorm:"embedded;embeddedPrefix:seen_"`
	Removed      sql.NullInt64 `gorm:"column:removed_at"`
}

func (membershipRow) TableName() string { return "memberships" }

// membershipColumns are of the table with the alias m, in the order of dest.
const membershipColumns = "m.org_id, m.user_id, m.role, m.onboarding_completed, m.joined_at, m.used_at, m.provider_role, m.role_issued_at, m.role_set_here, m.seen_at, m.seen_rank, m.seen_message, m.removed_at"

func (r *membershipRow) dest() []any {
	return []any{
		&r.OrgID, &r.UserID, &r.Role, &r.OnboardingCompleted, &r.JoinedAt, &r.UsedAt, &r.ProviderRole, &r.RoleIssuedAt, &r.RoleSetHere,
		&r.Seen.At, &r.Seen.Rank, &r.Seen.Message, &r.Removed,
	}
}

func (r *membershipRow) membership() org.Membership {
	return org.Membership{
		Org: id.Org(r.OrgID), User: id.User(r.UserID), Role: org.Role(r.Role), OnboardingCompleted: r.OnboardingCompleted,
		JoinedAt: instant(r.JoinedAt), UsedAt: instant(r.UsedAt), ProviderRole: r.ProviderRole,
		RoleIssuedAt: instant(r.RoleIssuedAt), RoleSetHere: r.RoleSetHere, Seen: r.Seen.stamp(), RemovedAt: optionalInstant(r.Removed),
	}
}

func scanMembership(s scanner) (org.Membership, error) {
	var r membershipRow
	if err := s.Scan(r.dest()...); err != nil {
		return org.Membership{}, err
	}
	return r.membership(), nil
}

func scanProfile(s scanner) (org.Profile, error) {
	var m membershipRow
	var u userRow
	if err := s.Scan(append(m.dest(), u.dest()...)...); err != nil {
		return org.Profile{}, err
	}
	return org.Profile{Membership: m.membership(), Person: u.user()}, nil
}

type members struct{ *conn }

var _ ports.Members = members{}

const selectMembership = "SELECT " + membershipColumns + " FROM memberships m WHERE m.org_id = ? AND m.user_id = ?"

func (q members) Get(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	return get(ctx, q.read, "Member", scanMembership, selectMembership, string(o), string(user))
}

func (q members) Epoch(ctx context.Context, o id.Org) (int64, error) {
	found, err := get(ctx, q.read, "Organisation", scanEpoch, "SELECT id, epoch FROM organisations WHERE id = ?", string(o))
	return found.epoch, err
}

func (q members) Hold(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	if !q.inside() {
		return q.Get(ctx, o, user)
	}
	return get(ctx, q.write, "Member", scanMembership, selectMembership+q.dialect.held(), string(o), string(user))
}

func (q members) Put(ctx context.Context, o id.Org, m org.Membership) error {
	tx := q.write.WithContext(ctx).Clauses(replace).Create(&membershipRow{
		OrgID: string(o), UserID: string(m.User), Role: string(m.Role), OnboardingCompleted: m.OnboardingCompleted,
		JoinedAt: m.JoinedAt.UnixMilli(), UsedAt: m.UsedAt.UnixMilli(), ProviderRole: m.ProviderRole,
		RoleIssuedAt: m.RoleIssuedAt.UnixMilli(), RoleSetHere: m.RoleSetHere, Seen: rowOfStamp(m.Seen), Removed: optionalMillis(m.RemovedAt),
	})
	return failed(ctx, tx.Error, "Member")
}

func (q members) List(ctx context.Context, o id.Org, after org.Position, limit int, fn func(org.Profile) error) error {
	query := "SELECT " + membershipColumns + ", " + userColumns +
		" FROM memberships m JOIN users u ON u.id = m.user_id WHERE m.org_id = ? AND m.removed_at IS NULL"
	args := []any{string(o)}
	if after != (org.Position{}) {
		query, args = query+" AND (m.joined_at, m.user_id) > (?, ?)", append(args, after.JoinedAt.UnixMilli(), place(after.User))
	}
	query += " ORDER BY m.joined_at, m.user_id"
	if limit > 0 {
		query, args = query+" LIMIT ?", append(args, limit)
	}
	return each(ctx, q.read, "Member", scanProfile, fn, query, args...)
}

func (q members) ByEmail(ctx context.Context, o id.Org, email string) (bool, error) {
	return get(ctx, q.read, "Member", scanBool,
		"SELECT EXISTS (SELECT 1 FROM users u JOIN memberships m ON m.user_id = u.id WHERE m.org_id = ? AND m.removed_at IS NULL AND u.email_key = ?)",
		string(o), identity.FoldEmail(email))
}
