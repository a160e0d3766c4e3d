package mirror

import (
	"slices"
	"time"
)

// A plan of more deletions than both of these is stopped.
const (
	guardDeletions = 20
	guardShare     = 4 // one in so many of the known files
)

// deletionPeriod is the time within which deletions of several plans count together.
const deletionPeriod = time.Minute

// DeletionWindow has the state by which a guard counts the deletions of several plans together.
type DeletionWindow struct {
	Known   int   // the most files on which both sides agreed within deletionPeriod, or since plans are stopped
	Since   int64 // when there were so many, in nanoseconds since 1970
	Stopped bool  // the last plan was stopped, perhaps in part
}

// Next returns the window with a plan that is made now and knows so many files on which both sides agreed.
func (w DeletionWindow) Next(known int, now time.Time) DeletionWindow {
	if known >= w.Known || !w.Stopped && now.Sub(time.Unix(0, w.Since)).Abs() > deletionPeriod {
		w.Known, w.Since = known, now.UnixNano()
	}
	return w
}

// Changes are what happened around a directory since its last complete round.
type Changes struct {
	Root   bool // another directory has taken its place
	Ignore bool // the patterns of ignored files
	Known  int  // DeletionWindow.Known
}

// Guard returns why deletions of the plan, or all of it, must not be made before somebody has
// accepted that, empty if they may be. All of it is stopped if the directory does not seem to be
// the one that was synchronised: even downloads would go to the wrong place.
func (p Plan) Guard(c Changes) (reason string, all bool) {
	changes := len(p.Steps)+len(p.Settled) > 0 // what is absent on both sides is not forgotten either
	switch {
	case c.Root && (changes || p.Known == 0):
		return "Another directory is in the place of the synchronised one.", true
	case p.Emptied && changes:
		return "The directory is empty, and was not.", true
	}
	return p.guardDeletions(c), false
}

func (p Plan) guardDeletions(c Changes) string {
	known := max(p.Known, c.Known)
	switch {
	case p.Deletions == 0:
		return ""
	case p.Vacated && p.Known >= 2:
		return "The server has no file in this place any more, as when a workspace was deleted or is closed to you."
	case known-p.Known+p.Deletions > max(guardDeletions, known/guardShare): // a program that removes many files may take longer than rounds
		return "An unusual number of files would be deleted."
	case p.Missing > 0:
		return "The server has no record of why files are missing there: they were deleted long ago, or are no longer visible."
	case c.Ignore:
		return "The patterns of ignored files have changed."
	}
	return ""
}

// WithoutDeletions returns the plan without its deletions and without the steps that need them. Setting a file aside
// needs none, and others need it.
func (p Plan) WithoutDeletions() Plan {
	staying := newKeys()
	for _, s := range p.Steps {
		if s.Action.Deletes() {
			staying.add(s.Row.Key)
		}
	}
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool {
		key := s.Row.Key
		if s.Action == Rename || s.Action == Move {
			key = s.To.Key
		}
		return s.Action.Deletes() || s.Action != SetAside && staying.collide(key)
	})
	return p
}

// PatternsFirst returns the steps by which the directory gets other patterns of ignored files, none if it has
// them. The other steps follow from patterns that no longer hold.
func (p Plan) PatternsFirst() (steps []Step) {
	key := KeyOf(IgnoreFile)
	for _, s := range p.Steps {
		if s.Row.Key == key && (s.Action == SetAside || s.Action == Download) || s.Action == Rename && s.To.Key == key {
			steps = append(steps, s)
		}
	}
	return steps
}
