package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"collab/app/access"
	"collab/app/objects"
	"collab/domain/chat"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	stored "collab/domain/object"
	"collab/domain/org"
	"collab/domain/patch"
	"collab/domain/plan"
	"collab/domain/session"
	"collab/domain/task"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// TestTransactionsCheckRightsAgain ends an actor's rights after it was authorized, as for a request
// that waits for a lock: the records in the transaction decide.
func TestTransactionsCheckRightsAgain(t *testing.T) {
	ctx := t.Context()
	for about, change := range map[string]struct {
		do   func(w *harness.Deployment, ada, ben org.Actor, crew id.Team) error
		want fault.Kind // of what is of the team
		work fault.Kind // of what is everybody's; Internal: it is done
	}{
		"removed from the team": {func(w *harness.Deployment, ada, ben org.Actor, crew id.Team) error {
			return w.Teams.RemoveMember(ctx, ada, crew, ben.User)
		}, fault.NotFound, fault.Internal},
		"removed from the organisation": {func(w *harness.Deployment, ada, ben org.Actor, _ id.Team) error {
			return w.Members.Remove(ctx, ada, ben.User)
		}, fault.Forbidden, fault.Forbidden},
		"made a VIEWER": {func(w *harness.Deployment, ada, ben org.Actor, _ id.Team) error {
			return must.ErrorOf(w.Members.ChangeRole(ctx, ada, ben.User, "VIEWER"))
		}, fault.Forbidden, fault.Forbidden},
		"signed out": {func(w *harness.Deployment, ada, ben org.Actor, _ id.Team) error {
			return w.Access.EndSession(ctx, ben, "laptop")
		}, fault.Unauthenticated, fault.Unauthenticated},
	} {
		t.Run(about, func(t *testing.T) {
			w := must.Do(harness.NewDeployment(start)).Or(t)
			join := func(user string, role org.Role) org.Actor {
				return must.Do(w.Join(ctx, "org_office", user, role)).Or(t)
			}
			again := func(a org.Actor) org.Actor {
				return must.Do(w.Access.Reauthorize(ctx, a)).Or(t)
			}
			ada, ben := join("ada", org.Owner), join("ben", org.Member)
			sub := must.Do(plan.Unsubscribed(ada.Org).Granted(plan.Grant{Plan: plan.Premium}, w.Clock.Now())).Or(t)
			must.NoError(t, w.Store.Directory().Subscriptions().Put(ctx, ada.Org, sub))
			crew := must.Do(w.Teams.Create(ctx, ada, team.Draft{Name: "Crew"})).Or(t)
			ada = again(ada)
			open := must.Do(w.Teams.Create(ctx, ada, team.Draft{Name: "Open"})).Or(t)
			for _, in := range []id.Team{crew.ID, open.ID} {
				ada = again(ada)
				must.Do(w.Teams.AddMember(ctx, ada, in, ben.User)).Or(t)
			}
			ada = again(ada)
			desk := must.Do(w.Workspaces.Create(ctx, ada, workspace.Draft{Name: "Desk", Team: crew.ID})).Or(t)
			ada = again(ada)
			made := must.Do(w.Tasks.Create(ctx, ada, task.Draft{Title: "Secret", Workspace: &desk.ID})).Or(t)
			free := must.Do(w.Tasks.Create(ctx, ada, task.Draft{Title: "Everybody's"})).Or(t)
			content := func() *objects.Upload { return &objects.Upload{Content: strings.NewReader("x"), Size: 1} }
			file := must.Do(w.Objects.SaveMemory(ctx, ada, desk.ID, "notes.md", content())).Or(t)

			var tools [3]connector.Instance
			for i := range tools {
				tools[i] = must.Do(w.Connectors.Create(ctx, ada, connector.Draft{Provider: "search"})).Or(t)
				must.Do(w.Connectors.StoreCredentials(ctx, ada, tools[i].ID, `{"apiKey":"k"}`, map[string]string{"apiKey": "k"})).Or(t)
			}
			notes := must.Do(w.Connectors.Create(ctx, ada, connector.Draft{Provider: "notes"})).Or(t)

			must.NoError(t, w.Store.Journal().Sessions().Put(ctx, session.Begin(session.Issue("laptop", ben.User, ben.Org, ben.Role, start), session.Client{}, start)))
			ben = again(ben)
			must.NoError(t, change.do(w, ada, ben, crew.ID))
			ctx := access.NewContext(ctx, access.Request{Session: "laptop"})

			for name, do := range map[string]func() error{
				"puts themselves back": func() error { _, err := w.Teams.AddMember(ctx, ben, crew.ID, ben.User); return err },
				"renames the team": func() error {
					return must.ErrorOf(w.Teams.Update(ctx, ben, crew.ID, team.Patch{Name: patch.Value("Mine")}))
				},
				"removes another":  func() error { return w.Teams.RemoveMember(ctx, ben, crew.ID, ada.User) },
				"deletes the team": func() error { return w.Teams.Delete(ctx, ben, crew.ID) },
				"makes a workspace there": func() error {
					return must.ErrorOf(w.Workspaces.Create(ctx, ben, workspace.Draft{Name: "Mine", Team: crew.ID}))
				},
				"moves the workspace": func() error { _, err := w.Workspaces.Move(ctx, ben, desk.ID, open.ID); return err },
				"renames the workspace": func() error {
					return must.ErrorOf(w.Workspaces.Update(ctx, ben, desk.ID, workspace.Patch{Name: patch.Value("Mine")}))
				},
				"deletes the workspace": func() error { return w.Workspaces.Delete(ctx, ben, desk.ID) },
				"changes the task": func() error {
					return must.ErrorOf(w.Tasks.Update(ctx, ben, made.ID, nil, task.Patch{Title: patch.Value("Mine")}, nil))
				},
				"makes a task there": func() error {
					return must.ErrorOf(w.Tasks.Create(ctx, ben, task.Draft{Title: "Mine", Workspace: &desk.ID}))
				},
				"deletes the task": func() error { return w.Tasks.Delete(ctx, ben, made.ID, nil) },
				"reorders the task": func() error {
					return w.Tasks.Reorder(ctx, ben, task.Order{Tasks: []id.Task{made.ID}}, func(task.Task) error { return nil })
				},
				"replaces the file":  func() error { _, err := w.Objects.Replace(ctx, ben, file.ID, content()); return err },
				"deletes the file":   func() error { return w.Objects.Delete(ctx, ben, file.ID, nil) },
				"orders it":          func() error { return w.Workspaces.SetOrder(ctx, ben, []id.Workspace{desk.ID}) },
				"saves its memory":   func() error { _, err := w.Objects.SaveMemory(ctx, ben, desk.ID, "notes.md", content()); return err },
				"makes a file there": func() error { _, err := w.Objects.SaveMemory(ctx, ben, desk.ID, "new.md", content()); return err },
			} {
				want := change.want
				if err := do(); !fault.Is(err, want) && !(want == fault.NotFound && fault.Is(err, fault.Invalid)) {
					t.Errorf("who was %s %s: %v", about, name, err)
				}
			}
			for name, do := range map[string]func() error{
				"makes a team": func() error { _, err := w.Teams.Create(ctx, ben, team.Draft{Name: "Mine"}); return err },
				"changes a task": func() error {
					return must.ErrorOf(w.Tasks.Update(ctx, ben, free.ID, nil, task.Patch{Title: patch.Value("Ours")}, nil))
				},
				"makes a task":      func() error { return must.ErrorOf(w.Tasks.Create(ctx, ben, task.Draft{Title: "Mine"})) },
				"makes a connector": func() error { return must.ErrorOf(w.Connectors.Create(ctx, ben, connector.Draft{Provider: "search"})) },
				"gives credentials": func() error {
					_, err := w.Connectors.StoreCredentials(ctx, ben, tools[0].ID, `{"apiKey":"k"}`, map[string]string{"apiKey": "k"})
					return err
				},
				"reads credentials":                func() error { _, err := w.Connectors.Read(ctx, ben, tools[1].ID); return err },
				"authorises a connector":           func() error { _, err := w.Connectors.Start(ctx, ben, "", "notes"); return err },
				"authorises an existing connector": func() error { _, err := w.Connectors.Start(ctx, ben, notes.ID, ""); return err },
				"deletes the connector":            func() error { return w.Connectors.Delete(ctx, ben, tools[2].ID) },
				"asks a model": func() error {
					call, err := w.Chats.Admit(ctx, ben, chat.Request{Message: "Hello"})
					if err == nil {
						call.Run(ctx, &chatClient{})
					}
					return err
				},
				"saves the org memory": func() error { _, err := w.Objects.Save(ctx, ben, stored.OrgMemory, content()); return err },
			} {
				if err := do(); (err == nil) != (change.work == fault.Internal) || err != nil && !fault.Is(err, change.work) {
					t.Errorf("who was %s %s: %v", about, name, err)
				}
			}
			if now, err := w.Tasks.Get(ctx, again(ada), made.ID); err != nil || now.Title != "Secret" || now.Version != made.Version {
				t.Errorf("the task is %+v, %v", now, err)
			}
		})
	}
}

// TestAReorderingShowsWhatTheActorSeesMeanwhile adds an actor to a team after authorization.
func TestAReorderingShowsWhatTheActorSeesMeanwhile(t *testing.T) {
	ctx := t.Context()
	w := core(t)
	ada := newOrganisation(t, w)
	crew := must.Do(w.Teams.Create(ctx, ada, team.Draft{Name: "Crew"})).Or(t)
	ben := must.Do(w.Join(ctx, "org_office", "ben", org.Member)).Or(t)
	ada = must.Do(w.Access.Reauthorize(ctx, ada)).Or(t)
	desk := must.Do(w.Workspaces.Create(ctx, ada, workspace.Draft{Name: "Desk", Team: crew.ID})).Or(t)
	ada = must.Do(w.Access.Reauthorize(ctx, ada)).Or(t)
	made := must.Do(w.Tasks.Create(ctx, ada, task.Draft{Title: "Theirs", Workspace: &desk.ID})).Or(t)
	must.Do(w.Teams.AddMember(ctx, ada, crew.ID, ben.User)).Or(t)
	var shown []id.Task
	must.NoError(t, w.Tasks.Reorder(ctx, ben, task.Order{Tasks: []id.Task{made.ID}}, func(is task.Task) error {
		shown = append(shown, is.ID)
		return nil
	}))
	must.Equal(t, []id.Task{made.ID}, shown)
}

// changingStore changes the organisation's epoch before each transaction.
type changingStore struct {
	ports.Store
	org id.Org
}

func (s changingStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	err := s.Store.Atomic(ctx, func(r ports.Records) error { return must.ErrorOf(r.Directory().Organisations().Lock(ctx, s.org)) })
	return errors.Join(err, s.Store.Atomic(ctx, fn))
}

func TestATransactionSucceedsWhileTheEpochKeepsChanging(t *testing.T) {
	w := core(t)
	ada := newOrganisation(t, w)
	w.Access.Store = changingStore{w.Access.Store, ada.Org}
	runs := 0
	must.NoError(t, w.Access.Atomic(t.Context(), ada, func(ports.Records, org.Actor) error {
		runs++
		return nil
	}))
	must.Is(t, 2, runs)
}
