package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"collab/test/must"
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

// firstDay is the time of the first task of a filled table, long before those that are created during a
// measurement.
var firstDay = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func taskTitle(i int) string { return fmt.Sprintf("Prepare the quarterly review, part %d", i) }

// draft returns the body of a POST of the i-th task.
func draft(i int) string {
	return fmt.Sprintf(`{"title":%q,"description":%q,"priority":"HIGH","tags":[%q,%q],"dueDate":"2026-06-30","metadata":%s}`,
		taskTitle(i), description, tags[0], tags[1], metadata)
}

// taskColumns are the columns of the table of tasks, in the order of record.
var taskColumns = []string{
	"org_id", "id", "title", "description", "status", "priority", "assignee_id", "workspace_id",
	"due_text", "due_start", "due_end", "tags", "metadata", "sort_order", "completed_at", "created_by", "created_at", "updated_at", "version",
}

// record returns the i-th task of an organisation. Every filter selects the same share of few tasks and of
// many.
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
		s.org, taskID(at, random), taskTitle(i), description, status, one(priorities), assignee, workspace,
		due, dueStart, dueEnd, fmt.Sprintf("[%q,%q]", tags[first], tags[second]), metadata, int64(i), completed, s.user, at, at, int64(1),
	}
}

// add is record, and adds the id of the task.
func (s *taskServer) add(i int) []any {
	row := s.record(i)
	s.ids = append(s.ids, row[1].(string))
	return row
}

// deleteTasks deletes the tasks of the onboarding.
const deleteTasks = "DELETE FROM tasks"

// taskID returns a UUID of version 7.
func taskID(ms int64, random *rand.Rand) string {
	low := random.Uint64()
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x", ms>>16, ms&0xffff, random.Uint64()&0xfff, 0x8000|low>>50, low&0xffffffffffff)
}

// onPostgres is a server with tasks in Postgres.
type onPostgres struct {
	taskServer
	url  string
	conn *pgx.Conn
}

// startOnPostgres starts a server on a new database and fills it with tasks. The server gets the address of the
// database that via returns.
func (b *bench) startOnPostgres(ctx context.Context, name string, rows int, via func(string) string) *onPostgres {
	p := &onPostgres{taskServer: taskServer{rows: rows}}
	p.url, p.conn = b.database(ctx, name)
	p.url = via(p.url)
	p.collab = b.startCollab(ctx, fmt.Sprintf("collabd-postgres-%s-%d", name, rows), p.url)
	p.database = must.Do(postmasterOf(ctx, p.conn)).Or(b)
	must.NoError(b, p.fill(ctx))
	return p
}

func direct(address string) string { return address }

// startBesideBare is startOnPostgres with a bare server that has a table of the same tasks in the same database.
func (b *bench) startBesideBare(
	ctx context.Context, name string, rows int, via func(address string) string,
) (*onPostgres, *process) {
	pg := b.startOnPostgres(ctx, name, rows, via)
	must.NoError(b, pg.copyForBare(ctx))
	return pg, b.startBare(ctx, pg.url)
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
	// One statement for all rows replaces the trigger that indexes tags, which would take most of the time.
	if err := p.exec(ctx, deleteTasks, "SET session_replication_role = replica"); err != nil {
		return err
	}
	_, err := p.conn.CopyFrom(ctx, pgx.Identifier{"tasks"}, taskColumns, pgx.CopyFromSlice(p.rows, func(i int) ([]any, error) {
		return p.add(i), nil
	}))
	if err != nil {
		return err
	}
	return p.exec(ctx, `INSERT INTO task_tags (org_id, tag, sort_order, created_at, task_id)
		SELECT org_id, tag, sort_order, created_at, id FROM tasks, json_array_elements_text(tags::json) AS tag`,
		"SET session_replication_role = origin", "VACUUM ANALYZE", "CHECKPOINT")
}

// copyForBare creates a table for the bare server with the same columns, indexes and rows. Triggers update the
// index of tags, as for the table of tasks.
func (p *onPostgres) copyForBare(ctx context.Context) error {
	return p.exec(ctx,
		"CREATE TABLE "+bareTable+" (LIKE tasks INCLUDING ALL)", "INSERT INTO "+bareTable+" SELECT * FROM tasks",
		"CREATE TABLE "+bareTags+" (LIKE task_tags INCLUDING ALL)", "INSERT INTO "+bareTags+" SELECT * FROM task_tags",
		"DO $$ BEGIN EXECUTE replace(pg_get_functiondef('index_task_tags'::regproc), 'task_tags', '"+bareTags+"'); END $$",
		"CREATE TRIGGER tags AFTER INSERT OR DELETE ON "+bareTable+" FOR EACH ROW EXECUTE FUNCTION index_"+bareTags+"()",
		"VACUUM ANALYZE "+bareTable, "VACUUM ANALYZE "+bareTags, "CHECKPOINT")
}

// trim removes the tasks that were created after the tables were filled.
func (p *onPostgres) trim(ctx context.Context) error {
	made := fmt.Sprintf(" WHERE created_at > %d", p.last())
	return p.exec(ctx, "DELETE FROM tasks"+made, "DELETE FROM "+bareTable+made,
		"VACUUM ANALYZE tasks", "VACUUM ANALYZE task_tags", "VACUUM ANALYZE "+bareTable, "VACUUM ANALYZE "+bareTags, "CHECKPOINT")
}

// last returns the time of the last task of the filled table, in milliseconds.
func (s *taskServer) last() int64 {
	return firstDay.Add(time.Duration(s.rows) * time.Second).UnixMilli()
}

// onSQLite is a server with tasks in SQLite.
type onSQLite struct {
	taskServer
	db *sql.DB
}

// startOnSQLite starts a server on a new file and fills it with tasks.
func (b *bench) startOnSQLite(ctx context.Context, name string, rows int) *onSQLite {
	l := &onSQLite{taskServer: taskServer{rows: rows}}
	file := filepath.Join(b.folder, fmt.Sprintf("%s-%d.db", name, rows))
	l.collab = b.startCollab(ctx, fmt.Sprintf("collabd-sqlite-%s-%d", name, rows), "sqlite://"+file)
	l.db = b.openSQLite(file)
	must.NoError(b, l.fill(ctx))
	return l
}

// openSQLite opens the database of a server until the end of the scope.
func (b *bench) openSQLite(file string) *sql.DB {
	const settings = "?_pragma=busy_timeout(20000)&_pragma=foreign_keys(1)&_txlock=immediate"
	db := must.Do(sql.Open("sqlite", "file:"+file+settings)).Or(b)
	b.cleanup(db.Close)
	db.SetMaxOpenConns(1)
	return db
}

// insertRows runs a statement and inserts n rows into a table, in one transaction.
func insertRows(ctx context.Context, db *sql.DB, first, table string, columns []string, n int, row func(i int) []any) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, first); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (?%s)", table, strings.Join(columns, ", "), strings.Repeat(", ?", len(columns)-1)))
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := insert.ExecContext(ctx, row(i)...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (l *onSQLite) fill(ctx context.Context) error {
	if err := insertRows(ctx, l.db, deleteTasks, "tasks", taskColumns, l.rows, l.add); err != nil {
		return err
	}
	// With the limit of the server's PRAGMA optimize.
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

// trim removes the tasks that were created after the table was filled.
func (l *onSQLite) trim(ctx context.Context) error {
	return l.exec(ctx, fmt.Sprintf("DELETE FROM tasks WHERE created_at > %d", l.last()), "PRAGMA wal_checkpoint(TRUNCATE)")
}
