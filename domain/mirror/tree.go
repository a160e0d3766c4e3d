package mirror

import (
	"cmp"
	"iter"
	"slices"

	"collab/domain/object"
)

// Held is a path that is not synchronised at present.
type Held struct {
	Path   string
	Reason string // a sentence for people
}

// Tree is the files of the directory by their keys.
type Tree struct {
	Files          map[string]*Entry
	Directories    map[string]string // how each is spelled, by its folded path
	Held           []Held
	ignored        map[string]bool // keys of ignored files
	held           map[string]bool // keys of names that are held, with everything below
	holding        map[string]bool // keys of directories that are ignored, or in which names are held or ignored
	nonemptyBeside map[string]bool // keys of files that are also keys of directories with a file in them
	doubled        map[string]bool // keys of directories that exist in several spellings
}

// NewTree makes the tree of what a scan found. known returns the file that an earlier tree had under a key, nil for
// none. Of names with the same key that file's is in the tree, else the least; the others are held. Two names may have one
// path, in different Unicode forms.
func NewTree(entries iter.Seq[*Entry], known func(key string) *Entry) Tree {
	t := Tree{
		Files: map[string]*Entry{}, Directories: map[string]string{}, ignored: map[string]bool{},
		held: map[string]bool{}, holding: map[string]bool{}, nonemptyBeside: map[string]bool{},
		doubled: map[string]bool{},
	}
	keep := func(key string) {
		for _, ancestor := range object.Ancestors(key) {
			t.holding[ancestor] = true
		}
	}
	list := func(e *Entry, reason string) {
		t.Held = append(t.Held, Held{e.Path, reason})
		keep(KeyOf(e.Path))
	}
	hold := func(key string, e *Entry, reason string) {
		t.held[key] = true
		list(e, reason)
	}
	var twins []*Entry
	for e := range entries {
		key := KeyOf(e.Path)
		switch e.Kind {
		case Directory:
			if len(e.Path) >= object.MaxPath { // what is in it was not read
				hold(key, e, "The paths in it are too long.")
				continue
			}
			was, ok := t.Directories[key]
			if ok {
				t.doubled[key] = true
			}
			if !ok || e.Path < was {
				t.Directories[key] = e.Path
			}
		case Symlink:
			hold(key, e, "Symbolic links are not synchronised.")
		case Special:
			hold(key, e, "It is neither a file nor a directory.")
		case Unreadable:
			hold(key, e, "It cannot be read at present: it goes on changing, something is mounted there, or you may not read it.")
		case IgnoredDirectory:
			t.holding[key] = true
			keep(key)
		case IgnoredFile:
			t.ignored[key] = true
			keep(key)
		case File:
			was, name := known(key), ""
			if was != nil {
				name = was.Name
			}
			if e != was { // else it was checked
				if _, err := object.ParsePath("The path", e.Path); err != nil {
					hold(key, e, err.Error())
					continue
				}
			}
			if other := t.Files[key]; other != nil {
				if e.Name == name || other.Name != name && e.Name < other.Name {
					e, other = other, e
					t.Files[key] = other
				}
				twins = append(twins, e)
				continue
			}
			t.Files[key] = e
		}
	}
	for _, e := range twins {
		list(e, "The name differs from "+t.Files[KeyOf(e.Path)].Path+" only in case or Unicode form.")
	}
	beside := map[string]bool{} // keys of files and of directories
	for key := range t.Files {
		if _, ok := t.Directories[key]; ok {
			beside[key] = true
		}
	}
	if len(beside) > 0 {
		for e := range entries {
			if e.Kind == Directory || e.Kind == IgnoredDirectory || e.Kind == IgnoredFile {
				continue
			}
			for _, ancestor := range object.Ancestors(KeyOf(e.Path)) {
				if beside[ancestor] {
					t.nonemptyBeside[ancestor] = true
				}
			}
		}
	}
	slices.SortFunc(t.Held, func(a, b Held) int { return cmp.Compare(a.Path, b.Path) })
	return t
}

// holds reports whether a key, or a directory that it is in, is held.
func (t Tree) holds(key string) bool {
	return len(t.held) > 0 && (t.held[key] || slices.ContainsFunc(object.Ancestors(key), func(ancestor string) bool { return t.held[ancestor] }))
}
