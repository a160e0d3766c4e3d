// Package tour runs the commands of the README as a newcomer would paste them.
package tour

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"collab/app/assembly"
	"collab/test/nats"
	"collab/test/objectstore"
	"collab/test/postgres"
)

const root = "../.."

// patience bounds the whole tour; it is no measure of anything.
const patience = 5 * time.Minute

// fences returns the contents of the README's code blocks of a language.
func fences(t *testing.T, language string) []string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// step is one command of the tour with the answer that the README shows.
type step struct{ command, answer string }

func steps(t *testing.T) (all []step) {
	for _, block := range fences(t, "console") {
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{command: command})
			} else {
				all[len(all)-1].answer += line + "\n"
			}
		}
	}
	return all
}

// matches reports whether got is what the README shows, where … stands for
// anything within a line.
func matches(got, shown string) bool {
	var pattern strings.Builder
	for i, part := range strings.Split(shown, "…") {
		if i > 0 {
			pattern.WriteString(".*")
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	return regexp.MustCompile("^" + pattern.String() + "$").MatchString(got)
}

// start runs a command line of the README and returns the address that the
// server says it listens on.
func start(t *testing.T, line string, environ ...string) (url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+line)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Logf("the server ended with %v", err)
		}
	})
	var said strings.Builder
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if m := regexp.MustCompile(`"msg":"listening".*"address":"127.0.0.1:(\d+)"`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://localhost:" + m[1]
		}
	}
	t.Fatalf("%s did not listen:\n%s", line, said.String())
	return ""
}

func TestTheTourShowsWhatTheReadmeShows(t *testing.T) {
	dir := t.TempDir()
	line := strings.TrimSpace(fences(t, "sh")[0])
	url := start(t, strings.Replace(line, "COLLAB_ADMIN_SECRET", "env COLLAB_ADMIN_SECRET", 1), "COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATA_DIR="+filepath.Join(dir, "data"))

	// One shell runs all lines, as the variables of one are used by the next.
	const mark = "\x1e"
	var script strings.Builder
	all := steps(t)
	for _, s := range all {
		fmt.Fprintf(&script, "%s\nprintf '\\n%s'\n", strings.ReplaceAll(s.command, "http://localhost:8080", url), mark)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script.String())
	shell.Dir = dir
	var failures bytes.Buffer
	shell.Stderr = &failures
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, failures.String())
	}
	if failures.Len() > 0 {
		t.Errorf("the shell says:\n%s", failures.String())
	}
	answers := strings.Split(string(out), mark)
	for i, s := range all {
		got := strings.TrimRight(strings.ReplaceAll(answers[i], url, "http://localhost:8080"), "\n")
		if shown := strings.TrimRight(s.answer, "\n"); !matches(got, shown) {
			t.Errorf("$ %s\ngot:   %s\nshown: %s", s.command, got, shown)
		}
	}
	if len(all) < 18 {
		t.Errorf("the tour has only %d steps", len(all))
	}
}

func TestTheDeploymentStartsWithWhatTheReadmeExports(t *testing.T) {
	var environ []string
	var commands []string
	for _, block := range fences(t, "sh") {
		if !strings.Contains(block, "COLLAB_MODE=production") {
			continue
		}
		for line := range strings.Lines(block) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
				environ = append(environ, v)
			} else {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	if _, err := assembly.ReadConfig(environ); err != nil {
		t.Fatalf("the README's configuration is not complete: %v", err)
	}
	if got := strings.Join(commands, "; "); got != "collabd migrate; collabd" {
		t.Fatalf("the README deploys by %q", got)
	}

	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "make", "build", "BIN="+dir)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sh := func(line string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), environ...)
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	sh("umask 077; openssl genpkey -algorithm ed25519 > token-keys.pem")
	sh("umask 077; collabd keys secrets > secrets-keys.json")
	// The bucket has the README's own name, in a store of the test's.
	store := objectstore.Start(t, "")
	store.Bucket("collab-files")
	environ = append(environ,
		"COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATABASE_URL="+postgres.URL(t), "COLLAB_DATA_DIR="+filepath.Join(dir, "data"),
		"COLLAB_BUS_URL="+nats.Start(t).URL, objectstore.EnvHost+"="+store.Host,
		"COLLAB_TOKEN_KEYS="+filepath.Join(dir, "token-keys.pem"), "COLLAB_SECRETS_KEYS="+filepath.Join(dir, "secrets-keys.json"),
		"COLLAB_IDENTITY_WEBHOOK_SECRETS=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	)
	sh("collabd migrate")
	url := start(t, filepath.Join(dir, "collabd"), environ...)
	sh("curl -sf " + url + "/readyz && curl -sf " + url + "/healthz && curl -sf " + url + "/metrics")
	sh("test $(curl -s -o /dev/null -w '%{http_code}' " + url + "/dev/identity/sign-in) = 404")
	sh("collabd gc --dry-run | grep '^0 blobs would be removed'")
}
