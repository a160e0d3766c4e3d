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
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	scripted "collab/test/contract/provider"
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

// said numbers the messages of all cases.
var said memory.IDs

// overuser is a provider that uses any part of what a message may, up to ten times
// as much, and pauses its answers for as long as it is asked on. It knows each call
// by its message.
type overuser struct {
	stage *stage
	draw  func(from, to int) int
	mu    sync.Mutex
	calls map[string]*overused // guarded by mu
}

// overused is what is known of a call.
type overused struct {
	input    int64 // our estimate of it
	used     scripted.Usage
	last     scripted.Usage
	excess   int64 // of the last message over its own maximum
	messages int
}

// script plays a message.
func (o *overuser) script(r scripted.Request) scripted.Script {
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
	fails := what == 0 // it may be asked again
	u := scripted.Usage{Output: r.MaxTokens * tenths / 10, Searches: n * min(tenths, 10) / 10}
	if fails {
		u.Output, u.Searches = 1, 0 // as every message begins; the rest comes at the end
	}
	u.Input = max(0, most*tenths/10-u.Output)
	c.messages++
	c.excess = max(0, u.Input+u.Output-most)
	if fails {
		c.used, c.last = scripted.Usage{}, scripted.Usage{} // the next message begins anew
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

// chat makes a call and returns what it used and by how much its last message passed
// its own maximum; admitted is false where the quota has no room.
func (o *overuser) chat(ctx context.Context, message string, search bool) (excess int64, admitted bool, err error) {
	request := chat.Request{Message: message, WebSearch: search}
	model, err := o.stage.Registry.Find("")
	if err != nil {
		return 0, false, err
	}
	call, err := request.Call(model)
	if err != nil {
		return 0, false, err
	}
	o.mu.Lock()
	c := &overused{input: call.Estimate()}
	o.calls[message] = c
	o.mu.Unlock()
	admission, err := o.stage.Admit(ctx, o.stage.ada, request)
	if fault.Is(err, fault.Forbidden) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	admission.Run(ctx, &listener{})
	o.mu.Lock()
	defer o.mu.Unlock()
	return c.excess, true, nil
}

// nextDay begins a day on which the member has used all but some of the limit, which
// it returns.
func (o *overuser) nextDay(ctx context.Context, left int64) (limit int64, err error) {
	o.stage.Clock.Advance(24 * time.Hour)
	sub, err := o.stage.Store.Directory().Subscriptions().Get(ctx, o.stage.ada.Org)
	if err != nil {
		return 0, err
	}
	limit = sub.At(o.stage.Clock.Now()).DailyTokens()
	day := quota.DayOf(o.stage.Clock.Now())
	l := quota.Lease{ID: id.Request("before " + day), Org: o.stage.ada.Org, User: o.stage.ada.User, Day: day, ExpiresAt: o.stage.Clock.Now().Add(time.Hour)}
	if l.Tokens, err = o.stage.Store.Usage().Quotas().Reserve(ctx, l, limit, quota.Need{Output: limit - left}); err != nil {
		return 0, err
	}
	return limit, o.stage.Store.Usage().Ledger().Settle(ctx, l.Org, usage.Entry{ID: l.ID, Org: l.Org, User: l.User, At: l.Day.Start(), Tokens: chat.Usage{Output: limit - left}})
}

// unrecorded are analytics of calls that run at the same time, which are not read.
type unrecorded struct{}

func (unrecorded) Record(chat.Generation) {}

// overusing has a provider behind a real adapter overuse.
func overusing(t *testing.T, p protocol) *overuser {
	t.Helper()
	server := scripted.Start(t)
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	models, err := p.open(server, &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	o := &overuser{stage: onStage(t, models, 0), calls: map[string]*overused{}}
	o.stage.Chats.Generations = unrecorded{}
	server.Choose(o.script)
	return o
}

// TestNoSequenceOfCallsPassesTheLimitByMoreThanOneMessage: whatever a provider
// reports, on any day a member has used at most the limit, and what the one message
// that passed it reported beyond its own maximum.
func TestNoSequenceOfCallsPassesTheLimitByMoreThanOneMessage(t *testing.T) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			o := overusing(t, p)
			ctx := t.Context()
			rapid.Check(t, func(rt *rapid.T) {
				o.draw = func(from, to int) int { return rapid.IntRange(from, to).Draw(rt, "of the provider") }
				limit, err := o.nextDay(ctx, rapid.OneOf(rapid.Int64Range(1, 5000), rapid.Int64Range(1, 500_000)).Draw(rt, "left"))
				if err != nil {
					rt.Fatal(err)
				}
				for range rapid.IntRange(1, 8).Draw(rt, "calls") {
					before, err := o.stage.account(ctx)
					if err != nil {
						rt.Fatal(err)
					}
					excess, admitted, err := o.chat(ctx, "Hello, "+said.New(), p.Protocol == scripted.Messages && rapid.IntRange(0, 3).Draw(rt, "searches") > 0)
					if err != nil {
						rt.Fatal(err)
					}
					after, err := o.stage.account(ctx)
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

// TestCallsAtOncePassTheLimitByOneMessageEach: several calls that run at the same
// time are each within their own reservation but for the last message of each.
func TestCallsAtOncePassTheLimitByOneMessageEach(t *testing.T) {
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			o := overusing(t, p)
			random := rand.New(rand.NewPCG(1, 2))
			o.draw = func(from, to int) int { return from + random.IntN(to-from+1) } // under mu
			ctx := t.Context()
			for day := range 20 {
				limit, err := o.nextDay(ctx, int64(10_000*(1+day)))
				if err != nil {
					t.Fatal(err)
				}
				var all sync.WaitGroup
				var mu sync.Mutex
				var excess int64
				for caller := range 6 {
					all.Go(func() {
						for n := range 4 {
							e, _, err := o.chat(ctx, fmt.Sprintf("Hello, %d on day %d for the %d. time", caller, day, n), p.Protocol == scripted.Messages)
							mu.Lock()
							excess += e
							if err != nil {
								t.Error(err)
							}
							mu.Unlock()
						}
					})
				}
				all.Wait()
				if a, err := o.stage.account(ctx); err != nil || a.Reserved != 0 || a.Used > limit+excess {
					t.Fatalf("the account of day %d is %+v, %v; the limit is %d, and messages used %d beyond their maxima", day, a, err, limit, excess)
				}
			}
		})
	}
}
