package changes

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

func TestAPoolRunsJobsInOrderWithBoundedConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{limit: 2}
		gate := make(chan struct{})
		var mu sync.Mutex
		var began []int
		for i := range 5 {
			p.submit(func() {
				mu.Lock()
				began = append(began, i)
				mu.Unlock()
				<-gate
			})
		}
		for n := 2; n <= 5; n++ {
			synctest.Wait()
			if len(began) != n {
				t.Fatalf("%v began, want %d", began, n)
			}
			gate <- struct{}{}
		}
		close(gate)
		p.close()
		slices.Sort(began[:2]) // these two began together
		if !slices.Equal(began, []int{0, 1, 2, 3, 4}) {
			t.Errorf("they began as %v", began)
		}
	})
}

func TestAClosedPoolDropsQueuedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{limit: 1}
		gate := make(chan struct{})
		p.submit(func() { <-gate })
		p.submit(func() { t.Error("a job ran after the end") })
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			p.close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait for the job that runs")
		default:
		}
		close(gate)
		<-closed
		p.submit(func() { t.Error("a job ran after the end") })
	})
}
