package upkeep

import (
	"context"
	"time"

	"collab/domain/fault"
	"collab/domain/object"
)

// atOnce is how many names a collection, or clients a sweep, works on at a time.
const atOnce = 500

// Reason says why a blob is garbage.
type Reason string

// The reasons.
const (
	Unnamed Reason = "named by no object"                // replaced, deleted, or never finished
	Unknown Reason = "in the store, not in the database" // as after the database was restored from a copy
)

// Garbage is a blob that a collection removes.
type Garbage struct {
	Name   string
	Reason Reason
	Since  time.Time // when that came to be, for an Unknown when it was written
}

// Collect removes the blobs that no object has named for the time of
// object.Grace, and forgets their names. Whole also looks through the store for
// blobs that the database does not know at all. Dry removes nothing. Each is
// called with every blob that was removed, or would be; its error ends the
// collection. Any number of servers may collect at once.
func (u *Upkeep) Collect(ctx context.Context, whole, dry bool, each func(Garbage) error) error {
	before := u.clock.Now().Add(-object.Grace)
	names := u.store.Storage().BlobNames()
	if !dry {
		if err := names.Expire(ctx, before); err != nil {
			return err
		}
	}
	for after := ""; ; {
		due, err := names.Due(ctx, before, after, atOnce)
		if err != nil {
			return err
		}
		for _, b := range due {
			if err := u.collect(ctx, b, dry, each); err != nil {
				return err
			}
		}
		if len(due) < atOnce {
			break
		}
		after = due[len(due)-1].Name
	}
	if !whole {
		return nil
	}
	return u.search(ctx, before, dry, each)
}

// collect removes one blob whose name is kept. What the name says is the last
// thing to go, so that a collection that stops half-way is taken up again.
func (u *Upkeep) collect(ctx context.Context, b object.Blob, dry bool, each func(Garbage) error) error {
	if !dry {
		if !b.Discarded {
			return nil // it came of age after Expire: the next time's
		}
		if err := u.blobs.Remove(ctx, b.Name); err != nil {
			return err
		}
		if err := u.store.Storage().BlobNames().Forget(ctx, b); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return each(Garbage{Name: b.Name, Reason: Unnamed, Since: b.At})
}

// search goes through the store for what the database does not know. A name is
// announced before anything is under it, so what was written long ago and is
// known to nothing now stays so. A database that knows nothing at all of what is
// in the store is another store's: then nothing is removed.
func (u *Upkeep) search(ctx context.Context, before time.Time, dry bool, each func(Garbage) error) error {
	if !dry {
		known, found := false, false
		err := u.unknown(ctx, before, true, &known, func(Garbage) error {
			found = true
			return nil
		})
		if err != nil {
			return err
		}
		if found && !known {
			return fault.New(fault.Conflict, "The database knows nothing of what is in the store of blobs: they do not belong together")
		}
	}
	return u.unknown(ctx, before, dry, new(bool), each)
}

// unknown calls each with what the database does not know, and sets some where
// there is something that it knows.
func (u *Upkeep) unknown(ctx context.Context, before time.Time, dry bool, some *bool, each func(Garbage) error) error {
	var old []Garbage
	flush := func() error {
		names := make([]string, len(old))
		for i, g := range old {
			names[i] = g.Name
		}
		known, err := u.store.Storage().BlobNames().Known(ctx, names)
		if err != nil {
			return err
		}
		for _, g := range old {
			if known[g.Name] {
				*some = true
				continue
			}
			if !dry {
				if err := u.blobs.Remove(ctx, g.Name); err != nil {
					return err
				}
			}
			if err := each(g); err != nil {
				return err
			}
		}
		old = old[:0]
		return nil
	}
	err := u.blobs.List(ctx, func(name string, _ int64, written time.Time) error {
		if !written.Before(before) {
			return nil
		}
		old = append(old, Garbage{Name: name, Reason: Unknown, Since: written})
		if len(old) < atOnce {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
