// Package metering tells members what their calls of models have used.
package metering

import (
	"context"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/quota"
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

// Quota returns where the actor stands today.
func (s *Metering) Quota(ctx context.Context, actor org.Actor) (quota.Status, error) {
	if err := actor.Belongs(); err != nil {
		return quota.Status{}, err
	}
	sub, err := s.store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return quota.Status{}, err
	}
	now := s.clock.Now()
	day := quota.DayOf(now)
	account, err := s.store.Usage().Quotas().Account(ctx, actor.Org, actor.User, day)
	return account.Status(sub.At(now).DailyTokens(), day), err
}

// Own returns what the actor used in the organisation's billing period.
func (s *Metering) Own(ctx context.Context, actor org.Actor) (usage.Summary, error) {
	if err := actor.Belongs(); err != nil {
		return usage.Summary{}, err
	}
	return s.summary(ctx, actor, actor.User)
}

// Organisation returns what everybody used in the billing period. It has ByUser
// only for those who manage the organisation.
func (s *Metering) Organisation(ctx context.Context, actor org.Actor) (usage.Summary, error) {
	if err := actor.Belongs(); err != nil {
		return usage.Summary{}, err
	}
	sum, err := s.summary(ctx, actor, "")
	switch {
	case !actor.Role.MayManage():
		sum.ByUser = nil
	case sum.ByUser == nil:
		sum.ByUser = []usage.Part{} // nobody has used anything
	}
	return sum, err
}

func (s *Metering) summary(ctx context.Context, actor org.Actor, user id.User) (usage.Summary, error) {
	sub, err := s.store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return usage.Summary{}, err
	}
	now := s.clock.Now()
	return s.store.Usage().Ledger().Summary(ctx, actor.Org, user, usage.PeriodOf(sub.At(now), now))
}
