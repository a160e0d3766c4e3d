package gormdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"collab/adapters/inspect"
	"collab/domain/fault"
	"collab/domain/id"
)

// Inspection has what Inspect looks at.
type Inspection struct {
	Address    string
	Publishers []id.Org // organisations that may publish releases
	Production bool
	Clocks     *inspect.Clocks
}

// Inspect reports on the database, its schema, and the organisations that may publish
// releases. It changes nothing.
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
		f = slices.Concat(f, i.schema(found), i.releases(found))
	}
	return f
}

func (i Inspection) postgres(f *inspect.Findings, found condition, err error) {
	p := found.postgres
	switch {
	case err != nil && p != nil:
		f.Wrong("look at the server's log, and at what the user may read", "%s answers, and not what it is asked", found.where).Err = err
		return
	case found.where == "":
		f.Wrong("mend COLLAB_DATABASE_URL", "").Err = err
		return
	case fault.Is(err, fault.Unauthenticated):
		f.Wrong("set the right user and password in COLLAB_DATABASE_URL", "%s", found.where).Err = err
		return
	case fault.Is(err, fault.NotFound):
		f.Wrong("make it (CREATE DATABASE … ENCODING 'UTF8'), or set COLLAB_DATABASE_URL", "%s", found.where).Err = err
		return
	case err != nil:
		f.Wrong("start it, let this machine reach it, or set COLLAB_DATABASE_URL", "%s", found.where).Err = err
		return
	}
	i.Clocks.Add("the database", p.now, 0, p.asked, p.answered)
	f.OK("%s at %s answers in %s", found.product, found.where, inspect.Milliseconds(found.took))
	if p.readOnly {
		f.Wrong("name the primary in COLLAB_DATABASE_URL", "it takes no writes: it is a standby, or set to read only")
	}
	if !p.utf8 {
		f.Wrong("make a database with ENCODING 'UTF8', and move there", "it keeps texts in another encoding than UTF-8")
	}
	if p.withheld > 0 {
		f.Wrong(fmt.Sprintf("as their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %q", p.user), "%s may not read and write %d of its tables", p.user, p.withheld)
	}
	if p.volatile {
		f.Risk("set fsync and synchronous_commit to on", "a crash of it may undo what was answered already: fsync or synchronous_commit is off")
	}
	if p.room < p.pool {
		f.Wrong("raise max_connections (or the limit of the user or database), or add pool_max_conns=… to COLLAB_DATABASE_URL",
			"it has room for %d connections of ours, and every server opens up to %d", p.room, p.pool)
	}
	if !p.encrypted && !p.local {
		f.Note("add sslmode=verify-full to COLLAB_DATABASE_URL where the network is not yours alone", "the connection is not encrypted")
	}
	if p.superuser && i.Production {
		f.Note("make a user that owns this database alone", "%s is a superuser", p.user)
	}
}

func (i Inspection) sqlite(f *inspect.Findings, found condition, err error) {
	folder := filepath.Dir(found.where)
	switch {
	case found.where == "":
		f.Wrong("set COLLAB_DATABASE_URL", "").Err = err
		return
	case fault.Is(err, fault.NotFound):
		if _, ok := f.Folder(folder, "COLLAB_DATABASE_URL"); ok {
			f.Note("", "%s is made at the first start", found.where)
		}
		return
	case errors.Is(err, context.DeadlineExceeded):
		f.Note("have sqlite3 make it while the server stands still: PRAGMA quick_check", "%s is too large to be checked in the time there is", found.where)
		return
	case err != nil:
		f.Wrong("give the file to the user that the server runs as, restore it from a copy if it is damaged, or set COLLAB_DATABASE_URL", "%s", found.where).Err = err
		return
	}
	f.OK("%s in %s", found.product, found.where)
	if found.damage != "" {
		f.Wrong("stop the server, keep what is there, and restore the last good copy", "the file is damaged").Err = errors.New(found.damage)
	}
	if err := inspect.CheckWritable(folder); err != nil {
		f.Wrong("give the folder to the user that the server runs as (chown, chmod 700)", "its folder cannot be written to").Err = err
	}
	if network := inspect.NetworkFileSystem(folder); network != "" {
		f.Wrong("keep it on a disk of this machine, or use Postgres", "it lies on %s, whose locks do not keep it whole", network)
	}
	f.Space(folder)
	if i.Production {
		f.Note("", "SQLite serves a single server; several need Postgres")
	}
}

func (i Inspection) schema(found condition) (f inspect.Findings) {
	p := found.postgres
	if p != nil && p.withheld > 0 {
		f.Note("", "unknown, as the database user lacks rights on tables")
		return f.Of("schema")
	}
	switch behind := found.latest - found.schema; {
	case behind == 0:
		f.OK("version %d", found.schema)
	case behind < 0:
		f.Note("right while servers are replaced one by one; otherwise this collabd is too old", "version %d, of which this collabd knows %d", found.schema, found.latest)
	case !i.Production:
		f.Note("", "%d migrations are made at the next start, from version %d to %d", behind, found.schema, found.latest)
	case found.schema == 0:
		f.Wrong("run collabd migrate", "nothing was migrated yet")
	default:
		f.Wrong("run collabd migrate before the new servers", "version %d, and this collabd needs %d", found.schema, found.latest)
	}
	if p != nil && !p.creates && !p.readOnly {
		remedy := "as the owner: GRANT CREATE ON SCHEMA public TO " + p.user
		if found.schema < found.latest {
			f.Wrong(remedy, "%s may not make tables, as migrations do", p.user)
		} else {
			f.Note(remedy, "%s may not make tables: the next migration needs another user", p.user)
		}
	}
	return f.Of("schema")
}

func (i Inspection) releases(found condition) (f inspect.Findings) {
	switch {
	case len(i.Publishers) > 0 && found.postgres != nil && found.postgres.withheld > 0:
		f.Note("", "unknown, as the database user lacks rights on tables")
	case len(i.Publishers) == 0 && i.Production:
		f.Note("set COLLAB_RELEASE_ORGS where releases are published", "no organisation may publish releases")
	case len(i.Publishers) == 0:
		f.Note("", "every organisation may publish releases, as COLLAB_RELEASE_ORGS is not set")
	case len(found.missing) > 0:
		f.Wrong("take the id from GET /auth/me of somebody who is in it; it is there since they first signed in", "there is no organisation %s of COLLAB_RELEASE_ORGS", found.missing[0])
	default:
		f.OK("COLLAB_RELEASE_ORGS: %d, all there", len(i.Publishers))
	}
	return f.Of("releases")
}
