package system_test

import (
	"testing"
	"time"

	"collab/adapters/system"
	"collab/test/contract"
)

func TestClock(t *testing.T) {
	contract.Clock(t, system.Clock{})
	before := time.Now().Truncate(time.Millisecond)
	if now := (system.Clock{}).Now(); now.Before(before) || now.After(time.Now()) {
		t.Errorf("%v is not the present", now)
	}
}

func TestIDs(t *testing.T) {
	contract.IDs(t, system.IDs{})
	// The order is the process's, whoever asks.
	last := ""
	for range 10_000 {
		s := system.IDs{}.New()
		if s <= last {
			t.Fatalf("%s came after %s", s, last)
		}
		last = s
	}
}

func TestSecrets(t *testing.T) { contract.Secrets(t, system.Secrets{}) }
