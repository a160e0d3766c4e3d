// Command weigh measures the size, modules, idle memory and start time of the server, and compares them with limits.
//
//	go run ./test/weigh          the binary, its modules, idle memory and the time to start
//	go run ./test/weigh -cold    a build in empty cache directories, by module
//
// It runs make in the current directory, which is the project's, and needs /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"collab/test/loopback"
	"collab/test/must"
)

const (
	idleTime     = 30 * time.Second // before memory is read
	startTimeout = 20 * time.Minute // a cold build on a slow machine included
	program      = "./cmd/collabd"
)

func main() {
	binary := flag.String("binary", "bin/collabd", "what make build has built")
	limits := flag.String("limits", "test/weigh/limits", "the file of limits")
	cold := flag.Bool("cold", false, "build in empty cache directories")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := must.Catch(func() {
		if t := (must.Program{}); *cold {
			weighCold(ctx, t)
		} else {
			weigh(ctx, t, *binary, *limits)
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "weigh:", err)
		os.Exit(1)
	}
}

// figure is a measurement and what it may be at most.
type figure struct {
	name            string
	measured, limit float64
}

// weigh prints the figures, and fails if one is above its limit.
func weigh(ctx context.Context, t must.T, binary, limits string) {
	figures, err := parseLimits(string(must.Do(os.ReadFile(limits)).Or(t)))
	if err != nil {
		t.Errorf("%s: %w", limits, err)
	}
	measured := measure(ctx, t, binary)
	var exceeded []string
	for i := range figures {
		f := &figures[i]
		value, ok := measured[f.name]
		if !ok {
			t.Errorf("%s: %s is no figure", limits, f.name)
		}
		delete(measured, f.name)
		f.measured = value
		verdict := ""
		if f.measured > f.limit {
			verdict, exceeded = "  too much", append(exceeded, f.name)
		}
		fmt.Printf("%-20s %8.1f  at most %g%s\n", f.name, f.measured, f.limit, verdict)
	}
	for name := range measured {
		t.Errorf("%s has no limit of %s", limits, name)
	}
	if len(exceeded) > 0 {
		t.Errorf("above the limits of %s: %s", limits, strings.Join(exceeded, ", "))
	}
}

// parseLimits parses lines with the name of a figure and its limit.
func parseLimits(text string) (figures []figure, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%q is no name and number", strings.TrimSpace(line))
		}
		limit, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{name: fields[0], limit: limit})
	}
	return figures, nil
}

// measure returns the figures by name.
func measure(ctx context.Context, t must.T, binary string) map[string]float64 {
	info := must.Do(os.Stat(binary)).Or(t)
	figures := map[string]float64{
		"binary_megabytes": float64(info.Size()) / 1e6, "modules": float64(len(load(ctx, t).modules())),
	}
	for range rounds {
		for name, value := range measureServer(ctx, t) {
			if minimum, ok := figures[name]; !ok || value < minimum {
				figures[name] = value
			}
		}
	}
	return figures
}

// rounds is the number of servers that are measured one after the other. The minimum of each figure counts, because
// other work on the machine only adds to it: a late garbage collection leaves half a megabyte.
const rounds = 3

// measureServer returns the figures of a server that is started with empty data, once it is idle.
func measureServer(ctx context.Context, t must.T) map[string]float64 {
	directory := must.Do(os.MkdirTemp("", "weigh-*")).Or(t)
	defer os.RemoveAll(directory)
	s := start(ctx, t, directory)
	defer func() { _, _ = s.stop() }()
	figures := map[string]float64{"ready_seconds": s.ready.Seconds()}
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(idleTime):
	}
	status := must.Do(s.status()).Or(t)
	for name, field := range map[string]string{"resident_megabytes": "VmRSS:", "anonymous_megabytes": "RssAnon:"} {
		_, after, _ := strings.Cut(status, field)
		kilobytes, err := strconv.ParseFloat(strings.Fields(after + " ?")[0], 64)
		if err != nil {
			t.Errorf("%s of the server: %w", field, err)
		}
		figures[name] = kilobytes * 1024 / 1e6
	}
	return figures
}

// server is a make run.
type server struct {
	ready time.Duration // from its start until GET /readyz returned 200
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs make run on data in the directory, with variables of the environment, and waits until the server is
// ready.
func start(ctx context.Context, t must.T, directory string, environ ...string) *server {
	listen := "127.0.0.1:" + strconv.Itoa(must.Do(loopback.Port()).Or(t))
	s := &server{cmd: exec.Command("make", "run"), ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "COLLAB_LISTEN="+listen, "COLLAB_DATA_DIR="+filepath.Join(directory, "data"))
	s.cmd.Env = append(s.cmd.Env, environ...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output := must.Do(os.Create(filepath.Join(directory, "output"))).Or(t)
	defer output.Close()
	s.cmd.Stdout, s.cmd.Stderr = output, output
	started := time.Now()
	must.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // it is ended by a signal
	}()
	for {
		if response, err := http.Get("http://" + listen + "/readyz"); err == nil {
			if response.Body.Close() == nil && response.StatusCode == http.StatusOK {
				s.ready = time.Since(started)
				return s
			}
		}
		var failed error
		select {
		case <-ctx.Done():
			failed = ctx.Err()
		case <-s.ended:
			failed = errors.New("make run has ended")
		case <-time.After(5 * time.Millisecond):
			if time.Since(started) > startTimeout {
				failed = errors.New("the server does not answer")
			}
		}
		if failed != nil {
			_, _ = s.stop()
			t.Errorf("%w:\n%s", failed, must.Do(os.ReadFile(output.Name())).Or(t))
		}
	}
}

// stop ends the process group of make, and returns the processor time of its processes.
func (s *server) stop() (time.Duration, error) {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
		return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime(), nil
	case <-time.After(time.Minute):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
		return 0, errors.New("the server does not end")
	}
}

// status returns the content of /proc/PID/status of the server, which is in make's process group.
func (s *server) status() (string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(stat), " (collabd) ")
		fields := strings.Fields(after) // state, parent, group
		if len(fields) > 2 && fields[2] == strconv.Itoa(s.cmd.Process.Pid) {
			status, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
			return string(status), err
		}
	}
	return "", errors.New("the server's process is not there")
}
