// Package metering returns the usage of models and of storage.
package metering

import (
	"context"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/usage"
	"collab/ports"
)

// Metering are the use cases of usage.
type Metering struct {
	store  ports.Store
	from   func(ctx context.Context) ports.Records
	clock  ports.Clock
	limits plan.StorageLimits
}

// New returns the use cases over the store. From is access.From of the store.
func New(store ports.Store, from func(ctx context.Context) ports.Records, clock ports.Clock, limits plan.StorageLimits) *Metering {
	return &Metering{store: store, from: from, clock: clock, limits: limits}
}

// Storage is the usage of an organisation's storage, and its limit.
type Storage struct {
	Plan    plan.Plan
	Limit   int64 // in bytes, or plan.Unlimited
	Used    object.Usage
	Uploads int64 // declared bytes of the uploads to the store that are not completed
}

// Storage returns the usage of the storage of the actor's organisation.
func (s *Metering) Storage(ctx context.Context, actor org.Actor) (Storage, error) {
	if err := actor.CheckMember(); err != nil {
		return Storage{}, err
	}
	sub, err := s.store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return Storage{}, err
	}
	used, err := s.store.Storage().Used(ctx, []id.Org{actor.Org})
	if err != nil {
		return Storage{}, err
	}
	_, uploads, err := s.store.Storage().Announced(ctx, actor.Org)
	p := sub.At(s.clock.Now()).Plan
	return Storage{p, s.limits.Of(p), used[actor.Org], uploads}, err
}

// Own returns the actor's usage in the organisation's billing period.
func (s *Metering) Own(ctx context.Context, actor org.Actor) (own usage.Summary, err error) {
	if err := actor.CheckMember(); err != nil {
		return own, err
	}
	err = s.summary(ctx, s.store, actor, actor.User, func(sum usage.Summary) error {
		own = sum
		return nil
	}, nil)
	return own, err
}

// Organisation calls head with the sum of the billing period, and then, if the actor manages
// the organisation, each with the sum of every user; byUser reports whether it will. An error
// of head or each ends it and is returned. The sums may be stale (see ports.Store.From).
func (s *Metering) Organisation(ctx context.Context, actor org.Actor, head func(sum usage.Summary, byUser bool) error, each func(usage.Part) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	manages := actor.Role.MayManage()
	return s.summary(ctx, s.from(ctx), actor, "", func(sum usage.Summary) error { return head(sum, manages) }, func(p usage.Part) error {
		if !manages {
			return nil
		}
		return each(p)
	})
}

// Daily calls each with the daily sums of the actor's organisation that b selects, as
// ports.Ledger.Daily. Those of users other than the actor are for managers. They may be stale (see
// ports.Store.From).
func (s *Metering) Daily(ctx context.Context, actor org.Actor, b usage.Breakdown, after usage.Daily, limit int, each func(usage.Daily) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if b.ByUser || b.User != "" && b.User != actor.User {
		if err := actor.CheckManager(); err != nil {
			return err
		}
	}
	return s.from(ctx).Usage().Ledger().Daily(ctx, actor.Org, b, after, limit, each)
}

func (s *Metering) summary(
	ctx context.Context, r ports.Records, actor org.Actor, user id.User, head func(usage.Summary) error,
	each func(usage.Part) error,
) error {
	sub, err := s.store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	return r.Usage().Ledger().Summary(ctx, actor.Org, user, usage.PeriodOf(sub.At(now), now), head, each)
}
