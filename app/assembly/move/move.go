// Package move copies the records and the content of a deployment to an empty database and store.
package move

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"collab/adapters/bucket"
	"collab/adapters/filelock"
	"collab/adapters/gormdb"
	"collab/adapters/system"
	"collab/app/assembly/backup"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/domain/fault"
)

// Options are the arguments of collabd move.
type Options struct {
	From      string // address of a database, data directory or archive; empty: what is configured
	FromBlobs string // address of the store; empty: that of From
	To        string // address of a database, or data directory; empty: records stay
	Blobs     string // address of the store; empty: that of the data directory To, else content stays
	Abandon   bool   // remove what an incomplete move wrote
	Quiet     bool   // no progress

	// copied is called after a number of records and contents were written, for tests. Its error
	// ends the move.
	copied func(records, contents int) error
}

// Parse reads arguments.
func Parse(args []string) (o Options, err error) {
	flags := flag.NewFlagSet("move", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.StringVar(&o.From, "from", "", "")
	flags.StringVar(&o.FromBlobs, "from-blobs", "", "")
	flags.StringVar(&o.To, "to", "", "")
	flags.StringVar(&o.Blobs, "blobs", "", "")
	flags.BoolVar(&o.Abandon, "abandon", false, "")
	flags.BoolVar(&o.Quiet, "quiet", false, "")
	err = flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("there is no argument %q", flags.Arg(0))
	case o.To == "" && (o.Blobs == "" || o.Abandon):
		err = errors.New("--to or --blobs is missing")
	}
	return o, err
}

// ErrDiffers is returned if the target is not equal to the source after the copy. The target
// stays closed to servers.
var ErrDiffers = errors.New("the target differs from the source: call collabd move --abandon with the same target, and move again")

// Limits of the garbage collector: few records are in memory at a time, so that collecting at half the
// usual growth of the heap costs little. memoryLimit is in bytes.
const (
	gcPercent   = 50
	memoryLimit = 64 << 20
)

// Run copies what the options name. It reports progress on log and the result on out. If it is
// interrupted, another call with the same options continues.
func Run(ctx context.Context, c config.Config, o Options, out, log io.Writer) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	m := &mover{out: out, progress: newProgress(c, o.Quiet, log), onCopied: o.copied}
	defer func() { err = errors.Join(err, m.close()) }()
	if err := m.chooseLocations(c, o); err != nil {
		return err
	}
	if o.Abandon {
		return m.abandon(ctx)
	}
	err = m.run(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.New("the move was interrupted: call it again with the same arguments")
	}
	return err
}

// location is where a deployment has its data.
type location struct {
	database  config.URL        // not set: records stay
	blobs     config.URL        // not set: content stays
	directory string            // data directory; empty: there is none
	keys      map[string]string // paths of key files that are not in the directory, by their name there
}

// mover copies records and content from a location to another.
type mover struct {
	from, to    location
	archive     string // the archive that from is unpacked from; empty: none
	origin      string // describes the move without secrets
	epochRaised bool   // the epoch of the target is not that of the source

	source             *gormdb.Source
	target             *gormdb.Target
	fromBlobs, toBlobs *bucket.Bucket
	closers            []func() error

	locked   string // directory that is locked for the source, without symbolic links
	out      io.Writer
	progress *progress
	onCopied func(records, contents int) error
}

func (m *mover) close() (err error) {
	for i := len(m.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, m.closers[i]())
	}
	return err
}

// chooseLocations sets the locations.
func (m *mover) chooseLocations(c config.Config, o Options) (err error) {
	if m.from, err = m.chooseSource(c, o); err != nil {
		return err
	}
	if o.FromBlobs != "" {
		m.from.blobs = config.NewURL(o.FromBlobs)
	}
	switch {
	case strings.Contains(o.To, "://"):
		m.to.database = config.NewURL(o.To)
	case o.To != "":
		m.to, err = dataDirectory(o.To)
	}
	if o.Blobs != "" {
		m.to.blobs = config.NewURL(o.Blobs)
	}
	if err != nil {
		return err
	}
	for _, u := range []config.URL{m.from.database, m.to.database} {
		if u.IsSet() && u.Scheme() != "postgres" && u.Scheme() != "sqlite" {
			return fmt.Errorf("%s is not the address of a database that keeps records: "+
				"name postgres://…, sqlite://path or a directory", u)
		}
	}
	for _, u := range []config.URL{m.from.blobs, m.to.blobs} {
		if u.Scheme() == "mem" {
			return errors.New("mem:// keeps no content")
		}
	}
	if !m.from.blobs.IsSet() && m.to.blobs.IsSet() {
		return errors.New("--from-blobs is missing: it is the address of the store that the records of --from name")
	}
	if fingerprint(m.from.database) == fingerprint(m.to.database) ||
		m.to.blobs.IsSet() && fingerprint(m.from.blobs) == fingerprint(m.to.blobs) {
		return errors.New("source and target are the same; leave out --blobs if content stays where it is")
	}
	source := m.archive
	if source == "" {
		source = fingerprint(m.from.database)
	}
	m.origin = fmt.Sprintf("%s with %s to %s", source, fingerprint(m.from.blobs), fingerprint(m.to.blobs))
	return nil
}

// fingerprint returns a text that differs for different addresses and has no password: the absolute path
// of a file, else the address with a hash of all of it but passwords.
func fingerprint(address config.URL) string {
	scheme := address.Scheme()
	if scheme == "file" || scheme == "sqlite" {
		if path, err := filepath.Abs(address.Path()); err == nil {
			return scheme + "://" + path
		}
	}
	u, err := url.Parse(address.Text())
	if err != nil || !address.IsSet() {
		return address.String()
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	params := u.Query()
	params.Del("password")
	params.Del("sslpassword")
	u.RawQuery = params.Encode()
	sum := sha256.Sum256([]byte(u.String()))
	return fmt.Sprintf("%s (%x)", address, sum[:8])
}

func (m *mover) chooseSource(c config.Config, o Options) (location, error) {
	switch {
	case o.From == "":
		directory, err := filepath.Abs(c.DataDir)
		p := location{database: c.DatabaseURL, blobs: c.BlobURL, directory: directory, keys: map[string]string{}}
		for i, path := range []string{c.TokenKeys, c.SecretsKeys} {
			if path != "" {
				p.keys[backup.SmallFiles[i]] = path
			}
		}
		return p, err
	case strings.Contains(o.From, "://"):
		return location{database: config.NewURL(o.From)}, nil
	}
	info, err := os.Stat(o.From)
	if err != nil {
		return location{}, err
	}
	if info.IsDir() {
		return dataDirectory(o.From)
	}
	if m.archive, err = filepath.Abs(o.From); err != nil {
		return location{}, err
	}
	return dataDirectory(m.archive + ".moving")
}

// dataDirectory returns the location of a data directory.
func dataDirectory(path string) (location, error) {
	directory, err := filepath.Abs(path)
	return location{
		database:  config.NewURL("sqlite://" + filepath.Join(directory, "collab.db")),
		blobs:     config.NewURL("file://" + filepath.Join(directory, "blobs")),
		directory: directory,
	}, err
}

// lock takes the locks of a location on SQLite, so that no server uses it meanwhile. Source and target may be
// in one directory.
func (m *mover) lock(p location) error {
	if p.database.Scheme() != "sqlite" {
		return nil
	}
	if p.directory == "" {
		p.directory = filepath.Dir(p.database.Path())
	}
	directory, err := filepath.Abs(p.directory)
	if err == nil {
		directory, err = filepath.EvalSymlinks(directory)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case directory == m.locked:
		p.directory = ""
	}
	locks, err := datadir.LockServer(config.Config{DataDir: p.directory, DatabaseURL: p.database}, true)
	for _, l := range locks {
		m.closers = append(m.closers, l.Close)
	}
	m.locked = directory
	return err
}

// unpack unpacks the archive into a data directory beside it, which close removes.
func (m *mover) unpack(ctx context.Context) error {
	lock, err := datadir.Lock(filepath.Join(m.from.directory, datadir.LockName), true)
	if errors.Is(err, filelock.ErrLocked) {
		return fmt.Errorf("another move of %s is under way", m.archive)
	}
	if err != nil {
		return err
	}
	m.closers = append(m.closers, lock.Close, func() error { return os.RemoveAll(m.from.directory) })
	if err := backup.Unpack(ctx, m.archive, m.from.directory); err != nil {
		return err
	}
	db, err := gormdb.Open(ctx, gormdb.Options{URL: m.from.database.Text()})
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

func (m *mover) run(ctx context.Context) (err error) {
	if err := m.openSource(ctx); err != nil {
		return fmt.Errorf("the source %s: %w", m.from.database, fault.WithCause(err))
	}
	if m.to.blobs.IsSet() {
		if m.fromBlobs, err = m.openStore(ctx, m.from.blobs); err != nil {
			return err
		}
		if m.toBlobs, err = m.openStore(ctx, m.to.blobs); err != nil {
			return err
		}
	}
	if !m.to.database.IsSet() {
		if err := m.copyContents(ctx, "", true); err != nil {
			return err
		}
		_, err := fmt.Fprintf(m.out, "The content that the records of %s name is in %s. Let COLLAB_BLOB_URL name it.\n",
			m.from.database, m.to.blobs)
		return err
	}
	if err := m.openTarget(ctx); err != nil {
		return fmt.Errorf("the target %s: %w", m.to.database, fault.WithCause(err))
	}
	if err := m.copyRecords(ctx); err != nil {
		return fault.WithCause(err)
	}
	after, err := m.target.State(ctx, "content")
	if err != nil {
		return err
	}
	if m.toBlobs != nil {
		if err := m.copyContents(ctx, after, m.target.Resumed); err != nil {
			return err
		}
	}
	if err := m.copyKeyFiles(); err != nil {
		return err
	}
	if err := m.compare(ctx); err != nil {
		return fault.WithCause(err)
	}
	epoch, err := m.epoch(ctx)
	if err == nil {
		err = m.target.Finish(ctx, epoch)
	}
	if err != nil {
		return fault.WithCause(err)
	}
	return m.printSummary()
}

// epoch returns the epoch of the target's logs: that of the source, with which clients continue. For an
// archive, and for a source that servers use, it returns a greater one, because the source may have used
// numbers after the copied ones.
func (m *mover) epoch(ctx context.Context) (int64, error) {
	epoch, err := m.source.Epoch(ctx)
	if err != nil {
		return 0, err
	}
	served, err := m.source.Served(ctx)
	if m.epochRaised = served || m.archive != ""; m.epochRaised {
		epoch = max(epoch+1, system.Clock{}.Now().Unix())
	}
	return epoch, err
}

func (m *mover) openSource(ctx context.Context) (err error) {
	if m.archive != "" {
		if err := m.unpack(ctx); err != nil {
			return err
		}
	} else {
		if m.from.database.Scheme() == "sqlite" {
			if _, err := os.Stat(m.from.database.Path()); err != nil {
				return fmt.Errorf("there is nothing to move: %w", err)
			}
		}
		if err := m.lock(m.from); err != nil {
			return err
		}
	}
	if m.source, err = gormdb.OpenSource(ctx, m.from.database.Text()); err == nil {
		m.closers = append(m.closers, m.source.Close)
	}
	return err
}

func (m *mover) openStore(ctx context.Context, address config.URL) (*bucket.Bucket, error) {
	b, err := bucket.Open(ctx, address.Text())
	if err == nil {
		m.closers = append(m.closers, b.Close)
		err = b.Ready(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the store %s: %w", address, fault.WithCause(err))
	}
	return b, nil
}

// openTarget starts or resumes the move. It returns an error if the target has other data.
func (m *mover) openTarget(ctx context.Context) (err error) {
	if err := m.lock(m.to); err != nil {
		return err
	}
	if m.target, err = gormdb.OpenTarget(ctx, m.to.database.Text(), m.origin); err != nil {
		return err
	}
	m.closers = append(m.closers, m.target.Close)
	if !m.target.Resumed && m.toBlobs != nil {
		err = m.toBlobs.List(ctx, func(name string, _ int64, _ time.Time) error {
			return fmt.Errorf("the store %s is not empty: it has %q", m.to.blobs, name)
		})
	}
	if err == nil {
		err = m.eachKeyFile(checkSameFile)
	}
	if err != nil {
		return err
	}
	return m.target.Begin(ctx, m.source)
}

func (m *mover) copyRecords(ctx context.Context) error {
	var total int64
	counts := map[string]int64{}
	for _, table := range gormdb.TransferTables {
		n, err := m.source.Count(ctx, table)
		if err != nil {
			return err
		}
		counts[table] = n
		total += n
	}
	m.progress.start("records", total)
	for _, table := range gormdb.TransferTables {
		err := m.target.Load(ctx, m.source, table, func(n int) error {
			m.progress.add(int64(n))
			if m.onCopied != nil {
				return m.onCopied(n, 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if counts[table] > 0 {
			m.progress.table(table, counts[table])
		}
	}
	m.progress.end()
	return nil
}

// abandon removes what a move wrote to the target.
func (m *mover) abandon(ctx context.Context) error {
	if err := m.lock(m.to); err != nil {
		return err
	}
	target, err := gormdb.OpenTarget(ctx, m.to.database.Text(), "")
	if err != nil {
		return fmt.Errorf("the target %s: %w", m.to.database, fault.WithCause(err))
	}
	m.closers = append(m.closers, target.Close)
	origin, err := target.State(ctx, "origin")
	if err != nil {
		return fault.WithCause(err)
	}
	if origin != "" && !strings.HasSuffix(origin, " to "+fingerprint(m.to.blobs)) {
		return fmt.Errorf("this move began with --blobs %q: pass the same",
			origin[strings.LastIndex(origin, " to ")+len(" to "):])
	}
	n := 0
	if origin != "" && m.to.blobs.IsSet() {
		store, err := m.openStore(ctx, m.to.blobs)
		if err != nil {
			return err
		}
		err = store.List(ctx, func(name string, _ int64, _ time.Time) error {
			n++
			return store.Remove(ctx, name)
		})
		if err != nil {
			return fault.WithCause(err)
		}
	}
	if err := target.Abandon(ctx); err != nil {
		return fault.WithCause(err)
	}
	_, err = fmt.Fprintf(m.out, "Removed the records of %s and %d contents of the move from %s.\n", m.to.database, n, origin)
	return err
}
