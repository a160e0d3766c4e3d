package harness_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"collab/domain/chat"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/usage"
	"collab/ports"
)

// gatedLedger stores settlements when it is let, and refuses those of several entries if
// it is told to.
type gatedLedger struct {
	ports.Ledger
	gate    chan struct{}
	refuses bool

	mu    sync.Mutex
	sizes []int // guarded by mu
}

func (l *gatedLedger) Settle(ctx context.Context, o id.Org, entries ...usage.Entry) error {
	<-l.gate
	l.mu.Lock()
	l.sizes = append(l.sizes, len(entries))
	l.mu.Unlock()
	if l.refuses && len(entries) > 1 {
		return fault.New(fault.Conflict, "Entry is there already")
	}
	return l.Ledger.Settle(ctx, o, entries...)
}

type gatedStore struct {
	ports.Store
	ledger *gatedLedger
}

func (s gatedStore) Usage() ports.Usage { return gatedUsage{s.Store.Usage(), s.ledger} }

type gatedUsage struct {
	ports.Usage
	ledger *gatedLedger
}

func (u gatedUsage) Ledger() ports.Ledger { return u.ledger }

func TestCallsThatEndDuringASettlementAreSettledTogether(t *testing.T) {
	for name, test := range map[string]struct {
		refuses bool
		want    []int
	}{
		"in one transaction":              {want: []int{1, 3}},
		"each by itself where that fails": {refuses: true, want: []int{1, 3, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := onStage(t, model(func(_ context.Context, to ports.Sink) (chat.Reply, error) {
					to.Alive()
					return chat.Reply{Usage: chat.Usage{Input: 3, Output: 4}, InputKnown: true, OutputKnown: true}, nil
				}), 0)
				s.Chats.Generations = unrecorded{}
				ledger := &gatedLedger{Ledger: s.World.Store.Usage().Ledger(), gate: make(chan struct{}), refuses: test.refuses}
				s.Chats.Store = gatedStore{s.World.Store, ledger}
				var all sync.WaitGroup
				for range 4 {
					call := s.admit(t)
					to := &listener{}
					all.Go(func() {
						call.Run(t.Context(), to)
						if to.end() != chat.DoneChunk {
							t.Errorf("a call ends with %q", to.end())
						}
					})
					synctest.Wait()
				}
				close(ledger.gate)
				all.Wait()
				if !slices.Equal(ledger.sizes, test.want) {
					t.Errorf("the settlements had %d entries, want %d", ledger.sizes, test.want)
				}
				entries, used := s.entries(t)
				account, err := s.account(t.Context())
				if err != nil || len(entries) != 4 || account.Used != 28 || account.Reserved != 0 || len(used) != 1 {
					t.Errorf("there are %d entries, the account is %+v, error %v", len(entries), account, err)
				}
			})
		})
	}
}
