package bucket

import (
	"net/http"
	"net/url"

	"collab/ports"
)

// What tests look at from outside.
var (
	OpenWithin = open
	KeyOf      = keyOf
	NameOf     = nameOf
	ObjectKey  = objectKey
	Check      = check
)

// Named makes a store in files give what it writes a name aside, as on file
// systems that know no other way.
func Named(b ports.Blobs) {
	b.(*Bucket).Blobs.(*files).nameless = false
}

// Paged has lists of an object store read in pages of a size.
func Paged(b ports.Blobs, size int) {
	b.(*Bucket).Blobs.(*objects).page = size
}

// OpenAzure opens a container through a transport.
func OpenAzure(name string, parameters url.Values, transport *http.Transport) (*Bucket, error) {
	s, err := openAzure(name, parameters, transport)
	if err != nil {
		return nil, err
	}
	return newBucket(&objects{store: s, patience: patience, chunk: partSize}), nil
}
