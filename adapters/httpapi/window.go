package httpapi

import "io"

// window is the part of a stream that is in sight: it can be looked at before
// it is taken.
type window struct {
	from  io.Reader
	block *[]byte
	start int // of what is in sight
	end   int
	taken int64 // all that was taken, in bytes
	err   error // why no more comes
}

// openWindow opens a window whose block counts as memory of the call's.
func (c *call) openWindow(from io.Reader) (*window, error) {
	if err := c.hold(blockSize); err != nil {
		return nil, err
	}
	return openWindow(from), nil
}

func openWindow(from io.Reader) *window { return &window{from: from, block: takeBlock()} }

// close gives the block back; nothing is in sight any more.
func (w *window) close() {
	w.start, w.end, w.err = 0, 0, io.ErrClosedPipe
	giveBlock(&w.block)
}

func (w *window) sight() []byte {
	if w.block == nil {
		return nil
	}
	return (*w.block)[w.start:w.end]
}

// take moves on past n bytes that are in sight.
func (w *window) take(n int) {
	w.start += n
	w.taken += int64(n)
}

// more brings at least one more byte into sight, or says why none comes. What is
// in sight must be less than a block.
func (w *window) more() error {
	if w.err != nil {
		return w.err
	}
	if w.start == w.end || w.end == blockSize {
		w.end = copy(*w.block, w.sight())
		w.start = 0
	}
	for w.err == nil {
		var n int
		n, w.err = w.from.Read((*w.block)[w.end:])
		w.end += n
		if n > 0 {
			return nil
		}
	}
	return w.err
}

// least brings at least n bytes into sight. Where the stream ends before, it
// fails with io.EOF.
func (w *window) least(n int) error {
	for w.end-w.start < n {
		if err := w.more(); err != nil {
			return err
		}
	}
	return nil
}
