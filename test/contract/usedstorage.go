package contract

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// UsedStorage is the suite of Used of ports.Storage, and of the limit of Replace.
func UsedStorage(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"usage is the sum of the sizes by class, of each organisation": func(w *fixture) {
			tn, other, empty, unknown := w.tenant(), w.tenant(), w.org().ID, fresh[id.Org]()
			want := w.used(tn.ID)
			for n, p := range w.places(tn) {
				v := someObject(tn.ID, p, "counted.md", tn.owner.ID)
				v.Size = 1 << n
				want[v.Class()] += v.Size
				w.addObject(v)
			}
			wantEqual(w, want, object.Usage{5<<40 + 1 + 2 + 32 + 64, 5<<40 + 128, 4 + 8 + 16 + 256})
			resultOf(w.Storage.Used(w.ctx, []id.Org{tn.ID, empty, other.ID, unknown, "no id"})).is(w, map[id.Org]object.Usage{
				tn.ID: want, other.ID: w.used(other.ID), empty: {}, unknown: {}, "no id": {},
			})
			resultOf(w.Storage.Used(w.ctx, nil)).is(w, nil)
		},
		"usage follows every sequence of writes, in transactions and after them": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			places, epoch, before := w.places(tn), w.epoch(tn.ID), w.used(other.ID)
			there := w.objectsOf(tn.ID, object.Filter{})
			random := rand.New(rand.NewPCG(1, 2))
			resized := func(v object.Object) object.Object {
				return v.WithContent(object.Content{Blob: v.BlobName(nextID()), Size: random.Int64N(1000)}, tn.owner.ID, at(80))
			}
			for round := range 40 {
				var now []object.Object
				steps := func(r ports.Records) (err error) {
					s := r.Storage()
					now = slices.Clone(there)
					for step := range 1 + random.IntN(4) {
						i := random.IntN(len(now) + 1)
						switch {
						case i == len(now):
							v := someObject(tn.ID, places[random.IntN(len(places))], fmt.Sprintf("%d/%d.md", round, step), tn.owner.ID)
							v.Size = random.Int64N(1000)
							err = errors.Join(err, s.Objects().Add(w.ctx, tn.ID, v))
							w.wantConflict(s.Objects().Add(w.ctx, tn.ID, v))
							now = append(now, v)
						case step%2 == 0:
							now[i] = resized(now[i])
							err = errors.Join(err, s.Objects().Put(w.ctx, tn.ID, now[i]))
						default:
							err = errors.Join(err, s.Objects().Remove(w.ctx, tn.ID, []id.Object{now[i].ID, fresh[id.Object](), now[i].ID}))
							now = slices.Delete(now, i, i+1)
						}
						if random.IntN(2) == 0 {
							_, appended := s.Changes().Append(w.ctx, tn.ID, object.NewAccessChange(object.Audience{Everyone: true}, "", at(90)))
							err = errors.Join(err, appended)
						}
						used, read := s.Used(w.ctx, []id.Org{tn.ID})
						err = errors.Join(err, read)
						wantEqual(w, used[tn.ID], usageOf(now))
					}
					return err
				}
				if round%3 == 0 {
					w.rolledBack(steps)
				} else {
					w.atomic(steps)
					there = now
				}
				wantEqual(w, w.used(tn.ID), usageOf(there))
				for i, v := range there {
					if random.IntN(4) == 0 {
						next := resized(v)
						w.ok(w.BlobNames().Announce(w.ctx, tn.ID, next.Blob, 0, at(90)))
						must.Do(w.Storage.Replace(w.ctx, tn.ID, unlimited(object.NewChange(next), v.Content, epoch))).Or(w)
						there[i] = next
					}
				}
				wantEqual(w, w.used(tn.ID), usageOf(there))
			}
			wantEqual(w, w.used(other.ID), before)
		},
		"what one transaction reads of the usage is what concurrent ones have stored before it": func(w *fixture) {
			tn := w.tenant()
			limit := w.used(tn.ID).Total() + 10*100 + 99
			full := errors.New("full")
			added := 0
			for _, err := range concurrently(concurrent, func(i int) error {
				v := someObject(tn.ID, blobCases, fmt.Sprintf("%d.md", i), tn.owner.ID)
				v.Size = 100
				_, err := w.append(tn.ID, func(s ports.Storage) ([]object.Change, error) {
					used, err := s.Used(w.ctx, []id.Org{tn.ID})
					if err == nil && !used[tn.ID].Allows(v.Size, limit) {
						err = full
					}
					if err != nil {
						return nil, err
					}
					return []object.Change{object.NewChange(v)}, s.Objects().Add(w.ctx, tn.ID, v)
				})
				return err
			}) {
				if err == nil {
					added++
				} else {
					w.wantSameError(err, full)
				}
			}
			wantEqual(w, added, 10)
			wantEqual(w, w.used(tn.ID).Total(), limit-99)
		},
		"concurrent replacements together stay within the limit": func(w *fixture) {
			tn, epoch := w.tenant(), int64(0)
			var all []object.Object
			for i := range concurrent {
				v := someObject(tn.ID, blobCases, fmt.Sprintf("%d.md", i), tn.owner.ID)
				v.Size = 2
				all = append(all, v)
			}
			all, epoch = w.addObjects(all...), w.epoch(tn.ID)
			limit := w.used(tn.ID).Total() + 10*5 + 4 // each grows from 2 to 7
			next := make([]object.Change, concurrent)
			for i, v := range all {
				next[i] = w.successor(v)
			}
			replaced := 0
			for _, err := range concurrently(concurrent, func(i int) error {
				replacement := unlimited(next[i], all[i].Content, epoch)
				replacement.Limit = limit
				return must.ErrorOf(w.Storage.Replace(w.ctx, tn.ID, replacement))
			}) {
				if err == nil {
					replaced++
				} else {
					w.wantConflict(err)
				}
			}
			wantEqual(w, replaced, 10)
			wantEqual(w, w.used(tn.ID).Total(), limit-4)
		},
		"content at its limit or beyond it may shrink and not grow": func(w *fixture) {
			tn := w.tenant()
			epoch := w.epoch(tn.ID)
			is := tn.sharedObject
			for _, step := range []struct {
				size, beyond int64 // the next content, and the limit less than what is then stored
				kind         fault.Kind
			}{{7, 100, 0}, {7, 3, 0}, {8, 1, fault.Conflict}, {8, 0, 0}, {9, -1, 0}, {10, 100, fault.Conflict}, {0, 1 << 50, 0}} {
				c := w.successor(is)
				c.Object.Size = step.size
				after := w.used(tn.ID).Total() + step.size - is.Size
				replacement := unlimited(c, is.Content, epoch)
				replacement.Limit = max(0, after-step.beyond)
				_, err := w.Storage.Replace(w.ctx, tn.ID, replacement)
				if step.kind != 0 {
					w.wantError(err, step.kind)
					continue
				}
				w.ok(err)
				is = c.Object
				wantEqual(w, w.used(tn.ID).Total(), after)
			}
		},
	}.run(t, open)
}

func usageOf(all []object.Object) (u object.Usage) {
	for _, v := range all {
		u[v.Class()] += v.Size
	}
	return u
}

// used returns the usage of an organisation, and ends the sub-test unless it is that of its objects.
func (w *fixture) used(o id.Org) object.Usage {
	w.Helper()
	used := must.Do(w.Storage.Used(w.ctx, []id.Org{o})).Or(w)[o]
	wantEqual(w, used, usageOf(w.objectsOf(o, object.Filter{})))
	return used
}
