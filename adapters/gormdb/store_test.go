package gormdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
	"collab/test/postgres"
)

func TestOpen(t *testing.T) {
	t.Run("an invalid address is refused, without its password in the error", func(t *testing.T) {
		for _, url := range []string{
			"", "mysql://x", "sqlite:", "sqlite://", "sqlite://x.db?mode=memory", "postgres://u:secret@h:port/d", "postgres://u:secret@h/d?pool_max_conns=0",
			"postgres://u:secret@h/d?pool_max_conns=many", "postgres://u:secret@h/d?sslmode=perhaps", "postgres://u:secret@%zz/d",
		} {
			db, err := Open(t.Context(), Options{URL: url})
			if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", url, err)
			}
			if db != nil {
				t.Errorf("%s: there is a database", url)
			}
		}
	})
	t.Run("a server that does not answer is unavailable", func(t *testing.T) {
		must.Fail(t, must.ErrorOf(Open(t.Context(), Options{URL: "postgres://u@127.0.0.1:1/d"})), fault.Unavailable)
	})
	t.Run("the pool of connections is as large as the address says", func(t *testing.T) {
		a, err := parsePostgres("postgres://u@h/d?pool_max_conns=3&&application_name=x%20y+z")
		if err != nil || a.conns != 3 || a.config.RuntimeParams["application_name"] != "collab: x y+z" || a.config.RuntimeParams["pool_max_conns"] != "" {
			t.Errorf("%d connections with %v, error %v", a.conns, a.config.RuntimeParams, err)
		}
		if a, err = parsePostgres("postgres://u@h/d"); err != nil || a.conns < 16 {
			t.Errorf("%d connections, error %v", a.conns, err)
		}
	})
	t.Run("SQLite's file is the user's alone, absolute or relative, with any name", func(t *testing.T) {
		t.Chdir(t.TempDir())
		for _, path := range []string{filepath.Join(t.TempDir(), "new", "x.db"), "data/100% Ärger & co/x.db"} {
			migrated(t, "sqlite://"+path)
			for name, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
				info := must.Do(os.Stat(name)).Or(t)
				if info.Mode() != want {
					t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
				}
			}
		}
	})
	t.Run("SQLite keeps what was committed, and its readers do not write", func(t *testing.T) {
		db := migrated(t, databases[0].url(t))
		for pragma, want := range map[string][2]string{
			"journal_mode": {"wal", "wal"}, "synchronous": {"2", "2"}, "foreign_keys": {"1", "1"}, "query_only": {"0", "1"}, "busy_timeout": {"10000", "10000"},
		} {
			for i, pool := range db.pools {
				if got := value[string](t, pool, "PRAGMA "+pragma); got != want[i] {
					t.Errorf("%s of pool %d is %s, want %s", pragma, i, got, want[i])
				}
			}
		}
		must.Is(t, 1, db.pools[0].Stats().MaxOpenConnections)
		if _, err := db.pools[1].Exec("INSERT INTO inbox (source, message, noted_at) VALUES ('a', 'b', 1)"); err == nil {
			t.Error("a reader wrote")
		}
	})
}

// organisation adds an organisation.
func organisation(t *testing.T, db *DB, o id.Org) id.Org {
	t.Helper()
	must.Do(db.Directory().Organisations().Upsert(t.Context(), org.Organisation{ID: o, ProviderID: string(o)}, func(o org.Organisation) (org.Organisation, error) { return o, nil })).Or(t)
	return o
}

// seeded adds an organisation and a user.
func seeded(t *testing.T, db *DB) (id.Org, id.User) {
	t.Helper()
	o, u := organisation(t, db, uid[id.Org](kindOrg, 1, 1)), uid[id.User](kindUser, 1, 1)
	at := time.UnixMilli(1).UTC()
	_, err := db.Directory().Users().Upsert(t.Context(), org.User{ID: u, ProviderID: "u"}, func(u org.User) (org.User, error) { return u, nil })
	must.NoError(t, errors.Join(err, db.Directory().Members().Put(t.Context(), o, org.Membership{Org: o, User: u, Role: org.Owner, JoinedAt: at})))
	return o, u
}

func someTask(o id.Org, u id.User, n int) task.Task {
	at := time.UnixMilli(int64(n)).UTC()
	return task.Task{ID: uid[id.Task](kindTask, 1, n), Org: o, Title: "x", Priority: task.Low, CreatedBy: u, CreatedAt: at, UpdatedAt: at, Version: 1}.Restore(task.Todo, nil)
}

func TestTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, db *DB) {
		o, u := seeded(t, db)
		ctx := t.Context()
		must.Do(db.Work().Tasks().Add(ctx, o, someTask(o, u, 1))).Or(t)

		t.Run("a transaction that conflicts is run again, with a pause, a bounded number of times", func(t *testing.T) {
			pauses := 0
			db.pause = func(context.Context, int) error { pauses++; return nil }
			for _, code := range []string{"40001", "40P01", "25P02"} {
				runs, before := 0, pauses
				err := db.Atomic(ctx, func(ports.Records) error {
					runs++
					return fault.Wrap(fault.Internal, &pgconn.PgError{Code: code}, "The database failed")
				})
				if err == nil || runs != attempts || pauses-before != attempts-1 {
					t.Errorf("%s: %d runs with %d pauses, error %v", code, runs, pauses-before, err)
				}
			}
			stop := errors.New("stop")
			db.pause = func(context.Context, int) error { return stop }
			if err := db.Atomic(ctx, func(ports.Records) error { return &pgconn.PgError{Code: "40001"} }); err != stop { //nolint:errorlint // it is not wrapped
				t.Errorf("the error is %v", err)
			}
			db.pause = func(ctx context.Context, _ int) error { return ctx.Err() }
		})

		t.Run("a panic rolls back and leaves no connection behind", func(t *testing.T) {
			for range 40 {
				func() {
					defer func() {
						if recover() != "boom" {
							t.Error("the panic is gone")
						}
					}()
					_ = db.Atomic(ctx, func(r ports.Records) error {
						must.Succeed(t, must.ErrorOf(r.Work().Tasks().Add(ctx, o, someTask(o, u, 4))))
						panic("boom")
					})
				}()
			}
			for _, pool := range db.pools {
				must.Is(t, 0, pool.Stats().InUse)
			}
			must.Fail(t, must.ErrorOf(db.Work().Tasks().Get(ctx, o, uid[id.Task](kindTask, 1, 4))), fault.NotFound)
		})

		t.Run("the error of an ended context is returned unchanged", func(t *testing.T) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, get := db.Work().Tasks().Get(ended, o, uid[id.Task](kindTask, 1, 1))
			_, add := db.Work().Tasks().Add(ended, o, someTask(o, u, 5))
			_, epochs := db.Epochs(ended, []id.Org{o})
			for _, err := range []error{get, add, epochs, db.Ready(ended), db.Migrate(ended), db.Atomic(ended, func(ports.Records) error { return nil })} {
				must.FailIs(t, err, context.Canceled)
			}
			midway, cancel := context.WithCancel(ctx)
			err := db.Atomic(midway, func(r ports.Records) error {
				cancel()
				return must.ErrorOf(r.Work().Tasks().Add(midway, o, someTask(o, u, 5)))
			})
			must.FailIs(t, err, context.Canceled)
		})

		t.Run("an id or a text that the database cannot store is not found", func(t *testing.T) {
			const odd = "no'id\x00"
			_, user := db.Directory().Users().Get(ctx, odd)
			_, provider := db.Directory().Users().ByProvider(ctx, odd)
			_, kept := db.Work().Tasks().Get(ctx, o, odd)
			_, elsewhere := db.Work().Tasks().Get(ctx, "", uid[id.Task](kindTask, 1, 1))
			_, revised := db.Work().Tasks().Revise(ctx, o, odd, func(t task.Task) (task.Task, error) { return t, nil })
			for _, err := range []error{user, provider, kept, elsewhere, revised} {
				must.Fail(t, err, fault.NotFound)
			}
			count := func(f task.Filter) (n int) {
				must.Succeed(t, db.Work().Tasks().List(ctx, o, org.Actor{User: u}, f, func(task.Task) error { n++; return nil }))
				return n
			}
			for _, f := range []task.Filter{
				{Assignee: task.Ref[id.User]{Given: true, ID: odd}}, {Workspace: task.Ref[id.Workspace]{Given: true, ID: odd}}, {Tags: []string{odd}}, {Tags: []string{odd, "\xff"}},
			} {
				if n := count(f); n != 0 {
					t.Errorf("%+v selects %d", f, n)
				}
			}
			if n, want := count(task.Filter{After: &task.Position{SortOrder: -1, ID: odd}}), count(task.Filter{}); n != want || n == 0 {
				t.Errorf("%d tasks after a place before the first, want %d", n, want)
			}
			epochs, err := db.Epochs(ctx, []id.Org{odd, o})
			_, one := db.Epochs(ctx, []id.Org{odd})
			if err != nil || one != nil || len(epochs) != 1 {
				t.Errorf("the epochs are %v, errors %v, %v", epochs, err, one)
			}
			of := []id.Org{odd, o}
			subs, err := db.Directory().Subscriptions().Of(ctx, of)
			if _, one := db.Directory().Subscriptions().Of(ctx, of[:1]); err != nil || one != nil || len(subs) != 2 {
				t.Errorf("the subscriptions are %v, errors %v, %v", subs, err, one)
			}
			seats, err := db.Directory().Seats().Count(ctx, of, time.UnixMilli(9))
			if _, one := db.Directory().Seats().Count(ctx, of[:1], time.UnixMilli(9)); err != nil || one != nil || len(seats) != 2 {
				t.Errorf("the seats are %v, errors %v, %v", seats, err, one)
			}
			must.NoError(t, db.Journal().Audit().List(ctx, o, audit.Filter{After: odd, Limit: 5}, func(e audit.Entry) error { return fmt.Errorf("there is %v", e) }))
			must.NoError(t, db.Work().TaskHistory().List(ctx, o, uid[id.Task](kindTask, 1, 1), id.Position[id.Entry]{At: time.UnixMilli(9), ID: odd}, 5, func(c task.Change) error { return fmt.Errorf("there is %v", c) }))
			must.NoError(t, db.Directory().Members().List(ctx, o, org.MemberFilter{After: id.Position[id.User]{At: time.UnixMilli(9).UTC(), ID: odd}, Limit: 1}, func(org.Profile) error { return nil }))
		})

		t.Run("tasks are indexed by exactly the tags they have", func(t *testing.T) {
			tagged := someTask(o, u, 10)
			tagged.Tags = []string{"a", `"b\`, "ü"}
			tagged, err := db.Work().Tasks().Add(ctx, o, tagged)
			must.NoError(t, err)
			indexed := func(want ...string) {
				t.Helper()
				of := taskTagTable.of(db.read, o).filter("task_id = ?", string(tagged.ID))
				got := must.Do(all(ctx, of, func(r *taskTagRow) (taskTagRow, error) { return *r, nil })).Or(t)
				if len(got) != len(want) {
					t.Errorf("the tags are %v, want %q", got, want)
				}
				for _, r := range got {
					if !slices.Contains(want, r.Tag) || r.SortOrder != tagged.SortOrder || !r.CreatedAt.Equal(tagged.CreatedAt) {
						t.Errorf("%+v is not of %+v with %q", r, tagged, want)
					}
				}
			}
			revise := func(fn func(*task.Task)) {
				t.Helper()
				tagged = must.Do(db.Work().Tasks().Revise(ctx, o, tagged.ID, func(t task.Task) (task.Task, error) {
					fn(&t)
					return t, nil
				})).Or(t)
			}
			indexed("a", `"b\`, "ü")
			revise(func(t *task.Task) { t.Title = "y" })
			indexed("a", `"b\`, "ü")
			revise(func(t *task.Task) { t.SortOrder = 1234 })
			indexed("a", `"b\`, "ü")
			revise(func(t *task.Task) { t.Tags = []string{"c", "a"} })
			indexed("a", "c")
			revise(func(t *task.Task) { t.Tags = nil })
			indexed()
			revise(func(t *task.Task) { t.Tags = []string{"d"} })
			indexed("d")
			must.NoError(t, db.Work().Tasks().Remove(ctx, o, tagged.ID, func(task.Task) error { return nil }))
			indexed()

			at := time.UnixMilli(1).UTC()
			home := workspace.Workspace{ID: uid[id.Workspace](kindWorkspace, 1, 2), Org: o, Team: uid[id.Team](kindTeam, 1, 2), Name: "W", CreatedBy: u, CreatedAt: at, UpdatedAt: at}
			must.NoError(t, db.Work().Teams().Add(ctx, o, team.Team{ID: home.Team, Org: o, Name: "T", Kind: team.Standard, CreatedBy: u, CreatedAt: at, UpdatedAt: at}))
			must.NoError(t, db.Work().Workspaces().Add(ctx, o, home))
			tagged = someTask(o, u, 11)
			tagged.Workspace, tagged.Tags = &home.ID, []string{"a", "b"}
			tagged = must.Do(db.Work().Tasks().Add(ctx, o, tagged)).Or(t)
			indexed("a", "b")
			must.NoError(t, db.Work().Workspaces().Remove(ctx, o, home.ID))
			indexed()
		})
	})
}

func TestTwoProcessesOnOneSQLiteFile(t *testing.T) {
	url := databases[0].url(t)
	first, second := migrated(t, url), opened(t, url)
	o, u := seeded(t, first)
	var all sync.WaitGroup
	for i, db := range []*DB{first, second} {
		for j := range 4 {
			all.Go(func() {
				for k := range 10 {
					err := db.Atomic(t.Context(), func(r ports.Records) error {
						if _, err := r.Directory().Organisations().Lock(t.Context(), o); err != nil {
							return err
						}
						return must.ErrorOf(r.Work().Tasks().Add(t.Context(), o, someTask(o, u, 1000*i+100*j+k+1)))
					})
					must.Succeed(t, err)
				}
			})
		}
	}
	all.Wait()
	epochs, err := second.Epochs(t.Context(), []id.Org{o})
	if err != nil || epochs[o] != 80 {
		t.Errorf("the epoch is %d after 80 locks, error %v", epochs[o], err)
	}
}

func TestAStoppedServerIsUnavailableUntilItRestarts(t *testing.T) {
	if os.Getenv(postgres.EnvURL) != "" {
		t.Skip("the given server is not ours to stop")
	}
	server := postgres.Own(t, postgres.Options{NoSync: true})
	url := must.Do(server.Database(t.Context(), t.Name())).Or(t)
	db := migrated(t, url)
	o, u := seeded(t, db)
	must.NoError(t, server.Stop())
	_, get := db.Directory().Users().Get(t.Context(), u)
	_, epochs := db.Epochs(t.Context(), []id.Org{o})
	_, add := db.Work().Tasks().Add(t.Context(), o, someTask(o, u, 1))
	atomic := db.Atomic(t.Context(), func(r ports.Records) error { return must.ErrorOf(r.Directory().Organisations().Lock(t.Context(), o)) })
	for what, err := range map[string]error{"get": get, "epochs": epochs, "add": add, "atomic": atomic, "ready": db.Ready(t.Context())} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
	for _, kill := range []bool{false, true} {
		must.NoError(t, server.Restart(t.Context(), kill))
		// Ready replaces the closed connections of the pool.
		if err := db.Ready(t.Context()); err != nil {
			t.Errorf("killed %t: %v", kill, err)
		}
		if _, err := db.Directory().Users().Get(t.Context(), u); err != nil {
			t.Errorf("killed %t: %v", kill, err)
		}
	}
}

func TestAServerThatRefusesIsUnavailable(t *testing.T) {
	url := migratedPostgres(t)
	t.Run("one that takes no connections to the database", func(t *testing.T) {
		gone := strings.Replace(url, "?", "_that_is_not_there?", 1)
		if gone == url {
			gone += "_that_is_not_there"
		}
		db, err := Open(t.Context(), Options{URL: gone})
		if err == nil {
			t.Fatal(db.Close())
		}
		must.Fail(t, err, fault.Unavailable)
	})
	t.Run("one that only reads", func(t *testing.T) {
		o, u := seeded(t, opened(t, url))
		db := must.Do(Open(t.Context(), Options{URL: url + "&default_transaction_read_only=on"})).Or(t)
		defer db.Close()
		must.Fail(t, must.ErrorOf(db.Work().Tasks().Add(t.Context(), o, someTask(o, u, 1))), fault.Unavailable)
	})
}

// awaitBlocked waits until a statement waits for a lock on Postgres, or ended has an error.
func awaitBlocked(t *testing.T, db *DB, ended chan error) (err error) {
	t.Helper()
	const blocked = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"
	must.Wait(t, "a statement waits for a lock", func() (waits bool) {
		err = db.pools[0].QueryRow(blocked).Scan(&waits)
		return err != nil || waits || len(ended) > 0
	})
	return err
}

func TestConnectionsHaveTheirSettingsUnlessTheAddressHasOthers(t *testing.T) {
	address := postgres.URL(t)
	for parameters, want := range map[string]string{
		"":                      "force_generic_plan 10s 20s",
		"&plan_cache_mode=auto": "auto 10s 20s",
		"&idle_in_transaction_session_timeout=1s&plan_cache_mode=auto&lock_timeout=0": "auto 1s 0",
		"&options=-c%20lock_timeout%3D3s%20-c%20plan_cache_mode%3Dauto":               "auto 10s 3s",
	} {
		db := opened(t, address+parameters).pools[0]
		must.Is(t, want, value[string](t, db, "SELECT concat_ws(' ', current_setting('plan_cache_mode'), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'))"))
	}
}

func TestAServerThatStopsInATransactionKeepsNoLocks(t *testing.T) {
	url := migratedPostgres(t)
	o, u := seeded(t, opened(t, url))
	err := opened(t, url+"&idle_in_transaction_session_timeout=100").Atomic(t.Context(), func(r ports.Records) error {
		added := must.ErrorOf(r.Work().Tasks().Add(t.Context(), o, someTask(o, u, 1)))
		awaitTrue(t, url, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction')")
		return errors.Join(added, must.ErrorOf(r.Work().Tasks().Add(t.Context(), o, someTask(o, u, 2))))
	})
	must.Fail(t, err, fault.Unavailable)
	lock := func(r ports.Records) error {
		return must.ErrorOf(r.Storage().Changes().Append(t.Context(), o, object.NewAccessChange(object.Audience{}, "", time.Now())))
	}
	err = opened(t, url).Atomic(t.Context(), func(r ports.Records) error {
		must.NoError(t, lock(r))
		return opened(t, url+"&lock_timeout=100").Atomic(t.Context(), lock)
	})
	must.Fail(t, err, fault.Unavailable)
}

// TestTasksMovedAwayDuringADeletionRemain commits a transaction that moves a task away while a deletion waits for it.
func TestTasksMovedAwayDuringADeletionRemain(t *testing.T) {
	db, ctx := opened(t, migratedPostgres(t)), t.Context()
	o, u := seeded(t, db)
	at := time.UnixMilli(1).UTC()
	in := team.Team{ID: uid[id.Team](kindTeam, 1, 1), Org: o, Name: "T", Kind: team.Standard, CreatedBy: u, CreatedAt: at, UpdatedAt: at}
	err := db.Work().Teams().Add(ctx, o, in)
	var from, to id.Workspace
	for i, w := range []*id.Workspace{&from, &to} {
		*w = uid[id.Workspace](kindWorkspace, 1, i+1)
		err = errors.Join(err, db.Work().Workspaces().Add(ctx, o, workspace.Workspace{ID: *w, Org: o, Team: in.ID, Name: "W", CreatedBy: u, CreatedAt: at, UpdatedAt: at}))
	}
	moved, stays := someTask(o, u, 1), someTask(o, u, 2)
	for _, v := range []*task.Task{&moved, &stays} {
		v.Workspace = &from
		_, added := db.Work().Tasks().Add(ctx, o, *v)
		err = errors.Join(err, added)
	}
	change := task.Change{ID: uid[id.Entry](kindEntry, 1, 1), Org: o, Task: moved.ID, At: at, By: u}
	must.NoError(t, errors.Join(err, db.Work().TaskHistory().Add(ctx, o, []task.Change{change})))
	removed := make(chan error, 1)
	err = db.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Work().Tasks().Revise(ctx, o, moved.ID, func(t task.Task) (task.Task, error) {
			t.Workspace = &to
			return t, nil
		})
		go func() {
			_, _, err := db.Work().TaskSets().RemoveIn(ctx, o, from, task.Position{}, 10)
			removed <- err
		}()
		return errors.Join(err, awaitBlocked(t, db, removed))
	})
	must.NoError(t, errors.Join(err, <-removed))
	if got, err := db.Work().Tasks().Get(ctx, o, moved.ID); err != nil || *got.Workspace != to {
		t.Errorf("the moved task is %+v, %v", got, err)
	}
	lines := 0
	err = db.Work().TaskHistory().List(ctx, o, moved.ID, id.Position[id.Entry]{}, 0, func(task.Change) error { lines++; return nil })
	if err != nil || lines != 1 {
		t.Errorf("%d changes are left of its history, %v", lines, err)
	}
	must.Fail(t, must.ErrorOf(db.Work().Tasks().Get(ctx, o, stays.ID)), fault.NotFound) // the task that stayed
}

func TestTheLogHasFailedStatementsWithoutTheirValues(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var text strings.Builder
		db := must.Do(Open(t.Context(), Options{URL: url, Logger: slog.New(slog.NewTextHandler(&text, nil))})).Or(t)
		defer db.Close()
		if _, err := exec(t.Context(), db.write, "Title", sharedSQL("UPDATE nowhere SET title = ?", "private")); err == nil {
			t.Fatal("no error")
		}
		if got := text.String(); !strings.Contains(got, "UPDATE nowhere SET title") || strings.Contains(got, "private") {
			t.Errorf("the log is %q", got)
		}
	})
}
