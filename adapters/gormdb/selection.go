package gormdb

import (
	"context"
	"reflect"
	"slices"
	"sort"
	"strings"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
)

// onConflictDoNothing makes an INSERT skip a row whose key is taken: an error would abort a
// transaction on Postgres.
const onConflictDoNothing = " ON CONFLICT DO NOTHING"

// selection describes rows of a table for statements. Its methods that narrow it return a
// copy.
type selection struct {
	*table
	db           *gorm.DB
	org          id.Org // the organisation of the rows
	crossTenants bool   // rows of all organisations: the organisation of each is read as well
	keyed        bool   // the condition is the primary key
	where        string
	args         []any
	fields       []field // to read; nil: all
	from         string  // after FROM; empty: the table
	columns      string  // to read besides the fields
	dests        []any   // the destinations of columns
	order        string
	limit        int
	lock         string
}

// key narrows the selection to the row with the primary key, which is given without the
// organisation.
func (s selection) key(values ...any) selection {
	if s.crossTenants {
		return s.filter(s.keys, values...)
	}
	s.where, s.keyed, s.args = s.byKey, true, slices.Concat(s.args, values)
	return s
}

// filter adds a condition to the previous ones.
func (s selection) filter(condition string, args ...any) selection {
	if condition = "(" + condition + ")"; s.where != "" {
		condition = s.where + " AND " + condition
	}
	s.where, s.keyed, s.args = condition, false, slices.Concat(s.args, args)
	return s
}

// matching adds the condition that a column or an expression has a value; empty is any.
func (s selection) matching(column, value string) selection {
	if value == "" {
		return s
	}
	return s.filter(column+" = ?", value)
}

// whereIn adds the condition that a column has one of the values.
func (s selection) whereIn(column, values string) selection {
	return s.filter(dialectOf(s.db).in(s.name+"."+column, "?", s.fieldsOf(column)[0].kind), values)
}

// in adds the condition that a column has one of the values that another selection reads.
func (s selection) in(column string, of selection) selection {
	c := of.command()
	return s.filter(column+" IN ("+c.text+")", c.args...)
}

// after adds the condition that rows are after a position in the order of the columns.
func (s selection) after(columns string, values ...any) selection {
	return s.filter("("+columns+") > ("+strings.Repeat("?, ", len(values)-1)+"?)", values...)
}

// page orders the rows and selects the first; limit 0 is all.
func (s selection) page(order string, limit int) selection {
	s.order, s.limit = order, limit
	return s
}

// scanAtMost narrows a selection whose rows are in an order to the first that meet another condition;
// limit 0 is all. The rows are read in that order, until there are so many or to the selection's end.
func (s selection) scanAtMost(limit int, condition string, args ...any) selection {
	text := "SELECT " + s.name + ".* FROM " + s.source()
	var page []any
	if s.order != "" {
		text, page = dialectOf(s.db).page(text, s.order, s.limit)
	}
	s.from, s.where, s.order, s.keyed = "("+text+") "+s.name, condition, "", false
	s.args = slices.Concat(s.args, page, args)
	if limit > 0 {
		s.where, s.args = s.where+" LIMIT ?", append(s.args, limit)
	}
	return s
}

// source returns what follows FROM: the tables and the condition.
func (s selection) source() string {
	from := s.name
	if s.from != "" {
		from = s.from
	}
	if s.where == "" {
		return from
	}
	return from + " WHERE " + s.where
}

// claim selects and locks the first rows in the order, skipping rows that another
// transaction has locked.
func (s selection) claim(order string, limit int) selection {
	s.lock = " ORDER BY " + order + " LIMIT ?" + dialectOf(s.db).text("", " FOR NO KEY UPDATE SKIP LOCKED")
	s.args = slices.Concat(s.args, []any{limit})
	return s
}

// join adds tables, and columns of them that are read into the destinations.
func (s selection) join(from, columns string, dests ...any) selection {
	s.from, s.columns, s.dests = from, columns, dests
	return s
}

// read restricts the fields to read to the columns.
func (s selection) read(columns ...string) selection {
	s.fields = s.fieldsOf(columns...)
	return s
}

// forUpdate locks the rows against other writers until the transaction ends.
func (s selection) forUpdate() selection {
	s.lock = dialectOf(s.db).forUpdate()
	return s
}

// newCommand returns a command whose text has the selection's condition.
func (s selection) newCommand(text string, args []any) command {
	tenant := selectedTenancy
	if s.table.org == nil {
		tenant = sharedTenancy
	} else if s.crossTenants {
		tenant = crossTenancy
	}
	return command{text: text, args: args, tenant: tenant}
}

// command returns the SELECT.
func (s selection) command() command {
	d := dialectOf(s.db)
	if s.keyed && s.fields == nil && s.columns == "" && s.from == "" {
		return s.newCommand(s.getByKey[d]+s.lock, s.args)
	}
	list := s.list[d]
	if s.fields != nil {
		list = s.selected(d, s.fields)
	}
	if s.crossTenants {
		list = strings.TrimSuffix(s.name+".org_id, "+list, ", ")
	}
	text := "SELECT " + list + s.columns + " FROM " + s.source()
	if s.order == "" {
		return s.newCommand(text+s.lock, s.args)
	}
	text, limit := d.page(text, s.order, s.limit)
	return s.newCommand(text+s.lock, slices.Concat(s.args, limit))
}

// each calls fn with the records as they are read. An error of fn ends it and is returned
// unchanged.
func each[R, T any](ctx context.Context, s selection, record func(*R) (T, error), fn func(T) error) error {
	s.checkRow(reflect.TypeFor[R]())
	var r R
	return eachRow(ctx, s.db, s.what, s.command(), s.dest(&r), func() error {
		v, err := record(&r)
		if err != nil {
			return failed(ctx, err, s.what)
		}
		return fn(v)
	})
}

// checkRow panics if rows of the table have another type, to whose fields the columns would
// be assigned wrongly.
func (s selection) checkRow(row reflect.Type) {
	if row != s.row {
		panic(s.name + " has rows of another type")
	}
}

// dest returns the destinations of the fields in a row, and then those of columns.
func (s selection) dest(row any) []any {
	fields := s.reads
	if s.fields != nil {
		fields = s.fields
	}
	if s.crossTenants {
		fields = append([]field{*s.table.org}, fields...)
	} else if s.table.org != nil {
		s.setOrg(row, s.org)
	}
	return append(dest(row, fields), s.dests...)
}

// all returns the records, for bounded lists.
func all[R, T any](ctx context.Context, s selection, record func(*R) (T, error)) (found []T, err error) {
	err = each(ctx, s, record, func(v T) error {
		found = append(found, v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// getAll returns the records with the ids, in the order of the ids.
func getAll[R, T any, K ~string](ctx context.Context, s selection, record func(*R) (T, error), key func(T) K, given []K) ([]T, error) {
	places := make(map[K]int, len(given))
	for i, k := range given {
		places[k] = i
	}
	found, err := all(ctx, s.whereIn("id", list(dialectOf(s.db), validIDs(given))), record)
	sort.Slice(found, func(i, j int) bool { return places[key(found[i])] < places[key(found[j])] })
	return found, err
}

// find returns the only record, if there is any.
func find[R, T any](ctx context.Context, s selection, record func(*R) (T, error)) (T, bool, error) {
	return findWith(ctx, s, record, s.command())
}

// findWith is find with a command that returns the columns of the selection.
func findWith[R, T any](ctx context.Context, s selection, record func(*R) (T, error), c command) (v T, found bool, err error) {
	s.checkRow(reflect.TypeFor[R]())
	var r R
	if found, err = oneRow(ctx, s.db, s.what, c, s.dest(&r)...); found && err == nil {
		v, err = record(&r)
	}
	return v, found, failed(ctx, err, s.what)
}

// get returns the only record, or NotFound.
func get[R, T any](ctx context.Context, s selection, record func(*R) (T, error)) (T, error) {
	return getWith(ctx, s, record, s.command())
}

// getWith is get with a command that returns the columns of the selection.
func getWith[R, T any](ctx context.Context, s selection, record func(*R) (T, error), c command) (T, error) {
	v, found, err := findWith(ctx, s, record, c)
	return v, required(found, err, s.what)
}

// count returns the number of rows.
func (s selection) count(ctx context.Context) (n int, err error) {
	_, err = oneRow(ctx, s.db, s.what, s.newCommand("SELECT COUNT(*) FROM "+s.source(), s.args), &n)
	return n, err
}

// lockKeys prevents the deletion of the rows until the transaction ends: a foreign key
// violation would abort it on Postgres. It returns NotFound if there are fewer than want.
func (s selection) lockKeys(ctx context.Context, want int) error {
	n := 0
	text := "SELECT 1 FROM " + s.name + " WHERE " + s.where + " ORDER BY " + s.name + ".id" + dialectOf(s.db).text("", " FOR KEY SHARE")
	err := eachRow(ctx, s.db, s.what, s.newCommand(text, s.args), []any{new(int)}, func() error {
		n++
		return nil
	})
	return required(n >= want, err, s.what)
}

// add inserts a row. It returns Conflict for a taken key, without aborting the transaction.
func (s selection) add(ctx context.Context, row any) error {
	n, err := s.insert(ctx, row, onConflictDoNothing)
	if err == nil && n == 0 {
		err = fault.New(fault.Conflict, "%s is there already", s.what)
	}
	return err
}

// insertRecords runs a statement of insertsRecords for the fields of rows.
func insertRecords[R any](ctx context.Context, s selection, insert [2]statement, rows []R, fields []field) (int64, error) {
	s.checkRow(reflect.TypeFor[R]())
	c := insert[dialectOf(s.db)].shared()
	if s.org != "" {
		c = insert[dialectOf(s.db)].of(s.org)
	}
	return exec(ctx, s.db, s.what, c.set("rows", records(rows, fields)))
}

// insertRows inserts rows. Insert is the statement of insertsRecords for all fields on Postgres, and conflict its end.
// SQLite takes half the processor time for a statement for each row.
func insertRows[R any](ctx context.Context, s selection, insert [2]statement, conflict string, rows []R) error {
	if dialectOf(s.db) == onPostgres {
		_, err := insertRecords(ctx, s, insert, rows, s.rest)
		return err
	}
	return insertEach(ctx, s, conflict, rows)
}

// insertEach inserts rows by a statement for each.
func insertEach[R any](ctx context.Context, s selection, conflict string, rows []R) error {
	for i := range rows {
		if _, err := s.insert(ctx, &rows[i], conflict); err != nil {
			return err
		}
	}
	return nil
}

// put inserts a row or replaces the one with the same primary key.
func (s selection) put(ctx context.Context, row any) error {
	_, err := s.insert(ctx, row, s.onConflictUpdate(s.changes))
	return err
}

// insert inserts a row and returns how many rows it changed; conflict is its clause for a
// taken key.
func (s selection) insert(ctx context.Context, row any, conflict string) (int64, error) {
	s.checkRow(reflect.TypeOf(row).Elem())
	if s.org != "" {
		s.setOrg(row, s.org)
	}
	return exec(ctx, s.db, s.what, s.newCommand(s.insertRow+conflict, bind(row, s.table.fields, nil)))
}

// save updates the columns that can change of the row with the key. It returns
// NotFound if there is none.
func (s selection) save(ctx context.Context, row any) error {
	s.checkRow(reflect.TypeOf(row).Elem())
	args := append(bind(row, s.changes, make([]any, 0, len(s.changes)+len(s.args))), s.args...)
	text := s.putByKey
	if !s.keyed {
		text = "UPDATE " + s.name + " SET " + join(s.changes, "% = ?") + " WHERE " + s.where
	}
	return s.requireRow(exec(ctx, s.db, s.what, s.newCommand(text, args)))
}

// set updates the rows and returns their number.
func (s selection) set(ctx context.Context, sets string, args ...any) (int64, error) {
	all := append(append(make([]any, 0, len(args)+len(s.args)), args...), s.args...)
	return exec(ctx, s.db, s.what, s.newCommand("UPDATE "+s.name+" SET "+sets+" WHERE "+s.where, all))
}

// remove deletes the rows and returns their number.
func (s selection) remove(ctx context.Context) (int64, error) {
	return exec(ctx, s.db, s.what, s.newCommand("DELETE FROM "+s.name+" WHERE "+s.where, s.args))
}

// delete deletes the rows, if there are any.
func (s selection) delete(ctx context.Context) error {
	_, err := s.remove(ctx)
	return err
}

// removeEmpty deletes the only row if the conditions hold, which say that no row refers to
// it. It returns NotFound if there is no row, else Conflict with the message.
func (s selection) removeEmpty(ctx context.Context, message string, conditions ...string) error {
	empty := s
	for _, condition := range conditions {
		empty = empty.filter(condition)
	}
	n, err := empty.remove(ctx)
	if fault.Is(err, fault.NotFound) {
		// A reference was added meanwhile.
		return fault.Wrap(fault.Conflict, err, "%s", message)
	}
	if err != nil || n == 1 {
		return err
	}
	if rows, err := s.count(ctx); err != nil || rows == 0 {
		return s.requireRow(0, err)
	}
	return fault.New(fault.Conflict, "%s", message)
}

// requireRow returns NotFound if a statement changed no row.
func (s selection) requireRow(n int64, err error) error { return required(n > 0, err, s.what) }

// required returns err, or NotFound if there is none and the record was not found.
func required(found bool, err error, what string) error {
	if err == nil && !found {
		return fault.Missing(what)
	}
	return err
}

// update locks the only row and stores what fn returns for its record, in a transaction. It
// returns that record, whose times may be more precise than the stored ones.
func update[R, T any](
	ctx context.Context, c *conn, s selection, record func(*R) (T, error), row func(T) *R, fn func(T) (T, error),
) (T, error) {
	return atomically(ctx, c, func(c *conn) (v T, err error) {
		s.db = c.write
		existing, err := get(ctx, s.forUpdate(), record)
		if err != nil {
			return v, err
		}
		next, err := fn(existing)
		if err != nil {
			return v, err
		}
		r := row(next)
		if s.org != "" {
			s.setOrg(r, s.org)
		}
		if err := s.save(ctx, r); err != nil {
			return v, err
		}
		v, err = record(r)
		return v, failed(ctx, err, s.what)
	})
}

// change updates the only row and returns the new record.
func change[R, T any](ctx context.Context, s selection, record func(*R) (T, error), sets string) (T, error) {
	text := "UPDATE " + s.name + " SET " + sets + " WHERE " + s.where + " RETURNING " + s.names
	return getWith(ctx, s, record, s.newCommand(text, s.args))
}

// upsertIf inserts the row, or replaces the one with its primary key if that meets the
// condition; otherwise it returns the existing record. If that was deleted concurrently,
// upsertIf starts over.
func upsertIf[R, T any](
	ctx context.Context, s selection, r *R, record func(*R) (T, error), condition string, arg any, key ...any,
) (v T, err error) {
	text := s.insertRow + s.onConflictUpdate(s.changes) + " WHERE " + condition + " RETURNING " + s.names
	put := s.newCommand(text, append(bind(r, s.table.fields, nil), arg))
	for range attempts {
		if v, found, err := findWith(ctx, s, record, put); err != nil || found {
			return v, err
		}
		if v, found, err := find(ctx, s.key(key...), record); err != nil || found {
			return v, err
		}
	}
	return v, fault.New(fault.Unavailable, "%s is in use by too many at once", s.what)
}

// upsert finds the record by the provider's id, or adds fresh, and stores what fn returns
// for it, in a transaction that locks the record.
func upsert[R, T any](
	ctx context.Context, c *conn, s selection, provider string,
	record func(*R) (T, error), row func(T) *R, fresh T, fn func(T) (T, error),
) (T, error) {
	s = s.filter("provider_id = ?", provider)
	return atomically(ctx, c, func(c *conn) (T, error) {
		s.db = c.write
		existing, found, err := find(ctx, s.forUpdate(), record)
		if err != nil {
			return fresh, err
		}
		if !found {
			made, err := fn(fresh)
			if err != nil {
				return fresh, err
			}
			added := row(made)
			if n, err := s.insert(ctx, added, onConflictDoNothing); err != nil {
				return fresh, err
			} else if n == 1 {
				return record(added)
			}
			// A concurrent one added it, or the id is taken under another key.
			existing, found, err = find(ctx, s.forUpdate(), record)
			if err == nil && !found {
				err = fault.New(fault.Conflict, "%s is there already", s.what)
			}
			if err != nil {
				return fresh, err
			}
		}
		next, err := fn(existing)
		if err != nil {
			return fresh, err
		}
		changed := row(next)
		if err := s.save(ctx, changed); err != nil {
			return fresh, err
		}
		return record(changed)
	})
}
