package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/words"
)

// filesPath is the path of uploads of files.
const filesPath = prefix + "/sync/files"

// appendObject appends the object's metadata record. It does not use encoding/json because manifests are long. A test
// compares it with encoding/json.
func appendObject(dst []byte, o object.Object) []byte {
	dst = encode.AppendString(append(dst, `{"id":`...), string(o.ID))
	dst = encode.AppendString(append(dst, `,"storageKey":`...), o.StorageKey())
	dst = encode.AppendString(append(dst, `,"path":`...), o.Path)
	dst = encode.AppendString(append(dst, `,"mimeType":`...), o.MimeType)
	dst = strconv.AppendInt(append(dst, `,"size":`...), o.Size, 10)
	dst = encode.AppendString(append(dst, `,"checksum":`...), o.Checksum)
	dst = strconv.AppendInt(append(dst, `,"version":`...), o.Version, 10)
	dst = encode.AppendString(append(dst, `,"kind":`...), string(o.Kind))
	dst = encode.AppendString(append(dst, `,"scope":`...), string(o.Scope))
	dst = encode.AppendOptional(append(dst, `,"workspaceId":`...), o.Workspace)
	dst = encode.AppendOptional(append(dst, `,"teamId":`...), o.Team)
	dst = encode.AppendOptional(append(dst, `,"ownerId":`...), o.Owner)
	dst = encode.AppendString(append(dst, `,"createdBy":`...), string(o.CreatedBy))
	dst = encode.AppendString(append(dst, `,"updatedBy":`...), string(o.UpdatedBy))
	dst = encode.AppendTime(append(dst, `,"createdAt":`...), o.CreatedAt)
	dst = encode.AppendTime(append(dst, `,"updatedAt":`...), o.UpdatedAt)
	return append(dst, '}')
}

// objectAppender is the appender of an object's metadata record.
func objectAppender(dst []byte, o object.Object) ([]byte, error) { return appendObject(dst, o), nil }

// appendChange appends the record of a change's object, with "deleted" if it was deleted.
func appendChange(dst []byte, c object.Change) ([]byte, error) {
	dst = appendObject(dst, c.Object)
	if c.Type == object.Deleted {
		dst = append(dst[:len(dst)-1], `,"deleted":true}`...)
	}
	return dst, nil
}

func (c *call) replyObject(status int) func(object.Object, error) error {
	return replyTagged(c, status, objectAppender, func(o object.Object) int64 { return o.Version })
}

func positionOfObject(o object.Object) body.Position { return body.Position{Key: o.StorageKey()} }

func (a *api) createFile(c *call) error {
	u, err := a.newUploadRequest(c, true)
	if err != nil {
		return err
	}
	defer u.form.Close()
	if err := u.begin(); err != nil {
		return err
	}
	if err := a.holdStoreMemory(c, &u.Upload); err != nil {
		return err
	}
	find := a.unconfirmedOrAuthorized
	if u.MayBeLarge() { // a removed member's is not read
		find = a.authorize
	}
	actor, err := find(c)
	if err != nil {
		return err
	}
	created, err := a.Objects.Create(c.r.Context(), actor, u.draft, &u.Upload)
	if err == nil {
		c.Set("Location", filesPath+"/"+string(created.ID))
	}
	return c.replyObject(http.StatusCreated)(created, err)
}

func (a *api) replaceFile(c *call) error {
	file, err := pathID[id.Object](c, "id", "File")
	if err != nil {
		return err
	}
	u, err := a.newUploadRequest(c, false)
	if err != nil {
		return err
	}
	defer u.form.Close()
	if err := a.holdStoreMemory(c, &u.Upload); err != nil {
		return err
	}
	actor, err := a.unconfirmedOrAuthorized(c)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK)(a.Objects.Replace(c.r.Context(), actor, file, &u.Upload))
}

// fileChange reads the file that a request changes, the version that it expects and the fields of its body.
func (c *call) fileChange() (file id.Object, expected *int64, f *body.Fields, err error) {
	if file, err = pathID[id.Object](c, "id", "File"); err != nil {
		return file, expected, nil, err
	}
	if expected, err = c.expected(); err != nil {
		return file, expected, nil, err
	}
	f, err = c.fields()
	return file, expected, f, err
}

// moveFile moves a file to another path of its place.
func (a *api) moveFile(c *call) error {
	file, expected, f, err := c.fileChange()
	if err != nil {
		return err
	}
	path := body.Required(f, "path", body.Text)
	expected = expectedIn(f, expected)
	if err := f.Err(); err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	return c.replyObject(http.StatusOK)(a.Objects.Move(c.r.Context(), actor, file, path, expected))
}

// moveMemory is the memory of a move of a folder of object.MaxMoved files with paths of ordinary length, in bytes.
const moveMemory = 12 << 20

// folderMove is a request to move a folder in the place of the draft.
type folderMove struct {
	place    object.Draft
	from, to string
}

func readFolderMove(f *body.Fields) (folderMove, error) {
	m := folderMove{readPlace(f), body.Required(f, "from", body.Text), body.Required(f, "to", body.Text)}
	return m, f.Err()
}

// folderMoveView is the response to a move of a folder.
type folderMoveView struct {
	Moved  int    `json:"moved"`
	Cursor string `json:"cursor"`
}

func (a *api) moveFolder(c *call, actor org.Actor, m folderMove) error {
	if err := c.Hold(moveMemory); err != nil {
		return err
	}
	moved, head, err := a.Objects.MoveFolder(c.r.Context(), actor, m.place, m.from, m.to)
	a.chargeOperations(c, moved)
	return replyWith(c, http.StatusOK, func(moved int) folderMoveView { return folderMoveView{moved, head.Cursor().String()} })(moved, err)
}

func (a *api) deleteFile(c *call, actor org.Actor, file id.Object) error {
	expected, err := c.expected()
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Objects.Delete(c.r.Context(), actor, file, expected))
}

func (a *api) readFile(c *call, actor org.Actor, file id.Object) error {
	return a.sendFile(c, func() (object.Object, error) { return a.Objects.Get(c.r.Context(), actor, file) })
}

// sendFile replies with the file that find returns, in the representation that the client prefers.
func (a *api) sendFile(c *call, find func() (object.Object, error)) error {
	q, err := c.query("raw", "redirect")
	if err != nil {
		return err
	}
	redirect, err := c.wantsRedirect(q)
	if err != nil {
		return err
	}
	o, err := find()
	if err != nil {
		return err
	}
	bytes, err := c.wantsBytes(q, o)
	if err != nil {
		return err
	}
	c.Header().Add("Vary", "Accept")
	if bytes {
		c.Header().Add("Vary", "Prefer")
		return a.sendBytes(c, o, redirect)
	}
	return a.sendRecord(c, o, strings.TrimSuffix(etag(o.Version), `"`)+jsonTagSuffix+`"`)
}

// readObjectFilter reads the filters of a list of files.
func readObjectFilter(q body.Query, p body.Page) (f object.Filter, err error) {
	if f.Kind, err = body.EnumParam(q, "kind", object.Kinds...); err != nil {
		return f, err
	}
	if f.Scope, err = body.EnumParam(q, "scope", object.Scopes...); err != nil {
		return f, err
	}
	switch text, given := q.Get("workspaceId"); {
	case !given:
	case text == "null":
		f.WithoutWorkspace = true
	default:
		f.Workspace = body.IDParam[id.Workspace](text)
	}
	if text, given := q.Get("prefix"); given {
		if !body.IsKeyText(text) {
			return f, fault.Field("prefix", "must be at most %d bytes of valid UTF-8 without null characters", body.MaxKeyText)
		}
		f.Prefix = norm.NFC.String(strings.TrimPrefix(text, "/"))
	}
	text, err := searchParam(q)
	f.After, f.Limit, f.Words = p.After.Key, p.Fetch(), words.Of(text)
	return f, err
}

func (a *api) listFiles(c *call) error {
	q, p, err := c.keyListQuery("kind", "scope", "workspaceId", "prefix", "search", "deleted")
	if err != nil {
		return err
	}
	f, err := readObjectFilter(q, p)
	if err != nil {
		return err
	}
	switch text, given := q.Get("deleted"); {
	case given && text == "true" && len(f.Words) > 0:
		return fault.Field("search", "does not go with deleted")
	case given && text == "true":
		read := func(actor org.Actor, each func(object.EarlierVersion) error) error {
			return a.Objects.Deleted(c.r.Context(), actor, f, each)
		}
		return list(a, c, q, p, positionOfDeleted, appendDeleted, read)
	case given && text != "false":
		return fault.Field("deleted", "must be true or false")
	}
	read := func(actor org.Actor, each func(object.Object) error) error {
		return a.Objects.List(c.r.Context(), actor, f, nil, each)
	}
	return list(a, c, q, p, positionOfObject, objectAppender, read)
}

// manifest replies with all records that the caller can see, or with those that changed after a cursor.
func (a *api) manifest(c *call) error {
	q, p, err := c.keyListQuery("since")
	if err != nil {
		return err
	}
	var from object.Cursor
	since, given := q.Get("since")
	if given {
		var ok bool
		if from, ok = object.ParseCursor(since); !ok {
			return fault.Field("since", "must be the X-Sync-Cursor of a manifest or the id of a change")
		}
		for _, name := range []string{"limit", "cursor"} {
			if _, paged := q.Get(name); paged {
				return fault.Field(name, "does not go with since")
			}
		}
	}
	var before object.Head // from before the rights that a whole manifest is listed with: changes of these follow its cursor
	tags := c.r.Header["If-None-Match"]
	if !given || len(tags) > 0 {
		if err := c.acquirePermit(); err != nil {
			return err
		}
		if before, err = a.Objects.Head(c.r.Context(), c.caller.Org); err != nil {
			return err
		}
	}
	if len(tags) > 0 {
		actor, err := a.authorize(c)
		if err != nil {
			return err
		}
		if tag := manifestTag(actor, q, before); namesTag(tags, tag, true) {
			c.Set(cursorHeader, before.Cursor().String())
			c.notModified(tag)
			return nil
		}
	}
	head := func(actor org.Actor) func(object.Head) error {
		return func(h object.Head) error {
			c.Set("Etag", manifestTag(actor, q, h))
			if given {
				before = h // whose snapshot has the changes of rights, too
			}
			c.Set(cursorHeader, before.Cursor().String())
			return nil
		}
	}
	if given {
		return list(a, c, q, p, nil, appendChange, func(actor org.Actor, each func(object.Change) error) error {
			return a.Objects.Since(c.r.Context(), actor, from, head(actor), each)
		})
	}
	f := object.Filter{After: p.After.Key, Limit: p.Fetch()}
	read := func(actor org.Actor, each func(object.Object) error) error {
		return a.Objects.List(c.r.Context(), actor, f, head(actor), each)
	}
	return list(a, c, q, p, positionOfObject, objectAppender, read)
}

// manifestTag returns the entity tag of a manifest, made of the log's head, the actor's
// visibility, the actor and the query.
func manifestTag(actor org.Actor, q body.Query, h object.Head) string {
	reader := contentTag([]byte(string(actor.Org) + "\n" + string(actor.User) + "\n" + q.Values.Encode()))
	return `"` + h.Cursor().String() + "-" + strconv.FormatInt(actor.Epoch(), 10) + "-" + reader[1:]
}
