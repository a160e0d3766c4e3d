package object

import (
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

func TestMoved(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	actor := org.Actor{Org: "o", User: "u", Role: org.Member}
	o := Object{Place: Place{Kind: Artifact, Scope: Shared}, ID: "i", Org: "o", Path: "Docs/a.md", MimeType: "text/markdown", UpdatedBy: "v"}
	o = o.WithContent(Content{Blob: "b", Size: 3, Checksum: "c", Text: true}, "v", now)
	later := now.Add(time.Hour)
	for given, want := range map[string]string{
		"b.txt": "b.txt", "docs/a.md": "docs/a.md", "Docs/A\u0308.md": "Docs/Ä.md", "Docs/a.md/b": "Docs/a.md/b", "profile.json": "profile.json",
	} {
		moved, err := o.Moved(given, actor, later)
		wanted := o
		wanted.Path, wanted.Version, wanted.UpdatedBy, wanted.UpdatedAt = want, 2, "u", later
		if moved != wanted || err != nil {
			t.Errorf("to %s: %+v, %v", given, moved, err)
		}
	}
	if same, err := o.Moved("Docs/a.md", actor, later); same != o || err != nil {
		t.Errorf("to its own path: %+v, %v", same, err)
	}
	if _, err := o.Moved("a/../b", actor, later); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "path ") {
		t.Errorf("to a path that no object can have: %v", err)
	}

	own := o
	own.Scope, own.Owner = Personal, &actor.User
	for _, path := range []string{"profile.json", "Profile.JSON", "user-memory.md/a"} {
		if _, err := own.Moved(path, actor, later); !fault.Is(err, fault.Conflict) {
			t.Errorf("to the document's %s: %v", path, err)
		}
	}
	for _, d := range []Document{Profile, UserMemory, OrgOnboarding, OrgMemory} {
		if _, err := d.Object("i", actor).Moved("a.md", actor, later); !fault.Is(err, fault.Conflict) {
			t.Errorf("the document %s: %v", d.Path, err)
		}
	}
}

func TestChangeOfAMove(t *testing.T) {
	w := id.Workspace("w")
	o := Object{Place: Place{Kind: Artifact, Scope: Shared, Workspace: &w}, Org: "o", Path: "b.md", UpdatedBy: "u"}
	c := NewMove(o, "a/b.md")
	if c.Type != Changed || c.FromPath != "a/b.md" || c.FromKey() != "o/workspaces/w/artifacts/a/b.md" || c.By != "u" {
		t.Errorf("the change is %+v, from %s", c, c.FromKey())
	}
}

func TestFolderMove(t *testing.T) {
	actor := org.Actor{Org: "o", User: "u", Role: org.Member}
	shared := Draft{Kind: Template, Scope: Shared}
	for _, c := range []struct{ from, to, path, want string }{
		{"a", "b", "a/x.md", "b/x.md"},
		{"a", "A", "a/x.md", "A/x.md"},
		{"a/b", "a", "A/B/b/c", "a/b/c"},
		{"ſ", "x/y", "S/s/ſ", "x/y/s/ſ"},
		{"A\u0308", "a\u0308", "Ä/b", "ä/b"},
	} {
		m, err := NewFolderMove(actor, shared, c.from, c.to, time.Time{})
		if err != nil {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
			continue
		}
		o := Object{Place: Place{Kind: Template, Scope: Shared}, Org: "o", Path: c.path}
		if !m.Filter().Selects(o) {
			t.Errorf("%s does not lie in %s", c.path, c.from)
		}
		if moved, err := m.Moved(o); moved.Path != c.want || err != nil {
			t.Errorf("%s to %s moves %s to %s, %v", c.from, c.to, c.path, moved.Path, err)
		}
	}
	m, err := NewFolderMove(actor, Draft{Kind: Artifact, Scope: Personal}, "a", strings.Repeat("b/", 500)+"b", time.Time{})
	for kind, want := range map[Kind]bool{Artifact: true, Template: false} {
		if o := (Object{Place: Place{Kind: kind, Scope: Personal, Owner: &actor.User}, Org: "o", Path: "a/x"}); err != nil || m.Filter().Selects(o) != want {
			t.Errorf("a move of personal artifacts selects those of the kind %s: %v, error %v", kind, !want, err)
		}
	}
	if _, err := m.Moved(Object{Place: Place{Kind: Artifact, Scope: Personal, Owner: &actor.User}, Org: "o", Path: "a/" + strings.Repeat("c", 200)}); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "to ") {
		t.Errorf("a path that gets too long: %v", err)
	}
	for _, c := range []struct {
		d               Draft
		from, to, field string
	}{
		{shared, "", "b", "from"}, {shared, "a", "b/", "to"}, {shared, "a", "a/b", "to"}, {shared, "Ä", "A\u0308/b", "to"},
		{Draft{Kind: WorkspaceMemory, Scope: Shared}, "a", "b", "workspaceId"},
		{Draft{Kind: Artifact, Scope: Shared, Workspace: new(id.Workspace("w"))}, "a", "b", "workspaceId"},
		{Draft{Kind: TeamMemory, Scope: Shared, Team: new(id.Team("t"))}, "a", "b", "teamId"},
	} {
		if _, err := NewFolderMove(actor, c.d, c.from, c.to, time.Time{}); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.field+" ") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
