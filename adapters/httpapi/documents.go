package httpapi

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// nullBody is the body of a response without a stored object.
var nullBody = []byte("null\n")

// namedObject reads and writes an object of a fixed name: a document or a memory.
type namedObject struct {
	find func(context.Context, org.Actor) (object.Object, bool, error)
	save func(context.Context, org.Actor, *objects.Upload) (object.Object, error)
}

func (a *api) namedDocument(d object.Document) namedObject {
	return namedObject{
		find: func(ctx context.Context, actor org.Actor) (object.Object, bool, error) {
			return a.Objects.Find(ctx, actor, d)
		},
		save: func(ctx context.Context, actor org.Actor, u *objects.Upload) (object.Object, error) {
			return a.Objects.Save(ctx, actor, d, u)
		},
	}
}

// namedMemory returns the memory of a scope.
func (a *api) namedMemory(c *call) (namedObject, error) {
	switch c.vars["scope"] {
	case "user":
		return a.namedDocument(object.UserMemory), nil
	case "org":
		return a.namedDocument(object.OrgMemory), nil
	}
	return namedObject{}, fault.Missing("Memory")
}

// namedWorkspaceMemory returns a memory of a workspace.
func (a *api) namedWorkspaceMemory(c *call) (namedObject, error) {
	w, err := pathID[id.Workspace](c, "workspaceId", "Workspace")
	name := c.vars["fileName"]
	return namedObject{
		find: func(ctx context.Context, actor org.Actor) (object.Object, bool, error) {
			return a.Objects.FindMemory(ctx, actor, w, name)
		},
		save: func(ctx context.Context, actor org.Actor, u *objects.Upload) (object.Object, error) {
			return a.Objects.SaveMemory(ctx, actor, w, name, u)
		},
	}, err
}

// saveDocument returns a handler that stores a JSON object unchanged.
func (a *api) saveDocument(d object.Document) handler {
	return func(c *call) error {
		expected, err := c.expected()
		if err != nil {
			return err
		}
		if _, err := c.fields(); err != nil {
			return err
		}
		return a.save(c, a.namedDocument(d), expected, c.body)
	}
}

// saveMemory returns a handler that stores a text.
func (a *api) saveMemory(find func(*call) (namedObject, error)) handler {
	return func(c *call) error {
		named, err := find(c)
		if err != nil {
			return err
		}
		content, expected, err := receiveMemory(c)
		if err != nil {
			return err
		}
		return a.save(c, named, expected, content)
	}
}

// save stores content if the expected version is stored.
func (a *api) save(c *call, named namedObject, expected *int64, content []byte) error {
	u := objects.Upload{Content: bytes.NewReader(content), Size: int64(len(content)), Expected: expected, BeforeStore: c.yieldPermit}
	if err := a.holdStoreMemory(c, &u); err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK)(named.save(c.r.Context(), actor, &u))
}

// receiveMemory reads the content of a memory from a field of a JSON object, or from a body
// of any other type or none.
func receiveMemory(c *call) (content []byte, expected *int64, err error) {
	if expected, err = c.expected(); err != nil {
		return nil, nil, err
	}
	contentType := c.r.Header.Get("Content-Type")
	media, _, _ := mime.ParseMediaType(contentType)
	if contentType != "" && !strings.Contains(media, "/") { // JSON may be meant, whose text is not the memory's
		return nil, nil, fault.New(fault.Unsupported, "The content type must be a media type")
	}
	if body.IsJSON(media) {
		f, err := c.fields()
		if err != nil {
			return nil, nil, err
		}
		content, expected = []byte(body.Required(f, "content", body.Text)), expectedIn(f, expected)
		return content, expected, f.Err()
	}
	if content, err = c.read(body.MaxJSON); err == nil && !utf8.Valid(content) {
		err = fault.New(fault.Invalid, "The body must be text in UTF-8")
	}
	return content, expected, err
}

// readDocument replies with a document, byte for byte as stored.
func (a *api) readDocument(d object.Document) action {
	return func(c *call, actor org.Actor) error {
		return sendFound(c, a.sendStored)(a.Objects.Find(c.r.Context(), actor, d))
	}
}

// readMemory returns an action that replies with a text and its metadata.
func (a *api) readMemory(find func(*call) (namedObject, error)) action {
	return func(c *call, actor org.Actor) error {
		named, err := find(c)
		if err != nil {
			return err
		}
		return sendFound(c, func(c *call, o object.Object) error {
			return a.sendRecord(c, o, etag(o.Version))
		})(named.find(c.r.Context(), actor))
	}
}

// sendFound returns a function that sends the found object, or null if there is none.
func sendFound(c *call, send func(*call, object.Object) error) func(object.Object, bool, error) error {
	return func(o object.Object, found bool, err error) error {
		switch {
		case err != nil:
			return err
		case found:
			return send(c, o)
		}
		c.send(http.StatusOK, nullBody)
		return nil
	}
}

func (a *api) listWorkspaceMemory(c *call) error {
	w, err := pathID[id.Workspace](c, "workspaceId", "Workspace")
	if err != nil {
		return err
	}
	q, p, err := c.keyListQuery()
	if err != nil {
		return err
	}
	f := object.Filter{After: p.After.Key, Limit: p.Fetch()}
	read := func(actor org.Actor, each func(object.Object) error) error {
		return a.Objects.ListMemory(c.r.Context(), actor, w, f, each)
	}
	return list(a, c, q, p, positionOfObject, objectAppender, read)
}
