// Package upkeep forgets what has had its time. Any number of servers may run
// it at once: every step is harmless when repeated.
package upkeep

import (
	"context"
	"errors"
	"time"

	"collab/domain/org"
	"collab/ports"
)

// inboxRetention is how long a provider's message is remembered. Providers
// send again for some days at most, and people for some weeks.
const inboxRetention = 90 * 24 * time.Hour

// Upkeep is the regular work.
type Upkeep struct {
	store ports.Store
	clock ports.Clock
}

// New returns the regular work over the store.
func New(store ports.Store, clock ports.Clock) *Upkeep {
	return &Upkeep{store: store, clock: clock}
}

// Run does everything once. A step that fails does not keep the others from
// running; all errors come back together.
func (u *Upkeep) Run(ctx context.Context) error {
	now := u.clock.Now()
	return errors.Join(
		u.store.Journal().Inbox().Prune(ctx, now.Add(-inboxRetention)),
		u.store.Journal().Replays().Prune(ctx, now),
		u.erase(ctx, now),
	)
}

// erase removes the data of organisations that were closed long enough ago.
func (u *Upkeep) erase(ctx context.Context, now time.Time) error {
	before := now.Add(-org.Retention)
	due, err := u.store.Directory().Organisations().List(ctx, org.Filter{ClosedBefore: &before})
	if err != nil {
		return err
	}
	var failed error
	for _, o := range due {
		if o.Erasable(now) {
			failed = errors.Join(failed, u.store.Directory().Organisations().Erase(ctx, o.ID, now))
		}
	}
	return failed
}
