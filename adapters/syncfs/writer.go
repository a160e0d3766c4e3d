package syncfs

import (
	"io"
	"os"
)

// window is how many bytes are written before the kernel is told to write them to the disk.
const window = 4 << 20

// Writer writes to a file, and has the kernel write each window to the disk while the next one is filled. At most two
// windows are not on the disk, so that syncs of other files, which may wait for them, are short.
type Writer struct {
	file     io.Writer
	start    func(offset, length int64)       // starts the writeback of the bytes
	wait     func(offset, length int64) error // waits for that writeback
	truncate func(size int64) error
	offset   int64 // of the next byte
	started  int64 // the end of the bytes whose writeback was started
	written  int64 // the end of the bytes whose writeback has ended
}

// NewWriter returns a writer for the file, whose next bytes come at the offset.
func NewWriter(file *os.File, offset int64) *Writer {
	return &Writer{
		file:     file,
		start:    func(offset, length int64) { StartWriteback(file, offset, length) },
		wait:     func(offset, length int64) error { return waitForWriteback(file, offset, length) },
		truncate: file.Truncate,
		offset:   offset, started: offset, written: offset,
	}
}

// Write may return the error of the writeback of an earlier Write, which no later sync reports. It then truncates the
// file to the bytes that were written back, so that nobody resumes after lost ones.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.offset += int64(n)
	if err != nil || w.offset-w.started < window {
		return n, err
	}
	w.start(w.started, w.offset-w.started)
	if w.started > w.written {
		if err = w.wait(w.written, w.started-w.written); err != nil {
			_ = w.truncate(w.written)
		}
	}
	w.started, w.written = w.offset, w.started
	return n, err
}
