package contract

import (
	"slices"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
	"collab/test/must"
)

// Subscriptions is the suite of ports.Subscriptions.
func Subscriptions(t *testing.T, open func(t *testing.T) Opened) {
	trial := func(o id.Org, end time.Time) plan.Subscription {
		return plan.Subscription{Org: o, Plan: plan.Standard, TrialEnd: &end}.Restore(plan.Trialing)
	}
	ending := func(o id.Org, end time.Time) plan.Subscription {
		return plan.Subscription{Org: o, Plan: plan.Premium, ProviderID: "sub_1", CurrentPeriodEnd: &end, CancelAtPeriodEnd: true}.Restore(plan.Active)
	}
	// put has subscriptions stored in their order.
	put := func(w *fixture, all ...plan.Subscription) {
		w.Helper()
		for _, s := range all {
			w.ok(w.Subscriptions().Put(w.ctx, s.Org, s))
		}
	}
	suite{
		"a subscription is returned with every field as stored": func(w *fixture) {
			o, other := w.org(), w.org()
			bare := plan.Subscription{Org: o.ID, Plan: plan.Free, UpdatedAt: at(1)}.Restore(plan.Active)
			asked := bare
			asked.Checkout = &plan.Checkout{Key: "k", Plan: plan.Premium}
			put(w, someSubscription(other.ID))
			for _, s := range []plan.Subscription{bare, someSubscription(o.ID), asked, someSubscription(o.ID), bare} {
				put(w, s)
				resultOf(w.Subscriptions().Get(w.ctx, o.ID)).is(w, storedSubscription(s))
			}
			resultOf(w.Subscriptions().Get(w.ctx, other.ID)).is(w, storedSubscription(someSubscription(other.ID)))
		},
		"each single field is returned as stored": func(w *fixture) {
			o := w.org().ID
			bare := plan.Subscription{Org: o, Plan: plan.Standard}.Restore(plan.Active)
			asked, opened := bare, bare
			asked.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
			opened.Checkout = &plan.Checkout{Key: "k", Session: "cs", ExpiresAt: at(5)}
			for _, s := range append(eachField(bare, someSubscription(o)), asked, opened) {
				put(w, s)
				resultOf(w.Subscriptions().Get(w.ctx, o)).is(w, storedSubscription(s))
			}
		},
		"every put increments the revision": func(w *fixture) {
			o := w.org().ID
			for n := range int64(4) {
				s := must.Do(w.Subscriptions().Get(w.ctx, o)).Or(w)
				wantEqual(w, s.Revision, n)
				put(w, s)
			}
		},
		"an unknown organisation gets no subscription": func(w *fixture) {
			unknown := fresh[id.Org]()
			if err := w.Subscriptions().Put(w.ctx, unknown, someSubscription(unknown)); err == nil {
				w.Fatal("no error")
			}
			resultOf(w.Subscriptions().Get(w.ctx, unknown)).is(w, plan.Unsubscribed(unknown))
			resultOf(w.Subscriptions().ByCustomer(w.ctx, someSubscription(unknown).Customer)).wantNotFound(w)
		},
		"of returns the subscription of each organisation, also without a stored one": func(w *fixture) {
			a, b, none, beside := w.org().ID, w.org().ID, w.org().ID, w.org().ID
			unknown := fresh[id.Org]()
			bare := plan.Subscription{Org: b, Plan: plan.Free, UpdatedAt: at(1)}.Restore(plan.Active)
			put(w, someSubscription(a), bare, someSubscription(beside))
			resultOf(w.Subscriptions().Of(w.ctx, nil)).is(w, nil)
			for _, o := range []id.Org{a, b, none, unknown} {
				resultOf(w.Subscriptions().Of(w.ctx, []id.Org{o})).is(w, map[id.Org]plan.Subscription{o: must.Do(w.Subscriptions().Get(w.ctx, o)).Or(w)})
			}
			resultOf(w.Subscriptions().Of(w.ctx, []id.Org{unknown, b, a, b, none})).is(w, map[id.Org]plan.Subscription{
				a: storedSubscription(someSubscription(a)), b: storedSubscription(bare), none: plan.Unsubscribed(none), unknown: plan.Unsubscribed(unknown),
			})
		},
		"a transaction sees its own writes, and a rollback undoes them": func(w *fixture) {
			a, b := w.org().ID, w.org().ID
			put(w, someSubscription(a))
			other := func(o id.Org) plan.Subscription { return someSubscription(o).Restore("OTHER") }
			checkRollback(w, func(in *fixture) {
				put(in, other(a), other(b))
				resultOf(in.Subscriptions().ByCustomer(w.ctx, someSubscription(b).Customer)).is(in, b)
				put(in, trial(b, at(-1_000_000)))
			}, func(in *fixture) []any {
				all := must.Do(in.Subscriptions().Of(w.ctx, []id.Org{a, b})).Or(in)
				byA, byB := resultOf(in.Subscriptions().ByCustomer(w.ctx, someSubscription(a).Customer)), resultOf(in.Subscriptions().ByCustomer(w.ctx, someSubscription(b).Customer))
				return []any{all, orZero(in, byA), orZero(in, byB), dueOf(in, []id.Org{b}, at(0))}
			}, []any{map[id.Org]plan.Subscription{a: storedSubscription(other(a)), b: storedSubscription(trial(b, at(-1_000_000)))}, a, id.Org(""), []id.Org{b}})
		},
		"an organisation is found by its customer, compared exactly": func(w *fixture) {
			a, b, none := w.org().ID, w.org().ID, w.org().ID
			sub := plan.Subscription{Org: none, Plan: plan.Free}.Restore(plan.Active)
			put(w, someSubscription(a), someSubscription(b), sub)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, "cus_"+string(a))).is(w, a)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, "cus_"+string(b))).is(w, b)
			for _, unknown := range []string{"", " ", "cus_" + string(none), "CUS_" + string(a), "cus_" + string(a) + " ", "cus_%"} {
				resultOf(w.Subscriptions().ByCustomer(w.ctx, unknown)).wantNotFound(w)
			}
		},
		"a changed customer is found only by the new id": func(w *fixture) {
			a, b := w.org().ID, w.org().ID
			was := someSubscription(a)
			is := was
			is.Customer = "cus_new_" + string(a)
			put(w, was, is)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, is.Customer)).is(w, a)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, was.Customer)).wantNotFound(w)
			other := someSubscription(b)
			other.Customer = was.Customer
			put(w, other)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, was.Customer)).is(w, b)
		},
		"another organisation's customer is a conflict that changes nothing": func(w *fixture) {
			a, b := w.org().ID, w.org().ID
			put(w, someSubscription(a), someSubscription(b))
			taken := someSubscription(b).Restore("OTHER")
			taken.Customer = someSubscription(a).Customer
			w.wantConflict(w.Subscriptions().Put(w.ctx, b, taken))
			resultOf(w.Subscriptions().Of(w.ctx, []id.Org{a, b})).is(w, map[id.Org]plan.Subscription{a: storedSubscription(someSubscription(a)), b: storedSubscription(someSubscription(b))})
			resultOf(w.Subscriptions().ByCustomer(w.ctx, taken.Customer)).is(w, a)
			put(w, someSubscription(a)) // one's own is none
			w.atomic(func(r ports.Records) error {
				w.wantConflict(r.Directory().Subscriptions().Put(w.ctx, b, taken))
				return r.Directory().Subscriptions().Put(w.ctx, b, someSubscription(b))
			})
		},
		"of concurrent puts of one customer one succeeds": func(w *fixture) {
			customer, orgs := "cus_"+nextID(), make([]id.Org, 8)
			for i := range orgs {
				orgs[i] = w.org().ID
			}
			errs := concurrently(len(orgs), func(i int) error {
				s := someSubscription(orgs[i])
				s.Customer = customer
				return w.Subscriptions().Put(w.ctx, orgs[i], s)
			})
			resultOf(w.Subscriptions().ByCustomer(w.ctx, customer)).is(w, orgs[w.wantOneSuccess(errs, fault.Conflict)])
		},
		"an erased organisation's customer is free": func(w *fixture) {
			tn, o := w.tenant(), w.org().ID
			w.erase(tn.ID, at(300))
			s := someSubscription(o)
			s.Customer = someSubscription(tn.ID).Customer
			put(w, s)
			resultOf(w.Subscriptions().ByCustomer(w.ctx, s.Customer)).is(w, o)
		},
		"due returns expired trials and periods, overdue cancellations, and pages of granted ones, those due for longest first": func(w *fixture) {
			orgs := make([]id.Org, 12)
			for i := range orgs {
				orgs[i] = w.org().ID
			}
			// Long before all times of other tests.
			day := func(n int) time.Time { return time.Date(1990, 1, n, 0, 0, 0, 0, time.UTC) }
			external, running, paid := trial(orgs[6], day(1)), ending(orgs[7], day(1)), someSubscription(orgs[8])
			external.ManagedExternally, running.CancelAtPeriodEnd = true, false
			paid.ManagedExternally, paid.CancelAtPeriodEnd = false, false
			granted, later := someSubscription(orgs[10]), someSubscription(orgs[11])
			granted.UpdatedAt, later.UpdatedAt = day(6), day(9).Add(time.Millisecond)
			over := plan.Subscription{Org: orgs[9], Plan: plan.Free, TrialEnd: new(day(1))}.Restore(plan.Active)
			put(w, trial(orgs[3], day(5)), trial(orgs[1], day(4)), trial(orgs[0], day(4)), trial(orgs[4], day(9).Add(time.Millisecond)),
				ending(orgs[2], day(2)), ending(orgs[5], day(8)), external, running, paid, over, granted, later)
			closed := must.Do(w.Organisations().Get(w.ctx, orgs[3])).Or(w)
			must.Do(w.Organisations().Upsert(w.ctx, closed, func(o org.Organisation) (org.Organisation, error) { return o.Close(at(200)), nil })).Or(w)

			want := []id.Org{orgs[2], orgs[0], orgs[1], orgs[7], orgs[3], orgs[10], orgs[5]}
			wantEqual(w, dueOf(w, orgs, day(9)), want)
			for limit := range len(want) + 1 {
				page := must.Do(w.Subscriptions().Due(w.ctx, day(9), limit)).Or(w)
				if len(page) != limit {
					w.Fatalf("%d are due, want %d", len(page), limit)
				}
				mine := among(page, orgs)
				wantEqual(w, mine, want[:len(mine)])
			}
			// Those that were looked after are due no more.
			for _, o := range want {
				put(w, must.Do(w.Subscriptions().Get(w.ctx, o)).Or(w).At(day(9)).RemoteMissing(day(9)).WithoutCheckout(granted.Checkout.Key, day(9)))
			}
			wantEqual(w, dueOf(w, orgs, day(9)), nil)
		},
		"a claimed subscription is due after a pause": func(w *fixture) {
			o, end := w.org().ID, time.Date(1985, 1, 1, 0, 0, 0, 0, time.UTC)
			due := *ending(o, end).Due()
			put(w, ending(o, end).Claimed(due))
			next := due.Add(5 * time.Minute)
			wantEqual(w, dueOf(w, []id.Org{o}, next.Add(-time.Millisecond)), nil)
			wantEqual(w, dueOf(w, []id.Org{o}, next), []id.Org{o})
		},
		"a subscription is due at its time and not before": func(w *fixture) {
			o, end := w.org().ID, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
			put(w, trial(o, end))
			wantEqual(w, dueOf(w, []id.Org{o}, end.Add(-time.Millisecond)), nil)
			wantEqual(w, dueOf(w, []id.Org{o}, end), []id.Org{o})
			w.erase(o, at(300))
			wantEqual(w, dueOf(w, []id.Org{o}, end), nil)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			s := someSubscription(w.org().ID)
			given := copied(s)
			put(w, given)
			spoil(given)
			keepsNothing(w, storedSubscription(s), nil,
				func() plan.Subscription { return must.Do(w.Subscriptions().Get(w.ctx, s.Org)).Or(w) },
				func() plan.Subscription { return must.Do(w.Subscriptions().Of(w.ctx, []id.Org{s.Org})).Or(w)[s.Org] })
		},
	}.run(t, open)
}

// dueOf returns those of the organisations that are due.
func dueOf(w *fixture, orgs []id.Org, now time.Time) []id.Org {
	w.Helper()
	return among(must.Do(w.Subscriptions().Due(w.ctx, now, 1000)).Or(w), orgs)
}

// among returns those of all that are wanted, in their order.
func among(all, wanted []id.Org) []id.Org {
	return slices.DeleteFunc(slices.Clone(all), func(o id.Org) bool { return !slices.Contains(wanted, o) })
}
