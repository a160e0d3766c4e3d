package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/task"
	"collab/ports"
	"collab/test/must"
)

// Organisations is the suite of ports.Organisations.
func Organisations(t *testing.T, open func(t *testing.T) Opened) {
	fill := func(o *org.Organisation) { o.ClosedAt, o.ErasedAt = new(at(9)), new(at(10)) }
	upserted[org.Organisation, id.Org]{
		of:   func(d ports.Directory) upserter[org.Organisation, id.Org] { return d.Organisations() },
		some: someOrg,
		bare: func() org.Organisation {
			return org.Organisation{ID: fresh[id.Org](), ProviderID: "org_" + nextID(), CreatedAt: at(1), UpdatedAt: at(1)}
		},
		fill: fill,
		change: func(o org.Organisation) org.Organisation {
			o.Name, o.Slug, o.UpdatedAt, o.Full, o.Seen = "New", "", at(100), false, identity.Stamp{}
			o.CreatedBy, o.CreatedBySeen, o.ClosedAt = "", identity.Stamp{}, new(at(101))
			return o
		},
		id:       func(o *org.Organisation) *id.Org { return &o.ID },
		provider: func(o *org.Organisation) *string { return &o.ProviderID },
		seen:     func(o *org.Organisation) *identity.Stamp { return &o.Seen },
	}.suite().and(suite{
		"an unknown organisation has nothing": func(w *fixture) {
			unknown := fresh[id.Org]()
			resultOf(w.Organisations().Erase(w.ctx, unknown, at(300), 1)).wantNotFound(w)
			wantEqual(w, w.seatsOf(unknown), org.Seats{})
			wantEqual(w, w.profiles(unknown, id.Position[id.User]{}, 0), nil)
			resultOf(w.pending(unknown, at(6), id.Position[id.Invitation]{}, 0)).is(w, nil)
			resultOf(w.Subscriptions().Get(w.ctx, unknown)).is(w, plan.Unsubscribed(unknown))
			resultOf(w.allTeams(unknown)).is(w, nil)
			resultOf(w.allWorkspaces(unknown)).is(w, nil)
			wantEqual(w, w.listed(unknown, org.Actor{User: fresh[id.User](), Org: unknown}, task.Filter{}), nil)
		},
		"results of lock and list belong to the caller": func(w *fixture) {
			start, o := fresh[id.Org](), someOrg()
			fill(&o)
			must.Do(w.Organisations().Upsert(w.ctx, copied(o), keep)).Or(w)
			w.atomic(func(r ports.Records) error {
				locked, err := r.Directory().Organisations().Lock(w.ctx, o.ID)
				spoil(locked)
				return err
			})
			spoil(must.Do(w.Organisations().List(w.ctx, org.Filter{After: start})).Or(w))
			resultOf(w.Organisations().Get(w.ctx, o.ID)).is(w, o)
		},
		"lock outside a transaction fails, and does not find an unknown organisation": func(w *fixture) {
			o := w.org()
			was := w.epoch(o.ID)
			if _, err := w.Organisations().Lock(w.ctx, o.ID); err == nil {
				w.Fatal("no error")
			}
			wantEqual(w, w.epoch(o.ID), was)
			w.wantNotFound(w.store.Atomic(w.ctx, lockOf(w, fresh[id.Org]())))
		},
		"lock returns the present organisation": func(w *fixture) {
			o := w.org()
			errs := concurrently(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					locked, err := r.Directory().Organisations().Lock(w.ctx, o.ID)
					if err != nil {
						return err
					}
					ranked := func(there org.Organisation) (org.Organisation, error) {
						there.Seen.Rank = locked.Seen.Rank + 1
						return there, nil
					}
					return must.ErrorOf(r.Directory().Organisations().Upsert(w.ctx, o, ranked))
				})
			})
			w.allOK(errs)
			wantEqual(w, must.Do(w.Organisations().Get(w.ctx, o.ID)).Or(w).Seen.Rank, o.Seen.Rank+concurrent)
		},
		"of two owners who demote each other under the lock one remains": func(w *fixture) {
			for range 4 {
				o := w.org()
				owners := []org.User{w.member(o.ID, org.Owner), w.member(o.ID, org.Owner)}
				errs := concurrently(len(owners), func(i int) error {
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
				w.wantOneSuccess(errs, fault.Conflict)
				wantEqual(w, w.seatsOf(o.ID), org.Seats{Owners: 1, Members: 2})
			}
		},
		"list returns all in the order of their ids": func(w *fixture) {
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
					page := must.Do(w.Organisations().List(w.ctx, org.Filter{After: last, Limit: limit})).Or(w)
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
				wantEqual(w, found, mine)
			}
		},
		"list selects those with one of several ids": func(w *fixture) {
			a, b := w.org(), w.org()
			w.org()
			resultOf(w.Organisations().List(w.ctx, org.Filter{IDs: []id.Org{b.ID, fresh[id.Org](), a.ID, "none"}})).is(w, []org.Organisation{a, b})
			resultOf(w.Organisations().List(w.ctx, org.Filter{IDs: []id.Org{}})).is(w, nil)
		},
		"list selects those whose id a text is, or in whose name or slug it occurs": func(w *fixture) {
			start := fresh[id.Org]()
			named := func(name, slug string) id.Org {
				o := someOrg()
				o.Name, o.Slug = name, slug
				return must.Do(w.Organisations().Upsert(w.ctx, o, keep)).Or(w).ID
			}
			mark := nextID()
			a, b, c := named("Analytical "+mark+"Engines", ""), named("Änne 100%_"+mark, "eNGINES-"+mark), named("", mark+"engines")
			other := named("Difference", "difference")
			found := func(text string) (ids []id.Org) {
				for _, o := range paged(w, 2, func(last *org.Organisation) []org.Organisation {
					f := org.Filter{After: start, Limit: 2, Search: text}
					if last != nil {
						f.After = last.ID
					}
					return must.Do(w.Organisations().List(w.ctx, f)).Or(w)
				}) {
					if !o.Matches(text) {
						w.Errorf("%q is found by %q", o.Name, text)
					}
					ids = append(ids, o.ID)
				}
				return ids
			}
			for text, want := range map[string][]id.Org{
				mark: {a, b, c}, mark + "eNgInEs": {a, c}, "ENGINES-" + mark: {b}, "änne 100%_" + mark: nil, "Änne 100%_" + mark: {b}, "100_%" + mark: nil,
				string(b): {b}, strings.ToUpper(string(c)): {c}, string(other[:8]) + mark: nil, `\' OR ''=''; ` + mark: nil,
			} {
				if got := found(text); !slices.Equal(got, want) {
					w.Errorf("%q finds %v, want %v", text, got, want)
				}
			}
		},
		"a search examines the names of the first ones, and finds one by its id wherever it is": func(w *fixture) {
			// Cases that run at the same time make no organisation between these.
			start := fresh[id.Org]()
			var orgs []org.Organisation
			for _, digit := range []id.Org{"a", "b", "c", "d"} {
				o := someOrg()
				o.ID, o.Name = start[:len(start)-1]+digit, "Engines"
				orgs = append(orgs, must.Do(w.Organisations().Upsert(w.ctx, o, keep)).Or(w))
			}
			last := orgs[3]
			search := func(f org.Filter) outcome[[]org.Organisation] {
				f.After, f.ExamineLimit = start, 2
				return resultOf(w.Organisations().List(w.ctx, f))
			}
			search(org.Filter{Search: "engines"}).is(w, orgs[:2])
			search(org.Filter{Search: "engines", Limit: 1}).is(w, orgs[:1])
			search(org.Filter{Search: strings.ToUpper(string(last.ID))}).is(w, []org.Organisation{last})
			search(org.Filter{Search: string(last.ID), Limit: 1}).is(w, []org.Organisation{last})
			search(org.Filter{Search: "engines", IDs: []id.Org{orgs[0].ID, orgs[2].ID, last.ID}}).is(w, []org.Organisation{orgs[0], orgs[2]})
			resultOf(w.Organisations().List(w.ctx, org.Filter{After: orgs[1].ID, Search: "engines", ExamineLimit: 2})).is(w, orgs[2:])
		},
		"list selects those closed at a time or before and not erased": func(w *fixture) {
			start, open := fresh[id.Org](), w.org()
			closed := func(at time.Time) org.Organisation {
				o := someOrg()
				o.ClosedAt = &at
				return must.Do(w.Organisations().Upsert(w.ctx, o, keep)).Or(w)
			}
			early, exact, late, erased := closed(at(99)), closed(at(100)), closed(at(101)), closed(at(99))
			w.erase(erased.ID, at(300))
			mine := []id.Org{open.ID, early.ID, exact.ID, late.ID, erased.ID}
			found := must.Do(w.Organisations().List(w.ctx, org.Filter{After: start, ClosedBefore: new(at(100))})).Or(w)
			wantEqual(w, slices.DeleteFunc(found, func(o org.Organisation) bool { return !slices.Contains(mine, o.ID) }), []org.Organisation{early, exact})
		},
		"erase removes everything of the organisation and nothing of another": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			w.join(tn.ID, other.owner.ID, org.Member, at(15))
			w.join(other.ID, tn.owner.ID, org.Member, at(15))
			closed := must.Do(w.Organisations().Upsert(w.ctx, tn.Organisation, func(o org.Organisation) (org.Organisation, error) {
				return o.Close(at(200)), nil
			})).Or(w)
			untouched := w.content(other)

			w.erase(tn.ID, at(300))

			wantEqual(w, w.content(other), untouched)
			kept := closed.Erased(at(300))
			wantEqual(w, w.content(tn), content{
				Organisation: kept, Subscription: plan.Unsubscribed(tn.ID), Epoch: w.epoch(tn.ID),
				Head: object.Head{Epoch: w.head(other.ID).Epoch},
			})
			resultOf(w.Organisations().ByProvider(w.ctx, tn.ProviderID)).is(w, kept)

			resultOf(w.Invitations().Get(w.ctx, tn.ID, tn.invitation.ID)).wantNotFound(w)
			resultOf(w.Invitations().ByToken(w.ctx, tn.invitation.TokenHash)).wantNotFound(w)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, someSubscription(tn.ID).Customer)).wantNotFound(w)
			resultOf(w.Tasks().Get(w.ctx, tn.ID, tn.unplaced.ID)).wantNotFound(w)
			resultOf(w.Objects().Get(w.ctx, tn.ID, tn.personalObject.ID)).wantNotFound(w)
			resultOf(w.Objects().At(w.ctx, tn.ID, tn.sharedObject.StorageKey())).wantNotFound(w)
			resultOf(w.Users().Get(w.ctx, tn.owner.ID)).is(w, tn.owner)
			for _, m := range must.Do(w.Users().Memberships(w.ctx, tn.owner.ID)).Or(w) {
				if m.Org != other.ID {
					w.Fatalf("a membership is left: %+v", m)
				}
			}
			w.erase(tn.ID, at(300))
			resultOf(w.Organisations().Get(w.ctx, tn.ID)).is(w, kept)
		},
		"an invitation of an erased organisation frees its provider id": func(w *fixture) {
			tn := w.tenant()
			w.erase(tn.ID, at(300))
			o := w.org()
			i := someInvitation(o.ID, w.member(o.ID, org.Owner).ID)
			i.ProviderID = tn.invitation.ProviderID
			w.ok(w.Invitations().Put(w.ctx, o.ID, i))
			resultOf(w.Invitations().ByProvider(w.ctx, o.ID, i.ProviderID)).is(w, i)
		},
	}).run(t, open)
}

// Epochs is the suite of ports.Epochs.
func Epochs(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"every organisation that exists has an epoch, and no other": func(w *fixture) {
			a, b, unknown := w.org(), w.org(), fresh[id.Org]()
			got := must.Do(w.epochs.Epochs(w.ctx, []id.Org{a.ID, unknown, b.ID, a.ID})).Or(w)
			_, hasA := got[a.ID]
			_, hasB := got[b.ID]
			if len(got) != 2 || !hasA || !hasB {
				w.Fatalf("epochs are %v, want those of %s and %s", got, a.ID, b.ID)
			}
			resultOf(w.epochs.Epochs(w.ctx, nil)).is(w, map[id.Org]int64{})
		},
		"a mark has the epoch and the position of the log": func(w *fixture) {
			a, b, unknown, by := w.org(), w.org(), fresh[id.Org](), fresh[id.User]()
			was := must.Do(w.epochs.Marks(w.ctx, []id.Org{a.ID, unknown, b.ID, a.ID})).Or(w)
			logEpoch := w.head(a.ID).Epoch
			wantEqual(w, was, map[id.Org]org.Mark{
				a.ID: {Epoch: w.epoch(a.ID), LogEpoch: logEpoch}, b.ID: {Epoch: w.epoch(b.ID), LogEpoch: logEpoch},
			})
			alone := func() org.Mark {
				before, cached := w.epochs.Cached(a.ID)
				mark := must.Do(w.epochs.Marks(w.ctx, []id.Org{a.ID})).Or(w)[a.ID]
				if after, still := w.epochs.Cached(a.ID); cached && before != mark || still && after != mark {
					w.Fatalf("%+v and %+v are cached, and the mark is %+v", before, after, mark)
				}
				return mark
			}
			wantEqual(w, alone(), was[a.ID])
			w.incrementEpoch(a.ID)
			wantEqual(w, alone(), org.Mark{Epoch: was[a.ID].Epoch + 1, LogEpoch: logEpoch})
			w.addObjects(someObject(a.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "a.md", by), someObject(a.ID, object.Place{Kind: object.Template, Scope: object.Shared}, "b.md", by))
			want := org.Mark{Epoch: was[a.ID].Epoch + 1, LogEpoch: logEpoch, LogN: 2}
			wantEqual(w, alone(), want)
			resultOf(w.epochs.Marks(w.ctx, []id.Org{b.ID, a.ID})).is(w, map[id.Org]org.Mark{a.ID: want, b.ID: was[b.ID]})
			resultOf(w.epochs.Marks(w.ctx, nil)).is(w, map[id.Org]org.Mark{})
			resultOf(w.epochs.Marks(w.ctx, []id.Org{unknown})).is(w, map[id.Org]org.Mark{})
		},
		"records are read at the epoch of the organisation, and at no other": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			at := func(o id.Org, epoch int64) *fixture { return w.in(w.store.At(o, epoch)) }
			listed := func(w *fixture) (all []org.Profile, err error) {
				return all, w.Members().List(w.ctx, tn.ID, org.MemberFilter{}, collect(&all))
			}
			now := at(tn.ID, w.epoch(tn.ID))
			resultOf(now.Tasks().Get(w.ctx, tn.ID, tn.unplaced.ID)).is(w, tn.unplaced)
			resultOf(now.Tasks().Get(w.ctx, tn.ID, fresh[id.Task]())).wantNotFound(w)
			resultOf(now.Tasks().Get(w.ctx, tn.ID, other.unplaced.ID)).wantNotFound(w)
			resultOf(listed(now)).is(w, must.Do(listed(w)).Or(w))
			resultOf(now.Teams().List(w.ctx, tn.ID, nil)).is(w, nil)
			w.incrementEpoch(tn.ID)
			for _, past := range []*fixture{now, at(tn.ID, w.epoch(tn.ID)+1), at(fresh[id.Org](), 0)} {
				for _, err := range []error{
					must.ErrorOf(past.Tasks().Get(w.ctx, tn.ID, tn.unplaced.ID)),
					must.ErrorOf(past.Tasks().Get(w.ctx, tn.ID, fresh[id.Task]())),
					must.ErrorOf(past.Teams().List(w.ctx, tn.ID, nil)),
					must.ErrorOf(past.Quotas().Account(w.ctx, tn.ID, tn.owner.ID, "2026-01-02")),
				} {
					if !errors.Is(err, org.ErrEpochChanged) {
						w.Errorf("at another epoch the error is %v", err)
					}
				}
				if all, err := listed(past); !errors.Is(err, org.ErrEpochChanged) || len(all) > 0 {
					w.Errorf("at another epoch %d members are listed, error %v", len(all), err)
				}
			}
			resultOf(at(tn.ID, w.epoch(tn.ID)).Tasks().Get(w.ctx, tn.ID, tn.unplaced.ID)).is(w, tn.unplaced)
		},
		"entries are returned with the epoch": func(w *fixture) {
			tn, empty := w.tenant(), w.org()
			w.incrementEpoch(tn.ID)
			for after, limit := range map[int64]int{0: 1, 1: 10, 2: 10} {
				entries, epoch, err := w.epochs.Entries(w.ctx, tn.ID, after, limit)
				w.ok(err)
				resultOf(w.Changes().List(w.ctx, tn.ID, after, limit)).is(w, entries)
				wantEqual(w, epoch, w.epoch(tn.ID))
			}
			for o, limit := range map[id.Org]int{empty.ID: 10, tn.ID: 0} {
				entries, epoch, err := w.epochs.Entries(w.ctx, o, 0, limit)
				w.ok(err)
				wantEqual(w, entries, nil)
				wantEqual(w, epoch, w.epoch(o))
			}
			_, _, err := w.epochs.Entries(w.ctx, fresh[id.Org](), 0, 10)
			w.wantNotFound(err)
		},
		"the epoch returned with entries is at least that of the last one": func(w *fixture) {
			o := w.org().ID
			was := w.epoch(o)
			w.allOK(concurrently(concurrent, func(i int) error {
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
				return errors.Join(w.store.Atomic(w.ctx, lockOf(w, o)), w.store.Atomic(w.ctx, func(r ports.Records) error {
					return must.ErrorOf(r.Storage().Changes().Append(w.ctx, o, object.NewAccessChange(object.Audience{}, "", at(1))))
				}))
			}))
		},
		"a mark is at least of the last lock that has committed": func(w *fixture) {
			o := w.org().ID
			var committed atomic.Int64
			committed.Store(w.epoch(o))
			w.allOK(concurrently(4, func(i int) error {
				for range 4 * concurrent {
					if i == 0 {
						if err := w.store.Atomic(w.ctx, lockOf(w, o)); err != nil {
							return err
						}
						committed.Add(1)
						continue
					}
					least := committed.Load()
					if found, err := w.epochs.Marks(w.ctx, []id.Org{o}); err != nil || found[o].Epoch < least {
						return fmt.Errorf("the epoch of the mark is %d after %d, error %v", found[o].Epoch, least, err)
					}
				}
				return nil
			}))
		},
		"a committed lock increments the epochs of the organisations that were locked, and one rolled back does not": func(w *fixture) {
			a, b, c := w.org().ID, w.org().ID, w.org().ID
			epochs := func() [3]int64 { return [3]int64{w.epoch(a), w.epoch(b), w.epoch(c)} }
			was := epochs()
			for i := range int64(3) {
				w.incrementEpoch(a)
				wantEqual(w, epochs(), [3]int64{was[0] + i + 1, was[1], was[2]})
			}
			w.atomic(lockOf(w, a, b))
			w.rolledBack(lockOf(w, a, b, c))
			wantEqual(w, epochs(), [3]int64{was[0] + 4, was[1] + 1, was[2]})
			w.atomic(lockOf(w, c, c))
			wantEqual(w, w.epoch(c), was[2]+1)
		},
		"changes without the lock do not change the epoch": func(w *fixture) {
			o := w.org()
			was := w.epoch(o.ID)
			u := w.member(o.ID, org.Owner)
			w.task(o.ID, nil, u.ID)
			must.Do(w.Organisations().Upsert(w.ctx, o, keep)).Or(w)
			wantEqual(w, w.epoch(o.ID), was)
		},
		"each of concurrent locks increments the epoch, visibly after its commit": func(w *fixture) {
			o := w.org()
			was := w.epoch(o.ID)
			errs := concurrently(concurrent, func(int) error {
				seen, err := w.epochs.Epochs(w.ctx, []id.Org{o.ID})
				if err != nil {
					return err
				}
				if err := w.store.Atomic(w.ctx, lockOf(w, o.ID)); err != nil {
					return err
				}
				now, err := w.epochs.Epochs(w.ctx, []id.Org{o.ID})
				if err == nil && now[o.ID] <= seen[o.ID] {
					err = errors.New("a committed lock was not seen")
				}
				return err
			})
			w.allOK(errs)
			wantEqual(w, w.epoch(o.ID), was+concurrent)
		},
	}.run(t, open)
}
