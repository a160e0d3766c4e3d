// Package upload has resumable uploads: content of a stored object that arrives in several
// requests, whose parts are stored one after another and put together at the end.
package upload

import (
	"fmt"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
)

// Bounds of resumable uploads.
const (
	PartSize  = 16 << 20           // of a part at most, in bytes
	MinAppend = 256 << 10          // of what a request appends at least, in bytes, unless it is the end of the content; it bounds the number of parts
	Lifetime  = 7 * 24 * time.Hour // from the creation of an upload with a part
	firstPart = 24 * time.Hour     // from the creation of an upload until its first part
	MaxOpen   = 50                 // uploads of a member that are open
)

// Status is the state of an upload.
type Status string

const (
	Open      Status = "OPEN"
	Completed Status = "COMPLETED" // the object has, or had, the content
	Cancelled Status = "CANCELLED"
)

// Upload is a resumable upload.
type Upload struct {
	ID        id.Upload
	Org       id.Org
	User      id.User       // who created it, and alone has it
	Object    id.Object     // the new object, or that whose content is replaced
	Draft     *object.Draft // of the new object; nil: content is replaced
	MimeType  string        // empty: by the path of a new object, else unchanged
	Expected  *int64        // the stored version, 0 for none; nil: any
	Size      int64         // of the whole content, in bytes
	Checksum  string        // SHA-256 of it, lower-case hexadecimal; empty: stated when the upload is completed
	Offset    int64         // of the content that is stored, in bytes
	CreatedAt time.Time
	ExpiresAt time.Time

	status Status
}

// Part is stored content of an upload.
type Part struct {
	Offset int64 // in the content, in bytes
	Size   int64 // in bytes
	Blob   string
}

// New returns u as a new upload without content.
func New(u Upload, now time.Time) Upload {
	u.Offset, u.CreatedAt, u.ExpiresAt, u.status = 0, now, now.Add(firstPart), Open
	return u
}

// Appended returns the upload with size more bytes at its end.
func (u Upload) Appended(size int64) Upload {
	u.Offset, u.ExpiresAt = u.Offset+size, u.CreatedAt.Add(Lifetime)
	return u
}

// Restore gives a stored upload its status back. Only adapters that read records call it.
func (u Upload) Restore(s Status) Upload {
	u.status = s
	return u
}

func (u Upload) Status() Status { return u.status }

// Exists reports whether requests find the upload at now.
func (u Upload) Exists(now time.Time) bool { return u.status != Cancelled && now.Before(u.ExpiresAt) }

// BlobName returns the name of a blob for the part at the upload's offset. Random makes it unique.
func (u Upload) BlobName(random string) string {
	return fmt.Sprintf("%s/uploads/%s/%d-%s", u.Org, u.ID, u.Offset, random)
}

// CheckAppend returns an error unless a request may append at the offset: Conflict if the upload has
// another one or is not open, Invalid if length, which is negative if unknown, is too long, too short
// for last, which is the end of the content, or less than least for any other request.
func (u Upload) CheckAppend(offset, length int64, last bool, least int64) error {
	end := offset + length
	switch {
	case u.status != Open:
		return fault.New(fault.Conflict, "The upload is complete")
	case offset != u.Offset:
		return fault.New(fault.Conflict, "The upload has %d bytes: continue there", u.Offset)
	case length < 0:
		return nil
	case end > u.Size, last && end != u.Size:
		return fault.Field("Upload-Length", "is %d, and this request ends at %d", u.Size, end)
	case length > 0:
		return u.CheckLength(offset, length, least)
	}
	return nil
}

// CheckLength returns Invalid if length bytes from an offset on are less than least and do not reach the end
// of the content.
func (u Upload) CheckLength(offset, length, least int64) error {
	if length < least && offset+length < u.Size {
		return fault.New(fault.Invalid, "A request must append at least %d bytes, or the rest", least)
	}
	return nil
}

// Complete returns the upload as completed. Conflict if it is not open or not whole.
func (u Upload) Complete() (Upload, error) {
	if u.status != Open || u.Offset != u.Size {
		return u, fault.New(fault.Conflict, "The upload is %d of %d bytes long and %s", u.Offset, u.Size, u.status)
	}
	u.status = Completed
	return u, nil
}

// Cancel returns the upload as cancelled at now. Conflict if it is not open.
func (u Upload) Cancel(now time.Time) (Upload, error) {
	if u.status != Open {
		return u, fault.New(fault.Conflict, "The upload is complete")
	}
	u.status, u.ExpiresAt = Cancelled, now
	return u, nil
}
