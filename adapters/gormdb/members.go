package gormdb

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

type membershipRow struct {
	Org                 id.Org  `gorm:"column:org_id;primaryKey"`
	User                id.User `gorm:"column:user_id;primaryKey"`
	Role                org.Role
	OnboardingCompleted bool
	JoinedAt            time.Time
	UsedAt              time.Time

	ProviderRole string
	RoleIssuedAt time.Time
	RoleSetHere  bool
	Seen         identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
	RemovedAt    *time.Time
}

var memberTable = tenant[membershipRow]("memberships", "Member")

func (r *membershipRow) membership() (org.Membership, error) { return org.Membership(*r), nil }

type members struct{ *conn }

var _ ports.Members = members{}

func (q members) Get(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	return get(ctx, memberTable.of(q.read, o).key(string(user)), (*membershipRow).membership)
}

func (q members) Epoch(ctx context.Context, o id.Org) (epoch int64, err error) {
	return epoch, getRow(ctx, q.read, "Organisation", sharedSQL(epochs+"id = ?", string(o)), new(string), &epoch)
}

func (q members) Hold(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	if !q.inside() {
		return q.Get(ctx, o, user)
	}
	return get(ctx, memberTable.of(q.write, o).key(string(user)).held(), (*membershipRow).membership)
}

func (q members) Put(ctx context.Context, o id.Org, m org.Membership) error {
	return memberTable.of(q.write, o).put(ctx, (*membershipRow)(&m))
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
func withUser(s selection, u *userRow, after org.Position, limit int) selection {
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
	c := taken.made(seatCounts(taken.where, pending.where), append(append(taken.args, pending.args...), now.UnixMilli()))
	var o id.Org
	var of org.Seats // what one of the two tables has of an organisation
	return counted, eachRow(ctx, taken.db, "Organisation", c, []any{&o, &of.Owners, &of.Members, &of.Pending}, func() error {
		n := counted[o]
		counted[o] = org.Seats{Owners: n.Owners + of.Owners, Members: n.Members + of.Members, Pending: n.Pending + of.Pending}
		return nil
	})
}
