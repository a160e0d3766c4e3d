package bucket

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
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

// store is the client of one bucket. Its errors are those of the client library, which
// httpError reads, or of package fault.
type store interface {
	// put writes r as a new object. If r fails, which also cancels ctx, it writes none.
	put(ctx context.Context, key string, r io.Reader, u upload) error
	// memory returns how many bytes of content of a size, which is at least a chunk, put has in
	// memory at once.
	memory(size int64, chunk int) int64
	// open reads length bytes from offset on. A negative length reads to the end; zero is
	// not valid.
	open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// stat describes an object.
	stat(ctx context.Context, key string) (stat, error)
	// remove deletes an object; it may fail with NotFound.
	remove(ctx context.Context, key string) error
	// list yields the objects below the prefix, requested in pages of page entries. It
	// ends after an error.
	list(ctx context.Context, prefix string, page int) iter.Seq2[entry, error]
	close() error
}

// upload describes an object to write.
type upload struct {
	mimeType string
	metadata map[string]string // names are in lower case
	chunk    int               // bytes of a request
}

// stat has the properties of an object in a store.
type stat struct {
	metadata    map[string]string // that was uploaded with it, names in lower case
	size        int64
	checksum    string // SHA-256 of the content in hexadecimal; empty if the store does not know it
	encoding    string // the Content-Encoding; empty if there is none
	notUploaded bool   // the store copied the content or appends to it; it did not receive it in one request
}

// entry is an object in a list.
type entry struct {
	key     string
	size    int64
	written time.Time
}

// objects keeps blobs in an object store.
type objects struct {
	store       store
	prefix      string // empty, or ends with a slash
	stepTimeout time.Duration
	chunk       int // the most bytes of a request
	page        int // entries of a page of a list
}

var _ ports.Blobs = (*objects)(nil)

// Metadata of objects.
const (
	metaName  = "name"  // of those with hashed keys, in base64
	metaWrite = "write" // random, of the Put that wrote it
)

// steps limits the time of each step of the store. The time between steps, such as
// waiting for content to send, does not count.
type steps struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

var errTimeout = errors.New("no answer in time")

func (o *objects) newSteps(ctx context.Context) *steps {
	s := &steps{timeout: o.stepTimeout}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.timer = time.AfterFunc(o.stepTimeout, func() { s.cancel(errTimeout) })
	s.timer.Stop()
	return s
}

// do runs a step. It returns errTimeout if the timeout has cancelled the step, and not context.Canceled, which
// would mean that the caller has.
func (s *steps) do(step func() error) error {
	s.timer.Reset(s.timeout)
	defer s.timer.Stop()
	err := step()
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(s.ctx), errTimeout) {
		return fmt.Errorf("%w: %v", errTimeout, err)
	}
	return err
}

func (s *steps) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// uploadReader is the content of a Put for the store's client. It stops the timer while it
// waits for content. It cancels the upload if the content fails, because some clients take
// an error for the end.
type uploadReader struct {
	*source
	steps *steps
}

func (r uploadReader) Read(p []byte) (int, error) {
	r.steps.timer.Stop()
	defer r.steps.timer.Reset(r.steps.timeout)
	n, err := r.source.Read(p)
	if r.source.err != nil {
		r.steps.cancel(r.source.err)
	}
	return n, err
}

// httpError returns the HTTP status and the error code of a store's response; zero if err
// is not one.
func httpError(err error) (status int, code string) {
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

// Status returns the HTTP status of an object store's error response; zero for other errors.
func Status(err error) int {
	status, _ := httpError(err)
	return status
}

// conflicts are the error codes of Google, Amazon and Azure for a key that has an object.
var conflicts = []string{"Precondition Failed", minio.PreconditionFailed, "ConditionalRequestConflict", "ConditionNotMet", "BlobAlreadyExists"}

// storeError maps an error of the store to one of package fault. It returns the context's
// error if the context has ended.
func storeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, mapped := errors.AsType[*fault.Error](err); mapped {
		return err
	}
	switch status, code := httpError(err); {
	case status == http.StatusNotFound:
		return notFound(err)
	case slices.Contains(conflicts, code):
		return conflict(err)
	}
	return unavailable(err)
}

// Put sends content in chunks. The object exists after the last.
func (o *objects) Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error {
	if err := checkPut(ctx, name, mimeType); err != nil {
		return err
	}
	if mimeType == "" {
		mimeType = "application/octet-stream"
	}
	s := o.newSteps(ctx)
	defer s.end()
	src := &source{ctx: ctx, r: r}
	key, hashed := objectKey(o.prefix, name)
	write := rand.Text()
	u := upload{mimeType, map[string]string{metaWrite: write}, o.chunkSize(size)}
	if hashed {
		u.metadata[metaName] = encodedName(name)
	}
	err := s.do(func() error { return o.store.put(s.ctx, key, uploadReader{src, s}, u) })
	if src.err != nil {
		return src.err
	}
	err = storeError(ctx, err)
	switch kind := fault.KindOf(err); kind {
	case fault.Conflict, fault.NotFound:
		// The client library may have retried a request that the store completed.
		var own bool
		lookup := s.do(func() error {
			object, err := o.store.stat(s.ctx, key)
			own = err == nil && object.metadata[metaWrite] == write
			return err
		})
		switch {
		case own:
			return nil
		case kind == fault.NotFound: // the bucket, or the parts of an upload
			return unavailableUnless(ctx, err)
		case lookup != nil:
			return unavailableUnless(ctx, lookup)
		}
	}
	return err
}

// PutMemory returns the size of the chunks that are in memory at once.
func (o *objects) PutMemory(size int64) int64 {
	chunk := o.chunkSize(size)
	if size < int64(chunk) {
		return int64(chunk)
	}
	return o.store.memory(size, chunk)
}

// chunkSize returns the chunk size for content of a size. It is more than that size, so
// that the first chunk ends with io.EOF.
func (o *objects) chunkSize(size int64) int {
	const step = 256 << 10 // Google requires multiples of it
	if size < 0 || size >= int64(o.chunk) {
		return o.chunk
	}
	return min(o.chunk, (int(size)/step+1)*step)
}

// Open reads an object.
func (o *objects) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := checkOpen(ctx, name, offset); err != nil {
		return nil, err
	}
	if length > math.MaxInt64-offset {
		length = -1 // client libraries add offset and length
	}
	key, _ := objectKey(o.prefix, name)
	s := o.newSteps(ctx)
	r := &objectReader{steps: s, ctx: ctx}
	err := s.do(func() (err error) {
		if length == 0 { // HTTP has no empty range
			_, err = o.store.stat(s.ctx, key)
			return err
		}
		part, err := o.store.open(s.ctx, key, offset, length)
		if err == nil {
			r.part = part
		} else if Status(err) == http.StatusRequestedRangeNotSatisfiable {
			return nil // the offset is not before the end
		}
		return err
	})
	if err != nil {
		err = storeError(ctx, err)
		s.end()
		return nil, err
	}
	return r, nil
}

// objectReader reads a part of an object.
type objectReader struct {
	part  io.ReadCloser // nil: an empty part; not embedded, because WriteTo would bypass steps
	steps *steps
	ctx   context.Context
}

func (r *objectReader) Read(p []byte) (n int, err error) {
	if err := r.ctx.Err(); err != nil {
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
		err = unavailableUnless(r.ctx, err)
	}
	return n, err
}

// unavailableUnless returns the context's error if it has ended, else unavailable(err).
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
	err := o.withKey(ctx, name, func(ctx context.Context, key string, _ map[string]string) error {
		return o.store.remove(ctx, key)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// List reads the store's list page by page. It skips objects that are not blobs.
func (o *objects) List(ctx context.Context, each func(name string, size int64, written time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := o.newSteps(ctx)
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
		name, ok := NameOf(key)
		if isHashed(key) {
			err := s.do(func() error {
				name, err = o.hashedName(s.ctx, object.key)
				return err
			})
			err = storeError(ctx, err)
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

// encodedName is a name as it is in metadata.
func encodedName(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// hashedName returns the name in the metadata of an object with a hashed key; empty if it is
// not the name of the key.
func (o *objects) hashedName(ctx context.Context, key string) (string, error) {
	object, err := o.store.stat(ctx, key)
	if err != nil {
		return "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(object.metadata[metaName])
	if err != nil || checkName(string(name)) != nil {
		return "", nil
	}
	if own, hashed := objectKey(o.prefix, string(name)); !hashed || own != key {
		return "", nil
	}
	return string(name), nil
}

// Ready lists one object. It returns an error also if the bucket does not exist.
func (o *objects) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := o.newSteps(ctx)
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
