package gormdb

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/adapters/inspect"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/plan"
	"collab/test/must"
)

// migratedTo returns a database with the schema of an earlier version.
func migratedTo(t *testing.T, url string, version int64) *DB {
	t.Helper()
	db := opened(t, url)
	files, err := fs.Sub(migrations, db.dialect.migrations())
	if err == nil {
		err = db.migrate(t.Context(), files, version)
	}
	must.NoError(t, err)
	return db
}

// addOrganisation inserts an organisation in the columns of the first version.
func addOrganisation(t *testing.T, db *DB, o id.Org) {
	t.Helper()
	run(t, db, "INSERT INTO organisations (id, provider_id, name, slug, created_at, updated_at, is_full, seen_at, seen_rank, seen_message, "+
		"created_by, created_by_seen_at, created_by_seen_rank, created_by_seen_message) "+
		"VALUES ('"+string(o)+"', '"+string(o)+"', 'O', 'o', 1, 1, true, 1, 1, '', '', 0, 0, '')")
}

func TestADatabaseForNewerServersIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db := migrated(t, url)
		must.NoError(t, db.Ready(t.Context()))
		run(t, db, "UPDATE schema_support SET oldest = oldest + 100, release = '9.0.0'")
		_, err := Open(t.Context(), Options{URL: url})
		for _, err := range []error{err, db.Ready(t.Context())} {
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "for servers from version 9.0.0 on") {
				t.Error(err)
			}
		}
		run(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (1000, true)")
		found := Inspect(t.Context(), Inspection{Address: url, Clocks: &inspect.Clocks{}})
		if !slices.ContainsFunc(found, func(f inspect.Finding) bool {
			return f.Severity == inspect.Wrong && strings.Contains(f.Text, "from version 9.0.0 on")
		}) {
			t.Errorf("%+v", found)
		}
	})
}

func TestMigrationToBillingKeepsSubscriptions(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db := migratedTo(t, url, 3)
		free, granted, none := uid[id.Org](kindOrg, 1, 0), uid[id.Org](kindOrg, 2, 0), uid[id.Org](kindOrg, 3, 0)
		add := func(o id.Org, p plan.Plan) {
			addOrganisation(t, db, o)
			run(t, db, "INSERT INTO subscriptions (org_id, plan, status, is_external, updated_at) VALUES ('"+string(o)+"', '"+string(p)+"', 'ACTIVE', true, 7)")
		}
		add(free, plan.Free)
		add(granted, plan.Enterprise)
		add(none, plan.None)
		must.NoError(t, db.Migrate(t.Context()))
		subs := must.Do(db.Directory().Subscriptions().Of(t.Context(), []id.Org{free, granted, none})).Or(t)
		for o, p := range map[id.Org]plan.Plan{free: plan.Free, granted: plan.Enterprise, none: plan.None} {
			want := plan.Subscription{Org: o, Plan: p, ManagedExternally: true, EverPaid: p == plan.Enterprise, UpdatedAt: instant(7), SyncedAt: subs[o].SyncedAt}
			if got := subs[o]; got != want.Restore(plan.Active) || !got.SyncedAt.IsZero() {
				t.Errorf("%s: %+v", p, got)
			}
		}
	})
}

func TestMigrationToPollingMakesSubscriptionsDue(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db := migratedTo(t, url, 9)
		const day = 24 * 60 * 60 * 1000
		due := uid[id.Org](kindOrg, 1, 0)
		for o, values := range map[id.Org]string{
			due:                        "'PREMIUM', 'PAST_DUE', false, 'sub_1', 86400000",
			uid[id.Org](kindOrg, 2, 0): "'ENTERPRISE', 'ACTIVE', true, 'sub_2', 86400000",
			uid[id.Org](kindOrg, 3, 0): "'FREE', 'ACTIVE', false, 'sub_3', NULL",
			uid[id.Org](kindOrg, 4, 0): "'STANDARD', 'TRIALING', false, '', 86400000",
		} {
			addOrganisation(t, db, o)
			run(t, db, "INSERT INTO subscriptions (org_id, updated_at, plan, status, is_external, provider_id, period_end) VALUES ('"+string(o)+"', 7, "+values+")")
		}
		must.NoError(t, db.Migrate(t.Context()))
		for now, want := range map[int64][]id.Org{4*day - 1: nil, 4 * day: {due}} {
			if got, err := db.Directory().Subscriptions().Due(t.Context(), instant(now), 10); err != nil || !slices.Equal(got, want) {
				t.Errorf("at %d %v are due, %v", now, got, err)
			}
		}
	})
}

// TestMigrationToTaskTextsKeepsTexts has texts that Postgres stores outside of their rows.
func TestMigrationToTaskTextsKeepsTexts(t *testing.T) {
	db := migratedTo(t, databases[0].url(t), 9)
	o := uid[id.Org](kindOrg, 1, 0)
	addOrganisation(t, db, o)
	longest := `{"a":"` + strings.Repeat("x", 65_536-len(`{"a":""}`)) + `"}`
	tests := []struct {
		description, metadata any // nil: none
		moves                 bool
	}{
		{nil, nil, false},
		{"", "{}", false},
		{strings.Repeat("x", maxInline), nil, false},
		{strings.Repeat("x", maxInline-2), "{}", false},
		{strings.Repeat("x", maxInline-1), "{}", true},
		{strings.Repeat("\U0001F600", maxInline/4), "{}", true}, // four bytes each
		{nil, longest, true},
		{strings.Repeat("\U0001F600", 10_000), longest, true},
	}
	moved := 0
	for i, test := range tests {
		run(t, db, "INSERT INTO tasks (org_id, id, title, description, metadata, status, priority, sort_order, created_by, created_at, updated_at, version) VALUES (?, ?, 'T', ?, ?, 'TODO', 'LOW', ?, 'u', 1, 1, 1)",
			o, uid[id.Task](kindTask, 1, i), test.description, test.metadata, i)
		if test.moves {
			moved++
		}
	}
	must.NoError(t, db.Migrate(t.Context()))
	for i, test := range tests {
		got, err := db.Work().Tasks().Get(t.Context(), o, uid[id.Task](kindTask, 1, i))
		var description, metadata any
		if got.Description != nil {
			description = *got.Description
		}
		if got.Metadata != "" {
			metadata = got.Metadata
		}
		if err != nil || description != test.description || metadata != test.metadata {
			t.Errorf("task %d has other texts, %v", i, err)
		}
	}
	must.Is(t, moved, value[int](t, db.pools[0], "SELECT count(*) FROM task_texts"))
}

func TestMigrationToExpiringClientsCountsThemAsUsed(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		db := migratedTo(t, url, 7)
		run(t, db, "INSERT INTO connector_clients (issuer, redirect, client_id, method) VALUES ('i', 'r', 'c', 'none')")
		before := time.Now().Add(-time.Minute) // the database has a clock of its own
		must.NoError(t, db.Migrate(t.Context()))
		c, err := db.Connections().Clients().Get(t.Context(), "i", "r")
		if err != nil || c.UsedAt.Before(before) || c.UsedAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("%+v, %v", c, err)
		}
	})
}
