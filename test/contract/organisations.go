package contract

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/ports"
)

// Organisations is the suite of ports.Organisations.
func Organisations(t *testing.T, open func(t *testing.T) Opened) {
	fill := func(o *org.Organisation) { o.ClosedAt, o.ErasedAt = new(at(9)), new(at(10)) }
	spoil := func(o org.Organisation) { *o.ClosedAt, *o.ErasedAt = at(999), at(999) }
	upserted[org.Organisation, id.Org]{
		of:   func(d ports.Directory) upserter[org.Organisation, id.Org] { return d.Organisations() },
		some: someOrg,
		bare: func() org.Organisation {
			return org.Organisation{ID: fresh[id.Org](), ProviderID: "org_" + nextID(), CreatedAt: at(1), UpdatedAt: at(1)}
		},
		fill:  fill,
		spoil: spoil,
		change: func(o org.Organisation) org.Organisation {
			o.Name, o.Slug, o.UpdatedAt, o.Full, o.Seen = "New", "", at(100), false, identity.Stamp{}
			o.CreatedBy, o.CreatedBySeen, o.ClosedAt = "", identity.Stamp{}, new(at(101))
			return o
		},
		id:       func(o *org.Organisation) *id.Org { return &o.ID },
		provider: func(o *org.Organisation) *string { return &o.ProviderID },
		seen:     func(o *org.Organisation) *identity.Stamp { return &o.Seen },
	}.suite().and(suite{
		"an unknown organisation has nothing": func(w *world) {
			unknown := fresh[id.Org]()
			w.missing(w.organisations().Erase(w.ctx, unknown, at(300)))
			same(w, w.seatsOf(unknown), org.Seats{})
			same(w, w.profiles(unknown, org.Position{}, 0), nil)
			that(w.pending(unknown, at(6), invitation.Position{}, 0)).is(w, nil)
			that(w.subscriptions().Get(w.ctx, unknown)).is(w, plan.Unsubscribed(unknown))
			that(w.allTeams(unknown)).is(w, nil)
			that(w.allWorkspaces(unknown)).is(w, nil)
			same(w, w.listed(unknown, org.Actor{User: fresh[id.User](), Org: unknown}, task.Filter{}), nil)
		},
		"what lock and list hand out is the caller's": func(w *world) {
			start, o := fresh[id.Org](), someOrg()
			fill(&o)
			that(w.organisations().Upsert(w.ctx, o, keep)).must(w)
			w.atomic(func(r ports.Records) error {
				locked, err := r.Directory().Organisations().Lock(w.ctx, o.ID)
				if err == nil {
					spoil(locked)
				}
				return err
			})
			for _, listed := range that(w.organisations().List(w.ctx, org.Filter{After: start})).must(w) {
				if listed.ID == o.ID {
					spoil(listed)
				}
			}
			fill(&o)
			that(w.organisations().Get(w.ctx, o.ID)).is(w, o)
		},
		"lock outside a transaction fails": func(w *world) {
			o := w.org()
			was := w.epoch(o.ID)
			if _, err := w.organisations().Lock(w.ctx, o.ID); err == nil {
				w.Fatal("no error")
			}
			same(w, w.epoch(o.ID), was)
		},
		"lock does not find an unknown organisation": func(w *world) {
			err := w.store.Atomic(w.ctx, func(r ports.Records) error {
				_, err := r.Directory().Organisations().Lock(w.ctx, fresh[id.Org]())
				return err
			})
			w.missing(err)
		},
		"lock returns the organisation as it is then": func(w *world) {
			o := w.org()
			errs := together(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					locked, err := r.Directory().Organisations().Lock(w.ctx, o.ID)
					if err != nil {
						return err
					}
					_, err = r.Directory().Organisations().Upsert(w.ctx, o, func(there org.Organisation) (org.Organisation, error) {
						there.Seen.Rank = locked.Seen.Rank + 1
						return there, nil
					})
					return err
				})
			})
			w.allOK(errs)
			same(w, that(w.organisations().Get(w.ctx, o.ID)).must(w).Seen.Rank, o.Seen.Rank+concurrent)
		},
		"of two owners who demote each other under the lock one stays": func(w *world) {
			for range 4 {
				o := w.org()
				owners := []org.User{w.member(o.ID, org.Owner), w.member(o.ID, org.Owner)}
				errs := together(len(owners), func(i int) error {
					return w.store.Atomic(w.ctx, func(r ports.Records) error {
						if _, err := r.Directory().Organisations().Lock(w.ctx, o.ID); err != nil {
							return err
						}
						seats, err := r.Directory().Seats().Count(w.ctx, []id.Org{o.ID}, at(6))
						if err != nil {
							return err
						}
						if seats[o.ID].Owners < 2 {
							return fault.New(fault.Conflict, "The last one")
						}
						m, err := r.Directory().Members().Get(w.ctx, o.ID, owners[1-i].ID)
						if err != nil {
							return err
						}
						m.Role = org.Member
						return r.Directory().Members().Put(w.ctx, o.ID, m)
					})
				})
				w.oneWins(errs, fault.Conflict)
				same(w, w.seatsOf(o.ID), org.Seats{Owners: 1, Members: 2})
			}
		},
		"list goes through all in the order of their ids": func(w *world) {
			start := fresh[id.Org]()
			var mine []org.Organisation
			for range 7 {
				mine = append(mine, w.org())
			}
			for _, limit := range []int{1, 3, 7, 0} {
				last := start
				all := paged(w, limit, func(*org.Organisation) []org.Organisation {
					if last >= mine[len(mine)-1].ID {
						return nil
					}
					page := that(w.organisations().List(w.ctx, org.Filter{After: last, Limit: limit})).must(w)
					for _, o := range page {
						if o.ID <= last {
							w.Fatalf("%s follows %s", o.ID, last)
						}
						last = o.ID
					}
					return page
				})
				found := slices.DeleteFunc(all, func(o org.Organisation) bool {
					return !slices.ContainsFunc(mine, func(m org.Organisation) bool { return m.ID == o.ID })
				})
				same(w, found, mine)
			}
		},
		"list selects those closed at a time or before and not erased": func(w *world) {
			start, open := fresh[id.Org](), w.org()
			closed := func(at time.Time) org.Organisation {
				o := someOrg()
				o.ClosedAt = &at
				return that(w.organisations().Upsert(w.ctx, o, keep)).must(w)
			}
			early, exact, late, erased := closed(at(99)), closed(at(100)), closed(at(101)), closed(at(99))
			w.ok(w.organisations().Erase(w.ctx, erased.ID, at(300)))
			listed := map[id.Org]bool{}
			for _, o := range that(w.organisations().List(w.ctx, org.Filter{After: start, ClosedBefore: new(at(100))})).must(w) {
				listed[o.ID] = true
			}
			got := []bool{listed[open.ID], listed[early.ID], listed[exact.ID], listed[late.ID], listed[erased.ID]}
			same(w, got, []bool{false, true, true, false, false})
		},
		"erase removes everything of the organisation and nothing of another": func(w *world) {
			tn, other := w.tenant(), w.tenant()
			w.join(tn.ID, other.owner.ID, org.Member, at(15))
			w.join(other.ID, tn.owner.ID, org.Member, at(15))
			closed := that(w.organisations().Upsert(w.ctx, tn.Organisation, func(o org.Organisation) (org.Organisation, error) {
				return o.Close(at(200)), nil
			})).must(w)
			untouched := w.content(other)

			w.ok(w.organisations().Erase(w.ctx, tn.ID, at(300)))

			same(w, w.content(other), untouched)
			kept := closed.Erased(at(300))
			same(w, w.content(tn), content{
				Organisation: kept, Subscription: plan.Unsubscribed(tn.ID), Epoch: w.epoch(tn.ID),
				Head: object.Head{Epoch: w.head(other.ID).Epoch},
			})
			that(w.organisations().ByProvider(w.ctx, tn.ProviderID)).is(w, kept)

			that(w.invitations().Get(w.ctx, tn.ID, tn.invitation.ID)).missing(w)
			that(w.invitations().ByToken(w.ctx, tn.invitation.TokenHash)).missing(w)
			that(w.subscriptions().ByCustomer(w.ctx, someSubscription(tn.ID).Customer)).missing(w)
			that(w.tasks().Get(w.ctx, tn.ID, tn.loose.ID)).missing(w)
			that(w.objects().Get(w.ctx, tn.ID, tn.drawer.ID)).missing(w)
			that(w.objects().At(w.ctx, tn.ID, tn.shelf.StorageKey())).missing(w)
			that(w.users().Get(w.ctx, tn.owner.ID)).is(w, tn.owner)
			for _, m := range that(w.users().Memberships(w.ctx, tn.owner.ID)).must(w) {
				if m.Org != other.ID {
					w.Fatalf("a membership is left: %+v", m)
				}
			}
			w.ok(w.organisations().Erase(w.ctx, tn.ID, at(300)))
			that(w.organisations().Get(w.ctx, tn.ID)).is(w, kept)
		},
		"an invitation of an erased organisation frees its provider id": func(w *world) {
			tn := w.tenant()
			w.ok(w.organisations().Erase(w.ctx, tn.ID, at(300)))
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			i.ProviderID = tn.invitation.ProviderID
			w.ok(w.invitations().Put(w.ctx, o.ID, i))
			that(w.invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).is(w, i)
		},
	}).run(t, open)
}

// Epochs is the suite of ports.Epochs.
func Epochs(t *testing.T, open func(t *testing.T) Opened) {
	lock := func(w *world, r ports.Records, o id.Org) error {
		_, err := r.Directory().Organisations().Lock(w.ctx, o)
		return err
	}
	suite{
		"every organisation that exists has an epoch, and no other": func(w *world) {
			a, b, unknown := w.org(), w.org(), fresh[id.Org]()
			got := that(w.epochs.Epochs(w.ctx, []id.Org{a.ID, unknown, b.ID, a.ID})).must(w)
			_, hasA := got[a.ID]
			_, hasB := got[b.ID]
			if len(got) != 2 || !hasA || !hasB {
				w.Fatalf("epochs are %v, want those of %s and %s", got, a.ID, b.ID)
			}
			that(w.epochs.Epochs(w.ctx, nil)).is(w, map[id.Org]int64{})
		},
		"a mark is the epoch with where the log stands": func(w *world) {
			a, b, unknown, by := w.org(), w.org(), fresh[id.Org](), fresh[id.User]()
			was := that(w.epochs.Marks(w.ctx, []id.Org{a.ID, unknown, b.ID, a.ID})).must(w)
			logEpoch := w.head(a.ID).Epoch
			same(w, was, map[id.Org]org.Mark{
				a.ID: {Epoch: w.epoch(a.ID), LogEpoch: logEpoch}, b.ID: {Epoch: w.epoch(b.ID), LogEpoch: logEpoch},
			})
			w.atomic(func(r ports.Records) error { return lock(w, r, a.ID) })
			w.written(someObject(a.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "a.md", by), someObject(a.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "b.md", by))
			want := org.Mark{Epoch: was[a.ID].Epoch + 1, LogEpoch: logEpoch, LogN: 2}
			that(w.epochs.Marks(w.ctx, []id.Org{a.ID})).is(w, map[id.Org]org.Mark{a.ID: want})
			that(w.epochs.Marks(w.ctx, []id.Org{b.ID, a.ID})).is(w, map[id.Org]org.Mark{a.ID: want, b.ID: was[b.ID]})
			that(w.epochs.Marks(w.ctx, nil)).is(w, map[id.Org]org.Mark{})
			that(w.epochs.Marks(w.ctx, []id.Org{unknown})).is(w, map[id.Org]org.Mark{})
		},
		"records are read at the epoch of the organisation, and at no other": func(w *world) {
			tn, other := w.tenant(), w.tenant()
			at := func(o id.Org, epoch int64) *world {
				inside := *w
				inside.store = within{w.store.At(o, epoch)}
				return &inside
			}
			listed := func(w *world) (all []org.Profile, err error) {
				return all, w.members().List(w.ctx, tn.ID, org.Position{}, 0, func(p org.Profile) error {
					all = append(all, p)
					return nil
				})
			}
			now := at(tn.ID, w.epoch(tn.ID))
			that(now.tasks().Get(w.ctx, tn.ID, tn.loose.ID)).is(w, tn.loose)
			that(now.tasks().Get(w.ctx, tn.ID, fresh[id.Task]())).missing(w)
			that(now.tasks().Get(w.ctx, tn.ID, other.loose.ID)).missing(w)
			that(listed(now)).is(w, that(listed(w)).must(w))
			that(now.teams().List(w.ctx, tn.ID, nil)).is(w, nil)
			w.moveOn(tn.ID)
			for _, past := range []*world{now, at(tn.ID, w.epoch(tn.ID)+1), at(fresh[id.Org](), 0)} {
				for _, err := range []error{
					drop(past.tasks().Get(w.ctx, tn.ID, tn.loose.ID)),
					drop(past.tasks().Get(w.ctx, tn.ID, fresh[id.Task]())),
					drop(past.teams().List(w.ctx, tn.ID, nil)),
					drop(past.quotas().Account(w.ctx, tn.ID, tn.owner.ID, "2026-01-02")),
				} {
					if !errors.Is(err, org.ErrEpochChanged) {
						w.Errorf("at another epoch the error is %v", err)
					}
				}
				if all, err := listed(past); !errors.Is(err, org.ErrEpochChanged) || len(all) > 0 {
					w.Errorf("at another epoch %d members are listed, error %v", len(all), err)
				}
			}
			that(at(tn.ID, w.epoch(tn.ID)).tasks().Get(w.ctx, tn.ID, tn.loose.ID)).is(w, tn.loose)
		},
		"entries come with the epoch": func(w *world) {
			tn, empty := w.tenant(), w.org()
			w.atomic(func(r ports.Records) error { return lock(w, r, tn.ID) })
			for after, limit := range map[int64]int{0: 1, 1: 10, 2: 10} {
				entries, epoch, err := w.epochs.Entries(w.ctx, tn.ID, after, limit)
				w.ok(err)
				that(w.changes().List(w.ctx, tn.ID, after, limit)).is(w, entries)
				same(w, epoch, w.epoch(tn.ID))
			}
			entries, epoch, err := w.epochs.Entries(w.ctx, empty.ID, 0, 10)
			w.ok(err)
			same(w, entries, nil)
			same(w, epoch, w.epoch(empty.ID))
			entries, _, err = w.epochs.Entries(w.ctx, tn.ID, 0, 0)
			w.ok(err)
			same(w, entries, nil)
			_, _, err = w.epochs.Entries(w.ctx, fresh[id.Org](), 0, 10)
			w.missing(err)
		},
		"an epoch that comes with entries is that of the last one at least": func(w *world) {
			o := w.org().ID
			was := w.epoch(o)
			w.allOK(together(concurrent, func(i int) error {
				if i%4 > 0 {
					for range concurrent {
						entries, epoch, err := w.epochs.Entries(w.ctx, o, 0, 100)
						if err != nil {
							return err
						}
						if int64(len(entries)) > epoch-was {
							return fmt.Errorf("%d entries came with an epoch %d further", len(entries), epoch-was)
						}
					}
					return nil
				}
				return errors.Join(w.store.Atomic(w.ctx, func(r ports.Records) error { return lock(w, r, o) }), w.store.Atomic(w.ctx, func(r ports.Records) error {
					_, err := r.Storage().Changes().Append(w.ctx, o, object.NewAccessChange(object.Audience{}, "", at(1)))
					return err
				}))
			}))
		},
		"a committed lock moves its organisation's epoch on by one": func(w *world) {
			a, b := w.org(), w.org()
			wasA, wasB := w.epoch(a.ID), w.epoch(b.ID)
			for i := range int64(3) {
				w.atomic(func(r ports.Records) error { return lock(w, r, a.ID) })
				same(w, w.epoch(a.ID), wasA+i+1)
			}
			same(w, w.epoch(b.ID), wasB)
		},
		"a transaction moves on the epochs of all that it locked": func(w *world) {
			a, b := w.org(), w.org()
			wasA, wasB := w.epoch(a.ID), w.epoch(b.ID)
			w.atomic(func(r ports.Records) error { return errors.Join(lock(w, r, a.ID), lock(w, r, b.ID)) })
			same(w, []int64{w.epoch(a.ID), w.epoch(b.ID)}, []int64{wasA + 1, wasB + 1})
		},
		"one transaction may lock an organisation twice": func(w *world) {
			o := w.org()
			was := w.epoch(o.ID)
			w.atomic(func(r ports.Records) error { return errors.Join(lock(w, r, o.ID), lock(w, r, o.ID)) })
			if now := w.epoch(o.ID); now <= was {
				w.Fatalf("the epoch went from %d to %d", was, now)
			}
		},
		"a lock that is rolled back moves nothing": func(w *world) {
			o := w.org()
			was := w.epoch(o.ID)
			w.undone(func(r ports.Records) error { return lock(w, r, o.ID) })
			same(w, w.epoch(o.ID), was)
		},
		"changes without the lock move nothing": func(w *world) {
			o := w.org()
			was := w.epoch(o.ID)
			u := w.member(o.ID, org.Owner)
			w.task(o.ID, nil, u.ID)
			that(w.organisations().Upsert(w.ctx, o, keep)).must(w)
			same(w, w.epoch(o.ID), was)
		},
		"many locks at once each count, and each is seen by who reads after its commit": func(w *world) {
			o := w.org()
			was := w.epoch(o.ID)
			errs := together(concurrent, func(int) error {
				seen, err := w.epochs.Epochs(w.ctx, []id.Org{o.ID})
				if err != nil {
					return err
				}
				if err := w.store.Atomic(w.ctx, func(r ports.Records) error { return lock(w, r, o.ID) }); err != nil {
					return err
				}
				now, err := w.epochs.Epochs(w.ctx, []id.Org{o.ID})
				if err == nil && now[o.ID] <= seen[o.ID] {
					err = errors.New("a committed lock was not seen")
				}
				return err
			})
			w.allOK(errs)
			same(w, w.epoch(o.ID), was+concurrent)
		},
	}.run(t, open)
}
