package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"collab/domain/upload"
	"collab/test/collabd"
	"collab/test/must"
)

// passing is content that passes through a proxy. It calls each with the number of bytes.
type passing struct {
	io.ReadCloser
	each func(n int)
}

func (p passing) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	p.each(n)
	return n, err
}

// killer is a proxy that kills a process once so much content has passed: parts of uploads, and answers.
type killer struct {
	*httptest.Server
	after   int64
	passed  atomic.Pointer[atomic.Int64] // of the requests from now on
	process atomic.Pointer[os.Process]   // nil for none
}

func newKiller(t *testing.T, s *collabd.Server, after int64) *killer {
	k := &killer{after: after}
	k.passed.Store(new(atomic.Int64))
	server := must.Do(url.Parse(s.URL)).Or(t)
	// counted returns a body whose receiver is connected with the port.
	counted := func(body io.ReadCloser, port string) io.ReadCloser {
		passed := k.passed.Load()
		return passing{body, func(n int) {
			if passed.Add(int64(n)) < k.after {
				return
			}
			if p := k.process.Swap(nil); p != nil {
				must.Wait(t, "what has passed is received", func() bool { return nothingQueued(t, port) })
				_ = p.Kill() // it may be dead already
			}
		}}
	}
	through := httputil.NewSingleHostReverseProxy(server)
	through.ErrorLog = log.New(io.Discard, "", 0)
	through.ModifyResponse = func(r *http.Response) error {
		r.Body = counted(r.Body, must.Do(url.Parse(k.URL)).Or(t).Port())
		return nil
	}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			r.Body = counted(r.Body, server.Port())
		}
		defer func() { _ = recover() }() // with which the proxy gives up a request that broke
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

// nothingQueued reports whether the connections of a port of this machine have no bytes that were not read.
func nothingQueued(t *testing.T, port string) bool {
	number := fmt.Sprintf("%04X", must.Do(strconv.Atoi(port)).Or(t))
	for line := range strings.Lines(string(must.Do(os.ReadFile("/proc/net/tcp")).Or(t))) {
		f := strings.Fields(line) // number, local and remote address, state, queues to send and to read, …
		local, remote := strings.HasSuffix(f[1], ":"+number), strings.HasSuffix(f[2], ":"+number)
		if (local || remote) && f[3] == "01" && f[4] != "00000000:00000000" {
			return false
		}
	}
	return true
}

// twice runs a command that is killed, and then one that is not and whose output it returns. Together
// they have moved size bytes, of which one part may have passed again.
func (k *killer) twice(t *testing.T, size int64, command func() *exec.Cmd) []byte {
	t.Helper()
	k.passed.Store(new(atomic.Int64))
	first := command()
	must.NoError(t, first.Start())
	k.process.Store(first.Process)
	if err := first.Wait(); err == nil || first.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the first run was not killed: %v", first.ProcessState)
	}
	before := k.passed.Swap(new(atomic.Int64)).Load()
	out, err := command().Output()
	must.NoError(t, err)
	if after := k.passed.Load().Load(); before < k.after || after > size-before+upload.PartSize {
		t.Errorf("of %d bytes %d had passed before the first run was killed, and %d afterwards", size, before, after)
	}
	return out
}

// TestAnUploadGoesOnInTheNextRunAfterACommandWasKilled kills a command during an upload, of which the device keeps no record.
func TestAnUploadGoesOnInTheNextRunAfterACommandWasKilled(t *testing.T) {
	t.Parallel()
	const size, killed = 5 * upload.PartSize, 3*upload.PartSize + upload.PartSize/2
	s := collabd.Start(t)
	owner := s.SignIn(t, "ada@example.com", t.Name(), "owner")
	proxy := newKiller(t, s, killed)
	content := make([]byte, size)
	must.Do(rand.NewChaCha8([32]byte{}).Read(content)).Or(t)
	file := filepath.Join(t.TempDir(), "film")
	must.NoError(t, os.WriteFile(file, content, 0o600))
	path := must.Do(exec.LookPath("collab")).Or(t)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(path, append([]string{"files"}, args...)...)
		c.Env = append(os.Environ(), "COLLAB_SERVER="+proxy.URL, "COLLAB_TOKEN="+owner.Token, "COLLAB_CONFIG_DIR="+t.TempDir())
		return c
	}
	out := proxy.twice(t, size, func() *exec.Cmd { return command("put", file, "--json", "size") })
	var stored struct{ Size int64 }
	if json.Unmarshal(out, &stored) != nil || stored.Size != size {
		t.Fatalf("the second run prints %s", out)
	}
	if got, err := command("get", "film", "-").Output(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes are stored, which are not those of the file: %v", len(got), err)
	}
}

func TestADownloadIsWrittenThroughPipesAndLinksAndGetsAnyName(t *testing.T) {
	a, _, _ := terminal(t, 80, nil)
	o, fetch := stored("content")
	directory := t.TempDir()
	in := func(name string) string { return filepath.Join(directory, name) }
	pipe, link, target, long := in("pipe"), in("link"), in("target"), in(strings.Repeat("n", 255))
	must.NoError(t, errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink("target", link), os.WriteFile(target, nil, 0o600)))
	end := must.Do(os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)).Or(t)
	defer end.Close()
	for _, to := range []string{pipe, link, long} {
		must.NoError(t, a.downloadTo(t.Context(), o, to, fetch))
	}
	if got, err := io.ReadAll(end); string(got) != "content" {
		t.Errorf("the pipe had %q, %v", got, err)
	}
	for _, name := range []string{target, long} {
		if got, err := os.ReadFile(name); string(got) != "content" {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	if to, err := os.Readlink(link); to != "target" {
		t.Errorf("the link leads to %q, %v", to, err)
	}

	both, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that opening one end does not wait for the other
	must.NoError(t, err)
	defer both.Close()
	content, closer, err := a.openContent(t.Context(), pipe)
	must.NoError(t, err)
	defer closer()
	if _, seeks := content.Reader.(io.Seeker); seeks || content.Size != -1 {
		t.Errorf("a pipe has %d bytes, and can be read again: %t", content.Size, seeks)
	}
}

func TestConflictsAreListedBesideADirectoryThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	const name = "b (conflict ann 2026-01-02 abcdef).txt"
	const directory = "c (conflict ann 2026-01-02 abcdef)" // in whose place the server has a file
	must.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	must.NoError(t, errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0), os.Mkdir(filepath.Join(dir, directory), 0o700)))
	if os.Geteuid() == 0 {
		const user = 12345 // whom permissions keep from files
		must.NoError(t, errors.Join(os.Chown(filepath.Dir(dir), user, -1), os.Chown(dir, user, -1)))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must.NoError(t, syscall.Setfsuid(user)) // of the thread
		defer func() { must.NoError(t, syscall.Setfsuid(0)) }()
	}
	a, out, stderr := terminal(t, 80, nil)
	a.outTerminal = false
	if code := a.run(t.Context(), []string{"sync", "conflicts", dir}); code != 0 || out.String() != filepath.Join(dir, name)+"\n"+filepath.Join(dir, directory)+"\n" || !strings.Contains(stderr.String(), filepath.Join(dir, "a")+" is left out") {
		t.Errorf("it exits with %d after %q and %q", code, out, stderr)
	}
}
