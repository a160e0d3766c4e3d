package integration

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/adapters/gormdb"
	"collab/app/assembly"
	"collab/domain/plan"
	"collab/test/collabd"
	"collab/test/must"
	"collab/test/nats"
	"collab/test/objectstore"
	"collab/test/postgres"
	"collab/test/previous"
	"collab/test/race"
	"collab/test/soak"
	"collab/test/tempdir"
)

// phaseWrites is how many writes are acknowledged in each phase of an upgrade.
var phaseWrites = soak.Count(2_000)

// TestAFleetIsUpgradedAndGoesBackUnderLoad migrates and partitions the database under two servers of the previous
// release, and replaces one after the other by present ones and then by previous ones again, and the
// second by a present one once more.
func TestAFleetIsUpgradedAndGoesBackUnderLoad(t *testing.T) {
	t.Parallel()
	release := previous.Get(t)
	database := postgresDatabase(t)
	store := objectstore.Start(t, tempdir.New(t))
	first := collabd.StartProgram(t, release.Process, "COLLAB_DATABASE_URL="+database.url, "COLLAB_BUS_URL="+nats.Start(t).URL,
		"COLLAB_BLOB_URL="+store.Bucket("versions"), objectstore.EnvHost+"="+store.Host, "COLLAB_HEARTBEAT=2s", "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	second := first.PeerProgram(t, release.Process)
	f := newCluster(t, seeded(t), first, second)
	var completed atomic.Int64
	f.prove(database.url, 16, 40, 0, func(ctx context.Context) {
		chatting, end := context.WithCancel(ctx)
		var chats sync.WaitGroup
		for _, c := range f.tenants {
			c.users[0].Grant(t, string(plan.Free))
			for _, u := range c.users[:2] {
				chats.Go(func() { f.chat(chatting, u, &completed) })
			}
		}
		replace := func(s *collabd.Server, by func() (*exec.Cmd, error)) func() {
			return func() {
				s.Stop(t)
				s.Program = by
				must.Succeed(t, s.Restart())
			}
		}
		for _, phase := range []func(){
			func() {
				db := opened(t, database.url)
				must.Succeed(t, errors.Join(db.Migrate(ctx), partition(ctx, db)))
			},
			replace(second, collabd.Process), replace(first, collabd.Process), replace(second, release.Process), replace(first, release.Process),
			replace(second, collabd.Process),
			func() {},
		} {
			if !f.awaitWrites(ctx, int(f.acked.Load())+phaseWrites) {
				break
			}
			phase()
		}
		end()
		chats.Wait()
	})
	rows := database.rows(t)
	f.checkChats(rows, completed.Load())
	f.checkStorage(rows, second)
}

// TestUsageIsCountedAgainWithoutALimit writes a file of an organisation whose plan has no limit, after a server of a
// release that does not count has written.
func TestUsageIsCountedAgainWithoutALimit(t *testing.T) {
	t.Parallel()
	d := sqliteDatabase(t)
	ada := d.start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)[0].SignIn(t, "ada@example.com", "Plant", "owner")
	ada.Grant(t, string(plan.Enterprise))
	var file struct{ ID string }
	ada.Must(t, 201, "POST", "/sync/files", map[string]string{"path": "a.md", "content": "one"}, &file)
	rows := d.rows(t)
	must.Do(rows.ExecContext(t.Context(), "UPDATE log_heads SET counted_n = 0, shared_bytes = 0")).Or(t)
	ada.Must(t, 200, "PUT", "/sync/files/"+file.ID, map[string]string{"content": "two, longer"}, nil)
	var counted bool
	var present int
	must.NoError(t, rows.QueryRowContext(t.Context(), "SELECT counted_n = n, shared_bytes FROM log_heads").Scan(&counted, &present))
	if !counted || present != len("two, longer") {
		t.Errorf("counted: %v; %d bytes", counted, present)
	}
}

// TestTheOldestReleaseThatRunsOnTheSchemaIsKnown compares what the database, the server, the program and the changelog name.
func TestTheOldestReleaseThatRunsOnTheSchemaIsKnown(t *testing.T) {
	t.Parallel()
	d := sqliteDatabase(t)
	s := d.start(t)[0]
	var oldest int64
	var release string
	must.NoError(t, d.rows(t).QueryRowContext(t.Context(), "SELECT oldest, release FROM schema_support").Scan(&oldest, &release))
	changelog := must.Do(os.ReadFile("../../CHANGELOG.md")).Or(t)
	if line := fmt.Sprintf("\n## %s (schema %d, commit ", release, oldest); !strings.Contains(string(changelog), line) {
		t.Errorf("CHANGELOG.md does not have %s", line)
	}
	page := must.Do(os.ReadFile("../../docs/operations.md")).Or(t)
	if row := fmt.Sprintf("|---|---|---|\n| %s | %d | %s |\n", assembly.Version(), gormdb.Schema(), release); !strings.Contains(string(page), row) {
		t.Errorf("docs/operations.md does not have %s", row)
	}
	output, err := s.Command(t, []string{"version"}).Output()
	if line := fmt.Sprintf("\nschema %d, on which servers from version %s on run\n", gormdb.Schema(), release); err != nil || !strings.HasSuffix(string(output), line) {
		t.Errorf("collabd version prints %s, %v; want %s", output, err, line)
	}
	response := must.Do(http.Get(s.URL + "/readyz")).Or(t)
	defer response.Body.Close()
	var ready struct {
		Schema                  int64
		Version, CompatibleFrom string
	}
	if err := json.NewDecoder(response.Body).Decode(&ready); err != nil || ready.Schema != gormdb.Schema() || ready.CompatibleFrom != release || !strings.HasPrefix(string(output), "collabd "+ready.Version+" ") {
		t.Errorf("/readyz says %+v, %v", ready, err)
	}
}

func TestMigrationsOfReleasesStay(t *testing.T) {
	t.Parallel()
	release := previous.Get(t)
	const folder = "adapters/gormdb/migrations/"
	for _, dialect := range []string{"postgres", "sqlite"} {
		files, err := filepath.Glob(filepath.Join(release.Dir, folder, dialect, "*.sql"))
		if err != nil || int64(len(files)) != release.Schema {
			t.Errorf("the release has %d migrations on %s, %v; want %d", len(files), dialect, err, release.Schema)
		}
		for _, file := range files {
			before := must.Do(os.ReadFile(file)).Or(t)
			after, err := os.ReadFile(filepath.Join("../..", folder, dialect, filepath.Base(file)))
			if err != nil || string(before) != string(after) {
				t.Errorf("%s/%s has changed since the release, %v", dialect, filepath.Base(file), err)
			}
		}
	}
}

// TestMigrationsLetServersWrite migrates the previous release's schema, in a soak with a million rows in
// the tables that migrations name, while writers insert and update in all tables and a transaction has
// read all of them. No statement may take two seconds.
func TestMigrationsLetServersWrite(t *testing.T) {
	release := previous.Get(t)
	rows := 10_000
	if soak.Full() {
		rows = 1_000_000
	}
	server := postgres.Own(t, postgres.Options{Settings: map[string]string{
		"fsync": "off", "full_page_writes": "off", "max_wal_size": "8GB", "checkpoint_timeout": "1h", "wal_level": "minimal", "max_wal_senders": "0", "shared_buffers": "1GB", "autovacuum": "off",
	}})
	url := must.Do(server.Database(t.Context(), "large")).Or(t)
	old := must.Do(release.Process()).Or(t)
	old.Args = append(old.Args, "migrate")
	old.Env = []string{"COLLAB_DATABASE_URL=" + url, "COLLAB_DATA_DIR=" + t.TempDir()}
	if out, err := old.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	reader := connect(t, url)
	tables, changes, large := writtenTables(t, reader), migrationsSince(t, release), []string(nil)
	execute(t, reader, "SET session_replication_role = replica") // the rows refer to each other as they must
	for _, w := range tables {
		n := 10_000
		if regexp.MustCompile(`\b` + w.name + `\b`).MatchString(changes) {
			n, large = rows, append(large, w.name)
		}
		execute(t, reader, strings.ReplaceAll(w.insert, "$1::bigint", "i")+fmt.Sprintf(" FROM generate_series(0, %d) AS i", n-1))
	}
	execute(t, reader, "ANALYZE")

	var writers sync.WaitGroup
	var longest atomic.Int64
	ended := make(chan struct{})
	for n := range 4 {
		c := connect(t, url)
		execute(t, c, "SET statement_timeout = '2s'; SET plan_cache_mode = force_generic_plan")
		writers.Go(func() {
			for i := rows + n; ; i += 4 {
				for _, w := range tables {
					for _, statement := range []string{w.insert, w.update} {
						began := time.Now()
						if _, err := c.Exec(context.Background(), statement, i); err != nil {
							t.Errorf("%v in %s", err, statement)
							return
						}
						longest.Store(max(longest.Load(), time.Since(began).Microseconds()))
					}
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	execute(t, reader, "BEGIN")
	for _, w := range tables {
		execute(t, reader, "SELECT FROM "+w.name+" LIMIT 1")
	}
	migrated := make(chan error, 1)
	db := opened(t, url)
	var took time.Duration
	go func() {
		began := time.Now()
		err := db.Migrate(t.Context())
		took = time.Since(began)
		migrated <- errors.Join(err, partition(t.Context(), db))
	}()
	execute(t, reader, "SELECT pg_sleep(2)")
	execute(t, reader, "COMMIT")
	must.Succeed(t, <-migrated)
	close(ended)
	writers.Wait()
	t.Logf("migrations of %q with %d rows took %s, the longest statement of a writer about %d ms", large, rows, took.Round(time.Millisecond), longest.Load()/1000)
}

// TestAMigrationThatIsKilledIsRepeated kills the command after 20 changes of the schema, after 40 in the next
// attempt and so on, until it has migrated and partitioned the database, which then is as one that was migrated at once.
func TestAMigrationThatIsKilledIsRepeated(t *testing.T) {
	t.Parallel()
	race.Skip(t, "commands of the program migrate")
	url := postgres.URL(t)
	watch := connect(t, url)
	execute(t, watch, `CREATE SCHEMA stops; CREATE SEQUENCE stops.left INCREMENT -1 MAXVALUE 1000000;
		CREATE FUNCTION stops.stop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('stops.left') = 1 THEN PERFORM pg_sleep(600); END IF; END $$;
		CREATE EVENT TRIGGER stop ON ddl_command_end EXECUTE FUNCTION stops.stop()`)
	s := &collabd.Server{Dir: t.TempDir()}
	killed := 0
	for migrated := false; !migrated; {
		execute(t, watch, fmt.Sprintf("SELECT setval('stops.left', %d)", 20*(killed+1)))
		c := s.Command(t, []string{"migrate", "--partition"}, "COLLAB_DATABASE_URL="+url, "COLLAB_DATA_DIR="+s.Dir)
		var output bytes.Buffer
		c.Stderr = &output
		must.NoError(t, c.Start())
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		must.Wait(t, "the command stops or ends", func() bool {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%v\n%s", err, &output)
				}
				migrated = true
				return true
			default:
			}
			var stopped int
			must.NoError(t, watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'").Scan(&stopped))
			return stopped > 0
		})
		if !migrated {
			killed++
			_ = c.Process.Kill()
			<-ended
			// Postgres notices that at the end of the statement.
			execute(t, watch, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'")
		}
	}
	if killed < 5 {
		t.Errorf("it was killed %d times", killed)
	}
	other := postgres.URL(t)
	db := opened(t, other)
	must.NoError(t, errors.Join(db.Migrate(t.Context()), db.Partition(t.Context(), func(string, int64, bool) {})))
	must.Equal(t, schemaOf(t, connect(t, other)), schemaOf(t, watch)) // migrated at once, and killed and repeated
}

// schemaOf returns the columns, indexes, constraints, triggers and functions of a database.
func schemaOf(t *testing.T, c *pgx.Conn) []string {
	rows, err := c.Query(t.Context(), `WITH here AS (SELECT oid FROM pg_namespace WHERE nspname = 'public')
		SELECT concat_ws(' ', c.relname, c.relkind, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)) AS line
			FROM pg_class c JOIN here ON relnamespace = here.oid LEFT JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		UNION ALL SELECT pg_get_indexdef(c.oid) FROM pg_class c JOIN here ON relnamespace = here.oid WHERE relkind IN ('i', 'I')
		UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(r.oid), convalidated) FROM pg_constraint r JOIN here ON connamespace = here.oid
		UNION ALL SELECT pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = tgrelid JOIN here ON relnamespace = here.oid WHERE NOT tgisinternal
		UNION ALL SELECT pg_get_functiondef(f.oid) FROM pg_proc f JOIN here ON pronamespace = here.oid
		UNION ALL SELECT 'version ' || max(version_id) FROM goose_db_version
		ORDER BY line`)
	must.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines
}

// migrationsSince returns the statements of the migrations on Postgres since a release.
func migrationsSince(t *testing.T, release previous.Release) (statements string) {
	files, err := filepath.Glob("../../adapters/gormdb/migrations/postgres/*.sql")
	if err != nil || int64(len(files)) != gormdb.Schema() {
		t.Fatalf("there are %d migrations, %v", len(files), err)
	}
	for _, file := range files[release.Schema:] {
		text := must.Do(os.ReadFile(file)).Or(t)
		statements += string(text)
	}
	return regexp.MustCompile(`--.*`).ReplaceAllString(statements, "")
}

// partition partitions the tables in a soak.
func partition(ctx context.Context, db *gormdb.DB) error {
	if !soak.Full() {
		return nil
	}
	return db.Partition(ctx, func(string, int64, bool) {})
}

// writtenTable has the statements that write row $1 of a table.
type writtenTable struct{ name, insert, update string }

// writtenTables returns the tables that servers write to, in an order in which rows of the same
// number refer to each other.
func writtenTables(t *testing.T, c *pgx.Conn) (all []writtenTable) {
	for _, name := range gormdb.ComparedTables() {
		if name == "release_revision" { // it has one row
			continue
		}
		found, err := c.Query(t.Context(), `SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1
			AND (is_nullable = 'NO' AND column_default IS NULL OR column_name = 'org_id') ORDER BY ordinal_position`, name)
		must.NoError(t, err)
		var columns, values, same []string
		var column, kind string
		must.Do(pgx.ForEachRow(found, []any{&column, &kind}, func() error {
			const id = "('00000000-0000-4000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid"
			value := map[string]string{
				"uuid": fmt.Sprintf(id, "$1::bigint"), "text": "'x' || $1::bigint", "bigint": "$1::bigint", "boolean": "false", "bytea": `''::bytea`,
			}[kind]
			if column == "org_id" && name != "subscriptions" && name != "log_heads" { // which have one row of each
				value = fmt.Sprintf(id, "$1::bigint % 100")
			}
			columns, values, same = append(columns, column), append(values, value), append(same, column+" = "+value)
			return nil
		})).Or(t)
		if len(columns) == 0 { // the release does not have it
			continue
		}
		last := columns[len(columns)-1]
		all = append(all, writtenTable{
			name: name, insert: "INSERT INTO " + name + " (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", "),
			update: "UPDATE " + name + " SET " + last + " = " + last + " WHERE " + strings.Join(same, " AND "),
		})
	}
	return all
}

func connect(t *testing.T, url string) *pgx.Conn {
	c := must.Do(pgx.Connect(t.Context(), url)).Or(t)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func execute(t *testing.T, c *pgx.Conn, statement string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%v in %s", err, statement)
	}
}

// chat has one chat after the other with either server until the context ends, and counts those that
// were completed.
func (f *cluster) chat(ctx context.Context, u collabd.Client, completed *atomic.Int64) {
	for i := 0; ctx.Err() == nil && !f.Failed(); i++ {
		status, body, err := u.At(f.servers[i%2]).Do("POST", "/chat", map[string]any{"message": "How are you?"})
		switch {
		case err == nil && status == http.StatusOK && strings.Contains(string(body), `"type":"done"`):
			completed.Add(1)
		case err == nil && status != http.StatusOK && status != http.StatusServiceUnavailable:
			f.Errorf("a chat is %d: %s", status, body)
		default:
			time.Sleep(retryDelay)
		}
	}
}

// checkChats compares the accounts, the reservations and the ledger with the chats that were completed.
func (f *cluster) checkChats(db *sql.DB, completed int64) {
	var entries, spent, used, reserved, leases int64
	if err := db.QueryRowContext(f.Context(), `SELECT
		(SELECT count(*) FROM usage_entries WHERE outcome = 'completed'), (SELECT sum(input + output + cache_read + cache_made) FROM usage_entries),
		(SELECT sum(used) FROM quota_accounts), (SELECT sum(reserved) FROM quota_accounts), (SELECT count(*) FROM quota_leases)`).
		Scan(&entries, &spent, &used, &reserved, &leases); err != nil {
		f.Fatal(err)
	}
	if completed == 0 || entries < completed || spent != used || reserved != 0 || leases != 0 {
		f.Errorf("%d chats were completed, the ledger has %d; its entries come to %d tokens, the accounts to %d; %d tokens of %d leases are reserved",
			completed, entries, spent, used, reserved, leases)
	}
	f.Logf("%d chats were completed", completed)
}

// checkStorage compares what a present server counts as stored with the objects and their earlier versions, of
// which servers of the previous release wrote some without counting them.
func (f *cluster) checkStorage(db *sql.DB, at *collabd.Server) {
	for _, c := range f.tenants {
		owner := c.users[0].At(at)
		var stored int64
		must.NoError(f, db.QueryRowContext(f.Context(), "SELECT sum(size) FROM (SELECT size FROM objects WHERE org_id = $1 UNION ALL SELECT size FROM object_versions WHERE org_id = $1) s", owner.Org).Scan(&stored))
		var counted struct{ Used int64 }
		if owner.Must(f, 200, "GET", "/metering/storage", nil, &counted); counted.Used != stored {
			f.Errorf("%s has stored %d bytes, and %d are counted", owner.Org, stored, counted.Used)
		}
	}
}
