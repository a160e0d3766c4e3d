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
	Name        string `gorm:"primaryKey"`
	OrgID       string `gorm:"type:uuid;not null"`
	IsDiscarded bool   `gorm:"not null"`
	At          int64  `gorm:"not null"`
}

func (blobNameRow) TableName() string { return "blob_names" }

func scanBlobName(s scanner) (object.Blob, error) {
	var r blobNameRow
	if err := s.Scan(&r.Name, &r.OrgID, &r.IsDiscarded, &r.At); err != nil {
		return object.Blob{}, err
	}
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
	n, err := exec(ctx, q.write, "Blob", "INSERT INTO blob_names (org_id, name, is_discarded, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		string(o), name, false, now.UnixMilli())
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "Blob is there already")
	}
	return err
}

func (q blobNames) Forget(ctx context.Context, b object.Blob) error {
	n, err := exec(ctx, q.write, "Blob", "DELETE FROM blob_names WHERE org_id = ? AND name = ? AND is_discarded = ?", string(b.Org), b.Name, b.Discarded)
	if err == nil && n == 0 {
		err = fault.Missing("Blob")
	}
	return err
}

// discarded is what becomes of a name that is there when it is discarded.
const discarded = " ON CONFLICT (name) DO UPDATE SET is_discarded = excluded.is_discarded, at = excluded.at" +
	" WHERE NOT blob_names.is_discarded AND blob_names.org_id = excluded.org_id"

// discardNames is a statement by dialect.
var discardNames = func() (s [2]string) {
	for d, from := range map[dialect]string{onSQLite: "SELECT ?, value, ?, ? FROM json_each(?)", onPostgres: "SELECT ?::uuid, name, ?::boolean, ?::bigint FROM unnest(?::text[]) AS name"} {
		s[d] = "INSERT INTO blob_names (org_id, name, is_discarded, at) " + from + " WHERE 1 = 1" + discarded
	}
	return s
}()

// Discard takes each name once, because one statement changes no row twice.
func (q blobNames) Discard(ctx context.Context, o id.Org, names []string, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	names = slices.Sorted(slices.Values(names))
	_, err := exec(ctx, q.write, "Blob", discardNames[q.dialect], string(o), true, now.UnixMilli(), list(q.dialect, slices.Compact(names)))
	return err
}

// discardAll discards every name that the organisation has, of those that no
// object names yet by the key that they begin with.
func (q blobNames) discardAll(ctx context.Context, o id.Org, now time.Time) error {
	_, err := exec(ctx, q.write, "Blob", "INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT DISTINCT x.org_id, x.blob, "+
		q.dialect.param(column{"is_discarded", "boolean"})+", "+q.dialect.param(column{"at", "bigint"})+" FROM objects x WHERE x.org_id = ?"+discarded,
		true, now.UnixMilli(), string(o))
	if err != nil {
		return err
	}
	_, err = exec(ctx, q.write, "Blob", "UPDATE blob_names SET is_discarded = ?, at = ? WHERE org_id = ? AND name >= ? AND name < ? AND NOT is_discarded",
		true, now.UnixMilli(), string(o), string(o)+"/", string(o)+"0") // 0 comes after /
	return err
}

func (q blobNames) Expire(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, acrossBlobs.on(q.write), "Blob", "UPDATE blob_names SET is_discarded = ? WHERE NOT is_discarded AND at < ?", true, before.UnixMilli())
	return err
}

func (q blobNames) Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	if limit <= 0 {
		return nil, nil
	}
	query, limited := q.dialect.page("SELECT name, org_id, is_discarded, at FROM blob_names WHERE at < ? AND name >= ?", "name", limit)
	return all(ctx, acrossBlobs.on(q.read), "Blob", scanBlobName, query, append([]any{before.UnixMilli(), atLeast(after + "\x00")}, limited...)...)
}

func (q blobNames) Known(ctx context.Context, names []string) (map[string]bool, error) {
	known := make(map[string]bool, len(names))
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !storable(name) })
	if len(names) == 0 {
		return known, nil
	}
	of := list(q.dialect, names)
	return known, each(ctx, acrossBlobs.on(q.read), "Blob", scanText[string], func(name string) error {
		known[name] = true
		return nil
	}, "SELECT b.name FROM blob_names b WHERE "+q.dialect.in("b.name", "text")+" UNION ALL SELECT x.blob FROM objects x WHERE "+q.dialect.in("x.blob", "text"), of, of)
}
