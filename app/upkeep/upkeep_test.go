package upkeep_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"collab/domain/calendar"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/release"
	"collab/test/must"
)

func TestOldAdoptionCountsAreRemoved(t *testing.T) {
	y := newFixture(t)
	adoption := y.Store.Deployment().Adoption()
	last := calendar.DayOf(startTime.Add(release.Retention))
	for _, d := range []calendar.Day{calendar.DayOf(startTime), calendar.DayOf(startTime.Add(24 * time.Hour)), last} {
		must.NoError(t, adoption.Add(t.Context(), []release.CheckCount{{Day: d, Version: "1.0.0", Checks: 1}}))
	}
	left := func() int {
		t.Helper()
		must.NoError(t, y.Upkeep.Run(t.Context()))
		all := must.Do(adoption.List(t.Context(), "0001-01-01", "9999-12-31", release.Target{}, release.CheckCount{}, 0)).Or(t)
		return len(all)
	}
	y.Clock.Set(startTime.Add(release.Retention))
	if n := left(); n != 3 {
		t.Errorf("%d days are left on the first one's last day, want 3", n)
	}
	y.Clock.Set(startTime.Add(release.Retention + 24*time.Hour))
	if n := left(); n != 2 {
		t.Errorf("%d days are left on the day after, want 2", n)
	}
	y.Clock.Set(startTime.Add(2*release.Retention + 24*time.Hour))
	if n := left(); n != 0 {
		t.Errorf("%d days are left at the end, want none", n)
	}
}

func TestUnusedClientsAreRemoved(t *testing.T) {
	y := newFixture(t)
	clients := y.Store.Connections().Clients()
	const many = 1200 // more than are swept at a time
	for n := range many {
		c := connector.Registered{Issuer: fmt.Sprint("https://auth.example.com/", n), ID: "client", Method: "none", UsedAt: startTime}
		if n == 0 {
			c.UsedAt = startTime.Add(time.Millisecond)
		}
		must.Do(clients.Put(t.Context(), c, startTime)).Or(t)
	}
	left := func() (n int) {
		t.Helper()
		must.NoError(t, y.Upkeep.Run(t.Context()))
		for i := range many {
			_, err := clients.Get(t.Context(), fmt.Sprint("https://auth.example.com/", i), "")
			if err == nil {
				n++
			} else if !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
		}
		return n
	}
	y.Clock.Set(startTime.Add(30 * 24 * time.Hour))
	if n := left(); n != many {
		t.Errorf("%d are left on the thirtieth day, want %d", n, many)
	}
	y.Clock.Advance(time.Millisecond)
	if n := left(); n != 1 {
		t.Errorf("%d are left after thirty days, want the one that was used since", n)
	}
	y.Clock.Advance(time.Millisecond)
	must.Is(t, 0, left())
}

func TestAnOrganisationThatMayBeBilledIsNotErased(t *testing.T) {
	for about, s := range map[string]func(plan.Subscription) plan.Subscription{
		"a subscription": func(s plan.Subscription) plan.Subscription {
			s, _ = s.Follow(plan.Remote{ID: "sub_1", Customer: "cus_1", Status: plan.RemoteStatusActive, Plan: plan.Premium}, startTime)
			return s
		},
		"a payment page": func(s plan.Subscription) plan.Subscription {
			s.Customer, s.Checkout = "cus_1", &plan.Checkout{Key: "key", Plan: plan.Premium}
			return s
		},
	} {
		t.Run(about, func(t *testing.T) {
			y, ctx := newFixture(t), t.Context()
			bob := must.Do(y.Join(ctx, "org_other", "user_bob", org.Owner)).Or(t)
			for _, o := range []string{"org_yard", "org_other"} {
				must.NoError(t, y.SendIdentityEvent(ctx, "organization.deleted", map[string]any{"id": o, "deleted": true}))
			}
			none := must.Do(y.Store.Directory().Subscriptions().Get(ctx, y.ada.Org)).Or(t)
			must.NoError(t, y.Store.Directory().Subscriptions().Put(ctx, y.ada.Org, s(plan.Unsubscribed(y.ada.Org))))
			y.Clock.Advance(org.Retention)
			if err := y.Upkeep.Run(ctx); err == nil || !strings.Contains(err.Error(), string(y.ada.Org)) || !strings.Contains(err.Error(), "cus_1") {
				t.Errorf("the erasure reports %v", err)
			}
			erased := func(o id.Org) bool {
				return must.Do(y.Store.Directory().Organisations().Get(ctx, o)).Or(t).ErasedAt != nil
			}
			if erased(y.ada.Org) || !erased(bob.Org) {
				t.Errorf("erased: %t, and the other organisation: %t", erased(y.ada.Org), erased(bob.Org))
			}
			must.NoError(t, y.Store.Directory().Subscriptions().Put(ctx, y.ada.Org, none))
			must.NoError(t, y.Upkeep.Run(ctx))
			must.Is(t, true, erased(y.ada.Org))
		})
	}
}

func TestOldInvitationsAreRemoved(t *testing.T) {
	y, ctx := newFixture(t), t.Context()
	all := y.Store.Directory().Invitations()
	made := invitation.New(invitation.Invitation{ID: "i", Org: y.ada.Org, Email: "grace@example.com", Role: org.Member}, "hash", startTime)
	must.NoError(t, all.Put(ctx, y.ada.Org, made))
	y.Clock.Set(made.ExpiresAt.Add(invitation.Retention))
	must.NoError(t, y.Upkeep.Run(ctx))
	must.Do(all.Get(ctx, y.ada.Org, "i")).Or(t)
	y.Clock.Advance(time.Millisecond)
	must.NoError(t, y.Upkeep.Run(ctx))
	must.Fail(t, must.ErrorOf(all.Get(ctx, y.ada.Org, "i")), fault.NotFound)
}
