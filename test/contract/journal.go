package contract

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/replay"
	"collab/ports"
	"collab/test/must"
)

// longAgo returns a time, in milliseconds after an origin, long before those of other sub-tests: Prune selects from
// the whole store.
func longAgo(ms int) time.Time {
	return time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// Inbox is the suite of ports.Inbox.
func Inbox(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"a message is accepted once from each source": func(w *fixture) {
			m := nextID()
			w.ok(w.Inbox().Accept(w.ctx, "identity", m, at(0)))
			w.wantConflict(w.Inbox().Accept(w.ctx, "identity", m, at(0)))
			w.wantConflict(w.Inbox().Accept(w.ctx, "identity", m, at(1_000_000)))
			w.ok(w.Inbox().Accept(w.ctx, "payments", m, at(0)))
			w.ok(w.Inbox().Accept(w.ctx, "identity", m+"x", at(0)))
		},
		"of concurrent calls, alone or in transactions, one has its effect": func(w *fixture) {
			o, m := w.org(), nextID()
			winner := w.wantOneSuccess(concurrently(concurrent, func(i int) error {
				if i%2 == 0 {
					return w.Inbox().Accept(w.ctx, "identity", m, at(0))
				}
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := r.Journal().Audit().Add(w.ctx, someEntry(o.ID, "")); err != nil {
						return err
					}
					return r.Journal().Inbox().Accept(w.ctx, "identity", m, at(0))
				})
			}), fault.Conflict)
			wantEqual(w, len(must.Do(w.audited(o.ID, audit.Filter{})).Or(w)), winner%2)
		},
		"prune removes ids that were stored before the time": func(w *fixture) {
			old, exact := nextID(), nextID()
			w.ok(w.Inbox().Accept(w.ctx, "identity", old, longAgo(99)))
			w.ok(w.Inbox().Accept(w.ctx, "identity", exact, longAgo(100)))
			w.ok(w.Inbox().Prune(w.ctx, longAgo(100)))
			w.wantConflict(w.Inbox().Accept(w.ctx, "identity", exact, longAgo(100)))
			w.ok(w.Inbox().Accept(w.ctx, "identity", old, longAgo(200)))
		},
	}.run(t, open)
}

// Audit is the suite of ports.Audit.
func Audit(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an entry is returned with every field as stored, and a taken id is a conflict": func(w *fixture) {
			o := w.org()
			full := someEntry(o.ID, w.member(o.ID, org.Owner).ID)
			bare := audit.Entry{ID: fresh[id.Entry](), Org: o.ID, At: at(1), Action: audit.MemberLeft}
			w.ok(w.Audit().Add(w.ctx, full))
			w.ok(w.Audit().Add(w.ctx, bare))
			again := full
			again.Detail = "Never"
			w.wantConflict(w.Audit().Add(w.ctx, again))
			resultOf(w.audited(o.ID, audit.Filter{})).is(w, []audit.Entry{full, bare})
		},
		"entries of another organisation and of the deployment are not listed": func(w *fixture) {
			o, other := w.org(), w.org()
			own, foreign := someEntry(o.ID, ""), someEntry(other.ID, "")
			for _, e := range []audit.Entry{own, foreign, someEntry("", "")} {
				w.ok(w.Audit().Add(w.ctx, e))
			}
			resultOf(w.audited(o.ID, audit.Filter{})).is(w, []audit.Entry{own})
			for _, after := range []id.Entry{foreign.ID, fresh[id.Entry]()} {
				resultOf(w.audited(o.ID, audit.Filter{After: after})).is(w, nil)
			}
			wantEqual(w, len(must.Do(w.audited(other.ID, audit.Filter{})).Or(w)), 1)
		},
		"list is ordered from the newest to the oldest, page by page": func(w *fixture) {
			o := w.org()
			ids := several[id.Entry](7)
			add := func(i, ms int) audit.Entry {
				e := audit.Entry{ID: ids[i], Org: o.ID, At: at(ms), Action: audit.OperatorRead, Detail: fmt.Sprint(i)}
				w.ok(w.Audit().Add(w.ctx, e))
				return e
			}
			e, d, b, g, a, c, f := add(2, 20), add(3, 20), add(5, 20), add(6, 5), add(0, 30), add(4, 20), add(1, 20)
			want := []audit.Entry{a, b, c, d, e, f, g}
			pages(w, want, func(e audit.Entry) id.Entry { return e.ID },
				func(after id.Entry, limit int) ([]audit.Entry, error) {
					return w.audited(o.ID, audit.Filter{After: after, Limit: limit})
				})
		},
		"filters select, and combine with one another and with pages": func(w *fixture) {
			o, other := w.org(), w.org()
			users := []id.User{w.member(o.ID, org.Owner).ID, w.member(o.ID, org.Admin).ID, ""}
			actions := []audit.Action{audit.MemberRemoved, audit.MemberLeft, audit.ReleasePaused}
			targets := []string{"", "a", "A", string(users[0])}
			for i := range 24 {
				e := audit.Entry{
					ID: fresh[id.Entry](), Org: o.ID, At: at(100 - i/2), Actor: users[i%3], Operator: i%3 == 2 && i%2 == 0,
					Action: actions[i/3%3], Target: targets[i%4], Detail: fmt.Sprint(i),
				}
				w.ok(w.Audit().Add(w.ctx, e))
				foreign := e
				foreign.ID, foreign.Org = fresh[id.Entry](), other.ID
				w.ok(w.Audit().Add(w.ctx, foreign))
			}
			all := must.Do(w.audited(o.ID, audit.Filter{})).Or(w)
			wantEqual(w, len(all), 24)
			conditions := []audit.Filter{
				{}, {Actor: users[1]}, {Actor: fresh[id.User]()}, {Source: audit.Operators}, {Source: audit.Automatic}, {Action: audit.MemberLeft}, {Action: audit.Imported},
				{Kind: "member"}, {Kind: "release"}, {Kind: "mem"}, {Target: "a"}, {Target: string(users[0])}, {Target: "nothing"}, {From: at(95)}, {To: at(95)}, {From: at(95), To: at(97)},
			}
			for _, one := range conditions {
				for _, two := range conditions {
					f := one
					if f.Actor == "" {
						f.Actor = two.Actor
					}
					if f.Kind == "" {
						f.Kind = two.Kind
					}
					if f.From.IsZero() {
						f.From, f.To = two.From, two.To
					}
					want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !f.Selects(e) })
					resultOf(w.audited(o.ID, f)).is(w, want)
					if two == (audit.Filter{}) {
						pages(w, want, func(e audit.Entry) id.Entry { return e.ID }, func(after id.Entry, limit int) ([]audit.Entry, error) {
							f.After, f.Limit = after, limit
							return w.audited(o.ID, f)
						})
					}
				}
			}
		},
	}.run(t, open)
}

// Replays is the suite of ports.Replays.
func Replays(t *testing.T, open func(t *testing.T) Opened) {
	record := func() replay.Record {
		return replay.Record{Key: nextID(), Fingerprint: nextID(), Claim: nextID(), ExpiresAt: at(1000)}
	}
	rival := func(r replay.Record) replay.Record {
		r.Fingerprint, r.Claim, r.ExpiresAt = nextID(), nextID(), at(2000)
		return r
	}
	finished := func(r replay.Record) replay.Record {
		r.Done, r.Answer, r.ExpiresAt = true, []byte("\x00\xff sealed"), at(5000)
		return r
	}
	suite{
		"begin takes a free key, and returns the record of a taken one until it expires": func(w *fixture) {
			r := record()
			resultOf(w.Replays().Begin(w.ctx, r, at(0))).is(w, r)
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(999))).is(w, r)
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(0))).is(w, r)
			other := record()
			resultOf(w.Replays().Begin(w.ctx, other, at(0))).is(w, other)
			next := rival(r)
			resultOf(w.Replays().Begin(w.ctx, next, at(1000))).is(w, next)
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(1999))).is(w, next)
		},
		"a finished record answers until it expires": func(w *fixture) {
			r := record()
			resultOf(w.Replays().Begin(w.ctx, r, at(0))).is(w, r)
			w.ok(w.Replays().Finish(w.ctx, finished(r)))
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(4999))).is(w, finished(r))
			next := rival(r)
			next.ExpiresAt = at(9000)
			resultOf(w.Replays().Begin(w.ctx, next, at(5000))).is(w, next)
		},
		"finish fails for a claim that no longer has the key": func(w *fixture) {
			r := record()
			w.wantNotFound(w.Replays().Finish(w.ctx, finished(r)))
			resultOf(w.Replays().Begin(w.ctx, r, at(0))).is(w, r)
			next := rival(r)
			resultOf(w.Replays().Begin(w.ctx, next, at(1000))).is(w, next)
			w.wantNotFound(w.Replays().Finish(w.ctx, finished(r)))
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(1500))).is(w, next)
		},
		"abandon removes only a record with the claim": func(w *fixture) {
			r := record()
			w.ok(w.Replays().Abandon(w.ctx, r.Key, r.Claim))
			resultOf(w.Replays().Begin(w.ctx, r, at(0))).is(w, r)
			w.ok(w.Replays().Abandon(w.ctx, r.Key, nextID()))
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(0))).is(w, r)
			w.ok(w.Replays().Abandon(w.ctx, r.Key, r.Claim))
			next := rival(r)
			resultOf(w.Replays().Begin(w.ctx, next, at(0))).is(w, next)
			w.wantNotFound(w.Replays().Finish(w.ctx, finished(r)))
		},
		"of concurrent calls one takes the key and all others get its record": func(w *fixture) {
			beginAtOnce(w, record(), at(0), rival)
		},
		"of concurrent calls one takes over an expired key": func(w *fixture) {
			r := record()
			resultOf(w.Replays().Begin(w.ctx, r, at(0))).is(w, r)
			beginAtOnce(w, r, at(1000), rival)
		},
		"prune removes records that expired before the time": func(w *fixture) {
			begin := func(expires time.Time) replay.Record {
				r := record()
				r.ExpiresAt = expires
				resultOf(w.Replays().Begin(w.ctx, r, longAgo(0))).is(w, r)
				return r
			}
			old, exact := begin(longAgo(99)), begin(longAgo(100))
			w.ok(w.Replays().Prune(w.ctx, longAgo(100)))
			w.wantNotFound(w.Replays().Finish(w.ctx, finished(old)))
			w.ok(w.Replays().Finish(w.ctx, finished(exact)))
		},
		"arguments and results belong to the caller": func(w *fixture) {
			r := record()
			r.Answer = []byte("abc")
			must.Do(w.Replays().Begin(w.ctx, r, at(0))).Or(w).Answer[0] = 'X'
			r.Answer[1] = 'X'
			clean := r
			clean.Answer = []byte("abc")
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(0))).is(w, clean)

			done := finished(r)
			w.ok(w.Replays().Finish(w.ctx, done))
			done.Answer[0] = 'X'
			must.Do(w.Replays().Begin(w.ctx, rival(r), at(0))).Or(w).Answer[1] = 'X'
			resultOf(w.Replays().Begin(w.ctx, rival(r), at(0))).is(w, finished(r))
		},
	}.run(t, open)
}

// beginAtOnce has many begin rivals of r at once, at a time at which one of them
// must get the key.
func beginAtOnce(w *fixture, r replay.Record, now time.Time, rival func(replay.Record) replay.Record) {
	w.Helper()
	mine, got := make([]replay.Record, concurrent), make([]replay.Record, concurrent)
	w.allOK(concurrently(concurrent, func(i int) (err error) {
		mine[i] = rival(r)
		got[i], err = w.Replays().Begin(w.ctx, mine[i], now)
		return err
	}))
	winners := slices.DeleteFunc(mine, func(r replay.Record) bool { return r.Claim != got[0].Claim })
	wantEqual(w, winners, got[:1])
	for i := range got {
		wantEqual(w, got[i], got[0])
	}
}
