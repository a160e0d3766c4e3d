package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// process is a running server.
type process struct {
	name    string
	address string // host:port
	began   time.Time
	command *exec.Cmd
	log     string // the file of its output
	folder  string // of its state
	ended   chan struct{}
}

// Time limits.
const (
	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
)

// launch starts a program with an environment, and with its output in a file in the folder. It is discarded at the
// end of the scope.
func (b *bench) launch(name, folder, address, program string, environ []string, args ...string) *process {
	log := must.Do(os.Create(filepath.Join(folder, name+".log"))).Or(b)
	defer log.Close() // the process has its own
	p := &process{name: name, address: address, log: log.Name(), ended: make(chan struct{})}
	p.command = exec.Command(program, args...)
	p.command.Env, p.command.Dir = environ, folder
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = withParent()
	p.began = time.Now()
	must.NoError(b, p.command.Start())
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	b.cleanup(p.discard)
	return p
}

// ready waits until GET /readyz returns 200, and returns the time since the start of the process.
func (p *process) ready(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := p.await(ctx, time.Millisecond, func() bool {
		response, err := client.Get("http://" + p.address + "/readyz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
	return time.Since(p.began), err
}

// await waits until the process is ready, and returns an error if it or the context ends before.
func (p *process) await(ctx context.Context, poll time.Duration, isReady func() bool) error {
	for !isReady() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready:\n%s", p.name, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.name, ctx.Err(), tail(p.log))
		case <-time.After(poll):
		}
	}
	return nil
}

// stop stops the process, if it runs, and waits for its end.
func (p *process) stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopLimit):
		_ = p.command.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop within %v", p.name, stopLimit)
	}
}

// discard stops the process and truncates the files of its state. They are removed at the end of the run, because
// ext4 without a journal creates files several times slower for minutes after many were removed.
func (p *process) discard() error {
	if err := p.stop(); err != nil || p.folder == "" {
		return err
	}
	return filepath.WalkDir(p.folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Truncate(path, 0)
		}
		return err
	})
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2048):])
}

// cpu returns the processor time of the process in user and kernel mode.
func (p *process) cpu() (time.Duration, error) {
	s, err := statOf(p.command.Process.Pid)
	return s.cpu, err
}

// resident returns the resident memory of the process in bytes.
func (p *process) resident() (int64, error) { return p.memory("VmRSS:") }

// peak returns the maximum of resident since resetPeak.
func (p *process) peak() (int64, error) { return p.memory("VmHWM:") }

func (p *process) resetPeak() error {
	// proc(5): 5 resets the peak resident set size.
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.command.Process.Pid), []byte("5"), 0)
}

func (p *process) memory(field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc has no %s", field)
}

// tick is the unit of processor time in /proc.
const tick = 10 * time.Millisecond

// stat has the figures of a process in /proc/PID/stat.
type stat struct {
	parent   int
	cpu      time.Duration // of the process
	children time.Duration // processor time of its ended children
}

func statOf(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The name of the program, in parentheses, may contain spaces.
	_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
	fields := strings.Fields(string(rest))
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	parent, err := strconv.Atoi(fields[1])
	var ticks [4]int64 // user and system time, and both of the children
	for i := range ticks {
		n, bad := strconv.ParseInt(fields[11+i], 10, 64)
		ticks[i], err = n, errors.Join(err, bad)
	}
	return stat{
		parent: parent,
		cpu:    time.Duration(ticks[0]+ticks[1]) * tick, children: time.Duration(ticks[2]+ticks[3]) * tick,
	}, err
}

// postmaster is the first process of a Postgres server. The processor time of a nil postmaster is zero.
type postmaster struct{ pid int }

// postmasterOf returns the parent of a connection's backend.
func postmasterOf(ctx context.Context, conn *pgx.Conn) (*postmaster, error) {
	var backend int
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	s, err := statOf(backend)
	return &postmaster{s.parent}, err
}

// cpu returns the sum of the processor times of the server's processes, including ended ones.
func (p *postmaster) cpu() (time.Duration, error) {
	if p == nil {
		return 0, nil
	}
	own, err := statOf(p.pid)
	if err != nil {
		return 0, err
	}
	total := own.cpu + own.children
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && s.parent == p.pid {
			total += s.cpu
		}
	}
	return total, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
