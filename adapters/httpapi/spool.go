package httpapi

import (
	"io"
	"os"
	"sync"

	"collab/domain/fault"
)

// blockSize is how much content is in the hand at once, in bytes: large enough
// that neither a connection nor a disk is asked for it often.
const blockSize = 256 << 10

var blocks = sync.Pool{New: func() any {
	b := make([]byte, blockSize)
	return &b
}}

func takeBlock() *[]byte { return blocks.Get().(*[]byte) }

// giveBlock takes a block back and forgets it, so that it is given back once.
func giveBlock(b **[]byte) {
	if *b != nil {
		blocks.Put(*b)
		*b = nil
	}
}

// spool keeps what comes before it can be used: the little in memory, the rest
// in a file that has no name any more, so that nothing is left of it whatever
// happens.
type spool struct {
	size int64 // in bytes

	block *[]byte
	rest  []byte   // of the block: what is still to be read, where there is no file
	file  *os.File // nil: all of it is in the block
}

// fill keeps all of a stream, which fails with tooLarge beyond the limit. Then it
// can be read, once.
func (s *spool) fill(from io.Reader, limit int64, tooLarge func() error) error {
	s.block = takeBlock()
	held := 0
	for {
		n, err := from.Read((*s.block)[held:])
		held += n
		s.size += int64(n)
		if s.size > limit {
			return tooLarge()
		}
		if held == blockSize || err == io.EOF && s.file != nil {
			if err := s.spill((*s.block)[:held]); err != nil {
				return fault.Wrap(fault.Unavailable, err, "There is no room for the upload now")
			}
			held = 0
		}
		switch {
		case err == io.EOF && s.file == nil:
			s.rest = (*s.block)[:held]
			return nil
		case err == io.EOF:
			_, err := s.file.Seek(0, io.SeekStart)
			return err
		case err != nil:
			return err
		}
	}
}

func (s *spool) spill(b []byte) error {
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
	_, err := s.file.Write(b)
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
