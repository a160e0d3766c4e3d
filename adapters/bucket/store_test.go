package bucket_test

import (
	"bufio"
	"context"
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
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/bucket"
	"collab/domain/fault"
	"collab/ports"
	"collab/test/objectstore"
)

func put(t testing.TB, b ports.Blobs, name, content string) {
	t.Helper()
	if err := b.Put(t.Context(), name, "text/plain", int64(len(content)), strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
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
	if err := b.List(t.Context(), func(name string, _ int64, _ time.Time) error {
		all = append(all, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAddresses(t *testing.T) {
	withCredentials(t)
	t.Chdir(t.TempDir())
	for _, address := range []string{
		"file://blobs", "file://./blobs", "file://" + t.TempDir() + "/a/b/c", "mem://", "gs://bucket", "gs://bucket/", "gs://bucket/some/prefix/",
		"s3://bucket/prefix?region=eu-central-1", "azblob://container/prefix",
	} {
		t.Run("is taken: "+address, func(t *testing.T) { opened(t, address) })
	}
	if info, err := os.Stat("blobs"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the relative folder is %v, %v", info, err)
	}
	for _, address := range []string{
		"", "blobs", "file://", "mem://x", "ftp://x", "gs://", "gs:///prefix", "gs://user:hunter2@bucket", "gs://bucket?x=hunter2", "gs://bucket/a//b",
		"gs://bucket/../b", "gs://bucket/" + strings.Repeat("x", 129), "gs://%zz", "s3://bucket?nonsense=1", "file://" + os.Args[0],
	} {
		t.Run("is refused: "+address, func(t *testing.T) { refused(t, address, "") })
	}
}

func TestFiles(t *testing.T) {
	const name = "org/personal/user/Notes & more.md@1-x"
	t.Run("they outlive the process, under the names that they have", func(t *testing.T) {
		folder := t.TempDir()
		put(t, opened(t, "file://"+folder), name, "content")
		if content, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(content) != "content" {
			t.Errorf("the file is %q, %v", content, err)
		}
		if content, err := read(opened(t, "file://"+folder), name); err != nil || content != "content" {
			t.Errorf("got %q, %v", content, err)
		}
	})
	t.Run("they are their owner's alone", func(t *testing.T) {
		folder := t.TempDir()
		put(t, opened(t, "file://"+folder+"/data"), name, "content")
		if err := filepath.WalkDir(folder+"/data", func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %v, %v", path, info.Mode(), err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("folders go with the last file in them", func(t *testing.T) {
		folder := t.TempDir()
		b := opened(t, "file://"+folder)
		put(t, b, "org/a/b/c/x@1-x", "x")
		put(t, b, "org/a/y@1-x", "y")
		for _, step := range []struct{ remove, gone, stays string }{
			{"org/a/b/c/x@1-x", "org/a/b", "org/a"}, {"org/a/y@1-x", "org", "."},
		} {
			if err := b.Remove(t.Context(), step.remove); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(folder, step.gone)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", step.gone, err)
			}
			if _, err := os.Stat(filepath.Join(folder, step.stays)); err != nil {
				t.Error(err)
			}
		}
		put(t, b, "org/a/b/c/x@1-x", "x")
	})
	t.Run("folders that another process removes are made again", func(t *testing.T) {
		folder := t.TempDir()
		a, b := opened(t, "file://"+folder), opened(t, "file://"+folder)
		for i := range 3 {
			name := fmt.Sprintf("org/a/b/x@%d-x", i)
			put(t, a, name, "x")
			if err := b.Remove(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("what others put there is no blob", func(t *testing.T) {
		folder := t.TempDir()
		b := opened(t, "file://"+folder)
		put(t, b, name, "x")
		for _, other := range []string{".DS_Store", "a%b@1-x", "org/x@y/z", "org/!zz@", "org/!", "!new/left", "org/!2e@", "org/\xff@1"} {
			path := filepath.Join(folder, other)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(folder, "link@1-x")); err != nil {
			t.Fatal(err)
		}
		if got := list(t, b); len(got) != 1 || got[0] != name {
			t.Errorf("the list is %q", got)
		}
	})
	t.Run("what a dead writer left is removed in time, and not before", func(t *testing.T) {
		folder := t.TempDir()
		b := opened(t, "file://"+folder)
		old, young := filepath.Join(folder, "!new", "old"), filepath.Join(folder, "!new", "young")
		leave := func() {
			for path, age := range map[string]time.Duration{old: 2 * time.Hour, young: 0} {
				if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, sweep := range map[string]func(){"a start": func() { opened(t, "file://"+folder) }, "a list": func() { list(t, b) }} {
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
	t.Run("what is being written has no name where the disk is known to do without", func(t *testing.T) {
		// Where the tests run may be no such disk; shared memory always is.
		folder, err := os.MkdirTemp("/dev/shm", "collab-")
		if err != nil {
			t.Skip("there is no shared memory: ", err)
		}
		defer os.RemoveAll(folder)
		b := opened(t, "file://"+folder)
		put(t, b, name, "before")
		reading, rest := make(chan struct{}), make(chan struct{})
		done := make(chan error)
		go func() { done <- b.Put(context.Background(), name+"2", "", -1, &halting{reading: reading, rest: rest}) }()
		<-reading
		left, err := os.ReadDir(filepath.Join(folder, "!new"))
		if err != nil || len(left) > 0 {
			t.Errorf("aside are %v, %v", left, err)
		}
		if got := list(t, b); len(got) != 1 || got[0] != name {
			t.Errorf("the list is %q", got)
		}
		close(rest)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if content, err := read(b, name+"2"); err != nil || content != "content" {
			t.Errorf("got %q, %v", content, err)
		}
		if err := b.Put(t.Context(), name+"2", "", -1, strings.NewReader("other")); !fault.Is(err, fault.Conflict) {
			t.Errorf("the name was given again: %v", err)
		}
	})
	for way, prepare := range map[string]func(ports.Blobs){"": func(ports.Blobs) {}, ", with names": bucket.Named} {
		t.Run("nothing is left aside, whatever became of it"+way, func(t *testing.T) {
			folder := t.TempDir()
			b := opened(t, "file://"+folder)
			prepare(b)
			put(t, b, name, "x")
			for _, r := range []io.Reader{strings.NewReader("y"), io.MultiReader(strings.NewReader("z"), failing{})} {
				if b.Put(t.Context(), name, "", -1, r) == nil || b.Put(t.Context(), name+"2", "", -1, failing{}) == nil {
					t.Error("it was written")
				}
			}
			if left, err := os.ReadDir(filepath.Join(folder, "!new")); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
	t.Run("a folder that is gone is a store that does not answer", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "blobs")
		b := opened(t, "file://"+folder)
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		unavailable(t, b.Ready(t.Context()))
		unavailable(t, b.Put(t.Context(), name, "", 1, strings.NewReader("x")))
		unavailable(t, b.List(t.Context(), func(string, int64, time.Time) error { return nil }))
	})
}

// halting stops before the end of its content.
type halting struct {
	reading chan<- struct{}
	rest    <-chan struct{}
	read    bool
}

func (h *halting) Read(p []byte) (int, error) {
	if h.read {
		close(h.reading)
		<-h.rest
		return 0, io.EOF
	}
	h.read = true
	return copy(p, "content"), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no content") }

func unavailable(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("the error is %v of kind %d, want Unavailable", err, fault.KindOf(err))
	}
}

// asWriter makes the test binary write blobs into a folder, and say which it has
// written, until it is killed.
const asWriter = "COLLAB_TEST_BLOB_WRITER"

func writeUntilKilled(folder string) {
	b, err := bucket.Open(context.Background(), "file://"+folder)
	if err != nil {
		fmt.Println("!", err)
		return
	}
	for writer := range 4 {
		go func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("org/%d/%d/x@%d-x", writer, n%10, n)
				if err := b.Put(context.Background(), name, "", -1, strings.NewReader(long(name))); err != nil {
					fmt.Println("!", err)
				}
				fmt.Println(name)
			}
		}()
	}
	select {}
}

func long(name string) string { return strings.Repeat(name, 10_000) }

func TestAKilledWriterLeavesWholeBlobsOrNone(t *testing.T) {
	folder := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), asWriter+"="+folder), os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said = append(said, lines.Text()); len(said) == 100 {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait() // it was killed
	if len(said) < 100 {
		t.Fatalf("it said %q", said)
	}
	b := opened(t, "file://"+folder)
	for _, name := range append(list(t, b), said...) {
		if content, err := read(b, name); err != nil || content != long(name) {
			t.Errorf("%q has %d bytes of %d: %v", name, len(content), len(long(name)), err)
		}
	}
}

func TestObjectStores(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			store := start(t)
			store.Setenv(t)
			t.Run("prefixes keep deployments apart", func(t *testing.T) {
				a, b := opened(t, below("a", store.Address)), opened(t, below("ab", store.Address))
				put(t, a, "org/x@1-x", "a's")
				put(t, b, "org/x@1-x", "b's")
				for store, want := range map[ports.Blobs]string{a: "a's", b: "b's"} {
					if got, err := read(store, "org/x@1-x"); err != nil || got != want {
						t.Errorf("got %q, %v", got, err)
					}
					if got := list(t, store); len(got) != 1 || got[0] != "org/x@1-x" {
						t.Errorf("the list is %q", got)
					}
				}
				if got, err := read(opened(t, store.Address), "a/org/x@1-x"); err != nil || got != "a's" {
					t.Errorf("got %q, %v", got, err)
				}
			})
			t.Run("a list has more than one page", func(t *testing.T) {
				b := opened(t, below("pages", store.Address))
				bucket.Paged(b, 10)
				for i := range 25 {
					put(t, b, fmt.Sprintf("org/%d/y@%d-x", i%7, i), "")
				}
				if got := list(t, b); len(got) != 25 {
					t.Errorf("the list is %q", got)
				}
			})
			t.Run("a bucket that is not there does not answer", func(t *testing.T) {
				b := opened(t, strings.Replace(store.Address, "://collab", "://other", 1))
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

func TestObjectsThatBelongToNoNameArePassedOver(t *testing.T) {
	store := google(t)
	store.Setenv(t)
	for i, key := range []string{"others/plain", "others/a@b/c@1", "others/!" + strings.Repeat("0", 64), "others/!zz@1"} {
		upload(t, store.Host, key, fmt.Sprint(i))
	}
	if got := list(t, opened(t, store.Address+"/others")); len(got) > 0 {
		t.Errorf("the list is %q", got)
	}
}

// upload stores an object as anybody does.
func upload(t *testing.T, host, key, content string) {
	t.Helper()
	r, err := http.Post("http://"+host+"/upload/storage/v1/b/collab/o?uploadType=media&name="+url.QueryEscape(key), "text/plain", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", key, r.Status, err)
	}
}

// instead answers in place of the handler of a store.
type instead func(w http.ResponseWriter, r *http.Request, store http.Handler)

// through returns the address of the store's bucket through a server that stands before
// it, and sets the environment.
func through(t *testing.T, store *objectstore.Store, instead instead) string {
	t.Helper()
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", store.Host, store.Host
		if r.In.Header.Get("Authorization") != "" {
			r.Out.Host = r.In.Host // which is signed
		}
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { instead(w, r, behind) }))
	t.Cleanup(front.Close)
	address := strings.TrimPrefix(front.URL, "http://")
	for _, variable := range store.Credentials {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, strings.Replace(value, store.Host, address, 1))
	}
	return strings.Replace(store.Address, store.Host, address, 1)
}

func TestAnUploadIsSentAgain(t *testing.T) {
	lost := func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		kept := httptest.NewRecorder()
		store.ServeHTTP(kept, r)
		if kept.Code != http.StatusOK {
			t.Errorf("the store says %d %s", kept.Code, kept.Body)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for name, row := range map[string]struct {
		start func(testing.TB) *objectstore.Store
		first instead
	}{
		"when Google's answer was lost, which is no conflict": {google, lost},
		"when S3's answer was lost, which is no conflict":     {objectstore.StartS3, lost},
		"after a conflict": {objectstore.StartS3, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, "<Error><Code>ConditionalRequestConflict</Code></Error>")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			b := opened(t, through(t, row.start(t), func(w http.ResponseWriter, r *http.Request, store http.Handler) {
				uploads := r.Method == http.MethodPut || strings.HasPrefix(r.URL.Path, "/upload/")
				if uploads && sent.Add(1) == 1 {
					row.first(w, r, store)
					return
				}
				store.ServeHTTP(w, r)
			}))
			put(t, b, "org/x@1-x", "content")
			if got, err := read(b, "org/x@1-x"); err != nil || got != "content" || sent.Load() < 2 {
				t.Errorf("got %q, %v, sent %d times", got, err, sent.Load())
			}
			if err := b.Put(t.Context(), "org/x@1-x", "", 5, strings.NewReader("other")); !fault.Is(err, fault.Conflict) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// everything calls all that a store does, and expects that it does not answer.
func everything(t *testing.T, b ports.Blobs) {
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
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: the error is %v of kind %d, want Unavailable", name, err, fault.KindOf(err))
		}
	}
}

func TestAStoreThatFailsIsUnavailable(t *testing.T) {
	store := google(t)
	status := func(code int) instead {
		return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(code) }
	}
	const short = 50 * time.Millisecond // which what is tried again takes all of
	for name, row := range map[string]struct {
		within  time.Duration
		instead instead
	}{
		"when it forbids":        {time.Minute, status(http.StatusForbidden)},
		"when it fails":          {short, status(http.StatusInternalServerError)},
		"when it has had enough": {short, status(http.StatusTooManyRequests)},
		"when it hangs up":       {short, func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }},
		"when it never answers": {short, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			everything(t, openedWithin(t, through(t, store, row.instead), row.within))
		})
	}
	for _, address := range []string{
		"gs://bucket", "s3://bucket?region=us-east-1&use_path_style=true&endpoint=http://127.0.0.1:1",
		"azblob://container?protocol=http&localemu=true&domain=127.0.0.1:1",
	} {
		t.Run("when nobody is there: "+address, func(t *testing.T) {
			withCredentials(t)
			everything(t, openedWithin(t, address, short))
		})
	}
}

// withCredentials sets credentials for each provider, none of which is there.
func withCredentials(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_KEY": "eA==",
		objectstore.EnvHost: "127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
}

func TestWaitingForContentIsNotTheStoresDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := opened(t, "mem://")
		r := io.MultiReader(strings.NewReader("first"), slow(time.Hour), strings.NewReader("last"), slow(time.Hour))
		if err := b.Put(t.Context(), "org/x@1-x", "", -1, r); err != nil {
			t.Fatal(err)
		}
		if got, err := read(b, "org/x@1-x"); err != nil || got != "firstlast" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// slow has no content, and takes so long to say it.
type slow time.Duration

func (s slow) Read([]byte) (int, error) {
	time.Sleep(time.Duration(s))
	return 0, io.EOF
}
