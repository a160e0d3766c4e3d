package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/session"
	"collab/domain/team"
	"collab/ports"
)

// Exchange is an identity token with the client's statements about user and organisation,
// which are used only if neither the token nor the records have the values.
type Exchange struct {
	IdentityToken string
	UserName      string
	UserEmail     string
	UserAvatarURL string
	OrgName       string
	OrgSlug       string
	From          session.Client
}

// UserInfo describes a user with their organisation and role. Token is the service token issued to the user, empty if
// none was; Org is nil for a user without organisation.
type UserInfo struct {
	Token               string
	User                org.User
	Org                 *org.Organisation
	Role                org.Role
	OnboardingCompleted bool
	OnboardingSeeded    bool
}

// Exchange verifies an identity token and issues a service token for it.
func (a *Access) Exchange(ctx context.Context, x Exchange) (UserInfo, error) {
	if x.IdentityToken == "" {
		return UserInfo{}, fault.Field("identityToken", "must not be empty")
	}
	x.UserName, x.UserEmail, x.UserAvatarURL = identity.CleanName(x.UserName), identity.CleanEmail(x.UserEmail), identity.CleanURL(x.UserAvatarURL)
	x.OrgName, x.OrgSlug = identity.CleanName(x.OrgName), identity.CleanName(x.OrgSlug)
	if len(x.IdentityToken) > maxToken {
		return UserInfo{}, badToken(nil)
	}
	in, err := a.identify(ctx, x)
	if err != nil {
		return UserInfo{}, err
	}
	return a.issue(ctx, in, nil, x.From)
}

// identify verifies an identity token and returns whose it is, with their records brought up to
// date.
func (a *Access) identify(ctx context.Context, x Exchange) (principal, error) {
	if a.Tokens.IssuedHere(x.IdentityToken) { // which the provider need not be asked about
		return principal{}, fault.New(fault.Unauthenticated, "The identity token is not valid")
	}
	claims, err := a.Identity.Verify(ctx, x.IdentityToken)
	if err != nil {
		return principal{}, err
	}
	return a.provision(ctx, claims, x, true)
}

// Refresh issues a new token of the same session for one that is within its grace period, with
// the present membership and role.
func (a *Access) Refresh(ctx context.Context, token string, from session.Client) (UserInfo, error) {
	claims, err := a.refreshable(token)
	if err != nil {
		return UserInfo{}, err
	}
	return a.refresh(ctx, claims, claims.Org, from)
}

// Switch is Refresh that returns a token for another organisation of the user, which is the one
// used last from then on. The given token stays valid.
func (a *Access) Switch(ctx context.Context, token string, to id.Org, from session.Client) (UserInfo, error) {
	claims, err := a.refreshable(token)
	if err != nil {
		return UserInfo{}, err
	}
	// Only a session that has not ended learns whether the organisation has the user.
	if err := a.useSession(ctx, claims, from, "", 0); err != nil {
		return UserInfo{}, err
	}
	err = a.Store.Atomic(ctx, func(r ports.Records) error {
		if err := checkUser(ctx, r, claims.User); err != nil {
			return err
		}
		return a.useMembership(ctx, r, claims.User, to)
	})
	if err != nil {
		return UserInfo{}, err
	}
	return a.refresh(ctx, claims, to, from)
}

// useMembership makes the membership in an open organisation the one that the user used last:
// Invalid if there is none.
func (a *Access) useMembership(ctx context.Context, r ports.Records, user id.User, orgID id.Org) error {
	o, err := r.Directory().Organisations().Get(ctx, orgID)
	var m org.Membership
	if err == nil {
		m, err = r.Directory().Members().GetLocked(ctx, orgID, user)
	}
	switch {
	case fault.Is(err, fault.NotFound), err == nil && (o.Closed() || !m.Active()):
		return fault.Field("orgId", "must be the id of an organisation of the caller")
	case err != nil:
		return err
	}
	return r.Directory().Members().Put(ctx, orgID, m.Used(a.Clock.Now()))
}

// refreshable reads a token that is within its grace period.
func (a *Access) refreshable(token string) (session.Claims, error) {
	if token == "" {
		return session.Claims{}, fault.Field("token", "must not be empty")
	}
	if len(token) > maxToken {
		return session.Claims{}, badToken(nil)
	}
	claims, err := a.Tokens.Read(token)
	if err == nil && !claims.Refreshable(a.Clock.Now()) {
		err = badToken(nil)
	}
	return claims, err
}

func (a *Access) refresh(ctx context.Context, claims session.Claims, o id.Org, from session.Client) (UserInfo, error) {
	in, err := a.find(ctx, a.Store, claims.User, o)
	if fault.Is(err, fault.NotFound) {
		return UserInfo{}, badToken(err)
	}
	if err != nil {
		return UserInfo{}, err
	}
	return a.issue(ctx, in, &claims, from)
}

// UserOrganisation is an organisation with the role of one of its members.
type UserOrganisation struct {
	org.Organisation
	Role org.Role
}

// Organisations returns the open organisations that the actor's user is a member of, the most
// recently used first.
func (a *Access) Organisations(ctx context.Context, actor org.Actor) ([]UserOrganisation, error) {
	all, err := a.Store.Directory().Users().Memberships(ctx, actor.User)
	all = slices.DeleteFunc(all, func(m org.Membership) bool { return !m.Active() })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	ids := make([]id.Org, len(all))
	for i, m := range all {
		ids[i] = m.Org
	}
	found, err := a.Store.Directory().Organisations().List(ctx, org.Filter{IDs: ids})
	byID := make(map[id.Org]org.Organisation, len(found))
	for _, o := range found {
		byID[o.ID] = o
	}
	var organisations []UserOrganisation
	for _, m := range all {
		if o, ok := byID[m.Org]; ok && !o.Closed() {
			organisations = append(organisations, UserOrganisation{o, m.Role})
		}
	}
	return organisations, err
}

// Me returns the actor's own profile.
func (a *Access) Me(ctx context.Context, actor org.Actor) (UserInfo, error) {
	return a.me(ctx, a.Store, actor)
}

// MeUnconfirmed is Me for an actor that Cached returned: org.ErrEpochChanged if the organisation
// is at another epoch than the actor.
func (a *Access) MeUnconfirmed(ctx context.Context, actor org.Actor) (UserInfo, error) {
	return a.me(ctx, a.Store.At(actor.Org, actor.Epoch()), actor)
}

func (a *Access) me(ctx context.Context, r ports.Records, actor org.Actor) (UserInfo, error) {
	in, err := a.find(ctx, r, actor.User, actor.Org)
	if err != nil {
		return UserInfo{}, err
	}
	if actor.Visibility == nil {
		return userInfo(ctx, a.Store, in)
	}
	known, err := a.actorCache.organisation(ctx, actor.Org, actor.Epoch())
	if err != nil {
		return UserInfo{}, err
	}
	return in.info(known.teams), nil
}

// principal is a user with their organisation and membership, which may both be nil.
type principal struct {
	user   org.User
	org    *org.Organisation
	member *org.Membership
}

// find reads a user and their membership in the organisation, or in the one that they used
// last if o is empty. NotFound if the user, the membership or the organisation is missing,
// removed or closed.
func (a *Access) find(ctx context.Context, r ports.Records, user id.User, o id.Org) (principal, error) {
	if o == "" {
		u, err := r.Directory().Users().Get(ctx, user)
		if err == nil {
			err = u.CheckSignIn()
		}
		if err != nil {
			return principal{}, err
		}
		m, err := lastUsed(ctx, r, user)
		if err != nil || m == nil {
			return principal{user: u}, err
		}
		o = m.Org
	}
	p, organisation, err := r.Directory().Users().Profile(ctx, o, user)
	if err == nil {
		err = p.Person.CheckSignIn()
	}
	if err != nil {
		return principal{}, err
	}
	if !p.Active() || organisation.Closed() {
		return principal{}, fault.Missing("Member")
	}
	return principal{p.Person, &organisation, &p.Membership}, nil
}

// errNeedsLock is returned if upsertPrincipal has to run again under the organisation's lock.
var errNeedsLock = errors.New("the organisation's lock is needed")

// provision makes the missing records that a verified token names. If the token is being
// exchanged it also updates role and last use. A removed membership stays removed.
func (a *Access) provision(ctx context.Context, claims identity.Claims, hints Exchange, exchanged bool) (in principal, err error) {
	// A role or membership changes under the organisation's lock, which increments the epoch.
	// Most exchanges change neither and need no lock.
	for _, lock := range []bool{false, true} {
		err = a.Store.Atomic(ctx, func(r ports.Records) error {
			var err error
			in, err = a.upsertPrincipal(ctx, r, claims, hints, exchanged, lock)
			return err
		})
		if !errors.Is(err, errNeedsLock) {
			break
		}
	}
	return in, err
}

func (a *Access) upsertPrincipal(ctx context.Context, r ports.Records, claims identity.Claims, hints Exchange, exchanged, lock bool) (principal, error) {
	dir, now := r.Directory(), a.Clock.Now()
	u, err := dir.Users().Upsert(ctx, org.User{ID: id.User(a.IDs.New()), ProviderID: claims.Subject, CreatedAt: now, UpdatedAt: now},
		func(u org.User) (org.User, error) {
			return u.Presented(claims, identity.UserData{Name: hints.UserName, Email: hints.UserEmail, AvatarURL: hints.UserAvatarURL}, now), nil
		})
	if err != nil {
		return principal{}, err
	}
	if err := u.CheckSignIn(); err != nil {
		return principal{}, err
	}
	in := principal{user: u}
	var o org.Organisation
	if claims.Org == "" {
		m, err := lastUsed(ctx, r, u.ID)
		if err != nil || m == nil {
			return in, err
		}
		if o, err = dir.Organisations().Get(ctx, m.Org); err != nil {
			return in, err
		}
	} else {
		o, err = dir.Organisations().Upsert(ctx, org.Organisation{ID: id.Org(a.IDs.New()), ProviderID: claims.Org, CreatedAt: now, UpdatedAt: now},
			func(o org.Organisation) (org.Organisation, error) {
				return o.Presented(claims, hints.OrgName, hints.OrgSlug, now), nil
			})
		if err != nil {
			return in, err
		}
	}
	if o.Closed() {
		return in, nil
	}
	if lock {
		if o, err = dir.Organisations().Lock(ctx, o.ID); err != nil {
			return in, err
		}
	}
	mapping := o.RoleMapping(a.Roles, claims.Subject)
	was, err := dir.Members().GetLocked(ctx, o.ID, u.ID)
	var next org.Membership
	switch {
	case fault.Is(err, fault.NotFound):
		next = org.NewMembership(o.ID, u.ID, claims.OrgRole, claims.IssuedAt, mapping, now)
	case err != nil:
		return in, err
	case exchanged:
		next = was.Exchanged(claims.OrgRole, claims.IssuedAt, mapping, now)
	default:
		next = was
	}
	if next.Role != was.Role && !lock {
		return in, errNeedsLock
	}
	if next != was {
		if err := PutMembership(ctx, r, was, next, now, a.IDs); err != nil {
			return in, err
		}
	}
	if next.Active() {
		in.org, in.member = &o, &next
	}
	return in, nil
}

// PutMembership stores a membership that the identity provider has changed, and audits a change of role or the end of
// an active one.
func PutMembership(ctx context.Context, r ports.Records, was, next org.Membership, now time.Time, ids ports.IDs) error {
	if err := r.Directory().Members().Put(ctx, next.Org, next); err != nil || was.JoinedAt.IsZero() {
		return err
	}
	if c, ok := object.MembershipChange(was, next, "", now); ok {
		if _, err := r.Storage().Changes().Append(ctx, next.Org, c); err != nil {
			return err
		}
	}
	if !was.Active() {
		return nil
	}
	action, detail := audit.MemberRemoved, string(was.Role)
	if next.Active() {
		if next.Role == was.Role {
			return nil
		}
		action, detail = audit.RoleChanged, string(was.Role)+" -> "+string(next.Role)
	}
	return r.Journal().Audit().Add(ctx, audit.ByProvider(id.Entry(ids.New()), next.Org, action, string(next.User), detail, now))
}

// issue signs a token. It belongs to the session of the refreshed token, or to a new one if
// that is nil.
func (a *Access) issue(ctx context.Context, in principal, refreshed *session.Claims, from session.Client) (UserInfo, error) {
	info, err := userInfo(ctx, a.Store, in)
	if err != nil {
		return UserInfo{}, err
	}
	claims := a.claims(in)
	if refreshed == nil {
		err = a.Store.Atomic(ctx, func(r ports.Records) error { return a.addSession(ctx, r, session.Begin(claims, from, a.Clock.Now())) })
	} else {
		claims = claims.WithSession(refreshed.SessionID())
		err = a.continueSession(ctx, *refreshed, claims, from)
	}
	if err != nil {
		return UserInfo{}, err
	}
	info.Token, err = a.Tokens.Issue(claims)
	return info, err
}

// claims returns the claims of a new token of a new session.
func (a *Access) claims(in principal) session.Claims {
	var o id.Org
	var role org.Role
	if in.org != nil {
		o, role = in.org.ID, in.member.Role
	}
	c := session.Issue(a.IDs.New(), in.user.ID, o, role, a.Clock.Now())
	return c.WithSession(id.Session(c.ID))
}

// continueSession records a new token in the session of the old one: Unauthenticated if the
// session has ended.
func (a *Access) continueSession(ctx context.Context, old, claims session.Claims, from session.Client) error {
	if old.Session == "" {
		if err := a.beginUnnamed(ctx, old, from); err != nil {
			return err
		}
	}
	return a.Store.Atomic(ctx, func(r ports.Records) error {
		s, err := r.Journal().Sessions().Get(ctx, old.SessionID())
		if fault.Is(err, fault.NotFound) || err == nil && s.Ended {
			return badToken(err)
		}
		if err != nil {
			return err
		}
		return r.Journal().Sessions().Put(ctx, s.Issued(claims, from, a.Clock.Now()))
	})
}

func userInfo(ctx context.Context, r ports.Records, in principal) (UserInfo, error) {
	if in.org == nil {
		return UserInfo{User: in.user}, nil
	}
	teams, err := r.Work().Teams().Refs(ctx, in.org.ID)
	return in.info(teams), err
}

// info describes a member of an organisation with these teams.
func (in principal) info(teams []team.Ref) UserInfo {
	seeded := slices.ContainsFunc(teams, func(t team.Ref) bool { return t.Kind == team.Shared })
	return UserInfo{User: in.user, Org: in.org, Role: in.member.Role, OnboardingCompleted: in.member.OnboardingCompleted, OnboardingSeeded: seeded}
}
