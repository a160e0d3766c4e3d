package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/release"
	"collab/domain/replay"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/upload"
	"collab/domain/usage"
	"collab/domain/words"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
	"collab/test/race"
)

// Kinds of the loaded records, which are the first part of their ids, and numbers of records of each
// organisation.
const (
	kindOrg = iota + 1
	kindUser
	kindTeam
	kindWorkspace
	kindTask
	kindEntry
	kindInvitation
	kindObject
	kindConnector
	kindRelease

	tenants       = 100  // organisations with records
	organisationN = 3000 // all organisations
	usersN        = 100
	teamsN        = 30
	workspacesN   = 60
	tasksN        = 1000
	moreTasksN    = 20_000 // in organisation 7 alone
	objectsN      = 300
	moreObjectsN  = 20_000 // in organisation 7 alone
	usageN        = 300
	moreUsageN    = 20_000 // in organisation 7 alone
)

// loadedAt is the time of the first loaded task, in milliseconds.
const loadedAt = 1_700_000_000_000

// uid returns the id of the n-th record of a kind in organisation o.
func uid[T ~string](kind, o, n int) T {
	return T(fmt.Sprintf("%08x-%04x-7000-8000-%012x", kind, o, n))
}

// load fills every table. Organisation 7 has more records than the others.
func load(t *testing.T, db *DB) {
	t.Helper()
	idSQL := func(kind int, o, n string) string {
		if db.dialect == onPostgres {
			return fmt.Sprintf("('%08x-' || lpad(to_hex(%s), 4, '0') || '-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid", kind, o, n)
		}
		return fmt.Sprintf("printf('%08x-%%04x-7000-8000-%%012x', %s, %s)", kind, o, n)
	}
	orgID := idSQL(kindOrg, "o", "0")
	// On Postgres, where it matters to the planner, the rows of the organisations are interleaved. On
	// SQLite this would take minutes.
	inEach := func(perOrg int) string {
		columns := fmt.Sprintf("k %% %d + 1 AS o, k / %d + 1 AS n", tenants, tenants)
		if db.dialect == onSQLite {
			columns = fmt.Sprintf("k / %d + 1 AS o, k %% %d + 1 AS n", perOrg, perOrg)
		}
		return fmt.Sprintf("FROM (WITH RECURSIVE s(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM s WHERE k + 1 < %d) SELECT %s FROM s) AS x", tenants*perOrg, columns)
	}
	tasks := "INSERT INTO tasks (org_id, id, title, status, priority, assignee_id, workspace_id, due_text, due_start, due_end, tags, sort_order, created_by, created_at, updated_at, version) " +
		"SELECT " + orgID + ", " + idSQL(kindTask, "o", "n") + ", 'A task of usual length', " +
		"CASE n % 4 WHEN 0 THEN 'TODO' WHEN 1 THEN 'IN_PROGRESS' WHEN 2 THEN 'DONE' ELSE 'CANCELLED' END, " +
		"CASE n / 4 % 4 WHEN 0 THEN 'LOW' WHEN 1 THEN 'MEDIUM' WHEN 2 THEN 'HIGH' ELSE 'URGENT' END, " +
		"CASE WHEN n % 3 = 0 THEN " + idSQL(kindUser, "o", "n % 100 + 1") + " END, " +
		"CASE WHEN n % 5 > 0 THEN " + idSQL(kindWorkspace, "o", "n % 60 + 1") + " END, " +
		fmt.Sprintf("CASE WHEN n %% 4 = 0 THEN '2026-01-31' END, CASE WHEN n %% 4 = 0 THEN %d + n * 60000 END, CASE WHEN n %% 4 = 0 THEN %d + n * 60000 END, ", loadedAt, loadedAt) +
		"CASE WHEN n % 3 = 0 THEN '[\"often\",\"t' || (n % 50) || '\"]' END, n, " + idSQL(kindUser, "o", "n % 100 + 1") + fmt.Sprintf(", %d + n, 1, 1 ", loadedAt)
	asText := func(uid string) string { return uid }
	if db.dialect == onPostgres {
		asText = func(uid string) string { return uid + "::text" }
	}
	path := "'file number ' || n || '.md'"
	// A fifth of the objects each are personal, templates and a team's; the others are in workspaces.
	place := func(personal, template, team, workspace string) string {
		return "CASE n % 5 WHEN 0 THEN " + personal + " WHEN 1 THEN " + template + " WHEN 2 THEN " + team + " ELSE " + workspace + " END"
	}
	user, inTeam, inWorkspace := idSQL(kindUser, "o", "n / 5 % 100 + 1"), idSQL(kindTeam, "o", "n / 5 % 30 + 1"), idSQL(kindWorkspace, "o", "n / 5 % 57 + 4") // the first three can be removed
	key := asText(orgID) + " || " + place("'/personal/' || "+asText(user)+" || '/'", "'/shared/templates/'",
		"'/teams/' || "+asText(inTeam)+" || '/memory/'", "'/workspaces/' || "+asText(inWorkspace)+" || '/artifacts/'") + " || " + path
	objects := "INSERT INTO objects (org_id, id, storage_key, folded_key, path, kind, scope, workspace_id, in_workspace_id, team_id, owner_id, mime_type, version, created_by, updated_by, created_at, updated_at, blob, size, checksum, is_text, n) " +
		"SELECT " + orgID + ", " + idSQL(kindObject, "o", "n") + ", " + key + ", upper(" + key + "), " + path + ", " + place("'ARTIFACT'", "'TEMPLATE'", "'TEAM_MEMORY'", "'ARTIFACT'") + ", " +
		place("'PERSONAL'", "'SHARED'", "'SHARED'", "'SHARED'") + ", CASE WHEN n % 5 > 2 OR n % 10 = 0 THEN " + inWorkspace + " END, CASE WHEN n % 5 > 2 THEN " + inWorkspace + " END, " +
		"CASE WHEN n % 5 = 2 THEN " + inTeam + " END, CASE WHEN n % 5 = 0 THEN " + user + " END, 'text/markdown', 1, " + user + ", " + user + ", n, n, " +
		key + " || '@1-x', n, '0000000000000000000000000000000000000000000000000000000000000000', true, n "
	// A seventh of the versions belongs to deleted objects.
	versions := "INSERT INTO object_versions (org_id, object_id, version, deleted_key, path, kind, scope, workspace_id, team_id, owner_id, mime_type, created_by, updated_by, created_at, updated_at, blob, size, checksum, is_text, ended_at, expires_at) " +
		"SELECT " + orgID + ", " + idSQL(kindObject, "o", "n % 500") + ", n, CASE n % 7 WHEN 0 THEN " + key + " END, " + path + ", " + place("'ARTIFACT'", "'TEMPLATE'", "'TEAM_MEMORY'", "'ARTIFACT'") + ", " +
		place("'PERSONAL'", "'SHARED'", "'SHARED'", "'SHARED'") + ", CASE WHEN n % 5 > 2 OR n % 10 = 0 THEN " + inWorkspace + " END, " +
		"CASE WHEN n % 5 = 2 THEN " + inTeam + " END, CASE WHEN n % 5 = 0 THEN " + user + " END, 'text/markdown', " + user + ", " + user + ", n, n, " +
		key + " || '@0-x', n, '0000000000000000000000000000000000000000000000000000000000000000', true, n, n * 100 + o "
	changes := "INSERT INTO changes (org_id, n, type, at, record) SELECT " + orgID + ", n, CASE n % 50 WHEN 0 THEN 'file-deleted' WHEN 1 THEN 'access-changed' ELSE 'file-changed' END, n * 100 + o, '{}' "
	today := fmt.Sprint(time.UnixMilli(loadedAt).Truncate(day).UnixMilli())
	entries := "INSERT INTO usage_entries (org_id, id, user_id, at, day, model, provider, input, output, cache_read, cache_made, searches, provenance, outcome) SELECT " + orgID + ", " +
		idSQL(kindEntry, "o", "n") + ", " + idSQL(kindUser, "o", "n % 100 + 1") + ", " + today + " + CAST(n AS BIGINT) * 600000, " + today + " + CAST(n / 144 AS BIGINT) * 86400000, 'model-' || (n % 5), 'p', n, 1, 0, 0, 0, '', '' "
	bytes, sketch, unchecked, checked := "x'00'", "zeroblob(2048)", "PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"
	if db.dialect == onPostgres {
		bytes, sketch = "'\\x00'::bytea", "decode(repeat('00', 2048), 'hex')"
		unchecked, checked = "SET session_replication_role = replica", "RESET session_replication_role" // which leaves out triggers too, that tasks have
	}
	// A fifth of the entries have no actor, and a tenth are an operator's.
	audited := "INSERT INTO audit (id, org_id, at, actor_id, is_operator, action, target, detail, address, request) SELECT " + idSQL(kindEntry, "o", "n") + ", " + orgID + ", n, " +
		"CASE WHEN n % 5 > 0 THEN " + idSQL(kindUser, "o", "n % 100 + 1") + " END, n % 10 = 0, CASE WHEN n % 50 = 0 THEN 'release.' || n % 100 ELSE 'member.' || n % 7 END, 't' || n % 40, '', '', '' "
	inSeven := func(from, more int) string {
		return fmt.Sprintf("FROM (WITH RECURSIVE s(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT 7 AS o, n FROM s) AS x", from+1, from+more)
	}
	c := must.Do(db.pools[0].Conn(t.Context())).Or(t)
	defer c.Close()
	for _, statement := range slices.Concat([]string{
		"INSERT INTO organisations (id, provider_id, name, slug, created_at, updated_at, is_full, seen_at, seen_rank, seen_message, created_by, created_by_seen_at, created_by_seen_rank, created_by_seen_message, closed_at) " +
			"SELECT " + idSQL(kindOrg, "n", "0") + ", 'org_' || n, 'O', 'o', 1, 1, true, 1, 1, '', '', 0, 0, '', CASE WHEN n % 50 = 0 THEN n END " +
			"FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < " + strconv.Itoa(organisationN) + ") SELECT n FROM s) AS x",
		"INSERT INTO subscriptions (org_id, plan, status, is_external, updated_at, customer, due_at) SELECT id, 'FREE', 'ACTIVE', false, 1, 'cus_' || provider_id, closed_at FROM organisations",
		"INSERT INTO users (id, provider_id, name, email, email_key, avatar_url, created_at, updated_at, is_full, seen_at, seen_rank, seen_message) " +
			"SELECT " + idSQL(kindUser, "o", "n") + ", 'user_' || o || '_' || n, 'U', 'u' || o || '@' || n, 'u' || o || '@' || n, '', 1, 1, true, 1, 1, '' " + inEach(usersN),
		"INSERT INTO users (id, provider_id, name, email, email_key, avatar_url, created_at, updated_at, is_full, seen_at, seen_rank, seen_message) " +
			"SELECT " + idSQL(kindUser, "o + 1000", "n") + ", 'elsewhere_' || o || '_' || n, 'U', '', '', '', 1, 1, true, 1, 1, '' " + inEach(4*usersN),
		"INSERT INTO memberships (org_id, user_id, role, onboarding_completed, joined_at, used_at, provider_role, role_set_here, seen_at, seen_rank, seen_message, removed_at) " +
			"SELECT " + orgID + ", " + idSQL(kindUser, "o", "n") + ", 'MEMBER', true, n, n, '', false, 0, 0, '', CASE WHEN n % 10 = 0 THEN n END " + inEach(usersN),
		"INSERT INTO invitations (org_id, id, email, email_key, role, status, token_hash, expires_at, created_at, provider_id, seen_at, seen_rank, seen_message) " +
			"SELECT " + orgID + ", " + idSQL(kindInvitation, "o", "n") + ", 'i' || n, 'i' || n, 'MEMBER', CASE WHEN n % 2 = 0 THEN 'PENDING' ELSE 'ACCEPTED' END, 'h' || o || '_' || n, n, n, 'inv_' || o || '_' || n, 0, 0, '' " + inEach(100),
		"INSERT INTO teams (org_id, id, name, kind, created_by, created_at, updated_at) SELECT " + orgID + ", " + idSQL(kindTeam, "o", "n") + ", 'T', CASE WHEN n = 1 THEN 'SHARED' ELSE 'STANDARD' END, " + idSQL(kindUser, "o", "n") + ", n, n " + inEach(teamsN),
		"INSERT INTO team_members (org_id, team_id, user_id, joined_at) SELECT " + orgID + ", " + idSQL(kindTeam, "o", "n % 30 + 1") + ", " + idSQL(kindUser, "o", "n % 100 + 1") + ", n " + inEach(300),
		"INSERT INTO workspaces (org_id, id, team_id, name, created_by, created_at, updated_at) SELECT " + orgID + ", " + idSQL(kindWorkspace, "o", "n") + ", " + idSQL(kindTeam, "o", "n % 30 + 1") + ", 'W', " + idSQL(kindUser, "o", "1") + ", n, n " + inEach(workspacesN),
		"INSERT INTO workspace_orders (org_id, user_id, workspace_ids) SELECT " + orgID + ", " + idSQL(kindUser, "o", "n") + ", '[]' " + inEach(usersN),
		tasks + inEach(tasksN),
		tasks + inSeven(tasksN, moreTasksN),
		unchecked,
		objects + inEach(objectsN),
		objects + inSeven(objectsN, moreObjectsN),
		versions + inEach(objectsN),
		versions + inSeven(objectsN, moreObjectsN),
		changes + inEach(objectsN),
		changes + inSeven(objectsN, moreObjectsN),
		"INSERT INTO log_heads (org_id, n, floor) SELECT org_id, MAX(n), 0 FROM changes GROUP BY org_id",
		"UPDATE log_heads SET counted_n = n WHERE org_id = " + idSQL(kindOrg, "7", "0"),
		"INSERT INTO log_heads (org_id, n, floor) SELECT id, 0, 0 FROM organisations WHERE id > " + idSQL(kindOrg, "101", "0") + " AND id <> " + idSQL(kindOrg, "2000", "0"),
		"INSERT INTO blob_names (name, org_id, is_discarded, at, size) SELECT " + asText(orgID) + " || '/' || n, " + orgID + ", n % 10 > 0, n * 100 + o, n % 20 " + inEach(200),
		"INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT " + orgID + ", " + idSQL(kindUser, "o", "(n - 1) % 100 + 1") + ", " + today + " - CAST((n - 1) / 100 AS BIGINT) * 86400000, n, 200, 1 " + inEach(10*usersN),
		"INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at) SELECT " + orgID + ", " + idSQL(kindUser, "o", "n % 100 + 1") + ", " + today + ", " + idSQL(kindEntry, "o", "n") + ", 100, n * 100 + o " + inEach(2*usersN),
		"INSERT INTO request_counts (org_id, minute, requests) SELECT " + orgID + ", n * 60000, 1 " + inEach(200),
		entries + inEach(usageN),
		entries + inSeven(usageN, moreUsageN),
		"INSERT INTO task_history (org_id, id, task_id, at, by_user, reason, fields) SELECT " + orgID + ", " + idSQL(kindEntry, "o", "n") + ", " + idSQL(kindTask, "o", "n") + ", n, " + idSQL(kindUser, "o", "1") + ", '', '[]' " + inEach(tasksN),
		audited + inEach(200),
		audited + inSeven(200, 2000),
		"INSERT INTO inbox (source, message, noted_at) SELECT 's', 'm' || o || '_' || n, n * 100 + o " + inEach(200),
		"INSERT INTO sessions (id, org_id, user_id, created_at, last_used_at, expires_at, address, user_agent, is_unnamed, is_ended) " +
			"SELECT 's' || o || '_' || n, " + orgID + ", " + idSQL(kindUser, "o", "n") + ", n, n, n * 100 + o, '', '', false, false " + inEach(usersN),
		"INSERT INTO device_grants (code, org_id, user_code, name, address, user_agent, status, poll_every, created_at, expires_at) " +
			"SELECT 'd' || o || '_' || n, " + orgID + ", 'u' || o || '_' || n, '', '', '', 'pending', 5000, n, n * 100 + o " + inEach(usersN),
		"INSERT INTO exports (org_id, id, user_id, status, created_at, due_at, attempts, records, files, files_done, bytes, size, error) SELECT " + orgID + ", " + idSQL(kindEntry, "o", "n") + ", " +
			idSQL(kindUser, "o", "n") + ", 'READY', n * 100 + o, CASE WHEN n = 1 THEN o END, 0, 0, 0, 0, 0, 0, '' " + inEach(20),
		"INSERT INTO uploads (org_id, id, user_id, status, object_id, mime_type, size, checksum, received, created_at, expires_at) SELECT " + orgID + ", " + idSQL(kindEntry, "o", "n") + ", " +
			idSQL(kindUser, "o", "n") + ", CASE WHEN n % 5 = 0 THEN 'OPEN' ELSE 'COMPLETED' END, " + idSQL(kindObject, "o", "n") + ", '', 9, '', 9, n, n * 100 + o " + inEach(200),
		"INSERT INTO upload_parts (org_id, upload_id, first_byte, size, blob) SELECT org_id, id, 0, 9, '' FROM uploads",
		"INSERT INTO replays (key, fingerprint, claim, is_done, expires_at) SELECT 'k' || o || '_' || n, '', '', false, n * 100 + o " + inEach(200),
		"INSERT INTO connectors (org_id, id, provider, label, config, url, hosting, transport, status, created_by, created_at, last_error, failures, version, due_at) SELECT " + orgID + ", " + idSQL(kindConnector, "o", "n") +
			", 'p', 'P', '{}', '', 'CLOUD', 'HTTP', 'CONNECTED', " + idSQL(kindUser, "o", "1") + ", n, '', 0, 1, CASE WHEN n % 5 > 0 THEN n * 100 + o END " + inEach(200),
		"INSERT INTO connector_credentials (org_id, connector_id, version, entries) SELECT org_id, id, 1, " + bytes + " FROM connectors",
		"INSERT INTO connector_flows (state, org_id, connector_id, user_id, status, server, client, redirect, verifier, browser, error, created_at, expires_at) SELECT 's' || o || '_' || n, " + orgID + ", " + idSQL(kindConnector, "o", "n") + ", " +
			idSQL(kindUser, "o", "1") + ", 'pending', '{}', '', '', " + bytes + ", '', '', n, n * 100 + o " + inEach(200),
		"INSERT INTO connector_clients (issuer, redirect, client_id, method, expires_at, used_at) SELECT 'i' || o || '_' || n, 'r', 'c', 'none', n, n * 100 + o " + inEach(20),
		"INSERT INTO connector_revocations (org_id, id, renewal, attempts, due_at) SELECT " + orgID + ", " + idSQL(kindConnector, "o", "n") + ", " + bytes + ", 0, n * 100 + o " + inEach(200),
		"INSERT INTO releases (id, version, version_key, platform, arch, channel, download_url, is_mandatory, rollout, is_active, published_at, updated_at, revision) SELECT " + idSQL(kindRelease, "o", "n") +
			", o || '.' || n || '.0', o || '.' || n || '.0', 'LINUX', 'X64', 'STABLE', 'https://a/b', false, 100, true, n, n, 0 " + inEach(3),
		"INSERT INTO release_reports (release_id, hour, succeeded, failed) SELECT " + idSQL(kindRelease, "o", "n") + ", n * 3600000, 1, 1 " + inEach(200),
		"INSERT INTO release_devices (day, platform, arch, channel, registers) SELECT '20' || (10 + n / 3) || '-01-01', 'LINUX', 'X64', o || '.' || n, " + sketch + " " + inEach(200),
		"INSERT INTO release_adoption (day, platform, arch, channel, version, checks, offered) SELECT '20' || (10 + n / 3) || '-01-01', 'LINUX', 'X64', 'STABLE', o || '.' || n || '.0', n, 0 " + inEach(200),
	}, ledgerSums(db.dialect), []string{checked}) {
		must.Do(c.ExecContext(t.Context(), statement)).Or(t)
	}
}

// analyze updates the statistics of the planner.
func analyze(t testing.TB, db *DB) {
	t.Helper()
	run(t, db, "ANALYZE")
	if db.dialect == onSQLite {
		// Connections read the statistics when they open.
		for _, pool := range db.pools {
			idle := pool.Stats().MaxOpenConnections
			pool.SetMaxIdleConns(0)
			pool.SetMaxIdleConns(idle)
		}
	}
}

// recorder records the statements that run during a call of statements.
type recorder struct {
	mu      sync.Mutex
	enabled bool
	sent    []statement
}

type statement struct {
	text string
	args []any
}

// record returns a recorder for the pools of a database.
func record(t *testing.T, db *DB) *recorder {
	t.Helper()
	r := &recorder{}
	pools := []*gorm.DB{db.write}
	if db.read != db.write {
		pools = append(pools, db.read)
	}
	for _, g := range pools {
		inner := g.ConnPool
		g.ConnPool = recordedPool{inner, r}
		g.Statement.ConnPool = g.ConnPool
		t.Cleanup(func() { g.ConnPool, g.Statement.ConnPool = inner, inner })
	}
	return r
}

func (r *recorder) add(text string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.enabled {
		r.sent = append(r.sent, statement{text, slices.Clone(args)})
	}
}

// recordedPool adds the statements to a recorder.
type recordedPool struct {
	gorm.ConnPool
	r *recorder
}

func (p recordedPool) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	p.r.add(text, args)
	return p.ConnPool.ExecContext(ctx, text, args...)
}

func (p recordedPool) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	p.r.add(text, args)
	return p.ConnPool.QueryContext(ctx, text, args...)
}

func (p recordedPool) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	p.r.add(text, args)
	return p.ConnPool.QueryRowContext(ctx, text, args...)
}

func (p recordedPool) BeginTx(ctx context.Context, o *sql.TxOptions) (gorm.ConnPool, error) {
	var tx gorm.ConnPool
	var err error
	if pool, ok := p.ConnPool.(gorm.ConnPoolBeginner); ok {
		tx, err = pool.BeginTx(ctx, o)
	} else {
		tx, err = p.ConnPool.(gorm.TxBeginner).BeginTx(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return &recordedTx{recordedPool{tx, p.r}, tx.(gorm.TxCommitter)}, nil
}

type recordedTx struct {
	recordedPool
	gorm.TxCommitter
}

// errEnough ends a list or a transaction whose statements are recorded.
var errEnough = errors.New("enough")

// enough returns the error by which a list ends after its first record. It is nil for a page, which is read whole, and
// for a search, which has several statements.
func enough(limit int, searched []string) error {
	if limit > 0 || len(searched) > 0 {
		return nil
	}
	return errEnough
}

// statements returns the statements that fn runs, which may end with errEnough. It ends the test if there are none.
func (r *recorder) statements(t *testing.T, fn func() error) []statement {
	t.Helper()
	r.sent, r.enabled = nil, true
	err := fn()
	r.enabled = false
	if !errors.Is(err, errEnough) {
		must.NoError(t, err)
	}
	if len(r.sent) == 0 {
		t.Fatal("no statement ran")
	}
	return r.sent
}

// countPrefix returns the number of statements that begin with the prefix.
func countPrefix(sent []statement, prefix string) (n int) {
	for _, s := range sent {
		if strings.HasPrefix(s.text, prefix) {
			n++
		}
	}
	return n
}

// scan is how a plan reads one table.
type scan struct {
	table   string
	indexed bool // it has a condition on an index
}

// planSummary is a plan as far as the tests need it.
type planSummary struct {
	text  string
	scans []scan
	sorts bool
}

// explain returns the plans of a statement: on Postgres the custom plan and the generic plan.
func explain(t *testing.T, db *DB, s statement) []planSummary {
	t.Helper()
	conn := must.Do(db.pools[0].Conn(t.Context())).Or(t)
	defer conn.Close()
	if db.dialect == onSQLite {
		return []planSummary{explainSQLite(t, conn, s)}
	}
	var plans []planSummary
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		plans = append(plans, explainPostgres(t, conn, s, mode))
	}
	return plans
}

func explainSQLite(t *testing.T, conn *sql.Conn, s statement) (p planSummary) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+s.text, s.args...)
	if err != nil {
		t.Fatalf("%v in %s", err, s.text)
	}
	defer rows.Close()
	var subqueries []string
	for rows.Next() {
		var node, parent, unused int
		var detail string
		must.NoError(t, rows.Scan(&node, &parent, &unused, &detail))
		p.text += detail + "\n"
		words := strings.Fields(detail)
		switch words[0] {
		case "CO-ROUTINE":
			subqueries = append(subqueries, words[1])
		case "SCAN", "SEARCH":
			if i := slices.Index(subqueries, words[1]); i >= 0 && words[0] == "SCAN" { // of the rows of a subquery
				subqueries = slices.Delete(subqueries, i, i+1)
				continue
			}
			p.scans = append(p.scans, scan{sqliteTable(s.text, words[1]), words[0] == "SEARCH"})
		case "USE":
			p.sorts = p.sorts || strings.Contains(detail, "ORDER BY")
		}
	}
	must.NoError(t, rows.Err())
	return p
}

// sqliteTable returns the table of a name in a plan, which may be an alias in the statement.
func sqliteTable(statement, name string) string {
	for _, table := range largeTables {
		for _, as := range []string{" ", " AS "} {
			if strings.Contains(statement, " "+table+as+name+" ") {
				return table
			}
		}
	}
	return name
}

func explainPostgres(t *testing.T, conn *sql.Conn, s statement, mode string) (p planSummary) {
	t.Helper()
	values := make([]string, len(s.args))
	for i, v := range s.args {
		values[i] = literalOf(t, v)
	}
	execute := "EXECUTE planned"
	if len(values) > 0 {
		execute += "(" + strings.Join(values, ", ") + ")"
	}
	var text string
	for _, step := range []string{"SET plan_cache_mode = " + mode, "PREPARE planned AS " + s.text} {
		if _, err := conn.ExecContext(t.Context(), step); err != nil {
			t.Fatalf("%v in %s", err, step)
		}
	}
	if err := conn.QueryRowContext(t.Context(), "EXPLAIN (FORMAT JSON) "+execute).Scan(&text); err != nil {
		t.Fatalf("%v in %s", err, s.text)
	}
	must.Do(conn.ExecContext(t.Context(), "DEALLOCATE planned")).Or(t)
	var roots []struct{ Plan pgNode }
	must.NoError(t, json.Unmarshal([]byte(text), &roots))
	p.text = mode + "\n"
	for _, root := range roots {
		root.Plan.walk(&p, 0)
	}
	return p
}

// pgNode is a node of a plan in the JSON format of Postgres.
type pgNode struct {
	Type     string   `json:"Node Type"`
	Relation string   `json:"Relation Name"`
	Index    string   `json:"Index Name"`
	Cond     string   `json:"Index Cond"`
	Filter   string   `json:"Filter"`
	Rows     float64  `json:"Plan Rows"`
	Plans    []pgNode `json:"Plans"`
}

var partitionSuffix = regexp.MustCompile(`_p\d+$`)

// walk adds the node and its children to the summary.
func (n pgNode) walk(p *planSummary, depth int) {
	n.Relation = partitionSuffix.ReplaceAllString(n.Relation, "")
	p.text += fmt.Sprintf("%s%s %s %s cond %s filter %.80s rows %.0f\n", strings.Repeat("  ", depth), n.Type, n.Relation, n.Index, n.Cond, n.Filter, n.Rows)
	switch n.Type {
	case "Seq Scan":
		p.scans = append(p.scans, scan{n.Relation, false})
	case "Index Scan", "Index Only Scan":
		p.scans = append(p.scans, scan{n.Relation, n.Cond != ""})
	case "Sort", "Incremental Sort":
		// For at most two pages of rows a sort costs about as much as an index in the right order, and
		// the planner's choice depends on the sample of ANALYZE.
		p.sorts = p.sorts || n.Rows > 100
	}
	for _, child := range n.Plans {
		child.walk(p, depth+1)
	}
}

// literalOf returns a value as an SQL literal.
func literalOf(t *testing.T, v any) string {
	t.Helper()
	if valuer, ok := v.(driver.Valuer); ok {
		v = must.Do(valuer.Value()).Or(t)
	}
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case upload.Status:
		return literalOf(t, string(v))
	case []byte:
		return fmt.Sprintf("'\\x%x'", v)
	}
	return fmt.Sprint(v)
}

// largeTables are the tables that no statement may scan: all except organisations and releases, which have
// few rows and whose lists return all of them.
var largeTables = append(slices.Clone(tenantTables), "users", "inbox", "replays", "connector_clients", "release_adoption", "release_devices", "release_reports")

// checkPlans fails the test if a plan of the statement scans one of largeTables, or sorts the rows of a page, which are
// to be read in order.
func checkPlans(t *testing.T, db *DB, about string, s statement, isPage bool) {
	t.Helper()
	for _, p := range explain(t, db, s) {
		for _, scan := range p.scans {
			if !scan.indexed && slices.Contains(largeTables, scan.table) {
				t.Errorf("%s: %s is scanned\n%s\n%s", about, scan.table, s.text, p.text)
			}
		}
		if isPage && p.sorts {
			t.Errorf("%s: a page is sorted\n%s\n%s", about, s.text, p.text)
		}
	}
}

func TestPlans(t *testing.T) {
	race.Skip(t, "plans do not depend on it, and loading the records takes minutes")
	onBoth(t, func(t *testing.T, db *DB) {
		load(t, db)
		r := record(t, db)
		if db.dialect == onSQLite {
			t.Run("before there are statistics", func(t *testing.T) { testPlans(t, db, r) })
		}
		analyze(t, db)
		testPlans(t, db, r)
		if db.dialect == onPostgres {
			partitioned(t, db)
			t.Run("on partitioned tables", func(t *testing.T) { testEveryPlan(t, db, r) })
		}
	})
}

func testPlans(t *testing.T, db *DB, r *recorder) {
	t.Run("all statements", func(t *testing.T) { testEveryPlan(t, db, r) })
	t.Run("task lists", func(t *testing.T) { testTaskPlans(t, db, r) })
	t.Run("object lists", func(t *testing.T) { testObjectPlans(t, db, r) })
	t.Run("audit logs", func(t *testing.T) { testAuditPlans(t, db, r) })
}

// testEveryPlan checks the plans of the statements of every collection.
func testEveryPlan(t *testing.T, db *DB, r *recorder) {
	for name, fn := range everyStatement(t.Context()) {
		sent := r.statements(t, func() error {
			return db.Atomic(t.Context(), func(rs ports.Records) error {
				if err := fn(db, rs); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return errEnough
			})
		})
		for _, s := range sent {
			checkPlans(t, db, name, s, false)
		}
	}
}

// everyStatement returns functions that call every method of every collection on loaded records. Task lists
// have a test of their own.
func everyStatement(ctx context.Context) map[string]func(db *DB, r ports.Records) error {
	o, other := uid[id.Org](kindOrg, 7, 0), uid[id.Org](kindOrg, 8, 0)
	user := uid[id.User](kindUser, 7, 5)
	now := time.UnixMilli(50).UTC()
	return map[string]func(db *DB, r ports.Records) error{
		"epochs": func(db *DB, r ports.Records) error {
			_, err := db.Epochs(ctx, []id.Org{o})
			_, err2 := db.Epochs(ctx, []id.Org{o, other})
			return errors.Join(err, err2)
		},
		"users": func(_ *DB, r ports.Records) error {
			q := r.Directory().Users()
			u, err := q.Get(ctx, user)
			return errors.Join(err, must.ErrorOf(q.ByProvider(ctx, u.ProviderID)), must.ErrorOf(q.Memberships(ctx, user)),
				func() error { _, _, err := q.Profile(ctx, o, user); return err }(),
				must.ErrorOf(q.Upsert(ctx, u, func(u org.User) (org.User, error) { return u, nil })))
		},
		"organisations": func(_ *DB, r ports.Records) error {
			q := r.Directory().Organisations()
			organisation, err := q.Get(ctx, o)
			return errors.Join(err, must.ErrorOf(q.ByProvider(ctx, organisation.ProviderID)), must.ErrorOf(q.Lock(ctx, o)),
				must.ErrorOf(q.List(ctx, org.Filter{After: o, Limit: 20})), must.ErrorOf(q.List(ctx, org.Filter{ClosedBefore: &now, Limit: 20})), must.ErrorOf(q.List(ctx, org.Filter{})), must.ErrorOf(q.List(ctx, org.Filter{After: o, Limit: 20, Search: "engines", Examined: 10})), must.ErrorOf(q.List(ctx, org.Filter{Search: string(o)})), must.ErrorOf(q.List(ctx, org.Filter{IDs: []id.Org{o}})),
				must.ErrorOf(q.Upsert(ctx, organisation, func(o org.Organisation) (org.Organisation, error) { return o, nil })))
		},
		"members": func(_ *DB, r ports.Records) error {
			q := r.Directory().Members()
			each := func(org.Profile) error { return nil }
			m, err := q.Get(ctx, o, user)
			return errors.Join(err, must.ErrorOf(q.GetLocked(ctx, o, user)), q.Put(ctx, o, m), q.List(ctx, o, org.MemberFilter{}, each),
				q.List(ctx, o, org.MemberFilter{After: id.Position[id.User]{At: now, ID: user}, Limit: 20}, each), q.List(ctx, o, org.MemberFilter{Words: words.Of("u7@5"), Limit: 20}, each),
				q.List(ctx, o, org.MemberFilter{Users: []id.User{user, uid[id.User](kindUser, 7, 9)}, Limit: 20}, each), r.Directory().Users().Former(ctx, o, "", 0, each), r.Directory().Users().Former(ctx, o, user, 20, each), must.ErrorOf(q.ByEmail(ctx, o, "u7@5")))
		},
		"seats": func(_ *DB, r ports.Records) error {
			q := r.Directory().Seats()
			return errors.Join(must.ErrorOf(q.Count(ctx, []id.Org{o}, now)), must.ErrorOf(q.Count(ctx, []id.Org{o, other}, now)), must.ErrorOf(q.Count(ctx, orgPage(), now)))
		},
		"invitations": func(_ *DB, r ports.Records) error {
			q := r.Directory().Invitations()
			i, err := q.Get(ctx, o, uid[id.Invitation](kindInvitation, 7, 60))
			ignore := func(invitation.Invitation) error { return nil }
			return errors.Join(err, must.ErrorOf(q.ByProvider(ctx, o, "inv_7_60")), must.ErrorOf(q.ByToken(ctx, "h7_60")),
				q.List(ctx, o, now, id.Position[id.Invitation]{}, 0, ignore), q.List(ctx, o, now, id.Position[id.Invitation]{At: now, ID: i.ID}, 20, ignore), must.ErrorOf(q.Pending(ctx, o, "i60", now)), q.Put(ctx, o, i), q.Put(ctx, o, invitation.New(invitation.Invitation{ID: uid[id.Invitation](kindInvitation, 7, 90_000)}, "", now)))
		},
		"invitation sets": func(_ *DB, r ports.Records) error {
			q := r.Directory().InvitationSets()
			return errors.Join(q.Forget(ctx, o, "i61"), must.ErrorOf(q.Sweep(ctx, time.UnixMilli(5), 20)))
		},
		"subscriptions": func(_ *DB, r ports.Records) error {
			q := r.Directory().Subscriptions()
			s, err := q.Get(ctx, o)
			if s.Plan != plan.Free {
				err = errors.New("no subscription")
			}
			return errors.Join(err, q.Put(ctx, o, s), must.ErrorOf(q.Of(ctx, []id.Org{o})), must.ErrorOf(q.Of(ctx, []id.Org{o, other})), must.ErrorOf(q.Of(ctx, orgPage())),
				must.ErrorOf(q.ByCustomer(ctx, s.Customer)), must.ErrorOf(q.Due(ctx, now, 20)))
		},
		"teams": func(_ *DB, r ports.Records) error {
			q := r.Work().Teams()
			t, err := q.Get(ctx, o, uid[id.Team](kindTeam, 7, 3))
			fresh := t
			fresh.ID = uid[id.Team](kindTeam, 7, 90_000)
			return errors.Join(err, must.ErrorOf(q.Refs(ctx, o)), must.ErrorOf(q.List(ctx, o, []id.Team{t.ID, uid[id.Team](kindTeam, 7, 4)})), q.Put(ctx, o, t), q.Add(ctx, o, fresh), q.Remove(ctx, o, fresh.ID))
		},
		"team members": func(_ *DB, r ports.Records) error {
			q := r.Work().TeamMembers()
			in := uid[id.Team](kindTeam, 7, 3)
			m := team.Member{Team: in, User: uid[id.User](kindUser, 7, 99), JoinedAt: now}
			none := func(team.Profile) error { return nil }
			return errors.Join(q.List(ctx, o, in, id.Position[id.User]{}, 0, none), q.List(ctx, o, in, id.Position[id.User]{At: now, ID: m.User}, 20, none),
				must.ErrorOf(q.Put(ctx, o, m)), must.ErrorOf(q.Get(ctx, o, in, m.User)), q.Remove(ctx, o, in, m.User), must.ErrorOf(q.OfUser(ctx, o, user)), q.RemoveUser(ctx, o, user))
		},
		"workspaces": func(_ *DB, r ports.Records) error {
			q := r.Work().Workspaces()
			w, err := q.Get(ctx, o, uid[id.Workspace](kindWorkspace, 7, 3))
			fresh := w
			fresh.ID = uid[id.Workspace](kindWorkspace, 7, 90_000)
			return errors.Join(err, must.ErrorOf(q.Refs(ctx, o)), must.ErrorOf(q.List(ctx, o, []id.Workspace{w.ID, uid[id.Workspace](kindWorkspace, 7, 4)})), q.Put(ctx, o, w), q.Add(ctx, o, fresh), q.Remove(ctx, o, w.ID))
		},
		"orders": func(_ *DB, r ports.Records) error {
			q := r.Work().Orders()
			return errors.Join(must.ErrorOf(q.Get(ctx, o, user)), q.Update(ctx, o, user, func(workspace.Order) (workspace.Order, error) {
				return workspace.Order{uid[id.Workspace](kindWorkspace, 7, 3)}, nil
			}))
		},
		"tasks": func(_ *DB, r ports.Records) error {
			q := r.Work().Tasks()
			t, err := q.Get(ctx, o, uid[id.Task](kindTask, 7, 31))
			inside, loose := t, t
			inside.ID, inside.Workspace = uid[id.Task](kindTask, 7, 90_000), new(uid[id.Workspace](kindWorkspace, 7, 3))
			loose.ID, loose.Workspace = uid[id.Task](kindTask, 7, 90_001), nil
			change := task.Change{ID: uid[id.Entry](kindEntry, 7, 90_001), Task: t.ID, At: now, By: user}
			return errors.Join(err, r.Work().TasksAt(0).Replace(ctx, o, t, t, []task.Change{change}), must.ErrorOf(q.Add(ctx, o, inside)), must.ErrorOf(q.Add(ctx, o, loose)),
				must.ErrorOf(q.Revise(ctx, o, loose.ID, func(t task.Task) (task.Task, error) {
					t.Workspace, t.Tags = inside.Workspace, []string{"new"}
					return t, nil
				})), q.Remove(ctx, o, loose.ID, func(task.Task) error { return nil }), q.Unassign(ctx, o, user, now))
		},
		"task sets": func(_ *DB, r ports.Records) error {
			q := r.Work().TaskSets()
			ids := make([]id.Task, tasksN)
			for i := range ids {
				ids[i] = uid[id.Task](kindTask, 7, i+1)
			}
			return errors.Join(q.Move(ctx, o, ids, now, func(_ int, p task.Placement) (task.Placement, error) { return p, nil }),
				q.List(ctx, o, ids, func(task.Task) error { return nil }),
				func() error {
					_, _, err := q.RemoveIn(ctx, o, uid[id.Workspace](kindWorkspace, 7, 3), task.Position{}, 20)
					return err
				}(),
				func() error {
					_, _, err := q.RemoveIn(ctx, o, uid[id.Workspace](kindWorkspace, 7, 3), task.Position{CreatedAt: now, ID: ids[0]}, 20)
					return err
				}())
		},
		"task history": func(_ *DB, r ports.Records) error {
			q := r.Work().TaskHistory()
			of := uid[id.Task](kindTask, 7, 31)
			each := func(task.Change) error { return nil }
			return errors.Join(q.List(ctx, o, of, id.Position[id.Entry]{}, 0, each), q.List(ctx, o, of, id.Position[id.Entry]{At: now, ID: uid[id.Entry](kindEntry, 7, 100)}, 20, each), q.Add(ctx, o, []task.Change{{ID: uid[id.Entry](kindEntry, 7, 90_000), Task: of, At: now, By: user}}))
		},
		"inbox": func(_ *DB, r ports.Records) error {
			q := r.Journal().Inbox()
			return errors.Join(q.Accept(ctx, "s", "new", now), q.Prune(ctx, now))
		},
		"audit": func(_ *DB, r ports.Records) error {
			q := r.Journal().Audit()
			each := func(audit.Entry) error { return nil }
			return errors.Join(q.Add(ctx, audit.Entry{ID: uid[id.Entry](kindEntry, 7, 90_000), Org: o, At: now}), q.List(ctx, o, audit.Filter{}, each))
		},
		"replays": func(_ *DB, r ports.Records) error {
			q := r.Journal().Replays()
			taken := replay.Record{Key: "k7_150", Claim: "c", ExpiresAt: now.Add(time.Hour)}
			fresh := taken
			fresh.Key = "fresh"
			return errors.Join(must.ErrorOf(q.Begin(ctx, taken, now)), must.ErrorOf(q.Begin(ctx, fresh, now)), q.Finish(ctx, fresh), q.Abandon(ctx, fresh.Key, fresh.Claim), q.Prune(ctx, now))
		},
		"exports": func(_ *DB, r ports.Records) error {
			q := r.Journal().Exports()
			of := uid[id.Export](kindEntry, 7, 2)
			ready := export.New(uid[id.Export](kindEntry, 7, 90_000), o, user, now).Restore(export.Ready)
			ready.DueAt = nil
			same := func(e export.Export) (export.Export, error) { return e, nil }
			return errors.Join(q.Add(ctx, o, ready), must.ErrorOf(q.Get(ctx, o, of)), must.ErrorOf(q.List(ctx, o)),
				must.ErrorOf(q.Update(ctx, o, of, same)), must.ErrorOf(q.Claim(ctx, now, same)), q.Prune(ctx, now))
		},
		"uploads": func(_ *DB, r ports.Records) error {
			q := r.Journal().Uploads()
			of := uid[id.Upload](kindEntry, 7, 10)
			fresh := upload.New(upload.Upload{ID: uid[id.Upload](kindEntry, 7, 90_000), User: user, Object: uid[id.Object](kindObject, 7, 10)}, now)
			return errors.Join(q.Add(ctx, o, fresh), must.ErrorOf(q.Get(ctx, o, of)), q.Append(ctx, o, of, upload.Part{Offset: 9, Size: 9}), must.ErrorOf(q.Parts(ctx, o, of, 0, 100)),
				must.ErrorOf(q.Update(ctx, o, of, func(u upload.Upload) (upload.Upload, error) { return u.Cancel(now) })), must.ErrorOf(q.Sweep(ctx, time.UnixMilli(1200), 100)), must.ErrorOf(r.Storage().OpenUploads(ctx, o, user, now)))
		},
		"sessions": func(_ *DB, r ports.Records) error {
			q := r.Journal().Sessions()
			v := session.Session{ID: "new", User: uid[id.User](kindUser, 7, 1), Org: o, CreatedAt: now, LastUsedAt: now, ExpiresAt: now}
			return errors.Join(q.Put(ctx, v), must.ErrorOf(q.Get(ctx, "s7_50")), must.ErrorOf(q.List(ctx, v.User)), q.Use(ctx, map[id.Session]time.Time{"s7_50": now}),
				q.Remove(ctx, "s7_51"), q.Prune(ctx, now))
		},
		"device grants": func(_ *DB, r ports.Records) error {
			q := r.Deployment().DeviceGrants()
			g, err := q.ByUserCode(ctx, "u7_50")
			fresh := g
			fresh.Code, fresh.UserCode = "fresh", "fresh"
			return errors.Join(err, q.Add(ctx, fresh), q.Prune(ctx, time.UnixMilli(103)),
				must.ErrorOf(q.Update(ctx, g.Code, func(g session.DeviceGrant) (session.DeviceGrant, error) { return g, nil })))
		},
		"objects": func(_ *DB, r ports.Records) error {
			q := r.Storage().Objects()
			v, err := q.Get(ctx, o, uid[id.Object](kindObject, 7, 31))
			shared := v
			shared.ID, shared.Path = uid[id.Object](kindObject, 7, 90_000), "a/b/c"
			inside, ofTeam := shared, shared
			inside.ID, inside.Kind, inside.Workspace = uid[id.Object](kindObject, 7, 90_001), object.Artifact, new(uid[id.Workspace](kindWorkspace, 7, 3))
			ofTeam.ID, ofTeam.Kind, ofTeam.Team = uid[id.Object](kindObject, 7, 90_002), object.TeamMemory, new(uid[id.Team](kindTeam, 7, 3))
			moved, movedToo := v, shared
			moved.Path, movedToo.Path = "a/b/c", "a/B/d"
			folder := object.Filter{Folder: object.Fold(strings.TrimSuffix(shared.StorageKey(), "/b/c")), Limit: 10}
			return errors.Join(err, must.ErrorOf(q.At(ctx, o, v.StorageKey())), q.Add(ctx, o, shared), q.Add(ctx, o, inside), q.Add(ctx, o, ofTeam), q.Put(ctx, o, v), q.Put(ctx, o, moved, movedToo),
				q.List(ctx, o, nil, folder, nil, func(object.Object) error { return nil }),
				q.Remove(ctx, o, []id.Object{v.ID}), q.Remove(ctx, o, []id.Object{shared.ID, inside.ID, ofTeam.ID}))
		},
		"object sets": func(_ *DB, r ports.Records) error {
			q := r.Storage().ObjectSets()
			ids := make([]id.Object, 100)
			for i := range ids {
				ids[i] = uid[id.Object](kindObject, 7, 31+i)
			}
			found, err := q.Get(ctx, o, ids)
			if len(found) != len(ids) {
				return fmt.Errorf("%d objects are found: %w", len(found), err)
			}
			var added []object.Object
			var keys, names []string
			for i, v := range slices.Collect(maps.Values(found)) {
				keys = append(keys, v.StorageKey())
				v.ID, v.Path = uid[id.Object](kindObject, 7, 91_000+i), fmt.Sprintf("a/set/%d", i)
				added, keys, names = append(added, v), append(keys, v.StorageKey()), append(names, fmt.Sprintf("%s/set/%d", o, i))
			}
			return errors.Join(must.ErrorOf(q.Taken(ctx, o, keys, ids[:5])), must.ErrorOf(q.Deleted(ctx, o, keys)), q.Announce(ctx, o, names, now), q.Forget(ctx, o, names), q.Add(ctx, o, added))
		},
		"changes": func(db *DB, r ports.Records) error {
			q := r.Storage().Changes()
			v, err := r.Storage().Objects().Get(ctx, o, uid[id.Object](kindObject, 7, 31))
			now := time.UnixMilli(loadedAt).UTC() // older entries are pruned
			v.UpdatedAt = now
			second := v
			second.ID = uid[id.Object](kindObject, 7, 32)
			fresh := uid[id.Org](kindOrg, 2000, 0)
			_, err2 := q.Append(ctx, fresh)
			return errors.Join(err, err2, must.ErrorOf(q.Lock(ctx, o)), must.ErrorOf(q.Append(ctx, o, object.NewChange(v))), must.ErrorOf(q.Append(ctx, o, object.NewChange(second), object.NewChange(v), object.NewAccessChange(object.Audience{}, "", now))),
				must.ErrorOf(q.Heads(ctx, []id.Org{o})), must.ErrorOf(q.Heads(ctx, orgPage())), must.ErrorOf(q.List(ctx, o, 20_000, 100)), must.ErrorOf(db.Storage().Changes().List(ctx, other, 0, 100)),
				q.Since(ctx, o, 20_000, func(object.Head) error { return nil }, func(object.Change) error { return nil }),
				q.Prune(ctx, time.UnixMilli(0)), q.Prune(ctx, time.UnixMilli(103)))
		},
		"storage": func(db *DB, r ports.Records) error {
			q := r.Storage()
			v, err := q.Objects().Get(ctx, o, uid[id.Object](kindObject, 7, 31))
			if err != nil {
				return err
			}
			next := v
			next.Blob, next.Version = string(o)+"/next", v.Version+1
			if err := q.BlobNames().Announce(ctx, o, next.Blob, 0, now); err != nil {
				return err
			}
			_, _, err = db.Entries(ctx, o, 20_000, 100)
			_, err2 := db.Marks(ctx, []id.Org{o})
			_, err3 := db.Marks(ctx, orgPage())
			_, _, err7 := q.Announced(ctx, o)
			if err := errors.Join(err7, q.CancelUploads(ctx, o, user, now), must.ErrorOf(q.Used(ctx, []id.Org{other})), must.ErrorOf(q.Used(ctx, append(orgPage(), other)))); err != nil {
				return err
			}
			_, err4 := q.Replace(ctx, o, 0, v.Content, object.NewChange(next), plan.Unlimited, object.Retention{})
			kept := next
			kept.Version, kept.Blob = next.Version+1, string(o)+"/kept"
			err5 := q.BlobNames().Announce(ctx, o, kept.Blob, 0, now)
			_, err6 := q.Replace(ctx, o, 0, next.Content, object.NewChange(kept), plan.Unlimited, object.Retention{Days: 1, Versions: 1})
			return errors.Join(err, err2, err3, err4, err5, err6)
		},
		"versions": func(_ *DB, r ports.Records) error {
			q := r.Storage().Versions()
			of := uid[id.Object](kindObject, 7, 31)
			each := func(object.Earlier) error { return nil }
			keep := object.Retention{Days: 1, Versions: 5}
			v, err := r.Storage().Objects().Get(ctx, o, of)
			v.Version, v.Blob = 90_000, string(o)+"/earlier"
			return errors.Join(err, q.List(ctx, o, of, 50, 20, each), q.List(ctx, o, of, 50, 0, each), q.Keep(ctx, o, keep, keep.Ended(v, user, now, true)),
				must.ErrorOf(q.Take(ctx, o, of, 90_000)), must.ErrorOf(q.Discard(ctx, o, []id.Object{of, uid[id.Object](kindObject, 7, 32)}, 0, 20, now)),
				must.ErrorOf(q.Discard(ctx, o, nil, 1000, 20, now)), q.Expire(ctx, time.UnixMilli(300)))
		},
		"blob names": func(_ *DB, r ports.Records) error {
			q := r.Storage().BlobNames()
			stored := string(o) + "/10"
			fresh := string(o) + "/fresh"
			known := make([]string, 20)
			for i := range known {
				known[i] = fmt.Sprintf("%s/%d", o, i)
			}
			return errors.Join(q.Announce(ctx, o, fresh, 0, now), q.Discard(ctx, o, []string{fresh, stored}, now), q.Forget(ctx, object.Blob{Org: o, Name: fresh, Discarded: true}),
				q.Expire(ctx, time.UnixMilli(1200)), must.ErrorOf(q.Due(ctx, time.UnixMilli(9000), "", 100)), must.ErrorOf(q.Due(ctx, time.UnixMilli(9000), stored, 100)), must.ErrorOf(q.Known(ctx, known)), must.ErrorOf(q.Known(ctx, known[:1])))
		},
		"quotas": func(_ *DB, r ports.Records) error {
			q := r.Usage().Quotas()
			l := quota.Lease{ID: uid[id.Request](kindEntry, 7, 90_000), Org: o, User: user, Day: quota.DayOf(time.UnixMilli(loadedAt)), ExpiresAt: now.Add(time.Hour)}
			another, stored := l, l
			another.ID, stored.ID = uid[id.Request](kindEntry, 7, 90_001), uid[id.Request](kindEntry, 7, 104)
			several := make([]quota.Lease, 20)
			for i := range several {
				several[i] = l
				several[i].ID, several[i].Tokens = uid[id.Request](kindEntry, 7, 90_010+i), 1
			}
			granted, err := q.ReserveAt(ctx, 0, l, 1000, quota.Need{Output: 1})
			if a, err2 := q.Account(ctx, o, user, l.Day); err != nil || err2 != nil || granted != 1 || a.Reserved != 201 {
				return fmt.Errorf("%d were granted of %+v: %w", granted, a, errors.Join(err, err2))
			}
			return errors.Join(must.ErrorOf(q.ReserveAt(ctx, 0, another, 100, quota.Need{Output: 1})), must.ErrorOf(q.ReserveAt(ctx, 0, another, 1000, quota.Need{Output: 1})),
				must.ErrorOf(q.ReserveAllAt(ctx, 1, several, 1000)), q.Extend(ctx, []quota.Lease{l, stored}, now.Add(time.Hour)), q.Sweep(ctx, time.UnixMilli(103)))
		},
		"request counts": func(_ *DB, r ports.Records) error {
			q := r.Usage().Requests()
			return errors.Join(must.ErrorOf(q.Add(ctx, o, now, 1)), q.Prune(ctx, now))
		},
		"ledger": func(_ *DB, r ports.Records) error {
			q := r.Usage().Ledger()
			start := time.UnixMilli(loadedAt).Truncate(day)
			p := usage.Period{Start: start.Add(20*time.Hour + 15*time.Minute), End: start.Add(300*time.Hour + 40*time.Minute)} // it has segments of all units
			e := usage.Entry{ID: uid[id.Request](kindEntry, 7, 90_000), Org: o, User: user, At: p.Start, Model: "model-1"}
			taken := e
			taken.ID = uid[id.Request](kindEntry, 7, 1)
			if err := q.Settle(ctx, o, taken); !fault.Is(err, fault.Conflict) {
				return fmt.Errorf("a second entry of the same id is no conflict: %w", err)
			}
			var s usage.Summary
			head, ignore := func(sum usage.Summary) error { s = sum; return nil }, func(usage.Part) error { return nil }
			first, last := quota.DayOf(start), quota.DayOf(p.End)
			for _, b := range []usage.Breakdown{{First: first, Last: last}, {First: first, Last: last, ByUser: true}, {First: first, Last: last, User: user}} {
				n, ended := 0, usage.Daily{}
				if err := q.Daily(ctx, o, b, usage.Daily{}, 0, func(d usage.Daily) error { n, ended = n+1, d; return nil }); err != nil || n < 2 {
					return fmt.Errorf("%d daily sums of %+v: %w", n, b, err)
				}
				ended.Day = first
				if err := q.Daily(ctx, o, b, ended, 2, func(usage.Daily) error { return nil }); err != nil {
					return err
				}
			}
			if err := errors.Join(must.ErrorOf(q.Totals(ctx, []id.Org{o}, first, last)), must.ErrorOf(q.Totals(ctx, orgPage(), first, last))); err != nil {
				return err
			}
			err := q.Summary(ctx, o, "", p, head, ignore)
			if s.Requests != 1803-121 {
				return fmt.Errorf("the summary is %+v: %w", s, err)
			}
			return errors.Join(q.Settle(ctx, o, e), q.Summary(ctx, o, user, p, head, ignore), q.Entries(ctx, o, p, func(usage.Entry) error { return nil }))
		},
		"connectors": func(_ *DB, r ports.Records) error {
			q := r.Connections().Connectors()
			i, err := q.Get(ctx, o, uid[id.Connector](kindConnector, 7, 31))
			fresh := i
			fresh.ID = uid[id.Connector](kindConnector, 7, 90_000)
			ignore := func(connector.Instance) error { return nil }
			return errors.Join(err, must.ErrorOf(q.Claim(ctx, time.UnixMilli(300))), q.List(ctx, o, id.Position[id.Connector]{}, 0, ignore), q.List(ctx, o, id.Position[id.Connector]{At: now, ID: i.ID}, 20, ignore), q.Add(ctx, o, fresh), must.ErrorOf(q.Claim(ctx, time.UnixMilli(300), o)),
				must.ErrorOf(q.Update(ctx, o, i.ID, func(i connector.Instance) (connector.Instance, error) { return i, nil })), q.Remove(ctx, o, i.ID))
		},
		"credentials": func(_ *DB, r ports.Records) error {
			q := r.Connections().Credentials()
			s, err := q.Get(ctx, o, uid[id.Connector](kindConnector, 7, 31))
			return errors.Join(err, q.Put(ctx, o, s))
		},
		"flows": func(_ *DB, r ports.Records) error {
			q := r.Connections().Flows()
			f, err := q.Get(ctx, "s7_31")
			fresh := f
			fresh.State = "fresh"
			return errors.Join(err, q.Add(ctx, fresh), must.ErrorOf(q.Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f, nil })), q.Sweep(ctx, time.UnixMilli(103)))
		},
		"clients": func(_ *DB, r ports.Records) error {
			q := r.Connections().Clients()
			c, err := q.Get(ctx, "i7_1", "r")
			return errors.Join(err, must.ErrorOf(q.Put(ctx, c, time.UnixMilli(0))), must.ErrorOf(q.Put(ctx, c, now)), q.Use(ctx, c), must.ErrorOf(q.Sweep(ctx, time.UnixMilli(300), 20)), q.Remove(ctx, c.Issuer, c.Redirect, c.ID))
		},
		"revocations": func(_ *DB, r ports.Records) error {
			q := r.Connections().Revocations()
			v := connector.Revocation{ID: uid[id.Connector](kindConnector, 7, 90_000), Org: o, Renewal: []byte{0}, DueAt: now}
			return errors.Join(must.ErrorOf(q.Claim(ctx, time.UnixMilli(300), now)), q.Add(ctx, v), q.Put(ctx, v), q.Remove(ctx, o, v.ID))
		},
		"releases": func(_ *DB, r ports.Records) error {
			q := r.Deployment().Releases()
			_, all, err := q.Since(ctx, -1)
			if err != nil || len(all) != 3*tenants {
				return fmt.Errorf("%d releases: %w", len(all), err)
			}
			found, err := q.List(ctx, []id.Release{all[0].ID, all[1].ID})
			if err != nil || len(found) != 2 {
				return fmt.Errorf("%d releases: %w", len(found), err)
			}
			fresh := found[0]
			fresh.ID, fresh.Channel = uid[id.Release](kindRelease, 7, 90_000), release.Beta
			return errors.Join(must.ErrorOf(q.Revision(ctx)), must.ErrorOf(q.Count(ctx)), q.Add(ctx, fresh),
				must.ErrorOf(q.Update(ctx, uid[id.Release](kindRelease, 7, 2), func(r release.Release) (release.Release, error) { return r, nil })))
		},
		"reports": func(_ *DB, r ports.Records) error {
			q, of := r.Deployment().Reports(), uid[id.Release](kindRelease, 7, 2)
			all, err := q.List(ctx, of, time.Time{}, 0)
			if len(all) != 1 {
				err = fmt.Errorf("%d reports: %w", len(all), err)
			}
			return errors.Join(err, must.ErrorOf(q.List(ctx, of, time.UnixMilli(1), 2)), must.ErrorOf(q.Sum(ctx, of)), q.Add(ctx, all), q.Prune(ctx, time.UnixMilli(3600000)))
		},
		"adoption": func(_ *DB, r ports.Records) error {
			q := r.Deployment().Adoption()
			of := release.Target{Platform: release.Linux, Arch: release.X64, Channel: release.Stable}
			all, err := q.List(ctx, "2011-01-01", "2012-01-01", release.Target{}, release.Tally{}, 0)
			if len(all) != 6*tenants {
				err = fmt.Errorf("%d counts: %w", len(all), err)
			}
			sent, noDevices := q.Devices(ctx, "2011-01-01", "2011-01-02", release.Target{Platform: release.Linux})
			if len(sent) != 3*tenants {
				err = fmt.Errorf("%d sketches: %w", len(sent), noDevices)
			}
			return errors.Join(err, q.AddDevices(ctx, sent[:2]), must.ErrorOf(q.List(ctx, "2011-01-01", "2012-01-01", of, release.Tally{}, 0)),
				must.ErrorOf(q.List(ctx, "2011-01-01", "2012-01-01", release.Target{Channel: release.Stable}, release.Tally{}, 0)),
				must.ErrorOf(q.List(ctx, "2011-01-01", "2012-01-01", release.Target{}, release.Tally{Day: "2011-01-01", Target: of, Version: "1.0.0"}, 2)),
				q.Add(ctx, all), q.Prune(ctx, "2010-02-01"))
		},
		"erasure": func(_ *DB, r ports.Records) error {
			return must.ErrorOf(r.Directory().Organisations().Erase(ctx, other, now, 1000))
		},
	}
}

// orgPage returns as few organisations as a page of an operator's list has: for half of the organisations the
// planner rightly chooses a scan.
func orgPage() []id.Org {
	page := make([]id.Org, tenants/20)
	for n := range page {
		page[n] = uid[id.Org](kindOrg, n+1, 0)
	}
	return page
}

// testTaskPlans checks that a page of the large organisation is read in the order of an index. Only the
// results of filters by due date or several tags may be sorted.
func testTaskPlans(t *testing.T, db *DB, r *recorder) {
	after := &task.Position{SortOrder: 500, CreatedAt: time.UnixMilli(loadedAt + 500).UTC(), ID: uid[id.Task](kindTask, 7, 500)}
	for name, set := range taskFilters() {
		for _, limit := range []int{0, 50} {
			for _, from := range []*task.Position{nil, after} {
				f := task.Filter{Limit: limit, After: from}
				set(&f)
				sent := r.statements(t, func() error {
					return db.Work().Tasks().List(t.Context(), uid[id.Org](kindOrg, 7, 0), someActor(), f, func(task.Task) error { return enough(limit, f.Words) })
				})
				if len(sent) != 1 && len(f.Words) == 0 {
					t.Errorf("%s takes %d statements", name, len(sent))
				}
				inOrder := (limit > 0 || f.Examined > 0) && f.DueBefore == nil && f.DueAfter == nil && len(f.Tags) < 2
				for i, s := range []statement{sent[0], sent[len(sent)-1]} {
					few := len(f.Words) > 0 && (i > 0 || from != nil) // the rest may be less than a search reads at once
					checkPlans(t, db, fmt.Sprintf("%s, from the start %t", name, from == nil), s, inOrder && !few)
				}
			}
		}
	}
}

// testAuditPlans checks that a page of the large organisation's audit log is read in the order of an index.
func testAuditPlans(t *testing.T, db *DB, r *recorder) {
	for name, f := range map[string]audit.Filter{
		"no filter": {}, "actor": {Actor: uid[id.User](kindUser, 7, 9)}, "an unknown actor": {Actor: uid[id.User](kindUser, 8, 9)},
		"operators": {Source: audit.Operators}, "no actor": {Source: audit.Automatic}, "action": {Action: "member.3"}, "a rare action": {Action: "release.50"},
		"kind": {Kind: "member"}, "a rare kind": {Kind: "release"}, "an unknown kind": {Kind: "nothing"}, "target": {Target: "t7"}, "an unknown target": {Target: "x"},
		"from": {From: time.UnixMilli(100)}, "to": {To: time.UnixMilli(100)}, "from and to": {From: time.UnixMilli(100), To: time.UnixMilli(150)},
		"actor and from": {Actor: uid[id.User](kindUser, 7, 9), From: time.UnixMilli(100)}, "actor and kind": {Actor: uid[id.User](kindUser, 7, 9), Kind: "member"},
	} {
		for _, f.Limit = range []int{0, 50} {
			for _, f.After = range []id.Entry{"", uid[id.Entry](kindEntry, 7, 150)} {
				sent := r.statements(t, func() error {
					return db.Journal().Audit().List(t.Context(), uid[id.Org](kindOrg, 7, 0), f, func(audit.Entry) error { return nil })
				})
				checkPlans(t, db, fmt.Sprintf("%s after %q", name, f.After), sent[0], f.Limit > 0)
			}
		}
	}
}

// testObjectPlans checks that lists of objects are read in the order of the index of their keys.
func testObjectPlans(t *testing.T, db *DB, r *recorder) {
	a := someActor()
	o := a.Org
	filters := map[string]object.Filter{
		"no filter": {}, "kind": {Kind: object.Artifact}, "rare kind": {Kind: object.TeamMemory}, "shared": {Scope: object.Shared}, "personal": {Scope: object.Personal},
		"workspace": {Workspace: uid[id.Workspace](kindWorkspace, 7, 4)}, "shared workspace": {Workspace: uid[id.Workspace](kindWorkspace, 7, 4), Scope: object.Shared},
		"unplaced": {Unplaced: true}, "team": {Team: uid[id.Team](kindTeam, 7, 1)}, "owner": {Owner: a.User}, "prefix": {Prefix: string(o) + "/shared/templates/file number 1"},
		"kind and prefix": {Kind: object.Artifact, Prefix: string(o) + "/workspaces/"},
		"words":           {Words: words.Of("number 1"), Examined: object.MaxExamined}, "kind and words": {Kind: object.Artifact, Words: words.Of("3.md"), Examined: object.MaxExamined},
	}
	for name, f := range filters {
		for _, viewer := range []*org.Actor{nil, &a} {
			for _, f.Limit = range []int{0, 50} {
				for _, f.After = range []string{"", string(o) + "/personal/00000002-0007-7000-8000-000000000005/file number 10004.md"} {
					n := 0
					sent := r.statements(t, func() error {
						return db.Storage().Objects().List(t.Context(), o, viewer, f, func(object.Head) error { return nil }, func(object.Object) error { n++; return enough(f.Limit, f.Words) })
					})
					if f.After == "" && n == 0 {
						t.Errorf("%s selects nothing", name)
					}
					deleted := 0
					f := f
					f.Words = nil
					sent = append(sent, r.statements(t, func() error {
						return db.Storage().Versions().Deleted(t.Context(), o, viewer, f, func(object.Earlier) error { deleted++; return errEnough })
					})...)
					if f.After == "" && deleted == 0 {
						t.Errorf("%s selects nothing that is deleted", name)
					}
					for _, s := range sent[1:] {
						checkPlans(t, db, fmt.Sprintf("%s of %v", name, viewer), s, f.Limit > 0)
					}
				}
			}
		}
	}
}

// someActor returns an actor who sees half of the workspaces of organisation 7, and one team.
func someActor() org.Actor {
	in := uid[id.Team](kindTeam, 7, 1)
	visibility := org.NewStructure([]id.Team{in}, func(yield func(id.Workspace, id.Team) bool) {
		for n := 1; n <= workspacesN/2; n++ {
			if !yield(uid[id.Workspace](kindWorkspace, 7, n), in) {
				return
			}
		}
	}).Visibility(0, func(int) (visible, belongs bool) { return true, true })
	return org.Actor{User: uid[id.User](kindUser, 7, 5), Org: uid[id.Org](kindOrg, 7, 0), Role: org.Member, Visibility: visibility}
}

// taskFilters returns functions that set each filter alone, and pairs of the usual ones.
func taskFilters() map[string]func(*task.Filter) {
	due := func(minutes int) *task.Due {
		at, _ := task.ParseDue(time.UnixMilli(loadedAt).Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339))
		return &at
	}
	filters := map[string]func(*task.Filter){
		"no filter": func(*task.Filter) {},
		"newest":    func(f *task.Filter) { f.Newest = true },
		"words":     func(f *task.Filter) { f.Words, f.Examined = words.Of("7"), task.MaxExamined },
		"newest with words": func(f *task.Filter) {
			f.Newest, f.Words, f.Examined = true, words.Of("7"), task.MaxExamined
		},
		"status":      func(f *task.Filter) { f.Status = task.Todo },
		"priority":    func(f *task.Filter) { f.Priority = task.High },
		"assignee":    func(f *task.Filter) { f.Assignee = task.Ref[id.User]{Given: true, ID: uid[id.User](kindUser, 7, 9)} },
		"own":         func(f *task.Filter) { f.Assignee = task.Ref[id.User]{Given: true, ID: uid[id.User](kindUser, 7, 5)} },
		"no assignee": func(f *task.Filter) { f.Assignee = task.Ref[id.User]{Given: true, Unset: true} },
		"workspace": func(f *task.Filter) {
			f.Workspace = task.Ref[id.Workspace]{Given: true, ID: uid[id.Workspace](kindWorkspace, 7, 3)}
		},
		"hidden workspace": func(f *task.Filter) {
			f.Workspace = task.Ref[id.Workspace]{Given: true, ID: uid[id.Workspace](kindWorkspace, 7, 59)}
		},
		"no workspace":      func(f *task.Filter) { f.Workspace = task.Ref[id.Workspace]{Given: true, Unset: true} },
		"a tag":             func(f *task.Filter) { f.Tags = []string{"often"} },
		"a rare tag":        func(f *task.Filter) { f.Tags = []string{"t7"} },
		"an unknown tag":    func(f *task.Filter) { f.Tags = []string{"nobody's"} },
		"tags":              func(f *task.Filter) { f.Tags = []string{"often", "t7"} },
		"due before":        func(f *task.Filter) { f.DueBefore = due(20) },
		"due after":         func(f *task.Filter) { f.DueAfter = due(980) },
		"due between":       func(f *task.Filter) { f.DueBefore, f.DueAfter = due(520), due(500) },
		"due before almost": func(f *task.Filter) { f.DueBefore = due(980) },
	}
	names := []string{"status", "priority", "assignee", "workspace", "a tag", "due before"}
	for i, a := range names {
		for _, b := range names[i+1:] {
			first, second := filters[a], filters[b]
			filters[a+" and "+b] = func(f *task.Filter) { first(f); second(f) }
		}
	}
	return filters
}
