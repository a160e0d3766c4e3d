package assembly

import (
	"runtime/debug"
	"testing"
)

func TestCollectionsWaitForGarbage(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 1 << 20: 1600, 5 << 20: 300, 15 << 20: 100, 16 << 20: 100, 1 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d %%", live, got, want)
		}
	}
}

func TestPaceFollowsTheLiveHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(defaultGCPercent))
	adjustGCPercent(defaultGCPercent)
	if got := debug.SetGCPercent(defaultGCPercent); got < defaultGCPercent || got > gcPercent(0) {
		t.Errorf("the percentage is %d", got)
	}
}
