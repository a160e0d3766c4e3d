package integration

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

// ran runs a command of the program and returns its output. The command must succeed if succeeds is set, and fail
// otherwise.
func ran(t *testing.T, s *collabd.Server, succeeds bool, args ...string) string {
	t.Helper()
	output, err := s.Command(t, args).CombinedOutput()
	if (err == nil) != succeeds {
		t.Fatalf("collabd %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// restored starts a server on what an archive of another one has, which takes the
// other one's tokens.
func restored(t *testing.T, of *collabd.Server, archive string) *collabd.Server {
	t.Helper()
	s := collabd.Start(t, "COLLAB_PUBLIC_URL="+of.URL)
	s.Stop(t)
	must.NoError(t, os.RemoveAll(s.Dir))
	ran(t, s, true, "restore", archive)
	must.NoError(t, s.Restart())
	return s
}

// contentPath returns the path of the content of a file that an organisation shares.
func contentPath(t *testing.T, s *collabd.Server, org, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "blobs", org, "shared", "artifacts", name+"@*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

// startReading starts a command of the program, and returns it with its output once it reads the path, where it
// finds a named pipe.
func startReading(t *testing.T, s *collabd.Server, path string, args ...string) (c *exec.Cmd, output *bytes.Buffer, pipe *os.File) {
	t.Helper()
	must.NoError(t, syscall.Mkfifo(path, 0o600))
	c, output = s.Command(t, args), &bytes.Buffer{}
	c.Stdout, c.Stderr = output, output
	must.NoError(t, c.Start())
	return c, output, must.Do(os.OpenFile(path, os.O_WRONLY, 0)).Or(t)
}

// trackedFile is a file as a client knows it, with the number of its states.
type trackedFile struct {
	began int // how many had begun before the backup ended
	acked int // how many were acknowledged before it began
}

// backupWriter is a member who writes, replaces and deletes files, and adds tasks.
type backupWriter struct {
	user collabd.Client
	name string

	mu    sync.Mutex
	files map[string][]string // the checksums that were begun by path, empty where it is deleted
	acked map[string]int      // how many of them were acknowledged: all or all but the last
	tasks []string
}

// state returns, by path, how many states there are and how many were
// acknowledged.
func (s *backupWriter) state() (begun, acked map[string]int, tasks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun = map[string]int{}
	for path, states := range s.files {
		begun[path] = len(states)
	}
	return begun, maps.Clone(s.acked), append([]string(nil), s.tasks...)
}

func (s *backupWriter) write(t *testing.T, stop <-chan struct{}) {
	ids := map[string]string{}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		path := fmt.Sprintf("%s/%d.txt", s.name, n%5)
		text := fmt.Sprintf("%s %d %s", s.name, n, strings.Repeat("x", n%7*1000))
		state := must.Sum(text)
		if ids[path] != "" && n%3 == 0 {
			state = ""
		}
		s.mu.Lock()
		s.files[path] = append(s.files[path], state)
		s.mu.Unlock()
		var status int
		var response []byte
		var err error
		switch {
		case ids[path] == "":
			status, response, err = s.user.Do("POST", "/sync/files", map[string]string{"path": path, "content": text})
		case state == "":
			status, response, err = s.user.Do("DELETE", "/sync/files/"+ids[path], nil)
		default:
			status, response, err = s.user.Do("PUT", "/sync/files/"+ids[path], map[string]string{"content": text})
		}
		var r record
		if err == nil && status/100 == 2 && state != "" {
			err = json.Unmarshal(response, &r)
		}
		if err != nil || status/100 != 2 {
			t.Errorf("%s is %d, %v: %s", path, status, err, response)
			return
		}
		ids[path] = r.ID
		s.mu.Lock()
		s.acked[path] = len(s.files[path])
		s.mu.Unlock()
		if n%4 > 0 {
			continue
		}
		var made struct{ ID string }
		status, response, err = s.user.Do("POST", "/tasks", map[string]string{"title": text[:10]})
		if err == nil {
			err = json.Unmarshal(response, &made)
		}
		if err != nil || status != 201 {
			t.Errorf("a task is %d, %v: %s", status, err, response)
			return
		}
		s.mu.Lock()
		s.tasks = append(s.tasks, made.ID)
		s.mu.Unlock()
	}
}

// manifest returns the checksums of all files that the user sees, having read
// each of them.
func manifest(t *testing.T, u collabd.Client) map[string]string {
	t.Helper()
	var all []record
	u.Must(t, 200, "GET", "/sync/manifest", nil, &all)
	sums := map[string]string{}
	for _, r := range all {
		status, content, err := u.Do("GET", "/sync/files/"+r.ID+"?raw=1", nil)
		if err != nil || status != 200 {
			t.Fatalf("%s is %d: %v %s", r.StorageKey, status, err, content)
		}
		if must.Sum(content) != r.Checksum {
			t.Errorf("%s has another checksum than the manifest says: %.60s", r.StorageKey, content)
		}
		sums[strings.TrimPrefix(r.StorageKey, u.Org+"/shared/artifacts/")] = r.Checksum
	}
	return sums
}

func TestBackupsOfAServerThatIsWrittenTo(t *testing.T) {
	race.Skip(t, "commands of the program write backups, which share nothing with the server")
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Backups", "owner")
	ada.Must(t, 200, "PUT", "/sync/profile", map[string]string{"a": "b"}, nil)
	var deleted record
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "deleted.txt", "content": "deleted"}, &deleted)
	ada.Must(t, 200, "DELETE", "/sync/files/"+deleted.ID, nil, nil)
	ran(t, s, true, "version") // it is built before the writes begin
	writers := make([]*backupWriter, 3)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range writers {
		writers[i] = &backupWriter{user: ada, name: fmt.Sprintf("backupWriter%d", i), files: map[string][]string{}, acked: map[string]int{}}
		all.Go(func() { writers[i].write(t, stop) })
	}
	cursor := cursorOf(t, ada)
	type taken struct {
		archive string
		writers []map[string]trackedFile
		tasks   []string
	}
	var backups []taken
	for n := range 4 {
		b := taken{archive: filepath.Join(t.TempDir(), "backup.tar.zst")}
		for _, w := range writers {
			_, acked, tasks := w.state()
			known := map[string]trackedFile{}
			for path, n := range acked {
				known[path] = trackedFile{acked: n}
			}
			b.writers, b.tasks = append(b.writers, known), append(b.tasks, tasks...)
		}
		output := ran(t, s, true, "backup", b.archive)
		if n == 0 && !strings.Contains(output, "Backed up") {
			t.Error(output)
		}
		for i, w := range writers {
			begun, _, _ := w.state()
			for path, n := range begun {
				k := b.writers[i][path]
				k.began = n
				b.writers[i][path] = k
			}
		}
		backups = append(backups, b)
	}
	close(stop)
	all.Wait()

	for n, b := range backups {
		r := restored(t, s, b.archive)
		ada := ada.At(r) // whose token is the old one
		sums := manifest(t, ada)
		for i, w := range writers {
			for path, k := range b.writers[i] {
				at := -1
				for j := max(0, k.acked-1); j < k.began; j++ {
					if w.files[path][j] == sums[path] {
						at = j
					}
				}
				if at < 0 && (k.acked > 0 || sums[path] != "") {
					t.Errorf("backup %d: %s is %q, and none of %v", n, path, sums[path], w.files[path][max(0, k.acked-1):k.began])
				}
			}
		}
		for _, task := range b.tasks {
			ada.Must(t, 200, "GET", "/tasks/"+task, nil, nil)
		}
		// A subscriber from before the restore has to read everything again.
		if event := strings.TrimSpace(strings.TrimPrefix(firstLine(t, ada, cursor, "event:"), "event:")); event != "resync" {
			t.Errorf("backup %d: a follower is told %q first", n, event)
		}
		ada.Must(t, 410, "GET", "/sync/manifest?since="+url.QueryEscape(cursor), nil, nil)
		// The restored state has the deleted file and can be written to; tokens from before are valid.
		ada.Must(t, 200, "POST", "/sync/files/"+deleted.ID+"/restore", map[string]any{}, nil)
		ada.Must(t, 200, "GET", "/sync/files/"+deleted.ID, nil, nil)
		ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "after.txt", "content": "after"}, nil)
		r.Stop(t)
	}
}

// firstLine returns the first line of a feed from the cursor that begins with one of the prefixes.
func firstLine(t *testing.T, u collabd.Client, cursor string, prefixes ...string) string {
	t.Helper()
	r := must.Do(u.Request(t.Context(), "GET", "/sync/changes", nil, "Last-Event-ID: "+cursor)).Or(t)
	a := must.Do((&http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)).Or(t)
	defer a.Body.Close()
	for lines := bufio.NewScanner(a.Body); lines.Scan(); {
		line := lines.Text()
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			return line
		}
	}
	return ""
}

// TestContentRemovedDuringABackup stops a backup at its first content, deletes
// the second and collects garbage.
func TestContentRemovedDuringABackup(t *testing.T) {
	race.Skip(t, "commands of the program write backups, which share nothing with the server")
	for name, aged := range map[string]bool{"less than a day ago it is still there": false, "more than a day ago the backup begins anew": true} {
		t.Run(name, func(t *testing.T) {
			s := collabd.Start(t)
			ada := s.SignIn(t, "ada@example.com", "Gone", "owner")
			var gone record
			ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "a.txt", "content": "first"}, nil)
			ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "b.txt", "content": "second"}, &gone)
			first, archive := contentPath(t, s, ada.Org, "a.txt"), filepath.Join(t.TempDir(), "backup")
			must.NoError(t, os.Rename(first, first+".real"))
			c, output, pipe := startReading(t, s, first, "backup", archive)
			ada.Must(t, 200, "DELETE", "/sync/files/"+gone.ID, nil, nil)
			ada.Must(t, 200, "DELETE", "/sync/files/"+gone.ID+"/versions", nil, nil)
			if aged {
				db := must.Do(sql.Open("sqlite", "file:"+filepath.Join(s.Dir, "collab.db")+"?_pragma=busy_timeout(10000)")).Or(t)
				must.Do(db.Exec("UPDATE blob_names SET at = at - 90000000 WHERE is_discarded")).Or(t)
				db.Close()
			}
			ran(t, s, true, "gc")
			must.NoError(t, os.Rename(first+".real", first))
			must.Do(io.WriteString(pipe, "first")).Or(t)
			pipe.Close()
			if err := c.Wait(); err != nil {
				t.Fatalf("%v: %s", err, output.String())
			}
			_, there := manifest(t, ada.At(restored(t, s, archive)))["b.txt"]
			if there == aged {
				t.Errorf("the second is there: %t", there)
			}
		})
	}
}

func TestBackupsAndRestoresThatAreKilled(t *testing.T) {
	race.Skip(t, "commands of the program write backups, which share nothing with the server")
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Killed", "owner")
	for n := range 20 {
		ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": fmt.Sprintf("%02d.txt", n), "content": strings.Repeat("content ", 1000*n)}, nil)
	}
	archive := filepath.Join(t.TempDir(), "backup")
	began := time.Now()
	ran(t, s, true, "backup", archive)
	usual := time.Since(began)
	random := rand.New(rand.NewPCG(seeded(t), 0))
	killed := atomic.Int64{}
	// kill runs a command and kills it at some moment.
	kill := func(within time.Duration, args ...string) {
		t.Helper()
		c := s.Command(t, args)
		var output bytes.Buffer
		c.Stdout, c.Stderr = &output, &output
		must.NoError(t, c.Start())
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(within))), func() { _ = c.Process.Kill() })
		defer timer.Stop()
		if err := c.Wait(); err != nil {
			if c.ProcessState.ExitCode() != -1 {
				t.Fatalf("%v: %s", err, output.String())
			}
			killed.Add(1)
		}
	}
	const rounds = 20
	limit := time.Now().Add(6 * time.Second)
	other := archive + ".other"
	for n := 0; n < rounds && time.Now().Before(limit); n++ {
		kill(usual*3/2, "backup", other)
		if _, err := os.Stat(other); err == nil {
			ran(t, s, true, "restore", "--check", other)
			must.NoError(t, os.Remove(other))
		}
	}
	t.Logf("%d backups were killed", killed.Swap(0))
	ran(t, s, true, "backup", other)

	// The state that the archive does not have is a file of its own.
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "later.txt", "content": "later"}, nil)
	s.Stop(t)
	old := s.Dir + ".kept"
	must.NoError(t, os.CopyFS(old, os.DirFS(s.Dir)))
	began = time.Now()
	ran(t, s, true, "restore", "--replace", archive)
	usual = time.Since(began)
	limit = time.Now().Add(6 * time.Second)
	states := map[bool]int{}
	for n := 0; n < rounds && time.Now().Before(limit); n++ {
		must.NoError(t, os.RemoveAll(s.Dir))
		must.NoError(t, os.CopyFS(s.Dir, os.DirFS(old)))
		kill(usual*3/2, "restore", "--replace", archive)
		later, err := filepath.Glob(filepath.Join(s.Dir, "blobs", ada.Org, "shared", "artifacts", "*"))
		if err != nil || len(later) != 21 && len(later) != 20 {
			t.Fatalf("there are %d files: neither the old state nor the new: %v", len(later), err)
		}
		states[len(later) == 21]++
		if n%10 > 0 {
			continue
		}
		must.NoError(t, s.Restart())
		if got := len(manifest(t, ada)); got != len(later) {
			t.Errorf("%d files are known and %d there", got, len(later))
		}
		s.Stop(t)
	}
	t.Logf("%d restores were killed; %d times the old state was there, %d times the new", killed.Load(), states[true], states[false])
	aside := must.Do(filepath.Glob(s.Dir + ".replaced-*")).Or(t)
	for _, folder := range aside {
		if _, err := os.Stat(filepath.Join(folder, "collab.db")); err != nil {
			t.Errorf("what was moved aside is not whole: %v", err)
		}
		must.NoError(t, os.RemoveAll(folder))
	}
	// Leftover files have no effect.
	ran(t, s, true, "restore", "--replace", archive)
	if _, err := os.Stat(s.Dir + ".restoring"); err == nil {
		t.Error("something is left behind")
	}
	must.NoError(t, s.Restart())
	if got := len(manifest(t, ada)); got != 20 {
		t.Errorf("%d files are restored", got)
	}
}

func TestADataDirectoryIsLockedByItsServer(t *testing.T) {
	race.Skip(t, "commands of the program write backups, which share nothing with the server")
	s := collabd.Start(t)
	archive := filepath.Join(t.TempDir(), "backup")
	ran(t, s, true, "backup", archive)
	if output := ran(t, s, false, "serve"); !strings.Contains(output, "another server runs") {
		t.Error(output)
	}
	if output := ran(t, s, false, "restore", "--replace", archive); !strings.Contains(output, "another server runs") {
		t.Error(output)
	}
	s.Stop(t)
	// Its database may be that of another server, with a data directory of its own.
	other := collabd.Start(t, "COLLAB_DATABASE_URL=sqlite://"+filepath.Join(s.Dir, "collab.db"))
	if output := ran(t, s, false, "restore", "--replace", archive); !strings.Contains(output, "has "+filepath.Join(s.Dir, "collab.db")+" open") {
		t.Error(output)
	}
	other.Stop(t)
	ran(t, s, true, "restore", "--replace", archive)
	must.NoError(t, s.Restart())
}

func TestAnInterruptedBackupLeavesNoFile(t *testing.T) {
	race.Skip(t, "commands of the program write backups, which share nothing with the server")
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Interrupted", "owner")
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "a.txt", "content": strings.Repeat("first", 180_000)}, nil)
	content := contentPath(t, s, ada.Org, "a.txt")
	must.NoError(t, os.Remove(content))
	folder := t.TempDir()
	if output := ran(t, s, false, "backup", filepath.Join(folder, "backup")); !strings.Contains(output, "does not have what the database names") {
		t.Error(output)
	}
	c, output, pipe := startReading(t, s, content, "backup", filepath.Join(folder, "backup"))
	must.NoError(t, c.Process.Signal(os.Interrupt))
	for err := error(nil); err == nil; { // until the signal was handled and the reader has ended
		_, err = io.WriteString(pipe, "f")
	}
	pipe.Close()
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 1 || !strings.Contains(output.String(), "interrupted") {
		t.Errorf("it ended with %v: %s", err, output.String())
	}
	for _, where := range []string{folder, filepath.Join(s.Dir, ".backup")} {
		entries := must.Do(os.ReadDir(where)).Or(t)
		for _, e := range entries {
			if e.Name() != "lock" {
				t.Errorf("%s is left in %s", e.Name(), where)
			}
		}
	}
}
