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

// redeemTimeout bounds the exchange of a code or refresh token and storing its result.
const redeemTimeout = 30 * time.Second

// Authorization is a started authorization.
type Authorization struct {
	URL      string // of the confirmation page, which its user has to open
	State    string
	Instance id.Connector
}

// Start begins an authorization for an instance, or for one of the provider: the actor's
// own that is disconnected, or a new one. Exactly one of instance and provider is not
// empty.
func (s *Connectors) Start(ctx context.Context, actor org.Actor, instance id.Connector, provider string) (Authorization, error) {
	if err := actor.CheckWrite(); err != nil {
		return Authorization{}, err
	}
	if (instance == "") == (provider == "") {
		return Authorization{}, fault.Field("instanceId", "or providerId must be given, and not both")
	}
	target, isNew, err := s.instanceToAuthorize(ctx, actor, instance, provider)
	if err != nil {
		return Authorization{}, err
	}
	p, ok := s.Catalog.Get(target.Provider)
	if !ok || !p.Auth.UsesOAuth() {
		field := "instanceId"
		if provider != "" {
			field = "providerId"
		}
		return Authorization{}, fault.Field(field, "must be of a provider that is authorised by OAuth")
	}
	server, err := s.Authorizer.Discover(ctx, p, target.WithServerOf(p).URL)
	if err != nil {
		return Authorization{}, asUnavailable(err)
	}
	client, err := s.client(ctx, server)
	if err != nil {
		return Authorization{}, err
	}
	state := s.Secrets.Secret()
	digest := id.Digest(state)
	verifier, err := s.Sealer.Seal([]byte(s.Secrets.Secret()), connector.FlowContext(digest))
	if err != nil {
		return Authorization{}, err
	}
	flow := connector.Flow{
		State: digest, Org: actor.Org, User: actor.User, Instance: target.ID, Server: server,
		Client: client.ID, Redirect: client.Redirect, Verifier: verifier,
	}.Started(s.Clock.Now())
	if isNew {
		err = s.Locked(ctx, actor, func(r ports.Records, actor org.Actor) error {
			if err := s.add(ctx, r, actor, target); err != nil {
				return err
			}
			return r.Connections().Flows().Add(ctx, flow)
		})
	} else {
		err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
			if err := actor.CheckWrite(); err != nil {
				return err
			}
			return r.Connections().Flows().Add(ctx, flow)
		})
	}
	if err != nil {
		return Authorization{}, err
	}
	return Authorization{URL: s.Page + "?state=" + url.QueryEscape(state), State: state, Instance: target.ID}, nil
}

// instanceToAuthorize returns the instance to authorise; isNew reports that it is not stored yet.
func (s *Connectors) instanceToAuthorize(
	ctx context.Context, actor org.Actor, instance id.Connector, provider string,
) (target connector.Instance, isNew bool, err error) {
	if provider == "" {
		target, err = s.Store.Connections().Connectors().Get(ctx, actor.Org, instance)
		if fault.Is(err, fault.NotFound) {
			err = fault.Field("instanceId", "must be a connector of the organisation")
		}
		return target, false, err
	}
	var existing *connector.Instance
	err = s.Store.Connections().Connectors().List(ctx, actor.Org, id.Position[id.Connector]{}, 0, func(i connector.Instance) error {
		if existing == nil && i.Provider == provider && i.CreatedBy == actor.User && i.Status() == connector.Disconnected {
			existing = &i
		}
		return nil
	})
	if err != nil {
		return target, false, err
	}
	if existing != nil {
		return *existing, false, nil
	}
	target, err = s.draft(actor, connector.Draft{Provider: provider})
	return target, true, err
}

// asUnavailable turns Forbidden of an authorization server into Unavailable, because the
// caller did nothing that is forbidden.
func asUnavailable(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.Forbidden {
		return fault.Wrap(fault.Unavailable, f.Cause, "%s", f.Message)
	}
	return err
}

// client returns our client at an authorization server: one that an operator configured,
// the one that our client document describes, or a registered one, which is stored for
// later authorizations.
func (s *Connectors) client(ctx context.Context, server connector.AuthServer) (connector.Client, error) {
	if c, ok := s.knownClient(server); ok {
		return c, nil
	}
	if registered, err := s.registeredClient(ctx, server.Issuer); err == nil || !fault.Is(err, fault.NotFound) {
		return registered, err
	}
	if server.Registration == "" {
		return connector.Client{}, fault.New(fault.Conflict, "The provider's authorization server accepts only clients that an operator has registered")
	}
	// Concurrent calls on this server register one client.
	unlock, err := s.lockIssuer(ctx, server.Issuer)
	if err != nil {
		return connector.Client{}, err
	}
	defer unlock()
	if registered, err := s.registeredClient(ctx, server.Issuer); err == nil || !fault.Is(err, fault.NotFound) {
		return registered, err
	}
	redirect := connector.Redirect(s.Callback, server.Issuer)
	registered, expires, err := s.Authorizer.Register(ctx, server, redirect)
	if err != nil {
		return connector.Client{}, asUnavailable(err)
	}
	r := connector.Registered{
		Issuer: server.Issuer, Redirect: redirect, ID: registered.ID, Method: registered.Method, ExpiresAt: expires,
		UsedAt: s.Clock.Now(),
	}
	if registered.Secret != "" {
		if r.Secret, err = s.Sealer.Seal([]byte(registered.Secret), connector.RegisteredContext(r.Issuer, r.ID)); err != nil {
			return connector.Client{}, err
		}
	}
	stored, err := s.Store.Connections().Clients().Put(ctx, r, s.Clock.Now().Add(connector.FlowLifetime))
	if err != nil {
		return connector.Client{}, err
	}
	return s.openClient(stored)
}

// knownClient returns the client that an operator configured for the authorization server,
// or the one that our client document describes, if the server reads such documents.
func (s *Connectors) knownClient(server connector.AuthServer) (connector.Client, bool) {
	if c, ok := s.Catalog.Client(server.Issuer); ok {
		c.Redirect = connector.Redirect(s.Callback, server.Issuer)
		return c, true
	}
	key := connector.IssuerKey(server.Issuer)
	c := connector.Client{ID: s.Document + "/" + key, Method: "none", Redirect: connector.DocumentRedirect(s.Callback, key)}
	return c, server.SupportsClientDocument() && s.Document != ""
}

// registeredClient returns the registered client of an issuer; NotFound if there is none or
// its secret expires within connector.FlowLifetime. A client whose secret cannot be
// decrypted is removed.
func (s *Connectors) registeredClient(ctx context.Context, issuer string) (connector.Client, error) {
	stored, err := s.Store.Connections().Clients().Get(ctx, issuer, connector.Redirect(s.Callback, issuer))
	if err != nil {
		return connector.Client{}, err
	}
	if stored.ExpiresAt != nil && !stored.ExpiresAt.After(s.Clock.Now().Add(connector.FlowLifetime)) {
		return connector.Client{}, fault.Missing("Client")
	}
	if used, changed := stored.Used(s.Clock.Now()); changed {
		if err := s.Store.Connections().Clients().Use(ctx, used); err != nil {
			return connector.Client{}, err // NotFound if it was removed meanwhile
		}
	}
	c, err := s.openClient(stored)
	if !isUnreadable(err) {
		return c, err
	}
	s.Log.Error("client secret unreadable, new client registered", "issuer", issuer, "error", err)
	if err := s.Store.Connections().Clients().Remove(ctx, issuer, stored.Redirect, stored.ID); err != nil {
		return connector.Client{}, err
	}
	return connector.Client{}, fault.Missing("Client")
}

// lockIssuer waits until no other call on this server registers a client at the issuer.
func (s *Connectors) lockIssuer(ctx context.Context, issuer string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		other, busy := s.registering[issuer]
		done := make(chan struct{})
		if !busy {
			s.registering[issuer] = done
		}
		s.mu.Unlock()
		if !busy {
			return func() {
				s.mu.Lock()
				delete(s.registering, issuer)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *Connectors) openClient(r connector.Registered) (connector.Client, error) {
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

// clientOf returns the client that a flow began with. Its secret may be about to expire.
func (s *Connectors) clientOf(ctx context.Context, f connector.Flow) (connector.Client, error) {
	if c, ok := s.knownClient(f.Server); ok && c.ID == f.Client && c.Redirect == f.Redirect {
		return c, nil
	}
	stored, err := s.Store.Connections().Clients().Get(ctx, f.Server.Issuer, connector.Redirect(s.Callback, f.Server.Issuer))
	switch {
	case err == nil && stored.ID == f.Client && stored.Redirect == f.Redirect:
		return s.openClient(stored)
	case err == nil || fault.Is(err, fault.NotFound):
		err = fault.New(fault.Conflict, "The authorization has to be started again, because this service's client at the provider has changed")
	}
	return connector.Client{}, err
}

// Confirmation has the texts of the confirmation page.
type Confirmation struct {
	Label        string // the connector's
	Provider     string // the provider's name
	Host         string // of the authorization server's page
	Server       string // the host of the tool server, which receives the access token
	Person       string // the name of the user who started it
	Email        string // may be empty
	Organisation string
}

// Confirmation returns the texts of the confirmation page of the flow, or NotFound unless the flow is
// pending.
func (s *Connectors) Confirmation(ctx context.Context, state string) (Confirmation, error) {
	f, err := s.flow(ctx, state)
	if err != nil {
		return Confirmation{}, err
	}
	i, err := s.Store.Connections().Connectors().Get(ctx, f.Org, f.Instance)
	if err != nil {
		return Confirmation{}, err
	}
	user, err := s.Store.Directory().Users().Get(ctx, f.User)
	if err != nil {
		return Confirmation{}, err
	}
	o, err := s.Store.Directory().Organisations().Get(ctx, f.Org)
	if err != nil {
		return Confirmation{}, err
	}
	a := Confirmation{
		Label: i.Label, Provider: i.Provider, Host: hostOf(f.Server.Authorization), Server: hostOf(s.present(i).URL),
		Person: user.Name, Email: user.Email, Organisation: o.Name,
	}
	if p, ok := s.Catalog.Get(i.Provider); ok {
		a.Provider = p.Name
	}
	return a, nil
}

// hostOf returns the host of an address with its port, empty if it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (s *Connectors) flow(ctx context.Context, state string) (connector.Flow, error) {
	f, err := s.Store.Connections().Flows().Get(ctx, id.Digest(state))
	if err != nil {
		return f, err
	}
	return f, f.CheckOpen(s.Clock.Now())
}

// Confirm stores that the flow was confirmed in a browser with the secret browser, which
// Finish requires. It returns the address of the authorization server's page.
func (s *Connectors) Confirm(ctx context.Context, state, browser string) (page string, err error) {
	f, err := s.flow(ctx, state)
	if err != nil {
		return "", err
	}
	client, err := s.clientOf(ctx, f)
	if err != nil {
		return "", err
	}
	verifier, err := s.unseal(f.Verifier, connector.FlowContext(f.State))
	if err != nil {
		return "", err
	}
	if page, err = s.Authorizer.AuthCodeURL(f.Server, client, f.Redirect, state, string(verifier)); err != nil {
		return "", asUnavailable(err)
	}
	_, err = s.Store.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) {
		return f.Confirmed(id.Digest(browser), s.Clock.Now())
	})
	return page, err
}

// Decline ends a flow whose user declined on the confirmation page.
func (s *Connectors) Decline(ctx context.Context, state string) error {
	_, err := s.Store.Connections().Flows().Update(ctx, id.Digest(state), func(f connector.Flow) (connector.Flow, error) {
		return f.Declined(s.Clock.Now())
	})
	return err
}

// AuthorizationResponse is an authorization response.
type AuthorizationResponse struct {
	State    string
	Code     string
	Error    string // the error code, if there is no code
	Issuer   string // empty: not given
	Redirect string // our address that received it
}

// Finish takes an authorization response from a browser with the secret of Confirm, redeems
// its code and stores the credentials. An error after the response was accepted is stored
// in the flow, for Poll.
func (s *Connectors) Finish(ctx context.Context, a AuthorizationResponse, browser string) error {
	// The code can be used once, so a client that disconnects does not cancel this.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redeemTimeout)
	defer cancel()
	f, err := s.Store.Connections().Flows().Update(ctx, id.Digest(a.State), func(f connector.Flow) (connector.Flow, error) {
		return f.Redeemed(id.Digest(browser), s.Clock.Now())
	})
	if err != nil {
		return err
	}
	if err = s.redeem(ctx, f, a); err == nil {
		s.wake()
		return nil
	}
	reason := "The authorization failed"
	if fe, ok := errors.AsType[*fault.Error](err); ok && fe.Kind != fault.Internal {
		reason = fe.Message
	}
	s.Log.Warn("connector authorization failed", "instance", string(f.Instance), "org", string(f.Org), "error", err)
	_, updateErr := s.Store.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) {
		return f.Failed(reason), nil
	})
	return errors.Join(err, updateErr)
}

// redeem exchanges the code of a response and stores the credentials.
func (s *Connectors) redeem(ctx context.Context, f connector.Flow, a AuthorizationResponse) error {
	if err := f.CheckResponse(a.Redirect, a.Issuer); err != nil {
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
	if err := actor.CheckWrite(); err != nil {
		return err
	}
	client, err := s.clientOf(ctx, f)
	if err != nil {
		return err
	}
	verifier, err := s.unseal(f.Verifier, connector.FlowContext(f.State))
	if err != nil {
		return err
	}
	c, err := s.Authorizer.Exchange(ctx, f.Server, client, f.Redirect, a.Code, string(verifier))
	if err != nil {
		return errors.Join(err, s.forgetClient(ctx, err))
	}
	err = s.Atomic(ctx, actor, func(r ports.Records, actor org.Actor) error {
		if err := actor.CheckWrite(); err != nil {
			return err
		}
		if _, err := s.replaceCredentials(ctx, r, f.Org, f.Instance, c); err != nil {
			return err
		}
		_, err := r.Connections().Flows().Update(ctx, f.State, func(f connector.Flow) (connector.Flow, error) {
			return f.Done(), nil
		})
		if err != nil {
			return err
		}
		return s.audit(ctx, r, actor, audit.ConnectorAuthorised, f.Instance, "")
	})
	if err == nil {
		return nil
	}
	if current, err := s.Store.Connections().Flows().Get(ctx, f.State); err == nil && current.Status() == connector.Ready {
		return nil // only the result of the commit was lost
	}
	return errors.Join(err, s.revokeOrphan(ctx, f.Org, c))
}

// forgetClient removes a registered client if err is a connector.UnknownClient, so that the
// next authorization registers another.
func (s *Connectors) forgetClient(ctx context.Context, err error) error {
	unknown, ok := errors.AsType[*connector.UnknownClient](err)
	if !ok {
		return nil
	}
	return s.Store.Connections().Clients().Remove(ctx, unknown.Issuer, connector.Redirect(s.Callback, unknown.Issuer), unknown.Client)
}

// Poll returns an authorization to the user who started it, until its lifetime ends; else
// NotFound.
func (s *Connectors) Poll(ctx context.Context, actor org.Actor, state string) (connector.Flow, error) {
	if err := actor.CheckMember(); err != nil {
		return connector.Flow{}, err
	}
	f, err := s.Store.Connections().Flows().Get(ctx, id.Digest(state))
	if err != nil {
		return f, err
	}
	return f, f.CheckVisible(actor.Org, actor.User, s.Clock.Now())
}
