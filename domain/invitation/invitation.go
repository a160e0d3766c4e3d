// Package invitation has the lifecycle of an invitation: pending for 24 hours, then
// accepted, revoked or expired.
package invitation

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
)

// Lifetime is how long an invitation can be accepted after its creation or its
// last resend.
const Lifetime = 24 * time.Hour

// Retention is how long invitations are stored after they expired, and after their last event
// or their deletion.
const Retention = 90 * 24 * time.Hour

// clockSkew is how far the identity provider's clock may be behind ours.
const clockSkew = 5 * time.Minute

// MaxPending is the largest number of pending invitations that members may create in an
// organisation; the identity provider's are not refused.
const MaxPending = 500

// Status is the state of an invitation.
type Status string

// The statuses. Expired is never stored: it is Pending read after its time.
const (
	Pending  Status = "PENDING"
	Accepted Status = "ACCEPTED"
	Revoked  Status = "REVOKED" // deleted; kept so that no late message brings it back
	Expired  Status = "EXPIRED"
)

// Invitation asks an e-mail address to join an organisation.
type Invitation struct {
	ID         id.Invitation
	Org        id.Org
	Email      string // empty: it was revoked, or accepted by a user who was deleted since
	Role       org.Role
	TokenHash  string // SHA-256 of the secret token in hexadecimal; empty: no token of ours
	ExpiresAt  time.Time
	CreatedAt  time.Time
	AcceptedAt *time.Time
	InvitedBy  id.User // empty: not known

	ResendsUntil time.Time // when the rate Resends is unused again

	ProviderID string // the provider's id of it; empty: the provider does not know of it
	Seen       identity.Stamp

	status Status
}

// Restore gives a stored invitation its status back. Only adapters that read
// records call it.
func (i Invitation) Restore(s Status) Invitation {
	i.status = s
	return i
}

// StoredStatus returns the stored status, regardless of the time.
func (i Invitation) StoredStatus() Status { return i.status }

// Status returns the status at now.
func (i Invitation) Status(now time.Time) Status {
	if i.status == Pending && !now.Before(i.ExpiresAt) {
		return Expired
	}
	return i.status
}

// New makes a pending invitation from i's identity, address, role and inviter.
func New(i Invitation, tokenHash string, now time.Time) Invitation {
	i.CreatedAt, i.ExpiresAt, i.TokenHash, i.status = now, now.Add(Lifetime), tokenHash, Pending
	return i
}

// Resent returns the invitation with a new token and a fresh lifetime. An
// expired one is pending again; one that was accepted or deleted is not found, and
// one that was sent again too often is Limited.
func (i Invitation) Resent(tokenHash string, now time.Time) (Invitation, error) {
	if i.status != Pending {
		return i, fault.Missing("Invitation")
	}
	unusedAt, err := Resends.Take(i.ResendsUntil, now)
	if err != nil {
		return i, err
	}
	i.TokenHash, i.ExpiresAt, i.ResendsUntil = tokenHash, now.Add(Lifetime), unusedAt
	return i, nil
}

// Withdrawn returns the invitation after a member deleted it.
func (i Invitation) Withdrawn(now time.Time) (Invitation, error) {
	if i.status != Pending {
		return i, fault.Missing("Invitation")
	}
	i.status, i.TokenHash, i.Email = Revoked, "", ""
	i.Seen = identity.Stamp{At: now, Rank: identity.RankLocal}
	return i, nil
}

// IsAbout reports whether an event of the provider may be about the invitation. An end from before the invitation was
// made here is about an earlier invitation of the address.
func (i Invitation) IsAbout(e identity.Event) bool {
	return i.TokenHash == "" || e.Kind == identity.InvitationCreated || !e.Stamp.At.Before(i.CreatedAt.Add(-clockSkew))
}

// Observed returns the invitation after an event of the provider about it. The
// first that arrives makes the record, whichever it is. Accepted and Revoked
// are final against Created; between the two the later event counts. An event that
// IsAbout refuses changes nothing.
func (i Invitation) Observed(e identity.Event, role org.Role, inviter id.User, now time.Time) Invitation {
	fresh := i.status == ""
	if fresh {
		i.Email, i.Role, i.InvitedBy = e.Invitation.Email, role, inviter
		i = New(i, "", now)
	}
	if !i.IsAbout(e) {
		return i
	}
	if i.ProviderID == "" {
		i.ProviderID = e.Invitation.ProviderID
	}
	if !i.Seen.Before(e.Stamp) {
		return i
	}
	switch e.Kind {
	case identity.InvitationAccepted:
		if i.status == Revoked {
			i.Email = e.Invitation.Email
		}
		at := e.Stamp.At
		i.status, i.AcceptedAt, i.TokenHash, i.Seen = Accepted, &at, "", e.Stamp
	case identity.InvitationRevoked:
		i.status, i.AcceptedAt, i.TokenHash, i.Email, i.Seen = Revoked, nil, "", "", e.Stamp
	}
	return i
}

// CheckInvite decides whether actor may invite an address with the role. Member and pending
// report whether the address has a member or an invitation already; limit is the plan's
// maximum of members, negative if there is none.
func CheckInvite(actor org.Actor, role org.Role, member, pending bool, s org.Seats, limit int) error {
	if err := CheckManage(actor, role); err != nil {
		return err
	}
	switch {
	case member:
		return fault.New(fault.Conflict, "This e-mail address already belongs to a member")
	case pending:
		return fault.New(fault.Conflict, "This e-mail address already has a pending invitation")
	}
	return CheckSeats(s, limit)
}

// CheckManage decides whether actor may manage an invitation to the role: only an OWNER may
// manage an OWNER's.
func CheckManage(actor org.Actor, role org.Role) error {
	if role == org.Owner && actor.Role != org.Owner {
		return fault.New(fault.Forbidden, "Only an OWNER may invite an OWNER")
	}
	return nil
}

// CheckSeats decides whether the organisation may have one more pending invitation; a
// negative limit is none.
func CheckSeats(s org.Seats, limit int) error {
	if limit >= 0 && s.Members+s.Pending+1 > limit {
		return fault.New(fault.Forbidden, "The organisation's plan allows at most %d members, pending invitations included", limit)
	}
	if s.Pending >= MaxPending {
		return fault.New(fault.Conflict, "An organisation has at most %d pending invitations", MaxPending)
	}
	return nil
}
