package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/app/chats"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// gatedLedger stores settlements when its gate is closed.
type gatedLedger struct {
	ports.Ledger
	gate    chan struct{}
	refuses bool // settlements of several entries fail
	panics  bool // the second settlement panics

	mu    sync.Mutex
	sizes []int // guarded by mu
}

func (l *gatedLedger) Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error {
	<-l.gate
	l.mu.Lock()
	l.sizes = append(l.sizes, len(entries))
	second := len(l.sizes) == 2
	l.mu.Unlock()
	if l.panics && second {
		panic("the ledger has a bug")
	}
	if l.refuses && len(entries) > 1 {
		return fault.New(fault.Conflict, "Entry is there already")
	}
	return l.Ledger.Settle(ctx, o, entries...)
}

// gatedQuotas makes reservations when its gate is closed.
type gatedQuotas struct {
	ports.Quotas
	gate   chan struct{}
	panics bool // reservations of several leases panic

	mu    sync.Mutex
	sizes []int // guarded by mu
}

func (q *gatedQuotas) count(leases int) {
	<-q.gate
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sizes = append(q.sizes, leases)
}

func (q *gatedQuotas) ReserveAt(ctx context.Context, epoch int64, l quota.Lease, limit int64, n quota.Need) (int64, error) {
	q.count(1)
	return q.Quotas.ReserveAt(ctx, epoch, l, limit, n)
}

func (q *gatedQuotas) ReserveAllAt(ctx context.Context, epoch int64, leases []quota.Lease, limit int64) ([]id.User, error) {
	q.count(len(leases))
	if q.panics {
		panic("the store has a bug")
	}
	return q.Quotas.ReserveAllAt(ctx, epoch, leases, limit)
}

// usageStore is a store with another ledger and other quotas.
type usageStore struct {
	ports.Store
	ledger ports.Ledger
	quotas ports.Quotas
}

func (s usageStore) Usage() ports.Usage { return s }

func (s usageStore) Ledger() ports.Ledger { return s.ledger }
func (s usageStore) Quotas() ports.Quotas { return s.quotas }

func (s usageStore) Requests() ports.Requests { return s.Store.Usage().Requests() }

func TestCallsThatEndDuringASettlementAreSettledTogether(t *testing.T) {
	for name, test := range map[string]struct {
		refuses, panics bool
		want            []int
		panicked        int // calls
	}{
		"in one transaction":                         {want: []int{1, 3}},
		"each by itself where that fails":            {refuses: true, want: []int{1, 3, 1, 1, 1}},
		"the others by themselves where that panics": {panics: true, want: []int{1, 3, 1, 1}, panicked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChatFixture(t, answering, 0)
				s.Chats.Generations = unrecorded{}
				ledger := &gatedLedger{Ledger: s.Deployment.Store.Usage().Ledger(), gate: make(chan struct{}), refuses: test.refuses, panics: test.panics}
				s.Chats.Store = usageStore{s.Deployment.Store, ledger, s.Deployment.Store.Usage().Quotas()}
				var all sync.WaitGroup
				var panicked atomic.Int32
				for range 4 {
					call := s.admit(t)
					to := &chatClient{}
					all.Go(func() {
						if run(t.Context(), call, to) {
							panicked.Add(1)
						} else if to.end() != chat.DoneChunk {
							t.Errorf("a call ends with %q", to.end())
						}
					})
					synctest.Wait()
				}
				close(ledger.gate)
				all.Wait()
				if !slices.Equal(ledger.sizes, test.want) || int(panicked.Load()) != test.panicked {
					t.Errorf("the settlements had %d entries, want %d; %d calls panicked", ledger.sizes, test.want, panicked.Load())
				}
				stored := 4 - test.panicked
				entries, used := s.entries(t)
				account, err := s.account(t.Context())
				if err != nil || len(entries) != stored || account.Used != int64(7*stored) || (account.Reserved == 0) != (stored == 4) || len(used) != 1 {
					t.Errorf("there are %d entries, the account is %+v, error %v", len(entries), account, err)
				}
			})
		})
	}
}

func TestCallsAdmittedDuringAReservationAreReservedTogether(t *testing.T) {
	for name, test := range map[string]struct {
		panics   bool
		room     float64 // of the account, in calls
		want     []int
		admitted int
	}{
		"in one statement":                           {room: 9, want: []int{1, 3}, admitted: 4},
		"each by itself where they do not all fit":   {room: 3.5, want: []int{1, 3, 1, 1, 1}, admitted: 4},
		"the others by themselves where that panics": {room: 9, panics: true, want: []int{1, 3, 1, 1}, admitted: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChatFixture(t, model(nil), 0)
				ctx := t.Context()
				sub := must.Do(s.Deployment.Store.Directory().Subscriptions().Get(ctx, s.ada.Org)).Or(t)
				s.admit(t)
				one := must.Do(s.account(ctx)).Or(t)
				room := int64(test.room * float64(one.Reserved))
				other := quota.Lease{ID: "other", Org: s.ada.Org, User: s.ada.User, Day: calendar.DayOf(s.Clock.Now()), ExpiresAt: s.Clock.Now().Add(time.Minute)}
				held := must.Do(s.Deployment.Store.Usage().Quotas().ReserveAt(ctx, s.ada.Epoch(), other, sub.DailyTokens()-room, quota.Need{Output: sub.DailyTokens()})).Or(t)
				quotas := &gatedQuotas{Quotas: s.Deployment.Store.Usage().Quotas(), gate: make(chan struct{}), panics: test.panics}
				s.Chats.Store = usageStore{s.Deployment.Store, s.Deployment.Store.Usage().Ledger(), quotas}
				var all sync.WaitGroup
				var admitted atomic.Int32
				for range 4 {
					all.Go(func() {
						defer func() { _ = recover() }() // of the panic of the store
						must.Succeed(t, must.ErrorOf(s.AdmitUnconfirmed(ctx, s.ada, chat.Request{Message: "Hello"})))
						admitted.Add(1)
					})
					synctest.Wait()
				}
				close(quotas.gate)
				all.Wait()
				account, err := s.account(ctx)
				want := one.Reserved + held + min(room, int64(test.admitted)*one.Reserved)
				if err != nil || !slices.Equal(quotas.sizes, test.want) || int(admitted.Load()) != test.admitted || account.Reserved != want {
					t.Errorf("the reservations had %d leases, want %d; %d calls were admitted; the account is %+v, want %d, error %v", quotas.sizes, test.want, admitted.Load(), account, want, err)
				}
			})
		})
	}
}

// silentLedger does not answer the first settlements, whose contexts end.
type silentLedger struct {
	ports.Ledger
	silent atomic.Int32
}

func (l *silentLedger) Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error {
	if l.silent.Add(-1) >= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Ledger.Settle(ctx, o, entries...)
}

// answering is a model whose calls use seven tokens.
var answering = model(func(_ context.Context, to ports.Sink) (chat.Reply, error) {
	to.Alive()
	return chat.Reply{Usage: chat.Usage{Input: 3, Output: 4}, InputKnown: true, OutputKnown: true}, nil
})

func TestASettlementWithoutAResponseIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChatFixture(t, answering, 0)
		ledger := &silentLedger{Ledger: s.Deployment.Store.Usage().Ledger()}
		ledger.silent.Store(5)
		s.Chats.Store = usageStore{s.Deployment.Store, ledger, s.Deployment.Store.Usage().Quotas()}
		if e, end := s.ask(t); e.Tokens.Total() != 7 || end != chat.DoneChunk {
			t.Errorf("the entry is %+v, the end %s", e, end)
		}
	})
}

// silentQuotas does not answer extensions and sweeps, whose contexts end.
type silentQuotas struct{ ports.Quotas }

func (silentQuotas) Extend(ctx context.Context, _ []quota.Lease, _ time.Time) error {
	<-ctx.Done()
	return ctx.Err()
}

func (q silentQuotas) Sweep(ctx context.Context, now time.Time) error { return q.Extend(ctx, nil, now) }

func TestAnExtensionWithoutAResponseEndsBeforeTheLeases(t *testing.T) {
	for name, calls := range map[string]int{"of leases": 1, "of none, but a sweep": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newChatFixture(t, answering, 0)
				for range calls {
					s.admit(t)
				}
				s.Chats.Store = usageStore{s.Deployment.Store, s.Deployment.Store.Usage().Ledger(), silentQuotas{s.Deployment.Store.Usage().Quotas()}}
				began := time.Now()
				if err := s.ExtendLeases(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) >= chats.ExtendEvery {
					t.Errorf("it ends after %v, error %v", time.Since(began), err)
				}
			})
		})
	}
}

func TestShutdownLogsTheUseThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChatFixture(t, answering, 0)
		s.Chats.Generations = unrecorded{}
		var logged bytes.Buffer
		s.Chats.Log = slog.New(slog.NewTextHandler(&logged, nil))
		ledger := &silentLedger{Ledger: s.Deployment.Store.Usage().Ledger()}
		ledger.silent.Store(1000)
		s.Chats.Store = usageStore{s.Deployment.Store, ledger, s.Deployment.Store.Usage().Quotas()}
		var calls sync.WaitGroup
		for range 3 {
			call := s.admit(t)
			calls.Go(func() { call.Run(t.Context(), &chatClient{}) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Chats.Wait(ctx); err == nil || logged.Len() > 0 {
			t.Errorf("waiting ended with %v and logged %s", err, &logged)
		}
		if err := s.Chats.Close(ctx); err == nil {
			t.Error("it closed before the use was stored")
		}
		calls.Wait()
		lines := strings.Count(logged.String(), "model call settlement failed")
		if whole := strings.Count(logged.String(), fmt.Sprintf("org=%s user=%s tokens=7 error=\"the server is shutting down\"", s.ada.Org, s.ada.User)); lines != 3 || whole != 3 {
			t.Errorf("of 3 calls it logged:\n%s", &logged)
		}
	})
}
