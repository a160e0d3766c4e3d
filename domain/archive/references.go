package archive

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
)

// MaxMembers is how many members an archive may have that is imported.
const MaxMembers = 100_000

// References checks that records refer to records before them.
type References struct {
	ArchivedAt time.Time        // when the archive was made
	members    map[id.User]bool // nil: the organisation was not checked yet
	owners     int
	teams      map[id.Team]bool
	workspaces map[id.Workspace]bool
}

// Check returns Invalid if the record refers to one that was not checked before, is one more
// than an organisation can have, or has a time after the archive was made. Changes of tasks are left
// to the store.
func (c *References) Check(r Record) error {
	for _, at := range r.times() {
		if at.After(c.ArchivedAt.Add(clockSkew)) {
			return fault.New(fault.Invalid, "has a time after the archive was made: %v", at)
		}
	}
	switch {
	case r.Organisation == nil && c.members == nil:
		return fault.New(fault.Invalid, "%s is empty", FileName(Organisations))
	case r.Organisation != nil:
		if c.members != nil {
			return fault.New(fault.Invalid, "is a second organisation")
		}
		*c = References{ArchivedAt: c.ArchivedAt, members: map[id.User]bool{}, teams: map[id.Team]bool{}, workspaces: map[id.Workspace]bool{}}
	case r.Member != nil:
		return c.member(*r.Member)
	case r.Team != nil:
		if c.teams[r.Team.ID] {
			return fault.Field("id", "is that of another team")
		}
		c.teams[r.Team.ID] = true
		return atMost(len(c.teams), team.MaxTeams+MaxMembers, "teams")
	case r.TeamMember != nil:
		if err := c.team(&r.TeamMember.Team); err != nil {
			return err
		}
		return c.user("userId", &r.TeamMember.User)
	case r.Workspace != nil:
		if err := c.team(&r.Workspace.Team); err != nil {
			return err
		}
		if c.workspaces[r.Workspace.ID] {
			return fault.Field("id", "is that of another workspace")
		}
		c.workspaces[r.Workspace.ID] = true
		return atMost(len(c.workspaces), workspace.MaxWorkspaces+MaxMembers, "workspaces")
	case r.WorkspaceOrder != nil:
		return c.user("userId", &r.WorkspaceOrder.User)
	case r.Task != nil:
		if err := c.workspace(r.Task.Workspace); err != nil {
			return err
		}
		return c.user("assigneeId", r.Task.Assignee)
	case r.Object != nil && r.Object.Scope != object.Personal:
		if err := c.workspace(r.Object.Workspace); err != nil {
			return err
		}
		return c.team(r.Object.Team)
	}
	return nil
}

// CheckOwner returns Invalid if no member is an owner.
func (c *References) CheckOwner() error {
	if c.owners == 0 {
		return fault.New(fault.Invalid, "No member of the archive is an OWNER")
	}
	return nil
}

func (c *References) member(p org.Profile) error {
	if c.members[p.User] {
		return fault.Field("userId", "is that of another member")
	}
	c.members[p.User] = true
	if p.Role == org.Owner {
		c.owners++
	}
	return atMost(len(c.members), MaxMembers, "members")
}

func atMost(n, limit int, what string) error {
	if n > limit {
		return fault.New(fault.Invalid, "is one more than the %d %s that are imported", limit, what)
	}
	return nil
}

func (c *References) user(field string, u *id.User) error {
	if u != nil && !c.members[*u] {
		return fault.Field(field, "is of nobody in %s", FileName(Members))
	}
	return nil
}

func (c *References) team(t *id.Team) error {
	if t != nil && !c.teams[*t] {
		return fault.Field("teamId", "is of no team in %s", FileName(Teams))
	}
	return nil
}

func (c *References) workspace(w *id.Workspace) error {
	if w != nil && !c.workspaces[*w] {
		return fault.Field("workspaceId", "is of no workspace in %s", FileName(Workspaces))
	}
	return nil
}
