package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"collab/adapters/httpapi/body"
	"collab/app/access"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/test/must"
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
		o.Workspace = new(id.Workspace(valueOrEmpty(s)))
	}
	if s := text.Draw(t, "team"); s != nil || o.Kind == object.TeamMemory {
		o.Team = new(id.Team(valueOrEmpty(s)))
	}
	if s := text.Draw(t, "owner"); s != nil || o.Scope == object.Personal {
		o.Owner = new(id.User(valueOrEmpty(s)))
	}
	return o
})

func TestAppendObjectMatchesEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyObject.Draw(t, "object")
		want := record{
			ID: string(o.ID), StorageKey: o.StorageKey(), Path: o.Path, MimeType: o.MimeType, Size: o.Size, Checksum: o.Checksum, Version: o.Version,
			Kind: string(o.Kind), Scope: string(o.Scope), CreatedBy: string(o.CreatedBy), UpdatedBy: string(o.UpdatedBy),
			CreatedAt: o.CreatedAt.Format(layout), UpdatedAt: o.UpdatedAt.Format(layout),
		}
		if o.Workspace != nil {
			want.WorkspaceID = new(string(*o.Workspace))
		}
		if o.Team != nil {
			want.TeamID = new(string(*o.Team))
		}
		if o.Owner != nil {
			want.OwnerID = new(string(*o.Owner))
		}
		must.Is(t, "x"+encoded(t, want), string(appendObject([]byte("x"), o)))
		want.Deleted = true
		must.Is(t, encoded(t, want), string(must.Do(appendChange(nil, object.Change{Type: object.Deleted, Object: o})).Or(t)))
	})
}

func TestFileFiltersAreReadFromTheQuery(t *testing.T) {
	for query, want := range map[string]object.Filter{
		"kind=TEMPLATE&scope=SHARED": {Kind: object.Template, Scope: object.Shared},
		"workspaceId=null":           {WithoutWorkspace: true},
		"workspaceId=" + someID:      {Workspace: someID},
		"workspaceId=nonsense":       {Workspace: body.NilID},
		"prefix=/o/shared/A%CC%88":   {Prefix: "o/shared/Ä"},
		"prefix=o/%25":               {Prefix: "o/%"},
		"search=md+a%CC%88":          {Words: []string{"MD", "Ä"}},
	} {
		got, err := readObjectFilter(body.Query{Values: must.Do(url.ParseQuery(query)).Or(t)}, body.Page{})
		must.NoError(t, err)
		want.Limit = got.Limit
		must.Equal(t, want, got, cmpopts.EquateEmpty())
	}
}

func TestKeyCursorRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := body.Position{Key: rapid.StringN(1, 100, -1).Draw(t, "key")}
		got, ok := body.ParseKeyCursor(p.Cursor())
		if want := body.IsKeyText(p.Key); ok != want || ok && got != p {
			t.Fatalf("%+v is parsed as %+v, %v", p, got, ok)
		}
	})
	for _, bad := range []string{"", "!", "/w", "AA"} {
		if p, ok := body.ParseKeyCursor(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

// TestTheCursorOfAManifestIsNotAfterItsRights has the caller become a member of a team once the rights were read.
func TestTheCursorOfAManifestIsNotAfterItsRights(t *testing.T) {
	o := newFileServer(t)
	o.store(t, "plan.md", "one", "workspaceId="+string(o.desk))
	authorize := o.actorOf
	o.actorOf = func(ctx context.Context, c access.Caller) (org.Actor, error) {
		actor, err := authorize(ctx, c)
		o.actorOf = authorize
		must.Do(o.core.Teams.AddMember(ctx, o.actor(t, "ada"), o.crew, c.User)).Or(t)
		return actor, err
	}
	w := o.get("/manifest", "X-Actor: vic")
	must.Is(t, "[]\n", w.Body.String())
	must.Is(t, http.StatusOK, o.get("/manifest", "X-Actor: vic", "If-None-Match: "+w.Header().Get("Etag")).Code)
	must.Is(t, http.StatusGone, o.get("/manifest?since="+w.Header().Get(cursorHeader), "X-Actor: vic").Code)
}

func TestUnchangedManifestReadsNoObjects(t *testing.T) {
	o := newFileServer(t)
	o.store(t, "a", "one")
	w := o.get("/manifest")
	cursor, tag := w.Header().Get(cursorHeader), w.Header().Get("Etag")
	for header, want := range map[string]int{tag: http.StatusNotModified, `"other"`: http.StatusOK} {
		o.core.Faults.Reset(-1, "")
		w := o.get("/manifest", "If-None-Match: "+header)
		must.Is(t, want, w.Code)
		checkHeader(t, w.Header(), map[string]string{cursorHeader: cursor, "Etag": tag})
		must.Is(t, want == http.StatusOK, slices.Contains(o.core.Faults.Calls(), "Objects.List"))
	}
}
