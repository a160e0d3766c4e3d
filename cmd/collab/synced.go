package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"collab/adapters/localdisk"
	"collab/adapters/mirrorstate"
	"collab/adapters/remote"
	"collab/adapters/system"
	rounds "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
)

const (
	// syncWorkers is how many files are transferred at a time.
	syncWorkers = 8
	// residentFiles is how many files of a directory stay in memory while nothing happens.
	residentFiles = 10_000
)

// writeRecord writes the record that the directory was synchronised, for checkMounted.
func (s *syncedDir) writeRecord() error {
	file, path, err := s.app.recordFile(s.dir)
	if err != nil {
		return nil // there is no place for it
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(path+"\n"), 0o600)
}

// syncedDir is a directory that is kept in step.
type syncedDir struct {
	app    *app
	dir    string
	server string // the address
	disk   *localdisk.Disk
	state  *mirrorstate.State
	mirror *rounds.Mirror

	files *os.Root // mirror.StateDirectory

	mu       sync.Mutex // of what follows, and of the output
	progress *progress  // of the present plan; nil: there is none
	log      mirrorstate.Log
	buffered []byte // lines about changes, for the log and, unless it is a terminal, the output
	last     syncRound

	heldNoted bool                  // the last round has held files, which was printed
	recorded  bool                  // the record that the directory was synchronised is written
	unwritten map[string]bool       // what could not be written the last time: the log, the status, the record
	failing   map[string]fault.Kind // of problems by path of files that were printed as failed and have not succeeded since
}

// openSynced opens a directory, to be bound to the place f if it is not bound. If it is bound it
// must be to f, or, with anyPlace, to another place of the same organisation. checkNested says what opened is.
func (a *app) openSynced(ctx context.Context, dir string, f *folder, anyPlace bool, opened map[string]mirror.Binding) (s *syncedDir, err error) {
	s = &syncedDir{
		app: a, dir: dir, server: f.client.Server, unwritten: map[string]bool{}, failing: map[string]fault.Kind{},
		last: syncRound{Held: []syncProblem{}, Failed: []syncProblem{}, Delayed: []syncDelayed{}},
	}
	defer func() {
		if err != nil {
			s.close()
			err = syncError(err)
		}
	}()
	binding := mirror.Binding{Server: f.client.Server, Org: id.Org(f.me.Org.ID), User: id.User(f.me.User.ID), Place: placeText(f)}
	if bound, err := storedBinding(dir); err == nil && anyPlace {
		binding.Place = bound.Place
	}
	if err = a.checkNested(dir, binding, opened); err != nil {
		return s, err
	}
	if s.disk, err = localdisk.Open(dir, system.Clock{}); err != nil {
		return s, err
	}
	if s.files, err = mirrorstate.OpenDirectory(dir); err != nil {
		return s, err
	}
	s.log.Directory = s.files
	_ = s.files.Remove(acceptedName)                 // it was for a process that has ended
	if last, err := lastRound(s.files); err == nil { // what is said of the files until the first round
		s.last.Files, s.last.Held, s.last.Failed = last.Files, last.Held, last.Failed
	}
	if s.state, err = mirrorstate.Open(dir); err != nil {
		return s, err
	}
	if damaged := s.state.Damaged(); damaged != "" {
		a.printErrf("the state of %s was damaged and is now %s; both sides are united", dir, damaged)
	}
	bound, err := s.state.Binding(ctx)
	switch {
	case err == nil && anyPlace:
		binding.Place = bound.Place
	case err != nil && !fault.Is(err, fault.NotFound):
		return s, err
	}
	return s, s.newMirror(f, binding)
}

// newMirror sets the mirror of the opened directory and the place to which it is bound.
func (s *syncedDir) newMirror(f *folder, binding mirror.Binding) error {
	where, err := parsePlace(binding.Place)
	if err != nil {
		return err
	}
	device, err := os.Hostname()
	if err != nil {
		device = "device"
	}
	server := remote.New(f.client, where)
	s.mirror = rounds.New(rounds.Options{
		Disk: s.disk, DiskWriter: s.disk, Watcher: s.disk, State: s.state, Remote: server, RemoteWriter: server,
		Binding: binding, Device: cmp.Or(s.app.env("COLLAB_DEVICE"), device), Workers: syncWorkers, Resident: residentFiles,
		Clock: system.Clock{}, Wait: f.client.Wait, Random: rand.Float64, Released: debug.FreeOSMemory,
		Report: s.report, IsPaused: s.takeRequests,
	})
	return nil
}

// takeRequests takes what other processes ask for: it accepts deletions, and reports whether the directory is paused.
// That deletions were not made is said again if they are not made then, as when the next round fails.
func (s *syncedDir) takeRequests() bool {
	if s.files.Remove(acceptedName) == nil {
		s.mu.Lock()
		s.last.Stopped = ""
		s.mu.Unlock()
		s.mirror.AcceptDeletions()
	}
	p, err := s.app.pauseOf(s.files)
	return p != nil || err != nil // what cannot be read may be a pause
}

func (s *syncedDir) close() {
	if s.state != nil {
		_ = s.state.Close()
	}
	if s.files != nil {
		s.mu.Lock()
		s.flush()
		s.mu.Unlock()
		_ = errors.Join(s.log.Close(), s.files.Close())
	}
	if s.disk != nil {
		_ = s.disk.Close()
	}
}

// withRemedy returns the error with which the synchronisation has ended, with what to do about it.
func (s *syncedDir) withRemedy(err error) error {
	if !rounds.Final(err) {
		return err
	}
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		return signInAgain(err, s.server)
	case fault.Forbidden:
		return exitError{exitSignIn, fmt.Errorf("%w. The place is closed to this account; ask an owner of the organisation. %s stays as it is", err, s.dir)}
	case fault.NotFound:
		return fmt.Errorf("%w. When it is there again, start collab sync %s again", err, s.dir)
	case fault.Conflict:
		return fmt.Errorf("%w. To synchronise it with another place, move %s, which has its trash, out of it", err, filepath.Join(s.dir, mirror.StateDirectory))
	}
	return err
}

// recordEnd stores the error with which the synchronisation has ended, and prints it if others go on.
func (s *syncedDir) recordEnd(err error, others bool) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	err = s.withRemedy(err)
	s.mu.Lock()
	s.last.Problem = "" // that of the last round is the same without the remedy
	s.mu.Unlock()
	s.recordRound(rounds.Outcome{}, err)
	if others {
		s.app.printErrf("%s is not synchronised any more: %v", s.dir, err)
	}
	return err
}

// once makes one round, or prints its plan.
func (s *syncedDir) once(ctx context.Context, dry bool) error {
	if dry {
		o, err := s.mirror.DryRun(ctx)
		if o.Paused {
			return s.app.pausedError(s.files, s.dir)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, step := range o.Pending {
			s.change("planned", step, nil)
		}
		for _, held := range slices.Concat(o.Held, o.Failed) {
			s.app.printWarning("%s is held back: %s", held.Path, held.Reason)
		}
		if o.Guard != "" {
			s.app.printWarning("%s", o.Guard)
		}
		return err
	}
	o, err := s.mirror.Round(ctx)
	s.heldNoted = true // by the error
	s.recordRound(o, err)
	switch {
	case err != nil:
		return s.withRemedy(err)
	case o.Paused:
		return s.app.pausedError(s.files, s.dir)
	case o.Guard != "":
		return exitError{exitGuard, errors.New(o.Guard)}
	case len(o.Failed) > 0 || len(o.Held) > 0:
		return exitError{exitConflict, fmt.Errorf("%d files are held back or failed: collab sync status %s", len(o.Failed)+len(o.Held), s.dir)}
	}
	return nil
}
