package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

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
	// statusName is the file in mirror.StateDirectory with what the last round has come to.
	statusName = "status.json"
)

func (a *app) sync() *cobra.Command {
	var at place
	var once, dry, accept bool
	c := command("sync DIR...", "Keep directories in step with the server", 1, -1, func(c *cobra.Command, args []string) error {
		var all []*synced
		defer func() {
			for _, s := range all {
				s.close()
			}
		}()
		for _, dir := range args {
			s, err := a.openSynced(c.Context(), dir, at)
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
	at.flags(c)
	c.Flags().BoolVar(&once, "once", false, "end when both sides are equal")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be done")
	c.Flags().BoolVar(&accept, "accept-deletions", false, "make the deletions before which it has stopped")
	c.Long = `sync keeps each directory in step with a place of the server: the files that the organisation
shares, or those that a flag names. The directory remembers the place. On a terminal it prints what
changes, elsewhere a line of JSON for each change. docs/client.md says what happens when.`
	status := command("status DIR", "Print what the last round of a directory has come to", 1, 1, func(_ *cobra.Command, args []string) error {
		text, err := os.ReadFile(filepath.Join(args[0], mirror.StateDirectory, statusName))
		if err != nil {
			return fmt.Errorf("%s was not synchronised: %w", args[0], err)
		}
		var last syncRound
		if err := json.Unmarshal(text, &last); err != nil {
			return err
		}
		return record(a, last,
			column[syncRound]{"at", func(r syncRound) string { return r.Time.Local().Format(time.DateTime) }},
			column[syncRound]{"files", func(r syncRound) string { return fmt.Sprint(r.Files) }},
			column[syncRound]{"held", func(r syncRound) string { return problems(r.Held) }},
			column[syncRound]{"failed", func(r syncRound) string { return problems(r.Failed) }},
			column[syncRound]{"stopped", func(r syncRound) string { return r.Stopped }},
			column[syncRound]{"problem", func(r syncRound) string { return r.Problem }},
		)
	})
	conflicts := command("conflicts DIR", "List the conflict copies in a directory", 1, 1, func(_ *cobra.Command, args []string) error {
		return filepath.WalkDir(args[0], func(path string, e fs.DirEntry, err error) error {
			switch {
			case err == nil && e.IsDir() && e.Name() == mirror.StateDirectory:
				return fs.SkipDir
			case err == nil && !e.IsDir() && mirror.IsConflict(filepath.ToSlash(path)):
				_, err = fmt.Fprintln(a.out, plain(path))
			}
			return err
		})
	})
	c.AddCommand(status, conflicts)
	return c
}

// syncError returns an error with the exit code for it.
func syncError(err error) error {
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return coded{exitSignIn, err}
	case fault.Is(err, fault.Conflict):
		return coded{exitConflict, err}
	}
	return err
}

// synced is a directory that is kept in step.
type synced struct {
	app    *app
	dir    string
	disk   *localdisk.Disk
	state  *mirrorstate.State
	mirror *rounds.Mirror

	lock    sync.Mutex // of what follows, and of the output
	shown   *progress
	stopped string // what was said last about a stop
}

// openSynced opens a directory, and binds it to the place if it is not bound.
func (a *app) openSynced(ctx context.Context, dir string, at place) (s *synced, err error) {
	s = &synced{app: a, dir: dir}
	defer func() {
		if err != nil {
			s.close()
			err = syncError(err)
		}
	}()
	account, err := a.account()
	if err != nil {
		return s, err
	}
	f, err := a.folder(ctx, at)
	if err != nil {
		return s, err
	}
	me, err := f.client.GetMe(ctx)
	if err != nil {
		return s, err
	}
	if s.disk, err = localdisk.Open(dir, system.Clock{}); err != nil {
		return s, err
	}
	if s.state, err = mirrorstate.Open(dir); err != nil {
		return s, err
	}
	if damaged := s.state.Damaged(); damaged != "" {
		a.note("the state of %s was damaged and is now %s; both sides are united", dir, damaged)
	}
	binding := mirror.Binding{Server: account.Server, Org: id.Org(me.Org.ID), User: id.User(me.User.ID), Place: placeText(f)}
	bound, err := s.state.Binding(ctx)
	switch {
	case err == nil && at == (place{}):
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
	})
	return s, nil
}

func (s *synced) close() {
	if s.state != nil {
		_ = s.state.Close()
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

// syncChange is a line about a change.
type syncChange struct {
	Time    time.Time `json:"time"`
	Dir     string    `json:"dir"`
	Event   string    `json:"event"` // done, failed or planned
	Action  string    `json:"action"`
	Path    string    `json:"path"`
	Problem string    `json:"problem,omitempty"`
}

// syncRound is a line about a round, and the status of a directory.
type syncRound struct {
	Time    time.Time     `json:"time"`
	Dir     string        `json:"dir"`
	Event   string        `json:"event"` // round
	Done    int           `json:"done"`  // changes
	Files   int           `json:"files"`
	Held    []syncProblem `json:"held"`
	Failed  []syncProblem `json:"failed"`
	Stopped string        `json:"stopped"` // why deletions were not made
	Problem string        `json:"problem"`
}

type syncProblem struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func problemsOf(held []mirror.Held) []syncProblem {
	all := []syncProblem{}
	for _, h := range held {
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

// line prints a value as a line of JSON.
func (s *synced) line(v any) {
	encode := json.NewEncoder(s.app.out)
	encode.SetEscapeHTML(false)
	_ = encode.Encode(v) // what nobody reads is not needed
}

// report shows what happens in a round.
func (s *synced) report(e rounds.Event) {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch e.State {
	case rounds.Planned:
		s.shown = s.app.progress(s.dir, e.Content, 0)
	case rounds.Transferred:
		if s.shown != nil {
			s.shown.add(int(e.Bytes))
		}
	case rounds.Done:
		s.change("done", e.Step, nil)
	case rounds.Failed:
		s.change("failed", e.Step, e.Problem)
	}
}

// change prints a change. The caller must hold the lock.
func (s *synced) change(event string, step mirror.Step, problem error) {
	c := syncChange{Time: s.app.now().UTC(), Dir: s.dir, Event: event, Action: step.Action.String(), Path: step.Path}
	if problem != nil {
		c.Problem = problem.Error()
	}
	if !s.app.outTerminal {
		s.line(c)
		return
	}
	if s.shown != nil {
		s.shown.end()
	}
	text := c.Action + "  " + plain(filepath.Join(s.dir, filepath.FromSlash(c.Path)))
	if problem != nil {
		text = string(s.app.paint(true, yellow, text+": "+plain(c.Problem)))
	}
	fmt.Fprintln(s.app.out, text)
}

// finished stores what a round has come to, and says what a person should know.
func (s *synced) finished(o rounds.Outcome, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.shown != nil {
		s.shown.end()
		s.shown = nil
	}
	r := syncRound{Time: s.app.now().UTC(), Dir: s.dir, Event: "round", Done: o.Done, Files: o.Files, Held: problemsOf(o.Held), Failed: problemsOf(o.Failed), Stopped: o.Guard}
	if err != nil {
		r.Problem = err.Error()
	}
	text, encodeErr := json.Marshal(r)
	if encodeErr == nil {
		encodeErr = atomicfile.Replace(filepath.Join(s.dir, mirror.StateDirectory, statusName), func(f *os.File) error {
			_, err := f.Write(text)
			return err
		})
	}
	if encodeErr != nil {
		s.app.note("the status of %s was not stored: %v", s.dir, encodeErr)
	}
	if !s.app.outTerminal {
		s.line(r)
	}
	said := r.Stopped + r.Problem
	if said == s.stopped {
		return
	}
	s.stopped = said
	if r.Stopped != "" {
		s.app.note("%s %d deletions were not made. Continue with: collab sync %s --accept-deletions", s.app.paint(s.app.errTerminal, yellow, r.Stopped), len(o.Pending), s.dir)
	}
	if r.Problem != "" && s.app.errTerminal {
		s.app.note("%s", s.app.paint(true, yellow, plain(r.Problem)))
	}
}

// ended stores the error with which the synchronisation has ended, and prints it if others go on.
func (s *synced) ended(err error, others bool) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	s.lock.Lock()
	stored := s.stopped == err.Error()
	s.lock.Unlock()
	if !stored {
		s.finished(rounds.Outcome{}, err)
	}
	if others {
		s.app.note("%s is not synchronised any more: %v", s.dir, err)
	}
	return err
}

// once makes one round, or prints its plan.
func (s *synced) once(ctx context.Context, dry bool) error {
	if dry {
		o, err := s.mirror.DryRun(ctx)
		s.lock.Lock()
		defer s.lock.Unlock()
		for _, step := range o.Pending {
			s.change("planned", step, nil)
		}
		return err
	}
	o, err := s.mirror.Round(ctx)
	s.finished(o, err)
	switch {
	case err != nil:
		return err
	case o.Guard != "":
		return coded{exitGuard, errors.New(o.Guard)}
	case len(o.Failed) > 0 || len(o.Held) > 0:
		return coded{exitConflict, fmt.Errorf("%d files are held back or failed: collab sync status %s", len(o.Failed)+len(o.Held), s.dir)}
	}
	return nil
}
