// Package devidp is the identity provider of a development server: OpenID Connect with a
// page to select or create an account, an organisation and a role, and with the signed
// webhook events of a real provider. It requires no password, so it serves loopback only.
package devidp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"collab/adapters/atomicfile"
	"collab/adapters/devkit"
	"collab/adapters/encode"
	"collab/adapters/loopback"
	"collab/adapters/style"
	"collab/domain/fault"
	"collab/ports"
)

// Prefix is the path under which the provider is mounted. The handler expects the whole path.
const Prefix = "/dev/identity"

// ClientID is the id of the registered client.
const ClientID = "collab"

// Options configure New. Log, AppURL, Redirects, Emit and Invitation are optional.
type Options struct {
	Development bool   // whether the server runs in development mode
	Listen      string // the address that the server listens on
	PublicURL   string // {base_url}
	AppURL      string // the application, an allowed redirect of sign-ins

	// Paths of the service: the redirects of sign-ins, and the exchange of identity tokens.
	CallbackPath, ExchangePath string

	Redirects []string // further redirect URIs, compared exactly
	SignedOut string   // the redirect URI of logout requests; empty: none

	KeyFile      string // PEM, created if missing
	AccountsFile string // JSON, created if missing; of one process at a time

	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger

	// Emit signs an event and delivers it to the service. A failed delivery is retried
	// at later sign-ins.
	Emit func(ctx context.Context, messageID string, body []byte) error

	// Invitation returns the pending invitation with a token, or NotFound.
	Invitation func(ctx context.Context, token string) (Invite, error)
}

// Invite is an invitation of the service.
type Invite struct {
	ProviderID string // the invitation's id; empty: derived from the token
	Email      string
	OrgID      string // the provider's id of the organisation
	OrgName    string
	OrgSlug    string
	Role       string // as the service or the provider calls it
	InviterID  string // the provider's id of the inviter; empty: unknown
}

// Provider is the development identity provider.
type Provider struct {
	options  Options
	key      signingKey
	accounts *atomicfile.Document[state]
	csrfKey  []byte
	site     *devkit.Site

	public     string     // the public URL without a trailing slash
	delivering sync.Mutex // held while events are delivered, to keep their order

	mu     sync.Mutex
	grants map[[sha256.Size]byte]grant // by the hash of the code
}

// New reads or creates the files and returns the provider. It fails outside development
// mode, or if the listen address or public URL is not loopback.
func New(o Options) (*Provider, error) {
	public, err := loopback.CheckServer("development identity provider", o.Development, o.Listen, o.PublicURL)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{
		options: o,
		public:  public,
		csrfKey: []byte(o.Secrets.Secret()),
		grants:  map[[sha256.Size]byte]grant{},
	}
	if p.key, err = openKey(o.KeyFile); err != nil {
		return nil, fmt.Errorf("identity key: %w", err)
	}
	if p.accounts, err = openAccounts(o.AccountsFile); err != nil {
		return nil, fmt.Errorf("identity accounts: %w", err)
	}
	p.site = devkit.New(devkit.Options{
		Prefix: Prefix, Name: "development identity provider", Footer: "asks for no password",
		Files: files, Style: style.Card + pageStyle, Funcs: template.FuncMap{"title": title}, Log: o.Log,
		Admit: p.admit, Explain: explain, AppendError: encode.AppendError,
	}, "pages.html", "avatar.svg")
	for path, methods := range map[string]map[string]devkit.Handler{
		"/.well-known/openid-configuration": {"GET": p.discovery},
		"/keys":                             {"GET": p.keys},
		"/authorize":                        {"GET": p.authorizePage, "POST": p.authorize},
		"/token":                            {"POST": p.token},
		endSessionPath:                      {"GET": p.endSession, "POST": p.endSession},
		"/sign-in":                          {"GET": p.signInPage, "POST": p.signIn},
		avatarPath + "{file}":               {"GET": p.avatar},
		"":                                  {"GET": p.home},
		"/{$}":                              {"GET": p.home},
	} {
		p.site.Handle(path, methods)
	}
	return p, nil
}

// Issuer returns the issuer URL.
func (p *Provider) Issuer() string { return p.public + Prefix }

// SignInURL returns the URL of the sign-in page that shows a token.
func (p *Provider) SignInURL() string { return p.Issuer() + "/sign-in" }

// InviteURL returns the URL of the page that accepts the invitation with the token.
func (p *Provider) InviteURL(token string) string {
	return p.SignInURL() + "?invite=" + url.QueryEscape(token)
}

// ServeHTTP handles requests under Prefix.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.site.ServeHTTP(w, r) }

// admit refuses requests by names that are not loopback: a foreign name that resolves to
// loopback would give its origin access to these pages and all accounts.
func (p *Provider) admit(r *http.Request) error {
	if !loopback.IsRequest(r) {
		return fault.New(fault.Forbidden, "The development identity provider answers on loopback names only")
	}
	return nil
}

func (p *Provider) home(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, Prefix+"/sign-in", http.StatusSeeOther)
	return nil
}

const csrfCookie = "collab_dev_identity"

// csrf returns the CSRF token of the browser's forms.
func (p *Provider) csrf(w http.ResponseWriter, r *http.Request) string {
	value := ""
	if c, err := r.Cookie(csrfCookie); err == nil {
		value = c.Value
	}
	if len(value) < 32 {
		value = p.options.Secrets.Secret()
		http.SetCookie(w, &http.Cookie{
			Name: csrfCookie, Value: value, Path: Prefix, HttpOnly: true,
			SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(p.public, "https:"),
		})
	}
	return p.csrfToken(value)
}

// csrfToken returns the token that belongs to a cookie. It is keyed, because other servers
// on localhost can set this one's cookies.
func (p *Provider) csrfToken(cookie string) string {
	mac := hmac.New(sha256.New, p.csrfKey)
	mac.Write([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// postedForm returns the fields of a form, whose CSRF token it checks.
func (p *Provider) postedForm(r *http.Request) (url.Values, error) {
	fields, err := p.site.PostedForm(r)
	if err != nil {
		return nil, err
	}
	c, err := r.Cookie(csrfCookie)
	if err != nil || !hmac.Equal([]byte(p.csrfToken(c.Value)), []byte(fields.Get("csrf"))) {
		return nil, fault.New(fault.Forbidden, "This form is out of date: please go back, reload the page and try again")
	}
	return fields, nil
}

var statuses = map[fault.Kind]int{
	fault.Invalid:     http.StatusBadRequest,
	fault.Forbidden:   http.StatusForbidden,
	fault.NotFound:    http.StatusNotFound,
	fault.Unavailable: http.StatusServiceUnavailable,
}

// explain returns a fault as an error of the site, nil for an internal one.
func explain(err error) *devkit.Error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || statuses[e.Kind] == 0 {
		return nil
	}
	return &devkit.Error{Status: statuses[e.Kind], Message: e.Message}
}
