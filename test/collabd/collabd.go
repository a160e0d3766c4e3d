// Package collabd runs the real server for tests, and has a client of it.
package collabd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly"
	"collab/app/assembly/config"
	"collab/test/loopback"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/race"
	"collab/test/tempdir"
)

// startWithin and stopWithin bound what a test waits for; they measure nothing.
const (
	startWithin = 2 * time.Minute
	stopWithin  = time.Minute
)

// envServe names the variable with which a test binary is the server.
const envServe = "COLLABD_TEST_SERVES"

// envClock names the variable with what a server of a test binary adds to its clock, a duration.
const envClock = "COLLABD_TEST_CLOCK"

// ShiftedClock is the setting of a server whose clock is wrong by d.
func ShiftedClock(d time.Duration) string { return envClock + "=" + d.String() }

// shifted is a machine whose clock is wrong.
type shifted struct{ by time.Duration }

func (s shifted) Now() time.Time { return system.Clock{}.Now().Add(s.by) }

// ready is set when Run was called: the test binary can be the server.
var ready bool

// Run runs the tests of a package, whose TestMain it is for, and returns what the
// process ends with. Servers are processes of the same test binary, in which Run
// serves instead; so they are built once, as the tests are.
func Run(m *testing.M) int {
	if os.Getenv(envServe) != "" {
		return serve()
	}
	ready = true
	code := m.Run()
	if err := os.RemoveAll(directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// Postgres returns the address of a fresh database with the present schema.
var Postgres = postgres.Copies(Prepared((*gormdb.DB).Migrate))

// Prepared returns a function that calls prepare for the database at an address.
func Prepared(prepare func(*gormdb.DB, context.Context) error) func(ctx context.Context, address string) error {
	return func(ctx context.Context, address string) error {
		db, err := gormdb.Open(ctx, gormdb.Options{URL: address})
		if err != nil {
			return err
		}
		return errors.Join(prepare(db, ctx), db.Close())
	}
}

// serve does what collabd serve does.
func serve() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := config.Read(os.Environ())
	var clock shifted
	if by := os.Getenv(envClock); err == nil && by != "" {
		clock.by, err = time.ParseDuration(by)
	}
	if err == nil {
		err = assembly.ServeWithClock(ctx, c, clock, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// binary is the program, for tests of its command line, built once for each test
// process with the flags of the tests, which GOFLAGS has. The test cache learns of
// changes to it by the import of app/assembly, and by this reading the files of
// cmd/collabd.
var binary = sync.OnceValues(func() (string, error) {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(string(module))
	sources, err := filepath.Glob(filepath.Join(root, "cmd/collabd/*.go"))
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("cmd/collabd has no files: %v", err)
	}
	for _, name := range sources {
		if _, err := os.ReadFile(name); err != nil {
			return "", err
		}
	}
	if directory, err = os.MkdirTemp("", "collabd-*"); err != nil {
		return "", err
	}
	path := filepath.Join(directory, "collabd")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/collabd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if race.Enabled {
		cmd = exec.Command("go", "build", "-race", "-o", path, "./cmd/collabd")
	}
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return path, nil
})

// directory is where the program lies; empty: it was not built.
var directory string

// Server is one running process.
type Server struct {
	URL string // its address, http://host:port
	Dir string // its data directory

	// Program returns a process of the server for the next start, as Process does.
	Program func() (*exec.Cmd, error)

	given    []string // to Start
	settings []string // given over the defaults
	cmd      *exec.Cmd
	done     chan struct{} // closed when its log has ended
	log      must.Log
}

// Start runs a server on a free port until the test ends, with the settings in
// the form NAME=value over the embedded defaults and no rate limits.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return StartProgram(t, Process, settings...)
}

// StartProgram is Start for another program than the test binary.
func StartProgram(t testing.TB, program func() (*exec.Cmd, error), settings ...string) *Server {
	t.Helper()
	dir := tempdir.New(t)
	s := &Server{Dir: filepath.Join(dir, "data"), Program: program, given: settings}
	s.settings = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
		"COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATA_DIR=" + s.Dir, "COLLAB_RATE_LIMITS=off", "COLLAB_LOG_FORMAT=json",
	}, settings...)
	must.NoError(t, loopback.Start(func(port int) (err error) {
		s.URL, err = s.start(fmt.Sprintf("COLLAB_LISTEN=127.0.0.1:%d", port))
		return err
	}))
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// StartSeveral starts n servers of one deployment: the first, and peers of it. The
// settings name a database that several can use where n is more than 1.
func StartSeveral(t testing.TB, n int, settings ...string) []*Server {
	t.Helper()
	all := []*Server{Start(t, settings...)}
	for len(all) < n {
		all = append(all, all[0].Peer(t))
	}
	return all
}

// Peer starts another server of the same deployment: with the settings, the public
// address and the keys of s, and with more settings over them.
func (s *Server) Peer(t testing.TB, more ...string) *Server {
	t.Helper()
	return s.PeerProgram(t, Process, more...)
}

// PeerProgram is Peer for another program than the test binary.
func (s *Server) PeerProgram(t testing.TB, program func() (*exec.Cmd, error), more ...string) *Server {
	t.Helper()
	return StartProgram(t, program, slices.Concat(s.given, []string{
		"COLLAB_PUBLIC_URL=" + s.URL,
		"COLLAB_TOKEN_KEYS=" + filepath.Join(s.Dir, "token-keys.pem"), "COLLAB_SECRETS_KEYS=" + filepath.Join(s.Dir, "secrets-keys.json"),
	}, more)...)
}

// Restart starts the server again after Stop or Kill, on the same data and
// address, with more settings over its own. It may be another Program.
func (s *Server) Restart(more ...string) error {
	_, err := s.start(append(more, "COLLAB_LISTEN=127.0.0.1"+strings.TrimPrefix(s.URL, "http://localhost"))...)
	return err
}

// start runs a process with the settings and some more, and returns its address.
func (s *Server) start(more ...string) (url string, err error) {
	if s.cmd, err = s.Program(); err != nil {
		return "", err
	}
	s.done = make(chan struct{})
	s.cmd.Dir = filepath.Dir(s.Dir)
	s.cmd.Env = slices.Concat(s.settings, more, s.cmd.Env)
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := s.cmd.Start(); err != nil {
		return "", err
	}
	address := make(chan string, 1)
	go s.follow(stderr, address, s.done)
	select {
	case url = <-address:
		return url, nil
	case <-s.done:
	case <-time.After(startWithin):
	}
	s.Kill()
	return "", fmt.Errorf("the server does not listen:\n%s", s.Log())
}

// Process returns a process that serves, to whose environment its configuration is to be added.
// The test binary is the server, whose TestMain must call Run.
func Process() (*exec.Cmd, error) {
	if !ready {
		return nil, errors.New("the package's TestMain does not call collabd.Run")
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(path)
	c.Env = []string{envServe + "=1"}
	return c, nil
}

// Program returns processes of the program itself with the arguments, for StartProgram.
func Program(args ...string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		path, err := binary()
		if err != nil {
			return nil, err
		}
		return exec.Command(path, args...), nil
	}
}

// Command returns a command of the program with the server's settings, and some
// more, to be run in the directory of its data directory. The server may be running.
func (s *Server) Command(t testing.TB, args []string, more ...string) *exec.Cmd {
	t.Helper()
	c := must.Do(Program(args...)()).Or(t)
	c.Dir, c.Env = filepath.Dir(s.Dir), append(slices.Clone(s.settings), more...)
	return c
}

// PID returns the id of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// follow keeps the log, and finds the address in it.
func (s *Server) follow(log io.Reader, address chan<- string, done chan<- struct{}) {
	defer close(done)
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		_, _ = s.log.Write([]byte(line)) // never fails
		// Not the public address, which may be another server's.
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			_, port, _ := strings.Cut(entry.Address, ":")
			address <- "http://localhost:" + port
		}
		if err != nil {
			return
		}
	}
}

// Log returns what the server has logged so far.
func (s *Server) Log() string { return s.log.String() }

// Metrics returns what the server answers to /metrics.
func (s *Server) Metrics(t testing.TB) string {
	t.Helper()
	response := must.Do(http.Get(s.URL + "/metrics")).Or(t)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || len(text) == 0 {
		t.Fatalf("/metrics: %v", err)
	}
	return string(text)
}

// Stop asks the server to end and waits until it has; again does nothing.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopWithin, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.done
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v:\n%s", err, s.Log())
	}
}

// Kill ends the process as a crash would.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = s.cmd.Wait()
}

// Client sends requests to a server with a token.
type Client struct {
	Base  string // the server's address
	Token string
	User  string // the ids of the token's user and organisation
	Org   string
}

// SignIn returns a client for an account that the development provider of the
// server makes on demand.
func (s *Server) SignIn(t testing.TB, email, organisation, role string) Client {
	t.Helper()
	identity := must.Do(IdentityToken(s.URL, email, email, organisation, role)).Or(t)
	var session struct {
		Token string
		User  struct{ ID string }
		Org   struct{ ID string }
	}
	c := Client{Base: s.URL}
	c.Must(t, 200, "POST", "/auth/exchange-token", map[string]string{"identityToken": identity}, &session)
	return Client{Base: s.URL, Token: session.Token, User: session.User.ID, Org: session.Org.ID}
}

// IdentityToken returns a token of the development provider at a server for an account, which is made
// on demand. Fields that are empty have the provider's defaults.
func IdentityToken(server, email, name, organisation, role string) (string, error) {
	response, err := http.PostForm(server+"/dev/identity/token", url.Values{"email": {email}, "name": {name}, "org": {organisation}, "role": {role}})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var identity struct{ IdentityToken string }
	if err := json.NewDecoder(response.Body).Decode(&identity); err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the identity provider answered %s: %v", response.Status, err)
	}
	return identity.IdentityToken, nil
}

// At returns the same client speaking to another server.
func (c Client) At(s *Server) Client {
	c.Base = s.URL
	return c
}

// Request returns a request to a path under /api/v1. The body is sent as JSON, or as it is if it is
// an io.Reader. Each header is a name, ": " and a value.
func (c Client) Request(ctx context.Context, method, path string, body any, headers ...string) (*http.Request, error) {
	content, whole := body.(io.Reader)
	if body != nil && !whole {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.Base+"/api/v1"+path, content)
	if err != nil {
		return nil, err
	}
	if body != nil && !whole {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r, nil
}

// Do sends a request as Request returns it, and returns the status and body.
func (c Client) Do(method, path string, body any, headers ...string) (int, []byte, error) {
	r, err := c.Request(context.Background(), method, path, body, headers...)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

// Send sends a request as Request returns it, and returns the response, whose body is closed at the end of the test.
func (c Client) Send(t testing.TB, method, path string, body any, headers ...string) *http.Response {
	t.Helper()
	r := must.Do(c.Request(t.Context(), method, path, body, headers...)).Or(t)
	response := must.Do(http.DefaultClient.Do(r)).Or(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// Must sends a request whose response must have the status, and decodes the
// response into out unless that is nil.
func (c Client) Must(t testing.TB, status int, method, path string, body, out any, headers ...string) {
	t.Helper()
	got, data, err := c.Do(method, path, body, headers...)
	must.NoError(t, err)
	if got != status {
		t.Fatalf("%s %s is %d, want %d: %s", method, path, got, status, data)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, data)
		}
	}
}
