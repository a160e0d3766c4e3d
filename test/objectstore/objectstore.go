// Package objectstore starts temporary object stores for tests: fake-gcs-server,
// which speaks Google's protocol, over HTTP on a loopback port.
//
// A process that uses one needs EnvHost in its environment.
package objectstore

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"collab/test/must"
)

// EnvHost names the variable that leads Google's clients to an emulator.
const EnvHost = "STORAGE_EMULATOR_HOST"

// Server is a running object store.
type Server struct {
	Host string // what EnvHost is to be

	store *fakestorage.Server
	front *httptest.Server
}

// Start starts an object store that ends with the test. It
// keeps objects in the directory, in memory where that is empty.
func Start(t testing.TB, directory string) *Server {
	t.Helper()
	s := must.Do(Listen(directory)).Or(t)
	t.Cleanup(s.stop)
	return s
}

// Listen starts an object store outside of a test.
func Listen(directory string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	host := l.Addr().String()
	store, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener: true, StorageRoot: directory, Scheme: "http", ExternalURL: "http://" + host, PublicHost: host,
	})
	if err != nil {
		return nil, err
	}
	front := httptest.NewUnstartedServer(store.HTTPHandler())
	if err := front.Listener.Close(); err != nil {
		return nil, err
	}
	front.Listener = l
	front.Start()
	return &Server{Host: host, store: store, front: front}, nil
}

// Bucket makes a bucket and returns its address.
func (s *Server) Bucket(name string) string {
	s.store.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: name})
	return "gs://" + name
}

// stop ends the object store, so that nobody answers any more.
func (s *Server) stop() {
	s.front.CloseClientConnections()
	s.front.Close()
}
