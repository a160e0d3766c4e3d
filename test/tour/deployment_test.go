package tour

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/test/loopback"
	"collab/test/must"
	"collab/test/nats"
	"collab/test/objectstore"
	"collab/test/pages"
	"collab/test/postgres"
)

// deploy returns a machine with the settings of docs/deploy/collabd.env, changed to the
// test's Postgres, NATS server and object store, and to issuer, a development server that
// is the identity provider.
func deploy(t *testing.T, issuer string) *machine {
	t.Helper()
	dir := t.TempDir()
	port := must.Do(loopback.Port()).Or(t)
	s := &machine{
		dir: dir, file: filepath.Join(dir, "etc/collab/collabd.env"),
		path: binaries(t) + ":" + os.Getenv("PATH"),
		instead: strings.NewReplacer(
			"/etc/collab", filepath.Join(dir, "etc/collab"), "/var/lib/collab", filepath.Join(dir, "var/lib/collab"),
			"/srv/collab", filepath.Join(dir, "srv/collab"), "127.0.0.1:8080", fmt.Sprintf("127.0.0.1:%d", port),
		),
	}
	for _, directory := range []string{"etc/collab", "var/lib/collab", "srv/collab"} {
		must.NoError(t, os.MkdirAll(filepath.Join(dir, directory), 0o750))
	}
	must.NoError(t, os.WriteFile(s.file, []byte(s.instead.Replace(pages.Read(t, "docs/deploy/collabd.env"))), 0o600))
	// The bucket has the name of the example.
	store := objectstore.Start(t, "")
	store.Bucket("collab-files")
	s.environ = []string{objectstore.EnvHost + "=" + store.Host, "COLLAB_DATA_DIR=" + filepath.Join(dir, "var/lib/collab")}
	s.set(t, databaseSettings(t))
	s.set(t, map[string]string{
		"COLLAB_BUS_URL":         nats.Start(t).URL,
		"COLLAB_IDENTITY_ISSUER": issuer + "/dev/identity", "COLLAB_IDENTITY_AUTHORIZED_PARTIES": "",
		"COLLAB_SMTP_URL": "",
	})
	return s
}

// databaseSettings returns the settings of a new database: an address with a parameter of the server's own,
// and one without it.
func databaseSettings(t *testing.T) map[string]string {
	t.Helper()
	direct := postgres.URL(t)
	u := must.Do(url.Parse(direct)).Or(t)
	q := u.Query()
	q.Set("pool_max_conns", "8")
	u.RawQuery = q.Encode()
	return map[string]string{"COLLAB_DATABASE_URL": u.String(), "COLLAB_DATABASE_DIRECT_URL": direct}
}

// development starts a server in development mode.
func development(t *testing.T, settings ...string) *service {
	t.Helper()
	dir := t.TempDir()
	return launch(t, dir, "exec "+filepath.Join(binaries(t), "collabd"), append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "COLLAB_LISTEN=127.0.0.1:0", "COLLAB_LOG_FORMAT=json", "COLLAB_DATA_DIR=" + filepath.Join(dir, "data"),
	}, settings...)...)
}

// bearer returns the header of a token.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// postgresTools adds the installed Postgres' programs to the machine's path.
func postgresTools(t *testing.T, s *machine) {
	t.Helper()
	if _, err := exec.LookPath("pg_restore"); err == nil {
		return
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_restore")
	if len(found) == 0 {
		t.Fatal("this test needs pg_dump and pg_restore")
	}
	s.path = filepath.Dir(found[len(found)-1]) + ":" + s.path
}

func TestTheDeploymentIsAsDescribed(t *testing.T) {
	need(t, "jq", "jq")
	issuer := development(t)
	s := deploy(t, issuer.url)
	postgresTools(t, s)

	api := func() string { return s.running.url + "/api/v1" }
	me := func(at *service, token string) int {
		return call(t, "GET", at.url+"/api/v1/auth/me", "", bearer(token)...).status
	}
	// Another server with the same settings that restarts later than the first and must
	// understand what the first does meanwhile.
	var other *service
	catchUp := func() {
		if other != nil {
			other.stop(t)
		}
		other = launch(t, s.dir, s.settings()+"COLLAB_LISTEN=127.0.0.1:0 exec collabd", s.environment()...)
	}
	expect := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	keys := func() int {
		return strings.Count(call(t, "GET", s.running.url+"/.well-known/jwks.json", "").body, `"kid"`)
	}

	// A key, so that the response is kept sealed.
	var old, fresh, cursor string
	team := func(at *service, name string) response {
		return call(t, "POST", at.url+"/api/v1/teams", `{"name": "`+name+`"}`, append(bearer(old), "Idempotency-Key", name)...)
	}
	message := func(secret string) int {
		at, id, body := time.Now(), fmt.Sprint("msg_", time.Now().UnixNano()), []byte(`{"object":"event","type":"session.created","data":{}}`)
		signature := must.Do(standardwebhooks.Sign(secret, id, at, body)).Or(t)
		return call(t, "POST", api()+"/auth/webhook", string(body), standardwebhooks.HeaderID, id,
			standardwebhooks.HeaderTimestamp, fmt.Sprint(at.Unix()), standardwebhooks.HeaderSignature, signature).status
	}
	payment := func(secret string) int {
		body := fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"product.created","created":%d,"data":{"object":{"id":"prod_1","object":"product"}}}`, time.Now().UnixNano(), time.Now().Unix())
		return call(t, "POST", api()+"/billing/webhook", body, "Stripe-Signature", stripepay.Sign(secret, time.Now(), []byte(body))).status
	}

	// A hook runs before and after the block that contains its text.
	type hook struct {
		at            string
		before, after func()
	}
	hooks := []hook{
		{at: "systemctl enable --now collabd", after: func() {
			old = signIn(t, issuer.url, s.running.url)
			expect("a new team", team(s.running, "Builders").status, http.StatusCreated)
			expect("a file", call(t, "POST", api()+"/sync/files?path=a.txt", "hello", append(bearer(old), "Content-Type", "text/plain")...).status, http.StatusCreated)
			expect("the development provider", call(t, "GET", s.running.url+"/dev/identity/sign-in", "").status, http.StatusNotFound)
			catchUp()
			expect("a token of the other server's", me(other, old), http.StatusOK)
			cursor = call(t, "GET", api()+"/sync/manifest", "", bearer(old)...).header.Get("X-Sync-Cursor")
		}},
		{at: "cat token-keys-old.pem token-key-new.pem", after: func() {
			expect("the number of published keys", keys(), 2)
			expect("a token of before", me(s.running, old), http.StatusOK)
			expect("a token that is made meanwhile", me(other, signIn(t, issuer.url, s.running.url)), http.StatusOK)
			catchUp()
		}},
		{at: "cat token-key-new.pem token-keys-old.pem", after: func() {
			fresh = signIn(t, issuer.url, s.running.url)
			expect("an old token", me(s.running, old), http.StatusOK)
			expect("a new token", me(s.running, fresh), http.StatusOK)
			expect("a new token at the other server", me(other, fresh), http.StatusOK)
			expect("the other server's token", me(s.running, signIn(t, issuer.url, other.url)), http.StatusOK)
		}},
		{at: "cat token-key-new.pem > token-keys.pem", after: func() {
			expect("the number of published keys", keys(), 1)
			expect("a token of the key that is gone", me(s.running, old), http.StatusUnauthorized)
			expect("a new token", me(s.running, fresh), http.StatusOK)
			old = fresh
			catchUp()
		}},
		{at: "jq --slurp '.[0].key += .[1].key | .[0]'", after: func() {
			expect("an answer that was sealed before", team(s.running, "Builders").header.Get("Idempotent-Replayed"), "true")
			expect("a team", team(s.running, "Masons").status, http.StatusCreated)
			expect("an answer that was sealed meanwhile", team(other, "Masons").header.Get("Idempotent-Replayed"), "true")
			catchUp()
		}},
		{at: "jq --slurp '.[1].key = .[0].key + .[1].key | .[1]'", after: func() {
			expect("an answer that was sealed before", team(s.running, "Builders").header.Get("Idempotent-Replayed"), "true")
			expect("a team", team(s.running, "Carpenters").status, http.StatusCreated)
			expect("an answer that the new key sealed", team(other, "Carpenters").header.Get("Idempotent-Replayed"), "true")
			other.stop(t)
			out, err := s.shell(t, s.instead.Replace("jq --exit-status '.primaryKeyId == .key[1].keyId and (.key | length) == 2' /etc/collab/secrets-keys.json"))
			if err != nil {
				t.Errorf("the new key does not seal: %v\n%s", err, out)
			}
		}},
		{at: "COLLAB_IDENTITY_WEBHOOK_SECRETS=whsec_new,whsec_old", after: func() {
			const older, newer, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_plJ3nmyCDGBKInavdOK15jsl00yvMwGKqzTx", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
			s.set(t, map[string]string{"COLLAB_IDENTITY_WEBHOOK_SECRETS": newer + "," + older, "COLLAB_STRIPE_WEBHOOK_SECRETS": "whsec_b,whsec_a"})
			s.restart(t)
			expect("a message by the old secret", message(older), http.StatusOK)
			expect("a message by the new secret", message(newer), http.StatusOK)
			expect("a message by another secret", message(other), http.StatusUnauthorized)
			expect("a payment message by the old secret", payment("whsec_a"), http.StatusOK)
			expect("a payment message by the new secret", payment("whsec_b"), http.StatusOK)
			expect("a payment message by another secret", payment("whsec_c"), http.StatusBadRequest)
		}},
		{at: "pg_restore", before: func() {
			// Changes after the backup are lost by the restore.
			expect("a later team", call(t, "POST", api()+"/teams", `{"name": "Late"}`, bearer(old)...).status, http.StatusCreated)
			s.running.stop(t)
			s.set(t, databaseSettings(t))
		}, after: func() {
			s.restart(t)
			teams := call(t, "GET", api()+"/teams", "", bearer(old)...).body
			if !strings.Contains(teams, "Builders") || strings.Contains(teams, "Late") {
				t.Errorf("the restored server has the teams %s", teams)
			}
			files := call(t, "GET", api()+"/sync/files", "", bearer(old)...).body
			if !strings.Contains(files, `"path":"a.txt"`) {
				t.Errorf("the restored server has the files %s", files)
			}
			expect("going on at a place of before", call(t, "GET", api()+"/sync/manifest?since="+cursor, "", bearer(old)...).status, http.StatusGone)
		}},
	}
	// SQLite is used without these settings.
	hooks = append(hooks, hook{at: "collabd backup ", before: func() {
		s.running.stop(t)
		s.loaded = false
	}}, hook{at: "collabd restore ", after: func() {
		if replaced, _ := filepath.Glob(filepath.Join(s.dir, "srv/collab/data.replaced-*")); len(replaced) != 1 {
			t.Errorf("what was replaced is in %v", replaced)
		}
	}})
	all := blocks(t, "docs/deployment.md")
	for _, h := range hooks {
		n := 0
		for _, b := range all {
			if strings.Contains(b.text, h.at) {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d blocks have %q", n, h.at)
		}
	}
	for _, b := range all {
		var at hook
		for _, h := range hooks {
			if strings.Contains(b.text, h.at) {
				at = h
			}
		}
		if at.before != nil {
			at.before()
		}
		made := strings.Contains(b.text, "-o collabd ./cmd/collabd") // the server of these tests is built already
		if !made && b.notRun == "" && (b.language == "sh" || b.language == "console") {
			s.run(t, b)
		}
		if at.after != nil {
			at.after()
		}
		if t.Failed() {
			t.Fatalf("%s:%d: the rest is not run", b.file, b.line)
		}
	}
}
