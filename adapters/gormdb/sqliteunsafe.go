package gormdb

import (
	"unsafe"

	"modernc.org/libc"
	sqlitecode "modernc.org/sqlite/lib"
)

// SQLite with statistics plans a statement again whenever a parameter has another
// value that could change the plan. That is turned off on every connection when it is
// opened, so that plans belong to statements, as on Postgres; no pragma does it.
// Without this a list of 50 tasks costs 1.16 to 1.19 of the processor time that it
// costs on Postgres; the goal of test/bench is at most 1.00, and with it 0.81 to 0.96.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	// A function of this signature is what the translated C calls through a
	// pointer; a declared one has a lasting address.
	sqlitecode.Xsqlite3_auto_extension(tls, cFunction(planOnce))
}

// planOnce is an sqlite3_extension_init.
func planOnce(tls *libc.TLS, db, _, _ uintptr) int32 {
	const words = 2 // an int and a pointer
	list := tls.Alloc(words * 8)
	defer tls.Free(words * 8)
	return sqlitecode.Xsqlite3_db_config(tls, db, sqlitecode.SQLITE_DBCONFIG_ENABLE_QPSG, libc.VaList(list, int32(1), uintptr(0)))
}

// cFunction is a declared function as the translated C has it: the address of
// the place that has the function's.
func cFunction[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

// withoutMutex takes the mutex of a connection away. The driver opens each for several
// threads at once, so that SQLite locks it for every column of every row, which is 30 %
// of what a page of 50 tasks costs: 0.17 ms with it, 0.12 ms without. Nothing needs it:
// database/sql uses a connection from one goroutine at a time, as the driver asks, and
// sqlite3_interrupt, which comes from another one, takes no mutex.
func withoutMutex(handle uintptr) {
	tls := libc.NewTLS()
	defer tls.Close()
	db := *(**sqlitecode.Tsqlite3)(unsafe.Pointer(&handle))
	sqlitecode.Xsqlite3_mutex_free(tls, db.Fmutex)
	db.Fmutex = 0
}
