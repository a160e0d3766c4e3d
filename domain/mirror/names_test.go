package mirror_test

import (
	"slices"
	"strings"
	"testing"

	"collab/domain/mirror"
)

func TestNamesOfConflictCopies(t *testing.T) {
	const day = 1_700_000_000_000_000_000 // 2023-11-14
	long := strings.Repeat("é", 130)
	for _, c := range []struct{ about, path, device, copied string }{
		{"the suffix stands before the extension", "a/notes.md", "desk", "a/notes (conflict desk 2023-11-14 abcdef).md"},
		{"a name without extension", "notes", "desk", "notes (conflict desk 2023-11-14 abcdef)"},
		{"a name that begins with a dot has no extension", ".env", "desk", ".env (conflict desk 2023-11-14 abcdef)"},
		{"another copy's suffix is replaced", "notes (conflict lap top 2001-02-03 012345).md", "desk", "notes (conflict desk 2023-11-14 abcdef).md"},
		{"characters of the device that paths cannot have", "n", `a/b (c) : d`, "n (conflict ab c  d 2023-11-14 abcdef)"},
		{"a device without a usable name", "n", "??", "n (conflict device 2023-11-14 abcdef)"},
		{"a long name is cut between characters", long[:254], "desk", strings.Repeat("é", 110) + " (conflict desk 2023-11-14 abcdef)"},
	} {
		t.Run(c.about, func(t *testing.T) {
			copied, ok := mirror.ConflictPath(c.path, c.device, day, "abcdef0123", 6)
			if !ok || copied != c.copied || !mirror.IsConflict(copied) || len(copied) > 255 {
				t.Errorf("got %q, %v; want %q", copied, ok, c.copied)
			}
		})
	}
	if p, ok := mirror.ConflictPath(strings.Repeat("d/", 510)+"n", "desk", day, "abcdef", 6); ok {
		t.Errorf("a path without room got %q", p)
	}
	if mirror.IsConflict("notes (conflict of interest).md") {
		t.Error("a name that is not a copy's counts as one")
	}
}

func TestNamesThatOneFileSystemCannotHaveTogetherAreHeld(t *testing.T) {
	file := func(p string) *mirror.Entry { return &mirror.Entry{Path: p, Name: p, Checksum: "c"} }
	entries := []*mirror.Entry{
		file("B.txt"), file("b.txt"), file("dir"), {Path: "DIR", Name: "DIR", Kind: mirror.Directory}, file("DIR/x"),
		file("a:b"), {Path: "link", Name: "link", Kind: mirror.Symlink}, {Path: "dark", Name: "dark", Kind: mirror.Unreadable},
	}
	tree := mirror.NewTree(slices.Values(entries), func(string) string { return "b.txt" })
	if tree.Files["B.TXT"].Path != "b.txt" || tree.Files["DIR/X"] == nil || len(tree.Files) != 2 {
		t.Errorf("the tree has %v", tree.Files)
	}
	var held []string
	for _, h := range tree.Held {
		held = append(held, h.Path)
	}
	if want := []string{"B.txt", "a:b", "dark", "dir", "link"}; !slices.Equal(held, want) {
		t.Errorf("held are %q, want %q", held, want)
	}
	rows := map[string]mirror.Row{"DARK/X": {
		Key: "DARK/X", Synced: &mirror.Synced{Checksum: "c", Path: "dark/x", Name: "dark/x"}, Remote: &mirror.Record{Path: "dark/x", Checksum: "c"},
	}}
	if p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: tree, Rules: open}); len(p.Steps)+len(p.Settled) > 0 {
		t.Errorf("what is in a directory that cannot be read is planned for: %+v", p)
	}
}

var open = mirror.Rules{Ignored: func(string) bool { return false }, Refused: func(string) string { return "" }}

func TestGuardsStopDeletions(t *testing.T) {
	for _, c := range []struct {
		about   string
		plan    mirror.Plan
		changes mirror.Changes
		stopped bool
	}{
		{"no deletion", mirror.Plan{Emptied: true}, mirror.Changes{Root: true, Ignore: true}, false},
		{"a few deletions", mirror.Plan{Deletions: 20, Known: 20}, mirror.Changes{}, false},
		{"a quarter of many files", mirror.Plan{Deletions: 100, Known: 400}, mirror.Changes{}, false},
		{"more than a quarter", mirror.Plan{Deletions: 101, Known: 400}, mirror.Changes{}, true},
		{"more than twenty of few files", mirror.Plan{Deletions: 21, Known: 30}, mirror.Changes{}, true},
		{"an emptied directory", mirror.Plan{Deletions: 2, Known: 2, Emptied: true}, mirror.Changes{}, true},
		{"absences of a whole manifest", mirror.Plan{Deletions: 1, Known: 9, Missing: 1}, mirror.Changes{}, true},
		{"another directory", mirror.Plan{Deletions: 1, Known: 9}, mirror.Changes{Root: true}, true},
		{"other patterns", mirror.Plan{Deletions: 1, Known: 9}, mirror.Changes{Ignore: true}, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			if reason := c.plan.Guard(c.changes); reason != "" != c.stopped {
				t.Errorf("the reason is %q", reason)
			}
		})
	}
}

// A directory takes the place of a file on the server, and a file elsewhere is deleted there. What
// needs a deletion is left out with it.
func TestAPlanWithoutDeletions(t *testing.T) {
	was := func(p string) mirror.Row {
		return mirror.Row{Key: mirror.KeyOf(p), Synced: &mirror.Synced{Checksum: p, Path: p, Name: p}, Local: &mirror.Entry{Path: p, Name: p, Checksum: p}}
	}
	rows := map[string]mirror.Row{"A": was("a"), "B": was("b")}
	rows["A/X"] = mirror.Row{Key: "A/X", Remote: &mirror.Record{ID: "1", Path: "a/x", Checksum: "x"}}
	rows["C"] = mirror.Row{Key: "C", Remote: &mirror.Record{ID: "2", Path: "c", Checksum: "y"}}
	entries := []*mirror.Entry{rows["A"].Local, rows["B"].Local}
	p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: mirror.NewTree(slices.Values(entries), func(string) string { return "" }), Rules: open})
	list := func(p mirror.Plan) (all []string) {
		for _, s := range p.Steps {
			all = append(all, s.Action.String()+" "+s.Path)
		}
		return all
	}
	if got, want := list(p), []string{"trash a", "download a/x", "download c", "trash b"}; !slices.Equal(got, want) || p.Deletions != 2 {
		t.Errorf("the plan is %q, want %q", got, want)
	}
	if got, want := list(p.WithoutDeletions()), []string{"download c"}; !slices.Equal(got, want) {
		t.Errorf("without deletions it is %q, want %q", got, want)
	}
}

func TestAMovedDirectoryIsOneStep(t *testing.T) {
	rows := map[string]mirror.Row{}
	var entries []*mirror.Entry
	for _, name := range []string{"1", "2", "x/3"} {
		p := "old/in/" + name
		rows[mirror.KeyOf(p)] = mirror.Row{
			Key: mirror.KeyOf(p), Synced: &mirror.Synced{Checksum: name, Path: p, Name: p}, Remote: &mirror.Record{Path: p, Checksum: name},
		}
		e := &mirror.Entry{Path: "new/in/" + name, Name: "new/in/" + name, Checksum: name}
		rows[mirror.KeyOf(e.Path)] = mirror.Row{Key: mirror.KeyOf(e.Path), Local: e}
		entries = append(entries, e)
	}
	p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: mirror.NewTree(slices.Values(entries), func(string) string { return "" }), Rules: open})
	if len(p.Steps) != 1 || p.Steps[0].Action != mirror.MoveDirectory || p.Steps[0].From != "old" || p.Steps[0].Path != "new" || len(p.Steps[0].Steps) != 3 {
		t.Errorf("the steps are %+v", p.Steps)
	}
}
