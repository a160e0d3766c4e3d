package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/upload"
	"collab/domain/words"
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

	organisationN = 3000 // all organisations
	usersN        = 100
	teamsN        = 200
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
	// On Postgres, where it matters to the planner, there are more organisations, whose rows are interleaved.
	tenants := 20
	if db.dialect == onPostgres {
		tenants = 100
	}
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
			idSQL(kindUser, "o", "n") + ", 'READY', n * 100 + o, CASE WHEN n = 1 THEN o END, 0, 0, 0, 0, 0, 0, '' " + inEach(200),
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
	sent    []sentStatement
}

type sentStatement struct {
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
		r.sent = append(r.sent, sentStatement{text, slices.Clone(args)})
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
func (r *recorder) statements(t *testing.T, fn func() error) []sentStatement {
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
func countPrefix(sent []sentStatement, prefix string) (n int) {
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

// explain returns the plans of a statement: on Postgres the generic plan and, if there are values, the custom plan.
func explain(t *testing.T, db *DB, s sentStatement) []planSummary {
	t.Helper()
	conn := must.Do(db.pools[0].Conn(t.Context())).Or(t)
	defer conn.Close()
	if db.dialect == onSQLite {
		return []planSummary{explainSQLite(t, conn, s)}
	}
	plans := []planSummary{explainPostgres(t, conn, s, "force_generic_plan")}
	if slices.ContainsFunc(s.args, func(v any) bool { return v != nil }) {
		plans = append(plans, explainPostgres(t, conn, s, "force_custom_plan"))
	}
	return plans
}

func explainSQLite(t *testing.T, conn *sql.Conn, s sentStatement) (p planSummary) {
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

func explainPostgres(t *testing.T, conn *sql.Conn, s sentStatement, mode string) (p planSummary) {
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

// TestSurplusVersionsAreFoundWithoutStatistics counts the blocks that Postgres reads to remove one of 101 versions from a
// table that was never analyzed: less than 3 for a version. Joins that are repeated for each version read 400.
func TestSurplusVersionsAreFoundWithoutStatistics(t *testing.T) {
	db := opened(t, migratedPostgres(t))
	o, u := seeded(t, db)
	file := uid[id.Object](kindObject, 1, 1)
	run(t, db, "ALTER TABLE object_versions SET (autovacuum_enabled = FALSE)")
	run(t, db, "INSERT INTO object_versions (org_id, object_id, version, path, kind, scope, mime_type, created_by, updated_by, created_at, updated_at, blob,"+
		" size, checksum, is_text, ended_at, expires_at)"+
		" SELECT $1, $2, n, '', '', '', '', $3, $3, 0, 0, n::text, 0, '', FALSE, 0, 0 FROM generate_series(1, 101) AS n", string(o), string(file), string(u))
	s := removeExcess[onPostgres].of(o).set("objects", list(onPostgres, []id.Object{file})).set("kept", 100)
	text := must.Do(s.prepare(onPostgres)).Or(t)
	text = value[string](t, db.pools[0], "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+text, s.args...)
	var roots []struct {
		Plan struct {
			Blocks int `json:"Shared Hit Blocks"`
		}
	}
	must.NoError(t, json.Unmarshal([]byte(text), &roots))
	if n := roots[0].Plan.Blocks; n > 300 {
		t.Errorf("%d blocks were read by\n%s", n, text)
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
func checkPlans(t *testing.T, db *DB, about string, s sentStatement, isPage bool) {
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

// testPlans checks the plans of the statements that the suite of the store has prepared, and those of lists with
// values, on a database with many records.
func testPlans(t *testing.T, d dialect) {
	race.Skip(t, "plans do not depend on it, and loading the records takes long")
	db := opened(t, databases[d].migrated(t))
	load(t, db)
	must.Do(db.Storage().Used(t.Context(), []id.Org{uid[id.Org](kindOrg, 8, 0)})).Or(t) // which no server has counted
	var suite []sentStatement
	for key, text := range prepared.Range {
		if key := key.(preparedKey); key.dialect == d {
			suite = append(suite, sentStatement{text.(string), key.someArgs()})
		}
	}
	if len(suite) < 500 {
		t.Fatalf("%d statements are prepared: the suite has not run before", len(suite))
	}
	checkSuite := func(t *testing.T) {
		for _, s := range suite {
			checkPlans(t, db, "the suite", s, false)
		}
	}
	checkAll := func(t *testing.T) {
		checkSuite(t)
		r := record(t, db)
		testTaskPlans(t, db, r)
		testObjectPlans(t, db, r)
		testAuditPlans(t, db, r)
	}
	if d == onSQLite {
		t.Run("before there are statistics", checkAll)
	}
	analyze(t, db)
	checkAll(t)
	if d == onPostgres {
		partitioned(t, db)
		t.Run("on partitioned tables", checkSuite)
	}
}

// someArgs returns a value for each parameter: NULL on Postgres, whose generic plan depends on none; on SQLite
// organisation 7 for a tenant's first one, and a number for the others.
func (k preparedKey) someArgs() []any {
	args := make([]any, strings.Count(k.text, "?"))
	switch {
	case len(args) == 0:
		args = make([]any, len(parse(k.text).names))
	case hasOrg(k.text):
		args = append(args, nil)
	}
	if k.dialect == onPostgres {
		return args
	}
	for i := range args {
		args[i] = 50
	}
	if k.tenant == oneTenancy || k.tenant == selectedTenancy {
		args[0] = string(uid[id.Org](kindOrg, 7, 0))
	}
	return args
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
				inOrder := (limit > 0 || f.ExamineLimit > 0) && f.DueBefore == nil && f.DueAfter == nil && len(f.Tags) < 2
				for i, s := range []sentStatement{sent[0], sent[len(sent)-1]} {
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
		"unplaced": {WithoutWorkspace: true}, "team": {Team: uid[id.Team](kindTeam, 7, 1)}, "owner": {Owner: a.User}, "prefix": {Prefix: string(o) + "/shared/templates/file number 1"},
		"kind and prefix": {Kind: object.Artifact, Prefix: string(o) + "/workspaces/"},
		"words":           {Words: words.Of("number 1"), ExamineLimit: object.MaxExamined}, "kind and words": {Kind: object.Artifact, Words: words.Of("3.md"), ExamineLimit: object.MaxExamined},
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
						return db.Storage().Versions().Deleted(t.Context(), o, viewer, f, func(object.EarlierVersion) error { deleted++; return errEnough })
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
		"words":     func(f *task.Filter) { f.Words, f.ExamineLimit = words.Of("7"), task.MaxExamined },
		"newest with words": func(f *task.Filter) {
			f.Newest, f.Words, f.ExamineLimit = true, words.Of("7"), task.MaxExamined
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
