package contract

import (
	"errors"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/session"
	"collab/ports"
	"collab/test/must"
)

// someDevice returns a device grant that is not stored yet, with every field set.
func someDevice(o id.Org) session.DeviceGrant {
	return must.Full(session.DeviceGrant{
		Code: id.Digest(nextID()), UserCode: id.Digest(nextID()), Name: "Ada's \"büro\" 🦉",
		From: session.Client{Address: "2001:db8::1", UserAgent: "Agent/1.0 (ünïcödé)"}, User: fresh[id.User](), Org: o,
		Interval: 15 * time.Second, PolledAt: new(at(3)), CreatedAt: at(1), ExpiresAt: at(1000),
	}.Restore(session.DeviceApproved), "Org")
}

// device adds an undecided grant.
func (w *fixture) device() session.DeviceGrant {
	w.Helper()
	g := session.BeginDevice(nextID(), nextID(), "device", session.Client{Address: "192.0.2.1"}, at(1))
	w.ok(w.DeviceGrants().Add(w.ctx, g))
	return g
}

// DeviceGrants is the suite of ports.DeviceGrants.
func DeviceGrants(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a grant is returned with every field as stored": func(w *fixture) {
			full, bare := someDevice(w.org().ID), w.device()
			w.ok(w.DeviceGrants().Add(w.ctx, full))
			for _, g := range []session.DeviceGrant{full, bare} {
				resultOf(w.DeviceGrants().ByUserCode(w.ctx, g.UserCode)).is(w, g)
				resultOf(w.DeviceGrants().Update(w.ctx, g.Code, keep)).is(w, g)
			}
			for _, swap := range [][2]session.DeviceGrant{{full, bare}, {bare, full}} {
				next := swap[1]
				next.Code, next.UserCode = swap[0].Code, swap[0].UserCode
				resultOf(w.DeviceGrants().Update(w.ctx, next.Code, func(session.DeviceGrant) (session.DeviceGrant, error) { return next, nil })).is(w, next)
				resultOf(w.DeviceGrants().ByUserCode(w.ctx, next.UserCode)).is(w, next)
			}
		},
		"a grant is found by only its codes, compared exactly": func(w *fixture) {
			a, b := w.device(), w.device()
			resultOf(w.DeviceGrants().ByUserCode(w.ctx, a.UserCode)).is(w, a)
			resultOf(w.DeviceGrants().ByUserCode(w.ctx, b.UserCode)).is(w, b)
			for _, unknown := range []string{"", id.Digest(nextID()), a.Code, a.UserCode + " ", "%"} {
				resultOf(w.DeviceGrants().ByUserCode(w.ctx, unknown)).wantNotFound(w)
			}
			for _, unknown := range []string{"", id.Digest(nextID()), a.UserCode, a.Code + " ", "%"} {
				resultOf(w.DeviceGrants().Update(w.ctx, unknown, keep)).wantNotFound(w)
			}
		},
		"a taken code of either kind is a conflict, and the transaction continues": func(w *fixture) {
			g := w.device()
			sameDevice, sameUser, next := someDevice(w.org().ID), someDevice(""), someDevice("")
			sameDevice.Code, sameUser.UserCode = g.Code, g.UserCode
			w.wantConflict(w.DeviceGrants().Add(w.ctx, sameDevice))
			w.atomic(func(r ports.Records) error {
				w.wantConflict(r.Deployment().DeviceGrants().Add(w.ctx, sameUser))
				return r.Deployment().DeviceGrants().Add(w.ctx, next)
			})
			resultOf(w.DeviceGrants().ByUserCode(w.ctx, g.UserCode)).is(w, g)
			resultOf(w.DeviceGrants().ByUserCode(w.ctx, sameDevice.UserCode)).wantNotFound(w)
			resultOf(w.DeviceGrants().ByUserCode(w.ctx, next.UserCode)).is(w, next)
		},
		"of concurrent claims and decisions one succeeds": func(w *fixture) {
			g := w.device()
			w.wantOneSuccess(concurrently(manyGoroutines, func(int) error {
				decide := func(g session.DeviceGrant) (session.DeviceGrant, error) {
					return g.Decided(true, fresh[id.User](), "", at(2))
				}
				return must.ErrorOf(w.DeviceGrants().Update(w.ctx, g.Code, decide))
			}), fault.NotFound)
			w.wantOneSuccess(concurrently(manyGoroutines, func(int) (refused error) {
				err := w.store.Atomic(w.ctx, func(r ports.Records) error {
					return must.ErrorOf(r.Deployment().DeviceGrants().Update(w.ctx, g.Code, func(g session.DeviceGrant) (session.DeviceGrant, error) {
						if g, refused = g.Polled(at(3)); refused != nil {
							refused = fault.Wrap(fault.NotFound, refused, "refused")
						}
						return g, nil
					}))
				})
				return errors.Join(err, refused)
			}), fault.NotFound)
		},
		"prune removes those that expired before the time, and the grants of an organisation are erased with it": func(w *fixture) {
			gone := w.org().ID
			old, kept, open, erased, other := someDevice(w.org().ID), someDevice(""), w.device(), someDevice(gone), someDevice(w.org().ID)
			old.ExpiresAt, kept.ExpiresAt = longAgo(1), longAgo(2)
			for _, g := range []session.DeviceGrant{old, kept, erased, other} {
				w.ok(w.DeviceGrants().Add(w.ctx, g))
			}
			w.ok(w.DeviceGrants().Prune(w.ctx, longAgo(2)))
			w.erase(gone, at(9))
			for _, g := range []session.DeviceGrant{old, erased} {
				resultOf(w.DeviceGrants().ByUserCode(w.ctx, g.UserCode)).wantNotFound(w)
			}
			for _, g := range []session.DeviceGrant{kept, open, other} {
				resultOf(w.DeviceGrants().ByUserCode(w.ctx, g.UserCode)).is(w, g)
			}
		},
		"a transaction sees its own writes and none of a failing fn, and a rollback undoes them": func(w *fixture) {
			g, added, failure := w.device(), someDevice(""), errors.New("failure")
			denied := g.Restore(session.DeviceDenied)
			update := func(in *fixture, err error) error {
				return must.ErrorOf(in.DeviceGrants().Update(w.ctx, g.Code, func(session.DeviceGrant) (session.DeviceGrant, error) { return denied, err }))
			}
			state := func(in *fixture) [2]session.DeviceGrant {
				return [2]session.DeviceGrant{orZero(in, resultOf(in.DeviceGrants().ByUserCode(w.ctx, g.UserCode))), orZero(in, resultOf(in.DeviceGrants().ByUserCode(w.ctx, added.UserCode)))}
			}
			checkRollback(w, func(in *fixture) {
				in.wantSameError(update(in, failure), failure)
			}, state, [2]session.DeviceGrant{g})
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.DeviceGrants().Add(w.ctx, added), update(in, nil)))
			}, state, [2]session.DeviceGrant{denied, added})
		},
		"arguments and results belong to the caller": func(w *fixture) {
			g := someDevice("")
			get := func() session.DeviceGrant { return must.Do(w.DeviceGrants().ByUserCode(w.ctx, g.UserCode)).Or(w) }
			update := func(fn func(session.DeviceGrant) (session.DeviceGrant, error)) (session.DeviceGrant, error) {
				return w.DeviceGrants().Update(w.ctx, g.Code, fn)
			}
			keepsNothing(w, g, func(g session.DeviceGrant) error { return w.DeviceGrants().Add(w.ctx, g) }, updates(w, get, update)...)
		},
	}.run(t, open)
}
