// Package postgres starts real, temporary Postgres servers for tests, from the
// binaries that the system's package manager installed.
//
// A server has a folder of its own, listens on a free loopback port and a
// socket in its folder, and runs as an unprivileged user. It is stopped and its
// folder removed when it is closed, and when the process that started it ends.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/cached"
	"collab/test/loopback"
	"collab/test/tempdir"
)

// startTimeout is how long a server may take until it answers; recovery after
// a kill is part of it.
const startTimeout = time.Minute

// owner is the database superuser that the servers are made with.
const owner = "collab"

// Options say how a server differs from the default.
type Options struct {
	// NoSync lets commits return before they are on disk. Tests that are not about
	// durability or speed set it.
	NoSync bool
	// Settings are further settings, as postgresql.conf names them.
	Settings map[string]string
}

// Server is one running server.
type Server struct {
	folder  string
	bin     string
	port    int
	user    *syscall.Credential
	options Options

	mu      sync.Mutex
	run     *run // nil while stopped
	closed  bool
	counter atomic.Int64
}

// run is one run of the server process under its supervisor.
type run struct {
	pid   int
	pipe  io.WriteCloser // the supervisor's input; closing it without a line stops the server and removes the folder
	ended chan struct{}  // closed when the server process has ended
}

// supervisor is a shell script that runs the server in the background, prints its process id and waits for it. A
// subshell reads a line of standard input. If there is none, the process that started the script has ended: the
// subshell stops the server and removes the folder.
const supervisor = `
folder=$1; shift
exec 3<&0 </dev/null
"$@" >>"$folder/log" 2>&1 3<&- &
pid=$!
(
	read -r word <&3 && exit 0
	kill -QUIT $pid
	while kill -0 $pid 2>/dev/null; do sleep 0.1; done
	rm -rf "$folder"
) >/dev/null 2>&1 &
exec 3<&-
echo $pid
exec >&-
wait $pid
`

// Start makes and starts a server and waits until it answers. When Postgres is
// not installed and can be installed (as root, with apt-get), it does that
// first and says so on standard error.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.initialise(ctx); err != nil {
		return nil, err
	}
	return s, s.listen(ctx)
}

// initialise makes the data directory, as a copy of one that initdb made once for each version of
// the server.
func (s *Server) initialise(ctx context.Context) error {
	run := func(c *exec.Cmd) error {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", c.Path, err, out)
		}
		return nil
	}
	initdb := filepath.Join(s.bin, "initdb")
	version, err := exec.CommandContext(ctx, initdb, "--version").Output()
	if err != nil {
		return err
	}
	kept, err := cached.Directory("postgres-"+clean(string(version)), func(dir string) error {
		made := filepath.Join(s.folder, "made")
		return errors.Join(run(s.command(ctx, initdb, "--pgdata", made, "--username", owner, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")),
			run(exec.CommandContext(ctx, "cp", "-Rp", made, filepath.Join(dir, "data"))), os.RemoveAll(made))
	})
	if err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "cp", "-Rp", filepath.Join(kept, "data"), s.data()))
}

// prepare returns a server without data that does not run.
func prepare(ctx context.Context, o Options) (*Server, error) {
	bin, err := binaries(ctx)
	if err != nil {
		return nil, err
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	folder, err := "", error(nil)
	if o.NoSync {
		folder, err = tempdir.Make()
	} else {
		folder, err = os.MkdirTemp("", "collab-postgres-")
	}
	if err != nil {
		return nil, err
	}
	if user != nil {
		if err := os.Chown(folder, int(user.Uid), int(user.Gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(folder))
		}
	}
	return &Server{folder: folder, bin: bin, user: user, options: o}, nil
}

// listen starts the server on a free port.
func (s *Server) listen(ctx context.Context) error {
	return loopback.Start(func(port int) error {
		s.port = port
		return s.start(ctx)
	})
}

// URL returns the address of a database on the server.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(owner), Path: "/" + database,
		Host: s.Host(), RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Host returns the address that the server listens at, as host:port.
func (s *Server) Host() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Database makes a fresh database and returns its address. The name is a hint:
// the database's own name begins with it.
func (s *Server) Database(ctx context.Context, name string) (string, error) {
	return s.copy(ctx, name, "template0")
}

// copy is Database for a copy of the database template, which must have no connections.
func (s *Server) copy(ctx context.Context, name, template string) (string, error) {
	return create(ctx, s.URL("postgres"), fmt.Sprintf("%s_%d", clean(name), s.counter.Add(1)), template)
}

// Restart stops the server and starts it again on the same data and address:
// in order, ending all connections, or by killing it without warning.
func (s *Server) Restart(ctx context.Context, kill bool) error {
	signal := syscall.SIGINT
	if kill {
		signal = syscall.SIGKILL
	}
	if err := s.stop(signal); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop ends the server in order, until Restart starts it again.
func (s *Server) Stop() error { return s.stop(syscall.SIGINT) }

// Close stops the server and removes its folder. Closing again does nothing.
func (s *Server) Close() error {
	err := s.stop(syscall.SIGQUIT)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(err, os.RemoveAll(s.folder))
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return command(ctx, s.folder, s.user, name, args...)
}

func command(ctx context.Context, folder string, user *syscall.Credential, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = folder
	c.Env = append(os.Environ(), "LC_ALL=C")
	// A group of its own keeps an interrupt at the terminal from reaching the
	// server before the process that uses it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	return c
}

func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("postgres: the server is closed")
	case s.run != nil:
		return nil
	}
	deadline := time.Now().Add(startTimeout)
	for {
		r, err := s.launch()
		if err != nil {
			return err
		}
		if err = r.ping(ctx, s.URL("postgres"), deadline); err == nil {
			s.run = r
			return nil
		}
		_ = r.end(syscall.SIGQUIT)
		// Processes that a killed server left behind hold its memory for a moment.
		if ctx.Err() != nil || time.Now().After(deadline) || !strings.Contains(s.lastLog(), "pre-existing shared memory") {
			return fmt.Errorf("postgres did not start: %w\n%s", err, s.lastLog())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) launch() (*run, error) {
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(s.port), "unix_socket_directories": s.folder,
		"max_connections": "300", "logging_collector": "off", "lc_messages": "C", "timezone": "UTC",
	}
	if s.options.NoSync {
		settings["fsync"], settings["synchronous_commit"], settings["full_page_writes"] = "off", "off", "off"
	}
	for k, v := range s.options.Settings {
		settings[k] = v
	}
	args := []string{filepath.Join(s.bin, "postgres"), "-D", s.data()}
	for k, v := range settings {
		args = append(args, "-c", k+"="+v)
	}
	return supervised(s.folder, s.user, args...)
}

// supervised starts a server in a folder under a supervisor.
func supervised(folder string, user *syscall.Credential, args ...string) (*run, error) {
	c := command(context.Background(), folder, user, "/bin/sh", append([]string{"-c", supervisor, "supervisor", folder}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// StdinPipe would not do: Wait closes it, upon which the subshell removes the folder.
	input, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	c.Stdin = input
	if err := c.Start(); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	r := &run{pipe: pipe, ended: make(chan struct{})}
	printed, err := io.ReadAll(out)
	if err == nil {
		r.pid, err = strconv.Atoi(strings.TrimSpace(string(printed)))
	}
	go func() {
		_ = c.Wait()
		close(r.ended)
	}()
	if err != nil {
		_ = pipe.Close()
		return nil, fmt.Errorf("postgres: the supervisor printed %q: %w", printed, err)
	}
	return r, nil
}

// ping waits until the server takes connections to a database.
func (r *run) ping(ctx context.Context, address string, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-r.ended:
			return errors.New("the server process ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) stop(signal syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil
	}
	r := s.run
	s.run = nil
	return r.end(signal)
}

// end stops the server process, waits for it and ends the supervisor, which
// keeps the folder.
func (r *run) end(signal syscall.Signal) error {
	err := syscall.Kill(r.pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	<-r.ended
	_, unwritten := io.WriteString(r.pipe, "end\n")
	return errors.Join(err, unwritten, r.pipe.Close())
}

// lastLog returns the end of the server's log.
func (s *Server) lastLog() string {
	text, err := os.ReadFile(filepath.Join(s.folder, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}

// create makes a database on the server at the address, as a copy of the database template, and
// returns the address of the new one.
func create(ctx context.Context, server, name, template string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+template); err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// clean returns name as the beginning of a database's name.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
	return "t_" + name[:min(len(name), 40)]
}
