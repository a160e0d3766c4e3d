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

// ask runs statements and returns the last one's single text.
func ask(t *testing.T, address, statements string) string {
	t.Helper()
	conn := must.Do(pgx.Connect(t.Context(), address)).Or(t)
	defer conn.Close(context.Background())
	results := must.Do(conn.PgConn().Exec(t.Context(), statements).ReadAll()).Or(t)
	return string(results[len(results)-1].Rows[0][0])
}
