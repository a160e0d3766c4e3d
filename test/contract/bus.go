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
)

// Bus is the suite of ports.Bus. Open returns two ends of one bus, which are one
// value where the bus is within one process, ready for use until the sub-test's
// cleanup. A hint may be lost; in the quiet of this suite none may.
func Bus(t *testing.T, open func(t *testing.T) (a, b ports.Bus)) {
	suite := map[string]func(t *testing.T, a, b ports.Bus){
		"every hint reaches the subscribers at both ends": func(t *testing.T, a, b ports.Bus) {
			const each = 100
			ears := []*hintRecorder{listen(t, a), listen(t, b), listen(t, a)}
			var orgs []id.Org
			for _, end := range []ports.Bus{a, b} {
				for range each {
					o := fresh[id.Org]()
					orgs = append(orgs, o)
					end.Publish(object.Hint{Org: o, N: int64(len(orgs))})
				}
			}
			for _, e := range ears {
				for i, o := range orgs {
					e.hears(object.Hint{Org: o, N: int64(i) + 1})
				}
			}
		},
		"the greatest of an organisation's hints arrives": func(t *testing.T, a, b ports.Bus) {
			const last = 500
			e, o := listen(t, b), fresh[id.Org]()
			for n := range int64(last) {
				a.Publish(object.Hint{Org: o, N: n + 1})
			}
			e.hears(object.Hint{Org: o, N: last})
		},
		"a hint comes as it was published": func(t *testing.T, a, b ports.Bus) {
			e := listen(t, b)
			for _, h := range []object.Hint{{Org: fresh[id.Org](), N: 0}, {Org: fresh[id.Org](), N: 1<<63 - 1}, {Org: fresh[id.Org](), N: 1 << 40}} {
				a.Publish(h)
				e.hears(h)
				if n := e.last(h.Org); n != h.N {
					t.Fatalf("%d came of %d", n, h.N)
				}
			}
		},
		"publishing without subscribers is lost on nobody": func(t *testing.T, a, b ports.Bus) {
			o := fresh[id.Org]()
			a.Publish(object.Hint{Org: o, N: 7})
			e := listen(t, b)
			a.Publish(object.Hint{Org: o, N: 8})
			e.hears(object.Hint{Org: o, N: 8})
		},
		"no call comes after cancel has returned": func(t *testing.T, a, b ports.Bus) {
			beside := listen(t, b)
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
				beside.hears(object.Hint{Org: o, N: n + 4})
				if late.Load() > 0 {
					t.Fatalf("%d calls came after the subscription had ended", late.Load())
				}
				cancel()
			}
		},
		"cancel waits for a call that is under way": func(t *testing.T, a, b ports.Bus) {
			began, release, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			var ended atomic.Bool
			cancel := subscribed(t, b, func(object.Hint) {
				once.Do(func() { close(began) })
				<-release
				ended.Store(true)
			})
			a.Publish(object.Hint{Org: fresh[id.Org](), N: 1})
			arrives(t, began, "the call")
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
			arrives(t, cancelled, "the end of cancel")
			if !ended.Load() {
				t.Fatal("cancel has returned before the call had")
			}
		},
		"one that is slow holds up neither the publisher nor another subscriber": func(t *testing.T, a, b ports.Bus) {
			const many = 20_000
			began, release, published := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var once sync.Once
			cancel := subscribed(t, b, func(object.Hint) {
				once.Do(func() { close(began) })
				<-release
			})
			defer cancel()
			defer close(release)
			e, o := listen(t, b), fresh[id.Org]()
			a.Publish(object.Hint{Org: o, N: 1})
			arrives(t, began, "the call")
			go func() {
				defer close(published)
				for n := range int64(many) {
					a.Publish(object.Hint{Org: o, N: n + 2})
					b.Publish(object.Hint{Org: o, N: n + 2})
				}
			}()
			arrives(t, published, "the end of publishing")
			e.hears(object.Hint{Org: o, N: many + 1})
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
			arrives(t, published, "the end of publishing")
		},
		"many publish, subscribe and cancel at once": func(t *testing.T, a, b ports.Bus) {
			const each = 20
			ends := []ports.Bus{a, b}
			ears := []*hintRecorder{listen(t, a), listen(t, b)}
			orgs := several[id.Org](concurrent)
			errs := together(concurrent, func(i int) error {
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
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range ears {
				for _, o := range orgs {
					e.hears(object.Hint{Org: o, N: each})
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

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// arrives ends the test unless what comes.
func arrives(t *testing.T, what <-chan struct{}, name string) {
	t.Helper()
	select {
	case <-what:
	case <-time.After(patience):
		t.Fatalf("%s does not come", name)
	}
}

// subscribed subscribes fn.
func subscribed(t *testing.T, to ports.Bus, fn func(object.Hint)) (cancel func()) {
	t.Helper()
	cancel, err := to.Subscribe(fn)
	if err != nil {
		t.Fatal(err)
	}
	return cancel
}

// hintRecorder notes the greatest hint of each organisation.
type hintRecorder struct {
	*testing.T
	mu     sync.Mutex
	latest map[id.Org]int64 // guarded by mu
	more   chan struct{}    // has room for one
}

// listen subscribes a hintRecorder for the length of the test.
func listen(t *testing.T, to ports.Bus) *hintRecorder {
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

// hears ends the test unless the hint, or a greater one of its organisation,
// comes.
func (e *hintRecorder) hears(h object.Hint) {
	e.Helper()
	late := time.After(patience)
	for !e.has(h) {
		select {
		case <-e.more:
		case <-late:
			e.Fatalf("the hint %+v does not come", h)
		}
	}
}

func (e *hintRecorder) has(h object.Hint) bool {
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
