// Package devidp is the identity provider of a development server: OpenID Connect with a
// sign-in page on which one selects or creates an account, an organisation and a role, and
// with the signed webhook events of a real provider. It asks for no password, so it serves
// loopback alone.
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
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"collab/adapters/atomicfile"
	"collab/adapters/devkit"
	"collab/adapters/loopback"
	"collab/domain/fault"
	"collab/ports"
)

// Prefix is the path under which the provider is mounted. The handler expects
// requests with their whole path.
const Prefix = "/dev/identity"

// ClientID is the client that is registered.
const ClientID = "collab"

// Options configure New. Log, AppURL, ClientSecret, Redirects, Emit and Invitation may be
// left out.
type Options struct {
	Development bool   // whether the server runs in development mode
	Listen      string // the address that the server listens on
	PublicURL   string // {base_url}
	AppURL      string // the application, to which sign-ins may lead too

	// Paths of the service: where sign-ins lead, and where identity tokens are exchanged.
	CallbackPath, ExchangePath string

	ClientSecret string   // empty: a public client
	Redirects    []string // further exact addresses to which sign-ins may lead

	KeyFile      string // PEM, made when it is missing
	AccountsFile string // JSON, made when it is missing; one process at a time owns it

	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger

	// Emit signs an event and delivers it to the service. A failed delivery is retried
	// at later sign-ins.
	Emit func(ctx context.Context, messageID string, body []byte) error

	// Invitation returns the pending invitation with this token, NotFound when
	// there is none.
	Invitation func(ctx context.Context, token string) (Invite, error)
}

// Invite is an invitation that the service has made.
type Invite struct {
	ProviderID string // the provider's id of it; empty: made here from the token
	Email      string
	OrgID      string // the provider's id of the organisation
	OrgName    string
	OrgSlug    string
	Role       string    // as the service or the provider calls it
	InviterID  string    // the provider's id of the inviter; empty: not known
	CreatedAt  time.Time // zero: not known
	ExpiresAt  time.Time // zero: not known
}

// Provider is the development identity provider.
type Provider struct {
	options  Options
	key      signingKey
	accounts *atomicfile.Document[state]
	csrfKey  []byte
	site     *devkit.Site

	at         location
	delivering sync.Mutex // held while events are delivered, to keep their order

	mu     sync.Mutex
	grants map[[sha256.Size]byte]grant // by the hash of the code
}

// location is where the provider can be reached.
type location struct {
	public string // without a trailing slash
	issuer string
}

// New returns a provider, having read or made its files. It fails outside
// development mode and when the listen address or the public URL is not
// loopback.
func New(o Options) (*Provider, error) {
	if !o.Development {
		return nil, errors.New("the development identity provider runs in development mode only")
	}
	if err := loopback.CheckListen(o.Listen); err != nil {
		return nil, fmt.Errorf("development identity provider: %w", err)
	}
	public, err := loopback.ParseBase(o.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("development identity provider: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{
		options: o,
		at:      location{public: public, issuer: public + Prefix},
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
		Files: files, Funcs: template.FuncMap{"title": title}, Log: o.Log, Admit: p.admit, Explain: explain,
	}, "pages.html", "avatar.svg")
	for path, methods := range map[string]map[string]devkit.Handler{
		"/.well-known/openid-configuration": {"GET": p.discovery},
		"/keys":                             {"GET": p.keys},
		"/authorize":                        {"GET": p.authorizePage, "POST": p.authorize},
		"/token":                            {"POST": p.token},
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
func (p *Provider) Issuer() string { return p.at.issuer }

// SignInURL returns the page that shows a token.
func (p *Provider) SignInURL() string { return p.Issuer() + "/sign-in" }

// InviteURL returns the page on which the invitation with this token is
// accepted.
func (p *Provider) InviteURL(token string) string {
	return p.SignInURL() + "?invite=" + url.QueryEscape(token)
}

// ServeHTTP answers everything under Prefix.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.site.ServeHTTP(w, r) }

// admit refuses requests by names that are not loopback: a foreign name that resolves to
// loopback would make this page part of its origin, with every account on it.
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
			SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(p.at.public, "https:"),
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

// postedForm returns the fields of a form that came from a page of ours.
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
