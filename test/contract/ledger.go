package contract

import (
	"cmp"
	"errors"
	"maps"
	"slices"
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

// Ledger is the suite of ports.Ledger.
func Ledger(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an entry is returned with every field as stored": func(w *fixture) {
			o := w.org().ID
			full := someUsage(o, fresh[id.User]())
			bare := usage.Entry{ID: fresh[id.Request](), Org: o, User: fresh[id.User](), At: full.At.Add(time.Millisecond)}
			w.ok(w.Ledger().Settle(w.ctx, full.Org, full))
			w.ok(w.Ledger().Settle(w.ctx, bare.Org, bare))
			wantEqual(w, w.entries(o, always), []usage.Entry{full, bare})
		},
		"a taken id is a conflict, and counts once": func(w *fixture) {
			o, other := w.org().ID, w.org().ID
			e := someUsage(o, fresh[id.User]())
			w.ok(w.Ledger().Settle(w.ctx, e.Org, e))
			again := e
			again.User, again.Model, again.Tokens.Input, again.At = fresh[id.User](), "other", 99, e.At.Add(time.Hour)
			w.wantConflict(w.Ledger().Settle(w.ctx, e.Org, e))
			w.wantConflict(w.Ledger().Settle(w.ctx, again.Org, again))
			wantEqual(w, w.entries(o, always), []usage.Entry{e})
			resultOf(w.summary(o, "", always)).is(w, recount([]usage.Entry{e}, "", always))
			theirs := e
			theirs.Org = other
			w.ok(w.Ledger().Settle(w.ctx, theirs.Org, theirs))
			wantEqual(w, w.entries(other, always), []usage.Entry{theirs})
		},
		"entries of an organisation are settled together, or none of them": func(w *fixture) {
			o := w.org().ID
			users := several[id.User](3)
			leases, entries := make([]quota.Lease, 9), make([]usage.Entry, 9)
			for i := range leases {
				leases[i] = w.lease(someLease(o, users[i%3]), 100)
				entries[i] = ended(leases[i], int64(1+i))
				entries[i].Model = []string{"a", "b"}[i%2]
			}
			w.wantConflict(w.Ledger().Settle(w.ctx, o, entries[0], entries[0]))
			w.ok(w.Ledger().Settle(w.ctx, o, entries[:6]...))
			w.wantConflict(w.Ledger().Settle(w.ctx, o, entries[5:]...))
			resultOf(w.summary(o, "", always)).is(w, recount(entries[:6], "", always))
			for i, u := range users {
				w.account(o, u, quota.Account{Used: int64(1+i) + int64(4+i), Reserved: 100})
			}
		},
		"an unknown organisation has no ledger": func(w *fixture) {
			e := someUsage(fresh[id.Org](), fresh[id.User]())
			w.wantNotFound(w.Ledger().Settle(w.ctx, e.Org, e))
			wantEqual(w, w.entries(e.Org, always), nil)
			resultOf(w.summary(e.Org, "", always)).is(w, totals{Summary: usage.Summary{Period: always}})
		},
		"an error of head or each ends the entries and the summary and is returned unchanged": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			w.ok(w.Ledger().Settle(w.ctx, o, someUsage(o, u), someUsage(o, u)))
			wantStop(w, func(each func(usage.Entry) error) error { return w.Ledger().Entries(w.ctx, o, always, each) })
			wantStop(w, func(head func(usage.Summary) error) error {
				return w.Ledger().Summary(w.ctx, o, "", always, head, func(usage.Part) error { return nil })
			})
			wantStop(w, func(each func(usage.Part) error) error {
				return w.Ledger().Summary(w.ctx, o, "", always, func(usage.Summary) error { return nil }, each)
			})
		},
		"daily sums have the models of everybody or of one user, or the users, in pages": func(w *fixture) {
			o, theirs := w.org().ID, w.org().ID
			users := several[id.User](2)
			first := calendar.DayOf(at(0)).Start()
			add := func(o id.Org, user, days int, model string, in int64) {
				e := someUsage(o, users[user])
				e.At, e.Model, e.Tokens = first.AddDate(0, 0, days).Add(23*time.Hour), model, chat.Usage{Input: in, Output: 10 * in}
				w.ok(w.Ledger().Settle(w.ctx, o, e))
			}
			add(o, 0, 0, "a", 1)
			add(o, 1, 0, "a", 2)
			add(o, 1, 0, "a", 4)
			add(o, 1, 0, "b", 8)
			add(o, 0, 1, "b", 16)
			add(o, 1, 2, "a", 32)
			add(theirs, 1, 0, "a", 64)
			on := func(days int) calendar.Day { return calendar.DayOf(first.AddDate(0, 0, days)) }
			sum := func(days int, model string, user id.User, in, requests int64) usage.Daily {
				return usage.Daily{Day: on(days), Model: model, User: user, Sum: usage.Sum{Input: in, Output: 10 * in, Requests: requests}}
			}
			for b, want := range map[usage.Breakdown][]usage.Daily{
				{First: on(0), Last: on(2)}:                 {sum(0, "a", "", 7, 3), sum(0, "b", "", 8, 1), sum(1, "b", "", 16, 1), sum(2, "a", "", 32, 1)},
				{First: on(0), Last: on(1), User: users[1]}: {sum(0, "a", users[1], 6, 2), sum(0, "b", users[1], 8, 1)},
				{First: on(0), Last: on(1), ByUser: true}:   {sum(0, "", users[0], 1, 1), sum(0, "", users[1], 14, 3), sum(1, "", users[0], 16, 1)},
				{First: on(1), Last: on(1)}:                 {sum(1, "b", "", 16, 1)},
				{First: on(3), Last: on(9)}:                 nil,
				{First: on(1), Last: on(0)}:                 nil,
			} {
				if b.User == "" {
					var sum usage.Sum
					for _, d := range want {
						sum = sum.Plus(d.Sum)
					}
					absent := fresh[id.Org]()
					resultOf(w.Ledger().Totals(w.ctx, []id.Org{o, absent, "none"}, b.First, b.Last)).is(w, map[id.Org]usage.Sum{o: sum, absent: {}, "none": {}})
				}
				pages(w, want, func(d usage.Daily) usage.Daily { return d }, func(after usage.Daily, limit int) ([]usage.Daily, error) {
					return collected(func(each func(usage.Daily) error) error { return w.Ledger().Daily(w.ctx, o, b, after, limit, each) })
				})
			}
			both := must.Do(w.Ledger().Totals(w.ctx, []id.Org{o, theirs}, on(0), on(0))).Or(w)
			wantEqual(w, both, map[id.Org]usage.Sum{o: {Input: 15, Output: 150, Requests: 4}, theirs: {Input: 64, Output: 640, Requests: 1}})
			wantStop(w, func(each func(usage.Daily) error) error {
				return w.Ledger().Daily(w.ctx, o, usage.Breakdown{First: on(0), Last: on(2)}, usage.Daily{}, 0, each)
			})
			wantEqual(w, w.Ledger().Daily(w.ctx, o, usage.Breakdown{First: on(0), Last: on(2), ByUser: true}, usage.Daily{Day: on(0), User: "none"}, 1, func(usage.Daily) error { return nil }), nil)
		},
		"a summary equals a recount of the period's entries": summaryProperty,
		"of concurrent settlements of one entry one succeeds, and it counts once": func(w *fixture) {
			e := someUsage(w.org().ID, fresh[id.User]())
			w.wantOneSuccess(concurrently(concurrent, func(int) error { return w.Ledger().Settle(w.ctx, e.Org, e) }), fault.Conflict)
			resultOf(w.summary(e.Org, "", always)).is(w, recount([]usage.Entry{e}, "", always))
		},
		"all concurrent entries are counted": func(w *fixture) {
			o := w.org().ID
			users := several[id.User](5)
			made := make([]usage.Entry, manyGoroutines)
			for i := range made {
				made[i] = someUsage(o, users[i%len(users)])
				made[i].Model = []string{"a", "b"}[i%2]
			}
			w.allOK(concurrently(manyGoroutines, func(i int) error { return w.Ledger().Settle(w.ctx, made[i].Org, made[i]) }))
			resultOf(w.summary(o, "", always)).is(w, recount(made, "", always))
			for _, u := range users {
				resultOf(w.summary(o, u, always)).is(w, recount(made, u, always))
			}
		},
		"an entry becomes visible together with its sums": func(w *fixture) {
			o, u := w.org().ID, fresh[id.User]()
			noon := calendar.DayOf(at(0)).Start().Add(12 * time.Hour)
			// One is cut out of the whole day's sums, the other is of entries alone.
			early, late := usage.Period{Start: noon, End: noon.AddDate(0, 0, 1)}, usage.Period{Start: noon.Add(time.Hour), End: noon.Add(2 * time.Hour)}
			w.allOK(concurrently(concurrent, func(i int) error {
				if i%2 == 0 {
					e := someUsage(o, u)
					e.At, e.Tokens = noon.Add(time.Hour), chat.Usage{Input: 1, Output: 2}
					before := e
					before.ID, before.At = fresh[id.Request](), noon.Add(-time.Hour)
					return w.store.Atomic(w.ctx, func(r ports.Records) error {
						return r.Usage().Ledger().Settle(w.ctx, o, e, before)
					})
				}
				for _, p := range []usage.Period{early, late} {
					s, err := w.summary(o, "", p)
					if err != nil {
						return err
					}
					if s.Requests > concurrent/2 || s.Input != s.Requests || s.Output != 2*s.Requests || s.Requests > 0 && (len(s.ByDay) != 1 || len(s.ByUser) != 1 || s.ByUser[0].Sum != s.Sum) {
						return fault.New(fault.Internal, "the summary is %+v", s)
					}
				}
				return nil
			}))
			wantEqual(w, must.Do(w.summary(o, "", early)).Or(w).Requests, concurrent/2)
		},
	}.run(t, open)
}

// always is a period that has all that sub-tests add.
var always = usage.Period{Start: at(0).AddDate(-1, 0, 0), End: at(0).AddDate(1, 0, 0)}

// someUsage returns an entry that is not stored yet, with every field set.
func someUsage(o id.Org, u id.User) usage.Entry {
	return must.Full(usage.Entry{
		ID: fresh[id.Request](), Org: o, User: u, At: at(80), Model: "claude-ü 5.5 'x'", Provider: "anthropic",
		Tokens:     chat.Usage{Input: 1 << 33, Output: 700, CacheRead: 60, CacheCreated: 5, Searches: 4},
		Provenance: chat.Partial, Outcome: chat.ClientGone,
	})
}

// entries reads an organisation's entries of a period.
func (w *fixture) entries(o id.Org, p usage.Period) (all []usage.Entry) {
	w.Helper()
	w.ok(w.Ledger().Entries(w.ctx, o, p, collect(&all)))
	return all
}

// totals is a summary with the sums of users.
type totals struct {
	usage.Summary
	ByUser []usage.Part
}

// summary returns the totals of a period.
func (w *fixture) summary(o id.Org, user id.User, p usage.Period) (all totals, err error) {
	heads := 0
	err = w.Ledger().Summary(w.ctx, o, user, p, func(s usage.Summary) error {
		heads++
		all.Summary = s
		return nil
	}, func(of usage.Part) error {
		if heads != 1 {
			return fault.New(fault.Internal, "a user comes before the head")
		}
		all.ByUser = append(all.ByUser, of)
		return nil
	})
	if err == nil && heads != 1 {
		err = fault.New(fault.Internal, "there are %d heads", heads)
	}
	return all, err
}

// recount is the summary of those entries that the period and the user have.
func recount(all []usage.Entry, user id.User, p usage.Period) totals {
	s := totals{Summary: usage.Summary{Period: p}}
	var models, days, users = map[string]usage.Sum{}, map[string]usage.Sum{}, map[string]usage.Sum{}
	for _, e := range all {
		if e.At.Before(p.Start) || !e.At.Before(p.End) || user != "" && e.User != user {
			continue
		}
		one := usage.Sum{Input: e.Tokens.Input, Output: e.Tokens.Output, Requests: 1}
		day := e.At.UTC().Format(time.DateOnly)
		s.Sum, models[e.Model], days[day], users[string(e.User)] = s.Plus(one), models[e.Model].Plus(one), days[day].Plus(one), users[string(e.User)].Plus(one)
	}
	list := func(of map[string]usage.Sum) (parts []usage.Part) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			parts = append(parts, usage.Part{Of: name, Sum: of[name]})
		}
		return parts
	}
	s.ByModel, s.ByDay = list(models), list(days)
	if user == "" {
		s.ByUser = list(users)
	}
	return s
}

// summaryProperty lets a ledger grow beside that of another organisation, whose
// members and models are the same, and compares summaries and entries of any
// period with a recount.
func summaryProperty(w *fixture) {
	o, other := w.org().ID, w.org().ID
	users := several[id.User](4)
	first := calendar.DayOf(at(0)).Start()
	// Times gather at the bounds of days, and in the middle of them, where what a
	// summary is made of changes.
	instants := rapid.Custom(func(t *rapid.T) time.Time {
		half := rapid.IntRange(-1, 9).Draw(t, "half")
		around := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64Range(-12*3600*1000, 12*3600*1000)).Draw(t, "around")
		return first.Add(time.Duration(half)*12*time.Hour + time.Duration(around)*time.Millisecond)
	})
	draw := func(t *rapid.T) usage.Entry {
		e := someUsage(o, rapid.SampledFrom(users).Draw(t, "user"))
		e.At, e.Model = instants.Draw(t, "at"), rapid.SampledFrom([]string{"a", "b", "ä"}).Draw(t, "model")
		e.Tokens = chat.Usage{Input: rapid.Int64Range(0, 1<<40).Draw(t, "input"), Output: rapid.Int64Range(0, 1000).Draw(t, "output")}
		return e
	}
	var there []usage.Entry
	rapid.Check(w.T, func(t *rapid.T) {
		for range rapid.IntRange(0, 2).Draw(t, "added") {
			e := draw(t)
			theirs := e
			theirs.Org, theirs.Tokens.Input = other, e.Tokens.Input+1
			must.NoError(t, errors.Join(w.Ledger().Settle(w.ctx, e.Org, e), w.Ledger().Settle(w.ctx, theirs.Org, theirs)))
			there = append(there, e)
		}
		zone := rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("east", 5*3600)}).Draw(t, "zone")
		p := usage.Period{Start: instants.Draw(t, "start").In(zone), End: instants.Draw(t, "end").In(zone)}
		user := rapid.SampledFrom([]id.User{"", "", users[0], fresh[id.User]()}).Draw(t, "of")
		got := must.Do(w.summary(o, user, p)).Or(t)
		if d := diff(got, recount(there, user, p)); d != "" {
			t.Fatalf("%v of %q (-want +got):\n%s", p, user, d)
		}
		want := slices.DeleteFunc(slices.Clone(there), func(e usage.Entry) bool { return e.At.Before(p.Start) || !e.At.Before(p.End) })
		slices.SortFunc(want, func(a, b usage.Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
		var entries []usage.Entry
		must.NoError(t, w.Ledger().Entries(w.ctx, o, p, collect(&entries)))
		if d := diff(entries, want); d != "" {
			t.Fatalf("entries of %v (-want +got):\n%s", p, d)
		}
	})
}
