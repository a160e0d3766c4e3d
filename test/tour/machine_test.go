package tour

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/debian"
	"collab/test/must"
	"collab/test/pages"
)

// directory contains the server that built has compiled; it is empty before that.
var directory string

// version is the version of the server of these tests.
const version = "1.2.3"

// build matches the command in docs/deploy/Containerfile that builds the server.
var build = regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /out/collabd (\./cmd/collabd)$`)

// built compiles the server as the container file does, once for all tests, and returns
// its directory.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "collab-tour-")
	if err != nil {
		return "", err
	}
	directory = dir
	text, err := os.ReadFile(filepath.Join(root, "docs/deploy/Containerfile"))
	if err != nil {
		return "", err
	}
	m := build.FindSubmatch(text)
	if m == nil {
		return "", errors.New("docs/deploy/Containerfile does not build the server")
	}
	line := fmt.Sprintf("%s -o %s/collabd %s", m[1], dir, m[2])
	cmd := exec.Command("bash", "-c", quick(line))
	cmd.Dir, cmd.Env = root, append(os.Environ(), "VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return dir, nil
})

// quick removes the flag with which every package would be compiled again.
func quick(line string) string { return strings.Replace(line, "-trimpath ", "", 1) }

func TestMain(m *testing.M) {
	code := m.Run()
	if directory != "" {
		_ = os.RemoveAll(directory)
	}
	os.Exit(code)
}

// binaries returns the directory that the server is in.
func binaries(t *testing.T) string {
	t.Helper()
	pages.Read(t, "cmd/collabd/main.go") // makes the test cache depend on it
	return must.Do(built()).Or(t)
}

// service is a running server.
type service struct {
	url  string // http://localhost:port
	make bool   // started by make, which exits with an error when its command is stopped

	cmd  *exec.Cmd
	done chan struct{} // closed when the log has ended

	log must.Log
}

var listening = regexp.MustCompile(`\blistening\b.*\baddress["=:]+127\.0\.0\.1:(\d+)`)

// launch runs shell commands that start a server, and waits until it listens.
func launch(t *testing.T, dir, lines string, environ ...string) *service {
	t.Helper()
	s := &service{cmd: exec.Command("bash", "-c", lines), done: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env = dir, environ
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := must.Do(s.cmd.StderrPipe()).Or(t)
	must.NoError(t, s.cmd.Start())
	t.Cleanup(func() { s.stop(t) })
	port := make(chan string, 1)
	go func() {
		defer close(s.done)
		lines := bufio.NewReader(log)
		for {
			line, err := lines.ReadString('\n')
			_, _ = s.log.Write([]byte(line)) // never fails
			if m := listening.FindStringSubmatch(line); m != nil {
				port <- m[1]
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case p := <-port:
		s.url = "http://localhost:" + p
	case <-s.done:
		t.Fatalf("the server exited before it listened:\n%s", &s.log)
	case <-time.After(patience):
		t.Fatalf("the server does not listen:\n%s", &s.log)
	}
	return s
}

// stop terminates the server and waits for its exit. It may be called repeatedly.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if s.cmd.ProcessState != nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { _ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	<-s.done
	if err := s.cmd.Wait(); err != nil && !s.make {
		t.Errorf("the server ended with %v:\n%s", err, &s.log)
	}
}

// machine is the environment in which a document's commands are run: its directories are
// below a temporary one, and its service is the server.
type machine struct {
	dir     string
	path    string            // PATH
	file    string            // the service's settings
	environ []string          // further variables
	instead *strings.Replacer // replaces the document's paths and addresses by the test's
	loaded  bool              // a command has read the settings, which later ones use
	running *service          // nil if it is stopped
}

// settings returns the shell commands that read the settings.
func (s *machine) settings() string { return "set -a; . " + s.file + "; set +a\n" }

func (s *machine) environment() []string {
	return append([]string{"PATH=" + s.path, "HOME=" + s.dir}, s.environ...)
}

// shell runs lines in the root of the tree, and returns what they print on both
// outputs.
func (s *machine) shell(t *testing.T, lines string) (string, error) {
	t.Helper()
	if s.loaded {
		lines = s.settings() + lines
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\n"+lines)
	cmd.Dir, cmd.Env = root, s.environment()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var manages = regexp.MustCompile(`(?m)^systemctl (restart|enable --now) collabd$`)

// run runs a block, and compares the output if it is a console's.
func (s *machine) run(t *testing.T, b block) {
	t.Helper()
	if b.language == "console" {
		for _, step := range stepsOf(b.text) {
			out, err := s.shell(t, s.instead.Replace(step.command))
			if err != nil {
				t.Errorf("%s:%d: $ %s: %v\n%s", b.file, b.line, step.command, err, out)
				continue
			}
			if got, shown := strings.TrimRight(out, "\n"), strings.TrimRight(step.response, "\n"); !matches(got, shown) {
				t.Errorf("%s:%d: $ %s\ngot:   %s\nshown: %s", b.file, b.line, step.command, got, shown)
			}
		}
		return
	}
	lines := manages.ReplaceAllString(b.text, "")
	if out, err := s.shell(t, s.instead.Replace(lines)); err != nil {
		t.Fatalf("%s:%d: %v\n%s\n%s", b.file, b.line, err, lines, out)
	}
	if strings.Contains(lines, ". /etc/collab/collabd.env") {
		s.loaded = true
	}
	if manages.MatchString(b.text) {
		s.restart(t)
	}
}

// restart starts the service anew with its settings.
func (s *machine) restart(t *testing.T) {
	t.Helper()
	if s.running != nil {
		s.running.stop(t)
	}
	s.running = launch(t, s.dir, s.settings()+"exec collabd", s.environment()...)
}

// set changes variables in the settings file, which must have each of them.
func (s *machine) set(t *testing.T, values map[string]string) {
	t.Helper()
	text := must.Do(os.ReadFile(s.file)).Or(t)
	for name, value := range values {
		line := regexp.MustCompile("(?m)^" + name + "=.*$")
		if !line.Match(text) {
			t.Fatalf("the settings have no %s", name)
		}
		text = line.ReplaceAllLiteral(text, []byte(name+`="`+value+`"`))
	}
	must.NoError(t, os.WriteFile(s.file, text, 0o600))
}

// need installs a program if it is missing and the test runs as root.
func need(t *testing.T, program, install string) {
	t.Helper()
	must.Do(debian.Program(t.Context(), program, install)).Or(t)
}

// response is the response of a server.
type response struct {
	status int
	header http.Header
	body   string
}

// call sends a request; headers are pairs of a name and a value.
func call(t *testing.T, method, url, body string, headers ...string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := must.Do(http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))).Or(t)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res := must.Do(http.DefaultClient.Do(r)).Or(t)
	defer res.Body.Close()
	text := must.Do(io.ReadAll(res.Body)).Or(t)
	return response{res.StatusCode, res.Header, string(text)}
}

// signIn returns a service token of server for an account of the development provider
// at issuer.
func signIn(t *testing.T, issuer, server string) string {
	t.Helper()
	identity := must.Do(collabd.IdentityToken(issuer, "ada@example.com", "Ada", "Engines", "")).Or(t)
	var session struct{ Token string }
	collabd.Client{Base: server}.Must(t, http.StatusOK, "POST", "/auth/exchange-token", map[string]string{"identityToken": identity}, &session)
	return session.Token
}
