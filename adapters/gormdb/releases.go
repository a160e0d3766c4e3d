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
	Version      string         `gorm:"not null"`
	Key          string         `gorm:"column:version_key;not null"`
	Platform     string         `gorm:"not null"`
	Arch         string         `gorm:"not null"`
	Channel      string         `gorm:"not null"`
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
	Revision     int64 `gorm:"not null"`
}

func (releaseRow) TableName() string { return "releases" }

// releaseRevisionRow is the only one in its table.
type releaseRevisionRow struct {
	One bool  `gorm:"primaryKey"`
	N   int64 `gorm:"not null"`
}

func (releaseRevisionRow) TableName() string { return "release_revision" }

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
	if r.FileSize.Valid {
		made.FileSizeBytes = &r.FileSize.Int64
	}
	return made, err
}

const releaseColumns = "r.id, r.version, r.platform, r.arch, r.channel, r.download_url, r.sha512, r.sha1, r.file_size_bytes, r.notes, " +
	"r.min_os_version, r.signature, r.is_mandatory, r.rollout, r.is_active, r.published_at, r.updated_at"

func scanRelease(s scanner) (release.Release, error) {
	var r releaseRow
	err := s.Scan(&r.ID, &r.Version, &r.Platform, &r.Arch, &r.Channel, &r.DownloadURL, &r.SHA512, &r.SHA1, &r.FileSize, &r.Notes,
		&r.MinOSVersion, &r.Signature, &r.IsMandatory, &r.Rollout, &r.IsActive, &r.Published, &r.Updated)
	if err != nil {
		return release.Release{}, err
	}
	return r.release()
}

type releases struct{ *conn }

var _ ports.Releases = releases{}

const selectRevision = "SELECT n FROM release_revision"

func (q releases) Revision(ctx context.Context) (int64, error) {
	return get(ctx, q.read, "Revision", scanInt, selectRevision)
}

// Since is one statement, so that the releases are those of the revision. Without
// any there was no change, as a change leaves a release and none is removed.
func (q releases) Since(ctx context.Context, revision int64) (int64, []release.Entry, error) {
	now := max(revision, 0)
	found, err := all(ctx, q.read, "Release", func(s scanner) (release.Entry, error) {
		var r releaseRow
		if err := s.Scan(&r.ID, &r.Version, &r.Platform, &r.Arch, &r.Channel, &r.Rollout, &r.IsActive, &now); err != nil {
			return release.Entry{}, err
		}
		made, err := r.release()
		return made.Entry(), err
	}, "SELECT r.id, r.version, r.platform, r.arch, r.channel, r.rollout, r.is_active, v.n FROM releases r CROSS JOIN release_revision v WHERE r.revision > ?", revision)
	if err != nil {
		return 0, nil, err
	}
	return now, found, nil
}

func (q releases) Count(ctx context.Context) (int, error) {
	n, err := get(ctx, q.read, "Release", scanInt, "SELECT COUNT(*) FROM releases")
	return int(n), err
}

func (q releases) List(ctx context.Context, rs []id.Release) ([]release.Release, error) {
	return named(ctx, q.read, "Release", scanRelease, func(r release.Release) id.Release { return r.ID }, rs,
		"SELECT "+releaseColumns+" FROM releases r WHERE "+q.dialect.in("r.id", "uuid"), list(q.dialect, ids(rs)))
}

func (q releases) Add(ctx context.Context, r release.Release) error {
	return q.revised(ctx, func(c *conn, revision int64) error {
		return add(ctx, c.write, "Release", rowOfRelease(r, revision))
	})
}

func (q releases) Update(ctx context.Context, r id.Release, fn func(release.Release) (release.Release, error)) (updated release.Release, err error) {
	err = q.revised(ctx, func(c *conn, revision int64) error {
		there, err := get(ctx, c.write, "Release", scanRelease, "SELECT "+releaseColumns+" FROM releases r WHERE r.id = ?", string(r))
		if err != nil {
			return err
		}
		next, err := fn(there)
		if err != nil {
			return err
		}
		row := rowOfRelease(next, revision)
		tx := c.write.WithContext(ctx).Model(&releaseRow{}).Where("id = ?", string(r)).Select("*").
			Omit("id", "version", "version_key", "platform", "arch", "channel").Updates(row)
		if err := failed(ctx, tx.Error, "Release"); err != nil {
			return err
		}
		updated, err = row.release()
		return failed(ctx, err, "Release")
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
		was, err := get(ctx, c.write, "Revision", scanInt, selectRevision+c.dialect.held())
		if err != nil {
			return err
		}
		if err := change(c, was+1); err != nil {
			return err
		}
		_, err = exec(ctx, c.write, "Revision", "UPDATE release_revision SET n = ?", was+1)
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

// tallyRow is how counts are passed to the database.
type tallyRow struct {
	Day      string `json:"day"`
	Platform string `json:"platform"`
	Arch     string `json:"arch"`
	Channel  string `json:"channel"`
	Version  string `json:"version"`
	Checks   int64  `json:"checks"`
	Offered  int64  `json:"offered"`
}

const tallyNames = "day, platform, arch, channel, version, checks, offered"

// addTallies is a statement by dialect.
var addTallies = func() (s [2]string) {
	columns := []column{{"day", "text"}, {"platform", "text"}, {"arch", "text"}, {"channel", "text"}, {"version", "text"}, {"checks", "bigint"}, {"offered", "bigint"}}
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = "INSERT INTO release_adoption (" + tallyNames + ") SELECT " + tallyNames + " FROM " + d.records(columns) +
			" WHERE 1 = 1 ON CONFLICT (day, platform, arch, channel, version) DO UPDATE SET " +
			"checks = release_adoption.checks + excluded.checks, offered = release_adoption.offered + excluded.offered"
	}
	return s
}()

func scanTally(s scanner) (release.Tally, error) {
	var r adoptionRow
	if err := s.Scan(&r.Day, &r.Platform, &r.Arch, &r.Channel, &r.Version, &r.Checks, &r.Offered); err != nil {
		return release.Tally{}, err
	}
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
	rows := make([]tallyRow, 0, len(counts))
	at := make(map[tallyRow]int, len(counts))
	for _, t := range counts {
		key := tallyRow{Day: string(t.Day), Platform: string(t.Platform), Arch: string(t.Arch), Channel: string(t.Channel), Version: t.Version}
		i, ok := at[key]
		if !ok {
			i = len(rows)
			at[key] = i
			rows = append(rows, key)
		}
		rows[i].Checks += t.Checks
		rows[i].Offered += t.Offered
	}
	slices.SortFunc(rows, func(a, b tallyRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Arch, b.Arch),
			cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Version, b.Version))
	})
	text, err := written(rows)
	if err != nil {
		return failed(ctx, err, "Count")
	}
	return q.atomic(ctx, func(c *conn) error {
		_, err := exec(ctx, c.write, "Count", addTallies[c.dialect], text)
		return err
	})
}

func (q adoption) List(ctx context.Context, first, last release.Day, of release.Target, after release.Tally, limit int) ([]release.Tally, error) {
	query := "SELECT " + tallyNames + " FROM release_adoption WHERE day >= ? AND day <= ?"
	args := []any{string(max(first, after.Day)), string(last)}
	if after.Day != "" {
		query += " AND (day, platform, arch, channel, version) > (?, ?, ?, ?, ?)"
		args = append(args, string(after.Day), string(after.Platform), string(after.Arch), string(after.Channel), after.Version)
	}
	for _, c := range []struct{ column, value string }{{"platform", string(of.Platform)}, {"arch", string(of.Arch)}, {"channel", string(of.Channel)}} {
		if c.value != "" {
			query += " AND " + c.column + " = ?"
			args = append(args, c.value)
		}
	}
	query += " ORDER BY day, platform, arch, channel, version"
	if limit > 0 {
		query += " LIMIT ?"
		args = append(args, limit)
	}
	return all(ctx, q.read, "Count", scanTally, query, args...)
}

// Prune names a first day as well: of a range with one end alone Postgres thinks
// that it is a third of the table.
func (q adoption) Prune(ctx context.Context, before release.Day) error {
	_, err := exec(ctx, q.write, "Count", "DELETE FROM release_adoption WHERE day >= '' AND day < ?", string(before))
	return err
}
