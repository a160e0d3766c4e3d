package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a standby of a running server and returns when the server's commits wait for it.
// The server's own setting synchronous_commit decides whether a commit waits. The standby has the
// same options.
func (s *Server) Standby(ctx context.Context) (_ *Server, err error) {
	standby, err := prepare(ctx, s.options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, standby.Close())
		}
	}()
	backup := standby.command(ctx, filepath.Join(s.bin, "pg_basebackup"), "--pgdata", standby.data(), "--dbname", s.URL("postgres"),
		"--checkpoint", "fast", "--wal-method", "stream", "--write-recovery-conf", "--no-sync")
	if out, err := backup.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	// The copy must not wait for a standby of its own once it is promoted.
	if err := appendLine(filepath.Join(standby.data(), "postgresql.auto.conf"), "synchronous_standby_names = ''"); err != nil {
		return nil, err
	}
	if err := standby.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"); err != nil {
		return nil, err
	}
	return standby, s.await(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// Promote makes a standby the primary. The caller has closed the former one.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.exec(ctx, "SELECT pg_promote()"); err != nil {
		return err
	}
	return s.await(ctx, "SELECT NOT pg_is_in_recovery()")
}

// exec executes statements, each by itself.
func (s *Server) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// await waits until a query returns true.
func (s *Server) await(ctx context.Context, query string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var is bool
		if err := conn.QueryRow(ctx, query).Scan(&is); err != nil || is {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not true after %v", query, startTimeout)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}
