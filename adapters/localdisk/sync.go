package localdisk

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"collab/adapters/syncfs"
	"collab/domain/mirror"
	"collab/domain/object"
)

// failures returns the number of failed syncs of the file system, for syncAll.
func (d *Disk) failures() int {
	if d.fileSystem == nil {
		return 0
	}
	return d.fileSystem.Failures()
}

// syncAll calls each, which syncs files, or for many files syncs the file system as a whole where it can. Such a
// sync fails if another one has failed since failures returned the number.
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

// maxChanged is the most directories that a batch keeps open.
const maxChanged = 64

// changes is a batch of changes of names, which sync makes durable together.
type changes struct {
	disk     *Disk
	many     bool
	failures int               // as syncAll has it
	in       []directory       // whose names are not durable yet, each once
	unsynced map[string]int    // as Disk.openOrCreate has it
	left     map[string]string // of directories that files have left, the name of one of the files
	results  []result
}

// result is the result of a change that is not durable yet.
type result struct {
	err  *error
	path string
}

// newChanges returns an empty batch for a number of files.
func (d *Disk) newChanges(files int) *changes {
	return &changes{disk: d, many: files >= syncfs.MinFiles, failures: d.failures(), unsynced: map[string]int{}, left: map[string]string{}}
}

// open opens the directory of a name. It stays open until its names are durable.
func (c *changes) open(name string) (directory, error) { return c.opened(name, c.disk.top.open) }

// openOrCreate is Disk.openOrCreate for a directory that stays open likewise.
func (c *changes) openOrCreate(path string) (directory, error) {
	return c.opened(path, func(string) (directory, error) { return c.disk.openOrCreate(path, c.unsynced) })
}

func (c *changes) opened(name string, open func(name string) (directory, error)) (directory, error) {
	for _, at := range slices.Backward(c.in) {
		if at.name == name {
			return at, nil
		}
	}
	at, err := open(name)
	if err != nil {
		return at, err
	}
	if at.self, err = at.root.Open("."); err != nil {
		discard(at.root)
		return directory{}, err
	}
	c.in = append(c.in, at)
	return at, nil
}

// keep adds an open directory, or closes it if the batch has it already.
func (c *changes) keep(at directory) {
	if slices.ContainsFunc(c.in, func(other directory) bool { return other.name == at.name }) {
		at.close()
		return
	}
	c.in = append(c.in, at)
}

// add adds the result of a change of a path, which sync makes an error if it cannot be made durable.
func (c *changes) add(err *error, path string) {
	if *err == nil {
		c.results = append(c.results, result{err, path})
	}
	if len(c.in) >= maxChanged {
		c.sync()
	}
}

// sync makes the changes durable, and removes the directories that files have left and that then contain nothing but
// junk of the system.
func (c *changes) sync() {
	err := c.disk.syncNames(c.many, c.failures, c.in, c.unsynced)
	for _, r := range c.results {
		*r.err = failed(err, "%s cannot be made durable", r.path)
	}
	for _, at := range c.in {
		at.close()
	}
	if err == nil {
		for _, name := range c.left {
			c.disk.prune(name)
		}
	}
	c.in, c.results = nil, nil
	clear(c.unsynced)
	clear(c.left)
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
		if d.timeSinceChange(e.Facts) <= writeback {
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
	return info.IsDir() && d.timeSinceChange(facts) <= writeback
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
