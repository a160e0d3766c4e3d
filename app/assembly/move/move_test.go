package move

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/app/assembly/backup"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/test/must"
	"collab/test/postgres"
	"collab/test/race"
	"collab/test/tempdir"
)

const (
	org      = "0198a1b2-c3d4-7e5f-8a6b-000000000001"
	someUser = "0198a1b2-c3d4-7e5f-8a6b-0000000000ff"
	contents = batchSize + 20
)

// deployment is a data directory with records and content.
type deployment struct {
	*testing.T
	directory string
	config    config.Config
}

func contentName(i int) string { return fmt.Sprintf("%s/shared/artifacts/%04d@1", org, i) }

func contentText(i int) string { return strings.Repeat(fmt.Sprintf("content %d\n", i), i%7) }

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	directory := filepath.Join(tempdir.New(t), "data")
	c := must.Do(config.Read([]string{"COLLAB_DATA_DIR=" + directory, "COLLAB_LOG_FORMAT=json"})).Or(t)
	d := &deployment{t, directory, c}
	db, err := gormdb.Open(t.Context(), gormdb.Options{URL: c.DatabaseURL.Text()})
	if err == nil {
		err = errors.Join(db.Migrate(t.Context()), db.Close())
	}
	must.NoError(t, err)
	store := d.store(c.BlobURL.Text())
	rows := d.rows(c.DatabaseURL.Text())
	d.exec(rows, "UPDATE log_epoch SET epoch = 777")
	d.exec(rows, "INSERT INTO organisations (id, provider_id, name, slug, created_at, updated_at, is_full, seen_at, seen_rank, seen_message, created_by, created_by_seen_at, created_by_seen_rank, created_by_seen_message) VALUES ('"+org+"', 'p', 'é', '', 1, 1, 1, 1, 1, '', '', 1, 1, '')")
	tx := must.Do(rows.Begin()).Or(t)
	for i := range contents {
		id := fmt.Sprintf("0198a1b2-c3d4-7e5f-8a6b-%012d", i)
		text := contentText(i)
		_, err := tx.Exec("INSERT INTO objects (org_id, id, storage_key, folded_key, path, kind, scope, mime_type, version, created_by, updated_by, created_at, updated_at, blob, size, checksum, is_text, n) VALUES (?, ?, ?, ?, '', '', '', 'text/plain', 1, ?, ?, 1, 1, ?, ?, ?, 1, 1)",
			org, id, contentName(i), contentName(i), someUser, someUser, contentName(i), len(text), must.Sum(text))
		if err == nil {
			_, err = tx.Exec("INSERT INTO tasks (org_id, id, title, status, priority, tags, sort_order, created_by, created_at, updated_at, version) VALUES (?, ?, 'A task', 'TODO', 'LOW', '[\"a\"]', ?, ?, 1, 1, 1)", org, id, i, someUser)
		}
		if err == nil {
			err = store.Put(t.Context(), contentName(i), "text/plain", -1, strings.NewReader(text))
		}
		must.NoError(t, err)
	}
	must.NoError(t, tx.Commit())
	rows.Close()
	for _, name := range backup.SmallFiles[:2] {
		must.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte("the secret of "+name), 0o600))
	}
	return d
}

func (d *deployment) store(address string) *bucket.Bucket {
	d.Helper()
	b := must.Do(bucket.Open(d.Context(), address)).Or(d)
	d.Cleanup(func() { b.Close() })
	return b
}

func (d *deployment) rows(address string) *sql.DB {
	d.Helper()
	driver, source := "pgx", address
	if path, ok := strings.CutPrefix(address, "sqlite://"); ok {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	db := must.Do(sql.Open(driver, source)).Or(d)
	d.Cleanup(func() { db.Close() })
	return db
}

func (d *deployment) exec(db *sql.DB, statement string) {
	d.Helper()
	must.Do(db.ExecContext(d.Context(), statement)).Or(d)
}

// move runs the command and returns what it printed, in which there must be no secret.
func (d *deployment) move(o Options) (printed string, err error) {
	d.Helper()
	var out, log bytes.Buffer
	err = Run(d.Context(), d.config, o, &out, &log)
	for _, text := range []string{out.String(), log.String(), fmt.Sprint(err)} {
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, "the secret of") {
			d.Errorf("a secret is printed: %s", text)
		}
	}
	return out.String(), err
}

func (d *deployment) mustMove(o Options) string {
	d.Helper()
	printed, err := d.move(o)
	if err != nil || strings.Contains(printed, "DIFFERENT") {
		d.Fatalf("%v\n%s", err, printed)
	}
	return printed
}

func (d *deployment) mustFail(o Options, want string) {
	d.Helper()
	if printed, err := d.move(o); err == nil || !strings.Contains(err.Error(), want) {
		d.Errorf("it ended with %v, not %q:\n%s", err, want, printed)
	}
}

// newTarget returns an empty database, whose address has a password, and an empty store.
func newTarget(t *testing.T) Options {
	t.Helper()
	u := must.Do(url.Parse(postgres.URL(t))).Or(t)
	u.User = url.UserPassword(u.User.Username(), "s3cr3t")
	return Options{To: u.String(), Blobs: "file://" + filepath.Join(tempdir.New(t), "store")}
}

// closed reports whether servers refuse the database, and why.
func closed(t *testing.T, address string) bool {
	t.Helper()
	db, err := gormdb.Open(t.Context(), gormdb.Options{URL: address})
	if err == nil {
		db.Close()
	}
	return err != nil && strings.Contains(err.Error(), "collabd move")
}

// digestLines are the lines of a comparison without its first.
func digestLines(printed string) (lines []string) {
	for line := range strings.Lines(printed) {
		if strings.HasSuffix(strings.TrimSpace(line), "equal") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestADataDirectoryMovesThereAndBack(t *testing.T) {
	d := newDeployment(t)
	o := newTarget(t)
	there := d.mustMove(o)
	if closed(t, o.To) {
		t.Error("the target is closed")
	}
	var epoch int
	if err := d.rows(o.To).QueryRow("SELECT epoch FROM log_epoch").Scan(&epoch); err != nil || epoch != 777 {
		t.Errorf("the epoch is %d, %v", epoch, err)
	}
	for _, want := range []string{"COLLAB_TOKEN_KEYS", filepath.Join(d.directory, "secrets-keys.json"), "COLLAB_BLOB_URL"} {
		if !strings.Contains(there, want) {
			t.Errorf("%s is not named:\n%s", want, there)
		}
	}
	d.mustFail(o, "not empty")

	directory := filepath.Join(tempdir.New(t), "copy")
	back := d.mustMove(Options{From: o.To, FromBlobs: o.Blobs, To: directory})
	if want, got := digestLines(there), digestLines(back); len(want) < len(gormdb.TransferTables) || strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("there\n%sand back\n%s", there, back)
	}
	// A directory has its keys with it.
	again := filepath.Join(tempdir.New(t), "again")
	d.mustMove(Options{From: d.directory, To: again})
	for _, name := range backup.SmallFiles[:2] {
		text, err := os.ReadFile(filepath.Join(again, name))
		if err != nil || string(text) != "the secret of "+name {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	d.mustFail(Options{To: d.directory}, "the same")
}

func TestADatabaseMovesWithinItsDirectory(t *testing.T) {
	d := newDeployment(t)
	link := filepath.Join(tempdir.New(t), "link")
	must.NoError(t, os.Symlink(d.directory, link))
	t.Chdir(filepath.Dir(link))
	o := Options{To: "sqlite://link/other.db"}
	d.mustMove(o)
	if closed(t, o.To) {
		t.Error("the target is closed")
	}
}

func TestAMoveThatIsInterruptedAnywhereContinues(t *testing.T) {
	race.Skip(t, "its many attempts copy as one does")
	d := newDeployment(t)
	o := newTarget(t)
	attempts := 0
	for step := 1; ; step += 23 {
		calls := 0
		ctx, cancel := context.WithCancel(t.Context())
		o.copied = func(records, contents int) error {
			if records > 0 || contents > 0 {
				calls++
			}
			if calls == step {
				if attempts%2 == 0 {
					cancel()
				} else {
					return errors.New("planned")
				}
			}
			return nil
		}
		var out, log bytes.Buffer
		err := Run(ctx, d.config, o, &out, &log)
		cancel()
		if err == nil {
			break
		}
		if message := err.Error(); !strings.Contains(message, "planned") && !strings.Contains(message, "call it again") {
			t.Fatal(err)
		}
		attempts++
		if !closed(t, o.To) {
			t.Fatal("an incomplete target is open")
		}
	}
	if attempts < 5 {
		t.Errorf("only %d attempts were interrupted", attempts)
	}
	if closed(t, o.To) {
		t.Error("the target is closed")
	}
	// All of it is readable.
	must.Do(d.move(Options{From: o.To, FromBlobs: o.Blobs, To: filepath.Join(tempdir.New(t), "copy")})).Or(t)
}

func TestContentThatIsNotWhatRecordsSayEndsAMove(t *testing.T) {
	d := newDeployment(t)
	o := newTarget(t)
	const damaged = 13
	path := filepath.Join(d.directory, "blobs", filepath.FromSlash(bucket.KeyOf(contentName(damaged))))
	for what, content := range map[string]string{"changed": strings.ToUpper(contentText(damaged)), "too short": "content", "too long": contentText(damaged) + "!"} {
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		printed, err := d.move(o)
		if err == nil || !strings.Contains(err.Error(), contentName(damaged)) || strings.Contains(printed, "complete") {
			t.Errorf("%s content ends with %v\n%s", what, err, printed)
		}
		if _, err := d.store(o.Blobs).Open(t.Context(), contentName(damaged), 0, -1); err == nil {
			t.Errorf("%s content is in the target", what)
		}
	}
	must.NoError(t, os.Remove(path))
	d.mustFail(o, "is missing in")
	if !closed(t, o.To) {
		t.Error("the target is open")
	}
	must.NoError(t, os.WriteFile(path, []byte(contentText(damaged)), 0o600))
	// What is in the target under the name is replaced unless it is the content.
	must.NoError(t, d.store(o.Blobs).Put(t.Context(), contentName(damaged), "", -1, strings.NewReader("other")))
	d.mustMove(o)
}

func TestADifferenceKeepsTheTargetClosed(t *testing.T) {
	for what, change := range map[string]func(d *deployment, o Options){
		"a record": func(d *deployment, o Options) {
			d.exec(d.rows(o.To), "UPDATE tasks SET title = 'by hand' WHERE sort_order = 7")
		},
		"a tag": func(d *deployment, o Options) { d.exec(d.rows(o.To), "DELETE FROM task_tags WHERE sort_order = 7") },
		"a content": func(d *deployment, o Options) {
			must.Succeed(d, d.store(o.Blobs).Put(d.Context(), "another", "", -1, strings.NewReader("x")))
		},
	} {
		t.Run(what+" that is changed by hand is found", func(t *testing.T) {
			d := newDeployment(t)
			o := newTarget(t)
			n := 0
			o.copied = func(_, contents int) error {
				if n += contents; n == 1 && contents == 1 {
					change(d, o)
				}
				return nil
			}
			printed, err := d.move(o)
			if !errors.Is(err, ErrDiffers) || !strings.Contains(printed, "DIFFERENT") || what != "a content" && !strings.Contains(printed, org) {
				t.Errorf("%v\n%s", err, printed)
			}
			if !closed(t, o.To) {
				t.Error("the target is open")
			}
			o.copied = nil
			d.mustFail(o, ErrDiffers.Error())
			abandoned, err := d.move(Options{To: o.To, Blobs: o.Blobs, Abandon: true})
			if err != nil {
				t.Fatalf("%v\n%s", err, abandoned)
			}
			if closed(t, o.To) {
				t.Error("the target is closed")
			}
			d.mustMove(o)
			d.mustFail(Options{To: o.To, Blobs: o.Blobs, Abandon: true}, "No move")
		})
	}
}

// interrupted begins a move that ends after a number of contents.
func (d *deployment) interrupted(o Options, after int) {
	d.Helper()
	o.copied = func(_, contents int) error {
		if after -= contents; contents > 0 && after <= 0 {
			return errors.New("planned")
		}
		return nil
	}
	d.mustFail(o, "planned")
}

// interruptedBack moves the deployment to a new target, and begins a move back to a new directory that
// ends after a batch of contents. It returns the options of both.
func (d *deployment) interruptedBack() (there, back Options) {
	d.Helper()
	there = newTarget(d.T)
	d.mustMove(there)
	back = Options{From: there.To, FromBlobs: there.Blobs, To: filepath.Join(tempdir.New(d.T), "copy")}
	d.interrupted(back, batchSize+1)
	return there, back
}

func TestContentThatIsSavedBetweenTwoCallsIsCopied(t *testing.T) {
	d := newDeployment(t)
	there, back := d.interruptedBack()
	first := contentName(0) + "!" // before those that were copied
	must.NoError(t, d.store(there.Blobs).Put(t.Context(), first, "", -1, strings.NewReader(contentText(1))))
	rows := d.rows(there.To)
	d.exec(rows, "UPDATE objects SET blob = '"+first+"' WHERE blob = '"+contentName(1)+"'")
	d.mustMove(back) // which has contentName(1) too
	r := must.Do(d.store("file://"+filepath.Join(back.To, "blobs")).Open(t.Context(), first, 0, -1)).Or(t)
	r.Close()
}

func TestASourceWithServersMovesWithANewEpoch(t *testing.T) {
	d := newDeployment(t)
	there := newTarget(t)
	d.mustMove(there)
	rows := d.rows(there.To)
	for _, when := range []string{"no time", "a moment before", "the beginning", "the end"} {
		directory := filepath.Join(tempdir.New(t), "copy")
		back := Options{From: there.To, FromBlobs: there.Blobs, To: directory}
		var server *gormdb.DB
		connect := func() (err error) {
			server, err = gormdb.Open(t.Context(), gormdb.Options{URL: there.To})
			return err
		}
		var stopping sync.WaitGroup
		moving, moved := context.WithCancel(t.Context())
		switch when {
		case "the beginning":
			must.NoError(t, connect())
		case "a moment before": // it is waited for
			must.NoError(t, connect())
			stopping.Go(func() {
				const waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'collab move' AND query LIKE '%pg_sleep%') FROM pg_sleep(0.01)"
				for waiting := false; !waiting; {
					if err := rows.QueryRowContext(moving, waits).Scan(&waiting); err != nil {
						t.Error(err)
						return
					}
				}
				must.Succeed(t, server.Close())
			})
		}
		back.copied = func(int, int) (err error) {
			switch {
			case when == "the beginning" && server != nil:
				err = server.Close()
				server = nil
			case when == "the end" && server == nil:
				err = connect()
			}
			return err
		}
		printed := d.mustMove(back)
		moved()
		if stopping.Wait(); when != "a moment before" && server != nil {
			server.Close()
		}
		var epoch int
		if err := d.rows("sqlite://" + filepath.Join(directory, "collab.db")).QueryRow("SELECT epoch FROM log_epoch").Scan(&epoch); err != nil || (epoch == 777) != (when == "no time" || when == "a moment before") {
			t.Errorf("with servers at %s the epoch is %d, %v", when, epoch, err)
		}
		if strings.Contains(printed, "read everything again") != (epoch != 777) {
			t.Errorf("with servers at %s it prints\n%s", when, printed)
		}
	}
}

func TestAMissingContentKeepsAResumedTargetClosed(t *testing.T) {
	d := newDeployment(t)
	_, back := d.interruptedBack()
	copied := 0
	back.copied = func(_, contents int) error {
		if copied += contents; copied == batchSize+1 && contents > 0 {
			return d.store("file://"+filepath.Join(back.To, "blobs")).Remove(t.Context(), contentName(0))
		}
		return nil
	}
	d.mustFail(back, ErrDiffers.Error())
}

func TestAnotherKeyInTheTargetIsRefused(t *testing.T) {
	for what, attempts := range map[string]int{"meanwhile": 1, "between two calls": 2} {
		t.Run(what, func(t *testing.T) {
			d := newDeployment(t)
			o := Options{To: filepath.Join(tempdir.New(t), "copy")}
			other := func() error {
				return os.WriteFile(filepath.Join(o.To, backup.SmallFiles[0]), []byte("another"), 0o600)
			}
			if attempts == 2 {
				d.interrupted(o, 1)
				must.NoError(t, other())
			} else {
				n := 0
				o.copied = func(_, contents int) error {
					if n += contents; n == 1 && contents == 1 {
						return other()
					}
					return nil
				}
			}
			d.mustFail(o, "it has another")
			if err := gormdb.CopySQLite(t.Context(), "sqlite://"+filepath.Join(o.To, "collab.db"), filepath.Join(t.TempDir(), "backup.db")); err == nil || !strings.Contains(err.Error(), "not complete") {
				t.Errorf("a backup of the target ends with %v", err)
			}
			if !closed(t, "sqlite://"+filepath.Join(o.To, "collab.db")) {
				t.Error("the target is open")
			}
		})
	}
}

func TestOnlyTheStoreOfTheMoveIsEmptied(t *testing.T) {
	d := newDeployment(t)
	o := newTarget(t)
	other := tempdir.New(t)
	t.Chdir(tempdir.New(t))
	o.Blobs = "file://store"
	d.interrupted(o, 1)
	t.Chdir(other)
	store := d.store(o.Blobs)
	must.NoError(t, store.Put(t.Context(), "a", "", -1, strings.NewReader("x")))
	d.mustFail(Options{To: o.To, Blobs: o.Blobs, Abandon: true}, "pass the same")
	r := must.Do(store.Open(t.Context(), "a", 0, -1)).Or(t)
	r.Close()
}

func TestAddressesAreToldApart(t *testing.T) {
	for _, equal := range [][2]string{{"postgres://u:a@h/d?password=x", "postgres://u:b@h/d"}, {"file://x/../y", "file://y"}, {"", ""}} {
		if one, other := fingerprint(config.NewURL(equal[0])), fingerprint(config.NewURL(equal[1])); one != other {
			t.Errorf("%q is %q, and %q is %q", equal[0], one, equal[1], other)
		}
	}
	for _, different := range [][2]string{{"s3://b?endpoint=http://a", "s3://b?endpoint=http://c"}, {"postgres://h/d?search_path=a", "postgres://h/d"}, {"s3://b", ""}} {
		if one, other := fingerprint(config.NewURL(different[0])), fingerprint(config.NewURL(different[1])); one == other {
			t.Errorf("%q and %q are %q", different[0], different[1], one)
		}
	}
	c := must.Do(config.Read([]string{"COLLAB_DATA_DIR=" + t.TempDir()})).Or(t)
	if err := new(mover).chooseLocations(c, Options{From: "postgres://a/d", To: "postgres://b/d"}); err != nil {
		t.Errorf("content that stays is refused: %v", err)
	}
}

func TestTargetsAndSourcesThatAreUsedAreRefused(t *testing.T) {
	d := newDeployment(t)
	o := newTarget(t)
	locks := must.Do(datadir.LockServer(d.config, false)).Or(t)
	d.mustFail(o, "another server runs")
	for _, l := range locks {
		l.Close()
	}
	must.NoError(t, d.store(o.Blobs).Put(t.Context(), "a", "", -1, strings.NewReader("x")))
	d.mustFail(o, "is not empty")
	if closed(t, o.To) {
		t.Error("something was written")
	}
	d.mustFail(Options{From: filepath.Join(t.TempDir(), "none"), To: o.To}, "no such file")
	d.mustFail(Options{From: o.To, To: t.TempDir()}, "--from-blobs")
	d.mustFail(Options{To: "memory://"}, "keeps records")
	d.mustFail(Options{To: o.To, Blobs: "mem://"}, "keeps no content")
	d.mustFail(Options{From: o.To, FromBlobs: o.Blobs, To: t.TempDir()}, "collabd migrate")
	other := newDeployment(t)
	d.mustFail(Options{To: other.directory}, "not empty")
}

func TestAnArchiveMovesWithANewEpoch(t *testing.T) {
	d := newDeployment(t)
	archive := filepath.Join(t.TempDir(), "collab.tar.zst")
	var out bytes.Buffer
	must.NoError(t, backup.Write(t.Context(), d.config, "1.2.3", archive, &out, &out))
	o := newTarget(t)
	o.From = archive
	printed := d.mustMove(o)
	if !strings.Contains(printed, "tar --zstd -xf "+archive) {
		t.Errorf("the keys are not named:\n%s", printed)
	}
	var epoch int64
	if err := d.rows(o.To).QueryRow("SELECT epoch FROM log_epoch").Scan(&epoch); err != nil || epoch <= 777 {
		t.Errorf("the epoch is %d, %v", epoch, err)
	}
	if left, err := filepath.Glob(archive + "?*"); err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

func TestContentAloneMovesBetweenStores(t *testing.T) {
	d := newDeployment(t)
	o := Options{Blobs: newTarget(t).Blobs}
	store := d.store(o.Blobs)
	must.NoError(t, store.Put(t.Context(), contentName(1), "", -1, strings.NewReader("other")))
	for range 2 { // again it finds all of it there
		d.mustMove(o)
		for i := range contents {
			ok, err := (&mover{toBlobs: store}).hasContent(t.Context(), gormdb.Content{Blob: contentName(i), Size: int64(len(contentText(i))), Checksum: must.Sum(contentText(i))})
			if err != nil || !ok {
				t.Fatalf("content %d: %v, %v", i, ok, err)
			}
		}
	}
}

func TestProgressIsABarOrLines(t *testing.T) {
	for _, bar := range []bool{true, false} {
		var out bytes.Buffer
		p := newProgress(config.Config{LogFormat: "json"}, false, &out)
		p.bar = bar
		p.start("records", 100)
		p.last = p.last.Add(-logInterval)
		p.add(50)
		p.add(50)
		p.end()
		want := `"done":50,"total":100`
		if bar {
			want = "records    [###############...............] 50 of 100"
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("it says %q", out.String())
		}
	}
	var out bytes.Buffer
	p := newProgress(config.Config{}, true, &out)
	p.start("records", 1)
	p.add(1)
	p.end()
	if out.Len() > 0 {
		t.Errorf("quiet is %q", out.String())
	}
}

func TestArgumentsAreCompleteOrRefused(t *testing.T) {
	for call, ok := range map[string]bool{
		"--to postgres://x/y": true, "--to=dir --blobs file://x --quiet": true, "--blobs s3://b": true, "--from a --from-blobs b --to c": true, "--to x --abandon": true,
		"": false, "x": false, "--to": false, "--to x y": false, "--unknown": false, "--abandon": false, "--abandon --blobs x": false,
	} {
		if _, err := Parse(strings.Fields(call)); (err == nil) != ok {
			t.Errorf("%q is %v", call, err)
		}
	}
}
