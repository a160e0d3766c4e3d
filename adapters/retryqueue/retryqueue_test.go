package retryqueue_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/retryqueue"
)

// attempts are the seconds since the test began in which a queue makes attempts, all of
// which fail.
type attempts []int

func (a *attempts) queue(inOrder bool, now func() time.Time) *retryqueue.Queue[string] {
	began := time.Now()
	return retryqueue.New(retryqueue.Options[string]{
		Capacity: 10, Batch: 2, Linger: 4 * time.Second, Backoff: []time.Duration{10 * time.Second, 20 * time.Second}, InOrder: inOrder, Now: now,
		Deliver: func(context.Context, []string) retryqueue.Result {
			*a = append(*a, int(time.Since(began)/time.Second))
			return retryqueue.Result{Err: errors.New("unavailable")}
		},
		Report: func([]string, int, error, bool) {},
	})
}

func TestCloseRetriesInOrderWithPausesAndElseOnce(t *testing.T) {
	for name, row := range map[string]struct {
		inOrder bool
		want    attempts
	}{
		"in order, after the pauses of the batch": {true, attempts{4, 14, 34}},
		"in any order, once and at once":          {false, attempts{4, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got attempts
				q := got.queue(row.inOrder, time.Now)
				q.Add("item")
				time.Sleep(6 * time.Second)
				if left := q.Close(t.Context()); left != 0 || !slices.Equal(got, row.want) {
					t.Errorf("%d items left, attempts at %v", left, got)
				}
			})
		})
	}
}

func TestAClockThatIsSetBackDelaysNoAttempt(t *testing.T) {
	for _, inOrder := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var got attempts
			var back atomic.Int64 // nanoseconds
			q := got.queue(inOrder, func() time.Time { return time.Now().Add(-time.Duration(back.Load())) })
			q.Add("item")
			time.Sleep(5 * time.Second) // one attempt has failed
			synctest.Wait()
			back.Store(int64(time.Hour))
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(got) != 3 {
				t.Errorf("in order %t: attempts at %v", inOrder, got)
			}
			q.Close(t.Context())
		})
	}
}
