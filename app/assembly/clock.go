package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.uber.org/fx"

	"collab/ports"
)

const (
	compareEvery = 10 * time.Second
	// clockTolerance is the difference from the database's clock that is not corrected, beside
	// what the comparison itself cannot tell.
	clockTolerance = 50 * time.Millisecond
	// maxComparison is the longest duration of a comparison that counts.
	maxComparison = time.Second
	// comparisonTimeout bounds each comparison.
	comparisonTimeout = 2 * time.Second
)

// machineClock is the clock of the machine.
type machineClock struct{ ports.Clock }

// databaseTime returns the time of the database's clock; nil if it is the machine's.
type databaseTime func(context.Context) (time.Time, error)

// commonClock is the machine's clock, corrected by the database's. So servers of a deployment agree
// on leases, expiry and order if the clocks of their machines do not.
type commonClock struct {
	machine  ports.Clock
	database databaseTime
	log      *slog.Logger
	ahead    atomic.Int64 // of the database, in nanoseconds
}

// newClock returns the machine's clock, or one that is corrected from the start on and regularly.
func newClock(ctx graphContext, lc fx.Lifecycle, machine machineClock, database databaseTime, log *slog.Logger) (ports.Clock, error) {
	if database == nil {
		return machine.Clock, nil
	}
	c := &commonClock{machine: machine.Clock, database: database, log: log}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("reading the database's clock: %w", err)
	}
	schedule(lc, compareEvery, func(ctx context.Context) error {
		_, err := c.compare(ctx)
		return err
	}, log, "clock comparison failed")
	return c, nil
}

// start compares until a comparison counts. It returns the context's error if ctx ends first, and
// that of a comparison that fails for another reason than its timeout.
func (c *commonClock) start(ctx context.Context) error {
	for {
		counts, err := c.compare(ctx)
		switch {
		case counts:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

// Now returns the present by the database's clock.
func (c *commonClock) Now() time.Time { return c.machine.Now().Add(time.Duration(c.ahead.Load())) }

// compare corrects the clock. It changes nothing if the comparison takes too long, which then does
// not count, or if the difference could be due to its duration.
func (c *commonClock) compare(ctx context.Context) (counts bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, comparisonTimeout)
	defer cancel()
	start := c.machine.Now()
	databaseNow, err := c.database(ctx)
	if err != nil {
		return false, err
	}
	duration := c.machine.Now().Sub(start)
	if duration < 0 || duration > maxComparison {
		return false, nil
	}
	ahead := databaseNow.Sub(start.Add(duration / 2)).Truncate(time.Millisecond)
	if (ahead - time.Duration(c.ahead.Load())).Abs() <= duration/2+clockTolerance {
		return true, nil
	}
	c.ahead.Store(int64(ahead))
	c.log.Warn("clock corrected", "ahead_seconds", ahead.Seconds())
	return true, nil
}
