package objects

import (
	"context"
	"math"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// maxDiscarded is the most earlier versions that one write discards for its content, or a deletion at
// once; more are left to later writes, or until they expire.
const maxDiscarded = 1000

// keepVersions makes earlier versions of objects that the actor replaced or deleted at now, or discards
// their blobs if the plan of the organisation keeps none. R's transaction holds the log's lock.
func (s *Objects) keepVersions(ctx context.Context, r ports.Records, actor org.Actor, now time.Time, deleted bool, objects ...object.Object) error {
	if len(objects) == 0 {
		return nil
	}
	sub, err := s.Subscription(ctx, r, actor)
	if err != nil {
		return err
	}
	retention := s.Retention.Of(sub.At(now).Plan)
	if retention.Enabled() {
		ended := make([]object.EarlierVersion, len(objects))
		for i, v := range objects {
			ended[i] = retention.Ended(v, actor.User, now, deleted)
		}
		return r.Storage().Versions().Keep(ctx, actor.Org, retention, ended...)
	}
	blobs := make([]string, len(objects))
	ids := make([]id.Object, len(objects))
	for i, v := range objects {
		blobs[i], ids[i] = v.Blob, v.ID
	}
	if deleted { // nobody can find what an earlier plan kept of them
		for n := maxDiscarded; n == maxDiscarded; {
			var err error
			if n, err = r.Storage().Versions().Discard(ctx, actor.Org, ids, 0, maxDiscarded, now); err != nil {
				return err
			}
		}
	}
	return r.Storage().BlobNames().Discard(ctx, actor.Org, blobs, now)
}

// makeRoom discards the earlier versions of the organisation that expire first, after r's transaction
// wrote content of so many bytes and made versions of ended bytes, as object.Usage.Excess says. If they
// are many, later writes discard the rest.
func (s *Objects) makeRoom(ctx context.Context, r ports.Records, actor org.Actor, now time.Time, written, ended int64) error {
	if written == 0 {
		return nil
	}
	sub, err := s.Subscription(ctx, r, actor)
	if err != nil {
		return err
	}
	used, err := r.Storage().Used(ctx, []id.Org{actor.Org})
	if err != nil {
		return err
	}
	excess := used[actor.Org].Excess(s.Limits.Of(sub.At(now).Plan), written, ended)
	if excess == 0 {
		return nil
	}
	_, err = r.Storage().Versions().Discard(ctx, actor.Org, nil, excess, maxDiscarded, now)
	return err
}

// Version is a version of an object: the present one, or an earlier one.
type Version struct {
	object.EarlierVersion
	Present bool // EndedAt and the fields after it count for nothing
}

// lastVersion returns the present object, or else the last version of a deleted one, that the actor sees;
// NotFound for any other.
func (s *Objects) lastVersion(ctx context.Context, r source, actor org.Actor, objectID id.Object) (Version, error) {
	o, err := s.visible(ctx, r, actor, objectID)
	if !fault.Is(err, fault.NotFound) {
		return Version{object.EarlierVersion{Object: o}, true}, err
	}
	missing := err
	var last object.EarlierVersion
	err = r.Storage().Versions().List(ctx, actor.Org, objectID, math.MaxInt64, 1, func(v object.EarlierVersion) error {
		last = v
		return nil
	})
	if err == nil && (!last.Deleted || !last.VisibleTo(actor)) {
		err = missing
	}
	return Version{last, false}, err
}

// Versions calls each with at most limit versions of an object that the actor sees, or of a deleted
// one, whose numbers are less than before: the latest first, the present one included. Limit 0 is all.
func (s *Objects) Versions(ctx context.Context, actor org.Actor, objectID id.Object, before int64, limit int, each func(Version) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	last, err := s.lastVersion(ctx, source{Records: s.Store, cached: true}, actor, objectID)
	if err != nil {
		return err
	}
	if last.Present && last.Version < before {
		if err := each(last); err != nil || limit == 1 {
			return err
		}
		before, limit = last.Version, max(0, limit-1)
	}
	return s.Store.Storage().Versions().List(ctx, actor.Org, objectID, before, limit, func(v object.EarlierVersion) error {
		return each(Version{EarlierVersion: v})
	})
}

// Version returns one version of an object that the actor sees, or of a deleted one.
func (s *Objects) Version(ctx context.Context, actor org.Actor, objectID id.Object, version int64) (object.Object, error) {
	if err := actor.CheckMember(); err != nil {
		return object.Object{}, err
	}
	last, err := s.lastVersion(ctx, source{Records: s.Store, cached: true}, actor, objectID)
	if err != nil || last.Version == version {
		return last.Object, err
	}
	found := object.Object{}
	err = s.Store.Storage().Versions().List(ctx, actor.Org, objectID, min(version, math.MaxInt64-1)+1, 1, func(v object.EarlierVersion) error {
		found = v.Object
		return nil
	})
	if err == nil && found.Version != version {
		err = fault.Missing("Version")
	}
	return found, err
}

// Deleted calls each with the last versions of the deleted objects that f selects and the actor sees,
// in the order of their deleted keys.
func (s *Objects) Deleted(ctx context.Context, actor org.Actor, f object.Filter, each func(object.EarlierVersion) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	return s.Store.Storage().Versions().Deleted(ctx, actor.Org, &actor, f, each)
}

// Restoration is which version of an object is restored.
type Restoration struct {
	Version  int64   // 0: the last one of a deleted object
	Path     *string // of a deleted object; nil: the path that it had
	Expected *int64  // as in Upload; of a deleted object its last version
}

// RestoreVersion makes an earlier version the next one of an object that the actor sees, or a deleted object
// present again, with the content of one of its versions. No content is copied: the object takes the
// version's blob.
func (s *Objects) RestoreVersion(ctx context.Context, actor org.Actor, objectID id.Object, what Restoration) (restored object.Object, err error) {
	var head object.Head
	err = s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, at object.Head) error {
		last, err := s.lastVersion(ctx, source{Records: r}, actor, objectID)
		if err != nil {
			return err
		}
		what := what // this function may run again
		if what.Version, err = what.checkedVersion(last); err != nil {
			return err
		}
		was, now, storage := last.Object, s.Clock.Now(), r.Storage()
		taken, err := storage.Versions().Take(ctx, actor.Org, objectID, what.Version)
		if err != nil {
			return err
		}
		restored = was.WithContent(taken.Content, actor.User, now)
		restored.MimeType = taken.MimeType
		var replaced int64
		if last.Present {
			replaced = was.Size
		}
		if err := s.checkGrowth(ctx, r, actor, taken.Size-replaced); err != nil {
			return err
		}
		if last.Present {
			if err = storage.Objects().Put(ctx, actor.Org, restored); err == nil {
				err = s.keepVersions(ctx, r, actor, now, false, was)
			}
		} else {
			restored, err = s.addAgain(ctx, r, actor, at, last.EarlierVersion, restored, what)
		}
		if err != nil {
			return err
		}
		if err := s.makeRoom(ctx, r, actor, now, taken.Size, replaced); err != nil {
			return err
		}
		head, err = storage.Changes().Append(ctx, actor.Org, object.NewChange(restored))
		restored.N = head.N
		return err
	})
	if err == nil {
		s.cacheRecord(restored, head)
	}
	return restored, err
}

// checkedVersion compares the version to be restored with the last one, and returns its number.
func (what Restoration) checkedVersion(last Version) (int64, error) {
	err := last.CheckReplace()
	if err == nil {
		err = last.CheckVersion(what.Expected)
	}
	if err != nil {
		if last.Present {
			err = withStored(last.Object, err)
		}
		return 0, err
	}
	switch {
	case !last.Present && what.Version == 0:
		return last.Version, nil
	case !last.Present:
	case what.Version == 0:
		return 0, fault.Field("version", "is required, as the file is not deleted")
	case what.Version == last.Version:
		return 0, fault.New(fault.Conflict, "Version %d is the present one", last.Version)
	case what.Path != nil:
		return 0, fault.Field("path", "goes with a deleted file only: move the file to change its path")
	}
	return what.Version, nil
}

// addAgain stores an object that was deleted, and makes its last version one of an object that is not.
func (s *Objects) addAgain(
	ctx context.Context, r ports.Records, actor org.Actor, at object.Head, last object.EarlierVersion,
	o object.Object, what Restoration,
) (object.Object, error) {
	if what.Path != nil {
		moved, err := last.Moved(*what.Path, actor, o.UpdatedAt)
		if err != nil {
			return o, err
		}
		o.Path = moved.Path
	}
	if what.Version != last.Version {
		if _, err := r.Storage().Versions().Take(ctx, actor.Org, last.ID, last.Version); err != nil {
			return o, err
		}
		last.Deleted = false
		if err := r.Storage().Versions().Keep(ctx, actor.Org, object.Retention{Versions: math.MaxInt64}, last); err != nil {
			return o, err
		}
	}
	if err := raiseVersions(ctx, r, actor.Org, at, &o); err != nil {
		return o, err
	}
	err := r.Storage().Objects().Add(ctx, actor.Org, o)
	if fault.Is(err, fault.Conflict) {
		err = s.pathTaken(ctx, source{Records: r}, actor, o)
	}
	return o, err
}

// DiscardVersion removes an earlier version for good. The last one of a deleted object goes with those
// before it.
func (s *Objects) DiscardVersion(ctx context.Context, actor org.Actor, objectID id.Object, version int64) error {
	return s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, _ object.Head) error {
		last, err := s.lastVersion(ctx, source{Records: r}, actor, objectID)
		switch {
		case err != nil:
			return err
		case last.Version == version && last.Present:
			return fault.New(fault.Conflict, "Version %d is the present one: delete the file", version)
		case last.Version == version:
			return s.discardVersions(ctx, r, actor, objectID)
		}
		taken, err := r.Storage().Versions().Take(ctx, actor.Org, objectID, version)
		if err != nil {
			return err
		}
		return r.Storage().BlobNames().Discard(ctx, actor.Org, []string{taken.Blob}, s.Clock.Now())
	})
}

// DiscardVersions removes all earlier versions of an object for good, and so a deleted object.
func (s *Objects) DiscardVersions(ctx context.Context, actor org.Actor, objectID id.Object) error {
	return s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, _ object.Head) error {
		if _, err := s.lastVersion(ctx, source{Records: r}, actor, objectID); err != nil {
			return err
		}
		return s.discardVersions(ctx, r, actor, objectID)
	})
}

func (s *Objects) discardVersions(ctx context.Context, r ports.Records, actor org.Actor, objectID id.Object) error {
	_, err := r.Storage().Versions().Discard(ctx, actor.Org, []id.Object{objectID}, 0, math.MaxInt32, s.Clock.Now())
	return err
}
