package releases

import (
	"context"
	"errors"
	"sync"
	"time"

	"collab/domain/audit"
	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/release"
	"collab/ports"
)

// maxReporters is how many reporters a server remembers on a day. Those beyond are not counted.
const maxReporters = 100_000

// reporter is a network that has reported an outcome of a release.
type reporter struct {
	release id.Release
	failed  bool
	network string
}

// reportedHour is the key by which reports are counted together.
type reportedHour struct {
	release id.Release
	hour    time.Time // its beginning, in UTC
}

// reports holds the reports that are not stored yet, and who reported on the present day.
type reports struct {
	mu        sync.Mutex
	day       calendar.Day                      // of seen; guarded by mu
	reporters map[reporter]struct{}             // guarded by mu
	all       map[reportedHour]release.Outcomes // guarded by mu
	// unchecked are the releases whose reports are stored and whose rollout was not looked at since;
	// guarded by counts.flushing.
	unchecked map[id.Release]struct{}
}

// Report counts an installation that succeeded or failed on a device in the network, if the
// version is the latest of the target. Of each network it counts one success and one failure of a
// release a day.
func (s *Releases) Report(t release.Target, v release.Version, failed bool, network string) {
	latest := s.snapshot.Load().Latest(t)
	if latest == nil || latest.Version.Compare(v) != 0 {
		return
	}
	now := s.Clock.Now().UTC()
	r := &s.reports
	r.mu.Lock()
	defer r.mu.Unlock()
	if day := calendar.DayOf(now); r.day != day {
		r.day, r.reporters = day, map[reporter]struct{}{}
	}
	by := reporter{latest.ID, failed, network}
	if _, again := r.reporters[by]; again || len(r.reporters) == maxReporters {
		return
	}
	r.reporters[by] = struct{}{}
	one := release.Outcomes{Succeeded: 1}
	if failed {
		one = release.Outcomes{Failed: 1}
	}
	r.add(reportedHour{latest.ID, now.Truncate(time.Hour)}, one)
}

// add adds to the reports that are not stored yet. The caller holds mu.
func (r *reports) add(to reportedHour, n release.Outcomes) {
	if r.all == nil {
		r.all = map[reportedHour]release.Outcomes{}
	}
	r.all[to] = r.all[to].Plus(n)
}

// flushReports adds this server's reports to the store and pauses the rollouts that fail. The
// caller holds counts.flushing.
func (s *Releases) flushReports(ctx context.Context) error {
	s.reports.mu.Lock()
	taken := s.reports.all
	s.reports.all = nil
	s.reports.mu.Unlock()
	var all []release.Report
	for of, n := range taken {
		all = append(all, release.Report{Release: of.release, Hour: of.hour, Outcomes: n})
	}
	if len(all) > 0 {
		if err := s.Store.Deployment().Reports().Add(ctx, all); err != nil {
			s.reports.mu.Lock()
			defer s.reports.mu.Unlock()
			for of, n := range taken {
				s.reports.add(of, n)
			}
			return err
		}
	}
	if s.reports.unchecked == nil {
		s.reports.unchecked = map[id.Release]struct{}{}
	}
	for of := range taken {
		s.reports.unchecked[of.release] = struct{}{}
	}
	var failed error
	for releaseID := range s.reports.unchecked {
		err := s.pauseFailing(ctx, releaseID)
		if err == nil {
			delete(s.reports.unchecked, releaseID)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// pauseFailing pauses the rollout of a release if too many of the reported installations failed.
func (s *Releases) pauseFailing(ctx context.Context, releaseID id.Release) error {
	found, err := s.Store.Deployment().Releases().List(ctx, []id.Release{releaseID})
	if err != nil || len(found) == 0 || found[0].FailureLimit == nil {
		return err
	}
	all, err := s.Store.Deployment().Reports().Sum(ctx, releaseID)
	if err != nil || !found[0].Failing(all) {
		return err
	}
	var why string
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		paused, err := r.Deployment().Releases().Update(ctx, releaseID, func(r release.Release) (release.Release, error) {
			if !r.Failing(all) {
				return r, errUnchanged
			}
			r, why = r.Halted(all, s.Clock.Now())
			return r, nil
		})
		if err != nil {
			return err
		}
		owner := paused.GuardedBy
		if o, err := r.Directory().Organisations().Get(ctx, owner); fault.Is(err, fault.NotFound) || err == nil && o.Closed() {
			owner = ""
		} else if err != nil {
			return err
		}
		return r.Journal().Audit().Add(ctx, audit.By(org.Actor{}, audit.Origin{}, id.Entry(s.IDs.New()), owner,
			audit.ReleasePaused, string(releaseID), why, s.Clock.Now()))
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		s.Log.Warn("rollout paused", "release", releaseID, "reason", why)
		s.announce(ctx)
	}
	return err
}

// Reports stores this server's reports, and returns those of the release by hour, of hours after
// the given one, at most limit, 0: all.
func (s *Releases) Reports(ctx context.Context, actor org.Actor, releaseID id.Release, after time.Time, limit int) ([]release.Report, error) {
	if err := s.checkManager(actor); err != nil {
		return nil, err
	}
	if err := s.flushFor(ctx); err != nil {
		return nil, err
	}
	if _, err := s.get(ctx, releaseID); err != nil {
		return nil, err
	}
	return s.Store.Deployment().Reports().List(ctx, releaseID, after, limit)
}
