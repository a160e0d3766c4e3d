package gormdb

import (
	"context"
	"math"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// The most that Expire removes in one transaction, and for how many organisations it asks at once.
const (
	expiredVersions = 500
	expiringOrgs    = 100
)

type versionRow struct {
	OrgID      id.Org    `gorm:"primaryKey"`
	Object     id.Object `gorm:"column:object_id;primaryKey"`
	Version    int64     `gorm:"primaryKey"`
	DeletedKey string    `gorm:"default:null"` // of the last version of a deleted object
	Path       string
	Place      placeRow `gorm:"embedded"`
	MimeType   string
	CreatedBy  id.User
	UpdatedBy  id.User
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Content    contentRow `gorm:"embedded"`
	EndedAt    time.Time
	EndedBy    id.User `gorm:"default:null"`
	ExpiresAt  time.Time
}

var versionTable = tenant[versionRow]("object_versions", "Version")

func rowOfVersion(v object.EarlierVersion) *versionRow {
	r := &versionRow{
		OrgID: v.Org, Object: v.ID, Version: v.Version, Path: v.Path, Place: placeRow(v.Place), MimeType: v.MimeType, CreatedBy: v.CreatedBy,
		UpdatedBy: v.UpdatedBy, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, Content: contentRow(v.Content),
		EndedAt: v.EndedAt, EndedBy: v.EndedBy, ExpiresAt: v.ExpiresAt,
	}
	if v.Deleted {
		r.DeletedKey = v.DeletedKey()
	}
	return r
}

func (r *versionRow) earlier() (object.EarlierVersion, error) {
	return object.EarlierVersion{
		Object: object.Object{
			Place: object.Place(r.Place), ID: r.Object, Org: r.OrgID, Path: r.Path, MimeType: r.MimeType, Version: r.Version, CreatedBy: r.CreatedBy,
			UpdatedBy: r.UpdatedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Content: object.Content(r.Content),
		},
		EndedAt: r.EndedAt, EndedBy: r.EndedBy, Deleted: r.DeletedKey != "", ExpiresAt: r.ExpiresAt,
	}, nil
}

type versions struct{ *conn }

func (s storage) Versions() ports.Versions { return versions(s) }

func (q versions) List(
	ctx context.Context, o id.Org, objectID id.Object, before int64, limit int, fn func(object.EarlierVersion) error,
) error {
	s := versionTable.of(q.read, o).filter("object_id = ? AND version < ?", cursorID(objectID), before)
	return each(ctx, s.page("version DESC", limit), (*versionRow).earlier, fn)
}

func (q versions) Deleted(ctx context.Context, o id.Org, viewer *org.Actor, f object.Filter, fn func(object.EarlierVersion) error) error {
	s, some := objectList(versionTable.of(q.read, o), "deleted_key", "object_versions_deleted", o, viewer, f)
	if !some {
		return nil
	}
	return each(ctx, s, (*versionRow).earlier, fn)
}

func (q versions) Keep(ctx context.Context, o id.Org, keep object.Retention, ended ...object.EarlierVersion) error {
	if len(ended) == 0 {
		return nil
	}
	return q.atomicWithLog(ctx, o, func(c *conn) error {
		rows := make([]versionRow, len(ended))
		var many, deleted []id.Object
		for i, v := range ended {
			rows[i] = *rowOfVersion(v)
			if mayExceed(v.Version, keep) {
				many = append(many, v.ID)
			}
			if v.Deleted {
				deleted = append(deleted, v.ID)
			}
			c.grow(o, object.Versions, v.Size)
		}
		if err := insertRows(ctx, versionTable.of(c.write, o), keepVersions, "", rows); err != nil {
			return err
		}
		if len(deleted) > 0 {
			expires := ended[0].ExpiresAt.UnixMilli()
			versions := versionTable.of(c.write, o).whereIn("object_id", list(c.dialect, deleted)).filter("expires_at > ?", expires)
			if _, err := versions.set(ctx, "expires_at = ?", expires); err != nil {
				return err
			}
		}
		if len(many) == 0 {
			return nil
		}
		return versions{c}.removeExcess(ctx, o, keep, many, ended[0].EndedAt)
	})
}

// removeExcess removes the earlier versions of objects that are too many. The log is locked.
func (q versions) removeExcess(ctx context.Context, o id.Org, keep object.Retention, of []id.Object, now time.Time) error {
	c := removeExcess[q.dialect].of(o).set("objects", list(q.dialect, of)).set("kept", keep.Versions)
	names, size, err := q.blobs(ctx, c, math.MaxInt64)
	if err != nil {
		return err
	}
	return q.release(ctx, o, names, size, now)
}

// mayExceed reports whether an object can have more versions than are kept when one with the number ends:
// numbers begin with 1.
func mayExceed(version int64, keep object.Retention) bool { return version > keep.Versions }

func (q versions) Take(ctx context.Context, o id.Org, objectID id.Object, version int64) (v object.EarlierVersion, err error) {
	err = q.atomicWithLog(ctx, o, func(c *conn) error {
		row := versionTable.of(c.write, o).key(cursorID(objectID), version)
		if v, err = get(ctx, row, (*versionRow).earlier); err != nil {
			return err
		}
		if err := row.delete(ctx); err != nil {
			return err
		}
		c.grow(o, object.Versions, -v.Size)
		return nil
	})
	return v, err
}

func (q versions) Discard(ctx context.Context, o id.Org, objectIDs []id.Object, size int64, limit int, now time.Time) (n int, err error) {
	some := validIDs(objectIDs)
	if limit <= 0 || objectIDs != nil && len(some) == 0 {
		return 0, nil
	}
	err = q.atomicWithLog(ctx, o, func(c *conn) error {
		s := versionTable.of(c.write, o)
		if objectIDs != nil {
			s, size = s.whereIn("object_id", list(c.dialect, some)), math.MaxInt64
		}
		n, err = versions{c}.discard(ctx, o, firstToExpire(s, limit), size, now)
		return err
	})
	return n, err
}

// firstToExpire returns a query of the names and sizes of the versions that expire first.
func firstToExpire(s selection, limit int) command {
	return s.page("expires_at, version", limit).read("blob", "size").command()
}

// blobs returns the names and sizes of a command's rows, until their sum is at least size.
func (q versions) blobs(ctx context.Context, c command, size int64) (names []string, sum int64, err error) {
	var name string
	var one int64
	err = eachRow(ctx, q.write, "Version", c, []any{&name, &one}, func() error {
		if sum < size {
			names, sum = append(names, name), sum+one
		}
		return nil
	})
	return names, sum, err
}

// release discards the blobs of versions that were removed, which have a size together. The log is locked.
func (q versions) release(ctx context.Context, o id.Org, names []string, size int64, now time.Time) error {
	q.grow(o, object.Versions, -size)
	return blobNames(q).Discard(ctx, o, names, now)
}

// discard removes versions, whose names and sizes a query returns, until their sizes are together at
// least size. The log is locked.
func (q versions) discard(ctx context.Context, o id.Org, selected command, size int64, now time.Time) (int, error) {
	names, sum, err := q.blobs(ctx, selected, size)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	c := removeVersions[q.dialect].of(o).set("names", list(q.dialect, names))
	if _, err := exec(ctx, q.write, "Version", c); err != nil {
		return 0, err
	}
	return len(names), q.release(ctx, o, names, sum, now)
}

func (q versions) Expire(ctx context.Context, now time.Time) error {
	for after, more := id.Org(""), true; more; {
		var o id.Org
		c := orgsWithExpired.crossTenant(crossTenantVersions).
			set("after", cursorID(after)).set("now", now.UnixMilli()).set("limit", expiringOrgs)
		due, err := rowsOf(ctx, q.read, "Version", c, &o, &o)
		if err != nil {
			return err
		}
		for _, after = range due {
			if err := q.expire(ctx, after, now); err != nil {
				return err
			}
		}
		more = len(due) == expiringOrgs
	}
	return nil
}

func (q versions) expire(ctx context.Context, o id.Org, now time.Time) error {
	for n := expiredVersions; n == expiredVersions; {
		err := q.atomicWithLog(ctx, o, func(c *conn) (err error) {
			due := versionTable.of(c.write, o).filter("expires_at <= ?", now.UnixMilli())
			n, err = versions{c}.discard(ctx, o, firstToExpire(due, expiredVersions), math.MaxInt64, now)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
