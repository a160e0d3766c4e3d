package ports

import (
	"context"

	"collab/domain/id"
	"collab/domain/release"
)

// Deployment holds what belongs to no organisation.
type Deployment interface {
	Releases() Releases
	Adoption() Adoption
}

// Releases holds the releases of the desktop application. Each change counts
// their revision up, in its own transaction.
type Releases interface {
	// Revision returns how many changes there were.
	Revision(ctx context.Context) (int64, error)

	// Since returns the entries of the releases that were added or changed after a
	// revision, as they are at the one that it returns with them, in any order. After
	// a negative one those are all. Without any it returns the one it was given, or 0
	// for a negative one.
	Since(ctx context.Context, revision int64) (int64, []release.Entry, error)

	// Count returns how many releases there are. After an Add of the same transaction
	// it sees all that anybody has added.
	Count(ctx context.Context) (int, error)

	// List returns those of the releases that are there, in the order of ids, which
	// name none twice.
	List(ctx context.Context, ids []id.Release) ([]release.Release, error)

	// Add fails with Conflict on a taken id, and on a version that another release
	// has for the same target (release.Version.Key).
	Add(ctx context.Context, r release.Release) error

	// Update replaces a release by what fn makes of it, locked against other
	// changes, and returns what it is then; an error of fn comes back unchanged,
	// and nothing is changed. Fn changes neither ID, Version nor Target, may run
	// more than once, and touches nothing else.
	Update(ctx context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (release.Release, error)
}

// Adoption holds how often devices have asked for updates.
type Adoption interface {
	// Add adds the counts to those that are there, all or none of them.
	Add(ctx context.Context, all []release.Tally) error

	// List returns the counts of the days from the first to the last, both
	// included, by day, platform, arch, channel and version; empty values of the
	// target select all. They are those that follow after in this order, all for the
	// zero value; at most limit of them, 0: all.
	List(ctx context.Context, first, last release.Day, of release.Target, after release.Tally, limit int) ([]release.Tally, error)

	// Prune removes the counts of days before the day.
	Prune(ctx context.Context, before release.Day) error
}
