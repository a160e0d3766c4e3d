package connectors

import (
	"context"
	"errors"
	"net/url"
	"time"

	"collab/domain/audit"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

// redeemWithin is how long a code's exchange may take, and keeping what came of it.
const redeemWithin = 30 * time.Second

// Begun is an authorization that was started.
type Begun struct {
	URL      string // of the page that its user has to open
	State    string
	Instance id.Connector
}

// Start begins an authorization for an instance, or for one of the provider: the
// actor's own that has no credentials yet, or a new one. Exactly one of the two
// is given.
func (s *Connectors) Start(ctx context.Context, actor org.Actor, instance id.Connector, provider string) (Begun, error) {
	if err := actor.Writes(); err != nil {
		return Begun{}, err
	}
	if (instance == "") == (provider == "") {
		return Begun{}, fault.Field("instanceId", "or providerId must be given, and not both")
	}
	of, made, err := s.subject(ctx, actor, instance, provider)
	if err != nil {
		return Begun{}, err
	}
	p, ok := s.Catalog.Get(of.Provider)
	if !ok || !p.Auth.ByOAuth() {
		field := "instanceId"
		if provider != "" {
			field = "providerId"
		}
		return Begun{}, fault.Field(field, "must be of a provider that is authorised by OAuth")
	}
	server, err := s.Authorizer.Discover(ctx, p, of.URL)
	if err != nil {
		return Begun{}, unanswered(err)
	}
	client, err := s.client(ctx, server)
	if err != nil {
		return Begun{}, err
	}
	state := s.Secrets.Secret()
	digest := connector.Digest(state)
	verifier, err := s.Sealer.Seal([]byte(s.Secrets.Secret()), connector.FlowContext(digest))
	if err != nil {
		return Begun{}, err
	}
	flow := connector.Flow{
		State: digest, Org: actor.Org, User: actor.User, Instance: of.ID, Server: server, Client: client.ID, Redirect: client.Redirect, Verifier: verifier,
	}.Started(s.Clock.Now())
	if made {
		err = s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
			if err := s.add(ctx, r, actor, of); err != nil {
				return err
			}
			return r.Connections().Flows().Add(ctx, flow)
		})
	} else {
		err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
			if err := actor.Writes(); err != nil {
				return err
			}
			return r.Connections().Flows().Add(ctx, flow)
		})
	}
	if err != nil {
		return Begun{}, err
	}
	return Begun{URL: s.Page + "?state=" + url.QueryEscape(state), State: state, Instance: of.ID}, nil
}

// subject finds the instance that is to be authorised, or makes one that is not
// kept yet.
func (s *Connectors) subject(ctx context.Context, actor org.Actor, instance id.Connector, provider string) (of connector.Instance, made bool, err error) {
	if provider == "" {
		of, err = s.Store.Connections().Connectors().Get(ctx, actor.Org, instance)
		if fault.Is(err, fault.NotFound) {
			err = fault.Field("instanceId", "must be a connector of the organisation")
		}
		return of, false, err
	}
	var there *connector.Instance
	err = s.Store.Connections().Connectors().List(ctx, actor.Org, connector.Position{}, 0, func(i connector.Instance) error {
		if there == nil && i.Provider == provider && i.CreatedBy == actor.User && i.Status() == connector.Disconnected {
			there = &i
		}
		return nil
	})
	if err != nil {
		return of, false, err
	}
	if there != nil {
		return *there, false, nil
	}
	of, err = s.draft(actor, connector.Draft{Provider: provider})
	return of, true, err
}

// unanswered makes a dependency's refusal one that is not the caller's.
func unanswered(err error) error {
	var f *fault.Error
	if errors.As(err, &f) && f.Kind == fault.Forbidden {
		return fault.Wrap(fault.Unavailable, f.Cause, "%s", f.Message)
	}
	return err
}

// client finds how an authorization server knows us: by a client that an operator
// made there, by the document that describes us, or by a client that is registered
// now and kept for everybody who comes after.
func (s *Connectors) client(ctx context.Context, server connector.AuthServer) (connector.Client, error) {
	if c, ok := s.named(server); ok {
		return c, nil
	}
	if kept, err := s.lasting(ctx, server.Issuer); err == nil || !fault.Is(err, fault.NotFound) {
		return kept, err
	}
	if server.Registration == "" {
		return connector.Client{}, fault.New(fault.Conflict, "The provider's authorization server takes only clients that an operator has registered there")
	}
	// Of those who ask this server at once, one registers a client.
	done, err := s.turn(ctx, server.Issuer)
	if err != nil {
		return connector.Client{}, err
	}
	defer done()
	if kept, err := s.lasting(ctx, server.Issuer); err == nil || !fault.Is(err, fault.NotFound) {
		return kept, err
	}
	redirect := connector.Redirect(s.Callback, server.Issuer)
	made, expires, err := s.Authorizer.Register(ctx, server, redirect)
	if err != nil {
		return connector.Client{}, unanswered(err)
	}
	r := connector.Registered{Issuer: server.Issuer, Redirect: redirect, ID: made.ID, Method: made.Method, ExpiresAt: expires, UsedAt: s.Clock.Now()}
	if made.Secret != "" {
		if r.Secret, err = s.Sealer.Seal([]byte(made.Secret), connector.RegisteredContext(r.Issuer, r.ID)); err != nil {
			return connector.Client{}, err
		}
	}
	kept, err := s.Store.Connections().Clients().Put(ctx, r, s.Clock.Now().Add(connector.FlowLifetime))
	if err != nil {
		return connector.Client{}, err
	}
	return s.known(kept)
}

// named returns the client by which an authorization server knows us without
// having made it for us.
func (s *Connectors) named(server connector.AuthServer) (connector.Client, bool) {
	if c, ok := s.Catalog.Client(server.Issuer); ok {
		c.Redirect = connector.Redirect(s.Callback, server.Issuer)
		return c, true
	}
	key := connector.IssuerKey(server.Issuer)
	c := connector.Client{ID: s.Document + "/" + key, Method: "none", Redirect: connector.DocumentRedirect(s.Callback, key)}
	return c, server.TakesDocuments() && s.Document != ""
}

// lasting returns the registered client of an issuer; NotFound unless its secret
// lasts for as long as an authorization. One whose secret cannot be opened is
// forgotten.
func (s *Connectors) lasting(ctx context.Context, issuer string) (connector.Client, error) {
	kept, err := s.Store.Connections().Clients().Get(ctx, issuer, connector.Redirect(s.Callback, issuer))
	if err != nil {
		return connector.Client{}, err
	}
	if kept.ExpiresAt != nil && !kept.ExpiresAt.After(s.Clock.Now().Add(connector.FlowLifetime)) {
		return connector.Client{}, fault.Missing("Client")
	}
	if used, worth := kept.Used(s.Clock.Now()); worth {
		if err := s.Store.Connections().Clients().Use(ctx, used); err != nil {
			return connector.Client{}, err // NotFound where it was forgotten just now
		}
	}
	c, err := s.known(kept)
	if !isUnreadable(err) {
		return c, err
	}
	s.Log.Error("client secret unreadable, new client registered", "issuer", issuer, "error", err)
	if err := s.Store.Connections().Clients().Remove(ctx, issuer, kept.Redirect, kept.ID); err != nil {
		return connector.Client{}, err
	}
	return connector.Client{}, fault.Missing("Client")
}

// turn waits until this server registers no other client at the issuer. It returns
// what ends the caller's turn.
func (s *Connectors) turn(ctx context.Context, issuer string) (done func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.registering[issuer]
		mine := make(chan struct{})
		if !busy {
			s.registering[issuer] = mine
		}
		s.mu.Unlock()
		if !busy {
			return func() {
				s.mu.Lock()
				delete(s.registering, issuer)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Connectors) known(r connector.Registered) (connector.Client, error) {
	c := connector.Client{ID: r.ID, Method: r.Method, Redirect: r.Redirect}
	if len(r.Secret) > 0 {
		secret, err := s.unseal(r.Secret, connector.RegisteredContext(r.Issuer, r.ID))
		if err != nil {
			return connector.Client{}, err
		}
		c.Secret = string(secret)
	}
	return c, nil
}

// same returns the client that a flow began with. Its secret may end any moment.
func (s *Connectors) same(ctx context.Context, f connector.Flow) (connector.Client, error) {
	if c, ok := s.named(f.Server); ok && c.ID == f.Client && c.Redirect == f.Redirect {
		return c, nil
	}
	kept, err := s.Store.Connections().Clients().Get(ctx, f.Server.Issuer, connector.Redirect(s.Callback, f.Server.Issuer))
	switch {
	case err == nil && kept.ID == f.Client && kept.Redirect == f.Redirect:
		return s.known(kept)
	case err == nil || fault.Is(err, fault.NotFound):
		err = fault.New(fault.Conflict, "The authorization has to be started again, as this service is known to the provider by another name now")
	}
	return connector.Client{}, err
}

// Asked is what people are asked to confirm.
type Asked struct {
	Label        string // the connector's
	Provider     string // the provider's name
	Host         string // where they would be sent
	Person       string // who began it
	Email        string // may be empty
	Organisation string
}

// Asked returns what the flow with the state is about. NotFound unless it waits
// for its user.
func (s *Connectors) Asked(ctx context.Context, state string) (Asked, error) {
	f, err := s.flow(ctx, state)
	if err != nil {
		return Asked{}, err
	}
	i, err := s.Store.Connections().Connectors().Get(ctx, f.Org, f.Instance)
	if err != nil {
		return Asked{}, err
	}
	user, err := s.Store.Directory().Users().Get(ctx, f.User)
	if err != nil {
		return Asked{}, err
	}
	o, err := s.Store.Directory().Organisations().Get(ctx, f.Org)
	if err != nil {
		return Asked{}, err
	}
	a := Asked{Label: i.Label, Provider: i.Provider, Person: user.Name, Email: user.Email, Organisation: o.Name}
	if p, ok := s.Catalog.Get(i.Provider); ok {
		a.Provider = p.Name
	}
	if u, err := url.Parse(f.Server.Authorization); err == nil {
		a.Host = u.Host
	}
	return a, nil
}

func (s *Connectors) flow(ctx context.Context, state string) (connector.Flow, error) {
	f, err := s.Store.Connections().Flows().Get(ctx, connector.Digest(state))
	if err != nil {
		return f, err
	}
	return f, f.Open(s.Clock.Now())
}

// Confirm notes that somebody agreed to go to the provider, in a browser that holds a
// secret and has to hold it still when it comes back. It returns where to send it.
func (s *Connectors) Confirm(ctx context.Context, state, browser string) (page string, err error) {
	f, err := s.flow(ctx, state)
	if err != nil {
		return "", err
	}
	client, err := s.same(ctx, f)
	if err != nil {
		return "", err
	}
	verifier, err := s.unseal(f.Verifier, connector.FlowContext(f.State))
	if err != nil {
		return "", err
	}
	if page, err = s.Authorizer.Page(f.Server, client, f.Redirect, state, string(verifier)); err != nil {
		return "", unanswered(err)
	}
	_, err = s.Store.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) {
		return f.Confirmed(connector.Digest(browser), s.Clock.Now())
	})
	return page, err
}

// Answer is what a browser brings from an authorization server.
type Answer struct {
	State    string
	Code     string
	Error    string // the error code, where there is no code
	Issuer   string // empty: not said
	Redirect string // the address of ours that it came to
}

// Finish takes a provider's answer from a browser that holds the secret of
// Confirm, and stores what its code is good for. An error that comes after the
// answer was accepted is known to clients that poll as well.
func (s *Connectors) Finish(ctx context.Context, a Answer, browser string) error {
	// The code is good for one time: nobody who closes the page keeps it from being
	// used.
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), redeemWithin)
	defer over()
	f, err := s.Store.Connections().Flows().Update(ctx, connector.Digest(a.State), func(f connector.Flow) (connector.Flow, error) {
		return f.Redeemed(connector.Digest(browser), s.Clock.Now())
	})
	if err != nil {
		return err
	}
	if err = s.redeem(ctx, f, a); err == nil {
		s.wake()
		return nil
	}
	reason := "The authorization failed"
	var fe *fault.Error
	if errors.As(err, &fe) && fe.Kind != fault.Internal {
		reason = fe.Message
	}
	s.Log.Warn("connector authorization failed", "instance", string(f.Instance), "org", string(f.Org), "error", err)
	_, noted := s.Store.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Failed(reason), nil })
	return errors.Join(err, noted)
}

// redeem exchanges the code of an answer and keeps what it gives.
func (s *Connectors) redeem(ctx context.Context, f connector.Flow, a Answer) error {
	if err := f.From(a.Redirect, a.Issuer); err != nil {
		return err
	}
	switch {
	case a.Error == "access_denied":
		return fault.New(fault.Forbidden, "The authorization was declined")
	case a.Error != "" || a.Code == "":
		return fault.New(fault.Forbidden, "The provider's authorization server refused the authorization")
	}
	actor, err := s.Reauthorize(ctx, org.Actor{Org: f.Org, User: f.User})
	if err != nil {
		return err
	}
	if err := actor.Writes(); err != nil {
		return err
	}
	client, err := s.same(ctx, f)
	if err != nil {
		return err
	}
	verifier, err := s.unseal(f.Verifier, connector.FlowContext(f.State))
	if err != nil {
		return err
	}
	c, err := s.Authorizer.Redeem(ctx, f.Server, client, f.Redirect, a.Code, string(verifier))
	if err != nil {
		return errors.Join(err, s.forget(ctx, err))
	}
	err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.Writes(); err != nil {
			return err
		}
		if _, err := s.store(ctx, r, f.Org, f.Instance, c); err != nil {
			return err
		}
		if _, err := r.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) { return f.Done(), nil }); err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.ConnectorAuthorised, f.Instance, "")
	})
	if err != nil {
		return errors.Join(err, s.disown(ctx, f.Org, c))
	}
	return nil
}

// forget forgets a registered client where err says that its authorization server
// does not know it any more, so that the next authorization registers another.
func (s *Connectors) forget(ctx context.Context, err error) error {
	var unknown *connector.UnknownClient
	if !errors.As(err, &unknown) {
		return nil
	}
	return s.Store.Connections().Clients().Remove(ctx, unknown.Issuer, connector.Redirect(s.Callback, unknown.Issuer), unknown.Client)
}

// Poll returns an authorization to who started it, for as long as its lifetime.
// NotFound to anybody else.
func (s *Connectors) Poll(ctx context.Context, actor org.Actor, state string) (connector.Flow, error) {
	if err := actor.Belongs(); err != nil {
		return connector.Flow{}, err
	}
	f, err := s.Store.Connections().Flows().Get(ctx, connector.Digest(state))
	if fault.Is(err, fault.NotFound) {
		return f, fault.Missing("Authorization")
	}
	if err != nil {
		return f, err
	}
	return f, f.Visible(actor.Org, actor.User, s.Clock.Now())
}
