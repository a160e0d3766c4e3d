package gormdb

import (
	"context"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

type blobNameRow struct {
	OrgID       string `gorm:"type:uuid;not null"`
	Name        string `gorm:"primaryKey"`
	IsDiscarded bool   `gorm:"not null"`
	At          int64  `gorm:"not null"`
}

func (blobNameRow) TableName() string { return "blob_names" }

var blobNameTable = tenant[blobNameRow]("Blob", nil)

func (r *blobNameRow) blob() (object.Blob, error) {
	return object.Blob{Org: id.Org(r.OrgID), Name: r.Name, Discarded: r.IsDiscarded, At: instant(r.At)}, nil
}

type blobNames struct{ *conn }

var _ ports.BlobNames = blobNames{}

// Announce shares a commit with others on SQLite.
func (q blobNames) Announce(ctx context.Context, o id.Org, name string, now time.Time) error {
	if q.dialect != onSQLite {
		return q.announce(ctx, o, name, now)
	}
	return q.atomic(ctx, func(c *conn) error { return (blobNames{c}).announce(ctx, o, name, now) })
}

func (q blobNames) announce(ctx context.Context, o id.Org, name string, now time.Time) error {
	r := blobNameRow{Name: name, At: now.UnixMilli()}
	n, err := exec(ctx, q.write, "Blob", inserting(o, announceBlob[q.dialect], &r, blobNameTable.rest))
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "Blob is there already")
	}
	return err
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
	return known, queryEach(ctx, q.read, "Blob", scanText[string], func(name string) error {
		known[name] = true
		return nil
	}, crossTenantSQL(crossTenantBlobs, knownBlobs[q.dialect], of, of))
}
