package mirror_test

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	client "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// planned alters plans.
func planned(alter func(*mirror.Plan)) func(*client.Options) {
	return func(o *client.Options) {
		o.Plan = func(in mirror.Input) mirror.Plan {
			p := mirror.MakePlan(in)
			alter(&p)
			slices.SortStableFunc(p.Steps, func(a, b mirror.Step) int { return int(a.Action) - int(b.Action) })
			return p
		}
	}
}

// mutations are faults that the simulation must find, by what is wrong in the client that has one.
var mutations = map[string]func(*client.Options){
	"a deletion on the server beats an edit in the directory": planned(func(p *mirror.Plan) {
		for i, s := range p.Steps {
			if s.Action == mirror.Upload && s.Row.Remote == nil && s.Row.Synced != nil {
				p.Steps[i].Action = mirror.Trash
			}
		}
	}),
	"a deletion in the directory beats an edit on the server": planned(func(p *mirror.Plan) {
		for i, s := range p.Steps {
			if s.Action == mirror.Download && s.Row.Local == nil && s.Row.Synced != nil {
				p.Steps[i].Action = mirror.Delete
			}
		}
	}),
	"of two edits the server's replaces the other": planned(func(p *mirror.Plan) {
		lost := map[string]mirror.Row{}
		p.Steps = slices.DeleteFunc(p.Steps, func(s mirror.Step) bool {
			if s.Action == mirror.SetAside && s.Row.Remote != nil {
				lost[s.Row.Key] = s.Row
			}
			return s.Action == mirror.SetAside && s.Row.Remote != nil
		})
		for i, s := range p.Steps {
			if r, ok := lost[s.Row.Key]; ok && s.Action == mirror.Download {
				p.Steps[i].Row = r
			}
		}
	}),
	"of two edits the directory's replaces the other": planned(func(p *mirror.Plan) {
		won := map[string]bool{}
		for i, s := range p.Steps {
			if s.Action == mirror.SetAside && s.Row.Remote != nil {
				won[s.Row.Key] = true
				p.Steps[i].Action, p.Steps[i].Path = mirror.Upload, s.Row.Local.Path
			}
		}
		p.Steps = slices.DeleteFunc(p.Steps, func(s mirror.Step) bool { return s.Action == mirror.Download && won[s.Row.Key] })
	}),
	"conflict copies are not uploaded": planned(func(p *mirror.Plan) {
		p.Steps = slices.DeleteFunc(p.Steps, func(s mirror.Step) bool { return s.Action == mirror.Upload && mirror.IsConflict(s.Path) })
	}),
	"no guard looks at an emptied directory":        planned(func(p *mirror.Plan) { p.Emptied = false }),
	"no guard looks at deletions":                   planned(func(p *mirror.Plan) { p.Deletions = 0 }),
	"deletions are not counted":                     planned(func(p *mirror.Plan) { p.Known = 1 << 20 }),
	"what a whole manifest lacks counts as deleted": planned(func(p *mirror.Plan) { p.Missing = 0 }),
	"patterns are not applied to what the server has": func(o *client.Options) {
		o.Plan = func(in mirror.Input) mirror.Plan {
			in.Rules.Ignored = func(string) bool { return false }
			return mirror.MakePlan(in)
		}
	},
	"what is no file is not listed": func(o *client.Options) {
		o.Disk = scanned{o.Disk, isPlain}
	},
	"symbolic links are followed": func(o *client.Options) {
		d := o.Disk.(*disk)
		o.Disk = followed{scanned{d, func(e *mirror.Entry) bool {
			if e.Kind == mirror.Symlink {
				e.Kind, e.Checksum = mirror.File, must.Sum(d.files[e.Name].content)
			}
			return true
		}}, d}
	},
	"what is no file is replaced": func(o *client.Options) {
		o.Disk = scanned{o.Disk, isPlain}
		o.DiskWriter = replacingDisk{o.DiskWriter, o.DiskWriter.(*disk)}
	},
	"files are not looked at again before they are replaced, moved or removed": func(o *client.Options) {
		o.DiskWriter = blindDisk{o.DiskWriter, o.DiskWriter.(*disk)}
	},
	"a file is not looked for right before the server's is deleted": func(o *client.Options) { o.Disk = &unsought{Disk: o.Disk} },
	"staged content is not verified":                                func(o *client.Options) { o.DiskWriter = trustingDisk{o.DiskWriter} },
	"versions are not compared":                                     func(o *client.Options) { o.RemoteWriter = anyVersion{o.RemoteWriter, o.Remote.(*remote).server} },
	"an upload to a path that is taken replaces what is there": func(o *client.Options) {
		o.RemoteWriter = replacing{o.RemoteWriter, o.Remote.(*remote).server}
	},
	"the cursor is stored without the records":     func(o *client.Options) { o.State = cursorState{o.State} },
	"what was agreed is forgotten at each start":   func(o *client.Options) { o.State = forgetful{o.State} },
	"errors of the disk are taken for success":     func(o *client.Options) { o.DiskWriter = successful{o.DiskWriter} },
	"downloads are stored before they are durable": func(o *client.Options) { o.DiskWriter = unsyncedDisk{o.DiskWriter, o.DiskWriter.(*disk)} },
	"renames are stored before they are durable":   func(o *client.Options) { o.DiskWriter = unsyncedRenames{o.DiskWriter, o.DiskWriter.(*disk)} },
	"a file is renamed to a path that is taken":    func(o *client.Options) { o.DiskWriter = overwriting{o.DiskWriter, o.DiskWriter.(*disk)} },
	"contents are downloaded twice":                func(o *client.Options) { o.Remote = twice{o.Remote} },
	"uploads are stored before they are durable":   func(o *client.Options) { o.Disk = unsyncedFiles{o.Disk} },
	"moved files count as durable if their contents are": func(o *client.Options) {
		d := o.Disk.(*disk)
		o.Disk = partlySynced{d, func(e mirror.Entry) bool { return d.now().UnixNano()-e.Facts.ChangeTime < int64(writeback) }}
	},
	"that files are gone is stored before it is durable": func(o *client.Options) {
		d := o.Disk.(*disk)
		o.Disk = partlySynced{d, func(e mirror.Entry) bool { return d.files[e.Name] != nil }}
	},
	"what one scan has not found is deleted":        func(o *client.Options) { o.Disk = &scannedOnce{Disk: o.Disk} },
	"a file with an older time counts as unchanged": func(o *client.Options) { o.Disk = newerDisk{o.Disk} },
	"equal edits of both sides are a conflict": func(o *client.Options) {
		o.Plan = func(in mirror.Input) mirror.Plan {
			in.Rows = maps.Clone(in.Rows)
			was := map[string]*mirror.Record{}
			for key, r := range in.Rows {
				if r.Local != nil && r.Remote != nil && r.Local.Checksum == r.Remote.Checksum && (r.Synced == nil || r.Synced.Checksum != r.Local.Checksum) {
					was[key] = r.Remote
					other := *r.Remote
					other.Checksum = "another"
					r.Remote = &other
					in.Rows[key] = r
				}
			}
			p := mirror.MakePlan(in)
			for i, s := range p.Steps {
				if r := was[s.Row.Key]; r != nil {
					p.Steps[i].Row.Remote = r
				}
			}
			return p
		}
	},
}

// forgetful is a state whose rows say nothing of agreements.
type forgetful struct{ ports.MirrorState }

func (s forgetful) Rows(ctx context.Context, each func(mirror.Row) error) error {
	return s.MirrorState.Rows(ctx, func(r mirror.Row) error {
		r.Synced = nil
		return each(r)
	})
}

type successful struct{ ports.DiskWriter }

func (d successful) Rename(ctx context.Context, renames ...mirror.Renaming) []mirror.Placed {
	renamed := d.DiskWriter.Rename(ctx, renames...)
	for i, r := range renamed {
		if fault.Is(r.Err, fault.Unavailable) {
			renamed[i] = mirror.Placed{Entry: renames[i].Entry}
		}
	}
	return renamed
}

func (d successful) Trash(ctx context.Context, files ...mirror.Entry) []error {
	errs := d.DiskWriter.Trash(ctx, files...)
	for i, err := range errs {
		if fault.Is(err, fault.Unavailable) {
			errs[i] = nil
		}
	}
	return errs
}

type unsyncedDisk struct {
	ports.DiskWriter
	disk *disk
}

func (d unsyncedDisk) Place(ctx context.Context, contents ...mirror.Placement) (placed []mirror.Placed) {
	for _, c := range contents {
		one := d.DiskWriter.Place(ctx, c)
		if e := one[0].Entry; one[0].Err == nil {
			d.disk.unsynced = append(d.disk.unsynced, unsynced{at: d.disk.steady(), name: e.Name, own: true})
		}
		placed = append(placed, one...)
	}
	return placed
}

// unsyncedRenames is a disk whose renames are not durable when they are done.
type unsyncedRenames struct {
	ports.DiskWriter
	disk *disk
}

func (d unsyncedRenames) Rename(ctx context.Context, renames ...mirror.Renaming) []mirror.Placed {
	was := d.disk.stopped
	d.disk.stopped = func() bool { return true }
	defer func() { d.disk.stopped = was }()
	return d.DiskWriter.Rename(ctx, renames...)
}

// overwriting is a disk that renames files to paths that are taken.
type overwriting struct {
	ports.DiskWriter
	disk *disk
}

func (d overwriting) Rename(ctx context.Context, renames ...mirror.Renaming) []mirror.Placed {
	alters := d.disk.alters
	defer func() { d.disk.alters = alters }()
	d.disk.alters = func(path string) {
		alters(path)
		if !slices.ContainsFunc(renames, func(r mirror.Renaming) bool { return r.Entry.Path == path }) {
			maps.DeleteFunc(d.disk.files, func(name string, _ *file) bool { return d.disk.same(name, path) })
		}
	}
	return d.DiskWriter.Rename(ctx, renames...)
}

type twice struct{ ports.Remote }

func (r twice) Download(ctx context.Context, of mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	if _, content, err := r.Remote.Download(ctx, of, offset); err == nil {
		_ = content.Close()
	}
	return r.Remote.Download(ctx, of, offset)
}

type unsyncedFiles struct{ ports.Disk }

func (unsyncedFiles) Sync(_ context.Context, files ...mirror.Entry) []error {
	return make([]error, len(files))
}

// partlySynced syncs only some files.
type partlySynced struct {
	*disk
	synced func(mirror.Entry) bool
}

func (d partlySynced) Sync(ctx context.Context, files ...mirror.Entry) []error {
	errs := make([]error, len(files))
	for i, e := range files {
		if d.synced(e) {
			errs[i] = d.disk.Sync(ctx, e)[0]
		}
	}
	return errs
}

type newerDisk struct{ ports.Disk }

func (d newerDisk) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	return d.Disk.Scan(ctx, scope, known, func(e mirror.Entry) error {
		if facts, sum, ok := known(e.Name); ok && e.Facts.ModTime < facts.ModTime {
			e.Checksum = sum
		}
		return each(e)
	})
}

// scanned is a disk whose entries are altered, or left out.
type scanned struct {
	ports.Disk
	alter func(*mirror.Entry) bool
}

func (d scanned) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	return d.Disk.Scan(ctx, scope, known, func(e mirror.Entry) error {
		if !d.alter(&e) {
			return nil
		}
		return each(e)
	})
}

// scannedOnce is a disk that is scanned once for each reading of the patterns, and passes the same again.
type scannedOnce struct {
	ports.Disk
	found []mirror.Entry // nil if it was not scanned
}

func (d *scannedOnce) Rules(ctx context.Context) (mirror.Rules, error) {
	d.found = nil
	return d.Disk.Rules(ctx)
}

func (d *scannedOnce) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	if d.found != nil {
		for _, e := range d.found {
			if err := each(e); err != nil {
				return err
			}
		}
		return nil
	}
	d.found = []mirror.Entry{}
	return d.Disk.Scan(ctx, scope, known, func(e mirror.Entry) error {
		d.found = append(d.found, e)
		return each(e)
	})
}

// isPlain reports whether an entry is a file or a directory.
func isPlain(e *mirror.Entry) bool { return e.Kind == mirror.File || e.Kind == mirror.Directory }

// followed is a disk that opens what symbolic links lead to.
type followed struct {
	ports.Disk
	disk *disk
}

func (d followed) Open(ctx context.Context, e mirror.Entry) (io.ReadCloser, error) {
	if f := d.disk.files[e.Name]; f != nil && f.kind == mirror.Symlink {
		return io.NopCloser(strings.NewReader(f.content)), nil
	}
	return d.Disk.Open(ctx, e)
}

// replacingDisk is a disk that replaces what is no file.
type replacingDisk struct {
	ports.DiskWriter
	disk *disk
}

func (d replacingDisk) Place(ctx context.Context, contents ...mirror.Placement) []mirror.Placed {
	for _, c := range contents {
		maps.DeleteFunc(d.disk.files, func(name string, f *file) bool { return d.disk.same(name, c.Path) && f.kind != mirror.File })
	}
	return d.DiskWriter.Place(ctx, contents...)
}

type blindDisk struct {
	ports.DiskWriter
	disk *disk
}

// now returns the entry as the file is at present.
func (b blindDisk) now(e mirror.Entry) mirror.Entry {
	if f := b.disk.files[e.Name]; f != nil && e.Kind == mirror.File {
		e.Facts, e.Checksum = b.disk.facts(f), must.Sum(f.content)
	}
	return e
}

func (b blindDisk) Place(ctx context.Context, contents ...mirror.Placement) (placed []mirror.Placed) {
	for _, c := range contents {
		if c.Target != nil {
			e := b.now(*c.Target)
			c.Target = &e
		}
		placed = append(placed, b.DiskWriter.Place(ctx, c)...)
	}
	return placed
}

func (b blindDisk) Trash(ctx context.Context, files ...mirror.Entry) (errs []error) {
	for _, e := range files {
		errs = append(errs, b.DiskWriter.Trash(ctx, b.now(e))...)
	}
	return errs
}

func (b blindDisk) Rename(ctx context.Context, renames ...mirror.Renaming) (renamed []mirror.Placed) {
	for _, r := range renames {
		one := b.DiskWriter.Rename(ctx, mirror.Renaming{Entry: b.now(r.Entry), Path: r.Path})
		one[0].Entry.Checksum = r.Entry.Checksum
		renamed = append(renamed, one...)
	}
	return renamed
}

// unsought is a disk that has no files but those that a scan has found.
type unsought struct {
	ports.Disk
	found map[string]bool
}

func (d *unsought) Scan(ctx context.Context, scope mirror.Scope, known func(string) (mirror.Facts, string, bool), each func(mirror.Entry) error) error {
	d.found = map[string]bool{}
	return d.Disk.Scan(ctx, scope, known, func(e mirror.Entry) error {
		d.found[e.Name] = true
		return each(e)
	})
}

func (d *unsought) Open(ctx context.Context, e mirror.Entry) (io.ReadCloser, error) {
	if !d.found[e.Name] {
		return nil, fault.Missing("File")
	}
	return d.Disk.Open(ctx, e)
}

type trustingDisk struct{ ports.DiskWriter }

func (d trustingDisk) Stage(ctx context.Context, name string, offset int64, r io.Reader) (string, error) {
	_, err := d.DiskWriter.Stage(ctx, name, max(offset-1, 0), r)
	checksum, _, _ := strings.Cut(name, "-")
	return checksum, err
}

type anyVersion struct {
	ports.RemoteWriter
	server *server
}

// now returns the record as it is at present.
func (r anyVersion) now(ctx context.Context, of mirror.Record) mirror.Record {
	_, _ = r.server.list(ctx, func(record mirror.Record) error {
		if record.ID == of.ID {
			of = record
		}
		return nil
	})
	return of
}

func (r anyVersion) Replace(ctx context.Context, of mirror.Record, sum string, size int64, content io.Reader) (mirror.Record, error) {
	return r.RemoteWriter.Replace(ctx, r.now(ctx, of), sum, size, content)
}

func (r anyVersion) Delete(ctx context.Context, of mirror.Record) error {
	return r.RemoteWriter.Delete(ctx, r.now(ctx, of))
}

func (r anyVersion) Batch(ctx context.Context, writes []mirror.Write) ([]mirror.Result, error) {
	writes = slices.Clone(writes)
	for i, w := range writes {
		writes[i].Version = r.now(ctx, mirror.Record{ID: w.ID, Version: w.Version}).Version
	}
	return r.RemoteWriter.Batch(ctx, writes)
}

type replacing struct {
	ports.RemoteWriter
	server *server
}

func (r replacing) Create(ctx context.Context, path, sum string, size int64, content io.Reader) (mirror.Record, error) {
	var there *mirror.Record
	_, _ = r.server.list(ctx, func(record mirror.Record) error {
		if mirror.KeyOf(record.Path) == mirror.KeyOf(path) {
			there = &record
		}
		return nil
	})
	if there != nil {
		return r.Replace(ctx, *there, sum, size, content)
	}
	return r.RemoteWriter.Create(ctx, path, sum, size, content)
}

func (r replacing) Batch(context.Context, []mirror.Write) ([]mirror.Result, error) {
	return nil, fault.New(fault.Unsupported, "no batches")
}

type cursorState struct{ ports.MirrorState }

func (s cursorState) Put(ctx context.Context, rows []mirror.Row, cursor *object.Cursor) error {
	if cursor == nil {
		return s.MirrorState.Put(ctx, rows, nil)
	}
	if err := s.MirrorState.Put(ctx, nil, cursor); err != nil {
		return err
	}
	return s.MirrorState.Put(ctx, rows, nil)
}

func TestTheSimulationFindsEachFault(t *testing.T) {
	for about, mutate := range mutations {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				if _, err := simulate(t.Context(), newScenario(seed), mutate); err != nil {
					t.Logf("found by seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("no seed up to %d finds it", seeds)
		})
	}
}
