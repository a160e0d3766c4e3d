package limit

import (
	"testing"

	"collab/domain/fault"
	"collab/test/must"
)

func TestInFlightIsLimitedPerCaller(t *testing.T) {
	w := &InFlight{}
	leaves := make([]func(), maxInFlight)
	for i := range leaves {
		var err error
		if leaves[i], err = w.Enter("ada"); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	must.Fail(t, must.ErrorOf(w.Enter("ada")), fault.Limited) // one more
	other, err := w.Enter("bob")
	must.NoError(t, err) // another caller
	leaves[0]()
	again, err := w.Enter("ada")
	must.NoError(t, err) // after one has ended
	other()
	again()
	for _, leave := range leaves[1:] {
		leave()
	}
	if len(w.count) != 0 {
		t.Errorf("%v is left of callers who have left", w.count)
	}
}
