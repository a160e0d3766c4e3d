// Package releases publishes versions of the desktop application, offers them to devices in
// staged rollouts, and counts update checks. Checks are answered from memory.
package releases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"collab/domain/audit"
	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/release"
	"collab/ports"
)

// The intervals of the ticks that Start is given.
const (
	// PollEvery is how often a server reads the revision of the releases, in case a
	// hint was lost.
	PollEvery = 500 * time.Millisecond
	// CountEvery is how often a server stores its counts.
	CountEvery = 10 * time.Second
)

// queryTimeout bounds one round of queries.
const queryTimeout = 5 * time.Second

// Options has the dependencies and settings of the use cases.
type Options struct {
	Store ports.Store
	Bus   ports.Bus
	Clock ports.Clock
	IDs   ports.IDs
	Log   *slog.Logger

	// Atomic is access.Access.Atomic.
	Atomic func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error
	// From is access.From of the store.
	From func(ctx context.Context) ports.Records
	// Origin returns the origin of the request that ctx carries, for the audit log.
	Origin func(ctx context.Context) audit.Origin

	Publishers      []id.Org // organisations whose owners and admins may manage releases
	AnyOrganisation bool     // owners and admins of every organisation may
	Hosts           release.Hosts
}

// emptySnapshot is the snapshot before the first read.
var emptySnapshot = &release.Snapshot{Revision: -1}

// Releases are the use cases of releases.
type Releases struct {
	Options
	snapshot atomic.Pointer[release.Snapshot]
	counts   counts
	reports  reports

	ctx           context.Context // of the background work
	stop          context.CancelFunc
	flushes       context.Context // of storing counts
	cancelFlushes context.CancelFunc
	work          sync.WaitGroup
	hints         chan struct{}
	unsubscribe   func()
	reading       sync.Mutex // held while the snapshot is replaced
}

// New returns the use cases, with an empty snapshot until Start.
func New(o Options) *Releases {
	s := &Releases{Options: o, hints: make(chan struct{}, 1), unsubscribe: func() {}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.flushes, s.cancelFlushes = context.WithCancel(context.Background())
	s.snapshot.Store(emptySnapshot)
	return s
}

// Start reads the releases, and again after every hint of the bus and tick of poll. A failure to read
// them is logged, as the database may not be migrated yet. At every tick of count it stores the counts.
func (s *Releases) Start(ctx context.Context, poll, count <-chan time.Time) error {
	failing := s.runLimited(ctx, s.Refresh, false, readFailed)
	unsubscribe, err := s.Bus.Subscribe(func(h object.Hint) {
		if h.Org == release.BusOrg {
			s.hint()
		}
	})
	if err != nil {
		return fmt.Errorf("listening for releases: %w", err)
	}
	s.unsubscribe = unsubscribe
	s.work.Go(func() {
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-poll:
			case <-s.hints:
			}
			failing = s.runLimited(s.ctx, s.Refresh, failing, readFailed)
		}
	})
	s.work.Go(func() {
		failing := false
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-count:
				failing = s.runLimited(s.flushes, s.FlushCounts, failing, "update check counts not stored")
			}
		}
	})
	return nil
}

// readFailed is the log message of a failed Refresh.
const readFailed = "release read failed"

// hint has the releases read soon.
func (s *Releases) hint() {
	select {
	case s.hints <- struct{}{}:
	default:
	}
}

// runLimited calls fn with a time limit, and reports whether it failed or panicked. It logs the first of
// consecutive failures.
func (s *Releases) runLimited(ctx context.Context, fn func(context.Context) error, failing bool, failure string) bool {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err := fault.Catch(func() error { return fn(ctx) })
	if s.ctx.Err() != nil {
		return failing
	}
	if err != nil && !failing {
		s.Log.Error(failure, "error", err)
	}
	return err != nil
}

// Close ends the background work and stores the counts. It waits for a write under way until
// ctx ends, because an interrupted one may have been stored and would be counted twice.
func (s *Releases) Close(ctx context.Context) error {
	s.unsubscribe()
	s.stop()
	defer s.cancelFlushes()
	defer context.AfterFunc(ctx, s.cancelFlushes)()
	s.work.Wait()
	return s.FlushCounts(ctx)
}

// Refresh reads the releases that have changed.
func (s *Releases) Refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	known := s.snapshot.Load()
	revision, err := s.Store.Deployment().Releases().Revision(ctx)
	if err != nil || revision == known.Revision {
		return err
	}
	if revision < known.Revision {
		known = emptySnapshot // an older backup was restored
	}
	revision, changed, err := s.Store.Deployment().Releases().Since(ctx, known.Revision)
	if err != nil {
		return err
	}
	next, err := known.With(revision, changed, func(ids []id.Release) ([]release.Release, error) {
		return s.Store.Deployment().Releases().List(ctx, ids)
	})
	if err != nil {
		return err
	}
	s.snapshot.Store(next)
	return nil
}

// Check is an update check of a device.
type Check struct {
	release.Target
	Version release.Version
	Client  string // the device's id; may be empty
}

// Offer returns the release that a device is offered, nil for none, and counts the check.
// It reads only memory. The caller must not change the release.
func (s *Releases) Offer(q Check) *release.Release {
	snapshot := s.snapshot.Load()
	offered := snapshot.Offer(q.Target, q.Version, q.Client)
	s.count(snapshot, q, offered != nil)
	return offered
}

// count counts a check and its device.
func (s *Releases) count(snapshot *release.Snapshot, q Check, offered bool) {
	day := calendar.DayOf(s.Clock.Now())
	s.counts.add(day, q.Target, q.Version, snapshot.Known(q.Version), offered)
	if q.Client != "" {
		s.counts.devices.add(day, q.Target, q.Client)
	}
}

// Snapshot returns the releases as this server knows them.
func (s *Releases) Snapshot() *release.Snapshot { return s.snapshot.Load() }

// checkManager returns an error unless the actor may manage releases.
func (s *Releases) checkManager(actor org.Actor) error {
	if err := actor.CheckManager(); err != nil {
		return err
	}
	if s.Publishes(actor.Org) {
		return nil
	}
	return fault.New(fault.Forbidden, "This organisation does not publish releases here")
}

// Publishes reports whether owners and admins of the organisation may manage releases.
func (s *Releases) Publishes(o id.Org) bool {
	return s.AnyOrganisation || slices.Contains(s.Publishers, o)
}

// Publish adds a release, which is offered at once.
func (s *Releases) Publish(ctx context.Context, actor org.Actor, d release.Draft) (release.Release, error) {
	if err := s.checkManager(actor); err != nil {
		return release.Release{}, err
	}
	created, err := release.New(id.Release(s.IDs.New()), d, s.Hosts, s.Clock.Now())
	if err == nil {
		created, err = created.Guarded(d.Guard, actor.Org, release.Outcomes{}, s.Clock.Now())
	}
	if err != nil {
		return release.Release{}, err
	}
	err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckManager(); err != nil {
			return err
		}
		if err := r.Deployment().Releases().Add(ctx, created); err != nil {
			return err
		}
		releases, err := r.Deployment().Releases().Count(ctx)
		if err != nil {
			return err
		}
		if err := release.CheckLimit(releases - 1); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.ReleasePublished, created, created.Describe())
	})
	if err != nil {
		return release.Release{}, err
	}
	s.announce(ctx)
	return created, nil
}

// errUnchanged rolls back a change that changes nothing.
var errUnchanged = errors.New("the release is as it was")

// Change changes settings of a release. A patch that changes nothing is not audited.
func (s *Releases) Change(ctx context.Context, actor org.Actor, r id.Release, p release.Patch) (now release.Release, err error) {
	var was release.Release
	err = s.Atomic(ctx, actor, func(records ports.Records, actor org.Actor) error {
		if err := s.checkManager(actor); err != nil {
			return err
		}
		var reported release.Outcomes
		if p.GuardPatch != (release.GuardPatch{}) {
			if reported, err = records.Deployment().Reports().Sum(ctx, r); err != nil {
				return err
			}
		}
		now, err = records.Deployment().Releases().Update(ctx, r, func(r release.Release) (release.Release, error) {
			was = r
			next, err := r.Apply(p, s.Hosts, s.Clock.Now())
			if err == nil {
				next, err = next.Guarded(p.GuardPatch, actor.Org, reported, s.Clock.Now())
			}
			if err == nil && next.Same(r) {
				err = errUnchanged
			}
			return next, err
		})
		if err != nil {
			return err
		}
		return s.audit(ctx, records, actor, audit.ReleaseChanged, now, was.Difference(now))
	})
	if errors.Is(err, errUnchanged) {
		return was, nil
	}
	if err != nil {
		return release.Release{}, err
	}
	s.announce(ctx)
	return now, nil
}

func (s *Releases) audit(ctx context.Context, r ports.Records, actor org.Actor, action audit.Action, of release.Release, detail string) error {
	return r.Journal().Audit().Add(ctx, audit.By(actor, s.Origin(ctx), id.Entry(s.IDs.New()), actor.Org, action, string(of.ID), detail, s.Clock.Now()))
}

// announce refreshes this server's snapshot after a change, and sends the others a hint.
func (s *Releases) announce(ctx context.Context) {
	if err := s.Refresh(ctx); err != nil {
		s.hint()
	}
	s.Bus.Publish(object.Hint{Org: release.BusOrg, N: s.snapshot.Load().Revision})
}

// batch is how many releases List reads at a time; the largest have 300 KiB.
const batch = 16

// List calls each with the releases after the given one, the zero value is the start, at most
// limit, 0: all. They are in the order of release.Snapshot.All, the highest version first.
// Invalid if after is the id of no release.
func (s *Releases) List(ctx context.Context, actor org.Actor, after id.Release, limit int, each func(release.Release) error) error {
	if err := s.checkManager(actor); err != nil {
		return err
	}
	if err := s.Refresh(ctx); err != nil {
		return err
	}
	var ids []id.Release
	for _, e := range s.snapshot.Load().All() {
		ids = append(ids, e.ID)
	}
	at := slices.Index(ids, after)
	if at < 0 && after != "" {
		return fault.Field("cursor", "must be one that this list gave out")
	}
	ids = ids[at+1:]
	if limit > 0 && limit < len(ids) {
		ids = ids[:limit]
	}
	for chunk := range slices.Chunk(ids, batch) {
		found, err := s.Store.Deployment().Releases().List(ctx, chunk)
		if err != nil {
			return err
		}
		for _, r := range found {
			if err := each(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Eligibility is whether a release is offered to a device, and why.
type Eligibility struct {
	Client  string
	Bucket  int
	Offered bool
	Reason  release.Reason
}

// Rollout explains for each of the devices whether the release is offered to it.
func (s *Releases) Rollout(ctx context.Context, actor org.Actor, r id.Release, clients []string) (release.Entry, []Eligibility, error) {
	if err := s.checkManager(actor); err != nil {
		return release.Entry{}, nil, err
	}
	if err := s.Refresh(ctx); err != nil {
		return release.Entry{}, nil, err
	}
	snapshot := s.snapshot.Load()
	entry, ok := snapshot.Get(r)
	if !ok {
		return release.Entry{}, nil, fault.Missing("Release")
	}
	all := make([]Eligibility, len(clients))
	for i, client := range clients {
		all[i] = Eligibility{Client: client, Bucket: release.Bucket(client)}
		all[i].Offered, all[i].Reason = snapshot.Explain(entry, client)
	}
	return entry, all, nil
}

// get returns a release as it is stored.
func (s *Releases) get(ctx context.Context, r id.Release) (release.Release, error) {
	found, err := s.Store.Deployment().Releases().List(ctx, []id.Release{r})
	switch {
	case err != nil:
		return release.Release{}, err
	case len(found) == 0:
		return release.Release{}, fault.Missing("Release")
	}
	return found[0], nil
}

// Progress is how far a release is.
type Progress struct {
	Release     id.Release
	First, Last calendar.Day // of Devices
	Devices     int64        // estimated number of those with an id that checked for the release's target
	Counted     release.Outcomes
}

// Progress stores this server's counts, and returns how far the release is.
func (s *Releases) Progress(ctx context.Context, actor org.Actor, r id.Release) (Progress, error) {
	if err := s.checkManager(actor); err != nil {
		return Progress{}, err
	}
	if err := s.flushFor(ctx); err != nil {
		return Progress{}, err
	}
	found, err := s.get(ctx, r)
	if err != nil {
		return Progress{}, err
	}
	all, err := s.Store.Deployment().Reports().Sum(ctx, r)
	if err != nil {
		return Progress{}, err
	}
	now := s.Clock.Now()
	p := Progress{Release: r, First: calendar.DayOf(now.AddDate(0, 0, 1-release.DeviceDays)), Last: calendar.DayOf(now), Counted: found.Counted(all)}
	target := found.Target
	if target.Arch == release.Universal {
		target.Arch = ""
	}
	seen, err := s.Store.Deployment().Adoption().Devices(ctx, p.First, p.Last, target)
	var sketch release.Sketch
	for i := range seen {
		sketch.Merge(&seen[i].Devices)
	}
	p.Devices = sketch.Count()
	return p, err
}

// Adoption stores this server's counts, and returns those of the days from first to last, from
// after the given one, at most limit, 0: all. They may be stale (see ports.Store.From).
func (s *Releases) Adoption(
	ctx context.Context, actor org.Actor, first, last calendar.Day, of release.Target, after release.CheckCount,
	limit int,
) ([]release.CheckCount, error) {
	if err := s.checkManager(actor); err != nil {
		return nil, err
	}
	if err := s.flushFor(ctx); err != nil {
		return nil, err
	}
	return s.From(ctx).Deployment().Adoption().List(ctx, first, last, of, after, limit)
}

// Feed returns the releases that a device is offered whose updater reads a feed, nil for none,
// and counts the check. It offers nothing unless fits accepts every release. A device without
// an architecture gets a release for each (release.Snapshot.OfferEach) and is counted as
// universal; one without a version is offered the latest. Feed reads only memory. The caller
// must not change the releases.
func (s *Releases) Feed(q Check, fits func(*release.Release) bool) []*release.Release {
	snapshot := s.snapshot.Load()
	var offered []*release.Release
	if q.Arch == "" {
		offered = snapshot.OfferEach(q.Platform, q.Channel, q.Version, q.Client)
		q.Arch = release.Universal
	} else if r := snapshot.Offer(q.Target, q.Version, q.Client); r != nil {
		offered = []*release.Release{r}
	}
	for _, r := range offered {
		if !fits(r) {
			offered = nil
			break
		}
	}
	s.count(snapshot, q, offered != nil)
	return offered
}
