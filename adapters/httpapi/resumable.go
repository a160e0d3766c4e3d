package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/upload"
)

// resumablePath is the path for the creation of resumable uploads.
const resumablePath = prefix + "/sync/resumable-uploads"

// The headers of resumable uploads (draft-ietf-httpbis-resumable-upload).
const (
	uploadComplete = "Upload-Complete"
	uploadOffset   = "Upload-Offset"
	uploadLength   = "Upload-Length"
	uploadLimit    = "Upload-Limit"
	uploadDraft    = "Upload-Draft-Interop-Version"
)

// statusResumable announces the address of an upload before its content is read, to clients that send draftVersion:
// others may take it for the response.
const (
	statusResumable = 104
	draftVersion    = "8"
)

// resumableView is a resumable upload.
type resumableView struct {
	ID       id.Upload `json:"id"`
	FileID   id.Object `json:"fileId"`
	Path     *string   `json:"path"`
	Offset   int64     `json:"offset"`
	Size     int64     `json:"size"`
	Complete bool      `json:"complete"`
	Created  jsonTime  `json:"createdAt"`
	Expires  jsonTime  `json:"expiresAt"`
}

func viewResumable(u upload.Upload) resumableView {
	v := resumableView{u.ID, u.Object, nil, u.Offset, u.Size, u.Status() == upload.Completed, jsonTime(u.CreatedAt), jsonTime(u.ExpiresAt)}
	if u.Draft != nil {
		v.Path = &u.Draft.Path
	}
	return v
}

// uploadHeaders are the headers of a request with content of an upload.
type uploadHeaders struct {
	complete bool   // the request ends the content
	offset   *int64 // nil: none
	length   *int64 // of the whole content; nil: none
}

// uploadHeaders reads the headers of a request with content of an upload.
func (c *call) uploadHeaders() (h uploadHeaders, err error) {
	if err := body.CheckWhole(c.r.Header); err != nil {
		return h, err
	}
	switch strings.TrimSpace(c.r.Header.Get(uploadComplete)) {
	case "?1":
		h.complete = true
	case "?0":
	default:
		return h, fault.Field(uploadComplete, "must be ?1 if the request ends the content, else ?0")
	}
	for _, header := range []struct {
		name string
		to   **int64
	}{{uploadOffset, &h.offset}, {uploadLength, &h.length}} {
		if text := strings.TrimSpace(c.r.Header.Get(header.name)); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 {
				return h, fault.Field(header.name, "must be a number of bytes")
			}
			*header.to = &n
		}
	}
	return h, nil
}

// setUploadHeaders sets the headers that describe an upload.
func (a *api) setUploadHeaders(c *call, u upload.Upload) {
	c.Header()["Cache-Control"] = noStore
	c.Set(uploadOffset, strconv.FormatInt(u.Offset, 10))
	c.Set(uploadLength, strconv.FormatInt(u.Size, 10))
	c.Set(uploadLimit, fmt.Sprintf("max-size=%d, min-append-size=%d, max-age=%d", a.Objects.MaxSize,
		a.Objects.MinAppend, max(0, u.ExpiresAt.Sub(a.Now())/time.Second)))
	c.setUploadComplete(u.Status() != upload.Open)
	if u.Status() == upload.Cancelled {
		c.Header().Del("Location")
	}
}

// withUploadHeaders returns a handler whose errors have the headers of an upload only if they are about it. After other
// errors the client requests the offset at the Location of the created upload.
func withUploadHeaders(h handler) handler {
	return func(c *call) error {
		err := h(c)
		if err != nil && !fault.Is(err, fault.Invalid, fault.Conflict, fault.TooLarge) {
			for _, name := range []string{uploadComplete, uploadOffset, uploadLength, uploadLimit} {
				c.Header().Del(name)
			}
		}
		return err
	}
}

// setUploadComplete sets the header that says whether the upload is complete.
func (c *call) setUploadComplete(complete bool) {
	c.Set(uploadComplete, map[bool]string{true: "?1", false: "?0"}[complete])
}

// createResumable creates an upload, and appends the request's content to it if there is any.
func (a *api) createResumable(c *call) error {
	expected, err := c.expected()
	if err != nil {
		return err
	}
	h, err := c.uploadHeaders()
	if err != nil {
		return err
	}
	file, draft, u, err := readResumable(c.r, c.params, h)
	if err != nil {
		return err
	}
	u.Expected = expected
	if h.offset == nil {
		h.offset = new(int64(0))
	}
	fresh := upload.New(upload.Upload{Size: u.Size}, a.Now())
	if err := fresh.CheckAppend(*h.offset, c.r.ContentLength, h.complete, a.Objects.MinAppend); err != nil {
		return err
	}
	if c.r.ContentLength != 0 || h.complete {
		if err := a.holdStoreMemory(c, &u); err != nil {
			return err
		}
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	created, err := a.Objects.BeginResumable(c.r.Context(), actor, file, draft, u)
	if fault.Is(err, fault.TooLarge) {
		c.Set(uploadLimit, fmt.Sprintf("max-size=%d", a.Objects.MaxSize))
	}
	if err != nil {
		return err
	}
	a.setUploadHeaders(c, created)
	c.Set("Location", resumablePath+"/"+string(created.ID))
	if c.r.ContentLength == 0 && !h.complete {
		return c.reply(http.StatusCreated, viewResumable(created))
	}
	if !c.recorded() && c.r.ProtoAtLeast(1, 1) && c.r.Header.Get(uploadDraft) == draftVersion {
		c.Set(uploadDraft, draftVersion)
		c.WriteHeader(statusResumable)
		c.Header().Del(uploadDraft)
	}
	created, err = a.appendContent(c, actor, created, 0, h.complete)
	if err == nil && !h.complete {
		return c.reply(http.StatusCreated, viewResumable(created))
	}
	if err != nil {
		return err
	}
	return a.finishResumable(c, actor, created, "", http.StatusOK) // 201 is the response of an upload that is not complete
}

// readResumable reads the start of an upload: of the file in fileId, or else of a new file of the draft.
func readResumable(r *http.Request, q body.Query, h uploadHeaders) (file id.Object, draft *object.Draft, o objects.Upload, err error) {
	u := &uploadRequest{draft: object.Draft{Kind: object.Artifact, Scope: object.Shared}}
	text, replaces := q.Get("fileId")
	if file = id.Object(text); replaces && body.IDParam[id.Object](text) == body.NilID {
		return file, nil, o, fault.Field("fileId", "must be the id of a file")
	}
	for _, name := range append(draftFields, "mimeType", "checksum") {
		text, given := q.Get(name)
		if given && replaces && slices.Contains(draftFields, name) {
			return file, nil, o, fault.Field(name, "does not go with fileId")
		}
		if given {
			if err := u.set(name, text); err != nil {
				return file, nil, o, err
			}
		}
	}
	if !replaces {
		draft = &u.draft
	}
	if u.MimeType == "" {
		u.MimeType = body.SpecificType(r.Header.Get("Content-Type"))
	}
	switch {
	case h.complete && r.ContentLength >= 0:
		u.Size = r.ContentLength
		if h.length != nil && *h.length != u.Size {
			err = fault.Field(uploadLength, "is not the length of the content, which is complete")
		}
	case h.length != nil:
		u.Size = *h.length
	default:
		err = fault.Field(uploadLength, "is required")
	}
	return file, draft, u.Upload, err
}

// onResumable returns an action on the resumable upload whose id is in the path.
func (a *api) onResumable(do func(*call, org.Actor, upload.Upload) error) action {
	return onRecord("id", "Upload", func(c *call, actor org.Actor, record id.Upload) error {
		u, err := a.Objects.Resumable(c.r.Context(), actor, record)
		if err != nil {
			return err
		}
		return do(c, actor, u)
	})
}

func (a *api) listResumable(c *call, actor org.Actor) error {
	return replyUnstored(c, viewEach(viewResumable))(a.Objects.OpenUploads(c.r.Context(), actor))
}

func (a *api) getResumable(c *call, _ org.Actor, u upload.Upload) error {
	a.setUploadHeaders(c, u)
	return c.reply(http.StatusOK, viewResumable(u))
}

// appendResumable appends the request's content to an upload, and finishes it if that is its end.
func (a *api) appendResumable(c *call) error {
	checksum := ""
	if text, given := c.params.Get("checksum"); given {
		var err error
		if checksum, err = object.ParseChecksum(text); err != nil {
			return err
		}
	}
	if c.r.Header.Get("Content-Type") != "application/partial-upload" {
		return fault.New(fault.Unsupported, "The content type must be application/partial-upload")
	}
	h, err := c.uploadHeaders()
	if err == nil && h.offset == nil {
		err = fault.Field(uploadOffset, "is required")
	}
	if err != nil {
		return err
	}
	return a.authorized(a.onResumable(func(c *call, actor org.Actor, u upload.Upload) error {
		a.setUploadHeaders(c, u)
		switch {
		case h.length != nil && *h.length != u.Size:
			return fault.Field(uploadLength, "is not that of the upload, which is %d", u.Size)
		case h.complete && u.Status() == upload.Completed:
			// The response to the same request was lost.
			arrived := c.yieldPermit()
			_, err := io.Copy(io.Discard, io.LimitReader(c.uploadBody(), u.Size))
			if err = cmp.Or(err, arrived()); err != nil {
				return err
			}
			if actor, err = a.authorize(c); err != nil {
				return err
			}
		default:
			if u, err = a.appendContent(c, actor, u, *h.offset, h.complete); err != nil {
				return err
			}
		}
		if h.complete {
			status := http.StatusOK
			if u.Draft != nil {
				status = http.StatusCreated
			}
			return a.finishResumable(c, actor, u, checksum, status)
		}
		c.releasePermit()
		c.WriteHeader(http.StatusNoContent)
		return nil
	}))(c)
}

// appendContent appends the request's content to an upload and returns the changed upload.
func (a *api) appendContent(c *call, actor org.Actor, u upload.Upload, offset int64, last bool) (upload.Upload, error) {
	if err := a.holdStoreMemory(c, &objects.Upload{Size: min(a.Objects.PartSize, u.Size-u.Offset)}); err != nil {
		return u, err
	}
	u, err := a.Objects.AppendResumable(c.r.Context(), actor, u, offset, last, &objects.Upload{
		Content: c.uploadBody(), Size: c.r.ContentLength, BeforeStore: c.yieldPermit,
	})
	a.setUploadHeaders(c, u)
	return u, err
}

// finishResumable stores the object of an upload, and replies with its record.
func (a *api) finishResumable(c *call, actor org.Actor, u upload.Upload, checksum string, status int) error {
	if u.Status() != upload.Completed {
		if err := a.holdStoreMemory(c, &objects.Upload{Size: u.Size}); err != nil {
			return err
		}
	}
	c.ExtendFor(int(u.Size)) // the content is read and written once more
	o, err := a.Objects.FinishResumable(c.r.Context(), actor, u, checksum, c.yieldPermit)
	if err != nil {
		// The upload can be finished later unless it was cancelled.
		_, lookup := a.Objects.Resumable(c.r.Context(), actor, u.ID)
		cancelled := fault.Is(lookup, fault.NotFound)
		if c.setUploadComplete(cancelled); cancelled {
			c.Header().Del("Location")
		}
		return err
	}
	c.setUploadComplete(true)
	c.Set("Location", filesPath+"/"+string(o.ID))
	return c.replyObject(status)(o, nil)
}
