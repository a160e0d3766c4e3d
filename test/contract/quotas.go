package contract

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// manyGoroutines is how many are at one account at once.
const manyGoroutines = 64

// sweepTime is when sweeps happen: they select from the whole store, so leases of their sub-tests expire before all
// others.
var sweepTime = longAgo(100)

// Quotas is the suite of ports.Quotas.
func Quotas(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"grants are those of the account": grantProperty,
		"each member has an account of each day in each organisation": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			u, v := fresh[id.User](), fresh[id.User]()
			day := someLease(o, u).Day
			next := calendar.DayOf(day.End())
			w.lease(someLease(o, u), 100)
			for _, l := range []quota.Lease{someLease(other, u), someLease(o, v), onDay(someLease(o, u), next)} {
				resultOf(w.Quotas().Account(w.ctx, l.Org, l.User, l.Day)).is(w, quota.Account{})
				w.lease(l, 100)
				w.ok(w.settle(l, 7))
				resultOf(w.Quotas().Account(w.ctx, l.Org, l.User, l.Day)).is(w, quota.Account{Used: 7})
			}
			w.account(o, u, quota.Account{Reserved: 100})
		},
		"a lease belongs to the member's account of one day in one organisation": func(w *fixture) {
			o, other, u := w.org().ID, w.org().ID, fresh[id.User]()
			for n, wrong := range []func(*quota.Lease){
				func(l *quota.Lease) { l.Org = other },
				func(l *quota.Lease) { l.User = fresh[id.User]() },
				func(l *quota.Lease) { l.Day = calendar.DayOf(l.Day.End()) },
			} {
				l := w.lease(someLease(o, u), 100)
				wrong(&l)
				w.ok(w.settle(l, 1))
				w.ok(w.Quotas().Extend(w.ctx, []quota.Lease{l}, longAgo(0)))
				w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
				w.account(o, u, quota.Account{Reserved: int64(100 * (n + 1))})
			}
		},
		"a reservation at an epoch succeeds while the organisation has it": func(w *fixture) {
			tn, u := w.tenant(), fresh[id.User]()
			need := quota.Need{Input: 20, Output: 55}
			was := w.epoch(tn.ID)
			resultOf(w.Quotas().ReserveAt(w.ctx, was, someLease(tn.ID, u), 125, need)).is(w, 75)
			resultOf(w.Quotas().ReserveAt(w.ctx, was-1, someLease(tn.ID, u), 125, need)).is(w, 0)
			resultOf(w.Quotas().ReserveAt(w.ctx, was+1, someLease(tn.ID, u), 125, need)).is(w, 0)
			w.incrementEpoch(tn.ID)
			resultOf(w.Quotas().ReserveAt(w.ctx, was, someLease(tn.ID, u), 125, need)).is(w, 0)
			resultOf(w.Quotas().ReserveAt(w.ctx, was, someLease(tn.ID, fresh[id.User]()), 125, need)).is(w, 0)
			w.account(tn.ID, u, quota.Account{Reserved: 75})
			l := someLease(tn.ID, u)
			resultOf(w.Quotas().ReserveAt(w.ctx, was+1, l, 125, need)).is(w, 50)
			resultOf(w.Quotas().ReserveAt(w.ctx, was+1, someLease(tn.ID, u), 125, need)).is(w, 0)
			w.account(tn.ID, u, quota.Account{Reserved: 125})
			resultOf(w.Quotas().ReserveAt(w.ctx, was+1, l, 1000, need)).wantConflict(w)
			w.atomic(func(r ports.Records) error {
				q := r.Usage().Quotas()
				stale, err := q.ReserveAt(w.ctx, was, someLease(tn.ID, u), 1000, need)
				granted, err2 := q.ReserveAt(w.ctx, was+1, someLease(tn.ID, u), 1000, need)
				if stale != 0 || granted != 75 {
					err = errors.Join(err, fmt.Errorf("granted were %d and %d", stale, granted))
				}
				return errors.Join(err, err2)
			})
			w.ok(w.settle(l, 0))
			w.account(tn.ID, u, quota.Account{Reserved: 150})
			gone := someLease(fresh[id.Org](), u)
			resultOf(w.Quotas().ReserveAt(w.ctx, 0, gone, 100, need)).wantNotFound(w)
		},
		"leases are reserved together, all of a member's or none": func(w *fixture) {
			o, u, v := w.org().ID, fresh[id.User](), fresh[id.User]()
			of := func(u id.User, tokens int64) quota.Lease {
				l := someLease(o, u)
				l.Tokens = tokens
				return l
			}
			reserve := func(limit int64, leases ...quota.Lease) ([]id.User, error) {
				granted, err := w.Quotas().ReserveAllAt(w.ctx, w.epoch(o), leases, limit)
				slices.Sort(granted)
				return granted, err
			}
			both := []id.User{u, v}
			slices.Sort(both)
			first := []quota.Lease{of(u, 30), of(v, 10), of(u, 40)}
			resultOf(reserve(100, first...)).is(w, both)
			w.account(o, u, quota.Account{Reserved: 70})
			w.account(o, v, quota.Account{Reserved: 10})
			refused := of(u, 30)
			resultOf(reserve(100, refused, of(v, 30), of(u, 1))).is(w, []id.User{v})
			must.Do(reserve(100, of(fresh[id.User](), 60), of(v, 61))).Or(w)
			wantEqual(w, len(must.Do(reserve(100, of(fresh[id.User](), 101))).Or(w)), 0)
			w.account(o, u, quota.Account{Reserved: 70})
			w.account(o, v, quota.Account{Reserved: 40})
			resultOf(reserve(100, of(v, 1), first[0])).wantConflict(w)
			w.account(o, v, quota.Account{Reserved: 40})
			w.ok(w.settle(first[0], 29))
			w.account(o, u, quota.Account{Used: 29, Reserved: 40})
			resultOf(reserve(100, of(u, 31), of(v, 60))).is(w, both)
			w.account(o, u, quota.Account{Used: 29, Reserved: 71})
			for _, wrong := range []int64{-1, 1} {
				wantEqual(w, len(must.Do(w.Quotas().ReserveAllAt(w.ctx, w.epoch(o)+wrong, []quota.Lease{of(u, 1), of(v, 1)}, 1000)).Or(w)), 0)
			}
			resultOf(reserve(130, refused)).is(w, []id.User{u})
			w.ok(w.settle(refused, 0))
			w.account(o, u, quota.Account{Used: 29, Reserved: 71})
			epoch := w.epoch(o)
			w.rolledBack(func(r ports.Records) error {
				granted, err := r.Usage().Quotas().ReserveAllAt(w.ctx, epoch, []quota.Lease{of(u, 1), of(v, 1)}, 1000)
				if len(granted) != 2 || err != nil {
					return fmt.Errorf("granted were %v, error %w", granted, err)
				}
				return nil
			})
			w.account(o, u, quota.Account{Used: 29, Reserved: 71})
			other := w.org().ID
			w.account(other, u, quota.Account{})
			gone := of(u, 1)
			gone.Org = fresh[id.Org]()
			resultOf(w.Quotas().ReserveAllAt(w.ctx, 0, []quota.Lease{gone}, 1000)).wantNotFound(w)
		},
		"many who reserve together at once are granted no more than the limit": func(w *fixture) {
			o, users := w.org().ID, several[id.User](5)
			epoch := w.epoch(o)
			var granted atomic.Int64
			w.allOK(concurrently(concurrent, func(i int) error {
				for round := range 6 {
					leases := make([]quota.Lease, 2*len(users))
					for j := range leases {
						leases[j] = someLease(o, users[(i*j+round)%len(users)])
						leases[j].Tokens = int64(1 + (i+j)%9)
					}
					got, err := w.Quotas().ReserveAllAt(w.ctx, epoch, leases, 200)
					if err != nil {
						return err
					}
					var entries []usage.Entry
					for _, l := range leases {
						if slices.Contains(got, l.User) && l.Tokens%2 == 1 {
							entries = append(entries, ended(l, 1))
							granted.Add(1)
						} else if slices.Contains(got, l.User) {
							granted.Add(l.Tokens)
						}
					}
					if len(entries) == 0 {
						continue
					}
					if err := w.Ledger().Settle(w.ctx, o, entries...); err != nil {
						return err
					}
				}
				return nil
			}))
			var sum int64
			for _, u := range users {
				a := must.Do(w.Quotas().Account(w.ctx, o, u, someLease(o, u).Day)).Or(w)
				if sum += a.Used + a.Reserved; a.Used+a.Reserved > 200 {
					w.Errorf("an account is %+v", a)
				}
			}
			wantEqual(w, sum, granted.Load())
		},
		"the epoch of a reservation is no other organisation's": func(w *fixture) {
			o, other, u := w.org().ID, w.org().ID, fresh[id.User]()
			for w.epoch(other) <= w.epoch(o) {
				w.incrementEpoch(other)
			}
			resultOf(w.Quotas().ReserveAt(w.ctx, w.epoch(other), someLease(o, u), 100, quota.Need{Output: 1})).is(w, 0)
			resultOf(w.Quotas().ReserveAt(w.ctx, w.epoch(o), someLease(other, u), 100, quota.Need{Output: 1})).is(w, 0)
		},
		"nothing is reserved at an epoch after a commit has changed it": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			w.allOK(concurrently(concurrent, func(int) error {
				seen, err := w.epochs.Epochs(w.ctx, []id.Org{o})
				if err != nil {
					return err
				}
				if err := w.store.Atomic(w.ctx, lockOf(w, o)); err != nil {
					return err
				}
				granted, err := w.Quotas().ReserveAt(w.ctx, seen[o], someLease(o, u), 1000, quota.Need{Output: 1})
				if err == nil && granted != 0 {
					err = errors.New("a committed lock was not seen")
				}
				return err
			}))
			w.account(o, u, quota.Account{})
			resultOf(w.Quotas().ReserveAt(w.ctx, w.epoch(o), someLease(o, u), 1000, quota.Need{Output: 1})).is(w, 1)
		},
		"of concurrent reservations of one lease one succeeds": func(w *fixture) {
			l := someLease(w.org().ID, fresh[id.User]())
			w.wantOneSuccess(concurrently(concurrent, func(int) error {
				return must.ErrorOf(w.Quotas().ReserveAt(w.ctx, 0, l, 1_000_000, quota.Need{Output: 5}))
			}), fault.Conflict)
			w.account(l.Org, l.User, quota.Account{Reserved: 5})
		},
		"an unknown organisation has no accounts": func(w *fixture) {
			l := someLease(fresh[id.Org](), fresh[id.User]())
			resultOf(w.Quotas().ReserveAt(w.ctx, 0, l, 100, quota.Need{Output: 1})).wantNotFound(w)
			w.wantNotFound(w.settle(l, 1))
			w.ok(w.Quotas().Extend(w.ctx, []quota.Lease{l}, at(1)))
			w.account(l.Org, l.User, quota.Account{})
		},
		"sweep returns the tokens of an expired lease": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			for ms, tokens := range map[int]int64{99: 1, 100: 10, 101: 100} {
				l := someLease(o, u)
				l.ExpiresAt = longAgo(ms)
				w.lease(l, tokens)
			}
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			w.account(o, u, quota.Account{Reserved: 100})
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			w.account(o, u, quota.Account{Reserved: 100})
		},
		"settling a swept or an unknown lease returns no tokens, and counts the used ones": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			l := w.lease(expired(o, u), 100)
			w.lease(someLease(o, u), 10)
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			w.ok(w.settle(l, 40))
			w.ok(w.settle(someLease(o, u), 5)) // of a lease that never was
			w.account(o, u, quota.Account{Used: 45, Reserved: 10})
		},
		"hundreds of leases of many members are swept": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			users := several[id.User](30)
			w.atomic(func(r ports.Records) error {
				for i := range 450 {
					l := expired([]id.Org{o, other}[i%2], users[i%len(users)])
					if _, err := r.Usage().Quotas().ReserveAt(w.ctx, 0, l, 1_000_000, quota.Need{Output: int64(i + 1)}); err != nil {
						return err
					}
				}
				return nil
			})
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			for _, u := range users {
				w.account(o, u, quota.Account{})
				w.account(other, u, quota.Account{})
			}
		},
		"extend changes the expiry of existing leases": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			gone, kept := expired(o, u), expired(o, u)
			w.atomic(func(r ports.Records) error {
				q := r.Usage().Quotas()
				_, err := q.ReserveAt(w.ctx, 0, gone, 1000, quota.Need{Output: 1})
				_, err2 := q.ReserveAt(w.ctx, 0, kept, 1000, quota.Need{Output: 10})
				return errors.Join(err, err2, q.Extend(w.ctx, []quota.Lease{kept, someLease(o, u)}, at(1000)))
			})
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			w.account(o, u, quota.Account{Reserved: 10})
			w.ok(w.Quotas().Extend(w.ctx, []quota.Lease{gone, kept}, at(2000)))
			w.ok(w.settle(gone, 0))
			w.account(o, u, quota.Account{Reserved: 10})
			w.ok(w.Quotas().Extend(w.ctx, nil, longAgo(0)))
			w.ok(w.Quotas().Extend(w.ctx, []quota.Lease{kept}, sweepTime))
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			w.account(o, u, quota.Account{})
		},
		"hundreds of leases are extended at once": func(w *fixture) {
			o := w.org().ID
			users := several[id.User](7)
			var leases []quota.Lease
			w.atomic(func(r ports.Records) error {
				leases = nil
				for i := range 400 {
					l := expired(o, users[i%len(users)])
					leases = append(leases, l)
					if _, err := r.Usage().Quotas().ReserveAt(w.ctx, 0, l, 1_000_000, quota.Need{Output: 1}); err != nil {
						return err
					}
				}
				return r.Usage().Quotas().Extend(w.ctx, leases[100:], at(1000))
			})
			w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
			var held int64
			for _, u := range users {
				held += must.Do(w.Quotas().Account(w.ctx, o, u, leases[0].Day)).Or(w).Reserved
			}
			wantEqual(w, held, 300)
		},
		"a rollback undoes reservations, settlements and sweeps": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			l := w.lease(someLease(o, u), 100)
			checkRollback(w, func(in *fixture) {
				must.Do(in.Quotas().ReserveAt(w.ctx, 0, expired(o, u), 1000, quota.Need{Output: 5})).Or(in)
				in.ok(errors.Join(in.Ledger().Settle(w.ctx, o, ended(l, 30)), in.Quotas().Sweep(w.ctx, sweepTime)))
			}, func(in *fixture) quota.Account { return must.Do(in.Quotas().Account(w.ctx, o, u, l.Day)).Or(in) }, quota.Account{Used: 30})
			w.ok(w.settle(l, 1))
			w.account(o, u, quota.Account{Used: 1})
		},
		"concurrent reservations are granted exactly the limit": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			for round := range 8 {
				day := calendar.DayOf(at(0).AddDate(0, 0, round))
				granted := make([]int64, manyGoroutines)
				w.allOK(concurrently(manyGoroutines, func(i int) (err error) {
					granted[i], err = w.reserve(onDay(someLease(o, u), day), 500, quota.Need{Input: 49, Output: 26})
					return err
				}))
				slices.Sort(granted)
				want := make([]int64, manyGoroutines-7, manyGoroutines)
				wantEqual(w, granted, append(want, 50, 75, 75, 75, 75, 75, 75))
				resultOf(w.Quotas().Account(w.ctx, o, u, day)).is(w, quota.Account{Reserved: 500})
			}
		},
		"no account exceeds its limit during concurrent calls": func(w *fixture) {
			const limit, rounds = 1000, 12
			o, u := w.org().ID, fresh[id.User]()
			var used, refused atomic.Int64
			w.allOK(concurrently(manyGoroutines, func(i int) error {
				for round := range rounds {
					l := someLease(o, u)
					need := quota.Need{Input: int64(i % 7), Output: int64(30 + (5*i+11*round)%90)}
					granted, err := w.reserve(l, limit, need)
					if err != nil {
						return err
					}
					a, err := w.Quotas().Account(w.ctx, o, u, l.Day)
					if err != nil {
						return err
					}
					if a.Used+a.Reserved > limit || a.Reserved < 0 || granted > need.Input+need.Output {
						return fmt.Errorf("the account is %+v, %d were granted of %+v", a, granted, need)
					}
					if granted == 0 {
						refused.Add(1)
						continue
					}
					// The last of the limit is used up towards the end.
					part := granted * int64(round%3) / 20
					used.Add(part)
					if err := w.settle(l, part); err != nil {
						return err
					}
				}
				return nil
			}))
			w.account(o, u, quota.Account{Used: used.Load()})
			if used.Load() == 0 {
				w.Fatalf("nothing was used, and %d were refused", refused.Load())
			}
		},
		"a lease that is settled and swept concurrently is returned once": func(w *fixture) {
			const sweepers = 4
			o := w.org().ID
			for range 4 {
				users := several[id.User](8)
				var leases []quota.Lease
				for i := range manyGoroutines - sweepers {
					l := expired(o, users[i%len(users)])
					if i%4 == 0 {
						l.ExpiresAt = at(1000)
					}
					leases = append(leases, w.lease(l, int64(10+i)))
				}
				w.allOK(concurrently(manyGoroutines, func(i int) error {
					if i >= len(leases) {
						return w.Quotas().Sweep(w.ctx, sweepTime)
					}
					return w.settle(leases[i], 3)
				}))
				for i, u := range users {
					n := (len(leases) - i + len(users) - 1) / len(users)
					w.account(o, u, quota.Account{Used: int64(3 * n)})
				}
			}
		},
		"a lease that is extended and swept concurrently is kept or returned": func(w *fixture) {
			o := w.org().ID
			for range 4 {
				users := several[id.User](5)
				var leases []quota.Lease
				for i := range manyGoroutines {
					leases = append(leases, w.lease(expired(o, users[i%len(users)]), int64(1+i)))
				}
				w.allOK(concurrently(manyGoroutines/4, func(i int) error {
					if i%4 == 0 {
						return w.Quotas().Sweep(w.ctx, sweepTime)
					}
					some := slices.Clone(leases[i : i+manyGoroutines/2])
					if i%2 == 0 {
						slices.Reverse(some)
					}
					return w.Quotas().Extend(w.ctx, some, at(1000))
				}))
				w.ok(w.Quotas().Sweep(w.ctx, sweepTime))
				for _, l := range leases {
					w.ok(w.settle(l, 0))
				}
				for _, u := range users {
					w.account(o, u, quota.Account{})
				}
			}
		},
		"reserving, settling, extending and sweeping leases of common members do not deadlock": func(w *fixture) {
			const rounds = 4
			o := w.org().ID
			users := several[id.User](5)
			w.allOK(concurrently(manyGoroutines, func(i int) error {
				for range rounds {
					var leases []quota.Lease
					var entries []usage.Entry
					for n := range users {
						l := expired(o, users[(i*(n+1)+n)%len(users)])
						if _, err := w.Quotas().ReserveAt(w.ctx, 0, l, 1_000_000, quota.Need{Output: 10}); err != nil {
							return err
						}
						e := ended(l, 1)
						e.Model = []string{"a", "b", "c"}[(i+n)%3]
						leases, entries = append(leases, l), append(entries, e)
					}
					var err error
					switch i % 4 {
					case 0:
						err = w.Quotas().Sweep(w.ctx, sweepTime)
					case 1:
						err = w.Quotas().Extend(w.ctx, leases, sweepTime.Add(-time.Second))
					}
					if err = errors.Join(err, w.Ledger().Settle(w.ctx, o, entries...)); err != nil {
						return err
					}
				}
				return nil
			}))
			wantEqual(w, w.usedOf(o, users), rounds*int64(len(users))*manyGoroutines)
		},
	}.run(t, open)
}

// usedOf returns what the accounts of someLease's day have used together. None may have reserved
// tokens.
func (w *fixture) usedOf(o id.Org, users []id.User) (used int64) {
	w.Helper()
	for _, u := range users {
		a := must.Do(w.Quotas().Account(w.ctx, o, u, someLease(o, u).Day)).Or(w)
		wantEqual(w, a.Reserved, 0)
		used += a.Used
	}
	return used
}

// someLease returns a lease that is not stored yet and that no sweep ends.
func someLease(o id.Org, u id.User) quota.Lease {
	return must.Full(quota.Lease{ID: fresh[id.Request](), Org: o, User: u, Day: calendar.DayOf(at(0)), ExpiresAt: at(1_000_000)}, "Tokens")
}

// expired returns one that has expired at sweepTime, which any sub-test may end once
// it is stored.
func expired(o id.Org, u id.User) quota.Lease {
	l := someLease(o, u)
	l.ExpiresAt = longAgo(99)
	return l
}

// ended returns the entry of a request with the lease that used so much.
func ended(l quota.Lease, used int64) usage.Entry {
	return usage.Entry{ID: l.ID, Org: l.Org, User: l.User, At: l.Day.Start(), Tokens: chat.Usage{Output: used}}
}

// settle settles a lease of which so much was used.
func (w *fixture) settle(l quota.Lease, used int64) error {
	return w.Ledger().Settle(w.ctx, l.Org, ended(l, used))
}

func onDay(l quota.Lease, d calendar.Day) quota.Lease {
	l.Day = d
	return l
}

// lease has the tokens granted to the lease.
func (w *fixture) lease(l quota.Lease, tokens int64) quota.Lease {
	w.Helper()
	resultOf(w.Quotas().ReserveAt(w.ctx, 0, l, 1<<50, quota.Need{Input: tokens - 1, Output: 1})).is(w, tokens)
	return l
}

// reserve reserves at the organisation's present epoch.
func (w *fixture) reserve(l quota.Lease, limit int64, n quota.Need) (int64, error) {
	epochs, err := w.epochs.Epochs(w.ctx, []id.Org{l.Org})
	if err != nil {
		return 0, err
	}
	return w.Quotas().ReserveAt(w.ctx, epochs[l.Org], l, limit, n)
}

// incrementEpoch moves the organisation's epoch on.
func (w *fixture) incrementEpoch(o id.Org) {
	w.Helper()
	w.atomic(lockOf(w, o))
}

// lockOf returns what locks the organisations in a transaction.
func lockOf(w *fixture, orgs ...id.Org) func(ports.Records) error {
	return func(r ports.Records) (err error) {
		for _, o := range orgs {
			err = errors.Join(err, must.ErrorOf(r.Directory().Organisations().Lock(w.ctx, o)))
		}
		return err
	}
}

// account ends the sub-test unless the member's account is want on the day of
// someLease.
func (w *fixture) account(o id.Org, u id.User, want quota.Account) {
	w.Helper()
	resultOf(w.Quotas().Account(w.ctx, o, u, someLease(o, u).Day)).is(w, want)
}

// grantProperty has one account go through any of what can happen to it, and
// holds each grant to the account's own word on it.
func grantProperty(w *fixture) {
	o := w.org().ID
	rapid.Check(w.T, func(t *rapid.T) {
		u := fresh[id.User]()
		tokens := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1<<40))
		var want quota.Account
		type held struct {
			quota.Lease
			tokens int64
		}
		var leases []held
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			what := rapid.IntRange(0, 4).Draw(t, "what")
			if what > 2 && len(leases) > 0 {
				n := rapid.IntRange(0, len(leases)-1).Draw(t, "lease")
				l := leases[n]
				leases = slices.Delete(leases, n, n+1)
				want.Reserved -= l.tokens
				var err error
				if what == 3 {
					used := tokens.Draw(t, "used")
					want.Used += used
					err = w.settle(l.Lease, used)
				} else {
					err = errors.Join(w.Quotas().Extend(w.ctx, []quota.Lease{l.Lease}, sweepTime), w.Quotas().Sweep(w.ctx, sweepTime))
				}
				must.NoError(t, err)
			} else {
				limit, need := tokens.Draw(t, "limit"), quota.Need{Input: tokens.Draw(t, "input"), Output: 1 + tokens.Draw(t, "output")}
				if rapid.Bool().Draw(t, "near") { // the edge of what is left
					limit = want.Used + want.Reserved + need.Input + rapid.Int64Range(0, 2).Draw(t, "over")
				}
				l := someLease(o, u)
				granted := must.Do(w.reserve(l, limit, need)).Or(t)
				if grant := want.Grant(limit, need); granted != grant {
					t.Fatalf("granted were %d of %+v to %+v under %d, want %d", granted, need, want, limit, grant)
				}
				if granted > 0 {
					want.Reserved += granted
					leases = append(leases, held{l, granted})
				}
			}
			got, err := w.Quotas().Account(w.ctx, o, u, someLease(o, u).Day)
			if err != nil || got != want {
				t.Fatalf("the account is %+v, %v, want %+v", got, err, want)
			}
		}
	})
}
