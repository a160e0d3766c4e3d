// Package metering returns what members' calls of models have used.
package metering

import (
	"context"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/usage"
	"collab/ports"
)

// Metering are the use cases of usage.
type Metering struct {
	store ports.Store
	clock ports.Clock
}

// New returns the use cases over the store.
func New(store ports.Store, clock ports.Clock) *Metering {
	return &Metering{store: store, clock: clock}
}

// Own returns what the actor used in the organisation's billing period.
func (s *Metering) Own(ctx context.Context, actor org.Actor) (own usage.Summary, err error) {
	if err := actor.CheckMember(); err != nil {
		return own, err
	}
	err = s.summary(ctx, actor, actor.User, func(sum usage.Summary) error {
		own = sum
		return nil
	}, nil)
	return own, err
}

// Organisation calls head with the sum of the billing period, and then, if the actor manages
// the organisation, each with the sum of every user; byUser reports whether it will. An error
// of head or each ends it and is returned.
func (s *Metering) Organisation(ctx context.Context, actor org.Actor, head func(sum usage.Summary, byUser bool) error, each func(usage.Part) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	manages := actor.Role.MayManage()
	return s.summary(ctx, actor, "", func(sum usage.Summary) error { return head(sum, manages) }, func(p usage.Part) error {
		if !manages {
			return nil
		}
		return each(p)
	})
}

func (s *Metering) summary(ctx context.Context, actor org.Actor, user id.User, head func(usage.Summary) error, each func(usage.Part) error) error {
	sub, err := s.store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	return s.store.Usage().Ledger().Summary(ctx, actor.Org, user, usage.PeriodOf(sub.At(now), now), head, each)
}
