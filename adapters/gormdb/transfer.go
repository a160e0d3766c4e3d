package gormdb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"collab/domain/fault"
	"collab/domain/id"
)

// TransferTables are the tables whose records a transfer copies, each after those that its
// foreign keys refer to.
var TransferTables = []string{
	"users", "organisations", "memberships", "invitations", "subscriptions", "teams", "team_members", "workspaces", "workspace_orders",
	"tasks", "task_history", "inbox", "audit", "replays", "sessions", "device_grants", "log_heads", "objects", "object_versions", "changes", "blob_names",
	"quota_accounts", "quota_leases", "usage_entries", "usage_user_models", "usage_users", "usage_models",
	"connectors", "connector_credentials", "connector_flows", "connector_clients", "connector_revocations",
	"releases", "release_revision", "release_adoption", "release_devices", "release_reports",
}

// derivedTables are written by triggers while other tables are copied, and compared like those.
var derivedTables = []string{"task_tags"}

// ComparedTables are the tables whose digests are equal in source and target.
func ComparedTables() []string { return append(slices.Clone(TransferTables), derivedTables...) }

// transferTable exists in the target from Begin to Finish. Its rows are the origin and the progress
// of the transfer.
const transferTable = "collab_move"

const transferLock = 7_305_804_385_411 // number of the advisory lock of a transfer to Postgres

// Limits of a batch, and of a transaction, which writes a chunk of batches.
const (
	batchRows  = 500
	batchBytes = 1 << 20
	chunkRows  = 100_000
	chunkBytes = 64 << 20
)

func tableNamed(name string) *table {
	return tables[slices.IndexFunc(tables, func(t *table) bool { return t.name == name })]
}

// rowValues are the values of a row in the order of table.all: nil, int64, bool, string, non-nil
// []byte, or uuid.
type rowValues []any

type uuid [16]byte

func (u uuid) String() string { return pgtype.UUID{Bytes: u, Valid: true}.String() }

// UUIDValue implements pgtype.UUIDValuer.
func (u uuid) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: u, Valid: true}, nil }

// fromSQLite converts a value of the driver of SQLite.
func (f field) fromSQLite(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		switch {
		case f.kind == "bigint":
			return v, nil
		case f.kind == "boolean" && (v == 0 || v == 1):
			return v == 1, nil
		}
	case string:
		if f.kind == "text" {
			return v, nil
		}
		var u pgtype.UUID
		if f.kind == "uuid" && u.Scan(v) == nil && u.String() == v {
			return uuid(u.Bytes), nil
		}
	case []byte:
		if f.kind == "bytea" {
			return append([]byte{}, v...), nil // the driver returns nil for an empty value
		}
	}
	return nil, fmt.Errorf("the column %s has a value that is no %s", f.name, f.kind)
}

// key returns the values of the primary key as text.
func (t *table) key(r rowValues) (key []string) {
	for i, f := range t.all {
		if f.key {
			key = append(key, fmt.Sprint(r[i]))
		}
	}
	return key
}

// keyArgs returns the parameters of a statement for a key that the method key returned.
func (t *table) keyArgs(key []string) (args []any, err error) {
	for i, f := range keysOf(t.all) {
		var v any = key[i]
		switch f.kind {
		case "bigint":
			v, err = strconv.ParseInt(key[i], 10, 64)
		case "boolean":
			v, err = strconv.ParseBool(key[i])
		}
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return args, nil
}

// size returns the approximate size of a record in memory, in bytes.
func (r rowValues) size() int {
	n := 24 * len(r)
	for _, v := range r {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// Digest is a hash of records that does not depend on their order.
type Digest struct {
	Records int64
	sum     [4]uint64
}

// Add adds an encoded record.
func (d *Digest) Add(b []byte) {
	sum := sha256.Sum256(b)
	for i := range d.sum {
		d.sum[i] += binary.LittleEndian.Uint64(sum[8*i:])
	}
	d.Records++
}

// Merge adds the records of another digest.
func (d *Digest) Merge(other Digest) {
	for i := range d.sum {
		d.sum[i] += other.sum[i]
	}
	d.Records += other.Records
}

// String returns the first 64 bits in hexadecimal.
func (d Digest) String() string { return fmt.Sprintf("%016x", d.sum[0]) }

// append appends the values with their types and lengths to b: different records have different
// encodings.
func (r rowValues) append(b []byte) []byte {
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case int64:
			b = binary.LittleEndian.AppendUint64(append(b, 'i'), uint64(v))
		case bool:
			b = strconv.AppendBool(append(b, 'b'), v)
		case uuid:
			b = append(append(b, 'u'), v[:]...)
		case string:
			b = append(binary.LittleEndian.AppendUint64(append(b, 's'), uint64(len(v))), v...)
		case []byte:
			b = append(binary.LittleEndian.AppendUint64(append(b, 'x'), uint64(len(v))), v...)
		}
	}
	return b
}

// reader is one connection to a database.
type reader interface {
	// rows calls each with the values of every row. Postgres returns the types of rowValues,
	// SQLite those of its driver.
	rows(ctx context.Context, text string, args []any, each func([]any) error) error
	Close() error
}

// Source is a database whose records are read. Its methods must not be called concurrently.
type Source struct {
	dialect dialect
	conn    reader
	served  bool // servers had connections when it was opened
}

// OpenSource opens a database that has the schema of this program. On Postgres all reads have one
// snapshot. On SQLite the caller must hold the lock of the database.
func OpenSource(ctx context.Context, address string) (s *Source, err error) {
	s = &Source{}
	if s.dialect, err = dialectOfAddress(address); err != nil {
		return nil, err
	}
	if s.dialect == onPostgres {
		s.conn, err = openPostgresReader(ctx, address)
	} else {
		s.conn, err = openSQLiteReader(ctx, address)
	}
	if err != nil {
		return nil, failed(ctx, err, "Database")
	}
	s.served, err = s.Served(ctx)
	if err == nil {
		err = s.examine(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// CheckAddress returns an error unless Open understands the address. It connects to nothing, and ignores
// files of the address, such as its certificates and its service file, that cannot be read.
func CheckAddress(address string) error {
	d, err := dialectOfAddress(address)
	switch {
	case err != nil:
	case d == onSQLite:
		_, err = SQLiteFile(address)
	default:
		_, err = parsePostgres(address)
		if errors.As(err, new(*fs.PathError)) || err != nil && strings.Contains(err.Error(), "failed to read service") {
			err = nil // pgx has only the text for a service file
		}
	}
	return err
}

func dialectOfAddress(address string) (dialect, error) {
	switch scheme, _, _ := strings.Cut(address, "://"); scheme {
	case "sqlite":
		return onSQLite, nil
	case "postgres", "postgresql":
		return onPostgres, nil
	}
	return 0, fault.Field("database URL", "must begin with sqlite:// or postgres://")
}

// examine returns an error unless the schema is that of this program and no transfer to the
// database is incomplete.
func (s *Source) examine(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	switch known := Schema(); {
	case version < known:
		return fmt.Errorf("the schema has version %d, and this program needs %d: run collabd migrate on it first", version, known)
	case version > known:
		return fmt.Errorf("the schema has version %d, and this program knows %d: use the program of that version", version, known)
	}
	if origin, err := s.State(ctx, "origin"); err != nil || origin != "" {
		return errors.Join(err, incomplete(origin))
	}
	return nil
}

// incomplete is the error for a database to which a transfer has begun.
func incomplete(origin string) error {
	return fault.New(fault.Unavailable, "A move to this database is not complete (from %s): call collabd move again with the same arguments, or give it up by collabd move --abandon", origin)
}

// Resumable reports whether records are read in the order of keys, so that a later call can
// continue after a key.
func (s *Source) Resumable() bool { return s.dialect == onSQLite }

// Served reports whether servers had connections to the database when it was opened, or have them now.
// It is false for SQLite, whose lock is the caller's.
func (s *Source) Served(ctx context.Context) (bool, error) {
	r, ok := s.conn.(postgresReader)
	if !ok || s.served {
		return s.served, nil
	}
	served, err := r.served(ctx)
	return served, failed(ctx, err, "Database")
}

// Close closes the connection.
func (s *Source) Close() error { return s.conn.Close() }

// value returns the only value of a query, or nil if there is no row.
func (s *Source) value(ctx context.Context, text string, args ...any) (v any, err error) {
	err = s.conn.rows(ctx, text, args, func(values []any) error {
		v = values[0]
		return nil
	})
	return v, failed(ctx, err, "Record")
}

func (s *Source) number(ctx context.Context, text string, args ...any) (int64, error) {
	v, err := s.value(ctx, text, args...)
	n, _ := v.(int64)
	return n, err
}

// checkComplete returns an error if a transfer to the database has begun and not finished.
func (db *DB) checkComplete(ctx context.Context) error {
	if found, err := db.hasTable(ctx, transferTable); err != nil || !found {
		return err
	}
	var origin string
	if _, err := oneRow(ctx, db.read, "Database", sharedSQL("SELECT value FROM "+transferTable+" WHERE name = ?", "origin"), &origin); err != nil {
		return err
	}
	return incomplete(origin)
}

// selectTables are the queries for the names of tables, without the condition on the name.
var selectTables = [2]string{
	onSQLite:   "SELECT name FROM sqlite_schema WHERE type = 'table' AND name",
	onPostgres: "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() AND tablename",
}

// hasTable reports whether the table exists.
func (db *DB) hasTable(ctx context.Context, name string) (bool, error) {
	return oneRow(ctx, db.read, "Database", sharedSQL(selectTables[db.dialect]+" = ?", name), new(string))
}

// hasTable reports whether the table exists.
func (s *Source) hasTable(ctx context.Context, name string) (bool, error) {
	found, err := s.value(ctx, selectTables[s.dialect]+" = '"+name+"'")
	return found != nil, err
}

// version returns the version of the schema, or zero if there is none.
func (s *Source) version(ctx context.Context) (int64, error) {
	if found, err := s.hasTable(ctx, "goose_db_version"); err != nil || !found {
		return 0, err
	}
	return s.number(ctx, selectVersion)
}

// State returns the value that SetState stored in an incomplete transfer to the database, or "".
func (s *Source) State(ctx context.Context, name string) (string, error) {
	if found, err := s.hasTable(ctx, transferTable); err != nil || !found {
		return "", err
	}
	v, err := s.value(ctx, "SELECT value FROM "+transferTable+" WHERE name = '"+name+"'")
	text, _ := v.(string)
	return text, err
}

// Count returns the number of records in a table.
func (s *Source) Count(ctx context.Context, table string) (int64, error) {
	return s.number(ctx, "SELECT count(*) FROM "+table)
}

// Epoch returns the epoch of the logs.
func (s *Source) Epoch(ctx context.Context) (int64, error) {
	return s.number(ctx, "SELECT epoch FROM log_epoch")
}

// records calls each with the records of a table that follow a key, in the order of keys unless
// Resumable reports false; a nil key precedes all. Each may retain them.
func (s *Source) records(ctx context.Context, t *table, after []string, each func(rowValues) error) error {
	text := "SELECT " + t.selected(s.dialect, t.all) + " FROM " + t.name
	var args []any
	if s.Resumable() {
		keys := keysOf(t.all)
		if after != nil {
			var err error
			if args, err = t.keyArgs(after); err != nil {
				return err
			}
			text += " WHERE (" + join(keys, t.name+".%") + ") > (" + join(keys, "?") + ")"
		}
		text += " ORDER BY " + join(keys, t.name+".%")
	}
	return s.read(ctx, t, text, args, each)
}

func (s *Source) read(ctx context.Context, t *table, text string, args []any, each func(rowValues) error) error {
	return s.conn.rows(ctx, text, args, func(values []any) (err error) {
		if s.dialect == onSQLite {
			for i, f := range t.all {
				if values[i], err = f.fromSQLite(values[i]); err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
		return each(values)
	})
}

// Digests returns the digests of the records in a table by organisation, with "" for the records of
// none. It calls progress with each number of records that it has read since the last call.
func (s *Source) Digests(ctx context.Context, table string, progress func(n int)) (map[id.Org]Digest, error) {
	t := tableNamed(table)
	column := t.column("org_id")
	sums := map[uuid]*Digest{}
	var b []byte
	n := 0
	err := s.read(ctx, t, "SELECT "+t.selected(s.dialect, t.all)+" FROM "+t.name, nil, func(r rowValues) error {
		var org uuid
		if column >= 0 && r[column] != nil {
			org = r[column].(uuid)
		}
		if sums[org] == nil {
			sums[org] = &Digest{}
		}
		b = r.append(b[:0])
		sums[org].Add(b)
		if n++; n == batchRows {
			progress(n)
			n = 0
		}
		return nil
	})
	if err != nil {
		return nil, failed(ctx, err, "Record")
	}
	progress(n)
	digests := make(map[id.Org]Digest, len(sums))
	for org, d := range sums {
		name := id.Org(org.String())
		if org == (uuid{}) {
			name = ""
		}
		digests[name] = *d
	}
	return digests, nil
}

// Contents returns an iterator over the content of the objects and earlier versions of all organisations
// whose blob name is greater than after, in the order of names. An error ends it. No other method may be
// called during the iteration.
func (s *Source) Contents(ctx context.Context, after string) iter.Seq2[Content, error] {
	return contentsOf(ctx, s.conn, s.blobsAfter(contents), after)
}

// CountContents returns the number of elements of Contents.
func (s *Source) CountContents(ctx context.Context, after string) (int64, error) {
	return s.number(ctx, s.blobsAfter("SELECT count(DISTINCT blob) FROM "+contents), after)
}

// blobsAfter appends the condition that the blob name is greater than the parameter.
func (s *Source) blobsAfter(text string) string {
	if s.dialect == onPostgres {
		return text + " WHERE blob > $1"
	}
	return text + " WHERE blob > ?"
}

// writer is the connection to a target.
type writer interface {
	reader
	exec(ctx context.Context, text string, args ...any) error
	// insert writes records in the open transaction until next returns false.
	insert(ctx context.Context, t *table, next func() (rowValues, bool, error)) error
	// lock returns an error if another process uses the database. It may be called again.
	lock(ctx context.Context) error
	// finish runs the last commit. All commits are durable when it returns nil.
	finish(ctx context.Context, commit func() error) error
}

// Target is a database that is filled from a source. Its methods must not be called concurrently.
type Target struct {
	Source
	address string
	origin  string
	conn    writer
	Resumed bool // the transfer has begun before
	chunk   int  // limit of the records of a transaction
}

// OpenTarget opens a database that is empty or to which a transfer from the origin has begun, and
// returns an error for any other. An empty origin stands for that of a transfer that has begun. It
// writes no tables. On SQLite the caller must hold the lock of the database.
func OpenTarget(ctx context.Context, address, origin string) (t *Target, err error) {
	t = &Target{address: address, origin: origin, chunk: chunkRows}
	if t.dialect, err = dialectOfAddress(address); err != nil {
		return nil, err
	}
	if t.dialect == onPostgres {
		t.conn, err = openPostgresWriter(ctx, address)
	} else {
		t.conn, err = openSQLiteWriter(ctx, address)
	}
	if err != nil {
		return nil, failed(ctx, err, "Database")
	}
	t.Source.conn = t.conn
	if err := t.examine(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// examine returns an error unless a transfer may write to the target.
func (t *Target) examine(ctx context.Context) error {
	if err := t.conn.lock(ctx); err != nil {
		return err
	}
	origin, err := t.State(ctx, "origin")
	switch {
	case err != nil:
		return err
	case origin != "" && (origin == t.origin || t.origin == ""):
		t.Resumed = true
		return nil
	case origin != "":
		return incomplete(origin)
	case t.origin == "":
		if found, err := t.hasTable(ctx, transferTable); found || err != nil { // Begin ended before it stored the origin
			t.Resumed = true
			return err
		}
		return fault.New(fault.NotFound, "No move to it has begun")
	}
	version, err := t.version(ctx)
	if err != nil {
		return err
	}
	if version == 0 {
		found, err := t.value(ctx, selectTables[t.dialect]+" <> '"+transferTable+"'")
		if err == nil && found != nil {
			err = fmt.Errorf("the target is not empty: it has the table %s", found)
		}
		return err
	}
	if known := Schema(); version != known {
		return fmt.Errorf("the target's schema has version %d, and this program needs %d: name an empty database", version, known)
	}
	for _, name := range ComparedTables() {
		text := "SELECT count(*) FROM (SELECT 1 FROM " + name + " LIMIT 1) AS found"
		if name == "release_revision" {
			text += " WHERE EXISTS (SELECT 1 FROM release_revision WHERE n <> 0)"
		}
		n, err := t.number(ctx, text)
		if err == nil && n > 0 {
			err = fmt.Errorf("the target is not empty: it has records in the table %s", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Begin creates the schema, and keeps servers from opening the database until Finish or Abandon. If
// the transfer is resumed and its source is not Resumable, it removes the records and the state.
func (t *Target) Begin(ctx context.Context, from *Source) error {
	err := t.transaction(ctx, func() error {
		if err := t.conn.exec(ctx, "CREATE TABLE IF NOT EXISTS "+transferTable+" (name TEXT PRIMARY KEY, value TEXT NOT NULL)"); err != nil {
			return err
		}
		return t.SetState(ctx, "origin", t.origin)
	})
	if err == nil {
		err = t.conn.lock(ctx) // a server may have opened the database before the table was there
	}
	if err == nil {
		err = t.migrate(ctx)
	}
	if err == nil && t.Resumed && !from.Resumable() {
		err = t.clear(ctx)
	}
	return failed(ctx, err, "Database")
}

func (t *Target) migrate(ctx context.Context) error {
	db, err := open(ctx, Options{URL: t.address})
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// clear removes all records, and all state except the origin, because the next records may name other
// content.
func (t *Target) clear(ctx context.Context) error {
	const clearState = "DELETE FROM " + transferTable + " WHERE name <> 'origin'"
	return t.transaction(ctx, func() error {
		if t.dialect == onPostgres {
			return t.conn.exec(ctx, "TRUNCATE "+strings.Join(ComparedTables(), ", ")+"; "+clearState)
		}
		for _, name := range slices.Backward(TransferTables) {
			if err := t.conn.exec(ctx, "DELETE FROM "+name); err != nil {
				return err
			}
		}
		return t.conn.exec(ctx, clearState)
	})
}

// transaction runs fn between BEGIN and COMMIT.
func (t *Target) transaction(ctx context.Context, fn func() error) error {
	if err := t.conn.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return errors.Join(err, t.conn.exec(context.WithoutCancel(ctx), "ROLLBACK"))
	}
	return t.conn.exec(ctx, "COMMIT")
}

// SetState stores a value of the transfer's state.
func (t *Target) SetState(ctx context.Context, name, value string) error {
	text, err := sharedSQL("INSERT INTO " + transferTable + " (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value").prepare(t.dialect)
	if err != nil {
		return err
	}
	return t.conn.exec(ctx, text, name, value)
}

// tableState is the progress of the transfer of a table.
type tableState struct {
	Done  bool     `json:"done"`
	Rows  int64    `json:"rows"`
	After []string `json:"after"` // key of the last record
}

// Load copies the records of a table that are not in the target yet, in transactions that also store
// the progress. It calls each with the number of records of every batch, and returns its error.
func (t *Target) Load(ctx context.Context, from *Source, name string, each func(n int) error) error {
	var state tableState
	text, err := t.State(ctx, "table "+name)
	if err != nil {
		return err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			return err
		}
	}
	if err := each(int(state.Rows)); err != nil || state.Done {
		return err
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	b := batches{table: tableNamed(name), each: each, chunk: t.chunk, queue: make(chan []rowValues, 1), result: make(chan error, 1)}
	go func() {
		b.result <- b.fill(reading, from, state.After)
		close(b.queue)
	}()
	for err == nil && !state.Done {
		err = t.transaction(ctx, func() error {
			if state.After == nil { // a migration may have written rows
				if err := t.conn.exec(ctx, "DELETE FROM "+name); err != nil {
					return err
				}
			}
			b.rows, b.bytes = 0, 0
			if err := t.conn.insert(ctx, b.table, b.next); err != nil {
				return err
			}
			state.Rows += int64(b.rows)
			if b.last != nil {
				state.After = b.table.key(b.last)
			}
			state.Done = b.ended
			text, err := json.Marshal(state)
			if err != nil {
				return err
			}
			return t.SetState(ctx, "table "+name, string(text))
		})
	}
	if err == nil {
		return nil
	}
	cancel()
	for range b.queue {
	}
	return fmt.Errorf("%s: %w", name, err)
}

// batches are the records of a table on their way from the source, which another goroutine reads, to
// the target.
type batches struct {
	table *table
	each  func(n int) error
	chunk int // limit of the records of a transaction
	queue chan []rowValues
	// result receives the error of fill before the queue is closed.
	result chan error

	batch       []rowValues
	last        rowValues
	rows, bytes int  // of the transaction
	ended       bool // next has returned all records
}

// fill sends the records that follow a key to the queue.
func (b *batches) fill(ctx context.Context, from *Source, after []string) error {
	var batch []rowValues
	size := 0
	send := func() error {
		select {
		case b.queue <- batch:
			batch, size = make([]rowValues, 0, batchRows), 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := from.records(ctx, b.table, after, func(r rowValues) error {
		batch, size = append(batch, r), size+r.size()
		if len(batch) < batchRows && size < batchBytes {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	return send()
}

// next returns the next record, or false at the end of the source or of the transaction.
func (b *batches) next() (rowValues, bool, error) {
	for len(b.batch) == 0 {
		if b.rows >= b.chunk || b.bytes >= chunkBytes {
			return nil, false, nil
		}
		var ok bool
		if b.batch, ok = <-b.queue; !ok {
			b.ended = true
			return nil, false, <-b.result
		}
		b.rows += len(b.batch)
		if err := b.each(len(b.batch)); err != nil {
			return nil, false, err
		}
	}
	b.last, b.batch = b.batch[0], b.batch[1:]
	b.bytes += b.last.size()
	return b.last, true, nil
}

// Finish sets the epoch of the logs and allows servers to open the database. The transfer is durable
// when it returns nil.
func (t *Target) Finish(ctx context.Context, epoch int64) error {
	return failed(ctx, t.end(ctx, "UPDATE log_epoch SET epoch = "+strconv.FormatInt(epoch, 10)), "Database")
}

// end executes a statement and removes transferTable in the last transaction.
func (t *Target) end(ctx context.Context, statement string) error {
	return t.conn.finish(ctx, func() error {
		return t.transaction(ctx, func() error {
			if err := t.conn.exec(ctx, statement); err != nil {
				return err
			}
			return t.conn.exec(ctx, "DROP TABLE "+transferTable)
		})
	})
}

// Abandon removes all records of the transfer, and allows servers to open the database.
func (t *Target) Abandon(ctx context.Context) error {
	err := t.migrate(ctx)
	if err == nil {
		err = t.clear(ctx)
	}
	if err == nil {
		err = t.end(ctx, "INSERT INTO release_revision (one, n) VALUES (TRUE, 0)")
	}
	return failed(ctx, err, "Database")
}
