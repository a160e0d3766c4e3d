package gormdb

import (
	"cmp"
	"context"
	"math"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/invitation"
	"collab/domain/org"
	"collab/ports"
)

type userRow struct {
	User     userFields `gorm:"embedded"`
	EmailKey string     `gorm:"->:false;<-"` // the folded address
}

// userFields are those of org.User.
type userFields struct {
	ID         id.User `gorm:"primaryKey"`
	ProviderID string  `gorm:"<-:create"`
	Name       string
	Email      string
	AvatarURL  string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	Full              bool           `gorm:"column:is_full"`
	Seen              identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
	NameIssuedAt      time.Time
	EmailIssuedAt     time.Time
	AvatarURLIssuedAt time.Time
	Blocked           bool `gorm:"column:is_blocked"`
	DeletedAt         *time.Time
}

var userTable = shared[userRow]("users", "User")

func rowOfUser(u org.User) *userRow { return &userRow{userFields(u), identity.FoldEmail(u.Email)} }

func (r *userRow) user() (org.User, error) { return org.User(r.User), nil }

type users struct{ *conn }

func (g group) Users() ports.Users { return users(g) }

func (q users) Get(ctx context.Context, user id.User) (org.User, error) {
	return get(ctx, userTable.on(q.read).key(string(user)), (*userRow).user)
}

func (q users) ByProvider(ctx context.Context, providerID string) (org.User, error) {
	return get(ctx, userTable.on(q.read).filter("provider_id = ?", providerID), (*userRow).user)
}

func (q users) Upsert(ctx context.Context, fresh org.User, fn func(org.User) (org.User, error)) (org.User, error) {
	return upsert(ctx, q.conn, userTable.on(q.write), fresh.ProviderID, (*userRow).user, rowOfUser, fresh, fn)
}

func (q users) Profile(ctx context.Context, o id.Org, user id.User) (p org.Profile, organisation org.Organisation, err error) {
	var u userRow
	var r organisationRow
	d := q.dialect
	s := memberTable.of(q.read, o).key(string(user)).join(
		"memberships JOIN users ON users.id = memberships.user_id JOIN organisations ON organisations.id = memberships.org_id",
		", "+userTable.list[d]+", "+organisationTable.list[d], append(dest(&u, userTable.reads), dest(&r, organisationTable.reads)...)...)
	p.Membership, err = get(ctx, s, (*membershipRow).membership)
	p.Person = org.User(u.User)
	return p, org.Organisation(r.Organisation), err
}

func (q users) Memberships(ctx context.Context, user id.User) ([]org.Membership, error) {
	theirs := memberTable.crossTenant(q.read, crossTenantMemberships).filter("user_id = ?", string(user))
	return all(ctx, theirs.page("used_at DESC, joined_at DESC, org_id DESC", 0), (*membershipRow).membership)
}

type membershipRow struct {
	Org                 id.Org  `gorm:"column:org_id;primaryKey"`
	User                id.User `gorm:"column:user_id;primaryKey"`
	Role                org.Role
	OnboardingCompleted bool
	JoinedAt            time.Time
	UsedAt              time.Time

	ProviderRole string
	RoleIssuedAt time.Time
	RoleSetHere  bool
	Seen         identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
	RemovedAt    *time.Time
}

var memberTable = tenant[membershipRow]("memberships", "Member")

func (r *membershipRow) membership() (org.Membership, error) { return org.Membership(*r), nil }

type members struct{ *conn }

func (g group) Members() ports.Members { return members(g) }

func (q members) Get(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	return get(ctx, memberTable.of(q.read, o).key(string(user)), (*membershipRow).membership)
}

func (q members) Epoch(ctx context.Context, o id.Org) (epoch int64, err error) {
	err = getRow(ctx, q.read, "Organisation", selectEpoch(o), new(string), &epoch)
	return epoch, err
}

func (q members) GetLocked(ctx context.Context, o id.Org, user id.User) (org.Membership, error) {
	if !q.inTransaction() {
		return q.Get(ctx, o, user)
	}
	return get(ctx, memberTable.of(q.write, o).key(string(user)).forUpdate(), (*membershipRow).membership)
}

func (q members) Put(ctx context.Context, o id.Org, m org.Membership) error {
	return memberTable.of(q.write, o).put(ctx, (*membershipRow)(&m))
}

// membersAtOnce is how many members a search reads at once, so that one that finds enough reads no more.
const membersAtOnce = 1_000

func (q members) List(ctx context.Context, o id.Org, f org.MemberFilter, fn func(org.Profile) error) error {
	if len(f.Words) == 0 {
		return q.list(ctx, o, f, fn)
	}
	left, found := cmp.Or(f.ExamineLimit, math.MaxInt32), 0
	for page := f; left > 0; left -= page.Limit {
		page.Limit = min(membersAtOnce, left)
		read := 0
		err := q.list(ctx, o, page, func(p org.Profile) error {
			read, page.After = read+1, id.Position[id.User]{At: p.JoinedAt, ID: p.User}
			if !f.HasWords(p) || f.Limit > 0 && found == f.Limit {
				return nil
			}
			found++
			return fn(p)
		})
		if err != nil || read < page.Limit || f.Limit > 0 && found == f.Limit {
			return err
		}
	}
	return nil
}

// list is List without words.
func (q members) list(ctx context.Context, o id.Org, f org.MemberFilter, fn func(org.Profile) error) error {
	var u userRow
	active := "removed_at IS NULL"
	if f.Users != nil {
		active = "+" + active // so that SQLite takes the primary key instead of all in the index of active members
	}
	s := withUser(memberTable.of(q.read, o).filter(active), &u)
	if f.Users != nil {
		s = s.whereIn("user_id", list(q.dialect, validIDs(f.Users)))
	}
	return profiles(ctx, byTime(s, byJoining, f.After, f.Limit), &u, fn)
}

func (q users) Former(ctx context.Context, o id.Org, after id.User, limit int, fn func(org.Profile) error) error {
	var u userRow
	s := withUser(memberTable.of(q.read, o).filter("removed_at IS NOT NULL"), &u)
	if after != "" {
		s = s.after("user_id", cursorID(after))
	}
	return profiles(ctx, s.page("user_id", limit), &u, fn)
}

// profiles calls fn with memberships, whose users are read into u.
func profiles(ctx context.Context, s selection, u *userRow, fn func(org.Profile) error) error {
	return each(ctx, s, func(m *membershipRow) (org.Profile, error) {
		return org.Profile{Membership: org.Membership(*m), Person: org.User(u.User)}, nil
	}, fn)
}

// withUser adds the user to each row of a table with user_id.
func withUser(s selection, u *userRow) selection {
	return s.join(s.name+" JOIN users ON users.id = "+s.name+".user_id", ", "+userTable.list[dialectOf(s.db)], dest(u, userTable.reads)...)
}

// byTime orders rows by the columns of a time and an id, and selects those after a position.
func byTime[T ~string](s selection, order string, after id.Position[T], limit int) selection {
	if after != (id.Position[T]{}) {
		s = s.after(order, after.At.UnixMilli(), cursorID(after.ID))
	}
	return s.page(order, limit)
}

// byJoining is the order of members.
const byJoining = "joined_at, user_id"

func (q members) ByEmail(ctx context.Context, o id.Org, email string) (bool, error) {
	s := memberTable.of(q.read, o).filter("removed_at IS NULL AND users.email_key = ?", identity.FoldEmail(email))
	_, found, err := find(ctx, s.join("memberships JOIN users ON users.id = memberships.user_id", ""), (*membershipRow).membership)
	return found, err
}

type seats struct{ *conn }

func (g group) Seats() ports.Seats { return seats(g) }

// Count reads both tables in one statement, and so in one snapshot.
func (q seats) Count(ctx context.Context, orgs []id.Org, now time.Time) (map[id.Org]org.Seats, error) {
	counted := make(map[id.Org]org.Seats, len(orgs))
	for _, o := range orgs {
		counted[o] = org.Seats{}
	}
	taken, some := memberTable.ofEach(q.read, orgs)
	pending, _ := invitationTable.ofEach(q.read, orgs)
	if !some {
		return counted, nil
	}
	c := taken.newCommand(seatCounts(taken.where, pending.where), append(append(taken.args, pending.args...), now.UnixMilli()))
	var o id.Org
	var seats org.Seats // the counts of one of the two tables
	return counted, eachRow(ctx, taken.db, "Organisation", c, []any{&o, &seats.Owners, &seats.Members, &seats.Pending}, func() error {
		n := counted[o]
		counted[o] = org.Seats{Owners: n.Owners + seats.Owners, Members: n.Members + seats.Members, Pending: n.Pending + seats.Pending}
		return nil
	})
}

type invitationRow struct {
	OrgID        id.Org        `gorm:"primaryKey"`
	ID           id.Invitation `gorm:"primaryKey"`
	Email        string
	EmailKey     string `gorm:"->:false;<-"` // the folded address
	Role         org.Role
	Status       invitation.Status
	TokenHash    string `gorm:"default:null"` // null without a token, as the others are unique
	ExpiresAt    time.Time
	CreatedAt    time.Time
	AcceptedAt   *time.Time
	InvitedBy    id.User `gorm:"default:null"`
	ResendsUntil time.Time
	ProviderID   string         `gorm:"default:null"` // null if the provider does not know it
	Seen         identity.Stamp `gorm:"embedded;embeddedPrefix:seen_"`
}

var invitationTable = tenant[invitationRow]("invitations", "Invitation")

func rowOfInvitation(i invitation.Invitation) *invitationRow {
	return &invitationRow{
		ID: i.ID, Email: i.Email, EmailKey: identity.FoldEmail(i.Email), Role: i.Role, Status: i.StoredStatus(), TokenHash: i.TokenHash,
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

func (g group) Invitations() ports.Invitations { return invitations(g) }

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

func (q invitations) List(
	ctx context.Context, o id.Org, now time.Time, after id.Position[id.Invitation], limit int,
	fn func(invitation.Invitation) error,
) error {
	return each(ctx, byTime(q.pending(o, now), "created_at, id", after, limit), (*invitationRow).invitation, fn)
}

func (q invitations) Pending(ctx context.Context, o id.Org, email string, now time.Time) ([]invitation.Invitation, error) {
	s := q.pending(o, now).filter("email_key = ?", identity.FoldEmail(email))
	return all(ctx, s.page("created_at, id", 0), (*invitationRow).invitation)
}

func (q invitations) Put(ctx context.Context, o id.Org, i invitation.Invitation) error {
	return q.atomic(ctx, func(c *conn) error {
		if i.ProviderID != "" {
			// Checked first, because a unique violation aborts a transaction on Postgres.
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

type invitationSets struct{ *conn }

func (g group) InvitationSets() ports.InvitationSets { return invitationSets(g) }

func (q invitationSets) Forget(ctx context.Context, o id.Org, email string) error {
	s := invitationTable.of(q.write, o).filter("status = 'ACCEPTED' AND email_key = ?", identity.FoldEmail(email))
	_, err := s.set(ctx, "email = '', email_key = ''")
	return err
}

// Sweep skips invitations that are changed or swept concurrently.
func (q invitationSets) Sweep(ctx context.Context, before time.Time, limit int) (int, error) {
	return atomically(ctx, q.conn, func(c *conn) (int, error) {
		s := invitationTable.crossTenant(c.write, crossTenantOldInvitations).
			filter("expires_at < ? AND seen_at < ?", before.UnixMilli(), before.UnixMilli())
		old, err := all(ctx, s.claim("expires_at", limit), (*invitationRow).invitation)
		for n := 0; n < len(old) && err == nil; n++ {
			err = invitationTable.of(c.write, old[n].Org).key(string(old[n].ID)).delete(ctx)
		}
		return len(old), err
	})
}

type organisationRow struct {
	Organisation organisationFields `gorm:"embedded"`
	Epoch        int64              `gorm:"->:false"` // written only by Lock
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

func (g group) Organisations() ports.Organisations { return organisations(g) }

func (q organisations) Get(ctx context.Context, o id.Org) (org.Organisation, error) {
	return get(ctx, organisationTable.on(q.read).key(string(o)), (*organisationRow).organisation)
}

func (q organisations) ByProvider(ctx context.Context, providerID string) (org.Organisation, error) {
	return get(ctx, organisationTable.on(q.read).filter("provider_id = ?", providerID), (*organisationRow).organisation)
}

func (q organisations) Upsert(
	ctx context.Context, fresh org.Organisation, fn func(org.Organisation) (org.Organisation, error),
) (org.Organisation, error) {
	return upsert(ctx, q.conn, organisationTable.on(q.write), fresh.ProviderID, (*organisationRow).organisation, rowOfOrganisation, fresh, fn)
}

// Lock locks the row by updating its epoch. A transaction that has the lock only reads.
func (q organisations) Lock(ctx context.Context, o id.Org) (org.Organisation, error) {
	if !q.inTransaction() {
		return org.Organisation{}, errNotInTransaction("an organisation is locked")
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
		s = s.after("id", cursorID(f.After))
	}
	if f.IDs != nil {
		s = s.whereIn("id", list(q.dialect, validIDs(f.IDs)))
	}
	if f.ClosedBefore != nil {
		s = s.filter("closed_at <= ? AND erased_at IS NULL", f.ClosedBefore.UnixMilli())
	}
	if f.Search == "" {
		return all(ctx, s.page("id", f.Limit), (*organisationRow).organisation)
	}
	matching := s.page("id", f.ExamineLimit).scanAtMost(f.Limit, q.dialect.nameCondition(), f.Search, f.Search)
	found, err := all(ctx, matching, (*organisationRow).organisation)
	if named := validIDs([]id.Org{id.Org(strings.ToLower(f.Search))}); err == nil && len(named) > 0 {
		var own []org.Organisation
		own, err = all(ctx, s.filter("id = ?", string(named[0])), (*organisationRow).organisation)
		found = f.Merge(found, own)
	}
	return found, err
}

// nameCondition holds for organisations in whose name or slug a text, which is given twice, occurs as
// org.Organisation.Matches says. No index finds what is within a text.
func (d dialect) nameCondition() string {
	if d == onPostgres {
		return `(strpos(lower(name COLLATE "C"), lower(?::text COLLATE "C")) > 0
			OR strpos(lower(slug COLLATE "C"), lower(?::text COLLATE "C")) > 0)`
	}
	return "(instr(lower(name), lower(?)) > 0 OR instr(lower(slug), lower(?)) > 0)"
}

// erased are the tables that Erase empties, in an order that foreign keys allow. Rows of the others are deleted by
// cascade, except revocations, which stay until they are done.
var erased = []*tenantTable{
	objectTable, versionTable, changeTable, headTable, historyTable, taskTable, workspaceTable, teamMemberTable, teamTable,
	orderTable, invitationTable, memberTable, subscriptionTable, auditTable, accountTable, entryTable, userModelTable,
	userSumTable, modelSumTable, sessionTable, deviceGrantTable, exportTable, uploadTable,
}

// erase returns the text that deletes some rows of an organisation, and returns the names of their contents.
func (t *tenantTable) erase() string {
	key, blob := cmp.Or(join(keysOf(t.rest), "%"), "org_id"), "''"
	switch t {
	case objectTable, versionTable:
		blob = "blob"
	case entryTable:
		key = "at, id" // their order on SQLite
	}
	return "DELETE FROM " + t.name + " WHERE org_id = @org AND (" + key + ") IN" +
		" (SELECT " + key + " FROM " + t.name + " WHERE org_id = @org LIMIT ?) RETURNING " + blob
}

func (q organisations) Erase(ctx context.Context, o id.Org, now time.Time, limit int) (n int, err error) {
	err = q.atomic(ctx, func(c *conn) error {
		n = 0
		row := organisationTable.on(c.write).key(string(o))
		existing, err := get(ctx, row.forUpdate(), (*organisationRow).organisation)
		if err != nil {
			return err
		}
		// The lock keeps objects from being added.
		if _, err := (changes{c}).lock(ctx, o); err != nil {
			return err
		}
		if _, err := connectorTable.of(c.write, o).remove(ctx); err != nil {
			return err
		}
		for _, t := range erased {
			var name string
			var names []string
			err := eachRow(ctx, c.write, "Organisation", tenantSQL(o, t.erase(), limit-n), []any{&name}, func() error {
				if n++; name != "" {
					names = append(names, name)
				}
				return nil
			})
			if err == nil {
				err = blobNames{c}.Discard(ctx, o, names, now)
			}
			if err != nil || n == limit {
				return err
			}
		}
		if err := (blobNames{c}).discardAll(ctx, o, now); err != nil {
			return err
		}
		delete(c.heads, o)
		delete(c.appended, o)
		return row.save(ctx, rowOfOrganisation(existing.Erased(now)))
	})
	return n, err
}

// Epochs reads one organisation by its key, and several by one parameter, so that only two
// statements are prepared.
func (db *DB) Epochs(ctx context.Context, orgs []id.Org) (map[id.Org]int64, error) {
	found := make(map[id.Org]int64, len(orgs))
	var o string
	var epoch int64
	switch known := validIDs(orgs); len(known) {
	case 0:
		return found, nil
	case 1:
		ok, err := oneRow(ctx, db.read, "Organisation", selectEpoch(known[0]), &o, &epoch)
		if ok {
			found[id.Org(o)] = epoch
		}
		return found, err
	default:
		c := sharedSQL(epochs+db.dialect.in("id", "?", "uuid"), list(db.dialect, known))
		return found, eachRow(ctx, db.read, "Organisation", c, []any{&o, &epoch}, func() error {
			found[id.Org(o)] = epoch
			return nil
		})
	}
}
