package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"collab/domain/fault"
)

// partitionedTables are the tables that Partition divides: those that grow with every day, and of
// which requests add records far more often than they read any.
var partitionedTables = []string{"usage_entries", "task_history", "changes"}

// partitions is how many partitions a table is divided into. A statement that reads one of them
// locks all of them first, as its plan is for any organisation.
const partitions = 8

// copiedBlocks is how many blocks of 8 KiB are copied in one transaction, which holds back changes
// of their rows.
const copiedBlocks = 64

// partitionLock is how long Partition waits for a lock: it needs two in one transaction.
const partitionLock = 200 * time.Millisecond

// Partition replaces partitionedTables on Postgres by tables of the same names that are partitioned
// by hash of the organisation, while servers of any release read and write them. Calling it again
// continues after an interruption, and does nothing when all is done. It calls report with the rows
// of a table that it has copied so far, and once with all and done when the table is replaced.
//
// A trigger repeats every change of the table in the new one; meanwhile the rows are copied. Rows
// that other transactions have locked are left for another pass, so that the copy waits for none of
// them. When both are equal, the names are swapped.
func (db *DB) Partition(ctx context.Context, report func(table string, rows int64, done bool)) (err error) {
	if db.dialect != onPostgres {
		return fault.New(fault.Invalid, "Only tables on Postgres are partitioned")
	}
	m, err := db.migrator(ctx)
	if err != nil {
		return failed(ctx, err, "Database")
	}
	defer func() { err = errors.Join(err, m.close()) }()
	conn, err := m.pool.Conn(ctx)
	if err == nil {
		defer conn.Close()
		err = sessionLocker{}.SessionLock(ctx, conn)
	}
	if err == nil {
		// A crash of the database may undo copies, which the next call finds missing.
		_, err = conn.ExecContext(ctx, fmt.Sprintf(withoutTimeouts, false)+"; SET synchronous_commit = off; SET jit = off")
	}
	for _, name := range partitionedTables {
		if err == nil {
			p := partitioning{db: db, conn: conn, table: name, names: strings.NewReplacer(
				"{table}", name, "{next}", name+"_partitioned", "{old}", name+"_unpartitioned", "{mirror}", name+"_mirror")}
			err = p.run(ctx, func(rows int64, done bool) { report(name, rows, done) })
		}
	}
	return failed(ctx, err, "Table")
}

// partitioning replaces one table. In its statements {table} is the table, {next} the partitioned one until the swap,
// {old} the replaced one after it, and {mirror} the trigger that repeats changes, and its function.
type partitioning struct {
	db    *DB
	conn  *sql.Conn
	table string
	names *strings.Replacer
}

func (p *partitioning) run(ctx context.Context, report func(rows int64, done bool)) error {
	var isPartitioned, isBegun bool
	var owner, user string
	err := p.scan(ctx, `SELECT relkind = 'p',
			EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = c.oid AND tgname = '{mirror}'),
			pg_get_userbyid(relowner), current_user
		FROM pg_class c WHERE oid = '{table}'::regclass`, &isPartitioned, &isBegun, &owner, &user)
	switch {
	case err != nil:
		return err
	case isPartitioned:
		return p.dropOld(ctx)
	case owner != user:
		// The new table would be the user's, and servers of other roles could not write it.
		return fault.New(fault.Invalid, "The table %s belongs to %s, not to %s: partition it as its owner", p.table, owner, user)
	}
	if isBegun {
		// A migration may have changed the table since then.
		if isBegun, err = p.isSame(ctx); err == nil && !isBegun {
			err = p.exec(ctx, "DROP TRIGGER {mirror} ON {table}", "DROP TABLE {next}")
		}
	}
	if err == nil && !isBegun {
		err = p.create(ctx)
	}
	var rows int64
	if err == nil {
		rows, err = p.copyAll(ctx, func(rows int64) { report(rows, false) })
	}
	if err == nil {
		err = p.addReferences(ctx)
	}
	if err == nil {
		err = p.swap(ctx)
	}
	if err == nil {
		report(rows, true)
		err = p.dropOld(ctx)
	}
	return err
}

// exec runs statements in a transaction, and again while other transactions hold a table that they
// lock.
func (p *partitioning) exec(ctx context.Context, statements ...string) error {
	statements = append([]string{
		fmt.Sprintf("SET LOCAL lock_timeout = %d", partitionLock.Milliseconds()), "SET LOCAL synchronous_commit = on",
	}, statements...)
	return p.db.retryLocked(ctx, p.conn, func() error {
		tx, err := p.conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		for _, s := range statements {
			if _, err := tx.ExecContext(ctx, p.names.Replace(s)); err != nil {
				return fmt.Errorf("%w in %s", err, s)
			}
		}
		return tx.Commit()
	})
}

// scan scans the only row of a query.
func (p *partitioning) scan(ctx context.Context, query string, to ...any) error {
	return p.conn.QueryRowContext(ctx, p.names.Replace(query)).Scan(to...)
}

// texts returns the first column of a query's rows.
func (p *partitioning) texts(ctx context.Context, query string) (all []string, err error) {
	err = querySQL(ctx, p.conn, p.names.Replace(query), nil, func(rows scanner) error {
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			all = append(all, text)
		}
		return rows.Err()
	})
	return all, err
}

// isSame reports whether the new table has the columns, checks and indexes of the old one, and no
// foreign key that the old one lacks.
func (p *partitioning) isSame(ctx context.Context) (bool, error) {
	// Lines describe the table %s; foreign keys are those that the new table or its partitions have.
	const lines = `SELECT concat_ws(' ', row_number() OVER (ORDER BY attnum), attname, format_type(atttypid, atttypmod),
				attnotnull, pg_get_expr(adbin, adrelid)) AS line
			FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
			WHERE attrelid = '%[1]s'::regclass AND attnum > 0 AND NOT attisdropped
		UNION SELECT concat_ws(' ', conname, pg_get_constraintdef(oid))
			FROM pg_constraint WHERE conrelid = '%[1]s'::regclass AND contype = 'c'
		UNION SELECT concat_ws(' ', r.conname, replace(pg_get_constraintdef(r.oid), ' NOT VALID', ''))
			FROM pg_constraint r
			WHERE contype = 'f' AND (conrelid = '%[1]s'::regclass
				OR conrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = '%[1]s'::regclass))
			AND EXISTS (SELECT 1 FROM pg_constraint n WHERE n.conname = r.conname AND (n.conrelid = '{next}'::regclass
				OR n.conrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = '{next}'::regclass)))
		UNION SELECT concat_ws(' ', regexp_replace(relname, '_partitioned$', ''), indisunique, indisprimary,
				substring(pg_get_indexdef(indexrelid) FROM 'USING .*'))
			FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = '%[1]s'::regclass
		ORDER BY line`
	got, err := p.texts(ctx, fmt.Sprintf(lines, "{next}"))
	if err != nil {
		return false, err
	}
	want, err := p.texts(ctx, fmt.Sprintf(lines, "{table}"))
	return slices.Equal(got, want), err
}

// create creates the new table, with the columns, indexes and privileges of the old one, and the
// trigger that repeats changes in it. It has no foreign keys yet: a copied row would wait for a
// change of the row that it refers to. Until the swap, no autovacuum holds the locks that it needs.
func (p *partitioning) create(ctx context.Context) error {
	columns, err := p.texts(ctx, `SELECT quote_ident(attname) FROM pg_attribute
		WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)
	if err != nil {
		return err
	}
	statements := []string{
		"CREATE TABLE {next} (LIKE {table} INCLUDING ALL EXCLUDING INDEXES) PARTITION BY HASH (org_id)",
	}
	for i := range partitions {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s PARTITION OF {next}"+
			" FOR VALUES WITH (MODULUS %d, REMAINDER %d) WITH (autovacuum_enabled = false)", p.partition(i), partitions, i))
	}
	indexes, err := p.texts(ctx, `SELECT CASE WHEN indisprimary
			THEN format('ALTER TABLE {next} ADD CONSTRAINT %I PRIMARY KEY %s',
				i.relname || '_partitioned', substring(pg_get_indexdef(i.oid) FROM '\(.*'))
			ELSE format('CREATE %sINDEX %I ON {next} %s', CASE WHEN indisunique THEN 'UNIQUE ' END,
				i.relname || '_partitioned', substring(pg_get_indexdef(i.oid) FROM 'USING .*')) END
		FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = '{table}'::regclass ORDER BY i.oid`)
	if err != nil {
		return err
	}
	grants, err := p.texts(ctx, `SELECT format('GRANT %s ON {next} TO %s', privilege_type,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
		FROM pg_class, aclexplode(relacl) WHERE oid = '{table}'::regclass AND grantee <> relowner`)
	if err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	return p.exec(ctx, slices.Concat(statements, indexes, grants, []string{
		"CREATE OR REPLACE FUNCTION {mirror}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN" +
			" IF TG_OP <> 'INSERT' THEN DELETE FROM {next} n WHERE (" + p.key("n.") + ") = (" + p.key("OLD.") + "); END IF;" +
			" IF TG_OP <> 'DELETE' THEN INSERT INTO {next} (" + list + ")" +
			" VALUES (NEW." + strings.Join(columns, ", NEW.") + "); END IF;" +
			" RETURN NULL; END $$",
		"CREATE TRIGGER {mirror} AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {mirror}()",
	})...)
}

func (p *partitioning) partition(i int) string { return fmt.Sprintf("%s_p%d", p.table, i) }

// key returns the columns of the primary key, each after a prefix.
func (p *partitioning) key(prefix string) string {
	return join(keysOf(tableNamed(p.table).all), prefix+"%")
}

// copyPass copies the rows that the new table lacks, block by block, except those that other
// transactions have locked. A row is locked until its copy is committed, so that the trigger repeats
// a change after it. A row that changes during the pass is the trigger's.
func (p *partitioning) copyPass(ctx context.Context, report func(rows int64)) error {
	// Blocks are found by number and rows by key, whatever the statistics say.
	const byNumberAndKey = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
	if _, err := p.conn.ExecContext(ctx, byNumberAndKey); err != nil {
		return err
	}
	var blocks int
	const size = "SELECT pg_relation_size('{table}'::regclass) / current_setting('block_size')::int"
	if err := p.scan(ctx, size, &blocks); err != nil {
		return err
	}
	copyBlocks := p.names.Replace("WITH held AS MATERIALIZED (" +
		"SELECT t.* FROM {table} t WHERE t.ctid >= $1::tid AND t.ctid < $2::tid" +
		" AND NOT EXISTS (SELECT 1 FROM {next} n WHERE (" + p.key("n.") + ") = (" + p.key("t.") + "))" +
		" FOR SHARE OF t SKIP LOCKED)" +
		" INSERT INTO {next} SELECT * FROM held ON CONFLICT DO NOTHING")
	var rows int64
	for from := 0; from < blocks; from += copiedBlocks {
		var n int64
		err := p.db.retryLocked(ctx, p.conn, func() error {
			start, end := fmt.Sprintf("(%d,0)", from), fmt.Sprintf("(%d,0)", from+copiedBlocks)
			done, err := p.conn.ExecContext(ctx, copyBlocks, start, end)
			if err == nil {
				n, err = done.RowsAffected()
			}
			return err
		})
		if err != nil {
			return err
		}
		rows += n
		report(rows)
	}
	_, err := p.conn.ExecContext(ctx, "RESET enable_seqscan; RESET enable_hashjoin; RESET enable_mergejoin")
	return err
}

// copyAll copies rows until both tables are equal, and returns how many there are. It also gathers
// the statistics that plans need.
func (p *partitioning) copyAll(ctx context.Context, report func(rows int64)) (rows int64, err error) {
	// Both tables are read at one moment.
	const digest = "(SELECT COUNT(*) AS rows, SUM(hashtextextended(t::text, 0)::numeric) AS sum FROM %s t)"
	compare := fmt.Sprintf("SELECT a.rows, a IS NOT DISTINCT FROM b FROM "+digest+" a, "+digest+" b", "{table}", "{next}")
	isEqual := false
	for pass := 1; !isEqual; pass++ {
		if pass == attempts {
			return 0, errors.New(p.names.Replace("the tables {table} and {next} differ"))
		}
		if err := p.copyPass(ctx, report); err != nil {
			return 0, err
		}
		if err := p.scan(ctx, compare, &rows, &isEqual); err != nil {
			return 0, err
		}
	}
	// No writer waits behind its lock.
	return rows, p.exec(ctx, "SET LOCAL lock_timeout = 0", "ANALYZE {next}")
}

// addReferences adds the foreign keys of the old table to the new one. They are validated without a
// lock that stops writes, which is possible for partitions alone; the table then takes over theirs.
func (p *partitioning) addReferences(ctx context.Context) error {
	found, err := p.texts(ctx, `SELECT concat_ws('|', quote_ident(conname), confrelid::regclass, pg_get_constraintdef(oid))
		FROM pg_constraint r WHERE conrelid = '{table}'::regclass AND contype = 'f'
		AND NOT EXISTS (SELECT 1 FROM pg_constraint n WHERE n.conrelid = '{next}'::regclass AND n.conname = r.conname)`)
	if err != nil {
		return err
	}
	for _, text := range found {
		parts := strings.SplitN(text, "|", 3)
		name, lock, definition := parts[0], "LOCK TABLE "+parts[1]+" IN SHARE ROW EXCLUSIVE MODE", parts[2]
		// The table that is referred to is locked first, as by statements that change both.
		add := []string{lock}
		for i := range partitions {
			alter := "ALTER TABLE " + p.partition(i)
			add = append(add, alter+" DROP CONSTRAINT IF EXISTS "+name,
				alter+" ADD CONSTRAINT "+name+" "+definition+" NOT VALID")
		}
		if err = p.exec(ctx, add...); err != nil {
			return err
		}
		for i := range partitions {
			if err = p.exec(ctx, "ALTER TABLE "+p.partition(i)+" VALIDATE CONSTRAINT "+name); err != nil {
				return err
			}
		}
		if err = p.exec(ctx, lock, "ALTER TABLE {next} ADD CONSTRAINT "+name+" "+definition); err != nil {
			return err
		}
	}
	return err
}

// swap renames both tables and their indexes. Servers plan their statements on the names anew.
func (p *partitioning) swap(ctx context.Context) error {
	renames, err := p.texts(ctx, `SELECT format('ALTER INDEX %I RENAME TO %I; ALTER INDEX %I RENAME TO %I',
			relname, relname || '_unpartitioned', relname || '_partitioned', relname)
		FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = '{table}'::regclass`)
	if err != nil {
		return err
	}
	for i := range partitions {
		renames = append(renames, "ALTER TABLE "+p.partition(i)+" RESET (autovacuum_enabled)")
	}
	return p.exec(ctx, append([]string{
		"LOCK TABLE {table}, {next} IN ACCESS EXCLUSIVE MODE",
		"DROP TRIGGER {mirror} ON {table}",
		"ALTER TABLE {table} RENAME TO {old}",
		"ALTER TABLE {next} RENAME TO {table}",
	}, renames...)...)
}

// dropOld removes what is left of the old table.
func (p *partitioning) dropOld(ctx context.Context) error {
	return p.exec(ctx, "DROP TABLE IF EXISTS {old}", "DROP FUNCTION IF EXISTS {mirror}()")
}
