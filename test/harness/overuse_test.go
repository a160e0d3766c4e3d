package harness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/anthropic"
	"collab/adapters/memory"
	"collab/adapters/openai"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	scripted "collab/test/contract/provider"
	"collab/test/must"
)

// protocol is an adapter over HTTP.
type protocol struct {
	scripted.Protocol
	open func(server *scripted.Server, client *http.Client) (ports.Models, error)
}

// protocols are those of the adapters over HTTP.
var protocols = map[string]protocol{
	"Messages": {scripted.Messages, func(s *scripted.Server, c *http.Client) (ports.Models, error) {
		return anthropic.New(anthropic.Options{APIKey: "key", URL: s.Anthropic(), Client: c})
	}},
	"chat completions": {scripted.ChatCompletions, func(s *scripted.Server, c *http.Client) (ports.Models, error) {
		return openai.New(openai.Options{URL: s.OpenAI(), Client: c})
	}},
}

// messageNumbers numbers the messages of all cases.
var messageNumbers memory.IDs

// overusingProvider is a provider that reports any usage up to ten times a message's maximum, and
// pauses its answers as often as it is asked to continue. Calls are found by their message.
type overusingProvider struct {
	fixture *chatFixture
	draw    func(from, to int) int
	mu      sync.Mutex
	calls   map[string]*overusingCall // guarded by mu
}

// overusingCall is a call to the provider.
type overusingCall struct {
	input    int64 // our estimate of it
	used     scripted.Usage
	last     scripted.Usage
	excess   int64 // of the last message over its own maximum
	messages int
}

// script returns the response to a message.
func (o *overusingProvider) script(r scripted.Request) scripted.Script {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.calls[r.Message]
	if c == nil {
		return scripted.Script{scripted.Refuse(http.StatusBadRequest, "invalid_request_error", "no such call")}
	}
	n := r.MaxSearches
	input := max(c.input+c.used.Output+12_000*c.used.Searches, c.last.Input/(c.last.Searches+1)+c.last.Output)
	most := (n+1)*input + n*(n+1)/2*12_000 + r.MaxTokens
	tenths := int64(o.draw(0, 10))
	if o.draw(0, 3) == 0 {
		tenths = int64(o.draw(10, 100))
	}
	what := o.draw(0, 9)
	fails := what == 0 // the call may be retried
	u := scripted.Usage{Output: r.MaxTokens * tenths / 10, Searches: n * min(tenths, 10) / 10}
	if fails {
		u.Output, u.Searches = 1, 0 // as every message begins; the rest comes at the end
	}
	u.Input = max(0, most*tenths/10-u.Output)
	c.messages++
	c.excess = max(0, u.Input+u.Output-most)
	if fails {
		c.used, c.last = scripted.Usage{}, scripted.Usage{} // the next message starts from nothing
		return scripted.Script{scripted.SetUsage(u), scripted.Fail("overloaded_error", "no")}
	}
	c.used = scripted.Usage{Input: c.used.Input + u.Input, Output: c.used.Output + u.Output, Searches: c.used.Searches + u.Searches}
	c.last = u
	script := scripted.Script{scripted.SetUsage(u), scripted.Text("So")}
	if what < 7 && r.Protocol == scripted.Messages {
		script = append(script, scripted.Stop("pause_turn"))
	}
	return script
}

// chat makes a call and returns by how many tokens its last message exceeded its own
// maximum; admitted is false if the quota does not suffice.
func (o *overusingProvider) chat(ctx context.Context, message string, search bool) (excess int64, admitted bool, err error) {
	request := chat.Request{Message: message, WebSearch: search}
	model, err := o.fixture.Registry.Find("")
	if err != nil {
		return 0, false, err
	}
	call, err := request.Call(model)
	if err != nil {
		return 0, false, err
	}
	o.mu.Lock()
	c := &overusingCall{input: call.Estimate()}
	o.calls[message] = c
	o.mu.Unlock()
	admission, err := o.fixture.Admit(ctx, o.fixture.ada, request)
	if fault.Is(err, fault.Forbidden) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	admission.Run(ctx, &chatClient{})
	o.mu.Lock()
	defer o.mu.Unlock()
	return c.excess, true, nil
}

// nextDay starts a day on which the member has used the limit but for left tokens. It
// returns the limit.
func (o *overusingProvider) nextDay(ctx context.Context, left int64) (limit int64, err error) {
	o.fixture.Clock.Advance(24 * time.Hour)
	sub, err := o.fixture.Store.Directory().Subscriptions().Get(ctx, o.fixture.ada.Org)
	if err != nil {
		return 0, err
	}
	limit = sub.At(o.fixture.Clock.Now()).DailyTokens()
	day := calendar.DayOf(o.fixture.Clock.Now())
	l := quota.Lease{ID: id.Request("before " + day), Org: o.fixture.ada.Org, User: o.fixture.ada.User, Day: day, ExpiresAt: o.fixture.Clock.Now().Add(time.Hour)}
	if l.Tokens, err = o.fixture.Store.Usage().Quotas().ReserveAt(ctx, o.fixture.ada.Epoch(), l, limit, quota.Need{Output: limit - left}); err != nil {
		return 0, err
	}
	return limit, o.fixture.Store.Usage().Ledger().Settle(ctx, l.Org, usage.Entry{ID: l.ID, Org: l.Org, User: l.User, At: l.Day.Start(), Tokens: chat.Usage{Output: limit - left}})
}

// unrecorded discards the analytics of concurrent calls.
type unrecorded struct{}

func (unrecorded) Record(chat.Generation) {}

// newOverusingProvider returns a provider behind the adapter of the protocol.
func newOverusingProvider(t *testing.T, p protocol) *overusingProvider {
	t.Helper()
	server := scripted.Start(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	models := must.Do(p.open(server, &http.Client{Transport: transport})).Or(t)
	o := &overusingProvider{fixture: newChatFixture(t, models, 0), calls: map[string]*overusingCall{}}
	o.fixture.Chats.Generations = unrecorded{}
	server.Choose(o.script)
	return o
}

// TestNoSequenceOfCallsExceedsTheLimitByMoreThanOneMessage checks that, whatever the
// provider reports, a member uses at most the limit of a day and what the message that
// exceeded it reported beyond its own maximum.
func TestNoSequenceOfCallsExceedsTheLimitByMoreThanOneMessage(t *testing.T) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			o := newOverusingProvider(t, p)
			ctx := t.Context()
			rapid.Check(t, func(rt *rapid.T) {
				o.draw = func(from, to int) int { return rapid.IntRange(from, to).Draw(rt, "of the provider") }
				limit := must.Do(o.nextDay(ctx, rapid.OneOf(rapid.Int64Range(1, 5000), rapid.Int64Range(1, 500_000)).Draw(rt, "left"))).Or(rt)
				for range rapid.IntRange(1, 8).Draw(rt, "calls") {
					before := must.Do(o.fixture.account(ctx)).Or(rt)
					excess, admitted, err := o.chat(ctx, "Hello, "+messageNumbers.New(), p.Protocol == scripted.Messages && rapid.IntRange(0, 3).Draw(rt, "searches") > 0)
					must.NoError(rt, err)
					after, err := o.fixture.account(ctx)
					switch {
					case err != nil:
						rt.Fatal(err)
					case after.Reserved != 0 || !admitted && after != before:
						rt.Fatalf("the account was %+v and is %+v", before, after)
					case admitted && before.Used >= limit:
						rt.Fatalf("a call was admitted with %d of %d used", before.Used, limit)
					case admitted && after.Used > limit+excess:
						rt.Fatalf("%d are used of %d, and the last message used %d beyond its maximum", after.Used, limit, excess)
					}
				}
			})
		})
	}
}

// TestConcurrentCallsExceedTheLimitByOneMessageEach checks that each of several concurrent
// calls stays within its reservation but for its last message.
func TestConcurrentCallsExceedTheLimitByOneMessageEach(t *testing.T) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			o := newOverusingProvider(t, p)
			random := rand.New(rand.NewPCG(1, 2))
			o.draw = func(from, to int) int { return from + random.IntN(to-from+1) } // under mu
			ctx := t.Context()
			for day := range 20 {
				limit := must.Do(o.nextDay(ctx, int64(10_000*(1+day)))).Or(t)
				var all sync.WaitGroup
				var mu sync.Mutex
				var excess int64
				for caller := range 6 {
					all.Go(func() {
						for n := range 4 {
							e, _, err := o.chat(ctx, fmt.Sprintf("Hello, %d on day %d for the %d. time", caller, day, n), p.Protocol == scripted.Messages)
							mu.Lock()
							excess += e
							must.Succeed(t, err)
							mu.Unlock()
						}
					})
				}
				all.Wait()
				if a, err := o.fixture.account(ctx); err != nil || a.Reserved != 0 || a.Used > limit+excess {
					t.Fatalf("the account of day %d is %+v, %v; the limit is %d, and messages used %d beyond their maxima", day, a, err, limit, excess)
				}
			}
		})
	}
}
