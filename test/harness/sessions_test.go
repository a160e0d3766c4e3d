package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"collab/app/access"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	stored "collab/domain/object"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
	"collab/test/directory"
	"collab/test/harness"
	"collab/test/must"
)

// counting counts what is read of sessions, and stores no uses once their context has ended.
type counting struct {
	ports.Store
	gets *int
}

type countingJournal struct {
	ports.Journal
	gets *int
}

type countingSessions struct {
	ports.Sessions
	gets *int
}

func (c counting) Journal() ports.Journal { return countingJournal{c.Store.Journal(), c.gets} }

func (c countingJournal) Sessions() ports.Sessions {
	return countingSessions{c.Journal.Sessions(), c.gets}
}

func (c countingSessions) Get(ctx context.Context, s id.Session) (session.Session, error) {
	*c.gets++
	return c.Sessions.Get(ctx, s)
}

func (c countingSessions) Use(ctx context.Context, all map[id.Session]time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.Sessions.Use(ctx, all)
}

var laptop = session.Client{Address: "192.0.2.1", UserAgent: "Laptop/1.0"}

func claimsOf(c *harness.Deployment, user, organisation string) identity.Claims {
	now := c.Clock.Now()
	return identity.Claims{Subject: user, Org: organisation, OrgRole: "member", IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
}

// signIn exchanges an identity token.
func signIn(t *testing.T, a *access.Access) string {
	t.Helper()
	s := must.Do(a.Exchange(t.Context(), access.Exchange{IdentityToken: "token", From: laptop})).Or(t)
	return s.Token
}

// user is the actor of a request, with the request's session and context.
type user struct {
	org.Actor
	session id.Session
	ctx     context.Context
}

// use makes a request with a token.
func use(t *testing.T, a *access.Access, token string) (user, error) {
	return verified(t.Context(), a, token)
}

// verified makes a request with the token or the context of a browser's session.
func verified(ctx context.Context, a *access.Access, token string) (user, error) {
	caller, err := a.Verify(ctx, token)
	if err != nil {
		return user{}, err
	}
	actor, err := a.Authorize(ctx, caller)
	r := caller.Request("request")
	return user{actor, r.Session, access.NewContext(ctx, r)}, err
}

func TestATokenOfAnEndedSessionIsRefusedOnTheNextRequestOfEveryServer(t *testing.T) {
	for name, organisation := range map[string]string{"in an organisation": "org_1", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			c := core(t)
			server := presenting(t, c)
			one, two := server(claimsOf(c, "user_1", organisation)), server(claimsOf(c, "user_1", organisation))
			lost, kept := signIn(t, one), signIn(t, one)
			for range 2 {
				for _, a := range []*access.Access{one, two} {
					for _, token := range []string{lost, kept} {
						must.Do(use(t, a, token)).Or(t)
					}
				}
			}
			elsewhere := signIn(t, server(claimsOf(c, "user_1", "org_2")))
			other := must.Do(use(t, one, elsewhere)).Or(t)
			switched, err := two.Switch(t.Context(), lost, other.Org, laptop)
			if err != nil || switched.Org == nil || switched.Org.ID != other.Org {
				t.Fatalf("got %+v, %v", switched, err)
			}
			must.Do(use(t, one, switched.Token)).Or(t)
			must.NoError(t, one.EndSession(other.ctx, other.Actor, other.session))
			refreshed := must.Do(two.Refresh(t.Context(), lost, laptop)).Or(t)
			actor := must.Do(use(t, one, kept)).Or(t)
			all, err := one.Sessions(actor.ctx, actor.Actor)
			if err != nil || len(all) != 2 {
				t.Fatalf("got %+v, %v", all, err)
			}
			gone := all[0].ID
			if gone == actor.session {
				gone = all[1].ID
			}
			must.NoError(t, one.EndSession(actor.ctx, actor.Actor, gone))
			must.Fail(t, one.EndSession(actor.ctx, actor.Actor, gone), fault.NotFound)
			for _, a := range []*access.Access{one, two} {
				for _, token := range []string{lost, refreshed.Token, switched.Token} {
					must.Fail(t, must.ErrorOf(use(t, a, token)), fault.Unauthenticated)
					must.Fail(t, must.ErrorOf(a.Refresh(t.Context(), token, laptop)), fault.Unauthenticated)
					for _, to := range []id.Org{other.Org, "unknown"} {
						must.Fail(t, must.ErrorOf(a.Switch(t.Context(), token, to, laptop)), fault.Unauthenticated)
					}
				}
				must.Succeed(t, must.ErrorOf(use(t, a, kept)))
			}
			if _, err := two.Reauthorize(access.NewContext(t.Context(), access.Request{Session: gone}), actor.Actor); actor.Org != "" && !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("what has gone on for a while: %v", err)
			}
			entries := directory.AuditLog(t, c.Store, actor.Org)
			if organisation != "" && (len(entries) != 1 || entries[0].Action != audit.SessionEnded || entries[0].Target != string(gone)) {
				t.Errorf("the audit log has %+v", entries)
			}
		})
	}
}

func TestAServiceTokenIsRefusedWithoutTheIdentityProvider(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1")) // whose provider accepts any token
	must.Fail(t, must.ErrorOf(a.Exchange(t.Context(), access.Exchange{IdentityToken: signIn(t, a)})), fault.Unauthenticated)
}

func TestARequestReadsNoSessionWhileTheEpochStands(t *testing.T) {
	c, gets := core(t), 0
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	a.Store = counting{c.Store, &gets}
	token := signIn(t, a)
	for range 10 {
		must.Do(use(t, a, token)).Or(t)
	}
	must.Is(t, 1, gets)
}

func TestATokenThatNamesNoSessionHasOneOfItsOwn(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	actor := must.Do(use(t, a, signIn(t, a))).Or(t)
	var old [2]string
	for i := range old {
		old[i] = must.Do(a.Tokens.Issue(session.Issue(c.IDs.New(), actor.User, actor.Org, org.Member, c.Clock.Now()))).Or(t)
		for range 2 {
			must.Do(use(t, a, old[i])).Or(t)
		}
	}
	must.Is(t, 3, len(must.Do(a.Sessions(actor.ctx, actor.Actor)).Or(t)))
	first := must.Do(use(t, a, old[0])).Or(t)
	must.NoError(t, a.EndSession(actor.ctx, actor.Actor, first.session))
	for range 2 {
		must.Fail(t, must.ErrorOf(use(t, a, old[0])), fault.Unauthenticated)                      // an ended one
		must.Fail(t, must.ErrorOf(a.Refresh(t.Context(), old[0], laptop)), fault.Unauthenticated) // an ended one
	}
	s := must.Do(a.Refresh(t.Context(), old[1], laptop)).Or(t)
	second, err := use(t, a, s.Token)
	if before, e := use(t, a, old[1]); err != nil || e != nil || before.session != second.session {
		t.Errorf("refreshed, it is in %q and not in %q, %v, %v", second.session, before.session, err, e)
	}
	must.NoError(t, a.EndOtherSessions(second.ctx, second.Actor))
	if all, err := a.Sessions(second.ctx, second.Actor); err != nil || len(all) != 1 || all[0].ID != second.session {
		t.Errorf("there are %+v, %v", all, err)
	}
}

func TestATransactionSeesThatTheSessionHasEnded(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	actor := must.Do(use(t, a, signIn(t, a))).Or(t)
	other := must.Do(use(t, a, signIn(t, a))).Or(t)
	must.NoError(t, a.EndSession(other.ctx, other.Actor, actor.session))
	must.Fail(t, a.EndOtherSessions(actor.ctx, actor.Actor), fault.Unauthenticated)          // by an ended session
	must.Fail(t, a.EndSession(actor.ctx, actor.Actor, other.session), fault.Unauthenticated) // by an ended session
	for name, transaction := range map[string]func(context.Context, org.Actor, func(ports.Records, org.Actor) error) error{"locked": a.Locked, "atomic": a.Atomic} {
		ran := func(by user) (kept bool, err error) {
			err = transaction(by.ctx, by.Actor, func(ports.Records, org.Actor) error {
				kept = true
				return nil
			})
			return kept && err == nil, err
		}
		if kept, err := ran(actor); kept || !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: an ended session: %t, %v", name, kept, err)
		}
		if kept, err := ran(other); !kept || err != nil {
			t.Errorf("%s: the other session: %t, %v", name, kept, err)
		}
	}
}

func TestRechecksAcceptATokenAsLongAsAuthorize(t *testing.T) {
	c := core(t)
	claims := claimsOf(c, "user_1", "org_1")
	a := presenting(t, c)(claims)
	began, nothing := c.Clock.Now(), func(ports.Records, org.Actor) error { return nil }
	for kind, token := range map[string]struct {
		bearer string
		ends   time.Time
	}{
		"identity": {"token", claims.ExpiresAt.Add(identity.Leeway)},
		"service":  {signIn(t, a), began.Add(session.Lifetime)},
	} {
		for about, do := range map[string]func(user) error{
			"reauthorized": func(by user) error { _, err := a.Reauthorize(by.ctx, by.Actor); return err },
			"locked":       func(by user) error { return a.Locked(by.ctx, by.Actor, nothing) },
			"atomic":       func(by user) error { return a.Atomic(by.ctx, by.Actor, nothing) },
		} {
			c.Clock.Set(token.ends.Add(-time.Millisecond))
			by := must.Do(use(t, a, token.bearer)).Or(t)
			if err := do(by); err != nil {
				t.Errorf("%s, %s before the end: %v", kind, about, err)
			}
			by = must.Do(use(t, a, token.bearer)).Or(t)
			c.Clock.Set(token.ends)
			if err := do(by); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s, %s at the end: %v", kind, about, err)
			}
			if _, err := use(t, a, token.bearer); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s, authorized at the end: %v", kind, err)
			}
		}
	}
}

func TestAnIdentityTokenIsVerifiedAgainAfterFiveMinutes(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	must.Do(use(t, a, "token")).Or(t)
	a.Identity = c.Identity // which knows no such token
	c.Clock.Advance(5*time.Minute - time.Millisecond)
	must.Do(use(t, a, "token")).Or(t)
	c.Clock.Advance(time.Millisecond)
	must.Fail(t, must.ErrorOf(use(t, a, "token")), fault.Unauthenticated)
}

func TestWhatWasAdmittedIsAuthorizedAfterItsTokenExpired(t *testing.T) {
	c := core(t)
	claims := claimsOf(c, "user_1", "org_1")
	a := presenting(t, c)(claims)
	caller := must.Do(a.Verify(t.Context(), "token")).Or(t)
	c.Clock.Set(claims.ExpiresAt.Add(time.Hour))
	must.Fail(t, must.ErrorOf(a.Authorize(t.Context(), caller)), fault.Unauthenticated)
	must.NoError(t, must.ErrorOf(a.Authorize(t.Context(), caller.WithoutExpiry())))
}

func TestAUserHasAHundredSessionsAtMost(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	var tokens []string
	for range session.MaxPerUser + 1 {
		tokens = append(tokens, signIn(t, a))
		c.Clock.Set(c.Clock.Now().Add(time.Second))
	}
	must.Fail(t, must.ErrorOf(use(t, a, tokens[0])), fault.Unauthenticated) // the oldest
	actor := must.Do(use(t, a, tokens[1])).Or(t)
	must.Is(t, session.MaxPerUser, len(must.Do(a.Sessions(actor.ctx, actor.Actor)).Or(t)))
	entries := directory.AuditLog(t, c.Store, actor.Org)
	if len(entries) != 1 || entries[0].Action != audit.SessionEnded || entries[0].Actor != actor.User ||
		entries[0].Address != laptop.Address || entries[0].Detail != "more than 100 sessions" {
		t.Errorf("the audit log has %+v", entries)
	}
}

func TestUsesOfASessionAreStoredAtIntervals(t *testing.T) {
	c := core(t)
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	token := signIn(t, a)
	actor := must.Do(use(t, a, token)).Or(t)
	begun := c.Clock.Now()
	a.Store = counting{c.Store, new(int)}
	ended, end := context.WithCancel(t.Context())
	end()
	noted := func(want time.Time) {
		t.Helper()
		must.Do(use(t, a, token)).Or(t)
		_ = a.FlushUses(ended) // the uses, if any, are kept
		if all, err := a.Sessions(actor.ctx, actor.Actor); err != nil || !all[0].LastUsedAt.Equal(want) || all[0].Address != laptop.Address || all[0].UserAgent != laptop.UserAgent {
			t.Errorf("got %+v, %v; want %v", all, err, want)
		}
		must.NoError(t, a.FlushUses(t.Context()))
		if s, err := c.Store.Journal().Sessions().Get(t.Context(), actor.session); err != nil || !s.LastUsedAt.Equal(want) {
			t.Errorf("kept is %+v, %v; want %v", s, err, want)
		}
	}
	noted(begun)
	c.Clock.Set(begun.Add(session.UseInterval - time.Millisecond))
	noted(begun)
	c.Clock.Set(begun.Add(session.UseInterval))
	noted(begun.Add(session.UseInterval))
}

// say has the provider say of the user whether they are banned or locked, in its n-th
// message.
func say(t *testing.T, c *harness.Deployment, n int, word string, blocked bool) {
	t.Helper()
	now := c.Clock.Now()
	body := must.Do(json.Marshal(object{"type": "user.updated", "timestamp": now.UnixMilli(), "data": object{
		"id": "user_1", "updated_at": now.Add(time.Duration(n) * time.Second).UnixMilli(), word: blocked,
	}})).Or(t)
	must.NoError(t, c.Receive(t.Context(), fmt.Sprint("msg_", n), body))
}

// interrupted calls before with the number of each transaction that begins, from 0 on.
type interrupted struct {
	ports.Store
	begun  int
	before func(n int)
}

func (s *interrupted) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	s.before(s.begun)
	s.begun++
	return s.Store.Atomic(ctx, fn)
}

// TestABanDuringAnExchangeLeavesNoSession receives a ban before each of the two transactions of an exchange.
func TestABanDuringAnExchangeLeavesNoSession(t *testing.T) {
	for at := range 2 {
		c, received := core(t), false
		a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
		signIn(t, a)
		caller := must.Do(a.Verify(t.Context(), "token")).Or(t)
		a.Store = &interrupted{Store: c.Store, before: func(n int) {
			if n == at {
				say(t, c, 1, "banned", true)
				received = true
			}
		}}
		if s, err := a.Exchange(t.Context(), access.Exchange{IdentityToken: "token"}); !fault.Is(err, fault.Unauthenticated) || !received {
			t.Errorf("a ban before transaction %d: %+v, %v, %t", at, s, err, received)
		}
		if all, err := a.Sessions(t.Context(), org.Actor{User: caller.User}); err != nil || len(all) != 0 {
			t.Errorf("a ban before transaction %d leaves %+v, %v", at, all, err)
		}
	}
}

func TestBannedAndLockedUsersAreRefused(t *testing.T) {
	for _, word := range []string{"banned", "locked"} {
		t.Run(word, func(t *testing.T) {
			c := core(t)
			server := presenting(t, c)
			one, two := server(claimsOf(c, "user_1", "org_1")), server(claimsOf(c, "user_1", "org_1"))
			token := signIn(t, one)
			all := func() (errs []error) {
				for _, a := range []*access.Access{one, two} {
					_, used := use(t, a, token)
					_, refreshed := a.Refresh(t.Context(), token, laptop)
					_, exchanged := a.Exchange(t.Context(), access.Exchange{IdentityToken: "token"})
					_, identified := use(t, a, "token")
					errs = append(errs, used, refreshed, exchanged, identified)
				}
				return errs
			}
			must.NoError(t, errors.Join(all()...))
			say(t, c, 1, word, true)
			for i, err := range all() {
				if !fault.Is(err, fault.Unauthenticated) {
					t.Errorf("way %d in: %v", i, err)
				}
			}
			say(t, c, 2, word, false)
			for _, a := range []*access.Access{one, two} {
				must.Fail(t, must.ErrorOf(use(t, a, token)), fault.Unauthenticated) // the old session
				must.Succeed(t, must.ErrorOf(use(t, a, "token")))                   // an identity token
				must.Succeed(t, must.ErrorOf(use(t, a, signIn(t, a))))              // a new session
			}
		})
	}
}

func TestDeletingAUserEndsTheirSessionsAndErasesTheirTeam(t *testing.T) {
	c, ctx := core(t), t.Context()
	a := presenting(t, c)(claimsOf(c, "user_1", "org_1"))
	u := must.Do(use(t, a, signIn(t, a))).Or(t)
	seeded := must.Do(c.Onboarding.Seed(ctx, u.Actor)).Or(t)
	u = must.Do(use(t, a, signIn(t, a))).Or(t)
	must.Do(c.Objects.SaveMemory(ctx, u.Actor, seeded.PersonalWorkspace, "notes.md", harness.Text("x"))).Or(t)
	must.NoError(t, c.SendIdentityEvent(ctx, "user.deleted", object{"id": "user_1", "deleted": true}))
	must.Is(t, 0, len(must.Do(a.Sessions(u.ctx, u.Actor)).Or(t)))
	must.Fail(t, must.ErrorOf(c.Store.Work().Teams().Get(ctx, u.Org, seeded.PersonalTeam)), fault.NotFound)
	must.Do(c.Store.Work().Teams().Get(ctx, u.Org, seeded.SharedTeam)).Or(t)
	all := must.Do(c.Store.Storage().Changes().List(ctx, u.Org, 0, 100)).Or(t)
	if last := all[len(all)-1]; last.Type != stored.Deleted || last.Audience == nil || !slices.Equal(last.Audience.Users, []id.User{u.User}) {
		t.Errorf("the deletion is shown by %+v", last)
	}
}
