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
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/harness"
)

// stage is the use cases of models, whose analytics and pauses can be looked at.
type stage struct {
	*harness.World
	*chats.Chats
	ada         org.Actor
	generations []chat.Generation
	pause       func() // what happens while a call waits to be made again
}

// onStage puts models on a stage whose clock stands some time after the start.
func onStage(t *testing.T, models ports.Models, after time.Duration) *stage {
	t.Helper()
	c := core(t)
	s := &stage{World: c, ada: office(t, c)}
	c.Clock.Advance(after)
	registry, err := chat.NewRegistry([]chat.Model{{
		ID: "owl", DisplayName: "Owl", Provider: "owls", Tier: "standard", ContextWindow: 200_000, MaxOutputTokens: 1000,
		Capabilities: []string{chat.WebSearch}, SearchTool: "web_search_20250305",
	}}, "", func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	s.Chats = chats.New(chats.Options{
		Store: c.Store, Registry: registry, Providers: map[string]ports.Models{"owls": models}, Generations: s,
		Clock: c.Clock, Alarms: &memory.Alarms{Clock: c.Clock}, IDs: c.IDs, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Origin: access.Origin,
		Pause: func(ctx context.Context, _ int) error {
			if s.pause != nil {
				s.pause()
			}
			return context.Cause(ctx)
		},
	})
	return s
}

func (s *stage) Record(g chat.Generation) { s.generations = append(s.generations, g) }

// entries are all that the ledger has, by the day that they count for.
func (s *stage) entries(t rapid.TB) (all []usage.Entry, used map[quota.Day]int64) {
	now := s.Clock.Now()
	used = map[quota.Day]int64{quota.DayOf(now): 0}
	err := s.Store.Usage().Ledger().Entries(context.Background(), s.ada.Org, usage.Period{Start: now.AddDate(0, 0, -2), End: now.AddDate(0, 0, 1)}, func(e usage.Entry) error {
		all = append(all, e)
		used[quota.DayOf(e.At)] += e.Tokens.Total()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, used
}

// settled checks that each of the calls has one entry, which the analytics agree
// with, and that the accounts have what the entries come to and hold nothing.
// It returns the last entry.
func (s *stage) settled(t rapid.TB, calls int) usage.Entry {
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
		ID: g.ID, Org: g.Org, User: g.User, At: g.Began, Model: g.Model, Provider: g.Provider,
		Tokens: g.Usage, Provenance: g.Provenance, Outcome: g.Outcome,
	}
	if e != same || e.Org != s.ada.Org || e.User != s.ada.User || e.Model != "owl" || e.Provider != "owls" {
		t.Fatalf("the entry is %+v, the generation %+v", e, g)
	}
	if g.Took > s.Clock.Now().Sub(g.Began) || g.FirstChunk > g.Took || g.Outcome == chat.Completed && g.Failure != "" {
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

// exit is how a client leaves.
type exit int

const (
	stays   exit = iota
	refuses      // it does not take a chunk
	stalls       // it does not take what is to go out
	hangsUp      // its request ends
)

// listener is a client. It leaves at a chunk, and finds what must not come.
type listener struct {
	exit
	at     int // the chunk at which it leaves
	hangUp func()
	ended  func() // called with the end of the answer

	mu     sync.Mutex
	chunks []chat.Chunk
	gone   bool // it did not take something
	wrong  []string
	calls  map[string]bool // whether a result is to come
	over   bool
}

func (l *listener) Chunk(c chat.Chunk) error {
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
		l.gone = !l.over // who misses the end has missed nothing else
		return errors.New("the client is gone")
	case hangsUp:
		l.hangUp()
	}
	return nil
}

func (l *listener) Alive() {}

func (l *listener) Wait() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit == stalls && len(l.chunks) >= l.at {
		l.gone = !l.over
		return errors.New("the client is slow")
	}
	return nil
}

// check holds a chunk to the grammar (text | tool_call | tool_result)* (done |
// error), in which a result answers a call before it.
func (l *listener) check(c chat.Chunk) {
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

// heard is how many chunks came.
func (l *listener) heard() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.chunks)
}

// end is the type of the last chunk where that is an end, else empty.
func (l *listener) end() chat.ChunkType {
	if !l.over {
		return ""
	}
	return l.chunks[len(l.chunks)-1].Type
}

// estimate is what the chunks that came are estimated at, in tokens of output.
func (l *listener) estimate() (tokens int64) {
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

func someListener(t *rapid.T) *listener {
	return &listener{exit: exit(rapid.IntRange(int(stays), int(hangsUp)).Draw(t, "exit")), at: rapid.IntRange(1, 6).Draw(t, "leaves at")}
}

// attempt is one answer of a provider in memory.
type attempt struct {
	steps  []func(*played) error
	reach  bool // the provider takes the call; else it refuses it
	heeds  bool // it ends where its ctx does; else its end marker may be there already
	reply  chat.Reply
	err    error // nil: whole
	panics bool
}

// played is a provider in memory that keeps to the contract of its port. It plays
// one answer after the other, and notes what was to come of it.
type played struct {
	*stage
	answers []attempt
	to      *listener
	hangUp  func()

	sink    ports.Sink
	ctx     context.Context
	asked   int
	cause   chat.Outcome // of the first thing that ended the call from outside
	drained bool
	whole   bool
	panics  bool
	failed  error
	used    chat.Usage
	input   bool  // all answers that were begun reported their input
	output  bool  // and of all of their output
	began   bool  // an answer was
	left    bool  // the client did not take something, before the end of the answers
	sent    bool  // a chunk was, before an answer
	want    int64 // the estimate of the input
}

func (p *played) Stream(ctx context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	a := p.answers[min(p.asked, len(p.answers)-1)]
	p.asked++
	defer func() { p.left = p.to.gone }()
	p.ctx, p.sink, p.want, p.failed = ctx, to, c.Estimate(), nil
	p.sent = p.sent || p.to.heard() > 0
	if !a.reach {
		return chat.Reply{}, p.fails(a.err)
	}
	if !p.began {
		p.began, p.input, p.output = true, true, true
	}
	p.used, p.input, p.output = p.used.Plus(a.reply.Usage), p.input && a.reply.InputKnown, p.output && a.reply.OutputKnown
	to.Alive()
	for _, step := range a.steps {
		if a.heeds && ctx.Err() != nil {
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
	case a.heeds && ctx.Err() != nil:
		return a.reply, context.Cause(ctx)
	case a.err != nil:
		return a.reply, p.fails(a.err)
	}
	p.whole = true
	return a.reply, nil
}

// fails returns the error of an answer that failed, or the cause of a ctx that
// has ended.
func (p *played) fails(err error) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	p.failed = err
	return err
}

// ends notes what ended the call from outside, if nothing else did before.
func (p *played) ends(how chat.Outcome) {
	if p.cause == "" {
		p.cause = how
	}
}

func (p *played) leave() {
	p.ends(chat.ClientGone)
	p.hangUp()
}

func (p *played) drain() {
	p.ends(chat.ShutDown)
	p.drained = true
	p.Drain()
}

// outcome is what is to become of the call.
func (p *played) outcome() chat.Outcome {
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
	case errors.As(p.failed, &f) && f.Kind == chat.TooSlow:
		return chat.TimedOut
	}
	return chat.Failed
}

// again reports whether the call should have been made once more.
func (p *played) again() bool {
	var f *chat.Failure
	return errors.As(p.failed, &f) && f.Retryable() && p.cause == "" && !p.to.gone && p.asked < 3 && p.to.heard() == 1 // the error
}

// someAnswer draws an answer.
func someAnswer(t *rapid.T) attempt {
	calls := 0
	word := rapid.StringN(1, 12, -1)
	say := func(c chat.Chunk) func(*played) error {
		return func(p *played) error {
			p.sink.Alive()
			return p.sink.Chunk(c)
		}
	}
	do := func(f func(*played)) func(*played) error {
		return func(p *played) error { f(p); return nil }
	}
	var all []func(*played) error
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
		case 5: // pings and thoughts
			all = append(all, do(func(p *played) { p.sink.Alive() }))
		case 6:
			all = append(all, func(p *played) error { return p.sink.Wait() })
		case 7: // time passes, not too much of it at once
			d := time.Duration(rapid.IntRange(1, 59).Draw(t, "seconds")) * time.Second
			all = append(all, do(func(p *played) {
				p.Clock.Advance(d)
				p.sink.Alive()
			}))
		case 8: // this server looks after its leases, or another one does
			if rapid.Bool().Draw(t, "own") {
				all = append(all, func(p *played) error { return p.ExtendLeases(context.Background()) })
			} else {
				all = append(all, func(p *played) error {
					return p.Store.Usage().Quotas().Sweep(context.Background(), p.Clock.Now())
				})
			}
		case 9:
			switch rapid.IntRange(0, 3).Draw(t, "end from outside") {
			case 0:
				all = append(all, do((*played).leave))
			case 1:
				all = append(all, do((*played).drain))
			case 2:
				all = append(all, func(p *played) error {
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
		steps: all, reach: rapid.IntRange(0, 3).Draw(t, "reach") > 0, heeds: rapid.Bool().Draw(t, "heeds"),
		reply: chat.Reply{
			Usage:      chat.Usage{Input: tokens.Draw(t, "input"), Output: tokens.Draw(t, "output")},
			InputKnown: rapid.Bool().Draw(t, "input known"), OutputKnown: rapid.Bool().Draw(t, "output known"),
		},
	}
	if how := rapid.IntRange(0, 9).Draw(t, "end"); how < 5 || !a.reach {
		kind := chat.FailureKind(rapid.IntRange(int(chat.Broken), int(chat.Truncated)).Draw(t, "failure"))
		a.err = &chat.Failure{Kind: kind, Cause: errors.New("it went wrong")}
	} else {
		a.panics = how == 5
	}
	return a
}

// run runs a call and survives the adapter's panic, which is to go on.
func run(ctx context.Context, call *chats.Call, to ports.Sink) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	call.Run(ctx, to)
	return false
}

// TestWhateverAProviderDoesACallIsAnsweredAndSettledOnce: a provider in memory
// says anything and fails in any way, while its client leaves, its server goes
// away and time passes at any moment.
func TestWhateverAProviderDoesACallIsAnsweredAndSettledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &played{}
		p.stage = onStage(t, p, time.Duration(rapid.IntRange(0, 24*60).Draw(rt, "minutes"))*time.Minute)
		all := rapid.IntRange(1, 3).Draw(rt, "calls")
		for calls := 1; calls <= all && !p.drained; calls++ {
			*p = played{stage: p.stage, to: someListener(rt)}
			p.answers = append(rapid.SliceOfN(rapid.Custom(someAnswer), 0, 2).Draw(rt, "failures"), someAnswer(rt))
			p.pause = map[int]func(){0: p.leave, 1: p.drain}[rapid.IntRange(0, 12).Draw(rt, "while it pauses")]
			ctx, cancel := context.WithCancel(context.Background())
			p.hangUp = cancel
			p.to.hangUp = func() {
				if !p.to.over {
					p.leave()
				}
			}
			p.to.ended = func() { p.settled(rt, calls) } // before the end is sent
			call, err := p.Admit(ctx, p.ada, chat.Request{Message: "Hello", WebSearch: true})
			if err != nil {
				rt.Fatal(err)
			}
			if rapid.IntRange(0, 19).Draw(rt, "the server goes before it runs") == 0 {
				p.drain()
			}
			panicked := run(ctx, call, p.to)
			cancel()
			p.judge(rt, calls, panicked)
		}
		if err := p.Chats.Close(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if _, err := p.Admit(t.Context(), p.ada, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Unavailable) {
			rt.Fatalf("a server that is going away admits: %v", err)
		}
	})
}

// judge holds what came of a call to what was to come of it.
func (p *played) judge(t *rapid.T, calls int, panicked bool) {
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
	if g := p.generations[calls-1]; p.sent || p.asked > 3 || p.again() || g.Attempts != p.asked || g.Took != p.Clock.Now().Sub(g.Began) || panicked != p.panics {
		t.Fatalf("in %s, of which analytics say %s, after %d attempts, of which analytics say %d: %v; chunks before the last: %v", p.Clock.Now().Sub(g.Began), g.Took, p.asked, g.Attempts, p.failed, p.sent)
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
