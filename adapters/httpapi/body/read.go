// Package body reads requests: JSON, forms, multipart, uploads and queries, each within its
// bounds. Its errors are those of domain/fault.
package body

import (
	"bytes"
	"io"

	"collab/adapters/httpapi/spool"
)

// ReadAll reads a body of at most limit bytes, and fails with fault.TooLarge beyond. Length
// is the announced length, negative for none. The memory is charged to r.
func ReadAll(from io.Reader, length, limit int64, r spool.Resources) ([]byte, error) {
	if length > limit {
		return nil, TooLarge(limit)
	}
	// The announced length is not trusted: little is allocated for it.
	var buf []byte
	size := min(max(length, 0), 16<<10) + bytes.MinRead
	for {
		if len(buf) == cap(buf) {
			if err := r.Hold(size); err != nil {
				return nil, err
			}
			old := buf
			buf = append(make([]byte, 0, size), old...)
			r.Release(int64(cap(old)))
			size = min(2*size, limit+bytes.MinRead)
		}
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, TooLarge(limit)
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}
