package gormdb

import (
	"context"
	"database/sql"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

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

var memberTable = tenant[membershipRow]("Member", nil)

func (r *membershipRow) membership() (org.Membership, error) {
	return org.Membership{
		Org: id.Org(r.OrgID), User: id.User(r.UserID), Role: org.Role(r.Role), OnboardingCompleted: r.OnboardingCompleted,
		JoinedAt: instant(r.JoinedAt), UsedAt: instant(r.UsedAt), ProviderRole: r.ProviderRole,
		RoleIssuedAt: instant(r.RoleIssuedAt), RoleSetHere: r.RoleSetHere, Seen: r.Seen.stamp(), RemovedAt: optionalInstant(r.Removed),
	}, nil
}

type members struct{ *conn }

var _ ports.Members = members{}

func (q members) Get(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	return get(ctx, memberTable.of(q.read, o).key(string(user)), (*membershipRow).membership)
}

func (q members) Epoch(ctx context.Context, o id.Org) (int64, error) {
	found, err := queryGet(ctx, q.read, "Organisation", scanEpoch, sharedSQL(epochs+"id = ?", string(o)))
	return found.epoch, err
}

func (q members) Hold(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	if !q.inside() {
		return q.Get(ctx, o, user)
	}
	return get(ctx, memberTable.of(q.write, o).key(string(user)).held(), (*membershipRow).membership)
}

func (q members) Put(ctx context.Context, o id.Org, m org.Membership) error {
	return memberTable.of(q.write, o).put(ctx, &membershipRow{
		UserID: string(m.User), Role: string(m.Role), OnboardingCompleted: m.OnboardingCompleted,
		JoinedAt: m.JoinedAt.UnixMilli(), UsedAt: m.UsedAt.UnixMilli(), ProviderRole: m.ProviderRole,
		RoleIssuedAt: m.RoleIssuedAt.UnixMilli(), RoleSetHere: m.RoleSetHere, Seen: rowOfStamp(m.Seen), Removed: optionalMillis(m.RemovedAt),
	})
}

func (q members) List(ctx context.Context, o id.Org, after org.Position, limit int, fn func(org.Profile) error) error {
	var u userRow
	s := withUser(memberTable.of(q.read, o).filter("removed_at IS NULL"), &u, after, limit)
	return each(ctx, s, func(m *membershipRow) (p org.Profile, err error) {
		if p.Membership, err = m.membership(); err == nil {
			p.Person, err = u.user()
		}
		return p, err
	}, fn)
}

// withUser reads the user with each row of a table that has user_id and joined_at,
// in the order in which they joined.
func withUser[R any](s selection[R], u *userRow, after org.Position, limit int) selection[R] {
	order := "joined_at, user_id"
	if after != (org.Position{}) {
		s = s.after(order, after.JoinedAt.UnixMilli(), place(after.User))
	}
	s = s.join(s.name+" JOIN users ON users.id = "+s.name+".user_id", ", "+userTable.list[dialectOf(s.db)], dest(u, userTable.reads)...)
	return s.page(order, limit)
}

func (q members) ByEmail(ctx context.Context, o id.Org, email string) (bool, error) {
	s := memberTable.of(q.read, o).filter("removed_at IS NULL AND users.email_key = ?", identity.FoldEmail(email))
	_, found, err := find(ctx, s.join("memberships JOIN users ON users.id = memberships.user_id", ""), (*membershipRow).membership)
	return found, err
}

type seats struct{ *conn }

var _ ports.Seats = seats{}

// seatsRow is what one of the two tables has of an organisation.
type seatsRow struct {
	org id.Org
	org.Seats
}

func scanSeats(s scanner) (r seatsRow, err error) {
	err = s.Scan((*string)(&r.org), &r.Owners, &r.Members, &r.Pending)
	return r, err
}

// Count asks both tables in one statement, so that they answer for one moment.
func (q seats) Count(ctx context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error) {
	counted := make(map[id.Org]org.Seats, len(orgs))
	for _, o := range orgs {
		counted[o] = org.Seats{}
	}
	taken, some := memberTable.ofEach(q.read, orgs, crossTenantOverview)
	pending, _ := invitationTable.ofEach(q.read, orgs, crossTenantOverview)
	if !some {
		return counted, nil
	}
	return counted, queryEach(ctx, taken.db, "Organisation", scanSeats, func(r seatsRow) error {
		n := counted[r.org]
		counted[r.org] = org.Seats{Owners: n.Owners + r.Owners, Members: n.Members + r.Members, Pending: n.Pending + r.Pending}
		return nil
	}, taken.made(seatCounts(taken.where, pending.where), append(append(taken.args, pending.args...), now.UnixMilli())))
}
