package archives_test

import (
	"maps"
	"testing"
	"time"

	"collab/domain/export"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/test/harness"
	"collab/test/must"
)

func TestADeletedMembersArchivesAreDiscarded(t *testing.T) {
	d, ctx := must.Do(harness.NewDeployment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))).Or(t), t.Context()
	d.Archives.Retention = 30 * 24 * time.Hour
	ada := must.Do(d.Join(ctx, "org_yard", "user_ada", org.Owner)).Or(t)
	ben := must.Do(d.Join(ctx, "org_yard", "user_ben", org.Owner)).Or(t)
	want, kept := map[id.Export]export.Status{}, map[string]bool{}
	start := func(actor org.Actor, then export.Status) id.Export {
		e := must.Do(d.Archives.Start(ctx, actor)).Or(t)
		want[e.ID] = then
		return e.ID
	}
	start(ada, export.Expired)
	must.NoError(t, d.Archives.Work(ctx))
	others := start(ben, export.Ready)
	must.NoError(t, d.Archives.Work(ctx))
	kept[must.Do(d.Store.Journal().Exports().Get(ctx, ben.Org, others)).Or(t).Blob] = true
	start(ada, export.Failed)

	must.NoError(t, d.SendIdentityEvent(ctx, "user.deleted", map[string]any{"id": "user_ada", "deleted": true}))
	must.NoError(t, d.Archives.Work(ctx))
	is := map[id.Export]export.Status{}
	for _, e := range must.Do(d.Store.Journal().Exports().List(ctx, ada.Org)).Or(t) {
		is[e.ID] = e.Status(d.Clock.Now())
	}
	must.Equal(t, want, is)
	d.Clock.Advance(object.Grace + time.Millisecond)
	must.NoError(t, d.Upkeep.Run(ctx))
	if names := must.Do(d.BlobNames(ctx)).Or(t); !maps.Equal(names, kept) {
		t.Errorf("the store has %v, want %v", names, kept)
	}
}
