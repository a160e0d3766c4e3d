package gormdb

import (
	"context"
	"errors"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/ports"
)

type organisationRow struct {
	Organisation organisationFields `gorm:"embedded"`
	Epoch        int64              `gorm:"->:false"` // moved by Lock alone: no other statement writes it
}

// organisationFields are those of org.Organisation.
type organisationFields struct {
	ID         id.Org `gorm:"primaryKey"`
	ProviderID string `gorm:"<-:create"`
	Name       string
	Slug       string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Full         bool           `gorm:"column:is_full"`
	Seen         identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
	SlugIssuedAt time.Time

	CreatedBy     string
	CreatedBySeen identity.Stamp `gorm:"embedded;embeddedPrefix:created_by_seen_"`
	ClosedAt      *time.Time
	ErasedAt      *time.Time
	EmailsUntil   time.Time `gorm:"column:letters_until"`
}

var organisationTable = shared[organisationRow]("organisations", "Organisation")

func rowOfOrganisation(o org.Organisation) *organisationRow {
	return &organisationRow{Organisation: organisationFields(o)}
}

func (r *organisationRow) organisation() (org.Organisation, error) {
	return org.Organisation(r.Organisation), nil
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

// Marks is one statement, so that all of a mark is of one moment.
func (db *DB) Marks(ctx context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	marked := make(map[id.Org]org.Mark, len(orgs))
	var c command
	switch known := ids(orgs); len(known) {
	case 0:
		return marked, nil
	case 1:
		c = tenantSQL(known[0], marks+"@org WHERE o.id = @org")
	default:
		c = crossTenantSQL(crossTenantHeads, marks+"o.id WHERE "+db.dialect.in("o.id", "uuid"), list(db.dialect, known))
	}
	var o id.Org
	var m org.Mark
	return marked, eachRow(ctx, db.read, "Organisation", c, []any{&o, &m.Epoch, &m.LogEpoch, &m.LogN}, func() error {
		marked[o] = m
		return nil
	})
}

// Epochs asks for one organisation by its key and for several with one
// parameter, so that there are two statements whatever their number.
func (db *DB) Epochs(ctx context.Context, orgs []id.Org) (map[id.Org]int64, error) {
	found := make(map[id.Org]int64, len(orgs))
	var o string
	var epoch int64
	switch known := ids(orgs); len(known) {
	case 0:
		return found, nil
	case 1:
		there, err := oneRow(ctx, db.read, "Organisation", sharedSQL(epochs+"id = ?", string(known[0])), &o, &epoch)
		if there {
			found[id.Org(o)] = epoch
		}
		return found, err
	default:
		c := sharedSQL(epochs+db.dialect.in("id", "uuid"), list(db.dialect, known))
		return found, eachRow(ctx, db.read, "Organisation", c, []any{&o, &epoch}, func() error {
			found[id.Org(o)] = epoch
			return nil
		})
	}
}
