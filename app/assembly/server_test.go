package assembly

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutsOfAStopShareOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithTimeout(t.Context(), stopTimeout)
		defer cancel()
		began := time.Now()
		for _, limit := range []time.Duration{drainTimeout, mailTimeout} {
			ctx, over := within(stop, limit)
			<-ctx.Done()
			over()
			if took := time.Since(began); took != limit {
				t.Errorf("what has until %v ended after %v", limit, took)
			}
		}
		if stop.Err() != nil {
			t.Error("nothing is left for closing the database")
		}
	})
}
