package integration

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/gormdb"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/must"
	"collab/test/soak"
)

// patience bounds what a test waits for that is to happen at once; it measures
// nothing.
const patience = time.Minute

// chatModels are models of the built-in registry, one for each protocol.
var chatModels = []string{"claude-haiku-5-5", "gpt-6-luna"}

// seeded returns the seed of the test, by which it can be run again.
func seeded(t testing.TB) uint64 {
	t.Helper()
	seed := soak.Seed(t)
	t.Logf("%s=%d", soak.EnvSeed, seed)
	return seed
}

// member is a member who sends requests.
type member struct {
	org    id.Org
	user   id.User
	client collabd.Client // of members who send requests to a server
}

// chatRequest is one request to a model, and the provider's behaviour for it.
type chatRequest struct {
	message string
	steps   provider.Script

	taken atomic.Bool
	seen  chan struct{} // closed when the provider has seen it
}

// request makes a request with a message of its own.
func (w *chatTest) request() *chatRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &chatRequest{message: fmt.Sprint("message ", len(w.requests)), seen: make(chan struct{})}
	w.requests[a.message] = a
	return a
}

// saw waits until the provider has received the request.
func (a *chatRequest) saw(t testing.TB) bool {
	select {
	case <-a.seen:
		return true
	case <-time.After(patience):
		t.Errorf("the provider does not see the %s", a.message)
		return false
	}
}

// plan returns what the provider does with a request.
func (w *chatTest) plan(r provider.Request) provider.Script {
	w.mu.Lock()
	a := w.requests[r.Message]
	w.mu.Unlock()
	if a == nil || !a.taken.CompareAndSwap(false, true) {
		w.Errorf("the provider was asked %.20q, which is unknown or was asked before", r.Message)
		return provider.Script{provider.Refuse(400, "invalid_request_error", "No")}
	}
	close(a.seen)
	return a.steps
}

// chatTest has servers, the model provider that they use, and their database.
type chatTest struct {
	testing.TB
	servers  []*collabd.Server
	database *gormdb.DB
	rows     *sql.DB
	day      calendar.Day

	mu       sync.Mutex
	requests map[string]*chatRequest // by their messages; guarded by mu
}

// withChats runs a test on SQLite with one server and on Postgres with two.
func withChats(t *testing.T, test func(t *testing.T, w *chatTest)) {
	onBoth(t, func(t *testing.T, d database) { test(t, newChatTest(t, d)) })
}

func newChatTest(t *testing.T, d database) *chatTest {
	t.Helper()
	w := &chatTest{TB: t, requests: map[string]*chatRequest{}, day: today(t)}
	model := provider.Start(t)
	model.Choose(w.plan)
	w.servers = d.start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret,
		"COLLAB_ANTHROPIC_API_KEY=key", "COLLAB_ANTHROPIC_URL="+model.Anthropic(), "COLLAB_OPENAI_URL="+model.OpenAI())
	w.database, w.rows = opened(t, d.url), d.rows(t)
	return w
}

// today is the day of the test. Accounts end with it, so that a test that could
// see its end does not begin.
func today(t testing.TB) calendar.Day {
	t.Helper()
	now := time.Now()
	d := calendar.DayOf(now)
	if d.End().Sub(now) < 5*time.Minute {
		t.Skip("the day of the quota ends in a moment")
	}
	return d
}

// member signs a member in.
func (w *chatTest) member(organisation string, n int) member {
	w.Helper()
	role := "member"
	if n == 0 {
		role = "owner"
	}
	c := w.servers[0].SignIn(w, fmt.Sprintf("user%d@%s.example.com", n, strings.ToLower(strings.ReplaceAll(organisation, " ", ""))), organisation, role)
	return member{id.Org(c.Org), id.User(c.User), c}
}

// body returns the request as clients send it.
func (a *chatRequest) body(model string) []byte {
	text, _ := json.Marshal(map[string]any{"message": a.message, "maxTokens": 1000, "model": model}) // a map of texts and numbers
	return text
}

// frame is an event of a stream.
type frame struct {
	Type, Text, Error string
	Usage             struct{ InputTokens, OutputTokens int64 }
}

// next reads a stream up to its next event.
func next(lines *bufio.Reader) (f frame, err error) {
	data, err := nextData(lines)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(data, &f)
}

// nextData returns the data of the next event. It is valid until the stream is read again.
func nextData(lines *bufio.Reader) ([]byte, error) {
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			return data, nil
		}
	}
}

// last reads a stream to its end and returns the last event. It decodes no other event, so that it does not
// slow down the server that it measures.
func last(lines *bufio.Reader) (f frame, err error) {
	var kept []byte
	for {
		data, err := nextData(lines)
		switch {
		case err == io.EOF:
			return f, json.Unmarshal(kept, &f)
		case err != nil:
			return f, err
		case bytes.HasPrefix(kept, []byte(`{"type":"done"`)) || bytes.HasPrefix(kept, []byte(`{"type":"error"`)):
			return f, fmt.Errorf("after %s comes %s", kept, data)
		}
		kept = append(kept[:0], data...)
	}
}

// spent returns the entries of calls in the ledger, and the use of each user.
func (w *chatTest) spent(all []member) (calls []usage.Entry, used map[id.User]int64) {
	w.Helper()
	orgs := map[id.Org]bool{}
	used = map[id.User]int64{}
	for _, who := range all {
		if orgs[who.org] {
			continue
		}
		orgs[who.org] = true
		must.NoError(w, w.database.Usage().Ledger().Entries(w.Context(), who.org, usage.Period{Start: w.day.Start(), End: w.day.End()}, func(e usage.Entry) error {
			used[e.User] += e.Tokens.Total()
			calls = append(calls, e)
			return nil
		}))
	}
	return calls, used
}

// leases counts the stored leases.
func (w *chatTest) leases() (n int) {
	w.Helper()
	must.NoError(w, w.rows.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM quota_leases").Scan(&n))
	return n
}

// settled waits until nothing is reserved, and checks that there is one line of
// the log for each entry of the ledger, that each account is the sum of its
// entries, and that servers return it. It returns the numbers of entries by outcome.
func (w *chatTest) settled(all ...member) map[chat.Outcome]int {
	w.Helper()
	must.Wait(w, "no lease is left", func() bool { return w.leases() == 0 })
	logged := map[string]string{}
	var calls []usage.Entry
	var used map[id.User]int64
	for deadline := time.Now().Add(patience); ; time.Sleep(retryDelay) {
		clear(logged)
		lines := 0
		for _, s := range w.servers {
			for line := range strings.Lines(s.Log()) {
				var g struct{ Msg, ID, Outcome string }
				if strings.Contains(line, `"generation"`) && json.Unmarshal([]byte(line), &g) == nil && g.Msg == "generation" {
					lines++
					logged[g.ID] = g.Outcome
				}
			}
		}
		if lines != len(logged) {
			w.Errorf("%d calls have %d lines of the log", len(logged), lines)
		}
		// The line is logged after the entry is stored.
		if calls, used = w.spent(all); len(logged) >= len(calls) || time.Now().After(deadline) {
			break
		}
	}
	outcomes := map[chat.Outcome]int{}
	for _, e := range calls {
		outcomes[e.Outcome]++
		if logged[string(e.ID)] != string(e.Outcome) {
			w.Errorf("the entry %s is %s, the log has %q", e.ID, e.Outcome, logged[string(e.ID)])
		}
	}
	if len(logged) != len(calls) {
		w.Errorf("there are %d entries of calls, and %d lines of the log", len(calls), len(logged))
	}
	for i, who := range all {
		if a, err := w.database.Usage().Quotas().Account(w.Context(), who.org, who.user, w.day); err != nil || a != (quota.Account{Used: used[who.user]}) {
			w.Errorf("the account of %s is %+v, %v; its entries come to %d", who.user, a, err, used[who.user])
		}
		var q struct{ Used int64 }
		who.client.At(w.servers[i%len(w.servers)]).Must(w, 200, "GET", "/metering/quota", nil, &q)
		var sum struct{ TotalTokens int64 }
		who.client.At(w.servers[(i+1)%len(w.servers)]).Must(w, 200, "GET", "/metering/user", nil, &sum)
		if q.Used != used[who.user] || sum.TotalTokens != used[who.user] {
			w.Errorf("%s is told of %d used today and %d in the period, want %d", who.user, q.Used, sum.TotalTokens, used[who.user])
		}
	}
	return outcomes
}

// within ends the test if wait does not return after twice the time of patience.
func within(t testing.TB, what string, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
	case <-time.After(2 * patience):
		t.Fatalf("timed out waiting until %s ends", what)
	}
}
