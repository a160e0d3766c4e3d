package harness_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/app/chats"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// model is a provider that calls a function of the test.
type model func(ctx context.Context, to ports.Sink) (chat.Reply, error)

func (fn model) Stream(ctx context.Context, _ chat.Call, to ports.Sink) (chat.Reply, error) {
	return fn(ctx, to)
}

func (s *chatFixture) admit(t *testing.T) *chats.Call {
	t.Helper()
	return must.Do(s.Admit(t.Context(), s.ada, chat.Request{Message: "Hello"})).Or(t)
}

// ask makes a call, and returns its entry and its last chunk.
func (s *chatFixture) ask(t *testing.T) (usage.Entry, chat.ChunkType) {
	t.Helper()
	to := &chatClient{}
	s.admit(t).Run(t.Context(), to)
	return s.settled(t, 1), to.end()
}

// account returns the caller's account of the present day.
func (s *chatFixture) account(ctx context.Context) (quota.Account, error) {
	return s.Store.Usage().Quotas().Account(ctx, s.ada.Org, s.ada.User, calendar.DayOf(s.Clock.Now()))
}

func TestShutdownWaitsForAdmittedCalls(t *testing.T) {
	s := newChatFixture(t, model(func(ctx context.Context, _ ports.Sink) (chat.Reply, error) { return chat.Reply{}, context.Cause(ctx) }), 0)
	call := s.admit(t) // not running yet
	ctx, stop := context.WithCancel(t.Context())
	stop()
	must.FailIs(t, s.Chats.Close(ctx), context.Canceled)                                                       // a call is admitted
	must.Fail(t, must.ErrorOf(s.Admit(t.Context(), s.ada, chat.Request{Message: "Hello"})), fault.Unavailable) // another call
	both := make(chan error, 2)
	for range cap(both) {
		go func() { both <- s.Chats.Close(t.Context()) }()
	}
	to := &chatClient{}
	call.Run(t.Context(), to)
	for range cap(both) {
		must.Succeed(t, <-both)
	}
	if e := s.settled(t, 1); e.Outcome != chat.ShutDown || e.Tokens.Total() != 0 || to.end() != chat.ErrorChunk {
		t.Errorf("the entry is %+v, the chunks %+v", e, to.chunks)
	}
	must.NoError(t, s.Chats.Close(t.Context())) // repeated
}

func TestShutdownDoesNotWaitForRefusedCalls(t *testing.T) {
	s := newChatFixture(t, model(nil), 0)
	ctx := t.Context()
	sub := must.Do(s.Deployment.Store.Directory().Subscriptions().Get(ctx, s.ada.Org)).Or(t)
	lease := quota.Lease{ID: "other", Org: s.ada.Org, User: s.ada.User, Day: calendar.DayOf(s.Clock.Now()), ExpiresAt: s.Clock.Now().Add(time.Minute)}
	must.Do(s.Deployment.Store.Usage().Quotas().ReserveAt(ctx, s.ada.Epoch(), lease, sub.DailyTokens(), quota.Need{Output: sub.DailyTokens()})).Or(t)
	must.Fail(t, must.ErrorOf(s.Admit(ctx, s.ada, chat.Request{Message: "Hello"})), fault.Forbidden)
	s.Chats.Store = usageStore{s.Deployment.Store, nil, brokenQuotas{}}
	must.FailIs(t, must.ErrorOf(s.Admit(ctx, s.ada, chat.Request{Message: "Hello"})), errBroken)
	must.NoError(t, s.Chats.Close(ctx))
}

func TestAFailedPauseEndsTheCall(t *testing.T) {
	s := newChatFixture(t, model(func(context.Context, ports.Sink) (chat.Reply, error) {
		return chat.Reply{}, &chat.Failure{Kind: chat.Overloaded}
	}), 0)
	s.Pause = func(context.Context, int) error { return errors.New("no time") }
	if e, end := s.ask(t); e.Outcome != chat.Failed || end != chat.ErrorChunk {
		t.Errorf("the entry is %+v, the end %s", e, end)
	}
}

func TestACallEndsAfterHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *chatFixture
		s = newChatFixture(t, model(func(ctx context.Context, to ports.Sink) (chat.Reply, error) {
			for range 30 {
				synctest.Wait()
				if ctx.Err() != nil {
					t.Error("it ends too early")
				}
				to.Alive()
				s.Clock.Advance(time.Minute)
			}
			<-ctx.Done()
			return chat.Reply{}, context.Cause(ctx)
		}), 0)
		must.Do(s.Admit(t.Context(), s.ada, chat.Request{Message: "Hello", Tools: []chat.Tool{{Name: "list"}}})).Or(t).Run(t.Context(), &chatClient{})
		if g := s.generations[0]; g.Outcome != chat.TimedOut || g.Tools != 1 {
			t.Errorf("the generation is %+v", g)
		}
	})
}

func TestAnotherAttemptHasWhatTheFirstLeft(t *testing.T) {
	m := limited{reply: chat.Reply{Usage: chat.Usage{Output: 600}, InputKnown: true, OutputKnown: true}, failure: chat.Network}
	s := newChatFixture(t, &m, 0)
	s.admit(t).Run(t.Context(), &chatClient{})
	must.Equal(t, []int{1000, 400}, m.maxTokens)
}

func TestACallThatIsRefusedInItsStreamIsRetriedAndUsesNothing(t *testing.T) {
	asked := 0
	s := newChatFixture(t, model(func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		asked++
		to.Alive()
		return chat.Reply{}, &chat.Failure{Kind: chat.Overloaded}
	}), 0)
	call := must.Do(s.Admit(t.Context(), s.ada, chat.Request{Message: strings.Repeat("words ", 20_000)})).Or(t)
	call.Run(t.Context(), &chatClient{})
	if e := s.settled(t, 1); e.Outcome != chat.Failed || e.Tokens != (chat.Usage{}) || asked != 3 {
		t.Errorf("the entry is %+v after %d attempts", e, asked)
	}
}

// limited is a model that records the maxima of the output, and fails.
type limited struct {
	maxTokens []int
	reply     chat.Reply
	failure   chat.FailureKind
}

func (l *limited) Stream(_ context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	to.Alive()
	l.maxTokens = append(l.maxTokens, c.MaxTokens)
	return l.reply, &chat.Failure{Kind: l.failure}
}

func TestTheOutputFitsIntoTheModelsContext(t *testing.T) {
	for length, want := range map[int]int{149_000: 1000, 149_500: 594, 149_945: 1} {
		var m limited
		s := newChatFixture(t, &m, 0)
		must.Do(s.Admit(t.Context(), s.ada, chat.Request{Message: strings.Repeat("é", length)})).Or(t).Run(t.Context(), &chatClient{})
		if !slices.Equal(m.maxTokens, []int{want}) {
			t.Errorf("%d characters leave %d tokens, want %d", length, m.maxTokens, want)
		}
	}
	s := newChatFixture(t, &limited{}, 0)
	must.Fail(t, must.ErrorOf(s.Admit(t.Context(), s.ada, chat.Request{Message: strings.Repeat("é", 149_946)})), fault.Invalid)
}

func TestAClockThatIsSetBackMakesNoNegativeDuration(t *testing.T) {
	var s *chatFixture
	s = newChatFixture(t, model(func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		s.Clock.Advance(-time.Hour)
		return chat.Reply{}, to.Chunk(chat.Chunk{Type: chat.TextChunk, Text: "Hello"})
	}), 0)
	s.admit(t).Run(t.Context(), &chatClient{})
	if g := s.generations[0]; g.Duration != 0 || g.FirstChunk != 0 {
		t.Errorf("it took %v, the first chunk %v", g.Duration, g.FirstChunk)
	}
}

func TestSettlementsAreRetriedWhenTheStoreFails(t *testing.T) {
	for name, test := range map[string]struct {
		fails, pauses int
		after         bool // it was stored, and the response lost
		with          error
		kept          bool
	}{
		"twice":                  {fails: 2, pauses: 2, with: errBroken, kept: true},
		"once, having stored it": {fails: 1, pauses: 1, after: true, with: errBroken, kept: true},
		"more than a few times":  {fails: 100, pauses: 2, with: errBroken},
		"by not answering":       {fails: 50, pauses: 50, with: fault.New(fault.Unavailable, "The database does not answer"), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChatFixture(t, answering, 0)
			pauses := 0
			s.pause = func() { pauses++ }
			ledger := &failingLedger{s.Deployment.Store.Usage().Ledger(), test.fails, test.after, test.with}
			s.Chats.Store = usageStore{s.Deployment.Store, ledger, s.Deployment.Store.Usage().Quotas()}
			to := &chatClient{}
			s.admit(t).Run(t.Context(), to)
			if to.end() != chat.DoneChunk || pauses != test.pauses {
				t.Errorf("it ends with %q after %d pauses", to.end(), pauses)
			}
			if !test.kept {
				return
			}
			if e := s.settled(t, 1); e.Outcome != chat.Completed || e.Tokens.Total() != 7 {
				t.Errorf("the entry is %+v", e)
			}
		})
	}
}

var errBroken = errors.New("the store is broken")

// failingLedger fails some settlements.
type failingLedger struct {
	ports.Ledger
	fails int
	after bool
	with  error
}

func (l *failingLedger) Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error {
	if l.fails == 0 {
		return l.Ledger.Settle(ctx, o, entries...)
	}
	l.fails--
	if !l.after {
		return l.with
	}
	return errors.Join(l.Ledger.Settle(ctx, o, entries...), l.with)
}

// brokenQuotas fails every reservation.
type brokenQuotas struct{ ports.Quotas }

func (brokenQuotas) ReserveAt(context.Context, int64, quota.Lease, int64, quota.Need) (int64, error) {
	return 0, errBroken
}

// observingClient is a client that reads the account in Wait.
type observingClient struct {
	chatClient
	look  func() quota.Account
	taken string
	used  map[string]int64 // by the text sent
}

func (s *observingClient) Chunk(c chat.Chunk) error {
	s.taken += c.Text
	return s.chatClient.Chunk(c)
}

func (s *observingClient) Wait() error {
	if _, out := s.used[s.taken]; !out {
		s.used[s.taken] = s.look().Used
	}
	return nil
}

func TestTextThatArrivesWithTheEndIsSentBeforeTheSettlement(t *testing.T) {
	for name, end := range map[string]error{
		"the provider's end": nil, "a failure": &chat.Failure{Kind: chat.OtherFailure}, "no end": &chat.Failure{Kind: chat.Truncated}, "an error": errors.New("a mistake"),
	} {
		t.Run("with "+name, func(t *testing.T) {
			s := newChatFixture(t, model(func(_ context.Context, to ports.Sink) (chat.Reply, error) {
				to.Alive()
				for _, text := range []string{"Hel", "lo"} {
					if err := to.Chunk(chat.Chunk{Type: chat.TextChunk, Text: text}); err != nil {
						return chat.Reply{}, err
					}
				}
				return chat.Reply{Usage: chat.Usage{Input: 12, Output: 7}, InputKnown: true, OutputKnown: true}, end
			}), 0)
			to := &observingClient{used: map[string]int64{}, look: func() quota.Account {
				a, err := s.account(t.Context())
				must.Succeed(t, err)
				return a
			}}
			s.admit(t).Run(t.Context(), to)
			if used, out := to.used["Hello"]; !out || used != 0 {
				t.Errorf("tokens used by text sent: %v", to.used)
			}
		})
	}
}
