package gormdb

import (
	"slices"
	"strings"

	"collab/domain/id"
	"collab/domain/object"
)

// The statements that are SQL text, each with the reason why it is not made from the
// descriptions of the tables. A [2]statement has one for each dialect.

// addTaskFields are the fields that Add is given; it computes the sort order.
var addTaskFields = except(taskTable.rest, "sort_order")

// addTask is indexed by whether the task is in a workspace. It computes the sort order and
// finds the workspace in the statement, to save round trips.
var addTask = map[bool][2]statement{false: addTaskWhere("1 = 1"), true: addTaskWhere(inWorkspace)}

const inWorkspace = "EXISTS (SELECT 1 FROM workspaces w WHERE w.org_id = @org AND w.id = @workspace)"

// addTaskAt and getTaskAt also compare the organisation's epoch.
var (
	addTaskAt = map[bool][2]statement{false: addTaskWhere(ofEpoch), true: addTaskWhere(ofEpoch + " AND " + inWorkspace)}
	getTaskAt = perDialect(func(d dialect) statement {
		return parse("SELECT " + taskTable.list[d] +
			" FROM tasks WHERE tasks.org_id = @org AND tasks.id = @id AND " + ofEpoch)
	})
)

// replaceTaskAt stores a task if it still has the version and its time, and the organisation the epoch. On
// Postgres it appends the changes of the task as well.
var replaceTaskAt = perDialect(func(d dialect) statement {
	put := "UPDATE tasks SET " + join(taskTable.changes, "% = @%") +
		" WHERE org_id = @org AND id = @id AND version = @previous_version AND updated_at = @previous_time AND " + ofEpoch
	if d == onSQLite {
		return parse(put)
	}
	return parse("WITH put AS (" + put + " RETURNING 1), appended AS (" +
		historyTable.insertFrom(d, "@changes", historyTable.rest) + " AND EXISTS (SELECT 1 FROM put)) SELECT 1 FROM put")
})

// atEpoch is the condition that an organisation has an epoch, which databases evaluate once
// for a statement, before they read rows. ofEpoch is the same for statements.
const (
	atEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = ?) = ?"
	ofEpoch = "(SELECT o.epoch FROM organisations o WHERE o.id = @org) = @epoch"
)

func addTaskWhere(condition string) [2]statement {
	const nextOrder = "(SELECT COALESCE(MAX(x.sort_order), -1) + 1 FROM tasks x WHERE x.org_id = @org)"
	return perDialect(func(d dialect) statement {
		return parse(taskTable.insertOne(d, addTaskFields, ", sort_order", ", "+nextOrder) +
			" WHERE " + condition + onConflictDoNothing + " RETURNING sort_order")
	})
}

// movePlacements stores a batch from one parameter. It is an INSERT that conflicts with the
// locked rows, because then both databases start from the parameter; an UPDATE with a join may
// start from the table. The values that only the INSERT has are never stored.
var movePlacements = perDialect(func(d dialect) statement {
	return parse(taskTable.insertInto(d,
		join(placementFields, "%")+", updated_at, title, status, created_by, created_at, version",
		join(placementFields, "v.%")+", "+d.typed("@now", "bigint")+", '', '', v.id, 0, 0") +
		" FROM " + d.records("@rows", placementFields) + " WHERE 1 = 1" +
		" ON CONFLICT (org_id, id) DO UPDATE SET sort_order = excluded.sort_order, priority = excluded.priority," +
		" updated_at = excluded.updated_at, version = tasks.version + 1")
})

var placementFields = taskTable.fieldsOf("id", "sort_order", "priority")

// addObject is indexed by whether the object is in a workspace (1) and in a team (2). It
// checks for conflicts and missing references in the same statement.
var addObject = func() (s [4][2]statement) {
	for i := range s {
		references := ""
		if i&1 != 0 {
			references += " AND " + inWorkspace
		}
		if i&2 != 0 {
			references += " AND EXISTS (SELECT 1 FROM teams t WHERE t.org_id = @org AND t.id = @team)"
		}
		s[i] = perDialect(func(d dialect) statement {
			return parse(objectTable.insertOne(d, objectTable.rest, "", "") +
				" WHERE NOT EXISTS (SELECT 1 FROM objects a WHERE a.org_id = @org" +
				" AND " + d.in("a.folded_key", "@folders", "text") + ")" +
				" AND NOT EXISTS (SELECT 1 FROM objects b WHERE b.org_id = @org" +
				" AND b.folded_key > @below AND b.folded_key < @below_end)" + references + onConflictDoNothing)
		})
	}
	return s
}()

// putObjects stores existing objects, as movePlacements does, with their keys (see insertRows).
var (
	putObjects     = objectTable.insertsRecords(objectTable.rest, replaceObjects)
	replaceObjects = objectTable.onConflictUpdate(
		slices.Concat(objectTable.changes, objectTable.fieldsOf("path", "storage_key", "folded_key")))
)

// addObjects stores rows as they are, on Postgres (see insertRows).
var addObjects = objectTable.insertsRecords(objectTable.rest, "")

// takenKeys returns the objects that have one of the keys, and those of the folders that are parent folders of objects;
// the ignored objects do not count. Postgres would join the whole table for an EXISTS instead of looking in the index
// for each key.
var takenKeys = perDialect(func(d dialect) statement {
	return parse("SELECT a.folded_key, a.id FROM objects a WHERE a.org_id = @org" +
		" AND " + d.in("a.folded_key", "@keys", "text") + " AND NOT (" + d.in("a.id", "@ignored", "uuid") + ")" +
		" UNION ALL SELECT value, NULL FROM " + d.listed("@folders", "text") +
		" WHERE (SELECT 1 FROM objects b WHERE b.org_id = @org" +
		" AND b.folded_key > value || '/' AND b.folded_key < value || '0'" +
		" AND NOT (" + d.in("b.id", "@ignored", "uuid") + ") ORDER BY b.folded_key LIMIT 1) = 1")
})

// deletedVersions looks in the index of deleted keys for each key; see object.EarlierVersion.DeletedKey.
var deletedVersions = perDialect(func(d dialect) statement {
	return parse("SELECT value, COALESCE((SELECT MAX(v.version) FROM object_versions v WHERE v.org_id = @org" +
		" AND v.deleted_key > value || " + d.text("CHAR(1)", "CHR(1)") +
		" AND v.deleted_key < value || " + d.text("CHAR(2)", "CHR(2)") + "), 0) FROM " + d.listed("@keys", "text"))
})

// replaceFields are the fields that Replace is given; it computes the number.
var replaceFields = except(objectTable.changes, "n")

// The indexes of replaceObject: the previous content is released, or kept, or kept where others may be
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
//
// The part next compares the epoch as it is once the log's head is locked, and keeps it; it never waits for the
// organisation's row, because others lock that before the log.
var replaceObject = func() (s [3][object.Versions]statement) {
	lock := onPostgres.forUpdate()
	before := func(previous string) string {
		return "WITH head AS (SELECT h.n + 1 AS n, h.floor FROM log_heads h WHERE h.org_id = @org AND h.counted_n = h.n" +
			" AND h." + strings.Join(usageColumns[:], " + h.") + " <= @max_used" + lock + ")," +
			" next AS (SELECT head.n, head.floor FROM head, organisations o" +
			" WHERE o.id = @org AND o.epoch = @epoch FOR SHARE OF o SKIP LOCKED)," +
			" was AS (SELECT next.n, next.floor" + previous + " FROM objects x, next WHERE x.org_id = @org AND x.id = @id" +
			" AND x.blob = @previous_blob AND x.version = @previous_version" + lock + " OF x)," +
			" taken AS (DELETE FROM blob_names b USING was" +
			" WHERE b.org_id = @org AND b.name = @blob AND NOT b.is_discarded RETURNING was.n, was.floor)," +
			" put AS (UPDATE objects SET " + join(replaceFields, "% = @%") + ", n = taken.n" +
			" FROM taken WHERE org_id = @org AND id = @id),"
	}
	discard := func(name, from string) string {
		return " discarded AS (INSERT INTO blob_names (org_id, name, is_discarded, at)" +
			" SELECT @org, " + name + ", TRUE, @at::bigint FROM " + from + discarded + "),"
	}
	released := before("") + discard("@previous_blob::text", "taken")
	kept := before(", x.id AS object_id, "+join(keptFields[1:], "x.%")) +
		" kept AS (" + insertKept + join(keptFields, "was.%") + ", @at::bigint, @by::uuid, @expires_at::bigint" +
		" FROM was JOIN taken ON TRUE),"
	excess := " excess AS (DELETE FROM object_versions v USING taken WHERE v.org_id = @org AND v.object_id = @id" +
		" AND v.version <= (SELECT e.version FROM object_versions e WHERE e.org_id = @org AND e.object_id = @id" +
		" ORDER BY e.version DESC LIMIT 1 OFFSET @kept_before) RETURNING v.blob, v.size)," + discard("excess.blob", "excess")
	for class, column := range usageColumns[:object.Versions] {
		log := " logged AS (INSERT INTO changes (org_id, n, type, at, by_user, record)" +
			" SELECT @org, taken.n, @type::text, @at::bigint, @by::uuid, @record::text || taken.n || '}' FROM taken)," +
			" moved AS (UPDATE log_heads SET n = taken.n, counted_n = taken.n, " +
			column + " = log_heads." + column + " + @growth"
		grown := ", version_bytes = log_heads.version_bytes + @previous_size"
		shrunk := " - (SELECT CAST(COALESCE(SUM(e.size), 0) AS bigint) FROM excess e)"
		end := " FROM taken WHERE org_id = @org) SELECT taken.n, taken.floor, (SELECT e.epoch FROM log_epoch e) FROM taken"
		s[replaceReleased][class] = parse(released + log + end)
		s[replaceKept][class] = parse(kept + log + grown + end)
		s[replaceKeptOfMany][class] = parse(kept + excess + log + grown + shrunk + end)
	}
	return s
}()

// keepVersions inserts earlier versions.
var keepVersions = versionTable.insertsRecords(versionTable.rest, "")

// removeExcess deletes the earlier versions of objects that are beyond a number, and returns the names and sizes of
// their blobs. It skips those within the number in the primary key, without reading their rows. On Postgres OFFSET 0 and
// ARRAY keep the planner from a join that looks for the number again for each version, and all of it for each row of the
// organisation, which it prefers before the table is analyzed.
var removeExcess = perDialect(func(d dialect) statement {
	const beyond = "object_versions v WHERE v.org_id = @org AND v.object_id = value AND v.version <=" +
		" (SELECT w.version FROM object_versions w WHERE w.org_id = @org AND w.object_id = value" +
		" ORDER BY w.version DESC LIMIT 1 OFFSET @kept)"
	objects := d.listed("@objects", "uuid")
	return parse("DELETE FROM object_versions WHERE org_id = @org AND " + d.text(
		"(object_id, version) IN (SELECT v.object_id, v.version FROM "+objects+" CROSS JOIN "+beyond+")",
		"blob = ANY (ARRAY(SELECT v.blob FROM "+objects+" CROSS JOIN LATERAL (SELECT v.blob FROM "+beyond+" OFFSET 0) v))",
	) + " RETURNING blob, size")
})

// removeVersions deletes the earlier versions with the names of blobs. Without the name of the index SQLite would read
// all versions of the organisation for that.
var removeVersions = perDialect(func(d dialect) statement {
	return parse("DELETE FROM object_versions" + d.text(" INDEXED BY object_versions_blob", "") +
		" WHERE org_id = @org AND " + d.in("blob", "@names", "text"))
})

// keptFields are the fields of an earlier version that are those of its object, the id first.
var keptFields = versionTable.fieldsOf("object_id", "version", "path",
	"kind", "scope", "workspace_id", "team_id", "owner_id", "mime_type",
	"created_by", "updated_by", "created_at", "updated_at", "blob", "size", "checksum", "is_text")

// insertKept is the beginning of a statement that keeps the previous content of an object.
var insertKept = "INSERT INTO object_versions (org_id, " + join(keptFields, "%") +
	", ended_at, ended_by, expires_at) SELECT @org, "

// keepUnchanged and replaceUnchanged keep the previous content of an object and store the next one, on SQLite, if
// the object has that content and version, the organisation the epoch, and the next content an announced name.
var keepUnchanged, replaceUnchanged = func() (keep, replace statement) {
	const unchanged = " WHERE objects.org_id = @org AND objects.id = @id AND objects.blob = @previous_blob" +
		" AND objects.version = @previous_version AND " + ofEpoch +
		" AND EXISTS (SELECT 1 FROM blob_names b WHERE b.org_id = @org AND b.name = @blob AND NOT b.is_discarded)"
	return parse(insertKept + "id, " + join(keptFields[1:], "%") + ", @at, @by, @expires_at FROM objects" + unchanged),
		parse("UPDATE objects SET " + join(objectTable.changes, "% = @%") + unchanged)
}()

// orgsWithExpired returns the next organisations with earlier versions that have expired: one look
// into the index for each organisation.
var orgsWithExpired = parse("SELECT o.id FROM organisations o WHERE o.id > @after" +
	" AND EXISTS (SELECT 1 FROM object_versions v WHERE v.org_id = o.id AND v.expires_at <= @now)" +
	" ORDER BY o.id LIMIT @limit")

// sumSizes sums what several organisations store, over two tables in one statement.
var sumSizes = perDialect(func(d dialect) statement {
	sums := func(table, earlier string) string {
		return "SELECT x.org_id, x.kind, x.scope, CAST(SUM(x.size) AS bigint), " + earlier + " FROM " + table + " x" +
			" WHERE " + d.in("x.org_id", "@orgs", "uuid") + " GROUP BY x.org_id, x.kind, x.scope"
	}
	return parse(sums("objects", "FALSE") + " UNION ALL " + sums("object_versions", "TRUE"))
})

// usageTotals sums the usage of several organisations: descriptions of tables have no sums by group.
var usageTotals = perDialect(func(d dialect) statement {
	return parse("SELECT org_id, " + sumColumns + " FROM usage_models WHERE " + d.in("org_id", "@orgs", "uuid") +
		" AND unit = @unit AND since >= @from AND since < @until GROUP BY org_id")
})

// sumColumns are the sums of rows of sumRow.
const sumColumns = "CAST(SUM(input) AS BIGINT), CAST(SUM(output) AS BIGINT), CAST(SUM(requests) AS BIGINT)"

// The pages of Ledger.Daily: of all models, which have a row for each shard, of all users, and of the models of one
// user.
var (
	dailyModels = parse("SELECT since, model, " + sumColumns + " FROM usage_models" +
		" WHERE org_id = @org AND unit = @unit AND since >= @from AND since < @until" +
		" AND (since, model) > (@after_day, @after) GROUP BY since, model ORDER BY since, model LIMIT @limit")
	dailyUsers = parse("SELECT since, user_id, input, output, requests FROM usage_users" +
		" WHERE org_id = @org AND unit = @unit AND since >= @from AND since < @until" +
		" AND (since, user_id) > (@after_day, @after) ORDER BY since, user_id LIMIT @limit")
	dailyModelsOfUser = parse("SELECT day, model, input, output, requests FROM usage_user_models" +
		" WHERE org_id = @org AND user_id = @user AND day >= @from AND day < @until" +
		" AND (day, model) > (@after_day, @after) ORDER BY day, model LIMIT @limit")
)

// discarded is the conflict clause for a name that is recorded already. It has a condition, which
// those of descriptions have not.
const discarded = " ON CONFLICT (name) DO UPDATE SET is_discarded = excluded.is_discarded, at = excluded.at" +
	" WHERE (NOT blob_names.is_discarded OR blob_names.at > excluded.at) AND blob_names.org_id = excluded.org_id"

// announced sums over two tables in one statement.
var announced = parse("SELECT COUNT(*), CAST(COALESCE(SUM(b.size), 0) +" +
	" COALESCE((SELECT SUM(u.size) FROM uploads u WHERE u.org_id = @org AND u.status = 'OPEN'), 0) AS bigint)" +
	" FROM blob_names b WHERE b.org_id = @org AND b.size > 0 AND NOT b.is_discarded")

// announceNames, discardNames and knownBlobs are about the names of a parameter.
var (
	announceNames = perDialect(func(d dialect) statement { return parse(insertNames(d, "FALSE")) })
	discardNames  = perDialect(func(d dialect) statement {
		return parse(insertNames(d, "TRUE") + " WHERE 1 = 1" + discarded)
	})
	knownBlobs = perDialect(func(d dialect) statement {
		return parse("SELECT b.name FROM blob_names b WHERE " + d.in("b.name", "@names", "text") +
			" UNION ALL SELECT x.blob FROM objects x WHERE " + d.in("x.blob", "@names", "text") +
			" UNION ALL SELECT v.blob FROM object_versions v WHERE " + d.in("v.blob", "@names", "text"))
	})
)

func insertNames(d dialect, isDiscarded string) string {
	return "INSERT INTO blob_names (org_id, name, is_discarded, at) SELECT " + d.org() + ", value, " + isDiscarded + ", " +
		d.typed("@now", "bigint") + " FROM " + d.listed("@names", "text")
}

// marks reads three tables in one statement, and so in one snapshot.
const marks = "SELECT o.id, o.epoch, (SELECT e.epoch FROM log_epoch e), COALESCE(h.n, 0)" +
	" FROM organisations o LEFT JOIN log_heads h ON h.org_id = "

// seatCounts reads two tables in one statement, and so in one snapshot.
func seatCounts(members, invitations string) string {
	return "SELECT org_id, COUNT(*) FILTER (WHERE role = 'OWNER'), COUNT(*), 0 FROM memberships" +
		" WHERE " + members + " AND removed_at IS NULL GROUP BY org_id" +
		" UNION ALL SELECT org_id, 0, 0, COUNT(*) FROM invitations WHERE " + invitations +
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
var lockHead = perDialect(func(d dialect) statement {
	return parse("SELECT h.n, h.floor, (SELECT e.epoch FROM log_epoch e)," +
		" h." + strings.Join(usageColumns[:], ", h.") + ", h.counted_n" +
		" FROM log_heads h WHERE h.org_id = @org" + d.forUpdate())
})

// beginLog inserts a log's head if the organisation exists, which it decides in the statement to save
// a round trip.
var beginLog = parse("INSERT INTO log_heads (org_id, n, floor)" +
	" SELECT id, 0, 0 FROM organisations WHERE id = @org" + onConflictDoNothing)

// storeHead stores the head of a log with the usage (see lockedHead.set).
var storeHead = parse(updateHead)

var updateHead = "UPDATE log_heads SET n = @n, counted_n = @counted_n, " +
	join(headTable.fieldsOf(usageColumns[:]...), "% = @%") + " WHERE org_id = @org"

// insertChanges inserts all entries from one parameter, on Postgres (see insertRows), and updates
// the head and one object, which saves two round trips.
var insertChanges = parse("WITH head AS (" + updateHead + ")," +
	" moved AS (UPDATE objects SET n = @n WHERE org_id = @org AND id = @moved) " +
	changeTable.insertFrom(onPostgres, "@rows", changeTable.rest))

// numberObjects sets the numbers of many objects from one parameter. On SQLite an UPDATE with a join
// starts from the table, and reads the parameter for each of its rows.
var numberObjects = func() [2]statement {
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
	return [2]statement{
		onSQLite: parse(objectTable.insertInto(onSQLite, join(objectTable.rest, "%"), strings.Join(list, ", ")) +
			" FROM " + onSQLite.records("@rows", objectNumber) + " CROSS JOIN objects x WHERE x.org_id = @org AND x.id = v.id" +
			objectTable.onConflictUpdate(objectTable.fieldsOf("n"))),
		onPostgres: parse("UPDATE objects SET n = v.n FROM " + onPostgres.records("@rows", objectNumber) +
			" WHERE objects.org_id = @org AND objects.id = v.id"),
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
var oldestEntries = parse("SELECT p.org_id, MAX(p.n) FROM (SELECT c.org_id, c.n FROM changes c WHERE c.at < @before" +
	" ORDER BY c.at LIMIT @entries) AS p GROUP BY p.org_id ORDER BY p.org_id LIMIT @logs")

// reserve grants what quota.Account.Grant grants, at an epoch of the organisation; a missing
// account is an empty one. The conflict is decided on the latest committed row, which takes
// one statement. On Postgres it also stores the lease.
var reserve = perDialect(func(d dialect) statement { return parse(reserveText(d)) })

func reserveText(d dialect) string {
	const left = "@limit - quota_accounts.used - quota_accounts.reserved"
	granted := d.text("MIN", "LEAST") + "(excluded.granted, " + left + ")"
	most := d.typed("@most", "bigint")
	account := "INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT " + d.org() + ", " +
		d.typed("@user", "uuid") + ", " + d.typed("@day", "bigint") + ", 0, " + most + ", " + most +
		" FROM organisations o WHERE o.id = @org AND o.epoch = @epoch AND NOT " + leaseExists +
		" ON CONFLICT (org_id, user_id, day) DO UPDATE SET reserved = quota_accounts.reserved + " + granted +
		", granted = " + granted + " WHERE " + left + " > @input RETURNING granted"
	if d == onSQLite {
		return account
	}
	return "WITH account AS (" + account + ")," +
		" lease AS (INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at)" +
		" SELECT @org, @user, @day, @id, a.granted, @expires_at::bigint FROM account a) SELECT a.granted FROM account a"
}

const leaseExists = "EXISTS (SELECT 1 FROM quota_leases l" +
	" WHERE l.org_id = @org AND l.user_id = @user AND l.day = @day AND l.id = @id)"

// reserveAll reserves sums of accounts that have them left. The accounts come in the order in which they are to
// be locked. On Postgres it also stores the leases.
var reserveAll = perDialect(func(d dialect) statement { return parse(reserveAllText(d)) })

func reserveAllText(d dialect) string {
	limit := d.typed("@limit", "bigint")
	accounts := accountTable.insertInto(d, "user_id, day, used, reserved, granted", "v.user_id, v.day, 0, v.reserved, 0") +
		" FROM " + d.records("@sums", reservedSums) + " WHERE " + ofEpoch + " AND v.reserved <= " + limit +
		accountTable.onConflictAdd("reserved") +
		" WHERE quota_accounts.used + quota_accounts.reserved + excluded.reserved <= " + limit + " RETURNING user_id"
	if d == onSQLite {
		return accounts
	}
	return "WITH account AS (" + accounts + "), lease AS (" + leaseTable.insertFrom(d, "@rows", reservedLeases) +
		" AND v.user_id IN (SELECT a.user_id FROM account a)) SELECT a.user_id::text FROM account a"
}

// reserveAsync and reserveAllAsync are statements on Postgres whose commit does not wait for the disk.
var (
	reserveAsync    = parse(reserveText(onPostgres) + asyncCommit)
	reserveAllAsync = parse(reserveAllText(onPostgres) + asyncCommit)
)

const asyncCommit = " WHERE set_config('synchronous_commit', 'off', true) = 'off'"

// addLease and addLeases store the leases of a reservation on SQLite.
var (
	addLease = parse("INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at)" +
		" VALUES (@org, @user, @day, @id, @tokens, @expires_at)")
	addLeases = leaseTable.insertsRecords(reservedLeases, "")
)

// leaseKnown returns whether the organisation has a lease.
var leaseKnown = parse("SELECT " + leaseExists + " FROM organisations o WHERE o.id = @org")

// Statements about leases or accounts of all organisations: selections
// are of one tenant, and these take rows of many in one round trip.
// Those that lock are for Postgres only.
var (
	lockAccounts, lockLeases = accountTable.lockRecords(leaseKeys), leaseTable.lockRecords(leaseKeys)

	extendLeases = perDialect(func(d dialect) statement {
		return parse("UPDATE quota_leases SET expires_at = @until FROM " + d.records("@keys", leaseKeys) +
			" WHERE " + leaseTable.sameKey())
	})
	deleteExpired = perDialect(func(d dialect) statement {
		return parse("DELETE FROM quota_leases WHERE expires_at <= @now AND (org_id, user_id, day, id) IN" +
			" (SELECT v.org_id, v.user_id, v.day, v.id FROM " + d.records("@keys", leaseKeys) + ")" +
			" RETURNING org_id, user_id, day, tokens")
	})
	returnTokens = perDialect(func(d dialect) statement {
		return parse("UPDATE quota_accounts SET reserved = quota_accounts.reserved - v.tokens" +
			" FROM " + d.records("@sums", returnedFields) + " WHERE " + accountTable.sameKey())
	})
)

// lockRecords returns the statement that locks the rows with the keys of a parameter made by records, in their order.
func (t *table) lockRecords(keys []field) statement {
	return parse("SELECT 1 FROM " + t.name + " JOIN " + onPostgres.records("@keys", keys) + " ON " + t.sameKey() +
		" ORDER BY " + join(keysOf(t.fields), t.name+".%") + onPostgres.forUpdate())
}

// settledAccounts are the fields of accounts that Settle is given.
var settledAccounts = accountTable.fieldsOf("user_id", "day", "used")

// settleAll is Ledger.Settle on Postgres in one statement instead of nine. Rows are inserted in
// the order of their keys; accounts and then their leases are locked in that order before they
// change, since a join returns them in any order. Its result is that of the last part: no rows
// if the organisation does not exist or an id is taken. Postgres expects one row of
// keys because of the condition on their organisation, and so looks up each; of rows of a parameter alone it
// expects a hundred, for which it would read all leases of the organisation, also dead ones. OFFSET does the
// same for entries. settleEntries and then settleOthers do the same on SQLite.
var settleAll, settleEntries, settleOthers = func() (all, entries statement, others [5]statement) {
	const orgExists = "EXISTS (SELECT 1 FROM organisations o WHERE o.id = @org)"
	insertEntries := func(d dialect) string { return entryTable.insertFrom(d, "@entries", entryTable.rest) }
	addTo := func(d dialect, t *tenantTable, sums, condition string) string {
		return t.insertFrom(d, sums, t.rest) + condition + t.onConflictAdd("input", "output", "requests")
	}
	addToAccounts := func(d dialect, held, condition string) string {
		return accountTable.insertInto(d, "user_id, day, used, reserved, granted",
			"v.user_id, v.day, v.used, 0, COALESCE(("+held+" AND l.user_id = v.user_id AND l.day = v.day), 0)") +
			" FROM " + d.records("@accounts", settledAccounts) + " WHERE 1 = 1" + condition +
			accountTable.onConflictAdd("used") + ", reserved = quota_accounts.reserved - excluded.granted"
	}

	const d, isReady = onPostgres, " AND EXISTS (SELECT 1 FROM ready)"
	all = parse("WITH keys AS MATERIALIZED (SELECT v.user_id, v.day, v.id FROM " + d.records("@leases", leaseKeys) +
		" WHERE v.org_id = @org)," +
		" ready AS MATERIALIZED (SELECT 1 WHERE " + orgExists + " AND NOT EXISTS (SELECT 1 FROM keys v CROSS JOIN LATERAL" +
		" (SELECT 1 FROM usage_entries x WHERE x.org_id = @org AND x.id = v.id OFFSET 0) AS taken))," +
		" entries AS (" + insertEntries(d) + isReady + ")," +
		" user_models AS (" + addTo(d, userModelTable, "@user_models", isReady) + ")," +
		" users AS (" + addTo(d, userSumTable, "@users", isReady) + ")," +
		" models AS (" + addTo(d, modelSumTable, "@models", isReady) + ")," +
		" locked AS MATERIALIZED (SELECT 1 FROM quota_accounts a JOIN keys v" +
		" ON a.org_id = @org AND a.user_id = v.user_id AND a.day = v.day" +
		" ORDER BY a.user_id, a.day" + d.forUpdate() + " OF a)," +
		" held AS MATERIALIZED (SELECT l.user_id, l.day, l.id FROM quota_leases l JOIN keys v" +
		" ON l.org_id = @org AND l.user_id = v.user_id AND l.day = v.day AND l.id = v.id" +
		" WHERE (SELECT COUNT(*) FROM locked) >= 0" + isReady +
		" ORDER BY l.user_id, l.day, l.id" + d.forUpdate() + " OF l)," +
		" ended AS (DELETE FROM quota_leases l USING held h" +
		" WHERE l.org_id = @org AND l.user_id = h.user_id AND l.day = h.day AND l.id = h.id" +
		" RETURNING l.user_id, l.day, l.tokens) " +
		addToAccounts(d, "SELECT SUM(l.tokens)::bigint FROM ended l WHERE 1 = 1", isReady))

	leases := onSQLite.records("@leases", leaseKeys)
	entries = parse(insertEntries(onSQLite) + " AND " + orgExists + " AND NOT EXISTS" +
		" (SELECT 1 FROM usage_entries x WHERE x.org_id = @org AND x.id IN (SELECT v.id FROM " + leases + "))")
	ended := "l.org_id = @org AND (l.user_id, l.day, l.id) IN (SELECT v.user_id, v.day, v.id FROM " + leases + ")"
	others = [5]statement{
		parse(addToAccounts(onSQLite, "SELECT SUM(l.tokens) FROM quota_leases l WHERE "+ended, "")),
		parse("DELETE FROM quota_leases AS l WHERE " + ended),
		parse(addTo(onSQLite, userModelTable, "@user_models", "")),
		parse(addTo(onSQLite, userSumTable, "@users", "")),
		parse(addTo(onSQLite, modelSumTable, "@models", "")),
	}
	return all, entries, others
}()
