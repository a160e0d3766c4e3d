package ports

import (
	"context"
	"io"
	"time"

	"collab/domain/mirror"
	"collab/domain/object"
)

// Disk reads the directory that is synchronised. No method follows symbolic links or leaves the
// directory. Methods fail with NotFound if a file or the directory itself is gone, Forbidden if
// permissions do not allow it, and Unavailable if the file system fails otherwise.
type Disk interface {
	// Identity returns the identity of the directory, such as its device and inode. It changes if
	// another directory takes its place, and is empty if the file system has none. NotFound if the
	// directory is not there.
	Identity(ctx context.Context) (string, error)
	// Rules returns the rules of the directory as they are now.
	Rules(ctx context.Context) (mirror.Rules, error)
	// Scan calls each with the files of the scope by the rules that Rules returned last, which must have
	// been called, in any order, including symbolic links and special files, and with its directories,
	// without the top. Ignored directories are passed as
	// such without what is below, and of the other ignored names of a directory one at least, and all that
	// directories may have, as IgnoredFile. StateDirectory and junk of the system are left out. What cannot be read is
	// passed as Unreadable, and a directory of the scope that does not exist contains nothing. A
	// file whose name and facts are those of known has the checksum that known returns; any other
	// is read, when its times will show every later change: facts that were passed once do not
	// return with another content. A file that changes while it is read is passed as Unreadable.
	// An error of each ends the scan and is returned.
	Scan(ctx context.Context, scope mirror.Scope, known func(name string) (facts mirror.Facts, checksum string, ok bool), each func(mirror.Entry) error) error
	// Open returns the content of a file with the facts of e. Conflict if the file has other
	// facts when it is opened, or, in the place of io.EOF, when all of it was read.
	Open(ctx context.Context, e mirror.Entry) (io.ReadCloser, error)
	// Sync puts the present contents and the paths of files, which programs have written or
	// moved, on stable storage, and returns an error or nil for each. Of a file that is gone, or
	// that something else has taken the place of, it puts on stable storage that it is.
	Sync(ctx context.Context, files ...mirror.Entry) []error
}

// DiskWriter changes the directory that Disk reads. What a method did is on stable storage when
// it returns nil, but for what is staged; when it fails or the machine stops, it did all or nothing. Methods change only
// files that have the facts of the entry that they are given: Conflict otherwise, and if a name
// that must be free is taken. Other errors are as those of Disk, Unavailable also if the disk is
// full.
type DiskWriter interface {
	// Stage cuts the staged content of that name, which is one segment, to offset bytes,
	// appends r to it, and returns the checksum of what is staged then. If r or the disk fails,
	// the bytes appended before are kept, but none if the disk is full. Staged content has no name in the
	// directory, and can be lost or damaged when the machine stops. Conflict if fewer than
	// offset bytes are staged.
	Stage(ctx context.Context, name string, offset int64, r io.Reader) (checksum string, err error)
	// Staged returns how many bytes of a content of that size are staged under the name, 0 if none are. Unavailable if the
	// disk has no room for the others.
	Staged(ctx context.Context, name string, size int64) (int64, error)
	// Place gives staged contents their paths, in their order and each for itself, makes missing
	// directories, and returns a result for each. If its target is nil, the path must be
	// free, else target's content is replaced. Directories in the way that contain nothing
	// but junk of the system are removed; Conflict for others. Directories that exist under
	// another spelling of the same folded form are used as they are.
	Place(ctx context.Context, contents ...mirror.Placement) []mirror.Placed
	// Rename moves files, or directories with what is below, to paths, which must be free unless they are other
	// spellings of the same names, in their order and each for itself, and returns a result for each. It makes missing
	// directories, uses those that exist under another spelling, and removes those above a file's former name that
	// then contain nothing but junk of the system.
	Rename(ctx context.Context, renames ...mirror.Renaming) []mirror.Placed
	// Trash moves files to the trash, out of the directory's names, each for itself, and returns an error or nil for
	// each. It removes the directories above them that then contain nothing but junk of the system, and likewise
	// directories that it is given, with those above.
	Trash(ctx context.Context, files ...mirror.Entry) []error
	// Clean removes staged content that was last written, and trash that was made, before the times. Trash
	// whose day is more than 100 days from the present one counts as made now, as the clock is or was wrong.
	// For the same reason trash is only removed a week after a call that found it nearly as old.
	Clean(ctx context.Context, staged, trash time.Time) error
}

// Watcher says where the directory may have changed.
type Watcher interface {
	// Watch calls changed with what must be scanned, until ctx ends, which is no error. It
	// gathers changes for a short time; a call stands for all that happened before it. The
	// first call is as soon as changes are noticed, with everything. It passes everything also
	// when notifications were lost. limited is empty, or says why some changes are noticed
	// only by scans from time to time. Watch returns an error if the directory cannot be watched at all.
	Watch(ctx context.Context, changed func(scope mirror.Scope, limited string)) error
	// Settle returns true after Watch has passed all that had changed before the call, and false if it cannot
	// tell, as when Watch does not run or limited is not empty. If nothing had changed, nothing is passed.
	Settle(ctx context.Context) bool
}

// MirrorState stores what a client knows of one directory. A method's effect is on stable storage
// when it returns nil. It is open in one process at most.
type MirrorState interface {
	// Binding returns the binding of the directory. NotFound if it is not bound.
	Binding(ctx context.Context) (mirror.Binding, error)
	// Bind stores the binding in the place of an earlier one.
	Bind(ctx context.Context, b mirror.Binding) error
	// Rows calls each with all rows in any order.
	Rows(ctx context.Context, each func(mirror.Row) error) error
	// Cursor returns the place in the log of changes up to which rows are known, the zero
	// value if none is stored.
	Cursor(ctx context.Context) (object.Cursor, error)
	// Put stores rows under their keys in one transaction, and removes those that are empty.
	// If cursor is not nil, it is stored with them.
	Put(ctx context.Context, rows []mirror.Row, cursor *object.Cursor) error
}

// Remote reads the stored objects of the place that a directory is synchronised with. Methods
// fail as the interface does: Unauthenticated if the session has ended, Forbidden if the member
// has lost access, Limited and Unavailable, with RetryAfter if it is known, if the request should
// be repeated later; Unavailable also if the server cannot be reached.
type Remote interface {
	// Limits returns the limits of the server.
	Limits(ctx context.Context) (mirror.Limits, error)
	// Manifest calls each with all records and returns the place in the log of changes that
	// they are of.
	Manifest(ctx context.Context, each func(mirror.Record) error) (object.Cursor, error)
	// Since calls each with the records that changed after the cursor, as they are now, first
	// those of deleted objects, and returns the place in the log up to which it did. A moved
	// object is passed with its new path alone. Gone if the whole manifest must be read.
	Since(ctx context.Context, from object.Cursor, each func(mirror.Record) error) (object.Cursor, error)
	// Watch calls wake after the log of changes has got entries of the place beyond the cursor, or may
	// have, until ctx ends, which is no error.
	Watch(ctx context.Context, after object.Cursor, wake func()) error
	// Download returns the content of an object from the offset on, and the record that it is
	// of. If the object does not have the record's checksum any more, it returns the whole
	// present content with its record. NotFound if there is no such object, or none that the
	// member sees. The reader fails with Unavailable if the content is cut off.
	Download(ctx context.Context, r mirror.Record, offset int64) (now mirror.Record, content io.ReadCloser, err error)
	// DownloadAll calls each, in the order of the records, with the contents of their objects, which
	// are valid until each returns, or with the error of one: Conflict if the object has another
	// version or checksum, TooLarge if it must be downloaded by itself, Internal if the server cannot read
	// its content. It returns an error if it did not call each for all records, Unsupported if
	// the server cannot do this. An error of each ends it and is returned.
	DownloadAll(ctx context.Context, records []mirror.Record, each func(i int, content []byte, err error) error) error
}

// RemoteWriter changes the stored objects of the place that Remote reads. Errors are as those of
// Remote; also Conflict if the object has another version than expected, or the path is taken;
// NotFound if there is no such object, or none that the member sees; Invalid if the path or the
// checksum is refused; TooLarge; Forbidden if the member may not write or there is no room, which
// Limits tells; Limited without RetryAfter if this upload has to wait for others. Unavailable does
// not say whether the change was made.
type RemoteWriter interface {
	// Create stores a new object of size bytes. Content is read once.
	Create(ctx context.Context, path, checksum string, size int64, content io.Reader) (mirror.Record, error)
	// Replace stores content in the place of the version of r. Content is read once.
	Replace(ctx context.Context, r mirror.Record, checksum string, size int64, content io.Reader) (mirror.Record, error)
	// Delete removes the object if it has the version of r.
	Delete(ctx context.Context, r mirror.Record) error
	// Move gives the object another path if it has the version of r. The content is the same.
	Move(ctx context.Context, r mirror.Record, path string) (mirror.Record, error)
	// MoveDirectory moves all objects below a directory to below another one, all or none. It
	// returns Unsupported if the server cannot; they must then be moved singly.
	MoveDirectory(ctx context.Context, from, to string) error
	// Batch makes changes in their order, each for itself, and returns a result for each. An
	// error says that for some it is not known whether they were made; after Unsupported and TooLarge
	// none were, and they must be made singly.
	Batch(ctx context.Context, writes []mirror.Write) ([]mirror.Result, error)
}
