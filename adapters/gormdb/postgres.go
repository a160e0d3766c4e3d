package gormdb

import (
	"context"
	"database/sql"
	"net/url"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"collab/domain/fault"
)

// idleTime is how long an idle connection is kept open.
const idleTime = 5 * time.Minute

func (db *DB) openPostgres(o Options) error {
	config, conns, err := postgresConfig(o.URL)
	if err != nil {
		return err
	}
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxIdleTime(idleTime)
	g, err := db.openGORM(pool, postgres.New(postgres.Config{Conn: pool}), o.Logger)
	if err != nil {
		return err
	}
	db.dialect, db.read, db.write = onPostgres, g, g
	db.migrator = migrationOnPostgres(config)
	return nil
}

// pgxPool returns the pool of Postgres, on which queries outside of transactions run through
// pgx: database/sql starts a goroutine for each query that can be cancelled, and converts each
// value twice.
func pgxPool(db *gorm.DB, pool gorm.ConnPool) (*sql.DB, bool) {
	p, ok := pool.(*sql.DB)
	return p, ok && dialectOf(db) == onPostgres
}

// queryPgx runs a query on a connection of the pool, and scan with its rows. If the connection
// is closed before the query was sent, it runs on another one.
func queryPgx(ctx context.Context, pool *sql.DB, text string, args []any, scan func(scanner) error) error {
	for attempt := 1; ; attempt++ {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		err = conn.Raw(func(c any) error {
			rows, err := c.(*stdlib.Conn).Conn().Query(ctx, text, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			return scan(rows)
		})
		_ = conn.Close() // returns it to the pool
		if attempt == attempts || !pgconn.SafeToRetry(err) || ctx.Err() != nil {
			return err
		}
	}
}

// postgresConfig reads the address and how many connections the pool may have:
// pool_max_conns, else four times as many as processors, at least 16.
func postgresConfig(address string) (*pgx.ConnConfig, int, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The parser's message may contain the password.
		return nil, 0, fault.Field("database URL", "is not an address of the form postgres://user:password@host:port/database")
	}
	conns := max(16, 4*runtime.GOMAXPROCS(0))
	params := u.Query()
	if v := params.Get("pool_max_conns"); v != "" {
		if conns, err = strconv.Atoi(v); err != nil || conns < 1 || conns > 10_000 {
			return nil, 0, fault.Field("database URL", "must have a pool_max_conns between 1 and 10000")
		}
	}
	params.Del("pool_max_conns")
	u.RawQuery = params.Encode()
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, 0, fault.Wrap(fault.Invalid, err, "The database URL is not understood") // pgx leaves the password out
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "collab"
	}
	return config, conns, nil
}
