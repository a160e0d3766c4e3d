package gormdb

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"collab/domain/id"
	"collab/domain/release"
	"collab/ports"
)

type releaseRow struct {
	ID           string         `gorm:"type:uuid;primaryKey"`
	Version      string         `gorm:"<-:create;not null"`
	Key          string         `gorm:"->:false;<-:create;column:version_key;not null"`
	Platform     string         `gorm:"<-:create;not null"`
	Arch         string         `gorm:"<-:create;not null"`
	Channel      string         `gorm:"<-:create;not null"`
	DownloadURL  string         `gorm:"not null"`
	SHA512       sql.NullString `gorm:"column:sha512"`
	SHA1         sql.NullString `gorm:"column:sha1"`
	FileSize     sql.NullInt64  `gorm:"column:file_size_bytes"`
	Notes        sql.NullString
	MinOSVersion sql.NullString
	Signature    sql.NullString
	IsMandatory  bool  `gorm:"not null"`
	Rollout      int64 `gorm:"not null"`
	IsActive     bool  `gorm:"not null"`
	Published    int64 `gorm:"column:published_at;not null"`
	Updated      int64 `gorm:"column:updated_at;not null;autoUpdateTime:false"`
	Revision     int64 `gorm:"->:false;<-;not null"`
}

func (releaseRow) TableName() string { return "releases" }

// releaseRevisionRow is the only one in its table.
type releaseRevisionRow struct {
	One bool  `gorm:"primaryKey"`
	N   int64 `gorm:"not null"`
}

func (releaseRevisionRow) TableName() string { return "release_revision" }

var (
	releaseTable  = shared[releaseRow]("Release")
	revisionTable = shared[releaseRevisionRow]("Revision")
)

func (r *releaseRevisionRow) revision() (int64, error) { return r.N, nil }

func rowOfRelease(r release.Release, revision int64) *releaseRow {
	row := &releaseRow{
		ID: string(r.ID), Version: r.Version.String(), Key: r.Version.Key(), Platform: string(r.Platform), Arch: string(r.Arch), Channel: string(r.Channel),
		DownloadURL: r.DownloadURL, SHA512: optional(r.SHA512), SHA1: optional(r.SHA1), Notes: optional(r.Notes), MinOSVersion: optional(r.MinOSVersion),
		Signature: optional(r.Signature), IsMandatory: r.Mandatory, Rollout: int64(r.Rollout), IsActive: r.Active,
		Published: r.PublishedAt.UnixMilli(), Updated: r.UpdatedAt.UnixMilli(), Revision: revision,
	}
	if r.FileSizeBytes != nil {
		row.FileSize = sql.NullInt64{Int64: *r.FileSizeBytes, Valid: true}
	}
	return row
}

func (r *releaseRow) release() (release.Release, error) {
	version, err := release.ParseVersion("version", r.Version)
	made := release.Release{
		ID: id.Release(r.ID), Version: version,
		Target: release.Target{Platform: release.Platform(r.Platform), Arch: release.Arch(r.Arch), Channel: release.Channel(r.Channel)},
		Settings: release.Settings{
			DownloadURL: r.DownloadURL, SHA512: pointer[string](r.SHA512), SHA1: pointer[string](r.SHA1), Notes: pointer[string](r.Notes),
			MinOSVersion: pointer[string](r.MinOSVersion), Signature: pointer[string](r.Signature), Mandatory: r.IsMandatory, Rollout: int(r.Rollout), Active: r.IsActive,
		},
		PublishedAt: instant(r.Published), UpdatedAt: instant(r.Updated),
	}
	if size := r.FileSize.Int64; r.FileSize.Valid {
		made.FileSizeBytes = &size
	}
	return made, err
}

type releases struct{ *conn }

var _ ports.Releases = releases{}

func (q releases) Revision(ctx context.Context) (int64, error) {
	return get(ctx, revisionTable.on(q.read), (*releaseRevisionRow).revision)
}

// Since is one statement, so that the releases are those of the revision. Without
// any there was no change, as a change leaves a release and none is removed.
func (q releases) Since(ctx context.Context, revision int64) (int64, []release.Entry, error) {
	now := max(revision, 0)
	s := releaseTable.on(q.read).read("id", "version", "platform", "arch", "channel", "rollout", "is_active").filter("releases.revision > ?", revision)
	found, err := all(ctx, s.join("releases CROSS JOIN release_revision v", ", v.n", &now), func(r *releaseRow) (release.Entry, error) {
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
	return named(ctx, releaseTable.on(q.read), (*releaseRow).release, func(r release.Release) id.Release { return r.ID }, rs)
}

func (q releases) Add(ctx context.Context, r release.Release) error {
	return q.revised(ctx, func(c *conn, revision int64) error {
		return releaseTable.on(c.write).add(ctx, rowOfRelease(r, revision))
	})
}

func (q releases) Update(ctx context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (updated release.Release, err error) {
	err = q.revised(ctx, func(c *conn, revision int64) error {
		updated, err = update(ctx, releaseTable.on(c.write).key(string(r)), (*releaseRow).release,
			func(r release.Release) (*releaseRow, error) { return rowOfRelease(r, revision), nil }, fn)
		return err
	})
	if err != nil {
		return release.Release{}, err
	}
	return updated, nil
}

// revised runs a change of the releases, with nobody else changing any until the
// transaction ends, and counts it if it succeeds. The change is given the revision
// that it makes.
func (q releases) revised(ctx context.Context, change func(c *conn, revision int64) error) error {
	return q.atomic(ctx, func(c *conn) error {
		was, err := get(ctx, revisionTable.on(c.write).held(), (*releaseRevisionRow).revision)
		if err != nil {
			return err
		}
		if err := change(c, was+1); err != nil {
			return err
		}
		_, err = revisionTable.on(c.write).filter("one").set(ctx, "n = ?", was+1)
		return err
	})
}

type adoptionRow struct {
	Day      string `gorm:"primaryKey"`
	Platform string `gorm:"primaryKey"`
	Arch     string `gorm:"primaryKey"`
	Channel  string `gorm:"primaryKey"`
	Version  string `gorm:"primaryKey"`
	Checks   int64  `gorm:"not null"`
	Offered  int64  `gorm:"not null"`
}

func (adoptionRow) TableName() string { return "release_adoption" }

var (
	adoptionTable = shared[adoptionRow]("Count")
	addTallies    = adoptionTable.insertsRecords(adoptionTable.fields, adoptionTable.adding("checks", "offered"))
)

func (r *adoptionRow) tally() (release.Tally, error) {
	return release.Tally{
		Day: release.Day(r.Day), Target: release.Target{Platform: release.Platform(r.Platform), Arch: release.Arch(r.Arch), Channel: release.Channel(r.Channel)},
		Version: r.Version, Checks: r.Checks, Offered: r.Offered,
	}, nil
}

type adoption struct{ *conn }

var _ ports.Adoption = adoption{}

// Add comes to the rows in their order, as everybody does who changes some of
// them, so that no two wait for each other. A statement changes a row once only,
// and so the counts that belong together are summed before.
func (q adoption) Add(ctx context.Context, counts []release.Tally) error {
	if len(counts) == 0 {
		return nil
	}
	rows := make([]adoptionRow, 0, len(counts))
	at := make(map[adoptionRow]int, len(counts))
	for _, t := range counts {
		key := adoptionRow{Day: string(t.Day), Platform: string(t.Platform), Arch: string(t.Arch), Channel: string(t.Channel), Version: t.Version}
		i, ok := at[key]
		if !ok {
			i = len(rows)
			at[key] = i
			rows = append(rows, key)
		}
		rows[i].Checks += t.Checks
		rows[i].Offered += t.Offered
	}
	slices.SortFunc(rows, func(a, b adoptionRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Arch, b.Arch),
			cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Version, b.Version))
	})
	return q.atomic(ctx, func(c *conn) error {
		_, err := adoptionTable.on(c.write).insertRecords(ctx, addTallies, rows, adoptionTable.fields)
		return err
	})
}

func (q adoption) List(ctx context.Context, first, last release.Day, of release.Target, after release.Tally, limit int) ([]release.Tally, error) {
	const order = "day, platform, arch, channel, version"
	s := adoptionTable.on(q.read).filter("day >= ? AND day <= ?", string(max(first, after.Day)), string(last))
	if after.Day != "" {
		s = s.after(order, string(after.Day), string(after.Platform), string(after.Arch), string(after.Channel), after.Version)
	}
	for _, c := range []struct{ column, value string }{{"platform", string(of.Platform)}, {"arch", string(of.Arch)}, {"channel", string(of.Channel)}} {
		if c.value != "" {
			s = s.filter(c.column+" = ?", c.value)
		}
	}
	return all(ctx, s.page(order, limit), (*adoptionRow).tally)
}

// Prune names a first day as well: of a range with one end alone Postgres thinks
// that it is a third of the table.
func (q adoption) Prune(ctx context.Context, before release.Day) error {
	_, err := adoptionTable.on(q.write).filter("day >= '' AND day < ?", string(before)).remove(ctx)
	return err
}
