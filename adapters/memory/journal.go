package memory

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/replay"
	"collab/domain/session"
	"collab/ports"
)

func (r records) Inbox() ports.Inbox       { return inbox{r.run} }
func (r records) Audit() ports.Audit       { return auditLog{r.run} }
func (r records) Replays() ports.Replays   { return replays{r.run} }
func (r records) Sessions() ports.Sessions { return sessions{r.run} }

// messageKey identifies a message by its source, and by its id there.
type messageKey struct{ source, id string }

type inbox struct{ run runner }

func (i inbox) Accept(_ context.Context, source, m string, now time.Time) error {
	return i.run(func(x *tx) error { return x.Inbox.add(x, messageKey{source, m}, now) })
}

func (i inbox) Prune(_ context.Context, before time.Time) error {
	return i.run.do(func(x *tx) { x.Inbox.removeWhere(x, func(noted time.Time) bool { return noted.Before(before) }) })
}

type auditLog struct{ run runner }

func (a auditLog) Add(_ context.Context, e audit.Entry) error {
	return a.run(func(x *tx) error { return x.Audit.add(x, e.ID, e) })
}

func (a auditLog) List(_ context.Context, o id.Org, f audit.Filter, each func(audit.Entry) error) error {
	selected, err := result(a.run, func(x *tx) ([]audit.Entry, error) {
		newestFirst := func(a, b audit.Entry) int { return byTime(b.At, a.At, b.ID, a.ID) }
		last := x.Audit.rows[f.After] // of no organisation if there is none
		return x.Audit.list(func(e audit.Entry) bool {
			return o != "" && e.Org == o && f.Selects(e) && (f.After == "" || last.Org == o && newestFirst(e, last) > 0)
		}, newestFirst, f.Limit), nil
	})
	return forEach(selected, err, each)
}

type replays struct{ run runner }

func (s replays) Begin(_ context.Context, r replay.Record, now time.Time) (replay.Record, error) {
	return result(s.run, func(x *tx) (replay.Record, error) {
		if existing, err := x.Replays.get(r.Key); err == nil && existing.Live(now) {
			return existing, nil
		}
		x.Replays.put(x, r.Key, r)
		return x.Replays.get(r.Key)
	})
}

func (s replays) Finish(_ context.Context, r replay.Record) error {
	return s.run(func(x *tx) error {
		if x.Replays.rows[r.Key].Claim != r.Claim {
			return x.Replays.missing()
		}
		x.Replays.put(x, r.Key, r)
		return nil
	})
}

func (s replays) Abandon(_ context.Context, key, claim string) error {
	return s.run.do(func(x *tx) {
		x.Replays.removeWhere(x, func(r replay.Record) bool { return r.Key == key && r.Claim == claim })
	})
}

func (s replays) Prune(_ context.Context, before time.Time) error {
	return s.run.do(func(x *tx) {
		x.Replays.removeWhere(x, func(r replay.Record) bool { return r.ExpiresAt.Before(before) })
	})
}

type sessions struct{ run runner }

func (s sessions) Get(_ context.Context, sessionID id.Session) (session.Session, error) {
	return result(s.run, func(x *tx) (session.Session, error) { return x.Sessions.get(sessionID) })
}

func (s sessions) Put(_ context.Context, v session.Session) error {
	return s.run(func(x *tx) error {
		if x.Sessions.rows[v.ID].Ended {
			return x.Sessions.errTaken()
		}
		x.Sessions.put(x, v.ID, v)
		return nil
	})
}

func (s sessions) List(_ context.Context, user id.User) ([]session.Session, error) {
	return result(s.run, func(x *tx) ([]session.Session, error) {
		return x.Sessions.list(func(v session.Session) bool { return v.User == user && !v.Ended }, func(a, b session.Session) int {
			return byTime(b.LastUsedAt, a.LastUsedAt, b.ID, a.ID)
		}, 0), nil
	})
}

func (s sessions) Remove(_ context.Context, sessionID id.Session) error {
	return s.run.do(func(x *tx) { x.Sessions.remove(x, sessionID) })
}

func (s sessions) Use(_ context.Context, uses map[id.Session]time.Time) error {
	return s.run.do(func(x *tx) {
		for sessionID, at := range uses {
			if v, ok := x.Sessions.rows[sessionID]; ok && !v.Ended && v.LastUsedAt.Before(at) {
				v.LastUsedAt = at
				x.Sessions.put(x, sessionID, v)
			}
		}
	})
}

func (s sessions) Prune(_ context.Context, before time.Time) error {
	return s.run.do(func(x *tx) {
		x.Sessions.removeWhere(x, func(v session.Session) bool { return v.ExpiresAt.Before(before) })
	})
}
