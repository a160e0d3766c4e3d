package gormdb

import (
	"context"
	"database/sql"
	"strings"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

type objectRow struct {
	OrgID         string         `gorm:"type:uuid;primaryKey"`
	ID            string         `gorm:"type:uuid;primaryKey"`
	StorageKey    string         `gorm:"not null"`
	FoldedKey     string         `gorm:"not null"` // the key as it is compared with others
	Path          string         `gorm:"not null"`
	Kind          string         `gorm:"not null"`
	Scope         string         `gorm:"not null"`
	WorkspaceID   sql.NullString `gorm:"type:uuid"` // of a personal object only a note
	InWorkspaceID sql.NullString `gorm:"type:uuid"` // the same, of a shared one
	TeamID        sql.NullString `gorm:"type:uuid"`
	OwnerID       sql.NullString `gorm:"type:uuid"`
	MimeType      string         `gorm:"not null"`
	Version       int64          `gorm:"not null"`
	CreatedBy     string         `gorm:"type:uuid;not null"`
	UpdatedBy     string         `gorm:"type:uuid;not null"`
	Created       int64          `gorm:"column:created_at;not null"`
	Updated       int64          `gorm:"column:updated_at;not null"`
	Blob          string         `gorm:"not null"`
	Size          int64          `gorm:"not null"`
	Checksum      string         `gorm:"not null"`
	IsText        bool           `gorm:"not null"`
	N             int64          `gorm:"not null"` // of the last change in the log
}

func (objectRow) TableName() string { return "objects" }

// objectColumns are of the table with the alias x, in the order of dest. The
// keys follow from the rest.
const objectColumns = "x.id, x.path, x.kind, x.scope, x.workspace_id, x.team_id, x.owner_id, x.mime_type, x.version, x.created_by, x.updated_by, x.created_at, x.updated_at, x.blob, x.size, x.checksum, x.is_text, x.n"

func (r *objectRow) dest() []any {
	return []any{
		&r.ID, &r.Path, &r.Kind, &r.Scope, &r.WorkspaceID, &r.TeamID, &r.OwnerID, &r.MimeType, &r.Version, &r.CreatedBy, &r.UpdatedBy,
		&r.Created, &r.Updated, &r.Blob, &r.Size, &r.Checksum, &r.IsText, &r.N,
	}
}

func (r *objectRow) object(o id.Org) object.Object {
	return object.Object{
		Place: object.Place{
			Kind: object.Kind(r.Kind), Scope: object.Scope(r.Scope), Workspace: pointer[id.Workspace](r.WorkspaceID),
			Team: pointer[id.Team](r.TeamID), Owner: pointer[id.User](r.OwnerID),
		},
		ID: id.Object(r.ID), Org: o, Path: r.Path, MimeType: r.MimeType, Version: r.Version,
		CreatedBy: id.User(r.CreatedBy), UpdatedBy: id.User(r.UpdatedBy), CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
		Content: object.Content{Blob: r.Blob, Size: r.Size, Checksum: r.Checksum, Text: r.IsText}, N: r.N,
	}
}

// scanObjects returns the scanner of a list, which reads every row into the
// same place.
func scanObjects(o id.Org) func(scanner) (object.Object, error) {
	var r objectRow
	dest := r.dest()
	return func(s scanner) (object.Object, error) {
		if err := s.Scan(dest...); err != nil {
			return object.Object{}, err
		}
		return r.object(o), nil
	}
}

type objects struct{ *conn }

var _ ports.Objects = objects{}

func (q objects) Get(ctx context.Context, o id.Org, of id.Object) (object.Object, error) {
	return get(ctx, q.read, "Object", scanObjects(o), "SELECT "+objectColumns+" FROM objects x WHERE x.org_id = ? AND x.id = ?", string(o), string(of))
}

func (q objects) At(ctx context.Context, o id.Org, storageKey string) (object.Object, error) {
	if !storable(storageKey) {
		return object.Object{}, fault.Missing("Object")
	}
	return get(ctx, q.read, "Object", scanObjects(o), "SELECT "+objectColumns+" FROM objects x WHERE x.org_id = ? AND x.folded_key = ?",
		string(o), object.Fold(storageKey))
}

// storable reports whether Postgres can keep the text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// objectWritten are the columns of an object in the order of Add's parameters.
var objectWritten = []column{
	{"org_id", "uuid"}, {"id", "uuid"}, {"storage_key", "text"}, {"folded_key", "text"}, {"path", "text"}, {"kind", "text"}, {"scope", "text"},
	{"workspace_id", "uuid"}, {"in_workspace_id", "uuid"}, {"team_id", "uuid"}, {"owner_id", "uuid"}, {"created_by", "uuid"}, {"created_at", "bigint"},
	{"mime_type", "text"}, {"version", "bigint"}, {"updated_by", "uuid"}, {"updated_at", "bigint"},
	{"blob", "text"}, {"size", "bigint"}, {"checksum", "text"}, {"is_text", "boolean"}, {"n", "bigint"},
}

// objectFixed is how many of them stay as they are.
const objectFixed = 13

// changing returns what changes of an object.
func changing(v object.Object) []any {
	return []any{v.MimeType, v.Version, string(v.UpdatedBy), v.UpdatedAt.UnixMilli(), v.Blob, v.Size, v.Checksum, v.Text, v.N}
}

// addObject are the statements of Add by dialect and by whether the object is in
// a workspace (1) and in a team (2).
var addObject = func() (s [2][4]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		var names, params []string
		for _, c := range objectWritten {
			names, params = append(names, c.name), append(params, d.param(c))
		}
		insert := "INSERT INTO objects (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(params, ", ") +
			" WHERE NOT EXISTS (SELECT 1 FROM objects a WHERE a.org_id = ? AND " + d.in("a.folded_key", "text") + ")" +
			" AND NOT EXISTS (SELECT 1 FROM objects b WHERE b.org_id = ? AND b.folded_key > ? AND b.folded_key < ?)"
		for i := range s[d] {
			s[d][i] = insert
			if i&1 != 0 {
				s[d][i] += " AND EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = ? AND w.id = ?)"
			}
			if i&2 != 0 {
				s[d][i] += " AND EXISTS (SELECT 1 FROM teams t WHERE t.org_id = ? AND t.id = ?)"
			}
			s[d][i] += " ON CONFLICT DO NOTHING"
		}
	}
	return s
}()

// Add is one statement under the log's lock, which keeps those that would be its
// folders, or below it, from being added meanwhile.
func (q objects) Add(ctx context.Context, o id.Org, v object.Object) error {
	v.Org = o
	key := v.StorageKey()
	folded := object.Fold(key)
	placed := v.Workspace
	if v.Scope == object.Personal {
		placed = nil
	}
	args := append([]any{
		string(o), string(v.ID), key, folded, v.Path, string(v.Kind), string(v.Scope),
		text(v.Workspace), text(placed), text(v.Team), text(v.Owner), string(v.CreatedBy), v.CreatedAt.UnixMilli(),
	}, changing(v)...)
	args = append(args, string(o), list(q.dialect, object.Above(folded)), string(o), folded+"/", folded+"0") // 0 comes after /
	which := 0
	if placed != nil {
		which, args = which|1, append(args, string(o), string(*placed))
	}
	if v.Team != nil {
		which, args = which|2, append(args, string(o), string(*v.Team))
	}
	return q.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); err != nil {
			return err
		}
		n, err := exec(ctx, c.write, "Object", addObject[c.dialect][which], args...)
		if err != nil || n == 1 {
			return err
		}
		if placed != nil {
			if _, err := (workspaces{c}).Get(ctx, o, *placed); err != nil {
				return err
			}
		}
		if v.Team != nil {
			if _, err := (teams{c}).Get(ctx, o, *v.Team); err != nil {
				return err
			}
		}
		return fault.New(fault.Conflict, "Object is there already")
	})
}

var putObject = func() string {
	var sets []string
	for _, c := range objectWritten[objectFixed:] {
		sets = append(sets, c.name+" = ?")
	}
	return "UPDATE objects SET " + strings.Join(sets, ", ") + " WHERE org_id = ? AND id = ?"
}()

func (q objects) Put(ctx context.Context, o id.Org, v object.Object) error {
	return q.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); fault.Is(err, fault.NotFound) {
			return fault.Missing("Object")
		} else if err != nil {
			return err
		}
		n, err := exec(ctx, c.write, "Object", putObject, append(changing(v), string(o), string(v.ID))...)
		if err == nil && n == 0 {
			err = fault.Missing("Object")
		}
		return err
	})
}

// Replace is one statement on Postgres, and so one way to the server instead of
// eight; where the database cannot order it among others, it is a transaction.
func (s storage) Replace(ctx context.Context, o id.Org, was object.Content, c object.Change) (head object.Head, err error) {
	if s.dialect == onPostgres && !s.inside() {
		if head, err = s.replaceAtOnce(ctx, o, was, c); err == nil {
			s.db.changed(object.Hint{Org: o, N: head.N})
		}
		if !disordered(err) {
			return head, err
		}
	}
	err = s.atomic(ctx, func(tx *conn) error {
		head, err = storage{tx}.replace(ctx, o, was, c)
		return err
	})
	return head, err
}

func changed() error { return fault.New(fault.Conflict, "The object has changed") }

// replace looks at everything before it changes something.
func (s storage) replace(ctx context.Context, o id.Org, was object.Content, c object.Change) (head object.Head, err error) {
	if _, err := changes(s).lock(ctx, o); fault.Is(err, fault.NotFound) {
		return head, changed()
	} else if err != nil {
		return head, err
	}
	_, there, err := row(ctx, s.write, "Object", scanInt, "SELECT 1 FROM objects WHERE org_id = ? AND id = ? AND blob = ?", string(o), string(c.Object.ID), was.Blob)
	if err == nil && !there {
		err = changed()
	}
	if err != nil {
		return head, err
	}
	if err := s.BlobNames().Forget(ctx, object.Blob{Org: o, Name: c.Object.Blob}); fault.Is(err, fault.NotFound) {
		return head, changed()
	} else if err != nil {
		return head, err
	}
	if err := s.Objects().Put(ctx, o, c.Object); err != nil {
		return head, err
	}
	if err := s.BlobNames().Discard(ctx, o, []string{was.Blob}, c.At); err != nil {
		return head, err
	}
	return s.Changes().Append(ctx, o, c)
}

// replaceObject does all in one statement. Each part takes its rows from the one
// before, so that the log's head is locked first, as everywhere, and nothing is
// changed where something is not as it should be.
var replaceObject = func() string {
	var sets []string
	for _, c := range objectWritten[objectFixed : len(objectWritten)-1] {
		sets = append(sets, c.name+" = ?")
	}
	return "WITH head AS (SELECT h.n + 1 AS n, h.floor FROM log_heads h WHERE h.org_id = ?" + onPostgres.held() + ")," +
		" was AS (SELECT head.n, head.floor FROM objects x, head WHERE x.org_id = ? AND x.id = ? AND x.blob = ?" + onPostgres.held() + " OF x)," +
		" taken AS (DELETE FROM blob_names b USING was WHERE b.org_id = ? AND b.name = ? AND NOT b.is_discarded RETURNING was.n, was.floor)," +
		" put AS (UPDATE objects SET " + strings.Join(sets, ", ") + ", n = taken.n FROM taken WHERE org_id = ? AND id = ?)," +
		" discarded AS (INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT ?::uuid, ?::text, TRUE, ?::bigint FROM taken" + discarded + ")," +
		" logged AS (INSERT INTO changes (org_id, n, type, at, by_user, record) SELECT ?::uuid, taken.n, ?::text, ?::bigint, ?::uuid, ?::text || taken.n || '}' FROM taken)," +
		" moved AS (UPDATE log_heads SET n = taken.n FROM taken WHERE org_id = ?)" +
		" SELECT taken.n, taken.floor, (SELECT e.epoch FROM log_epoch e) FROM taken"
}()

func (s storage) replaceAtOnce(ctx context.Context, o id.Org, was object.Content, c object.Change) (object.Head, error) {
	c.Object.N = 0
	record, err := written(rowOfRecord(c.Object))
	if err != nil {
		return object.Head{}, failed(ctx, err, "Change")
	}
	values := changing(c.Object)
	args := append([]any{string(o), string(o), string(c.Object.ID), was.Blob, string(o), c.Object.Blob}, values[:len(values)-1]...)
	args = append(args, string(o), string(c.Object.ID), string(o), was.Blob, c.At.UnixMilli(),
		string(o), string(c.Type), c.At.UnixMilli(), set(c.By), strings.TrimSuffix(record, "0}"), string(o)) // the number is the record's last field
	head, found, err := row(ctx, s.write, "Object", scanHead, replaceObject, args...)
	if err == nil && !found {
		err = changed()
	}
	return head, err
}

func (q objects) Remove(ctx context.Context, o id.Org, of []id.Object) error {
	if of = ids(of); len(of) == 0 {
		return nil
	}
	return q.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); fault.Is(err, fault.NotFound) {
			return nil
		} else if err != nil {
			return err
		}
		_, err := exec(ctx, c.write, "Object", "DELETE FROM objects WHERE org_id = ? AND "+c.dialect.in("id", "uuid"), string(o), list(c.dialect, of))
		return err
	})
}
