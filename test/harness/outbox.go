package harness

import (
	"context"
	"slices"
	"time"
)

// outbox is the way of a provider's messages to the server. They go out at once
// unless they are held back, and what the server did not take goes out again.
type outbox struct {
	send func(context.Context, message) error
	held bool
	kept []message // those that wait, in their order
	sent []message // those that were taken, the oldest first
}

// message is what a provider tells.
type message struct {
	ID   string
	Type string
	At   time.Time
	body []byte
}

// maxSent is how many messages that were taken are remembered.
const maxSent = 1000

// post sends a message, or keeps it.
func (o *outbox) post(ctx context.Context, m message) {
	o.kept = append(o.kept, m)
	o.again(ctx)
}

// again sends what waits, unless it is held back.
func (o *outbox) again(ctx context.Context) {
	if !o.held {
		o.deliver(ctx, nil)
	}
}

// deliver sends what waits in the order in which the given function puts it; nil:
// its own. It returns how many messages were taken and how many were not, which
// go on to wait.
func (o *outbox) deliver(ctx context.Context, order func([]message)) (taken, refused int) {
	all := o.kept
	if o.kept = nil; order != nil {
		order(all)
	}
	for _, m := range all {
		if o.send(ctx, m) != nil {
			o.kept = append(o.kept, m)
			refused++
			continue
		}
		o.sent = append(o.sent, m)
		taken++
	}
	if n := len(o.sent); n > maxSent {
		o.sent = slices.Delete(o.sent, 0, n-maxSent)
	}
	return taken, refused
}

// repeat sends the last messages that were taken once more.
func (o *outbox) repeat(ctx context.Context, last int) error {
	for _, m := range o.sent[max(0, len(o.sent)-last):] {
		if err := o.send(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
