//go:build !linux

package localdisk

import (
	"context"

	"collab/domain/mirror"
)

// Watch implements ports.Watcher by passing everything every pollInterval. With kqueue every file
// would have to be open, and on Windows every directory, which then could not be renamed.
func (d *Disk) Watch(ctx context.Context, changed func(mirror.Scope, string)) error {
	if err := d.present(); err != nil {
		return err
	}
	return d.poll(ctx, changed, "on this system changes are noticed by a scan every minute")
}
