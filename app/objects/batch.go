package objects

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/ports"
)

// Bounds of batches.
const (
	// MaxOperations is the most operations of a batch.
	MaxOperations = 1000

	// MaxTogether is the most operations that Batch takes and stores in one transaction; between
	// them others can write.
	MaxTogether = 500

	// maxSteps is the most steps of one transaction of a batch. A step stores operations that do not
	// depend on each other.
	maxSteps = 16

	// MaxBatchFile is the largest content of a file in a batch, in bytes. No MaxSize is less.
	MaxBatchFile = 1 << 20

	// parallelWrites is how many contents of all batches are written to the store at once.
	parallelWrites = 32

	// discardTimeout is how long a failed batch may take to discard its contents.
	discardTimeout = 5 * time.Second

	// maxFolders is the most folders of a footprint.
	maxFolders = 16 << 10
)

// Action is the kind of an operation of a batch.
type Action string

const (
	PutFile    Action = "put" // stores a new object, or the next content of one
	MoveFile   Action = "move"
	DeleteFile Action = "delete"
)

// Actions are all actions.
var Actions = []Action{PutFile, MoveFile, DeleteFile}

// Operation is one operation of a batch.
type Operation struct {
	Action   Action
	Object   id.Object    // empty: a new object of Draft is stored
	Draft    object.Draft // its media type does not count; of a move only the path does
	Content  []byte
	Checksum string // of the content according to the client; empty: not stated
	MimeType string // as in Upload
	Expected *int64 // as in Upload
	Err      error  // why the operation could not be read; nil: it was
}

// Outcome is the result of one operation of a batch.
type Outcome struct {
	Object object.Object // as it was stored, of a deletion as it was before
	Err    error         // nil: the operation was carried out
}

// batch is the operations of a call of Batch.
type batch struct {
	*Objects
	operations []batchOperation
	done       int // how many were carried out, from the first on
}

// batchOperation is an operation of a batch.
type batchOperation struct {
	Operation
	refused    error          // before the transaction; nil: it was not
	newID      id.Object      // the id of a new object
	mimeType   string         // of the content
	content    object.Content // without a blob: nothing is written
	contentErr error          // of the content
}

// Batch carries out at most MaxTogether operations in their order, each of which succeeds or fails
// as Create, Replace, Move and Delete do. It returns the outcomes of those that were carried out, from the
// first on, and if these are not all of them, why the others were not. BeforeStore is that of an Upload.
func (s *Objects) Batch(ctx context.Context, actor org.Actor, operations []Operation, beforeStore func() (stored func() error)) ([]Outcome, error) {
	if err := actor.CheckWrite(); err != nil {
		return nil, err
	}
	b := &batch{Objects: s, operations: make([]batchOperation, len(operations))}
	for i, op := range operations {
		b.operations[i].Operation = op
	}
	if err := b.refuseEarly(ctx, actor); err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(operations))
	err := b.storeContents(ctx, actor, beforeStore)
	for reauthorized := false; err == nil && b.done < len(operations); {
		err = b.store(ctx, actor, outcomes)
		if fault.Is(err, fault.NotFound) && !reauthorized {
			// A workspace or team was deleted during the transaction.
			reauthorized = true
			actor, err = s.Reauthorize(ctx, actor)
		}
	}
	if err != nil {
		b.discardContents(ctx, actor.Org)
	}
	return outcomes[:b.done], err
}

// discardContents discards the blobs of the operations that were not carried out. If their transaction
// was committed nevertheless, or discarding fails, it does nothing: upkeep collects what was announced.
func (b *batch) discardContents(ctx context.Context, o id.Org) {
	names := b.blobs()
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = b.Store.Atomic(ctx, func(r ports.Records) error {
		if err := r.Storage().ObjectSets().Forget(ctx, o, names); err != nil {
			return err
		}
		return r.Storage().BlobNames().Discard(ctx, o, names, b.Clock.Now())
	})
}

// blobs returns the names of the blobs of all operations that are neither refused nor carried out.
func (b *batch) blobs() (names []string) {
	for _, op := range b.operations[b.done:] {
		if op.refused == nil && op.content.Blob != "" {
			names = append(names, op.content.Blob)
		}
	}
	return names
}

// existing returns the objects that the operations name which were not carried out yet.
func (b *batch) existing(ctx context.Context, r ports.Records, o id.Org) (map[id.Object]object.Object, error) {
	var ids []id.Object
	for _, op := range b.operations[b.done:] {
		if op.Object != "" {
			ids = append(ids, op.Object)
		}
	}
	if len(ids) == 0 {
		return map[id.Object]object.Object{}, nil
	}
	return r.Storage().ObjectSets().Get(ctx, o, ids)
}

// change is the change of an object by an operation.
type change struct {
	operation int
	was       object.Object // a new one has no content
	next      object.Object // the same, or where it is moved to
	keys      []string      // the folded storage keys of both
}

// findChange returns the change of an existing object or a new one by an operation. An existing object is
// returned with an error too.
func (b *batch) findChange(i int, actor org.Actor, existing map[id.Object]object.Object, now time.Time) (change, error) {
	was, err := b.findObject(i, actor, existing)
	c := change{i, was, was, []string{object.Fold(was.StorageKey())}}
	if op := &b.operations[i]; err == nil && op.Action == MoveFile {
		c.next, err = was.Moved(op.Draft.Path, actor, now)
		c.keys = append(c.keys, object.Fold(c.next.StorageKey()))
	}
	return c, err
}

func (b *batch) findObject(i int, actor org.Actor, existing map[id.Object]object.Object) (o object.Object, err error) {
	op := &b.operations[i]
	if op.Object == "" {
		d := op.Draft
		d.MimeType = op.MimeType
		o, err = object.New(op.newID, actor, d)
	} else {
		var ok bool
		if o, ok = existing[op.Object]; !ok || !o.VisibleTo(actor) {
			return object.Object{}, fault.Missing("File")
		}
		if op.Action == PutFile {
			o, err = withMimeType(&Upload{MimeType: op.MimeType})(o)
		}
	}
	if err == nil {
		err = o.CheckVersion(op.Expected)
	}
	return o, err
}

// refuseEarly refuses operations that do not depend on earlier ones and cannot be carried out, so that
// no content is written for them, and describes the contents of the others.
func (b *batch) refuseEarly(ctx context.Context, actor org.Actor) error {
	existing, err := b.existing(ctx, b.Store, actor.Org)
	if err != nil {
		return err
	}
	var earlier footprint
	var keys []string // of new objects
	asked := map[int]object.Object{}
	for i := range b.operations {
		op := &b.operations[i]
		if op.refused = op.Err; op.Err != nil {
			continue
		}
		if op.Object == "" {
			op.newID = id.Object(b.IDs.New())
		}
		c, err := b.findChange(i, actor, existing, b.Clock.Now())
		independent := !earlier.overlaps(c.keys)
		if c.was.ID == "" || err != nil && independent {
			op.refused = withStored(existing[op.Object], err)
			continue
		}
		if op.Action == PutFile {
			if op.contentErr = b.describe(op, c.was); op.contentErr != nil && independent {
				op.refused = op.contentErr
				continue
			}
		}
		if op.Object == "" && independent {
			asked[i] = c.was
			keys = append(keys, c.was.StorageKey())
		}
		earlier.add(c.keys)
	}
	taken, err := takenBy(ctx, b.Store, actor, keys, nil)
	for i, o := range asked {
		if by, ok := taken[o.StorageKey()]; ok {
			b.operations[i].refused = withStored(by, object.PathTaken(o.Path))
		}
	}
	return err
}

// takenBy returns those of the storage keys that are taken, as ObjectSets.Taken does, with the object
// that has the path if the actor sees it.
func takenBy(ctx context.Context, r ports.Records, actor org.Actor, keys []string, without []id.Object) (map[string]object.Object, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	sets := r.Storage().ObjectSets()
	ids, err := sets.Taken(ctx, actor.Org, keys, without)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	existing, err := sets.Get(ctx, actor.Org, slices.Collect(maps.Values(ids)))
	taken := make(map[string]object.Object, len(ids))
	for key, objectID := range ids {
		taken[key] = object.Object{}
		if o, ok := existing[objectID]; ok && o.VisibleTo(actor) {
			taken[key] = o
		}
	}
	return taken, err
}

// describe checks the content of an operation and names its blob.
func (b *batch) describe(op *batchOperation, o object.Object) error {
	if len(op.Content) > MaxBatchFile {
		return tooLarge(MaxBatchFile)
	}
	in := b.newUploadReader(&Upload{Content: bytes.NewReader(op.Content), Checksum: op.Checksum})
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	op.content, op.mimeType = in.content(o.BlobName(b.Secrets.Secret()[:randomLength])), o.MimeType
	return nil
}

// storeContents announces the blobs of all operations that are not refused, and writes them.
func (b *batch) storeContents(ctx context.Context, actor org.Actor, beforeStore func() (stored func() error)) error {
	names := b.blobs()
	if len(names) == 0 {
		return nil
	}
	if err := b.Store.Storage().ObjectSets().Announce(ctx, actor.Org, names, b.Clock.Now()); err != nil {
		return err
	}
	stored := (&Upload{BeforeStore: beforeStore}).beforeStore()
	var contents []object.BlobContent
	for _, op := range b.operations {
		if op.refused == nil && op.content.Blob != "" {
			contents = append(contents, object.BlobContent{Name: op.content.Blob, MimeType: op.mimeType, Content: op.Content})
		}
	}
	put := b.putEach
	if sets, ok := b.Blobs.(ports.BlobSets); ok {
		put = sets.PutAll
	}
	if err := put(ctx, contents); err != nil {
		return err
	}
	return stored()
}

// putEach is BlobSets.PutAll for a store without it.
func (s *Objects) putEach(ctx context.Context, contents []object.BlobContent) error {
	writing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, c := range contents {
		select {
		case s.writes <- struct{}{}:
		case <-writing.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-s.writes }()
			err := error(fault.New(fault.Unavailable, "The content was not stored"))
			defer func() {
				if err != nil {
					cancel(err)
				}
			}()
			err = fault.Catch(func() error {
				return s.Blobs.Put(writing, c.Name, c.MimeType, int64(len(c.Content)), bytes.NewReader(c.Content))
			})
		})
	}
	all.Wait()
	return context.Cause(writing)
}

// store carries out the next operations in one transaction.
func (b *batch) store(ctx context.Context, actor org.Actor, outcomes []Outcome) error {
	var t *batchTransaction
	err := b.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, head object.Head) error {
		t = &batchTransaction{
			batch: b, Records: r, actor: actor, now: b.Clock.Now(), head: head,
			outcomes: outcomes, audiences: map[id.Workspace]*object.Audience{},
		}
		return t.run(ctx)
	})
	if err != nil {
		return err
	}
	for _, o := range t.current {
		b.cacheRecord(o, t.head)
	}
	b.done = t.end
	return nil
}

// batchTransaction carries out operations of a batch, at most maxSteps steps. Operations that do not
// depend on each other are gathered and stored by a bounded number of statements.
type batchTransaction struct {
	*batch
	ports.Records
	actor org.Actor
	now   time.Time

	current  map[id.Object]object.Object // that the operations name or made, as they are now
	usage    object.Usage
	plan     plan.Plan
	head     object.Head
	outcomes []Outcome // of all operations of the batch
	end      int       // of the operations that it carries out

	audiences map[id.Workspace]*object.Audience

	stored, replaced int64 // bytes: of the contents that were stored, and of those that were replaced or deleted

	pending     []change  // that are not stored yet
	pendingKeys footprint // of them
}

func (t *batchTransaction) run(ctx context.Context) (err error) {
	if t.current, err = t.existing(ctx, t.Records, t.actor.Org); err != nil {
		return err
	}
	used, err := t.Storage().Used(ctx, []id.Org{t.actor.Org})
	if err != nil {
		return err
	}
	sub, err := t.Subscription(ctx, t.Records, t.actor)
	if err != nil {
		return err
	}
	t.usage, t.plan = used[t.actor.Org], sub.At(t.now).Plan
	steps := 1
	for t.end = t.done; t.end < len(t.operations); t.end++ {
		i, op := t.end, &t.operations[t.end]
		if t.outcomes[i] = (Outcome{Err: op.refused}); op.refused != nil {
			continue
		}
		c, err := t.findChange(i, t.actor, t.current, t.now)
		if c.was.ID != "" && t.pendingKeys.overlaps(c.keys) {
			if steps++; steps > maxSteps {
				break
			}
			if err := t.flush(ctx); err != nil {
				return err
			}
			c, err = t.findChange(i, t.actor, t.current, t.now)
		}
		if err == nil {
			err = op.contentErr
		}
		switch {
		case err != nil:
			t.outcomes[i].Err = withStored(t.current[op.Object], err)
		case op.Action == MoveFile && c.next.Version == c.was.Version:
			t.outcomes[i].Object = c.was
		default:
			t.pending = append(t.pending, c)
			t.pendingKeys.add(c.keys)
		}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.makeRoom(ctx, t.Records, t.actor, t.now, t.stored, t.replaced); err != nil {
		return err
	}
	var unused []string
	for i := t.done; i < t.end; i++ {
		if op := t.operations[i]; op.content.Blob != "" && op.refused == nil && t.outcomes[i].Err != nil {
			unused = append(unused, op.content.Blob)
		}
	}
	return t.Storage().BlobNames().Discard(ctx, t.actor.Org, unused, t.now)
}

// batchWrites are the writes of one step.
type batchWrites struct {
	added    []object.Object
	replaced []object.Object // as they are afterwards, the moved ones too
	deleted  []object.Object // as they were before
	former   []object.Object // as they were before their contents were replaced
	blobs    []string        // of new contents
	changes  []object.Change
}

// flush stores the pending changes.
func (t *batchTransaction) flush(ctx context.Context) error {
	var keys []string
	var moved []id.Object
	var arriving []*object.Object
	for i := range t.pending {
		c := &t.pending[i]
		if !t.arrives(*c) {
			continue
		}
		keys, arriving = append(keys, c.next.StorageKey()), append(arriving, &c.next)
		if c.was.Version > 0 {
			moved = append(moved, c.next.ID)
		}
	}
	taken, err := takenBy(ctx, t.Records, t.actor, keys, moved)
	if err != nil {
		return err
	}
	if err := raiseVersions(ctx, t.Records, t.actor.Org, t.head, arriving...); err != nil {
		return err
	}
	var w batchWrites
	for _, c := range t.pending {
		if by, ok := taken[c.next.StorageKey()]; ok && t.arrives(c) {
			t.outcomes[c.operation].Err = withStored(by, object.PathTaken(c.next.Path))
		} else if err := t.apply(ctx, c, &w); err != nil {
			return err
		}
	}
	t.pending, t.pendingKeys = t.pending[:0], footprint{}
	return t.write(ctx, w)
}

// arrives reports whether a change stores an object at a path that it did not have.
func (t *batchTransaction) arrives(c change) bool {
	return c.was.Version == 0 || t.operations[c.operation].Action == MoveFile
}

// apply adds a change to the writes and sets its outcome, which is an error if the plan has no room for the content.
func (t *batchTransaction) apply(ctx context.Context, c change, w *batchWrites) error {
	op, to := &t.operations[c.operation], &t.outcomes[c.operation]
	n := t.head.N + int64(len(w.changes)) + 1
	switch op.Action {
	case MoveFile:
		to.Object = c.next
		to.Object.N = n
		w.replaced = append(w.replaced, to.Object)
		w.changes = append(w.changes, object.NewMove(to.Object, c.was.Path))
	case DeleteFile:
		seen, err := t.audience(ctx, c.was)
		if err != nil {
			return err
		}
		to.Object = c.was
		t.usage[c.was.Class()] -= c.was.Size
		t.replaced += c.was.Size
		w.deleted = append(w.deleted, c.was)
		w.changes = append(w.changes, object.NewDeletion(c.was, t.actor.User, t.now, seen))
		delete(t.current, c.was.ID)
		return nil
	case PutFile:
		growth := op.content.Size - c.was.Size
		if to.Err = t.Limits.Check(t.plan, t.usage, growth); to.Err != nil {
			return nil
		}
		t.usage[c.was.Class()] += growth
		t.stored, t.replaced = t.stored+op.content.Size, t.replaced+c.was.Size
		to.Object = c.was.WithContent(op.content, t.actor.User, t.now)
		to.Object.N = n
		if c.was.Version == 0 {
			to.Object.Version = max(to.Object.Version, c.next.Version)
			w.added = append(w.added, to.Object)
		} else {
			w.replaced, w.former = append(w.replaced, to.Object), append(w.former, t.current[c.was.ID])
		}
		w.blobs = append(w.blobs, op.content.Blob)
		w.changes = append(w.changes, object.NewChange(to.Object))
	}
	t.current[c.was.ID] = to.Object
	return nil
}

// write stores the writes of a step.
func (t *batchTransaction) write(ctx context.Context, w batchWrites) error {
	if len(w.changes) == 0 {
		return nil
	}
	storage := t.Storage()
	removed := make([]id.Object, len(w.deleted))
	for i, o := range w.deleted {
		removed[i] = o.ID
	}
	if err := storage.Objects().Remove(ctx, t.actor.Org, removed); err != nil {
		return err
	}
	if err := storage.Objects().Put(ctx, t.actor.Org, w.replaced...); err != nil {
		return err
	}
	if err := storage.ObjectSets().Add(ctx, t.actor.Org, w.added); err != nil {
		return err
	}
	if err := storage.ObjectSets().Forget(ctx, t.actor.Org, w.blobs); fault.Is(err, fault.NotFound) {
		return errUploadTimeout
	} else if err != nil {
		return err
	}
	if err := t.keepVersions(ctx, t.Records, t.actor, t.now, false, w.former...); err != nil {
		return err
	}
	if err := t.keepVersions(ctx, t.Records, t.actor, t.now, true, w.deleted...); err != nil {
		return err
	}
	var err error
	t.head, err = storage.Changes().Append(ctx, t.actor.Org, w.changes...)
	return err
}

// audience is the function audience, which reads each workspace once.
func (t *batchTransaction) audience(ctx context.Context, o object.Object) (*object.Audience, error) {
	if o.Workspace == nil {
		return nil, nil
	}
	a, known := t.audiences[*o.Workspace]
	if known && o.Scope != object.Personal {
		return a, nil
	}
	a, err := audience(ctx, t.Records, o)
	if a != nil {
		t.audiences[*o.Workspace] = a
	}
	return a, err
}

// footprint is the storage keys of objects that operations change, to find operations whose order
// counts. The zero value is empty.
type footprint struct {
	keys, folders map[string]bool // folded
}

// overlaps reports whether one of the keys is there, or is that of a parent folder of one that is, or the reverse. It may
// be true for any keys if there are many folders.
func (f *footprint) overlaps(keys []string) bool {
	if len(f.keys) == 0 {
		return false
	}
	return len(f.folders) > maxFolders || slices.ContainsFunc(keys, func(key string) bool {
		return f.keys[key] || f.folders[key] || slices.ContainsFunc(object.Ancestors(key), func(folder string) bool { return f.keys[folder] })
	})
}

func (f *footprint) add(keys []string) {
	if f.keys == nil {
		f.keys, f.folders = map[string]bool{}, map[string]bool{}
	}
	for _, key := range keys {
		f.keys[key] = true
		for _, folder := range object.Ancestors(key) {
			f.folders[folder] = true
		}
	}
}
