package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "collab/app/assembly" // what the server is made of: the test cache must see it change
	"collab/test/postgres"
)

const (
	adminSecret = "operators-only-0123456789"
	corsOrigin  = "https://app.example.com"

	// The secrets that identity events are signed with: the present one, the one
	// before it, and one that the server does not know.
	webhookSecret      = "whsec_cHJlc2VudC1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="
	oldWebhookSecret   = "whsec_ZWFybGllci1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="
	wrongWebhookSecret = "whsec_c29tZWJvZHktZWxzZXMtc2VjcmV0LWFsdG9nZXRoZXI="
)

// A profile is one way to deploy the server.
type profile struct {
	name     string
	database func(t *testing.T, dir string) (url string)
}

var (
	onSQLite   = profile{"SQLite", func(_ *testing.T, dir string) string { return "sqlite://" + filepath.Join(dir, "collab.db") }}
	onPostgres = profile{"Postgres", func(t *testing.T, _ string) string { return postgres.URL(t) }}
)

// server is one running collabd.
type server struct {
	profile  profile
	base     string // its address, http://127.0.0.1:port
	database string

	mu     sync.Mutex
	log    bytes.Buffer
	errors []string // lines of the log that say ERROR
}

const (
	startWithin = 2 * time.Minute
	stopWithin  = time.Minute
)

// binary is the server, built once for the whole test. The test cache learns
// of changes to it by the import of app/assembly above, and by this reading the
// files of cmd/collabd.
var binary = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("../../cmd/collabd/*")
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("cmd/collabd has no files: %v", err)
	}
	for _, name := range sources {
		if _, err := os.ReadFile(name); err != nil {
			return "", err
		}
	}
	path := filepath.Join(scratch, "collabd")
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "collab/cmd/collabd")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return path, nil
})

// start runs a server of its own until the test ends. A server that logs an
// error or does not end well fails the test.
func start(t *testing.T, p profile, settings ...string) *server {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &server{profile: p, database: p.database(t, dir)}
	cmd := exec.Command(path)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + dir,
		"COLLAB_LISTEN=127.0.0.1:0",
		"COLLAB_DATA_DIR=" + filepath.Join(dir, "data"),
		"COLLAB_DATABASE_URL=" + s.database,
		"COLLAB_ADMIN_SECRET=" + adminSecret,
		"COLLAB_CORS_ORIGINS=" + corsOrigin,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS=" + webhookSecret + "," + oldWebhookSecret,
		"COLLAB_IDENTITY_ROLE_MAP=org:billing=VIEWER",
		"COLLAB_LOG_FORMAT=json",
		"COLLAB_LOG_LEVEL=info",
		"COLLAB_RATE_LIMITS=off",
	}, settings...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.follow(stderr, address)
	}()
	t.Cleanup(func() {
		s.stop(t, cmd, read)
	})
	select {
	case s.base = <-address:
	case <-read:
		t.Fatalf("the server ended before it listened:\n%s", s.tail())
	case <-time.After(startWithin):
		t.Fatalf("the server does not listen after %v:\n%s", startWithin, s.tail())
	}
	return s
}

// follow reads the server's log, which is one JSON object a line.
func (s *server) follow(log io.Reader, address chan<- string) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		var entry struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
			URL   string `json:"url"`
		}
		isEntry := json.Unmarshal([]byte(line), &entry) == nil
		s.mu.Lock()
		s.log.WriteString(line)
		if isEntry && entry.Level == "ERROR" || strings.HasPrefix(line, "panic:") || strings.Contains(line, "WARNING: DATA RACE") {
			s.errors = append(s.errors, strings.TrimSpace(line))
		}
		s.mu.Unlock()
		if isEntry && entry.Msg == "listening" {
			address <- entry.URL
		}
		if err != nil {
			return
		}
	}
}

func (s *server) stop(t *testing.T, cmd *exec.Cmd, read <-chan struct{}) {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the server is gone: %v", err)
	}
	killed := time.AfterFunc(stopWithin, func() { _ = cmd.Process.Kill() })
	<-read
	err := cmd.Wait()
	if !killed.Stop() {
		t.Errorf("the server did not stop within %v", stopWithin)
	}
	if err != nil {
		t.Errorf("the server ended with %v:\n%s", err, s.tail())
	}
	for _, line := range s.errors {
		t.Errorf("the server logged an error: %s", line)
	}
}

// tail returns the end of the log.
func (s *server) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.log.String()
	if len(text) > 8000 {
		text = text[len(text)-8000:]
	}
	return text
}
