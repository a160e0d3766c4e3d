package harness_test

import (
	"testing"

	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
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
