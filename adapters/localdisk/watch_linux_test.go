package localdisk_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/test/must"
)

func TestChangesAreNotifiedWithTheirDirectories(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	write(t, filepath.Join(top, "a/b/c"), "")
	write(t, filepath.Join(top, ".collabignore"), "build/\n")
	write(t, filepath.Join(top, "build/x"), "")
	d := opened(t, top)
	ctx, stop := context.WithCancel(t.Context())
	scopes, ended := make(chan mirror.Scope, 100), make(chan error)
	go func() {
		ended <- d.Watch(ctx, func(s mirror.Scope, limited string) {
			must.Is(t, "", limited)
			must.Is(t, false, s.Empty()) // else a client whose rounds call Settle is never idle
			scopes <- s
		})
	}()
	// until returns when everything that was passed since holds what is wanted.
	until := func(about string, want mirror.Scope) {
		t.Helper()
		var got mirror.Scope
		for {
			next, ok := <-scopes, true
			got = got.Add(next)
			for _, name := range want.Directories {
				ok = ok && (slices.Contains(got.Directories, name) || got.Whole())
			}
			for _, name := range want.Trees {
				ok = ok && (slices.Contains(got.Trees, name) || got.Whole())
			}
			if ok && got.Whole() == want.Whole() {
				return
			}
			t.Logf("%s: %+v so far", about, got)
		}
	}
	until("the beginning", mirror.Everything())
	write(t, filepath.Join(top, "a/b/c"), "content")
	until("a file written", mirror.Scope{Directories: []string{"a/b"}})
	write(t, filepath.Join(top, "build/y"), "")
	write(t, filepath.Join(top, "n/m/file"), "")
	until("new directories", mirror.Scope{Directories: []string{""}, Trees: []string{"n"}})
	write(t, filepath.Join(top, "n/m/other"), "")
	until("a file in a new directory", mirror.Scope{Directories: []string{"n/m"}})
	must.NoError(t, os.Rename(filepath.Join(top, "a"), filepath.Join(top, "n/a")))
	if !d.Settle(ctx) || len(scopes) == 0 {
		t.Error("what has changed was not passed at once")
	}
	until("a directory renamed", mirror.Scope{Directories: []string{"", "n"}, Trees: []string{"a", "n/a"}})
	must.Is(t, true, d.Settle(ctx))
	write(t, filepath.Join(top, "n/a/b/c"), "again")
	until("a file in a directory that was renamed with one above it", mirror.Scope{Directories: []string{"n/a/b"}})
	must.NoError(t, os.RemoveAll(filepath.Join(top, "n/a")))
	until("a directory removed", mirror.Scope{Directories: []string{"n"}, Trees: []string{"n/a"}})
	must.NoError(t, os.Remove(filepath.Join(top, ".collabignore")))
	until("other patterns", mirror.Everything())
	write(t, filepath.Join(top, "build/y"), "watched")
	until("a file that is not ignored any more", mirror.Scope{Directories: []string{"build"}})
	stop()
	must.Succeed(t, <-ended)
	must.Is(t, false, d.Settle(t.Context()))
}

// TestWhatIsMountedBelowIsUnreadable mounts a part of the same file system. Its absence is no deletion of what it has.
func TestWhatIsMountedBelowIsUnreadable(t *testing.T) {
	top, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(other, "in/a"), "")
	at := filepath.Join(top, "d/mounted")
	must.NoError(t, os.MkdirAll(at, 0o777))
	d := opened(t, top)
	err := unix.Mount(other, at, "", unix.MS_BIND, "")
	if errors.Is(err, unix.EPERM) {
		t.Skip("the user may not mount")
	}
	must.NoError(t, err)
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	kinds := func(scope mirror.Scope) map[string]mirror.EntryKind {
		all := map[string]mirror.EntryKind{}
		must.Do(d.Rules(t.Context())).Or(t)
		must.NoError(t, d.Scan(t.Context(), scope, func(string) (mirror.Facts, string, bool) { return mirror.Facts{}, "", false }, func(e mirror.Entry) error {
			all[e.Path] = e.Kind
			return nil
		}))
		return all
	}
	mounted := map[string]mirror.EntryKind{"d": mirror.Directory, "d/mounted": mirror.Unreadable}
	must.Equal(t, mounted, kinds(mirror.Everything()))
	must.Equal(t, map[string]mirror.EntryKind{"d/mounted/in": mirror.Unreadable}, kinds(mirror.Scope{Directories: []string{"d/mounted/in"}}))
	ctx, stop := context.WithCancel(t.Context())
	var seen []mirror.Scope
	must.NoError(t, d.Watch(ctx, func(s mirror.Scope, _ string) {
		switch seen = append(seen, s); len(seen) {
		case 1: // the watches are there
			write(t, filepath.Join(at, "in/b"), "")
			write(t, filepath.Join(top, "e"), "")
		default:
			stop()
		}
	}))
	must.Equal(t, []mirror.Scope{mirror.Everything(), {Directories: []string{""}}}, seen)
	must.NoError(t, unix.Unmount(at, 0))
	mounted["d/mounted"] = mirror.Directory
	mounted["e"] = mirror.File
	must.Equal(t, mounted, kinds(mirror.Everything()))
}

func TestADirectoryThatGoesEndsTheWatch(t *testing.T) {
	top := filepath.Join(t.TempDir(), "top")
	must.NoError(t, os.Mkdir(top, 0o777))
	d := opened(t, top)
	err := d.Watch(t.Context(), func(mirror.Scope, string) { must.NoError(t, os.Rename(top, top+"-moved")) })
	must.Fail(t, err, fault.NotFound)
}

func TestEverythingIsPassedAfterNotificationsWereLost(t *testing.T) {
	t.Parallel()
	limit := must.Do(os.ReadFile("/proc/sys/fs/inotify/max_queued_events")).Or(t)
	queued := must.Do(strconv.Atoi(strings.TrimSpace(string(limit)))).Or(t)
	if queued > 100_000 {
		t.Skipf("%d notifications are kept", queued)
	}
	top := t.TempDir()
	write(t, filepath.Join(top, "a"), "")
	write(t, filepath.Join(top, "b"), "")
	d := opened(t, top)
	ctx, stop := context.WithCancel(t.Context())
	calls := 0
	must.NoError(t, d.Watch(ctx, func(s mirror.Scope, _ string) {
		calls++
		switch {
		case calls == 1: // no notification is taken meanwhile
			for i := range 2 * queued {
				now := time.Unix(int64(i), 0)
				must.NoError(t, os.Chtimes(filepath.Join(top, string("ab"[i%2])), now, now))
			}
		case s.Whole():
			stop()
		}
	}))
}
