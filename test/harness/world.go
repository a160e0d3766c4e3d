// Package harness is the whole core in one process, offline: the use cases over
// the memory adapters, with a clock that is moved by hand and ids that are
// counted.
package harness

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"time"

	"collab/adapters/bucket"
	"collab/adapters/memory"
	"collab/adapters/servicetoken"
	"collab/adapters/standardwebhooks"
	"collab/adapters/stripepay"
	"collab/adapters/vault"
	"collab/app/access"
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
	"collab/domain/plan"
	"collab/ports"
)

// Addresses and secrets of the world. Nothing is behind the addresses.
const (
	PublicURL = "https://collab.invalid"
	appURL    = "https://app.collab.invalid"

	// PaymentSecret signs the payment provider's messages.
	PaymentSecret = "whsec_payments-of-the-offline-harness"
)

// Prices are the payment provider's prices of the plans.
var Prices = map[plan.Plan]string{plan.Standard: "price_standard", plan.Premium: "price_premium"}

// World is everything that a deployment is, in one process: the use cases of a
// server over what it keeps, and those outside whom it deals with. Nothing
// happens in it, and no time passes, without a call.
type World struct {
	Faults *Faults // of the calls from the server to what it depends on
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

	Secrets *memory.Secrets
	Sealer  ports.Sealer
	Tokens  ports.ServiceTokens

	models  chat.Registry
	invites map[string]string // the tokens of invitations, by their hashes

	messages int // that SendIdentityEvent has delivered
}

// Server is the use cases of one server. What they remember goes with it.
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
	Connectors *connectors.Connectors
	Billing    *billing.Billing
	Releases   *releases.Releases
	Webhooks   *webhooks.Webhooks
	Operator   *operator.Operator
	Upkeep     *upkeep.Upkeep
}

// NewWorld returns an empty world whose clock stands at the time. It is to be
// closed.
func NewWorld(at time.Time) (*World, error) {
	w := &World{
		Faults: &Faults{}, Store: memory.NewStore(), Bus: &memory.Bus{}, Clock: memory.NewClock(at), IDs: &memory.IDs{},
		Mailer: &memory.Mailer{}, Secrets: &memory.Secrets{}, invites: map[string]string{},
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
	// The same key every time, so that tokens are the same as well.
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

// Restart puts another server in the place of the one that there is.
func (w *World) Restart() error {
	w.Close()
	identities, err := standardwebhooks.New([]string{WebhookSecret}, w.Clock)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	var store ports.Store = faultyStore{w.Store, w.Faults}
	blobs, payments := faultyBlobs{w.Blobs, w.Faults}, faultyPayments{w.Payments, w.Faults}
	pause := func(ctx context.Context, _ int) error { return ctx.Err() }
	s := &w.Server
	s.Access = access.New(access.Options{
		Store: store, Epochs: w.Store, Identity: w.Identity, Tokens: w.Tokens, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, CallbackURL: PublicURL + "/api/v1/auth/cli-callback",
	})
	s.Onboarding = onboarding.New(w.Clock, w.IDs, s.Access.Locked, s.Access.Atomic)
	s.Members = members.New(members.Options{Store: store, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, Mailer: w.Mailer, InviteURL: w.inviteURL, Locked: s.Access.Locked, Origin: access.Origin})
	s.Objects = objects.New(objects.Options{Store: store, Blobs: blobs, Signed: faultySigned{blobs}, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, CheckExpiry: s.Access.CheckExpiry, Reauthorize: s.Access.Reauthorize, Atomic: s.Access.Atomic, LogPosition: s.Access.LogPosition, MaxSize: MaxSize})
	s.Tasks = tasks.New(store, w.Clock, w.IDs, s.Access.Atomic)
	s.Teams = teams.New(store, w.Clock, w.IDs, s.Objects.Sweep, s.Access.Locked, s.Access.Atomic)
	s.Workspaces = workspaces.New(store, w.Clock, w.IDs, s.Objects.Sweep, s.Access.Locked, s.Access.Atomic)
	s.Chats = chats.New(chats.Options{
		Store: store, Registry: w.models, Providers: map[string]ports.Models{modelProvider: w.Model}, Generations: w.Model,
		Clock: w.Clock, Alarms: &memory.Alarms{Clock: w.Clock}, IDs: w.IDs, Log: log, Origin: access.Origin, Pause: pause,
	})
	s.Metering = metering.New(store, w.Clock)
	s.Connectors = connectors.New(connectors.Options{
		Store: store, Catalog: catalog, Servers: w.Tools, Authorizer: w.Tools, Sealer: w.Sealer, Clock: w.Clock, IDs: w.IDs, Secrets: w.Secrets, Log: log,
		Page: PublicURL + "/authorize", Callback: CallbackURL, Pause: pause,
		Reauthorize: s.Access.Reauthorize, Locked: s.Access.Locked, Atomic: s.Access.Atomic, Origin: access.Origin,
	})
	s.Billing = billing.New(billing.Options{
		Store: store, Payments: payments, Provider: payments, Clock: w.Clock, IDs: w.IDs, Log: log, PaidURL: PublicURL + "/api/v1/billing/checkout/success", AppURL: appURL,
		Locked: s.Access.Locked, Origin: access.Origin,
	})
	s.Releases = releases.New(releases.Options{Store: store, Bus: w.Bus, Clock: w.Clock, IDs: w.IDs, Log: log, Atomic: s.Access.Atomic, Origin: access.Origin, AnyOrganisation: true})
	s.Webhooks = webhooks.New(webhooks.Options{
		Store: store, Identity: identities, Payments: stripepay.NewEvents([]string{PaymentSecret}, Prices, w.Clock), Clock: w.Clock, IDs: w.IDs,
		Objects: s.Objects, Billing: s.Billing,
	})
	s.Operator = operator.New(store, w.Clock, w.IDs, access.Origin)
	s.Upkeep = upkeep.New(store, blobs, w.Clock, s.Connectors, Retention)
	return nil
}

// Close ends what the server does in the background.
func (w *World) Close() {
	if w.Server.Connectors != nil {
		w.Server.Connectors.Wait()
	}
}

// inviteURL returns the address that accepts an invitation.
func (w *World) inviteURL(token string) string {
	w.invites[members.TokenHash(token)] = token
	return appURL + "/invite?token=" + token
}

// InviteToken returns the token of which the invitation keeps the hash.
func (w *World) InviteToken(hash string) string { return w.invites[hash] }

// Advance moves the clock on to a time. What the payment provider does meanwhile it
// does in its time; then providers send again what was not taken, and the server
// does its regular work.
func (w *World) Advance(ctx context.Context, to time.Time) error {
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

// Work is what the server does regularly, done once.
func (w *World) Work(ctx context.Context) error {
	err := errors.Join(w.Billing.Reconcile(ctx), w.Chats.ExtendLeases(ctx), w.Releases.FlushCounts(ctx), w.Upkeep.Run(ctx))
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

// rounds is how often work on connectors that asks for more is begun again.
const rounds = 100
