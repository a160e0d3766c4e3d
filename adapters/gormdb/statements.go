package gormdb

import (
	"slices"
	"strings"
)

// The statements that are SQL text, each with the reason why the descriptions of
// the tables do not make it. In [2]string one stands for each dialect. @org is the
// organisation.

// taskAdded is what Add is given; the place it finds itself.
var taskAdded = taskTable.fieldsExcept("org_id", "sort_order")

// addTask is by whether the task is in a workspace. It finds the last place and the
// workspace in the statement, because each way to the server counts.
var addTask = [2][2]string{addTaskWhere("1 = 1"), addTaskWhere(inWorkspace)}

const inWorkspace = "EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = @org AND w.id = ?)"

// addTaskAt and getTaskAt are for organisations at an epoch, which they compare themselves.
var (
	addTaskAt = [2][2]string{addTaskWhere(ofEpoch), addTaskWhere(ofEpoch + " AND " + inWorkspace)}
	getTaskAt = [2]string{onSQLite: taskTable.getByKey[onSQLite] + " AND " + atEpoch, onPostgres: taskTable.getByKey[onPostgres] + " AND " + atEpoch}
)

// atEpoch is the condition that an organisation has an epoch, which databases check once for
// a statement, before they look for rows. OfEpoch is the same for SQL text.
const (
	atEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = ?) = ?"
	ofEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = @org) = ?"
)

func addTaskWhere(condition string) [2]string {
	const place = "(SELECT COALESCE(MAX(x.sort_order), -1) + 1 FROM tasks x WHERE x.org_id = @org)"
	return taskTable.inserts(taskAdded, ", sort_order", ", "+place, " WHERE "+condition+" ON CONFLICT DO NOTHING RETURNING sort_order")
}

// reviseTasks writes back what Revise changed, from one parameter. It is an
// INSERT that meets the rows which Revise holds, because then both databases go
// from the parameter to the tasks; an UPDATE with a join may go the other way.
var reviseTasks = taskTable.insertsRecords(taskTable.rest, taskTable.onConflictUpdate(taskTable.changes))

// movePlacements writes a batch from one parameter, as reviseTasks does. What is
// only inserted is never stored.
var movePlacements = func() (s [2]string) {
	fields := taskTable.fieldsOf("id", "sort_order", "priority")
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = taskTable.insertInto(d, join(fields, "%")+", updated_at, title, status, created_by, created_at, version",
			join(fields, "v.%")+", "+d.param("bigint")+", '', '', v.id, 0, 0") +
			" FROM " + d.records(fields) + " WHERE 1 = 1 ON CONFLICT (org_id, id) DO UPDATE SET sort_order = excluded.sort_order, " +
			"priority = excluded.priority, updated_at = excluded.updated_at, version = tasks.version + 1"
	}
	return s
}()

// addObject is by whether the object is in a workspace (1) and in a team (2). It
// sees in one statement that nothing is in the way and that they are there.
var addObject = func() (s [4][2]string) {
	for i := range s {
		for _, d := range []dialect{onSQLite, onPostgres} {
			where := " WHERE NOT EXISTS (SELECT 1 FROM objects a WHERE a.org_id = @org AND " + d.in("a.folded_key", "text") + ")" +
				" AND NOT EXISTS (SELECT 1 FROM objects b WHERE b.org_id = @org AND b.folded_key > ? AND b.folded_key < ?)"
			if i&1 != 0 {
				where += " AND EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = @org AND w.id = ?)"
			}
			if i&2 != 0 {
				where += " AND EXISTS (SELECT 1 FROM teams t WHERE t.org_id = @org AND t.id = ?)"
			}
			s[i][d] = objectTable.inserts(objectTable.rest, "", "", where+" ON CONFLICT DO NOTHING")[d]
		}
	}
	return s
}()

// replaced are the columns that Replace changes; the number it counts itself.
var replaced = slices.DeleteFunc(slices.Clone(objectTable.changes), func(f field) bool { return f.name == "n" })

// replaceObject does all of Replace in one statement, which replaces eight on
// Postgres. Each part reads its rows from the one before: the log's head is locked
// first, as everywhere, and nothing is changed if one part finds no row.
var replaceObject = "WITH head AS (SELECT h.n + 1 AS n, h.floor FROM log_heads h WHERE h.org_id = @org" + onPostgres.forUpdate() + ")," +
	" was AS (SELECT head.n, head.floor FROM objects x, head WHERE x.org_id = @org AND x.id = ? AND x.blob = ?" + onPostgres.forUpdate() + " OF x)," +
	" taken AS (DELETE FROM blob_names b USING was WHERE b.org_id = @org AND b.name = ? AND NOT b.is_discarded RETURNING was.n, was.floor)," +
	" put AS (UPDATE objects SET " + join(replaced, "% = ?") + ", n = taken.n FROM taken WHERE org_id = @org AND id = ?)," +
	" discarded AS (INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT @org, ?::text, TRUE, ?::bigint FROM taken" + discarded + ")," +
	" logged AS (INSERT INTO changes (org_id, n, type, at, by_user, record)" +
	" SELECT @org, taken.n, ?::text, ?::bigint, ?::uuid, ?::text || taken.n || '}' FROM taken)," +
	" moved AS (UPDATE log_heads SET n = taken.n FROM taken WHERE org_id = @org)" +
	" SELECT taken.n, taken.floor, (SELECT e.epoch FROM log_epoch e) FROM taken"

// discarded is the conflict clause for a name that is recorded already.
const discarded = " ON CONFLICT (name) DO UPDATE SET is_discarded = excluded.is_discarded, at = excluded.at" +
	" WHERE NOT blob_names.is_discarded AND blob_names.org_id = excluded.org_id"

// discardNames, discardObjects and knownBlobs are about many names at once: those of
// a parameter, those that the organisation's objects have, and either.
var discardNames, discardObjects, knownBlobs = func() (names, objects, known [2]string) {
	for d, from := range map[dialect]string{onSQLite: "json_each(?)", onPostgres: "unnest(?::text[]) AS value"} {
		bits := ", " + d.param("boolean") + ", " + d.param("bigint")
		insert := "INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT "
		names[d] = insert + d.org() + ", value" + bits + " FROM " + from + " WHERE 1 = 1" + discarded
		objects[d] = insert + "DISTINCT x.org_id, x.blob" + bits + " FROM objects x WHERE x.org_id = @org" + discarded
		known[d] = "SELECT b.name FROM blob_names b WHERE " + d.in("b.name", "text") + " UNION ALL SELECT x.blob FROM objects x WHERE " + d.in("x.blob", "text")
	}
	return names, objects, known
}()

// marks reads what three tables have of organisations in one statement, so that all
// of a mark is of one moment.
const marks = "SELECT o.id, o.epoch, (SELECT e.epoch FROM log_epoch e), COALESCE(h.n, 0) FROM organisations o LEFT JOIN log_heads h ON h.org_id = "

// seatCounts asks two tables in one statement, so that they answer for one moment.
func seatCounts(members, invitations string) string {
	return "SELECT org_id, COUNT(*) FILTER (WHERE role = 'OWNER'), COUNT(*), 0 FROM memberships WHERE " + members +
		" AND removed_at IS NULL GROUP BY org_id UNION ALL SELECT org_id, 0, 0, COUNT(*) FROM invitations WHERE " + invitations +
		" AND status = 'PENDING' AND expires_at > ? GROUP BY org_id"
}

// epochs is asked with nearly every request, for one column of many.
const epochs = "SELECT id, epoch FROM organisations WHERE "

// heads reads the heads of logs, which are there before their first entries, with
// the epoch that all have in common.
const (
	heads   = "SELECT COALESCE(h.n, 0), COALESCE(h.floor, 0), e.epoch FROM log_epoch e LEFT JOIN log_heads h ON "
	headsOf = "SELECT h.org_id, COALESCE(h.n, 0), COALESCE(h.floor, 0), e.epoch FROM log_epoch e LEFT JOIN log_heads h ON "
)

// lockHead reads and locks the head of a log; SQLite has no other writers.
var lockHead = [2]string{onSQLite: selectHead, onPostgres: selectHead + onPostgres.forUpdate()}

const selectHead = "SELECT h.n, h.floor, (SELECT e.epoch FROM log_epoch e) FROM log_heads h WHERE h.org_id = @org"

// beginLog makes a log's head where the organisation is there.
const beginLog = "INSERT INTO log_heads (org_id, n, floor) SELECT id, 0, 0 FROM organisations WHERE id = @org ON CONFLICT DO NOTHING"

// appendChanges writes all entries from one parameter. On Postgres it moves the
// head and one object as well, which saves two ways to the server.
var appendChanges = func() [2]string {
	s := changeTable.insertsRecords(changeTable.rest, "")
	s[onPostgres] = "WITH head AS (UPDATE log_heads SET n = ? WHERE org_id = @org), " +
		"moved AS (UPDATE objects SET n = ? WHERE org_id = @org AND id = ?) " + s[onPostgres]
	return s
}()

// entriesAndEpoch reads a page of a log and the organisation's epoch, as of one moment
// and in one way to the server. Without entries there is a row with the number 0. % is a
// coarse limit.
var entriesAndEpoch = func() string {
	list := make([]string, len(changeTable.reads))
	for i, f := range changeTable.reads {
		if list[i] = "p." + f.name; !f.nullable {
			list[i] = "COALESCE(p." + f.name + ", " + map[string]string{"bigint": "0", "text": "''"}[f.kind] + ")"
		}
	}
	return "SELECT o.epoch, " + strings.Join(list, ", ") + " FROM organisations o LEFT JOIN (SELECT " + changeTable.names +
		" FROM changes WHERE org_id = @org AND n > ? ORDER BY n LIMIT %) AS p ON TRUE WHERE o.id = @org ORDER BY p.n LIMIT ?"
}()

// oldestEntries finds the last of the oldest entries of all logs in each of them.
const oldestEntries = "SELECT p.org_id, MAX(p.n) FROM (SELECT c.org_id, c.n FROM changes c WHERE c.at < ? ORDER BY c.at LIMIT ?) AS p " +
	"GROUP BY p.org_id ORDER BY p.org_id LIMIT ?"

// reserve and reserveAt grant, as quota.Account.Grant does: an account that is not
// there yet what an empty one grants. The conflict is decided on the row as it is
// after everybody else's commit, which only one statement can. On Postgres it stores
// the lease, too.
var (
	reserve   = granting("")
	reserveAt = granting(" AND o.epoch = ?")
)

// granting is reserve for organisations of which something holds.
func granting(holds string) (s [2]string) {
	for d, least := range map[dialect]string{onSQLite: "MIN", onPostgres: "LEAST"} {
		left := "? - quota_accounts.used - quota_accounts.reserved"
		granted := least + "(excluded.granted, " + left + ")"
		tokens := d.param("bigint")
		s[d] = "INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT " + d.org() + ", " +
			d.param("uuid") + ", " + d.param("bigint") + ", 0, " + tokens + ", " + tokens +
			" FROM organisations o WHERE o.id = @org" + holds +
			" AND NOT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = @org AND l.user_id = ? AND l.day = ? AND l.id = ?)" +
			" ON CONFLICT (org_id, user_id, day) DO UPDATE SET reserved = quota_accounts.reserved + " + granted + ", granted = " + granted +
			" WHERE " + left + " > ? RETURNING granted"
	}
	s[onPostgres] = "WITH account AS (" + s[onPostgres] + "), lease AS (INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at)" +
		" SELECT @org, ?::uuid, ?::bigint, ?::uuid, a.granted, ?::bigint FROM account a) SELECT a.granted FROM account a"
	return s
}

// alone has a statement on Postgres that is a transaction of its own not wait for
// the disk when it commits.
const alone = " WHERE set_config('synchronous_commit', 'off', true) = 'off'"

// Each reservation on SQLite runs these: they are made once.
const (
	addLease   = "INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at) VALUES (@org, ?, ?, ?, ?, ?)"
	leaseKnown = "SELECT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = @org AND l.user_id = ? AND l.day = ? AND l.id = ?) " +
		"FROM organisations o WHERE o.id = @org"
)

// Statements about leases or accounts of all organisations that are in one
// parameter, the last. Those that lock are Postgres's alone.
var lockAccounts, lockLeases, extendLeases, takeLeases, giveBack = func() (accounts, leases, extend, take, back [2]string) {
	ofAccount := accountTable.sameKey()
	ofLease := leaseTable.sameKey()
	for _, d := range []dialect{onSQLite, onPostgres} {
		accounts[d] = "SELECT 1 FROM quota_accounts JOIN " + d.records(leaseKeys) + " ON " + ofAccount +
			" ORDER BY quota_accounts.org_id, quota_accounts.user_id, quota_accounts.day" + d.forUpdate()
		leases[d] = "SELECT 1 FROM quota_leases JOIN " + d.records(leaseKeys) + " ON " + ofLease +
			" ORDER BY quota_leases.org_id, quota_leases.user_id, quota_leases.day, quota_leases.id" + d.forUpdate()
		extend[d] = "UPDATE quota_leases SET expires_at = ? FROM " + d.records(leaseKeys) + " WHERE " + ofLease
		take[d] = "DELETE FROM quota_leases WHERE expires_at <= ? AND (org_id, user_id, day, id) IN (SELECT v.org_id, v.user_id, v.day, v.id FROM " +
			d.records(leaseKeys) + ") RETURNING org_id, user_id, day, tokens"
		back[d] = "UPDATE quota_accounts SET reserved = quota_accounts.reserved - v.tokens FROM " + d.records(givenBack) + " WHERE " + ofAccount
	}
	return accounts, leases, extend, take, back
}()

// What Settle is given of the entries' leases and accounts.
var (
	settledLeases   = leaseTable.fieldsOf("user_id", "day", "id")
	settledAccounts = accountTable.fieldsOf("user_id", "day", "used")
)

// settle is Ledger.Settle on Postgres in one statement, which replaces nine. The rows come
// in the order in which they are to be locked; accounts are locked before their leases, as
// everywhere. Its result is that of the last part: no rows if the organisation is not there
// or an id is taken. settleEntries and, after it, settleOthers do the same on SQLite.
var settle, settleEntries, settleOthers = func() (all, entries string, others [5]string) {
	ready := func(d dialect) string {
		return "EXISTS (SELECT 1 FROM organisations o WHERE o.id = @org)" +
			" AND NOT EXISTS (SELECT 1 FROM usage_entries x WHERE x.org_id = @org AND " + d.in("x.id", "uuid") + ")"
	}
	sums := func(t *tenantTable, condition string) [2]string {
		return t.insertsRecords(t.rest, condition+t.onConflictAdd("input", "output", "requests"))
	}
	accounts := func(d dialect, held, condition string) string {
		return accountTable.insertInto(d, "user_id, day, used, reserved, granted", "v.user_id, v.day, v.used, 0, COALESCE(("+held+" AND l.user_id = v.user_id AND l.day = v.day), 0)") +
			" FROM " + d.records(settledAccounts) + " WHERE " + condition + accountTable.onConflictAdd("used") + ", reserved = quota_accounts.reserved - excluded.granted"
	}
	const isReady = " AND EXISTS (SELECT 1 FROM ready)"
	all = "WITH ready AS MATERIALIZED (SELECT 1 WHERE " + ready(onPostgres) + ")," +
		" entries AS (" + entryTable.insertsRecords(entryTable.rest, isReady)[onPostgres] + ")," +
		" user_models AS (" + sums(userModelTable, isReady)[onPostgres] + ")," +
		" users AS (" + sums(userSumTable, isReady)[onPostgres] + ")," +
		" models AS (" + sums(modelSumTable, isReady)[onPostgres] + ")," +
		" locked AS MATERIALIZED (SELECT 1 FROM quota_accounts a JOIN " + onPostgres.records(settledAccounts) +
		" ON a.org_id = @org AND a.user_id = v.user_id AND a.day = v.day ORDER BY a.user_id, a.day" + onPostgres.forUpdate() + " OF a)," +
		" ended AS (DELETE FROM quota_leases l USING " + onPostgres.records(settledLeases) + " WHERE l.org_id = @org AND l.user_id = v.user_id" +
		" AND l.day = v.day AND l.id = v.id AND (SELECT COUNT(*) FROM locked) >= 0" + isReady + " RETURNING l.user_id, l.day, l.tokens) " +
		accounts(onPostgres, "SELECT SUM(l.tokens)::bigint FROM ended l WHERE 1 = 1", "1 = 1"+isReady)
	entries = entryTable.insertsRecords(entryTable.rest, " AND "+ready(onSQLite))[onSQLite]
	const ended = "l.org_id = @org AND (l.user_id, l.day, l.id) IN (SELECT v.user_id, v.day, v.id FROM "
	held := onSQLite.records(settledLeases) + ")"
	others = [5]string{
		accounts(onSQLite, "SELECT SUM(l.tokens) FROM quota_leases l WHERE "+ended+held, "1 = 1"),
		"DELETE FROM quota_leases AS l WHERE " + ended + held,
		sums(userModelTable, "")[onSQLite], sums(userSumTable, "")[onSQLite], sums(modelSumTable, "")[onSQLite],
	}
	return all, entries, others
}()
