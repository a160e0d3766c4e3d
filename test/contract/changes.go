package contract

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// Changes is the suite of ports.Changes.
func Changes(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"lock and append outside a transaction fail": func(w *fixture) {
			tn := w.tenant()
			was := w.content(tn)
			if h, err := w.Changes().Lock(w.ctx, tn.ID); err == nil {
				w.Fatalf("there was no transaction and the head is %+v", h)
			}
			if h, err := w.Changes().Append(w.ctx, tn.ID, object.NewChange(tn.sharedObject)); err == nil {
				w.Fatalf("there was no transaction and the head is %+v", h)
			}
			wantEqual(w, w.content(tn), was)
		},
		"an unknown organisation has no log": func(w *fixture) {
			unknown := fresh[id.Org]()
			resultOf(w.append(unknown, appends())).wantNotFound(w)
			w.wantNotFound(w.store.Atomic(w.ctx, func(r ports.Records) error {
				return must.ErrorOf(r.Storage().Changes().Append(w.ctx, unknown, object.NewAccessChange(object.Audience{Everyone: true}, "", at(1))))
			}))
			resultOf(w.Changes().List(w.ctx, unknown, 0, 10)).is(w, nil)
			wantEqual(w, must.Do(w.Changes().Heads(w.ctx, []id.Org{unknown})).Or(w)[unknown].N, 0)
		},
		"an empty log has the number 0, and all logs have one epoch": func(w *fixture) {
			tn, empty := w.tenant(), w.org().ID
			heads := must.Do(w.Changes().Heads(w.ctx, []id.Org{tn.ID, empty, tn.ID})).Or(w)
			epoch := heads[tn.ID].Epoch
			wantEqual(w, heads, map[id.Org]object.Head{tn.ID: {Epoch: epoch, N: 2}, empty: {Epoch: epoch}})
			wantEqual(w, w.sinceOf(empty, 0).Head, object.Head{Epoch: epoch})
			w.atomic(func(r ports.Records) error {
				h, err := r.Storage().Changes().Lock(w.ctx, empty)
				wantEqual(w, h, object.Head{Epoch: epoch})
				return err
			})
			wantEqual(w, w.logged(empty, appends(object.NewAccessChange(object.Audience{Everyone: true}, "", at(1)))), object.Head{Epoch: epoch, N: 1})
			resultOf(w.Changes().Heads(w.ctx, nil)).is(w, map[id.Org]object.Head{})
		},
		"the heads of a thousand logs are read in one call": func(w *fixture) {
			tn := w.tenant()
			orgs := append(several[id.Org](999), tn.ID)
			wantEqual(w, must.Do(w.Changes().Heads(w.ctx, orgs)).Or(w)[tn.ID], w.head(tn.ID))
		},
		"entries are returned as stored, with their audiences": func(w *fixture) {
			tn := w.tenant()
			users := []id.User{tn.owner.ID, tn.removed.ID}
			made := []object.Change{
				object.NewChange(someObject(tn.ID, blobCases, "not stored.md", "")),
				object.NewMove(tn.sharedObject, "Ünï %/'a'/\"before\".md"),
				object.NewAccessChange(object.Audience{}, "", at(90)),
				object.NewAccessChange(object.Audience{Everyone: true}, tn.owner.ID, at(89)),
				object.NewDeletion(tn.sharedObject, "", at(91), &object.Audience{Users: users}),
				object.NewDeletion(tn.personalObject, tn.owner.ID, at(91), &object.Audience{Managers: true, Users: users[:1]}),
				object.NewDeletion(tn.personalObject, tn.owner.ID, at(91), &object.Audience{Teams: []id.Team{tn.team.ID}}),
			}
			for _, p := range w.places(tn) {
				v := someObject(tn.ID, p, "Ünï %/'a'.md", tn.owner.ID)
				made = append(made, object.NewDeletion(v, tn.owner.ID, at(92), nil))
			}
			head := w.logged(tn.ID, appends(made...))
			for i := range made {
				made[i].N = tn.personalObject.N + 1 + int64(i)
			}
			made[0].Object.N, made[1].Object.N = made[0].N, made[1].N
			wantEqual(w, head.N, made[len(made)-1].N)
			resultOf(w.Changes().List(w.ctx, tn.ID, tn.personalObject.N, 100)).is(w, made)
		},
		"append sets the numbers of the changes and of their objects": func(w *fixture) {
			tn := w.tenant()
			v := someObject(tn.ID, blobCases, "a.md", tn.owner.ID)
			next := v.WithContent(object.Content{Blob: someName(tn.ID)}, tn.owner.ID, at(80))
			w.atomic(func(r ports.Records) error {
				s := r.Storage()
				err := s.Objects().Add(w.ctx, tn.ID, v)
				wantEqual(w, must.Do(s.Changes().Append(w.ctx, tn.ID, object.NewChange(v))).Or(w).N, 3)
				wantEqual(w, must.Do(s.Objects().Get(w.ctx, tn.ID, v.ID)).Or(w).N, 3)
				wantEqual(w, must.Do(s.Changes().Append(w.ctx, tn.ID)).Or(w).N, 3)
				err = errors.Join(err, s.Objects().Put(w.ctx, tn.ID, next))
				wantEqual(w, must.Do(s.Changes().Append(w.ctx, tn.ID, object.NewDeletion(tn.personalObject, "", at(80), nil), object.NewChange(next))).Or(w).N, 5)
				wantEqual(w, must.Do(s.Changes().Lock(w.ctx, tn.ID)).Or(w).N, 5)
				return errors.Join(err, s.Objects().Remove(w.ctx, tn.ID, []id.Object{tn.personalObject.ID}))
			})
			next.N = 5
			resultOf(w.Objects().Get(w.ctx, tn.ID, v.ID)).is(w, next)
			resultOf(w.Objects().Get(w.ctx, tn.ID, tn.sharedObject.ID)).is(w, tn.sharedObject)
			log := w.log(tn.ID)
			wantEqual(w, log[2].Object.Version, v.Version)
			wantEqual(w, log[2].Object.N, 3)
			wantEqual(w, log[4].Object, next)
		},
		"the lock excludes other appends until the transaction ends": func(w *fixture) {
			tn := w.tenant()
			w.allOK(concurrently(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					locked, err := r.Storage().Changes().Lock(w.ctx, tn.ID)
					if err != nil {
						return err
					}
					head, err := r.Storage().Changes().Append(w.ctx, tn.ID, object.NewChange(tn.sharedObject))
					if err == nil && head.N != locked.N+1 {
						err = fmt.Errorf("the log went from %d to %d under the lock", locked.N, head.N)
					}
					return err
				})
			}))
			wantEqual(w, w.head(tn.ID).N, tn.personalObject.N+concurrent)
		},
		"the lock of a log does not block the logs of other organisations": func(w *fixture) {
			if !w.apart {
				w.Skip("the store runs one transaction after another")
			}
			held, other := w.tenant(), w.tenant()
			w.atomic(func(r ports.Records) error {
				if _, err := r.Storage().Changes().Append(w.ctx, held.ID, object.NewChange(held.sharedObject)); err != nil {
					return err
				}
				appended := make(chan error, 1)
				go func() { appended <- must.ErrorOf(w.append(other.ID, appends(object.NewChange(other.sharedObject)))) }()
				select {
				case err := <-appended:
					return err
				case <-time.After(waitTimeout):
					return errors.New("the other organisation's log is waited for")
				}
			})
			wantEqual(w, []int64{w.head(held.ID).N, w.head(other.ID).N}, []int64{3, 3})
		},
		"numbers become visible in order and without gaps during concurrent appends": func(w *fixture) {
			const writers, each = 16, 6
			o, users := w.org().ID, several[id.User](writers)
			var writing sync.WaitGroup
			errs := make([]error, writers)
			for i := range writers {
				writing.Go(func() {
					for n := range each {
						var failure error
						if n%3 == 2 {
							failure = errors.New("failure")
						}
						err := w.store.Atomic(w.ctx, func(r ports.Records) error {
							c := object.NewAccessChange(object.Audience{Users: users[i : i+1]}, users[i], at(n))
							_, err := r.Storage().Changes().Append(w.ctx, o, c, c)
							return cmp.Or(err, failure)
						})
						if err != failure { //nolint:errorlint // the very same error is the point
							errs[i] = err
						}
					}
				})
			}
			ended := make(chan struct{})
			go func() { writing.Wait(); close(ended) }()
			var last int64
			for over := false; !over; {
				select {
				case <-ended:
					over = true
				default:
				}
				for _, c := range must.Do(w.Changes().List(w.ctx, o, last, 1000)).Or(w) {
					if c.N != last+1 {
						w.Fatalf("the entry %d follows %d", c.N, last)
					}
					last = c.N
				}
				if last%2 != 0 {
					w.Fatalf("%d entries of pairs are to be seen", last)
				}
			}
			w.allOK(errs)
			wantEqual(w, last, writers*each/3*2*2)
		},
		"logs of several organisations are appended to concurrently": func(w *fixture) {
			const orgs, each = 8, 8
			var of []id.Org
			for range orgs {
				of = append(of, w.org().ID)
			}
			w.allOK(concurrently(orgs*each, func(i int) error {
				change := object.NewAccessChange(object.Audience{Everyone: true}, "", at(i))
				return must.ErrorOf(w.append(of[i%orgs], appends(change)))
			}))
			for _, h := range must.Do(w.Changes().Heads(w.ctx, of)).Or(w) {
				wantEqual(w, h.N, each)
			}
		},
		"one transaction appends to several logs": func(w *fixture) {
			a, b := w.tenant(), w.tenant()
			w.atomic(func(r ports.Records) error {
				c := r.Storage().Changes()
				wantEqual(w, must.Do(c.Append(w.ctx, a.ID, object.NewChange(a.sharedObject))).Or(w).N, 3)
				wantEqual(w, must.Do(c.Append(w.ctx, b.ID, object.NewChange(b.sharedObject), object.NewChange(b.personalObject))).Or(w).N, 4)
				wantEqual(w, must.Do(c.Append(w.ctx, a.ID, object.NewChange(a.personalObject))).Or(w).N, 4)
				return nil
			})
			wantEqual(w, []int64{w.head(a.ID).N, w.head(b.ID).N}, []int64{4, 4})
			for _, c := range w.log(a.ID) {
				wantEqual(w, c.Object.Org, a.ID)
			}
		},
		"list returns the entries after a number, up to the limit": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for range 5 {
				w.logged(tn.ID, appends(object.NewChange(tn.sharedObject)))
			}
			for after := range int64(9) {
				for limit := range 9 {
					var numbers, want []int64
					for _, c := range must.Do(w.Changes().List(w.ctx, tn.ID, after, limit)).Or(w) {
						numbers = append(numbers, c.N)
					}
					for n := after + 1; n <= 7 && len(want) < limit; n++ {
						want = append(want, n)
					}
					wantEqual(w, numbers, want)
				}
			}
			wantEqual(w, len(w.log(other.ID)), 2)
		},
		"the log of a thousand changes at once": func(w *fixture) {
			tn := w.tenant()
			var vs []object.Object
			for i := range 1000 {
				vs = append(vs, someObject(tn.ID, blobCases, fmt.Sprintf("%d.md", i), tn.owner.ID))
			}
			w.addObjects(vs...)
			log := must.Do(w.Changes().List(w.ctx, tn.ID, 0, 2000)).Or(w)
			wantEqual(w, len(log), 1002)
			wantEqual(w, log[1001].Object, vs[999])
			wantEqual(w, len(w.sinceOf(tn.ID, 0).Changed), 1002)
		},
		"since returns the result of the whole log": sinceProperty,
		"since returns nothing of another organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			w.logged(other.ID, appends(object.NewAccessChange(object.Audience{Everyone: true}, "", at(1)), object.NewDeletion(other.personalObject, "", at(1), nil)))
			s := w.sinceOf(tn.ID, 0)
			wantEqual(w, s.Head, w.head(tn.ID))
			wantEqual(w, s.Changed, []object.Change{present(tn.sharedObject), present(tn.personalObject)})
			wantEqual(w, len(s.Regrouped)+len(s.Deleted), 0)
			wantEqual(w, w.sinceOf(tn.ID, s.Head.N), observed{Head: s.Head})
		},
		"since in a transaction shows what the transaction wrote": func(w *fixture) {
			tn := w.tenant()
			w.atomic(func(r ports.Records) error {
				head, err := r.Storage().Changes().Append(w.ctx, tn.ID, object.NewChange(tn.sharedObject))
				s := w.in(r).sinceOf(tn.ID, tn.personalObject.N)
				moved := tn.sharedObject
				moved.N = head.N
				wantEqual(w, s, observed{Head: head, Changed: []object.Change{present(moved)}})
				return err
			})
		},
		"since and its head read one snapshot": func(w *fixture) {
			tn := w.tenant()
			w.whileWriting(tn, func() (func([]object.Change), error) {
				s, err := w.since(tn.ID, tn.personalObject.N)
				return func(log []object.Change) {
					there := folded(log, tn.personalObject.N)
					s.apply(there)
					wantEqual(w, there, folded(log, s.Head.N))
				}, err
			})
		},
		"an error of head or each ends since and is returned": func(w *fixture) {
			tn := w.tenant()
			wantStop(w, func(head func(object.Head) error) error {
				return w.Changes().Since(w.ctx, tn.ID, 0, head, func(object.Change) error { return errors.New("called") })
			})
			wantStop(w, func(each func(object.Change) error) error {
				return w.Changes().Since(w.ctx, tn.ID, 0, func(object.Head) error { return nil }, each)
			})
		},
		"prune removes the entries up to the last one from before the time, and raises the floor": func(w *fixture) {
			tn, other, late := w.tenant(), w.tenant(), w.tenant()
			epoch := w.head(tn.ID).Epoch
			gone := w.addObject(someObject(tn.ID, blobCases, "gone.md", tn.owner.ID))
			appended := func(o id.Org, times ...int) {
				for _, ms := range times {
					w.logged(o, appends(object.NewAccessChange(object.Audience{Everyone: true}, "", longAgo(ms))))
				}
			}
			numbers := func(o id.Org) (left []int64) {
				for _, c := range w.log(o) {
					left = append(left, c.N)
				}
				return left
			}
			deletion := object.NewDeletion(gone, tn.owner.ID, longAgo(200), nil)
			appended(tn.ID, 98, 101, 99, 100)
			appended(other.ID, 90, 91)
			w.logged(tn.ID, func(s ports.Storage) ([]object.Change, error) {
				return []object.Change{deletion}, s.Objects().Remove(w.ctx, tn.ID, []id.Object{gone.ID})
			})
			w.ok(w.Changes().Prune(w.ctx, longAgo(98)))
			wantEqual(w, numbers(tn.ID), []int64{1, 2, 3, 4, 5, 6, 7, 8})
			w.ok(w.Changes().Prune(w.ctx, longAgo(100)))
			wantEqual(w, numbers(tn.ID), []int64{7, 8})
			wantEqual(w, numbers(other.ID), nil)
			wantEqual(w, numbers(late.ID), []int64{1, 2})
			wantEqual(w, []object.Head{w.head(tn.ID), w.head(other.ID), w.head(late.ID)}, []object.Head{
				{Epoch: epoch, N: 8, Floor: 6}, {Epoch: epoch, N: 4, Floor: 4}, {Epoch: epoch, N: 2},
			})
			wantEqual(w, w.objectsOf(other.ID, object.Filter{}), []object.Object{other.personalObject, other.sharedObject})
			deletion.N = 8
			s := w.sinceOf(tn.ID, 6)
			wantEqual(w, s.Head, w.head(tn.ID))
			wantEqual(w, []int{len(s.Regrouped), len(s.Changed), len(s.Deleted)}, []int{1, 0, 1})
			wantEqual(w, s.Deleted[0], deletion)

			w.ok(w.Changes().Prune(w.ctx, longAgo(100)))
			wantEqual(w, w.head(tn.ID), object.Head{Epoch: epoch, N: 8, Floor: 6})
			w.ok(w.Changes().Prune(w.ctx, longAgo(1000)))
			wantEqual(w, w.head(tn.ID), object.Head{Epoch: epoch, N: 8, Floor: 8})
			wantEqual(w, w.addObject(someObject(tn.ID, blobCases, "next.md", tn.owner.ID)).N, 9)
			wantEqual(w, numbers(tn.ID), []int64{9})
			w.pruneWhileAppending()
		},
		"arguments and results belong to the caller": func(w *fixture) {
			tn := w.tenant()
			in := object.Place{Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: new(tn.workspace.ID)}
			v := someObject(tn.ID, in, "a.md", tn.owner.ID)
			audience := func() *object.Audience {
				return &object.Audience{Teams: []id.Team{tn.team.ID}, Users: []id.User{tn.owner.ID, tn.removed.ID}}
			}
			made := object.NewDeletion(v, tn.owner.ID, at(90), audience())
			w.logged(tn.ID, appends(made))
			want := made
			want.N, want.Audience, want.Object.Workspace = 3, audience(), new(tn.workspace.ID)
			spoil := func(c object.Change) {
				c.Audience.Users[0], *c.Object.Workspace = "spoilt", "spoilt"
				c.Audience.Everyone, c.Audience.Teams[0] = true, "spoilt"
			}
			get := func() object.Change { return must.Do(w.Changes().List(w.ctx, tn.ID, 2, 1)).Or(w)[0] }
			spoil(made)
			wantEqual(w, get(), want)
			spoil(get())
			spoil(w.sinceOf(tn.ID, 2).Deleted[0])
			wantEqual(w, get(), want)

			v.Workspace = new(tn.workspace.ID)
			w.addObjects(v)
			*w.sinceOf(tn.ID, 3).Changed[0].Object.Workspace = "spoilt"
			v.N = 4
			wantEqual(w, w.sinceOf(tn.ID, 3).Changed, []object.Change{present(v)})
		},
	}.run(t, open)
}

// present returns the change that Since reports for an existing object.
func present(v object.Object) object.Change {
	return object.Change{N: v.N, Type: object.Changed, Object: v}
}

// observed is the result of Since, each type in its order.
type observed struct {
	Head                        object.Head
	Regrouped, Changed, Deleted []object.Change
}

// since reads what an observer has to know who left off after the number.
func (w *fixture) since(o id.Org, after int64) (s observed, err error) {
	headed := 0
	err = w.Changes().Since(w.ctx, o, after, func(h object.Head) error {
		s.Head, headed = h, headed+1
		return nil
	}, func(c object.Change) error {
		switch {
		case headed != 1:
			return fmt.Errorf("the head came %d times before the first change", headed)
		case c.Type == object.Changed:
			s.Changed = append(s.Changed, c)
		case c.Type == object.Deleted:
			s.Deleted = append(s.Deleted, c)
		case len(s.Changed)+len(s.Deleted) > 0:
			return errors.New("what an audience sees changes after other changes")
		default:
			s.Regrouped = append(s.Regrouped, c)
		}
		return nil
	})
	return s, err
}

// sinceOf is since where it must not fail.
func (w *fixture) sinceOf(o id.Org, after int64) observed {
	w.Helper()
	return must.Do(w.since(o, after)).Or(w)
}

// apply brings what an observer has up to date.
func (s observed) apply(there map[id.Object]object.Object) {
	for _, c := range slices.Concat(s.Deleted, s.Changed) {
		if c.Type == object.Deleted {
			delete(there, c.Object.ID)
		} else {
			there[c.Object.ID] = c.Object
		}
	}
}

// pruneWhileAppending prunes a log that grows, in which every old entry is
// followed by a young one.
func (w *fixture) pruneWhileAppending() {
	w.Helper()
	const writers, rounds = 4, 6
	o := w.org().ID
	w.allOK(concurrently(2*writers, func(i int) error {
		for range rounds {
			var err error
			if i < writers {
				old, young := object.NewAccessChange(object.Audience{}, "", longAgo(99)), object.NewAccessChange(object.Audience{}, "", at(1))
				err = must.ErrorOf(w.append(o, appends(old, young)))
			} else {
				err = w.Changes().Prune(w.ctx, longAgo(100))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	w.ok(w.Changes().Prune(w.ctx, longAgo(100)))
	h := w.head(o)
	wantEqual(w, h, object.Head{Epoch: h.Epoch, N: 2 * writers * rounds, Floor: 2*writers*rounds - 1})
	log := w.log(o)
	wantEqual(w, len(log), 1)
	wantEqual(w, log[0].N, h.N)
}
