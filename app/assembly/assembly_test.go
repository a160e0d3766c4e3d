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
)

var update = flag.Bool("update", false, "write the printed pages instead of comparing them")

func read(t *testing.T, environ ...string) Config {
	t.Helper()
	c, err := ReadConfig(environ)
	if err != nil {
		t.Fatal(err)
	}
	return c
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
		{"Several servers", "The same on more than one server, with S3.", append(without(complete, "COLLAB_BLOB_URL"), "COLLAB_BLOB_URL=s3://collab-files", "COLLAB_BUS_URL=nats://bus.example.com")},
		{"Postgres, by session", "The same with a provider that works by session, and e-mail.", append(without(complete, "COLLAB_IDENTITY_CLIENT_ID"),
			"COLLAB_IDENTITY_SIGN_IN_URL=https://accounts.example.com/sign-in", "COLLAB_SMTP_URL=smtps://mail.example.com", "COLLAB_MAIL_FROM=collab@example.com")},
		{"Other models", "The same with a server that speaks OpenAI's protocol, and PostHog.", append(without(complete, "COLLAB_ANTHROPIC_API_KEY"),
			"COLLAB_OPENAI_URL=http://models.example.com/v1", "COLLAB_POSTHOG_KEY=phc_x")},
	}
	var page strings.Builder
	page.WriteString("# Profiles\n\nWhich adapter answers which ports, for the usual configurations. Printed by a\ntest.\n")
	for _, p := range profiles {
		c := read(t, p.environ...)
		if err := fx.ValidateApp(server(c, newLogger(c, io.Discard)), fx.Invoke(func(publicURL, signInPage) {})); err != nil {
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
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != content {
		t.Errorf("docs/%s is out of date: run the tests of this package with -update", name)
	}
}

func without(environ []string, name string) (rest []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, name+"=") {
			rest = append(rest, v)
		}
	}
	return rest
}

func TestProductionListsEverythingThatIsMissingAtOnce(t *testing.T) {
	_, err := ReadConfig([]string{"COLLAB_MODE=production", "COLLAB_SMTP_URL=smtps://mail.example.com"})
	if err == nil {
		t.Fatal("production started with nothing")
	}
	mailing := append(slices.Clone(complete), "COLLAB_SMTP_URL=smtps://mail.example.com", "COLLAB_MAIL_FROM=collab@example.com")
	for _, name := range []string{
		"COLLAB_PUBLIC_URL", "COLLAB_DATABASE_URL", "COLLAB_BLOB_URL", "COLLAB_TOKEN_KEYS", "COLLAB_SECRETS_KEYS",
		"COLLAB_IDENTITY_ISSUER", "COLLAB_IDENTITY_CLIENT_ID", "COLLAB_IDENTITY_WEBHOOK_SECRETS", "COLLAB_APP_URL",
		"COLLAB_MAIL_FROM", "COLLAB_ANTHROPIC_API_KEY", "COLLAB_STRIPE_SECRET_KEY", "COLLAB_STRIPE_WEBHOOK_SECRETS",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
		if _, err := ReadConfig(without(mailing, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	read(t, mailing...)
	read(t, complete...) // who sends no e-mail needs no sender
}

func TestTheBuiltInModelIsForThisMachineAlone(t *testing.T) {
	elsewhere := []string{"COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_IDENTITY_ISSUER=https://id.example.com"}
	if _, err := ReadConfig(elsewhere); err == nil || !strings.Contains(err.Error(), "the built-in model") {
		t.Errorf("listening elsewhere with it gives %v", err)
	}
	c := read(t, append(elsewhere, "COLLAB_OPENAI_API_KEY=sk-test")...)
	if all, err := openProviders(c); err != nil || all[byLocal] != nil || all[byOpenAI] == nil {
		t.Errorf("there are %v, %v", all, err)
	}
	if all, err := openProviders(read(t)); err != nil || all[byLocal] == nil {
		t.Errorf("on this machine there are %v, %v", all, err)
	}
}

func TestConfigurationsThatMakeNoSenseNameTheVariable(t *testing.T) {
	for _, c := range []struct{ set, names string }{
		{"COLLAB_MODE=test", "COLLAB_MODE"},
		{"COLLAB_LISTEN=8080", "COLLAB_LISTEN"},
		{"COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_LISTEN"},                       // the development provider would be reachable
		{"COLLAB_LISTEN=:8080", "COLLAB_LISTEN"},                              // likewise
		{"COLLAB_PUBLIC_URL=https://collab.example.com", "COLLAB_PUBLIC_URL"}, // likewise
		{"COLLAB_PUBLIC_URL=localhost", "COLLAB_PUBLIC_URL"},
		{"COLLAB_PUBLIC_URL=http://localhost/path", "COLLAB_PUBLIC_URL"},
		{"COLLAB_DATABASE_URL=mysql://x", "COLLAB_DATABASE_URL"},
		{"COLLAB_BLOB_URL=/srv/files", "COLLAB_BLOB_URL"},
		{"COLLAB_BLOB_URL=http://files", "COLLAB_BLOB_URL"},
		{"COLLAB_BUS_URL=redis://bus", "COLLAB_BUS_URL"},
		{"COLLAB_MAX_UPLOAD_BYTES=100MB", "COLLAB_MAX_UPLOAD_BYTES"},
		{"COLLAB_MAX_UPLOAD_BYTES=1", "COLLAB_MAX_UPLOAD_BYTES"},
		{"COLLAB_HEARTBEAT=30", "COLLAB_HEARTBEAT"},
		{"COLLAB_HEARTBEAT=0s", "COLLAB_HEARTBEAT"},
		{"COLLAB_FEED_RETENTION=7 days", "COLLAB_FEED_RETENTION"},
		{"COLLAB_IDENTITY_ROLE_MAP=x=KING", "COLLAB_IDENTITY_ROLE_MAP"},
		{"COLLAB_LOG_LEVEL=loud", "COLLAB_LOG_LEVEL"},
		{"COLLAB_LOG_FORMAT=xml", "COLLAB_LOG_FORMAT"},
		{"COLLAB_RELEASE_ORGS=acme", "COLLAB_RELEASE_ORGS"},
		{"COLLAB_RELEASE_HOSTS=https://dl.example.com", "COLLAB_RELEASE_HOSTS"},
		{"COLLAB_CONNECTOR_NETWORKS=everything", "COLLAB_CONNECTOR_NETWORKS"},
		{"COLLAB_RATE_LIMITS=caller=many", "COLLAB_RATE_LIMITS"},
		{"COLLAB_CONNECTIONS=total=16385", "connections=1025MiB of COLLAB_BUDGETS"},
		{"COLLAB_BUDGETS=connections=64MiB", "COLLAB_CONNECTIONS"},
		{"COLLAB_IDENTITY_ISSUER=id.example.com", "COLLAB_IDENTITY_ISSUER"},
		{"COLLAB_ANTHROPIC_URL=models.example.com", "COLLAB_ANTHROPIC_URL"},
		{"COLLAB_OPENAI_URL=/v1", "COLLAB_OPENAI_URL"},
		{"COLLAB_POSTHOG_URL=posthog", "COLLAB_POSTHOG_URL"},
		{"COLLAB_STRIPE_API_URL=stripe", "COLLAB_STRIPE_API_URL"},
		{"COLLAB_STRIPE_SECRET_KEY=sk_test_x", "COLLAB_STRIPE_PRICE_STANDARD"},
	} {
		if _, err := ReadConfig([]string{c.set}); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	addresses := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("10.0.0.%d", i)
		}
		return strings.Join(all, ",")
	}
	for text, want := range map[string]int{"": 0, " ": 0, "127.0.0.1": 1, "10.1.0.0/16, ::1,fd00::/8": 3, "0.0.0.0/1": 1, addresses(maxProxies): maxProxies} {
		c := read(t, "COLLAB_TRUSTED_PROXIES="+text)
		if got, err := parseProxies(c.Proxies); err != nil || len(got) != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.1,proxy":           `"proxy" is neither a network`,
		"10.0.0.1,":                `"" is neither a network`,
		"10.0.0.1:80":              `"10.0.0.1:80" is neither a network`,
		"10.1.2.3/8":               `the network is 10.0.0.0/8`,
		"::ffff:10.0.0.1":          `must be written as a network of IPv4`,
		"10.0.0.1,0.0.0.0/0":       `"0.0.0.0/0" is everybody`,
		"::/0":                     `"::/0" is everybody`,
		addresses(maxProxies + 1):  `there are 101 addresses and networks, of which 100 are allowed`,
		"10.0.0.1;10.0.0.2":        `"10.0.0.1;10.0.0.2" is neither a network`,
		"http://proxy.example.com": `"http://proxy.example.com" is neither a network`,
	} {
		_, err := ReadConfig([]string{"COLLAB_TRUSTED_PROXIES=" + text})
		if err == nil || !strings.HasPrefix(err.Error(), "COLLAB_TRUSTED_PROXIES: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestAnEmptyVariableIsAsIfUnsetExceptForSecrets(t *testing.T) {
	c := read(t, "COLLAB_LISTEN=", "COLLAB_IDENTITY_WEBHOOK_SECRETS=", "COLLAB_STRIPE_WEBHOOK_SECRETS=", "COLLAB_ADMIN_SECRET=")
	if c.Listen != "127.0.0.1:8080" {
		t.Errorf("COLLAB_LISTEN is %q", c.Listen)
	}
	if c.IdentityWebhooks == nil || *c.IdentityWebhooks != "" {
		t.Error("an empty COLLAB_IDENTITY_WEBHOOK_SECRETS was taken for an unset one")
	}
	if c.StripeWebhooks == nil || *c.StripeWebhooks != "" {
		t.Error("an empty COLLAB_STRIPE_WEBHOOK_SECRETS was taken for an unset one")
	}
	if unset := read(t); unset.IdentityWebhooks != nil || unset.StripeWebhooks != nil {
		t.Error("an unset variable of secrets was taken for an empty one")
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	var b bytes.Buffer
	Help(&b)
	for f := range configFields() {
		if name := f.Tag.Get("env"); !regexp.MustCompile(`(?m)^  ` + name + ` +\S`).MatchString(b.String()) {
			t.Errorf("%s is not explained", name)
		}
	}
}

func TestAServerStartsAnswersAndEndsWithoutLeavingAnythingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, database := range []string{"memory://", "sqlite://" + filepath.Join(t.TempDir(), "collab.db")} {
		c := read(t, "COLLAB_LISTEN=127.0.0.1:0", "COLLAB_DATA_DIR="+t.TempDir(), "COLLAB_DATABASE_URL="+database)
		ctx, cancel := context.WithCancel(t.Context())
		out, greeting := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, c, greeting, io.Discard) }()
		text := make([]byte, 1024)
		n, err := io.ReadAtLeast(out, text, 20)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		for n < len(text) && !strings.Contains(string(text[:n]), "/api/v1") {
			m, err := out.Read(text[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
		url := regexp.MustCompile(`http://\S+?:\d+`).FindString(string(text[:n]))
		client := &http.Client{Transport: &http.Transport{}}
		answer, err := client.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			t.Errorf("readyz is %s", answer.Status)
		}
		answer.Body.Close()
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		greeting.Close()
	}
}

func TestProductionWarnsInItsLogOfWhatIsUnsafe(t *testing.T) {
	folder := t.TempDir()
	environ := slices.Clone(complete)
	for name, value := range map[string]string{
		"COLLAB_LISTEN": "127.0.0.1:0", "COLLAB_DATA_DIR": folder, "COLLAB_DATABASE_URL": "sqlite://" + filepath.Join(folder, "collab.db"), "COLLAB_BLOB_URL": "file://" + filepath.Join(folder, "blobs"),
		"COLLAB_TOKEN_KEYS": filepath.Join(folder, "tokens"), "COLLAB_SECRETS_KEYS": filepath.Join(folder, "secrets"), "COLLAB_LOG_FORMAT": "json",
		"COLLAB_IDENTITY_AUDIENCE": "collab", "COLLAB_IDENTITY_WEBHOOK_SECRETS": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy1vZi1hc3NlbWJseQ==", "COLLAB_ADMIN_SECRET": strings.Repeat("x", minAdminSecret),
	} {
		environ = append(without(environ, name), name+"="+value)
	}
	for _, what := range []string{"tokens", "secrets"} {
		var text bytes.Buffer
		if err := errors.Join(PrintKeys(&text, what), os.WriteFile(filepath.Join(folder, what), text.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Migrate(t.Context(), read(t, environ...), io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ setting, remedy string }{
		{"COLLAB_LOG_LEVEL=info", ""},
		{"COLLAB_PUBLIC_URL=http://collab.example.com", "set COLLAB_PUBLIC_URL"},
		{"COLLAB_APP_URL=http://app.example.com", "set COLLAB_APP_URL"},
		{"COLLAB_IDENTITY_AUDIENCE=", "set COLLAB_IDENTITY_AUDIENCE or COLLAB_IDENTITY_AUTHORIZED_PARTIES"},
		{"COLLAB_ADMIN_SECRET=" + strings.Repeat("x", minAdminSecret-1), "set COLLAB_ADMIN_SECRET"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			name, _, _ := strings.Cut(test.setting, "=")
			c := read(t, append(without(environ, name), test.setting)...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reader, log := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- Serve(ctx, c, io.Discard, log)
				log.Close()
			}()
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
			if err := errors.Join(<-ended, lines.Err()); err != nil {
				t.Fatal(err)
			}
			if test.remedy == "" && len(warned) > 0 || test.remedy != "" && (len(warned) != 1 || !strings.Contains(warned[0], "WARN ") || !strings.Contains(warned[0], test.remedy)) {
				t.Errorf("it warns %q", warned)
			}
		})
	}
}

func TestAFileOfKeysThatMakesNoSenseIsNamedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, configured := range []string{path, ""} {
		for about, err := range map[string]error{
			"tokens":  second(keys(configured, path, servicetoken.Generate, servicetoken.Parse)),
			"secrets": second(keys(configured, path, vault.Generate, vault.New)),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v", about, err)
			}
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "hunter2" {
		t.Errorf("the file is now %q, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAConfiguredFileOfKeysIsNeverMade(t *testing.T) {
	folder := t.TempDir()
	_, err := keys(filepath.Join(folder, "gone"), filepath.Join(folder, "own"), servicetoken.Generate, servicetoken.Parse)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 0 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

func TestPrintedKeysCanBeReadBack(t *testing.T) {
	var tokens, secrets bytes.Buffer
	if err := errors.Join(PrintKeys(&tokens, "tokens"), PrintKeys(&secrets, "secrets")); err != nil {
		t.Fatal(err)
	}
	if k, err := servicetoken.Parse(tokens.Bytes()); err != nil || len(k) != 1 {
		t.Errorf("%d keys, %v", len(k), err)
	}
	if _, err := vault.New(secrets.Bytes()); err != nil {
		t.Error(err)
	}
	if err := PrintKeys(io.Discard, "doors"); err == nil {
		t.Error("there are keys for doors")
	}
}

func TestStandardBase64(t *testing.T) {
	for in, want := range map[string]string{"": "", "a-_b": "a+/b", "ab": "ab==", "abc": "abc="} {
		if got := standardBase64(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
