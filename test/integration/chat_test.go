package integration

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/test/collabd"
	"collab/test/contract/provider"
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
	key    string // the beginning of its text
	text   string
	input  int64 // tokens of its text
	output int64 // tokens that it requests

	held  <-chan struct{} // the provider waits for it
	steps provider.Script // instead of all that, where there are any

	allowed atomic.Int64  // the output that the provider was allowed
	seen    chan struct{} // closed when the provider has seen it
}

// uses returns the tokens that the request uses: its input and all output that it was allowed, or none if it was refused.
func (a *chatRequest) uses() chat.Usage {
	if a.allowed.Load() == 0 {
		return chat.Usage{}
	}
	return chat.Usage{Input: a.input, Output: a.allowed.Load()}
}

// estimate returns the number of tokens that a server reserves for a text.
func estimate(text string) int64 {
	return chat.Call{Turns: []chat.Turn{{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: text}}}}}.Estimate()
}

// minInput is the number of tokens of the shortest text that can name any request.
var minInput = estimate("zzzzzz")

// request makes a request whose text has the tokens of input.
func (w *chatTest) request(input, output int64) *chatRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := strconv.FormatInt(int64(len(w.requests)), 36)
	text := key + strings.Repeat(".", max(0, 3*int(input-estimate(""))-len(key)))
	a := &chatRequest{key: key, text: text, input: estimate(text), output: output, seen: make(chan struct{})}
	if a.input != input {
		w.Errorf("the text of %d comes to %d", input, a.input)
	}
	w.requests[key] = a
	return a
}

// taken records that the provider has received a message, and returns its request.
func (w *chatTest) taken(message string, allowed int64) *chatRequest {
	w.mu.Lock()
	a := w.requests[strings.TrimRight(message, ".")]
	w.mu.Unlock()
	if a == nil || !a.allowed.CompareAndSwap(0, allowed) {
		w.Errorf("the provider was asked %.20q, which is unknown or was asked before", message)
		return &chatRequest{steps: provider.Script{provider.Refuse(400, "invalid_request_error", "No")}}
	}
	close(a.seen)
	return a
}

// saw waits until the provider has received the request.
func (a *chatRequest) saw(t testing.TB) bool {
	select {
	case <-a.seen:
		return true
	case <-time.After(patience):
		t.Errorf("the provider does not see the request %s", a.key)
		return false
	}
}

// plan returns what the provider does with a request.
func (w *chatTest) plan(r provider.Request) provider.Script {
	switch a := w.taken(r.Message, r.MaxTokens); {
	case a.steps != nil:
		return a.steps
	default:
		u := a.uses()
		script := provider.Script{provider.SetUsage(provider.Usage{Input: u.Input, Output: u.Output}), provider.Text("Here")}
		if a.held != nil {
			script = append(script, provider.Hold(a.held))
		}
		return append(script, provider.Text(" it is"))
	}
}

// chatTest has servers, the model provider that they use, and their database.
type chatTest struct {
	testing.TB
	servers  []*collabd.Server
	database *gormdb.DB
	rows     *sql.DB
	day      quota.Day

	mu       sync.Mutex
	requests map[string]*chatRequest // by their keys; guarded by mu
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
func today(t testing.TB) quota.Day {
	t.Helper()
	now := time.Now()
	d := quota.DayOf(now)
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
	text, _ := json.Marshal(map[string]any{"message": a.text, "maxTokens": a.output, "model": model}) // a map of texts and numbers
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

// chatClient is the HTTP client of all requests for chats. It keeps a connection for each of 256.
var chatClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// over sends a request to the servers by turns, in both protocols by turns, and calls answered
// once it is known whether it was admitted. It returns the usage that the client receives.
func (w *chatTest) over(n int, who member, a *chatRequest, answered func()) (u chat.Usage, err error) {
	s, model := w.servers[n%len(w.servers)], chatModels[n/2%2]
	r, err := who.client.At(s).Request(w.Context(), "POST", "/chat", json.RawMessage(a.body(model)))
	if err != nil {
		return u, err
	}
	res, err := chatClient.Do(r)
	if err != nil {
		return u, err
	}
	defer res.Body.Close()
	answered()
	if res.StatusCode != http.StatusOK {
		text, err := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusForbidden {
			err = fmt.Errorf("%d %s, %v", res.StatusCode, text, err)
		}
		return u, err
	}
	f, err := last(bufio.NewReader(res.Body))
	if err == nil && f.Type != "done" {
		err = fmt.Errorf("the stream ends with %+v", f)
	}
	return chat.Usage{Input: f.Usage.InputTokens, Output: f.Usage.OutputTokens}, err
}

// spend counts tokens as used, by a request of its own.
func (w *chatTest) spend(who member, tokens int64) {
	w.Helper()
	err := w.database.Usage().Ledger().Settle(w.Context(), who.org, usage.Entry{
		ID: id.Request((system.IDs{}).New()), Org: who.org, User: who.user, At: w.day.Start(), Model: "before", Provider: "before",
		Tokens: chat.Usage{Input: tokens}, Provenance: chat.Provider, Outcome: chat.Completed,
	})
	if err != nil {
		w.Fatalf("%d tokens could not be spent: %v", tokens, err)
	}
}

// spent returns the entries of calls in the ledger, and the use of each user, earlier use included.
func (w *chatTest) spent(all []member) (calls []usage.Entry, used map[id.User]int64) {
	w.Helper()
	orgs := map[id.Org]bool{}
	used = map[id.User]int64{}
	for _, who := range all {
		if orgs[who.org] {
			continue
		}
		orgs[who.org] = true
		err := w.database.Usage().Ledger().Entries(w.Context(), who.org, usage.Period{Start: w.day.Start(), End: w.day.End()}, func(e usage.Entry) error {
			used[e.User] += e.Tokens.Total()
			if e.Model != "before" {
				calls = append(calls, e)
			}
			return nil
		})
		if err != nil {
			w.Error(err)
		}
	}
	return calls, used
}

// leases counts the stored leases.
func (w *chatTest) leases() (n int) {
	w.Helper()
	if err := w.rows.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM quota_leases").Scan(&n); err != nil {
		w.Error(err)
	}
	return n
}

// settled waits until nothing is reserved, and checks that there is one line of
// the log for each entry of the ledger, that each account is the sum of its
// entries, and that servers return it. It returns the numbers of entries by outcome, without those
// of spend.
func (w *chatTest) settled(all ...member) map[chat.Outcome]int {
	w.Helper()
	for deadline := time.Now().Add(patience); w.leases() > 0 && time.Now().Before(deadline); {
		time.Sleep(retryDelay)
	}
	if n := w.leases(); n > 0 {
		w.Errorf("%d leases are left", n)
	}
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
