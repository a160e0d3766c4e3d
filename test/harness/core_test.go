package harness_test

import (
	"testing"

	"collab/domain/org"
	"collab/domain/plan"
	"collab/test/harness"
)

func core(t *testing.T) *harness.World {
	t.Helper()
	w, err := harness.NewWorld(start)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// office is an organisation on the largest plan with one owner.
func office(t *testing.T, w *harness.World) org.Actor {
	t.Helper()
	ada, err := w.Join(t.Context(), "org_office", "user_ada", org.Owner)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := plan.Unsubscribed(ada.Org).Granted(plan.Grant{Plan: plan.Premium}, w.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Store.Directory().Subscriptions().Put(t.Context(), ada.Org, sub); err != nil {
		t.Fatal(err)
	}
	return ada
}
