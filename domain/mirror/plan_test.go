package mirror_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"collab/domain/id"
	"collab/domain/mirror"
	"collab/test/must"
)

// world is a directory, a place of the server and what both agreed on.
type world struct {
	local  map[string]string // content by path
	remote map[string]mirror.Record
	synced map[string]mirror.Synced // by key
	split  map[[2]string]bool       // Input.SplitMoves
	ids    int
}

func (w *world) rows() (map[string]mirror.Row, mirror.Tree) {
	var entries []*mirror.Entry
	directories := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(w.local)) {
		entries = append(entries, &mirror.Entry{Path: p, Name: p, Checksum: must.Sum(w.local[p]), Facts: mirror.Facts{Size: int64(len(w.local[p]))}})
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if !directories[d] {
				directories[d] = true
				entries = append(entries, &mirror.Entry{Path: d, Name: d, Kind: mirror.Directory})
			}
		}
	}
	tree := mirror.NewTree(slices.Values(entries), func(key string) *mirror.Entry { return &mirror.Entry{Name: w.synced[key].Name} })
	rows := map[string]mirror.Row{}
	for key, e := range tree.Files {
		rows[key] = mirror.Row{Key: key, Local: e}
	}
	for key, s := range w.synced {
		r := rows[key]
		r.Key, r.Synced = key, &s
		rows[key] = r
	}
	for _, record := range w.remote {
		key := mirror.KeyOf(record.Path)
		r := rows[key]
		r.Key, r.Remote = key, &record
		rows[key] = r
	}
	return rows, tree
}

func (w *world) plan() mirror.Plan {
	rows, tree := w.rows()
	return mirror.MakePlan(mirror.Input{Rows: rows, Tree: tree, Device: "test", SplitMoves: w.split, Rules: mirror.Rules{
		Ignored: func(string) bool { return false }, Refused: func(string) string { return "" },
	}})
}

func (w *world) create(p, content string) mirror.Record {
	w.ids++
	r := mirror.Record{ID: id.Object(fmt.Sprintf("id%03d", w.ids)), Path: p, Version: 1, Checksum: must.Sum(content), Size: int64(len(content))}
	w.remote[string(r.ID)] = r
	return r
}

func TestTheDirectoriesInOneWhoseMoveWasRefusedAreMoved(t *testing.T) {
	w := &world{local: map[string]string{}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}, split: map[[2]string]bool{}}
	for _, name := range []string{"a", "in/a", "in/b", "in/deep/a", "in/deep/b"} {
		r := w.create("d/"+name, name)
		w.synced[mirror.KeyOf(r.Path)] = *mirror.NewSynced(r, r.Path)
		w.local["e/"+name] = name
	}
	for _, c := range []struct {
		refused string // of the last plan
		moved   []string
	}{
		{"", []string{"e"}},
		{"", []string{"e/in", "e/a"}},
		{"/in", []string{"e/in/deep", "e/a", "e/in/a", "e/in/b"}},
		{"/in/deep", []string{"e/a", "e/in/a", "e/in/b", "e/in/deep/a", "e/in/deep/b"}},
	} {
		if len(c.moved) > 1 {
			w.split[[2]string{"d" + c.refused, "e" + c.refused}] = true
		}
		var moved []string
		for _, s := range w.plan().Steps {
			moved = append(moved, s.Path)
		}
		must.Equal(t, c.moved, moved)
	}
}

// TestAFileRenamedToWhereTheServerHasAnotherIsMoved has a plan set the file aside, and the next one move it on the server.
func TestAFileRenamedToWhereTheServerHasAnotherIsMoved(t *testing.T) {
	for _, taken := range []string{"b", "b/c"} {
		w := &world{local: map[string]string{"b": "a"}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
		a := w.create("a", "a")
		w.synced[mirror.KeyOf("a")] = *mirror.NewSynced(a, "a")
		c := w.create(taken, "c")
		first := w.plan().Steps
		must.Equal(t, []mirror.Action{mirror.SetAside, mirror.Download}, actionsOf(first))
		w.local = map[string]string{first[0].Path: "a", taken: "c"}
		w.synced[mirror.KeyOf(taken)] = *mirror.NewSynced(c, taken)
		must.Equal(t, []mirror.Action{mirror.Move}, actionsOf(w.plan().Steps))
	}
}

// TestAContentIsSetAsideByOneDeviceAlone has another device's copy of the local content on the server.
func TestAContentIsSetAsideByOneDeviceAlone(t *testing.T) {
	const copied = "a (conflict other 2026-12-01 01ba47).txt"
	for _, c := range []struct {
		content string // of the copy on the server
		agreed  bool   // the directory had the copy
		want    []mirror.Action
	}{
		{content: "ours", want: []mirror.Action{mirror.Download, mirror.Download}},
		{content: "another", want: []mirror.Action{mirror.SetAside, mirror.Download, mirror.Download}},
		{content: "ours", agreed: true, want: []mirror.Action{mirror.SetAside, mirror.Download}}, // it was deleted here, and is moved by the next plan
	} {
		w := &world{local: map[string]string{"a.txt": "ours"}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
		w.create("a.txt", "theirs")
		r := w.create(copied, c.content)
		if c.agreed {
			w.synced[mirror.KeyOf(copied)] = *mirror.NewSynced(r, copied)
		}
		must.Equal(t, c.want, actionsOf(w.plan().Steps))
	}
}

// actionsOf returns what steps do.
func actionsOf(steps []mirror.Step) (actions []mirror.Action) {
	for _, s := range steps {
		actions = append(actions, s.Action)
	}
	return actions
}

// TestFilesOfTheServerWithPathsThatNoneHasAreLeftAlone has a server that is faulty or hostile: its paths are invalid
// as names of files, or lead outside of the directory.
func TestFilesOfTheServerWithPathsThatNoneHasAreLeftAlone(t *testing.T) {
	w := world{local: map[string]string{"kept": "moved"}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{
		"kept": {ID: "kept", Version: 1, Checksum: must.Sum("moved"), Path: "kept", Name: "kept"},
	}}
	paths := []string{"../kept", "", "..", "./a", "a//b", "a/", "/etc/passwd", `a\b`, "c:x", "nul\x00", "con", "e\u0301", strings.Repeat("d/", 600) + "e"}
	for i, p := range paths {
		w.remote[fmt.Sprint(i)] = mirror.Record{ID: id.Object(fmt.Sprint(i)), Path: p, Version: 1, Checksum: must.Sum("moved")}
	}
	w.remote["kept"] = mirror.Record{ID: "kept", Path: "kept", Version: 1, Checksum: must.Sum("moved")}
	if plan := w.plan(); len(plan.Steps) > 0 || len(plan.Held) != len(paths) {
		t.Errorf("the plan has the steps %v, and holds %v", plan.Steps, plan.Held)
	}
}

// TestNamesThatAreHeldOrIgnoredStayInThePlaceOfAFile has a symbolic link in a directory where the server has a file, and
// an ignored file where the server has a directory.
func TestNamesThatAreHeldOrIgnoredStayInThePlaceOfAFile(t *testing.T) {
	for path, entries := range map[string][]*mirror.Entry{
		"e":   {{Path: "e", Name: "e", Kind: mirror.Directory}, {Path: "e/x", Name: "e/x", Kind: mirror.Symlink}},
		"e/f": {{Path: "e", Name: "e", Kind: mirror.IgnoredFile}},
	} {
		tree := mirror.NewTree(slices.Values(entries), func(string) *mirror.Entry { return nil })
		plan := mirror.MakePlan(mirror.Input{
			Rows: map[string]mirror.Row{mirror.KeyOf(path): {Key: mirror.KeyOf(path), Remote: &mirror.Record{ID: "e", Path: path, Version: 1, Checksum: must.Sum("e")}}}, Tree: tree,
			Rules: mirror.Rules{Ignored: func(string) bool { return false }, Refused: func(string) string { return "" }},
		})
		if len(plan.Steps) > 0 || len(plan.Held) != len(entries) {
			t.Errorf("%s: the plan has the steps %v, and holds %v", path, plan.Steps, plan.Held)
		}
	}
}

// TestPatternsOfIgnoredFilesComeFirst has a server with other patterns, which the directory has to get before other steps.
func TestPatternsOfIgnoredFilesComeFirst(t *testing.T) {
	w := world{local: map[string]string{"a": "a"}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
	w.create("b", "b")
	if steps := w.plan().PatternsFirst(); len(steps) > 0 {
		t.Errorf("without patterns %v come first", steps)
	}
	w.create(mirror.IgnoreFile, "b")
	if steps := w.plan().PatternsFirst(); len(steps) != 1 || steps[0].Action != mirror.Download || steps[0].Path != mirror.IgnoreFile {
		t.Errorf("%v come first", steps)
	}
}

// TestPatternsThatAreTooLargeAreHeld has a server with more patterns than are read, which a local edit replaces if both
// sides had them before.
func TestPatternsThatAreTooLargeAreHeld(t *testing.T) {
	for about, c := range map[string]struct {
		size          int64
		local, synced string // contents, empty for no file
		held          bool
		actions       []mirror.Action
	}{
		"the largest":                 {size: mirror.MaxIgnore, actions: []mirror.Action{mirror.Download}},
		"new":                         {size: mirror.MaxIgnore + 1, held: true},
		"changed on the server":       {size: mirror.MaxIgnore + 1, local: "a", synced: "a", held: true},
		"changed on the server, gone": {size: mirror.MaxIgnore + 1, synced: "a", held: true},
		"changed on both sides":       {size: mirror.MaxIgnore + 1, local: "b", synced: "a", held: true},
		"changed in the directory":    {size: mirror.MaxIgnore + 1, local: "a", synced: "there", actions: []mirror.Action{mirror.Upload}},
		"deleted in the directory":    {size: mirror.MaxIgnore + 1, synced: "there", actions: []mirror.Action{mirror.Delete}},
		"the same on both sides":      {size: mirror.MaxIgnore + 1, local: "there", synced: "there"},
	} {
		w := world{local: map[string]string{}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
		r := w.create(mirror.IgnoreFile, "there")
		r.Size = c.size
		w.remote[string(r.ID)] = r
		if c.local != "" {
			w.local[mirror.IgnoreFile] = c.local
		}
		if c.synced != "" {
			w.synced[mirror.KeyOf(mirror.IgnoreFile)] = mirror.Synced{ID: r.ID, Version: r.Version, Checksum: must.Sum(c.synced), Path: r.Path, Name: r.Path}
		}
		plan := w.plan()
		actions := actionsOf(plan.Steps)
		if !slices.Equal(actions, c.actions) || plan.PatternsHeld != c.held || len(plan.Held) > 0 != c.held {
			t.Errorf("%s: the plan has the steps %v, and holds %v", about, actions, plan.Held)
		}
	}
}
