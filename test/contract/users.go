package contract

import (
	"testing"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// Users is the suite of ports.Users.
func Users(t *testing.T, open func(t *testing.T) Opened) {
	upserted[org.User, id.User]{
		of:   func(d ports.Directory) upserter[org.User, id.User] { return d.Users() },
		some: someUser,
		bare: func() org.User {
			return org.User{ID: fresh[id.User](), ProviderID: "user_" + nextID(), CreatedAt: at(1), UpdatedAt: at(1)}
		},
		fill: func(u *org.User) { u.DeletedAt = new(at(9)) },
		change: func(u org.User) org.User {
			u.Name, u.Email, u.AvatarURL, u.UpdatedAt = "New", "", "", at(100)
			u.Full, u.Seen, u.DeletedAt = false, identity.Stamp{}, new(at(101))
			return u
		},
		id:       func(u *org.User) *id.User { return &u.ID },
		provider: func(u *org.User) *string { return &u.ProviderID },
		seen:     func(u *org.User) *identity.Stamp { return &u.Seen },
	}.suite().and(suite{
		"a profile is a membership with its user and its organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for _, u := range []org.User{tn.owner, tn.removed} {
				p, of, err := w.Users().Profile(w.ctx, tn.ID, u.ID)
				w.ok(err)
				wantEqual(w, p, org.Profile{Membership: must.Do(w.Members().Get(w.ctx, tn.ID, u.ID)).Or(w), Person: u})
				wantEqual(w, of, tn.Organisation)
			}
			for _, at := range []struct {
				o id.Org
				u id.User
			}{{tn.ID, other.owner.ID}, {other.ID, tn.owner.ID}, {tn.ID, fresh[id.User]()}, {fresh[id.Org](), tn.owner.ID}, {tn.ID, "nobody"}} {
				_, _, err := w.Users().Profile(w.ctx, at.o, at.u)
				w.wantNotFound(err)
			}
		},
		"memberships returns all of the user's, the most recently used first": func(w *fixture) {
			u, other := w.user(), w.user()
			orgs := make([]id.Org, 6)
			for i := range orgs {
				orgs[i] = w.org().ID
			}
			put := func(o id.Org, used, joined int) org.Membership {
				m := org.Membership{Org: o, User: u.ID, Role: org.Viewer, JoinedAt: at(joined), UsedAt: at(used)}
				w.ok(w.Members().Put(w.ctx, o, m))
				return m
			}
			a, b, c, d := put(orgs[2], 5, 1), put(orgs[0], 9, 1), put(orgs[1], 5, 7), put(orgs[4], 5, 1)
			c.RemovedAt = new(at(8))
			w.ok(w.Members().Put(w.ctx, c.Org, c))
			never := org.Membership{Org: orgs[3], User: u.ID, Role: org.Owner, JoinedAt: at(99)}
			w.ok(w.Members().Put(w.ctx, orgs[3], never))
			w.join(orgs[0], other.ID, org.Member, at(3))

			resultOf(w.Users().Memberships(w.ctx, u.ID)).is(w, []org.Membership{b, c, d, a, never})
			resultOf(w.Users().Memberships(w.ctx, fresh[id.User]())).is(w, nil)

			*must.Do(w.Users().Memberships(w.ctx, u.ID)).Or(w)[1].RemovedAt = at(999)
			resultOf(w.Users().Memberships(w.ctx, u.ID)).is(w, []org.Membership{b, c, d, a, never})
		},
	}).run(t, open)
}
