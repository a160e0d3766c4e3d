package gormdb

import (
	"context"
	"slices"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

type blobNameRow struct {
	Org       id.Org `gorm:"column:org_id"`
	Name      string `gorm:"primaryKey"`
	Discarded bool   `gorm:"column:is_discarded"`
	At        time.Time
}

var blobNameTable = tenant[blobNameRow]("blob_names", "Blob")

func (r *blobNameRow) blob() (object.Blob, error) { return object.Blob(*r), nil }

type blobNames struct{ *conn }

var _ ports.BlobNames = blobNames{}

// Announce shares a commit with others on SQLite.
func (q blobNames) Announce(ctx context.Context, o id.Org, name string, now time.Time) error {
	add := func(c *conn) error { return blobNameTable.of(c.write, o).add(ctx, &blobNameRow{Name: name, At: now}) }
	if q.dialect != onSQLite {
		return add(q.conn)
	}
	return q.atomic(ctx, add)
}

func (q blobNames) Forget(ctx context.Context, b object.Blob) error {
	s := blobNameTable.of(q.write, b.Org).filter("name = ? AND is_discarded = ?", b.Name, b.Discarded)
	return s.one(s.remove(ctx))
}

// Discard takes each name once, because one statement changes no row twice.
func (q blobNames) Discard(ctx context.Context, o id.Org, names []string, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	names = slices.Sorted(slices.Values(names))
	_, err := exec(ctx, q.write, "Blob", tenantSQL(o, discardNames[q.dialect], true, now.UnixMilli(), list(q.dialect, slices.Compact(names))))
	return err
}

// discardAll discards every name that the organisation has, of those that no
// object names yet by the key that they begin with.
func (q blobNames) discardAll(ctx context.Context, o id.Org, now time.Time) error {
	_, err := exec(ctx, q.write, "Blob", tenantSQL(o, discardObjects[q.dialect], true, now.UnixMilli()))
	if err != nil {
		return err
	}
	_, err = blobNameTable.of(q.write, o).filter("name >= ? AND name < ? AND NOT is_discarded", string(o)+"/", string(o)+"0"). // 0 comes after /
																	set(ctx, "is_discarded = ?, at = ?", true, now.UnixMilli())
	return err
}

func (q blobNames) Expire(ctx context.Context, before time.Time) error {
	_, err := blobNameTable.crossTenant(q.write, crossTenantBlobs).filter("NOT is_discarded AND at < ?", before.UnixMilli()).set(ctx, "is_discarded = ?", true)
	return err
}

func (q blobNames) Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	if limit <= 0 {
		return nil, nil
	}
	s := blobNameTable.crossTenant(q.read, crossTenantBlobs).filter("at < ? AND name >= ?", before.UnixMilli(), atLeast(after+"\x00"))
	return all(ctx, s.page("name", limit), (*blobNameRow).blob)
}

func (q blobNames) Known(ctx context.Context, names []string) (map[string]bool, error) {
	known := make(map[string]bool, len(names))
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !storable(name) })
	if len(names) == 0 {
		return known, nil
	}
	of := list(q.dialect, names)
	var name string
	return known, eachRow(ctx, q.read, "Blob", crossTenantSQL(crossTenantBlobs, knownBlobs[q.dialect], of, of), []any{&name}, func() error {
		known[name] = true
		return nil
	})
}
