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

	"pgregory.net/rapid"
)

// world is a directory, a place of the server and what both agreed on, with each step of a plan
// succeeding. Contents are their own names.
type world struct {
	local  map[string]string // content by path
	remote map[string]mirror.Record
	synced map[string]mirror.Synced // by key
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
	return mirror.MakePlan(mirror.Input{Rows: rows, Tree: tree, Device: "test", Rules: mirror.Rules{
		Ignored: func(string) bool { return false }, Refused: func(string) string { return "" },
	}})
}

// free reports why a file cannot get a path, as a case-insensitive file system or the server
// would refuse it.
func free(paths []string, p, except string) error {
	key := mirror.KeyOf(p)
	for _, other := range paths {
		if other == except {
			continue
		}
		k := mirror.KeyOf(other)
		if k == key || strings.HasPrefix(k, key+"/") || strings.HasPrefix(key, k+"/") {
			return fmt.Errorf("%s is in the way of %s", other, p)
		}
	}
	return nil
}

func (w *world) localFree(p, except string) error {
	return free(slices.Collect(maps.Keys(w.local)), p, except)
}

func (w *world) remoteFree(p, except string) error {
	var paths []string
	for _, r := range w.remote {
		paths = append(paths, r.Path)
	}
	return free(paths, p, except)
}

func (w *world) create(p, content string) mirror.Record {
	w.ids++
	r := mirror.Record{ID: id.Object(fmt.Sprintf("id%03d", w.ids)), Path: p, Version: 1, Checksum: must.Sum(content), Size: int64(len(content))}
	w.remote[string(r.ID)] = r
	contents[r.Checksum] = content
	return r
}

// contents has what each checksum is of.
var contents = map[string]string{}

// localized is a path with the directories that exist.
func (w *world) localized(p string) string {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		for other := range w.local {
			for o := path.Dir(other); o != "."; o = path.Dir(o) {
				if mirror.KeyOf(o) == mirror.KeyOf(d) {
					return o + p[len(d):]
				}
			}
		}
	}
	return p
}

// do makes a step. Whatever it finds otherwise than planned is an error.
func (w *world) do(s mirror.Step) error {
	key := s.Row.Key
	agree := func(k string, r mirror.Record, name string) {
		w.synced[k] = mirror.Synced{ID: r.ID, Version: r.Version, Checksum: r.Checksum, Path: r.Path, Name: name}
	}
	move := func(from, to string) error {
		if err := w.localFree(to, from); err != nil {
			return err
		}
		content, ok := w.local[from]
		if !ok {
			return fmt.Errorf("%s is not there", from)
		}
		delete(w.local, from)
		w.local[to] = content
		return nil
	}
	switch s.Action {
	case mirror.RespellDirectory:
		for p, content := range w.local {
			if rest, ok := strings.CutPrefix(p, s.From+"/"); ok {
				delete(w.local, p)
				w.local[s.Path+"/"+rest] = content
			}
		}
	case mirror.SetAside:
		delete(w.synced, key)
		return move(s.Row.Local.Path, s.Path)
	case mirror.Trash, mirror.TrashFirst:
		if _, ok := w.local[s.Row.Local.Path]; !ok {
			return fmt.Errorf("%s is not there", s.Row.Local.Path)
		}
		delete(w.local, s.Row.Local.Path)
		delete(w.synced, key)
	case mirror.Delete, mirror.DeleteFirst:
		if w.remote[string(s.Row.Remote.ID)] != *s.Row.Remote {
			return fmt.Errorf("%s has another version", s.Path)
		}
		delete(w.remote, string(s.Row.Remote.ID))
		delete(w.synced, key)
	case mirror.Rename:
		to := w.localized(s.Path)
		if err := move(s.Row.Local.Path, to); err != nil {
			return err
		}
		delete(w.synced, key)
		agree(s.To.Key, *s.To.Remote, to)
	case mirror.Move:
		r := *s.Row.Remote
		if err := w.remoteFree(s.Path, r.Path); err != nil {
			return err
		}
		r.Path, r.Version = s.Path, r.Version+1
		w.remote[string(r.ID)] = r
		delete(w.synced, key)
		agree(s.To.Key, r, s.Path)
	case mirror.MoveDirectory:
		for _, one := range s.Steps {
			if err := w.do(one); err != nil {
				return err
			}
		}
	case mirror.Download:
		to := w.localized(s.Path)
		if s.Row.Local != nil {
			to = s.Row.Local.Path
		}
		except := to
		if s.Row.Local == nil {
			except = ""
		}
		if err := w.localFree(to, except); err != nil {
			return err
		}
		w.local[to] = contents[s.Row.Remote.Checksum]
		agree(key, *s.Row.Remote, to)
		if old := s.Row.Synced; old != nil && s.Row.Local != nil {
			kept := w.synced[key]
			kept.Path, kept.Name = old.Path, old.Name
			w.synced[key] = kept
		}
	case mirror.Upload:
		content := w.local[s.Path]
		if s.Row.Remote == nil {
			if err := w.remoteFree(s.Path, ""); err != nil {
				return err
			}
			agree(key, w.create(s.Path, content), s.Path)
			break
		}
		r := *s.Row.Remote
		if w.remote[string(r.ID)] != r {
			return fmt.Errorf("%s has another version", s.Path)
		}
		r.Version, r.Checksum = r.Version+1, must.Sum(content)
		contents[r.Checksum] = content
		w.remote[string(r.ID)] = r
		agree(key, r, s.Path)
		if old := s.Row.Synced; old != nil {
			kept := w.synced[key]
			kept.Path, kept.Name = old.Path, old.Name
			w.synced[key] = kept
		}
	}
	return nil
}

// names are few, so that changes of the two sides meet, with two spellings for some.
var names = []string{"a", "A", "b", "b.txt", "d", "D", "d/a", "d/b", "D/b", "d/e/a", "d/e/f", "d/E/g", "e", "e/a", "a/b", "b/a"}

// disturb changes one side at random. It returns what was lost by intention.
func disturb(t *rapid.T, n *int, paths func() []string, put func(p, content string), remove func(p string), move func(from, to string)) {
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		existing := paths()
		slices.Sort(existing)
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 || len(existing) == 0:
			p := rapid.SampledFrom(names).Draw(t, "path")
			if free(existing, p, "") == nil {
				*n++
				put(p, fmt.Sprintf("content %d", *n))
			}
		case kind == 1:
			*n++
			put(rapid.SampledFrom(existing).Draw(t, "edited"), fmt.Sprintf("content %d", *n))
		case kind == 2:
			remove(rapid.SampledFrom(existing).Draw(t, "removed"))
		case kind == 3:
			from, to := rapid.SampledFrom(existing).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
			if from != to && free(existing, to, from) == nil {
				move(from, to)
			}
		}
	}
}

func (w *world) disturb(t *rapid.T, n *int, removed map[string]bool) {
	disturb(t, n, func() []string { return slices.Collect(maps.Keys(w.local)) },
		func(p, content string) { removed[w.local[p]] = true; w.local[p] = content },
		func(p string) { removed[w.local[p]] = true; delete(w.local, p) },
		func(from, to string) { content := w.local[from]; delete(w.local, from); w.local[to] = content })
	find := func(p string) (r mirror.Record, ok bool) {
		for _, r := range w.remote {
			if r.Path == p {
				return r, true
			}
		}
		return r, false
	}
	disturb(t, n, func() (paths []string) {
		for _, r := range w.remote {
			paths = append(paths, r.Path)
		}
		return paths
	}, func(p, content string) {
		r, ok := find(p)
		if !ok {
			w.create(p, content)
			return
		}
		removed[contents[r.Checksum]] = true
		r.Version, r.Checksum = r.Version+1, must.Sum(content)
		contents[r.Checksum] = content
		w.remote[string(r.ID)] = r
	}, func(p string) {
		r, _ := find(p)
		removed[contents[r.Checksum]] = true
		delete(w.remote, string(r.ID))
	}, func(from, to string) {
		r, _ := find(from)
		r.Path, r.Version = to, r.Version+1
		w.remote[string(r.ID)] = r
	})
}

// settle makes plans, with their steps in a random order within an action, until there is
// nothing to do.
func (w *world) settle(t *rapid.T) {
	for plans := 1; ; plans++ {
		p := w.plan()
		for _, row := range p.Settled {
			delete(w.synced, row.Key)
			if !row.Empty() {
				w.synced[row.Key] = *row.Synced
			}
		}
		if len(p.Steps) == 0 {
			if again := w.plan(); len(again.Settled) > 0 {
				t.Fatalf("settled rows are settled again: %+v", again.Settled)
			}
			return
		}
		if plans == 12 {
			t.Fatalf("the plan is never empty: %+v", p.Steps)
		}
		respelled := p.Steps[0].Action == mirror.RespellDirectory
		for len(p.Steps) > 0 {
			n := 1
			for n < len(p.Steps) && p.Steps[n].Action == p.Steps[0].Action {
				n++
			}
			for _, s := range rapid.Permutation(p.Steps[:n]).Draw(t, "order") {
				if err := w.do(s); err != nil && !respelled {
					t.Fatalf("%s %s: %v", s.Action, s.Path, err)
				}
			}
			p.Steps = p.Steps[n:]
		}
	}
}

func TestPlansOfAnyTwoChangedTreesMakeThemEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{local: map[string]string{}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
		n := 0
		for range 3 {
			removed := map[string]bool{}
			w.disturb(t, &n, removed)
			had := map[string]bool{}
			for _, content := range w.local {
				had[content] = true
			}
			for _, r := range w.remote {
				had[contents[r.Checksum]] = true
			}
			w.settle(t)
			here, there := map[string]string{}, map[string]string{}
			kept := map[string]bool{}
			for p, content := range w.local {
				here[mirror.KeyOf(p)] = content
				kept[content] = true
			}
			for _, r := range w.remote {
				there[mirror.KeyOf(r.Path)] = contents[r.Checksum]
			}
			if !maps.Equal(here, there) {
				t.Fatalf("the directory has %v, the server %v", here, there)
			}
			for content := range had {
				if !kept[content] && !removed[content] {
					t.Fatalf("%s is lost: %v", content, here)
				}
			}
		}
	})
}

// TestAFileRenamedToWhereTheServerHasAnotherIsMoved has a plan set the file aside, and the next one move it on the server.
func TestAFileRenamedToWhereTheServerHasAnotherIsMoved(t *testing.T) {
	for _, taken := range []string{"b", "b/c"} {
		w := &world{local: map[string]string{"b": "a"}, remote: map[string]mirror.Record{}, synced: map[string]mirror.Synced{}}
		a := w.create("a", "a")
		w.synced[mirror.KeyOf("a")] = mirror.Synced{ID: a.ID, Version: a.Version, Checksum: a.Checksum, Path: a.Path, Name: a.Path}
		w.create(taken, "c")
		for _, want := range [][]mirror.Action{{mirror.SetAside, mirror.Download}, {mirror.Move}, nil} {
			var actions []mirror.Action
			for _, s := range w.plan().Steps {
				actions = append(actions, s.Action)
				if err := w.do(s); err != nil {
					t.Fatalf("%s: %s %s: %v", taken, s.Action, s.Path, err)
				}
			}
			if !slices.Equal(actions, want) {
				t.Fatalf("%s: a plan has the steps %v, not %v", taken, actions, want)
			}
		}
	}
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
		var actions []mirror.Action
		for _, s := range plan.Steps {
			actions = append(actions, s.Action)
		}
		if !slices.Equal(actions, c.actions) || plan.PatternsHeld != c.held || len(plan.Held) > 0 != c.held {
			t.Errorf("%s: the plan has the steps %v, and holds %v", about, actions, plan.Held)
		}
	}
}
