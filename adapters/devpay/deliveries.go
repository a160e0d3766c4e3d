package devpay

import (
	"context"
	"slices"
	"time"

	"collab/adapters/retryqueue"
)

// deliveryTimeout limits one attempt.
const deliveryTimeout = 10 * time.Second

// backoff has the pauses after failed deliveries of an event. The event is dropped when the
// attempt after the last pause fails.
var backoff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

// startDeliveries starts the delivery of events, those of an earlier process first.
func (p *Provider) startDeliveries() {
	p.queue = retryqueue.New(retryqueue.Options[message]{
		Capacity: maxRecords, Batch: 1, Backoff: backoff, Now: p.options.Clock.Now, After: p.options.After,
		Deliver: func(ctx context.Context, one []message) retryqueue.Result {
			ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
			defer cancel()
			return retryqueue.Result{Err: p.options.Emit(ctx, one[0].ID, one[0].Body)}
		},
		Report: p.reportAttempt,
	})
	p.state.Read(func(b *state) {
		for _, m := range b.Outbox {
			p.queue.Add(m)
		}
	})
}

// deliver queues an event, and returns a channel that is closed after its first attempt.
func (p *Provider) deliver(m message) <-chan struct{} {
	attempt := make(chan struct{})
	p.mu.Lock()
	p.waiting[m.ID] = attempt
	p.mu.Unlock()
	p.queue.Add(m)
	return attempt
}

// await waits until all channels are closed, ctx ends or the provider is closed.
func (p *Provider) await(ctx context.Context, attempts []<-chan struct{}) {
	for _, attempt := range attempts {
		select {
		case <-attempt:
		case <-ctx.Done():
		case <-p.ctx.Done():
		}
	}
}

// reportAttempt removes an event that was delivered or is dropped from the outbox, after an attempt.
func (p *Provider) reportAttempt(one []message, attempts int, failed error, again bool) {
	m, dropped := one[0], attempts > len(backoff) && !again
	if failed != nil {
		p.options.Log.Warn("payment event delivery failed", "message", m.ID, "given_up", dropped, "error", failed)
	}
	if failed == nil || dropped {
		err := p.state.Update(func(b *state) (bool, error) {
			b.Outbox = slices.DeleteFunc(b.Outbox, func(o message) bool { return o.ID == m.ID })
			return true, nil
		})
		if err != nil { // the next process delivers it again
			p.options.Log.Error("payment event not removed", "message", m.ID, "error", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if attempt, ok := p.waiting[m.ID]; ok {
		close(attempt)
		delete(p.waiting, m.ID)
	}
}

// Close stops the deliveries. The next process resumes them.
func (p *Provider) Close() {
	p.cancel()
	p.queue.Close(p.ctx)
}
