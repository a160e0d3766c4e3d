package objects

import (
	"context"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// Get returns an object that the actor sees.
func (s *Objects) Get(ctx context.Context, actor org.Actor, objectID id.Object) (object.Object, error) {
	if err := actor.CheckMember(); err != nil {
		return object.Object{}, err
	}
	return s.visible(ctx, source{Records: s.Store, cached: true}, actor, objectID)
}

// Find returns a document; found is false if none is stored.
func (s *Objects) Find(ctx context.Context, actor org.Actor, d object.Document) (o object.Object, found bool, err error) {
	if err := actor.CheckMember(); err != nil {
		return object.Object{}, false, err
	}
	return s.find(ctx, actor, d.Object("", actor))
}

// FindMemory returns a workspace's memory file; found is false if none is stored.
func (s *Objects) FindMemory(ctx context.Context, actor org.Actor, w id.Workspace, fileName string) (o object.Object, found bool, err error) {
	if err := actor.CheckMember(); err != nil {
		return object.Object{}, false, err
	}
	wanted, err := object.Memory("", actor, w, fileName)
	if err != nil {
		return object.Object{}, false, err
	}
	return s.find(ctx, actor, wanted)
}

func (s *Objects) find(ctx context.Context, actor org.Actor, document object.Object) (object.Object, bool, error) {
	o, err := s.findByKey(ctx, source{Records: s.Store, cached: true}, actor, document.StorageKey())
	if fault.Is(err, fault.NotFound) {
		return object.Object{}, false, nil
	}
	return o, err == nil, err
}

// List calls head, unless it is nil, with the log's head, and then each with the objects
// that f selects and the actor sees, in the order of their storage keys. All are read in
// one snapshot. A search examines object.MaxExamined of them.
func (s *Objects) List(ctx context.Context, actor org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	f.ExamineLimit = object.MaxExamined
	return s.Store.Storage().Objects().List(ctx, actor.Org, &actor, f, head, each)
}

// ListMemory is List for the memory files of a workspace that the actor sees.
func (s *Objects) ListMemory(ctx context.Context, actor org.Actor, w id.Workspace, f object.Filter, each func(object.Object) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if !actor.SeesWorkspace(w) {
		return fault.Missing("Workspace")
	}
	f.Kind, f.Scope, f.Workspace = object.WorkspaceMemory, object.Shared, w
	return s.Store.Storage().Objects().List(ctx, actor.Org, &actor, f, nil, each)
}

// Head returns the head of the log of an organisation. Whoever reads it before the rights of a caller, and then all
// that the caller sees, misses no change that follows the head, nor any of these rights.
func (s *Objects) Head(ctx context.Context, o id.Org) (object.Head, error) {
	heads, err := s.Store.Storage().Changes().Heads(ctx, []id.Org{o})
	return heads[o], err
}

// Since calls head with the log's head, and then each with the changes after the cursor: the
// objects that changed, as they are now, and the deletions. Gone if the log no longer has all
// entries after the cursor, or the actor's visibility has changed since.
func (s *Objects) Since(ctx context.Context, actor org.Actor, from object.Cursor, head func(object.Head) error, each func(object.Change) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	tooOld := fault.New(fault.Gone, "since is not in the log any more: read the whole manifest")
	var current object.Head
	sent := false
	sendHead := func() error {
		if sent {
			return nil
		}
		sent = true
		return head(current)
	}
	err := s.Store.Storage().Changes().Since(ctx, actor.Org, from.N, func(h object.Head) error {
		if current = h; !h.Reaches(from) {
			return tooOld
		}
		return nil
	}, func(c object.Change) error {
		switch {
		case !c.VisibleTo(actor):
			return nil
		case c.Type == object.AccessChanged:
			return fault.New(fault.Gone, "What you see has changed since: read the whole manifest")
		}
		if err := sendHead(); err != nil {
			return err
		}
		return each(c)
	})
	if err != nil {
		return err
	}
	return sendHead()
}
