package ports

import (
	"context"
	"io"
	"time"
)

// Blobs holds content under names. A name is written once and never again;
// what is under it never changes. Names are object.Blob.Name's: relative, at most 1,024
// bytes, 255 between slashes. It fails with Unavailable when the store does not
// answer.
type Blobs interface {
	// Put writes all of r under the name. When it returns nil, the content is on
	// stable storage and every reader finds it whole. When it fails, there is
	// nothing or all of it under the name, never a part; an error of r comes back
	// as it is. Conflict when the name is taken. Size is the number of bytes that r
	// will have, -1 where that is not known; it is a hint. Put holds a bounded
	// part of the content in memory, however long it is.
	Put(ctx context.Context, name, mimeType string, size int64, r io.Reader) error
	// Open reads length bytes from offset on, to the end where length is negative.
	// NotFound when there is nothing under the name. The reader is bound to ctx.
	Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	// Remove deletes what is under the name; it is no error when that is nothing.
	Remove(ctx context.Context, name string) error
	// List calls each with every name, in no order, and when it was written. What is
	// written or removed meanwhile may be in it or not. An error of each ends the
	// list and is returned.
	List(ctx context.Context, each func(name string, size int64, written time.Time) error) error
	// Ready returns nil when the store answers.
	Ready(ctx context.Context) error
}
