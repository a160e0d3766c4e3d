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
	ProviderID string `gorm:"<-:create;not null"`
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
	Epoch int64 `gorm:"->:false;not null"`
}

func (organisationRow) TableName() string { return "organisations" }

var organisationTable = shared[organisationRow]("Organisation")

func rowOfOrganisation(o org.Organisation) *organisationRow {
	return &organisationRow{
		ID: string(o.ID), ProviderID: o.ProviderID, Name: o.Name, Slug: o.Slug, Created: o.CreatedAt.UnixMilli(), Updated: o.UpdatedAt.UnixMilli(),
		IsFull: o.Full, Seen: rowOfStamp(o.Seen), SlugIssuedAt: o.SlugIssuedAt.UnixMilli(), CreatedBy: o.CreatedBy, CreatedBySeen: rowOfStamp(o.CreatedBySeen),
		Closed: optionalMillis(o.ClosedAt), Erased: optionalMillis(o.ErasedAt), LettersUntil: o.LettersUntil.UnixMilli(),
	}
}

func (r *organisationRow) organisation() (org.Organisation, error) {
	return org.Organisation{
		ID: id.Org(r.ID), ProviderID: r.ProviderID, Name: r.Name, Slug: r.Slug, CreatedAt: instant(r.Created), UpdatedAt: instant(r.Updated),
		Full: r.IsFull, Seen: r.Seen.stamp(), SlugIssuedAt: instant(r.SlugIssuedAt), CreatedBy: r.CreatedBy, CreatedBySeen: r.CreatedBySeen.stamp(),
		ClosedAt: optionalInstant(r.Closed), ErasedAt: optionalInstant(r.Erased), LettersUntil: instant(r.LettersUntil),
	}, nil
}

type organisations struct{ *conn }

var _ ports.Organisations = organisations{}

func (q organisations) Get(ctx context.Context, o id.Org) (org.Organisation, error) {
	return get(ctx, organisationTable.on(q.read).key(string(o)), (*organisationRow).organisation)
}

func (q organisations) ByProvider(ctx context.Context, providerID string) (org.Organisation, error) {
	return get(ctx, organisationTable.on(q.read).filter("provider_id = ?", providerID), (*organisationRow).organisation)
}

func (q organisations) Upsert(ctx context.Context, fresh org.Organisation, fn func(org.Organisation) (org.Organisation, error)) (org.Organisation, error) {
	return atomically(ctx, q.conn, func(c *conn) (org.Organisation, error) {
		return upsert(ctx, organisationTable.on(c.write), fresh.ProviderID, (*organisationRow).organisation, rowOfOrganisation, fresh, fn)
	})
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
	locked, err := change(ctx, organisationTable.on(q.write).key(string(o)), (*organisationRow).organisation, "epoch = epoch + 1")
	if err == nil {
		q.locked[o] = true
	}
	return locked, err
}

func (q organisations) List(ctx context.Context, f org.Filter) ([]org.Organisation, error) {
	s := organisationTable.on(q.read)
	if f.After != "" {
		s = s.after("id", place(f.After))
	}
	if f.ClosedBefore != nil {
		s = s.filter("closed_at <= ? AND erased_at IS NULL", f.ClosedBefore.UnixMilli())
	}
	return all(ctx, s.page("id", f.Limit), (*organisationRow).organisation)
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
		row := organisationTable.on(c.write).key(string(o))
		there, err := get(ctx, row.held(), (*organisationRow).organisation)
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
			if _, err := exec(ctx, c.write, "Organisation", tenantSQL(o, "DELETE FROM "+table+" WHERE org_id = @org")); err != nil {
				return err
			}
		}
		delete(c.heads, o)
		delete(c.appended, o)
		return row.save(ctx, rowOfOrganisation(there.Erased(now)))
	})
}

type epochOf struct {
	org   id.Org
	epoch int64
}

func scanEpoch(s scanner) (r epochOf, err error) {
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
		r, ok, err := queryRow(ctx, db.read, "Organisation", scanMark, tenantSQL(known[0], marks+"@org WHERE o.id = @org"))
		if ok {
			found[r.org] = r.mark
		}
		return found, err
	default:
		return found, queryEach(ctx, db.read, "Organisation", scanMark, note,
			crossTenantSQL(crossTenantHeads, marks+"o.id WHERE "+db.dialect.in("o.id", "uuid"), list(db.dialect, known)))
	}
}

// Epochs asks for one organisation by its key and for several with one
// parameter, so that there are two statements whatever their number.
func (db *DB) Epochs(ctx context.Context, orgs []id.Org) (map[id.Org]int64, error) {
	found := make(map[id.Org]int64, len(orgs))
	switch known := ids(orgs); len(known) {
	case 0:
		return found, nil
	case 1:
		r, ok, err := queryRow(ctx, db.read, "Organisation", scanEpoch, sharedSQL(epochs+"id = ?", string(known[0])))
		if ok {
			found[r.org] = r.epoch
		}
		return found, err
	default:
		return found, queryEach(ctx, db.read, "Organisation", scanEpoch, func(r epochOf) error {
			found[r.org] = r.epoch
			return nil
		}, sharedSQL(epochs+db.dialect.in("id", "uuid"), list(db.dialect, known)))
	}
}
