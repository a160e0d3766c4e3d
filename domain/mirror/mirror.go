// Package mirror has the rules by which a directory and a place of stored objects are kept the
// same in both directions: the trees that are compared, the plan that follows from them, the
// names of conflict copies, and the guards that stop deletions. Checksums decide what is equal;
// times decide nothing.
package mirror

import (
	"slices"
	"strings"

	"collab/domain/id"
	"collab/domain/object"
)

// StateDirectory is the directory at the top of a synchronised one that holds the client's own
// files. It is never synchronised.
const StateDirectory = ".collab"

// IgnoreFile is the file at the top with the patterns of ignored files. It is synchronised as others are.
const IgnoreFile = ".collabignore"

// MaxIgnore is how many bytes IgnoreFile may have. A larger one of the server is held.
const MaxIgnore = 1 << 20

// IsState reports whether a path, or the key of a row, is that of StateDirectory or below it.
func IsState(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	return KeyOf(top) == KeyOf(StateDirectory)
}

// EntryKind is what a name in a directory is.
type EntryKind uint8

// The kinds. Of an unreadable file nothing is known, and of an unreadable directory neither what
// is in it nor what is below it.
const (
	File EntryKind = iota
	Directory
	Symlink
	Special // a device, socket or pipe
	Unreadable
	IgnoredDirectory // with what is below
	IgnoredFile      // or another name that is no directory; there may be more in its directory, which no directory may have
)

// Facts are what a file system says of a file without reading it. Two equal values mean that the
// file was probably not changed.
type Facts struct {
	Size       int64  // in bytes
	ModTime    int64  // in nanoseconds since 1970
	ChangeTime int64  // of the inode, in nanoseconds since 1970; 0 if unknown
	Inode      uint64 // 0 if unknown
}

// Entry is a name in the directory, as a scan found it.
type Entry struct {
	Path     string // relative, / between segments, in composed form (NFC)
	Name     string // the same as the file system has it, which may be decomposed
	Kind     EntryKind
	Facts    Facts
	Checksum string // of a file: SHA-256, lower-case hexadecimal
}

// Record is a stored object, as far as a client needs it. Records with an empty ID stand for
// nothing.
type Record struct {
	ID       id.Object
	Path     string
	Version  int64
	Checksum string // SHA-256, lower-case hexadecimal
	Size     int64  // in bytes
	Deleted  bool   // in a list of changes: the object is gone
}

// Synced is what a file was when directory and server last agreed on it.
type Synced struct {
	ID       id.Object
	Version  int64
	Checksum string
	Path     string // the server's
	Name     string // the directory's, as Entry.Path
}

// NewSynced returns what a file is when the server's record and the directory's file of that name agree.
func NewSynced(r Record, name string) *Synced {
	return &Synced{ID: r.ID, Version: r.Version, Checksum: r.Checksum, Path: r.Path, Name: name}
}

// Row is what is known of the files whose paths have one folded form. Each part is nil if there
// is no such file. The parts are never changed, but replaced.
type Row struct {
	Key    string // object.Fold of the path
	Synced *Synced
	Remote *Record
	Local  *Entry
	// Missing says that the whole manifest, rather than a deletion, showed that the server no
	// longer has the file.
	Missing bool
}

// Empty reports whether the row says nothing.
func (r Row) Empty() bool { return r.Synced == nil && r.Remote == nil && r.Local == nil }

// Agreed reports whether both sides have the file with the content on which they agree.
func (r Row) Agreed() bool {
	return r.Synced != nil && r.Remote != nil && r.Local != nil && r.Synced.Checksum == r.Remote.Checksum && r.Synced.Checksum == r.Local.Checksum
}

// KeyOf returns the key of the row that a path belongs to.
func KeyOf(path string) string { return object.Fold(path) }

// Scope is the part of a directory that a scan reads. Directories are named as
// Entry.Path; the top is the empty string.
type Scope struct {
	Directories []string // the names in these, without what is below
	Trees       []string // these with everything below
}

// Everything is the whole directory.
func Everything() Scope { return Scope{Trees: []string{""}} }

// Whole reports whether the scope is the whole directory.
func (s Scope) Whole() bool { return slices.Contains(s.Trees, "") }

// Empty reports whether nothing is to be read.
func (s Scope) Empty() bool { return len(s.Directories) == 0 && len(s.Trees) == 0 }

// Add returns the scope with the parts of another.
func (s Scope) Add(other Scope) Scope {
	join := func(a, b []string) []string {
		joined := slices.Concat(a, b)
		slices.Sort(joined)
		return slices.Compact(joined)
	}
	switch {
	case other.Empty():
		return s
	case s.Whole() || other.Whole():
		return Everything()
	}
	return Scope{join(s.Directories, other.Directories), join(s.Trees, other.Trees)}
}

// Rules are which paths a directory takes no part in.
type Rules struct {
	// Hash identifies the patterns of ignored files. It changes when they do.
	Hash string
	// Ignored reports whether a file, with its path in composed form, is neither uploaded,
	// downloaded nor removed.
	Ignored func(path string) bool
	// Refused returns why the file system cannot have a file of that path, empty if it can.
	Refused func(path string) string
}

// Binding is the place with which a directory is synchronised, and the state of its guard.
type Binding struct {
	Server string // the address
	Org    id.Org
	User   id.User
	Place  string // kind, scope, workspace and team, as the client writes them
	Root   string // the directory's identity
	Ignore string // Rules.Hash
	Window DeletionWindow
}

// Placement is staged content and the path that it is to get.
type Placement struct {
	Name   string // of the staged content
	Path   string
	Target *Entry // the file that is replaced, nil for none
}

// Renaming is a file or directory and the path that it is to get.
type Renaming struct {
	Entry Entry
	Path  string
}

// Placed is what became of a Placement or a Renaming.
type Placed struct {
	Entry Entry // as a scan would find it; with the checksum of a Renaming, else without one
	Err   error
}

// Limits are what the server accepts.
type Limits struct {
	MaxFile       int64 // bytes of a file
	BatchFiles    int   // operations of a batch; 0 or 1: the server has no batches
	BatchBytes    int64 // bytes of all contents of a batch
	BatchFileSize int64 // bytes of one content in a batch
	ReadFiles     int   // files whose contents one request gets; 0 or 1: the server has no such requests
	ReadBytes     int64 // bytes of all their contents
	ReadFileSize  int64 // bytes of one of them
	Stored        int64 // bytes that the organisation stores
	Reserved      int64 // bytes that its open uploads are to store
	Reserving     int64 // from so many bytes on, an upload needs room beside Reserved, and reserves it; 0: never
	Storage       int64 // bytes that it may store; 0: any number
	ReadOnly      bool  // the member may not change files
}

// Reserves reports whether an upload of so many bytes reserves room for them.
func (l Limits) Reserves(size int64) bool { return l.Reserving > 0 && size >= l.Reserving }

// Room reports whether the organisation may store size bytes in the place of others, replaced of them.
func (l Limits) Room(size, replaced int64) bool {
	growth := size - replaced
	if l.Reserves(size) {
		growth += l.Reserved
	}
	return l.Storage == 0 || growth <= 0 || l.Stored+growth <= l.Storage
}

// Write is one change of the server in a batch: a new file if ID is empty, a move if Move is set,
// a deletion if Delete is set, else a replacement.
type Write struct {
	ID       id.Object
	Path     string // of a new file or, of a move, where to
	Version  int64  // the expected one, unless the file is new
	Checksum string // of the content
	Content  []byte
	Delete   bool
	Move     bool
}

// Result is what became of a Write.
type Result struct {
	Record Record // as it is now; of a deletion empty
	Err    error  // as from the method for a single one
}
