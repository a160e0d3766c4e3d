package mirror

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"

	"collab/domain/fault"
	"collab/domain/mirror"
)

// step does a step that is not done together with others, and stores the rows that follow from it.
func (r *round) step(ctx context.Context, s mirror.Step) error {
	row := s.Row
	switch s.Action {
	case mirror.RespellDirectory:
		e := r.directory(s.From)
		if e == nil {
			return fault.Missing("Directory")
		}
		err := r.DiskWriter.Rename(ctx, mirror.Renaming{Entry: *e, Path: s.Path})[0].Err
		r.lock.Lock()
		r.scope = r.scope.Add(mirror.Scope{Trees: []string{s.From, s.Path}})
		r.lock.Unlock()
		return err
	case mirror.Move:
		r.recordInFlight(s)
		record, err := r.RemoteWriter.Move(ctx, *row.Remote, s.Path)
		return r.agreeOn(ctx, s, record, err)
	case mirror.MoveDirectory:
		for _, one := range s.Steps {
			r.recordInFlight(one)
		}
		// The records have other versions now, which the next reading of the server tells.
		return remotely(r.RemoteWriter.MoveDirectory(ctx, s.From, s.Path))
	case mirror.DeleteFirst, mirror.Delete:
		if err := r.checkAbsent(ctx, s); err != nil {
			return err
		}
		return r.agreeOn(ctx, s, mirror.Record{}, r.RemoteWriter.Delete(ctx, *row.Remote))
	}
	return r.upload(ctx, s)
}

// forgotten returns a row with what the server has alone: both sides agree on nothing, and nobody has deleted the file.
func forgotten(row mirror.Row) mirror.Row { return mirror.Row{Key: row.Key, Remote: row.Remote} }

// forgetAgreements has the state forget that both sides agreed on files that are about to leave their paths, where the server has one.
func (r *round) forgetAgreements(ctx context.Context, steps []mirror.Step) error {
	var rows []mirror.Row
	for _, s := range steps {
		if s.Action != mirror.Rename && s.Row.Synced != nil && s.Row.Remote != nil {
			rows = append(rows, forgotten(s.Row))
		}
	}
	return r.put(ctx, nil, rows...)
}

// rename does renames, or sets files aside, together.
func (r *round) rename(ctx context.Context, steps []mirror.Step) error {
	if err := r.forgetAgreements(ctx, steps); err != nil {
		return r.finishAll(ctx, steps, func(int) error { return err })
	}
	renames := make([]mirror.Renaming, len(steps))
	for i, s := range steps {
		renames[i] = mirror.Renaming{Entry: *s.Row.Local, Path: s.Path}
	}
	placed := r.DiskWriter.Rename(ctx, renames...)
	return r.follow(ctx, steps, func(i int, s mirror.Step) ([]mirror.Row, *mirror.Entry, error) {
		e := new(placed[i].Entry)
		if s.Action == mirror.SetAside {
			return []mirror.Row{forgotten(s.Row)}, e, placed[i].Err
		}
		return moved(s.Row, agreed(s.To, *s.To.Remote, e)), e, placed[i].Err
	})
}

// trash moves files to the trash together.
func (r *round) trash(ctx context.Context, steps []mirror.Step) error {
	if err := r.forgetAgreements(ctx, steps); err != nil {
		return r.finishAll(ctx, steps, func(int) error { return err })
	}
	files := make([]mirror.Entry, len(steps))
	for i, s := range steps {
		files[i] = *s.Row.Local
	}
	errs := r.DiskWriter.Trash(ctx, files...)
	return r.follow(ctx, steps, func(i int, s mirror.Step) ([]mirror.Row, *mirror.Entry, error) {
		return []mirror.Row{forgotten(s.Row)}, nil, errs[i]
	})
}

// follow stores the rows that follow from steps which have changed the directory together, and finishes the steps.
// after returns the rows and the file, which is nil if it is in the trash, or the error of a step.
func (r *round) follow(ctx context.Context, steps []mirror.Step, after func(i int, s mirror.Step) ([]mirror.Row, *mirror.Entry, error)) error {
	var rows []mirror.Row
	errs := make([]error, len(steps))
	for i, s := range steps {
		follow, e, err := after(i, s)
		if errs[i] = err; err == nil {
			r.updateEntries(s, e)
			rows = append(rows, follow...)
		}
	}
	stored := r.put(ctx, nil, rows...)
	return r.finishAll(ctx, steps, func(i int) error { return cmp.Or(errs[i], stored) })
}

// checkAbsent looks once more for the file of which the server's is to be deleted. It returns Conflict if
// the file is there again.
func (r *round) checkAbsent(ctx context.Context, s mirror.Step) error {
	r.lock.Lock()
	was := r.rows[s.Row.Key].Local // where it was last
	r.lock.Unlock()
	if was == nil {
		return nil
	}
	content, err := r.Disk.Open(ctx, *was)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		err = errors.Join(content.Close(), fault.New(fault.Conflict, "The file is there again."))
	}
	return err
}

// updateEntries changes what is known of the directory after a step: a file is not where it was, but
// where the step has put it, which may be in a directory of another spelling than planned.
func (r *round) updateEntries(s mirror.Step, is *mirror.Entry) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if was := s.Row.Local; was != nil {
		delete(r.entries, was.Name)
	}
	if is != nil {
		r.entries[is.Name] = is
		if !r.isNotified(s) {
			r.touch(is.Path)
		}
	}
}

// isNotified reports whether notifications tell what a scan after the step would find: of a transfer the directories that
// were made for it, and what others have changed meanwhile. The caller must hold the lock.
func (r *round) isNotified(s mirror.Step) bool {
	return r.notified && (s.Action == mirror.Upload || s.Action == mirror.Download)
}

// directory returns a directory of the last scan by its path.
func (r *round) directory(path string) *mirror.Entry {
	for _, e := range r.entries {
		if e.Kind == mirror.Directory && e.Path == path {
			return e
		}
	}
	return nil
}

// agreed returns the row of a file that both sides have.
func agreed(was mirror.Row, record mirror.Record, e *mirror.Entry) mirror.Row {
	if record.Path == e.Path && record.Checksum == e.Checksum {
		record.Path, record.Checksum = e.Path, e.Checksum // not twice in memory
	}
	return mirror.Row{Key: was.Key, Remote: &record, Local: e, Synced: mirror.NewSynced(record, e.Path)}
}

// moved returns the rows after a move: none is left at the old path.
func moved(from, to mirror.Row) []mirror.Row {
	if from.Key == to.Key {
		return []mirror.Row{to}
	}
	return []mirror.Row{{Key: from.Key}, to}
}

// renamed returns a row after an agreement on the content alone: a change of the name on either
// side is still to be followed.
func renamed(was, now mirror.Row) mirror.Row {
	if was.Synced != nil && was.Local != nil && was.Remote != nil {
		now.Synced.Path, now.Synced.Name = was.Synced.Path, was.Synced.Name
	}
	return now
}

// answered returns the rows after the server has done a step, alone or in a batch: a deletion, a
// move or an upload. record is the file there, empty after a deletion.
func answered(s mirror.Step, record mirror.Record) []mirror.Row {
	switch s.Action {
	case mirror.DeleteFirst, mirror.Delete:
		return []mirror.Row{{Key: s.Row.Key}}
	case mirror.Move:
		return moved(s.Row, agreed(s.To, record, s.To.Local))
	}
	return []mirror.Row{renamed(s.Row, agreed(s.Row, record, s.Row.Local))}
}

// source is a reader whose own error is kept: those who read from it may return another one.
type source struct {
	io.Reader
	err  error
	read func(n int)
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	if n > 0 {
		s.read(n)
	}
	return n, err
}

func (r *round) transferred(s mirror.Step) func(int) {
	return func(n int) { r.Report(Event{Step: s, Kind: Transferred, Bytes: int64(n)}) }
}

// stagedName returns the name under which the content for a row is staged. An interrupted
// download of the same content goes on from what is there.
func stagedName(key, checksum string) string {
	sum := sha256.Sum256([]byte(key))
	return checksum + "-" + hex.EncodeToString(sum[:8])
}

// errDamaged says that all of a content came and does not have its checksum.
var errDamaged = fault.New(fault.Unavailable, "The content came damaged from the server. It is downloaded again later.")

// download does downloads. Their contents are staged, small ones together, and get their paths together.
func (r *round) download(ctx context.Context, steps []mirror.Step) error {
	var staged []mirror.Step
	var contents []mirror.Placement
	all := make([]*downloading, len(steps))
	for i, s := range steps {
		c := mirror.Placement{Name: stagedName(s.Row.Key, s.Row.Remote.Checksum), Path: s.Row.Remote.Path, Target: s.Row.Local}
		if c.Target != nil {
			c.Path = c.Target.Path
		}
		all[i] = &downloading{Step: s, content: c}
	}
	r.stageTogether(ctx, all)
	for _, d := range all {
		if !d.tried {
			d.err = r.stage(ctx, d.Step, d.content.Name)
		}
		if d.err != nil {
			if err := r.finish(ctx, d.Step, d.err); err != nil {
				return err
			}
			continue
		}
		staged, contents = append(staged, d.Step), append(contents, d.content)
	}
	if len(staged) == 0 {
		return nil
	}
	placed := r.DiskWriter.Place(ctx, contents...)
	return r.follow(ctx, staged, func(i int, s mirror.Step) ([]mirror.Row, *mirror.Entry, error) {
		e := new(placed[i].Entry)
		e.Checksum = s.Row.Remote.Checksum
		return []mirror.Row{renamed(s.Row, agreed(s.Row, *s.Row.Remote, e))}, e, placed[i].Err
	})
}

// finishAll calls finish for steps that were done together.
func (r *round) finishAll(ctx context.Context, steps []mirror.Step, errorOf func(i int) error) error {
	for i, s := range steps {
		if err := r.finish(ctx, s, errorOf(i)); err != nil {
			return err
		}
	}
	return nil
}

// downloading is a download that is being staged.
type downloading struct {
	mirror.Step
	content mirror.Placement
	tried   bool // its content is staged, or err is why not
	err     error
}

// stageTogether stages the contents of small downloads of which nothing is staged yet, many for each
// request, if the server can. Those that it leaves untried are to be staged one by one.
func (r *round) stageTogether(ctx context.Context, all []*downloading) {
	r.lock.Lock()
	limits := *r.limits
	r.lock.Unlock()
	if limits.ReadFiles < 2 {
		return
	}
	var together []*downloading
	var records []mirror.Record
	var size int64
	can := true
	flush := func() {
		if can && len(together) > 1 {
			can = r.stageRequested(ctx, together, records)
		}
		together, records, size = nil, nil, 0
	}
	for _, d := range all {
		record := *d.Row.Remote
		if record.Size > limits.ReadFileSize {
			continue
		}
		if staged, err := r.DiskWriter.Staged(ctx, d.content.Name, record.Size); staged > 0 || err != nil {
			continue
		}
		if len(records) == limits.ReadFiles || size+record.Size > limits.ReadBytes {
			flush()
		}
		together, records, size = append(together, d), append(records, record), size+record.Size
	}
	flush()
}

// stageRequested stages the contents of downloads that one request gets. It reports whether the server has
// such requests.
func (r *round) stageRequested(ctx context.Context, all []*downloading, records []mirror.Record) bool {
	err := r.Remote.DownloadAll(ctx, records, func(i int, content []byte, err error) error {
		d := all[i]
		switch {
		case fault.Is(err, fault.TooLarge):
			return nil
		case err != nil:
			err = downloadError(err)
		default:
			r.transferred(d.Step)(len(content))
			var checksum string
			if checksum, err = r.DiskWriter.Stage(ctx, d.content.Name, 0, bytes.NewReader(content)); err == nil {
				err = r.checkStaged(ctx, d.Step, d.content.Name, 0, checksum)
			}
		}
		d.tried, d.err = true, err
		return nil
	})
	if fault.Is(err, fault.Unsupported) {
		r.lock.Lock()
		r.limits.ReadFiles = 0
		r.lock.Unlock()
		return false
	}
	if err != nil {
		for _, d := range all {
			if !d.tried {
				d.tried, d.err = true, remoteError{err}
			}
		}
	}
	return true
}

// downloadError returns the error of a step whose content the server does not send.
func downloadError(err error) error {
	if fault.Is(err, fault.Internal) { // it cannot read it
		return errDamaged
	}
	return remoteError{err}
}

// stage stages the content of a download under a name.
func (r *round) stage(ctx context.Context, s mirror.Step, name string) error {
	record := *s.Row.Remote
	offset, err := r.DiskWriter.Staged(ctx, name, record.Size)
	if err != nil {
		return err
	}
	if offset > record.Size {
		offset = 0
	}
	var checksum string
	if offset == record.Size && offset > 0 {
		checksum, err = r.DiskWriter.Stage(ctx, name, offset, strings.NewReader(""))
	} else {
		now, content, openErr := r.Remote.Download(ctx, record, offset)
		if openErr != nil {
			return downloadError(openErr)
		}
		if now.Checksum != record.Checksum {
			_ = content.Close()
			return fault.New(fault.Conflict, "The server's file was changed meanwhile.")
		}
		from := &source{io.LimitReader(content, record.Size-offset+1), nil, r.transferred(s)} // one more shows that it is too long
		checksum, err = r.DiskWriter.Stage(ctx, name, offset, from)
		_ = content.Close()
		if from.err != nil {
			r.lock.Lock()
			defer r.lock.Unlock()
			if r.attempts[s.Row.Key] > 0 { // what was resumed had another checksum, and the server does not send all anew
				return errDamaged
			}
			return remoteError{from.err}
		}
	}
	if err != nil {
		return err
	}
	return r.checkStaged(ctx, s, name, offset, checksum)
}

// checkStaged returns an error if what is staged under a name, of which it is given the checksum, is not
// the content of a download, and removes it then. The offset is how much of it was staged before.
func (r *round) checkStaged(ctx context.Context, s mirror.Step, name string, offset int64, checksum string) error {
	if checksum != s.Row.Remote.Checksum {
		if _, err := r.DiskWriter.Stage(ctx, name, 0, strings.NewReader("")); err != nil {
			return err
		}
		if offset > 0 { // what was staged before may be to blame
			return fault.New(fault.Conflict, "The content that was staged is damaged.")
		}
		return errDamaged
	}
	return nil
}

func (r *round) upload(ctx context.Context, s mirror.Step) error {
	local := *s.Row.Local
	if err := r.tooLarge(s); err != nil {
		return cmp.Or(r.remember(ctx, s.Row), err)
	}
	content, err := r.Disk.Open(ctx, local)
	if err != nil {
		return err
	}
	r.recordInFlight(s)
	from := &source{content, nil, r.transferred(s)}
	var record mirror.Record
	if s.Row.Remote == nil {
		record, err = r.RemoteWriter.Create(ctx, local.Path, local.Checksum, local.Facts.Size, from)
	} else {
		record, err = r.RemoteWriter.Replace(ctx, *s.Row.Remote, local.Checksum, local.Facts.Size, from)
	}
	_ = content.Close()
	if from.err != nil {
		return from.err
	}
	return r.agreeOn(ctx, s, record, err)
}

// tooLarge returns an error if a step is an upload of more than the server accepts.
func (r *round) tooLarge(s mirror.Step) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if most := r.limits.MaxFile; most > 0 && s.Action == mirror.Upload && sizeOf(s) > most {
		return remoteError{fault.New(fault.TooLarge, "The file is larger than the server accepts, %d bytes.", most)}
	}
	return nil
}

// remember stores what the directory has of a file that is not sent, so that its content is not read again
// at the next start.
func (r *round) remember(ctx context.Context, row mirror.Row) error {
	r.lock.Lock()
	was := r.rows[row.Key]
	r.lock.Unlock()
	if equal(was.Local, row.Local) || r.sync(ctx, []mirror.Row{row})[row.Key] != nil {
		return nil
	}
	was.Key, was.Local = row.Key, row.Local
	return r.put(ctx, nil, was)
}

// agreeOn is agree for one step, which has led to a record of the server or an error.
func (r *round) agreeOn(ctx context.Context, s mirror.Step, record mirror.Record, err error) error {
	return r.agree(ctx, []mirror.Step{s}, []mirror.Result{{Record: record, Err: err}})[0]
}

// agree stores the rows after steps that the server has done, each with its result, and returns an
// error or nil for each. Before, what the directory has then is made durable: a power failure that
// took it back would look like a change by its user.
func (r *round) agree(ctx context.Context, steps []mirror.Step, results []mirror.Result) []error {
	changes, errs := make([][]mirror.Row, len(steps)), make([]error, len(steps))
	for i, s := range steps {
		if errs[i] = remotely(results[i].Err); errs[i] == nil {
			changes[i] = answered(s, results[i].Record)
		}
	}
	unsynced := r.sync(ctx, slices.Concat(changes...))
	var rows []mirror.Row
	for i, change := range changes {
		for _, row := range change {
			errs[i] = cmp.Or(errs[i], unsynced[row.Key])
		}
		if errs[i] == nil {
			rows = append(rows, change...)
		}
	}
	if err := r.put(ctx, nil, rows...); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
	}
	return errs
}

// batch does several steps of one action, which change the server, in one request.
func (r *round) batch(ctx context.Context, steps []mirror.Step) error {
	select {
	case r.batches <- struct{}{}:
		defer func() { <-r.batches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var writes []mirror.Write
	var sent []mirror.Step
	for _, s := range steps {
		if r.holdForLimits(s) {
			continue
		}
		w, err := r.write(ctx, s)
		if err != nil {
			if err := r.finish(ctx, s, err); err != nil {
				return err
			}
			continue
		}
		writes, sent = append(writes, w), append(sent, s)
	}
	if len(sent) == 0 {
		return nil
	}
	results, err := r.RemoteWriter.Batch(ctx, writes)
	if fault.Is(err, fault.Unsupported, fault.TooLarge) { // a proxy may accept less than the server
		r.lock.Lock()
		r.limits.BatchFiles = 0
		r.lock.Unlock()
		return r.finishAll(ctx, sent, func(i int) error { return r.step(ctx, sent[i]) })
	}
	if fault.Is(err, fault.Forbidden) { // as each of them would be
		return r.finishAll(ctx, sent, func(int) error { return remoteError{err} })
	}
	if err == nil && len(results) != len(sent) {
		err = fault.New(fault.Unavailable, "The server answered for %d of %d files.", len(results), len(sent))
	}
	if err != nil {
		return remoteError{err}
	}
	for i, s := range sent {
		if results[i].Err == nil {
			r.transferred(s)(len(writes[i].Content))
		}
	}
	errs := r.agree(ctx, sent, results)
	return r.finishAll(ctx, sent, func(i int) error { return errs[i] })
}

// write returns a step as part of a batch that is about to be sent.
func (r *round) write(ctx context.Context, s mirror.Step) (w mirror.Write, err error) {
	if remote := s.Row.Remote; remote != nil {
		w.ID, w.Version = remote.ID, remote.Version
	}
	switch s.Action {
	case mirror.Delete, mirror.DeleteFirst:
		w.Delete = true
		return w, r.checkAbsent(ctx, s)
	case mirror.Move:
		w.Move, w.Path, w.Checksum = true, s.Path, s.Row.Remote.Checksum
	default:
		w.Path, w.Checksum = s.Path, s.Row.Local.Checksum
		if w.Content, err = r.readAll(ctx, *s.Row.Local); err != nil {
			return w, err
		}
	}
	r.recordInFlight(s)
	return w, nil
}

// readAll returns the content of a small file, of which the server compares the checksum.
func (r *round) readAll(ctx context.Context, e mirror.Entry) ([]byte, error) {
	content, err := r.Disk.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, e.Facts.Size+1+bytes.MinRead))
	n, err := io.Copy(b, io.LimitReader(content, e.Facts.Size+1))
	if n > e.Facts.Size { // its end, at which changes are noticed, was not read
		err = fault.New(fault.Conflict, "The file was changed meanwhile.")
	}
	return b.Bytes(), errors.Join(err, content.Close())
}
