package assembly

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go collects when a heap has grown by GOGC percent, 100 unless it is set. A server has a few
// MiB live, of which that is so little that collections would take a tenth of the processor
// time of requests.
const (
	defaultGCPercent = 100
	minGarbage       = 16 << 20 // bytes that the heap grows by at least before a collection
)

// adjustGCPercent sets the percentage for the heap that is live now, and again after each
// collection. percent is the one that is set.
func adjustGCPercent(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if target := gcPercent(live[0].Value.Uint64()); target != percent {
		debug.SetGCPercent(target)
		percent = target
	}
	// The object is lost at once, so that the next collection frees it.
	runtime.AddCleanup(&struct{ next *int }{}, adjustGCPercent, percent)
}

// gcPercent returns the percentage for a live heap, in bytes, rounded so that it rarely changes.
func gcPercent(live uint64) int {
	return max(defaultGCPercent, int(minGarbage*100/max(live, 1<<20))/50*50)
}
