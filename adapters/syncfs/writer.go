package syncfs

import (
	"io"
	"os"
)

// window is in bytes.
const window = 4 << 20

// Writer writes to a file, which the kernel writes to the disk a window at a time while more comes. A sync of any
// file of the file system may wait for what is unwritten of all others, and here that is at most two windows.
type Writer struct {
	file    io.Writer
	start   func(offset, length int64)       // has the kernel begin to write these bytes
	wait    func(offset, length int64) error // returns when it has written them
	cut     func(size int64) error
	offset  int64 // where the next bytes come
	begun   int64 // what is before is being written
	written int64 // what is before is written
}

// NewWriter returns a writer for the file, whose next bytes come at the offset.
func NewWriter(file *os.File, offset int64) *Writer {
	return &Writer{
		file:   file,
		start:  func(offset, length int64) { StartWriteback(file, offset, length) },
		wait:   func(offset, length int64) error { return waitForWriteback(file, offset, length) },
		cut:    file.Truncate,
		offset: offset, begun: offset, written: offset,
	}
}

// Write may return the error of an earlier Write, which no sync reports after that. The file is cut before
// what could not be written, as who goes on with it would not learn of that.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.offset += int64(n)
	if err != nil || w.offset-w.begun < window {
		return n, err
	}
	w.start(w.begun, w.offset-w.begun)
	if w.begun > w.written {
		if err = w.wait(w.written, w.begun-w.written); err != nil {
			_ = w.cut(w.written)
		}
	}
	w.begun, w.written = w.offset, w.begun
	return n, err
}
