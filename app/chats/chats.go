// Package chats sends members' requests to models and streams the answers. Every request
// that was admitted under the quota makes one entry in the ledger and one in the analytics,
// whatever its outcome.
package chats

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"collab/domain/audit"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
)

// Times of a call.
const (
	firstWithin  = 60 * time.Second // until the provider sends the first byte
	silentWithin = 90 * time.Second // between two reads from it
	callWithin   = 30 * time.Minute // for the whole call
	settleWithin = 10 * time.Second // for reserving and for settling, also after the client has left
	attempts     = 3
)

// leaseFor is how long a reservation holds without being extended, which ExtendLeases
// does in good time.
const leaseFor = 3 * time.Minute

// ExtendEvery is how often ExtendLeases is to be called.
const ExtendEvery = time.Minute

var (
	errSilent   = errors.New("the provider fell silent")
	errShutdown = errors.New("the server is going away")
)

// Options are what Chats needs.
type Options struct {
	Store       ports.Store
	Registry    chat.Registry
	Providers   map[string]ports.Models // by the names that the registry uses
	Generations ports.Generations
	Clock       ports.Clock
	Alarms      ports.Alarms
	IDs         ports.IDs
	Log         *slog.Logger
	// Origin returns the origin of the request that ctx carries, for the log.
	Origin func(ctx context.Context) audit.Origin
	// Pause waits before a call is made again after the attempt-th time.
	Pause func(ctx context.Context, attempt int) error
}

// Chats are the use cases of models.
type Chats struct {
	Options

	mu     sync.Mutex
	leases map[id.Request]quota.Lease             // of calls, from Admit to the end of Run; guarded by mu
	ends   map[id.Request]context.CancelCauseFunc // of those that are running; guarded by mu
	closed bool                                   // guarded by mu
	plans  map[id.Org]known                       // guarded by mu
	idle   chan struct{}                          // closed when no call is left; nil unless left was called; guarded by mu
}

// New returns the use cases.
func New(o Options) *Chats {
	return &Chats{Options: o, leases: map[id.Request]quota.Lease{}, ends: map[id.Request]context.CancelCauseFunc{}, plans: map[id.Org]known{}}
}

// known is a subscription that was read at an epoch of its organisation, or later. Every
// change of a subscription increments the epoch.
type known struct {
	plan.Subscription
	epoch int64
}

// maxKnown is how many subscriptions are cached.
const maxKnown = 10_000

// subscription returns the subscription of the actor's organisation as of the actor's epoch
// or later.
func (s *Chats) subscription(ctx context.Context, actor org.Actor) (plan.Subscription, error) {
	if actor.Visibility == nil {
		return s.Store.Directory().Subscriptions().Get(ctx, actor.Org)
	}
	s.mu.Lock()
	k, ok := s.plans[actor.Org]
	s.mu.Unlock()
	if ok && k.epoch == actor.Visibility.Epoch {
		return k.Subscription, nil
	}
	sub, err := s.Store.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return plan.Subscription{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plans) >= maxKnown {
		clear(s.plans)
	}
	s.plans[actor.Org] = known{sub, actor.Visibility.Epoch}
	return sub, nil
}

// Models lists the models, the default one first.
func (s *Chats) Models(actor org.Actor) (chat.Registry, error) {
	return s.Registry, actor.Belongs()
}

// Call is a request that was admitted. It has to be run, once.
type Call struct {
	of      *Chats
	actor   org.Actor
	request string // the id of the request
	call    chat.Call
	lease   quota.Lease
	began   time.Time
	tools   int
	model   ports.Models
}

// Admit checks a request and reserves the tokens that it may use. Invalid for
// what cannot be asked, Forbidden where the quota has no room, Unavailable when the
// server is going away.
func (s *Chats) Admit(ctx context.Context, actor org.Actor, r chat.Request) (*Call, error) {
	return s.admit(ctx, actor, r, s.Store.Usage().Quotas().Reserve)
}

// AdmitUnconfirmed is Admit for an actor from the cache (access.Access.Cached). It reserves
// nothing unless the organisation's epoch is actor.Visibility.Epoch, and any refusal may be
// for that alone.
func (s *Chats) AdmitUnconfirmed(ctx context.Context, actor org.Actor, r chat.Request) (*Call, error) {
	return s.admit(ctx, actor, r, func(ctx context.Context, lease quota.Lease, limit int64, need quota.Need) (int64, error) {
		return s.Store.Usage().Quotas().ReserveAt(ctx, actor.Visibility.Epoch, lease, limit, need)
	})
}

type reserve func(ctx context.Context, lease quota.Lease, limit int64, need quota.Need) (int64, error)

func (s *Chats) admit(ctx context.Context, actor org.Actor, r chat.Request, reserve reserve) (*Call, error) {
	if err := actor.Writes(); err != nil {
		return nil, err
	}
	m, err := s.Registry.Find(r.Model)
	if err != nil {
		return nil, err
	}
	call, err := r.Call(m)
	if err != nil {
		return nil, err
	}
	sub, err := s.subscription(ctx, actor)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	limit, day := sub.At(now).DailyTokens(), quota.DayOf(now)
	need := call.Need(limit)
	if int(need.Input) >= m.ContextWindow {
		return nil, fault.Field("message", "and history must fit the model's context of %d tokens", m.ContextWindow)
	}
	lease := quota.Lease{ID: id.Request(s.IDs.New()), Org: actor.Org, User: actor.User, Day: day, ExpiresAt: now.Add(leaseFor)}
	if err := s.hold(lease); err != nil {
		return nil, err
	}
	// The reservation of a client that leaves meanwhile is settled by its call, which ends
	// at once.
	reserving, over := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer over()
	if lease.Tokens, err = reserve(reserving, lease, limit, need); err != nil {
		s.leave(lease.ID)
		return nil, err
	}
	if lease.Tokens == 0 {
		s.leave(lease.ID)
		return nil, quota.Exceeded(limit, day.End())
	}
	call, _ = call.Within(lease.Tokens) // a grant has room for output
	return &Call{of: s, actor: actor, request: s.Origin(ctx).Request, call: call, lease: lease, began: now, tools: len(r.Tools), model: s.Providers[m.Provider]}, nil
}

// Run makes the call and hands its chunks to the sink, the last of them done or
// error. A sink that fails, or a ctx that ends, is a client that is gone: the
// provider's work ends at once. It returns when what was used is kept.
func (c *Call) Run(ctx context.Context, to ports.Sink) {
	s := c.of
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, over := context.WithTimeoutCause(ctx, callWithin, errSilent)
	defer over()
	out := &outlet{to: to, clock: s.Clock, began: c.began}
	if !s.enter(c.lease.ID, cancel) {
		cancel(errShutdown)
	}
	defer s.leave(c.lease.ID)

	g := chat.Generation{
		ID: c.lease.ID, Org: c.actor.Org, User: c.actor.User, Model: c.call.Model.ID, Provider: c.call.Model.Provider,
		Began: c.began, Tools: c.tools, WebSearch: c.call.WebSearch,
	}
	// A panic of an adapter must not keep the reservation and leave no entry.
	err := errors.New("the call did not end")
	var made tally
	defer func() {
		g.Took, g.FirstChunk = s.Clock.Now().Sub(c.began), out.first
		g.Outcome = outcomeOf(err, ctx, out)
		if g.Outcome != chat.Completed {
			g.Failure = failureOf(err)
		}
		g.Attempts, g.Stop = made.attempts, made.reply.Stop
		g.Usage, g.Provenance = c.call.Settled(made.reply, out.came)
		if !made.begun {
			g.Usage = chat.Usage{} // the provider never had it
		}
		s.settle(ctx, c, g)
		s.Generations.Record(g)
		c.finish(out, g, err)
	}()
	err = c.stream(ctx, cancel, out, &made)
	if !out.gone {
		out.lost = to.Wait() != nil // what has come does not wait for what was used to be kept
	}
}

// stream makes the call, again where that may help, nothing has gone out and the
// lease has room for it.
func (c *Call) stream(ctx context.Context, cancel context.CancelCauseFunc, out *outlet, made *tally) error {
	out.alarm = c.of.Alarms.Set(firstWithin, func() { cancel(errSilent) })
	defer out.alarm.Stop()
	call := c.call
	for {
		err := c.attempt(ctx, call, out, made)
		var f *chat.Failure
		if err == nil || made.attempts == attempts || out.sent || !errors.As(err, &f) || !f.Retryable() || ctx.Err() != nil {
			return err
		}
		again, ok := c.budgeted(made, out.came)
		if !ok {
			return err
		}
		call = again
		if e := c.of.Pause(ctx, made.attempts); e != nil {
			return e
		}
		out.alarm.Reset(firstWithin)
	}
}

// budgeted returns the call with what the attempts before have left of the lease. It
// is not ok where they have left too little.
func (c *Call) budgeted(made *tally, came int64) (chat.Call, bool) {
	if !made.begun {
		return c.call, true
	}
	used, _ := c.call.Settled(made.reply, came)
	return c.call.Within(c.lease.Tokens - used.Total())
}

// attempt makes the call once, and counts it also where the adapter panics.
func (c *Call) attempt(ctx context.Context, call chat.Call, out *outlet, made *tally) (err error) {
	out.alive = false
	var reply chat.Reply
	defer func() { made.add(reply, out.alive) }()
	reply, err = c.model.Stream(ctx, call, out)
	return err
}

// tally is what is known of all attempts at a call together.
type tally struct {
	attempts int
	reply    chat.Reply
	begun    bool // the provider took one of them
}

// add counts an attempt. One that the provider did not take used nothing, and
// leaves what is known of the others as it is.
func (t *tally) add(r chat.Reply, alive bool) {
	t.attempts++
	switch {
	case !alive && r == chat.Reply{}:
	case t.begun:
		t.reply = t.reply.Then(r)
	default:
		t.reply, t.begun = r, true
	}
}

// finish sends the last chunk.
func (c *Call) finish(out *outlet, g chat.Generation, err error) {
	last := chat.Chunk{Type: chat.DoneChunk, Usage: g.Usage}
	switch g.Outcome {
	case chat.ClientGone:
		return
	case chat.Completed:
	default:
		var f *chat.Failure
		if !errors.As(err, &f) {
			f = &chat.Failure{}
		}
		last = chat.Chunk{Type: chat.ErrorChunk, Text: f.Message()}
		c.of.Log.Warn("model call failed", "model", g.Model, "outcome", string(g.Outcome), "call", string(g.ID), "request", c.request, "error", err)
	}
	if !out.lost && out.to.Chunk(last) == nil {
		_ = out.to.Wait() // who is gone now has missed only the end
	}
}

// settle keeps what was used and gives back what was not, in one transaction.
func (s *Chats) settle(ctx context.Context, c *Call, g chat.Generation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	e := usage.Entry{
		ID: g.ID, Org: g.Org, User: g.User, At: g.Began, Model: g.Model, Provider: g.Provider,
		Tokens: g.Usage, Provenance: g.Provenance, Outcome: g.Outcome,
	}
	for attempt := 1; ; attempt++ {
		err := s.Store.Atomic(ctx, func(r ports.Records) error {
			if err := r.Usage().Ledger().Add(ctx, e); err != nil {
				return err
			}
			return r.Usage().Quotas().Settle(ctx, c.lease, g.Usage.Total())
		})
		// A Conflict says that an attempt whose answer was lost had succeeded.
		if err == nil || fault.Is(err, fault.Conflict) {
			return
		}
		if attempt == attempts || s.Pause(ctx, attempt) != nil {
			s.Log.Error("model call settlement failed", "call", string(g.ID), "org", string(g.Org), "tokens", g.Usage.Total(), "error", err)
			return
		}
	}
}

// outcomeOf says what became of a call.
func outcomeOf(err error, ctx context.Context, out *outlet) chat.Outcome {
	var f *chat.Failure
	switch cause := context.Cause(ctx); {
	case err == nil:
		return chat.Completed
	case out.gone:
		return chat.ClientGone
	case errors.Is(cause, errSilent):
		return chat.TimedOut
	case errors.Is(cause, errShutdown):
		return chat.ShutDown
	case cause != nil:
		return chat.ClientGone
	case errors.As(err, &f) && f.Kind == chat.Truncated:
		return chat.CutOff
	case errors.As(err, &f) && f.Kind == chat.TooSlow:
		return chat.TimedOut
	}
	return chat.Failed
}

// failureOf names the kind of a failure for analytics.
func failureOf(err error) string {
	var f *chat.Failure
	if !errors.As(err, &f) {
		return ""
	}
	return f.Kind.String()
}

// outlet is the sink on its way to the client: it notes what a call has sent.
type outlet struct {
	to    ports.Sink
	clock ports.Clock
	alarm ports.Alarm
	began time.Time

	first time.Duration // until the first chunk
	came  int64         // tokens of output so far, by our estimate
	sent  bool          // a chunk went out
	gone  bool          // the client did not take one
	lost  bool          // the client did not take the last of them, after the provider's end
	alive bool          // the provider has sent something of this attempt
}

func (o *outlet) Chunk(c chat.Chunk) error {
	if !o.sent {
		o.sent, o.first = true, o.clock.Now().Sub(o.began)
	}
	switch c.Type {
	case chat.TextChunk:
		o.came += chat.EstimateText(c.Text)
	case chat.CallChunk:
		o.came += chat.EstimateText(c.Name) + chat.EstimateText(c.Args)
	}
	err := o.to.Chunk(c)
	o.gone = o.gone || err != nil
	return err
}

func (o *outlet) Alive() {
	o.alive = true
	o.alarm.Reset(silentWithin)
}

func (o *outlet) Wait() error {
	err := o.to.Wait()
	o.gone = o.gone || err != nil
	return err
}
