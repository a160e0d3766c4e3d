package contract

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
	"collab/test/must"
)

// Bus is the suite of ports.Bus. Open returns two ends of one bus, which are one
// value where the bus is within one process, ready for use until the sub-test's
// cleanup. A hint may be lost; in the quiet of this suite none may.
func Bus(t *testing.T, open func(t *testing.T) (a, b ports.Bus)) {
	suite := map[string]func(t *testing.T, a, b ports.Bus){
		"every hint reaches the subscribers of both servers": func(t *testing.T, a, b ports.Bus) {
			const each = 100
			recorders := []*hintRecorder{recordHints(t, a), recordHints(t, b), recordHints(t, a)}
			var orgs []id.Org
			for _, end := range []ports.Bus{a, b} {
				for range each {
					o := fresh[id.Org]()
					orgs = append(orgs, o)
					end.Publish(object.Hint{Org: o, N: int64(len(orgs))})
				}
			}
			for _, e := range recorders {
				for i, o := range orgs {
					e.wait(object.Hint{Org: o, N: int64(i) + 1})
				}
			}
		},
		"the greatest of an organisation's hints arrives": func(t *testing.T, a, b ports.Bus) {
			e, o := recordHints(t, b), fresh[id.Org]()
			for n := range int64(500) {
				a.Publish(object.Hint{Org: o, N: n + 1})
			}
			e.wait(object.Hint{Org: o, N: 500})
		},
		"a hint is received as published": func(t *testing.T, a, b ports.Bus) {
			e := recordHints(t, b)
			for _, h := range []object.Hint{{Org: fresh[id.Org](), N: 0}, {Org: fresh[id.Org](), N: 1<<63 - 1}, {Org: fresh[id.Org](), N: 1 << 40}} {
				a.Publish(h)
				e.wait(h)
				if n := e.last(h.Org); n != h.N {
					t.Fatalf("%d came of %d", n, h.N)
				}
			}
		},
		"publishing without subscribers has no effect": func(t *testing.T, a, b ports.Bus) {
			o := fresh[id.Org]()
			a.Publish(object.Hint{Org: o, N: 7})
			e := recordHints(t, b)
			a.Publish(object.Hint{Org: o, N: 8})
			e.wait(object.Hint{Org: o, N: 8})
		},
		"fn is not called after cancel has returned": func(t *testing.T, a, b ports.Bus) {
			beside := recordHints(t, b)
			for n := range int64(50) {
				var over atomic.Bool
				var late atomic.Int64
				cancel := subscribed(t, b, func(object.Hint) {
					if over.Load() {
						late.Add(1)
					}
				})
				o := fresh[id.Org]()
				a.Publish(object.Hint{Org: o, N: n + 1})
				b.Publish(object.Hint{Org: o, N: n + 2})
				cancel()
				over.Store(true)
				a.Publish(object.Hint{Org: o, N: n + 3})
				b.Publish(object.Hint{Org: o, N: n + 4})
				beside.wait(object.Hint{Org: o, N: n + 4})
				if late.Load() > 0 {
					t.Fatalf("%d calls came after the subscription had ended", late.Load())
				}
				cancel()
			}
		},
		"cancel waits for a running call": func(t *testing.T, a, b ports.Bus) {
			began, release, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			var ended atomic.Bool
			cancel := subscribed(t, b, func(object.Hint) {
				once.Do(func() { close(began) })
				<-release
				ended.Store(true)
			})
			a.Publish(object.Hint{Org: fresh[id.Org](), N: 1})
			waitFor(t, began, "the call")
			go func() {
				cancel()
				close(cancelled)
			}()
			for range 1000 { // time enough for one that does not wait
				runtime.Gosched()
			}
			select {
			case <-cancelled:
				t.Error("cancel has returned during a call")
			default:
			}
			close(release)
			waitFor(t, cancelled, "the end of cancel")
			if !ended.Load() {
				t.Fatal("cancel has returned before the call had")
			}
		},
		"a slow subscriber delays neither the publisher nor other subscribers": func(t *testing.T, a, b ports.Bus) {
			const many = 20_000
			began, release, published := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			cancel := subscribed(t, b, func(object.Hint) {
				once.Do(func() { close(began) })
				<-release
			})
			defer cancel()
			defer close(release)
			e, o := recordHints(t, b), fresh[id.Org]()
			a.Publish(object.Hint{Org: o, N: 1})
			waitFor(t, began, "the call")
			go func() {
				defer close(published)
				for n := range int64(many) {
					a.Publish(object.Hint{Org: o, N: n + 2})
					b.Publish(object.Hint{Org: o, N: n + 2})
				}
			}()
			waitFor(t, published, "the end of publishing")
			e.wait(object.Hint{Org: o, N: many + 1})
		},
		"publish returns after all have cancelled": func(t *testing.T, a, b ports.Bus) {
			cancels := []func(){subscribed(t, a, func(object.Hint) {}), subscribed(t, b, func(object.Hint) {})}
			for _, cancel := range cancels {
				cancel()
			}
			published := make(chan struct{})
			go func() {
				defer close(published)
				for n := range int64(1000) {
					a.Publish(object.Hint{Org: "o", N: n})
					b.Publish(object.Hint{Org: "o", N: n})
				}
			}()
			waitFor(t, published, "the end of publishing")
		},
		"publish, subscribe and cancel may be called concurrently": func(t *testing.T, a, b ports.Bus) {
			const each = 20
			ends := []ports.Bus{a, b}
			recorders := []*hintRecorder{recordHints(t, a), recordHints(t, b)}
			orgs := several[id.Org](concurrent)
			errs := concurrently(concurrent, func(i int) error {
				for n := range int64(each) {
					cancel, err := ends[i%2].Subscribe(func(object.Hint) {})
					if err != nil {
						return err
					}
					ends[(i+1)%2].Publish(object.Hint{Org: orgs[i], N: n + 1})
					cancel()
				}
				return nil
			})
			for _, err := range errs {
				must.NoError(t, err)
			}
			for _, e := range recorders {
				for _, o := range orgs {
					e.wait(object.Hint{Org: o, N: each})
				}
			}
		},
	}
	for _, name := range slices.Sorted(maps.Keys(suite)) {
		t.Run(name, func(t *testing.T) {
			a, b := open(t)
			suite[name](t, a, b)
		})
	}
}

// waitTimeout is how long a test waits for an event.
const waitTimeout = 30 * time.Second

// waitFor ends the test unless what receives a value.
func waitFor(t *testing.T, what <-chan struct{}, name string) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(waitTimeout):
		t.Fatalf("%s does not come", name)
	}
}

// subscribed subscribes fn.
func subscribed(t *testing.T, to ports.Bus, fn func(object.Hint)) (cancel func()) {
	t.Helper()
	return must.Do(to.Subscribe(fn)).Or(t)
}

// hintRecorder records the greatest hint of each organisation.
type hintRecorder struct {
	*testing.T
	mu     sync.Mutex
	latest map[id.Org]int64 // guarded by mu
	more   chan struct{}    // has room for one
}

// recordHints subscribes a hintRecorder for the length of the test.
func recordHints(t *testing.T, to ports.Bus) *hintRecorder {
	t.Helper()
	e := &hintRecorder{T: t, latest: map[id.Org]int64{}, more: make(chan struct{}, 1)}
	t.Cleanup(subscribed(t, to, func(h object.Hint) {
		e.mu.Lock()
		e.latest[h.Org] = max(h.N, e.latest[h.Org])
		e.mu.Unlock()
		select {
		case e.more <- struct{}{}:
		default:
		}
	}))
	return e
}

// wait ends the test unless the hint, or a greater one of its organisation,
// comes.
func (e *hintRecorder) wait(h object.Hint) {
	e.Helper()
	late := time.After(waitTimeout)
	for !e.received(h) {
		select {
		case <-e.more:
		case <-late:
			e.Fatalf("the hint %+v does not come", h)
		}
	}
}

func (e *hintRecorder) received(h object.Hint) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := e.latest[h.Org]
	return ok && n >= h.N
}

// last returns the greatest number in hints of an organisation.
func (e *hintRecorder) last(o id.Org) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.latest[o]
}
