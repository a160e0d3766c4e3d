// Package devidp is the identity provider of a development server: OpenID
// Connect with a sign-in page on which one picks or makes an account, an
// organisation and a role, and with the signed events that a real provider
// sends. It asks for no password, so it serves loopback alone.
package devidp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"collab/adapters/atomicfile"
	"collab/adapters/loopback"
	"collab/domain/fault"
	"collab/ports"
)

// Prefix is the path under which the provider is mounted. The handler expects
// requests with their whole path.
const Prefix = "/dev/identity"

// ClientID is the client that is registered unless Options name another.
const ClientID = "collab"

const (
	callbackPath = "/api/v1/auth/cli-callback"
	exchangePath = "/api/v1/auth/exchange-token"
	maxForm      = 64 << 10 // bytes
)

// Options are what a Provider needs. Log, AppURL, ClientID, ClientSecret,
// Redirects, Emit and Invitation may be left out.
type Options struct {
	Development bool   // whether the server runs in development mode
	Listen      string // the address that the server listens on
	PublicURL   string // {base_url}; empty when it is not known yet, see Locate
	AppURL      string // the application, to which sign-ins may lead too

	ClientID     string   // ClientID when empty
	ClientSecret string   // empty: a public client
	Redirects    []string // further exact addresses to which sign-ins may lead

	KeyFile      string // PEM, made when it is missing
	AccountsFile string // JSON, made when it is missing; one process at a time owns it

	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger

	// Emit signs an event and delivers it to the service. An event whose
	// delivery fails is tried again at later sign-ins.
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
	accounts *atomicfile.Document[book]
	csrfKey  []byte
	routes   map[string]map[string]handler
	origins  *http.CrossOriginProtection

	location   atomic.Pointer[location]
	delivering sync.Mutex // held while events go out, so that nobody overtakes them

	mu     sync.Mutex
	grants map[[sha256.Size]byte]grant // by the hash of the code
}

// location is where the provider can be reached.
type location struct {
	public string // without a trailing slash
	issuer string
}

type handler func(w http.ResponseWriter, r *http.Request, at location) error

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
	if o.ClientID == "" {
		o.ClientID = ClientID
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{
		options: o,
		csrfKey: []byte(o.Secrets.Secret()),
		origins: http.NewCrossOriginProtection(),
		grants:  map[[sha256.Size]byte]grant{},
	}
	if o.PublicURL != "" {
		if err := p.Locate(o.PublicURL); err != nil {
			return nil, err
		}
	}
	var err error
	if p.key, err = openKey(o.KeyFile); err != nil {
		return nil, fmt.Errorf("identity key: %w", err)
	}
	if p.accounts, err = openAccounts(o.AccountsFile); err != nil {
		return nil, fmt.Errorf("identity accounts: %w", err)
	}
	p.routes = map[string]map[string]handler{
		"/.well-known/openid-configuration": {"GET": p.discovery},
		"/keys":                             {"GET": p.keys},
		"/authorize":                        {"GET": p.authorizePage, "POST": p.authorize},
		"/token":                            {"POST": p.token},
		"/sign-in":                          {"GET": p.signInPage, "POST": p.signIn},
		"/style.css":                        {"GET": file("style.css")},
		"/icon.svg":                         {"GET": file("icon.svg")},
		"":                                  {"GET": p.home},
		"/":                                 {"GET": p.home},
	}
	return p, nil
}

// Locate tells the provider the server's public URL, for servers that learn
// it when they start to listen. It fails when the URL is not loopback.
func (p *Provider) Locate(publicURL string) error {
	public, err := loopback.ParseBase(publicURL)
	if err != nil {
		return fmt.Errorf("development identity provider: %w", err)
	}
	p.location.Store(&location{public: public, issuer: public + Prefix})
	return nil
}

// Issuer returns the issuer URL, empty before the public URL is known.
func (p *Provider) Issuer() string {
	if at := p.location.Load(); at != nil {
		return at.issuer
	}
	return ""
}

// SignInURL returns the page for whoever wants a token by hand.
func (p *Provider) SignInURL() string { return p.Issuer() + "/sign-in" }

// InviteURL returns the page on which the invitation with this token is
// accepted.
func (p *Provider) InviteURL(token string) string {
	return p.SignInURL() + "?invite=" + url.QueryEscape(token)
}

// ServeHTTP answers everything under Prefix.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" would take the Origin from our own forms
	h.Set("Content-Security-Policy", policy())
	h.Set("Cache-Control", "no-store")
	if err := p.route(w, r); err != nil {
		p.fail(w, r, err)
	}
}

func (p *Provider) route(w http.ResponseWriter, r *http.Request) error {
	at := p.location.Load()
	if at == nil {
		return fault.New(fault.Unavailable, "The server is starting")
	}
	// A name of somebody else's that resolves to loopback would make this page
	// part of their origin, with every account on it.
	if !loopback.IsRequest(r) {
		return fault.New(fault.Forbidden, "The development identity provider answers on loopback names only")
	}
	path, under := strings.CutPrefix(r.URL.Path, Prefix)
	if !under {
		return fault.New(fault.NotFound, "There is nothing at this address")
	}
	methods, known := p.routes[path]
	if strings.HasPrefix(path, avatarPath) {
		methods, known = map[string]handler{"GET": p.avatar}, true
	}
	if !known {
		return fault.New(fault.NotFound, "There is nothing at this address")
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	serve, allowed := methods[method]
	if !allowed {
		return &wrongMethod{allow: allow(methods)}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return serve(w, r, *at)
}

func (p *Provider) home(w http.ResponseWriter, r *http.Request, _ location) error {
	http.Redirect(w, r, Prefix+"/sign-in", http.StatusSeeOther)
	return nil
}

// form returns the fields of a body in either of the forms' encodings.
func form(r *http.Request) (url.Values, error) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	var err error
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/x-www-form-urlencoded":
		err = r.ParseForm()
	case "multipart/form-data":
		err = r.ParseMultipartForm(maxForm)
	default:
		return nil, fault.New(fault.Unsupported, "The body must be a form")
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fault.New(fault.TooLarge, "The form is too large")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The form cannot be read")
	}
	return r.PostForm, nil
}

const csrfCookie = "collab_dev_identity"

// csrf returns the token that a form of this browser must carry.
func (p *Provider) csrf(w http.ResponseWriter, r *http.Request, at location) string {
	value := ""
	if c, err := r.Cookie(csrfCookie); err == nil {
		value = c.Value
	}
	if len(value) < 32 {
		value = p.options.Secrets.Secret()
		http.SetCookie(w, &http.Cookie{
			Name: csrfCookie, Value: value, Path: Prefix, HttpOnly: true,
			SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(at.public, "https:"),
		})
	}
	return p.csrfToken(value)
}

// csrfToken binds a form to a cookie with a key, because any other server on
// localhost can set this one's cookies.
func (p *Provider) csrfToken(cookie string) string {
	mac := hmac.New(sha256.New, p.csrfKey)
	mac.Write([]byte(cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// postedForm returns the fields of a form that came from a page of ours.
func (p *Provider) postedForm(r *http.Request) (url.Values, error) {
	if err := p.origins.Check(r); err != nil {
		return nil, fault.Wrap(fault.Forbidden, err, "This form was sent from another site")
	}
	fields, err := form(r)
	if err != nil {
		return nil, err
	}
	c, err := r.Cookie(csrfCookie)
	if err != nil || !hmac.Equal([]byte(p.csrfToken(c.Value)), []byte(fields.Get("csrf"))) {
		return nil, fault.New(fault.Forbidden, "This form is out of date: please go back, reload the page and try again")
	}
	return fields, nil
}

// wrongMethod is the error for a path that does not know the method.
type wrongMethod struct{ allow string }

func (e *wrongMethod) Error() string { return "Only " + e.allow + " is possible here" }

func allow(methods map[string]handler) string {
	var names []string
	for name := range methods {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

var statuses = map[fault.Kind]int{
	fault.Internal:    http.StatusInternalServerError,
	fault.Invalid:     http.StatusBadRequest,
	fault.Forbidden:   http.StatusForbidden,
	fault.NotFound:    http.StatusNotFound,
	fault.TooLarge:    http.StatusRequestEntityTooLarge,
	fault.Unsupported: http.StatusUnsupportedMediaType,
	fault.Unavailable: http.StatusServiceUnavailable,
}

// fail answers an error in the service's shape, as a page to whoever asks for
// HTML.
func (p *Provider) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, known := statuses[fault.KindOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	message := "Something went wrong"
	if e := (*fault.Error)(nil); errors.As(err, &e) && status != http.StatusInternalServerError {
		message = e.Message
	}
	if e := (*wrongMethod)(nil); errors.As(err, &e) {
		status, message = http.StatusMethodNotAllowed, e.Error()
		w.Header().Set("Allow", e.allow)
	}
	if status == http.StatusInternalServerError {
		p.options.Log.ErrorContext(r.Context(), "development identity provider", "path", r.URL.Path, "error", err)
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		p.show(w, status, "problem", problemView{Title: http.StatusText(status), Message: message})
		return
	}
	p.reply(w, status, struct {
		StatusCode int    `json:"statusCode"`
		Message    string `json:"message"`
		Error      string `json:"error"`
	}{status, message, http.StatusText(status)})
}

func (p *Provider) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.options.Log.Debug("development identity provider: answer not sent", "error", err)
	}
}
