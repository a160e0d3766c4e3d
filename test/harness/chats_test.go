package harness_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/anthropic"
	"collab/adapters/memory"
	"collab/app/access"
	"collab/app/chats"
	"collab/app/metering"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	scripted "collab/test/contract/provider"
	"collab/test/harness"
)

// heard is a sink that keeps what it is told, and the analytics of the calls.
type heard struct {
	mu          sync.Mutex
	chunks      []chat.Chunk
	generations []chat.Generation
	fail        bool          // the client is gone
	first       chan struct{} // closed at the first chunk; may be nil
}

func (s *heard) Chunk(c chat.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, c)
	if len(s.chunks) == 1 && s.first != nil {
		close(s.first)
	}
	if s.fail {
		return errors.New("the client is gone")
	}
	return nil
}

func (s *heard) Alive()      {}
func (s *heard) Wait() error { return nil }

func (s *heard) Record(g chat.Generation) { s.generations = append(s.generations, g) }

// line writes the chunks in a line.
func (s *heard) line() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, c := range s.chunks {
		b.WriteString(string(c.Type) + ":" + c.Text + c.Name + " ")
	}
	return strings.TrimSpace(b.String())
}

// talk is the use cases of models over a scripted provider.
type talk struct {
	*harness.Core
	*chats.Chats
	ada    org.Actor
	said   *heard
	pauses int
}

func talking(t *testing.T, scripts ...scripted.Script) *talk {
	t.Helper()
	c := core(t)
	w := &talk{Core: c, ada: office(t, c), said: &heard{}}
	server := scripted.Start(t, scripts...)
	models, err := anthropic.New(anthropic.Options{APIKey: "key", URL: server.Anthropic()})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := chat.NewRegistry([]chat.Model{{
		ID: "claude", DisplayName: "Claude", Provider: "anthropic", Tier: "standard", ContextWindow: 200_000, MaxOutputTokens: 1000,
	}}, "", func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	w.Chats = chats.New(chats.Options{
		Store: c.Store, Registry: registry, Providers: map[string]ports.Models{"anthropic": models}, Generations: w.said,
		Clock: c.Clock, Alarms: &memory.Alarms{Clock: c.Clock}, IDs: c.IDs, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Origin: access.Origin,
		Pause: func(context.Context, int) error {
			w.pauses++
			return nil
		},
	})
	return w
}

func (w *talk) ask(t *testing.T, ctx context.Context) {
	t.Helper()
	call, err := w.Admit(t.Context(), w.ada, chat.Request{Message: "Hello"})
	if err != nil {
		t.Fatal(err)
	}
	call.Run(ctx, w.said)
}

// settled checks that there is one entry and one generation with the outcome,
// that the account agrees with it, and that nothing is reserved any more.
func (w *talk) settled(t *testing.T, want chat.Outcome) usage.Entry {
	t.Helper()
	ctx := t.Context()
	var all []usage.Entry
	day := quota.DayOf(w.Clock.Now())
	err := w.Store.Usage().Ledger().Entries(ctx, w.ada.Org, usage.Period{Start: day.Start(), End: day.End()}, func(e usage.Entry) error {
		all = append(all, e)
		return nil
	})
	if err != nil || len(all) != 1 || all[0].Outcome != want {
		t.Fatalf("the ledger has %+v, %v; want one that is %s", all, err, want)
	}
	account, err := w.Store.Usage().Quotas().Account(ctx, w.ada.Org, w.ada.User, day)
	if err != nil || account.Reserved != 0 || account.Used != all[0].Tokens.Total() {
		t.Errorf("the account is %+v, %v; the entry used %d", account, err, all[0].Tokens.Total())
	}
	if g := w.said.generations; len(g) != 1 || g[0].Outcome != want || g[0].Usage != all[0].Tokens {
		t.Errorf("analytics have %+v", g)
	}
	return all[0]
}

func TestAnAnswerIsSettledBeforeItsEndIsTold(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Uses(scripted.Usage{Input: 12, Output: 7}), scripted.Text("Hel", "lo")})
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hel text:lo done:" {
		t.Errorf("heard %q", got)
	}
	e := w.settled(t, chat.Completed)
	if e.Tokens.Input != 12 || e.Tokens.Output != 7 || e.Provenance != chat.Provider {
		t.Errorf("the entry is %+v", e)
	}
	if last := w.said.chunks[2]; last.Usage != e.Tokens {
		t.Errorf("done says %+v", last.Usage)
	}
	status, err := metering.New(w.Store, w.Clock).Quota(t.Context(), w.ada)
	if err != nil || status.Used != 19 || status.Remaining != status.Limit-19 {
		t.Errorf("the quota is %+v, %v", status, err)
	}
	var sum usage.Summary
	users := 0
	err = metering.New(w.Store, w.Clock).Organisation(t.Context(), w.ada, func(s usage.Summary, byUser bool) error {
		sum = s
		return nil
	}, func(usage.Part) error {
		users++
		return nil
	})
	if err != nil || sum.Input != 12 || sum.Output != 7 || sum.Requests != 1 || users != 1 {
		t.Errorf("the summary is %+v, %v", sum, err)
	}
}

func TestAnOverloadedProviderIsAskedAgainUntilSomethingWentOut(t *testing.T) {
	busy := scripted.Script{scripted.Refuse(529, "overloaded_error", "Overloaded")}
	w := talking(t, busy, busy, scripted.Script{scripted.Text("Hello")})
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hello done:" || w.pauses != 2 {
		t.Errorf("heard %q after %d pauses", got, w.pauses)
	}
	w.settled(t, chat.Completed)

	w = talking(t, scripted.Script{scripted.Text("Hel"), scripted.Fail("overloaded_error", "Overloaded")})
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hel error:The model is overloaded. Please retry in a few moments." || w.pauses != 0 {
		t.Errorf("heard %q after %d pauses", got, w.pauses)
	}
	if e := w.settled(t, chat.Failed); e.Provenance != chat.Partial || e.Tokens.Output == 0 {
		t.Errorf("the entry is %+v", e)
	}
}

func TestAProviderThatNeverBeganCostsNothing(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Refuse(429, "rate_limit_error", "Slow down")})
	w.ask(t, t.Context())
	if got := w.said.line(); got != "error:Rate limit exceeded." {
		t.Errorf("heard %q", got)
	}
	if e := w.settled(t, chat.Failed); e.Tokens.Total() != 0 {
		t.Errorf("the entry is %+v", e)
	}
}

func TestAStreamWithoutItsEndIsAnError(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hel"), scripted.Cut()})
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hel error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	w.settled(t, chat.CutOff)
}

func TestAClientThatIsGoneIsToldNothingAndMeteredOnce(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hel"), scripted.Silence()})
	w.said.fail = true
	w.ask(t, t.Context())
	w.settled(t, chat.ClientGone)

	w = talking(t, scripted.Script{scripted.Text("Hel"), scripted.Silence()})
	w.said.first = make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-w.said.first
		leave()
	}()
	w.ask(t, ctx)
	if got := w.said.line(); got != "text:Hel" {
		t.Errorf("heard %q", got)
	}
	w.settled(t, chat.ClientGone)
}

func TestAProviderThatFallsSilentIsGivenUp(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hel"), scripted.Silence()})
	w.said.first = make(chan struct{})
	go func() {
		<-w.said.first
		w.Clock.Advance(10 * time.Minute)
	}()
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hel error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	w.settled(t, chat.TimedOut)
}

func TestAServerThatGoesAwayEndsItsCalls(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hel"), scripted.Silence()})
	w.said.first = make(chan struct{})
	go func() {
		<-w.said.first
		w.Drain()
	}()
	w.ask(t, t.Context())
	if got := w.said.line(); got != "text:Hel error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	w.settled(t, chat.ShutDown)
}

func TestWhatThePlanDoesNotAllowIsRefusedBeforeTheStream(t *testing.T) {
	w := talking(t)
	ctx := t.Context()
	lease := quota.Lease{ID: "other", Org: w.ada.Org, User: w.ada.User, Day: quota.DayOf(w.Clock.Now()), ExpiresAt: w.Clock.Now().Add(time.Minute)}
	if granted, err := w.Store.Usage().Quotas().Reserve(ctx, lease, 10_000_000, quota.Need{Input: 1, Output: 9_999_999}); err != nil || granted != 10_000_000 {
		t.Fatal(granted, err)
	}
	if _, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("with nothing left: %v", err)
	}
	w.Clock.Advance(2 * time.Minute)
	if err := w.Keep(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello"}); err != nil {
		t.Errorf("after the lease of a server that is gone: %v", err)
	}
	viewer := w.ada
	viewer.Role = org.Viewer
	if _, err := w.Admit(ctx, viewer, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a VIEWER: %v", err)
	}
	if _, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello", Model: "other"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown model: %v", err)
	}
}

// acting is a model that does what a test says.
type acting func(ctx context.Context, to ports.Sink) (chat.Reply, error)

func (fn acting) Stream(ctx context.Context, _ chat.Call, to ports.Sink) (chat.Reply, error) {
	return fn(ctx, to)
}

// acted is a talk whose model does what the test says.
func acted(t *testing.T, fn acting) *talk {
	w := talking(t)
	w.Providers = map[string]ports.Models{"anthropic": fn}
	return w
}

func (w *talk) admit(t *testing.T) *chats.Call {
	t.Helper()
	call, err := w.Admit(t.Context(), w.ada, chat.Request{Message: "Hello"})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func TestAServerThatGoesAwayWaitsForEveryCallThatWasAdmitted(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hel")})
	call := w.admit(t) // it is not running yet
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a call to come it closed with %v", err)
	}
	if _, err := w.Admit(t.Context(), w.ada, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("another call: %v", err)
	}
	both := make(chan error, 2)
	for range cap(both) {
		go func() { both <- w.Close(t.Context()) }()
	}
	call.Run(t.Context(), w.said)
	for range cap(both) {
		if err := <-both; err != nil {
			t.Error(err)
		}
	}
	if got := w.said.line(); got != "error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	if e := w.settled(t, chat.ShutDown); e.Tokens.Total() != 0 {
		t.Errorf("the entry is %+v", e)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestAServerWithoutCallsGoesAwayAtOnce(t *testing.T) {
	w := talking(t, scripted.Script{scripted.Text("Hello")})
	w.ask(t, t.Context())
	for range 2 {
		w.Drain()
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.Admit(t.Context(), w.ada, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a call that comes now: %v", err)
	}
	w.settled(t, chat.Completed)
}

func TestACallThatWasRefusedIsNotWaitedFor(t *testing.T) {
	w := talking(t)
	ctx := t.Context()
	sub, err := w.Core.Store.Directory().Subscriptions().Get(ctx, w.ada.Org)
	if err != nil {
		t.Fatal(err)
	}
	lease := quota.Lease{ID: "other", Org: w.ada.Org, User: w.ada.User, Day: quota.DayOf(w.Clock.Now()), ExpiresAt: w.Clock.Now().Add(time.Minute)}
	if _, err := w.Store.Usage().Quotas().Reserve(ctx, lease, sub.DailyTokens(), quota.Need{Output: sub.DailyTokens()}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello"}); !fault.Is(err, fault.Forbidden) {
		t.Fatal(err)
	}
	w.Providers = nil
	w.Chats.Store = brokenQuotas{w.Core.Store}
	if _, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello"}); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestAPanicOfAnAdapterIsSettledAndGoesOn(t *testing.T) {
	w := acted(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		to.Alive()
		_ = to.Chunk(chat.Chunk{Type: chat.TextChunk, Text: "Hello"})
		panic("boom")
	})
	call := w.admit(t)
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		call.Run(t.Context(), w.said)
	}()
	if got := w.said.line(); got != "text:Hello error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	if e := w.settled(t, chat.Failed); e.Tokens.Output == 0 || e.Provenance != chat.Estimated {
		t.Errorf("the entry is %+v", e)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAWaitThatFailsIsNoAnswer(t *testing.T) {
	w := acted(t, func(context.Context, ports.Sink) (chat.Reply, error) {
		return chat.Reply{}, &chat.Failure{Kind: chat.Overloaded}
	})
	w.Pause = func(context.Context, int) error { return errors.New("no time") }
	w.ask(t, t.Context())
	if got := w.said.line(); got != "error:An error occurred while processing your request." {
		t.Errorf("heard %q", got)
	}
	w.settled(t, chat.Failed)
}

func TestWhatWasUsedIsKeptWhenTheStoreFailsForAWhile(t *testing.T) {
	for _, test := range []struct {
		name  string
		fails int
		after bool // it was stored, and the answer lost
	}{
		{"twice", 2, false},
		{"once, having stored it", 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := acted(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) {
				to.Alive()
				return chat.Reply{Usage: chat.Usage{Input: 3, Output: 4}, InputKnown: true, OutputKnown: true}, nil
			})
			failing := &failingStore{Store: w.Core.Store, fails: test.fails, after: test.after}
			w.Chats.Store = failing
			w.ask(t, t.Context())
			if got := w.said.line(); got != "done:" || w.pauses != test.fails {
				t.Errorf("heard %q after %d pauses", got, w.pauses)
			}
			if e := w.settled(t, chat.Completed); e.Tokens.Total() != 7 {
				t.Errorf("the entry is %+v", e)
			}
		})
	}
	t.Run("and no more than a few times", func(t *testing.T) {
		w := acted(t, func(context.Context, ports.Sink) (chat.Reply, error) { return chat.Reply{}, nil })
		w.Chats.Store = &failingStore{Store: w.Core.Store, fails: 100}
		w.ask(t, t.Context())
		if got := w.said.line(); got != "done:" || w.pauses != 2 {
			t.Errorf("heard %q after %d pauses", got, w.pauses)
		}
	})
}

var errBroken = errors.New("the store is broken")

// failingStore fails some transactions.
type failingStore struct {
	ports.Store
	fails int
	after bool
}

func (s *failingStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	if s.fails == 0 {
		return s.Store.Atomic(ctx, fn)
	}
	s.fails--
	if !s.after {
		return errBroken
	}
	return errors.Join(s.Store.Atomic(ctx, fn), errBroken)
}

// brokenQuotas grants nothing, with an error.
type brokenQuotas struct{ ports.Store }

func (s brokenQuotas) Usage() ports.Usage { return brokenUsage{s.Store.Usage()} }

type brokenUsage struct{ ports.Usage }

func (brokenUsage) Quotas() ports.Quotas { return refusing{} }

type refusing struct{ ports.Quotas }

func (refusing) Reserve(context.Context, quota.Lease, int64, quota.Need) (int64, error) {
	return 0, errBroken
}

func TestManyAtOnceNeverPassTheLimitAndLeaveNothingReserved(t *testing.T) {
	w := talking(t)
	w.Providers = map[string]ports.Models{"anthropic": obedient{}}
	w.Generations = dropping{}
	ctx, day := t.Context(), quota.DayOf(w.Clock.Now())
	sub, err := w.Core.Store.Directory().Subscriptions().Get(ctx, w.ada.Org)
	if err != nil {
		t.Fatal(err)
	}
	limit := sub.DailyTokens()
	before := quota.Lease{ID: "before", Org: w.ada.Org, User: w.ada.User, Day: day, ExpiresAt: w.Clock.Now().Add(time.Hour)}
	if _, err := w.Core.Store.Usage().Quotas().Reserve(ctx, before, limit, quota.Need{Output: limit - 5000}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 5 {
				call, err := w.Admit(ctx, w.ada, chat.Request{Message: "Hello"})
				if err != nil {
					if !fault.Is(err, fault.Forbidden) {
						t.Error(err)
					}
					continue
				}
				if account, err := w.Core.Store.Usage().Quotas().Account(ctx, w.ada.Org, w.ada.User, day); err != nil || account.Used+account.Reserved > limit {
					t.Errorf("%+v, %v is over %d", account, err, limit)
				}
				call.Run(ctx, &heard{})
				if err := w.Keep(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	account, err := w.Core.Store.Usage().Quotas().Account(ctx, w.ada.Org, w.ada.User, day)
	// What is left in the end is too little for the least request.
	if left := limit - account.Used - account.Reserved; err != nil || account.Reserved != limit-5000 || left < 0 || left > 100 {
		t.Errorf("the account is %+v, %v", account, err)
	}
}

// obedient is a model that puts out 600 tokens, or what it is allowed.
type obedient struct{}

func (obedient) Stream(_ context.Context, c chat.Call, to ports.Sink) (chat.Reply, error) {
	to.Alive()
	return chat.Reply{Usage: chat.Usage{Input: 5, Output: min(600, int64(c.MaxTokens))}, InputKnown: true, OutputKnown: true}, nil
}

type dropping struct{}

func (dropping) Record(chat.Generation) {}
