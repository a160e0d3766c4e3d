package ports

import (
	"context"
	"time"

	"collab/domain/calendar"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
)

// Usage hands over the collections of organisations' usage: tokens of models, and requests.
type Usage interface {
	Quotas() Quotas
	Ledger() Ledger
	Requests() Requests
}

// Quotas holds each member's account of each day, and the leases on it, which end with
// Ledger.Settle.
type Quotas interface {
	// ReserveAt grants what quota.Account.Grant grants to the account of the lease's
	// organisation, user and day, and stores the lease with that as its Tokens. It grants
	// nothing unless the organisation's epoch is the given one (see Epochs), and sees what
	// Epochs sees. It returns 0 and stores nothing if nothing is granted. Concurrent calls,
	// on any number of servers, are never granted the same tokens. A crash of the store may
	// lose a reservation, unless it was made in Atomic.
	ReserveAt(ctx context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (granted int64, err error)
	// ReserveAllAt is ReserveAt for the Tokens of several leases of one organisation and day,
	// all of a member's or none: a member whose account has not all of them left under the
	// limit gets none. It returns the members that got theirs. Conflict if a lease that would be
	// granted is there already; then nothing is reserved, and a transaction must be given up.
	ReserveAllAt(ctx context.Context, epoch int64, leases []quota.Lease, limit int64) (granted []id.User, err error)
	// Account returns the member's account of the day; a missing one is empty.
	Account(ctx context.Context, o id.Org, user id.User, d calendar.Day) (quota.Account, error)
	// Extend sets the expiry of those of the leases that exist.
	Extend(ctx context.Context, leases []quota.Lease, until time.Time) error
	// Sweep ends the leases that have expired at now and returns their tokens.
	Sweep(ctx context.Context, now time.Time) error
}

// Ledger holds the usage of every request, and sums that are updated in the same transaction.
type Ledger interface {
	// Settle appends entries of the organisation's requests that ended, all or none. For
	// each it ends the lease with its id on the account of its user and the day of its At,
	// returns the lease's tokens unless it was swept, and counts Tokens.Total as used.
	// Conflict on a taken id.
	Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error
	// Summary calls head with the sums of the period for the user, or for all users if
	// user is empty, and in that case then each with the sums of every user by user id.
	// All are read in one snapshot. An error of head or each ends it and is returned. Its
	// cost depends on the number of users, models and days, not of entries.
	Summary(ctx context.Context, o id.Org, user id.User, p usage.Period, head func(usage.Summary) error, each func(usage.Part) error) error
	// Totals returns the sums of the days from first to last, both included, of each of the
	// organisations; those that do not exist used nothing. Its cost is that of Daily.
	Totals(ctx context.Context, orgs []id.Org, first, last calendar.Day) (map[id.Org]usage.Sum, error)
	// Daily calls each with the sums that b selects and that have requests, by day, and within
	// a day in a fixed order of the store; from after the given one, the zero value is the
	// start, at most limit, 0: all. An error of each ends it and is returned. Its cost depends
	// on the number of users or models and days, not of entries.
	Daily(ctx context.Context, o id.Org, b usage.Breakdown, after usage.Daily, limit int, each func(usage.Daily) error) error
	// Entries calls each with the organisation's entries by At, then id, for recounting.
	// An error of each ends it and is returned.
	Entries(ctx context.Context, o id.Org, p usage.Period, each func(usage.Entry) error) error
}

// Requests holds how many requests of each organisation its servers have counted in each minute.
type Requests interface {
	// Add adds n requests to those of the organisation in the minute that begins at the time, and
	// returns their sum. A crash of the store may lose them.
	Add(ctx context.Context, o id.Org, minute time.Time, n int64) (sum int64, err error)
	// Prune removes the counts of minutes that began before the time.
	Prune(ctx context.Context, before time.Time) error
}
