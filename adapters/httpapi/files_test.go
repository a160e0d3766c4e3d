package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/adapters/httpapi/body"
	"collab/domain/id"
	"collab/domain/object"
)

var anyObject = rapid.Custom(func(t *rapid.T) object.Object {
	text := rapid.Ptr(anyText, true)
	o := object.Object{
		ID: id.Object(anyText.Draw(t, "id")), Org: id.Org(anyText.Draw(t, "org")), Path: anyText.Draw(t, "path"), MimeType: anyText.Draw(t, "type"),
		Version: rapid.Int64().Draw(t, "version"), CreatedBy: id.User(anyText.Draw(t, "creator")), UpdatedBy: id.User(anyText.Draw(t, "writer")),
		CreatedAt: anyTime.Draw(t, "created"), UpdatedAt: anyTime.Draw(t, "updated"),
		Content: object.Content{Size: rapid.Int64().Draw(t, "size"), Checksum: anyText.Draw(t, "checksum")},
		Place:   object.Place{Kind: rapid.SampledFrom(object.Kinds).Draw(t, "kind"), Scope: rapid.SampledFrom(object.Scopes).Draw(t, "scope")},
	}
	if s := text.Draw(t, "workspace"); s != nil || o.Kind == object.WorkspaceMemory {
		w := id.Workspace(valueOrEmpty(s))
		o.Workspace = &w
	}
	if s := text.Draw(t, "team"); s != nil || o.Kind == object.TeamMemory {
		in := id.Team(valueOrEmpty(s))
		o.Team = &in
	}
	if s := text.Draw(t, "owner"); s != nil || o.Scope == object.Personal {
		u := id.User(valueOrEmpty(s))
		o.Owner = &u
	}
	return o
})

func TestAppendObjectMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyObject.Draw(t, "object")
		text := func(s string) *string { return &s }
		want := record{
			ID: string(o.ID), StorageKey: o.StorageKey(), Path: o.Path, MimeType: o.MimeType, Size: o.Size, Checksum: o.Checksum, Version: o.Version,
			Kind: string(o.Kind), Scope: string(o.Scope), CreatedBy: string(o.CreatedBy), UpdatedBy: string(o.UpdatedBy),
			CreatedAt: o.CreatedAt.Format(layout), UpdatedAt: o.UpdatedAt.Format(layout),
		}
		if o.Workspace != nil {
			want.WorkspaceID = text(string(*o.Workspace))
		}
		if o.Team != nil {
			want.TeamID = text(string(*o.Team))
		}
		if o.Owner != nil {
			want.OwnerID = text(string(*o.Owner))
		}
		if got := string(appendObject([]byte("x"), o)); got != "x"+encoded(t, want) {
			t.Fatalf("got  %s\nwant x%s", got, encoded(t, want))
		}
		want.Deleted = true
		if got, err := appendSince(nil, object.Change{Type: object.Deleted, Object: o}); err != nil || string(got) != encoded(t, want) {
			t.Fatalf("got  %s\nwant %s (%v)", got, encoded(t, want), err)
		}
	})
}

// paths are those of the records of a list.
func paths(t testing.TB, all []record) []string {
	t.Helper()
	found := []string{}
	for _, r := range all {
		path := r.Path
		if r.Deleted {
			path = "-" + path
		}
		found = append(found, path)
	}
	return found
}

func TestFileListFilters(t *testing.T) {
	o := newFileServer(t)
	desk := "workspaceId=" + string(o.desk)
	org := strings.SplitN(o.store(t, "a", "x").StorageKey, "/", 2)[0]
	o.store(t, "folder/b.md", "x")
	o.store(t, url.QueryEscape("Büro/é"), "x")
	o.store(t, "c", "x", desk)
	o.store(t, "d", "x", desk, "kind=WORKSPACE_MEMORY")
	o.store(t, "e", "x", "kind=TEMPLATE")
	o.store(t, "f", "x", "scope=PERSONAL")
	o.store(t, "g", "x", "kind=TEAM_MEMORY", "teamId="+string(o.crew))
	for query, want := range map[string][]string{
		"":                              {"f", "Büro/é", "a", "folder/b.md", "e", "g", "c", "d"},
		"?kind=ARTIFACT":                {"f", "Büro/é", "a", "folder/b.md", "c"},
		"?scope=PERSONAL":               {"f"},
		"?scope=SHARED&kind=TEMPLATE":   {"e"},
		"?" + desk:                      {"c", "d"},
		"?workspaceId=null":             {"f", "Büro/é", "a", "folder/b.md", "e", "g"},
		"?workspaceId=x":                {},
		"?workspaceId=" + someID:        {},
		"?prefix=" + org + "/shared/":   {"Büro/é", "a", "folder/b.md", "e"},
		"?prefix=/" + org + "/teams":    {"g"},
		"?prefix=" + someID + "/shared": {},
		"?prefix=" + org + "/shared/artifacts/Bu%CC%88ro/": {"Büro/é"},
		"?prefix=": {"f", "Büro/é", "a", "folder/b.md", "e", "g", "c", "d"},
	} {
		t.Run(query, func(t *testing.T) {
			if diff := cmp.Diff(want, paths(t, read[[]record](t, o.get("/files"+query), 200))); diff != "" {
				t.Error(diff)
			}
		})
	}
	for query, message := range map[string]string{
		"?kind=x": "kind must be one of ARTIFACT, HUB_MEMORY, TEAM_MEMORY, WORKSPACE_MEMORY, TEMPLATE, BRAND_ASSET", "?scope=": "scope must be one of SHARED, PERSONAL",
		"?knd=x": `"knd" is not a parameter of this endpoint`, "?kind=ARTIFACT&kind=ARTIFACT": "kind must not be repeated",
		"?prefix=%ff": "prefix must be at most 4096 bytes of valid UTF-8 without null characters", "?prefix=a%00": "prefix must be at most 4096 bytes of valid UTF-8 without null characters",
		"?cursor=" + (body.Position{ID: someID}).Cursor() + "!": "cursor must be one that this list gave out", "?cursor=": "cursor must be one that this list gave out",
	} {
		if e := refused(t, o.get("/files"+query), 400); e.Message != message {
			t.Errorf("%s: %s", query, e.Message)
		}
	}
	t.Run("in pages it is the same list", func(t *testing.T) {
		for _, target := range []string{"/files", "/manifest"} {
			whole := read[[]record](t, o.get(target), 200)
			for limit := 1; limit <= len(whole)+1; limit++ {
				var all []record
				for next := fmt.Sprintf("%s?limit=%d", target, limit); next != ""; {
					w := o.get(next)
					all = append(all, read[[]record](t, w, 200)...)
					if target == "/manifest" && w.Header().Get(cursorHeader) == "" {
						t.Error("a page has no cursor")
					}
					next = ""
					if link := w.Header().Get("Link"); link != "" {
						next = strings.TrimSuffix(strings.TrimPrefix(link, "<"+publicURL+prefix+"/sync"), `>; rel="next"`)
					}
				}
				if diff := cmp.Diff(whole, all); diff != "" {
					t.Fatalf("%s by %d: %s", target, limit, diff)
				}
			}
		}
	})
	t.Run("others see less", func(t *testing.T) {
		for who, want := range map[string][]string{"ben": {"Büro/é", "a", "folder/b.md", "e"}, "vic": {"Büro/é", "a", "folder/b.md", "e"}, "eve": {}} {
			if diff := cmp.Diff(want, paths(t, read[[]record](t, o.get("/files", "X-Actor: "+who), 200))); diff != "" {
				t.Errorf("%s: %s", who, diff)
			}
		}
	})
}

func TestKeyCursorRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := body.Position{Key: rapid.StringN(1, 100, -1).Draw(t, "key")}
		got, ok := body.ParseKeyCursor(p.Cursor())
		if want := body.IsKeyText(p.Key); ok != want || ok && got != p {
			t.Fatalf("%+v came back as %+v, %v", p, got, ok)
		}
	})
	for _, bad := range []string{"", "!", "/w", "AA"} {
		if p, ok := body.ParseKeyCursor(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func TestManifestCursorAndEntityTag(t *testing.T) {
	o := newFileServer(t)
	manifest := func(query, who string, headers ...string) (int, []string, string, string) {
		t.Helper()
		w := o.get("/manifest"+query, append(headers, "X-Actor: "+who)...)
		var found []string
		if w.Code == 200 {
			found = paths(t, read[[]record](t, w, 200))
		}
		return w.Code, found, w.Header().Get(cursorHeader), w.Header().Get("Etag")
	}
	status, found, empty, _ := manifest("", "ada")
	if status != 200 || len(found) != 0 || empty == "" {
		t.Fatalf("%d %v at %s", status, found, empty)
	}
	a, b := o.store(t, "a", "one"), o.store(t, "b", "one")
	mine := o.store(t, "mine", "one", "scope=PERSONAL")
	_, found, before, tag := manifest("", "ada")
	if fmt.Sprint(found) != "[mine a b]" {
		t.Errorf("found %v", found)
	}
	if _, ok := object.ParseCursor(before); !ok {
		t.Errorf("the cursor is %q", before)
	}

	t.Run("who has it is told so without a record being read", func(t *testing.T) {
		asks := func(headers ...string) (int, string, string, bool) {
			o.core.Faults.Reset(-1, "")
			status, _, cursor, again := manifest("", "ada", headers...)
			return status, cursor, again, slices.Contains(o.core.Faults.Calls(), "Objects.List")
		}
		if status, cursor, again, reads := asks("If-None-Match: " + tag); status != 304 || cursor != before || again != tag || reads {
			t.Errorf("%d at %s with %s, read: %v", status, cursor, again, reads)
		}
		if status, _, _, reads := asks(`If-None-Match: "other"`); status != 200 || !reads {
			t.Errorf("%d, read: %v", status, reads)
		}
	})
	tags := map[string]bool{}
	for _, of := range [][2]string{{"", "ada"}, {"?limit=1", "ada"}, {"?since=" + before, "ada"}, {"", "ben"}, {"", "vic"}, {"", "eve"}} {
		_, _, _, tag := manifest(of[0], of[1])
		tags[tag] = true
	}
	if len(tags) != 6 {
		t.Errorf("different manifests share a tag: %v", tags)
	}

	read[record](t, o.put("/files/"+b.ID, "", "two"), 200)
	o.store(t, "c", "one")
	for _, gone := range []string{a.ID, mine.ID} {
		if w := send(o, request(http.MethodDelete, "/files/"+gone, nil)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	t.Run("since then there is what changed and what is gone", func(t *testing.T) {
		for who, want := range map[string]string{"ada": "[-a -mine b c]", "ben": "[-a b c]"} {
			status, found, cursor, _ := manifest("?since="+before, who)
			slices.Sort(found)
			_, _, now, _ := manifest("", who)
			if status != 200 || fmt.Sprint(found) != want || cursor != now {
				t.Errorf("%s: %d %v at %s, want %s at %s", who, status, found, cursor, want, now)
			}
			if status, found, again, _ := manifest("?since="+now, who); status != 200 || len(found) != 0 || again != now {
				t.Errorf("%s: %d %v at %s", who, status, found, again)
			}
		}
	})
	t.Run("a change makes another tag", func(t *testing.T) {
		if status, _, _, again := manifest("", "ada", "If-None-Match: "+tag); status != 200 || again == tag {
			t.Errorf("%d with %s", status, again)
		}
	})
	for query, want := range map[string]string{
		"?since=x":                          "400 since must be the X-Sync-Cursor of a manifest or the id of a change",
		"?since=":                           "400 since must be the X-Sync-Cursor of a manifest or the id of a change",
		"?since=" + before + "&limit=5":     "400 limit does not go with since",
		"?since=" + before + "&cursor=YQ":   "400 cursor does not go with since",
		"?since=" + before + "&since=1-1":   "400 since must not be repeated",
		"?since=9-1":                        "410 since is not in the log any more: read the whole manifest",
		"?since=1-999":                      "410 since is not in the log any more: read the whole manifest",
		"?kind=ARTIFACT":                    `400 "kind" is not a parameter of this endpoint`,
		"?cursor=" + strings.Repeat("Y", 9): "400 cursor must be one that this list gave out",
	} {
		w := o.get("/manifest" + query)
		if got := fmt.Sprint(w.Code, " ", refused(t, w, w.Code).Message); got != want || w.Header().Get(cursorHeader) != "" {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestDocumentsRoundTrip(t *testing.T) {
	o := newFileServer(t)
	for _, target := range []string{"/profile", "/org-onboarding"} {
		t.Run(target, func(t *testing.T) {
			if w := o.get(target); w.Code != 200 || w.Body.String() != "null\n" || w.Header().Get("Etag") != "" {
				t.Errorf("before, it is %d %s", w.Code, w.Body)
			}
			document := " {\n\t\"b\" : 1.50, \"a\":[\"\\u00e9\"] }\n"
			w := o.put(target, "application/json", document)
			saved := read[record](t, w, 200)
			if saved.Version != 1 || saved.Checksum != checksum(document) || saved.Kind != "HUB_MEMORY" || w.Header().Get("Etag") != `"1"` {
				t.Errorf("%+v", saved)
			}
			w = o.get(target)
			if w.Code != 200 || w.Body.String() != document || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Etag") != `"1"` {
				t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
			}
			other := "null\n"
			if target == "/org-onboarding" {
				other = document
			}
			if w := o.get(target, "X-Actor: vic"); w.Body.String() != other {
				t.Errorf("another sees %s", w.Body)
			}
			if w := o.get(target, "X-Actor: eve"); w.Body.String() != "null\n" {
				t.Errorf("an outsider sees %s", w.Body)
			}
			for body, status := range map[string]int{"": 400, "[]": 400, "null": 400, `{"a":1,"a":2}`: 400, `{"a":"` + strings.Repeat("x", body.MaxJSON) + `"}`: 413} {
				refused(t, o.put(target, "application/json", body), status)
			}
			refused(t, o.put(target, "text/plain", "{}"), 415)
			refused(t, o.put(target, "application/json", "{}", "X-Actor: vic"), 403)
		})
	}
}

func TestMemoriesRoundTrip(t *testing.T) {
	o := newFileServer(t)
	workspace := "/memory/workspace/" + string(o.desk)
	for target, path := range map[string]string{"/memory/user": "user-memory.md", "/memory/org": "org-memory.md", workspace + "/plan%20%C3%A9.md": "plan é.md"} {
		t.Run(target, func(t *testing.T) {
			if w := o.get(target); w.Code != 200 || w.Body.String() != "null\n" {
				t.Errorf("before, it is %d %s", w.Code, w.Body)
			}
			for i, put := range []struct{ contentType, body, content string }{
				{"application/json", `{"content":"# \u00e9\n","x":1}`, "# é\n"},
				{"text/markdown", "# zwei\n", "# zwei\n"},
				{"", "", ""},
			} {
				saved := read[record](t, o.put(target, put.contentType, put.body), 200)
				if saved.Version != int64(i+1) || saved.Path != path {
					t.Errorf("%+v", saved)
				}
				w := o.get(target)
				got := read[recordWithContent](t, w, 200)
				if got.Content != put.content || got.Encoding != "utf8" || !cmp.Equal(got.record, saved) || w.Header().Get("Etag") != etag(saved.Version) {
					t.Errorf("%+v", got)
				}
			}
			refused(t, o.put(target, "text/plain", "\xff"), 400)
			refused(t, o.put(target, "text/plain", strings.Repeat("x", body.MaxJSON+1)), 413)
			refused(t, o.put(target, "application/json; charset=latin1", "{}"), 415)
			refused(t, o.put(target, "text/plain", "x", "X-Actor: vic"), 403)
		})
	}
	t.Run("a workspace's memory files are its objects", func(t *testing.T) {
		o.store(t, "from-files.md", "\xff\x00", "kind=WORKSPACE_MEMORY", "workspaceId="+string(o.desk))
		listed := paths(t, read[[]record](t, o.get(workspace), 200))
		if fmt.Sprint(listed) != "[from-files.md plan é.md]" {
			t.Errorf("listed %v", listed)
		}
		if got := read[recordWithContent](t, o.get(workspace+"/from-files.md"), 200); got.Content != "/wA=" || got.Encoding != "base64" {
			t.Errorf("%+v", got)
		}
		if got := read[[]record](t, o.get(workspace+"?limit=1"), 200); len(got) != 1 {
			t.Errorf("a page has %d", len(got))
		}
	})
	for target, want := range map[string]string{
		"/memory/team": "404 Memory not found", "/memory/workspace": "404 Memory not found", "/memory/USER": "404 Memory not found",
		"/memory/workspace/x": "404 Workspace not found", "/memory/workspace/" + someID + "/a.md": "404 Workspace not found",
		workspace + "/..": "400 fileName must not have the segments . and ..", workspace + "/con": "400 fileName must not have a segment that is a device's name on Windows",
		workspace + "/a%2Fb": "404 There is no such endpoint",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			w := send(o, request(method, target, strings.NewReader(`{"content":"x"}`), "Content-Type: application/json"))
			if strings.Count(target, "/") == 3 && strings.HasPrefix(target, "/memory/workspace/") && method == http.MethodPut {
				refused(t, w, http.StatusMethodNotAllowed)
				continue
			}
			if got := fmt.Sprint(w.Code, " ", refused(t, w, w.Code).Message); got != want {
				t.Errorf("%s %s: %s, want %s", method, target, got, want)
			}
		}
	}
	for _, who := range []string{"ben", "eve"} {
		refused(t, o.get(workspace, "X-Actor: "+who), 404)
		refused(t, o.get(workspace+"/from-files.md", "X-Actor: "+who), 404)
	}
}

func TestDeleteFile(t *testing.T) {
	o := newFileServer(t)
	file := o.store(t, "a", "x")
	if w := send(o, request(http.MethodDelete, "/files/"+file.ID, nil)); w.Code != 200 || w.Body.String() != string(success) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(t, o.get("/files/"+file.ID), 404)
	refused(t, send(o, request(http.MethodDelete, "/files/"+file.ID, nil)), 404)
	var all []json.RawMessage
	if err := json.Unmarshal(o.get("/files").Body.Bytes(), &all); err != nil || len(all) != 0 {
		t.Errorf("%s is left: %v", all, err)
	}
}
