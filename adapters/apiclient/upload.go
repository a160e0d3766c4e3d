package apiclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ResumableSize is the size of content, in bytes, from which uploads of it are worth resuming.
const ResumableSize = 16 << 20

// Resumptions bounds how often a transfer goes on in succession without any progress.
const Resumptions = 5

// ErrShort says that content ends before the place at which its upload goes on.
var ErrShort = errors.New("the content is shorter than what was sent of it")

// uploadKeys is how many idempotency keys the uploads of one content to one place have.
const uploadKeys = 10

// OpenUpload returns the upload of content of a size to a place that was interrupted, or creates one. Uploads
// of the same content to the same place have the same idempotency keys, also in another process, so the server
// replies with the one that it created first. It also replies with what has ended since: an upload that is complete
// or given up, or a refusal whose reason may have gone. The next key is tried then.
func (c *Client) OpenUpload(ctx context.Context, to CreateResumableUploadParams, size int64) (u ResumableUpload, err error) {
	to.UploadComplete, to.UploadLength = "?0", &size
	version := int64(0)
	if to.ExpectedVersion != nil {
		version = *to.ExpectedVersion
	}
	key := fmt.Appendf(nil, "%q", []any{to.FileID, version, to.Path, to.Kind, to.Scope, to.WorkspaceID, to.TeamID, to.Checksum, size})
	for n := range uploadKeys {
		if n > 0 {
			key = strconv.AppendInt(key, int64(n), 10)
		}
		key := sha256.Sum256(key)
		u, err = c.createUpload(withKey(ctx, "upload-"+hex.EncodeToString(key[:])), to)
		if refused, ok := errors.AsType[*Error](err); ok && refused.Header.Get("Idempotent-Replayed") != "" {
			continue
		}
		if err != nil {
			return u, err
		}
		u, err = c.GetResumableUpload(ctx, u.ID)
		if err == nil && !u.Complete || err != nil && Status(err) != http.StatusNotFound {
			return u, err
		}
	}
	return c.createUpload(ctx, to)
}

func (c *Client) createUpload(ctx context.Context, to CreateResumableUploadParams) (u ResumableUpload, err error) {
	response, err := c.CreateResumableUpload(ctx, to, Content{Reader: strings.NewReader("")})
	if err != nil {
		return u, err
	}
	return Decode[ResumableUpload](response)
}

// SendUpload sends what the server has not got of an upload's content, and completes the upload. Content that
// is an io.Seeker is sent again after interruptions, from where the server has got to; other content is read once.
func (c *Client) SendUpload(ctx context.Context, u ResumableUpload, content io.Reader, size int64) (o StoredObject, err error) {
	seeker, seekable := content.(io.Seeker)
	if !seekable {
		if _, err := io.CopyN(io.Discard, content, u.Offset); errors.Is(err, io.EOF) {
			return o, ErrShort
		} else if err != nil {
			return o, err
		}
	}
	for failures := 0; ; {
		if seekable {
			if _, err := seeker.Seek(u.Offset, io.SeekStart); err != nil {
				return o, err
			}
		}
		rest := &part{r: io.LimitReader(content, size-u.Offset)}
		o, err = c.appendLast(ctx, u, Content{Reader: rest, Size: size - u.Offset, Type: "application/partial-upload"})
		if err == nil || !seekable || ctx.Err() != nil || !interrupted(err) {
			return o, err
		}
		rest.end()
		now, problem := c.GetResumableUpload(ctx, u.ID)
		if problem != nil {
			return o, problem
		}
		if failures++; now.Offset > u.Offset {
			failures = 0
		}
		if u.Offset = now.Offset; failures == Resumptions {
			return o, err
		}
	}
}

// appendLast sends the content that an upload ends with.
func (c *Client) appendLast(ctx context.Context, u ResumableUpload, rest Content) (o StoredObject, err error) {
	response, err := c.AppendToResumableUpload(ctx, u.ID, AppendToResumableUploadParams{UploadComplete: "?1", UploadOffset: &u.Offset}, rest)
	if err != nil {
		return o, err
	}
	return Decode[StoredObject](response)
}

// interrupted reports whether an upload can go on after an error: it was broken off, its token may have been
// renewed, the server failed, or another part of the content is to be sent.
func interrupted(err error) bool {
	var refused *Error
	return !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized || refused.Status >= 500 ||
		refused.Status == http.StatusConflict && refused.Header.Get("Upload-Offset") != ""
}
