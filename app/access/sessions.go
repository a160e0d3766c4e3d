package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
)

const (
	maxSessions = 100_000 // in each cache
	maxUses     = 50_000
	// FlushEvery is how often recorded uses are stored.
	FlushEvery = time.Minute
)

// openSession is a session that had not ended at an epoch of an organisation.
type openSession struct {
	org   id.Org
	epoch int64
	used  time.Time // the last recorded use
}

// checkSession returns NotFound if a session has ended or is not known. The cached result is
// used while the organisation has the same epoch, which the caller has read; without an
// organisation the record is read.
func (a *Access) checkSession(ctx context.Context, s id.Session, o id.Org, epoch int64) error {
	was, known := a.sessions.Get(s)
	if !known || o == "" || was.org != o || was.epoch != epoch {
		stored, err := getOpenSession(ctx, a.Store, s)
		if err != nil {
			return err
		}
		if stored.LastUsedAt.After(was.used) {
			was.used = stored.LastUsedAt
		}
		was.org, was.epoch = o, epoch
		a.sessions.Put(s, was)
	}
	a.recordUse(s, was)
	return nil
}

// recordUse records that a session is used, unless it was recorded within session.UseInterval.
func (a *Access) recordUse(s id.Session, was openSession) {
	if now := a.Clock.Now(); now.Sub(was.used) >= session.UseInterval {
		was.used = now
		a.sessions.Put(s, was)
		a.uses.add(s, now)
	}
}

// getOpenSession reads a session: NotFound if it has ended or is not known.
func getOpenSession(ctx context.Context, r ports.Records, s id.Session) (session.Session, error) {
	stored, err := r.Journal().Sessions().Get(ctx, s)
	if err == nil && stored.Ended {
		err = fault.Missing("Session")
	}
	return stored, err
}

// useSession is checkSession for a token: Unauthenticated if its session has ended. A token
// that names no session begins one at its first use.
func (a *Access) useSession(ctx context.Context, c session.Claims, from session.Client, o id.Org, epoch int64) error {
	err := a.checkSession(ctx, c.SessionID(), o, epoch)
	if fault.Is(err, fault.NotFound) && c.Session == "" {
		if err = a.beginUnnamed(ctx, c, from); err == nil {
			err = a.checkSession(ctx, c.SessionID(), o, epoch)
		}
	}
	if fault.Is(err, fault.NotFound) {
		return badToken(err)
	}
	return err
}

// beginUnnamed begins the session of a token that names none, unless the session exists.
func (a *Access) beginUnnamed(ctx context.Context, c session.Claims, from session.Client) error {
	return a.Store.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Journal().Sessions().Get(ctx, c.SessionID())
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		err = a.addSession(ctx, r, session.Begin(c, from, a.Clock.Now()))
		if fault.Is(err, fault.Conflict) { // it has ended meanwhile
			return badToken(err)
		}
		return err
	})
}

// lockUser locks the record of a user who may sign in until the transaction ends, so that
// transactions that begin or end sessions of the user run one after the other.
func lockUser(ctx context.Context, r ports.Records, user id.User) error {
	u, err := r.Directory().Users().Get(ctx, user)
	if err != nil {
		return err
	}
	_, err = r.Directory().Users().Upsert(ctx, u, func(u org.User) (org.User, error) { return u, u.CheckSignIn() })
	return err
}

// addSession adds a session of a user who may sign in, and ends those that are more than
// session.MaxPerUser. A later ban ends this session as well.
func (a *Access) addSession(ctx context.Context, r ports.Records, s session.Session) error {
	if err := lockUser(ctx, r, s.User); err != nil {
		return err
	}
	sessions := r.Journal().Sessions()
	if err := sessions.Put(ctx, s); err != nil {
		return err
	}
	all, err := sessions.List(ctx, s.User)
	if err != nil {
		return err
	}
	excess := session.Excess(all)
	if len(excess) == 0 {
		return nil
	}
	by, from := org.Actor{User: s.User}, audit.Origin{Address: s.Address}
	return removeSessions(ctx, r, s.User, excess, func(e session.Session) audit.Entry {
		return audit.By(by, from, id.Entry(a.IDs.New()), e.Org, audit.SessionEnded, string(e.ID),
			fmt.Sprintf("more than %d sessions", session.MaxPerUser), a.Clock.Now())
	})
}

// removeSessions ends sessions of a user, each with an entry in its organisation's audit log. It
// increments the epochs of the user's organisations, so that every server reads the records
// before it accepts another token of theirs.
func removeSessions(ctx context.Context, r ports.Records, user id.User, ended []session.Session, entry func(session.Session) audit.Entry) error {
	memberships, err := r.Directory().Users().Memberships(ctx, user)
	if err != nil {
		return err
	}
	slices.SortFunc(memberships, func(a, b org.Membership) int { return cmp.Compare(a.Org, b.Org) }) // the order of all locks
	for _, m := range memberships {
		if !m.Active() {
			continue
		}
		if _, err := r.Directory().Organisations().Lock(ctx, m.Org); err != nil {
			return err
		}
	}
	for _, s := range ended {
		var err error
		if left, ok := s.End(); ok {
			err = r.Journal().Sessions().Put(ctx, left)
		} else {
			err = r.Journal().Sessions().Remove(ctx, s.ID)
		}
		if err == nil && s.Org != "" {
			err = r.Journal().Audit().Add(ctx, entry(s))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SignOut ends all sessions of a user that the identity provider has banned or
// locked, and has every server read the user again.
func SignOut(ctx context.Context, r ports.Records, user id.User, now time.Time, ids ports.IDs) error {
	all, err := r.Journal().Sessions().List(ctx, user)
	if err != nil {
		return err
	}
	return removeSessions(ctx, r, user, all, func(s session.Session) audit.Entry {
		return audit.ByProvider(id.Entry(ids.New()), s.Org, audit.SessionEnded, string(s.ID), "", now)
	})
}

// Sessions returns the actor's sessions, the most recently used first.
func (a *Access) Sessions(ctx context.Context, actor org.Actor) ([]session.Session, error) {
	all, err := a.Store.Journal().Sessions().List(ctx, actor.User)
	for i := range all {
		if at := a.uses.lastUse(all[i].ID); at.After(all[i].LastUsedAt) {
			all[i].LastUsedAt = at
		}
	}
	now := a.Clock.Now()
	all = slices.DeleteFunc(all, func(s session.Session) bool { return s.Idle(now) })
	slices.SortStableFunc(all, func(a, b session.Session) int { return b.LastUsedAt.Compare(a.LastUsedAt) })
	return all, err
}

// EndSession ends one of the actor's sessions; NotFound if it is another user's or has ended.
func (a *Access) EndSession(ctx context.Context, actor org.Actor, sessionID id.Session) error {
	n, err := a.endSessions(ctx, actor, func(s session.Session) bool { return s.ID == sessionID })
	if err == nil && n == 0 {
		err = fault.Missing("Session")
	}
	return err
}

// EndOtherSessions ends all of the actor's sessions but that of the request that ctx
// carries.
func (a *Access) EndOtherSessions(ctx context.Context, actor org.Actor) error {
	own := FromContext(ctx).Session
	_, err := a.endSessions(ctx, actor, func(s session.Session) bool { return s.ID != own })
	return err
}

// endSessions ends the chosen ones of the actor's sessions and returns their number.
// Unauthenticated if the request's own session has ended meanwhile, so that of two sessions
// that end each other one remains.
func (a *Access) endSessions(ctx context.Context, actor org.Actor, chosen func(session.Session) bool) (n int, err error) {
	request := FromContext(ctx)
	err = a.Store.Atomic(ctx, func(r ports.Records) error {
		if err := lockUser(ctx, r, actor.User); err != nil {
			return err
		}
		all, err := r.Journal().Sessions().List(ctx, actor.User)
		if err != nil {
			return err
		}
		if request.Session != "" && !slices.ContainsFunc(all, func(s session.Session) bool { return s.ID == request.Session }) {
			return badToken(nil)
		}
		ended := slices.DeleteFunc(all, func(s session.Session) bool { return !chosen(s) })
		if n = len(ended); n == 0 {
			return nil
		}
		return removeSessions(ctx, r, actor.User, ended, func(s session.Session) audit.Entry {
			return audit.By(actor, request.Origin, id.Entry(a.IDs.New()), s.Org, audit.SessionEnded, string(s.ID), "", a.Clock.Now())
		})
	})
	return n, err
}

// uses are the uses of sessions that are not stored yet.
type uses struct {
	mu  sync.Mutex
	all map[id.Session]time.Time // guarded by mu
}

// add records a use. Beyond maxUses uses are lost until the next write.
func (u *uses) add(s id.Session, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[id.Session]time.Time{}
	}
	if len(u.all) < maxUses {
		u.all[s] = now
	}
}

func (u *uses) lastUse(s id.Session) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all[s]
}

// take returns the uses and resets them.
func (u *uses) take() map[id.Session]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.all
	u.all = nil
	return all
}

// FlushUses stores when sessions were last used. After an error the uses are kept for the next
// call.
func (a *Access) FlushUses(ctx context.Context) error {
	all := a.uses.take()
	if len(all) == 0 {
		return nil
	}
	err := a.Store.Journal().Sessions().Use(ctx, all)
	if err != nil {
		for s, at := range all {
			if a.uses.lastUse(s).IsZero() {
				a.uses.add(s, at)
			}
		}
	}
	return err
}
