package limit

import (
	"testing"

	"collab/domain/fault"
	"collab/test/must"
)

func TestInFlightIsLimitedPerCaller(t *testing.T) {
	w := &InFlight{}
	var leaves []func()
	for range maxInFlight {
		leaves = append(leaves, must.Do(w.Enter("ada")).Or(t))
	}
	must.Fail(t, must.ErrorOf(w.Enter("ada")), fault.Limited)
	leaves = append(leaves, must.Do(w.Enter("bob")).Or(t))
	leaves[0]()
	leaves[0] = must.Do(w.Enter("ada")).Or(t)
	for _, leave := range leaves {
		leave()
	}
	must.Is(t, 0, len(w.count))
}
