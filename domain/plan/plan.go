// Package plan holds the plans and an organisation's subscription to one.
package plan

import (
	"time"

	"collab/domain/check"
	"collab/domain/id"
)

// Plan is the name of a plan.
type Plan string

// The plans. Organisations start at None.
const (
	None       Plan = "NO_PLAN"
	Free       Plan = "FREE"
	Standard   Plan = "STANDARD"
	Premium    Plan = "PREMIUM"
	Enterprise Plan = "ENTERPRISE"
)

// Unlimited is the value of a limit that does not exist.
const Unlimited = -1

// Limits are the limits of a plan.
type Limits struct {
	DailyTokens int64 // tokens per user and UTC day
	Members     int   // members of the organisation, or Unlimited
}

var limits = map[Plan]Limits{
	None:       {DailyTokens: 0, Members: 1},
	Free:       {DailyTokens: 1_000_000, Members: 1},
	Standard:   {DailyTokens: 2_000_000, Members: 1},
	Premium:    {DailyTokens: 10_000_000, Members: Unlimited},
	Enterprise: {DailyTokens: 10_000_000, Members: Unlimited},
}

// All returns the plans, from the smallest to the largest.
func All() []Plan { return []Plan{None, Free, Standard, Premium, Enterprise} }

// Parse returns the plan written exactly as in the interface.
func Parse(s string) (Plan, bool) {
	_, ok := limits[Plan(s)]
	return Plan(s), ok
}

// Limits returns the limits of the plan; an unknown plan has those of None.
func (p Plan) Limits() Limits {
	if l, ok := limits[p]; ok {
		return l
	}
	return limits[None]
}

// Sold reports whether the plan can be bought at the checkout.
func (p Plan) Sold() bool { return p == Standard || p == Premium }

// TrialLength returns how long a trial of the plan lasts, 0 if there is none.
func (p Plan) TrialLength() time.Duration {
	if p == Standard {
		return TrialLength
	}
	return 0
}

// paid reports whether the plan costs anything.
func (p Plan) paid() bool { return p == Standard || p == Premium || p == Enterprise }

// Status is the status of a subscription.
type Status string

const (
	Trialing Status = "TRIALING"
	Active   Status = "ACTIVE"
	PastDue  Status = "PAST_DUE"
	Canceled Status = "CANCELED"
	Paused   Status = "PAUSED"
)

// Subscription is an organisation's subscription to a plan.
type Subscription struct {
	Org                id.Org
	Plan               Plan
	PurchasedSeats     *int
	CurrentPeriodStart *time.Time
	CurrentPeriodEnd   *time.Time
	CancelAtPeriodEnd  bool
	TrialEnd           *time.Time // of the trial, also of one that is over; nil: there was none
	ManagedExternally  bool
	HasPaymentMethod   bool
	EverPaid           bool // a paid plan was ever active
	UpdatedAt          time.Time

	Customer   string    // the payment provider's id of the organisation; empty: it never paid
	ProviderID string    // the provider's id of the subscription that counts, also of one that is over
	SyncedAt   time.Time // as of when the provider's state is known; older events are ignored
	Attempts   int       // to ask the provider since it was last synced
	ClaimedAt  time.Time // of the last of them
	Checkout   *Checkout // nil: no payment is under way
	Revision   int64     // grows with every Put

	status Status
}

// Unsubscribed is the subscription of an organisation that never had a plan.
func Unsubscribed(o id.Org) Subscription {
	return Subscription{Org: o, Plan: None, status: Canceled}
}

// Restore gives a stored subscription its status back. Only adapters that read
// records call it.
func (s Subscription) Restore(status Status) Subscription {
	s.status = status
	return s
}

func (s Subscription) Status() Status { return s.status }

// HasActivePlan reports whether there is a plan that is paid for, free or on
// trial.
func (s Subscription) HasActivePlan() bool {
	return s.Plan != None && (s.status == Trialing || s.status == Active)
}

// Allowed reports whether the subscription lets its organisation use the chat.
func (s Subscription) Allowed() bool {
	return s.Plan != None && (s.status == Trialing || s.status == Active || s.status == PastDue)
}

// DailyTokens returns how many tokens each member may use on a UTC day.
func (s Subscription) DailyTokens() int64 {
	if !s.Allowed() {
		return 0
	}
	return s.Plan.Limits().DailyTokens
}

// Grant is an operator's change of an organisation's subscription.
type Grant struct {
	Plan      Plan
	Seats     *int
	PeriodEnd *time.Time
}

// Granted returns the subscription as an operator sets it: active on any plan, and no
// longer managed by the payment provider.
func (s Subscription) Granted(g Grant, now time.Time) (Subscription, error) {
	var c check.List
	if _, ok := Parse(string(g.Plan)); !ok {
		c.Add("plan", "must be one of NO_PLAN, FREE, STANDARD, PREMIUM, ENTERPRISE")
	}
	if g.Seats != nil && (*g.Seats < 1 || *g.Seats > 1_000_000) {
		c.Add("seats", "must be between 1 and 1000000")
	}
	if g.PeriodEnd != nil && !g.PeriodEnd.After(now) {
		c.Add("currentPeriodEnd", "must be in the future")
	}
	if err := c.Err(); err != nil {
		return s, err
	}
	s.Plan, s.PurchasedSeats, s.CurrentPeriodEnd = g.Plan, g.Seats, g.PeriodEnd
	s.CurrentPeriodStart, s.CancelAtPeriodEnd = &now, false
	s.ManagedExternally, s.status, s.UpdatedAt = true, Active, now
	s.EverPaid = s.EverPaid || g.Plan.paid()
	return s, nil
}
