package devpay

import (
	"context"
	"slices"
	"time"
)

// deliveryTimeout bounds one attempt.
const deliveryTimeout = 10 * time.Second

// pauses are the times between the attempts to deliver an event, which is given
// up after one more than there are pauses.
var pauses = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

// line is where the events of one subscription wait for each other. It is there
// as long as its goroutine.
type line struct {
	awaiting []chan struct{} // closed when the next round is over
	wake     chan struct{}   // ends a pause
}

// deliver begins a round of deliveries of a subscription's events, and returns
// what is closed when it is over.
func (p *Provider) deliver(subscription string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := make(chan struct{})
	if p.closed || p.options.Emit == nil {
		close(over)
		return over
	}
	l, there := p.waiting[subscription]
	if !there {
		l = p.newLine(subscription, 0)
	}
	l.awaiting = append(l.awaiting, over)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return over
}

// resume begins with what an earlier process has left, after a pause in which
// the service begins to listen.
func (p *Provider) resume() {
	if p.options.Emit == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book.Read(func(b *book) {
		for _, m := range b.Outbox {
			if _, there := p.waiting[m.Subscription]; !there {
				p.newLine(m.Subscription, pauses[0])
			}
		}
	})
}

// newLine starts a line. The caller holds p.mu.
func (p *Provider) newLine(subscription string, pause time.Duration) *line {
	l := &line{wake: make(chan struct{}, 1)}
	p.waiting[subscription] = l
	p.lines.Go(func() { p.run(subscription, l, pause) })
	return l
}

// run makes rounds of deliveries until nothing is left.
func (p *Provider) run(subscription string, l *line, pause time.Duration) {
	for {
		if pause > 0 {
			select {
			case <-p.options.After(pause):
			case <-l.wake:
			case <-p.alive.Done():
			}
		}
		p.mu.Lock()
		awaiting := l.awaiting
		l.awaiting = nil
		select {
		case <-l.wake: // for those who are awaiting this round
		default:
		}
		p.mu.Unlock()

		var left bool
		left, pause = p.round(subscription)
		for _, over := range awaiting {
			close(over)
		}

		p.mu.Lock()
		if p.closed || !left && len(l.awaiting) == 0 {
			for _, over := range l.awaiting {
				close(over)
			}
			delete(p.waiting, subscription)
			p.mu.Unlock()
			return
		}
		if len(l.awaiting) > 0 {
			pause = 0
		}
		p.mu.Unlock()
	}
}

// round delivers the subscription's events in their order until one cannot be
// delivered, and says whether to try again after a pause.
func (p *Provider) round(subscription string) (left bool, pause time.Duration) {
	for p.alive.Err() == nil {
		m, waits := p.first(subscription)
		if !waits {
			return false, 0
		}
		once, cancel := context.WithTimeout(p.alive, deliveryTimeout)
		failed := p.options.Emit(once, m.ID, m.Body)
		cancel()
		if failed != nil && p.alive.Err() != nil {
			return true, 0 // it did not have its time
		}
		m.Attempts++
		givenUp := m.Attempts > len(pauses)
		if failed != nil {
			p.options.Log.Warn("payment event not delivered", "message", m.ID, "given_up", givenUp, "error", failed)
		}
		if err := p.attempted(m, failed == nil || givenUp); err != nil {
			// Without a note of it, this would be delivered again and again.
			p.options.Log.Error("development payment provider: deliveries stop until something happens", "subscription", subscription, "error", err)
			return false, 0
		}
		if failed != nil && !givenUp {
			return true, pauses[m.Attempts-1]
		}
	}
	return true, 0
}

// first returns the event of a subscription that is to be delivered next.
func (p *Provider) first(subscription string) (m message, found bool) {
	p.book.Read(func(b *book) {
		i := slices.IndexFunc(b.Outbox, func(m message) bool { return m.Subscription == subscription })
		if found = i >= 0; found {
			m = b.Outbox[i]
		}
	})
	return m, found
}

// attempted notes an attempt, or that the event is done with.
func (p *Provider) attempted(m message, done bool) error {
	return p.book.Update(func(b *book) (bool, error) {
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

// Close ends the deliveries. What is left of them is delivered after the next
// start.
func (p *Provider) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.finish()
	over := make(chan struct{})
	go func() {
		p.lines.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
