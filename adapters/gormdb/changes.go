package gormdb

import (
	"context"
	"database/sql"
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

// The most that Prune removes in one transaction.
const (
	prunedEntries = 5000
	prunedLogs    = 100 // whose organisations cannot write objects during it
)

type logHeadRow struct {
	OrgID         id.Org `gorm:"primaryKey"`
	N             int64
	Floor         int64
	SharedBytes   int64
	PersonalBytes int64
	MemoryBytes   int64
	VersionBytes  int64
	CountedN      int64 // the number of the log at which the bytes were counted
}

type changeRow struct {
	OrgID    id.Org `gorm:"primaryKey"`
	N        int64  `gorm:"primaryKey"`
	Type     object.ChangeType
	At       time.Time
	ByUser   id.User      `gorm:"default:null"`
	Record   *recordRow   `gorm:"serializer:json"`
	Audience *audienceRow `gorm:"serializer:json"`
}

// recordRow is an object in an entry of the log.
type recordRow struct {
	ID   id.Object `json:"id"`
	Path string    `json:"path"`
	placeRow
	MimeType  string  `json:"mimeType"`
	Version   int64   `json:"version"`
	CreatedBy id.User `json:"createdBy"`
	UpdatedBy id.User `json:"updatedBy"`
	Created   int64   `json:"createdAt"`
	Updated   int64   `json:"updatedAt"`
	contentRow
	FromPath string `json:"fromPath,omitempty"` // of a moved object: see object.Change
	N        int64  `json:"n"`
}

func rowOfRecord(v object.Object, fromPath string) *recordRow {
	return &recordRow{
		v.ID, v.Path, placeRow(v.Place), v.MimeType, v.Version, v.CreatedBy, v.UpdatedBy, v.CreatedAt.UnixMilli(), v.UpdatedAt.UnixMilli(),
		contentRow(v.Content), fromPath, v.N,
	}
}

func (r recordRow) object(o id.Org) object.Object {
	return object.Object{
		Place: object.Place(r.placeRow), ID: r.ID, Org: o, Path: r.Path, MimeType: r.MimeType, Version: r.Version, CreatedBy: r.CreatedBy,
		UpdatedBy: r.UpdatedBy, CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated), Content: object.Content(r.contentRow), N: r.N,
	}
}

type audienceRow struct {
	Everyone bool      `json:"everyone,omitempty"`
	Managers bool      `json:"managers,omitempty"`
	Teams    []id.Team `json:"teams,omitempty"`
	Users    []id.User `json:"users,omitempty"`
}

var (
	changeTable = tenant[changeRow]("changes", "Change")
	headTable   = tenant[logHeadRow]("log_heads", "Log")
)

func (r *changeRow) change() (object.Change, error) {
	c := object.Change{N: r.N, Type: r.Type, By: r.ByUser, At: r.At, Audience: (*object.Audience)(r.Audience)}
	if r.Record != nil {
		c.Object, c.FromPath = r.Record.object(r.OrgID), r.Record.FromPath
	}
	return c, nil
}

type changes struct{ *conn }

func (s storage) Changes() ports.Changes { return changes(s) }

// headDest returns the destinations to scan a log's head into.
func headDest(h *object.Head) []any { return []any{&h.N, &h.Floor, &h.Epoch} }

func (q changes) Lock(ctx context.Context, o id.Org) (object.Head, error) {
	if !q.inTransaction() {
		return object.Head{}, errNotInTransaction("a log is locked")
	}
	return q.lock(ctx, o)
}

func errNotInTransaction(done string) error {
	return fault.Wrap(fault.Internal, errors.New(done+" outside a transaction"), "The database failed")
}

// lock inserts the row of the log's head if there is none, and locks it: the head
// that it returns does not change until the transaction ends.
func (q changes) lock(ctx context.Context, o id.Org) (object.Head, error) {
	if h, ok := q.heads[o]; ok {
		return h.Head, nil
	}
	lock := lockHead[q.dialect].of(o)
	h, countedN := &lockedHead{}, int64(0)
	to := headDest(&h.Head)
	for class := range h.usage {
		to = append(to, &h.usage[class])
	}
	to = append(to, &countedN)
	found, err := oneRow(ctx, q.write, "Organisation", lock, to...)
	if err == nil && !found {
		if _, err = exec(ctx, q.write, "Organisation", beginLog.of(o)); err == nil {
			err = getRow(ctx, q.write, "Organisation", lock, to...)
		}
	}
	if err != nil {
		return object.Head{}, err
	}
	h.counted = countedN == h.N
	q.heads[o] = h
	return h.Head, nil
}

// Append numbers the entries itself, as the lock excludes other writers.
func (q changes) Append(ctx context.Context, o id.Org, made ...object.Change) (object.Head, error) {
	if !q.inTransaction() {
		return object.Head{}, errNotInTransaction("a log is appended to")
	}
	head, err := q.lock(ctx, o)
	if err != nil || len(made) == 0 {
		return head, err
	}
	h := *q.heads[o]
	rows := make([]changeRow, len(made))
	moved := map[id.Object]int64{}
	for i, c := range made {
		h.N++
		r := changeRow{N: h.N, Type: c.Type, At: c.At, ByUser: c.By, Audience: (*audienceRow)(c.Audience)}
		if c.Type == object.Changed && c.Object.N != h.N { // else it is stored with the number
			c.Object.N, moved[c.Object.ID] = h.N, h.N
		}
		if c.Type != object.AccessChanged {
			r.Record = rowOfRecord(c.Object, c.FromPath)
		}
		rows[i] = r
	}
	if err := q.append(ctx, o, &h, rows, moved); err != nil {
		return object.Head{}, err
	}
	h.changed = false
	*q.heads[o], q.appended[o] = h, h.N
	return h.Head, nil
}

func (q changes) append(ctx context.Context, o id.Org, h *lockedHead, rows []changeRow, moved map[id.Object]int64) error {
	if q.dialect == onPostgres {
		c := h.set(insertChanges.of(o)).set("moved", nil).set("rows", records(rows, changeTable.rest))
		for objectID, n := range moved {
			if n == h.N {
				c = c.set("moved", string(objectID))
				delete(moved, objectID)
			}
		}
		if _, err := exec(ctx, q.write, "Change", c); err != nil {
			return err
		}
	} else {
		if err := insertEach(ctx, changeTable.of(q.write, o), "", rows); err != nil {
			return err
		}
		if err := q.storeHead(ctx, o, h); err != nil {
			return err
		}
	}
	if len(moved) < 2 {
		for objectID, n := range moved {
			if _, err := objectTable.of(q.write, o).key(string(objectID)).set(ctx, "n = ?", n); err != nil {
				return err
			}
		}
		return nil
	}
	numbered := make([]objectRow, 0, len(moved))
	for objectID, n := range moved {
		numbered = append(numbered, objectRow{ID: objectID, N: n})
	}
	_, err := insertRecords(ctx, objectTable.of(q.write, o), numberObjects, numbered, objectNumber)
	return err
}

func (q changes) Heads(ctx context.Context, orgs []id.Org) (map[id.Org]object.Head, error) {
	heads := make(map[id.Org]object.Head, len(orgs))
	if len(orgs) == 0 {
		return heads, nil
	}
	var of sql.NullString
	var head object.Head
	none := true
	c := crossTenantSQL(crossTenantHeads, headsOf+q.dialect.in("h.org_id", "?", "uuid"), list(q.dialect, validIDs(orgs)))
	if err := eachRow(ctx, q.read, "Log", c, append([]any{&of}, headDest(&head)...), func() error {
		none = false
		heads[id.Org(of.String)] = head
		return nil
	}); err != nil {
		return nil, err
	}
	if none {
		return nil, failed(ctx, errors.New("log_epoch is empty"), "Log")
	}
	delete(heads, "") // of a row that has the epoch alone
	for _, o := range orgs {
		if _, ok := heads[o]; !ok {
			heads[o] = object.Head{Epoch: head.Epoch}
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

// Entries is one statement, which reads one snapshot.
func (db *DB) Entries(ctx context.Context, o id.Org, from int64, limit int) (entries []object.Change, epoch int64, err error) {
	if limit <= 0 {
		epoch, err = members{&db.conn}.Epoch(ctx, o)
		return nil, epoch, err
	}
	found := false
	query := strings.ReplaceAll(entriesAndEpoch, "%", strconv.Itoa(roundLimit(limit)))
	r := changeRow{OrgID: o}
	to := append([]any{&epoch}, dest(&r, changeTable.reads)...)
	err = eachRow(ctx, db.read, "Organisation", tenantSQL(o, query, from, limit), to, func() error {
		if found = true; r.N == 0 {
			return nil
		}
		c, err := r.change()
		entries = append(entries, c)
		return err
	})
	return entries, epoch, required(found, err, "Organisation")
}

// Since returns deletions before objects, as another object may have the path of a deleted
// one.
func (q changes) Since(ctx context.Context, o id.Org, after int64, head func(object.Head) error, fn func(object.Change) error) error {
	return q.withHead(ctx, o, head, func(db *gorm.DB) error {
		for _, t := range []object.ChangeType{object.AccessChanged, object.Deleted} {
			// The first condition lets SQLite use the partial index, which it does not derive from the second.
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

// Prune finds a batch of the oldest entries of all logs, and removes them with the
// entries before them in their logs, until none is found.
func (q changes) Prune(ctx context.Context, before time.Time) error {
	for {
		var one struct {
			org  id.Org
			last int64
		}
		c := oldestEntries.crossTenant(crossTenantLogs).
			set("before", before.UnixMilli()).set("entries", prunedEntries).set("logs", prunedLogs)
		old, err := rowsOf(ctx, q.read, "Change", c, &one, &one.org, &one.last)
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

// prune removes at most limit entries of one log, up to the one with the number last.
// Numbers have no gaps, so their number follows from the floor.
func (q changes) prune(ctx context.Context, o id.Org, last, limit int64) (int64, error) {
	h, err := q.lock(ctx, o)
	if err != nil {
		return 0, err
	}
	h.Floor = max(h.Floor, min(last, h.Floor+limit))
	if _, err := headTable.of(q.write, o).set(ctx, "floor = ?", h.Floor); err != nil {
		return 0, err
	}
	q.heads[o].Floor = h.Floor
	return changeTable.of(q.write, o).filter("n <= ?", h.Floor).remove(ctx)
}
