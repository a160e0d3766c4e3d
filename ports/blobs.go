package ports

import (
	"context"
	"io"
	"time"

	"collab/domain/object"
)

// Blobs stores content under names. A name is written once, and its content never changes.
// Names are object.Blob.Name's: relative, at most 1,024 bytes, 255 between slashes. Methods
// fail with Unavailable if the store does not answer.
type Blobs interface {
	// Put writes all of r under the name. When it returns nil, the content is on stable
	// storage and visible to every reader. When it fails, either nothing or the whole
	// content is stored; an error of r is returned unchanged. Conflict if the name is
	// taken. Size is a hint of the content's length in bytes, -1 if it is not known. Put
	// holds a bounded part of the content in memory.
	Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error
	// PutMemory returns how many bytes of memory a Put with the size, which is not negative,
	// takes at most for content that is no longer.
	PutMemory(size int64) int64
	// Open reads length bytes from offset on, to the end if length is negative. NotFound
	// if there is no such name. The reader is valid until ctx ends.
	Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Remove deletes the name and its content. A missing name is no error.
	Remove(ctx context.Context, name string) error
	// List calls each with every name in no particular order, and when it was written.
	// Names that are written or removed meanwhile may be included or not. An error of each
	// ends the list and is returned.
	List(ctx context.Context, each func(name string, size int64, written time.Time) error) error
	// Ready returns nil when the store answers.
	Ready(ctx context.Context) error
}

// BlobSets is implemented by those Blobs that write many contents faster together.
type BlobSets interface {
	// PutAll does what Put does for contents with different names that are announced (see BlobNames), and
	// which nobody reads before it returns nil. When it fails, or the process ends meanwhile, any part of
	// them may be stored: they are to be discarded.
	PutAll(ctx context.Context, contents []object.BlobContent) error
}

// SignedBlobs gives out addresses at which clients read and write blobs of a store of Blobs
// themselves. An address needs no other credentials, and is valid for its lifetime. Methods fail
// as those of Blobs do.
type SignedBlobs interface {
	// SignGet returns an address to read a blob at, as a whole or in ranges. Responses have the
	// media type and the Content-Disposition. Whether there is such a blob is not checked.
	SignGet(ctx context.Context, name, mimeType, disposition string, lifetime time.Duration) (address string, err error)
	// SignPut returns an address to write the blob of c at, which must have no content. The
	// store accepts content there until it has some, and never changes it. It refuses content
	// of another size or checksum than c has, as far as it can.
	SignPut(ctx context.Context, mimeType string, c object.Content, lifetime time.Duration) (object.Address, error)
	// Stat returns the size of a blob in bytes, and the SHA-256 in hexadecimal if the store
	// has computed it, else an empty string. NotFound if there is no such name.
	Stat(ctx context.Context, name string) (size int64, checksum string, err error)
}

// BlobFile is implemented by those readers of Blobs.Open whose content is in a file that the
// kernel can copy to a connection.
type BlobFile interface {
	io.ReadCloser
	// State returns the size of the blob in bytes and a description of its file that changes
	// with every write to it. The description is empty if a write might not change it.
	State() (size int64, state string)
	// WriteTo implements io.WriterTo. It calls w's method ReadFrom, if w has one, with an
	// io.LimitedReader over an os.File for each piece of at most 256 KiB. It fails with
	// Unavailable, before the last piece is written, if the file was written to after it was
	// opened or is shorter than it was; errors of w are returned unchanged.
	WriteTo(w io.Writer) (int64, error)
}
