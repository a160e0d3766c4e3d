package httpapi

import (
	"net/http"

	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// directUploadView is an upload to the object store that was started.
type directUploadView struct {
	ID      string            `json:"id"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Expires jsonTime          `json:"expiresAt"`
}

// readPlace reads the fields of a place: by default that of shared artifacts.
func readPlace(f *body.Fields) object.Draft {
	return object.Draft{
		Kind:      body.OrElse(f, "kind", body.OneOf(object.Kinds...), object.Artifact),
		Scope:     body.OrElse(f, "scope", body.OneOf(object.Scopes...), object.Shared),
		Workspace: body.Optional(f, "workspaceId", asWorkspace),
		Team:      body.Optional(f, "teamId", asTeam),
	}
}

// readTarget reads the target of an upload: the id of an existing file in the field, or else the draft of a new one.
func readTarget(f *body.Fields, idField string) (file id.Object, d object.Draft) {
	existing := body.Optional(f, idField, body.ID[id.Object]("file"))
	d = readPlace(f)
	d.Path = body.OrZero(f, "path", body.Text)
	if existing == nil {
		return "", d
	}
	for _, name := range draftFields {
		if _, given := f.Find(name); given {
			f.Refuse(name, "does not go with "+idField)
		}
	}
	return *existing, object.Draft{}
}

// asChecksum is the Reader of a SHA-256.
func asChecksum(raw []byte) (string, string) {
	text, problem := body.Text(raw)
	sum, err := object.ParseChecksum(text)
	if problem == "" && err != nil {
		problem = "must be a SHA-256 in hexadecimal"
	}
	return sum, problem
}

// readStart reads the start of an upload: of the file in fileId, or else of a new file of the draft.
func readStart(f *body.Fields, expected *int64) (file id.Object, draft *object.Draft, u objects.Upload, err error) {
	file, d := readTarget(f, "fileId")
	if file == "" {
		draft = &d
	}
	u.MimeType = body.OrZero(f, "mimeType", body.Text)
	if u.Size = body.Required(f, "size", body.Integer); u.Size < 0 {
		f.Refuse("size", "must not be negative")
	}
	u.Checksum = body.Required(f, "checksum", asChecksum)
	u.Expected = expectedIn(f, expected)
	return file, draft, u, f.Err()
}

// startUpload replies with an address at the object store.
func (a *api) startUpload(c *call) error {
	expected, err := c.expected()
	if err != nil {
		return err
	}
	f, err := c.fields()
	if err != nil {
		return err
	}
	file, draft, u, err := readStart(f, expected)
	if err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	uploadID, to, expires, err := a.Objects.StartDirect(c.r.Context(), actor, file, draft, u)
	if err != nil {
		return err
	}
	c.hideAddress()
	return c.reply(http.StatusCreated, directUploadView{uploadID, to.URL, http.MethodPut, to.Headers, jsonTime(expires)})
}

// onUpload returns an action on the started upload whose id is in the path.
func (a *api) onUpload(do func(*call, org.Actor, *objects.DirectUpload) error) action {
	return func(c *call, actor org.Actor) error {
		upload, err := a.Objects.DirectUpload(actor, c.vars["id"])
		if err != nil {
			return err
		}
		return do(c, actor, upload)
	}
}

// completeUpload stores the uploaded content, and replies like the upload of a file.
func (a *api) completeUpload(c *call, actor org.Actor, upload *objects.DirectUpload) error {
	c.ExtendFor(int(upload.Content.Size)) // it may be read
	o, err := a.Objects.CompleteDirect(c.r.Context(), actor, upload, c.yieldPermit)
	status := http.StatusOK
	if err == nil && upload.Draft != nil {
		c.Set("Location", filesPath+"/"+string(o.ID))
		status = http.StatusCreated
	}
	return c.replyObject(status)(o, err)
}
