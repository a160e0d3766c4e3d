package devpay

import (
	"context"
	"slices"
	"time"
)

// deliveryTimeout limits one attempt.
const deliveryTimeout = 10 * time.Second

// backoff has the pauses after failed deliveries of an event. The event is dropped when the
// attempt after the last pause fails.
var backoff = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

// queue delivers the events of one subscription in order. It exists as long as its
// goroutine.
type queue struct {
	waiters []chan struct{} // closed after the next attempt
	wake    chan struct{}   // interrupts a pause
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
	l, ok := p.queues[subscription]
	if !ok {
		l = p.startQueue(subscription, 0)
	}
	l.waiters = append(l.waiters, done)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return done
}

// resume starts the delivery of the events of an earlier process, after a pause in which the
// service starts to listen.
func (p *Provider) resume() {
	if p.options.Emit == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Read(func(b *state) {
		for _, m := range b.Outbox {
			if _, there := p.queues[m.Subscription]; !there {
				p.startQueue(m.Subscription, backoff[0])
			}
		}
	})
}

// startQueue starts a queue. The caller holds p.mu.
func (p *Provider) startQueue(subscription string, pause time.Duration) *queue {
	l := &queue{wake: make(chan struct{}, 1)}
	p.queues[subscription] = l
	p.workers.Go(func() { p.run(subscription, l, pause) })
	return l
}

// run delivers events until the outbox has none of the subscription.
func (p *Provider) run(subscription string, l *queue, pause time.Duration) {
	for {
		if pause > 0 {
			select {
			case <-p.options.After(pause):
			case <-l.wake:
			case <-p.ctx.Done():
			}
		}
		p.mu.Lock()
		waiters := l.waiters
		l.waiters = nil
		select {
		case <-l.wake: // sent by a waiter of this attempt
		default:
		}
		p.mu.Unlock()

		var left bool
		left, pause = p.deliverPending(subscription)
		for _, done := range waiters {
			close(done)
		}

		p.mu.Lock()
		if p.closed || !left && len(l.waiters) == 0 {
			for _, done := range l.waiters {
				close(done)
			}
			delete(p.queues, subscription)
			p.mu.Unlock()
			return
		}
		if len(l.waiters) > 0 {
			pause = 0
		}
		p.mu.Unlock()
	}
}

// deliverPending delivers the subscription's events in order until a delivery fails. It
// reports whether events are left, and the pause before the next attempt.
func (p *Provider) deliverPending(subscription string) (left bool, pause time.Duration) {
	for p.ctx.Err() == nil {
		m, waits := p.first(subscription)
		if !waits {
			return false, 0
		}
		once, cancel := context.WithTimeout(p.ctx, deliveryTimeout)
		failed := p.options.Emit(once, m.ID, m.Body)
		cancel()
		if failed != nil && p.ctx.Err() != nil {
			return true, 0 // it was interrupted
		}
		m.Attempts++
		givenUp := m.Attempts > len(backoff)
		if failed != nil {
			p.options.Log.Warn("payment event delivery failed", "message", m.ID, "given_up", givenUp, "error", failed)
		}
		if err := p.attempted(m, failed == nil || givenUp); err != nil {
			// The attempt is not stored: retrying would deliver the event without end.
			p.options.Log.Error("payment event delivery suspended", "subscription", subscription, "error", err)
			return false, 0
		}
		if failed != nil && !givenUp {
			return true, backoff[m.Attempts-1]
		}
	}
	return true, 0
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
