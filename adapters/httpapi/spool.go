package httpapi

import (
	"errors"
	"io"
	"os"
	"sync"

	"collab/domain/fault"
)

// How much content is in the hand at once, in bytes: so much that neither a
// connection nor a disk is asked for it often, and less where it is known that
// there is not so much.
const (
	blockSize  = 256 << 10
	smallBlock = 16 << 10
)

var blocks, smallBlocks = poolOf(blockSize), poolOf(smallBlock)

func poolOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, size)
		return &b
	}}
}

func takeBlock() *[]byte { return blocks.Get().(*[]byte) }

// holdBlock returns a block for n bytes, or as many as any has room for, which counts as
// memory of the call's until releaseBlock. It fails where the budget does not have it.
func (c *call) holdBlock(n int64) (*[]byte, error) {
	pool, size := smallBlocks, int64(smallBlock)
	if n > smallBlock {
		pool, size = blocks, blockSize
	}
	if err := c.hold(size); err != nil {
		return nil, err
	}
	return pool.Get().(*[]byte), nil
}

// releaseBlock gives a block of holdBlock's back.
func (c *call) releaseBlock(b **[]byte) {
	c.release(int64(len(**b)))
	giveBlock(b)
}

// giveBlock takes a block back and forgets it, so that it is given back once.
func giveBlock(b **[]byte) {
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

// spool keeps what comes before it can be used: the little in memory, the rest
// in a file that has no name any more, so that nothing is left of it whatever
// happens.
type spool struct {
	size int64 // in bytes

	block *[]byte
	held  int      // bytes in the block that are in no file
	rest  []byte   // of the block: what is still to be read, where there is no file
	file  *os.File // nil: all of it is in the block

	c *call // whose memory and disk it takes
}

// begin takes the block.
func (s *spool) begin() error {
	if s.block != nil {
		return nil
	}
	if err := s.c.hold(blockSize); err != nil {
		return err
	}
	s.block = takeBlock()
	return nil
}

// fill keeps all of a stream, which fails with tooLarge beyond the limit. Then it
// can be read, once.
func (s *spool) fill(from io.Reader, limit int64, tooLarge func() error) error {
	noRoom := func(err error) error {
		return fault.Wrap(fault.Unavailable, err, "There is no room for the upload now")
	}
	if err := s.begin(); err != nil {
		return err
	}
	for {
		n, err := from.Read((*s.block)[s.held:])
		s.held += n
		s.size += int64(n)
		if s.size > limit {
			return tooLarge()
		}
		if s.held == blockSize {
			if err := s.spill(); err != nil {
				return noRoom(err)
			}
		}
		switch {
		case err == io.EOF:
			if err := s.rewind(); err != nil {
				return noRoom(err)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// Write keeps more. After the last of it comes rewind.
func (s *spool) Write(p []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	all := len(p)
	for len(p) > 0 {
		n := copy((*s.block)[s.held:], p)
		s.held, p = s.held+n, p[n:]
		s.size += int64(n)
		if s.held == blockSize {
			if err := s.spill(); err != nil {
				return 0, err
			}
		}
	}
	return all, nil
}

// rewind goes to the beginning of what was kept.
func (s *spool) rewind() error {
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

// errSpools says that the server has as much in files as it may.
var errSpools = errors.New("the budget of spools is used up")

// spill moves what the block holds to the file.
func (s *spool) spill() error {
	if !s.c.disk().Take(int64(s.held)) {
		return errSpools
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

// Read reads what was kept.
func (s *spool) Read(p []byte) (int, error) {
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

// Close gives back what the spool takes.
func (s *spool) Close() error {
	s.rest = nil
	giveBlock(&s.block)
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
