package plan

import (
	"slices"
	"time"

	"collab/domain/fault"
)

// TrialLength is how long a trial lasts.
const TrialLength = 14 * 24 * time.Hour

// State is a state of the transition table: a plan and a status.
type State string

const (
	StateNoPlan        State = "NO_PLAN"
	StateTrial         State = "TRIALING"                 // our own trial, without a card
	StateProviderTrial State = "TRIALING at the provider" // one that the payment provider runs
	StateFree          State = "FREE"
	StateActive        State = "ACTIVE"
	StatePastDue       State = "PAST_DUE"
	StatePaused        State = "PAUSED"
	StateExternal      State = "managed externally"
)

// States lists all states.
func States() []State {
	return []State{StateNoPlan, StateTrial, StateProviderTrial, StateFree, StateActive, StatePastDue, StatePaused, StateExternal}
}

// Trigger is an event that changes a subscription.
type Trigger string

// The triggers. Those of the provider are named after the subscription's present status there,
// regardless of the event that made us read it.
const (
	StartTrial       Trigger = "POST /billing/trial"
	EndTrial         Trigger = "trial ends"
	Downgrade        Trigger = "POST /billing/downgrade"
	RemoteActive     Trigger = "subscription is active"
	RemoteTrial      Trigger = "subscription is trialing"
	RemotePastDue    Trigger = "subscription is past_due or unpaid"
	RemotePaused     Trigger = "subscription is paused"
	RemoteCanceled   Trigger = "subscription is canceled"
	RemoteExpired    Trigger = "subscription is incomplete_expired"
	RemoteIncomplete Trigger = "subscription is incomplete"
	PaymentFailed    Trigger = "invoice.payment_failed, subscription not readable"
	PaymentReceived  Trigger = "invoice.paid, subscription not readable"
	OperatorGrant    Trigger = "operator sets the plan"
)

// Transition is a row of the table.
type Transition struct {
	From        []State
	Trigger     Trigger
	To          State  // empty: the trigger is refused
	Refusal     string // why
	Effects     string // in addition
	OwnDecision bool   // the specification is silent, and this is our decision
}

var (
	allStates   = States()
	external    = []State{StateExternal}
	notExternal = slices.DeleteFunc(States(), func(s State) bool { return s == StateExternal })
	billed      = []State{StateProviderTrial, StateActive, StatePastDue, StatePaused}
)

const (
	refusedExternal = "The subscription is managed outside the payment provider"
	refusedTrial    = "The trial can be started once, by an organisation that has had no plan"
	refusedNothing  = "There is nothing to downgrade"
)

// unchanged is the To of a row that changes nothing.
const unchanged State = "unchanged"

// Table returns all transitions: one row for every pair of state and trigger.
func Table() []Transition {
	rows := []Transition{
		{From: []State{StateNoPlan}, Trigger: StartTrial, To: StateTrial, Effects: "plan STANDARD, for 14 days, no card"},
		{From: exclude(notExternal, StateNoPlan), Trigger: StartTrial, Refusal: refusedTrial},
		{From: external, Trigger: StartTrial, Refusal: refusedExternal, OwnDecision: true},

		{From: []State{StateTrial}, Trigger: EndTrial, To: StateFree},
		{From: exclude(allStates, StateTrial), Trigger: EndTrial, To: unchanged, OwnDecision: true},

		{From: []State{StateTrial}, Trigger: Downgrade, To: StateFree, Effects: "the trial ends at once"},
		{
			From: []State{StateActive}, Trigger: Downgrade, To: StateActive,
			Effects: "cancelAtPeriodEnd is set at the provider; FREE when the period ends",
		},
		{
			From: []State{StateProviderTrial, StatePastDue, StatePaused}, Trigger: Downgrade, To: StateFree,
			Effects: "the provider cancels at once", OwnDecision: true,
		},
		{From: []State{StateNoPlan, StateFree}, Trigger: Downgrade, Refusal: refusedNothing, OwnDecision: true},
		{From: external, Trigger: Downgrade, Refusal: refusedExternal, OwnDecision: true},

		{From: notExternal, Trigger: RemoteActive, To: StateActive, Effects: "the plan of its price, and its period"},
		{From: notExternal, Trigger: RemoteTrial, To: StateProviderTrial, Effects: "the plan of its price", OwnDecision: true},
		{From: notExternal, Trigger: RemotePastDue, To: StatePastDue, Effects: "the plan is kept"},
		{From: notExternal, Trigger: RemotePaused, To: StatePaused, OwnDecision: true},
		{From: notExternal, Trigger: RemoteCanceled, To: StateFree},
		{From: exclude(notExternal, StateTrial), Trigger: RemoteExpired, To: StateFree, OwnDecision: true},
		{
			From: []State{StateTrial}, Trigger: RemoteExpired, To: unchanged,
			Effects: "a failed checkout does not end a trial", OwnDecision: true,
		},
		{From: notExternal, Trigger: RemoteIncomplete, To: unchanged, OwnDecision: true},

		{From: billed, Trigger: PaymentFailed, To: StatePastDue},
		{
			From: exclude(notExternal, billed...), Trigger: PaymentFailed, To: unchanged,
			Effects: "nothing is owed yet", OwnDecision: true,
		},
		{From: []State{StatePastDue}, Trigger: PaymentReceived, To: StateActive, Effects: "the period is extended"},
		{
			From: exclude(notExternal, StatePastDue), Trigger: PaymentReceived, To: unchanged,
			Effects: "the period, if any, is extended", OwnDecision: true,
		},

		{From: allStates, Trigger: OperatorGrant, To: StateExternal, Effects: "any plan, ACTIVE", OwnDecision: true},
	}
	for _, trigger := range []Trigger{
		RemoteActive, RemoteTrial, RemotePastDue, RemotePaused, RemoteCanceled, RemoteExpired, RemoteIncomplete,
		PaymentFailed, PaymentReceived,
	} {
		rows = append(rows, Transition{From: external, Trigger: trigger, To: unchanged, OwnDecision: true})
	}
	return rows
}

func exclude(all []State, some ...State) []State {
	return slices.DeleteFunc(slices.Clone(all), func(s State) bool { return slices.Contains(some, s) })
}

type transitionKey struct {
	from    State
	trigger Trigger
}

var transitions = func() map[transitionKey]Transition {
	all := map[transitionKey]Transition{}
	for _, t := range Table() {
		for _, from := range t.From {
			all[transitionKey{from, t.Trigger}] = t
		}
	}
	return all
}()

// State returns the subscription's state in the table.
func (s Subscription) State() State {
	switch {
	case s.ManagedExternally:
		return StateExternal
	case s.Plan == Free:
		return StateFree
	case s.Plan == None:
		return StateNoPlan
	}
	switch s.status {
	case Trialing:
		if s.ProviderID == "" {
			return StateTrial
		}
		return StateProviderTrial
	case Active:
		return StateActive
	case PastDue:
		return StatePastDue
	case Paused:
		return StatePaused
	}
	return StateNoPlan
}

// stateAfter returns the state after a trigger that no state refuses.
func (s Subscription) stateAfter(trigger Trigger) State {
	to, _ := s.checkedStateAfter(trigger)
	return to
}

// checkedStateAfter returns the state after a trigger, or why it is refused.
func (s Subscription) checkedStateAfter(trigger Trigger) (State, error) {
	from := s.State()
	t := transitions[transitionKey{from, trigger}]
	switch t.To {
	case "":
		return from, fault.New(fault.Conflict, "%s", t.Refusal)
	case unchanged:
		return from, nil
	}
	return t.To, nil
}

// withState returns the subscription in a state, with the plan that the state implies.
// States that come from the provider keep the plan that was set before.
func (s Subscription) withState(state State, now time.Time) Subscription {
	switch state {
	case StateTrial:
		s.Plan, s.status = Standard, Trialing
	case StateFree:
		s.Plan, s.status = Free, Active
		s.CurrentPeriodStart, s.CurrentPeriodEnd, s.PurchasedSeats = nil, nil, nil
		s.CancelAtPeriodEnd, s.HasPaymentMethod = false, false
	case StateProviderTrial:
		s.status = Trialing
	case StateActive:
		s.status, s.EverPaid = Active, true
	case StatePastDue:
		s.status = PastDue
	case StatePaused:
		s.status = Paused
	}
	s.UpdatedAt = now
	return s
}

// At returns the subscription at a time: a trial whose end has passed has ended,
// whether or not that was recorded yet.
func (s Subscription) At(now time.Time) Subscription {
	if s.State() != StateTrial || s.TrialEnd == nil || now.Before(*s.TrialEnd) {
		return s
	}
	return s.withState(s.stateAfter(EndTrial), now)
}

// Trialed starts the trial.
func (s Subscription) Trialed(now time.Time) (Subscription, error) {
	to, err := s.checkedStateAfter(StartTrial)
	if err != nil {
		return s, err
	}
	if s.TrialEnd != nil {
		return s, fault.New(fault.Conflict, refusedTrial)
	}
	end := now.Add(TrialLength)
	s.TrialEnd, s.CurrentPeriodStart, s.CurrentPeriodEnd = &end, &now, &end
	return s.withState(to, now), nil
}

// Cancellation is the request to the provider that a downgrade needs.
type Cancellation uint8

const (
	NothingToCancel   Cancellation = iota // nothing: the provider has no subscription
	CancelAtPeriodEnd                     // to cancel when the period ends
	CancelNow                             // to cancel now
)

// Downgraded returns the subscription after a downgrade, and the request to the provider. If there is a
// request, the subscription is unchanged and the caller must Follow the provider's response.
func (s Subscription) Downgraded(now time.Time) (Subscription, Cancellation, error) {
	s = s.At(now)
	to, err := s.checkedStateAfter(Downgrade)
	switch {
	case err != nil:
		return s, NothingToCancel, err
	case s.State() == StateTrial:
		return s.withState(to, now), NothingToCancel, nil
	case to == StateActive:
		return s, CancelAtPeriodEnd, nil
	}
	return s, CancelNow, nil
}
