package devpay_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/devpay"
	"collab/test/forms"
	"collab/test/must"
)

const paid = "checkout.session.completed customer.subscription.created customer.subscription.updated invoice.paid"

func TestDeliveries(t *testing.T) {
	withProvider(t, "while the service is down a payment waits for one attempt, and events follow in order", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		st.service.SetDown(true)
		st.pay(s.ID)
		must.Is(t, 1, st.service.Attempts())
		st.service.SetDown(false)
		st.endPause()
		must.Is(t, paid, forms.Types(st.service.Await(t, 4)))
	})
	withProvider(t, "an event is dropped after seven attempts with growing pauses", func(t *testing.T, st *fixture) {
		id := st.subscribed().ID
		before := st.service.Attempts()
		st.service.SetDown(true)
		st.act(id, devpay.Fail)
		growing := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}
		for range 2 {
			for _, want := range growing {
				must.Is(t, want, st.endPause())
			}
		}
		must.Wait(t, "14 deliveries were attempted", func() bool { return st.service.Attempts() >= before+14 })
		st.service.SetDown(false)
		st.act(id, devpay.Succeed)
		must.Is(t, "invoice.paid customer.subscription.updated", forms.Types(st.service.Await(t, 2)))
	})
	withProvider(t, "a new event ends a pause and is delivered last", func(t *testing.T, st *fixture) {
		id := st.subscribed().ID
		st.service.SetDown(true)
		st.act(id, devpay.Schedule)
		st.service.SetDown(false)
		st.act(id, devpay.Cancel)
		st.service.Expect(t, "customer.subscription.updated customer.subscription.deleted")
	})
	t.Run("subscriptions do not wait for each other", func(t *testing.T) {
		refused, others := errors.New("refused"), make(chan string, 20)
		var mu sync.Mutex
		var stuck string
		st := newFixture(t, t.TempDir(), func(o *devpay.Options) {
			o.Emit = func(_ context.Context, _ string, body []byte) error {
				mu.Lock()
				defer mu.Unlock()
				if stuck != "" && strings.Contains(string(body), stuck) {
					return refused
				}
				others <- string(body)
				return nil
			}
		})
		first := st.subscribed()
		mu.Lock()
		stuck = first.ID
		mu.Unlock()
		st.act(first.ID, devpay.Cancel)
		for len(others) > 0 {
			<-others
		}
		st.subscribed()
		must.Is(t, 4, len(others))
	})
	t.Run("undelivered events survive a restart with ids and order", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		s := st.session(st.customer("Engines"))
		st.service.SetDown(true)
		st.pay(s.ID)
		must.NoError(t, st.provider.Close(t.Context()))
		again := newFixture(t, directory)
		must.Is(t, 0, again.service.Attempts())
		again.endPause()
		events := again.service.Await(t, 4)
		var ids []string
		for _, e := range events {
			ids = append(ids, e.Content.ID)
		}
		if forms.Types(events) != paid || !slices.IsSorted(ids) {
			t.Errorf("events: %s, %s", forms.Types(events), ids)
		}
	})
	t.Run("delivered events are not sent again after a restart", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		id := st.subscribed().ID
		again := newFixture(t, directory)
		again.act(id, devpay.Cancel)
		again.service.Expect(t, "customer.subscription.deleted")
	})
	t.Run("Close ends a hanging attempt, which does not count", func(t *testing.T) {
		hanging, directory := make(chan bool, 1), t.TempDir()
		st := newFixture(t, directory, func(o *devpay.Options) {
			o.Emit = func(ctx context.Context, _ string, _ []byte) error {
				hanging <- true
				<-ctx.Done()
				return ctx.Err()
			}
		})
		s := st.session(st.customer("Engines"))
		done := make(chan error, 1)
		go func() {
			_, err := st.provider.Pay(context.Background(), s.ID)
			done <- err
		}()
		<-hanging
		must.NoError(t, st.provider.Close(t.Context()))
		must.Succeed(t, <-done)
		again := newFixture(t, directory)
		again.endPause()
		must.Is(t, paid, forms.Types(again.service.Await(t, 4)))
	})
	t.Run("a cancelled request does not wait", func(t *testing.T) {
		hanging := make(chan bool)
		st := newFixture(t, t.TempDir(), func(o *devpay.Options) {
			o.Emit = func(ctx context.Context, _ string, _ []byte) error {
				<-hanging
				return nil
			}
		})
		s := st.session(st.customer("Engines"))
		ctx, leave := context.WithCancel(t.Context())
		leave()
		must.Do(st.provider.Pay(ctx, s.ID)).Or(t)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		must.FailIs(t, st.provider.Close(late), context.Canceled)
		close(hanging)
	})
	t.Run("deliveries stop if an attempt cannot be stored, until the next event", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "data")
		var st *fixture
		attempts := 0
		st = newFixture(t, directory, func(o *devpay.Options) {
			o.Emit = func(ctx context.Context, id string, body []byte) error {
				if attempts++; attempts == 1 {
					must.Succeed(t, os.RemoveAll(directory))
				}
				return st.service.Emit(ctx, id, body)
			}
		})
		s := st.session(st.customer("Engines"))
		st.pay(s.ID)
		st.service.Expect(t, "checkout.session.completed")
		must.NoError(t, os.Mkdir(directory, 0o700))
		s = must.Do(st.sessions().Get(s.ID, nil)).Or(t)
		st.act(s.Subscription.ID, devpay.Cancel)
		st.service.Expect(t, paid+" customer.subscription.deleted")
	})
	withProvider(t, "concurrent events keep their order", func(t *testing.T, st *fixture) {
		id := st.subscribed().ID
		wait := sync.WaitGroup{}
		for range 8 {
			wait.Go(func() { must.Succeed(t, st.provider.Act(context.Background(), id, devpay.NextPeriod)) })
		}
		wait.Wait()
		var ids []string
		for _, e := range st.service.Take() {
			ids = append(ids, e.Content.ID)
		}
		if len(ids) != 16 || !slices.IsSorted(ids) {
			t.Errorf("events %s", ids)
		}
	})
}
