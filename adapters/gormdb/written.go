package gormdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"reflect"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"
)

// Statements that are written out go to the pool of connections as they are:
// GORM would copy its session and walk through its callbacks for each, which
// takes longer than a short query itself. What its callbacks and its logger do
// for such statements is done here.

// phrase is a statement that is written out, for one dialect.
type phrase struct {
	text       string // with the dialect's placeholders
	unconfined string // what is wrong with it as to tenants, empty for nothing
}

// statements are those that have been used, by dialect and text. There are as
// many as the repositories have, because values are parameters.
var statements sync.Map // of statementKey, to phrase

type statementKey struct{ dialect, text string }

func ready(db *gorm.DB, text string) phrase {
	key := statementKey{db.Dialector.Name(), text}
	if p, ok := statements.Load(key); ok {
		return p.(phrase)
	}
	p := phrase{text: text, unconfined: unconfined(text)}
	if parts := strings.Split(text, "?"); len(parts) > 1 {
		var b strings.Builder
		s := &gorm.Statement{DB: db}
		for i, part := range parts {
			if b.WriteString(part); i < len(parts)-1 {
				s.Vars = append(s.Vars, nil)
				db.Dialector.BindVarTo(&b, s, nil)
			}
		}
		p.text = b.String()
	}
	statements.Store(key, p)
	return p
}

// asTheyAre reports whether the database takes all parameters as they are. Lists
// are written out by GORM.
func asTheyAre(args []any) bool {
	for _, a := range args {
		switch a.(type) {
		case nil, string, int, int64, bool, time.Time, *time.Time, []byte, driver.Valuer:
			continue
		}
		switch reflect.TypeOf(a).Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float64, reflect.Pointer:
		default:
			return false
		}
	}
	return true
}

// admit returns the statement as it goes to the database, having held it to the
// rule about tenants.
func admit(db *gorm.DB, text string) (string, error) {
	p := ready(db, text)
	if p.unconfined != "" && !excused(db) {
		return "", unconfinedError(p.unconfined)
	}
	return p.text, db.Error
}

// query runs a statement that returns rows on a pool or a connection of db's.
func query(ctx context.Context, db *gorm.DB, pool gorm.ConnPool, text string, args []any) (*sql.Rows, error) {
	if !asTheyAre(args) {
		tx := db.WithContext(ctx)
		tx.Statement.ConnPool = pool
		return tx.Raw(text, args...).Rows()
	}
	said, err := admit(db, text)
	if err != nil {
		return nil, err
	}
	rows, err := pool.QueryContext(ctx, said, args...)
	trace(ctx, db, said, err)
	return rows, err
}

// change runs a statement and returns how many rows it changed.
func change(ctx context.Context, db *gorm.DB, text string, args []any) (int64, error) {
	if !asTheyAre(args) {
		tx := db.WithContext(ctx).Exec(text, args...)
		return tx.RowsAffected, tx.Error
	}
	said, err := admit(db, text)
	if err != nil {
		return 0, err
	}
	result, err := db.Statement.ConnPool.ExecContext(ctx, said, args...)
	trace(ctx, db, said, err)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func trace(ctx context.Context, db *gorm.DB, said string, err error) {
	if err != nil {
		db.Logger.Trace(ctx, time.Time{}, func() (string, int64) { return said, 0 }, err)
	}
}
