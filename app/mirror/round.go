package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
)

const (
	// maxPlans is how many plans a round follows at most, beside those in which the server refuses to move a directory. One
	// more shows whether both sides are equal then.
	maxPlans = 8
	// maxAttempts is how often a round tries a file that changes meanwhile.
	maxAttempts = 3
	// maxGroupFiles and maxGroupBytes are how many files, and bytes of them, are downloaded one by one at most
	// before they get their paths together.
	maxGroupFiles = 500
	maxGroupBytes = 8 << 20
	// maxBatchFiles is how many files a request to the server changes at most: as many as the server, which
	// holds their contents in memory, stores in one transaction.
	maxBatchFiles = 500
	// maxBatches is how many such requests there are at once at most: as many as the server writes at once.
	maxBatches = 4
	// minDamagedRetry and maxDamagedRetry bound the time after which a damaged download is tried again; it
	// doubles each time.
	minDamagedRetry = time.Minute
	maxDamagedRetry = 24 * time.Hour
	// minPace and maxPace are the times for which Run does not send a file again: first the shorter one,
	// and twice as long each time if the file was changed twice within the shorter one.
	minPace = 2 * time.Second
	maxPace = 30 * time.Second
	// limitsMaxAge is how long limits of the server are used before they are read again, and limitsMaxAgeHeld
	// while files are held because of them, or the member may only read.
	limitsMaxAge     = time.Hour
	limitsMaxAgeHeld = time.Minute
)

// Outcome is what a round has come to.
type Outcome struct {
	Done     int // steps
	Held     []mirror.Held
	Failed   []mirror.Held // files whose steps failed, to be tried again later
	Delayed  []Delayed     // files that are put off
	Guard    string        // why Pending was not done; empty if nothing was stopped
	Pending  []mirror.Step // the steps that a guard has stopped, or all steps of a dry run
	ReadOnly bool          // the member may not write: what the directory has was not uploaded
	Retry    bool          // some of Held are tried again after a time, or when the server accepts more
	Files    int           // in the directory
	Paused   bool          // nothing was done
	Late     string        // why changes of the directory are noticed late, empty if they are not
}

// Delayed is a file that was changed soon after it was sent, and when it is due to be sent again.
type Delayed struct {
	Path string
	Due  time.Time
}

// round is the state of one round.
type round struct {
	*Mirror
	Outcome
	scope      mirror.Scope
	touched    map[string]bool // directories in which steps may have changed something
	plans      int             // that were made, with the present one
	attempts   map[string]int  // by key
	failedKeys map[string]bool // of the present plan's steps
	stopped    error           // why the round cannot go on
	batches    chan struct{}   // has a value for each batch that is being sent
	progress   bool            // a step of the present plan was done, or its premises have changed
	roomFreed  bool            // the server has deleted a file while others were held for want of room
}

// Round makes directory and server equal, as far as it can at present. It returns an error if it
// could not read one of the two or was interrupted; what it had done until then counts.
func (m *Mirror) Round(ctx context.Context) (Outcome, error) {
	out, err := m.unlessPaused(ctx, false)
	if err == nil && !out.Paused {
		m.clean(ctx)
	}
	return out, err
}

// DryRun returns what Round would do first, in Outcome.Pending. It changes nothing on either side, and
// stores nothing.
func (m *Mirror) DryRun(ctx context.Context) (Outcome, error) {
	state := m.State
	m.State = readOnlyState{state}
	defer func() { m.State, m.loaded = state, false }() // the rows have what was not stored
	return m.unlessPaused(ctx, true)
}

// readOnlyState reads a state and stores nothing.
type readOnlyState struct{ ports.MirrorState }

func (readOnlyState) Bind(context.Context, mirror.Binding) error { return nil }

func (readOnlyState) Put(context.Context, []mirror.Row, *object.Cursor) error { return nil }

func (m *Mirror) unlessPaused(ctx context.Context, dry bool) (Outcome, error) {
	if m.paused() {
		return Outcome{Paused: true}, nil
	}
	return m.round(ctx, dry)
}

// paused reports whether rounds are paused. A pause withdraws the acceptance of deletions, because the plan of
// the round after it was not shown to anybody.
func (m *Mirror) paused() bool {
	paused := m.IsPaused()
	m.lock.Lock()
	defer m.lock.Unlock()
	m.accept = m.accept && !paused
	return paused
}

func (m *Mirror) round(ctx context.Context, dry bool) (Outcome, error) {
	m.lock.Lock()
	r := &round{Mirror: m, scope: m.scope, touched: map[string]bool{}, attempts: map[string]int{}, batches: make(chan struct{}, maxBatches)}
	accept := m.accept
	m.scope, m.accept = mirror.Scope{}, false
	now := m.Clock.Now()
	maps.DeleteFunc(m.paces, func(_ string, p pace) bool { return now.Sub(p.last) > 2*p.wait })
	m.lock.Unlock()
	err := r.run(ctx, accept, dry)
	if _, unstored := errors.AsType[stateError](err); unstored && ctx.Err() == nil { // the disk may be full of downloads that are not complete
		now := m.Clock.Now()
		_ = m.DiskWriter.Clean(ctx, now, now.Add(-keepTrash))
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	r.Late = m.watchProblem
	if err == nil {
		m.limited = r.Retry
	}
	if err != nil || r.plans > maxPlans { // the next round has to see what this one was to
		m.scope = m.scope.Add(r.scope)
	}
	return r.Outcome, err
}

func (r *round) run(ctx context.Context, accept, dry bool) error {
	if !r.loaded {
		if err := r.load(ctx); err != nil {
			return err
		}
	}
	identity, err := r.Disk.Identity(ctx)
	if fault.Is(err, fault.NotFound) {
		return finalError{err}
	}
	if err != nil {
		return err
	}
	if err := r.readLimits(ctx); err != nil {
		return err
	}
	anyGuarded := false
	for r.plans = 1; ; r.plans++ {
		if r.roomFreed {
			if err := r.askLimits(ctx); err != nil {
				return err
			}
			r.roomFreed = false
		}
		in, plan, changes, err := r.plan(ctx, identity, accept)
		if err != nil {
			return err
		}
		reason, all := plan.Guard(changes)
		if all && changes.Root {
			plan = r.Plan(withoutSynced(in)) // what is done once it is accepted
		}
		if dry {
			r.Guard = reason
			r.listPending(plan)
			return nil
		}
		accepted := accept
		accept = false
		r.Guard, r.Pending, r.window.Stopped = "", nil, reason != "" && !accepted
		if accepted {
			r.window.Known = 0
		}
		if r.window.Stopped {
			anyGuarded, r.Guard = true, reason
			r.Pending = slices.DeleteFunc(slices.Clone(plan.Steps), func(s mirror.Step) bool { return !all && !s.Action.Deletes() })
			if all {
				return nil
			}
			plan = plan.WithoutDeletions()
		}
		if plan.Deletions > 0 || r.window.Stopped != r.binding.Window.Stopped { // also another process is to count them
			if err := r.bind(ctx, func(b *mirror.Binding) { b.Window = r.window }); err != nil {
				return err
			}
		}
		if err := r.settle(ctx, in.Tree.Files, plan.Settled); err != nil {
			return err
		}
		steps, first := r.stepsToTry(plan)
		if len(first) > 0 {
			steps = first
		}
		if r.plans > maxPlans && len(steps) > 0 {
			for _, s := range steps {
				r.Failed = append(r.Failed, mirror.Held{Path: s.Path, Reason: "It goes on changing. The next round goes on with it."})
			}
			break
		}
		split := len(r.splitMoves)
		err = r.execute(ctx, steps)
		r.scope = r.scope.Add(mirror.Scope{Directories: slices.Collect(maps.Keys(r.touched))})
		clear(r.touched)
		if err != nil {
			return err
		}
		if len(r.splitMoves) > split {
			r.plans-- // the next plan moves what is in them, so their depth bounds how many such plans follow
		}
		if r.progress || len(first) > 0 {
			continue
		}
		if !anyGuarded && r.stopped == nil {
			return r.bind(ctx, func(b *mirror.Binding) { b.Root, b.Ignore = identity, r.patterns })
		}
		break
	}
	return r.stopped
}

// plan scans the directory and reads the server, and returns the plan that follows, with its input and what
// has changed around the directory. If that was accepted, another directory is bound in the place of the former one.
func (r *round) plan(ctx context.Context, identity string, accept bool) (in mirror.Input, plan mirror.Plan, changes mirror.Changes, err error) {
	rules, err := r.Disk.Rules(ctx)
	if err != nil {
		return in, plan, changes, err
	}
	changes = mirror.Changes{Root: r.binding.Root != "" && identity != r.binding.Root, Ignore: r.binding.Ignore != "" && rules.Hash != r.binding.Ignore}
	if changes.Root || rules.Hash != r.patterns || !r.scanned { // entries have no files that were ignored
		r.scope = mirror.Everything()
	}
	if changes.Root && accept {
		if err := r.rebind(ctx, identity); err != nil {
			return in, plan, changes, err
		}
		changes.Root = false
	}
	if err := r.scan(ctx, r.scope); err != nil {
		return in, plan, changes, err
	}
	scanned := r.scope
	r.scope, r.patterns = mirror.Scope{}, rules.Hash
	unsynced, err := r.read(ctx, !accept && (changes.Root || r.emptied()))
	if err != nil {
		return in, plan, changes, err
	}
	for key, err := range unsynced {
		r.postpone(key, err)
	}
	in = r.input(rules)
	plan = r.Plan(in)
	if plan.MayMissMoves(in) {
		in, plan = mirror.Input{}, mirror.Plan{} // not twice in memory
		if err := r.scanAgain(ctx, scanned); err != nil {
			return in, plan, changes, err
		}
		in = r.input(rules)
		plan = r.Plan(in)
	}
	r.window = r.window.Next(plan.Known, r.Clock.Now())
	changes.Known = r.window.Known
	r.Held, r.Delayed, r.Files, r.Retry = plan.Held, nil, len(in.Tree.Files), false
	return in, plan, changes, nil
}

// listPending sets Pending to the steps of the plan that would be tried.
func (r *round) listPending(plan mirror.Plan) {
	r.Pending, _ = r.stepsToTry(plan)
	r.Pending = slices.DeleteFunc(r.Pending, func(s mirror.Step) bool {
		err := r.tooLarge(s)
		if err != nil {
			r.Held = append(r.Held, mirror.Held{Path: s.Path, Reason: err.Error()})
		}
		return err != nil
	})
}

// bind stores a change of the binding, if it is one.
func (r *round) bind(ctx context.Context, change func(*mirror.Binding)) error {
	bound := r.binding
	change(&bound)
	if bound == r.binding {
		return nil
	}
	if err := r.State.Bind(ctx, bound); err != nil {
		return stateError{err}
	}
	r.binding = bound
	return nil
}

// scanAgain reads a part of the directory for the second time, with all of which a notification has come: the first scan has
// missed what was moved meanwhile to where it had been, or from or to another part.
func (r *round) scanAgain(ctx context.Context, scope mirror.Scope) error {
	if !scope.Whole() {
		if r.Watcher != nil && r.Watcher.Settle(ctx) {
			r.lock.Lock()
			scope = scope.Add(r.Mirror.scope)
			r.lock.Unlock()
		} else {
			scope = mirror.Everything()
		}
	}
	return r.scan(ctx, scope)
}

// rebind binds the state to another directory in the place of the synchronised one, after somebody has accepted
// it. What both sides had agreed on is forgotten, so that they are united and nothing is deleted.
func (r *round) rebind(ctx context.Context, identity string) error {
	rows := slices.Collect(maps.Values(r.rows))
	for i, row := range rows {
		rows[i] = forgotten(row)
	}
	if err := r.put(ctx, nil, rows...); err != nil {
		return err
	}
	clear(r.sent)
	clear(r.entries)
	r.scanned = false
	return r.bind(ctx, func(b *mirror.Binding) { b.Root = identity }) // after the rows: else an end in between would lead to deletions
}

// withoutSynced returns the input without what both sides had agreed on.
func withoutSynced(in mirror.Input) mirror.Input {
	rows := make(map[string]mirror.Row, len(in.Rows))
	for key, row := range in.Rows {
		if row.Synced, row.Missing = nil, false; !row.Empty() {
			rows[key] = row
		}
	}
	in.Rows = rows
	return in
}

// readLimits asks the server for its limits, if that was long ago. What its answers to other requests
// have shown that it cannot do is tried again then.
func (r *round) readLimits(ctx context.Context) error {
	r.lock.Lock()
	fresh := limitsMaxAge
	if r.limited || r.limits != nil && r.limits.ReadOnly {
		fresh = limitsMaxAgeHeld
	}
	age := r.Clock.Now().Sub(r.limitsReadAt) // negative if the clock was set back
	known := r.limits != nil && age >= 0 && age < fresh
	r.lock.Unlock()
	if known {
		return nil
	}
	r.noMoves, r.splitMoves = false, map[[2]string]bool{}
	return r.askLimits(ctx)
}

// askLimits asks the server for its limits. Files that were refused because of another limit are tried
// again.
func (r *round) askLimits(ctx context.Context) error {
	limits, err := r.Remote.Limits(ctx)
	if err != nil {
		return remoteError{err}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.limits != nil && r.limits.MaxFile != limits.MaxFile {
		maps.DeleteFunc(r.refused, func(_ string, refused refusal) bool { return refused.limited })
		r.progress = true
	}
	r.limits, r.limitsReadAt = &limits, r.Clock.Now()
	return nil
}

// room reports whether limits leave room for an upload.
func room(l mirror.Limits, s mirror.Step) bool {
	replaced := int64(0)
	if s.Row.Remote != nil {
		replaced = s.Row.Remote.Size
	}
	return l.Room(sizeOf(s), replaced)
}

// checkForbidden asks the server for its limits after it has forbidden a step, unless the known ones say why:
// the member may only read, or storage is short. It fails as every request does if the membership has ended.
func (r *round) checkForbidden(ctx context.Context, s mirror.Step) error {
	r.lock.Lock()
	known := writes(s.Action) && r.limits.ReadOnly || s.Action == mirror.Upload && r.limited && !room(*r.limits, s)
	r.lock.Unlock()
	if known {
		return nil
	}
	return r.askLimits(ctx)
}

// holdForLimitsLocked holds a step that the server's limits do not allow, with the reason, and reports
// whether it did. The caller must hold the lock.
func (r *round) holdForLimitsLocked(s mirror.Step) bool {
	reason, limits := "", *r.limits
	if !r.refused[s.Row.Key].full { // what is reserved may be for this file, whose upload goes on
		limits.Reserved = 0
	}
	switch {
	case limits.ReadOnly && writes(s.Action):
		r.ReadOnly, r.Retry = true, true
		reason = "The member may only read in this place."
	case r.limited && s.Action == mirror.Upload && !room(limits, s):
		reason, r.Retry = fmt.Sprintf("The organisation has no room for it: %d of %d bytes are stored.", limits.Stored, limits.Storage), true
		if limits.Reserves(sizeOf(s)) && limits.Reserved > 0 {
			reason += fmt.Sprintf(" %d are reserved for uploads that are not complete.", limits.Reserved)
		}
	default:
		return false
	}
	r.Held = append(r.Held, mirror.Held{Path: s.Path, Reason: reason})
	return true
}

// holdForLimits is holdForLimitsLocked for a caller that does not hold the lock.
func (r *round) holdForLimits(s mirror.Step) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.holdForLimitsLocked(s)
}

// settle stores the rows on whose files both sides agree, and the facts of those of the directory's files, by key, whose
// content is known to be the same, so that it is not read again. It changes the slice.
func (r *round) settle(ctx context.Context, files map[string]*mirror.Entry, rows []mirror.Row) error {
	listed := map[string]bool{}
	var written []mirror.Row
	for _, row := range rows {
		listed[row.Key] = true
		// Unless the content and the name were agreed on before.
		if was := r.rows[row.Key].Synced; row.Local == nil || was == nil || was.Checksum != row.Local.Checksum || was.Name != row.Local.Path {
			written = append(written, row)
		}
	}
	unsynced := r.sync(ctx, written)
	rows = slices.DeleteFunc(rows, func(row mirror.Row) bool { return unsynced[row.Key] != nil })
	for key, err := range unsynced {
		r.postpone(key, err)
	}
	for key, was := range r.rows {
		now := files[key]
		if was.Synced != nil && now != nil && !equal(was.Local, now) && !listed[key] {
			was.Local = now
			rows = append(rows, was)
		}
	}
	slices.SortFunc(rows, func(a, b mirror.Row) int { return strings.Compare(a.Key, b.Key) })
	left := r.leftDirectories(rows)
	if err := r.put(ctx, nil, rows...); err != nil || len(left) == 0 {
		return err
	}
	_ = r.DiskWriter.Trash(ctx, left...) // else they stay
	return nil
}

// leftDirectories returns the directories from which files of the rows have gone. A client that was killed did not
// remove those that were empty then.
func (r *round) leftDirectories(rows []mirror.Row) (left []mirror.Entry) {
	names := map[string]bool{}
	for _, row := range rows {
		if was := r.rows[row.Key].Local; row.Empty() && was != nil {
			names[parent(was.Name)] = true
		}
	}
	for name := range names {
		if e := r.entries[name]; e != nil && e.Kind == mirror.Directory {
			left = append(left, *e)
			r.touch(e.Path)
		}
	}
	return left
}

// stepsToTry returns the steps of a plan that are worth trying, and those of them that are to be done before the others. It
// changes the slice of the plan.
func (r *round) stepsToTry(plan mirror.Plan) (steps, first []mirror.Step) {
	r.lock.Lock()
	defer r.lock.Unlock()
	patterns := plan.PatternsHeld || len(plan.PatternsFirst()) > 0
	steps = slices.DeleteFunc(plan.Steps, func(s mirror.Step) bool {
		if refused, ok := r.refused[s.Row.Key]; ok {
			left := refused.until.Sub(r.Clock.Now()) // is more than was set if the clock was set back
			switch {
			case refused.local != localOf(s.Row) || refused.remote != remoteOf(s.Row):
				delete(r.refused, s.Row.Key)
			case refused.full: // holdForLimitsLocked knows whether there is room now
			case refused.wait == 0 || left > 0 && left <= refused.wait:
				r.Held, r.Retry = append(r.Held, refused.held), r.Retry || refused.limited || refused.wait > 0
				return true
			}
		}
		return r.attempts[s.Row.Key] >= maxAttempts || r.holdForLimitsLocked(s) || !patterns && r.isDelayed(s)
	})
	first = mirror.Plan{Steps: steps}.PatternsFirst()
	if len(first) == 0 && patterns { // what is to be ignored may be among the others
		steps = slices.DeleteFunc(steps, func(s mirror.Step) bool { return writes(s.Action) || s.Action.Deletes() })
	}
	return steps, first
}

// isDelayed reports whether a step uploads a file that Run has sent again not long ago. The caller must hold the lock.
func (r *round) isDelayed(s mirror.Step) bool {
	now, p := r.Clock.Now(), r.paces[s.Row.Key]
	due := p.last.Add(p.wait)
	if left := due.Sub(now); s.Action != mirror.Upload || left <= 0 || left > p.wait { // more if the clock was set back
		return false
	}
	facts := s.Row.Local.Facts
	p.changed = p.changed || facts != p.facts && facts.ModTime-p.facts.ModTime < int64(minPace)
	p.facts = facts
	r.paces[s.Row.Key] = p
	r.Delayed = append(r.Delayed, Delayed{s.Path, due})
	return true
}

// setPace notes that a step has replaced a file on the server. The caller must hold the lock.
func (r *round) setPace(s mirror.Step) {
	if s.Action != mirror.Upload || s.Row.Remote == nil || r.paces == nil {
		return
	}
	next := pace{last: r.Clock.Now(), wait: minPace, facts: s.Row.Local.Facts}
	if was := r.paces[s.Row.Key]; was.changed {
		next.wait = min(2*was.wait, maxPace)
	}
	r.paces[s.Row.Key] = next
}

func localOf(r mirror.Row) string {
	if r.Local == nil {
		return ""
	}
	return r.Local.Path + r.Local.Checksum
}

func remoteOf(r mirror.Row) string {
	if r.Remote == nil {
		return ""
	}
	return r.Remote.Path + r.Remote.Checksum
}

// writes reports whether an action changes the server.
func writes(a mirror.Action) bool {
	switch a {
	case mirror.Upload, mirror.Move, mirror.MoveDirectory, mirror.Delete, mirror.DeleteFirst:
		return true
	}
	return false
}

// execute does steps in the order of their actions, those of one action side by side. It changes the slice.
func (r *round) execute(ctx context.Context, steps []mirror.Step) error {
	r.progress, r.failedKeys = false, map[string]bool{}
	if len(steps) > 0 {
		planned := Event{Kind: Planned, Steps: len(steps)}
		for _, s := range steps {
			planned.Bytes += sizeOf(s)
		}
		r.Report(planned)
	}
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].Action == steps[0].Action {
			n++
		}
		jobs := r.jobs(slices.DeleteFunc(steps[:n:n], func(s mirror.Step) bool { return r.failedKeys[s.Row.Key] }))
		steps = steps[n:]
		next := make(chan func(context.Context) error, len(jobs))
		for _, job := range jobs {
			next <- job
		}
		close(next)
		group, cancel := context.WithCancel(ctx)
		work := func() {
			for job := range next {
				if group.Err() != nil {
					return
				}
				if err := job(group); err != nil {
					r.lock.Lock()
					if r.stopped == nil {
						r.stopped = err
					}
					r.lock.Unlock()
					cancel()
				}
			}
		}
		var others sync.WaitGroup
		for range min(r.Workers, len(jobs)) - 1 {
			others.Go(work)
		}
		work()
		others.Wait()
		cancel()
		if r.stopped != nil {
			return r.stopped
		}
	}
	return ctx.Err()
}

// sizeOf returns how many bytes of content a step transfers.
func sizeOf(s mirror.Step) int64 {
	switch s.Action {
	case mirror.Download:
		return s.Row.Remote.Size
	case mirror.Upload:
		return s.Row.Local.Facts.Size
	}
	return 0
}

// together returns what does steps of an action of which many are done at a time, nil for other actions.
func (r *round) together(a mirror.Action) func(context.Context, []mirror.Step) error {
	switch a {
	case mirror.Download:
		return r.download
	case mirror.Rename, mirror.SetAside:
		return r.rename
	case mirror.TrashFirst, mirror.Trash:
		return r.trash
	}
	return nil
}

// jobs returns functions that do the steps, which have one action. Small changes of the server
// are made many at a time, if it can, and so are changes of the directory if there are more than workers.
func (r *round) jobs(steps []mirror.Step) []func(context.Context) error {
	var jobs []func(context.Context) error
	if len(steps) == 0 {
		return nil
	}
	if together := r.together(steps[0].Action); together != nil {
		most := min(maxGroupFiles, (len(steps)+r.Workers-1)/r.Workers)
		for len(steps) > 0 {
			n := 1
			for size := sizeOf(steps[0]); n < min(most, len(steps)) && size+sizeOf(steps[n]) <= maxGroupBytes; n++ {
				size += sizeOf(steps[n])
			}
			members := steps[:n]
			jobs = append(jobs, func(ctx context.Context) error { return together(ctx, members) })
			steps = steps[n:]
		}
		return jobs
	}
	var batch []mirror.Step
	var size int64
	flush := func() {
		if members := batch; len(members) == 1 {
			jobs = append(jobs, func(ctx context.Context) error { return r.do(ctx, members[0]) })
		} else if len(members) > 1 {
			jobs = append(jobs, func(ctx context.Context) error { return r.batch(ctx, members) })
		}
		batch, size = nil, 0
	}
	for _, s := range steps {
		if n := sizeOf(s); writes(s.Action) && s.Action != mirror.MoveDirectory && r.limits.BatchFiles > 1 && n <= r.limits.BatchFileSize {
			if len(batch) == min(r.limits.BatchFiles, maxBatchFiles) || size+n > r.limits.BatchBytes {
				flush()
			}
			batch, size = append(batch, s), size+n
			continue
		}
		jobs = append(jobs, func(ctx context.Context) error { return r.do(ctx, s) })
	}
	flush()
	return jobs
}

// do does a step. It returns an error only if the round cannot go on.
func (r *round) do(ctx context.Context, s mirror.Step) error {
	if r.holdForLimits(s) {
		return nil
	}
	return r.finish(ctx, s, r.step(ctx, s))
}

// refusals are the errors after which a directory's files are moved one by one.
var refusals = []fault.Kind{fault.Conflict, fault.NotFound, fault.Gone, fault.Invalid, fault.TooLarge}

// finish sorts the error of a step out: whether the file is held, tried again with a new plan, which nobody is told, or
// in a later round, or the round ends.
func (r *round) finish(ctx context.Context, s mirror.Step, err error) error {
	_, fromServer := errors.AsType[remoteError](err)
	kind := fault.KindOf(err)
	var unasked error
	if fromServer && kind == fault.Forbidden {
		unasked = r.checkForbidden(ctx, s)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if err != nil || !r.isNotified(s) {
		r.touch(s.Path)
		for _, e := range []*mirror.Entry{s.Row.Local, s.To.Local} {
			if e != nil {
				r.touch(e.Path)
			}
		}
	}
	if err == nil {
		r.Done++
		r.progress = true
		r.roomFreed = r.roomFreed || r.limited && s.Action.Deletes() && writes(s.Action)
		r.setPace(s)
		r.Report(Event{Step: s, Kind: Done})
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.failedKeys[s.Row.Key] = true
	if fromServer && kind == fault.Forbidden && unasked == nil {
		if s.Action == mirror.Upload && !room(*r.limits, s) {
			r.limited, r.refused[s.Row.Key] = true, refusal{local: localOf(s.Row), remote: remoteOf(s.Row), full: true}
		}
		if r.holdForLimitsLocked(s) {
			return nil
		}
	}
	_, unstored := errors.AsType[stateError](err)
	if !unstored && r.retriesNow(s, kind, fromServer) {
		r.progress = true
		return nil
	}
	r.Report(Event{Step: s, Kind: Failed, Problem: err})
	held := mirror.Held{Path: s.Path, Reason: err.Error()}
	switch {
	case unstored:
		return err
	case errors.Is(err, errDamaged):
		wait := min(max(2*r.refused[s.Row.Key].wait, minDamagedRetry), maxDamagedRetry)
		r.refused[s.Row.Key] = refusal{local: localOf(s.Row), remote: remoteOf(s.Row), held: held, until: r.Clock.Now().Add(wait), wait: wait}
		r.Held, r.Retry = append(r.Held, held), true
		return nil
	case kind == fault.Conflict || kind == fault.NotFound || kind == fault.Gone:
	case !fromServer: // the directory: other files may go
		r.attempts[s.Row.Key] = maxAttempts
	case unasked != nil:
		return unasked
	case kind == fault.Forbidden:
		r.attempts[s.Row.Key] = maxAttempts
	case kind == fault.Mismatch || kind == fault.Limited && retryAfter(err) == 0: // the caller may send others
		r.attempts[s.Row.Key] = maxAttempts
	case kind == fault.Invalid || kind == fault.TooLarge || kind == fault.Unsupported:
		r.refused[s.Row.Key] = refusal{local: localOf(s.Row), remote: remoteOf(s.Row), held: held, limited: kind == fault.TooLarge}
		r.Held, r.Retry = append(r.Held, held), r.Retry || kind == fault.TooLarge
		return nil
	default:
		return err
	}
	r.Failed = append(r.Failed, held)
	return nil
}

// retriesNow notes what the next plan has to know of a step that failed, and reports whether the step, or others in its
// place, are tried again in this round. The caller must hold the lock.
func (r *round) retriesNow(s mirror.Step, kind fault.Kind, fromServer bool) bool {
	switch {
	case s.Action == mirror.MoveDirectory && slices.Contains(refusals, kind):
		r.splitMoves[[2]string{s.From, s.Path}] = true
	case kind == fault.Conflict || kind == fault.NotFound || kind == fault.Gone:
		r.attempts[s.Row.Key]++
		return r.attempts[s.Row.Key] < maxAttempts
	case fromServer && kind == fault.Unsupported && (s.Action == mirror.Move || s.Action == mirror.MoveDirectory):
		r.noMoves = true
	default:
		return false
	}
	return true
}

// postpone leaves a file to a later round, because of an error of the directory.
func (r *round) postpone(key string, err error) {
	if r.attempts[key] >= maxAttempts {
		return
	}
	r.attempts[key] = maxAttempts
	held := mirror.Held{Path: key, Reason: err.Error()}
	if row := r.rows[key]; row.Local != nil {
		held.Path = row.Local.Path
	} else if row.Remote != nil {
		held.Path = row.Remote.Path
	}
	r.Failed = append(r.Failed, held)
}

// touch has the next scan look at the directories of a path.
func (r *round) touch(path string) {
	r.touched[""] = true
	for _, above := range object.Ancestors(path) {
		r.touched[above] = true
	}
}
