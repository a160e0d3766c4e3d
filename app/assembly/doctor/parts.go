package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/adapters/natsbus"
	"collab/adapters/servicetoken"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/domain/fault"
)

// Free space, in bytes, under which a disk is about to be full, and under which
// that is worth a word.
const (
	littleSpace = 100 << 20
	someSpace   = 1 << 30
)

// knockWithin is how long the doctor waits for a server of ours.
const knockWithin = 3 * time.Second

// address tries to listen, though not where somebody does already: a server that
// starts meanwhile is to find the address free.
func (d *doctor) address(ctx context.Context, l *lines) {
	host, port, err := net.SplitHostPort(string(d.c.Listen))
	if err == nil {
		err = listens(net.JoinHostPort(host, "0"))
	}
	if err != nil {
		l.wrong("set COLLAB_LISTEN to an address of this machine", "cannot listen on %s: %s", d.c.Listen, err)
		return
	}
	var taken error
	if port != "0" {
		conn, err := (&net.Dialer{Timeout: knockWithin}).DialContext(ctx, "tcp", string(d.c.Listen))
		if err == nil {
			_ = conn.Close()
			taken = syscall.EADDRINUSE
		}
	}
	if taken == nil {
		taken = listens(string(d.c.Listen))
	}
	switch {
	case taken == nil:
		l.ok("%s is free to listen on", d.c.Listen)
	case errors.Is(taken, syscall.EADDRINUSE):
		l.note("right if that is this server; otherwise end it, or set COLLAB_LISTEN", "a server listens on %s already", d.c.Listen)
	case errors.Is(taken, syscall.EACCES):
		l.wrong("set COLLAB_LISTEN to a port above 1023, or give the service the right (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE)", "not permitted to listen on %s", d.c.Listen)
	default:
		l.wrong("set COLLAB_LISTEN", "cannot listen on %s: %s", d.c.Listen, taken)
	}
}

// listens tells whether that would work, by doing it for a moment.
func listens(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// publicURL looks at the addresses that people and providers come to.
func (d *doctor) publicURL(ctx context.Context, l *lines) {
	l.warn()
	if !d.c.PublicURL.IsSet() {
		l.note("", "http://localhost and the port, as COLLAB_PUBLIC_URL is not set")
		return
	}
	host := d.c.PublicURL.Hostname()
	const later = "right before the first start; otherwise look at the name server's entry, the proxy and COLLAB_PUBLIC_URL"
	to, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		l.note(later, "%s is not to be found from here: %s", host, err)
		return
	}
	// Not timed: what answers there may be this very machine.
	client := &http.Client{Timeout: knockWithin, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status, err := get(ctx, client, d.c.PublicURL.Text()+"/healthz")
	switch {
	case err != nil:
		l.note(later, "%s (%s) does not answer: %s", d.c.PublicURL.String(), strings.Join(to, ", "), err)
	case status != http.StatusOK:
		l.note(later, "%s answers %d for /healthz, which a server that runs does not", d.c.PublicURL.String(), status)
	default:
		l.ok("%s (%s) answers", d.c.PublicURL.String(), strings.Join(to, ", "))
	}
}

// proxies reports from whom X-Forwarded-For is trusted. In production there is a proxy,
// as the server does not speak TLS.
func (d *doctor) proxies(_ context.Context, l *lines) {
	switch {
	case len(d.c.Proxies) > 0:
		l.ok("X-Forwarded-For is trusted from %d addresses and networks", len(d.c.Proxies))
	case !d.c.Production():
		l.note("", "X-Forwarded-For is ignored, as COLLAB_TRUSTED_PROXIES is not set")
	default:
		const remedy = "set COLLAB_TRUSTED_PROXIES to the addresses that the proxy comes from"
		if rate := d.c.RateLimits.Address; rate.Count > 0 {
			l.note(remedy+", or leave address= and webhook= out of COLLAB_RATE_LIMITS", "all clients of a proxy have its address: they share the limit of %d requests in %g seconds", rate.Count, rate.Per.Seconds())
			return
		}
		l.note(remedy, "all clients of a proxy have its address, in the log and the audit log")
	}
}

// get asks for a page and returns the status.
func get(ctx context.Context, client *http.Client, address string) (status int, err error) {
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	return answer.StatusCode, answer.Body.Close()
}

// data looks at the folder of embedded state.
func (d *doctor) data(_ context.Context, l *lines) {
	if d.c.Production() && d.c.SMTPURL.IsSet() {
		l.note("", "COLLAB_DATA_DIR is not used")
		return
	}
	switch there, good := d.folder(l, d.c.DataDir, "COLLAB_DATA_DIR"); {
	case good && there:
		l.ok("%s can be written to", d.c.DataDir)
	case good:
		l.note("", "%s is made at the first start", d.c.DataDir)
	}
}

// folder looks at one that is to be written to, or can be made where it is not
// there.
func (d *doctor) folder(l *lines, path, variable string) (exists, good bool) {
	there := path
	for {
		info, err := os.Stat(there)
		if err == nil && !info.IsDir() {
			l.wrong("set "+variable, "%s is not a folder", there)
			return false, false
		}
		if err == nil {
			break
		}
		if parent := filepath.Dir(there); errors.Is(err, fs.ErrNotExist) && parent != there {
			there = parent
			continue
		}
		l.wrong("set "+variable, "%s cannot be reached: %s", path, err)
		return false, false
	}
	if err := canWrite(there); err != nil {
		l.wrong("give it to the user that the server runs as (chown, chmod 700), or set "+variable, "%s cannot be written to: %s", there, err)
		return false, false
	}
	d.space(l, there)
	return there == path, true
}

// canWrite makes a file in a folder and removes it.
func canWrite(folder string) error {
	f, err := os.CreateTemp(folder, ".collabd-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (d *doctor) space(l *lines, folder string) {
	free, _, ok := disk(folder)
	switch {
	case ok && free < littleSpace:
		l.wrong("make room: writes fail when there is none", "%d MiB are free at %s", free>>20, folder)
	case ok && free < someSpace:
		l.note("", "%d MiB are free at %s", free>>20, folder)
	}
}

// database looks at the database, its schema, and what the configuration says of
// its content.
func (d *doctor) database(ctx context.Context, l *lines) {
	if d.c.Database() == "memory" {
		l.note("", "nothing is kept: COLLAB_DATABASE_URL is memory://")
		return
	}
	lock, err := d.lockDatabase()
	if err != nil {
		l.wrong("wait for the end of that, and see that the user that the server runs as may write its files", "%s", err)
		return
	}
	defer lock.Close()
	found, err := gormdb.Inspect(ctx, d.c.DatabaseURL.Text(), d.c.ReleaseOrgs)
	if err == nil || found.Postgres == nil {
		d.reached(l, found, err)
	} else {
		l.wrong("look at the server's log, and at what the user may read", "%s answers, and not what it is asked: %s", found.Where, err)
	}
	if err == nil {
		d.schema(l, found)
		d.publishers(l, found)
	}
}

// lockDatabase keeps a database on SQLite from being replaced while it is looked at. It
// creates no file: where there is no lock file, nothing replaces the database.
func (d *doctor) lockDatabase() (io.Closer, error) {
	path, err := gormdb.SQLiteFile(d.c.DatabaseURL.Text())
	if err == nil {
		_, err = os.Stat(path + "-lock")
	}
	if err != nil {
		return io.NopCloser(nil), nil
	}
	return datadir.LockDatabase(d.c, false)
}

// reached says how it is to reach the database.
func (d *doctor) reached(l *lines, found gormdb.Condition, err error) {
	if d.c.Database() == "sqlite" {
		d.sqlite(l, found, err)
		return
	}
	switch {
	case found.Where == "":
		l.wrong("mend COLLAB_DATABASE_URL", "%s", err)
		return
	case fault.Is(err, fault.Unauthenticated):
		l.wrong("set the right user and password in COLLAB_DATABASE_URL", "%s: %s", found.Where, err)
		return
	case fault.Is(err, fault.NotFound):
		l.wrong("make it (CREATE DATABASE … ENCODING 'UTF8'), or set COLLAB_DATABASE_URL", "%s: %s", found.Where, err)
		return
	case err != nil:
		l.wrong("start it, let this machine reach it, or set COLLAB_DATABASE_URL", "%s: %s", found.Where, err)
		return
	}
	p := found.Postgres
	d.compare(reading{"the database", p.Now, 0, p.Asked, p.Answered})
	l.ok("%s at %s answers in %s", found.Product, found.Where, milliseconds(found.Took))
	if p.ReadOnly {
		l.wrong("name the primary in COLLAB_DATABASE_URL", "it takes no writes: it is a standby, or set to read only")
	}
	if !p.UTF8 {
		l.wrong("make a database with ENCODING 'UTF8', and move there", "it keeps texts in another encoding than UTF-8")
	}
	if p.Withheld > 0 {
		l.wrong(fmt.Sprintf("as their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %q", p.User), "%s may not read and write %d of its tables", p.User, p.Withheld)
	}
	if p.Volatile {
		l.inProduction("set fsync and synchronous_commit to on", "a crash of it may undo what was answered already: fsync or synchronous_commit is off")
	}
	if p.Room < p.Pool {
		l.wrong("raise max_connections (or the limit of the user or database), or add pool_max_conns=… to COLLAB_DATABASE_URL",
			"it has room for %d connections of ours, and every server opens up to %d", p.Room, p.Pool)
	}
	if !p.Encrypted && d.c.DatabaseURL.Hostname() != "" && !d.c.DatabaseURL.Loopback() {
		l.note("add sslmode=verify-full to COLLAB_DATABASE_URL where the network is not yours alone", "the connection is not encrypted")
	}
	if p.SuperUser && d.c.Production() {
		l.note("make a user that owns this database alone", "%s is a superuser", p.User)
	}
}

func milliseconds(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1 ms"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func (d *doctor) sqlite(l *lines, found gormdb.Condition, err error) {
	folder := filepath.Dir(found.Where)
	switch {
	case found.Where == "":
		l.wrong("set COLLAB_DATABASE_URL", "%s", err)
		return
	case fault.Is(err, fault.NotFound):
		if _, good := d.folder(l, folder, "COLLAB_DATABASE_URL"); good {
			l.note("", "%s is made at the first start", found.Where)
		}
		return
	case errors.Is(err, context.DeadlineExceeded):
		l.note("have sqlite3 make it while the server stands still: PRAGMA quick_check", "%s is too large to be checked in %s", found.Where, checkWithin)
		return
	case err != nil:
		l.wrong("give the file to the user that the server runs as, restore it from a copy if it is damaged, or set COLLAB_DATABASE_URL", "%s: %s", found.Where, err)
		return
	}
	l.ok("%s in %s", found.Product, found.Where)
	if found.Damage != "" {
		l.wrong("stop the server, keep what is there, and restore the last good copy", "the file is damaged: %s", errors.New(found.Damage))
	}
	if err := canWrite(folder); err != nil {
		l.wrong("give the folder to the user that the server runs as (chown, chmod 700)", "its folder cannot be written to: %s", err)
	}
	if _, network, _ := disk(folder); network != "" {
		l.wrong("keep it on a disk of this machine, or use Postgres", "it lies on %s, whose locks do not keep it whole", network)
	}
	d.space(l, folder)
	if d.c.Production() {
		l.note("", "SQLite serves a single server; several need Postgres")
	}
}

func (d *doctor) schema(l *lines, found gormdb.Condition) {
	l.name = "schema"
	if found.Postgres != nil && found.Postgres.Withheld > 0 {
		l.note("", "unknown, as the database user lacks rights on tables")
		return
	}
	switch behind := found.Latest - found.Schema; {
	case behind == 0:
		l.ok("version %d", found.Schema)
	case behind < 0:
		l.note("right while servers are replaced one by one; otherwise this collabd is too old", "version %d, of which this collabd knows %d", found.Schema, found.Latest)
	case !d.c.Production():
		l.note("", "%d migrations are made at the next start, from version %d to %d", behind, found.Schema, found.Latest)
	case found.Schema == 0:
		l.wrong("run collabd migrate", "nothing was migrated yet")
	default:
		l.wrong("run collabd migrate before the new servers", "version %d, and this collabd needs %d", found.Schema, found.Latest)
	}
	if p := found.Postgres; p != nil && !p.Creates && !p.ReadOnly {
		const remedy = "as the owner: GRANT CREATE ON SCHEMA public TO "
		if found.Schema < found.Latest {
			l.wrong(remedy+p.User, "%s may not make tables, as migrations do", p.User)
		} else {
			l.note(remedy+p.User, "%s may not make tables: the next migration needs another user", p.User)
		}
	}
}

func (d *doctor) publishers(l *lines, found gormdb.Condition) {
	l.name = "releases"
	switch {
	case len(d.c.ReleaseOrgs) > 0 && found.Postgres != nil && found.Postgres.Withheld > 0:
		l.note("", "unknown, as the database user lacks rights on tables")
	case len(d.c.ReleaseOrgs) == 0 && d.c.Production():
		l.note("set COLLAB_RELEASE_ORGS where releases are published", "no organisation may publish releases")
	case len(d.c.ReleaseOrgs) == 0:
		l.note("", "every organisation may publish releases, as COLLAB_RELEASE_ORGS is not set")
	case len(found.Missing) > 0:
		l.wrong("take the id from GET /auth/me of somebody who is in it; it is there since they first signed in", "there is no organisation %s of COLLAB_RELEASE_ORGS", found.Missing[0])
	default:
		l.ok("COLLAB_RELEASE_ORGS: %d, all there", len(d.c.ReleaseOrgs))
	}
}

// rights of a store's credentials, by what its address begins with.
var rights = map[string]string{
	"gs":     "give the service account the role roles/storage.objectUser on the bucket, or set COLLAB_BLOB_URL",
	"s3":     "allow s3:ListBucket on the bucket and s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload in it, or set COLLAB_BLOB_URL",
	"azblob": "give the identity the role Storage Blob Data Contributor on the container, or set COLLAB_BLOB_URL",
	"file":   "give the folder to the user that the server runs as (chown, chmod 700), or set COLLAB_BLOB_URL",
}

// bucket writes an object, reads it and removes it.
func (d *doctor) bucket(ctx context.Context, l *lines) {
	where, kind := d.c.BlobURL.String(), d.c.BlobURL.Scheme()
	switch kind {
	case "mem":
		l.note("", "nothing is kept: COLLAB_BLOB_URL is mem://")
		return
	case "file":
		folder := d.c.BlobURL.Path()
		where = folder
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			if _, good := d.folder(l, folder, "COLLAB_BLOB_URL"); good {
				l.note("", "%s is made at the first start", folder)
			}
			return
		}
		d.space(l, folder)
	case "gs":
		at := "https://storage.googleapis.com"
		if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
			l.note("unset it to reach Google", "STORAGE_EMULATOR_HOST leads to %s", host)
			at = "http://" + host
		}
		// For its clock, and because Google's client goes on trying for long.
		if _, err := get(ctx, d.client("the object store"), at); err != nil {
			l.wrong("let this machine reach it, or set COLLAB_BLOB_URL", "%s does not answer: %s", at, err)
			return
		}
	}
	b, err := bucket.Open(ctx, d.c.BlobURL.Text())
	if err != nil {
		l.wrong("give the process credentials for it, or set COLLAB_BLOB_URL", "%s cannot be opened: %s", where, err)
		return
	}
	defer b.Close()
	began := now()
	name := "collabd-doctor/" + began.UTC().Format("20060102T150405Z") + "-" + system.IDs{}.New()
	content := []byte("Written and removed by collabd doctor.\n")
	step := "be listed"
	err = b.Ready(ctx)
	if err == nil {
		step = "be written to"
		// Whatever becomes of the rest: what may have come there is taken away again.
		defer func() {
			tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
			defer cancel()
			if left := b.Remove(tidy, name); left != nil && err == nil {
				l.wrong(rights[kind], "%s refuses to have objects removed%s: %s is left there", where, status(left), name)
				return
			}
			if err == nil {
				l.ok("%s: an object was written, read and removed in %s", where, milliseconds(now().Sub(began)))
			}
		}()
		err = b.Put(ctx, name, "text/plain", int64(len(content)), bytes.NewReader(content))
	}
	if err == nil {
		step = "be read"
		var r io.ReadCloser
		if r, err = b.Open(ctx, name, 0, -1); err == nil {
			var got []byte
			got, err = io.ReadAll(io.LimitReader(r, 1<<10))
			if err = errors.Join(err, r.Close()); err == nil && !bytes.Equal(got, content) {
				err = errors.New("it gives back something else than it was given")
			}
		}
	}
	switch code := bucket.Status(err); {
	case err == nil:
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		l.wrong(rights[kind], "%s refuses to %s%s", where, step, status(err))
	case code == http.StatusNotFound:
		l.wrong("make it, or set COLLAB_BLOB_URL", "%s is not there%s", where, status(err))
	case kind == "file":
		l.wrong(rights[kind], "%s cannot %s: %s", where, step, err)
	default:
		l.wrong("let this machine reach it, or set COLLAB_BLOB_URL", "%s cannot %s: %s", where, step, err)
	}
}

func status(err error) string {
	if code := bucket.Status(err); code != 0 {
		return fmt.Sprintf(" (%d)", code)
	}
	return ""
}

func (d *doctor) bus(ctx context.Context, l *lines) {
	if d.c.BusURL.Scheme() == "local" {
		l.note("several servers on one database need COLLAB_BUS_URL=nats://…", "within one server")
		return
	}
	servers, took, err := natsbus.Probe(ctx, d.c.BusURL.Text())
	switch {
	case err == nil:
		l.ok("%s: a message is there and back in %s", strings.Join(servers, ", "), milliseconds(took))
	case fault.Is(err, fault.Forbidden):
		l.note("allow it to publish and subscribe to that of the hints (collab.hints, or what the address says) and those below it (….>)", "no message was tried: %s", err)
	case fault.Is(err, fault.Unauthenticated):
		l.wrong("set the right user and password, or token, in COLLAB_BUS_URL", "%s", err)
	default:
		l.wrong("start it, let this machine reach it, or set COLLAB_BUS_URL; until then servers hear of each other's changes a second late", "%s", err)
	}
}

// tokenKeys reads the keys of service tokens.
func (d *doctor) tokenKeys(_ context.Context, l *lines) {
	const remedy = "print new ones with collabd keys tokens, and set COLLAB_TOKEN_KEYS to their file"
	text, path, ok := d.keyFile(l, d.c.TokenKeys, "token-keys.pem", "COLLAB_TOKEN_KEYS", remedy)
	if !ok {
		return
	}
	keys, err := servicetoken.Parse(text)
	if err != nil {
		l.wrong(remedy, "%s: %s", path, err)
		return
	}
	names := keys.Names()
	if len(names) == 1 {
		l.ok("%s signs, of %s", names[0], path)
		return
	}
	l.ok("%s signs, and %d more verify, of %s", names[0], len(names)-1, path)
}

// secretsKeys reads the keyset of secrets, and seals something with it.
func (d *doctor) secretsKeys(_ context.Context, l *lines) {
	const remedy = "set COLLAB_SECRETS_KEYS to the file that the secrets in the database were sealed with; for a new database print one with collabd keys secrets"
	text, path, ok := d.keyFile(l, d.c.SecretsKeys, "secrets-keys.json", "COLLAB_SECRETS_KEYS", remedy)
	if !ok {
		return
	}
	v, err := vault.New(text)
	if err == nil {
		var sealed []byte
		if sealed, err = v.Seal([]byte("doctor"), nil); err == nil {
			_, err = v.Open(sealed, nil)
		}
	}
	if err != nil {
		l.wrong(remedy, "%s: %s", path, err)
		return
	}
	l.ok("%s seals and opens", path)
}

// keyFile reads a file of keys: the configured one, or that of the data folder.
func (d *doctor) keyFile(l *lines, configured, own, variable, remedy string) (text []byte, path string, ok bool) {
	path = configured
	if path == "" {
		path = filepath.Join(d.c.DataDir, own)
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && configured == "":
		l.note("", "%s is made at the first start", path)
		return nil, path, false
	case errors.Is(err, fs.ErrNotExist):
		l.wrong(remedy, "%s, the file of %s, is not there", path, variable)
		return nil, path, false
	case err != nil:
		l.wrong("let the user that the server runs as read it", "%s cannot be read: %s", path, err)
		return nil, path, false
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
		l.wrong("chmod 600 "+path, "%s can be read or written by everybody on this machine (%04o)", path, info.Mode().Perm())
	}
	return text, path, true
}

// webhooks looks at the secrets of somebody's messages. Check returns what is
// wrong with one, without it.
func (d *doctor) webhooks(l *lines, list config.Secrets, whose, variable string, check func(secret string) error) {
	if !list.IsSet {
		l.note("", "the server makes the secret at its first start, and keeps it in the data folder")
		return
	}
	all := list.Values()
	if len(all) == 0 {
		l.note("copy the secret of the endpoint from "+whose+" to "+variable, "no message of %s is accepted", whose)
		return
	}
	wrong := false
	for i, s := range all {
		if err := check(s); err != nil {
			wrong = true
			l.wrong("copy the secret of the endpoint from "+whose+" to "+variable, "secret %d: %s", i+1, err)
		}
		if before := slices.Index(all, s); before < i {
			l.note("take it out of "+variable, "secret %d is secret %d again", i+1, before+1)
		}
	}
	if !wrong {
		l.ok("%d of the right form", len(all))
	}
}
