package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"collab/adapters/apiclient"
	"collab/domain/fault"
	"collab/domain/mirror"
)

// resumableSize is the size of content, in bytes, from which an upload of it goes on where an earlier
// one was interrupted.
const resumableSize = 16 << 20

// uploadResumably stores large content, which is read once, where to says. It goes on with an upload
// that was interrupted, also in another process: both have the same idempotency key, so the
// server answers with the upload that it created first. If body fails with Conflict, the upload is cancelled:
// other content has another key.
func (r *Remote) uploadResumably(ctx context.Context, to apiclient.CreateResumableUploadParams, size int64, body io.Reader) (mirror.Record, error) {
	to.UploadComplete, to.UploadLength = "?0", &size
	u, err := r.openUpload(ctx, to)
	if apiclient.Status(err) == http.StatusTooManyRequests {
		return mirror.Record{}, fault.New(fault.Limited, "%v", err) // of open uploads: other requests need not wait
	}
	if err != nil {
		return mirror.Record{}, failure(err)
	}
	if _, err = io.CopyN(io.Discard, body, u.Offset); errors.Is(err, io.EOF) {
		err = fault.New(fault.Conflict, "The file was changed meanwhile.")
	}
	if err != nil {
		return mirror.Record{}, r.abandon(ctx, u, err)
	}
	answer, err := r.client.AppendToResumableUpload(ctx, u.ID, apiclient.AppendToResumableUploadParams{UploadComplete: "?1", UploadOffset: &u.Offset},
		apiclient.Content{Reader: once{body}, Size: size - u.Offset, Type: "application/partial-upload"})
	if err != nil {
		return r.sent(ctx)(apiclient.StoredObject{}, r.abandon(ctx, u, err))
	}
	return r.sent(ctx)(apiclient.Decode[apiclient.StoredObject](answer))
}

// abandon cancels an upload if err says that its content has changed, and returns err. An upload that
// cannot be cancelled expires.
func (r *Remote) abandon(ctx context.Context, u apiclient.ResumableUpload, err error) error {
	if fault.Is(err, fault.Conflict) {
		_, _ = r.client.CancelResumableUpload(ctx, u.ID)
	}
	return err
}

// openUpload returns the upload of the content that was interrupted, or creates one.
func (r *Remote) openUpload(ctx context.Context, to apiclient.CreateResumableUploadParams) (u apiclient.ResumableUpload, err error) {
	version := int64(0)
	if to.ExpectedVersion != nil {
		version = *to.ExpectedVersion
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%q", []any{to.FileID, version, to.Path, to.Kind, to.Scope, to.WorkspaceID, to.TeamID, to.Checksum, *to.UploadLength}))
	same := apiclient.WithKey(ctx, "sync-"+hex.EncodeToString(key[:]))
	if u, err = created(r.client.CreateResumableUpload(same, to, apiclient.Content{Reader: strings.NewReader("")})); err != nil {
		return u, err
	}
	u, err = r.client.GetResumableUpload(ctx, u.ID)
	if err == nil && !u.Complete || err != nil && apiclient.Status(err) != http.StatusNotFound {
		return u, err
	}
	// The same content was stored there before, or given up.
	return created(r.client.CreateResumableUpload(ctx, to, apiclient.Content{Reader: strings.NewReader("")}))
}

// created reads the upload that the server has created.
func created(answer *http.Response, err error) (u apiclient.ResumableUpload, _ error) {
	if err != nil {
		return u, err
	}
	return apiclient.Decode[apiclient.ResumableUpload](answer)
}
