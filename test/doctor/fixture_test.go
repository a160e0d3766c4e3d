package doctor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"collab/app/assembly"
	"collab/app/assembly/config"
	"collab/app/assembly/doctor"
	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/mailserver"
	"collab/test/must"
	"collab/test/objectstore"
	"collab/test/postgres"
	"collab/test/stripemock"
)

// The secrets of the fixture, none of which may be printed.
const (
	databasePassword = "pw-of-the-database"
	busPassword      = "pw-of-the-bus"
	mailPassword     = "pw-of-the-mail"
	clientSecret     = "secret-of-the-client"
	liveKey          = "sk_live_of_the_payments"
	modelKey         = "sk-of-the-models"
	collectorKey     = "key-of-the-collector"
	adminSecret      = "secret-of-the-operator-of-the-world"
	identityWebhook  = "whsec_b2YtdGhlLW1lc3NhZ2VzLW9mLXRoZS1pZGVudGl0eQ=="
	paymentWebhook   = "whsec_of_the_messages_of_the_payments"
)

var secrets = []string{
	databasePassword, busPassword, mailPassword, clientSecret, liveKey, modelKey, collectorKey, adminSecret,
	strings.TrimPrefix(identityWebhook, "whsec_"), strings.TrimPrefix(paymentWebhook, "whsec_"), "pw-that-is-wrong", "sk-that-is-wrong", "wrong_of_the_payments",
}

// settings are an environment.
type settings map[string]string

func (s settings) environ() []string {
	var all []string
	for name, value := range s {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}

// with returns the settings with some others in the form NAME=value.
func (s settings) with(others ...string) settings {
	changed := maps.Clone(s)
	for _, o := range others {
		name, value, _ := strings.Cut(o, "=")
		changed[name] = value
	}
	return changed
}

// fixture is everything that a production server is configured with, for real, and
// what is broken of each.
type fixture struct {
	settings                // in which nothing is wrong
	live     collabd.Client // of a server that runs, whose identity provider is the world's
	lived    settings       // its own
	database *postgres.Server
	name     string // of the database
	stripe   string
	files    string // a folder for files
	gone     string // the address of a server that is not there
}

// finding is one of doctor --json.
type finding struct{ Check, Verdict, Message, Remedy string }

// examine runs the doctor within this process.
func examine(t *testing.T, s settings) (code int, all []finding, text string) {
	t.Helper()
	var out bytes.Buffer
	code = doctor.Run(t.Context(), s.environ(), assembly.Version(), true, &out)
	var report struct {
		OK     bool
		Checks []finding
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	if report.OK != (code == 0) {
		t.Errorf("the code is %d, and ok %t", code, report.OK)
	}
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is printed:\n%s", secret, out.String())
		}
	}
	return code, report.Checks, out.String()
}

func newWorld(t *testing.T) *fixture {
	w := &fixture{files: t.TempDir(), stripe: newStripe(t)}
	w.openDatabase(t)
	t.Setenv(objectstore.EnvHost, newStore(t)) // which Google's client reads
	bus := newBus(t)
	w.lived = settings{
		"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATA_DIR": t.TempDir(), "COLLAB_RATE_LIMITS": "off",
		"COLLAB_DATABASE_URL": w.address("server", databasePassword, "live"), "COLLAB_BLOB_URL": "gs://live", "COLLAB_BUS_URL": bus,
	}
	w.live = serve(t, w.lived)

	page := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(page.Close)
	w.gone = "http://127.0.0.1:1"
	models := provider.Start(t)
	models.SetModels(modelKey, "claude-1", "gpt-1")
	write := func(name, content string) string {
		path := filepath.Join(w.files, name)
		must.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	registry := func(ids ...string) string {
		var all []string
		for _, id := range ids {
			by := map[string]string{"c": "anthropic", "g": "openai"}[id[:1]]
			all = append(all, fmt.Sprintf(`{"id":%q,"displayName":"M","provider":%q,"tier":"fast","contextWindow":1000,"maxOutputTokens":100,"capabilities":[]}`, id, by))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	write("strange.json", registry("claude-1", "gpt-1", "gpt-unheard-of"))
	write("broken.json", "{")
	write("clients.json", `{"builtIn": true, "clients": [{"issuer": "https://as.example.com", "clientId": "ours"}]}`)
	w.settings = settings{
		"COLLAB_MODE": "production", "COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_PUBLIC_URL": page.URL, "COLLAB_APP_URL": "https://app.example.com",
		"COLLAB_DATABASE_URL": w.address("server", databasePassword, w.name), "COLLAB_BLOB_URL": "gs://files", "COLLAB_BUS_URL": bus,
		"COLLAB_TOKEN_KEYS": write("token-keys.pem", printed(t, "tokens")), "COLLAB_SECRETS_KEYS": write("secrets-keys.json", printed(t, "secrets")),
		"COLLAB_IDENTITY_ISSUER": w.live.Base + "/dev/identity", "COLLAB_IDENTITY_AUDIENCE": "collab", "COLLAB_IDENTITY_CLIENT_ID": "collab", "COLLAB_IDENTITY_CLIENT_SECRET": clientSecret,
		"COLLAB_IDENTITY_WEBHOOK_SECRETS": identityWebhook,
		"COLLAB_STRIPE_SECRET_KEY":        liveKey, "COLLAB_STRIPE_API_URL": w.stripe, "COLLAB_STRIPE_WEBHOOK_SECRETS": paymentWebhook,
		"COLLAB_STRIPE_PRICE_STANDARD": "price_standard", "COLLAB_STRIPE_PRICE_PREMIUM": "price_premium",
		"COLLAB_ANTHROPIC_API_KEY": modelKey, "COLLAB_ANTHROPIC_URL": models.Anthropic(), "COLLAB_OPENAI_API_KEY": modelKey, "COLLAB_OPENAI_URL": models.OpenAI(),
		"COLLAB_MODELS_FILE": write("models.json", registry("claude-1", "gpt-1")),
		"COLLAB_SMTP_URL":    "smtp://server:" + mailPassword + "@" + newMail(t) + "?tls=off", "COLLAB_MAIL_FROM": "collab@example.com",
		"COLLAB_ADMIN_SECRET": adminSecret,
	}
	return w
}

// serve runs a server within this process until the test ends.
func serve(t *testing.T, s settings) collabd.Client {
	c := must.Do(config.Read(s.environ())).Or(t)
	ctx, stop := context.WithCancel(context.Background())
	greeting, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := assembly.Serve(ctx, c, out, io.Discard)
		_ = out.CloseWithError(errors.Join(io.ErrUnexpectedEOF, err))
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		must.Succeed(t, <-ended)
	})
	lines := bufio.NewReader(greeting)
	for {
		line := must.Do(lines.ReadString('\n')).Or(t)
		if _, address, found := strings.Cut(strings.TrimSpace(line), "API"); found {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			return collabd.Client{Base: strings.TrimSuffix(strings.TrimSpace(address), "/api/v1")}
		}
	}
}

func printed(t *testing.T, kind string) string {
	var out bytes.Buffer
	must.NoError(t, assembly.PrintKeys(&out, kind))
	return out.String()
}

func (w *fixture) address(user, password, database string) string {
	u, _ := url.Parse(w.database.URL(database))
	u.User = url.UserPassword(user, password)
	return u.String()
}

// openDatabase starts a server that asks for passwords, with one database that is
// migrated, owned by a user of its own, and another that is empty.
func (w *fixture) openDatabase(t *testing.T) {
	folder, err := os.MkdirTemp("", "doctor-*")
	must.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	hba := filepath.Join(folder, "hba.conf")
	err = errors.Join(os.Chmod(folder, 0o755), os.WriteFile(hba, []byte("host all collab 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o644))
	must.NoError(t, err)
	ctx := context.Background()
	if w.database, err = postgres.Start(ctx, postgres.Options{Settings: map[string]string{"hba_file": hba}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.database.Close() })
	w.name = "world"
	err = w.run(ctx, "postgres", "CREATE ROLE server LOGIN PASSWORD '"+databasePassword+"'", "CREATE ROLE stranger LOGIN PASSWORD '"+databasePassword+"'",
		"CREATE DATABASE world OWNER server", "CREATE DATABASE live OWNER server", "CREATE DATABASE empty OWNER server", "CREATE DATABASE old OWNER server",
		"CREATE DATABASE latin OWNER server ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	for _, name := range []string{"world", "old"} {
		if err == nil {
			err = migrate(w.address("server", databasePassword, name))
		}
	}
	if err == nil {
		err = w.run(ctx, "old", "DELETE FROM goose_db_version WHERE version_id > 3")
	}
	must.NoError(t, err)
}

func (w *fixture) run(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, w.database.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func migrate(address string) error {
	c, err := config.Read([]string{"COLLAB_DATABASE_URL=" + address})
	if err != nil {
		return err
	}
	return assembly.Migrate(context.Background(), c, false, io.Discard)
}

func newBus(t *testing.T) string {
	bus := must.Do(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Users: []*server.User{
			{Username: "server", Password: busPassword},
			{Username: "bound", Password: busPassword, Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"collab.hints"}}, Subscribe: &server.SubjectPermission{Allow: []string{"collab.hints"}},
			}},
		},
	})).Or(t)
	bus.Start()
	t.Cleanup(func() { bus.Shutdown(); bus.WaitForShutdown() })
	if !bus.ReadyForConnections(time.Minute) {
		t.Fatal("the bus does not answer")
	}
	return "nats://server:" + busPassword + "@" + bus.Addr().String()
}

// newStore starts an object store with a bucket for files. What is written to
// the bucket readonly is refused, and removals from the bucket keeping.
func newStore(t *testing.T) (host string) {
	store := objectstore.Start(t, "")
	for _, name := range []string{"files", "live", "readonly", "keeping"} {
		store.Bucket(name)
	}
	behind, _ := url.Parse("http://" + store.Host)
	next := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := func(bucket string) bool { return strings.Contains(r.URL.Path, "/"+bucket+"/") }
		if of("readonly") && r.Method == "POST" || of("keeping") && r.Method == "DELETE" || of("closed") {
			http.Error(w, `{"error":{"code":403,"message":"denied"}}`, http.StatusForbidden)
			return
		}
		r.Host = behind.Host
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.Listener.Addr().String()
}

// newStripe starts the payment provider's own mock behind what it lacks: keys
// that it does not know, prices that are not there, and such as cannot be used.
func newStripe(t *testing.T) string {
	mock := stripemock.Handler(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, kind, code, param string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"type":%q,"code":%q,"param":%q,"message":"of %s"}}`, kind, code, param, r.Header.Get("Authorization"))
		}
		switch r.Header.Get("Authorization") {
		case "Bearer " + liveKey, "Bearer sk_test_of_the_payments":
		case "Bearer rk_live_bound":
			refuse(http.StatusForbidden, "invalid_request_error", "", "")
			return
		default:
			refuse(http.StatusUnauthorized, "invalid_request_error", "", "")
			return
		}
		price := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if price == "price_gone" {
			refuse(http.StatusNotFound, "invalid_request_error", "resource_missing", "price")
			return
		}
		r.Header.Set("Authorization", "Bearer sk_test_123")
		response := httptest.NewRecorder()
		mock.ServeHTTP(response, r)
		var object map[string]any
		if err := json.Unmarshal(response.Body.Bytes(), &object); err != nil || response.Code != http.StatusOK {
			w.WriteHeader(response.Code)
			_, _ = w.Write(response.Body.Bytes())
			return
		}
		object["livemode"] = true
		switch price {
		case "price_inactive":
			object["active"] = false
		case "price_once":
			object["recurring"] = nil
		case "price_metered":
			object["recurring"] = map[string]any{"interval": "month", "usage_type": "metered"}
		case "price_euro":
			object["currency"] = "eur"
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// newMail starts a mail server that takes one user.
func newMail(t *testing.T) (address string) {
	return mailserver.Start(t, func(s *mailserver.Server) {
		s.Offers = []string{"AUTH PLAIN"}
		s.Reply = func(command, user, usual string) string {
			switch {
			case command == "AUTH" && user != "/server/"+mailPassword:
				return "535 not " + user
			case command == "MAIL", command == "RCPT", command == "DATA":
				return "554 the doctor sends nothing"
			}
			return usual
		}
	}).Addr().String()
}

// issuer starts an identity provider whose metadata is changed by change.
func issuer(t *testing.T, change func(document map[string]any), header ...string) string {
	var self *httptest.Server
	self = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/keys" {
			fmt.Fprint(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"1","alg":"EdDSA","use":"sig"}]}`)
			return
		}
		document := map[string]any{
			"issuer": self.URL, "jwks_uri": self.URL + "/keys", "authorization_endpoint": self.URL + "/authorize", "token_endpoint": self.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"EdDSA"},
		}
		change(document)
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(self.Close)
	return self.URL
}
