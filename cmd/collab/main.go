// Command collab is the client of Collab servers: a command line for what the interface
// offers. docs/cli.md has its commands.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"collab/adapters/apiclient"
	"collab/domain/fault"
)

// Exit codes.
const (
	exitFailure   = 1
	exitUsage     = 2
	exitGuard     = 3
	exitSignIn    = 4
	exitConflict  = 5
	exitCancelled = 130
)

// version is the release, which make has the linker set.
var version = "devel"

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTerminal: term.IsTerminal(int(os.Stdin.Fd())), outTerminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		env: os.Getenv, now: time.Now, secrets: systemKeyring{},
	}
	a.dumbTerminal = a.outTerminal && !takesSequences(os.Stdout) || a.errTerminal && !takesSequences(os.Stderr)
	go func() {
		wait := func() {
			for s := range signals {
				if s != os.Interrupt || !a.inEditor.Load() {
					return
				}
			}
		}
		wait() // breaks transfers off; what is resumable is resumed by the next run
		cancel(context.Canceled)
		wait() // ends without waiting for what the first one has broken off
		os.Exit(exitCancelled)
	}()
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			a.width = width
		}
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// app has the streams, environment and flags of the process, which commands use.
type app struct {
	in                                   io.Reader
	inReader                             *bufio.Reader // buffers in; nil until prompt is called
	out, err                             io.Writer
	inTerminal, outTerminal, errTerminal bool
	dumbTerminal                         bool // a terminal shows escape sequences instead of interpreting them
	width                                int  // of the terminal in columns, or 0
	env                                  func(string) string
	now                                  func() time.Time
	secrets                              secretStore
	keyringReads                         map[string]<-chan result[string] // calls that the keyring has not answered, by the account's key
	inEditor                             atomic.Bool                      // an editor runs, which interrupts are for
	accountServer                        string                           // the server whose stored account is used, or empty

	flags struct{ server, org, json, jq string }
}

// run runs a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.in)
	help := &errWriter{Writer: a.out} // cobra passes over its errors
	root.SetOut(help)
	root.SetErr(a.err)
	defer a.reportUpdate(a.checkForUpdate(ctx))
	err := cmp.Or(root.ExecuteContext(ctx), help.err)
	if err == nil {
		return 0
	}
	code := exitCode(err)
	if code == exitCancelled {
		return code
	}
	lines := strings.Split(commandsOfRequests.Replace(a.withRemedy(err).Error()), "\n")
	for i := range lines {
		lines[i] = printableLine(lines[i])
	}
	fmt.Fprintf(a.err, "%s %s\n", a.paint(a.errTerminal, red, "collab:"), strings.Join(lines, "\n"))
	return code
}

// commandsOfRequests replaces requests in messages of the server by the commands that make them. The words around
// a request keep it from replacing names of files.
var commandsOfRequests = strings.NewReplacer("models that GET /models lists", "models that collab models lists", "one of GET /connector-providers", "one of those that collab connectors providers lists",
	"is authorised through /mcp-oauth/start", "is authorised through collab connectors authorize")

// withRemedy returns an error of a request with what a person needs to know beside it.
func (a *app) withRemedy(err error) error {
	switch {
	case apiclient.Status(err) == http.StatusUnauthorized && !apiclient.Unanswered(err) && a.accountServer != "":
		return signInAgain(err, a.accountServer)
	case apiclient.Status(err) == 0 && apiclient.Unanswered(err) && fault.KindOf(err) == fault.Internal:
		return fmt.Errorf("the server cannot be reached: %w", err)
	}
	return err
}

// signInAgain returns the error of a server that takes the stored account no longer.
func signInAgain(err error, server string) error {
	return fmt.Errorf("%w. Sign in again: collab login --server %s", err, server)
}

// exitError is an error with the exit code of the process.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

func usage(format string, args ...any) error {
	return exitError{exitUsage, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exitCancelled
	case apiclient.Status(err) == 401 && !apiclient.Unanswered(err):
		return exitSignIn
	case apiclient.Status(err) == 409:
		return exitConflict
	}
	return exitFailure
}

func (a *app) rootCommand() *cobra.Command {
	root := group("collab", "Work with a Collab server from the command line")
	for _, part := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Work", []*cobra.Command{a.syncCommand(), a.filesCommand(), a.tasksCommand(), a.chatCommand(), a.modelsCommand(), a.memoryCommand()}},
		{"Organisation", []*cobra.Command{a.membersCommand(), a.invitationsCommand(), a.teamsCommand(), a.workspacesCommand(), a.connectorsCommand(), a.usageCommand(), a.billingCommand()}},
		{"Account", []*cobra.Command{a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.orgsCommand()}},
		{"Operation", []*cobra.Command{a.apiCommand(), a.releasesCommand(), a.adminCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title + ":"})
		for _, c := range part.commands {
			c.GroupID = part.title
		}
		root.AddCommand(part.commands...)
	}
	root.AddCommand(a.versionCommand(), a.manualCommand(), helpTopic("environment", "Variables that commands read", environment), helpTopic("exit-codes", "What a command's exit code says", exitCodes))
	root.Version = version
	root.Long = "collab works with a Collab server from the command line. Sign in with collab login."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(*cobra.Command, []string) error { // before anything is changed
		if a.flags.jq == "" {
			return nil
		}
		_, err := a.compileJQ()
		return err
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		text, _, _ := strings.Cut(err.Error(), ": strconv.")
		return usage("%s: see %s --help", text, c.CommandPath())
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return usage("there is no command %q: see collab --help", strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			c.Args, c.RunE, c.SuggestionsMinimumDistance = groupArgs, printHelp, 2
			for _, shell := range c.Commands() {
				shell.Args = argsBetween(0, 0)
			}
		}
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.flags.server, "server", "", "address of the server; COLLAB_SERVER, or the one signed in to last")
	flags.StringVar(&a.flags.org, "org", "", "id or name of the organisation, beside COLLAB_TOKEN only its id; COLLAB_ORG, or the one signed in to last")
	flags.StringVar(&a.flags.json, "json", "", "print JSON with these `fields`, separated by commas; all for all of them")
	flags.StringVar(&a.flags.jq, "jq", "", "print what this jq `expression` makes of the JSON")
	return root
}

// helpTopic returns a page of help.
func helpTopic(name, short, text string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Long: strings.TrimSpace(text)}
}

const environment = `
COLLAB_SERVER      address of the server, in place of the one signed in to last
COLLAB_TOKEN       service token of one organisation, before any that is stored
COLLAB_ORG         id or name of the organisation, in place of the one signed in to last;
                   beside COLLAB_TOKEN only its id
COLLAB_CONFIG_DIR  directory of the accounts; collab in the user's directory of settings
COLLAB_DEVICE      name of this device in those of conflict copies, in place of the machine's
COLLAB_ADMIN_SECRET  the operator's secret, for collab admin
COLLAB_NO_UPDATE_CHECK  no look for a newer release once a day, if it is not empty
EDITOR, VISUAL     editor of collab memory edit
BROWSER            program that opens pages
NO_COLOR           no colours, if it is not empty
CI                 no questions, no sign-in and no look for releases, if it is not empty
`

const exitCodes = `
0    done
1    failed
2    wrong usage
3    stopped before deletions that were not accepted
4    not signed in, or without access
5    in conflict with what is stored, or with files held back
130  interrupted; sync and sync log --follow end with 0 then
`

// group returns a command that only has others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: groupArgs, RunE: printHelp, SuggestionsMinimumDistance: 2}
	c.AddCommand(commands...)
	return c
}

func groupArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		return usage("%s has no command %q, but %s", c.CommandPath(), args[0], strings.Join(like, ", "))
	}
	return usage("%s has no command %q: see %s --help", c.CommandPath(), args[0], c.CommandPath())
}

func printHelp(c *cobra.Command, _ []string) error { return c.Help() }

// command returns a command with between minArgs and maxArgs arguments, or any number from minArgs
// if maxArgs is negative. An argument in use is in capital letters.
func command(use, short string, minArgs, maxArgs int, run func(c *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: argsBetween(minArgs, maxArgs), RunE: run}
}

func argsBetween(minArgs, maxArgs int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < minArgs || maxArgs >= 0 && len(args) > maxArgs {
			return usage("usage: %s", c.UseLine())
		}
		return nil
	}
}

func (a *app) versionCommand() *cobra.Command {
	return command("version", "Print the version, commit and platform", 0, 0, func(*cobra.Command, []string) error {
		line := version
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					line += " " + s.Value
				}
			}
		}
		_, err := fmt.Fprintln(a.out, "collab", line, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
		return err
	})
}
