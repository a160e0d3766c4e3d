package gormdb

import (
	"context"
	"time"

	"gorm.io/gorm"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/upload"
	"collab/ports"
)

type uploadRow struct {
	OrgID     id.Org    `gorm:"primaryKey"`
	ID        id.Upload `gorm:"primaryKey"`
	UserID    id.User   `gorm:"<-:create"`
	Status    upload.Status
	ObjectID  id.Object `gorm:"<-:create"`
	Draft     *draftRow `gorm:"serializer:json;<-:create"`
	MimeType  string    `gorm:"<-:create"`
	Expected  *int64    `gorm:"<-:create"`
	Size      int64     `gorm:"<-:create"`
	Checksum  string
	Offset    int64     `gorm:"column:received"`
	CreatedAt time.Time `gorm:"<-:create"`
	ExpiresAt time.Time
}

// draftRow is an object.Draft in an upload.
type draftRow struct {
	Path      string        `json:"path"`
	Kind      object.Kind   `json:"kind"`
	Scope     object.Scope  `json:"scope"`
	Workspace *id.Workspace `json:"workspace,omitempty"`
	Team      *id.Team      `json:"team,omitempty"`
	MimeType  string        `json:"mimeType,omitempty"`
}

var uploadTable = tenant[uploadRow]("uploads", "Upload")

func rowOfUpload(u upload.Upload) *uploadRow {
	return &uploadRow{
		OrgID: u.Org, ID: u.ID, UserID: u.User, Status: u.Status(), ObjectID: u.Object, Draft: (*draftRow)(u.Draft),
		MimeType: u.MimeType, Expected: u.Expected, Size: u.Size, Checksum: u.Checksum, Offset: u.Offset,
		CreatedAt: u.CreatedAt, ExpiresAt: u.ExpiresAt,
	}
}

func (r *uploadRow) upload() (upload.Upload, error) {
	return upload.Upload{
		ID: r.ID, Org: r.OrgID, User: r.UserID, Object: r.ObjectID, Draft: (*object.Draft)(r.Draft),
		MimeType: r.MimeType, Expected: r.Expected, Size: r.Size, Checksum: r.Checksum, Offset: r.Offset,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}.Restore(r.Status), nil
}

type uploadPartRow struct {
	OrgID    id.Org    `gorm:"primaryKey"`
	UploadID id.Upload `gorm:"primaryKey"`
	Offset   int64     `gorm:"column:first_byte;primaryKey"`
	Size     int64
	Blob     string
}

var uploadPartTable = tenant[uploadPartRow]("upload_parts", "Part")

func (r *uploadPartRow) part() (upload.Part, error) {
	return upload.Part{Offset: r.Offset, Size: r.Size, Blob: r.Blob}, nil
}

// openOfUser is the condition of a user's open uploads, those that expired and were not swept included.
const openOfUser = "user_id = ? AND status = 'OPEN'"

// openUploads selects the uploads of a user that are open at now.
func openUploads(db *gorm.DB, o id.Org, user id.User, now time.Time) selection {
	return uploadTable.of(db, o).filter(openOfUser+" AND expires_at > ?", string(user), now.UnixMilli())
}

type uploads struct{ *conn }

func (g group) Uploads() ports.Uploads { return uploads(g) }

func (q uploads) Add(ctx context.Context, o id.Org, u upload.Upload) error {
	return q.atomic(ctx, func(c *conn) error {
		open, err := openUploads(c.write, o, u.User, u.CreatedAt).count(ctx)
		if err == nil && open >= upload.MaxOpen {
			err = fault.New(fault.Conflict, "The user has %d open uploads", open)
		}
		if err != nil {
			return err
		}
		return uploadTable.of(c.write, o).add(ctx, rowOfUpload(u))
	})
}

func (q uploads) Get(ctx context.Context, o id.Org, uploadID id.Upload) (upload.Upload, error) {
	return get(ctx, uploadTable.of(q.read, o).key(string(uploadID)), (*uploadRow).upload)
}

// Append compares and advances the offset in one statement, which locks the row.
func (q uploads) Append(ctx context.Context, o id.Org, uploadID id.Upload, p upload.Part) error {
	return q.atomic(ctx, func(c *conn) error {
		s := uploadTable.of(c.write, o).key(string(uploadID))
		n, err := s.filter("status = 'OPEN' AND received = ?", p.Offset).
			set(ctx, "received = received + ?, expires_at = created_at + ?", p.Size, upload.Lifetime.Milliseconds())
		if err == nil && n == 0 {
			if _, err = get(ctx, s, (*uploadRow).upload); err == nil {
				err = fault.New(fault.Conflict, "Upload has another offset")
			}
		}
		if err != nil {
			return err
		}
		part := &uploadPartRow{UploadID: uploadID, Offset: p.Offset, Size: p.Size, Blob: p.Blob}
		return uploadPartTable.of(c.write, o).add(ctx, part)
	})
}

func (q uploads) Parts(ctx context.Context, o id.Org, uploadID id.Upload, from int64, limit int) ([]upload.Part, error) {
	s := uploadPartTable.of(q.read, o).filter("upload_id = ? AND first_byte >= ?", string(uploadID), from)
	return all(ctx, s.page("first_byte", limit), (*uploadPartRow).part)
}

func (q uploads) Update(
	ctx context.Context, o id.Org, uploadID id.Upload, fn func(upload.Upload) (upload.Upload, error),
) (upload.Upload, error) {
	return update(ctx, q.conn, uploadTable.of(q.write, o).key(string(uploadID)), (*uploadRow).upload, rowOfUpload, fn)
}

// Sweep skips uploads that are in use or swept concurrently.
func (q uploads) Sweep(ctx context.Context, before time.Time, limit int) (int, error) {
	return atomically(ctx, q.conn, func(c *conn) (int, error) {
		expired := uploadTable.crossTenant(c.write, crossTenantUploads).filter("expires_at < ?", before.UnixMilli())
		old, err := all(ctx, expired.claim("expires_at", limit), (*uploadRow).upload)
		for n := 0; n < len(old) && err == nil; n++ {
			err = uploadTable.of(c.write, old[n].Org).key(string(old[n].ID)).delete(ctx)
		}
		return len(old), err
	})
}

func (s storage) OpenUploads(ctx context.Context, o id.Org, user id.User, now time.Time) ([]upload.Upload, error) {
	return all(ctx, openUploads(s.read, o, user, now).page("id", upload.MaxOpen), (*uploadRow).upload)
}

// CancelUploads selects the parts of earlier cancelled uploads too, whose names are discarded already.
func (s storage) CancelUploads(ctx context.Context, o id.Org, user id.User, now time.Time) error {
	return s.atomic(ctx, func(c *conn) error {
		n, err := uploadTable.of(c.write, o).filter(openOfUser, string(user)).
			set(ctx, "status = ?, expires_at = ?", upload.Cancelled, now.UnixMilli())
		if err != nil || n == 0 {
			return err
		}
		cancelled := uploadTable.of(c.write, o).filter("user_id = ? AND status = 'CANCELLED'", string(user)).read("id")
		parts := uploadPartTable.of(c.write, o).in("upload_id", cancelled).read("blob")
		_, err = blobNameTable.of(c.write, o).filter("is_discarded AND at > ?", now.UnixMilli()).in("name", parts).
			set(ctx, "at = ?", now.UnixMilli())
		return err
	})
}
