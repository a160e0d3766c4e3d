package localdisk

import (
	"context"
	"time"

	"collab/domain/mirror"
)

const (
	gatherFor    = 300 * time.Millisecond // from the first change on
	pollInterval = time.Minute            // where changes are not notified
)

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
