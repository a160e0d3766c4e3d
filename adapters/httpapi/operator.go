package httpapi

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"collab/adapters/httpapi/body"
	"collab/app/operator"
	"collab/domain/fault"
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
	MemberLimit        *int64           `json:"memberLimit"`
	PublishesReleases  bool             `json:"publishesReleases"`
	Subscription       subscriptionView `json:"subscription"`
	StorageUsed        int64            `json:"storageUsed"`
	StorageLimit       *int64           `json:"storageLimit"`
	Usage              sumView          `json:"usage"`
}

func (a *api) viewOverview(o operator.Overview) overviewView {
	return overviewView{
		ID: o.ID, Name: textOrNull(o.Name), Slug: textOrNull(o.Slug), CreatedAt: jsonTime(o.CreatedAt), UpdatedAt: jsonTime(o.UpdatedAt),
		ClosedAt: timeOrNull(o.ClosedAt), Owners: o.Seats.Owners, Members: o.Seats.Members, PendingInvitations: o.Seats.Pending,
		MemberLimit: limitOrNull(int64(o.Subscription.Plan.Limits().Members)), PublishesReleases: a.Releases.Publishes(o.ID),
		Subscription: viewSubscription(o.Subscription, o.Seats.Members), StorageUsed: o.Used.Total(),
		StorageLimit: limitOrNull(o.StorageLimit), Usage: viewSum(o.Usage),
	}
}

func positionOfOverview(o operator.Overview) body.Position { return body.Position{ID: string(o.ID)} }

var asPlan = body.OneOf(plan.All()...)

// maxSearch is the limit of the text of a search, in characters.
const maxSearch = 200

// searchParam returns the text of a search, or "".
func searchParam(q body.Query) (string, error) {
	text, given := q.Get("search")
	if given && (strings.TrimSpace(text) == "" || !body.IsKeyText(text) || utf8.RuneCountInString(text) > maxSearch) {
		return "", fault.Field("search", "must be 1 to %d characters of valid UTF-8, not spaces alone, without null characters", maxSearch)
	}
	return text, nil
}

func (a *api) listOrganisations(c *call) error {
	q, p, err := c.listQuery("search")
	if err != nil {
		return err
	}
	f := org.Filter{After: id.Org(p.After.ID), Limit: p.Fetch()}
	if f.Search, err = searchParam(q); err != nil {
		return err
	}
	read := func(actor org.Actor, each func(operator.Overview) error) error {
		return a.Operator.Organisations(c.r.Context(), actor, f, each)
	}
	return list(a, c, q, p, positionOfOverview, viewAppender(a.viewOverview), read)
}

func (a *api) listOrganisationMembers(c *call) error {
	organisation, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	q, p, f, err := c.memberListQuery()
	if err != nil {
		return err
	}
	read := func(actor org.Actor, each func(org.Profile) error) error {
		return a.Operator.Members(c.r.Context(), actor, organisation, f, each)
	}
	return list(a, c, q, p, positionOfMember, viewAppender(viewMember), read)
}

func readGrant(o *body.Fields) (plan.Grant, error) {
	g := plan.Grant{
		Plan:      body.Required(o, "plan", asPlan),
		Seats:     body.Optional(o, "seats", body.Count),
		PeriodEnd: body.Optional(o, "currentPeriodEnd", body.Instant),
	}
	return g, o.Err()
}

func (a *api) setRole(c *call) error {
	organisation, err := pathID[id.Org](c, "id", "Organisation")
	if err != nil {
		return err
	}
	return onRecordWithBody(a, "userId", "Member", readRole, func(c *call, actor org.Actor, user id.User, role string) error {
		return replyWith(c, http.StatusOK, viewMember)(a.Members.SetRole(c.r.Context(), actor, organisation, user, role))
	})(c)
}
