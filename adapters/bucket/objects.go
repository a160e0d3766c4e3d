package bucket

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"collab/domain/fault"
	"collab/ports"
)

// objects keeps blobs in an object store.
type objects struct {
	bucket   *blob.Bucket
	prefix   string // empty, or ends with a slash
	patience time.Duration

	// Content goes out in chunks of so many bytes, so many at once, and in shorter
	// ones where all of it is shorter.
	chunk, parts int
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

// failed turns an error of the store into one of the core. An error that the
// caller's context ended comes back as the context's.
func (o *objects) failed(ctx context.Context, err error) error {
	var known *fault.Error
	var google *googleapi.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return err
	case o.bucket.ErrorAs(err, &google) && google.Code == http.StatusForbidden:
		return unavailable(err) // which gocloud takes for nothing being there
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return missing(err)
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
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
	options := &blob.WriterOptions{
		ContentType: mimeType, IfNotExist: true, Metadata: map[string]string{metaWrite: write},
		BufferSize: o.bufferSize(size), MaxConcurrency: o.parts,
	}
	if hashed {
		options.Metadata[metaName] = base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	err := s.do(func() error { return o.bucket.Upload(s.ctx, key, sent{src, s}, options) })
	if src.err != nil {
		return src.err
	}
	err = o.failed(ctx, err)
	switch fault.KindOf(err) {
	case fault.NotFound: // of the bucket
		return unavailable(err)
	case fault.Conflict:
		// The store may have told us of the end of our own first attempt.
		var own bool
		lookup := s.do(func() error {
			attributes, err := o.bucket.Attributes(s.ctx, key)
			own = err == nil && attributes.Metadata[metaWrite] == write
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

// bufferSize returns the size of chunks for content of a size. A chunk of the
// content's size would not tell that nothing follows.
func (o *objects) bufferSize(size int64) int {
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
		r.part, err = o.bucket.NewRangeReader(s.ctx, key, offset, length, nil)
		if err == nil || s.ctx.Err() != nil || gcerrors.Code(err) == gcerrors.NotFound {
			return err
		}
		// A range after the end is an error to stores, and nothing to us.
		attributes, asked := o.bucket.Attributes(s.ctx, key)
		if asked == nil && offset >= attributes.Size {
			return nil
		}
		return err
	})
	if err != nil {
		err = o.failed(ctx, err)
		s.end()
		return nil, err
	}
	return r, nil
}

// objectReader reads an object, or nothing where it has no reader.
type objectReader struct {
	part   *blob.Reader // not embedded: its other methods know no steps
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
	err := o.failed(ctx, s.do(func() error { return o.bucket.Delete(s.ctx, key) }))
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
	pages := o.bucket.List(&blob.ListOptions{Prefix: o.prefix})
	for {
		var object *blob.ListObject
		err := s.do(func() (err error) {
			object, err = pages.Next(s.ctx)
			return err
		})
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unavailableUnless(ctx, err)
		}
		key, found := strings.CutPrefix(object.Key, o.prefix)
		if !found {
			continue
		}
		name, ok := nameOf(key)
		if isHashed(key) {
			err := s.do(func() error {
				name, err = o.hashedName(s.ctx, object.Key)
				return err
			})
			err = o.failed(ctx, err)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			ok = name != ""
		}
		if !ok {
			continue
		}
		if err := each(name, object.Size, object.ModTime); err != nil {
			return err
		}
	}
}

// hashedName returns the name that has a hashed key, empty if none has.
func (o *objects) hashedName(ctx context.Context, key string) (string, error) {
	attributes, err := o.bucket.Attributes(ctx, key)
	if err != nil {
		return "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(attributes.Metadata[metaName])
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
	err := s.do(func() error {
		_, _, err := o.bucket.ListPage(s.ctx, blob.FirstPageToken, 1, &blob.ListOptions{Prefix: o.prefix})
		return err
	})
	if err != nil {
		return unavailableUnless(ctx, err)
	}
	return nil
}
