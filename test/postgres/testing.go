package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// EnvURL names the variable with the address of a server to use instead of
// starting one. The user in it must be allowed to create databases.
const EnvURL = "COLLAB_TEST_POSTGRES_URL"

// shared returns the process's server. It is not closed: it ends with the process.
var shared = sync.OnceValues(func() (*Server, error) {
	return Start(context.Background(), Options{NoSync: true})
})

var databases atomic.Int64

// URL returns the address of a fresh, empty database, on a server that all tests of
// the process share. The server does not wait for the disk.
func URL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(EnvURL); server != "" {
		return given(t, server)
	}
	s := must.Do(shared()).Or(t)
	return must.Do(s.Database(t.Context(), t.Name())).Or(t)
}

// Copies returns a function that returns the address of a fresh database with what fill writes to
// the database at an address, on the server of URL. The databases are copies of one that is filled
// once, except on the server of EnvURL, where each is filled.
func Copies(fill func(ctx context.Context, address string) error) func(t testing.TB) string {
	template := sync.OnceValues(func() (string, error) {
		s, err := shared()
		if err != nil {
			return "", err
		}
		address, err := s.Database(context.Background(), "template")
		if err != nil {
			return "", err
		}
		u, err := url.Parse(address)
		if err != nil {
			return "", err
		}
		return path.Base(u.Path), fill(context.Background(), address)
	})
	return func(t testing.TB) string {
		t.Helper()
		if os.Getenv(EnvURL) != "" {
			address := URL(t)
			must.NoError(t, fill(t.Context(), address))
			return address
		}
		name := must.Do(template()).Or(t)
		s := must.Do(shared()).Or(t)
		return must.Do(s.copy(t.Context(), t.Name(), name)).Or(t)
	}
}

// Own starts a server that is the test's own, until the test ends.
func Own(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	return untilEnd(t, s, err)
}

// OwnStandby starts a standby of the server, as Standby does, until the test ends.
func (s *Server) OwnStandby(t testing.TB) *Server {
	t.Helper()
	standby, err := s.Standby(t.Context())
	return untilEnd(t, standby, err)
}

// untilEnd closes a server that has started when the test ends.
func untilEnd(t testing.TB, s *Server, err error) *Server {
	t.Helper()
	must.NoError(t, err)
	t.Cleanup(func() {
		must.Succeed(t, s.Close())
	})
	return s
}

// given makes a database on the server of EnvURL, and removes it at the end of the test.
func given(t testing.TB, server string) string {
	t.Helper()
	name := fmt.Sprintf("%s_%d_%d", clean(t.Name()), os.Getpid(), databases.Add(1))
	address, err := create(t.Context(), server, name, "template0")
	if err != nil {
		t.Fatalf("%s: %v", EnvURL, err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		must.Succeed(t, must.ErrorOf(conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")))
	})
	return address
}
