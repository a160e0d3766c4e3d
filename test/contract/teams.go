package contract

import (
	"slices"
	"testing"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
)

// Teams is the suite of ports.Teams.
func Teams(t *testing.T, open func(t *testing.T) Opened) {
	suite{
		"an unknown team is not found": func(w *fixture) {
			o := w.org()
			unknown := someTeam(o.ID, team.Standard, fresh[id.User]())
			resultOf(w.teams().Get(w.ctx, o.ID, unknown.ID)).wantNotFound(w)
			w.wantNotFound(w.teams().Put(w.ctx, o.ID, unknown))
			w.wantNotFound(w.teams().Remove(w.ctx, o.ID, unknown.ID))
			resultOf(w.allTeams(o.ID)).is(w, nil)
		},
		"another organisation's team is not found": func(w *fixture) {
			o, other := w.org(), w.org()
			theirs := w.team(other.ID, w.member(other.ID, org.Owner).ID)
			resultOf(w.teams().Get(w.ctx, o.ID, theirs.ID)).wantNotFound(w)
			taken := theirs
			taken.Org, taken.Name = o.ID, "Never"
			w.wantNotFound(w.teams().Put(w.ctx, o.ID, taken))
			w.wantNotFound(w.teams().Remove(w.ctx, o.ID, theirs.ID))
			resultOf(w.allTeams(o.ID)).is(w, nil)
			resultOf(w.teams().Get(w.ctx, other.ID, theirs.ID)).is(w, theirs)
		},
		"a team is returned with every field as stored": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			full, unset, empty := someTeam(o.ID, team.Standard, by), someTeam(o.ID, team.Shared, by), someTeam(o.ID, team.Personal, by)
			unset.Description, empty.Description = nil, new("")
			for _, tm := range []team.Team{full, unset, empty} {
				w.ok(w.teams().Add(w.ctx, o.ID, tm))
				resultOf(w.teams().Get(w.ctx, o.ID, tm.ID)).is(w, tm)
			}
			full.Name, full.Description, full.UpdatedAt = "New", nil, at(99)
			w.ok(w.teams().Put(w.ctx, o.ID, full))
			resultOf(w.teams().Get(w.ctx, o.ID, full.ID)).is(w, full)
			full.Description = new("")
			w.ok(w.teams().Put(w.ctx, o.ID, full))
			resultOf(w.teams().Get(w.ctx, o.ID, full.ID)).is(w, full)
			resultOf(w.teams().Get(w.ctx, o.ID, unset.ID)).is(w, unset)
		},
		"list is ordered by creation, then id": func(w *fixture) {
			o, other := w.org(), w.org()
			by := w.member(o.ID, org.Owner).ID
			w.team(other.ID, w.member(other.ID, org.Owner).ID)
			ids := several[id.Team](4)
			add := func(i, created int) team.Team {
				tm := someTeam(o.ID, team.Standard, by)
				tm.ID, tm.CreatedAt = ids[i], at(created)
				w.ok(w.teams().Add(w.ctx, o.ID, tm))
				return tm
			}
			d, c, a, b := add(0, 30), add(3, 20), add(2, 10), add(1, 20)
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{a, b, c, d})
		},
		"list returns the existing records in the order of the ids": func(w *fixture) {
			o, other := w.org(), w.org()
			by := w.member(o.ID, org.Owner).ID
			a, b, c := w.team(o.ID, by), w.team(o.ID, by), w.team(o.ID, by)
			theirs := w.team(other.ID, w.member(other.ID, org.Owner).ID)
			resultOf(w.teams().List(w.ctx, o.ID, []id.Team{c.ID, fresh[id.Team](), a.ID, theirs.ID, b.ID, "none"})).is(w, []team.Team{c, a, b})
			resultOf(w.teams().List(w.ctx, o.ID, nil)).is(w, nil)
		},
		"a taken id is a conflict": func(w *fixture) {
			o := w.org()
			there := w.team(o.ID, w.member(o.ID, org.Owner).ID)
			again := there
			again.Name = "Never"
			w.wantConflict(w.teams().Add(w.ctx, o.ID, again))
			resultOf(w.teams().Get(w.ctx, o.ID, there.ID)).is(w, there)
		},
		"another organisation cannot replace a team": func(w *fixture) {
			o, other := w.org(), w.org()
			theirs := w.team(other.ID, w.member(other.ID, org.Owner).ID)
			taken := someTeam(o.ID, team.Standard, w.member(o.ID, org.Owner).ID)
			taken.ID = theirs.ID
			if err := w.teams().Add(w.ctx, o.ID, taken); err != nil {
				w.wantConflict(err)
			}
			resultOf(w.teams().Get(w.ctx, other.ID, theirs.ID)).is(w, theirs)
		},
		"an organisation has one shared team": func(w *fixture) {
			o, other := w.org(), w.org()
			by, second := w.member(o.ID, org.Owner).ID, w.member(o.ID, org.Owner).ID
			first := someTeam(o.ID, team.Shared, by)
			w.ok(w.teams().Add(w.ctx, o.ID, first))
			w.wantConflict(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, by)))
			w.wantConflict(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, second)))
			w.ok(w.teams().Add(w.ctx, other.ID, someTeam(other.ID, team.Shared, by)))
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{first})
		},
		"a member has one personal team in an organisation": func(w *fixture) {
			o, other := w.org(), w.org()
			by, second := w.member(o.ID, org.Owner).ID, w.member(o.ID, org.Owner).ID
			w.ok(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Personal, by)))
			w.wantConflict(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Personal, by)))
			w.ok(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Personal, second)))
			w.ok(w.teams().Add(w.ctx, other.ID, someTeam(other.ID, team.Personal, by)))
			w.ok(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Standard, by)))
			w.ok(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Standard, by)))
			wantEqual(w, len(resultOf(w.allTeams(o.ID)).must(w)), 4)
		},
		"of concurrent additions of a shared team one succeeds": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			teams := make([]team.Team, concurrent)
			winner := w.wantOneSuccess(concurrently(concurrent, func(i int) error {
				teams[i] = someTeam(o.ID, team.Shared, by)
				return w.teams().Add(w.ctx, o.ID, teams[i])
			}), fault.Conflict)
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{teams[winner]})
		},
		"of concurrent transactions that add a shared team one is committed": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			w.wantOneSuccess(concurrently(concurrent, func(int) error {
				shared := someTeam(o.ID, team.Shared, by)
				inside := someWorkspace(o.ID, shared.ID, by)
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := r.Work().Teams().Add(w.ctx, o.ID, shared); err != nil {
						return err
					}
					return r.Work().Workspaces().Add(w.ctx, o.ID, inside)
				})
			}), fault.Conflict)
			wantEqual(w, len(resultOf(w.allTeams(o.ID)).must(w)), 1)
			wantEqual(w, len(resultOf(w.allWorkspaces(o.ID)).must(w)), 1)
		},
		"remove deletes the team with its member records, and nothing else": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			gone, stays := w.team(o.ID, by), w.team(o.ID, by)
			for _, tm := range []team.Team{gone, stays} {
				w.ok(drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: by, JoinedAt: at(22)})))
			}
			w.ok(w.teams().Remove(w.ctx, o.ID, gone.ID))
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{stays})
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, by)).is(w, []id.Team{stays.ID})
			w.wantNotFound(w.teams().Remove(w.ctx, o.ID, gone.ID))
			w.ok(w.teams().Add(w.ctx, o.ID, gone))
			resultOf(w.inTeam(o.ID, gone.ID)).is(w, nil)
		},
		"the shared team can be added again after its removal": func(w *fixture) {
			o := w.org()
			shared := someTeam(o.ID, team.Shared, w.member(o.ID, org.Owner).ID)
			w.ok(w.teams().Add(w.ctx, o.ID, shared))
			w.ok(w.teams().Remove(w.ctx, o.ID, shared.ID))
			w.ok(w.teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, shared.CreatedBy)))
		},
		"a team with workspaces cannot be removed": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			tm := w.team(o.ID, by)
			w.ok(drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: by, JoinedAt: at(22)})))
			inside := w.workspace(o.ID, tm.ID, by)
			w.wantConflict(w.teams().Remove(w.ctx, o.ID, tm.ID))
			resultOf(w.teams().Get(w.ctx, o.ID, tm.ID)).is(w, tm)
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, by)).is(w, []id.Team{tm.ID})
			w.ok(w.workspaces().Remove(w.ctx, o.ID, inside.ID))
			w.ok(w.teams().Remove(w.ctx, o.ID, tm.ID))
		},
		"a team is not removed while a workspace is added to it": func(w *fixture) {
			for range 8 {
				o := w.org()
				by := w.member(o.ID, org.Owner).ID
				tm := w.team(o.ID, by)
				inside := someWorkspace(o.ID, tm.ID, by)
				errs := concurrently(2, func(i int) error {
					return w.store.Atomic(w.ctx, func(r ports.Records) error {
						if _, err := r.Directory().Organisations().Lock(w.ctx, o.ID); err != nil {
							return err
						}
						if i == 0 {
							return r.Work().Teams().Remove(w.ctx, o.ID, tm.ID)
						}
						return r.Work().Workspaces().Add(w.ctx, o.ID, inside)
					})
				})
				if errs[0] == nil {
					w.wantNotFound(errs[1])
					resultOf(w.allWorkspaces(o.ID)).is(w, nil)
				} else {
					w.wantConflict(errs[0])
					w.ok(errs[1])
					resultOf(w.allWorkspaces(o.ID)).is(w, []workspace.Workspace{inside})
				}
			}
		},
		"arguments and results belong to the caller": func(w *fixture) {
			o := w.org().ID
			tm := someTeam(o, team.Standard, w.member(o, org.Owner).ID)
			get := func() team.Team { return resultOf(w.teams().Get(w.ctx, o, tm.ID)).must(w) }
			keepsNothing(w, tm, func(tm team.Team) error { return w.teams().Add(w.ctx, o, tm) }, get)
			keepsNothing(w, tm, func(tm team.Team) error { return w.teams().Put(w.ctx, o, tm) },
				get, func() team.Team { return resultOf(w.allTeams(o)).must(w)[0] })
		},
	}.run(t, open)
}

// TeamMembers is the suite of ports.TeamMembers.
func TeamMembers(t *testing.T, open func(t *testing.T) Opened) {
	put := func(w *fixture, tm team.Team, u org.User, joined int) team.Profile {
		w.Helper()
		m := team.Member{Team: tm.ID, User: u.ID, JoinedAt: at(joined)}
		w.ok(drop(w.teamMembers().Put(w.ctx, tm.Org, m)))
		return team.Profile{Member: m, Person: u}
	}
	suite{
		"an unknown team has no members and gets none": func(w *fixture) {
			o := w.org()
			u, unknown := w.member(o.ID, org.Member).ID, fresh[id.Team]()
			list, err := w.inTeam(o.ID, unknown)
			wantNone(w, list, err)
			resultOf(w.teamMembers().Get(w.ctx, o.ID, unknown, u)).wantNotFound(w)
			w.wantNotFound(drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: unknown, User: u, JoinedAt: at(1)})))
			w.wantNotFound(w.teamMembers().Remove(w.ctx, o.ID, unknown, u))
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, u)).is(w, nil)
			w.ok(w.teamMembers().RemoveUser(w.ctx, o.ID, u))
		},
		"another organisation's team is not found": func(w *fixture) {
			o, other := w.org(), w.org()
			u := w.member(other.ID, org.Owner)
			w.join(o.ID, u.ID, org.Owner, at(10))
			theirs := w.team(other.ID, u.ID)
			p := put(w, theirs, u, 22)

			list, err := w.inTeam(o.ID, theirs.ID)
			wantNone(w, list, err)
			resultOf(w.teamMembers().Get(w.ctx, o.ID, theirs.ID, u.ID)).wantNotFound(w)
			w.wantNotFound(drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: theirs.ID, User: u.ID, JoinedAt: at(1)})))
			w.wantNotFound(drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: theirs.ID, User: w.member(o.ID, org.Member).ID, JoinedAt: at(1)})))
			w.wantNotFound(w.teamMembers().Remove(w.ctx, o.ID, theirs.ID, u.ID))
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, nil)
			w.ok(w.teamMembers().RemoveUser(w.ctx, o.ID, u.ID))
			resultOf(w.inTeam(other.ID, theirs.ID)).is(w, []team.Profile{p})
		},
		"list is ordered by time of joining, then user id": func(w *fixture) {
			o := w.org()
			var users []org.User
			for range 4 {
				users = append(users, w.member(o.ID, org.Member))
			}
			tm, beside := w.team(o.ID, users[0].ID), w.team(o.ID, users[0].ID)
			d, c, a, b := put(w, tm, users[0], 30), put(w, tm, users[3], 20), put(w, tm, users[2], 10), put(w, tm, users[1], 20)
			put(w, beside, users[0], 1)
			list := func(after org.Position, limit int, each func(team.Profile) error) error {
				return w.teamMembers().List(w.ctx, o.ID, tm.ID, after, limit, each)
			}
			pages(w, []team.Profile{a, b, c, d}, func(p team.Profile) org.Position { return org.Position{JoinedAt: p.JoinedAt, User: p.User} },
				func(after org.Position, limit int) ([]team.Profile, error) {
					return collected(func(each func(team.Profile) error) error { return list(after, limit, each) })
				})
			wantStop(w, func(each func(team.Profile) error) error { return list(org.Position{}, 0, each) })
		},
		"put returns the team's number of members": func(w *fixture) {
			o := w.org()
			u, second := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			tm, beside := w.team(o.ID, u.ID), w.team(o.ID, u.ID)
			put(w, beside, u, 20)
			for _, step := range []struct {
				user    org.User
				members int
			}{{u, 1}, {second, 2}, {u, 2}} {
				resultOf(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: step.user.ID, JoinedAt: at(20)})).is(w, step.members)
			}
		},
		"put does not change an existing member": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			tm := w.team(o.ID, u.ID)
			first := put(w, tm, u, 20)
			resultOf(w.teamMembers().Get(w.ctx, o.ID, tm.ID, u.ID)).is(w, first.Member)
			put(w, tm, u, 99)
			resultOf(w.teamMembers().Get(w.ctx, o.ID, tm.ID, u.ID)).is(w, first.Member)
			resultOf(w.inTeam(o.ID, tm.ID)).is(w, []team.Profile{first})
		},
		"the same member is added concurrently": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			tm := w.team(o.ID, u.ID)
			w.allOK(concurrently(concurrent, func(int) error {
				return drop(w.teamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: u.ID, JoinedAt: at(20)}))
			}))
			wantEqual(w, len(resultOf(w.inTeam(o.ID, tm.ID)).must(w)), 1)
		},
		"remove removes one member from one team": func(w *fixture) {
			o := w.org()
			u, stays := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			tm, beside := w.team(o.ID, u.ID), w.team(o.ID, u.ID)
			put(w, tm, u, 20)
			put(w, beside, u, 20)
			p := put(w, tm, stays, 20)
			w.ok(w.teamMembers().Remove(w.ctx, o.ID, tm.ID, u.ID))
			w.wantNotFound(w.teamMembers().Remove(w.ctx, o.ID, tm.ID, u.ID))
			resultOf(w.inTeam(o.ID, tm.ID)).is(w, []team.Profile{p})
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, []id.Team{beside.ID})
		},
		"ofUser returns the teams that the user was added to": func(w *fixture) {
			o, other := w.org(), w.org()
			u := w.member(o.ID, org.Member)
			w.join(other.ID, u.ID, org.Member, at(10))
			a, b, theirs := w.team(o.ID, u.ID), w.team(o.ID, u.ID), w.team(other.ID, u.ID)
			w.team(o.ID, u.ID)
			put(w, b, u, 20)
			put(w, a, u, 30)
			put(w, theirs, u, 20)
			got := resultOf(w.teamMembers().OfUser(w.ctx, o.ID, u.ID)).must(w)
			slices.Sort(got)
			wantEqual(w, got, []id.Team{a.ID, b.ID})
		},
		"removeUser keeps only the user's own personal team": func(w *fixture) {
			o, other := w.org(), w.org()
			u, neighbour := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			w.join(other.ID, u.ID, org.Member, at(10))
			personal := func(o id.Org, by org.User) team.Team {
				tm := someTeam(o, team.Personal, by.ID)
				w.ok(w.teams().Add(w.ctx, o, tm))
				return tm
			}
			own, foreign, standard, theirs := personal(o.ID, u), personal(o.ID, neighbour), w.team(o.ID, u.ID), w.team(other.ID, u.ID)
			for _, tm := range []team.Team{own, foreign, standard, theirs} {
				put(w, tm, u, 20)
			}
			p := put(w, standard, neighbour, 20)

			w.ok(w.teamMembers().RemoveUser(w.ctx, o.ID, u.ID))
			resultOf(w.teamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, []id.Team{own.ID})
			resultOf(w.teamMembers().OfUser(w.ctx, other.ID, u.ID)).is(w, []id.Team{theirs.ID})
			resultOf(w.inTeam(o.ID, standard.ID)).is(w, []team.Profile{p})
		},
		"results belong to the caller": func(w *fixture) {
			o := w.org()
			u := someUser()
			u.DeletedAt = new(at(9))
			resultOf(w.users().Upsert(w.ctx, u, keep)).must(w)
			w.join(o.ID, u.ID, org.Member, at(10))
			tm := w.team(o.ID, u.ID)
			put(w, tm, u, 20)
			*resultOf(w.inTeam(o.ID, tm.ID)).must(w)[0].Person.DeletedAt = at(999)
			wantEqual(w, resultOf(w.inTeam(o.ID, tm.ID)).must(w)[0].Person.DeletedAt, new(at(9)))
		},
	}.run(t, open)
}
