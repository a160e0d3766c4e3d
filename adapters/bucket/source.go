package bucket

import (
	"context"
	"io"
	"sync"
)

// source reads the content of a Put. It records the first error of r or ctx, which Put
// returns unchanged.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// copyTo writes the source to w in chunks of the size of a buffer. It returns the error of w;
// the one of the source is in s.err.
func (s *source) copyTo(w io.Writer) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := io.ReadFull(s, *buffer)
		if s.err != nil {
			return nil
		}
		if n > 0 {
			if _, err := w.Write((*buffer)[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// bufferSize is the size of the buffers of copyTo, in bytes.
const bufferSize = 256 << 10

// buffers has the buffers of copyTo.
var buffers = sync.Pool{New: func() any { return new(make([]byte, bufferSize)) }}
