package httpapi

import (
	"bytes"
	"mime"
	"net/http"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"collab/adapters/httpapi/body"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
)

// absent is the answer where nothing is stored.
var absent = []byte("null\n")

// saveDocument stores a JSON object byte for byte as it came.
func (a *api) saveDocument(d object.Document) handler {
	return func(c *call) error {
		when, err := c.condition()
		if err != nil {
			return err
		}
		if _, err := c.fields(); err != nil {
			return err
		}
		u := objects.Upload{Content: bytes.NewReader(c.body), Size: int64(len(c.body)), Expected: when.version}
		actor, err := a.authorize(c)
		if err != nil {
			return err
		}
		if when.anyVersion() {
			if err := mustExist(a.Objects.Find(c.r.Context(), actor, d)); err != nil {
				return err
			}
		}
		saved, err := a.Objects.Save(c.r.Context(), actor, d, &u)
		if err != nil {
			return err
		}
		return c.replyObject(http.StatusOK, saved)
	}
}

// readDocument answers with a document as it was stored.
func (a *api) readDocument(d object.Document) action {
	return func(c *call, actor org.Actor) error {
		o, found, err := a.Objects.Find(c.r.Context(), actor, d)
		if err != nil {
			return err
		}
		if !found {
			c.send(http.StatusOK, absent)
			return nil
		}
		return a.sendStored(c, o)
	}
}

// memoryOf is the document that a scope's memory is in.
func memoryOf(c *call) (object.Document, error) {
	switch mux.Vars(c.r)["scope"] {
	case "user":
		return object.UserMemory, nil
	case "org":
		return object.OrgMemory, nil
	}
	return object.Document{}, fault.Missing("Memory")
}

func (a *api) saveMemory(c *call) error {
	d, err := memoryOf(c)
	if err != nil {
		return err
	}
	u, when, err := readMemory(c)
	if err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	if when.anyVersion() {
		if err := mustExist(a.Objects.Find(c.r.Context(), actor, d)); err != nil {
			return err
		}
	}
	saved, err := a.Objects.Save(c.r.Context(), actor, d, u)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK, saved)
}

func (a *api) saveWorkspaceMemory(c *call) error {
	w, err := pathID[id.Workspace](c, "workspaceId", "Workspace")
	if err != nil {
		return err
	}
	name := mux.Vars(c.r)["fileName"]
	u, when, err := readMemory(c)
	if err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	if when.anyVersion() {
		if err := mustExist(a.Objects.FindMemory(c.r.Context(), actor, w, name)); err != nil {
			return err
		}
	}
	saved, err := a.Objects.SaveMemory(c.r.Context(), actor, w, name, u)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK, saved)
}

// readMemory reads the content of a memory: a field of a JSON object, or the
// body itself where it is of any other type.
func readMemory(c *call) (*objects.Upload, condition, error) {
	when, err := c.condition()
	if err != nil {
		return nil, when, err
	}
	var content []byte
	if media, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); body.IsJSON(media) {
		f, err := c.fields()
		if err != nil {
			return nil, when, err
		}
		content = []byte(body.Required(f, "content", body.Text))
		version := body.Optional(f, "expectedVersion", body.Integer)
		if version != nil && when.given {
			f.Refuse("expectedVersion", "must be given only once")
		}
		if version != nil && *version < 0 {
			f.Refuse("expectedVersion", "must be the number of a version")
		}
		if err := f.Err(); err != nil {
			return nil, when, err
		}
		if version != nil {
			when = condition{true, version}
		}
	} else {
		if content, err = c.read(body.MaxJSON); err != nil {
			return nil, when, err
		}
		if !utf8.Valid(content) {
			return nil, when, fault.New(fault.Invalid, "The body must be text in UTF-8")
		}
	}
	return &objects.Upload{Content: bytes.NewReader(content), Size: int64(len(content)), Expected: when.version}, when, nil
}

func (a *api) readMemory(c *call, actor org.Actor) error {
	d, err := memoryOf(c)
	if err != nil {
		return err
	}
	return a.replyMemory(c)(a.Objects.Find(c.r.Context(), actor, d))
}

func (a *api) readWorkspaceMemory(c *call, actor org.Actor) error {
	w, err := pathID[id.Workspace](c, "workspaceId", "Workspace")
	if err != nil {
		return err
	}
	return a.replyMemory(c)(a.Objects.FindMemory(c.r.Context(), actor, w, mux.Vars(c.r)["fileName"]))
}

// replyMemory answers with what was found.
func (a *api) replyMemory(c *call) func(object.Object, bool, error) error {
	return func(o object.Object, found bool, err error) error {
		if err != nil {
			return err
		}
		if !found {
			c.send(http.StatusOK, absent)
			return nil
		}
		return a.sendRecord(c, o, etag(o.Version))
	}
}

func (a *api) listWorkspaceMemory(c *call) error {
	w, err := pathID[id.Workspace](c, "workspaceId", "Workspace")
	if err != nil {
		return err
	}
	q, p, err := c.listingByKey()
	if err != nil {
		return err
	}
	f := object.Filter{After: p.After.Key, Limit: p.Fetch()}
	return list(a, c, q, p, keyOfObject, appendListed, func(actor org.Actor, each func(object.Object) error) error {
		return a.Objects.ListMemory(c.r.Context(), actor, w, f, each)
	})
}
