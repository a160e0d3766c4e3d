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

// webhookSecret signs the identity provider's messages.
const webhookSecret = "whsec_c2VjcmV0LW9mLXRoZS1vZmZsaW5lLWhhcm5lc3M="

// Receive passes a message of the identity provider to the server, signed at the clock's time.
func (w *Deployment) Receive(ctx context.Context, id string, body []byte) error {
	now := w.Clock.Now()
	signature, err := standardwebhooks.Sign(webhookSecret, id, now, body)
	if err != nil {
		return err
	}
	headers := map[string]string{"svix-id": id, "svix-timestamp": strconv.FormatInt(now.Unix(), 10), "svix-signature": signature}
	return w.Webhooks.Identity(ctx, func(name string) string { return headers[name] }, body, enter)
}

// enter accepts every message.
func enter(context.Context, string) error { return nil }

// tokenLifetime is how long the identity provider's tokens are valid.
const tokenLifetime = time.Minute

// Identity is an identity provider: accounts, organisations, memberships and tokens.
type Identity struct {
	Queue         WebhookQueue
	Accounts      map[string]*Account      // by the person's name
	Organisations map[string]*Organisation // by the provider's id

	deployment *Deployment
	tokens     map[string]identity.Claims
	messages   int
	invited    int
	last       time.Time // of the last event
}

var _ ports.IdentityTokens = (*Identity)(nil)

// Account is a person at the provider.
type Account struct {
	ID     string // the provider's
	Name   string
	Email  string
	Avatar string
	Active *Organisation            // that tokens are issued for; nil: none
	Roles  map[*Organisation]string // in the provider's words
}

// Organisation is an organisation at the provider.
type Organisation struct {
	ID        string
	Name      string
	Slug      string
	CreatedBy string
}

func newIdentity(w *Deployment) *Identity {
	p := &Identity{deployment: w, Accounts: map[string]*Account{}, Organisations: map[string]*Organisation{}, tokens: map[string]identity.Claims{}}
	p.Queue.send = func(ctx context.Context, m Message) error { return w.Receive(ctx, m.ID, m.body) }
	return p
}

// AddAccount adds an account.
func (p *Identity) AddAccount(name string) *Account {
	a := &Account{ID: "user_" + name, Name: strings.ToUpper(name[:1]) + name[1:], Email: name + "@example.com", Roles: map[*Organisation]string{}}
	p.Accounts[name] = a
	return a
}

// AddOrganisation adds an organisation.
func (p *Identity) AddOrganisation(name, slug string, by *Account) *Organisation {
	o := &Organisation{ID: fmt.Sprintf("org_%d", len(p.Organisations)+1), Name: name, Slug: slug, CreatedBy: by.ID}
	p.Organisations[o.ID] = o
	return o
}

// NewInvitation returns the id of another invitation.
func (p *Identity) NewInvitation() string {
	p.invited++
	return fmt.Sprintf("orginv_%d", p.invited)
}

// Token returns a token for the account.
func (p *Identity) Token(a *Account) string {
	now := p.deployment.Clock.Now()
	if len(p.tokens) >= maxDelivered {
		maps.DeleteFunc(p.tokens, func(_ string, c identity.Claims) bool { return !now.Before(c.ExpiresAt) })
	}
	c := identity.Claims{Subject: a.ID, Name: a.Name, Email: a.Email, AvatarURL: a.Avatar, IssuedAt: now, ExpiresAt: now.Add(tokenLifetime)}
	if o := a.Active; o != nil {
		c.Org, c.OrgRole, c.OrgSlug = o.ID, a.Roles[o], o.Slug
	}
	token := "identity-token-" + p.deployment.Secrets.Secret()
	p.tokens[token] = c
	return token
}

// Verify implements ports.IdentityTokens.
func (p *Identity) Verify(_ context.Context, token string) (identity.Claims, error) {
	c, ok := p.tokens[token]
	if !ok || !p.deployment.Clock.Now().Before(c.ExpiresAt) {
		return identity.Claims{}, fault.New(fault.Unauthenticated, "The token is invalid or expired")
	}
	return c, nil
}

// Send queues a message, whose event is later than all before.
func (p *Identity) Send(ctx context.Context, kind string, data map[string]any) error {
	at := p.deployment.Clock.Now()
	if !at.After(p.last) {
		at = p.last.Add(time.Millisecond)
	}
	p.last = at
	if _, dated := data["updated_at"]; !dated {
		data["updated_at"] = at.UnixMilli()
	}
	p.messages++
	m := Message{ID: fmt.Sprintf("msg_%d", p.messages), At: at}
	var err error
	if m.body, err = json.Marshal(map[string]any{"object": "event", "type": kind, "timestamp": at.UnixMilli(), "data": data}); err != nil {
		return err
	}
	p.Queue.add(ctx, m)
	return nil
}

// SendUser queues a message about an account.
func (p *Identity) SendUser(ctx context.Context, kind string, a *Account) error {
	first, last, _ := strings.Cut(a.Name, " ")
	return p.Send(ctx, kind, map[string]any{
		"id": a.ID, "first_name": first, "last_name": last, "image_url": a.Avatar, "primary_email_address_id": "email_1",
		"email_addresses": []map[string]any{{"id": "email_1", "email_address": a.Email}},
	})
}

func (o *Organisation) data() map[string]any {
	return map[string]any{"id": o.ID, "name": o.Name, "slug": o.Slug, "created_by": o.CreatedBy}
}

// SendOrganisation queues a message about an organisation.
func (p *Identity) SendOrganisation(ctx context.Context, kind string, o *Organisation) error {
	return p.Send(ctx, kind, o.data())
}

// SendMembership queues a message about a membership.
func (p *Identity) SendMembership(ctx context.Context, kind string, o *Organisation, a *Account, role string) error {
	first, last, _ := strings.Cut(a.Name, " ")
	return p.Send(ctx, kind, map[string]any{
		"id": "orgmem_" + o.ID + a.ID, "role": role, "organization": o.data(), "created_at": p.deployment.Clock.Now().UnixMilli(),
		"public_user_data": map[string]any{"user_id": a.ID, "first_name": first, "last_name": last, "identifier": a.Email, "image_url": a.Avatar},
	})
}

// SendInvitation queues a message about an invitation; by may be nil.
func (p *Identity) SendInvitation(ctx context.Context, kind string, o *Organisation, invitation, email, role string, by *Account) error {
	data := map[string]any{"id": invitation, "email_address": email, "role": role, "organization_id": o.ID, "public_organization_data": o.data()}
	if by != nil {
		data["inviter_id"] = by.ID
	}
	return p.Send(ctx, kind, data)
}

// AddMember makes the account a member of the organisation, which its tokens are issued for
// from now on.
func (p *Identity) AddMember(ctx context.Context, o *Organisation, a *Account, role string) error {
	kind := "organizationMembership.created"
	if a.Roles[o] != "" {
		kind = "organizationMembership.updated"
	}
	a.Roles[o], a.Active = role, o
	return p.SendMembership(ctx, kind, o, a, role)
}

// OrganisationOf returns the provider's side of an organisation, by our id.
func (p *Identity) OrganisationOf(ctx context.Context, ours string) (*Organisation, error) {
	o, err := p.deployment.Store.Directory().Organisations().Get(ctx, id.Org(ours))
	if err != nil {
		return nil, err
	}
	if found := p.Organisations[o.ProviderID]; found != nil {
		return found, nil
	}
	return nil, fault.Missing("Organisation")
}

// AccountOf returns the account of a user, by our id or by the person's name.
func (p *Identity) AccountOf(ctx context.Context, ours string) (*Account, error) {
	if a := p.Accounts[ours]; a != nil {
		return a, nil
	}
	u, err := p.deployment.Store.Directory().Users().Get(ctx, id.User(ours))
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.Accounts)) {
		if a := p.Accounts[name]; a.ID == u.ProviderID {
			return a, nil
		}
	}
	return nil, fault.Missing("User")
}

// UserOf returns our id of a person; found is false where there is none yet.
func (p *Identity) UserOf(name string) (user string, found bool) {
	a := p.Accounts[name]
	if a == nil {
		return "", false
	}
	u, err := p.deployment.Store.Directory().Users().ByProvider(context.Background(), a.ID)
	return string(u.ID), err == nil
}

// RoleName returns the provider's name of a role.
func RoleName(r string) string {
	if _, ours := org.ParseRole(r); ours {
		return "org:" + strings.ToLower(r)
	}
	return r
}
