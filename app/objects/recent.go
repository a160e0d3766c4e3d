package objects

import (
	"context"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// Bounds of the caches, in bytes.
const (
	maxRecords       = 8 << 20
	maxMissing       = 1 << 20
	maxContents      = 16 << 20
	maxVerified      = 4 << 20
	maxCachedContent = 16 << 10 // the largest content that is cached

	// entryOverhead is the approximate size of an entry without its strings.
	entryOverhead = 512
)

const (
	// alwaysVerified is the largest content, in bytes, whose checksum is verified at every read.
	alwaysVerified = 256 << 10

	// verifyAgain is how long content that was verified is not verified again.
	verifyAgain = time.Hour
)

// recent is a cache of bounded weight in two generations, each of half of it. When the young
// generation is full it replaces the old one; get moves an entry to the young generation, so
// an entry that is not read in the meantime is evicted.
type recent[K comparable, V any] struct {
	half   int            // bytes
	weight func(K, V) int // bytes

	mu          sync.Mutex
	young       map[K]V // guarded by mu, as are those below
	old         map[K]V
	youngWeight int
}

func newRecent[K comparable, V any](most int, weight func(K, V) int) *recent[K, V] {
	return &recent[K, V]{half: most / 2, weight: weight, young: map[K]V{}}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[k]
	if !ok {
		if v, ok = r.old[k]; ok {
			delete(r.old, k)
			r.add(k, v)
		}
	}
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(k, v)
}

func (r *recent[K, V]) remove(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.young[k]; ok {
		r.youngWeight -= r.weight(k, v)
	}
	delete(r.young, k)
	delete(r.old, k)
}

func (r *recent[K, V]) add(k K, v V) {
	w := r.weight(k, v)
	if was, ok := r.young[k]; ok {
		r.youngWeight -= r.weight(k, was)
	}
	if r.youngWeight+w > r.half {
		r.young, r.old, r.youngWeight = map[K]V{}, r.young, 0
	}
	r.young[k] = v
	r.youngWeight += w
}

// name is the key of a record: the object's id or its storage key.
type name struct {
	org id.Org
	key string
}

// record is an object, or the zero object where there was none, as it was at a position of its
// organisation's log, or later. As every change of an object appends to the log, the record is
// current while the log is at that position. Zero objects have a cache of their own, so that names
// that a member makes up displace no objects.
type record struct {
	at     object.Cursor
	object object.Object
}

func newRecords(most int) *recent[name, record] {
	return newRecent(most, func(n name, r record) int {
		o := r.object
		return entryOverhead + len(n.key) + len(o.Path) + len(o.Blob) + len(o.MimeType) + len(o.Checksum)
	})
}

func newContents() *recent[string, []byte] {
	return newRecent(maxContents, func(blob string, content []byte) int { return entryOverhead + len(blob) + len(content) })
}

// verification is when the checksum of content was right, and the state of its file then.
type verification struct {
	state string
	at    time.Time
}

func newVerified() *recent[string, verification] {
	return newRecent(maxVerified, func(blob string, v verification) int { return entryOverhead + len(blob) + len(v.state) })
}

// source is where objects are read from: the store through the cache, or a transaction,
// which does not use the cache as it may be rolled back.
type source struct {
	ports.Records
	cached bool
}

// at is Objects.At of r. That there is no object is cached as the zero object, because clients read
// documents before anything is stored in them.
func (s *Objects) at(ctx context.Context, r source, actor org.Actor, storageKey string) (object.Object, error) {
	o, err := s.readCached(r, actor, storageKey, func() (object.Object, error) {
		o, err := r.Storage().Objects().At(ctx, actor.Org, storageKey)
		if fault.Is(err, fault.NotFound) {
			return object.Object{}, nil
		}
		return o, err
	})
	if err == nil && o.Version == 0 {
		return o, fault.Missing("Object")
	}
	return o, err
}

// readCached returns the record that is cached under the key if the log has not grown since
// the record was read; otherwise it reads the record and caches it.
func (s *Objects) readCached(r source, actor org.Actor, key string, read func() (object.Object, error)) (object.Object, error) {
	if !r.cached {
		return read()
	}
	at, ok := s.LogPosition(actor.Org)
	if !ok {
		return read()
	}
	n := name{actor.Org, key}
	for _, cache := range []*recent[name, record]{s.records, s.missing} {
		if r, ok := cache.get(n); ok && r.at == at {
			return r.object, nil
		}
	}
	o, err := read()
	switch {
	case err != nil:
	case o.Version == 0:
		s.missing.put(n, record{at, o})
	default:
		s.records.put(n, record{at, o})
	}
	return o, err
}

// cacheRecord caches the record that a change has stored at the log's head.
func (s *Objects) cacheRecord(o object.Object, head object.Head) {
	r := record{head.Cursor(), o}
	for _, key := range []string{string(o.ID), o.StorageKey()} {
		s.records.put(name{o.Org, key}, r)
		s.missing.remove(name{o.Org, key})
	}
}
