// Package billing manages organisations' subscriptions: trials, checkouts, changes of plan,
// and events of the payment provider.
//
// The provider's state of a subscription is authoritative. On every sign of a change the
// subscription is read from the provider and the record follows it; if the record changed
// meanwhile, the subscription is read again. So the order of messages does not matter.
package billing

import (
	"context"
	"log/slog"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
)

// Options has the dependencies and settings of Billing.
type Options struct {
	Store    ports.Store
	Payments ports.Payments
	Provider ports.Billing
	Clock    ports.Clock
	IDs      ports.IDs
	Log      *slog.Logger

	// Locked is access.Access.Locked.
	Locked func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error
	// Reauthorize is access.Access.Reauthorize.
	Reauthorize func(ctx context.Context, actor org.Actor) (org.Actor, error)
	// Origin returns the origin of the request that ctx carries, for the audit log.
	Origin func(ctx context.Context) audit.Origin

	// Limits by plan, of this deployment.
	Storage  plan.StorageLimits
	Requests plan.RequestLimits
	Versions plan.VersionRetention

	PaidURL string // return address of the payment page
	AppURL  string // return address of the billing portal
}

// Billing are the use cases of payment.
type Billing struct{ Options }

func New(o Options) *Billing { return &Billing{o} }

// Details is a subscription with the number of members.
type Details struct {
	plan.Subscription
	Seats int
}

// Offer is a plan with its limits on this deployment.
type Offer struct {
	plan.Plan
	plan.Limits
	Storage  int64 // bytes of stored content, or plan.Unlimited
	Requests int64 // of the organisation in a minute, or plan.Unlimited
	Versions object.Retention
}

// Plans returns all plans with their limits, from the smallest to the largest.
func (s *Billing) Plans(actor org.Actor) ([]Offer, error) {
	if err := actor.CheckMember(); err != nil {
		return nil, err
	}
	var offers []Offer
	for _, p := range plan.All() {
		offers = append(offers, Offer{p, p.Limits(), s.Storage.Of(p), s.Requests.Of(p), s.Versions.Of(p)})
	}
	return offers, nil
}

// Subscription returns the present subscription of the actor's organisation.
func (s *Billing) Subscription(ctx context.Context, actor org.Actor) (Details, error) {
	if err := actor.CheckMember(); err != nil {
		return Details{}, err
	}
	return s.details(ctx, s.Store, actor.Org)
}

func (s *Billing) details(ctx context.Context, r ports.Records, o id.Org) (Details, error) {
	now := s.Clock.Now()
	sub, err := r.Directory().Subscriptions().Get(ctx, o)
	if err != nil {
		return Details{}, err
	}
	seats, err := r.Directory().Seats().Count(ctx, []id.Org{o}, now)
	return Details{sub.At(now), seats[o].Members}, err
}

// Trial starts the organisation's trial.
func (s *Billing) Trial(ctx context.Context, actor org.Actor) (Details, error) {
	_, err := s.updateAs(ctx, actor, func(was plan.Subscription) (plan.Subscription, error) {
		return was.At(s.Clock.Now()).Trialed(s.Clock.Now())
	})
	if err != nil {
		return Details{}, err
	}
	return s.details(ctx, s.Store, actor.Org)
}

// Downgrade ends a trial at once and a paid plan when its period ends.
func (s *Billing) Downgrade(ctx context.Context, actor org.Actor) (Details, error) {
	var cancellation plan.Cancellation
	downgrade := func(was plan.Subscription) (current plan.Subscription, err error) {
		current, cancellation, err = was.Downgraded(s.Clock.Now())
		return current, err
	}
	current, err := s.updateAs(ctx, actor, downgrade)
	if err != nil {
		return Details{}, err
	}
	if cancellation != plan.NothingToCancel {
		// How it ends depends on the provider's state, which may be later than the record.
		if err := s.followOrEnd(ctx, actor.Org, current.ProviderID, s.byActor(ctx, actor)); err != nil {
			return Details{}, err
		}
		current, err = s.updateAs(ctx, actor, func(was plan.Subscription) (plan.Subscription, error) {
			if !was.Billed() {
				cancellation = plan.NothingToCancel // it has ended meanwhile
				return was, nil
			}
			return downgrade(was)
		})
		if err != nil {
			return Details{}, err
		}
	}
	if cancellation != plan.NothingToCancel {
		if err := s.Provider.Cancel(ctx, current.ProviderID, cancellation == plan.CancelNow); err != nil && !fault.Is(err, fault.NotFound) {
			return Details{}, err
		}
		if err := s.followOrEnd(ctx, actor.Org, current.ProviderID, s.byActor(ctx, actor)); err != nil {
			return Details{}, err
		}
	}
	return s.details(ctx, s.Store, actor.Org)
}

// Portal returns the address of the provider's billing portal for the organisation.
func (s *Billing) Portal(ctx context.Context, actor org.Actor) (string, error) {
	if err := actor.CheckManager(); err != nil {
		return "", err
	}
	sub, err := s.Store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return "", err
	}
	never := fault.New(fault.Conflict, "The organisation has never been at the checkout")
	if sub.Customer == "" {
		return "", never
	}
	url, err := s.Payments.Portal(ctx, sub.Customer, s.AppURL)
	if fault.Is(err, fault.NotFound) {
		err = never // the customer was deleted at the provider; the next checkout creates another
	}
	if err == nil {
		err = s.recheck(ctx, actor)
	}
	if err != nil {
		return "", err
	}
	return url, nil
}

// recheck returns an error if the actor no longer manages the organisation: calls of the provider
// take time.
func (s *Billing) recheck(ctx context.Context, actor org.Actor) error {
	current, err := s.Reauthorize(ctx, actor)
	if err != nil {
		return err
	}
	return current.CheckManager()
}

// entryFunc makes the entry of the audit log for a change.
type entryFunc func(o id.Org, detail string) audit.Entry

func (s *Billing) byActor(ctx context.Context, actor org.Actor) entryFunc {
	from := s.Origin(ctx)
	return func(o id.Org, detail string) audit.Entry {
		return audit.By(actor, from, id.Entry(s.IDs.New()), o, audit.SubscriptionChanged, "", detail, s.Clock.Now())
	}
}

// bySystem returns an entryFunc for changes that no member made.
func (s *Billing) bySystem(why string) entryFunc {
	return func(o id.Org, detail string) audit.Entry {
		return audit.By(org.Actor{}, audit.Origin{}, id.Entry(s.IDs.New()), o, audit.SubscriptionChanged, "", detail+" "+why, s.Clock.Now())
	}
}

// updateAs is update for an actor, who must manage the organisation according to the locked
// records.
func (s *Billing) updateAs(ctx context.Context, actor org.Actor, fn func(plan.Subscription) (plan.Subscription, error)) (current plan.Subscription, err error) {
	err = s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckManager(); err != nil {
			return err
		}
		was, err := r.Directory().Subscriptions().Get(ctx, actor.Org)
		if err != nil {
			return err
		}
		if current, err = fn(was); err != nil {
			return err
		}
		return s.put(ctx, r, was, current, s.byActor(ctx, actor))
	})
	return current, err
}

// update stores what fn returns for the organisation's subscription. It is for changes that
// follow from the provider's state, and checks no actor.
func (s *Billing) update(
	ctx context.Context, o id.Org, newEntry entryFunc, fn func(plan.Subscription) (plan.Subscription, error),
) (current plan.Subscription, err error) {
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		was, err := s.lockSubscription(ctx, r, o)
		if err != nil {
			return err
		}
		if current, err = fn(was); err != nil {
			return err
		}
		return s.put(ctx, r, was, current, newEntry)
	})
	return current, err
}

// lockSubscription returns the subscription, locked until the transaction ends. NotFound for
// an organisation whose data was erased.
func (s *Billing) lockSubscription(ctx context.Context, r ports.Records, o id.Org) (plan.Subscription, error) {
	of, err := r.Directory().Organisations().Lock(ctx, o)
	if err != nil {
		return plan.Subscription{}, err
	}
	if of.ErasedAt != nil {
		return plan.Subscription{}, fault.Missing("Organisation")
	}
	return r.Directory().Subscriptions().Get(ctx, o)
}

// put stores a changed subscription, with an entry in the audit log if its plan or status changed.
func (s *Billing) put(ctx context.Context, r ports.Records, was, current plan.Subscription, newEntry entryFunc) error {
	if current == was {
		return nil
	}
	if err := r.Directory().Subscriptions().Put(ctx, current.Org, current); err != nil {
		return err
	}
	before, after := planAndStatus(was), planAndStatus(current)
	if before == after {
		return nil
	}
	return r.Journal().Audit().Add(ctx, newEntry(current.Org, before+" -> "+after))
}

// planAndStatus describes a subscription's plan and status for the audit log.
func planAndStatus(s plan.Subscription) string {
	text := string(s.Plan) + " " + string(s.Status())
	if s.CancelAtPeriodEnd {
		text += " until the period ends"
	}
	return text
}
