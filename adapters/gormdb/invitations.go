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
	EmailKey  string         `gorm:"not null"` // the address as it is compared
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

// invitationColumns are in the order of dest.
const invitationColumns = "org_id, id, email, role, status, token_hash, expires_at, created_at, accepted_at, invited_by, resends_until, provider_id, seen_at, seen_rank, seen_message"

func (r *invitationRow) dest() []any {
	return []any{
		&r.OrgID, &r.ID, &r.Email, &r.Role, &r.Status, &r.TokenHash, &r.Expires, &r.Created, &r.Accepted, &r.InvitedBy, &r.ResendsUntil,
		&r.ProviderID, &r.Seen.At, &r.Seen.Rank, &r.Seen.Message,
	}
}

func scanInvitation(s scanner) (invitation.Invitation, error) {
	var r invitationRow
	if err := s.Scan(r.dest()...); err != nil {
		return invitation.Invitation{}, err
	}
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
	return get(ctx, q.read, "Invitation", scanInvitation,
		"SELECT "+invitationColumns+" FROM invitations WHERE org_id = ? AND id = ?", string(o), string(i))
}

func (q invitations) ByProvider(ctx context.Context, o id.Org, providerID string) (invitation.Invitation, error) {
	return get(ctx, q.read, "Invitation", scanInvitation,
		"SELECT "+invitationColumns+" FROM invitations WHERE org_id = ? AND provider_id = ?", string(o), providerID)
}

func (q invitations) ByToken(ctx context.Context, tokenHash string) (invitation.Invitation, error) {
	return get(ctx, acrossInvitations.on(q.read), "Invitation", scanInvitation,
		"SELECT "+invitationColumns+" FROM invitations WHERE token_hash = ?", tokenHash)
}

const selectPending = "SELECT " + invitationColumns + " FROM invitations WHERE org_id = ? AND status = 'PENDING' AND expires_at > ?"

func (q invitations) List(ctx context.Context, o id.Org, now time.Time, after invitation.Position, limit int, fn func(invitation.Invitation) error) error {
	query, args := selectPending, []any{string(o), now.UnixMilli()}
	if after != (invitation.Position{}) {
		query, args = query+" AND (created_at, id) > (?, ?)", append(args, after.CreatedAt.UnixMilli(), place(after.ID))
	}
	query, page := q.dialect.page(query, "created_at, id", limit)
	return each(ctx, q.read, "Invitation", scanInvitation, fn, query, append(args, page...)...)
}

func (q invitations) Pending(ctx context.Context, o id.Org, email string, now time.Time) ([]invitation.Invitation, error) {
	return all(ctx, q.read, "Invitation", scanInvitation, selectPending+" AND email_key = ? ORDER BY created_at, id",
		string(o), now.UnixMilli(), identity.FoldEmail(email))
}

func (q invitations) Put(ctx context.Context, o id.Org, i invitation.Invitation) error {
	return q.atomic(ctx, func(c *conn) error {
		if i.ProviderID != "" {
			// Asked first, because a taken key would end a transaction on Postgres.
			_, taken, err := row(ctx, c.read, "Invitation", scanInt,
				"SELECT 1 FROM invitations WHERE org_id = ? AND provider_id = ? AND id <> ?", string(o), i.ProviderID, string(i.ID))
			if err != nil {
				return err
			}
			if taken {
				return fault.New(fault.Conflict, "An invitation with this provider id is there already")
			}
		}
		tx := c.write.WithContext(ctx).Clauses(replace).Create(&invitationRow{
			OrgID: string(o), ID: string(i.ID), Email: i.Email, EmailKey: identity.FoldEmail(i.Email), Role: string(i.Role), Status: string(i.Stored()),
			TokenHash: set(i.TokenHash), Expires: i.ExpiresAt.UnixMilli(), Created: i.CreatedAt.UnixMilli(), Accepted: optionalMillis(i.AcceptedAt),
			InvitedBy: set(i.InvitedBy), ResendsUntil: i.ResendsUntil.UnixMilli(), ProviderID: set(i.ProviderID), Seen: rowOfStamp(i.Seen),
		})
		return failed(ctx, tx.Error, "Invitation")
	})
}
