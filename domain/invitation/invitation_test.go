package invitation_test

import (
	"testing"
	"time"

	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/test/must"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func pending() invitation.Invitation {
	return invitation.New(invitation.Invitation{ID: "i", Org: "o", Email: "a@b", Role: org.Member, InvitedBy: "u"}, "hash", noon)
}

func event(kind identity.Kind, minutes int) identity.Event {
	rank := identity.RankEnded
	if kind == identity.InvitationCreated {
		rank = identity.RankCreated
	}
	at := noon.Add(time.Duration(minutes) * time.Minute)
	return identity.Event{
		Kind: kind, Stamp: identity.Stamp{At: at, Rank: rank, Message: "m"},
		Invitation: identity.InvitationData{ProviderID: "p", Email: "c@d"},
	}
}

func observed(i invitation.Invitation, events ...identity.Event) invitation.Invitation {
	for _, e := range events {
		i = i.Observed(e, org.Admin, "inviter", noon)
	}
	return i
}

func TestAnInvitationIsPendingForExactlyADay(t *testing.T) {
	i := pending()
	for at, want := range map[time.Duration]invitation.Status{
		0: invitation.Pending, day - time.Millisecond: invitation.Pending, day: invitation.Expired, 365 * day: invitation.Expired,
	} {
		if got := i.Status(noon.Add(at)); got != want {
			t.Errorf("after %v it is %s, want %s", at, got, want)
		}
	}
	if i.StoredStatus() != invitation.Pending {
		t.Errorf("it is kept as %s", i.StoredStatus())
	}
}

func TestSendingAgainGivesANewTokenAndADay(t *testing.T) {
	at := noon.Add(40 * day)
	again, err := pending().Resent("other", at)
	if err != nil || again.TokenHash != "other" || again.Status(at) != invitation.Pending || !again.ExpiresAt.Equal(at.Add(day)) || !again.CreatedAt.Equal(noon) {
		t.Errorf("got %+v, %v", again, err)
	}
}

func TestWhatIsOverIsNotFound(t *testing.T) {
	withdrawn, err := pending().Withdrawn(noon)
	if err != nil || withdrawn.Status(noon) != invitation.Revoked || withdrawn.TokenHash != "" || withdrawn.Email != "" {
		t.Fatalf("got %+v, %v", withdrawn, err)
	}
	for about, i := range map[string]invitation.Invitation{
		"deleted here":  withdrawn,
		"accepted":      observed(pending(), event(identity.InvitationAccepted, 1)),
		"revoked there": observed(pending(), event(identity.InvitationRevoked, 1)),
	} {
		if _, err := i.Resent("x", noon); !fault.Is(err, fault.NotFound) {
			t.Errorf("an invitation that was %s can be sent again: %v", about, err)
		}
		if _, err := i.Withdrawn(noon); !fault.Is(err, fault.NotFound) {
			t.Errorf("an invitation that was %s can be deleted: %v", about, err)
		}
		if i.TokenHash != "" {
			t.Errorf("the token of an invitation that was %s still counts", about)
		}
	}
}

func TestTheProvidersEvents(t *testing.T) {
	created, accepted, revoked := identity.InvitationCreated, identity.InvitationAccepted, identity.InvitationRevoked
	withdrawn := must.Do(pending().Withdrawn(noon)).Or(t)
	expired := invitation.New(invitation.Invitation{ID: "i", Org: "o", Email: "a@b"}, "hash", noon.Add(-day))
	if i, err := expired.Withdrawn(noon); err != nil || i.Status(noon) != invitation.Revoked {
		t.Errorf("an expired one that is deleted: %+v, %v", i, err)
	}
	for _, c := range []struct {
		about  string
		got    invitation.Invitation
		status invitation.Status
	}{
		{"created makes a pending one", observed(invitation.Invitation{}, event(created, 1)), invitation.Pending},
		{"accepted makes an accepted one of one that was not known", observed(invitation.Invitation{}, event(accepted, 1)), invitation.Accepted},
		{"revoked makes a revoked one of one that was not known", observed(invitation.Invitation{}, event(revoked, 1)), invitation.Revoked},
		{"created joins a pending one", observed(pending(), event(created, 1)), invitation.Pending},
		{"accepted accepts a pending one", observed(pending(), event(accepted, -1)), invitation.Accepted},
		{"a late created leaves an accepted one", observed(pending(), event(accepted, 2), event(created, 9)), invitation.Accepted},
		{"a late created leaves a revoked one", observed(pending(), event(revoked, 2), event(created, 9)), invitation.Revoked},
		{"revoked after accepted counts", observed(pending(), event(accepted, 2), event(revoked, 3)), invitation.Revoked},
		{"revoked before accepted does not", observed(pending(), event(accepted, 2), event(revoked, 1)), invitation.Accepted},
		{"accepted after revoked counts", observed(pending(), event(revoked, 2), event(accepted, 3)), invitation.Accepted},
		{"created leaves one that was deleted here", observed(withdrawn, event(created, 9)), invitation.Revoked},
		{"accepted accepts one that was deleted here before", observed(withdrawn, event(accepted, 9)), invitation.Accepted},
		{"accepted before it was deleted here does not count", observed(withdrawn, event(accepted, -1)), invitation.Revoked},
		{"revoked revokes a pending one", observed(pending(), event(revoked, -1)), invitation.Revoked},
		{"accepted from before it was made here does not count", observed(pending(), event(created, -9), event(accepted, -6)), invitation.Pending},
		{"revoked from before it was made here does not count", observed(pending(), event(created, -9), event(revoked, -6)), invitation.Pending},
		{"created leaves an expired one", observed(expired, event(created, 1)), invitation.Expired},
		{"accepted accepts an expired one", observed(expired, event(accepted, 1)), invitation.Accepted},
		{"revoked revokes an expired one", observed(expired, event(revoked, 1)), invitation.Revoked},
	} {
		t.Run(c.about, func(t *testing.T) {
			must.Is(t, c.status, c.got.Status(noon))
			if (c.got.AcceptedAt != nil) != (c.status == invitation.Accepted) {
				t.Errorf("acceptedAt is %v", c.got.AcceptedAt)
			}
			must.Is(t, "p", c.got.ProviderID)
		})
	}
}

func TestJoiningAPendingOneKeepsWhatItPromised(t *testing.T) {
	got := observed(pending(), event(identity.InvitationCreated, 1))
	if got.Email != "a@b" || got.Role != org.Member || got.InvitedBy != "u" || got.TokenHash != "hash" || !got.ExpiresAt.Equal(noon.Add(day)) {
		t.Errorf("got %+v", got)
	}
	fresh := observed(invitation.Invitation{ID: "i"}, event(identity.InvitationCreated, 1))
	if fresh.Email != "c@d" || fresh.Role != org.Admin || fresh.InvitedBy != "inviter" || !fresh.ExpiresAt.Equal(noon.Add(day)) {
		t.Errorf("got %+v", fresh)
	}
}

func TestTheEndOfAnEarlierInvitationDoesNotJoin(t *testing.T) {
	for _, kind := range []identity.Kind{identity.InvitationAccepted, identity.InvitationRevoked} {
		must.Is(t, pending(), observed(pending(), event(kind, -6)))
	}
}

func TestARevokedInvitationHasNoAddress(t *testing.T) {
	accepted, revoked := identity.InvitationAccepted, identity.InvitationRevoked
	withdrawn := must.Do(pending().Withdrawn(noon)).Or(t)
	for _, c := range []struct {
		about string
		got   invitation.Invitation
		want  string
	}{
		{"deleted here", withdrawn, ""},
		{"revoked there", observed(pending(), event(revoked, 1)), ""},
		{"revoked there before it was known", observed(invitation.Invitation{}, event(revoked, 1)), ""},
		{"revoked after it was accepted", observed(pending(), event(accepted, 1), event(revoked, 2)), ""},
		{"accepted", observed(pending(), event(accepted, 1)), "a@b"},
		{"accepted after it was revoked", observed(pending(), event(revoked, 1), event(accepted, 2)), "c@d"},
		{"accepted after it was deleted here", observed(withdrawn, event(accepted, 1)), "c@d"},
	} {
		if c.got.Email != c.want {
			t.Errorf("%s: the address is %q, want %q", c.about, c.got.Email, c.want)
		}
	}
}

func TestRolesThatMayInvite(t *testing.T) {
	const none, forbidden, conflict = fault.Kind(0), fault.Forbidden, fault.Conflict
	for _, c := range []struct {
		about           string
		actor, role     org.Role
		member, pending bool
		seats           org.Seats
		limit           int
		want            fault.Kind
	}{
		{"an owner invites an owner", org.Owner, org.Owner, false, false, org.Seats{Members: 1}, 5, none},
		{"an admin invites an admin", org.Admin, org.Admin, false, false, org.Seats{Members: 1}, 5, none},
		{"an admin does not invite an owner", org.Admin, org.Owner, false, false, org.Seats{Members: 1}, 5, forbidden},
		{"a member is not invited again", org.Owner, org.Member, true, false, org.Seats{Members: 1}, 5, conflict},
		{"an address is not invited twice", org.Owner, org.Member, false, true, org.Seats{Members: 1}, 5, conflict},
		{"the last place can be taken", org.Owner, org.Member, false, false, org.Seats{Members: 2, Pending: 2}, 5, none},
		{"pending invitations take places", org.Owner, org.Member, false, false, org.Seats{Members: 2, Pending: 3}, 5, forbidden},
		{"without a limit there is always room", org.Owner, org.Member, false, false, org.Seats{Members: 2000, Pending: 499}, -1, none},
		{"so many are pending at most", org.Owner, org.Member, false, false, org.Seats{Members: 2000, Pending: 500}, -1, conflict},
		{"a plan for one has no room for a second", org.Owner, org.Viewer, false, false, org.Seats{Members: 1}, 1, forbidden},
	} {
		t.Run(c.about, func(t *testing.T) {
			err := invitation.CheckInvite(org.Actor{Role: c.actor}, c.role, c.member, c.pending, c.seats, c.limit)
			if c.want == none && err != nil || c.want != none && !fault.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	err := invitation.CheckSeats(org.Seats{Members: 1, Pending: 500}, -1)
	if want := "An organisation has at most 500 pending invitations"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
