package natsbus

import (
	"context"

	"github.com/nats-io/nats.go"
)

// Ready returns nil while both connections are up. A server works without them.
func (b *Bus) Ready(context.Context) error {
	for _, c := range []*nats.Conn{b.out, b.in} {
		if !c.IsConnected() {
			return unavailable(c.LastError())
		}
	}
	return nil
}
