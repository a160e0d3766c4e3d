package devidp

import (
	"cmp"
	"context"
	"encoding/json"
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
			body, err := json.Marshal(p.envelope(e, now))
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
		attemptCtx, cancel := context.WithTimeout(ctx, deliveryTimeout)
		err := p.options.Emit(attemptCtx, m.ID, m.Body)
		cancel()
		var givenUp bool
		// Not stored: after a restart the event is delivered again with the same id.
		p.accounts.Read(func(b *state) { givenUp = b.recordAttempt(m.ID, err == nil) })
		if err != nil {
			p.options.Log.WarnContext(ctx, "identity event delivery failed", "message", m.ID, "given_up", givenUp, "error", err)
		}
	}
}

// object is a JSON object of an event, in the shape of Clerk's webhooks (2025-04-15) with the
// fields that the service reads. Times are milliseconds since 1970.
type object map[string]any

// envelope returns the body of a webhook about an event.
func (p *Provider) envelope(e event, now time.Time) object {
	var data object
	switch kind, _, _ := strings.Cut(e.kind, "."); kind {
	case "user":
		data = p.userObject(e.account)
	case "organization":
		data = organisationObject(e.org)
	case "organizationMembership":
		data = p.membershipObject(e.membership, e.account, e.org)
	case "organizationInvitation":
		data = invitationObject(e, now)
	}
	return object{"object": "event", "type": e.kind, "timestamp": now.UnixMilli(), "data": data}
}

func (p *Provider) userObject(a account) object {
	first, last := splitName(a.Name)
	address := derive("idn_", a.ID)
	return object{
		"object": "user", "id": a.ID, "first_name": first, "last_name": last, "image_url": p.picture(a.ID),
		"primary_email_address_id": address, "email_addresses": []object{{"object": "email_address", "id": address, "email_address": a.Email}},
		"banned": false, "locked": false, "created_at": a.CreatedAt.UnixMilli(), "updated_at": a.UpdatedAt.UnixMilli(),
	}
}

func organisationObject(o organisation) object {
	data := object{
		"object": "organization", "id": o.ID, "name": o.Name, "slug": o.Slug,
		"created_at": o.CreatedAt.UnixMilli(), "updated_at": o.UpdatedAt.UnixMilli(),
	}
	if o.CreatedBy != "" {
		data["created_by"] = o.CreatedBy
	}
	return data
}

func (p *Provider) membershipObject(m membership, a account, o organisation) object {
	first, last := splitName(a.Name)
	return object{
		"object": "organization_membership", "id": m.ID, "role": "org:" + m.Role, "organization": organisationObject(o),
		"public_user_data": object{"user_id": a.ID, "first_name": first, "last_name": last, "identifier": a.Email, "image_url": p.picture(a.ID)},
		"created_at":       m.CreatedAt.UnixMilli(), "updated_at": m.UpdatedAt.UnixMilli(),
	}
}

// invitationObject returns an accepted invitation.
func invitationObject(e event, now time.Time) object {
	data := object{
		"object": "organization_invitation", "id": cmp.Or(e.invite.ProviderID, derive("orginv_", e.token)),
		"email_address": e.invite.Email, "role": "org:" + cmp.Or(roleName(e.invite.Role), member), "organization_id": e.org.ID,
		"status": "accepted", "user_id": e.account.ID, "updated_at": now.UnixMilli(),
	}
	if e.invite.InviterID != "" {
		data["inviter_id"] = e.invite.InviterID
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
