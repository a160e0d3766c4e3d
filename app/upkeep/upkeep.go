// Package upkeep removes expired data. Any number of servers may run it concurrently, as
// every step is idempotent.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"collab/app/connectors"
	"collab/domain/calendar"
	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/release"
	"collab/ports"
)

// inboxRetention is how long the ids of providers' messages are stored. Providers send a
// message again for some days, and people by hand for some weeks.
const inboxRetention = 90 * 24 * time.Hour

// requestsRetention is how long counts of requests are stored. Clocks of servers may differ.
const requestsRetention = time.Hour

// Upkeep is the regular work.
type Upkeep struct {
	store      ports.Store
	blobs      ports.Blobs
	clock      ports.Clock
	connectors *connectors.Connectors
	retention  time.Duration

	resumeAfter atomic.Pointer[string] // name that the last collection ended at; nil: at no name
}

// New returns the regular work over the store and its blobs. Retention is how long entries
// stay in the log of changes. The use cases of connectors revoke the authorizations of
// erased organisations; Collect does not need them.
func New(store ports.Store, blobs ports.Blobs, clock ports.Clock, c *connectors.Connectors, retention time.Duration) *Upkeep {
	return &Upkeep{store: store, blobs: blobs, clock: clock, connectors: c, retention: retention}
}

// Run runs every step once, even if others fail, and returns all errors joined.
func (u *Upkeep) Run(ctx context.Context) error {
	now := u.clock.Now()
	return errors.Join(
		u.store.Journal().Inbox().Prune(ctx, now.Add(-inboxRetention)),
		u.store.Journal().Replays().Prune(ctx, now),
		u.store.Journal().Sessions().Prune(ctx, now),
		u.store.Deployment().DeviceGrants().Prune(ctx, now),
		u.store.Journal().Exports().Prune(ctx, now.Add(-export.Retention)),
		u.store.Connections().Flows().Sweep(ctx, now),
		u.sweep(ctx, u.store.Connections().Clients().Sweep, now.Add(-connector.ClientRetention)),
		u.sweep(ctx, u.store.Journal().Uploads().Sweep, now),
		u.sweep(ctx, u.store.Directory().InvitationSets().Sweep, now.Add(-invitation.Retention)),
		u.store.Deployment().Reports().Prune(ctx, now.Add(-release.Retention)),
		u.store.Deployment().Adoption().Prune(ctx, calendar.DayOf(now.Add(-release.Retention))),
		u.store.Usage().Requests().Prune(ctx, now.Add(-requestsRetention)),
		u.store.Storage().Changes().Prune(ctx, now.Add(-u.retention)),
		u.store.Storage().Versions().Expire(ctx, now),
		u.erase(ctx, now),
		u.Collect(ctx, false, false, func(Garbage) error { return nil }),
	)
}

// sweep calls some, which removes at most limit records that are due at the time and returns how many, until
// no more are left.
func (u *Upkeep) sweep(ctx context.Context, removeSome func(ctx context.Context, at time.Time, limit int) (int, error), at time.Time) error {
	for {
		n, err := removeSome(ctx, at, batchSize)
		if err != nil || n < batchSize {
			return err
		}
	}
}

// erase removes the data of organisations that were closed org.Retention ago. It keeps, and reports,
// those that the payment provider may still bill: after the erasure nobody could tell whom.
func (u *Upkeep) erase(ctx context.Context, now time.Time) error {
	before := now.Add(-org.Retention)
	due, err := u.store.Directory().Organisations().List(ctx, org.Filter{ClosedBefore: &before})
	if err != nil {
		return err
	}
	var failed error
	for _, o := range due {
		if o.Erasable(now) {
			part := func(ctx context.Context, at time.Time, limit int) (int, error) {
				return u.erasePart(ctx, o.ID, at, limit)
			}
			failed = errors.Join(failed, u.sweep(ctx, part, now))
		}
	}
	return failed
}

// erasePart removes a part of an organisation's data in one transaction, as ports.Organisations.Erase does.
func (u *Upkeep) erasePart(ctx context.Context, o id.Org, now time.Time, limit int) (n int, err error) {
	err = u.store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, o); err != nil {
			return err
		}
		s, err := r.Directory().Subscriptions().Get(ctx, o)
		if err != nil {
			return err
		}
		if s.Cancelable() || s.Checkout != nil {
			return fmt.Errorf("organisation %s is not erased: its subscription %q of customer %q is not "+
				"canceled, or its payment page is open", o, s.ProviderID, s.Customer)
		}
		if err := u.connectors.RevokeAll(ctx, r, o); err != nil {
			return err
		}
		n, err = r.Directory().Organisations().Erase(ctx, o, now, limit)
		return err
	})
	return n, err
}
