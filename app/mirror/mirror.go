// Package mirror keeps a directory and a place of stored objects the same in both directions. A
// round scans what may have changed in the directory, reads what has changed on the server, makes
// a plan of domain/mirror, and does its steps.
//
// What is stored are observations, never pending work, and only after they were made: a row's
// Synced changes when both sides have the file. A process that is killed therefore finds at its
// next start either what it had done, which it adopts as equal on both sides, or what it had not,
// which it plans again.
package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
)

// Options has the dependencies and settings of a Mirror.
type Options struct {
	Disk         ports.Disk
	DiskWriter   ports.DiskWriter
	Watcher      ports.Watcher // for Run; may be nil without it
	State        ports.MirrorState
	Remote       ports.Remote
	RemoteWriter ports.RemoteWriter
	Clock        ports.Clock
	// Wait returns after the duration, or when ctx ends with its error.
	Wait func(ctx context.Context, d time.Duration) error
	// Random returns a number of at least 0 and less than 1; it spreads retries and scans.
	Random func() float64
	// Binding is what the directory is to be bound to. Root, Ignore and Window are not used.
	Binding mirror.Binding
	// Device is the name of this device in those of conflict copies.
	Device string
	// Workers is how many steps are done at a time, at least 1.
	Workers int
	// Resident is how many files may stay in memory while Run has nothing to do; 0 for all. More are
	// read from State again, and the directory is scanned, when something happens. Released is
	// called when they no longer take memory; nil for nobody.
	Resident int
	Released func()
	// Plan makes plans. It is mirror.MakePlan if nil.
	Plan func(mirror.Input) mirror.Plan
	// IsPaused reports whether no round is to be done at present; nil for never.
	IsPaused func() bool
	// Report is called with what happens, from several goroutines; nil for nobody.
	Report func(Event)
}

// Event is something that happened in a round.
type Event struct {
	Step    mirror.Step
	Kind    EventKind
	Bytes   int64 // of Planned: to transfer; of Transferred: since the last event of the step
	Steps   int   // of Planned
	Problem error // of Failed
}

// EventKind is what an event is about.
type EventKind uint8

const (
	Planned EventKind = iota // a plan, without a Step
	Transferred
	Done
	Failed
)

// Mirror is a directory that is synchronised. Its methods are not for concurrent use, but for
// Changed and AcceptDeletions.
type Mirror struct {
	Options

	loaded     bool
	rows       map[string]mirror.Row // as they are stored
	keys       map[id.Object]string  // of the rows with these objects
	cursor     object.Cursor
	binding    mirror.Binding
	entries    map[string]*mirror.Entry // the last scan, by name
	scanned    bool                     // the whole directory was, since the rows were loaded; else entries may lack files that rows have
	patterns   string                   // the hash of those of ignored files at the last scan
	noMoves    bool                     // the server cannot move files
	splitMoves map[[2]string]bool       // moves of directories that the server has refused, from and to
	refused    map[string]refusal       // by key
	sent       map[string][]inFlight    // by key, at most one of each checksum
	lastClean  time.Time                // when clean was last due
	window     mirror.DeletionWindow    // is stored before deletions are made
	paces      map[string]pace          // of files that Run has sent again, by key; nil without Run

	lock         sync.Mutex     // of what follows, and of the fields above during a round's steps
	limits       *mirror.Limits // nil if they are not known
	limitsReadAt time.Time      // zero if they were not read
	limited      bool           // files were held by the last round, perhaps because of them
	watchProblem string         // why changes of the directory are noticed late
	notified     bool           // all changes of the directory are notified
	interrupt    func()         // ends the present round of Run
	scope        mirror.Scope
	accept       bool
	storing      map[string]bool // keys of the rows that are being stored
	stored       sync.Cond       // some no longer are; with lock
	wakes        chan struct{}
}

// refusal is why a file is not tried again until one of its sides changes or, if there is one, the
// time has come.
type refusal struct {
	local, remote string // checksums
	held          mirror.Held
	until         time.Time
	wait          time.Duration // which until is the end of
	limited       bool          // because of the server's limits
	full          bool          // an upload, as the server had no room: it is not tried while the limits leave none
}

// pace is when a file was last sent again, and how long it is not sent after that.
type pace struct {
	last    time.Time
	wait    time.Duration
	facts   mirror.Facts // of the last content that was sent or put off
	changed bool         // twice within minPace
}

// lateness is how long after its request was given up a change may still be made by the server.
const lateness = 10 * time.Minute

// inFlight is an upload or a move whose answer has not come, so it may have been made or may still be.
type inFlight struct {
	id      id.Object     // empty if the object is new
	version int64         // of the object if the change was made
	file    *mirror.Entry // in the directory
	read    time.Time     // when the server was first read afterwards; zero if it was not
}

// New returns a mirror. It does nothing yet.
func New(o Options) *Mirror {
	if o.Plan == nil {
		o.Plan = mirror.MakePlan
	}
	if o.IsPaused == nil {
		o.IsPaused = func() bool { return false }
	}
	if o.Report == nil {
		o.Report = func(Event) {}
	}
	if o.Released == nil {
		o.Released = func() {}
	}
	m := &Mirror{
		Options: o, entries: map[string]*mirror.Entry{}, splitMoves: map[[2]string]bool{}, refused: map[string]refusal{}, sent: map[string][]inFlight{},
		storing: map[string]bool{}, wakes: make(chan struct{}, 1),
	}
	m.stored.L = &m.lock
	return m
}

// AcceptDeletions lets the first plan of the next round do what a guard has stopped. It is over with
// that round, also if the round fails, and with a pause.
func (m *Mirror) AcceptDeletions() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.accept = true
	m.wake()
}

// Changed marks a part of the directory to be scanned by the next round.
func (m *Mirror) Changed(scope mirror.Scope) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.scope = m.scope.Add(scope)
	m.wake()
}

// wake has Run do a round.
func (m *Mirror) wake() {
	select {
	case m.wakes <- struct{}{}:
	default:
	}
}

// load reads the stored rows, and binds the directory if it is not bound.
func (m *Mirror) load(ctx context.Context) error {
	b, err := m.State.Binding(ctx)
	wanted := m.Binding
	switch {
	case fault.Is(err, fault.NotFound):
		if err = m.State.Bind(ctx, wanted); err != nil {
			return stateError{err}
		}
		b = wanted
	case err != nil:
		return err
	}
	if b.Server != wanted.Server || b.Org != wanted.Org || b.User != wanted.User || b.Place != wanted.Place {
		return finalError{fault.New(fault.Conflict, "The directory is synchronised with another place: %s of "+
			"the organisation %s at %s", b.Place, b.Org, b.Server)}
	}
	m.binding, m.window = b, b.Window
	m.rows, m.keys, m.scanned = map[string]mirror.Row{}, map[id.Object]string{}, false
	if m.cursor, err = m.State.Cursor(ctx); err != nil {
		return err
	}
	if err := m.State.Rows(ctx, func(r mirror.Row) error {
		m.keep(r)
		return nil
	}); err != nil {
		return err
	}
	m.loaded = true
	return nil
}

// release forgets the rows, which are stored, and of the last scan what they say as well.
func (m *Mirror) release() {
	others := map[string]*mirror.Entry{}
	for name, e := range m.entries {
		if e.Kind == mirror.File && !equal(m.rows[mirror.KeyOf(e.Path)].Local, e) {
			others[name] = e
		}
	}
	m.rows, m.keys, m.entries, m.loaded, m.scanned = nil, nil, others, false, false
	m.Released()
}

// keep changes a row in memory.
func (m *Mirror) keep(r mirror.Row) {
	if was := m.rows[r.Key].Remote; was != nil && m.keys[was.ID] == r.Key {
		delete(m.keys, was.ID)
	}
	if r.Empty() {
		delete(m.rows, r.Key)
		return
	}
	m.rows[r.Key] = r
	if r.Remote != nil {
		m.keys[r.Remote.ID] = r.Key
	}
}

// recordInFlight notes that the server is about to get the local content of a step, uploaded or moved.
func (m *Mirror) recordInFlight(s mirror.Step) {
	m.lock.Lock()
	defer m.lock.Unlock()
	to := s.Row
	if s.Action == mirror.Move {
		to = s.To
	}
	u := inFlight{version: 1, file: to.Local}
	if r := s.Row.Remote; r != nil {
		u.id, u.version = r.ID, r.Version+1
	}
	m.forgetInFlight(to.Key, u.file.Checksum)
	m.sent[to.Key] = append(m.sent[to.Key], u)
}

// forgetInFlight forgets the change in flight by which a key gets a content.
func (m *Mirror) forgetInFlight(key, checksum string) {
	sent := slices.DeleteFunc(m.sent[key], func(u inFlight) bool { return u.file.Checksum == checksum })
	if m.sent[key] = sent; len(sent) == 0 {
		delete(m.sent, key)
	}
}

// ownChange returns the change in flight that has led to a record, if there is one.
func (m *Mirror) ownChange(r mirror.Record) (u inFlight, ok bool) {
	for _, u := range m.sent[mirror.KeyOf(r.Path)] {
		if u.file.Checksum == r.Checksum {
			return u, u.version == r.Version && (u.id == "" || u.id == r.ID)
		}
	}
	return inFlight{}, false
}

// expire forgets changes in flight that are made no more, after the server was read.
func (m *Mirror) expire() {
	now := m.Clock.Now()
	for key, sent := range m.sent {
		left := sent[:0]
		for _, u := range sent {
			if u.read.IsZero() {
				u.read = now
			}
			if now.Sub(u.read) <= lateness {
				left = append(left, u)
			}
		}
		if m.sent[key] = left; len(left) == 0 {
			delete(m.sent, key)
		}
	}
}

// put stores rows, and the cursor unless it is nil. Calls at the same time can share a transaction,
// but rows of one key are stored in the order in which they are kept in memory.
func (m *Mirror) put(ctx context.Context, cursor *object.Cursor, rows ...mirror.Row) error {
	if len(rows) == 0 && cursor == nil {
		return nil
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	for slices.ContainsFunc(rows, func(r mirror.Row) bool { return m.storing[r.Key] }) {
		m.stored.Wait()
	}
	for _, r := range rows {
		m.storing[r.Key] = true
	}
	m.lock.Unlock()
	err := m.State.Put(ctx, rows, cursor)
	m.lock.Lock()
	for _, r := range rows {
		delete(m.storing, r.Key)
	}
	m.stored.Broadcast()
	if err != nil {
		m.loaded = false // whether it was stored is not known
		return stateError{err}
	}
	for _, r := range rows {
		m.keep(r)
		if cursor == nil && r.Agreed() {
			delete(m.sent, r.Key)
		}
	}
	if cursor != nil {
		m.cursor = *cursor
	}
	return nil
}

// finalError is an error of the directory that does not pass by itself.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// stateError is a failure to store what was done, which ends a round.
type stateError struct{ error }

func (e stateError) Unwrap() error { return e.error }

// remoteError is an error of the server.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

func remotely(err error) error {
	if err == nil {
		return nil
	}
	return remoteError{err}
}

// sameFacts returns how many known files have the same size and time, on a file system without inodes.
// One of several may have taken the name of another, which its facts do not tell.
func (m *Mirror) sameFacts() map[mirror.Facts]int {
	files := map[mirror.Facts]int{}
	for _, e := range m.entries {
		if e.Kind == mirror.File && e.Facts.Inode == 0 {
			files[e.Facts]++
		}
	}
	if !m.scanned {
		for _, r := range m.rows {
			if e := r.Local; e != nil && e.Facts.Inode == 0 && m.entries[e.Name] == nil {
				files[e.Facts]++
			}
		}
	}
	return files
}

// scan reads a part of the directory.
func (m *Mirror) scan(ctx context.Context, scope mirror.Scope) error {
	for !scope.Empty() {
		was := m.entries
		directories, trees := setOf(scope.Directories), setOf(scope.Trees)
		now := maps.Clone(was)
		maps.DeleteFunc(now, func(_ string, e *mirror.Entry) bool {
			return trees[""] || directories[parent(e.Path)] || isBelow(e.Path, trees)
		})
		sameFacts := m.sameFacts()
		known := func(name string) (mirror.Facts, string, bool) {
			e := was[name]
			if e == nil && !m.scanned {
				e = m.rows[mirror.KeyOf(name)].Local
			}
			if e == nil || e.Name != name || e.Kind != mirror.File || e.Checksum == "" || sameFacts[e.Facts] > 1 {
				return mirror.Facts{}, "", false
			}
			return e.Facts, e.Checksum, true
		}
		var fresh []string
		if err := m.Disk.Scan(ctx, scope, known, func(e mirror.Entry) error {
			if local := m.rows[mirror.KeyOf(e.Path)].Local; local != nil && *local == e {
				now[local.Name] = local // not twice in memory
			} else {
				now[e.Name] = new(e)
			}
			if old := was[e.Name]; e.Kind == mirror.Directory && (old == nil || old.Kind != mirror.Directory) && directories[parent(e.Path)] {
				fresh = append(fresh, e.Path)
			}
			return nil
		}); err != nil {
			m.scanned = false
			return err
		}
		gone := map[string]bool{} // names of directories
		for name, e := range was {
			if e.Kind == mirror.Directory && (now[name] == nil || now[name].Kind != mirror.Directory) {
				gone[name] = true
			}
		}
		maps.DeleteFunc(now, func(name string, _ *mirror.Entry) bool { return isBelow(name, gone) })
		m.entries, m.scanned = now, true
		scope = mirror.Scope{Trees: fresh}
	}
	return nil
}

func setOf(all []string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, one := range all {
		set[one] = true
	}
	return set
}

// isBelow reports whether a path is below one of the directories.
func isBelow(path string, directories map[string]bool) bool {
	return len(directories) > 0 && slices.ContainsFunc(object.Ancestors(path), func(above string) bool { return directories[above] })
}

func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// emptied reports whether the directory has no file and had several.
func (m *Mirror) emptied() bool {
	for _, e := range m.entries {
		if e.Kind == mirror.File {
			return false
		}
	}
	had := 0
	for _, r := range m.rows {
		if r.Local != nil || r.Synced != nil {
			had++
		}
	}
	return had >= 2
}

// records asks the server for the records that have changed since the stored cursor, or for all of them,
// and returns the cursor that they are of. The server was restored if it says so by another epoch, or if
// its log or a file is of an earlier version than before.
func (m *Mirror) records(ctx context.Context) (records []mirror.Record, now object.Cursor, whole, restored bool, err error) {
	each := func(r mirror.Record) error {
		if key, known := m.keys[r.ID]; known {
			was := m.rows[key].Remote
			r.ID = was.ID // not twice in memory
			if r.Checksum == was.Checksum {
				r.Checksum = was.Checksum
			}
			restored = restored || !r.Deleted && (r.Version < was.Version || r.Version == was.Version && r.Checksum != was.Checksum)
		}
		records = append(records, r)
		return nil
	}
	whole = m.cursor == object.Cursor{}
	if !whole {
		now, err = m.Remote.Since(ctx, m.cursor, each)
		whole = fault.Is(err, fault.Gone) || restored
	}
	if whole {
		records = nil
		now, err = m.Remote.Manifest(ctx, each)
		restored = m.cursor != object.Cursor{} && (restored || now.Epoch != m.cursor.Epoch || now.N < m.cursor.N)
	}
	return records, now, whole, restored, remotely(err)
}

// read reads what has changed on the server since the stored cursor. Unanswered changes
// that the server has made are stored as agreed, unless the directory is absent: their files cannot be
// made durable then. It returns the errors of those that cannot be for another reason, by key.
func (m *Mirror) read(ctx context.Context, absent bool) (unsynced map[string]error, err error) {
	records, now, whole, restored, err := m.records(ctx)
	if err != nil {
		return nil, err
	}
	changed := map[string]mirror.Row{}
	row := func(key string) mirror.Row {
		r, ok := changed[key]
		if !ok {
			r = m.rows[key]
			r.Key = key
		}
		return r
	}
	if whole {
		maps.DeleteFunc(m.refused, func(_ string, r refusal) bool { return r.wait == 0 && !r.full }) // the member may see other places now
		if restored {
			clear(m.sent)
		}
		for key, r := range m.rows {
			if restored {
				r.Synced, r.Remote, r.Missing = nil, nil, false
				changed[key] = r
			} else if r.Remote != nil {
				r.Remote, r.Missing = nil, true
				changed[key] = r
			}
		}
	}
	var made []mirror.Row            // as they must be durable
	for _, record := range records { // first what their old paths say, as paths may be exchanged
		if key, known := m.keys[record.ID]; known {
			r := row(key)
			r.Remote, r.Missing = nil, false
			if _, own := m.ownChange(record); own && mirror.KeyOf(record.Path) != key {
				r.Synced = nil // this client moved it: nobody has deleted what is at the old path now
				made = append(made, mirror.Row{Key: key})
			}
			changed[key] = r
		}
	}
	for _, record := range records {
		if record.Deleted {
			continue
		}
		r := row(mirror.KeyOf(record.Path))
		r.Remote, r.Missing = &record, false
		changed[r.Key] = r
	}
	if !absent {
		for key := range m.sent {
			if r := row(key); r.Remote != nil {
				if u, own := m.ownChange(*r.Remote); own {
					made = append(made, mirror.Row{Key: key, Local: u.file})
				}
			}
		}
		unsynced = m.sync(ctx, made)
		for _, done := range made {
			if done.Local == nil || unsynced[done.Key] != nil {
				continue
			}
			r := row(done.Key) // what the directory has now came after it
			synced := mirror.NewSynced(*r.Remote, done.Local.Path)
			if r.Synced != nil {
				synced.Path, synced.Name = r.Synced.Path, r.Synced.Name
			}
			r.Synced, r.Local = synced, cmp.Or(r.Local, done.Local) // where to look before the server's is deleted
			changed[done.Key] = r
		}
		m.expire()
	}
	maps.DeleteFunc(changed, func(key string, r mirror.Row) bool { return same(r, m.rows[key]) })
	if len(changed) > 0 || now != m.cursor {
		if err := m.put(ctx, &now, slices.Collect(maps.Values(changed))...); err != nil {
			return unsynced, err
		}
	}
	for _, done := range made {
		if done.Local != nil && unsynced[done.Key] == nil {
			m.forgetInFlight(done.Key, done.Local.Checksum)
		}
	}
	return unsynced, nil
}

// sync makes the files of rows durable and, of rows without one, that the last known one is gone. It
// returns errors by key.
func (m *Mirror) sync(ctx context.Context, rows []mirror.Row) map[string]error {
	files, keys := make([]mirror.Entry, 0, len(rows)), make([]string, 0, len(rows))
	m.lock.Lock()
	for _, r := range rows {
		if e := cmp.Or(r.Local, m.rows[r.Key].Local); e != nil {
			files, keys = append(files, *e), append(keys, r.Key)
		}
	}
	m.lock.Unlock()
	if len(files) == 0 {
		return nil
	}
	errs := map[string]error{}
	for i, err := range m.Disk.Sync(ctx, files...) {
		if err != nil {
			errs[keys[i]] = err
		}
	}
	return errs
}

func same(a, b mirror.Row) bool {
	return a.Missing == b.Missing && equal(a.Synced, b.Synced) && equal(a.Remote, b.Remote) && equal(a.Local, b.Local)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// input is what a plan follows from.
func (m *Mirror) input(rules mirror.Rules) mirror.Input {
	tree := mirror.NewTree(maps.Values(m.entries), func(key string) *mirror.Entry { return m.rows[key].Local })
	rows := make(map[string]mirror.Row, max(len(m.rows), len(tree.Files))) // mostly they have the same keys
	had := 0
	for key, r := range m.rows {
		if r.Local != nil {
			had++
		}
		r.Local = tree.Files[key]
		rows[key] = r
	}
	for key, e := range tree.Files {
		if r, ok := rows[key]; !ok {
			r.Key, r.Local = key, e
			rows[key] = r
		}
	}
	return mirror.Input{Rows: rows, Tree: tree, Rules: rules, Device: m.Device, PreviousFiles: had, NoMoves: m.noMoves, SplitMoves: m.splitMoves}
}
