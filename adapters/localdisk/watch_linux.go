package localdisk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"collab/domain/mirror"
)

// maxDirty is the number of directories from which on everything is scanned.
const maxDirty = 4096

// Watch implements ports.Watcher with a watch for each directory that is not ignored. If the
// system allows no more, it passes everything every pollInterval.
func (d *Disk) Watch(ctx context.Context, changed func(mirror.Scope, string)) error {
	for ctx.Err() == nil {
		if err := d.watch(ctx, changed); err != nil {
			return failed(err, "The directory cannot be watched")
		}
	}
	return nil
}

// watch watches until ctx ends or the watches have to be made again, because notifications were
// lost or other files are ignored.
func (d *Disk) watch(ctx context.Context, changed func(mirror.Scope, string)) error {
	if err := d.present(); err != nil {
		return err
	}
	rules, err := d.readRules()
	if err != nil {
		return err
	}
	notify, err := fsnotify.NewWatcher()
	if errors.Is(err, unix.EMFILE) {
		return d.poll(ctx, changed, "this user may watch nothing more; raise fs.inotify.max_user_instances with sysctl and start this program again")
	}
	if err != nil {
		return err
	}
	defer discard(notify)
	w := &watcher{d: d, rules: rules, notify: notify, watched: map[string]bool{}}
	w.forget()
	w.watchTree(d.top)
	changed(mirror.Everything(), w.limited)

	gathered := time.NewTimer(0)
	<-gathered.C
	var poll <-chan time.Time
	defer d.watching.Store(false)
	for !w.restart {
		d.watching.Store(w.limited == "")
		if w.limited != "" && poll == nil {
			ticker := time.NewTicker(pollInterval)
			defer ticker.Stop()
			poll = ticker.C
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-notify.Events:
			if e.Has(fsnotify.Chmod) && e.Name == filepath.Join(d.path, mirror.StateDirectory) {
				w.pass(changed)
				select {
				case d.settled <- struct{}{}:
				default:
				}
				continue
			}
			if pending := len(w.directories)+len(w.trees) > 0; !w.event(e) || pending {
				continue
			}
		case <-notify.Errors: // notifications were lost
			w.restart = true
			continue
		case <-poll:
			changed(mirror.Everything(), w.limited)
			continue
		case <-gathered.C:
			w.pass(changed)
			continue
		}
		gathered.Reset(batchInterval)
	}
	return nil
}

// watcher has the watches of a directory, and what changed since changes were last passed.
type watcher struct {
	d       *Disk
	rules   *rules
	notify  *fsnotify.Watcher
	watched map[string]bool // directories by the names that the file system has
	limited string
	restart bool // the watches have to be made again

	directories, trees map[string]bool // by their paths
}

// pass passes what has changed, if anything has: Settle is called in rounds, and what is passed causes another one.
func (w *watcher) pass(changed func(mirror.Scope, string)) {
	if scope := w.scope(); !scope.Empty() {
		changed(scope, w.limited)
		w.forget()
	}
}

// scope returns what is to be scanned.
func (w *watcher) scope() mirror.Scope {
	if len(w.directories)+len(w.trees) > maxDirty {
		return mirror.Everything()
	}
	return mirror.Scope{Directories: slices.Sorted(maps.Keys(w.directories)), Trees: slices.Sorted(maps.Keys(w.trees))}
}

// forget clears the changes, after they were passed.
func (w *watcher) forget() { w.directories, w.trees = map[string]bool{}, map[string]bool{} }

// watchTree watches a directory and those below it.
func (w *watcher) watchTree(at directory) {
	path := norm.NFC.String(at.name)
	if path != "" && w.rules.ignored(path, true) {
		return
	}
	if !w.watched[at.name] {
		err := w.notify.Add(filepath.Join(w.d.path, filepath.FromSlash(at.name)))
		switch {
		case errors.Is(err, unix.ENOSPC):
			w.limited = fmt.Sprintf("this user may watch %d directories here and no more; raise "+
				"fs.inotify.max_user_watches with sysctl and start this program again", len(w.watched))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			w.limited = fmt.Sprintf("%s cannot be watched", path)
		}
		if err != nil {
			return
		}
		w.watched[at.name] = true
	}
	// Directories that are made from here on are notified.
	for _, name := range at.directories() {
		if in, err := at.enter(name); err == nil {
			w.watchTree(in)
			discard(in.root)
		}
	}
}

// directories returns the names of the directories in the directory, of which most file systems tell without
// looking at each file. It leaves out what cannot be read.
func (at directory) directories() (names []string) {
	rooted, err := at.root.Open(".")
	if err != nil {
		return nil
	}
	defer discard(rooted)
	fd, err := unix.FcntlInt(rooted.Fd(), unix.F_DUPFD_CLOEXEC, 0) // a file of os.Root looks at each file
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), rooted.Name())
	defer discard(f)
	for err == nil {
		var entries []fs.DirEntry
		entries, err = f.ReadDir(1024)
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// unwatchTree removes the watches of a directory that was renamed, and of those below it, which would report changes
// under their old names.
func (w *watcher) unwatchTree(name string) {
	if !w.watched[name] { // a file, mostly; what is below has none either
		return
	}
	for below := range w.watched {
		if below == name || strings.HasPrefix(below, name+"/") {
			delete(w.watched, below)
			_ = w.notify.Remove(filepath.Join(w.d.path, filepath.FromSlash(below))) // it may be gone
		}
	}
}

// event notes a change, and reports whether there was one.
func (w *watcher) event(e fsnotify.Event) bool {
	rest, inside := strings.CutPrefix(e.Name, strings.TrimSuffix(w.d.path, "/")+"/")
	name := filepath.ToSlash(rest)
	path := norm.NFC.String(name)
	switch {
	case e.Name == w.d.path && e.Has(fsnotify.Remove|fsnotify.Rename), path == mirror.IgnoreFile:
		w.restart = true
		return true
	case !inside, mirror.IsState(path):
		return false
	case !e.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) && w.rules.ignored(path, false):
		return false // of an ignored file it matters only whether it is there
	}
	parent, last := split(name)
	w.directories[norm.NFC.String(parent)] = true
	if e.Has(fsnotify.Remove | fsnotify.Rename) {
		if w.watched[name] || w.limited != "" {
			w.trees[path] = true
		}
		if e.Has(fsnotify.Rename) {
			w.unwatchTree(name)
		}
		delete(w.watched, name) // the kernel has ended the watch of what was removed, and notifies of each directory below it
	}
	if !e.Has(fsnotify.Create) {
		return true
	}
	if info, err := os.Lstat(e.Name); err != nil || !info.IsDir() {
		return true
	}
	at, err := w.d.top.open(parent)
	if err != nil {
		return true // it is gone, which is notified as well
	}
	defer discard(at.root)
	if in, err := at.enter(last); err == nil {
		w.unwatchTree(name) // those of a directory that had the name before
		w.watchTree(in)
		discard(in.root)
		w.trees[path] = true
	}
	return true
}
