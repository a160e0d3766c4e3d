package plan_test

import (
	"slices"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/plan"
	"collab/test/must"
)

// in returns a subscription in a state.
func in(state plan.State) plan.Subscription {
	later := noon.Add(time.Hour)
	s := plan.Subscription{Org: "o", Plan: plan.Standard, UpdatedAt: noon}
	billed := func(status plan.Status) plan.Subscription {
		s.Plan, s.ProviderID, s.Customer, s.CurrentPeriodStart, s.CurrentPeriodEnd = plan.Premium, "sub_1", "cus_1", &noon, &later
		s.HasPaymentMethod = true
		return s.Restore(status)
	}
	switch state {
	case plan.StateTrial:
		s, _ = plan.Unsubscribed("o").Trialed(noon)
		return s
	case plan.StateProviderTrial:
		return billed(plan.Trialing)
	case plan.StateFree:
		s.Plan = plan.Free
		return s.Restore(plan.Active)
	case plan.StateActive:
		return billed(plan.Active)
	case plan.StatePastDue:
		return billed(plan.PastDue)
	case plan.StatePaused:
		return billed(plan.Paused)
	case plan.StateExternal:
		s, _ = s.Granted(plan.Grant{Plan: plan.Enterprise}, noon)
		return s
	}
	return plan.Unsubscribed("o")
}

// rows are the rows of the table by what they are about.
func rows() map[plan.Trigger]map[plan.State][]plan.Transition {
	all := map[plan.Trigger]map[plan.State][]plan.Transition{}
	for _, t := range plan.Table() {
		if all[t.Trigger] == nil {
			all[t.Trigger] = map[plan.State][]plan.Transition{}
		}
		for _, from := range t.From {
			all[t.Trigger][from] = append(all[t.Trigger][from], t)
		}
	}
	return all
}

// after is where a trigger leads according to the table, "" where it is refused.
func after(from plan.State, by plan.Trigger) plan.State {
	switch t := rows()[by][from][0]; t.To {
	case "unchanged":
		return from
	default:
		return t.To
	}
}

func TestEveryStateMeetsEveryTriggerInExactlyOneRow(t *testing.T) {
	for by, of := range rows() {
		for _, from := range plan.States() {
			if n := len(of[from]); n != 1 {
				t.Errorf("%s meets %q in %d rows", from, by, n)
			}
		}
	}
	for _, row := range plan.Table() {
		if refused := row.Refusal != ""; refused != (row.To == "") {
			t.Errorf("%v by %q has the refusal %q and leads to %q", row.From, row.Trigger, row.Refusal, row.To)
		}
		if row.To != "" && row.To != "unchanged" && !slices.Contains(plan.States(), row.To) {
			t.Errorf("%v by %q leads to %q, which is no state", row.From, row.Trigger, row.To)
		}
	}
}

func TestEveryRowOfTheSpecificationIsInTheTable(t *testing.T) {
	unmanaged := slices.DeleteFunc(plan.States(), func(s plan.State) bool { return s == plan.StateExternal })
	for _, row := range []struct {
		from []plan.State
		by   plan.Trigger
		to   plan.State
	}{
		{[]plan.State{plan.StateNoPlan}, plan.StartTrial, plan.StateTrial},
		{[]plan.State{plan.StateTrial}, plan.EndTrial, plan.StateFree},
		{[]plan.State{plan.StateTrial, plan.StateNoPlan}, plan.RemoteActive, plan.StateActive},
		{[]plan.State{plan.StateTrial}, plan.Downgrade, plan.StateFree},
		{[]plan.State{plan.StateActive}, plan.Downgrade, plan.StateActive},
		{unmanaged, plan.RemoteCanceled, plan.StateFree},
		{unmanaged, plan.RemotePastDue, plan.StatePastDue},
		{[]plan.State{plan.StateProviderTrial, plan.StateActive, plan.StatePastDue, plan.StatePaused}, plan.PaymentFailed, plan.StatePastDue},
		{[]plan.State{plan.StatePastDue}, plan.PaymentReceived, plan.StateActive},
		{unmanaged, plan.RemoteActive, plan.StateActive},
	} {
		for _, from := range row.from {
			if got := after(from, row.by); got != row.to {
				t.Errorf("%s by %q leads to %q, want %q", from, row.by, got, row.to)
			}
		}
	}
}

func TestTransitionsFollowTheTable(t *testing.T) {
	type move func(plan.Subscription) (plan.Subscription, error)
	follow := func(status plan.RemoteStatus) move {
		return func(s plan.Subscription) (plan.Subscription, error) {
			s, _ = s.Follow(remote("sub_1", status), noon.Add(time.Hour)) // which is for STANDARD
			return s, nil
		}
	}
	synced := func(e plan.Event) move {
		e.Subscription, e.Customer, e.At = "sub_1", "cus_1", noon.Add(time.Hour)
		return func(s plan.Subscription) (plan.Subscription, error) {
			s, _ = s.Observed(e, e.At)
			return s, nil
		}
	}
	live := remote("sub_1", plan.RemoteStatusActive)
	for _, c := range []struct {
		by plan.Trigger
		do move
		to plan.Plan // unless it stays what it is; empty: the one that it was
	}{
		{plan.StartTrial, func(s plan.Subscription) (plan.Subscription, error) { return s.Trialed(noon) }, plan.Standard},
		{plan.EndTrial, func(s plan.Subscription) (plan.Subscription, error) { return s.At(noon.Add(plan.TrialLength)), nil }, plan.Free},
		{plan.RemoteTrial, follow(plan.RemoteStatusTrialing), plan.Standard},
		{plan.RemoteActive, follow(plan.RemoteStatusActive), plan.Standard},
		{plan.RemotePastDue, follow(plan.RemoteStatusPastDue), plan.Standard},
		{plan.RemotePastDue, follow(plan.RemoteStatusUnpaid), plan.Standard},
		{plan.RemotePaused, follow(plan.RemoteStatusPaused), plan.Standard},
		{plan.RemoteCanceled, follow(plan.RemoteStatusCanceled), plan.Free},
		{plan.RemoteCanceled, synced(plan.Event{Kind: plan.SubscriptionEnded, Snapshot: &live}), plan.Free},
		{plan.RemoteExpired, follow(plan.RemoteStatusIncompleteExpired), plan.Free},
		{plan.RemoteIncomplete, follow(plan.RemoteStatusIncomplete), ""},
		{plan.PaymentFailed, synced(plan.Event{Kind: plan.InvoiceFailed}), ""},
		{plan.PaymentReceived, synced(plan.Event{Kind: plan.InvoicePaid}), ""},
		{plan.OperatorGrant, func(s plan.Subscription) (plan.Subscription, error) {
			return s.Granted(plan.Grant{Plan: plan.Premium}, noon)
		}, plan.Premium},
	} {
		for _, from := range plan.States() {
			was := in(from)
			got, err := c.do(was)
			to := after(from, c.by)
			if to == "" {
				if !fault.Is(err, fault.Conflict) || got != was {
					t.Errorf("%s by %q: %+v, %v", from, c.by, got, err)
				}
				continue
			}
			want := was.Plan
			if c.to != "" && rows()[c.by][from][0].To != "unchanged" {
				want = c.to
			}
			if err != nil || got.State() != to || got.Plan != want {
				t.Errorf("%s by %q leads to %s on %s, %v; want %s on %s", from, c.by, got.State(), got.Plan, err, to, want)
			}
		}
	}
}

func TestATrialIsStandardForFourteenDaysWithoutACard(t *testing.T) {
	s, err := plan.Unsubscribed("o").Trialed(noon)
	end := noon.Add(14 * 24 * time.Hour)
	if err != nil || s.Plan != plan.Standard || s.Status() != plan.Trialing || !s.TrialEnd.Equal(end) || !s.CurrentPeriodStart.Equal(noon) ||
		!s.CurrentPeriodEnd.Equal(end) || s.HasPaymentMethod || s.EverPaid || !s.UpdatedAt.Equal(noon) {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestATrialStartsOnceEver(t *testing.T) {
	once := plan.Unsubscribed("o")
	once.TrialEnd = &noon
	must.Fail(t, must.ErrorOf(once.Trialed(noon)), fault.Conflict) // a second trial
}

func TestATrialIsOverToTheNanosecond(t *testing.T) {
	s := in(plan.StateTrial)
	end := *s.TrialEnd
	if got := s.At(end.Add(-1)); got != s {
		t.Errorf("a nanosecond before: %+v", got)
	}
	for _, now := range []time.Time{end, end.Add(1), end.Add(1000 * time.Hour)} {
		got := s.At(now)
		if got.State() != plan.StateFree || got.Status() != plan.Active || got.CurrentPeriodEnd != nil || !got.TrialEnd.Equal(end) || got.Due() != nil {
			t.Errorf("%s after: %+v", now.Sub(end), got)
		}
		if again := got.At(now.Add(time.Hour)); again != got {
			t.Errorf("it ends twice: %+v", again)
		}
	}
	for _, state := range plan.States() {
		s := in(state)
		if state != plan.StateTrial && s.At(noon.Add(10_000*time.Hour)) != s {
			t.Errorf("%s changes by itself", state)
		}
	}
}

func TestADowngrade(t *testing.T) {
	for state, want := range map[plan.State]struct {
		to      plan.State
		ending  plan.Cancellation
		refused bool
	}{
		plan.StateNoPlan:        {to: plan.StateNoPlan, refused: true},
		plan.StateTrial:         {to: plan.StateFree, ending: plan.NothingToCancel},
		plan.StateProviderTrial: {to: plan.StateProviderTrial, ending: plan.CancelNow},
		plan.StateFree:          {to: plan.StateFree, refused: true},
		plan.StateActive:        {to: plan.StateActive, ending: plan.CancelAtPeriodEnd},
		plan.StatePastDue:       {to: plan.StatePastDue, ending: plan.CancelNow},
		plan.StatePaused:        {to: plan.StatePaused, ending: plan.CancelNow},
		plan.StateExternal:      {to: plan.StateExternal, refused: true},
	} {
		got, ending, err := in(state).Downgraded(noon)
		if got.State() != want.to || ending != want.ending || want.refused != fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %s, %d, %v", state, got.State(), ending, err)
		}
	}
	cancelled := in(plan.StateActive)
	cancelled.CancelAtPeriodEnd = true
	if got, ending, err := cancelled.Downgraded(noon); got != cancelled || ending != plan.CancelAtPeriodEnd || err != nil {
		t.Errorf("again: %+v, %d, %v", got, ending, err)
	}
	over := in(plan.StateTrial)
	if got, _, err := over.Downgraded(*over.TrialEnd); !fault.Is(err, fault.Conflict) || got.State() != plan.StateFree {
		t.Errorf("a trial that is over: %s, %v", got.State(), err)
	}
}

var statuses = []plan.RemoteStatus{
	plan.RemoteStatusTrialing, plan.RemoteStatusActive, plan.RemoteStatusPastDue, plan.RemoteStatusUnpaid, plan.RemoteStatusPaused, plan.RemoteStatusCanceled, plan.RemoteStatusIncompleteExpired, plan.RemoteStatusIncomplete,
}
