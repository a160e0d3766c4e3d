// Package bucket keeps blobs in files, in memory, and in the object stores of
// Google, Amazon and Azure.
//
// All of them have the same keys (see key.go), so that a deployment moves from
// one to another with any tool that copies files. Object stores are reached
// through gocloud.dev/blob: Google's with its own client underneath, Amazon's and
// those that speak its protocol with a driver over minio-go (s3.go). Files are
// written here: gocloud's files are not on stable storage when it says so, and
// two writers of one name may both succeed.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/memblob"

	"collab/domain/fault"
	"collab/ports"
)

// Schemes are what addresses of stores begin with.
var Schemes = []string{"file://", "mem://", "gs://", "s3://", "azblob://"}

// patience is how long a store may take for one step, the client library's
// repetitions included: to begin an answer, to take or give a piece of content.
const patience = 30 * time.Second

// maxPrefix is the longest prefix in bytes; every name has a key with it.
const maxPrefix = 128

// Bucket is one store of blobs.
type Bucket struct {
	ports.Blobs
	close func() error
}

var _ ports.Blobs = (*Bucket)(nil)

// Open returns the store at the address:
//
//	file://dir, file:///dir               a folder, made where it is missing
//	mem://                                this process's memory
//	gs://bucket/prefix                    with Google's default credentials; those
//	                                      and the network are left alone when
//	                                      STORAGE_EMULATOR_HOST names an emulator
//	s3://bucket/prefix?region=…           with the parameters and credentials of openS3
//	azblob://container/prefix?domain=…    with the parameters and environment variables
//	                                      that gocloud.dev/blob/azureblob has
//
// The prefix may be missing. Open does not ask the store anything; Ready does.
// The store's credentials must allow to list: without that some stores say of
// what is not there that it is forbidden. Amazon keeps the parts of uploads whose
// server died until a lifecycle rule of the bucket removes them.
func Open(ctx context.Context, address string) (*Bucket, error) {
	return open(ctx, address, patience)
}

func open(ctx context.Context, address string, patience time.Duration) (*Bucket, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	switch scheme {
	case "file":
		if rest == "" {
			return nil, errors.New("file:// must be followed by a folder")
		}
		f, err := openFiles(rest)
		if err != nil {
			return nil, err
		}
		return &Bucket{f, func() error { return nil }}, nil
	case "mem":
		if rest != "" {
			return nil, errors.New("mem:// must not be followed by anything")
		}
		b := memblob.OpenBucket(nil)
		return &Bucket{&objects{bucket: b, patience: patience, chunk: 256 << 10, parts: 1}, b.Close}, nil
	case "gs", "s3", "azblob":
	default:
		return nil, fmt.Errorf("must begin with one of %s", strings.Join(Schemes, ", "))
	}

	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("must be %s://, the name of a bucket, and a prefix if need be", scheme)
	}
	o := &objects{patience: patience}
	if o.prefix = strings.Trim(u.Path, "/"); o.prefix != "" {
		if err := check(o.prefix); err != nil || len(o.prefix) > maxPrefix {
			return nil, fmt.Errorf("must have a prefix of at most %d bytes, without empty segments or dots for segments", maxPrefix)
		}
		o.prefix += "/"
	}
	u.Path, u.RawPath = "", ""
	// The clients go on using the context to renew their credentials.
	ctx = context.WithoutCancel(ctx)

	if scheme == "gs" {
		if u.RawQuery != "" {
			return nil, errors.New("gs:// takes no parameters")
		}
		// Twice the chunk is in memory: the library's own, and what is on its way.
		o.chunk, o.parts = 8<<20, 1
		client, err := storage.NewClient(ctx)
		if err != nil {
			return nil, err
		}
		if o.bucket, err = gcsblob.OpenBucket(ctx, nil, u.Host, &gcsblob.Options{Client: client}); err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return &Bucket{o, func() error { return errors.Join(o.bucket.Close(), client.Close()) }}, nil
	}
	// Two are in memory: one is on its way while the next is filled, or both are.
	o.chunk, o.parts = partSize, 2
	if scheme == "s3" {
		o.bucket, err = openS3(u.Host, u.Query())
	} else {
		o.bucket, err = blob.OpenBucket(ctx, u.String())
	}
	if err != nil {
		return nil, err
	}
	return &Bucket{o, o.bucket.Close}, nil
}

// Close ends the use of the store.
func (b *Bucket) Close() error { return b.close() }

// unavailable is the error for a store that cannot do its work now, whatever
// the reason.
func unavailable(cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "The object store does not answer")
}

// taken is the error for a name that has content.
func taken(cause error) error {
	return fault.Wrap(fault.Conflict, cause, "There is content under this name already")
}

// missing is the error for a name without content.
func missing(cause error) error {
	return fault.Wrap(fault.NotFound, cause, "Content not found")
}
