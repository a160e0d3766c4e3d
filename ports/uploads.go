package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/upload"
)

// Uploads holds resumable uploads and their parts.
type Uploads interface {
	// Add stores an upload. Conflict if its id is taken or its user has upload.MaxOpen that are open when it is created.
	// A caller holds the Lock of the organisation's log, so that concurrent calls count each other.
	Add(ctx context.Context, o id.Org, u upload.Upload) error
	Get(ctx context.Context, o id.Org, of id.Upload) (upload.Upload, error)
	// Append stores a part and the upload with it, as Appended returns it. Conflict unless the upload is
	// open and has the part's offset, so that of concurrent calls one succeeds.
	Append(ctx context.Context, o id.Org, of id.Upload, p upload.Part) error
	// Parts returns at most limit parts of an upload from the offset on, in their order.
	Parts(ctx context.Context, o id.Org, of id.Upload, from int64, limit int) ([]upload.Part, error)
	// Update locks the upload and stores and returns what fn returns for it.
	Update(ctx context.Context, o id.Org, of id.Upload, fn func(upload.Upload) (upload.Upload, error)) (upload.Upload, error)
	// Sweep removes at most limit uploads of all organisations that expired before the time, with the
	// records of their parts, and returns how many.
	Sweep(ctx context.Context, before time.Time, limit int) (int, error)
}
