package archive_test

import (
	"errors"
	"regexp"
	"testing"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/test/must"
)

const (
	from = id.Org("01900000-0000-7000-8000-000000000001")
	to   = id.Org("01900000-0000-7000-8000-000000000002")
)

func TestADerivedIDIsAUUIDOfTheSameTimeAndTheSameEachTime(t *testing.T) {
	old := id.Task("0198a1b2-c3d4-7e5f-8a6b-0123456789ab")
	is := archive.DeriveID(to, old)
	if !regexp.MustCompile("^0198a1b2-c3d4-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$").MatchString(string(is)) || is == old {
		t.Errorf("%s", is)
	}
	if archive.DeriveID(to, old) != is || archive.DeriveID(from, old) == is || archive.DeriveID(to, old[:35]+"c") == is {
		t.Error("it does not follow from the organisation and the old id alone")
	}
}

func TestReferencesAreMappedAsTheRecordsAre(t *testing.T) {
	ada, here, ben := id.User("01900000-0000-7000-8000-0000000000a1"), id.User("01900000-0000-7000-8000-0000000000a2"), id.User("01900000-0000-7000-8000-0000000000a3")
	w, of := id.Workspace("01900000-0000-7000-8000-0000000000b1"), id.Task("01900000-0000-7000-8000-0000000000c1")
	entry := id.Entry("01900000-0000-7000-8000-0000000000d1")
	text := func(s string) *string { return &s }
	for _, m := range []archive.Mapping{{From: from, To: from, Users: map[id.User]id.User{ada: here}}, {From: from, To: to, Users: map[id.User]id.User{ada: here}}} {
		workspace := m.Record(archive.Record{Task: &task.Task{ID: of, Workspace: &w}}).Task.Workspace
		if (m.From == m.To) != (*workspace == w) {
			t.Errorf("the workspace is %s", *workspace)
		}
		c := m.Record(archive.Record{TaskChange: &archive.TaskChange{Change: task.Change{ID: entry, Task: of, By: ada, Fields: []task.Delta{
			{Field: task.FieldWorkspace, From: text(string(w))}, {Field: task.FieldAssignee, From: text(string(ada)), To: text(string(ben))}, {Field: "title", To: text(string(ada))},
		}}}}).TaskChange
		if c.Org != m.To || c.Task != m.Record(archive.Record{Task: &task.Task{ID: of}}).Task.ID || c.By != here || *c.Fields[0].From != string(*workspace) ||
			*c.Fields[1].From != string(here) || *c.Fields[1].To != string(ben) || *c.Fields[2].To != string(ada) {
			t.Errorf("the change is %+v", c)
		}
		for target, want := range map[string]string{string(w): string(*workspace), string(ada): string(here), string(from): string(m.To), "text": "text", "": ""} {
			if is := m.Record(archive.Record{AuditEntry: &audit.Entry{ID: entry, Target: target}}).AuditEntry.Target; is != want {
				t.Errorf("the target %s becomes %s, want %s", target, is, want)
			}
		}
		if is := m.Record(archive.Record{AuditEntry: &audit.Entry{ID: entry, Target: string(ben), Action: audit.MemberRemoved}}).AuditEntry.Target; is != string(ben) {
			t.Errorf("a removed member becomes %s", is)
		}
		o := m.Record(archive.Record{Object: &object.Object{ID: id.Object(of), Org: from, Place: object.Place{Scope: object.Personal, Owner: &ada}, Path: "a"}}).Object
		if o.StorageKey() != string(m.To)+"/personal/"+string(here)+"/a" {
			t.Errorf("the file is at %s", o.StorageKey())
		}
	}
}

func TestRecordsReferToRecordsBeforeThem(t *testing.T) {
	ada, w := id.User("ada"), id.Workspace("w")
	owner := func(u id.User) archive.Record {
		return archive.Record{Member: &org.Profile{Membership: org.Membership{User: u, Role: org.Owner}}}
	}
	base := []archive.Record{
		{Organisation: &org.Organisation{}}, owner(ada), {Team: &team.Team{ID: "t"}}, {TeamMember: &team.Member{Team: "t", User: ada}},
		{Workspace: &workspace.Workspace{ID: w, Team: "t"}}, {WorkspaceOrder: &archive.WorkspaceOrder{User: ada}}, {Task: &task.Task{Workspace: &w, Assignee: &ada}},
		{Object: &object.Object{Place: object.Place{Scope: object.Shared, Workspace: &w}}},
		{Object: &object.Object{Place: object.Place{Scope: object.Personal, Owner: new(id.User("gone")), Workspace: new(id.Workspace("gone"))}}},
	}
	for i, r := range base {
		var c archive.References
		var err error
		for j, r := range base {
			if j != i && err == nil {
				err = c.Check(r)
			}
		}
		if wrong := i == 0 || i == 1 || i == 2 || i == 4; wrong != (err != nil) {
			t.Errorf("without %s: %v", r.Kind(), err)
		}
	}
	for _, more := range []archive.Record{
		base[0], base[1], base[2], base[4], {TeamMember: &team.Member{Team: "t", User: "x"}}, {TeamMember: &team.Member{Team: "x", User: ada}},
		{WorkspaceOrder: &archive.WorkspaceOrder{User: "x"}}, {Task: &task.Task{Assignee: new(id.User("x"))}},
		{Object: &object.Object{Place: object.Place{Scope: object.Shared, Team: new(id.Team("x"))}}},
	} {
		var c archive.References
		for _, r := range base {
			must.NoError(t, c.Check(r))
		}
		if err := errors.Join(c.CheckOwner(), c.Check(more)); err == nil || !fault.Is(c.Check(more), fault.Invalid) {
			t.Errorf("%s: %v", more.Kind(), err)
		}
	}
	if err := new(archive.References).CheckOwner(); err == nil {
		t.Error("there is an owner in nothing")
	}
}
