package contract

import (
	"errors"
	"slices"
	"testing"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/task"
	"collab/domain/workspace"
)

// Workspaces is the suite of ports.Workspaces.
func Workspaces(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown workspace is not found": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			unknown := someWorkspace(o.ID, w.team(o.ID, by).ID, by)
			resultOf(w.workspaces().Get(w.ctx, o.ID, unknown.ID)).wantNotFound(w)
			w.wantNotFound(w.workspaces().Put(w.ctx, o.ID, unknown))
			w.wantNotFound(w.workspaces().Remove(w.ctx, o.ID, unknown.ID))
			resultOf(w.allWorkspaces(o.ID)).is(w, nil)
		},
		"another organisation's workspace is not found": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			untouched := w.content(other)
			resultOf(w.workspaces().Get(w.ctx, tn.ID, other.workspace.ID)).wantNotFound(w)
			taken := other.workspace
			taken.Org, taken.Team, taken.Name = tn.ID, tn.team.ID, "Never"
			w.wantNotFound(w.workspaces().Put(w.ctx, tn.ID, taken))
			w.wantNotFound(w.workspaces().Remove(w.ctx, tn.ID, other.workspace.ID))
			resultOf(w.allWorkspaces(tn.ID)).is(w, []workspace.Workspace{tn.workspace})
			wantEqual(w, w.content(other), untouched)
		},
		"another organisation cannot replace a workspace": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			taken := someWorkspace(tn.ID, tn.team.ID, tn.owner.ID)
			taken.ID = other.workspace.ID
			if err := w.workspaces().Add(w.ctx, tn.ID, taken); err != nil {
				w.wantConflict(err)
			}
			resultOf(w.workspaces().Get(w.ctx, other.ID, other.workspace.ID)).is(w, other.workspace)
		},
		"a workspace is returned with every field as stored": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			tm, second := w.team(o.ID, by), w.team(o.ID, by)
			full, unset, empty := someWorkspace(o.ID, tm.ID, by), someWorkspace(o.ID, tm.ID, by), someWorkspace(o.ID, tm.ID, by)
			unset.Description, empty.Description = nil, new("")
			for _, s := range []workspace.Workspace{full, unset, empty} {
				w.ok(w.workspaces().Add(w.ctx, o.ID, s))
				resultOf(w.workspaces().Get(w.ctx, o.ID, s.ID)).is(w, s)
			}
			full.Name, full.Description, full.UpdatedAt, full.Team = "New", nil, at(99), second.ID
			w.ok(w.workspaces().Put(w.ctx, o.ID, full))
			resultOf(w.workspaces().Get(w.ctx, o.ID, full.ID)).is(w, full)
			resultOf(w.workspaces().Get(w.ctx, o.ID, unset.ID)).is(w, unset)
			w.wantConflict(w.teams().Remove(w.ctx, o.ID, second.ID))
		},
		"list is ordered by creation, then id": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			tm, second := w.team(o.ID, by), w.team(o.ID, by)
			ids := several[id.Workspace](4)
			add := func(i, created int, in id.Team) workspace.Workspace {
				s := someWorkspace(o.ID, in, by)
				s.ID, s.CreatedAt = ids[i], at(created)
				w.ok(w.workspaces().Add(w.ctx, o.ID, s))
				return s
			}
			d, c, a, b := add(0, 40, tm.ID), add(3, 30, second.ID), add(2, 20, tm.ID), add(1, 30, tm.ID)
			resultOf(w.allWorkspaces(o.ID)).is(w, []workspace.Workspace{a, b, c, d})
		},
		"list returns the existing records in the order of the ids": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			a, b, c := tn.workspace, w.workspace(tn.ID, tn.team.ID, tn.owner.ID), w.workspace(tn.ID, tn.team.ID, tn.owner.ID)
			asked := []id.Workspace{c.ID, fresh[id.Workspace](), a.ID, other.workspace.ID, b.ID, "none"}
			resultOf(w.workspaces().List(w.ctx, tn.ID, asked)).is(w, []workspace.Workspace{c, a, b})
			resultOf(w.workspaces().List(w.ctx, tn.ID, nil)).is(w, nil)
		},
		"a taken id is a conflict": func(w *fixture) {
			tn := w.tenant()
			again := tn.workspace
			again.Name = "Never"
			w.wantConflict(w.workspaces().Add(w.ctx, tn.ID, again))
			resultOf(w.workspaces().Get(w.ctx, tn.ID, again.ID)).is(w, tn.workspace)
		},
		"a workspace needs a team of its organisation": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			for _, in := range []id.Team{fresh[id.Team](), other.team.ID} {
				s := someWorkspace(tn.ID, in, tn.owner.ID)
				w.wantNotFound(w.workspaces().Add(w.ctx, tn.ID, s))
				resultOf(w.workspaces().Get(w.ctx, tn.ID, s.ID)).wantNotFound(w)
				moved := tn.workspace
				moved.Team = in
				w.wantNotFound(w.workspaces().Put(w.ctx, tn.ID, moved))
				resultOf(w.allWorkspaces(tn.ID)).is(w, []workspace.Workspace{tn.workspace})
			}
		},
		"remove deletes the workspace with its tasks and their history, and nothing else": func(w *fixture) {
			tn, other := w.tenant(), w.tenant()
			beside := w.workspace(tn.ID, tn.team.ID, tn.owner.ID)
			stays := w.task(tn.ID, &beside.ID, tn.owner.ID)
			line := w.change(stays)
			was, untouched := w.content(tn), w.content(other)

			w.ok(w.workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))

			resultOf(w.tasks().Get(w.ctx, tn.ID, tn.inside.ID)).wantNotFound(w)
			resultOf(w.historyOf(tn.ID, stays.ID, task.ChangePosition{}, 0)).is(w, []task.Change{line})
			w.wantNotFound(w.workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID))
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
						return w.workspaces().Remove(w.ctx, tn.ID, tn.workspace.ID)
					case 1:
						_, err := w.tasks().Add(w.ctx, tn.ID, late)
						return err
					}
					_, err := w.tasks().Revise(w.ctx, tn.ID, moved.ID, func(t task.Task) (task.Task, error) {
						t.Workspace = &tn.workspace.ID
						return t, nil
					})
					return err
				})
				w.ok(errs[0])
				resultOf(w.tasks().Get(w.ctx, tn.ID, late.ID)).wantNotFound(w)
				if errs[1] != nil {
					w.wantNotFound(errs[1])
				}
				if errs[2] == nil {
					resultOf(w.tasks().Get(w.ctx, tn.ID, moved.ID)).wantNotFound(w)
				} else {
					w.wantNotFound(errs[2])
					resultOf(w.tasks().Get(w.ctx, tn.ID, moved.ID)).is(w, moved)
				}
			}
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org().ID
			by := w.member(o, org.Owner).ID
			s := someWorkspace(o, w.team(o, by).ID, by)
			get := func() workspace.Workspace { return resultOf(w.workspaces().Get(w.ctx, o, s.ID)).must(w) }
			keepsNothing(w, s, func(s workspace.Workspace) error { return w.workspaces().Add(w.ctx, o, s) }, get)
			keepsNothing(w, s, func(s workspace.Workspace) error { return w.workspaces().Put(w.ctx, o, s) },
				get, func() workspace.Workspace { return resultOf(w.allWorkspaces(o)).must(w)[0] })
		},
	}.run(t, open)
}

// Orders is the suite of ports.Orders.
func Orders(t *testing.T, open func(t *testing.T) Opened) {
	set := func(to workspace.Order) func(workspace.Order) (workspace.Order, error) {
		return func(workspace.Order) (workspace.Order, error) { return to, nil }
	}
	suite{
		"a member without an order has an empty one": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			resultOf(w.orders().Get(w.ctx, o.ID, u.ID)).is(w, nil)
			w.ok(w.orders().Update(w.ctx, o.ID, u.ID, func(given workspace.Order) (workspace.Order, error) {
				wantEqual(w, given, nil)
				return nil, nil
			}))
			resultOf(w.orders().Get(w.ctx, o.ID, u.ID)).is(w, nil)
		},
		"an order is one member's in one organisation": func(w *fixture) {
			o, other := w.org(), w.org()
			u, neighbour := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			w.join(other.ID, u.ID, org.Member, at(10))
			w.ok(w.orders().Update(w.ctx, o.ID, u.ID, set(several[id.Workspace](2))))
			resultOf(w.orders().Get(w.ctx, o.ID, neighbour.ID)).is(w, nil)
			resultOf(w.orders().Get(w.ctx, other.ID, u.ID)).is(w, nil)
			w.ok(w.orders().Update(w.ctx, other.ID, u.ID, func(given workspace.Order) (workspace.Order, error) {
				wantEqual(w, given, nil)
				return nil, nil
			}))
			wantEqual(w, len(resultOf(w.orders().Get(w.ctx, o.ID, u.ID)).must(w)), 2)
		},
		"an order is returned as stored, also with removed workspaces": func(w *fixture) {
			tn := w.tenant()
			gone := several[id.Workspace](3)
			order := workspace.Order{gone[2], tn.workspace.ID, gone[0], gone[1]}
			w.ok(w.orders().Update(w.ctx, tn.ID, tn.owner.ID, set(order)))
			resultOf(w.orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, order)
			reversed := slices.Clone(order)
			slices.Reverse(reversed)
			w.ok(w.orders().Update(w.ctx, tn.ID, tn.owner.ID, func(given workspace.Order) (workspace.Order, error) {
				wantEqual(w, given, order)
				return reversed[:2], nil
			}))
			resultOf(w.orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, reversed[:2])
		},
		"an error of fn is returned and nothing is stored": func(w *fixture) {
			tn := w.tenant()
			no := errors.New("no")
			w.wantSameError(w.orders().Update(w.ctx, tn.ID, tn.owner.ID, func(given workspace.Order) (workspace.Order, error) {
				given[0] = fresh[id.Workspace]()
				return append(given, fresh[id.Workspace]()), no
			}), no)
			resultOf(w.orders().Get(w.ctx, tn.ID, tn.owner.ID)).is(w, workspace.Order{tn.workspace.ID})
		},
		"no concurrent update of an order is lost": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			all := several[id.Workspace](concurrent)
			w.allOK(concurrently(concurrent, func(i int) error {
				return w.orders().Update(w.ctx, o.ID, u.ID, func(given workspace.Order) (workspace.Order, error) {
					return append(slices.Clone(given), all[i]), nil
				})
			}))
			got := slices.Sorted(slices.Values(resultOf(w.orders().Get(w.ctx, o.ID, u.ID)).must(w)))
			wantEqual(w, got, all)
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			update := func(to workspace.Order) error { return w.orders().Update(w.ctx, o.ID, u.ID, set(to)) }
			keepsNothing(w, workspace.Order(several[id.Workspace](2)), update, func() workspace.Order { return resultOf(w.orders().Get(w.ctx, o.ID, u.ID)).must(w) })
		},
	}.run(t, open)
}
