package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/adapters/standardwebhooks"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

// WebhookSecret signs the identity provider's messages.
const WebhookSecret = "whsec_c2VjcmV0LW9mLXRoZS1vZmZsaW5lLWhhcm5lc3M="

// Receive has the server receive a message of the identity provider, which is signed
// at this moment.
func (w *World) Receive(ctx context.Context, id string, body []byte) error {
	now := w.Clock.Now()
	signature, err := standardwebhooks.Sign(WebhookSecret, id, now, body)
	if err != nil {
		return err
	}
	headers := map[string]string{"svix-id": id, "svix-timestamp": strconv.FormatInt(now.Unix(), 10), "svix-signature": signature}
	return w.Webhooks.Identity(ctx, func(name string) string { return headers[name] }, body)
}

// tokenLifetime is how long the identity provider's tokens are good for.
const tokenLifetime = time.Minute

// Identity is an identity provider: people have accounts there, belong to
// organisations, and get tokens.
type Identity struct {
	world    *World
	outbox   outbox
	accounts map[string]*account // by the name of the person
	tenants  map[string]*tenant  // by the provider's id
	tokens   map[string]identity.Claims
	messages int
	invited  int
	last     time.Time // of the last thing that happened
}

var _ ports.IdentityTokens = (*Identity)(nil)

// account is a person at the provider, with the application that they use.
type account struct {
	id      string // the provider's
	name    string
	email   string
	picture string
	at      *tenant            // where they are signed in; nil: nowhere
	roles   map[*tenant]string // the provider's names of their roles

	token   string // of the service; empty: they have not signed in
	expires time.Time
}

// tenant is an organisation at the provider.
type tenant struct {
	id      string
	name    string
	slug    string
	creator string
}

func newIdentity(w *World) *Identity {
	p := &Identity{world: w, accounts: map[string]*account{}, tenants: map[string]*tenant{}, tokens: map[string]identity.Claims{}}
	p.outbox.send = func(ctx context.Context, m message) error { return w.Receive(ctx, m.ID, m.body) }
	return p
}

// account returns a person's, made on demand.
func (p *Identity) account(name string) *account {
	a := p.accounts[name]
	if a == nil {
		a = &account{id: "user_" + name, name: strings.ToUpper(name[:1]) + name[1:], email: name + "@example.com", roles: map[*tenant]string{}}
		p.accounts[name] = a
	}
	return a
}

// found makes an organisation.
func (p *Identity) found(name, slug string, by *account) *tenant {
	t := &tenant{id: fmt.Sprintf("org_%d", len(p.tenants)+1), name: name, slug: slug, creator: by.id}
	p.tenants[t.id] = t
	return t
}

// newInvitation returns the id of an invitation of the provider's.
func (p *Identity) newInvitation() string {
	p.invited++
	return fmt.Sprintf("orginv_%d", p.invited)
}

// moment returns when something happens that happens now, later than all before.
func (p *Identity) moment() time.Time {
	at := p.world.Clock.Now()
	if !at.After(p.last) {
		at = p.last.Add(time.Millisecond)
	}
	p.last = at
	return at
}

// Token returns a token for who is signed in at the provider.
func (p *Identity) Token(a *account) string {
	now := p.world.Clock.Now()
	if len(p.tokens) >= maxSent {
		maps.DeleteFunc(p.tokens, func(_ string, c identity.Claims) bool { return !now.Before(c.ExpiresAt) })
	}
	c := identity.Claims{Subject: a.id, Name: a.name, Email: a.email, AvatarURL: a.picture, IssuedAt: now, ExpiresAt: now.Add(tokenLifetime)}
	if a.at != nil {
		c.Org, c.OrgRole, c.OrgSlug = a.at.id, a.roles[a.at], a.at.slug
	}
	token := "identity-token-" + p.world.secrets.Secret()
	p.tokens[token] = c
	return token
}

// Verify returns the claims of a token.
func (p *Identity) Verify(_ context.Context, token string) (identity.Claims, error) {
	c, ok := p.tokens[token]
	if !ok || !p.world.Clock.Now().Before(c.ExpiresAt) {
		return identity.Claims{}, fault.New(fault.Unauthenticated, "The token is invalid or expired")
	}
	return c, nil
}

// tell has the provider say that something happened.
func (p *Identity) tell(ctx context.Context, kind string, data map[string]any) error {
	at := p.moment()
	if _, said := data["updated_at"]; !said {
		data["updated_at"] = at.UnixMilli()
	}
	p.messages++
	m := message{ID: fmt.Sprintf("msg_%d", p.messages), Type: kind, At: at}
	var err error
	if m.body, err = json.Marshal(map[string]any{"object": "event", "type": kind, "timestamp": at.UnixMilli(), "data": data}); err != nil {
		return err
	}
	p.outbox.post(ctx, m)
	return nil
}

func (p *Identity) tellUser(ctx context.Context, kind string, a *account) error {
	first, last, _ := strings.Cut(a.name, " ")
	return p.tell(ctx, kind, map[string]any{
		"id": a.id, "first_name": first, "last_name": last, "image_url": a.picture, "primary_email_address_id": "email_1",
		"email_addresses": []map[string]any{{"id": "email_1", "email_address": a.email}},
	})
}

func (t *tenant) data() map[string]any {
	return map[string]any{"id": t.id, "name": t.name, "slug": t.slug, "created_by": t.creator}
}

func (p *Identity) tellOrg(ctx context.Context, kind string, t *tenant) error {
	return p.tell(ctx, kind, t.data())
}

func (p *Identity) tellMember(ctx context.Context, kind string, t *tenant, a *account, role string) error {
	first, last, _ := strings.Cut(a.name, " ")
	return p.tell(ctx, kind, map[string]any{
		"id": "orgmem_" + t.id + a.id, "role": role, "organization": t.data(), "created_at": p.world.Clock.Now().UnixMilli(),
		"public_user_data": map[string]any{"user_id": a.id, "first_name": first, "last_name": last, "identifier": a.email, "image_url": a.picture},
	})
}

func (p *Identity) tellInvitation(ctx context.Context, kind string, t *tenant, invitation, email, role string, by *account) error {
	data := map[string]any{"id": invitation, "email_address": email, "role": role, "organization_id": t.id, "public_organization_data": t.data()}
	if by != nil {
		data["inviter_id"] = by.id
	}
	return p.tell(ctx, kind, data)
}

// join makes somebody a member.
func (p *Identity) join(ctx context.Context, t *tenant, a *account, role string) error {
	kind := "organizationMembership.created"
	if a.roles[t] != "" {
		kind = "organizationMembership.updated"
	}
	a.roles[t] = role
	a.enter(t)
	return p.tellMember(ctx, kind, t, a, role)
}

// enter has the account work in an organisation from now on.
func (a *account) enter(t *tenant) {
	if a.at != t {
		a.at, a.token = t, ""
	}
}

// tenantOf returns the provider's side of an organisation, by our id.
func (p *Identity) tenantOf(ctx context.Context, ours string) (*tenant, error) {
	o, err := p.world.Store.Directory().Organisations().Get(ctx, id.Org(ours))
	if err != nil {
		return nil, err
	}
	if t := p.tenants[o.ProviderID]; t != nil {
		return t, nil
	}
	return nil, fault.Missing("Organisation")
}

// accountOf returns the provider's side of a user, by our id or by the name.
func (p *Identity) accountOf(ctx context.Context, ours string) (*account, error) {
	if a := p.accounts[ours]; a != nil {
		return a, nil
	}
	u, err := p.world.Store.Directory().Users().Get(ctx, id.User(ours))
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.accounts)) {
		if a := p.accounts[name]; a.id == u.ProviderID {
			return a, nil
		}
	}
	return nil, fault.Missing("User")
}

// userOf returns the id of the user whose name somebody has in the scenario.
func (w *World) userOf(name string) (string, bool) {
	a := w.Identity.accounts[name]
	if a == nil {
		return "", false
	}
	u, err := w.Store.Directory().Users().ByProvider(context.Background(), a.id)
	return string(u.ID), err == nil
}

// people returns everybody's name by the id of their user.
func (w *World) people() map[string]string {
	all := make(map[string]string, len(w.Identity.accounts))
	for name := range w.Identity.accounts {
		if user, ok := w.userOf(name); ok {
			all[user] = name
		}
	}
	return all
}

// roleName is the provider's name of a role.
func roleName(r string) string {
	if _, ours := org.ParseRole(r); ours {
		return "org:" + strings.ToLower(r)
	}
	return r
}
