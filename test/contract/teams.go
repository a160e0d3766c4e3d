package contract

import (
	"slices"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/team"
	"collab/domain/workspace"
	"collab/ports"
	"collab/test/must"
)

// Teams is the suite of ports.Teams.
func Teams(t *testing.T, open func(t *testing.T) Opened) {
	owned[team.Team, id.Team]{
		of:          func(k ports.Work) collection[team.Team, id.Team] { return k.Teams() },
		some:        func(tn tenant) team.Team { return someTeam(tn.ID, team.Standard, tn.owner.ID) },
		there:       func(tn tenant) team.Team { return tn.team },
		all:         (*fixture).allTeams,
		change:      func(_ tenant, t *team.Team) { t.Name, t.UpdatedAt = "New", at(99) },
		id:          func(t *team.Team) *id.Team { return &t.ID },
		created:     func(t *team.Team) *time.Time { return &t.CreatedAt },
		description: func(t *team.Team) **string { return &t.Description },
	}.suite().and(suite{
		"an organisation has one shared team": func(w *fixture) {
			o, other := w.org(), w.org()
			by, second := w.member(o.ID, org.Owner).ID, w.member(o.ID, org.Owner).ID
			first := someTeam(o.ID, team.Shared, by)
			w.ok(w.Teams().Add(w.ctx, o.ID, first))
			w.wantConflict(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, by)))
			w.wantConflict(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, second)))
			w.ok(w.Teams().Add(w.ctx, other.ID, someTeam(other.ID, team.Shared, by)))
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{first})
			w.ok(w.Teams().Remove(w.ctx, o.ID, first.ID))
			w.ok(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Shared, by)))
		},
		"a member has one personal team in an organisation": func(w *fixture) {
			o, other := w.org(), w.org()
			by, second := w.member(o.ID, org.Owner).ID, w.member(o.ID, org.Owner).ID
			first := someTeam(o.ID, team.Personal, by)
			w.ok(w.Teams().Add(w.ctx, o.ID, first))
			w.wantConflict(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Personal, by)))
			resultOf(w.Teams().Get(w.ctx, o.ID, first.ID)).is(w, first)
			w.ok(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Personal, second)))
			w.ok(w.Teams().Add(w.ctx, other.ID, someTeam(other.ID, team.Personal, by)))
			w.ok(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Standard, by)))
			w.ok(w.Teams().Add(w.ctx, o.ID, someTeam(o.ID, team.Standard, by)))
			wantEqual(w, len(must.Do(w.allTeams(o.ID)).Or(w)), 4)
		},
		"of concurrent additions of a shared team, alone or in transactions, one succeeds": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			teams := make([]team.Team, concurrent)
			winner := w.wantOneSuccess(concurrently(concurrent, func(i int) error {
				teams[i] = someTeam(o.ID, team.Shared, by)
				if i%2 == 0 {
					return w.Teams().Add(w.ctx, o.ID, teams[i])
				}
				inside := someWorkspace(o.ID, teams[i].ID, by)
				return w.store.Atomic(w.ctx, func(r ports.Records) error {
					if err := r.Work().Teams().Add(w.ctx, o.ID, teams[i]); err != nil {
						return err
					}
					return r.Work().Workspaces().Add(w.ctx, o.ID, inside)
				})
			}), fault.Conflict)
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{teams[winner]})
			wantEqual(w, len(must.Do(w.allWorkspaces(o.ID)).Or(w)), winner%2)
		},
		"remove deletes the team with its member records, and nothing else": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			gone, stays := w.team(o.ID, by), w.team(o.ID, by)
			for _, tm := range []team.Team{gone, stays} {
				must.Do(w.TeamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: by, JoinedAt: at(22)})).Or(w)
			}
			w.ok(w.Teams().Remove(w.ctx, o.ID, gone.ID))
			resultOf(w.allTeams(o.ID)).is(w, []team.Team{stays})
			resultOf(w.TeamMembers().OfUser(w.ctx, o.ID, by)).is(w, []id.Team{stays.ID})
			w.wantNotFound(w.Teams().Remove(w.ctx, o.ID, gone.ID))
			w.ok(w.Teams().Add(w.ctx, o.ID, gone))
			resultOf(w.inTeam(o.ID, gone.ID)).is(w, nil)
		},
		"a team with workspaces cannot be removed": func(w *fixture) {
			o := w.org()
			by := w.member(o.ID, org.Owner).ID
			tm := w.team(o.ID, by)
			must.Do(w.TeamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: by, JoinedAt: at(22)})).Or(w)
			inside := w.workspace(o.ID, tm.ID, by)
			w.wantConflict(w.Teams().Remove(w.ctx, o.ID, tm.ID))
			resultOf(w.Teams().Get(w.ctx, o.ID, tm.ID)).is(w, tm)
			resultOf(w.TeamMembers().OfUser(w.ctx, o.ID, by)).is(w, []id.Team{tm.ID})
			w.ok(w.Workspaces().Remove(w.ctx, o.ID, inside.ID))
			w.ok(w.Teams().Remove(w.ctx, o.ID, tm.ID))
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
	}).run(t, open)
}

// TeamMembers is the suite of ports.TeamMembers.
func TeamMembers(t *testing.T, open func(t *testing.T) Opened) {
	put := func(w *fixture, tm team.Team, u org.User, joined int) team.Profile {
		w.Helper()
		m := team.Member{Team: tm.ID, User: u.ID, JoinedAt: at(joined)}
		must.Do(w.TeamMembers().Put(w.ctx, tm.Org, m)).Or(w)
		return team.Profile{Member: m, Person: u}
	}
	suite{
		"an unknown team has no members and gets none, nor does another organisation's": func(w *fixture) {
			o, other := w.org(), w.org()
			u, stranger := w.member(other.ID, org.Owner), w.member(o.ID, org.Member).ID
			w.join(o.ID, u.ID, org.Owner, at(10))
			theirs := w.team(other.ID, u.ID)
			p := put(w, theirs, u, 22)
			for _, unknown := range []id.Team{theirs.ID, fresh[id.Team]()} {
				list, err := w.inTeam(o.ID, unknown)
				wantNone(w, list, err)
				resultOf(w.TeamMembers().Get(w.ctx, o.ID, unknown, u.ID)).wantNotFound(w)
				for _, who := range []id.User{u.ID, stranger} {
					resultOf(w.TeamMembers().Put(w.ctx, o.ID, team.Member{Team: unknown, User: who, JoinedAt: at(1)})).wantNotFound(w)
				}
				w.wantNotFound(w.TeamMembers().Remove(w.ctx, o.ID, unknown, u.ID))
			}
			resultOf(w.TeamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, nil)
			w.ok(w.TeamMembers().RemoveUser(w.ctx, o.ID, u.ID))
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
			list := func(after id.Position[id.User], limit int, each func(team.Profile) error) error {
				return w.TeamMembers().List(w.ctx, o.ID, tm.ID, after, limit, each)
			}
			pages(w, []team.Profile{a, b, c, d}, func(p team.Profile) id.Position[id.User] { return id.Position[id.User]{At: p.JoinedAt, ID: p.User} },
				func(after id.Position[id.User], limit int) ([]team.Profile, error) {
					return collected(func(each func(team.Profile) error) error { return list(after, limit, each) })
				})
			wantStop(w, func(each func(team.Profile) error) error { return list(id.Position[id.User]{}, 0, each) })
		},
		"put returns the team's number of members, and does not change an existing one": func(w *fixture) {
			o := w.org()
			u, second := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			tm, beside := w.team(o.ID, u.ID), w.team(o.ID, u.ID)
			put(w, beside, u, 20)
			for n, step := range []struct {
				user    org.User
				members int
			}{{u, 1}, {second, 2}, {u, 2}} {
				m := team.Member{Team: tm.ID, User: step.user.ID, JoinedAt: at(20 + n)}
				resultOf(w.TeamMembers().Put(w.ctx, o.ID, m)).is(w, step.members)
			}
			first := team.Profile{Member: team.Member{Team: tm.ID, User: u.ID, JoinedAt: at(20)}, Person: u}
			resultOf(w.TeamMembers().Get(w.ctx, o.ID, tm.ID, u.ID)).is(w, first.Member)
			wantEqual(w, must.Do(w.inTeam(o.ID, tm.ID)).Or(w)[0], first)
		},
		"the same member is added concurrently": func(w *fixture) {
			o := w.org()
			u := w.member(o.ID, org.Member)
			tm := w.team(o.ID, u.ID)
			w.allOK(concurrently(concurrent, func(int) error {
				return must.ErrorOf(w.TeamMembers().Put(w.ctx, o.ID, team.Member{Team: tm.ID, User: u.ID, JoinedAt: at(20)}))
			}))
			wantEqual(w, len(must.Do(w.inTeam(o.ID, tm.ID)).Or(w)), 1)
		},
		"remove removes one member from one team": func(w *fixture) {
			o := w.org()
			u, stays := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			tm, beside := w.team(o.ID, u.ID), w.team(o.ID, u.ID)
			put(w, tm, u, 20)
			put(w, beside, u, 20)
			p := put(w, tm, stays, 20)
			w.ok(w.TeamMembers().Remove(w.ctx, o.ID, tm.ID, u.ID))
			w.wantNotFound(w.TeamMembers().Remove(w.ctx, o.ID, tm.ID, u.ID))
			resultOf(w.inTeam(o.ID, tm.ID)).is(w, []team.Profile{p})
			resultOf(w.TeamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, []id.Team{beside.ID})
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
			got := must.Do(w.TeamMembers().OfUser(w.ctx, o.ID, u.ID)).Or(w)
			slices.Sort(got)
			wantEqual(w, got, []id.Team{a.ID, b.ID})
		},
		"removeUser keeps only the user's own personal team": func(w *fixture) {
			o, other := w.org(), w.org()
			u, neighbour := w.member(o.ID, org.Member), w.member(o.ID, org.Member)
			w.join(other.ID, u.ID, org.Member, at(10))
			personal := func(o id.Org, by org.User) team.Team {
				tm := someTeam(o, team.Personal, by.ID)
				w.ok(w.Teams().Add(w.ctx, o, tm))
				return tm
			}
			own, foreign, standard, theirs := personal(o.ID, u), personal(o.ID, neighbour), w.team(o.ID, u.ID), w.team(other.ID, u.ID)
			for _, tm := range []team.Team{own, foreign, standard, theirs} {
				put(w, tm, u, 20)
			}
			p := put(w, standard, neighbour, 20)

			w.ok(w.TeamMembers().RemoveUser(w.ctx, o.ID, u.ID))
			resultOf(w.TeamMembers().OfUser(w.ctx, o.ID, u.ID)).is(w, []id.Team{own.ID})
			resultOf(w.TeamMembers().OfUser(w.ctx, other.ID, u.ID)).is(w, []id.Team{theirs.ID})
			resultOf(w.inTeam(o.ID, standard.ID)).is(w, []team.Profile{p})
		},
		"results belong to the caller": func(w *fixture) {
			o := w.org()
			u := someUser()
			u.DeletedAt = new(at(9))
			must.Do(w.Users().Upsert(w.ctx, u, keep)).Or(w)
			w.join(o.ID, u.ID, org.Member, at(10))
			tm := w.team(o.ID, u.ID)
			put(w, tm, u, 20)
			*must.Do(w.inTeam(o.ID, tm.ID)).Or(w)[0].Person.DeletedAt = at(999)
			wantEqual(w, must.Do(w.inTeam(o.ID, tm.ID)).Or(w)[0].Person.DeletedAt, new(at(9)))
		},
	}.run(t, open)
}
