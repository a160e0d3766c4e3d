package team_test

import (
	"fmt"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/patch"
	"collab/domain/team"
	"collab/test/must"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestVisibilityOfTeams(t *testing.T) {
	for _, c := range []struct {
		kind   team.Kind
		own    bool
		role   org.Role
		joined bool
		want   bool
	}{
		{team.Standard, false, org.Member, true, true},
		{team.Standard, false, org.Viewer, true, true},
		{team.Standard, false, org.Member, false, false},
		{team.Standard, true, org.Member, false, false}, // who made it and left it
		{team.Standard, false, org.Admin, false, true},
		{team.Standard, false, org.Owner, false, true},
		{team.Shared, false, org.Viewer, false, true},
		{team.Shared, false, org.Member, false, true},
		{team.Personal, true, org.Viewer, false, true},
		{team.Personal, true, org.Member, true, true},
		{team.Personal, false, org.Owner, false, false},
		{team.Personal, false, org.Admin, true, false},
	} {
		t.Run(fmt.Sprintf("%s of a %s team, its creator: %v, joined: %v", c.role, c.kind, c.own, c.joined), func(t *testing.T) {
			of := team.Team{Kind: c.kind, CreatedBy: "somebody"}
			if c.own {
				of.CreatedBy = "me"
			}
			if got := of.Ref().VisibleTo("me", c.role, c.joined); got != c.want {
				t.Errorf("sees it: %v", got)
			}
		})
	}
}

func TestRolesThatDeleteTeams(t *testing.T) {
	for _, c := range []struct {
		about      string
		kind       team.Kind
		actor      org.Actor
		workspaces bool
		want       fault.Kind
	}{
		{"its creator does", team.Standard, org.Actor{User: "maker", Role: org.Member}, false, 0},
		{"an owner does", team.Standard, org.Actor{User: "me", Role: org.Owner}, false, 0},
		{"an admin does", team.Standard, org.Actor{User: "me", Role: org.Admin}, false, 0},
		{"a viewer does not", team.Standard, org.Actor{User: "me", Role: org.Viewer}, false, fault.Forbidden},
		{"another member does not", team.Standard, org.Actor{User: "me", Role: org.Member}, false, fault.Forbidden},
		{"nobody does while it has workspaces", team.Standard, org.Actor{User: "maker", Role: org.Owner}, true, fault.Conflict},
		{"nobody deletes the shared one", team.Shared, org.Actor{User: "maker", Role: org.Owner}, false, fault.Conflict},
		{"nobody deletes a personal one", team.Personal, org.Actor{User: "maker", Role: org.Owner}, false, fault.Conflict},
	} {
		t.Run(c.about, func(t *testing.T) {
			err := team.Team{Kind: c.kind, CreatedBy: "maker"}.CheckDelete(c.actor, c.workspaces)
			if c.want == 0 && err != nil || c.want != 0 && !fault.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheNumberOfTeamsIsLimited(t *testing.T) {
	must.NoError(t, team.CheckLimit(team.MaxTeams-1))
	must.Fail(t, team.CheckLimit(team.MaxTeams), fault.Conflict)
	must.NoError(t, team.CheckMemberLimit(team.MaxMembers))
	must.Fail(t, team.CheckMemberLimit(team.MaxMembers+1), fault.Conflict)
}

func TestMembersOfSharedAndPersonalTeamsAreNotChangedByHand(t *testing.T) {
	for kind, want := range map[team.Kind]bool{team.Standard: true, team.Shared: false, team.Personal: false} {
		if err := (team.Team{Kind: kind}).CheckJoin(); (err == nil) != want || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestAPatchChangesOnlyWhatItNames(t *testing.T) {
	text := "what we do"
	was, err := team.New("t", "o", team.Standard, "u", team.Draft{Name: " Design ", Description: &text}, noon)
	if err != nil || was.Name != "Design" {
		t.Fatalf("got %+v, %v", was, err)
	}
	is, err := was.Apply(team.Patch{Description: patch.Null[string]()}, noon.Add(time.Hour))
	if err != nil || is.Name != "Design" || is.Description != nil || !is.UpdatedAt.Equal(noon.Add(time.Hour)) || !is.CreatedAt.Equal(noon) {
		t.Errorf("got %+v, %v", is, err)
	}
	for about, p := range map[string]team.Patch{
		"a null name": {Name: patch.Null[string]()}, "an empty name": {Name: patch.Value(" ")}, "a null character": {Description: patch.Value("\x00")},
	} {
		if _, err := was.Apply(p, noon); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", about, err)
		}
	}
}
