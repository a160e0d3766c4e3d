package memory

import (
	"cmp"
	"context"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/upload"
	"collab/ports"
)

type uploads struct{ run runner }

func (r records) Uploads() ports.Uploads { return uploads{r.run} }

// uploadPart is a part of an upload.
type uploadPart struct {
	uploadID id.Upload
	upload.Part
}

// partKey identifies a part by its offset in the upload.
type partKey struct {
	uploadID id.Upload
	offset   int64
}

// openUploads returns the open uploads of a user, or of all if user is empty, that expire after a time.
func (t *tenant) openUploads(user id.User, after time.Time) []upload.Upload {
	return t.Uploads.list(func(u upload.Upload) bool {
		return u.Status() == upload.Open && (user == "" || u.User == user) && u.ExpiresAt.After(after)
	}, func(a, b upload.Upload) int { return cmp.Compare(a.ID, b.ID) }, 0)
}

func (q uploads) Add(_ context.Context, o id.Org, u upload.Upload) error {
	return q.run.in(o, func(x *tx, t *tenant) error {
		if len(t.openUploads(u.User, u.CreatedAt)) >= upload.MaxOpen {
			return t.Uploads.errTaken()
		}
		return t.Uploads.add(x, u.ID, u)
	})
}

func (q uploads) Get(_ context.Context, o id.Org, uploadID id.Upload) (upload.Upload, error) {
	return result(q.run, func(x *tx) (upload.Upload, error) { return x.tenant(o).Uploads.get(uploadID) })
}

func (q uploads) Append(_ context.Context, o id.Org, uploadID id.Upload, p upload.Part) error {
	return q.run(func(x *tx) error {
		t := x.tenant(o)
		_, err := t.Uploads.update(x, uploadID, func(u upload.Upload) (upload.Upload, error) {
			if u.Status() != upload.Open || u.Offset != p.Offset {
				return u, fault.New(fault.Conflict, "Upload has another offset")
			}
			return u.Appended(p.Size), nil
		})
		if err == nil {
			t.UploadParts.put(x, partKey{uploadID, p.Offset}, uploadPart{uploadID, p})
		}
		return err
	})
}

func (q uploads) Parts(_ context.Context, o id.Org, uploadID id.Upload, from int64, limit int) ([]upload.Part, error) {
	return result(q.run, func(x *tx) (parts []upload.Part, err error) {
		for _, p := range x.tenant(o).UploadParts.list(func(p uploadPart) bool {
			return p.uploadID == uploadID && p.Offset >= from
		}, func(a, b uploadPart) int {
			return cmp.Compare(a.Offset, b.Offset)
		}, limit) {
			parts = append(parts, p.Part)
		}
		return parts, nil
	})
}

func (q uploads) Update(_ context.Context, o id.Org, uploadID id.Upload, fn func(upload.Upload) (upload.Upload, error)) (upload.Upload, error) {
	return result(q.run, func(x *tx) (upload.Upload, error) { return x.tenant(o).Uploads.update(x, uploadID, fn) })
}

func (q uploads) Sweep(_ context.Context, before time.Time, limit int) (n int, err error) {
	err = q.run.do(func(x *tx) {
		for _, t := range x.Tenants.rows {
			for key, u := range t.Uploads.rows {
				if n < limit && u.ExpiresAt.Before(before) {
					n++
					t.Uploads.remove(x, key)
					t.UploadParts.removeWhere(x, func(p uploadPart) bool { return p.uploadID == key })
				}
			}
		}
	})
	return n, err
}

func (s storage) OpenUploads(_ context.Context, o id.Org, user id.User, now time.Time) ([]upload.Upload, error) {
	return result(s.run, func(x *tx) ([]upload.Upload, error) { return x.tenant(o).openUploads(user, now), nil })
}

func (s storage) CancelUploads(_ context.Context, o id.Org, user id.User, now time.Time) error {
	return s.run(func(x *tx) error {
		t := x.tenant(o)
		for _, u := range t.openUploads(user, time.Time{}) {
			if _, err := t.Uploads.update(x, u.ID, func(u upload.Upload) (upload.Upload, error) { return u.Cancel(now) }); err != nil {
				return err
			}
			for _, p := range t.UploadParts.rows {
				if p.uploadID == u.ID {
					x.discard(o, p.Blob, now)
				}
			}
		}
		return nil
	})
}
