package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"collab/test/debian"
	"collab/test/loopback"
	"collab/test/must"
	"collab/test/tempdir"
)

// Pooled starts a PgBouncer in transaction mode before the server of an address, until the test
// ends, and returns the address of the same database through it. Each transaction, also of one
// connection, has the next of its few connections to the server.
func Pooled(t testing.TB, address string) string {
	t.Helper()
	program := must.Do(debian.Program(t.Context(), "pgbouncer", "pgbouncer")).Or(t)
	u := must.Do(url.Parse(address)).Or(t)
	user := must.Do(unprivileged()).Or(t)
	folder := tempdir.New(t)
	if user != nil {
		must.NoError(t, os.Chown(folder, int(user.Uid), int(user.Gid)))
	}
	server := fmt.Sprintf("host=%s port=%s user=%s", u.Hostname(), u.Port(), u.User.Username())
	if password, ok := u.User.Password(); ok {
		server += " password=" + password
	}
	file := filepath.Join(folder, "pgbouncer.ini")
	if err := loopback.Start(func(port int) error {
		settings := fmt.Sprintf("[databases]\n* = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n"+
			"pool_mode = transaction\ndefault_pool_size = 8\nserver_round_robin = 1\nmax_client_conn = 1000\n", server, port)
		must.NoError(t, os.WriteFile(file, []byte(settings), 0o644))
		r := must.Do(supervised(folder, user, program, file)).Or(t)
		t.Cleanup(func() {
			must.Succeed(t, r.end(syscall.SIGTERM))
		})
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return r.ping(t.Context(), u.String(), time.Now().Add(startTimeout))
	}); err != nil {
		log, unread := os.ReadFile(filepath.Join(folder, "log"))
		t.Fatal(errors.Join(err, unread), string(log))
	}
	params := u.Query()
	params.Set("pool_mode", "transaction")
	u.RawQuery = params.Encode()
	return u.String()
}
