package contract

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// someFlow returns an authorization of the instance that is not stored yet, with
// every field set.
func someFlow(i connector.Instance) connector.Flow {
	return must.Full(connector.Flow{
		State: id.Digest(nextID()), Org: i.Org, User: fresh[id.User](), Instance: i.ID,
		Server: connector.AuthServer{
			Issuer: "https://as.example.com/a?b=<c>&d='e'", Authorization: "https://as.example.com/authorize", Token: "https://as.example.com/token",
			Registration: "https://as.example.com/register", Revocation: "https://as.example.com/revoke", AuthMethods: []string{"none", "client_secret_basic"},
			Documents: true, ReturnsIssuer: true, Resource: "https://mcp.example.com/", Scopes: []string{"b", "a \"ü\""},
		},
		Client: "client \"1\"", Redirect: "https://collab.example.com/callback", Verifier: []byte("\x01verifier\x00\xff"),
		Browser: id.Digest("browser"), Error: "The provider says no 🦉", CreatedAt: at(95), ExpiresAt: at(96),
	}.Restore(connector.Refused))
}

// flow adds an authorization.
func (w *fixture) flow(i connector.Instance) connector.Flow {
	w.Helper()
	f := someFlow(i)
	w.ok(w.Flows().Add(w.ctx, f))
	return f
}

// Flows is the suite of ports.Flows.
func Flows(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an authorization is returned with every field as stored": func(w *fixture) {
			i := w.connector(w.org().ID)
			full := someFlow(i)
			bare := connector.Flow{
				State: id.Digest(nextID()), Org: i.Org, User: fresh[id.User](), Instance: i.ID, Verifier: []byte{0}, CreatedAt: at(1), ExpiresAt: at(2),
			}.Restore(connector.Pending)
			all := []connector.Flow{full, bare}
			for _, s := range []connector.FlowStatus{connector.Pending, connector.Redeeming, connector.Ready, connector.Refused} {
				all = append(all, someFlow(i).Restore(s))
			}
			for _, f := range all {
				w.ok(w.Flows().Add(w.ctx, f))
				resultOf(w.Flows().Get(w.ctx, f.State)).is(w, f)
			}
			for _, swap := range [][2]connector.Flow{{full, bare}, {bare, full}} {
				next := swap[1]
				next.State = swap[0].State
				resultOf(w.Flows().Update(w.ctx, next.State, func(connector.Flow) (connector.Flow, error) { return next, nil })).is(w, next)
				resultOf(w.Flows().Get(w.ctx, next.State)).is(w, next)
			}
			for _, beside := range all[2:] {
				resultOf(w.Flows().Get(w.ctx, beside.State)).is(w, beside)
			}
		},
		"an authorization is found by only its state, compared exactly": func(w *fixture) {
			a, b := w.flow(w.connector(w.org().ID)), w.flow(w.connector(w.org().ID))
			resultOf(w.Flows().Get(w.ctx, a.State)).is(w, a)
			resultOf(w.Flows().Get(w.ctx, b.State)).is(w, b)
			for _, unknown := range []string{"", id.Digest(nextID()), a.State + " ", a.State[1:], "%"} {
				resultOf(w.Flows().Get(w.ctx, unknown)).wantNotFound(w)
				resultOf(w.Flows().Update(w.ctx, unknown, keep)).wantNotFound(w)
			}
		},
		"a taken state is a conflict in every organisation, and the transaction continues": func(w *fixture) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			f := w.flow(i)
			again, taken, next := someFlow(i), someFlow(theirs), someFlow(i)
			again.State, taken.State = f.State, f.State
			w.wantConflict(w.Flows().Add(w.ctx, again))
			w.atomic(func(r ports.Records) error {
				w.wantConflict(r.Connections().Flows().Add(w.ctx, taken))
				return r.Connections().Flows().Add(w.ctx, next)
			})
			resultOf(w.Flows().Get(w.ctx, f.State)).is(w, f)
			resultOf(w.Flows().Get(w.ctx, next.State)).is(w, next)
		},
		"an authorization needs an instance of its organisation, and the transaction continues": func(w *fixture) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			lost, strange, next := someFlow(i), someFlow(theirs), someFlow(i)
			lost.Instance, strange.Org = fresh[id.Connector](), i.Org
			w.wantNotFound(w.Flows().Add(w.ctx, lost))
			w.atomic(func(r ports.Records) error {
				w.wantNotFound(r.Connections().Flows().Add(w.ctx, strange))
				return r.Connections().Flows().Add(w.ctx, next)
			})
			resultOf(w.Flows().Get(w.ctx, lost.State)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, strange.State)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, next.State)).is(w, next)
		},
		"of concurrent redemptions of an authorization one succeeds": func(w *fixture) {
			f := someFlow(w.connector(w.org().ID)).Restore(connector.Pending)
			f.Error = ""
			w.ok(w.Flows().Add(w.ctx, f))
			w.wantOneSuccess(concurrently(manyGoroutines, func(int) error {
				return must.ErrorOf(w.Flows().Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Redeemed(f.Browser, at(95)) }))
			}), fault.NotFound)
			resultOf(w.Flows().Get(w.ctx, f.State)).is(w, f.Restore(connector.Redeeming))
		},
		"a transaction locks the authorization until it ends": func(w *fixture) {
			f := w.flow(w.connector(w.org().ID))
			count := func(f connector.Flow) (connector.Flow, error) {
				f.Browser += "x"
				return f, nil
			}
			w.allOK(concurrently(concurrent, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					next, err := r.Connections().Flows().Update(w.ctx, f.State, count)
					if err != nil {
						return err
					}
					there, err := r.Connections().Flows().Get(w.ctx, f.State)
					if err == nil && there.Browser != next.Browser {
						err = fmt.Errorf("it was changed under the lock: %s, %s", there.Browser, next.Browser)
					}
					return err
				})
			}))
			wantEqual(w, len(must.Do(w.Flows().Get(w.ctx, f.State)).Or(w).Browser), len(f.Browser)+concurrent)
		},
		"sweep removes those of all organisations that expired before the time": func(w *fixture) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			var flows []connector.Flow
			for n, of := range []connector.Instance{i, theirs, i} {
				f := someFlow(of)
				f.ExpiresAt = longAgo(99 + n)
				w.ok(w.Flows().Add(w.ctx, f))
				flows = append(flows, f)
			}
			w.ok(w.Flows().Sweep(w.ctx, sweepTime))
			w.ok(w.Flows().Sweep(w.ctx, sweepTime))
			resultOf(w.Flows().Get(w.ctx, flows[0].State)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, flows[1].State)).is(w, flows[1])
			resultOf(w.Flows().Get(w.ctx, flows[2].State)).is(w, flows[2])
			resultOf(w.Connectors().Get(w.ctx, i.Org, i.ID)).is(w, i)
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			i := w.connector(w.org().ID)
			f, old, added := w.flow(i), someFlow(i), someFlow(i)
			old.ExpiresAt = longAgo(100) // no other sweep reaches it
			w.ok(w.Flows().Add(w.ctx, old))
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.Flows().Add(w.ctx, added), in.Flows().Sweep(w.ctx, sweepTime.Add(time.Millisecond))))
				resultOf(in.Flows().Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Done(), nil })).is(in, f.Done())
			}, func(in *fixture) (all []connector.Flow) {
				for _, of := range []connector.Flow{f, old, added} {
					all = append(all, orZero(in, resultOf(in.Flows().Get(w.ctx, of.State))))
				}
				return all
			}, []connector.Flow{f.Done(), {}, added})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			f := someFlow(w.connector(w.org().ID))
			get := func() connector.Flow { return must.Do(w.Flows().Get(w.ctx, f.State)).Or(w) }
			update := func(fn func(connector.Flow) (connector.Flow, error)) (connector.Flow, error) {
				return w.Flows().Update(w.ctx, f.State, fn)
			}
			keepsNothing(w, f, func(f connector.Flow) error { return w.Flows().Add(w.ctx, f) }, updates(w, get, update)...)
		},
	}.run(t, open)
}

// someRegistered returns a client of an issuer of its own, with every field set.
func someRegistered() connector.Registered {
	return must.Full(connector.Registered{
		Issuer: "https://" + nextID() + ".example.com/a?b='c'", Redirect: "https://collab.example.com/callback", ID: "client \"ü\"",
		Secret: []byte("\x01secret\x00\xff"), Method: "client_secret_basic", ExpiresAt: new(at(1000)), UsedAt: at(500),
	})
}

// Clients is the suite of ports.Clients.
func Clients(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a client is returned with every field as stored": func(w *fixture) {
			full := someRegistered()
			for _, c := range []connector.Registered{full, {Issuer: someRegistered().Issuer, Redirect: full.Redirect, ID: "public", Method: "none", UsedAt: at(0)}} {
				resultOf(w.Clients().Put(w.ctx, c, at(0))).is(w, c)
				resultOf(w.Clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			}
		},
		"a client belongs to one issuer and address, compared exactly": func(w *fixture) {
			a := someRegistered()
			b, c := a, a
			b.Redirect, b.ID = "https://other.example.com/callback", "b"
			c.Issuer, c.ID = a.Issuer+"/", "c"
			for _, v := range []connector.Registered{a, b, c} {
				resultOf(w.Clients().Put(w.ctx, v, at(0))).is(w, v)
			}
			for _, v := range []connector.Registered{a, b, c} {
				resultOf(w.Clients().Get(w.ctx, v.Issuer, v.Redirect)).is(w, v)
			}
			for _, unknown := range [][2]string{{c.Issuer, b.Redirect}, {someRegistered().Issuer, a.Redirect}, {"", ""}, {a.Redirect, a.Issuer}, {a.Issuer, a.Redirect + " "}} {
				resultOf(w.Clients().Get(w.ctx, unknown[0], unknown[1])).wantNotFound(w)
			}
		},
		"put keeps a client unless it expires too soon": func(w *fixture) {
			first, second, third := someRegistered(), connector.Registered{}, connector.Registered{}
			second = connector.Registered{Issuer: first.Issuer, Redirect: first.Redirect, ID: "second", Method: "none", UsedAt: at(2000)}
			third = second
			third.ID = "third"
			resultOf(w.Clients().Put(w.ctx, first, at(0))).is(w, first)
			resultOf(w.Clients().Put(w.ctx, second, at(0))).is(w, first)
			resultOf(w.Clients().Put(w.ctx, second, at(1000))).is(w, first)
			resultOf(w.Clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, first)
			resultOf(w.Clients().Put(w.ctx, second, at(1001))).is(w, second)
			resultOf(w.Clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, second)
			// One that never expires stays.
			resultOf(w.Clients().Put(w.ctx, third, at(1<<40))).is(w, second)
			resultOf(w.Clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, second)
		},
		"concurrent registrations all return the same client": func(w *fixture) {
			first := someRegistered()
			for _, expires := range []time.Time{at(0), at(2000)} { // the first of all, and one in the place of one that expired
				got := make([]connector.Registered, manyGoroutines)
				w.allOK(concurrently(manyGoroutines, func(n int) (err error) {
					c := first
					c.ID, c.ExpiresAt = fmt.Sprint(expires, n), new(expires.Add(time.Hour))
					if expires.Equal(at(0)) {
						c.ExpiresAt = new(at(1000))
					}
					got[n], err = w.Clients().Put(w.ctx, c, expires)
					return err
				}))
				there := must.Do(w.Clients().Get(w.ctx, first.Issuer, first.Redirect)).Or(w)
				for _, c := range got {
					wantEqual(w, c, there)
				}
			}
		},
		"use and remove change only the client with the id": func(w *fixture) {
			c, beside := someRegistered(), someRegistered()
			must.Do(w.Clients().Put(w.ctx, c, at(0))).Or(w)
			must.Do(w.Clients().Put(w.ctx, beside, at(0))).Or(w)
			for _, other := range []connector.Registered{
				{Issuer: c.Issuer, Redirect: c.Redirect, ID: "another"}, {Issuer: c.Issuer, Redirect: "another", ID: c.ID}, {Issuer: "another", Redirect: c.Redirect, ID: c.ID},
			} {
				other.UsedAt = at(600)
				w.wantNotFound(w.Clients().Use(w.ctx, other))
				w.ok(w.Clients().Remove(w.ctx, other.Issuer, other.Redirect, other.ID))
			}
			resultOf(w.Clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			// Nothing else of it is changed.
			w.ok(w.Clients().Use(w.ctx, connector.Registered{Issuer: c.Issuer, Redirect: c.Redirect, ID: c.ID, UsedAt: at(700)}))
			c.UsedAt = at(700)
			resultOf(w.Clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			for range 2 {
				w.ok(w.Clients().Remove(w.ctx, c.Issuer, c.Redirect, c.ID))
				resultOf(w.Clients().Get(w.ctx, c.Issuer, c.Redirect)).wantNotFound(w)
			}
			resultOf(w.Clients().Get(w.ctx, beside.Issuer, beside.Redirect)).is(w, beside)
		},
		"sweep removes the least recently used clients, up to the limit": func(w *fixture) {
			var all []connector.Registered
			for _, ms := range []int{40, 10, 30, 20, 50} {
				c := someRegistered()
				c.UsedAt = longAgo(ms)
				all = append(all, must.Do(w.Clients().Put(w.ctx, c, at(0))).Or(w))
			}
			left := func(want ...int) {
				w.Helper()
				for n, c := range all {
					got := resultOf(w.Clients().Get(w.ctx, c.Issuer, c.Redirect))
					if slices.Contains(want, n) {
						got.is(w, c)
					} else {
						got.wantNotFound(w)
					}
				}
			}
			resultOf(w.Clients().Sweep(w.ctx, longAgo(10), 9)).is(w, 0)
			resultOf(w.Clients().Sweep(w.ctx, longAgo(100), 0)).is(w, 0)
			left(0, 1, 2, 3, 4)
			w.rolledBack(func(r ports.Records) error {
				resultOf(r.Connections().Clients().Sweep(w.ctx, longAgo(100), 9)).is(w, 5)
				return nil
			})
			left(0, 1, 2, 3, 4)
			resultOf(w.Clients().Sweep(w.ctx, longAgo(50), 2)).is(w, 2)
			left(0, 2, 4)
			all[2].UsedAt = longAgo(60)
			w.ok(w.Clients().Use(w.ctx, all[2]))
			resultOf(w.Clients().Sweep(w.ctx, longAgo(50), 9)).is(w, 1)
			left(2, 4)

			for n := range 100 {
				c := someRegistered()
				c.UsedAt = longAgo(n % 3)
				must.Do(w.Clients().Put(w.ctx, c, at(0))).Or(w)
			}
			var swept atomic.Int64
			sweep := func(int) error {
				n, err := w.Clients().Sweep(w.ctx, longAgo(50), 100)
				swept.Add(int64(n))
				return err
			}
			w.allOK(concurrently(manyGoroutines, sweep))
			w.ok(sweep(0)) // what all left to each other
			wantEqual(w, swept.Load(), 100)
			left(2, 4)
			resultOf(w.Clients().Sweep(w.ctx, longAgo(100), 100)).is(w, 2)
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			c, gone, added := someRegistered(), someRegistered(), someRegistered()
			for _, v := range []connector.Registered{c, gone} {
				must.Do(w.Clients().Put(w.ctx, v, at(0))).Or(w)
			}
			next := c
			next.ID, next.UsedAt = "next", at(3000)
			checkRollback(w, func(in *fixture) {
				put := next
				put.UsedAt = c.UsedAt
				resultOf(in.Clients().Put(w.ctx, added, at(0))).is(in, added)
				resultOf(in.Clients().Put(w.ctx, put, at(2000))).is(in, put)
				in.ok(errors.Join(in.Clients().Use(w.ctx, next), in.Clients().Remove(w.ctx, gone.Issuer, gone.Redirect, gone.ID)))
			}, func(in *fixture) (all []connector.Registered) {
				for _, of := range []connector.Registered{c, gone, added} {
					all = append(all, orZero(in, resultOf(in.Clients().Get(w.ctx, of.Issuer, of.Redirect))))
				}
				return all
			}, []connector.Registered{next, {}, added})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			c := someRegistered()
			keepsNothing(w, c, func(c connector.Registered) error { return must.ErrorOf(w.Clients().Put(w.ctx, c, at(0))) },
				func() connector.Registered { return must.Do(w.Clients().Get(w.ctx, c.Issuer, c.Redirect)).Or(w) },
				func() connector.Registered { return must.Do(w.Clients().Put(w.ctx, copied(c), at(0))).Or(w) })
		},
	}.run(t, open)
}

// someRevocation returns a revocation that is not stored yet, with every field
// set.
func someRevocation(o id.Org, due time.Time) connector.Revocation {
	return must.Full(connector.Revocation{ID: fresh[id.Connector](), Org: o, Renewal: []byte("\x01renewal\x00\xff"), Attempts: 3, DueAt: due})
}

// Revocations is the suite of ports.Revocations.
func Revocations(t *testing.T, open func(t *testing.T) Opened) {
	now, until := longAgo(100), longAgo(200)
	// add has revocations stored that are due so many milliseconds after the
	// beginning of the time for claims, and returns them as claimed.
	add := func(w *fixture, o id.Org, ms ...int) (all []connector.Revocation) {
		w.Helper()
		for _, ms := range ms {
			r := someRevocation(o, longAgo(ms))
			w.ok(w.Revocations().Add(w.ctx, r))
			r.DueAt = until
			all = append(all, r)
		}
		return all
	}
	suite{
		"claims take the due ones of all organisations once, those due for longest first": func(w *fixture) {
			w.claims()
			a, b := w.org().ID, w.org().ID
			first := add(w, a, 100, 98)
			second := add(w, b, 99, 101)
			resultOf(w.claimRevocations(10, longAgo(97), until)).is(w, nil)
			resultOf(w.claimRevocations(10, now, until, first[0].Org, second[0].Org)).is(w, nil)
			resultOf(w.claimRevocations(2, now, until)).is(w, []connector.Revocation{first[1], second[0]})
			resultOf(w.claimRevocations(2, now, until)).is(w, []connector.Revocation{first[0]})
			resultOf(w.claimRevocations(2, now, until)).is(w, nil)
			wantEqual(w, len(must.Do(w.claimRevocations(10, until.Add(-1), longAgo(300))).Or(w)), 1)
			wantEqual(w, len(must.Do(w.claimRevocations(10, until, longAgo(300))).Or(w)), 3)
		},
		"a revocation needs its organisation, but no instance": func(w *fixture) {
			w.claims()
			r := someRevocation(fresh[id.Org](), now)
			if err := w.Revocations().Add(w.ctx, r); err == nil {
				w.Fatal("no error")
			}
			resultOf(w.claimRevocations(10, now, until)).is(w, nil)
		},
		"a taken id is a conflict, after which the transaction continues": func(w *fixture) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			there := add(w, o, 1)[0]
			again, theirs, next := there, there, someRevocation(o, longAgo(3))
			again.Attempts, theirs.Org, theirs.DueAt = 9, other, longAgo(2)
			w.wantConflict(w.Revocations().Add(w.ctx, again))
			w.atomic(func(r ports.Records) error {
				q := r.Connections().Revocations()
				w.wantConflict(q.Add(w.ctx, again))
				return errors.Join(q.Add(w.ctx, theirs), q.Add(w.ctx, next))
			})
			theirs.DueAt, next.DueAt = until, until
			resultOf(w.claimRevocations(10, now, until)).is(w, []connector.Revocation{there, theirs, next})
		},
		"put replaces an existing one": func(w *fixture) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			r, beside := add(w, o, 1)[0], add(w, o, 2)[0]
			next := connector.Revocation{ID: r.ID, Org: o, Renewal: []byte{0}, Attempts: 1 << 20, DueAt: longAgo(3)}
			strange, unknown := next, next
			strange.Org, unknown.ID = other, fresh[id.Connector]()
			w.wantNotFound(w.Revocations().Put(w.ctx, strange))
			w.wantNotFound(w.Revocations().Put(w.ctx, unknown))
			w.ok(w.Revocations().Put(w.ctx, next))
			next.DueAt = until
			resultOf(w.claimRevocations(10, now, until)).is(w, []connector.Revocation{beside, next})
		},
		"remove deletes the organisation's own, and ignores a missing one": func(w *fixture) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			r, beside := add(w, o, 1)[0], add(w, o, 2)[0]
			w.ok(w.Revocations().Remove(w.ctx, other, r.ID))
			w.ok(w.Revocations().Remove(w.ctx, o, fresh[id.Connector]()))
			resultOf(w.claimRevocations(10, now, until)).is(w, []connector.Revocation{r, beside})
			w.ok(w.Revocations().Remove(w.ctx, o, r.ID))
			w.ok(w.Revocations().Remove(w.ctx, o, r.ID))
			resultOf(w.Revocations().Claim(w.ctx, until, until)).is(w, beside)
		},
		"concurrent claims return each one once": func(w *fixture) {
			w.claims()
			orgs := []id.Org{w.org().ID, w.org().ID}
			var want []id.Connector
			for n := range 100 {
				want = append(want, add(w, orgs[n%len(orgs)], n)[0].ID)
			}
			claimedOnce(w, want, func() (connector.Revocation, error) { return w.Revocations().Claim(w.ctx, now, until) },
				func(r connector.Revocation) id.Connector { return r.ID })
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			w.claims()
			o := w.org().ID
			r, gone, added := add(w, o, 1)[0], add(w, o, 2)[0], someRevocation(o, longAgo(3))
			w.rolledBack(func(rs ports.Records) error {
				in, next := w.in(rs), r
				next.Attempts, next.DueAt = 9, longAgo(4)
				q := in.Revocations()
				w.ok(errors.Join(q.Add(w.ctx, added), q.Put(w.ctx, next), q.Remove(w.ctx, o, gone.ID)))
				next.DueAt = until
				claimed := added
				claimed.DueAt = until
				resultOf(in.claimRevocations(10, now, until)).is(w, []connector.Revocation{claimed, next})
				return nil
			})
			resultOf(w.claimRevocations(10, now, until)).is(w, []connector.Revocation{r, gone})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			w.claims()
			r := someRevocation(w.org().ID, longAgo(0))
			claim := func() connector.Revocation {
				return must.Do(w.Revocations().Claim(w.ctx, longAgo(0), longAgo(0))).Or(w)
			}
			keepsNothing(w, r, func(r connector.Revocation) error { return w.Revocations().Add(w.ctx, r) }, claim)
			keepsNothing(w, r, func(r connector.Revocation) error { return w.Revocations().Put(w.ctx, r) }, claim)
		},
	}.run(t, open)
}
