package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver
)

// Values of the fields of tasks.
var (
	statuses   = []string{"TODO", "IN_PROGRESS", "DONE", "CANCELLED"}
	priorities = []string{"LOW", "MEDIUM", "HIGH", "URGENT"}
	tags       = []string{"design", "backend", "billing", "customer", "research", "urgent fix", "sales", "documents"}
)

const (
	description = "Collect what the customers said last month, compare it with the plan and write down what should change."
	metadata    = `{"source":"bench","points":3}`
)

// firstDay is when the tasks that fill a table begin: long before those that
// are made while measuring.
var firstDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func titled(i int) string { return fmt.Sprintf("Prepare the quarterly review, part %d", i) }

// draft is the body of a POST.
func draft(i int) string {
	return fmt.Sprintf(`{"title":%q,"description":%q,"priority":"HIGH","tags":[%q,%q],"dueDate":"2026-06-30","metadata":%s}`,
		titled(i), description, tags[0], tags[1], metadata)
}

// taskColumns are the columns of the table of tasks, in the order of record.
var taskColumns = []string{
	"org_id", "id", "title", "description", "status", "priority", "assignee_id", "workspace_id",
	"due_text", "due_start", "due_end", "tags", "metadata", "sort_order", "completed_at", "created_by", "created_at", "updated_at", "version",
}

// record is the i-th task of an organisation. Every filter selects the same
// share of few tasks and of many.
func (s *taskServer) record(i int) []any {
	random := rand.New(rand.NewPCG(uint64(i), 1))
	one := func(of []string) string { return of[random.IntN(len(of))] }
	at := firstDay.Add(time.Duration(i) * time.Second).UnixMilli()
	status := one(statuses)
	var assignee, workspace, completed, due, dueStart, dueEnd any
	if random.IntN(3) == 0 {
		assignee = s.user
	}
	if random.IntN(2) == 0 {
		workspace = s.workspace
	}
	if status == "DONE" {
		completed = at
	}
	if random.IntN(2) == 0 {
		day := firstDay.AddDate(0, 0, random.IntN(365))
		due, dueStart, dueEnd = day.Format(time.DateOnly), day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()-1
	}
	first := random.IntN(len(tags))
	second := (first + 1 + random.IntN(len(tags)-1)) % len(tags)
	return []any{
		s.org, taskID(at, random), titled(i), description, status, one(priorities), assignee, workspace,
		due, dueStart, dueEnd, fmt.Sprintf("[%q,%q]", tags[first], tags[second]), metadata, int64(i), completed, s.user, at, at, int64(1),
	}
}

// taskID makes a UUID of version 7.
func taskID(ms int64, random *rand.Rand) string {
	low := random.Uint64()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, random.Uint64()&0xfff, 0x8000|low>>50, low&0xffffffffffff)
}

// onPostgres is a server over tasks in Postgres.
type onPostgres struct {
	taskServer
	url  string
	conn *pgx.Conn
}

// startOnPostgres starts a server on a fresh database and fills it with tasks.
func (b *bench) startOnPostgres(ctx context.Context, name string, rows int) (*onPostgres, error) {
	return b.startOnPostgresVia(ctx, name, rows, func(address string) (string, error) { return address, nil })
}

// startOnPostgresVia is startOnPostgres for a server that is given another address of the database.
func (b *bench) startOnPostgresVia(ctx context.Context, name string, rows int, via func(address string) (string, error)) (_ *onPostgres, err error) {
	p := &onPostgres{taskServer: taskServer{rows: rows}}
	if p.url, p.conn, err = b.database(ctx, name); err != nil {
		return nil, err
	}
	address, err := via(p.url)
	if err == nil {
		p.collab, err = b.startCollab(ctx, fmt.Sprintf("collabd-postgres-%s-%d", name, rows), address)
	}
	if err == nil {
		err = p.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *onPostgres) close() error {
	err := p.conn.Close(context.Background())
	if p.collab != nil {
		err = errors.Join(err, p.stop())
	}
	return err
}

// exec runs statements without parameters, one after the other.
func (p *onPostgres) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := p.conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (p *onPostgres) fill(ctx context.Context) error {
	// The trigger that indexes tags would take most of the time; one statement
	// does the same for all rows.
	if err := p.exec(ctx, "DELETE FROM tasks", "SET session_replication_role = replica"); err != nil { // what onboarding made
		return err
	}
	_, err := p.conn.CopyFrom(ctx, pgx.Identifier{"tasks"}, taskColumns, pgx.CopyFromSlice(p.rows, func(i int) ([]any, error) {
		row := p.record(i)
		p.ids = append(p.ids, row[1].(string))
		return row, nil
	}))
	if err != nil {
		return err
	}
	return p.exec(ctx, `INSERT INTO task_tags (org_id, tag, sort_order, created_at, task_id)
		SELECT org_id, tag, sort_order, created_at, id FROM tasks, json_array_elements_text(tags::json) AS tag`,
		"SET session_replication_role = origin", "VACUUM ANALYZE", "CHECKPOINT")
}

// copyForBare gives the bare server a table with the same columns, indexes and
// rows. Triggers keep the index of tags, as they do for the table of tasks.
func (p *onPostgres) copyForBare(ctx context.Context) error {
	return p.exec(ctx,
		"CREATE TABLE "+bareTable+" (LIKE tasks INCLUDING ALL)", "INSERT INTO "+bareTable+" SELECT * FROM tasks",
		"CREATE TABLE "+bareTags+" (LIKE task_tags INCLUDING ALL)", "INSERT INTO "+bareTags+" SELECT * FROM task_tags",
		"DO $$ BEGIN EXECUTE replace(pg_get_functiondef('index_task_tags'::regproc), 'task_tags', '"+bareTags+"'); END $$",
		"CREATE TRIGGER tags AFTER INSERT OR DELETE ON "+bareTable+" FOR EACH ROW EXECUTE FUNCTION index_"+bareTags+"()",
		"VACUUM ANALYZE "+bareTable, "VACUUM ANALYZE "+bareTags, "CHECKPOINT")
}

// trim removes the tasks that were made since the tables were filled.
func (p *onPostgres) trim(ctx context.Context) error {
	made := fmt.Sprintf(" WHERE created_at > %d", p.last())
	return p.exec(ctx, "DELETE FROM tasks"+made, "DELETE FROM "+bareTable+made,
		"VACUUM ANALYZE tasks", "VACUUM ANALYZE task_tags", "VACUUM ANALYZE "+bareTable, "VACUUM ANALYZE "+bareTags, "CHECKPOINT")
}

// last is when the last of the tasks that filled the table was made.
func (s *taskServer) last() int64 {
	return firstDay.Add(time.Duration(s.rows) * time.Second).UnixMilli()
}

// onSQLite is a server over tasks in SQLite.
type onSQLite struct {
	taskServer
	db *sql.DB
}

// startOnSQLite starts a server on a fresh file and fills it with tasks.
func (b *bench) startOnSQLite(ctx context.Context, name string, rows int) (_ *onSQLite, err error) {
	l := &onSQLite{taskServer: taskServer{rows: rows}}
	file := filepath.Join(b.folder, fmt.Sprintf("%s-%d.db", name, rows))
	if l.collab, err = b.startCollab(ctx, fmt.Sprintf("collabd-sqlite-%s-%d", name, rows), "sqlite://"+file); err != nil {
		return nil, err
	}
	if l.db, err = sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=foreign_keys(1)&_txlock=immediate"); err == nil {
		l.db.SetMaxOpenConns(1)
		err = l.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *onSQLite) close() error {
	err := l.stop()
	if l.db != nil {
		err = errors.Join(err, l.db.Close())
	}
	return err
}

func (l *onSQLite) fill(ctx context.Context) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()                                                 // of no effect after the commit
	if _, err := tx.ExecContext(ctx, "DELETE FROM tasks"); err != nil { // what onboarding made
		return err
	}
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO tasks (%s) VALUES (?%s)", strings.Join(taskColumns, ", "), strings.Repeat(", ?", len(taskColumns)-1)))
	if err != nil {
		return err
	}
	for i := range l.rows {
		row := l.record(i)
		l.ids = append(l.ids, row[1].(string))
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	// With a limit, as the server's own PRAGMA optimize has one.
	return l.exec(ctx, "PRAGMA analysis_limit = 1000", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)")
}

func (l *onSQLite) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := l.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// trim removes the tasks that were made since the table was filled.
func (l *onSQLite) trim(ctx context.Context) error {
	return l.exec(ctx, fmt.Sprintf("DELETE FROM tasks WHERE created_at > %d", l.last()), "PRAGMA wal_checkpoint(TRUNCATE)")
}
