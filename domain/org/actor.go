package org

import "collab/domain/id"

// Actor is who a request acts as. An actor without an organisation has an
// empty Org and Role and may do only what needs none.
type Actor struct {
	User    id.User
	Org     id.Org
	Role    Role
	Address string // the network address the request came from, for the audit log
	Request string // the request's id

	// Operator is set for calls with the operator's secret, which have no user.
	Operator bool

	Sight *Sight
}

// Sight is what a member can see of the organisation's teams and workspaces.
// It is shared between requests and never changed.
type Sight struct {
	Teams      map[id.Team]bool         // every visible team; true where the member belongs to it
	Workspaces map[id.Workspace]id.Team // every visible workspace with its team
	List       []id.Workspace           // the same workspaces, for queries
}

// SeesTeam reports whether the actor can see the team.
func (a Actor) SeesTeam(t id.Team) bool {
	if a.Sight == nil {
		return false
	}
	_, ok := a.Sight.Teams[t]
	return ok
}

// SeesWorkspace reports whether the actor can see the workspace.
func (a Actor) SeesWorkspace(w id.Workspace) bool {
	if a.Sight == nil {
		return false
	}
	_, ok := a.Sight.Workspaces[w]
	return ok
}
