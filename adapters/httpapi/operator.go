package httpapi

import (
	"context"
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
	StorageUsed        int64            `json:"storageUsed"`
	StorageLimit       *int64           `json:"storageLimit"`
	Usage              sumView          `json:"usage"`
}

func viewOverview(o operator.Overview) overviewView {
	return overviewView{
		ID: o.ID, Name: textOrNull(o.Name), Slug: textOrNull(o.Slug), CreatedAt: jsonTime(o.CreatedAt), UpdatedAt: jsonTime(o.UpdatedAt),
		ClosedAt: timeOrNull(o.ClosedAt), Owners: o.Seats.Owners, Members: o.Seats.Members, PendingInvitations: o.Seats.Pending,
		Subscription: viewSubscription(o.Subscription, o.Seats.Members), StorageUsed: o.Used.Total(), StorageLimit: limitOrNull(o.StorageLimit), Usage: viewSum(o.Usage),
	}
}

func keyOfOverview(o operator.Overview) body.Position { return body.Position{ID: string(o.ID)} }

var asPlan = body.OneOf(plan.Parse, plan.None, plan.Free, plan.Standard, plan.Premium, plan.Enterprise)

func (a *api) listOrganisations(ctx context.Context, actor org.Actor, after body.Position, limit int, each func(operator.Overview) error) error {
	return a.Operator.Organisations(ctx, actor, id.Org(after.ID), limit, each)
}

func (a *api) getOrganisation(c *call, actor org.Actor, o id.Org) error {
	return replyWith(c, http.StatusOK, viewOverview)(a.Operator.Organisation(c.r.Context(), actor, o))
}

func readGrant(o *body.Fields) (plan.Grant, error) {
	g := plan.Grant{
		Plan:      body.Required(o, "plan", asPlan),
		Seats:     body.Optional(o, "seats", body.Count),
		PeriodEnd: body.Optional(o, "currentPeriodEnd", body.Instant),
	}
	return g, o.Err()
}

func (a *api) grant(c *call, actor org.Actor, of id.Org, g plan.Grant) error {
	return replyWith(c, http.StatusOK, viewOverview)(a.Operator.Grant(c.r.Context(), actor, of, g))
}

func (a *api) setRole(c *call) error {
	of, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	return onRecordWithBody(a, "userId", "Member", readRole, func(c *call, actor org.Actor, user id.User, role string) error {
		return replyWith(c, http.StatusOK, viewMember)(a.Operator.SetRole(c.r.Context(), actor, of, user, role))
	})(c)
}
