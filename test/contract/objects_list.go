package contract

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/words"
)

// objectFixture is what the property about lists draws from: one organisation full of
// objects beside another one, and the values that its filters name.
type objectFixture struct {
	org        id.Org
	objects    []object.Object
	users      []id.User      // two of the organisation, one of the other
	teams      []id.Team      // two of the organisation, one of the other
	workspaces []id.Workspace // two of the organisation, one of the other
	keys       []string       // storage keys, of the other organisation's objects too
}

var pathSegments = []string{"a", "A", "b", "a b", "a-", "a~", "ä", "Ä", "_", "%", `"'`, "日本", "\U0001F989", "\uFFFD", "\uD7FF", "\U0010FFFF"}

// objectListProperty compares List with the domain's own word on which objects
// a filter selects, who sees them and what their storage keys are.
func objectListProperty(w *fixture) {
	const perCase = 4 // filters for each case of the property, which has 100 by default
	l := newObjectFixture(w)
	rapid.Check(w.T, func(t *rapid.T) {
		for range perCase {
			viewer, f := l.viewer(t), l.filter(t)
			if f.Folder == "" {
				slices.SortFunc(l.objects, byStorageKey)
			} else {
				slices.SortFunc(l.objects, func(a, b object.Object) int {
					return strings.Compare(object.Fold(a.StorageKey()), object.Fold(b.StorageKey()))
				})
			}
			var want []object.Object
			others, examined := f, 0
			others.Words = nil
			for _, v := range l.objects {
				if !others.Selects(v) || viewer != nil && !v.VisibleTo(*viewer) {
					continue
				}
				if examined++; f.HasWords(v) && (len(f.Words) == 0 || f.ExamineLimit == 0 || examined <= f.ExamineLimit) {
					want = append(want, v)
				}
			}
			if f.Limit > 0 {
				want = want[:min(f.Limit, len(want))]
			}
			var got []object.Object
			err := w.Objects().List(w.ctx, l.org, viewer, f, nil, collect(&got))
			if err != nil {
				t.Fatalf("%+v for %+v: %v", f, viewer, err)
			}
			if d := diff(got, want); d != "" {
				t.Fatalf("%+v for %+v (-want +got):\n%s", f, viewer, d)
			}
		}
	})
}

// newObjectFixture fills two organisations with objects that share few values, so that
// most filters select some.
func newObjectFixture(w *fixture) objectFixture {
	w.Helper()
	const many = 300
	o, other := w.org().ID, w.org().ID
	stranger := w.member(other, org.Owner).ID
	l := objectFixture{org: o, users: []id.User{w.member(o, org.Owner).ID, w.member(o, org.Member).ID, stranger}}
	l.teams = []id.Team{w.team(o, l.users[0]).ID, w.team(o, l.users[0]).ID, w.team(other, stranger).ID}
	for i, t := range l.teams {
		of := []id.Org{o, o, other}[i]
		l.workspaces = append(l.workspaces, w.workspace(of, t, stranger).ID)
	}
	next := mixing()
	draw := func(of id.Org, own int, n int) object.Object {
		p := object.Place{Kind: object.Kinds[next(len(object.Kinds))], Scope: object.Scopes[next(2)]}
		switch {
		case p.Scope == object.Personal:
			p.Owner = &l.users[own]
			if next(2) == 0 {
				p.Workspace = &l.workspaces[next(3)]
			}
		case p.Kind == object.TeamMemory:
			p.Team = &l.teams[own]
		case p.Kind == object.WorkspaceMemory || p.Kind == object.Artifact && next(2) == 0:
			p.Workspace = &l.workspaces[own]
		}
		var segments []string
		for range next(3) + 1 {
			segments = append(segments, pathSegments[next(len(pathSegments))])
		}
		// The number keeps files and folders apart.
		return someObject(of, p, fmt.Sprintf("%s %d", strings.Join(segments, "/"), n), l.users[0])
	}
	var elsewhere []object.Object
	for n := range many {
		if n%4 == 3 {
			elsewhere = append(elsewhere, draw(other, 2, n))
		} else {
			l.objects = append(l.objects, draw(o, next(2), n))
		}
	}
	l.objects, elsewhere = w.addObjects(l.objects...), w.addObjects(elsewhere...)
	for _, v := range slices.Concat(l.objects, elsewhere) {
		l.keys = append(l.keys, v.StorageKey())
	}
	return l
}

func (l objectFixture) viewer(t *rapid.T) *org.Actor {
	if rapid.IntRange(0, 3).Draw(t, "everybody") == 0 {
		return nil
	}
	a := org.Actor{Org: l.org, User: rapid.SampledFrom(l.users).Draw(t, "viewer"), Role: org.Owner}
	if rapid.IntRange(0, 9).Draw(t, "without visibility") == 0 {
		return &a
	}
	var teams []id.Team
	var workspaces []id.Workspace
	for i := range l.teams {
		if rapid.Bool().Draw(t, "sees the team") {
			teams = append(teams, l.teams[i])
		}
		if rapid.Bool().Draw(t, "sees the workspace") {
			workspaces = append(workspaces, l.workspaces[i])
		}
	}
	return new(seeing(a, teams, workspaces))
}

func (l objectFixture) filter(t *rapid.T) object.Filter {
	some := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
	var f object.Filter
	if some("kind") {
		f.Kind = rapid.SampledFrom(object.Kinds).Draw(t, "kind")
	}
	if some("scope") {
		f.Scope = rapid.SampledFrom(object.Scopes).Draw(t, "scope")
	}
	if some("workspace") {
		f.Workspace = rapid.SampledFrom(l.workspaces).Draw(t, "workspace")
	}
	if some("unplaced") {
		f.WithoutWorkspace = true
	}
	if some("team") {
		f.Team = rapid.SampledFrom(l.teams).Draw(t, "team")
	}
	if some("owner") {
		f.Owner = rapid.SampledFrom(l.users).Draw(t, "owner")
	}
	if some("prefix") {
		f.Prefix = l.cut(t, "prefix")
	}
	if some("folder") {
		key := rapid.SampledFrom(l.keys).Draw(t, "folder")
		above := object.Ancestors(object.Fold(key))
		f.Folder = rapid.SampledFrom(above).Draw(t, "above")
	}
	if f.Folder == "" && some("words") {
		key := rapid.SampledFrom(l.keys).Draw(t, "words")
		path := []rune(key[strings.LastIndex(key, "/")+1:])
		for range rapid.IntRange(1, 2).Draw(t, "number of words") {
			from := rapid.IntRange(0, len(path)-1).Draw(t, "begin of the word")
			to := rapid.IntRange(from+1, len(path)).Draw(t, "end of the word")
			f.Words = append(f.Words, words.Of(string(path[from:to]))...)
		}
		if some("examined") {
			f.ExamineLimit = rapid.IntRange(1, 100).Draw(t, "examined")
		}
	}
	if some("after") {
		f.After = l.cut(t, "after")
	}
	if some("limit") {
		f.Limit = rapid.IntRange(1, 20).Draw(t, "limit")
	}
	return f
}

// cut draws a storage key or the beginning of one, sometimes in the other case.
func (l objectFixture) cut(t *rapid.T, what string) string {
	key := rapid.SampledFrom(l.keys).Draw(t, what)
	folder := strings.LastIndex(key, "/")
	n := len(key)
	switch rapid.IntRange(0, 3).Draw(t, "length of "+what) {
	case 0:
		n = folder + 1
	case 1:
		n = rapid.IntRange(0, n).Draw(t, "end of "+what)
	case 2:
		n = rapid.IntRange(folder, n).Draw(t, "end of "+what)
	}
	for n < len(key) && !utf8.RuneStart(key[n]) {
		n++
	}
	if key = key[:n]; rapid.IntRange(0, 9).Draw(t, "case of "+what) == 0 {
		key = strings.ToUpper(key)
	}
	return key
}
