package script

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/postgres"
	"collab/test/tempdir"
)

const (
	adminSecret = "operators-only-0123456789"
	corsOrigin  = "https://app.example.com"

	// The secrets that events of both providers are signed with: the present one, the one
	// before it, and one that the server does not know.
	webhookSecret      = "whsec_cHJlc2VudC1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="
	oldWebhookSecret   = "whsec_ZWFybGllci1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="
	wrongWebhookSecret = "whsec_c29tZWJvZHktZWxzZXMtc2VjcmV0LWFsdG9nZXRoZXI="
)

// A profile is one way to deploy the server.
type profile struct {
	name     string
	database func(t *testing.T, dir string) (url, direct string) // direct is for migrations, if url is not
}

var (
	onSQLite = profile{"SQLite", func(_ *testing.T, dir string) (string, string) {
		return "sqlite://" + filepath.Join(dir, "collab.db"), ""
	}}
	onPostgres = profile{"Postgres", func(t *testing.T, _ string) (string, string) { return postgres.URL(t), "" }}
	inMemory   = profile{"memory", func(*testing.T, string) (string, string) { return "memory://", "" }}
	onPooled   = profile{"Postgres through PgBouncer", func(t *testing.T, _ string) (string, string) {
		direct := postgres.URL(t)
		return postgres.Pooled(t, direct), direct
	}}
)

// server is one running collabd.
type server struct {
	base     string // its address, http://127.0.0.1:port
	database string
	models   *models // beside it
	tools    *externalServers
}

// start runs a server of its own until the test ends. One that logs an error,
// or finds a data race, fails the test.
func start(t *testing.T, p profile, settings ...string) *server {
	t.Helper()
	var running *collabd.Server
	t.Cleanup(func() { // after the server has stopped
		if running == nil {
			return
		}
		for line := range strings.Lines(running.Log()) {
			var entry struct{ Level string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" || strings.Contains(line, "WARNING: DATA RACE") {
				t.Errorf("the server logged: %s", line)
			}
		}
	})
	beside := newModels(provider.Start(t))
	tools := newNeighbours(t)
	database, direct := p.database(t, tempdir.New(t))
	running = collabd.Start(t, append([]string{
		"COLLAB_DATABASE_URL=" + database,
		"COLLAB_DATABASE_DIRECT_URL=" + direct,
		"COLLAB_ADMIN_SECRET=" + adminSecret,
		"COLLAB_CORS_ORIGINS=" + corsOrigin,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS=" + webhookSecret + "," + oldWebhookSecret,
		"COLLAB_STRIPE_WEBHOOK_SECRETS=" + webhookSecret + "," + oldWebhookSecret,
		"COLLAB_IDENTITY_ROLE_MAP=org:billing=VIEWER",
		"COLLAB_LOG_FORMAT=json",
		"COLLAB_ANTHROPIC_URL=" + beside.provider.Anthropic(), "COLLAB_ANTHROPIC_API_KEY=" + modelsKey,
		"COLLAB_CONNECTORS_FILE=" + tools.catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8,::1/128",
		"COLLAB_OPENAI_URL=" + beside.provider.OpenAI(), "COLLAB_OPENAI_API_KEY=" + modelsKey,
	}, settings...)...)
	return &server{base: running.URL, database: database, models: beside, tools: tools}
}
