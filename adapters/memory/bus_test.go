package memory_test

import (
	"testing"
	"testing/synctest"

	"collab/adapters/memory"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"
)

func TestBus(t *testing.T) {
	contract.Bus(t, func(*testing.T) (a, b ports.Bus) {
		bus := new(memory.Bus)
		return bus, bus
	})
}

func TestTheGreatestPendingHintIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bus memory.Bus
		release := make(chan struct{})
		var hints []object.Hint
		cancel := must.Do(bus.Subscribe(func(h object.Hint) {
			<-release
			hints = append(hints, h)
		})).Or(t)
		bus.Publish(object.Hint{Org: "o", N: 1})
		synctest.Wait()
		for _, n := range []int64{2, 9, 5} {
			bus.Publish(object.Hint{Org: "o", N: n})
		}
		close(release)
		synctest.Wait()
		cancel()
		if len(hints) != 2 || hints[0] != (object.Hint{Org: "o", N: 1}) || hints[1] != (object.Hint{Org: "o", N: 9}) {
			t.Fatalf("the hints are %v", hints)
		}
	})
}

func TestCancelWaitsForTheRunningCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bus memory.Bus
		release := make(chan struct{})
		calls := 0
		cancel := must.Do(bus.Subscribe(func(object.Hint) {
			calls++
			<-release
		})).Or(t)
		bus.Publish(object.Hint{Org: "o", N: 1})
		synctest.Wait()
		bus.Publish(object.Hint{Org: "o", N: 2})
		cancelled := make(chan struct{})
		go func() {
			cancel()
			close(cancelled)
		}()
		synctest.Wait()
		select {
		case <-cancelled:
			t.Fatal("cancel has returned during a call")
		default:
		}
		close(release)
		<-cancelled
		if calls != 1 {
			t.Fatalf("%d calls", calls)
		}
	})
}
