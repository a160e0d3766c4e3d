// Package doctor has the tests of collabd doctor, against the real parts.
package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"collab/adapters/bucket"
	"collab/app/assembly"
	"collab/app/assembly/config"
	"collab/app/assembly/doctor"
	"collab/test/contract/provider"
	"collab/test/must"
	"collab/test/objectstore"
	"collab/test/postgres"
)

// verdicts are the findings of all checks but one, a line each.
func verdicts(all []finding, but string) string {
	var lines []string
	for _, f := range all {
		if f.Check != but {
			lines = append(lines, f.Check+" "+f.Verdict)
		}
	}
	return strings.Join(lines, "\n")
}

// TestConfigurations has one fixture for all cases that need it: it takes seconds to
// make.
func TestConfigurations(t *testing.T) {
	w := newWorld(t)
	t.Run("what is wrong is said with its remedy, and nothing else", w.broken)
	t.Run("an object store that is away", w.storeAway)
	t.Run("a collector of traces is tried in the way in which it is used", w.traces)
	t.Run("a server that runs is not disturbed", w.beside)
	t.Run("a server finds the same about itself, and shows no secret", w.itself)
	t.Run("a configuration for development is told what production needs besides", w.lacking)
}

func (w *fixture) broken(t *testing.T) {
	code, healthy, text := examine(t, w.settings)
	if code != 0 {
		t.Fatalf("nothing is wrong, and the code is %d:\n%s", code, text)
	}
	for _, check := range []string{
		"address", "database", "schema", "bucket", "bus", "token-keys", "secrets-keys", "identity", "identity-webhooks",
		"payments", "payment-webhooks", "models", "anthropic", "openai", "connectors", "mail", "operator", "clock",
	} {
		if !strings.Contains(verdicts(healthy, ""), check+" ok") {
			t.Errorf("%s is not said to be in order:\n%s", check, text)
		}
	}

	readable := filepath.Join(w.files, "readable.pem")
	must.NoError(t, os.WriteFile(readable, []byte(printed(t, "tokens")), 0o644))
	must.NoError(t, os.Chmod(readable, 0o644))
	pooled := postgres.Pooled(t, w.settings["COLLAB_DATABASE_URL"])
	silent := provider.Start(t)
	nothing := func(map[string]any) {}
	early := time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat)
	gone := strings.TrimPrefix(w.gone, "http://")
	const org = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, c := range []struct {
		name, check string
		set         []string
		verdict     string
		message     string // a part of it
		remedy      string // likewise
	}{
		{"a port that is not ours", "address", []string{"COLLAB_LISTEN=192.0.2.1:80"}, "wrong", "cannot listen on 192.0.2.1:80", "COLLAB_LISTEN"},
		{"a server at the address", "address", []string{"COLLAB_LISTEN=" + strings.TrimPrefix(strings.Replace(w.live.Base, "localhost", "127.0.0.1", 1), "http://")}, "note", "a server listens", "COLLAB_LISTEN"},
		{"a public address without encryption", "public-url", []string{"COLLAB_PUBLIC_URL=" + w.gone}, "wrong", "is not https", "COLLAB_PUBLIC_URL"},
		{"no database server", "database", []string{"COLLAB_DATABASE_URL=postgres://server:" + databasePassword + "@" + gone + "/world"}, "wrong", "connection refused", "start it"},
		{"a limit that the clients of a proxy share", "proxies", []string{"COLLAB_RATE_LIMITS=address=7/h"}, "note", "the limit of 7 requests in 3600 seconds", "COLLAB_TRUSTED_PROXIES"},
		{"addresses that are the proxy's", "proxies", []string{"COLLAB_RATE_LIMITS=off"}, "note", "in the log", "COLLAB_TRUSTED_PROXIES"},
		{"trusted proxies", "proxies", []string{"COLLAB_TRUSTED_PROXIES=127.0.0.1,10.0.0.0/8"}, "ok", "2 addresses and networks", ""},
		{"a wrong password of the database", "database", []string{"COLLAB_DATABASE_URL=" + w.address("server", "pw-that-is-wrong", "world")}, "wrong", "password authentication failed", "user and password"},
		{"a database that is not there", "database", []string{"COLLAB_DATABASE_URL=" + w.address("server", databasePassword, "nowhere")}, "wrong", `database "nowhere" does not exist`, "CREATE DATABASE"},
		{"an encoding that is not UTF-8", "database", []string{"COLLAB_DATABASE_URL=" + w.address("server", databasePassword, "latin")}, "wrong", "encoding", "UTF8"},
		{"tables of another user", "database", []string{"COLLAB_DATABASE_URL=" + w.address("stranger", databasePassword, "world")}, "wrong", "may not read", "GRANT"},
		{"more connections than there are", "database", []string{"COLLAB_DATABASE_URL=" + w.settings["COLLAB_DATABASE_URL"] + "&pool_max_conns=1000"}, "wrong", "up to 1000", "max_connections"},
		{"a pooler that the address does not name", "database", []string{"COLLAB_DATABASE_URL=" + strings.Replace(pooled, "pool_mode=transaction", "", 1)}, "wrong", "behind a pooler in transaction mode", "pool_mode=transaction"},
		{"a pooler that the address names", "database", []string{"COLLAB_DATABASE_URL=" + pooled + "&pool_max_conns=1000"}, "ok", "answers", ""},
		{"a pooler that is not there", "database", []string{"COLLAB_DATABASE_URL=" + w.settings["COLLAB_DATABASE_URL"] + "&pool_mode=transaction"}, "note", "no pooler", "pool_mode=transaction"},
		{"a database that was not migrated", "schema", []string{"COLLAB_DATABASE_URL=" + w.address("server", databasePassword, "empty")}, "wrong", "no migration has run", "collabd migrate"},
		{"migrations that are pending", "schema", []string{"COLLAB_DATABASE_URL=" + w.address("server", databasePassword, "old")}, "wrong", "version 3", "collabd migrate"},
		{"a publisher that there is not", "releases", []string{"COLLAB_RELEASE_ORGS=" + org}, "wrong", org, "/auth/me"},
		{"a bucket that is not there", "bucket", []string{"COLLAB_BLOB_URL=gs://nowhere"}, "wrong", "gs://nowhere is not there (404)", "COLLAB_BLOB_URL"},
		{"a bucket that takes nothing", "bucket", []string{"COLLAB_BLOB_URL=gs://readonly"}, "wrong", "gs://readonly refuses to be written to (403)", "roles/storage.objectUser"},
		{"a bucket that cannot be seen", "bucket", []string{"COLLAB_BLOB_URL=gs://closed"}, "wrong", "refuses to be listed (403)", "roles/storage.objectUser"},
		{"a bucket that lets nothing go", "bucket", []string{"COLLAB_BLOB_URL=gs://keeping"}, "wrong", "refuses to have objects removed (403): collabd-doctor/", "roles/storage.objectUser"},
		{"a file for a directory", "bucket", []string{"COLLAB_BLOB_URL=file://" + readable}, "wrong", "cannot be opened", "COLLAB_BLOB_URL"},
		{"no bus", "bus", []string{"COLLAB_BUS_URL=nats://server:" + busPassword + "@" + gone}, "wrong", "does not answer", "COLLAB_BUS_URL"},
		{"a second server of the bus that is not there", "bus", []string{"COLLAB_BUS_URL=" + w.settings["COLLAB_BUS_URL"] + ",nats://" + gone}, "wrong", "Server 2 of the bus does not answer", "COLLAB_BUS_URL"},
		{"a wrong password of the bus", "bus", []string{"COLLAB_BUS_URL=" + strings.Replace(w.settings["COLLAB_BUS_URL"], busPassword, "pw-that-is-wrong", 1)}, "wrong", "does not let the user in", "user and password"},
		{"a user of the bus who may send hints alone", "bus", []string{"COLLAB_BUS_URL=" + strings.Replace(w.settings["COLLAB_BUS_URL"], "server", "bound", 1)}, "note", "may not use the subject collab.hints.doctor.", "those below it"},
		{"token keys that are not there", "token-keys", []string{"COLLAB_TOKEN_KEYS=" + w.files + "/nothing"}, "wrong", "is not there", "collabd keys tokens"},
		{"token keys that are none", "token-keys", []string{"COLLAB_TOKEN_KEYS=" + w.settings["COLLAB_SECRETS_KEYS"]}, "wrong", "not PEM", "collabd keys tokens"},
		{"token keys that everybody reads", "token-keys", []string{"COLLAB_TOKEN_KEYS=" + readable}, "wrong", "can be read or written by all users", "chmod 600"},
		{"a directory for the keyset", "secrets-keys", []string{"COLLAB_SECRETS_KEYS=" + w.files}, "wrong", "cannot be read", "read it"},
		{"a keyset that is none", "secrets-keys", []string{"COLLAB_SECRETS_KEYS=" + w.settings["COLLAB_TOKEN_KEYS"]}, "wrong", "does not hold a Tink keyset", "COLLAB_SECRETS_KEYS"},
		{"no identity provider", "identity", []string{"COLLAB_IDENTITY_ISSUER=" + w.gone}, "wrong", "connection refused", "openid-configuration"},
		{"another issuer", "identity", []string{"COLLAB_IDENTITY_ISSUER=" + issuer(t, func(d map[string]any) { d["issuer"] = "https://other.example.com" })}, "wrong", "https://other.example.com", "byte for byte"},
		{"an issuer without keys", "identity", []string{"COLLAB_IDENTITY_ISSUER=" + issuer(t, func(d map[string]any) { d["jwks_uri"] = w.gone })}, "wrong", "The keys cannot be read", "COLLAB_IDENTITY_ISSUER"},
		{"an issuer without sign-in by code", "identity", []string{"COLLAB_IDENTITY_ISSUER=" + issuer(t, func(d map[string]any) { delete(d, "authorization_endpoint") })}, "wrong", "no sign-in by code", "COLLAB_IDENTITY_SIGN_IN_URL"},
		{"a clock that is behind", "clock", []string{"COLLAB_IDENTITY_ISSUER=" + issuer(t, nothing, "Date", early)}, "wrong", "behind this machine's", "NTP"},
		{"a secret of messages twice", "identity-webhooks", []string{"COLLAB_IDENTITY_WEBHOOK_SECRETS=" + identityWebhook + "," + identityWebhook}, "note", "secret 2 is secret 1 again", "COLLAB_IDENTITY_WEBHOOK_SECRETS"},
		{"no secret of messages", "identity-webhooks", []string{"COLLAB_IDENTITY_WEBHOOK_SECRETS="}, "note", "no message of the identity provider is accepted", "COLLAB_IDENTITY_WEBHOOK_SECRETS"},
		{"a secret of payments that is a key", "payment-webhooks", []string{"COLLAB_STRIPE_WEBHOOK_SECRETS=" + liveKey}, "wrong", "must begin with whsec_", "COLLAB_STRIPE_WEBHOOK_SECRETS"},
		{"the secret of the other messages", "payment-webhooks", []string{"COLLAB_STRIPE_WEBHOOK_SECRETS=" + identityWebhook}, "wrong", "identity provider's", "belongs to"},
		{"a key of payments that is unknown", "payments", []string{"COLLAB_STRIPE_SECRET_KEY=sk_live_wrong_of_the_payments"}, "wrong", "does not know the key", "COLLAB_STRIPE_SECRET_KEY"},
		{"a key of payments for tests", "payments", []string{"COLLAB_STRIPE_SECRET_KEY=sk_test_of_the_payments"}, "wrong", "for tests", "live key"},
		{"the publishable key", "payments", []string{"COLLAB_STRIPE_SECRET_KEY=pk_live_x"}, "wrong", "publishable", "sk_"},
		{"a key of payments without rights", "payments", []string{"COLLAB_STRIPE_SECRET_KEY=rk_live_bound"}, "wrong", "may not read prices", "restricted key"},
		{"no payment provider", "payments", []string{"COLLAB_STRIPE_API_URL=" + w.gone}, "wrong", "does not answer", "reach it"},
		{"a price that is not there", "payments", []string{"COLLAB_STRIPE_PRICE_PREMIUM=price_gone"}, "wrong", "PREMIUM: there is no price price_gone", "COLLAB_STRIPE_PRICE_PREMIUM"},
		{"a price that is not active", "payments", []string{"COLLAB_STRIPE_PRICE_STANDARD=price_inactive"}, "wrong", "STANDARD: the price price_inactive is not active", "COLLAB_STRIPE_PRICE_STANDARD"},
		{"a former price that is not active", "payments", []string{"COLLAB_STRIPE_PRICE_STANDARD=price_standard,price_inactive"}, "ok", "STANDARD: price_inactive, not sold any more", ""},
		{"a former price that is not there", "payments", []string{"COLLAB_STRIPE_PRICE_STANDARD=price_standard,price_gone"}, "wrong", "STANDARD: there is no price price_gone", "COLLAB_STRIPE_PRICE_STANDARD"},
		{"a price that is paid once", "payments", []string{"COLLAB_STRIPE_PRICE_STANDARD=price_once"}, "wrong", "paid once", "recurring"},
		{"a price by use", "payments", []string{"COLLAB_STRIPE_PRICE_STANDARD=price_metered"}, "wrong", "what was used", "by quantity"},
		{"prices in two currencies", "payments", []string{"COLLAB_STRIPE_PRICE_PREMIUM=price_euro"}, "wrong", "in eur, the other in usd", "same currency"},
		{"a registry that cannot be read", "models", []string{"COLLAB_MODELS_FILE=" + w.files + "/broken.json"}, "wrong", "JSON array", "correct the file"},
		{"a default model that there is not", "models", []string{"COLLAB_DEFAULT_MODEL=unheard-of"}, "wrong", "unheard-of", "models"},
		{"a model that the provider does not know", "openai", []string{"COLLAB_MODELS_FILE=" + w.files + "/strange.json"}, "wrong", "does not know gpt-unheard-of", "COLLAB_MODELS_FILE"},
		{"a wrong key of Anthropic's", "anthropic", []string{"COLLAB_ANTHROPIC_API_KEY=sk-that-is-wrong"}, "wrong", "does not know the key", "COLLAB_ANTHROPIC_API_KEY"},
		{"a wrong key of OpenAI's", "openai", []string{"COLLAB_OPENAI_API_KEY=sk-that-is-wrong"}, "wrong", "does not know the key", "COLLAB_OPENAI_API_KEY"},
		{"no server of models", "openai", []string{"COLLAB_OPENAI_URL=" + w.gone}, "wrong", "does not answer", "COLLAB_OPENAI_URL"},
		{"a server that lists no models", "openai", []string{"COLLAB_OPENAI_URL=" + silent.OpenAI()}, "note", "does not list its models", ""},
		{"any application of the issuer", "identity", []string{"COLLAB_IDENTITY_AUDIENCE="}, "wrong", "any application of the issuer", "COLLAB_IDENTITY_AUTHORIZED_PARTIES"},
		{"a client that an operator registers", "connectors", []string{"COLLAB_CONNECTORS_FILE=" + w.files + "/clients.json"}, "ok", "/api/v1/mcp-oauth/callback/qt4gfywlvm6qc2chjwaar7ay7k", ""},
		{"a catalog that cannot be read", "connectors", []string{"COLLAB_CONNECTORS_FILE=" + w.files + "/broken.json"}, "wrong", "COLLAB_CONNECTORS_FILE", "correct the file"},
		{"no mail server", "mail", []string{"COLLAB_SMTP_URL=smtp://server:" + mailPassword + "@" + gone}, "wrong", "connection refused", "COLLAB_SMTP_URL"},
		{"a wrong password of the mail", "mail", []string{"COLLAB_SMTP_URL=" + strings.Replace(w.settings["COLLAB_SMTP_URL"], mailPassword, "pw-that-is-wrong", 1)}, "wrong", "535", "user and password"},
		{"a mail server without the encryption that is asked for", "mail", []string{"COLLAB_SMTP_URL=" + strings.Replace(w.settings["COLLAB_SMTP_URL"], "off", "required", 1)}, "wrong", "does not answer as it must", "COLLAB_SMTP_URL"},
		{"an operator's secret that can be guessed", "operator", []string{"COLLAB_ADMIN_SECRET=1234"}, "wrong", "can be guessed", "COLLAB_ADMIN_SECRET"},
		{"analytics that are not there", "analytics", []string{"COLLAB_POSTHOG_KEY=phc_of_the_analytics", "COLLAB_POSTHOG_URL=" + w.gone}, "wrong", "connection refused", "COLLAB_POSTHOG_URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, all, text := examine(t, w.settings.with(c.set...))
			must.Is(t, map[string]int{"note": 0, "wrong": 1}[c.verdict], code)
			found := false
			for _, f := range all {
				found = found || f.Check == c.check && f.Verdict == c.verdict && strings.Contains(f.Message, c.message) && strings.Contains(f.Remedy, c.remedy)
			}
			if !found {
				t.Errorf("not said:\n%s", text)
			}
			if c.check == "database" {
				return // its content is unknown, too
			}
			if got, want := verdicts(all, c.check), verdicts(healthy, c.check); got != want {
				t.Errorf("the others are\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// says reports whether there is a finding whose message contains the text.
func says(all []finding, check, verdict, message string) bool {
	return slices.ContainsFunc(all, func(f finding) bool {
		return f.Check == check && f.Verdict == verdict && strings.Contains(f.Message, message)
	})
}

func (w *fixture) itself(t *testing.T) {
	wrong := w.settings.with("COLLAB_DATABASE_URL="+w.address("server", "pw-that-is-wrong", "world"), "COLLAB_STRIPE_SECRET_KEY=sk_live_wrong_of_the_payments", "COLLAB_BUS_URL=nats://server:"+busPassword+"@"+strings.TrimPrefix(w.gone, "http://"))
	for _, s := range []settings{w.settings, wrong} {
		c := must.Do(config.Read(s.environ())).Or(t)
		var got []finding
		for _, f := range doctor.Examine(t.Context(), c, assembly.Version()) {
			got = append(got, finding{f.Check, f.Verdict, f.Message, f.Remedy})
		}
		_, want, _ := examine(t, s)
		if verdicts(got, "") != verdicts(want, "") || !says(got, "address", "ok", "this server listens on") {
			t.Errorf("the server finds\n%s\nand the command\n%s", verdicts(got, ""), verdicts(want, ""))
		}
		for _, secret := range append(secrets, "pw-that-is-wrong") {
			if text := fmt.Sprint(got); strings.Contains(text, secret) {
				t.Errorf("a secret is in %s", text)
			}
		}
	}
}

func (w *fixture) lacking(t *testing.T) {
	_, all, text := examine(t, w.settings.with("COLLAB_MODE=development"))
	if !says(all, "production", "note", "everything is set that production needs") {
		t.Errorf("nothing is lacking:\n%s", text)
	}
	_, all, text = examine(t, w.settings.with("COLLAB_MODE=development", "COLLAB_APP_URL="))
	if !says(all, "production", "note", "COLLAB_APP_URL must be set in production") || says(all, "production", "note", "everything is set") {
		t.Errorf("the address of the application is lacking:\n%s", text)
	}
}

func (w *fixture) storeAway(t *testing.T) {
	t.Setenv(objectstore.EnvHost, strings.TrimPrefix(w.gone, "http://"))
	code, all, text := examine(t, w.settings)
	if code != 1 || !says(all, "bucket", "wrong", "connection refused") {
		t.Errorf("the code is %d:\n%s", code, text)
	}
}

func (w *fixture) traces(t *testing.T) {
	var asked atomic.Value
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Key"))
	}))
	defer collector.Close()
	strict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "nobody has the key "+r.Header.Get("X-Key"), http.StatusUnauthorized)
	}))
	defer strict.Close()
	try := func(endpoint string) []finding {
		// The exporter reads them itself.
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Key="+collectorKey)
		_, all, _ := examine(t, w.settings.with("OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_HEADERS=X-Key="+collectorKey))
		return all
	}
	if all := try(collector.URL); !says(all, "traces", "ok", collector.URL) || asked.Load() != "POST /v1/traces "+collectorKey {
		t.Errorf("the collector was asked %v, and it is said: %+v", asked.Load(), all)
	}
	if all := try(strict.URL); !says(all, "traces", "wrong", "nobody has the key …") {
		t.Errorf("of a collector that takes nothing it is said: %+v", all)
	}
	if all := try(w.gone); !says(all, "traces", "wrong", "connection refused") {
		t.Errorf("of no collector it is said: %+v", all)
	}
}

// counters are what a server counts of its bus.
func counters(t *testing.T, base string) string {
	t.Helper()
	response := must.Do(http.Get(base + "/metrics")).Or(t)
	defer response.Body.Close()
	text := must.Do(io.ReadAll(response.Body)).Or(t)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "collab_bus_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func (w *fixture) beside(t *testing.T) {
	before := counters(t, w.live.Base)
	if !strings.Contains(before, "collab_bus_malformed_total 0\n") {
		t.Fatalf("the counters are\n%s", before)
	}
	at := strings.Replace(strings.TrimPrefix(w.live.Base, "http://"), "localhost", "127.0.0.1", 1)
	for range 3 {
		code, all, text := examine(t, w.lived.with("COLLAB_LISTEN="+at, "COLLAB_PUBLIC_URL="+w.live.Base))
		if code != 0 || !says(all, "address", "note", "a server listens on "+at) || !says(all, "public-url", "ok", "answers") {
			t.Errorf("the code is %d:\n%s", code, text)
		}
	}
	if after := counters(t, w.live.Base); after != before {
		t.Errorf("the server counts\n%s\nand counted\n%s", after, before)
	}
	for _, name := range []string{"live", "files", "readonly"} {
		b, err := bucket.Open(t.Context(), "gs://"+name)
		must.NoError(t, err)
		err = b.List(t.Context(), func(name string, _ int64, _ time.Time) error { return errors.New(name + " is left") })
		if err := errors.Join(err, b.Close()); err != nil {
			t.Errorf("gs://%s: %v", name, err)
		}
	}
}

// tree lists the files of a directory with their content.
func tree(t *testing.T, directory string) string {
	t.Helper()
	var lines []string
	must.NoError(t, filepath.WalkDir(directory, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			lines = append(lines, path)
			return err
		}
		content, err := os.ReadFile(path)
		lines = append(lines, path+" "+must.Sum(content))
		return err
	}))
	return strings.Join(lines, "\n")
}

// TestAFreshMachineStaysFresh examines the configuration of a fresh machine: nothing is wrong, and nothing is
// created.
func TestAFreshMachineStaysFresh(t *testing.T) {
	directory := t.TempDir()
	before := tree(t, directory)
	code, all, text := examine(t, settings{"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATA_DIR": filepath.Join(directory, "data")})
	if code != 0 || !says(all, "database", "note", "created at the first start") || !says(all, "identity", "note", "built-in") || !says(all, "production", "note", "COLLAB_DATABASE_URL must be set in production") {
		t.Errorf("the code is %d:\n%s", code, text)
	}
	must.Is(t, before, tree(t, directory))
}

func TestEmbeddedStateIsLookedAt(t *testing.T) {
	directory := t.TempDir()
	embedded := settings{"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATA_DIR": directory}
	database := filepath.Join(directory, "collab.db")
	must.NoError(t, migrate("sqlite://"+database))
	must.NoError(t, os.Mkdir(filepath.Join(directory, "blobs"), 0o700))
	if code, _, text := examine(t, embedded); code != 0 { // which makes the directories of the store
		t.Fatalf("the code is %d:\n%s", code, text)
	}
	before := tree(t, directory)
	code, all, text := examine(t, embedded)
	if code != 0 || !says(all, "database", "ok", database) || !says(all, "schema", "ok", "version") || !says(all, "bucket", "ok", "blobs") {
		t.Errorf("the code is %d:\n%s", code, text)
	}
	must.Is(t, before, tree(t, directory))

	t.Run("a database that is being restored", func(t *testing.T) {
		lock, err := os.Create(database + "-lock")
		if err == nil {
			err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		must.NoError(t, err)
		defer lock.Close()
		code, all, text := examine(t, embedded)
		if code != 1 || !says(all, "database", "wrong", "is being restored") {
			t.Errorf("the code is %d:\n%s", code, text)
		}
	})

	content := must.Do(os.ReadFile(database)).Or(t)
	for _, c := range []struct {
		name    string
		damage  func(content []byte) []byte
		message string
	}{
		{"a page that is overwritten", func(b []byte) []byte {
			copy(b[8*4096:], bytes.Repeat([]byte("?"), 4096))
			return b
		}, "damaged"},
		{"another file", func([]byte) []byte { return bytes.Repeat([]byte("no database "), 1000) }, "not a database"},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.NoError(t, os.WriteFile(database, c.damage(bytes.Clone(content)), 0o600))
			code, all, text := examine(t, embedded)
			if code != 1 || !says(all, "database", "wrong", c.message) {
				t.Errorf("the code is %d:\n%s", code, text)
			}
		})
	}
}

func TestAConfigurationThatIsOfNoUse(t *testing.T) {
	var out strings.Builder
	environ := []string{"COLLAB_LOG_LEVEL=loud", "COLLAB_DATABASE_URL=mysql://server:" + databasePassword + "@db.example.com/collab", "COLLAB_HEARTBEAT=1ns"}
	if code := doctor.Run(t.Context(), environ, assembly.Version(), false, &out); code != 2 {
		t.Errorf("the code is %d", code)
	}
	const want = `wrong configuration     COLLAB_DATABASE_URL must begin with sqlite://, postgres:// or memory://
wrong configuration     COLLAB_HEARTBEAT must be a duration of 100ms to 1h, such as 30s
wrong configuration     COLLAB_LOG_LEVEL must be debug, info, warn or error
3 things are wrong.
`
	if out.String() != want {
		t.Errorf("it is said\n%s\nwant\n%s", out.String(), want)
	}
}

func TestAddressesAreShownWithoutTheirSecrets(t *testing.T) {
	for _, address := range []string{"http://user:" + databasePassword + "@127.0.0.1:1/", "http://" + databasePassword + "@127.0.0.1:1", "http://127.0.0.1:1/?key=" + databasePassword, "user:" + databasePassword + "@127.0.0.1"} {
		examine(t, settings{
			"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATABASE_URL": "memory://", "COLLAB_DATA_DIR": t.TempDir(),
			"COLLAB_IDENTITY_ISSUER": address, "COLLAB_IDENTITY_WEBHOOK_SECRETS": "", "OTEL_EXPORTER_OTLP_ENDPOINT": address,
		})
	}
}

func TestResponsesOfTheIdentityProviderAreCutAndRedacted(t *testing.T) {
	var issuer string
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer + strings.Repeat("/more", 1000)})
	}))
	defer provider.Close()
	issuer = strings.Replace(provider.URL, "://", "://user:"+databasePassword+"@", 1)
	_, findings, _ := examine(t, settings{
		"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATABASE_URL": "memory://", "COLLAB_DATA_DIR": t.TempDir(), "COLLAB_IDENTITY_ISSUER": issuer,
	})
	messages := ""
	for _, f := range findings {
		if f.Check == "identity" {
			messages += f.Message
		}
	}
	if !strings.Contains(messages, "names the issuer") || len(messages) > 1000 {
		t.Errorf("it is said %q", messages)
	}
}

func TestTheFormForPeople(t *testing.T) {
	var out strings.Builder
	environ := []string{"COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATABASE_URL=memory://", "COLLAB_DATA_DIR=" + t.TempDir(), "COLLAB_STRIPE_WEBHOOK_SECRETS=none"}
	if code := doctor.Run(t.Context(), environ, assembly.Version(), false, &out); code != 1 {
		t.Errorf("the code is %d", code)
	}
	for _, want := range []string{
		"ok    address           127.0.0.1:0 is free to listen on\n",
		"note  database          data is kept in memory only: COLLAB_DATABASE_URL is memory://\n",
		"wrong payment-webhooks  secret 1: must begin with whsec_\n" +
			"                        → copy the secret of the endpoint from the payment provider to COLLAB_STRIPE_WEBHOOK_SECRETS\n",
		"\nOne thing is wrong.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it is said\n%s\nwithout\n%s", out.String(), want)
		}
	}
}
