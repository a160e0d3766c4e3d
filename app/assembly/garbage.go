package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"

	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/app/upkeep"
	"collab/domain/object"
	"collab/ports"
)

// Collect removes unreferenced blobs from the whole store and lists them on out; if dry is set
// it only lists them. Servers may be running.
func Collect(ctx context.Context, c config.Config, dry bool, out, log io.Writer) error {
	return withStores(ctx, c, log, func(db *gormdb.DB, blobs ports.Blobs) error {
		n := 0
		err := upkeep.New(db, blobs, system.Clock{}, nil, c.Retention).Collect(ctx, true, dry, func(g upkeep.Garbage) error {
			n++
			_, err := fmt.Fprintf(out, "%s  %s, since %s\n", g.Name, g.Reason, g.Since.UTC().Format("2006-01-02T15:04:05Z"))
			return err
		})
		if err != nil {
			return err
		}
		result := "removed"
		if dry {
			result = "would be removed"
		}
		_, err = fmt.Fprintf(out, "%d blobs %s; garbage younger than %d hours is kept\n", n, result, int(object.BlobGracePeriod.Hours()))
		return err
	})
}

// withStores calls fn with the configured database and store, beside servers that use them. It writes
// its log to log.
func withStores(ctx context.Context, c config.Config, log io.Writer, fn func(*gormdb.DB, ports.Blobs) error) (err error) {
	if c.Database() == "memory" || c.BlobURL.Scheme() == "mem" {
		return errors.New("COLLAB_DATABASE_URL and COLLAB_BLOB_URL name memory, and this command needs stored data")
	}
	lock, err := datadir.LockExisting(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	db, err := gormdb.Open(ctx, gormdb.Options{URL: c.DatabaseURL.Text(), Logger: c.Logger(log), Pause: pause})
	if err != nil {
		return fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Ready(ctx); err != nil {
		return fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	blobs, err := bucket.Open(ctx, c.BlobURL.Text())
	if err != nil {
		return fmt.Errorf("COLLAB_BLOB_URL: %w", err)
	}
	defer func() { err = errors.Join(err, blobs.Close()) }()
	return fn(db, blobs)
}
