// Package devpay is the payment provider of a development server: the part of Stripe's API
// that the service uses, with a checkout page, a portal page whose buttons make payments
// fail and periods end, and the webhook events of Stripe. Paying needs no authorization, so
// it serves loopback only. All prices are the same, and there are no prorations.
package devpay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"collab/adapters/atomicfile"
	"collab/adapters/devkit"
	"collab/adapters/encode"
	"collab/adapters/loopback"
	"collab/adapters/retryqueue"
	"collab/adapters/style"
	"collab/ports"
)

// Prefix is the path under which the provider is mounted. The handler expects the whole path.
const Prefix = "/dev/payments"

// apiVersion is the version of Stripe's API in which objects and events are.
const apiVersion = "2023-10-16"

// Options configure New. Log, AppURL and After are optional.
type Options struct {
	Development bool   // whether the server runs in development mode
	Listen      string // the address that the server listens on
	PublicURL   string // {base_url}
	AppURL      string // the application, to which the pages may redirect after a payment

	StateFile string            // JSON, created if missing; of one process at a time
	Prices    map[string]string // the names of the plans by the ids of their prices

	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger

	// Emit signs an event and delivers it to the service.
	Emit func(ctx context.Context, id string, body []byte) error

	// After waits between deliveries, as time.After does, which is the default.
	After func(time.Duration) <-chan time.Time
}

// Provider is the development payment provider.
type Provider struct {
	options Options
	public  string // the public URL without a trailing slash
	state   *atomicfile.Document[state]
	site    *devkit.Site

	ctx    context.Context // until Close
	cancel context.CancelFunc
	queue  *retryqueue.Queue[message]

	mu      sync.Mutex
	waiting map[string]chan struct{} // for the first attempts of events, by their ids; guarded by mu
}

// New reads or creates the file, resumes pending deliveries and returns the provider. It
// fails outside development mode, or if the listen address or public URL is not loopback.
func New(o Options) (*Provider, error) {
	public, err := loopback.CheckServer("development payment provider", o.Development, o.Listen, o.PublicURL)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{options: o, public: public, waiting: map[string]chan struct{}{}}
	if p.state, err = openState(o.StateFile, "sk_dev_"+o.Secrets.Secret()); err != nil {
		return nil, fmt.Errorf("payments: %w", err)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.site = p.routes(o.Log)
	p.startDeliveries()
	return p, nil
}

func (p *Provider) routes(log *slog.Logger) *devkit.Site {
	site := devkit.New(devkit.Options{
		Prefix: Prefix, Name: "development payment provider", Footer: "takes no money",
		Files: files, Style: style.Card, Funcs: template.FuncMap{"day": day, "price": price}, Log: log,
		Admit: p.admit, Explain: explain, AppendError: encode.AppendError,
	}, "pages.html")
	site.HandleFunc("POST", "/v1/customers", p.post(createCustomer))
	site.HandleFunc("POST", "/v1/checkout/sessions", p.post(createSession))
	site.HandleFunc("GET", "/v1/checkout/sessions/{id}", p.get(readSession))
	site.HandleFunc("POST", "/v1/checkout/sessions/{id}/expire", p.post(expireSession))
	site.HandleFunc("GET", "/v1/subscriptions/{id}", p.get(readSubscription))
	site.HandleFunc("POST", "/v1/subscriptions/{id}", p.post(updateSubscription))
	site.HandleFunc("DELETE", "/v1/subscriptions/{id}", p.post(cancelSubscription))
	site.HandleFunc("POST", "/v1/billing_portal/sessions", p.post(createPortalSession))
	site.HandleFunc("", "/v1/", p.unknown)
	site.Handle("/pay/{id}", map[string]devkit.Handler{"GET": p.showCheckout, "POST": p.checkout})
	site.Handle("/portal/{id}", map[string]devkit.Handler{"GET": p.showPortal, "POST": p.portal})
	return site
}

// APIURL returns the URL of the API, instead of https://api.stripe.com.
func (p *Provider) APIURL() string { return p.public + Prefix }

// Key returns the API's secret key, which is stored in the file.
func (p *Provider) Key() (key string) {
	p.state.Read(func(b *state) { key = b.Key })
	return key
}

// ServeHTTP handles requests under Prefix.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.site.ServeHTTP(w, r) }

// admit refuses requests by names that are not loopback: a foreign name that resolves to
// loopback would make these pages part of its origin.
func (p *Provider) admit(r *http.Request) error {
	if !loopback.IsRequest(r) {
		return &devkit.Error{Status: http.StatusForbidden, Message: "The development payment provider answers on loopback names only"}
	}
	p.renewDue()
	return nil
}

// apiError is an error of Stripe's API. An empty kind is an invalid request.
type apiError struct {
	status            int
	kind, code, param string
	message           string
}

func (e *apiError) Error() string { return e.message }

var errFull = &apiError{status: http.StatusBadRequest, message: "The development payment provider has no room for more"}

// notFound is the error for an unknown id in a path.
func notFound(what, id string) *apiError {
	return &apiError{status: http.StatusNotFound, code: "resource_missing", param: "id", message: fmt.Sprintf("No such %s: '%s'", what, id)}
}

// invalidParam is the error for a parameter.
func invalidParam(param, code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, param: param, message: fmt.Sprintf(format, args...)}
}

// explain returns an apiError as an error of the site, or nil for an internal one.
func explain(err error) *devkit.Error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return nil
	}
	return &devkit.Error{Status: e.status, Message: e.message}
}

// apiErrorOf returns err as an apiError. Internal errors go to the log.
func (p *Provider) apiErrorOf(r *http.Request, err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	e := p.site.Explain(r, err)
	refused := &apiError{status: e.Status, message: e.Message}
	if e.Status == http.StatusInternalServerError {
		refused.kind = "api_error"
	}
	return refused
}
