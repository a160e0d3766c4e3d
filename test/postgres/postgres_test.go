package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// asChild makes the test binary start a server, say where it is, and wait to
// be killed.
const asChild = "COLLAB_TEST_POSTGRES_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "" {
		os.Exit(m.Run())
	}
	s, err := Start(context.Background(), Options{NoSync: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.folder, s.URL("postgres"))
	select {}
}

func TestServer(t *testing.T) {
	ctx := t.Context()
	s := must.Do(Start(ctx, Options{Settings: map[string]string{"application_name": "suite"}})).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, s.Close())
	})
	address := must.Do(s.Database(ctx, t.Name())).Or(t)

	t.Run("commits wait for the disk unless told otherwise", func(t *testing.T) {
		must.Is(t, "on", ask(t, address, "SHOW fsync"))
		must.Is(t, "suite", ask(t, address, "SHOW application_name"))
	})

	t.Run("each database is fresh", func(t *testing.T) {
		ask(t, address, "CREATE TABLE x AS SELECT 1 AS n; SELECT 'done'")
		other := must.Do(s.Database(ctx, t.Name())).Or(t)
		if got := ask(t, other, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'x'"); got != "0" {
			t.Errorf("the new database has the other's table")
		}
	})

	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("what was committed survives a restart, killed %v", kill), func(t *testing.T) {
			ask(t, address, "UPDATE x SET n = n + 1; SELECT 'done'")
			before := ask(t, address, "SELECT n::text FROM x")
			must.NoError(t, s.Restart(ctx, kill))
			must.Is(t, before, ask(t, address, "SELECT n::text FROM x"))
		})
	}

	t.Run("closing removes everything and can be repeated", func(t *testing.T) {
		for range 2 {
			must.NoError(t, s.Close())
		}
		must.FailIs(t, must.ErrorOf(os.Stat(s.folder)), fs.ErrNotExist) // the folder is gone
		if _, err := pgx.Connect(ctx, address); err == nil {
			t.Error("the server still answers")
		}
		if err := s.Restart(ctx, false); err == nil {
			t.Error("a closed server starts again")
		}
	})
}

func TestTheServerEndsWithAKilledProcess(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asChild+"=1")
	out := must.Do(c.StdoutPipe()).Or(t)
	must.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	folder, address, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		t.Fatalf("the child said %q: %v", line, err)
	}
	ask(t, address, "SELECT 'alive'")
	must.NoError(t, c.Process.Kill())
	_ = c.Wait()
	must.Wait(t, "the folder of the killed process's server is removed", func() bool {
		return errors.Is(must.ErrorOf(os.Stat(folder)), fs.ErrNotExist)
	})
	if conn, err := pgx.Connect(t.Context(), address); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the killed process's server still answers")
	}
}

func TestURL(t *testing.T) {
	a, b := URL(t), URL(t)
	if a == b {
		t.Fatalf("both addresses are %s", a)
	}
	for _, address := range []string{a, b} {
		if got := ask(t, address, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"); got != "0" {
			t.Errorf("%s has %s tables", address, got)
		}
	}
}

// ask runs statements and returns the last one's single text.
func ask(t *testing.T, address, statements string) string {
	t.Helper()
	conn := must.Do(pgx.Connect(t.Context(), address)).Or(t)
	defer conn.Close(context.Background())
	results := must.Do(conn.PgConn().Exec(t.Context(), statements).ReadAll()).Or(t)
	return string(results[len(results)-1].Rows[0][0])
}

func TestAPromotedStandbyHasEveryCommit(t *testing.T) {
	ctx := t.Context()
	primary := must.Do(Start(ctx, Options{NoSync: true, Settings: map[string]string{"synchronous_commit": "on"}})).Or(t)
	defer primary.Close()
	for n := range 2 { // the second time the primary is a promoted standby itself
		standby := must.Do(primary.Standby(ctx)).Or(t)
		defer standby.Close()
		must.NoError(t, primary.exec(ctx, fmt.Sprint("CREATE TABLE t", n, " (n int)")))
		must.NoError(t, errors.Join(primary.Close(), standby.Promote(ctx), standby.exec(ctx, fmt.Sprint("INSERT INTO t", n, " VALUES (1)"))))
		primary = standby
	}
}
