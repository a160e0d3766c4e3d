package contract

import (
	"errors"
	"slices"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// Workspaces is the suite of ports.Workspaces.
func Workspaces(t *testing.T, open func(t *testing.T) Opened) {
	owned[workspace.Workspace, id.Workspace]{
		of:          func(k ports.Work) collection[workspace.Workspace, id.Workspace] { return k.Workspaces() },
		some:        func(tn tenant) workspace.Workspace { return someWorkspace(tn.ID, tn.team.ID, tn.owner.ID) },
		there:       func(tn tenant) workspace.Workspace { return tn.workspace },
		all:         (*fixture).allWorkspaces,
		change:      func(tn tenant, v *workspace.Workspace) { v.Name, v.UpdatedAt, v.Team = "New", at(99), tn.shared.ID },
		id:          func(v *workspace.Workspace) *id.Workspace { return &v.ID },
		created:     func(v *workspace.Workspace) *time.Time { return &v.CreatedAt },
		description: func(v *workspace.Workspace) **string { return &v.Description },
	}.suite().and(suite{
		"a team cannot be removed once a workspace was moved to it": func(w *fixture) {
			tn := w.tenant()
			into := w.team(tn.ID, tn.owner.ID)
			moved := tn.workspace
			moved.Team = into.ID
			w.ok(w.Workspaces().Put(w.ctx, tn.ID, moved))
			w.wantConflict(w.Teams().Remove(w.ctx, tn.ID, into.ID))
		},
		"a workspace needs a team of its organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for _, in := range []id.Team{fresh[id.Team](), other.team.ID} {
				s := someWorkspace(tn.ID, in, tn.owner.ID)
				w.wantNotFound(w.Workspaces().Add(w.ctx, tn.ID, s))
				resultOf(w.Workspaces().Get(w.ctx, tn.ID, s.ID)).wantNotFound(w)
				moved := tn.workspace
				moved.Team = in
				w.wantNotFound(w.Workspaces().Put(w.ctx, tn.ID, moved))
				resultOf(w.allWorkspaces(tn.ID)).is(w, []workspace.Workspace{tn.workspace})
			}
		},
		"remove deletes the workspace with its tasks and their history, and nothing else": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			beside := w.workspace(tn.ID, tn.team.ID, tn.owner.ID)
			stays := w.task(tn.ID, &beside.ID, tn.owner.ID)
			line := w.change(stays)
			was, untouched := w.content(tn), w.content(other)

			w.ok(w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))

			resultOf(w.Tasks().Get(w.ctx, tn.ID, tn.inside.ID)).wantNotFound(w)
			resultOf(w.historyOf(tn.ID, stays.ID, id.Position[id.Entry]{}, 0)).is(w, []task.Change{line})
			w.wantNotFound(w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))
			left := w.content(tn)
			want := was
			want.Workspaces = []workspace.Workspace{beside}
			want.Tasks = []task.Task{tn.unplaced, stays}
			want.Inside = nil
			left.Order, want.Order = nil, nil // may go on naming what is gone
			wantEqual(w, left, want)
			wantEqual(w, w.content(other), untouched)
		},
		"a removed workspace leaves no task that was added concurrently": func(w *fixture) {
			for range 8 {
				tn := w.tenant()
				late := someTask(tn.ID, &tn.workspace.ID, tn.owner.ID)
				moved := tn.unplaced
				errs := concurrently(3, func(i int) error {
					switch i {
					case 0:
						return w.Workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID)
					case 1:
						return must.ErrorOf(w.Tasks().Add(w.ctx, tn.ID, late))
					}
					return must.ErrorOf(w.Tasks().Revise(w.ctx, tn.ID, moved.ID, func(t task.Task) (task.Task, error) {
						t.Workspace = &tn.workspace.ID
						return t, nil
					}))
				})
				w.ok(errs[0])
				resultOf(w.Tasks().Get(w.ctx, tn.ID, late.ID)).wantNotFound(w)
				if errs[1] != nil {
					w.wantNotFound(errs[1])
				}
				if errs[2] == nil {
					resultOf(w.Tasks().Get(w.ctx, tn.ID, moved.ID)).wantNotFound(w)
				} else {
					w.wantNotFound(errs[2])
					resultOf(w.Tasks().Get(w.ctx, tn.ID, moved.ID)).is(w, moved)
				}
			}
		},
	}).run(t, open)
}

// Orders is the suite of ports.Orders.
func Orders(t *testing.T, open func(t *testing.T) Opened) {
	set := func(to workspace.Order) func(workspace.Order) (workspace.Order, error) {
		return func(workspace.Order) (workspace.Order, error) { return to, nil }
	}
	suite{
		"an order is one member's in one organisation, and empty by default": func(w *fixture) {
			o, other := w.org(), w.org()
			u, neighbour := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			w.join(other.ID, u.ID, org.Member, at(10))
			w.ok(w.Orders().Update(w.ctx, o.ID, u.ID, set(several[id.Workspace](2))))
			resultOf(w.Orders().Get(w.ctx, o.ID, neighbour.ID)).is(w, nil)
			resultOf(w.Orders().Get(w.ctx, other.ID, u.ID)).is(w, nil)
			w.ok(w.Orders().Update(w.ctx, other.ID, u.ID, func(given workspace.Order) (workspace.Order, error) {
				wantEqual(w, given, nil)
				return nil, nil
			}))
			resultOf(w.Orders().Get(w.ctx, other.ID, u.ID)).is(w, nil)
			wantEqual(w, len(must.Do(w.Orders().Get(w.ctx, o.ID, u.ID)).Or(w)), 2)
		},
		"an order is returned as stored, also with removed workspaces": func(w *fixture) {
			tn := w.tenant()
			gone := several[id.Workspace](3)
			order := workspace.Order{gone[2], tn.workspace.ID, gone[0], gone[1]}
			w.ok(w.Orders().Update(w.ctx, tn.ID, tn.owner.ID, set(order)))
			resultOf(w.Orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, order)
			reversed := slices.Clone(order)
			slices.Reverse(reversed)
			w.ok(w.Orders().Update(w.ctx, tn.ID, tn.owner.ID, func(given workspace.Order) (workspace.Order, error) {
				wantEqual(w, given, order)
				return reversed[:2], nil
			}))
			resultOf(w.Orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, reversed[:2])
		},
		"an error of fn is returned and nothing is stored": func(w *fixture) {
			tn := w.tenant()
			failure := errors.New("failure")
			w.wantSameError(w.Orders().Update(w.ctx, tn.ID, tn.owner.ID, func(given workspace.Order) (workspace.Order, error) {
				given[0] = fresh[id.Workspace]()
				return append(given, fresh[id.Workspace]()), failure
			}), failure)
			resultOf(w.Orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, workspace.Order{tn.workspace.ID})
		},
		"no concurrent update of an order is lost": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			all := several[id.Workspace](concurrent)
			w.allOK(concurrently(concurrent, func(i int) error {
				return w.Orders().Update(w.ctx, o.ID, u.ID, func(given workspace.Order) (workspace.Order, error) {
					return append(slices.Clone(given), all[i]), nil
				})
			}))
			got := slices.Sorted(slices.Values(must.Do(w.Orders().Get(w.ctx, o.ID, u.ID)).Or(w)))
			wantEqual(w, got, all)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			update := func(to workspace.Order) error { return w.Orders().Update(w.ctx, o.ID, u.ID, set(to)) }
			keepsNothing(w, workspace.Order(several[id.Workspace](2)), update, func() workspace.Order { return must.Do(w.Orders().Get(w.ctx, o.ID, u.ID)).Or(w) })
		},
	}.run(t, open)
}
