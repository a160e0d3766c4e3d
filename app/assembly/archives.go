package assembly

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/fx"

	"collab/adapters/archive"
	"collab/adapters/atomicfile"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/access"
	"collab/app/archives"
	"collab/app/assembly/config"
	domain "collab/domain/archive"
	"collab/domain/export"
	"collab/domain/id"
	"collab/ports"
)

// Export writes an archive of an organisation, which is named by its id or slug, to a file that
// does not exist, and reports its content on out; if file is "-" it writes to out and reports on
// log. Servers may be running.
func Export(ctx context.Context, c config.Config, organisation, file string, out, log io.Writer) error {
	return withArchives(ctx, c, log, func(a *archives.Archives) error {
		o, err := a.Find(ctx, organisation)
		if err != nil {
			return err
		}
		var m domain.Manifest
		write := func(w io.Writer) (err error) {
			m, err = a.Export(ctx, o.ID, domain.All(), w)
			return err
		}
		if file == "-" {
			err, out = write(out), log
		} else if _, err = os.Lstat(file); err == nil {
			return fmt.Errorf("%s already exists: name another file", file)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = atomicfile.Replace(file, func(f *os.File) error { return write(f) })
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "Exported %s (%s): %d records and %d files of %d bytes.\n", o.Name, o.ID, m.Records(), m.Contents, m.Bytes)
		return err
	})
}

// ParseImport reads the arguments of collabd import: a file, then options, among them the file of
// users.
func ParseImport(args []string) (file, users string, in archives.Import, err error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return "", "", in, errors.New("the file is missing")
	}
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&in.Name, "name", "", "")
	flags.StringVar(&in.Slug, "slug", "", "")
	flags.StringVar(&in.Organisation, "identity-organisation", "", "")
	flags.Int64Var(&in.MaxBytes, "max-bytes", archives.DefaultMaxBytes, "")
	flags.StringVar(&users, "users", "", "")
	if err = flags.Parse(args[1:]); err == nil && flags.NArg() > 0 {
		err = errors.New("there is more than one file")
	}
	return args[0], users, in, err
}

// readUsers reads the file of users: on each line the id of a member in the archive, and that of the member's user
// on this server. It returns nil if file is "".
func readUsers(file string) (map[id.User]string, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	users := map[id.User]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		member, user, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		memberID, ok := id.Parse[id.User](member)
		user = strings.TrimSpace(user)
		switch {
		case !ok || user == "":
			return nil, fmt.Errorf("%s line %d must be the userId of a member, a space and a user here", file, n)
		case users[memberID] != "":
			return nil, fmt.Errorf("%s line %d has the member %s, who is on an earlier line", file, n, member)
		case n > domain.MaxMembers:
			return nil, fmt.Errorf("%s has more than %d lines", file, domain.MaxMembers)
		}
		users[memberID] = user
	}
	return users, lines.Err()
}

// ImportFile makes an organisation of an archive, with a file of users unless users is "", and reports
// it on out. Servers may be running; on SQLite their writes wait meanwhile.
func ImportFile(ctx context.Context, c config.Config, file, users string, in archives.Import, out, log io.Writer) (err error) {
	if in.Users, err = readUsers(users); err != nil {
		return err
	}
	return withArchives(ctx, c, log, func(a *archives.Archives) error {
		in.Open = func() (io.ReadCloser, error) { return os.Open(file) }
		imported, err := a.Import(ctx, in)
		if err != nil {
			return err
		}
		m := imported.Manifest
		w := bufio.NewWriter(out)
		fmt.Fprintf(w, "Imported %s (%s): %d records and %d files of %d bytes.\n", imported.Organisation.Name,
			imported.Organisation.ID, m.Records(), m.Contents, m.Bytes)
		if imported.NewIDs {
			fmt.Fprintf(w, "%s is in use here: the organisation and its records have new ids.\n", m.Organisation)
		}
		fmt.Fprintf(w, "Members: %d were users here, %d become users, %d are no members here.\n",
			imported.ExistingUsers, imported.CreatedUsers, imported.Omitted)
		return w.Flush()
	})
}

// withArchives calls fn with the use cases over the configured database and store.
func withArchives(ctx context.Context, c config.Config, log io.Writer, fn func(*archives.Archives) error) error {
	return withStores(ctx, c, log, func(db *gormdb.DB, blobs ports.Blobs) error {
		return fn(archives.New(archives.Options{
			Store: db, Snapshots: db, Blobs: blobs, Archiver: archive.Archiver{}, Clock: system.Clock{},
			IDs: system.IDs{}, Secrets: system.Secrets{}, Version: Version(), Issuer: c.IdentityIssuer.Text(),
			MaxSize: c.MaxUpload,
		}))
	})
}

type archivesParams struct {
	fx.In
	CommonParams
	Snapshots ports.Snapshots
	Blobs     ports.Blobs
	Signed    ports.SignedBlobs
	Access    *access.Access
}

// exportEvery is how often a server looks for exports that are due.
const exportEvery = 2 * time.Second

// newArchives makes the use cases of archives, which make those that are due between start and stop.
func newArchives(lc fx.Lifecycle, p archivesParams) *archives.Archives {
	a := archives.New(archives.Options{
		Store: p.Store, Snapshots: p.Snapshots, Blobs: p.Blobs, Archiver: archive.Archiver{}, Clock: p.Clock, IDs: p.IDs, Secrets: p.Secrets,
		Version: Version(), Issuer: p.Config.IdentityIssuer.Text(), Signed: p.Signed, Retention: p.Config.Exports,
		Locked: p.Access.Locked, Origin: access.Origin,
	})
	schedule(lc, exportEvery, a.MakeDue, p.Log, "export failed")
	schedule(lc, export.ExtendEvery, a.ExtendClaim, p.Log, "export claim extension failed")
	return a
}
