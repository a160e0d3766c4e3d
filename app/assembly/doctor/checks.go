package doctor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"collab/adapters/analytics"
	"collab/adapters/anthropic"
	"collab/adapters/bucket"
	"collab/adapters/catalog"
	"collab/adapters/gormdb"
	"collab/adapters/httpapi"
	"collab/adapters/inspect"
	"collab/adapters/mail"
	"collab/adapters/natsbus"
	"collab/adapters/oidc"
	"collab/adapters/openai"
	"collab/adapters/otlp"
	"collab/adapters/registry"
	"collab/adapters/servicetoken"
	"collab/adapters/stripepay"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
)

// serverTimeout is how long the doctor waits for a server of this program.
const serverTimeout = 3 * time.Second

// checks has all checks in the order in which they are printed.
var checks = []struct {
	name string
	run  func(*doctor, context.Context) inspect.Findings
}{
	{"address", (*doctor).address},
	{"public-url", (*doctor).publicURL},
	{"proxies", (*doctor).proxies},
	{"data", (*doctor).data},
	{"database", (*doctor).database},
	{"bucket", (*doctor).bucket},
	{"bus", (*doctor).bus},
	{"token-keys", (*doctor).tokenKeys},
	{"secrets-keys", (*doctor).secretsKeys},
	{"identity", (*doctor).identity},
	{"identity-webhooks", (*doctor).identityWebhooks},
	{"payments", (*doctor).payments},
	{"payment-webhooks", (*doctor).paymentWebhooks},
	{"models", (*doctor).models},
	{"anthropic", (*doctor).anthropic},
	{"openai", (*doctor).openai},
	{"connectors", (*doctor).connectors},
	{"mail", (*doctor).mail},
	{"operator", (*doctor).operator},
	{"traces", (*doctor).traces},
	{"analytics", (*doctor).analytics},
}

// note returns one finding, of which nothing is wrong.
func note(remedy, format string, args ...any) (f inspect.Findings) {
	f.Note(remedy, format, args...)
	return f
}

// address listens for a moment. If the address is in use it only connects: a server
// that starts meanwhile must find the address free.
func (d *doctor) address(ctx context.Context) (f inspect.Findings) {
	if d.inServer {
		f.OK("this server listens on %s", d.c.Listen)
		return f
	}
	host, port, err := net.SplitHostPort(string(d.c.Listen))
	if err == nil {
		err = tryListen(net.JoinHostPort(host, "0"))
	}
	if err != nil {
		f.Wrong("set COLLAB_LISTEN to an address of this machine", "cannot listen on %s", d.c.Listen).Err = err
		return f
	}
	if port != "0" {
		conn, unreachable := (&net.Dialer{Timeout: serverTimeout}).DialContext(ctx, "tcp", string(d.c.Listen))
		if unreachable == nil {
			_ = conn.Close()
			err = syscall.EADDRINUSE
		}
	}
	if err == nil {
		err = tryListen(string(d.c.Listen))
	}
	switch {
	case err == nil:
		f.OK("%s is free to listen on", d.c.Listen)
	case errors.Is(err, syscall.EADDRINUSE):
		f.Note("expected if that is this server; otherwise stop it, or set COLLAB_LISTEN", "a server listens on %s already", d.c.Listen)
	case errors.Is(err, syscall.EACCES):
		f.Wrong("set COLLAB_LISTEN to a port above 1023, or give the service the right (systemd: "+
			"AmbientCapabilities=CAP_NET_BIND_SERVICE)", "not permitted to listen on %s", d.c.Listen)
	default:
		f.Wrong("set COLLAB_LISTEN", "cannot listen on %s", d.c.Listen).Err = err
	}
	return f
}

func tryListen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// publicURL requests the address that people and providers use.
func (d *doctor) publicURL(ctx context.Context) inspect.Findings {
	f := d.warnings("public-url")
	if !d.c.PublicURL.IsSet() {
		f.Note("", "that of COLLAB_LISTEN, as COLLAB_PUBLIC_URL is not set")
		return f
	}
	host := d.c.PublicURL.Hostname()
	const remedy = "expected before the first start; otherwise check the DNS entry, the proxy and COLLAB_PUBLIC_URL"
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		f.Note(remedy, "%s does not resolve from here", host).Err = err
		return f
	}
	// Its clock is not compared: it may be this machine's.
	client := &http.Client{Timeout: serverTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status, err := inspect.Get(ctx, client, d.c.PublicURL.Text()+httpapi.HealthPath)
	switch {
	case err != nil:
		f.Note(remedy, "%s (%s) does not answer", d.c.PublicURL.String(), strings.Join(addresses, ", ")).Err = err
	case status != http.StatusOK:
		f.Note(remedy, "%s answers %d for %s, unlike a running server", d.c.PublicURL.String(), status, httpapi.HealthPath)
	default:
		f.OK("%s (%s) answers", d.c.PublicURL.String(), strings.Join(addresses, ", "))
	}
	return f
}

// proxies reports from whom X-Forwarded-For is trusted. In production there is a proxy,
// as the server does not speak TLS.
func (d *doctor) proxies(context.Context) (f inspect.Findings) {
	const remedy = "set COLLAB_TRUSTED_PROXIES to the addresses that the proxy comes from"
	rate := d.c.RateLimits.Address
	switch {
	case len(d.c.Proxies) > 0:
		f.OK("X-Forwarded-For is trusted from %d addresses and networks", len(d.c.Proxies))
	case !d.c.Production():
		f.Note("", "X-Forwarded-For is ignored, as COLLAB_TRUSTED_PROXIES is not set")
	case rate.Count > 0:
		f.Note(remedy+", or leave address= and webhook= out of COLLAB_RATE_LIMITS", "all clients of a proxy "+
			"have its address: they share the limit of %d requests in %g seconds", rate.Count, rate.Per.Seconds())
	default:
		f.Note(remedy, "all clients of a proxy have its address, in the log and the audit log")
	}
	return f
}

// data checks the directory of embedded state.
func (d *doctor) data(context.Context) (f inspect.Findings) {
	if d.c.Production() && d.c.SMTPURL.IsSet() {
		return note("", "COLLAB_DATA_DIR is not used")
	}
	switch exists, ok := f.Directory(d.c.DataDir, "COLLAB_DATA_DIR"); {
	case ok && exists:
		f.OK("%s can be written to", d.c.DataDir)
	case ok:
		f.Note("", "%s is created at the first start", d.c.DataDir)
	}
	return f
}

func (d *doctor) database(ctx context.Context) (f inspect.Findings) {
	if d.c.Database() == "memory" {
		return note("", "data is kept in memory only: COLLAB_DATABASE_URL is memory://")
	}
	lock, err := d.lockDatabase()
	if err != nil {
		f.Wrong("wait for the end of that, and see that the user that the server runs as may write its files", "").Err = err
		return f
	}
	defer lock.Close()
	return gormdb.Inspect(ctx, gormdb.Inspection{
		Address: d.c.DatabaseURL.Text(), Replicas: d.c.Replicas(), Publishers: d.c.ReleaseOrgs, Production: d.c.Production(), Clocks: d.clocks,
	})
}

// lockDatabase keeps a database on SQLite from being replaced while it is inspected. It
// creates no file: where there is no lock file, nothing replaces the database.
func (d *doctor) lockDatabase() (io.Closer, error) {
	path, err := gormdb.SQLiteFile(d.c.DatabaseURL.Text())
	if err == nil {
		_, err = os.Stat(path + "-lock")
	}
	if err != nil {
		return io.NopCloser(nil), nil
	}
	return datadir.LockDatabase(d.c, false)
}

func (d *doctor) bucket(ctx context.Context) inspect.Findings {
	return bucket.Inspect(ctx, d.c.BlobURL, d.clocks)
}

func (d *doctor) bus(ctx context.Context) inspect.Findings {
	if d.c.BusURL.Scheme() == "local" {
		return note("several servers on one database need COLLAB_BUS_URL=nats://…", "within one server")
	}
	return natsbus.Inspect(ctx, d.c.BusURL.Text())
}

func (d *doctor) tokenKeys(context.Context) inspect.Findings {
	return servicetoken.Inspect(d.keyFile("COLLAB_TOKEN_KEYS", d.c.TokenKeys, "token-keys.pem"))
}

func (d *doctor) secretsKeys(context.Context) inspect.Findings {
	return vault.Inspect(d.keyFile("COLLAB_SECRETS_KEYS", d.c.SecretsKeys, "secrets-keys.json"))
}

// keyFile returns the configured file of keys, else that of the data directory.
func (d *doctor) keyFile(variable, configured, own string) inspect.KeyFile {
	if configured == "" {
		return inspect.KeyFile{Path: filepath.Join(d.c.DataDir, own), Generated: true, Variable: variable}
	}
	return inspect.KeyFile{Path: configured, Variable: variable}
}

func (d *doctor) identity(ctx context.Context) inspect.Findings {
	if !d.c.IdentityIssuer.IsSet() {
		return note("set COLLAB_IDENTITY_ISSUER for real sign-ins", "the built-in development provider")
	}
	i := oidc.Inspection{
		Options: oidc.Options{Issuer: d.c.IdentityIssuer.Text(), Clock: system.Clock{}},
		Shown:   d.c.IdentityIssuer, ClientID: d.c.IdentityClientID, Client: d.clocks.Client,
	}
	if d.c.IdentitySignInURL.IsSet() {
		i.SignIn = d.c.IdentitySignInURL
	}
	return append(oidc.Inspect(ctx, i), d.warnings("identity")...)
}

func (d *doctor) identityWebhooks(context.Context) inspect.Findings {
	if !d.c.IdentityWebhooks.IsSet {
		return generatedSecret()
	}
	accept := func(string) error { return nil } // config.Read has checked them
	return inspect.WebhookSecrets(d.c.IdentityWebhooks.Values(), "the identity provider", "COLLAB_IDENTITY_WEBHOOK_SECRETS", accept)
}

func (d *doctor) paymentWebhooks(context.Context) inspect.Findings {
	if !d.c.StripeWebhooks.IsSet {
		return generatedSecret()
	}
	return stripepay.InspectSecrets(d.c.StripeWebhooks.Values(), d.c.IdentityWebhooks.Values())
}

func generatedSecret() inspect.Findings {
	return note("", "the server makes the secret at its first start, and keeps it in the data directory")
}

func (d *doctor) payments(ctx context.Context) inspect.Findings {
	if !d.c.StripeKey.IsSet() {
		return note("set COLLAB_STRIPE_SECRET_KEY to receive payments", "the built-in development provider")
	}
	return stripepay.Inspect(ctx, stripepay.Options{
		SecretKey: d.c.StripeKey.Value(), URL: d.c.StripeURL.Text(), Prices: d.c.Prices(), Client: d.clocks.Client("the payment provider"),
	}, d.c.StripeURL, d.c.Production())
}

func (d *doctor) models(context.Context) inspect.Findings {
	r, err := d.c.Models()
	return registry.Inspect(r, err, d.c.LocalModel() && !d.c.Anthropic() && !d.c.OpenAI())
}

// providerModels returns what registry.InspectProvider does of the configured registry.
func (d *doctor) providerModels(provider string) (ids []string, f inspect.Findings) {
	r, err := d.c.Models()
	if err != nil {
		return nil, nil // models reports it
	}
	return registry.InspectProvider(r, provider)
}

func (d *doctor) anthropic(ctx context.Context) inspect.Findings {
	if !d.c.Anthropic() {
		return note("", "not configured")
	}
	ids, f := d.providerModels(config.ProviderAnthropic)
	o := anthropic.Options{APIKey: d.c.AnthropicKey.Value(), URL: d.c.AnthropicURL.Text(), Client: d.clocks.Client("Anthropic")}
	return append(f, anthropic.Inspect(ctx, o, urlOr(d.c.AnthropicURL, anthropic.DefaultURL), ids)...)
}

func (d *doctor) openai(ctx context.Context) inspect.Findings {
	if !d.c.OpenAI() {
		return note("", "not configured")
	}
	ids, f := d.providerModels(config.ProviderOpenAI)
	o := openai.Options{APIKey: d.c.OpenAIKey.Value(), URL: d.c.OpenAIURL.Text(), Client: d.clocks.Client("OpenAI")}
	return append(f, openai.Inspect(ctx, o, urlOr(d.c.OpenAIURL, openai.DefaultURL), ids)...)
}

// urlOr returns the configured address, else the provider's own.
func urlOr(configured config.URL, own string) config.URL {
	if configured.IsSet() {
		return configured
	}
	return config.NewURL(own)
}

func (d *doctor) connectors(context.Context) inspect.Findings {
	known, err := d.c.Catalog()
	return catalog.Inspect(d.c.ConnectorsFile, known, err, d.c.PublicURL.Text()+httpapi.CallbackPath)
}

func (d *doctor) mail(ctx context.Context) inspect.Findings {
	if !d.c.SMTPURL.IsSet() {
		return note("set COLLAB_SMTP_URL to send invitations", "e-mail is written to mail.log in %s", d.c.DataDir)
	}
	return mail.Inspect(ctx, mail.Options{URL: d.c.SMTPURL.Text(), From: d.c.MailFrom}, d.c.SMTPURL.Host())
}

func (d *doctor) operator(context.Context) (f inspect.Findings) {
	if !d.c.AdminSecret.IsSet() {
		return note("", "operator endpoints answer 404, as COLLAB_ADMIN_SECRET is not set")
	}
	f.OK("operator endpoints accept the secret")
	return append(f, d.warnings("operator")...)
}

func (d *doctor) traces(ctx context.Context) inspect.Findings {
	if !d.c.OTLPEndpoint.IsSet() {
		return note("", "not sent, as OTEL_EXPORTER_OTLP_ENDPOINT is not set")
	}
	return otlp.Inspect(ctx, d.c.OTLPEndpoint)
}

func (d *doctor) analytics(ctx context.Context) inspect.Findings {
	if !d.c.PostHogKey.IsSet() {
		return note("", "PostHog receives nothing, as COLLAB_POSTHOG_KEY is not set")
	}
	return analytics.Inspect(ctx, d.clocks.Client("PostHog"), urlOr(d.c.PostHogURL, analytics.DefaultURL))
}
