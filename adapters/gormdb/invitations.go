package gormdb

import (
	"context"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/ports"
)

type invitationRow struct {
	OrgID        id.Org        `gorm:"primaryKey"`
	ID           id.Invitation `gorm:"primaryKey"`
	Email        string
	EmailKey     string `gorm:"->:false;<-"` // the address as it is compared
	Role         org.Role
	Status       invitation.Status
	TokenHash    string `gorm:"default:null"` // null where there is no token, so that the others are unique
	ExpiresAt    time.Time
	CreatedAt    time.Time
	AcceptedAt   *time.Time
	InvitedBy    id.User `gorm:"default:null"`
	ResendsUntil time.Time
	ProviderID   string         `gorm:"default:null"` // null where the provider does not know of it
	Seen         identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
}

var invitationTable = tenant[invitationRow]("invitations", "Invitation")

func rowOfInvitation(i invitation.Invitation) *invitationRow {
	return &invitationRow{
		ID: i.ID, Email: i.Email, EmailKey: identity.FoldEmail(i.Email), Role: i.Role, Status: i.Stored(), TokenHash: i.TokenHash,
		ExpiresAt: i.ExpiresAt, CreatedAt: i.CreatedAt, AcceptedAt: i.AcceptedAt, InvitedBy: i.InvitedBy, ResendsUntil: i.ResendsUntil,
		ProviderID: i.ProviderID, Seen: i.Seen,
	}
}

func (r *invitationRow) invitation() (invitation.Invitation, error) {
	return invitation.Invitation{
		ID: r.ID, Org: r.OrgID, Email: r.Email, Role: r.Role, TokenHash: r.TokenHash, ExpiresAt: r.ExpiresAt, CreatedAt: r.CreatedAt,
		AcceptedAt: r.AcceptedAt, InvitedBy: r.InvitedBy, ResendsUntil: r.ResendsUntil, ProviderID: r.ProviderID, Seen: r.Seen,
	}.Restore(r.Status), nil
}

type invitations struct{ *conn }

var _ ports.Invitations = invitations{}

func (q invitations) Get(ctx context.Context, o id.Org, i id.Invitation) (invitation.Invitation, error) {
	return get(ctx, invitationTable.of(q.read, o).key(string(i)), (*invitationRow).invitation)
}

func (q invitations) ByProvider(ctx context.Context, o id.Org, providerID string) (invitation.Invitation, error) {
	return get(ctx, invitationTable.of(q.read, o).filter("provider_id = ?", providerID), (*invitationRow).invitation)
}

func (q invitations) ByToken(ctx context.Context, tokenHash string) (invitation.Invitation, error) {
	s := invitationTable.crossTenant(q.read, crossTenantInvitations).filter("token_hash = ?", tokenHash)
	return get(ctx, s, (*invitationRow).invitation)
}

func (q invitations) pending(o id.Org, now time.Time) selection {
	return invitationTable.of(q.read, o).filter("status = 'PENDING' AND expires_at > ?", now.UnixMilli())
}

func (q invitations) List(ctx context.Context, o id.Org, now time.Time, after invitation.Position, limit int, fn func(invitation.Invitation) error) error {
	s := q.pending(o, now)
	if after != (invitation.Position{}) {
		s = s.after("created_at, id", after.CreatedAt.UnixMilli(), place(after.ID))
	}
	return each(ctx, s.page("created_at, id", limit), (*invitationRow).invitation, fn)
}

func (q invitations) Pending(ctx context.Context, o id.Org, email string, now time.Time) ([]invitation.Invitation, error) {
	s := q.pending(o, now).filter("email_key = ?", identity.FoldEmail(email))
	return all(ctx, s.page("created_at, id", 0), (*invitationRow).invitation)
}

func (q invitations) Put(ctx context.Context, o id.Org, i invitation.Invitation) error {
	return q.atomic(ctx, func(c *conn) error {
		if i.ProviderID != "" {
			// Asked first, because a taken key would end a transaction on Postgres.
			taken, err := invitationTable.of(c.read, o).filter("provider_id = ? AND id <> ?", i.ProviderID, string(i.ID)).count(ctx)
			if err != nil {
				return err
			}
			if taken > 0 {
				return fault.New(fault.Conflict, "An invitation with this provider id is there already")
			}
		}
		return invitationTable.of(c.write, o).put(ctx, rowOfInvitation(i))
	})
}
