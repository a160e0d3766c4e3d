package integration

import (
	"fmt"
	"sync"
	"testing"

	"collab/domain/plan"
)

// limit is what the plan FREE gives.
const limit = 1_000_000

// TestConcurrentReservationsAreGrantedInFullOrRefused has twenty calls that each need the same share
// of the remaining quota. After six, the rest is less than any input in the first case; in the second, a
// seventh is granted it.
func TestConcurrentReservationsAreGrantedInFullOrRefused(t *testing.T) {
	withChats(t, func(t *testing.T, w *chatTest) {
		var all []member
		for i, c := range []struct {
			left, input, output int64
			admitted            int
			used                int64
		}{
			{500, 73, 2, 6, 6 * 75}, {50_000, 2_500, 5_000, 7, 50_000},
		} {
			who := w.member(fmt.Sprintf("Twenty %d", i), 0)
			all = append(all, who)
			who.client.Grant(t, string(plan.Free))
			w.spend(who, limit-c.left)
			requests, until := make([]*chatRequest, 20), make(chan struct{})
			var answers, ends sync.WaitGroup
			answers.Add(len(requests))
			for n := range requests {
				a := w.request(c.input, c.output)
				requests[n], a.held = a, until
				ends.Go(func() {
					answered := sync.OnceFunc(answers.Done)
					defer answered() // also when it fails
					usage, err := w.over(n, who, a, answered)
					if err != nil || usage != a.uses() {
						t.Errorf("request %d is told that it used %+v, %v; want %+v", n, usage, err, a.uses())
					}
				})
			}
			answers.Wait()
			close(until)
			ends.Wait()
			admitted, full, used := 0, 0, int64(0)
			for _, a := range requests {
				if used += a.uses().Total(); a.allowed.Load() > 0 {
					admitted++
				}
				if a.allowed.Load() == c.output {
					full++
				}
			}
			if full != 6 || admitted != c.admitted || used != c.used {
				t.Errorf("of %d left, %d each were needed by 20: %d were admitted, %d of them in full, and used %d", c.left, c.input+c.output, admitted, full, used)
			}
		}
		w.settled(all...)
	})
}
