package access

import (
	"context"
	"errors"

	"collab/domain/fault"
	"collab/domain/org"
	"collab/ports"
)

// Locked runs fn in a transaction that holds the organisation's lock, with the actor
// as read under the lock, so changes committed while it waited for the lock count. The actor
// has the epoch that the lock set. Locked fails as Reauthorize does, and checks the same request.
func (a *Access) Locked(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if err := a.checkNotExpired(FromContext(ctx)); err != nil {
		return err
	}
	return a.Store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, actor.Org); fault.Is(err, fault.NotFound) {
			return notMember()
		} else if err != nil {
			return err
		}
		epoch, err := r.Directory().Members().Epoch(ctx, actor.Org)
		if err != nil {
			return err
		}
		current, err := currentActor(ctx, r, actor, epoch-1, epoch)
		if err != nil {
			return err
		}
		return fn(r, current)
	})
}

// currentActor returns the actor as the transaction sees it at the epoch. An actor of the known epoch has
// not changed since.
func currentActor(ctx context.Context, r ports.Records, actor org.Actor, known, epoch int64) (org.Actor, error) {
	if actor.Visibility != nil && actor.Visibility.Epoch == known {
		visibility := *actor.Visibility
		visibility.Epoch = epoch
		actor.Visibility = &visibility
		return actor, nil
	}
	in := &cachedOrg{}
	var err error
	if in.structure, in.teams, err = readStructure(ctx, r, actor.Org); err != nil {
		return actor, err
	}
	if actor, err = readActor(ctx, r, in, memberKey{actor.Org, actor.User}, epoch); err != nil {
		return actor, err
	}
	if s := FromContext(ctx).Session; s != "" {
		if _, err = getOpenSession(ctx, r, s); fault.Is(err, fault.NotFound) {
			err = badToken(err)
		}
	}
	return actor, err
}

// maxAttempts is how often Atomic runs fn at most. Where one transaction writes at a time, twice are enough.
const maxAttempts = 10

// Atomic runs fn in a transaction that is committed only if the organisation's epoch, read
// after fn, is that of the actor. Otherwise the transaction is rolled back, and fn runs again
// with the actor authorized anew. It fails as Reauthorize does. It is for transactions without
// the organisation's lock, which are far more frequent than changes of the epoch.
func (a *Access) Atomic(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if err := a.checkNotExpired(FromContext(ctx)); err != nil {
		return err
	}
	for run := range maxAttempts {
		err := a.Store.Atomic(ctx, func(r ports.Records) error {
			current := actor
			if run > 0 { // the epoch may have changed again before the transaction began
				epoch, err := r.Directory().Members().Epoch(ctx, actor.Org)
				if err == nil {
					current, err = currentActor(ctx, r, actor, epoch, epoch)
				}
				if err != nil {
					return err
				}
			}
			refused := fn(r, current)
			epoch, err := r.Directory().Members().Epoch(ctx, actor.Org)
			switch {
			case err == nil && (current.Visibility == nil || current.Visibility.Epoch != epoch):
				return org.ErrEpochChanged
			case refused != nil:
				return refused
			}
			return err
		})
		if !errors.Is(err, org.ErrEpochChanged) {
			return err
		}
		if actor, err = a.Reauthorize(ctx, actor); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "The organisation is changing too fast; try again")
}
