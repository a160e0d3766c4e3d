package memory

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// versionKey identifies an earlier version.
type versionKey struct {
	object id.Object
	number int64
}

func keyOfVersion(v object.EarlierVersion) versionKey { return versionKey{v.ID, v.Version} }

type versions struct{ run runner }

func (q versions) List(_ context.Context, o id.Org, objectID id.Object, before int64, limit int, each func(object.EarlierVersion) error) error {
	all, err := result(q.run, func(x *tx) ([]object.EarlierVersion, error) {
		return x.tenant(o).Versions.list(func(v object.EarlierVersion) bool { return v.ID == objectID && v.Version < before },
			func(a, b object.EarlierVersion) int { return cmp.Compare(b.Version, a.Version) }, limit), nil
	})
	return forEach(all, err, each)
}

func (q versions) Deleted(_ context.Context, o id.Org, viewer *org.Actor, f object.Filter, each func(object.EarlierVersion) error) error {
	after := f.After
	f.After = ""
	all, err := result(q.run, func(x *tx) ([]object.EarlierVersion, error) {
		return x.tenant(o).Versions.list(func(v object.EarlierVersion) bool {
			return v.Deleted && f.Selects(v.Object) && v.DeletedKey() > after && (viewer == nil || v.VisibleTo(*viewer))
		}, func(a, b object.EarlierVersion) int { return cmp.Compare(a.DeletedKey(), b.DeletedKey()) }, f.Limit), nil
	})
	return forEach(all, err, each)
}

func (q versions) Keep(_ context.Context, o id.Org, keep object.Retention, ended ...object.EarlierVersion) error {
	return q.run.in(o, func(x *tx, t *tenant) error {
		for _, v := range ended {
			if err := t.Versions.add(x, keyOfVersion(v), v); err != nil {
				return err
			}
			ofObject := func(other object.EarlierVersion) bool { return other.ID == v.ID }
			all := t.Versions.list(ofObject, func(a, b object.EarlierVersion) int { return cmp.Compare(b.Version, a.Version) }, 0)
			for i, other := range all {
				if v.Deleted && other.ExpiresAt.After(v.ExpiresAt) {
					other.ExpiresAt = v.ExpiresAt
					t.Versions.put(x, keyOfVersion(other), other)
				}
				if int64(i) >= keep.Versions {
					t.Versions.remove(x, keyOfVersion(other))
					x.discard(o, other.Blob, v.EndedAt)
				}
			}
		}
		return nil
	})
}

func (q versions) Take(_ context.Context, o id.Org, objectID id.Object, number int64) (object.EarlierVersion, error) {
	return result(q.run, func(x *tx) (object.EarlierVersion, error) {
		t := x.tenant(o)
		v, err := t.Versions.get(versionKey{objectID, number})
		if err != nil {
			return v, err
		}
		t.Versions.remove(x, keyOfVersion(v))
		return v, nil
	})
}

func (q versions) Discard(_ context.Context, o id.Org, objectIDs []id.Object, size int64, limit int, now time.Time) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	return result(q.run, func(x *tx) (int, error) {
		if _, err := x.Tenants.get(o); err != nil {
			return 0, err
		}
		if objectIDs == nil {
			return x.discardVersions(o, always, size, limit, now), nil
		}
		return x.discardVersions(o, func(v object.EarlierVersion) bool { return slices.Contains(objectIDs, v.ID) }, math.MaxInt64, limit, now), nil
	})
}

// discardVersions removes the first of the versions that match, in the order of their expiry, as
// ports.Versions.Discard does; limit 0 is none.
func (x *tx) discardVersions(o id.Org, matches func(object.EarlierVersion) bool, size int64, limit int, now time.Time) (n int) {
	t, sum := x.tenant(o), int64(0)
	for _, v := range t.Versions.list(matches, func(a, b object.EarlierVersion) int {
		return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.Version, b.Version))
	}, limit) {
		if sum >= size {
			break
		}
		t.Versions.remove(x, keyOfVersion(v))
		x.discard(o, v.Blob, now)
		n, sum = n+1, sum+v.Size
	}
	return n
}

func (q versions) Expire(_ context.Context, now time.Time) error {
	return q.run.do(func(x *tx) {
		for o := range x.Tenants.rows {
			x.discardVersions(o, func(v object.EarlierVersion) bool { return !v.ExpiresAt.After(now) }, math.MaxInt64, 0, now)
		}
	})
}
