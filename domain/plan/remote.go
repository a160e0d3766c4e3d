package plan

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// RemoteStatus is the payment provider's status of a subscription.
type RemoteStatus string

// The provider's statuses.
const (
	RemoteStatusTrialing          RemoteStatus = "trialing"
	RemoteStatusActive            RemoteStatus = "active"
	RemoteStatusPastDue           RemoteStatus = "past_due"
	RemoteStatusUnpaid            RemoteStatus = "unpaid"
	RemoteStatusPaused            RemoteStatus = "paused"
	RemoteStatusCanceled          RemoteStatus = "canceled"
	RemoteStatusIncompleteExpired RemoteStatus = "incomplete_expired"
	RemoteStatusIncomplete        RemoteStatus = "incomplete"
)

var triggerOfStatus = map[RemoteStatus]Trigger{
	RemoteStatusTrialing:          RemoteTrial,
	RemoteStatusActive:            RemoteActive,
	RemoteStatusPastDue:           RemotePastDue,
	RemoteStatusUnpaid:            RemotePastDue,
	RemoteStatusPaused:            RemotePaused,
	RemoteStatusCanceled:          RemoteCanceled,
	RemoteStatusIncompleteExpired: RemoteExpired,
	RemoteStatusIncomplete:        RemoteIncomplete,
}

// Remote is a subscription as the payment provider has it.
type Remote struct {
	ID                string
	Customer          string
	Org               id.Org // from the metadata that we set; empty: not set
	Status            RemoteStatus
	Plan              Plan // of its price; None for a price that is not ours
	Seats             *int
	PeriodStart       *time.Time
	PeriodEnd         *time.Time
	TrialEnd          *time.Time
	CancelAtPeriodEnd bool // in any of the provider's representations
	HasPaymentMethod  bool
}

// Live reports whether the provider bills the subscription, or is about to.
func (r Remote) Live() bool {
	switch r.Status {
	case RemoteStatusTrialing, RemoteStatusActive, RemoteStatusPastDue, RemoteStatusUnpaid, RemoteStatusPaused:
		return true
	}
	return false
}

// Ended reports whether the subscription has ended for good.
func (r Remote) Ended() bool {
	return r.Status == RemoteStatusCanceled || r.Status == RemoteStatusIncompleteExpired
}

// FollowResult is the result of Follow and Observed.
type FollowResult uint8

const (
	Followed     FollowResult = iota // the subscription has the provider's state
	Superseded                       // of another subscription than the current one, or of an earlier state
	UnknownPrice                     // its price is not one of ours, and the plan was kept
	UnknownState                     // its status is unknown
)

// Follow returns the subscription as the provider has it now.
func (s Subscription) Follow(r Remote, now time.Time) (Subscription, FollowResult) {
	trigger, known := triggerOfStatus[r.Status]
	if !known {
		return s, UnknownState
	}
	if s.State() == StateExternal {
		return s, Followed
	}
	own := r.ID == s.ProviderID
	if !own && s.ProviderID != "" && (s.Billed() || !r.Live()) {
		return s, Superseded
	}
	if r.Live() && r.Plan == None && (!own || !s.Billed()) {
		return s, UnknownPrice // there is no plan to keep
	}
	to := s.stateAfter(trigger)
	if to == s.State() && !r.Live() {
		return s, Followed
	}
	result := Followed
	s.ProviderID = r.ID
	if r.Customer != "" {
		s.Customer = r.Customer
	}
	if r.Live() {
		s.Checkout = nil // a subscription that is over keeps it: a member may have opened a new page since
		if r.Plan == None {
			result = UnknownPrice
		} else {
			s.Plan = r.Plan
		}
		s.PurchasedSeats, s.CurrentPeriodStart, s.CurrentPeriodEnd = r.Seats, r.PeriodStart, r.PeriodEnd
		s.CancelAtPeriodEnd, s.HasPaymentMethod = r.CancelAtPeriodEnd, r.HasPaymentMethod
		if trigger == RemoteTrial && r.TrialEnd != nil {
			s.TrialEnd = r.TrialEnd
		}
	}
	s.SyncedAt, s.Attempts = now, 0
	return s.withState(to, now), result
}

// Billed reports whether the provider bills the organisation.
func (s Subscription) Billed() bool {
	switch s.State() {
	case StateProviderTrial, StateActive, StatePastDue, StatePaused:
		return true
	}
	return false
}

// Cancelable reports whether the provider has a subscription of the organisation that may
// bill it: also one from before an operator's grant, or of a page from before it, which
// is not followed.
func (s Subscription) Cancelable() bool {
	return s.Billed() || s.State() == StateExternal && s.ProviderID != ""
}

// PaidWhileExternal returns the subscription with the id of a provider's subscription that a member paid
// for although the plan is managed externally, on a page from before the operator's grant.
func (s Subscription) PaidWhileExternal(subscription string, now time.Time) Subscription {
	if s.State() == StateExternal {
		s.ProviderID, s.UpdatedAt = subscription, now
	}
	return s
}

// EndedWhileExternal returns the subscription without the id of a provider's subscription that has ended,
// if the plan is managed externally. Otherwise Follow records the end.
func (s Subscription) EndedWhileExternal(subscription string, now time.Time) Subscription {
	if s.State() == StateExternal && s.ProviderID == subscription {
		s.ProviderID, s.UpdatedAt = "", now
	}
	return s
}

// EventKind is the kind of a provider's message.
type EventKind uint8

const (
	Unrelated           EventKind = iota // nothing that we act on
	CheckoutCompleted                    // a checkout was completed
	SubscriptionChanged                  // a subscription changed
	SubscriptionEnded                    // a subscription is over
	InvoiceFailed                        // an invoice was not paid
	InvoicePaid                          // an invoice was paid
)

// Event is a message of the payment provider.
type Event struct {
	Message      string // its id
	Kind         EventKind
	Type         string // in the provider's words, for the log
	At           time.Time
	Org          id.Org // from the metadata that we set; empty: not set
	Customer     string
	Subscription string     // empty: it is about none
	Unpaid       bool       // of a checkout that was completed without payment so far
	Snapshot     *Remote    // the subscription at the time of the message, where it brings one
	PeriodEnd    *time.Time // of a paid invoice
}

// Observed returns the subscription after a message whose subscription cannot be
// read at the provider: the message itself counts, unless a later state is known.
// An end is final and counts whatever its time.
func (s Subscription) Observed(e Event, now time.Time) (Subscription, FollowResult) {
	// The provider's times are whole seconds.
	if e.Kind != SubscriptionEnded && e.At.Before(s.SyncedAt.Truncate(time.Second)) {
		return s, Superseded
	}
	was := s.SyncedAt
	s, result := s.observed(e, now)
	if s.SyncedAt = was; result != Superseded && e.At.After(was) {
		s.SyncedAt = e.At
	}
	return s, result
}

func (s Subscription) observed(e Event, now time.Time) (Subscription, FollowResult) {
	own := e.Subscription != "" && e.Subscription == s.ProviderID
	switch {
	case e.Snapshot != nil && own && !s.Billed() && e.Kind != SubscriptionEnded:
		return s, Superseded // it is over
	case e.Snapshot != nil:
		r := *e.Snapshot
		if e.Kind == SubscriptionEnded {
			r.Status = RemoteStatusCanceled
		}
		return s.Follow(r, now)
	case !own || s.State() == StateExternal:
		return s, Superseded
	}
	trigger, known := triggerOfMessage[e.Kind]
	if !known {
		return s, Followed
	}
	to := s.stateAfter(trigger)
	if e.PeriodEnd != nil && s.Billed() && (s.CurrentPeriodEnd == nil || e.PeriodEnd.After(*s.CurrentPeriodEnd)) {
		s.CurrentPeriodEnd = e.PeriodEnd
	}
	return s.withState(to, now), Followed
}

// triggerOfMessage has the triggers of messages without a snapshot.
var triggerOfMessage = map[EventKind]Trigger{
	InvoiceFailed: PaymentFailed, InvoicePaid: PaymentReceived, SubscriptionEnded: RemoteCanceled,
}

// Checkout is a payment page of an organisation, or the request for one.
type Checkout struct {
	Key       string // the idempotency key of the request to the provider
	Plan      Plan
	Session   string // empty: the provider has not answered yet
	URL       string
	ExpiresAt time.Time // of the page
}

// Session is the state of a payment page at the provider.
type Session struct {
	Status       string // open, complete or expired
	Org          id.Org
	Plan         Plan
	Subscription string // empty: there is none yet
}

// Open reports whether the page accepts a payment.
func (s Session) Open() bool { return s.Status == "open" }

// open reports whether the page is open for at least checkoutSlack.
func (c *Checkout) open(now time.Time) bool {
	return now.Add(minCheckoutTime).Before(c.ExpiresAt)
}

// minCheckoutTime is the least time that is left to pay on a page.
const minCheckoutTime = 5 * time.Minute

// CheckoutStep is the next step of buying a plan.
type CheckoutStep uint8

const (
	NewPage     CheckoutStep = iota // a new payment page, under the key of the checkout
	OpenPage                        // the existing page
	ReplacePage                     // expiring the existing page, which is for another plan or over, then a new one
	ChangePlan                      // another plan of the existing subscription
)

// Ordered returns the next step of buying a plan. For a new page, it sets key, the idempotency key of the
// request to the provider, in the Checkout of the returned subscription.
func (s Subscription) Ordered(p Plan, key string, now time.Time) (Subscription, CheckoutStep, error) {
	if !p.Sold() {
		return s, 0, fault.Field("plan", "must be STANDARD or PREMIUM")
	}
	s = s.At(now)
	switch state := s.State(); {
	case state == StateExternal:
		return s, 0, fault.New(fault.Conflict, refusedExternal)
	case state == StateActive && s.Plan == p:
		return s, 0, fault.New(fault.Conflict, "The plan %s is active already", p)
	case s.Billed() && s.Plan == p:
		return s, 0, fault.New(fault.Conflict, "The plan %s is subscribed to already; the portal leads to what is due", p)
	case s.Billed():
		return s, ChangePlan, nil
	case s.Checkout == nil:
		s.Checkout, s.UpdatedAt = &Checkout{Key: key, Plan: p}, now
		return s, NewPage, nil
	case s.Checkout.Plan != p:
		return s, ReplacePage, nil
	case s.Checkout.Session == "":
		return s, NewPage, nil // the provider replies to requests of the same key with the same page
	case !s.Checkout.open(now):
		return s, ReplacePage, nil
	}
	return s, OpenPage, nil
}

// WithoutCheckout returns the subscription without the checkout of the key, whose page is closed.
func (s Subscription) WithoutCheckout(key string, now time.Time) Subscription {
	if s.Checkout != nil && s.Checkout.Key == key {
		s.Checkout, s.UpdatedAt = nil, now
	}
	return s
}

// WithCheckout sets the page of a checkout and returns false if the checkout is not the current one. If
// the provider created two pages, the first is kept, because a member may have opened it.
func (s Subscription) WithCheckout(c Checkout, now time.Time) (Subscription, bool) {
	if s.Checkout == nil || s.Checkout.Key != c.Key || s.Checkout.Session != "" && s.Checkout.Session != c.Session {
		return s, false
	}
	s.Checkout, s.UpdatedAt = &c, now
	return s, true
}

// How long after the end of its period a subscription without an event is read at
// the provider.
const (
	endGracePeriod     = 24 * time.Hour     // if it was to end
	renewalGracePeriod = 3 * 24 * time.Hour // if it was to be renewed
)

// Intervals between requests for a subscription to the provider.
const (
	checkInterval    = 24 * time.Hour  // after a response, and at most
	minRetryInterval = 5 * time.Minute // after the first failure; doubled after each further one
)

// Claimed returns the subscription as claimed at now by a server that reads it at the
// provider. Other servers do not read it before claimable.
func (s Subscription) Claimed(now time.Time) Subscription {
	s.Attempts, s.ClaimedAt = s.Attempts+1, now
	return s
}

// nextAttempt returns when the provider may be asked again.
func (s Subscription) nextAttempt() time.Time {
	if s.Attempts == 0 {
		return s.SyncedAt.Add(checkInterval)
	}
	interval := minRetryInterval
	for n := 1; n < s.Attempts && interval < checkInterval; n++ {
		interval *= 2
	}
	return s.ClaimedAt.Add(min(interval, checkInterval))
}

// Due returns when the subscription has to be checked without a request; nil:
// never.
func (s Subscription) Due() *time.Time {
	switch {
	case s.State() == StateTrial:
		return s.TrialEnd
	case s.Billed() && s.CurrentPeriodEnd != nil:
		due := s.CurrentPeriodEnd.Add(renewalGracePeriod)
		if s.CancelAtPeriodEnd {
			due = s.CurrentPeriodEnd.Add(endGracePeriod)
		}
		if at := s.nextAttempt(); at.After(due) {
			due = at
		}
		return &due
	case s.State() == StateExternal && s.Checkout != nil:
		return &s.UpdatedAt // the page still accepts a payment
	}
	return nil
}

// RemoteMissing returns the subscription ended because the provider no longer knows it.
func (s Subscription) RemoteMissing(now time.Time) Subscription {
	if !s.Billed() {
		return s
	}
	return s.withState(s.stateAfter(RemoteCanceled), now)
}
