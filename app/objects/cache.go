package objects

import (
	"context"
	"time"

	"collab/app/cache"
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

// recordKey is the key of a record: the object's id or its storage key.
type recordKey struct {
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

func newRecords(most int) *cache.Cache[recordKey, record] {
	return cache.New(most, func(n recordKey, r record) int {
		o := r.object
		return entryOverhead + len(n.key) + len(o.Path) + len(o.Blob) + len(o.MimeType) + len(o.Checksum)
	})
}

func newContents() *cache.Cache[string, []byte] {
	return cache.New(maxContents, func(blob string, content []byte) int { return entryOverhead + len(blob) + len(content) })
}

// verification is when the checksum of content was right, and the state of its file then.
type verification struct {
	state string
	at    time.Time
}

func newVerified() *cache.Cache[string, verification] {
	return cache.New(maxVerified, func(blob string, v verification) int { return entryOverhead + len(blob) + len(v.state) })
}

// source is where objects are read from: the store through the cache, or a transaction,
// which does not use the cache as it may be rolled back.
type source struct {
	ports.Records
	cached bool
}

// findByKey is Objects.At of r. That there is no object is cached as the zero object, because clients read
// documents before anything is stored in them.
func (s *Objects) findByKey(ctx context.Context, r source, actor org.Actor, storageKey string) (object.Object, error) {
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
	n := recordKey{actor.Org, key}
	for _, records := range []*cache.Cache[recordKey, record]{s.records, s.missing} {
		if r, ok := records.Get(n); ok && r.at == at {
			return r.object, nil
		}
	}
	o, err := read()
	switch {
	case err != nil:
	case o.Version == 0:
		s.missing.Put(n, record{at, o})
	default:
		s.records.Put(n, record{at, o})
	}
	return o, err
}

// cacheRecord caches the record that a change has stored at the log's head.
func (s *Objects) cacheRecord(o object.Object, head object.Head) {
	r := record{head.Cursor(), o}
	for _, key := range []string{string(o.ID), o.StorageKey()} {
		s.records.Put(recordKey{o.Org, key}, r)
		s.missing.Remove(recordKey{o.Org, key})
	}
}
