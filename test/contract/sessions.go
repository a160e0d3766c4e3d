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

// Sessions is the suite of ports.Sessions.
func Sessions(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown session is not found": func(w *fixture) {
			unknown := fresh[id.Session]()
			w.ok(w.Sessions().Use(w.ctx, map[id.Session]time.Time{unknown: at(1)}))
			resultOf(w.Sessions().Get(w.ctx, unknown)).wantNotFound(w)
			resultOf(w.Sessions().List(w.ctx, w.user().ID)).is(w, nil)
			w.ok(w.Sessions().Remove(w.ctx, unknown))
		},
		"a session is returned as stored, with an organisation and without": func(w *fixture) {
			u := w.user()
			for _, s := range []session.Session{someSession(u.ID, w.org().ID), {ID: fresh[id.Session](), User: u.ID, CreatedAt: at(1), LastUsedAt: at(1), ExpiresAt: at(2)}} {
				w.ok(w.Sessions().Put(w.ctx, s))
				resultOf(w.Sessions().Get(w.ctx, s.ID)).is(w, s)
				s.LastUsedAt, s.ExpiresAt, s.Address, s.UserAgent, s.Org = at(8), at(9), "192.0.2.1", "", w.org().ID
				w.ok(w.Sessions().Put(w.ctx, s))
				resultOf(w.Sessions().Get(w.ctx, s.ID)).is(w, s)
			}
		},
		"an ended session does not change, and is not listed": func(w *fixture) {
			u := w.user()
			s := someSession(u.ID, "")
			w.ok(w.Sessions().Put(w.ctx, s))
			ended, _ := s.End()
			w.ok(w.Sessions().Put(w.ctx, ended))
			w.wantConflict(w.Sessions().Put(w.ctx, s))
			w.ok(w.Sessions().Use(w.ctx, map[id.Session]time.Time{s.ID: at(9)}))
			resultOf(w.Sessions().Get(w.ctx, s.ID)).is(w, ended)
			resultOf(w.Sessions().List(w.ctx, u.ID)).is(w, nil)
		},
		"the list is the user's own, the most recently used first": func(w *fixture) {
			u, other := w.user(), w.user()
			a, b, c := someSession(u.ID, w.org().ID), someSession(u.ID, ""), someSession(u.ID, w.org().ID)
			a.LastUsedAt, b.LastUsedAt, c.LastUsedAt = at(5), at(7), at(5)
			for _, s := range []session.Session{a, b, c, someSession(other.ID, a.Org)} {
				w.ok(w.Sessions().Put(w.ctx, s))
			}
			if c.ID < a.ID {
				a, c = c, a
			}
			resultOf(w.Sessions().List(w.ctx, u.ID)).is(w, []session.Session{b, c, a})
			w.ok(w.Sessions().Remove(w.ctx, b.ID))
			resultOf(w.Sessions().Get(w.ctx, b.ID)).wantNotFound(w)
			resultOf(w.Sessions().List(w.ctx, u.ID)).is(w, []session.Session{c, a})
		},
		"use raises the time and never lowers it": func(w *fixture) {
			u := w.user()
			s := someSession(u.ID, "")
			w.ok(w.Sessions().Put(w.ctx, s))
			for _, ms := range []int{9, 4} {
				w.ok(w.Sessions().Use(w.ctx, map[id.Session]time.Time{s.ID: at(ms), fresh[id.Session](): at(ms)}))
				s.LastUsedAt = at(9)
				resultOf(w.Sessions().Get(w.ctx, s.ID)).is(w, s)
			}
		},
		"prune removes sessions that expired before the time, and those of an organisation are erased with it": func(w *fixture) {
			u, gone := w.user(), w.org().ID
			old, kept, erased, other := someSession(u.ID, ""), someSession(u.ID, ""), someSession(u.ID, gone), someSession(u.ID, w.org().ID)
			old.ExpiresAt, kept.ExpiresAt = longAgo(1), longAgo(2)
			old.LastUsedAt, kept.LastUsedAt = at(9), at(8)
			for _, s := range []session.Session{old, kept, erased, other} {
				w.ok(w.Sessions().Put(w.ctx, s))
			}
			w.ok(w.Sessions().Prune(w.ctx, longAgo(2)))
			w.erase(gone, at(9))
			resultOf(w.Sessions().List(w.ctx, u.ID)).is(w, []session.Session{kept, other})
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			u := w.user()
			s, gone, begun := someSession(u.ID, ""), someSession(u.ID, ""), someSession(u.ID, "")
			w.ok(errors.Join(w.Sessions().Put(w.ctx, s), w.Sessions().Put(w.ctx, gone)))
			used := s
			used.LastUsedAt = at(9)
			checkRollback(w, func(in *fixture) {
				in.ok(errors.Join(in.Sessions().Put(w.ctx, begun), in.Sessions().Use(w.ctx, map[id.Session]time.Time{s.ID: at(9)}), in.Sessions().Remove(w.ctx, gone.ID)))
			}, func(in *fixture) []session.Session { return must.Do(in.Sessions().List(w.ctx, u.ID)).Or(in) }, []session.Session{used, begun})
		},
		"a session that a transaction has read is not removed concurrently": func(w *fixture) {
			s := someSession(w.user().ID, "")
			w.ok(w.Sessions().Put(w.ctx, s))
			errs := concurrently(concurrent, func(i int) error {
				if i == 0 {
					return w.Sessions().Remove(w.ctx, s.ID)
				}
				err := w.store.Atomic(w.ctx, func(r ports.Records) error {
					got, err := r.Journal().Sessions().Get(w.ctx, s.ID)
					if err != nil {
						return err
					}
					got.LastUsedAt = got.LastUsedAt.Add(time.Second)
					return r.Journal().Sessions().Put(w.ctx, got)
				})
				if fault.Is(err, fault.NotFound) {
					return nil
				}
				return err
			})
			w.ok(errors.Join(errs...))
			resultOf(w.Sessions().Get(w.ctx, s.ID)).wantNotFound(w)
		},
	}.run(t, open)
}
