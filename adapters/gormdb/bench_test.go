package gormdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/ports"
	"collab/test/postgres"
)

// BenchmarkTasks measures the hot statements on both databases, which wait for
// the disk, over 10,000 tasks of one organisation. On Postgres pgx alone does
// the same work beside them.
func BenchmarkTasks(b *testing.B) {
	actor, o := someActor(), uid[id.Org](kindOrg, 7, 0)
	b.Run("SQLite", func(b *testing.B) {
		db := migrated(b, "sqlite://"+filepath.Join(b.TempDir(), "collab.db"))
		stock(b, db, o, actor)
		analyze(b, db)
		benchmarkTasks(b, db, o, actor, nil)
	})
	b.Run("Postgres", func(b *testing.B) {
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
		stock(b, db, o, actor)
		if _, err := db.pools[0].ExecContext(ctx, "VACUUM ANALYZE"); err != nil {
			b.Fatal(err)
		}
		bare, err := pgxpool.New(ctx, url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(bare.Close)
		benchmarkTasks(b, db, o, actor, bare)
	})
}

// stock fills the table with tasks that have most of their fields set.
func stock(b *testing.B, db *DB, o id.Org, actor org.Actor) {
	b.Helper()
	taskID := "('00000005-0007-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
	if db.dialect == onSQLite {
		taskID = "printf('00000005-0007-7000-8000-%012x', n)"
	}
	_, err := db.pools[0].ExecContext(b.Context(), fmt.Sprintf(`INSERT INTO tasks (org_id, id, title, description, status, priority, due_text, due_start, due_end, tags, metadata, sort_order, created_by, created_at, updated_at, version)
		SELECT '%s', %s, 'A task of usual length', 'What is to be done, in a sentence of the length that people take the time to write.',
			CASE n %% 4 WHEN 0 THEN 'TODO' ELSE 'DONE' END, 'LOW', '2026-06-30', n, n, '["design","backend"]', '{"points":3}', n, '%s', n, n, 1
		FROM (WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 10000) SELECT n FROM s) AS x`, o, taskID, actor.User))
	if err != nil {
		b.Fatal(err)
	}
}

func benchmarkTasks(b *testing.B, db *DB, o id.Org, actor org.Actor, bare *pgxpool.Pool) {
	var made atomic.Int64
	made.Store(1_000_000)
	one := func() id.Task { return uid[id.Task](kindTask, 7, int(made.Add(1)%10_000)+1) }
	next := func(tags ...string) task.Task {
		n := int(made.Add(1))
		at := time.UnixMilli(int64(n)).UTC()
		return task.Task{
			ID: uid[id.Task](kindTask, 7, n), Org: o, Title: "A task of usual length", Priority: task.Low, Tags: tags,
			CreatedBy: actor.User, CreatedAt: at, UpdatedAt: at, Version: 1,
		}.Restore(task.Todo, nil)
	}
	page := task.Filter{Status: task.Todo, Limit: 50}
	s, _ := taskList(db.read, o, actor, page)
	list := s.command()
	insert, err := tenantSQL(o, addTask[0][onPostgres]).prepare(onPostgres)
	if err != nil {
		b.Fatal(err)
	}
	query, args := numbered(list.text), list.args

	measured := []struct {
		name string
		fn   func(ctx context.Context) error
	}{
		{"get", func(ctx context.Context) error {
			_, err := db.Work().Tasks().Get(ctx, o, one())
			return err
		}},
		{"list of 50", func(ctx context.Context) error {
			n := 0
			err := db.Work().Tasks().List(ctx, o, actor, page, func(task.Task) error { n++; return nil })
			if n != 50 {
				err = errors.Join(err, fmt.Errorf("%d tasks", n))
			}
			return err
		}},
		{"add", func(ctx context.Context) error {
			_, err := db.Work().Tasks().Add(ctx, o, next())
			return err
		}},
		{"add with tags", func(ctx context.Context) error {
			_, err := db.Work().Tasks().Add(ctx, o, next("design", "backend"))
			return err
		}},
		{"epochs of 20", func(ctx context.Context) error {
			orgs := make([]id.Org, 20)
			for i := range orgs {
				orgs[i] = uid[id.Org](kindOrg, i, 0)
			}
			_, err := db.Epochs(ctx, orgs)
			return err
		}},
		{"get by pgx", func(ctx context.Context) error {
			var r taskRow
			return bare.QueryRow(ctx, numbered(taskTable.getByKey[db.dialect]), string(o), string(one())).Scan(dest(&r, taskTable.reads)...)
		}},
		{"list of 50 by pgx", func(ctx context.Context) error {
			rows, err := bare.Query(ctx, query, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var r taskRow
				if err := rows.Scan(dest(&r, taskTable.reads)...); err != nil {
					return err
				}
			}
			return rows.Err()
		}},
		{"add by pgx", func(ctx context.Context) error {
			t := next()
			var place int64
			return bare.QueryRow(ctx, insert, append([]any{string(o)}, bind(rowOfTask(onPostgres, t), taskAdded, nil)...)...).Scan(&place)
		}},
	}
	if bare == nil {
		measured = measured[:5]
	}
	for _, m := range measured {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := m.fn(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkUploads measures what storing a small object costs the database, which
// waits for the disk: new ones and new versions, of 100 organisations at once.
func BenchmarkUploads(b *testing.B) { onEach(b, benchmarkUploads) }

func benchmarkUploads(b *testing.B, db *DB) {
	ctx := b.Context()
	user := uid[id.User](kindUser, 0, 1)
	_, err := db.Directory().Users().Upsert(ctx, org.User{ID: user, ProviderID: "u"}, func(u org.User) (org.User, error) { return u, nil })
	for n := range tenants {
		o := uid[id.Org](kindOrg, n, 1)
		_, err2 := db.Directory().Organisations().Upsert(ctx, org.Organisation{ID: o, ProviderID: string(o)}, func(o org.Organisation) (org.Organisation, error) { return o, nil })
		err = errors.Join(err, err2, db.Directory().Members().Put(ctx, o, org.Membership{Org: o, User: user, Role: org.Owner}))
	}
	if err != nil {
		b.Fatal(err)
	}
	var made atomic.Int64
	upload := func(ctx context.Context, v object.Object) error {
		now := time.UnixMilli(made.Add(1)).UTC()
		content := object.Content{Blob: v.BlobName(fmt.Sprint(made.Add(1))), Size: 1000, Checksum: strings.Repeat("0", 64), Text: true}
		if err := db.Storage().BlobNames().Announce(ctx, v.Org, content.Blob, now); err != nil {
			return err
		}
		return db.Atomic(ctx, func(r ports.Records) error {
			s := r.Storage()
			if _, err := s.Changes().Lock(ctx, v.Org); err != nil {
				return err
			}
			was, err := s.Objects().At(ctx, v.Org, v.StorageKey())
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			if _, err := r.Directory().Members().Get(ctx, v.Org, user); err != nil {
				return err
			}
			if err != nil {
				v = v.Filled(content, user, now)
				err = s.Objects().Add(ctx, v.Org, v)
			} else {
				v = was.Filled(content, user, now)
				err = errors.Join(s.Objects().Put(ctx, v.Org, v), s.BlobNames().Discard(ctx, v.Org, []string{was.Blob}, now))
			}
			if err == nil {
				err = s.BlobNames().Forget(ctx, object.Blob{Org: v.Org, Name: content.Blob})
			}
			if err == nil {
				_, err = s.Changes().Append(ctx, v.Org, object.Written(v))
			}
			return err
		})
	}
	of := func(n int64) object.Object {
		return object.Object{
			ID: uid[id.Object](kindObject, int(n%tenants), int(n)), Org: uid[id.Org](kindOrg, int(n%tenants), 1), MimeType: "text/markdown",
			Path: fmt.Sprintf("notes/of usual length/number %d.md", n), Place: object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: &user},
		}
	}
	for _, m := range []struct {
		name string
		next func() object.Object
	}{
		{"new", func() object.Object { return of(made.Add(1)) }},
		{"replaced", func() object.Object { return of(made.Add(1) % 1000) }},
	} {
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := upload(b.Context(), m.next()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "uploads/s")
		})
	}
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
