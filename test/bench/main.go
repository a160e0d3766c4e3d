// Command bench measures the server against what the machine can do: a bare
// net/http program over the same Postgres, in the same run.
//
//	go run ./test/bench [-quick] [-only requests,feed] [-rounds 3] [-page docs/performance.md]
//
// Every figure is the median of rounds that take turns between the servers, so
// that other work of the machine affects all of them. The load comes from this
// process and shares the processors with the servers, all on loopback. Servers,
// databases and folders are removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
	"collab/test/postgres"
)

// bench is the state that all parts share. It is a must.T: a call that fails ends the part, so that only the goroutine
// of run calls its methods.
type bench struct {
	must.Program

	out      io.Writer
	folder   string // for all files
	binary   string // the server
	client   string // the command-line client; empty until it is built
	rounds   int
	warm     time.Duration // before each measurement
	run      time.Duration // of each measurement
	manyRows int           // rows of the large table of pages
	quick    bool
	rows     string     // of mirror, comma separated; empty: all
	page     string     // the file that is written into; empty: none
	result   partResult // by the part that runs

	server   *postgres.Server // started by the first call of database
	postgres string           // its version

	installed []*peer // nil before the first call of peers

	cleanups []func() error // see cleanup
}

// The parts, in the order in which they run.
var parts = []struct {
	name string
	run  func(*bench, context.Context)
}{
	{"start", (*bench).starts},
	{"path", (*bench).path},
	{"requests", (*bench).requests},
	{"fairness", (*bench).fairness},
	{"distance", (*bench).distance},
	{"pages", (*bench).pages},
	{"feed", (*bench).feed},
	{"files", (*bench).files},
	{"publish", (*bench).publish},
	{"chat", (*bench).chat},
	{"updates", (*bench).updates},
	{"http2", (*bench).http2},
	{"mirror", (*bench).mirror},
	{"console", (*bench).console},
	{"endurance", (*bench).endurance},
}

func main() {
	if len(os.Args) > 2 && (os.Args[1] == bareCommand || os.Args[1] == noisyCommand) {
		var err error
		if os.Args[1] == bareCommand {
			err = serveBare(os.Args[2:])
		} else {
			err = runNoisy(os.Args[2], os.Stdin, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{out: out}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", false, "measure shortly and fill the large table with 100,000 rows only")
	only := flags.String("only", "", "parts to run, comma separated: "+strings.Join(partNames(), ", ")+" (default all but endurance, which lasts ten minutes)")
	flags.IntVar(&b.rounds, "rounds", 3, "rounds of each measurement")
	flags.StringVar(&b.binary, "server", "", "a server that was built already (default: build ./cmd/collabd)")
	flags.StringVar(&b.client, "client", "", "a client that was built already (default: build ./cmd/collab)")
	flags.StringVar(&b.rows, "rows", "", "what the part mirror measures, comma separated: first, saved, idle, renamed, resumed, apart (default all; the page is written only then)")
	flags.StringVar(&b.page, "page", "", "a page to write the figures into, docs/performance.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.rounds < 1 {
		return errors.New("-rounds must be at least 1")
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	b.warm, b.run, b.manyRows = 500*time.Millisecond, 3*time.Second, 1_000_000
	if b.quick {
		b.warm, b.run, b.manyRows = 200*time.Millisecond, time.Second, 100_000
	}
	// Garbage collections of the load tool would take processor time from the servers.
	debug.SetGCPercent(800)

	if b.folder, err = os.MkdirTemp("", "collab-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	defer func() {
		if b.server != nil {
			err = errors.Join(err, b.server.Close())
		}
	}()
	if b.binary == "" {
		b.binary = filepath.Join(b.folder, "collabd")
		if err := b.build(ctx, b.binary, "./cmd/collabd"); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%s, %s/%s, %d processors; %d rounds of %v after %v of warm-up; request logs at level info to a file\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.rounds, b.run, b.warm)
	for _, p := range parts {
		if !slices.Contains(chosen, p.name) {
			continue
		}
		b.result = partResult{}
		if err := must.Catch(func() { b.named(p.name, func() { p.run(b, ctx) }) }); err != nil {
			return err
		}
		if b.page != "" && (p.name != "mirror" || b.rows == "") && len(b.result.verdicts) > 0 {
			if err := b.updatePage(p.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func choose(only string) (chosen []string, err error) {
	all := partNames()
	if only == "" {
		return slices.DeleteFunc(all, func(name string) bool { return name == "endurance" }), nil
	}
	chosen = strings.Split(only, ",")
	for _, name := range chosen {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no part %q: the parts are %s", name, strings.Join(all, ", "))
		}
	}
	return chosen, nil
}

// build builds the program of a package.
func (b *bench) build(ctx context.Context, program, from string) error {
	return command(ctx, "", []string{"CGO_ENABLED=0"}, "go", "build", "-o", program, from)
}

// cleanup has fn called at the end of the innermost call of scoped, whether or not that fails.
func (b *bench) cleanup(fn func() error) { b.cleanups = append(b.cleanups, fn) }

// scoped calls fn, and then the functions that were passed to cleanup meanwhile, the last one first.
func (b *bench) scoped(fn func()) {
	before := len(b.cleanups)
	err := must.Catch(fn)
	for _, end := range slices.Backward(b.cleanups[before:]) {
		err = errors.Join(err, end())
	}
	b.cleanups = b.cleanups[:before]
	must.NoError(b, err)
}

// named calls fn in a scope, and puts the name before the error that it ends with.
func (b *bench) named(name string, fn func()) {
	if err := must.Catch(func() { b.scoped(fn) }); err != nil {
		b.Errorf("%s: %w", name, err)
	}
}

// database creates a database on the Postgres server, which has fsync on, and opens a connection to it until the
// end of the scope.
func (b *bench) database(ctx context.Context, name string) (address string, conn *pgx.Conn) {
	if b.server == nil {
		b.server = must.Do(postgres.Start(ctx, postgres.Options{})).Or(b)
	}
	address = must.Do(b.server.Database(ctx, name)).Or(b)
	conn = must.Do(pgx.Connect(ctx, address)).Or(b)
	b.cleanup(func() error { return conn.Close(context.Background()) })
	b.postgres, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return address, conn
}
