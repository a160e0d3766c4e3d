package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/domain/plan"
	"collab/test/must"
)

func read(t *testing.T, environ ...string) Config {
	t.Helper()
	return must.Do(Read(environ)).Or(t)
}

// complete is a production configuration that lacks nothing.
var complete = []string{
	"COLLAB_MODE=production", "COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_PUBLIC_URL=https://collab.example.com",
	"COLLAB_DATABASE_URL=postgres://collab@db.example.com/collab", "COLLAB_BLOB_URL=gs://collab-files", "COLLAB_TOKEN_KEYS=/etc/collab/token-keys.pem",
	"COLLAB_SECRETS_KEYS=/etc/collab/secrets-keys.json", "COLLAB_IDENTITY_ISSUER=https://id.example.com",
	"COLLAB_IDENTITY_CLIENT_ID=collab", "COLLAB_IDENTITY_WEBHOOK_SECRETS=whsec_c2VjcmV0LW9mLXRoZS10ZXN0cy1vZi1jb25maWc=", "COLLAB_APP_URL=https://app.example.com",
	"COLLAB_ANTHROPIC_API_KEY=key",
	"COLLAB_STRIPE_SECRET_KEY=sk_live_x", "COLLAB_STRIPE_WEBHOOK_SECRETS=whsec_x",
	"COLLAB_STRIPE_PRICE_STANDARD=price_1", "COLLAB_STRIPE_PRICE_PREMIUM=price_2,price_0",
}

func withoutVariables(environ []string, name string) (rest []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, name+"=") {
			rest = append(rest, v)
		}
	}
	return rest
}

func TestProductionListsEverythingThatIsMissingAtOnce(t *testing.T) {
	_, err := Read([]string{"COLLAB_MODE=production", "COLLAB_SMTP_URL=smtps://mail.example.com"})
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
		if _, err := Read(withoutVariables(mailing, name)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	read(t, mailing...)
	read(t, complete...) // who sends no e-mail needs no sender
	for _, file := range []string{"sslrootcert=/not/mounted/yet", "service=collab&servicefile=/not/mounted/yet"} {
		read(t, append(withoutVariables(complete, "COLLAB_DATABASE_URL"), "COLLAB_DATABASE_URL=postgres://db.example.com/collab?"+file)...)
	}
	read(t, append(withoutVariables(complete, "COLLAB_APP_URL"), "COLLAB_APP_URL=HTTPS://app.example.com")...)
}

func TestReplicasHaveAddressesOfPostgres(t *testing.T) {
	for _, replicas := range []string{"sqlite://x", "postgres://a.example.com/collab,postgres://b.example.com:port/collab"} {
		_, err := Read(append(slices.Clone(complete), "COLLAB_DATABASE_REPLICA_URLS="+replicas))
		if err == nil || !strings.Contains(err.Error(), "COLLAB_DATABASE_REPLICA_URLS") {
			t.Errorf("%s: %v", replicas, err)
		}
	}
}

func TestTheBuiltInModelNeedsALoopbackAddress(t *testing.T) {
	elsewhere := []string{"COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_IDENTITY_ISSUER=https://id.example.com"}
	if _, err := Read(elsewhere); err == nil || !strings.Contains(err.Error(), "the built-in model") || !strings.Contains(err.Error(), "the development payment provider") {
		t.Errorf("listening elsewhere with it gives %v", err)
	}
	c := read(t, append(elsewhere, "COLLAB_OPENAI_API_KEY=sk-test", "COLLAB_STRIPE_SECRET_KEY=sk_test_1", "COLLAB_STRIPE_PRICE_STANDARD=a", "COLLAB_STRIPE_PRICE_PREMIUM=b")...)
	if c.LocalModel() || !c.OpenAI() {
		t.Error("the built-in model is reachable elsewhere")
	}
	if !read(t).LocalModel() {
		t.Error("the built-in model is not there on this machine")
	}
}

func TestConfigurationsThatMakeNoSenseNameTheVariable(t *testing.T) {
	for _, c := range []struct{ set, names string }{
		{"COLLAB_MODE=test", "COLLAB_MODE"},
		{"COLLAB_LISTEN=8080", "COLLAB_LISTEN"},
		{"COLLAB_LISTEN=0.0.0.0:8080", "COLLAB_LISTEN"},                       // the development provider would be reachable
		{"COLLAB_LISTEN=:8080", "COLLAB_LISTEN"},                              // likewise
		{"COLLAB_LISTEN=a.localhost:8080", "COLLAB_LISTEN"},                   // likewise, where a resolver says so
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
		{"COLLAB_CORS_ORIGINS=app.example.com", "COLLAB_CORS_ORIGINS"},
		{"COLLAB_CORS_ORIGINS=https://*.example.*", "COLLAB_CORS_ORIGINS"},
		{"COLLAB_CORS_ORIGINS=https://a.example.com,https://b.example.com/", "COLLAB_CORS_ORIGINS"},
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
		{"COLLAB_LISTEN=127.0.0.1:65536", "COLLAB_LISTEN"},
		{"COLLAB_DATABASE_URL=sqlite://", "COLLAB_DATABASE_URL"},
		{"COLLAB_DATABASE_URL=postgres://collab@127.0.0.1:port/collab", "COLLAB_DATABASE_URL"},
		{"COLLAB_DATABASE_DIRECT_URL=postgres://collab@127.0.0.1:port/collab", "COLLAB_DATABASE_DIRECT_URL"},
		{"COLLAB_BLOB_URL=s3://bucket/a//b", "COLLAB_BLOB_URL"},
		{"COLLAB_BLOB_URL=s3://bucket?x=y", "COLLAB_BLOB_URL"},
		{"COLLAB_BLOB_URL=s3://bucket?endpoint=ftp://store", "COLLAB_BLOB_URL"},
		{"COLLAB_BLOB_URL=s3://bucket?use_path_style=yes", "COLLAB_BLOB_URL"},
		{"COLLAB_BLOB_PUBLIC_URL=https://files.example.com/path", "COLLAB_BLOB_PUBLIC_URL"},
		{"COLLAB_BUS_URL=nats://bus?x=y", "COLLAB_BUS_URL"},
		{"COLLAB_IDENTITY_WEBHOOK_SECRETS=whsec_c2hvcnQ=", "COLLAB_IDENTITY_WEBHOOK_SECRETS: secret 1"},
		{"COLLAB_STRIPE_SECRET_KEY=two words", "COLLAB_STRIPE_SECRET_KEY"},
		{"COLLAB_STRIPE_PRICE_STANDARD=price 1", "COLLAB_STRIPE_PRICE_STANDARD"},
		{"COLLAB_STRIPE_PRICE_PREMIUM=price_1,", "COLLAB_STRIPE_PRICE_PREMIUM"},
		{"COLLAB_STRIPE_API_URL=https://stripe.example.com?x=y", "COLLAB_STRIPE_API_URL"},
		{"COLLAB_POSTHOG_URL=https://posthog.example.com?x=y", "COLLAB_POSTHOG_URL"},
		{"COLLAB_SMTP_URL=smtp://mail.example.com?tls=maybe", "COLLAB_SMTP_URL"},
		{"COLLAB_MAIL_FROM=nobody", "COLLAB_MAIL_FROM"},
	} {
		if _, err := Read([]string{c.set}); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
}

func TestSchemesOfBlobURLs(t *testing.T) {
	for _, url := range []string{"file:///srv/files", "gs://bucket/prefix", "s3://bucket/prefix", "azblob://container/prefix", "mem://"} {
		must.Is(t, url, read(t, "COLLAB_BLOB_URL="+url).BlobURL.Text())
	}
}

func TestEveryReasonAgainstAValueIsNamed(t *testing.T) {
	_, err := Read([]string{"COLLAB_LISTEN=0.0.0.0:8080"})
	if err == nil || !strings.Contains(err.Error(), "COLLAB_ANTHROPIC_API_KEY") || !strings.Contains(err.Error(), "COLLAB_IDENTITY_ISSUER") {
		t.Errorf("the error is %v", err)
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
		if got := read(t, "COLLAB_TRUSTED_PROXIES="+text).Proxies; len(got) != want {
			t.Errorf("%q is %v", text, got)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.1,proxy":           `"proxy" is neither a network`,
		"10.0.0.1,":                `"" is neither a network`,
		"10.0.0.1:80":              `"10.0.0.1:80" is neither a network`,
		"10.1.2.3/8":               `the network is 10.0.0.0/8`,
		"::ffff:10.0.0.1":          `must be written as a network of IPv4`,
		"10.0.0.1,0.0.0.0/0":       `"0.0.0.0/0" contains all addresses`,
		"::/0":                     `"::/0" contains all addresses`,
		addresses(maxProxies + 1):  `there are 101 addresses and networks, of which 100 are allowed`,
		"10.0.0.1;10.0.0.2":        `"10.0.0.1;10.0.0.2" is neither a network`,
		"http://proxy.example.com": `"http://proxy.example.com" is neither a network`,
	} {
		_, err := Read([]string{"COLLAB_TRUSTED_PROXIES=" + text})
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
	for name, s := range map[string]Secrets{"COLLAB_IDENTITY_WEBHOOK_SECRETS": c.IdentityWebhooks, "COLLAB_STRIPE_WEBHOOK_SECRETS": c.StripeWebhooks} {
		if !s.IsSet || len(s.Values()) > 0 {
			t.Errorf("an empty %s was taken for an unset one", name)
		}
	}
	if unset := read(t); unset.IdentityWebhooks.IsSet || unset.StripeWebhooks.IsSet {
		t.Error("an unset variable of secrets was taken for an empty one")
	}
}

func TestEveryVariableHasHelp(t *testing.T) {
	var names []string
	for _, f := range fields() {
		names = append(names, f.Tag.Get("env"))
	}
	must.Equal(t, slices.Sorted(maps.Keys(help)), slices.Sorted(slices.Values(names)))
}

// TestPrintedDefaultsAreThoseOfUnsetVariables sets each variable to the default that Help prints, unless that is computed.
func TestPrintedDefaultsAreThoseOfUnsetVariables(t *testing.T) {
	var b bytes.Buffer
	Help(&b)
	lines := regexp.MustCompile(`(?m)^  (\S+) .*\(([^()]*)\)$`).FindAllStringSubmatch(b.String(), -1)
	must.Is(t, len(fields()), len(lines))
	for _, environ := range [][]string{{"COLLAB_MODE=development"}, complete} {
		set := slices.Clone(environ)
		for i, f := range fields() {
			name := lines[i][1]
			value, inProduction, twoDefaults := strings.Cut(strings.TrimSuffix(lines[i][2], " in production"), "; ")
			if twoDefaults && slices.Contains(environ, "COLLAB_MODE=production") {
				value = inProduction
			}
			if f.Tag.Get("or") == "" && value != "-" && value != "none" && len(withoutVariables(environ, name)) == len(environ) {
				set = append(set, name+"="+value)
			}
		}
		if printed, unset := read(t, set...), read(t, environ...); !reflect.DeepEqual(printed, unset) {
			t.Errorf("the printed defaults are %+v, those of unset variables %+v", printed, unset)
		}
	}
}

func TestValuesHaveTheirTypes(t *testing.T) {
	c := read(t, append(slices.Clone(complete), "COLLAB_PUBLIC_URL=https://collab.example.com/", "COLLAB_HEARTBEAT=1m", "COLLAB_LOG_LEVEL=warn",
		"COLLAB_IDENTITY_AUDIENCE=a,b", "COLLAB_CONNECTIONS=total=100", "COLLAB_MAX_UPLOAD_BYTES=2097152", "COLLAB_BUS_URL=nats://u:password@a,nats://b")...)
	for about, ok := range map[string]bool{
		"public URL":  c.PublicURL.Text() == "https://collab.example.com",
		"heartbeat":   c.Heartbeat == time.Minute,
		"retention":   c.Retention == 7*24*time.Hour,
		"level":       c.LogLevel == slog.LevelWarn,
		"format":      c.LogFormat == "json",
		"audience":    slices.Equal(c.IdentityAudience, []string{"a", "b"}),
		"connections": c.Connections.Total == 100 && c.Connections.Address == 512,
		"spool":       c.Budgets.Spool == 16*2<<20,
		"rates":       c.RateLimits.Chat.Count == 60,
		"bus":         c.BusURL.Scheme() == "nats" && c.Database() == "postgres",
		"prices":      slices.Equal(c.Prices()[plan.Premium], []string{"price_2", "price_0"}),
		"no stand-in": c.MailFrom == "" && !c.LocalModel(),
	} {
		if !ok {
			t.Errorf("the %s is another", about)
		}
	}
	d := read(t)
	if d.LogFormat != "text" || d.MailFrom == "" || d.DatabaseURL.Text() != "sqlite://data/collab.db" || d.BlobURL.Text() != "file://data/blobs" {
		t.Errorf("development is %+v", d)
	}
	if m := read(t, "COLLAB_DATABASE_URL=memory://"); m.BlobURL.Text() != "mem://" {
		t.Errorf("content is kept at %s", m.BlobURL)
	}
}

// TestSecretsAreNeverPrinted sets every field whose type may hold a secret, and prints the whole configuration.
func TestSecretsAreNeverPrinted(t *testing.T) {
	const secret = "hunter2"
	environ := slices.Clone(complete)
	for _, f := range fields() {
		name := f.Tag.Get("env")
		switch f.Type {
		case reflect.TypeFor[Secret](), reflect.TypeFor[Secrets]():
			environ = append(environ, name+"="+secret)
		case reflect.TypeFor[URL]():
			scheme, _, _ := strings.Cut(f.Tag.Get("schemes")+",https", ",")
			if strings.Contains(f.Tag.Get("schemes"), "https") {
				scheme = "https"
			}
			environ = append(environ, name+"="+scheme+"://user:"+secret+"@host?password="+secret)
		}
	}
	environ = append(environ, "OTEL_EXPORTER_OTLP_HEADERS=key="+secret, "COLLAB_IDENTITY_CLIENT_ID=")
	c, err := Read(environ)
	type wrapped struct{ c any }
	var all strings.Builder
	for _, v := range []any{c, &c, wrapped{c}, c.AdminSecret, c.SMTPURL, c.StripeWebhooks} {
		fmt.Fprintf(&all, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v)
		for _, h := range []slog.Handler{slog.NewTextHandler(&all, nil), slog.NewJSONHandler(&all, nil)} {
			slog.New(h).Info("printed", "value", v)
		}
		text, err := json.Marshal(v)
		fmt.Fprintln(&all, string(text), err)
	}
	fmt.Fprintln(&all, err, c.SMTPURL.String())
	hexadecimal := fmt.Sprintf("%x", secret)
	if text := all.String(); strings.Contains(text, secret) || strings.Contains(text, hexadecimal) {
		at := max(strings.Index(text, secret), strings.Index(text, hexadecimal))
		t.Errorf("printed: %.200s", text[max(0, at-100):])
	}
	for _, f := range fields() {
		v, ok := reflect.ValueOf(c).FieldByIndex(f.Index).Interface().(interface{ secrets() []string })
		if ok && !slices.Contains(v.secrets(), secret) {
			t.Errorf("%s does not know its secret", f.Name)
		}
	}
	must.Is(t, "a "+redacted, c.Redactor().Replace("a "+secret))
}

// TestSecretsThatAdaptersReadAreRedacted has the secrets of variables that are not fields of Config, as servers may repeat them.
func TestSecretsThatAdaptersReadAreRedacted(t *testing.T) {
	c := read(t,
		"AWS_SECRET_ACCESS_KEY=amazon", "AWS_SESSION_TOKEN=session", "AZURE_STORAGE_KEY=azure-key", "AZURE_STORAGE_SAS_TOKEN=?sp=r&sig=a%2Btoken", "AZURE_CLIENT_SECRET=application",
		"AZURE_STORAGE_CONNECTION_STRING=AccountName=x;AccountKey=in-string==", "AZURE_STORAGEBLOB_CONNECTIONSTRING=BlobEndpoint=https://x;SharedAccessSignature=sp=r&sig=shared",
		"IDENTITY_HEADER=of-the-machine", "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20collector,X=plain", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=X=traces", "PGPASSWORD=postgres", "PGSSLPASSWORD=key-file",
	)
	for _, secret := range []string{
		"amazon", "session", "azure-key", "a%2Btoken", "a+token", "application", "in-string==", "shared", "of-the-machine", "Bearer collector", "collector", "plain", "traces", "postgres", "key-file",
	} {
		must.Is(t, "refused: "+redacted, c.Redactor().Replace("refused: "+secret))
	}
}
