package memory

import (
	"context"
	"slices"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

type objectSets struct{ run runner }

func (s storage) ObjectSets() ports.ObjectSets { return objectSets{s.run} }

func (s objectSets) Get(_ context.Context, o id.Org, ids []id.Object) (map[id.Object]object.Object, error) {
	return result(s.run, func(x *tx) (map[id.Object]object.Object, error) {
		found := map[id.Object]object.Object{}
		for _, v := range x.tenant(o).Objects.getAll(ids) {
			found[v.ID] = v
		}
		return found, nil
	})
}

func (s objectSets) Taken(_ context.Context, o id.Org, storageKeys []string, without []id.Object) (map[string]id.Object, error) {
	return result(s.run, func(x *tx) (map[string]id.Object, error) {
		others := newTenant()
		for key, objectID := range x.tenant(o).Keys.rows {
			if !slices.Contains(without, objectID) {
				others.Keys.rows[key] = objectID
			}
		}
		taken := map[string]id.Object{}
		for _, key := range storageKeys {
			if folded := object.Fold(key); others.checkFreeKey(folded) != nil {
				taken[key] = others.Keys.rows[folded]
			}
		}
		return taken, nil
	})
}

func (s objectSets) Deleted(_ context.Context, o id.Org, storageKeys []string) (map[string]int64, error) {
	return result(s.run, func(x *tx) (map[string]int64, error) {
		last := map[string]int64{}
		for _, v := range x.tenant(o).Versions.rows {
			if key := v.StorageKey(); v.Deleted && slices.Contains(storageKeys, key) {
				last[key] = max(last[key], v.Version)
			}
		}
		return last, nil
	})
}

func (s objectSets) Add(ctx context.Context, o id.Org, vs []object.Object) error {
	return s.run(func(x *tx) error {
		return forEach(vs, nil, func(v object.Object) error { return objects{x.run}.Add(ctx, o, v) })
	})
}

func (s objectSets) Announce(ctx context.Context, o id.Org, names []string, now time.Time) error {
	return s.run(func(x *tx) error {
		return forEach(names, nil, func(name string) error { return blobNames{x.run}.Announce(ctx, o, name, 0, now) })
	})
}

func (s objectSets) Forget(ctx context.Context, o id.Org, names []string) error {
	return s.run(func(x *tx) error {
		return forEach(names, nil, func(name string) error { return blobNames{x.run}.Forget(ctx, object.Blob{Org: o, Name: name}) })
	})
}
