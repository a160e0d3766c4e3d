package upkeep

import (
	"context"
	"errors"
	"time"

	"collab/domain/fault"
	"collab/domain/object"
)

// batchSize is how many names or clients are read at a time.
const batchSize = 500

// Reason is why a blob is garbage.
type Reason string

// The reasons.
const (
	Unnamed Reason = "named by no object"                // replaced, deleted, or never finished
	Unknown Reason = "in the store, not in the database" // for example after the database was restored
)

// Garbage is a blob that a collection removes.
type Garbage struct {
	Name   string
	Reason Reason
	Since  time.Time // when the name was announced or discarded; of an Unknown blob, when it was written
}

// Collect removes the blobs that no object has named for object.Grace, and their names. If
// whole is set it also lists the store for blobs that the database does not know. If dry is
// set it removes nothing. It calls each with every blob that it removed or would remove; an
// error of each ends the collection and is returned. Blobs that the store does not remove are
// left to later collections, and their errors returned at the end. Any number of servers may collect
// concurrently.
func (u *Upkeep) Collect(ctx context.Context, whole, dry bool, each func(Garbage) error) error {
	before := u.clock.Now().Add(-object.Grace)
	names := u.store.Storage().BlobNames()
	if !dry {
		if err := names.Expire(ctx, before); err != nil {
			return err
		}
	}
	var remaining []error
	for after := ""; ; {
		due, err := names.Due(ctx, before, after, batchSize)
		if err != nil {
			return err
		}
		for _, b := range due {
			err := u.collect(ctx, b, dry, each)
			if _, failed := err.(removeError); failed && len(remaining) < maxRemaining && ctx.Err() == nil {
				remaining = append(remaining, err)
				continue
			}
			if err != nil {
				return errors.Join(append(remaining, err)...)
			}
		}
		if len(due) < batchSize {
			break
		}
		after = due[len(due)-1].Name
	}
	if whole {
		remaining = append(remaining, u.search(ctx, before, dry, each))
	}
	return errors.Join(remaining...)
}

// maxRemaining is how many blobs a collection leaves that the store does not remove. With more
// it ends, as the store may not answer at all.
const maxRemaining = 10

// removeError says that the store did not remove a blob.
type removeError struct{ error }

func (e removeError) Unwrap() error { return e.error }

// collect removes a blob and then its name, so that an interrupted collection is repeated.
func (u *Upkeep) collect(ctx context.Context, b object.Blob, dry bool, each func(Garbage) error) error {
	if !dry {
		if !b.Discarded {
			return nil // it became due after Expire
		}
		if err := u.blobs.Remove(ctx, b.Name); err != nil {
			return removeError{err}
		}
		if err := u.store.Storage().BlobNames().Forget(ctx, b); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return each(Garbage{Name: b.Name, Reason: Unnamed, Since: b.At})
}

// search removes blobs that the database does not know. A name is announced before its blob
// is written, so an old blob without a name will never get one. If the database knows none
// of the old blobs, it belongs to another store: search removes nothing and fails with
// Conflict.
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

// unknown calls each with the old blobs that the database does not know, removed unless dry
// is set. It sets anyKnown if the database knows one.
func (u *Upkeep) unknown(ctx context.Context, before time.Time, dry bool, anyKnown *bool, each func(Garbage) error) error {
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
				*anyKnown = true
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
		if len(old) < batchSize {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}
