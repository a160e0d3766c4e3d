package devpay_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"collab/adapters/devpay"
	"collab/test/forms"
	"collab/test/must"
)

const paid = "checkout.session.completed customer.subscription.created customer.subscription.updated invoice.paid"

func TestDeliveries(t *testing.T) {
	withProvider(t, "while the service is down a payment waits for one attempt of each event, and events follow in order", func(t *testing.T, st *fixture) {
		s := st.session(st.customer("Engines"))
		st.service.SetDown(true)
		st.pay(s.ID)
		must.Is(t, 4, st.service.Attempts())
		st.service.SetDown(false)
		st.endPause()
		must.Is(t, paid, forms.Types(st.service.Await(t, 4)))
	})
	withProvider(t, "an event is dropped after seven attempts with growing pauses", func(t *testing.T, st *fixture) {
		id := st.subscribed().ID
		before := st.service.Attempts()
		st.service.SetDown(true)
		st.act(id, devpay.Cancel)
		for _, want := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour} {
			must.Is(t, want, st.endPause())
		}
		must.Wait(t, "seven deliveries were attempted", func() bool { return st.service.Attempts() == before+7 })
	})
	t.Run("undelivered events survive a restart with ids and order", func(t *testing.T) {
		directory := t.TempDir()
		st := newFixture(t, directory)
		s := st.session(st.customer("Engines"))
		st.service.SetDown(true)
		st.pay(s.ID)
		st.provider.Close()
		events := newFixture(t, directory).service.Await(t, 4)
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
		st.provider.Close()
		must.Succeed(t, <-done)
		must.Is(t, paid, forms.Types(newFixture(t, directory).service.Await(t, 4)))
	})
	t.Run("a cancelled request does not wait", func(t *testing.T) {
		hanging := make(chan bool)
		st := newFixture(t, t.TempDir(), func(o *devpay.Options) {
			o.Emit = func(context.Context, string, []byte) error {
				<-hanging
				return nil
			}
		})
		s := st.session(st.customer("Engines"))
		ctx, leave := context.WithCancel(t.Context())
		leave()
		must.Do(st.provider.Pay(ctx, s.ID)).Or(t)
		close(hanging)
	})
	t.Run("events whose delivery cannot be stored are delivered again by the next process", func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "data")
		var st *fixture
		st = newFixture(t, directory, func(o *devpay.Options) {
			o.Emit = func(ctx context.Context, id string, body []byte) error {
				must.Succeed(t, os.RemoveAll(directory))
				return st.service.Emit(ctx, id, body)
			}
		})
		st.pay(st.session(st.customer("Engines")).ID)
		st.service.Expect(t, paid)
		must.NoError(t, os.Mkdir(directory, 0o700))
		st.customer("Others") // stores the state
		must.Is(t, paid, forms.Types(newFixture(t, directory).service.Await(t, 4)))
	})
}
