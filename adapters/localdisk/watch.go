package localdisk

import (
	"context"
	"time"

	"collab/domain/mirror"
)

const (
	batchInterval = 300 * time.Millisecond // from the first change of a batch
	pollInterval  = time.Minute            // where changes are not notified
)

// settleTimeout is the longest wait of Settle.
const settleTimeout = time.Second

// Settle implements ports.Watcher. It changes the times of the state directory, and waits until that is notified, as
// notifications come in the order of the changes.
func (d *Disk) Settle(ctx context.Context) bool {
	select {
	case <-d.settled: // of an earlier call, which timed out
	default:
	}
	now := d.clock.Now()
	if !d.watching.Load() || d.state.root.Chtimes(".", now, now) != nil {
		return false
	}
	timeout := time.NewTimer(settleTimeout)
	defer timeout.Stop()
	select {
	case <-d.settled:
		return true
	case <-timeout.C:
	case <-ctx.Done():
	}
	return false
}

// poll passes everything every pollInterval, until ctx ends.
func (d *Disk) poll(ctx context.Context, changed func(mirror.Scope, string), reason string) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		changed(mirror.Everything(), reason)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
