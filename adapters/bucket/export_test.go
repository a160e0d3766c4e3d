package bucket

import (
	"net/http"
	"net/url"

	"collab/ports"
)

var (
	OpenWithin = open
	KeyOf      = keyOf
	NameOf     = nameOf
	ObjectKey  = objectKey
	Check      = checkName
)

// UseNamedFiles makes a file store write to named files in tempDir, as on file systems
// without O_TMPFILE.
func UseNamedFiles(b ports.Blobs) {
	b.(*Bucket).Blobs.(*files).unnamed = false
}

// SetPageSize sets the entries of a page of an object store's lists.
func SetPageSize(b ports.Blobs, size int) {
	b.(*Bucket).Blobs.(*objects).page = size
}

// OpenAzure opens a container with a transport.
func OpenAzure(name string, parameters url.Values, transport *http.Transport) (*Bucket, error) {
	s, err := openAzure(name, parameters, transport)
	if err != nil {
		return nil, err
	}
	return newBucket(&objects{store: s, stepTimeout: stepTimeout, chunk: partSize}), nil
}
