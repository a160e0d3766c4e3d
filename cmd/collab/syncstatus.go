package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"collab/adapters/atomicfile"
	"collab/adapters/mirrorstate"
	"collab/domain/mirror"
)

// statusName is the file in mirror.StateDirectory with what the last round has come to.
const statusName = "status.json"

// followInterval is how often sync log --follow looks for new lines.
const followInterval = time.Second

func (a *app) syncStatus() *cobra.Command {
	return command("status DIR", "Print what the last round of a directory has come to", 1, 1, func(_ *cobra.Command, args []string) error {
		directory, err := mirrorstate.OpenDirectory(args[0])
		if err != nil {
			return err
		}
		defer directory.Close()
		last, err := lastRound(directory)
		if err != nil {
			return fmt.Errorf("%s was not synchronised: %w", args[0], err)
		}
		p, err := a.pauseOf(directory)
		if err != nil {
			return err
		}
		paused := ""
		switch last.Paused, last.PausedUntil = p != nil, nil; {
		case p == nil:
		case p.Until != nil:
			last.PausedUntil, paused = p.Until, "until "+p.Until.Local().Format(time.DateTime)
		default:
			paused = "until " + a.resumption(directory, args[0])
		}
		var delayed []string
		for _, d := range last.Delayed {
			delayed = append(delayed, d.Path+" until "+d.Due.Local().Format(time.TimeOnly))
		}
		return a.printRecord(last, []column{
			{"at", last.Time.Local().Format(time.DateTime)}, {"files", fmt.Sprint(last.Files)}, {"held", problems(last.Held)}, {"failed", problems(last.Failed)},
			{"delayed", strings.Join(delayed, "; ")}, {"stopped", last.Stopped}, {"problem", last.Problem}, {"late", last.Late}, {"paused", paused},
		})
	})
}

// lastRound returns the status of a directory with that state directory.
func lastRound(state *os.Root) (last syncRound, err error) {
	text, err := state.ReadFile(statusName)
	if err == nil {
		err = json.Unmarshal(text, &last)
	}
	return last, err
}

// syncConflict is a conflict copy.
type syncConflict struct {
	Path string `json:"path"`
}

func (a *app) syncConflicts() *cobra.Command {
	return command("conflicts DIR", "List the conflict copies in a directory", 1, 1, func(_ *cobra.Command, args []string) error {
		var all []syncConflict
		// A directory that is a symbolic link is followed.
		err := fs.WalkDir(os.DirFS(args[0]), ".", func(name string, e fs.DirEntry, err error) error {
			path := filepath.Join(args[0], filepath.FromSlash(name))
			switch {
			case err != nil && name == ".":
				return fmt.Errorf("%s cannot be read: %w", path, err)
			case err != nil:
				a.printWarning("%s is left out: %v", path, err)
			case e.IsDir() && e.Name() == mirror.StateDirectory:
				return fs.SkipDir
			case mirror.IsConflict(name):
				all = append(all, syncConflict{path})
			}
			return nil
		})
		if err != nil {
			return err
		}
		return printRows(a, sequence(all), func(c syncConflict) []column { return []column{{"path", c.Path}} })
	})
}

func (a *app) syncLog() *cobra.Command {
	var follow bool
	var limit int
	c := command("log DIR", "List what was changed in a directory and on the server", 1, 1, func(c *cobra.Command, args []string) error {
		if limit < 0 {
			return usage("--limit %d: must be at least 0", limit)
		}
		directory, err := mirrorstate.OpenDirectory(args[0])
		if err != nil {
			return err
		}
		defer directory.Close()
		var last []syncChange
		var failed error // to print what was there before
		following := false
		err = mirrorstate.ReadLog(directory, func(line []byte) error {
			var change syncChange
			switch {
			case json.Unmarshal(line, &change) != nil: // the machine stopped while it was written
				return nil
			case following:
				return a.logged(change)
			}
			if last = append(last, change); limit > 0 && len(last) > limit {
				last = last[1:]
			}
			return nil
		}, func() bool {
			if !follow {
				return false
			}
			if !following {
				for _, change := range last {
					if failed = a.logged(change); failed != nil {
						return false
					}
				}
				last, following = nil, true
			}
			select {
			case <-time.After(followInterval):
			case <-c.Context().Done():
			}
			return c.Context().Err() == nil
		})
		if err = cmp.Or(err, failed); err != nil || follow {
			return err
		}
		return printRows(a, sequence(last), logColumns)
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is changed from now on, until it is interrupted")
	c.Flags().IntVar(&limit, "limit", 100, "the last so many changes; 0 for all")
	c.Long = `log lists what sync has changed, when and in which direction: "up" on the server, "down" in the
directory; and what kept it from doing so. It has the last changes, 1 to 2 MB of them.`
	return c
}

func logColumns(c syncChange) []column {
	path := c.Path
	if c.From != "" {
		path = c.From + " -> " + c.Path
	}
	return []column{{"at", c.Time.Local().Format(time.DateTime)}, {"direction", c.Direction}, {"action", cmp.Or(c.Action, c.Event)}, {"path", path}, {"problem", c.Problem}}
}

// logged prints one line of a log that is followed.
func (a *app) logged(c syncChange) error {
	if a.wantsJSON() {
		return a.printJSON(c)
	}
	return a.printTabbed(logColumns(c))
}

// pauseName is the file that pauses: in mirror.StateDirectory the directory, beside the accounts all.
const pauseName = "paused.json"

// pause says that directories are not synchronised.
type pause struct {
	Until *time.Time `json:"until"` // nil: until it is removed
}

// pauseIn returns the pause of a directory of files, nil if there is none or it is over.
func (a *app) pauseIn(directory *os.Root) (*pause, error) {
	err := mirrorstate.CheckFile(directory, pauseName)
	if err != nil {
		return nil, err
	}
	text, err := directory.ReadFile(pauseName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p pause
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err == nil && p.Until != nil && !a.now().Before(*p.Until) {
		return nil, nil
	}
	return &p, err
}

// pauseOf returns the pause of a directory with that state directory, or that of all.
func (a *app) pauseOf(state *os.Root) (*pause, error) {
	p, err := a.pauseIn(state)
	if err != nil || p != nil {
		return p, err
	}
	at, err := a.configDirectory()
	if err != nil {
		return nil, nil // nobody has paused all
	}
	settings, err := os.OpenRoot(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer settings.Close()
	return a.pauseIn(settings)
}

// resumption returns the command that ends the pause of a directory with that state directory.
func (a *app) resumption(state *os.Root, dir string) string {
	if p, err := a.pauseIn(state); p != nil || err != nil {
		return "collab sync resume " + dir
	}
	return "collab sync resume"
}

// pausedError returns the error that a directory with that state directory is paused.
func (a *app) pausedError(state *os.Root, dir string) error {
	return fmt.Errorf("%s is paused. Continue with: %s", dir, a.resumption(state, dir))
}

// pauseEach makes, or with nil ends, the pauses of directories, or without any that of all.
func (a *app) pauseEach(dirs []string, p *pause) error {
	set := func(directory *os.Root, err error) error {
		if err != nil {
			return err
		}
		defer directory.Close()
		if p != nil {
			text, err := json.Marshal(p)
			if err != nil {
				return err
			}
			return atomicfile.ReplaceIn(directory, pauseName, atomicfile.Content(text))
		}
		if err := directory.Remove(pauseName); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if len(dirs) == 0 {
		at, err := a.makeConfigDirectory()
		if err != nil {
			return err
		}
		return set(os.OpenRoot(at))
	}
	for _, dir := range dirs {
		if err := set(mirrorstate.OpenDirectory(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) syncPause() *cobra.Command {
	var lasting time.Duration
	c := command("pause [DIR...]", "Stop synchronising directories, or all of them", 0, -1, func(c *cobra.Command, args []string) error {
		var p pause
		if c.Flags().Changed("for") && lasting <= 0 {
			return usage("--for %v: must be more than 0", lasting)
		}
		if lasting > 0 {
			p.Until = new(a.now().Add(lasting).UTC())
		}
		return a.pauseEach(args, &p)
	})
	c.Flags().DurationVar(&lasting, "for", 0, "go on by itself after this `time`, such as 2h")
	c.Long = `pause stops the synchronisation of directories, or without any of all directories of this user, also
in processes that run, within two seconds, and until collab sync resume. A transfer that has begun is
interrupted, and goes on later where it can. Files are not touched meanwhile.`
	return c
}

func (a *app) syncResume() *cobra.Command {
	return command("resume [DIR...]", "Go on synchronising directories, or all but those paused by name", 0, -1, func(_ *cobra.Command, args []string) error {
		return a.pauseEach(args, nil)
	})
}
