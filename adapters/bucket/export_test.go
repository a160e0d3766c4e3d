package bucket

import (
	"net/http"
	"net/url"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"collab/adapters/syncfs"
	"collab/ports"
)

var (
	OpenWithin         = open
	ObjectKey          = objectKey
	Check              = checkName
	PartSizeOf         = partSizeOf
	SignWithDelegation = signWithDelegation
)

// SetPartSizes sets the sizes of the parts of uploads to Amazon after the first.
func SetPartSizes(b ports.Blobs, of func(number int) int) {
	b.(*Bucket).Blobs.(*objects).store.(*s3).partSizeOf = of
}

// OnSync makes a file store call sync to sync a file, as on a file system where that
// makes links durable or on another, neither of which is synced as a whole.
func OnSync(b ports.Blobs, ordered bool, sync func(*os.File) error) {
	f := b.(*Bucket).Blobs.(*files)
	f.ordered, f.syncFile, f.fileSystem = ordered, sync, nil
}

// OnSyncAll makes a file store call sync to sync its file system.
func OnSyncAll(b ports.Blobs, sync func() error) {
	b.(*Bucket).Blobs.(*files).fileSystem = syncfs.New(sync)
}

// UseNamedFiles makes a file store write to named files in tempDir, as on file systems
// without O_TMPFILE.
func UseNamedFiles(b ports.Blobs) {
	f := b.(*Bucket).Blobs.(*files)
	f.unnamed, f.ordered = false, false
}

// SetPageSize sets the entries of a page of an object store's lists.
func SetPageSize(b ports.Blobs, size int) {
	b.(*Bucket).Blobs.(*objects).page = size
}

// StatOnly returns the store's SignedBlobs without a signer.
func StatOnly(b *Bucket) ports.SignedBlobs { return &signed{b.Blobs.(*objects), nil} }

// NewEntra returns the credential that the environment configures.
func NewEntra(client http.Client) (azcore.TokenCredential, error) {
	return newEntra(&redactingClient{client})
}

// OpenAzure opens a container with a transport.
func OpenAzure(name string, parameters url.Values, transport *http.Transport) (*Bucket, error) {
	s, err := openAzure(name, parameters, transport)
	if err != nil {
		return nil, err
	}
	return newBucket(&objects{store: s, stepTimeout: stepTimeout, chunk: partSize}), nil
}
