package bucket

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/minio/minio-go/v7"
	"google.golang.org/api/googleapi"

	"collab/domain/fault"
	"collab/ports"
)

// store is the client of one bucket. Its errors are the client library's, which refusal
// understands, or of the core.
type store interface {
	// put writes all of r as an object that was not there. It writes nothing where r
	// fails, which ends ctx.
	put(ctx context.Context, key string, r io.Reader, u upload) error
	// open reads length bytes, at least one, from offset on; all where length is negative.
	open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// metadata returns what was uploaded with an object.
	metadata(ctx context.Context, key string) (map[string]string, error)
	// remove deletes an object; it may fail with NotFound.
	remove(ctx context.Context, key string) error
	// list yields the objects below the prefix, for which it asks in pages of a size. An
	// error is the last.
	list(ctx context.Context, prefix string, page int) iter.Seq2[entry, error]
	close() error
}

// upload describes an object to write.
type upload struct {
	mimeType string
	metadata map[string]string // names are in lower case
	chunk    int               // bytes that go out together
}

// entry is an object in a list.
type entry struct {
	key     string
	size    int64
	written time.Time
}

// objects keeps blobs in an object store.
type objects struct {
	store    store
	prefix   string // empty, or ends with a slash
	patience time.Duration
	chunk    int // the most bytes that go out together
	page     int // entries of a list that the store is asked for at once
}

var _ ports.Blobs = (*objects)(nil)

// Metadata of objects.
const (
	metaName  = "name"  // of those with hashed keys, in base64
	metaWrite = "write" // random, of the Put that wrote it
)

// steps bounds the time of each step that the store takes. What is between
// them, such as waiting for content to send, is not the store's.
type steps struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	within time.Duration
}

var errLate = errors.New("no answer in time")

func (o *objects) steps(ctx context.Context) *steps {
	s := &steps{within: o.patience}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.timer = time.AfterFunc(o.patience, func() { s.cancel(errLate) })
	s.timer.Stop()
	return s
}

func (s *steps) do(step func() error) error {
	s.timer.Reset(s.within)
	defer s.timer.Stop()
	return step()
}

// sent is the content of a Put, which the store's client reads. While it waits
// for content, the store has time. What does not come to its end is given up:
// some clients take an error for the end otherwise.
type sent struct {
	*source
	steps *steps
}

func (r sent) Read(p []byte) (int, error) {
	r.steps.timer.Stop()
	defer r.steps.timer.Reset(r.steps.within)
	n, err := r.source.Read(p)
	if r.source.err != nil {
		r.steps.cancel(r.source.err)
	}
	return n, err
}

func (s *steps) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// refusal returns the HTTP status that an object store refused with, and its name for
// the reason; zero when it did not answer.
func refusal(err error) (status int, reason string) {
	if errors.Is(err, storage.ErrObjectNotExist) {
		return http.StatusNotFound, ""
	}
	if google, ok := errors.AsType[*googleapi.Error](err); ok {
		return google.Code, http.StatusText(google.Code)
	}
	if amazon, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return amazon.StatusCode, amazon.Code
	}
	if azure, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return azure.StatusCode, azure.ErrorCode
	}
	return 0, ""
}

// Status returns the HTTP status that an object store refused with, as far as
// an error tells; zero when it did not answer, or is none of the kind.
func Status(err error) int {
	status, _ := refusal(err)
	return status
}

// conflicts are the reasons of Google, Amazon and Azure that a key has an object.
var conflicts = []string{"Precondition Failed", minio.PreconditionFailed, "ConditionalRequestConflict", "ConditionNotMet", "BlobAlreadyExists"}

// failed turns an error of the store into one of the core. An error that the
// caller's context ended comes back as the context's.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, known := errors.AsType[*fault.Error](err); known {
		return err
	}
	switch status, reason := refusal(err); {
	case status == http.StatusNotFound:
		return missing(err)
	case slices.Contains(conflicts, reason):
		return taken(err)
	}
	return unavailable(err)
}

// Put sends content in chunks; the store shows it when all of it has come.
func (o *objects) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	if err := begun(ctx, name); err != nil {
		return err
	}
	if err := checkType(mimeType); err != nil {
		return err
	}
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}
	s := o.steps(ctx)
	defer s.end()
	src := &source{ctx: ctx, r: r}
	key, hashed := objectKey(o.prefix, name)
	write := rand.Text()
	u := upload{mimeType, map[string]string{metaWrite: write}, o.chunkSize(size)}
	if hashed {
		u.metadata[metaName] = base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	err := s.do(func() error { return o.store.put(s.ctx, key, sent{src, s}, u) })
	if src.err != nil {
		return src.err
	}
	err = failed(ctx, err)
	switch fault.KindOf(err) {
	case fault.NotFound: // of the bucket
		return unavailable(err)
	case fault.Conflict:
		// The store may have told us of the end of our own first attempt.
		var own bool
		lookup := s.do(func() error {
			metadata, err := o.store.metadata(s.ctx, key)
			own = err == nil && metadata[metaWrite] == write
			return err
		})
		if own {
			return nil
		}
		if lookup != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}

// chunkSize returns the size of chunks for content of a size. A chunk of the
// content's size would not tell that nothing follows.
func (o *objects) chunkSize(size int64) int {
	const step = 256 << 10 // Google's
	if size < 0 || size >= int64(o.chunk) {
		return o.chunk
	}
	return min(o.chunk, (int(size)/step+1)*step)
}

// Open reads an object.
func (o *objects) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := begun(ctx, name); err != nil {
		return nil, err
	}
	if offset < 0 {
		return nil, fault.Field("offset", "must not be negative")
	}
	if length > math.MaxInt64-offset {
		length = -1 // clients of stores add both
	}
	key, _ := objectKey(o.prefix, name)
	s := o.steps(ctx)
	r := &objectReader{steps: s, caller: ctx}
	err := s.do(func() (err error) {
		if length == 0 { // a range that the protocols do not have
			_, err = o.store.metadata(s.ctx, key)
			return err
		}
		part, err := o.store.open(s.ctx, key, offset, length)
		if err == nil {
			r.part = part
		} else if Status(err) == http.StatusRequestedRangeNotSatisfiable {
			return nil // it begins at the end or after it
		}
		return err
	})
	if err != nil {
		err = failed(ctx, err)
		s.end()
		return nil, err
	}
	return r, nil
}

// objectReader reads an object, or nothing where it has no reader.
type objectReader struct {
	part   io.ReadCloser // not embedded: its other methods know no steps
	steps  *steps
	caller context.Context
}

func (r *objectReader) Read(p []byte) (n int, err error) {
	if err := r.caller.Err(); err != nil {
		return 0, err
	}
	if r.part == nil {
		return 0, io.EOF
	}
	err = r.steps.do(func() error {
		n, err = r.part.Read(p)
		return err
	})
	if err != nil && err != io.EOF {
		err = unavailableUnless(r.caller, err)
	}
	return n, err
}

// unavailableUnless returns the context's error where it has ended.
func unavailableUnless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return unavailable(err)
}

func (r *objectReader) Close() error {
	defer r.steps.end()
	if r.part == nil {
		return nil
	}
	return r.part.Close()
}

// Remove deletes an object.
func (o *objects) Remove(ctx context.Context, name string) error {
	if err := begun(ctx, name); err != nil {
		return err
	}
	key, _ := objectKey(o.prefix, name)
	s := o.steps(ctx)
	defer s.end()
	err := failed(ctx, s.do(func() error { return o.store.remove(s.ctx, key) }))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// List reads the store's list page by page. Objects that are no blobs are
// passed over.
func (o *objects) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := o.steps(ctx)
	defer s.end()
	next, stop := iter.Pull2(o.store.list(s.ctx, o.prefix, o.page))
	defer stop()
	for {
		var object entry
		more := false
		err := s.do(func() (err error) {
			object, err, more = next()
			return err
		})
		if err != nil {
			return unavailableUnless(ctx, err)
		}
		if !more {
			return nil
		}
		key, found := strings.CutPrefix(object.key, o.prefix)
		if !found {
			continue
		}
		name, ok := nameOf(key)
		if isHashed(key) {
			err := s.do(func() error {
				name, err = o.hashedName(s.ctx, object.key)
				return err
			})
			err = failed(ctx, err)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			ok = name != ""
		}
		if !ok {
			continue
		}
		if err := each(name, object.size, object.written); err != nil {
			return err
		}
	}
}

// hashedName returns the name that has a hashed key, empty if none has.
func (o *objects) hashedName(ctx context.Context, key string) (string, error) {
	metadata, err := o.store.metadata(ctx, key)
	if err != nil {
		return "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(metadata[metaName])
	if err != nil || check(string(name)) != nil {
		return "", nil
	}
	if own, hashed := objectKey(o.prefix, string(name)); !hashed || own != key {
		return "", nil
	}
	return string(name), nil
}

// Ready asks for the beginning of the list, which tells of a bucket that is
// not there as well.
func (o *objects) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := o.steps(ctx)
	defer s.end()
	err := s.do(func() (err error) {
		for _, err = range o.store.list(s.ctx, o.prefix, 1) {
			break
		}
		return err
	})
	if err != nil {
		return unavailableUnless(ctx, err)
	}
	return nil
}
