package mirrorstate

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Names of the log's files in mirror.StateDirectory.
const (
	logName     = "log"
	rotatedName = "log.1" // the previous file, which was full
)

// maxLog is the most bytes of each of the log's files.
const maxLog = 1 << 20

// Log appends lines to the log of a directory, whose two files are of bounded size. The zero value
// with a Directory is ready. It is not for concurrent use.
type Log struct {
	Directory *os.Root
	file      *os.File
	size      int64
}

// Write appends a line.
func (l *Log) Write(line []byte) (int, error) {
	for {
		if l.file == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
		if l.size == 0 || l.size+int64(len(line)) <= maxLog {
			break
		}
		if err := errors.Join(l.Close(), l.Directory.Rename(logName, rotatedName)); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}

func (l *Log) open() error {
	if err := CheckFile(l.Directory, logName); err != nil {
		return err
	}
	f, err := l.Directory.OpenFile(logName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Close closes the file, which the next Write opens again.
func (l *Log) Close() error {
	f := l.file
	l.file = nil
	if f == nil {
		return nil
	}
	return f.Close()
}

// ReadLog calls each with the lines of a directory's log, without their ends, the oldest first. As
// long as more returns true it goes on with those that were appended meanwhile. A line is valid
// until each returns, whose error ends ReadLog.
func ReadLog(directory *os.Root, each func(line []byte) error, more func() bool) error {
	older, err := openLog(directory, rotatedName)
	if err == nil {
		err = older.lines(each)
		older.close()
	}
	var current *logFile
	defer func() { current.close() }()
	for err == nil {
		// The current file is complete once another one has its name.
		next, openErr := openLog(directory, logName)
		err = errors.Join(openErr, current.lines(each))
		if current.sameFile(next) {
			next.close()
		} else {
			current.close()
			current = next
			err = errors.Join(err, current.lines(each))
		}
		if err == nil && !more() {
			break
		}
	}
	return err
}

// logFile is a file of a log that is read; nil if there is none.
type logFile struct {
	file    *os.File
	reader  *bufio.Reader
	partial []byte // the beginning of a line whose end is not written yet
}

func openLog(directory *os.Root, name string) (*logFile, error) {
	err := CheckFile(directory, name)
	if err != nil {
		return nil, err
	}
	f, err := directory.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	return &logFile{file: f, reader: bufio.NewReader(f)}, nil
}

func (l *logFile) close() {
	if l != nil {
		_ = l.file.Close() // it was only read
	}
}

// sameFile reports whether both are one file.
func (l *logFile) sameFile(other *logFile) bool {
	if l == nil || other == nil {
		return l == other
	}
	a, err := l.file.Stat()
	b, otherErr := other.file.Stat()
	return err == nil && otherErr == nil && os.SameFile(a, b)
}

// lines calls each with the lines that were not read yet.
func (l *logFile) lines(each func(line []byte) error) error {
	if l == nil {
		return nil
	}
	for {
		part, err := l.reader.ReadBytes('\n')
		l.partial = append(l.partial, part...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(l.partial[:len(l.partial)-1])
			l.partial = l.partial[:0]
		}
		if err != nil {
			return err
		}
	}
}
