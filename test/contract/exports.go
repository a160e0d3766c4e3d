package contract

import (
	"testing"
	"time"

	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/test/must"
)

// Exports is the suite of ports.Exports.
func Exports(t *testing.T, open func(t *testing.T) Opened) {
	claim := func(w *fixture, name string, now time.Time) (export.Export, error) {
		return w.Exports().Claim(w.ctx, now, func(e export.Export) (export.Export, error) { return e.Claimed(name, now) })
	}
	added := func(w *fixture, o id.Org, created time.Time) export.Export {
		w.Helper()
		e := export.New(fresh[id.Export](), o, fresh[id.User](), created)
		w.ok(w.Exports().Add(w.ctx, o, e))
		return e
	}
	suite{
		"an export is returned with every field as stored": func(w *fixture) {
			bare := export.New(fresh[id.Export](), w.org().ID, fresh[id.User](), at(1))
			full := must.Full(export.Export{
				ID: fresh[id.Export](), Org: w.org().ID, User: fresh[id.User](), CreatedAt: at(2), Claim: "c", DueAt: new(at(999_999)), Attempts: 2,
				Progress: export.Progress{Records: 3, Files: 4, Done: 5, Bytes: 6}, Blob: "b/ü", Size: 7, FinishedAt: new(at(8)), ExpiresAt: new(at(9)), Error: "so",
			}.Restore(export.Running))
			for _, e := range []export.Export{bare, full} {
				w.ok(w.Exports().Add(w.ctx, e.Org, e))
				resultOf(w.Exports().Get(w.ctx, e.Org, e.ID)).is(w, e)
				resultOf(w.Exports().List(w.ctx, e.Org)).is(w, []export.Export{e})
			}
		},
		"an organisation has one open export": func(w *fixture) {
			o := w.org().ID
			first := added(w, o, at(1))
			w.wantConflict(w.Exports().Add(w.ctx, o, export.New(fresh[id.Export](), o, first.User, at(2))))
			added(w, w.org().ID, at(2))
			must.Do(w.Exports().Update(w.ctx, o, first.ID, func(e export.Export) (export.Export, error) {
				e.DueAt, e.Error = nil, "so"
				return e.Restore(export.Failed), nil
			})).Or(w)
			second := added(w, o, at(3))
			all := must.Do(w.Exports().List(w.ctx, o)).Or(w)
			wantEqual(w, []id.Export{all[0].ID, all[1].ID}, []id.Export{second.ID, first.ID})
		},
		"another organisation's export is not found": func(w *fixture) {
			e := added(w, w.org().ID, at(1))
			other := w.org().ID
			resultOf(w.Exports().Get(w.ctx, other, e.ID)).wantNotFound(w)
			resultOf(w.Exports().List(w.ctx, other)).is(w, nil)
			resultOf(w.Exports().Update(w.ctx, other, e.ID, keep)).wantNotFound(w)
		},
		"a refused update changes nothing": func(w *fixture) {
			e := added(w, w.org().ID, at(1))
			failure := fault.New(fault.Conflict, "no")
			_, err := w.Exports().Update(w.ctx, e.Org, e.ID, func(e export.Export) (export.Export, error) {
				*e.DueAt = at(77)
				e.Error = "never"
				return e, failure
			})
			w.wantSameError(err, failure)
			resultOf(w.Exports().Get(w.ctx, e.Org, e.ID)).is(w, e)
		},
		"the export that has been due for longest is claimed, once": func(w *fixture) {
			w.claims()
			now := longAgo(0)
			var made []export.Export
			for i := range 3 {
				made = append(made, added(w, w.org().ID, now.Add(time.Duration(i)*time.Second)))
			}
			resultOf(claim(w, "early", now.Add(-time.Second))).wantNotFound(w)
			for _, e := range made {
				is := must.Do(claim(w, "c", now.Add(time.Minute/2))).Or(w)
				wantEqual(w, is.ID, e.ID)
				resultOf(w.Exports().Get(w.ctx, e.Org, e.ID)).is(w, is)
			}
			resultOf(claim(w, "late", now.Add(time.Minute/2))).wantNotFound(w)
			again := must.Do(claim(w, "next", now.Add(2*time.Minute))).Or(w)
			wantEqual(w, []any{again.ID, again.Attempts, again.Claim}, []any{made[0].ID, 2, "next"})
		},
		"of concurrent claims one gets the export": func(w *fixture) {
			w.claims()
			now := longAgo(0)
			added(w, w.org().ID, now)
			w.wantOneSuccess(concurrently(concurrent/4, func(int) error { return must.ErrorOf(claim(w, nextID(), now)) }), fault.NotFound)
		},
		"old exports that are not open are removed, and those of an erased organisation": func(w *fixture) {
			before := longAgo(0)
			add := func(o id.Org, created time.Time, open bool) export.Export {
				e := export.New(fresh[id.Export](), o, fresh[id.User](), created)
				e.DueAt = new(at(999_999)) // not the next one
				if !open {
					e.DueAt = nil
					e = e.Restore(export.Failed)
				}
				w.ok(w.Exports().Add(w.ctx, o, e))
				return e
			}
			o := w.org().ID
			old, open, late := add(o, before.Add(-time.Second), false), add(o, before.Add(-time.Second), true), add(o, before, false)
			w.ok(w.Exports().Prune(w.ctx, before))
			resultOf(w.Exports().Get(w.ctx, o, old.ID)).wantNotFound(w)
			resultOf(w.Exports().List(w.ctx, o)).is(w, []export.Export{late, open})
			w.erase(o, at(9))
			resultOf(w.Exports().List(w.ctx, o)).is(w, nil)
		},
	}.run(t, open)
}
