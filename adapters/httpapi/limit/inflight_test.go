package limit

import (
	"testing"

	"collab/domain/fault"
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
	if _, err := w.Enter("ada"); !fault.Is(err, fault.Limited) {
		t.Errorf("one more: %v", err)
	}
	other, err := w.Enter("bob")
	if err != nil {
		t.Errorf("another caller: %v", err)
	}
	leaves[0]()
	again, err := w.Enter("ada")
	if err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	other()
	again()
	for _, leave := range leaves[1:] {
		leave()
	}
	if len(w.count) != 0 {
		t.Errorf("%v is left of callers who have left", w.count)
	}
}
