package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startTimeout and stopTimeout bound how long a server may take; they measure nothing.
const (
	startTimeout = time.Minute
	stopTimeout  = time.Minute
)

// Server is one server of a cluster, whose process can be ended and started again at the same
// address. Its methods are for one goroutine at a time.
type Server struct {
	dir      string // has the data folder and the log
	port     int
	settings []string
	command  func() (*exec.Cmd, error)

	process *exec.Cmd     // nil until the first start
	ended   chan struct{} // closed when the process has ended
}

// URL returns the server's own address.
func (s *Server) URL() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

// LogFile returns the path of the log of all processes of the server.
func (s *Server) LogFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts a process and returns when it answers. One that does not is stopped.
func (s *Server) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.LogFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if s.process, err = s.command(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.dir, log, log
	s.process.Env = append(s.process.Env, "PATH="+os.Getenv("PATH"), "HOME="+s.dir, "COLLAB_LISTEN=127.0.0.1:"+strconv.Itoa(s.port), "COLLAB_DATA_DIR="+s.data())
	s.process.Env = append(s.process.Env, s.settings...)
	// An interrupt at the terminal reaches the process that uses the cluster, which ends the servers
	// in their order.
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.process.Start(); err != nil {
		return err
	}
	go func(process *exec.Cmd, ended chan<- struct{}) {
		_ = process.Wait() // ended by a signal, or reported by Wait
		close(ended)
	}(s.process, s.ended)
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, s.stop())
	}
	return nil
}

// awaitReady waits until the server is ready.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not become ready, see %s: %w", s.LogFile(), errors.Join(ctx.Err(), err))
		case <-s.ended:
			return fmt.Errorf("it ended, see %s", s.LogFile())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Signal sends a signal to the process, such as SIGSTOP.
func (s *Server) Signal(signal syscall.Signal) error { return s.process.Process.Signal(signal) }

// Kill ends the process as a crash would, and waits until it has ended.
func (s *Server) Kill() error {
	err := s.Signal(syscall.SIGKILL)
	<-s.ended
	return err
}

// stop asks the process to end and waits until it has. A process that has ended is left alone.
func (s *Server) stop() error {
	if s.process == nil || s.process.Process == nil {
		return nil
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	if err := s.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("the server at %s did not end within %v", s.URL(), stopTimeout), s.Kill())
	}
	if state := s.process.ProcessState; !state.Success() {
		return fmt.Errorf("the server at %s ended with %v, see %s", s.URL(), state, s.LogFile())
	}
	return nil
}
