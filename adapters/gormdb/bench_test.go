package gormdb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/test/postgres"
)

// BenchmarkTasks sets the hot statements beside the same work by pgx alone, on
// 10,000 tasks of one organisation and a server that waits for the disk.
func BenchmarkTasks(b *testing.B) {
	ctx := b.Context()
	server, err := postgres.Start(ctx, postgres.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	url, err := server.Database(ctx, "bench")
	if err != nil {
		b.Fatal(err)
	}
	db := migrated(b, url)
	bare, err := pgxpool.New(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(bare.Close)
	actor := someActor()
	o := uid[id.Org](kindOrg, 7, 0)
	if _, err := bare.Exec(ctx, fmt.Sprintf(`INSERT INTO tasks (org_id, id, title, status, priority, sort_order, created_by, created_at, updated_at, version)
		SELECT '%s', ('00000005-0007-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'A task of usual length', CASE n %% 4 WHEN 0 THEN 'TODO' ELSE 'DONE' END, 'LOW', n, '%s', n, n, 1
		FROM generate_series(1, 10000) AS n`, o, actor.User)); err != nil {
		b.Fatal(err)
	}
	if _, err := bare.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
	var made atomic.Int64
	made.Store(1_000_000)
	query, args, _ := taskList(onPostgres, o, actor, task.Filter{Status: task.Todo, Limit: 50})
	query = numbered(query)

	for name, fn := range map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := db.Work().Tasks().Get(ctx, o, uid[id.Task](kindTask, 7, int(made.Add(1)%10_000)+1))
			return err
		},
		"get by pgx": func(ctx context.Context) error {
			var r taskRow
			return bare.QueryRow(ctx, numbered(selectTask), string(o), string(uid[id.Task](kindTask, 7, int(made.Add(1)%10_000)+1))).Scan(r.dest()...)
		},
		"list of 50": func(ctx context.Context) error {
			n := 0
			err := db.Work().Tasks().List(ctx, o, actor, task.Filter{Status: task.Todo, Limit: 50}, func(task.Task) error { n++; return nil })
			if n != 50 {
				err = errors.Join(err, fmt.Errorf("%d tasks", n))
			}
			return err
		},
		"list of 50 by pgx": func(ctx context.Context) error {
			rows, err := bare.Query(ctx, query, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var r taskRow
				if err := rows.Scan(r.dest()...); err != nil {
					return err
				}
			}
			return rows.Err()
		},
		"add": func(ctx context.Context) error {
			_, err := db.Work().Tasks().Add(ctx, o, benchTask(o, actor, int(made.Add(1))))
			return err
		},
		"add by pgx": func(ctx context.Context) error {
			t := benchTask(o, actor, int(made.Add(1)))
			var place int64
			return bare.QueryRow(ctx, numbered(addTask[onPostgres][0]), append(append([]any{string(o), string(t.ID)}, values(t)...), string(o))...).Scan(&place)
		},
		"epochs of 20": func(ctx context.Context) error {
			orgs := make([]id.Org, 20)
			for i := range orgs {
				orgs[i] = uid[id.Org](kindOrg, i, 0)
			}
			_, err := db.Epochs(ctx, orgs)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := fn(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func benchTask(o id.Org, a org.Actor, n int) task.Task {
	at := time.UnixMilli(int64(n)).UTC()
	return task.Task{ID: uid[id.Task](kindTask, 7, n), Org: o, Title: "A task of usual length", Priority: task.Low, CreatedBy: a.User, CreatedAt: at, UpdatedAt: at, Version: 1}.
		Restore(task.Todo, nil)
}

// numbered writes the parameters as Postgres has them.
func numbered(query string) string {
	var out []byte
	n := 0
	for i := range len(query) {
		if query[i] == '?' {
			n++
			out = fmt.Appendf(out, "$%d", n)
			continue
		}
		out = append(out, query[i])
	}
	return string(out)
}
