package storm

import "strings"

// preparePlaces makes the teams and workspaces that the clients of a tenant change.
func (s *storm) preparePlaces(c *client, t *tenant) {
	var made struct{ ID string }
	for i := range t.teams {
		a := s.must(c, call{method: "POST", path: "/teams", by: t.owner, body: map[string]string{"name": "first"}}, &made)
		t.teams[i] = made.ID
		s.record("team "+made.ID, c.writes(a, "first")...)
		for _, p := range append(t.people[1:len(t.people):len(t.people)], t.subject) {
			a = s.must(c, call{method: "POST", path: "/teams/" + made.ID + "/members", by: t.owner, body: map[string]string{"userId": p.user}}, nil)
		}
		if i == 0 {
			s.record("membership of "+t.subject.user, c.writes(a, "member")...)
		}
	}
	for i := range t.spaces {
		a := s.must(c, call{method: "POST", path: "/workspaces", by: t.owner, body: map[string]string{"name": "first", "teamId": t.teams[0]}}, &made)
		t.spaces[i] = made.ID
		if i == 0 {
			s.record("workspace "+made.ID, c.writes(a, "first")...)
			s.record("place of "+made.ID, c.writes(a, t.teams[0])...)
		}
	}
	for _, p := range t.people {
		a := s.must(c, call{method: "PUT", path: "/workspaces/order", by: p, body: map[string]any{"order": t.spaces}}, nil)
		s.record("workspaces of "+p.user, c.writes(a, strings.Join(t.spaces[:], " "))...)
	}
}

func (w *worker) readTeam(do doFunc) {
	var team struct{ Name string }
	if x := do(call{method: "GET", path: "/teams/" + w.teams[0]}); x.ok() && x.decode(&team) == nil {
		w.record("team "+w.teams[0], w.reads(x, team.Name))
	}
}

// leaveTeam ends the subject's membership. A 404 says that there was none.
func (w *worker) leaveTeam(do doFunc) {
	x := do(call{method: "DELETE", path: "/teams/" + w.teams[0] + "/members/" + w.subject.user, expect: []int{200, 404}})
	of := "membership of " + w.subject.user
	w.record(of, w.writes(x, "none")...)
	if !x.last().unknown && !x.ok() {
		w.record(of, w.reads(x, "none"))
	}
}

func (w *worker) readMembership(do doFunc) {
	var members []struct{ UserID string }
	x := do(call{method: "GET", path: "/teams/" + w.teams[0] + "/members"})
	if !x.ok() || x.decode(&members) != nil {
		return
	}
	got := "none"
	for _, m := range members {
		if m.UserID == w.subject.user {
			got = "member"
		}
	}
	w.record("membership of "+w.subject.user, w.reads(x, got))
}

func (w *worker) readWorkspace(do doFunc) {
	var space struct{ Name, TeamID string }
	if x := do(call{method: "GET", path: "/workspaces/" + w.spaces[0]}); x.ok() && x.decode(&space) == nil {
		w.record("workspace "+w.spaces[0], w.reads(x, space.Name))
		w.record("place of "+w.spaces[0], w.reads(x, space.TeamID))
	}
}

// readWorkspaces reads the client's own order of workspaces, of which others are made and deleted.
func (w *worker) readWorkspaces(do doFunc) {
	var all []struct{ ID string }
	x := do(call{method: "GET", path: "/workspaces"})
	if !x.ok() || x.decode(&all) != nil {
		return
	}
	var order []string
	for _, s := range all {
		for _, id := range w.spaces {
			if s.ID == id {
				order = append(order, id)
			}
		}
	}
	w.record("workspaces of "+w.me.user, w.reads(x, strings.Join(order, " ")))
}
