package plan_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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
	case plan.OnTrial:
		s, _ = plan.Unsubscribed("o").Trialed(noon)
		return s
	case plan.ProviderTrial:
		return billed(plan.Trialing)
	case plan.OnFree:
		s.Plan = plan.Free
		return s.Restore(plan.Active)
	case plan.Paying:
		return billed(plan.Active)
	case plan.Owing:
		return billed(plan.PastDue)
	case plan.Suspended:
		return billed(plan.Paused)
	case plan.External:
		s, _ = s.Granted(plan.Grant{Plan: plan.Enterprise}, noon)
		return s
	}
	return plan.Unsubscribed("o")
}

// rows are the rows of the table by what they are about.
func rows() map[plan.Trigger]map[plan.State][]plan.Transition {
	all := map[plan.Trigger]map[plan.State][]plan.Transition{}
	for _, t := range plan.Table() {
		if all[t.By] == nil {
			all[t.By] = map[plan.State][]plan.Transition{}
		}
		for _, from := range t.From {
			all[t.By][from] = append(all[t.By][from], t)
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
			t.Errorf("%v by %q has the refusal %q and leads to %q", row.From, row.By, row.Refusal, row.To)
		}
		if row.To != "" && row.To != "unchanged" && !slices.Contains(plan.States(), row.To) {
			t.Errorf("%v by %q leads to %q, which is no state", row.From, row.By, row.To)
		}
	}
}

func TestEveryRowOfTheSpecificationIsInTheTable(t *testing.T) {
	unmanaged := slices.DeleteFunc(plan.States(), func(s plan.State) bool { return s == plan.External })
	for _, row := range []struct {
		from []plan.State
		by   plan.Trigger
		to   plan.State
	}{
		{[]plan.State{plan.Unplanned}, plan.StartTrial, plan.OnTrial},
		{[]plan.State{plan.OnTrial}, plan.EndTrial, plan.OnFree},
		{[]plan.State{plan.OnTrial, plan.Unplanned}, plan.RemoteActive, plan.Paying},
		{[]plan.State{plan.OnTrial}, plan.Downgrade, plan.OnFree},
		{[]plan.State{plan.Paying}, plan.Downgrade, plan.Paying},
		{unmanaged, plan.RemoteCanceled, plan.OnFree},
		{unmanaged, plan.RemotePastDue, plan.Owing},
		{[]plan.State{plan.ProviderTrial, plan.Paying, plan.Owing, plan.Suspended}, plan.PaymentFailed, plan.Owing},
		{[]plan.State{plan.Owing}, plan.PaymentReceived, plan.Paying},
		{unmanaged, plan.RemoteActive, plan.Paying},
	} {
		for _, from := range row.from {
			if got := after(from, row.by); got != row.to {
				t.Errorf("%s by %q leads to %q, want %q", from, row.by, got, row.to)
			}
		}
	}
}

func TestMovesFollowTheTable(t *testing.T) {
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
	live := remote("sub_1", plan.IsActive)
	for _, c := range []struct {
		by plan.Trigger
		do move
		to plan.Plan // unless it stays what it is; empty: the one that it was
	}{
		{plan.StartTrial, func(s plan.Subscription) (plan.Subscription, error) { return s.Trialed(noon) }, plan.Standard},
		{plan.EndTrial, func(s plan.Subscription) (plan.Subscription, error) { return s.At(noon.Add(plan.TrialLength)), nil }, plan.Free},
		{plan.RemoteTrial, follow(plan.IsTrialing), plan.Standard},
		{plan.RemoteActive, follow(plan.IsActive), plan.Standard},
		{plan.RemotePastDue, follow(plan.IsPastDue), plan.Standard},
		{plan.RemotePastDue, follow(plan.IsUnpaid), plan.Standard},
		{plan.RemotePaused, follow(plan.IsPaused), plan.Standard},
		{plan.RemoteCanceled, follow(plan.IsCanceled), plan.Free},
		{plan.RemoteCanceled, synced(plan.Event{Kind: plan.Ended, Snapshot: &live}), plan.Free},
		{plan.RemoteExpired, follow(plan.IsExpired), plan.Free},
		{plan.RemoteWaiting, follow(plan.IsIncomplete), ""},
		{plan.PaymentFailed, synced(plan.Event{Kind: plan.PayFailed}), ""},
		{plan.PaymentReceived, synced(plan.Event{Kind: plan.Paid}), ""},
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
	s := in(plan.OnTrial)
	end := *s.TrialEnd
	if got := s.At(end.Add(-1)); got != s {
		t.Errorf("a nanosecond before: %+v", got)
	}
	for _, now := range []time.Time{end, end.Add(1), end.Add(1000 * time.Hour)} {
		got := s.At(now)
		if got.State() != plan.OnFree || got.Status() != plan.Active || got.CurrentPeriodEnd != nil || !got.TrialEnd.Equal(end) || got.Due() != nil {
			t.Errorf("%s after: %+v", now.Sub(end), got)
		}
		if again := got.At(now.Add(time.Hour)); again != got {
			t.Errorf("it ends twice: %+v", again)
		}
	}
	for _, state := range plan.States() {
		s := in(state)
		if state != plan.OnTrial && s.At(noon.Add(10_000*time.Hour)) != s {
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
		plan.Unplanned:     {to: plan.Unplanned, refused: true},
		plan.OnTrial:       {to: plan.OnFree, ending: plan.NothingToCancel},
		plan.ProviderTrial: {to: plan.ProviderTrial, ending: plan.CancelNow},
		plan.OnFree:        {to: plan.OnFree, refused: true},
		plan.Paying:        {to: plan.Paying, ending: plan.CancelAtPeriodEnd},
		plan.Owing:         {to: plan.Owing, ending: plan.CancelNow},
		plan.Suspended:     {to: plan.Suspended, ending: plan.CancelNow},
		plan.External:      {to: plan.External, refused: true},
	} {
		got, ending, err := in(state).Downgraded(noon)
		if got.State() != want.to || ending != want.ending || want.refused != fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %s, %d, %v", state, got.State(), ending, err)
		}
	}
	cancelled := in(plan.Paying)
	cancelled.CancelAtPeriodEnd = true
	if got, ending, err := cancelled.Downgraded(noon); got != cancelled || ending != plan.CancelAtPeriodEnd || err != nil {
		t.Errorf("again: %+v, %d, %v", got, ending, err)
	}
	over := in(plan.OnTrial)
	if got, _, err := over.Downgraded(*over.TrialEnd); !fault.Is(err, fault.Conflict) || got.State() != plan.OnFree {
		t.Errorf("a trial that is over: %s, %v", got.State(), err)
	}
}

// times is how many times the number of cases that are asked for a property is
// tried with.
const times = 10

func check(t *testing.T, property func(t *rapid.T)) {
	t.Helper()
	for range times {
		rapid.Check(t, property)
	}
}

// model does what can be done to a subscription.
type model struct {
	subscription plan.Subscription
	now          time.Time
	everPaid     bool // a paid plan was active
}

var (
	statuses = []plan.RemoteStatus{
		plan.IsTrialing, plan.IsActive, plan.IsPastDue, plan.IsUnpaid, plan.IsPaused, plan.IsCanceled, plan.IsExpired, plan.IsIncomplete, "new",
	}
	triggerOf = map[plan.RemoteStatus]plan.Trigger{
		plan.IsTrialing: plan.RemoteTrial, plan.IsActive: plan.RemoteActive, plan.IsPastDue: plan.RemotePastDue, plan.IsUnpaid: plan.RemotePastDue,
		plan.IsPaused: plan.RemotePaused, plan.IsCanceled: plan.RemoteCanceled, plan.IsExpired: plan.RemoteExpired, plan.IsIncomplete: plan.RemoteWaiting,
	}
)

func drawRemote(t *rapid.T, now time.Time) plan.Remote {
	start, end := now.Add(-time.Hour), now.Add(time.Duration(rapid.IntRange(-2, 40).Draw(t, "days"))*24*time.Hour)
	return plan.Remote{
		ID: rapid.SampledFrom([]string{"sub_1", "sub_2", "sub_3"}).Draw(t, "subscription"), Customer: "cus_1", Org: "o",
		Status:      rapid.SampledFrom(statuses).Draw(t, "status"),
		Plan:        rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium, plan.Standard, plan.Premium, plan.None}).Draw(t, "plan"),
		PeriodStart: &start, PeriodEnd: &end, CancelAtPeriodEnd: rapid.Bool().Draw(t, "cancelled"), HasPaymentMethod: rapid.Bool().Draw(t, "method"),
	}
}

// step does something, and returns by which triggers that can have changed the
// state.
func (y *model) step(t *rapid.T) []plan.Trigger {
	y.now = y.now.Add(time.Duration(rapid.IntRange(0, 7*24).Draw(t, "hours")) * time.Hour)
	switch rapid.SampledFrom([]string{"trial", "time", "downgrade", "follow", "follow", "follow", "hear", "hear", "order", "lapse", "grant"}).Draw(t, "what") {
	case "trial":
		y.subscription, _ = y.subscription.Trialed(y.now)
		return []plan.Trigger{plan.StartTrial}
	case "time":
		y.subscription = y.subscription.At(y.now)
		return []plan.Trigger{plan.EndTrial}
	case "downgrade":
		y.subscription, _, _ = y.subscription.Downgraded(y.now)
		return []plan.Trigger{plan.EndTrial, plan.Downgrade}
	case "follow":
		r := drawRemote(t, y.now)
		y.subscription, _ = y.subscription.Follow(r, y.now)
		return []plan.Trigger{triggerOf[r.Status]}
	case "hear":
		e := plan.Event{
			Kind:         rapid.SampledFrom([]plan.EventKind{plan.CheckoutDone, plan.Changed, plan.Ended, plan.PayFailed, plan.Paid}).Draw(t, "kind"),
			Subscription: rapid.SampledFrom([]string{"", "sub_1", "sub_2"}).Draw(t, "about"),
			At:           y.now.Add(-time.Duration(rapid.IntRange(0, 48).Draw(t, "late")) * time.Hour),
		}
		by := []plan.Trigger{plan.PaymentFailed, plan.PaymentReceived, plan.RemoteCanceled}
		if e.Kind == plan.Changed || e.Kind == plan.Ended {
			r := drawRemote(t, y.now)
			e.Snapshot, e.Subscription = &r, r.ID
			by = []plan.Trigger{triggerOf[r.Status], plan.RemoteCanceled}
		}
		y.subscription, _ = y.subscription.Observed(e, y.now)
		return by
	case "order":
		y.subscription, _, _ = y.subscription.Ordered(rapid.SampledFrom([]plan.Plan{plan.Standard, plan.Premium}).Draw(t, "ordered"), "key", y.now)
		return []plan.Trigger{plan.EndTrial}
	case "lapse":
		y.subscription = y.subscription.RemoteMissing(y.now)
		return []plan.Trigger{plan.RemoteCanceled}
	}
	if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
		y.subscription, _ = y.subscription.Granted(plan.Grant{Plan: plan.Premium}, y.now)
	}
	return []plan.Trigger{plan.OperatorGrant}
}

func TestNoSequenceOfMovesLeavesTheTable(t *testing.T) {
	check(t, func(t *rapid.T) {
		y := model{subscription: plan.Unsubscribed("o"), now: noon}
		trials := 0
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			was := y.subscription
			from := was.State()
			by := y.step(t)
			to := y.subscription.State()
			leads := slices.ContainsFunc(by, func(m plan.Trigger) bool { return m != "" && after(from, m) == to })
			if from != to && !leads {
				t.Fatalf("from %s to %s by %v", from, to, by)
			}
			if from != to && to == plan.OnTrial {
				trials++
			}
			if trials > 1 {
				t.Fatal("a second trial")
			}
			paying := func(s plan.Subscription) bool {
				return s.Status() == plan.Active && s.Plan != plan.Free && s.Plan != plan.None
			}
			pays := []plan.Trigger{plan.RemoteActive, plan.PaymentReceived, plan.OperatorGrant}
			if paying(y.subscription) && !paying(was) && !slices.ContainsFunc(by, func(m plan.Trigger) bool { return slices.Contains(pays, m) }) {
				t.Fatalf("%s is active by %v", y.subscription.Plan, by)
			}
			if y.everPaid = y.everPaid || paying(y.subscription); y.subscription.EverPaid != y.everPaid {
				t.Fatalf("a paid plan was active: %t, and the record says %t", y.everPaid, y.subscription.EverPaid)
			}
			agree(t, y.subscription)
		}
	})
}

// agree fails unless all that can be asked of a subscription fits its state.
func agree(t *rapid.T, s plan.Subscription) {
	want := map[plan.State]struct {
		status          plan.Status
		active, allowed bool
		billed, period  bool
	}{
		plan.Unplanned:     {status: plan.Canceled},
		plan.OnTrial:       {status: plan.Trialing, active: true, allowed: true, period: true},
		plan.ProviderTrial: {status: plan.Trialing, active: true, allowed: true, billed: true, period: true},
		plan.OnFree:        {status: plan.Active, active: true, allowed: true},
		plan.Paying:        {status: plan.Active, active: true, allowed: true, billed: true, period: true},
		plan.Owing:         {status: plan.PastDue, allowed: true, billed: true, period: true},
		plan.Suspended:     {status: plan.Paused, billed: true, period: true},
		plan.External:      {status: plan.Active, active: true, allowed: true},
	}[s.State()]
	if s.State() == plan.External {
		want.period = s.CurrentPeriodEnd != nil
	}
	if s.Status() != want.status || s.HasActivePlan() != want.active || s.Allowed() != want.allowed || s.Billed() != want.billed ||
		(s.CurrentPeriodEnd != nil) != want.period || (s.DailyTokens() > 0) != want.allowed {
		t.Fatalf("%s is not %+v", s.State(), s)
	}
	if s.State() == plan.OnFree && (s.CancelAtPeriodEnd || s.HasPaymentMethod || s.PurchasedSeats != nil) {
		t.Fatalf("nothing is left to cancel or to pay: %+v", s)
	}
	if due := s.Due(); due != nil && s.State() != plan.OnTrial && !(s.Billed() && s.CurrentPeriodEnd != nil) && !(s.State() == plan.External && s.Checkout != nil) {
		t.Fatalf("%s is due at %s", s.State(), due)
	}
}
