// Package members manages an organisation's members, their roles and invitations, and reads
// its audit log.
package members

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/mail"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
)

// Options has the dependencies and settings of Members. InviteURL returns the address of the invitation with the
// token.
type Options struct {
	Store     ports.Store
	Clock     ports.Clock
	IDs       ports.IDs
	Secrets   ports.Secrets
	Mailer    ports.Mailer
	InviteURL func(token string) string
	// Locked is access.Access.Locked.
	Locked func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error
	// From is access.From of the store.
	From func(ctx context.Context) ports.Records
	// Origin returns the origin of the request that ctx carries, for the audit log.
	Origin func(ctx context.Context) audit.Origin
}

// Members are the use cases of members and invitations.
type Members struct{ Options }

func New(o Options) *Members { return &Members{o} }

// List calls each with the members that f selects, by when they joined. The list may be stale (see
// ports.Store.From). A search examines org.MaxExamined of them.
func (s *Members) List(ctx context.Context, actor org.Actor, f org.MemberFilter, each func(org.Profile) error) error {
	return list(ctx, s.From(ctx), actor, f, each)
}

// ListUnconfirmed is List for an actor that access.Access.Cached returned: org.ErrEpochChanged
// if the organisation is at another epoch than the actor. It is not for searches.
func (s *Members) ListUnconfirmed(ctx context.Context, actor org.Actor, f org.MemberFilter, each func(org.Profile) error) error {
	return list(ctx, s.Store.At(actor.Org, actor.Epoch()), actor, f, each)
}

func list(ctx context.Context, r ports.Records, actor org.Actor, f org.MemberFilter, each func(org.Profile) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	f.ExamineLimit = org.MaxExamined
	return r.Directory().Members().List(ctx, actor.Org, f, each)
}

// Former calls each with those who were members and are not any more, by user id.
func (s *Members) Former(ctx context.Context, actor org.Actor, after id.User, limit int, each func(org.Profile) error) error {
	if err := actor.CheckManager(); err != nil {
		return err
	}
	return s.Store.Directory().Users().Former(ctx, actor.Org, after, limit, each)
}

// ChangeRole sets a member's role, until the identity provider's role of the member changes.
func (s *Members) ChangeRole(ctx context.Context, actor org.Actor, user id.User, role string) (changed org.Profile, err error) {
	to, ok := org.ParseRole(role)
	if !ok {
		return org.Profile{}, fault.Field("role", org.RoleRule)
	}
	err = s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		changed, err = s.setRole(ctx, r, actor, user, to)
		return err
	})
	return changed, err
}

// SetRole is ChangeRole by an operator in any organisation, with an owner's rights.
func (s *Members) SetRole(ctx context.Context, actor org.Actor, o id.Org, user id.User, role string) (changed org.Profile, err error) {
	if err := actor.CheckOperator(); err != nil {
		return org.Profile{}, err
	}
	to, ok := org.ParseRole(role)
	if !ok {
		return org.Profile{}, fault.Field("role", org.RoleRule)
	}
	actor.Org = o
	err = s.Store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, o); err != nil {
			return err
		}
		changed, err = s.setRole(ctx, r, actor, user, to)
		return err
	})
	return changed, err
}

// setRole sets the role of a member of the actor's organisation, which is locked.
func (s *Members) setRole(ctx context.Context, r ports.Records, actor org.Actor, user id.User, to org.Role) (org.Profile, error) {
	target, err := lockActive(ctx, r, actor.Org, user)
	if err != nil {
		return org.Profile{}, err
	}
	seats, err := seats(ctx, r, actor.Org, s.Clock.Now())
	if err != nil {
		return org.Profile{}, err
	}
	if err := org.CheckChangeRole(actor, target, to, seats); err != nil {
		return org.Profile{}, err
	}
	next := target.WithRole(to)
	if err := r.Directory().Members().Put(ctx, actor.Org, next); err != nil {
		return org.Profile{}, err
	}
	if c, ok := object.MembershipChange(target, next, actor.User, s.Clock.Now()); ok {
		if _, err := r.Storage().Changes().Append(ctx, actor.Org, c); err != nil {
			return org.Profile{}, err
		}
	}
	person, err := r.Directory().Users().Get(ctx, user)
	if err != nil {
		return org.Profile{}, err
	}
	return org.Profile{Membership: next, Person: person}, s.audit(ctx, r, actor, audit.RoleChanged, string(user), string(target.Role)+" -> "+string(to))
}

// Remove ends a membership, removes the user from teams and unassigns their tasks. Requests of
// the user that begin after Remove has returned are refused.
func (s *Members) Remove(ctx context.Context, actor org.Actor, user id.User) error {
	return s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckRemove(user); err != nil {
			return err
		}
		target, err := lockActive(ctx, r, actor.Org, user)
		if err != nil {
			return err
		}
		now := s.Clock.Now()
		seats, err := seats(ctx, r, actor.Org, now)
		if err != nil {
			return err
		}
		if err := org.CheckRemoveTarget(actor, target, seats); err != nil {
			return err
		}
		if err := r.Directory().Members().Put(ctx, actor.Org, target.Removed(now)); err != nil {
			return err
		}
		if err := ReleaseMember(ctx, r, actor.Org, user, now); err != nil {
			return err
		}
		action := audit.MemberRemoved
		if actor.User == user {
			action = audit.MemberLeft
		}
		return s.audit(ctx, r, actor, action, string(user), string(target.Role))
	})
}

// ReleaseMember removes a user whose membership ended from teams, unassigns their tasks and cancels their
// resumable uploads.
func ReleaseMember(ctx context.Context, r ports.Records, o id.Org, user id.User, now time.Time) error {
	if err := r.Work().TeamMembers().RemoveUser(ctx, o, user); err != nil {
		return err
	}
	if err := r.Work().Tasks().Unassign(ctx, o, user, now); err != nil {
		return err
	}
	return r.Storage().CancelUploads(ctx, o, user, now)
}

// Invites calls each with the invitations that are pending and not expired, by creation.
func (s *Members) Invites(ctx context.Context, actor org.Actor, after id.Position[id.Invitation], limit int, each func(invitation.Invitation) error) error {
	if err := actor.CheckManager(); err != nil {
		return err
	}
	return s.Store.Directory().Invitations().List(ctx, actor.Org, s.Clock.Now(), after, limit, each)
}

// Invited is an invitation with the address that accepts it, which is empty unless its token
// was just made.
type Invited struct {
	invitation.Invitation
	URL string
}

// Invite makes and mails an invitation. Conflict if the address is a member's or invited, or
// the plan has no seat left.
func (s *Members) Invite(ctx context.Context, actor org.Actor, email, role string) (Invited, error) {
	var c check.List
	email = c.Email("email", email)
	to, ok := org.ParseRole(role)
	if !ok {
		c.Add("role", org.RoleRule)
	}
	if err := c.Err(); err != nil {
		return Invited{}, err
	}
	token := s.Secrets.Secret()
	return s.sendInvitation(ctx, actor, token, func(r ports.Records, actor org.Actor) (invitation.Invitation, error) {
		now := s.Clock.Now()
		if err := checkInvite(ctx, r, actor, email, to, now); err != nil {
			return invitation.Invitation{}, err
		}
		created := invitation.New(invitation.Invitation{
			ID: id.Invitation(s.IDs.New()), Org: actor.Org, Email: email, Role: to, InvitedBy: actor.User,
		}, id.Digest(token), now)
		return created, s.audit(ctx, r, actor, audit.InvitationCreated, string(created.ID), string(to))
	})
}

// checkInvite decides whether the actor may invite the address to a role.
func checkInvite(ctx context.Context, r ports.Records, actor org.Actor, email string, to org.Role, now time.Time) error {
	member, err := r.Directory().Members().ByEmail(ctx, actor.Org, email)
	if err != nil {
		return err
	}
	same, err := r.Directory().Invitations().Pending(ctx, actor.Org, email, now)
	if err != nil {
		return err
	}
	taken, err := seats(ctx, r, actor.Org, now)
	if err != nil {
		return err
	}
	sub, err := r.Directory().Subscriptions().Get(ctx, actor.Org)
	if err != nil {
		return err
	}
	return invitation.CheckInvite(actor, to, member, len(same) > 0, taken, sub.At(now).Plan.Limits().Members)
}

// Resend gives an invitation a new token and expiry, and mails it again; the old token becomes
// invalid. An expired invitation needs a free seat again.
func (s *Members) Resend(ctx context.Context, actor org.Actor, i id.Invitation) (Invited, error) {
	token := s.Secrets.Secret()
	return s.sendInvitation(ctx, actor, token, func(r ports.Records, actor org.Actor) (invitation.Invitation, error) {
		was, err := r.Directory().Invitations().Get(ctx, actor.Org, i)
		if err != nil {
			return was, err
		}
		now := s.Clock.Now()
		resent, err := was.Resent(id.Digest(token), now)
		if err != nil {
			return was, err
		}
		if err := invitation.CheckManage(actor, was.Role); err != nil {
			return was, err
		}
		if was.Status(now) == invitation.Expired {
			if err := checkInvite(ctx, r, actor, was.Email, was.Role, now); err != nil {
				return was, err
			}
		}
		return resent, s.audit(ctx, r, actor, audit.InvitationResent, string(i), "")
	})
}

// sendInvitation stores the invitation that decide returns, and mails it after the commit.
func (s *Members) sendInvitation(
	ctx context.Context, actor org.Actor, token string,
	decide func(ports.Records, org.Actor) (invitation.Invitation, error),
) (Invited, error) {
	var created invitation.Invitation
	var organisation org.Organisation
	var inviter org.User
	err := s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckManager(); err != nil {
			return err
		}
		var err error
		if created, err = decide(r, actor); err != nil {
			return err
		}
		if organisation, err = r.Directory().Organisations().Get(ctx, actor.Org); err != nil {
			return err
		}
		if organisation.EmailsUntil, err = invitation.Emails.Take(organisation.EmailsUntil, s.Clock.Now()); err != nil {
			return err
		}
		spent := func(stored org.Organisation) (org.Organisation, error) {
			stored.EmailsUntil = organisation.EmailsUntil
			return stored, nil
		}
		if _, err := r.Directory().Organisations().Upsert(ctx, organisation, spent); err != nil {
			return err
		}
		if inviter, err = r.Directory().Users().Get(ctx, actor.User); err != nil {
			return err
		}
		return r.Directory().Invitations().Put(ctx, actor.Org, created)
	})
	if err != nil {
		return Invited{}, err
	}
	out := Invited{created, s.InviteURL(token)}
	// A failure of the mail does not undo the invitation: its address is in the response, and it
	// can be sent again.
	_ = s.Mailer.Send(ctx, mail.Invitation(created.Email, organisation.Name, inviter.Name, out.URL, created.ExpiresAt))
	return out, nil
}

// DeleteInvitation deletes a pending invitation.
func (s *Members) DeleteInvitation(ctx context.Context, actor org.Actor, i id.Invitation) error {
	return s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckManager(); err != nil {
			return err
		}
		was, err := r.Directory().Invitations().Get(ctx, actor.Org, i)
		if err != nil {
			return err
		}
		withdrawn, err := was.Withdrawn(s.Clock.Now())
		if err != nil {
			return err
		}
		if err := invitation.CheckManage(actor, was.Role); err != nil {
			return err
		}
		if err := r.Directory().Invitations().Put(ctx, actor.Org, withdrawn); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.InvitationDeleted, string(i), "")
	})
}

// Audit calls each with the entries of the organisation's audit log that the filter selects, the
// newest first. The list may be stale (see ports.Store.From).
func (s *Members) Audit(ctx context.Context, actor org.Actor, f audit.Filter, each func(audit.Entry) error) error {
	if err := actor.CheckManager(); err != nil {
		return err
	}
	return s.From(ctx).Journal().Audit().List(ctx, actor.Org, f, each)
}

func (s *Members) audit(ctx context.Context, r ports.Records, actor org.Actor, a audit.Action, target, detail string) error {
	return r.Journal().Audit().Add(ctx, audit.By(actor, s.Origin(ctx), id.Entry(s.IDs.New()), actor.Org, a, target, detail, s.Clock.Now()))
}

// lockActive returns an active membership and locks it; NotFound for any other.
func lockActive(ctx context.Context, r ports.Records, o id.Org, user id.User) (org.Membership, error) {
	m, err := r.Directory().Members().GetLocked(ctx, o, user)
	if err == nil && !m.Active() {
		err = fault.Missing("Member")
	}
	return m, err
}

// seats counts members and invitations.
func seats(ctx context.Context, r ports.Records, o id.Org, now time.Time) (org.Seats, error) {
	counted, err := r.Directory().Seats().Count(ctx, []id.Org{o}, now)
	return counted[o], err
}

// Offer is a pending invitation as its invitee sees it.
type Offer struct {
	invitation.Invitation
	Organisation org.Organisation
	Inviter      org.User // the zero value if not known
}

// Lookup finds the pending invitation of a token. It checks no actor, because an invited person
// presents only the token.
func Lookup(ctx context.Context, r ports.Records, clock ports.Clock, token string) (Offer, error) {
	i, err := r.Directory().Invitations().ByToken(ctx, id.Digest(token))
	if err != nil {
		return Offer{}, err
	}
	if i.Status(clock.Now()) != invitation.Pending {
		return Offer{}, fault.Missing("Invitation")
	}
	o, err := r.Directory().Organisations().Get(ctx, i.Org)
	if err != nil {
		return Offer{}, err
	}
	if o.Closed() {
		return Offer{}, fault.Missing("Invitation")
	}
	offer := Offer{Invitation: i, Organisation: o}
	if i.InvitedBy != "" {
		offer.Inviter, err = r.Directory().Users().Get(ctx, i.InvitedBy)
	}
	return offer, err
}
