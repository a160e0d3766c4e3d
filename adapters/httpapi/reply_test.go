package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
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

func encoded(t rapid.TB, v any) string {
	text := must.Do(appendView(nil, v)).Or(t)
	return string(text)
}

// anyText is any string, with what needs escaping more often than chance has it.
var anyText = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/<>&\b\f\n\r\t\x00\x1f\x7fé\u2027\u2028\u2029😀\ufffd"))))

var anyTime = rapid.Custom(func(t *rapid.T) time.Time {
	return time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms")).UTC()
})

var anyTask = rapid.Custom(func(t *rapid.T) task.Task {
	made, _ := task.New(id.Task(rapid.String().Draw(t, "id")), "o", "creator", task.Draft{Title: "t"}, anyTime.Draw(t, "created"))
	text := rapid.Ptr(anyText, true)
	p := task.Patch{Status: patch.Value(rapid.SampledFrom([]task.Status{task.Todo, task.Done}).Draw(t, "status"))}
	made, _ = made.Apply(p, anyTime.Draw(t, "updated"))
	made.Title = anyText.Draw(t, "title")
	made.Description = text.Draw(t, "description")
	made.Priority = rapid.SampledFrom([]task.Priority{task.Low, task.Urgent}).Draw(t, "priority")
	if s := text.Draw(t, "assignee"); s != nil {
		u := id.User(*s)
		made.Assignee = &u
	}
	if s := text.Draw(t, "workspace"); s != nil {
		w := id.Workspace(*s)
		made.Workspace = &w
	}
	if at := rapid.Ptr(anyTime, true).Draw(t, "due"); at != nil {
		due := task.DueAt(*at)
		if rapid.Bool().Draw(t, "day") {
			due = task.DueOn(*at)
		}
		made.Due = &due
	}
	made.Tags = rapid.SliceOfN(anyText, 0, 3).Draw(t, "tags")
	made.Metadata = rapid.SampledFrom([]string{"", "{}", `{"a":[1.50,"<é>\u2028"]}`}).Draw(t, "metadata")
	made.SortOrder = rapid.Int64().Draw(t, "sortOrder")
	return made
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
	t.Run("an empty one is an empty array", func(t *testing.T) {
		if w := send(serveTexts(t, 0, 1, false, nil), get("/test")); w.Code != 200 || w.Body.String() != "[]\n" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("a long one goes out in parts and is whole", func(t *testing.T) {
		w := &counting{ResponseRecorder: httptest.NewRecorder()}
		serveTexts(t, 1000, 200, false, nil).ServeHTTP(w, get("/test"))
		if all := read[[]string](t, w.ResponseRecorder, 200); len(all) != 1000 {
			t.Fatalf("%d records", len(all))
		}
		if w.writes < 5 || w.most > stream.FlushAt+300 {
			t.Errorf("%d writes of at most %d bytes", w.writes, w.most)
		}
	})
	t.Run("an error before the first part is an ordinary one", func(t *testing.T) {
		refused(t, send(serveTexts(t, 3, 10, false, fault.New(fault.Unavailable, "Later")), get("/test")), 503)
	})
	t.Run("an error after the first part breaks the connection off", func(t *testing.T) {
		defer func() {
			must.Is[any](t, http.ErrAbortHandler, recover())
		}()
		send(serveTexts(t, 1000, 200, false, errors.New("lost")), get("/test"))
	})
	t.Run("a page is held back until its Link header is known", func(t *testing.T) {
		w := send(serveTexts(t, 1000, 200, false, nil), get("/test?limit=500"))
		if link := w.Header().Get("Link"); w.Code != 200 || !strings.HasSuffix(link, `; rel="next"`) {
			t.Errorf("%d %q", w.Code, link)
		}
	})
}

type counting struct {
	*httptest.ResponseRecorder
	writes, most int
}

func (c *counting) Write(b []byte) (int, error) {
	c.writes++
	c.most = max(c.most, len(b))
	return c.ResponseRecorder.Write(b)
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

func TestPublicAnswersAreCacheableWithoutRateLimitHeaders(t *testing.T) {
	s := newReleases(t, []release.Release{released(t, "2.0.0", "win32/x64"), released(t, "2.0.0", "darwin/universal")})
	a := built(t, func(o *Options) {
		o.Releases, o.Rates = s, limit.Rates{Address: limit.Rate{Count: 1000, Per: time.Hour}}
	})
	const check = CheckPath + "?version=1.0.0&arch=x64&platform="
	const private, minute, short, forever = "private, no-cache", "public, max-age=60", "public, max-age=300", "public, max-age=31536000, immutable"
	for _, c := range []struct {
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
			r := httptest.NewRequest(method, c.target, nil)
			first := send(a, r)
			tag := first.Header().Get("Etag")
			if first.Code != c.status || (tag != "") != (c.status == 200) {
				t.Errorf("%s %s: %d with the tag %q", method, c.target, first.Code, tag)
			}
			answers := []*httptest.ResponseRecorder{first}
			if tag != "" {
				r.Header.Set("If-None-Match", `"other"`)
				answers = append(answers, send(a, r))
				r.Header.Set("If-None-Match", tag)
				answers = append(answers, send(a, r))
				if again := answers[2]; answers[1].Code != 200 || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
					t.Errorf("%s %s: with another tag %d, with its own %d %s", method, c.target, answers[1].Code, again.Code, again.Body)
				}
			}
			for _, w := range answers {
				if got := w.Header().Get("Cache-Control"); got != c.caching || w.Header().Get("X-Request-Id") == "" {
					t.Errorf("%s %s: %d %v, want %s", method, c.target, w.Code, w.Header(), c.caching)
				}
				limited := c.caching == private && c.target != "/docs" // which has no limit
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
					if w.Header().Get(name) != "" != limited {
						t.Errorf("%s %s: %d has %s: %t", method, c.target, w.Code, name, !limited)
					}
				}
			}
		}
	}
	r := get(feeds + "electron/latest.yml")
	r.Header.Set(staging, "a")
	if w := send(a, r); w.Header().Get("Cache-Control") != private || w.Header().Get("Vary") != staging {
		t.Errorf("%v", w.Header())
	}
}

var errFlush = errors.New("the connection is gone")

// unflushable is an answer whose connection is gone.
type unflushable struct{ *httptest.ResponseRecorder }

func (unflushable) FlushError() error { return errFlush }

func TestFlushReturnsItsError(t *testing.T) {
	c := &call{w: unflushable{httptest.NewRecorder()}}
	if err := http.NewResponseController(c).Flush(); !errors.Is(err, errFlush) || c.status != http.StatusOK {
		t.Errorf("the error is %v, the status %d", err, c.status)
	}
}
