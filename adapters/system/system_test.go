package system_test

import (
	"testing"
	"testing/synctest"
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

func TestSharesAreRandomPartsOfTheDuration(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := system.Jitter(time.Second)
		if d < 0 || d >= time.Second {
			t.Fatalf("%v is no part of a second", d)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("1000 shares are only %d", len(seen))
	}
}

func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contract.Alarms(t, system.Alarms{}, func(d time.Duration) {
			time.Sleep(d) // of the bubble's time
			synctest.Wait()
		})
	})
}
