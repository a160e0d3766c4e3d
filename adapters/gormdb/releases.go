package gormdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/release"
	"collab/ports"
)

type releaseRow struct {
	ID        id.Release  `gorm:"primaryKey"`
	Version   string      `gorm:"<-:create"`
	Key       string      `gorm:"->:false;<-:create;column:version_key"`
	Target    targetRow   `gorm:"embedded"`
	Settings  settingsRow `gorm:"embedded"`
	Guard     guardRow    `gorm:"embedded"`
	Published time.Time   `gorm:"column:published_at"`
	Updated   time.Time   `gorm:"column:updated_at"`
	Revision  int64       `gorm:"->:false;<-"`
}

// targetRow is a release.Target.
type targetRow struct {
	Platform release.Platform `gorm:"<-:create"`
	Arch     release.Arch     `gorm:"<-:create"`
	Channel  release.Channel  `gorm:"<-:create"`
}

// settingsRow is a release.Settings.
type settingsRow struct {
	DownloadURL   string
	SHA512        *string `gorm:"column:sha512"`
	SHA1          *string `gorm:"column:sha1"`
	FileSizeBytes *int64
	Notes         *string
	MinOSVersion  *string
	Signature     *string
	Mandatory     bool `gorm:"column:is_mandatory"`
	Rollout       int
	Active        bool `gorm:"column:is_active"`
}

// guardRow is a release.Guard.
type guardRow struct {
	FailureLimit   *int
	FailureMinimum int
	GuardedBy      id.Org           `gorm:"default:null"`
	Before         release.Outcomes `gorm:"embedded;embeddedPrefix:before_"`
	PausedAt       *time.Time
	Halt           release.Outcomes `gorm:"embedded;embeddedPrefix:halt_"`
}

// releaseRevisionRow is the only row of its table.
type releaseRevisionRow struct {
	One bool `gorm:"primaryKey"`
	N   int64
}

var (
	releaseTable  = shared[releaseRow]("releases", "Release")
	revisionTable = shared[releaseRevisionRow]("release_revision", "Revision")
)

func (r *releaseRevisionRow) revision() (int64, error) { return r.N, nil }

func rowOfRelease(r release.Release, revision int64) *releaseRow {
	return &releaseRow{
		ID: r.ID, Version: r.Version.String(), Key: r.Version.Key(), Target: targetRow(r.Target),
		Settings: settingsRow(r.Settings), Guard: guardRow(r.Guard),
		Published: r.PublishedAt, Updated: r.UpdatedAt, Revision: revision,
	}
}

func (r *releaseRow) release() (release.Release, error) {
	version, err := release.ParseVersion(r.Version)
	return release.Release{
		ID: r.ID, Version: version, Target: release.Target(r.Target),
		Settings: release.Settings(r.Settings), Guard: release.Guard(r.Guard),
		PublishedAt: r.Published, UpdatedAt: r.Updated,
	}, err
}

type releases struct{ *conn }

func (g group) Releases() ports.Releases { return releases(g) }

func (q releases) Revision(ctx context.Context) (int64, error) {
	return get(ctx, revisionTable.on(q.read), (*releaseRevisionRow).revision)
}

// Since is one statement, and so reads the releases of the revision. Without rows there was
// no change, as every change adds or updates a release and none is removed.
func (q releases) Since(ctx context.Context, revision int64) (int64, []release.Entry, error) {
	now := max(revision, 0)
	s := releaseTable.on(q.read).filter("releases.revision > ?", revision).
		read("id", "version", "platform", "arch", "channel", "rollout", "is_active", "paused_at").
		join("releases CROSS JOIN release_revision v", ", v.n", &now)
	found, err := all(ctx, s, func(r *releaseRow) (release.Entry, error) {
		made, err := r.release()
		return made.Entry(), err
	})
	if err != nil {
		return 0, nil, err
	}
	return now, found, nil
}

func (q releases) Count(ctx context.Context) (int, error) { return releaseTable.on(q.read).count(ctx) }

func (q releases) List(ctx context.Context, rs []id.Release) ([]release.Release, error) {
	return getAll(ctx, releaseTable.on(q.read), (*releaseRow).release, func(r release.Release) id.Release { return r.ID }, rs)
}

func (q releases) Add(ctx context.Context, r release.Release) error {
	return q.revised(ctx, func(c *conn, revision int64) error {
		return releaseTable.on(c.write).add(ctx, rowOfRelease(r, revision))
	})
}

func (q releases) Update(
	ctx context.Context, r id.Release, fn func(release.Release) (release.Release, error),
) (updated release.Release, err error) {
	err = q.revised(ctx, func(c *conn, revision int64) error {
		row := func(r release.Release) *releaseRow { return rowOfRelease(r, revision) }
		updated, err = update(ctx, c, releaseTable.on(c.write).key(string(r)), (*releaseRow).release, row, fn)
		return err
	})
	if err != nil {
		return release.Release{}, err
	}
	return updated, nil
}

// revised runs a change of the releases that excludes concurrent ones, and increments the
// revision if it succeeds. The change is called with the new revision.
func (q releases) revised(ctx context.Context, change func(c *conn, revision int64) error) error {
	return q.atomic(ctx, func(c *conn) error {
		revision, err := get(ctx, revisionTable.on(c.write).forUpdate(), (*releaseRevisionRow).revision)
		if err != nil {
			return err
		}
		if err := change(c, revision+1); err != nil {
			return err
		}
		_, err = revisionTable.on(c.write).filter("one").set(ctx, "n = ?", revision+1)
		return err
	})
}

// targetKey is a release.Target in a primary key.
type targetKey struct {
	Platform release.Platform `gorm:"primaryKey"`
	Arch     release.Arch     `gorm:"primaryKey"`
	Channel  release.Channel  `gorm:"primaryKey"`
}

type adoptionRow struct {
	Day     calendar.Day `gorm:"primaryKey"`
	Target  targetKey    `gorm:"embedded"`
	Version string       `gorm:"primaryKey"`
	Checks  int64
	Offered int64
}

var (
	adoptionTable = shared[adoptionRow]("release_adoption", "Count")
	addChecks     = adoptionTable.insertsRecords(adoptionTable.fields, adoptionTable.onConflictAdd("checks", "offered"))
)

func (r *adoptionRow) checkCount() (release.CheckCount, error) {
	return release.CheckCount{
		Day: r.Day, Target: release.Target(r.Target), Version: r.Version, Checks: r.Checks, Offered: r.Offered,
	}, nil
}

type adoption struct{ *conn }

func (g group) Adoption() ports.Adoption { return adoption(g) }

// Add locks the rows in their order, as all changes of them do, to avoid deadlocks. A
// statement can change a row only once, so it sums the counts of the same row before.
func (q adoption) Add(ctx context.Context, counts []release.CheckCount) error {
	counts = summed(slices.Clone(counts), release.CheckCount.Compare, func(to *release.CheckCount, one release.CheckCount) {
		to.Checks, to.Offered = to.Checks+one.Checks, to.Offered+one.Offered
	})
	rows := make([]adoptionRow, len(counts))
	for i, t := range counts {
		rows[i] = adoptionRow{t.Day, targetKey(t.Target), t.Version, t.Checks, t.Offered}
	}
	return q.atomic(ctx, func(c *conn) error {
		_, err := insertRecords(ctx, adoptionTable.on(c.write), addChecks, rows, adoptionTable.fields)
		return err
	})
}

func (q adoption) List(
	ctx context.Context, first, last calendar.Day, target release.Target, after release.CheckCount, limit int,
) ([]release.CheckCount, error) {
	const order = "day, platform, arch, channel, version"
	s := adoptionTable.on(q.read).filter("day >= ? AND day <= ?", string(max(first, after.Day)), string(last))
	if after.Day != "" {
		s = s.after(order, string(after.Day), string(after.Platform), string(after.Arch), string(after.Channel), after.Version)
	}
	return all(ctx, ofTarget(s, target).page(order, limit), (*adoptionRow).checkCount)
}

// Prune also has a lower bound: of a range with one bound Postgres estimates a third of the
// table.
func (q adoption) Prune(ctx context.Context, before calendar.Day) error {
	for _, t := range []selection{adoptionTable.on(q.write), seenTable.on(q.write)} {
		if err := t.filter("day >= '' AND day < ?", string(before)).delete(ctx); err != nil {
			return err
		}
	}
	return nil
}

type seenRow struct {
	Day       calendar.Day `gorm:"primaryKey"`
	Target    targetKey    `gorm:"embedded"`
	Registers []byte
}

var seenTable = shared[seenRow]("release_devices", "Devices")

func rowOfSeen(d release.DailyDevices) *seenRow {
	return &seenRow{d.Day, targetKey(d.Target), d.Devices[:]}
}

func (r *seenRow) seen() (release.DailyDevices, error) {
	d := release.DailyDevices{Day: r.Day, Target: release.Target(r.Target)}
	if n := copy(d.Devices[:], r.Registers); n != len(r.Registers) || n != release.Registers {
		return d, fmt.Errorf("a sketch of devices has %d registers", len(r.Registers))
	}
	return d, nil
}

// AddDevices locks the rows in their order, as adoption.Add does. Merging registers is no expression
// of SQL: a row is inserted first if it is not there, then read and replaced.
func (q adoption) AddDevices(ctx context.Context, all []release.DailyDevices) error {
	sorted := slices.SortedFunc(slices.Values(all), release.DailyDevices.Compare)
	return q.atomic(ctx, func(c *conn) error {
		for _, d := range sorted {
			s := seenTable.on(c.write)
			n, err := s.insert(ctx, rowOfSeen(d), onConflictDoNothing)
			if err == nil && n == 0 {
				row := s.key(string(d.Day), string(d.Platform), string(d.Arch), string(d.Channel))
				merge := func(existing release.DailyDevices) (release.DailyDevices, error) {
					existing.Devices.Merge(&d.Devices)
					return existing, nil
				}
				_, err = update(ctx, c, row, (*seenRow).seen, rowOfSeen, merge)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (q adoption) Devices(ctx context.Context, first, last calendar.Day, target release.Target) ([]release.DailyDevices, error) {
	s := ofTarget(seenTable.on(q.read).filter("day >= ? AND day <= ?", string(first), string(last)), target)
	return all(ctx, s.page("day, platform, arch, channel", 0), (*seenRow).seen)
}

// ofTarget selects the rows of a target, whose empty values select all.
func ofTarget(s selection, target release.Target) selection {
	return s.matching("platform", string(target.Platform)).matching("arch", string(target.Arch)).
		matching("channel", string(target.Channel))
}

type reportRow struct {
	Release          id.Release `gorm:"column:release_id;primaryKey"`
	Hour             time.Time  `gorm:"primaryKey"`
	release.Outcomes `gorm:"embedded"`
}

var (
	reportTable = shared[reportRow]("release_reports", "Report")
	addReports  = reportTable.insertsRecords(reportTable.fields, reportTable.onConflictAdd("succeeded", "failed"))
)

func (r *reportRow) report() (release.Report, error) {
	return release.Report(*r), nil
}

type reports struct{ *conn }

func (g group) Reports() ports.Reports { return reports(g) }

// Add sums and orders the rows for the reasons of adoption.Add.
func (q reports) Add(ctx context.Context, given []release.Report) error {
	rows := make([]reportRow, len(given))
	for i, r := range given {
		rows[i] = reportRow(r)
	}
	rows = summed(rows, func(a, b reportRow) int {
		return cmp.Or(cmp.Compare(a.Release, b.Release), a.Hour.Compare(b.Hour))
	}, func(to *reportRow, one reportRow) { to.Outcomes = to.Outcomes.Plus(one.Outcomes) })
	return q.atomic(ctx, func(c *conn) error {
		_, err := insertRecords(ctx, reportTable.on(c.write), addReports, rows, reportTable.fields)
		return err
	})
}

func (q reports) Sum(ctx context.Context, releaseID id.Release) (sum release.Outcomes, err error) {
	const text = "SELECT CAST(COALESCE(SUM(succeeded), 0) AS BIGINT), CAST(COALESCE(SUM(failed), 0) AS BIGINT)" +
		" FROM release_reports WHERE release_id = ?"
	_, err = oneRow(ctx, q.read, "Report", sharedSQL(text, cursorID(releaseID)), &sum.Succeeded, &sum.Failed)
	return sum, err
}

func (q reports) List(ctx context.Context, releaseID id.Release, after time.Time, limit int) ([]release.Report, error) {
	s := reportTable.on(q.read).filter("release_id = ?", cursorID(releaseID))
	if !after.IsZero() {
		s = s.filter("hour > ?", after.UnixMilli())
	}
	return all(ctx, s.page("hour", limit), (*reportRow).report)
}

// Prune has a lower bound for the reason of adoption.Prune.
func (q reports) Prune(ctx context.Context, before time.Time) error {
	const unlimited = "NOT EXISTS (SELECT 1 FROM releases r WHERE r.id = release_id AND r.failure_limit IS NOT NULL)"
	return reportTable.on(q.write).filter("hour >= 0 AND hour < ?", before.UnixMilli()).filter(unlimited).delete(ctx)
}
