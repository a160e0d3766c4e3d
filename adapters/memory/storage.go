package memory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

type storage records

func (s storage) Objects() ports.Objects     { return objects{s.run} }
func (s storage) Changes() ports.Changes     { return changes(s) }
func (s storage) BlobNames() ports.BlobNames { return blobNames{s.run} }
func (s storage) Versions() ports.Versions   { return versions{s.run} }

// Used sums the sizes each time.
func (s storage) Used(_ context.Context, orgs []id.Org) (map[id.Org]object.Usage, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (object.Usage, error) { return x.tenant(o).used(), nil })
}

func (t *tenant) used() (u object.Usage) {
	for _, v := range t.Objects.rows {
		u[v.Class()] += v.Size
	}
	for _, v := range t.Versions.rows {
		u[object.Versions] += v.Size
	}
	return u
}

func (s storage) Replace(ctx context.Context, o id.Org, r object.Replacement) (object.Head, error) {
	return result(s.run, func(x *tx) (object.Head, error) {
		c, tenant := r.Change, x.tenant(o)
		existing := tenant.Objects.rows[c.Object.ID]
		isUnchanged := existing.Blob == r.Previous.Blob && existing.Version == c.Object.Version-1 && x.Epochs.rows[o] == r.Epoch
		if !isUnchanged || tenant.used().Total() > r.MaxUsed() {
			return object.Head{}, fault.New(fault.Conflict, "The object has changed")
		}
		inside := storage{run: x.run, inside: true}
		if err := inside.BlobNames().Forget(ctx, object.Blob{Org: o, Name: c.Object.Blob}); err != nil {
			return object.Head{}, fault.Wrap(fault.Conflict, err, "The blob is not announced")
		}
		err := inside.Objects().Put(ctx, o, c.Object)
		if r.Keep.Enabled() {
			err = errors.Join(err, inside.Versions().Keep(ctx, o, r.Keep, r.Keep.Ended(existing, c.By, c.At, false)))
		} else {
			err = errors.Join(err, inside.BlobNames().Discard(ctx, o, []string{r.Previous.Blob}, c.At))
		}
		if err != nil {
			return object.Head{}, err
		}
		return inside.Changes().Append(ctx, o, c)
	})
}

type objects struct{ run runner }

func (s objects) Get(_ context.Context, o id.Org, objectID id.Object) (object.Object, error) {
	return result(s.run, func(x *tx) (object.Object, error) { return x.tenant(o).Objects.get(objectID) })
}

func (s objects) At(_ context.Context, o id.Org, storageKey string) (object.Object, error) {
	return result(s.run, func(x *tx) (object.Object, error) {
		tenant := x.tenant(o)
		at, err := tenant.Keys.get(object.Fold(storageKey))
		if err != nil {
			return object.Object{}, err
		}
		return tenant.Objects.get(at)
	})
}

// List copies the objects before it calls head and each, which may use the store.
func (s objects) List(_ context.Context, o id.Org, viewer *org.Actor, f object.Filter, head func(object.Head) error, each func(object.Object) error) error {
	var at object.Head
	order := object.Object.StorageKey
	if f.Folder != "" {
		order = foldedKey
	}
	within := f
	if len(f.Words) > 0 {
		within.Words, within.Limit = nil, f.ExamineLimit
	}
	all, err := result(s.run, func(x *tx) ([]object.Object, error) {
		tenant := x.tenant(o)
		at = x.head(o)
		return tenant.Objects.list(func(v object.Object) bool {
			return within.Selects(v) && (viewer == nil || v.VisibleTo(*viewer))
		}, func(a, b object.Object) int { return cmp.Compare(order(a), order(b)) }, within.Limit), nil
	})
	all = first(slices.DeleteFunc(all, func(v object.Object) bool { return !f.HasWords(v) }), f.Limit)
	if err == nil && head != nil {
		err = head(at)
	}
	return forEach(all, err, each)
}

func (s objects) Add(_ context.Context, o id.Org, v object.Object) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		key := foldedKey(v)
		if err := tenant.checkFreeKey(key); err != nil {
			return err
		}
		if v.Scope != object.Personal {
			if v.Workspace != nil && !tenant.Workspaces.has(*v.Workspace) {
				return tenant.Workspaces.missing()
			}
			if v.Team != nil && !tenant.Teams.has(*v.Team) {
				return tenant.Teams.missing()
			}
		}
		if err := tenant.Objects.add(x, v.ID, v); err != nil {
			return err
		}
		tenant.Keys.put(x, key, v.ID)
		return nil
	})
}

// checkFreeKey decides whether an object may have the folded key.
func (t *tenant) checkFreeKey(key string) error {
	if t.Keys.has(key) {
		return t.Keys.errTaken()
	}
	for _, folder := range object.Ancestors(key) {
		if t.Keys.has(folder) {
			return fault.New(fault.Conflict, "A folder of the path is a file")
		}
	}
	below := key + "/"
	for other := range t.Keys.rows {
		if strings.HasPrefix(other, below) {
			return fault.New(fault.Conflict, "The path is a folder")
		}
	}
	return nil
}

// Put frees the paths of all objects before it takes the new ones. An error undoes both.
func (s objects) Put(_ context.Context, o id.Org, objects ...object.Object) error {
	return s.run.in(o, func(x *tx, tenant *tenant) error {
		for _, v := range objects {
			previous, err := tenant.Objects.get(v.ID)
			if err != nil {
				return err
			}
			tenant.Keys.remove(x, foldedKey(previous))
		}
		for _, v := range objects {
			if tenant.checkFreeKey(foldedKey(v)) != nil {
				return object.PathTaken(v.Path)
			}
			tenant.Keys.put(x, foldedKey(v), v.ID)
			tenant.Objects.put(x, v.ID, v)
		}
		return nil
	})
}

// foldedKey returns the folded storage key of an object.
func foldedKey(v object.Object) string { return object.Fold(v.StorageKey()) }

func (s objects) Remove(_ context.Context, o id.Org, ids []id.Object) error {
	return s.run.do(func(x *tx) {
		tenant := x.tenant(o)
		for _, i := range ids {
			if v, ok := tenant.Objects.rows[i]; ok {
				tenant.Objects.remove(x, i)
				tenant.Keys.remove(x, foldedKey(v))
			}
		}
	})
}

// shared reports whether there is a shared object that matches.
func (t *tenant) shared(matches func(object.Object) bool) bool {
	for _, v := range t.Objects.rows {
		if v.Scope != object.Personal && matches(v) {
			return true
		}
	}
	return false
}

// epoch is the epoch of every log: no log here is ever restored from a copy.
const epoch = 1

// head returns the epoch and the last number of an organisation's log.
func (s *state) head(o id.Org) object.Head {
	h := s.Heads.rows[o]
	h.Epoch = epoch
	return h
}

// Marks reads the marks of the organisations that exist.
func (s *Store) Marks(_ context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	return ofEach(s.run, orgs, func(x *tx, o id.Org) (org.Mark, error) {
		at, err := x.Epochs.get(o)
		h := x.head(o)
		return org.Mark{Epoch: at, LogEpoch: h.Epoch, LogN: h.N}, err
	})
}

// Cached returns false: Marks takes no longer.
func (s *Store) Cached(id.Org) (org.Mark, bool) { return org.Mark{}, false }

// Entries reads entries of a log, and the epoch of its organisation.
func (s *Store) Entries(_ context.Context, o id.Org, after int64, limit int) (entries []object.Change, at int64, err error) {
	err = s.run(func(x *tx) error {
		if at, err = x.Epochs.get(o); err == nil {
			entries = x.entries(o, after, limit, always)
		}
		return err
	})
	return entries, at, err
}

type changes records

// Lock has the store to itself anyway, as every transaction has.
func (c changes) Lock(_ context.Context, o id.Org) (object.Head, error) {
	if !c.inside {
		return object.Head{}, fault.New(fault.Internal, "A log was locked outside a transaction")
	}
	return result(c.run, func(x *tx) (object.Head, error) {
		_, err := x.Tenants.get(o)
		return x.head(o), err
	})
}

func (c changes) Append(_ context.Context, o id.Org, changes ...object.Change) (object.Head, error) {
	if !c.inside {
		return object.Head{}, fault.New(fault.Internal, "A change was appended outside a transaction")
	}
	return result(c.run, func(x *tx) (object.Head, error) {
		tenant, err := x.Tenants.get(o)
		if err != nil {
			return object.Head{}, err
		}
		h := x.head(o)
		for _, v := range changes {
			h.N++
			v.N = h.N
			if v.Type == object.Changed {
				v.Object.N = h.N
				if existing, ok := tenant.Objects.rows[v.Object.ID]; ok {
					existing.N = h.N
					tenant.Objects.put(x, existing.ID, existing)
				}
			}
			tenant.Log.put(x, v.N, v)
		}
		if len(changes) > 0 {
			x.Heads.put(x, o, h)
			x.notify(o, h.N)
		}
		return h, nil
	})
}

func (c changes) Heads(_ context.Context, orgs []id.Org) (map[id.Org]object.Head, error) {
	return ofEach(c.run, orgs, func(x *tx, o id.Org) (object.Head, error) { return x.head(o), nil })
}

func (c changes) List(_ context.Context, o id.Org, after int64, limit int) ([]object.Change, error) {
	return result(c.run, func(x *tx) ([]object.Change, error) { return x.entries(o, after, limit, always), nil })
}

// entries returns the log's entries after a number that match, at most limit.
// The log has every number from the floor to the head.
func (s *state) entries(o id.Org, after int64, limit int, matches func(object.Change) bool) (all []object.Change) {
	h, log := s.head(o), s.tenant(o).Log
	for n := max(after, h.Floor) + 1; n <= h.N && len(all) < limit; n++ {
		if v := log.rows[n]; matches(v) {
			all = append(all, clone(v))
		}
	}
	return all
}

// Since copies the entries before it calls head and each, as Objects.List does.
func (c changes) Since(_ context.Context, o id.Org, after int64, head func(object.Head) error, each func(object.Change) error) error {
	var at object.Head
	all, err := result(c.run, func(x *tx) ([]object.Change, error) {
		at = x.head(o)
		ofType := func(t object.ChangeType) []object.Change {
			return x.entries(o, after, math.MaxInt, func(v object.Change) bool { return v.Type == t })
		}
		var changed []object.Change
		for _, v := range x.tenant(o).Objects.list(func(v object.Object) bool { return v.N > after },
			func(a, b object.Object) int { return cmp.Compare(a.N, b.N) }, 0) {
			changed = append(changed, object.Change{N: v.N, Type: object.Changed, Object: v})
		}
		return slices.Concat(ofType(object.AccessChanged), ofType(object.Deleted), changed), nil
	})
	if err == nil {
		err = head(at)
	}
	return forEach(all, err, each)
}

func (c changes) Prune(_ context.Context, before time.Time) error {
	return c.run.do(func(x *tx) {
		for o, tenant := range x.Tenants.rows {
			h := x.head(o)
			floor := h.Floor
			for n := h.Floor + 1; n <= h.N; n++ {
				if tenant.Log.rows[n].At.Before(before) {
					floor = n
				}
			}
			for n := h.Floor + 1; n <= floor; n++ {
				tenant.Log.remove(x, n)
			}
			if floor > h.Floor {
				h.Floor = floor
				x.Heads.put(x, o, h)
			}
		}
	})
}

type blobNames struct{ run runner }

func (b blobNames) Announce(_ context.Context, o id.Org, name string, size int64, now time.Time) error {
	return b.run(func(x *tx) error { return x.Blobs.add(x, name, object.Blob{Org: o, Name: name, At: now, Size: size}) })
}

func (s storage) Announced(_ context.Context, o id.Org) (names int, size int64, err error) {
	err = s.run.do(func(x *tx) {
		for _, v := range x.Blobs.rows {
			if v.Org == o && !v.Discarded && v.Size > 0 {
				names, size = names+1, size+v.Size
			}
		}
		for _, u := range x.tenant(o).openUploads("", time.Time{}) {
			size += u.Size
		}
	})
	return names, size, err
}

func (b blobNames) Forget(_ context.Context, v object.Blob) error {
	return b.run(func(x *tx) error {
		existing := x.Blobs.rows[v.Name]
		if existing.Org != v.Org || existing.Discarded != v.Discarded {
			return x.Blobs.missing()
		}
		x.Blobs.remove(x, v.Name)
		return nil
	})
}

func (b blobNames) Discard(_ context.Context, o id.Org, names []string, now time.Time) error {
	return b.run.do(func(x *tx) {
		for _, name := range names {
			x.discard(o, name, now)
		}
	})
}

// discard marks a name as to be removed since now.
func (x *tx) discard(o id.Org, name string, now time.Time) {
	if previous := x.Blobs.rows[name]; !previous.Discarded || previous.At.After(now) {
		x.Blobs.put(x, name, object.Blob{Org: o, Name: name, Discarded: true, At: now})
	}
}

func (b blobNames) Expire(_ context.Context, before time.Time) error {
	return b.run.do(func(x *tx) {
		for name, v := range x.Blobs.rows {
			if v.At.Before(before) {
				v.Discarded = true
				x.Blobs.put(x, name, v)
			}
		}
	})
}

func (b blobNames) Due(_ context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	return result(b.run, func(x *tx) ([]object.Blob, error) {
		if limit <= 0 {
			return nil, nil
		}
		return x.Blobs.list(func(v object.Blob) bool {
			return v.At.Before(before) && v.Name > after
		}, func(a, b object.Blob) int { return cmp.Compare(a.Name, b.Name) }, limit), nil
	})
}

func (b blobNames) Known(_ context.Context, names []string) (map[string]bool, error) {
	return result(b.run, func(x *tx) (map[string]bool, error) {
		known := map[string]bool{}
		for name := range x.Blobs.rows {
			known[name] = true
		}
		for _, t := range x.Tenants.rows {
			for _, v := range t.Objects.rows {
				known[v.Blob] = true
			}
			for _, v := range t.Versions.rows {
				known[v.Blob] = true
			}
		}
		maps.DeleteFunc(known, func(name string, _ bool) bool { return !slices.Contains(names, name) })
		return known, nil
	})
}
