package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"collab/adapters/apiclient"
	"collab/adapters/atomicfile"
	"collab/adapters/localdisk"
	"collab/adapters/mirrorstate"
	"collab/adapters/remote"
	"collab/adapters/system"
	rounds "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
)

const (
	// syncWorkers is how many files are transferred at a time.
	syncWorkers = 8
	// residentFiles is how many files of a directory stay in memory while nothing happens.
	residentFiles = 10_000
	// statusName is the file in mirror.StateDirectory with what the last round has come to.
	statusName = "status.json"
	// maxListed is how many files of a kind a status lists: held, failed, delayed.
	maxListed = 1000
	// followInterval is how often sync log --follow looks for new lines.
	followInterval = time.Second
	// gatheredLines is how many bytes of lines about changes are written together at least, unless the first
	// of them has waited for gatheredFor.
	gatheredLines = 32 << 10
	gatheredFor   = 100 * time.Millisecond
	// maxStart is the longest wait before a server that cannot be reached is asked again at the
	// start.
	maxStart = time.Minute
	// acceptedWithin is how soon a process takes what another one accepts for it.
	acceptedWithin = 10 * time.Second
)

func (a *app) syncCommand() *cobra.Command {
	var at place
	var once, dry, accept bool
	c := command("sync DIR...", "Keep directories in step with the server", 1, -1, func(c *cobra.Command, args []string) error {
		var all []*synced
		opened := map[string]mirror.Binding{}
		defer func() {
			for _, s := range all {
				s.close()
			}
		}()
		if a.wantsJSON() {
			return usage("sync takes no --json and --jq: it prints lines of JSON, for jq, where its output is no terminal")
		}
		if err := checkDistinct(args); err != nil {
			return err
		}
		for _, dir := range args {
			if !accept {
				if err := a.checkMounted(dir); err != nil {
					return err
				}
			}
			f, err := a.waitForFolder(c.Context(), dir, at, once || dry)
			if err != nil {
				return syncError(err)
			}
			s, err := a.openSynced(c.Context(), dir, f, at == place{}, opened)
			if accept && !dry && !once && s.disk == nil && fault.Is(err, fault.Conflict) {
				if err = a.acceptElsewhere(c.Context(), dir, err); err == nil {
					continue
				}
			}
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		results := make(chan error, len(all))
		for _, s := range all {
			if accept {
				s.mirror.AcceptDeletions()
			}
			go func() {
				if once || dry {
					results <- s.once(c.Context(), dry)
				} else {
					results <- s.ended(s.mirror.Run(c.Context(), s.finished), len(all) > 1)
				}
			}()
		}
		var errs []error
		for range all {
			errs = append(errs, <-results)
		}
		return syncError(errors.Join(errs...))
	})
	at.addFlags(c)
	c.Flags().BoolVar(&once, "once", false, "end when both sides are equal")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be done")
	c.Flags().BoolVar(&accept, "accept-deletions", false, "make the deletions before which it has stopped")
	c.Long = `sync keeps each directory in step with a place of the server: the files that the organisation
shares, or those that a flag names. The directory remembers the place, also while another organisation
is in use. On a terminal it prints what
changes, elsewhere a line of JSON for each change. docs/client.md says what happens when.`
	c.AddCommand(a.syncStatus(), a.syncConflicts(), a.syncLog(), a.syncPause(), a.syncResume())
	return c
}

// acceptedName is the file in mirror.StateDirectory that accepts deletions for the process that synchronises the directory.
const acceptedName = "accepted"

// acceptElsewhere accepts deletions for the process that has locked the directory. It returns the error of the lock if that
// does not take the file, as one that makes a single round, or an earlier version.
func (a *app) acceptElsewhere(ctx context.Context, dir string, locked error) error {
	state, err := mirrorstate.OpenDirectory(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	if p, err := a.pauseOf(state); p != nil || err != nil {
		return cmp.Or(err, a.pausedError(state, dir))
	}
	if err := atomicfile.ReplaceIn(state, acceptedName, atomicfile.Content(nil)); err != nil {
		return err
	}
	for range acceptedWithin / time.Second {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), state.Remove(acceptedName))
		}
		if _, err := state.Lstat(acceptedName); errors.Is(err, fs.ErrNotExist) {
			a.printErrf("%s is synchronised by another process, which makes the deletions", dir)
			return nil
		}
	}
	return errors.Join(locked, state.Remove(acceptedName))
}

// checkDistinct returns an error if two names are those of one directory.
func checkDistinct(dirs []string) error {
	infos := make([]fs.FileInfo, len(dirs))
	for i, dir := range dirs {
		infos[i], _ = os.Stat(dir) // what is not there is an error of openSynced
		if n := slices.IndexFunc(infos[:i], func(other fs.FileInfo) bool { return os.SameFile(other, infos[i]) }); n >= 0 {
			return usage("%s and %s are the same directory: name it once", dirs[n], dir)
		}
	}
	return nil
}

// waitForFolder is folderFor, repeated unless once is set while the network, the server or the keyring is not there,
// as at the start of a machine.
func (a *app) waitForFolder(ctx context.Context, dir string, at place, once bool) (*folder, error) {
	for wait := time.Second; ; wait = min(2*wait, maxStart) {
		f, err := a.folderFor(ctx, dir, at)
		if once || !isTemporary(err) {
			return f, err
		}
		if wait == time.Second {
			a.printErrf("%s waits for the server, which is tried again: %v", dir, err)
		}
		if errors.Is(err, errKeyring) && !errors.Is(err, errKeyringTimeout) {
			wait = maxStart // each attempt may ask a person to unlock the keyring
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// folderFor asks the server for the place of a directory, with the account that the directory is synchronised
// with unless another one is named.
func (a *app) folderFor(ctx context.Context, dir string, at place) (*folder, error) {
	server, org := a.serverAddress(), cmp.Or(a.flags.org, a.env("COLLAB_ORG"))
	var bound mirror.Binding
	if org == "" && a.env("COLLAB_TOKEN") == "" {
		bound, _ = storedBinding(dir) // what cannot be read is an error of openSynced
		if server == "" || server == bound.Server {
			server, org = cmp.Or(bound.Server, server), string(bound.Org)
		}
	}
	account, err := a.accountAt(server, org)
	if exitCode(err) == exitSignIn && org == string(bound.Org) && org != "" {
		return nil, exitError{exitSignIn, fmt.Errorf("%s is synchronised with the organisation %s at %s, to which nobody is signed in: collab login --server %s. If the server has another address now, move %s, which has the trash, out of it",
			dir, bound.Org, bound.Server, bound.Server, filepath.Join(dir, mirror.StateDirectory))}
	}
	if err != nil {
		return nil, err
	}
	client, err := a.clientFor(account)
	if err != nil {
		return nil, err
	}
	return folderOf(ctx, client, at)
}

// isTemporary reports whether what failed at the start may succeed later.
func isTemporary(err error) bool {
	status := apiclient.Status(err)
	return status == http.StatusTooManyRequests || status >= 500 || apiclient.Unanswered(err) || errors.Is(err, errKeyring)
}

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

// knownName is the directory, beside the accounts, with a file for each directory that was synchronised.
const knownName = "directories"

// knownFile returns the name of the file that says that a directory was synchronised, and the directory's path, which it has.
func (a *app) knownFile(dir string) (file, path string, err error) {
	at, err := a.configDirectory()
	if err == nil {
		path, err = realPath(dir)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(at, knownName, hex.EncodeToString(sum[:])), path, err
}

// realPath returns the absolute path of a directory, without symbolic links if it exists.
func realPath(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	return path, err
}

// storedBinding returns what a directory is synchronised with.
func storedBinding(dir string) (mirror.Binding, error) {
	state, err := mirrorstate.OpenDirectory(dir)
	if err != nil {
		return mirror.Binding{}, err
	}
	defer state.Close()
	return mirrorstate.StoredBinding(state)
}

// isBelow reports whether a path is in the directory of another one.
func isBelow(path, directory string) bool {
	inside, err := filepath.Rel(directory, path)
	return err == nil && inside != "." && filepath.IsLocal(inside)
}

// checkNested returns an error if a directory is in one that is synchronised with the same place, or one that was synchronised
// with it is in the directory: all files of the place would be made in the inner one, and with it in the place, again and again.
// It adds the binding to those of the directories that this process synchronises, by their paths.
func (a *app) checkNested(dir string, b mirror.Binding, opened map[string]mirror.Binding) error {
	path, err := realPath(dir)
	if err != nil {
		return err
	}
	var others []string
	for inner, outer := path, filepath.Dir(path); inner != outer; inner, outer = outer, filepath.Dir(outer) {
		others = append(others, outer)
	}
	others = slices.AppendSeq(others, maps.Keys(opened))
	if at, err := a.configDirectory(); err == nil {
		config := os.DirFS(at)
		records, _ := fs.Glob(config, knownName+"/*")
		for _, record := range records {
			text, _ := fs.ReadFile(config, record)
			others = append(others, strings.TrimSuffix(string(text), "\n"))
		}
	}
	for _, other := range others {
		relation := "contains"
		if isBelow(path, other) {
			relation = "is in"
		} else if !isBelow(other, path) {
			continue
		}
		bound, ok := opened[other]
		if !ok {
			bound, _ = storedBinding(other)
		}
		if bound.Org == b.Org && bound.Place == b.Place && (bound.User == b.User || b.Place != personalPlace) { // a server can have several addresses
			return usage("%s %s %s, which is synchronised with the same place. If it no longer is, move %s, which has its trash, out of it", dir, relation, other, filepath.Join(other, mirror.StateDirectory))
		}
	}
	opened[path] = b
	return nil
}

// checkMounted returns an error if a directory that was synchronised has nothing in it any more, and no state:
// it may be the place where a disk is to be mounted.
func (a *app) checkMounted(dir string) error {
	known, _, err := a.knownFile(dir)
	if err != nil {
		return nil // nothing is known
	}
	if _, err := os.Stat(known); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if vacant, err := localdisk.Vacant(dir); err != nil || !vacant {
		return syncError(err)
	}
	return exitError{exitGuard, fmt.Errorf("%s was synchronised before, and has nothing in it now: is a disk not mounted? Nothing was done. To begin with an empty directory: collab sync %s --accept-deletions", dir, dir)}
}

// markSynchronised writes the record that the directory was synchronised, for checkMounted.
func (s *synced) markSynchronised() error {
	file, path, err := s.app.knownFile(s.dir)
	if err != nil {
		return nil // there is no place for it
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(path+"\n"), 0o600)
}

// syncError returns an error with the exit code for it.
func syncError(err error) error {
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return exitError{exitSignIn, err}
	case fault.Is(err, fault.Conflict):
		return exitError{exitConflict, err}
	case apiclient.Status(err) == http.StatusForbidden && !apiclient.Unanswered(err):
		return exitError{exitSignIn, fmt.Errorf("%w. The organisation is closed to this account; ask an owner of it", err)}
	}
	return err
}

// synced is a directory that is kept in step.
type synced struct {
	app    *app
	dir    string
	server string // the address
	disk   *localdisk.Disk
	state  *mirrorstate.State
	mirror *rounds.Mirror

	files *os.Root // mirror.StateDirectory

	lock  sync.Mutex // of what follows, and of the output
	shown *progress
	log   mirrorstate.Log
	lines []byte // about changes, for the log and, unless it is a terminal, the output
	last  syncRound

	heldNoted bool                  // the last round has held files, which was printed
	known     bool                  // the record that the directory was synchronised is written
	unwritten map[string]bool       // what could not be written the last time: the log, the status, the record
	failing   map[string]fault.Kind // of problems by path of files that were printed as failed and have not succeeded since
}

// openSynced opens a directory, to be bound to the place f if it is not bound. If it is bound it
// must be to f, or, with anyPlace, to another place of the same organisation. checkNested says what opened is.
func (a *app) openSynced(ctx context.Context, dir string, f *folder, anyPlace bool, opened map[string]mirror.Binding) (s *synced, err error) {
	s = &synced{app: a, dir: dir, server: f.client.Server, last: syncRound{Held: []syncProblem{}, Failed: []syncProblem{}, Delayed: []syncDelayed{}}, unwritten: map[string]bool{}, failing: map[string]fault.Kind{}}
	defer func() {
		if err != nil {
			s.close()
			err = syncError(err)
		}
	}()
	binding := mirror.Binding{Server: f.client.Server, Org: id.Org(f.me.Org.ID), User: id.User(f.me.User.ID), Place: placeText(f)}
	if bound, err := storedBinding(dir); err == nil && anyPlace {
		binding.Place = bound.Place
	}
	if err = a.checkNested(dir, binding, opened); err != nil {
		return s, err
	}
	if s.disk, err = localdisk.Open(dir, system.Clock{}); err != nil {
		return s, err
	}
	if s.files, err = mirrorstate.OpenDirectory(dir); err != nil {
		return s, err
	}
	s.log.Directory = s.files
	_ = s.files.Remove(acceptedName)                 // it was for a process that has ended
	if last, err := lastRound(s.files); err == nil { // what is said of the files until the first round
		s.last.Files, s.last.Held, s.last.Failed = last.Files, last.Held, last.Failed
	}
	if s.state, err = mirrorstate.Open(dir); err != nil {
		return s, err
	}
	if damaged := s.state.Damaged(); damaged != "" {
		a.printErrf("the state of %s was damaged and is now %s; both sides are united", dir, damaged)
	}
	bound, err := s.state.Binding(ctx)
	switch {
	case err == nil && anyPlace:
		binding.Place = bound.Place
	case err != nil && !fault.Is(err, fault.NotFound):
		return s, err
	}
	where, err := parsePlace(binding.Place)
	if err != nil {
		return s, err
	}
	device, err := os.Hostname()
	if err != nil {
		device = "device"
	}
	server := remote.New(f.client, where)
	s.mirror = rounds.New(rounds.Options{
		Disk: s.disk, DiskWriter: s.disk, Watcher: s.disk, State: s.state, Remote: server, RemoteWriter: server, Clock: system.Clock{},
		Wait: f.client.Wait, Random: rand.Float64, Binding: binding, Device: cmp.Or(a.env("COLLAB_DEVICE"), device), Workers: syncWorkers, Report: s.report,
		Resident: residentFiles, Released: debug.FreeOSMemory,
		IsPaused: s.takeRequests,
	})
	return s, nil
}

// takeRequests takes what other processes ask for: it accepts deletions, and reports whether the directory is paused.
// That deletions were not made is said again if they are not made then, as when the next round fails.
func (s *synced) takeRequests() bool {
	if s.files.Remove(acceptedName) == nil {
		s.lock.Lock()
		s.last.Stopped = ""
		s.lock.Unlock()
		s.mirror.AcceptDeletions()
	}
	p, err := s.app.pauseOf(s.files)
	return p != nil || err != nil // what cannot be read may be a pause
}

func (s *synced) close() {
	if s.state != nil {
		_ = s.state.Close()
	}
	if s.files != nil {
		s.lock.Lock()
		s.flush()
		s.lock.Unlock()
		_ = errors.Join(s.log.Close(), s.files.Close())
	}
	if s.disk != nil {
		_ = s.disk.Close()
	}
}

// Places in bindings.
const (
	sharedPlace    = "shared"
	personalPlace  = "personal"
	workspacePlace = "workspace "
)

func placeText(f *folder) string {
	switch {
	case f.workspace != "":
		return workspacePlace + f.workspace
	case f.scope == string(object.Personal):
		return personalPlace
	}
	return sharedPlace
}

func parsePlace(text string) (object.Place, error) {
	where := object.Place{Kind: object.Artifact, Scope: object.Shared}
	workspace, ok := strings.CutPrefix(text, workspacePlace)
	switch {
	case ok:
		where.Workspace = (*id.Workspace)(&workspace)
	case text == personalPlace:
		where.Scope = object.Personal
	case text != sharedPlace:
		return where, fmt.Errorf("the directory is bound to %q, which this version does not know", text)
	}
	return where, nil
}

// syncChange is a line about a change, or in the log about a problem.
type syncChange struct {
	Time      time.Time `json:"time"`
	Dir       string    `json:"dir"`
	Event     string    `json:"event"` // done, failed or planned; in the log also problem, stopped, paused, late, read-only and recovered
	Action    string    `json:"action"`
	Path      string    `json:"path"`
	Direction string    `json:"direction,omitempty"` // up or down
	From      string    `json:"from,omitempty"`      // of what is moved
	Bytes     int64     `json:"bytes,omitempty"`     // of content that is transferred
	Problem   string    `json:"problem,omitempty"`
}

// syncRound is a line about a round, and the status of a directory.
type syncRound struct {
	Time        time.Time     `json:"time"`
	Dir         string        `json:"dir"`
	Event       string        `json:"event"` // round
	Done        int           `json:"done"`  // changes
	Files       int           `json:"files"`
	Held        []syncProblem `json:"held"`
	Failed      []syncProblem `json:"failed"`
	Stopped     string        `json:"stopped"` // why deletions were not made
	Problem     string        `json:"problem"`
	Late        string        `json:"late"`     // why changes of the directory are noticed late
	ReadOnly    bool          `json:"readOnly"` // changes of the directory are not sent, as the member may only read
	Paused      bool          `json:"paused"`
	PausedUntil *time.Time    `json:"pausedUntil"`
	Delayed     []syncDelayed `json:"delayed"`
}

type syncProblem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// syncDelayed is a file that is sent later, as it was changed soon after it was sent.
type syncDelayed struct {
	Path string    `json:"path"`
	Due  time.Time `json:"due"`
}

func problemsOf(held []mirror.Held) []syncProblem {
	all := []syncProblem{}
	for i, h := range held {
		if i == maxListed {
			return append(all, syncProblem{Reason: fmt.Sprintf("%d more", len(held)-i)})
		}
		all = append(all, syncProblem(h))
	}
	return all
}

func problems(all []syncProblem) string {
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Path+": "+p.Reason)
	}
	return strings.Join(lines, "; ")
}

// line returns a value as a line of JSON.
func line(v any) []byte {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	_ = encode.Encode(v) // these values can be encoded
	return b.Bytes()
}

// gather appends a line to those that are written together. The caller must hold the lock.
func (s *synced) gather(line []byte) {
	if len(s.lines) == 0 {
		time.AfterFunc(gatheredFor, func() {
			s.lock.Lock()
			defer s.lock.Unlock()
			s.flush()
		})
	}
	if s.lines = append(s.lines, line...); len(s.lines) >= gatheredLines {
		s.flush()
	}
}

// flush writes the gathered lines. The caller must hold the lock.
func (s *synced) flush() {
	if len(s.lines) == 0 {
		return
	}
	_, err := s.log.Write(s.lines)
	s.noteUnwritten("log", err)
	if !s.app.outTerminal {
		_, _ = s.app.out.Write(s.lines) // what nobody reads is not needed
	}
	s.lines = s.lines[:0]
}

// noteUnwritten prints that the log, the status, or the record that the directory was synchronised, was not
// written, if err is not nil and the same was written before. The caller must hold the lock.
func (s *synced) noteUnwritten(what string, err error) {
	if err != nil && !s.unwritten[what] {
		s.app.printErrf("the %s of %s was not written: %v", what, s.dir, err)
	}
	s.unwritten[what] = err != nil
}

// report shows what happens in a round.
func (s *synced) report(e rounds.Event) {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch e.Kind {
	case rounds.Planned:
		s.shown = s.app.newProgress(s.dir, e.Bytes)
		s.shown.files = e.Steps
	case rounds.Transferred:
		if s.shown != nil {
			s.shown.add(int(e.Bytes))
		}
	case rounds.Done:
		delete(s.failing, e.Step.Path)
		s.change("done", e.Step, nil)
	case rounds.Failed:
		kind := fault.KindOf(e.Problem) // each text may have another number of a request, or of free bytes
		if was, ok := s.failing[e.Step.Path]; !ok || was != kind {
			s.failing[e.Step.Path] = kind
			s.change("failed", e.Step, e.Problem)
		}
	}
}

// change logs and prints a change. The caller must hold the lock.
func (s *synced) change(event string, step mirror.Step, problem error) {
	c := syncChange{Time: s.app.now().UTC(), Dir: s.dir, Event: event, Direction: "down", Action: step.Action.String(), Path: step.Path, From: step.From}
	switch step.Action {
	case mirror.Upload:
		c.Direction, c.Bytes = "up", step.Row.Local.Facts.Size
	case mirror.Download:
		c.Bytes = step.Row.Remote.Size
	case mirror.Move:
		c.Direction, c.From = "up", step.Row.Remote.Path
	case mirror.MoveDirectory, mirror.Delete, mirror.DeleteFirst:
		c.Direction = "up"
	case mirror.Rename, mirror.SetAside:
		c.From = step.Row.Local.Path
	}
	if problem != nil {
		c.Problem = problem.Error()
	}
	if event != "planned" {
		s.gather(line(c))
	} else if !s.app.outTerminal {
		_, _ = s.app.out.Write(line(c))
	}
	if s.shown != nil {
		s.shown.finished++
	}
	if !s.app.outTerminal {
		return
	}
	if s.shown != nil {
		s.shown.end()
	}
	text := c.Action + "  " + printableLine(filepath.Join(s.dir, filepath.FromSlash(c.Path)))
	if problem != nil {
		text = string(s.app.paint(true, yellow, text+": "+printableLine(c.Problem)))
	}
	fmt.Fprintln(s.app.out, text)
}

// finished stores what a round has come to, and says what a person should know: each state when it
// begins.
func (s *synced) finished(o rounds.Outcome, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.flush()
	if s.shown != nil {
		s.shown.end()
		s.shown = nil
	}
	r, last := s.last, s.last // a round that failed or was not made says nothing of the files
	r.Time, r.Dir, r.Event, r.Done, r.Paused, r.Problem = s.app.now().UTC(), s.dir, "round", o.Done, o.Paused, ""
	if !o.Paused {
		r.Late = o.Late
	}
	if err != nil {
		r.Problem = err.Error()
	} else if !o.Paused {
		r.Files, r.Held, r.Failed, r.Stopped = o.Files, problemsOf(o.Held), problemsOf(o.Failed), o.Guard
		r.Delayed, r.ReadOnly = []syncDelayed{}, o.ReadOnly
		for _, d := range o.Delayed[:min(len(o.Delayed), maxListed)] {
			r.Delayed = append(r.Delayed, syncDelayed(d))
		}
		s.forgetFailures(slices.Concat(o.Held, o.Failed))
	}
	s.last = r
	text := line(r)
	s.noteUnwritten("status", atomicfile.ReplaceIn(s.files, statusName, atomicfile.Content(text)))
	if !s.known && err == nil && !o.Paused && o.Guard == "" && o.Files > 0 {
		err := s.markSynchronised()
		s.known = err == nil
		s.noteUnwritten("record", err)
	}
	last.Time = r.Time
	if !s.app.outTerminal && (r.Done > 0 || !bytes.Equal(text, line(last))) {
		_, _ = s.app.out.Write(text)
	}
	if r.Stopped != "" && r.Stopped != last.Stopped {
		what := "deletions"
		if slices.ContainsFunc(o.Pending, func(step mirror.Step) bool { return !step.Action.Deletes() }) {
			what = "changes"
		}
		s.noteState("stopped", r.Stopped, true, fmt.Sprintf(" %d %s were not made. Continue with: collab sync %s --accept-deletions", len(o.Pending), what, s.dir))
	}
	switch {
	case r.Problem != "" && last.Problem == "":
		s.noteState("problem", r.Problem, false, "")
	case r.Problem == "" && last.Problem != "" && !r.Paused:
		s.noteState("recovered", s.dir+" is synchronised again.", false, "")
	}
	if r.Late != "" && r.Late != last.Late {
		s.noteState("late", r.Late, false, "")
	}
	if n := len(r.Held); n > 0 && !s.heldNoted && s.app.errTerminal {
		s.app.printWarning("%d files in %s are not synchronised: collab sync status %s", n, s.dir, s.dir)
	}
	s.heldNoted = len(r.Held) > 0
	if r.ReadOnly && !last.ReadOnly {
		s.noteState("read-only", "Changes in "+s.dir+" are not sent, as you may only read in this place. They are kept, and sent when your role allows it.", true, "")
	}
	if r.Paused && !last.Paused {
		s.noteState("paused", s.dir+" is paused. Continue with: "+s.app.resumption(s.files, s.dir), false, "")
	}
}

// forgetFailures forgets those of files that a round has not left to later ones. The caller must hold the lock.
func (s *synced) forgetFailures(left []mirror.Held) {
	was := s.failing
	s.failing = map[string]fault.Kind{}
	for _, h := range left {
		if kind, ok := was[h.Path]; ok {
			s.failing[h.Path] = kind
		}
	}
}

// noteState logs a state of the directory. On a terminal, or always, it also prints the state with what to
// do. The caller must hold the lock.
func (s *synced) noteState(event, text string, always bool, todo string) {
	s.flush()
	_, err := s.log.Write(line(syncChange{Time: s.app.now().UTC(), Dir: s.dir, Event: event, Problem: text}))
	s.noteUnwritten("log", err)
	if always || s.app.errTerminal {
		s.app.printErrf("%s%s", s.app.paint(s.app.errTerminal, yellow, text), todo)
	}
}

// withRemedy returns the error with which the synchronisation has ended, with what to do about it.
func (s *synced) withRemedy(err error) error {
	if !rounds.Final(err) {
		return err
	}
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		return signInAgain(err, s.server)
	case fault.Forbidden:
		return exitError{exitSignIn, fmt.Errorf("%w. The place is closed to this account; ask an owner of the organisation. %s stays as it is", err, s.dir)}
	case fault.NotFound:
		return fmt.Errorf("%w. When it is there again, start collab sync %s again", err, s.dir)
	case fault.Conflict:
		return fmt.Errorf("%w. To synchronise it with another place, move %s, which has its trash, out of it", err, filepath.Join(s.dir, mirror.StateDirectory))
	}
	return err
}

// ended stores the error with which the synchronisation has ended, and prints it if others go on.
func (s *synced) ended(err error, others bool) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	err = s.withRemedy(err)
	s.lock.Lock()
	s.last.Problem = "" // that of the last round is the same without the remedy
	s.lock.Unlock()
	s.finished(rounds.Outcome{}, err)
	if others {
		s.app.printErrf("%s is not synchronised any more: %v", s.dir, err)
	}
	return err
}

// once makes one round, or prints its plan.
func (s *synced) once(ctx context.Context, dry bool) error {
	if dry {
		o, err := s.mirror.DryRun(ctx)
		if o.Paused {
			return s.app.pausedError(s.files, s.dir)
		}
		s.lock.Lock()
		defer s.lock.Unlock()
		for _, step := range o.Pending {
			s.change("planned", step, nil)
		}
		for _, held := range slices.Concat(o.Held, o.Failed) {
			s.app.printWarning("%s is held back: %s", held.Path, held.Reason)
		}
		if o.Guard != "" {
			s.app.printWarning("%s", o.Guard)
		}
		return err
	}
	o, err := s.mirror.Round(ctx)
	s.heldNoted = true // by the error
	s.finished(o, err)
	switch {
	case err != nil:
		return s.withRemedy(err)
	case o.Paused:
		return s.app.pausedError(s.files, s.dir)
	case o.Guard != "":
		return exitError{exitGuard, errors.New(o.Guard)}
	case len(o.Failed) > 0 || len(o.Held) > 0:
		return exitError{exitConflict, fmt.Errorf("%d files are held back or failed: collab sync status %s", len(o.Failed)+len(o.Held), s.dir)}
	}
	return nil
}
