package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"collab/domain/fault"
	"collab/domain/object"
)

// batchSize is how many records are read, or removed in one transaction, at a time.
const batchSize = 500

// Reason is why a blob is garbage.
type Reason string

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

// Collect removes the blobs that no object has named for object.BlobGracePeriod, and their names. If
// whole is set it also lists the store for blobs that the database does not know. If dry is
// set it removes nothing. It calls each with every blob that it removed or would remove; an
// error of each ends the collection and is returned. Blobs that the store does not remove are
// left to later collections, and errors of them returned at the end. Unless whole is set, after maxFailures of
// them in a row the store may not answer at all: the names after them are left to the next collection, which
// begins with them. Any number of servers may collect concurrently.
func (u *Upkeep) Collect(ctx context.Context, whole, dry bool, each func(Garbage) error) error {
	before := u.clock.Now().Add(-object.BlobGracePeriod)
	names := u.store.Storage().BlobNames()
	if !dry {
		if err := names.Expire(ctx, before); err != nil {
			return err
		}
	}
	var failed failures
	if err := u.collectNames(ctx, before, whole, dry, &failed, each); err != nil {
		return errors.Join(failed.err(), err)
	}
	if whole {
		return errors.Join(u.collectUnknown(ctx, before, dry, &failed, each), failed.err())
	}
	return failed.err()
}

// collectNames collects the blobs whose names are due, after u.last.
func (u *Upkeep) collectNames(ctx context.Context, before time.Time, whole, dry bool, failed *failures, each func(Garbage) error) error {
	after := ""
	if !dry {
		if last := u.resumeAfter.Swap(nil); last != nil {
			after = *last
		}
	}
	for {
		due, err := u.store.Storage().BlobNames().Due(ctx, before, after, batchSize)
		if err != nil {
			return err
		}
		for _, b := range due {
			if err := failed.note(ctx, u.collect(ctx, b, dry, each)); err != nil {
				return err
			}
			if failed.consecutive == maxFailures && !whole {
				u.resumeAfter.Store(&b.Name)
				return nil
			}
		}
		if len(due) < batchSize {
			return nil
		}
		after = due[len(due)-1].Name
	}
}

// maxFailures is how many blobs in a row a collection leaves that the store does not remove, and how
// many errors of them it returns.
const maxFailures = 10

// failures are the blobs that the store did not remove.
type failures struct {
	first       []error // at most maxFailures
	total       int
	consecutive int // since the last blob without a failure
}

// note counts the result of a removal. It returns an error that ends the collection.
func (f *failures) note(ctx context.Context, err error) error {
	if _, failed := err.(removeError); !failed || ctx.Err() != nil {
		f.consecutive = 0
		return err
	}
	f.total++
	f.consecutive++
	if len(f.first) < maxFailures {
		f.first = append(f.first, err)
	}
	return nil
}

func (f *failures) err() error {
	if f.total > len(f.first) {
		return errors.Join(append(f.first, fmt.Errorf("and %d more blobs are not removed", f.total-len(f.first)))...)
	}
	return errors.Join(f.first...)
}

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

// removeUnknown removes a blob that the database does not know.
func (u *Upkeep) removeUnknown(ctx context.Context, g Garbage, dry bool, each func(Garbage) error) error {
	if !dry {
		if err := u.blobs.Remove(ctx, g.Name); err != nil {
			return removeError{err}
		}
	}
	return each(g)
}

// collectUnknown removes blobs that the database does not know. A name is announced before its blob
// is written, so an old blob without a name will never get one. If the database knows none
// of the old blobs, it belongs to another store: search removes nothing and fails with
// Conflict.
func (u *Upkeep) collectUnknown(ctx context.Context, before time.Time, dry bool, failed *failures, each func(Garbage) error) error {
	if !dry {
		known, found := false, false
		err := u.eachUnknown(ctx, before, true, &known, failed, func(Garbage) error {
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
	return u.eachUnknown(ctx, before, dry, new(bool), failed, each)
}

// eachUnknown calls each with the old blobs that the database does not know, removed unless dry
// is set. It sets anyKnown if the database knows one.
func (u *Upkeep) eachUnknown(ctx context.Context, before time.Time, dry bool, anyKnown *bool, failed *failures, each func(Garbage) error) error {
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
			if err := failed.note(ctx, u.removeUnknown(ctx, g, dry, each)); err != nil {
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
