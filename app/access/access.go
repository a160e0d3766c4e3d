// Package access authenticates and authorizes callers: it verifies, exchanges and refreshes
// tokens, determines the actor that a caller is, and makes the records of users and
// organisations that are known from a token alone.
package access

import (
	"context"
	"crypto/sha256"
	"time"

	"collab/app/cache"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/session"
	"collab/ports"
)

// Bounds of the caches. An identity token is verified again after verifyEvery, so that a
// withdrawn key of the provider is not accepted longer.
const (
	maxToken        = 16 << 10 // bytes
	maxCachedActors = 64 << 20 // bytes
	maxVerified     = 100_000
	maxPositions    = 100_000 // organisations
	verifyEvery     = 5 * time.Minute
)

// Options has the dependencies and settings of Access.
type Options struct {
	Store    ports.Store
	Epochs   ports.Epochs
	Identity ports.IdentityTokens
	Tokens   ports.ServiceTokens
	SignIn   ports.SignIn
	Sealer   ports.Sealer
	Clock    ports.Clock
	IDs      ports.IDs
	Secrets  ports.Secrets
	Roles    org.RoleMap
	// CallbackURL is our redirect address for the provider's sign-in page.
	CallbackURL string
	// BrowserCallbackURL is that for sign-ins of the browser itself.
	BrowserCallbackURL string
	// SignedOutURL is where the provider redirects browsers that have signed out there.
	SignedOutURL string
	// SessionCookie is the name of the identity provider's session cookie; empty if it
	// signs in by authorization code.
	SessionCookie string
	// OperatorSecret is the operator's secret; empty: there are no operators.
	OperatorSecret string
}

// Access are the use cases of tokens.
type Access struct {
	Options
	epochs     *epochs
	verified   *cache.Cache[[sha256.Size]byte, verified]
	actorCache *actorCache
	sessions   *cache.Cache[id.Session, openSession]
	browsers   *cache.Cache[id.Session, Caller]
	uses       uses

	subscriptions *cache.Cache[id.Org, cachedSubscription]
}

// memberKey names a user in one organisation.
type memberKey struct {
	org  id.Org
	user id.User
}

// Caller is the user and organisation of a verified bearer token. Authorize determines what
// the caller may do.
type Caller struct {
	User id.User
	Org  id.Org // empty: without an organisation
	From session.Client

	claims  session.Claims // of a service token
	expires time.Time      // when the token is no longer accepted; for an identity token after identity.Leeway
}

func (c Caller) key() memberKey { return memberKey{c.Org, c.User} }

// WithoutExpiry returns the caller as if the token never expired, for requests that were admitted before it did.
func (c Caller) WithoutExpiry() Caller {
	c.expires = c.expires.AddDate(1000, 0, 0)
	return c
}

// service reports whether the token is one of ours.
func (c Caller) service() bool { return c.claims.ID != "" }

// Request returns the request with this id of the caller.
func (c Caller) Request(requestID string) Request {
	r := Request{Origin: audit.Origin{Address: c.From.Address, Request: requestID}, Expires: c.expires}
	if c.service() {
		r.Session = c.claims.SessionID()
	}
	return r
}

// verified is a token whose signature was checked.
type verified struct {
	Caller
	until time.Time // when an identity token is to be verified again; zero for a service token
}

// cachedActor is the result of reading a member at an epoch of its organisation. It is valid
// while the organisation has that epoch.
type cachedActor struct {
	epoch int64
	actor org.Actor
	err   error // the refusal, if the member was refused
}

func New(o Options) *Access {
	return &Access{
		Options:    o,
		epochs:     newEpochs(o.Epochs),
		verified:   cache.NewCounted[[sha256.Size]byte, verified](maxVerified),
		actorCache: newActorCache(o.Store, maxCachedActors),
		sessions:   cache.NewCounted[id.Session, openSession](maxSessions),
		browsers:   cache.NewCounted[id.Session, Caller](maxSessions),

		subscriptions: cache.NewCounted[id.Org, cachedSubscription](maxSubscriptions),
	}
}

// Verify returns the caller of a bearer token of either kind, or that of the browser session which
// ctx carries: Unauthenticated for an invalid token, an ended session, a session of another account
// than ctx names, or a deleted user. The
// caller of a token without an organisation is in the one that the user used last.
func (a *Access) Verify(ctx context.Context, bearer string) (Caller, error) {
	c, err := a.verifyCaller(ctx, bearer)
	if err == nil && c.Org == "" {
		c.Org, err = a.defaultOrg(ctx, c.User)
	}
	if account := browserOf(ctx).account; err == nil && account != "" && account != accountOf(c.User, c.Org) {
		return Caller{}, fault.New(fault.Unauthenticated, "This browser's session is now one of another account or organisation: load the page again")
	}
	return c, err
}

func (a *Access) verifyCaller(ctx context.Context, bearer string) (Caller, error) {
	if sessionID := browserOf(ctx).session; sessionID != "" {
		return a.verifyBrowser(ctx, sessionID)
	}
	v, err := a.verify(ctx, bearer)
	return v.Caller, err
}

// Cached returns the actor that Authorize or Reauthorize last found for the caller, if it is
// in the cache; it reads no records. The actor is unconfirmed: it is only for use cases that
// compare the organisation's epoch with actor.Visibility.Epoch, and must not be refused
// anything.
func (a *Access) Cached(c Caller) (actor org.Actor, ok bool) {
	s, ok := a.actorCache.get(c.key())
	if !ok || s.err != nil || !a.Clock.Now().Before(c.expires) {
		return org.Actor{}, false
	}
	if c.service() {
		was, ok := a.sessions.Get(c.claims.SessionID())
		if !ok || was.org != c.Org || was.epoch != s.epoch {
			return org.Actor{}, false
		}
		a.recordUse(c.claims.SessionID(), was)
	}
	return s.actor, true
}

// Authorize returns the caller's actor according to the present records: Unauthenticated if
// the token has expired, its session has ended or the user was deleted, Forbidden for a
// removed member and in a closed organisation.
func (a *Access) Authorize(ctx context.Context, c Caller) (org.Actor, error) {
	if !a.Clock.Now().Before(c.expires) {
		return org.Actor{}, badToken(nil)
	}
	var actor org.Actor
	var err error
	if c.Org == "" {
		actor.User, err = c.User, checkUser(ctx, a.Store, c.User)
	} else {
		actor, err = a.actorOf(ctx, c.key())
	}
	if err == nil && c.service() {
		err = a.useSession(ctx, c.claims, c.From, c.Org, actor.Epoch())
	}
	return actor, err
}

// Reauthorize authorizes the actor again, for work that takes long: Unauthenticated if the
// token of the request that ctx carries has expired, its session has ended or the user was
// deleted, Forbidden for a removed member.
func (a *Access) Reauthorize(ctx context.Context, actor org.Actor) (org.Actor, error) {
	return a.reauthorize(ctx, FromContext(ctx), actor)
}

// Reauthorizer returns Reauthorize for work that outlives the request that ctx carries.
// An expired token is the error session.ErrExpired.
func (a *Access) Reauthorizer(ctx context.Context) func(context.Context, org.Actor) (org.Actor, error) {
	request := FromContext(ctx)
	return func(ctx context.Context, actor org.Actor) (org.Actor, error) {
		return a.reauthorize(ctx, request, actor)
	}
}

func (a *Access) reauthorize(ctx context.Context, request Request, actor org.Actor) (org.Actor, error) {
	if err := a.checkNotExpired(request); err != nil {
		return org.Actor{}, err
	}
	current, err := a.actorOf(ctx, memberKey{actor.Org, actor.User})
	if err == nil && request.Session != "" {
		if err = a.checkSession(ctx, request.Session, actor.Org, current.Epoch()); fault.Is(err, fault.NotFound) {
			err = badToken(err)
		}
	}
	return current, err
}

// CheckExpiry returns an error if the token of the request that ctx carries has expired.
func (a *Access) CheckExpiry(ctx context.Context) error { return a.checkNotExpired(FromContext(ctx)) }

// checkNotExpired returns an error if the request's token has expired.
func (a *Access) checkNotExpired(r Request) error {
	if !r.Expires.IsZero() && !a.Clock.Now().Before(r.Expires) {
		return badToken(session.ErrExpired)
	}
	return nil
}

// Now returns the time by which tokens and records expire.
func (a *Access) Now() time.Time { return a.Clock.Now() }

// LogPosition returns the position of the organisation's log that was read last for an
// Authorize or Reauthorize. It is at least as late as that read for any that has returned.
// ok is false if it is not in the cache.
func (a *Access) LogPosition(o id.Org) (at object.Cursor, ok bool) { return a.epochs.positions.Get(o) }

// verify checks a token's signature and times, using the cache.
func (a *Access) verify(ctx context.Context, bearer string) (verified, error) {
	if bearer == "" {
		return verified{}, fault.New(fault.Unauthenticated, "A bearer token is required")
	}
	if len(bearer) > maxToken {
		return verified{}, badToken(nil)
	}
	var copied [1 << 10]byte // a conversion of the token would allocate
	key := sha256.Sum256(append(copied[:0], bearer...))
	now := a.Clock.Now()
	v, known, err := a.verifiedToken(key, now)
	if known {
		return v, err
	}
	if a.Tokens.IssuedHere(bearer) {
		claims, err := a.Tokens.Read(bearer)
		if err != nil {
			return verified{}, err
		}
		if !claims.Valid(now) {
			return verified{}, badToken(nil)
		}
		v.Caller = Caller{User: claims.User, Org: claims.Org, claims: claims, expires: claims.ExpiresAt}
	} else {
		claims, err := a.Identity.Verify(ctx, bearer)
		if err != nil {
			return verified{}, err
		}
		at, err := a.resolve(ctx, claims)
		if err != nil {
			return verified{}, err
		}
		v.Caller = Caller{User: at.user, Org: at.org, expires: claims.ExpiresAt.Add(identity.Leeway)}
		v.until = now.Add(verifyEvery)
	}
	a.verified.Put(key, v)
	return v, nil
}

// verifiedToken returns a token from the cache that need not be verified again at this time.
func (a *Access) verifiedToken(key [sha256.Size]byte, now time.Time) (v verified, known bool, err error) {
	v, known = a.verified.Get(key)
	switch {
	case !known, !v.until.IsZero() && !now.Before(v.until):
		return verified{}, false, nil
	case v.until.IsZero() && !v.claims.Valid(now):
		return verified{}, true, badToken(nil)
	}
	return v, true, nil
}

// findMember returns the user that an identity token names, and their organisation if the token
// names one: NotFound if one of the two or the membership does not exist.
func (a *Access) findMember(ctx context.Context, claims identity.Claims) (memberKey, error) {
	dir := a.Store.Directory()
	u, err := dir.Users().ByProvider(ctx, claims.Subject)
	if err == nil {
		err = u.CheckSignIn()
	}
	if err != nil || claims.Org == "" {
		return memberKey{user: u.ID}, err
	}
	o, err := dir.Organisations().ByProvider(ctx, claims.Org)
	if err == nil {
		_, err = dir.Members().Get(ctx, o.ID, u.ID)
	}
	return memberKey{o.ID, u.ID}, err
}

// resolve finds the records that an identity token names, and makes missing ones.
func (a *Access) resolve(ctx context.Context, claims identity.Claims) (memberKey, error) {
	if found, err := a.findMember(ctx, claims); !fault.Is(err, fault.NotFound) {
		return found, err
	}
	in, err := a.provision(ctx, claims, Exchange{}, false)
	if err != nil {
		return memberKey{}, err
	}
	switch {
	case in.org != nil:
		return memberKey{in.org.ID, in.user.ID}, nil
	case claims.Org != "":
		// The organisation is closed, or the membership was removed meanwhile.
		return memberKey{}, notMember()
	}
	return memberKey{user: in.user.ID}, nil
}

// defaultOrg returns the organisation for a token without one: that of the most recently
// used membership, else none.
func (a *Access) defaultOrg(ctx context.Context, user id.User) (id.Org, error) {
	if err := checkUser(ctx, a.Store, user); err != nil {
		return "", err
	}
	m, err := lastUsed(ctx, a.Store, user)
	if err != nil || m == nil {
		return "", err
	}
	return m.Org, nil
}

// checkUser returns an error unless the user exists and may sign in.
func checkUser(ctx context.Context, r ports.Records, user id.User) error {
	u, err := r.Directory().Users().Get(ctx, user)
	if fault.Is(err, fault.NotFound) {
		return badToken(nil)
	}
	if err != nil {
		return err
	}
	return u.CheckSignIn()
}

// lastUsed returns the user's most recently used membership in an open organisation, nil if
// there is none.
func lastUsed(ctx context.Context, r ports.Records, user id.User) (*org.Membership, error) {
	all, err := r.Directory().Users().Memberships(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if !m.Active() {
			continue
		}
		o, err := r.Directory().Organisations().Get(ctx, m.Org)
		if err != nil {
			return nil, err
		}
		if !o.Closed() {
			return &m, nil
		}
	}
	return nil, nil
}

// actorOf returns the actor of a member, from the cache if it is of the organisation's present
// epoch, which is read from the store every time: a member removed before actorOf began is
// refused on every server.
func (a *Access) actorOf(ctx context.Context, key memberKey) (org.Actor, error) {
	mark, ok, err := a.epochs.read(ctx, key.org)
	if err != nil {
		return org.Actor{}, err
	}
	if !ok {
		return org.Actor{}, notMember()
	}
	if s, known := a.actorCache.get(key); known && s.epoch == mark.Epoch {
		return s.actor, s.err
	}
	// Read after the epoch, so the records are at least as new.
	var actor org.Actor
	in, err := a.actorCache.organisation(ctx, key.org, mark.Epoch)
	if err == nil {
		actor, err = readActor(ctx, a.Store, in, key, mark.Epoch)
	}
	if err == nil || fault.Is(err, fault.Unauthenticated, fault.Forbidden) {
		a.actorCache.put(key, cachedActor{mark.Epoch, actor, err})
	}
	return actor, err
}

// readActor returns the actor of a member of in by r's records.
func readActor(ctx context.Context, r ports.Records, in *cachedOrg, key memberKey, epoch int64) (org.Actor, error) {
	if err := checkUser(ctx, r, key.user); err != nil {
		return org.Actor{}, err
	}
	m, err := r.Directory().Members().Get(ctx, key.org, key.user)
	if fault.Is(err, fault.NotFound) || err == nil && !m.Active() {
		return org.Actor{}, notMember()
	}
	if err != nil {
		return org.Actor{}, err
	}
	own, err := r.Work().TeamMembers().OfUser(ctx, key.org, key.user)
	if err != nil {
		return org.Actor{}, err
	}
	joined := make(map[id.Team]bool, len(own))
	for _, t := range own {
		joined[t] = true
	}
	visibility := in.structure.Visibility(epoch, func(i int) (visible, belongs bool) {
		t := in.teams[i]
		return t.VisibleTo(key.user, m.Role, joined[t.ID]), t.Includes(joined[t.ID])
	})
	return org.Actor{User: key.user, Org: key.org, Role: m.Role, Visibility: visibility}, nil
}

func badToken(cause error) error {
	return fault.Wrap(fault.Unauthenticated, cause, "The token is invalid or expired")
}

func notMember() error {
	return fault.New(fault.Forbidden, "The caller is not a member of the organisation")
}
