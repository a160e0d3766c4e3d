package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"collab/adapters/httpapi/body"
	"collab/domain/fault"
	"collab/test/must"
)

const someID = "0198a1b2-0000-7000-8000-000000000001"

func TestAllProblemsAreFoundInDocumentedOrder(t *testing.T) {
	o, err := newCall(post("/", `{"metadata":3,"tags":["a,b"],"dueDate":"2026-02-30","workspaceId":"`+strings.ToUpper(someID)+`",
		"assigneeId":"me","priority":"VITAL","status":2,"description":"\u0000","title":" "}`)).fields()
	must.NoError(t, err)
	var e *fault.Error
	if _, err = readTaskDraft(o); !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, p := range e.Problems {
		got = append(got, p.Field+" "+p.Message)
	}
	must.Equal(t, []string{
		"title must not be empty", "description must not contain null characters", "status must be a string", "priority must be one of LOW, MEDIUM, HIGH, URGENT",
		"assigneeId must be the id of a user", "workspaceId must be the id of a workspace", "dueDate must be a date or an RFC 3339 time",
		"tags must not contain a comma", "metadata must be a JSON object",
	}, got)
}

func TestJSONContentTypes(t *testing.T) {
	for contentType, want := range map[string]bool{
		`application/json;charset="utf-8"`: true, "application/json; charset=UTF-8": true, "application/merge-patch+json": true, "text/x+json": false, "application/json; =": false,
		"text/html; charset=utf-8": false, "application/x-www-form-urlencoded": false, "application/json; charset=utf-16": false, "nonsense": false,
	} {
		if _, err := newCall(post("/", "{}", "Content-Type: "+contentType)).fields(); (err == nil) != want || err != nil && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s: %v", contentType, err)
		}
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

// FuzzPath checks that the response to any path and query is an update feed or an error.
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
		r.Header[stagingHeader] = []string{client}
		switch w := send(a, r); w.Code {
		case http.StatusOK, http.StatusNoContent:
			if !strings.HasPrefix(r.URL.Path, feeds) && r.URL.Path != prefix+"/openapi.json" && r.URL.Path != CheckPath {
				t.Fatalf("%q %q: %s", path, query, w.Body)
			}
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed:
			checkError(t, w, w.Code)
		default:
			t.Fatalf("%q %q: %d %s", path, query, w.Code, w.Body)
		}
	})
}
