package main

import (
	"math"
	"testing"

	"collab/test/must"
	"collab/test/pages"
)

func TestThePageHasWhatTheSimulationFinds(t *testing.T) {
	page := pages.Read(t, "docs/scale.md")
	want := must.Do(insert(page)).Or(t)
	if page != want {
		t.Error("go run ./test/scale would write docs/scale.md otherwise")
	}
	if _, err := insert("no sections"); err == nil {
		t.Error("a document without sections is no error")
	}
}

// TestQueuesGrowWithLoad expects a request to take the time of its steps without queues, and to wait near the limit.
func TestQueuesGrowWithLoad(t *testing.T) {
	few, many := cell{users: 1000, servers: 1}, cell{users: 900_000, servers: 1}
	quiet, busy := few.simulate(peakHour, 60), many.simulate(peakHour, 2)
	least := 1000 * (2*wireSeconds + requests[2].server*1e-6*0.5)
	if quiet.p50 < least || quiet.p99 > 10 {
		t.Errorf("with few users p50 is %f and p99 %f ms", quiet.p50, quiet.p99)
	}
	if busy.p99 < 1.5*quiet.p99 {
		t.Errorf("p99 is %f ms with few users and %f with many", quiet.p99, busy.p99)
	}
	if ratio := busy.server / quiet.server; math.Abs(ratio/900-1) > 0.1 {
		t.Errorf("900 times as many users keep the processors busy %f times as long", ratio)
	}
}

func TestWritesShareFlushes(t *testing.T) {
	l := log{begin: -1}
	first, second, third := l.flush(0), l.flush(0.1*flushSeconds), l.flush(0.2*flushSeconds)
	if first != flushSeconds || second != 2*flushSeconds || third != second {
		t.Errorf("flushes end at %f, %f and %f", first, second, third)
	}
}
