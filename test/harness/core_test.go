package harness_test

import (
	"testing"

	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/harness"
	"collab/test/must"
)

func core(t *testing.T) *harness.Deployment {
	t.Helper()
	return must.Do(harness.NewDeployment(start)).Or(t)
}

// newOrganisation adds an organisation on the largest plan, and returns its owner.
func newOrganisation(t *testing.T, w *harness.Deployment) org.Actor {
	t.Helper()
	ada := must.Do(w.Join(t.Context(), "org_office", "user_ada", org.Owner)).Or(t)
	sub := must.Do(plan.Unsubscribed(ada.Org).Granted(plan.Grant{Plan: plan.Premium}, w.Clock.Now())).Or(t)
	must.NoError(t, w.Store.Directory().Subscriptions().Put(t.Context(), ada.Org, sub))
	return ada
}
