package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/adapters/gormdb"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/quota"
	"collab/domain/task"
	"collab/domain/usage"
	"collab/test/must"
	"collab/test/postgres"
)

// Sizes of a measured database. The records of the organisations alternate, as if all of them worked at once.
const (
	orgCount      = 500
	recordsPerOrg = 300 // records of each table of an organisation
	usersPerOrg   = 5
)

// base is the first time of records.
const base = 1_700_000_000_000

// The first parts of the ids of records.
const (
	kindOrg = iota + 1
	kindUser
	kindTeam
	kindWorkspace
	kindTask
	kindChange
	kindObject
	kindRequest
)

func uid[T ~string](kind, o, n int) T {
	return T(fmt.Sprintf("%08x-%04x-7000-8000-%012x", kind, o, n))
}

// database is a database that statements are measured on.
type database struct {
	db   *gormdb.DB
	conn *pgx.Conn // beside the pool
	pid  int       // of the pool's one connection
	next int       // makes ids
}

// newDatabase fills a database with records.
func newDatabase(ctx context.Context, server *postgres.Server, partitioned bool) (*database, error) {
	address, err := server.Database(ctx, "scale")
	if err != nil {
		return nil, err
	}
	b := &database{next: recordsPerOrg}
	if b.db, err = gormdb.Open(ctx, gormdb.Options{URL: address + "&pool_max_conns=1"}); err != nil {
		return nil, err
	}
	if err := b.db.Migrate(ctx); err != nil {
		return nil, err
	}
	if b.conn, err = pgx.Connect(ctx, address); err != nil {
		return nil, err
	}
	if partitioned {
		if err := b.db.Partition(ctx, func(string, int64, bool) {}); err != nil {
			return nil, err
		}
	}
	for _, statement := range fill() {
		if _, err := b.conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%w in %s", err, statement)
		}
	}
	if _, err := b.conn.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return nil, err
	}
	if _, err := b.db.Epochs(ctx, []id.Org{uid[id.Org](kindOrg, 1, 0)}); err != nil {
		return nil, err
	}
	err = b.conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = 'collab' AND datname = current_database()").Scan(&b.pid)
	return b, err
}

func (b *database) close() error {
	return errors.Join(b.conn.Close(context.Background()), b.db.Close())
}

// fill returns the statements that fill a database.
func fill() []string {
	uid := func(kind int, n string) string {
		return fmt.Sprintf("('%08x-' || lpad(to_hex(o), 4, '0') || '-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid", kind, n)
	}
	o, user, workspace := uid(kindOrg, "0"), uid(kindUser, fmt.Sprintf("n %% %d + 1", usersPerOrg)), uid(kindWorkspace, "n % 2 + 1")
	from := fmt.Sprintf(" FROM generate_series(1, %d) AS n, generate_series(1, %d) AS o ORDER BY n, o", recordsPerOrg, orgCount)
	rows := func(n int) string {
		return fmt.Sprintf(" FROM generate_series(1, %d) AS n, generate_series(1, %d) AS o", n, orgCount)
	}
	at := fmt.Sprintf("%d + n::bigint * 600000", base)
	day := fmt.Sprintf("(%s) - (%s) %% 86400000", at, at)
	key := o + "::text || '/workspaces/' || " + workspace + "::text || '/artifacts/reports/2026/report of week ' || n || '.md'"
	return []string{
		"INSERT INTO organisations (id, provider_id, name, slug, created_at, updated_at, is_full, seen_at, seen_rank, seen_message, created_by, created_by_seen_at, created_by_seen_rank, created_by_seen_message) SELECT " +
			o + ", 'org_' || o, 'Organisation', 'organisation', 1, 1, true, 1, 1, '', '', 0, 0, ''" + rows(1),
		"INSERT INTO users (id, provider_id, name, email, email_key, avatar_url, created_at, updated_at, is_full, seen_at, seen_rank, seen_message) SELECT " +
			uid(kindUser, "n") + ", 'user_' || o || '_' || n, 'Some One', 'someone@example.com', 'someone@example.com', '', 1, 1, true, 1, 1, ''" + rows(usersPerOrg),
		"INSERT INTO memberships (org_id, user_id, role, onboarding_completed, joined_at, used_at, provider_role, role_set_here, seen_at, seen_rank, seen_message) SELECT " +
			o + ", " + uid(kindUser, "n") + ", 'MEMBER', true, n, n, '', false, 0, 0, ''" + rows(usersPerOrg),
		"INSERT INTO teams (org_id, id, name, kind, created_by, created_at, updated_at) SELECT " + o + ", " + uid(kindTeam, "n") + ", 'Team', 'SHARED', " + uid(kindUser, "n") + ", n, n" + rows(1),
		"INSERT INTO workspaces (org_id, id, team_id, name, created_by, created_at, updated_at) SELECT " + o + ", " + uid(kindWorkspace, "n") + ", " + uid(kindTeam, "1") + ", 'Workspace', " + uid(kindUser, "1") + ", n, n" + rows(2),
		"INSERT INTO tasks (org_id, id, title, description, status, priority, assignee_id, workspace_id, due_text, due_start, due_end, tags, metadata, sort_order, created_by, created_at, updated_at, version) SELECT " +
			o + ", " + uid(kindTask, "n") + ", 'Prepare the quarterly review, part ' || n, 'Collect what the customers said last month, compare it with the plan and write down what should change.', " +
			"(ARRAY['TODO', 'IN_PROGRESS', 'DONE', 'CANCELLED'])[n % 4 + 1], (ARRAY['LOW', 'MEDIUM', 'HIGH', 'URGENT'])[n / 4 % 4 + 1], CASE WHEN n % 3 = 0 THEN " + user + " END, CASE WHEN n % 2 = 0 THEN " + workspace + " END, " +
			"CASE WHEN n % 2 = 0 THEN '2026-01-31' END, CASE WHEN n % 2 = 0 THEN " + at + " END, CASE WHEN n % 2 = 0 THEN " + at + " END, '[\"design\",\"backend\"]', '{\"source\":\"client\",\"points\":3}', n, " + user + ", " + at + ", " + at + ", 1" + from,
		"INSERT INTO task_history (org_id, id, task_id, at, by_user, reason, fields) SELECT " + o + ", " + uid(kindChange, "n") + ", " + uid(kindTask, "n") + ", " + at + ", " + user + ", '', '[{\"field\":\"status\",\"from\":\"TODO\",\"to\":\"IN_PROGRESS\"}]'" + from,
		"INSERT INTO objects (org_id, id, storage_key, folded_key, path, kind, scope, workspace_id, in_workspace_id, mime_type, version, created_by, updated_by, created_at, updated_at, blob, size, checksum, is_text, n) SELECT " +
			o + ", " + uid(kindObject, "n") + ", " + key + ", upper(" + key + "), 'reports/2026/report of week ' || n || '.md', 'ARTIFACT', 'SHARED', " + workspace + ", " + workspace + ", 'text/markdown', 1, " + user + ", " + user + ", " + at + ", " + at +
			", " + key + " || '@1-0123456789abcdef', 4096, repeat('0123456789abcdef', 4), true, n" + from,
		"INSERT INTO changes (org_id, n, type, at, by_user, record) SELECT " + o + ", n, 'file-changed', " + at + ", " + user +
			", json_build_object('id', " + uid(kindObject, "n") + ", 'path', 'reports/2026/report of week ' || n || '.md', 'kind', 'ARTIFACT', 'scope', 'SHARED', 'workspaceId', " + workspace + ", 'mimeType', 'text/markdown', 'version', 1, 'createdBy', " + user +
			", 'updatedBy', " + user + ", 'createdAt', " + at + ", 'updatedAt', " + at + ", 'blob', " + key + " || '@1-0123456789abcdef', 'size', 4096, 'checksum', repeat('0123456789abcdef', 4), 'text', true, 'n', n)" + from,
		fmt.Sprintf("INSERT INTO log_heads (org_id, n, floor, shared_bytes, counted_n) SELECT %s, %d, 0, %d, %[2]d", o, recordsPerOrg, 4096*recordsPerOrg) + rows(1),
		"INSERT INTO usage_entries (org_id, id, user_id, at, day, model, provider, input, output, cache_read, cache_made, searches, provenance, outcome) SELECT " +
			o + ", " + uid(kindRequest, "n") + ", " + user + ", " + at + ", " + day + ", 'claude-sonnet-4-5', 'anthropic', 5000 + n, 700, 4000, 200, 0, 'provider', 'completed'" + from,
		"INSERT INTO audit (id, org_id, at, actor_id, is_operator, action, target, detail, address, request) SELECT gen_random_uuid(), " + o + ", " + at + ", " + user + ", false, 'member.role_changed', " + user + "::text, 'MEMBER -> ADMIN', '203.0.113.9', '0123456789abcdef0123456789abcdef'" + from,
		"INSERT INTO sessions (id, org_id, user_id, created_at, last_used_at, expires_at, address, user_agent, is_unnamed, is_ended) SELECT gen_random_uuid()::text, " + o + ", " + user + ", " + at + ", " + at + ", " + at + ", '203.0.113.9', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', false, false" + rows(usersPerOrg),
		"INSERT INTO usage_user_models (org_id, user_id, day, model, input, output, requests) SELECT org_id, user_id, day, model, SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY 1, 2, 3, 4",
		"INSERT INTO usage_users (org_id, unit, since, user_id, input, output, requests) SELECT org_id, 86400000, day, user_id, SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY 1, 3, 4",
		"INSERT INTO usage_models (org_id, unit, since, model, lane, input, output, requests) SELECT org_id, 3600000, at - at % 3600000, model, right(user_id::text, 1), SUM(input), SUM(output), COUNT(*) FROM usage_entries GROUP BY 1, 3, 4, 5",
	}
}

// operation is a statement of a port's method as requests run it.
type operation struct {
	name    string
	prepare func(ctx context.Context, b *database, i int) (func() error, error) // returns the measured part
}

// recordAt returns the i-th pair of an organisation and one of its records.
func recordAt(i int) (o, n int) { return i*7919%orgCount + 1, i/orgCount*37%recordsPerOrg + 1 }

var now = time.UnixMilli(base + 400*600_000).UTC()

var operations = []operation{
	{"epoch of an organisation", read(func(ctx context.Context, b *database, o, _ int) error {
		return must.ErrorOf(b.db.Epochs(ctx, []id.Org{uid[id.Org](kindOrg, o, 0)}))
	})},
	{"get a task", read(func(ctx context.Context, b *database, o, n int) error {
		return must.ErrorOf(b.db.Work().TasksAt(0).Get(ctx, uid[id.Org](kindOrg, o, 0), uid[id.Task](kindTask, o, n)))
	})},
	{"list 50 tasks by status", read(func(ctx context.Context, b *database, o, _ int) error {
		a := owner(o)
		return b.db.Work().TasksAt(0).List(ctx, a.Org, a, task.Filter{Limit: 50, Status: task.Todo}, func(task.Task) error { return nil })
	})},
	{"add a task", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		b.next++
		of, user := uid[id.Org](kindOrg, o, 0), uid[id.User](kindUser, o, 1)
		t, err := b.db.Work().Tasks().Get(ctx, of, uid[id.Task](kindTask, o, n))
		t.ID, t.CreatedBy, t.Workspace = uid[id.Task](kindTask, o, b.next), user, new(uid[id.Workspace](kindWorkspace, o, 1))
		return func() error {
			return must.ErrorOf(b.db.Work().TasksAt(0).Add(ctx, of, t))
		}, err
	}},
	{"change a task, with its history", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		b.next++
		of := uid[id.Org](kindOrg, o, 0)
		before, err := b.db.Work().Tasks().Get(ctx, of, uid[id.Task](kindTask, o, n))
		next := before
		next.Title, next.Version = fmt.Sprint("Prepare the quarterly review, again ", i), before.Version+1
		change := task.Change{ID: uid[id.Entry](kindChange, o, b.next), Task: before.ID, At: now, By: before.CreatedBy}
		return func() error { return b.db.Work().TasksAt(0).Replace(ctx, of, before, next, []task.Change{change}) }, err
	}},
	{"list a task's history", read(func(ctx context.Context, b *database, o, n int) error {
		return b.db.Work().TaskHistory().List(ctx, uid[id.Org](kindOrg, o, 0), uid[id.Task](kindTask, o, n), id.Position[id.Entry]{}, 50, func(task.Change) error { return nil })
	})},
	{"get a file's record", read(func(ctx context.Context, b *database, o, n int) error {
		return must.ErrorOf(b.db.Storage().Objects().Get(ctx, uid[id.Org](kindOrg, o, 0), uid[id.Object](kindObject, o, n)))
	})},
	{"announce content", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, _ := recordAt(i)
		b.next++
		name := fmt.Sprint("announced ", b.next)
		return func() error {
			return b.db.Storage().BlobNames().Announce(ctx, uid[id.Org](kindOrg, o, 0), name, 0, now)
		}, nil
	}},
	{"store a file's new record, with its event", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		b.next++
		of := uid[id.Org](kindOrg, o, 0)
		before, err := b.db.Storage().Objects().Get(ctx, of, uid[id.Object](kindObject, o, n))
		content := before.Content
		content.Blob = fmt.Sprint(before.BlobName("0123456789abcdef"), b.next)
		if err == nil {
			err = b.db.Storage().BlobNames().Announce(ctx, of, content.Blob, 0, now)
		}
		change := object.NewChange(before.WithContent(content, before.CreatedBy, now))
		return func() error {
			r := object.Replacement{Change: change, Previous: before.Content, Limit: 1 << 40}
			return must.ErrorOf(b.db.Storage().Replace(ctx, of, r))
		}, err
	}},
	{"read an event", read(func(ctx context.Context, b *database, o, _ int) error {
		_, _, err := b.db.Entries(ctx, uid[id.Org](kindOrg, o, 0), recordsPerOrg-1, 100)
		return err
	})},
	{"reserve tokens of a chat", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		b.next++
		l := lease(o, n, b.next)
		return func() error {
			return must.ErrorOf(b.db.Usage().Quotas().ReserveAt(ctx, 0, l, 1_000_000_000, quota.Need{Input: 1000, Output: 1000}))
		}, nil
	}},
	{"settle a chat", func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		b.next++
		l := lease(o, n, b.next)
		_, err := b.db.Usage().Quotas().ReserveAt(ctx, 0, l, 1_000_000_000, quota.Need{Input: 1000, Output: 1000})
		e := usage.Entry{ID: l.ID, Org: l.Org, User: l.User, At: now, Model: "claude-sonnet-4-5", Provider: "anthropic",
			Tokens: chat.Usage{Input: 900, Output: 300}, Provenance: chat.Provider, Outcome: chat.Completed}
		return func() error { return b.db.Usage().Ledger().Settle(ctx, l.Org, e) }, err
	}},
	{"sum a month of an organisation", read(func(ctx context.Context, b *database, o, _ int) error {
		p := usage.Period{Start: now.AddDate(0, -1, 0), End: now}
		return b.db.Usage().Ledger().Summary(ctx, uid[id.Org](kindOrg, o, 0), "", p, func(usage.Summary) error { return nil }, func(usage.Part) error { return nil })
	})},
	{"poll the logs of 100 organisations", read(func(ctx context.Context, b *database, o, _ int) error {
		orgs := make([]id.Org, 100)
		for i := range orgs {
			orgs[i] = uid[id.Org](kindOrg, (o+i)%orgCount+1, 0)
		}
		_, err := b.db.Storage().Changes().Heads(ctx, orgs)
		if err == nil {
			_, err = b.db.Epochs(ctx, orgs)
		}
		return err
	})},
}

func lease(o, n, next int) quota.Lease {
	return quota.Lease{ID: uid[id.Request](kindRequest, o, next), Org: uid[id.Org](kindOrg, o, 0), User: uid[id.User](kindUser, o, n%usersPerOrg+1), Day: calendar.DayOf(now), ExpiresAt: now}
}

// owner is an actor who sees everything.
func owner(o int) org.Actor {
	in := uid[id.Team](kindTeam, o, 1)
	v := org.NewStructure([]id.Team{in}, func(yield func(id.Workspace, id.Team) bool) {
		_ = yield(uid[id.Workspace](kindWorkspace, o, 1), in) && yield(uid[id.Workspace](kindWorkspace, o, 2), in)
	}).Visibility(0, func(int) (visible, belongs bool) { return true, true })
	return org.Actor{User: uid[id.User](kindUser, o, 1), Org: uid[id.Org](kindOrg, o, 0), Role: org.Owner, Visibility: v}
}

func read(fn func(ctx context.Context, b *database, o, n int) error) func(context.Context, *database, int) (func() error, error) {
	return func(ctx context.Context, b *database, i int) (func() error, error) {
		o, n := recordAt(i)
		return func() error { return fn(ctx, b, o, n) }, nil
	}
}

// cost is what one execution takes.
type cost struct {
	cpu time.Duration // of Postgres
	wal float64       // bytes
}

// run executes an operation n times.
func (b *database) run(ctx context.Context, op operation, from, n int) (cost, error) {
	fns := make([]func() error, n)
	for i := range fns {
		var err error
		if fns[i], err = op.prepare(ctx, b, from+i); err != nil {
			return cost{}, err
		}
	}
	wal, err := b.wal(ctx)
	if err != nil {
		return cost{}, err
	}
	before, err := b.cpu()
	for _, fn := range fns {
		if err == nil {
			err = fn()
		}
	}
	if err != nil {
		return cost{}, err
	}
	time.Sleep(20 * time.Millisecond) // the backend's time counts once it sleeps
	after, err := b.cpu()
	if err != nil {
		return cost{}, err
	}
	end, err := b.wal(ctx)
	return cost{(after - before) / time.Duration(n), (end - wal) / float64(n)}, err
}

func (b *database) wal(ctx context.Context) (bytes float64, err error) {
	err = b.conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8").Scan(&bytes)
	return bytes, err
}

func (b *database) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", b.pid))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	return time.Duration(ns), err
}

func median[T float64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// tableSize is what a record takes.
type tableSize struct {
	name          string
	rows          int64
	heap, indexes float64 // bytes of a row
}

func (b *database) sizes(ctx context.Context) ([]tableSize, error) {
	rows, err := b.conn.Query(ctx, `SELECT c.relname, sum(p.reltuples)::bigint, sum(pg_table_size(p.oid)) / sum(p.reltuples)::float8, sum(pg_indexes_size(p.oid)) / sum(p.reltuples)::float8
		FROM pg_class c JOIN pg_class p ON p.oid = c.oid AND c.relkind = 'r' OR p.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = c.oid)
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition GROUP BY 1 HAVING sum(p.reltuples) >= 1000 ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (s tableSize, err error) {
		err = r.Scan(&s.name, &s.rows, &s.heap, &s.indexes)
		return s, err
	})
}
