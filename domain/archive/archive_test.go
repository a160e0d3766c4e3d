package archive_test

import (
	"slices"
	"testing"

	"collab/domain/archive"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
)

func TestASelectionHasNothingOfAnotherMemberAlone(t *testing.T) {
	ada, ben := id.User("ada"), id.User("ben")
	own, theirs, all := id.Workspace("own"), id.Workspace("theirs"), id.Workspace("all")
	file := func(in object.Place) archive.Record { return archive.Record{Object: &object.Object{Place: in}} }
	in := func(w *id.Workspace) []archive.Record {
		return []archive.Record{
			{Task: &task.Task{Workspace: w, CreatedBy: ada}}, {Change: &archive.Change{Workspace: w}},
			file(object.Place{Scope: object.Shared, Kind: object.WorkspaceMemory, Workspace: w}),
		}
	}
	visible := slices.Concat([]archive.Record{
		{Member: &org.Profile{Membership: org.Membership{User: ada}}}, {Member: &org.Profile{Membership: org.Membership{User: ben}}},
		{Team: &team.Team{ID: "shared", Kind: team.Shared, CreatedBy: ben}},
		{Team: &team.Team{ID: "ada", Kind: team.Personal, CreatedBy: ada}},
		{TeamMember: &team.Member{Team: "ada", User: ada}},
		{Workspace: &workspace.Workspace{ID: own, Team: "ada"}},
		{Workspace: &workspace.Workspace{ID: all, Team: "shared"}},
		{Order: &archive.Order{User: ada}},
		file(object.Place{Scope: object.Personal, Owner: &ada, Workspace: &theirs}),
		file(object.Place{Scope: object.Shared}),
	}, in(&own), in(&all), in(nil))
	hidden := slices.Concat([]archive.Record{
		{Team: &team.Team{ID: "ben", Kind: team.Personal, CreatedBy: ben}},
		{TeamMember: &team.Member{Team: "ben", User: ben}},
		{Workspace: &workspace.Workspace{ID: theirs, Team: "ben"}},
		{Order: &archive.Order{User: ben}},
		file(object.Place{Scope: object.Personal, Owner: &ben}),
		file(object.Place{Scope: object.Shared, Kind: object.TeamMemory, Team: new(id.Team("ben"))}),
	}, in(&theirs))
	s, every := archive.VisibleTo(ada), archive.All()
	for _, r := range visible[:2] {
		if !s.Includes(r) || !every.Includes(r) {
			t.Errorf("%s: %+v", r.Kind(), r)
		}
	}
	for _, r := range []archive.Record{{TeamMember: &team.Member{User: "gone"}}, {Order: &archive.Order{User: "gone"}}} {
		if every.Includes(r) {
			t.Errorf("of a user who left: %+v", r)
		}
	}
	for _, r := range hidden {
		if s.Includes(r) || !every.Includes(r) {
			t.Errorf("%s: %+v", r.Kind(), r)
		}
	}
	for _, r := range visible {
		if !s.Includes(r) || !every.Includes(r) {
			t.Errorf("%s: %+v", r.Kind(), r)
		}
	}
}
