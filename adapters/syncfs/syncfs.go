// Package syncfs makes all of a file system durable by one call, and large files while they are written.
package syncfs

import "sync"

// MinFiles is the number of files from which on their file system is to be synced as a whole.
const MinFiles = 16

// FileSystem is a file system that is synced as a whole. Its methods are safe for concurrent use.
type FileSystem struct {
	sync func() error
	turn chan struct{} // has a value while sync is called

	mu       sync.Mutex
	next     *run // which has not begun; nil: there is none. Guarded by mu, as are those below
	failures int
	failure  error // the last one
}

// run is a call of FileSystem.sync.
type run struct{ done chan struct{} }

// New returns a file system that sync makes durable.
func New(sync func() error) *FileSystem { return &FileSystem{sync: sync, turn: make(chan struct{}, 1)} }

// Failures returns how often the file system could not be synced.
func (f *FileSystem) Failures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures
}

// Sync makes all that was written before durable. Callers that wait while others are served share a sync. It fails
// if one has failed since Failures returned the given number, which the caller asked for before it wrote, as that
// may have been for what the caller wrote.
func (f *FileSystem) Sync(failures int) error {
	f.mu.Lock()
	r := f.next
	if r == nil {
		r = &run{make(chan struct{})}
		f.next = r
		f.mu.Unlock()
		f.lead(r)
	} else {
		f.mu.Unlock()
		<-r.done
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures != failures {
		return f.failure
	}
	return nil
}

// lead syncs for all that wait for the run when it begins.
func (f *FileSystem) lead(r *run) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	defer close(r.done)
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	if err := f.sync(); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failures, f.failure = f.failures+1, err
	}
}
