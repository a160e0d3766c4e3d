package gormdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"collab/adapters/inspect"
	"collab/domain/fault"
	"collab/domain/id"
)

// Inspection is the configuration that Inspect checks.
type Inspection struct {
	Address    string
	Replicas   []string // addresses
	Publishers []id.Org // organisations that may publish releases
	Production bool
	Clocks     *inspect.Clocks
}

// Inspect checks the database, its schema, and the organisations that may publish releases. It changes
// nothing.
func Inspect(ctx context.Context, i Inspection) (f inspect.Findings) {
	var found condition
	var err error
	if strings.HasPrefix(i.Address, "sqlite:") {
		found, err = readSQLite(ctx, i.Address, i.Publishers)
		i.sqlite(&f, found, err)
	} else {
		found, err = readPostgres(ctx, i.Address, i.Publishers)
		i.postgres(&f, found, err)
	}
	if err == nil {
		f = slices.Concat(f, i.replicas(ctx), i.schema(found), i.releases(found))
	}
	return f
}

func (i Inspection) postgres(f *inspect.Findings, found condition, err error) {
	p := found.postgres
	switch {
	case err != nil && p != nil:
		f.Wrong("see the server's log, and check the user's rights", "%s answers, but not the queries", found.location).Err = err
		return
	case found.location == "":
		f.Wrong("correct COLLAB_DATABASE_URL", "").Err = err
		return
	case fault.Is(err, fault.Unauthenticated):
		f.Wrong("set the right user and password in COLLAB_DATABASE_URL", "%s", found.location).Err = err
		return
	case fault.Is(err, fault.NotFound):
		f.Wrong("create it (CREATE DATABASE … ENCODING 'UTF8'), or set COLLAB_DATABASE_URL", "%s", found.location).Err = err
		return
	case err != nil:
		f.Wrong("start it, allow connections from this machine, or set COLLAB_DATABASE_URL", "%s", found.location).Err = err
		return
	}
	i.Clocks.Add("the database", p.now, 0, p.asked, p.answered)
	f.OK("%s at %s answers in %s", found.product, found.location, inspect.Milliseconds(found.latency))
	switch {
	case p.pooled && !p.poolMode:
		f.Wrong("add pool_mode=transaction to COLLAB_DATABASE_URL", "it is behind a pooler in transaction mode, where prepared statements are lost and sessions are shared")
	case p.poolMode && !p.pooled:
		f.Note("take pool_mode=transaction out of COLLAB_DATABASE_URL: statements are planned once per connection without it", "no pooler in transaction mode is in front of it")
	}
	if p.readOnly {
		f.Wrong("name the primary in COLLAB_DATABASE_URL", "it is read-only: a standby, or set so")
	}
	if !p.utf8 {
		f.Wrong("move to a database with ENCODING 'UTF8'", "its encoding is not UTF-8")
	}
	if p.deniedTables > 0 {
		f.Wrong(fmt.Sprintf("as their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %q", p.user), "%s may not read and write %d of its tables", p.user, p.deniedTables)
	}
	if p.losesCommits {
		f.Risk("set fsync and synchronous_commit to on", "a crash may lose acknowledged changes: fsync or synchronous_commit is off")
	}
	if p.connectionsLeft < p.maxConnections && !p.pooled { // else the pooler opens them
		f.Wrong("raise max_connections (or the limit of the user or database), or add pool_max_conns=… to COLLAB_DATABASE_URL",
			"it allows %d connections, and each server opens up to %d", p.connectionsLeft, p.maxConnections)
	}
	if !p.encrypted && !p.local {
		f.Note("add sslmode=verify-full to COLLAB_DATABASE_URL unless the network is private", "the connection is not encrypted")
	}
	if p.superuser && i.Production {
		f.Note("use a user that owns only this database", "%s is a superuser", p.user)
	}
}

// replayTimeout is how long a replica may take to replay the position of the primary.
const replayTimeout = 2 * time.Second

// replicas reports which replicas servers will read from, by the rules of PollReplicas.
func (i Inspection) replicas(ctx context.Context) (f inspect.Findings) {
	for _, address := range i.Replicas {
		name, err := checkReplica(ctx, i.Address, address)
		if err != nil {
			f.Wrong("start it, name a streaming replica of the database, or take it out of COLLAB_DATABASE_REPLICA_URLS", "the replica %s is not read", name).Err = err
		} else {
			f.OK("the replica %s is read", name)
		}
	}
	return f.Of("replicas")
}

// checkReplica returns the name of the replica at an address. The error says why servers do not read from
// it.
func checkReplica(ctx context.Context, primary, address string) (name string, err error) {
	p, err := parsePostgres(primary)
	if err != nil {
		return "", err
	}
	a, err := parsePostgres(address)
	if err != nil {
		return "", err
	}
	r := newReplica(a)
	conns := p.open()
	defer func() { err = errors.Join(err, conns.Close(), r.conns.Close()) }()
	var timeline, lsn, system int64
	if err := conns.QueryRowContext(ctx, selectPrimary).Scan(&timeline, &lsn, &system); err != nil {
		return r.name, serverError(ctx, err)
	}
	if err := r.conns.PingContext(ctx); err != nil {
		return r.name, serverError(ctx, err)
	}
	samples := []sample{{time.Now(), position{uint32(timeline), uint64(lsn)}}}
	for err = r.poll(ctx, samples, system); errors.Is(err, errLagging) && time.Since(samples[0].at) < replayTimeout; err = r.poll(ctx, samples, system) {
		time.Sleep(replayTimeout / 20)
	}
	return r.name, err
}

func (i Inspection) sqlite(f *inspect.Findings, found condition, err error) {
	directory := filepath.Dir(found.location)
	switch {
	case found.location == "":
		f.Wrong("set COLLAB_DATABASE_URL", "").Err = err
		return
	case fault.Is(err, fault.NotFound):
		if _, ok := f.Directory(directory, "COLLAB_DATABASE_URL"); ok {
			f.Note("", "%s is created at the first start", found.location)
		}
		return
	case errors.Is(err, context.DeadlineExceeded):
		f.Note("stop the server and run PRAGMA quick_check with sqlite3", "%s is too large to be checked in time", found.location)
		return
	case err != nil:
		f.Wrong("give the file to the user that the server runs as, restore it from a backup if it is damaged, or set COLLAB_DATABASE_URL", "%s", found.location).Err = err
		return
	}
	f.OK("%s in %s", found.product, found.location)
	if found.damage != "" {
		f.Wrong("stop the server, keep the file, and restore the last good backup", "the file is damaged").Err = errors.New(found.damage)
	}
	if err := inspect.CheckWritable(directory); err != nil {
		f.Wrong("give the directory to the user that the server runs as (chown, chmod 700)", "its directory cannot be written to").Err = err
	}
	if network := inspect.NetworkFileSystem(directory); network != "" {
		f.Wrong("keep it on a disk of this machine, or use Postgres", "it is on %s, whose locks are not reliable", network)
	}
	f.Space(directory)
	if i.Production {
		f.Note("", "SQLite serves a single server; several need Postgres")
	}
}

func (i Inspection) schema(found condition) (f inspect.Findings) {
	p := found.postgres
	if p != nil && p.deniedTables > 0 {
		f.Note("", "unknown, as the database user lacks rights on tables")
		return f.Of("schema")
	}
	switch behind := Schema() - found.schema; {
	case found.isTarget:
		f.Wrong("call collabd move again with the same arguments, or with --abandon", "a move to this database is not complete")
	case behind == 0:
		f.OK("version %d", found.schema)
	case found.onlyFor != "":
		f.Wrong("install that release or a newer one", "version %d, which is for servers from version %s on", found.schema, found.onlyFor)
	case behind < 0:
		f.Note("expected during a rolling update; otherwise this collabd is too old", "version %d; this collabd knows %d", found.schema, Schema())
	case !i.Production:
		f.Note("", "%d migrations run at the next start, from version %d to %d", behind, found.schema, Schema())
	case found.schema == 0:
		f.Wrong("run collabd migrate", "no migration has run yet")
	default:
		f.Wrong("run collabd migrate before the new servers", "version %d, and this collabd needs %d", found.schema, Schema())
	}
	if p != nil && !p.canCreate && !p.readOnly {
		remedy := "as the owner: GRANT CREATE ON SCHEMA public TO " + p.user
		if found.schema < Schema() {
			f.Wrong(remedy, "%s may not create tables, which migrations do", p.user)
		} else {
			f.Note(remedy, "%s may not create tables: the next migration needs another user", p.user)
		}
	}
	return f.Of("schema")
}

func (i Inspection) releases(found condition) (f inspect.Findings) {
	switch {
	case len(i.Publishers) > 0 && found.postgres != nil && found.postgres.deniedTables > 0:
		f.Note("", "unknown, as the database user lacks rights on tables")
	case len(i.Publishers) == 0 && i.Production:
		f.Note("set COLLAB_RELEASE_ORGS where releases are published", "no organisation may publish releases")
	case len(i.Publishers) == 0:
		f.Note("", "every organisation may publish releases, as COLLAB_RELEASE_ORGS is not set")
	case len(found.missing) > 0:
		f.Wrong("take the id from GET /auth/me of a member; it exists once one has signed in", "the organisation %s of COLLAB_RELEASE_ORGS does not exist", found.missing[0])
	default:
		f.OK("COLLAB_RELEASE_ORGS: %d, all found", len(i.Publishers))
	}
	return f.Of("releases")
}
