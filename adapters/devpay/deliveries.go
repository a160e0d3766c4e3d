package devpay

import (
	"context"
	"slices"
	"sync"
	"time"
)

// deliveryTimeout limits one attempt.
const deliveryTimeout = 10 * time.Second

// backoff has the pauses after failed deliveries of an event. The event is dropped when the
// attempt after the last pause fails.
var backoff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

// queue delivers the events of one subscription in order.
type queue struct {
	subscription string

	mu       sync.Mutex         // held during an attempt
	endPause context.CancelFunc // ends the pause before the next attempt; nil before the first; guarded by mu
}

// deliver starts the delivery of a subscription's events, and returns a channel that is
// closed after the attempt.
func (p *Provider) deliver(subscription string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	if p.closed || p.options.Emit == nil {
		close(done)
		return done
	}
	q, ok := p.queues[subscription]
	if !ok {
		q = &queue{subscription: subscription}
		p.queues[subscription] = q
	}
	p.workers.Go(func() {
		defer close(done)
		p.attempt(q)
	})
	return done
}

// resume starts the delivery of the events of an earlier process, after a pause in which the
// service starts to listen. New calls it before there are requests.
func (p *Provider) resume() {
	if p.options.Emit == nil {
		return
	}
	p.state.Read(func(b *state) {
		for _, m := range b.Outbox {
			p.queues[m.Subscription] = &queue{subscription: m.Subscription}
		}
	})
	for _, q := range p.queues {
		p.attemptAfter(backoff[0], q)
	}
}

// attempt delivers events until a delivery fails, after which it starts the next attempt's pause.
// It ends a pause that has not ended.
func (p *Provider) attempt(q *queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.endPause != nil {
		q.endPause()
	}
	if pause := p.deliverPending(q.subscription); pause > 0 {
		p.attemptAfter(pause, q)
	}
}

// attemptAfter starts an attempt after the pause, unless the pause is ended. The caller holds q.mu.
func (p *Provider) attemptAfter(pause time.Duration, q *queue) {
	ctx, cancel := context.WithCancel(p.ctx)
	q.endPause = cancel
	p.workers.Go(func() {
		select {
		case <-p.options.After(pause):
			p.attempt(q)
		case <-ctx.Done():
		}
	})
}

// deliverPending delivers the subscription's events in order until a delivery fails. It
// returns the pause before the next attempt; zero if none is needed.
func (p *Provider) deliverPending(subscription string) (pause time.Duration) {
	for p.ctx.Err() == nil {
		m, waits := p.first(subscription)
		if !waits {
			return 0
		}
		attemptCtx, cancel := context.WithTimeout(p.ctx, deliveryTimeout)
		failed := p.options.Emit(attemptCtx, m.ID, m.Body)
		cancel()
		if failed != nil && p.ctx.Err() != nil {
			break // it was interrupted
		}
		m.Attempts++
		givenUp := m.Attempts > len(backoff)
		if failed != nil {
			p.options.Log.Warn("payment event delivery failed", "message", m.ID, "given_up", givenUp, "error", failed)
		}
		if err := p.attempted(m, failed == nil || givenUp); err != nil {
			// The attempt is not stored: retrying would deliver the event without end.
			p.options.Log.Error("payment event delivery suspended", "subscription", subscription, "error", err)
			return 0
		}
		if failed != nil && !givenUp {
			return backoff[m.Attempts-1]
		}
	}
	return 0
}

// first returns the next event of a subscription.
func (p *Provider) first(subscription string) (m message, found bool) {
	p.state.Read(func(b *state) {
		i := slices.IndexFunc(b.Outbox, func(m message) bool { return m.Subscription == subscription })
		if found = i >= 0; found {
			m = b.Outbox[i]
		}
	})
	return m, found
}

// attempted stores an attempt, or removes the event if it is done.
func (p *Provider) attempted(m message, done bool) error {
	return p.state.Update(func(b *state) (bool, error) {
		i := slices.IndexFunc(b.Outbox, func(o message) bool { return o.ID == m.ID })
		if i < 0 {
			return false, nil
		}
		b.Outbox[i] = m
		if done {
			b.Outbox = slices.Delete(b.Outbox, i, i+1)
		}
		return true, nil
	})
}

// Close stops the deliveries. The next process resumes them.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	done := make(chan struct{})
	go func() {
		p.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
