package connectors

import (
	"context"
	"errors"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

const (
	// maxRunning is how many instances and revocations a server works on concurrently.
	maxRunning = 16

	// maxPerOrg is how many of them may be of one organisation, so that its slow tool servers
	// do not delay the work of others. It may not have more than are free, either.
	maxPerOrg = 4

	// maxReadAttempts is how often a reader checks whether another call has renewed a token.
	maxReadAttempts = 5

	// stopGrace is how long a renewal continues after the server began to stop: the refresh
	// token that was sent may be used up, and its successor must be stored.
	stopGrace = time.Second

	// storeTimeout bounds storing renewed credentials; with the renewal before it is shorter
	// than connector.ClaimDuration.
	storeTimeout = time.Minute

	// maxPauseAttempt is the attempt after which the pauses between attempts to store do not grow.
	maxPauseAttempt = 4
)

// wake makes Woken's channel receive, so that Work is called soon.
func (s *Connectors) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Woken returns a channel that receives when Work should be called before its time.
func (s *Connectors) Woken() <-chan struct{} { return s.woken }

// Work claims due instances and revocations of all organisations up to the limits, and
// starts working on them. Any number of servers may call it concurrently. Wait returns when
// the work has ended, which is at most stopGrace after ctx ends, or storeTimeout while renewed
// credentials cannot be stored.
func (s *Connectors) Work(ctx context.Context) error {
	now := s.Clock.Now()
	all := s.Store.Connections()
	err := startDue(ctx, s, func(atLimit []id.Org) (connector.Instance, error) {
		return all.Connectors().Claim(ctx, now, atLimit...)
	}, func(i connector.Instance) { s.run(ctx, i.Org, i.ID, func() error { return s.maintain(ctx, i) }) })
	return errors.Join(err, startDue(ctx, s, func(atLimit []id.Org) (connector.Revocation, error) {
		return all.Revocations().Claim(ctx, now, now.Add(connector.ClaimDuration), atLimit...)
	}, func(r connector.Revocation) { s.run(ctx, r.Org, r.ID, func() error { return s.revoke(ctx, r) }) }))
}

// Wait waits for the work that Work started.
func (s *Connectors) Wait() { s.work.Wait() }

// startDue claims due records one by one, up to the limits, and calls run for each.
func startDue[T any](ctx context.Context, s *Connectors, claim func(atLimit []id.Org) (T, error), run func(T)) error {
	for range maxRunning {
		atLimit, ok := s.reserveSlot()
		if !ok {
			return nil
		}
		var claimed T
		err := fault.Catch(func() (err error) {
			claimed, err = claim(atLimit)
			return err
		})
		if err != nil {
			s.releaseSlot()
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			return err
		}
		run(claimed)
		if ctx.Err() != nil {
			return nil // the started work hands its claims over, and they would be claimed again
		}
	}
	s.wake() // more may be due; the caller continues with other work first
	return nil
}

// reserveSlot reserves one of maxRunning slots; ok is false if none is free. AtLimit are the
// organisations that have maxPerOrg slots already, or as many as are free after that.
func (s *Connectors) reserveSlot() (atLimit []id.Org, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == maxRunning {
		return nil, false
	}
	s.running++
	limit := min(maxPerOrg, maxRunning-s.running)
	for o, n := range s.runningByOrg {
		if n >= limit {
			atLimit = append(atLimit, o)
		}
	}
	return atLimit, true
}

// releaseSlot returns a slot of reserveSlot.
func (s *Connectors) releaseSlot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// run runs work of an organisation in a goroutine, in the slot that startDue reserved.
func (s *Connectors) run(ctx context.Context, o id.Org, i id.Connector, work func() error) {
	s.mu.Lock()
	s.runningByOrg[o]++
	s.mu.Unlock()
	s.work.Go(func() {
		err := errors.New("the work did not end")
		defer func() {
			if err != nil && ctx.Err() == nil {
				s.Log.Error("connector work failed", "instance", string(i), "org", string(o), "error", err)
			}
			s.mu.Lock()
			atLimit := maxRunning-s.running <= maxPerOrg || s.runningByOrg[o] >= maxPerOrg
			s.running--
			if s.runningByOrg[o]--; s.runningByOrg[o] == 0 {
				delete(s.runningByOrg, o)
			}
			s.mu.Unlock()
			if atLimit {
				s.wake() // more may be due
			}
		}()
		err = fault.Catch(work)
	})
}

// maintain renews the token of a claimed instance and checks its server, if they are due.
// An instance of a closed organisation is retired.
func (s *Connectors) maintain(ctx context.Context, claimed connector.Instance) error {
	o, err := s.Store.Directory().Organisations().Get(ctx, claimed.Org)
	if err != nil {
		return err
	}
	if o.Closed() {
		return s.update(ctx, claimed, func(i connector.Instance) (connector.Instance, error) { return i.Retired(), nil })
	}
	i, c, err := s.readInstance(ctx, claimed.Org, claimed.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case isUnreadable(err):
		return errors.Join(err, s.update(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
			return i.Unreadable("The credentials cannot be opened any more, and the connector has to be connected again", s.Clock.Now())
		}))
	case err != nil:
		return err
	case !stillClaimed(i, claimed):
		return nil // credentials or claim changed meanwhile
	}
	renewed := false
	if i.RenewalDue(s.Clock.Now()) {
		if i, c, renewed, err = s.renew(ctx, i, c); err != nil || !renewed {
			return err
		}
	}
	tools, err := s.tools(ctx, i, c)
	if fault.Is(err, fault.Forbidden) && (c.Renewable || c.Renewal != "" && i.ExpiresAt == nil) && !renewed {
		// The token may have been revoked before it expired.
		if i, c, renewed, err = s.renew(ctx, i, c); err != nil || !renewed {
			return err
		}
		tools, err = s.tools(ctx, i, c)
	}
	if ctx.Err() != nil {
		return s.release(ctx, i) // the error is not the server's
	}
	reason, err := publicReason(err)
	if err != nil {
		return err
	}
	return s.update(ctx, i, func(i connector.Instance) (connector.Instance, error) {
		if reason != "" {
			return i.Failed(reason, s.Clock.Now())
		}
		return i.Answered(tools, s.Clock.Now())
	})
}

// tools lists the tools of an instance's server.
func (s *Connectors) tools(ctx context.Context, i connector.Instance, c connector.Credentials) ([]connector.Tool, error) {
	p, ok := s.Catalog.Get(i.Provider)
	if !ok {
		return nil, fault.New(fault.Invalid, "The provider is no longer in the catalog")
	}
	i = i.WithServerOf(p)
	return s.Servers.Tools(ctx, connector.Access{
		URL: i.URL, Transport: i.Transport, Auth: p.Auth, CredentialTemplates: p.CredentialTemplates, Entries: c.Entries,
	})
}

// publicReason returns the message of an error that users may see; it returns err if the
// error is internal.
func publicReason(err error) (reason string, internal error) {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind != fault.Internal {
		return f.Message, nil
	}
	return "", err
}

// stillClaimed reports whether an instance has the version and due time of the claim.
func stillClaimed(current, claimed connector.Instance) bool {
	return current.Version == claimed.Version && current.DueAt != nil && claimed.DueAt != nil && current.DueAt.Equal(*claimed.DueAt)
}

// update changes an instance, unless it is no longer claimed or was deleted.
func (s *Connectors) update(ctx context.Context, claimed connector.Instance, change func(connector.Instance) (connector.Instance, error)) error {
	_, err := s.Store.Connections().Connectors().Update(ctx, claimed.Org, claimed.ID, func(i connector.Instance) (connector.Instance, error) {
		if !stillClaimed(i, claimed) {
			return i, nil
		}
		return change(i)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// renew exchanges the refresh token of a claimed instance. It returns the instance, still
// claimed, with its new credentials; ok is false if nothing more is to be done for it now.
func (s *Connectors) renew(
	ctx context.Context, claimed connector.Instance, c connector.Credentials,
) (i connector.Instance, renewed connector.Credentials, ok bool, err error) {
	if c.Renewal == "" || claimed.ExpiresAt != nil && !c.Renewable {
		return claimed, c, false, s.update(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
			return i.Revoked("The access token has expired, and the connector has to be authorised again")
		})
	}
	renewing, cancel := withStopGrace(ctx)
	defer cancel()
	renewed, err = s.Authorizer.Renew(renewing, c.Renewal)
	if err != nil {
		return claimed, c, false, s.notRenewed(ctx, claimed, err)
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	i, ok, err = s.storeRenewed(ctx, claimed, renewed)
	if fault.Is(err, fault.NotFound) {
		// The deletion revoked the old token; the new one is revoked here.
		return i, renewed, false, s.revokeOrphan(ctx, claimed.Org, renewed)
	}
	return i, renewed, ok && err == nil, err
}

// storeRenewed stores the renewed credentials of a claimed instance. It retries while the store is
// unavailable, because the previous refresh token is invalid. It returns false if the instance has
// other credentials.
func (s *Connectors) storeRenewed(ctx context.Context, claimed connector.Instance, renewed connector.Credentials) (i connector.Instance, ok bool, err error) {
	for attempt := 1; ; attempt++ {
		err = s.Store.Atomic(ctx, func(r ports.Records) error {
			var updateErr error
			ok = false
			i, updateErr = r.Connections().Connectors().Update(ctx, claimed.Org, claimed.ID, func(i connector.Instance) (connector.Instance, error) {
				if ok = i.Version == claimed.Version; !ok {
					return i, nil
				}
				return i.Renewed(renewed, s.Clock.Now())
			})
			if updateErr != nil || !ok {
				return updateErr
			}
			return s.sealCredentials(ctx, r, i, renewed)
		})
		if !fault.Is(err, fault.Unavailable) || s.Pause(ctx, min(attempt, maxPauseAttempt)) != nil {
			return i, ok, err
		}
	}
}

// withStopGrace returns a context that ends stopGrace after ctx does.
func withStopGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	graceCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer, cancel := context.WithTimeout(graceCtx, stopGrace)
		defer cancel()
		<-timer.Done()
		end()
	})
	return graceCtx, func() { stop(); end() }
}

// notRenewed stores why a token could not be renewed.
func (s *Connectors) notRenewed(ctx context.Context, claimed connector.Instance, err error) error {
	if ctx.Err() != nil && !fault.Is(err, fault.Forbidden) {
		return s.release(ctx, claimed) // the error is not the provider's
	}
	ctx = context.WithoutCancel(ctx)
	reason, internal := publicReason(err)
	if internal != nil {
		return internal
	}
	s.Log.Warn("connector token refresh failed", "instance", string(claimed.ID), "org", string(claimed.Org), "error", err)
	return errors.Join(s.forgetClient(ctx, err), s.update(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
		if fault.Is(err, fault.Forbidden) {
			return i.Revoked(reason)
		}
		return i.NotRenewed(reason, s.Clock.Now())
	}))
}

// release ends the claim of an instance, so that any server can claim it at once.
func (s *Connectors) release(ctx context.Context, claimed connector.Instance) error {
	return s.update(context.WithoutCancel(ctx), claimed, func(i connector.Instance) (connector.Instance, error) {
		return i.Released(s.Clock.Now()), nil
	})
}

// ensureFresh renews the token of an instance if it has expired. Of concurrent callers one
// renews it, and the others wait.
func (s *Connectors) ensureFresh(ctx context.Context, o id.Org, instance id.Connector) error {
	tried := false
	for attempt := 1; ; attempt++ {
		i, err := s.Store.Connections().Connectors().Get(ctx, o, instance)
		now := s.Clock.Now()
		switch {
		case err != nil || !i.Expired(now):
			return err
		case i.DueAt == nil:
			return fault.New(fault.Conflict, "The connector's access token has expired, and the connector has to be authorised again")
		case tried || attempt > maxReadAttempts || i.DueAt.After(now.Add(connector.ClaimDuration)):
			// A DueAt after the end of any claim is the wait after failures.
			return fault.New(fault.Unavailable, "The connector's access token has expired, and could not be refreshed yet")
		}
		renewed, err := s.renewNow(ctx, o, instance)
		switch {
		case err == nil && renewed:
			return nil // even if it has expired again: the next would, too
		case err == nil:
			tried = true
		case !fault.Is(err, fault.Conflict):
			return err
		default:
			if err := s.Pause(ctx, attempt); err != nil {
				return err
			}
		}
	}
}

// renewNow claims an instance, renews its token and hands it over to Work, which does the
// rest of what is due. It returns false if the token could not be renewed, and Conflict if
// the instance is claimed already.
func (s *Connectors) renewNow(ctx context.Context, o id.Org, instance id.Connector) (bool, error) {
	// A caller that goes away does not cancel this: the refresh token may be used up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redeemTimeout)
	defer cancel()
	claimed, err := s.Store.Connections().Connectors().Update(ctx, o, instance, func(i connector.Instance) (connector.Instance, error) {
		return i.ClaimedToUse(s.Clock.Now())
	})
	if err != nil {
		return false, err
	}
	i, c, err := s.readInstance(ctx, o, instance)
	if err != nil || !stillClaimed(i, claimed) {
		return false, err
	}
	if i.Expired(s.Clock.Now()) { // false if it was renewed and handed over meanwhile
		var ok bool
		if i, _, ok, err = s.renew(ctx, i, c); err != nil || !ok {
			return false, err
		}
	}
	defer s.wake()
	return true, s.release(ctx, i)
}

// revokeLater stores a revocation of the credentials' authorization, if it can be revoked.
func (s *Connectors) revokeLater(ctx context.Context, r ports.Records, o id.Org, instance id.Connector, c connector.Credentials) error {
	if c.Renewal == "" {
		return nil
	}
	sealed, err := s.Sealer.Seal([]byte(c.Renewal), connector.RevocationContext(o, instance))
	if err != nil {
		return err
	}
	return r.Connections().Revocations().Add(ctx, connector.Revocation{ID: instance, Org: o, Renewal: sealed, DueAt: s.Clock.Now()})
}

// revokeOrphan stores a revocation of an authorization that no instance has. It has an id of
// its own, because a deleted instance may have a revocation under its id.
func (s *Connectors) revokeOrphan(ctx context.Context, o id.Org, c connector.Credentials) error {
	defer s.wake()
	return s.revokeLater(ctx, s.Store, o, id.Connector(s.IDs.New()), c)
}

// revoke revokes an authorization; after a failure it is tried again later, if attempts are
// left.
func (s *Connectors) revoke(ctx context.Context, r connector.Revocation) error {
	revocations := s.Store.Connections().Revocations()
	renewal, err := s.unseal(r.Renewal, connector.RevocationContext(r.Org, r.ID))
	if err == nil {
		err = s.Authorizer.Revoke(ctx, string(renewal))
	}
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		return revocations.Remove(ctx, r.Org, r.ID)
	}
	retry, more := r.Retried(s.Clock.Now())
	if more {
		return revocations.Put(ctx, retry)
	}
	s.Log.Error("authorization revocation failed", "instance", string(r.ID), "org", string(r.Org), "error", err)
	return revocations.Remove(ctx, r.Org, r.ID)
}
