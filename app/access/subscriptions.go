package access

import (
	"context"

	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
)

// maxSubscriptions is how many subscriptions are cached.
const maxSubscriptions = 10_000

// cachedSubscription is a subscription that was read at an epoch of its organisation, or later.
// Every change of a subscription increments the epoch.
type cachedSubscription struct {
	plan.Subscription
	epoch int64
}

// Subscription returns the subscription of the actor's organisation as of the actor's epoch or
// later. It reads r unless the subscription is in the cache.
func (a *Access) Subscription(ctx context.Context, r ports.Records, actor org.Actor) (plan.Subscription, error) {
	if actor.Visibility != nil {
		if cached, ok := a.subscriptions.Get(actor.Org); ok && cached.epoch == actor.Visibility.Epoch {
			return cached.Subscription, nil
		}
	}
	sub, err := r.Directory().Subscriptions().Get(ctx, actor.Org)
	if err == nil && actor.Visibility != nil {
		a.subscriptions.Put(actor.Org, cachedSubscription{sub, actor.Visibility.Epoch})
	}
	return sub, err
}
