package gormdb

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

type organisationRow struct {
	ID         string `gorm:"type:uuid;primaryKey"`
	ProviderID string `gorm:"not null"`
	Name       string `gorm:"not null"`
	Slug       string `gorm:"not null"`
	Created    int64  `gorm:"column:created_at;not null"`
	Updated    int64  `gorm:"column:updated_at;not null"`

	IsFull       bool     `gorm:"not null"`
	Seen         stampRow `gorm:"embedded;embeddedPrefix:seen_"`
	SlugIssuedAt int64    `gorm:"not null"`

	CreatedBy     string        `gorm:"not null"`
	CreatedBySeen stampRow      `gorm:"embedded;embeddedPrefix:created_by_seen_"`
	Closed        sql.NullInt64 `gorm:"column:closed_at"`
	Erased        sql.NullInt64 `gorm:"column:erased_at"`
	LettersUntil  int64         `gorm:"not null"`

	// Epoch is moved by Lock alone: no other statement writes it.
	Epoch int64 `gorm:"->;not null"`
}

func (organisationRow) TableName() string { return "organisations" }

// organisationColumns are in the order of dest.
const organisationColumns = "id, provider_id, name, slug, created_at, updated_at, is_full, seen_at, seen_rank, seen_message, slug_issued_at, created_by, created_by_seen_at, created_by_seen_rank, created_by_seen_message, closed_at, erased_at, letters_until"

func (r *organisationRow) dest() []any {
	return []any{
		&r.ID, &r.ProviderID, &r.Name, &r.Slug, &r.Created, &r.Updated, &r.IsFull, &r.Seen.At, &r.Seen.Rank, &r.Seen.Message, &r.SlugIssuedAt,
		&r.CreatedBy, &r.CreatedBySeen.At, &r.CreatedBySeen.Rank, &r.CreatedBySeen.Message, &r.Closed, &r.Erased, &r.LettersUntil,
	}
}

func rowOfOrganisation(o org.Organisation) *organisationRow {
	return &organisationRow{
		ID: string(o.ID), ProviderID: o.ProviderID, Name: o.Name, Slug: o.Slug, Created: o.CreatedAt.UnixMilli(), Updated: o.UpdatedAt.UnixMilli(),
		IsFull: o.Full, Seen: rowOfStamp(o.Seen), SlugIssuedAt: o.SlugIssuedAt.UnixMilli(), CreatedBy: o.CreatedBy, CreatedBySeen: rowOfStamp(o.CreatedBySeen),
		Closed: optionalMillis(o.ClosedAt), Erased: optionalMillis(o.ErasedAt), LettersUntil: o.LettersUntil.UnixMilli(),
	}
}

func scanOrganisation(s scanner) (org.Organisation, error) {
	var r organisationRow
	if err := s.Scan(r.dest()...); err != nil {
		return org.Organisation{}, err
	}
	return org.Organisation{
		ID: id.Org(r.ID), ProviderID: r.ProviderID, Name: r.Name, Slug: r.Slug, CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
		Full: r.IsFull, Seen: r.Seen.stamp(), SlugIssuedAt: instant(r.SlugIssuedAt), CreatedBy: r.CreatedBy, CreatedBySeen: r.CreatedBySeen.stamp(),
		ClosedAt: optionalInstant(r.Closed), ErasedAt: optionalInstant(r.Erased), LettersUntil: instant(r.LettersUntil),
	}, nil
}

type organisations struct{ *conn }

var _ ports.Organisations = organisations{}

func (q organisations) Get(ctx context.Context, o id.Org) (org.Organisation, error) {
	return get(ctx, q.read, "Organisation", scanOrganisation, "SELECT "+organisationColumns+" FROM organisations WHERE id = ?", string(o))
}

func (q organisations) ByProvider(ctx context.Context, providerID string) (org.Organisation, error) {
	return get(ctx, q.read, "Organisation", scanOrganisation, "SELECT "+organisationColumns+" FROM organisations WHERE provider_id = ?", providerID)
}

func (q organisations) Upsert(ctx context.Context, fresh org.Organisation, fn func(org.Organisation) (org.Organisation, error)) (stored org.Organisation, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		stored, err = upsert(ctx, c, upserted[org.Organisation]{
			what:  "Organisation",
			scan:  scanOrganisation,
			query: "SELECT " + organisationColumns + " FROM organisations WHERE provider_id = ?",
			key:   fresh.ProviderID,
			row:   func(o org.Organisation) any { return rowOfOrganisation(o) },
			where: func(o org.Organisation) string { return string(o.ID) },
			copy: func(o org.Organisation) org.Organisation {
				o.ClosedAt, o.ErasedAt = another(o.ClosedAt), another(o.ErasedAt)
				return o
			},
		}, fresh, fn)
		return err
	})
	return stored, err
}

// Lock takes the row by changing it. A transaction that has the lock already
// only reads.
func (q organisations) Lock(ctx context.Context, o id.Org) (org.Organisation, error) {
	if !q.inside() {
		return org.Organisation{}, fault.Wrap(fault.Internal, errors.New("an organisation is locked outside a transaction"), "The database failed")
	}
	if q.locked[o] {
		return q.Get(ctx, o)
	}
	locked, err := get(ctx, q.write, "Organisation", scanOrganisation, "UPDATE organisations SET epoch = epoch + 1 WHERE id = ? RETURNING "+organisationColumns, string(o))
	if err == nil {
		q.locked[o] = true
	}
	return locked, err
}

func (q organisations) List(ctx context.Context, f org.Filter) ([]org.Organisation, error) {
	query, args := "SELECT "+organisationColumns+" FROM organisations WHERE 1 = 1", []any(nil)
	if f.After != "" {
		query, args = query+" AND id > ?", append(args, place(f.After))
	}
	if f.ClosedBefore != nil {
		query, args = query+" AND closed_at <= ? AND erased_at IS NULL", append(args, f.ClosedBefore.UnixMilli())
	}
	query, limit := q.dialect.page(query, "id", f.Limit)
	return all(ctx, q.read, "Organisation", scanOrganisation, query, append(args, limit...)...)
}

// erased are the tables that Erase empties, in the order that their references
// allow; what is not among them goes with them, but for revocations, which stay
// until they are done.
var erased = []string{
	"objects", "changes", "log_heads", "tasks", "workspaces", "teams", "workspace_orders", "invitations", "memberships", "subscriptions", "audit",
	"quota_accounts", "usage_entries", "usage_user_models", "usage_users", "usage_models", "connectors", "sessions",
}

func (q organisations) Erase(ctx context.Context, o id.Org, now time.Time) error {
	return q.atomic(ctx, func(c *conn) error {
		there, err := get(ctx, c.write, "Organisation", scanOrganisation,
			"SELECT "+organisationColumns+" FROM organisations WHERE id = ?"+c.dialect.held(), string(o))
		if err != nil {
			return err
		}
		// Nobody adds an object meanwhile.
		if _, err := (changes{c}).lock(ctx, o); err != nil {
			return err
		}
		if err := (blobNames{c}).discardAll(ctx, o, now); err != nil {
			return err
		}
		for _, table := range erased {
			if _, err := exec(ctx, c.write, "Organisation", "DELETE FROM "+table+" WHERE org_id = ?", string(o)); err != nil {
				return err
			}
		}
		delete(c.heads, o)
		delete(c.appended, o)
		tx := c.write.WithContext(ctx).Model(&organisationRow{}).Where("id = ?", string(o)).
			Select("*").Omit("id", "provider_id").Updates(rowOfOrganisation(there.Erased(now)))
		return failed(ctx, tx.Error, "Organisation")
	})
}

type epochRow struct {
	org   id.Org
	epoch int64
}

func scanEpoch(s scanner) (r epochRow, err error) {
	err = s.Scan((*string)(&r.org), &r.epoch)
	return r, err
}

type markRow struct {
	org  id.Org
	mark org.Mark
}

func scanMark(s scanner) (r markRow, err error) {
	err = s.Scan((*string)(&r.org), &r.mark.Epoch, &r.mark.LogEpoch, &r.mark.LogN)
	return r, err
}

const marks = "SELECT o.id, o.epoch, (SELECT e.epoch FROM log_epoch e), COALESCE(h.n, 0) FROM organisations o LEFT JOIN log_heads h ON h.org_id = "

// Marks is one statement, so that all of a mark is of one moment.
func (db *DB) Marks(ctx context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	found := make(map[id.Org]org.Mark, len(orgs))
	note := func(r markRow) error {
		found[r.org] = r.mark
		return nil
	}
	switch known := ids(orgs); len(known) {
	case 0:
		return found, nil
	case 1:
		o := string(known[0])
		r, ok, err := row(ctx, db.read, "Organisation", scanMark, marks+"? WHERE o.id = ?", o, o)
		if ok {
			found[r.org] = r.mark
		}
		return found, err
	default:
		return found, each(ctx, acrossHeads.on(db.read), "Organisation", scanMark, note,
			marks+"o.id WHERE "+db.dialect.in("o.id", "uuid"), list(db.dialect, known))
	}
}

// Epochs asks for one organisation by its key and for several with one
// parameter, so that there are two statements whatever their number.
func (db *DB) Epochs(ctx context.Context, orgs []id.Org) (map[id.Org]int64, error) {
	epochs := make(map[id.Org]int64, len(orgs))
	note := func(r epochRow) error {
		epochs[r.org] = r.epoch
		return nil
	}
	switch known := ids(orgs); len(known) {
	case 0:
		return epochs, nil
	case 1:
		r, ok, err := row(ctx, db.read, "Organisation", scanEpoch, "SELECT id, epoch FROM organisations WHERE id = ?", string(known[0]))
		if ok {
			epochs[r.org] = r.epoch
		}
		return epochs, err
	default:
		return epochs, each(ctx, db.read, "Organisation", scanEpoch, note,
			"SELECT id, epoch FROM organisations WHERE "+db.dialect.in("id", "uuid"), list(db.dialect, known))
	}
}
