package devidp

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// deliveryTimeout limits one delivery, as real providers do.
const deliveryTimeout = 15 * time.Second

// event is an event before it is encoded; kind decides which other fields are set.
type event struct {
	kind       string
	account    account
	org        organisation
	membership membership
	invite     Invite
	token      string // the invitation's
}

// update changes the state, puts its events into the outbox and tries to deliver them
// before it returns.
func (p *Provider) update(r *http.Request, fn func(*state, time.Time) ([]event, error)) error {
	err := p.accounts.Update(func(b *state) (bool, error) {
		now := p.options.Clock.Now()
		events, err := fn(b, now)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			body, err := json.Marshal(p.envelope(r, b, e, now))
			if err != nil {
				return false, err
			}
			b.Outbox = append(b.Outbox, message{ID: "msg_" + p.options.IDs.New(), Body: body})
		}
		return len(events) > 0, nil
	})
	if err != nil {
		return err
	}
	p.deliver(r.Context())
	return nil
}

// deliver tries to deliver the events of the outbox, also after the end of ctx.
func (p *Provider) deliver(ctx context.Context) {
	if p.options.Emit == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	p.delivering.Lock()
	defer p.delivering.Unlock()
	var waiting []message
	p.accounts.Read(func(b *state) { waiting = slices.Clone(b.Outbox) })
	for _, m := range waiting {
		once, cancel := context.WithTimeout(ctx, deliveryTimeout)
		err := p.options.Emit(once, m.ID, m.Body)
		cancel()
		var givenUp bool
		// Not stored: after a restart the event is delivered again with the same id.
		p.accounts.Read(func(b *state) { givenUp = b.attempted(m.ID, err == nil) })
		if err != nil {
			p.options.Log.WarnContext(ctx, "identity event delivery failed", "message", m.ID, "given_up", givenUp, "error", err)
		}
	}
}

// object is a JSON object of an event. The shapes are those of Clerk's published webhook
// schemas (2025-04-15). Times are milliseconds since 1970.
type object map[string]any

func (p *Provider) envelope(r *http.Request, b *state, h event, now time.Time) object {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	var data object
	switch kind, _, _ := strings.Cut(h.kind, "."); kind {
	case "user":
		data = p.at.userObject(h.account)
	case "organization":
		data = p.at.organisationObject(h.org, b.members(h.org.ID))
	case "organizationMembership":
		data = p.at.membershipObject(h.membership, h.account, h.org, b.members(h.org.ID))
	case "organizationInvitation":
		data = invitationObject(h, now)
	}
	return object{
		"object": "event", "type": h.kind, "instance_id": derive("ins_", p.at.issuer), "timestamp": now.UnixMilli(), "data": data,
		"event_attributes": object{"http_request": object{"client_ip": address, "user_agent": r.UserAgent()}},
	}
}

func (at location) userObject(a account) object {
	first, last := splitName(a.Name)
	id := derive("idn_", a.ID)
	created := a.CreatedAt.UnixMilli()
	address := object{
		"object": "email_address", "id": id, "email_address": a.Email, "reserved": false,
		"verification": object{"object": "verification_admin", "status": "verified", "strategy": "admin", "attempts": nil, "expire_at": nil},
		"linked_to":    []object{}, "created_at": created, "updated_at": created,
	}
	return object{
		"object": "user", "id": a.ID, "external_id": nil, "username": nil, "first_name": first, "last_name": last,
		"image_url": at.picture(a.ID), "has_image": true,
		"primary_email_address_id": id, "primary_phone_number_id": nil, "primary_web3_wallet_id": nil,
		"email_addresses": []object{address}, "phone_numbers": []object{}, "web3_wallets": []object{}, "passkeys": []object{},
		"external_accounts": []object{}, "saml_accounts": []object{}, "enterprise_accounts": []object{},
		"password_enabled": false, "two_factor_enabled": false, "totp_enabled": false, "backup_code_enabled": false,
		"mfa_enabled_at": nil, "mfa_disabled_at": nil,
		"public_metadata": object{}, "private_metadata": object{}, "unsafe_metadata": object{},
		"last_sign_in_at": nil, "banned": false, "locked": false, "lockout_expires_in_seconds": nil, "verification_attempts_remaining": nil,
		"created_at": created, "updated_at": a.UpdatedAt.UnixMilli(), "delete_self_enabled": false, "create_organization_enabled": true,
		"last_active_at": nil, "legal_accepted_at": nil,
	}
}

// organisationObject returns an organisation. A maximum of 0 memberships means no limit.
func (at location) organisationObject(o organisation, members int) object {
	data := object{
		"object": "organization", "id": o.ID, "name": o.Name, "slug": o.Slug, "image_url": at.picture(o.ID), "has_image": true,
		"members_count": members, "max_allowed_memberships": 0, "admin_delete_enabled": true,
		"public_metadata": object{}, "private_metadata": object{},
		"created_at": o.CreatedAt.UnixMilli(), "updated_at": o.UpdatedAt.UnixMilli(),
	}
	if o.CreatedBy != "" {
		data["created_by"] = o.CreatedBy
	}
	return data
}

func (at location) membershipObject(m membership, a account, o organisation, members int) object {
	first, last := splitName(a.Name)
	picture := at.picture(a.ID)
	return object{
		"object": "organization_membership", "id": m.ID, "role": "org:" + m.Role, "role_name": title(m.Role), "permissions": []string{},
		"public_metadata": object{}, "private_metadata": object{}, "organization": at.organisationObject(o, members),
		"public_user_data": object{
			"user_id": a.ID, "first_name": first, "last_name": last, "identifier": a.Email,
			"profile_image_url": picture, "image_url": picture, "has_image": true,
		},
		"created_at": m.CreatedAt.UnixMilli(), "updated_at": m.UpdatedAt.UnixMilli(),
	}
}

// invitationObject returns an accepted invitation. Its URL is null, because its holder can
// accept.
func invitationObject(h event, now time.Time) object {
	role := cmp.Or(roleName(h.invite.Role), member)
	data := object{
		"object": "organization_invitation", "id": cmp.Or(h.invite.ProviderID, derive("orginv_", h.token)),
		"email_address": h.invite.Email, "role": "org:" + role, "role_name": title(role), "organization_id": h.org.ID,
		"inviter_id": nil, "public_inviter_data": nil, "status": "accepted", "user_id": h.account.ID,
		"public_metadata": object{}, "private_metadata": object{}, "url": nil, "expires_at": nil,
		"created_at": now.UnixMilli(), "updated_at": now.UnixMilli(),
	}
	if h.invite.InviterID != "" {
		data["inviter_id"] = h.invite.InviterID
	}
	if !h.invite.CreatedAt.IsZero() {
		data["created_at"] = h.invite.CreatedAt.UnixMilli()
	}
	if !h.invite.ExpiresAt.IsZero() {
		data["expires_at"] = h.invite.ExpiresAt.UnixMilli()
	}
	return data
}

// splitName returns the first and the last name; last is nil if there is none.
func splitName(name string) (first string, last any) {
	first, rest, two := strings.Cut(name, " ")
	if !two {
		return first, nil
	}
	return first, rest
}

func title(role string) string { return strings.ToUpper(role[:1]) + role[1:] }
