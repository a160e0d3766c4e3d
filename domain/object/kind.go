// Package object holds stored objects: files, memories and named documents,
// where they lie, who sees them, and the log of their changes.
package object

import (
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
)

// Kind says what an object is for.
type Kind string

// The kinds.
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

// Scope says who sees an object in principle.
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

// Place is where an object lies: what its storage key begins with and who sees
// it follow from that. It never changes.
type Place struct {
	Kind      Kind
	Scope     Scope
	Workspace *id.Workspace // of a personal object only a note
	Team      *id.Team      // set for shared TEAM_MEMORY alone
	Owner     *id.User      // set for personal objects alone
}

// check decides whether there is such a place.
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

// folder returns what the storage keys of the place's objects begin with.
func (p Place) folder(o id.Org) string {
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
