// Package config reads the configuration of the server from its environment. Each
// variable is described once, by a field of Config.
package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/bucket"
	"collab/adapters/gormdb"
	"collab/adapters/httpapi/limit"
	"collab/adapters/mail"
	"collab/adapters/natsbus"
	"collab/adapters/otlp"
	"collab/adapters/outbound"
	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/plan"
)

// Config is the configuration. Each field is one environment variable. An empty variable counts
// as not set, except for Secrets, where it means that nothing is accepted.
//
// The tags: env is the variable, which help explains. default is the text if it is not set, dev
// and prod are that of one mode; or describes a computed default. oneof and schemes list the
// allowed values, min and max bound numbers and durations. required:"prod" means that
// production has no default. The fields are read in their order.
type Config struct {
	Mode          string   `env:"COLLAB_MODE" default:"development" oneof:"development,production"`
	Listen        HostPort `env:"COLLAB_LISTEN" default:"127.0.0.1:8080"`
	PublicURL     URL      `env:"COLLAB_PUBLIC_URL" or:"http://localhost, or the one address of COLLAB_LISTEN, and the port" schemes:"http,https" required:"prod"`
	DataDir       string   `env:"COLLAB_DATA_DIR" default:"./data"`
	DatabaseURL   URL      `env:"COLLAB_DATABASE_URL" or:"SQLite in the data directory" schemes:"sqlite,postgres,memory" required:"prod"`
	DirectURL     URL      `env:"COLLAB_DATABASE_DIRECT_URL" schemes:"postgres"`
	ReplicaURLs   URL      `env:"COLLAB_DATABASE_REPLICA_URLS" schemes:"postgres"`
	BlobURL       URL      `env:"COLLAB_BLOB_URL" or:"files in the data directory" schemes:"file,gs,s3,azblob,mem" required:"prod"`
	SignedURLs    string   `env:"COLLAB_SIGNED_URLS" default:"on" oneof:"on,off"`
	BlobPublicURL URL      `env:"COLLAB_BLOB_PUBLIC_URL" schemes:"http,https"`
	BusURL        URL      `env:"COLLAB_BUS_URL" default:"local://" schemes:"local,nats,tls"`

	TokenKeys   string `env:"COLLAB_TOKEN_KEYS" or:"created at first start" required:"prod"`
	SecretsKeys string `env:"COLLAB_SECRETS_KEYS" or:"created at first start" required:"prod"`

	IdentityIssuer       URL         `env:"COLLAB_IDENTITY_ISSUER" or:"the built-in development provider" schemes:"http,https" required:"prod"`
	IdentityAudience     []string    `env:"COLLAB_IDENTITY_AUDIENCE"`
	IdentityParties      []string    `env:"COLLAB_IDENTITY_AUTHORIZED_PARTIES"`
	IdentityClientID     string      `env:"COLLAB_IDENTITY_CLIENT_ID"`
	IdentityClientSecret Secret      `env:"COLLAB_IDENTITY_CLIENT_SECRET"`
	IdentitySignInURL    URL         `env:"COLLAB_IDENTITY_SIGN_IN_URL" schemes:"http,https"`
	IdentityCookie       string      `env:"COLLAB_IDENTITY_SESSION_COOKIE" default:"__session"`
	IdentityWebhooks     Secrets     `env:"COLLAB_IDENTITY_WEBHOOK_SECRETS" or:"created at first start" required:"prod"`
	IdentityRoles        org.RoleMap `env:"COLLAB_IDENTITY_ROLE_MAP"`

	StripeKey      Secret   `env:"COLLAB_STRIPE_SECRET_KEY" or:"the built-in development provider" required:"prod"`
	StripeWebhooks Secrets  `env:"COLLAB_STRIPE_WEBHOOK_SECRETS" or:"created at first start" required:"prod"`
	StripeStandard []string `env:"COLLAB_STRIPE_PRICE_STANDARD"`
	StripePremium  []string `env:"COLLAB_STRIPE_PRICE_PREMIUM"`
	StripeURL      URL      `env:"COLLAB_STRIPE_API_URL" or:"Stripe's own" schemes:"http,https"`

	AnthropicKey      Secret         `env:"COLLAB_ANTHROPIC_API_KEY"`
	AnthropicURL      URL            `env:"COLLAB_ANTHROPIC_URL" or:"Anthropic's own" schemes:"http,https"`
	OpenAIKey         Secret         `env:"COLLAB_OPENAI_API_KEY"`
	OpenAIURL         URL            `env:"COLLAB_OPENAI_URL" or:"OpenAI's own" schemes:"http,https"`
	ModelsFile        string         `env:"COLLAB_MODELS_FILE" or:"built in"`
	DefaultModel      string         `env:"COLLAB_DEFAULT_MODEL" or:"the registry's first whose provider is configured"`
	ConnectorsFile    string         `env:"COLLAB_CONNECTORS_FILE" or:"built in"`
	ConnectorNetworks []netip.Prefix `env:"COLLAB_CONNECTOR_NETWORKS"`

	PostHogKey Secret `env:"COLLAB_POSTHOG_KEY"`
	PostHogURL URL    `env:"COLLAB_POSTHOG_URL" or:"PostHog's own" schemes:"http,https"`

	AdminSecret Secret  `env:"COLLAB_ADMIN_SECRET"`
	CORSOrigins Origins `env:"COLLAB_CORS_ORIGINS"`
	// The minimum is the limit of JSON bodies, which can be documents.
	MaxUpload    int64                  `env:"COLLAB_MAX_UPLOAD_BYTES" default:"104857600" min:"1048576"`
	PlanStorage  plan.StorageLimits     `env:"COLLAB_PLAN_STORAGE" default:"NO_PLAN=5GiB,FREE=10GiB,STANDARD=100GiB,PREMIUM=1TiB"`
	PlanVersions plan.VersionRetention  `env:"COLLAB_PLAN_VERSIONS" default:"NO_PLAN=30d/100,FREE=30d/100,STANDARD=30d/100,PREMIUM=30d/100,ENTERPRISE=30d/100"`
	RateLimits   limit.Rates            `env:"COLLAB_RATE_LIMITS" default:"caller=1200/m,address=600/m,chat=60/m,credentials=60/m,webhook=6000/m"`
	PlanRequests plan.RequestLimits     `env:"COLLAB_PLAN_REQUESTS" default:"off"`
	Budgets      limit.Budgets          `env:"COLLAB_BUDGETS" default:"anonymous=64MiB,callers=256MiB,connections=1GiB,spool=16uploads"`
	Connections  limit.ConnectionLimits `env:"COLLAB_CONNECTIONS" default:"total=16384,address=512"`
	Concurrency  limit.Concurrency      `env:"COLLAB_CONCURRENCY" default:"requests=32/processor,streams=connections,transfers=1024,calls=1024,webhooks=32"`
	Proxies      Proxies                `env:"COLLAB_TRUSTED_PROXIES"`
	Heartbeat    time.Duration          `env:"COLLAB_HEARTBEAT" default:"30s" min:"100ms" max:"1h"`
	Retention    time.Duration          `env:"COLLAB_FEED_RETENTION" default:"168h" min:"1m"`
	Exports      time.Duration          `env:"COLLAB_EXPORT_RETENTION" default:"24h" min:"1m" max:"720h"`
	SMTPURL      URL                    `env:"COLLAB_SMTP_URL"`
	MailFrom     string                 `env:"COLLAB_MAIL_FROM" dev:"Collab <no-reply@localhost>"`
	AppURL       URL                    `env:"COLLAB_APP_URL" or:"the development provider's pages" schemes:"http,https" required:"prod"`
	ReleaseOrgs  []id.Org               `env:"COLLAB_RELEASE_ORGS"`
	ReleaseHosts Hosts                  `env:"COLLAB_RELEASE_HOSTS"`
	LogLevel     slog.Level             `env:"COLLAB_LOG_LEVEL" default:"info"`
	LogFormat    string                 `env:"COLLAB_LOG_FORMAT" dev:"text" prod:"json" oneof:"json,text"`

	OTLPEndpoint URL    `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	ServiceName  string `env:"OTEL_SERVICE_NAME" default:"collabd"`

	Unknown        []Unknown // variables that are set and not described here
	Missing        []string  // of a configuration for development: what is missing for production, each with its variable
	adapterSecrets []Secret  // in variables that adapters and their libraries read
}

// fields returns the fields of Config that are read from variables.
func fields() (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Tag.Get("env") != "" {
			all = append(all, f)
		}
	}
	return all
}

// Read reads the configuration from an environment in the form of os.Environ. The error lists
// every wrong or missing variable by name. Redactor may be called even after an error.
func Read(environ []string) (Config, error) {
	set := map[string]string{}
	c := Config{Unknown: unknownVariables(environ)}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	getenv := func(variable string) string { return set[variable] }
	secrets := slices.Concat(bucket.Secrets(getenv), otlp.Secrets(getenv))
	secrets = append(secrets, set["PGPASSWORD"], set["PGSSLPASSWORD"]) // which pgx reads
	for _, s := range secrets {
		c.adapterSecrets = append(c.adapterSecrets, newSecret(s))
	}
	lines := c.readAll(set)
	if len(lines) == 0 {
		if !c.Production() {
			set["COLLAB_MODE"] = "production"
			c.Missing = new(Config).readAll(set)
		}
		return c, nil
	}
	for _, u := range c.Unknown {
		lines = append(lines, u.String())
	}
	return c, errors.New(strings.Join(lines, "\n"))
}

// readAll sets all fields to the texts of their variables, or to their defaults, and returns what is
// wrong or missing, each with its variable.
func (c *Config) readAll(set map[string]string) (lines []string) {
	wrong := map[string][]string{}
	for _, f := range fields() {
		name := f.Tag.Get("env")
		text, isSet := set[name]
		if err := c.read(f, text, isSet); err != nil {
			wrong[name] = []string{err.Error()}
		}
	}
	c.setComputedDefaults()
	refused := maps.Clone(wrong)
	c.checkCombinations(func(name, format string, args ...any) {
		if refused[name] == nil { // a refused value is reported only once
			wrong[name] = append(wrong[name], fmt.Sprintf(format, args...))
		}
	})
	for name, texts := range wrong {
		for _, text := range texts {
			separator := ": "
			if strings.HasPrefix(text, "must ") || strings.HasPrefix(text, "and ") || strings.HasPrefix(text, "or ") {
				separator = " "
			}
			lines = append(lines, name+separator+text)
		}
	}
	slices.Sort(lines)
	return lines
}

// read sets one field to the text of its variable, or to its default.
func (c *Config) read(f reflect.StructField, text string, isSet bool) (err error) {
	if text == "" {
		text = f.Tag.Get("default") + f.Tag.Get(map[bool]string{false: "dev", true: "prod"}[c.Production()])
	}
	to := reflect.ValueOf(c).Elem().FieldByIndex(f.Index).Addr().Interface()
	list, isSecrets := to.(*Secrets)
	if text == "" && !(isSecrets && isSet) && f.Tag.Get("required") == "prod" && c.Production() {
		return errors.New("must be set in production")
	}
	if allowed := f.Tag.Get("oneof"); allowed != "" && !slices.Contains(strings.Split(allowed, ","), text) {
		return fmt.Errorf("must be %s", alternatives(strings.Split(allowed, ","), ""))
	}
	switch v := to.(type) {
	case *string:
		*v = text
	case *[]string:
		*v = elements(text)
	case *int64:
		minimum, _ := strconv.ParseInt(f.Tag.Get("min"), 10, 64)
		if *v, err = strconv.ParseInt(text, 10, 64); err != nil || *v < minimum {
			err = fmt.Errorf("must be a number of at least %d", minimum)
		}
	case *time.Duration:
		bounds, limited := "at least "+f.Tag.Get("min"), f.Tag.Get("max") != ""
		if limited {
			bounds = f.Tag.Get("min") + " to " + f.Tag.Get("max")
		}
		minimum, _ := time.ParseDuration(f.Tag.Get("min"))
		maximum, _ := time.ParseDuration(f.Tag.Get("max"))
		if *v, err = time.ParseDuration(text); err != nil || *v < minimum || limited && *v > maximum {
			err = fmt.Errorf("must be a duration of %s, such as %s", bounds, f.Tag.Get("default"))
		}
	case *Secret:
		*v = newSecret(text)
	case *Secrets:
		list.IsSet = isSet
		for _, s := range elements(text) {
			list.all = append(list.all, newSecret(s))
		}
	case *URL:
		*v = NewURL(text)
		if schemes := f.Tag.Get("schemes"); schemes != "" {
			err = v.check(strings.Split(schemes, ","))
		}
	case *HostPort:
		*v, err = parseHostPort(text)
	case *slog.Level:
		if v.UnmarshalText([]byte(text)) != nil {
			err = errors.New("must be debug, info, warn or error")
		}
	case *org.RoleMap:
		*v, err = org.ParseRoleMap(text)
	case *plan.StorageLimits:
		*v, err = plan.ParseStorageLimits(text)
	case *plan.VersionRetention:
		*v, err = plan.ParseVersionRetention(text)
	case *plan.RequestLimits:
		*v, err = plan.ParseRequestLimits(text)
	case *limit.Rates:
		*v, err = limit.ParseRates(text)
	case *limit.Budgets:
		*v, err = limit.ParseBudgets(f.Tag.Get("default"), text, c.MaxUpload)
	case *limit.Concurrency:
		*v, err = limit.ParseConcurrency(f.Tag.Get("default"), text, runtime.GOMAXPROCS(0), c.Connections.Total)
	case *limit.ConnectionLimits:
		*v, err = limit.ParseConnections(f.Tag.Get("default"), text)
	case *[]netip.Prefix:
		*v, err = outbound.ParseNetworks(text)
	case *Proxies:
		*v, err = parseProxies(text)
	case *Hosts:
		*v, err = parseHosts(text)
	case *Origins:
		*v, err = parseOrigins(text)
	case *[]id.Org:
		*v, err = parseOrgs(text)
	default:
		panic(fmt.Sprintf("config: no parser of %T", to))
	}
	if check := checks[f.Tag.Get("env")]; check != nil && text != "" && err == nil {
		err = check(text)
	}
	return err
}

// checks are what adapters demand of their settings. They connect to nothing.
var checks = map[string]func(string) error{
	"COLLAB_DATABASE_URL":             exceptScheme("memory", gormdb.CheckAddress),
	"COLLAB_DATABASE_DIRECT_URL":      gormdb.CheckAddress,
	"COLLAB_BLOB_URL":                 bucket.CheckAddress,
	"COLLAB_BLOB_PUBLIC_URL":          bucket.CheckOrigin,
	"COLLAB_BUS_URL":                  exceptScheme("local", natsbus.CheckAddress),
	"COLLAB_IDENTITY_WEBHOOK_SECRETS": checkIdentityWebhooks,
	"COLLAB_STRIPE_SECRET_KEY":        stripepay.CheckKey,
	"COLLAB_STRIPE_PRICE_STANDARD":    stripepay.CheckPrices,
	"COLLAB_STRIPE_PRICE_PREMIUM":     stripepay.CheckPrices,
	"COLLAB_STRIPE_API_URL":           checkAddress,
	"COLLAB_POSTHOG_URL":              checkAddress,
	"COLLAB_SMTP_URL":                 mail.CheckServer,
	"COLLAB_MAIL_FROM":                mail.CheckSender,
}

// exceptScheme returns a check of the addresses that do not have the scheme, whose addresses no adapter checks.
func exceptScheme(scheme string, check func(string) error) func(string) error {
	return func(address string) error {
		if NewURL(address).Scheme() == scheme {
			return nil
		}
		return check(address)
	}
}

func checkAddress(address string) error {
	_, err := outbound.ParseAddress(address)
	return err
}

func checkIdentityWebhooks(secrets string) error {
	_, err := standardwebhooks.New(elements(secrets), nil)
	return err
}

// Production reports whether the mode is production.
func (c Config) Production() bool { return c.Mode == "production" }

// setComputedDefaults sets the defaults that depend on other values.
func (c *Config) setComputedDefaults() {
	c.PublicURL = NewURL(strings.TrimRight(c.PublicURL.Text(), "/"))
	c.AppURL = NewURL(strings.TrimRight(c.AppURL.Text(), "/"))
	if c.Production() {
		return
	}
	if !c.DatabaseURL.IsSet() {
		c.DatabaseURL = NewURL("sqlite://" + filepath.Join(c.DataDir, "collab.db"))
	}
	switch {
	case c.BlobURL.IsSet():
	case c.Database() == "memory":
		c.BlobURL = NewURL("mem://") // blobs are of no use without records
	default:
		c.BlobURL = NewURL("file://" + filepath.Join(c.DataDir, "blobs"))
	}
}

// checkCombinations reports what is wrong or missing because of other values, each under the name
// of a variable.
func (c Config) checkCombinations(report func(name, format string, args ...any)) {
	for _, replica := range c.Replicas() {
		if c.Database() != "postgres" || NewURL(replica).Scheme() != "postgres" {
			report("COLLAB_DATABASE_REPLICA_URLS", "must be addresses of Postgres, like COLLAB_DATABASE_URL")
			break
		}
		if err := gormdb.CheckAddress(replica); err != nil {
			report("COLLAB_DATABASE_REPLICA_URLS", "%v", err)
			break
		}
	}
	if u, err := url.Parse(c.PublicURL.Text()); err == nil && u.Path != "" {
		report("COLLAB_PUBLIC_URL", "must not have a path")
	}
	if need := 2 * c.Connections.Memory(); c.Budgets.Connections > 0 && need > c.Budgets.Connections {
		report("COLLAB_CONNECTIONS", "%d connections need connections=%dMiB of COLLAB_BUDGETS",
			c.Connections.Total, (need+1<<20-1)>>20)
	}
	if c.IdentityClientID != "" && c.IdentitySignInURL.IsSet() {
		report("COLLAB_IDENTITY_CLIENT_ID",
			"and COLLAB_IDENTITY_SIGN_IN_URL exclude each other: a provider signs in by code or by session")
	}
	inBoth := slices.ContainsFunc(c.StripeStandard, func(price string) bool { return slices.Contains(c.StripePremium, price) })
	if c.StripeKey.IsSet() && (len(c.StripeStandard) == 0 || len(c.StripePremium) == 0 || inBoth) {
		report("COLLAB_STRIPE_PRICE_STANDARD",
			"and COLLAB_STRIPE_PRICE_PREMIUM must be the ids of two prices where COLLAB_STRIPE_SECRET_KEY is set")
	}
	if c.Production() {
		c.checkProduction(report)
	} else {
		c.checkDevelopment(report)
	}
}

// checkDevelopment reports what would make parts for development reachable from other machines.
func (c Config) checkDevelopment(report func(name, format string, args ...any)) {
	if !c.LocalModel() && !c.Anthropic() && !c.OpenAI() {
		report("COLLAB_LISTEN", "must be a loopback address while the built-in model is the only one; "+
			"set COLLAB_ANTHROPIC_API_KEY or COLLAB_OPENAI_API_KEY to listen elsewhere")
	}
	for _, d := range []struct {
		name, instead string
		used          bool
	}{{"identity", "COLLAB_IDENTITY_ISSUER", !c.IdentityIssuer.IsSet()}, {"payment", "COLLAB_STRIPE_SECRET_KEY", !c.StripeKey.IsSet()}} {
		if d.used && !c.Listen.loopback() {
			report("COLLAB_LISTEN", "must be a loopback address while the development %s provider is used; "+
				"set %s to listen elsewhere", d.name, d.instead)
		}
		if d.used && c.PublicURL.IsSet() && !c.PublicURL.loopback() {
			report("COLLAB_PUBLIC_URL", "must be a loopback address while the development %s provider is used; "+
				"set %s to be reached elsewhere", d.name, d.instead)
		}
	}
}

// checkProduction reports what production needs and excludes.
func (c Config) checkProduction(report func(name, format string, args ...any)) {
	if c.IdentityClientID == "" && !c.IdentitySignInURL.IsSet() {
		report("COLLAB_IDENTITY_CLIENT_ID", "or COLLAB_IDENTITY_SIGN_IN_URL must be set in production")
	}
	if !c.Anthropic() && !c.OpenAI() {
		report("COLLAB_ANTHROPIC_API_KEY", "or COLLAB_OPENAI_API_KEY must be set in production, "+
			"or COLLAB_ANTHROPIC_URL or COLLAB_OPENAI_URL for a server that asks for none")
	}
	if c.SMTPURL.IsSet() && c.MailFrom == "" {
		report("COLLAB_MAIL_FROM", "must be set in production when COLLAB_SMTP_URL is")
	}
	if c.Database() == "memory" {
		report("COLLAB_DATABASE_URL", "must not be memory:// in production")
	}
	if c.BlobURL.Scheme() == "mem" {
		report("COLLAB_BLOB_URL", "must not be mem:// in production")
	}
}

// Anthropic reports whether models of Anthropic's protocol are configured.
func (c Config) Anthropic() bool { return c.AnthropicKey.IsSet() || c.AnthropicURL.IsSet() }

// OpenAI reports whether models of OpenAI's protocol are configured.
func (c Config) OpenAI() bool { return c.OpenAIKey.IsSet() || c.OpenAIURL.IsSet() }

// LocalModel reports whether the built-in model is available, which is only for this machine.
func (c Config) LocalModel() bool { return !c.Production() && c.Listen.loopback() }

// Prices returns the ids of the plans' prices, that of the sold one first.
func (c Config) Prices() map[plan.Plan][]string {
	return map[plan.Plan][]string{plan.Standard: c.StripeStandard, plan.Premium: c.StripePremium}
}

// Database names the kind of the database: "sqlite", "postgres" or "memory".
func (c Config) Database() string {
	return c.DatabaseURL.Scheme()
}

// Replicas returns the addresses of replicas, which must not be printed.
func (c Config) Replicas() []string {
	if !c.ReplicaURLs.IsSet() {
		return nil
	}
	return strings.Split(c.ReplicaURLs.Text(), ",")
}

// minSecret is the length from which on a value is redacted; shorter ones occur in any text.
const minSecret = 4

// Redactor returns a replacer of the configuration's secrets in texts.
func (c Config) Redactor() *strings.Replacer {
	var all []string
	for _, f := range fields() {
		if v, ok := reflect.ValueOf(c).FieldByIndex(f.Index).Interface().(interface{ secrets() []string }); ok {
			all = append(all, v.secrets()...)
		}
	}
	for _, s := range c.adapterSecrets {
		all = append(all, s.Value())
	}
	// The longest first, as one may be a prefix of another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range all {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			pairs = append(pairs, s, redacted)
		}
	}
	return strings.NewReplacer(pairs...)
}

// Logger returns a logger of the configured level and format that writes to w.
func (c Config) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
