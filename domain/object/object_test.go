package object_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/words"
	"collab/test/must"

	"pgregory.net/rapid"
)

const (
	office = id.Org("0198a1b2-0000-7000-8000-000000000001")
	ada    = id.User("0198a1b2-0000-7000-8000-00000000000a")
	ben    = id.User("0198a1b2-0000-7000-8000-00000000000b")
	crew   = id.Team("0198a1b2-0000-7000-8000-0000000000c1")
	others = id.Team("0198a1b2-0000-7000-8000-0000000000c2")
	desk   = id.Workspace("0198a1b2-0000-7000-8000-0000000000d1")
	attic  = id.Workspace("0198a1b2-0000-7000-8000-0000000000d2")
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// member is who sees the team crew with the workspace desk, and no others.
func member(u id.User, role org.Role) org.Actor {
	return org.Actor{User: u, Org: office, Role: role, Visibility: org.NewStructure([]id.Team{crew}, maps.All(map[id.Workspace]id.Team{desk: crew})).
		Visibility(0, func(int) (visible, belongs bool) { return true, true })}
}

func ref[T any](v T) *T { return &v }

// made returns a new object of Ada's.
func made(t testing.TB, d object.Draft) object.Object {
	t.Helper()
	return must.Do(object.New("o", member(ada, org.Member), d)).Or(t)
}

func TestStorageKeysOfKinds(t *testing.T) {
	inDesk, inCrew := ref(desk), ref(crew)
	for _, c := range []struct {
		kind      object.Kind
		scope     object.Scope
		workspace *id.Workspace
		team      *id.Team
		folder    string // after the organisation
		problem   string
	}{
		{object.Artifact, object.Shared, nil, nil, "shared/artifacts/", ""},
		{object.Artifact, object.Shared, inDesk, nil, "workspaces/" + string(desk) + "/artifacts/", ""},
		{object.Artifact, object.Shared, nil, inCrew, "", "teamId does not go with the kind ARTIFACT"},
		{object.HubMemory, object.Shared, nil, nil, "shared/hub-memory/", ""},
		{object.HubMemory, object.Shared, inDesk, nil, "", "workspaceId does not go with the kind HUB_MEMORY"},
		{object.HubMemory, object.Shared, nil, inCrew, "", "teamId does not go with the kind HUB_MEMORY"},
		{object.Template, object.Shared, nil, nil, "shared/templates/", ""},
		{object.Template, object.Shared, inDesk, nil, "", "workspaceId does not go with the kind TEMPLATE"},
		{object.BrandAsset, object.Shared, nil, nil, "shared/brand/", ""},
		{object.BrandAsset, object.Shared, inDesk, nil, "", "workspaceId does not go with the kind BRAND_ASSET"},
		{object.TeamMemory, object.Shared, nil, inCrew, "teams/" + string(crew) + "/memory/", ""},
		{object.TeamMemory, object.Shared, nil, nil, "", "teamId is required for the kind TEAM_MEMORY"},
		{object.TeamMemory, object.Shared, inDesk, inCrew, "", "workspaceId does not go with the kind TEAM_MEMORY"},
		{object.WorkspaceMemory, object.Shared, inDesk, nil, "workspaces/" + string(desk) + "/memory/", ""},
		{object.WorkspaceMemory, object.Shared, nil, nil, "", "workspaceId is required for the kind WORKSPACE_MEMORY"},
		{object.WorkspaceMemory, object.Shared, inDesk, inCrew, "", "teamId does not go with the kind WORKSPACE_MEMORY"},
		{object.Artifact, object.Personal, nil, nil, "personal/" + string(ada) + "/", ""},
		{object.WorkspaceMemory, object.Personal, inDesk, nil, "personal/" + string(ada) + "/", ""},
		{object.TeamMemory, object.Personal, nil, nil, "personal/" + string(ada) + "/", ""},
		{object.TeamMemory, object.Personal, nil, inCrew, "", "teamId does not go with the scope PERSONAL"},
		{object.Artifact, object.Shared, ref(attic), nil, "", "workspaceId must be a workspace that you can see"},
		{object.Artifact, object.Personal, ref(attic), nil, "", "workspaceId must be a workspace that you can see"},
		{object.TeamMemory, object.Shared, nil, ref(others), "", "teamId must be a team that you can see"},
	} {
		t.Run(fmt.Sprintf("%s %s, in a workspace: %v, in a team: %v, %s", c.scope, c.kind, c.workspace != nil, c.team != nil, c.problem), func(t *testing.T) {
			o, err := object.New("o", member(ada, org.Viewer), object.Draft{Path: "a/B.md", Kind: c.kind, Scope: c.scope, Workspace: c.workspace, Team: c.team})
			if c.problem != "" {
				if !fault.Is(err, fault.Invalid) || err.Error() != c.problem {
					t.Fatalf("got %v, want %s", err, c.problem)
				}
				return
			}
			if err != nil || o.StorageKey() != string(office)+"/"+c.folder+"a/B.md" {
				t.Fatalf("got %s, %v", o.StorageKey(), err)
			}
			if (o.Owner != nil) != (c.scope == object.Personal) || o.Owner != nil && *o.Owner != ada {
				t.Errorf("the owner is %v", o.Owner)
			}
			if o.Version != 0 || o.MimeType != "text/markdown" || o.Org != office || o.ID != "o" {
				t.Errorf("got %+v", o)
			}
		})
	}
}

func TestKindsAndScopesAreNamedExactly(t *testing.T) {
	for _, k := range object.Kinds {
		if got, ok := object.ParseKind(string(k)); !ok || got != k {
			t.Errorf("%s is no kind", k)
		}
	}
	for _, s := range object.Scopes {
		if got, ok := object.ParseScope(string(s)); !ok || got != s {
			t.Errorf("%s is no scope", s)
		}
	}
	for _, s := range []string{"", "artifact", "ARTIFACT ", "SHARED", "FILE"} {
		if _, ok := object.ParseKind(s); ok {
			t.Errorf("%q is a kind", s)
		}
	}
	for _, s := range []string{"", "shared", " PERSONAL", "PRIVATE", "ARTIFACT"} {
		if _, ok := object.ParseScope(s); ok {
			t.Errorf("%q is a scope", s)
		}
	}
}

func TestPathsOfDocumentsAreReserved(t *testing.T) {
	for _, c := range []struct {
		path  string
		scope object.Scope
		kind  object.Kind
		taken bool
	}{
		{"profile.json", object.Personal, object.Artifact, true},
		{"Profile.JSON", object.Personal, object.HubMemory, true},
		{"USER-MEMORY.md", object.Personal, object.Template, true},
		{"profile.json/x", object.Personal, object.Artifact, true},
		{"Org.json", object.Shared, object.HubMemory, true},
		{"org-memory.md", object.Shared, object.HubMemory, true},
		{"ORG.JSON/a/b", object.Shared, object.HubMemory, true},
		{"or\u0261.json", object.Shared, object.HubMemory, false},
		{"profile.json", object.Shared, object.HubMemory, false},
		{"org.json", object.Personal, object.HubMemory, false},
		{"org.json", object.Shared, object.Artifact, false},
		{"org.json", object.Shared, object.Template, false},
		{"docs/org.json", object.Shared, object.HubMemory, false},
		{"org.json.md", object.Shared, object.HubMemory, false},
		{"profile.jsonx/y", object.Personal, object.Artifact, false},
	} {
		_, err := object.New("o", member(ada, org.Member), object.Draft{Path: c.path, Kind: c.kind, Scope: c.scope})
		if c.taken && !fault.Is(err, fault.Conflict) || !c.taken && err != nil {
			t.Errorf("%s %s %s: %v", c.scope, c.kind, c.path, err)
		}
	}
}

func TestDocumentsAndMemoryFiles(t *testing.T) {
	actor := member(ada, org.Member)
	for d, key := range map[object.Document]string{
		object.Profile:       "personal/" + string(ada) + "/profile.json",
		object.UserMemory:    "personal/" + string(ada) + "/user-memory.md",
		object.OrgOnboarding: "shared/hub-memory/org.json",
		object.OrgMemory:     "shared/hub-memory/org-memory.md",
	} {
		o, isJSON := d.Object("o", actor), strings.HasSuffix(key, ".json")
		if o.StorageKey() != string(office)+"/"+key || o.Kind != object.HubMemory || o.Version != 0 || o.MimeType != map[bool]string{true: "application/json", false: "text/markdown"}[isJSON] {
			t.Errorf("%s is %+v", key, o)
		}
		if err := o.CheckReplace(); (err != nil) != isJSON || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("replacing %s: %v", key, err)
		}
		if o.VisibleTo(member(ben, org.Owner)) != (d.Scope == object.Shared) {
			t.Errorf("who sees %s", key)
		}
	}
	if err := made(t, object.Draft{Path: "org.json", Kind: object.Artifact, Scope: object.Shared}).CheckReplace(); err != nil {
		t.Errorf("a file with a document's name: %v", err)
	}
	file := made(t, object.Draft{Path: "Notes.md", Kind: object.WorkspaceMemory, Scope: object.Shared, Workspace: ref(desk)})
	memory, err := object.Memory("o", actor, desk, "Notes.md")
	if err != nil || memory.StorageKey() != file.StorageKey() || memory.MimeType != file.MimeType || memory.Kind != file.Kind || memory.Scope != file.Scope {
		t.Errorf("the memory file is %+v, %v; the object %+v", memory, err, file)
	}
	for name, want := range map[string]fault.Kind{"a/b": fault.Invalid, "..": fault.Invalid, "": fault.Invalid, "a:b": fault.Invalid} {
		if _, err := object.Memory("o", actor, desk, name); !fault.Is(err, want) || !strings.HasPrefix(err.Error(), "fileName ") {
			t.Errorf("%q: %v", name, err)
		}
	}
	must.Fail(t, must.ErrorOf(object.Memory("o", actor, attic, "a")), fault.NotFound) // a workspace out of visibility
}

func TestMediaTypes(t *testing.T) {
	for _, c := range []struct{ path, given, want, problem string }{
		{"a.md", "", "text/markdown", ""},
		{"a.PNG", "", "image/png", ""},
		{"a.tar.gz", "", "application/gzip", ""},
		{".json", "", "application/json", ""},
		{"a", "", object.OctetStream, ""},
		{"md", "", object.OctetStream, ""},
		{"a.md/b", "", object.OctetStream, ""},
		{"a.exe", "", object.OctetStream, ""},
		{"a.md", "text/plain; charset=utf-8", "text/plain; charset=utf-8", ""},
		{"a.md", "application/vnd.x+json", "application/vnd.x+json", ""},
		{"a.md", "text/" + strings.Repeat("a", 250), "text/" + strings.Repeat("a", 250), ""},
		{"a.md", "text/" + strings.Repeat("a", 251), "", "mimeType"},
		{"a.md", "text", "", "mimeType"},
		{"a.md", "/", "", "mimeType"},
		{"a.md", "text/", "", "mimeType"},
		{"a.md", "text/plain; charset", "", "mimeType"},
		{"a.md", "text/plain; a=1; a=2", "", "mimeType"},
		{"a.md", "text/plain\r\nX-Injected: 1", "", "mimeType"},
		{"a.md", "text/plain; a=\"é\"", "", "mimeType"},
		{"a.md", "tëxt/plain", "", "mimeType"},
		{"a.md", " ", "", "mimeType"},
	} {
		o, err := object.New("o", member(ada, org.Member), object.Draft{Path: c.path, Kind: object.Artifact, Scope: object.Shared, MimeType: c.given})
		if c.problem != "" {
			if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), c.problem+" ") {
				t.Errorf("%s %q: %v", c.path, c.given, err)
			}
			continue
		}
		if err != nil || o.MimeType != c.want {
			t.Errorf("%s %q is %q, %v", c.path, c.given, o.MimeType, err)
		}
		again, err := o.WithMimeType("")
		if err != nil || again.MimeType != c.want {
			t.Errorf("left alone it is %q, %v", again.MimeType, err)
		}
		other, err := o.WithMimeType("image/png")
		if err != nil || other.MimeType != "image/png" {
			t.Errorf("changed it is %q, %v", other.MimeType, err)
		}
		must.Fail(t, must.ErrorOf(o.WithMimeType("nonsense")), fault.Invalid) // nonsense
	}
}

func TestContentMakesVersions(t *testing.T) {
	o := made(t, object.Draft{Path: "a", Kind: object.Artifact, Scope: object.Shared})
	first := o.WithContent(object.Content{Blob: "b1", Size: 1, Checksum: "c1", Text: true}, ada, noon)
	second := first.WithContent(object.Content{Blob: "b2", Size: 2, Checksum: "c2"}, ben, noon.Add(time.Hour))
	if first.Version != 1 || first.CreatedBy != ada || !first.CreatedAt.Equal(noon) || first.UpdatedBy != ada || !first.UpdatedAt.Equal(noon) {
		t.Errorf("the first is %+v", first)
	}
	if second.Version != 2 || second.CreatedBy != ada || !second.CreatedAt.Equal(noon) || second.UpdatedBy != ben || !second.UpdatedAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("the second is %+v", second)
	}
	if second.Content != (object.Content{Blob: "b2", Size: 2, Checksum: "c2"}) || first.Blob != "b1" || o.Version != 0 {
		t.Errorf("the contents are %+v, %+v, %+v", o.Content, first.Content, second.Content)
	}
}

func TestWritesThatExpectAVersion(t *testing.T) {
	o := made(t, object.Draft{Path: "a", Kind: object.Artifact, Scope: object.Shared})
	stored := o.WithContent(object.Content{}, ada, noon).WithContent(object.Content{}, ada, noon)
	for _, c := range []struct {
		about   string
		of      object.Object
		version *int64
		message string
	}{
		{"nothing is expected of nothing", o, nil, ""},
		{"nothing is expected of a version", stored, nil, ""},
		{"nothing is stored, as expected", o, ref[int64](0), ""},
		{"the version is the expected one", stored, ref[int64](2), ""},
		{"something is stored already", stored, ref[int64](0), "Version conflict: version 0 was expected, and version 2 is stored"},
		{"an older version was expected", stored, ref[int64](1), "Version conflict: version 1 was expected, and version 2 is stored"},
		{"a later version was expected", stored, ref[int64](3), "Version conflict: version 3 was expected, and version 2 is stored"},
		{"a negative version was expected", stored, ref[int64](-3), "Version conflict: version -3 was expected, and version 2 is stored"},
		{"a version that is not certain was expected", stored, ref(object.WeakVersion), "Version conflict: a weak entity tag names no version for certain, and version 2 is stored"},
		{"a version that is not certain was expected of nothing", o, ref(object.WeakVersion), "Version conflict: a weak entity tag names no version for certain, and nothing is stored"},
		{"any stored version was expected", stored, ref(object.AnyVersion), ""},
		{"any stored version was expected of nothing", o, ref(object.AnyVersion), "Version conflict: any version was expected, and nothing is stored"},
		{"a version was expected of nothing", o, ref[int64](1), "Version conflict: version 1 was expected, and nothing is stored"},
	} {
		t.Run(c.about, func(t *testing.T) {
			err := c.of.CheckVersion(c.version)
			if c.message == "" && err != nil || c.message != "" && (!fault.Is(err, fault.Conflict) || err.Error() != c.message) {
				t.Errorf("got %v, want %q", err, c.message)
			}
		})
	}
}

func TestBlobsNamesAreShortEnoughForEveryStoreAndNeverTheSame(t *testing.T) {
	hashed, plain := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draft := rapid.Custom(func(t *rapid.T) object.Draft {
			segments := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return strings.Repeat(rapid.SampledFrom([]string{"a", "é", "@", "文"}).Draw(t, "letter"), rapid.IntRange(1, 255).Draw(t, "letters"))
			}), 1, 6).Draw(t, "segments")
			p := strings.Join(segments, "/")
			if _, err := object.ParsePath("path", p); err != nil {
				p = rapid.SampledFrom([]string{"a", "b", "a/b", strings.Repeat("x", 255), strings.Repeat("x", 254), strings.Repeat(strings.Repeat("y", 203)+"/", 5) + "zzzz"}).Draw(t, "path")
			}
			return rapid.SampledFrom([]object.Draft{
				{Path: p, Kind: object.Artifact, Scope: object.Shared},
				{Path: p, Kind: object.Artifact, Scope: object.Shared, Workspace: ref(desk)},
				{Path: p, Kind: object.TeamMemory, Scope: object.Shared, Team: ref(crew)},
				{Path: p, Kind: object.Artifact, Scope: object.Personal},
			}).Draw(t, "draft")
		})
		seen := map[string]string{}
		for i := range 4 {
			o := must.Do(object.New("o", member(ada, org.Member), draft.Draw(t, "draft"))).Or(t)
			o.Version = rapid.Int64Range(0, 1<<62).Draw(t, "version")
			name := o.BlobName(fmt.Sprintf("random-of-22-bytes-%03d", i%2))
			of := fmt.Sprint(o.StorageKey(), o.Version, i%2)
			if before, ok := seen[name]; ok && before != of {
				t.Fatalf("%s is of %s and of %s", name, before, of)
			}
			seen[name] = of
			if len(name) > object.MaxPath || !strings.HasPrefix(name, string(office)+"/") {
				t.Fatalf("%d bytes: %s", len(name), name)
			}
			for segment := range strings.SplitSeq(name, "/") {
				if len(segment) > object.MaxSegment || segment == "" {
					t.Fatalf("a segment of %d bytes: %s", len(segment), name)
				}
			}
			if strings.HasPrefix(name, o.StorageKey()+"@") {
				plain++
			} else {
				hashed++
			}
		}
	})
	if hashed == 0 || plain == 0 {
		t.Errorf("%d names with the path, %d with its hash", plain, hashed)
	}
}

func TestVisibilityOfObjects(t *testing.T) {
	for _, c := range []struct {
		about string
		place object.Place
		actor org.Actor
		want  bool
	}{
		{"anybody sees what is for the organisation", object.Place{Kind: object.Template, Scope: object.Shared}, org.Actor{User: ben}, true},
		{"who sees the workspace sees its files", object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: ref(desk)}, member(ben, org.Viewer), true},
		{"an owner who does not see the workspace sees none", object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: ref(attic)}, member(ben, org.Owner), false},
		{"who sees the team sees its memory", object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: ref(crew)}, member(ben, org.Viewer), true},
		{"an owner who does not see the team sees none", object.Place{Kind: object.TeamMemory, Scope: object.Shared, Team: ref(others)}, member(ben, org.Owner), false},
		{"who has no visibility sees no workspace's files", object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: ref(desk)}, org.Actor{User: ben, Role: org.Owner}, false},
		{"one sees what is one's own", object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: ref(ada)}, member(ada, org.Viewer), true},
		{"one sees one's own without the workspace that it notes", object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: ref(ada), Workspace: ref(attic)}, member(ada, org.Member), true},
		{"an owner does not see another's", object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: ref(ada)}, member(ben, org.Owner), false},
		{"who sees the workspace that another's notes does not see it", object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: ref(ada), Workspace: ref(desk)}, member(ben, org.Owner), false},
		{"nobody sees what is nobody's", object.Place{Kind: object.Artifact, Scope: object.Personal}, org.Actor{Role: org.Owner}, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := c.place.VisibleTo(c.actor); got != c.want {
				t.Errorf("sees it: %v", got)
			}
			// A change of it is told to the same people.
			o := object.Object{Place: c.place, Org: office}
			for about, change := range map[string]object.Change{"written": object.NewChange(o), "removed": object.NewDeletion(o, ada, noon, nil)} {
				if got := change.VisibleTo(c.actor); got != c.want {
					t.Errorf("is told that it was %s: %v", about, got)
				}
			}
		})
	}
}

func TestFilters(t *testing.T) {
	inDesk := made(t, object.Draft{Path: "docs/b.md", Kind: object.Artifact, Scope: object.Shared, Workspace: ref(desk)})
	inCrew := made(t, object.Draft{Path: "c.md", Kind: object.TeamMemory, Scope: object.Shared, Team: ref(crew)})
	own := made(t, object.Draft{Path: "a.md", Kind: object.Artifact, Scope: object.Personal, Workspace: ref(desk)})
	plain := made(t, object.Draft{Path: "x", Kind: object.BrandAsset, Scope: object.Shared})
	for _, c := range []struct {
		about  string
		filter object.Filter
		of     object.Object
		want   bool
	}{
		{"no condition selects all", object.Filter{}, own, true},
		{"the kind is the same", object.Filter{Kind: object.Artifact}, inDesk, true},
		{"the kind is another", object.Filter{Kind: object.Artifact}, inCrew, false},
		{"the scope is the same", object.Filter{Scope: object.Personal}, own, true},
		{"the scope is another", object.Filter{Scope: object.Personal}, inDesk, false},
		{"the workspace is the same", object.Filter{Workspace: desk}, inDesk, true},
		{"a personal object notes the workspace", object.Filter{Workspace: desk}, own, true},
		{"the workspace is another", object.Filter{Workspace: attic}, inDesk, false},
		{"there is no workspace", object.Filter{Workspace: desk}, plain, false},
		{"it is in no workspace", object.Filter{WithoutWorkspace: true}, plain, true},
		{"it is in a workspace", object.Filter{WithoutWorkspace: true}, inDesk, false},
		{"the team is the same", object.Filter{Team: crew}, inCrew, true},
		{"there is no team", object.Filter{Team: crew}, inDesk, false},
		{"the owner is the same", object.Filter{Owner: ada}, own, true},
		{"the owner is another", object.Filter{Owner: ben}, own, false},
		{"there is no owner", object.Filter{Owner: ada}, plain, false},
		{"the key begins so", object.Filter{Prefix: string(office) + "/workspaces/"}, inDesk, true},
		{"the key begins so in the middle of a name", object.Filter{Prefix: inDesk.StorageKey()[:len(inDesk.StorageKey())-2]}, inDesk, true},
		{"the key begins otherwise", object.Filter{Prefix: string(office) + "/shared/"}, inDesk, false},
		{"the key begins so in another case", object.Filter{Prefix: string(office) + "/SHARED/"}, plain, false},
		{"the key comes after", object.Filter{After: string(office) + "/shared/"}, plain, true},
		{"the key is the last of the page before", object.Filter{After: plain.StorageKey()}, plain, false},
		{"the key comes before", object.Filter{After: plain.StorageKey()}, own, false},
		{"all conditions hold", object.Filter{Kind: object.Artifact, Scope: object.Shared, Workspace: desk, Prefix: string(office)}, inDesk, true},
		{"one of the conditions fails", object.Filter{Kind: object.Artifact, Scope: object.Shared, Workspace: desk, Prefix: "other"}, inDesk, false},
		{"all words are in the path, in any case", object.Filter{Words: words.Of(strings.ToUpper(inDesk.Path) + " " + inDesk.Path[:1])}, inDesk, true},
		{"a word is in the key before the path", object.Filter{Words: words.Of("workspaces")}, inDesk, false},
		{"one of the words is not in the path", object.Filter{Words: words.Of(inDesk.Path + " ~")}, inDesk, false},
		{"no words are in every path", object.Filter{Words: words.Of(" ")}, inDesk, true},
		{"the limit is not the filter's matter", object.Filter{Limit: 1}, plain, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.want, c.filter.Selects(c.of))
		})
	}
}

func TestChecksums(t *testing.T) {
	sum := strings.Repeat("0aF", 21) + "b"
	must.Is(t, strings.ToLower(sum), must.Do(object.ParseChecksum(sum)).Or(t))
	for _, s := range []string{"", sum[1:], sum + "0", sum + "00", "g" + sum[1:], "sha256:" + sum, " " + sum, strings.Repeat("é", 32)} {
		if got, err := object.ParseChecksum(s); !fault.Is(err, fault.Invalid) || got != "" || !strings.HasPrefix(err.Error(), "checksum ") {
			t.Errorf("%q is %q, %v", s, got, err)
		}
	}
}

func TestFormattedObjectsOmitTheirPath(t *testing.T) {
	must.Is(t, "object o version 0", fmt.Sprint(made(t, object.Draft{Path: "secret.md", Kind: object.Artifact, Scope: object.Shared})))
}

func TestVerifyReadsOnlyTheContentOfTheSizeAndChecksum(t *testing.T) {
	wrong := errors.New("wrong")
	for text, want := range map[string]error{"content": nil, "Content": wrong, "content, and more": wrong, "conten": wrong, "": wrong} {
		size := int64(-1)
		read, err := io.ReadAll(object.Verify(strings.NewReader(text), 7, must.Sum("content"), func(n int64) error {
			size = n
			return wrong
		}))
		if !errors.Is(err, want) || string(read) != text || err != nil && size != int64(len(text)) {
			t.Errorf("%q is read as %q, %v, of the size %d", text, read, err, size)
		}
	}
}
