// Package mirrorstate implements ports.MirrorState with a SQLite database.
package mirrorstate

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"collab/adapters/atomicfile"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
)

var _ ports.MirrorState = (*State)(nil)

// Names in mirror.StateDirectory.
const (
	fileName    = "state.db"
	bindingName = "binding.json" // the binding again: without it a lost database would lose the place
)

// version is that of the schema, kept in user_version.
const version = 1

// schema stores the parts of a row that are nil as empty texts and zeros.
const schema = `
CREATE TABLE rows (
	key TEXT NOT NULL PRIMARY KEY, missing INTEGER NOT NULL,
	synced_id TEXT NOT NULL, synced_version INTEGER NOT NULL, synced_checksum TEXT NOT NULL, synced_path TEXT NOT NULL, synced_name TEXT NOT NULL,
	remote_id TEXT NOT NULL, remote_path TEXT NOT NULL, remote_version INTEGER NOT NULL, remote_checksum TEXT NOT NULL, remote_size INTEGER NOT NULL, remote_deleted INTEGER NOT NULL,
	local_path TEXT NOT NULL, local_name TEXT NOT NULL, local_kind INTEGER NOT NULL, local_checksum TEXT NOT NULL,
	local_size INTEGER NOT NULL, local_mod_time INTEGER NOT NULL, local_change_time INTEGER NOT NULL, local_inode INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE cursor (only INTEGER PRIMARY KEY CHECK (only = 1), epoch INTEGER NOT NULL, n INTEGER NOT NULL) STRICT;
CREATE TABLE binding (only INTEGER PRIMARY KEY CHECK (only = 1), server TEXT NOT NULL, org TEXT NOT NULL, user TEXT NOT NULL,
	place TEXT NOT NULL, root TEXT NOT NULL, ignore_hash TEXT NOT NULL) STRICT;
PRAGMA user_version = 1;`

// windowSchema stores Binding.Window. Databases of version 1 may lack it, and earlier clients ignore it.
const windowSchema = `CREATE TABLE IF NOT EXISTS deletion_window (only INTEGER PRIMARY KEY CHECK (only = 1),
	known INTEGER NOT NULL, since INTEGER NOT NULL, stopped INTEGER NOT NULL) STRICT`

// manyRows is how many rows one statement stores, if there are as many.
const manyRows = 32

var (
	values  = "(?" + strings.Repeat(", ?", len(new(storedRow).columns())-1) + ")"
	putRow  = "INSERT OR REPLACE INTO rows VALUES " + values
	putRows = putRow + strings.Repeat(", "+values, manyRows-1)
)

const removeRow = "DELETE FROM rows WHERE key = ?"

// State is a database that this process has locked. It is safe for concurrent use, but functions
// given to Rows must not call it.
type State struct {
	db        *sql.DB
	remove    *sql.Stmt // removeRow
	put       *sql.Stmt // putRow
	putMany   *sql.Stmt // putRows
	directory *os.Root  // mirror.StateDirectory
	damaged   string

	// Changes that are waiting when one begins to be stored share its transaction.
	writer  sync.Mutex
	mu      sync.Mutex
	pending []*change
}

// change is a call of Put that waits for its transaction.
type change struct {
	rows   []mirror.Row
	cursor *object.Cursor
	done   bool
	err    error
}

// OpenDirectory opens the state directory of a directory. It must be in the directory itself: a symbolic
// link is refused. NotFound if there is none.
func OpenDirectory(directory string) (state *os.Root, err error) {
	top, err := os.OpenRoot(directory)
	if err != nil {
		return nil, failed(err)
	}
	defer func() { _ = top.Close() }()
	info, err := top.Lstat(mirror.StateDirectory)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err == nil {
		state, err = top.OpenRoot(mirror.StateDirectory)
	}
	if err != nil {
		return nil, failed(&fs.PathError{Op: "open", Path: filepath.Join(directory, mirror.StateDirectory), Err: err})
	}
	return state, nil
}

// CheckFile returns Forbidden if the state directory has anything but a regular file of the name, such as
// a symbolic link, which another program must have made.
func CheckFile(directory *os.Root, name string) error {
	info, err := directory.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && !info.Mode().IsRegular():
		return fault.New(fault.Forbidden, "%s is not a file of this program; remove it", filepath.Join(directory.Name(), name))
	}
	return failed(err)
}

// Open opens the state of a directory and creates one if there is none, in its state directory,
// which must exist. Conflict if another process has it open, or if it is of a later version of this
// program. A damaged database is renamed, and Damaged returns its name.
func Open(directory string) (*State, error) {
	in, err := OpenDirectory(directory)
	if err != nil {
		return nil, err
	}
	s, err := open(in)
	if isDamaged(err) {
		renamed := freeName(in, fileName+".damaged")
		for _, suffix := range suffixes {
			if err := in.Rename(fileName+suffix, renamed+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, errors.Join(failed(err), in.Close())
			}
		}
		if s, err = open(in); err == nil {
			s.damaged = filepath.Join(in.Name(), renamed)
		}
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return s, nil
}

// suffixes are those of the names of the database's files.
var suffixes = []string{"", "-wal", "-journal"}

// freeName returns a name that no file has.
func freeName(directory *os.Root, name string) string {
	for i, free := 1, name; ; i++ {
		if _, err := directory.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s.%d", name, i)
	}
}

// open opens the database. SQLite opens its files by their paths, so none may be a symbolic link;
// the directory is writable by its owner only, so none becomes one.
func open(in *os.Root) (*State, error) {
	for _, suffix := range slices.Concat(suffixes, []string{"-shm"}) {
		if err := CheckFile(in, fileName+suffix); err != nil {
			return nil, err
		}
	}
	f, err := in.OpenFile(fileName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed(err)
	}
	if err := f.Close(); err != nil {
		return nil, failed(err)
	}
	// With the exclusive lock there is no memory shared with other processes, which some file
	// systems do not have. The driver locks before it sets what has a parameter of its own.
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(filepath.Join(in.Name(), fileName))}).EscapedPath()}
	u.RawQuery = url.Values{"_txlock": {"exclusive"}, "_pragma": {"locking_mode(EXCLUSIVE)"}, "_journal_mode": {"WAL"}, "_synchronous": {"FULL"}}.Encode()
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, failed(err)
	}
	db.SetMaxOpenConns(1)
	s := &State{db: db, directory: in}
	err = s.prepare()
	if err == nil {
		s.remove, err = db.Prepare(removeRow)
	}
	if err == nil {
		s.put, err = db.Prepare(putRow)
	}
	if err == nil {
		s.putMany, err = db.Prepare(putRows)
	}
	if err != nil {
		return nil, errors.Join(failed(err), db.Close())
	}
	return s, nil
}

// prepare locks and checks the database, and creates the tables that it lacks.
func (s *State) prepare() error {
	ctx := context.Background()
	return s.transact(ctx, func(tx *sql.Tx) error {
		var found int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
			return err
		}
		switch {
		case found > version:
			return fault.New(fault.Conflict, "The state is of a later version of this program")
		case found == 0:
			if _, err := tx.ExecContext(ctx, schema); err != nil {
				return err
			}
		}
		var problem string
		if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&problem); err != nil {
			return err
		}
		if problem != "ok" {
			return fmt.Errorf("%w: %s", errDamaged, problem)
		}
		_, err := tx.ExecContext(ctx, windowSchema)
		return err
	})
}

// Close closes the database and releases its lock.
func (s *State) Close() error { return errors.Join(s.db.Close(), s.directory.Close()) }

// Damaged returns the path of the damaged database that Open renamed, empty if it did not.
func (s *State) Damaged() string { return s.damaged }

// errDamaged says that a check of the database found an error.
var errDamaged = errors.New("the database is damaged")

// codeOf returns SQLite's primary error code, 0 for other errors.
func codeOf(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func isDamaged(err error) bool {
	code := codeOf(err)
	return errors.Is(err, errDamaged) || code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// failed returns an error of SQLite or the file system as one of ports.MirrorState.
func failed(err error) error {
	switch code := codeOf(err); {
	case err == nil, fault.KindOf(err) != fault.Internal, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, err, "The directory cannot be found, or was never synchronised")
	case code == sqlite3.SQLITE_BUSY, code == sqlite3.SQLITE_LOCKED:
		return fault.Wrap(fault.Conflict, err, "Another process has the state open")
	case code == sqlite3.SQLITE_FULL:
		return fault.Wrap(fault.Unavailable, err, "The state cannot be stored: the disk is full")
	}
	return fault.Wrap(fault.Unavailable, err, "The state cannot be read or stored")
}

// transact runs fn in a transaction.
func (s *State) transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Binding implements ports.MirrorState. In a new database it is that of the database which the
// directory had before, without Root, Ignore and Window.
func (s *State) Binding(ctx context.Context) (b mirror.Binding, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT server, org, user, place, root, ignore_hash, coalesce(known, 0), coalesce(since, 0), coalesce(stopped, 0)
		FROM binding LEFT JOIN deletion_window USING (only)`).
		Scan(&b.Server, &b.Org, &b.User, &b.Place, &b.Root, &b.Ignore, &b.Window.Known, &b.Window.Since, &b.Window.Stopped)
	if errors.Is(err, sql.ErrNoRows) {
		return StoredBinding(s.directory)
	}
	return b, failed(err)
}

// StoredBinding reads the binding of a state directory without its database, NotFound if there is none.
func StoredBinding(directory *os.Root) (b mirror.Binding, err error) {
	if err := CheckFile(directory, bindingName); err != nil {
		return b, err
	}
	text, err := directory.ReadFile(bindingName)
	if errors.Is(err, fs.ErrNotExist) {
		return b, fault.Missing("Binding")
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fault.Wrap(fault.Unavailable, err, "The binding of the directory cannot be read: %s", filepath.Join(directory.Name(), bindingName))
	}
	return placeOf(b), nil
}

// placeOf returns the fields of a binding that bindingName keeps. Files of earlier clients have others too.
func placeOf(b mirror.Binding) mirror.Binding {
	return mirror.Binding{Server: b.Server, Org: b.Org, User: b.User, Place: b.Place}
}

// Bind implements ports.MirrorState.
func (s *State) Bind(ctx context.Context, b mirror.Binding) error {
	text, err := json.Marshal(placeOf(b))
	if was, _ := s.directory.ReadFile(bindingName); err == nil && !bytes.Equal(was, text) {
		err = atomicfile.ReplaceIn(s.directory, bindingName, atomicfile.Content(text))
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The binding of the directory cannot be stored")
	}
	return failed(s.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO binding VALUES (1, ?, ?, ?, ?, ?, ?)", b.Server, b.Org, b.User, b.Place, b.Root, b.Ignore)
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO deletion_window VALUES (1, ?, ?, ?)", b.Window.Known, b.Window.Since, b.Window.Stopped)
		}
		return err
	}))
}

// Cursor implements ports.MirrorState.
func (s *State) Cursor(ctx context.Context) (c object.Cursor, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT epoch, n FROM cursor").Scan(&c.Epoch, &c.N)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, failed(err)
}

// storedRow is a row as the table has it.
type storedRow struct {
	key     string
	missing bool
	synced  mirror.Synced
	remote  mirror.Record
	local   mirror.Entry
	inode   int64
}

// row returns the row, which shares nothing with r. Of most files all paths and all checksums are equal, and then the
// same in memory.
func (r *storedRow) row() mirror.Row {
	share(&r.key, &r.synced.Path, &r.synced.Name, &r.remote.Path, &r.local.Path, &r.local.Name)
	share(&r.synced.Checksum, &r.remote.Checksum, &r.local.Checksum)
	share(&r.synced.ID, &r.remote.ID)
	row := mirror.Row{Key: r.key, Missing: r.missing}
	if r.synced.ID != "" {
		row.Synced = new(r.synced)
	}
	if r.remote.ID != "" {
		row.Remote = new(r.remote)
	}
	if r.local.Path != "" {
		row.Local = new(r.local)
		row.Local.Facts.Inode = uint64(r.inode)
	}
	return row
}

// share makes equal texts the same in memory.
func share[T ~string](texts ...*T) {
	for i, text := range texts {
		for _, other := range texts[:i] {
			if *other == *text {
				*text = *other
			}
		}
	}
}

// set makes r what the table has for the row.
func (r *storedRow) set(row mirror.Row) {
	*r = storedRow{key: row.Key, missing: row.Missing}
	if row.Synced != nil {
		r.synced = *row.Synced
	}
	if row.Remote != nil {
		r.remote = *row.Remote
	}
	if row.Local != nil {
		r.local, r.inode = *row.Local, int64(row.Local.Facts.Inode)
	}
}

// columns returns the addresses of the columns in the order of the table.
func (r *storedRow) columns() []any {
	return []any{
		&r.key, &r.missing,
		&r.synced.ID, &r.synced.Version, &r.synced.Checksum, &r.synced.Path, &r.synced.Name,
		&r.remote.ID, &r.remote.Path, &r.remote.Version, &r.remote.Checksum, &r.remote.Size, &r.remote.Deleted,
		&r.local.Path, &r.local.Name, &r.local.Kind, &r.local.Checksum,
		&r.local.Facts.Size, &r.local.Facts.ModTime, &r.local.Facts.ChangeTime, &r.inode,
	}
}

// Rows implements ports.MirrorState.
func (s *State) Rows(ctx context.Context, each func(mirror.Row) error) error {
	rows, err := s.db.QueryContext(ctx, "SELECT * FROM rows")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = rows.Close() }()
	var r storedRow
	columns := r.columns()
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return failed(err)
		}
		if err := each(r.row()); err != nil {
			return err
		}
	}
	return failed(rows.Err())
}

// Put implements ports.MirrorState. Calls at the same time share a transaction.
func (s *State) Put(ctx context.Context, rows []mirror.Row, cursor *object.Cursor) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &change{rows: rows, cursor: cursor}
	s.mu.Lock()
	s.pending = append(s.pending, c)
	s.mu.Unlock()
	s.writer.Lock()
	defer s.writer.Unlock()
	if c.done {
		return c.err
	}
	s.mu.Lock()
	changes := s.pending
	s.pending = nil
	s.mu.Unlock()
	err := failed(s.store(context.WithoutCancel(ctx), changes))
	for _, c := range changes {
		c.done, c.err = true, err
	}
	return err
}

// store stores changes in their order.
func (s *State) store(ctx context.Context, changes []*change) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		var rows []mirror.Row
		for _, c := range changes {
			rows = append(rows, c.rows...)
		}
		if err := s.storeRows(ctx, tx, rows); err != nil {
			return err
		}
		for _, c := range changes {
			if c.cursor == nil {
				continue
			}
			if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO cursor VALUES (1, ?, ?)", c.cursor.Epoch, c.cursor.N); err != nil {
				return err
			}
		}
		return nil
	})
}

// storeRows stores rows, of those of one key the last, in the order of the table, whose pages are then each changed
// once. It changes the slice.
func (s *State) storeRows(ctx context.Context, tx *sql.Tx, rows []mirror.Row) error {
	slices.SortStableFunc(rows, func(a, b mirror.Row) int { return strings.Compare(a.Key, b.Key) })
	remove, put, putMany := tx.StmtContext(ctx, s.remove), tx.StmtContext(ctx, s.put), tx.StmtContext(ctx, s.putMany)
	var batch [manyRows]storedRow
	var columns []any
	for i := range batch {
		columns = append(columns, batch[i].columns()...)
	}
	width, n := len(columns)/manyRows, 0
	for i, row := range rows {
		var err error
		switch {
		case i+1 < len(rows) && rows[i+1].Key == row.Key:
		case row.Empty():
			_, err = remove.ExecContext(ctx, row.Key)
		default:
			batch[n].set(row)
			if n++; n == manyRows {
				_, err = putMany.ExecContext(ctx, columns...)
				n = 0
			}
		}
		if err != nil {
			return err
		}
	}
	for i := range n {
		if _, err := put.ExecContext(ctx, columns[i*width:(i+1)*width]...); err != nil {
			return err
		}
	}
	return nil
}
