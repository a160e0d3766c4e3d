// Command weigh measures what the server weighs, and compares it with limits.
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
)

const (
	idle         = 30 * time.Second // before memory is read
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
	var err error
	if *cold {
		err = weighCold(ctx)
	} else {
		err = weigh(ctx, *binary, *limits)
	}
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

// weigh prints the figures, and fails where one is above its limit.
func weigh(ctx context.Context, binary, limits string) error {
	text, err := os.ReadFile(limits)
	if err != nil {
		return err
	}
	figures, err := parseLimits(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", limits, err)
	}
	measured, err := measure(ctx, binary)
	if err != nil {
		return err
	}
	var above []string
	for i := range figures {
		f := &figures[i]
		value, ok := measured[f.name]
		if !ok {
			return fmt.Errorf("%s: %s is no figure", limits, f.name)
		}
		delete(measured, f.name)
		f.measured = value
		verdict := ""
		if f.measured > f.limit {
			verdict, above = "  too much", append(above, f.name)
		}
		fmt.Printf("%-20s %8.1f  at most %g%s\n", f.name, f.measured, f.limit, verdict)
	}
	for name := range measured {
		return fmt.Errorf("%s has no limit of %s", limits, name)
	}
	if len(above) > 0 {
		return fmt.Errorf("above the limits of %s: %s", limits, strings.Join(above, ", "))
	}
	return nil
}

// parseLimits reads a figure's name and its limit from each line.
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
func measure(ctx context.Context, binary string) (map[string]float64, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	packages, err := load(ctx)
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{"binary_megabytes": float64(info.Size()) / 1e6, "modules": float64(len(packages.modules()))}
	for range starts {
		of, err := measureServer(ctx)
		if err != nil {
			return nil, err
		}
		for name, value := range of {
			if least, ok := figures[name]; !ok || value < least {
				figures[name] = value
			}
		}
	}
	return figures, nil
}

// starts is how many servers are measured one after the other. The least of each figure counts, as other work
// on the machine only adds to one: a collection that comes late leaves half a megabyte.
const starts = 3

// measureServer returns the figures of a server that is started with empty data, once it is idle.
func measureServer(ctx context.Context) (map[string]float64, error) {
	directory, err := os.MkdirTemp("", "weigh-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	s, err := start(ctx, directory)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = s.stop() }()
	figures := map[string]float64{"ready_seconds": s.ready.Seconds()}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(idle):
	}
	status, err := s.status()
	if err != nil {
		return nil, err
	}
	for name, field := range map[string]string{"resident_megabytes": "VmRSS:", "anonymous_megabytes": "RssAnon:"} {
		_, after, _ := strings.Cut(status, field)
		kilobytes, err := strconv.ParseFloat(strings.Fields(after + " ?")[0], 64)
		if err != nil {
			return nil, fmt.Errorf("%s of the server: %w", field, err)
		}
		figures[name] = kilobytes * 1024 / 1e6
	}
	return figures, nil
}

// server is a make run.
type server struct {
	ready time.Duration // until it answered
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs make run on data in the directory, with variables of the environment, until
// the server answers that it is ready.
func start(ctx context.Context, directory string, environ ...string) (*server, error) {
	port, err := loopback.Port()
	if err != nil {
		return nil, err
	}
	listen := "127.0.0.1:" + strconv.Itoa(port)
	s := &server{cmd: exec.Command("make", "run"), ended: make(chan struct{})}
	s.cmd.Env = append(append(os.Environ(), "COLLAB_LISTEN="+listen, "COLLAB_DATA_DIR="+filepath.Join(directory, "data")), environ...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := os.Create(filepath.Join(directory, "output"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	s.cmd.Stdout, s.cmd.Stderr = output, output
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // it is ended by a signal
	}()
	for {
		if response, err := http.Get("http://" + listen + "/readyz"); err == nil {
			if response.Body.Close() == nil && response.StatusCode == http.StatusOK {
				s.ready = time.Since(began)
				return s, nil
			}
		}
		var failed error
		select {
		case <-ctx.Done():
			failed = ctx.Err()
		case <-s.ended:
			failed = errors.New("make run has ended")
		case <-time.After(5 * time.Millisecond):
			if time.Since(began) > startTimeout {
				failed = errors.New("the server does not answer")
			}
		}
		if failed != nil {
			_, _ = s.stop()
			text, err := os.ReadFile(output.Name())
			return nil, errors.Join(fmt.Errorf("%w:\n%s", failed, text), err)
		}
	}
}

// stop ends make and all that it has started, and returns the processor time of all of
// them.
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

// status returns /proc's status of the server, which is in make's group of processes.
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
