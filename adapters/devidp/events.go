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
func (p *Provider) update(r *http.Request, at location, fn func(*state, time.Time) ([]event, error)) error {
	err := p.accounts.Update(func(b *state) (bool, error) {
		now := p.options.Clock.Now()
		events, err := fn(b, now)
		if err != nil {
			return false, err
		}
		for _, e := range events {
			body, err := json.Marshal(p.envelope(r, at, b, e, now))
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
		// In memory alone: after a restart the event is delivered again, with the same id.
		p.accounts.Read(func(b *state) { givenUp = b.attempted(m.ID, err == nil) })
		if err != nil {
			p.options.Log.WarnContext(ctx, "identity event delivery failed", "message", m.ID, "given_up", givenUp, "error", err)
		}
	}
}

// The shapes of the events are those of Clerk's published webhook schemas
// (2025-04-15). Times are milliseconds since 1970.

type envelopeData struct {
	Object     string         `json:"object"`
	Type       string         `json:"type"`
	Instance   string         `json:"instance_id"`
	Timestamp  int64          `json:"timestamp"`
	Attributes attributesData `json:"event_attributes"`
	Data       any            `json:"data"`
}

type attributesData struct {
	Request struct {
		ClientIP  string `json:"client_ip"`
		UserAgent string `json:"user_agent"`
	} `json:"http_request"`
}

func (p *Provider) envelope(r *http.Request, at location, b *state, h event, now time.Time) envelopeData {
	e := envelopeData{Object: "event", Type: h.kind, Instance: derive("ins_", at.issuer), Timestamp: now.UnixMilli()}
	e.Attributes.Request.ClientIP, _, _ = net.SplitHostPort(r.RemoteAddr)
	e.Attributes.Request.UserAgent = r.UserAgent()
	switch object, _, _ := strings.Cut(h.kind, "."); object {
	case "user":
		e.Data = at.userData(h.account)
	case "organization":
		e.Data = at.organisationData(h.org, b.members(h.org.ID))
	case "organizationMembership":
		e.Data = at.membershipData(h.membership, h.account, h.org, b.members(h.org.ID))
	case "organizationInvitation":
		e.Data = at.invitationData(h, now)
	}
	return e
}

type metadata struct{}

type userData struct {
	Object           string      `json:"object"`
	ID               string      `json:"id"`
	ExternalID       *string     `json:"external_id"`
	Username         *string     `json:"username"`
	FirstName        *string     `json:"first_name"`
	LastName         *string     `json:"last_name"`
	ImageURL         string      `json:"image_url"`
	HasImage         bool        `json:"has_image"`
	PrimaryEmailID   string      `json:"primary_email_address_id"`
	PrimaryPhoneID   *string     `json:"primary_phone_number_id"`
	PrimaryWalletID  *string     `json:"primary_web3_wallet_id"`
	EmailAddresses   []emailData `json:"email_addresses"`
	PhoneNumbers     []metadata  `json:"phone_numbers"`
	Wallets          []metadata  `json:"web3_wallets"`
	Passkeys         []metadata  `json:"passkeys"`
	ExternalAccounts []metadata  `json:"external_accounts"`
	SAMLAccounts     []metadata  `json:"saml_accounts"`
	Enterprise       []metadata  `json:"enterprise_accounts"`
	PasswordEnabled  bool        `json:"password_enabled"`
	TwoFactorEnabled bool        `json:"two_factor_enabled"`
	TOTPEnabled      bool        `json:"totp_enabled"`
	BackupEnabled    bool        `json:"backup_code_enabled"`
	MFAEnabledAt     *int64      `json:"mfa_enabled_at"`
	MFADisabledAt    *int64      `json:"mfa_disabled_at"`
	PublicMetadata   metadata    `json:"public_metadata"`
	PrivateMetadata  metadata    `json:"private_metadata"`
	UnsafeMetadata   metadata    `json:"unsafe_metadata"`
	LastSignInAt     *int64      `json:"last_sign_in_at"`
	Banned           bool        `json:"banned"`
	Locked           bool        `json:"locked"`
	LockoutSeconds   *int64      `json:"lockout_expires_in_seconds"`
	AttemptsLeft     *int64      `json:"verification_attempts_remaining"`
	CreatedAt        int64       `json:"created_at"`
	UpdatedAt        int64       `json:"updated_at"`
	MayDeleteSelf    bool        `json:"delete_self_enabled"`
	MayCreateOrg     bool        `json:"create_organization_enabled"`
	LastActiveAt     *int64      `json:"last_active_at"`
	LegalAcceptedAt  *int64      `json:"legal_accepted_at"`
}

type emailData struct {
	Object       string           `json:"object"`
	ID           string           `json:"id"`
	Address      string           `json:"email_address"`
	Reserved     bool             `json:"reserved"`
	Verification verificationData `json:"verification"`
	LinkedTo     []metadata       `json:"linked_to"`
	CreatedAt    int64            `json:"created_at"`
	UpdatedAt    int64            `json:"updated_at"`
}

type verificationData struct {
	Object   string `json:"object"`
	Status   string `json:"status"`
	Strategy string `json:"strategy"`
	Attempts *int64 `json:"attempts"`
	ExpireAt *int64 `json:"expire_at"`
}

func (at location) userData(a account) userData {
	first, last := splitName(a.Name)
	address := derive("idn_", a.ID)
	created, updated := a.CreatedAt.UnixMilli(), a.UpdatedAt.UnixMilli()
	none := []metadata{}
	return userData{
		Object: "user", ID: a.ID, FirstName: first, LastName: last,
		ImageURL: at.picture(a.ID), HasImage: true,
		PrimaryEmailID: address,
		EmailAddresses: []emailData{{
			Object: "email_address", ID: address, Address: a.Email,
			Verification: verificationData{Object: "verification_admin", Status: "verified", Strategy: "admin"},
			LinkedTo:     none, CreatedAt: created, UpdatedAt: created,
		}},
		PhoneNumbers: none, Wallets: none, Passkeys: none,
		ExternalAccounts: none, SAMLAccounts: none, Enterprise: none,
		CreatedAt: created, UpdatedAt: updated, MayCreateOrg: true,
	}
}

type organisationData struct {
	Object          string   `json:"object"`
	ID              string   `json:"id"`
	Name            string   `json:"name"`
	Slug            string   `json:"slug"`
	ImageURL        string   `json:"image_url"`
	HasImage        bool     `json:"has_image"`
	MembersCount    int      `json:"members_count"`
	MaxMemberships  int      `json:"max_allowed_memberships"` // 0: no maximum
	AdminMayDelete  bool     `json:"admin_delete_enabled"`
	PublicMetadata  metadata `json:"public_metadata"`
	PrivateMetadata metadata `json:"private_metadata"`
	CreatedBy       string   `json:"created_by,omitempty"`
	CreatedAt       int64    `json:"created_at"`
	UpdatedAt       int64    `json:"updated_at"`
}

func (at location) organisationData(o organisation, members int) organisationData {
	return organisationData{
		Object: "organization", ID: o.ID, Name: o.Name, Slug: o.Slug,
		ImageURL: at.picture(o.ID), HasImage: true, MembersCount: members, AdminMayDelete: true,
		CreatedBy: o.CreatedBy, CreatedAt: o.CreatedAt.UnixMilli(), UpdatedAt: o.UpdatedAt.UnixMilli(),
	}
}

type membershipData struct {
	Object          string           `json:"object"`
	ID              string           `json:"id"`
	Role            string           `json:"role"`
	RoleName        string           `json:"role_name"`
	Permissions     []string         `json:"permissions"`
	PublicMetadata  metadata         `json:"public_metadata"`
	PrivateMetadata metadata         `json:"private_metadata"`
	Organisation    organisationData `json:"organization"`
	User            publicUserData   `json:"public_user_data"`
	CreatedAt       int64            `json:"created_at"`
	UpdatedAt       int64            `json:"updated_at"`
}

type publicUserData struct {
	ID              string  `json:"user_id"`
	FirstName       *string `json:"first_name"`
	LastName        *string `json:"last_name"`
	ProfileImageURL string  `json:"profile_image_url"`
	ImageURL        string  `json:"image_url"`
	HasImage        bool    `json:"has_image"`
	Identifier      string  `json:"identifier"`
}

func (at location) membershipData(m membership, a account, o organisation, members int) membershipData {
	first, last := splitName(a.Name)
	return membershipData{
		Object: "organization_membership", ID: m.ID, Role: "org:" + m.Role, RoleName: title(m.Role),
		Permissions: []string{}, Organisation: at.organisationData(o, members),
		User: publicUserData{
			ID: a.ID, FirstName: first, LastName: last, Identifier: a.Email,
			ProfileImageURL: at.picture(a.ID), ImageURL: at.picture(a.ID), HasImage: true,
		},
		CreatedAt: m.CreatedAt.UnixMilli(), UpdatedAt: m.UpdatedAt.UnixMilli(),
	}
}

type invitationData struct {
	Object          string          `json:"object"`
	ID              string          `json:"id"`
	Email           string          `json:"email_address"`
	Role            string          `json:"role"`
	RoleName        string          `json:"role_name"`
	OrganisationID  string          `json:"organization_id"`
	Inviter         *string         `json:"inviter_id"`
	PublicInviter   *publicUserData `json:"public_inviter_data"`
	Status          string          `json:"status"`
	UserID          string          `json:"user_id"`
	PublicMetadata  metadata        `json:"public_metadata"`
	PrivateMetadata metadata        `json:"private_metadata"`
	URL             *string         `json:"url"` // always null, because its holder can accept
	ExpiresAt       *int64          `json:"expires_at"`
	CreatedAt       int64           `json:"created_at"`
	UpdatedAt       int64           `json:"updated_at"`
}

func (at location) invitationData(h event, now time.Time) invitationData {
	role := cmp.Or(roleName(h.invite.Role), member)
	data := invitationData{
		Object: "organization_invitation",
		ID:     cmp.Or(h.invite.ProviderID, derive("orginv_", h.token)),
		Email:  h.invite.Email, Role: "org:" + role, RoleName: title(role),
		OrganisationID: h.org.ID, Status: "accepted", UserID: h.account.ID,
		CreatedAt: now.UnixMilli(), UpdatedAt: now.UnixMilli(),
	}
	if h.invite.InviterID != "" {
		data.Inviter = &h.invite.InviterID
	}
	if !h.invite.CreatedAt.IsZero() {
		data.CreatedAt = h.invite.CreatedAt.UnixMilli()
	}
	if !h.invite.ExpiresAt.IsZero() {
		expires := h.invite.ExpiresAt.UnixMilli()
		data.ExpiresAt = &expires
	}
	return data
}

// splitName returns a name in two parts, nil for one that is not there.
func splitName(name string) (first, last *string) {
	a, b, two := strings.Cut(name, " ")
	if !two {
		return &a, nil
	}
	return &a, &b
}

func title(role string) string { return strings.ToUpper(role[:1]) + role[1:] }
