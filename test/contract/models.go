package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"collab/domain/chat"
	"collab/ports"
	"collab/test/contract/provider"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ModelProvider is models that are ready to be asked.
type ModelProvider struct {
	Models ports.Models
	Model  chat.Model // one of them
	// Server is who they are asked of. Without one they answer what they like, and
	// only what holds for any answer is tested.
	Server *provider.Server

	Searches    bool // the provider has a search of its own, and pauses
	KeepsUsage  bool // the provider may end without a word on usage
	Unreachable ports.Models
}

// recordingSink is a sink that records its calls, and the invalid ones among them.
type recordingSink struct {
	chunks []chat.Chunk
	waits  int
	alive  int
	sent   bool
	wrong  []string

	chunk func(chat.Chunk) error // nil: takes all
	wait  func() error           // likewise

	calls map[string]bool // by their ids, whether a result is to come
	since int             // chunks since the last wait
}

func (h *recordingSink) Chunk(c chat.Chunk) error {
	h.check(c)
	h.chunks = append(h.chunks, c)
	h.since++
	if h.chunk != nil {
		return h.chunk(c)
	}
	return nil
}

func (h *recordingSink) Sent()  { h.sent = true }
func (h *recordingSink) Alive() { h.alive++ }

func (h *recordingSink) Wait() error {
	h.waits++
	h.since = 0
	if h.wait != nil {
		return h.wait()
	}
	return nil
}

// check checks the chunk and its order.
func (h *recordingSink) check(c chat.Chunk) {
	bad := func(format string, args ...any) { h.wrong = append(h.wrong, fmt.Sprintf(format, args...)) }
	if h.calls == nil {
		h.calls = map[string]bool{}
	}
	var want chat.Chunk // with the fields that the type has
	switch c.Type {
	case chat.TextChunk:
		want = chat.Chunk{Type: c.Type, Text: c.Text}
		if c.Text == "" {
			bad("an empty text")
		}
	case chat.CallChunk:
		want = chat.Chunk{Type: c.Type, CallID: c.CallID, Name: c.Name, Args: c.Args, ServerHandled: c.ServerHandled}
		var args map[string]any
		if json.Unmarshal([]byte(c.Args), &args) != nil || args == nil {
			bad("the arguments %q", c.Args)
		}
		if _, twice := h.calls[c.CallID]; twice || c.CallID == "" || c.Name == "" {
			bad("the call %q of %q", c.CallID, c.Name)
		}
		h.calls[c.CallID] = c.ServerHandled
	case chat.ResultChunk:
		want = chat.Chunk{Type: c.Type, CallID: c.CallID, Result: c.Result}
		if !json.Valid([]byte(c.Result)) {
			bad("the result %q", c.Result)
		}
		if !h.calls[c.CallID] {
			bad("a result for %q, which is no call that waits for one", c.CallID)
		}
		h.calls[c.CallID] = false
	default:
		bad("a chunk of the type %q", c.Type)
	}
	if c != want {
		bad("more than a %s has: %+v", c.Type, c)
	}
}

func (h *recordingSink) text() string {
	var b strings.Builder
	for _, c := range h.chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// modelFixture is one sub-test about models.
type modelFixture struct {
	*testing.T
	ModelProvider
	ctx context.Context
	to  *recordingSink
}

// play has the server reply to the next requests by a script, and a new sink record what comes of it.
func (a *modelFixture) play(script ...provider.Step) {
	a.to = &recordingSink{}
	a.Server.SetScripts(script)
}

func (a *modelFixture) call() chat.Call {
	return chat.Call{
		Model: a.Model, MaxTokens: 100, Budget: 1_000_000,
		Turns: []chat.Turn{{Role: chat.User, Blocks: []chat.Block{{Kind: chat.Text, Text: "Hello, who is there?"}}}},
	}
}

// searching is a call that may search.
func (a *modelFixture) searching() chat.Call {
	c := a.call()
	c.WebSearch = true
	return c
}

// wantResponse makes a call and ends the sub-test unless the response is complete and well-formed.
func (a *modelFixture) wantResponse(c chat.Call) chat.Reply {
	a.Helper()
	reply := must.Do(a.stream(c)).Or(a)
	if reply.Stop == "" {
		a.Error("an answer ended without a reason to stop")
	}
	return reply
}

// stream makes a call and checks the order of its chunks.
func (a *modelFixture) stream(c chat.Call) (chat.Reply, error) {
	a.Helper()
	reply, err := a.Models.Stream(a.ctx, c, a.to)
	for _, w := range a.to.wrong {
		a.Error(w)
	}
	return reply, err
}

// wantFailure makes a call and ends the sub-test unless it fails with the kind.
func (a *modelFixture) wantFailure(c chat.Call, kind chat.FailureKind) chat.Reply {
	a.Helper()
	reply, err := a.stream(c)
	var failure *chat.Failure
	if !errors.As(err, &failure) || failure.Kind != kind {
		a.Fatalf("%v came, not a failure of the kind %d", err, kind)
	}
	if failure.Cause == nil {
		a.Error("a failure without a cause says nothing to the log")
	}
	return reply
}

// wantChunks ends the sub-test unless these chunks came.
func (a *modelFixture) wantChunks(want ...chat.Chunk) {
	a.Helper()
	must.Equal(a, want, a.to.chunks) // other chunks came
}

func (a *modelFixture) wantAborted() {
	a.Helper()
	waitFor(a.T, a.Server.Disconnects(), "the end of the provider's work")
}

func textChunk(s string) chat.Chunk { return chat.Chunk{Type: chat.TextChunk, Text: s} }

func toolCall(id, name, args string) chat.Chunk {
	return chat.Chunk{Type: chat.CallChunk, CallID: id, Name: name, Args: args}
}

func searchCall(id, query string) chat.Chunk {
	return chat.Chunk{Type: chat.CallChunk, CallID: id, Name: chat.WebSearch, Args: `{"query":"` + query + `"}`, ServerHandled: true}
}

func result(id, value string) chat.Chunk {
	return chat.Chunk{Type: chat.ResultChunk, CallID: id, Result: value}
}

// Models is the suite of ports.Models. Open returns models of a server that
// plays the scripts, or models without one.
func Models(t *testing.T, open func(t *testing.T, scripts ...provider.Script) ModelProvider) {
	// openIf returns what opens models, and skips those that cannot do what the tests need.
	openIf := func(lacks string, can func(ModelProvider) bool) func(t *testing.T) *modelFixture {
		return func(t *testing.T) *modelFixture {
			t.Parallel()
			p := open(t)
			if !can(p) {
				t.Skip("these models have no " + lacks)
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			t.Cleanup(cancel)
			return &modelFixture{T: t, ModelProvider: p, ctx: ctx, to: &recordingSink{}}
		}
	}
	scripted := func(p ModelProvider) bool { return p.Server != nil }
	runSuite(t, anyModels, openIf("", func(ModelProvider) bool { return true }))
	runSuite(t, scriptedModels, openIf("server whose answers could be set", scripted))
	runSuite(t, searchingModels, openIf("search of their own", func(p ModelProvider) bool { return scripted(p) && p.Searches }))
	runSuite(t, map[string]func(*modelFixture){
		"usage that the provider keeps back is not known": func(a *modelFixture) {
			a.play(provider.NoUsage(), provider.Text("Hello."))
			reply := a.wantResponse(a.call())
			if reply.InputKnown || reply.OutputKnown || reply.Usage != (chat.Usage{}) {
				a.Fatalf("%+v is known", reply)
			}
		},
	}, openIf("way to keep usage back", func(p ModelProvider) bool { return scripted(p) && p.KeepsUsage }))
	runSuite(t, map[string]func(*modelFixture){
		"a provider that cannot be reached is a network failure": func(a *modelFixture) {
			a.Models = a.Unreachable
			if reply := a.wantFailure(a.call(), chat.Network); reply.InputKnown || reply.OutputKnown || a.to.sent {
				a.Errorf("%+v is known, and the request is sent: %v", reply, a.to.sent)
			}
		},
	}, openIf("network", func(p ModelProvider) bool { return p.Unreachable != nil }))
}

// anyModels are the sub-tests for any reply with at least one text.
var anyModels = map[string]func(*modelFixture){
	"an answer is well-formed and its usage known": func(a *modelFixture) {
		reply := a.wantResponse(a.call())
		if !reply.InputKnown || !reply.OutputKnown || reply.Usage.Input < 1 || reply.Usage.Output < 1 || a.to.text() == "" {
			a.Fatalf("%+v with the text %q", reply, a.to.text())
		}
	},
	"no chunk follows the end of the context": func(a *modelFixture) {
		cause := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(a.ctx)
		cancel(cause)
		a.ctx = ctx
		if _, err := a.stream(a.call()); !errors.Is(err, cause) {
			a.Fatalf("%v came, not the cause", err)
		}
		a.wantChunks()
	},
	"an error of the sink ends the answer and is returned unchanged": func(a *modelFixture) {
		full := errors.New("the sink is full")
		a.to.chunk = func(chat.Chunk) error { return full }
		if _, err := a.stream(a.call()); err != full {
			a.Fatalf("%v came, not the sink's error", err)
		}
		if n := len(a.to.chunks); n != 1 {
			a.Fatalf("%d chunks came after an error", n-1)
		}
	},
}

// scriptedModels are the sub-tests for models of a server.
var scriptedModels = map[string]func(*modelFixture){
	"text is passed on unchanged, in its pieces, the empty ones left out": func(a *modelFixture) {
		pieces := []string{strings.Repeat("a long text ", 100_000), "Hello", ", ", "wörld 🦉", "\n\n", `"quoted" \ / \u0041 \n`, "\u2028\u0001\u007f\t", "{\"type\":\"text_delta\"}", " ", "\u00e9e\u0301", "<b>&amp;"}
		a.play(provider.Text(append(pieces, "", "end", "")...), provider.SetUsage(provider.Usage{}))
		a.wantResponse(a.call())
		var want []chat.Chunk
		for _, p := range append(pieces, "end") {
			want = append(want, textChunk(p))
		}
		a.wantChunks(want...)
	},
	"text has nothing that the history of the next request cannot have": func(a *modelFixture) {
		a.play(provider.Text("Hel\x00lo", "\x00", "."), provider.SetUsage(provider.Usage{}))
		a.wantResponse(a.call())
		a.wantChunks(textChunk("Hello"), textChunk("."))
	},
	"a call has an id that no other of the conversation has": func(a *modelFixture) {
		c := a.call()
		c.Turns = append(c.Turns,
			chat.Turn{Role: chat.Assistant, Blocks: []chat.Block{{Kind: chat.ToolUse, ID: "old", Name: "list", Args: "{}"}}},
			chat.Turn{Role: chat.User, Blocks: []chat.Block{{Kind: chat.ToolResult, ID: "old", Text: "nothing"}}})
		a.play(provider.Call("", "list", "{}"), provider.Call("old", "list", "{}"), provider.Call("new", "list", "{}"), provider.Call("new", "list", "{}"),
			provider.Call("n\x00", "list", "{}"), provider.Call(strings.Repeat("x", chat.MaxCallID+1), "list", "{}"))
		a.wantResponse(c)
		a.wantChunks(toolCall("call_2", "list", "{}"), toolCall("call_3", "list", "{}"), toolCall("new", "list", "{}"), toolCall("call_5", "list", "{}"),
			toolCall("call_6", "list", "{}"), toolCall("call_7", "list", "{}"))
	},
	"a call of a tool that no request can name is a failure": func(a *modelFixture) {
		for _, name := range []string{"read file", strings.Repeat("x", 65)} {
			a.play(provider.Text("So"), provider.Call("c1", name, "{}"))
			a.wantFailure(a.call(), chat.OtherFailure)
			a.wantChunks(textChunk("So"))
		}
	},
	"text is passed on at once, and flushed by a wait": func(a *modelFixture) {
		first, second := make(chan struct{}), make(chan struct{})
		a.play(provider.Text("a"), provider.Hold(first), provider.Text("b"), provider.Hold(second), provider.Text("c"))
		a.to.wait = func() error {
			switch a.to.text() {
			case "a":
				close(first)
			case "ab":
				close(second)
			}
			return nil
		}
		a.wantResponse(a.call())
		if a.to.text() != "abc" {
			a.Fatalf("%q came", a.to.text())
		}
	},
	"the sink waits only if nothing more is buffered": func(a *modelFixture) {
		const many = 400
		a.play(provider.Burst(provider.Text(slices.Repeat([]string{"word "}, many)...)))
		a.wantResponse(a.call())
		if len(a.to.chunks) != many || a.to.waits < 1 || a.to.waits > many/4 {
			a.Fatalf("%d waits for %d chunks that came in one piece", a.to.waits, len(a.to.chunks))
		}
	},
	"all data of the provider, and nothing else, calls alive": func(a *modelFixture) {
		held := make(chan struct{})
		a.play(provider.Ping(), provider.Unknown(), provider.Text("a"), provider.Ping(), provider.Unknown(), provider.Hold(held), provider.Ping(), provider.Text("b"))
		signs := 0
		a.to.wait = func() error {
			if a.to.alive == signs {
				a.Errorf("no sign of life before the wait %d, after %d of them", a.to.waits, signs)
			}
			signs = a.to.alive
			if a.to.text() == "a" && a.to.waits == 1 {
				close(held)
			}
			return nil
		}
		a.wantResponse(a.call())
		a.wantChunks(textChunk("a"), textChunk("b"))
	},
	"a call makes one chunk, once it is complete": func(a *modelFixture) {
		a.play(
			provider.Text("Let me see."), provider.Call("c1", "read_file", "", `{"pa`, `th":`, ` "a\"\u00e4}{`, `"}`), provider.Call("c2", "list", `{ }`),
		)
		c := a.call()
		c.Tools = []chat.Tool{{Name: "read_file", Description: "Reads", Schema: `{"type":"object","properties":{"path":{"type":"string"}}}`}, {Name: "list"}}
		reply := a.wantResponse(c)
		a.wantChunks(textChunk("Let me see."), toolCall("c1", "read_file", `{"path": "a\"\u00e4}{"}`), toolCall("c2", "list", `{ }`))
		if reply.Stop != "tool_use" && reply.Stop != "tool_calls" {
			a.Errorf("it stopped for %q", reply.Stop)
		}
	},
	"a call without arguments has none": func(a *modelFixture) {
		a.play(provider.Call("c1", "list"), provider.Call("c2", "list", "", ""), provider.Call("c3", "list", " "))
		a.wantResponse(a.call())
		a.wantChunks(toolCall("c1", "list", "{}"), toolCall("c2", "list", "{}"), toolCall("c3", "list", "{}"))
	},
	"a call that the limit truncates makes no chunk, and a complete one before it does": func(a *modelFixture) {
		for _, fragments := range [][]string{nil, {""}, {`{"path`}, {`{"path":"a"`}, {`{"path":"a"`, `,`}} {
			a.play(provider.Text("So"), provider.Call("c1", "list", "{}"), provider.Call("c2", "read_file", fragments...), provider.Stop("max_tokens"))
			reply := a.wantResponse(a.call())
			a.wantChunks(textChunk("So"), toolCall("c1", "list", "{}"))
			if reply.Stop != "max_tokens" && reply.Stop != "length" {
				a.Errorf("it stopped for %q", reply.Stop)
			}
		}
	},
	"output that is in no chunk is estimated": func(a *modelFixture) {
		part := strings.Repeat("word ", 1000)
		a.play(provider.Think(part), provider.Text("So"), provider.Call("c1", "list", `{"all":true}`), provider.Call("c2", "write", `{"text":"`, part, part), provider.Cut())
		reply := a.wantFailure(a.call(), chat.Truncated)
		if least := 3 * chat.EstimateText(part); reply.OutputKnown || reply.Unsent < least || reply.Unsent > least+10 {
			a.Errorf("%+v", reply)
		}
	},
	"arguments that are no JSON object are a failure": func(a *modelFixture) {
		for _, args := range []string{`{"path`, `[1]`, `"text"`, `null`, `{} {}`, `{"a":01}`} {
			a.play(provider.Text("So"), provider.Call("c1", "list", args))
			a.wantFailure(a.call(), chat.OtherFailure)
			a.wantChunks(textChunk("So"))
		}
	},
	"the usage is the provider's, with cache reads and writes": func(a *modelFixture) {
		a.play(provider.SetUsage(provider.Usage{Input: 1000, CacheRead: 200, CacheCreated: 30, Output: 4}), provider.Text("Hello."))
		reply := a.wantResponse(a.call())
		want := chat.Reply{Usage: chat.Usage{Input: 1230, CacheRead: 200, CacheCreated: 30, Output: 4}, InputKnown: true, OutputKnown: true, Stop: reply.Stop}
		if reply != want {
			a.Fatalf("got %+v\nwant %+v", reply, want)
		}
	},
	"the request has the maximum of the output": func(a *modelFixture) {
		a.play(provider.SetMaxUsage(5), provider.Text("Hello."), provider.Stop("max_tokens"))
		c := a.call()
		c.MaxTokens = 77
		if reply := a.wantResponse(c); reply.Usage != (chat.Usage{Input: 5, Output: 77}) {
			a.Fatalf("it used %+v", reply.Usage)
		}
	},
	"a refusal to answer is an answer": func(a *modelFixture) {
		a.play(provider.Text("I"), provider.Stop("refusal"))
		if reply := a.wantResponse(a.call()); reply.Stop != "refusal" {
			a.Fatalf("it stopped for %q", reply.Stop)
		}
		a.wantChunks(textChunk("I"))
	},
	"a stream without its end marker is truncated": func(a *modelFixture) {
		for _, script := range []provider.Script{
			{provider.Cut()},
			{provider.Text("Hello"), provider.Cut()},
			{provider.Text("Hello"), provider.Call("c1", "list", "{}"), provider.Cut()},
			{provider.Text("Hello"), provider.Raw("data: {\"type\":\"content_block_de"), provider.Cut()},
			{provider.Text("Hello"), provider.Raw("event: content_block_delta"), provider.Cut()},
			{provider.Text("Hello"), provider.Raw("\n\n\n: comment\n\n"), provider.Cut()},
			{provider.Text("Hello"), provider.Raw("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\ndata: [DO"), provider.Cut()},
		} {
			a.play(script...)
			reply := a.wantFailure(a.call(), chat.Truncated)
			if reply.OutputKnown || reply.Stop != "" {
				a.Errorf("of what was cut off %+v is known", reply)
			}
			if len(script) > 1 && a.to.text() != "Hello" {
				a.Errorf("%q came before", a.to.text())
			}
		}
	},
	"a reason to stop is no end marker": func(a *modelFixture) {
		a.play(provider.SetUsage(provider.Usage{Input: 3, Output: 4}), provider.Text("Hello"), provider.Call("c1", "list", "{}"), provider.Unmarked())
		if reply := a.wantFailure(a.call(), chat.Truncated); reply.Usage != (chat.Usage{Input: 3, Output: 4}) {
			a.Errorf("it used %+v", reply.Usage)
		}
	},
	"a lost connection is a network failure": func(a *modelFixture) {
		for _, script := range []provider.Script{{provider.Drop()}, {provider.Text("Hello"), provider.Drop()}, {provider.Call("c1", "list", `{"a`), provider.Drop()}} {
			a.play(script...)
			a.wantFailure(a.call(), chat.Network)
			for _, c := range a.to.chunks {
				if c != textChunk("Hello") {
					a.Errorf("%+v came before", c)
				}
			}
		}
	},
	"refusals have their kinds, and are not retried": func(a *modelFixture) {
		page := provider.Answer(http.StatusServiceUnavailable, "text/html", "<h1>"+strings.Repeat("down ", 100_000))
		for i, c := range []struct {
			step provider.Step
			kind chat.FailureKind
		}{
			{provider.Refuse(529, "overloaded_error", "Overloaded"), chat.Overloaded},
			{provider.Refuse(503, "api_error", "Try later"), chat.Overloaded},
			{provider.Refuse(500, "overloaded_error", "Overloaded"), chat.Overloaded},
			{page, chat.Overloaded},
			{provider.Refuse(429, "rate_limit_error", "Slow down", "Retry-After", "3600"), chat.RateLimited},
			{provider.Refuse(429, "rate_limit_error", "Slow down"), chat.RateLimited},
			{provider.SpendLimit(), chat.RateLimited},
			{provider.Answer(429, "text/plain", "no"), chat.RateLimited},
			{provider.Answer(502, "text/html", "<h1>Bad Gateway</h1>"), chat.Network},
			{provider.Refuse(500, "api_error", "Internal server error"), chat.OtherFailure},
			{provider.Refuse(401, "authentication_error", "invalid x-api-key"), chat.OtherFailure},
			{provider.Refuse(400, "invalid_request_error", "prompt is too long"), chat.OtherFailure},
			{provider.Refuse(404, "not_found_error", "model: gone"), chat.OtherFailure},
			{provider.Answer(200, "application/json", `{"choices":[]}`), chat.OtherFailure},
			{provider.Answer(200, "text/html", "<h1>Sign in</h1>"), chat.OtherFailure},
			{provider.Refuse(307, "moved", "", "Location", "?again"), chat.OtherFailure},
		} {
			a.play(c.step)
			if reply := a.wantFailure(a.call(), c.kind); reply != (chat.Reply{}) {
				a.Errorf("of refusal %d %+v is known", i, reply)
			}
			if n := len(a.Server.Requests()); n != i+1 {
				a.Fatalf("%d requests were made for %d calls", n, i+1)
			}
			a.wantChunks()
		}
	},
	"an error in the stream has its kind, after the previous chunks": func(a *modelFixture) {
		for kind, want := range map[string]chat.FailureKind{"overloaded_error": chat.Overloaded, "rate_limit_error": chat.RateLimited, "api_error": chat.OtherFailure, "whatever": chat.OtherFailure} {
			for _, script := range []provider.Script{
				{provider.Fail(kind, "It went wrong")},
				{provider.Text("Hello"), provider.Fail(kind, "It went wrong")},
				{provider.Call("c1", "list", `{"a`), provider.Fail(kind, strings.Repeat("wrong ", 1000))},
			} {
				a.play(script...)
				if reply := a.wantFailure(a.call(), want); reply.OutputKnown {
					a.Errorf("of what failed %+v is known", reply)
				}
				for _, c := range a.to.chunks {
					if c != textChunk("Hello") {
						a.Errorf("%+v came before", c)
					}
				}
			}
		}
	},
	"a failure contains no text of the conversation": func(a *modelFixture) {
		const secret = "the owl sleeps in the old barn"
		for i, script := range []provider.Script{
			{provider.Refuse(400, "invalid_request_error", "prompt is too long: "+secret)},
			{provider.Refuse(429, secret, secret, "Request-Id", secret, "X-Request-Id", secret)},
			{provider.Answer(400, "text/plain", secret)},
			{provider.Answer(400, "application/json", `["`+secret+`"]`)},
			{provider.Answer(400, "application/json", `{"error":"`+secret+`"}`)},
			{provider.Answer(400, "application/json", `{"type":"error","error":{"type":{"a":"`+secret+`"},"message":"`+secret+`","code":"`+secret+`"}}`)},
			{provider.Answer(200, "text/plain; a=\""+secret+"\"", secret)},
			{provider.Text("Hello"), provider.Fail("invalid_request_error", secret)},
			{provider.Text("Hello"), provider.Fail(secret, secret)},
			{provider.Raw("event: error\ndata: {\"type\":\"error\",\"error\":\"" + secret + "\"}\n\n")},
			{provider.Raw("data: " + secret + "\n\n")},
			{provider.Raw("data: {\"type\":{\"a\":\"" + secret + "\"},\"choices\":\"" + secret + "\"}\n\n"), provider.Cut()},
			{provider.Call(secret, secret, `{"query": "`+secret), provider.Text("so it is")},
			{provider.Call("c1", secret, `["`+secret+`"]`)},
			{provider.Call("c1", "list", `"`+secret+`"`)},
			{provider.Text(secret), provider.Cut()},
			{provider.Text(secret), provider.Raw("data: {\"" + secret), provider.Cut()},
			{provider.Text(secret), provider.Drop()},
		} {
			a.play(script...)
			c := a.call()
			c.System, c.Turns[0].Blocks[0].Text = secret, secret
			_, err := a.stream(c)
			var failure *chat.Failure
			if !errors.As(err, &failure) {
				a.Errorf("of the answer %d came %v", i, err)
			} else if text := fmt.Sprintf("%v %+v", failure, failure.Cause); strings.Contains(text, "owl") {
				a.Errorf("of the answer %d the log has %s", i, text)
			}
		}
	},
	"an event that is no JSON is a failure": func(a *modelFixture) {
		for _, raw := range []string{"data: {\"type\":\n\n", "data: hello\n\n", "data: {}}\n\n", "data: \x00\n\n"} {
			a.play(provider.Text("Hello"), provider.Raw(raw), provider.Text(" again"))
			a.wantFailure(a.call(), chat.OtherFailure)
			a.wantChunks(textChunk("Hello"))
		}
	},
	"an unbounded event is a failure": func(a *modelFixture) {
		a.play(provider.Text("Hello"), provider.Raw("data: "+strings.Repeat("x", 9<<20)), provider.Silence())
		a.wantFailure(a.call(), chat.OtherFailure)
		a.wantChunks(textChunk("Hello"))
		a.wantAborted()
	},
	"the end of the context ends the provider's request": func(a *modelFixture) {
		cause := errors.New("the client went away")
		for name, script := range map[string]provider.Script{
			"before the answer": {provider.HoldBack(nil)},
			"in a silence":      {provider.Text("Hello"), provider.Silence()},
			"in a flood":        {provider.Flood(1<<30, "word ")},
		} {
			parent := a.ctx
			ctx, cancel := context.WithCancelCause(parent)
			a.ctx, a.to = ctx, &recordingSink{}
			a.Server.Choose(func(provider.Request) provider.Script {
				if name == "before the answer" {
					cancel(cause)
				}
				return script
			})
			a.to.wait = func() error {
				if len(a.to.chunks) > 0 {
					cancel(cause)
				}
				return nil
			}
			reply, err := a.stream(a.call())
			if !errors.Is(err, cause) {
				a.Fatalf("%s: %v came, not the cause", name, err)
			}
			if reply.OutputKnown || !a.to.sent {
				a.Errorf("%s: of what was given up %+v is known, and the request is sent: %v", name, reply, a.to.sent)
			}
			a.wantAborted()
			a.ctx = parent
			cancel(nil)
		}
	},
	"an error of the sink ends the provider's request": func(a *modelFixture) {
		full := errors.New("the sink is full")
		for _, refuse := range []func(){
			func() { a.to.chunk = func(chat.Chunk) error { return full } },
			func() { a.to.wait = func() error { return full } },
		} {
			a.play(provider.Text("Hello"), provider.Silence())
			refuse()
			if _, err := a.stream(a.call()); err != full {
				a.Fatalf("%v came, not the sink's error", err)
			}
			a.wantChunks(textChunk("Hello"))
			a.wantAborted()
		}
	},
	"every valid history is accepted by the provider": func(a *modelFixture) {
		use := func(id, name, args string) chat.Block {
			return chat.Block{Kind: chat.ToolUse, ID: id, Name: name, Args: args}
		}
		answer := func(id, text string, isError bool) chat.Block {
			return chat.Block{Kind: chat.ToolResult, ID: id, Text: text, IsError: isError}
		}
		text := func(s string) chat.Block { return chat.Block{Kind: chat.Text, Text: s} }
		c := a.call()
		c.System = "Be brief.\n"
		c.Turns = []chat.Turn{
			{Role: chat.User, Blocks: []chat.Block{text("List"), text("the files")}},
			{Role: chat.Assistant, Blocks: []chat.Block{text("Yes."), use("functions.list:0", "list", `{}`), use(strings.Repeat("x", 256), "read", `{"a": "\u0000"}`), use("call_1", "read", `{"b":1}`)}},
			{Role: chat.User, Blocks: []chat.Block{answer("functions.list:0", "", false), answer(strings.Repeat("x", 256), "no such file", true), answer("call_1", " \n", false), text("And?")}},
			{Role: chat.Assistant, Blocks: []chat.Block{use("ünïcödé", "list", `{}`)}},
			{Role: chat.User, Blocks: []chat.Block{answer("ünïcödé", "a.txt", false)}},
		}
		schema := `{"properties": {"b":{"type":"string"}, "a":{}}, "type" : "object", "required":["b"]}`
		for _, tools := range [][]chat.Tool{nil, {{Name: "list"}}, {{Name: "list", Schema: "{}"}, {Name: "read", Description: "Reads a file", Schema: schema}}} {
			a.to = &recordingSink{}
			c.Tools = tools
			a.wantResponse(c)
			body := string(a.Server.Requests()[len(a.Server.Requests())-1].Body)
			for _, want := range []string{"Be brief.", "no such file", "And?", "a.txt", `"b":1`} {
				if !strings.Contains(body, want) && !strings.Contains(body, strings.ReplaceAll(want, `"`, `\"`)) {
					a.Errorf("%q is not in the request", want)
				}
			}
			var compact bytes.Buffer
			must.NoError(a, json.Compact(&compact, []byte(schema)))
			if len(tools) == 2 && !strings.Contains(body, compact.String()) {
				a.Error("the schema is not in the request in the order in which it was given")
			}
		}
	},
	"concurrent calls get their own answers": func(a *modelFixture) {
		const many = 24
		a.Server.Choose(func(r provider.Request) provider.Script {
			return provider.Script{provider.Text("for "), provider.Text(r.Message), provider.Call("c", "list", "{}")}
		})
		for _, err := range concurrently(many, func(i int) error {
			c, to := a.call(), &recordingSink{}
			c.Turns[0].Blocks[0].Text = fmt.Sprint("message ", i)
			if _, err := a.Models.Stream(a.ctx, c, to); err != nil {
				return err
			}
			if want := fmt.Sprint("for message ", i); to.text() != want || len(to.chunks) != 3 || len(to.wrong) > 0 {
				return fmt.Errorf("%v came for %q", to.chunks, want)
			}
			return nil
		}) {
			must.NoError(a, err)
		}
	},
	"any response of the provider makes well-formed chunks": func(a *modelFixture) {
		rapid.Check(a.T, func(t *rapid.T) {
			script, want, whole := someScript(t, a.Searches)
			a.Server.SetScripts(script)
			c, to := a.call(), &recordingSink{}
			c.WebSearch = a.Searches
			_, err := a.Models.Stream(a.ctx, c, to)
			var failure *chat.Failure
			if (err == nil) != whole || err != nil && !errors.As(err, &failure) {
				t.Fatalf("%v came", err)
			}
			if len(to.wrong) > 0 || to.text() != want {
				t.Fatalf("%v\ngot the text %q\nwant %q", to.wrong, to.text(), want)
			}
		})
	},
}

// someScript draws a response, with its text, and whether it is whole.
func someScript(t *rapid.T, searches bool) (s provider.Script, text string, whole bool) {
	ids := 0
	id := func() string { ids++; return fmt.Sprint("id_", ids) }
	word := rapid.StringN(0, 20, -1)
	var step func(depth int) provider.Step
	step = func(depth int) provider.Step {
		kinds := 9
		if searches {
			kinds = 12
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0, 1, 2, 3:
			pieces := rapid.SliceOfN(word, 0, 5).Draw(t, "pieces")
			text += chat.Clean(strings.Join(pieces, ""))
			return provider.Text(pieces...)
		case 4:
			return provider.Ping()
		case 5:
			return provider.Unknown()
		case 6:
			return provider.Think(word.Draw(t, "thought"))
		case 7, 8:
			args := must.Do(json.Marshal(map[string]string{word.Draw(t, "name"): word.Draw(t, "value")})).Or(t)
			at := rapid.IntRange(0, len(args)).Draw(t, "at")
			for at > 0 && at < len(args) && args[at]&0xC0 == 0x80 {
				at-- // a fragment is a text of its own
			}
			return provider.Call(id(), "list", string(args[:at]), string(args[at:]))
		case 9:
			if depth == 2 {
				return provider.Ping()
			}
			return provider.Burst(step(depth+1), step(depth+1))
		case 10:
			return provider.Search(id(), "q", provider.Result{Title: word.Draw(t, "title"), URL: "https://example.com/"})
		case 11:
			return provider.SearchFailed(id(), "q", "unavailable")
		default:
			return provider.Found(id(), `[]`) // of a search that nobody saw
		}
	}
	for range rapid.IntRange(0, 8).Draw(t, "steps") {
		s = append(s, step(0))
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		return append(s, provider.Cut()), text, false
	case 1:
		return append(s, provider.Fail("overloaded_error", "no more")), text, false
	case 2:
		return append(s, provider.Raw("data: {\n\n")), text, false
	case 3:
		return append(s, provider.Call(id(), "list", `{"a`), provider.Stop("max_tokens")), text, true
	}
	return s, text, true
}

// searchingModels are the sub-tests for models of a server that searches and pauses.
var searchingModels = map[string]func(*modelFixture){
	"a search makes a server-handled call and its result": func(a *modelFixture) {
		a.play(
			provider.Text("Let me look."),
			provider.Search("s1", "owls", provider.Result{Title: "Owls \"of\" <Europe>", URL: "https://example.com/owls?a=b&c", PageAge: "2 days ago"}, provider.Result{Title: "Öwls", URL: "https://example.com/2"}),
			provider.Search("s2", "none"),
			provider.Cite("Owls", "https://example.com/owls"), provider.Text("They fly."),
			provider.SetUsage(provider.Usage{Input: 9, Output: 8, Searches: 2}),
		)
		reply := a.wantResponse(a.searching())
		if len(a.to.chunks) != 6 {
			a.Fatalf("%d chunks came", len(a.to.chunks))
		}
		found := a.to.chunks[2].Result
		a.to.chunks[2].Result = ""
		a.wantChunks(textChunk("Let me look."), searchCall("s1", "owls"), result("s1", ""), searchCall("s2", "none"), result("s2", "[]"), textChunk("They fly."))
		var sources []map[string]string
		must.NoError(a, json.Unmarshal([]byte(found), &sources))
		if diff := cmp.Diff([]map[string]string{
			{"title": "Owls \"of\" <Europe>", "url": "https://example.com/owls?a=b&c", "pageAge": "2 days ago"}, {"title": "Öwls", "url": "https://example.com/2"},
		}, sources); diff != "" {
			a.Errorf("other sources (-want +got):\n%s", diff)
		}
		if reply.Usage.Searches != 2 {
			a.Errorf("%d searches were counted", reply.Usage.Searches)
		}
	},
	"the result of a failed search is its error": func(a *modelFixture) {
		a.play(provider.SearchFailed("s1", "owls", "max_uses_exceeded"), provider.Text("Sorry."))
		a.wantResponse(a.searching())
		a.wantChunks(searchCall("s1", "owls"), result("s1", `{"error":"max_uses_exceeded"}`), textChunk("Sorry."))
	},
	"a result without a call, or a second one, makes no chunk": func(a *modelFixture) {
		a.play(provider.Found("s0", "[]"), provider.Search("s1", "owls"), provider.Found("s1", "[]"), provider.Text("So."))
		a.wantResponse(a.searching())
		a.wantChunks(searchCall("s1", "owls"), result("s1", "[]"), textChunk("So."))
	},
	"a paused answer is continued, and the usage is the sum": func(a *modelFixture) {
		a.Server.SetScripts(
			provider.Script{provider.SetUsage(provider.Usage{Input: 10, CacheRead: 5, Output: 20}), provider.Think("Hm."), provider.Text("One"), provider.Cite("Owls", "https://example.com/owls"), provider.Searching("s1", "owls"), provider.Stop("pause_turn")},
			provider.Script{provider.SetUsage(provider.Usage{Input: 100, CacheCreated: 7, Output: 30}), provider.Found("s1", "[]"), provider.Text(", two"), provider.Stop("pause_turn")},
			provider.Script{provider.SetMaxUsage(1000), provider.Text(", three.")},
		)
		reply := a.wantResponse(a.searching())
		a.wantChunks(textChunk("One"), searchCall("s1", "owls"), result("s1", "[]"), textChunk(", two"), textChunk(", three."))
		want := chat.Reply{Usage: chat.Usage{Input: 15 + 107 + 1000, CacheRead: 5, CacheCreated: 7, Output: 20 + 30 + 50, Searches: 1}, InputKnown: true, OutputKnown: true, Stop: "end_turn"}
		if reply != want {
			a.Errorf("got %+v\nwant %+v", reply, want)
		}
		requests := a.Server.Requests()
		for i, want := range []int64{100, 80, 50} {
			if requests[i].MaxTokens != want {
				a.Errorf("message %d was allowed %d tokens, not the %d that were left", i, requests[i].MaxTokens, want)
			}
		}
		for _, want := range []string{`"thinking":"Hm."`, `"signature":"c2lnbmVk"`, `"data":"aGlkZGVu"`, `"encrypted_index":"aW5kZXg="`, `"query":"owls"`, `"text":", two"`} {
			if !strings.Contains(string(requests[2].Body), want) {
				a.Errorf("%s did not go back to the provider", want)
			}
		}
	},
	"a pause at the limit ends the answer": func(a *modelFixture) {
		a.play(provider.SetMaxUsage(10), provider.Text("One"), provider.Stop("pause_turn"))
		if reply := a.wantResponse(a.searching()); reply.Stop != "max_tokens" || len(a.Server.Requests()) != 1 {
			a.Fatalf("%+v after %d requests", reply, len(a.Server.Requests()))
		}
	},
	"each message has the searches and the output that fit into the budget": func(a *modelFixture) {
		c := a.searching()
		c.Input, c.MaxTokens, c.Budget = 1000, 10_000, 200_000
		a.Server.SetScripts(
			provider.Script{provider.SetUsage(provider.Usage{Input: 60_000, Output: 500, Searches: 2}), provider.Text("One"), provider.Stop("pause_turn")},
			provider.Script{provider.Text(", two.")},
		)
		a.wantResponse(c)
		requests := a.Server.Requests()
		for i, want := range []struct{ tokens, searches int64 }{{10_000, 5}, {9500, 2}} {
			if r := requests[i]; r.MaxTokens != want.tokens || r.MaxSearches != want.searches {
				a.Errorf("message %d was allowed %d tokens and %d searches, not %+v", i, r.MaxTokens, r.MaxSearches, want)
			}
		}
	},
	"a pause ends the answer if the budget does not allow another message": func(a *modelFixture) {
		c := a.searching()
		c.Input, c.Budget = 1000, 50_000
		a.play(provider.SetUsage(provider.Usage{Input: 500_000, Output: 50, Searches: 8}), provider.Text("One"), provider.Stop("pause_turn"))
		if reply := a.wantResponse(c); reply.Stop != "max_tokens" || reply.Usage.Input != 500_000 || len(a.Server.Requests()) != 1 {
			a.Fatalf("%+v after %d requests", reply, len(a.Server.Requests()))
		}
	},
	"there is no search if the budget does not allow one": func(a *modelFixture) {
		c := a.searching()
		c.Input, c.Budget = 1000, 5000
		a.wantResponse(c)
		if r := a.Server.Requests()[0]; r.MaxSearches != 0 || r.MaxTokens != 100 {
			a.Fatalf("%d tokens and %d searches were allowed", r.MaxTokens, r.MaxSearches)
		}
	},
	"the number of pauses is bounded": func(a *modelFixture) {
		a.play(provider.SetUsage(provider.Usage{Input: 1, Output: 1}), provider.Text("On"), provider.Stop("pause_turn"))
		reply := a.wantFailure(a.searching(), chat.OtherFailure)
		if n := int64(len(a.Server.Requests())); n > 20 || reply.Usage.Input != n || reply.Usage.Output != n {
			a.Fatalf("%+v after %d requests", reply, n)
		}
	},
	"a failure after a pause has the usage before it": func(a *modelFixture) {
		for _, after := range []provider.Script{{provider.Refuse(529, "overloaded_error", "no")}, {provider.SetUsage(provider.Usage{}), provider.Fail("overloaded_error", "no")}} {
			a.to = &recordingSink{}
			a.Server.SetScripts(provider.Script{provider.SetUsage(provider.Usage{Input: 10, Output: 20}), provider.Text("One"), provider.Stop("pause_turn")}, after)
			reply := a.wantFailure(a.searching(), chat.Overloaded)
			if !reply.InputKnown || reply.Usage.Input != 10 || reply.Usage.Output < 20 || a.to.text() != "One" {
				a.Errorf("%+v", reply)
			}
		}
	},
}
