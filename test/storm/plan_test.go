package storm

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestASeedHasOnePlan(t *testing.T) {
	plan := func(seed uint64) (requests []request, faults []plannedFault) {
		next := requestsOf(seed, 3)
		for range 200 {
			requests = append(requests, next())
		}
		return requests, faultsOf(seed, servers, soakDuration)
	}
	requests, faults := plan(7)
	again, faultsAgain := plan(7)
	if !slices.Equal(requests, again) || !slices.Equal(faults, faultsAgain) {
		t.Error("the same seed made two plans")
	}
	other, otherFaults := plan(8)
	if reflect.DeepEqual(requests, other) || reflect.DeepEqual(faults, otherFaults) {
		t.Error("two seeds made the same plan")
	}
}

func TestFaultsEndBeforeTheLoadAndHaveAFailOver(t *testing.T) {
	for seed := range uint64(50) {
		faults := faultsOf(seed, servers, soakDuration)
		if !slices.ContainsFunc(faults, func(f plannedFault) bool { return f.Kind == "failed over" }) || len(faults) < 15 {
			t.Errorf("seed %d has the faults %v", seed, faults)
		}
		for _, f := range faults {
			if f.At+f.Length > soakDuration-5*time.Second {
				t.Errorf("seed %d: %v goes on for too long", seed, f)
			}
		}
	}
}
