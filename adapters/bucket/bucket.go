// Package bucket keeps blobs in files, in memory, and in the object stores of
// Google, Amazon and Azure.
//
// All of them have the same keys (see key.go), so that a deployment moves from
// one to another with any tool that copies files. What object stores have in common
// is in objects.go; the clients of each are behind its interface store.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

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
//	                                      of openAzure
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
		return newBucket(&objects{store: &inMemory{objects: map[string]memoryObject{}}, patience: patience}), nil
	case "gs", "s3", "azblob":
	default:
		return nil, fmt.Errorf("must begin with one of %s", strings.Join(Schemes, ", "))
	}

	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("must be %s://, the name of a bucket, and a prefix if need be", scheme)
	}
	// Two are in memory: one is on its way while the next is filled, or both are.
	o := &objects{patience: patience, chunk: partSize, page: 1000}
	if o.prefix = strings.Trim(u.Path, "/"); o.prefix != "" {
		if err := check(o.prefix); err != nil || len(o.prefix) > maxPrefix {
			return nil, fmt.Errorf("must have a prefix of at most %d bytes, without empty segments or dots for segments", maxPrefix)
		}
		if scheme == "azblob" && strings.ContainsAny(o.prefix, `"#%?\`) {
			return nil, errors.New("must have a prefix without quotes, #, %, ? and backslashes")
		}
		// gocloud.dev, which wrote the content of older deployments, had another key for these.
		if o.prefix += "/"; scheme != "s3" && strings.Contains(o.prefix, "../") {
			return nil, errors.New("must have a prefix without segments that end in two dots")
		}
	}
	switch scheme {
	case "gs":
		if u.RawQuery != "" {
			return nil, errors.New("gs:// takes no parameters")
		}
		o.chunk = 8 << 20
		// The client goes on using the context to renew its credentials.
		o.store, err = openGoogle(context.WithoutCancel(ctx), u.Host)
	case "s3":
		o.store, err = openS3(u.Host, u.Query())
	case "azblob":
		o.store, err = openAzure(u.Host, u.Query(), http.DefaultTransport.(*http.Transport).Clone())
	}
	if err != nil {
		return nil, err
	}
	return newBucket(o), nil
}

func newBucket(o *objects) *Bucket { return &Bucket{o, o.store.close} }

// allow returns an error for parameters of an address that are not allowed, and for
// repeated ones.
func allow(scheme string, parameters url.Values, allowed ...string) error {
	for parameter, values := range parameters {
		if !slices.Contains(allowed, parameter) || len(values) > 1 {
			return fmt.Errorf("%s:// takes the parameters %s, each once, and not %q", scheme, strings.Join(allowed, ", "), parameter)
		}
	}
	return nil
}

// origin returns the address of a host, which must have nothing but http or https
// before it.
func origin(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("must be https:// or http:// and a host")
	}
	return u, nil
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
