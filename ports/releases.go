package ports

import (
	"context"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/release"
)

// Deployment hands over the collections that belong to no organisation, device grants until they
// are decided.
type Deployment interface {
	Releases() Releases
	Adoption() Adoption
	Reports() Reports
	DeviceGrants() DeviceGrants
}

// Releases holds the releases of the desktop application. Each change increments their
// revision in its transaction.
type Releases interface {
	// Revision returns the number of changes.
	Revision(ctx context.Context) (int64, error)

	// Since returns the entries of the releases that were added or changed after a
	// revision, in any order, and the revision at which they were read. A negative
	// revision selects all. Without entries it returns the given revision, or 0 for a
	// negative one.
	Since(ctx context.Context, revision int64) (int64, []release.Entry, error)

	// Count returns the number of releases. After an Add in the same transaction it counts
	// those of every committed transaction.
	Count(ctx context.Context) (int, error)

	// List returns those of the releases that exist, in the order of ids, which are all
	// different.
	List(ctx context.Context, ids []id.Release) ([]release.Release, error)

	// Add fails with Conflict on a taken id, and on a version that another release
	// has for the same target (release.Version.Key).
	Add(ctx context.Context, r release.Release) error

	// Update locks the release, stores what fn returns for it, and returns that. An error
	// of fn is returned unchanged, and nothing is stored. Fn must keep ID, Version and
	// Target, may run more than once, and has no side effects.
	Update(ctx context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (release.Release, error)
}

// Adoption holds the numbers of update checks, and of the devices that made them.
type Adoption interface {
	// Add adds the counts to the stored ones, all or none of them.
	Add(ctx context.Context, all []release.CheckCount) error

	// List returns the counts of the days from first to last, both included, by day,
	// platform, arch, channel and version; empty values of the target select all. It
	// begins after the given count, and the zero value is the start; at most limit, 0: all.
	List(ctx context.Context, first, last calendar.Day, of release.Target, after release.CheckCount, limit int) ([]release.CheckCount, error)

	// AddDevices adds devices to the stored ones of the same day and target, all or none of them.
	AddDevices(ctx context.Context, all []release.DailyDevices) error

	// Devices returns the devices of the days from first to last, both included, by day, platform,
	// arch and channel; empty values of the target select all.
	Devices(ctx context.Context, first, last calendar.Day, of release.Target) ([]release.DailyDevices, error)

	// Prune removes the counts and the devices of days before the day.
	Prune(ctx context.Context, before calendar.Day) error
}

// Reports holds the numbers of installations that devices reported.
type Reports interface {
	// Add adds the counts to the stored ones, all or none of them.
	Add(ctx context.Context, all []release.Report) error

	// Sum returns the outcomes of all hours of the release.
	Sum(ctx context.Context, r id.Release) (release.Outcomes, error)

	// List returns the reports of the release by hour, of hours after the given one; at most
	// limit, 0: all.
	List(ctx context.Context, r id.Release, after time.Time, limit int) ([]release.Report, error)

	// Prune removes the reports of hours that began before the time, except those of releases with a
	// failure limit, which counts them.
	Prune(ctx context.Context, before time.Time) error
}
