package object

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/words"
)

// maxMimeType is the longest media type, in bytes.
const maxMimeType = 255

// Object is the record of a stored object, without the content.
type Object struct {
	Place
	ID        id.Object
	Org       id.Org
	Path      string // logical, below the place's folder; composed (NFC)
	MimeType  string
	Version   int64 // 1 for the first content, or more for a memory that is written again; then one more for each content and each move
	CreatedBy id.User
	UpdatedBy id.User
	CreatedAt time.Time
	UpdatedAt time.Time
	Content

	// N is the number of the object's last change in the organisation's log.
	N int64
}

// Content describes an object's content.
type Content struct {
	Blob     string // the blob's name
	Size     int64  // in bytes
	Checksum string // SHA-256, lower-case hexadecimal
	Text     bool   // all of it is valid UTF-8
}

// Draft has the fields of a new object.
type Draft struct {
	Path      string
	Kind      Kind
	Scope     Scope
	Workspace *id.Workspace
	Team      *id.Team
	MimeType  string // empty: that of the path's extension
}

// place returns the place of the draft's object, which the actor makes.
func (d Draft) place(actor org.Actor) Place {
	p := Place{Kind: d.Kind, Scope: d.Scope, Workspace: d.Workspace, Team: d.Team}
	if d.Scope == Personal {
		p.Owner = &actor.User
	}
	return p
}

// New returns an object of the actor without content. Invalid for a place that the actor
// does not see, Conflict for a path that belongs to a document.
func New(objectID id.Object, actor org.Actor, d Draft) (Object, error) {
	path, err := ParsePath("path", d.Path)
	if err != nil {
		return Object{}, err
	}
	o := Object{ID: objectID, Org: actor.Org, Path: path, Place: d.place(actor)}
	if err := o.Place.checkFor(actor); err != nil {
		return Object{}, err
	}
	if o.MimeType, err = mimeType(d.MimeType, path); err != nil {
		return Object{}, err
	}
	return o, o.checkDocuments()
}

// checkDocuments returns a Conflict if the object lies at the key of a document, or below it, where the
// document could not be stored.
func (o Object) checkDocuments() error {
	top, _, _ := strings.Cut(o.Path, "/")
	for _, doc := range documents {
		if doc.isIn(o.Place) && Fold(top) == Fold(doc.Path) {
			return fault.New(fault.Conflict, "The path %s is a document's, which is stored through its own endpoint", o.Path)
		}
	}
	return nil
}

func mimeType(given, path string) (string, error) {
	if given == "" {
		return mimeTypeOf(path), nil
	}
	media, _, err := mime.ParseMediaType(given)
	if err != nil || !strings.Contains(media, "/") || len(given) > maxMimeType || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fault.Field("mimeType", "must be a media type such as text/markdown, of at most %d characters", maxMimeType)
	}
	return given, nil
}

// StorageKey returns the object's key, which changes only when the object is moved.
func (o Object) StorageKey() string { return o.keyPrefix(o.Org) + o.Path }

// BlobName returns the name of the next content's blob. random makes it unique,
// so that it is never reused. It begins with the present storage key, for people who look at the store;
// it stays when the object is moved. The path's hash replaces a path that makes the
// name too long for a store.
func (o Object) BlobName(random string) string {
	suffix := "@" + strconv.FormatInt(o.Version+1, 10) + "-" + random
	name := o.StorageKey() + suffix
	if len(name)-strings.LastIndexByte(name, '/')-1 <= MaxSegment && len(name) <= MaxPath {
		return name
	}
	hash := sha256.Sum256([]byte(o.Path))
	return o.keyPrefix(o.Org) + hex.EncodeToString(hash[:]) + suffix
}

// WithContent returns the object with its next content, written by the user at now.
func (o Object) WithContent(c Content, by id.User, now time.Time) Object {
	if o.Version == 0 {
		o.CreatedBy, o.CreatedAt = by, now
	}
	o.Version++
	o.Content, o.UpdatedBy, o.UpdatedAt = c, by, now
	return o
}

// WithMimeType returns the object with another media type; an empty one changes nothing.
func (o Object) WithMimeType(mime string) (Object, error) {
	if mime == "" {
		return o, nil
	}
	var err error
	o.MimeType, err = mimeType(mime, o.Path)
	return o, err
}

// Expected versions of writes that name none.
const (
	WeakVersion int64 = -1 // of a client that sent a weak entity tag; it is never stored
	AnyVersion  int64 = -2 // any that is stored
)

// CheckVersion returns a Conflict unless version is nil, the stored version, which is 0
// if nothing is stored, or AnyVersion and something is.
func (o Object) CheckVersion(version *int64) error {
	if version == nil || *version == o.Version || *version == AnyVersion && o.Version > 0 {
		return nil
	}
	expected := fmt.Sprintf("version %d was expected", *version)
	switch *version {
	case WeakVersion:
		expected = "a weak entity tag names no version for certain"
	case AnyVersion:
		expected = "any version was expected"
	}
	if o.Version == 0 {
		return fault.New(fault.Conflict, "Version conflict: %s, and nothing is stored", expected)
	}
	return fault.New(fault.Conflict, "Version conflict: %s, and version %d is stored", expected, o.Version)
}

// VisibleTo reports whether the actor, of the same organisation, sees the
// object.
func (p Place) VisibleTo(a org.Actor) bool {
	switch {
	case p.Scope == Personal:
		return p.Owner != nil && *p.Owner == a.User
	case p.Workspace != nil:
		return a.SeesWorkspace(*p.Workspace)
	case p.Team != nil:
		return a.SeesTeam(*p.Team)
	}
	return true
}

// CheckReplace returns a Conflict if the object is a JSON document, which is replaced
// through its own endpoint only.
func (o Object) CheckReplace() error {
	for _, doc := range documents {
		if doc.isJSON() && doc.is(o) {
			return fault.New(fault.Conflict, "%s is a document, which is stored through its own endpoint", o.Path)
		}
	}
	return nil
}

// Document is an object that has an endpoint of its own.
type Document struct {
	Path  string
	Scope Scope
}

// The documents. A personal one exists once for each member, a shared one once
// for each organisation.
var (
	Profile       = Document{"profile.json", Personal}
	UserMemory    = Document{"user-memory.md", Personal}
	OrgOnboarding = Document{"org.json", Shared}
	OrgMemory     = Document{"org-memory.md", Shared}
)

var documents = []Document{Profile, UserMemory, OrgOnboarding, OrgMemory}

// Object returns the document as an object of the actor without content.
func (d Document) Object(objectID id.Object, actor org.Actor) Object {
	place := Draft{Kind: HubMemory, Scope: d.Scope}.place(actor)
	return Object{ID: objectID, Org: actor.Org, Path: d.Path, MimeType: mimeTypeOf(d.Path), Place: place}
}

// isJSON reports whether the document's content is a JSON object.
func (d Document) isJSON() bool { return strings.HasSuffix(d.Path, ".json") }

func (d Document) is(o Object) bool { return o.Path == d.Path && d.isIn(o.Place) }

// isIn reports whether the document's key begins with that of the place, which the member or the organisation has.
func (d Document) isIn(p Place) bool {
	return p.Scope == d.Scope && (d.Scope == Personal || p.Kind == HubMemory)
}

// Memory returns a workspace's memory file as an object of the actor without content.
func Memory(objectID id.Object, actor org.Actor, w id.Workspace, fileName string) (Object, error) {
	if strings.Contains(fileName, "/") {
		return Object{}, fault.Field("fileName", "must be one segment")
	}
	path, err := ParsePath("fileName", fileName)
	if err != nil {
		return Object{}, err
	}
	if !actor.SeesWorkspace(w) {
		return Object{}, fault.Missing("Workspace")
	}
	return Object{
		ID: objectID, Org: actor.Org, Path: path, MimeType: mimeTypeOf(path),
		Place: Place{Kind: WorkspaceMemory, Scope: Shared, Workspace: &w},
	}, nil
}

// Filter selects objects; all conditions must hold. The zero value selects all.
type Filter struct {
	Kind             Kind  // empty: any
	Scope            Scope // empty: any
	Workspace        id.Workspace
	WithoutWorkspace bool // in no workspace
	Team             id.Team
	Owner            id.User
	Prefix           string   // of the storage key, without a leading slash
	Folder           string   // the folded storage key of a folder that the objects lie in
	After            string   // only storage keys after this one, for paging
	Limit            int      // at most so many; 0: all
	Words            []string // folded; each is in the folded path
	ExamineLimit     int      // with words: at most so many objects that meet the other conditions are examined; 0: all
}

// MaxExamined is how many files a search examines.
const MaxExamined = 100_000

// Selects reports whether the filter selects the object. Adapters express the
// same in SQL; the contract suite compares them.
func (f Filter) Selects(o Object) bool {
	key := o.StorageKey()
	return (f.Kind == "" || o.Kind == f.Kind) &&
		(f.Scope == "" || o.Scope == f.Scope) &&
		(f.Workspace == "" || o.Workspace != nil && *o.Workspace == f.Workspace) &&
		(!f.WithoutWorkspace || o.Workspace == nil) &&
		(f.Team == "" || o.Team != nil && *o.Team == f.Team) &&
		(f.Owner == "" || o.Owner != nil && *o.Owner == f.Owner) &&
		strings.HasPrefix(key, f.Prefix) && key > f.After &&
		(f.Folder == "" || strings.HasPrefix(Fold(key), f.Folder+"/")) &&
		f.HasWords(o)
}

// HasWords reports whether all words of the filter are in the object's path.
func (f Filter) HasWords(o Object) bool {
	return words.In(o.Path, f.Words)
}

// ParseChecksum returns a SHA-256 in the form in which it is kept.
func ParseChecksum(s string) (string, error) {
	sum, err := hex.DecodeString(s)
	if err != nil || len(sum) != sha256.Size {
		return "", fault.Field("checksum", "must be a SHA-256 in hexadecimal")
	}
	return strings.ToLower(s), nil
}

// String names the object in the log, without its path.
func (o Object) String() string { return fmt.Sprintf("object %s version %d", o.ID, o.Version) }
