// Package harness is the whole core in one process, offline: the use cases over the
// memory adapters, with a clock moved by hand and counted ids.
package harness

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"time"

	"collab/adapters/archive"
	"collab/adapters/bucket"
	"collab/adapters/memory"
	"collab/adapters/servicetoken"
	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/adapters/vault"
	"collab/app/access"
	"collab/app/archives"
	"collab/app/billing"
	"collab/app/chats"
	"collab/app/connectors"
	"collab/app/members"
	"collab/app/metering"
	"collab/app/objects"
	"collab/app/onboarding"
	"collab/app/operator"
	"collab/app/releases"
	"collab/app/tasks"
	"collab/app/teams"
	"collab/app/upkeep"
	"collab/app/webhooks"
	"collab/app/workspaces"
	"collab/domain/chat"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/plan"
	"collab/ports"
)

// Addresses and secrets of the deployment. Nothing listens on the addresses.
const (
	PublicURL = "https://collab.invalid"
	appURL    = "https://app.collab.invalid"

	// PaymentSecret signs the payment provider's messages.
	PaymentSecret = "whsec_payments-of-the-offline-harness"
)

// Prices are the payment provider's prices of the plans.
var Prices = map[plan.Plan][]string{plan.Standard: {"price_standard"}, plan.Premium: {"price_premium"}}

// Deployment is a deployment in one process: the use cases of a server over its stores,
// and its providers. Nothing happens in it, and no time passes, without a call.
type Deployment struct {
	Faults *Faults // of the server's calls to stores and providers
	Store  *memory.Store
	Blobs  ports.Blobs
	Bus    *memory.Bus
	Clock  *memory.Clock
	IDs    *memory.IDs

	Identity *Identity // the identity provider
	Payments *Payments // the payment provider
	Model    *Model    // the provider of models
	Tools    *Tools    // tool servers with their authorization server
	Mailer   *memory.Mailer

	Server

	// StorageLimits may be changed between calls.
	StorageLimits plan.StorageLimits
	// VersionRetention may be changed likewise.
	VersionRetention plan.VersionRetention

	Secrets *memory.Secrets
	Sealer  ports.Sealer
	Tokens  ports.ServiceTokens

	models  chat.Registry
	invites map[string]string // the tokens of invitations, by their hashes

	messages int // delivered by SendIdentityEvent
}

// Server is the use cases of one server, with their caches.
type Server struct {
	Access     *access.Access
	Onboarding *onboarding.Onboarding
	Members    *members.Members
	Tasks      *tasks.Tasks
	Teams      *teams.Teams
	Workspaces *workspaces.Workspaces
	Objects    *objects.Objects
	Chats      *chats.Chats
	Metering   *metering.Metering
	Archives   *archives.Archives
	Connectors *connectors.Connectors
	Billing    *billing.Billing
	Releases   *releases.Releases
	Webhooks   *webhooks.Webhooks
	Operator   *operator.Operator
	Upkeep     *upkeep.Upkeep
}

// NewDeployment returns an empty deployment with the clock at the given time. The caller
// must close it.
func NewDeployment(at time.Time) (*Deployment, error) {
	w := &Deployment{
		Faults: &Faults{}, Store: memory.NewStore(), Bus: &memory.Bus{}, Clock: memory.NewClock(at), IDs: &memory.IDs{},
		Mailer: &memory.Mailer{}, Secrets: &memory.Secrets{}, invites: map[string]string{}, StorageLimits: plan.StorageLimits{}, VersionRetention: plan.VersionRetention{},
	}
	w.Store.OnChange(w.Bus.Publish)
	kept, err := bucket.Open(context.Background(), "mem://")
	if err != nil {
		return nil, err
	}
	w.Blobs = &datedBlobs{Blobs: kept, clock: w.Clock, written: map[string]time.Time{}}
	keyset, err := vault.Generate()
	if err != nil {
		return nil, err
	}
	if w.Sealer, err = vault.New(keyset); err != nil {
		return nil, err
	}
	// A constant key, so that tokens are the same in each run.
	w.Tokens = servicetoken.New(servicetoken.Keys{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}, PublicURL)
	w.Model = newModel(w.Clock)
	if w.models, err = chat.NewRegistry(models, "", func(string) bool { return true }); err != nil {
		return nil, err
	}
	w.Tools = newTools(w.Clock)
	w.Identity = newIdentity(w)
	w.Payments = newPayments(w)
	return w, w.Restart()
}

// Restart replaces the server by a new one.
func (w *Deployment) Restart() error {
	w.Close()
	identities, err := standardwebhooks.New([]string{webhookSecret}, w.Clock)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	store := w.Faults.Store(w.Store)
	blobs, payments := faultyBlobs{w.Blobs, w.Faults}, FaultyPayments{w.Payments, w.Payments, w.Faults.call}
	pause := func(ctx context.Context, _ int) error { return ctx.Err() }
	s := &w.Server
	s.Access = access.New(access.Options{
		Store: store, Epochs: w.Store, Identity: w.Identity, Tokens: w.Tokens, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, CallbackURL: PublicURL + "/api/v1/auth/cli-callback",
	})
	s.Onboarding = onboarding.New(w.Clock, w.IDs, s.Access.Locked, s.Access.Atomic)
	s.Members = members.New(members.Options{Store: store, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, Mailer: w.Mailer, InviteURL: w.inviteURL, Locked: s.Access.Locked, From: access.From(store), Origin: access.Origin})
	s.Objects = objects.New(objects.Options{Store: store, Blobs: blobs, Signed: faultySigned{blobs}, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, CheckExpiry: s.Access.CheckExpiry, Reauthorize: s.Access.Reauthorize, Atomic: s.Access.Atomic, LogPosition: s.Access.LogPosition, Subscription: s.Access.Subscription, MaxSize: MaxSize, PartSize: PartSize, MinAppend: MinAppend, Limits: w.StorageLimits, Retention: w.VersionRetention})
	s.Tasks = tasks.New(store, w.Clock, w.IDs, s.Access.Atomic)
	s.Teams = teams.New(store, w.Clock, w.IDs, s.Objects.Sweep, s.Access.Locked, s.Access.Atomic)
	s.Workspaces = workspaces.New(store, w.Clock, w.IDs, s.Objects.Sweep, s.Access.Locked, s.Access.Atomic)
	s.Chats = chats.New(chats.Options{
		Store: store, Registry: w.models, Providers: map[string]ports.Models{modelProvider: w.Model}, Generations: w.Model,
		Clock: w.Clock, Alarms: &memory.Alarms{Clock: w.Clock}, IDs: w.IDs, Log: log, Subscription: s.Access.Subscription, Reauthorize: s.Access.Reauthorize, Origin: access.Origin, Pause: pause,
	})
	s.Metering = metering.New(store, access.From(store), w.Clock, w.StorageLimits)
	s.Archives = archives.New(archives.Options{
		Store: store, Signed: faultySigned{blobs}, Snapshots: w.Store, Blobs: blobs, Archiver: archive.Archiver{}, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets,
		Version: "test", Retention: object.BlobGracePeriod, Locked: s.Access.Locked, Origin: access.Origin,
	})
	s.Connectors = connectors.New(connectors.Options{
		Store: store, Catalog: catalog, Servers: w.Tools, Authorizer: w.Tools, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, Log: log,
		Page: PublicURL + "/authorize", Callback: CallbackURL, Pause: pause,
		Reauthorize: s.Access.Reauthorize, Locked: s.Access.Locked, Atomic: s.Access.Atomic, Origin: access.Origin,
	})
	s.Billing = billing.New(billing.Options{
		Store: store, Payments: payments, Provider: payments, Clock: w.Clock, IDs: w.IDs, Log: log, PaidURL: PublicURL + "/api/v1/billing/checkout/success", AppURL: appURL,
		Locked: s.Access.Locked, Reauthorize: s.Access.Reauthorize, Origin: access.Origin,
	})
	s.Releases = releases.New(releases.Options{Store: store, Bus: w.Bus, Clock: w.Clock, IDs: w.IDs, Log: log, Atomic: s.Access.Atomic, From: access.From(store), Origin: access.Origin, AnyOrganisation: true})
	s.Webhooks = webhooks.New(webhooks.Options{
		Store: store, Identity: identities, Payments: stripepay.NewEvents([]string{PaymentSecret}, Prices, w.Clock), Clock: w.Clock, IDs: w.IDs,
		Objects: s.Objects, Billing: s.Billing,
	})
	s.Operator = operator.New(store, w.Clock, w.IDs, w.StorageLimits, access.Origin)
	s.Upkeep = upkeep.New(store, blobs, w.Clock, s.Connectors, Retention)
	return nil
}

// Close waits for the server's background work.
func (w *Deployment) Close() {
	if w.Server.Connectors != nil {
		w.Server.Connectors.Wait()
	}
}

// inviteURL returns the address that accepts an invitation.
func (w *Deployment) inviteURL(token string) string {
	w.invites[id.Digest(token)] = token
	return appURL + "/invite?token=" + token
}

// InviteToken returns the token with the hash.
func (w *Deployment) InviteToken(hash string) string { return w.invites[hash] }

// Advance moves the clock to a time. The payment provider's renewals happen when they are
// due; then providers retry messages that were not accepted, and the server does its
// periodic jobs.
func (w *Deployment) Advance(ctx context.Context, to time.Time) error {
	for {
		due, ok := w.Payments.due()
		if !ok || due.After(to) {
			break
		}
		if due.After(w.Clock.Now()) {
			w.Clock.Set(due)
		}
		if err := w.Payments.renew(ctx); err != nil {
			return err
		}
	}
	w.Clock.Set(to)
	w.Identity.Queue.retry(ctx)
	w.Payments.Queue.retry(ctx)
	return w.Work(ctx)
}

// Work does the server's periodic jobs once.
func (w *Deployment) Work(ctx context.Context) error {
	err := errors.Join(w.Billing.Reconcile(ctx), w.Chats.ExtendLeases(ctx), w.Releases.FlushCounts(ctx), w.Archives.MakeDue(ctx), w.Upkeep.Run(ctx))
	for range rounds {
		if e := w.Connectors.Work(ctx); e != nil {
			return errors.Join(err, e)
		}
		w.Connectors.Wait()
		select {
		case <-w.Connectors.Woken():
		default:
			return err
		}
	}
	return err
}

// rounds is how often connectors' jobs that request another run are repeated.
const rounds = 100
