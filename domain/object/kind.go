// Package object has stored objects, which are files, memories and named documents: their
// places, who sees them, and the log of their changes.
package object

import (
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

// Kind is the purpose of an object.
type Kind string

const (
	Artifact        Kind = "ARTIFACT"
	HubMemory       Kind = "HUB_MEMORY"
	TeamMemory      Kind = "TEAM_MEMORY"
	WorkspaceMemory Kind = "WORKSPACE_MEMORY"
	Template        Kind = "TEMPLATE"
	BrandAsset      Kind = "BRAND_ASSET"
)

// Kinds are all kinds.
var Kinds = []Kind{Artifact, HubMemory, TeamMemory, WorkspaceMemory, Template, BrandAsset}

// ParseKind returns the kind that s names exactly.
func ParseKind(s string) (Kind, bool) { return Kind(s), slices.Contains(Kinds, Kind(s)) }

// Scope is whether an object is one member's or shared.
type Scope string

// The scopes. Only its owner sees a personal object; no role changes that.
const (
	Shared   Scope = "SHARED"
	Personal Scope = "PERSONAL"
)

// Scopes are all scopes.
var Scopes = []Scope{Shared, Personal}

// ParseScope returns the scope that s names exactly.
func ParseScope(s string) (Scope, bool) { return Scope(s), slices.Contains(Scopes, Scope(s)) }

// Place is the location of an object, which decides the prefix of its storage key and who
// sees it. It never changes, also not when an object is moved.
type Place struct {
	Kind      Kind
	Scope     Scope
	Workspace *id.Workspace // without effect for a personal object
	Team      *id.Team      // set for shared TEAM_MEMORY alone
	Owner     *id.User      // set for personal objects alone
}

// check returns Invalid if the fields contradict the kind or the scope.
func (p Place) check() error {
	needs := func(field string, given, wanted bool) error {
		switch {
		case wanted && !given:
			return fault.Field(field, "is required for the kind %s", p.Kind)
		case given && !wanted:
			return fault.Field(field, "does not go with the kind %s", p.Kind)
		}
		return nil
	}
	if p.Scope == Personal {
		if p.Team != nil {
			return fault.Field("teamId", "does not go with the scope PERSONAL")
		}
		return nil
	}
	if err := needs("teamId", p.Team != nil, p.Kind == TeamMemory); err != nil {
		return err
	}
	switch p.Kind {
	case Artifact:
		return nil
	case WorkspaceMemory:
		return needs("workspaceId", p.Workspace != nil, true)
	}
	return needs("workspaceId", p.Workspace != nil, false)
}

// checkFor is check for a place in which the actor stores objects: Invalid if the actor does not see it.
func (p Place) checkFor(actor org.Actor) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Workspace != nil && !actor.SeesWorkspace(*p.Workspace) {
		return fault.Field("workspaceId", "must be a workspace that you can see")
	}
	if p.Team != nil && !actor.SeesTeam(*p.Team) {
		return fault.Field("teamId", "must be a team that you can see")
	}
	return nil
}

// keyPrefix returns the prefix of the storage keys of the place's objects.
func (p Place) keyPrefix(o id.Org) string {
	at := string(o) + "/"
	switch {
	case p.Scope == Personal:
		return at + "personal/" + string(*p.Owner) + "/"
	case p.Kind == HubMemory:
		return at + "shared/hub-memory/"
	case p.Kind == Template:
		return at + "shared/templates/"
	case p.Kind == BrandAsset:
		return at + "shared/brand/"
	case p.Kind == TeamMemory:
		return at + "teams/" + string(*p.Team) + "/memory/"
	case p.Kind == WorkspaceMemory:
		return at + "workspaces/" + string(*p.Workspace) + "/memory/"
	case p.Workspace != nil:
		return at + "workspaces/" + string(*p.Workspace) + "/artifacts/"
	}
	return at + "shared/artifacts/"
}
