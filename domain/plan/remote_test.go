package plan_test

import (
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/plan"
	"collab/test/must"
)

// remote returns a subscription of the provider's.
func remote(subscription string, status plan.RemoteStatus) plan.Remote {
	seats, start, end := 3, noon.Add(-time.Hour), noon.Add(30*24*time.Hour)
	return plan.Remote{
		ID: subscription, Customer: "cus_1", Org: "o", Status: status, Plan: plan.Standard, Seats: &seats, PeriodStart: &start, PeriodEnd: &end,
		HasPaymentMethod: true,
	}
}

func TestASubscriptionFollowsTheProviders(t *testing.T) {
	for status, want := range map[plan.RemoteStatus]plan.State{
		plan.IsTrialing: plan.ProviderTrial, plan.IsActive: plan.Paying, plan.IsPastDue: plan.Owing, plan.IsUnpaid: plan.Owing, plan.IsPaused: plan.Suspended,
	} {
		for _, state := range []plan.State{plan.Unplanned, plan.OnTrial, plan.OnFree} {
			was, r := in(state), remote("sub_1", status)
			was.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
			got, result := was.Follow(r, noon)
			if result != plan.Followed || got.State() != want || got.Plan != plan.Standard || got.ProviderID != "sub_1" || got.Customer != "cus_1" ||
				*got.PurchasedSeats != 3 || got.CurrentPeriodStart != r.PeriodStart || got.CurrentPeriodEnd != r.PeriodEnd || !got.HasPaymentMethod ||
				got.Checkout != nil || got.EverPaid != (status == plan.IsActive) || !got.UpdatedAt.Equal(noon) || got.CancelAtPeriodEnd {
				t.Errorf("%s by %s: %+v, %d", state, status, got, result)
			}
		}
	}
}

func TestASubscriptionThatIsOverLeavesThePlanFree(t *testing.T) {
	for _, status := range []plan.RemoteStatus{plan.IsCanceled, plan.IsExpired} {
		for _, state := range []plan.State{plan.ProviderTrial, plan.Paying, plan.Owing, plan.Suspended} {
			was := in(state)
			was.CancelAtPeriodEnd, was.EverPaid = true, true
			got, result := was.Follow(remote("sub_1", status), noon)
			if result != plan.Followed || got.State() != plan.OnFree || got.CurrentPeriodStart != nil || got.CurrentPeriodEnd != nil || got.PurchasedSeats != nil ||
				got.CancelAtPeriodEnd || got.HasPaymentMethod || !got.EverPaid || got.ProviderID != "sub_1" || got.Customer != "cus_1" {
				t.Errorf("%s by %s: %+v, %d", state, status, got, result)
			}
			if again, _ := got.Follow(remote("sub_1", status), noon.Add(time.Hour)); again != got {
				t.Errorf("%s by %s twice: %+v", state, status, again)
			}
		}
	}
}

func TestACheckoutThatIsNotPaidYetEndsNoTrial(t *testing.T) {
	was := in(plan.OnTrial)
	was.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
	for _, status := range []plan.RemoteStatus{plan.IsIncomplete, plan.IsExpired} {
		if got, result := was.Follow(remote("sub_1", status), noon); got != was || result != plan.Followed {
			t.Errorf("%s: %+v, %d", status, got, result)
		}
	}
	for _, state := range plan.States() {
		if got, _ := in(state).Follow(remote("sub_1", plan.IsIncomplete), noon); got.State() != state {
			t.Errorf("incomplete made %s of %s", got.State(), state)
		}
	}
}

func TestASupersededSubscriptionChangesNothing(t *testing.T) {
	for _, state := range []plan.State{plan.ProviderTrial, plan.Paying, plan.Owing, plan.Suspended} {
		for _, status := range statuses {
			was := in(state)
			if got, result := was.Follow(remote("sub_2", status), noon); got != was || result != plan.Superseded {
				t.Errorf("%s by %s of another: %+v, %d", state, status, got, result)
			}
		}
	}
	over, _ := in(plan.Paying).Follow(remote("sub_1", plan.IsCanceled), noon)
	for _, status := range []plan.RemoteStatus{plan.IsCanceled, plan.IsExpired, plan.IsIncomplete} {
		if got, result := over.Follow(remote("sub_2", status), noon); got != over || result != plan.Superseded {
			t.Errorf("over by %s of another: %+v, %d", status, got, result)
		}
	}
	if got, result := over.Follow(remote("sub_2", plan.IsActive), noon); result != plan.Followed || got.State() != plan.Paying || got.ProviderID != "sub_2" {
		t.Errorf("a new one after the end: %+v, %d", got, result)
	}
}

func TestAPriceThatIsNotOursKeepsThePlan(t *testing.T) {
	r := remote("sub_1", plan.IsPastDue)
	r.Plan = plan.None
	was := in(plan.Paying)
	if got, result := was.Follow(r, noon); result != plan.UnknownPrice || got.Plan != plan.Premium || got.State() != plan.Owing || got.CurrentPeriodEnd != r.PeriodEnd {
		t.Errorf("%+v, %d", got, result)
	}
	over, _ := was.Follow(remote("sub_1", plan.IsCanceled), noon)
	for name, s := range map[string]plan.Subscription{"no plan": in(plan.Unplanned), "a trial": in(plan.OnTrial), "free": in(plan.OnFree), "over": over} {
		for _, status := range []plan.RemoteStatus{plan.IsActive, plan.IsTrialing, plan.IsPastDue, plan.IsPaused} {
			r.Status = status
			if got, result := s.Follow(r, noon); got != s || result != plan.UnknownPrice {
				t.Errorf("%s by %s: %+v, %d", name, status, got, result)
			}
		}
	}
}

func TestAnUnknownStatusChangesNothing(t *testing.T) {
	for _, state := range plan.States() {
		was := in(state)
		if got, result := was.Follow(remote("sub_1", "new"), noon); got != was || result != plan.UnknownState {
			t.Errorf("%s: %+v, %d", state, got, result)
		}
	}
}

func TestExternallyManagedSubscriptionsFollowNoProvider(t *testing.T) {
	was := in(plan.External)
	for _, status := range statuses {
		if got, _ := was.Follow(remote("sub_1", status), noon); got != was {
			t.Errorf("%s: %+v", status, got)
		}
	}
	r := remote("", plan.IsActive)
	for _, e := range []plan.Event{
		{Kind: plan.PayFailed, Subscription: was.ProviderID, At: noon}, {Kind: plan.Ended, Snapshot: &r, At: noon}, {Kind: plan.Paid, At: noon},
	} {
		if got, _ := was.Observed(e, noon); got.State() != plan.External || got.Plan != plan.Enterprise {
			t.Errorf("%+v: %+v", e, got)
		}
	}
	if got := was.RemoteMissing(noon); got != was || was.Due() != nil {
		t.Errorf("lapsed: %+v", got)
	}
	// A page from before is closed at once.
	was.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
	if due := was.Due(); due == nil || !due.Equal(was.UpdatedAt) {
		t.Errorf("the page is due at %v, and the grant was at %v", due, was.UpdatedAt)
	}
	if closed := was.WithoutCheckout("k", noon); closed.Due() != nil {
		t.Errorf("without a page it is due at %v", closed.Due())
	}
}

func TestAPaidPlanWasEverActive(t *testing.T) {
	for name, c := range map[string]struct {
		s    plan.Subscription
		want bool
	}{
		"none":    {in(plan.Unplanned), false},
		"a trial": {in(plan.OnTrial), false},
		"a trial at the provider": {func() plan.Subscription {
			s, _ := in(plan.Unplanned).Follow(remote("sub_1", plan.IsTrialing), noon)
			return s
		}(), false},
		"owing from the start": {func() plan.Subscription {
			s, _ := in(plan.Unplanned).Follow(remote("sub_1", plan.IsPastDue), noon)
			return s
		}(), false},
		"owing and paid": {func() plan.Subscription {
			s, _ := in(plan.Owing).Observed(plan.Event{Kind: plan.Paid, Subscription: "sub_1", At: noon}, noon)
			return s
		}(), true},
		"active, then over": {func() plan.Subscription {
			s, _ := in(plan.Unplanned).Follow(remote("sub_1", plan.IsActive), noon)
			s, _ = s.Follow(remote("sub_1", plan.IsCanceled), noon)
			return s
		}(), true},
		"granted":         {in(plan.External), true},
		"granted Premium": {must.Do(in(plan.Unplanned).Granted(plan.Grant{Plan: plan.Premium}, noon)).Or(t), true},
		"granted free": {func() plan.Subscription {
			s, _ := in(plan.Unplanned).Granted(plan.Grant{Plan: plan.Free}, noon)
			return s
		}(), false},
	} {
		if c.s.EverPaid != c.want {
			t.Errorf("%s: %t", name, c.s.EverPaid)
		}
	}
}

func TestATrialAtTheProviderIsATrialThatTheOrganisationHad(t *testing.T) {
	r := remote("sub_1", plan.IsTrialing)
	r.TrialEnd = r.PeriodEnd
	got, _ := in(plan.Unplanned).Follow(r, noon)
	if got.TrialEnd != r.TrialEnd || got.At(noon.Add(1000*time.Hour)).State() != plan.ProviderTrial || !got.Due().Equal(r.PeriodEnd.Add(72*time.Hour)) {
		t.Errorf("%+v", got)
	}
	r.TrialEnd = nil
	ours := in(plan.OnTrial)
	if got, _ := ours.Follow(r, noon); got.TrialEnd != ours.TrialEnd {
		t.Errorf("our own is forgotten: %+v", got)
	}
}

func TestACancellationIsScheduledAndTakenBack(t *testing.T) {
	r := remote("sub_1", plan.IsActive)
	r.CancelAtPeriodEnd = true
	s, _ := in(plan.Paying).Follow(r, noon)
	if !s.CancelAtPeriodEnd || s.State() != plan.Paying || !s.Due().Equal(r.PeriodEnd.Add(24*time.Hour)) {
		t.Errorf("scheduled: %+v, due at %v", s, s.Due())
	}
	if s, _ = s.Follow(remote("sub_1", plan.IsActive), noon); s.CancelAtPeriodEnd || !s.Due().Equal(r.PeriodEnd.Add(72*time.Hour)) {
		t.Errorf("taken back: %+v, due at %v", s, s.Due())
	}
}

func TestAnEventCountsUnlessLaterStateIsKnown(t *testing.T) {
	later := noon.Add(40 * 24 * time.Hour)
	live, dead := remote("sub_1", plan.IsActive), remote("sub_1", plan.IsCanceled)
	synced := func(state plan.State) plan.Subscription {
		s := in(state)
		s.SyncedAt = noon.Add(500 * time.Millisecond)
		return s
	}
	over, _ := in(plan.Paying).Follow(dead, noon.Add(500*time.Millisecond))
	for name, c := range map[string]struct {
		was    plan.Subscription
		e      plan.Event
		to     plan.State
		result plan.FollowResult
		synced time.Time
	}{
		"a failed payment":   {synced(plan.Paying), plan.Event{Kind: plan.PayFailed, Subscription: "sub_1", At: noon.Add(time.Second)}, plan.Owing, plan.Followed, noon.Add(time.Second)},
		"of the same second": {synced(plan.Paying), plan.Event{Kind: plan.PayFailed, Subscription: "sub_1", At: noon}, plan.Owing, plan.Followed, noon.Add(500 * time.Millisecond)},
		"of before":          {synced(plan.Paying), plan.Event{Kind: plan.PayFailed, Subscription: "sub_1", At: noon.Add(-time.Second)}, plan.Paying, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"of another":         {synced(plan.Paying), plan.Event{Kind: plan.PayFailed, Subscription: "sub_2", At: later}, plan.Paying, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"of none":            {synced(plan.OnFree), plan.Event{Kind: plan.PayFailed, At: later}, plan.OnFree, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"a payment":          {synced(plan.Owing), plan.Event{Kind: plan.Paid, Subscription: "sub_1", At: later}, plan.Paying, plan.Followed, later},
		"a snapshot":         {synced(plan.Owing), plan.Event{Kind: plan.Changed, Subscription: "sub_1", Snapshot: &live, At: later}, plan.Paying, plan.Followed, later},
		"an old snapshot":    {synced(plan.Owing), plan.Event{Kind: plan.Changed, Subscription: "sub_1", Snapshot: &live, At: noon.Add(-time.Second)}, plan.Owing, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"an end":             {synced(plan.Paying), plan.Event{Kind: plan.Ended, Subscription: "sub_1", Snapshot: &live, At: later}, plan.OnFree, plan.Followed, later},
		"an end of before":   {synced(plan.Paying), plan.Event{Kind: plan.Ended, Subscription: "sub_1", Snapshot: &dead, At: noon.Add(-time.Hour)}, plan.OnFree, plan.Followed, noon.Add(500 * time.Millisecond)},
		"a bare end":         {synced(plan.Paying), plan.Event{Kind: plan.Ended, Subscription: "sub_1", At: later}, plan.OnFree, plan.Followed, later},
		"an end of another":  {synced(plan.Paying), plan.Event{Kind: plan.Ended, Subscription: "sub_2", At: later}, plan.Paying, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"life after death":   {over, plan.Event{Kind: plan.Changed, Subscription: "sub_1", Snapshot: &live, At: later}, plan.OnFree, plan.Superseded, noon.Add(500 * time.Millisecond)},
	} {
		got, result := c.was.Observed(c.e, later)
		if got.State() != c.to || result != c.result || !got.SyncedAt.Equal(c.synced) {
			t.Errorf("%s: %s, %d, synced at %s", name, got.State(), result, got.SyncedAt)
		}
	}
}

func TestAPaymentExtendsThePeriodAndNeverShortensIt(t *testing.T) {
	was := in(plan.Owing)
	before, after := was.CurrentPeriodEnd.Add(-time.Minute), was.CurrentPeriodEnd.Add(time.Minute)
	for end, want := range map[*time.Time]time.Time{&before: *was.CurrentPeriodEnd, &after: after, nil: *was.CurrentPeriodEnd} {
		got, _ := was.Observed(plan.Event{Kind: plan.Paid, Subscription: "sub_1", At: noon, PeriodEnd: end}, noon)
		if got.State() != plan.Paying || !got.CurrentPeriodEnd.Equal(want) {
			t.Errorf("until %v: %+v", end, got)
		}
	}
}

func TestDecisionsOnAnOrder(t *testing.T) {
	page := func(p plan.Plan, session string, left time.Duration) *plan.Checkout {
		return &plan.Checkout{Key: "old", Plan: p, Session: session, URL: "https://pay", ExpiresAt: noon.Add(left)}
	}
	for name, c := range map[string]struct {
		state    plan.State
		checkout *plan.Checkout
		order    plan.CheckoutStep
		key      string
	}{
		"nothing yet":                       {plan.Unplanned, nil, plan.NewPage, "new"},
		"on trial":                          {plan.OnTrial, nil, plan.NewPage, "new"},
		"on free":                           {plan.OnFree, nil, plan.NewPage, "new"},
		"an open page":                      {plan.OnTrial, page(plan.Standard, "cs", time.Hour), plan.OpenPage, "old"},
		"a page that nobody was told of":    {plan.OnTrial, page(plan.Standard, "", -time.Hour), plan.NewPage, "old"},
		"a page that is about to close":     {plan.OnTrial, page(plan.Standard, "cs", 5*time.Minute), plan.ReplacePage, "old"},
		"a page of another plan":            {plan.OnTrial, page(plan.Premium, "cs", time.Hour), plan.ReplacePage, "old"},
		"an unanswered one of another plan": {plan.OnTrial, page(plan.Premium, "", 0), plan.ReplacePage, "old"},
		"another plan, paid":                {plan.Paying, nil, plan.ChangePlan, ""},
		"another plan, owing":               {plan.Owing, nil, plan.ChangePlan, ""},
	} {
		was := in(c.state)
		was.Checkout = c.checkout
		got, order, err := was.Ordered(plan.Standard, "new", noon)
		key := ""
		if got.Checkout != nil {
			key = got.Checkout.Key
		}
		if err != nil || order != c.order || key != c.key || got.State() != c.state {
			t.Errorf("%s: %d with %q, %v", name, order, key, err)
		}
	}
}

func TestPlansThatCannotBeOrdered(t *testing.T) {
	for state, p := range map[plan.State]plan.Plan{
		plan.External: plan.Standard, plan.Paying: plan.Premium, plan.Owing: plan.Premium, plan.ProviderTrial: plan.Premium, plan.Suspended: plan.Premium,
	} {
		was := in(state)
		if got, _, err := was.Ordered(p, "k", noon); !fault.Is(err, fault.Conflict) || got != was {
			t.Errorf("%s: %+v, %v", state, got, err)
		}
	}
	for _, p := range []plan.Plan{plan.None, plan.Free, plan.Enterprise, "", "GOLD"} {
		if _, _, err := in(plan.Unplanned).Ordered(p, "k", noon); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
	over := in(plan.OnTrial)
	if got, _, err := over.Ordered(plan.Standard, "k", *over.TrialEnd); err != nil || got.State() != plan.OnFree || got.Checkout == nil {
		t.Errorf("a trial that is over: %+v, %v", got, err)
	}
}

func TestAPageIsNotedAndTakenOffWhileItsCheckoutCounts(t *testing.T) {
	s, _, err := in(plan.Unplanned).Ordered(plan.Premium, "k", noon)
	must.NoError(t, err)
	page := plan.Checkout{Key: "k", Plan: plan.Premium, Session: "cs", URL: "https://pay", ExpiresAt: noon.Add(time.Hour)}
	opened, counts := s.WithCheckout(page, noon)
	if !counts || *opened.Checkout != page || opened.Due() != nil {
		t.Errorf("noted: %+v, %t, due at %v", opened.Checkout, counts, opened.Due())
	}
	other := page
	other.Key = "other"
	if got, counts := opened.WithCheckout(other, noon); counts || got != opened {
		t.Errorf("another's page: %+v, %t", got.Checkout, counts)
	}
	if got, counts := opened.WithCheckout(page, noon); !counts || *got.Checkout != page {
		t.Errorf("the page again: %+v, %t", got.Checkout, counts)
	}
	second := page
	second.Session, second.URL = "cs_2", "https://pay/2"
	if got, counts := opened.WithCheckout(second, noon); counts || got != opened {
		t.Errorf("a second page of the checkout: %+v, %t", got.Checkout, counts)
	}
	if got, counts := in(plan.Paying).WithCheckout(page, noon); counts || got.Checkout != nil {
		t.Errorf("a page after the payment: %+v, %t", got.Checkout, counts)
	}
	if got := opened.WithoutCheckout("other", noon); got != opened {
		t.Errorf("another's end: %+v", got.Checkout)
	}
	if got := opened.WithoutCheckout("k", noon); got.Checkout != nil {
		t.Errorf("taken off: %+v", got.Checkout)
	}
}

func TestASubscriptionUnknownToTheProviderEnds(t *testing.T) {
	for _, state := range plan.States() {
		was := in(state)
		got := was.RemoteMissing(noon)
		switch {
		case was.Billed() && got.State() != plan.OnFree:
			t.Errorf("%s lapsed into %s", state, got.State())
		case !was.Billed() && got != was:
			t.Errorf("%s lapsed: %+v", state, got)
		}
	}
}

func TestWhatAClosedOrganisationCancels(t *testing.T) {
	granted := must.Do(in(plan.Paying).Granted(plan.Grant{Plan: plan.Enterprise}, noon)).Or(t)
	for about, c := range map[string]struct {
		s    plan.Subscription
		want bool
	}{
		"billed":                        {in(plan.Paying), true},
		"owing":                         {in(plan.Owing), true},
		"granted while it was billed":   {granted, true},
		"granted without a payment":     {in(plan.External), false},
		"without a plan":                {in(plan.Unplanned), false},
		"free after a subscription":     {in(plan.Paying).RemoteMissing(noon), false},
		"granted, with an end":          {granted.Abandoned("sub_1", noon), false},
		"granted, with another's end":   {granted.Abandoned("sub_2", noon), true},
		"billed, which follows its end": {in(plan.Paying).Abandoned("sub_1", noon), true},
	} {
		if got := c.s.Cancelable(); got != c.want {
			t.Errorf("%s: %t", about, got)
		}
	}
}

func TestSubscriptionsWithoutEventsAreQueried(t *testing.T) {
	r := remote("sub_1", plan.IsActive)
	s, _ := in(plan.Unplanned).Follow(r, noon)
	due := func(want time.Time) {
		t.Helper()
		if got := s.Due(); got == nil || !got.Equal(want) {
			t.Errorf("it is due at %v, want %v", got, want)
		}
	}
	now := r.PeriodEnd.Add(3 * 24 * time.Hour)
	due(now)
	// The pauses where it does not answer.
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		s = s.Claimed(now)
		now = now.Add(pause * time.Minute)
		due(now)
	}
	// Where it says the same still.
	s, _ = s.Follow(r, now)
	due(now.Add(24 * time.Hour))
	// Where it was renewed.
	end := now.Add(20 * 24 * time.Hour)
	r.PeriodEnd = &end
	s, _ = s.Follow(r, now)
	due(end.Add(3 * 24 * time.Hour))
	for _, s := range []plan.Subscription{s.RemoteMissing(now), in(plan.Unplanned), in(plan.OnFree), in(plan.External)} {
		if s.Due() != nil {
			t.Errorf("%s is due at %v", s.State(), s.Due())
		}
	}
}
