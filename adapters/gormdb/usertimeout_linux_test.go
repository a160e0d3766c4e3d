package gormdb

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"collab/test/must"
	"collab/test/postgres"
)

func TestConnectionsToPostgresBreakWhenNothingIsAcknowledged(t *testing.T) {
	db := opened(t, postgres.URL(t))
	var got int
	must.NoError(t, onPgx(t.Context(), db.pools[0], func(c *pgx.Conn) error {
		raw, err := c.PgConn().Conn().(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		var failed error
		err = raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
		return errors.Join(err, failed)
	}))
	must.Is(t, userTimeout, time.Duration(got)*time.Millisecond)
}
