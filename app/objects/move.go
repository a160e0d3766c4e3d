package objects

import (
	"context"
	"slices"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// ConflictError is a Conflict with the stored object that it is about, which the actor sees.
type ConflictError struct {
	Stored object.Object
	error
}

// Unwrap returns the fault.Error.
func (e *ConflictError) Unwrap() error { return e.error }

// withStored adds the object that is stored to a Conflict about it.
func withStored(stored object.Object, err error) error {
	if stored.Version > 0 && fault.Is(err, fault.Conflict) {
		return &ConflictError{stored, err}
	}
	return err
}

// pathTaken returns the Conflict of an object that cannot be stored at its path, with the object that is
// there.
func (s *Objects) pathTaken(ctx context.Context, r source, actor org.Actor, o object.Object) error {
	existing, err := s.findByKey(ctx, r, actor, o.StorageKey())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || !existing.VisibleTo(actor) {
		return object.PathTaken(o.Path)
	}
	return withStored(existing, object.PathTaken(o.Path))
}

// Move moves an object that the actor sees to another path of its place. At its own path it stays as it is.
func (s *Objects) Move(ctx context.Context, actor org.Actor, objectID id.Object, path string, expected *int64) (moved object.Object, err error) {
	var head object.Head
	err = s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, at object.Head) error {
		was, err := s.visible(ctx, source{Records: r}, actor, objectID)
		if err != nil {
			return err
		}
		if err = was.CheckVersion(expected); err == nil {
			moved, err = was.Moved(path, actor, s.Clock.Now())
		}
		if head = at; err != nil || moved.Version == was.Version {
			return withStored(was, err)
		}
		if err := raiseVersions(ctx, r, actor.Org, at, &moved); err != nil {
			return err
		}
		if err := r.Storage().Objects().Put(ctx, actor.Org, moved); fault.Is(err, fault.Conflict) {
			return s.pathTaken(ctx, source{Records: r}, actor, moved)
		} else if err != nil {
			return err
		}
		head, err = r.Storage().Changes().Append(ctx, actor.Org, object.NewMove(moved, was.Path))
		moved.N = head.N
		return err
	})
	if err == nil {
		s.cacheRecord(moved, head)
	}
	return moved, err
}

// maxAppended is the most changes of a moved folder that are appended together: each takes the memory of its record.
const maxAppended = 500

// MoveFolder moves all objects below the folder from, in the place of d, to below the folder to, or
// none. It returns how many have another path now, and the head of the log after that.
func (s *Objects) MoveFolder(ctx context.Context, actor org.Actor, d object.Draft, from, to string) (moved int, head object.Head, err error) {
	err = s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, at object.Head) error {
		move, err := object.NewFolderMove(actor, d, from, to, s.Clock.Now())
		if err != nil {
			return err
		}
		var next []object.Object
		var paths []string // of next before the move
		storage, found, bytes := r.Storage(), 0, 0
		err = storage.Objects().List(ctx, actor.Org, nil, move.Filter(), nil, func(was object.Object) error {
			if found++; found > object.MaxMoved {
				return fault.New(fault.Conflict, "The folder %s has more than %d files: move its folders one after the other", from, object.MaxMoved)
			}
			o, err := move.Moved(was)
			if bytes += len(was.Path) + len(o.Path); bytes > object.MaxMovedPaths {
				return fault.New(fault.Conflict, "The paths below %s have more than %d bytes with their new "+
					"ones: move its folders one after the other", from, object.MaxMovedPaths)
			}
			if err == nil && o.Version > was.Version {
				o.N = at.N + int64(len(next)) + 1
				next, paths = append(next, o), append(paths, was.Path)
			}
			return err
		})
		if err == nil {
			err = storage.Objects().Put(ctx, actor.Org, next...)
		}
		moved, head = len(next), at
		for part := range slices.Chunk(next, maxAppended) {
			changes := make([]object.Change, len(part))
			for i, o := range part {
				changes[i] = object.NewMove(o, paths[i])
			}
			paths = paths[len(part):]
			if err == nil {
				head, err = storage.Changes().Append(ctx, actor.Org, changes...)
			}
		}
		return err
	})
	return moved, head, err
}

// withLockedLog runs fn for an actor who may write, in a transaction that has locked the organisation's log.
func (s *Objects) withLockedLog(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor, object.Head) error) error {
	return s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		head, err := r.Storage().Changes().Lock(ctx, actor.Org)
		if err != nil {
			return err
		}
		return fn(r, actor, head)
	})
}
