// Package mirrorstate implements ports.MirrorState with a SQLite database.
package mirrorstate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

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

// Parts of a row that are nil have empty texts and zeros.
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
	place TEXT NOT NULL, root TEXT NOT NULL, ignore_hash TEXT NOT NULL, paused INTEGER NOT NULL) STRICT;
PRAGMA user_version = 1;`

// columns is the number of columns of rows.
const columns = 21

var (
	putRow    = "INSERT OR REPLACE INTO rows VALUES (?" + strings.Repeat(", ?", columns-1) + ")"
	removeRow = "DELETE FROM rows WHERE key = ?"
)

// State is a database that this process has locked. It is safe for concurrent use, but functions
// given to Rows must not call it.
type State struct {
	db      *sql.DB
	binding string // the path of the binding's file
	damaged string

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

// Open opens the state of a directory and creates one if there is none, in its state directory,
// which must exist. Conflict if another process has it open, or if it is of a later version of this
// program. A damaged database is renamed, and Damaged returns its name.
func Open(directory string) (*State, error) {
	path := filepath.Join(directory, mirror.StateDirectory, fileName)
	s, err := open(path)
	if !isDamaged(err) {
		return s, err
	}
	aside := freeName(path + ".damaged")
	for _, suffix := range []string{"", "-wal", "-journal"} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, failed(err)
		}
	}
	if s, err = open(path); err == nil {
		s.damaged = aside
	}
	return s, err
}

// freeName returns a name that no file has.
func freeName(name string) string {
	for i, free := 1, name; ; i++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s.%d", name, i)
	}
}

func open(path string) (*State, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed(err)
	}
	if err := f.Close(); err != nil {
		return nil, failed(err)
	}
	// With the exclusive lock there is no memory shared with other processes, which some file
	// systems do not have.
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()}
	u.RawQuery = url.Values{"_txlock": {"exclusive"}, "_pragma": {"locking_mode(EXCLUSIVE)", "journal_mode(WAL)", "synchronous(FULL)"}}.Encode()
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, failed(err)
	}
	db.SetMaxOpenConns(1)
	s := &State{db: db, binding: filepath.Join(filepath.Dir(path), bindingName)}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(failed(err), db.Close())
	}
	return s, nil
}

// prepare locks and checks the database, and creates the tables if there are none.
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
			_, err := tx.ExecContext(ctx, schema)
			return err
		}
		var problem string
		if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&problem); err != nil {
			return err
		}
		if problem != "ok" {
			return fmt.Errorf("%w: %s", errDamaged, problem)
		}
		return nil
	})
}

// Close closes the database and releases its lock.
func (s *State) Close() error { return s.db.Close() }

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

func failed(err error) error {
	switch code := codeOf(err); {
	case err == nil, fault.KindOf(err) != fault.Internal, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
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
// directory had before, without Root and Ignore.
func (s *State) Binding(ctx context.Context) (b mirror.Binding, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT server, org, user, place, root, ignore_hash, paused FROM binding").
		Scan(&b.Server, &b.Org, &b.User, &b.Place, &b.Root, &b.Ignore, &b.Paused)
	if errors.Is(err, sql.ErrNoRows) {
		return s.storedBinding()
	}
	return b, failed(err)
}

// storedBinding reads the binding's file.
func (s *State) storedBinding() (b mirror.Binding, err error) {
	text, err := os.ReadFile(s.binding)
	if errors.Is(err, fs.ErrNotExist) {
		return b, fault.Missing("Binding")
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fault.Wrap(fault.Unavailable, err, "The binding of the directory cannot be read: %s", s.binding)
	}
	b.Root, b.Ignore = "", ""
	return b, nil
}

// Bind implements ports.MirrorState.
func (s *State) Bind(ctx context.Context, b mirror.Binding) error {
	text, err := json.Marshal(b)
	if err == nil {
		err = atomicfile.Replace(s.binding, func(f *os.File) error {
			_, err := f.Write(text)
			return err
		})
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The binding of the directory cannot be stored")
	}
	_, err = s.db.ExecContext(ctx, "INSERT OR REPLACE INTO binding VALUES (1, ?, ?, ?, ?, ?, ?, ?)", b.Server, b.Org, b.User, b.Place, b.Root, b.Ignore, b.Paused)
	return failed(err)
}

// Cursor implements ports.MirrorState.
func (s *State) Cursor(ctx context.Context) (c object.Cursor, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT epoch, n FROM cursor").Scan(&c.Epoch, &c.N)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return c, failed(err)
}

// Reset implements ports.MirrorState.
func (s *State) Reset(ctx context.Context) error {
	return failed(s.transact(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM rows; DELETE FROM cursor")
		return err
	}))
}

// Rows implements ports.MirrorState.
func (s *State) Rows(ctx context.Context, each func(mirror.Row) error) error {
	rows, err := s.db.QueryContext(ctx, "SELECT * FROM rows")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r, synced, remote, local := mirror.Row{}, mirror.Synced{}, mirror.Record{}, mirror.Entry{}
		var inode int64
		err := rows.Scan(&r.Key, &r.Missing,
			&synced.ID, &synced.Version, &synced.Checksum, &synced.Path, &synced.Name,
			&remote.ID, &remote.Path, &remote.Version, &remote.Checksum, &remote.Size, &remote.Deleted,
			&local.Path, &local.Name, &local.Kind, &local.Checksum,
			&local.Facts.Size, &local.Facts.ModTime, &local.Facts.ChangeTime, &inode)
		if err != nil {
			return failed(err)
		}
		local.Facts.Inode = uint64(inode)
		if synced.ID != "" {
			r.Synced = &synced
		}
		if remote.ID != "" {
			r.Remote = &remote
		}
		if local.Path != "" {
			r.Local = &local
		}
		if err := each(r); err != nil {
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
		put, err := tx.PrepareContext(ctx, putRow)
		if err != nil {
			return err
		}
		for _, c := range changes {
			for _, r := range c.rows {
				if r.Empty() {
					_, err = tx.ExecContext(ctx, removeRow, r.Key)
				} else {
					_, err = put.ExecContext(ctx, valuesOf(r)...)
				}
				if err != nil {
					return err
				}
			}
			if c.cursor != nil {
				if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO cursor VALUES (1, ?, ?)", c.cursor.Epoch, c.cursor.N); err != nil {
					return err
				}
			}
		}
		return put.Close()
	})
}

// valuesOf returns the columns of a row.
func valuesOf(r mirror.Row) []any {
	synced, remote, local := mirror.Synced{}, mirror.Record{}, mirror.Entry{}
	if r.Synced != nil {
		synced = *r.Synced
	}
	if r.Remote != nil {
		remote = *r.Remote
	}
	if r.Local != nil {
		local = *r.Local
	}
	return []any{r.Key, r.Missing,
		synced.ID, synced.Version, synced.Checksum, synced.Path, synced.Name,
		remote.ID, remote.Path, remote.Version, remote.Checksum, remote.Size, remote.Deleted,
		local.Path, local.Name, local.Kind, local.Checksum,
		local.Facts.Size, local.Facts.ModTime, local.Facts.ChangeTime, int64(local.Facts.Inode)}
}
