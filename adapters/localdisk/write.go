package localdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"collab/adapters/syncfs"
	"collab/domain/fault"
	"collab/domain/mirror"
)

// renameMode says what becomes of a file that has the new name.
type renameMode int

const (
	replacing  renameMode = iota // it is removed
	exclusive                    // it stays, and the rename fails with fs.ErrExist
	exchanging                   // it gets the old name
)

// rename renames a file or directory. It returns errors.ErrUnsupported if the file system has no
// exchange.
func (d *Disk) rename(from directory, name string, to directory, newName string, mode renameMode) error {
	err := renameAt(from, name, to, newName, mode)
	if errors.Is(err, errors.ErrUnsupported) && mode != exchanging {
		err = d.renamePath(from.below(name), to.below(newName), mode)
	}
	return err
}

// renamePath renames a file or directory where renameAt cannot.
func (d *Disk) renamePath(from, to string, mode renameMode) error {
	if mode == replacing {
		return d.top.root.Rename(from, to)
	}
	release, err := hold(filepath.Join(d.path, filepath.FromSlash(from)))
	if err != nil {
		return err
	}
	err = d.top.root.Link(from, to)
	if err == nil {
		if err = d.top.root.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(err, d.top.root.Remove(to))
		}
		release()
		return err
	}
	release()
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	// Directories and some file systems have no links.
	if _, err := d.top.root.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	return d.top.root.Rename(from, to)
}

// Stage implements ports.DiskWriter.
func (d *Disk) Stage(ctx context.Context, name string, offset int64, r io.Reader) (checksum string, err error) {
	f, err := d.openStaged(name, offset)
	if err != nil {
		return "", failed(err, "The download cannot be stored")
	}
	defer func() {
		if err = errors.Join(err, f.Close()); isFull(err) || errors.Is(err, errNoSpace) {
			err = errors.Join(err, d.staging.root.Remove(name))
		}
		err = failed(err, "The download cannot be stored")
	}()
	sum, buffer := sha256.New(), buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	if _, err := io.CopyBuffer(sum, io.LimitReader(f, offset), buffer[:]); err != nil {
		return "", err
	}
	content := &freeSpaceReader{Reader: &contextReader{ctx, r}, disk: d}
	_, err = io.CopyBuffer(io.MultiWriter(syncfs.NewWriter(f, offset), sum), content, buffer[:])
	return hex.EncodeToString(sum.Sum(nil)), err
}

// openStaged opens a file for staged content, of which it keeps what is before the offset.
func (d *Disk) openStaged(name string, offset int64) (*os.File, error) {
	open := func(flags int) (*os.File, error) {
		return d.staging.root.OpenFile(name, os.O_RDWR|os.O_CREATE|flags, 0o666)
	}
	if offset == 0 { // mostly there is no file yet
		f, err := open(os.O_EXCL)
		if errors.Is(err, fs.ErrExist) {
			if err = d.staging.root.Remove(name); err == nil {
				f, err = open(os.O_EXCL)
			}
		}
		return f, err
	}
	f, err := open(0)
	if errors.Is(err, fs.ErrPermission) { // it has the permissions of a file that it could not replace
		if err = d.staging.root.Chmod(name, 0o600); err == nil {
			f, err = open(0)
		}
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() < offset:
		err = fault.New(fault.Conflict, "Only %d bytes of the download are stored", info.Size())
	case info.Size() > offset:
		err = f.Truncate(offset)
	}
	if err != nil {
		discard(f)
		return nil, err
	}
	return f, nil
}

// contextReader fails when the context ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// freeSpaceReader fails when storing the read bytes would leave less than minFree. It checks once per
// freeSpaceStep bytes.
type freeSpaceReader struct {
	io.Reader
	disk    *Disk
	checked int // bytes for which there was space at the last check
}

func (r *freeSpaceReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.checked -= n; r.checked < 0 { // a check on a network file system asks its server
		if r.disk.free() < uint64(n)+minFree {
			return 0, errNoSpace
		}
		r.checked = freeSpaceStep
	}
	return n, err
}

var errNoSpace = fault.New(fault.Unavailable, "The download would leave less than %d MiB of the disk.", minFree>>20)

// Staged implements ports.DiskWriter. Content of which renamePath has made a file of the directory, and then was
// interrupted, counts for nothing.
func (d *Disk) Staged(_ context.Context, name string, size int64) (staged int64, err error) {
	info, err := d.staging.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, failed(err, "The download cannot be read")
	case !hasLinks(d.staging, info):
		staged = info.Size()
	}
	if free := d.free(); staged < size && free < uint64(size-staged)+minFree {
		return staged, fault.New(fault.Unavailable, "The disk has no room for it: %d bytes are free, of which "+
			"%d stay, and %d are to be downloaded. To empty %s/%s may make room.",
			free, minFree, size-staged, mirror.StateDirectory, trashName)
	}
	return staged, nil
}

// minFree is how many bytes of the disk downloads leave free, so that the state can be stored. Each download may
// exceed it by freeSpaceStep.
const minFree = 8 << 20

// freeSpaceStep is how many bytes of a download are stored between checks of the free space.
const freeSpaceStep = 256 << 10

// Place implements ports.DiskWriter. A file that it replaces keeps its permissions. Contents that cannot be synced
// are not staged any more.
func (d *Disk) Place(_ context.Context, contents ...mirror.Placement) []mirror.Placed {
	placed := make([]mirror.Placed, len(contents))
	changes := d.newChanges(len(contents))
	synced := d.syncAll(changes.many, changes.failures, func() (err error) {
		for _, c := range contents {
			err = errors.Join(err, d.syncStaged(c.Name))
		}
		return err
	})
	for i, c := range contents {
		if synced != nil {
			_ = d.staging.root.Remove(c.Name) // another sync would succeed without what this one could not write
			placed[i].Err = failed(synced, "%s cannot be written", c.Path)
			continue
		}
		placed[i].Entry, placed[i].Err = d.place(c, changes)
		changes.add(&placed[i].Err, c.Path)
	}
	changes.sync()
	return placed
}

// place gives staged content its path.
func (d *Disk) place(c mirror.Placement, changes *changes) (e mirror.Entry, err error) {
	// The kernel's times are ticks of a clock. With a time between two of them, a change by
	// somebody else in the same tick shows.
	err = setTimes(d.staging, c.Name, time.Now())
	name, at := c.Path, directory{}
	switch {
	case err != nil:
	case c.Target == nil:
		at, err = d.placeNew(c.Name, c.Path, changes)
	default:
		name = c.Target.Name
		at, err = d.replace(c.Name, *c.Target, changes)
	}
	var info fs.FileInfo
	if err == nil {
		_, name = split(name)
		info, err = at.root.Lstat(name)
	}
	if err != nil {
		return e, failed(err, "%s cannot be written", c.Path)
	}
	return d.entryOf(at, info), nil
}

// syncStaged makes staged content durable. It ignores that there is none.
func (d *Disk) syncStaged(name string) error {
	f, err := d.staging.root.OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// placeNew gives staged content a name that is free, and returns its directory.
func (d *Disk) placeNew(name, path string, changes *changes) (to directory, err error) {
	d.directories.Lock()
	defer d.directories.Unlock()
	parent, base := split(path)
	if to, err = changes.openOrCreate(parent); err != nil {
		return to, err
	}
	err = d.rename(d.staging, name, to, base, exclusive)
	if errors.Is(err, fs.ErrExist) && d.removeBlockingDirectory(to, base) {
		err = d.rename(d.staging, name, to, base, exclusive)
	}
	return to, err
}

// replace gives staged content the name of the target, and returns its directory.
func (d *Disk) replace(name string, target mirror.Entry, changes *changes) (directory, error) {
	at, info, err := d.lookUp(target, changes.open)
	if err == nil {
		err = d.staging.root.Chmod(name, info.Mode().Perm())
	}
	if err == nil {
		err = d.replaceFile(name, at, info, target)
	}
	return at, err
}

// replaceFile exchanges the file with the staged content in the trash, where a change that was made
// since the file was looked up is found, and is safe if the process ends.
func (d *Disk) replaceFile(name string, at directory, info fs.FileInfo, target mirror.Entry) error {
	trash, err := d.toTrash(d.staging, name, target.Name)
	if err != nil {
		return err
	}
	defer discard(trash.root)
	err = d.rename(trash, info.Name(), at, info.Name(), exchanging)
	if errors.Is(err, errors.ErrUnsupported) {
		if err = d.overwrite(trash, at, info); err == nil {
			return nil
		}
	} else if err == nil {
		if _, err = sameContent(trash, info.Name(), info); err == nil {
			return trash.root.Remove(info.Name())
		}
		err = errors.Join(err, d.rename(trash, info.Name(), at, info.Name(), exchanging))
	}
	return errors.Join(err, d.rename(trash, info.Name(), d.staging, name, exclusive))
}

// overwrite replaces a file, on a file system without exchange, by the one of the same name in
// another directory. It returns errChanged if the file is not as before.
func (d *Disk) overwrite(from, at directory, before fs.FileInfo) error {
	if _, err := sameContent(at, before.Name(), before); err != nil {
		return err
	}
	err := d.rename(from, before.Name(), at, before.Name(), replacing)
	if mode := before.Mode().Perm(); errors.Is(err, fs.ErrPermission) && mode&0o200 == 0 {
		// Windows replaces no file that is read-only.
		if err = at.root.Chmod(before.Name(), mode|0o200); err == nil {
			if err = d.rename(from, before.Name(), at, before.Name(), replacing); err != nil {
				err = errors.Join(err, at.root.Chmod(before.Name(), mode))
			}
		}
	}
	return err
}

// sameContent returns what a file is now, and errChanged if it has been changed. A rename may have
// changed its name and the time of its inode.
func sameContent(at directory, name string, before fs.FileInfo) (fs.FileInfo, error) {
	now, err := at.root.Lstat(name)
	if err == nil && !(os.SameFile(now, before) && now.Size() == before.Size() && now.ModTime().Equal(before.ModTime())) {
		err = errChanged
	}
	return now, err
}

// maxTrashNames is how many more names toTrash tries if one is taken.
const maxTrashNames = 100

// toTrash moves a file to a name in the trash that is like the one of original, and returns the
// directory there.
func (d *Disk) toTrash(from directory, name, original string) (directory, error) {
	now := d.clock.Now()
	parent, last := split(original)
	for i := 0; ; i++ {
		// All but one of the files that have one name on a day are in directories of their own.
		in := path.Join(trashName, trashDay(now, i), parent)
		err := d.state.root.MkdirAll(in, 0o700)
		var to directory
		if err == nil {
			to, err = d.state.open(in)
		}
		if err == nil {
			if err = d.rename(from, name, to, last, exclusive); err == nil {
				return to, nil
			}
			discard(to.root)
		}
		if i == maxTrashNames || !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return directory{}, err
		}
	}
}

// Rename implements ports.DiskWriter.
func (d *Disk) Rename(_ context.Context, renames ...mirror.Renaming) []mirror.Placed {
	renamed := make([]mirror.Placed, len(renames))
	changes := d.newChanges(len(renames))
	for i, r := range renames {
		at, info, err := d.lookUp(r.Entry, changes.open)
		if err == nil {
			renamed[i].Entry, err = d.renameFound(at, info, r, changes)
		}
		renamed[i].Err = err
		changes.add(&renamed[i].Err, r.Path)
	}
	changes.sync()
	return renamed
}

// renameFound renames a file or directory that was looked up. A file that was changed since gets
// its old name again.
func (d *Disk) renameFound(at directory, info fs.FileInfo, r mirror.Renaming, changes *changes) (renamed mirror.Entry, err error) {
	parent, last := split(r.Path)
	d.directories.Lock()
	to, err := changes.openOrCreate(parent)
	if err == nil {
		err = d.rename(at, info.Name(), to, last, exclusive)
		if errors.Is(err, fs.ErrExist) && mirror.KeyOf(r.Entry.Path) == mirror.KeyOf(r.Path) {
			names, listErr := to.names(-1)
			if listErr == nil && !slices.Contains(names, last) { // some file systems in user space have an inode for each spelling
				err = d.rename(at, info.Name(), to, last, replacing) // the same file in another case
			}
		}
	}
	d.directories.Unlock()
	var now fs.FileInfo
	if err == nil {
		now, err = sameContent(to, last, info)
		if errors.Is(err, errChanged) && info.IsDir() {
			err = nil // what is in it has changed
		} else if errors.Is(err, errChanged) {
			err = errors.Join(err, d.rename(to, last, at, info.Name(), exclusive))
		}
	}
	if err != nil {
		return renamed, failed(err, "%s cannot be renamed to %s", r.Entry.Path, r.Path)
	}
	if r.Entry.Kind == mirror.File {
		changes.left[at.name] = r.Entry.Name
	}
	renamed = d.entryOf(to, now)
	renamed.Checksum = r.Entry.Checksum
	return renamed, nil
}

// Trash implements ports.DiskWriter.
func (d *Disk) Trash(_ context.Context, files ...mirror.Entry) []error {
	errs := make([]error, len(files))
	changes := d.newChanges(len(files))
	for i, e := range files {
		if e.Kind == mirror.Directory {
			d.prune(e.Name + "/")
			continue
		}
		at, info, err := d.lookUp(e, changes.open)
		if err == nil {
			err = d.trashFound(at, info, e, changes)
		}
		errs[i] = failed(err, "%s cannot be moved to the trash", e.Path)
		changes.add(&errs[i], e.Path)
	}
	changes.sync()
	return errs
}

// trashFound moves a file that was looked up to the trash, unless it was changed since.
func (d *Disk) trashFound(at directory, info fs.FileInfo, e mirror.Entry, changes *changes) error {
	trash, err := d.toTrash(at, info.Name(), e.Name)
	if err != nil {
		return err
	}
	defer changes.keep(trash)
	if _, err := sameContent(trash, info.Name(), info); err != nil {
		return errors.Join(err, d.rename(trash, info.Name(), at, info.Name(), exclusive))
	}
	changes.left[at.name] = e.Name
	return nil
}

// prune removes the directories above a name, which may end with a slash, that have nothing but system files in them.
func (d *Disk) prune(name string) {
	d.directories.Lock()
	defer d.directories.Unlock()
	for parent, _ := split(name); parent != ""; {
		above, last := split(parent)
		in, err := d.top.open(above)
		if err != nil {
			return // it is gone
		}
		removed := in.removeDirectory(last, false)
		discard(in.root)
		if !removed {
			return
		}
		parent = above
	}
}

// hasOtherFiles reports whether one of the first names of the directory is not that of a system file. It spares
// removeDirectory from listing a whole directory for each file that is removed from it.
func (at directory) hasOtherFiles() bool {
	names, err := at.names(16)
	return err != nil || slices.ContainsFunc(names, func(name string) bool { return !isSystemFile(name) })
}

// names returns names in the directory, all or, if most is positive, so many at most.
func (at directory) names(most int) ([]string, error) {
	f, err := at.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer discard(f)
	names, err := f.Readdirnames(most)
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// removeDirectory removes a directory that has nothing but system files in it, and, if deep is set,
// directories of which the same holds. It reports whether it did.
func (at directory) removeDirectory(name string, deep bool) bool {
	in, err := at.enter(name)
	if err != nil {
		return false
	}
	defer discard(in.root)
	if !deep && in.hasOtherFiles() {
		return false
	}
	var found []string
	clear := true
	err = in.each(func(info fs.FileInfo) error {
		switch {
		case info.IsDir() && deep && in.removeDirectory(info.Name(), deep):
		case info.Mode().IsRegular() && isSystemFile(info.Name()):
			found = append(found, info.Name())
		default:
			clear = false
		}
		return nil
	})
	if err != nil || !clear {
		return false
	}
	for _, name := range found {
		if err := in.root.Remove(name); err != nil {
			return false
		}
	}
	return at.root.Remove(name) == nil
}

// removeBlockingDirectory removes a directory that has nothing but system files in it and below, and is not the
// state directory. It reports whether it did.
func (d *Disk) removeBlockingDirectory(at directory, name string) bool {
	in, err := at.enter(name)
	if err != nil {
		return false
	}
	isState := d.isState(in)
	discard(in.root)
	return !isState && at.removeDirectory(name, true)
}

// maxDayGap is the longest time between the day of trash and the present at which both count as right. After a longer
// one the clock was wrong when the files went to the trash, or is wrong now.
const maxDayGap = 100 * 24 * time.Hour

// trashNotice is for how long trash must have been seen to become old before it is removed: a clock that was wrong may
// be right again by then. The modification time of a day's directory says since when, if it is as late as that.
const trashNotice = 7 * 24 * time.Hour

// Clean implements ports.DiskWriter.
func (d *Disk) Clean(_ context.Context, staged, trash time.Time) error {
	var errs []error
	errs = append(errs, d.staging.each(func(info fs.FileInfo) error {
		if info.ModTime().Before(staged) {
			return d.staging.root.Remove(info.Name())
		}
		return nil
	}))
	in, err := d.state.enter(trashName)
	if err == nil {
		defer discard(in.root)
		err = in.cleanTrash(trash, d.clock.Now())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return failed(errors.Join(append(errs, err)...), "The trash cannot be emptied")
}

// cleanTrash removes the trash of days before a time after trashNotice, but moves trash farther than maxDayGap from now to
// the present day.
func (at directory) cleanTrash(before, now time.Time) error {
	var old, noticed, misdated []string
	err := at.each(func(info fs.FileInfo) error {
		day, err := time.Parse(time.DateOnly, info.Name()[:min(len(info.Name()), len(time.DateOnly))])
		age, seen := before.Sub(day.AddDate(0, 0, 1)), info.ModTime() // at least 0 is old
		switch {
		case err != nil:
		case now.Sub(day).Abs() > maxDayGap:
			misdated = append(misdated, info.Name())
		case seen.After(now), age >= -trashNotice && age-now.Sub(seen) < -trashNotice:
			noticed = append(noticed, info.Name())
		case age >= 0 && now.Sub(seen) >= trashNotice:
			old = append(old, info.Name())
		}
		return nil
	})
	for _, name := range noticed {
		err = errors.Join(err, at.root.Chtimes(name, now, now))
	}
	for i, name := range misdated {
		err = errors.Join(err, at.root.Rename(name, trashDay(now, i+1)))
	}
	for _, name := range old {
		err = errors.Join(err, at.root.RemoveAll(name))
	}
	return err
}

// trashDay returns the name in the trash of the i-th directory of a day that is made at now; the first one is 0.
func trashDay(now time.Time, i int) string {
	day := now.Format(time.DateOnly)
	if i > 0 {
		day = fmt.Sprintf("%s %s.%d", day, now.Format("150405.000"), i)
	}
	return day
}
