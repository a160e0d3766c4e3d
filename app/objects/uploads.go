package objects

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

const (
	// downloadLifetime is how long an address for reading is valid.
	downloadLifetime = time.Minute

	// uploadLifetime is how long an address for writing is valid; a request that has begun may
	// take longer. It is less than object.BlobGracePeriod, so that nothing is written after a collection.
	uploadLifetime = 15 * time.Minute

	// maxDirect is the largest content of one request to every store, in bytes: Azure's.
	maxDirect = 5000 << 20

	// maxStarted is how many names of uploads that were started, and not completed or collected, an
	// organisation may have before another one is started.
	maxStarted = 1000

	// alwaysRead is the largest content, in bytes, that is read when its upload is completed,
	// also if the store knows its checksum: to find out whether it is text.
	alwaysRead = 1 << 20

	// maxUploadID is the longest id of an upload, in bytes. The lines and headers of a request,
	// whose path has it, take 8 KiB.
	maxUploadID = 6 << 10
)

// DirectUpload is an upload to the store that has been started: its target and its content. Nothing
// is stored of it but the announced name of its blob; the client has the rest, sealed.
type DirectUpload struct {
	Object   id.Object
	Draft    *object.Draft // nil: the object's content is replaced
	MimeType string        // empty: that of the object
	Expected *int64        // as in Upload
	Content  object.Content
}

// Address returns an address at the store to read an object at, whose responses have the
// Content-Disposition. It is empty if the store has no addresses.
func (s *Objects) Address(ctx context.Context, o object.Object, disposition string) (string, error) {
	if s.Signed == nil {
		return "", nil
	}
	return s.Signed.SignGet(ctx, o.Blob, o.MimeType, disposition, downloadLifetime)
}

// StartDirect starts an upload to the store: of a new object, or of the next content of the object if
// d is nil. It refuses what Create and Replace would refuse now. U has the size and the checksum;
// its content is not read. It returns the upload's id, and the address that takes the content
// until expires.
func (s *Objects) StartDirect(
	ctx context.Context, actor org.Actor, objectID id.Object, d *object.Draft, u Upload,
) (upload string, to object.Address, expires time.Time, err error) {
	if s.Signed == nil {
		return "", to, expires, fault.New(fault.Conflict, "The store of this server takes no uploads from clients: send the content to the server")
	}
	if u.Size > min(s.MaxSize, maxDirect) {
		return "", to, expires, tooLarge(min(s.MaxSize, maxDirect))
	}
	if d != nil {
		objectID = id.Object(s.IDs.New())
	}
	started := &DirectUpload{
		Object: objectID, Draft: d, MimeType: u.MimeType, Expected: u.Expected,
		Content: object.Content{Size: u.Size, Checksum: u.Checksum},
	}
	var o object.Object
	err = s.withLockedLog(ctx, actor, func(r ports.Records, actor org.Actor, _ object.Head) error {
		var names int
		if o, names, err = s.reserve(ctx, r, actor, objectID, d, u); err != nil {
			return err
		}
		if names >= maxStarted {
			return fault.New(fault.Limited, "The organisation has %d uploads that are not completed: complete "+
				"or delete some, or send the content to the server", names)
		}
		started.Content.Blob = o.BlobName(s.Secrets.Secret()[:randomLength])
		if upload, err = s.sealUpload(actor, started); err != nil {
			return err
		}
		size := max(1, u.Size) // so that it counts as started
		return r.Storage().BlobNames().Announce(ctx, actor.Org, started.Content.Blob, size, s.Clock.Now())
	})
	if err != nil {
		return "", to, expires, err
	}
	expires = s.Clock.Now().Add(uploadLifetime)
	to, err = s.Signed.SignPut(ctx, o.MimeType, started.Content, uploadLifetime)
	return upload, to, expires, err
}

// reserve returns the object that an upload is for, and how many uploads its organisation has started. It
// refuses what Create and Replace would refuse now, and content for which there is no room beside that
// of all uploads that are not completed. The organisation's log is locked, and the actor may write.
func (s *Objects) reserve(
	ctx context.Context, r ports.Records, actor org.Actor, objectID id.Object, d *object.Draft, u Upload,
) (o object.Object, names int, err error) {
	u.checkPath = true
	to := s.targetOf(objectID, d, &u)
	existing, err := to.find(ctx, source{Records: r}, actor)
	if err != nil {
		return existing, 0, err
	}
	if o, err = to.prepared(existing, u.Expected); err != nil {
		return o, 0, err
	}
	names, pending, err := r.Storage().Announced(ctx, actor.Org)
	if err == nil {
		err = s.checkGrowth(ctx, r, actor, u.Size-o.Size+pending)
	}
	if refusal, ok := errors.AsType[*fault.Error](err); ok && pending > 0 && refusal.Kind == fault.Forbidden {
		err = fault.New(fault.Forbidden, "%s; %d bytes are of uploads that are not complete", refusal.Message, pending)
	}
	return o, names, err
}

// sealUpload returns the id of an upload.
func (s *Objects) sealUpload(actor org.Actor, started *DirectUpload) (string, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false) // which is six times as long
	if err := encoder.Encode(started); err != nil {
		return "", err
	}
	sealed, err := s.Sealer.Seal(plain.Bytes(), uploadContext(actor))
	if err != nil {
		return "", err
	}
	upload := base64.RawURLEncoding.EncodeToString(sealed)
	if len(upload) > maxUploadID {
		return "", fault.New(fault.Invalid, "The path and the media type are too long for an upload to the store: send the content to the server")
	}
	return upload, nil
}

// uploadContext binds the id of an upload to the member who started it.
func uploadContext(actor org.Actor) []byte {
	return []byte("upload\n" + string(actor.Org) + "\n" + string(actor.User))
}

// DirectUpload returns the upload of an id that the actor has from StartDirect.
func (s *Objects) DirectUpload(actor org.Actor, upload string) (*DirectUpload, error) {
	missing := fault.Missing("Upload")
	if s.Signed == nil || len(upload) > maxUploadID {
		return nil, missing
	}
	sealed, err := base64.RawURLEncoding.DecodeString(upload)
	if err != nil {
		return nil, missing
	}
	plain, err := s.Sealer.Open(sealed, uploadContext(actor))
	if fault.Is(err, fault.Invalid) {
		return nil, missing
	}
	started := &DirectUpload{}
	if err == nil {
		err = json.Unmarshal(plain, started)
	}
	return started, err
}

// targetOf returns the target of an upload of a new object, or of the object's next content if d is nil.
func (s *Objects) targetOf(objectID id.Object, d *object.Draft, u *Upload) target {
	if d != nil {
		return s.creation(objectID, *d, u)
	}
	return s.replacement(objectID, u)
}

// CompleteDirect stores the object with the content that was uploaded to the store, as Create or
// Replace would. Completing it again returns the object while it has this content. BeforeStore is that
// of an Upload.
func (s *Objects) CompleteDirect(ctx context.Context, actor org.Actor, direct *DirectUpload, beforeStore func() (stored func() error)) (object.Object, error) {
	if o, done, err := s.completedDirect(ctx, source{Records: s.Store, cached: true}, actor, direct); done || err != nil {
		return o, err
	}
	u := &Upload{
		Size: direct.Content.Size, Checksum: direct.Content.Checksum, MimeType: direct.MimeType,
		Expected: direct.Expected, BeforeStore: beforeStore, direct: direct, checkPath: true,
	}
	o, err := s.writeTarget(ctx, actor, u, s.targetOf(direct.Object, direct.Draft, u))
	if fault.Is(err, fault.Conflict, fault.Gone) {
		// Another request may have completed it meanwhile.
		actor, refused := s.Reauthorize(ctx, actor)
		if refused != nil {
			return object.Object{}, refused
		}
		if o, done, lookup := s.completedDirect(ctx, source{Records: s.Store}, actor, direct); done || lookup != nil {
			return o, lookup
		}
	}
	return o, err
}

// completedDirect returns the object, and whether it has the upload's content.
func (s *Objects) completedDirect(ctx context.Context, r source, actor org.Actor, direct *DirectUpload) (o object.Object, done bool, err error) {
	if o, err = s.visible(ctx, r, actor, direct.Object); fault.Is(err, fault.NotFound) {
		return o, false, nil
	}
	return o, err == nil && o.Blob == direct.Content.Blob, err
}

// CancelDirect cancels an upload that is not completed. Its content is collected.
func (s *Objects) CancelDirect(ctx context.Context, actor org.Actor, direct *DirectUpload) error {
	return s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		names := r.Storage().BlobNames()
		err := names.Forget(ctx, object.Blob{Org: actor.Org, Name: direct.Content.Blob})
		if fault.Is(err, fault.NotFound) {
			return fault.Missing("Upload")
		}
		if err != nil {
			return err
		}
		return names.Discard(ctx, actor.Org, []string{direct.Content.Blob}, s.Clock.Now())
	})
}

// verify checks the content that is in the store. It reads the content unless the store knows its
// checksum; longer content that is not read counts as bytes, not as text.
func (s *Objects) verify(ctx context.Context, u *Upload) (object.Content, error) {
	want := u.direct.Content
	size, checksum, err := s.Signed.Stat(ctx, want.Blob)
	if fault.Is(err, fault.NotFound) {
		return want, fault.Wrap(fault.Conflict, err, "Nothing has been sent to the address of the upload yet")
	}
	if err != nil {
		return want, err
	}
	if size != want.Size {
		return want, fault.Field("size", "is not the content's, which is %d", size)
	}
	if checksum != "" && size > alwaysRead {
		return want, checkChecksum(want.Checksum, checksum)
	}
	r, err := s.Blobs.Open(ctx, want.Blob, 0, -1)
	if err != nil {
		return want, err
	}
	defer r.Close()
	in := s.newUploadReader(&Upload{Content: r, Checksum: want.Checksum})
	if _, err := io.Copy(io.Discard, in); err != nil {
		return want, err
	}
	return in.content(want.Blob), nil
}
