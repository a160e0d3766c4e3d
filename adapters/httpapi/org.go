package httpapi

import (
	"net/http"

	"collab/adapters/httpapi/body"
	"collab/app/members"
	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
)

type memberView struct {
	UserID              id.User  `json:"userId"`
	Name                *string  `json:"name"`
	Email               *string  `json:"email"`
	AvatarURL           *string  `json:"avatarUrl"`
	Role                org.Role `json:"role"`
	OnboardingCompleted bool     `json:"onboardingCompleted"`
	JoinedAt            jsonTime `json:"joinedAt"`
}

func viewMember(p org.Profile) memberView {
	return memberView{
		UserID: p.User, Name: textOrNull(p.Person.Name), Email: textOrNull(p.Person.Email), AvatarURL: textOrNull(p.Person.AvatarURL),
		Role: p.Role, OnboardingCompleted: p.OnboardingCompleted, JoinedAt: jsonTime(p.JoinedAt),
	}
}

func keyOfMember(p org.Profile) body.Position {
	return body.Position{At: p.JoinedAt, ID: string(p.User)}
}

type invitationView struct {
	ID         id.Invitation     `json:"id"`
	Email      string            `json:"email"`
	Role       org.Role          `json:"role"`
	Status     invitation.Status `json:"status"`
	ExpiresAt  jsonTime          `json:"expiresAt"`
	CreatedAt  jsonTime          `json:"createdAt"`
	AcceptedAt *jsonTime         `json:"acceptedAt"`
	InvitedBy  *string           `json:"invitedBy"`
	InviteURL  string            `json:"inviteUrl,omitempty"` // only in the answer that made the token
}

func (a *api) viewInvitation(i invitation.Invitation) invitationView {
	return invitationView{
		ID: i.ID, Email: i.Email, Role: i.Role, Status: i.Status(a.Members.Now()), ExpiresAt: jsonTime(i.ExpiresAt),
		CreatedAt: jsonTime(i.CreatedAt), AcceptedAt: timeOrNull(i.AcceptedAt), InvitedBy: textOrNull(i.InvitedBy),
	}
}

func keyOfInvitation(i invitation.Invitation) body.Position {
	return body.Position{At: i.CreatedAt, ID: string(i.ID)}
}

type entryView struct {
	ID        id.Entry     `json:"id"`
	Action    audit.Action `json:"action"`
	ActorID   *string      `json:"actorId"`
	Operator  bool         `json:"operator"`
	Target    *string      `json:"target"`
	Detail    *string      `json:"detail"`
	Address   *string      `json:"address"`
	RequestID *string      `json:"requestId"`
	CreatedAt jsonTime     `json:"createdAt"`
}

func viewEntry(e audit.Entry) entryView {
	return entryView{
		ID: e.ID, Action: e.Action, ActorID: textOrNull(e.Actor), Operator: e.Operator, Target: textOrNull(e.Target),
		Detail: textOrNull(e.Detail), Address: textOrNull(e.Address), RequestID: textOrNull(e.Request), CreatedAt: jsonTime(e.At),
	}
}

func keyOfEntry(e audit.Entry) body.Position { return body.Position{ID: string(e.ID)} }

func (a *api) listMembers(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfMember, appendViewed(viewMember), func(actor org.Actor, each func(org.Profile) error) error {
		after := org.Position{JoinedAt: p.After.At, User: id.User(p.After.ID)}
		return a.Members.List(c.r.Context(), actor, after, p.Fetch(), each)
	})
}

func (a *api) changeRole(c *call) error {
	user, err := pathID[id.User](c, "userId", "Member")
	if err != nil {
		return err
	}
	o, err := c.fields()
	if err != nil {
		return err
	}
	role := body.Required(o, "role", body.Text)
	actor, err := a.authorizeValid(c, o.Err())
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewMember)(a.Members.ChangeRole(c.r.Context(), actor, user, role))
}

func (a *api) removeMember(c *call, actor org.Actor) error {
	user, err := pathID[id.User](c, "userId", "Member")
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Members.Remove(c.r.Context(), actor, user))
}

func (a *api) listInvites(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfInvitation, appendViewed(a.viewInvitation), func(actor org.Actor, each func(invitation.Invitation) error) error {
		after := invitation.Position{CreatedAt: p.After.At, ID: id.Invitation(p.After.ID)}
		return a.Members.Invites(c.r.Context(), actor, after, p.Fetch(), each)
	})
}

func (a *api) invite(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	email, role := body.Required(o, "email", body.Text), body.Required(o, "role", body.Text)
	actor, err := a.authorizeValid(c, o.Err())
	if err != nil {
		return err
	}
	made, err := a.Members.Invite(c.r.Context(), actor, email, role)
	if err != nil {
		return err
	}
	return a.replyInvited(c, http.StatusCreated, made)
}

func (a *api) resendInvite(c *call, actor org.Actor) error {
	i, err := pathID[id.Invitation](c, "id", "Invitation")
	if err != nil {
		return err
	}
	again, err := a.Members.Resend(c.r.Context(), actor, i)
	if err != nil {
		return err
	}
	return a.replyInvited(c, http.StatusOK, again)
}

// replyInvited shows the invitation with its address, which holds a token.
func (a *api) replyInvited(c *call, status int, i members.Invited) error {
	c.Header()["Cache-Control"] = noStore
	v := a.viewInvitation(i.Invitation)
	v.InviteURL = i.URL
	return c.reply(status, v)
}

func (a *api) withdrawInvite(c *call, actor org.Actor) error {
	i, err := pathID[id.Invitation](c, "id", "Invitation")
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Members.Withdraw(c.r.Context(), actor, i))
}

func (a *api) auditLog(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfEntry, appendViewed(viewEntry), func(actor org.Actor, each func(audit.Entry) error) error {
		return a.Members.Audit(c.r.Context(), actor, id.Entry(p.After.ID), p.Fetch(), each)
	})
}
