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

// The states.
const (
	Unplanned     State = "NO_PLAN"
	OnTrial       State = "TRIALING"                 // our own trial, without a card
	ProviderTrial State = "TRIALING at the provider" // one that the payment provider runs
	OnFree        State = "FREE"
	Paying        State = "ACTIVE"
	Owing         State = "PAST_DUE"
	Suspended     State = "PAUSED"
	External      State = "managed externally"
)

// States lists all states.
func States() []State {
	return []State{Unplanned, OnTrial, ProviderTrial, OnFree, Paying, Owing, Suspended, External}
}

// Trigger is an event that changes a subscription.
type Trigger string

// The triggers. Those of the provider are named after the subscription's present status there,
// regardless of the event that made us read it.
const (
	StartTrial      Trigger = "POST /billing/trial"
	EndTrial        Trigger = "trial ends"
	Downgrade       Trigger = "POST /billing/downgrade"
	RemoteActive    Trigger = "subscription is active"
	RemoteTrial     Trigger = "subscription is trialing"
	RemotePastDue   Trigger = "subscription is past_due or unpaid"
	RemotePaused    Trigger = "subscription is paused"
	RemoteCanceled  Trigger = "subscription is canceled"
	RemoteExpired   Trigger = "subscription is incomplete_expired"
	RemoteWaiting   Trigger = "subscription is incomplete"
	PaymentFailed   Trigger = "invoice.payment_failed, subscription not readable"
	PaymentReceived Trigger = "invoice.paid, subscription not readable"
	OperatorGrant   Trigger = "operator sets the plan"
)

// Transition is a row of the table.
type Transition struct {
	From        []State
	By          Trigger
	To          State  // empty: the trigger is refused
	Refusal     string // why
	Also        string // what else happens
	OwnDecision bool   // the specification is silent, and this is our decision
}

var (
	allStates   = States()
	external    = []State{External}
	notExternal = slices.DeleteFunc(States(), func(s State) bool { return s == External })
	billed      = []State{ProviderTrial, Paying, Owing, Suspended}
)

const (
	refusedExternal = "The subscription is managed outside the payment provider"
	refusedTrial    = "The trial can be started once, by an organisation that has had no plan"
	refusedNothing  = "There is nothing to downgrade"
)

// unchanged is the To of a row that changes nothing.
const unchanged State = "unchanged"

// Table returns all transitions. Every state meets every trigger in exactly one
// row.
func Table() []Transition {
	rows := []Transition{
		{From: []State{Unplanned}, By: StartTrial, To: OnTrial, Also: "plan STANDARD, for 14 days, no card"},
		{From: exclude(notExternal, Unplanned), By: StartTrial, Refusal: refusedTrial},
		{From: external, By: StartTrial, Refusal: refusedExternal, OwnDecision: true},

		{From: []State{OnTrial}, By: EndTrial, To: OnFree},
		{From: exclude(allStates, OnTrial), By: EndTrial, To: unchanged, OwnDecision: true},

		{From: []State{OnTrial}, By: Downgrade, To: OnFree, Also: "the trial ends at once"},
		{From: []State{Paying}, By: Downgrade, To: Paying, Also: "cancelAtPeriodEnd is set at the provider; FREE when the period ends"},
		{From: []State{ProviderTrial, Owing, Suspended}, By: Downgrade, To: OnFree, Also: "the provider cancels at once", OwnDecision: true},
		{From: []State{Unplanned, OnFree}, By: Downgrade, Refusal: refusedNothing, OwnDecision: true},
		{From: external, By: Downgrade, Refusal: refusedExternal, OwnDecision: true},

		{From: notExternal, By: RemoteActive, To: Paying, Also: "the plan of its price, and its period"},
		{From: notExternal, By: RemoteTrial, To: ProviderTrial, Also: "the plan of its price", OwnDecision: true},
		{From: notExternal, By: RemotePastDue, To: Owing, Also: "the plan is kept"},
		{From: notExternal, By: RemotePaused, To: Suspended, OwnDecision: true},
		{From: notExternal, By: RemoteCanceled, To: OnFree},
		{From: exclude(notExternal, OnTrial), By: RemoteExpired, To: OnFree, OwnDecision: true},
		{From: []State{OnTrial}, By: RemoteExpired, To: unchanged, Also: "a failed checkout does not end a trial", OwnDecision: true},
		{From: notExternal, By: RemoteWaiting, To: unchanged, OwnDecision: true},

		{From: billed, By: PaymentFailed, To: Owing},
		{From: exclude(notExternal, billed...), By: PaymentFailed, To: unchanged, Also: "nothing is owed yet", OwnDecision: true},
		{From: []State{Owing}, By: PaymentReceived, To: Paying, Also: "the period is extended"},
		{From: exclude(notExternal, Owing), By: PaymentReceived, To: unchanged, Also: "the period, if any, is extended", OwnDecision: true},

		{From: allStates, By: OperatorGrant, To: External, Also: "any plan, ACTIVE", OwnDecision: true},
	}
	for _, by := range []Trigger{RemoteActive, RemoteTrial, RemotePastDue, RemotePaused, RemoteCanceled, RemoteExpired, RemoteWaiting, PaymentFailed, PaymentReceived} {
		rows = append(rows, Transition{From: external, By: by, To: unchanged, OwnDecision: true})
	}
	return rows
}

func exclude(all []State, some ...State) []State {
	return slices.DeleteFunc(slices.Clone(all), func(s State) bool { return slices.Contains(some, s) })
}

type step struct {
	from State
	by   Trigger
}

var transitions = func() map[step]Transition {
	all := map[step]Transition{}
	for _, t := range Table() {
		for _, from := range t.From {
			all[step{from, t.By}] = t
		}
	}
	return all
}()

// State returns the subscription's state in the table.
func (s Subscription) State() State {
	switch {
	case s.ManagedExternally:
		return External
	case s.Plan == Free:
		return OnFree
	case s.Plan == None:
		return Unplanned
	}
	switch s.status {
	case Trialing:
		if s.ProviderID == "" {
			return OnTrial
		}
		return ProviderTrial
	case Active:
		return Paying
	case PastDue:
		return Owing
	case Paused:
		return Suspended
	}
	return Unplanned
}

// after returns the state after a trigger that no state refuses.
func (s Subscription) after(by Trigger) State {
	to, _ := s.request(by)
	return to
}

// request returns the state after a trigger, or why it is refused.
func (s Subscription) request(by Trigger) (State, error) {
	from := s.State()
	t := transitions[step{from, by}]
	switch t.To {
	case "":
		return from, fault.New(fault.Conflict, "%s", t.Refusal)
	case unchanged:
		return from, nil
	}
	return t.To, nil
}

// in returns the subscription in a state, with the plan that the state implies.
// States that come from the provider keep the plan that was set before.
func (s Subscription) in(state State, now time.Time) Subscription {
	switch state {
	case OnTrial:
		s.Plan, s.status = Standard, Trialing
	case OnFree:
		s.Plan, s.status = Free, Active
		s.CurrentPeriodStart, s.CurrentPeriodEnd, s.PurchasedSeats = nil, nil, nil
		s.CancelAtPeriodEnd, s.HasPaymentMethod = false, false
	case ProviderTrial:
		s.status = Trialing
	case Paying:
		s.status, s.EverPaid = Active, true
	case Owing:
		s.status = PastDue
	case Suspended:
		s.status = Paused
	}
	s.UpdatedAt = now
	return s
}

// At returns the subscription at a time: a trial whose end has passed has ended,
// whether or not that was recorded yet.
func (s Subscription) At(now time.Time) Subscription {
	if s.State() != OnTrial || s.TrialEnd == nil || now.Before(*s.TrialEnd) {
		return s
	}
	return s.in(s.after(EndTrial), now)
}

// Trialed starts the trial.
func (s Subscription) Trialed(now time.Time) (Subscription, error) {
	to, err := s.request(StartTrial)
	if err != nil {
		return s, err
	}
	if s.TrialEnd != nil {
		return s, fault.New(fault.Conflict, refusedTrial)
	}
	end := now.Add(TrialLength)
	s.TrialEnd, s.CurrentPeriodStart, s.CurrentPeriodEnd = &end, &now, &end
	return s.in(to, now), nil
}

// Cancellation is what a downgrade requests of the provider.
type Cancellation uint8

// The cancellations.
const (
	NothingToCancel   Cancellation = iota // nothing: the provider has no subscription
	CancelAtPeriodEnd                     // to cancel when the period ends
	CancelNow                             // to cancel now
)

// Downgraded returns the subscription after a downgrade, unchanged if the provider
// has to make it, and the request to the provider, whose answer the caller follows.
func (s Subscription) Downgraded(now time.Time) (Subscription, Cancellation, error) {
	s = s.At(now)
	to, err := s.request(Downgrade)
	switch {
	case err != nil:
		return s, NothingToCancel, err
	case s.State() == OnTrial:
		return s.in(to, now), NothingToCancel, nil
	case to == Paying:
		return s, CancelAtPeriodEnd, nil
	}
	return s, CancelNow, nil
}
