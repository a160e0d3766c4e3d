package ports

import (
	"context"
	"io"
	"time"

	"collab/domain/archive"
	"collab/domain/export"
	"collab/domain/id"
	"collab/domain/object"
)

// Snapshots reads all records of an organisation.
type Snapshots interface {
	// Export calls each with every record of an organisation as of one moment: kind by kind in
	// the order of archive.Kinds, and the records of a kind in the order of creation or of their
	// keys, so that it is the same every time. Files are in the order of their storage keys,
	// changes of a task in that of its history. Removed members, revoked invitations, secrets and
	// the log of changes are left out. NotFound for an organisation that does not exist or is
	// closed. An error of each ends it and is returned.
	Export(ctx context.Context, o id.Org, each func(archive.Record) error) error
}

// Exports holds the exports that members asked for.
type Exports interface {
	// Add stores an export; Conflict if its id is taken or another one of the organisation is open.
	Add(ctx context.Context, o id.Org, e export.Export) error
	Get(ctx context.Context, o id.Org, of id.Export) (export.Export, error)
	// List returns the exports of the organisation, the newest first (CreatedAt, then id, both
	// descending).
	List(ctx context.Context, o id.Org) ([]export.Export, error)
	// Update locks the export and stores and returns what fn returns for it.
	Update(ctx context.Context, o id.Org, of id.Export, fn func(export.Export) (export.Export, error)) (export.Export, error)
	// Claim locks the export, of any organisation, that has been due for longest at now, and stores
	// and returns what fn returns for it. NotFound if none is due. Of concurrent calls for the same
	// export one gets it.
	Claim(ctx context.Context, now time.Time, fn func(export.Export) (export.Export, error)) (export.Export, error)
	// Prune removes the exports of all organisations that are not open and were created before the
	// time.
	Prune(ctx context.Context, before time.Time) error
}

// Archiver writes and reads archives.
type Archiver interface {
	// Pack writes an archive to w. It calls records once, which calls each with the selected
	// records, in the order of archive.Kinds; then the contents that open returns of the files
	// among them. It sets the parts and counts of m and returns it. Progress is called after each
	// content with the number of contents and bytes so far. Records are kept on the disk until
	// they are written, and a bounded part of them in memory.
	Pack(ctx context.Context, w io.Writer, m archive.Manifest, records func(each func(archive.Record) error) error,
		open func(context.Context, object.Object) (io.ReadCloser, error), progress func(contents, bytes int64)) (archive.Manifest, error)
	// Read reads an archive and calls each with its items in their order. Records are valid by
	// themselves; what they refer to is not checked. If Read returns nil, the archive is complete
	// and what it has is as its manifest says, except contents that each did not read. Invalid
	// names the file and line of what is wrong. An error of each ends it and is returned. If only is
	// not empty, records of other kinds are skipped unread.
	Read(ctx context.Context, r io.Reader, only archive.Kind, each func(archive.Item) error) error
}
