package script

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
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

	webhookSecret      = "whsec_cHJlc2VudC1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="     // signs the events of both providers
	oldWebhookSecret   = "whsec_ZWFybGllci1zZWNyZXQtb2YtdGhlLXNjcmlwdHM="     // of before, still accepted
	wrongWebhookSecret = "whsec_c29tZWJvZHktZWxzZXMtc2VjcmV0LWFsdG9nZXRoZXI=" // unknown to the server
)

// A profile is one way to deploy the server.
type profile struct {
	name     string
	database func(t *testing.T, dir string) (url, direct string) // direct is for migrations, if url is not

	// serve starts the servers, to which the requests of a conversation go in turn. The first one
	// goes to the second server, or if isReverse is set to the first. Nil: there is one.
	serve     func(t *testing.T, settings ...string) []*collabd.Server
	isReverse bool

	root    string                 // of the source that has the conversations; empty: this one
	holds   func(file string) bool // whether the conversations of a file are held; nil: all
	without map[string]string      // why conversations are not held, by title
}

// file returns the path of a file of the source that has the conversations.
func (p profile) file(name string) string { return filepath.Join(cmp.Or(p.root, "../.."), name) }

var (
	onSQLite = profile{name: "SQLite", database: func(_ *testing.T, dir string) (string, string) {
		return "sqlite://" + filepath.Join(dir, "collab.db"), ""
	}}
	onPostgres = profile{name: "Postgres", database: onServer(collabd.Postgres)}
	inMemory   = profile{name: "memory", database: func(*testing.T, string) (string, string) { return "memory://", "" }}
	onPooled   = profile{name: "Postgres through PgBouncer", database: func(t *testing.T, _ string) (string, string) {
		direct := postgres.URL(t)
		return postgres.Pooled(t, direct), direct
	}, holds: isHeldShortly} // the suite of gormdb sends every statement through the pooler
)

// onServer returns a profile's database, whose address made returns.
func onServer(made func(testing.TB) string) func(*testing.T, string) (string, string) {
	return func(t *testing.T, _ string) (string, string) { return made(t), "" }
}

// server is one running collabd.
type server struct {
	base     string   // its address, http://127.0.0.1:port
	hosts    []string // of all servers, which take requests in turn; nil: there is one
	database string
	models   *models // beside it
	tools    *externalServers
}

// start runs a server of its own until the test ends. One that logs an error,
// or finds a data race, fails the test.
func start(t *testing.T, p profile, settings ...string) *server {
	t.Helper()
	var running []*collabd.Server
	t.Cleanup(func() { // after the servers have stopped
		for _, s := range running {
			for line := range strings.Lines(s.Log()) {
				var entry struct{ Level string }
				if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" || strings.Contains(line, "WARNING: DATA RACE") {
					t.Errorf("the server logged: %s", line)
				}
			}
		}
	})
	if p.serve == nil {
		p.serve = func(t *testing.T, settings ...string) []*collabd.Server {
			return []*collabd.Server{collabd.Start(t, settings...)}
		}
	}
	beside := newModels(provider.Start(t))
	tools := newNeighbours(t)
	database, direct := p.database(t, tempdir.New(t))
	running = p.serve(t, append([]string{
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
	s := &server{base: running[0].URL, database: database, models: beside, tools: tools}
	if len(running) > 1 {
		for _, r := range running {
			s.hosts = append(s.hosts, strings.TrimPrefix(r.URL, "http://"))
		}
		if p.isReverse {
			slices.Reverse(s.hosts)
		}
	}
	return s
}
