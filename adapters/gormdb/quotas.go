package gormdb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/ports"
)

// sweptLeases is how many leases Sweep ends in one transaction at most: their
// accounts are locked meanwhile.
const sweptLeases = 200

type accountRow struct {
	OrgID    string `gorm:"type:uuid;primaryKey"`
	UserID   string `gorm:"type:uuid;primaryKey"`
	Day      int64  `gorm:"primaryKey;autoIncrement:false"`
	Used     int64  `gorm:"not null"`
	Reserved int64  `gorm:"not null"`
	Granted  int64  `gorm:"not null"`
}

func (accountRow) TableName() string { return "quota_accounts" }

type leaseRow struct {
	OrgID   string `gorm:"type:uuid;primaryKey"`
	UserID  string `gorm:"type:uuid;primaryKey"`
	Day     int64  `gorm:"primaryKey;autoIncrement:false"`
	ID      string `gorm:"type:uuid;primaryKey"`
	Tokens  int64  `gorm:"not null"`
	Expires int64  `gorm:"column:expires_at;not null"`
}

func (leaseRow) TableName() string { return "quota_leases" }

// millis is the first millisecond of a day.
func millis(d quota.Day) int64 { return d.Start().UnixMilli() }

// quotas locks an account before the account's leases, and several of either in
// the order of their keys, so that nobody waits in a circle.
type quotas struct{ *conn }

var _ ports.Quotas = quotas{}

const insertLease = "INSERT INTO quota_leases (org_id, user_id, day, id, tokens, expires_at)"

// reserve and reserveAt are by dialect what grants, as quota.Account.Grant does:
// an account that is not there yet what an empty one grants. The conflict is
// decided on the row as it is after everybody else's commit. On Postgres the same
// statement stores the lease.
var (
	reserve   = granting("")
	reserveAt = granting(" AND o.epoch = ?")
)

// granting is reserve for organisations of which something holds.
func granting(holds string) (s [2]string) {
	for d, least := range map[dialect]string{onSQLite: "MIN", onPostgres: "LEAST"} {
		left := "? - quota_accounts.used - quota_accounts.reserved"
		granted := least + "(excluded.granted, " + left + ")"
		tokens := d.param(column{"granted", "bigint"})
		s[d] = "INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT o.id, " +
			d.param(column{"user_id", "uuid"}) + ", " + d.param(column{"day", "bigint"}) + ", 0, " + tokens + ", " + tokens +
			" FROM organisations o WHERE o.id = ?" + holds +
			" AND NOT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = ? AND l.user_id = ? AND l.day = ? AND l.id = ?)" +
			" ON CONFLICT (org_id, user_id, day) DO UPDATE SET reserved = quota_accounts.reserved + " + granted + ", granted = " + granted +
			" WHERE " + left + " > ? RETURNING granted"
	}
	s[onPostgres] = "WITH account AS (" + s[onPostgres] + "), lease AS (" + insertLease +
		" SELECT ?::uuid, ?::uuid, ?::bigint, ?::uuid, a.granted, ?::bigint FROM account a) SELECT a.granted FROM account a"
	return s
}

// alone has a statement on Postgres that is a transaction of its own not wait for
// the disk when it commits.
const alone = " WHERE set_config('synchronous_commit', 'off', true) = 'off'"

var reserveAlone, reserveAtAlone = reserve[onPostgres] + alone, reserveAt[onPostgres] + alone

func (q quotas) Reserve(ctx context.Context, l quota.Lease, limit int64, n quota.Need) (granted int64, err error) {
	statement := reserve[q.dialect]
	if q.dialect == onPostgres && !q.inside() {
		statement = reserveAlone
	}
	return q.reserve(ctx, statement, nil, l, limit, n)
}

func (q quotas) ReserveAt(ctx context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (granted int64, err error) {
	statement := reserveAt[q.dialect]
	if q.dialect == onPostgres && !q.inside() {
		statement = reserveAtAlone
	}
	return q.reserve(ctx, statement, []any{epoch}, l, limit, n)
}

// reserve runs one of the statements; holds are what it asks of the organisation.
func (q quotas) reserve(ctx context.Context, statement string, holds []any, l quota.Lease, limit int64, n quota.Need) (granted int64, err error) {
	most := quota.Account{}.Grant(limit, n)
	if most == 0 {
		return 0, nil
	}
	org, user, day := string(l.Org), string(l.User), millis(l.Day)
	args := append([]any{user, day, most, most, org}, holds...)
	args = append(args, org, user, day, string(l.ID), limit, limit, limit, n.Input)
	lease := []any{org, user, day, string(l.ID)}
	if q.dialect == onPostgres {
		args = append(append(args, lease...), l.ExpiresAt.UnixMilli())
		granted, found, err := row(ctx, q.write, "Lease", scanInt, statement, args...)
		if err == nil && !found {
			err = q.refused(ctx, l)
		}
		return granted, err
	}
	err = q.fleetingly(ctx, func(c *conn) error {
		var found bool
		granted, found, err = row(ctx, c.write, "Lease", scanInt, statement, args...)
		if err != nil {
			return err
		}
		if !found {
			return quotas{c}.refused(ctx, l)
		}
		_, err = exec(ctx, c.write, "Lease", insertLease+" VALUES (?, ?, ?, ?, ?, ?)", append(lease, granted, l.ExpiresAt.UnixMilli())...)
		return err
	})
	if err != nil {
		return 0, err
	}
	return granted, nil
}

// refused returns nil where nothing was granted because there is no room.
func (q quotas) refused(ctx context.Context, l quota.Lease) error {
	known, err := get(ctx, q.write, "Organisation", scanBool,
		"SELECT EXISTS (SELECT 1 FROM quota_leases l WHERE l.org_id = o.id AND l.org_id = ? AND l.user_id = ? AND l.day = ? AND l.id = ?) FROM organisations o WHERE o.id = ?",
		string(l.Org), string(l.User), millis(l.Day), string(l.ID), string(l.Org))
	if err == nil && known {
		err = fault.New(fault.Conflict, "Lease is there already")
	}
	return err
}

// addUsed is a statement by dialect.
var addUsed = func() (s [2]string) {
	for _, d := range []dialect{onSQLite, onPostgres} {
		s[d] = "INSERT INTO quota_accounts (org_id, user_id, day, used, reserved, granted) SELECT o.id, " +
			d.param(column{"user_id", "uuid"}) + ", " + d.param(column{"day", "bigint"}) + ", " + d.param(column{"used", "bigint"}) + ", 0, 0" +
			" FROM organisations o WHERE o.id = ? ON CONFLICT (org_id, user_id, day) DO UPDATE SET used = quota_accounts.used + excluded.used"
	}
	return s
}()

func (q quotas) Settle(ctx context.Context, l quota.Lease, used int64) error {
	org, user, day := string(l.Org), string(l.User), millis(l.Day)
	return q.atomic(ctx, func(c *conn) error {
		n, err := exec(ctx, c.write, "Account", addUsed[c.dialect], user, day, used, org)
		if err == nil && n == 0 {
			err = fault.Missing("Organisation")
		}
		if err != nil {
			return err
		}
		held, found, err := row(ctx, c.write, "Lease", scanInt,
			"DELETE FROM quota_leases WHERE org_id = ? AND user_id = ? AND day = ? AND id = ? RETURNING tokens", org, user, day, string(l.ID))
		if err != nil || !found {
			return err
		}
		_, err = exec(ctx, c.write, "Account", "UPDATE quota_accounts SET reserved = reserved - ? WHERE org_id = ? AND user_id = ? AND day = ?", held, org, user, day)
		return err
	})
}

func scanAccount(s scanner) (a quota.Account, err error) {
	err = s.Scan(&a.Used, &a.Reserved)
	return a, err
}

func (q quotas) Account(ctx context.Context, o id.Org, user id.User, d quota.Day) (quota.Account, error) {
	a, _, err := row(ctx, q.read, "Account", scanAccount, "SELECT used, reserved FROM quota_accounts WHERE org_id = ? AND user_id = ? AND day = ?",
		string(o), string(user), millis(d))
	return a, err
}

// leaseKey is what names a lease in a parameter that has several; without an
// id, an account. Tokens are what the account gets back.
type leaseKey struct {
	Org    string `json:"org_id"`
	User   string `json:"user_id"`
	Day    int64  `json:"day"`
	ID     string `json:"id,omitempty"`
	Tokens int64  `json:"tokens,omitempty"`
}

func compareLeases(a, b leaseKey) int {
	return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.User, b.User), cmp.Compare(a.Day, b.Day), cmp.Compare(a.ID, b.ID))
}

func scanLeaseKey(s scanner) (k leaseKey, err error) {
	err = s.Scan(&k.Org, &k.User, &k.Day, &k.ID)
	return k, err
}

func scanTaken(s scanner) (k leaseKey, err error) {
	err = s.Scan(&k.Org, &k.User, &k.Day, &k.Tokens)
	return k, err
}

var (
	accountColumns = []column{{"org_id", "uuid"}, {"user_id", "uuid"}, {"day", "bigint"}}
	leaseColumns   = append(slices.Clone(accountColumns), column{"id", "uuid"})
	backColumns    = append(slices.Clone(accountColumns), column{"tokens", "bigint"})
)

// Statements by dialect whose last parameter is leases or accounts. Those that
// lock are Postgres's alone.
var lockAccounts, lockLeases, extendLeases, takeLeases, giveBack = func() (accounts, leases, extend, take, back [2]string) {
	const ofAccount = ".org_id = v.org_id AND quota_accounts.user_id = v.user_id AND quota_accounts.day = v.day"
	const ofLease = ".org_id = v.org_id AND quota_leases.user_id = v.user_id AND quota_leases.day = v.day AND quota_leases.id = v.id"
	for _, d := range []dialect{onSQLite, onPostgres} {
		accounts[d] = "SELECT 1 FROM quota_accounts JOIN " + d.records(leaseColumns) + " ON quota_accounts" + ofAccount +
			" ORDER BY quota_accounts.org_id, quota_accounts.user_id, quota_accounts.day" + d.held()
		leases[d] = "SELECT 1 FROM quota_leases JOIN " + d.records(leaseColumns) + " ON quota_leases" + ofLease +
			" ORDER BY quota_leases.org_id, quota_leases.user_id, quota_leases.day, quota_leases.id" + d.held()
		extend[d] = "UPDATE quota_leases SET expires_at = ? FROM " + d.records(leaseColumns) + " WHERE quota_leases" + ofLease
		take[d] = "DELETE FROM quota_leases WHERE expires_at <= ? AND (org_id, user_id, day, id) IN (SELECT v.org_id, v.user_id, v.day, v.id FROM " +
			d.records(leaseColumns) + ") RETURNING org_id, user_id, day, tokens"
		back[d] = "UPDATE quota_accounts SET reserved = quota_accounts.reserved - v.tokens FROM " + d.records(backColumns) + " WHERE quota_accounts" + ofAccount
	}
	return accounts, leases, extend, take, back
}()

// lock takes the locks of several rows in their order, which those who change
// them in one statement do not keep.
func (q quotas) lock(ctx context.Context, statement [2]string, keys string) error {
	if q.dialect != onPostgres {
		return nil
	}
	_, err := all(ctx, acrossLeases.on(q.write), "Lease", scanInt, statement[onPostgres], keys)
	return err
}

// Extend leaves out what cannot be there: Postgres compares no other ids.
func (q quotas) Extend(ctx context.Context, leases []quota.Lease, until time.Time) error {
	var keys []leaseKey
	for _, l := range leases {
		if len(ids([]string{string(l.Org), string(l.User), string(l.ID)})) == 3 {
			keys = append(keys, leaseKey{Org: string(l.Org), User: string(l.User), Day: millis(l.Day), ID: string(l.ID)})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	these, err := written(keys)
	if err != nil {
		return failed(ctx, err, "Lease")
	}
	return q.atomic(ctx, func(c *conn) error {
		if err := (quotas{c}).lock(ctx, lockLeases, these); err != nil {
			return err
		}
		_, err := exec(ctx, acrossLeases.on(c.write), "Lease", extendLeases[c.dialect], until.UnixMilli(), these)
		return err
	})
}

// Sweep looks for some expired leases at a time, and ends those of them that are
// still there and expired once their accounts are locked.
func (q quotas) Sweep(ctx context.Context, now time.Time) error {
	query, limit := q.dialect.page("SELECT org_id, user_id, day, id FROM quota_leases WHERE expires_at <= ?", "expires_at", sweptLeases)
	for {
		expired, err := all(ctx, acrossLeases.on(q.read), "Lease", scanLeaseKey, query, append([]any{now.UnixMilli()}, limit...)...)
		if err != nil || len(expired) == 0 {
			return err
		}
		these, err := written(expired)
		if err != nil {
			return failed(ctx, err, "Lease")
		}
		if err := q.atomic(ctx, func(c *conn) error { return (quotas{c}).sweep(ctx, these, now) }); err != nil {
			return err
		}
	}
}

func (q quotas) sweep(ctx context.Context, expired string, now time.Time) error {
	if err := q.lock(ctx, lockAccounts, expired); err != nil {
		return err
	}
	if err := q.lock(ctx, lockLeases, expired); err != nil {
		return err
	}
	taken, err := all(ctx, acrossLeases.on(q.write), "Lease", scanTaken, takeLeases[q.dialect], now.UnixMilli(), expired)
	if err != nil || len(taken) == 0 {
		return err
	}
	slices.SortFunc(taken, compareLeases)
	sums := taken[:1]
	for _, k := range taken[1:] {
		if last := &sums[len(sums)-1]; compareLeases(*last, k) == 0 {
			last.Tokens += k.Tokens
		} else {
			sums = append(sums, k)
		}
	}
	back, err := written(sums)
	if err != nil {
		return failed(ctx, err, "Lease")
	}
	_, err = exec(ctx, acrossLeases.on(q.write), "Account", giveBack[q.dialect], back)
	return err
}
