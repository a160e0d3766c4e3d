package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/upload"
)

// Storage holds stored objects, their earlier versions, the log of their changes and the names of
// their blobs.
type Storage interface {
	Objects() Objects
	Versions() Versions
	Changes() Changes
	BlobNames() BlobNames
	ObjectSets() ObjectSets
	// Announced returns how many names of the organisation are announced with a size, and the sum of
	// their sizes and those of its open resumable uploads.
	Announced(ctx context.Context, o id.Org) (names int, size int64, err error)
	// OpenUploads returns the resumable uploads of a user in the organisation that are open at now, in the order of their ids.
	OpenUploads(ctx context.Context, o id.Org, user id.User, now time.Time) ([]upload.Upload, error)
	// CancelUploads cancels the open resumable uploads of a user in the organisation at now, and discards
	// the names of their parts.
	CancelUploads(ctx context.Context, o id.Org, user id.User, now time.Time) error
	// Used returns the usage of each of the organisations: the sums of the sizes of their
	// objects and earlier versions. What a transaction reads that holds the Lock of the organisation's log does not
	// change but by the transaction itself.
	Used(ctx context.Context, orgs []id.Org) (map[id.Org]object.Usage, error)
	// Replace stores an object's next content. Under the log's Lock it does what Objects.Put does
	// with the object of r.Change, BlobNames.Forget with the announced name of its blob, Versions.Keep
	// with the previous content, or if r.Keep keeps none BlobNames.Discard with the previous blob at the
	// change's time, and Changes.Append with r.Change. Conflict if the object was deleted, has another
	// blob than r.Previous or another version than the one before that of the change, the name is not announced,
	// the epoch is another (see Epochs), or all content including earlier versions would grow beyond the
	// limit. It is also Conflict if the usage is not known without reading all objects; Used reads them.
	Replace(ctx context.Context, o id.Org, r object.Replacement) (object.Head, error)
}

// Objects holds the records of stored objects. A caller that changes them holds the Lock of
// the organisation's log and appends the change in the same transaction.
type Objects interface {
	Get(ctx context.Context, o id.Org, of id.Object) (object.Object, error)
	// At finds the object whose storage key has the same folded form.
	At(ctx context.Context, o id.Org, storageKey string) (object.Object, error)
	// List calls each with the objects that f selects (exactly those for which f.Selects)
	// and the viewer sees, in the byte order of their storage keys, or of their folded storage
	// keys if f has a folder; a nil viewer sees all. If f has words, it has no folder, and they are
	// looked for in the first f.ExamineLimit of the objects that meet its other conditions.
	// Before that it calls head, unless it is nil, with the log's head in the same
	// snapshot. An error of either ends the list and is returned.
	List(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error
	// Add stores a new object. Conflict if its folded storage key is another object's, or
	// one of the two is a parent folder of the other. NotFound if its workspace or team
	// does not exist, unless it is personal.
	Add(ctx context.Context, o id.Org, v object.Object) error
	// Put replaces existing objects, each at most once and in its place, in a bounded number of
	// statements. Their paths may change and be exchanged. object.PathTaken of the first of them
	// whose folded storage key is that of another object, or of which one is a parent folder of
	// the other: of an object that is not replaced, or of one before it.
	Put(ctx context.Context, o id.Org, objects ...object.Object) error
	// Remove deletes those of the objects that exist, in a bounded number of statements.
	Remove(ctx context.Context, o id.Org, ids []id.Object) error
}

// Versions holds earlier versions of objects. Each has its blob to itself, as objects do. A caller
// that changes them holds the Lock of the organisation's log.
type Versions interface {
	// List calls each with at most limit versions of an object whose numbers are less than
	// before, the latest first; limit 0: all. An error of each ends it and is returned.
	List(ctx context.Context, o id.Org, of id.Object, before int64, limit int, each func(object.EarlierVersion) error) error
	// Deleted is Objects.List for the last versions of deleted objects. They are in the byte
	// order of their deleted keys, and f.After is one; f has no folder and no words.
	Deleted(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, each func(object.EarlierVersion) error) error
	// Keep stores versions that ended together, at most one of an object, whose numbers are not
	// stored, in a bounded number of statements. It discards the oldest ones of their objects
	// beyond the number that keep keeps. Those of a deleted object expire with the last one at
	// the latest.
	Keep(ctx context.Context, o id.Org, keep object.Retention, ended ...object.EarlierVersion) error
	// Take removes a version without discarding its blob: the caller does, or stores it with an
	// object or a version. NotFound if there is no such version.
	Take(ctx context.Context, o id.Org, of id.Object, version int64) (object.EarlierVersion, error)
	// Discard removes versions and discards their blobs at now: those of the objects, or if of is
	// nil those of the organisation that expire first, until their sizes are together at least
	// size, and at most limit. It returns their number.
	Discard(ctx context.Context, o id.Org, of []id.Object, size int64, limit int, now time.Time) (int, error)
	// Expire does the same with the versions of all organisations that expire until now, in
	// several transactions of bounded size.
	Expire(ctx context.Context, now time.Time) error
}

// ObjectSets reads and stores many objects of an organisation, and announces their blobs, in a
// bounded number of statements.
type ObjectSets interface {
	// Get returns those of the objects that exist.
	Get(ctx context.Context, o id.Org, ids []id.Object) (map[id.Object]object.Object, error)
	// Taken returns those of the storage keys that Objects.Add would refuse as a Conflict if the
	// objects of without did not exist, with the object that has the same folded form, or an empty id
	// for one of a parent folder or below an object.
	Taken(ctx context.Context, o id.Org, storageKeys []string, without []id.Object) (map[string]id.Object, error)
	// Deleted returns the numbers of the last versions of deleted objects that had the storage keys:
	// of several with one key the greatest, of none no number.
	Deleted(ctx context.Context, o id.Org, storageKeys []string) (map[string]int64, error)
	// Add stores new objects, whose folded storage keys are all different and none of which is a
	// parent folder of another. It does not look for parent folders of and below them, see Taken.
	// Conflict if a folded storage key is another object's, NotFound if a workspace or team does
	// not exist, unless the object is personal; a transaction in which it fails must be given up.
	Add(ctx context.Context, o id.Org, vs []object.Object) error
	// Announce is BlobNames.Announce for names of which the client declared no size. Conflict if
	// one of them is stored; none is then.
	Announce(ctx context.Context, o id.Org, names []string, now time.Time) error
	// Forget is BlobNames.Forget for announced names, which are all different. NotFound if one of
	// them is not announced; the transaction must be given up then.
	Forget(ctx context.Context, o id.Org, names []string) error
}

// Changes holds each organisation's log of changes. When a transaction that
// appended to it commits, the store publishes a hint on the bus that it was
// opened with.
type Changes interface {
	// Lock locks the organisation's log, and so its objects, until the transaction ends.
	// Outside Atomic it fails.
	Lock(ctx context.Context, o id.Org) (object.Head, error)
	// Append takes the Lock, stores the changes with the next numbers, and sets the number
	// of each changed object's record, unless the change's object was stored with it. As the Lock is held until the transaction ends,
	// numbers become visible in order and without gaps. Outside Atomic it fails. NotFound
	// for an organisation that does not exist.
	Append(ctx context.Context, o id.Org, changes ...object.Change) (object.Head, error)
	// Heads returns the head of each of the organisations' logs. An empty log's has the
	// number 0.
	Heads(ctx context.Context, orgs []id.Org) (map[id.Org]object.Head, error)
	// List returns at most limit entries with numbers greater than after, in their order,
	// regardless of visibility.
	List(ctx context.Context, o id.Org, after int64, limit int) ([]object.Change, error)
	// Since calls head with the log's head, and then each with the changes after the
	// number, regardless of visibility, all in one snapshot: first the entries of
	// AccessChanged, then those of deletions, and then the existing objects that changed, as
	// one change each with only Type, N and Object set. Each of the three is in the order of
	// numbers. An error of head or each ends it and is returned.
	Since(ctx context.Context, o id.Org, after int64, head func(object.Head) error, each func(object.Change) error) error
	// Prune removes the entries up to the last one that is older than before, of every
	// organisation, and raises the floors. It uses several transactions of bounded size.
	Prune(ctx context.Context, before time.Time) error
}

// BlobNames holds the names of blobs that no object and no earlier version names: announced ones,
// which are about to be written, and discarded ones, which are to be removed. A blob whose name
// none of them has is never read.
type BlobNames interface {
	// Announce stores the name of a blob that is about to be written, with its declared size if a
	// client sends it to the store, else 0. Conflict if the name is stored. A crash of the database
	// may undo it until a later transaction is durable.
	Announce(ctx context.Context, o id.Org, name string, size int64, now time.Time) error
	// Forget removes the name if its state is b.Discarded, regardless of At; else NotFound.
	// An announced name is removed in the transaction in which an object takes it over, a
	// discarded one when its blob has been removed.
	Forget(ctx context.Context, b object.Blob) error
	// Discard stores names as discarded at now, in the transaction in which their objects
	// are deleted or replaced. A name that is discarded already keeps the earlier time.
	Discard(ctx context.Context, o id.Org, names []string, now time.Time) error
	// Expire makes the names of all organisations that were announced before the time
	// discarded ones with the same time, so that their uploads can no longer take them
	// over. Of a concurrent Expire and Forget one succeeds.
	Expire(ctx context.Context, before time.Time) error
	// Due lists at most limit names of all organisations that were announced or discarded
	// before the time, in byte order from after the given one.
	Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error)
	// Known returns which of the names, at most 1,000, are stored here or are an object's or an
	// earlier version's.
	Known(ctx context.Context, names []string) (map[string]bool, error)
}
