package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/fx"

	"collab/adapters/bucket"
	"collab/adapters/console"
	"collab/adapters/devidp"
	"collab/adapters/gormdb"
	"collab/adapters/httpapi"
	"collab/adapters/mail"
	"collab/adapters/memory"
	"collab/adapters/natsbus"
	"collab/adapters/oidc"
	"collab/adapters/servicetoken"
	"collab/adapters/standardwebhooks"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/assembly/config"
	"collab/app/assembly/datadir"
	"collab/app/members"
	"collab/ports"
)

// records are the ports of a database.
type records struct {
	fx.Out
	Store  ports.Store
	Epochs ports.Epochs
	Health ports.Health
	Time   databaseTime

	Snapshots ports.Snapshots
}

func chooseRecords(c config.Config) choice {
	ch := choice{group: "Store, Epochs, Health, Snapshots", variable: "COLLAB_DATABASE_URL"}
	switch c.Database() {
	case "memory":
		ch.adapter = "`memory`"
		ch.option = fx.Provide(func(bus ports.Bus) records {
			s := memory.NewStore()
			s.OnChange(bus.Publish)
			return records{Store: s, Epochs: s, Health: s, Snapshots: s}
		})
	case "postgres":
		ch.adapter, ch.option = "`gormdb` on Postgres", fx.Provide(openDatabase)
	default:
		ch.adapter, ch.option = "`gormdb` on SQLite", fx.Provide(openDatabase)
	}
	return ch
}

// startTimeout bounds the making of the graph, and then its start.
const startTimeout = time.Minute

// graphContext is the context in which the graph is made. It ends when the server is to stop.
type graphContext struct{ context.Context }

// openDatabase opens the database and, in development, brings its schema up to date. In
// production "collabd migrate" does that, and the server is not ready before.
func openDatabase(ctx graphContext, lc fx.Lifecycle, c config.Config, log *slog.Logger, bus ports.Bus, t telemetry) (records, error) {
	locks, err := datadir.LockServer(c, false)
	if err != nil {
		return records{}, err
	}
	for _, lock := range locks {
		lc.Append(fx.StopHook(lock.Close))
	}
	db, err := gormdb.Open(ctx, gormdb.Options{
		URL: c.DatabaseURL.Text(), DirectURL: c.DirectURL.Text(), ReplicaURLs: c.Replicas(), Logger: log,
		Pause: pause, Changed: bus.Publish,
	})
	if err != nil {
		return records{}, fmt.Errorf("COLLAB_DATABASE_URL: %w", err)
	}
	lc.Append(fx.StopHook(db.Close))
	if c.Production() {
		readyCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := db.Ready(readyCtx); err != nil {
			log.Warn("database is not ready", "error", err)
		}
	} else if err := db.Migrate(ctx); err != nil {
		return records{}, errors.Join(fmt.Errorf("migrating the database: %w", err), db.Close())
	}
	if c.ReplicaURLs.IsSet() {
		schedule(lc, gormdb.PollReplicasEvery, db.PollReplicas, log, "replica poll failed")
		if err := t.observeReplicas(db.ReplicaStats); err != nil {
			return records{}, errors.Join(err, db.Close())
		}
	}
	result := records{Store: db, Epochs: db, Health: db, Snapshots: db}
	if c.Database() == "postgres" {
		result.Time = db.Now
	}
	return result, nil
}

// pause waits before the next attempt of a transaction, longer each time.
func pause(ctx context.Context, attempt int) error {
	return wait(ctx, time.Duration(attempt*attempt)*time.Millisecond)
}

func chooseBlobs(c config.Config) choice {
	storage := map[string]string{
		"file": "in local files", "gs": "on Google Cloud Storage", "s3": "on S3", "azblob": "on Azure Blob Storage", "mem": "in memory",
	}[c.BlobURL.Scheme()]
	return choice{group: "Blobs", adapter: "`bucket`, " + storage, variable: "COLLAB_BLOB_URL", option: fx.Provide(openBlobs)}
}

// openBlobs returns no signed blobs if the store or the configuration has none.
func openBlobs(ctx graphContext, lc fx.Lifecycle, c config.Config) (ports.Blobs, ports.SignedBlobs, error) {
	b, err := bucket.Open(ctx, c.BlobURL.Text())
	if err != nil {
		return nil, nil, fmt.Errorf("COLLAB_BLOB_URL: %w", err)
	}
	lc.Append(fx.StopHook(b.Close))
	if c.SignedURLs == "off" {
		return b.Blobs, nil, nil
	}
	signed, err := b.Signed(c.BlobPublicURL.Text())
	if err != nil {
		return nil, nil, fmt.Errorf("COLLAB_BLOB_PUBLIC_URL: %w", err)
	}
	return b.Blobs, signed, nil
}

func chooseBus(c config.Config) choice {
	ch := choice{group: "Bus", variable: "COLLAB_BUS_URL"}
	if c.BusURL.Scheme() == "local" {
		ch.adapter, ch.option = "`memory`, within one server", fx.Provide(func() ports.Bus { return &memory.Bus{} })
		return ch
	}
	ch.adapter = "`natsbus`"
	ch.option = fx.Provide(func(lc fx.Lifecycle, c config.Config, log *slog.Logger, t telemetry) (ports.Bus, error) {
		b, err := natsbus.Open(c.BusURL.Text(), log)
		if err != nil {
			return nil, fmt.Errorf("COLLAB_BUS_URL: %w", err)
		}
		lc.Append(fx.StopHook(b.Close))
		return b, t.count(
			counter{"collab.bus.published", "Hints handed to the bus.", func() int64 { return b.Stats().Published }},
			counter{"collab.bus.received", "Hints that came over the bus, for each subscription.", func() int64 { return b.Stats().Received }},
			counter{"collab.bus.dropped", "Hints not sent: no bus was connected, or too many waited.", func() int64 { return b.Stats().Dropped }},
			counter{"collab.bus.malformed", "Messages on the bus that are no hints.", func() int64 { return b.Stats().Malformed }},
			counter{"collab.bus.slow", "Times that a subscription began to lose hints.", func() int64 { return b.Stats().Slow }},
			counter{"collab.bus.disconnects", "Connections to the bus that were lost.", func() int64 { return b.Stats().Disconnects }},
		)
	})
	return ch
}

// identityResult are the ports of an identity provider.
type identityResult struct {
	fx.Out
	Tokens    ports.IdentityTokens
	SignIn    ports.SignIn
	Cookie    sessionCookie
	InviteURL inviteURL
	Mounts    mounts
	Page      signInPage
}

type (
	sessionCookie string                    // of a provider that signs in by session; empty: by code
	inviteURL     func(token string) string // returns the address of an invitation
	mounts        map[string]http.Handler   // handlers beside the interface, by path prefix
	signInPage    string                    // of the development provider; empty: there is none
)

func chooseIdentity(c config.Config) choice {
	ch := choice{group: "IdentityTokens, SignIn", variable: "COLLAB_IDENTITY_ISSUER"}
	if !c.IdentityIssuer.IsSet() {
		ch.adapter, ch.option = "`oidc` at the built-in provider `devidp`", fx.Provide(developmentIdentity)
		return ch
	}
	ch.adapter, ch.option = "`oidc`, by code", fx.Provide(externalIdentity)
	if c.IdentitySignInURL.IsSet() {
		ch.adapter = "`oidc`, by session"
	}
	return ch
}

func externalIdentity(c config.Config, clock ports.Clock) (identityResult, error) {
	p, err := oidc.New(oidc.Options{Issuer: c.IdentityIssuer.Text(), Audiences: c.IdentityAudience, AuthorizedParties: c.IdentityParties, Clock: clock})
	if err != nil {
		return identityResult{}, fmt.Errorf("COLLAB_IDENTITY_ISSUER: %w", err)
	}
	result := identityResult{Tokens: p, InviteURL: func(token string) string { return c.AppURL.Text() + "/invite?token=" + token }}
	if !c.IdentitySignInURL.IsSet() {
		result.SignIn = p.ByCode(c.IdentityClientID, c.IdentityClientSecret.Value())
		return result, nil
	}
	result.Cookie = sessionCookie(c.IdentityCookie)
	if result.SignIn, err = p.BySession(c.IdentitySignInURL.Text()); err != nil {
		return identityResult{}, fmt.Errorf("COLLAB_IDENTITY_SIGN_IN_URL: %w", err)
	}
	return result, nil
}

type developmentParams struct {
	fx.In
	CommonParams
	Signing webhookSigning
}

// developmentIdentity runs the built-in provider inside the server. As with any other
// provider, its tokens are verified by discovery, and its events arrive as signed webhooks.
func developmentIdentity(lc fx.Lifecycle, p developmentParams) (identityResult, error) {
	client := newWebhookClient(lc)
	dev, err := devidp.New(devidp.Options{
		Development:  !p.Config.Production(),
		Listen:       string(p.Config.Listen),
		PublicURL:    string(p.Base),
		AppURL:       p.Config.AppURL.Text(),
		CallbackPath: httpapi.CLICallbackPath,
		ExchangePath: httpapi.ExchangePath,
		Redirects:    []string{string(p.Base) + console.CallbackPath},
		SignedOut:    string(p.Base) + console.SignedOutPath,
		KeyFile:      filepath.Join(p.Config.DataDir, "dev-identity-key.pem"),
		AccountsFile: filepath.Join(p.Config.DataDir, "dev-identity-accounts.json"),
		Clock:        p.Clock, IDs: p.IDs, Secrets: p.Secrets, Log: p.Log,
		Emit: func(ctx context.Context, message string, body []byte) error {
			if len(p.Signing) == 0 {
				return errors.New("COLLAB_IDENTITY_WEBHOOK_SECRETS is empty: no message is accepted")
			}
			now := p.Clock.Now()
			signature, err := standardwebhooks.Sign(p.Signing[0], message, now, body)
			if err != nil {
				return err
			}
			return postWebhook(ctx, client, string(p.Base)+httpapi.IdentityWebhookPath, map[string]string{
				standardwebhooks.HeaderID: message, standardwebhooks.HeaderTimestamp: fmt.Sprint(now.Unix()), standardwebhooks.HeaderSignature: signature,
			}, body)
		},
		Invitation: func(ctx context.Context, token string) (devidp.Invite, error) {
			offer, err := members.Lookup(ctx, p.Store, p.Clock, token)
			return devidp.Invite{
				ProviderID: offer.ProviderID, Email: offer.Email, Role: string(offer.Role),
				OrgID: offer.Organisation.ProviderID, OrgName: offer.Organisation.Name, OrgSlug: offer.Organisation.Slug,
				InviterID: offer.Inviter.ProviderID,
			}, err
		},
	})
	if err != nil {
		return identityResult{}, err
	}
	provider, err := oidc.New(oidc.Options{
		Issuer: dev.Issuer(), Audiences: p.Config.IdentityAudience, AuthorizedParties: p.Config.IdentityParties,
		Clock: p.Clock,
	})
	if err != nil {
		return identityResult{}, err
	}
	return identityResult{
		Tokens: provider, SignIn: provider.ByCode(devidp.ClientID, ""),
		InviteURL: dev.InviteURL, Mounts: mounts{devidp.Prefix: dev}, Page: signInPage(dev.SignInURL()),
	}, nil
}

// webhookSigning are the secrets of the identity provider's messages.
type webhookSigning []string

func chooseIdentityEvents(config.Config) choice {
	return choice{group: "IdentityEvents", adapter: "`standardwebhooks`", option: fx.Provide(
		func(c config.Config, s ports.Secrets) (webhookSigning, error) {
			return webhookSecrets(c.IdentityWebhooks, c, "identity-webhook-secret", func() string { return toStandardBase64(s.Secret()) })
		},
		func(s webhookSigning, clock ports.Clock) (ports.IdentityEvents, error) {
			events, err := standardwebhooks.New(s, clock)
			if err != nil {
				return nil, fmt.Errorf("COLLAB_IDENTITY_WEBHOOK_SECRETS: %w", err)
			}
			return events, nil
		},
	)}
}

// publicKeys is the JSON key set of service tokens.
type publicKeys []byte

func chooseServiceTokens(c config.Config) choice {
	load := func(c config.Config, base publicURL) (ports.ServiceTokens, publicKeys, error) {
		k, err := keys(c.TokenKeys, filepath.Join(c.DataDir, "token-keys.pem"), servicetoken.Generate, servicetoken.Parse)
		if err != nil {
			return nil, nil, fmt.Errorf("COLLAB_TOKEN_KEYS: %w", err)
		}
		t := servicetoken.New(k, string(base))
		return t, t.JWKS(), nil
	}
	return choice{group: "ServiceTokens", adapter: "`servicetoken`, keys " + keySource(c.TokenKeys), variable: "COLLAB_TOKEN_KEYS", option: fx.Provide(load)}
}

func chooseSealing(c config.Config) choice {
	load := func(c config.Config) (ports.Sealer, error) {
		v, err := keys(c.SecretsKeys, filepath.Join(c.DataDir, "secrets-keys.json"), vault.Generate, vault.New)
		if err != nil {
			return nil, fmt.Errorf("COLLAB_SECRETS_KEYS: %w", err)
		}
		return v, nil
	}
	return choice{group: "Sealer", adapter: "`vault`, keyset " + keySource(c.SecretsKeys), variable: "COLLAB_SECRETS_KEYS", option: fx.Provide(load)}
}

func keySource(path string) string {
	if path == "" {
		return "created at first start"
	}
	return "from a file"
}

func chooseSystem(c config.Config) choice {
	ch := choice{group: "Clock, Alarms, IDs, Secrets", adapter: "`system`", option: fx.Provide(
		func() machineClock { return machineClock{system.Clock{}} },
		newClock,
		func() ports.Alarms { return system.Alarms{} },
		func() ports.IDs { return system.IDs{} },
		func() ports.Secrets { return system.Secrets{} },
	)}
	if c.Database() == "postgres" {
		ch.adapter += ", its clock corrected by the database's"
	}
	return ch
}

// publicURL is the address that clients use, without a trailing slash.
type publicURL string

// listen listens on the configured address. It runs first, so that a taken port is reported
// before other errors, and other adapters know a port that the system chose.
func listen(c config.Config) (net.Listener, publicURL, error) {
	l, err := net.Listen("tcp", string(c.Listen))
	if err != nil {
		return nil, "", fmt.Errorf("COLLAB_LISTEN: %w", err)
	}
	if c.PublicURL.IsSet() {
		return l, publicURL(c.PublicURL.Text()), nil
	}
	address, host := l.Addr().(*net.TCPAddr), "localhost"
	if ip := address.IP.String(); !address.IP.IsUnspecified() && ip != "127.0.0.1" {
		host = ip // localhost need not lead to it
	}
	return l, publicURL("http://" + net.JoinHostPort(host, strconv.Itoa(address.Port))), nil
}

func chooseMail(c config.Config) choice {
	ch := choice{group: "Mailer", variable: "COLLAB_SMTP_URL"}
	if !c.SMTPURL.IsSet() {
		ch.adapter = "`mail`, into a file"
		ch.option = fx.Provide(func(c config.Config, log *slog.Logger, clock ports.Clock) ports.Mailer {
			return mail.NewFile(filepath.Join(c.DataDir, "mail.log"), log, clock)
		})
		return ch
	}
	ch.adapter = "`mail`, over SMTP"
	ch.option = fx.Provide(func(lc fx.Lifecycle, c config.Config, log *slog.Logger, clock ports.Clock) (ports.Mailer, error) {
		m, err := mail.NewSMTP(mail.Options{URL: c.SMTPURL.Text(), From: c.MailFrom, Log: log, Clock: clock})
		if err != nil {
			return nil, err // it names the variable
		}
		lc.Append(fx.StopHook(drainHook(mailTimeout, m.Close, log.Error, "e-mail queue not drained")))
		return m, nil
	})
	return ch
}
