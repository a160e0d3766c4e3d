package assembly

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/fx"
	"go.uber.org/goleak"

	"collab/adapters/servicetoken"
	"collab/adapters/vault"
	"collab/app/assembly/config"
	"collab/test/must"
	"collab/test/postgres"
)

var update = flag.Bool("update", false, "write the printed pages instead of comparing them")

func read(t *testing.T, environ ...string) config.Config {
	t.Helper()
	return must.Do(config.Read(environ)).Or(t)
}

// complete is a production configuration that lacks nothing.
var complete = []string{
	"COLLAB_MODE=production", "COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_PUBLIC_URL=https://collab.example.com",
	"COLLAB_DATABASE_URL=postgres://collab@db.example.com/collab", "COLLAB_BLOB_URL=gs://collab-files", "COLLAB_TOKEN_KEYS=/etc/collab/token-keys.pem",
	"COLLAB_SECRETS_KEYS=/etc/collab/secrets-keys.json", "COLLAB_IDENTITY_ISSUER=https://id.example.com",
	"COLLAB_IDENTITY_CLIENT_ID=collab", "COLLAB_IDENTITY_WEBHOOK_SECRETS=whsec_x", "COLLAB_APP_URL=https://app.example.com",
	"COLLAB_ANTHROPIC_API_KEY=key",
	"COLLAB_STRIPE_SECRET_KEY=sk_live_x", "COLLAB_STRIPE_WEBHOOK_SECRETS=whsec_x",
	"COLLAB_STRIPE_PRICE_STANDARD=price_1", "COLLAB_STRIPE_PRICE_PREMIUM=price_2",
}

func TestProfilesAreValidAndPrinted(t *testing.T) {
	profiles := []struct {
		name, about string
		environ     []string
	}{
		{"Embedded", "Nothing is configured: `make run` on a fresh machine.", nil},
		{"Memory", "`COLLAB_DATABASE_URL=memory://`: as embedded, and nothing is kept. The offline harness runs the core on the same adapter.", []string{"COLLAB_DATABASE_URL=memory://"}},
		{"Postgres", "Production on Postgres with an identity provider that works by code.", complete},
		{"Several servers", "The same on more than one server, with S3.", append(withoutVariables(complete, "COLLAB_BLOB_URL"), "COLLAB_BLOB_URL=s3://collab-files", "COLLAB_BUS_URL=nats://bus.example.com")},
		{"Postgres, by session", "The same with a provider that works by session, and e-mail.", append(withoutVariables(complete, "COLLAB_IDENTITY_CLIENT_ID"),
			"COLLAB_IDENTITY_SIGN_IN_URL=https://accounts.example.com/sign-in", "COLLAB_SMTP_URL=smtps://mail.example.com", "COLLAB_MAIL_FROM=collab@example.com")},
		{"Other models", "The same with a server that speaks OpenAI's protocol, and PostHog.", append(withoutVariables(complete, "COLLAB_ANTHROPIC_API_KEY"),
			"COLLAB_OPENAI_URL=http://models.example.com/v1", "COLLAB_POSTHOG_KEY=phc_x")},
	}
	var page strings.Builder
	page.WriteString("# Profiles\n\nWhich adapter answers which ports, for the usual configurations. Printed by a\ntest.\n")
	for _, p := range profiles {
		c := read(t, p.environ...)
		if err := fx.ValidateApp(server(c, c.Logger(io.Discard)), fx.Invoke(func(publicURL, signInPage) {})); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		page.WriteString("\n## " + p.name + "\n\n" + p.about + "\n\n" + describe(profile(c)))
	}
	golden(t, "profiles.md", page.String())
}

func golden(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", name)
	if *update {
		must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	have := must.Do(os.ReadFile(path)).Or(t)
	if string(have) != content {
		t.Errorf("docs/%s is out of date: run the tests of this package with -update", name)
	}
}

func withoutVariables(environ []string, name string) (rest []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, name+"=") {
			rest = append(rest, v)
		}
	}
	return rest
}

func TestAServerStartsAnswersAndEndsWithoutLeavingAnythingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, database := range []string{"memory://", "sqlite://" + filepath.Join(t.TempDir(), "collab.db")} {
		c := read(t, "COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATA_DIR="+t.TempDir(), "COLLAB_DATABASE_URL="+database)
		ctx, cancel := context.WithCancel(t.Context())
		out, greeting := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, c, greeting, io.Discard) }()
		text := make([]byte, 1024)
		n := must.Do(io.ReadAtLeast(out, text, 20)).Or(t)
		go func() { _, _ = io.Copy(io.Discard, out) }()
		for n < len(text) && !strings.Contains(string(text[:n]), "/api/v1") {
			m := must.Do(out.Read(text[n:])).Or(t)
			n += m
		}
		url := regexp.MustCompile(`http://\S+?:\d+`).FindString(string(text[:n]))
		client := &http.Client{Transport: &http.Transport{}}
		response := must.Do(client.Get(url + "/readyz")).Or(t)
		if response.StatusCode != http.StatusOK {
			t.Errorf("readyz is %s", response.Status)
		}
		response.Body.Close()
		client.CloseIdleConnections()
		cancel()
		must.Succeed(t, <-ended)
		greeting.Close()
	}
}

func TestTheOperatorsSetupIsPrintedIfThereIsASecret(t *testing.T) {
	for environ, want := range map[string]bool{"COLLAB_ADMIN_SECRET=": false, "COLLAB_ADMIN_SECRET=a secret": true} {
		var out strings.Builder
		printAddresses(&out, read(t, environ), "http://localhost:8080", "")
		if got := strings.Contains(out.String(), "  Operators  http://localhost:8080/console/operator/setup\n"); got != want || strings.Contains(out.String(), "a secret") {
			t.Errorf("%s: %s", environ, &out)
		}
	}
}

// production returns a complete production configuration whose parts a server can use, on a database.
func production(t *testing.T, database string) []string {
	t.Helper()
	directory := t.TempDir()
	environ := slices.Clone(complete)
	for name, value := range map[string]string{
		"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATA_DIR": directory, "COLLAB_DATABASE_URL": database, "COLLAB_BLOB_URL": "file://" + filepath.Join(directory, "blobs"),
		"COLLAB_TOKEN_KEYS": filepath.Join(directory, "tokens"), "COLLAB_SECRETS_KEYS": filepath.Join(directory, "secrets"), "COLLAB_LOG_FORMAT": "json",
		"COLLAB_IDENTITY_AUDIENCE": "collab", "COLLAB_IDENTITY_WEBHOOK_SECRETS": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy1vZi1hc3NlbWJseQ==", "COLLAB_ADMIN_SECRET": strings.Repeat("x", 32),
	} {
		environ = append(withoutVariables(environ, name), name+"="+value)
	}
	for _, what := range []string{"tokens", "secrets"} {
		var text bytes.Buffer
		must.NoError(t, errors.Join(PrintKeys(&text, what), os.WriteFile(filepath.Join(directory, what), text.Bytes(), 0o600)))
	}
	return environ
}

// serveLogged serves until ctx ends. It returns the log, which ends with the server, and then the server's error.
func serveLogged(ctx context.Context, c config.Config) (io.Reader, <-chan error) {
	reader, log := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, c, io.Discard, log)
		log.Close()
	}()
	return reader, ended
}

func TestAServerIsReadyOnceItsDatabaseIsMigrated(t *testing.T) {
	for name, database := range map[string]string{"SQLite": "sqlite://" + filepath.Join(t.TempDir(), "collab.db"), "Postgres": postgres.URL(t)} {
		t.Run(name, func(t *testing.T) {
			c := read(t, production(t, database)...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reader, ended := serveLogged(ctx, c)
			var line struct{ Msg, Address, Error string }
			lines, said := bufio.NewScanner(reader), false
			for line.Msg != "listening" && lines.Scan() {
				must.NoError(t, json.Unmarshal(lines.Bytes(), &line))
				said = said || strings.Contains(line.Error, "run collabd migrate")
			}
			if line.Msg != "listening" || !said {
				t.Fatalf("the server ended with %v", <-ended)
			}
			var rest bytes.Buffer
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(&rest, reader)
				done <- err
			}()
			for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
				response := must.Do(http.Get("http://" + line.Address + "/readyz")).Or(t)
				response.Body.Close()
				must.Is(t, want, response.StatusCode)
				must.NoError(t, Migrate(ctx, c, false, io.Discard))
			}
			cancel()
			must.NoError(t, errors.Join(<-ended, <-done))
			if !strings.Contains(rest.String(), "run collabd migrate") {
				t.Errorf("the log does not say why the server was not ready:\n%s", &rest)
			}
		})
	}
}

func TestProductionWarnsInItsLogOfWhatIsUnsafe(t *testing.T) {
	environ := production(t, "sqlite://"+filepath.Join(t.TempDir(), "collab.db"))
	must.NoError(t, Migrate(t.Context(), read(t, environ...), false, io.Discard))
	for _, test := range []struct{ setting, remedy string }{
		{"COLLAB_LOG_LEVEL=info", ""},
		{"COLLAB_PUBLIC_URL=http://collab.example.com", "set COLLAB_PUBLIC_URL"},
		{"COLLAB_APP_URL=http://app.example.com", "set COLLAB_APP_URL"},
		{"COLLAB_IDENTITY_AUDIENCE=", "set COLLAB_IDENTITY_AUDIENCE or COLLAB_IDENTITY_AUTHORIZED_PARTIES"},
		{"COLLAB_ADMIN_SECRET=" + strings.Repeat("x", 31), "set COLLAB_ADMIN_SECRET"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			name, _, _ := strings.Cut(test.setting, "=")
			c := read(t, append(withoutVariables(environ, name), test.setting)...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reader, ended := serveLogged(ctx, c)
			var warned []string
			lines := bufio.NewScanner(reader)
			for lines.Scan() {
				var line struct{ Msg, Level, Remedy string }
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Errorf("%v in %s", err, lines.Text())
				}
				switch line.Msg {
				case "configuration is unsafe":
					warned = append(warned, line.Level+" "+line.Remedy)
				case "listening":
					cancel()
				}
			}
			must.NoError(t, errors.Join(<-ended, lines.Err()))
			if test.remedy == "" && len(warned) > 0 || test.remedy != "" && (len(warned) != 1 || !strings.Contains(warned[0], "WARN ") || !strings.Contains(warned[0], test.remedy)) {
				t.Errorf("it warns %q", warned)
			}
		})
	}
}

func TestAFileOfKeysThatMakesNoSenseIsNamedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	must.NoError(t, os.WriteFile(path, []byte("hunter2"), 0o600))
	for _, configured := range []string{path, ""} {
		for about, err := range map[string]error{
			"tokens":  must.ErrorOf(keys(configured, path, servicetoken.Generate, servicetoken.Parse)),
			"secrets": must.ErrorOf(keys(configured, path, vault.Generate, vault.New)),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", about, err)
			}
		}
	}
	must.Is(t, "hunter2", string(must.Do(os.ReadFile(path)).Or(t)))
}

func TestAConfiguredFileOfKeysIsNeverMade(t *testing.T) {
	directory := t.TempDir()
	_, err := keys(filepath.Join(directory, "gone"), filepath.Join(directory, "own"), servicetoken.Generate, servicetoken.Parse)
	must.FailIs(t, err, fs.ErrNotExist)
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 0 {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func TestPrintedKeysCanBeReadBack(t *testing.T) {
	var tokens, secrets bytes.Buffer
	must.NoError(t, errors.Join(PrintKeys(&tokens, "tokens"), PrintKeys(&secrets, "secrets")))
	if k, err := servicetoken.Parse(tokens.Bytes()); err != nil || len(k) != 1 {
		t.Errorf("%d keys, %v", len(k), err)
	}
	must.Do(vault.New(secrets.Bytes())).Or(t)
	if err := PrintKeys(io.Discard, "doors"); err == nil {
		t.Error("there are keys for doors")
	}
}

func TestStandardBase64(t *testing.T) {
	for in, want := range map[string]string{"": "", "a-_b": "a+/b", "ab": "ab==", "abc": "abc="} {
		if got := toStandardBase64(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// describe writes a profile as a Markdown table.
func describe(choices []choice) string {
	var b strings.Builder
	b.WriteString("| ports | adapter | decided by |\n|---|---|---|\n")
	for _, c := range choices {
		variable := "-"
		if c.variable != "" {
			variable = "`" + c.variable + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.group, c.adapter, variable)
	}
	return b.String()
}
