package gormdb

import (
	"slices"
	"strings"

	"collab/domain/id"
	"collab/domain/object"
)

// The statements that are SQL text, each with the reason why it is not made from the
// descriptions of the tables. A [2]string has one for each dialect. @org is the
// organisation.

// addTaskFields are the fields that Add is given; it computes the sort order.
var addTaskFields = except(taskTable.rest, "sort_order")

// addTask is indexed by whether the task is in a workspace. It computes the sort order and
// finds the workspace in the statement, to save round trips.
var addTask = [2][2]string{addTaskWhere("1 = 1"), addTaskWhere(inWorkspace)}

const inWorkspace = "EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = @org AND w.id = ?)"

// addTaskAt and getTaskAt also compare the organisation's epoch.
var (
	addTaskAt = [2][2]string{addTaskWhere(ofEpoch), addTaskWhere(ofEpoch + " AND " + inWorkspace)}
	getTaskAt = perDialect(func(d dialect) string { return taskTable.getByKey[d] + " AND " + atEpoch })
)

// replaceTaskAt stores a task if it still has the version and its time, and the organisation the epoch. On
// Postgres it appends the changes of the task as well.
var replaceTaskAt = func() (s [2]string) {
	put := "UPDATE tasks SET " + join(taskTable.changes, "% = ?") + " WHERE org_id = @org AND id = ? AND version = ? AND updated_at = ? AND " + ofEpoch
	appended := historyTable.insertsRecords(historyTable.rest, " AND EXISTS (SELECT 1 FROM put)")
	return [2]string{onSQLite: put, onPostgres: "WITH put AS (" + put + " RETURNING 1), appended AS (" + appended[onPostgres] + ") SELECT 1 FROM put"}
}()

// atEpoch is the condition that an organisation has an epoch, which databases evaluate once
// for a statement, before they read rows. OfEpoch is the same for SQL text.
const (
	atEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = ?) = ?"
	ofEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = @org) = ?"
)

func addTaskWhere(condition string) [2]string {
	const nextOrder = "(SELECT COALESCE(MAX(x.sort_order), -1) + 1 FROM tasks x WHERE x.org_id = @org)"
	return taskTable.inserts(addTaskFields, ", sort_order", ", "+nextOrder, " WHERE "+condition+" ON CONFLICT DO NOTHING RETURNING sort_order")
}

// movePlacements stores a batch from one parameter. It is an INSERT that conflicts with the
// locked rows, because then both databases start from the parameter; an UPDATE with a join may
// start from the table. The values that only the INSERT has are never stored.
var movePlacements = perDialect(func(d dialect) string {
	return taskTable.insertInto(d, join(placementFields, "%")+", updated_at, title, status, created_by, created_at, version",
		join(placementFields, "v.%")+", "+d.param("bigint")+", '', '', v.id, 0, 0") +
		" FROM " + d.records(placementFields) + " WHERE 1 = 1 ON CONFLICT (org_id, id) DO UPDATE SET sort_order = excluded.sort_order, " +
		"priority = excluded.priority, updated_at = excluded.updated_at, version = tasks.version + 1"
})

var placementFields = taskTable.fieldsOf("id", "sort_order", "priority")

// addObject is indexed by whether the object is in a workspace (1) and in a team (2). It
// checks for conflicts and missing references in the same statement.
var addObject = func() (s [4][2]string) {
	for i := range s {
		end := " AND NOT EXISTS (SELECT 1 FROM objects b WHERE b.org_id = @org AND b.folded_key > ? AND b.folded_key < ?)"
		if i&1 != 0 {
			end += " AND " + inWorkspace
		}
		if i&2 != 0 {
			end += " AND EXISTS (SELECT 1 FROM teams t WHERE t.org_id = @org AND t.id = ?)"
		}
		s[i] = perDialect(func(d dialect) string {
			where := " WHERE NOT EXISTS (SELECT 1 FROM objects a WHERE a.org_id = @org AND " + d.in("a.folded_key", "text") + ")"
			return objectTable.inserts(objectTable.rest, "", "", where+end+onConflictDoNothing)[d]
		})
	}
	return s
}()

// putObjects stores existing objects, as movePlacements does, with their keys (see insertRows).
var (
	putObjects     = objectTable.insertsRecords(objectTable.rest, replaceObjects)
	replaceObjects = objectTable.onConflictUpdate(slices.Concat(objectTable.changes, objectTable.fieldsOf("path", "storage_key", "folded_key")))
)

// addObjects stores rows as they are, on Postgres (see insertRows).
var addObjects = objectTable.insertsRecords(objectTable.rest, "")

// takenKeys returns the objects that have keys of its first parameter, and those of the keys of the
// third that are parent folders of objects; objects of the second and of the fourth do not count.
// Postgres would join the whole table for an EXISTS instead of looking in the index for each key.
var takenKeys = perDialect(func(d dialect) string {
	return "SELECT a.folded_key, a.id FROM objects a WHERE a.org_id = @org AND " + d.in("a.folded_key", "text") + " AND NOT (" + d.in("a.id", "uuid") + ")" +
		" UNION ALL SELECT value, NULL FROM " + d.listed() + " WHERE (SELECT 1 FROM objects b WHERE b.org_id = @org" +
		" AND b.folded_key > value || '/' AND b.folded_key < value || '0' AND NOT (" + d.in("b.id", "uuid") + ") ORDER BY b.folded_key LIMIT 1) = 1"
})

// deletedVersions looks in the index of deleted keys for each key of its parameter; see object.EarlierVersion.DeletedKey.
var deletedVersions = perDialect(func(d dialect) string {
	return "SELECT value, COALESCE((SELECT MAX(v.version) FROM object_versions v WHERE v.org_id = @org AND v.deleted_key > value || " +
		d.text("CHAR(1)", "CHR(1)") + " AND v.deleted_key < value || " + d.text("CHAR(2)", "CHR(2)") + "), 0) FROM " + d.listed()
})

// replaceFields are the fields that Replace is given; it computes the number.
var replaceFields = except(objectTable.changes, "n")

// The texts of replaceObject: the previous content is released, or kept, or kept where others may be
// too many.
const (
	replaceReleased = iota
	replaceKept
	replaceKeptOfMany
)

// replaceObject is Replace in one statement instead of eight on Postgres, by what becomes of the previous
// content and by the object's class. Each part reads its rows from the one before: the log's head is locked
// first, as everywhere, and nothing is changed if a part finds no row. Which versions are too many is decided
// by the statement's snapshot, which is older than the lock: beside a transaction that discards versions of
// the object meanwhile, the result is that of the replacement before it.
var replaceObject = func() (s [3][object.Versions]string) {
	const insertName = " discarded AS (INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT @org, "
	released := insertName + "?::text, TRUE, ?::bigint FROM taken" + discarded + "),"
	kept := " kept AS (" + insertKept + join(keptFields, "was.%") + ", ?::bigint, ?::uuid, ?::bigint FROM was JOIN taken ON TRUE),"
	excess := " excess AS (DELETE FROM object_versions v USING taken WHERE v.org_id = @org AND v.object_id = ? AND v.version <=" +
		" (SELECT e.version FROM object_versions e WHERE e.org_id = @org AND e.object_id = ? ORDER BY e.version DESC LIMIT 1 OFFSET ?) RETURNING v.blob, v.size)," +
		insertName + "excess.blob, TRUE, ?::bigint FROM excess" + discarded + "),"
	for class := range s[0] {
		logged := replaceObjectLogged + ", counted_n = taken.n, " + usageColumns[class] + " = log_heads." + usageColumns[class] + " + ?"
		before := replaceObjectBefore(", x.id AS object_id, "+join(keptFields[1:], "x.%")) + kept
		grown := ", version_bytes = log_heads.version_bytes + ?"
		s[replaceReleased][class] = replaceObjectBefore("") + released + logged + replaceObjectAfter
		s[replaceKept][class] = before + logged + grown + replaceObjectAfter
		s[replaceKeptOfMany][class] = before + excess + logged + grown + " - (SELECT CAST(COALESCE(SUM(e.size), 0) AS bigint) FROM excess e)" + replaceObjectAfter
	}
	return s
}()

// keepVersions inserts earlier versions.
var keepVersions = versionTable.insertsRecords(versionTable.rest, "")

// removeExcess deletes the earlier versions of objects that are beyond a number, and returns the names and sizes of
// their blobs. It skips those within the number in the primary key, without reading their rows.
var removeExcess = perDialect(func(d dialect) string {
	objects := d.text("json_each(?)", "unnest(?::uuid[]) AS value")
	return "DELETE FROM object_versions WHERE org_id = @org AND (object_id, version) IN (SELECT v.object_id, v.version FROM " + objects +
		" CROSS JOIN object_versions v WHERE v.org_id = @org AND v.object_id = value AND v.version <= (SELECT w.version FROM object_versions w" +
		" WHERE w.org_id = @org AND w.object_id = value ORDER BY w.version DESC LIMIT 1 OFFSET ?)) RETURNING blob, size"
})

// removeVersions deletes the earlier versions with the names of blobs. Without the name of the index SQLite would read
// all versions of the organisation for that.
var removeVersions = perDialect(func(d dialect) string {
	return "DELETE FROM object_versions" + d.text(" INDEXED BY object_versions_blob", "") + " WHERE org_id = @org AND " + d.in("blob", "text")
})

// keptFields are the fields of an earlier version that are those of its object, the id first.
var keptFields = versionTable.fieldsOf("object_id", "version", "path", "kind", "scope", "workspace_id", "team_id", "owner_id", "mime_type",
	"created_by", "updated_by", "created_at", "updated_at", "blob", "size", "checksum", "is_text")

// insertKept is the beginning of a statement that keeps the previous content of an object.
var insertKept = "INSERT INTO object_versions (org_id, " + join(keptFields, "%") + ", ended_at, ended_by, expires_at) SELECT @org, "

// keepUnchanged and replaceUnchanged keep the previous content of an object and store the next one, on SQLite, if
// the object has that content and version, the organisation the epoch, and the next content an announced name.
var keepUnchanged, replaceUnchanged = func() (keep, replace string) {
	const unchanged = " WHERE objects.org_id = @org AND objects.id = ? AND objects.blob = ? AND objects.version = ?" +
		" AND EXISTS (SELECT 1 FROM organisations o WHERE o.id = @org AND o.epoch = ?)" +
		" AND EXISTS (SELECT 1 FROM blob_names b WHERE b.org_id = @org AND b.name = ? AND NOT b.is_discarded)"
	return insertKept + "id, " + join(keptFields[1:], "%") + ", ?, ?, ? FROM objects" + unchanged,
		"UPDATE objects SET " + join(objectTable.changes, "% = ?") + unchanged
}()

// replaceObjectBefore is the beginning of replaceObject, up to the change of the object. The part next compares the
// epoch as it is once the log's head is locked, and keeps it; it never waits for the organisation's row, because
// others lock that before the log.
func replaceObjectBefore(columns string) string {
	return "WITH head AS (SELECT h.n + 1 AS n, h.floor FROM log_heads h WHERE h.org_id = @org" +
		" AND h.counted_n = h.n AND h." + strings.Join(usageColumns[:], " + h.") + " <= ?" + onPostgres.forUpdate() + ")," +
		" next AS (SELECT head.n, head.floor FROM head, organisations o WHERE o.id = @org AND o.epoch = ? FOR SHARE OF o SKIP LOCKED)," +
		" was AS (SELECT next.n, next.floor" + columns + " FROM objects x, next WHERE x.org_id = @org AND x.id = ? AND x.blob = ? AND x.version = ?" + onPostgres.forUpdate() + " OF x)," +
		" taken AS (DELETE FROM blob_names b USING was WHERE b.org_id = @org AND b.name = ? AND NOT b.is_discarded RETURNING was.n, was.floor)," +
		" put AS (UPDATE objects SET " + join(replaceFields, "% = ?") + ", n = taken.n FROM taken WHERE org_id = @org AND id = ?),"
}

const replaceObjectLogged = " logged AS (INSERT INTO changes (org_id, n, type, at, by_user, record)" +
	" SELECT @org, taken.n, ?::text, ?::bigint, ?::uuid, ?::text || taken.n || '}' FROM taken)," +
	" moved AS (UPDATE log_heads SET n = taken.n"

const replaceObjectAfter = " FROM taken WHERE org_id = @org) SELECT taken.n, taken.floor, (SELECT e.epoch FROM log_epoch e) FROM taken"

// orgsWithExpired returns the next organisations with earlier versions that have expired: one look
// into the index for each organisation.
const orgsWithExpired = "SELECT o.id FROM organisations o WHERE o.id > ? AND EXISTS (SELECT 1 FROM object_versions v WHERE v.org_id = o.id AND v.expires_at <= ?)" +
	" ORDER BY o.id LIMIT ?"

// sumSizes sums what several organisations store, over two tables in one statement.
var sumSizes = perDialect(func(d dialect) string {
	sums := func(table, earlier string) string {
		return "SELECT x.org_id, x.kind, x.scope, CAST(SUM(x.size) AS bigint), " + earlier + " FROM " + table + " x WHERE " + d.in("x.org_id", "uuid") +
			" GROUP BY x.org_id, x.kind, x.scope"
	}
	return sums("objects", "FALSE") + " UNION ALL " + sums("object_versions", "TRUE")
})

// usageTotals sums the usage of several organisations: descriptions of tables have no sums by group.
var usageTotals = perDialect(func(d dialect) string {
	return "SELECT x.org_id, CAST(SUM(x.input) AS bigint), CAST(SUM(x.output) AS bigint), CAST(SUM(x.requests) AS bigint) FROM usage_models x WHERE " +
		d.in("x.org_id", "uuid") + " AND x.unit = ? AND x.since >= ? AND x.since < ? GROUP BY x.org_id"
})

// discarded is the conflict clause for a name that is recorded already. It has a condition, which
// those of descriptions have not.
const discarded = " ON CONFLICT (name) DO UPDATE SET is_discarded = excluded.is_discarded, at = excluded.at" +
	" WHERE (NOT blob_names.is_discarded OR blob_names.at > excluded.at) AND blob_names.org_id = excluded.org_id"

// announced sums over two tables in one statement.
const announced = "SELECT COUNT(*), CAST(COALESCE(SUM(b.size), 0) + COALESCE((SELECT SUM(u.size) FROM uploads u WHERE u.org_id = @org AND u.status = 'OPEN'), 0) AS bigint)" +
	" FROM blob_names b WHERE b.org_id = @org AND b.size > 0 AND NOT b.is_discarded"

// announceNames, discardNames and knownBlobs are about the names of a parameter.
var (
	announceNames = perDialect(func(d dialect) string {
		return "INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT " + d.org() + ", value, " + d.param("boolean") + ", " + d.param("bigint") + " FROM " + d.listed()
	})
	discardNames = perDialect(func(d dialect) string { return announceNames[d] + " WHERE 1 = 1" + discarded })
	knownBlobs   = perDialect(func(d dialect) string {
		return "SELECT b.name FROM blob_names b WHERE " + d.in("b.name", "text") + " UNION ALL SELECT x.blob FROM objects x WHERE " + d.in("x.blob", "text") +
			" UNION ALL SELECT v.blob FROM object_versions v WHERE " + d.in("v.blob", "text")
	})
)

// marks reads three tables in one statement, and so in one snapshot.
const marks = "SELECT o.id, o.epoch, (SELECT e.epoch FROM log_epoch e), COALESCE(h.n, 0) FROM organisations o LEFT JOIN log_heads h ON h.org_id = "

// seatCounts reads two tables in one statement, and so in one snapshot.
func seatCounts(members, invitations string) string {
	return "SELECT org_id, COUNT(*) FILTER (WHERE role = 'OWNER'), COUNT(*), 0 FROM memberships WHERE " + members +
		" AND removed_at IS NULL GROUP BY org_id UNION ALL SELECT org_id, 0, 0, COUNT(*) FROM invitations WHERE " + invitations +
		" AND status = 'PENDING' AND expires_at > ? GROUP BY org_id"
}

// epochs runs with nearly every request, and reads one column of many.
const epochs = "SELECT id, epoch FROM organisations WHERE "

// selectEpoch returns the query for the epoch of one organisation.
func selectEpoch(o id.Org) command { return sharedSQL(epochs+"id = ?", string(o)) }

// heads reads the heads of logs, also of empty ones, with the epoch, which all logs share.
const (
	heads   = "SELECT COALESCE(h.n, 0), COALESCE(h.floor, 0), e.epoch FROM log_epoch e LEFT JOIN log_heads h ON "
	headsOf = "SELECT h.org_id, COALESCE(h.n, 0), COALESCE(h.floor, 0), e.epoch FROM log_epoch e LEFT JOIN log_heads h ON "
)

// lockHead reads and locks the head of a log; SQLite has no other writers.
var lockHead = perDialect(func(d dialect) string {
	return "SELECT h.n, h.floor, (SELECT e.epoch FROM log_epoch e), h." + strings.Join(usageColumns[:], ", h.") + ", h.counted_n FROM log_heads h WHERE h.org_id = @org" + d.forUpdate()
})

// beginLog inserts a log's head if the organisation exists, which it decides in the statement to save
// a round trip.
const beginLog = "INSERT INTO log_heads (org_id, n, floor) SELECT id, 0, 0 FROM organisations WHERE id = @org ON CONFLICT DO NOTHING"

// appendChanges inserts all entries from one parameter, on Postgres (see insertRows), and updates
// the head and one object, which saves two round trips.
var appendChanges = func() [2]string {
	s := changeTable.insertsRecords(changeTable.rest, "")
	s[onPostgres] = "WITH head AS (UPDATE log_heads SET " + setHead + " WHERE org_id = @org), " +
		"moved AS (UPDATE objects SET n = ? WHERE org_id = @org AND id = ?) " + s[onPostgres]
	return s
}()

// numberObjects sets the numbers of many objects from one parameter. On SQLite an UPDATE with a join
// starts from the table, and reads the parameter for each of its rows.
var numberObjects = func() [2]string {
	list := make([]string, len(objectTable.rest))
	for i, f := range objectTable.rest {
		list[i] = "x." + f.name
		switch f.name {
		case "n":
			list[i] = "v.n"
		case "folded_key": // is never stored, and must not be that of the object
			list[i] = "v.id"
		}
	}
	return [2]string{
		onSQLite: objectTable.insertInto(onSQLite, join(objectTable.rest, "%"), strings.Join(list, ", ")) + " FROM " + onSQLite.records(objectNumber) +
			" CROSS JOIN objects x WHERE x.org_id = @org AND x.id = v.id" + objectTable.onConflictUpdate(objectTable.fieldsOf("n")),
		onPostgres: "UPDATE objects SET n = v.n FROM " + onPostgres.records(objectNumber) + " WHERE objects.org_id = @org AND objects.id = v.id",
	}
}()

var objectNumber = objectTable.fieldsOf("id", "n")

// entriesAndEpoch reads a page of a log and the organisation's epoch in one snapshot and
// one round trip. Without entries it returns a row with the number 0. % is a coarse limit.
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

// oldestEntries returns the logs of the oldest entries of all logs, with the last of these in each. It
// reads all organisations and groups, which selections of one tenant do not.
const oldestEntries = "SELECT p.org_id, MAX(p.n) FROM (SELECT c.org_id, c.n FROM changes c WHERE c.at < ? ORDER BY c.at LIMIT ?) AS p " +
	"GROUP BY p.org_id ORDER BY p.org_id LIMIT ?"

// reserve grants what quota.Account.Grant grants, at an epoch of the organisation; a missing
// account is an empty one. The conflict is decided on the latest committed row, which takes
// one statement. On Postgres it also stores the lease.
var reserve = func() [2]string {
	s := perDialect(func(d dialect) string {
		left := "? - quota_accounts.used - quota_accounts.reserved"
		granted := d.text("MIN", "LEAST") + "(excluded.granted, " + left + ")"
		tokens := d.param("bigint")
		return "INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT " + d.org() + ", " +
			d.param("uuid") + ", " + d.param("bigint") + ", 0, " + tokens + ", " + tokens +
			" FROM organisations o WHERE o.id = @org AND o.epoch = ?" +
			" AND NOT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = @org AND l.user_id = ? AND l.day = ? AND l.id = ?)" +
			" ON CONFLICT (org_id, user_id, day) DO UPDATE SET reserved = quota_accounts.reserved + " + granted + ", granted = " + granted +
			" WHERE " + left + " > ? RETURNING granted"
	})
	s[onPostgres] = "WITH account AS (" + s[onPostgres] + "), lease AS (INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at)" +
		" SELECT @org, ?::uuid, ?::bigint, ?::uuid, a.granted, ?::bigint FROM account a) SELECT a.granted FROM account a"
	return s
}()

// reserveAll reserves sums of accounts that have them left, and addLeases stores the leases on
// them. On Postgres reserveAll does both. The accounts come in the order in which they are to
// be locked.
var reserveAll, addLeases = func() (sums, leases [2]string) {
	leases = leaseTable.insertsRecords(reservedLeases, "")
	sums = perDialect(func(d dialect) string {
		return accountTable.insertInto(d, "user_id, day, used, reserved, granted", "v.user_id, v.day, 0, v.reserved, 0") +
			" FROM " + d.records(reservedSums) + " WHERE " + ofEpoch + " AND v.reserved <= " + d.param("bigint") +
			accountTable.onConflictAdd("reserved") + " WHERE quota_accounts.used + quota_accounts.reserved + excluded.reserved <= " + d.param("bigint") +
			" RETURNING user_id"
	})
	sums[onPostgres] = "WITH account AS (" + sums[onPostgres] + "), lease AS (" + leases[onPostgres] +
		" AND v.user_id IN (SELECT a.user_id FROM account a)) SELECT a.user_id::text FROM account a"
	return sums, leases
}()

// reserveAsync and reserveAllAsync are statements on Postgres whose commit does not wait for the disk.
var (
	reserveAsync    = reserve[onPostgres] + asyncCommit
	reserveAllAsync = reserveAll[onPostgres] + asyncCommit
)

const asyncCommit = " WHERE set_config('synchronous_commit', 'off', true) = 'off'"

// The statements of a reservation on SQLite, made once.
const (
	addLease   = "INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at) VALUES (@org, ?, ?, ?, ?, ?)"
	leaseKnown = "SELECT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = @org AND l.user_id = ? AND l.day = ? AND l.id = ?) " +
		"FROM organisations o WHERE o.id = @org"
)

// Statements about leases or accounts of all organisations, which are the last parameter: selections
// are of one tenant, and these take rows of many in one round trip.
// Those that lock are for Postgres only.
var (
	lockAccounts, lockLeases = accountTable.lockRecords(leaseKeys), leaseTable.lockRecords(leaseKeys)

	extendLeases = perDialect(func(d dialect) string {
		return "UPDATE quota_leases SET expires_at = ? FROM " + d.records(leaseKeys) + " WHERE " + leaseTable.sameKey()
	})
	deleteExpired = perDialect(func(d dialect) string {
		return "DELETE FROM quota_leases WHERE expires_at <= ? AND (org_id, user_id, day, id) IN (SELECT v.org_id, v.user_id, v.day, v.id FROM " +
			d.records(leaseKeys) + ") RETURNING org_id, user_id, day, tokens"
	})
	returnTokens = perDialect(func(d dialect) string {
		return "UPDATE quota_accounts SET reserved = quota_accounts.reserved - v.tokens FROM " + d.records(returnedFields) + " WHERE " + accountTable.sameKey()
	})
)

// lockRecords returns the text that locks the rows with the keys of a parameter made by records, in their order.
func (t *table) lockRecords(keys []field) string {
	return "SELECT 1 FROM " + t.name + " JOIN " + onPostgres.records(keys) + " ON " + t.sameKey() +
		" ORDER BY " + join(keysOf(t.fields), t.name+".%") + onPostgres.forUpdate()
}

// The fields of leases and accounts that Settle is given.
var (
	settledLeases   = leaseTable.fieldsOf("user_id", "day", "id")
	settledAccounts = accountTable.fieldsOf("user_id", "day", "used")
)

// settle is Ledger.Settle on Postgres in one statement instead of nine. Rows are inserted in
// the order of their keys; accounts and then their leases are locked in that order before they
// change, since a join returns them in any order. Its result is that of the last part: no rows
// if the organisation does not exist or an id is taken. Postgres expects one row of
// keys because of the condition on their organisation, and so looks up each; of rows of a parameter alone it
// expects a hundred, for which it would read all leases of the organisation, also dead ones. OFFSET does the
// same for entries. settleEntries and then settleOthers do the same on SQLite.
var settle, settleEntries, settleOthers = func() (all, entries string, others [5]string) {
	const ready = "EXISTS (SELECT 1 FROM organisations o WHERE o.id = @org) AND NOT EXISTS (SELECT 1 FROM "
	sums := func(t *tenantTable, condition string) [2]string {
		return t.insertsRecords(t.rest, condition+t.onConflictAdd("input", "output", "requests"))
	}
	accounts := func(d dialect, held, condition string) string {
		return accountTable.insertInto(d, "user_id, day, used, reserved, granted", "v.user_id, v.day, v.used, 0, COALESCE(("+held+" AND l.user_id = v.user_id AND l.day = v.day), 0)") +
			" FROM " + d.records(settledAccounts) + " WHERE " + condition + accountTable.onConflictAdd("used") + ", reserved = quota_accounts.reserved - excluded.granted"
	}
	const isReady = " AND EXISTS (SELECT 1 FROM ready)"
	all = "WITH keys AS MATERIALIZED (SELECT v.user_id, v.day, v.id FROM " + onPostgres.records(leaseKeys) + " WHERE v.org_id = @org)," +
		" ready AS MATERIALIZED (SELECT 1 WHERE " + ready + "keys v CROSS JOIN LATERAL (SELECT 1 FROM usage_entries x WHERE x.org_id = @org AND x.id = v.id OFFSET 0) AS taken))," +
		" entries AS (" + entryTable.insertsRecords(entryTable.rest, isReady)[onPostgres] + ")," +
		" user_models AS (" + sums(userModelTable, isReady)[onPostgres] + ")," +
		" users AS (" + sums(userSumTable, isReady)[onPostgres] + ")," +
		" models AS (" + sums(modelSumTable, isReady)[onPostgres] + ")," +
		" locked AS MATERIALIZED (SELECT 1 FROM quota_accounts a JOIN keys v ON a.org_id = @org AND a.user_id = v.user_id AND a.day = v.day ORDER BY a.user_id, a.day" + onPostgres.forUpdate() + " OF a)," +
		" held AS MATERIALIZED (SELECT l.user_id, l.day, l.id FROM quota_leases l JOIN keys v ON l.org_id = @org AND l.user_id = v.user_id AND l.day = v.day AND l.id = v.id WHERE (SELECT COUNT(*) FROM locked) >= 0" + isReady +
		" ORDER BY l.user_id, l.day, l.id" + onPostgres.forUpdate() + " OF l)," +
		" ended AS (DELETE FROM quota_leases l USING held h WHERE l.org_id = @org AND l.user_id = h.user_id AND l.day = h.day AND l.id = h.id" +
		" RETURNING l.user_id, l.day, l.tokens) " +
		accounts(onPostgres, "SELECT SUM(l.tokens)::bigint FROM ended l WHERE 1 = 1", "1 = 1"+isReady)
	entries = entryTable.insertsRecords(entryTable.rest, " AND "+ready+"usage_entries x WHERE x.org_id = @org AND x.id IN (SELECT v.id FROM "+onSQLite.records(settledLeases)+"))")[onSQLite]
	const ended = "l.org_id = @org AND (l.user_id, l.day, l.id) IN (SELECT v.user_id, v.day, v.id FROM "
	held := onSQLite.records(settledLeases) + ")"
	others = [5]string{
		accounts(onSQLite, "SELECT SUM(l.tokens) FROM quota_leases l WHERE "+ended+held, "1 = 1"),
		"DELETE FROM quota_leases AS l WHERE " + ended + held,
		sums(userModelTable, "")[onSQLite], sums(userSumTable, "")[onSQLite], sums(modelSumTable, "")[onSQLite],
	}
	return all, entries, others
}()
