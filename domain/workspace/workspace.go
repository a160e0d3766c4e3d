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

// Draft is what a workspace is made from.
type Draft struct {
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
	if d.Description != nil {
		c.Text("description", *d.Description, check.MaxDescription)
	}
	return Workspace{ID: workspaceID, Org: o, Team: d.Team, Name: name, Description: d.Description, CreatedBy: creator, CreatedAt: now, UpdatedAt: now}, c.Err()
}

// Apply returns the workspace after a partial update at now.
func (w Workspace) Apply(p Patch, now time.Time) (Workspace, error) {
	var c check.List
	if p.Name.Present() {
		v, ok := p.Name.Get()
		if !ok {
			c.Add("name", "must not be null")
		} else {
			w.Name = c.Name("name", v)
		}
	}
	if v, ok := p.Description.Get(); ok {
		c.Text("description", v, check.MaxDescription)
	}
	w.Description = p.Description.Over(w.Description)
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
// invisible ones that were in the order. Visible is in creation order. An
// unknown workspace is not found and a repeated one is refused; then nothing
// changes.
func (o Order) Arrange(named []id.Workspace, visible []Workspace) (Order, error) {
	known := make(map[id.Workspace]bool, len(visible))
	for _, w := range visible {
		known[w.ID] = true
	}
	next := make(Order, 0, len(visible)+len(o))
	taken := make(map[id.Workspace]bool, len(named))
	for _, w := range named {
		switch {
		case !known[w]:
			return o, fault.Missing("Workspace")
		case taken[w]:
			return o, fault.Field("order", "must not name a workspace twice")
		}
		taken[w] = true
		next = append(next, w)
	}
	for _, w := range o.Sort(visible) {
		if !taken[w.ID] {
			taken[w.ID] = true
			next = append(next, w.ID)
		}
	}
	for _, w := range o {
		if !taken[w] {
			taken[w] = true
			next = append(next, w)
		}
	}
	return next, nil
}

// Sort returns the workspaces in this order; those that it does not name
// follow by creation, then id.
func (o Order) Sort(ws []Workspace) []Workspace {
	at := make(map[id.Workspace]int, len(o))
	for i, w := range o {
		at[w] = i
	}
	place := func(w Workspace) int {
		if i, ok := at[w.ID]; ok {
			return i
		}
		return len(o)
	}
	sorted := slices.Clone(ws)
	slices.SortFunc(sorted, func(a, b Workspace) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		if d := a.CreatedAt.Compare(b.CreatedAt); d != 0 {
			return d
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return sorted
}
