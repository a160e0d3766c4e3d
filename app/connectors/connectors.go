// Package connectors has the use cases of tool servers: members create instances of the catalog's
// entries, and store credentials for them or authorise them at the provider. Servers check
// instances and renew their tokens in the background.
package connectors

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"sync"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

// Options has the dependencies and settings of the use cases.
type Options struct {
	Store      ports.Store
	Catalog    connector.Catalog
	Servers    ports.ToolServers
	Authorizer ports.Authorizer
	Sealer     ports.Sealer
	Clock      ports.Clock
	IDs        ports.IDs
	Secrets    ports.Secrets
	Log        *slog.Logger

	// Reauthorize, Locked and Atomic are those of access.Access: Reauthorize returns the actor
	// according to the present records, Locked and Atomic run fn in a transaction, with the
	// actor according to its records.
	Reauthorize    func(ctx context.Context, actor org.Actor) (org.Actor, error)
	Locked, Atomic func(ctx context.Context, actor org.Actor, fn func(ports.Records, org.Actor) error) error
	// Origin returns the origin of the request that ctx carries, for the audit log.
	Origin func(ctx context.Context) audit.Origin

	Page     string // address of our confirmation page
	Callback string // prefix of our redirect addresses, one for each issuer
	Document string // prefix of our client documents' addresses; empty if no authorization server can read them

	// Pause waits before the next attempt; attempt is 1 for the first.
	Pause func(ctx context.Context, attempt int) error
}

// Connectors are the use cases of tool servers.
type Connectors struct {
	Options
	woken chan struct{}

	mu           sync.Mutex
	running      int                      // instances and revocations being worked on; guarded by mu
	runningByOrg map[id.Org]int           // the number of them by organisation; guarded by mu
	registering  map[string]chan struct{} // by issuer, closed when registration ends; guarded by mu
	work         sync.WaitGroup
}

// New returns the use cases, with nothing running.
func New(o Options) *Connectors {
	return &Connectors{
		Options: o, woken: make(chan struct{}, 1), runningByOrg: map[id.Org]int{}, registering: map[string]chan struct{}{},
	}
}

// List calls each with the instances of the organisation by creation.
func (s *Connectors) List(ctx context.Context, actor org.Actor, after id.Position[id.Connector], limit int, each func(connector.Instance) error) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	return s.Store.Connections().Connectors().List(ctx, actor.Org, after, limit, func(i connector.Instance) error { return each(s.present(i)) })
}

// present returns an instance with the address and the transport that its provider has now.
func (s *Connectors) present(i connector.Instance) connector.Instance {
	p, ok := s.Catalog.Get(i.Provider)
	if !ok {
		return i
	}
	return i.WithServerOf(p)
}

// Create creates an instance.
func (s *Connectors) Create(ctx context.Context, actor org.Actor, d connector.Draft) (connector.Instance, error) {
	created, err := s.draft(actor, d)
	if err != nil {
		return connector.Instance{}, err
	}
	if err := s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error { return s.add(ctx, r, actor, created) }); err != nil {
		return connector.Instance{}, err
	}
	s.wake()
	return created, nil
}

// Get returns an instance.
func (s *Connectors) Get(ctx context.Context, actor org.Actor, i id.Connector) (connector.Instance, error) {
	if err := actor.CheckMember(); err != nil {
		return connector.Instance{}, err
	}
	current, err := s.Store.Connections().Connectors().Get(ctx, actor.Org, i)
	return s.present(current), err
}

// draft returns a new instance, which is not stored.
func (s *Connectors) draft(actor org.Actor, d connector.Draft) (connector.Instance, error) {
	p, ok := s.Catalog.Get(d.Provider)
	if !ok || !p.Enabled {
		return connector.Instance{}, fault.Field("providerId", "must be one of GET /connector-providers")
	}
	created, err := connector.New(cmp.Or(d.ID, id.Connector(s.IDs.New())), actor.Org, actor.User, p, d, s.Clock.Now())
	if err == nil && created.URL != p.URL {
		err = checkAddress(created.URL)
	}
	return created, err
}

// checkAddress checks the form of an address. Whether it may be called is checked when the
// connection is made.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fault.Field("config.url", "must be an https address without user and fragment")
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return fault.Field("config.url", "must have a port from 1 to 65535, or none")
	}
	return nil
}

// add stores a new instance; r holds the organisation's lock.
func (s *Connectors) add(ctx context.Context, r ports.Records, actor org.Actor, created connector.Instance) error {
	if err := actor.CheckWrite(); err != nil {
		return err
	}
	count := 0
	err := r.Connections().Connectors().List(ctx, actor.Org, id.Position[id.Connector]{}, 0, func(connector.Instance) error {
		count++
		return nil
	})
	if err != nil {
		return err
	}
	if count >= connector.MaxInstances {
		return fault.New(fault.Conflict, "An organisation has at most %d connectors", connector.MaxInstances)
	}
	if err := r.Connections().Connectors().Add(ctx, actor.Org, created); err != nil {
		return err
	}
	return s.audit(ctx, r, actor, audit.ConnectorCreated, created.ID, created.Provider)
}

func (s *Connectors) audit(ctx context.Context, r ports.Records, actor org.Actor, action audit.Action, i id.Connector, detail string) error {
	entry := audit.By(actor, s.Origin(ctx), id.Entry(s.IDs.New()), actor.Org, action, string(i), detail, s.Clock.Now())
	return r.Journal().Audit().Add(ctx, entry)
}

// StoreCredentials stores credentials of an instance. Entries is a JSON object, texts has its entries
// that are strings.
func (s *Connectors) StoreCredentials(
	ctx context.Context, actor org.Actor, i id.Connector, entries string, texts map[string]string,
) (connector.Instance, error) {
	if err := actor.CheckWrite(); err != nil {
		return connector.Instance{}, err
	}
	stored, err := s.Store.Connections().Connectors().Get(ctx, actor.Org, i)
	if err != nil {
		return connector.Instance{}, err
	}
	p, ok := s.Catalog.Get(stored.Provider)
	if !ok {
		return connector.Instance{}, fault.New(fault.Conflict, "The connector's provider is no longer in the catalog")
	}
	if len(entries) > connector.MaxCredentials {
		return connector.Instance{}, fault.Field("credentials", "must be at most %d bytes", connector.MaxCredentials)
	}
	if err := p.CheckCredentials(texts); err != nil {
		return connector.Instance{}, err
	}
	var current connector.Instance
	err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) (err error) {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		if current, err = s.replaceCredentials(ctx, r, actor.Org, i, connector.Credentials{Entries: entries}); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.CredentialsStored, i, "")
	})
	if err != nil {
		return connector.Instance{}, err
	}
	s.wake()
	return current.WithServerOf(p), nil
}

// checkReader returns an error unless the actor may read credentials.
func checkReader(actor org.Actor) error {
	if err := actor.CheckMember(); err != nil {
		return err
	}
	if !actor.Role.MayWrite() {
		return fault.New(fault.Forbidden, "A VIEWER may not read credentials")
	}
	return nil
}

// Read returns the credentials of an instance and records that in the audit log. An expired
// access token is renewed before, if possible.
func (s *Connectors) Read(ctx context.Context, actor org.Actor, i id.Connector) (connector.Credentials, error) {
	if err := checkReader(actor); err != nil {
		return connector.Credentials{}, err
	}
	if err := s.ensureFresh(ctx, actor.Org, i); err != nil {
		return connector.Credentials{}, err
	}
	var c connector.Credentials
	err := s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := checkReader(actor); err != nil {
			return err
		}
		// Locked, so that instance and credentials are of one version.
		current, err := r.Connections().Connectors().Update(ctx, actor.Org, i, func(i connector.Instance) (connector.Instance, error) {
			return i.Used(s.Clock.Now()), nil
		})
		if err != nil {
			return err
		}
		if c, err = s.openCredentials(ctx, r, current); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.CredentialsRead, i, "")
	})
	return c, err
}

// Delete removes an instance with its credentials. Its authorization is revoked in the
// background.
func (s *Connectors) Delete(ctx context.Context, actor org.Actor, i id.Connector) error {
	err := s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		instance, err := lockInstance(ctx, r, actor.Org, i)
		if err != nil {
			return err
		}
		if err := s.revokeAuthorization(ctx, r, instance); err != nil {
			return err
		}
		if err := r.Connections().Connectors().Remove(ctx, actor.Org, i); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.ConnectorDeleted, i, instance.Provider)
	})
	if err != nil {
		return err
	}
	s.wake()
	return nil
}

// RevokeAll has the authorizations of an organisation revoked after r's transaction, which
// erases its instances, is committed. R holds the organisation's lock, so that no instance
// is added meanwhile.
func (s *Connectors) RevokeAll(ctx context.Context, r ports.Records, o id.Org) error {
	var all []id.Connector
	err := r.Connections().Connectors().List(ctx, o, id.Position[id.Connector]{}, 0, func(i connector.Instance) error {
		all = append(all, i.ID)
		return nil
	})
	if err != nil {
		return err
	}
	for _, i := range all {
		instance, err := lockInstance(ctx, r, o, i)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			err = s.revokeAuthorization(ctx, r, instance)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// revokeAuthorization stores a revocation of the authorization of an instance, if it has one.
// R holds the lock of the instance.
func (s *Connectors) revokeAuthorization(ctx context.Context, r ports.Records, i connector.Instance) error {
	if i.Version == 0 {
		return nil
	}
	c, err := s.openCredentials(ctx, r, i)
	switch {
	case isUnreadable(err):
		// The token can be neither revoked nor used.
		s.Log.Error("authorization revocation skipped", "instance", string(i.ID), "org", string(i.Org), "error", err)
	case err != nil:
		return err
	}
	return s.revokeLater(ctx, r, i.Org, i.ID, c)
}
