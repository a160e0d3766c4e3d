package httpapi

import (
	"net/http"
	"time"

	"collab/adapters/httpapi/body"
	"collab/app/workspaces"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/workspace"
)

type workspaceView struct {
	ID          id.Workspace `json:"id"`
	TeamID      id.Team      `json:"teamId"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	SortOrder   int          `json:"sortOrder"`
	CreatedBy   id.User      `json:"createdBy"`
	CreatedAt   jsonTime     `json:"createdAt"`
	UpdatedAt   jsonTime     `json:"updatedAt"`
}

func viewWorkspace(w workspaces.Sorted) workspaceView {
	return workspaceView{
		ID: w.ID, TeamID: w.Team, Name: w.Name, Description: w.Description, SortOrder: w.SortOrder,
		CreatedBy: w.CreatedBy, CreatedAt: jsonTime(w.CreatedAt), UpdatedAt: jsonTime(w.UpdatedAt),
	}
}

func positionOfWorkspace(w workspaces.Sorted) body.Position {
	return body.Position{Rank: int64(w.SortOrder), ID: string(w.ID)}
}

func (a *api) listWorkspaces(c *call) error {
	q, p, err := c.listQuery("teamId")
	if err != nil {
		return err
	}
	var in id.Team
	if text, given := q.Get("teamId"); given {
		in = body.IDParam[id.Team](text)
	}
	after := workspaces.Position{Index: int(p.After.Rank), ID: id.Workspace(p.After.ID)}
	try := func(actor org.Actor, each func(workspaces.Sorted) error) error {
		return a.Workspaces.ListUnconfirmed(c.r.Context(), actor, in, after, p.Fetch(), each)
	}
	read := func(actor org.Actor, each func(workspaces.Sorted) error) error {
		return a.Workspaces.List(c.r.Context(), actor, in, after, p.Fetch(), each)
	}
	return listUnconfirmed(a, c, q, p, positionOfWorkspace, viewAppender(viewWorkspace), try, read)
}

func readWorkspaceDraft(o *body.Fields) (workspace.Draft, error) {
	d := workspace.Draft{
		Name: body.Required(o, "name", body.Text), Team: body.Required(o, "teamId", asTeam),
		Description: body.Optional(o, "description", body.Text),
	}
	return d, o.Err(func() error { return errorOf(workspace.New("", "", "", d, time.Time{})) })
}

func (a *api) createWorkspace(c *call, actor org.Actor, d workspace.Draft) error {
	d.ID = id.Workspace(c.recordID)
	return replyWith(c, http.StatusCreated, viewWorkspace)(createOrGet(c, actor, d, a.Workspaces.Create, a.Workspaces.Get))
}

func readWorkspacePatch(o *body.Fields) (workspace.Patch, error) {
	p := workspace.Patch{Name: body.Field(o, "name", body.Text), Description: body.Field(o, "description", body.Text)}
	return p, o.Err(func() error { return errorOf(workspace.Workspace{}.Apply(p, time.Time{})) })
}

// deletionTimeout is the additional time for deleting any number of records.
const deletionTimeout = 10 * time.Minute

func (a *api) deleteWorkspace(c *call, actor org.Actor, w id.Workspace) error {
	c.deadlines.Extend(deletionTimeout)
	return c.succeedUnless(a.Workspaces.Delete(c.r.Context(), actor, w))
}

func readWorkspaceOrder(o *body.Fields) ([]id.Workspace, error) {
	order := body.Operands[id.Workspace](o, "order", "Workspace")
	return order, o.Err()
}
