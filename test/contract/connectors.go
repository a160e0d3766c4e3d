package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
	"collab/test/must"
)

// Claims select from the whole store. Sub-tests that claim run alone, with
// their records due before claimTime, and all other records are due after it.
var (
	claimMutex sync.Mutex
	claimTime  = longAgo(86_400_000)
)

// claims makes the sub-test the only one that claims, with nothing due.
func (w *fixture) claims() {
	w.Helper()
	claimMutex.Lock()
	w.Cleanup(claimMutex.Unlock)
	must.Do(w.claimConnectors(100_000, claimTime)).Or(w)
	must.Do(w.claimRevocations(100_000, claimTime, claimTime.Add(time.Hour))).Or(w)
	for {
		_, err := w.Exports().Claim(w.ctx, claimTime, func(e export.Export) (export.Export, error) {
			e.DueAt = nil
			return e, nil
		})
		if fault.Is(err, fault.NotFound) {
			return
		}
		w.ok(err)
	}
}

// claimConnectors claims at most limit due instances, one by one.
func (w *fixture) claimConnectors(limit int, now time.Time, without ...id.Org) ([]connector.Instance, error) {
	return claimUpTo(limit, func() (connector.Instance, error) { return w.Connectors().Claim(w.ctx, now, without...) })
}

// claimRevocations claims at most limit due revocations, one by one.
func (w *fixture) claimRevocations(limit int, now, until time.Time, without ...id.Org) ([]connector.Revocation, error) {
	return claimUpTo(limit, func() (connector.Revocation, error) {
		return w.Revocations().Claim(w.ctx, now, until, without...)
	})
}

func claimUpTo[T any](limit int, claim func() (T, error)) (all []T, err error) {
	for len(all) < limit {
		v, err := claim()
		if fault.Is(err, fault.NotFound) {
			break
		}
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// someConnector returns an instance that is not stored yet, with every field
// set.
func someConnector(o id.Org) connector.Instance {
	return must.Full(connector.Instance{
		ID: fresh[id.Connector](), Org: o, Provider: "tracker", Label: "Träcker \"1\"", Name: new("Träcker \"1\""), Config: "{ \"b\": 1.0,\n\t\"a\": \"\\u0041\" }",
		URL: "https://mcp.example.com/a?b=%20", Hosting: connector.Cloud, Transport: connector.HTTP, CreatedBy: fresh[id.User](), CreatedAt: at(90),
		LastUsedAt: new(at(91)), LastError: "The server cannot be reached 🦉", Failures: 3, Version: 1 << 40,
		Tools:     []connector.Tool{{Name: "search", Description: "Finds <b>'x'</b> & \"y\"\n\\"}, {Name: "a_b"}},
		ExpiresAt: new(at(92)), RenewAt: new(at(93)), DueAt: new(at(94)),
	}.Restore(connector.Failing))
}

// bareConnector returns one with only the required fields set.
func bareConnector(o id.Org) connector.Instance {
	return connector.Instance{ID: fresh[id.Connector](), Org: o, Config: "{}", CreatedBy: fresh[id.User](), CreatedAt: at(90)}.Restore(connector.Disconnected)
}

// connector adds an instance.
func (w *fixture) connector(o id.Org) connector.Instance {
	w.Helper()
	i := someConnector(o)
	w.ok(w.Connectors().Add(w.ctx, o, i))
	return i
}

// dueConnector adds an instance that is due so many milliseconds after the
// beginning of the time for claims.
func (w *fixture) dueConnector(o id.Org, ms int) connector.Instance {
	w.Helper()
	i := someConnector(o)
	i.DueAt = new(longAgo(ms))
	w.ok(w.Connectors().Add(w.ctx, o, i))
	return i
}

// failing counts a failure more.
func failing(i connector.Instance) (connector.Instance, error) {
	i.Failures++
	return i, nil
}

// claimed is an instance as it was claimed at now.
func claimed(i connector.Instance, now time.Time) connector.Instance {
	i.DueAt = new(now.Add(connector.ClaimDuration))
	return i
}

// Connectors is the suite of ports.Connectors.
func Connectors(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an instance is returned with every field as stored": func(w *fixture) {
			o := w.org().ID
			full, bare := someConnector(o), bareConnector(o)
			for _, i := range []connector.Instance{full, bare} {
				w.ok(w.Connectors().Add(w.ctx, o, i))
				resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
			}
			stored := []connector.Instance{full, bare}
			resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, stored)
			// Each becomes what the other was.
			for n, next := range []connector.Instance{bare, full} {
				next.ID = stored[n].ID
				resultOf(w.Connectors().Update(w.ctx, o, next.ID, func(connector.Instance) (connector.Instance, error) { return next, nil })).is(w, next)
				stored[n] = next
				resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, stored)
			}
		},
		"each single field is returned as stored": func(w *fixture) {
			o := w.org().ID
			all := eachField(bareConnector(o), someConnector(o))
			for _, s := range connector.Statuses() {
				i := bareConnector(o).Restore(s)
				i.Hosting, i.Transport, i.Config = connector.Local, connector.Stdio, "{ }"
				all = append(all, i)
			}
			for _, i := range all {
				i.ID = fresh[id.Connector]()
				w.ok(w.Connectors().Add(w.ctx, o, i))
				resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
			}
		},
		"the maximum of tools is stored in their order": func(w *fixture) {
			o := w.org().ID
			i := someConnector(o)
			i.Tools = nil
			for n := range connector.MaxTools {
				i.Tools = append(i.Tools, connector.Tool{Name: fmt.Sprintf("tool-%d", n*7919%connector.MaxTools), Description: string(bytes.Repeat([]byte("ä"), connector.MaxToolText))})
			}
			w.ok(w.Connectors().Add(w.ctx, o, i))
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
		},
		"an unknown instance is not found, nor is another organisation's": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			i := w.connector(o)
			for _, unknown := range []id.Connector{i.ID, fresh[id.Connector](), "", "no id"} {
				resultOf(w.Connectors().Get(w.ctx, other, unknown)).wantNotFound(w)
				resultOf(w.Connectors().Update(w.ctx, other, unknown, failing)).wantNotFound(w)
				w.wantNotFound(w.Connectors().Remove(w.ctx, other, unknown))
			}
			resultOf(w.instances(other, id.Position[id.Connector]{}, 0)).is(w, nil)

			// The same id is another instance there.
			theirs := bareConnector(other)
			theirs.ID = i.ID
			w.ok(w.Connectors().Add(w.ctx, other, theirs))
			must.Do(w.Connectors().Update(w.ctx, other, i.ID, failing)).Or(w)
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
			w.ok(w.Connectors().Remove(w.ctx, other, i.ID))
			resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, []connector.Instance{i})
		},
		"a taken id is a conflict, after which the transaction continues": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o)
			again, next := bareConnector(o), bareConnector(o)
			again.ID = i.ID
			w.wantConflict(w.Connectors().Add(w.ctx, o, again))
			w.atomic(func(r ports.Records) error {
				w.wantConflict(r.Connections().Connectors().Add(w.ctx, o, again))
				return r.Connections().Connectors().Add(w.ctx, o, next)
			})
			resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, []connector.Instance{i, next})
		},
		"an unknown organisation gets no instance": func(w *fixture) {
			unknown := fresh[id.Org]()
			if err := w.Connectors().Add(w.ctx, unknown, someConnector(unknown)); err == nil {
				w.Fatal("no error")
			}
			resultOf(w.instances(unknown, id.Position[id.Connector]{}, 0)).is(w, nil)
		},
		"the list is ordered by creation, then id": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			ids := several[id.Connector](5)
			want := make([]connector.Instance, len(ids))
			for n, ms := range []int{3, 1, 2, 1, 3} {
				i := someConnector(o)
				i.ID, i.CreatedAt = ids[n], at(ms)
				w.ok(w.Connectors().Add(w.ctx, o, i))
				want[[]int{3, 0, 2, 1, 4}[n]] = i
			}
			w.connector(other)
			pages(w, want, func(i connector.Instance) id.Position[id.Connector] {
				return id.Position[id.Connector]{At: i.CreatedAt, ID: i.ID}
			},
				func(after id.Position[id.Connector], limit int) ([]connector.Instance, error) {
					return w.instances(o, after, limit)
				})
			resultOf(w.instances(o, id.Position[id.Connector]{At: at(2), ID: "00000000-0000-0000-0000-000000000000"}, 2)).is(w, want[2:4])
			wantStop(w, func(each func(connector.Instance) error) error {
				return w.Connectors().List(w.ctx, o, id.Position[id.Connector]{}, 0, each)
			})
		},
		"after an error of fn a transaction continues, and has stored nothing of the update": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o)
			failure := errors.New("failure")
			w.atomic(func(r ports.Records) error {
				_, err := r.Connections().Connectors().Update(w.ctx, o, i.ID, func(i connector.Instance) (connector.Instance, error) {
					i.Failures = 999
					return i, failure
				})
				w.wantSameError(err, failure)
				return nil
			})
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
		},
		"an instance stays locked until the transaction's end, so that its credentials change with it": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o)
			w.allOK(concurrently(manyGoroutines, func(int) error {
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					c := r.Connections()
					next, err := c.Connectors().Update(w.ctx, o, i.ID, func(i connector.Instance) (connector.Instance, error) {
						i.Version++
						return i, nil
					})
					if err != nil {
						return err
					}
					s := connector.Sealed{Instance: i.ID, Version: next.Version, Entries: []byte(fmt.Sprint(next.Version))}
					if err := c.Credentials().Put(w.ctx, o, s); err != nil {
						return err
					}
					there, err := c.Connectors().Get(w.ctx, o, i.ID)
					if err == nil && there.Version != next.Version {
						err = fmt.Errorf("version %d became %d under the lock", next.Version, there.Version)
					}
					return err
				})
			}))
			want := i.Version + manyGoroutines
			wantEqual(w, must.Do(w.Connectors().Get(w.ctx, o, i.ID)).Or(w).Version, want)
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).is(w, connector.Sealed{Instance: i.ID, Version: want, Entries: []byte(fmt.Sprint(want))})
		},
		"removing an instance removes its credentials and flows, and nothing else": func(w *fixture) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			i, beside := w.connector(o), w.connector(o)
			theirs := bareConnector(other)
			theirs.ID = i.ID
			w.ok(w.Connectors().Add(w.ctx, other, theirs))
			kept := []connector.Flow{w.flow(beside), w.flow(theirs)}
			gone := []connector.Flow{w.flow(i), w.flow(i)}
			for _, of := range []connector.Instance{i, beside, theirs} {
				w.ok(w.Credentials().Put(w.ctx, of.Org, someSealed(of.ID)))
			}
			r := someRevocation(o, longAgo(0))
			r.ID = i.ID
			w.ok(w.Revocations().Add(w.ctx, r))

			w.ok(w.Connectors().Remove(w.ctx, o, i.ID))

			resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, []connector.Instance{beside})
			resultOf(w.Connectors().Get(w.ctx, other, i.ID)).is(w, theirs)
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).wantNotFound(w)
			resultOf(w.Credentials().Get(w.ctx, o, beside.ID)).is(w, someSealed(beside.ID))
			resultOf(w.Credentials().Get(w.ctx, other, i.ID)).is(w, someSealed(i.ID))
			for _, f := range gone {
				resultOf(w.Flows().Get(w.ctx, f.State)).wantNotFound(w)
			}
			for _, f := range kept {
				resultOf(w.Flows().Get(w.ctx, f.State)).is(w, f)
			}
			wantEqual(w, len(must.Do(w.claimRevocations(10, longAgo(0), longAgo(1))).Or(w)), 1)
			w.wantNotFound(w.Connectors().Remove(w.ctx, o, i.ID))

			// One that is made anew under the id has none of it.
			w.ok(w.Connectors().Add(w.ctx, o, i))
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).wantNotFound(w)
		},
		"of concurrent removals of an instance one succeeds": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o)
			w.flow(i)
			w.wantOneSuccess(concurrently(concurrent, func(int) error { return w.Connectors().Remove(w.ctx, o, i.ID) }), fault.NotFound)
		},
		"flows may change while their instance is removed": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o)
			f := w.flow(i)
			for n, err := range concurrently(concurrent, func(n int) error {
				if n == concurrent/2 {
					return w.Connectors().Remove(w.ctx, o, i.ID)
				}
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if _, err := r.Connections().Flows().Update(w.ctx, f.State, keep); err != nil {
						return err
					}
					return must.ErrorOf(r.Connections().Connectors().Update(w.ctx, o, i.ID, failing))
				})
			}) {
				if err != nil && (n == concurrent/2 || !fault.Is(err, fault.NotFound)) {
					w.Errorf("number %d: %v", n, err)
				}
			}
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, f.State)).wantNotFound(w)
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			w.claims()
			o := w.org().ID
			i, gone, due := w.connector(o), w.connector(o), w.dueConnector(o, 0)
			w.ok(w.Credentials().Put(w.ctx, o, someSealed(gone.ID)))
			f, added, next := w.flow(gone), bareConnector(o), i
			next.Failures++
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.Connectors().Add(w.ctx, o, added), in.Connectors().Remove(w.ctx, o, gone.ID), must.ErrorOf(in.Connectors().Update(w.ctx, o, i.ID, failing))))
				resultOf(in.claimConnectors(10, longAgo(0))).is(in, []connector.Instance{claimed(due, longAgo(0))})
			}, func(in *fixture) []any {
				all := must.Do(in.instances(o, id.Position[id.Connector]{}, 0)).Or(in)
				return []any{all, orZero(in, resultOf(in.Credentials().Get(w.ctx, o, gone.ID))), orZero(in, resultOf(in.Flows().Get(w.ctx, f.State)))}
			}, []any{[]connector.Instance{next, claimed(due, longAgo(0)), added}, connector.Sealed{}, connector.Flow{}})
			resultOf(w.claimConnectors(10, longAgo(0))).is(w, []connector.Instance{claimed(due, longAgo(0))})
		},
		"claims take the due ones of all organisations, those due for longest first": func(w *fixture) {
			w.claims()
			a, b := w.org().ID, w.org().ID
			third, first, second := w.dueConnector(a, 20), w.dueConnector(b, 5), w.dueConnector(a, 10)
			w.dueConnector(a, 21)
			w.ok(w.Connectors().Add(w.ctx, a, bareConnector(a))) // never
			now := longAgo(20)
			resultOf(w.claimConnectors(10, longAgo(4))).is(w, nil)
			resultOf(w.claimConnectors(10, now, a, b)).is(w, nil)
			resultOf(w.claimConnectors(10, longAgo(10), a)).is(w, []connector.Instance{claimed(first, longAgo(10))})
			must.Do(w.Connectors().Update(w.ctx, b, first.ID, func(connector.Instance) (connector.Instance, error) { return first, nil })).Or(w)
			resultOf(w.claimConnectors(2, now)).is(w, []connector.Instance{claimed(first, now), claimed(second, now)})
			resultOf(w.Connectors().Get(w.ctx, b, first.ID)).is(w, claimed(first, now))
			resultOf(w.Connectors().Get(w.ctx, a, third.ID)).is(w, third)
			resultOf(w.claimConnectors(2, now)).is(w, []connector.Instance{claimed(third, now)})
			resultOf(w.claimConnectors(2, now)).is(w, nil)
		},
		"a claimed instance is due again when its claim ends, unless it was rescheduled": func(w *fixture) {
			w.claims()
			o := w.org().ID
			dropped, done, put := w.dueConnector(o, 0), w.dueConnector(o, 1), w.dueConnector(o, 2)
			now := longAgo(2)
			wantEqual(w, len(must.Do(w.claimConnectors(10, now)).Or(w)), 3)
			for i, due := range map[id.Connector]*time.Time{done.ID: nil, put.ID: new(now.Add(2 * connector.ClaimDuration))} {
				must.Do(w.Connectors().Update(w.ctx, o, i, func(i connector.Instance) (connector.Instance, error) {
					i.DueAt = due
					return i, nil
				})).Or(w)
			}
			over := now.Add(connector.ClaimDuration)
			resultOf(w.claimConnectors(10, over.Add(-time.Millisecond))).is(w, nil)
			resultOf(w.claimConnectors(10, over)).is(w, []connector.Instance{claimed(dropped, over)})
		},
		"concurrent claims return each one once": func(w *fixture) {
			w.claims()
			orgs := []id.Org{w.org().ID, w.org().ID, w.org().ID}
			var want []id.Connector
			for n := range 100 {
				want = append(want, w.dueConnector(orgs[n%len(orgs)], n).ID)
			}
			claimedOnce(w, want, func() (connector.Instance, error) { return w.Connectors().Claim(w.ctx, longAgo(100)) },
				func(i connector.Instance) id.Connector { return i.ID })
		},
		"concurrent claims and updates lose nothing": func(w *fixture) {
			w.claims()
			o := w.org().ID
			i := w.dueConnector(o, 0)
			var claims atomic.Int64
			w.allOK(concurrently(manyGoroutines, func(n int) error {
				if n%2 == 0 {
					return must.ErrorOf(w.Connectors().Update(w.ctx, o, i.ID, failing))
				}
				due, err := w.claimConnectors(5, longAgo(0))
				claims.Add(int64(len(due)))
				return err
			}))
			// Callers that found it locked have skipped it.
			wantEqual(w, int(claims.Load())+len(must.Do(w.claimConnectors(5, longAgo(0))).Or(w)), 1)
			i.Failures += manyGoroutines / 2
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, claimed(i, longAgo(0)))
		},
		"a claim skips an instance that a transaction has locked": func(w *fixture) {
			if !w.apart {
				w.Skip("the store runs one transaction after another")
			}
			w.claims()
			o := w.org().ID
			held, free := w.dueConnector(o, 0), w.dueConnector(o, 1)
			w.atomic(func(r ports.Records) error {
				if _, err := r.Connections().Connectors().Update(w.ctx, o, held.ID, failing); err != nil {
					return err
				}
				ctx, stop := context.WithTimeout(w.ctx, waitTimeout)
				defer stop()
				resultOf(w.Connectors().Claim(ctx, longAgo(1))).is(w, claimed(free, longAgo(1)))
				resultOf(w.Connectors().Claim(ctx, longAgo(1))).wantNotFound(w)
				return nil
			})
			held.Failures++
			resultOf(w.claimConnectors(10, longAgo(1))).is(w, []connector.Instance{claimed(held, longAgo(1))})
		},
		"an erased organisation has no instances, and its revocations stay": func(w *fixture) {
			w.claims()
			o, other := w.org().ID, w.org().ID
			gone, stays := w.dueConnector(o, 0), w.dueConnector(other, 1)
			w.ok(w.Credentials().Put(w.ctx, o, someSealed(gone.ID)))
			f, theirs := w.flow(gone), w.flow(stays)
			r := someRevocation(o, longAgo(0))
			w.ok(w.Revocations().Add(w.ctx, r))

			w.erase(o, at(300))

			resultOf(w.instances(o, id.Position[id.Connector]{}, 0)).is(w, nil)
			resultOf(w.Credentials().Get(w.ctx, o, gone.ID)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, f.State)).wantNotFound(w)
			resultOf(w.Flows().Get(w.ctx, theirs.State)).is(w, theirs)
			resultOf(w.claimConnectors(10, longAgo(1))).is(w, []connector.Instance{claimed(stays, longAgo(1))})
			r.DueAt = longAgo(5)
			resultOf(w.claimRevocations(10, longAgo(0), longAgo(5))).is(w, []connector.Revocation{r})
		},
		"the erasure of an organisation and its revocations are committed together": func(w *fixture) {
			w.claims()
			o := w.org().ID
			i := w.dueConnector(o, 0)
			r := someRevocation(o, longAgo(0))
			r.ID = i.ID
			erase := func(end error) error {
				return w.store.Atomic(w.ctx, func(rs ports.Records) error {
					must.Do(rs.Directory().Organisations().Lock(w.ctx, o)).Or(w)
					resultOf(rs.Connections().Connectors().Update(w.ctx, o, i.ID, func(i connector.Instance) (connector.Instance, error) { return i, nil })).is(w, i)
					w.ok(rs.Connections().Revocations().Add(w.ctx, r))
					must.Do(rs.Directory().Organisations().Erase(w.ctx, o, at(300), 1000)).Or(w)
					return end
				})
			}
			failure := errors.New("failure")
			w.wantSameError(erase(failure), failure)
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).is(w, i)
			resultOf(w.claimRevocations(10, longAgo(0), longAgo(5))).is(w, nil)
			w.ok(erase(nil))
			resultOf(w.Connectors().Get(w.ctx, o, i.ID)).wantNotFound(w)
			r.DueAt = longAgo(5)
			resultOf(w.claimRevocations(10, longAgo(0), longAgo(5))).is(w, []connector.Revocation{r})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			w.claims()
			i := someConnector(w.org().ID)
			i.DueAt = new(longAgo(0))
			get := func() connector.Instance { return must.Do(w.Connectors().Get(w.ctx, i.Org, i.ID)).Or(w) }
			listed := func() connector.Instance {
				return must.Do(w.instances(i.Org, id.Position[id.Connector]{}, 0)).Or(w)[0]
			}
			update := func(fn func(connector.Instance) (connector.Instance, error)) (connector.Instance, error) {
				return w.Connectors().Update(w.ctx, i.Org, i.ID, fn)
			}
			add := func(i connector.Instance) error { return w.Connectors().Add(w.ctx, i.Org, i) }
			keepsNothing(w, i, add, append(updates(w, get, update), listed)...)
			spoil(must.Do(w.claimConnectors(10, longAgo(0))).Or(w)[0])
			wantEqual(w, get(), claimed(i, longAgo(0)))
		},
	}.run(t, open)
}

// someSealed returns credentials of an instance with every field set.
func someSealed(i id.Connector) connector.Sealed {
	return must.Full(connector.Sealed{Instance: i, Version: 7, Entries: []byte("\x01entries\x00\xff"), Renewal: []byte("\x01renewal\x00\xfe")})
}

// Credentials is the suite of ports.Credentials.
func Credentials(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"credentials are returned as stored, and replace the previous ones": func(w *fixture) {
			o := w.org().ID
			i := w.connector(o).ID
			resultOf(w.Credentials().Get(w.ctx, o, i)).wantNotFound(w)
			large := bytes.Repeat([]byte{0, 1, 0xff, '\'', '\\'}, connector.MaxCredentials/5)
			for _, s := range []connector.Sealed{
				someSealed(i), {Instance: i, Version: 1, Entries: []byte{0}}, {Instance: i, Version: 1 << 40, Entries: large, Renewal: large}, someSealed(i),
			} {
				w.ok(w.Credentials().Put(w.ctx, o, s))
				resultOf(w.Credentials().Get(w.ctx, o, i)).is(w, s)
			}
		},
		"each instance has its own, and those of another organisation are not found": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			i, beside := w.connector(o), w.connector(o)
			w.ok(w.Credentials().Put(w.ctx, o, someSealed(i.ID)))
			resultOf(w.Credentials().Get(w.ctx, o, beside.ID)).wantNotFound(w)
			resultOf(w.Credentials().Get(w.ctx, other, i.ID)).wantNotFound(w)
			resultOf(w.Credentials().Get(w.ctx, fresh[id.Org](), i.ID)).wantNotFound(w)
			changed := someSealed(i.ID)
			changed.Version++
			w.wantNotFound(w.Credentials().Put(w.ctx, other, changed))
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).is(w, someSealed(i.ID))

			theirs := bareConnector(other)
			theirs.ID = i.ID
			w.ok(w.Connectors().Add(w.ctx, other, theirs))
			resultOf(w.Credentials().Get(w.ctx, other, i.ID)).wantNotFound(w)
			w.ok(w.Credentials().Put(w.ctx, other, changed))
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).is(w, someSealed(i.ID))
		},
		"an unknown instance gets none, and the transaction continues": func(w *fixture) {
			o := w.org().ID
			i, unknown := w.connector(o), fresh[id.Connector]()
			w.wantNotFound(w.Credentials().Put(w.ctx, o, someSealed(unknown)))
			w.atomic(func(r ports.Records) error {
				w.wantNotFound(r.Connections().Credentials().Put(w.ctx, o, someSealed(unknown)))
				return r.Connections().Credentials().Put(w.ctx, o, someSealed(i.ID))
			})
			resultOf(w.Credentials().Get(w.ctx, o, i.ID)).is(w, someSealed(i.ID))
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			o := w.org().ID
			i, without := w.connector(o), w.connector(o)
			w.ok(w.Credentials().Put(w.ctx, o, someSealed(i.ID)))
			other := func(i id.Connector) connector.Sealed {
				return connector.Sealed{Instance: i, Version: 99, Entries: []byte("other")}
			}
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.Credentials().Put(w.ctx, o, other(i.ID)), in.Credentials().Put(w.ctx, o, other(without.ID))))
			}, func(in *fixture) [2]connector.Sealed {
				return [2]connector.Sealed{orZero(in, resultOf(in.Credentials().Get(w.ctx, o, i.ID))), orZero(in, resultOf(in.Credentials().Get(w.ctx, o, without.ID)))}
			}, [2]connector.Sealed{other(i.ID), other(without.ID)})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org().ID
			s := someSealed(w.connector(o).ID)
			keepsNothing(w, s, func(s connector.Sealed) error { return w.Credentials().Put(w.ctx, o, s) },
				func() connector.Sealed { return must.Do(w.Credentials().Get(w.ctx, o, s.Instance)).Or(w) })
		},
	}.run(t, open)
}

// claimedOnce has many claim at once until nothing is left, and expects that each of
// the wanted is claimed by one of them.
func claimedOnce[T any](w *fixture, want []id.Connector, claim func() (T, error), of func(T) id.Connector) {
	w.Helper()
	got := make([][]id.Connector, manyGoroutines)
	w.allOK(concurrently(manyGoroutines, func(n int) error {
		for {
			v, err := claim()
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			got[n] = append(got[n], of(v))
		}
	}))
	all := slices.Concat(got...)
	slices.Sort(all)
	slices.Sort(want)
	wantEqual(w, all, want)
}
