// Package devpay is the payment provider of a development server: the part of
// Stripe's interface that the service uses, with a page on which nobody pays for
// real, a portal page on which payments fail and periods pass at the press of a
// button, and with the events that Stripe sends. Anybody can pay, so it serves
// loopback alone.
//
// Money has no amounts here: every price is the same, and prorations are not
// reckoned.
package devpay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"collab/adapters/atomicfile"
	"collab/adapters/loopback"
	"collab/ports"
)

// Prefix is the path under which the provider is mounted. The handler expects
// requests with their whole path.
const Prefix = "/dev/payments"

// APIVersion is the version of Stripe's interface whose shapes objects and
// events have.
const APIVersion = "2023-10-16"

const maxForm = 64 << 10 // bytes

// Options are what a Provider needs. Log, AppURL, Emit and After may be left
// out.
type Options struct {
	Development bool   // whether the server runs in development mode
	Listen      string // the address that the server listens on
	PublicURL   string // {base_url}
	AppURL      string // the application, to which the pages after a payment may lead

	StateFile string            // JSON, made when it is missing; one process at a time owns it
	Prices    map[string]string // the names of the plans by the ids of their prices

	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger

	// Emit signs an event and delivers it to the service.
	Emit func(ctx context.Context, id string, body []byte) error

	// After is how the time between two attempts of a delivery passes; time.After
	// when it is nil.
	After func(time.Duration) <-chan time.Time
}

// Provider is the development payment provider.
type Provider struct {
	options Options
	public  string // the public URL without a trailing slash
	book    *atomicfile.Document[book]
	mux     *http.ServeMux
	origins *http.CrossOriginProtection

	alive  context.Context // until Close
	finish context.CancelFunc
	lines  sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]*line // of deliveries, by subscription
	closed  bool
}

// New returns a provider, having read or made its file, and goes on with the
// deliveries that are left. It fails outside development mode and when the
// listen address or the public URL is not loopback.
func New(o Options) (*Provider, error) {
	if !o.Development {
		return nil, errors.New("the development payment provider runs in development mode only")
	}
	if err := loopback.CheckListen(o.Listen); err != nil {
		return nil, fmt.Errorf("development payment provider: %w", err)
	}
	public, err := loopback.ParseBase(o.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("development payment provider: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.After == nil {
		o.After = time.After
	}
	p := &Provider{options: o, public: public, origins: http.NewCrossOriginProtection(), waiting: map[string]*line{}}
	if p.book, err = openBook(o.StateFile, "sk_dev_"+o.Secrets.Secret()); err != nil {
		return nil, fmt.Errorf("payments: %w", err)
	}
	p.alive, p.finish = context.WithCancel(context.Background())
	p.mux = p.routes()
	p.resume()
	return p, nil
}

func (p *Provider) routes() *http.ServeMux {
	mux := http.NewServeMux()
	at := func(method, path string, h http.HandlerFunc) { mux.HandleFunc(method+" "+Prefix+path, h) }
	at("POST", "/v1/customers", p.post(createCustomer))
	at("POST", "/v1/checkout/sessions", p.post(createSession))
	at("GET", "/v1/checkout/sessions/{id}", p.get(readSession))
	at("POST", "/v1/checkout/sessions/{id}/expire", p.post(expireSession))
	at("GET", "/v1/subscriptions/{id}", p.get(readSubscription))
	at("POST", "/v1/subscriptions/{id}", p.post(updateSubscription))
	at("DELETE", "/v1/subscriptions/{id}", p.post(cancelSubscription))
	at("POST", "/v1/billing_portal/sessions", p.post(createVisit))
	mux.HandleFunc(Prefix+"/v1/", p.unknown)

	at("GET", "/pay/{id}", p.page(p.showCheckout))
	at("POST", "/pay/{id}", p.page(p.checkout))
	at("GET", "/portal/{id}", p.page(p.showPortal))
	at("POST", "/portal/{id}", p.page(p.portal))
	at("GET", "/style.css", file("style.css"))
	at("GET", "/icon.svg", file("icon.svg"))
	for _, path := range []string{"/pay/{id}", "/portal/{id}"} {
		mux.HandleFunc(Prefix+path, p.page(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Allow", "GET, HEAD, POST")
			return errMethod
		}))
	}
	mux.HandleFunc(Prefix+"/", p.page(func(http.ResponseWriter, *http.Request) error { return errNothing }))
	return mux
}

// APIURL returns the address of the interface, in whose place Stripe's would be
// https://api.stripe.com.
func (p *Provider) APIURL() string { return p.public + Prefix }

// Key returns the interface's secret key. It outlives restarts.
func (p *Provider) Key() (key string) {
	p.book.Read(func(b *book) { key = b.Key })
	return key
}

// ServeHTTP answers everything under Prefix.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // "no-referrer" would take the Origin from our own forms
	h.Set("Content-Security-Policy", policy())
	h.Set("Cache-Control", "no-store")
	// A name of somebody else's that resolves to loopback would make these pages
	// part of their origin.
	if !loopback.IsRequest(r) {
		p.fail(w, r, &refusal{status: http.StatusForbidden, message: "The development payment provider answers on loopback names only"})
		return
	}
	p.settle()
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	p.mux.ServeHTTP(w, r)
}

// refusal is an error that is said to whoever asked, in Stripe's words. The kind
// is an invalid request where it is empty.
type refusal struct {
	status            int
	kind, code, param string
	message           string
}

func (e *refusal) Error() string { return e.message }

var (
	errNothing = &refusal{status: http.StatusNotFound, message: "There is nothing at this address"}
	errMethod  = &refusal{status: http.StatusMethodNotAllowed, message: "Only GET, HEAD, POST is possible here"}
	errFull    = &refusal{status: http.StatusBadRequest, message: "The development payment provider has no room for more"}
)

// missing is the refusal of an id in a request's path.
func missing(what, id string) *refusal {
	return &refusal{status: http.StatusNotFound, code: "resource_missing", param: "id", message: fmt.Sprintf("No such %s: '%s'", what, id)}
}

// wrong is the refusal of a parameter.
func wrong(param, code, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// form returns the fields of a body, whatever the method.
func form(r *http.Request) (url.Values, error) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if kind = strings.ToLower(strings.TrimSpace(kind)); kind != "application/x-www-form-urlencoded" && r.ContentLength != 0 {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, message: "The body must be a form"}
	}
	body, err := io.ReadAll(r.Body)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, message: "The form is too large"}
	}
	fields, unreadable := url.ParseQuery(string(body))
	if err != nil || unreadable != nil {
		return nil, &refusal{status: http.StatusBadRequest, message: "The form cannot be read"}
	}
	return fields, nil
}

// refused returns the refusal that err is; whatever else it is goes to the log.
func (p *Provider) refused(r *http.Request, err error) *refusal {
	if e := (*refusal)(nil); errors.As(err, &e) {
		return e
	}
	p.options.Log.ErrorContext(r.Context(), "development payment provider", "path", r.URL.Path, "error", err)
	return &refusal{status: http.StatusInternalServerError, kind: "api_error", message: "Something went wrong"}
}

// fail answers an error of a page: in the service's shape, and as a page to
// whoever asks for HTML.
func (p *Provider) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := p.refused(r, err)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		p.show(w, e.status, "problem", problemView{Title: http.StatusText(e.status), Message: e.message})
		return
	}
	p.reply(w, e.status, struct {
		StatusCode int    `json:"statusCode"`
		Message    string `json:"message"`
		Error      string `json:"error"`
	}{e.status, e.message, http.StatusText(e.status)})
}

func (p *Provider) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		p.options.Log.Debug("development payment provider: answer not sent", "error", err)
	}
}
