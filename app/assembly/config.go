package assembly

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"collab/adapters/httpapi/limit"
	"collab/adapters/loopback"
	"collab/adapters/outbound"
	"collab/domain/id"
	"collab/domain/org"
)

// The modes.
const (
	development = "development"
	production  = "production"
)

// Config is everything that can be set, each from one environment variable. A
// variable set to the empty string is as if unset, except where the empty
// string means that nothing is accepted.
type Config struct {
	Mode        string `env:"COLLAB_MODE" help:"development fills in what is not configured; production starts only when everything it needs is" or:"development"`
	Listen      string `env:"COLLAB_LISTEN" help:"address to listen on" or:"127.0.0.1:8080"`
	PublicURL   string `env:"COLLAB_PUBLIC_URL" help:"the base address that clients use, without a path" or:"http://localhost and the port"`
	DataDir     string `env:"COLLAB_DATA_DIR" help:"where embedded state lives" or:"./data"`
	DatabaseURL string `env:"COLLAB_DATABASE_URL" help:"sqlite://path, postgres://…, or memory:// to keep nothing" or:"SQLite in the data folder"`
	BlobURL     string `env:"COLLAB_BLOB_URL" help:"where the content of files lies: file://folder, gs://bucket/prefix, s3://bucket/prefix, azblob://container/prefix, or mem:// to keep nothing" or:"files in the data folder"`
	BusURL      string `env:"COLLAB_BUS_URL" help:"how servers tell each other of changes: nats://…, or local:// for a single server" or:"local://"`

	TokenKeys   string `env:"COLLAB_TOKEN_KEYS" help:"file of PEM Ed25519 private keys: the first signs service tokens, all verify" or:"made at first start"`
	SecretsKeys string `env:"COLLAB_SECRETS_KEYS" help:"file of the keyset that seals secrets where they are kept" or:"made at first start"`

	IdentityIssuer       string   `env:"COLLAB_IDENTITY_ISSUER" help:"OpenID Connect issuer; discovery and keys are read from it" or:"the built-in development provider"`
	IdentityAudience     []string `env:"COLLAB_IDENTITY_AUDIENCE" help:"accepted aud values, comma separated; empty: not checked"`
	IdentityParties      []string `env:"COLLAB_IDENTITY_AUTHORIZED_PARTIES" help:"accepted azp values, comma separated; empty: not checked"`
	IdentityClientID     string   `env:"COLLAB_IDENTITY_CLIENT_ID" help:"client id of the authorization-code flow of the command-line sign-in"`
	IdentityClientSecret string   `env:"COLLAB_IDENTITY_CLIENT_SECRET" help:"its secret; empty for a public client"`
	IdentitySignInURL    string   `env:"COLLAB_IDENTITY_SIGN_IN_URL" help:"hosted sign-in page of a provider that works by session instead of by code"`
	IdentityCookie       string   `env:"COLLAB_IDENTITY_SESSION_COOKIE" help:"that provider's session cookie" or:"__session"`
	IdentityWebhooks     *string  `env:"COLLAB_IDENTITY_WEBHOOK_SECRETS" help:"whsec_… secrets, comma separated; empty: no message is accepted" or:"made at first start"`
	IdentityRoleMap      string   `env:"COLLAB_IDENTITY_ROLE_MAP" help:"more role names of the provider: org:billing=MEMBER,…"`

	StripeKey      string  `env:"COLLAB_STRIPE_SECRET_KEY" help:"secret key of Stripe's API" or:"the built-in development provider"`
	StripeWebhooks *string `env:"COLLAB_STRIPE_WEBHOOK_SECRETS" help:"whsec_… secrets of its messages, comma separated; empty: no message is accepted" or:"made at first start"`
	StripeStandard string  `env:"COLLAB_STRIPE_PRICE_STANDARD" help:"id of the price of the plan STANDARD"`
	StripePremium  string  `env:"COLLAB_STRIPE_PRICE_PREMIUM" help:"id of the price of the plan PREMIUM"`
	StripeURL      string  `env:"COLLAB_STRIPE_API_URL" help:"address of a server that speaks Stripe's API, without /v1" or:"Stripe's own"`

	AnthropicKey      string `env:"COLLAB_ANTHROPIC_API_KEY" help:"key of Anthropic's API"`
	AnthropicURL      string `env:"COLLAB_ANTHROPIC_URL" help:"address of a server that speaks its protocol, without /v1" or:"Anthropic's own"`
	OpenAIKey         string `env:"COLLAB_OPENAI_API_KEY" help:"key of OpenAI's API"`
	OpenAIURL         string `env:"COLLAB_OPENAI_URL" help:"address of a server that speaks its chat completions, with /v1" or:"OpenAI's own"`
	ModelsFile        string `env:"COLLAB_MODELS_FILE" help:"registry of models, a JSON file" or:"built in"`
	DefaultModel      string `env:"COLLAB_DEFAULT_MODEL" help:"model of chats that name none" or:"the registry's first whose provider is configured"`
	ConnectorsFile    string `env:"COLLAB_CONNECTORS_FILE" help:"catalog of tool servers, a JSON file" or:"built in"`
	ConnectorNetworks string `env:"COLLAB_CONNECTOR_NETWORKS" help:"networks that are not public where tool servers and their authorization servers may be, such as 10.1.0.0/16, comma separated"`

	PostHogKey string `env:"COLLAB_POSTHOG_KEY" help:"project key of PostHog, which is told of every call of a model; empty: it is not"`
	PostHogURL string `env:"COLLAB_POSTHOG_URL" help:"address of a PostHog server" or:"PostHog's own"`

	AdminSecret  string   `env:"COLLAB_ADMIN_SECRET" help:"value of the operator's X-Admin-Secret header; empty: operator endpoints answer 404"`
	CORSOrigins  []string `env:"COLLAB_CORS_ORIGINS" help:"origins of browser clients, comma separated"`
	RateLimits   string   `env:"COLLAB_RATE_LIMITS" help:"requests per caller, per address where there is no caller, and of providers per address (webhook); or off" or:"caller=1200/m,address=600/m,chat=60/m,credentials=60/m,webhook=6000/m"`
	Budgets      string   `env:"COLLAB_BUDGETS" help:"what all requests may hold at once: memory for those of callers who are not known yet (anonymous), for bodies and downloads of known ones (callers), and for connections with the headers of requests (connections), and disk for what waits in files (spool), in MiB or GiB" or:"anonymous=64MiB,callers=256MiB,connections=1GiB,spool= 16 times COLLAB_MAX_UPLOAD_BYTES"`
	Connections  string   `env:"COLLAB_CONNECTIONS" help:"connections in all, and from one address that is no trusted proxy; without trusted proxies those of this machine have no limit of their own" or:"total=16384,address=512"`
	Proxies      string   `env:"COLLAB_TRUSTED_PROXIES" help:"addresses and networks of the proxies whose X-Forwarded-For is believed, such as 127.0.0.1, comma separated; empty: nobody's"`
	MaxUpload    string   `env:"COLLAB_MAX_UPLOAD_BYTES" help:"largest content of a file, in bytes" or:"104857600"`
	Heartbeat    string   `env:"COLLAB_HEARTBEAT" help:"time between the comments that keep a change feed open" or:"30s"`
	Retention    string   `env:"COLLAB_FEED_RETENTION" help:"how long changes stay in the feed for those who come back" or:"168h"`
	SMTPURL      string   `env:"COLLAB_SMTP_URL" help:"smtp://user:password@host:port or smtps://…; empty: e-mail is written to a file in the data folder"`
	MailFrom     string   `env:"COLLAB_MAIL_FROM" help:"sender of e-mail; production with COLLAB_SMTP_URL needs it" or:"Collab <no-reply@localhost>"`
	AppURL       string   `env:"COLLAB_APP_URL" help:"address of the application, which invitations lead to" or:"the development provider's pages"`
	ReleaseOrgs  []string `env:"COLLAB_RELEASE_ORGS" help:"ids of the organisations that may publish releases of the desktop application, comma separated; empty: in development all, in production none"`
	ReleaseHosts []string `env:"COLLAB_RELEASE_HOSTS" help:"hosts that releases may be downloaded from, comma separated; empty: any"`
	LogLevel     string   `env:"COLLAB_LOG_LEVEL" help:"debug, info, warn or error" or:"info"`
	LogFormat    string   `env:"COLLAB_LOG_FORMAT" help:"json or text" or:"text; json in production"`

	OTLPEndpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"collector that traces are sent to over HTTP; the other OTEL_EXPORTER_OTLP_* variables count too; empty: no traces"`
	ServiceName  string `env:"OTEL_SERVICE_NAME" help:"service name in traces" or:"collabd"`

	unknown []unknown // variables that are set and are none of these
}

// emptyCounts names the variables whose empty value says something.
var emptyCounts = []string{"COLLAB_IDENTITY_WEBHOOK_SECRETS", "COLLAB_STRIPE_WEBHOOK_SECRETS", "COLLAB_ADMIN_SECRET"}

// ReadConfig reads the configuration from an environment in the form of
// os.Environ. The error lists everything that is wrong or missing, by name.
func ReadConfig(environ []string) (Config, error) {
	set := env.ToMap(environ)
	for name, value := range set {
		if value == "" && !slices.Contains(emptyCounts, name) {
			delete(set, name)
		}
	}
	var c Config
	if err := env.ParseWithOptions(&c, env.Options{Environment: set}); err != nil {
		return c, err
	}
	// The parser takes an empty text for nothing.
	if secrets, ok := set["COLLAB_IDENTITY_WEBHOOK_SECRETS"]; ok {
		c.IdentityWebhooks = &secrets
	}
	if secrets, ok := set["COLLAB_STRIPE_WEBHOOK_SECRETS"]; ok {
		c.StripeWebhooks = &secrets
	}
	c.fill()
	c.unknown = unknownVariables(environ)
	err := c.check()
	if err != nil {
		for _, u := range c.unknown {
			err = errors.Join(err, errors.New(u.String()))
		}
	}
	return c, err
}

// Production reports whether nothing may be made up.
func (c Config) Production() bool { return c.Mode == production }

func (c *Config) fill() {
	def := func(v *string, to string) {
		if *v == "" {
			*v = to
		}
	}
	def(&c.Mode, development)
	def(&c.Listen, "127.0.0.1:8080")
	def(&c.DataDir, "./data")
	def(&c.RateLimits, "caller=1200/m,address=600/m,chat=60/m,credentials=60/m,webhook=6000/m")
	def(&c.BusURL, "local://")
	def(&c.MaxUpload, "104857600")
	def(&c.Heartbeat, "30s")
	def(&c.Retention, "168h")
	def(&c.LogLevel, "info")
	def(&c.ServiceName, "collabd")
	if c.IdentitySignInURL != "" {
		def(&c.IdentityCookie, "__session")
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	c.AppURL = strings.TrimRight(c.AppURL, "/")
	if c.Production() {
		def(&c.LogFormat, "json")
	} else {
		def(&c.LogFormat, "text")
		def(&c.DatabaseURL, "sqlite://"+filepath.Join(c.DataDir, "collab.db"))
		if databaseKind(c.DatabaseURL) == "memory" {
			def(&c.BlobURL, "mem://") // files that no record names are of no use
		}
		def(&c.BlobURL, "file://"+filepath.Join(c.DataDir, "blobs"))
		def(&c.MailFrom, "Collab <no-reply@localhost>")
	}
}

func (c Config) check() error {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if c.Mode != development && c.Mode != production {
		add("COLLAB_MODE must be development or production")
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		add("COLLAB_LISTEN must be host:port, such as 127.0.0.1:8080")
	}
	for name, address := range map[string]string{
		"COLLAB_PUBLIC_URL": c.PublicURL, "COLLAB_IDENTITY_ISSUER": c.IdentityIssuer,
		"COLLAB_IDENTITY_SIGN_IN_URL": c.IdentitySignInURL, "COLLAB_APP_URL": c.AppURL,
		"COLLAB_ANTHROPIC_URL": c.AnthropicURL, "COLLAB_OPENAI_URL": c.OpenAIURL, "COLLAB_STRIPE_API_URL": c.StripeURL, "COLLAB_POSTHOG_URL": c.PostHogURL,
	} {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			add("%s must be an http or https address", name)
		}
	}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Path != "" {
		add("COLLAB_PUBLIC_URL must not have a path")
	}
	if c.DatabaseURL != "" && databaseKind(c.DatabaseURL) == "" {
		add("COLLAB_DATABASE_URL must begin with sqlite://, postgres:// or memory://")
	}
	if c.BlobURL != "" && !slices.Contains([]string{"file", "gs", "s3", "azblob", "mem"}, scheme(c.BlobURL)) {
		add("COLLAB_BLOB_URL must begin with file://, gs://, s3://, azblob:// or mem://")
	}
	if !slices.Contains([]string{"local", "nats", "tls"}, scheme(c.BusURL)) {
		add("COLLAB_BUS_URL must be local://, or begin with nats:// or tls://")
	}
	if n, err := strconv.ParseInt(c.MaxUpload, 10, 64); err != nil || n < minUpload {
		add("COLLAB_MAX_UPLOAD_BYTES must be a number of bytes, at least %d", minUpload)
	}
	if d, err := time.ParseDuration(c.Heartbeat); err != nil || d < 100*time.Millisecond || d > time.Hour {
		add("COLLAB_HEARTBEAT must be a duration of 100ms to 1h, such as 30s")
	}
	if d, err := time.ParseDuration(c.Retention); err != nil || d < time.Minute {
		add("COLLAB_FEED_RETENTION must be a duration of at least 1m, such as 168h")
	}
	if _, err := org.ParseRoleMap(c.IdentityRoleMap); err != nil {
		add("COLLAB_IDENTITY_ROLE_MAP: %v", err)
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		add("COLLAB_LOG_LEVEL must be debug, info, warn or error")
	}
	if _, err := limit.ParseRates(c.RateLimits); err != nil {
		add("COLLAB_RATE_LIMITS: %v", err)
	}
	budgets, err := limit.ParseBudgets(c.Budgets, c.maxUpload())
	if err != nil {
		add("COLLAB_BUDGETS: %v", err)
	}
	limits, unread := limit.ParseConnections(c.Connections)
	switch {
	case unread != nil:
		add("COLLAB_CONNECTIONS: %v", unread)
	case err == nil && 2*limits.Memory() > budgets.Connections:
		add("COLLAB_CONNECTIONS: %d connections need connections=%dMiB of COLLAB_BUDGETS", limits.Total, (2*limits.Memory()+1<<20-1)>>20)
	}
	if _, err := parseProxies(c.Proxies); err != nil {
		add("COLLAB_TRUSTED_PROXIES: %v", err)
	}
	if _, err := outbound.ParseNetworks(c.ConnectorNetworks); err != nil {
		add("COLLAB_CONNECTOR_NETWORKS: %v", err)
	}
	for _, o := range c.ReleaseOrgs {
		if _, ok := id.Parse[id.Org](o); !ok {
			add("COLLAB_RELEASE_ORGS must be ids of organisations, and %q is none", o)
		}
	}
	for _, h := range c.ReleaseHosts {
		if h == "" || strings.ContainsAny(h, "/:@ ") {
			add("COLLAB_RELEASE_HOSTS must be names of hosts, without scheme and port, and %q is none", h)
		}
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		add("COLLAB_LOG_FORMAT must be json or text")
	}
	if c.IdentityClientID != "" && c.IdentitySignInURL != "" {
		add("COLLAB_IDENTITY_CLIENT_ID and COLLAB_IDENTITY_SIGN_IN_URL exclude each other: a provider signs in by code or by session")
	}
	if c.StripeKey != "" && (c.StripeStandard == "" || c.StripePremium == "" || c.StripeStandard == c.StripePremium) {
		add("COLLAB_STRIPE_PRICE_STANDARD and COLLAB_STRIPE_PRICE_PREMIUM must be the ids of two prices where COLLAB_STRIPE_SECRET_KEY is set")
	}
	if !c.Production() && !c.localModel() && !c.anthropic() && !c.openai() {
		add("COLLAB_LISTEN must be a loopback address while the built-in model is the only one; set COLLAB_ANTHROPIC_API_KEY or COLLAB_OPENAI_API_KEY to listen elsewhere")
	}
	if c.Production() {
		for _, need := range []struct{ name, value string }{
			{"COLLAB_PUBLIC_URL", c.PublicURL}, {"COLLAB_DATABASE_URL", c.DatabaseURL}, {"COLLAB_BLOB_URL", c.BlobURL},
			{"COLLAB_TOKEN_KEYS", c.TokenKeys}, {"COLLAB_SECRETS_KEYS", c.SecretsKeys},
			{"COLLAB_IDENTITY_ISSUER", c.IdentityIssuer}, {"COLLAB_APP_URL", c.AppURL},
			{"COLLAB_STRIPE_SECRET_KEY", c.StripeKey},
		} {
			if need.value == "" {
				add("%s must be set in production", need.name)
			}
		}
		if c.IdentityWebhooks == nil {
			add("COLLAB_IDENTITY_WEBHOOK_SECRETS must be set in production")
		}
		if c.StripeWebhooks == nil {
			add("COLLAB_STRIPE_WEBHOOK_SECRETS must be set in production")
		}
		if c.IdentityClientID == "" && c.IdentitySignInURL == "" {
			add("COLLAB_IDENTITY_CLIENT_ID or COLLAB_IDENTITY_SIGN_IN_URL must be set in production")
		}
		if !c.anthropic() && !c.openai() {
			add("COLLAB_ANTHROPIC_API_KEY or COLLAB_OPENAI_API_KEY must be set in production, or COLLAB_ANTHROPIC_URL or COLLAB_OPENAI_URL for a server that asks for none")
		}
		if c.SMTPURL != "" && c.MailFrom == "" {
			add("COLLAB_MAIL_FROM must be set in production when COLLAB_SMTP_URL is")
		}
		if databaseKind(c.DatabaseURL) == "memory" {
			add("COLLAB_DATABASE_URL must not be memory:// in production")
		}
		if scheme(c.BlobURL) == "mem" {
			add("COLLAB_BLOB_URL must not be mem:// in production")
		}
	} else if c.IdentityIssuer == "" {
		if host, _, err := net.SplitHostPort(c.Listen); err == nil && !loopback.IsHost(host) {
			add("COLLAB_LISTEN must be a loopback address while the development identity provider is used; set COLLAB_IDENTITY_ISSUER to listen elsewhere")
		}
		if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && err == nil && !loopback.IsHost(u.Hostname()) {
			add("COLLAB_PUBLIC_URL must be a loopback address while the development identity provider is used; set COLLAB_IDENTITY_ISSUER to be reached elsewhere")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.New(strings.Join(wrong, "\n"))
}

// minUpload is the least that the limit of uploads can be: that of JSON bodies,
// among which are documents and memories.
const minUpload = 1 << 20

// The accessors of what was checked.

func (c Config) maxUpload() int64 {
	n, _ := strconv.ParseInt(c.MaxUpload, 10, 64)
	return n
}

func (c Config) anthropic() bool { return c.AnthropicKey != "" || c.AnthropicURL != "" }
func (c Config) openai() bool    { return c.OpenAIKey != "" || c.OpenAIURL != "" }

// localModel reports whether the built-in model is there: like the other stand-ins
// it is for this machine alone.
func (c Config) localModel() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return !c.Production() && err == nil && loopback.IsHost(host)
}

// maxProxies is how many addresses and networks of proxies there may be: each may be
// held against a request's addresses.
const maxProxies = 100

// parseProxies reads the addresses and networks of proxies.
func parseProxies(s string) ([]netip.Prefix, error) {
	proxies, err := outbound.ParseNetworks(s)
	if err != nil {
		return nil, err
	}
	for _, n := range proxies {
		if n.Bits() == 0 {
			return nil, fmt.Errorf("%q is everybody, and so any client could say that it has any address", n)
		}
	}
	if len(proxies) > maxProxies {
		return nil, fmt.Errorf("there are %d addresses and networks, of which %d are allowed: name networks", len(proxies), maxProxies)
	}
	return proxies, nil
}

func (c Config) heartbeat() time.Duration { return duration(c.Heartbeat) }
func (c Config) retention() time.Duration { return duration(c.Retention) }

func duration(checked string) time.Duration {
	d, _ := time.ParseDuration(checked)
	return d
}

// scheme returns what an address begins with.
func scheme(address string) string {
	s, _, _ := strings.Cut(address, "://")
	return s
}

// databaseKind names the adapter that an address of a database is for.
func databaseKind(address string) string {
	switch s := scheme(address); s {
	case "sqlite", "memory":
		return s
	case "postgres", "postgresql":
		return "postgres"
	}
	return ""
}

// Help writes the table of variables.
func Help(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for f := range configFields() {
		def := f.Tag.Get("or")
		if def == "" {
			def = "-"
		}
		fmt.Fprintf(t, "  %s\t%s\t(%s)\n", f.Tag.Get("env"), f.Tag.Get("help"), def)
	}
	t.Flush()
}

func configFields() func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		t := reflect.TypeFor[Config]()
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && !yield(f) {
				return
			}
		}
	}
}
