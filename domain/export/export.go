// Package export has the lifecycle of a member's request for an archive of the organisation:
// pending, running on a server that has claimed it, and then ready until it expires, or failed.
package export

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// Bounds of exports.
const (
	ClaimDuration = time.Minute         // of a server's claim, which it extends while it works
	ExtendEvery   = 15 * time.Second    // between the extensions of a claim
	MaxAttempts   = 3                   // to make the archive
	retryAfter    = time.Minute         // after a failure
	MaxPerDay     = 10                  // exports of an organisation in 24 hours
	Retention     = 30 * 24 * time.Hour // how long the record of an export is kept
)

// Status is the state of an export.
type Status string

// The statuses. Expired is never stored: it is Ready read after its time.
const (
	Pending Status = "PENDING"
	Running Status = "RUNNING"
	Ready   Status = "READY"
	Failed  Status = "FAILED"
	Expired Status = "EXPIRED"
)

// Export is a member's request for an archive of the organisation as the member sees it.
type Export struct {
	ID        id.Export
	Org       id.Org
	User      id.User // who asked for it, and alone has it
	CreatedAt time.Time

	Claim    string     // of the server that works on it; empty: none
	DueAt    *time.Time // when a server may claim it; nil: it is ready or failed
	Attempts int        // with the present one

	Progress
	Blob       string // name of the archive; empty: there is none
	Size       int64  // of the archive, in bytes
	FinishedAt *time.Time
	ExpiresAt  *time.Time
	Error      string // why it failed

	status Status
}

// Progress is how far an export is.
type Progress struct {
	Records int64 // in the archive
	Files   int64 // in the archive
	Done    int64 // of Files whose content is in the archive
	Bytes   int64 // of their content
}

// New returns an export that any server may claim.
func New(export id.Export, o id.Org, user id.User, now time.Time) Export {
	return Export{ID: export, Org: o, User: user, CreatedAt: now, DueAt: &now, status: Pending}
}

// CheckLimit returns an error if one of the exports is neither ready nor failed, or too many were
// made in the 24 hours before now.
func CheckLimit(all []Export, now time.Time) error {
	recent := 0
	var first time.Time
	for _, e := range all {
		if e.IsOpen() {
			return fault.New(fault.Conflict, "An export of the organisation is being made")
		}
		if e.CreatedAt.After(now.Add(-24 * time.Hour)) {
			recent++
			if first.IsZero() || e.CreatedAt.Before(first) {
				first = e.CreatedAt
			}
		}
	}
	if recent < MaxPerDay {
		return nil
	}
	wait := max(1, int(first.Add(24*time.Hour).Sub(now)/time.Second)+1)
	return fault.New(fault.Limited, "An organisation has at most %d exports in 24 hours", MaxPerDay).RetryIn(wait)
}

// Restore gives a stored export its status back. Only adapters that read records call it.
func (e Export) Restore(s Status) Export {
	e.status = s
	return e
}

// StoredStatus returns the stored status, regardless of the time.
func (e Export) StoredStatus() Status { return e.status }

// Status returns the status at now.
func (e Export) Status(now time.Time) Status {
	if e.status == Ready && !now.Before(*e.ExpiresAt) {
		return Expired
	}
	return e.status
}

// IsOpen reports whether the archive is still to be made.
func (e Export) IsOpen() bool { return e.status == Pending || e.status == Running }

// Claimed returns the export as claimed at now, or as failed if MaxAttempts claims ended without a
// result, as those of servers that died. Conflict if no work is due, as while another claim lasts.
func (e Export) Claimed(claim string, now time.Time) (Export, error) {
	if e.DueAt == nil || e.DueAt.After(now) {
		return e, fault.New(fault.Conflict, "The export is not due")
	}
	if e.Attempts >= MaxAttempts {
		e.Claim, e.DueAt, e.FinishedAt, e.Error, e.status = "", nil, &now, "Servers stopped while they made the archive; request it again", Failed
		return e, nil
	}
	until := now.Add(ClaimDuration)
	e.Claim, e.DueAt, e.Progress, e.status = claim, &until, Progress{}, Running
	e.Attempts++
	return e, nil
}

// checkClaim returns Conflict unless the claim is the present one.
func (e Export) checkClaim(claim string) error {
	if e.Claim != claim {
		return fault.New(fault.Conflict, "Another server has claimed the export")
	}
	return nil
}

// Extended returns the export with its claim extended at now and its progress.
func (e Export) Extended(claim string, p Progress, now time.Time) (Export, error) {
	until := now.Add(ClaimDuration)
	e.DueAt, e.Progress = &until, p
	return e, e.checkClaim(claim)
}

// Released returns the export as due at now, without the attempt of the claim.
func (e Export) Released(claim string, now time.Time) (Export, error) {
	err := e.checkClaim(claim)
	e.Claim, e.DueAt, e.status = "", &now, Pending
	e.Attempts--
	return e, err
}

// Finished returns the export with an archive, which is kept until it expires.
func (e Export) Finished(claim string, p Progress, blob string, size int64, now, expires time.Time) (Export, error) {
	err := e.checkClaim(claim)
	e.Claim, e.DueAt, e.Progress, e.Blob, e.Size, e.FinishedAt, e.ExpiresAt, e.status = "", nil, p, blob, size, &now, &expires, Ready
	return e, err
}

// AfterFailure returns the export after a failure at now, with a reason that is safe to show. It is
// tried again unless that was final or the last attempt.
func (e Export) AfterFailure(claim, reason string, final bool, now time.Time) (Export, error) {
	err := e.checkClaim(claim)
	e.Claim, e.Error = "", reason
	if final || e.Attempts >= MaxAttempts {
		e.DueAt, e.FinishedAt, e.status = nil, &now, Failed
		return e, err
	}
	again := now.Add(retryAfter)
	e.DueAt, e.status = &again, Pending
	return e, err
}

// Withdrawn returns the export without an archive, as its member was deleted at now: failed if it was
// open, expired if it was ready.
func (e Export) Withdrawn(now time.Time) Export {
	switch {
	case e.IsOpen():
		e.Claim, e.DueAt, e.FinishedAt, e.Error, e.status = "", nil, &now, "The member who asked for it was deleted", Failed
	case e.Status(now) == Ready:
		e.ExpiresAt = &now
	}
	return e
}

// BlobName returns the name of the archive that an attempt makes.
func (e Export) BlobName(random string) string {
	return string(e.Org) + "/exports/" + string(e.ID) + "@" + random
}
