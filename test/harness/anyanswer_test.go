package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/chats"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// chatFixture is the use cases of chats, with recorded analytics and observable pauses.
type chatFixture struct {
	*harness.Deployment
	*chats.Chats
	ada         org.Actor
	generations []chat.Generation
	pause       func() // runs while a call waits to be retried
}

// newChatFixture returns a fixture with the model provider, its clock some time after the start.
func newChatFixture(t *testing.T, models ports.Models, after time.Duration) *chatFixture {
	t.Helper()
	c := core(t)
	s := &chatFixture{Deployment: c, ada: newOrganisation(t, c)}
	c.Clock.Advance(after)
	registry := must.Do(chat.NewRegistry([]chat.Model{{
		ID: "owl", DisplayName: "Owl", Provider: "owls", Tier: "standard", ContextWindow: 200_000, MaxOutputTokens: 1000,
		Capabilities: []string{chat.WebSearch}, SearchTool: "web_search_20250305",
	}}, "", func(string) bool { return true })).Or(t)
	s.Chats = chats.New(chats.Options{
		Store: c.Store, Registry: registry, Providers: map[string]ports.Models{"owls": models}, Generations: s,
		Clock: c.Clock, Alarms: &memory.Alarms{Clock: c.Clock}, IDs: c.IDs, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Subscription: c.Access.Subscription, Reauthorize: c.Access.Reauthorize, Origin: access.Origin,
		Pause: func(ctx context.Context, _ int) error {
			if s.pause != nil {
				s.pause()
			}
			return context.Cause(ctx)
		},
	})
	return s
}

func (s *chatFixture) Record(g chat.Generation) { s.generations = append(s.generations, g) }

// entries returns the ledger's entries, and the tokens used by day.
func (s *chatFixture) entries(t rapid.TB) (all []usage.Entry, used map[calendar.Day]int64) {
	now := s.Clock.Now()
	used = map[calendar.Day]int64{calendar.DayOf(now): 0}
	must.NoError(t, s.Store.Usage().Ledger().Entries(context.Background(), s.ada.Org, usage.Period{Start: now.AddDate(0, 0, -2), End: now.AddDate(0, 0, 1)}, func(e usage.Entry) error {
		all = append(all, e)
		used[calendar.DayOf(e.At)] += e.Tokens.Total()
		return nil
	}))
	return all, used
}

// settled fails unless each call has one entry that agrees with its analytics, and the
// accounts have the sum of the entries and no reservations. It returns the last entry.
func (s *chatFixture) settled(t rapid.TB, calls int) usage.Entry {
	all, used := s.entries(t)
	if len(all) != calls || len(s.generations) != calls {
		t.Fatalf("%d calls have %d entries and %d generations", calls, len(all), len(s.generations))
	}
	g := s.generations[calls-1]
	at := slices.IndexFunc(all, func(e usage.Entry) bool { return e.ID == g.ID })
	if at < 0 {
		t.Fatalf("the call %s has no entry", g.ID)
	}
	e := all[at]
	same := usage.Entry{
		ID: g.ID, Org: g.Org, User: g.User, At: g.StartedAt, Model: g.Model, Provider: g.Provider,
		Tokens: g.Usage, Provenance: g.Provenance, Outcome: g.Outcome,
	}
	if e != same || e.Org != s.ada.Org || e.User != s.ada.User || e.Model != "owl" || e.Provider != "owls" {
		t.Fatalf("the entry is %+v, the generation %+v", e, g)
	}
	if g.Duration > s.Clock.Now().Sub(g.StartedAt) || g.FirstChunk > g.Duration || g.Outcome == chat.Completed && g.Failure != "" {
		t.Fatalf("the generation is %+v at %s", g, s.Clock.Now())
	}
	for day, tokens := range used {
		account, err := s.Store.Usage().Quotas().Account(context.Background(), s.ada.Org, s.ada.User, day)
		if err != nil || account != (quota.Account{Used: tokens}) {
			t.Fatalf("the account of %s is %+v, %v; its entries used %d", day, account, err, tokens)
		}
	}
	return e
}

// exit is how a client ends its stream.
type exit int

const (
	stays       exit = iota
	refuses          // Chunk fails
	stalls           // Wait fails
	disconnects      // its request is cancelled
)

// chatClient is a client of a chat. It leaves at a chunk, and records violations of the stream's grammar.
type chatClient struct {
	exit
	at     int // the chunk at which it leaves
	hangUp func()
	ended  func() // called with the last chunk

	mu     sync.Mutex
	chunks []chat.Chunk
	gone   bool // Chunk or Wait failed before the last chunk
	wrong  []string
	calls  map[string]bool // whether a result must follow
	over   bool
}

func (l *chatClient) Chunk(c chat.Chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check(c)
	l.chunks = append(l.chunks, c)
	if l.over && l.ended != nil {
		l.ended()
	}
	if len(l.chunks) != l.at {
		return nil
	}
	switch l.exit {
	case refuses:
		l.gone = !l.over // with the last chunk nothing is missing
		return errors.New("the client is gone")
	case disconnects:
		l.hangUp()
	}
	return nil
}

func (l *chatClient) Wait() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit == stalls && len(l.chunks) >= l.at {
		l.gone = !l.over
		return errors.New("the client is slow")
	}
	return nil
}

// check checks a chunk against the grammar (text | tool_call | tool_result)* (done |
// error), in which a result follows its call.
func (l *chatClient) check(c chat.Chunk) {
	bad := func(what string) { l.wrong = append(l.wrong, fmt.Sprintf("%s: %+v", what, c)) }
	if l.over {
		bad("after the end")
	}
	if l.gone {
		bad("after the client was gone")
	}
	if l.calls == nil {
		l.calls = map[string]bool{}
	}
	switch c.Type {
	case chat.TextChunk:
	case chat.CallChunk:
		var args map[string]any
		if _, twice := l.calls[c.CallID]; twice || json.Unmarshal([]byte(c.Args), &args) != nil || args == nil {
			bad("no call")
		}
		l.calls[c.CallID] = c.ServerHandled
	case chat.ResultChunk:
		if !l.calls[c.CallID] {
			bad("without its call")
		}
		l.calls[c.CallID] = false
	case chat.DoneChunk, chat.ErrorChunk:
		l.over = true
	default:
		bad("of no type")
	}
}

// received returns the number of chunks.
func (l *chatClient) received() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.chunks)
}

// end returns the type of the last chunk; empty: the stream has not ended.
func (l *chatClient) end() chat.ChunkType {
	if !l.over {
		return ""
	}
	return l.chunks[len(l.chunks)-1].Type
}

// estimate returns the estimated output tokens of the chunks.
func (l *chatClient) estimate() (tokens int64) {
	for _, c := range l.chunks {
		switch c.Type {
		case chat.TextChunk:
			tokens += chat.EstimateText(c.Text)
		case chat.CallChunk:
			tokens += chat.EstimateText(c.Name) + chat.EstimateText(c.Args)
		}
	}
	return tokens
}

func drawClient(t *rapid.T) *chatClient {
	return &chatClient{exit: exit(rapid.IntRange(int(stays), int(disconnects)).Draw(t, "exit")), at: rapid.IntRange(1, 6).Draw(t, "leaves at")}
}

// attempt is one response of the scripted model.
type attempt struct {
	steps   []func(*scriptedModel) error
	reach   bool // the provider accepts the call
	leaves  bool // else the client leaves before it says so
	honours bool // it returns when its ctx ends; else its end marker may have arrived already
	reply   chat.Reply
	err     error // nil: complete
	panics  bool
}

// scriptedModel is a model provider that follows the contract of its port. It gives its answers
// in turn, and records the expected outcome.
type scriptedModel struct {
	*chatFixture
	responses []attempt
	to        *chatClient
	hangUp    func()

	sink    ports.Sink
	ctx     context.Context
	asked   int
	cause   chat.Outcome // of the first event that ended the call from outside
	drained bool
	whole   bool
	panics  bool
	failed  error
	used    chat.Usage
	input   bool  // all accepted calls reported their input tokens
	output  bool  // and all their output tokens
	began   bool  // a call was accepted
	left    bool  // the client left before the end of the responses
	sent    bool  // a chunk was sent before a response
	want    int64 // the estimated input tokens
}

func (p *scriptedModel) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	a := p.responses[min(p.asked, len(p.responses)-1)]
	p.asked++
	defer func() { p.left = p.to.gone }()
	p.ctx, p.sink, p.want, p.failed = ctx, to, c.Estimate(), nil
	p.sent = p.sent || p.to.received() > 0
	if a.leaves {
		to.Sent()
		p.disconnect()
	}
	if !a.reach && !(a.leaves && p.cause == chat.ClientGone) {
		return chat.Reply{}, p.fails(a.err)
	}
	began, input, output := p.began, p.input, p.output
	if !p.began {
		p.began, p.input, p.output = true, true, true
	}
	if !a.reach {
		p.input, p.output = false, false
		return chat.Reply{}, context.Cause(ctx)
	}
	p.used, p.input, p.output = p.used.Plus(a.reply.Usage), p.input && a.reply.InputKnown, p.output && a.reply.OutputKnown
	to.Alive()
	for _, step := range a.steps {
		if a.honours && ctx.Err() != nil {
			return a.reply, context.Cause(ctx)
		}
		if err := step(p); err != nil {
			return a.reply, err
		}
	}
	switch {
	case a.panics:
		p.input, p.output = false, false // it has no reply
		p.used = p.used.Plus(chat.Usage{Input: -a.reply.Usage.Input, Output: -a.reply.Usage.Output})
		p.panics = true
		panic("the adapter has a bug")
	case a.honours && ctx.Err() != nil:
		return a.reply, context.Cause(ctx)
	case a.err != nil:
		err := p.fails(a.err)
		var f *chat.Failure
		if errors.As(err, &f) && (f.Kind == chat.Overloaded || f.Kind == chat.RateLimited) && p.to.received() == 0 && a.reply == (chat.Reply{}) {
			p.began, p.input, p.output = began, input, output // a refusal within a stream used nothing
		}
		return a.reply, err
	}
	p.whole = true
	return a.reply, nil
}

// fails returns err, or the cause of ctx if that has ended.
func (p *scriptedModel) fails(err error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	p.failed = err
	return err
}

// ends records what ended the call from outside, if it is the first.
func (p *scriptedModel) ends(how chat.Outcome) {
	if p.cause == "" {
		p.cause = how
	}
}

func (p *scriptedModel) disconnect() {
	p.ends(chat.ClientGone)
	p.hangUp()
}

func (p *scriptedModel) drain() {
	p.ends(chat.ShutDown)
	p.drained = true
	p.Drain()
}

// outcome returns the expected outcome of the call.
func (p *scriptedModel) outcome() chat.Outcome {
	var f *chat.Failure
	switch {
	case p.whole:
		return chat.Completed
	case p.left:
		return chat.ClientGone
	case p.cause != "":
		return p.cause
	case errors.As(p.failed, &f) && f.Kind == chat.Truncated:
		return chat.CutOff
	}
	return chat.Failed
}

// retryable reports whether the call should have been retried.
func (p *scriptedModel) retryable() bool {
	var f *chat.Failure
	return errors.As(p.failed, &f) && f.Retryable() && p.cause == "" && !p.to.gone && p.asked < 3 && p.to.received() == 1 // the error
}

// drawResponse draws a response.
func drawResponse(t *rapid.T) attempt {
	calls := 0
	word := rapid.StringN(1, 12, -1)
	say := func(c chat.Chunk) func(*scriptedModel) error {
		return func(p *scriptedModel) error {
			p.sink.Alive()
			return p.sink.Chunk(c)
		}
	}
	do := func(f func(*scriptedModel)) func(*scriptedModel) error {
		return func(p *scriptedModel) error { f(p); return nil }
	}
	var all []func(*scriptedModel) error
	for range rapid.IntRange(0, 8).Draw(t, "steps") {
		switch rapid.IntRange(0, 11).Draw(t, "step") {
		case 0, 1, 2:
			all = append(all, say(chat.Chunk{Type: chat.TextChunk, Text: word.Draw(t, "text")}))
		case 3:
			calls++
			all = append(all, say(chat.Chunk{Type: chat.CallChunk, CallID: fmt.Sprint("c", calls), Name: "list", Args: `{"a": 1}`}))
		case 4:
			calls++
			call := fmt.Sprint("s", calls)
			all = append(all,
				say(chat.Chunk{Type: chat.CallChunk, CallID: call, Name: chat.WebSearch, Args: `{}`, ServerHandled: true}),
				say(chat.Chunk{Type: chat.ResultChunk, CallID: call, Result: `[]`}))
		case 5: // pings and reasoning
			all = append(all, do(func(p *scriptedModel) { p.sink.Alive() }))
		case 6:
			all = append(all, func(p *scriptedModel) error { return p.sink.Wait() })
		case 7: // time passes, not too much of it at once
			d := time.Duration(rapid.IntRange(1, 59).Draw(t, "seconds")) * time.Second
			all = append(all, do(func(p *scriptedModel) {
				p.Clock.Advance(d)
				p.sink.Alive()
			}))
		case 8: // this server extends its leases, or another one sweeps
			if rapid.Bool().Draw(t, "own") {
				all = append(all, func(p *scriptedModel) error { return p.ExtendLeases(context.Background()) })
			} else {
				all = append(all, func(p *scriptedModel) error {
					return p.Store.Usage().Quotas().Sweep(context.Background(), p.Clock.Now())
				})
			}
		case 9:
			switch rapid.IntRange(0, 3).Draw(t, "end from outside") {
			case 0:
				all = append(all, do((*scriptedModel).disconnect))
			case 1:
				all = append(all, do((*scriptedModel).drain))
			case 2:
				all = append(all, func(p *scriptedModel) error {
					p.ends(chat.TimedOut)
					p.Clock.Advance(10 * time.Minute)
					<-p.ctx.Done()
					return context.Cause(p.ctx)
				})
			}
		}
	}
	tokens := rapid.Int64Range(0, 2000)
	a := attempt{
		steps: all, reach: rapid.IntRange(0, 3).Draw(t, "reach") > 0, honours: rapid.Bool().Draw(t, "heeds"),
		reply: chat.Reply{
			Usage:      chat.Usage{Input: tokens.Draw(t, "input"), Output: tokens.Draw(t, "output")},
			InputKnown: rapid.Bool().Draw(t, "input known"), OutputKnown: rapid.Bool().Draw(t, "output known"),
		},
	}
	if how := rapid.IntRange(0, 9).Draw(t, "end"); how < 5 || !a.reach {
		kind := chat.FailureKind(rapid.IntRange(int(chat.OtherFailure), int(chat.Truncated)).Draw(t, "failure"))
		a.err = &chat.Failure{Kind: kind, Cause: errors.New("it went wrong")}
	} else {
		a.panics = how == 5
	}
	a.leaves = !a.reach && rapid.IntRange(0, 3).Draw(t, "leaves") == 0
	return a
}

// run runs a call and reports whether it panicked.
func run(ctx context.Context, call *chats.Call, to ports.ChunkSink) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call.Run(ctx, to)
	return false
}

// TestCallsAreAnsweredAndSettledOnce draws answers and failures of a
// provider, while its client leaves, its server shuts down and time passes at any step.
func TestCallsAreAnsweredAndSettledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &scriptedModel{}
		p.chatFixture = newChatFixture(t, p, time.Duration(rapid.IntRange(0, 24*60).Draw(rt, "minutes"))*time.Minute)
		all := rapid.IntRange(1, 3).Draw(rt, "calls")
		for calls := 1; calls <= all && !p.drained; calls++ {
			*p = scriptedModel{chatFixture: p.chatFixture, to: drawClient(rt)}
			p.responses = append(rapid.SliceOfN(rapid.Custom(drawResponse), 0, 2).Draw(rt, "failures"), drawResponse(rt))
			p.pause = map[int]func(){0: p.disconnect, 1: p.drain}[rapid.IntRange(0, 12).Draw(rt, "while it pauses")]
			ctx, cancel := context.WithCancel(context.Background())
			p.hangUp = cancel
			p.to.hangUp = func() {
				if !p.to.over {
					p.disconnect()
				}
			}
			p.to.ended = func() { p.settled(rt, calls) } // before the last chunk is sent
			call := must.Do(p.Admit(ctx, p.ada, chat.Request{Message: "Hello", WebSearch: true})).Or(rt)
			if rapid.IntRange(0, 19).Draw(rt, "shutdown before the call runs") == 0 {
				p.drain()
			}
			panicked := run(ctx, call, p.to)
			cancel()
			p.judge(rt, calls, panicked)
		}
		must.NoError(rt, p.Chats.Close(t.Context()))
		must.Fail(rt, must.ErrorOf(p.Admit(t.Context(), p.ada, chat.Request{Message: "Hello"})), fault.Unavailable) // the server shuts down
	})
}

// judge compares the outcome, entry, stream and analytics of a call with the expected.
func (p *scriptedModel) judge(t *rapid.T, calls int, panicked bool) {
	e := p.settled(t, calls)
	if len(p.to.wrong) > 0 {
		t.Fatal(strings.Join(p.to.wrong, "\n"))
	}
	if want := p.outcome(); e.Outcome != want {
		t.Fatalf("the outcome is %s, want %s", e.Outcome, want)
	}
	wantEnd := map[chat.Outcome]chat.ChunkType{chat.Completed: chat.DoneChunk, chat.ClientGone: ""}
	want, special := wantEnd[e.Outcome]
	switch {
	case p.to.gone:
		want = ""
	case !special:
		want = chat.ErrorChunk
	}
	if got := p.to.end(); got != want {
		t.Fatalf("the call that is %s ends in %q, want %q", e.Outcome, got, want)
	}
	if want == chat.DoneChunk && p.to.chunks[len(p.to.chunks)-1].Usage != e.Tokens {
		t.Fatalf("done says %+v, the entry %+v", p.to.chunks[len(p.to.chunks)-1], e)
	}
	if g := p.generations[calls-1]; p.sent || p.asked > 3 || p.retryable() || g.Attempts != p.asked || g.Duration != p.Clock.Now().Sub(g.StartedAt) || panicked != p.panics {
		t.Fatalf("in %s, of which analytics say %s, after %d attempts, of which analytics say %d: %v; chunks before the last: %v", p.Clock.Now().Sub(g.StartedAt), g.Duration, p.asked, g.Attempts, p.failed, p.sent)
	}
	tokens, from := p.used, chat.Provider
	if !p.output {
		tokens.Output, from = max(tokens.Output, p.to.estimate()), chat.Partial
	}
	if !p.input {
		tokens.Input, from = max(tokens.Input, p.want), chat.Estimated
	}
	if !p.began {
		tokens, from = chat.Usage{}, chat.Estimated
	}
	if e.Tokens != tokens || e.Provenance != from {
		t.Fatalf("the entry has %+v of %s, want %+v of %s", e.Tokens, e.Provenance, tokens, from)
	}
}
