package localdisk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/text/unicode/norm"

	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
)

// Scan implements ports.Disk. A directory of another file system, or at which something is mounted, is passed as
// unreadable, since nothing can be moved into it.
func (d *Disk) Scan(ctx context.Context, scope mirror.Scope, known func(name string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	if err := d.present(); err != nil {
		return err
	}
	s := &scan{d: d, ctx: ctx, rules: d.rules.Load(), known: known, each: each}
	within := func(path string, trees []string) bool {
		return slices.ContainsFunc(trees, func(tree string) bool { return tree == "" || path == tree || strings.HasPrefix(path, tree+"/") })
	}
	var trees []string
	for _, tree := range slices.Sorted(slices.Values(scope.Trees)) {
		if !within(tree, trees) {
			trees = append(trees, tree)
			s.start(tree, true)
		}
	}
	for _, path := range scope.Directories {
		if !within(path, trees) {
			s.start(path, false)
		}
	}
	if s.err != nil {
		return s.err
	}
	return d.present() // a directory that is gone reads as empty
}

const (
	bufferSize = 128 << 10
	// maxUnread is how many files of a directory are gathered before their contents are read, by at most
	// maxReaders at a time.
	maxUnread  = 1024
	maxReaders = 8
)

// buffers are for content that is hashed.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// scan is a call of Scan.
type scan struct {
	d      *Disk
	ctx    context.Context
	rules  *rules
	known  func(name string) (mirror.Facts, string, bool)
	each   func(mirror.Entry) error
	unread []unread // files of the present directory
	err    error    // what Scan returns; nothing is read after it was set
}

// unread is a file whose content is to be read.
type unread struct {
	info  fs.FileInfo
	entry mirror.Entry
	err   error
}

// pass calls each.
func (s *scan) pass(e mirror.Entry) {
	if s.err == nil {
		s.err = s.each(e)
	}
}

func (s *scan) unreadable(name string) {
	s.pass(mirror.Entry{Path: norm.NFC.String(name), Name: name, Kind: mirror.Unreadable})
}

// start scans the directories of a path, alone or with what is below.
func (s *scan) start(path string, deep bool) {
	if s.err != nil || path != "" && s.rules.ignoresDirectory(path) {
		return
	}
	err := s.d.find(s.d.top, path, func(at directory) error {
		s.directory(at, deep)
		return s.err
	})
	if err != nil && s.err == nil && !errors.Is(err, fs.ErrNotExist) {
		s.unreadable(path)
	}
}

// directory passes what is in a directory. If it cannot be read, the directory itself is passed as
// unreadable, unless it is the top, which is an error.
func (s *scan) directory(at directory, deep bool) {
	var below []string
	ignored := false // an ignored file was passed
	err := at.each(func(info fs.FileInfo) error {
		if s.err == nil {
			s.err = context.Cause(s.ctx)
		}
		if s.err != nil {
			return s.err
		}
		e := s.d.entryOf(at, info)
		if mirror.IsState(e.Path) {
			return nil
		}
		if s.rules.ignored(e.Path, info.IsDir()) {
			switch {
			case info.IsDir():
				e.Kind = mirror.IgnoredDirectory
			case ignored && s.rules.ignored(e.Path, true) || info.Mode().IsRegular() && isSystemFile(info.Name()):
				return nil
			default:
				e.Kind, ignored = mirror.IgnoredFile, true
			}
			s.pass(e)
			return s.err
		}
		switch e.Kind {
		case mirror.Directory:
			if deep && len(e.Path) < object.MaxPath { // no server has a path below
				below = append(below, info.Name())
			}
		case mirror.File:
			facts, checksum, ok := s.known(e.Name)
			if !ok || facts != e.Facts || s.d.isRecent(e.Facts) {
				if s.unread = append(s.unread, unread{info: info, entry: e}); len(s.unread) == maxUnread {
					s.readAll(at)
				}
				return s.err
			}
			e.Checksum = checksum
		}
		s.pass(e)
		return s.err
	})
	s.readAll(at)
	switch {
	case s.err != nil:
		return
	case err != nil && at.name == "":
		s.err = failed(err, "The directory cannot be read")
	case err != nil:
		s.unreadable(at.name)
	}
	for _, name := range below {
		if s.err != nil {
			return
		}
		in, err := at.enter(name)
		switch {
		case err == nil:
			s.directory(in, deep)
			discard(in.root)
		case !isGone(err): // else it was just replaced
			s.unreadable(at.below(name))
		}
	}
}

// readAll passes the gathered files of a directory with their checksums.
func (s *scan) readAll(at directory) {
	if s.err != nil || len(s.unread) == 0 {
		return
	}
	var next atomic.Int64
	read := func() {
		hash, buffer := sha256.New(), buffers.Get().(*[bufferSize]byte)
		defer buffers.Put(buffer)
		for i := next.Add(1); i <= int64(len(s.unread)) && s.ctx.Err() == nil; i = next.Add(1) {
			f := &s.unread[i-1]
			s.d.waitForNewTimestamp(s.ctx, f.entry.Facts)
			f.entry.Checksum, f.err = s.read(at, *f, hash, buffer)
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxReaders, len(s.unread)) - 1 {
		others.Go(read)
	}
	read()
	others.Wait()
	s.err = context.Cause(s.ctx)
	for _, f := range s.unread {
		if f.err != nil {
			f.entry.Kind = mirror.Unreadable
		}
		if !errors.Is(f.err, fs.ErrNotExist) {
			s.pass(f.entry)
		}
	}
	s.unread = s.unread[:0]
}

// read returns the checksum of a file, or an error unless the file is before and after it is read as it was found.
func (s *scan) read(at directory, u unread, hash hash.Hash, buffer *[bufferSize]byte) (string, error) {
	f, err := openRegular(at, u.info)
	if err != nil {
		return "", err
	}
	defer discard(f)
	hash.Reset()
	_, err = io.CopyBuffer(hash, &contextReader{s.ctx, &reader{file: f, entry: u.entry}}, buffer[:])
	return hex.EncodeToString(hash.Sum(nil)), err
}

// timeSinceChange returns how long ago a file was changed, by this machine's clock. It is negative if
// the time of the change is in the future.
func (d *Disk) timeSinceChange(f mirror.Facts) time.Duration {
	changed := f.ChangeTime
	if changed == 0 {
		changed = f.ModTime
	}
	return time.Duration(d.clock.Now().UnixNano() - changed)
}

// isRecent reports whether a change of a file now might leave its times as they are.
func (d *Disk) isRecent(f mirror.Facts) bool { return d.timeSinceChange(f) < d.timeResolution }

// waitForNewTimestamp waits until a change of a file would change its times, or ctx ends. It does not wait
// for a time that is more than a second in the future.
func (d *Disk) waitForNewTimestamp(ctx context.Context, f mirror.Facts) {
	since := d.timeSinceChange(f)
	if since < -time.Second || since >= d.timeResolution {
		return
	}
	timer := time.NewTimer(d.timeResolution - since + time.Millisecond) // the clock is truncated to milliseconds
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errChanged is the error for a file that has changed since it was found.
var errChanged = errors.New("the file has changed")

// unchanged returns errChanged if a file has other facts.
func unchanged(f *os.File, want mirror.Facts) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if facts, _ := factsOf(info); facts != want {
		return errChanged
	}
	return nil
}

// openSame opens the regular file that info describes. It returns errChanged if another one has its name.
func openSame(at directory, info fs.FileInfo, flag int) (*os.File, error) {
	f, err := at.root.OpenFile(info.Name(), flag, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && (!opened.Mode().IsRegular() || !os.SameFile(info, opened)) {
		err = errChanged
	}
	if err != nil {
		discard(f)
		return nil, err
	}
	return f, nil
}

// openRegular opens the regular file that info describes, for reading. It returns errChanged if the file has
// changed since.
func openRegular(at directory, info fs.FileInfo) (*os.File, error) {
	f, err := openSame(at, info, os.O_RDONLY|nonBlocking)
	if err != nil {
		return nil, err
	}
	want, _ := factsOf(info)
	if err := unchanged(f, want); err != nil {
		discard(f)
		return nil, err
	}
	return f, nil
}

// Open implements ports.Disk.
func (d *Disk) Open(_ context.Context, e mirror.Entry) (io.ReadCloser, error) {
	if f := openBeneath(d.top.self, e.Name); f != nil {
		if unchanged(f, e.Facts) == nil && e.Kind == mirror.File {
			return &reader{file: f, entry: e}, nil
		}
		discard(f) // lookUp returns the error
	}
	at, info, err := d.lookUp(e, d.top.open)
	if at.root != nil {
		defer discard(at.root)
	}
	if err != nil {
		return nil, err
	}
	f, err := openRegular(at, info)
	if err != nil {
		return nil, failed(err, "%s cannot be read", e.Path)
	}
	return &reader{file: f, entry: e}, nil
}

// lookUp returns the directory that a file is in, as open returns it, and what the file is now.
// Conflict if it has other facts than e, NotFound if a directory is in its place or a file in that of
// the directory. Of a directory the inode alone counts.
func (d *Disk) lookUp(e mirror.Entry, open func(name string) (directory, error)) (at directory, info fs.FileInfo, err error) {
	parent, name := split(e.Name)
	at, err = open(parent)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err == nil {
		info, err = at.root.Lstat(name)
	}
	if err == nil {
		now := d.entryOf(at, info)
		switch {
		case e.Kind == mirror.File && now.Kind == mirror.Directory:
			err = fs.ErrNotExist
		case now.Kind != e.Kind, e.Kind == mirror.File && now.Facts != e.Facts, e.Kind == mirror.Directory && now.Facts.Inode != e.Facts.Inode:
			err = errChanged
		case e.Kind != mirror.File && e.Kind != mirror.Directory:
			err = fault.New(fault.Conflict, "%s is neither a file nor a directory", e.Path)
		}
	}
	return at, info, failed(err, "%s cannot be read", e.Path)
}

// maxUnchecked is how many bytes of a file are read between checks whether it has changed. Without the checks a
// large file that is always being written would be read to its end each time.
const maxUnchecked = 8 << 20

// reader is the content of a file.
type reader struct {
	file      *os.File
	entry     mirror.Entry
	unchecked int // bytes that were read since the last check of the file
}

// Read fails with Conflict if the file was changed: at its end, and after maxUnchecked bytes.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if r.unchecked += n; errors.Is(err, io.EOF) || r.unchecked > maxUnchecked {
		r.unchecked = 0
		err = cmp.Or(unchanged(r.file, r.entry.Facts), err)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = failed(err, "%s cannot be read", r.entry.Path)
	}
	return n, err
}

func (r *reader) Close() error { return r.file.Close() }
