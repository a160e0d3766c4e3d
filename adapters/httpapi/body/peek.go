package body

import (
	"bufio"
	"io"
	"sync"

	"collab/adapters/httpapi/spool"
)

// peekReader is a buffered reader that counts the bytes read from it.
type peekReader struct {
	*bufio.Reader
	taken int64
}

var peekReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, spool.BlockSize) }}

// newPeekReader returns a reader whose buffer of spool.BlockSize bytes is charged to r.
func newPeekReader(from io.Reader, r spool.Resources) (*peekReader, error) {
	if err := r.Hold(spool.BlockSize); err != nil {
		return nil, err
	}
	b := peekReaders.Get().(*bufio.Reader)
	b.Reset(from)
	return &peekReader{Reader: b}, nil
}

// close returns the buffer to its pool. The reader cannot be used afterwards.
func (p *peekReader) close() {
	if p == nil || p.Size() < spool.BlockSize { // it was not opened, or is closed
		return
	}
	p.Reset(nil)
	peekReaders.Put(p.Reader)
	p.Reader = bufio.NewReaderSize(closedReader{}, 0)
}

type closedReader struct{}

func (closedReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// buffered returns the bytes that can be peeked at without reading more.
func (p *peekReader) buffered() []byte {
	b, _ := p.Peek(p.Buffered()) // they are buffered
	return b
}

// take advances the reader by n bytes that are buffered.
func (p *peekReader) take(n int) {
	_, _ = p.Discard(n) // they are buffered
	p.taken += int64(n)
}

// fill reads at least one more byte into the buffer, which must have space.
func (p *peekReader) fill() error { return p.fillTo(p.Buffered() + 1) }

// fillTo reads until at least n bytes are buffered. It fails with io.EOF if the stream ends
// before.
func (p *peekReader) fillTo(n int) error {
	_, err := p.Peek(n)
	return err
}
