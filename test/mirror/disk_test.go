package mirror_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"

	"golang.org/x/text/unicode/norm"
)

// file is a file of a virtual disk.
type file struct {
	kind          mirror.EntryKind // File, Symlink or Special
	content       string
	changed, made int64 // modification time and time of the inode's change, in nanoseconds
	inode         uint64
}

// disk is a virtual disk with the behaviour of some file system. A name of a directory or file is
// spelled in one way in all paths.
type disk struct {
	insensitive bool             // names that differ in case are one
	decomposing bool             // names are stored in decomposed form
	grain       time.Duration    // of modification times
	inodes      bool             // files have inodes and times of their change
	now         func() time.Time // by the machine's clock, which can be wrong by skew
	skew        time.Duration
	steady      func() time.Time    // by a clock that is right
	wait        func(time.Duration) // until times show changes

	files       map[string]*file
	directories map[string]bool
	staged      map[string]string
	unsynced    []unsynced      // what programs have changed, in order
	trash       map[string]bool // contents
	held        string          // the name of a file that another program has open
	exclusive   bool            // which does not let others read it
	closed      string          // the name of a directory that the client may not read
	inode       uint64
	ticks       int64           // of the inodes' times
	lock        sync.Mutex      // of absent, as files are opened side by side
	absent      map[string]bool // names that the client has found to have no file, in this round
	identity    string
	gone        bool
	rules       *mirror.Rules // that were read last

	// before is called with each call of the client, and may fail it; half says that the call is
	// to be done in part, as far as it can be.
	before  func(call string) (half bool, err error)
	placed  func(content string) // by the client, under a new name or in a file's place
	alters  func(path string)    // is called before the client changes what a path has
	trashes func(e mirror.Entry) // is called before the client removes a file
	ruled   func()               // is called when the client reads the rules
	stopped func() bool          // reports whether the client was killed
	midway  func(read []string)  // is called in the middle of a scan, with the names of the files that it has read
}

var (
	_ ports.Disk       = (*disk)(nil)
	_ ports.DiskWriter = (*disk)(nil)
)

func newDisk(now func() time.Time) *disk {
	d := &disk{
		steady: now, trash: map[string]bool{}, absent: map[string]bool{}, files: map[string]*file{}, directories: map[string]bool{}, staged: map[string]string{}, identity: "root", inodes: true, grain: 1,
		wait: func(time.Duration) {}, before: func(string) (bool, error) { return false, nil }, placed: func(string) {}, alters: func(string) {}, trashes: func(mirror.Entry) {}, ruled: func() {}, midway: func([]string) {}, stopped: func() bool { return false },
	}
	d.now = func() time.Time { return now().Add(d.skew) }
	return d
}

// unsynced is what a name had before a program changed it.
type unsynced struct {
	at   time.Time
	name string
	was  *file // nil if there was none
	own  bool  // the client has changed it
}

// writeback is how long what programs have changed is not on stable storage.
const writeback = 30 * time.Second

// changes notes that a program changes what a name has.
func (d *disk) changes(name string) {
	u := unsynced{at: d.steady(), name: name}
	if f := d.files[name]; f != nil {
		was := *f
		u.was = &was
	}
	d.unsynced = append(d.unsynced, u)
}

// synced notes that what a name has, and what is below it, is on stable storage.
func (d *disk) synced(name string) {
	d.unsynced = slices.DeleteFunc(d.unsynced, func(u unsynced) bool { return u.name == name || strings.HasPrefix(u.name, name+"/") })
}

// durable reports whether what a name has, or that it has nothing, is on stable storage.
func (d *disk) durable(name string) bool {
	return !slices.ContainsFunc(d.unsynced, func(u unsynced) bool { return u.name == name && d.steady().Sub(u.at) < writeback })
}

// stop is a power failure: what was changed since a time not longer ago than writeback is
// undone or, with torn, files that were written in place are empty. It returns the contents that programs
// gave the names.
func (d *disk) stop(ago time.Duration, torn bool) (before []string) {
	for _, u := range slices.Backward(d.unsynced) {
		f := d.files[u.name]
		if d.steady().Sub(u.at) >= min(ago, writeback) {
			break
		}
		if u.was != nil {
			before = append(before, u.was.content)
		}
		if f != nil && !u.own {
			before = append(before, f.content)
		}
		if torn && u.was != nil && f != nil && u.was.inode == f.inode && u.was.content != f.content {
			f.content = ""
			continue
		}
		delete(d.files, u.name)
		if _, taken := find(d, d.directories, u.name); u.was != nil && !taken && d.mkdir(u.name) == nil {
			d.files[u.name] = u.was
		}
	}
	for name, content := range d.staged {
		if d.staged[name] = strings.Repeat("?", len(content)); !torn {
			delete(d.staged, name)
		}
	}
	d.unsynced = nil
	return before
}

// busy returns an error if another program has the file of a name open, or one below it.
func (d *disk) busy(name string) error {
	if d.held == name || strings.HasPrefix(d.held, name+"/") {
		return fault.New(fault.Unavailable, "%s is open in another program", name)
	}
	return nil
}

// barred returns an error if a name is that of the closed directory, or below it.
func (d *disk) barred(name string) error {
	if d.closed != "" && strings.HasPrefix(name+"/", d.closed+"/") {
		return fault.New(fault.Forbidden, "%s cannot be read", d.closed)
	}
	return nil
}

// spelled returns a path as the disk stores new names.
func (d *disk) spelled(p string) string {
	if d.decomposing {
		return norm.NFD.String(p)
	}
	return p
}

func (d *disk) same(a, b string) bool {
	switch {
	case d.insensitive:
		return object.Fold(a) == object.Fold(b)
	case d.decomposing:
		return norm.NFC.String(a) == norm.NFC.String(b)
	}
	return a == b
}

// find returns the name that a path has on the disk.
func find[T any](d *disk, in map[string]T, p string) (string, bool) {
	if _, ok := in[p]; ok {
		return p, true
	}
	for name := range in {
		if d.same(name, p) {
			return name, true
		}
	}
	return "", false
}

// target returns the name for a new file, with the directories that exist under any spelling.
func (d *disk) target(p string) string {
	directory, base := path.Split(p)
	directory = strings.TrimSuffix(directory, "/")
	if directory == "" {
		return d.spelled(base)
	}
	if name, ok := find(d, d.directories, directory); ok {
		return name + "/" + d.spelled(base)
	}
	for _, name := range slices.Sorted(maps.Keys(d.directories)) {
		if object.Fold(name) == object.Fold(directory) {
			return name + "/" + d.spelled(base)
		}
	}
	return d.target(directory) + "/" + d.spelled(base)
}

// mkdir makes the directories above a name. Conflict if one is a file.
func (d *disk) mkdir(name string) error {
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		if _, ok := find(d, d.files, above); ok {
			return fault.New(fault.Conflict, "%s is a file", above)
		}
	}
	for above := path.Dir(name); above != "."; above = path.Dir(above) {
		d.directories[above] = true
	}
	return nil
}

// prune removes the directories above a name that are empty.
func (d *disk) prune(name string) {
	for above := path.Dir(name); above != "." && d.empty(above); above = path.Dir(above) {
		delete(d.directories, above)
	}
}

func (d *disk) empty(directory string) bool {
	below := func(name string) bool { return strings.HasPrefix(name, directory+"/") }
	for name := range d.files {
		if below(name) && !junk(name) {
			return false
		}
	}
	for name := range d.directories {
		if below(name) && !d.empty(name) {
			return false
		}
	}
	maps.DeleteFunc(d.files, func(name string, _ *file) bool { return below(name) })
	maps.DeleteFunc(d.directories, func(name string, _ bool) bool { return below(name) })
	return true
}

func junk(name string) bool {
	return strings.EqualFold(path.Base(name), ".DS_Store") || strings.EqualFold(path.Base(name), "Thumbs.db")
}

func (d *disk) touch(f *file, content string) {
	now := d.now()
	d.ticks++
	f.content, f.changed, f.made = content, now.Truncate(d.grain).UnixNano(), now.UnixNano()+d.ticks
}

func (d *disk) facts(f *file) mirror.Facts {
	facts := mirror.Facts{Size: int64(len(f.content)), ModTime: f.changed}
	if d.inodes {
		facts.ChangeTime, facts.Inode = f.made, f.inode
	}
	return facts
}

// show waits until the times of a file show every later change, unless they are in the future.
func (d *disk) show(f *file) {
	if since := d.now().UnixNano() - f.changed; !d.inodes && since < int64(d.grain) && since >= 0 {
		d.wait(d.grain)
	}
}

func (d *disk) entry(name string) mirror.Entry {
	return mirror.Entry{Path: norm.NFC.String(name), Name: name, Facts: d.facts(d.files[name])}
}

// current returns the file of an entry if it is as it was found.
func (d *disk) current(e mirror.Entry) (*file, error) {
	if err := d.barred(e.Name); err != nil {
		return nil, err
	}
	f := d.files[e.Name]
	switch {
	case f == nil:
		return nil, fault.Missing("File")
	case f.kind != mirror.File:
		return nil, fault.New(fault.Conflict, "%s is no file any more", e.Name)
	case d.facts(f) != e.Facts:
		return nil, fault.New(fault.Conflict, "%s has changed", e.Name)
	}
	return f, nil
}

// write is what a program does.
func (d *disk) write(p, content string) bool {
	if name, ok := find(d, d.files, p); ok {
		d.changes(name)
		d.touch(d.files[name], content)
		d.files[name].kind = mirror.File
		return true
	}
	name := d.target(p)
	if _, ok := find(d, d.directories, name); ok || d.mkdir(name) != nil {
		return false
	}
	d.changes(name)
	d.inode++
	f := &file{inode: d.inode}
	d.touch(f, content)
	d.files[name] = f
	return true
}

// remove is what a program does.
func (d *disk) remove(name string) {
	d.changes(name)
	delete(d.files, name)
	d.prune(name)
}

// move is what a program does; it takes files as well as directories.
func (d *disk) move(from, to string) bool {
	name := d.target(to)
	f, isFile := d.files[from]
	if name == from {
		return isFile || d.directories[from]
	}
	if strings.HasPrefix(name+"/", from+"/") && name != from {
		return false
	}
	if other, taken := find(d, d.files, name); taken && other != from {
		return false
	}
	if other, taken := find(d, d.directories, name); taken && other != from {
		return false
	}
	if d.mkdir(name) != nil {
		return false
	}
	if isFile {
		d.changes(from)
		d.changes(name)
		delete(d.files, from)
		d.files[name] = f
		d.ticks++
		f.made = d.now().UnixNano() + d.ticks
		return true
	}
	for below, f := range maps.Clone(d.files) {
		if rest, ok := strings.CutPrefix(below, from+"/"); ok {
			d.changes(below)
			d.changes(name + "/" + rest)
			delete(d.files, below)
			d.files[name+"/"+rest] = f
		}
	}
	for below := range maps.Clone(d.directories) {
		if rest, ok := strings.CutPrefix(below+"/", from+"/"); ok {
			delete(d.directories, below)
			d.directories[strings.TrimSuffix(name+"/"+rest, "/")] = true
		}
	}
	return true
}

func (d *disk) Identity(context.Context) (string, error) {
	if _, err := d.before("root"); err != nil {
		return "", err
	}
	if d.gone {
		return "", fault.Missing("Directory")
	}
	return d.identity, nil
}

func (d *disk) Rules(context.Context) (mirror.Rules, error) {
	rules := d.present()
	d.rules = &rules
	d.ruled()
	return rules, nil
}

// present returns the rules as the file of patterns says now.
func (d *disk) present() mirror.Rules {
	if f := d.files[mirror.IgnoreFile]; f != nil && f.kind == mirror.File {
		return rulesOf(f.content)
	}
	return rulesOf("")
}

// rulesOf returns the rules that follow from patterns, one a line.
func rulesOf(text string) mirror.Rules {
	patterns := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" || line[0] == '#' })
	return mirror.Rules{
		Hash: must.Sum(text),
		Ignored: func(p string) bool {
			if junk(p) {
				return true
			}
			ignored := false
			for i, segments := 1, strings.Split(p, "/"); i <= len(segments) && len(patterns) > 0; i++ {
				inner := i < len(segments)
				for _, pattern := range patterns {
					pattern, keep := strings.CutPrefix(pattern, "!")
					pattern, directory := strings.CutSuffix(pattern, "/")
					if ok, _ := path.Match(pattern, segments[i-1]); ok && (inner || !directory) {
						ignored = !keep
					}
				}
				if ignored && inner {
					return true
				}
			}
			return ignored
		},
		Refused: func(string) string { return "" },
	}
}

func (d *disk) Scan(_ context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	if _, err := d.before("scan"); err != nil {
		return err
	}
	if d.gone {
		return fault.Missing("Directory")
	}
	rules := d.rules
	in := func(p string) bool {
		return slices.ContainsFunc(scope.Trees, func(tree string) bool { return tree == "" || strings.HasPrefix(p, tree+"/") }) ||
			slices.Contains(scope.Directories, strings.TrimPrefix(path.Dir("/"+p), "/"))
	}
	for _, name := range slices.Sorted(maps.Keys(d.directories)) {
		p := norm.NFC.String(name)
		e := mirror.Entry{Path: p, Name: name, Kind: mirror.Directory}
		if rules.Ignored(p + "/\x00") {
			e.Kind = mirror.IgnoredDirectory
		}
		if !in(p) || rules.Ignored(path.Dir(p)+"/\x00") || d.barred(path.Dir(name)) != nil {
			continue
		}
		if err := each(e); err != nil {
			return err
		}
	}
	unread := slices.Concat(scope.Trees, scope.Directories)
	if in(norm.NFC.String(d.closed)) {
		unread = append(unread, d.closed)
	}
	for _, name := range unread {
		name, exists := find(d, d.directories, name)
		p := norm.NFC.String(name)
		if exists && d.barred(name) != nil && !rules.Ignored(p+"/\x00") {
			if err := each(mirror.Entry{Path: p, Name: name, Kind: mirror.Unreadable}); err != nil {
				return err
			}
		}
	}
	names := slices.Sorted(maps.Keys(d.files))
	for i, name := range names {
		if i == len(names)/2 {
			d.midway(names[:i])
		}
		f := d.files[name]
		if f == nil {
			continue
		}
		e := d.entry(name)
		if !in(e.Path) || junk(e.Path) || rules.Ignored(path.Dir(e.Path)+"/\x00") || d.barred(name) != nil {
			continue
		}
		e.Kind = f.kind
		if rules.Ignored(e.Path) {
			e.Kind = mirror.IgnoredFile
		}
		if e.Kind != mirror.File {
			if err := each(e); err != nil {
				return err
			}
			continue
		}
		facts, sum, ok := known(name)
		if e.Checksum = sum; !ok || facts != e.Facts || d.now().UnixNano() < f.changed {
			d.show(f)
			e.Checksum = must.Sum(f.content)
		}
		if d.exclusive && d.busy(name) != nil {
			e.Kind = mirror.Unreadable
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// checked is content whose file must be as it was found when all of it was read.
type checked struct {
	io.Reader
	d *disk
	e mirror.Entry
}

func (c checked) Close() error { return nil }

func (c checked) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		if _, changed := c.d.current(c.e); changed != nil {
			return n, fault.Wrap(fault.Conflict, changed, "The file was changed meanwhile")
		}
	}
	return n, err
}

func (d *disk) Open(_ context.Context, e mirror.Entry) (io.ReadCloser, error) {
	if _, err := d.before("open"); err != nil {
		return nil, err
	}
	f, err := d.current(e)
	d.lock.Lock()
	d.absent[e.Name] = f == nil && d.files[e.Name] == nil && d.barred(e.Name) == nil
	d.lock.Unlock()
	if err == nil && d.exclusive {
		err = d.busy(e.Name)
	}
	if err != nil {
		return nil, err
	}
	return checked{strings.NewReader(f.content), d, e}, nil
}

func (d *disk) Sync(_ context.Context, files ...mirror.Entry) []error {
	_, err := d.before("sync")
	errs := make([]error, len(files))
	for i, e := range files {
		if errs[i] = cmp.Or(err, d.barred(e.Name)); errs[i] == nil && d.exclusive && d.files[e.Name] != nil {
			errs[i] = d.busy(e.Name)
		}
		if errs[i] == nil {
			d.synced(e.Name)
		}
	}
	return errs
}

func (d *disk) Stage(_ context.Context, name string, offset int64, r io.Reader) (string, error) {
	half, err := d.before("stage")
	if int64(len(d.staged[name])) < offset {
		return "", fault.New(fault.Conflict, "fewer bytes are staged")
	}
	if err != nil && !half {
		return "", err
	}
	var b bytes.Buffer
	_, readErr := io.Copy(&b, r)
	content := b.String()
	if half {
		content = content[:len(content)/2]
	} else {
		err = readErr
	}
	content = d.staged[name][:offset] + content
	d.staged[name] = content
	return must.Sum(content), err
}

func (d *disk) Staged(_ context.Context, name string, _ int64) (int64, error) {
	if _, err := d.before("staged"); err != nil {
		return 0, err
	}
	return int64(len(d.staged[name])), nil
}

func (d *disk) Place(_ context.Context, contents ...mirror.Placement) (placed []mirror.Placed) {
	for _, c := range contents {
		e, err := d.place(c.Name, c.Path, c.Target)
		placed = append(placed, mirror.Placed{Entry: e, Err: err})
	}
	return placed
}

func (d *disk) place(name, p string, target *mirror.Entry) (mirror.Entry, error) {
	half, err := d.before("place")
	if err != nil && !half {
		return mirror.Entry{}, err
	}
	d.alters(p)
	content, ok := d.staged[name]
	if !ok {
		return mirror.Entry{}, fault.Missing("Staged content")
	}
	to := d.target(p)
	if err := d.barred(to); err != nil {
		return mirror.Entry{}, err
	}
	if target != nil {
		_, changed := d.current(*target)
		if changed = cmp.Or(changed, d.busy(target.Name)); changed != nil {
			return mirror.Entry{}, changed
		}
		delete(d.files, target.Name)
		to = target.Name
	} else {
		if other, ok := find(d, d.files, to); ok {
			return mirror.Entry{}, fault.New(fault.Conflict, "%s is there", other)
		}
		if other, ok := find(d, d.directories, to); ok {
			if !d.empty(other) {
				return mirror.Entry{}, fault.New(fault.Conflict, "%s is a directory", other)
			}
			delete(d.directories, other)
		}
		if err := d.mkdir(to); err != nil {
			return mirror.Entry{}, err
		}
	}
	d.inode++
	f := &file{inode: d.inode}
	d.touch(f, content)
	d.files[to] = f
	d.synced(to)
	d.show(f)
	delete(d.staged, name)
	d.placed(content)
	return d.entry(to), err
}

func (d *disk) Rename(_ context.Context, renames ...mirror.Renaming) (renamed []mirror.Placed) {
	d.together(func(synced func(string)) {
		for _, r := range renames {
			e, err := d.rename(r.Entry, r.Path, synced)
			renamed = append(renamed, mirror.Placed{Entry: e, Err: err})
		}
	})
	return renamed
}

// together has changes by the client be on stable storage, and the directories go that files have left, after all of
// them, unless it is killed before.
func (d *disk) together(change func(synced func(name string))) {
	var names []string
	change(func(name string) { names = append(names, name) })
	if !d.stopped() {
		for _, name := range names {
			d.synced(name)
			if !d.directories[name] {
				d.prune(name)
			}
		}
	}
}

func (d *disk) rename(e mirror.Entry, p string, synced func(name string)) (mirror.Entry, error) {
	half, err := d.before("rename")
	if err != nil && !half {
		return mirror.Entry{}, err
	}
	if e.Kind == mirror.File {
		d.alters(e.Path)
		d.alters(p)
		if _, err := d.current(e); err != nil {
			return mirror.Entry{}, err
		}
	} else if !d.directories[e.Name] {
		return mirror.Entry{}, fault.Missing("Directory")
	}
	if err := cmp.Or(d.busy(e.Name), d.barred(e.Name), d.barred(d.target(p))); err != nil {
		return mirror.Entry{}, err
	}
	if !d.move(e.Name, p) {
		return mirror.Entry{}, fault.New(fault.Conflict, "%s is taken", p)
	}
	to := d.target(p)
	synced(e.Name)
	synced(to)
	if e.Kind == mirror.File {
		now := d.entry(to)
		d.placed(d.files[to].content)
		now.Checksum = e.Checksum
		return now, err
	}
	e.Path, e.Name = norm.NFC.String(to), to
	return e, err
}

func (d *disk) Trash(_ context.Context, files ...mirror.Entry) (errs []error) {
	d.together(func(synced func(string)) {
		for _, e := range files {
			if e.Kind == mirror.Directory {
				d.prune(e.Name + "/.")
				errs = append(errs, nil)
				continue
			}
			errs = append(errs, d.discard(e, synced))
		}
	})
	return errs
}

func (d *disk) discard(e mirror.Entry, synced func(name string)) error {
	half, err := d.before("trash")
	if err != nil && !half {
		return err
	}
	d.trashes(e)
	_, changed := d.current(e)
	if changed = cmp.Or(changed, d.busy(e.Name)); changed != nil {
		return changed
	}
	d.trash[d.files[e.Name].content] = true
	d.changes(e.Name)
	delete(d.files, e.Name)
	synced(e.Name)
	return err
}

func (d *disk) Clean(_ context.Context, staged, _ time.Time) error {
	if staged.After(d.now()) {
		clear(d.staged)
	}
	return nil
}

// platform sets what the disks of a platform have.
type platform func(*disk)

var platforms = map[string]platform{
	"linux":       func(*disk) {},
	"insensitive": func(d *disk) { d.insensitive = true },
	"darwin":      func(d *disk) { d.insensitive, d.decomposing, d.grain = true, true, time.Second },
	"windows":     func(d *disk) { d.insensitive, d.grain, d.inodes = true, 2*time.Second, false },
}

// opened is an empty virtual disk for the suites.
func opened(t *testing.T, of platform) contract.OpenedDisk {
	var waited time.Duration
	d := newDisk(func() time.Time { return time.Now().Add(waited) })
	d.wait = func(wait time.Duration) { waited += wait }
	of(d)
	return contract.OpenedDisk{
		Disk: d, Writer: d, Write: func(p, content string) {
			if !d.write(p, content) {
				t.Fatalf("%s cannot be written", p)
			}
		},
		Read: func(p string) (string, bool) {
			f, ok := d.files[p]
			if !ok {
				return "", false
			}
			return f.content, true
		},
		Remove: func(p string) {
			d.gone = d.gone || p == ""
			maps.DeleteFunc(d.files, func(name string, _ *file) bool { return name == p || strings.HasPrefix(name, p+"/") })
			maps.DeleteFunc(d.directories, func(name string, _ bool) bool { return name == p || strings.HasPrefix(name, p+"/") })
		},
		Mkdir: func(p string) { _ = d.mkdir(p + "/x") },
		Hold:  func(p string) { d.held, d.exclusive = p, true },
	}
}

func TestVirtualDisksBehaveAsRealOnes(t *testing.T) {
	for name, of := range platforms {
		open := func(t *testing.T) contract.OpenedDisk { return opened(t, of) }
		t.Run(name+"/reading", func(t *testing.T) { contract.Disk(t, open) })
		t.Run(name+"/writing", func(t *testing.T) { contract.DiskWriter(t, open) })
	}
}
