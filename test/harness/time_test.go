package harness_test

import (
	"testing"
	"time"

	"collab/adapters/memory"
	"collab/adapters/servicetoken"
	"collab/app/access"
	"collab/app/connectors"
	"collab/app/members"
	"collab/app/upkeep"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/session"
	"collab/ports"
	"collab/test/harness"
)

// office is an organisation on the largest plan with one owner.
func office(t *testing.T, c *harness.Core) org.Actor {
	t.Helper()
	ctx, now := t.Context(), c.Clock.Now()
	dir := c.Store.Directory()
	u, err := dir.Users().Upsert(ctx, org.User{ID: id.User(c.IDs.New()), ProviderID: "user_ada", Name: "Ada", Email: "ada@example.com", CreatedAt: now, UpdatedAt: now},
		func(u org.User) (org.User, error) { return u, nil })
	if err != nil {
		t.Fatal(err)
	}
	o, err := dir.Organisations().Upsert(ctx, org.Organisation{ID: id.Org(c.IDs.New()), ProviderID: "org_office", Name: "Office", CreatedAt: now, UpdatedAt: now},
		func(o org.Organisation) (org.Organisation, error) { return o, nil })
	if err != nil {
		t.Fatal(err)
	}
	err = c.Store.Atomic(ctx, func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(ctx, o.ID); err != nil {
			return err
		}
		if err := r.Directory().Members().Put(ctx, o.ID, org.Membership{Org: o.ID, User: u.ID, Role: org.Owner, JoinedAt: now, UsedAt: now}); err != nil {
			return err
		}
		sub, err := plan.Unsubscribed(o.ID).Granted(plan.Grant{Plan: plan.Premium}, now)
		if err != nil {
			return err
		}
		return r.Directory().Subscriptions().Put(ctx, o.ID, sub)
	})
	if err != nil {
		t.Fatal(err)
	}
	return org.Actor{User: u.ID, Org: o.ID, Role: org.Owner}
}

func core(t *testing.T) *harness.Core {
	t.Helper()
	c, err := harness.New(start, org.RoleMap{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnInvitationLivesTwentyFourHoursFromItsLastSending(t *testing.T) {
	c := core(t)
	ada := office(t, c)
	mailer := &memory.Mailer{}
	all := members.New(members.Options{Store: c.Store, Clock: c.Clock, IDs: c.IDs, Secrets: &memory.Secrets{}, Mailer: mailer, Locked: c.Access.Locked, InviteURL: func(token string) string { return token }})
	ctx := t.Context()
	pending := func() int {
		t.Helper()
		n := 0
		err := all.Invites(ctx, ada, invitation.Position{}, 0, func(invitation.Invitation) error {
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first, err := all.Invite(ctx, ada, "grace@example.com", "MEMBER")
	if err != nil {
		t.Fatal(err)
	}
	c.Clock.Advance(invitation.Lifetime - time.Millisecond)
	if pending() != 1 {
		t.Error("gone before its time")
	}
	if _, err := all.Invite(ctx, ada, "GRACE@example.com", "MEMBER"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second invitation for the address: %v", err)
	}
	again, err := all.Resend(ctx, ada, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := members.Lookup(ctx, c.Store, c.Clock, first.URL); !fault.Is(err, fault.NotFound) {
		t.Errorf("the token of before the resend: %v", err)
	}
	c.Clock.Advance(invitation.Lifetime - time.Millisecond)
	if _, err := members.Lookup(ctx, c.Store, c.Clock, again.URL); err != nil || pending() != 1 {
		t.Errorf("gone before its new time: %v", err)
	}
	c.Clock.Advance(time.Millisecond)
	if _, err := members.Lookup(ctx, c.Store, c.Clock, again.URL); !fault.Is(err, fault.NotFound) || pending() != 0 {
		t.Errorf("there after its time: %v", err)
	}
	// The address is free again, and then the expired invitation is not sent a
	// third time.
	if _, err := all.Invite(ctx, ada, "grace@example.com", "ADMIN"); err != nil {
		t.Errorf("inviting again after the end: %v", err)
	}
	if _, err := all.Resend(ctx, ada, first.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("sending the expired one beside a new one: %v", err)
	}
	if sent := mailer.Sent(); len(sent) != 3 || sent[0].To != "grace@example.com" {
		t.Errorf("%d letters", len(sent))
	}
}

func TestATokenIsAcceptedForThirtyDaysAndRefreshedForSevenMore(t *testing.T) {
	c := core(t)
	ada := office(t, c)
	text, err := servicetoken.Generate()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := servicetoken.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	tokens := servicetoken.New(keys, "https://collab.example.com")
	// Two servers on one store, each with what it remembers.
	one := access.New(access.Options{Store: c.Store, Epochs: c.Store, Tokens: tokens, Clock: c.Clock, IDs: c.IDs})
	two := access.New(access.Options{Store: c.Store, Epochs: c.Store, Tokens: tokens, Clock: c.Clock, IDs: c.IDs})
	issued := session.Issue(c.IDs.New(), ada.User, ada.Org, org.Viewer, c.Clock.Now())
	token, err := tokens.Issue(issued)
	if err != nil {
		t.Fatal(err)
	}
	accepted := func(want fault.Kind) {
		t.Helper()
		for _, server := range []*access.Access{one, two} {
			var actor org.Actor
			caller, err := server.Verify(t.Context(), token)
			if err == nil {
				actor, err = server.Authorize(t.Context(), caller)
			}
			switch {
			case want == fault.Internal && (err != nil || actor.Role != org.Owner):
				t.Errorf("the token was refused: %v, role %s", err, actor.Role)
			case want != fault.Internal && !fault.Is(err, want):
				t.Errorf("the token: %v", err)
			}
		}
	}
	refreshed := func(want bool) {
		t.Helper()
		s, err := one.Refresh(t.Context(), token, session.Client{})
		if want && (err != nil || s.Role != org.Owner || s.Token == token) {
			t.Errorf("refreshing: %v", err)
		}
		if !want && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("refreshing: %v", err)
		}
	}
	accepted(fault.Internal) // with the membership's role, not the token's
	refreshed(true)
	c.Clock.Set(issued.ExpiresAt.Add(-time.Millisecond))
	accepted(fault.Internal)
	c.Clock.Set(issued.ExpiresAt)
	accepted(fault.Unauthenticated)
	refreshed(true)
	c.Clock.Set(issued.ExpiresAt.Add(session.Grace))
	refreshed(true)
	c.Clock.Advance(time.Millisecond)
	refreshed(false)
	c.Clock.Set(issued.IssuedAt.Add(-time.Second))
	accepted(fault.Unauthenticated)
	refreshed(false)

	// A removal on one server counts on the other with the very next request, in
	// spite of what both remember.
	c.Clock.Set(issued.IssuedAt)
	accepted(fault.Internal)
	remove(t, c, ada)
	accepted(fault.Forbidden)
	refreshed(false)
}

func remove(t *testing.T, c *harness.Core, a org.Actor) {
	t.Helper()
	err := c.Store.Atomic(t.Context(), func(r ports.Records) error {
		if _, err := r.Directory().Organisations().Lock(t.Context(), a.Org); err != nil {
			return err
		}
		m, err := r.Directory().Members().Hold(t.Context(), a.Org, a.User)
		if err != nil {
			return err
		}
		return r.Directory().Members().Put(t.Context(), a.Org, m.Removed(c.Clock.Now()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAClosedOrganisationIsErasedAfterThirtyDays(t *testing.T) {
	c := core(t)
	ada := office(t, c)
	ctx := t.Context()
	if _, err := c.Store.Directory().Organisations().Upsert(ctx, org.Organisation{ProviderID: "org_office"},
		func(o org.Organisation) (org.Organisation, error) { return o.Close(c.Clock.Now()), nil }); err != nil {
		t.Fatal(err)
	}
	work := upkeep.New(c.Store, nil, c.Clock, connectors.New(connectors.Options{Store: c.Store}), 7*24*time.Hour)
	members := func() (n int) {
		t.Helper()
		if err := work.Run(ctx); err != nil {
			t.Fatal(err)
		}
		seats, err := c.Store.Directory().Seats().Count(ctx, []id.Org{ada.Org}, c.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return seats[ada.Org].Members
	}
	c.Clock.Advance(org.Retention - time.Millisecond)
	if members() != 1 {
		t.Error("erased before its time")
	}
	c.Clock.Advance(time.Millisecond)
	if members() != 0 {
		t.Error("there after its time")
	}
	o, err := c.Store.Directory().Organisations().Get(ctx, ada.Org)
	if err != nil || !o.Closed() || o.Name != "" || o.ErasedAt == nil {
		t.Errorf("what is left is %+v, %v", o, err)
	}
	members() // again is harmless
}
