package access

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
)

type browserKey struct{}

// browserRequest is the browser session of a request, and the account that it must be of.
type browserRequest struct {
	session id.Session
	account string // as accountOf returns it; empty: any
}

// WithBrowser returns a context that carries the browser session with a secret, by which Verify
// authenticates the request instead of a bearer token. Verify refuses a session of another account
// than the given one, which is accountOf's result; empty: any.
func WithBrowser(ctx context.Context, secret, account string) context.Context {
	return context.WithValue(ctx, browserKey{}, browserRequest{session.BrowserID(secret), account})
}

// accountOf names a user in an organisation, which may be empty.
func accountOf(user id.User, in id.Org) string { return string(user) + "/" + string(in) }

// browserOf returns the browser session that ctx carries, whose id is empty if there is none.
func browserOf(ctx context.Context) browserRequest {
	request, _ := ctx.Value(browserKey{}).(browserRequest)
	return request
}

// BrowserUnread reports whether ctx carries a browser session whose record this server has not
// read, so that its secret may be a guess.
func (a *Access) BrowserUnread(ctx context.Context) bool {
	sessionID := browserOf(ctx).session
	if sessionID == "" {
		return false
	}
	_, known := a.browsers.Get(sessionID)
	return !known
}

// StartBrowser starts the sign-in of the browser itself, which goes to the path afterwards. Former is
// the secret of the session that the browser has, empty if it has none. It returns the address to
// redirect the browser to, and the value of a cookie with the state, which expires after CLILifetime.
func (a *Access) StartBrowser(ctx context.Context, path, former string) (redirect, cookie string, err error) {
	f := identity.Flow{Browser: true, Path: path}
	if former != "" {
		f.Former = session.BrowserID(former)
	}
	return a.startSignIn(ctx, f)
}

// FinishBrowser completes the sign-in that StartBrowser started, ends the browser's former session
// and begins one. It returns the session's secret and the path to go to.
func (a *Access) FinishBrowser(
	ctx context.Context, cookie string, r identity.Return, from session.Client, origin audit.Origin,
) (secret, path string, err error) {
	f, err := a.openFlow(cookie, true)
	if err != nil {
		return "", "", err
	}
	if a.SessionCookie != "" && r.State != f.Own {
		return "", "", fault.New(fault.Invalid, "state must be that which the sign-in was started with")
	}
	token, err := a.SignIn.Finish(ctx, f, a.callback(f), r)
	if err != nil {
		return "", "", err
	}
	in, err := a.identify(ctx, Exchange{IdentityToken: token})
	if err != nil {
		return "", "", err
	}
	// A transaction of its own, as both sessions may be of different users.
	if f.Former != "" {
		if err := a.endBrowser(ctx, f.Former, origin); err != nil {
			return "", "", err
		}
	}
	secret = a.Secrets.Secret()
	c := a.claims(in)
	err = a.Store.Atomic(ctx, func(r ports.Records) error {
		return a.addSession(ctx, r, session.BeginBrowser(secret, c.User, c.Org, from, a.Clock.Now()))
	})
	return secret, f.Path, err
}

// verifyBrowser returns the caller of a browser session: Unauthenticated if it is not known or has
// ended. Whether it has ended since its record was read is checked by Authorize.
func (a *Access) verifyBrowser(ctx context.Context, sessionID id.Session) (Caller, error) {
	now := a.Clock.Now()
	if c, known := a.browsers.Get(sessionID); known {
		if was, ok := a.sessions.Get(sessionID); ok && !session.IdleSince(was.used, now) && now.Before(c.expires) {
			return c, nil
		}
	}
	s, err := getOpenBrowser(ctx, a.Store, sessionID)
	if err != nil {
		return Caller{}, err
	}
	if session.IdleSince(s.LastUsedAt, now) || !now.Before(s.ExpiresAt) {
		return Caller{}, browserSessionEnded()
	}
	c := Caller{User: s.User, Org: s.Org, claims: s.BrowserClaims(), expires: s.ExpiresAt}
	a.browsers.Put(sessionID, c)
	return c, nil
}

// EndBrowser ends the browser session with a secret, if there is one. It returns the address at
// which the browser signs out at the identity provider too, empty if there is none at present.
func (a *Access) EndBrowser(ctx context.Context, secret string, origin audit.Origin) (provider string, err error) {
	if err := a.endBrowser(ctx, session.BrowserID(secret), origin); err != nil {
		return "", err
	}
	if provider, err = a.SignIn.End(ctx, a.SignedOutURL, a.Secrets.Secret()); err != nil {
		return "", nil // the provider is down, and the session has ended
	}
	return provider, nil
}

// endBrowser ends a browser session, if there is one.
func (a *Access) endBrowser(ctx context.Context, sessionID id.Session, origin audit.Origin) error {
	s, err := getOpenSession(ctx, a.Store, sessionID)
	if err == nil {
		ctx = NewContext(ctx, Request{Origin: origin})
		_, err = a.endSessions(ctx, org.Actor{User: s.User, Org: s.Org}, func(o session.Session) bool { return o.ID == s.ID })
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// SwitchBrowser ends the browser session with a secret and begins one in another organisation of its
// user, which is the one used last from then on. It returns the new session's secret and how long
// that can last, which is what the old one had left. Unauthenticated if the session has ended;
// Invalid if the organisation is closed or unknown, or the user is no member of it.
func (a *Access) SwitchBrowser(
	ctx context.Context, secret string, to id.Org, from session.Client, origin audit.Origin,
) (next string, left time.Duration, err error) {
	sessionID := session.BrowserID(secret)
	c, err := a.verifyBrowser(ctx, sessionID)
	if err != nil {
		return "", 0, err
	}
	next, now := a.Secrets.Secret(), a.Clock.Now()
	err = a.Store.Atomic(ctx, func(r ports.Records) error {
		if err := lockUser(ctx, r, c.User); err != nil {
			return err
		}
		s, err := getOpenBrowser(ctx, r, sessionID)
		if err != nil {
			return err
		}
		// Ending locks the organisations in the order of all locks, so the membership comes after it.
		err = removeSessions(ctx, r, s.User, []session.Session{s}, func(s session.Session) audit.Entry {
			return audit.By(org.Actor{User: s.User, Org: s.Org}, origin, id.Entry(a.IDs.New()), s.Org,
				audit.SessionEnded, string(s.ID), "switched to another organisation", now)
		})
		if err == nil {
			err = a.useMembership(ctx, r, s.User, to)
		}
		if err != nil {
			return err
		}
		return a.addSession(ctx, r, s.Switched(next, to, from, now))
	})
	return next, c.expires.Sub(now), err
}

// getOpenBrowser is getOpenSession of a browser session: Unauthenticated if it has ended.
func getOpenBrowser(ctx context.Context, r ports.Records, sessionID id.Session) (session.Session, error) {
	s, err := getOpenSession(ctx, r, sessionID)
	if fault.Is(err, fault.NotFound) {
		err = browserSessionEnded()
	}
	return s, err
}

func browserSessionEnded() error {
	return fault.New(fault.Unauthenticated, "The session has ended: sign in again")
}
