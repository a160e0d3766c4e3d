package gormdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

// What Prune does in one transaction at most.
const (
	prunedEntries = 5000
	prunedLogs    = 100 // whose organisations cannot write meanwhile
)

type logHeadRow struct {
	OrgID string `gorm:"type:uuid;primaryKey"`
	N     int64  `gorm:"not null"`
	Floor int64  `gorm:"not null"`
}

func (logHeadRow) TableName() string { return "log_heads" }

type changeRow struct {
	OrgID    string         `gorm:"type:uuid;primaryKey"`
	N        int64          `gorm:"primaryKey;autoIncrement:false"`
	Type     string         `gorm:"not null"`
	At       int64          `gorm:"not null"`
	ByUser   sql.NullString `gorm:"type:uuid"`
	Record   sql.NullString // a recordRow
	Audience sql.NullString // an audienceRow
}

func (changeRow) TableName() string { return "changes" }

// recordRow is an object as an entry of the log has it.
type recordRow struct {
	ID        id.Object     `json:"id"`
	Path      string        `json:"path"`
	Kind      object.Kind   `json:"kind"`
	Scope     object.Scope  `json:"scope"`
	Workspace *id.Workspace `json:"workspace,omitempty"`
	Team      *id.Team      `json:"team,omitempty"`
	Owner     *id.User      `json:"owner,omitempty"`
	MimeType  string        `json:"mimeType"`
	Version   int64         `json:"version"`
	CreatedBy id.User       `json:"createdBy"`
	UpdatedBy id.User       `json:"updatedBy"`
	Created   int64         `json:"createdAt"`
	Updated   int64         `json:"updatedAt"`
	Blob      string        `json:"blob"`
	Size      int64         `json:"size"`
	Checksum  string        `json:"checksum"`
	IsText    bool          `json:"isText"`
	N         int64         `json:"n"`
}

func rowOfRecord(v object.Object) recordRow {
	return recordRow{
		v.ID, v.Path, v.Kind, v.Scope, v.Workspace, v.Team, v.Owner, v.MimeType, v.Version, v.CreatedBy, v.UpdatedBy,
		v.CreatedAt.UnixMilli(), v.UpdatedAt.UnixMilli(), v.Blob, v.Size, v.Checksum, v.Text, v.N,
	}
}

func (r recordRow) object(o id.Org) object.Object {
	return object.Object{
		Place: object.Place{Kind: r.Kind, Scope: r.Scope, Workspace: r.Workspace, Team: r.Team, Owner: r.Owner},
		ID:    r.ID, Org: o, Path: r.Path, MimeType: r.MimeType, Version: r.Version, CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
		Content: object.Content{Blob: r.Blob, Size: r.Size, Checksum: r.Checksum, Text: r.IsText}, N: r.N,
	}
}

type audienceRow struct {
	Everyone bool      `json:"everyone,omitempty"`
	Managers bool      `json:"managers,omitempty"`
	Teams    []id.Team `json:"teams,omitempty"`
	Users    []id.User `json:"users,omitempty"`
}

var (
	changeTable = tenant[changeRow]("Change", nil)
	headTable   = tenant[logHeadRow]("Log", nil)
)

func (r *changeRow) change() (object.Change, error) {
	c := object.Change{N: r.N, Type: object.ChangeType(r.Type), By: id.User(r.ByUser.String), At: instant(r.At)}
	if r.Record.Valid {
		var record recordRow
		if err := json.Unmarshal([]byte(r.Record.String), &record); err != nil {
			return object.Change{}, err
		}
		c.Object = record.object(id.Org(r.OrgID))
	}
	if r.Audience.Valid {
		var a audienceRow
		if err := json.Unmarshal([]byte(r.Audience.String), &a); err != nil {
			return object.Change{}, err
		}
		c.Audience = (*object.Audience)(&a)
	}
	return c, nil
}

type changes struct{ *conn }

var _ ports.Changes = changes{}

func scanHead(s scanner) (h object.Head, err error) {
	err = s.Scan(&h.N, &h.Floor, &h.Epoch)
	return h, err
}

// readHead reads the head of a log, which is there before its first entry.
func readHead(ctx context.Context, db *gorm.DB, o id.Org) (object.Head, error) {
	return queryGet(ctx, db, "Log", scanHead, tenantSQL(o, heads+"h.org_id = @org"))
}

func (q changes) Lock(ctx context.Context, o id.Org) (object.Head, error) {
	if !q.inside() {
		return object.Head{}, notInside("locked")
	}
	return q.lock(ctx, o)
}

func notInside(done string) error {
	return fault.Wrap(fault.Internal, errors.New("a log is "+done+" outside a transaction"), "The database failed")
}

// lock holds the row of the log's head, which it makes where there is none. What
// it has read stays true until the transaction ends.
func (q changes) lock(ctx context.Context, o id.Org) (object.Head, error) {
	if h, ok := q.heads[o]; ok {
		return h, nil
	}
	lock := tenantSQL(o, lockHead[q.dialect])
	h, found, err := queryRow(ctx, q.write, "Organisation", scanHead, lock)
	if err == nil && !found {
		if _, err = exec(ctx, q.write, "Organisation", tenantSQL(o, beginLog)); err == nil {
			h, err = queryGet(ctx, q.write, "Organisation", scanHead, lock)
		}
	}
	if err != nil {
		return object.Head{}, err
	}
	q.heads[o] = h
	return h, nil
}

// Append numbers the entries itself: the lock keeps others from it.
func (q changes) Append(ctx context.Context, o id.Org, made ...object.Change) (object.Head, error) {
	if !q.inside() {
		return object.Head{}, notInside("appended to")
	}
	h, err := q.lock(ctx, o)
	if err != nil || len(made) == 0 {
		return h, err
	}
	rows := make([]changeRow, len(made))
	moved := map[id.Object]int64{}
	for i, c := range made {
		h.N++
		r := changeRow{N: h.N, Type: string(c.Type), At: c.At.UnixMilli(), ByUser: set(c.By)}
		if c.Type == object.Changed {
			c.Object.N, moved[c.Object.ID] = h.N, h.N
		}
		if c.Type != object.AccessChanged {
			r.Record.Valid = true
			if r.Record.String, err = written(rowOfRecord(c.Object)); err != nil {
				return object.Head{}, failed(ctx, err, "Change")
			}
		}
		if c.Audience != nil {
			r.Audience.Valid = true
			if r.Audience.String, err = written(audienceRow(*c.Audience)); err != nil {
				return object.Head{}, failed(ctx, err, "Change")
			}
		}
		rows[i] = r
	}
	if err := q.append(ctx, o, h, rows, moved); err != nil {
		return object.Head{}, err
	}
	q.heads[o], q.appended[o] = h, h.N
	return h, nil
}

func (q changes) append(ctx context.Context, o id.Org, h object.Head, rows []changeRow, moved map[id.Object]int64) error {
	var args []any
	if q.dialect == onPostgres {
		args = []any{h.N, h.N, nil}
		for of, n := range moved {
			if n == h.N {
				args[2] = string(of)
				delete(moved, of)
			}
		}
	}
	if _, err := changeTable.of(q.write, o).insertRecords(ctx, appendChanges, rows, changeTable.rest, args...); err != nil {
		return err
	}
	if q.dialect == onSQLite {
		if _, err := headTable.of(q.write, o).set(ctx, "n = ?", h.N); err != nil {
			return err
		}
	}
	for of, n := range moved {
		if _, err := objectTable.of(q.write, o).key(string(of)).set(ctx, "n = ?", n); err != nil {
			return err
		}
	}
	return nil
}

// written is a value as JSON.
func written(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

type orgHead struct {
	org  sql.NullString
	head object.Head
}

func scanOrgHead(s scanner) (h orgHead, err error) {
	err = s.Scan(&h.org, &h.head.N, &h.head.Floor, &h.head.Epoch)
	return h, err
}

func (q changes) Heads(ctx context.Context, orgs []id.Org) (map[id.Org]object.Head, error) {
	heads := make(map[id.Org]object.Head, len(orgs))
	if len(orgs) == 0 {
		return heads, nil
	}
	there, err := queryAll(ctx, q.read, "Log", scanOrgHead,
		crossTenantSQL(crossTenantHeads, headsOf+q.dialect.in("h.org_id", "uuid"), list(q.dialect, ids(orgs))))
	if err != nil {
		return nil, err
	}
	if len(there) == 0 {
		return nil, failed(ctx, errors.New("log_epoch is empty"), "Log")
	}
	for _, o := range orgs {
		heads[o] = object.Head{Epoch: there[0].head.Epoch}
	}
	for _, h := range there {
		if h.org.Valid {
			heads[id.Org(h.org.String)] = h.head
		}
	}
	return heads, nil
}

func (q changes) List(ctx context.Context, o id.Org, after int64, limit int) ([]object.Change, error) {
	if limit <= 0 {
		return nil, nil
	}
	return all(ctx, changeTable.of(q.read, o).filter("n > ?", after).page("n", limit), (*changeRow).change)
}

// Entries is one statement on Postgres, which sees one moment. On SQLite, where a
// statement is a function call, the epoch is read after the entries.
func (db *DB) Entries(ctx context.Context, o id.Org, from int64, limit int) (entries []object.Change, epoch int64, err error) {
	if db.dialect == onSQLite || limit <= 0 {
		if entries, err = (changes{&db.conn}).List(ctx, o, from, limit); err != nil {
			return nil, 0, err
		}
		epochs, err := db.Epochs(ctx, []id.Org{o})
		if err != nil {
			return nil, 0, err
		}
		epoch, there := epochs[o]
		if !there {
			return nil, 0, fault.Missing("Organisation")
		}
		return entries, epoch, nil
	}
	found := false
	query := strings.ReplaceAll(entriesAndEpoch, "%", strconv.Itoa(coarse(limit)))
	err = queryEach(ctx, db.read, "Organisation", func(s scanner) (object.Change, error) {
		r := changeRow{OrgID: string(o)}
		if err := s.Scan(append([]any{&epoch}, dest(&r, changeTable.reads)...)...); err != nil {
			return object.Change{}, err
		}
		return r.change()
	}, func(c object.Change) error {
		if found = true; c.N > 0 {
			entries = append(entries, c)
		}
		return nil
	}, tenantSQL(o, query, from, limit))
	if err == nil && !found {
		err = fault.Missing("Organisation")
	}
	return entries, epoch, err
}

// Since tells of deletions before objects: another object may have the path by
// now.
func (q changes) Since(ctx context.Context, o id.Org, after int64, head func(object.Head) error, fn func(object.Change) error) error {
	return q.snapshot(ctx, func(db *gorm.DB) error {
		h, err := readHead(ctx, db, o)
		if err == nil {
			err = head(h)
		}
		if err != nil {
			return err
		}
		for _, t := range []object.ChangeType{object.AccessChanged, object.Deleted} {
			// The first condition is the index's, which SQLite does not see in the second.
			of := changeTable.of(db, o).filter("type <> '"+string(object.Changed)+"' AND type = ? AND n > ?", string(t), after)
			if err := each(ctx, of.page("n", 0), (*changeRow).change, fn); err != nil {
				return err
			}
		}
		objects := objectTable.of(db, o).filter("objects.n > ?", after).page("objects.n", 0)
		return each(ctx, objects, (*objectRow).object, func(v object.Object) error {
			return fn(object.Change{N: v.N, Type: object.Changed, Object: v})
		})
	})
}

type oldEntries struct {
	org  id.Org
	last int64
}

func scanOldEntries(s scanner) (r oldEntries, err error) {
	err = s.Scan((*string)(&r.org), &r.last)
	return r, err
}

// Prune looks for some of the oldest entries of all logs, and removes them with
// what is before them in their logs, until there are none.
func (q changes) Prune(ctx context.Context, before time.Time) error {
	for {
		old, err := queryAll(ctx, q.read, "Change", scanOldEntries,
			crossTenantSQL(crossTenantLogs, oldestEntries, before.UnixMilli(), prunedEntries, prunedLogs))
		if err != nil || len(old) == 0 {
			return err
		}
		err = q.atomic(ctx, func(c *conn) error {
			left := int64(prunedEntries)
			for _, e := range old {
				n, err := (changes{c}).prune(ctx, e.org, e.last, left)
				if left -= n; err != nil || left == 0 {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// prune removes at most limit entries of one log, up to the one with the number
// last. There are no gaps, so that the floor says how many there are.
func (q changes) prune(ctx context.Context, o id.Org, last, limit int64) (int64, error) {
	h, err := q.lock(ctx, o)
	if err != nil {
		return 0, err
	}
	h.Floor = max(h.Floor, min(last, h.Floor+limit))
	if _, err := headTable.of(q.write, o).set(ctx, "floor = ?", h.Floor); err != nil {
		return 0, err
	}
	q.heads[o] = h
	return changeTable.of(q.write, o).filter("n <= ?", h.Floor).remove(ctx)
}
