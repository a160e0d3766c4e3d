package gormdb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"collab/domain/calendar"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/ports"
)

// sweptLeases is the most leases that Sweep ends in one transaction, which locks their
// accounts.
const sweptLeases = 200

type accountRow struct {
	OrgID    id.Org  `gorm:"primaryKey"`
	UserID   id.User `gorm:"primaryKey"`
	Day      int64   `gorm:"primaryKey"`
	Used     int64
	Reserved int64
	Granted  int64
}

type leaseRow struct {
	OrgID     id.Org     `gorm:"primaryKey"`
	UserID    id.User    `gorm:"primaryKey"`
	Day       int64      `gorm:"primaryKey"`
	ID        id.Request `gorm:"primaryKey"`
	Tokens    int64
	ExpiresAt time.Time
}

var (
	accountTable = tenant[accountRow]("quota_accounts", "Account")
	leaseTable   = tenant[leaseRow]("quota_leases", "Lease")
)

func (r *accountRow) account() (quota.Account, error) {
	return quota.Account{Used: r.Used, Reserved: r.Reserved}, nil
}

// millis returns the first millisecond of a day.
func millis(d calendar.Day) int64 { return d.Start().UnixMilli() }

// quotas locks an account before the account's leases, and several of either in
// the order of their keys, to avoid deadlocks.
type quotas struct{ *conn }

func (g group) Quotas() ports.Quotas { return quotas(g) }

func (q quotas) ReserveAt(ctx context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (granted int64, err error) {
	most := quota.Account{}.Grant(limit, n)
	if most == 0 {
		return 0, nil
	}
	user, day := string(l.User), millis(l.Day)
	statement := reserve[q.dialect]
	if q.dialect == onPostgres && !q.inTransaction() {
		statement = reserveAsync
	}
	reserve := statement.of(l.Org).set("user", user).set("day", day).set("id", string(l.ID)).
		set("epoch", epoch).set("limit", limit).set("most", most).set("input", n.Input)
	if q.dialect == onPostgres {
		found, err := oneRow(ctx, q.write, "Lease", reserve.set("expires_at", l.ExpiresAt.UnixMilli()), &granted)
		if err == nil && !found {
			err = q.refused(ctx, l)
		}
		return granted, err
	}
	err = q.atomicAsync(ctx, func(c *conn) error {
		granted = 0 // of a run that was rolled back
		found, err := oneRow(ctx, c.write, "Lease", reserve, &granted)
		if err != nil {
			return err
		}
		if !found {
			return quotas{c}.refused(ctx, l)
		}
		_, err = exec(ctx, c.write, "Lease", addLease.of(l.Org).set("user", user).set("day", day).set("id", string(l.ID)).
			set("tokens", granted).set("expires_at", l.ExpiresAt.UnixMilli()))
		return err
	})
	if err != nil {
		return 0, err
	}
	return granted, nil
}

// ReserveAllAt is one statement on Postgres.
func (q quotas) ReserveAllAt(ctx context.Context, epoch int64, leases []quota.Lease, limit int64) (granted []id.User, err error) {
	rows, sums := make([]leaseRow, len(leases)), make([]accountRow, len(leases))
	for i, l := range leases {
		rows[i] = leaseRow{UserID: l.User, Day: millis(l.Day), ID: l.ID, Tokens: l.Tokens, ExpiresAt: l.ExpiresAt}
		sums[i] = accountRow{UserID: l.User, Day: rows[i].Day, Reserved: l.Tokens}
	}
	sums = summed(sums, byAccount, func(to *accountRow, one accountRow) { to.Reserved += one.Reserved })
	o := leases[0].Org
	statement := reserveAll[q.dialect]
	if q.dialect == onPostgres && !q.inTransaction() {
		statement = reserveAllAsync
	}
	reserve := statement.of(o).set("sums", records(sums, reservedSums)).set("epoch", epoch).set("limit", limit)
	var user id.User
	if q.dialect == onPostgres {
		reserve = reserve.set("rows", records(rows, reservedLeases))
		granted, err = rowsOf(ctx, q.write, "Lease", reserve, &user, (*string)(&user))
	} else {
		err = q.atomicAsync(ctx, func(c *conn) error {
			granted, err = rowsOf(ctx, c.write, "Lease", reserve, &user, (*string)(&user))
			if err != nil || len(granted) == 0 {
				return err
			}
			got := slices.DeleteFunc(slices.Clone(rows), func(r leaseRow) bool { return !slices.Contains(granted, r.UserID) })
			_, err := exec(ctx, c.write, "Lease", addLeases[onSQLite].of(o).set("rows", records(got, reservedLeases)))
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	if len(granted) == 0 {
		_, err = organisations(q).Get(ctx, o)
	}
	return granted, err
}

// refused returns why nothing was granted, nil if the quota is used up.
func (q quotas) refused(ctx context.Context, l quota.Lease) error {
	var known bool
	c := leaseKnown.of(l.Org).set("user", string(l.User)).set("day", millis(l.Day)).set("id", string(l.ID))
	err := getRow(ctx, q.write, "Organisation", c, &known)
	if err == nil && known {
		err = fault.New(fault.Conflict, "Lease is there already")
	}
	return err
}

func (q quotas) Account(ctx context.Context, o id.Org, user id.User, d calendar.Day) (quota.Account, error) {
	a, _, err := find(ctx, accountTable.of(q.read, o).key(string(user), millis(d)), (*accountRow).account)
	return a, err
}

// The fields of parameters with several leases or accounts: keys of leases, tokens to return to
// accounts and to reserve of them, and new leases.
var (
	leaseKeys      = leaseTable.fieldsOf("org_id", "user_id", "day", "id")
	returnedFields = leaseTable.fieldsOf("org_id", "user_id", "day", "tokens")
	reservedSums   = accountTable.fieldsOf("user_id", "day", "reserved")
	reservedLeases = leaseTable.fieldsOf("user_id", "day", "id", "tokens", "expires_at")
)

func (r *leaseRow) lease() (leaseRow, error) { return *r, nil }

// summed returns a row for each key, in the order of compare, with the sums of the rows
// that have it. It reuses the slice.
func summed[R any](rows []R, compare func(a, b R) int, add func(to *R, one R)) []R {
	slices.SortFunc(rows, compare)
	all := rows[:0]
	for _, r := range rows {
		if n := len(all); n > 0 && compare(all[n-1], r) == 0 {
			add(&all[n-1], r)
		} else {
			all = append(all, r)
		}
	}
	return all
}

func compareAccounts(a, b leaseRow) int {
	return cmp.Or(cmp.Compare(a.OrgID, b.OrgID), cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Day, b.Day))
}

func byAccount(a, b accountRow) int {
	return cmp.Or(cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Day, b.Day))
}

// lock locks several rows in their order, which an UPDATE of several does not guarantee.
func (q quotas) lock(ctx context.Context, lock statement, keys string) error {
	if q.dialect != onPostgres {
		return nil
	}
	c := lock.crossTenant(crossTenantLeases).set("keys", keys)
	return eachRow(ctx, q.write, "Lease", c, []any{new(int)}, func() error { return nil })
}

// Extend skips ids that are not UUIDs, which Postgres cannot compare.
func (q quotas) Extend(ctx context.Context, leases []quota.Lease, until time.Time) error {
	var keys []leaseRow
	for _, l := range leases {
		if len(validIDs([]string{string(l.Org), string(l.User), string(l.ID)})) == 3 {
			keys = append(keys, leaseRow{OrgID: l.Org, UserID: l.User, Day: millis(l.Day), ID: l.ID})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	these := records(keys, leaseKeys)
	return q.atomic(ctx, func(c *conn) error {
		if err := (quotas{c}).lock(ctx, lockLeases, these); err != nil {
			return err
		}
		_, err := exec(ctx, c.write, "Lease", extendLeases[c.dialect].crossTenant(crossTenantLeases).
			set("until", until.UnixMilli()).set("keys", these))
		return err
	})
}

// Sweep reads a batch of expired leases, and ends those that still exist and are expired
// once their accounts are locked.
func (q quotas) Sweep(ctx context.Context, now time.Time) error {
	due := leaseTable.crossTenant(q.read, crossTenantLeases).filter("expires_at <= ?", now.UnixMilli()).
		read("user_id", "day", "id").page("expires_at", sweptLeases)
	for {
		expired, err := all(ctx, due, (*leaseRow).lease)
		if err != nil || len(expired) == 0 {
			return err
		}
		these := records(expired, leaseKeys)
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
	var one leaseRow
	c := deleteExpired[q.dialect].crossTenant(crossTenantLeases).set("now", now.UnixMilli()).set("keys", expired)
	taken, err := rowsOf(ctx, q.write, "Lease", c, &one, dest(&one, returnedFields)...)
	if err != nil || len(taken) == 0 {
		return err
	}
	sums := summed(taken, compareAccounts, func(to *leaseRow, one leaseRow) { to.Tokens += one.Tokens })
	_, err = exec(ctx, q.write, "Account", returnTokens[q.dialect].crossTenant(crossTenantLeases).
		set("sums", records(sums, returnedFields)))
	return err
}
