package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// Storage holds stored objects, the log of their changes and the names of
// their blobs.
type Storage interface {
	Objects() Objects
	Changes() Changes
	BlobNames() BlobNames
	// Replace stores an object's next content where it still has the content that
	// was: it does, under the log's Lock, what Objects.Put does with c's object,
	// BlobNames.Forget with the announced name of its blob, BlobNames.Discard at c's
	// time with that of the blob before it, and Changes.Append with c, which
	// object.Written has made. Conflict when
	// the object is not there any more or names another blob, and when the name is
	// not announced.
	Replace(ctx context.Context, o id.Org, was object.Content, c object.Change) (object.Head, error)
}

// Objects holds the records of stored objects. Whoever changes them holds the
// Lock of the organisation's log, in whose transaction the change is appended.
type Objects interface {
	Get(ctx context.Context, o id.Org, of id.Object) (object.Object, error)
	// At finds the object whose storage key has the same folded form.
	At(ctx context.Context, o id.Org, storageKey string) (object.Object, error)
	// List calls each with the objects that f selects (exactly those for which
	// f.Selects), in the order of their storage keys as bytes: those that the
	// viewer sees, all of them where there is none. Before that it calls head,
	// unless it is nil, with the log's head at the same moment. An error of either
	// ends the list and is returned.
	List(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error
	// Add stores a new object. Conflict when its storage key, folded, is another's,
	// is a folder that another lies in, or lies below another as if that were a
	// folder. NotFound when its workspace or team is not there, unless it is
	// personal.
	Add(ctx context.Context, o id.Org, v object.Object) error
	// Put replaces an object that is there, in the same place and under the same
	// path.
	Put(ctx context.Context, o id.Org, v object.Object) error
	// Remove deletes objects; those that are not there are left out. It takes a
	// bounded number of statements.
	Remove(ctx context.Context, o id.Org, ids []id.Object) error
}

// Changes holds each organisation's log of changes. When a transaction that
// appended to it commits, the store publishes a hint on the bus that it was
// opened with.
type Changes interface {
	// Lock keeps others from appending to the organisation's log, and so from
	// changing its objects, until the transaction ends. Outside Atomic it fails.
	Lock(ctx context.Context, o id.Org) (object.Head, error)
	// Append gives the changes the next numbers and stores them, and sets the
	// number of each changed object's record; it takes the Lock. Outside Atomic it
	// fails. NotFound for an organisation that is not there. As the Lock is held to
	// the end of the transaction, numbers become visible in their order and without
	// gaps.
	Append(ctx context.Context, o id.Org, changes ...object.Change) (object.Head, error)
	// Heads returns the head of each of the organisations' logs. One that has no
	// entry yet has the number 0.
	Heads(ctx context.Context, orgs []id.Org) (map[id.Org]object.Head, error)
	// List returns the entries with numbers greater than after, in their order, at
	// most limit, for everybody.
	List(ctx context.Context, o id.Org, after int64, limit int) ([]object.Change, error)
	// Since calls head with the log's head, and then each with what an observer who
	// left off after the number has to know, all of one moment: the objects whose
	// last change has a greater number, as changes of theirs, the entries of
	// deletions with greater numbers, and the entries of AccessChanged with
	// greater numbers before all others; for everybody, in the order of the
	// numbers within each of the three. The changes of objects that are still there
	// have N and Object set and nothing else but the Type. An error of either ends
	// it and is returned.
	Since(ctx context.Context, o id.Org, after int64, head func(object.Head) error, each func(object.Change) error) error
	// Prune removes the entries up to the last one that is older than before, of
	// every organisation, and raises the floors. It removes a bounded number in one
	// transaction and goes on until there are none.
	Prune(ctx context.Context, before time.Time) error
}

// BlobNames holds the names of blobs that no object names: those that are about
// to be written and those that are to be removed. What no object names and is not
// here either is never read.
type BlobNames interface {
	// Announce notes a blob that is about to be written. Conflict for a name that
	// is there.
	Announce(ctx context.Context, o id.Org, name string, now time.Time) error
	// Forget forgets a name that is there and Discarded as b says; At counts for
	// nothing. NotFound for any other. An announced name is forgotten in the
	// transaction in which an object takes it over, a discarded one when its blob
	// is gone.
	Forget(ctx context.Context, b object.Blob) error
	// Discard marks names that objects have named until now as to be removed since
	// now, in the transaction in which the objects let go of them; one that is
	// discarded already keeps its time.
	Discard(ctx context.Context, o id.Org, names []string, now time.Time) error
	// Expire turns the names of all organisations that are announced since before
	// the time into discarded ones, which keep their time: their uploads
	// can no longer take them over. Of an Expire and a Forget at once one wins.
	Expire(ctx context.Context, before time.Time) error
	// Due lists the names of all organisations, announced or discarded, that are
	// there since before the time, in the order of their names as bytes, after the
	// given one; at most limit.
	Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error)
	// Known returns which of the names, at most 1,000, are there or are named by an
	// object.
	Known(ctx context.Context, names []string) (map[string]bool, error)
}
