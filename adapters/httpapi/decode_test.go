package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"collab/adapters/httpapi/body"
	"collab/domain/fault"
	"collab/domain/task"
)

const (
	someID  = "0198a1b2-0000-7000-8000-000000000001"
	otherID = "0198a1b2-0000-7000-8000-000000000002"
)

// reading runs a decoder over a body inside the whole chain.
func reading(t *testing.T, r *http.Request, read func(*body.Fields) error) (int, string) {
	t.Helper()
	a := serving(t, http.MethodPost, open, func(c *call) error {
		o, err := c.fields()
		if err != nil {
			return err
		}
		if err := read(o); err != nil {
			return err
		}
		return c.succeed()
	})
	w := send(a, r)
	if w.Code == http.StatusOK {
		return w.Code, ""
	}
	return w.Code, refused(t, w, w.Code).Message
}

func draft(o *body.Fields) error {
	_, err := readTaskDraft(o)
	return err
}

func TestJSONBodySizeTypeAndSyntax(t *testing.T) {
	accepted := func(*body.Fields) error { return nil }
	for _, test := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"JSON", "application/json", `{}`, 200},
		{"JSON in UTF-8", "application/json; charset=UTF-8", `{}`, 200},
		{"JSON in quoted UTF-8", `application/json;charset="utf-8"`, `{}`, 200},
		{"a kind of JSON", "application/merge-patch+json", `{}`, 200},
		{"JSON in another charset", "application/json; charset=latin1", `{}`, 415},
		{"a form", "application/x-www-form-urlencoded", `{}`, 415},
		{"text", "text/plain", `{}`, 415},
		{"text that ends in +json", "text/x+json", `{}`, 415},
		{"no content type", "", `{}`, 415},
		{"a broken content type", "application/json; =", `{}`, 415},
		{"no body", "application/json", ``, 400},
		{"no body and no content type", "", ``, 400},
		{"nothing but space", "application/json", " \n", 400},
		{"broken JSON", "application/json", `{"a":`, 400},
		{"exactly 1 MiB", "application/json", `{"a":"` + strings.Repeat("x", body.MaxJSON-8) + `"}`, 200},
		{"more than 1 MiB", "application/json", `{"a":"` + strings.Repeat("x", body.MaxJSON-7) + `"}`, 413},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, length := range []string{"known", "unknown"} {
				r := post("/test", test.body)
				if r.Header.Del("Content-Type"); test.contentType != "" {
					r.Header.Set("Content-Type", test.contentType)
				}
				if length == "unknown" {
					r.ContentLength = -1
				}
				if status, message := reading(t, r, accepted); status != test.status {
					t.Errorf("with an %s length: %d %s, want %d", length, status, message, test.status)
				}
			}
		})
	}
}

func TestFirstProblemInDocumentedOrderIsNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                               "title is required",
		`{"title":null}`:                   "title is required",
		`{"title":" ","status":"done"}`:    "title must not be empty",
		`{"title":5}`:                      "title must be a string",
		`{"priority":"x","title":5}`:       "title must be a string",
		`{"title":"t","description":[]}`:   "description must be a string",
		`{"title":"t","status":"done"}`:    "status must be one of TODO, IN_PROGRESS, DONE, CANCELLED",
		`{"title":"t","priority":1}`:       "priority must be a string",
		`{"title":"t","priority":"VITAL"}`: "priority must be one of LOW, MEDIUM, HIGH, URGENT",
		`{"title":"t","assigneeId":"me"}`:  "assigneeId must be the id of a user",
		`{"title":"t","workspaceId":"` + strings.ToUpper(someID) + `"}`: "workspaceId must be the id of a workspace",
		`{"title":"t","dueDate":"tomorrow"}`:                            "dueDate must be a date or an RFC 3339 time",
		`{"title":"t","dueDate":"2026-02-30"}`:                          "dueDate must be a date or an RFC 3339 time",
		`{"title":"t","dueDate":20260101}`:                              "dueDate must be a string",
		`{"title":"t","tags":"a,b"}`:                                    "tags must be an array of strings",
		`{"title":"t","tags":["a",1]}`:                                  "tags must be an array of strings",
		`{"title":"t","metadata":[]}`:                                   "metadata must be a JSON object",
		`{"metadata":"x","tags":1,"dueDate":1,"title":"t"}`:             "dueDate must be a string",
	} {
		t.Run(body, func(t *testing.T) {
			if status, message := reading(t, post("/test", body), draft); status != 400 || message != want {
				t.Errorf("%d %q, want %q", status, message, want)
			}
		})
	}
}

func TestAllProblemsAreFound(t *testing.T) {
	o := objectOf(t, `{"title":1,"description":"\u0000","status":2,"dueDate":"x","tags":["a,b"],"metadata":3}`)
	err := draft(o)
	e, ok := err.(*fault.Error)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, p := range e.Problems {
		fields = append(fields, p.Field)
	}
	if diff := cmp.Diff([]string{"title", "description", "status", "dueDate", "tags", "metadata"}, fields); diff != "" {
		t.Error(diff)
	}
}

func objectOf(t testing.TB, body string) *body.Fields {
	t.Helper()
	o, err := newCall(post("/", body)).fields()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTaskDraftIsReadWhole(t *testing.T) {
	d, err := readTaskDraft(objectOf(t, `{
		"title": "Caf\u00e9 \ud83d\ude00", "description": "a\nb", "status": "DONE", "priority": "URGENT",
		"assigneeId": "`+someID+`", "workspaceId": "`+otherID+`", "dueDate": "2026-01-31T10:00:00.1239+02:00",
		"tags": ["a", "b", "a"], "metadata": { "b" : [ 1.50, "x  y", "<é>" ], "a":{} }, "unknown": 7 }`))
	if err != nil {
		t.Fatal(err)
	}
	if d.Title != "Café 😀" || *d.Description != "a\nb" || d.Status != task.Done || d.Priority != task.Urgent ||
		string(*d.Assignee) != someID || string(*d.Workspace) != otherID || d.Due.String() != "2026-01-31T08:00:00.123Z" {
		t.Errorf("got %+v", d)
	}
	if diff := cmp.Diff([]string{"a", "b", "a"}, d.Tags); diff != "" {
		t.Error(diff)
	}
	if want := `{"b":[1.50,"x  y","<é>"],"a":{}}`; d.Metadata != want {
		t.Errorf("metadata is %s, want %s", d.Metadata, want)
	}
}

func TestNullFieldsOfTaskDraftAreUnset(t *testing.T) {
	d, err := readTaskDraft(objectOf(t, `{"title":"t","description":null,"status":null,"priority":null,"assigneeId":null,"workspaceId":null,"dueDate":null,"tags":null,"metadata":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(task.Draft{Title: "t"}, d); diff != "" {
		t.Error(diff)
	}
}

func TestTaskPatchDistinguishesAbsentFromNull(t *testing.T) {
	p, err := readTaskPatch(objectOf(t, `{"description":null,"tags":[],"dueDate":"2026-01-31","title":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readTaskPatch(objectOf(t, `{"title":5,"status":"LATER"}`)); !fault.Is(err, fault.Invalid) || err.Error() != "title must be a string" {
		t.Errorf("an invalid patch: %v", err)
	}
	if p.Status.Present() || p.Metadata.Present() || p.Assignee.Present() {
		t.Error("absent fields are present")
	}
	if !p.Description.IsNull() || !p.Title.IsNull() {
		t.Error("nulls are lost")
	}
	if tags, ok := p.Tags.Get(); !ok || len(tags) != 0 {
		t.Error("an empty list is not a value")
	}
	if due, ok := p.Due.Get(); !ok || due.String() != "2026-01-31" {
		t.Errorf("due is %v", due)
	}
}

func TestMalformedOperandIDsAreNotFound(t *testing.T) {
	reorder := func(o *body.Fields) error {
		body.Operands[string](o, "taskIds", "Task")
		return o.Err()
	}
	reprioritize := func(o *body.Fields) error {
		_, err := readReprioritizations(o)
		return err
	}
	for _, test := range []struct {
		body   string
		read   func(*body.Fields) error
		status int
		want   string
	}{
		{`{"taskIds":["` + someID + `"]}`, reorder, 200, ""},
		{`{"taskIds":["x"]}`, reorder, 404, "Task not found"},
		{`{"taskIds":[1]}`, reorder, 400, "taskIds must be an array of strings"},
		{`{"taskIds":{}}`, reorder, 400, "taskIds must be an array of strings"},
		{`{}`, reorder, 400, "taskIds is required"},
		{`{"changes":[{"taskId":"` + someID + `","reason":"r","priority":"LOW","sortOrder":3}]}`, reprioritize, 200, ""},
		{`{"changes":[{"taskId":"x","reason":"r"}]}`, reprioritize, 404, "Task not found"},
		{`{"changes":[{"taskId":"x","reason":"r"},{"taskId":"x"}]}`, reprioritize, 400, "changes[1].reason is required"},
		{`{"changes":[7]}`, reprioritize, 400, "changes[0] must be an object"},
		{`{"changes":[{"reason":"r"}]}`, reprioritize, 400, "changes[0].taskId is required"},
		{`{"changes":[{"taskId":"` + someID + `","reason":"r","sortOrder":1.5}]}`, reprioritize, 400, "changes[0].sortOrder must be an integer"},
		{`{"changes":[{"taskId":"` + someID + `","reason":"r","sortOrder":99999999999999999999}]}`, reprioritize, 400, "changes[0].sortOrder is out of range"},
		{`{"changes":"all"}`, reprioritize, 400, "changes must be an array"},
	} {
		t.Run(test.body, func(t *testing.T) {
			if status, message := reading(t, post("/test", test.body), test.read); status != test.status || message != test.want {
				t.Errorf("%d %q, want %d %q", status, message, test.status, test.want)
			}
		})
	}
}

func TestInstantsAreDatesOrTimes(t *testing.T) {
	for text, want := range map[string]string{
		`"2027-01-01"`:                     "2027-01-01T00:00:00Z",
		`"2027-01-01T00:00:00.9999+01:00"`: "2026-12-31T23:00:00.999Z",
		`"soon"`:                           "",
		`5`:                                "",
		`"0000-01-01"`:                     "",
	} {
		at, problem := body.Instant([]byte(text))
		if got := at.Format(time.RFC3339Nano); (problem != "") != (want == "") || want != "" && got != want {
			t.Errorf("%s is %s %q, want %s", text, got, problem, want)
		}
	}
}

// FuzzPath sends any path and query through the routes: there is one answer, which is a feed or
// has the error shape.
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"tasks", "tasks/" + someID, "tasks/../x", "teams/a/members/b", "%2F", "tasks//", "org/members/é/role", ";", "tasks/\x00",
		"updates/feeds/electron/latest.yml?arch=x64", "updates/feeds/electron/beta-linux-arm64.yml?clientId=a", "updates/feeds/squirrel/darwin/arm64/1.0.0",
		"updates/feeds/squirrel/win32/x64/v1.0/RELEASES?localVersion=1", "updates/feeds/tauri/windows/x86_64/1.0.0-rc.1%2B5", "updates/feeds/tauri//x64/",
		"updates/feeds/sparkle/appcast.xml?version=1&channel=BETA", "updates/feeds/electron/%2e%2e/x.yml", "updates/feeds/sparkle/appcast.xml?a=%zz;b",
	} {
		path, query, _ := strings.Cut(target, "?")
		f.Add(path, query, "id")
	}
	a, _ := serveReleases(f, released(f, "2.0.0", "win32/x64"), released(f, "2.0.0", "darwin/universal"), released(f, "2.0.0", "linux/arm64/beta"))
	f.Fuzz(func(t *testing.T, path, query, client string) {
		r := get("/")
		r.URL.Path, r.URL.RawQuery = prefix+"/"+path, query
		if decoded, err := url.PathUnescape(path); err == nil {
			r.URL.Path, r.URL.RawPath = prefix+"/"+decoded, prefix+"/"+path
		}
		r.Header[staging] = []string{client}
		switch w := send(a, r); w.Code {
		case http.StatusOK, http.StatusNoContent:
			if !strings.HasPrefix(r.URL.Path, feeds) && r.URL.Path != prefix+"/openapi.json" && r.URL.Path != checkPath {
				t.Fatalf("%q %q: %s", path, query, w.Body)
			}
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed:
			refused(t, w, w.Code)
		default:
			t.Fatalf("%q %q: %d %s", path, query, w.Code, w.Body)
		}
	})
}
