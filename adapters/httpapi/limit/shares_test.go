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

// runSynctest runs test as a subtest in a bubble of synctest.
func runSynctest(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// enter takes a place, which must be free.
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

// queue starts a call of Enter, which must wait, and returns the channel of its error.
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
		t.Fatalf("%s does not wait", key)
	}
	return done
}

// checkEmpty checks that no place is held and no holder has a record.
func checkEmpty(t *testing.T, s *Shares) {
	t.Helper()
	if f := s.Figures(); f.Used != 0 || f.Waiting != 0 || len(s.holders) != 0 || len(s.queue) != 0 {
		t.Errorf("%+v, %d holders and %d queued holders", f, len(s.holders), len(s.queue))
	}
}

func TestShares(t *testing.T) {
	t.Run("a single holder may have all places except the reserved", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		places := enterTimes(t, s, "noisy", 16)
		places = append(places, enterTimes(t, s, "quiet", 2)...)
		if f := s.Figures(); f.Used != 18 {
			t.Errorf("%+v", f)
		}
		for _, p := range places {
			p.Leave()
			p.Leave() // without effect
		}
		checkEmpty(t, s)
	})
	runSynctest(t, "a holder beside others waits for a place of its share", func(t *testing.T) {
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
			t.Error("the holder has more than its share")
		}
		places[0].Leave()
		must.Succeed(t, <-next)
		for _, p := range places[1:] {
			p.Leave()
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	runSynctest(t, "a holder is single again after aloneAfter without others", func(t *testing.T) {
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
	runSynctest(t, "a waiting holder gets more places when the last other one leaves", func(t *testing.T) {
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
	runSynctest(t, "waiting holders take turns, and each is served in its order", func(t *testing.T) {
		s := NewShares("requests", 3, 3, 1)
		a, b, free := enter(t, s, "a"), enter(t, s, "b"), enter(t, s, "c")
		var order []string
		for _, call := range []string{"a1", "a2", "a3", "b1", "b2"} {
			go func() {
				p := enter(t, s, call[:1])
				order = append(order, call) // the calls take turns with one place
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
	runSynctest(t, "waiting ends after maxWait and with the context", func(t *testing.T) {
		s := NewShares("requests", 1, 1, 1)
		held := enter(t, s, "a")
		ctx, cancel := context.WithCancel(t.Context())
		canceled, late := queue(ctx, t, s, "a"), queue(t.Context(), t, s, "a")
		cancel()
		must.FailIs(t, <-canceled, context.Canceled)
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
	runSynctest(t, "the queue of a holder is bounded", func(t *testing.T) {
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
	t.Run("nil has no limit", func(t *testing.T) { enter(t, nil, "a").Leave() })
	t.Run("a free place is taken without allocations", func(t *testing.T) {
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

// TestSharesKeepTheirLimits takes places, leaves them and cancels calls in any order.
func TestSharesKeepTheirLimits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const capacity, share, reserved = 6, 3, 1
			s := NewShares("requests", capacity, share, reserved)
			s.last, s.changed = "another", time.Now().Add(time.Hour) // no holder is single
			held, waiting := map[string][]*Place{}, map[string]int{}
			type result struct {
				key string
				p   Place
				err error
			}
			results := make(chan result, 1000)
			var cancels []context.CancelFunc
			check := func() {
				synctest.Wait()
				for len(results) > 0 {
					r := <-results
					if waiting[r.key]--; r.err == nil {
						held[r.key] = append(held[r.key], &r.p)
					}
				}
				used, queued := 0, 0
				for key, places := range held {
					if len(places) > share {
						t.Fatalf("%s has %d places", key, len(places))
					}
					used += len(places)
				}
				for key, n := range waiting {
					if n > 0 && (len(held[key]) < reserved || used < capacity && len(held[key]) < share) {
						t.Fatalf("%s waits with %d places of %d", key, len(held[key]), used)
					}
					queued += n
				}
				if f := s.Figures(); f.Used != int64(used) || f.Waiting != int64(queued) {
					t.Fatalf("%+v, want %d used and %d waiting", f, used, queued)
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
						results <- result{key, p, err}
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
