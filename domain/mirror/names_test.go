package mirror_test

import (
	"slices"
	"strings"
	"testing"

	"collab/domain/mirror"
	"collab/test/must"
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
	deep := strings.Repeat("d/", 511) + "dd"
	entries := []*mirror.Entry{
		file("B.txt"), file("b.txt"), file("dir"), {Path: "DIR", Name: "DIR", Kind: mirror.Directory}, file("DIR/x"),
		file("a:b"), {Path: "link", Name: "link", Kind: mirror.Symlink}, {Path: "dark", Name: "dark", Kind: mirror.Unreadable},
		{Path: deep, Name: deep, Kind: mirror.Directory},
	}
	tree := mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return &mirror.Entry{Name: "b.txt"} })
	if tree.Files["B.TXT"].Path != "b.txt" || tree.Files["DIR/X"] == nil || len(tree.Files) != 3 {
		t.Errorf("the tree has %v", tree.Files)
	}
	var held []string
	for _, h := range tree.Held {
		held = append(held, h.Path)
	}
	if want := []string{"B.txt", "a:b", deep, "dark", "link"}; !slices.Equal(held, want) {
		t.Errorf("held are %q, want %q", held, want)
	}
	beside := map[string]mirror.Row{"DIR": {Key: "DIR", Local: tree.Files["DIR"]}, "DIR/X": {Key: "DIR/X", Local: tree.Files["DIR/X"]}}
	if p := mirror.MakePlan(mirror.Input{Rows: beside, Tree: tree, Rules: open}); len(p.Steps) != 2 || p.Steps[0].Action != mirror.SetAside || p.Steps[1].Path != "DIR/x" {
		t.Errorf("a file beside a directory of its name: %+v", p.Steps)
	}
	rows := map[string]mirror.Row{"DARK/X": {
		Key: "DARK/X", Synced: &mirror.Synced{Checksum: "c", Path: "dark/x", Name: "dark/x"}, Remote: &mirror.Record{Path: "dark/x", Checksum: "c"},
	}}
	if p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: tree, Rules: open}); len(p.Steps)+len(p.Settled) > 0 {
		t.Errorf("what is in a directory that cannot be read is planned for: %+v", p)
	}
}

func TestOneOfTheNamesWithOnePathIsInTheTree(t *testing.T) {
	for _, c := range []struct{ composed, decomposed, chosen string }{{"\u00fc", "u\u0308", "\u00fc"}, {"\u00e4", "a\u0308", "a\u0308"}} {
		entries := []*mirror.Entry{{Path: c.composed, Name: c.composed}, {Path: c.composed, Name: c.decomposed}}
		for range 2 {
			tree := mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return &mirror.Entry{Name: "\u00fc"} })
			if e := tree.Files[mirror.KeyOf(c.composed)]; e.Name != c.chosen || len(tree.Held) != 1 {
				t.Errorf("the tree has %q, want %q; held: %v", e.Name, c.chosen, tree.Held)
			}
			slices.Reverse(entries)
		}
	}
}

var open = mirror.Rules{Ignored: func(string) bool { return false }, Refused: func(string) string { return "" }}

func TestGuardsStopDeletions(t *testing.T) {
	for _, c := range []struct {
		about                  string
		deletions, others      int
		settled                int
		known, missing         int
		emptied, root, ignore  bool
		stopped, stoppedWholly bool
	}{
		{about: "no step", known: 9, emptied: true, root: true, ignore: true},
		{about: "no step and no known file in another directory", root: true, stopped: true, stoppedWholly: true},
		{about: "no deletion", others: 100, ignore: true},
		{about: "a few deletions", deletions: 20, known: 20},
		{about: "a quarter of many files", deletions: 100, known: 400},
		{about: "more than a quarter", deletions: 101, known: 400, stopped: true},
		{about: "more than twenty of few files", deletions: 21, known: 30, stopped: true},
		{about: "absences of a whole manifest", deletions: 1, known: 9, missing: 1, stopped: true},
		{about: "other patterns", deletions: 1, known: 9, ignore: true, stopped: true},
		{about: "an emptied directory", others: 1, known: 2, emptied: true, stopped: true, stoppedWholly: true},
		{about: "an emptied directory whose files are gone on the server", settled: 2, known: 2, emptied: true, stopped: true, stoppedWholly: true},
		{about: "another directory", others: 1, known: 9, root: true, stopped: true, stoppedWholly: true},
	} {
		t.Run(c.about, func(t *testing.T) {
			p := mirror.Plan{Steps: make([]mirror.Step, c.deletions+c.others), Settled: make([]mirror.Row, c.settled), Deletions: c.deletions, Known: c.known, Missing: c.missing, Emptied: c.emptied}
			if reason, all := p.Guard(mirror.Changes{Root: c.root, Ignore: c.ignore}); (reason != "") != c.stopped || all != c.stoppedWholly {
				t.Errorf("the reason is %q, for all steps: %v", reason, all)
			}
		})
	}
}

func TestAGuardSaysThatTheServerHasNoFileAnyMore(t *testing.T) {
	const vacated = "The server has no file in this place any more, as when a workspace was deleted or is closed to you."
	for _, c := range []struct {
		files  int
		remote *mirror.Record // of the first
		want   string
	}{
		{22, nil, vacated},
		{22, &mirror.Record{Path: "a", Checksum: "c"}, "An unusual number of files would be deleted."},
		{2, nil, vacated},
		{2, &mirror.Record{Path: "a", Checksum: "c"}, ""},
		{1, nil, ""}, // it may have been the only file for a long time
	} {
		rows := map[string]mirror.Row{}
		var entries []*mirror.Entry
		for key := range strings.SplitSeq("abcdefghijklmnopqrstuv"[:c.files], "") {
			entries = append(entries, &mirror.Entry{Path: key, Name: key, Checksum: "c"})
			rows[key] = mirror.Row{Key: key, Local: entries[len(entries)-1], Synced: &mirror.Synced{Checksum: "c"}}
		}
		a := rows["a"]
		a.Remote = c.remote
		rows["a"] = a
		tree := mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return nil })
		reason, _ := mirror.MakePlan(mirror.Input{Rows: rows, Tree: tree, Rules: open}).Guard(mirror.Changes{})
		must.Is(t, c.want, reason)
	}
}

// TestAPlanWithoutDeletions has a directory take the place of a file on the server, a file elsewhere deleted there,
// and a file take the place of a directory that has a new file there: without deletions, the steps that need one are left out too.
func TestAPlanWithoutDeletions(t *testing.T) {
	was := func(p string) mirror.Row {
		return mirror.Row{Key: mirror.KeyOf(p), Synced: &mirror.Synced{Checksum: p, Path: p, Name: p}, Local: &mirror.Entry{Path: p, Name: p, Checksum: p}}
	}
	rows := map[string]mirror.Row{"A": was("a"), "B": was("b")}
	rows["A/X"] = mirror.Row{Key: "A/X", Remote: &mirror.Record{ID: "1", Path: "a/x", Checksum: "x"}}
	rows["C"] = mirror.Row{Key: "C", Remote: &mirror.Record{ID: "2", Path: "c", Checksum: "y"}}
	rows["D"] = mirror.Row{Key: "D", Local: &mirror.Entry{Path: "d", Name: "d", Checksum: "zzzzzz"}}
	rows["D/X"] = mirror.Row{Key: "D/X", Synced: &mirror.Synced{Checksum: "x", Path: "d/x", Name: "d/x"}, Remote: &mirror.Record{ID: "3", Path: "d/x", Checksum: "x"}}
	rows["D/Y"] = mirror.Row{Key: "D/Y", Remote: &mirror.Record{ID: "4", Path: "d/y", Checksum: "y"}}
	entries := []*mirror.Entry{rows["A"].Local, rows["B"].Local, rows["D"].Local}
	p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return nil }), Rules: open})
	list := func(p mirror.Plan) (all []string) {
		for _, s := range p.Steps {
			all = append(all, s.Action.String()+" "+s.Path)
		}
		return all
	}
	const aside = "set aside d (conflict device 1970-01-01 zzzzzz)"
	if got, want := list(p), []string{aside, "trash a", "download a/x", "download c", "download d/y", "delete d/x", "trash b"}; !slices.Equal(got, want) || p.Deletions != 3 {
		t.Errorf("the plan is %q, want %q", got, want)
	}
	if got, want := list(p.WithoutDeletions()), []string{aside, "download c", "download d/y"}; !slices.Equal(got, want) {
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
	p := mirror.MakePlan(mirror.Input{Rows: rows, Tree: mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return nil }), Rules: open})
	if len(p.Steps) != 1 || p.Steps[0].Action != mirror.MoveDirectory || p.Steps[0].From != "old" || p.Steps[0].Path != "new" || len(p.Steps[0].Steps) != 3 {
		t.Errorf("the steps are %+v", p.Steps)
	}
}

// TestADirectoryGetsNoSpellingThatAnotherHas has two directories of one folded name on a case-sensitive file
// system, one of which has the name that the server gave the other.
func TestADirectoryGetsNoSpellingThatAnotherHas(t *testing.T) {
	file := mirror.Entry{Path: "F/y", Name: "F/y", Checksum: "y"}
	rows := map[string]mirror.Row{"F/Y": {
		Key: "F/Y", Local: &file, Remote: &mirror.Record{ID: "1", Path: "f/y", Checksum: "y"},
		Synced: &mirror.Synced{ID: "1", Checksum: "y", Path: "F/y", Name: "F/y"},
	}}
	entries := []*mirror.Entry{{Path: "F", Name: "F", Kind: mirror.Directory}, &file}
	steps := func() []mirror.Step {
		return mirror.MakePlan(mirror.Input{Rows: rows, Tree: mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return nil }), Rules: open}).Steps
	}
	if s := steps(); len(s) != 1 || s[0].Action != mirror.RespellDirectory {
		t.Errorf("%+v, want the directory to get the server's spelling", s)
	}
	entries = append(entries, &mirror.Entry{Path: "f", Name: "f", Kind: mirror.Directory})
	if s := steps(); len(s) > 0 {
		t.Errorf("%+v, want no step", s)
	}
}
