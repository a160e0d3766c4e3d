package bucket_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"

	"collab/adapters/bucket"
	"collab/domain/fault"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
	"collab/test/objectstore"
)

func put(t testing.TB, b ports.Blobs, name, content string) {
	t.Helper()
	must.NoError(t, b.Put(t.Context(), name, "text/plain", int64(len(content)), strings.NewReader(content)))
}

func read(b ports.Blobs, name string) (string, error) {
	r, err := b.Open(context.Background(), name, 0, -1)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(r)
	return string(content), errors.Join(err, r.Close())
}

func list(t *testing.T, b ports.Blobs) []string {
	t.Helper()
	var all []string
	must.NoError(t, b.List(t.Context(), func(name string, _ int64, _ time.Time) error {
		all = append(all, name)
		return nil
	}))
	return all
}

func TestMemoryOfPut(t *testing.T) {
	withCredentials(t)
	for address, want := range map[string]map[int64]int64{
		"file://" + t.TempDir(): {0: 256 << 10, 100 << 20: 256 << 10},
		"mem://":                {0: 0, 100 << 20: 0},
		"gs://bucket":           {0: 256 << 10, 1 << 20: 1280 << 10, 8<<20 - 1: 8 << 20, 8 << 20: 8 << 20, 100 << 20: 8 << 20},
		"azblob://container":    {0: 256 << 10, 5<<20 - 1: 5 << 20, 5 << 20: 10 << 20, 100 << 20: 10 << 20},
		"s3://bucket":           {0: 256 << 10, 5<<20 - 1: 5 << 20, 5 << 20: 10 << 20, 100 << 20: 10 << 20, 6 << 30: 20 << 20, 268 << 30: 100 << 20},
	} {
		t.Run(address, func(t *testing.T) {
			b := openBucket(t, address)
			for size, memory := range want {
				if got := b.PutMemory(size); got != memory {
					t.Errorf("%d bytes take %d of memory, want %d", size, got, memory)
				}
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	withCredentials(t)
	t.Chdir(t.TempDir())
	for _, address := range []string{
		"file://blobs", "file://./blobs", "file://" + t.TempDir() + "/a/b/c", "mem://", "gs://bucket", "gs://bucket/", "gs://bucket/some/prefix/",
		"s3://bucket/prefix?region=eu-central-1", "azblob://container/prefix",
	} {
		t.Run("valid: "+address, func(t *testing.T) { openBucket(t, address) })
	}
	if info, err := os.Stat("blobs"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the relative directory is %v, %v", info, err)
	}
	for _, address := range []string{
		"", "blobs", "file://", "mem://x", "ftp://x", "gs://", "gs:///prefix", "gs://user:hunter2@bucket", "gs://bucket?x=hunter2", "gs://bucket/a//b",
		"gs://bucket/../b", "gs://bucket/" + strings.Repeat("x", 129), "gs://%zz", "s3://bucket?nonsense=1", "file://" + os.Args[0],
	} {
		t.Run("invalid: "+address, func(t *testing.T) { expectRefused(t, address, "") })
	}
}

func TestFiles(t *testing.T) {
	const name = "org/personal/user/Notes & more.md@1-x"
	t.Run("content is in a file of its name and survives a restart", func(t *testing.T) {
		directory := t.TempDir()
		put(t, openBucket(t, "file://"+directory), name, "content")
		if content, err := os.ReadFile(filepath.Join(directory, name)); err != nil || string(content) != "content" {
			t.Errorf("the file is %q, %v", content, err)
		}
		must.Is(t, "content", must.Do(read(openBucket(t, "file://"+directory), name)).Or(t))
	})
	t.Run("only the owner has permissions", func(t *testing.T) {
		directory := t.TempDir()
		put(t, openBucket(t, "file://"+directory+"/data"), name, "content")
		must.NoError(t, filepath.WalkDir(directory+"/data", func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %v, %v", path, info.Mode(), err)
			}
			return nil
		}))
	})
	t.Run("root's belong to the directory's owner", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root gives files away")
		}
		const owner = 12345
		for _, named := range []bool{false, true} {
			directory := t.TempDir()
			must.NoError(t, os.Chown(directory, owner, owner))
			b := openBucket(t, "file://"+directory+"/deep/data")
			if named {
				bucket.UseNamedFiles(b)
			}
			put(t, b, name, "content")
			var contents []object.BlobContent
			for i := range 20 { // which are synced together
				contents = append(contents, object.BlobContent{Name: fmt.Sprintf("org/d%d/f@1-x", i), MimeType: "text/plain"})
			}
			must.NoError(t, b.Blobs.(ports.BlobSets).PutAll(t.Context(), contents))
			must.NoError(t, filepath.WalkDir(directory, func(path string, _ fs.DirEntry, err error) error {
				var s syscall.Stat_t
				if err := errors.Join(err, syscall.Stat(path, &s)); err != nil || s.Uid != owner || s.Gid != owner {
					t.Errorf("%s is %d's: %v", path, s.Uid, err)
				}
				return nil
			}))
		}
	})
	t.Run("empty directories are removed", func(t *testing.T) {
		directory := t.TempDir()
		b := openBucket(t, "file://"+directory)
		put(t, b, "org/a/b/c/x@1-x", "x")
		put(t, b, "org/a/y@1-x", "y")
		for _, step := range []struct{ remove, gone, stays string }{
			{"org/a/b/c/x@1-x", "org/a/b", "org/a"}, {"org/a/y@1-x", "org", "."},
		} {
			must.NoError(t, b.Remove(t.Context(), step.remove))
			if _, err := os.Stat(filepath.Join(directory, step.gone)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", step.gone, err)
			}
			must.Do(os.Stat(filepath.Join(directory, step.stays))).Or(t)
		}
		put(t, b, "org/a/b/c/x@1-x", "x")
	})
	t.Run("directories that another process removes are created again", func(t *testing.T) {
		directory := t.TempDir()
		a, b := openBucket(t, "file://"+directory), openBucket(t, "file://"+directory)
		for i := range 3 {
			name := fmt.Sprintf("org/a/b/x@%d-x", i)
			put(t, a, name, "x")
			must.NoError(t, b.Remove(t.Context(), name))
		}
	})
	t.Run("foreign files are not listed", func(t *testing.T) {
		directory := t.TempDir()
		b := openBucket(t, "file://"+directory)
		put(t, b, name, "x")
		for _, other := range []string{".DS_Store", "a%b@1-x", "org/x@y/z", "org/!zz@", "org/!", "!new/left", "org/!2e@", "org/\xff@1"} {
			path := filepath.Join(directory, other)
			must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.NoError(t, os.WriteFile(path, nil, 0o600))
		}
		must.NoError(t, os.Symlink("/etc/passwd", filepath.Join(directory, "link@1-x")))
		if got := list(t, b); len(got) != 1 || got[0] != name {
			t.Errorf("the list is %q", got)
		}
	})
	t.Run("files of crashed writers are removed after an hour", func(t *testing.T) {
		directory := t.TempDir()
		b := openBucket(t, "file://"+directory)
		old, young := filepath.Join(directory, "!new", "old"), filepath.Join(directory, "!new", "young")
		leave := func() {
			for path, age := range map[string]time.Duration{old: 2 * time.Hour, young: 0} {
				must.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
				must.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
			}
		}
		for name, sweep := range map[string]func(){"a start": func() { openBucket(t, "file://"+directory) }, "a list": func() { list(t, b) }} {
			leave()
			sweep()
			if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s leaves the old file: %v", name, err)
			}
			if _, err := os.Stat(young); err != nil {
				t.Errorf("%s removes the young file: %v", name, err)
			}
		}
	})
	t.Run("a file being written has no name on file systems with O_TMPFILE", func(t *testing.T) {
		// The temporary directory may be on another file system; /dev/shm is tmpfs.
		directory, err := os.MkdirTemp("/dev/shm", "collab-")
		if err != nil {
			t.Skip("there is no shared memory: ", err)
		}
		defer os.RemoveAll(directory)
		b := openBucket(t, "file://"+directory)
		put(t, b, name, "before")
		reading, rest := make(chan struct{}), make(chan struct{})
		done := make(chan error)
		go func() {
			done <- b.Put(context.Background(), name+"2", "", -1, &pausingReader{reading: reading, rest: rest})
		}()
		<-reading
		left, err := os.ReadDir(filepath.Join(directory, "!new"))
		if err != nil || len(left) > 0 {
			t.Errorf("the temporary files are %v, %v", left, err)
		}
		if got := list(t, b); len(got) != 1 || got[0] != name {
			t.Errorf("the list is %q", got)
		}
		close(rest)
		must.Succeed(t, <-done)
		must.Is(t, "content", must.Do(read(b, name+"2")).Or(t))
		must.Fail(t, b.Put(t.Context(), name+"2", "", -1, strings.NewReader("other")), fault.Conflict) // the name is taken
	})
	for way, prepare := range map[string]func(ports.Blobs){"": func(ports.Blobs) {}, " with named files": bucket.UseNamedFiles} {
		t.Run("no temporary file remains"+way, func(t *testing.T) {
			directory := t.TempDir()
			b := openBucket(t, "file://"+directory)
			prepare(b)
			put(t, b, name, "x")
			for _, r := range []io.Reader{strings.NewReader("y"), io.MultiReader(strings.NewReader("z"), failingReader{})} {
				if b.Put(t.Context(), name, "", -1, r) == nil || b.Put(t.Context(), name+"2", "", -1, failingReader{}) == nil {
					t.Error("it was written")
				}
			}
			if left, err := os.ReadDir(filepath.Join(directory, "!new")); err != nil || len(left) > 0 {
				t.Errorf("the temporary files are %v, %v", left, err)
			}
		})
	}
	t.Run("a store whose directory was removed is unavailable", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "blobs")
		b := openBucket(t, "file://"+directory)
		must.NoError(t, os.RemoveAll(directory))
		unavailable(t, b.Ready(t.Context()))
		unavailable(t, b.Put(t.Context(), name, "", 1, strings.NewReader("x")))
		unavailable(t, b.List(t.Context(), func(string, int64, time.Time) error { return nil }))
	})
}

// pausingReader pauses before io.EOF.
type pausingReader struct {
	reading chan<- struct{}
	rest    <-chan struct{}
	read    bool
}

func (h *pausingReader) Read(p []byte) (int, error) {
	if h.read {
		close(h.reading)
		<-h.rest
		return 0, io.EOF
	}
	h.read = true
	return copy(p, "content"), nil
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("no content") }

func unavailable(t *testing.T, err error) {
	t.Helper()
	must.Fail(t, err, fault.Unavailable)
}

// envWriter is the variable that makes the test binary write blobs into a directory and print
// their names until it is killed.
const envWriter = "COLLAB_TEST_BLOB_WRITER"

func writeUntilKilled(directory string) {
	b, err := bucket.Open(context.Background(), "file://"+directory)
	if err != nil {
		fmt.Println("!", err)
		return
	}
	for writer := range 4 {
		go func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("org/%d/%d/x@%d-x", writer, n%10, n)
				if err := b.Put(context.Background(), name, "", -1, strings.NewReader(contentOf(name))); err != nil {
					fmt.Println("!", err)
				}
				fmt.Println(name)
			}
		}()
	}
	select {}
}

func contentOf(name string) string { return strings.Repeat(name, 10_000) }

// pieces records the sizes of what it reads from files. Before each it calls the function.
type pieces struct {
	strings.Builder
	sizes  []int64
	before func(piece int)
}

func (p *pieces) ReadFrom(r io.Reader) (int64, error) {
	limited := r.(*io.LimitedReader)
	if _, ok := limited.R.(*os.File); !ok {
		return 0, fmt.Errorf("%T is no file", limited.R)
	}
	p.sizes = append(p.sizes, limited.N)
	if p.before != nil {
		p.before(len(p.sizes))
	}
	return io.Copy(&p.Builder, r)
}

func TestFilesAreWrittenToReadersInPieces(t *testing.T) {
	const piece = 256 << 10
	content := strings.Repeat("0123456789abcdef", 3*piece/16) + "end"
	directory := t.TempDir()
	b := openBucket(t, "file://"+directory)
	path := filepath.Join(directory, "org/x@1-x")
	put(t, b, "org/x@1-x", content)
	file := func(t *testing.T, offset, length int64) ports.BlobFile {
		r := must.Do(b.Open(t.Context(), "org/x@1-x", offset, length)).Or(t)
		t.Cleanup(func() { _ = r.Close() })
		return r.(ports.BlobFile)
	}
	for _, part := range []struct{ offset, length int64 }{{0, -1}, {1, piece}, {piece, piece + 1}, {int64(len(content)), 5}} {
		p, want := &pieces{}, content[part.offset:]
		if part.length >= 0 {
			want = want[:min(part.length, int64(len(want)))]
		}
		if n, err := file(t, part.offset, part.length).WriteTo(p); err != nil || n != int64(len(want)) || p.String() != want {
			t.Errorf("%+v: %d bytes, %v", part, n, err)
		}
		for _, size := range p.sizes {
			if size > piece {
				t.Errorf("%+v: pieces of %v bytes", part, p.sizes)
			}
		}
	}
	t.Run("a writer without ReadFrom gets the bytes", func(t *testing.T) {
		var got strings.Builder
		if _, err := file(t, 0, -1).WriteTo(&got); err != nil || got.String() != content {
			t.Errorf("%d bytes, %v", got.Len(), err)
		}
	})
	t.Run("a description ends with a write", func(t *testing.T) {
		old := time.Now().Add(-time.Hour)
		must.NoError(t, os.Chtimes(path, old, old))
		one, two := file(t, 0, -1), file(t, 0, 1)
		size, state := one.State()
		if again, same := two.State(); size != int64(len(content)) || again != size || state == "" || same != state {
			t.Errorf("%d %q, then %d %q", size, state, again, same)
		}
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		if _, now := one.State(); now != "" {
			t.Errorf("after a write: %q", now)
		}
		ahead := time.Now().Add(time.Hour)
		must.NoError(t, os.Chtimes(path, ahead, ahead))
		if _, now := file(t, 0, -1).State(); now != "" {
			t.Errorf("just after a write: %q", now)
		}
	})
	for about, change := range map[string]func() error{
		"a write":   func() error { return os.WriteFile(path, []byte(content), 0o600) },
		"a shorter": func() error { return os.Truncate(path, piece+1) },
	} {
		t.Run(about+" file while it is read is never whole", func(t *testing.T) {
			old := time.Now().Add(-time.Hour)
			must.NoError(t, errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, old, old)))
			r := file(t, 0, -1)
			p := &pieces{before: func(piece int) {
				if piece == 2 {
					must.Succeed(t, change())
				}
			}}
			if n, err := r.WriteTo(p); !fault.Is(err, fault.Unavailable) || n >= int64(len(content)) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	t.Run("an error of the writer is returned unchanged", func(t *testing.T) {
		if _, err := file(t, 0, -1).WriteTo(refusing{io.Discard}); err != errRefused {
			t.Errorf("got %v", err)
		}
	})
}

var errRefused = errors.New("refused")

type refusing struct{ io.Writer }

func (refusing) ReadFrom(io.Reader) (int64, error) { return 0, errRefused }

func TestContentIsDurableWithItsNameWhenPutReturns(t *testing.T) {
	const name = "org/x@1-x"
	for about, ordered := range map[string]bool{"where the sync of a file includes its links": true, "elsewhere": false} {
		t.Run(about, func(t *testing.T) {
			directory := t.TempDir()
			b := openBucket(t, "file://"+directory)
			var synced []string
			var failure error
			bucket.OnSync(b, ordered, func(f *os.File) error {
				info, err := f.Stat()
				_, missing := os.Stat(filepath.Join(directory, name))
				synced = append(synced, fmt.Sprint(info.Size(), err, missing == nil))
				return failure
			})
			failure = errors.New("no")
			must.Fail(t, b.Put(t.Context(), name, "", -1, strings.NewReader("content")), fault.Unavailable)
			must.Fail(t, must.ErrorOf(read(b, name)), fault.NotFound) // after a failed sync
			failure = nil
			put(t, b, name, "content")
			if want := fmt.Sprint(7, nil, ordered); len(synced) != 2 || synced[0] != want || synced[1] != want {
				t.Errorf("synced %q, want %q twice: size, error, linked", synced, want)
			}
		})
	}
}

func TestContentsThatArePutTogetherAreDurable(t *testing.T) {
	var contents []object.BlobContent
	for i := range 300 { // more than are synced together
		contents = append(contents, object.BlobContent{Name: fmt.Sprintf("org/d%d/f%d@1-x", i%7, i), MimeType: "text/plain", Content: fmt.Append(nil, "content ", i)})
	}
	for about, ordered := range map[string]bool{"where the sync of a file includes its name": true, "elsewhere": false} {
		t.Run(about, func(t *testing.T) {
			directory := t.TempDir()
			b := openBucket(t, "file://"+directory)
			synced, atFirst := map[string]int{}, 0
			var failure error
			bucket.OnSync(b, ordered, func(f *os.File) error {
				content, err := os.ReadFile(f.Name())
				if err == nil {
					err = f.Sync()
				}
				if synced[string(content)]++; len(synced) == 1 {
					found, _ := filepath.Glob(directory + "/org/*/*")
					atFirst = len(found)
				}
				return errors.Join(err, failure)
			})
			sets := b.Blobs.(ports.BlobSets)
			must.NoError(t, sets.PutAll(t.Context(), contents))
			for _, c := range contents {
				if got, err := read(b, c.Name); got != string(c.Content) || err != nil || synced[got] != 1 {
					t.Errorf("%s is %q, synced %d times, %v", c.Name, got, synced[got], err)
				}
			}
			if atFirst != 128 || len(synced) != len(contents) {
				t.Errorf("%d files were written before the first was synced, and %d synced", atFirst, len(synced))
			}
			other := func(name, mimeType string) []object.BlobContent {
				return []object.BlobContent{{Name: "org/new@1-" + rand.Text(), MimeType: mimeType}, {Name: name, MimeType: mimeType}}
			}
			must.Fail(t, sets.PutAll(t.Context(), other(contents[0].Name, "text/plain")), fault.Conflict) // with a name that is taken
			if got, err := read(b, contents[0].Name); got != string(contents[0].Content) {
				t.Errorf("a name that was taken has %q, %v", got, err)
			}
			if err := sets.PutAll(t.Context(), other("../x", "text/plain")); err == nil {
				t.Error("with a name outside")
			}
			if err := sets.PutAll(t.Context(), other("org/y@1-x", "\x00")); err == nil {
				t.Error("with a type that is none")
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			must.FailIs(t, sets.PutAll(ended, other("org/z@1-x", "text/plain")), context.Canceled)
			failure = errors.New("no")
			must.Fail(t, sets.PutAll(t.Context(), other("org/failed@1-x", "text/plain")), fault.Unavailable) // with a failed sync
			if left, _ := filepath.Glob(directory + "/org/*@*"); len(left) > 0 {
				t.Errorf("calls that failed left %q", left)
			}
			alone, together := len(synced), []int(nil)
			bucket.OnSyncAll(b, func() error {
				found, _ := filepath.Glob(directory + "/many/*/*")
				together = append(together, len(found))
				return failure
			})
			many := slices.Clone(contents)
			for i := range many {
				many[i].Name = "many" + strings.TrimPrefix(many[i].Name, "org")
			}
			must.Fail(t, sets.PutAll(t.Context(), many), fault.Unavailable) // with a file system that could not be synced
			failure = nil
			must.NoError(t, sets.PutAll(t.Context(), many))
			if !slices.Equal(together, []int{300, 300}) || len(synced) != alone {
				t.Errorf("the file system was synced with %v files, and %d files by themselves", together, len(synced)-alone)
			}
		})
	}
}

func TestBlobsAreCompleteAfterAKill(t *testing.T) {
	directory := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), envWriter+"="+directory), os.Stderr
	out := must.Do(c.StdoutPipe()).Or(t)
	must.NoError(t, c.Start())
	var names []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if names = append(names, lines.Text()); len(names) == 100 {
			must.NoError(t, c.Process.Kill())
		}
	}
	_ = c.Wait() // it was killed
	if len(names) < 100 {
		t.Fatalf("it stored only %q", names)
	}
	b := openBucket(t, "file://"+directory)
	for _, name := range append(list(t, b), names...) {
		if content, err := read(b, name); err != nil || content != contentOf(name) {
			t.Errorf("%q has %d bytes of %d: %v", name, len(content), len(contentOf(name)), err)
		}
	}
}

func TestObjectStores(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			t.Run("prefixes separate deployments", func(t *testing.T) {
				a, b := openBucket(t, withPrefix("a", store.Address)), openBucket(t, withPrefix("ab", store.Address))
				put(t, a, "org/x@1-x", "a's")
				put(t, b, "org/x@1-x", "b's")
				for store, want := range map[ports.Blobs]string{a: "a's", b: "b's"} {
					must.Is(t, want, must.Do(read(store, "org/x@1-x")).Or(t))
					if got := list(t, store); len(got) != 1 || got[0] != "org/x@1-x" {
						t.Errorf("the list is %q", got)
					}
				}
				must.Is(t, "a's", must.Do(read(openBucket(t, store.Address), "a/org/x@1-x")).Or(t))
			})
			t.Run("a list has more than one page", func(t *testing.T) {
				b := openBucket(t, withPrefix("pages", store.Address))
				bucket.SetPageSize(b, 10)
				for i := range 25 {
					put(t, b, fmt.Sprintf("org/%d/y@%d-x", i%7, i), "")
				}
				if got := list(t, b); len(got) != 25 {
					t.Errorf("the list is %q", got)
				}
			})
			t.Run("a missing bucket is unavailable", func(t *testing.T) {
				b := openBucket(t, strings.Replace(store.Address, "://collab", "://other", 1))
				err := b.Ready(t.Context())
				unavailable(t, err)
				if status := bucket.Status(err); status != http.StatusNotFound {
					t.Errorf("the status is %d: %v", status, errors.Unwrap(err))
				}
				unavailable(t, b.Put(t.Context(), "x@1-x", "", 1, strings.NewReader("x")))
				unavailable(t, b.List(t.Context(), func(string, int64, time.Time) error { return nil }))
			})
		})
	}
}

func TestObjectsWithoutANameAreSkipped(t *testing.T) {
	store := google(t)
	store.Setenv(t)
	for i, key := range []string{"others/plain", "others/a@b/c@1", "others/!" + strings.Repeat("0", 64), "others/!zz@1"} {
		upload(t, store.Host, key, fmt.Sprint(i))
	}
	if got := list(t, openBucket(t, store.Address+"/others")); len(got) > 0 {
		t.Errorf("the list is %q", got)
	}
}

// upload stores an object with a plain request.
func upload(t *testing.T, host, key, content string) {
	t.Helper()
	r, err := http.Post("http://"+host+"/upload/storage/v1/b/collab/o?uploadType=media&name="+url.QueryEscape(key), "text/plain", strings.NewReader(content))
	must.NoError(t, err)
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", key, r.Status, err)
	}
}

// interceptor handles requests to a store, which it may pass on.
type interceptor func(w http.ResponseWriter, r *http.Request, store http.Handler)

// proxied returns the address of the store's bucket behind a proxy with the interceptor. It
// sets the environment.
func proxied(t *testing.T, store *objectstore.Store, intercept interceptor) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", store.Host, store.Host
		if r.In.Header.Get("Authorization") != "" {
			r.Out.Host = r.In.Host // part of the signature
		}
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { intercept(w, r, proxy) }))
	t.Cleanup(front.Close)
	address := strings.TrimPrefix(front.URL, "http://")
	for _, variable := range store.Credentials {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, strings.Replace(value, store.Host, address, 1))
	}
	return strings.Replace(store.Address, store.Host, address, 1)
}

// lost passes a request on, and answers as if the store were unavailable.
func lost(w http.ResponseWriter, r *http.Request, store http.Handler) {
	store.ServeHTTP(httptest.NewRecorder(), r)
	w.WriteHeader(http.StatusServiceUnavailable)
}

func isUpload(r *http.Request) bool {
	return r.Method == http.MethodPut || strings.HasPrefix(r.URL.Path, "/upload/")
}

// completes reports whether an object is in the store after the request.
func completes(r *http.Request) bool {
	if r.URL.Query().Has("uploadId") {
		return r.Method == http.MethodPost
	}
	return isUpload(r)
}

// refused answers with a status and an error code of S3.
func refused(status int, code string) interceptor {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
	}
}

func TestUploadsAreRetried(t *testing.T) {
	for name, row := range map[string]struct {
		start    func(testing.TB) *objectstore.Store
		content  string
		attempts []interceptor // the first ones; the store has the others
	}{
		"after Google's response was lost, without a conflict": {google, "content", []interceptor{lost}},
		"after S3's response was lost, without a conflict":     {objectstore.StartS3, "content", []interceptor{lost}},
		"after a conflict": {objectstore.StartS3, "content", []interceptor{refused(http.StatusConflict, "ConditionalRequestConflict")}},
		"after parts were joined that S3 does not know any more": {objectstore.StartS3, strings.Repeat("0123456789abcdef", 6<<20/16), []interceptor{lost, refused(http.StatusNotFound, minio.NoSuchUpload)}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			b := openBucket(t, proxied(t, row.start(t), func(w http.ResponseWriter, r *http.Request, store http.Handler) {
				if completes(r) && sent.Add(1) <= int64(len(row.attempts)) {
					row.attempts[sent.Load()-1](w, r, store)
					return
				}
				store.ServeHTTP(w, r)
			}))
			put(t, b, "org/x@1-x", row.content)
			if got, err := read(b, "org/x@1-x"); err != nil || got != row.content || sent.Load() < 2 {
				t.Errorf("got %d bytes, %v, sent %d times", len(got), err, sent.Load())
			}
			must.Fail(t, b.Put(t.Context(), "org/x@1-x", "", 5, strings.NewReader("other")), fault.Conflict)
		})
	}
}

// TestAnUploadIsNoConflictIfTheStoreFailsAfterItsRetry has a store that kept the content of the first
// attempt, or that of another upload, which cannot be told apart.
func TestAnUploadIsNoConflictIfTheStoreFailsAfterItsRetry(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *objectstore.Store{"Google": google, "S3": objectstore.StartS3} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			b := openBucket(t, proxied(t, start(t), func(w http.ResponseWriter, r *http.Request, store http.Handler) {
				switch {
				case !isUpload(r):
					w.WriteHeader(http.StatusForbidden)
				case sent.Add(1) == 1:
					lost(w, r, store)
				default:
					store.ServeHTTP(w, r)
				}
			}))
			if err := b.Put(t.Context(), "org/x@1-x", "", 7, strings.NewReader("content")); !fault.Is(err, fault.Unavailable) || sent.Load() < 2 {
				t.Errorf("the error is %v, sent %d times", err, sent.Load())
			}
		})
	}
}

// expectUnavailable checks that every method of the store returns Unavailable, and none for a caller who went away.
func expectUnavailable(t *testing.T, b ports.Blobs) {
	t.Helper()
	ctx := t.Context()
	_, opened := b.Open(ctx, "org/x@1-x", 0, -1)
	_, part := b.Open(ctx, "org/x@1-x", 5, 5)
	for name, err := range map[string]error{
		"Ready": b.Ready(ctx), "Open": opened, "Open of a part": part, "Remove": b.Remove(ctx, "org/x@1-x"),
		"List":        b.List(ctx, func(string, int64, time.Time) error { return nil }),
		"Put":         b.Put(ctx, "org/y@1-x", "text/plain", 1, strings.NewReader("x")),
		"Put of much": b.Put(ctx, "org/z@1-x", "text/plain", -1, strings.NewReader(strings.Repeat("x", 12<<20))),
	} {
		if !fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: the error is %v of kind %d, want Unavailable", name, err, fault.KindOf(err))
		}
	}
}

func TestAStoreThatFailsIsUnavailable(t *testing.T) {
	store := google(t)
	status := func(code int) interceptor {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
	}
	const short = 50 * time.Millisecond // retries take all of it
	for name, row := range map[string]struct {
		timeout   time.Duration
		intercept interceptor
	}{
		"403":                 {time.Minute, status(http.StatusForbidden)},
		"500":                 {short, status(http.StatusInternalServerError)},
		"429":                 {short, status(http.StatusTooManyRequests)},
		"a closed connection": {short, func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }},
		"no response": {short, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			expectUnavailable(t, openWithTimeout(t, proxied(t, store, row.intercept), row.timeout))
		})
	}
	for _, address := range []string{
		"gs://bucket", "s3://bucket?region=us-east-1&use_path_style=true&endpoint=http://127.0.0.1:1",
		"azblob://container?protocol=http&localemu=true&domain=127.0.0.1:1",
	} {
		t.Run("no server: "+address, func(t *testing.T) {
			withCredentials(t)
			expectUnavailable(t, openWithTimeout(t, address, short))
		})
	}
}

// withCredentials sets credentials for each provider; no server listens at their addresses.
func withCredentials(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_KEY": "eA==",
		objectstore.EnvHost: "127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
}

func TestWaitingForContentDoesNotCountAsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBucket(t, "mem://")
		r := io.MultiReader(strings.NewReader("first"), delayedEOF(time.Hour), strings.NewReader("last"), delayedEOF(time.Hour))
		must.NoError(t, b.Put(t.Context(), "org/x@1-x", "", -1, r))
		must.Is(t, "firstlast", must.Do(read(b, "org/x@1-x")).Or(t))
	})
}

// delayedEOF is an empty reader that returns io.EOF after the duration.
type delayedEOF time.Duration

func (s delayedEOF) Read([]byte) (int, error) {
	time.Sleep(time.Duration(s))
	return 0, io.EOF
}
