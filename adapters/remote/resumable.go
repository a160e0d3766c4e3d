package remote

import (
	"context"
	"errors"
	"io"
	"net/http"

	"collab/adapters/apiclient"
	"collab/domain/fault"
	"collab/domain/mirror"
)

// uploadResumably stores large content, which is read once, where to says. It goes on with an upload
// that was interrupted, also in another process. If body fails with Conflict, the upload is cancelled:
// other content has an upload of its own.
func (r *Remote) uploadResumably(ctx context.Context, to apiclient.CreateResumableUploadParams, size int64, body io.Reader) (mirror.Record, error) {
	u, err := r.client.OpenUpload(ctx, to, size)
	if apiclient.Status(err) == http.StatusTooManyRequests {
		return mirror.Record{}, fault.New(fault.Limited, "%v", err) // of open uploads: other requests need not wait
	}
	if err != nil {
		return mirror.Record{}, failure(err)
	}
	o, err := r.client.SendUpload(ctx, u, once{body}, size)
	if errors.Is(err, apiclient.ErrShort) {
		err = fault.New(fault.Conflict, "The file was changed meanwhile.")
	}
	if fault.Is(err, fault.Conflict) {
		_, _ = r.client.CancelResumableUpload(ctx, u.ID) // else it expires
	}
	return r.sent(ctx)(o, err)
}
