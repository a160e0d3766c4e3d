package localdisk

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"collab/adapters/syncfs"
	"collab/domain/mirror"
	"collab/domain/object"
)

// failures returns how often the file system could not be synced, for syncAll.
func (d *Disk) failures() int {
	if d.fileSystem == nil {
		return 0
	}
	return d.fileSystem.Failures()
}

// syncAll makes what each syncs durable. If it is many files, the file system is synced as a whole where it can be,
// which fails if it has failed since failures returned the number.
func (d *Disk) syncAll(many bool, failures int, each func() error) error {
	if many && d.fileSystem != nil {
		return d.fileSystem.Sync(failures)
	}
	return each()
}

// syncNames makes the names in directories durable, as syncAll does, and those of the directories in unsynced.
func (d *Disk) syncNames(many bool, failures int, in []directory, unsynced map[string]int) error {
	if len(in) == 0 {
		return nil
	}
	err := d.syncAll(many, failures, func() (err error) {
		for _, at := range in {
			err = errors.Join(err, at.sync())
		}
		above := map[string]bool{}
		for name := range unsynced {
			parent, _ := split(name)
			above[parent] = true
		}
		for name := range above {
			err = errors.Join(err, d.syncNamesIn(name))
		}
		return err
	})
	if err != nil {
		return err
	}
	d.directories.Lock()
	defer d.directories.Unlock()
	for name, n := range unsynced {
		if d.unsynced[name] == n {
			delete(d.unsynced, name)
		}
	}
	return nil
}

// writeback is how long after a change at most the system makes it durable by itself.
const writeback = 2 * time.Minute

// Sync implements ports.Disk. What this user may not open counts as durable.
func (d *Disk) Sync(_ context.Context, files ...mirror.Entry) []error {
	failures := d.failures()
	changes := d.recentChanges(files)
	errs := make([]error, len(files))
	fail := func(i int, err error) { errs[i] = failed(err, "%s cannot be made durable", files[i].Path) }
	if len(changes) >= syncfs.MinFiles && d.fileSystem != nil {
		err := d.fileSystem.Sync(failures)
		for i := range files {
			fail(i, err)
		}
		return errs
	}
	for _, c := range changes {
		if err := c.sync(c.name); err != nil && !isGone(err) && !errors.Is(err, fs.ErrPermission) {
			for _, i := range c.of {
				fail(i, err)
			}
		}
	}
	return errs
}

// change is a file or directory that was changed so lately that it may not be durable.
type change struct {
	name string
	sync func(name string) error
	of   []int // the indexes of the files that it belongs to
}

// recentChanges returns which of the files were changed lately, and, each once, which of the
// directories above them: a directory that was renamed changes those that it left and came to,
// and no file below it.
func (d *Disk) recentChanges(files []mirror.Entry) (changes []*change) {
	directories := map[string]*change{} // nil for those that were not changed lately
	for i, e := range files {
		if d.sinceChange(e.Facts) <= writeback {
			changes = append(changes, &change{e.Name, d.syncContent, []int{i}})
		}
		for _, name := range append(object.Ancestors(e.Name), "") {
			c, seen := directories[name]
			if !seen {
				if d.hasChanged(name) {
					c = &change{name: name, sync: d.syncNamesIn}
					changes = append(changes, c)
				}
				directories[name] = c
			}
			if c != nil {
				c.of = append(c.of, i)
			}
		}
	}
	return changes
}

// hasChanged reports whether names in a directory may have changed lately.
func (d *Disk) hasChanged(name string) bool {
	info, err := d.top.root.Lstat(cmp.Or(name, "."))
	if err != nil {
		return !isGone(err)
	}
	facts, _ := factsOf(info)
	return info.IsDir() && d.sinceChange(facts) <= writeback
}

// syncContent makes the content of a file durable, unless something else has its name.
func (d *Disk) syncContent(name string) error {
	parent, last := split(name)
	at, err := d.top.open(parent)
	if err != nil {
		return err
	}
	defer discard(at.root)
	info, err := at.root.Lstat(last)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := openSame(at, info, forSync)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(f), f.Close())
}

// syncNamesIn makes the names in a directory durable.
func (d *Disk) syncNamesIn(name string) error {
	at, err := d.top.open(name)
	if err != nil {
		return err
	}
	defer discard(at.root)
	return at.sync()
}
