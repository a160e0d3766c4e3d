package harness

import (
	"context"
	"slices"
	"time"
)

// WebhookQueue delivers a provider's webhook messages to the server. Unless it is paused it delivers a message at
// once; it retries those that the server did not accept.
type WebhookQueue struct {
	Paused    bool
	Waiting   []Message // in the order of delivery
	Delivered []Message // the last maxDelivered accepted messages, the oldest first

	send func(context.Context, Message) error
}

// Message is a webhook message.
type Message struct {
	ID   string
	At   time.Time
	body []byte
}

// maxDelivered is the number of accepted messages that are kept.
const maxDelivered = 1000

// add queues a message, and delivers the waiting messages unless the queue is paused.
func (q *WebhookQueue) add(ctx context.Context, m Message) {
	q.Waiting = append(q.Waiting, m)
	q.retry(ctx)
}

// retry delivers the waiting messages unless the queue is paused.
func (q *WebhookQueue) retry(ctx context.Context) {
	if !q.Paused {
		q.Deliver(ctx, nil)
	}
}

// Deliver sends the waiting messages, sorted by order unless it is nil. It returns the numbers of accepted messages
// and of failed ones, which wait again.
func (q *WebhookQueue) Deliver(ctx context.Context, order func([]Message)) (accepted, failed int) {
	all := q.Waiting
	if q.Waiting = nil; order != nil {
		order(all)
	}
	for _, m := range all {
		if q.send(ctx, m) != nil {
			q.Waiting = append(q.Waiting, m)
			failed++
			continue
		}
		q.Delivered = append(q.Delivered, m)
		accepted++
	}
	if n := len(q.Delivered); n > maxDelivered {
		q.Delivered = slices.Delete(q.Delivered, 0, n-maxDelivered)
	}
	return accepted, failed
}

// Redeliver sends the last accepted messages again.
func (q *WebhookQueue) Redeliver(ctx context.Context, last int) error {
	for _, m := range q.Delivered[max(0, len(q.Delivered)-last):] {
		if err := q.send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
