// Package objects has the use cases of members for stored objects: files, memories and
// named documents.
//
// Content is stored before records. The blob's name is announced, the blob is written once
// under that name, and then one transaction stores the object with its new blob, discards
// the previous blob and appends the change to the organisation's log. If that is
// interrupted, the object has either its old or its new content, and unreferenced blobs
// are collected later.
package objects

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"collab/app/cache"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/upload"
	"collab/ports"
)

const (
	// large is the content size, in bytes, from which it is checked before the content is read
	// that the path is free and that the plan allows the content.
	large = 64 << 10

	// randomLength is the number of a secret's characters in a blob's name: 132 bits.
	randomLength = 22
)

// Options has the dependencies and settings of Objects.
type Options struct {
	Store   ports.Store
	Blobs   ports.Blobs
	Signed  ports.SignedBlobs // of Blobs; nil: content passes through the server only
	Sealer  ports.Sealer
	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	// CheckExpiry is access.Access.CheckExpiry.
	CheckExpiry func(context.Context) error
	// Reauthorize returns the actor according to the present records.
	Reauthorize func(context.Context, org.Actor) (org.Actor, error)
	// Atomic is access.Access.Atomic.
	Atomic func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error
	// LogPosition is access.Access.LogPosition.
	LogPosition func(id.Org) (at object.Cursor, ok bool)
	// Subscription is access.Access.Subscription.
	Subscription func(context.Context, ports.Records, org.Actor) (plan.Subscription, error)
	// MaxSize is the largest content, in bytes.
	MaxSize int64
	// PartSize and MinAppend are those of resumable uploads, in bytes; 0: upload.PartSize and
	// upload.MinAppend.
	PartSize, MinAppend int64
	// Limits are those of each organisation's content.
	Limits plan.StorageLimits
	// Retention is that of earlier versions.
	Retention plan.VersionRetention
}

// Objects are the use cases of stored objects.
type Objects struct {
	Options
	records  *cache.Cache[recordKey, record]
	missing  *cache.Cache[recordKey, record]
	contents *cache.Cache[string, []byte]       // by blob; never changed
	verified *cache.Cache[string, verification] // by blob
	writes   chan struct{}                      // has a value for each content of a batch that is being written
	reads    chan struct{}                      // has a value for each content that Contents is reading
}

func New(o Options) *Objects {
	o.PartSize, o.MinAppend = cmp.Or(o.PartSize, upload.PartSize), cmp.Or(o.MinAppend, upload.MinAppend)
	return &Objects{
		Options: o, records: newRecords(maxRecords), missing: newRecords(maxMissing), contents: newContents(), verified: newVerified(),
		writes: make(chan struct{}, parallelWrites), reads: make(chan struct{}, parallelReads),
	}
}

// Upload is content that a client sends. Content and Size are read first; the other
// fields after Content has returned io.EOF, so its Read may set them until then.
type Upload struct {
	Content  io.Reader
	Size     int64  // in bytes; -1: unknown
	Most     int64  // bytes that Content has at most, if Size is unknown; 0 or less: unknown too
	Checksum string // of the content according to the client; empty: not stated
	MimeType string // empty: determined by the path of a new object, else unchanged
	Expected *int64 // the stored version, 0 for none; nil: any

	// BeforeStore is called before the content is read, and written to the store of blobs unless it is
	// there, and its result after that; an error of the result fails the write. Nil: neither.
	BeforeStore func() (stored func() error)

	direct    *DirectUpload             // nil unless Content is in the store already
	checkPath bool                      // whether the path is free is checked before Content is read, whatever its size
	finish    func(ports.Records) error // is called in the transaction that stores the object; may be nil
	differs   bool                      // Content has another checksum
}

// StoreMemory returns how many bytes of memory the store takes at most while it writes the content.
func (s *Objects) StoreMemory(u *Upload) int64 { return s.Blobs.PutMemory(s.longest(u)) }

// longest returns the most bytes that the content has, of those that may be stored.
func (s *Objects) longest(u *Upload) int64 {
	switch {
	case u.Size >= 0:
		return min(u.Size, s.MaxSize)
	case u.Most > 0:
		return min(u.Most, s.MaxSize)
	}
	return s.MaxSize
}

// MayBeLarge reports whether the content may have more than 64 KiB.
func (u *Upload) MayBeLarge() bool {
	if u.Size >= 0 {
		return u.Size > large
	}
	return u.Most <= 0 || u.Most > large
}

// Create stores a new object. Conflict if another object has its path.
func (s *Objects) Create(ctx context.Context, actor org.Actor, d object.Draft, u *Upload) (object.Object, error) {
	return s.writeTarget(ctx, actor, u, s.creation(id.Object(s.IDs.New()), d, u))
}

// creation is the target of a new object.
func (s *Objects) creation(newID id.Object, d object.Draft, u *Upload) target {
	return target{find: func(ctx context.Context, r source, actor org.Actor) (object.Object, error) {
		d.MimeType = u.MimeType
		o, err := object.New(newID, actor, d)
		// Otherwise Objects.Add refuses a path that is taken.
		if err != nil || !u.checkPath && (!r.cached || !u.MayBeLarge()) {
			return o, err
		}
		if existing, err := r.Storage().Objects().At(ctx, actor.Org, o.StorageKey()); err == nil {
			return o, withStored(existing, object.PathTaken(o.Path))
		} else if !fault.Is(err, fault.NotFound) {
			return o, err
		}
		return o, nil
	}}
}

// Replace stores new content of an object that the actor sees.
func (s *Objects) Replace(ctx context.Context, actor org.Actor, objectID id.Object, u *Upload) (object.Object, error) {
	return s.writeTarget(ctx, actor, u, s.replacement(objectID, u))
}

// replacement is the target of an object that the actor sees.
func (s *Objects) replacement(objectID id.Object, u *Upload) target {
	return target{prepare: withMimeType(u), find: func(ctx context.Context, r source, actor org.Actor) (object.Object, error) {
		return s.visible(ctx, r, actor, objectID)
	}}
}

// withMimeType returns the preparation of an object whose content and media type are replaced.
func withMimeType(u *Upload) func(object.Object) (object.Object, error) {
	return func(o object.Object) (object.Object, error) {
		if err := o.CheckReplace(); err != nil {
			return o, err
		}
		return o.WithMimeType(u.MimeType)
	}
}

// Save stores the content of a document of the actor's or of the organisation's.
func (s *Objects) Save(ctx context.Context, actor org.Actor, d object.Document, u *Upload) (object.Object, error) {
	newID := id.Object(s.IDs.New())
	return s.writeTarget(ctx, actor, u, target{find: func(ctx context.Context, r source, actor org.Actor) (object.Object, error) {
		return s.existingOr(ctx, r, actor, d.Object(newID, actor))
	}})
}

// SaveMemory stores the content of a workspace's memory file.
func (s *Objects) SaveMemory(ctx context.Context, actor org.Actor, w id.Workspace, fileName string, u *Upload) (object.Object, error) {
	newID := id.Object(s.IDs.New())
	return s.writeTarget(ctx, actor, u, target{find: func(ctx context.Context, r source, actor org.Actor) (object.Object, error) {
		fresh, err := object.Memory(newID, actor, w, fileName)
		if err != nil {
			return fresh, err
		}
		return s.existingOr(ctx, r, actor, fresh)
	}})
}

// existingOr returns the stored object that has the storage key of fresh, or fresh if there
// is none.
func (s *Objects) existingOr(ctx context.Context, r source, actor org.Actor, fresh object.Object) (object.Object, error) {
	o, err := s.findByKey(ctx, r, actor, fresh.StorageKey())
	if fault.Is(err, fault.NotFound) {
		return fresh, nil
	}
	return o, err
}

// target is the object to write to.
type target struct {
	// find returns it; a new one has version 0. It is called before the content is read, to refuse
	// early, and again in the transaction, which decides.
	find    func(context.Context, source, org.Actor) (object.Object, error)
	prepare func(object.Object) (object.Object, error) // checks or changes its record; nil for writes of content only
}

// prepared returns the result of prepare for a stored or new object, which must have the expected version.
func (t target) prepared(o object.Object, expected *int64) (next object.Object, err error) {
	next = o
	if t.prepare != nil {
		next, err = t.prepare(o)
	}
	if err == nil {
		err = next.CheckVersion(expected)
	}
	return next, withStored(o, err)
}

// writeTarget stores u as the content of its target. The actor may be one that access.Access.Cached returned: the
// epoch is compared where the content is stored.
func (s *Objects) writeTarget(ctx context.Context, actor org.Actor, u *Upload, to target) (object.Object, error) {
	actor, was, prepared, err := s.beforeWrite(ctx, actor, u, to)
	if err != nil {
		return object.Object{}, err
	}
	content, err := s.store(ctx, prepared, u)
	if err == nil {
		err = s.CheckExpiry(ctx) // the upload may have taken long
	}
	if err != nil {
		return object.Object{}, err
	}
	// Reading the content may have set the expected version and the media type.
	if prepared, err = to.prepared(was, u.Expected); err == nil && was.Version > 0 && u.finish == nil {
		// Mostly the object found before is unchanged, and one statement stores everything.
		written, err := s.replaceUnchanged(ctx, actor, was.Content, prepared, content)
		if !fault.Is(err, fault.Conflict) {
			return written, err
		}
	}
	return s.writeLocked(ctx, actor, u, to, content)
}

// beforeWrite returns the target of a write as it is stored and as it is prepared, and an actor that may write it.
func (s *Objects) beforeWrite(ctx context.Context, actor org.Actor, u *Upload, to target) (as org.Actor, was, prepared object.Object, err error) {
	if err := actor.CheckWrite(); err != nil {
		return actor, was, prepared, err
	}
	for attempt := 1; ; attempt++ {
		if was, err = to.find(ctx, source{Records: s.Store, cached: true}, actor); err == nil {
			prepared, err = to.prepared(was, u.Expected)
		}
		if err == nil && u.direct == nil && u.Size > large && u.Size <= s.MaxSize {
			err = s.checkGrowth(ctx, s.Store, actor, u.Size-prepared.Size)
		}
		if err == nil || attempt == 2 || fault.Is(err, fault.Internal, fault.Unavailable) {
			return actor, was, prepared, err
		}
		// The actor or the cached record may be outdated.
		if actor, err = s.Reauthorize(ctx, actor); err == nil {
			err = actor.CheckWrite()
		}
		if err != nil {
			return actor, was, prepared, err
		}
	}
}

// replaceUnchanged stores the content of o, whose stored content was that one when it was found: Conflict if it is not any more.
func (s *Objects) replaceUnchanged(ctx context.Context, actor org.Actor, was object.Content, o object.Object, content object.Content) (object.Object, error) {
	now := s.Clock.Now()
	sub, err := s.Subscription(ctx, s.Store, actor)
	if err != nil {
		return o, err
	}
	written := o.WithContent(content, actor.User, now)
	p := sub.At(now).Plan
	head, err := s.Store.Storage().Replace(ctx, actor.Org, object.Replacement{
		Change: object.NewChange(written), Previous: was, Epoch: actor.Epoch(), Limit: s.Limits.Of(p), Keep: s.Retention.Of(p),
	})
	if err == nil {
		written.N = head.N
		s.cacheRecord(written, head)
	}
	return written, err
}

// writeLocked finds the target again, and stores the content in one transaction.
func (s *Objects) writeLocked(ctx context.Context, actor org.Actor, u *Upload, to target, content object.Content) (written object.Object, err error) {
	var head object.Head
	err = s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, before object.Head) error {
		storage := r.Storage()
		existing, err := to.find(ctx, source{Records: r}, actor)
		if err != nil {
			return err
		}
		was, err := to.prepared(existing, u.Expected)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		if err := s.checkGrowth(ctx, r, actor, content.Size-was.Size); err != nil {
			return err
		}
		written = was.WithContent(content, actor.User, now)
		written.N = before.N + 1
		if was.Version == 0 {
			if err = raiseVersions(ctx, r, actor.Org, before, &written); err != nil {
				return err
			}
			if err = storage.Objects().Add(ctx, actor.Org, written); fault.Is(err, fault.Conflict) {
				err = s.pathTaken(ctx, source{Records: r}, actor, was)
			}
		} else {
			err = storage.Objects().Put(ctx, actor.Org, written)
		}
		if err != nil {
			return err
		}
		err = storage.BlobNames().Forget(ctx, object.Blob{Org: actor.Org, Name: content.Blob})
		if fault.Is(err, fault.NotFound) {
			if u.direct != nil {
				return fault.New(fault.Gone, "The upload was given up, or another content has replaced it: start another one")
			}
			return errUploadTimeout
		}
		if err != nil {
			return err
		}
		if u.finish != nil {
			if err := u.finish(r); err != nil {
				return err
			}
		}
		if was.Version > 0 {
			if err := s.keepVersions(ctx, r, actor, now, false, existing); err != nil {
				return err
			}
		}
		if err := s.makeRoom(ctx, r, actor, now, content.Size, was.Size); err != nil {
			return err
		}
		head, err = storage.Changes().Append(ctx, actor.Org, object.NewChange(written))
		return err
	})
	if err == nil {
		s.cacheRecord(written, head)
	}
	return written, err
}

// raiseVersions raises the versions of memories and documents that are about to get their paths: clients address
// these by their paths, so that a version which they know of a deleted one must not be one of the next. While the deleted
// one is kept, its last version is known. Otherwise it is no greater than the number of its entry in the log, which mostly
// is not after the log's floor. R's transaction holds the log's lock.
func raiseVersions(ctx context.Context, r ports.Records, o id.Org, head object.Head, arriving ...*object.Object) error {
	arriving = slices.DeleteFunc(arriving, func(v *object.Object) bool { return v.Class() != object.Memories })
	if len(arriving) == 0 {
		return nil
	}
	keys := make([]string, len(arriving))
	for i, v := range arriving {
		keys[i] = v.StorageKey()
	}
	last, err := r.Storage().ObjectSets().Deleted(ctx, o, keys)
	if err != nil {
		return err
	}
	for i, v := range arriving {
		after := last[keys[i]]
		if v.Version <= 1 { // it is new
			after = max(after, head.Floor)
		}
		v.Version = max(v.Version, after+1)
	}
	return nil
}

var errUploadTimeout = fault.New(fault.Unavailable, "The upload took too long and was given up; send it again")

// checkGrowth returns Forbidden if the plan of the actor's organisation does not allow that its
// content grows by so many bytes.
func (s *Objects) checkGrowth(ctx context.Context, r ports.Records, actor org.Actor, growth int64) error {
	if growth <= 0 {
		return nil
	}
	sub, err := s.Subscription(ctx, r, actor)
	if err != nil {
		return err
	}
	p := sub.At(s.Clock.Now()).Plan
	if s.Limits.Of(p) == plan.Unlimited {
		return nil
	}
	used, err := r.Storage().Used(ctx, []id.Org{actor.Org})
	if err != nil {
		return err
	}
	return s.Limits.Check(p, used[actor.Org], growth)
}

// Delete removes an object that the actor sees.
func (s *Objects) Delete(ctx context.Context, actor org.Actor, objectID id.Object, expected *int64) error {
	return s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, _ object.Head) error {
		o, err := s.visible(ctx, source{Records: r}, actor, objectID)
		if err != nil {
			return err
		}
		if err := o.CheckVersion(expected); err != nil {
			return withStored(o, err)
		}
		seen, err := audience(ctx, r, o)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		if err := remove(ctx, r, actor.Org, []object.Object{o}, actor.User, now, seen); err != nil {
			return err
		}
		return s.keepVersions(ctx, r, actor, now, true, o)
	})
}

// audience returns who sees the object. It is stored with a deletion, because the workspace
// may be deleted or moved to another team before every client has read the entry. It is nil
// where the object itself determines it.
func audience(ctx context.Context, r ports.Records, o object.Object) (*object.Audience, error) {
	if o.Scope == object.Personal || o.Workspace == nil {
		return nil, nil
	}
	w, err := r.Work().Workspaces().Get(ctx, o.Org, *o.Workspace)
	return &object.Audience{Teams: []id.Team{w.Team}}, err
}

// SweepLimit is the most objects that one Sweep removes, and sweptVersions the most earlier versions;
// between sweeps others can write.
const (
	SweepLimit    = 200
	sweptVersions = 1000
)

// Sweep removes the first SweepLimit objects of the organisation that f selects, in r's
// transaction: those of a deleted workspace, team or user, with their earlier versions and those of
// deleted objects. It returns a storage key as f.After for the next call, or "" if there are no
// more. By is empty if the deletion is not a user's. The audience is who sees the deletions, if the
// objects' workspace or team is deleted too.
func (s *Objects) Sweep(ctx context.Context, r ports.Records, o id.Org, f object.Filter, by id.User, a *object.Audience) (last string, err error) {
	storage, now := r.Storage(), s.Clock.Now()
	if _, err := storage.Changes().Lock(ctx, o); err != nil {
		return "", err
	}
	again := cmp.Or(f.After, string(o)+"/") // before all storage keys
	f.Limit = SweepLimit
	var found []object.Object
	err = storage.Objects().List(ctx, o, nil, f, nil, func(v object.Object) error {
		found = append(found, v)
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		blobs := make([]string, len(found))
		ids := make([]id.Object, len(found))
		for i, v := range found {
			blobs[i], ids[i] = v.Blob, v.ID
		}
		n, err := storage.Versions().Discard(ctx, o, ids, 0, sweptVersions, now)
		if err != nil || n == sweptVersions {
			return again, err
		}
		if err := storage.BlobNames().Discard(ctx, o, blobs, now); err != nil {
			return "", err
		}
		if err := remove(ctx, r, o, found, by, now, a); err != nil {
			return "", err
		}
		if again = found[len(found)-1].StorageKey(); len(found) == SweepLimit {
			return again, nil
		}
	}
	f.After = ""
	var deleted []id.Object
	err = storage.Versions().Deleted(ctx, o, nil, f, func(v object.EarlierVersion) error {
		deleted = append(deleted, v.ID)
		return nil
	})
	if err != nil || len(deleted) == 0 {
		return "", err
	}
	n, err := storage.Versions().Discard(ctx, o, deleted, 0, sweptVersions, now)
	if n < sweptVersions && len(deleted) < SweepLimit {
		again = ""
	}
	return again, err
}

// remove deletes objects and appends the deletions to the log, whose lock r holds. Their blobs are
// left to the caller.
func remove(ctx context.Context, r ports.Records, o id.Org, gone []object.Object, by id.User, now time.Time, a *object.Audience) error {
	ids := make([]id.Object, len(gone))
	changes := make([]object.Change, len(gone))
	for i, v := range gone {
		ids[i], changes[i] = v.ID, object.NewDeletion(v, by, now, a)
	}
	if err := r.Storage().Objects().Remove(ctx, o, ids); err != nil {
		return err
	}
	_, err := r.Storage().Changes().Append(ctx, o, changes...)
	return err
}

// visible returns an object that the actor sees; NotFound for any other.
func (s *Objects) visible(ctx context.Context, r source, actor org.Actor, objectID id.Object) (object.Object, error) {
	o, err := s.readCached(r, actor, string(objectID), func() (object.Object, error) { return r.Storage().Objects().Get(ctx, actor.Org, objectID) })
	if fault.Is(err, fault.NotFound) || err == nil && !o.VisibleTo(actor) {
		return object.Object{}, fault.Missing("File")
	}
	return o, err
}
