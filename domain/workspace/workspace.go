// Package workspace holds workspaces and each member's own order of them.
package workspace

import (
	"slices"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
)

// MaxWorkspaces is how many workspaces members make in an organisation.
const MaxWorkspaces = 2_000

// CheckLimit decides whether an organisation with so many workspaces may make one more.
func CheckLimit(workspaces int) error {
	if workspaces >= MaxWorkspaces {
		return fault.New(fault.Conflict, "An organisation has at most %d workspaces", MaxWorkspaces)
	}
	return nil
}

// Workspace belongs to one team, whose members work in it.
type Workspace struct {
	ID          id.Workspace
	Org         id.Org
	Team        id.Team
	Name        string
	Description *string
	CreatedBy   id.User
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Ref has the ids of a workspace and its team, without the workspace's texts.
type Ref struct {
	ID   id.Workspace
	Team id.Team
}

// Draft has the fields of a new workspace.
type Draft struct {
	ID          id.Workspace // empty: a new one
	Name        string
	Description *string
	Team        id.Team
}

// Patch is a partial update of a workspace. Its team changes by moving it.
type Patch struct {
	Name        patch.Field[string]
	Description patch.Field[string]
}

// New makes a workspace, created by the user at now.
func New(workspaceID id.Workspace, o id.Org, creator id.User, d Draft, now time.Time) (Workspace, error) {
	var c check.List
	name := c.Name("name", d.Name)
	c.Description(d.Description)
	return Workspace{ID: workspaceID, Org: o, Team: d.Team, Name: name, Description: d.Description, CreatedBy: creator, CreatedAt: now, UpdatedAt: now}, c.Err()
}

// Apply returns the workspace after a partial update at now.
func (w Workspace) Apply(p Patch, now time.Time) (Workspace, error) {
	var c check.List
	if v, ok := check.NonNull(&c, "name", p.Name); ok {
		w.Name = c.Name("name", v)
	}
	w.Description = p.Description.Over(w.Description)
	c.Description(p.Description.Over(nil)) // the sent one alone
	w.UpdatedAt = now
	return w, c.Err()
}

// Moved returns the workspace in another team.
func (w Workspace) Moved(to id.Team, now time.Time) Workspace {
	if w.Team != to {
		w.Team, w.UpdatedAt = to, now
	}
	return w
}

// Order is one member's own order of workspaces: the ones that were ever put
// in order, first to last. It may name workspaces that are gone or no longer
// visible; they count for nothing and come back into place if they come back.
type Order []id.Workspace

// Arrange returns the order after the member put the named workspaces first.
// The visible ones that are not named follow in their present order, then the
// invisible ones that were in the order; those that are gone are left out. All
// are the organisation's workspaces by creation, of which the member sees those
// that visible accepts, which accepts no other. An unknown workspace is not found
// and a repeated one is refused; then nothing changes.
func (o Order) Arrange(named, all []id.Workspace, visible func(id.Workspace) bool) (Order, error) {
	unplaced := make(map[id.Workspace]bool, len(all)) // those without a place so far
	var seen []id.Workspace
	for _, w := range all {
		unplaced[w] = true
		if visible(w) {
			seen = append(seen, w)
		}
	}
	next := make(Order, 0, len(all))
	for _, w := range named {
		switch {
		case !visible(w):
			return o, fault.Missing("Workspace")
		case !unplaced[w]:
			return o, fault.Field("order", "must not name a workspace twice")
		}
		unplaced[w] = false
		next = append(next, w)
	}
	for _, w := range slices.Concat(o.Sort(seen), o) {
		if unplaced[w] {
			unplaced[w] = false
			next = append(next, w)
		}
	}
	return next, nil
}

// Sort returns the workspaces, which come by creation, in this order; those that
// it does not name follow as they came.
func (o Order) Sort(ws []id.Workspace) []id.Workspace {
	indexes := make(map[id.Workspace]int, len(o))
	for i, w := range o {
		indexes[w] = i
	}
	indexOf := func(w id.Workspace) int {
		if i, ok := indexes[w]; ok {
			return i
		}
		return len(o)
	}
	sorted := slices.Clone(ws)
	slices.SortStableFunc(sorted, func(a, b id.Workspace) int { return indexOf(a) - indexOf(b) })
	return sorted
}
