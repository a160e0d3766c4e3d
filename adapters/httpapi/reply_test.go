package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/patch"
	"collab/domain/release"
	"collab/domain/task"
	"collab/test/must"
)

const layout = "2006-01-02T15:04:05.000Z"

// encoded returns the JSON of a view.
func encoded(t rapid.TB, v any) string { return string(must.Do(appendView(nil, v)).Or(t)) }

// anyText generates any string, with more characters that JSON escapes than rapid.String.
var anyText = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/<>&\b\f\n\r\t\x00\x1f\x7fé\u2027\u2028\u2029😀\ufffd"))))

var anyTime = rapid.Custom(func(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms")).UTC()
})

var anyTask = rapid.Custom(func(t *rapid.T) task.Task {
	v, _ := task.New(id.Task(rapid.String().Draw(t, "id")), "o", "creator", task.Draft{Title: "t"}, anyTime.Draw(t, "created"))
	text := rapid.Ptr(anyText, true)
	p := task.Patch{Status: patch.Value(rapid.SampledFrom([]task.Status{task.Todo, task.Done}).Draw(t, "status"))}
	v, _ = v.Apply(p, anyTime.Draw(t, "updated"))
	v.Title = anyText.Draw(t, "title")
	v.Description = text.Draw(t, "description")
	v.Priority = rapid.SampledFrom([]task.Priority{task.Low, task.Urgent}).Draw(t, "priority")
	if s := text.Draw(t, "assignee"); s != nil {
		v.Assignee = new(id.User(*s))
	}
	if s := text.Draw(t, "workspace"); s != nil {
		v.Workspace = new(id.Workspace(*s))
	}
	if at := rapid.Ptr(anyTime, true).Draw(t, "due"); at != nil {
		form := rapid.SampledFrom([]string{layout, time.DateOnly}).Draw(t, "form")
		due, _ := task.ParseDue(at.Format(form))
		v.Due = &due
	}
	v.Tags = rapid.SliceOfN(anyText, 0, 3).Draw(t, "tags")
	v.Metadata = rapid.SampledFrom([]string{"", "{}", `{"a":[1.50,"<é>\u2028"]}`}).Draw(t, "metadata")
	v.SortOrder = rapid.Int64().Draw(t, "sortOrder")
	return v
})

func TestAppendTaskMatchesEncodingJSON(t *testing.T) {
	type view struct {
		ID          id.Task         `json:"id"`
		Title       string          `json:"title"`
		Description *string         `json:"description"`
		Status      task.Status     `json:"status"`
		Priority    task.Priority   `json:"priority"`
		AssigneeID  *id.User        `json:"assigneeId"`
		WorkspaceID *id.Workspace   `json:"workspaceId"`
		DueDate     *string         `json:"dueDate"`
		Tags        []string        `json:"tags"`
		Metadata    json.RawMessage `json:"metadata"`
		SortOrder   int64           `json:"sortOrder"`
		CompletedAt *string         `json:"completedAt"`
		CreatedBy   id.User         `json:"createdBy"`
		CreatedAt   string          `json:"createdAt"`
		UpdatedAt   string          `json:"updatedAt"`
	}
	rapid.Check(t, func(t *rapid.T) {
		v := anyTask.Draw(t, "task")
		want := view{
			v.ID, v.Title, v.Description, v.Status(), v.Priority, v.Assignee, v.Workspace, nil, append([]string{}, v.Tags...), json.RawMessage(cmp.Or(v.Metadata, "null")),
			v.SortOrder, nil, v.CreatedBy, v.CreatedAt.Format(layout), v.UpdatedAt.Format(layout),
		}
		if at := v.CompletedAt(); at != nil {
			want.CompletedAt = new(at.Format(layout))
		}
		if v.Due != nil {
			want.DueDate = new(v.Due.String())
		}
		got, err := appendTask([]byte("x"), v)
		if want := "x" + encoded(t, want); string(got) != want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	})
}

func TestListResponse(t *testing.T) {
	t.Run("long", func(t *testing.T) {
		w, writes, most := httptest.NewRecorder(), 0, 0
		serveTexts(t, 1000, 200, false, nil).ServeHTTP(funcWriter{w, func(b []byte) {
			writes, most = writes+1, max(most, len(b))
			_, _ = w.Write(b)
		}}, get("/test"))
		must.Is(t, 1000, len(read[[]string](t, w, 200)))
		if writes < 5 || most > stream.FlushAt+300 {
			t.Errorf("%d writes of at most %d bytes", writes, most)
		}
	})
	t.Run("error before the first write", func(t *testing.T) {
		checkError(t, send(serveTexts(t, 3, 10, false, fault.New(fault.Unavailable, "Later")), get("/test")), 503)
	})
	t.Run("error after the first write", func(t *testing.T) {
		defer func() { must.Is[any](t, http.ErrAbortHandler, recover()) }()
		send(serveTexts(t, 1000, 200, false, errors.New("lost")), get("/test"))
	})
}

func TestEntityTagComparison(t *testing.T) {
	for _, test := range []struct {
		header string
		weak   bool
		want   bool
	}{
		{`"3"`, false, true}, {`"4"`, false, false}, {`*`, false, true}, {`"1", "3"`, false, true}, {`W/"3"`, false, false},
		{`W/"3"`, true, true}, {`"1",W/"3"`, true, true}, {`3`, true, false}, {``, false, false}, {`"3`, false, false},
	} {
		t.Run(test.header, func(t *testing.T) {
			if got := namesTag([]string{test.header}, etag(3), test.weak); got != test.want {
				t.Errorf("weak %v: %v", test.weak, got)
			}
		})
	}
}

func TestPublicResponsesAreCacheableWithoutRateLimitHeaders(t *testing.T) {
	s := newReleases(t, []release.Release{released(t, "2.0.0", "win32/x64"), released(t, "2.0.0", "darwin/universal")})
	a := newAPI(t, func(o *Options) {
		o.Releases, o.Rates = s, limit.Rates{Address: limit.Rate{Count: 1000, Per: time.Hour}}
	})
	const check = CheckPath + "?version=1.0.0&arch=x64&platform="
	const private, minute, short, forever = "private, no-cache", "public, max-age=60", "public, max-age=300", "public, max-age=31536000, immutable"
	bodies := map[string]string{} // by entity tag
	for _, test := range []struct {
		target, caching string
		status          int
	}{
		{check + "win32", minute, 200}, {check + "linux", minute, 200}, {check + "win32&clientId=a", private, 200},
		{check + "win32&clientId=", private, 400}, {check + "win32&channel=", private, 400}, {CheckPath, private, 400},
		{feeds + "electron/latest.yml", minute, 200}, {feeds + "electron/latest.yml?clientId=a", private, 200},
		{feeds + "electron/latest-mac.yml?arch=x64", minute, 200}, {feeds + "electron/latest-mac.yml?arch=x64&clientId=a", private, 200},
		{feeds + "electron/other.yml", private, 404}, {feeds + "sparkle/appcast.xml", minute, 200}, {feeds + "sparkle/appcast.xml?clientId=a", private, 200},
		{feeds + "squirrel/darwin/x64/1.0.0", minute, 200}, {feeds + "squirrel/darwin/x64/1.0.0?clientId=a", private, 200},
		{feeds + "squirrel/darwin/x64/2.0.0", minute, 204}, {feeds + "squirrel/win32/x64/1.0.0/RELEASES", minute, 200},
		{feeds + "squirrel/win32/x64/1.0.0/RELEASES?clientId=a", private, 200}, {feeds + "tauri/windows/x86_64/1.0.0", minute, 200},
		{feeds + "tauri/linux/x86_64/1.0.0?clientId=a", private, 204}, {"/docs/" + a.reference.script, forever, 200}, {"/docs/other.js", private, 404},
		{"/docs", private, 200}, {prefix + "/openapi.json", short, 200},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			request := func(headers ...string) *httptest.ResponseRecorder {
				return send(a, newRequest(method, test.target, nil, headers...))
			}
			first := request()
			tag := first.Header().Get("Etag")
			if first.Code != test.status || (tag != "") != (test.status == 200) {
				t.Errorf("%s %s: %d with the entity tag %q", method, test.target, first.Code, tag)
			}
			responses := []*httptest.ResponseRecorder{first}
			if tag != "" {
				if body := first.Body.String(); method == http.MethodGet {
					if was, known := bodies[tag]; known && was != body {
						t.Errorf("%s has the entity tag %s of another body", test.target, tag)
					}
					bodies[tag] = body
				}
				other, same := request(`If-None-Match: "other"`), request("If-None-Match: "+tag)
				if other.Code != 200 || same.Code != http.StatusNotModified || same.Body.Len() > 0 {
					t.Errorf("%s %s: with another entity tag %d, with its own %d %s", method, test.target, other.Code, same.Code, same.Body)
				}
				responses = append(responses, other, same)
			}
			for _, w := range responses {
				if got := w.Header().Get("Cache-Control"); got != test.caching || w.Header().Get("X-Request-Id") == "" {
					t.Errorf("%s %s: %d %v, want %s", method, test.target, w.Code, w.Header(), test.caching)
				}
				limited := test.caching == private && test.target != "/docs" // which has no limit
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
					if w.Header().Get(name) != "" != limited {
						t.Errorf("%s %s: %d has %s: %t", method, test.target, w.Code, name, !limited)
					}
				}
			}
		}
	}
	checkHeader(t, send(a, get(feeds+"electron/latest.yml", stagingHeader+": a")).Header(),
		map[string]string{"Cache-Control": private, "Vary": stagingHeader})
}

// failingFlusher is a response whose flushes fail.
type failingFlusher struct{ *httptest.ResponseRecorder }

func (failingFlusher) FlushError() error { return net.ErrClosed }

func TestFlushReturnsItsError(t *testing.T) {
	c := &call{w: failingFlusher{httptest.NewRecorder()}}
	must.FailIs(t, http.NewResponseController(c).Flush(), net.ErrClosed)
	must.Is(t, http.StatusOK, c.status)
}
