package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/app/changes"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	stored "collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/test/harness"
	"collab/test/must"
)

// The model of what the core must do, without concurrency, storage or limits.

type file struct {
	id        id.Object
	kind      stored.Kind
	owner     string // of a personal file
	workspace string
	team      string
	path      string
	key       string
	version   int64
	text      string
	by        string
	changed   int64 // the number of its last change
}

type teamModel struct {
	kind    team.Kind
	creator string
	members map[string]bool
}

// audience is who receives a change, where its file does not determine that.
type audience struct {
	everyone, managers bool
	users              map[string]bool
	teams              []string // those who see one of them when they read the change
}

type event struct {
	kind stored.ChangeType
	file file
	from string // the storage key before a move; empty: it is none
	by   string
	to   *audience
	at   time.Time
}

// orgModel is one organisation.
type orgModel struct {
	name       string
	id         id.Org
	roles      map[string]org.Role   // of the present members
	teams      map[string]*teamModel // by id
	workspaces map[string]string     // the team of each workspace
	files      map[id.Object]*file
	log        []event
	floor      int64
	clients    []*client
}

// client is a program of a member that keeps a copy of the files that the member sees.
type client struct {
	user   string
	from   stored.Cursor
	copy   map[id.Object]string // storage keys and contents; nil: nothing was read yet
	resync int
}

func (c *orgModel) manages(u string) bool { return c.roles[u].MayManage() }

func (c *orgModel) seesTeam(u, t string) bool {
	of, ok := c.teams[t]
	switch {
	case !ok:
		return false
	case of.kind == team.Personal:
		return of.creator == u
	}
	return of.kind == team.Shared || of.members[u] || c.manages(u)
}

func (c *orgModel) seesWorkspace(u, w string) bool {
	t, ok := c.workspaces[w]
	return ok && c.seesTeam(u, t)
}

func (c *orgModel) sees(u string, f file) bool {
	switch {
	case f.owner != "":
		return f.owner == u
	case f.workspace != "":
		return c.seesWorkspace(u, f.workspace)
	case f.team != "":
		return c.seesTeam(u, f.team)
	}
	return true
}

func (c *orgModel) receives(u string, e event) bool {
	if e.to == nil || e.file.owner != "" {
		return c.sees(u, e.file)
	}
	return e.to.everyone || e.to.managers && c.manages(u) || e.to.users[u] || slices.ContainsFunc(e.to.teams, func(t string) bool { return c.seesTeam(u, t) })
}

// audience returns who sees the files of a team that is deleted.
func (c *orgModel) audience(t string) *audience {
	of := c.teams[t]
	return &audience{everyone: of.kind == team.Shared, managers: of.kind != team.Personal, users: maps.Clone(of.members)}
}

// audienceOfFile returns who sees the file, where that cannot be determined after its deletion.
func (c *orgModel) audienceOfFile(f file) *audience {
	if f.owner != "" || f.workspace == "" {
		return nil
	}
	return &audience{teams: []string{c.workspaces[f.workspace]}}
}

func (c *orgModel) visible(u string) []*file {
	return c.matching(func(f *file) bool { return c.sees(u, *f) })
}

// matching returns the files that match, in the order of their keys.
func (c *orgModel) matching(matches func(*file) bool) []*file {
	all := slices.DeleteFunc(slices.Collect(maps.Values(c.files)), func(f *file) bool { return !matches(f) })
	slices.SortFunc(all, func(a, b *file) int { return strings.Compare(a.key, b.key) })
	return all
}

func (c *orgModel) record(e event) { c.log = append(c.log, e) }

// same returns the form in which paths are compared.
func same(key string) string { return norm.NFC.String(strings.ToUpper(norm.NFD.String(key))) }

// at finds the file under a key, and reports whether a file and a folder would have the same key.
func (c *orgModel) at(key string) (f *file, blocked bool) {
	for _, v := range c.files {
		a, b := same(v.key), same(key)
		switch {
		case a == b:
			f = v
		case strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/"):
			blocked = true
		}
	}
	return f, blocked
}

// modelled is a deployment beside its model.

type modelled struct {
	*rapid.T
	*harness.Deployment
	feed  *changes.Feed
	orgs  []*orgModel
	users map[string]id.User
	named map[id.User]string
}

var (
	people = []string{"user_ada", "user_ben", "user_cid", "user_dee"}
	paths  = []string{"a.md", "A.MD", "b/c.md", "B", "b", "x/é.txt", "X/E\u0301.TXT", "x", "deep/er/file", "profile.json", "Org.json", "org-memory.md", "user-memory.md/x"}
	texts  = []string{"one", "two", "three", "", "\xff\x00"}
	names  = map[stored.Kind]string{stored.HubMemory: "shared/hub-memory/", stored.Template: "shared/templates/", stored.BrandAsset: "shared/brand/"}
)

func newModelled(t *rapid.T) *modelled {
	f := must.Do(harness.NewDeployment(start)).Or(t)
	m := &modelled{T: t, Deployment: f, users: map[string]id.User{}, named: map[id.User]string{}}
	bus := &memory.Bus{}
	f.Store.OnChange(bus.Publish)
	m.feed = changes.New(changes.Options{Store: f.Store, Epochs: f.Store, Bus: bus, Clock: f.Clock, Log: slog.New(slog.DiscardHandler), Reauthorizer: f.Access.Reauthorizer, Encode: frame})
	must.NoError(m, m.feed.Start(make(chan time.Time)))
	for i, name := range []string{"org_1", "org_2"} {
		c := &orgModel{name: name, roles: map[string]org.Role{}, teams: map[string]*teamModel{}, workspaces: map[string]string{}, files: map[id.Object]*file{}}
		m.orgs = append(m.orgs, c)
		for j, u := range people[:len(people)-i] { // the last is a member of the first only
			role := []org.Role{org.Owner, org.Member, org.Admin, org.Viewer}[j]
			a := must.Do(f.Join(context.Background(), name, u, role)).Or(m)
			c.id, c.roles[u], m.users[u], m.named[a.User] = a.Org, role, a.User, u
		}
		seeded := must.Do(f.Onboarding.Seed(context.Background(), m.actor(c, people[0]))).Or(m)
		c.teams[string(seeded.SharedTeam)] = &teamModel{team.Shared, people[0], map[string]bool{}}
		c.teams[string(seeded.PersonalTeam)] = &teamModel{team.Personal, people[0], map[string]bool{people[0]: true}}
		c.workspaces[string(seeded.SharedWorkspace)] = string(seeded.SharedTeam)
		c.workspaces[string(seeded.PersonalWorkspace)] = string(seeded.PersonalTeam)
		for _, u := range slices.Sorted(maps.Keys(c.roles)) {
			c.clients = append(c.clients, &client{user: u}, &client{user: u})
		}
	}
	return m
}

// frame encodes an entry for the clients of this test.
func frame(at stored.Cursor, c stored.Change) []byte {
	b, err := json.Marshal(map[string]any{
		"id": at.String(), "type": c.Type, "key": keyOf(c), "from": fromOf(c), "object": c.Object.ID, "version": c.Object.Version, "checksum": c.Object.Checksum, "by": c.By,
	})
	if err != nil {
		panic(err)
	}
	return b
}

func keyOf(c stored.Change) string {
	if c.Type == stored.AccessChanged {
		return ""
	}
	return c.Object.StorageKey()
}

func fromOf(c stored.Change) string {
	if c.FromPath == "" {
		return ""
	}
	return c.FromKey()
}

func (m *modelled) actor(c *orgModel, u string) org.Actor {
	return must.Do(m.Actor(context.Background(), c.id, m.users[u])).Or(m)
}

// wants compares an error with that of the model.
func (m *modelled) wants(about string, err error, want fault.Kind) bool {
	m.Helper()
	if want == none && err != nil || want != none && !fault.Is(err, want) {
		m.Fatalf("%s: %v, the model has %s", about, err, kinds[want])
	}
	return want == none
}

const none = fault.Kind(255)

var kinds = map[fault.Kind]string{none: "nothing", fault.Invalid: "invalid", fault.Forbidden: "forbidden", fault.NotFound: "not found", fault.Conflict: "conflict", fault.Gone: "gone"}

// first returns the first kind whose condition holds.
func first(all ...any) fault.Kind {
	for i := 0; i < len(all); i += 2 {
		if all[i].(bool) {
			return all[i+1].(fault.Kind)
		}
	}
	return none
}

func (m *modelled) pick(label string, from []string) string {
	if len(from) == 0 {
		return ""
	}
	return rapid.SampledFrom(from).Draw(m.T, label)
}

func (m *modelled) member(c *orgModel) string {
	return m.pick("member", slices.Sorted(maps.Keys(c.roles)))
}

// expected draws the expected version of a write, and reports whether it is right.
func (m *modelled) expected(version int64) (expected *int64, holds bool) {
	switch rapid.IntRange(0, 3).Draw(m.T, "expects") {
	case 0:
		return &version, true
	case 1:
		other := version + rapid.SampledFrom([]int64{-1, 1}).Draw(m.T, "off by")
		return &other, false
	}
	return nil, true
}

// wrote applies a write to the model.
func (m *modelled) wrote(c *orgModel, u string, f *file, got stored.Object, text string) {
	if f.version == 0 && strings.HasSuffix(string(f.kind), "_MEMORY") { // one before it had no greater version than is pruned
		f.version = c.floor
	}
	f.version, f.text, f.by = f.version+1, text, u
	f.id, f.changed = got.ID, int64(len(c.log)+1)
	c.files[f.id] = f
	c.record(event{kind: stored.Changed, file: *f, by: u, at: m.Clock.Now()})
	if got.StorageKey() != f.key || got.Version != f.version || got.N != f.changed || got.UpdatedBy != m.users[u] || got.Checksum != harness.Checksum(text) {
		m.Fatalf("wrote %+v, the model has %+v", got, *f)
	}
}

func (m *modelled) create(c *orgModel) {
	u := m.member(c)
	actor := m.actor(c, u)
	kind := rapid.SampledFrom(stored.Kinds).Draw(m.T, "kind")
	personal := rapid.IntRange(0, 3).Draw(m.T, "personal") == 0
	path, text := m.pick("path", paths), m.pick("text", texts)
	f := &file{kind: kind, path: norm.NFC.String(path)}
	d := stored.Draft{Path: path, Kind: kind, Scope: stored.Shared}
	workspaces, teams := slices.Sorted(maps.Keys(c.workspaces)), slices.Sorted(maps.Keys(c.teams))
	if kind == stored.WorkspaceMemory || kind == stored.Artifact && rapid.Bool().Draw(m.T, "placed") {
		f.workspace = m.pick("workspace", workspaces)
	}
	if kind == stored.TeamMemory {
		f.team = m.pick("team", teams)
	}
	if personal {
		d.Scope, f.owner, f.team = stored.Personal, u, ""
	}
	if f.workspace != "" {
		d.Workspace = (*id.Workspace)(&f.workspace)
	}
	if f.team != "" {
		d.Team = (*id.Team)(&f.team)
	}
	switch {
	case personal:
		f.key = "personal/" + string(m.users[u]) + "/"
	case kind == stored.TeamMemory:
		f.key = "teams/" + f.team + "/memory/"
	case kind == stored.WorkspaceMemory:
		f.key = "workspaces/" + f.workspace + "/memory/"
	case kind == stored.Artifact && f.workspace != "":
		f.key = "workspaces/" + f.workspace + "/artifacts/"
	case kind == stored.Artifact:
		f.key = "shared/artifacts/"
	default:
		f.key = names[kind]
	}
	f.key = string(c.id) + "/" + f.key + f.path
	lower := strings.ToLower(path)
	document := personal && (lower == "profile.json" || strings.HasPrefix(lower, "user-memory.md")) || !personal && kind == stored.HubMemory && (lower == "org.json" || lower == "org-memory.md")
	there, blocked := c.at(f.key)
	want := first(
		!c.roles[u].MayWrite(), fault.Forbidden,
		f.workspace != "" && !c.seesWorkspace(u, f.workspace), fault.Invalid,
		f.team != "" && !c.seesTeam(u, f.team), fault.Invalid,
		kind == stored.WorkspaceMemory && f.workspace == "" && !personal, fault.Invalid,
		document, fault.Conflict,
		there != nil || blocked, fault.Conflict)
	got, err := m.Objects.Create(context.Background(), actor, d, harness.Text(text))
	if m.wants(fmt.Sprintf("%s creates %s", u, f.key), err, want) {
		m.wrote(c, u, f, got, text)
	}
}

// anyFile returns the id of a file, one that is not there among them.
func (m *modelled) anyFile(c *orgModel) (id.Object, *file) {
	all := slices.Sorted(maps.Keys(c.files))
	of := rapid.SampledFrom(append(all, "nothing")).Draw(m.T, "file")
	return of, c.files[of]
}

// anyVersion returns a file as anyFile does, with the version that a request expects and whether it has that one.
func (m *modelled) anyVersion(c *orgModel) (of id.Object, f *file, expected *int64, holds bool) {
	of, f = m.anyFile(c)
	version := int64(0)
	if f != nil {
		version = f.version
	}
	expected, holds = m.expected(version)
	return of, f, expected, holds
}

func isDocument(f *file, key string) bool { return strings.HasSuffix(f.key, key) }

func (m *modelled) replace(c *orgModel) {
	u := m.member(c)
	of, f, expected, holds := m.anyVersion(c)
	text := m.pick("text", texts)
	up := harness.Text(text)
	up.Expected = expected
	got, err := m.Objects.Replace(context.Background(), m.actor(c, u), of, up)
	want := first(
		!c.roles[u].MayWrite(), fault.Forbidden,
		f == nil || !c.sees(u, *f), fault.NotFound,
		f != nil && (isDocument(f, "/hub-memory/org.json") || f.owner != "" && f.path == "profile.json"), fault.Conflict,
		!holds, fault.Conflict)
	if m.wants(fmt.Sprintf("%s replaces %+v", u, f), err, want) {
		m.wrote(c, u, f, got, text)
	}
}

func (m *modelled) save(c *orgModel) {
	u := m.member(c)
	d := rapid.SampledFrom([]stored.Document{stored.Profile, stored.UserMemory, stored.OrgOnboarding, stored.OrgMemory}).Draw(m.T, "document")
	f := &file{kind: stored.HubMemory, path: d.Path, key: string(c.id) + "/shared/hub-memory/" + d.Path}
	if d.Scope == stored.Personal {
		f.owner, f.key = u, string(c.id)+"/personal/"+string(m.users[u])+"/"+d.Path
	}
	m.put(c, u, f, func(actor org.Actor, up *objects.Upload) (stored.Object, error) {
		return m.Objects.Save(context.Background(), actor, d, up)
	}, none)
	if there, _ := c.at(f.key); there != nil {
		o, found, err := m.Objects.Find(context.Background(), m.actor(c, u), d)
		if must.NoError(m, err); !found || o.Version != there.version {
			m.Fatalf("found %+v, %v; the model has %+v", o, found, *there)
		}
	}
}

func (m *modelled) saveMemory(c *orgModel) {
	u, w := m.member(c), m.pick("workspace", slices.Sorted(maps.Keys(c.workspaces)))
	name := m.pick("name", []string{"a.md", "A.MD", "b", "notes"})
	f := &file{kind: stored.WorkspaceMemory, workspace: w, path: name, key: string(c.id) + "/workspaces/" + w + "/memory/" + name}
	m.put(c, u, f, func(actor org.Actor, up *objects.Upload) (stored.Object, error) {
		return m.Objects.SaveMemory(context.Background(), actor, id.Workspace(w), name, up)
	}, first(!c.seesWorkspace(u, w), fault.NotFound))
}

// put stores under a key whether or not something is there.
func (m *modelled) put(c *orgModel, u string, f *file, save func(org.Actor, *objects.Upload) (stored.Object, error), refused fault.Kind) {
	there, blocked := c.at(f.key)
	if there != nil {
		f = there
	}
	expected, holds := m.expected(f.version)
	text := m.pick("text", texts)
	up := harness.Text(text)
	up.Expected = expected
	got, err := save(m.actor(c, u), up)
	want := first(!c.roles[u].MayWrite(), fault.Forbidden, refused != none, refused, !holds || there == nil && blocked, fault.Conflict)
	if m.wants(fmt.Sprintf("%s saves %s", u, f.key), err, want) {
		m.wrote(c, u, f, got, text)
	}
}

func (m *modelled) remove(c *orgModel) {
	u := m.member(c)
	of, f, expected, holds := m.anyVersion(c)
	err := m.Objects.Delete(context.Background(), m.actor(c, u), of, expected)
	want := first(!c.roles[u].MayWrite(), fault.Forbidden, f == nil || !c.sees(u, *f), fault.NotFound, !holds, fault.Conflict)
	if m.wants(fmt.Sprintf("%s deletes %+v", u, f), err, want) {
		m.gone(c, u, f, c.audienceOfFile(*f))
	}
}

// place is the part of the storage key that a move does not change.
func (f *file) place() string { return strings.TrimSuffix(f.key, f.path) }

// document reports whether a document is stored at the path, or a file below one would be.
func (f *file) document(path string) bool {
	lower := strings.ToLower(path)
	for _, d := range map[bool][]string{true: {"profile.json", "user-memory.md"}, false: {"org.json", "org-memory.md"}}[f.owner != ""] {
		if (lower == d || strings.HasPrefix(lower, d+"/")) && (f.owner != "" || strings.HasSuffix(f.place(), "/hub-memory/")) {
			return true
		}
	}
	return false
}

func (m *modelled) move(c *orgModel) {
	u := m.member(c)
	of, f, expected, holds := m.anyVersion(c)
	path := m.pick("path", paths)
	got, err := m.Objects.Move(context.Background(), m.actor(c, u), of, path, expected)
	want := first(!c.roles[u].MayWrite(), fault.Forbidden, f == nil || !c.sees(u, *f), fault.NotFound, !holds, fault.Conflict)
	if want == none {
		want = c.moves(map[*file]string{f: norm.NFC.String(path)})
	}
	if m.wants(fmt.Sprintf("%s moves %+v to %s", u, f, path), err, want) {
		m.moved(c, u, f, norm.NFC.String(path))
		if got.StorageKey() != f.key || got.Version != f.version || got.N != f.changed {
			m.Fatalf("moved %+v, the model has %+v", got, *f)
		}
	}
}

// moveFolder moves the folder of a file in its place.
func (m *modelled) moveFolder(c *orgModel) {
	u := m.member(c)
	_, in := m.anyFile(c)
	if in == nil || !c.sees(u, *in) {
		return
	}
	folder := in.path[:max(0, strings.LastIndexByte(in.path, '/'))]
	if folder == "" {
		folder = "x"
	}
	from, to := m.pick("from", []string{folder, strings.ToUpper(folder)}), m.pick("to", []string{"B", "x", "deep", "deep/er", "b/deep", "E\u0301"})
	d := stored.Draft{Kind: in.kind, Scope: stored.Shared, Team: (*id.Team)(&in.team)}
	if in.owner != "" {
		d.Scope = stored.Personal
	}
	if in.team == "" {
		d.Team = nil
	}
	if in.workspace != "" {
		d.Workspace = (*id.Workspace)(&in.workspace)
	}
	to = norm.NFC.String(to)
	next := map[*file]string{}
	var order []*file
	for _, f := range c.files {
		if rest, ok := strings.CutPrefix(strings.ToLower(f.path), strings.ToLower(from)+"/"); ok && f.place() == in.place() && f.kind == in.kind {
			next[f] = to + "/" + f.path[len(f.path)-len(rest):]
			order = append(order, f)
		}
	}
	slices.SortFunc(order, func(a, b *file) int { return strings.Compare(stored.Fold(a.key), stored.Fold(b.key)) })
	moved, _, err := m.Objects.MoveFolder(context.Background(), m.actor(c, u), d, from, to)
	want := first(!c.roles[u].MayWrite(), fault.Forbidden, in.workspace != "" && !c.seesWorkspace(u, in.workspace), fault.Invalid,
		strings.HasPrefix(strings.ToLower(to), strings.ToLower(from)+"/"), fault.Invalid)
	if want == none {
		want = c.moves(next)
	}
	if m.wants(fmt.Sprintf("%s moves the folder %s of %s to %s", u, from, in.place(), to), err, want) {
		for _, f := range order {
			if m.moved(c, u, f, next[f]) {
				moved--
			}
		}
		if moved != 0 {
			m.Fatalf("%d files more were moved than the model has", moved)
		}
	}
}

// moves returns what a move of files to paths ends with.
func (c *orgModel) moves(to map[*file]string) fault.Kind {
	rest := maps.Clone(c.files)
	defer func(all map[id.Object]*file) { c.files = all }(c.files)
	c.files = rest
	for f := range to {
		delete(rest, f.id)
	}
	for f, path := range to {
		there, blocked := c.at(f.place() + path)
		if f.document(f.path) || path != f.path && f.document(path) || there != nil || blocked {
			return fault.Conflict
		}
	}
	return none
}

// moved applies a move to the model, and reports whether it is one.
func (m *modelled) moved(c *orgModel, u string, f *file, path string) bool {
	if path == f.path {
		return false
	}
	from := f.key
	f.key, f.path = f.place()+path, path
	f.version, f.by, f.changed = f.version+1, u, int64(len(c.log)+1)
	c.record(event{kind: stored.Changed, file: *f, from: from, by: u, at: m.Clock.Now()})
	return true
}

func (m *modelled) gone(c *orgModel, u string, f *file, to *audience) {
	delete(c.files, f.id)
	c.record(event{kind: stored.Deleted, file: *f, by: u, to: to, at: m.Clock.Now()})
}

// swept removes the files that match, as when the place that they are in goes.
func (m *modelled) swept(c *orgModel, u string, to *audience, matches func(*file) bool) {
	for _, f := range c.matching(matches) {
		m.gone(c, u, f, to)
	}
}

func (m *modelled) makeTeam(c *orgModel) {
	u := m.member(c)
	made, err := m.Teams.Create(context.Background(), m.actor(c, u), team.Draft{Name: "Team"})
	if m.wants(u+" makes a team", err, first(!c.roles[u].MayWrite(), fault.Forbidden)) {
		c.teams[string(made.ID)] = &teamModel{team.Standard, u, map[string]bool{u: true}}
	}
}

func (m *modelled) regroup(c *orgModel, by string, to *audience) {
	c.record(event{kind: stored.AccessChanged, by: by, to: to, at: m.Clock.Now()})
}

func (m *modelled) changeTeam(c *orgModel) {
	u, t, whom := m.member(c), m.pick("team", slices.Sorted(maps.Keys(c.teams))), m.member(c)
	of := c.teams[t]
	refused := first(!c.roles[u].MayWrite(), fault.Forbidden, !c.seesTeam(u, t), fault.NotFound)
	alone := &audience{users: map[string]bool{whom: true}}
	switch rapid.SampledFrom([]string{"in", "in", "out", "delete"}).Draw(m.T, "change") {
	case "in":
		_, err := m.Teams.AddMember(context.Background(), m.actor(c, u), id.Team(t), m.users[whom])
		in := of.kind == team.Shared || of.members[whom]
		if m.wants(u+" puts "+whom+" into "+t, err, first(refused != none, refused, !in && of.kind != team.Standard, fault.Conflict)) && !in {
			of.members[whom] = true
			m.regroup(c, u, alone)
		}
	case "out":
		err := m.Teams.RemoveMember(context.Background(), m.actor(c, u), id.Team(t), m.users[whom])
		if m.wants(u+" takes "+whom+" out of "+t, err, first(refused != none, refused, of.kind != team.Standard, fault.Conflict, !of.members[whom], fault.NotFound)) {
			delete(of.members, whom)
			m.regroup(c, u, alone)
		}
	case "delete":
		used := slices.Contains(slices.Collect(maps.Values(c.workspaces)), t)
		err := m.Teams.Delete(context.Background(), m.actor(c, u), id.Team(t))
		want := first(refused != none, refused, of.kind != team.Standard, fault.Conflict, of.creator != u && !c.manages(u), fault.Forbidden, used, fault.Conflict)
		if m.wants(u+" deletes the team "+t, err, want) {
			m.swept(c, u, c.audience(t), func(f *file) bool { return f.team == t })
			m.regroup(c, u, c.audience(t))
			delete(c.teams, t)
		}
	}
}

func (m *modelled) changeWorkspace(c *orgModel) {
	u, w, t := m.member(c), m.pick("workspace", slices.Sorted(maps.Keys(c.workspaces))), m.pick("team", slices.Sorted(maps.Keys(c.teams)))
	change := rapid.SampledFrom([]string{"make", "move", "move", "delete"}).Draw(m.T, "change")
	if w == "" {
		change = "make"
	}
	writes := c.roles[u].MayWrite()
	switch change {
	case "make":
		made, err := m.Workspaces.Create(context.Background(), m.actor(c, u), workspace.Draft{Name: "Space", Team: id.Team(t)})
		if m.wants(u+" makes a workspace", err, first(!writes, fault.Forbidden, !c.seesTeam(u, t), fault.Invalid)) {
			c.workspaces[string(made.ID)] = t
		}
	case "move":
		_, err := m.Workspaces.Move(context.Background(), m.actor(c, u), id.Workspace(w), id.Team(t))
		if m.wants(u+" moves "+w+" to "+t, err, first(!writes, fault.Forbidden, !c.seesWorkspace(u, w), fault.NotFound, !c.seesTeam(u, t), fault.Invalid)) && c.workspaces[w] != t {
			m.regroup(c, u, &audience{teams: []string{c.workspaces[w], t}})
			c.workspaces[w] = t
		}
	case "delete":
		err := m.Workspaces.Delete(context.Background(), m.actor(c, u), id.Workspace(w))
		if m.wants(u+" deletes the workspace "+w, err, first(!writes, fault.Forbidden, !c.seesWorkspace(u, w), fault.NotFound)) {
			m.swept(c, u, &audience{teams: []string{c.workspaces[w]}}, func(f *file) bool { return f.workspace == w && f.owner == "" })
			delete(c.workspaces, w)
		}
	}
}

// changeMember is done by the first of the people, who stays the owner.
func (m *modelled) changeMember(c *orgModel) {
	all := people[1:]
	if c.name == "org_2" {
		all = people[1:3]
	}
	u := m.pick("whom", all)
	alone := &audience{users: map[string]bool{u: true}}
	was, in := c.roles[u]
	if !in {
		role := rapid.SampledFrom([]org.Role{org.Admin, org.Member, org.Viewer}).Draw(m.T, "role")
		must.Do(m.Join(context.Background(), c.name, u, role)).Or(m)
		c.roles[u] = role
		m.regroup(c, "", alone)
		return
	}
	if rapid.Bool().Draw(m.T, "goes") {
		must.NoError(m, m.Members.Remove(context.Background(), m.actor(c, people[0]), m.users[u]))
		delete(c.roles, u)
		for _, t := range c.teams {
			delete(t.members, u)
		}
		return
	}
	role := rapid.SampledFrom([]org.Role{org.Owner, org.Admin, org.Member, org.Viewer}).Draw(m.T, "role")
	must.Do(m.Members.ChangeRole(context.Background(), m.actor(c, people[0]), m.users[u], string(role))).Or(m)
	c.roles[u] = role
	if was.MayManage() != role.MayManage() {
		m.regroup(c, people[0], alone)
	}
}

// timePasses has the regular work done some days later.
func (m *modelled) timePasses() {
	m.Clock.Advance(time.Duration(rapid.IntRange(1, 5).Draw(m.T, "days")) * 24 * time.Hour)
	before := m.Clock.Now().Add(-harness.Retention)
	must.NoError(m, m.Upkeep.Run(context.Background()))
	for _, c := range m.orgs {
		for i, e := range c.log {
			if e.at.Before(before) {
				c.floor = int64(i + 1)
			}
		}
	}
}

// list compares what a member is shown under a filter.
func (m *modelled) list(c *orgModel) {
	u := m.member(c)
	var f stored.Filter
	if rapid.Bool().Draw(m.T, "by kind") {
		f.Kind = rapid.SampledFrom(stored.Kinds).Draw(m.T, "kind")
	}
	if rapid.Bool().Draw(m.T, "by scope") {
		f.Scope = rapid.SampledFrom(stored.Scopes).Draw(m.T, "scope")
	}
	switch rapid.IntRange(0, 3).Draw(m.T, "by workspace") {
	case 0:
		f.Workspace = id.Workspace(m.pick("workspace", slices.Sorted(maps.Keys(c.workspaces))))
	case 1:
		f.WithoutWorkspace = true
	}
	if rapid.Bool().Draw(m.T, "by prefix") {
		f.Prefix = string(c.id) + "/" + m.pick("prefix", []string{"", "shared/", "shared/b", "personal/", "workspaces/", "teams/", "Shared/"})
	}
	if rapid.Bool().Draw(m.T, "in pages") {
		f.Limit = rapid.IntRange(1, 4).Draw(m.T, "page")
	}
	var want []string
	for _, v := range c.visible(u) {
		if (f.Kind == "" || v.kind == f.Kind) && (f.Scope == "" || (v.owner != "") == (f.Scope == stored.Personal)) &&
			(f.Workspace == "" || v.workspace == string(f.Workspace)) && (!f.WithoutWorkspace || v.workspace == "") && strings.HasPrefix(v.key, f.Prefix) {
			want = append(want, fmt.Sprint(v.key, v.version))
		}
	}
	var got []string
	for {
		n := 0
		must.NoError(m, m.Objects.List(context.Background(), m.actor(c, u), f, nil, func(o stored.Object) error {
			n++
			got, f.After = append(got, fmt.Sprint(o.StorageKey(), o.Version)), o.StorageKey()
			return nil
		}))
		if f.Limit == 0 || n < f.Limit {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.Fatalf("%s is shown under %+v:\n%s", u, f, diff)
	}
}

// read compares a file and its content.
func (m *modelled) read(c *orgModel) {
	u := m.member(c)
	of, f := m.anyFile(c)
	got, err := m.Objects.Get(context.Background(), m.actor(c, u), of)
	if !m.wants(fmt.Sprintf("%s reads %+v", u, f), err, first(f == nil || !c.sees(u, *f), fault.NotFound)) {
		return
	}
	r := must.Do(m.Objects.Open(context.Background(), got, 0, -1)).Or(m)
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil || string(content) != f.text || got.Version != f.version || got.Text != (f.text != texts[4]) {
		m.Fatalf("%s reads %q, %v, %+v; the model has %+v", u, content, err, got, *f)
	}
}

// manifest is what a member is shown, as a client keeps it.
func (c *orgModel) manifest(u string) map[id.Object]string {
	all := map[id.Object]string{}
	for _, f := range c.visible(u) {
		all[f.id] = kept(f.key, f.version, harness.Checksum(f.text))
	}
	return all
}

// kept is what a client keeps of a file.
func kept(key string, version int64, checksum string) string {
	return fmt.Sprintf("%s, version %d, %s", key, version, checksum)
}

// takeAll has a client read the whole manifest.
func (m *modelled) takeAll(c *orgModel, k *client) {
	k.copy = map[id.Object]string{}
	k.resync++
	must.NoError(m, m.Objects.List(context.Background(), m.actor(c, k.user), stored.Filter{}, func(h stored.Head) error {
		k.from = h.Cursor()
		return nil
	}, func(o stored.Object) error {
		k.copy[o.ID] = kept(o.StorageKey(), o.Version, o.Checksum)
		return nil
	}))
}

// since has a client read what has changed, and the whole where that is not
// in the log any more.
func (m *modelled) since(c *orgModel, k *client) {
	next := k.from
	fresh := maps.Clone(k.copy)
	err := m.Objects.Since(context.Background(), m.actor(c, k.user), k.from, func(h stored.Head) error {
		next = h.Cursor()
		return nil
	}, func(e stored.Change) error {
		if e.Type == stored.Deleted {
			delete(fresh, e.Object.ID)
		} else {
			fresh[e.Object.ID] = kept(e.Object.StorageKey(), e.Object.Version, e.Object.Checksum)
		}
		return nil
	})
	resighted := slices.ContainsFunc(c.log[min(k.from.N, int64(len(c.log))):], func(e event) bool { return e.kind == stored.AccessChanged && c.receives(k.user, e) })
	if !m.wants(k.user+" asks for what has changed", err, first(k.from.N < c.floor || resighted, fault.Gone)) {
		m.takeAll(c, k)
		return
	}
	k.copy, k.from = fresh, next
}

// read is a frame as a client reads it.
type read struct {
	ID, Type, Key, From, Checksum, By string
	Version                           int64
	Object                            id.Object
}

// follow returns what the feed tells a member from a place on until there is no
// more, and the place that this leads to.
func (m *modelled) follow(c *orgModel, u string, from stored.Cursor) (all []read, at stored.Cursor, lost bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	sub := must.Do(m.feed.Subscribe(ctx, m.actor(c, u), from.String(), true)).Or(m)
	defer sub.Close()
	_, lost = sub.Start()
	for {
		frames := sub.Take(make([][]byte, 0, 4096))
		for _, f := range frames {
			var r read
			must.NoError(m, json.Unmarshal(f, &r))
			all = append(all, r)
		}
		if at, _ = sub.TakeCursor(); at.N == int64(len(c.log)) && (len(frames) > 0 || !lost) {
			return all, at, lost
		}
		if len(frames) > 0 {
			continue
		}
		select {
		case <-sub.Woken():
		case <-ctx.Done():
			m.Fatalf("%s at %s of %d hears nothing more", u, at, len(c.log))
		}
	}
}

// feeds compares what the feed tells from any place on with the log.
func (m *modelled) feeds(c *orgModel) {
	u := m.member(c)
	head := must.Do(m.Objects.Head(context.Background(), m.actor(c, u).Org)).Or(m)
	if head.N != int64(len(c.log)) || head.Floor != c.floor {
		m.Fatalf("the log's head is %+v, the model has %d above %d", head, len(c.log), c.floor)
	}
	from := stored.Cursor{Epoch: head.Epoch, N: int64(rapid.IntRange(0, len(c.log)+1).Draw(m.T, "from"))}
	all, _, lost := m.follow(c, u, from)
	if gone := from.N < c.floor || from.N > head.N; gone != lost {
		m.Fatalf("from %s, of %+v: lost %v", from, head, lost)
	}
	if lost {
		if len(all) != 1 || all[0].Type != string(stored.AccessChanged) || all[0].ID != head.Cursor().String() {
			m.Fatalf("from %s: %+v", from, all)
		}
		return
	}
	var want, got []read
	resync := ""
	for i, e := range c.log[from.N:] {
		at := stored.Cursor{Epoch: head.Epoch, N: from.N + int64(i) + 1}.String()
		switch {
		case !c.receives(u, e):
		case e.kind == stored.AccessChanged:
			if resync == "" {
				resync = at
			}
		default:
			by := ""
			if e.by != "" {
				by = string(m.users[e.by])
			}
			want = append(want, read{at, string(e.kind), e.file.key, e.from, harness.Checksum(e.file.text), by, e.file.version, e.file.id})
		}
	}
	resynced := ""
	for _, r := range all {
		if r.Type != string(stored.AccessChanged) {
			got = append(got, r)
		} else if resynced == "" {
			resynced = r.ID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || resynced != resync {
		m.Fatalf("%s receives from %s on, with a resync at %q, the model has %q:\n%s", u, from, resynced, resync, diff)
	}
}

// catchUp has a client do what clients do, after which it has what its member is
// shown.
func (m *modelled) catchUp(c *orgModel, k *client) {
	if _, in := c.roles[k.user]; !in {
		if _, err := m.Actor(context.Background(), c.id, m.users[k.user]); !fault.Is(err, fault.Forbidden) {
			m.Fatalf("%s is out, and acts: %v", k.user, err)
		}
		return
	}
	switch {
	case k.copy == nil:
		m.takeAll(c, k)
	case rapid.Bool().Draw(m.T, "by the manifest"):
		m.since(c, k)
	default:
		all, at, lost := m.follow(c, k.user, k.from)
		last := k.from
		for _, r := range all {
			is, ok := stored.ParseCursor(r.ID)
			if !ok || is.N <= last.N && !lost {
				m.Fatalf("%s comes after %s", r.ID, last)
			}
			last = is
			switch {
			case r.Type == string(stored.AccessChanged):
				m.takeAll(c, k)
			case is.N <= k.from.N: // the manifest had it
			case r.Type == string(stored.Changed):
				k.copy[r.Object] = kept(r.Key, r.Version, r.Checksum)
			case r.Type == string(stored.Deleted):
				delete(k.copy, r.Object)
			}
		}
		k.from = at
	}
	if diff := cmp.Diff(c.manifest(k.user), k.copy); diff != "" {
		m.Fatalf("%s's client has another copy:\n%s", k.user, diff)
	}
}

func TestFilesMatchTheModel(t *testing.T) {
	resyncs := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newModelled(t)
		defer func() { must.NoError(m, m.feed.Close(context.Background())) }()
		steps := map[string]func(*orgModel){
			"create": m.create, "create again": m.create, "replace": m.replace, "save": m.save, "save memory": m.saveMemory, "delete": m.remove, "move": m.move, "move a folder": m.moveFolder,
			"make a team": m.makeTeam, "change a team": m.changeTeam, "change a workspace": m.changeWorkspace, "change a member": m.changeMember,
			"list": m.list, "read": m.read, "follow": m.feeds,
			"time":     func(*orgModel) { m.timePasses() },
			"catch up": func(c *orgModel) { m.catchUp(c, c.clients[rapid.IntRange(0, len(c.clients)-1).Draw(t, "client")]) },
		}
		names := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")](m.orgs[rapid.IntRange(0, 1).Draw(t, "company")])
			m.Clock.Advance(time.Millisecond)
		}
		for _, c := range m.orgs {
			for _, k := range c.clients {
				m.catchUp(c, k)
				resyncs += k.resync
			}
		}
		// The store ends with what the files hold.
		m.Clock.Advance(stored.BlobGracePeriod + time.Millisecond)
		must.NoError(m, m.Upkeep.Run(context.Background()))
		count := 0
		for _, c := range m.orgs {
			count += len(c.files)
		}
		if kept := must.Do(m.BlobNames(context.Background())).Or(m); len(kept) != count {
			m.Fatalf("%d blobs of %d files", len(kept), count)
		}
	})
	if resyncs == 0 {
		t.Error("no client ever took the whole again")
	}
}
