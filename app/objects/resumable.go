package objects

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/upload"
	"collab/ports"
)

const (
	// partTimeout is how long storing a part may take, which includes its arrival.
	partTimeout = 10 * time.Minute

	// finishTimeout is how long storing the object of an upload may take, and finishRate how much
	// longer its size makes that, in bytes a second.
	finishTimeout = 10 * time.Minute
	finishRate    = 64 << 10

	// partsPage is how many parts are read or discarded at a time.
	partsPage = 500
)

// BeginResumable creates a resumable upload of a new object, or of the next content of the object if d is nil. It
// refuses what Create and Replace would refuse now. U has the size and may have the checksum; its
// content is not read.
func (s *Objects) BeginResumable(ctx context.Context, actor org.Actor, objectID id.Object, d *object.Draft, u Upload) (made upload.Upload, err error) {
	if u.Size > s.MaxSize {
		return made, tooLarge(s.MaxSize)
	}
	if d != nil {
		objectID = id.Object(s.IDs.New())
	}
	made = upload.New(upload.Upload{
		ID: id.Upload(s.IDs.New()), Org: actor.Org, User: actor.User, Object: objectID, Draft: d, MimeType: u.MimeType, Expected: u.Expected,
		Size: u.Size, Checksum: u.Checksum,
	}, s.Clock.Now())
	return made, s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, _ object.Head) error {
		if _, _, err := s.reserve(ctx, r, actor, objectID, d, u); err != nil {
			return err
		}
		err := r.Journal().Uploads().Add(ctx, actor.Org, made)
		if fault.Is(err, fault.Conflict) {
			return fault.Wrap(fault.Limited, err, "You have %d uploads that are not complete: complete or cancel some", upload.MaxOpen)
		}
		return err
	})
}

// Resumable returns a resumable upload that the actor created.
func (s *Objects) Resumable(ctx context.Context, actor org.Actor, uploadID id.Upload) (upload.Upload, error) {
	u, err := s.Store.Journal().Uploads().Get(ctx, actor.Org, uploadID)
	if err == nil && (u.User != actor.User || !u.Exists(s.Clock.Now())) {
		err = fault.Missing("Upload")
	}
	return u, err
}

// OpenUploads returns the actor's resumable uploads that are neither complete nor expired, in the order of their
// creation.
func (s *Objects) OpenUploads(ctx context.Context, actor org.Actor) ([]upload.Upload, error) {
	return s.Store.Storage().OpenUploads(ctx, actor.Org, actor.User, s.Clock.Now())
}

// AppendResumable appends in's content to an upload at the offset, where last says whether it is the end of the
// whole content. The content is stored part by part; what was stored before an error stays, also if the
// content ends with one. It returns the upload as it is then. In's BeforeStore is called before each part is
// awaited and before it is stored.
func (s *Objects) AppendResumable(ctx context.Context, actor org.Actor, resumable upload.Upload, offset int64, last bool, in *Upload) (upload.Upload, error) {
	err := resumable.CheckAppend(offset, in.Size, last, s.MinAppend)
	content := bufio.NewReader(in.Content)
	for total := int64(0); err == nil; {
		arrived := in.beforeStore()
		_, err = content.Peek(1)
		if err = cmp.Or(arrived(), err); err != nil {
			break
		}
		if resumable.Offset == resumable.Size {
			if err = s.CancelResumable(ctx, actor, resumable); err == nil {
				resumable, err = resumable.Cancel(s.Clock.Now())
			}
			if err == nil {
				err = fault.Field("Upload-Length", "is %d, and the content is longer: the upload is cancelled", resumable.Size)
			}
			return resumable, err
		}
		r := &partReader{from: content, left: min(s.PartSize, resumable.Size-resumable.Offset), check: func(n int64) error {
			return resumable.CheckLength(offset, total+n, s.MinAppend)
		}}
		var n int64
		if n, err = s.appendPart(ctx, actor, resumable, r, in); err == nil {
			resumable = resumable.Appended(n)
			total, err = total+n, r.contentErr
		}
	}
	switch {
	case err == io.EOF && last && resumable.Offset < resumable.Size:
		err = fault.Field("Upload-Length", "is %d, and the content ended at %d", resumable.Size, resumable.Offset)
	case err == io.EOF:
		err = nil
	case fault.Is(err, fault.Conflict):
		// Another request has appended, completed or cancelled it.
		now, lookup := s.Resumable(ctx, actor, resumable.ID)
		if lookup != nil {
			return resumable, lookup
		}
		resumable = now
	}
	return resumable, err
}

// appendPart stores what r reads as the next part of an upload, and returns its size. It does not end with
// the request, so that what has arrived of a broken one is stored.
func (s *Objects) appendPart(ctx context.Context, actor org.Actor, resumable upload.Upload, r *partReader, in *Upload) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partTimeout)
	defer cancel()
	p := upload.Part{Offset: resumable.Offset, Blob: resumable.BlobName(s.Secrets.Secret()[:randomLength])}
	if err := s.Store.Storage().BlobNames().Announce(ctx, resumable.Org, p.Blob, 0, s.Clock.Now()); err != nil {
		return 0, err
	}
	stored := in.beforeStore()
	if err := s.Blobs.Put(ctx, p.Blob, object.OctetStream, r.left, r); err != nil {
		return 0, err
	}
	if err := stored(); err != nil {
		return 0, err
	}
	p.Size = r.size
	return p.Size, s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		if err := r.Journal().Uploads().Append(ctx, resumable.Org, resumable.ID, p); err != nil {
			return err
		}
		names := r.Storage().BlobNames()
		if err := names.Forget(ctx, object.Blob{Org: resumable.Org, Name: p.Blob}); err != nil {
			return fault.Wrap(fault.Unavailable, err, "The part took too long and was given up; send it again")
		}
		return names.Discard(ctx, resumable.Org, []string{p.Blob}, resumable.Appended(p.Size).ExpiresAt)
	})
}

// partReader reads one part of a request's content. It ends at an error, which is broken then, if enough
// returns nil for the size of the part.
type partReader struct {
	from  io.Reader
	left  int64 // in bytes
	check func(size int64) error

	size       int64 // in bytes, as read
	contentErr error // io.EOF at the end of the content
}

func (r *partReader) Read(p []byte) (int, error) {
	if r.left == 0 || r.contentErr != nil {
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.size, r.left = r.size+int64(n), r.left-int64(n)
	if err == nil {
		return n, nil
	}
	r.contentErr = err
	if short := r.check(r.size); short == nil {
		err = io.EOF
	} else if err == io.EOF {
		err = short
	}
	return n, err
}

// FinishResumable stores the object with the content of an upload, as Create or Replace would. The checksum may be
// empty if the upload has one. Repeated, it returns the object. An upload whose content has another
// checksum than its own, or lacks parts, is cancelled; after other errors it can be finished later. It does not
// end with the request. BeforeStore is that of an Upload.
func (s *Objects) FinishResumable(
	ctx context.Context, actor org.Actor, resumable upload.Upload, checksum string,
	beforeStore func() (stored func() error),
) (object.Object, error) {
	if resumable.Status() == upload.Completed {
		return s.visible(ctx, source{Records: s.Store}, actor, resumable.Object)
	}
	if _, err := resumable.Complete(); err != nil {
		return object.Object{}, err
	}
	switch {
	case resumable.Checksum == "" && checksum == "":
		return object.Object{}, fault.Field("checksum", "is required when an upload is created or completed")
	case checksum == "":
		checksum = resumable.Checksum
	case resumable.Checksum != "" && resumable.Checksum != checksum:
		return object.Object{}, fault.Field("checksum", "is not that of the creation of the upload")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout+time.Duration(resumable.Size/finishRate)*time.Second)
	defer cancel()
	parts := &partsReader{ctx: ctx, objects: s, upload: resumable}
	defer parts.Close()
	u := &Upload{Content: parts, Size: resumable.Size, Checksum: checksum, MimeType: resumable.MimeType, Expected: resumable.Expected, BeforeStore: beforeStore}
	u.finish = func(r ports.Records) error {
		_, err := r.Journal().Uploads().Update(ctx, resumable.Org, resumable.ID, upload.Upload.Complete)
		if fault.Is(err, fault.NotFound) {
			err = fault.Wrap(fault.Gone, err, "The upload has expired")
		}
		return err
	}
	o, err := s.writeTarget(ctx, actor, u, s.targetOf(resumable.Object, resumable.Draft, u))
	switch {
	case err == nil:
		s.discardParts(ctx, resumable)
	case u.differs && resumable.Checksum != "" || parts.lost:
		err = cmp.Or(s.CancelResumable(ctx, actor, resumable), err)
	case fault.Is(err, fault.Conflict):
		// Another request may have finished it meanwhile.
		now, lookup := s.Resumable(ctx, actor, resumable.ID)
		if lookup != nil {
			return o, lookup
		}
		if now.Status() == upload.Completed {
			if actor, err = s.Reauthorize(ctx, actor); err != nil {
				return o, err
			}
			return s.visible(ctx, source{Records: s.Store}, actor, resumable.Object)
		}
	}
	return o, err
}

// partsReader reads the content of an upload.
type partsReader struct {
	ctx     context.Context
	objects *Objects
	upload  upload.Upload

	offset int64         // in the content
	parts  []upload.Part // the next ones
	part   io.ReadCloser // nil: the next one is not open
	end    int64         // of part in the content
	lost   bool          // a part is not in the store
}

func (r *partsReader) Read(p []byte) (int, error) {
	if r.part == nil {
		if r.offset == r.upload.Size {
			return 0, io.EOF
		}
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.part.Read(p)
	r.offset += int64(n)
	if err == io.EOF {
		if err = r.Close(); err == nil && r.offset != r.end {
			err = r.partLost(nil)
		}
	}
	return n, err
}

// open opens the part at the offset.
func (r *partsReader) open() (err error) {
	if len(r.parts) == 0 {
		if r.parts, err = r.objects.Store.Journal().Uploads().Parts(r.ctx, r.upload.Org, r.upload.ID, r.offset, partsPage); err != nil {
			return err
		}
	}
	if len(r.parts) == 0 || r.parts[0].Offset != r.offset {
		return r.partLost(nil)
	}
	if r.part, err = r.objects.Blobs.Open(r.ctx, r.parts[0].Blob, 0, -1); fault.Is(err, fault.NotFound) {
		return r.partLost(err)
	}
	r.end, r.parts = r.offset+r.parts[0].Size, r.parts[1:]
	return err
}

// partLost records that the store has lost a part, and returns the error for it.
func (r *partsReader) partLost(cause error) error {
	r.lost = true
	return fault.Wrap(fault.Gone, cause, "The store has lost a part of the upload: start another one")
}

// Close closes the open part.
func (r *partsReader) Close() (err error) {
	if r.part != nil {
		err, r.part = r.part.Close(), nil
	}
	return err
}

// CancelResumable cancels an upload that is not complete, also for a member who may no longer write. Its parts
// are collected. It does not end with the request.
func (s *Objects) CancelResumable(ctx context.Context, actor org.Actor, resumable upload.Upload) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partTimeout)
	defer cancel()
	err := s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		_, err := r.Journal().Uploads().Update(ctx, resumable.Org, resumable.ID, func(u upload.Upload) (upload.Upload, error) {
			return u.Cancel(s.Clock.Now())
		})
		return err
	})
	if err == nil {
		s.discardParts(ctx, resumable)
	}
	return err
}

// discardParts has the parts of an upload that has ended collected sooner than they would be when it
// expires. Errors are ignored for that reason.
func (s *Objects) discardParts(ctx context.Context, resumable upload.Upload) {
	for from, more := int64(0), true; more; {
		parts, err := s.Store.Journal().Uploads().Parts(ctx, resumable.Org, resumable.ID, from, partsPage)
		if err != nil || len(parts) == 0 {
			return
		}
		more = len(parts) == partsPage
		names := make([]string, len(parts))
		for i, p := range parts {
			names[i], from = p.Blob, p.Offset+1
		}
		if s.Store.Storage().BlobNames().Discard(ctx, resumable.Org, names, s.Clock.Now()) != nil {
			return
		}
	}
}
