package bucket

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
)

// signer signs requests to the objects of one bucket. The addresses that it returns are valid
// for the lifetime, at least a second.
type signer interface {
	// signGet returns an address to read an object at, whose responses have these headers.
	signGet(ctx context.Context, key string, h responseHeaders, lifetime time.Duration) (string, error)
	// signPut returns the request that creates an object. It binds as much of the content's
	// size and checksum as the store can, and never overwrites.
	signPut(ctx context.Context, key string, u upload, c object.Content, lifetime time.Duration) (object.Address, error)
}

// responseHeaders are headers of a store's responses.
type responseHeaders struct{ mimeType, disposition, cacheControl string }

// parameters returns the headers as parameters of Amazon's and Google's addresses.
func (h responseHeaders) parameters() url.Values {
	return url.Values{
		"response-content-type": {h.mimeType}, "response-content-disposition": {h.disposition},
		"response-cache-control": {h.cacheControl},
	}
}

// addMetadata adds the metadata to the headers of a request.
func (u upload) addMetadata(headers map[string]string, prefix string) {
	for name, value := range u.metadata {
		headers[http.CanonicalHeaderKey(prefix+name)] = value
	}
}

// signed implements ports.SignedBlobs.
type signed struct {
	*objects
	signer signer
}

var _ ports.SignedBlobs = (*signed)(nil)

// Signed returns the signer of addresses of the store's blobs; nil if the store is not an object
// store, or has no credentials that can sign. Public is the origin at which clients reach the
// store; if it is empty, it is the one that the server uses.
func (b *Bucket) Signed(public string) (ports.SignedBlobs, error) {
	o, ok := b.Blobs.(*objects)
	if !ok {
		return nil, nil
	}
	client, ok := o.store.(interface {
		signer(public *url.URL) (signer, error)
	})
	if !ok {
		return nil, nil
	}
	var publicURL *url.URL
	if public != "" {
		var err error
		if publicURL, err = origin(public); err != nil {
			return nil, fmt.Errorf("the store's public address %w", err)
		}
	}
	signer, err := client.signer(publicURL)
	if signer == nil || err != nil {
		return nil, err
	}
	return &signed{o, signer}, nil
}

// withKey runs a step for the key of a name. It passes the name's metadata, which is nil unless
// the key is hashed.
func (o *objects) withKey(
	ctx context.Context, name string, step func(ctx context.Context, key string, metadata map[string]string) error,
) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	key, hashed := objectKey(o.prefix, name)
	var metadata map[string]string
	if hashed {
		metadata = map[string]string{metaName: encodedName(name)}
	}
	s := o.newSteps(ctx)
	defer s.end()
	return storeError(ctx, s.do(func() error { return step(s.ctx, key, metadata) }))
}

// SignGet signs an address for reading.
func (s *signed) SignGet(ctx context.Context, name, mimeType, disposition string, lifetime time.Duration) (address string, err error) {
	err = s.withKey(ctx, name, func(ctx context.Context, key string, _ map[string]string) error {
		address, err = s.signer.signGet(ctx, key, responseHeaders{mimeType, disposition, "no-store"}, lifetime)
		return err
	})
	return address, err
}

// SignPut signs a request that writes.
func (s *signed) SignPut(ctx context.Context, mimeType string, c object.Content, lifetime time.Duration) (a object.Address, err error) {
	err = s.withKey(ctx, c.Blob, func(ctx context.Context, key string, metadata map[string]string) error {
		a, err = s.signer.signPut(ctx, key, upload{mimeType: mimeType, metadata: metadata}, c, lifetime)
		return err
	})
	return a, err
}

// Stat asks the store. It fails with Invalid if the object is not what a request of SignPut
// creates: if it has a Content-Encoding, was not sent in one request, or lacks the name that
// belongs to a hashed key.
func (s *signed) Stat(ctx context.Context, name string) (size int64, checksum string, err error) {
	err = s.withKey(ctx, name, func(ctx context.Context, key string, metadata map[string]string) error {
		object, err := s.store.stat(ctx, key)
		size, checksum = object.size, object.checksum
		switch {
		case err != nil:
			return err
		case object.encoding != "":
			return fault.Field("content", "must be sent without a Content-Encoding")
		case object.notUploaded:
			return fault.Field("content", "must be sent in one request, and neither copied nor appended")
		case metadata != nil && object.metadata[metaName] != metadata[metaName]:
			return fault.Field("content", "must be sent with the headers of the upload")
		}
		return nil
	})
	return size, checksum, err
}
