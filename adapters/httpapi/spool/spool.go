// Package spool stores streams that are read again later, and lends blocks of memory.
package spool

import (
	"errors"
	"io"
	"os"
	"sync"

	"collab/domain/fault"
)

// Resources are the memory and disk that blocks and spools are charged to, until they are
// released or the owner ends.
type Resources interface {
	// Hold reserves n bytes of memory. It fails with fault.Unavailable if there are
	// none.
	Hold(n int64) error
	Release(n int64)

	// HoldDisk reserves n bytes of disk and reports whether it could.
	HoldDisk(n int64) bool
}

// Sizes of blocks, in bytes: large enough for few reads and writes, and small if there is
// little to read.
const (
	BlockSize  = 256 << 10
	smallBlock = 16 << 10
)

var blocks, smallBlocks = poolOf(BlockSize), poolOf(smallBlock)

func poolOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

// TakeBlock returns a block for n bytes, or the largest, charged to r until ReleaseBlock.
func TakeBlock(r Resources, n int64) (*[]byte, error) {
	pool, size := smallBlocks, int64(smallBlock)
	if n > smallBlock {
		pool, size = blocks, BlockSize
	}
	if err := r.Hold(size); err != nil {
		return nil, err
	}
	return pool.Get().(*[]byte), nil
}

// ReleaseBlock releases a block of TakeBlock and sets the pointer to nil.
func ReleaseBlock(r Resources, b **[]byte) {
	r.Release(int64(len(**b)))
	putBlock(b)
}

// putBlock returns a block to its pool and sets the pointer to nil, so that it is returned
// once.
func putBlock(b **[]byte) {
	switch {
	case *b == nil:
		return
	case len(**b) == smallBlock:
		smallBlocks.Put(*b)
	default:
		blocks.Put(*b)
	}
	*b = nil
}

// Spool stores a stream that is read again later: up to a block in memory, the rest in an
// unlinked file, of which nothing is left after a crash.
type Spool struct {
	Size int64 // in bytes

	block *[]byte
	held  int      // bytes in the block that are not in the file
	rest  []byte   // the unread part of the block, if there is no file
	file  *os.File // nil: all of it is in the block

	resources Resources // that its memory and disk are charged to
}

// New returns an empty spool.
func New(r Resources) *Spool { return &Spool{resources: r} }

// begin takes the block.
func (s *Spool) begin() (err error) {
	if s.block == nil {
		s.block, err = TakeBlock(s.resources, BlockSize)
	}
	return err
}

// Fill stores a whole stream and rewinds. It fails with tooLarge if the stream is longer
// than limit bytes.
func (s *Spool) Fill(from io.Reader, limit int64, tooLarge func() error) error {
	noRoom := func(err error) error {
		return fault.Wrap(fault.Unavailable, err, "There is no room for the upload now")
	}
	if err := s.begin(); err != nil {
		return err
	}
	for {
		n, err := from.Read((*s.block)[s.held:])
		s.held += n
		s.Size += int64(n)
		if s.Size > limit {
			return tooLarge()
		}
		if s.held == BlockSize {
			if err := s.spill(); err != nil {
				return noRoom(err)
			}
		}
		switch {
		case err == io.EOF:
			if err := s.Rewind(); err != nil {
				return noRoom(err)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// Write appends to the spool. It must not be called after Rewind.
func (s *Spool) Write(p []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	all := len(p)
	for len(p) > 0 {
		n := copy((*s.block)[s.held:], p)
		s.held, p = s.held+n, p[n:]
		s.Size += int64(n)
		if s.held == BlockSize {
			if err := s.spill(); err != nil {
				return 0, err
			}
		}
	}
	return all, nil
}

// Rewind starts reading at the beginning.
func (s *Spool) Rewind() error {
	if s.file == nil {
		s.rest = (*s.block)[:s.held]
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// errDisk is the error of a spool beyond the disk budget.
var errDisk = errors.New("spool disk limit reached")

// spill appends the block to the file.
func (s *Spool) spill() error {
	if !s.resources.HoldDisk(int64(s.held)) {
		return errDisk
	}
	if s.file == nil {
		file, err := os.CreateTemp("", "collab-upload-*")
		if err != nil {
			return err
		}
		s.file = file
		if err := os.Remove(file.Name()); err != nil {
			return err
		}
	}
	_, err := s.file.Write((*s.block)[:s.held])
	s.held = 0
	return err
}

// Read reads what was stored.
func (s *Spool) Read(p []byte) (int, error) {
	if s.file != nil {
		return s.file.Read(p)
	}
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close releases the block and the file.
func (s *Spool) Close() error {
	s.rest = nil
	putBlock(&s.block)
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
