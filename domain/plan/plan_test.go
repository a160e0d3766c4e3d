package plan_test

import (
	"errors"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/plan"
	"collab/test/must"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestLimitsOfPlans(t *testing.T) {
	for p, want := range map[plan.Plan]plan.Limits{
		plan.None:       {DailyTokens: 0, Members: 1},
		plan.Free:       {DailyTokens: 1_000_000, Members: 1},
		plan.Standard:   {DailyTokens: 2_000_000, Members: 1},
		plan.Premium:    {DailyTokens: 10_000_000, Members: plan.Unlimited},
		plan.Enterprise: {DailyTokens: 10_000_000, Members: plan.Unlimited},
		"GOLD":          {DailyTokens: 0, Members: 1},
	} {
		if got := p.Limits(); got != want {
			t.Errorf("%s allows %+v, want %+v", p, got, want)
		}
	}
}

func TestAnOrganisationStartsWithoutAPlan(t *testing.T) {
	s := plan.Unsubscribed("o")
	if s.Plan != plan.None || s.Status() != plan.Canceled || s.ManagedExternally {
		t.Errorf("got %+v", s)
	}
}

func TestAnOperatorGrantsAnyPlan(t *testing.T) {
	seats, end := 12, noon.Add(time.Hour)
	for _, p := range []plan.Plan{plan.None, plan.Free, plan.Standard, plan.Premium, plan.Enterprise} {
		got, err := plan.Unsubscribed("o").Granted(plan.Grant{Plan: p, Seats: &seats, PeriodEnd: &end}, noon)
		if err != nil || got.Org != "o" || got.Plan != p || got.Status() != plan.Active || !got.ManagedExternally ||
			*got.PurchasedSeats != 12 || !got.CurrentPeriodStart.Equal(noon) || !got.CurrentPeriodEnd.Equal(end) {
			t.Errorf("%s: %+v, %v", p, got, err)
		}
	}
	got, err := plan.Unsubscribed("o").Granted(plan.Grant{Plan: plan.Premium}, noon)
	if err != nil || got.PurchasedSeats != nil || got.CurrentPeriodEnd != nil {
		t.Errorf("without seats and end: %+v, %v", got, err)
	}
}

func TestAnInvalidGrantNamesTheFieldAndChangesNothing(t *testing.T) {
	number := func(n int) *int { return &n }
	for field, g := range map[string]plan.Grant{
		"plan":             {Plan: "GOLD"},
		"seats":            {Plan: plan.Premium, Seats: number(0)},
		"currentPeriodEnd": {Plan: plan.Premium, PeriodEnd: &noon},
	} {
		was := plan.Unsubscribed("o")
		got, err := was.Granted(g, noon)
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.Invalid || e.Problems[0].Field != field || got != was {
			t.Errorf("%s: %+v, %v", field, got, err)
		}
	}
	// More seats than people.
	must.Fail(t, must.ErrorOf(plan.Unsubscribed("o").Granted(plan.Grant{Plan: plan.Premium, Seats: number(1_000_001)}, noon)), fault.Invalid)
}

func TestChatAllowancesOfPlans(t *testing.T) {
	allowing := map[plan.Status]bool{plan.Trialing: true, plan.Active: true, plan.PastDue: true, plan.Canceled: false, plan.Paused: false, "": false}
	for p, tokens := range map[plan.Plan]int64{plan.None: 0, plan.Free: 1_000_000, plan.Standard: 2_000_000, plan.Premium: 10_000_000, plan.Enterprise: 10_000_000} {
		for status, allows := range allowing {
			s := plan.Subscription{Org: "o", Plan: p}.Restore(status)
			allowed, daily := allows && p != plan.None, int64(0)
			if allowed {
				daily = tokens
			}
			if active := allowed && status != plan.PastDue; s.HasActivePlan() != active {
				t.Errorf("%s, %s: the plan is active: %v", p, status, !active)
			}
			if s.Allowed() != allowed || s.DailyTokens() != daily {
				t.Errorf("%s, %s: %v with %d tokens, want %v with %d", p, status, s.Allowed(), s.DailyTokens(), allowed, daily)
			}
		}
	}
	if s := plan.Unsubscribed("o"); s.Allowed() || s.DailyTokens() != 0 {
		t.Errorf("without a plan: %v with %d tokens", s.Allowed(), s.DailyTokens())
	}
}
