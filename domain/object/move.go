package object

import (
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
)

// Limits of objects that are moved together.
const (
	MaxMoved      = 10_000
	MaxMovedPaths = 2 << 20 // bytes of their paths, before and after
)

// Moved returns the object at another path of its place, moved by the actor at now, with the next
// version and its content as it was. At its own path it is returned unchanged. Invalid for a path that
// none can have, Conflict for a document and for the path of one.
func (o Object) Moved(path string, actor org.Actor, now time.Time) (Object, error) {
	return o.moved("path", path, actor.User, now)
}

// moved is Moved for a user.
func (o Object) moved(field, path string, by id.User, now time.Time) (Object, error) {
	path, err := ParsePath(field, path)
	if err != nil {
		return o, err
	}
	for _, doc := range documents {
		if doc.is(o) {
			return o, fault.New(fault.Conflict, "%s is a document, which stays at its path", o.Path)
		}
	}
	if path == o.Path {
		return o, nil
	}
	moved := o
	moved.Path, moved.UpdatedBy, moved.UpdatedAt = path, by, now
	moved.Version++
	return moved, moved.checkDocuments()
}

// PathTaken returns the Conflict of a path that another object has, or that is a folder, or that lies
// below an object.
func PathTaken(path string) error { return fault.New(fault.Conflict, "The path %s is taken", path) }

// FolderMove is the move of all objects of a place below one folder to below another. Of a personal
// folder, which has objects of all kinds, those of one kind are moved.
type FolderMove struct {
	folder Object // without its last slash
	depth  int    // the number of the folder's segments
	to     string
	by     id.User
	at     time.Time
}

// NewFolderMove returns the move of the folder from to the folder to, in the place of d, whose other
// fields do not count. Invalid for a place that the actor does not see, for paths that no object can
// have, and if to lies in from.
func NewFolderMove(actor org.Actor, d Draft, from, to string, now time.Time) (m FolderMove, err error) {
	if from, err = ParsePath("from", from); err != nil {
		return m, err
	}
	if to, err = ParsePath("to", to); err != nil {
		return m, err
	}
	p := d.place(actor)
	if err := p.checkFor(actor); err != nil {
		return m, err
	}
	if strings.HasPrefix(Fold(to), Fold(from)+"/") {
		return m, fault.Field("to", "must not lie in the folder that is moved")
	}
	folder := Object{Org: actor.Org, Place: p, Path: from}
	return FolderMove{folder, 1 + strings.Count(from, "/"), to, actor.User, now}, nil
}

// Filter selects the objects that are moved, and one more than may be.
func (m FolderMove) Filter() Filter {
	return Filter{Kind: m.folder.Kind, Folder: Fold(m.folder.StorageKey()), Limit: MaxMoved + 1}
}

// Moved returns an object of the folder at its new path, see Object.Moved.
func (m FolderMove) Moved(o Object) (Object, error) {
	rest := o.Path
	for range m.depth { // the object's path may have other letters than the folder's, which are as many segments
		_, rest, _ = strings.Cut(rest, "/")
	}
	return o.moved("to", m.to+"/"+rest, m.by, m.at)
}
