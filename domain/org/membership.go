package org

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/words"
)

// Membership is a user's membership of an organisation. A removed membership stays
// as a record, so that an old message or token does not bring it back.
type Membership struct {
	Org                 id.Org
	User                id.User
	Role                Role
	OnboardingCompleted bool
	JoinedAt            time.Time
	UsedAt              time.Time // when a token of it was last exchanged, or its user chose it last

	ProviderRole string    // the provider's name of the role, as last seen
	RoleIssuedAt time.Time // when the token was issued that ProviderRole comes from; zero if it comes from an event
	RoleSetHere  bool      // the role was set by this service and stays until the provider's changes
	Seen         identity.Stamp
	RemovedAt    *time.Time
}

// Active reports whether the membership is in force.
func (m Membership) Active() bool { return m.RemovedAt == nil }

// RoleMapping maps the provider's name of a member's role to a Role: by the role
// map, except that the organisation's creator is its owner.
type RoleMapping struct {
	Map     RoleMap
	Creator bool // the member created the organisation
}

// RoleMapping returns the mapping of role names for the user with the provider's id
// in this organisation.
func (o Organisation) RoleMapping(m RoleMap, providerID string) RoleMapping {
	return RoleMapping{Map: m, Creator: o.CreatedBy != "" && o.CreatedBy == providerID}
}

func (m RoleMapping) of(provider string) Role {
	if m.Creator {
		return Owner
	}
	return m.Map.Role(provider)
}

// Observed returns the membership after an event that reports it. An event that is not
// later than m.Seen changes nothing; a later one also restores a removed membership. The
// role follows the provider's only if the provider's has changed, so that a role set by
// this service stays, and not if a later token has named one.
func (m Membership) Observed(f identity.MemberData, s identity.Stamp, mapping RoleMapping, now time.Time) Membership {
	if !m.Seen.Before(s) {
		return m
	}
	fresh, before := m.JoinedAt.IsZero() || !m.Active(), m.ProviderRole
	m.roleField().fromEvent(f.Role, s.At)
	if fresh || m.ProviderRole != before {
		m.Role, m.RoleSetHere = mapping.of(m.ProviderRole), false
	}
	if !f.JoinedAt.IsZero() {
		m.JoinedAt = f.JoinedAt
	} else if fresh {
		m.JoinedAt = now
	}
	m.Seen, m.RemovedAt = s, nil
	return m
}

// roleField returns the provider's name of the role with the token that it comes from.
func (m *Membership) roleField() tokenField { return tokenField{&m.ProviderRole, &m.RoleIssuedAt} }

// Ended returns the membership after an event that reports its end.
func (m Membership) Ended(f identity.MemberData, s identity.Stamp) Membership {
	if !m.Seen.Before(s) {
		return m
	}
	m.Seen, m.RemovedAt = s, &f.EndedAt
	return m
}

// NewMembership returns the membership that a valid token creates if there is none.
func NewMembership(o id.Org, u id.User, providerRole string, issued time.Time, mapping RoleMapping, now time.Time) Membership {
	m := Membership{Org: o, User: u, JoinedAt: now, UsedAt: now}
	m.roleField().fromToken(providerRole, issued)
	m.Role = mapping.of(m.ProviderRole)
	return m
}

// Exchanged returns the membership after a token of it was exchanged at now. A token newer
// than the last event and than the last token with a role changes the role if it names
// another than ProviderRole. It never restores a removed membership, but a later event that
// does takes its role over.
func (m Membership) Exchanged(providerRole string, issued time.Time, mapping RoleMapping, now time.Time) Membership {
	before := m.ProviderRole
	if issued.After(m.Seen.At) {
		m.roleField().fromToken(providerRole, issued)
	}
	if !m.Active() {
		return m
	}
	if m.ProviderRole != before {
		m.Role, m.RoleSetHere = mapping.of(m.ProviderRole), false
	}
	m.UsedAt = now
	return m
}

// Used returns the membership after its user chose it at now.
func (m Membership) Used(now time.Time) Membership {
	m.UsedAt = now
	return m
}

// WithRoleMapping returns the membership after the organisation's creator became known or changed:
// a role that was not set by this service is derived again.
func (m Membership) WithRoleMapping(mapping RoleMapping) Membership {
	if !m.RoleSetHere {
		m.Role = mapping.of(m.ProviderRole)
	}
	return m
}

// WithRole returns the membership with a role that was set by this service.
func (m Membership) WithRole(r Role) Membership {
	m.Role, m.RoleSetHere = r, true
	return m
}

// Removed returns the membership as removed by this service at now: only a later event of
// the provider restores it. If our clock is behind the provider's, the time is that of the
// last event.
func (m Membership) Removed(now time.Time) Membership {
	if m.Active() {
		m.RemovedAt = &now
		at := now
		if m.Seen.At.After(at) {
			at = m.Seen.At
		}
		m.Seen = identity.Stamp{At: at, Rank: identity.RankLocal}
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

// MemberFilter selects active members; all conditions must hold. The zero value selects all.
type MemberFilter struct {
	After        id.Position[id.User] // only members after this place in the order of JoinedAt, for paging
	Limit        int                  // at most so many; 0: all
	Users        []id.User            // only these; nil: all
	Words        []string             // folded as words.Of returns them; each is in the folded name or e-mail address
	ExamineLimit int                  // with words: at most so many members after the place are examined; 0: all
}

// MaxNamed is how many users a filter of the interface names.
const MaxNamed = 100

// Check returns an error if a search is limited to users.
func (f MemberFilter) Check() error {
	if len(f.Words) > 0 && f.Users != nil {
		return fault.Field("ids", "does not go with search")
	}
	return nil
}

// HasWords reports whether each word of the filter is in the member's name or e-mail address.
func (f MemberFilter) HasWords(p Profile) bool {
	return words.In(p.Person.Name+"\n"+p.Person.Email, f.Words)
}

// Seats are the counts that the rules about members use. They are read under
// the organisation's lock.
type Seats struct {
	Owners  int // active members who are OWNER
	Members int // active members
	Pending int // invitations that are neither accepted nor expired
}

// CheckChangeRole decides whether actor, an OWNER or an operator, may give target the role.
func CheckChangeRole(actor Actor, target Membership, role Role, s Seats) error {
	switch {
	case !actor.Operator && actor.Role != Owner:
		return fault.New(fault.Forbidden, "Only an OWNER may change roles")
	case target.Role == Owner && role != Owner && s.Owners <= 1:
		return fault.New(fault.Conflict, "The last OWNER of an organisation cannot be demoted")
	}
	return nil
}

// CheckRemove decides whether the actor may remove the user, who need not be a member, or
// anyone else. Every member may leave.
func (a Actor) CheckRemove(user id.User) error {
	if a.User != user && !a.Role.MayManage() {
		return fault.New(fault.Forbidden, "Only an OWNER or ADMIN may remove members")
	}
	return nil
}

// CheckRemoveTarget decides whether the actor, whom CheckRemove allows it, may end target's membership.
func CheckRemoveTarget(actor Actor, target Membership, s Seats) error {
	switch {
	case target.Role == Owner && actor.Role != Owner:
		return fault.New(fault.Forbidden, "Only an OWNER may remove an OWNER")
	case target.Role == Owner && s.Owners <= 1:
		return fault.New(fault.Conflict, "The last OWNER of an organisation cannot be removed")
	}
	return nil
}
