package httpapi

import (
	"context"
	"net/http"
	"time"

	"collab/adapters/httpapi/body"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
)

type teamView struct {
	ID          id.Team   `json:"id"`
	Name        string    `json:"name"`
	Description *string   `json:"description"`
	Kind        team.Kind `json:"kind"`
	CreatedBy   id.User   `json:"createdBy"`
	CreatedAt   jsonTime  `json:"createdAt"`
	UpdatedAt   jsonTime  `json:"updatedAt"`
}

func viewTeam(t team.Team) teamView {
	return teamView{
		ID: t.ID, Name: t.Name, Description: t.Description, Kind: t.Kind,
		CreatedBy: t.CreatedBy, CreatedAt: jsonTime(t.CreatedAt), UpdatedAt: jsonTime(t.UpdatedAt),
	}
}

func positionOfTeam(t team.Team) body.Position {
	return body.Position{At: t.CreatedAt, ID: string(t.ID)}
}

type teamMemberView struct {
	userView
	JoinedAt jsonTime `json:"joinedAt"`
}

func viewTeamMember(p team.Profile) teamMemberView {
	return teamMemberView{viewUser(p.User, p.Person), jsonTime(p.JoinedAt)}
}

func positionOfTeamMember(p team.Profile) body.Position {
	return body.Position{At: p.JoinedAt, ID: string(p.User)}
}

func (a *api) listTeams(c *call) error {
	q, p, err := c.listQuery()
	if err != nil {
		return err
	}
	after := timePosition[id.Team](p.After)
	try := func(actor org.Actor, each func(team.Team) error) error {
		return a.Teams.ListUnconfirmed(c.r.Context(), actor, after, p.Fetch(), each)
	}
	read := func(actor org.Actor, each func(team.Team) error) error {
		return a.Teams.List(c.r.Context(), actor, after, p.Fetch(), each)
	}
	return listUnconfirmed(a, c, q, p, positionOfTeam, viewAppender(viewTeam), try, read)
}

func readTeamDraft(o *body.Fields) (team.Draft, error) {
	d := team.Draft{Name: body.Required(o, "name", body.Text), Description: body.Optional(o, "description", body.Text)}
	return d, o.Err(func() error { return errorOf(team.New("", "", team.Standard, "", d, time.Time{})) })
}

func (a *api) createTeam(c *call, actor org.Actor, d team.Draft) error {
	d.ID = id.Team(c.recordID)
	return replyWith(c, http.StatusCreated, viewTeam)(createOrGet(c, actor, d, a.Teams.Create, a.Teams.Get))
}

func readTeamPatch(o *body.Fields) (team.Patch, error) {
	p := team.Patch{Name: body.Field(o, "name", body.Text), Description: body.Field(o, "description", body.Text)}
	return p, o.Err(func() error { return errorOf(team.Team{}.Apply(p, time.Time{})) })
}

func (a *api) deleteTeam(c *call, actor org.Actor, t id.Team) error {
	c.deadlines.Extend(deletionTimeout)
	return c.succeedUnless(a.Teams.Delete(c.r.Context(), actor, t))
}

func (a *api) listTeamMembers(c *call) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	type position = id.Position[id.User]
	read := func(ctx context.Context, actor org.Actor, after position, limit int, each func(team.Profile) error) error {
		return a.Teams.Members(ctx, actor, t, after, limit, each)
	}
	return listHandler(a, positionOfTeamMember, viewTeamMember, timePosition[id.User], read)(c)
}

func (a *api) removeTeamMember(c *call, actor org.Actor, t id.Team) error {
	user, err := pathID[id.User](c, "userId", "Member")
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Teams.RemoveMember(c.r.Context(), actor, t, user))
}
