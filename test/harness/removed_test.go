package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"collab/adapters/servicetoken"
	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	stored "collab/domain/object"
	"collab/domain/org"
	"collab/domain/team"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// TestARunningRequestDoesNotAddARemovedMember removes a caller after their request was authorized: the request
// must not make them a member of anything again.
func TestARunningRequestDoesNotAddARemovedMember(t *testing.T) {
	c := core(t)
	ctx, actor := t.Context(), newOrganisation(t, c)
	m := org.NewMembership(actor.Org, actor.User, "owner", start, org.RoleMapping{}, start)
	must.NoError(t, c.Store.Atomic(ctx, func(r ports.Records) error {
		_, err := r.Directory().Organisations().Lock(ctx, actor.Org)
		return errors.Join(err, r.Directory().Members().Put(ctx, actor.Org, m.Removed(start)))
	}))
	for about, do := range map[string]func() error{
		"makes a team":       func() error { return must.ErrorOf(c.Teams.Create(ctx, actor, team.Draft{Name: "Design"})) },
		"seeds":              func() error { _, err := c.Onboarding.Seed(ctx, actor); return err },
		"completes":          func() error { return c.Onboarding.Complete(ctx, actor) },
		"changes their role": func() error { _, err := c.Members.ChangeRole(ctx, actor, actor.User, "OWNER"); return err },
	} {
		if err := do(); !fault.Is(err, fault.Forbidden) {
			t.Errorf("who was removed %s: %v", about, err)
		}
	}
	must.Is(t, 0, len(must.Do(c.Store.Work().Teams().Refs(ctx, actor.Org)).Or(t)))
}

// provider verifies every token as one with these claims.
type provider identity.Claims

func (p provider) Verify(context.Context, string) (identity.Claims, error) {
	return identity.Claims(p), nil
}

// presenting returns the use cases of tokens where every identity token has these
// claims.
func presenting(t *testing.T, c *harness.Deployment) func(identity.Claims) *access.Access {
	text := must.Do(servicetoken.Generate()).Or(t)
	keys := must.Do(servicetoken.Parse(text)).Or(t)
	return func(claims identity.Claims) *access.Access {
		return access.New(access.Options{
			Store: c.Store, Epochs: c.Store, Identity: provider(claims), Tokens: servicetoken.New(keys, "https://collab.example.com"), Clock: c.Clock, IDs: c.IDs,
		})
	}
}

func TestATokenOlderThanTheLastExchangedChangesNothing(t *testing.T) {
	c := core(t)
	exchange := presenting(t, c)
	for _, step := range []struct {
		minute     int
		role, name string
		wantRole   org.Role
		wantName   string
	}{
		{1, "member", "Ann", org.Member, "Ann"},
		{5, "admin", "Anna", org.Admin, "Anna"},
		{3, "member", "Ann", org.Admin, "Anna"},
		{6, "viewer", "Annie", org.Viewer, "Annie"},
		{5, "admin", "Anna", org.Viewer, "Annie"},
	} {
		at := start.Add(time.Duration(step.minute) * time.Minute)
		s, err := exchange(identity.Claims{
			Subject: "user_1", Org: "org_1", OrgRole: step.role, Name: step.name, Email: step.name + "@example.com", IssuedAt: at, ExpiresAt: at.Add(time.Hour),
		}).Exchange(t.Context(), access.Exchange{IdentityToken: "token"})
		if err != nil || s.Role != step.wantRole || s.User.Name != step.wantName || s.User.Email != step.wantName+"@example.com" {
			t.Errorf("a token of minute %d makes %s %s %s, %v", step.minute, s.User.Name, s.User.Email, s.Role, err)
		}
	}
}

func TestHintsAreCleanedAsClaimsAre(t *testing.T) {
	c := core(t)
	s := must.Do(presenting(t, c)(identity.Claims{Subject: "user_1", IssuedAt: start, ExpiresAt: start.Add(time.Hour)}).Exchange(t.Context(), access.Exchange{
		IdentityToken: "token", UserName: " a\nb " + strings.Repeat("c", 300), UserEmail: "nobody", UserAvatarURL: "javascript:alert(1)",
	})).Or(t)
	if want := "a b " + strings.Repeat("c", 196); s.User.Name != want || s.User.Email != "" || s.User.AvatarURL != "" {
		t.Errorf("the user is %+v", s.User)
	}
}

func TestATokenOfAClosedOrganisationActsInNoOther(t *testing.T) {
	c := core(t)
	exchange := presenting(t, c)
	signIn := func(organisation string) (org.Actor, error) {
		claims := identity.Claims{Subject: "user_1", Org: organisation, OrgRole: "member", IssuedAt: start, ExpiresAt: start.Add(time.Hour)}
		a := exchange(claims)
		caller, err := a.Verify(t.Context(), "token")
		if err != nil {
			return org.Actor{}, err
		}
		return a.Authorize(t.Context(), caller)
	}
	if actor, err := signIn("org_open"); err != nil || actor.Org == "" {
		t.Fatalf("got %+v, %v", actor, err)
	}
	if _, err := c.Store.Directory().Organisations().Upsert(t.Context(), org.Organisation{ID: "closed", ProviderID: "org_closed", CreatedAt: start, UpdatedAt: start},
		func(o org.Organisation) (org.Organisation, error) { return o.Close(start), nil }); err != nil {
		t.Fatal(err)
	}
	if actor, err := signIn("org_closed"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("got %+v, %v", actor, err)
	}
	if actor, err := signIn(""); err != nil || actor.Org == "" {
		t.Errorf("without organisation: %+v, %v", actor, err)
	}
}

func TestATokenWithoutOrganisationActsInTheOneThatWasUsedLast(t *testing.T) {
	c := core(t)
	exchange := presenting(t, c)
	var last id.Org
	for i, organisation := range []string{"org_1", "org_2", "", "org_1", ""} {
		at := start.Add(time.Duration(i) * time.Minute)
		c.Clock.Set(at)
		claims := identity.Claims{Subject: "user_1", Org: organisation, OrgRole: "member", IssuedAt: at, ExpiresAt: at.Add(time.Hour)}
		s, err := exchange(claims).Exchange(t.Context(), access.Exchange{IdentityToken: "token"})
		if err != nil || s.Org == nil || organisation == "" && s.Org.ID != last {
			t.Fatalf("a token of minute %d for %q is for %+v, %v; want %s", i, organisation, s.Org, err, last)
		}
		last = s.Org.ID
	}
}

func TestARoleChangeByATokenIsLoggedIfItChangesVisibility(t *testing.T) {
	c := core(t)
	exchange := presenting(t, c)
	var o id.Org
	for i, step := range []struct {
		role string
		n    int64 // entries in the log then
	}{{"member", 0}, {"viewer", 0}, {"admin", 1}, {"owner", 1}, {"member", 2}} {
		at := start.Add(time.Duration(i) * time.Minute)
		c.Clock.Set(at)
		claims := identity.Claims{Subject: "user_1", Org: "org_1", OrgRole: step.role, IssuedAt: at, ExpiresAt: at.Add(time.Hour)}
		s := must.Do(exchange(claims).Exchange(t.Context(), access.Exchange{IdentityToken: "token"})).Or(t)
		o = s.Org.ID
		heads, err := c.Store.Storage().Changes().Heads(t.Context(), []id.Org{o})
		if err != nil || heads[o].N != step.n {
			t.Errorf("as %s the log has %d entries, %v; want %d", step.role, heads[o].N, err, step.n)
		}
	}
	entries := must.Do(c.Store.Storage().Changes().List(t.Context(), o, 0, 10)).Or(t)
	for _, e := range entries {
		if e.Type != stored.AccessChanged || e.Audience == nil || len(e.Audience.Users) != 1 {
			t.Errorf("got %+v", e)
		}
	}
}
