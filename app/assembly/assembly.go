// Package assembly builds the server: it chooses the adapters of a configuration and runs
// them. No other package imports fx, except cmd/collabd.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"collab/adapters/console"
	"collab/adapters/gormdb"
	"collab/adapters/httpapi"
	"collab/adapters/httpapi/limit"
	"collab/adapters/servicetoken"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/access"
	"collab/app/archives"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/app/assembly/doctor"
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
	"collab/app/upkeep"
	"collab/app/webhooks"
	"collab/app/workspaces"
	"collab/docs"
	"collab/domain/chat"
	"collab/ports"
)

// stopTimeout bounds a graceful stop.
const stopTimeout = 10 * time.Second

// Serve runs the server until ctx ends. It writes its addresses to out and its log to log.
func Serve(ctx context.Context, c config.Config, out, log io.Writer) error {
	return ServeWithClock(ctx, c, system.Clock{}, out, log)
}

// ServeWithClock is Serve on a machine with the clock.
func ServeWithClock(ctx context.Context, c config.Config, clock ports.Clock, out, log io.Writer) error {
	return serveWith(ctx, c, log, func(base publicURL, page signInPage, _ net.Listener) { printAddresses(out, c, base, page) },
		fx.Decorate(func(machineClock) machineClock { return machineClock{clock} }))
}

// serveWith runs the server until ctx ends, with more options of the graph. It writes the log to log, and
// calls listening once requests are answered.
func serveWith(ctx context.Context, c config.Config, log io.Writer, listening func(publicURL, signInPage, net.Listener), extra ...fx.Option) (err error) {
	lines := newBufferedLog(log)
	defer func() { err = errors.Join(err, lines.flush()) }()
	logger := slog.New(flushingHandler{c.Logger(lines).Handler(), lines})
	buildCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	app := fx.New(server(graphContext{buildCtx}, c, logger), fx.Options(extra...), fx.Invoke(func(
		lc fx.Lifecycle, base publicURL, page signInPage, l net.Listener,
	) {
		lc.Append(fx.StartHook(func() {
			listening(base, page, l)
			for _, u := range c.Unknown {
				logger.Warn("unknown variable", "name", u.Name, "nearest", u.Nearest)
			}
			if c.Production() {
				for _, w := range c.Warnings() {
					logger.Warn("configuration is unsafe", "message", w.Message, "remedy", w.Remedy)
				}
			}
			logger.Info("listening", "url", string(base), "address", l.Addr().String(), "version", Version(), "mode", c.Mode)
		}))
	}))
	if err := app.Err(); err != nil {
		if ctx.Err() != nil { // while a part did not answer
			logger.Info("stopping")
			return nil
		}
		return dig.RootCause(err) // without fx's description of the graph
	}
	// A start is completed even if ctx ends, because Stop needs a complete one.
	startCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if err := app.Start(startCtx); err != nil {
		return dig.RootCause(err) // without fx's description of the graph
	}
	// Memory that only the start needed is returned to the system. The first collection
	// empties pools, the second one frees their contents.
	runtime.GC()
	debug.FreeOSMemory()
	if os.Getenv("GOGC") == "" {
		adjustGCPercent(defaultGCPercent)
	}
	code := 0
	select {
	case <-ctx.Done():
	case signal := <-app.Wait():
		code = signal.ExitCode
	}
	logger.Info("stopping")
	stopCtx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := app.Stop(stopCtx); err != nil {
		return err
	}
	if code != 0 {
		return errors.New("the server failed; the log says why")
	}
	return nil
}

// server returns the complete fx graph of a configuration.
func server(ctx graphContext, c config.Config, logger *slog.Logger) fx.Option {
	return fx.Options(
		fx.NopLogger,
		fx.Supply(ctx, c, logger, new(draining)),
		options(profile(c)),
		fx.Provide(
			listen, newTelemetry, newConnLimiter,
			newAccess, newMembers, newOnboarding, newTeams, newWorkspaces, newTasks, newObjects, newFeed, newWebhooks,
			newChats, newMetering, newArchives, newBilling, newConnectors, newReleases, newOperator, idempotency.New,
			newPlanLimiter, newHandler,
		),
		fx.Invoke(serve, startUpkeep),
	)
}

// CommonParams are what most constructors need. fx fills exported fields only.
type CommonParams struct {
	fx.In
	Config  config.Config
	Base    publicURL
	Store   ports.Store
	Clock   ports.Clock
	IDs     ports.IDs
	Secrets ports.Secrets
	Log     *slog.Logger
}

type accessParams struct {
	fx.In
	CommonParams
	Epochs   ports.Epochs
	Identity ports.IdentityTokens
	Tokens   ports.ServiceTokens
	SignIn   ports.SignIn
	Sealer   ports.Sealer
	Cookie   sessionCookie
}

// newAccess makes the use cases of tokens. Uses of sessions are stored regularly and at stop.
func newAccess(lc fx.Lifecycle, p accessParams) *access.Access {
	a := access.New(access.Options{
		Store: p.Store, Epochs: p.Epochs, Identity: p.Identity, Tokens: p.Tokens, SignIn: p.SignIn, Sealer: p.Sealer,
		Clock: p.Clock, IDs: p.IDs, Secrets: p.Secrets, Roles: p.Config.IdentityRoles,
		CallbackURL: string(p.Base) + httpapi.CLICallbackPath, BrowserCallbackURL: string(p.Base) + console.CallbackPath, SessionCookie: string(p.Cookie),
		SignedOutURL: string(p.Base) + console.SignedOutPath, OperatorSecret: p.Config.AdminSecret.Value(),
	})
	lc.Append(fx.StopHook(drainHook(settleTimeout, a.FlushUses, p.Log.Error, "session use write failed")))
	schedule(lc, access.FlushEvery, a.FlushUses, p.Log, "session use write failed")
	return a
}

func newMembers(
	store ports.Store, clock ports.Clock, ids ports.IDs, secrets ports.Secrets, mailer ports.Mailer, to inviteURL,
	a *access.Access,
) *members.Members {
	return members.New(members.Options{
		Store: store, Clock: clock, IDs: ids, Secrets: secrets, Mailer: mailer, InviteURL: to, Locked: a.Locked,
		From: access.From(store), Origin: access.Origin,
	})
}

func newOnboarding(clock ports.Clock, ids ports.IDs, a *access.Access) *onboarding.Onboarding {
	return onboarding.New(clock, ids, a.Locked, a.Atomic)
}

func newTasks(store ports.Store, clock ports.Clock, ids ports.IDs, a *access.Access) *tasks.Tasks {
	return tasks.New(store, clock, ids, a.Atomic)
}

type objectsParams struct {
	fx.In
	CommonParams
	Blobs  ports.Blobs
	Signed ports.SignedBlobs
	Sealer ports.Sealer
	Access *access.Access
}

func newObjects(p objectsParams) *objects.Objects {
	return objects.New(objects.Options{
		Store: p.Store, Blobs: p.Blobs, Signed: p.Signed, Sealer: p.Sealer, Clock: p.Clock, IDs: p.IDs, Secrets: p.Secrets,
		CheckExpiry: p.Access.CheckExpiry, Reauthorize: p.Access.Reauthorize, Atomic: p.Access.Atomic, LogPosition: p.Access.LogPosition,
		Subscription: p.Access.Subscription, MaxSize: p.Config.MaxUpload, Limits: p.Config.PlanStorage, Retention: p.Config.PlanVersions,
	})
}

type feedParams struct {
	fx.In
	CommonParams
	Epochs ports.Epochs
	Bus    ports.Bus
	Alarms ports.Alarms
	Access *access.Access
}

// newFeed makes the feed of changes, which runs between start and stop. Its streams end when
// the server begins to stop (see serve).
func newFeed(lc fx.Lifecycle, p feedParams) *changes.Feed {
	feed := changes.New(changes.Options{
		Store: p.Store, Epochs: p.Epochs, Bus: p.Bus, Clock: p.Clock, Log: p.Log,
		Alarms:       p.Alarms,
		Reauthorizer: p.Access.Reauthorizer, LogPosition: p.Access.LogPosition, Encode: httpapi.EncodeChange,
	})
	tick := time.NewTicker(changes.PollEvery)
	lc.Append(fx.StartStopHook(
		func() error { return feed.Start(tick.C) },
		drainHook(drainTimeout, func(drain context.Context) error {
			defer tick.Stop()
			return feed.Close(drain)
		}, p.Log.Warn, "change feeds not drained"),
	))
	return feed
}

type chatsParams struct {
	fx.In
	CommonParams
	Registry    chat.Registry
	Providers   providers
	Generations ports.Generations
	Alarms      ports.Alarms
	Access      *access.Access
}

// newChats makes the chats, which extend their leases between start and stop. At stop the
// server has ended the calls, and their usage is stored before the store is closed.
func newChats(lc fx.Lifecycle, p chatsParams) *chats.Chats {
	c := chats.New(chats.Options{
		Store: p.Store, Registry: p.Registry, Providers: p.Providers, Generations: p.Generations,
		Clock: p.Clock, Alarms: p.Alarms, IDs: p.IDs, Log: p.Log, Subscription: p.Access.Subscription,
		Reauthorize: p.Access.Reauthorize, Origin: access.Origin, Pause: backOff,
	})
	schedule(lc, chats.ExtendEvery, c.ExtendLeases, p.Log, "quota lease sweep failed")
	lc.Append(fx.StopHook(drainHook(settleTimeout, c.Close, p.Log.Error, "model calls not drained")))
	return c
}

func newMetering(store ports.Store, clock ports.Clock, c config.Config) *metering.Metering {
	return metering.New(store, access.From(store), clock, c.PlanStorage)
}

func newOperator(store ports.Store, clock ports.Clock, ids ports.IDs, c config.Config) *operator.Operator {
	return operator.New(store, clock, ids, c.PlanStorage, access.Origin)
}

func newTeams(store ports.Store, clock ports.Clock, ids ports.IDs, o *objects.Objects, a *access.Access) *teams.Teams {
	return teams.New(store, clock, ids, o.Sweep, a.Locked, a.Atomic)
}

func newWorkspaces(store ports.Store, clock ports.Clock, ids ports.IDs, o *objects.Objects, a *access.Access) *workspaces.Workspaces {
	return workspaces.New(store, clock, ids, o.Sweep, a.Locked, a.Atomic)
}

// startUpkeep does the regular work at intervals between start and stop.
func startUpkeep(lc fx.Lifecycle, c config.Config, store ports.Store, blobs ports.Blobs, clock ports.Clock, s *connectors.Connectors, log *slog.Logger) {
	schedule(lc, upkeepEvery, upkeep.New(store, blobs, clock, s, c.Retention).Run, log, "upkeep failed")
}

// newPlanLimiter makes the limiter of requests by plan, which adds its counts to those of the store
// between start and stop. It is nil without limits.
func newPlanLimiter(lc fx.Lifecycle, c config.Config, store ports.Store, clock ports.Clock, log *slog.Logger) *ratelimit.Limiter {
	l := ratelimit.New(store, clock, c.PlanRequests, func(err error) { log.Warn("request count sync failed", "error", err) })
	if l != nil {
		run(lc, l.Run)
	}
	return l
}

type webhooksParams struct {
	fx.In
	CommonParams
	Identity ports.IdentityEvents
	Payments ports.PaymentEvents
	Objects  *objects.Objects
	Billing  *billing.Billing
}

func newWebhooks(p webhooksParams) *webhooks.Webhooks {
	return webhooks.New(webhooks.Options{
		Store: p.Store, Identity: p.Identity, Payments: p.Payments, Clock: p.Clock, IDs: p.IDs, Roles: p.Config.IdentityRoles,
		Objects: p.Objects, Billing: p.Billing,
	})
}

type handlerParams struct {
	fx.In
	CommonParams
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
	PlanLimiter *ratelimit.Limiter
	Telemetry   telemetry
	Health      ports.Health
	Draining    *draining
	Limiter     *limit.Connections
	Keys        publicKeys
	Mounts      mounts
	Payments    payMounts
}

func newHandler(lc fx.Lifecycle, p handlerParams) (http.Handler, error) {
	document, err := docs.JSON()
	if err != nil {
		return nil, err
	}
	var position func(context.Context, string) (string, error)
	if p.Config.ReplicaURLs.IsSet() {
		position = p.Store.Position
	}
	mounted := map[string]http.Handler{}
	maps.Copy(mounted, p.Mounts)
	maps.Copy(mounted, p.Payments)
	pages, err := console.New(p.Access, string(p.Base))
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Options{
		Access: p.Access, Onboarding: p.Onboarding, Members: p.Members, Teams: p.Teams, Workspaces: p.Workspaces,
		Tasks: p.Tasks, Webhooks: p.Webhooks, Operator: p.Operator, Idempotency: p.Idempotency,
		Objects: p.Objects, Feed: p.Feed, Chats: p.Chats, Metering: p.Metering, Archives: p.Archives,
		Billing: p.Billing, Connectors: p.Connectors, Releases: p.Releases, Heartbeat: p.Config.Heartbeat,
		Log: p.Log, Meter: p.Telemetry.meters.Meter("collab"), Tracer: p.Telemetry.tracer,
		PublicURL: string(p.Base), AppURL: appURL(p.Config, p.Base), Release: Version(), Schema: gormdb.Schema(),
		Compatible: oldest, AdminSecret: p.Config.AdminSecret.Value(), Origins: p.Config.CORSOrigins,
		Rates: p.Config.RateLimits, Budgets: p.Config.Budgets, Concurrency: p.Config.Concurrency,
		PlanLimiter: p.PlanLimiter, Connections: p.Limiter.Budget(), Proxies: p.Config.Proxies,
		Document: document, JWKS: p.Keys, Position: position,
		Ready: func(ctx context.Context) error {
			if p.Draining.Load() {
				return errors.New("the server is shutting down")
			}
			return p.Health.Ready(ctx)
		},
		Doctor:  func(ctx context.Context) []httpapi.Finding { return doctor.Examine(ctx, p.Config, Version()) },
		Metrics: p.Telemetry.scrape, Mounts: mounted, Console: pages, NewID: p.IDs.New,
		Repeat: func(every time.Duration, fn func()) {
			schedule(lc, every, func(context.Context) error { fn(); return nil }, p.Log, "load sample failed")
		},
	})
	if err != nil {
		return nil, err
	}
	return pages.Bridge(httpapi.Prefix, api), nil
}

// printAddresses writes the addresses of the server.
func printAddresses(out io.Writer, c config.Config, base publicURL, page signInPage) {
	fmt.Fprintf(out, "Collab %s is running.\n  Console    %s/\n  API        %s\n  Documents  %s/docs\n", Version(), base, string(base)+httpapi.Prefix, base)
	if page != "" {
		fmt.Fprintf(out, "  Sign in    %s\n", page)
	}
	if c.AdminSecret.IsSet() {
		fmt.Fprintf(out, "  Operators  %s/console/operator/setup\n", base)
	}
}

// Migrate brings the database's schema up to date, and partitions its largest tables if partition
// is set. Any number of processes may do so concurrently.
func Migrate(ctx context.Context, c config.Config, partition bool, log io.Writer) (err error) {
	if c.Database() == "memory" {
		return nil
	}
	lock, err := datadir.LockDatabase(c, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	logger := c.Logger(log)
	db, err := gormdb.Open(ctx, gormdb.Options{URL: c.DatabaseURL.Text(), DirectURL: c.DirectURL.Text(), Logger: logger})
	if err != nil {
		return fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	logger.Info("schema up to date")
	if !partition {
		return nil
	}
	next := int64(progressRecords)
	return db.Partition(ctx, func(table string, records int64, done bool) {
		switch {
		case done:
			next = progressRecords
			logger.Info("table partitioned", "table", table, "records", records)
		case records >= next:
			next = records + progressRecords
			logger.Info("partitioning progress", "table", table, "records", records)
		}
	})
}

// progressRecords is how many records of a table are copied between two lines of the log.
const progressRecords = 250_000

// PrintKeys writes a new file of keys of the kind "tokens" or "secrets".
func PrintKeys(out io.Writer, kind string) error {
	generate := map[string]func() ([]byte, error){"tokens": servicetoken.Generate, "secrets": vault.Generate}[kind]
	if generate == nil {
		return fmt.Errorf("there are keys for tokens and for secrets, not for %q", kind)
	}
	text, err := generate()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
