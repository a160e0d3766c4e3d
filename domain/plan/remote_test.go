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
		plan.RemoteStatusTrialing: plan.StateProviderTrial, plan.RemoteStatusActive: plan.StateActive, plan.RemoteStatusPastDue: plan.StatePastDue, plan.RemoteStatusUnpaid: plan.StatePastDue, plan.RemoteStatusPaused: plan.StatePaused,
	} {
		for _, state := range []plan.State{plan.StateNoPlan, plan.StateTrial, plan.StateFree} {
			was, r := in(state), remote("sub_1", status)
			was.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
			got, result := was.Follow(r, noon)
			if result != plan.Followed || got.State() != want || got.Plan != plan.Standard || got.ProviderID != "sub_1" || got.Customer != "cus_1" ||
				*got.PurchasedSeats != 3 || got.CurrentPeriodStart != r.PeriodStart || got.CurrentPeriodEnd != r.PeriodEnd || !got.HasPaymentMethod ||
				got.Checkout != nil || got.EverPaid != (status == plan.RemoteStatusActive) || !got.UpdatedAt.Equal(noon) || got.CancelAtPeriodEnd {
				t.Errorf("%s by %s: %+v, %d", state, status, got, result)
			}
		}
	}
}

func TestASubscriptionThatIsOverLeavesThePlanFree(t *testing.T) {
	for _, status := range []plan.RemoteStatus{plan.RemoteStatusCanceled, plan.RemoteStatusIncompleteExpired} {
		for _, state := range []plan.State{plan.StateProviderTrial, plan.StateActive, plan.StatePastDue, plan.StatePaused} {
			was := in(state)
			was.CancelAtPeriodEnd, was.EverPaid = true, true
			got, result := was.Follow(remote("sub_1", status), noon)
			if result != plan.Followed || got.State() != plan.StateFree || got.CurrentPeriodStart != nil || got.CurrentPeriodEnd != nil || got.PurchasedSeats != nil ||
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
	was := in(plan.StateTrial)
	was.Checkout = &plan.Checkout{Key: "k", Plan: plan.Standard}
	for _, status := range []plan.RemoteStatus{plan.RemoteStatusIncomplete, plan.RemoteStatusIncompleteExpired} {
		if got, result := was.Follow(remote("sub_1", status), noon); got != was || result != plan.Followed {
			t.Errorf("%s: %+v, %d", status, got, result)
		}
	}
	for _, state := range plan.States() {
		if got, _ := in(state).Follow(remote("sub_1", plan.RemoteStatusIncomplete), noon); got.State() != state {
			t.Errorf("incomplete made %s of %s", got.State(), state)
		}
	}
}

func TestASupersededSubscriptionChangesNothing(t *testing.T) {
	for _, state := range []plan.State{plan.StateProviderTrial, plan.StateActive, plan.StatePastDue, plan.StatePaused} {
		for _, status := range statuses {
			was := in(state)
			if got, result := was.Follow(remote("sub_2", status), noon); got != was || result != plan.Superseded {
				t.Errorf("%s by %s of another: %+v, %d", state, status, got, result)
			}
		}
	}
	over, _ := in(plan.StateActive).Follow(remote("sub_1", plan.RemoteStatusCanceled), noon)
	for _, status := range []plan.RemoteStatus{plan.RemoteStatusCanceled, plan.RemoteStatusIncompleteExpired, plan.RemoteStatusIncomplete} {
		if got, result := over.Follow(remote("sub_2", status), noon); got != over || result != plan.Superseded {
			t.Errorf("over by %s of another: %+v, %d", status, got, result)
		}
	}
	if got, result := over.Follow(remote("sub_2", plan.RemoteStatusActive), noon); result != plan.Followed || got.State() != plan.StateActive || got.ProviderID != "sub_2" {
		t.Errorf("a new one after the end: %+v, %d", got, result)
	}
}

func TestAPriceThatIsNotOursKeepsThePlan(t *testing.T) {
	r := remote("sub_1", plan.RemoteStatusPastDue)
	r.Plan = plan.None
	was := in(plan.StateActive)
	if got, result := was.Follow(r, noon); result != plan.UnknownPrice || got.Plan != plan.Premium || got.State() != plan.StatePastDue || got.CurrentPeriodEnd != r.PeriodEnd {
		t.Errorf("%+v, %d", got, result)
	}
	over, _ := was.Follow(remote("sub_1", plan.RemoteStatusCanceled), noon)
	for name, s := range map[string]plan.Subscription{"no plan": in(plan.StateNoPlan), "a trial": in(plan.StateTrial), "free": in(plan.StateFree), "over": over} {
		for _, status := range []plan.RemoteStatus{plan.RemoteStatusActive, plan.RemoteStatusTrialing, plan.RemoteStatusPastDue, plan.RemoteStatusPaused} {
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
	was := in(plan.StateExternal)
	for _, status := range statuses {
		if got, _ := was.Follow(remote("sub_1", status), noon); got != was {
			t.Errorf("%s: %+v", status, got)
		}
	}
	r := remote("", plan.RemoteStatusActive)
	for _, e := range []plan.Event{
		{Kind: plan.InvoiceFailed, Subscription: was.ProviderID, At: noon}, {Kind: plan.SubscriptionEnded, Snapshot: &r, At: noon}, {Kind: plan.InvoicePaid, At: noon},
	} {
		if got, _ := was.Observed(e, noon); got.State() != plan.StateExternal || got.Plan != plan.Enterprise {
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
		"none":    {in(plan.StateNoPlan), false},
		"a trial": {in(plan.StateTrial), false},
		"a trial at the provider": {func() plan.Subscription {
			s, _ := in(plan.StateNoPlan).Follow(remote("sub_1", plan.RemoteStatusTrialing), noon)
			return s
		}(), false},
		"owing from the start": {func() plan.Subscription {
			s, _ := in(plan.StateNoPlan).Follow(remote("sub_1", plan.RemoteStatusPastDue), noon)
			return s
		}(), false},
		"owing and paid": {func() plan.Subscription {
			s, _ := in(plan.StatePastDue).Observed(plan.Event{Kind: plan.InvoicePaid, Subscription: "sub_1", At: noon}, noon)
			return s
		}(), true},
		"active, then over": {func() plan.Subscription {
			s, _ := in(plan.StateNoPlan).Follow(remote("sub_1", plan.RemoteStatusActive), noon)
			s, _ = s.Follow(remote("sub_1", plan.RemoteStatusCanceled), noon)
			return s
		}(), true},
		"granted":         {in(plan.StateExternal), true},
		"granted Premium": {must.Do(in(plan.StateNoPlan).Granted(plan.Grant{Plan: plan.Premium}, noon)).Or(t), true},
		"granted free": {func() plan.Subscription {
			s, _ := in(plan.StateNoPlan).Granted(plan.Grant{Plan: plan.Free}, noon)
			return s
		}(), false},
	} {
		if c.s.EverPaid != c.want {
			t.Errorf("%s: %t", name, c.s.EverPaid)
		}
	}
}

func TestATrialAtTheProviderIsATrialThatTheOrganisationHad(t *testing.T) {
	r := remote("sub_1", plan.RemoteStatusTrialing)
	r.TrialEnd = r.PeriodEnd
	got, _ := in(plan.StateNoPlan).Follow(r, noon)
	if got.TrialEnd != r.TrialEnd || got.At(noon.Add(1000*time.Hour)).State() != plan.StateProviderTrial || !got.Due().Equal(r.PeriodEnd.Add(72*time.Hour)) {
		t.Errorf("%+v", got)
	}
	r.TrialEnd = nil
	ours := in(plan.StateTrial)
	if got, _ := ours.Follow(r, noon); got.TrialEnd != ours.TrialEnd {
		t.Errorf("our own is forgotten: %+v", got)
	}
}

func TestACancellationIsScheduledAndTakenBack(t *testing.T) {
	r := remote("sub_1", plan.RemoteStatusActive)
	r.CancelAtPeriodEnd = true
	s, _ := in(plan.StateActive).Follow(r, noon)
	if !s.CancelAtPeriodEnd || s.State() != plan.StateActive || !s.Due().Equal(r.PeriodEnd.Add(24*time.Hour)) {
		t.Errorf("scheduled: %+v, due at %v", s, s.Due())
	}
	if s, _ = s.Follow(remote("sub_1", plan.RemoteStatusActive), noon); s.CancelAtPeriodEnd || !s.Due().Equal(r.PeriodEnd.Add(72*time.Hour)) {
		t.Errorf("taken back: %+v, due at %v", s, s.Due())
	}
}

func TestAnEventCountsUnlessLaterStateIsKnown(t *testing.T) {
	later := noon.Add(40 * 24 * time.Hour)
	live, dead := remote("sub_1", plan.RemoteStatusActive), remote("sub_1", plan.RemoteStatusCanceled)
	synced := func(state plan.State) plan.Subscription {
		s := in(state)
		s.SyncedAt = noon.Add(500 * time.Millisecond)
		return s
	}
	over, _ := in(plan.StateActive).Follow(dead, noon.Add(500*time.Millisecond))
	for name, c := range map[string]struct {
		was    plan.Subscription
		e      plan.Event
		to     plan.State
		result plan.FollowResult
		synced time.Time
	}{
		"a failed payment":   {synced(plan.StateActive), plan.Event{Kind: plan.InvoiceFailed, Subscription: "sub_1", At: noon.Add(time.Second)}, plan.StatePastDue, plan.Followed, noon.Add(time.Second)},
		"of the same second": {synced(plan.StateActive), plan.Event{Kind: plan.InvoiceFailed, Subscription: "sub_1", At: noon}, plan.StatePastDue, plan.Followed, noon.Add(500 * time.Millisecond)},
		"of before":          {synced(plan.StateActive), plan.Event{Kind: plan.InvoiceFailed, Subscription: "sub_1", At: noon.Add(-time.Second)}, plan.StateActive, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"of another":         {synced(plan.StateActive), plan.Event{Kind: plan.InvoiceFailed, Subscription: "sub_2", At: later}, plan.StateActive, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"of none":            {synced(plan.StateFree), plan.Event{Kind: plan.InvoiceFailed, At: later}, plan.StateFree, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"a payment":          {synced(plan.StatePastDue), plan.Event{Kind: plan.InvoicePaid, Subscription: "sub_1", At: later}, plan.StateActive, plan.Followed, later},
		"a snapshot":         {synced(plan.StatePastDue), plan.Event{Kind: plan.SubscriptionChanged, Subscription: "sub_1", Snapshot: &live, At: later}, plan.StateActive, plan.Followed, later},
		"an old snapshot":    {synced(plan.StatePastDue), plan.Event{Kind: plan.SubscriptionChanged, Subscription: "sub_1", Snapshot: &live, At: noon.Add(-time.Second)}, plan.StatePastDue, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"an end":             {synced(plan.StateActive), plan.Event{Kind: plan.SubscriptionEnded, Subscription: "sub_1", Snapshot: &live, At: later}, plan.StateFree, plan.Followed, later},
		"an end of before":   {synced(plan.StateActive), plan.Event{Kind: plan.SubscriptionEnded, Subscription: "sub_1", Snapshot: &dead, At: noon.Add(-time.Hour)}, plan.StateFree, plan.Followed, noon.Add(500 * time.Millisecond)},
		"a bare end":         {synced(plan.StateActive), plan.Event{Kind: plan.SubscriptionEnded, Subscription: "sub_1", At: later}, plan.StateFree, plan.Followed, later},
		"an end of another":  {synced(plan.StateActive), plan.Event{Kind: plan.SubscriptionEnded, Subscription: "sub_2", At: later}, plan.StateActive, plan.Superseded, noon.Add(500 * time.Millisecond)},
		"life after death":   {over, plan.Event{Kind: plan.SubscriptionChanged, Subscription: "sub_1", Snapshot: &live, At: later}, plan.StateFree, plan.Superseded, noon.Add(500 * time.Millisecond)},
	} {
		got, result := c.was.Observed(c.e, later)
		if got.State() != c.to || result != c.result || !got.SyncedAt.Equal(c.synced) {
			t.Errorf("%s: %s, %d, synced at %s", name, got.State(), result, got.SyncedAt)
		}
	}
}

func TestAPaymentExtendsThePeriodAndNeverShortensIt(t *testing.T) {
	was := in(plan.StatePastDue)
	before, after := was.CurrentPeriodEnd.Add(-time.Minute), was.CurrentPeriodEnd.Add(time.Minute)
	for end, want := range map[*time.Time]time.Time{&before: *was.CurrentPeriodEnd, &after: after, nil: *was.CurrentPeriodEnd} {
		got, _ := was.Observed(plan.Event{Kind: plan.InvoicePaid, Subscription: "sub_1", At: noon, PeriodEnd: end}, noon)
		if got.State() != plan.StateActive || !got.CurrentPeriodEnd.Equal(want) {
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
		"nothing yet":                       {plan.StateNoPlan, nil, plan.NewPage, "new"},
		"on trial":                          {plan.StateTrial, nil, plan.NewPage, "new"},
		"on free":                           {plan.StateFree, nil, plan.NewPage, "new"},
		"an open page":                      {plan.StateTrial, page(plan.Standard, "cs", time.Hour), plan.OpenPage, "old"},
		"a page that nobody was told of":    {plan.StateTrial, page(plan.Standard, "", -time.Hour), plan.NewPage, "old"},
		"a page that is about to close":     {plan.StateTrial, page(plan.Standard, "cs", 5*time.Minute), plan.ReplacePage, "old"},
		"a page of another plan":            {plan.StateTrial, page(plan.Premium, "cs", time.Hour), plan.ReplacePage, "old"},
		"an unanswered one of another plan": {plan.StateTrial, page(plan.Premium, "", 0), plan.ReplacePage, "old"},
		"another plan, paid":                {plan.StateActive, nil, plan.ChangePlan, ""},
		"another plan, owing":               {plan.StatePastDue, nil, plan.ChangePlan, ""},
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
		plan.StateExternal: plan.Standard, plan.StateActive: plan.Premium, plan.StatePastDue: plan.Premium, plan.StateProviderTrial: plan.Premium, plan.StatePaused: plan.Premium,
	} {
		was := in(state)
		if got, _, err := was.Ordered(p, "k", noon); !fault.Is(err, fault.Conflict) || got != was {
			t.Errorf("%s: %+v, %v", state, got, err)
		}
	}
	for _, p := range []plan.Plan{plan.None, plan.Free, plan.Enterprise, "", "GOLD"} {
		if _, _, err := in(plan.StateNoPlan).Ordered(p, "k", noon); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
	over := in(plan.StateTrial)
	if got, _, err := over.Ordered(plan.Standard, "k", *over.TrialEnd); err != nil || got.State() != plan.StateFree || got.Checkout == nil {
		t.Errorf("a trial that is over: %+v, %v", got, err)
	}
}

func TestAPageIsSetAndRemovedOnlyForItsCheckout(t *testing.T) {
	s, _, err := in(plan.StateNoPlan).Ordered(plan.Premium, "k", noon)
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
	if got, counts := in(plan.StateActive).WithCheckout(page, noon); counts || got.Checkout != nil {
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
		case was.Billed() && got.State() != plan.StateFree:
			t.Errorf("%s lapsed into %s", state, got.State())
		case !was.Billed() && got != was:
			t.Errorf("%s lapsed: %+v", state, got)
		}
	}
}

func TestWhatAClosedOrganisationCancels(t *testing.T) {
	granted := must.Do(in(plan.StateActive).Granted(plan.Grant{Plan: plan.Enterprise}, noon)).Or(t)
	for about, c := range map[string]struct {
		s    plan.Subscription
		want bool
	}{
		"billed":                        {in(plan.StateActive), true},
		"owing":                         {in(plan.StatePastDue), true},
		"granted while it was billed":   {granted, true},
		"granted without a payment":     {in(plan.StateExternal), false},
		"without a plan":                {in(plan.StateNoPlan), false},
		"free after a subscription":     {in(plan.StateActive).RemoteMissing(noon), false},
		"granted, with an end":          {granted.EndedWhileExternal("sub_1", noon), false},
		"granted, with another's end":   {granted.EndedWhileExternal("sub_2", noon), true},
		"billed, which follows its end": {in(plan.StateActive).EndedWhileExternal("sub_1", noon), true},
	} {
		if got := c.s.Cancelable(); got != c.want {
			t.Errorf("%s: %t", about, got)
		}
	}
}

func TestSubscriptionsWithoutEventsAreQueried(t *testing.T) {
	r := remote("sub_1", plan.RemoteStatusActive)
	s, _ := in(plan.StateNoPlan).Follow(r, noon)
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
	for _, s := range []plan.Subscription{s.RemoteMissing(now), in(plan.StateNoPlan), in(plan.StateFree), in(plan.StateExternal)} {
		if s.Due() != nil {
			t.Errorf("%s is due at %v", s.State(), s.Due())
		}
	}
}
