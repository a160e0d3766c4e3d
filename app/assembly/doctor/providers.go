package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"collab/adapters/anthropic"
	"collab/adapters/eventstream"
	"collab/adapters/httpapi"
	"collab/adapters/mail"
	"collab/adapters/oidc"
	"collab/adapters/openai"
	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/adapters/system"
	"collab/app/assembly/config"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/plan"
)

// urlOr returns an address, or the provider's own where none is configured.
func urlOr(configured config.URL, own string) config.URL {
	if configured.IsSet() {
		return configured
	}
	return config.NewURL(own)
}

// identity reads the issuer's discovery document and keys.
func (d *doctor) identity(ctx context.Context, l *lines) {
	issuer := d.c.IdentityIssuer
	if !issuer.IsSet() {
		l.note("set COLLAB_IDENTITY_ISSUER for people to sign in for real", "the built-in development provider")
		return
	}
	p, err := oidc.New(oidc.Options{Issuer: issuer.Text(), Clock: system.Clock{}, Transport: d.client("the identity provider").Transport})
	if err != nil {
		l.wrong("set COLLAB_IDENTITY_ISSUER", "%s", err)
		return
	}
	if issuer.Plaintext() {
		l.inProduction("set COLLAB_IDENTITY_ISSUER to an https:// address", "%s is not https: whoever is on the way can sign in as anybody", issuer)
	}
	found, err := p.Inspect(ctx)
	switch {
	case fault.Is(err, fault.Mismatch):
		l.wrong("set COLLAB_IDENTITY_ISSUER to what the document says, byte for byte (a slash at the end counts)", "%s: %s", issuer, err)
		return
	case err != nil:
		l.wrong("open "+strings.TrimRight(issuer.String(), "/")+"/.well-known/openid-configuration in a browser, let this machine reach it, or set COLLAB_IDENTITY_ISSUER", "%s: %s", issuer, err)
		return
	}
	l.ok("%s answers; of its keys %d can sign tokens for us (%s)", issuer, found.Keys, strings.Join(found.Algorithms, ", "))
	l.warn()
	if !d.c.IdentitySignInURL.IsSet() {
		if !found.Code && d.c.IdentityClientID != "" {
			l.wrong("set COLLAB_IDENTITY_SIGN_IN_URL instead of COLLAB_IDENTITY_CLIENT_ID", "%s has no sign-in by code", issuer)
		}
		return
	}
	if d.c.IdentitySignInURL.Plaintext() {
		l.inProduction("set COLLAB_IDENTITY_SIGN_IN_URL to an https:// address", "%s is not https", d.c.IdentitySignInURL.String())
	}
	status, err := get(ctx, d.client("the sign-in page"), d.c.IdentitySignInURL.Text())
	switch {
	case err != nil:
		l.wrong("set COLLAB_IDENTITY_SIGN_IN_URL", "%s does not answer: %s", d.c.IdentitySignInURL.String(), err)
	case status == 404 || status >= 500:
		l.wrong("set COLLAB_IDENTITY_SIGN_IN_URL", "%s answers %d", d.c.IdentitySignInURL.String(), status)
	}
}

func (d *doctor) identityWebhooks(_ context.Context, l *lines) {
	d.webhooks(l, d.c.IdentityWebhooks, "the identity provider", "COLLAB_IDENTITY_WEBHOOK_SECRETS", func(secret string) error {
		_, err := standardwebhooks.New([]string{secret}, system.Clock{})
		return errors.Unwrap(err) // without the variable and the number
	})
}

func (d *doctor) paymentWebhooks(_ context.Context, l *lines) {
	d.webhooks(l, d.c.StripeWebhooks, "the payment provider", "COLLAB_STRIPE_WEBHOOK_SECRETS", func(secret string) error {
		switch {
		case !strings.HasPrefix(secret, "whsec_"):
			return errors.New("must begin with whsec_")
		case len(secret) < len("whsec_")+8 || strings.ContainsFunc(secret, unicode.IsSpace):
			return errors.New("is not a whole one")
		}
		return nil
	})
	for _, s := range d.c.StripeWebhooks.Values() {
		if slices.Contains(d.c.IdentityWebhooks.Values(), s) {
			l.wrong("copy each from the endpoint that it belongs to", "one of them is a secret of the identity provider's messages as well")
		}
	}
}

// payments asks for both prices, which tells of the key as well.
func (d *doctor) payments(ctx context.Context, l *lines) {
	if !d.c.StripeKey.IsSet() {
		l.note("set COLLAB_STRIPE_SECRET_KEY to be paid for real", "the built-in development provider")
		return
	}
	key := strings.TrimSpace(d.c.StripeKey.Value())
	test := strings.HasPrefix(key, "sk_test_") || strings.HasPrefix(key, "rk_test_")
	switch live := strings.HasPrefix(key, "sk_live_") || strings.HasPrefix(key, "rk_live_"); {
	case strings.HasPrefix(key, "pk_"):
		l.wrong("copy the secret key, sk_… or rk_…, to COLLAB_STRIPE_SECRET_KEY", "the key is the publishable one")
		return
	case test && d.c.Production():
		l.wrong("set COLLAB_STRIPE_SECRET_KEY to a live key, and the prices and webhook secrets that belong to it", "the key is one for tests: nobody pays in production")
	case live && !d.c.Production():
		l.note("use a test key in development", "the key is a live one: what is bought in development is paid for")
	}
	if d.c.StripeURL.Plaintext() {
		l.inProduction("set COLLAB_STRIPE_API_URL to an https:// address", "%s is not https: the key can be read on its way", d.c.StripeURL.String())
	}
	p, err := stripepay.New(stripepay.Options{
		SecretKey: d.c.StripeKey.Value(), URL: d.c.StripeURL.Text(), Prices: d.c.Prices(),
		SuccessURL: "http://localhost/", CancelURL: "http://localhost/", Client: d.client("the payment provider"),
	})
	if err != nil {
		l.wrong("look at the variable", "%s", err)
		return
	}
	currency := ""
	for _, of := range []struct {
		plan     plan.Plan
		variable string
		id       string
	}{{plan.Standard, "COLLAB_STRIPE_PRICE_STANDARD", d.c.StripeStandard}, {plan.Premium, "COLLAB_STRIPE_PRICE_PREMIUM", d.c.StripePremium}} {
		found, err := p.Price(ctx, of.plan)
		remedy := "set " + of.variable + " to a price that is active, recurring and by quantity, in the mode of the key"
		switch {
		case fault.Is(err, fault.Unauthenticated):
			l.wrong("set COLLAB_STRIPE_SECRET_KEY", "%s", err)
			return
		case fault.Is(err, fault.Forbidden):
			l.wrong("give the restricted key the right to read prices, and to write customers, checkout sessions, subscriptions and portal sessions", "%s", err)
			return
		case fault.Is(err, fault.NotFound):
			l.wrong(remedy, "%s: there is no price %s", of.plan, of.id)
			continue
		case err != nil:
			l.wrong("let this machine reach it, or try again later", "%s", err)
			return
		case !found.Active:
			l.wrong(remedy, "%s: the price %s is not active", of.plan, of.id)
		case !found.Recurring:
			l.wrong(remedy, "%s: the price %s is paid once, not again and again", of.plan, of.id)
		case !found.Licensed:
			l.wrong(remedy, "%s: the price %s goes by what was used", of.plan, of.id)
		case currency != "" && found.Currency != currency:
			l.wrong("set both prices to ones of the same currency: subscriptions go over from one to the other", "%s: the price %s is in %s, the other in %s", of.plan, of.id, found.Currency, currency)
		case test && found.Live:
			l.wrong(remedy, "%s: the price %s is a live one, the key one for tests", of.plan, of.id)
		default:
			mode := "for tests"
			if found.Live {
				mode = "live"
			}
			l.ok("%s: %s, in %s, each %s (%s)", of.plan, of.id, found.Currency, found.Interval, mode)
		}
		currency = found.Currency
	}
}

func (d *doctor) models(_ context.Context, l *lines) {
	r, err := d.c.Models()
	if err != nil {
		l.wrong("mend the file, or name one of its models whose provider is configured", "%s", err)
		return
	}
	l.ok("%d in the registry; chats that name none have %s", len(r), r[0].ID)
	if d.c.LocalModel() && !d.c.Anthropic() && !d.c.OpenAI() {
		l.note("set COLLAB_ANTHROPIC_API_KEY or COLLAB_OPENAI_API_KEY for answers that are worth reading", "the built-in model alone")
	}
}

func (d *doctor) anthropic(ctx context.Context, l *lines) {
	if !d.c.Anthropic() {
		l.note("", "not configured")
		return
	}
	m, err := anthropic.New(anthropic.Options{APIKey: d.c.AnthropicKey.Value(), URL: d.c.AnthropicURL.Text(), Client: d.client("Anthropic")})
	if err != nil {
		l.wrong("look at the variable", "%s", err)
		return
	}
	d.provider(ctx, l, config.ProviderAnthropic, "COLLAB_ANTHROPIC_API_KEY", "COLLAB_ANTHROPIC_URL", urlOr(d.c.AnthropicURL, "https://api.anthropic.com"), m.Unknown)
}

func (d *doctor) openai(ctx context.Context, l *lines) {
	if !d.c.OpenAI() {
		l.note("", "not configured")
		return
	}
	m, err := openai.New(openai.Options{APIKey: d.c.OpenAIKey.Value(), URL: d.c.OpenAIURL.Text(), Client: d.client("OpenAI")})
	if err != nil {
		l.wrong("look at the variable", "%s", err)
		return
	}
	d.provider(ctx, l, config.ProviderOpenAI, "COLLAB_OPENAI_API_KEY", "COLLAB_OPENAI_URL", urlOr(d.c.OpenAIURL, "https://api.openai.com/v1"), m.Unknown)
}

// provider asks one for the registry's models that are its.
func (d *doctor) provider(ctx context.Context, l *lines, name, key, address string, at config.URL, unknown func(context.Context, []string) ([]string, error)) {
	if at.Plaintext() {
		l.note("set "+address+" to an https:// address where the network is not yours alone", "%s is not https: conversations can be read on their way", at)
	}
	var ids []string
	r, err := d.c.Models()
	for _, m := range r {
		if m.Provider == name {
			ids = append(ids, m.ID)
		}
	}
	if err == nil && len(ids) == 0 {
		l.note("add some to COLLAB_MODELS_FILE", "the registry has none of its models")
	}
	strange, err := unknown(ctx, ids)
	status := 0
	var refused *eventstream.StatusError
	if errors.As(err, &refused) {
		status = refused.Status
	}
	switch {
	case status == http.StatusUnauthorized:
		l.wrong("set "+key, "%s: the provider does not know the key", at)
	case status == http.StatusForbidden:
		l.wrong("set "+key, "%s: the key may not ask for models", at)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		l.note("", "%s answers, and does not list its models: whether it takes the key and knows them is not known", at)
	case status != 0:
		l.wrong("let this machine reach it, or set "+address, "%s cannot answer: %s", at, refused)
	case err != nil:
		l.wrong("let this machine reach it, or set "+address, "%s does not answer: %s", at, eventstream.Reason(err))
	case len(strange) > 0:
		l.wrong("set COLLAB_MODELS_FILE to a registry without them, or use a key that may have them", "%s takes the key, and does not know %s", at, strings.Join(strange, ", "))
	default:
		l.ok("%s takes the key and knows %s", at, strings.Join(ids, ", "))
	}
}

func (d *doctor) connectors(_ context.Context, l *lines) {
	known, err := d.c.Catalog()
	switch {
	case err != nil:
		l.wrong("mend the file, or set COLLAB_CONNECTORS_FILE to another", "%s", err)
	case d.c.ConnectorsFile == "":
		l.ok("the built-in catalog")
	default:
		if info, err := os.Stat(d.c.ConnectorsFile); err == nil && info.Mode()&fs.FileMode(0o007) != 0 {
			l.note("chmod 640 "+d.c.ConnectorsFile+" where it has secrets of clients", "%s can be read by everybody on this machine", d.c.ConnectorsFile)
		}
		l.ok("%s", d.c.ConnectorsFile)
	}
	for _, issuer := range known.Issuers() {
		l.ok("%s, registered with our client of %s, is where that sends people back to", connector.Redirect(d.c.PublicURL.Text()+httpapi.CallbackPath, issuer), config.NewURL(issuer))
	}
}

// mail signs in at the mail server and sends nothing.
func (d *doctor) mail(ctx context.Context, l *lines) {
	if !d.c.SMTPURL.IsSet() {
		remedy := ""
		if d.c.Production() {
			remedy = "set COLLAB_SMTP_URL for people to get their invitations"
		}
		l.note(remedy, "e-mail is written to mail.log in %s", d.c.DataDir)
		return
	}
	host := d.c.SMTPURL.Host()
	encrypted, err := mail.Probe(ctx, mail.Options{URL: d.c.SMTPURL.Text(), From: d.c.MailFrom})
	switch {
	case fault.Is(err, fault.Invalid):
		l.wrong("mend it", "%s", err)
	case fault.Is(err, fault.Unauthenticated):
		l.wrong("set the right user and password in COLLAB_SMTP_URL", "%s: %s", host, err)
	case err != nil:
		l.wrong("let this machine reach it, or set COLLAB_SMTP_URL (smtps:// for TLS from the start, usually at port 465)", "%s: %s", host, err)
	case !encrypted && !d.c.SMTPURL.Loopback():
		l.inProduction("add ?tls=required to COLLAB_SMTP_URL, or use smtps://", "%s takes e-mail without encryption: links of invitations can be read on their way", host)
	default:
		l.ok("%s takes e-mail of %s", host, d.c.MailFrom)
	}
}

func (d *doctor) operator(_ context.Context, l *lines) {
	if !d.c.AdminSecret.IsSet() {
		l.note("", "operator endpoints answer 404, as COLLAB_ADMIN_SECRET is not set")
		return
	}
	l.ok("operator endpoints are open to who has the secret")
	l.warn()
}

// traces sends none to the collector, in the way in which others are sent.
func (d *doctor) traces(ctx context.Context, l *lines) {
	if !d.c.OTLPEndpoint.IsSet() {
		l.note("", "not sent, as OTEL_EXPORTER_OTLP_ENDPOINT is not set")
		return
	}
	otel.SetLogger(logr.Discard()) // it repeats what it cannot read of its variables: keys are among it
	to := otlptracehttp.NewClient(otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	err := to.Start(ctx)
	if err == nil {
		err = errors.Join(to.UploadTraces(ctx, nil), to.Stop(ctx))
	}
	if err != nil {
		l.wrong("start the collector, let this machine reach it, or set OTEL_EXPORTER_OTLP_ENDPOINT; the server works without it", "%s: %s", d.c.OTLPEndpoint.String(), err)
		return
	}
	l.ok("%s takes traces", d.c.OTLPEndpoint.String())
}

func (d *doctor) analytics(ctx context.Context, l *lines) {
	if !d.c.PostHogKey.IsSet() {
		l.note("", "PostHog receives nothing, as COLLAB_POSTHOG_KEY is not set")
		return
	}
	at := urlOr(d.c.PostHogURL, "https://us.i.posthog.com")
	status, err := get(ctx, d.client("PostHog"), at.Text())
	switch {
	case err != nil:
		l.wrong("let this machine reach it, or set COLLAB_POSTHOG_URL; the server works without it", "%s: %s", at, err)
	case status >= 500:
		l.wrong("set COLLAB_POSTHOG_URL, or try again later; the server works without it", "%s answers %d", at, status)
	default:
		l.ok("%s answers; whether it knows the key shows with the first call of a model", at)
	}
}
