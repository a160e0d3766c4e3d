// Package remote reads and changes the stored objects of one place over the HTTP interface,
// for a client that keeps a directory in step with them.
package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/apiclient"
	"collab/adapters/eventstream"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/ports"
)

// Waits before the change feed is opened again.
const (
	firstReconnect = time.Second
	maxReconnect   = time.Minute
)

// Remote is one place of the organisation that the client's token is for.
type Remote struct {
	client *apiclient.Client
	place  object.Place
}

// New returns the place. It makes no request.
func New(client *apiclient.Client, place object.Place) *Remote { return &Remote{client, place} }

var (
	_ ports.Remote       = (*Remote)(nil)
	_ ports.RemoteWriter = (*Remote)(nil)
)

// kinds are the kinds of errors that the server replies with, by status.
var kinds = map[int]fault.Kind{
	400: fault.Invalid, 401: fault.Unauthenticated, 403: fault.Forbidden, 404: fault.NotFound, 405: fault.Unsupported, 409: fault.Conflict,
	410: fault.Gone, 413: fault.TooLarge, 415: fault.Unsupported, 422: fault.Mismatch, 429: fault.Limited,
	500: fault.Internal,
}

// failure returns an error of the client as the ports have it. What failed before it was
// answered, and what the server could not do for now, is Unavailable, and so is a request of somebody else
// than the server to sign in.
func failure(err error) error {
	var e *apiclient.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Status == http.StatusBadRequest && strings.HasPrefix(e.Message, "workspaceId "):
		return fault.New(fault.Invalid, "The workspace was deleted, or is closed to you. Files that are made here stay here.")
	case errors.As(err, &e):
		kind, known := kinds[e.Status]
		if !known || e.Status == http.StatusUnauthorized && apiclient.Unanswered(err) {
			kind = fault.Unavailable
		}
		return &fault.Error{Kind: kind, Message: e.Error(), RetryAfter: int(e.RetryAfter.Seconds())}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "the server cannot be reached")
}

// placeFailure is failure for a request that is about no single file. Where somebody else than the server forbids
// it, as a proxy, that is no refusal of the server.
func placeFailure(err error) error {
	if apiclient.Status(err) == http.StatusForbidden && apiclient.Unanswered(err) {
		return fault.Wrap(fault.Unavailable, err, "the server cannot be reached")
	}
	return failure(err)
}

// listedObject has the used fields of an object in a list; the others are not decoded.
type listedObject struct {
	ID          string  `json:"id"`
	Path        string  `json:"path"`
	Version     int64   `json:"version"`
	Checksum    string  `json:"checksum"`
	Size        int64   `json:"size"`
	Kind        string  `json:"kind"`
	Scope       string  `json:"scope"`
	WorkspaceID *string `json:"workspaceId"`
	TeamID      *string `json:"teamId"`
	Deleted     bool    `json:"deleted"`
}

func (o *listedObject) record() mirror.Record {
	return mirror.Record{ID: id.Object(o.ID), Path: o.Path, Version: o.Version, Checksum: o.Checksum, Size: o.Size, Deleted: o.Deleted}
}

// contains reports whether an object is in the place.
func (r *Remote) contains(o *listedObject) bool {
	if o.Kind != string(r.place.Kind) || o.Scope != string(r.place.Scope) {
		return false
	}
	return r.place.Scope == object.Personal ||
		equalIDs(r.place.Workspace, o.WorkspaceID) && equalIDs(r.place.Team, o.TeamID)
}

func equalIDs[T ~string](a *T, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && string(*a) == *b
}

// text returns an optional id as a parameter.
func text[T ~string](v *T) string {
	if v == nil {
		return ""
	}
	return string(*v)
}

func recordOf(o apiclient.StoredObject) mirror.Record {
	return mirror.Record{ID: id.Object(o.ID), Path: o.Path, Version: o.Version, Checksum: o.Checksum, Size: o.Size, Deleted: o.Deleted != nil}
}

// Manifest reads all records.
func (r *Remote) Manifest(ctx context.Context, each func(mirror.Record) error) (object.Cursor, error) {
	return r.read(ctx, "", each)
}

// Since reads the records that changed after the cursor.
func (r *Remote) Since(ctx context.Context, from object.Cursor, each func(mirror.Record) error) (object.Cursor, error) {
	return r.read(ctx, from.String(), each)
}

func (r *Remote) read(ctx context.Context, since string, each func(mirror.Record) error) (object.Cursor, error) {
	list, err := r.client.GetManifest(ctx, apiclient.GetManifestParams{Since: since})
	if err != nil {
		return object.Cursor{}, placeFailure(err)
	}
	defer list.Close()
	cursor, ok := object.ParseCursor(list.Header.Get("X-Sync-Cursor"))
	if !ok {
		return cursor, fault.New(fault.Unavailable, "the manifest has no cursor")
	}
	for o, err := range apiclient.As[listedObject](list).All() {
		if err != nil {
			return object.Cursor{}, failure(err)
		}
		if o.ID == "" || o.Path == "" || o.Version < 1 || o.Checksum == "" || o.Kind == "" || o.Scope == "" {
			return object.Cursor{}, fault.New(fault.Unavailable, "the manifest has an incomplete record")
		}
		if r.contains(&o) {
			if err := each(o.record()); err != nil {
				return object.Cursor{}, err
			}
		}
	}
	return cursor, nil
}

// Watch follows the change feed, and opens it again after the last event when it breaks. It wakes also after a feed
// of which nothing has arrived, as a proxy may keep it back.
func (r *Remote) Watch(ctx context.Context, after object.Cursor, wake func()) error {
	last, delay := after.String(), firstReconnect
	for {
		silent := true
		response, err := r.client.FollowChanges(ctx, apiclient.FollowChangesParams{LastEventID: last})
		if err == nil {
			for e, broken := range eventstream.Events(response.Body) {
				if err = broken; err != nil {
					break
				}
				silent, last, delay = false, e.ID, firstReconnect
				if len(e.Data) > 0 && r.concerns(e.Data) {
					wake()
				}
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if silent && (err == nil || apiclient.Status(err) == 0 || apiclient.Unanswered(err)) {
			wake()
		}
		if err = placeFailure(err); fault.Is(err, fault.Unauthenticated, fault.Forbidden) {
			return err
		}
		if r.client.Wait(ctx, r.client.Jitter(delay)) != nil {
			return nil
		}
		delay = min(2*delay, maxReconnect)
	}
}

// concerns reports whether an event of the change feed may be of a file that is or was in the place. A resync is
// of all.
func (r *Remote) concerns(data []byte) bool {
	var change struct{ StorageKey, From string }
	if err := json.Unmarshal(data, &change); err != nil || change.StorageKey == "" {
		return true
	}
	prefix := "personal/" // those of others are not seen
	if r.place.Scope != object.Personal {
		prefix = strings.TrimPrefix(object.Object{Place: r.place}.StorageKey(), "/")
	}
	return slices.ContainsFunc([]string{change.StorageKey, change.From}, func(key string) bool {
		_, below, _ := strings.Cut(key, "/") // the organisation
		return strings.HasPrefix(below, prefix)
	})
}

// Download reads an object's content.
func (r *Remote) Download(ctx context.Context, record mirror.Record, offset int64) (mirror.Record, io.ReadCloser, error) {
	params := apiclient.DownloadFileParams{Raw: "1"}
	if offset > 0 && offset < record.Size {
		params.Range, params.IfRange = fmt.Sprintf("bytes=%d-", offset), `"`+strconv.FormatInt(record.Version, 10)+`"`
	}
	response, err := r.client.DownloadFile(ctx, string(record.ID), params)
	if err != nil {
		return mirror.Record{}, nil, failure(err)
	}
	now, err := recordIn(response.Header)
	if err != nil {
		response.Body.Close()
		return mirror.Record{}, nil, err
	}
	switch {
	case response.StatusCode == http.StatusPartialContent && params.Range == "":
		response.Body.Close()
		return mirror.Record{}, nil, fault.New(fault.Unavailable, "the answer has a part of the content, and all of it was asked for")
	case response.StatusCode == http.StatusPartialContent && now.Checksum != record.Checksum:
		// The version is the same and the content is not: the server was restored from a backup.
		response.Body.Close()
		return r.Download(ctx, now, 0)
	case response.StatusCode == http.StatusOK && now.Checksum == record.Checksum && offset > 0:
		if _, err := io.CopyN(io.Discard, response.Body, min(offset, now.Size)); err != nil {
			response.Body.Close()
			return mirror.Record{}, nil, failure(err)
		}
	}
	return now, content{response.Body}, nil
}

// content is a response's body whose errors are those of the ports.
type content struct{ io.ReadCloser }

func (c content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = failure(err)
	}
	return n, err
}

// Bounds of a response with several files, in bytes.
const (
	maxLine    = 64 << 10 // of a line about a file
	maxContent = 1 << 20  // of the content of one
)

// readResult has the used fields of a line about a file.
type readResult struct {
	Index, Status, Length int
	File                  struct{ Checksum string }
	Error                 *apiclient.Problem
}

// DownloadAll reads the contents of objects.
func (r *Remote) DownloadAll(ctx context.Context, records []mirror.Record, each func(i int, content []byte, err error) error) error {
	request := apiclient.FilesToRead{Files: make([]apiclient.FileToRead, len(records))}
	for i, record := range records {
		request.Files[i] = apiclient.FileToRead{ID: string(record.ID), ExpectedVersion: &record.Version}
	}
	response, err := r.client.ReadFiles(ctx, request)
	if status := apiclient.Status(err); status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return fault.Wrap(fault.Unsupported, err, "the server is older than this endpoint")
	}
	if err != nil {
		return failure(err)
	}
	defer response.Body.Close()
	from, content := bufio.NewReaderSize(response.Body, maxLine), []byte(nil)
	for i, record := range records {
		line, err := from.ReadSlice('\n')
		if err != nil {
			return failure(err)
		}
		var reading readResult
		err = json.Unmarshal(line, &reading)
		if err != nil || reading.Index != i || reading.Length < 0 || reading.Length > maxContent {
			return fault.Wrap(fault.Unavailable, err, "the answer has no content of file %d", i)
		}
		content = slices.Grow(content[:0], reading.Length)[:reading.Length]
		if _, err := io.ReadFull(from, content); err != nil {
			return failure(err)
		}
		var refused error
		switch {
		case reading.Status == http.StatusInternalServerError:
			refused = fault.New(fault.Internal, "the server cannot read the content")
		case reading.Error != nil:
			refused = failure(&apiclient.Error{Status: reading.Status, Message: reading.Error.Message, Code: reading.Error.Error})
		case reading.File.Checksum != record.Checksum:
			refused = fault.New(fault.Conflict, "The server's file was changed meanwhile.")
		}
		if err := each(i, content, refused); err != nil {
			return err
		}
	}
	_, _ = from.ReadByte() // the end, after which the connection is used again
	return nil
}

// recordIn reads the record in the headers of a response.
func recordIn(h http.Header) (mirror.Record, error) {
	path, err := url.PathUnescape(h.Get("X-Collab-Path"))
	version, versionErr := strconv.ParseInt(h.Get("X-Collab-Version"), 10, 64)
	size, sizeErr := strconv.ParseInt(h.Get("X-Collab-Size"), 10, 64)
	if err = errors.Join(err, versionErr, sizeErr); err != nil {
		return mirror.Record{}, fault.Wrap(fault.Unavailable, err, "the answer has no record")
	}
	return mirror.Record{ID: id.Object(h.Get("X-Collab-Id")), Path: path, Version: version, Checksum: h.Get("X-Collab-Checksum"), Size: size}, nil
}

// unseekable hides the other methods of a reader, such as Seek.
type unseekable struct{ io.Reader }

// Create stores a new object.
func (r *Remote) Create(ctx context.Context, path, checksum string, size int64, body io.Reader) (mirror.Record, error) {
	if size >= apiclient.ResumableSize {
		return r.uploadResumably(ctx, apiclient.CreateResumableUploadParams{
			Path: path, Kind: string(r.place.Kind), Scope: string(r.place.Scope),
			WorkspaceID: text(r.place.Workspace), TeamID: text(r.place.Team), Checksum: checksum,
		}, size, body)
	}
	return r.sent(ctx)(r.client.UploadFile(ctx, apiclient.UploadFileParams{
		Path: path, Kind: string(r.place.Kind), Scope: string(r.place.Scope),
		WorkspaceID: text(r.place.Workspace), TeamID: text(r.place.Team), Checksum: checksum,
	}, apiclient.Content{Reader: unseekable{body}, Size: size}))
}

// Replace stores an object's new content.
func (r *Remote) Replace(ctx context.Context, record mirror.Record, checksum string, size int64, body io.Reader) (mirror.Record, error) {
	if size >= apiclient.ResumableSize {
		return r.uploadResumably(ctx, apiclient.CreateResumableUploadParams{
			FileID: string(record.ID), ExpectedVersion: &record.Version, Checksum: checksum,
		}, size, body)
	}
	return r.sent(ctx)(r.client.ReplaceFile(ctx, string(record.ID), apiclient.ReplaceFileParams{
		ExpectedVersion: &record.Version, Checksum: checksum,
	}, apiclient.Content{Reader: unseekable{body}, Size: size}))
}

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
	o, err := r.client.SendUpload(ctx, u, unseekable{body}, size)
	if errors.Is(err, apiclient.ErrShort) {
		err = fault.New(fault.Conflict, "The file was changed meanwhile.")
	}
	if fault.Is(err, fault.Conflict) {
		_, _ = r.client.CancelResumableUpload(ctx, u.ID) // else it expires
	}
	return r.sent(ctx)(o, err)
}

// sent returns the result of an upload. The client could not renew the token and send the
// content again: if another request can, or cannot for now, the upload is to be repeated.
func (r *Remote) sent(ctx context.Context) func(apiclient.StoredObject, error) (mirror.Record, error) {
	return func(o apiclient.StoredObject, err error) (mirror.Record, error) {
		if apiclient.Status(err) == http.StatusUnauthorized {
			_, getErr := r.client.GetMe(ctx)
			if getErr == nil {
				return mirror.Record{}, fault.Wrap(fault.Unavailable, err, "the token was renewed")
			}
			err = getErr
		}
		if err != nil {
			return mirror.Record{}, failure(err)
		}
		return recordOf(o), nil
	}
}

// Delete removes an object.
func (r *Remote) Delete(ctx context.Context, record mirror.Record) error {
	_, err := r.client.DeleteFile(ctx, string(record.ID), apiclient.DeleteFileParams{ExpectedVersion: &record.Version})
	return failure(err)
}

// operationBytes is the limit of a line of a batch without its content, and lineBytes the length that most lines do
// not exceed.
const (
	operationBytes = 4 << 10
	lineBytes      = 512
)

// putOperation is an operation with a content, which is in base64 in JSON.
type putOperation struct {
	apiclient.FileOperation
	Content  []byte `json:"content"` // not nil, which JSON has as null
	Encoding string `json:"encoding"`
}

// operationResult has the used fields of the response to an operation.
type operationResult struct {
	Index, Status int
	Error         *apiclient.Problem
	File          *listedObject
}

// Limits returns the server's limits. Contents of a batch are sent in base64.
func (r *Remote) Limits(ctx context.Context) (mirror.Limits, error) {
	l, err := r.client.GetSyncLimits(ctx)
	if err != nil {
		return mirror.Limits{}, placeFailure(err)
	}
	storage := int64(0)
	if l.Storage.Limit != nil {
		storage = max(1, *l.Storage.Limit) // nothing may be stored
	}
	return mirror.Limits{
		MaxFile: l.MaxFileBytes, BatchFiles: int(l.MaxBatchOperations),
		BatchBytes:    max(0, l.MaxBatchBytes-l.MaxBatchOperations*operationBytes) / 4 * 3,
		BatchFileSize: min(l.MaxBatchFileBytes, (l.MaxBatchOperationBytes-operationBytes)/4*3),
		Stored:        l.Storage.Used, Reserved: l.Storage.Reserved, Reserving: apiclient.ResumableSize, Storage: storage, ReadOnly: l.ReadOnly,
		ReadFiles: int(l.BatchReads.MaxFiles), ReadBytes: l.BatchReads.MaxBytes, ReadFileSize: l.BatchReads.MaxFileBytes,
	}, nil
}

// Move gives an object another path.
func (r *Remote) Move(ctx context.Context, record mirror.Record, path string) (mirror.Record, error) {
	o, err := r.client.MoveFile(ctx, string(record.ID), apiclient.MoveFileParams{}, apiclient.FileMove{Path: path, ExpectedVersion: &record.Version})
	if err != nil {
		return mirror.Record{}, failure(err)
	}
	return recordOf(o), nil
}

// MoveDirectory moves all objects of the place below a directory.
func (r *Remote) MoveDirectory(ctx context.Context, from, to string) error {
	move := apiclient.FolderMove{From: from, To: to, Kind: new(string(r.place.Kind)), Scope: new(string(r.place.Scope))}
	move.WorkspaceID, move.TeamID = (*string)(r.place.Workspace), (*string)(r.place.Team)
	_, err := r.client.MoveFolder(ctx, move)
	return failure(err)
}

// Batch makes changes in their order.
func (r *Remote) Batch(ctx context.Context, writes []mirror.Write) ([]mirror.Result, error) {
	var body bytes.Buffer
	size := 0
	for _, w := range writes {
		size += base64.StdEncoding.EncodedLen(len(w.Content)) + lineBytes
	}
	body.Grow(size)
	lines := json.NewEncoder(&body)
	for _, w := range writes {
		o := r.operation(w)
		line := any(o)
		if o.Op == "put" {
			content := w.Content
			if content == nil {
				content = []byte{}
			}
			line = putOperation{o, content, "base64"}
		}
		if err := lines.Encode(line); err != nil {
			return nil, err
		}
	}
	content := apiclient.Content{Reader: bytes.NewReader(body.Bytes()), Size: int64(body.Len()), Type: "application/x-ndjson"}
	response, err := r.client.ChangeFiles(ctx, content)
	if err != nil {
		return nil, failure(err)
	}
	defer response.Body.Close()
	results := make([]mirror.Result, len(writes))
	outcomes := json.NewDecoder(response.Body)
	for i := range results {
		var o operationResult
		if err := outcomes.Decode(&o); err != nil {
			return nil, failure(err)
		}
		switch {
		case o.Index != i || o.Error == nil && o.File == nil && !writes[i].Delete:
			return nil, fault.New(fault.Unavailable, "the answer has no outcome of change %d", i)
		case o.Error != nil:
			results[i].Err = failure(&apiclient.Error{Status: o.Status, Message: o.Error.Message, Code: o.Error.Error})
		case o.File != nil:
			results[i].Record = o.File.record()
		}
	}
	return results, nil
}

// operation returns a write without its content.
func (r *Remote) operation(w mirror.Write) apiclient.FileOperation {
	o := apiclient.FileOperation{Op: "put"}
	if w.ID != "" {
		o.ID, o.ExpectedVersion = new(string(w.ID)), &w.Version
	}
	switch {
	case w.Delete:
		o.Op = "delete"
		return o
	case w.Move:
		o.Op, o.Path = "move", &w.Path
		return o
	case w.ID == "":
		o.Path, o.Kind, o.Scope = &w.Path, new(string(r.place.Kind)), new(string(r.place.Scope))
		o.WorkspaceID, o.TeamID = (*string)(r.place.Workspace), (*string)(r.place.Team)
	}
	o.Checksum = &w.Checksum
	return o
}
