package archive_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/archive"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/usage"
	"collab/domain/workspace"
)

func TestASelectionHasNothingOfAnotherMemberAlone(t *testing.T) {
	ada, ben := id.User("ada"), id.User("ben")
	own, theirs, all := id.Workspace("own"), id.Workspace("theirs"), id.Workspace("all")
	file := func(in object.Place) archive.Record { return archive.Record{Object: &object.Object{Place: in}} }
	in := func(w *id.Workspace) []archive.Record {
		return []archive.Record{
			{Task: &task.Task{Workspace: w, CreatedBy: ada}}, {TaskChange: &archive.TaskChange{Workspace: w}},
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
		{WorkspaceOrder: &archive.WorkspaceOrder{User: ada}},
		file(object.Place{Scope: object.Personal, Owner: &ada, Workspace: &theirs}),
		file(object.Place{Scope: object.Shared}),
	}, in(&own), in(&all), in(nil))
	hidden := slices.Concat([]archive.Record{
		{Team: &team.Team{ID: "ben", Kind: team.Personal, CreatedBy: ben}},
		{TeamMember: &team.Member{Team: "ben", User: ben}},
		{Workspace: &workspace.Workspace{ID: theirs, Team: "ben"}},
		{WorkspaceOrder: &archive.WorkspaceOrder{User: ben}},
		{Usage: &usage.Entry{User: ben}},
		file(object.Place{Scope: object.Personal, Owner: &ben}),
		file(object.Place{Scope: object.Shared, Kind: object.TeamMemory, Team: new(id.Team("ben"))}),
	}, in(&theirs))
	s, every := archive.VisibleTo(ada), archive.All()
	for _, r := range visible[:2] {
		if !s.Includes(r) || !every.Includes(r) {
			t.Errorf("%s: %+v", r.Kind(), r)
		}
	}
	for _, r := range []archive.Record{{TeamMember: &team.Member{User: "gone"}}, {WorkspaceOrder: &archive.WorkspaceOrder{User: "gone"}}} {
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

func TestAManifestBoundsItsArchive(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	parts := func(bytes ...int64) (all []archive.Part) {
		for _, n := range bytes {
			all = append(all, archive.Part{Bytes: n})
		}
		return all
	}
	for _, c := range []struct {
		m    archive.Manifest
		want string
	}{
		{archive.Manifest{CreatedAt: now.Add(time.Hour), Bytes: 60, Parts: parts(30, 10)}, ""},
		{archive.Manifest{CreatedAt: now.Add(time.Hour + time.Second)}, "from the future"},
		{archive.Manifest{Bytes: 60, Parts: parts(30, 11)}, "more than 100 bytes"},
		{archive.Manifest{Bytes: math.MaxInt64, Parts: parts(math.MaxInt64, math.MaxInt64)}, "more than 100 bytes"},
		{archive.Manifest{Parts: parts(math.MaxInt64, math.MaxInt64, 3)}, "more than 100 bytes"},
	} {
		err := c.m.Check(100, now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.m, err)
		}
	}
}
