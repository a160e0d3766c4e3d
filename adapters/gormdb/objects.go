package gormdb

import (
	"context"
	"database/sql"
	"hash/maphash"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
)

type objectRow struct {
	OrgID         id.Org        `gorm:"primaryKey"`
	ID            id.Object     `gorm:"primaryKey"`
	StorageKey    string        `gorm:"->:false;<-:create"`
	FoldedKey     string        `gorm:"->:false;<-:create"` // the folded key
	Path          string        `gorm:"<-:create"`
	Place         placeRow      `gorm:"embedded"`
	InWorkspaceID *id.Workspace `gorm:"->:false;<-:create"` // the workspace of a shared one
	MimeType      string
	Version       int64
	CreatedBy     id.User `gorm:"<-:create"`
	UpdatedBy     id.User
	CreatedAt     time.Time `gorm:"<-:create"`
	UpdatedAt     time.Time
	Content       contentRow `gorm:"embedded"`
	N             int64      // of the last change in the log
}

// placeRow is an object.Place, in a row and in an entry of the log.
type placeRow struct {
	Kind      object.Kind   `gorm:"<-:create" json:"kind"`
	Scope     object.Scope  `gorm:"<-:create" json:"scope"`
	Workspace *id.Workspace `gorm:"column:workspace_id;<-:create" json:"workspace,omitempty"`
	Team      *id.Team      `gorm:"column:team_id;<-:create" json:"team,omitempty"`
	Owner     *id.User      `gorm:"column:owner_id;<-:create" json:"owner,omitempty"`
}

// contentRow is an object.Content, in a row and in an entry of the log.
type contentRow struct {
	Blob     string `json:"blob"`
	Size     int64  `json:"size"`
	Checksum string `json:"checksum"`
	Text     bool   `gorm:"column:is_text" json:"isText"`
}

var objectTable = tenant[objectRow]("objects", "Object")

// rowOfObject omits the keys, which placedRow has.
func rowOfObject(v object.Object) *objectRow {
	return &objectRow{
		OrgID: v.Org, ID: v.ID, Path: v.Path, Place: placeRow(v.Place), MimeType: v.MimeType, Version: v.Version,
		CreatedBy: v.CreatedBy, UpdatedBy: v.UpdatedBy, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
		Content: contentRow(v.Content), N: v.N,
	}
}

// placedRow returns the row of an object with its keys.
func placedRow(v object.Object) *objectRow {
	r := rowOfObject(v)
	r.StorageKey = v.StorageKey()
	r.FoldedKey = object.Fold(r.StorageKey)
	if v.Scope != object.Personal {
		r.InWorkspaceID = v.Workspace
	}
	return r
}

func (r *objectRow) object() (object.Object, error) {
	return object.Object{
		Place: object.Place(r.Place), ID: r.ID, Org: r.OrgID, Path: r.Path, MimeType: r.MimeType, Version: r.Version,
		CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Content: object.Content(r.Content), N: r.N,
	}, nil
}

type objects struct{ *conn }

func (s storage) Objects() ports.Objects { return objects(s) }

func (q objects) Get(ctx context.Context, o id.Org, objectID id.Object) (object.Object, error) {
	return get(ctx, objectTable.of(q.read, o).key(string(objectID)), (*objectRow).object)
}

func (q objects) At(ctx context.Context, o id.Org, storageKey string) (object.Object, error) {
	if !storable(storageKey) {
		return object.Object{}, fault.Missing("Object")
	}
	return get(ctx, objectTable.of(q.read, o).filter("folded_key = ?", object.Fold(storageKey)), (*objectRow).object)
}

// storable reports whether Postgres can store the text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// Add is one statement under the log's lock, which prevents that objects at its parent
// folders or below it are added concurrently.
func (q objects) Add(ctx context.Context, o id.Org, v object.Object) error {
	v.Org = o
	r := placedRow(v)
	placed := r.InWorkspaceID
	which := 0
	if placed != nil {
		which |= 1
	}
	if v.Team != nil {
		which |= 2
	}
	add := addObject[which][q.dialect].of(o).row(r, objectTable.rest).
		set("folders", list(q.dialect, object.Ancestors(r.FoldedKey))).
		set("below", r.FoldedKey+"/").set("below_end", r.FoldedKey+"0") // 0 comes after /
	if placed != nil {
		add = add.set("workspace", string(*placed))
	}
	if v.Team != nil {
		add = add.set("team", string(*v.Team))
	}
	return q.atomicWithLog(ctx, o, func(c *conn) error {
		n, err := exec(ctx, c.write, "Object", add)
		if err == nil && n == 1 {
			c.grow(o, v.Class(), v.Size)
		}
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

// maxPut is the most objects that one statement of Put stores: its text and copies take 20 KiB for one with the longest
// path.
const maxPut = 200

// previousObject is what Put needs of an object before it.
type previousObject struct {
	path string
	size int64
}

func (q objects) Put(ctx context.Context, o id.Org, vs ...object.Object) error {
	return q.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); fault.Is(err, fault.NotFound) {
			return fault.Missing("Object")
		} else if err != nil {
			return err
		}
		ids := make([]id.Object, len(vs))
		for i, v := range vs {
			ids[i] = v.ID
		}
		all := objectTable.of(c.write, o).whereIn("id", list(c.dialect, validIDs(ids)))
		previous := make(map[id.Object]previousObject, len(vs))
		err := each(ctx, all.read("id", "path", "size"), (*objectRow).object, func(v object.Object) error {
			previous[v.ID] = previousObject{v.Path, v.Size}
			return nil
		})
		if err == nil && len(previous) < len(vs) {
			err = fault.Missing("Object")
		}
		if err == nil && len(vs) == 1 && previous[ids[0]].path == vs[0].Path {
			v := vs[0]
			if err = objectTable.of(c.write, o).key(string(v.ID)).save(ctx, rowOfObject(v)); err == nil {
				c.grow(o, v.Class(), v.Size-previous[v.ID].size)
			}
			return err
		}
		if err != nil || len(vs) == 0 {
			return err
		}
		if slices.ContainsFunc(vs, func(v object.Object) bool { return previous[v.ID].path != v.Path }) {
			exchanged, err := objects{c}.checkFree(ctx, o, vs, ids, previous)
			if err != nil {
				return err
			}
			if exchanged { // all paths are freed first: no folded key is an id
				if _, err := all.set(ctx, "folded_key = CAST(objects.id AS text)"); err != nil {
					return err
				}
			}
		}
		for part := range slices.Chunk(vs, maxPut) {
			rows := make([]objectRow, len(part))
			for i, v := range part {
				rows[i] = *placedRow(v)
				c.grow(o, v.Class(), v.Size-previous[v.ID].size)
			}
			if err := insertRows(ctx, objectTable.of(c.write, o), putObjects, replaceObjects, rows); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkFree returns object.PathTaken of the first of the objects, which have the ids, that Put must not
// store, and reports whether one of them takes the path of another one.
func (q objects) checkFree(
	ctx context.Context, o id.Org, vs []object.Object, ids []id.Object, previous map[id.Object]previousObject,
) (exchanged bool, err error) {
	keys := make([]string, len(vs))
	for i, v := range vs {
		keys[i] = object.Fold(v.StorageKey())
	}
	conflicts, err := q.conflicts(ctx, o, keys, ids)
	if err != nil {
		return false, err
	}
	holders := make(map[uint64]id.Object, len(vs)) // by the hash of the previous key
	seed := maphash.MakeSeed()
	for i, v := range vs {
		if conflicts.taken(keys[i]) {
			return false, object.PathTaken(v.Path)
		}
		conflicts.files[keys[i]] = v.ID
		for _, folder := range object.Ancestors(keys[i]) {
			conflicts.folders[folder] = true
		}
		was := v
		was.Path = previous[v.ID].path
		holders[maphash.String(seed, object.Fold(was.StorageKey()))] = v.ID
	}
	for i, v := range vs {
		if holder := holders[maphash.String(seed, keys[i])]; holder != "" && holder != v.ID {
			return true, nil
		}
	}
	return false, nil
}

// Replace is one statement on Postgres, and so one round trip instead of seven.
func (s storage) Replace(ctx context.Context, o id.Org, r object.Replacement) (head object.Head, err error) {
	switch {
	case s.dialect == onSQLite:
		return atomically(ctx, s.conn, func(tx *conn) (object.Head, error) { return storage{tx}.replace(ctx, o, r) })
	case s.inTransaction():
		if err = s.storeUsage(ctx); err != nil {
			return head, err
		}
		if head, err = s.replaceInOneStatement(ctx, o, r); err == nil {
			delete(s.heads, o) // is still locked, and read again
			s.appended[o] = head.N
		}
		return head, err
	}
	err = s.db.retry(ctx, func() error {
		head, err = s.replaceInOneStatement(ctx, o, r)
		return err
	})
	if err == nil {
		s.db.changed(object.Hint{Org: o, N: head.N})
	}
	return head, err
}

func errChanged() error { return fault.New(fault.Conflict, "The object has changed") }

// replacement returns a command with the parameters that all statements of a replacement have.
func replacement(s statement, o id.Org, r object.Replacement) command {
	next := r.Change.Object
	return s.of(o).set("id", string(next.ID)).set("blob", next.Blob).set("epoch", r.Epoch).
		set("previous_blob", r.Previous.Blob).set("previous_version", next.Version-1)
}

// setEnd sets when and by whom the previous content is replaced.
func setEnd(c command, by object.Change) command {
	return c.set("at", by.At.UnixMilli()).set("by", sql.NullString{String: string(by.By), Valid: by.By != ""})
}

// expiry returns when the previous content expires if it is kept, in milliseconds.
func expiry(r object.Replacement) int64 {
	return r.Keep.Ended(r.Change.Object, r.Change.By, r.Change.At, false).ExpiresAt.UnixMilli()
}

// replace is Replace on SQLite. It makes all checks before it changes a row.
func (s storage) replace(ctx context.Context, o id.Org, r object.Replacement) (object.Head, error) {
	head, err := changes(s).lock(ctx, o)
	if fault.Is(err, fault.NotFound) {
		err = errChanged()
	}
	if err != nil {
		return head, err
	}
	if h := s.heads[o]; !h.counted || h.usage.Total() > r.MaxUsed() {
		return head, errChanged()
	}
	c := r.Change
	c.Object.N = head.N + 1
	if r.Keep.Enabled() {
		keep := setEnd(replacement(keepUnchanged, o, r), c).set("expires_at", expiry(r))
		if _, err := exec(ctx, s.write, "Object", keep); err != nil {
			return head, err
		}
	}
	put := replacement(replaceUnchanged, o, r).row(rowOfObject(c.Object), objectTable.changes)
	n, err := exec(ctx, s.write, "Object", put)
	if err == nil && n == 0 {
		err = errChanged()
	}
	if err == nil {
		err = s.BlobNames().Forget(ctx, object.Blob{Org: o, Name: c.Object.Blob})
	}
	if err != nil {
		return head, err
	}
	s.grow(o, c.Object.Class(), c.Object.Size-r.Previous.Size)
	if !r.Keep.Enabled() {
		err = s.BlobNames().Discard(ctx, o, []string{r.Previous.Blob}, c.At)
	} else if s.grow(o, object.Versions, r.Previous.Size); mayExceed(c.Object.Version-1, r.Keep) {
		err = versions(s).removeExcess(ctx, o, r.Keep, []id.Object{c.Object.ID}, c.At)
	}
	if err != nil {
		return head, err
	}
	return s.Changes().Append(ctx, o, c)
}

// replaceInOneStatement is replace on Postgres in one statement, since each statement costs a round trip while
// the log's head is locked. On SQLite, which has no round trips and no statements that write to several
// tables, replace is a transaction.
func (s storage) replaceInOneStatement(ctx context.Context, o id.Org, r object.Replacement) (object.Head, error) {
	next := r.Change.Object
	next.N = 0
	how := replaceReleased
	if r.Keep.Enabled() {
		how = replaceKept
		if mayExceed(next.Version-1, r.Keep) {
			how = replaceKeptOfMany
		}
	}
	record := jsonText(rowOfRecord(next, r.Change.FromPath))
	c := setEnd(replacement(replaceObject[how][next.Class()], o, r), r.Change).
		set("max_used", r.MaxUsed()).row(rowOfObject(next), replaceFields).
		set("type", string(r.Change.Type)).
		set("record", strings.TrimSuffix(record, "0}")). // the number is the record's last field
		set("growth", next.Size-r.Previous.Size)
	if how != replaceReleased {
		c = c.set("previous_size", r.Previous.Size).set("expires_at", expiry(r))
	}
	if how == replaceKeptOfMany {
		c = c.set("kept_before", r.Keep.Versions-1)
	}
	var head object.Head
	found, err := oneRow(ctx, s.write, "Object", c, headDest(&head)...)
	if err == nil && !found {
		err = errChanged()
	}
	return head, err
}

func (q objects) Remove(ctx context.Context, o id.Org, objectIDs []id.Object) error {
	if objectIDs = validIDs(objectIDs); len(objectIDs) == 0 {
		return nil
	}
	return q.atomic(ctx, func(c *conn) error {
		if _, err := (changes{c}).lock(ctx, o); fault.Is(err, fault.NotFound) {
			return nil
		} else if err != nil {
			return err
		}
		s := objectTable.of(c.write, o).whereIn("id", list(c.dialect, objectIDs))
		var r objectRow
		removed := s.newCommand("DELETE FROM objects WHERE "+s.where+" RETURNING kind, scope, size", s.args)
		return eachRow(ctx, c.write, s.what, removed, []any{&r.Place.Kind, &r.Place.Scope, &r.Content.Size}, func() error {
			c.grow(o, object.Place(r.Place).Class(), -r.Content.Size)
			return nil
		})
	})
}

type blobNameRow struct {
	Org       id.Org `gorm:"column:org_id"`
	Name      string `gorm:"primaryKey"`
	Discarded bool   `gorm:"column:is_discarded"`
	At        time.Time
	Size      int64
}

var blobNameTable = tenant[blobNameRow]("blob_names", "Blob")

func (r *blobNameRow) blob() (object.Blob, error) { return object.Blob(*r), nil }

type blobNames struct{ *conn }

func (s storage) BlobNames() ports.BlobNames { return blobNames(s) }

// Announce does not wait for the disk on SQLite. If a crash of the machine undoes it, only
// a scan of the whole store finds the content.
func (q blobNames) Announce(ctx context.Context, o id.Org, name string, size int64, now time.Time) error {
	return q.oneAsync(ctx, func(c *conn) error {
		return blobNameTable.of(c.write, o).add(ctx, &blobNameRow{Name: name, At: now, Size: size})
	})
}

// Announced counts in the indexes of announced names with a size and of open uploads, of which an organisation has few.
func (s storage) Announced(ctx context.Context, o id.Org) (names int, size int64, err error) {
	_, err = oneRow(ctx, s.read, "Blob", announced.of(o), &names, &size)
	return names, size, err
}

func (q blobNames) Forget(ctx context.Context, b object.Blob) error {
	s := blobNameTable.of(q.write, b.Org).filter("name = ? AND is_discarded = ?", b.Name, b.Discarded)
	return s.requireRow(s.remove(ctx))
}

// Discard removes repeated names, because one statement cannot update a row twice.
func (q blobNames) Discard(ctx context.Context, o id.Org, names []string, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	names = slices.Sorted(slices.Values(names))
	_, err := exec(ctx, q.write, "Blob", discardNames[q.dialect].of(o).
		set("now", now.UnixMilli()).set("names", list(q.dialect, slices.Compact(names))))
	return err
}

// discardAll discards the announced names that the organisation has.
func (q blobNames) discardAll(ctx context.Context, o id.Org, now time.Time) error {
	first, end := string(o)+"/", string(o)+"0" // 0 comes after /
	s := blobNameTable.of(q.write, o).filter("name >= ? AND name < ?", first, end)
	_, err := s.filter("NOT is_discarded OR at > ?", now.UnixMilli()).set(ctx, "is_discarded = TRUE, at = ?", now.UnixMilli())
	return err
}

func (q blobNames) Expire(ctx context.Context, before time.Time) error {
	announced := blobNameTable.crossTenant(q.write, crossTenantBlobs).filter("NOT is_discarded AND at < ?", before.UnixMilli())
	_, err := announced.set(ctx, "is_discarded = TRUE")
	return err
}

func (q blobNames) Due(ctx context.Context, before time.Time, after string, limit int) ([]object.Blob, error) {
	if limit <= 0 {
		return nil, nil
	}
	s := blobNameTable.crossTenant(q.read, crossTenantBlobs).
		filter("at < ? AND name >= ?", before.UnixMilli(), atLeast(after+"\x00"))
	return all(ctx, s.page("name", limit), (*blobNameRow).blob)
}

func (q blobNames) Known(ctx context.Context, names []string) (map[string]bool, error) {
	known := make(map[string]bool, len(names))
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !storable(name) })
	if len(names) == 0 {
		return known, nil
	}
	var name string
	c := knownBlobs[q.dialect].crossTenant(crossTenantBlobs).set("names", list(q.dialect, names))
	return known, eachRow(ctx, q.read, "Blob", c, []any{&name}, func() error {
		known[name] = true
		return nil
	})
}
