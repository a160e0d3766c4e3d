// Package httpapi serves the use cases over HTTP. Routes, guards, decoding, responses and
// errors each have one place.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/cors"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/app/archives"
	"collab/app/billing"
	"collab/app/changes"
	"collab/app/chats"
	"collab/app/connectors"
	"collab/app/idempotency"
	"collab/app/members"
	"collab/app/metering"
	"collab/app/objects"
	"collab/app/onboarding"
	"collab/app/operator"
	"collab/app/ratelimit"
	"collab/app/releases"
	"collab/app/tasks"
	"collab/app/teams"
	"collab/app/webhooks"
	"collab/app/workspaces"
	"collab/domain/org"
)

// Options are the dependencies and settings of the interface. Each is required unless its
// comment says otherwise.
type Options struct {
	Access      *access.Access
	Onboarding  *onboarding.Onboarding
	Members     *members.Members
	Teams       *teams.Teams
	Workspaces  *workspaces.Workspaces
	Tasks       *tasks.Tasks
	Webhooks    *webhooks.Webhooks
	Operator    *operator.Operator
	Idempotency *idempotency.Idempotency
	Objects     *objects.Objects
	Feed        *changes.Feed
	Chats       *chats.Chats
	Metering    *metering.Metering
	Archives    *archives.Archives
	Billing     *billing.Billing
	Connectors  *connectors.Connectors
	Releases    *releases.Releases

	Log    *slog.Logger
	Meter  metric.Meter
	Tracer trace.Tracer // nil: no traces

	PublicURL   string   // the address that clients use, without a trailing slash
	AppURL      string   // the application, which pages link to; empty: no link
	Release     string   // the running version, which pages and probes show
	Schema      int64    // the version of the database schema that the server needs
	Compatible  string   // the oldest version whose servers run on that schema
	AdminSecret string   // empty: there are no operator endpoints
	Origins     []string // of browser clients; empty: none
	Rates       limit.Rates
	Budgets     limit.Budgets
	Concurrency limit.Concurrency  // the zero value: organisations have no shares
	PlanLimiter *ratelimit.Limiter // of requests by plan; nil: no limits
	Connections *limit.Budget      // of the connections that requests come over
	Proxies     []netip.Prefix     // whose X-Forwarded-For is trusted, IPv4 addresses unmapped; empty: none
	Heartbeat   time.Duration      // between the comments that keep streams open; 0: 30 seconds

	Document []byte // the OpenAPI document as JSON
	JWKS     []byte // the public keys of service tokens

	// Position is that of ports.Store. Nil: the store has no replicas.
	Position func(ctx context.Context, known string) (string, error)

	Ready   func(context.Context) error     // whether requests can be served
	Doctor  func(context.Context) []Finding // checks the configuration, within 15 seconds; never none
	Metrics http.Handler                    // nil: there is no /metrics
	Mounts  map[string]http.Handler         // more handlers by path prefix, such as /dev/identity; may be nil
	Console Console                         // nil: there is none

	NewID func() string    // returns a new request id
	Now   func() time.Time // nil: the wall clock

	// Repeat calls fn at intervals while the server runs. If it is nil, samples are recorded only by requests for them.
	Repeat func(every time.Duration, fn func())
}

// api serves the interface.
type api struct {
	Options

	actorOf func(context.Context, access.Caller) (org.Actor, error) // Access.Authorize

	callers     *limit.RateLimiter // nil: no limit
	addresses   *limit.RateLimiter // nil: no limit
	chats       *limit.RateLimiter // nil: no limit
	credentials *limit.RateLimiter // nil: no limit
	webhooks    *limit.RateLimiter // nil: no limit
	budgets     *budgets
	shares      shares
	lists       *limit.Semaphores
	inFlight    limit.InFlight
	offers      atomic.Pointer[offers]

	reference   *reference
	documentTag string // the entity tag of the OpenAPI document
	origin      string // of the server's pages
	secure      bool   // cookies are for https only

	duration        metric.Float64Histogram
	active          atomic.Int64
	unmatched       *series // measurements of requests without a route
	feedDisconnects metric.Int64Counter
	began           time.Time
	recent          recent
	doctor          sync.Mutex // held while the configuration is checked

	readiness singleflight.Group // of checkReady

	inner http.Handler // CORS and the routes
}

// New returns the handler of the whole interface.
func New(o Options) (http.Handler, error) { return build(o) }

// build is New, for tests of parts of the interface.
func build(o Options) (*api, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &api{
		Options: o, began: o.Now(), documentTag: contentTag(o.Document), secure: strings.HasPrefix(o.PublicURL, "https://"),
		actorOf: o.Access.Authorize,
	}
	a.callers, a.addresses = limit.NewRateLimiter("caller", o.Rates.Caller, a.Now), limit.NewRateLimiter("address", o.Rates.Address, a.Now)
	a.chats, a.credentials = limit.NewRateLimiter("chat", o.Rates.Chat, a.Now), limit.NewRateLimiter("credentials", o.Rates.Credentials, a.Now)
	a.webhooks, a.lists = limit.NewRateLimiter("webhook", o.Rates.Webhook, a.Now), limit.NewSemaphores(maxLists)
	a.budgets, a.shares, a.reference = newBudgets(o.Budgets), newShares(o.Concurrency), newReference()
	var err error
	if a.origin, err = originOf(o.PublicURL); err != nil {
		return nil, err
	}
	if err := a.instrument(); err != nil {
		return nil, err
	}
	router, err := a.router(a.routes())
	if err != nil {
		return nil, err
	}
	a.inner = router
	if o.Repeat != nil {
		o.Repeat(sampleEvery, a.sample)
	}
	if len(o.Origins) > 0 {
		a.inner = cors.New(cors.Options{
			AllowedOrigins: o.Origins,
			AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
			AllowedHeaders: []string{
				"Authorization", "Cache-Control", "Collab-Position", "Content-Type", "Idempotency-Key", "If-Match",
				"If-None-Match", "If-Range", "Last-Event-ID", "Prefer", "Range", "X-Request-Id",
				"Traceparent", "Tracestate", uploadComplete, uploadDraft, uploadLength, uploadOffset,
			},
			ExposedHeaders: append([]string{
				"ETag", "Link", "Location", "X-Request-Id", "Retry-After", "WWW-Authenticate", "Idempotent-Replayed", "X-Sync-Cursor", "Collab-Position",
				"Accept-Ranges", "Content-Disposition", "Content-Range", "Preference-Applied", uploadComplete, uploadLength, uploadLimit, uploadOffset,
				"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy", "RateLimit",
			}, metadataHeaders...),
			MaxAge: 600,
		}).Handler(router)
	}
	return a, nil
}
