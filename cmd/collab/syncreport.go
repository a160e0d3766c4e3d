package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"collab/adapters/atomicfile"
	rounds "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
)

// maxListed is how many files of a kind a status lists: held, failed, delayed.
const maxListed = 1000

// Lines about changes are buffered and written when there are bufferedBytes of them, or flushDelay after the first.
const (
	bufferedBytes = 32 << 10
	flushDelay    = 100 * time.Millisecond
)

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

// buffer appends a line to those that are written together. The caller must hold mu.
func (s *syncedDir) buffer(line []byte) {
	if len(s.buffered) == 0 {
		time.AfterFunc(flushDelay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.flush()
		})
	}
	if s.buffered = append(s.buffered, line...); len(s.buffered) >= bufferedBytes {
		s.flush()
	}
}

// flush writes the buffered lines. The caller must hold mu.
func (s *syncedDir) flush() {
	if len(s.buffered) == 0 {
		return
	}
	_, err := s.log.Write(s.buffered)
	s.noteUnwritten("log", err)
	if !s.app.outTerminal {
		_, _ = s.app.out.Write(s.buffered) // what nobody reads is not needed
	}
	s.buffered = s.buffered[:0]
}

// noteUnwritten prints that the log, the status, or the record that the directory was synchronised, was not
// written, if err is not nil and the same was written before. The caller must hold mu.
func (s *syncedDir) noteUnwritten(what string, err error) {
	if err != nil && !s.unwritten[what] {
		s.app.printErrf("the %s of %s was not written: %v", what, s.dir, err)
	}
	s.unwritten[what] = err != nil
}

// report shows what happens in a round.
func (s *syncedDir) report(e rounds.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case rounds.Planned:
		s.progress = s.app.newProgress(s.dir, e.Bytes)
		s.progress.files = e.Steps
	case rounds.Transferred:
		if s.progress != nil {
			s.progress.add(int(e.Bytes))
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

// change logs and prints a change. The caller must hold mu.
func (s *syncedDir) change(event string, step mirror.Step, problem error) {
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
		s.buffer(line(c))
	} else if !s.app.outTerminal {
		_, _ = s.app.out.Write(line(c))
	}
	if s.progress != nil {
		s.progress.finished++
	}
	if !s.app.outTerminal {
		return
	}
	if s.progress != nil {
		s.progress.end()
	}
	text := c.Action + "  " + printableLine(filepath.Join(s.dir, filepath.FromSlash(c.Path)))
	if problem != nil {
		text = string(s.app.paint(true, yellow, text+": "+printableLine(c.Problem)))
	}
	fmt.Fprintln(s.app.out, text)
}

// recordRound stores the outcome of a round, and reports each state that a person should know when it begins.
func (s *syncedDir) recordRound(o rounds.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
	if s.progress != nil {
		s.progress.end()
		s.progress = nil
	}
	if err == nil && !o.Paused {
		s.forgetFailures(slices.Concat(o.Held, o.Failed))
	}
	last := s.last
	s.last = s.statusAfter(o, err)
	text := line(s.last)
	s.noteUnwritten("status", atomicfile.ReplaceIn(s.files, statusName, atomicfile.Content(text)))
	if !s.recorded && err == nil && !o.Paused && o.Guard == "" && o.Files > 0 {
		err := s.writeRecord()
		s.recorded = err == nil
		s.noteUnwritten("record", err)
	}
	last.Time = s.last.Time
	if !s.app.outTerminal && (o.Done > 0 || !bytes.Equal(text, line(last))) {
		_, _ = s.app.out.Write(text)
	}
	s.announce(last, o.Pending)
}

// statusAfter returns the status after a round. One that failed says nothing of the files, and one that was not made
// neither of a problem.
func (s *syncedDir) statusAfter(o rounds.Outcome, err error) syncRound {
	r := s.last
	r.Time, r.Dir, r.Event, r.Done, r.Paused = s.app.now().UTC(), s.dir, "round", o.Done, o.Paused
	if o.Paused {
		return r
	}
	r.Late, r.Problem = o.Late, ""
	if err != nil {
		r.Problem = err.Error()
	}
	if err == nil {
		r.Files, r.Held, r.Failed, r.Stopped = o.Files, problemsOf(o.Held), problemsOf(o.Failed), o.Guard
		r.Delayed, r.ReadOnly = []syncDelayed{}, o.ReadOnly
		for _, d := range o.Delayed[:min(len(o.Delayed), maxListed)] {
			r.Delayed = append(r.Delayed, syncDelayed(d))
		}
	}
	return r
}

// announce says which states have begun or ended since the last status. The caller must hold mu.
func (s *syncedDir) announce(last syncRound, pending []mirror.Step) {
	r := s.last
	if r.Stopped != "" && r.Stopped != last.Stopped {
		what := "deletions"
		if slices.ContainsFunc(pending, func(step mirror.Step) bool { return !step.Action.Deletes() }) {
			what = "changes"
		}
		s.noteState("stopped", r.Stopped, true,
			fmt.Sprintf(" %d %s were not made. Continue with: collab sync %s --accept-deletions", len(pending), what, s.dir))
	}
	switch {
	case r.Problem != "" && last.Problem == "":
		s.noteState("problem", r.Problem, false, "")
	case r.Problem == "" && last.Problem != "":
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
		s.noteState("read-only",
			"Changes in "+s.dir+" are not sent, as you may only read in this place. They are kept, and sent when your role allows it.", true, "")
	}
	if r.Paused && !last.Paused {
		s.noteState("paused", s.dir+" is paused. Continue with: "+s.app.resumption(s.files, s.dir), false, "")
	}
}

// forgetFailures forgets those of files that a round has not left to later ones. The caller must hold mu.
func (s *syncedDir) forgetFailures(left []mirror.Held) {
	was := s.failing
	s.failing = map[string]fault.Kind{}
	for _, h := range left {
		if kind, ok := was[h.Path]; ok {
			s.failing[h.Path] = kind
		}
	}
}

// noteState logs a state of the directory. On a terminal, or always, it also prints the state with what to
// do. The caller must hold mu.
func (s *syncedDir) noteState(event, text string, always bool, todo string) {
	s.flush()
	_, err := s.log.Write(line(syncChange{Time: s.app.now().UTC(), Dir: s.dir, Event: event, Problem: text}))
	s.noteUnwritten("log", err)
	if always || s.app.errTerminal {
		s.app.printErrf("%s%s", s.app.paint(s.app.errTerminal, yellow, text), todo)
	}
}
