package archives

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"collab/domain/archive"
	"collab/domain/audit"
	"collab/domain/export"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// linkLifetime is how long an address at the object store can be used to begin a download.
const linkLifetime = 10 * time.Minute

// MimeType is the media type of an archive.
const MimeType = "application/gzip"

// running is the export that this server works on.
type running struct {
	mu       sync.Mutex
	export   export.Export // guarded by mu; zero: none
	progress export.Progress
	cancel   context.CancelCauseFunc // ends the work
}

// set replaces the export, whose progress begins anew.
func (r *running) set(e export.Export, cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.export, r.progress, r.cancel = e, export.Progress{}, cancel
}

func (r *running) report(change func(*export.Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.progress)
}

func (r *running) state() (export.Export, export.Progress, context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.export, r.progress, r.cancel
}

// Start requests an archive of the organisation as the actor, an OWNER, sees it: without the
// personal teams and files of other members.
func (a *Archives) Start(ctx context.Context, actor org.Actor) (e export.Export, err error) {
	err = a.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckOwner(); err != nil {
			return err
		}
		now := a.Clock.Now()
		all, err := r.Journal().Exports().List(ctx, actor.Org)
		if err != nil {
			return err
		}
		if err := export.CheckLimit(all, now); err != nil {
			return err
		}
		e = export.New(id.Export(a.IDs.New()), actor.Org, actor.User, now)
		if err := r.Journal().Exports().Add(ctx, actor.Org, e); err != nil {
			return err
		}
		return r.Journal().Audit().Add(ctx, audit.By(actor, a.Origin(ctx), id.Entry(a.IDs.New()), actor.Org, audit.ExportRequested, string(e.ID), "", now))
	})
	return e, err
}

// Exports returns the exports that the actor asked for, the newest first.
func (a *Archives) Exports(ctx context.Context, actor org.Actor) ([]export.Export, error) {
	if err := actor.CheckOwner(); err != nil {
		return nil, err
	}
	all, err := a.Store.Journal().Exports().List(ctx, actor.Org)
	if err != nil {
		return nil, err
	}
	var own []export.Export
	for _, e := range all {
		if e.User == actor.User {
			own = append(own, e)
		}
	}
	return own, nil
}

// ExportOf returns an export that the actor asked for.
func (a *Archives) ExportOf(ctx context.Context, actor org.Actor, exportID id.Export) (export.Export, error) {
	if err := actor.CheckOwner(); err != nil {
		return export.Export{}, err
	}
	e, err := a.Store.Journal().Exports().Get(ctx, actor.Org, exportID)
	if err == nil && e.User != actor.User {
		err = fault.Missing("Export")
	}
	return e, err
}

// WithdrawExports ends the exports of a member who is deleted, and discards their archives, which have the member's
// personal files.
func WithdrawExports(ctx context.Context, r ports.Records, o id.Org, member id.User, now time.Time) error {
	all, err := r.Journal().Exports().List(ctx, o)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.User != member || e.StoredStatus() == export.Failed || e.Status(now) == export.Expired {
			continue
		}
		e, err := r.Journal().Exports().Update(ctx, o, e.ID, func(e export.Export) (export.Export, error) { return e.Withdrawn(now), nil })
		if err == nil && e.Blob != "" {
			err = r.Storage().BlobNames().Discard(ctx, o, []string{e.Blob}, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Link returns an address at the object store of the archive of an export that is ready, and when
// it can no longer be used; "" if the store gives out none.
func (a *Archives) Link(ctx context.Context, e export.Export) (address string, expires time.Time, err error) {
	if a.Signed == nil {
		return "", time.Time{}, nil
	}
	now := a.Clock.Now()
	lifetime := min(linkLifetime, e.ExpiresAt.Sub(now))
	address, err = a.Signed.SignGet(ctx, e.Blob, MimeType, Disposition(e), lifetime)
	return address, now.Add(lifetime), err
}

// Disposition returns the Content-Disposition of the archive of an export.
func Disposition(e export.Export) string {
	return "attachment; filename*=UTF-8''collab-export-" + e.CreatedAt.Format(time.DateOnly) + ".tar.gz"
}

// Archive opens the archive of an export from offset on: Conflict before it is ready, Gone after it
// has expired.
func (a *Archives) Archive(ctx context.Context, e export.Export, offset, length int64) (io.ReadCloser, error) {
	switch e.Status(a.Clock.Now()) {
	case export.Ready:
	case export.Expired:
		return nil, fault.New(fault.Gone, "The archive has expired")
	case export.Failed:
		return nil, fault.New(fault.Gone, "The export failed, and has no archive")
	default:
		return nil, fault.New(fault.Conflict, "The archive is not ready")
	}
	r, err := a.Blobs.Open(ctx, e.Blob, offset, length)
	if fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.Gone, err, "The archive is no longer in the store")
	}
	return r, err
}

// errClaimLost ends the work on an export that another server has claimed.
var errClaimLost = errors.New("another server has claimed the export")

// MakeDue makes the archive of the export that has been due for longest, if any is due. A server that
// dies leaves the export to another one after export.ClaimDuration.
func (a *Archives) MakeDue(ctx context.Context) error {
	now := a.Clock.Now()
	claim := a.IDs.New()
	e, err := a.Store.Journal().Exports().Claim(ctx, now, func(e export.Export) (export.Export, error) { return e.Claimed(claim, now) })
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil || !e.IsOpen() { // it failed, as servers died
		return err
	}
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.running.set(e, cancel)
	defer a.running.set(export.Export{}, nil)
	err = a.makeArchive(working, e)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(working), errClaimLost):
		return errClaimLost
	case ctx.Err() != nil: // the server stops
		stopped, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
		return a.update(stopped, e, func(e export.Export) (export.Export, error) { return e.Released(claim, a.Clock.Now()) })
	}
	reason, final := "The archive could not be made", errors.Is(err, errNoOwner)
	if final {
		reason, err = errNoOwner.Message, nil
	}
	return errors.Join(err, a.update(ctx, e, func(e export.Export) (export.Export, error) {
		return e.AfterFailure(claim, reason, final, a.Clock.Now())
	}))
}

// errNoOwner ends an export whose member must not have it any more.
var errNoOwner = fault.New(fault.Forbidden, "The member who asked for it is no OWNER any more")

const (
	releaseWithin = 2 * time.Second  // bounds the release of an export by a server that stops
	extendWithin  = 10 * time.Second // bounds an extension of a claim: the connection may be broken
)

func (a *Archives) update(ctx context.Context, e export.Export, fn func(export.Export) (export.Export, error)) error {
	_, err := a.Store.Journal().Exports().Update(ctx, e.Org, e.ID, fn)
	return err
}

// ExtendClaim extends the claim of the export that this server works on, stores how far it is, and
// ends the work if another server has claimed it.
func (a *Archives) ExtendClaim(ctx context.Context) error {
	e, p, endWork := a.running.state()
	if e.ID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, extendWithin)
	defer cancel()
	err := a.update(ctx, e, func(current export.Export) (export.Export, error) { return current.Extended(e.Claim, p, a.Clock.Now()) })
	if fault.Is(err, fault.Conflict, fault.NotFound) {
		endWork(errClaimLost)
	}
	return err
}

// maxAttempt bounds an attempt, so that it ends before its archive's name is garbage.
const maxAttempt = object.BlobGracePeriod - time.Hour

// makeArchive writes the archive to the store under an announced name, which is announced anew so that it
// is garbage when the archive expires.
func (a *Archives) makeArchive(ctx context.Context, e export.Export) error {
	m, err := a.Store.Directory().Members().Get(ctx, e.Org, e.User)
	if fault.Is(err, fault.NotFound) || err == nil && (!m.Active() || m.Role != org.Owner) {
		err = errNoOwner
	}
	if err != nil {
		return err
	}
	name := e.BlobName(a.Secrets.Secret())
	if err := a.Store.Storage().BlobNames().Announce(ctx, e.Org, name, 0, a.Clock.Now()); err != nil {
		return err
	}
	packing, cancel := context.WithTimeout(ctx, maxAttempt)
	defer cancel()
	size, err := a.pack(packing, e, name)
	if err != nil {
		return err
	}
	_, p, _ := a.running.state()
	return a.Store.Atomic(ctx, func(r ports.Records) error {
		now := a.Clock.Now()
		expires := now.Add(a.Retention)
		_, err := r.Journal().Exports().Update(ctx, e.Org, e.ID, func(current export.Export) (export.Export, error) {
			return current.Finished(e.Claim, p, name, size, now, expires)
		})
		if err != nil {
			return err
		}
		names := r.Storage().BlobNames()
		if err := names.Forget(ctx, object.Blob{Org: e.Org, Name: name}); err != nil {
			return fault.Wrap(fault.Unavailable, err, "The archive was collected, as it took longer than %v", object.BlobGracePeriod)
		}
		return names.Announce(ctx, e.Org, name, 0, expires.Add(-object.BlobGracePeriod))
	})
}

// pack writes the archive to the store and returns its size.
func (a *Archives) pack(ctx context.Context, e export.Export, name string) (int64, error) {
	from, to := io.Pipe()
	done := make(chan struct{})
	w := &counter{Writer: to}
	s := archive.VisibleTo(e.User)
	go func() {
		defer close(done)
		to.CloseWithError(fault.Catch(func() error {
			_, err := a.exportTo(ctx, e.Org, s, w, func(r archive.Record) {
				a.running.report(func(p *export.Progress) {
					p.Records++
					if r.Object != nil {
						p.Files++
					}
				})
			}, func(contents, bytes int64) {
				a.running.report(func(p *export.Progress) { p.Done, p.Bytes = contents, bytes })
			})
			return err
		}))
	}()
	err := a.Blobs.Put(ctx, name, MimeType, -1, from)
	from.CloseWithError(err) // nil: it was read to its end
	<-done
	return w.n, err
}

// counter counts the bytes that are written.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}
