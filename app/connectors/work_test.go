package connectors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// giveKey stores an API key.
func (w *fixture) giveKey(i id.Connector) {
	w.Helper()
	must.Do(w.connectors.StoreCredentials(w.Context(), w.member, i, `{"apiKey":"key"}`, map[string]string{"apiKey": "key"})).Or(w)
}

var errRefused = fault.New(fault.Forbidden, "The server does not accept the credentials")

func TestStatusesOfAServerWithAKey(t *testing.T) {
	w := newFixture(t)
	i := w.create("search").ID
	w.wantStatus(i, connector.Disconnected, "")
	w.wantDue(i, -1)
	w.work()
	must.Is(t, 0, w.toolServers.calls())
	w.giveKey(i)
	w.wantStatus(i, connector.Connecting, "")
	w.wantDue(i, 0)
	w.work()
	if now := w.wantStatus(i, connector.Connected, ""); len(now.Tools) != 1 || now.LastUsedAt == nil || !now.LastUsedAt.Equal(startTime) {
		t.Errorf("the connector is %+v", now)
	}
	if a := w.toolServers.asked[0]; a.Entries != `{"apiKey":"key"}` || a.URL != "https://search.example.com/mcp" || a.Auth != connector.APIKey {
		t.Errorf("the server was asked with %+v", a)
	}
	w.wantDue(i, time.Hour)

	w.clock.Advance(time.Hour)
	w.toolServers.failWith(errRefused)
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
		w.work()
		w.wantStatus(i, connector.Failing, errRefused.Message)
		w.wantDue(i, wait)
		w.clock.Advance(wait)
	}
	w.giveKey(i) // new credentials reset the wait
	w.wantStatus(i, connector.Connecting, "")
	w.wantDue(i, 0)
	w.work()
	w.wantDue(i, time.Minute)
	w.clock.Advance(time.Minute)
	w.toolServers.set(nil)
	w.work()
	w.wantStatus(i, connector.Connected, "")
	w.wantDue(i, time.Hour)
}

func TestAConnectorFollowsTheAddressOfItsProvider(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	const moved = "https://notes.example.com/sse"
	w.connectors.Catalog = connector.NewCatalog([]connector.Provider{
		{ID: "notes", Name: "Notes", Auth: connector.ServerMediated, Transport: connector.SSE, URL: moved, Enabled: true},
	}, nil)
	w.work()
	if a := w.toolServers.asked[0]; a.URL != moved || a.Transport != connector.SSE {
		t.Errorf("the server is asked with %+v", a)
	}
	w.confirm(i, "")
	must.Is(t, 1, w.authorizer.count("discover "+moved))
	for _, got := range append(must.Do(w.list(w.member)).Or(t), must.Do(w.connectors.Get(t.Context(), w.member, i)).Or(t)) {
		must.Is(t, connector.SSE, got.Transport)
	}
}

func TestLocalServersAreNotTried(t *testing.T) {
	w := newFixture(t)
	i := w.create("shell").ID
	w.giveKey(i)
	w.wantStatus(i, connector.Connected, "")
	w.wantDue(i, -1)
	w.clock.Advance(24 * time.Hour)
	w.work()
	must.Is(t, 0, w.toolServers.calls())
}

func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	w := newFixture(t)
	at := map[time.Duration]int{}
	for n := range 60 {
		b := must.Do(w.connectors.Create(t.Context(), w.member, connector.Draft{Provider: "notes", Name: new(fmt.Sprint("Notes ", n))})).Or(w)
		w.finish(w.confirm(b.ID, ""))
		now := w.get(b.ID)
		after := now.RenewAt.Sub(w.clock.Now())
		if after < 45*time.Minute || after > 51*time.Minute {
			t.Errorf("a token of an hour is renewed after %v", after)
		}
		at[after]++
	}
	if len(at) < 5 {
		t.Errorf("all tokens are renewed at the same times: %v", at)
	}
	// All are renewed, a bounded number at a time.
	w.clock.Advance(51 * time.Minute)
	for range 60 {
		w.work()
	}
	all := must.Do(w.list(w.member)).Or(w)
	for _, i := range all {
		if i.Version != 2 || i.Status() != connector.Connected || i.Expired(w.clock.Now()) {
			t.Errorf("the connector is %+v", i)
		}
	}
	if w.authorizer.reused != 0 || w.authorizer.count("renew") != 60 {
		t.Errorf("%d renewals, %d of them with used tokens", w.authorizer.count("renew"), w.authorizer.reused)
	}
}

func TestRenewalsThatFail(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.work()
	w.clock.Set(*w.get(i).RenewAt)
	w.authorizer.set(func() { w.authorizer.fail = errDown })
	asked := w.toolServers.calls()
	for n := range 3 { // before the token expires the status stays
		w.work()
		w.wantStatus(i, connector.Connected, "")
		if got := w.authorizer.count("renew"); got != n+1 {
			t.Fatalf("%d renewals, want %d", got, n+1)
		}
		w.clock.Set(*w.get(i).DueAt)
	}
	w.clock.Set(w.get(i).ExpiresAt.Add(time.Second))
	w.work()
	w.wantStatus(i, connector.Failing, errDown.Message)
	if w.toolServers.calls() != asked {
		t.Error("the server was asked with a token that has expired")
	}
	must.Fail(t, must.ErrorOf(w.connectors.Read(t.Context(), w.member, i)), fault.Unavailable)
	must.Is(t, 0, w.pauses.Load())
	w.authorizer.set(func() { w.authorizer.fail = nil })
	w.clock.Set(*w.get(i).DueAt)
	w.work()
	w.wantStatus(i, connector.Connected, "")

	w.clock.Set(*w.get(i).RenewAt)
	w.authorizer.set(func() { clear(w.authorizer.valid) })
	before := w.authorizer.count("renew")
	for range 5 {
		w.work()
		w.wantStatus(i, connector.Failing, "The authorization server refuses the authorization")
		w.wantDue(i, -1)
		w.clock.Advance(7 * time.Hour)
	}
	must.Is(t, 1, w.authorizer.count("renew")-before)
	must.Fail(t, must.ErrorOf(w.connectors.Read(t.Context(), w.member, i)), fault.Conflict)
	w.finish(w.confirm(i, ""))
	w.work()
	w.wantStatus(i, connector.Connected, "")
}

func TestTokensThatCannotBeRenewed(t *testing.T) {
	w := newFixture(t)
	w.authorizer.noRefresh = true
	i := w.authorise("notes")
	w.work()
	w.wantStatus(i, connector.Connected, "")
	w.clock.Advance(time.Hour)
	w.work()
	w.wantStatus(i, connector.Failing, "The access token has expired, and the connector has to be authorised again")
	w.wantDue(i, -1)
	must.Is(t, 0, w.authorizer.count("renew"))
}

func TestATokenRefusedBeforeItExpiresIsRenewed(t *testing.T) {
	for name, lifetime := range map[string]time.Duration{"that expires": time.Hour, "without a stated lifetime": 0} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.authorizer.lifetime = lifetime
			i := w.authorise("notes")
			w.toolServers.set(func(_ context.Context, a connector.Access) ([]connector.Tool, error) {
				if strings.Contains(a.Entries, "access-2") { // the first token; client-1 was made before
					return nil, errRefused
				}
				return nil, nil
			})
			w.work()
			if now := w.wantStatus(i, connector.Connected, ""); now.Version != 2 {
				t.Errorf("the credentials are of version %d", now.Version)
			}
			w.toolServers.failWith(errRefused)
			w.clock.Set(*w.get(i).DueAt)
			w.work()
			w.wantStatus(i, connector.Failing, errRefused.Message)
		})
	}
}

func TestTwoServersRenewATokenOnce(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.work()
	both := []func() error{}
	other := w.newServer()
	for n := range 8 {
		s := w.connectors
		if n%2 == 1 {
			s = other
		}
		both = append(both, func() error {
			if n < 4 {
				return s.Work(t.Context())
			}
			_, err := s.Read(t.Context(), w.member, i)
			if fault.Is(err, fault.Unavailable) {
				return nil // Read waits for a bounded time
			}
			return err
		})
	}
	for round := range 300 {
		w.clock.Advance(time.Hour)
		var group sync.WaitGroup
		for _, do := range both {
			group.Go(func() { must.Succeed(t, do()) })
		}
		group.Wait()
		w.connectors.Wait()
		other.Wait()
		w.wantStatus(i, connector.Connected, "")
		if n := w.authorizer.count("renew"); n != round+1 || w.authorizer.reused != 0 {
			t.Fatalf("after %d rounds there were %d renewals, %d of them with used tokens", round+1, n, w.authorizer.reused)
		}
	}
}

func TestServersNeverClaimTheSameConnector(t *testing.T) {
	w := newFixture(t)
	for range 150 {
		w.create("weather")
	}
	other := w.newServer()
	for range 20 {
		var group sync.WaitGroup
		group.Go(func() { w.Must(w.connectors.Work(t.Context())) })
		group.Go(func() { w.Must(other.Work(t.Context())) })
		group.Wait()
		w.connectors.Wait()
		other.Wait()
	}
	must.Is(t, 150, w.toolServers.calls())
}

func TestACancelledReadLosesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, i := newFixtureWithExpiredToken(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.before("", func() {
			cancel()
			<-time.After(10 * time.Second) // the response's timeout
		})
		_, _ = w.connectors.Read(ctx, w.member, i) // the caller is gone
		now := w.get(i)
		if now.Version != 2 || now.Expired(w.clock.Now()) {
			t.Fatalf("the connector is %+v", now)
		}
		w.wantDue(i, 0)
		c, err := w.connectors.Read(t.Context(), w.member, i)
		if err != nil || !strings.Contains(c.Entries, "access-3") || w.authorizer.reused != 0 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// awayStore is a store that is away, for transactions, a number of times.
type awayStore struct {
	ports.Store
	away atomic.Int64
}

func (s *awayStore) Atomic(ctx context.Context, fn func(ports.Records) error) error {
	if s.away.Add(-1) >= 0 {
		return fault.New(fault.Unavailable, "The database does not answer")
	}
	return s.Store.Atomic(ctx, fn)
}

// newFixtureOfRenewal returns a fixture and a connector whose token has expired. Its renewal finds the store away so
// often.
func newFixtureOfRenewal(t *testing.T, away int64) (*fixture, id.Connector) {
	w, i := newFixtureWithExpiredToken(t)
	store := &awayStore{Store: w.store}
	w.connectors.Store = store
	w.before("", func() { store.away.Store(away) })
	return w, i
}

func TestATokenIsStoredWhenTheStoreIsBack(t *testing.T) {
	w, i := newFixtureOfRenewal(t, 5)
	w.work()
	if now := w.wantStatus(i, connector.Connected, ""); now.Version != 2 || w.authorizer.reused != 0 {
		t.Errorf("the connector is %+v", now)
	}
	must.Is(t, 5, w.pauses.Load())
}

func TestStoringATokenEndsBeforeItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, i := newFixtureOfRenewal(t, 1000)
		w.connectors.Pause = func(ctx context.Context, attempt int) error {
			select {
			case <-time.After(time.Duration(attempt) * time.Second):
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		began := time.Now()
		w.work()
		if took := time.Since(began); took < 30*time.Second || took >= connector.ClaimDuration {
			t.Errorf("it was tried for %v", took)
		}
		must.Is(t, 1, w.get(i).Version)
	})
}

func TestAStoppingServerLosesNoToken(t *testing.T) {
	w, i := newFixtureWithExpiredToken(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.before("", cancel)
	w.Must(w.connectors.Work(ctx))
	w.connectors.Wait()
	if now := w.get(i); now.Version != 2 || w.authorizer.reused != 0 {
		t.Errorf("the connector is %+v", now)
	}
}

// blockingServers is an authorizer whose renewals end with their context.
type blockingServers struct{ *authorizer }

func (blockingServers) Renew(ctx context.Context, _ string) (connector.Credentials, error) {
	<-ctx.Done()
	return connector.Credentials{}, fault.Wrap(fault.Unavailable, ctx.Err(), "The authorization server cannot be reached")
}

func TestWorkEndsOneSecondAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		i := w.authorise("notes")
		o := w.create("weather").ID
		w.toolServers.set(func(ctx context.Context, _ connector.Access) ([]connector.Tool, error) {
			<-ctx.Done()
			return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "The server took too long")
		})
		w.clock.Advance(time.Hour)
		w.connectors.Authorizer = blockingServers{w.authorizer}
		ctx, cancel := context.WithCancel(t.Context())
		w.Must(w.connectors.Work(ctx))
		synctest.Wait()
		began := time.Now()
		cancel()
		w.connectors.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the work ends %v after its context", took)
		}
		// The failures do not count, and the claims are free at once.
		for _, i := range []id.Connector{i, o} {
			if now := w.get(i); now.LastError != "" || now.Failures != 0 {
				t.Errorf("the connector is %+v", now)
			}
			w.wantDue(i, 0)
		}
		must.Is(t, "", w.log.String())
	})
}

func TestDeletionRevokesAnAuthorization(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.work()
	w.authorizer.set(func() { w.authorizer.fail = errDown })
	w.Must(w.connectors.Delete(t.Context(), w.member, i))
	w.work()
	w.authorizer.set(func() { w.authorizer.fail = nil })
	w.clock.Advance(time.Minute - time.Millisecond)
	w.work()
	must.Is(t, 1, w.authorizer.count("revoke renewal-2"))
	w.clock.Advance(time.Millisecond)
	w.work()
	w.clock.Advance(24 * time.Hour)
	w.work()
	if n := w.authorizer.count("revoke renewal-2"); n != 2 || len(w.authorizer.valid) != 0 {
		t.Errorf("%d attempts, and %v are valid", n, w.authorizer.valid)
	}
}

func TestErasureRevokesAuthorizations(t *testing.T) {
	w := newFixture(t)
	w.authorise("notes")
	w.authorise("calendar")
	lost := w.authorise("notes")
	w.giveKey(w.create("search").ID)
	w.create("shell")
	w.Must(w.store.Connections().Credentials().Put(t.Context(), w.org.Org, connector.Sealed{Instance: lost, Version: 1, Entries: []byte{1}}))
	w.work()
	w.Close(w.org.Org)
	erase := func(end error) error {
		return w.store.Atomic(t.Context(), func(r ports.Records) error {
			w.Must(w.connectors.RevokeAll(t.Context(), r, w.org.Org))
			w.Must(must.ErrorOf(r.Directory().Organisations().Erase(t.Context(), w.org.Org, w.clock.Now(), 1000)))
			return end
		})
	}
	must.FailIs(t, erase(errInternal), errInternal)
	w.work()
	must.Is(t, 0, w.authorizer.count("revoke"))
	w.Must(erase(nil))
	w.work()
	if n := w.authorizer.count("revoke"); n != 2 || len(w.authorizer.valid) != 1 {
		t.Errorf("%d authorizations were revoked, and %v are valid", n, w.authorizer.valid)
	}
	if strings.Count(w.log.String(), "authorization revocation skipped") != 2 { // in each of the attempts
		t.Errorf("the log has %s", w.log)
	}
	w.Must(erase(nil)) // idempotent
	w.work()
	must.Is(t, 2, w.authorizer.count("revoke"))
}

func TestRevocationEndsAfterTwelveAttempts(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.authorizer.set(func() { w.authorizer.fail = errDown })
	w.Must(w.connectors.Delete(t.Context(), w.member, i))
	for range 40 {
		w.work()
		w.clock.Advance(6 * time.Hour)
	}
	if n := w.authorizer.count("revoke"); n != 12 || strings.Count(w.log.String(), "authorization revocation failed") != 1 {
		t.Errorf("%d attempts; the log has %s", n, w.log)
	}
}

func TestDeletionWhileATokenIsRenewed(t *testing.T) {
	w, i := newFixtureWithExpiredToken(t)
	w.before("renew", func() { w.Must(w.connectors.Delete(t.Context(), w.member, i)) })
	w.work()
	w.work()
	if len(w.authorizer.valid) != 0 || w.authorizer.count("revoke") != 2 {
		t.Errorf("after %v %v are valid", w.authorizer.calls, w.authorizer.valid)
	}
}

func TestNewCredentialsDuringATest(t *testing.T) {
	w := newFixture(t)
	i := w.create("search").ID
	w.giveKey(i)
	w.toolServers.set(func(context.Context, connector.Access) ([]connector.Tool, error) {
		w.giveKey(i)
		return nil, errRefused
	})
	w.work()
	w.wantStatus(i, connector.Connecting, "") // the result of the previous credentials is dropped
	w.toolServers.set(nil)
	w.work()
	w.wantStatus(i, connector.Connected, "")
}

func TestNewCredentialsDuringARenewal(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("calendar")
	w.work()
	w.clock.Advance(time.Hour)
	const given = `{"accessToken":"given"}`
	w.before("renew", func() {
		texts := map[string]string{"accessToken": "given"}
		must.Do(w.connectors.StoreCredentials(t.Context(), w.member, i, given, texts)).Or(w)
	})
	w.work()
	w.work()
	w.wantStatus(i, connector.Connected, "")
	if c, err := w.connectors.Read(t.Context(), w.member, i); err != nil || c.Entries != given || c.Renewal != "" {
		t.Errorf("the credentials are %+v, %v", c, err)
	}
}

func TestInternalErrorsDoNotFailTheConnector(t *testing.T) {
	for name, do := range map[string]func(context.Context, connector.Access) ([]connector.Tool, error){
		"an error": func(context.Context, connector.Access) ([]connector.Tool, error) { return nil, errInternal },
		"a panic":  func(context.Context, connector.Access) ([]connector.Tool, error) { panic("nil map") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			i := w.create("search").ID
			w.giveKey(i)
			w.toolServers.set(do)
			for n := range 20 { // more than the slots that could be lost
				w.work()
				w.wantStatus(i, connector.Connecting, "")
				w.wantDue(i, connector.ClaimDuration)
				if got := w.toolServers.calls(); got != n+1 {
					t.Fatalf("%d calls, want %d", got, n+1)
				}
				w.clock.Advance(connector.ClaimDuration)
			}
			must.Is(t, 20, strings.Count(w.log.String(), "connector work failed"))
			w.toolServers.set(nil)
			w.work()
			w.wantStatus(i, connector.Connected, "")
		})
	}
}

// unclaimable is a store whose connectors cannot be claimed.
type unclaimable struct{ ports.Store }

func (s unclaimable) Connections() ports.Connections { return unclaimed{s.Store.Connections()} }

type unclaimed struct{ ports.Connections }

func (c unclaimed) Connectors() ports.Connectors {
	return unclaimedConnectors{c.Connections.Connectors()}
}

type unclaimedConnectors struct{ ports.Connectors }

func (unclaimedConnectors) Claim(context.Context, time.Time, ...id.Org) (connector.Instance, error) {
	panic("nil map")
}

func TestClaimsThatPanicTakeNoSlots(t *testing.T) {
	w := newFixture(t)
	i := w.create("search").ID
	w.giveKey(i)
	w.connectors.Store = unclaimable{w.store}
	for range 20 { // more than the slots that could be lost
		if err := w.connectors.Work(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: nil map") {
			t.Fatal(err)
		}
	}
	w.connectors.Store = w.store
	w.work()
	must.Is(t, 1, w.toolServers.calls())
	w.wantStatus(i, connector.Connected, "")
}

func TestWorkIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		var running, most atomic.Int64
		open := make(chan struct{})
		w.toolServers.set(func(context.Context, connector.Access) ([]connector.Tool, error) {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-open
			running.Add(-1)
			return nil, nil
		})
		for range 6 {
			w.createMany(20)
		}
		<-w.connectors.Woken() // by the creations
		w.Must(w.connectors.Work(t.Context()))
		<-w.connectors.Woken() // by Work, which started as many as one call may
		for range 5 {
			w.Must(w.connectors.Work(t.Context()))
		}
		synctest.Wait()
		must.Is(t, 16, running.Load())
		select {
		case <-w.connectors.Woken():
			t.Error("Woken received though no slot is free")
		default:
		}
		for range 120 {
			select {
			case open <- struct{}{}:
			case <-w.connectors.Woken(): // a slot is free
				w.Must(w.connectors.Work(t.Context()))
				synctest.Wait()
			}
		}
		for range 120 {
			w.Must(w.connectors.Work(t.Context()))
			select {
			case open <- struct{}{}:
			default:
			}
			synctest.Wait()
		}
		close(open)
		w.work()
		if n := most.Load(); n != 16 || w.toolServers.calls() != 120 {
			t.Errorf("%d at once, %d calls", n, w.toolServers.calls())
		}
	})
}

// createMany creates n instances in a new organisation.
func (w *fixture) createMany(n int) (of org.Actor) {
	w.Helper()
	of = w.Member(w.Organisation(), org.Owner)
	for range n {
		must.Do(w.connectors.Create(w.Context(), of, connector.Draft{Provider: "weather"})).Or(w)
	}
	return of
}

func TestWorkOfAnOrganisationIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		hang, running := make(chan struct{}), 0
		var mu sync.Mutex
		w.toolServers.set(func(ctx context.Context, _ connector.Access) ([]connector.Tool, error) {
			mu.Lock()
			running++
			mu.Unlock()
			<-hang
			return nil, nil
		})
		begun := func(want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if running != want {
				t.Errorf("%d are worked on, want %d", running, want)
			}
		}
		greedy := w.createMany(100)
		w.Must(w.connectors.Work(t.Context()))
		begun(4)
		w.createMany(1)
		w.Must(w.connectors.Work(t.Context()))
		begun(5)

		// Deleted instances count until their work has ended.
		all := must.Do(w.list(greedy)).Or(w)
		for _, i := range all[:10] {
			w.Must(w.connectors.Delete(t.Context(), greedy, i.ID))
		}
		w.Must(w.connectors.Work(t.Context()))
		begun(5)
		for range 3 {
			w.createMany(10)
		}
		w.Must(w.connectors.Work(t.Context()))
		begun(14)

		// The last slots are for organisations without work.
		for n := range 2 {
			w.createMany(10)
			w.Must(w.connectors.Work(t.Context()))
			begun(15 + n)
		}
		<-w.connectors.Woken()
		hang <- struct{}{}
		<-w.connectors.Woken()
		close(hang)
		w.connectors.Wait()
	})
}

func TestCredentialsAreSealedAnewAfterTheKeysWereRotated(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	key := func() []byte {
		s := must.Do(w.store.Connections().Credentials().Get(t.Context(), w.org.Org, i)).Or(w)
		return []byte{s.Entries[0], s.Renewal[0]}
	}
	w.sealer.set(2, false)
	w.work()
	if got := key(); !slices.Equal(got, []byte{2, 2}) {
		t.Errorf("after a test they are sealed with %v", got)
	}
	w.sealer.set(3, false)
	c := must.Do(w.connectors.Read(t.Context(), w.member, i)).Or(w)
	if got := key(); !slices.Equal(got, []byte{3, 3}) || !strings.Contains(c.Entries, "access-2") {
		t.Errorf("after a read they are sealed with %v, and are %v", got, c)
	}
}

const unreadable = "The credentials cannot be opened any more, and the connector has to be connected again"

func TestCredentialsThatCannotBeOpened(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.sealer.set(9, true)
	w.clock.Advance(2 * time.Hour) // the token has expired, too
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		w.work()
		w.wantStatus(i, connector.Failing, unreadable)
		w.wantDue(i, wait)
		w.clock.Advance(wait)
	}
	must.Is(t, 0, w.authorizer.count("renew")+w.toolServers.calls())
	must.Fail(w, must.ErrorOf(w.connectors.Read(t.Context(), w.member, i)), fault.Internal)
	w.Must(w.connectors.Delete(t.Context(), w.member, i))
	must.Fail(t, must.ErrorOf(w.store.Connections().Connectors().Get(t.Context(), w.org.Org, i)), fault.NotFound) // the connector is gone
	if !strings.Contains(w.log.String(), "authorization revocation skipped") {
		t.Errorf("the log has %s", w.log)
	}
}

func TestCredentialsAreOpenedAgainWithARestoredKey(t *testing.T) {
	w := newFixture(t)
	i := w.authorise("notes")
	w.sealer.set(9, true)
	w.work()
	w.wantStatus(i, connector.Failing, unreadable)
	w.sealer.set(1, false)
	w.clock.Advance(time.Minute)
	w.work()
	w.wantStatus(i, connector.Connected, "")
}

func TestAConnectorIsConnectedAgainAfterItsKeyWasLost(t *testing.T) {
	w := newFixture(t)
	i, key := w.authorise("notes"), w.create("search").ID
	w.giveKey(key)
	w.sealer.set(9, true)
	w.work()
	w.wantStatus(key, connector.Failing, unreadable)
	w.giveKey(key)
	w.finish(w.confirm(i, "")) // the secret of the client is lost as well
	w.work()
	w.wantStatus(key, connector.Connected, "")
	w.wantStatus(i, connector.Connected, "")
	w.confirm(i, "")
	must.Is(t, 2, w.authorizer.count("register"))
}

func TestTokensOfAClosedOrganisationAreNotRenewed(t *testing.T) {
	w := newFixture(t)
	i, beside := w.authorise("notes"), w.create("weather").ID
	w.work()
	asked := w.toolServers.calls()
	w.Close(w.org.Org)
	for range 3 {
		w.clock.Advance(24 * time.Hour)
		w.work()
	}
	if n := w.authorizer.count("renew"); n != 0 || w.toolServers.calls() != asked {
		t.Errorf("%d renewals, and servers were asked %d times", n, w.toolServers.calls()-asked)
	}
	for _, i := range []id.Connector{i, beside} {
		w.wantStatus(i, connector.Connected, "")
		w.wantDue(i, -1)
	}
}

func TestATokenThatExpiresBeforeItsRenewalIsRenewedOnRead(t *testing.T) {
	w := newFixture(t)
	w.authorizer.lifetime = time.Second
	i := w.authorise("notes")
	w.work()
	w.clock.Advance(time.Second)
	w.work() // not due yet
	must.Is(t, 0, w.authorizer.count("renew"))
	c, err := w.connectors.Read(t.Context(), w.member, i)
	if now := w.get(i); err != nil || now.Version != 2 || now.Expired(w.clock.Now()) || !strings.Contains(c.Entries, "access-3") {
		t.Errorf("%+v, %v; the connector is %+v", c, err, now)
	}
}

func TestCredentialsOfAnEarlierVersionAreRefused(t *testing.T) {
	w := newFixture(t)
	i := w.create("search").ID
	w.giveKey(i)
	kept := w.store.Connections().Credentials()
	old := must.Do(kept.Get(t.Context(), w.org.Org, i)).Or(w)
	w.giveKey(i)
	w.Must(kept.Put(t.Context(), w.org.Org, old))
	must.Fail(w, must.ErrorOf(w.connectors.Read(t.Context(), w.member, i)), fault.Internal)
}

func TestAnUnknownClientIsRegisteredAgain(t *testing.T) {
	w, i := newFixtureWithExpiredToken(t)
	unknown := fault.Wrap(fault.Forbidden, &connector.UnknownClient{Issuer: issuer, Client: "client-1"}, "The authorization server does not know this client any more")
	w.authorizer.set(func() { w.authorizer.fail = unknown })
	w.work()
	w.wantStatus(i, connector.Failing, unknown.Message)
	w.wantDue(i, -1)
	w.authorizer.set(func() { w.authorizer.fail = nil })
	w.finish(w.confirm(i, ""))
	if w.authorizer.count("register") != 2 {
		t.Errorf("the calls were %v", w.authorizer.calls)
	}

	// The same at redemption.
	next, browser := w.confirm(i, "")
	w.authorizer.set(func() {
		w.authorizer.before = func(call string) {
			if id, ok := strings.CutPrefix(call, "redeem "); ok {
				w.authorizer.set(func() {
					w.authorizer.fail = fault.Wrap(fault.Forbidden, &connector.UnknownClient{Issuer: issuer, Client: id}, "The authorization server does not know this client any more")
				})
			}
		}
	})
	err := w.connectors.Finish(t.Context(), response(next), browser)
	if !errors.As(err, new(*connector.UnknownClient)) {
		t.Errorf("the error is %v", err)
	}
	w.authorizer.set(func() { w.authorizer.before, w.authorizer.fail = nil, nil })
	w.confirm(i, "")
	must.Is(t, 3, w.authorizer.count("register"))
}

func TestAClosedOrganisationCannotChangeConnectors(t *testing.T) {
	w := newFixture(t)
	i, notes := w.create("search").ID, w.create("notes").ID
	w.Close(w.org.Org)
	_, made := w.connectors.Create(t.Context(), w.org, connector.Draft{Provider: "search"})
	_, given := w.connectors.StoreCredentials(t.Context(), w.org, i, `{"apiKey":"k"}`, map[string]string{"apiKey": "k"})
	_, begun := w.connectors.Start(t.Context(), w.org, notes, "")
	for _, err := range []error{made, given, begun, w.connectors.Delete(t.Context(), w.org, i)} {
		must.Fail(w, err, fault.Forbidden)
	}
}
