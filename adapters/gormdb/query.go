package gormdb

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
)

// scanner is a row that can be read.
type scanner interface{ Scan(dest ...any) error }

// each runs a query and calls fn with its rows, which stream. Fn's error ends
// it and comes back as it is.
func each[R any](ctx context.Context, db *gorm.DB, what string, scan func(scanner) (R, error), fn func(R) error, text string, args ...any) error {
	return eachOn(ctx, db, db.Statement.ConnPool, what, scan, fn, text, args...)
}

func eachOn[R any](ctx context.Context, db *gorm.DB, pool gorm.ConnPool, what string, scan func(scanner) (R, error), fn func(R) error, text string, args ...any) error {
	rows, err := query(ctx, db, pool, text, args)
	if err != nil {
		return failed(ctx, err, what)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return failed(ctx, err, what)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
	return failed(ctx, rows.Err(), what)
}

// all runs a query and returns its rows, for lists that are small by nature.
func all[R any](ctx context.Context, db *gorm.DB, what string, scan func(scanner) (R, error), query string, args ...any) (rs []R, err error) {
	err = each(ctx, db, what, scan, func(r R) error {
		rs = append(rs, r)
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return rs, nil
}

// named runs a query for the records with the ids, and returns them in the order
// of these.
func named[K comparable, R any](ctx context.Context, db *gorm.DB, what string, scan func(scanner) (R, error), key func(R) K, ids []K, query string, args ...any) ([]R, error) {
	places := make(map[K]int, len(ids))
	for i, k := range ids {
		places[k] = i
	}
	rs, err := all(ctx, db, what, scan, query, args...)
	slices.SortFunc(rs, func(a, b R) int { return places[key(a)] - places[key(b)] })
	return rs, err
}

// row runs a query for at most one row, to its end: that is when a statement
// that writes has written.
func row[R any](ctx context.Context, db *gorm.DB, what string, scan func(scanner) (R, error), query string, args ...any) (r R, found bool, err error) {
	note := func(one R) error {
		r, found = one, true
		return nil
	}
	if _, ok := db.Dialector.(sqliteDialector); !ok {
		err = each(ctx, db, what, scan, note, query, args...)
		return r, found, err
	}
	if err := ctx.Err(); err != nil {
		return r, false, err
	}
	pool := db.Statement.ConnPool
	if p, ok := pool.(*sql.DB); ok && ctx.Done() != nil {
		c, err := p.Conn(ctx) // waits no longer than the context
		if err != nil {
			return r, false, failed(ctx, err, what)
		}
		defer c.Close()
		pool = c
	}
	err = eachOn(unwatched{ctx}, db, pool, what, scan, note, query, args...)
	return r, found, err
}

// get is row for a record that must be there.
func get[R any](ctx context.Context, db *gorm.DB, what string, scan func(scanner) (R, error), query string, args ...any) (R, error) {
	r, found, err := row(ctx, db, what, scan, query, args...)
	if err == nil && !found {
		err = fault.Missing(what)
	}
	return r, err
}

// exec runs a statement and returns how many rows it changed.
func exec(ctx context.Context, db *gorm.DB, what, statement string, args ...any) (int64, error) {
	n, err := change(ctx, db, statement, args)
	return n, failed(ctx, err, what)
}

// add inserts a row; one whose key is taken is a Conflict that leaves the
// transaction usable.
func add(ctx context.Context, db *gorm.DB, what string, r any) error {
	tx := db.WithContext(ctx).Clauses(nothing).Create(r)
	if err := failed(ctx, tx.Error, what); err != nil {
		return err
	}
	if tx.RowsAffected == 0 {
		return fault.New(fault.Conflict, "%s is there already", what)
	}
	return nil
}

func scanInt(s scanner) (n int64, err error) {
	err = s.Scan(&n)
	return n, err
}

func scanBool(s scanner) (b bool, err error) {
	err = s.Scan(&b)
	return b, err
}

func scanText[T ~string](s scanner) (T, error) {
	var text string
	err := s.Scan(&text)
	return T(text), err
}

// place is an id to compare others with. One that is no UUID, which Postgres
// cannot compare, stands before all.
func place[T ~string](after T) string {
	if _, ok := id.Parse[T](string(after)); !ok {
		return "00000000-0000-0000-0000-000000000000"
	}
	return string(after)
}

// ids are those that can be there: Postgres compares no others with a UUID.
func ids[T ~string](given []T) []T {
	return slices.DeleteFunc(slices.Clone(given), func(one T) bool {
		_, ok := id.Parse[T](string(one))
		return !ok
	})
}

// instant is a time as it is kept, in milliseconds; the zero time survives it.
func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func optionalInstant(ms sql.NullInt64) *time.Time {
	if !ms.Valid {
		return nil
	}
	t := instant(ms.Int64)
	return &t
}

func optionalMillis(t *time.Time) sql.NullInt64 {
	if t == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: true}
}

// optional is a text that may be unset; set is one where empty means unset.
func optional[T ~string](s *T) sql.NullString {
	if s == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: string(*s), Valid: true}
}

func set[T ~string](s T) sql.NullString {
	return sql.NullString{String: string(s), Valid: s != ""}
}

func pointer[T ~string](s sql.NullString) *T {
	if !s.Valid {
		return nil
	}
	t := T(s.String)
	return &t
}

// stampRow is how the provider's stamps are kept.
type stampRow struct {
	At      int64  `gorm:"not null"`
	Rank    int64  `gorm:"not null"`
	Message string `gorm:"not null"`
}

func rowOfStamp(s identity.Stamp) stampRow {
	return stampRow{s.At.UnixMilli(), int64(s.Rank), s.Message}
}

func (r stampRow) stamp() identity.Stamp {
	return identity.Stamp{At: instant(r.At), Rank: int(r.Rank), Message: r.Message}
}
