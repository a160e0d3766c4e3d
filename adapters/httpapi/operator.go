package httpapi

import (
	"net/http"
	"time"

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

func keyOfOverview(o operator.Overview) position { return position{ID: string(o.ID)} }

var asPlan = oneOf(plan.Parse, plan.None, plan.Free, plan.Standard, plan.Premium, plan.Enterprise)

// asInstant reads an RFC 3339 time, or a date as the beginning of that day in
// UTC.
func asInstant(raw []byte) (time.Time, string) {
	text, problem := asText(raw)
	if problem != "" {
		return time.Time{}, problem
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999 {
			return t.UTC().Truncate(time.Millisecond), ""
		}
	}
	return time.Time{}, "must be a date or an RFC 3339 time"
}

func (a *api) listOrganisations(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return stream(a, c, q, p, keyOfOverview, viewed(viewOverview), func(actor org.Actor, each func(operator.Overview) error) error {
		return a.Operator.Organisations(c.r.Context(), actor, id.Org(p.after.ID), p.fetch(), each)
	})
}

func (a *api) getOrganisation(c *call, actor org.Actor) error {
	o, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	found, err := a.Operator.Organisation(c.r.Context(), actor, o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, viewOverview(found))
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
		Plan:      required(o, "plan", asPlan),
		Seats:     optional(o, "seats", asCount),
		PeriodEnd: optional(o, "currentPeriodEnd", asInstant),
	}
	if err := o.err(); err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	granted, err := a.Operator.Grant(c.r.Context(), actor, of, g)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, viewOverview(granted))
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
	role := required(o, "role", asText)
	if err := o.err(); err != nil {
		return err
	}
	actor, err := a.authorize(c)
	if err != nil {
		return err
	}
	changed, err := a.Operator.SetRole(c.r.Context(), actor, of, user, role)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, viewMember(changed))
}
