package contract

import (
	"errors"
	"testing"

	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

// Users is the suite of ports.Users.
func Users(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown user is not found": func(w *world) {
			that(w.users().Get(w.ctx, fresh[id.User]())).missing(w)
			that(w.users().ByProvider(w.ctx, "user_"+nextID())).missing(w)
			that(w.users().ByProvider(w.ctx, "")).missing(w)
		},
		"a user comes back with every field as it went in": func(w *world) {
			full := someUser()
			full.DeletedAt = new(at(9))
			bare := org.User{ID: fresh[id.User](), ProviderID: "user_" + nextID(), CreatedAt: at(1), UpdatedAt: at(1)}
			for _, u := range []org.User{full, bare} {
				that(w.users().Upsert(w.ctx, u, keep)).is(w, u)
				that(w.users().Get(w.ctx, u.ID)).is(w, u)
				that(w.users().ByProvider(w.ctx, u.ProviderID)).is(w, u)
			}
			if got := that(w.users().Get(w.ctx, bare.ID)).must(w); !got.Seen.IsZero() {
				w.Fatalf("the stamp %v was never set", got.Seen)
			}
		},
		"the provider's id is compared exactly": func(w *world) {
			lower := someUser()
			lower.ProviderID = "user_x" + nextID()
			upper := someUser()
			upper.ProviderID = "user_X" + lower.ProviderID[len("user_x"):]
			that(w.users().Upsert(w.ctx, lower, keep)).must(w)
			that(w.users().ByProvider(w.ctx, upper.ProviderID)).missing(w)
			that(w.users().ByProvider(w.ctx, lower.ProviderID+" ")).missing(w)
			that(w.users().Upsert(w.ctx, upper, keep)).is(w, upper)
			that(w.users().ByProvider(w.ctx, lower.ProviderID)).is(w, lower)
		},
		"upsert gives fn what is there and stores what fn makes of it": func(w *world) {
			first := w.user()
			second := someUser()
			second.ProviderID = first.ProviderID
			want := first
			want.Name, want.Email, want.AvatarURL, want.UpdatedAt = "New", "", "", at(100)
			want.Full, want.Seen, want.DeletedAt = false, identity.Stamp{}, new(at(101))
			got, err := w.users().Upsert(w.ctx, second, func(u org.User) (org.User, error) {
				same(w, u, first)
				return want, nil
			})
			w.ok(err)
			same(w, got, want)
			that(w.users().Get(w.ctx, first.ID)).is(w, want)
			that(w.users().Get(w.ctx, second.ID)).missing(w)
		},
		"upsert gives fn the fresh user when there is none, and stores what fn makes of it": func(w *world) {
			u := someUser()
			want := u
			want.Name = "Other"
			that(w.users().Upsert(w.ctx, u, func(given org.User) (org.User, error) {
				same(w, given, u)
				return want, nil
			})).is(w, want)
			that(w.users().Get(w.ctx, u.ID)).is(w, want)
		},
		"an error of fn comes back and nothing is stored": func(w *world) {
			no := errors.New("no")
			refuse := func(u org.User) (org.User, error) {
				u.Name = "Never"
				return u, no
			}
			u := someUser()
			_, err := w.users().Upsert(w.ctx, u, refuse)
			w.unchanged(err, no)
			that(w.users().Get(w.ctx, u.ID)).missing(w)
			that(w.users().ByProvider(w.ctx, u.ProviderID)).missing(w)

			there := w.user()
			_, err = w.users().Upsert(w.ctx, there, refuse)
			w.unchanged(err, no)
			that(w.users().Get(w.ctx, there.ID)).is(w, there)
		},
		"a taken id is a conflict": func(w *world) {
			there := w.user()
			other := someUser()
			other.ID = there.ID
			that(w.users().Upsert(w.ctx, other, keep)).conflict(w)
			that(w.users().Get(w.ctx, there.ID)).is(w, there)
			that(w.users().ByProvider(w.ctx, other.ProviderID)).missing(w)
		},
		"many upserts of one provider id at once make one record and lose no update": func(w *world) {
			providerID := "user_" + nextID()
			errs := together(concurrent, func(int) error {
				u := someUser()
				u.ProviderID, u.Seen.Rank = providerID, 0
				_, err := w.users().Upsert(w.ctx, u, counted)
				return err
			})
			w.allOK(errs)
			if u := that(w.users().ByProvider(w.ctx, providerID)).must(w); u.Seen.Rank != concurrent {
				w.Fatalf("%d updates count, want %d", u.Seen.Rank, concurrent)
			}
		},
		"an upsert in a transaction holds the record until its end": func(w *world) {
			providerID := "user_" + nextID()
			errs := together(concurrent, func(int) error {
				u := someUser()
				u.ProviderID, u.Seen.Rank = providerID, 0
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if _, err := r.Directory().Users().Upsert(w.ctx, u, counted); err != nil {
						return err
					}
					_, err := r.Directory().Users().Upsert(w.ctx, u, counted)
					return err
				})
			})
			w.allOK(errs)
			if u := that(w.users().ByProvider(w.ctx, providerID)).must(w); u.Seen.Rank != 2*concurrent {
				w.Fatalf("%d updates count, want %d", u.Seen.Rank, 2*concurrent)
			}
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			u := someUser()
			u.DeletedAt = new(at(9))
			want := u
			want.DeletedAt = new(at(9))
			spoil := func(u org.User) { *u.DeletedAt = at(999) }

			spoil(that(w.users().Upsert(w.ctx, u, keep)).must(w))
			spoil(u)
			that(w.users().Get(w.ctx, u.ID)).is(w, want)
			spoil(that(w.users().Get(w.ctx, u.ID)).must(w))
			spoil(that(w.users().ByProvider(w.ctx, u.ProviderID)).must(w))
			that(w.users().Get(w.ctx, u.ID)).is(w, want)

			_, err := w.users().Upsert(w.ctx, u, func(u org.User) (org.User, error) {
				spoil(u)
				return u, errors.New("no")
			})
			if err == nil {
				w.Fatal("fn's error is gone")
			}
			var mine org.User
			that(w.users().Upsert(w.ctx, u, func(u org.User) (org.User, error) {
				mine = u
				return u, nil
			})).must(w)
			spoil(mine)
			that(w.users().Get(w.ctx, u.ID)).is(w, want)
		},
		"memberships are all of the user's, the most recently used first": func(w *world) {
			u, other := w.user(), w.user()
			orgs := make([]id.Org, 6)
			for i := range orgs {
				orgs[i] = w.org().ID
			}
			put := func(o id.Org, used, joined int) org.Membership {
				m := org.Membership{Org: o, User: u.ID, Role: org.Viewer, JoinedAt: at(joined), UsedAt: at(used)}
				w.ok(w.members().Put(w.ctx, o, m))
				return m
			}
			a, b, c, d := put(orgs[2], 5, 1), put(orgs[0], 9, 1), put(orgs[1], 5, 7), put(orgs[4], 5, 1)
			c.RemovedAt = new(at(8))
			w.ok(w.members().Put(w.ctx, c.Org, c))
			never := org.Membership{Org: orgs[3], User: u.ID, Role: org.Owner, JoinedAt: at(99)}
			w.ok(w.members().Put(w.ctx, orgs[3], never))
			w.join(orgs[0], other.ID, org.Member, at(3))

			that(w.users().Memberships(w.ctx, u.ID)).is(w, []org.Membership{b, c, d, a, never})
			that(w.users().Memberships(w.ctx, fresh[id.User]())).is(w, nil)

			*that(w.users().Memberships(w.ctx, u.ID)).must(w)[1].RemovedAt = at(999)
			that(w.users().Memberships(w.ctx, u.ID)).is(w, []org.Membership{b, c, d, a, never})
		},
	}.run(t, open)
}

// counted counts in a place of the record that is free for it.
func counted(u org.User) (org.User, error) {
	u.Seen.Rank++
	return u, nil
}
