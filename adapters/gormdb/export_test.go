package gormdb

import (
	"slices"
	"testing"
)

// notExported are the tables of organisations whose records an export leaves out, with the
// reason.
var notExported = map[string]string{
	"request_counts":        "they are of the last minutes",
	"task_texts":            "tasks are read with their texts",
	"task_tags":             "triggers derive it from the tasks",
	"sessions":              "sign-ins belong to a deployment",
	"device_grants":         "sign-ins belong to a deployment",
	"log_heads":             "an import begins a log",
	"changes":               "an import begins a log",
	"object_versions":       "an export has what is, not what was",
	"blob_names":            "they are names of a store",
	"quota_accounts":        "they follow from the usage of one day",
	"quota_leases":          "they end with requests that are under way",
	"usage_user_models":     "sums of the usage",
	"usage_users":           "sums of the usage",
	"usage_models":          "sums of the usage",
	"exports":               "their archives are in the store",
	"uploads":               "they are not files yet",
	"upload_parts":          "the same",
	"connector_credentials": "secrets",
	"connector_flows":       "secrets",
	"connector_revocations": "secrets",
}

// exported are the tables of organisations whose records an export has.
var exported = []string{
	"subscriptions", "memberships", "invitations", "teams", "team_members", "workspaces", "workspace_orders", "tasks", "task_history", "connectors",
	"usage_entries", "audit", "objects",
}

func TestEveryTableOfOrganisationsIsExportedOrHasAReason(t *testing.T) {
	for _, name := range tenantTables {
		if in := slices.Contains(exported, name); in == (notExported[name] != "") {
			t.Errorf("%s is exported: %v, and left out because: %q", name, in, notExported[name])
		}
	}
	for _, name := range exported {
		if !slices.Contains(tenantTables, name) {
			t.Errorf("%s is exported and does not exist", name)
		}
	}
}
