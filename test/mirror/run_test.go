package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"collab/adapters/localdisk"
	"collab/adapters/mirrorstate"
	"collab/adapters/system"
	client "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/domain/org"
	"collab/test/harness"
	"collab/test/must"

	"github.com/google/go-cmp/cmp"
)

// watcher notifies of what a test says.
type watcher chan mirror.Scope

func (w watcher) Watch(ctx context.Context, changed func(mirror.Scope, string)) error {
	changed(mirror.Everything(), "")
	for {
		select {
		case scope := <-w:
			changed(scope, "")
		case <-ctx.Done():
			return nil
		}
	}
}

func (watcher) Settle(context.Context) bool { return false }

// lateWatcher notifies of a change as late as it may.
type lateWatcher struct {
	watcher
	late mirror.Scope
}

func (w lateWatcher) Settle(context.Context) bool {
	w.watcher <- w.late
	w.watcher <- mirror.Scope{} // the one before was passed
	return true
}

// place is an organisation's shared files on a server.
func place(t *testing.T) *server {
	core := must.Do(harness.NewDeployment(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))).Or(t)
	t.Cleanup(core.Close)
	actor := must.Do(core.Join(t.Context(), "org_1", "user_1", org.Owner)).Or(t)
	return &server{core: core, actor: actor}
}

func responses(string) (bool, error) { return false, nil }

func TestRunFollowsNotificationsUntilItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	notify := make(watcher, 1)
	s := newSingle(t, func(o *client.Options) {
		o.Watcher, o.Workers, o.Random = notify, 2, func() float64 { return 0 }
		o.Wait = func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	})
	s.remote.batches = 10
	rounds, writes := 0, 0
	must.NoError(t, s.client.Run(ctx, func(out client.Outcome, err error) {
		if err != nil {
			t.Error(err)
			cancel()
		}
		switch rounds++; {
		case rounds == 1:
			s.disk.write("d/a", "content")
			s.disk.write("d/b", "content")
			s.disk.write("d/c", "content")
			writes = s.state.writes
			notify <- mirror.Scope{Directories: []string{""}}
		case out.Done == 3:
			if writes = s.state.writes - writes; writes > 2 { // the responses of the batch, and the cursor
				t.Errorf("the state was written %d times", writes)
			}
			cancel()
		}
	}))
	s.want(map[string]string{"d/a": "content", "d/b": "content", "d/c": "content"})
}

// scopes is a disk that notes what scans read.
type scopes struct {
	*disk
	read []mirror.Scope
}

func (d *scopes) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	d.read = append(d.read, scope)
	return d.disk.Scan(ctx, scope, known, each)
}

func TestNotifiedDirectoriesAreNotScannedAfterTransfers(t *testing.T) {
	d := &scopes{}
	s := newSingle(t, func(o *client.Options) {
		d.disk = o.Disk.(*disk)
		o.Disk, o.Watcher, o.Random = d, make(watcher), func() float64 { return 0 }
		o.Wait = func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
	})
	s.disk.write("in/sent", "1")
	must.Do(s.server.create(t.Context(), "in/received", strings.NewReader("2"), 1, "")).Or(t)
	ctx, cancel := context.WithCancel(t.Context())
	must.NoError(t, s.client.Run(ctx, func(out client.Outcome, err error) {
		must.Equal(t, 2, out.Done)
		cancel()
	}))
	must.Equal(t, []mirror.Scope{mirror.Everything()}, d.read)
}

// syncs is a disk that counts the files that are synced.
type syncs struct {
	*disk
	files int
}

func (d *syncs) Sync(ctx context.Context, files ...mirror.Entry) []error {
	d.files += len(files)
	return d.disk.Sync(ctx, files...)
}

func TestADirectoryThatWasMovedIsMadeDurableOnce(t *testing.T) {
	d := &syncs{}
	s := newSingle(t, func(o *client.Options) {
		d.disk = o.Disk.(*disk)
		o.Disk = d
	})
	s.disk.write("d/a", "1")
	s.disk.write("d/b", "2")
	must.Do(s.round()).Or(t)
	s.disk.move("d", "e")
	d.files = 0
	must.Do(s.round()).Or(t)
	if d.files == 0 {
		t.Error("it is not made durable")
	}
	d.files = 0
	must.Do(s.round()).Or(t)
	must.Equal(t, 0, d.files)
}

func TestAFileThatIsChangedAgainAndAgainIsSentLessAndLessOften(t *testing.T) {
	notify := make(watcher, 1)
	var waits []time.Duration
	var s *single
	sent := 0
	s = newSingle(t, func(o *client.Options) {
		o.Watcher, o.Random = notify, func() float64 { return 0 }
		o.Wait = func(ctx context.Context, d time.Duration) error {
			if d == time.Second || d > time.Minute { // the next look for a pause, or scan
				<-ctx.Done()
				return ctx.Err()
			}
			waits = append(waits, d)
			if d == 16*time.Second {
				d -= 2 * time.Second // the clock is set back meanwhile
			}
			s.server.core.Clock.Advance(d)
			if sent < 8 {
				s.disk.write("log", fmt.Sprint("when it is due ", sent))
			}
			return nil
		}
	})
	s.disk.write("log", "0")
	ctx, cancel := context.WithCancel(t.Context())
	must.NoError(t, s.client.Run(ctx, func(out client.Outcome, err error) {
		if err != nil || len(out.Failed) > 0 {
			t.Errorf("%+v, %v", out, err)
			cancel()
		}
		if out.Done == 0 { // it was put off
			if sent == 7 {
				s.server.core.Clock.Advance(-time.Hour) // the clock is set back before the wait begins
			}
			return
		}
		switch sent++; sent {
		case 8, 9: // it is saved at intervals
			s.server.core.Clock.Advance(time.Minute / 2)
		case 10, 11:
			s.server.core.Clock.Advance(2 * time.Second)
		case 12, 14: // each three seconds, and before that twice within half a second
			s.server.core.Clock.Advance(time.Second / 2)
		case 13, 15:
			s.server.core.Clock.Advance(3 * time.Second / 2)
		case 16:
			cancel()
			return
		}
		s.disk.write("log", fmt.Sprint(sent))
		notify <- mirror.Scope{Directories: []string{""}}
	}))
	must.Equal(t, []time.Duration{
		2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 2 * time.Second, 30 * time.Second, 30 * time.Second,
		3 * time.Second / 2, 5 * time.Second / 2, 3 * time.Second / 2, time.Second / 2,
	}, waits)
}

// TestDeletionsOfAMinuteAreStoppedAsThoseOfOneRound has a program remove files for longer than rounds take, and the client
// started again.
func TestDeletionsOfAMinuteAreStoppedAsThoseOfOneRound(t *testing.T) {
	s := newSingle(t)
	for n := range 100 {
		s.disk.write(fmt.Sprint(n), "content")
	}
	s.round()
	removed := 0
	for i, c := range []struct {
		after   time.Duration // since the last round
		removes int
		accept  bool
		left    int
		restart bool // before that
	}{
		{after: time.Second, removes: 20, left: 80},
		{after: time.Second, removes: 5, left: 75, restart: true},
		{after: time.Second, removes: 1, left: 75, restart: true},
		{after: time.Hour, left: 75}, // it still waits
		{after: time.Hour, left: 75, restart: true},
		{after: time.Second, accept: true, left: 74},
		{after: time.Second, removes: 18, left: 56},
		{after: time.Minute + time.Second, removes: 14, left: 42},
		{after: time.Second, removes: 1, left: 41},
		{after: -time.Hour, removes: 10, left: 31}, // the clock is set back
	} {
		s.server.core.Clock.Advance(c.after)
		for range c.removes {
			s.disk.remove(fmt.Sprint(removed))
			removed++
		}
		if c.restart {
			s.start()
		}
		if c.accept {
			s.client.AcceptDeletions()
		}
		s.client.Changed(mirror.Everything())
		out, err := s.client.Round(t.Context())
		if left := len(s.records()); err != nil || left != c.left || (out.Guard == "") != (left == 100-removed) {
			t.Errorf("%d: %d files are left, %q, %v", i, left, out.Guard, err)
		}
	}
}

func TestManyFilesAreReleasedWhileNothingHappens(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	notify := make(watcher, 1)
	released, done := 0, 0
	var s *single
	s = newSingle(t, func(o *client.Options) {
		o.Watcher, o.Resident, o.Random = notify, 2, func() float64 { return 0 }
		o.Wait = func(ctx context.Context, d time.Duration) error {
			if d == time.Minute {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		o.Released = func() {
			if released++; released == 2 {
				cancel()
				return
			}
			s.disk.write("in/b", "changed")
			s.disk.write("in/d", "new")
			delete(s.disk.files, "in/c")
			s.disk.midway = func([]string) {
				s.disk.midway = func([]string) {}
				s.disk.move("out", "0")
			}
			notify <- mirror.Scope{Directories: []string{"in"}}
		}
	})
	s.remote.batches = 10
	for _, name := range []string{"a", "in/b", "in/c", "out/e"} {
		s.disk.write(name, "content")
	}
	must.NoError(t, s.client.Run(ctx, func(out client.Outcome, err error) {
		if done += out.Done; err != nil || len(out.Failed) > 0 || out.Guard != "" {
			t.Errorf("%+v, %v", out, err)
			cancel()
		}
	}))
	var all []string
	must.Do(s.server.list(t.Context(), func(r mirror.Record) error {
		all = append(all, fmt.Sprint(r.Path, r.Version))
		return nil
	})).Or(t)
	if diff := cmp.Diff([]string{"0/e2", "a1", "in/b2", "in/d1"}, all); diff != "" || done != 8 || released != 2 {
		t.Errorf("%d steps, %d releases: %s", done, released, diff)
	}
}

// single is one client of a server.
type single struct {
	t      *testing.T
	server *server
	disk   *disk
	state  *state
	remote *remote
	client *client.Mirror
	start  func() // the client, again
}

func newSingle(t *testing.T, alter ...func(*client.Options)) *single {
	s := &single{t: t, server: place(t), state: newState()}
	s.disk, s.remote = newDisk(s.server.core.Clock.Now), &remote{server: s.server, before: responses}
	o := client.Options{
		Disk: s.disk, DiskWriter: s.disk, State: s.state, Remote: s.remote, RemoteWriter: s.remote, Clock: s.server.core.Clock, Device: "desk", Workers: 1,
	}
	for _, alter := range alter {
		alter(&o)
	}
	s.start = func() { s.client = client.New(o) }
	s.start()
	return s
}

// round scans everything and does a round. The error is returned if it is of the server.
func (s *single) round() (client.Outcome, error) {
	s.t.Helper()
	s.server.core.Clock.Advance(10 * time.Second)
	s.client.Changed(mirror.Everything())
	out, err := s.client.Round(s.t.Context())
	if err != nil && !fault.Is(err, fault.Unavailable) || len(out.Failed) > 0 || out.Guard != "" {
		s.t.Fatalf("%+v, %v", out, err)
	}
	return out, err
}

// agree writes files, whose contents are their names, and does a round.
func (s *single) agree(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.disk.write(name, name)
	}
	_, _ = s.round()
}

// at has fn be called before the next request of a kind.
func (s *single) at(request string, fn func() (lost bool, err error)) {
	s.remote.before = func(call string) (bool, error) {
		if call != request {
			return false, nil
		}
		s.remote.before = responses
		return fn()
	}
}

// records returns the server's files by path.
func (s *single) records() map[string]mirror.Record {
	all := map[string]mirror.Record{}
	must.Do(s.server.list(s.t.Context(), func(r mirror.Record) error { all[r.Path] = r; return nil })).Or(s.t)
	return all
}

// want compares the server and the directory with contents by path.
func (s *single) want(contents map[string]string) {
	s.t.Helper()
	sums, there, here := map[string]string{}, map[string]string{}, map[string]string{}
	for p, c := range contents {
		sums[p] = must.Sum(c)
	}
	for p, r := range s.records() {
		there[p] = r.Checksum
	}
	for p, f := range s.disk.files {
		here[p] = must.Sum(f.content)
	}
	must.Equal(s.t, sums, there) // the server
	must.Equal(s.t, sums, here)  // the directory
}

func TestAFileThatTakesTheNameOfAnotherOfItsSizeAndTimeIsReadAgain(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s := newSingle(t)
		s.disk.inodes, s.disk.grain = false, 2*time.Second
		s.disk.write("a", "content 1")
		s.disk.write("b", "content 2")
		_, _ = s.round()
		if fails {
			s.client = newSingle(t, func(o *client.Options) {
				o.Disk, o.DiskWriter, o.State, o.Remote, o.RemoteWriter = s.disk, s.disk, s.state, s.remote, s.remote
			}).client
		}
		delete(s.disk.files, "a")
		s.disk.move("b", "a")
		_, _ = s.round()
		s.want(map[string]string{"a": "content 2"})
	}
}

func TestADirectoryWhoseNameGetsAnotherUnicodeFormKeepsItsFiles(t *testing.T) {
	s := newSingle(t)
	s.agree("e\u0301/a", "e\u0301/in/b", "c")
	before := s.records()
	s.disk.move("e\u0301", "\u00e9")
	if out, err := s.round(); err != nil || out.Files != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	must.Equal(t, before, s.records())
}

func TestOfTwoNamesWithOnePathTheSynchronisedOneIsSent(t *testing.T) {
	for _, names := range [][2]string{{"\u00e9", "e\u0301"}, {"e\u0301", "\u00e9"}} {
		s := newSingle(t)
		s.disk.write(names[0], "content")
		_, _ = s.round()
		before := s.records()
		s.disk.write(names[1], "another content")
		for range 8 { // maps have another order each time
			if out, err := s.round(); err != nil || len(out.Held) != 1 || out.Done > 0 {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		must.Equal(t, before, s.records())
	}
}

// TestDirectoriesThatAKilledClientLeftEmptyAreRemoved has a client be killed when it has moved a file, and when it has
// removed another.
func TestDirectoriesThatAKilledClientLeftEmptyAreRemoved(t *testing.T) {
	s := newSingle(t)
	for _, name := range []string{"a/b/moved", "c/removed", "stays", "d/stays"} {
		s.disk.write(name, name)
	}
	s.disk.directories["d/empty"] = true // by its user
	_, _ = s.round()
	must.Do(s.server.move(t.Context(), s.records()["a/b/moved"], "e/moved")).Or(t)
	must.NoError(t, s.server.delete(t.Context(), s.records()["c/removed"]))
	killed := false
	s.disk.stopped = func() bool { return killed }
	s.disk.before = func(call string) (bool, error) {
		killed = killed || call == "rename" || call == "trash"
		return false, nil
	}
	s.state.before = func(string) (bool, error) {
		if killed {
			return false, fault.New(fault.Unavailable, "killed")
		}
		return false, nil
	}
	for range 3 {
		_, _ = s.round()
		s.start()
		killed = false
	}
	must.Equal(t, []string{"d", "d/empty", "e"}, slices.Sorted(maps.Keys(s.disk.directories)))
	s.want(map[string]string{"e/moved": "a/b/moved", "stays": "stays", "d/stays": "d/stays"})
}

func TestAFileThatIsThereAgainIsNotDeletedOnTheServer(t *testing.T) {
	for _, batches := range []int{0, 10} {
		s := newSingle(t)
		s.remote.batches = batches
		s.agree("a", "b", "c", "d")
		before := s.records()["a"]
		delete(s.disk.files, "a")
		delete(s.disk.files, "b")
		s.at("since", func() (bool, error) {
			s.disk.write("a", "an edit")
			return false, nil
		})
		_, _ = s.round()
		if after := s.records()["a"]; after.ID != before.ID {
			t.Errorf("with batches of %d, the file was deleted and made again", batches)
		}
		s.want(map[string]string{"a": "an edit", "c": "c", "d": "d"})
	}
}

func TestAFileWhoseUploadHadNoResponseIsLookedForBeforeItsDeletion(t *testing.T) {
	s := newSingle(t)
	s.disk.write("a", "content")
	s.at("create", func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") })
	_, _ = s.round()
	before := s.records()["a"]
	delete(s.disk.files, "a")
	s.disk.write("b", "another")
	s.at("create", func() (bool, error) { // after the server was read, and before the deletion
		s.disk.write("a", "an edit")
		return false, nil
	})
	_, _ = s.round()
	if after := s.records()["a"]; after.ID != before.ID || before.ID == "" {
		t.Error("the file was deleted and made again")
	}
	s.want(map[string]string{"a": "an edit", "b": "another"})
}

// TestAServerThatWentBackInItsLogIsUnited has a server lose what it stored last, as when a machine is
// restored and nobody raises the epoch of the log.
func TestAServerThatWentBackInItsLogIsUnited(t *testing.T) {
	for _, later := range []int{0, 20} { // changes since, with which the log is longer than it was
		t.Run(fmt.Sprintf("%d changes since", later), func(t *testing.T) {
			s := newSingle(t)
			earlier := place(t) // the same server at an earlier time: ids are counted
			write := func(at *server, path, content string) mirror.Record {
				return must.Do(at.create(t.Context(), path, strings.NewReader(content), int64(len(content)), "")).Or(t)
			}
			var b mirror.Record
			for _, at := range []*server{s.server, earlier} {
				write(at, "a", "content")
				b = write(at, "b", "another")
			}
			_, _ = s.round()
			s.disk.write("a", "an edit")
			s.disk.write("b", "another edit")
			_, _ = s.round()
			s.disk.write("b", "the last edit")
			s.disk.write("c", "a new file")
			_, _ = s.round()

			want := map[string]string{"a": "content", "a (conflict desk 2026-03-01 ecfdb2)": "an edit", "b": "another", "b (conflict desk 2026-03-01 4ba2a9)": "the last edit", "c": "a new file"}
			for i := range later {
				name := fmt.Sprint("later", i)
				want[name] = name
				write(earlier, name, name)
			}
			if later > 0 {
				must.Do(earlier.replace(t.Context(), b, strings.NewReader("of another device"), 17, "")).Or(t)
				want["b"] = "of another device"
			}
			s.server, s.remote.server = earlier, earlier
			_, _ = s.round()
			s.want(want)
		})
	}
}

// TestAnotherDirectoryThatIsAcceptedIsUnited has a copy of the directory in its place, with an edit, a file that
// the server has deleted since, and without one that it has.
func TestAnotherDirectoryThatIsAcceptedIsUnited(t *testing.T) {
	s := newSingle(t)
	s.agree("a", "b", "c", "d")
	s.disk.identity = "another"
	s.disk.remove("a")
	s.disk.write("c", "an edit")
	all := s.records()
	must.NoError(t, s.server.delete(t.Context(), all["b"]))
	must.Do(s.server.replace(t.Context(), all["c"], strings.NewReader("a newer one"), 11, "")).Or(t)
	s.start()
	out := must.Do(s.client.Round(t.Context())).Or(t)
	if out.Guard == "" || out.Done > 0 || len(out.Pending) == 0 || slices.ContainsFunc(out.Pending, func(step mirror.Step) bool { return step.Action.Deletes() }) {
		t.Errorf("%+v, want a guard, and no deletion to accept", out)
	}
	s.client.AcceptDeletions()
	_, _ = s.round()
	_, _ = s.round() // it is not asked again
	s.want(map[string]string{"a": "a", "b": "b", "c": "a newer one", "c (conflict desk 2026-03-01 ecfdb2)": "an edit", "d": "d"})
	if len(s.disk.trash) > 0 {
		t.Errorf("the trash has %v", s.disk.trash)
	}
}

// TestACopyThatHasWhatTheServerHasIsBound has a copy of the directory in its place, which is then one of its own.
func TestACopyThatHasWhatTheServerHasIsBound(t *testing.T) {
	s := newSingle(t)
	s.agree("a", "b", "c")
	s.disk.identity = "a copy"
	s.start()
	if out, err := s.round(); err != nil || out.Done > 0 || s.state.binding.Root != "a copy" {
		t.Errorf("%+v, %v, bound to %q", out, err, s.state.binding.Root)
	}
	s.disk.remove("a")
	_, _ = s.round()
	s.want(map[string]string{"b": "b", "c": "c"})
}

// TestAFileInThePlaceOfWhatIsIgnoredIsHeld has the server move files to where the directory has an ignored directory,
// and one with an ignored file in it, which are removed later.
func TestAFileInThePlaceOfWhatIsIgnoredIsHeld(t *testing.T) {
	s := newSingle(t)
	s.disk.write(mirror.IgnoreFile, "build/\n*.tmp")
	s.agree("a", "b", "c")
	s.disk.write("build/x", "x")
	s.disk.write("out/x.tmp", "x")
	s.disk.write("y.tmp", "y")
	for from, to := range map[string]string{"a": "build", "b": "out", "c": "Y.TMP"} {
		must.Do(s.server.move(t.Context(), s.records()[from], to)).Or(t)
	}
	for range 2 {
		if out, err := s.round(); err != nil || len(out.Held) != 3 || out.Held[0].Path != "build" || out.Held[1].Path != "out" || out.Held[2].Path != "Y.TMP" {
			t.Errorf("%+v, %v, want three files that are held", out, err)
		}
	}
	s.disk.remove("build/x")
	s.disk.remove("out/x.tmp")
	s.disk.remove("y.tmp")
	_, _ = s.round()
	s.want(map[string]string{mirror.IgnoreFile: "build/\n*.tmp", "build": "a", "out": "b", "Y.TMP": "c"})
}

// resized is a remote whose patterns of ignored files have so many bytes, unless it is 0.
type resized struct {
	*remote
	size int64
}

func (r *resized) records(each func(mirror.Record) error) func(mirror.Record) error {
	return func(record mirror.Record) error {
		if record.Path == mirror.IgnoreFile && r.size > 0 {
			record.Size = r.size
		}
		return each(record)
	}
}

func (r *resized) Manifest(ctx context.Context, each func(mirror.Record) error) (object.Cursor, error) {
	return r.remote.Manifest(ctx, r.records(each))
}

func (r *resized) Since(ctx context.Context, from object.Cursor, each func(mirror.Record) error) (object.Cursor, error) {
	return r.remote.Since(ctx, from, r.records(each))
}

func TestNothingIsSentOrDeletedWhilePatternsAreTooLarge(t *testing.T) {
	r := &resized{}
	s := newSingle(t, func(o *client.Options) {
		r.remote = o.Remote.(*remote)
		o.Remote = r
	})
	for name, content := range map[string]string{"a": "a", "b": "b", mirror.IgnoreFile: "x"} {
		s.disk.write(name, content)
	}
	_, _ = s.round()
	change := func(size int64, patterns string) {
		r.size = size
		must.Do(s.server.replace(t.Context(), s.records()[mirror.IgnoreFile], strings.NewReader(patterns), int64(len(patterns)), "")).Or(t)
	}
	change(mirror.MaxIgnore+1, "*.tmp")
	must.Do(s.server.create(t.Context(), "c", strings.NewReader("c"), 1, "")).Or(t)
	must.NoError(t, s.server.delete(t.Context(), s.records()["b"]))
	s.disk.remove("a")
	s.disk.write("d.tmp", "d")
	for range 2 {
		out, err := s.round()
		if err != nil || len(out.Held) != 1 || out.Held[0].Path != mirror.IgnoreFile {
			t.Errorf("%+v, %v, want the patterns to be held", out, err)
		}
		var here, there []string
		for name := range s.disk.files {
			here = append(here, name)
		}
		for name := range s.records() {
			there = append(there, name)
		}
		slices.Sort(here)
		slices.Sort(there)
		must.Equal(t, []string{mirror.IgnoreFile, "b", "c", "d.tmp"}, here)
		must.Equal(t, []string{mirror.IgnoreFile, "a", "c"}, there)
	}
	change(0, "*.tmp\n")
	s.disk.write("a", "a")
	s.disk.remove("b")
	_, _ = s.round()
	s.disk.remove("d.tmp")
	s.want(map[string]string{mirror.IgnoreFile: "*.tmp\n", "a": "a", "c": "c"})
}

// cleaned is a disk that notes before which times staged content and trash are removed.
type cleaned struct {
	*disk
	before []time.Time
}

func (c *cleaned) Clean(_ context.Context, staged, trash time.Time) error {
	c.before = append(c.before, staged, trash)
	return nil
}

func TestStagedContentIsRemovedOnceADayAndWhenNothingCanBeStored(t *testing.T) {
	c, paused := &cleaned{}, true
	s := newSingle(t, func(o *client.Options) {
		c.disk = o.Disk.(*disk)
		o.DiskWriter, o.IsPaused = c, func() bool { return paused }
	})
	_, _ = s.round()
	paused = false
	s.at("manifest", func() (bool, error) { return false, fault.New(fault.Unavailable, "no") })
	_, _ = s.round()
	must.Equal(t, nil, c.before) // by rounds that were not made
	_, _ = s.round()
	now := s.server.core.Clock.Now()
	_, _ = s.round()
	must.Equal(t, []time.Time{now.AddDate(0, 0, -1), now.AddDate(0, 0, -30)}, c.before)
	s.server.core.Clock.Advance(24 * time.Hour)
	_, _ = s.round()
	must.Is(t, 4, len(c.before))
	ctx, interrupt := context.WithCancel(t.Context())
	s.state.before = func(string) (bool, error) { interrupt(); return false, ctx.Err() }
	s.put(map[string]string{}, "a", "")
	must.FailIs(t, must.ErrorOf(s.client.Round(ctx)), context.Canceled)
	must.Is(t, 4, len(c.before)) // what an interrupted round has downloaded stays
	s.state.before = func(string) (bool, error) { return false, fault.New(fault.Unavailable, "full") }
	_, _ = s.round()
	must.Equal(t, []time.Time{s.server.core.Clock.Now(), s.server.core.Clock.Now().AddDate(0, 0, -30)}, c.before[4:])
}

// damaging damages the contents that are downloaded.
type damaging struct {
	*remote
	downloads int
	mended    bool
}

func (d *damaging) Download(ctx context.Context, r mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	d.downloads++
	record, content, err := d.remote.Download(ctx, r, offset)
	if err == nil && !d.mended {
		content = cut{io.MultiReader(strings.NewReader("x"), content), content}
	}
	return record, content, err
}

func TestADamagedContentIsHeldAndDownloadedEverMoreRarely(t *testing.T) {
	var d *damaging
	s := newSingle(t, func(o *client.Options) {
		d = &damaging{remote: o.Remote.(*remote)}
		o.Remote = d
	})
	must.Do(s.server.create(t.Context(), "a", strings.NewReader("content"), 7, "")).Or(t)
	for range 360 { // an hour
		out, err := s.round()
		if err != nil || len(out.Held) != 1 || !out.Retry || !strings.Contains(out.Held[0].Reason, "damaged") {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if d.downloads != 6 { // after 0, 1, 3, 7, 15 and 31 minutes
		t.Errorf("%d downloads in an hour", d.downloads)
	}
	d.mended = true
	s.server.core.Clock.Advance(time.Hour)
	if out, err := s.round(); err != nil || len(out.Held) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	s.want(map[string]string{"a": "content"})
}

func TestAChangeThatIsMadeAfterItWasGivenUpIsNoRivalEdit(t *testing.T) {
	t.Run("an upload", func(t *testing.T) {
		s := newSingle(t)
		var late func()
		s.remote.delay = func(fn func()) { late = fn }
		lost := func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") }
		s.disk.write("a", "one")
		s.at("create", lost)
		_, _ = s.round()
		s.disk.write("a", "two is longer")
		s.at("create", func() (bool, error) {
			late()
			return false, nil
		})
		_, _ = s.round()
		s.want(map[string]string{"a": "two is longer"})

		s.disk.write("a", "three is longer yet")
		s.at("replace", lost)
		_, _ = s.round()
		s.state.before = func(call string) (bool, error) { // what is known is read again from the state
			s.state.before = responses
			return false, fault.New(fault.Unavailable, "%s: the disk is full", call)
		}
		s.disk.write("a", "four")
		_, _ = s.round()
		late()
		_, _ = s.round()
		s.want(map[string]string{"a": "four"})
	})
	t.Run("an upload of which nothing was made, of a file that came back by another device", func(t *testing.T) {
		s := newSingle(t)
		s.disk.write("a", "one")
		s.at("create", func() (bool, error) { return false, fault.New(fault.Unavailable, "no connection") })
		_, _ = s.round()
		s.disk.move("a", "b")
		_, _ = s.round()
		must.Do(s.server.move(t.Context(), s.records()["b"], "a")).Or(t)
		_, _ = s.round()
		s.want(map[string]string{"a": "one"})
	})
	t.Run("an upload that was given up long ago", func(t *testing.T) {
		s := newSingle(t)
		s.disk.write("a", "one")
		s.at("create", func() (bool, error) { return false, fault.New(fault.Unavailable, "no connection") })
		_, _ = s.round()
		delete(s.disk.files, "a")
		s.disk.write("b", "another")
		_, _ = s.round()
		s.server.core.Clock.Advance(time.Hour)
		s.disk.write("b", "another edit")
		_, _ = s.round()
		must.Do(s.server.create(t.Context(), "a", strings.NewReader("one"), 3, "")).Or(t)
		_, _ = s.round()
		s.want(map[string]string{"a": "one", "b": "another edit"})
	})
}

// runner is a client whose Run waits as a test says, and what it does.
type runner struct {
	*disk
	*client.Mirror
	state  *state
	fail   func(call string) error // of each request
	paused atomic.Bool
	tick   chan struct{} // the next look at paused
	waits  atomic.Int32  // after failed rounds
}

func newRunner(s *server) *runner {
	r := &runner{disk: newDisk(s.core.Clock.Now), state: newState(), tick: make(chan struct{}), fail: func(string) error { return nil }}
	to := &remote{server: s, before: func(call string) (bool, error) { return false, r.fail(call) }}
	r.Mirror = client.New(client.Options{
		Disk: r.disk, DiskWriter: r.disk, Watcher: make(watcher), State: r.state, Remote: to, RemoteWriter: to,
		Clock: s.core.Clock, Device: "desk", Workers: 1, Random: func() float64 { return 0.9 }, IsPaused: r.paused.Load,
		Wait: func(ctx context.Context, d time.Duration) error {
			switch {
			case d == time.Second: // until the next look whether rounds are paused
				select {
				case <-r.tick:
					return nil
				case <-ctx.Done():
				}
			case d < 30*time.Minute:
				r.waits.Add(1)
			default:
				<-ctx.Done()
			}
			return ctx.Err()
		},
	})
	return r
}

func TestRunGoesOnAfterErrorsThatPass(t *testing.T) {
	r := newRunner(place(t))
	kinds := []fault.Kind{fault.Unavailable, fault.Conflict, fault.NotFound, fault.Limited, fault.Internal, fault.Invalid}
	n := 0
	r.fail = func(call string) error {
		if n++; n <= len(kinds) {
			return fault.New(kinds[n-1], "it passes")
		}
		return nil
	}
	r.state.before = func(call string) (bool, error) {
		if call == "put" && r.waits.Load() == int32(len(kinds)) {
			return false, fault.New(fault.Conflict, "the state is locked")
		}
		return false, nil
	}
	r.write("a", "content")
	ctx, cancel := context.WithCancel(t.Context())
	var failed, done int
	must.NoError(t, r.Run(ctx, func(o client.Outcome, err error) {
		if err != nil {
			failed++
		}
		if done += o.Done; done > 0 {
			cancel()
		}
	}))
	if failed != len(kinds)+1 || r.waits.Load() != int32(failed) {
		t.Errorf("%d rounds have failed, and Run has waited %d times", failed, r.waits.Load())
	}
}

func TestRunEndsWithWhatDoesNotPass(t *testing.T) {
	for about, c := range map[string]struct {
		kind  fault.Kind
		spoil func(r *runner)
	}{
		"the session has ended":    {fault.Unauthenticated, func(r *runner) { r.fail = func(string) error { return fault.New(fault.Unauthenticated, "no") } }},
		"the membership has ended": {fault.Forbidden, func(r *runner) { r.fail = func(string) error { return fault.New(fault.Forbidden, "no") } }},
		"the directory is gone":    {fault.NotFound, func(r *runner) { r.gone = true }},
		"it has another place": {fault.Conflict, func(r *runner) {
			r.state.binding = &mirror.Binding{Server: "https://elsewhere.invalid"}
		}},
	} {
		t.Run(about, func(t *testing.T) {
			r := newRunner(place(t))
			c.spoil(r)
			rounds := 0
			if err := r.Run(t.Context(), func(client.Outcome, error) { rounds++ }); !fault.Is(err, c.kind) || rounds != 1 {
				t.Errorf("after %d rounds: %v", rounds, err)
			}
		})
	}
}

func TestAPauseInterruptsARoundAndLastsUntilItIsOver(t *testing.T) {
	r := newRunner(place(t))
	r.write("a", "content")
	interrupted := make(chan struct{})
	var once sync.Once
	ctx, cancel := context.WithCancel(t.Context())
	r.state.before = func(call string) (half bool, err error) {
		once.Do(func() { // in the middle of a round
			r.paused.Store(true)
			r.tick <- struct{}{}
			r.tick <- struct{}{} // the first look is over
			close(interrupted)
			err = context.Canceled
		})
		return false, err
	}
	var seen []string
	resume := func() {
		r.paused.Store(false)
		go func() { r.tick <- struct{}{} }()
	}
	must.NoError(t, r.Run(ctx, func(o client.Outcome, err error) {
		seen = append(seen, fmt.Sprint(o.Paused, o.Done, err))
		switch {
		case o.Paused:
			<-interrupted
			resume() // which only a look notices
		case o.Done > 0: // another pause, which is over before the next look
			r.paused.Store(true)
			r.Changed(mirror.Everything())
		default:
			cancel()
		}
	}))
	must.Equal(t, []string{"true 0 <nil>", "false 1 <nil>", "true 0 <nil>", "false 0 <nil>"}, seen)
}

func TestWhatWasAcceptedIsNotAcceptedAfterAPause(t *testing.T) {
	paused := false
	s := newSingle(t, func(o *client.Options) { o.IsPaused = func() bool { return paused } })
	s.agree("a", "b")
	s.disk.remove("a")
	s.disk.remove("b")
	s.client.AcceptDeletions()
	paused = true
	if out, err := s.client.Round(t.Context()); err != nil || !out.Paused {
		t.Fatalf("%+v, %v", out, err)
	}
	paused = false
	s.client.Changed(mirror.Everything())
	if out, err := s.client.Round(t.Context()); err != nil || out.Guard == "" || len(s.records()) != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

// refusing is a server that refuses files, by their paths.
type refusing struct {
	*remote
	limits  mirror.Limits
	asked   int // for the limits
	refuses map[string]error
}

func newRefusing(t *testing.T, alter ...func(*client.Options)) (*single, *refusing) {
	n := &refusing{limits: mirror.Limits{MaxFile: 1 << 20}, refuses: map[string]error{}}
	return newSingle(t, append([]func(*client.Options){func(o *client.Options) {
		n.remote = o.Remote.(*remote)
		o.Remote, o.RemoteWriter = n, n
	}}, alter...)...), n
}

func (n *refusing) Limits(context.Context) (mirror.Limits, error) {
	n.asked++
	return n.limits, nil
}

func (n *refusing) Download(ctx context.Context, r mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	if err := n.refuses[r.Path]; err != nil {
		return mirror.Record{}, nil, err
	}
	return n.remote.Download(ctx, r, offset)
}

func (n *refusing) Create(ctx context.Context, path, checksum string, size int64, content io.Reader) (mirror.Record, error) {
	if err := n.refuses[path]; err != nil {
		return mirror.Record{}, err
	}
	return n.remote.Create(ctx, path, checksum, size, content)
}

// narrow is a server that accepts so much.
type narrow struct{ *refusing }

func (n narrow) Create(ctx context.Context, path, checksum string, size int64, content io.Reader) (mirror.Record, error) {
	if !n.limits.Room(size, 0) {
		return mirror.Record{}, fault.New(fault.Forbidden, "The plan allows no more.")
	}
	n.limits.Stored += size
	return n.remote.Create(ctx, path, checksum, size, content)
}

func TestWhatTheServerHasNoRoomForIsHeldUntilItHas(t *testing.T) {
	var failed []string // was reported
	s, n := newRefusing(t, func(o *client.Options) {
		o.RemoteWriter = narrow{o.Remote.(*refusing)}
		o.Report = func(e client.Event) {
			if e.Kind == client.Failed {
				failed = append(failed, e.Step.Path)
			}
		}
	})
	n.limits = mirror.Limits{MaxFile: 20, Stored: 90, Storage: 100}
	round := func() client.Outcome {
		t.Helper()
		out, err := s.round()
		if err != nil || out.ReadOnly {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	s.disk.write("a", "1234567")
	s.disk.write("b", "2345678")
	s.disk.write("c", "3456789")
	s.disk.write("aa", "more than twenty bytes")
	s.disk.write("z", "123")
	out := round()
	want := []mirror.Held{
		{Path: "aa", Reason: "The file is larger than the server accepts, 20 bytes."},
		{Path: "b", Reason: "The organisation has no room for it: 97 of 100 bytes are stored."},
		{Path: "c", Reason: "The organisation has no room for it: 97 of 100 bytes are stored."},
	}
	if diff := cmp.Diff(want, out.Held); diff != "" || out.Done != 2 {
		t.Errorf("%d files were uploaded\n%s", out.Done, diff)
	}
	must.Is(t, 2, n.asked)
	must.Equal(t, []string{"aa"}, failed)
	if out = round(); len(out.Held) != 3 || !out.Retry || n.asked != 2 {
		t.Errorf("%+v, and the limits were asked for %d times", out, n.asked)
	}
	s.disk.remove("a")
	n.limits.Stored -= 7
	if out = round(); len(out.Held) != 2 || out.Done != 2 || n.asked != 4 { // after the deletion, and as c was refused
		t.Errorf("%+v after a deletion, and the limits were asked for %d times", out, n.asked)
	}
	n.limits.Storage, n.limits.MaxFile = 200, 30
	s.server.core.Clock.Advance(time.Minute)
	if out = round(); len(out.Held) > 0 || out.Retry || out.Done != 2 {
		t.Errorf("%+v", out)
	}
}

func TestAFileThatTheServerRefusesDoesNotKeepOthers(t *testing.T) {
	for about, refusal := range map[string]*fault.Error{
		"an upload that is forbidden, and there is room":    fault.New(fault.Forbidden, "Not this one."),
		"an upload beside too many that are not complete":   fault.New(fault.Limited, "You have 50 uploads that are not complete"),
		"an upload whose idempotency key has another use":   fault.New(fault.Mismatch, "The key was used before"),
		"a download that is forbidden, and access is there": fault.New(fault.Forbidden, "Not this one."),
	} {
		t.Run(about, func(t *testing.T) {
			s, n := newRefusing(t)
			n.refuses["b"] = refusal
			if strings.Contains(about, "download") {
				must.Do(s.server.create(t.Context(), "b", strings.NewReader("two"), 3, "")).Or(t)
			} else {
				s.disk.write("b", "two")
			}
			s.disk.write("a", "one")
			s.disk.write("c", "three")
			out, err := s.client.Round(t.Context())
			if err != nil || out.ReadOnly || out.Done != 2 || len(out.Failed) != 1 || out.Failed[0].Path != "b" {
				t.Fatalf("%+v, %v", out, err)
			}
			delete(n.refuses, "b")
			_, _ = s.round()
			s.want(map[string]string{"a": "one", "b": "two", "c": "three"})
		})
	}
}

// damaged is a server that cannot read all of the file b: it sends a part of it, and what follows that.
type damaged struct{ *refusing }

func (n damaged) Download(ctx context.Context, r mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	record, content, err := n.refusing.Download(ctx, r, offset)
	if err == nil && r.Path == "b" && offset == 0 {
		content = io.NopCloser(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	return record, content, err
}

func TestAFileThatTheServerCannotReadDoesNotKeepOthers(t *testing.T) {
	for about, reply := range map[string]error{"an error": fault.New(fault.Internal, "Internal server error"), "a part of it": nil} {
		t.Run(about, func(t *testing.T) {
			s, n := newRefusing(t, func(o *client.Options) { o.Remote = damaged{o.Remote.(*refusing)} })
			n.refuses["b"] = reply
			must.Do(s.server.create(t.Context(), "b", strings.NewReader("two"), 3, "")).Or(t)
			s.disk.write("a", "one")
			out, err := s.client.Round(t.Context())
			if reply == nil { // what was sent is resumed by the next round
				must.FailIs(t, err, io.ErrUnexpectedEOF)
				out, err = s.client.Round(t.Context())
			}
			if err != nil || out.Done != 1 || len(out.Held) != 1 || out.Held[0].Path != "b" || !out.Retry {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

func TestAFileMadeWhileAccessWasLostIsSentWhenItReturns(t *testing.T) {
	s, n := newRefusing(t)
	s.disk.write("a", "one")
	_, _ = s.round()
	n.refuses["b"] = fault.Field("workspaceId", "must be a workspace that you can see")
	s.remote.sight = nothing
	s.disk.write("b", "two")
	s.client.Changed(mirror.Everything())
	_, _ = s.client.Round(t.Context())
	s.remote.sight = whole
	delete(n.refuses, "b")
	_, _ = s.round()
	s.want(map[string]string{"a": "one", "b": "two"})
}

// TestAFileThatIsBeingWrittenIsReportedOnceInARound has it written before each plan, and from a plan on also while it is read.
// The last plan that a round follows is the eighth, in which another file is downloaded.
func TestAFileThatIsBeingWrittenIsReportedOnceInARound(t *testing.T) {
	for from, attempts := range map[int]int{1: 3, 6: 3, 7: 2, 8: 1, 9: 0} {
		plans, written, failed := 0, 0, 0
		s := newSingle(t, func(o *client.Options) {
			o.Report = func(e client.Event) {
				if e.Kind == client.Failed {
					failed++
				}
			}
		})
		s.disk.ruled = func() {
			plans++
			s.disk.write("log", strings.Repeat("x", 100*plans))
			if plans == 8 {
				must.Do(s.server.create(t.Context(), "other", strings.NewReader("x"), 1, "")).Or(t)
			}
		}
		s.disk.before = func(call string) (bool, error) {
			if call == "open" && plans >= from {
				written++
				s.disk.write("log", strings.Repeat("y", written))
			}
			return false, nil
		}
		out, err := s.client.Round(t.Context())
		if err != nil || written != attempts || failed != attempts/3 || len(out.Failed) != 1 {
			t.Errorf("from plan %d on, %d reports of %d attempts: %+v, %v", from, failed, written, out, err)
		}
	}
}

func TestARoundThatFollowsEightPlansLooksWhetherBothSidesAreEqual(t *testing.T) {
	s, plans := newSingle(t), 0
	s.disk.ruled = func() {
		if plans++; plans <= 8 {
			s.disk.write("log", strings.Repeat("x", plans))
		}
	}
	if out, err := s.client.Round(t.Context()); err != nil || out.Done != 8 || plans != 9 || len(out.Failed) > 0 {
		t.Errorf("%d plans: %+v, %v", plans, out, err)
	}
}

func TestARateLimitEndsARound(t *testing.T) {
	s, n := newRefusing(t)
	n.refuses["a"] = &fault.Error{Kind: fault.Limited, Message: "Too many requests", RetryAfter: 7}
	s.disk.write("a", "one")
	s.disk.write("b", "two")
	if out, err := s.client.Round(t.Context()); !fault.Is(err, fault.Limited) || out.Done > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAMemberWhoMayOnlyReadIsToldByTheRole(t *testing.T) {
	for _, batches := range []int{0, 10} {
		failed := 0
		s, n := newRefusing(t, func(o *client.Options) {
			o.Report = func(e client.Event) {
				if e.Kind == client.Failed {
					failed++
				}
			}
		})
		n.limits.BatchFiles, n.limits.BatchBytes, n.limits.BatchFileSize = batches, 1<<20, 1<<10
		requests := 0
		s.remote.before = func(call string) (bool, error) {
			if call != "create" && call != "batch" {
				return false, nil
			}
			requests++
			n.limits.ReadOnly = true // since this request
			return false, fault.New(fault.Forbidden, "A VIEWER has read-only access")
		}
		for _, name := range []string{"a", "b", "c"} {
			s.disk.write(name, "content")
		}
		for range 3 { // what cannot be sent is not sent again and again
			out, err := s.round()
			if err != nil || !out.ReadOnly || len(out.Held) != 3 || !out.Retry || requests != 1 || failed > 0 {
				t.Errorf("with batches of %d, %d requests to write, and %d files failed: %+v, %v", batches, requests, failed, out, err)
			}
			s.server.core.Clock.Advance(5 * time.Minute)
		}
		n.limits.ReadOnly, s.remote.before = false, responses
		if clock := s.server.core.Clock; batches == 0 {
			clock.Set(clock.Now().Add(-24 * time.Hour)) // the role is asked for again all the same
		}
		_, _ = s.round()
		s.want(map[string]string{"a": "content", "b": "content", "c": "content"})
	}
}

func TestALimitThatARefusalShowsToBeRaisedIsUsedAtOnce(t *testing.T) {
	s, n := newRefusing(t)
	n.limits.MaxFile = 4
	s.disk.write("big", "12345")
	if out, err := s.round(); err != nil || len(out.Held) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	n.limits.MaxFile = 5
	n.refuses["c"] = fault.New(fault.Forbidden, "Not this one.")
	s.disk.write("c", "one")
	s.client.Changed(mirror.Everything())
	out, err := s.client.Round(t.Context())
	if _, sent := s.records()["big"]; !sent || err != nil || len(out.Held) > 0 || len(out.Failed) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestADirectoryThatIsMovedDuringAScanIsMovedOnTheServer(t *testing.T) {
	s := newSingle(t)
	s.agree("a", "b", "d/x")
	before := s.records()["d/x"].ID
	s.disk.midway = func([]string) {
		s.disk.midway = func([]string) {}
		s.disk.move("d", "0")
	}
	must.Do(s.round()).Or(t)
	s.want(map[string]string{"a": "a", "b": "b", "0/x": "d/x"})
	must.Equal(t, before, s.records()["0/x"].ID)
}

// TestADirectoryThatIsMovedBetweenPartsIsMovedOnTheServer has only one of the parts be scanned at first, as the notification
// of the other comes late, or as there is no Watcher.
func TestADirectoryThatIsMovedBetweenPartsIsMovedOnTheServer(t *testing.T) {
	left, come := mirror.Scope{Directories: []string{"", "d"}}, mirror.Scope{Directories: []string{"e", "e/d"}}
	for _, c := range []struct {
		first, late mirror.Scope
		watched     bool
	}{{left, come, true}, {come, left, true}, {left, come, false}, {come, left, false}} {
		notify := lateWatcher{make(watcher), c.late}
		s := newSingle(t, func(o *client.Options) {
			o.Random = func() float64 { return 0 }
			o.Wait = func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
			if c.watched {
				o.Watcher = notify
			}
		})
		s.agree("a", "d/x", "e/y")
		before := s.records()["d/x"].ID
		if c.watched {
			ctx, cancel := context.WithCancel(t.Context())
			rounds := 0
			must.NoError(t, s.client.Run(ctx, func(out client.Outcome, _ error) {
				if rounds++; rounds == 1 {
					s.disk.move("d", "e/d")
					notify.watcher <- c.first
				} else if out.Done > 0 { // a round may come before the notification
					cancel()
				}
			}))
		} else {
			s.disk.move("d", "e/d")
			s.client.Changed(c.first)
			must.Do(s.client.Round(t.Context())).Or(t)
		}
		s.want(map[string]string{"a": "a", "e/d/x": "d/x", "e/y": "e/y"})
		must.Equal(t, before, s.records()["e/d/x"].ID)
	}
}

// hashing is a disk that notes which files a scan reads.
type hashing struct {
	*disk
	read []string
}

func (d *hashing) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	return d.disk.Scan(ctx, scope, func(name string) (mirror.Facts, string, bool) {
		facts, sum, ok := known(name)
		if f := d.files[name]; f != nil && (!ok || facts != d.facts(f)) {
			d.read = append(d.read, name)
		}
		return facts, sum, ok
	}, each)
}

func TestAFileThatIsTooLargeIsReadOnce(t *testing.T) {
	d := &hashing{}
	s, n := newRefusing(t, func(o *client.Options) {
		d.disk = o.Disk.(*disk)
		o.Disk = d
	})
	s.disk.write("known", "123456")
	s.disk.write("small", "1")
	_, _ = s.round()
	s.server.core.Clock.Advance(time.Hour)
	n.limits.MaxFile = 4
	s.disk.write("big", "12345")
	s.disk.move("known", "moved") // as before, though it is larger than the limit now
	if out, err := s.round(); err != nil || len(out.Held) != 1 || len(s.records()) != 2 || s.records()["moved"].Path == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, change := range []func() (read []string){
		func() []string { return nil },
		func() []string { s.disk.write("big", "54321"); return []string{"big"} },
		func() []string { return nil },
		func() []string { delete(s.disk.files, "big"); return nil },
	} {
		want := change()
		d.read = nil
		s.start()
		_, _ = s.round()
		must.Equal(t, want, d.read) // read at a start
	}
	if _, stored := s.state.rows["big"]; stored {
		t.Error("the state has a row of a file that is gone")
	}
	s.disk.write("big", "12345")
	_, _ = s.round()
	n.limits.MaxFile = 5
	s.server.core.Clock.Advance(time.Minute)
	_, _ = s.round()
	s.want(map[string]string{"moved": "123456", "small": "1", "big": "12345"})
}

func TestWhatOpenUploadsReserveHoldsOthersOfTheirKindAlone(t *testing.T) {
	s, n := newRefusing(t)
	n.limits = mirror.Limits{MaxFile: 100, Stored: 10, Reserved: 60, Reserving: 10, Storage: 100}
	n.refuses["big"] = fault.New(fault.Forbidden, "The plan allows no more; 60 bytes are of uploads that are not complete")
	s.disk.write("big", strings.Repeat("x", 40))
	s.disk.write("small", "one")
	out, err := s.client.Round(t.Context())
	want := []mirror.Held{{Path: "big", Reason: "The organisation has no room for it: 10 of 100 bytes are stored. 60 are reserved for uploads that are not complete."}}
	if diff := cmp.Diff(want, out.Held); diff != "" || err != nil || out.ReadOnly || !out.Retry || out.Done != 1 {
		t.Fatalf("%+v, %v\n%s", out, err, diff)
	}
	// What is reserved may be for this one, which was interrupted.
	s.disk.write("interrupted", strings.Repeat("y", 60))
	s.disk.remove("small")
	n.refuses["big"] = errors.New("it is not to be tried")
	if out, err = s.round(); err != nil || out.Done != 2 || len(out.Held) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	n.limits.Reserved = 0
	delete(n.refuses, "big")
	s.server.core.Clock.Advance(time.Minute)
	if out, err = s.round(); err != nil || out.Done != 1 || len(out.Held) > 0 || out.Retry {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestADryRunStoresNothing(t *testing.T) {
	s := newSingle(t)
	must.Do(s.server.create(t.Context(), "a", strings.NewReader("one"), 3, "")).Or(t)
	s.disk.write("b", "two")
	for range 2 {
		out, err := s.client.DryRun(t.Context())
		if err != nil || len(out.Pending) != 2 || s.state.writes != 0 || s.state.binding != nil {
			t.Fatalf("%d writes: %+v, %v", s.state.writes, out, err)
		}
	}
	_, _ = s.round()
	s.want(map[string]string{"a": "one", "b": "two"})
	if s.state.binding == nil {
		t.Error("a round after it does not bind the directory")
	}
}

func TestADryRunLeavesOutWhatARoundWouldHold(t *testing.T) {
	n := &refusing{limits: mirror.Limits{MaxFile: 4}}
	s := newSingle(t, func(o *client.Options) {
		n.remote = o.Remote.(*remote)
		o.Remote, o.RemoteWriter = n, n
	})
	must.Do(s.server.create(t.Context(), "a", strings.NewReader("one"), 3, "")).Or(t)
	s.disk.write("b", "two")
	s.disk.write("large", "12345")
	for _, want := range [][2][]string{{{"a", "b"}, {"large"}}, {{"a"}, {"b", "large"}}} {
		var got [2][]string
		out := must.Do(s.client.DryRun(t.Context())).Or(t)
		for _, step := range out.Pending {
			got[0] = append(got[0], step.Path)
		}
		for _, held := range out.Held {
			got[1] = append(got[1], held.Path)
		}
		must.Equal(t, want, got)
		n.limits.ReadOnly = true
		s.server.core.Clock.Advance(2 * time.Hour)
	}
}

func TestWhatTheServerCannotDoIsTriedAgainWithItsLimits(t *testing.T) {
	for _, batches := range []int{0, 10} {
		s := newSingle(t)
		s.remote.batches = batches
		var calls []string
		lacking := true
		s.remote.before = func(call string) (bool, error) {
			switch calls = append(calls, call); {
			case !lacking:
			case call == "move":
				return false, fault.New(fault.Unsupported, "There are no moves.")
			case call == "move directory":
				return false, fault.New(fault.Invalid, "The directory cannot be moved.")
			}
			return false, nil
		}
		names := []string{"a", "d/x", "d/y"}
		for i, name := range names {
			s.disk.write(name, fmt.Sprint("content ", i))
		}
		_, _ = s.round()
		s.disk.move("d", "e")
		_, _ = s.round()
		s.disk.move("e", "d")
		_, _ = s.round()
		lacking, calls = false, nil
		s.server.core.Clock.Advance(2 * time.Hour)
		s.disk.move("a", "b")
		s.disk.move("d", "e")
		if out, err := s.round(); err != nil || out.Done != 2 || !slices.Contains(calls, "move directory") {
			t.Errorf("%+v, %v, %q", out, err, calls)
		}
	}
}

func TestAPowerFailureTakesNothingBackThatBothSidesHave(t *testing.T) {
	for _, batches := range []int{0, 10} {
		s := newSingle(t)
		s.remote.batches = batches
		want := map[string]string{"a": "one", "b": "two"}
		for name, content := range want {
			s.disk.write(name, content)
		}
		_, _ = s.round()
		s.disk.stop(writeback, false)
		_, _ = s.round()
		s.want(want)

		s.disk.write("c", "three")
		s.at("create", func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") })
		_, _ = s.round()
		_, _ = s.round()
		s.disk.stop(writeback, false)
		_, _ = s.round()
		want["c"] = "three"
		s.want(want)
	}
}

func TestAPowerFailureAfterAMoveOfAFileWhoseUploadHadNoResponseLosesNothing(t *testing.T) {
	for _, batches := range []int{0, 10} {
		for _, seen := range []bool{false, true} {
			for _, replaced := range []bool{false, true} {
				t.Run(fmt.Sprintf("with batches of %d, a round sees the move %t, replaced %t", batches, seen, replaced), func(t *testing.T) {
					s := newSingle(t)
					s.remote.batches = batches
					s.disk.write("z", "another")
					request := "create"
					if replaced {
						s.disk.write("a", "zero")
						request = "replace"
					}
					_, _ = s.round()
					s.server.core.Clock.Advance(writeback)
					s.disk.write("a", "one")
					s.at(request, func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") })
					_, _ = s.round()
					s.disk.move("a", "b")
					if seen {
						_, _ = s.round()
					}
					s.disk.stop(writeback, false)
					s.start()
					_, _ = s.round()
					_, _ = s.round()
					want := map[string]string{"a": "one", "z": "another"} // the move is undone
					if seen {
						want["b"] = "one"
						delete(want, "a")
					}
					s.want(want)
				})
			}
		}
	}
}

func TestAnUploadIsNotAgreedOnWhileItsFileCannotBeMadeDurable(t *testing.T) {
	for _, identity := range []string{"root", "another"} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("the directory is empty, identity %s, power fails %t", identity, fails), func(t *testing.T) {
				s := newSingle(t)
				s.disk.write("a", "one")
				s.disk.write("b", "two")
				_, _ = s.round()
				s.disk.write("a", "an edit")
				s.at("replace", func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") })
				_, _ = s.round()
				files := s.disk.files
				s.disk.files, s.disk.identity = map[string]*file{}, identity
				s.client.Changed(mirror.Everything())
				if out, err := s.client.Round(t.Context()); err != nil || out.Guard == "" {
					t.Fatalf("%+v, %v", out, err)
				}
				s.disk.files, s.disk.identity = files, "root"
				if !fails { // the next edit is no rival of the one whose answer was lost
					s.disk.write("a", "another edit")
					_, _ = s.round()
					s.want(map[string]string{"a": "another edit", "b": "two"})
					return
				}
				s.disk.stop(writeback, false)
				s.start()
				_, _ = s.round()
				s.want(map[string]string{"a": "an edit", "b": "two"})
			})
		}
	}
}

func TestAFileThatCannotBeMadeDurableKeepsNoOtherFromBeingAgreedOn(t *testing.T) {
	s := newSingle(t)
	s.remote.batches = 10
	for _, name := range []string{"a", "b", "c"} {
		s.disk.write(name, "content of "+name)
	}
	s.at("batch", func() (bool, error) {
		s.disk.held, s.disk.exclusive = "b", true
		return false, nil
	})
	round := func(failed ...string) {
		t.Helper()
		s.server.core.Clock.Advance(10 * time.Second)
		s.client.Changed(mirror.Everything())
		out, err := s.client.Round(t.Context())
		var paths []string
		for _, held := range out.Failed {
			paths = append(paths, held.Path)
		}
		if diff := cmp.Diff(failed, paths); err != nil || diff != "" {
			t.Errorf("%v, failed (-want +got):\n%s", err, diff)
		}
		for name := range s.disk.files {
			if row := s.state.rows[mirror.KeyOf(name)]; row.Agreed() != (s.disk.held != name) {
				t.Errorf("%s: %+v", name, row)
			}
		}
	}
	round("b")
	s.disk.write("d", "meanwhile")
	s.disk.write("b", "another content of b") // by the program that has it
	round("b")
	s.disk.held = ""
	round()
	s.want(map[string]string{"a": "content of a", "b": "another content of b", "c": "content of c", "d": "meanwhile"})
}

func TestALinkInThePlaceOfAFileThatIsSentIsLeftAlone(t *testing.T) {
	top, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	d := must.Do(localdisk.Open(top, system.Clock{})).Or(t)
	t.Cleanup(func() { d.Close() })
	write := func(path, content string) {
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write(outside, "of another place")
	write(filepath.Join(top, "a"), "a")
	write(filepath.Join(top, "b"), "b")
	s := newSingle(t, func(o *client.Options) { o.Disk, o.DiskWriter, o.Clock = d, d, system.Clock{} })
	s.remote.batches = 10
	s.at("batch", func() (bool, error) {
		link := filepath.Join(top, "a")
		return false, errors.Join(os.Remove(link), os.Symlink(outside, link))
	})
	for range 2 {
		out, err := s.round()
		if err != nil || len(out.Held) != 1 || out.Held[0].Path != "a" || !strings.Contains(out.Held[0].Reason, "link") {
			t.Errorf("%+v, %v", out, err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if got := s.records()[name].Checksum; got != must.Sum(name) {
			t.Errorf("the server's %s has %s", name, got)
		}
	}
}

func TestAFileThatIsMovedBackAfterItsMoveHadNoResponseIsNotDeleted(t *testing.T) {
	s := newSingle(t)
	s.agree("a", "b")
	s.disk.move("a", "c")
	s.at("move", func() (bool, error) { return true, fault.New(fault.Unavailable, "no answer") })
	_, _ = s.round()
	s.disk.move("c", "a")
	// Everything is listed again, as the log of changes does not reach back.
	s.server.core.Clock.Advance(harness.Retention + 24*time.Hour)
	must.NoError(t, s.server.core.Upkeep.Run(t.Context()))
	_, _ = s.round()
	s.want(map[string]string{"a": "a", "b": "b"})
}

// TestARefusedMoveOfADirectoryIsMadeFileByFile has more directories in each other than a round makes plans.
func TestARefusedMoveOfADirectoryIsMadeFileByFile(t *testing.T) {
	s := newSingle(t)
	s.remote.before = func(call string) (bool, error) {
		if call == "move directory" {
			return false, fault.New(fault.Invalid, "The directory cannot be moved.")
		}
		return false, nil
	}
	deep := "d" + strings.Repeat("/in", 9)
	s.agree(deep+"/a", deep+"/b")
	s.disk.move("d", "e")
	if out, err := s.round(); err != nil || out.Done != 2 || len(out.Held) > 0 {
		t.Errorf("%+v, %v, want two moves", out, err)
	}

	// What was accepted for a round that failed is not accepted for the next one.
	s.client.AcceptDeletions()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.server.core.Clock.Advance(time.Second)
	s.disk.write("e/c", "three")
	s.client.Changed(mirror.Everything())
	must.FailIs(t, must.ErrorOf(s.client.Round(ended)), context.Canceled)
	clear(s.disk.files)
	s.client.Changed(mirror.Everything())
	if out, err := s.client.Round(t.Context()); err != nil || out.Guard == "" {
		t.Errorf("%+v, %v, want the guard of an empty directory", out, err)
	}
}

func TestRealDirectoriesBecomeEqualWithStepsSideBySide(t *testing.T) {
	s := place(t)
	type folder struct {
		path   string
		client *client.Mirror
	}
	var folders []folder
	for _, name := range []string{"desk", "lap"} {
		f := folder{path: t.TempDir()}
		d := must.Do(localdisk.Open(f.path, system.Clock{})).Or(t)
		state := must.Do(mirrorstate.Open(f.path)).Or(t)
		t.Cleanup(func() {
			must.Succeed(t, errors.Join(state.Close(), d.Close()))
		})
		r := &remote{server: s, before: responses}
		f.client = client.New(client.Options{
			Disk: d, DiskWriter: d, State: state, Remote: r, RemoteWriter: r, Clock: system.Clock{}, Device: name, Workers: 4,
		})
		folders = append(folders, f)
	}
	write := func(f folder, name, content string) {
		p := filepath.Join(f.path, name)
		must.NoError(t, os.MkdirAll(filepath.Dir(p), 0o700))
		must.NoError(t, os.WriteFile(p, []byte(content), 0o600))
	}
	round := func(f folder) client.Outcome {
		f.client.Changed(mirror.Everything())
		out, err := f.client.Round(t.Context())
		if err != nil || len(out.Failed) > 0 || out.Guard != "" {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	for i := range 40 {
		write(folders[0], fmt.Sprintf("d%d/f%d", i%4, i), fmt.Sprint(i))
	}
	round(folders[0])
	round(folders[1])
	write(folders[0], "d0/f0", "one edit")
	write(folders[1], "d0/f0", "another")
	must.NoError(t, os.Rename(filepath.Join(folders[1].path, "d1"), filepath.Join(folders[1].path, "e1")))
	for range 2 {
		round(folders[0])
		round(folders[1])
	}
	round(folders[0])
	content := func(f folder) map[string]string {
		found := map[string]string{}
		must.NoError(t, filepath.WalkDir(f.path, func(p string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.Name() == mirror.StateDirectory {
				return filepath.SkipDir
			}
			if !e.IsDir() {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				name, _ := filepath.Rel(f.path, p)
				found[name] = string(b)
			}
			return nil
		}))
		return found
	}
	desk := content(folders[0])
	if diff := cmp.Diff(desk, content(folders[1])); diff != "" || len(desk) != 41 || desk["e1/f1"] != "1" {
		t.Errorf("%d files; the directories differ (-desk +lap):\n%s", len(desk), diff)
	}
	for _, f := range folders {
		if out := round(f); out.Done > 0 {
			t.Errorf("%+v in quiet", out)
		}
	}
}
