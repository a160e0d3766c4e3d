package gormdb

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// maxKeyBytes bounds the keys of one statement of conflicts and their parent folders, in bytes. One key
// has at most half as many.
const maxKeyBytes = 1 << 20

type objectSets struct{ *conn }

func (s storage) ObjectSets() ports.ObjectSets { return objectSets(s) }

func (q objectSets) Get(ctx context.Context, o id.Org, ids []id.Object) (map[id.Object]object.Object, error) {
	found := make(map[id.Object]object.Object, len(ids))
	if ids = validIDs(ids); len(ids) == 0 {
		return found, nil
	}
	return found, each(ctx, objectTable.of(q.read, o).whereIn("id", list(q.dialect, ids)), (*objectRow).object, func(v object.Object) error {
		found[v.ID] = v
		return nil
	})
}

func (q objectSets) Taken(ctx context.Context, o id.Org, storageKeys []string, without []id.Object) (map[string]id.Object, error) {
	folded := make([]string, len(storageKeys))
	for i, key := range storageKeys {
		folded[i] = object.Fold(key)
	}
	conflicts, err := q.conflicts(ctx, o, folded, without)
	if err != nil {
		return nil, err
	}
	taken := map[string]id.Object{}
	for i, key := range folded {
		if conflicts.taken(key) {
			taken[storageKeys[i]] = conflicts.files[key]
		}
	}
	return taken, nil
}

// keyConflicts are what keeps objects from having keys.
type keyConflicts struct {
	files   map[string]id.Object // by folded key: of the keys and their parent folders, those that objects have
	folders map[string]bool      // those of the keys that are parent folders of objects
}

// taken reports whether an object cannot have a folded key.
func (w keyConflicts) taken(key string) bool {
	isFile := func(folder string) bool { return w.files[folder] != "" }
	return isFile(key) || w.folders[key] || slices.ContainsFunc(object.Ancestors(key), isFile)
}

// conflicts returns what keeps objects from having the folded keys, as if some objects did not exist.
// It takes one statement for keys of maxKeyBytes.
func (c *conn) conflicts(ctx context.Context, o id.Org, folded []string, without []id.Object) (keyConflicts, error) {
	found := keyConflicts{map[string]id.Object{}, map[string]bool{}}
	ignored := list(c.dialect, validIDs(without))
	for len(folded) > 0 {
		n, bytes := 0, 0
		var files []string
		for _, key := range folded {
			folders := object.Ancestors(key)
			if bytes += len(key) * (1 + len(folders)); bytes > maxKeyBytes && n > 0 {
				break
			}
			files = append(append(files, key), folders...)
			n++
		}
		slices.Sort(files)
		var key string
		var objectID sql.NullString // NULL: the key is a folder
		taken := takenKeys[c.dialect].of(o).set("keys", list(c.dialect, slices.Compact(files))).
			set("folders", list(c.dialect, folded[:n])).set("ignored", ignored)
		err := eachRow(ctx, c.read, "Object", taken, []any{&key, &objectID}, func() error {
			if objectID.Valid {
				found.files[key] = id.Object(objectID.String)
			} else {
				found.folders[key] = true
			}
			return nil
		})
		if err != nil {
			return found, err
		}
		folded = folded[n:]
	}
	return found, nil
}

func (q objectSets) Deleted(ctx context.Context, o id.Org, storageKeys []string) (map[string]int64, error) {
	last := map[string]int64{}
	if len(storageKeys) == 0 {
		return last, nil
	}
	var key string
	var version int64
	c := deletedVersions[q.dialect].of(o).set("keys", list(q.dialect, storageKeys))
	return last, eachRow(ctx, q.read, "Version", c, []any{&key, &version}, func() error {
		if version > 0 {
			last[key] = version
		}
		return nil
	})
}

func (q objectSets) Add(ctx context.Context, o id.Org, vs []object.Object) error {
	if len(vs) == 0 {
		return nil
	}
	rows := make([]objectRow, len(vs))
	for i, v := range vs {
		v.Org = o
		rows[i] = *placedRow(v)
	}
	return q.atomicWithLog(ctx, o, func(c *conn) error {
		if err := insertRows(ctx, objectTable.of(c.write, o), addObjects, "", rows); err != nil {
			return err
		}
		for _, v := range vs {
			c.grow(o, v.Class(), v.Size)
		}
		return nil
	})
}

// Announce does not wait for the disk on SQLite, as BlobNames.Announce.
func (q objectSets) Announce(ctx context.Context, o id.Org, names []string, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	return q.oneAsync(ctx, func(c *conn) error {
		_, err := exec(ctx, c.write, "Blob", announceNames[c.dialect].of(o).
			set("now", now.UnixMilli()).set("names", list(c.dialect, names)))
		return err
	})
}

func (q objectSets) Forget(ctx context.Context, o id.Org, names []string) error {
	if len(names) == 0 {
		return nil
	}
	s := blobNameTable.of(q.write, o).whereIn("name", list(q.dialect, names))
	n, err := s.filter("is_discarded IS NOT TRUE").remove(ctx) // by an equality it would read all announced names
	if err == nil && n < int64(len(names)) {
		err = fault.Missing("Blob")
	}
	return err
}
