// Package syncfs syncs a whole file system with one call, and starts writing large files to the disk early.
package syncfs

import "sync"

// MinFiles is the number of files from which on one sync of the file system is cheaper than one of each file.
const MinFiles = 16

// FileSystem is a file system that is synced as a whole. Its methods are safe for concurrent use.
type FileSystem struct {
	sync    func() error
	running chan struct{} // semaphore: has a value while sync is called

	mu       sync.Mutex
	next     *run // the sync that has not begun, or nil; guarded by mu, as are those below
	failures int
	lastErr  error // of the last failed sync
}

// run is a call of FileSystem.sync.
type run struct{ done chan struct{} }

// New returns a file system that sync makes durable.
func New(sync func() error) *FileSystem {
	return &FileSystem{sync: sync, running: make(chan struct{}, 1)}
}

// Failures returns the number of failed syncs.
func (f *FileSystem) Failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures
}

// Sync makes all earlier writes durable. Concurrent callers that wait for the same run share a sync. The caller must
// have called Failures before it wrote, and passes the number: Sync fails if any sync has failed since, because that
// failure may be the only report of the caller's lost data.
func (f *FileSystem) Sync(failures int) error {
	f.mu.Lock()
	r := f.next
	if r == nil {
		r = &run{make(chan struct{})}
		f.next = r
		f.mu.Unlock()
		f.runSync(r)
	} else {
		f.mu.Unlock()
		<-r.done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures != failures {
		return f.lastErr
	}
	return nil
}

// runSync calls sync for all callers that wait for r when it begins.
func (f *FileSystem) runSync(r *run) {
	f.running <- struct{}{}
	defer func() { <-f.running }()
	defer close(r.done)
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	if err := f.sync(); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failures, f.lastErr = f.failures+1, err
	}
}
