package limit

import (
	"context"
	"errors"
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

// acquire acquires a permit, which must be free.
func acquire(t *testing.T, s *Shares, key string) *Permit {
	t.Helper()
	p, err := s.Acquire(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return &p
}

// acquireTimes acquires n permits.
func acquireTimes(t *testing.T, s *Shares, key string, n int) (all []*Permit) {
	t.Helper()
	for range n {
		all = append(all, acquire(t, s, key))
	}
	return all
}

// queue starts a call of Acquire, which must wait, and returns the channel of its error.
func queue(ctx context.Context, t *testing.T, s *Shares, key string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		p, err := s.Acquire(ctx, key)
		p.Release()
		done <- err
	}()
	synctest.Wait()
	if len(done) > 0 {
		t.Fatalf("%s does not wait", key)
	}
	return done
}

// checkEmpty checks that no permit is held and no holder has a record.
func checkEmpty(t *testing.T, s *Shares) {
	t.Helper()
	if f := s.Stats(); f.Used != 0 || f.Waiting != 0 || len(s.holders) != 0 || len(s.queue) != 0 {
		t.Errorf("%+v, %d holders and %d queued holders", f, len(s.holders), len(s.queue))
	}
}

func TestShares(t *testing.T) {
	t.Run("a single holder may have all permits except the reserved", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		permits := acquireTimes(t, s, "noisy", 16)
		permits = append(permits, acquireTimes(t, s, "quiet", 2)...)
		must.Is(t, 18, s.Stats().Used)
		for _, p := range permits {
			p.Release()
			p.Release() // without effect
		}
		checkEmpty(t, s)
	})
	runSynctest(t, "a holder beside others waits for a permit of its share", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		quiet := acquire(t, s, "quiet")
		permits := acquireTimes(t, s, "noisy", 4)
		next := queue(t.Context(), t, s, "noisy")
		must.Is(t, 1, s.Stats().Waiting)
		quiet.Release()
		synctest.Wait()
		if len(next) != 0 {
			t.Error("the holder has more than its share")
		}
		permits[0].Release()
		must.Succeed(t, <-next)
		for _, p := range permits[1:] {
			p.Release()
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	runSynctest(t, "a holder is single again after aloneAfter without others", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		most := func() (n int) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var permits []Permit
			for {
				p, err := s.Acquire(ctx, "noisy")
				if err != nil {
					break
				}
				permits = append(permits, p)
			}
			for i := range permits {
				permits[i].Release()
			}
			return len(permits)
		}
		must.Is(t, 16, most())
		acquire(t, s, "quiet").Release()
		must.Is(t, 4, most())
		time.Sleep(aloneAfter)
		must.Is(t, 16, most())
		checkEmpty(t, s)
	})
	runSynctest(t, "a waiting holder gets more permits when the last other one leaves", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		quiet := acquire(t, s, "quiet")
		permits := acquireTimes(t, s, "noisy", 4)
		time.Sleep(aloneAfter - time.Second)
		waiting := []<-chan error{queue(t.Context(), t, s, "noisy"), queue(t.Context(), t, s, "noisy")}
		time.Sleep(time.Second)
		quiet.Release()
		synctest.Wait()
		for _, done := range waiting {
			if len(done) == 0 {
				t.Error("a call still waits")
			}
		}
		for _, p := range permits {
			p.Release()
		}
		synctest.Wait()
		checkEmpty(t, s)
	})
	runSynctest(t, "waiting holders take turns, and each is served in its order", func(t *testing.T) {
		s := NewShares("requests", 3, 3, 1)
		a, b, free := acquire(t, s, "a"), acquire(t, s, "b"), acquire(t, s, "c")
		var order []string
		for _, call := range []string{"a1", "a2", "a3", "b1", "b2"} {
			go func() {
				p := acquire(t, s, call[:1])
				order = append(order, call) // the calls take turns with one permit
				time.Sleep(time.Millisecond)
				p.Release()
			}()
			synctest.Wait()
		}
		free.Release()
		time.Sleep(10 * time.Millisecond)
		a.Release()
		b.Release()
		must.Equal(t, []string{"a1", "b1", "a2", "b2", "a3"}, order)
		synctest.Wait()
		checkEmpty(t, s)
	})
	runSynctest(t, "waiting ends after maxWait and with the context", func(t *testing.T) {
		s := NewShares("requests", 1, 1, 1)
		held := acquire(t, s, "a")
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
		if f := s.Stats(); f.Refusals != 1 || f.Waiting != 0 {
			t.Errorf("%+v", f)
		}
		held.Release()
		checkEmpty(t, s)
	})
	runSynctest(t, "the queue of a holder is bounded", func(t *testing.T) {
		s := NewShares("requests", 1, 1, 1)
		held := acquire(t, s, "a")
		for range maxQueue {
			go func() {
				p, err := s.Acquire(t.Context(), "a")
				must.Succeed(t, err)
				p.Release()
			}()
		}
		synctest.Wait()
		must.Fail(t, must.ErrorOf(s.Acquire(t.Context(), "a")), fault.Unavailable)
		acquire(t, s, "b").Release()
		held.Release()
		synctest.Wait()
		checkEmpty(t, s)
	})
	t.Run("nil has no limit", func(t *testing.T) { acquire(t, nil, "a").Release() })
	t.Run("a free permit is acquired without allocations", func(t *testing.T) {
		s := NewShares("requests", 16, 4, 2)
		n := testing.AllocsPerRun(1000, func() {
			p, _ := s.Acquire(t.Context(), "a")
			p.Release()
		})
		must.Is(t, 0, n)
	})
}

// TestSharesKeepTheirLimits acquires permits, releases them and cancels calls in any order.
func TestSharesKeepTheirLimits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			const capacity, share, reserved = 6, 3, 1
			s := NewShares("requests", capacity, share, reserved)
			s.last, s.changed = "another", time.Now().Add(time.Hour) // no holder is single
			held, waiting := map[string][]*Permit{}, map[string]int{}
			type result struct {
				key string
				p   Permit
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
				for key, permits := range held {
					if len(permits) > share {
						t.Fatalf("%s has %d permits", key, len(permits))
					}
					used += len(permits)
				}
				for key, n := range waiting {
					if n > 0 && (len(held[key]) < reserved || used < capacity && len(held[key]) < share) {
						t.Fatalf("%s waits with %d permits of %d", key, len(held[key]), used)
					}
					queued += n
				}
				if f := s.Stats(); f.Used != int64(used) || f.Waiting != int64(queued) {
					t.Fatalf("%+v, want %d used and %d waiting", f, used, queued)
				}
			}
			for range rapid.IntRange(1, 60).Draw(r, "steps") {
				key := strconv.Itoa(rapid.IntRange(0, 9).Draw(r, "holder"))
				switch rapid.SampledFrom([]string{"acquire", "acquire", "release", "cancel", "wait"}).Draw(r, "step") {
				case "acquire":
					ctx, cancel := context.WithCancel(context.Background())
					cancels = append(cancels, cancel)
					waiting[key]++
					go func() {
						p, err := s.Acquire(ctx, key)
						results <- result{key, p, err}
					}()
				case "release":
					if n := len(held[key]); n > 0 {
						held[key][n-1].Release()
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
			for _, permits := range held {
				for _, p := range permits {
					p.Release()
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
