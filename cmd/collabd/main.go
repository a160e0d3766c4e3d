// Command collabd is the Collab server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"collab/app/assembly"
	"collab/app/assembly/backup"
	"collab/app/assembly/config"
	"collab/app/assembly/doctor"
	"collab/app/assembly/move"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

const usage = `collabd is the Collab server. It is configured by environment variables.

Usage:
  collabd [serve]        run the server
  collabd demo           run the server on an organisation with a month of work, in the
                         directory demo of the data directory, with the development
                         providers alone; the first call makes it
  collabd migrate        bring the database's schema up to date; with --partition also
                         partition the largest tables on Postgres, while servers run
  collabd doctor         check the configuration for real: 0 when nothing is wrong, 1 when
                         something is, 2 when it is not complete or not valid
  collabd doctor --json  the same as JSON
  collabd gc             remove stored content that nothing names any more
  collabd gc --dry-run   list what that would remove
  collabd backup FILE    write an archive of the data directory, over a file that is there;
                         - is standard output
  collabd restore FILE   make the data directory out of an archive; with --replace what
                         is there is moved aside, with --check nothing is changed
  collabd move --to TARGET [--blobs STORE]
                         copy the records of a stopped server and their content to an
                         empty postgres://…, sqlite://path or data directory, and to
                         gs://…, s3://…, azblob://… or file://…; continues when called
                         again; 3 when the copy differs
         --from SOURCE   a database, data directory or archive; the configured one
         --from-blobs    the store of a SOURCE that is a database
         --blobs STORE   without --to: copy content alone
         --abandon       remove what an incomplete move wrote
         --quiet         no progress
  collabd export ORGANISATION FILE
                         write an archive of everything that an organisation has, named by
                         its id or slug; - is standard output
  collabd import FILE    make an organisation of such an archive, without a plan
         --name NAME     its name; as in the archive
         --slug SLUG     its slug; as in the archive
         --identity-organisation ID
                         its id at the identity provider; none
         --users FILE    which users here the members are: a member's userId in the
                         archive and a user's id or identity provider's id on each
                         line, or - for a member who does not become one here
         --max-bytes N   most bytes of its records and contents; 107374182400
  collabd keys secrets   print a new keyset for COLLAB_SECRETS_KEYS
  collabd keys tokens    print a new key for COLLAB_TOKEN_KEYS
  collabd version        print the version, commit and platform
  collabd help           print this

Variables (and what counts when one is not set, in development):
`

// run is the whole program; it returns the exit code: 0, 1 for a failure, 2 for a wrong
// call or configuration and 3 for a move whose copy differs.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 {
		command = args[0]
	}
	switch {
	case len(args) == 2 && (args[1] == "-h" || args[1] == "--help") && printUsage(stdout, command):
		return 0
	case len(args) <= 1 && command == "serve":
		return configured(environ, stderr, func(c config.Config) error {
			return assembly.Serve(ctx, c, stdout, stderr)
		})
	case len(args) == 1 && command == "demo":
		return configured(environ, stderr, func(c config.Config) error {
			// A constant seed, so that every demo is the same.
			return assembly.Demo(ctx, c, rand.New(rand.NewPCG(2026, 30)).IntN, stdout, stderr)
		})
	case command == "migrate" && (len(args) == 1 || len(args) == 2 && args[1] == "--partition"):
		return configured(environ, stderr, func(c config.Config) error {
			return assembly.Migrate(ctx, c, len(args) == 2, stderr)
		})
	case command == "doctor" && (len(args) == 1 || len(args) == 2 && args[1] == "--json"):
		return doctor.Run(ctx, environ, assembly.Version(), len(args) == 2, stdout)
	case command == "gc" && (len(args) == 1 || len(args) == 2 && args[1] == "--dry-run"):
		return configured(environ, stderr, func(c config.Config) error {
			return assembly.Collect(ctx, c, len(args) == 2, stdout, stderr)
		})
	case len(args) == 2 && command == "backup" && isFile(args[1]):
		return configured(environ, stderr, func(c config.Config) error {
			return backup.Write(ctx, c, assembly.Version(), args[1], stdout, stderr)
		})
	case len(args) == 3 && command == "restore" && args[1] == "--check" && isFile(args[2]):
		if err := backup.Check(ctx, args[2], stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	case command == "restore" && (len(args) == 2 || len(args) == 3 && args[1] == "--replace") && isFile(args[len(args)-1]):
		return configured(environ, stderr, func(c config.Config) error {
			return backup.RestoreDirectory(ctx, c, args[len(args)-1], len(args) == 3, stdout)
		})
	case command == "move":
		o, err := move.Parse(args[1:])
		if err != nil {
			return wrongUsage(stderr, command, "collabd move: "+err.Error())
		}
		return configured(environ, stderr, func(c config.Config) error {
			return move.Run(ctx, c, o, stdout, stderr)
		})
	case len(args) == 3 && command == "export" && isFile(args[1]) && isFile(args[2]):
		return configured(environ, stderr, func(c config.Config) error {
			return assembly.Export(ctx, c, args[1], args[2], stdout, stderr)
		})
	case command == "import":
		file, users, in, err := assembly.ParseImport(args[1:])
		if err != nil {
			return wrongUsage(stderr, command, "collabd import: "+err.Error())
		}
		return configured(environ, stderr, func(c config.Config) error {
			return assembly.ImportFile(ctx, c, file, users, in, stdout, stderr)
		})
	case len(args) == 2 && command == "keys":
		if err := assembly.PrintKeys(stdout, args[1]); err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		return 0
	case len(args) == 1 && command == "version":
		fmt.Fprintln(stdout, "collabd", assembly.Build())
		return 0
	case len(args) == 1 && (command == "help" || command == "-h" || command == "--help"):
		fmt.Fprint(stdout, usage)
		config.Help(stdout)
		return 0
	}
	if printUsage(io.Discard, command) {
		return wrongUsage(stderr, command, "collabd "+command+": wrong arguments")
	}
	return wrongUsage(stderr, command, fmt.Sprintf("There is no command %q.", "collabd "+strings.Join(args, " ")))
}

// isFile reports whether an argument is not an option: it does not begin with -, or is - alone.
func isFile(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") }

// wrongUsage prints a problem and how the command is called, and returns the exit code.
func wrongUsage(stderr io.Writer, command, problem string) int {
	fmt.Fprintln(stderr, problem)
	printUsage(stderr, command)
	fmt.Fprintln(stderr, "Commands and variables are printed by collabd help.")
	return 2
}

// printUsage prints how the command is called, and reports whether there is one.
func printUsage(out io.Writer, command string) (found bool) {
	about := false // a line, and those that go on with it
	for line := range strings.Lines(usage) {
		if !strings.HasPrefix(line, "    ") {
			about = strings.HasPrefix(line, "  collabd "+command+" ")
		}
		if about {
			found = true
			fmt.Fprint(out, line)
		}
	}
	return found
}

// configured calls fn with the configuration that the environment has. It prints errors and returns the
// exit code.
func configured(environ []string, stderr io.Writer, fn func(config.Config) error) int {
	c, err := config.Read(environ)
	invalid := err != nil
	if !invalid {
		err = fn(c)
		_, invalid = errors.AsType[config.InvalidError](err)
	}
	if invalid {
		fmt.Fprintln(stderr, "The configuration is not valid:")
		fmt.Fprintln(stderr, err)
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		if errors.Is(err, move.ErrDiffers) {
			return 3
		}
		return 1
	}
	return 0
}
