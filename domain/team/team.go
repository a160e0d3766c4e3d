// Package team holds teams and who may see and change them.
package team

import (
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/patch"
)

// Kind is the kind of a team: one made for all members, one made for each member, or one
// that a member made.
type Kind string

// The kinds. Every member of the organisation belongs to its one SHARED team;
// a PERSONAL team is its creator's alone; the rest are STANDARD.
const (
	Shared   Kind = "SHARED"
	Personal Kind = "PERSONAL"
	Standard Kind = "STANDARD"
)

// Bounds of teams that members create.
const (
	MaxTeams   = 1_000  // of an organisation
	MaxMembers = 10_000 // of a team that is not shared
)

// Team is a group of members that workspaces belong to. A nil Description is
// unset.
type Team struct {
	ID          id.Team
	Org         id.Org
	Name        string
	Description *string
	Kind        Kind
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Ref has the fields of a team that decide who sees it.
type Ref struct {
	ID        id.Team
	Kind      Kind
	CreatedBy id.User
	CreatedAt time.Time
}

// Member is a user's membership of a team.
type Member struct {
	Team     id.Team
	User     id.User
	JoinedAt time.Time
}

// Profile is a team member together with the user.
type Profile struct {
	Member
	Person org.User
}

// Draft has the fields of a new team.
type Draft struct {
	ID          id.Team // empty: a new one
	Name        string
	Description *string
}

// Patch is a partial update of a team.
type Patch struct {
	Name        patch.Field[string]
	Description patch.Field[string]
}

// New makes a team of the given kind, created by the actor at now.
func New(teamID id.Team, o id.Org, kind Kind, creator id.User, d Draft, now time.Time) (Team, error) {
	var c check.List
	name := c.Name("name", d.Name)
	c.Description(d.Description)
	return Team{ID: teamID, Org: o, Name: name, Description: d.Description, Kind: kind, CreatedBy: creator, CreatedAt: now, UpdatedAt: now}, c.Err()
}

// Apply returns the team after a partial update at now.
func (t Team) Apply(p Patch, now time.Time) (Team, error) {
	var c check.List
	if v, ok := check.NonNull(&c, "name", p.Name); ok {
		t.Name = c.Name("name", v)
	}
	t.Description = p.Description.Over(t.Description)
	c.Description(p.Description.Over(nil)) // the sent one alone
	t.UpdatedAt = now
	return t, c.Err()
}

// Ref returns the team without its texts.
func (t Team) Ref() Ref {
	return Ref{ID: t.ID, Kind: t.Kind, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt}
}

// Includes reports whether the user belongs to the team; joined says whether
// there is a record of it. The shared team includes every member.
func (t Ref) Includes(joined bool) bool { return joined || t.Kind == Shared }

// VisibleTo reports whether a member with the role sees the team: its members
// and those who manage the organisation do, except that a personal team is
// seen by its owner alone.
func (t Ref) VisibleTo(user id.User, role org.Role, joined bool) bool {
	if t.Kind == Personal {
		return t.CreatedBy == user
	}
	return t.Includes(joined) || role.MayManage()
}

// CheckDelete decides whether the actor, who sees the team, may delete it; workspaces
// reports whether it has any.
func (t Team) CheckDelete(actor org.Actor, workspaces bool) error {
	switch {
	case t.Kind != Standard:
		return fault.New(fault.Conflict, "The %s team cannot be deleted", t.Kind)
	case t.CreatedBy != actor.User && !actor.Role.MayManage():
		return fault.New(fault.Forbidden, "Only the team's creator, an OWNER or an ADMIN may delete it")
	case workspaces:
		return fault.New(fault.Conflict, "The team still has workspaces")
	}
	return nil
}

// CheckLimit decides whether an organisation with so many teams may make one more.
func CheckLimit(teams int) error {
	if teams >= MaxTeams {
		return fault.New(fault.Conflict, "An organisation has at most %d teams", MaxTeams)
	}
	return nil
}

// CheckMemberLimit decides whether a team, which is not the shared one, may have so many
// members.
func CheckMemberLimit(members int) error {
	if members > MaxMembers {
		return fault.New(fault.Conflict, "A team has at most %d members", MaxMembers)
	}
	return nil
}

// CheckJoin decides whether members can be added to the team and removed from it by users.
func (t Team) CheckJoin() error {
	if t.Kind != Standard {
		return fault.New(fault.Conflict, "The members of the %s team cannot be changed", t.Kind)
	}
	return nil
}
