package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	client "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/harness"
	"collab/test/must"
	"collab/test/soak"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
)

// seeds is how many cases the simulation runs. COLLAB_SEED is the only one to run instead.
const seeds = 2000

// op is one event of a case. What its numbers choose depends on what there is at that moment, so
// that events can be left out.
type op struct {
	kind       string
	device     int
	a, b, call int
}

var kinds = []struct {
	kind   string
	weight int
}{
	{"write", 22}, {"remove", 7}, {"rename", 8}, {"round", 30}, {"meanwhile", 7}, {"kill", 7}, {"lose", 6}, {"fail", 3}, {"storm", 3},
	{"server writes", 8}, {"server deletes", 3}, {"server moves", 3}, {"hours", 3}, {"weeks", 2}, {"restore", 1}, {"unmount", 2}, {"forbid", 1},
	{"late", 4}, {"power", 4}, {"hold", 3}, {"clock", 2}, {"equal", 1}, {"return", 2}, {"replace", 1},
}

// themes are events of which some cases have several more, wherever they happen to be. That of many files is
// rare, as it takes long.
var themes, many = [][]string{{"patterns"}, {"odd"}, {"patterns", "odd"}, {"access"}, {"backup"}, {"shift"}}, []string{"mass"}

// patterns are texts of ignored files, of which the cases with such a theme have two.
var patterns = []string{"b.txt\ne/", "x", "*.txt\n!b.txt", "d", "[ae]*\ny", "D/\nf.txt", "*"}

// scenario is a case: how many devices there are, how they behave, and what happens.
type scenario struct {
	seed    uint64
	devices int
	single  bool // one device writes, and nobody else
	ops     []op
	ignores []string // what users write as patterns of ignored files
}

func newScenario(seed uint64) scenario {
	random := rand.New(rand.NewPCG(seed, 7))
	s := scenario{seed: seed, devices: 2 + random.IntN(3), single: random.IntN(5) == 0}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	calm := random.IntN(3) == 0 // without faults
	for range 8 + random.IntN(28) {
		n := random.IntN(total)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				o := op{k.kind, random.IntN(s.devices), random.IntN(1 << 16), random.IntN(1 << 16), random.IntN(40)}
				if calm && slices.Contains(faulty, o.kind) {
					o.kind = "round"
				}
				if s.single && (strings.HasPrefix(o.kind, "server") || slices.Contains([]string{"restore", "replace", "weeks"}, o.kind)) {
					o.kind = "round"
				}
				if s.single && slices.Contains([]string{"write", "remove", "rename", "meanwhile", "return"}, o.kind) {
					o.device = 0
				}
				s.ops = append(s.ops, o)
				break
			}
		}
	}
	random = rand.New(rand.NewPCG(seed, 13)) // so that other themes do not change what is above
	if theme := pick(themes, random.IntN(60)); !s.single && random.IntN(5) < 2 {
		if random.IntN(24) == 0 {
			theme = many
		}
		s.ignores = []string{pick(patterns, random.IntN(70)), pick(patterns, random.IntN(70))}
		for range 2 + random.IntN(5) {
			o := op{pick(theme, random.IntN(60)), random.IntN(s.devices), random.IntN(1 << 16), random.IntN(1 << 16), random.IntN(40)}
			s.ops = slices.Insert(s.ops, random.IntN(len(s.ops)+1), o)
		}
	}
	return s
}

var faulty = []string{"kill", "lose", "fail", "storm", "restore", "replace", "unmount", "forbid", "weeks", "late", "power", "hold", "clock"}

var paths = []string{"a", "A", "b.txt", "caf\u00e9", "d", "d/x", "D/y", "d/e/x", "d/e/y", "e", "e/x", "e/b.txt", "f/x", "f/y", "f/z", "f.txt"}

var (
	errKilled = errors.New("the process was killed")
	errDisk   = fault.New(fault.Unavailable, "no space left on the disk")
)

// device is a client with its disk.
type device struct {
	name    string
	disk    *disk
	state   *state
	remote  *remote
	client  *client.Mirror
	calls   int
	at      map[int]func() (half bool, err error) // what happens at calls of the present round
	killed  bool
	refuses int   // requests that are refused with 429
	forbids int   // changes that are refused with 403
	losing  []int // which of the next changes lose their answers: they count down
	late    int   // after how many calls changes whose responses are lost are made
	failing int
	// transfers are the requests that do not read changes.
	transfers int
	accepting bool // its user has accepted the first plan of the present round
	plans     int  // of the present round
	deletions int  // of the present plan
	known     int  // rows before the present plan
	backup    *backup
	shifted   map[string]bool // contents, by checksum, of which a scan of the present round may have missed a file
	// unstored are the contents, by checksum, that were sent or received and are not stored as agreed.
	unstored map[string]bool
}

// Now is the device's time.
func (d *device) Now() time.Time { return d.disk.now() }

// pending is a change of the server that is made after so many calls.
type pending struct {
	after int
	make  func()
}

// undone is in the ledger for contents of which a power failure, or a user, has undone a change. If the
// client had followed it, they may be in a trash.
const undone = "undone"

// world is a running case.
type world struct {
	t        context.Context
	s        scenario
	server   *server
	devices  []*device
	random   *rand.Rand
	contents int
	ledger   map[string]string // by content: empty, or why it may be gone
	back     map[string]bool   // contents that may come back: somebody moved them
	unstored map[string]bool   // contents, by checksum, that were unstored when a process was killed
	nofiles  map[string]bool   // contents, by checksum, of what is no file
	rivals   int               // edits at paths to which such a content was yet to come back from the server
	restored bool              // the server was
	calls    int
	pending  []pending
	trace    []string
	err      error
	mutate   func(*client.Options)
}

func (w *world) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) now() time.Time { return w.server.core.Clock.Now() }

// content returns a new content for a path; all differ, and some have one length. That of IgnoreFile has patterns.
func (w *world) content(path string) string {
	w.contents++
	c := fmt.Sprintf("content %03d", w.contents)
	if w.contents%3 == 0 {
		c += strings.Repeat(".", w.contents%40)
	}
	if path == mirror.IgnoreFile && len(w.s.ignores) > 0 {
		c = "# " + c + "\n" + pick(w.s.ignores, w.contents)
	}
	w.ledger[c], w.back[c] = "", w.ignorable(path)
	return c
}

// ignorable reports whether a path matches patterns that the users of the case may write. A deletion of such
// a file is not followed while one of them ignores it.
func (w *world) ignorable(path string) bool {
	return slices.ContainsFunc(w.s.ignores, func(text string) bool {
		return rulesOf(mirror.KeyOf(strings.ReplaceAll(text, "!", "#"))).Ignored(mirror.KeyOf(path))
	})
}

// gone says that a content may be nowhere, as somebody has knowingly replaced or removed it.
func (w *world) gone(c, why string) {
	w.ledger[c] = why
	for _, d := range w.devices { // who does not know that both sides have had it uploads it again
		w.back[c] = w.back[c] || d.unstored[must.Sum(c)]
	}
}

func newWorld(ctx context.Context, s scenario, mutate func(*client.Options)) (*world, error) {
	core, err := harness.NewDeployment(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		return nil, err
	}
	actor, err := core.Join(ctx, "org_1", "user_1", org.Owner)
	if err != nil {
		return nil, err
	}
	core.VersionRetention[plan.None] = object.Retention{Days: 36_500, Versions: 1000}
	w := &world{
		t: ctx, s: s, server: &server{core: core, actor: actor}, random: rand.New(rand.NewPCG(s.seed, 11)), ledger: map[string]string{}, back: map[string]bool{}, unstored: map[string]bool{}, nofiles: map[string]bool{}, mutate: mutate,
	}
	w.ledger[""], w.back[""] = "what a power failure leaves of a file", true
	for i := range s.devices {
		d := &device{name: fmt.Sprintf("device%d", i), disk: newDisk(w.now), state: newState(), at: map[int]func() (bool, error){}, shifted: map[string]bool{}, unstored: map[string]bool{}}
		platforms[[]string{"linux", "insensitive", "darwin", "windows"}[(int(s.seed)+i)%4]](d.disk)
		d.disk.wait = func(d time.Duration) { core.Clock.Advance(d) }
		d.remote = &remote{server: w.server, batches: []int{0, 4}[(int(s.seed)+i)/2%2]}
		d.remote.sends = func(path, checksum string) {
			d.unstored[checksum] = true
			w.follows(d, path)
			if w.nofiles[checksum] {
				w.failf("%s: what is no file is sent as %s", d.name, path)
			}
		}
		d.disk.alters = func(path string) { w.follows(d, path) }
		d.disk.trashes = func(e mirror.Entry) {
			w.follows(d, e.Path)
			w.guards(d, e.Path)
			if d.state.rows[mirror.KeyOf(e.Path)].Missing && !d.accepted() {
				w.failf("%s: %s is to be removed, and nobody knows that it was deleted", d.name, e.Path)
			}
		}
		d.disk.stopped = func() bool { return d.killed }
		d.disk.ruled = func() {
			d.plans++
			d.deletions, d.known = 0, len(d.state.rows)
		}
		d.remote.deletes = func(of id.Object) { w.looked(d, of) }
		d.remote.delay = func(change func()) {
			if d.late == 0 {
				change()
				return
			}
			w.pending = append(w.pending, pending{w.calls + d.late, change})
		}
		d.state.stored = func(rows []mirror.Row) {
			for _, r := range rows {
				if r.Synced != nil {
					delete(d.unstored, r.Synced.Checksum)
				}
			}
		}
		d.state.storing = func(rows []mirror.Row) {
			for _, r := range rows {
				if !d.killed { // else nothing is stored
					w.durable(d, r)
				}
			}
		}
		d.disk.placed = func(content string) {
			d.unstored[must.Sum(content)] = true
			if _, known := w.ledger[content]; !known {
				w.failf("%s: a file has the content %q, which nobody wrote", d.name, content)
			}
		}
		step := func(call string) (bool, error) {
			core.Clock.Advance(time.Duration(w.random.IntN(300)) * time.Millisecond)
			if d.killed {
				return false, errKilled
			}
			d.calls++
			w.calls++
			w.settle(func(p pending) bool { return p.after <= w.calls })
			w.log("%s %d %s", d.name, d.calls, call)
			if fn := d.at[d.calls]; fn != nil {
				return fn()
			}
			return false, nil
		}
		d.state.before = step
		d.disk.before = func(call string) (bool, error) {
			half, err := step(call)
			if err == nil && d.failing > 0 && slices.Contains([]string{"stage", "place", "rename", "trash", "sync"}, call) {
				if d.failing--; d.failing == 0 {
					return call == "stage", errDisk
				}
			}
			return half, err
		}
		d.remote.before = func(call string) (bool, error) {
			lost, err := step(call)
			if err != nil {
				return lost, err
			}
			if d.refuses > 0 {
				d.refuses--
				return false, &fault.Error{Kind: fault.Limited, Message: "slow down", RetryAfter: 5}
			}
			if call != "manifest" && call != "since" {
				d.transfers++
				if d.forbids > 0 && call != "download" && call != "download all" {
					d.forbids--
					return false, fault.New(fault.Forbidden, "VIEWER")
				}
				for i := range d.losing {
					if d.losing[i]--; d.losing[i] == 0 {
						return true, fault.New(fault.Unavailable, "the answer was lost")
					}
				}
			}
			return false, nil
		}
		w.devices = append(w.devices, d)
		w.start(d)
	}
	return w, nil
}

// looked checks that a device that is about to delete an object has looked for its file in this round, and
// has not found it.
func (w *world) looked(d *device, of id.Object) {
	for _, r := range d.state.rows {
		if r.Remote == nil || r.Remote.ID != of || r.Synced == nil {
			continue
		}
		w.follows(d, r.Remote.Path)
		w.guards(d, r.Remote.Path)
		name := r.Synced.Name
		if r.Local != nil {
			name = r.Local.Name
		}
		if d.shifted[r.Synced.Checksum] {
			w.failf("%s: the server's %s is to be deleted, and the file was only moved", d.name, r.Remote.Path)
		}
		if d.disk.files[name] != nil && !d.disk.absent[name] {
			w.failf("%s: the server's %s is to be deleted, and the file is there", d.name, r.Remote.Path)
		}
	}
}

// follows checks that a device does not ignore a path that it is about to change on either side.
func (w *world) follows(d *device, path string) {
	if d.disk.rules.Ignored(path) && !mirror.IsConflict(path) || mirror.IsState(path) { // a copy's name may match patterns
		w.failf("%s: %s is to be changed, and is ignored", d.name, path)
	}
}

// accepted reports whether the user of a device has accepted the deletions of the present plan.
func (d *device) accepted() bool { return d.accepting && d.plans <= 1 }

// guards checks that no guard stands before a deletion that a device is about to make.
func (w *world) guards(d *device, path string) {
	if d.deletions++; d.deletions > max(20, d.known/4) && !d.accepted() {
		w.failf("%s: %s is to be deleted after many others, and nobody has accepted that", d.name, path)
	}
	if b := d.state.binding; b.Ignore != "" && b.Ignore != d.disk.rules.Hash && !d.accepted() {
		w.failf("%s: %s is to be deleted, and nobody has accepted that after the patterns of ignored files changed", d.name, path)
	}
}

// durable checks that a power failure would not take back what a row is the first to say that both sides
// have under its name, or that neither has.
func (w *world) durable(d *device, r mirror.Row) {
	was := d.state.rows[r.Key].Synced
	switch f := d.file(r.Key); {
	case r.Synced != nil && f != nil && (was == nil || was.Checksum != r.Synced.Checksum || was.Name != r.Synced.Name):
		for name, at := range d.disk.files {
			if at == f && name == r.Synced.Name && must.Sum(f.content) == r.Synced.Checksum && !d.disk.durable(name) {
				w.failf("%s: %s is agreed on and not durable", d.name, name)
			}
		}
	case r.Empty() && was != nil && f == nil:
		if e := d.state.rows[r.Key].Local; e != nil && !d.disk.durable(e.Name) {
			w.failf("%s: neither side has %s, which is not durable", d.name, e.Name)
		}
	}
}

// start starts the client of a device.
func (w *world) start(d *device) {
	d.killed = false
	w.excuse(d)
	o := client.Options{
		Disk: d.disk, DiskWriter: d.disk, State: d.state, Remote: d.remote, RemoteWriter: d.remote, Clock: d,
		Binding: mirror.Binding{Server: "https://collab.invalid", Place: "shared"}, Device: d.name, Workers: 1,
	}
	if w.mutate != nil {
		w.mutate(&o)
	}
	d.client = client.New(o)
	d.client.Changed(mirror.Everything())
}

// excuse excuses the contents of which a device no longer knows that both sides have them.
func (w *world) excuse(d *device) {
	maps.Copy(w.unstored, d.unstored)
	clear(d.unstored)
}

// settle makes pending changes of the server.
func (w *world) settle(due func(pending) bool) {
	for _, p := range w.pending {
		if due(p) {
			p.make()
		}
	}
	w.pending = slices.DeleteFunc(w.pending, due)
}

// calm ends all faults that last.
func (w *world) calm() {
	w.settle(func(pending) bool { return true })
	w.server.core.Clock.Advance(time.Minute) // in which clients ask again whether they may write
	for _, d := range w.devices {
		d.refuses, d.forbids, d.losing, d.late, d.failing, d.disk.held, d.disk.closed = 0, 0, nil, 0, 0, "", ""
		// A file that was written while one was downloaded whose name differs in case alone is held
		// until its user renames it.
		keys := map[string]bool{}
		for _, name := range d.names() {
			if keys[mirror.KeyOf(name)] {
				w.back[d.disk.files[name].content] = true
				w.log("%s renames %s", d.name, name)
				d.disk.files[name+" 2"] = d.disk.files[name]
				delete(d.disk.files, name)
			}
			keys[mirror.KeyOf(name)] = true
		}
	}
}

// round has a client do a round.
func (w *world) round(d *device) (client.Outcome, error) {
	d.calls = 0
	clear(d.disk.absent)
	d.plans = 0
	d.client.Changed(mirror.Everything()) // a watcher would say which part
	out, err := d.client.Round(w.t)
	d.accepting = false
	clear(d.at)
	w.log("%s round: %d done, guard %q, %v", d.name, out.Done, out.Guard, err)
	if d.killed {
		w.start(d)
	}
	return out, err
}

// accept has a device's user accept what the next round does first.
func (d *device) accept() {
	d.accepting = true
	d.client.AcceptDeletions()
}

func (d *device) names() []string {
	var all []string
	for name := range d.disk.files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// file returns the file that a path of the server belongs to, nil if there is none.
func (d *device) file(p string) *file {
	for _, name := range d.names() {
		if mirror.KeyOf(name) == mirror.KeyOf(p) {
			return d.disk.files[name]
		}
	}
	return nil
}

// contents returns what is in the files of a device.
func (d *device) contents() map[string]bool {
	all := map[string]bool{}
	for _, f := range d.disk.files {
		all[f.content] = true
	}
	return all
}

// kept returns what is in the files of a device and of the server.
func (w *world) kept(d *device) map[string]bool {
	all := d.contents()
	for _, r := range w.records() {
		all[w.stored(r)] = true
	}
	return all
}

// records returns the files of the server in the order of their paths.
func (w *world) records() (all []mirror.Record) {
	if _, err := w.server.list(w.t, func(r mirror.Record) error {
		all = append(all, r)
		return nil
	}); err != nil {
		w.failf("the manifest: %v", err)
	}
	slices.SortFunc(all, func(a, b mirror.Record) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// stored returns the content of a record.
func (w *world) stored(r mirror.Record) string {
	for c := range w.ledger {
		if must.Sum(c) == r.Checksum {
			return c
		}
	}
	w.failf("the server has a content that nobody wrote at %s", r.Path)
	return ""
}

func pick[T any](from []T, n int) T { return from[n%len(from)] }

// writable returns the name by which a person writes to a path. ok is false if a directory is there, or
// a file where a directory is needed.
func (w *world) writable(d *device, p string) (name string, ok bool) {
	for name := range d.disk.files { // twins are held, and tested elsewhere
		if mirror.KeyOf(name) == mirror.KeyOf(p) {
			p = name
		}
		if strings.HasPrefix(mirror.KeyOf(p), mirror.KeyOf(name)+"/") {
			return "", false
		}
	}
	for name := range d.disk.directories {
		if mirror.KeyOf(name) == mirror.KeyOf(p) {
			return "", false
		}
	}
	return p, true
}

// write writes a new content to a path, if a file can be there.
func (w *world) write(d *device, p string) {
	p, ok := w.writable(d, p)
	if !ok {
		return
	}
	f := d.disk.files[p]
	if f != nil {
		if sum := must.Sum(f.content); d.unstored[sum] { // it was uploaded, and could not be agreed on before this edit
			w.unstored[sum] = true
		}
		w.gone(f.content, "overwritten on "+d.name)
	}
	if r := d.state.rows[mirror.KeyOf(p)]; f == nil && r.Synced == nil && r.Remote != nil && w.unstored[r.Remote.Checksum] {
		w.rivals++ // the file before was set aside, and the server's has not come
	}
	c := w.content(p)
	if !d.disk.write(p, c) {
		w.gone(c, "never written")
	}
	w.log("%s writes %q to %s", d.name, c, p)
}

// user does what a person does on a device.
func (w *world) user(d *device, o op) {
	names := d.names()
	switch {
	case o.kind == "write" || len(names) == 0:
		p := pick(paths, o.a)
		if o.b%4 == 0 && len(names) > 0 {
			p = pick(names, o.a)
		}
		w.write(d, p)
	case o.kind == "remove":
		p := pick(names, o.a)
		if d.disk.busy(p) != nil {
			return
		}
		w.gone(d.disk.files[p].content, "removed on "+d.name)
		d.disk.remove(p)
		w.log("%s removes %s", d.name, p)
	case o.kind == "rename":
		from, to := pick(names, o.a), pick(paths, o.b)
		if o.call%3 == 0 && strings.Contains(from, "/") { // a directory
			from, to = from[:strings.LastIndexByte(from, '/')], []string{"g", "d", "D", "f", "F", "d/h"}[o.b%6]
		}
		if d.disk.busy(from) != nil {
			return
		}
		for _, name := range names {
			if mirror.KeyOf(name) == mirror.KeyOf(to) && name != from || strings.HasPrefix(mirror.KeyOf(to), mirror.KeyOf(name)+"/") {
				return
			}
		}
		for name := range d.disk.directories {
			if mirror.KeyOf(name) == mirror.KeyOf(to) && name != from {
				return
			}
		}
		for _, name := range names {
			if name == from || strings.HasPrefix(name, from+"/") {
				w.back[d.disk.files[name].content] = true
			}
		}
		ok := d.disk.move(from, to)
		d.disk.prune(from)
		w.shield(d)
		w.log("%s renames %s to %s: %v", d.name, from, to, ok)
	}
}

// do makes an event happen.
func (w *world) do(o op) {
	d := w.devices[o.device%len(w.devices)]
	w.server.core.Clock.Advance(time.Duration(o.call*40) * time.Millisecond)
	switch o.kind {
	case "write", "remove", "rename":
		w.user(d, o)
	case "round":
		_, _ = w.round(d)
	case "meanwhile":
		if o.b%8 == 5 {
			w.occupy(d)
			return
		}
		d.at[1+o.call%20] = func() (bool, error) {
			if others := []string{"server writes", "server writes", "server deletes", "server moves"}; o.b%8 < 4 && !w.s.single {
				if names := d.names(); o.b%8 == 1 && len(names) > 0 { // perhaps before this device creates it
					w.serverCreates(norm.NFC.String(pick(names, o.a)))
					return false, nil
				}
				for _, r := range w.records() { // perhaps before this device replaces it
					if f := d.file(r.Path); o.b%8 == 0 && f != nil && must.Sum(f.content) != r.Checksum {
						w.serverReplaces(r)
						return false, nil
					}
				}
				w.do(op{kind: others[o.b%8], a: o.a, b: o.a / 7})
				return false, nil
			}
			w.user(d, op{kind: []string{"write", "write", "remove", "rename"}[o.b%4], a: o.a, b: 4 * (o.b % 2), call: o.call})
			return false, nil
		}
		_, _ = w.round(d)
	case "return": // a file is removed, and written again while a round follows its removal
		names := d.names()
		if len(names) == 0 || d.disk.busy(pick(names, o.a)) != nil {
			return
		}
		name := pick(names, o.a)
		w.gone(d.disk.files[name].content, "removed on "+d.name)
		d.disk.remove(name)
		w.log("%s removes %s for a while", d.name, name)
		d.at[1+o.call%8] = func() (bool, error) {
			w.write(d, name)
			return false, nil
		}
		_, _ = w.round(d)
	case "kill":
		d.at[1+o.call%25] = func() (bool, error) {
			d.killed = true
			w.log("%s is killed", d.name)
			return o.a%2 == 0, errKilled
		}
		_, _ = w.round(d)
	case "power":
		if o.b%2 == 0 {
			d.at[1+o.call%25] = func() (bool, error) {
				d.killed = true
				return o.a%2 == 0, errKilled
			}
			_, _ = w.round(d)
		}
		w.log("%s loses its power", d.name)
		before := d.disk.stop(time.Duration(o.a%40)*time.Second, o.a%3 == 0)
		kept := w.kept(d)
		for _, c := range before {
			if w.back[c] = true; !kept[c] {
				w.gone(c, "lost in a power failure")
			} else if w.ledger[c] == "" {
				w.ledger[c] = undone
			}
		}
		w.start(d)
	case "hold":
		names, directories := d.names(), slices.Sorted(maps.Keys(d.disk.directories))
		switch {
		case d.disk.held != "" || d.disk.closed != "" || len(names) == 0:
			d.disk.held, d.disk.closed = "", ""
		case o.b%4 == 3 && len(directories) > 0:
			d.disk.closed = pick(directories, o.a)
			w.log("%s may not read %s", d.name, d.disk.closed)
		default:
			d.disk.held, d.disk.exclusive = pick(names, o.a), o.b%2 == 0
			w.log("%s holds %s", d.name, d.disk.held)
		}
		_, _ = w.round(d)
	case "clock":
		w.excuse(d)
		d.disk.skew = time.Duration(o.a-1<<15) * 997 * time.Second // up to a year
		w.log("%s's clock is wrong by %s", d.name, d.disk.skew)
	case "equal":
		w.equalEdits(o)
	case "late":
		d.losing, d.late = append(d.losing, 1+o.call%5), 1+o.a%40
		_, _ = w.round(d)
		d.late = 0
	case "lose":
		d.losing = append(d.losing, 1+o.call%5)
		_, _ = w.round(d)
	case "fail":
		d.failing = 1 + o.call%6
		_, _ = w.round(d)
	case "storm":
		d.refuses = 1 + o.call%8
		_, _ = w.round(d)
	case "forbid":
		d.forbids, d.remote.readOnly = 1+o.call%4, o.b%2 == 0
		_, _ = w.round(d)
		d.remote.readOnly = false
	case "patterns": // users write patterns of ignored files, and remove them
		switch f := d.disk.files[mirror.IgnoreFile]; {
		case o.b%4 == 0:
			for _, r := range w.records() {
				if r.Path == mirror.IgnoreFile {
					w.serverReplaces(r)
					return
				}
			}
			w.serverCreates(mirror.IgnoreFile)
		case o.b%4 == 1 && f != nil && d.disk.busy(mirror.IgnoreFile) == nil:
			w.gone(f.content, "removed on "+d.name)
			d.disk.remove(mirror.IgnoreFile)
			w.log("%s removes the patterns", d.name)
		default:
			w.write(d, mirror.IgnoreFile)
		}
	case "odd":
		w.odd(d, o)
	case "mass":
		w.mass(d, o)
	case "shift":
		w.shift(d, o)
	case "access":
		w.access(d)
	case "backup":
		w.restoreDevice(d, o)
	case "hours":
		w.server.core.Clock.Advance(time.Duration(o.a%20) * time.Hour)
	case "weeks":
		w.settle(func(pending) bool { return true })
		w.server.core.Clock.Advance(harness.Retention + 24*time.Hour)
		if err := w.server.core.Upkeep.Run(w.t); err != nil {
			w.failf("upkeep: %v", err)
		}
	case "unmount":
		w.settle(func(pending) bool { return true })
		known := 0
		for _, r := range d.state.rows {
			if r.Synced != nil {
				known++
			}
		}
		if known < 2 {
			return
		}
		files, directories, identity := d.disk.files, d.disk.directories, d.disk.identity
		d.disk.files, d.disk.directories = map[string]*file{}, map[string]bool{}
		before := w.records()
		if o.a%2 == 0 && d.state.binding.Root != "" {
			d.disk.identity = "another"
		}
		_, _ = w.round(d)
		if after := w.records(); len(after) < len(before) || len(d.disk.files) > 0 {
			w.failf("%s has %d files, and the server %d of %d, after it was unmounted", d.name, len(d.disk.files), len(after), len(before))
		}
		d.disk.files, d.disk.directories, d.disk.identity = files, directories, identity
	case "replace": // a copy of the directory that lacks a file is in its place, and its user accepts that
		names := d.names()
		if d.state.binding == nil || d.state.binding.Root == "" || len(names) == 0 {
			return
		}
		w.settle(func(pending) bool { return true })
		clear(d.at)
		w.restored = true
		d.disk.identity = fmt.Sprint("copy", w.calls)
		name := pick(names, o.a)
		w.gone(d.disk.files[name].content, "lost by the directory")
		d.disk.remove(name)
		d.disk.unsynced = nil // a power failure does not bring back what the directory before it had
		w.log("%s has a copy of its directory without %s", d.name, name)
		w.unite(d, "its directory was replaced")
	case "restore": // the server's data are those of a copy that lacks a file
		w.settle(func(pending) bool { return true })
		w.server.epoch++
		w.restored = true
		if all := w.records(); len(all) > 0 {
			r := pick(all, o.a)
			c := w.stored(r)
			held := false
			for _, d := range w.devices {
				for _, f := range d.disk.files {
					held = held || f.content == c
				}
			}
			if !held {
				w.gone(c, "lost by the server")
			}
			if err := w.server.delete(w.t, r); err != nil {
				w.failf("restore: %v", err)
			}
		}
		w.log("the server is restored")
	case "server writes":
		all := w.records()
		if o.b%2 == 1 || len(all) == 0 {
			w.serverCreates(pick(paths, o.a))
			return
		}
		w.serverReplaces(pick(all, o.a))
	case "server deletes":
		if all := w.records(); len(all) > 0 {
			r := pick(all, o.a)
			w.gone(w.stored(r), "deleted on the server")
			if err := w.server.delete(w.t, r); err != nil {
				w.failf("delete: %v", err)
			}
			w.log("the server deletes %s", r.Path)
		}
	case "server moves":
		if all := w.records(); len(all) > 0 {
			r := pick(all, o.a)
			w.back[w.stored(r)] = true
			_, err := w.server.move(w.t, r, pick(paths, o.b))
			w.log("the server moves %s to %s: %v", r.Path, pick(paths, o.b), err)
		}
	}
}

// occupy has a user write a file to a path right before the client gives the path to another file.
func (w *world) occupy(d *device) {
	alters := d.disk.alters
	d.disk.alters = func(path string) {
		if d.file(path) == nil {
			d.disk.alters = alters
			w.write(d, path)
		}
		alters(path)
	}
	_, _ = w.round(d)
	d.disk.alters = alters
}

// mass has many files appear or, if they are there, be removed on a device or the server. Users of devices that stop
// accept that, or put the files back.
func (w *world) mass(d *device, o op) {
	var names []string
	for _, name := range d.names() {
		if strings.HasPrefix(name, "m/") {
			names = append(names, name)
		}
	}
	if len(names) <= 20 {
		for i := range 21 + o.a%6 {
			w.write(d, fmt.Sprintf("m/%02d", i))
		}
		_, _ = w.round(d)
		return
	}
	if o.b%3 == 0 {
		for _, r := range w.records() {
			if strings.HasPrefix(r.Path, "m/") {
				w.gone(w.stored(r), "deleted on the server")
				if err := w.server.delete(w.t, r); err != nil {
					w.failf("delete: %v", err)
				}
			}
		}
		w.log("the server deletes many")
	} else {
		contents, was := map[string]string{}, maps.Clone(w.ledger)
		for _, name := range names {
			if d.disk.busy(name) == nil {
				contents[name] = d.disk.files[name].content
				w.gone(contents[name], "removed on "+d.name)
				d.disk.remove(name)
			}
		}
		w.log("%s removes many", d.name)
		_, err := w.round(d)
		if o.b%3 == 1 {
			for _, name := range names {
				c, removed := contents[name]
				if !removed || d.file(name) != nil { // another device has edited it
					continue
				}
				if w.ledger[c], w.back[c] = was[c], true; err != nil && was[c] == "" { // deletions may have been made
					w.ledger[c] = undone
				}
				if !d.disk.write(name, c) {
					w.gone(c, "never written")
				}
			}
			w.log("%s has them back", d.name)
			return
		}
	}
	if _, _ = w.round(d); o.b%2 == 0 {
		d.accept()
		_, _ = w.round(d)
	}
}

// shift has a user move a directory in the middle of a scan, from where it was not read yet to where it no longer is.
func (w *world) shift(d *device, o op) {
	to := fmt.Sprint("0", w.calls)
	d.disk.midway = func(read []string) {
		d.disk.midway = func([]string) {}
		directories := slices.DeleteFunc(slices.Sorted(maps.Keys(d.disk.directories)), func(directory string) bool {
			return d.disk.busy(directory) != nil || slices.ContainsFunc(read, func(name string) bool { return strings.HasPrefix(name, directory+"/") })
		})
		if len(directories) == 0 || d.disk.closed != "" {
			return
		}
		from := pick(directories, o.a)
		if !d.disk.move(from, to) {
			return
		}
		d.disk.prune(from)
		w.log("%s moves %s to %s during a scan", d.name, from, to)
		for name, f := range d.disk.files {
			if strings.HasPrefix(name, to+"/") {
				w.back[f.content] = true
				sum, same := must.Sum(f.content), 0
				for _, r := range d.state.rows {
					if r.Synced != nil && r.Synced.Checksum == sum {
						same++
					}
				}
				d.shifted[sum] = same == 1 && !w.ignorable(name) // a user may have removed another file with the content
			}
		}
		w.shield(d)
	}
	_, _ = w.round(d)
	d.disk.midway = func([]string) {}
	clear(d.shifted)
}

// access takes a device its access for a round, and the sight of all files for another one. Neither removes any here.
func (w *world) access(d *device) {
	clear(d.at)
	w.settle(func(pending) bool { return true })
	names, trashed := d.names(), len(d.disk.trash)
	due := 0 // removals of files that the server was known to have removed or moved before
	for key, r := range d.state.rows {
		if d.file(key) == nil { // then neither side seems to have it
			w.returns(r.Synced)
		}
		if r.Synced != nil && r.Remote == nil && !r.Missing {
			due++
		}
	}
	for _, d.remote.sight = range []sight{none, nothing} {
		_, _ = w.round(d)
	}
	if left := len(d.names()); left < len(names)-due || len(d.disk.trash) > trashed+due {
		w.failf("%s has %d of %d files, and %d more in its trash, of which %d were to be removed, after it had no access", d.name, left, len(names), len(d.disk.trash)-trashed, due)
	}
	for d.remote.sight = whole; d.remote.resync; { // requests may be refused
		_, _ = w.round(d)
	}
}

// backup is a copy of a directory and its state.
type backup struct {
	files       map[string]file
	directories map[string]bool
	staged      map[string]string
	binding     *mirror.Binding
	rows        map[string]mirror.Row
	cursor      object.Cursor
}

// restoreDevice backs a device's directory up with its state, or restores it from its backup: as another directory
// that its user accepts, as the same one, or without its state.
func (w *world) restoreDevice(d *device, o op) {
	if d.backup == nil {
		d.backup = &backup{map[string]file{}, maps.Clone(d.disk.directories), maps.Clone(d.disk.staged), d.state.binding, maps.Clone(d.state.rows), d.state.cursor}
		for name, f := range d.disk.files {
			d.backup.files[name] = *f
		}
		w.log("%s is backed up", d.name)
		return
	}
	w.settle(func(pending) bool { return true })
	clear(d.at)
	b, before := *d.backup, d.contents()
	d.backup, d.disk.held, d.disk.closed, d.disk.unsynced, d.disk.files = nil, "", "", nil, map[string]*file{}
	d.disk.directories, d.disk.staged = b.directories, b.staged
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		d.disk.inode++
		d.disk.ticks++
		f := b.files[name]
		f.inode, f.made = d.disk.inode, d.disk.now().UnixNano()+d.disk.ticks
		d.disk.files[name] = &f
	}
	d.state.binding, d.state.rows, d.state.cursor = b.binding, b.rows, b.cursor
	how := []string{"as another directory", "in place", "without its state"}[o.b%3]
	switch o.b % 3 {
	case 0:
		d.disk.identity = fmt.Sprint("copy", w.calls)
	case 2:
		d.state.binding, d.state.rows, d.state.cursor = nil, map[string]mirror.Row{}, object.Cursor{}
		clear(d.disk.staged)
	}
	w.log("%s is restored %s", d.name, how)
	kept := w.kept(d)
	for c := range kept {
		w.back[c] = true
	}
	for c := range before {
		if !kept[c] {
			w.gone(c, "lost by the directory")
		}
	}
	w.start(d)
	if o.b%3 == 2 || o.b%3 == 0 && b.binding != nil && b.binding.Root != "" {
		w.unite(d, "it was restored "+how)
		return
	}
	d.accept()
	_, _ = w.round(d)
}

// unite has a device's user accept that directory and server are united, which removes nothing on either side.
func (w *world) unite(d *device, after string) {
	records, trashed := len(w.records()), len(d.disk.trash)
	d.accept()
	_, _ = w.round(d)
	if left := len(w.records()); left < records || len(d.disk.trash) > trashed {
		w.failf("%s has %d more files in its trash, and the server %d of %d, after %s", d.name, len(d.disk.trash)-trashed, left, records, after)
	}
}

// odd has something appear that is left alone: what is no file or has a name that some systems cannot have, or on
// the server a file with the name of a client's own.
func (w *world) odd(d *device, o op) {
	switch o.b % 4 {
	case 0:
		w.serverCreates(pick([]string{".collab/x", ".Collab/state.db", "d/.collab/x"}, o.a))
	case 1:
		w.write(d, pick([]string{"a:b", "d/CON", "e/x.", "f /x", "con.txt"}, o.a))
	default:
		p, ok := w.writable(d, pick(paths, o.a))
		if !ok || d.disk.busy(p) != nil {
			return
		}
		if f := d.disk.files[p]; f != nil {
			w.gone(f.content, "overwritten on "+d.name)
			d.disk.remove(p)
		}
		c := w.content(p)
		if !d.disk.write(p, c) {
			w.gone(c, "never written")
			return
		}
		d.file(p).kind = []mirror.EntryKind{mirror.Symlink, mirror.Special}[o.b/4%2]
		d.disk.unsynced = slices.DeleteFunc(d.disk.unsynced, func(u unsynced) bool { return mirror.KeyOf(u.name) == mirror.KeyOf(p) })
		w.nofiles[must.Sum(c)] = true
		w.log("%s has %q at %s, which is no file", d.name, c, p)
	}
	w.shield(d)
}

// isOdd reports whether what a name has is no file, or the name is one that some systems cannot have.
func (d *device) isOdd(name string) bool {
	_, err := object.ParsePath("path", name)
	return d.disk.files[name].kind != mirror.File || err != nil
}

// shield lets contents come back whose deletion is not followed as something is in their place that is left alone.
func (w *world) shield(d *device) {
	for name := range d.disk.files {
		if !d.isOdd(name) {
			continue
		}
		for key, r := range d.state.rows {
			if at := mirror.KeyOf(name); key == at || strings.HasPrefix(key, at+"/") {
				w.returns(r.Synced)
			}
		}
	}
}

// returns lets a content come back on which both sides have agreed.
func (w *world) returns(s *mirror.Synced) {
	for c := range w.ledger {
		w.back[c] = w.back[c] || s != nil && must.Sum(c) == s.Checksum
	}
}

// left returns which keys a device leaves alone: those of what is odd or ignored, what is below it, and files
// in the places of directories that have it.
func (w *world) left(d *device) func(key string) bool {
	rules, at, above := d.disk.present(), map[string]bool{}, map[string]bool{}
	leave := func(name string) {
		at[mirror.KeyOf(name)] = true
		for _, directory := range object.Ancestors(mirror.KeyOf(name)) {
			above[directory] = true
		}
	}
	for name := range d.disk.files {
		if d.isOdd(name) || rules.Ignored(norm.NFC.String(name)) {
			leave(name)
		}
	}
	for name := range d.disk.directories {
		if rules.Ignored(norm.NFC.String(name) + "/\x00") { // it may be empty
			leave(name)
		}
	}
	ignored := map[string]bool{}
	for key, r := range d.state.rows {
		ignored[key] = r.Synced != nil && rules.Ignored(r.Synced.Name) || r.Remote != nil && rules.Ignored(r.Remote.Path)
	}
	return func(key string) bool {
		return at[key] || above[key] || ignored[key] || mirror.IsState(key) || slices.ContainsFunc(object.Ancestors(key), func(directory string) bool { return at[directory] })
	}
}

// equalEdits has all devices, when they agree on a file, make the same edit of it. Each then does a
// round, some without a response. No device may take another's edit for a rival of its own.
func (w *world) equalEdits(o op) {
	rounds := func() {
		for i := range w.devices {
			_, _ = w.round(pick(w.devices, i+o.b))
		}
	}
	w.calm()
	rounds()
	rounds()
	p := pick(paths, o.a)
	there := ""
	for _, r := range w.records() {
		if mirror.KeyOf(r.Path) == mirror.KeyOf(p) {
			there = r.Checksum
		}
		if slices.Contains(object.Ancestors(mirror.KeyOf(r.Path)), mirror.KeyOf(p)) { // devices may ignore what is in the directory
			return
		}
	}
	names := make([]string, len(w.devices))
	for i, d := range w.devices {
		here, ok := "", false
		if names[i], ok = w.writable(d, p); !ok {
			return
		}
		if f := d.file(p); f != nil {
			here = must.Sum(f.content)
		}
		if here != there {
			return
		}
	}
	c := w.content(p)
	w.log("all write %q to %s", c, p)
	for i, d := range w.devices {
		if f := d.disk.files[names[i]]; f != nil {
			w.gone(f.content, "overwritten on "+d.name)
		}
		d.disk.write(names[i], c)
	}
	d := pick(w.devices, o.call)
	d.losing = []int{1}
	rounds()
	w.calm()
	rounds()
	for _, d := range w.devices {
		for _, name := range d.names() {
			if mirror.IsConflict(norm.NFC.String(name)) && strings.Contains(name, must.Sum(c)[:6]) {
				w.failf("%s has the conflict copy %s of equal edits", d.name, name)
			}
		}
	}
}

// serverCreates has another client make a file, if the path is free.
func (w *world) serverCreates(path string) {
	c := w.content(path)
	_, err := w.server.create(w.t, path, strings.NewReader(c), int64(len(c)), "")
	if err != nil {
		w.gone(c, "refused")
	}
	w.log("the server gets %q at %s: %v", c, path, err)
}

// serverReplaces has another client replace a file.
func (w *world) serverReplaces(r mirror.Record) {
	c := w.content(r.Path)
	if _, err := w.server.replace(w.t, r, strings.NewReader(c), int64(len(c)), ""); err != nil {
		w.failf("replace: %v", err)
	}
	w.gone(w.stored(r), "overwritten on the server")
	w.log("the server gets %q at %s", c, r.Path)
}

// quiet ends all faults, lets every client work until none has anything to do, and checks the
// invariants.
func (w *world) quiet() {
	w.calm()
	const most = 14
	for pass := 1; ; pass++ {
		w.server.core.Clock.Advance(10 * time.Second)
		busy := false
		for _, d := range w.devices {
			d.accept()
			writes := d.state.writes
			most := len(d.disk.staged) // which may be damaged
			d.transfers = 0
			out, err := w.round(d)
			if err != nil {
				w.failf("%s: a round without faults: %v", d.name, err)
				return
			}
			w.lists(d, out)
			if most += out.Done + 3*len(out.Failed); d.transfers > most {
				w.failf("%s: %d requests beside readings of changes, of at most %d", d.name, d.transfers, most)
			}
			busy = busy || out.Done > 0 || d.state.writes > writes
		}
		if !busy {
			break
		}
		if pass == most {
			w.failf("the devices do not come to rest")
			return
		}
	}
	there, copies := map[string]string{}, 0
	for _, r := range w.records() {
		there[mirror.KeyOf(r.Path)] = r.Checksum
		if mirror.IsConflict(r.Path) {
			copies++
		}
	}
	if w.s.single && copies > len(w.unstored)+w.rivals {
		w.failf("%d conflict copies, and one device alone has written, with %d contents of which it does not know that both sides have them, and %d edits before one came back", copies, len(w.unstored), w.rivals)
	}
	kept := map[string]bool{}
	for _, sum := range there {
		kept[sum] = true
	}
	present := map[string]bool{}
	for _, d := range w.devices {
		d.remote.requests.Store(0)
		d.state.writes = 0
		out, err := w.round(d)
		if err != nil || d.remote.requests.Load() > int64(1+3*len(out.Failed)) || d.state.writes > 0 {
			w.failf("%s makes %d requests and %d writes in quiet, %v", d.name, d.remote.requests.Load(), d.state.writes, err)
		}
		here, left := map[string]string{}, w.left(d)
		for name, f := range d.disk.files {
			kept[must.Sum(f.content)], present[f.content] = true, true
			if !left(mirror.KeyOf(name)) {
				here[mirror.KeyOf(name)] = must.Sum(f.content)
			}
		}
		followed, blocked := maps.Clone(there), map[string]bool{} // by checksum: files that cannot be moved to where they are on the server
		maps.DeleteFunc(followed, func(key, sum string) bool {
			blocked[sum] = blocked[sum] || left(key)
			return left(key)
		})
		maps.DeleteFunc(here, func(key, sum string) bool { return blocked[sum] && there[key] == "" })
		if diff := cmp.Diff(followed, here); diff != "" {
			w.failf("%s (-server +directory):\n%s", d.name, diff)
		}
	}
	for c, why := range w.ledger {
		trashed := slices.ContainsFunc(w.devices, func(d *device) bool { return d.disk.trash[c] })
		if !kept[must.Sum(c)] && (why == "" || why == undone && !trashed && !w.earlier(c)) {
			w.failf("%q is lost", c)
		}
		if (strings.HasPrefix(why, "removed") || strings.HasPrefix(why, "deleted")) && present[c] && !w.back[c] && !w.unstored[must.Sum(c)] && !w.restored {
			w.failf("%q is back, which was %s", c, why)
		}
	}
	for _, d := range w.devices {
		for _, r := range d.remote.deleted {
			w.restores(r)
		}
	}
}

// lists checks that a round without faults has listed what is odd, left nothing else alone, and failed
// nowhere but where a file is in the place whose name is ignored.
func (w *world) lists(d *device, out client.Outcome) {
	left, rules := w.left(d), d.disk.present()
	listed := map[string]bool{}
	for _, h := range out.Held {
		listed[h.Path] = true
		if !left(mirror.KeyOf(h.Path)) {
			w.failf("%s: held %v", d.name, out.Held)
		}
	}
	for _, h := range out.Failed {
		key := mirror.KeyOf(h.Path)
		if !slices.ContainsFunc(d.names(), func(name string) bool { // which differs in case
			at := mirror.KeyOf(name)
			return rules.Ignored(norm.NFC.String(name)) && (key == at || strings.HasPrefix(key, at+"/"))
		}) {
			w.failf("%s: failed %v", d.name, out.Failed)
		}
	}
	for name := range d.disk.files {
		if p := norm.NFC.String(name); d.isOdd(name) && !rules.Ignored(p) && !listed[p] {
			w.failf("%s: %s is not listed", d.name, p)
		}
	}
}

// earlier reports whether an earlier version of a file on the server has a content: a device sends a file that was
// written in the place of a renamed one, and a power failure takes both back, so that the former content is
// replaced as one that was not changed.
func (w *world) earlier(content string) bool {
	for _, r := range w.records() {
		for v := r.Version - 1; v > 0; v-- {
			if sum, err := w.server.version(w.t, mirror.Record{ID: r.ID, Version: v}); err == nil && sum == must.Sum(content) {
				return true
			}
		}
	}
	return false
}

// restores checks that what a client has deleted on the server can be read there, and restored.
func (w *world) restores(r mirror.Record) {
	sum, err := w.server.version(w.t, r)
	if err != nil {
		w.failf("version %d of what was deleted: %v", r.Version, err)
		return
	}
	for _, present := range w.records() {
		if present.ID == r.ID { // somebody has restored it
			return
		}
	}
	if now, err := w.server.restore(w.t, r, "restored/"+string(r.ID)); err != nil || now.Checksum != sum {
		w.failf("a restored file has the content %s in the place of %s, %v", now.Checksum, sum, err)
	}
}

// simulate runs a case and returns what it has violated, and its trace.
func simulate(ctx context.Context, s scenario, mutate func(*client.Options)) (trace []string, err error) {
	w, err := newWorld(ctx, s, mutate)
	if err != nil {
		return nil, err
	}
	defer w.server.core.Close()
	for _, o := range s.ops {
		w.log("%+v", o)
		if w.do(o); w.err != nil {
			return w.trace, w.err
		}
	}
	w.quiet()
	return w.trace, w.err
}

// shrink leaves out events as long as the case fails.
func shrink(ctx context.Context, s scenario, mutate func(*client.Options)) scenario {
	for size := len(s.ops) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s.ops); {
			less := s
			less.ops = slices.Delete(slices.Clone(s.ops), at, at+size)
			if _, err := simulate(ctx, less, mutate); err != nil {
				s = less
				continue
			}
			at += size
		}
	}
	return s
}

func TestClientsAndServerBecomeEqualAndLoseNothing(t *testing.T) {
	ctx := t.Context()
	check := func(seed uint64) bool {
		s := newScenario(seed)
		if _, err := simulate(ctx, s, nil); err != nil {
			s = shrink(ctx, s, nil)
			trace, err := simulate(ctx, s, nil)
			t.Errorf("seed %d, %d devices, %d events after shrinking: %v\n%s", seed, s.devices, len(s.ops), err, strings.Join(trace, "\n"))
			return false
		}
		return true
	}
	if os.Getenv(soak.EnvSeed) != "" {
		check(soak.Seed(t))
		return
	}
	count := uint64(seeds)
	if soak.Full() {
		count = soak.Seeds(t, 100_000)
	}
	const lanes = 4
	for lane := range uint64(lanes) {
		t.Run(fmt.Sprintf("lane %d", lane), func(t *testing.T) {
			t.Parallel()
			for seed := lane + 1; seed <= count; seed += lanes {
				if !check(seed) {
					return
				}
			}
		})
	}
}

func TestTheSameSeedHasTheSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		first, _ := simulate(t.Context(), newScenario(seed), nil)
		second, _ := simulate(t.Context(), newScenario(seed), nil)
		if !slices.Equal(first, second) {
			for i := range min(len(first), len(second)) {
				if first[i] != second[i] {
					t.Fatalf("seed %d: line %d is %q, then %q", seed, i, first[i], second[i])
				}
			}
			t.Fatalf("seed %d: %d lines, then %d", seed, len(first), len(second))
		}
	}
}
