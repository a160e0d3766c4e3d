package org_test

import (
	"fmt"
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/test/must"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func later(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

func stamp(minutes, rank int) identity.Stamp {
	return identity.Stamp{At: later(minutes), Rank: rank, Message: "m"}
}

func in(role org.Role) org.Actor { return org.Actor{User: "actor", Org: "o", Role: role} }

func with(role org.Role) org.Membership { return org.Membership{Org: "o", User: "target", Role: role} }

func TestOnlyOwnersAndOperatorsChangeRolesAndOneOwnerStays(t *testing.T) {
	allowed, forbidden, conflict := fault.Kind(0), fault.Forbidden, fault.Conflict
	for _, c := range []struct {
		actor  org.Actor
		from   org.Role
		to     org.Role
		owners int
		want   fault.Kind
	}{
		{in(org.Owner), org.Viewer, org.Owner, 1, allowed},
		{in(org.Owner), org.Member, org.Admin, 1, allowed},
		{in(org.Owner), org.Owner, org.Member, 2, allowed},
		{in(org.Owner), org.Owner, org.Member, 1, conflict},
		{in(org.Owner), org.Owner, org.Owner, 1, allowed},
		{in(org.Admin), org.Viewer, org.Member, 2, forbidden},
		{in(org.Admin), org.Owner, org.Member, 1, forbidden},
		{in(org.Member), org.Member, org.Owner, 2, forbidden},
		{in(org.Viewer), org.Viewer, org.Member, 2, forbidden},
		{org.Actor{Operator: true}, org.Member, org.Owner, 0, allowed},
		{org.Actor{Operator: true}, org.Owner, org.Viewer, 1, conflict},
		{org.Actor{}, org.Member, org.Owner, 1, forbidden},
	} {
		t.Run(fmt.Sprintf("%s (operator: %v) makes %s of %s among %d owners", c.actor.Role, c.actor.Operator, c.to, c.from, c.owners), func(t *testing.T) {
			decided(t, org.CheckChangeRole(c.actor, with(c.from), c.to, org.Seats{Owners: c.owners, Members: 5}), c.want)
		})
	}
}

func TestManagersRemoveMembersAndAnyoneMayLeaveExceptTheLastOwner(t *testing.T) {
	allowed, forbidden, conflict := fault.Kind(0), fault.Forbidden, fault.Conflict
	for _, c := range []struct {
		actor  org.Role
		target org.Role
		self   bool
		owners int
		want   fault.Kind
	}{
		{org.Owner, org.Owner, false, 2, allowed},
		{org.Owner, org.Viewer, false, 1, allowed},
		{org.Owner, org.Owner, true, 2, allowed},
		{org.Owner, org.Owner, true, 1, conflict},
		{org.Admin, org.Member, false, 1, allowed},
		{org.Admin, org.Admin, false, 1, allowed},
		{org.Admin, org.Owner, false, 2, forbidden},
		{org.Admin, org.Admin, true, 1, allowed},
		{org.Member, org.Viewer, false, 1, forbidden},
		{org.Member, org.Member, true, 1, allowed},
		{org.Viewer, org.Viewer, false, 1, forbidden},
		{org.Viewer, org.Viewer, true, 1, allowed},
	} {
		whom := "another " + string(c.target)
		if c.self {
			whom = "themselves"
		}
		t.Run(fmt.Sprintf("%s removes %s among %d owners", c.actor, whom, c.owners), func(t *testing.T) {
			target := with(c.target)
			if c.self {
				target.User = "actor"
			}
			actor := in(c.actor)
			err := actor.CheckRemove(target.User)
			if err == nil {
				err = org.CheckRemoveTarget(actor, target, org.Seats{Owners: c.owners, Members: 5})
			}
			decided(t, err, c.want)
		})
	}
}

func TestRightsOfRoles(t *testing.T) {
	for role, may := range map[org.Role]struct{ belongs, writes, manages, owns bool }{
		org.Owner:  {true, true, true, true},
		org.Admin:  {true, true, true, false},
		org.Member: {true, true, false, false},
		org.Viewer: {true, false, false, false},
		"":         {},
	} {
		actor := in(role)
		if role == "" {
			actor.Org = ""
		}
		for rule, d := range map[string]struct {
			err error
			may bool
		}{
			"belongs": {actor.CheckMember(), may.belongs}, "writes": {actor.CheckWrite(), may.writes},
			"manages": {actor.CheckManager(), may.manages}, "owns": {actor.CheckOwner(), may.owns},
		} {
			if (d.err == nil) != d.may || d.err != nil && !fault.Is(d.err, fault.Forbidden) {
				t.Errorf("%q %s: %v", role, rule, d.err)
			}
		}
	}
}

func TestAnOwnerWithoutVisibilitySeesNothing(t *testing.T) {
	owner := in(org.Owner)
	if owner.SeesTeam("t") || owner.SeesWorkspace("w") {
		t.Error("something is seen")
	}
}

func TestOnlyALaterEventChangesAMembership(t *testing.T) {
	m := org.Membership{Org: "o", User: "u"}
	m = m.Observed(identity.MemberData{Role: "admin"}, stamp(10, identity.RankUpdated), org.RoleMapping{}, later(60))
	if !m.Active() || m.Role != org.Admin || !m.JoinedAt.Equal(later(60)) {
		t.Fatalf("got %+v", m)
	}
	for about, old := range map[string]identity.Stamp{
		"an older one":                   stamp(9, identity.RankEnded),
		"one of the same instant before": stamp(10, identity.RankCreated),
		"the same one again":             stamp(10, identity.RankUpdated),
	} {
		if got := m.Observed(identity.MemberData{Role: "viewer"}, old, org.RoleMapping{}, later(61)); got != m {
			t.Errorf("%s makes it %+v", about, got)
		}
		if got := m.Ended(identity.MemberData{EndedAt: later(20)}, old); got != m {
			t.Errorf("%s ends it", about)
		}
	}
	ended := m.Ended(identity.MemberData{EndedAt: later(20)}, stamp(10, identity.RankEnded))
	if ended.Active() || !ended.RemovedAt.Equal(later(20)) {
		t.Fatalf("got %+v", ended)
	}
	if got := ended.Observed(identity.MemberData{Role: "viewer"}, stamp(9, identity.RankUpdated), org.RoleMapping{}, later(61)); got.Active() {
		t.Error("an older event brings it back")
	}
	back := ended.Observed(identity.MemberData{Role: "viewer", JoinedAt: later(11)}, stamp(11, identity.RankCreated), org.RoleMapping{}, later(61))
	if !back.Active() || back.Role != org.Viewer || !back.JoinedAt.Equal(later(11)) {
		t.Errorf("a later event makes it %+v", back)
	}
	if again := back.Observed(identity.MemberData{Role: "viewer"}, stamp(12, identity.RankUpdated), org.RoleMapping{}, later(62)); !again.JoinedAt.Equal(later(11)) {
		t.Errorf("an event without the date makes it %+v", again)
	}
}

func TestARoleSetHereStandsUntilTheProvidersChanges(t *testing.T) {
	m := org.Membership{Org: "o", User: "u"}
	m = m.Observed(identity.MemberData{Role: "member"}, stamp(1, identity.RankCreated), org.RoleMapping{}, noon).WithRole(org.Admin)
	same := m.Observed(identity.MemberData{Role: "member"}, stamp(2, identity.RankUpdated), org.RoleMapping{}, noon)
	if same.Role != org.Admin {
		t.Errorf("the provider's unchanged role makes it %s", same.Role)
	}
	if got := same.WithRoleMapping(org.RoleMapping{Creator: true}); got.Role != org.Admin {
		t.Errorf("the creator's becoming known makes it %s", got.Role)
	}
	other := same.Observed(identity.MemberData{Role: "viewer"}, stamp(3, identity.RankUpdated), org.RoleMapping{}, noon)
	if other.Role != org.Viewer || other.RoleSetHere {
		t.Errorf("the provider's changed role makes it %+v", other)
	}
	must.Is(t, org.Owner, other.WithRoleMapping(org.RoleMapping{Creator: true}).Role)
}

func TestTheCreatorOfAnOrganisationIsItsOwner(t *testing.T) {
	for _, provider := range []string{"admin", "member", "viewer", ""} {
		if m := org.NewMembership("o", "u", provider, noon, org.RoleMapping{Creator: true}, noon); m.Role != org.Owner {
			t.Errorf("the provider's %q is %s", provider, m.Role)
		}
	}
}

func TestATokenRestoresNoMembershipAndSetsOnlyANewerRole(t *testing.T) {
	m := org.Membership{Org: "o", User: "u"}.Observed(identity.MemberData{Role: "member"}, stamp(10, identity.RankCreated), org.RoleMapping{}, noon)
	for _, c := range []struct {
		about  string
		before org.Membership
		role   string
		issued int
		want   org.Role
	}{
		{"a newer token with another role changes it", m, "admin", 11, org.Admin},
		{"a newer token with another role changes one that was set here", m.WithRole(org.Viewer), "admin", 11, org.Admin},
		{"a newer token with the same role leaves what was set here", m.WithRole(org.Viewer), "member", 11, org.Viewer},
		{"a token as old as the event changes nothing", m, "admin", 10, org.Member},
		{"an older token changes nothing", m, "admin", 9, org.Member},
		{"a token without a role changes nothing", m, "", 11, org.Member},
	} {
		t.Run(c.about, func(t *testing.T) {
			got := c.before.Exchanged(c.role, later(c.issued), org.RoleMapping{}, later(20))
			if got.Role != c.want || !got.UsedAt.Equal(later(20)) {
				t.Errorf("got %+v", got)
			}
		})
	}
	gone := m.Removed(later(12))
	shown := gone.Exchanged("admin", later(100), org.RoleMapping{}, later(100))
	if shown.Active() || shown.Role != org.Member || !shown.UsedAt.IsZero() {
		t.Errorf("a token makes a removed membership %+v", shown)
	}
	if got := shown.Observed(identity.MemberData{Role: "viewer"}, stamp(99, identity.RankCreated), org.RoleMapping{}, noon); !got.Active() || got.Role != org.Admin {
		t.Errorf("an event older than that token brings it back as %+v", got)
	}
	if got := shown.Observed(identity.MemberData{Role: "viewer"}, stamp(101, identity.RankCreated), org.RoleMapping{}, noon); !got.Active() || got.Role != org.Viewer {
		t.Errorf("a later event brings it back as %+v", got)
	}
}

func TestAnOlderTokenChangesNothing(t *testing.T) {
	token := func(minutes int, text string) identity.Claims {
		return identity.Claims{Name: text, Email: text, AvatarURL: text, OrgSlug: text, IssuedAt: later(minutes)}
	}
	u := org.User{ID: "u"}.Presented(token(5, "new"), identity.UserData{}, noon)
	if got := u.Presented(token(4, "old"), identity.UserData{}, later(9)); got != u {
		t.Errorf("an older token makes the user %+v", got)
	}
	o := org.Organisation{ID: "o"}.Presented(token(5, "new"), "", "", noon)
	if got := o.Presented(token(4, "old"), "", "", later(9)); got != o {
		t.Errorf("an older token makes the organisation %+v", got)
	}
	m := org.NewMembership("o", "u", "member", later(5), org.RoleMapping{}, noon)
	if got := m.Exchanged("admin", later(4), org.RoleMapping{}, noon); got != m {
		t.Errorf("a token older than the one that made the membership makes it %+v", got)
	}
	m = m.Exchanged("viewer", later(6), org.RoleMapping{}, noon)
	if got := m.Exchanged("member", later(5), org.RoleMapping{}, noon); got != m || got.Role != org.Viewer {
		t.Errorf("a token older than the one that was exchanged makes it %+v", got)
	}
	set := m.WithRole(org.Admin).Exchanged("viewer", later(7), org.RoleMapping{}, noon)
	if got := set.Exchanged("member", later(6), org.RoleMapping{}, noon); got.Role != org.Admin || !got.RoleSetHere {
		t.Errorf("a token older than one with the same role makes a role set here %+v", got)
	}
	empty := u.Observed(identity.UserData{}, stamp(8, identity.RankUpdated), noon)
	if got := empty.Presented(token(7, "old"), identity.UserData{}, noon); got != empty {
		t.Errorf("a token older than the event that took the texts away makes the user %+v", got)
	}
}

func TestARemovalIsUndoneOnlyByALaterEvent(t *testing.T) {
	m := org.Membership{Org: "o", User: "u"}.Observed(identity.MemberData{Role: "member"}, stamp(1, identity.RankCreated), org.RoleMapping{}, noon).Removed(later(5))
	if m.Active() || m.Removed(later(6)) != m {
		t.Fatalf("got %+v", m)
	}
	if got := m.Observed(identity.MemberData{Role: "member"}, stamp(5, identity.RankEnded), org.RoleMapping{}, noon); got.Active() {
		t.Error("an event of the same instant brings it back")
	}
	if got := m.Observed(identity.MemberData{Role: "member"}, stamp(6, identity.RankCreated), org.RoleMapping{}, noon); !got.Active() {
		t.Error("a later event does not bring it back")
	}
}

// decided checks that a rule allowed (kind zero) or refused with the kind.
func decided(t *testing.T, err error, want fault.Kind) {
	t.Helper()
	if want == 0 && err != nil || want != 0 && !fault.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

func TestARemovalIsComparedWithEventTimesNotTheClock(t *testing.T) {
	event := func(minutes int) identity.Stamp {
		return identity.Stamp{At: later(minutes), Rank: identity.RankUpdated, Message: "another"}
	}
	facts := identity.MemberData{Role: "member"}
	gone := org.Membership{Org: "o", User: "u"}.Observed(facts, event(5), org.RoleMapping{}, noon).Removed(noon)
	if again := gone.Observed(facts, event(5), org.RoleMapping{}, noon); again.Active() {
		t.Error("an event of the time of the last one brought the member back")
	}
	if again := gone.Observed(facts, event(6), org.RoleMapping{}, noon); !again.Active() {
		t.Error("a later event did not bring the member back")
	}
}
