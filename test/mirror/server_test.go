package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing/iotest"

	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// server is a place of the core in memory, without an interface before it.
type server struct {
	core  *harness.Deployment
	actor org.Actor
	epoch int64 // how often the log was restored from a copy
}

// remote is the server as one client reaches it.
type remote struct {
	*server
	batches int
	// before is called with each request. It may fail it before it has an effect, or, with lost,
	// have its response lost.
	before func(call string) (lost bool, err error)
	// delay gets changes whose responses are lost, to make them later; they are made at once if it is nil.
	delay    func(change func())
	sends    func(path, checksum string) // is called before an upload or a move; nil for nobody
	deletes  func(of id.Object)          // is called before a deletion; nil for nobody
	deleted  []mirror.Record             // by a client, of which the id and the version are known
	requests atomic.Int64
	readOnly bool
	sight    sight
	resync   bool // the client has to read the whole manifest
}

// sight is what a member has access to.
type sight uint8

const (
	whole   sight = iota
	nothing       // all objects are hidden
	none          // the membership has ended
)

var errNone = fault.New(fault.Forbidden, "no member")

var (
	_ ports.Remote       = (*remote)(nil)
	_ ports.RemoteWriter = (*remote)(nil)
)

var shared = object.Filter{Kind: object.Artifact, Scope: object.Shared, WithoutWorkspace: true}

func recordOf(o object.Object) mirror.Record {
	return mirror.Record{ID: o.ID, Path: o.Path, Version: o.Version, Checksum: o.Checksum, Size: o.Size}
}

func (s *server) acting(ctx context.Context) (org.Actor, error) {
	return s.core.Actor(ctx, s.actor.Org, s.actor.User)
}

func (s *server) cursor(h object.Head) object.Cursor {
	c := h.Cursor()
	c.Epoch += s.epoch
	return c
}

func (s *server) list(ctx context.Context, each func(mirror.Record) error) (now object.Cursor, err error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return now, err
	}
	return now, s.core.Objects.List(ctx, actor, shared, func(h object.Head) error {
		now = s.cursor(h)
		return nil
	}, func(o object.Object) error { return each(recordOf(o)) })
}

func (s *server) create(ctx context.Context, path string, content io.Reader, size int64, checksum string) (mirror.Record, error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return mirror.Record{}, err
	}
	o, err := s.core.Objects.Create(ctx, actor, object.Draft{Path: path, Kind: object.Artifact, Scope: object.Shared}, &objects.Upload{Content: content, Size: size, Checksum: checksum})
	return recordOf(o), err
}

func (s *server) replace(ctx context.Context, r mirror.Record, content io.Reader, size int64, checksum string) (mirror.Record, error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return mirror.Record{}, err
	}
	o, err := s.core.Objects.Replace(ctx, actor, r.ID, &objects.Upload{Content: content, Size: size, Checksum: checksum, Expected: &r.Version})
	return recordOf(o), err
}

func (s *server) delete(ctx context.Context, r mirror.Record) error {
	actor, err := s.acting(ctx)
	if err != nil {
		return err
	}
	return s.core.Objects.Delete(ctx, actor, r.ID, &r.Version)
}

func (s *server) move(ctx context.Context, r mirror.Record, path string) (mirror.Record, error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return mirror.Record{}, err
	}
	o, err := s.core.Objects.Move(ctx, actor, r.ID, path, &r.Version)
	return recordOf(o), err
}

func (r *remote) call(call string) (lost bool, err error) {
	r.requests.Add(1)
	if r.sight == none {
		return false, errNone
	}
	return r.before(call)
}

// readBytes is the most bytes of files that are downloaded together.
const readBytes = 1 << 10

func (r *remote) Limits(context.Context) (mirror.Limits, error) {
	return mirror.Limits{
		ReadOnly: r.readOnly,
		MaxFile:  harness.MaxSize, BatchFiles: r.batches, BatchBytes: 1 << 20, BatchFileSize: 1 << 10,
		ReadFiles: r.batches, ReadBytes: readBytes, ReadFileSize: 1 << 8,
	}, nil
}

func (r *remote) Manifest(ctx context.Context, each func(mirror.Record) error) (object.Cursor, error) {
	if _, err := r.call("manifest"); err != nil {
		return object.Cursor{}, err
	}
	if r.resync = r.sight == nothing; r.resync {
		return r.list(ctx, func(mirror.Record) error { return nil })
	}
	return r.list(ctx, each)
}

func (r *remote) Since(ctx context.Context, from object.Cursor, each func(mirror.Record) error) (now object.Cursor, err error) {
	if _, err := r.call("since"); err != nil {
		return now, err
	}
	if from.Epoch -= r.epoch; from.Epoch != 1 || r.sight == nothing || r.resync {
		return now, fault.New(fault.Gone, "the log was restored, or the member sees other objects")
	}
	actor, err := r.acting(ctx)
	if err != nil {
		return now, err
	}
	return now, r.core.Objects.Since(ctx, actor, from, func(h object.Head) error {
		now = r.cursor(h)
		return nil
	}, func(c object.Change) error {
		record := recordOf(c.Object)
		record.Deleted = c.Type == object.Deleted
		return each(record)
	})
}

func (r *remote) Watch(context.Context, object.Cursor, func()) error { return nil }

func (r *remote) Download(ctx context.Context, record mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	lost, err := r.call("download")
	if err != nil && !lost {
		return mirror.Record{}, nil, err
	}
	actor, actErr := r.acting(ctx)
	if actErr != nil {
		return mirror.Record{}, nil, actErr
	}
	o, getErr := r.core.Objects.Get(ctx, actor, record.ID)
	if getErr != nil {
		return mirror.Record{}, nil, getErr
	}
	if o.Checksum != record.Checksum {
		offset = 0
	}
	content, openErr := r.core.Objects.Open(ctx, o, offset, -1)
	if lost { // in its middle
		content = cut{io.MultiReader(io.LimitReader(content, (o.Size-offset)/2), iotest.ErrReader(err)), content}
	}
	return recordOf(o), content, openErr
}

func (r *remote) DownloadAll(ctx context.Context, records []mirror.Record, each func(i int, content []byte, err error) error) error {
	lost, cause := r.call("download all")
	if cause != nil && !lost {
		return cause
	}
	actor, err := r.acting(ctx)
	if err != nil {
		return err
	}
	wanted := make([]objects.Wanted, len(records))
	for i, record := range records {
		wanted[i] = objects.Wanted{Object: record.ID, Expected: &record.Version}
	}
	outcomes, err := r.core.Objects.Select(ctx, actor, wanted)
	if err != nil {
		return err
	}
	contents, err := r.core.Objects.Contents(ctx, outcomes, make([]byte, readBytes))
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		if lost && i == len(outcomes)/2 {
			return cause
		}
		if o.Err == nil && o.Object.Checksum != records[i].Checksum {
			o.Err = fault.New(fault.Conflict, "the server was restored")
		}
		if err := each(i, contents[i], o.Err); err != nil {
			return err
		}
	}
	return nil
}

// cut is content that breaks off.
type cut struct {
	io.Reader
	io.Closer
}

// change makes a change of the server, unless its request is lost.
func change[T any](r *remote, call string, do func(lost bool) (T, error)) (T, error) {
	var none T
	lost, cause := r.call(call)
	if cause != nil && !lost {
		return none, cause
	}
	if cause != nil && r.delay != nil {
		r.delay(func() { _, _ = do(lost) })
		return none, cause
	}
	made, err := do(lost)
	if lost && err == nil {
		return none, cause
	}
	return made, err
}

func (r *remote) sending(path, checksum string) {
	if r.sends != nil {
		r.sends(path, checksum)
	}
}

func (r *remote) Create(ctx context.Context, path, checksum string, size int64, content io.Reader) (mirror.Record, error) {
	received, err := io.ReadAll(content)
	if err != nil {
		return mirror.Record{}, err
	}
	r.sending(path, checksum)
	return change(r, "create", func(bool) (mirror.Record, error) {
		return r.create(ctx, path, bytes.NewReader(received), size, checksum)
	})
}

func (r *remote) Replace(ctx context.Context, of mirror.Record, checksum string, size int64, content io.Reader) (mirror.Record, error) {
	received, err := io.ReadAll(content)
	if err != nil {
		return mirror.Record{}, err
	}
	r.sending(of.Path, checksum)
	return change(r, "replace", func(bool) (mirror.Record, error) {
		return r.replace(ctx, of, bytes.NewReader(received), size, checksum)
	})
}

func (r *remote) Delete(ctx context.Context, of mirror.Record) error {
	r.deleting(of.ID)
	return must.ErrorOf(change(r, "delete", func(bool) (bool, error) { return true, r.remove(ctx, of) }))
}

func (r *remote) deleting(of id.Object) {
	if r.deletes != nil {
		r.deletes(of)
	}
}

// remove is a client's deletion.
func (r *remote) remove(ctx context.Context, of mirror.Record) error {
	err := r.delete(ctx, of)
	if err == nil {
		r.deleted = append(r.deleted, of)
	}
	return err
}

// version returns the checksum of a version, which must have its content.
func (s *server) version(ctx context.Context, of mirror.Record) (string, error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return "", err
	}
	o, err := s.core.Objects.Version(ctx, actor, of.ID, of.Version)
	if err != nil {
		return "", err
	}
	content, err := s.core.Objects.Open(ctx, o, 0, -1)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(content)
	return must.Sum(string(text)), errors.Join(err, content.Close())
}

// restore restores a deleted file under another path.
func (s *server) restore(ctx context.Context, of mirror.Record, path string) (mirror.Record, error) {
	actor, err := s.acting(ctx)
	if err != nil {
		return mirror.Record{}, err
	}
	o, err := s.core.Objects.RestoreVersion(ctx, actor, of.ID, objects.Restoration{Path: &path})
	return recordOf(o), err
}

func (r *remote) Move(ctx context.Context, of mirror.Record, path string) (mirror.Record, error) {
	r.sending(path, of.Checksum)
	return change(r, "move", func(bool) (mirror.Record, error) { return r.move(ctx, of, path) })
}

func (r *remote) MoveDirectory(ctx context.Context, from, to string) error {
	_, err := r.list(ctx, func(record mirror.Record) error {
		if strings.HasPrefix(record.Path, from+"/") {
			r.sending(record.Path, record.Checksum)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = change(r, "move directory", func(bool) (bool, error) {
		actor, err := r.acting(ctx)
		if err == nil {
			_, _, err = r.core.Objects.MoveFolder(ctx, actor, object.Draft{Kind: object.Artifact, Scope: object.Shared}, from, to)
		}
		return true, err
	})
	return err
}

func (r *remote) Batch(ctx context.Context, writes []mirror.Write) ([]mirror.Result, error) {
	for _, w := range writes {
		if w.Delete {
			r.deleting(w.ID)
			continue
		}
		r.sending(w.Path, w.Checksum)
	}
	return change(r, "batch", func(lost bool) (results []mirror.Result, err error) {
		for i, w := range writes {
			if lost && i > len(writes)/2 {
				break
			}
			var result mirror.Result
			of := mirror.Record{ID: w.ID, Version: w.Version}
			switch {
			case w.Delete:
				result.Err = r.remove(ctx, of)
			case w.Move:
				result.Record, result.Err = r.move(ctx, of, w.Path)
			case w.ID == "":
				result.Record, result.Err = r.create(ctx, w.Path, bytes.NewReader(w.Content), int64(len(w.Content)), w.Checksum)
			default:
				result.Record, result.Err = r.replace(ctx, of, bytes.NewReader(w.Content), int64(len(w.Content)), w.Checksum)
			}
			results = append(results, result)
		}
		return results, nil
	})
}
