package access

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
)

// failingVerifier are the methods that nobody calls here.
type failingVerifier = ports.Epochs

// counting replies with a number that grows with each query, and lets a test
// hold a query up.
type counting struct {
	failingVerifier

	mu      sync.Mutex
	queries [][]id.Org
	gate    chan struct{} // nil: no query waits
	err     error
	cached  *org.Mark // of every organisation
}

func (c *counting) Cached(id.Org) (mark org.Mark, ok bool) {
	if c.cached == nil {
		return mark, false
	}
	return *c.cached, true
}

func (c *counting) Marks(_ context.Context, orgs []id.Org) (map[id.Org]org.Mark, error) {
	c.mu.Lock()
	slices.Sort(orgs)
	c.queries = append(c.queries, orgs)
	n, gate, err := len(c.queries), c.gate, c.err
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	found := map[id.Org]org.Mark{}
	for _, o := range orgs {
		if o != "unknown" {
			found[o] = org.Mark{Epoch: int64(n)}
		}
	}
	return found, err
}

func TestRequestsThatComeWhileAQueryRunsShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := &counting{gate: make(chan struct{})}
		e := newEpochs(port)
		var all sync.WaitGroup
		read := func(o id.Org, want int64) {
			all.Go(func() {
				if got, ok, err := e.read(t.Context(), o); got.Epoch != want || !ok || err != nil {
					t.Errorf("%s: %d, %v, %v; want %d", o, got.Epoch, ok, err, want)
				}
			})
		}
		read("a", 1)
		synctest.Wait() // the first query runs
		for range 10 {
			read("a", 2) // began after these came, so not the first
			read("b", 2)
		}
		synctest.Wait()
		port.gate <- struct{}{}
		synctest.Wait() // the second query runs
		read("c", 3)
		synctest.Wait()
		close(port.gate)
		all.Wait()
		if len(port.queries) != 3 || !slices.Equal(port.queries[1], []id.Org{"a", "b"}) {
			t.Errorf("the queries were %v", port.queries)
		}
	})
}

func TestARequestThatLeavesDoesNotFailTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := &counting{gate: make(chan struct{})}
		e := newEpochs(port)
		var all sync.WaitGroup
		all.Go(func() { _, _, _ = e.read(t.Context(), "a") })
		synctest.Wait()
		leaving, leave := context.WithCancel(t.Context())
		all.Go(func() { // leads the second batch
			_, _, _ = e.read(leaving, "a")
		})
		synctest.Wait()
		all.Go(func() {
			if got, _, err := e.read(t.Context(), "a"); got.Epoch != 2 || err != nil {
				t.Errorf("%d, %v", got.Epoch, err)
			}
		})
		gone, goes := context.WithCancel(t.Context())
		all.Go(func() {
			if _, _, err := e.read(gone, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("a request that left got %v", err)
			}
		})
		synctest.Wait()
		leave()
		goes()
		synctest.Wait()
		close(port.gate)
		all.Wait()
	})
}

func TestUnknownOrganisationsAndFailedQueries(t *testing.T) {
	port := &counting{}
	e := newEpochs(port)
	if _, ok, err := e.read(t.Context(), "unknown"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	port.err = errors.New("down")
	if _, _, err := e.read(t.Context(), "a"); !errors.Is(err, port.err) {
		t.Errorf("%v", err)
	}
}

func TestACachedMarkIsAcceptedAtThePositionThatWasRead(t *testing.T) {
	port := &counting{cached: &org.Mark{Epoch: 9, LogN: 1}}
	e := newEpochs(port)
	for _, want := range []struct{ n, epoch int64 }{
		{1, 1}, // no position is known
		{0, 9}, // that of the first query
		{1, 2}, // records were changed since
	} {
		port.cached.LogN = want.n
		if got, ok, err := e.read(t.Context(), "a"); got.Epoch != want.epoch || !ok || err != nil {
			t.Errorf("at %d: %d, %v, %v; want %d", want.n, got.Epoch, ok, err, want.epoch)
		}
	}
}
