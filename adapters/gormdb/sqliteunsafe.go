package gormdb

import (
	"unsafe"

	"modernc.org/libc"
	sqlitecode "modernc.org/sqlite/lib"
)

// init makes SQLite keep the plan of a prepared statement, as Postgres does, on every connection that is
// opened. With statistics it prepares a statement again whenever a parameter has another value that
// could change the plan, and no pragma prevents that. Without this a list
// of 50 tasks costs 1.16 to 1.19 of the processor time on Postgres; the goal of test/bench
// is at most 1.00, and with it 0.81 to 0.96 are measured.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	// The translated C calls a function of this signature through a pointer; a declared one
	// has a constant address.
	sqlitecode.Xsqlite3_auto_extension(tls, cFunction(planOnce))
}

// planOnce is an sqlite3_extension_init.
func planOnce(tls *libc.TLS, db, _, _ uintptr) int32 {
	const words = 2 // an int and a pointer
	list := tls.Alloc(words * 8)
	defer tls.Free(words * 8)
	return sqlitecode.Xsqlite3_db_config(tls, db, sqlitecode.SQLITE_DBCONFIG_ENABLE_QPSG, libc.VaList(list, int32(1), uintptr(0)))
}

// cFunction returns a declared function as a function pointer of the translated C: the
// address of a variable with the function's address.
func cFunction[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// withoutMutex disables the mutex of a connection. The driver opens each for several
// threads, so that SQLite locks it for every column of every row, which is 30 % of the time
// of a page of 50 tasks: 0.17 ms with it, 0.12 ms without. It is not needed: database/sql
// uses a connection from one goroutine at a time, as the driver requires, and
// sqlite3_interrupt, which another one calls, takes no mutex.
func withoutMutex(handle uintptr) {
	tls := libc.NewTLS()
	defer tls.Close()
	db := *(**sqlitecode.Tsqlite3)(unsafe.Pointer(&handle))
	sqlitecode.Xsqlite3_mutex_free(tls, db.Fmutex)
	db.Fmutex = 0
}
