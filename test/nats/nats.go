// Package nats starts temporary NATS servers for tests, within the process and
// on loopback ports.
package nats

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"collab/test/loopback"
	"collab/test/must"
)

// startTimeout is how long a server may take until it answers.
const startTimeout = 30 * time.Second

// Server is a server that can be stopped, and started again at the same
// address.
type Server struct {
	URL string

	options server.Options
	running *server.Server // nil while stopped
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := must.Do(Listen()).Or(t)
	t.Cleanup(s.Stop)
	return s
}

// Listen starts a server outside of a test.
func Listen() (*Server, error) {
	s := &Server{options: server.Options{Host: "127.0.0.1", NoLog: true, NoSigs: true}}
	return s, loopback.Start(func(port int) error {
		s.options.Port = port
		return s.start()
	})
}

// Restart starts the server again after Stop.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	must.NoError(t, s.start())
}

func (s *Server) start() error {
	options := s.options
	running, err := server.NewServer(&options)
	if err != nil {
		return err
	}
	running.Start()
	if !running.ReadyForConnections(startTimeout) {
		running.Shutdown()
		return errors.New("the NATS server does not answer")
	}
	s.running, s.URL = running, running.ClientURL()
	return nil
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}
