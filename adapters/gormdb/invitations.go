package gormdb

import (
	"context"
	"database/sql"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/ports"
)

type invitationRow struct {
	OrgID     string         `gorm:"type:uuid;primaryKey"`
	ID        string         `gorm:"type:uuid;primaryKey"`
	Email     string         `gorm:"not null"`
	EmailKey  string         `gorm:"->:false;<-;not null"` // the address as it is compared
	Role      string         `gorm:"not null"`
	Status    string         `gorm:"not null"`
	TokenHash sql.NullString // null where there is no token, so that the others are unique
	Expires   int64          `gorm:"column:expires_at;not null"`
	Created   int64          `gorm:"column:created_at;not null"`
	Accepted  sql.NullInt64  `gorm:"column:accepted_at"`
	InvitedBy sql.NullString `gorm:"type:uuid"`

	ResendsUntil int64 `gorm:"not null"`

	ProviderID sql.NullString // null where the provider does not know of it
	Seen       stampRow       `gorm:"embedded;embeddedPrefix:seen_"`
}

func (invitationRow) TableName() string { return "invitations" }

var invitationTable = tenant[invitationRow]("Invitation", nil)

func (r *invitationRow) invitation() (invitation.Invitation, error) {
	return invitation.Invitation{
		ID: id.Invitation(r.ID), Org: id.Org(r.OrgID), Email: r.Email, Role: org.Role(r.Role), TokenHash: r.TokenHash.String,
		ExpiresAt: instant(r.Expires), CreatedAt: instant(r.Created), AcceptedAt: optionalInstant(r.Accepted), InvitedBy: id.User(r.InvitedBy.String),
		ResendsUntil: instant(r.ResendsUntil),
		ProviderID:   r.ProviderID.String, Seen: r.Seen.stamp(),
	}.Restore(invitation.Status(r.Status)), nil
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

func (q invitations) pending(o id.Org, now time.Time) selection[invitationRow] {
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
		return invitationTable.of(c.write, o).put(ctx, &invitationRow{
			ID: string(i.ID), Email: i.Email, EmailKey: identity.FoldEmail(i.Email), Role: string(i.Role), Status: string(i.Stored()),
			TokenHash: set(i.TokenHash), Expires: i.ExpiresAt.UnixMilli(), Created: i.CreatedAt.UnixMilli(), Accepted: optionalMillis(i.AcceptedAt),
			InvitedBy: set(i.InvitedBy), ResendsUntil: i.ResendsUntil.UnixMilli(), ProviderID: set(i.ProviderID), Seen: rowOfStamp(i.Seen),
		})
	})
}
