package ports

import (
	"context"
	"time"

	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
)

// Usage holds what requests to models use.
type Usage interface {
	Quotas() Quotas
	Ledger() Ledger
}

// Quotas holds each member's account of each day, and the leases on it.
type Quotas interface {
	// Reserve grants what quota.Account.Grant does for the account of the lease's
	// organisation, user and day, and stores the lease with it as its Tokens. It
	// returns 0 and stores nothing when nothing is granted. Of many at once, on any
	// number of servers, no two are granted the same tokens. A reservation may be
	// forgotten when the store crashes, unless it was made in Atomic.
	Reserve(ctx context.Context, l quota.Lease, limit int64, n quota.Need) (granted int64, err error)
	// ReserveAt is Reserve while the organisation's epoch is the given one (see
	// Epochs): at another nothing is granted. It sees what Epochs sees.
	ReserveAt(ctx context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (granted int64, err error)
	// Settle ends the lease and counts what was used. What the lease held is given
	// back, once: a lease that has been swept holds nothing any more. Settling is not
	// idempotent; it belongs in one transaction with the Ledger's Add.
	Settle(ctx context.Context, l quota.Lease, used int64) error
	// Account returns the member's account of the day, an empty one for none.
	Account(ctx context.Context, o id.Org, user id.User, d quota.Day) (quota.Account, error)
	// Extend moves the expiry of those leases that are there.
	Extend(ctx context.Context, leases []quota.Lease, until time.Time) error
	// Sweep gives back what leases hold that have expired at now, each once.
	Sweep(ctx context.Context, now time.Time) error
}

// Ledger holds what every request used, and the sums that are derived from it
// in the same transaction.
type Ledger interface {
	// Add appends an entry; Conflict when its id is there.
	Add(ctx context.Context, e usage.Entry) error
	// Summary calls head with the sums of the entries of the period: of the user's,
	// or of all users' where user is empty. Then it calls each with the sums of every
	// user, by user id, where user is empty. All sums are of one moment. An error of
	// head or each ends it and is returned. Its cost depends on the number of users,
	// models and days, not on that of the entries.
	Summary(ctx context.Context, o id.Org, user id.User, p usage.Period, head func(usage.Summary) error, each func(usage.Part) error) error
	// Entries calls each with the organisation's entries in the order of At, then
	// id; it is for recounting. An error of each ends it and is returned.
	Entries(ctx context.Context, o id.Org, p usage.Period, each func(usage.Entry) error) error
}
