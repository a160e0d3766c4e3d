package httpapi

import (
	"testing"

	"collab/domain/fault"
)

func TestOneCallerHasABoundedNumberOfRequestsUnderWay(t *testing.T) {
	w := &crowd{}
	leaves := make([]func(), maxAtOnce)
	for i := range leaves {
		var err error
		if leaves[i], err = w.enter("ada"); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if _, err := w.enter("ada"); !fault.Is(err, fault.Limited) {
		t.Errorf("one more: %v", err)
	}
	other, err := w.enter("bob")
	if err != nil {
		t.Errorf("another caller: %v", err)
	}
	leaves[0]()
	again, err := w.enter("ada")
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
