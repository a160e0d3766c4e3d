package harness

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"collab/app/changes"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// fileActs are what people do with files, memories and documents, and how they
// follow the changes.
var fileActs = []*act{
	{
		who: person, name: "add-file", args: "path* kind scope workspaceId teamId mimeType content size checksum",
		does: "Stores a new file and answers with its record: id, storageKey, path, mimeType, size, checksum, version, kind, scope, workspaceId, teamId, ownerId, createdBy, updatedBy, createdAt, updatedAt (POST /sync/files). The kind is ARTIFACT and the scope SHARED unless they are given. Instead of `content`, `size` makes content of so many bytes.",
		do: func(c *call) (any, error) {
			d := object.Draft{
				Path: c.text("path"), Kind: object.Artifact, Scope: object.Shared, MimeType: c.text("mimeType"),
				Workspace: optional[id.Workspace](c, "workspaceId"), Team: optional[id.Team](c, "teamId"),
			}
			if c.given("kind") {
				d.Kind = read(c, "kind", asKind)
			}
			if c.given("scope") {
				d.Scope = read(c, "scope", asScope)
			}
			u := c.upload()
			return answered(c, func() (object.Object, error) { return c.Objects.Create(c.ctx, c.actor, d, u) })
		},
	},
	{
		who: person, name: "files", args: "kind scope workspaceId prefix",
		does: "Lists the records of the files that the person sees, by storage key (GET /sync/files).",
		do: func(c *call) (any, error) {
			f := object.Filter{
				Kind: read(c, "kind", asKind), Scope: read(c, "scope", asScope), Workspace: id.Workspace(c.text("workspaceId")), Prefix: strings.TrimPrefix(c.text("prefix"), "/"),
			}
			return answered(c, func() ([]object.Object, error) {
				return collect(func(each func(object.Object) error) error { return c.Objects.List(c.ctx, c.actor, f, nil, each) })
			})
		},
	},
	{
		who: person, name: "manifest", args: "since",
		does: "Answers with the records of all files (`files`), and the place in the log of changes that they are of (`cursor`) (GET /sync/manifest). With `since`, a cursor, with what has changed since then: the records as they are, `deleted = true` for those that are gone.",
		do:   manifest,
	},
	{
		who: person, name: "read-file", on: "file",
		does: "Answers with a file's record and its `content` (GET /sync/files/:id).",
		do: func(c *call) (any, error) {
			o, err := c.Objects.Get(c.ctx, c.actor, id.Object(c.subject()))
			if err != nil {
				return nil, err
			}
			return c.withContent(o)
		},
	},
	{
		who: person, name: "replace-file", on: "file", args: "content size checksum mimeType expectedVersion",
		does: "Replaces a file's content and answers with its record (PUT /sync/files/:id).",
		do: func(c *call) (any, error) {
			u := c.upload()
			return answered(c, func() (object.Object, error) { return c.Objects.Replace(c.ctx, c.actor, id.Object(c.subject()), u) })
		},
	},
	{
		who: person, name: "delete-file", on: "file", args: "expectedVersion",
		does: "Deletes a file (DELETE /sync/files/:id).",
		do: func(c *call) (any, error) {
			expected := c.count("expectedVersion")
			return only(c, func() error { return c.Objects.Delete(c.ctx, c.actor, id.Object(c.subject()), expected) })
		},
	},
	{
		who: person, name: "save-document", on: "document", args: "content* expectedVersion",
		does: "Stores one of the named documents, profile.json, user-memory.md, org.json or org-memory.md, and answers with its record (PUT /sync/profile, PUT /sync/org-onboarding, PUT /sync/memory/:scope).",
		do: with((*call).document, func(c *call, d object.Document) (any, error) {
			u := c.upload()
			return answered(c, func() (object.Object, error) { return c.Objects.Save(c.ctx, c.actor, d, u) })
		}),
	},
	{
		who: person, name: "read-document", on: "document",
		does: "Answers with a named document's record and content, or with nothing where none is stored (GET /sync/profile, GET /sync/org-onboarding, GET /sync/memory/:scope).",
		do: with((*call).document, func(c *call, d object.Document) (any, error) {
			o, found, err := c.Objects.Find(c.ctx, c.actor, d)
			if err != nil || !found {
				return nil, err
			}
			return c.withContent(o)
		}),
	},
	{
		who: person, name: "save-memory", on: "workspace", args: "file* content* expectedVersion",
		does: "Stores a memory file of a workspace, and answers with its record; `expectedVersion=0` says that there is none yet (PUT /sync/memory/workspace/:workspaceId/:fileName).",
		do: func(c *call) (any, error) {
			u := c.upload()
			return answered(c, func() (object.Object, error) {
				return c.Objects.SaveMemory(c.ctx, c.actor, id.Workspace(c.subject()), c.text("file"), u)
			})
		},
	},
	{
		who: person, name: "read-memory", on: "workspace", args: "file*",
		does: "Answers with a memory file's record and content, or with nothing where none is stored (GET /sync/memory/workspace/:workspaceId/:fileName).",
		do: func(c *call) (any, error) {
			o, found, err := c.Objects.FindMemory(c.ctx, c.actor, id.Workspace(c.subject()), c.text("file"))
			if err != nil || !found {
				return nil, err
			}
			return c.withContent(o)
		},
	},
	{
		who: person, name: "memories", on: "workspace",
		does: "Lists the records of a workspace's memory files (GET /sync/memory/workspace/:workspaceId).",
		do: lists(func(c *call, each func(object.Object) error) error {
			return c.Objects.ListMemory(c.ctx, c.actor, id.Workspace(c.subject()), object.Filter{}, each)
		}),
	},
	{
		who: person, name: "listen", args: "since",
		does: "Follows the changes from now on, or from a cursor on (GET /sync/changes). Answers with the cursor. Who listened before stops that.",
		do:   listen,
	},
	{
		who: person, name: "heard", open: true,
		does: "Lists what came of the feed since it was asked last: type, storageKey, path, checksum, version, changedBy, timestamp, cursor. The type resync says that the manifest is to be read again. Answers with `events`, the `cursor`, and with `ended` where the feed has ended: expired or removed.",
		do:   heard,
	},
}

var (
	asKind  = oneOf("kind", object.ParseKind, object.Kinds...)
	asScope = oneOf("scope", object.ParseScope, object.Scopes...)
)

// maxContent is the largest content that a scenario can ask for: more than the
// server takes.
const maxContent = 2 * MaxSize

// upload is the content that an act has.
func (c *call) upload() *objects.Upload {
	u := Text(c.text("content"))
	if c.given("size") {
		n := c.number("size", 0)
		if n < 0 || n > maxContent {
			c.misuse("size is 0 to %d", maxContent)
			n = 0
		}
		u = Text(strings.Repeat("x", int(n)))
	}
	u.Checksum, u.MimeType, u.Expected = c.text("checksum"), c.text("mimeType"), c.count("expectedVersion")
	return u
}

// withContent is the record of an object with its content.
func (c *call) withContent(o object.Object) (any, error) {
	r, err := c.Objects.Open(c.ctx, o, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return append(view(o, c.Clock.Now()).(record), field{"content", unset(string(content))}), nil
}

func (c *call) document() (object.Document, error) {
	for _, d := range []object.Document{object.Profile, object.UserMemory, object.OrgOnboarding, object.OrgMemory} {
		if d.Path == c.subject() {
			return d, nil
		}
	}
	return object.Document{}, &misuse{"the documents are profile.json, user-memory.md, org.json and org-memory.md"}
}

func manifest(c *call) (any, error) {
	var all []any
	var at object.Cursor
	now := c.Clock.Now()
	head := func(h object.Head) error {
		at = h.Cursor()
		return nil
	}
	var err error
	if !c.given("since") {
		err = c.Objects.List(c.ctx, c.actor, object.Filter{}, head, func(o object.Object) error {
			all = append(all, view(o, now))
			return nil
		})
	} else {
		from, ok := object.ParseCursor(c.text("since"))
		if !ok {
			return nil, fault.Field("since", "must be an event's id")
		}
		err = c.Objects.Since(c.ctx, c.actor, from, head, func(e object.Change) error {
			r := view(e.Object, now).(record)
			if e.Type == object.Deleted {
				r = append(r, field{"deleted", "true"})
			}
			all = append(all, r)
			return nil
		})
	}
	return record{{"cursor", at.String()}, {"files", all}}, err
}

// feed is a subscription of somebody's.
type feed struct {
	subscriber *changes.Subscriber
	org        id.Org
	may        func(context.Context) error // nil while they may listen
}

func (f *feed) close() { f.subscriber.Close() }

func listen(c *call) (any, error) {
	if err := c.actor.CheckMember(); err != nil {
		return nil, err
	}
	if c.ticks == nil {
		c.World.ticks = make(chan time.Time)
		if err := c.Feed.Start(c.ticks); err != nil {
			return nil, err
		}
	}
	s, err := c.Feed.Subscribe(c.ctx, c.actor, c.text("since"), c.given("since"))
	if err != nil {
		return nil, err
	}
	if was := c.run.feeds[c.who]; was != nil {
		was.close()
	}
	actor, reauthorize := c.actor, c.Access.Reauthorizer(c.ctx)
	c.run.feeds[c.who] = &feed{subscriber: s, org: actor.Org, may: func(ctx context.Context) error {
		_, err := reauthorize(ctx, actor)
		return err
	}}
	at, lost := s.Start()
	return record{{"cursor", at.String()}, {"lost", fmt.Sprint(lost)}}, nil
}

// soon is how long a feed may take for what it has to do at once. Nothing depends
// on it unless the feed is broken.
const soon = 30 * time.Second

func heard(c *call) (any, error) {
	f := c.run.feeds[c.who]
	if f == nil {
		return nil, &misuse{c.who + " does not listen"}
	}
	heads, err := c.Store.Storage().Changes().Heads(c.ctx, []id.Org{f.org})
	if err != nil {
		return nil, err
	}
	head := heads[f.org].Cursor()
	ends := f.may(c.ctx) != nil
	ctx, cancel := context.WithTimeout(c.ctx, soon)
	defer cancel()
	for range 2 { // the second look comes after all that the first has begun
		select {
		case c.ticks <- c.Clock.Now():
		case <-ctx.Done():
		}
	}
	events := []any{}
	for frames := make([][]byte, 0, 64); ; frames = frames[:0] {
		frames = f.subscriber.Take(frames)
		for _, name := range frames {
			events = append(events, eventOf(c.decode(name)))
		}
		at, _ := f.subscriber.Moved()
		ended := f.subscriber.Ended()
		if len(frames) == 0 && (ended != "" || !ends && at.Epoch == head.Epoch && at.N >= head.N) {
			return record{{"cursor", at.String()}, {"ended", unset(string(ended))}, {"events", events}}, nil
		}
		if len(frames) > 0 {
			continue
		}
		select {
		case <-f.subscriber.Wake():
		case <-ctx.Done():
			return nil, fmt.Errorf("the feed came to %s, and not to %s", at, head)
		}
	}
}

// eventOf is an entry of the log as the feed's streams have it.
func eventOf(f frame) record {
	if f.change.Type == object.AccessChanged {
		return record{{"type", "resync"}, {"cursor", f.at.String()}}
	}
	o := f.change.Object
	r := record{{"type", string(f.change.Type)}, {"storageKey", o.StorageKey()}, {"path", o.Path}}
	if f.change.Type == object.Changed {
		r = append(r, field{"checksum", o.Checksum}, field{"version", fmt.Sprint(o.Version)})
	}
	return append(r, field{"changedBy", unset(string(f.change.By))}, field{"timestamp", instant(f.change.At)}, field{"cursor", f.at.String()})
}
