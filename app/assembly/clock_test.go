package assembly

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/memory"
	"collab/test/must"
)

func TestTheClockOfAServerIsTheDatabases(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	machine := memory.NewClock(start)
	var ahead, takes time.Duration // of the database, and of its answers
	c := &commonClock{machine: machine, log: slog.New(slog.DiscardHandler), database: func(context.Context) (time.Time, error) {
		machine.Advance(takes / 2)
		is := machine.Now().Add(ahead)
		machine.Advance(takes - takes/2)
		return is, nil
	}}
	for _, step := range []struct {
		about              string
		ahead, takes, want time.Duration
	}{
		{"a small difference is not corrected", 40 * time.Millisecond, 0, 0},
		{"a difference that the answer's duration explains is not corrected", 400 * time.Millisecond, 800 * time.Millisecond, 0},
		{"a large one is", -5 * time.Minute, 20 * time.Millisecond, -5 * time.Minute},
		{"the correction stays if the database takes too long", time.Hour, 2 * time.Second, -5 * time.Minute},
		{"the correction follows the database", 3 * time.Second, 0, 3 * time.Second},
	} {
		ahead, takes = step.ahead, step.takes
		must.Do(c.compare(t.Context())).Or(t)
		if got := c.Now().Sub(machine.Now()); got != step.want {
			t.Errorf("%s: the clock is %v ahead of the machine's, want %v", step.about, got, step.want)
		}
	}
}

func TestAServerStartsWhenAComparisonOfClocksCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := memory.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		comparisons := 0
		c := &commonClock{machine: machine, log: slog.New(slog.DiscardHandler), database: func(ctx context.Context) (time.Time, error) {
			switch comparisons++; comparisons {
			case 1: // no response
				<-ctx.Done()
				return time.Time{}, ctx.Err()
			case 2: // a late one
				machine.Advance(maxComparison + time.Millisecond)
			}
			return machine.Now().Add(time.Hour), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
		defer cancel()
		must.NoError(t, c.start(ctx))
		if ahead := c.Now().Sub(machine.Now()); comparisons != 3 || ahead != time.Hour {
			t.Errorf("after %d comparisons the clock is %v ahead of the machine's", comparisons, ahead)
		}
	})
}

func TestAServerDoesNotStartWithoutAComparisonOfClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the database is broken")
		for name, test := range map[string]struct{ fails, want error }{"no answer": {nil, context.DeadlineExceeded}, "an error": {broken, broken}} {
			c := &commonClock{machine: memory.NewClock(time.Now()), log: slog.New(slog.DiscardHandler), database: func(ctx context.Context) (time.Time, error) {
				if test.fails != nil {
					return time.Time{}, test.fails
				}
				<-ctx.Done()
				return time.Time{}, ctx.Err()
			}}
			ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
			if err := c.start(ctx); !errors.Is(err, test.want) {
				t.Errorf("with %s it starts with %v", name, err)
			}
			cancel()
		}
	})
}
