package script

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// concurrent is the number of requests sent at the same time.
const concurrent = 16

// together sends the requests at the same time and returns the answers in
// their order.
func (t *talk) together(asks []*request) ([]answer, error) {
	answers := make([]answer, len(asks))
	requests, sent := make([]*http.Request, len(asks)), make([][]byte, len(asks))
	for i, ask := range asks {
		var err error
		if requests[i], sent[i], err = t.prepare(ask); err != nil {
			return nil, err
		}
	}
	var ready, done sync.WaitGroup
	ready.Add(len(asks))
	for i, r := range requests {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			got, err := t.client.Do(r)
			if err != nil {
				answers[i].err = err
				return
			}
			defer got.Body.Close()
			answers[i].status = got.StatusCode
			if answers[i].body, answers[i].err = io.ReadAll(got.Body); answers[i].err != nil {
				return
			}
			if wrong := t.check.exchange(r, sent[i], got, answers[i].body); len(wrong) > 0 {
				answers[i].err = fmt.Errorf("%s %s: %s", r.Method, r.URL.Path, strings.Join(wrong, "; "))
			}
		})
	}
	done.Wait()
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
	}
	return answers, nil
}

type answer struct {
	status int
	body   []byte
	err    error
}

// count returns how many answers have each status.
func count(answers []answer) map[int]int {
	statuses := map[int]int{}
	for _, a := range answers {
		statuses[a.status]++
	}
	return statuses
}

func repeated(n int, ask request) []*request {
	asks := make([]*request, n)
	for i := range asks {
		asks[i] = &ask
	}
	return asks
}

// brings are the lines of a conversation in which a stream tells of n changes.
func brings(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "* replay brings\n< id: <int:epoch>-%d\n< {\"type\": \"file-changed\", ...}\n", i+1)
	}
	return lines.String()
}

func testTogether(t *testing.T, s *server, check *contract) {
	begin := func(t *testing.T, text string) *talk {
		t.Helper()
		t.Parallel()
		d, err := parse("beginning", "== Beginning\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		talk := newTalk(s, check)
		for _, trouble := range talk.hold(d.conversations[0]) {
			t.Fatalf("line %d: %s", trouble.line, trouble.text)
		}
		return talk
	}
	ask := func(t *testing.T, talk *talk, asks []*request) []answer {
		t.Helper()
		answers, err := talk.together(asks)
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	list := func(t *testing.T, talk *talk, target string) []map[string]any {
		t.Helper()
		got := ask(t, talk, []*request{{method: "GET", target: target, as: "anna"}})[0]
		var all []map[string]any
		if err := json.Unmarshal(got.body, &all); err != nil {
			t.Fatalf("%s: %v", got.body, err)
		}
		return all
	}

	t.Run("many who seed an organisation at once make one set", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n* ben signs in to acme as member\n")
		asks := repeated(concurrent, request{method: "POST", target: "/api/v1/auth/seed-onboarding", as: "anna"})
		for i := range asks {
			if i%2 == 1 {
				asks[i] = &request{method: "POST", target: "/api/v1/auth/seed-onboarding", as: "ben"}
			}
		}
		seeded := 0
		for _, a := range ask(t, talk, asks) {
			var got struct{ Seeded bool }
			if err := json.Unmarshal(a.body, &got); err != nil || a.status != 200 {
				t.Fatalf("%d %s: %v", a.status, a.body, err)
			}
			if got.Seeded {
				seeded++
			}
		}
		shared := 0
		for _, team := range list(t, talk, "/api/v1/teams") {
			if team["kind"] == "SHARED" {
				shared++
			}
		}
		if seeded != 1 || shared != 1 {
			t.Errorf("%d answers say seeded, and there are %d shared teams", seeded, shared)
		}
	})

	t.Run("one of many changes to the same version is made", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n> POST /api/v1/tasks as anna\n> {\"title\": \"x\"}\n< 201\n< ETag: <etag:first>\n< {\"id\": \"<id:task>\", ...}\n")
		got := count(ask(t, talk, repeated(concurrent, request{
			method: "PATCH", target: "/api/v1/tasks/<id:task>", as: "anna", body: `{"priority": "HIGH"}`,
			headers: []header{{name: "If-Match", value: "<etag:first>"}},
		})))
		if got[200] != 1 || got[412] != concurrent-1 {
			t.Errorf("answers by status: %v", got)
		}
	})

	t.Run("a key that many use at once makes one task", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n")
		got := count(ask(t, talk, repeated(concurrent, request{
			method: "POST", target: "/api/v1/tasks", as: "anna", body: `{"title": "once"}`,
			headers: []header{{name: "Idempotency-Key", value: "one-<unique>"}},
		})))
		if got[201] < 1 || got[201]+got[409] != concurrent {
			t.Errorf("answers by status: %v", got)
		}
		if all := list(t, talk, "/api/v1/tasks"); len(all) != 1 {
			t.Errorf("there are %d tasks", len(all))
		}
	})

	t.Run("tasks made at once are all there, and the next one goes behind them", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n")
		create := request{method: "POST", target: "/api/v1/tasks", as: "anna", body: `{"title": "x"}`}
		if got := count(ask(t, talk, repeated(concurrent, create))); got[201] != concurrent {
			t.Errorf("answers by status: %v", got)
		}
		create.body = `{"title": "last"}`
		ask(t, talk, []*request{&create})
		all := list(t, talk, "/api/v1/tasks")
		if len(all) != concurrent+1 || all[concurrent]["title"] != "last" {
			t.Errorf("the tasks are %v", all)
		}
	})

	t.Run("one of many files for the same path is stored", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n* ben signs in to acme as member\n")
		asks := repeated(concurrent, request{method: "POST", target: "/api/v1/sync/files", as: "anna", body: `{"path": "a.md", "content": "Anna's"}`})
		for i := range asks {
			if i%2 == 1 {
				asks[i] = &request{method: "POST", target: "/api/v1/sync/files", as: "ben", body: `{"path": "A.MD", "content": "Ben's"}`}
			}
		}
		if got := count(ask(t, talk, asks)); got[201] != 1 || got[409] != concurrent-1 {
			t.Errorf("answers by status: %v", got)
		}
		if all := list(t, talk, "/api/v1/sync/manifest"); len(all) != 1 {
			t.Errorf("there are %d files", len(all))
		}
	})

	t.Run("one of many who merge into the same version of a memory succeeds", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n")
		for version := range 3 {
			got := count(ask(t, talk, repeated(concurrent, request{
				method: "PUT", target: "/api/v1/sync/memory/org", as: "anna",
				body: fmt.Sprintf(`{"content": "x", "expectedVersion": %d}`, version),
			})))
			if got[200] != 1 || got[409] != concurrent-1 {
				t.Errorf("answers by status after version %d: %v", version, got)
			}
		}
	})

	t.Run("changes made at once have a place each in the log", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n> GET /api/v1/sync/changes as anna open as feed\n< 200\n* feed begins\n< id: <int:epoch>-0\n")
		asks := make([]*request, concurrent)
		for i := range asks {
			asks[i] = &request{method: "POST", target: "/api/v1/sync/files", as: "anna", body: fmt.Sprintf(`{"path": "%d.md", "content": "x"}`, i)}
		}
		if got := count(ask(t, talk, asks)); got[201] != concurrent {
			t.Errorf("answers by status: %v", got)
		}
		d, err := parse("replay", "== Replay\n> GET /api/v1/sync/changes as anna open as replay\n> Last-Event-ID: <int:epoch>-0\n< 200\n* replay begins\n"+brings(concurrent))
		if err != nil {
			t.Fatal(err)
		}
		for _, trouble := range talk.hold(d.conversations[0]) {
			t.Errorf("line %d: %s", trouble.line, trouble.text)
		}
	})

	t.Run("two owners who demote each other at once leave one", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n* ben signs in to acme as owner\n")
		ask(t, talk, []*request{
			{method: "PATCH", target: "/api/v1/org/members/<user:ben>/role", as: "anna", body: `{"role": "MEMBER"}`},
			{method: "PATCH", target: "/api/v1/org/members/<user:anna>/role", as: "ben", body: `{"role": "MEMBER"}`},
		})
		owners := 0
		for _, member := range list(t, talk, "/api/v1/org/members") {
			if member["role"] == "OWNER" {
				owners++
			}
		}
		if owners != 1 {
			t.Errorf("there are %d owners", owners)
		}
	})

	t.Run("an address that is invited many times at once is invited once", func(t *testing.T) {
		talk := begin(t, "* anna signs in to acme as owner\n> PUT /api/v1/admin/organisations/<org:acme>/subscription as operator\n> {\"plan\": \"PREMIUM\"}\n< 200\n")
		got := count(ask(t, talk, repeated(concurrent, request{
			method: "POST", target: "/api/v1/org/invite", as: "anna", body: `{"email": "carol-<unique>@example.com", "role": "MEMBER"}`,
		})))
		if got[201] != 1 || got[409] != concurrent-1 {
			t.Errorf("answers by status: %v", got)
		}
	})

	t.Run("reorders that cross each other all succeed, and one of them stands", func(t *testing.T) {
		talk := begin(t, `* anna signs in to acme as owner
> POST /api/v1/tasks as anna
> {"title": "1"}
< 201
< {"id": "<id:one>", ...}
> POST /api/v1/tasks as anna
> {"title": "2"}
< 201
< {"id": "<id:two>", ...}
`)
		var asks []*request
		for range concurrent / 2 {
			asks = append(asks,
				&request{method: "POST", target: "/api/v1/tasks/reorder", as: "anna", body: `{"taskIds": ["<id:one>", "<id:two>"]}`},
				&request{method: "POST", target: "/api/v1/tasks/reorder", as: "anna", body: `{"taskIds": ["<id:two>", "<id:one>"]}`})
		}
		if got := count(ask(t, talk, asks)); got[200] != concurrent {
			t.Errorf("answers by status: %v", got)
		}
		all := list(t, talk, "/api/v1/tasks")
		if len(all) != 2 || all[0]["sortOrder"] != 0.0 || all[1]["sortOrder"] != 1.0 {
			t.Errorf("the tasks stand at %v", all)
		}
	})
}
