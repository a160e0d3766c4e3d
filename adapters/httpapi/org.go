package httpapi

import (
	"context"
	"net/http"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/app/members"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/words"
)

type userView struct {
	UserID    id.User `json:"userId"`
	Name      *string `json:"name"`
	Email     *string `json:"email"`
	AvatarURL *string `json:"avatarUrl"`
}

func viewUser(u id.User, p org.User) userView {
	return userView{u, textOrNull(p.Name), textOrNull(p.Email), textOrNull(p.AvatarURL)}
}

type memberView struct {
	userView
	Role                org.Role `json:"role"`
	OnboardingCompleted bool     `json:"onboardingCompleted"`
	JoinedAt            jsonTime `json:"joinedAt"`
}

func viewMember(p org.Profile) memberView {
	return memberView{viewUser(p.User, p.Person), p.Role, p.OnboardingCompleted, jsonTime(p.JoinedAt)}
}

func positionOfMember(p org.Profile) body.Position {
	return body.Position{At: p.JoinedAt, ID: string(p.User)}
}

type formerMemberView struct {
	UserID    id.User  `json:"userId"`
	Name      *string  `json:"name"`
	RemovedAt jsonTime `json:"removedAt"`
}

func viewFormerMember(p org.Profile) formerMemberView {
	return formerMemberView{UserID: p.User, Name: textOrNull(p.Person.Name), RemovedAt: jsonTime(*p.RemovedAt)}
}

func positionOfFormer(p org.Profile) body.Position { return body.Position{ID: string(p.User)} }

func afterFormer(p body.Position) id.User { return id.User(p.ID) }

type invitationView struct {
	ID         id.Invitation     `json:"id"`
	Email      string            `json:"email"`
	Role       org.Role          `json:"role"`
	Status     invitation.Status `json:"status"`
	ExpiresAt  jsonTime          `json:"expiresAt"`
	CreatedAt  jsonTime          `json:"createdAt"`
	AcceptedAt *jsonTime         `json:"acceptedAt"`
	InvitedBy  *string           `json:"invitedBy"`
	InviteURL  string            `json:"inviteUrl,omitempty"` // only in the response that made the token
}

func (a *api) viewInvitation(i invitation.Invitation) invitationView {
	return invitationView{
		ID: i.ID, Email: i.Email, Role: i.Role, Status: i.Status(a.Access.Now()), ExpiresAt: jsonTime(i.ExpiresAt),
		CreatedAt: jsonTime(i.CreatedAt), AcceptedAt: timeOrNull(i.AcceptedAt), InvitedBy: textOrNull(i.InvitedBy),
	}
}

func positionOfInvitation(i invitation.Invitation) body.Position {
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

func positionOfEntry(e audit.Entry) body.Position { return body.Position{ID: string(e.ID)} }

// memberListQuery reads the query of a list of members.
func (c *call) memberListQuery() (q body.Query, p body.Page, f org.MemberFilter, err error) {
	if q, p, err = c.listQuery("search", "ids"); err != nil {
		return q, p, f, err
	}
	text, err := searchParam(q)
	if err != nil {
		return q, p, f, err
	}
	f.Words = words.Of(text)
	if text, given := q.Get("ids"); given {
		ids := strings.Split(text, ",")
		if text == "" || len(ids) > org.MaxNamed {
			return q, p, f, fault.Field("ids", "must name 1 to %d users", org.MaxNamed)
		}
		f.Users = make([]id.User, len(ids))
		for i, text := range ids {
			f.Users[i] = body.IDParam[id.User](text)
		}
	}
	f.After, f.Limit = timePosition[id.User](p.After), p.Fetch()
	return q, p, f, f.Check()
}

// listMembers returns the handler of the list of members, which is read from a replica, or for the unconfirmed actor
// first. A search is not, because it reads in several parts.
func (a *api) listMembers(replica bool) handler {
	return func(c *call) error {
		q, p, f, err := c.memberListQuery()
		if err != nil {
			return err
		}
		type filtered = func(context.Context, org.Actor, org.MemberFilter, func(org.Profile) error) error
		bind := func(list filtered) lister[org.Profile] {
			return func(actor org.Actor, each func(org.Profile) error) error { return list(c.r.Context(), actor, f, each) }
		}
		if replica || len(f.Words) > 0 {
			return list(a, c, q, p, positionOfMember, viewAppender(viewMember), bind(a.Members.List))
		}
		return listUnconfirmed(a, c, q, p, positionOfMember, viewAppender(viewMember),
			bind(a.Members.ListUnconfirmed), bind(a.Members.List))
	}
}

var readRole = oneField("role", body.Text)

// invitationBody is the body of an invitation.
type invitationBody struct{ email, role string }

func readInvitation(o *body.Fields) (invitationBody, error) {
	i := invitationBody{email: body.Required(o, "email", body.Text), role: body.Required(o, "role", body.Text)}
	return i, o.Err()
}

func (a *api) invite(c *call, actor org.Actor, i invitationBody) error {
	return a.replyInvited(c, http.StatusCreated)(a.Members.Invite(c.r.Context(), actor, i.email, i.role))
}

func (a *api) resendInvite(c *call, actor org.Actor, i id.Invitation) error {
	return a.replyInvited(c, http.StatusOK)(a.Members.Resend(c.r.Context(), actor, i))
}

// replyInvited replies with the invitation and its address, which contains a token.
func (a *api) replyInvited(c *call, status int) func(members.Invited, error) error {
	return replyWith(c, status, func(i members.Invited) invitationView {
		c.Header()["Cache-Control"] = noStore
		v := a.viewInvitation(i.Invitation)
		v.InviteURL = i.URL
		return v
	})
}

// readAuditFilter reads the filters of the audit log.
func readAuditFilter(q body.Query, p body.Page) (f audit.Filter, err error) {
	if text, given := q.Get("actor"); given {
		if f, err = f.WithActor(text); err != nil {
			return f, err
		}
	}
	if text, given := q.Get("action"); given {
		if f, err = f.WithAction(text); err != nil {
			return f, err
		}
	}
	if text, given := q.Get("target"); given {
		if f.Target = text; text == "" || !body.IsKeyText(text) {
			return f, fault.Field("target", "must be a text of 1 to %d bytes", audit.MaxTarget)
		}
	}
	if f.From, err = body.InstantParam(q, "from"); err != nil {
		return f, err
	}
	if f.To, err = body.InstantParam(q, "to"); err != nil {
		return f, err
	}
	f.After, f.Limit = id.Entry(p.After.ID), p.Fetch()
	return f, f.Check()
}

func (a *api) auditLog(c *call) error {
	q, p, err := c.listQuery("actor", "action", "target", "from", "to")
	if err != nil {
		return err
	}
	f, err := readAuditFilter(q, p)
	if err != nil {
		return err
	}
	read := func(actor org.Actor, each func(audit.Entry) error) error {
		return a.Members.Audit(c.r.Context(), actor, f, each)
	}
	return list(a, c, q, p, positionOfEntry, viewAppender(viewEntry), read)
}
