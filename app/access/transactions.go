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
	of := FromContext(ctx)
	if err := a.unexpired(of); err != nil {
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
		is := actor
		if actor.Visibility == nil || actor.Visibility.Epoch+1 != epoch {
			in := &cachedOrg{}
			if in.structure, in.teams, err = readStructure(ctx, r, actor.Org); err != nil {
				return err
			}
			if is, err = readActor(ctx, r, in, memberKey{actor.Org, actor.User}, epoch); err != nil {
				return err
			}
			if of.Session != "" {
				if _, err := getOpenSession(ctx, r, of.Session); fault.Is(err, fault.NotFound) {
					return badToken(err)
				} else if err != nil {
					return err
				}
			}
		} else {
			visibility := *actor.Visibility
			visibility.Epoch = epoch
			is.Visibility = &visibility
		}
		return fn(r, is)
	})
}

// maxRuns is how often Atomic runs fn without the organisation's lock.
const maxRuns = 3

// Atomic runs fn in a transaction that is committed only if the organisation's epoch, read
// after fn, is that of the actor. Otherwise the transaction is rolled back, and fn runs again
// with the actor authorized anew, after maxRuns under the organisation's lock. It fails as Reauthorize
// does. It is for transactions that are far more frequent than changes of the epoch.
func (a *Access) Atomic(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if err := a.unexpired(FromContext(ctx)); err != nil {
		return err
	}
	for range maxRuns {
		err := a.Store.Atomic(ctx, func(r ports.Records) error {
			refused := fn(r, actor)
			epoch, err := r.Directory().Members().Epoch(ctx, actor.Org)
			switch {
			case err == nil && (actor.Visibility == nil || actor.Visibility.Epoch != epoch):
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
	return a.Locked(ctx, actor, fn)
}
