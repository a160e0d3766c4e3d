package connectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/ports"
)

// atOnce is how many instances a server works on at the same time.
const atOnce = 16

// share is how many of them may be of one organisation: servers that give no answer
// take all the time that there is, and must not take that of everybody.
const share = 4

// tries is how often a reader looks whether somebody else has renewed a token.
const tries = 5

// grace is how long a renewal goes on when the server is going away: a refresh
// token that was sent may be worth nothing any more, and what comes for it is all
// that there is.
const grace = time.Second

// wake has the work looked for at once.
func (s *Connectors) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Woken tells when Work is worth a call before its time.
func (s *Connectors) Woken() <-chan struct{} { return s.woken }

// Work begins what is due, on instances and revocations of all organisations, as
// far as there is room. Any number of servers may call it, at any time; Wait
// returns when what it began has ended, as it does soon after ctx has.
func (s *Connectors) Work(ctx context.Context) error {
	now := s.Clock.Now()
	all := s.Store.Connections()
	err := begin(ctx, s, func(full []id.Org) ([]connector.Instance, error) {
		return all.Connectors().Due(ctx, now, 1, full...)
	}, func(i connector.Instance) { s.run(ctx, i.Org, i.ID, func() error { return s.tend(ctx, i) }) })
	return errors.Join(err, begin(ctx, s, func(full []id.Org) ([]connector.Revocation, error) {
		return all.Revocations().Due(ctx, now, now.Add(connector.Hold), 1, full...)
	}, func(r connector.Revocation) { s.run(ctx, r.Org, r.ID, func() error { return s.revoke(ctx, r) }) }))
}

// Wait returns when nothing is worked on any more.
func (s *Connectors) Wait() { s.work.Wait() }

// begin claims one after the other, as far as there is room, and runs each.
func begin[T any](ctx context.Context, s *Connectors, claim func(full []id.Org) ([]T, error), run func(T)) error {
	for range atOnce {
		full, room := s.enter()
		if !room {
			return nil
		}
		claimed, err := claim(full)
		if err != nil || len(claimed) == 0 {
			s.leave()
			return err
		}
		run(claimed[0])
		if ctx.Err() != nil {
			return nil // what was begun is handed on, and would be claimed again
		}
	}
	s.wake() // there may be more, but others have their turn before
	return nil
}

// enter takes room for one. It returns the organisations that have their share
// already; false: there is no room.
func (s *Connectors) enter() (full []id.Org, room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == atOnce {
		return nil, false
	}
	s.running++
	for o, n := range s.shares {
		if n >= share {
			full = append(full, o)
		}
	}
	return full, true
}

// leave gives back what enter took.
func (s *Connectors) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// run does something of an organisation in the room that begin took for it.
func (s *Connectors) run(ctx context.Context, o id.Org, i id.Connector, work func() error) {
	s.mu.Lock()
	s.shares[o]++
	s.mu.Unlock()
	s.work.Go(func() {
		err := errors.New("the work did not end")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if err != nil && ctx.Err() == nil {
				s.Log.Error("connector work failed", "instance", string(i), "org", string(o), "error", err)
			}
			s.mu.Lock()
			full := s.running == atOnce || s.shares[o] >= share
			s.running--
			if s.shares[o]--; s.shares[o] == 0 {
				delete(s.shares, o)
			}
			s.mu.Unlock()
			if full {
				s.wake() // there may be more than there was room for
			}
		}()
		err = work()
	})
}

// tend does what is due for an instance that was claimed: it renews its token, and
// looks whether its server answers. Nobody can use those of a closed organisation.
func (s *Connectors) tend(ctx context.Context, claimed connector.Instance) error {
	o, err := s.Store.Directory().Organisations().Get(ctx, claimed.Org)
	if err != nil {
		return err
	}
	if o.Closed() {
		return s.note(ctx, claimed, func(i connector.Instance) (connector.Instance, error) { return i.Retired(), nil })
	}
	i, c, err := s.read(ctx, claimed.Org, claimed.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil // it is gone
	case isUnreadable(err):
		return errors.Join(err, s.note(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
			return i.Unreadable("The credentials cannot be opened any more, and the connector has to be connected again", s.Clock.Now())
		}))
	case err != nil:
		return err
	case !mine(i, claimed):
		return nil // it has other credentials meanwhile, and is somebody else's work
	}
	renewed := false
	if i.RenewalDue(s.Clock.Now()) {
		if i, c, renewed, err = s.renew(ctx, i, c); err != nil || !renewed {
			return err
		}
	}
	if i.Hosting == connector.Local {
		return s.note(ctx, i, func(i connector.Instance) (connector.Instance, error) { return i.Idle(), nil })
	}
	tools, err := s.tools(ctx, i, c)
	if fault.Is(err, fault.Forbidden) && (c.Renewable || c.Renewal != "" && i.ExpiresAt == nil) && !renewed {
		// A token can be taken back before its time, which not every server tells.
		if i, c, renewed, err = s.renew(ctx, i, c); err != nil || !renewed {
			return err
		}
		tools, err = s.tools(ctx, i, c)
	}
	if ctx.Err() != nil {
		return s.handOn(ctx, i) // that says nothing about the server
	}
	reason, why := said(err)
	if why != nil {
		return why
	}
	return s.note(ctx, i, func(i connector.Instance) (connector.Instance, error) {
		if reason != "" {
			return i.Failed(reason, s.Clock.Now())
		}
		return i.Answered(tools, s.Clock.Now())
	})
}

// tools asks an instance's server what it offers.
func (s *Connectors) tools(ctx context.Context, i connector.Instance, c connector.Credentials) ([]connector.Tool, error) {
	p, ok := s.Catalog.Get(i.Provider)
	if !ok {
		return nil, fault.New(fault.Invalid, "The provider is in the catalog no more")
	}
	return s.Servers.Tools(ctx, connector.Access{URL: i.URL, Transport: i.Transport, Auth: p.Auth, Carriers: p.Carriers, Entries: c.Entries})
}

// said returns what people may read of an error, or the error where it is ours.
func said(err error) (reason string, ours error) {
	var f *fault.Error
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &f) && f.Kind != fault.Internal:
		return f.Message, nil
	}
	return "", err
}

// mine reports whether an instance is as its claim left it.
func mine(now, claimed connector.Instance) bool {
	return now.Version == claimed.Version && now.DueAt != nil && claimed.DueAt != nil && now.DueAt.Equal(*claimed.DueAt)
}

// note changes an instance, unless it is another's work by now.
func (s *Connectors) note(ctx context.Context, claimed connector.Instance, change func(connector.Instance) (connector.Instance, error)) error {
	_, err := s.Store.Connections().Connectors().Update(ctx, claimed.Org, claimed.ID, func(i connector.Instance) (connector.Instance, error) {
		if !mine(i, claimed) {
			return i, nil
		}
		return change(i)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// renew exchanges the refresh token of an instance that was claimed. It returns the
// instance and its credentials as they are then, still claimed; false when there
// is nothing more to do for it now.
func (s *Connectors) renew(ctx context.Context, claimed connector.Instance, c connector.Credentials) (i connector.Instance, now connector.Credentials, ok bool, err error) {
	if c.Renewal == "" || claimed.ExpiresAt != nil && !c.Renewable {
		return claimed, c, false, s.note(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
			return i.Withdrawn("The access token has expired, and the connector has to be authorised again")
		})
	}
	asking, over := outlasting(ctx)
	defer over()
	now, err = s.Authorizer.Renew(asking, c.Renewal)
	if err != nil {
		return claimed, c, false, s.notRenewed(ctx, claimed, err)
	}
	ctx = context.WithoutCancel(ctx)
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		var e error
		ok = false
		i, e = r.Connections().Connectors().Update(ctx, claimed.Org, claimed.ID, func(i connector.Instance) (connector.Instance, error) {
			if ok = i.Version == claimed.Version; !ok {
				return i, nil
			}
			return i.Renewed(now, s.Clock.Now())
		})
		if e != nil || !ok {
			return e
		}
		return s.put(ctx, r, i, now)
	})
	if fault.Is(err, fault.NotFound) {
		// It was deleted meanwhile, and what was taken back then was the old one.
		return i, now, false, s.disown(ctx, claimed.Org, now)
	}
	return i, now, ok && err == nil, err
}

// outlasting returns a context that ends a moment after ctx does.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	long, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		moment, over := context.WithTimeout(long, grace)
		defer over()
		<-moment.Done()
		end()
	})
	return long, func() { stop(); end() }
}

// notRenewed notes why a token could not be renewed.
func (s *Connectors) notRenewed(ctx context.Context, claimed connector.Instance, err error) error {
	if ctx.Err() != nil && !fault.Is(err, fault.Forbidden) {
		return s.handOn(ctx, claimed) // that says nothing about the provider
	}
	ctx = context.WithoutCancel(ctx)
	reason, ours := said(err)
	if ours != nil {
		return ours
	}
	s.Log.Warn("connector token refresh failed", "instance", string(claimed.ID), "org", string(claimed.Org), "error", err)
	return errors.Join(s.forget(ctx, err), s.note(ctx, claimed, func(i connector.Instance) (connector.Instance, error) {
		if fault.Is(err, fault.Forbidden) {
			return i.Withdrawn(reason)
		}
		return i.NotRenewed(reason, s.Clock.Now())
	}))
}

// handOn leaves an instance that was claimed to another server.
func (s *Connectors) handOn(ctx context.Context, claimed connector.Instance) error {
	return s.note(context.WithoutCancel(ctx), claimed, func(i connector.Instance) (connector.Instance, error) {
		return i.HandedOn(s.Clock.Now()), nil
	})
}

// fresh has the token of an instance renewed where it has expired. Of all who ask
// at once one does it, and the others wait for that.
func (s *Connectors) fresh(ctx context.Context, o id.Org, instance id.Connector) error {
	tried := false
	for attempt := 1; ; attempt++ {
		i, err := s.Store.Connections().Connectors().Get(ctx, o, instance)
		now := s.Clock.Now()
		switch {
		case err != nil || !i.Expired(now):
			return err
		case i.DueAt == nil:
			return fault.New(fault.Conflict, "The connector's access token has expired, and the connector has to be authorised again")
		case tried || attempt > tries || i.DueAt.After(now.Add(connector.Hold)): // the last is no claim of somebody's, but waiting after failures
			return fault.New(fault.Unavailable, "The connector's access token has expired, and could not be refreshed yet")
		}
		renewed, err := s.renewNow(ctx, o, instance)
		switch {
		case err == nil && renewed:
			return nil // if it has expired again, another would not be better
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

// renewNow claims an instance and renews its token for somebody who waits, and
// leaves the rest of what is due to the work. False: the token could not be
// renewed. Conflict when somebody else is at it.
func (s *Connectors) renewNow(ctx context.Context, o id.Org, instance id.Connector) (bool, error) {
	// What has begun is ended, also when nobody waits any more: see grace.
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), redeemWithin)
	defer over()
	claimed, err := s.Store.Connections().Connectors().Update(ctx, o, instance, func(i connector.Instance) (connector.Instance, error) {
		return i.ClaimedToUse(s.Clock.Now())
	})
	if err != nil {
		return false, err
	}
	i, c, err := s.read(ctx, o, instance)
	if err != nil || !mine(i, claimed) {
		return false, err
	}
	if i.Expired(s.Clock.Now()) { // not if somebody has renewed it, and handed it on
		var ok bool
		if i, _, ok, err = s.renew(ctx, i, c); err != nil || !ok {
			return false, err
		}
	}
	defer s.wake()
	return true, s.handOn(ctx, i)
}

// revokeLater notes that an authorization is to be taken back, if it can be.
func (s *Connectors) revokeLater(ctx context.Context, r ports.Records, o id.Org, of id.Connector, c connector.Credentials) error {
	if c.Renewal == "" {
		return nil
	}
	sealed, err := s.Sealer.Seal([]byte(c.Renewal), connector.RevocationContext(o, of))
	if err != nil {
		return err
	}
	return r.Connections().Revocations().Add(ctx, connector.Revocation{ID: of, Org: o, Renewal: sealed, DueAt: s.Clock.Now()})
}

// disown has an authorization taken back that no instance has. It gets an id of
// its own, as the instance that it was meant for may have left another behind.
func (s *Connectors) disown(ctx context.Context, o id.Org, c connector.Credentials) error {
	defer s.wake()
	return s.revokeLater(ctx, s.Store, o, id.Connector(s.IDs.New()), c)
}

// revoke takes an authorization back.
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
	again, more := r.Again(s.Clock.Now())
	if more {
		return revocations.Put(ctx, again)
	}
	s.Log.Error("authorization revocation failed", "instance", string(r.ID), "org", string(r.Org), "error", err)
	return revocations.Remove(ctx, r.Org, r.ID)
}
