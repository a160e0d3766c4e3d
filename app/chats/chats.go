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
	"collab/domain/calendar"
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
	firstByteTimeout = 60 * time.Second // until the provider sends the first byte
	silenceTimeout   = 90 * time.Second // between two reads from it
	callTimeout      = 30 * time.Minute // for the whole call
	settleTimeout    = 10 * time.Second // for reserving, also after the client has left, for extending leases, and for an attempt to settle
	storeTimeout     = 2 * time.Minute  // for settling a call, likewise; shorter than its lease
	attempts         = 3
)

// leaseLifetime is how long a reservation lasts unless ExtendLeases extends it.
const leaseLifetime = 3 * time.Minute

// ExtendEvery is how often ExtendLeases is to be called.
const ExtendEvery = time.Minute

var (
	errNoData   = errors.New("the provider sent nothing for too long")
	errShutdown = errors.New("the server is shutting down")
)

// Options has the dependencies and settings of Chats.
type Options struct {
	Store       ports.Store
	Registry    chat.Registry
	Providers   map[string]ports.Models // by the names that the registry uses
	Generations ports.Generations
	Clock       ports.Clock
	Alarms      ports.Alarms
	IDs         ports.IDs
	Log         *slog.Logger
	// Subscription is access.Access.Subscription.
	Subscription func(context.Context, ports.Records, org.Actor) (plan.Subscription, error)
	// Reauthorize is access.Access.Reauthorize.
	Reauthorize func(context.Context, org.Actor) (org.Actor, error)
	// Origin returns the origin of the request that ctx carries, for the log.
	Origin func(ctx context.Context) audit.Origin
	// Pause waits before the next attempt; attempt is 1 for the first.
	Pause func(ctx context.Context, attempt int) error
}

// Chats are the use cases of models.
type Chats struct {
	Options

	mu      sync.Mutex
	leases  map[id.Request]quota.Lease             // of calls, from Admit to the end of Run; guarded by mu
	cancels map[id.Request]context.CancelCauseFunc // of those that are running; guarded by mu
	closed  bool                                   // guarded by mu
	idle    chan struct{}                          // closed when no call is left; nil unless drained was called; guarded by mu

	unsettled map[id.Request]usage.Entry // of calls that ended and are not stored yet; guarded by mu

	draining chan struct{} // closed when closed is set

	reserving batcher[reservationKey, *reservation]
	settling  batcher[id.Org, usage.Entry] // calls that ended
}

func New(o Options) *Chats {
	return &Chats{
		Options: o, leases: map[id.Request]quota.Lease{}, cancels: map[id.Request]context.CancelCauseFunc{},
		unsettled: map[id.Request]usage.Entry{}, draining: make(chan struct{}),
	}
}

// Quota returns the actor's quota of today.
func (s *Chats) Quota(ctx context.Context, actor org.Actor) (quota.Status, error) {
	return s.quota(ctx, s.Store, actor)
}

// QuotaUnconfirmed is Quota for an actor from the cache (access.Access.Cached):
// org.ErrEpochChanged if the organisation is at another epoch than the actor.
func (s *Chats) QuotaUnconfirmed(ctx context.Context, actor org.Actor) (quota.Status, error) {
	return s.quota(ctx, s.Store.At(actor.Org, actor.Epoch()), actor)
}

func (s *Chats) quota(ctx context.Context, r ports.Records, actor org.Actor) (quota.Status, error) {
	if err := actor.CheckMember(); err != nil {
		return quota.Status{}, err
	}
	sub, err := s.Subscription(ctx, s.Store, actor)
	if err != nil {
		return quota.Status{}, err
	}
	now := s.Clock.Now()
	day := calendar.DayOf(now)
	account, err := r.Usage().Quotas().Account(ctx, actor.Org, actor.User, day)
	return account.Status(sub.At(now).DailyTokens(), day), err
}

// Models lists the models, the default one first.
func (s *Chats) Models(actor org.Actor) (chat.Registry, error) {
	return s.Registry, actor.CheckMember()
}

// Call is a request that was admitted. Run must be called once.
type Call struct {
	chats   *Chats
	actor   org.Actor
	request string // the id of the request
	call    chat.Call
	lease   quota.Lease
	began   time.Time
	tools   int
	model   ports.Models
}

// Admit checks a request and reserves the tokens that it may use. Invalid for a bad request,
// Forbidden if the quota has no room, Unavailable if the server drains.
func (s *Chats) Admit(ctx context.Context, actor org.Actor, r chat.Request) (*Call, error) {
	for {
		call, err := s.AdmitUnconfirmed(ctx, actor, r)
		if !fault.Is(err, fault.Forbidden) {
			return call, err
		}
		current, reauthorizeErr := s.Reauthorize(ctx, actor)
		if reauthorizeErr != nil {
			return nil, reauthorizeErr
		}
		if current.Epoch() == actor.Epoch() {
			return nil, err
		}
		actor = current
	}
}

// AdmitUnconfirmed is Admit for an actor from the cache (access.Access.Cached). It reserves
// nothing unless the organisation's epoch is actor.Visibility.Epoch; any refusal may be due
// to an outdated actor.
func (s *Chats) AdmitUnconfirmed(ctx context.Context, actor org.Actor, r chat.Request) (*Call, error) {
	if err := actor.CheckWrite(); err != nil {
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
	sub, err := s.Subscription(ctx, s.Store, actor)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	limit, day := sub.At(now).DailyTokens(), calendar.DayOf(now)
	need := call.Need(limit)
	if call.MaxTokens < 1 {
		return nil, fault.Field("message", "and history must fit the model's context of %d tokens", m.ContextWindow)
	}
	lease := quota.Lease{ID: id.Request(s.IDs.New()), Org: actor.Org, User: actor.User, Day: day, ExpiresAt: now.Add(leaseLifetime)}
	if err := s.addLease(lease); err != nil {
		return nil, err
	}
	// If the client disconnects meanwhile, its call ends at once and settles the reservation.
	reserving, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if lease.Tokens, err = s.reserveAt(reserving, actor.Epoch(), lease, limit, need); err != nil {
		s.endCall(lease.ID)
		return nil, err
	}
	if lease.Tokens == 0 {
		s.endCall(lease.ID)
		return nil, quota.Exceeded(limit, day.End())
	}
	call, _ = call.WithBudget(lease.Tokens) // a grant always includes output
	return &Call{
		chats: s, actor: actor, request: s.Origin(ctx).Request, call: call, lease: lease, began: now,
		tools: len(r.Tools), model: s.Providers[m.Provider],
	}, nil
}

// Run makes the call and passes its chunks to the sink, the last of them done or error. If
// the sink fails or ctx ends, the client is gone, and the provider's request is cancelled.
// Run returns when the usage is stored.
func (c *Call) Run(ctx context.Context, to ports.ChunkSink) {
	s := c.chats
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.Alarms.Set(callTimeout, func() { cancel(errNoData) }).Stop()
	out := &countingSink{to: to, clock: s.Clock, began: c.began}
	if !s.setCancel(c.lease.ID, cancel) {
		cancel(errShutdown)
	}
	defer s.endCall(c.lease.ID)

	g := chat.Generation{
		ID: c.lease.ID, Org: c.actor.Org, User: c.actor.User, Model: c.call.Model.ID, Provider: c.call.Model.Provider,
		StartedAt: c.began, Tools: c.tools, WebSearch: c.call.WebSearch,
	}
	// After a panic of an adapter the deferred function still settles the call.
	err := errors.New("the call did not end")
	var totals attemptTotals
	defer func() {
		g.Duration, g.FirstChunk = max(0, s.Clock.Now().Sub(c.began)), out.first // the clock may be set back
		g.Outcome = outcomeOf(ctx, err, out)
		if f, ok := errors.AsType[*chat.Failure](err); ok && g.Outcome != chat.Completed {
			g.Failure = f.Kind.String()
		}
		g.Attempts, g.Stop = totals.attempts, totals.reply.Stop
		g.Usage, g.Provenance = c.call.FinalUsage(totals.reply, out.tokens)
		if !totals.accepted {
			g.Usage = chat.Usage{} // the provider never accepted it
		}
		s.settle(ctx, usage.Entry{
			ID: g.ID, Org: g.Org, User: g.User, At: g.StartedAt, Model: g.Model, Provider: g.Provider,
			Tokens: g.Usage, Provenance: g.Provenance, Outcome: g.Outcome,
		})
		s.Generations.Record(g)
		c.finish(out, g, err)
	}()
	err = c.stream(ctx, cancel, out, &totals)
	if !out.sendFailed {
		out.flushFailed = to.Wait() != nil // send the last chunks before the usage is stored
	}
}

// stream makes the call, and repeats it after a retryable failure if no chunk was sent and
// the lease has room for another attempt.
func (c *Call) stream(ctx context.Context, cancel context.CancelCauseFunc, out *countingSink, totals *attemptTotals) error {
	out.alarm = c.chats.Alarms.Set(firstByteTimeout, func() { cancel(errNoData) })
	defer out.alarm.Stop()
	call := c.call
	for {
		err := c.attempt(ctx, call, out, totals)
		f, failed := errors.AsType[*chat.Failure](err)
		if !failed || totals.attempts == attempts || out.anySent || !f.Retryable() || ctx.Err() != nil {
			return err
		}
		limited, ok := c.withinLease(totals, out.tokens)
		if !ok {
			return err
		}
		call = limited
		if e := c.chats.Pause(ctx, totals.attempts); e != nil {
			return e
		}
		out.alarm.Reset(firstByteTimeout)
	}
}

// withinLease returns the call limited to the tokens that earlier attempts have left of the
// lease; false if they are too few.
func (c *Call) withinLease(totals *attemptTotals, tokens int64) (chat.Call, bool) {
	if !totals.accepted {
		return c.call, true
	}
	used, _ := c.call.FinalUsage(totals.reply, tokens)
	return c.call.WithBudget(c.lease.Tokens - used.Total())
}

// attempt makes the call once, and counts it even if the adapter panics.
func (c *Call) attempt(ctx context.Context, call chat.Call, out *countingSink, totals *attemptTotals) (err error) {
	out.requested, out.responding = false, false
	var reply chat.Reply
	defer func() {
		f, failed := errors.AsType[*chat.Failure](err)
		refused := failed && (f.Kind == chat.Overloaded || f.Kind == chat.RateLimited) && !out.anySent
		abandoned := out.requested && outcomeOf(ctx, err, out) == chat.ClientGone
		totals.add(reply, out.responding && !refused || abandoned)
	}()
	reply, err = c.model.Stream(ctx, call, out)
	return err
}

// attemptTotals sums up the attempts of a call.
type attemptTotals struct {
	attempts int
	reply    chat.Reply
	accepted bool // the provider accepted one of them, or its client left before the provider said so
}

// add counts an attempt. One that the provider did not accept, and of which it sent no usage, used nothing.
func (t *attemptTotals) add(r chat.Reply, accepted bool) {
	t.attempts++
	switch {
	case !accepted && r == chat.Reply{}:
	case t.accepted:
		t.reply = t.reply.Plus(r)
	default:
		t.reply, t.accepted = r, true
	}
}

// finish gives the last chunk to the sink, which sends it when Run returns.
func (c *Call) finish(out *countingSink, g chat.Generation, err error) {
	last := chat.Chunk{Type: chat.DoneChunk, Usage: g.Usage}
	switch g.Outcome {
	case chat.ClientGone:
		return
	case chat.Completed:
	default:
		f, failed := errors.AsType[*chat.Failure](err)
		if !failed {
			f = &chat.Failure{}
		}
		last = chat.Chunk{Type: chat.ErrorChunk, Text: f.Message()}
		c.chats.Log.Warn("model call failed", "model", g.Model, "outcome", string(g.Outcome), "call", string(g.ID), "request", c.request, "error", err)
	}
	if !out.flushFailed {
		_ = out.to.Chunk(last) // the error is ignored because the call has ended
	}
}

// outcomeOf returns the outcome of a call.
func outcomeOf(ctx context.Context, err error, out *countingSink) chat.Outcome {
	f, failed := errors.AsType[*chat.Failure](err)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return chat.Completed
	case out.sendFailed:
		return chat.ClientGone
	case errors.Is(cause, errNoData):
		return chat.TimedOut
	case errors.Is(cause, errShutdown):
		return chat.ShutDown
	case cause != nil:
		return chat.ClientGone
	case failed && f.Kind == chat.Truncated:
		return chat.CutOff
	}
	return chat.Failed
}

// countingSink passes chunks on to the client's sink, and counts them.
type countingSink struct {
	to    ports.ChunkSink
	clock ports.Clock
	alarm ports.Alarm
	began time.Time

	first       time.Duration // until the first chunk
	tokens      int64         // estimated tokens of output so far
	anySent     bool          // a chunk was sent
	sendFailed  bool          // sending a chunk failed
	flushFailed bool          // sending the last chunks failed, after the provider's end
	requested   bool          // the provider has the request of this attempt
	responding  bool          // the provider has sent data in this attempt
}

func (o *countingSink) Chunk(c chat.Chunk) error {
	if !o.anySent {
		o.anySent, o.first = true, max(0, o.clock.Now().Sub(o.began))
	}
	switch c.Type {
	case chat.TextChunk:
		o.tokens += chat.EstimateText(c.Text)
	case chat.CallChunk:
		o.tokens += chat.EstimateText(c.Name) + chat.EstimateText(c.Args)
	}
	err := o.to.Chunk(c)
	o.sendFailed = o.sendFailed || err != nil
	return err
}

func (o *countingSink) Sent() { o.requested = true }

func (o *countingSink) Alive() {
	o.responding = true
	o.alarm.Reset(silenceTimeout)
}

func (o *countingSink) Wait() error {
	err := o.to.Wait()
	o.sendFailed = o.sendFailed || err != nil
	return err
}
