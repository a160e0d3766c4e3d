package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"collab/adapters/localdisk"
	"collab/adapters/mirrorstate"
	"collab/adapters/system"
	client "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/org"
	"collab/test/harness"

	"github.com/google/go-cmp/cmp"
)

// watcher notifies of what a test says.
type watcher chan mirror.Scope

func (w watcher) Watch(ctx context.Context, changed func(mirror.Scope, string)) error {
	for {
		select {
		case scope := <-w:
			changed(scope, "")
		case <-ctx.Done():
			return nil
		}
	}
}

// place is an organisation's shared files on a server.
func place(t *testing.T) *server {
	core, err := harness.NewDeployment(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(core.Close)
	actor, err := core.Join(t.Context(), "org_1", "user_1", org.Owner)
	if err != nil {
		t.Fatal(err)
	}
	return &server{core: core, actor: actor}
}

func answers(string) (bool, error) { return false, nil }

func TestRunFollowsNotificationsUntilItIsCancelled(t *testing.T) {
	s := place(t)
	d := newDisk(s.core.Clock.Now)
	ctx, cancel := context.WithCancel(t.Context())
	notify := make(watcher, 1)
	stored := newState()
	r := &remote{server: s, before: answers, batches: 10}
	m := client.New(client.Options{
		Disk: d, DiskWriter: d, Watcher: notify, State: stored, Remote: r, RemoteWriter: r,
		Clock: s.core.Clock, Device: "desk", Workers: 2, Random: func() float64 { return 0 },
		Wait: func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() },
	})
	rounds, writes := 0, 0
	if err := m.Run(ctx, func(out client.Outcome, err error) {
		if err != nil {
			t.Error(err)
			cancel()
		}
		switch rounds++; {
		case rounds == 1:
			d.write("d/a", "content")
			d.write("d/b", "content")
			d.write("d/c", "content")
			writes = stored.writes
			notify <- mirror.Scope{Directories: []string{""}}
		case out.Done == 3:
			if writes = stored.writes - writes; writes > 2 { // the answers of the batch, and the cursor
				t.Errorf("the state was written %d times", writes)
			}
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
	var paths []string
	if _, err := s.list(t.Context(), func(r mirror.Record) error { paths = append(paths, r.Path); return nil }); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"d/a", "d/b", "d/c"}, paths); diff != "" {
		t.Error(diff)
	}
}

func TestARefusedMoveOfADirectoryIsMadeFileByFile(t *testing.T) {
	s := place(t)
	d := newDisk(s.core.Clock.Now)
	m := client.New(client.Options{
		Disk: d, DiskWriter: d, State: newState(), Remote: &remote{server: s, before: answers}, Clock: s.core.Clock, Device: "desk", Workers: 1,
		RemoteWriter: &remote{server: s, before: func(call string) (bool, error) {
			if call == "move directory" {
				return false, fault.New(fault.Invalid, "The directory cannot be moved.")
			}
			return false, nil
		}},
	})
	round := func() client.Outcome {
		m.Changed(mirror.Everything())
		out, err := m.Round(t.Context())
		if err != nil || len(out.Failed)+len(out.Held) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		return out
	}
	d.write("d/a", "one")
	d.write("d/b", "two")
	round()
	d.move("d", "e")
	if out := round(); out.Done != 2 {
		t.Errorf("%+v, want two moves", out)
	}

	// What was accepted for a round that failed is not accepted for the next one.
	m.AcceptDeletions()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.core.Clock.Advance(time.Second)
	d.write("e/c", "three")
	m.Changed(mirror.Everything())
	if _, err := m.Round(ended); err == nil {
		t.Fatal("a round whose context has ended succeeds")
	}
	clear(d.files)
	if out := round(); out.Guard == "" {
		t.Errorf("%+v, want the guard of an empty directory", out)
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
		d, err := localdisk.Open(f.path, system.Clock{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := mirrorstate.Open(f.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(state.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		r := &remote{server: s, before: answers}
		f.client = client.New(client.Options{
			Disk: d, DiskWriter: d, State: state, Remote: r, RemoteWriter: r, Clock: system.Clock{}, Device: name, Workers: 4,
		})
		folders = append(folders, f)
	}
	write := func(f folder, name, content string) {
		p := filepath.Join(f.path, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Rename(filepath.Join(folders[1].path, "d1"), filepath.Join(folders[1].path, "e1")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		round(folders[0])
		round(folders[1])
	}
	round(folders[0])
	content := func(f folder) map[string]string {
		found := map[string]string{}
		if err := filepath.WalkDir(f.path, func(p string, e os.DirEntry, err error) error {
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
		}); err != nil {
			t.Fatal(err)
		}
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
