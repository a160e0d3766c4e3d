package invitation

import (
	"time"

	"collab/domain/fault"
)

// Rate is how often something may happen: Burst times at once, and once more
// every Every.
type Rate struct {
	Burst int
	Every time.Duration
}

// Rates of invitation e-mails: how often one invitation is sent again, and how often an
// organisation sends invitations, new ones and again.
var (
	Resends = Rate{3, 10 * time.Minute}
	Emails  = Rate{200, time.Minute}
)

// Take counts one more at now and returns the new value of spent, the time at
// which the rate is unused again; the zero time means unused. It fails with
// Limited when the rate is used up. A spent further ahead than the rate allows
// comes from a clock that was ahead, and counts as unused.
func (r Rate) Take(unusedAt, now time.Time) (time.Time, error) {
	if unusedAt.Before(now) || unusedAt.After(now.Add(time.Duration(r.Burst)*r.Every)) {
		unusedAt = now
	}
	next := unusedAt.Add(r.Every)
	if wait := next.Sub(now) - time.Duration(r.Burst)*r.Every; wait > 0 {
		return unusedAt, fault.New(fault.Limited, "Too many invitations were sent").RetryIn(int((wait + time.Second - 1) / time.Second))
	}
	return next, nil
}
