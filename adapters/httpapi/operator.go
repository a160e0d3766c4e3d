package httpapi

import (
	"net/http"

	"collab/adapters/httpapi/body"
	"collab/app/operator"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
)

type overviewView struct {
	ID                 id.Org           `json:"id"`
	Name               *string          `json:"name"`
	Slug               *string          `json:"slug"`
	CreatedAt          jsonTime         `json:"createdAt"`
	UpdatedAt          jsonTime         `json:"updatedAt"`
	ClosedAt           *jsonTime        `json:"closedAt"`
	Owners             int              `json:"owners"`
	Members            int              `json:"members"`
	PendingInvitations int              `json:"pendingInvitations"`
	Subscription       subscriptionView `json:"subscription"`
}

func viewOverview(o operator.Overview) overviewView {
	return overviewView{
		ID: o.ID, Name: textOrNull(o.Name), Slug: textOrNull(o.Slug), CreatedAt: jsonTime(o.CreatedAt), UpdatedAt: jsonTime(o.UpdatedAt),
		ClosedAt: timeOrNull(o.ClosedAt), Owners: o.Seats.Owners, Members: o.Seats.Members, PendingInvitations: o.Seats.Pending,
		Subscription: viewSubscription(o.Subscription, o.Seats.Members),
	}
}

func keyOfOverview(o operator.Overview) body.Position { return body.Position{ID: string(o.ID)} }

var asPlan = body.OneOf(plan.Parse, plan.None, plan.Free, plan.Standard, plan.Premium, plan.Enterprise)

func (a *api) listOrganisations(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfOverview, appendViewed(viewOverview), func(actor org.Actor, each func(operator.Overview) error) error {
		return a.Operator.Organisations(c.r.Context(), actor, id.Org(p.After.ID), p.Fetch(), each)
	})
}

func (a *api) getOrganisation(c *call, actor org.Actor) error {
	o, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewOverview)(a.Operator.Organisation(c.r.Context(), actor, o))
}

func (a *api) grant(c *call) error {
	of, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	o, err := c.fields()
	if err != nil {
		return err
	}
	g := plan.Grant{
		Plan:      body.Required(o, "plan", asPlan),
		Seats:     body.Optional(o, "seats", body.Count),
		PeriodEnd: body.Optional(o, "currentPeriodEnd", body.Instant),
	}
	actor, err := a.authorizeValid(c, o.Err())
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewOverview)(a.Operator.Grant(c.r.Context(), actor, of, g))
}

func (a *api) setRole(c *call) error {
	of, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
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
	return replyWith(c, http.StatusOK, viewMember)(a.Operator.SetRole(c.r.Context(), actor, of, user, role))
}
