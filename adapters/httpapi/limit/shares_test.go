package limit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/test/must"
)

// timed runs a sub-test whose time passes while it waits.
func timed(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// enter takes a place that must be free.
func enter(t *testing.T, s *Shares, key string) *Place {
	t.Helper()
	p, err := s.Enter(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return &p
}

// enterTimes takes n places.
func enterTimes(t *testing.T, s *Shares, key string, n int) (all []*Place) {
	t.Helper()
	for range n {
		all = append(all, enter(t, s, key))
	}
	return all
}

// queue starts a call of Enter that has to wait, and returns where its result will be.
func queue(ctx context.Context, t *testing.T, s *Shares, key string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		p, err := s.Enter(ctx, key)
		p.Leave()
		done <- err
	}()
	synctest.Wait()
	if len(done) > 0 {
		t.Fatalf("%s has not waited", key)
	}
	return done
}

// checkEmpty fails unless nothing is held and no holder has a record.
func checkEmpty(t *testing.T, s *Shares) {
	t.Helper()
	if f := s.Figures(); f.Used != 0 || f.Waiting != 0 || len(s.holders) != 0 || len(s.queue) != 0 {
		t.Errorf("%+v, %d holders and %d queued holders are left", f, len(s.holders), len(s.queue))
	}
}

func TestShares(t *testing.T) {
	t.Run("a holder that is alone may have all places, and others at once the reserved ones", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		places := enterTimes(t, s, "noisy", 16)
		places = append(places, enterTimes(t, s, "quiet", 2)...)
		if f := s.Figures(); f.Used != 18 {
			t.Errorf("%+v", f)
		}
		for _, p := range places {
			p.Leave()
			p.Leave() // of no effect
		}
		checkEmpty(t, s)
	})
	timed(t, "beside others a holder waits at its share, and takes the next place that it gives back", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		quiet := enter(t, s, "quiet")
		places := enterTimes(t, s, "noisy", 4)
		next := queue(t.Context(), t, s, "noisy")
		if f := s.Figures(); f.Waiting != 1 {
			t.Errorf("%+v", f)
		}
		quiet.Leave()
		synctest.Wait()
		if len(next) != 0 {
			t.Error("it has got more than its share")
		}
		places[0].Leave()
		must.Succeed(t, <-next)
		for _, p := range places[1:] {
			p.Leave()
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	timed(t, "a holder is alone again after a time without others", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		most := func() (n int) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var places []Place
			for {
				p, err := s.Enter(ctx, "noisy")
				if err != nil {
					break
				}
				places = append(places, p)
			}
			for i := range places {
				places[i].Leave()
			}
			return len(places)
		}
		must.Is(t, 16, most())
		enter(t, s, "quiet").Leave()
		must.Is(t, 4, most())
		time.Sleep(aloneAfter)
		must.Is(t, 16, most())
		checkEmpty(t, s)
	})
	timed(t, "a holder that waits gets more places when the last other one leaves", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		quiet := enter(t, s, "quiet")
		places := enterTimes(t, s, "noisy", 4)
		time.Sleep(aloneAfter - time.Second)
		waiting := []<-chan error{queue(t.Context(), t, s, "noisy"), queue(t.Context(), t, s, "noisy")}
		time.Sleep(time.Second)
		quiet.Leave()
		synctest.Wait()
		for _, done := range waiting {
			if len(done) == 0 {
				t.Error("a call still waits")
			}
		}
		for _, p := range places {
			p.Leave()
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	timed(t, "waiting holders take turns, and each is served in its order", func(t *testing.T) {
		s := NewShares("requests", 3, 3, 1)
		a, b, free := enter(t, s, "a"), enter(t, s, "b"), enter(t, s, "c")
		var order []string
		for _, call := range []string{"a1", "a2", "a3", "b1", "b2"} {
			go func() {
				p := enter(t, s, call[:1])
				order = append(order, call) // one at a time, since they take turns with one place
				time.Sleep(time.Millisecond)
				p.Leave()
			}()
			synctest.Wait()
		}
		free.Leave()
		time.Sleep(10 * time.Millisecond)
		a.Leave()
		b.Leave()
		if want := []string{"a1", "b1", "a2", "b2", "a3"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	timed(t, "waiting ends after a time and with the context", func(t *testing.T) {
		s := NewShares("requests", 1, 1, 1)
		held := enter(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		canceled, late := queue(ctx, t, s, "a"), queue(t.Context(), t, s, "a")
		cancel()
		if err := <-canceled; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		began := time.Now()
		err := <-late
		limited, ok := errors.AsType[*fault.Error](err)
		if !ok || limited.Kind != fault.Unavailable || limited.RetryAfter != 1 || time.Since(began) != maxWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if f := s.Figures(); f.Refusals != 1 || f.Waiting != 0 {
			t.Errorf("%+v", f)
		}
		held.Leave()
		checkEmpty(t, s)
	})
	timed(t, "the queue of a holder is bounded", func(t *testing.T) {
		s := NewShares("requests", 1, 1, 1)
		held := enter(t, s, "a")
		for range maxQueue {
			go func() {
				p, err := s.Enter(t.Context(), "a")
				must.Succeed(t, err)
				p.Leave()
			}()
		}
		synctest.Wait()
		must.Fail(t, must.ErrorOf(s.Enter(t.Context(), "a")), fault.Unavailable)
		enter(t, s, "b").Leave()
		held.Leave()
		synctest.Wait()
		checkEmpty(t, s)
	})
	t.Run("nil allows everything", func(t *testing.T) {
		p := enter(t, nil, "a")
		p.Leave()
	})
	t.Run("a place that is free is taken without allocations", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		n := testing.AllocsPerRun(1000, func() {
			p, _ := s.Enter(t.Context(), "a")
			p.Leave()
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestSharesKeepTheirBounds runs calls that take places, give them back and are canceled in any
// order.
func TestSharesKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const capacity, share, reserved = 6, 3, 1
			s := NewShares("requests", capacity, share, reserved)
			s.last, s.changed = "another", time.Now().Add(time.Hour) // none is alone
			held, waiting := map[string][]*Place{}, map[string]int{}
			type end struct {
				key string
				p   Place
				err error
			}
			ended := make(chan end, 1000)
			var cancels []context.CancelFunc
			check := func() {
				synctest.Wait()
				for len(ended) > 0 {
					e := <-ended
					if waiting[e.key]--; e.err == nil {
						held[e.key] = append(held[e.key], &e.p)
					}
				}
				total, left := 0, 0
				for key, places := range held {
					if len(places) > share {
						t.Fatalf("%s has %d places", key, len(places))
					}
					total += len(places)
				}
				for key, n := range waiting {
					if n > 0 && (len(held[key]) < reserved || total < capacity && len(held[key]) < share) {
						t.Fatalf("%s waits with %d places of %d", key, len(held[key]), total)
					}
					left += n
				}
				if f := s.Figures(); f.Used != int64(total) || f.Waiting != int64(left) {
					t.Fatalf("%+v, want %d used and %d waiting", f, total, left)
				}
			}
			for range rapid.IntRange(1, 60).Draw(r, "steps") {
				key := strconv.Itoa(rapid.IntRange(0, 9).Draw(r, "holder"))
				switch rapid.SampledFrom([]string{"enter", "enter", "leave", "cancel", "wait"}).Draw(r, "step") {
				case "enter":
					ctx, cancel := context.WithCancel(context.Background())
					cancels = append(cancels, cancel)
					waiting[key]++
					go func() {
						p, err := s.Enter(ctx, key)
						ended <- end{key, p, err}
					}()
				case "leave":
					if n := len(held[key]); n > 0 {
						held[key][n-1].Leave()
						held[key] = held[key][:n-1]
					}
				case "cancel":
					if n := len(cancels); n > 0 {
						cancels[rapid.IntRange(0, n-1).Draw(r, "call")]()
					}
				case "wait":
					time.Sleep(maxWait / 3)
				}
				check()
			}
			for _, cancel := range cancels {
				cancel()
			}
			check()
			for _, places := range held {
				for _, p := range places {
					p.Leave()
				}
			}
			checkEmpty(t, s)
			if len(s.spare) > maxSpare {
				t.Errorf("%d records are spare", len(s.spare))
			}
		})
	})
}

func TestParseConcurrency(t *testing.T) {
	parser := func(processors, connections int) func(string) (Concurrency, error) {
		return func(text string) (Concurrency, error) {
			return ParseConcurrency("requests=32/processor,streams=connections,transfers=1024,calls=1024,webhooks=32", text, processors, connections)
		}
	}
	checkParser(t, parser(4, 5000), map[string]Concurrency{"calls=1024": {128, 5000, 1024, 1024, 32}, "requests=100/processor": {400, 5000, 1024, 1024, 32}})
	checkParser(t, parser(1, 9), map[string]Concurrency{"calls=1024": {64, 16, 1024, 1024, 32}, "requests=100,webhooks=16": {100, 16, 1024, 1024, 16}},
		"", "requests", "requests=1", "requests=x", "requests=x/processor", "requests=1/processor", "other=100", "calls=100,calls=100")
}
