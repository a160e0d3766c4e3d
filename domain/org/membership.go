package org

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
)

// Membership is a user's place in an organisation. A removed membership stays
// as a record, so that an old message or token does not bring it back.
type Membership struct {
	Org                 id.Org
	User                id.User
	Role                Role
	OnboardingCompleted bool
	JoinedAt            time.Time
	UsedAt              time.Time // when a token of it was last exchanged

	ProviderRole string    // the provider's name of the role, as last seen
	RoleIssuedAt time.Time // when the token was issued that ProviderRole comes from; zero when an event said it
	RoleSetHere  bool      // the role was set here and stands until the provider's changes
	Seen         identity.Stamp
	RemovedAt    *time.Time
}

// Active reports whether the membership is in force.
func (m Membership) Active() bool { return m.RemovedAt == nil }

// CheckActive returns Forbidden if the membership has ended. It is checked again in
// each transaction, as that may have happened since the request began.
func (m Membership) CheckActive() error {
	if !m.Active() {
		return fault.New(fault.Forbidden, "The caller is no longer a member of the organisation")
	}
	return nil
}

// Naming maps the provider's name of a member's role to a Role: by the role
// map, except that the organisation's creator is its owner.
type Naming struct {
	Map     RoleMap
	Creator bool // the member created the organisation
}

// Naming returns the mapping of role names for the user with the provider's id
// in this organisation.
func (o Organisation) Naming(m RoleMap, providerID string) Naming {
	return Naming{Map: m, Creator: o.CreatedBy != "" && o.CreatedBy == providerID}
}

func (n Naming) of(provider string) Role {
	if n.Creator {
		return Owner
	}
	return n.Map.Role(provider)
}

// Observed returns the membership after an event that says it exists. An event
// that is not later than what m reflects changes nothing; a later one also
// brings a removed membership back. The role follows the provider's only when
// the provider's has changed, so that a role set here stands, and not when a
// later token has named one.
func (m Membership) Observed(f identity.MemberFacts, s identity.Stamp, n Naming, now time.Time) Membership {
	if !m.Seen.Before(s) {
		return m
	}
	fresh, before := m.JoinedAt.IsZero() || !m.Active(), m.ProviderRole
	m.named().observe(f.Role, s.At)
	if fresh || m.ProviderRole != before {
		m.Role, m.RoleSetHere = n.of(m.ProviderRole), false
	}
	if !f.JoinedAt.IsZero() {
		m.JoinedAt = f.JoinedAt
	} else if fresh {
		m.JoinedAt = now
	}
	m.Seen, m.RemovedAt = s, nil
	return m
}

// named returns the provider's name of the role, as tokens bring it.
func (m *Membership) named() presented { return presented{&m.ProviderRole, &m.RoleIssuedAt} }

// Ended returns the membership after an event that says it is over.
func (m Membership) Ended(s identity.Stamp) Membership {
	if !m.Seen.Before(s) {
		return m
	}
	m.Seen, m.RemovedAt = s, &s.At
	return m
}

// NewMembership returns the membership that a valid token makes when there is none.
func NewMembership(o id.Org, u id.User, providerRole string, issued time.Time, n Naming, now time.Time) Membership {
	m := Membership{Org: o, User: u, JoinedAt: now, UsedAt: now}
	m.named().present(providerRole, issued)
	m.Role = n.of(m.ProviderRole)
	return m
}

// Exchanged returns the membership after a token of it was exchanged at now. A
// token newer than the last event and than the last token that named a role
// changes the role when it names another than the one last seen. It never
// brings a removed membership back, but is kept for the event that does.
func (m Membership) Exchanged(providerRole string, issued time.Time, n Naming, now time.Time) Membership {
	before := m.ProviderRole
	if issued.After(m.Seen.At) {
		m.named().present(providerRole, issued)
	}
	if !m.Active() {
		return m
	}
	if m.ProviderRole != before {
		m.Role, m.RoleSetHere = n.of(m.ProviderRole), false
	}
	m.UsedAt = now
	return m
}

// Renamed returns the membership after the organisation's creator became known
// or changed: a role that was not set here is derived again.
func (m Membership) Renamed(n Naming) Membership {
	if !m.RoleSetHere {
		m.Role = n.of(m.ProviderRole)
	}
	return m
}

// WithRole returns the membership with a role that was set here.
func (m Membership) WithRole(r Role) Membership {
	m.Role, m.RoleSetHere = r, true
	return m
}

// Removed returns the membership removed here at now: only a later event of
// the provider brings it back. Where our clock is behind the provider's, that
// is later than the last event that was seen.
func (m Membership) Removed(now time.Time) Membership {
	if m.Active() {
		m.RemovedAt = &now
		at := now
		if m.Seen.At.After(at) {
			at = m.Seen.At
		}
		m.Seen = identity.Stamp{At: at, Rank: identity.RankHere}
	}
	return m
}

// Onboarded returns the membership with its onboarding marked complete.
func (m Membership) Onboarded() Membership {
	m.OnboardingCompleted = true
	return m
}

// Profile is a membership together with its user.
type Profile struct {
	Membership
	Person User
}

// Position is a place in a list of members, which are in the order of JoinedAt,
// then user id. The zero value is before the first.
type Position struct {
	JoinedAt time.Time
	User     id.User
}

// Seats are the counts that the rules about members use. They are read under
// the organisation's lock.
type Seats struct {
	Owners  int // active members who are OWNER
	Members int // active members
	Pending int // invitations that are neither accepted nor expired
}

// ChangeRole decides whether actor, an OWNER or an operator, may give target the
// role.
func ChangeRole(actor Actor, target Membership, role Role, s Seats) error {
	switch {
	case !actor.Operator && actor.Role != Owner:
		return fault.New(fault.Forbidden, "Only an OWNER may change roles")
	case target.Role == Owner && role != Owner && s.Owners <= 1:
		return fault.New(fault.Conflict, "The last OWNER of an organisation cannot be demoted")
	}
	return nil
}

// CheckRemove decides whether the actor may remove the user or anyone else, whether
// or not there is such a member. Anyone may leave.
func (a Actor) CheckRemove(user id.User) error {
	if a.User != user && !a.Role.MayManage() {
		return fault.New(fault.Forbidden, "Only an OWNER or ADMIN may remove members")
	}
	return nil
}

// Remove decides whether the actor, who removes members (see Actor.CheckRemove), may
// end target's membership.
func Remove(actor Actor, target Membership, s Seats) error {
	if err := actor.CheckRemove(target.User); err != nil {
		return err
	}
	switch {
	case actor.User != target.User && target.Role == Owner && actor.Role != Owner:
		return fault.New(fault.Forbidden, "Only an OWNER may remove an OWNER")
	case target.Role == Owner && s.Owners <= 1:
		return fault.New(fault.Conflict, "The last OWNER of an organisation cannot be removed")
	}
	return nil
}
