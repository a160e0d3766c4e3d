package bucket

import (
	"context"
	"io"
	"sync"
)

// source is what a Put reads. It ends with the context, and remembers the error
// that it ended with, because that is the caller's and comes back as it is.
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

// pieces reads the source to its end in pieces of the buffers' size and has
// write take each. It returns write's error; the source keeps its own.
func (s *source) pieces(write func([]byte) error) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := io.ReadFull(s, *buffer)
		if s.err != nil {
			return nil
		}
		if n > 0 {
			if err := write((*buffer)[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// buffers are what content goes through.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 256<<10)) }}
