package httpapi

import (
	"net/http"
	"time"

	"collab/adapters/httpapi/body"
	"collab/app/teams"
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

func keyOfTeam(t team.Team) body.Position { return body.Position{At: t.CreatedAt, ID: string(t.ID)} }

type teamMemberView struct {
	UserID    id.User  `json:"userId"`
	Name      *string  `json:"name"`
	Email     *string  `json:"email"`
	AvatarURL *string  `json:"avatarUrl"`
	JoinedAt  jsonTime `json:"joinedAt"`
}

func viewTeamMember(p team.Profile) teamMemberView {
	return teamMemberView{
		UserID: p.User, Name: textOrNull(p.Person.Name), Email: textOrNull(p.Person.Email),
		AvatarURL: textOrNull(p.Person.AvatarURL), JoinedAt: jsonTime(p.JoinedAt),
	}
}

func keyOfTeamMember(p team.Profile) body.Position {
	return body.Position{At: p.JoinedAt, ID: string(p.User)}
}

func (a *api) listTeams(c *call) error {
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfTeam, appendViewed(viewTeam), func(actor org.Actor, each func(team.Team) error) error {
		after := teams.Position{CreatedAt: p.After.At, ID: id.Team(p.After.ID)}
		return a.Teams.List(c.r.Context(), actor, after, p.Fetch(), each)
	})
}

func (a *api) getTeam(c *call, actor org.Actor) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewTeam)(a.Teams.Get(c.r.Context(), actor, t))
}

func (a *api) createTeam(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	d := team.Draft{Name: body.Required(o, "name", body.Text), Description: body.Optional(o, "description", body.Text)}
	rules := func() error {
		_, err := team.New("", "", team.Standard, "", d, time.Time{})
		return err
	}
	actor, err := a.authorizeValid(c, o.Err(rules))
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusCreated, viewTeam)(a.Teams.Create(c.r.Context(), actor, d))
}

func (a *api) updateTeam(c *call) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	o, err := c.fields()
	if err != nil {
		return err
	}
	p := team.Patch{Name: body.Field(o, "name", body.Text), Description: body.Field(o, "description", body.Text)}
	rules := func() error {
		_, err := team.Team{}.Apply(p, time.Time{})
		return err
	}
	actor, err := a.authorizeValid(c, o.Err(rules))
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewTeam)(a.Teams.Update(c.r.Context(), actor, t, p))
}

func (a *api) deleteTeam(c *call, actor org.Actor) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	c.deadlines.Extend(deletionTimeout)
	return c.succeedUnless(a.Teams.Delete(c.r.Context(), actor, t))
}

func (a *api) listTeamMembers(c *call) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	q, p, err := c.listing()
	if err != nil {
		return err
	}
	return list(a, c, q, p, keyOfTeamMember, appendViewed(viewTeamMember), func(actor org.Actor, each func(team.Profile) error) error {
		after := org.Position{JoinedAt: p.After.At, User: id.User(p.After.ID)}
		return a.Teams.Members(c.r.Context(), actor, t, after, p.Fetch(), each)
	})
}

func (a *api) addTeamMember(c *call) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	o, err := c.fields()
	if err != nil {
		return err
	}
	user := body.Required(o, "userId", asUser)
	actor, err := a.authorizeValid(c, o.Err())
	if err != nil {
		return err
	}
	return replyWith(c, http.StatusOK, viewTeamMember)(a.Teams.AddMember(c.r.Context(), actor, t, user))
}

func (a *api) removeTeamMember(c *call, actor org.Actor) error {
	t, err := pathID[id.Team](c, "id", "Team")
	if err != nil {
		return err
	}
	user, err := pathID[id.User](c, "userId", "Member")
	if err != nil {
		return err
	}
	return c.succeedUnless(a.Teams.RemoveMember(c.r.Context(), actor, t, user))
}
