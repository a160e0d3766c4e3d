package object_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/test/must"
)

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{
		"0-0", "1790000000-42", "1-", "-1", "1--1", "01-1", "1-1-1", "+1-1", " 1-1", "1_0-1", "9223372036854775807-9223372036854775807", "9223372036854775808-1", "\x00", "1-١",
		"", "-", "1", "-1-1", "1-+1", "1-01", "1-1\n", "0x1-1", "1−1", strings.Repeat("1", 100_000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := object.ParseCursor(s)
		if ok && (c.String() != s || c.N < 0 || c.Epoch < 0) || !ok && c != (object.Cursor{}) {
			t.Fatalf("%q became %+v, %v", s, c, ok)
		}
		epoch, n, cut := strings.Cut(s, "-")
		if want := cut && number(epoch) && number(n); ok != want {
			t.Fatalf("%q is a cursor: %v, want %v", s, ok, want)
		}
	})
}

// number reports whether s is how a number from 0 to the largest is written.
func number(s string) bool {
	if s == "" || strings.Trim(s, "0123456789") != "" || len(s) > 1 && s[0] == '0' {
		return false
	}
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

func TestHowFarALogReaches(t *testing.T) {
	head := object.Head{Epoch: 7, N: 20, Floor: 10}
	must.Is(t, (object.Cursor{Epoch: 7, N: 20}), head.Cursor())
	for _, c := range []struct {
		cursor object.Cursor
		want   bool
	}{
		{object.Cursor{Epoch: 7, N: 20}, true},
		{object.Cursor{Epoch: 7, N: 15}, true},
		{object.Cursor{Epoch: 7, N: 10}, true},
		{object.Cursor{Epoch: 7, N: 9}, false},
		{object.Cursor{Epoch: 7, N: 0}, false},
		{object.Cursor{Epoch: 7, N: 21}, false},
		{object.Cursor{Epoch: 6, N: 15}, false},
		{object.Cursor{Epoch: 8, N: 15}, false},
	} {
		if got := head.Reaches(c.cursor); got != c.want {
			t.Errorf("reaches %s: %v", c.cursor, got)
		}
	}
	if empty := (object.Head{Epoch: 7}); !empty.Reaches(empty.Cursor()) {
		t.Error("an empty log does not reach its own end")
	}
}

func TestAudiences(t *testing.T) {
	for _, c := range []struct {
		about    string
		audience object.Audience
		actor    org.Actor
		want     bool
	}{
		{"nobody", object.Audience{}, member(ada, org.Owner), false},
		{"everyone", object.Audience{Everyone: true}, member(ada, org.Viewer), true},
		{"managers, of an owner", object.Audience{Managers: true}, member(ada, org.Owner), true},
		{"managers, of an admin", object.Audience{Managers: true}, member(ada, org.Admin), true},
		{"managers, of a member", object.Audience{Managers: true}, member(ada, org.Member), false},
		{"who is named", object.Audience{Users: []id.User{ben, ada}}, member(ada, org.Viewer), true},
		{"who is not named", object.Audience{Users: []id.User{ben}}, member(ada, org.Owner), false},
		{"who sees a team", object.Audience{Teams: []id.Team{"other", crew}}, member(ada, org.Viewer), true},
		{"who does not see a team", object.Audience{Teams: []id.Team{"other"}}, member(ada, org.Owner), false},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.want, c.audience.Includes(c.actor))
			if got := object.NewAccessChange(c.audience, ben, noon).VisibleTo(c.actor); got != c.want {
				t.Errorf("is told: %v", got)
			}
		})
	}
}

func TestAudienceOfADeletedPlace(t *testing.T) {
	inAttic := object.Object{Org: office, Place: object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: ref(attic)}}
	own := object.Object{Org: office, Place: object.Place{Kind: object.Artifact, Scope: object.Personal, Owner: ref(ada)}}
	everyone, bens := object.Audience{Everyone: true}, object.Audience{Users: []id.User{ben}}
	for _, c := range []struct {
		about  string
		change object.Change
		actor  org.Actor
		want   bool
	}{
		{"an audience counts where the place is gone", object.NewDeletion(inAttic, ada, noon, &bens), member(ben, org.Viewer), true},
		{"who is not in the audience is not told", object.NewDeletion(inAttic, ada, noon, &bens), member(ada, org.Owner), false},
		{"no audience is told of another's personal object", object.NewDeletion(own, ada, noon, &everyone), member(ben, org.Owner), false},
		{"its owner is told without being in the audience", object.NewDeletion(own, ada, noon, &bens), member(ada, org.Viewer), true},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := c.change.VisibleTo(c.actor); got != c.want {
				t.Errorf("is told: %v", got)
			}
		})
	}
}

func TestTheAudienceOfATeamAreItsViewers(t *testing.T) {
	for kind, want := range map[team.Kind]struct{ everyone, managers bool }{
		team.Shared: {true, true}, team.Standard: {false, true}, team.Personal: {false, false},
	} {
		a := object.TeamAudience(team.Team{Kind: kind, CreatedBy: ada})
		a.Users = append(a.Users, ada) // who was put into it
		if a.Everyone != want.everyone || a.Managers != want.managers || !slices.Contains(a.Users, ada) || slices.Contains(a.Users, ben) {
			t.Errorf("of %s it is %+v", kind, a)
		}
		// The same people see the team itself.
		for _, who := range []org.Actor{member(ada, org.Viewer), member(ben, org.Viewer), member(ben, org.Admin)} {
			if of := (team.Team{Kind: kind, CreatedBy: ada}); kind == team.Personal && !object.TeamAudience(of).Includes(member(ada, org.Viewer)) {
				t.Error("who a personal team is for is not its audience without a record of it")
			}
			if want := (team.Ref{Kind: kind, CreatedBy: ada}).VisibleTo(who.User, who.Role, who.User == ada); a.Includes(who) != want {
				t.Errorf("%s %s sees a %s team: %v", who.Role, who.User, kind, want)
			}
		}
	}
}

func TestVisibilityAfterAChangedRoleOrAReturn(t *testing.T) {
	was := func(r org.Role) org.Membership {
		return org.Membership{Org: office, User: ben, Role: r, JoinedAt: noon}
	}
	for _, c := range []struct {
		about    string
		was, is  org.Membership
		another  bool
		audience []id.User
	}{
		{"a member becomes an admin", was(org.Member), was(org.Admin), true, []id.User{ben}},
		{"an owner becomes a viewer", was(org.Owner), was(org.Viewer), true, []id.User{ben}},
		{"an owner becomes an admin", was(org.Owner), was(org.Admin), false, nil},
		{"a member becomes a viewer", was(org.Member), was(org.Viewer), false, nil},
		{"nothing changes", was(org.Member), was(org.Member), false, nil},
		{"a member goes", was(org.Member), was(org.Member).Removed(noon), false, nil},
		{"a member returns", was(org.Member).Removed(noon), was(org.Member), true, []id.User{ben}},
		{"a member stays away", was(org.Member).Removed(noon), was(org.Admin).Removed(noon), false, nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			change, ok := object.MembershipChange(c.was, c.is, ada, noon)
			if ok != c.another {
				t.Fatalf("got %+v, %v", change, ok)
			}
			if ok && (change.Type != object.AccessChanged || !slices.Equal(change.Audience.Users, c.audience) || change.Audience.Everyone || change.Audience.Managers) {
				t.Errorf("got %+v for %+v", change, change.Audience)
			}
		})
	}
}
