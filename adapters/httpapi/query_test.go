package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/httpapi/body"
	"collab/domain/org"
	"collab/domain/task"
	"collab/test/must"
)

func TestCursorRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := body.Position{Rank: rapid.Int64().Draw(t, "rank"), ID: someID}
		if rapid.Bool().Draw(t, "timed") {
			p.At = anyTime.Draw(t, "at")
		}
		got, ok := body.ParseCursor(p.Cursor())
		if !ok || got != p {
			t.Fatalf("%+v is parsed as %+v, %v", p, got, ok)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add("MC4uMDE5OGExYjI")
	f.Add(body.Position{Rank: -5, At: time.UnixMilli(1), ID: someID}.Cursor())
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := body.ParseCursor(text); ok {
			again, ok := body.ParseCursor(p.Cursor())
			if !ok || again != p {
				t.Fatalf("%q is %+v, then %+v", text, p, again)
			}
		}
	})
}

func TestListQueriesAreStrict(t *testing.T) {
	var got task.Filter
	a := serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		q, p, err := c.listQuery("status", "priority", "assigneeId", "workspaceId", "tags", "dueBefore", "dueAfter", "sort")
		if err != nil {
			return err
		}
		if got, err = readTaskFilter(q, p); err != nil {
			return err
		}
		return c.succeed()
	})
	for query, want := range map[string]string{
		"stauts=DONE":                      `"stauts" is not a parameter of this endpoint`,
		"status=done":                      "status must be one of TODO, IN_PROGRESS, DONE, CANCELLED",
		"status=":                          "status must be one of TODO, IN_PROGRESS, DONE, CANCELLED",
		"status=DONE&status=TODO":          "status must not be repeated",
		"priority=9":                       "priority must be one of LOW, MEDIUM, HIGH, URGENT",
		"tags=":                            "tags must name 1 to 50 tags",
		"tags=,%20,":                       "tags must name 1 to 50 tags",
		"tags=" + strings.Repeat("a,", 51): "tags must name 1 to 50 tags",
		"dueBefore=soon":                   "dueBefore must be a date or an RFC 3339 time",
		"dueAfter=2026-13-01":              "dueAfter must be a date or an RFC 3339 time",
		"sort=oldest":                      "sort must be one of newest",
		"sort=newest&status=DONE":          "sort must not be given with filters",
		"sort=newest&assigneeId=null":      "sort must not be given with filters",
		"limit=0":                          "limit must be an integer between 1 and 1000",
		"limit=1001":                       "limit must be an integer between 1 and 1000",
		"limit=ten":                        "limit must be an integer between 1 and 1000",
		"limit=":                           "limit must be an integer between 1 and 1000",
		"cursor=x":                         "cursor must be one that this list gave out",
		"cursor=":                          "cursor must be one that this list gave out",
		"%zz":                              "The query could not be read",
		"a=1&b=2":                          `"a" is not a parameter of this endpoint`,
	} {
		t.Run(query, func(t *testing.T) {
			r := get("/test")
			r.URL.RawQuery = query
			must.Is(t, want, checkError(t, send(a, r), 400).Message)
		})
	}

	t.Run("all filters at once", func(t *testing.T) {
		r := get("/test?status=DONE&priority=LOW&assigneeId=null&workspaceId=" + someID + "&tags=a,%20b&dueBefore=2026-01-31&dueAfter=2026-01-01T00:00:00Z&limit=2")
		if w := send(a, r); w.Code != 200 {
			t.Fatal(w.Body)
		}
		if got.Status != task.Done || got.Priority != task.Low || !got.Assignee.Unset || string(got.Workspace.ID) != someID ||
			!slices.Equal(got.Tags, []string{"a", "b"}) || got.DueBefore.String() != "2026-01-31" || got.DueAfter.String() != "2026-01-01T00:00:00.000Z" || got.Limit != 3 || got.After != nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a malformed id selects nothing", func(t *testing.T) {
		if w := send(a, get("/test?assigneeId=me")); w.Code != 200 || got.Assignee.ID != body.NilID || got.Assignee.Unset {
			t.Errorf("%d, got %+v", w.Code, got.Assignee)
		}
	})
}

func TestPageOfLargeRecordsEndsEarly(t *testing.T) {
	const size, records = 100 << 10, 100
	idOf := func(i int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", i) }
	var a *api
	a = serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		q, p, err := c.listQuery()
		if err != nil {
			return err
		}
		key := func(i int) body.Position { return body.Position{ID: idOf(i)} }
		view := func(i int) string { return idOf(i) + strings.Repeat("x", size) }
		return list(a, c, q, p, key, viewAppender(view), func(_ org.Actor, each func(int) error) error {
			for i := range records {
				if idOf(i) <= p.After.ID {
					continue
				}
				if err := each(i); err != nil {
					return err
				}
			}
			return nil
		})
	})
	n, pages := 0, 0
	for next := "/test?limit=1000"; next != ""; pages++ {
		w := send(a, get(next))
		if w.Body.Len() > maxPageBytes+2*size {
			t.Fatalf("%d bytes", w.Body.Len())
		}
		for _, text := range read[[]string](t, w, 200) {
			if !strings.HasPrefix(text, idOf(n)) {
				t.Fatalf("%.40s in the place of %s", text, idOf(n))
			}
			n++
		}
		next = strings.TrimPrefix(strings.TrimSuffix(w.Header().Get("Link"), `>; rel="next"`), "<"+publicURL)
	}
	if n != records || pages < 2 {
		t.Errorf("%d records on %d pages", n, pages)
	}
}
