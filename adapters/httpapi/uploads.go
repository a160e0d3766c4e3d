package httpapi

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// The fields of an upload beside its content: those of object.Draft, which precede the content because the name of the
// blob follows from them, and those of objects.Upload.
var (
	draftFields  = []string{"path", "kind", "scope", "workspaceId", "teamId"}
	uploadFields = []string{"mimeType", "checksum", "expectedVersion"}
)

// uploadRequest is the request of an upload, and the reader of its content.
type uploadRequest struct {
	objects.Upload
	draft object.Draft
	form  *body.Form
	begun bool
}

// newUploadRequest returns the upload of a request whose fields before the content are read. An upload that creates a
// file has draftFields.
func (a *api) newUploadRequest(c *call, create bool) (*uploadRequest, error) {
	if strings.TrimSpace(c.r.Header.Get(uploadComplete)) == "?0" {
		return nil, fault.Field(uploadComplete, "must not be ?0 here: create a resumable upload at %s", resumablePath)
	}
	t, err := body.ParseFormType(c.r.Header, c.r.ContentLength, a.Objects.MaxSize)
	if err != nil {
		return nil, err
	}
	expected, err := c.expected()
	if err != nil {
		return nil, err
	}
	u := &uploadRequest{draft: object.Draft{Kind: object.Artifact, Scope: object.Shared}}
	u.Content, u.Most, u.BeforeStore = u, c.r.ContentLength, c.yieldPermit
	o := body.FormOptions{
		Fields: uploadFields, Integers: []string{"expectedVersion"}, Trailing: uploadFields,
		Query: c.r.URL.RawQuery, Set: u.set, Resources: c,
	}
	if create {
		o.Fields, o.Leading = slices.Concat(draftFields, uploadFields), draftFields[:3]
	}
	if expected != nil {
		o.Preset, u.Expected = []string{"expectedVersion"}, expected
	}
	if u.form, err = body.NewForm(t, c.uploadBody(), c.r.ContentLength, o); err != nil {
		return nil, err
	}
	u.setFromForm()
	return u, nil
}

// uploadBody returns the body of an upload, streamed or already read.
func (c *call) uploadBody() io.Reader {
	switch {
	case c.spooled != nil:
		return c.spooled
	case c.bodyRead:
		return bytes.NewReader(c.body)
	}
	return c.deadlines.Body(c.r, true)
}

// set sets a field.
func (u *uploadRequest) set(name, text string) (err error) {
	var ok bool
	switch name {
	case "path":
		u.draft.Path = text
	case "kind":
		if u.draft.Kind, ok = object.ParseKind(text); !ok {
			return fault.Field(name, "must be one of %s", body.Join(object.Kinds))
		}
	case "scope":
		if u.draft.Scope, ok = object.ParseScope(text); !ok {
			return fault.Field(name, "must be one of %s", body.Join(object.Scopes))
		}
	case "workspaceId":
		w, ok := id.Parse[id.Workspace](text)
		if !ok {
			return fault.Field(name, "must be the id of a workspace")
		}
		u.draft.Workspace = &w
	case "teamId":
		t, ok := id.Parse[id.Team](text)
		if !ok {
			return fault.Field(name, "must be the id of a team")
		}
		u.draft.Team = &t
	case "mimeType":
		if text == "" {
			return fault.Field(name, "must not be empty")
		}
		u.MimeType = text
	case "checksum":
		u.Checksum, err = object.ParseChecksum(text)
	case "expectedVersion":
		var version int64
		version, err = parseVersion(text)
		u.Expected = &version
	}
	return err
}

// setFromForm sets the size, and the unset fields from the headers of the form's file.
func (u *uploadRequest) setFromForm() {
	u.Size = u.form.Size
	if u.MimeType == "" {
		u.MimeType = u.form.MimeType
	}
	if !u.form.Has("path") {
		u.draft.Path = u.form.FileName
	}
}

// begin reads the fields before the content.
func (u *uploadRequest) begin() error {
	err := u.form.Begin()
	if !u.begun {
		u.begun = true
		u.setFromForm()
	}
	return err
}

// Read reads the content.
func (u *uploadRequest) Read(p []byte) (int, error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	return u.form.Read(p)
}
