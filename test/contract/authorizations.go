package contract

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

// someFlow returns an authorization of the instance that is not stored yet, with
// every field set.
func someFlow(i connector.Instance) connector.Flow {
	return connector.Flow{
		State: connector.Digest(nextID()), Org: i.Org, User: fresh[id.User](), Instance: i.ID,
		Server: connector.AuthServer{
			Issuer: "https://as.example.com/a?b=<c>&d='e'", Authorization: "https://as.example.com/authorize", Token: "https://as.example.com/token",
			Registration: "https://as.example.com/register", Revocation: "https://as.example.com/revoke", AuthMethods: []string{"none", "client_secret_basic"},
			Documents: true, ReturnsIssuer: true, Resource: "https://mcp.example.com/", Scopes: []string{"b", "a \"ü\""},
		},
		Client: "client \"1\"", Redirect: "https://collab.example.com/callback", Verifier: []byte("\x01verifier\x00\xff"),
		Browser: connector.Digest("browser"), Error: "The provider says no 🦉", CreatedAt: at(95), ExpiresAt: at(96),
	}.Restore(connector.Refused)
}

// flow adds an authorization.
func (w *world) flow(i connector.Instance) connector.Flow {
	w.Helper()
	f := someFlow(i)
	w.ok(w.flows().Add(w.ctx, f))
	return f
}

// Flows is the suite of ports.Flows.
func Flows(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an authorization comes back with every field as it went in": func(w *world) {
			i := w.connector(w.org().ID)
			full := someFlow(i)
			bare := connector.Flow{
				State: connector.Digest(nextID()), Org: i.Org, User: fresh[id.User](), Instance: i.ID, Verifier: []byte{0}, CreatedAt: at(1), ExpiresAt: at(2),
			}.Restore(connector.Pending)
			for _, f := range []connector.Flow{full, bare} {
				w.ok(w.flows().Add(w.ctx, f))
				that(w.flows().Get(w.ctx, f.State)).is(w, f)
			}
			for _, swap := range [][2]connector.Flow{{full, bare}, {bare, full}} {
				next := swap[1]
				next.State = swap[0].State
				that(w.flows().Update(w.ctx, next.State, func(connector.Flow) (connector.Flow, error) { return next, nil })).is(w, next)
				that(w.flows().Get(w.ctx, next.State)).is(w, next)
			}
			for _, s := range []connector.FlowStatus{connector.Pending, connector.Redeeming, connector.Ready, connector.Refused} {
				f := someFlow(i).Restore(s)
				w.ok(w.flows().Add(w.ctx, f))
				that(w.flows().Get(w.ctx, f.State)).is(w, f)
			}
		},
		"an authorization is found by its state alone, compared exactly": func(w *world) {
			a, b := w.flow(w.connector(w.org().ID)), w.flow(w.connector(w.org().ID))
			that(w.flows().Get(w.ctx, a.State)).is(w, a)
			that(w.flows().Get(w.ctx, b.State)).is(w, b)
			for _, unknown := range []string{"", connector.Digest(nextID()), a.State + " ", a.State[1:], "%"} {
				that(w.flows().Get(w.ctx, unknown)).missing(w)
				that(w.flows().Update(w.ctx, unknown, keep)).missing(w)
			}
		},
		"a taken state is a conflict, in whatever organisation, and the transaction goes on": func(w *world) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			f := w.flow(i)
			again, taken, next := someFlow(i), someFlow(theirs), someFlow(i)
			again.State, taken.State = f.State, f.State
			w.conflict(w.flows().Add(w.ctx, again))
			w.atomic(func(r ports.Records) error {
				w.conflict(r.Connections().Flows().Add(w.ctx, taken))
				return r.Connections().Flows().Add(w.ctx, next)
			})
			that(w.flows().Get(w.ctx, f.State)).is(w, f)
			that(w.flows().Get(w.ctx, next.State)).is(w, next)
		},
		"an authorization is for an instance of its organisation, and the transaction goes on": func(w *world) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			lost, strange, next := someFlow(i), someFlow(theirs), someFlow(i)
			lost.Instance, strange.Org = fresh[id.Connector](), i.Org
			w.missing(w.flows().Add(w.ctx, lost))
			w.atomic(func(r ports.Records) error {
				w.missing(r.Connections().Flows().Add(w.ctx, strange))
				return r.Connections().Flows().Add(w.ctx, next)
			})
			that(w.flows().Get(w.ctx, lost.State)).missing(w)
			that(w.flows().Get(w.ctx, strange.State)).missing(w)
			that(w.flows().Get(w.ctx, next.State)).is(w, next)
		},
		"an update gives fn what is there and stores what it makes of it": func(w *world) {
			i := w.connector(w.org().ID)
			f, beside := w.flow(i), w.flow(i)
			want := f.Failed("Another reason")
			that(w.flows().Update(w.ctx, f.State, func(was connector.Flow) (connector.Flow, error) {
				same(w, was, f)
				return was.Failed("Another reason"), nil
			})).is(w, want)
			that(w.flows().Get(w.ctx, f.State)).is(w, want)
			that(w.flows().Get(w.ctx, beside.State)).is(w, beside)
			no := errors.New("no")
			got, err := w.flows().Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Done(), no })
			w.unchanged(err, no)
			same(w, got, connector.Flow{})
			that(w.flows().Get(w.ctx, f.State)).is(w, want)
		},
		"of many who redeem an authorization at once one does": func(w *world) {
			f := someFlow(w.connector(w.org().ID)).Restore(connector.Pending)
			f.Error = ""
			w.ok(w.flows().Add(w.ctx, f))
			w.oneWins(together(manyGoroutines, func(int) error {
				_, err := w.flows().Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Redeemed(f.Browser, at(95)) })
				return err
			}), fault.NotFound)
			that(w.flows().Get(w.ctx, f.State)).is(w, f.Restore(connector.Redeeming))
		},
		"in a transaction the authorization stays locked until its end": func(w *world) {
			f := w.flow(w.connector(w.org().ID))
			count := func(f connector.Flow) (connector.Flow, error) {
				f.Browser += "x"
				return f, nil
			}
			w.allOK(together(concurrent, func(int) error {
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
			same(w, len(that(w.flows().Get(w.ctx, f.State)).must(w).Browser), len(f.Browser)+concurrent)
		},
		"swept are those of all organisations that expired before the time": func(w *world) {
			i, theirs := w.connector(w.org().ID), w.connector(w.org().ID)
			var flows []connector.Flow
			for n, of := range []connector.Instance{i, theirs, i} {
				f := someFlow(of)
				f.ExpiresAt = longAgo(99 + n)
				w.ok(w.flows().Add(w.ctx, f))
				flows = append(flows, f)
			}
			w.ok(w.flows().Sweep(w.ctx, sweepTime))
			w.ok(w.flows().Sweep(w.ctx, sweepTime))
			that(w.flows().Get(w.ctx, flows[0].State)).missing(w)
			that(w.flows().Get(w.ctx, flows[1].State)).is(w, flows[1])
			that(w.flows().Get(w.ctx, flows[2].State)).is(w, flows[2])
			that(w.connectors().Get(w.ctx, i.Org, i.ID)).is(w, i)
		},
		"a transaction sees its own writes, and nobody what it undoes": func(w *world) {
			i := w.connector(w.org().ID)
			f, old, added := w.flow(i), someFlow(i), someFlow(i)
			old.ExpiresAt = longAgo(100) // no other sweep reaches it
			w.ok(w.flows().Add(w.ctx, old))
			w.undone(func(r ports.Records) error {
				c := r.Connections().Flows()
				if err := errors.Join(c.Add(w.ctx, added), c.Sweep(w.ctx, sweepTime.Add(time.Millisecond))); err != nil {
					return err
				}
				that(c.Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Done(), nil })).is(w, f.Done())
				that(c.Get(w.ctx, f.State)).is(w, f.Done())
				that(c.Get(w.ctx, added.State)).is(w, added)
				that(c.Get(w.ctx, old.State)).missing(w)
				return nil
			})
			that(w.flows().Get(w.ctx, f.State)).is(w, f)
			that(w.flows().Get(w.ctx, old.State)).is(w, old)
			that(w.flows().Get(w.ctx, added.State)).missing(w)
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			f := someFlow(w.connector(w.org().ID))
			want := f
			want.Server.AuthMethods, want.Server.Scopes, want.Verifier = slices.Clone(f.Server.AuthMethods), slices.Clone(f.Server.Scopes), slices.Clone(f.Verifier)
			spoil := func(f connector.Flow) {
				f.Server.AuthMethods[0], f.Server.Scopes[0], f.Verifier[0] = "spoilt", "spoilt", 'X'
			}
			w.ok(w.flows().Add(w.ctx, f))
			spoil(f)
			that(w.flows().Get(w.ctx, f.State)).is(w, want)
			spoil(that(w.flows().Get(w.ctx, f.State)).must(w))
			var seen connector.Flow
			spoil(that(w.flows().Update(w.ctx, f.State, func(f connector.Flow) (connector.Flow, error) {
				seen = f
				return f, nil
			})).must(w))
			spoil(seen)
			that(w.flows().Get(w.ctx, f.State)).is(w, want)
		},
	}.run(t, open)
}

// someRegistered returns a client of an issuer of its own, with every field set.
func someRegistered() connector.Registered {
	return connector.Registered{
		Issuer: "https://" + nextID() + ".example.com/a?b='c'", Redirect: "https://collab.example.com/callback", ID: "client \"ü\"",
		Secret: []byte("\x01secret\x00\xff"), Method: "client_secret_basic", ExpiresAt: new(at(1000)), UsedAt: at(500),
	}
}

// Clients is the suite of ports.Clients.
func Clients(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a client comes back with every field as it went in": func(w *world) {
			full := someRegistered()
			for _, c := range []connector.Registered{full, {Issuer: someRegistered().Issuer, Redirect: full.Redirect, ID: "public", Method: "none", UsedAt: at(0)}} {
				that(w.clients().Put(w.ctx, c, at(0))).is(w, c)
				that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			}
		},
		"a client is known to one issuer for one address, compared exactly": func(w *world) {
			a := someRegistered()
			b, c := a, a
			b.Redirect, b.ID = "https://other.example.com/callback", "b"
			c.Issuer, c.ID = a.Issuer+"/", "c"
			for _, v := range []connector.Registered{a, b, c} {
				that(w.clients().Put(w.ctx, v, at(0))).is(w, v)
			}
			for _, v := range []connector.Registered{a, b, c} {
				that(w.clients().Get(w.ctx, v.Issuer, v.Redirect)).is(w, v)
			}
			for _, unknown := range [][2]string{{c.Issuer, b.Redirect}, {someRegistered().Issuer, a.Redirect}, {"", ""}, {a.Redirect, a.Issuer}, {a.Issuer, a.Redirect + " "}} {
				that(w.clients().Get(w.ctx, unknown[0], unknown[1])).missing(w)
			}
		},
		"the first client stays until it expires too soon": func(w *world) {
			first, second, third := someRegistered(), connector.Registered{}, connector.Registered{}
			second = connector.Registered{Issuer: first.Issuer, Redirect: first.Redirect, ID: "second", Method: "none", UsedAt: at(2000)}
			third = second
			third.ID = "third"
			that(w.clients().Put(w.ctx, first, at(0))).is(w, first)
			that(w.clients().Put(w.ctx, second, at(0))).is(w, first)
			that(w.clients().Put(w.ctx, second, at(1000))).is(w, first)
			that(w.clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, first)
			that(w.clients().Put(w.ctx, second, at(1001))).is(w, second)
			that(w.clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, second)
			// One that never expires stays.
			that(w.clients().Put(w.ctx, third, at(1<<40))).is(w, second)
			that(w.clients().Get(w.ctx, first.Issuer, first.Redirect)).is(w, second)
		},
		"of many who register at once all go on with one": func(w *world) {
			first := someRegistered()
			for _, expires := range []time.Time{at(0), at(2000)} { // the first of all, and one in the place of one that expired
				got := make([]connector.Registered, manyGoroutines)
				w.allOK(together(manyGoroutines, func(n int) (err error) {
					c := first
					c.ID, c.ExpiresAt = fmt.Sprint(expires, n), new(expires.Add(time.Hour))
					if expires.Equal(at(0)) {
						c.ExpiresAt = new(at(1000))
					}
					got[n], err = w.clients().Put(w.ctx, c, expires)
					return err
				}))
				there := that(w.clients().Get(w.ctx, first.Issuer, first.Redirect)).must(w)
				for _, c := range got {
					same(w, c, there)
				}
			}
		},
		"used is the client with the id, and no other": func(w *world) {
			c, beside := someRegistered(), someRegistered()
			that(w.clients().Put(w.ctx, c, at(0))).must(w)
			that(w.clients().Put(w.ctx, beside, at(0))).must(w)
			for _, no := range []connector.Registered{
				{Issuer: c.Issuer, Redirect: c.Redirect, ID: "another"}, {Issuer: c.Issuer, Redirect: "another", ID: c.ID}, {Issuer: "another", Redirect: c.Redirect, ID: c.ID},
			} {
				no.UsedAt = at(600)
				w.missing(w.clients().Use(w.ctx, no))
			}
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			// Nothing else of it is changed.
			w.ok(w.clients().Use(w.ctx, connector.Registered{Issuer: c.Issuer, Redirect: c.Redirect, ID: c.ID, UsedAt: at(700)}))
			c.UsedAt = at(700)
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			that(w.clients().Get(w.ctx, beside.Issuer, beside.Redirect)).is(w, beside)
		},
		"swept are those not used since, for longest first, and so many at most": func(w *world) {
			var all []connector.Registered
			for _, ms := range []int{40, 10, 30, 20, 50} {
				c := someRegistered()
				c.UsedAt = longAgo(ms)
				all = append(all, that(w.clients().Put(w.ctx, c, at(0))).must(w))
			}
			left := func(want ...int) {
				w.Helper()
				for n, c := range all {
					got := that(w.clients().Get(w.ctx, c.Issuer, c.Redirect))
					if slices.Contains(want, n) {
						got.is(w, c)
					} else {
						got.missing(w)
					}
				}
			}
			that(w.clients().Sweep(w.ctx, longAgo(10), 9)).is(w, 0)
			that(w.clients().Sweep(w.ctx, longAgo(100), 0)).is(w, 0)
			left(0, 1, 2, 3, 4)
			w.undone(func(r ports.Records) error {
				that(r.Connections().Clients().Sweep(w.ctx, longAgo(100), 9)).is(w, 5)
				return nil
			})
			left(0, 1, 2, 3, 4)
			that(w.clients().Sweep(w.ctx, longAgo(50), 2)).is(w, 2)
			left(0, 2, 4)
			all[2].UsedAt = longAgo(60)
			w.ok(w.clients().Use(w.ctx, all[2]))
			that(w.clients().Sweep(w.ctx, longAgo(50), 9)).is(w, 1)
			left(2, 4)

			for n := range 100 {
				c := someRegistered()
				c.UsedAt = longAgo(n % 3)
				that(w.clients().Put(w.ctx, c, at(0))).must(w)
			}
			swept := make([]int, manyGoroutines)
			w.allOK(together(manyGoroutines, func(n int) (err error) {
				swept[n], err = w.clients().Sweep(w.ctx, longAgo(50), 100)
				return err
			}))
			total := that(w.clients().Sweep(w.ctx, longAgo(50), 100)).must(w) // what all left to each other
			for _, n := range swept {
				total += n
			}
			same(w, total, 100)
			left(2, 4)
			that(w.clients().Sweep(w.ctx, longAgo(100), 100)).is(w, 2)
		},
		"removed is the client with the id, and no other": func(w *world) {
			c, beside := someRegistered(), someRegistered()
			that(w.clients().Put(w.ctx, c, at(0))).must(w)
			that(w.clients().Put(w.ctx, beside, at(0))).must(w)
			w.ok(w.clients().Remove(w.ctx, c.Issuer, c.Redirect, "another"))
			w.ok(w.clients().Remove(w.ctx, c.Issuer, "another", c.ID))
			w.ok(w.clients().Remove(w.ctx, "another", c.Redirect, c.ID))
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			w.ok(w.clients().Remove(w.ctx, c.Issuer, c.Redirect, c.ID))
			w.ok(w.clients().Remove(w.ctx, c.Issuer, c.Redirect, c.ID))
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).missing(w)
			that(w.clients().Get(w.ctx, beside.Issuer, beside.Redirect)).is(w, beside)
		},
		"a transaction sees its own writes, and nobody what it undoes": func(w *world) {
			c, gone, added := someRegistered(), someRegistered(), someRegistered()
			for _, v := range []connector.Registered{c, gone} {
				that(w.clients().Put(w.ctx, v, at(0))).must(w)
			}
			next := c
			next.ID = "next"
			w.undone(func(r ports.Records) error {
				q := r.Connections().Clients()
				that(q.Put(w.ctx, added, at(0))).is(w, added)
				that(q.Put(w.ctx, next, at(2000))).is(w, next)
				next.UsedAt = at(3000)
				w.ok(q.Use(w.ctx, next))
				w.ok(q.Remove(w.ctx, gone.Issuer, gone.Redirect, gone.ID))
				that(q.Get(w.ctx, c.Issuer, c.Redirect)).is(w, next)
				that(q.Get(w.ctx, gone.Issuer, gone.Redirect)).missing(w)
				return nil
			})
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, c)
			that(w.clients().Get(w.ctx, gone.Issuer, gone.Redirect)).is(w, gone)
			that(w.clients().Get(w.ctx, added.Issuer, added.Redirect)).missing(w)
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			c := someRegistered()
			want := c
			want.Secret, want.ExpiresAt = slices.Clone(c.Secret), new(*c.ExpiresAt)
			spoil := func(c connector.Registered) { c.Secret[0], *c.ExpiresAt = 'X', at(1<<30) }
			spoil(that(w.clients().Put(w.ctx, c, at(0))).must(w))
			spoil(c)
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, want)
			spoil(that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).must(w))
			spoil(that(w.clients().Put(w.ctx, c, at(0))).must(w))
			that(w.clients().Get(w.ctx, c.Issuer, c.Redirect)).is(w, want)
		},
	}.run(t, open)
}

// someRevocation returns a revocation that is not stored yet, with every field
// set.
func someRevocation(o id.Org, due time.Time) connector.Revocation {
	return connector.Revocation{ID: fresh[id.Connector](), Org: o, Renewal: []byte("\x01renewal\x00\xff"), Attempts: 3, DueAt: due}
}

// Revocations is the suite of ports.Revocations.
func Revocations(t *testing.T, open func(t *testing.T) Opened) {
	now, until := longAgo(100), longAgo(200)
	// add has revocations stored that are due so many milliseconds after the
	// beginning of the time for claims, and returns them as claimed.
	add := func(w *world, o id.Org, ms ...int) (all []connector.Revocation) {
		w.Helper()
		for _, ms := range ms {
			r := someRevocation(o, longAgo(ms))
			w.ok(w.revocations().Add(w.ctx, r))
			r.DueAt = until
			all = append(all, r)
		}
		return all
	}
	suite{
		"due are those of all organisations whose time has come, for longest first, and once": func(w *world) {
			w.claims()
			a, b := w.org().ID, w.org().ID
			first := add(w, a, 100, 98)
			second := add(w, b, 99, 101)
			that(w.revocations().Due(w.ctx, longAgo(97), until, 10)).is(w, nil)
			that(w.revocations().Due(w.ctx, now, until, 0)).is(w, nil)
			that(w.revocations().Due(w.ctx, now, until, 10, first[0].Org, second[0].Org)).is(w, nil)
			that(w.revocations().Due(w.ctx, now, until, 2)).is(w, []connector.Revocation{first[1], second[0]})
			that(w.revocations().Due(w.ctx, now, until, 2)).is(w, []connector.Revocation{first[0]})
			that(w.revocations().Due(w.ctx, now, until, 2)).is(w, nil)
			same(w, len(that(w.revocations().Due(w.ctx, until.Add(-1), longAgo(300), 10)).must(w)), 1)
			same(w, len(that(w.revocations().Due(w.ctx, until, longAgo(300), 10)).must(w)), 3)
		},
		"a revocation needs no instance, but its organisation": func(w *world) {
			w.claims()
			r := someRevocation(fresh[id.Org](), now)
			if err := w.revocations().Add(w.ctx, r); err == nil {
				w.Fatal("no error")
			}
			that(w.revocations().Due(w.ctx, now, until, 10)).is(w, nil)
		},
		"a taken id is a conflict, after which the transaction goes on": func(w *world) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			there := add(w, o, 1)[0]
			again, theirs, next := there, there, someRevocation(o, longAgo(3))
			again.Attempts, theirs.Org, theirs.DueAt = 9, other, longAgo(2)
			w.conflict(w.revocations().Add(w.ctx, again))
			w.atomic(func(r ports.Records) error {
				q := r.Connections().Revocations()
				w.conflict(q.Add(w.ctx, again))
				return errors.Join(q.Add(w.ctx, theirs), q.Add(w.ctx, next))
			})
			theirs.DueAt, next.DueAt = until, until
			that(w.revocations().Due(w.ctx, now, until, 10)).is(w, []connector.Revocation{there, theirs, next})
		},
		"put replaces one that is there": func(w *world) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			r, beside := add(w, o, 1)[0], add(w, o, 2)[0]
			next := connector.Revocation{ID: r.ID, Org: o, Renewal: []byte{0}, Attempts: 1 << 20, DueAt: longAgo(3)}
			strange, unknown := next, next
			strange.Org, unknown.ID = other, fresh[id.Connector]()
			w.missing(w.revocations().Put(w.ctx, strange))
			w.missing(w.revocations().Put(w.ctx, unknown))
			w.ok(w.revocations().Put(w.ctx, next))
			next.DueAt = until
			that(w.revocations().Due(w.ctx, now, until, 10)).is(w, []connector.Revocation{beside, next})
		},
		"remove deletes the organisation's own, which may be gone": func(w *world) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			r, beside := add(w, o, 1)[0], add(w, o, 2)[0]
			w.ok(w.revocations().Remove(w.ctx, other, r.ID))
			w.ok(w.revocations().Remove(w.ctx, o, fresh[id.Connector]()))
			that(w.revocations().Due(w.ctx, now, until, 10)).is(w, []connector.Revocation{r, beside})
			w.ok(w.revocations().Remove(w.ctx, o, r.ID))
			w.ok(w.revocations().Remove(w.ctx, o, r.ID))
			that(w.revocations().Due(w.ctx, until, until, 10)).is(w, []connector.Revocation{beside})
		},
		"of many who claim at once one gets each": func(w *world) {
			w.claims()
			orgs := []id.Org{w.org().ID, w.org().ID}
			var want []id.Connector
			for n := range 100 {
				want = append(want, add(w, orgs[n%len(orgs)], n)[0].ID)
			}
			claimedOnce(w, want, func(most int) ([]connector.Revocation, error) { return w.revocations().Due(w.ctx, now, until, most) },
				func(r connector.Revocation) id.Connector { return r.ID })
		},
		"a transaction sees its own writes, and nobody what it undoes": func(w *world) {
			w.claims()
			o := w.org().ID
			r, gone, added := add(w, o, 1)[0], add(w, o, 2)[0], someRevocation(o, longAgo(3))
			w.undone(func(rs ports.Records) error {
				q := rs.Connections().Revocations()
				next := r
				next.Attempts, next.DueAt = 9, longAgo(4)
				if err := errors.Join(q.Add(w.ctx, added), q.Put(w.ctx, next), q.Remove(w.ctx, o, gone.ID)); err != nil {
					return err
				}
				next.DueAt = until
				new := added
				new.DueAt = until
				that(q.Due(w.ctx, now, until, 10)).is(w, []connector.Revocation{new, next})
				return nil
			})
			that(w.revocations().Due(w.ctx, now, until, 10)).is(w, []connector.Revocation{r, gone})
		},
		"what is passed in and handed out is the caller's": func(w *world) {
			w.claims()
			o := w.org().ID
			r := someRevocation(o, longAgo(0))
			want := slices.Clone(r.Renewal)
			w.ok(w.revocations().Add(w.ctx, r))
			r.Renewal[0] = 'X'
			for n := range 3 {
				due := that(w.revocations().Due(w.ctx, longAgo(n), longAgo(n+1), 10)).must(w)
				same(w, due[0].Renewal, want)
				due[0].Renewal[0] = 'X'
			}
			r.Renewal, r.DueAt = slices.Clone(want), longAgo(0)
			w.ok(w.revocations().Put(w.ctx, r))
			r.Renewal[0] = 'X'
			same(w, that(w.revocations().Due(w.ctx, longAgo(0), longAgo(1), 10)).must(w)[0].Renewal, want)
		},
	}.run(t, open)
}
