package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/adapters/vault"
	"collab/app/access"
	"collab/app/idempotency"
	"collab/domain/chat"
	"collab/domain/fault"
	"collab/ports"
	"collab/test/must"
)

// newVault returns a vault with a key of its own.
func newVault(t testing.TB) *vault.Vault {
	t.Helper()
	text := must.Do(vault.Generate()).Or(t)
	return must.Do(vault.New(text)).Or(t)
}

// recordingVault keeps what it sealed, in plain, and fails where broken is set.
type recordingVault struct {
	*vault.Vault
	sealed [][]byte
	broken error
}

func (v *recordingVault) Seal(plain, context []byte) ([]byte, error) {
	v.sealed = append(v.sealed, plain)
	if v.broken != nil {
		return nil, v.broken
	}
	return v.Vault.Seal(plain, context)
}

// keyed returns an interface whose endpoint takes keys, and the vault that seals its answers.
func keyed(t *testing.T, g guard, handle handler) (*api, *recordingVault) {
	v := &recordingVault{Vault: newVault(t)}
	return serving(t, http.MethodPost, g, handle, everything, func(o *Options) {
		o.Idempotency = idempotency.New(memory.NewStore(), v, memory.NewClock(time.Unix(1_800_000_000, 0)), &memory.Secrets{})
	}), v
}

func withKey(key, body string) *http.Request {
	r := post("/test", body)
	r.Header.Set("Idempotency-Key", key)
	return r
}

func TestReplayHasThePresentPosition(t *testing.T) {
	a, _ := keyed(t, public, func(c *call) error { return c.succeed() })
	for _, at := range []string{"1", "2"} {
		a.Position = func(context.Context, string) (string, error) { return at, nil }
		if w := send(a, withKey("k", `{}`)); w.Code != 200 || w.Header().Get("Collab-Position") != at {
			t.Errorf("%d %s %v, want the position %s", w.Code, w.Body, w.Header(), at)
		}
	}
}

func TestAnswersStoredForAKey(t *testing.T) {
	for _, test := range []struct {
		guard  guard
		err    error
		status int
		calls  int // of two requests
	}{
		{byOperator, fault.New(fault.Conflict, "No"), 409, 1},
		{byOperator, fault.Field("title", "is required"), 400, 1},
		{byOperator, fault.New(fault.Unavailable, "Later"), 503, 2},
		{byOperator, errors.New("secret inside"), 500, 2},
		{byOperator, fault.New(fault.Unauthenticated, "Expired meanwhile"), 401, 2},
		// Without a caller only successes are stored.
		{public, nil, 200, 1},
		{public, fault.New(fault.Unauthenticated, "No"), 401, 2},
		{public, fault.Field("token", "is required"), 400, 2},
	} {
		t.Run(string(test.guard)+" "+http.StatusText(test.status), func(t *testing.T) {
			calls := 0
			a, _ := keyed(t, test.guard, func(c *call) error {
				calls++
				if test.err != nil {
					return test.err
				}
				return c.succeed()
			})
			for range 2 {
				r := withKey("k", "{}")
				r.Header.Set("X-Admin-Secret", a.AdminSecret)
				w := send(a, r)
				if w.Code != test.status {
					t.Errorf("%d %s, want %d", w.Code, w.Body, test.status)
				}
				if test.err != nil {
					refused(t, w, test.status)
				}
			}
			must.Is(t, test.calls, calls)
		})
	}
}

func TestPanicReleasesTheKey(t *testing.T) {
	calls := 0
	a, _ := keyed(t, public, func(c *call) error {
		if calls++; calls == 1 {
			panic("boom")
		}
		return c.succeed()
	})
	refused(t, send(a, withKey("k", "{}")), 500)
	if w := send(a, withKey("k", "{}")); w.Code != 200 || calls != 2 {
		t.Errorf("%d, %d calls", w.Code, calls)
	}
}

func TestAnswerIsSentWhereItCannotBeStored(t *testing.T) {
	a, v := keyed(t, public, (*call).succeed)
	v.broken = errors.New("disk full")
	if w := send(a, withKey("k", "{}")); w.Code != 200 || w.Body.String() != string(success) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLongAnswerIsNotStored(t *testing.T) {
	calls, broken := 0, errors.New("broken")
	var end error
	a, v := keyed(t, public, func(c *call) error {
		calls++
		for range 3 {
			if _, err := c.Write(make([]byte, maxStored/2)); err != nil {
				return err
			}
		}
		return end
	})
	for n, e := range []error{nil, broken} {
		key, body := fmt.Sprint("k", n), 3*(maxStored/2)
		end = e
		func() {
			defer func() { _ = recover() }() // an answer that broke off is aborted
			if w := send(a, withKey(key, "{}")); w.Code != 200 || w.Body.Len() != body {
				t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
			}
		}()
		refused(t, send(a, withKey(key, "{}")), 409)
		must.Is(t, n+1, calls)
	}
	for _, answer := range v.sealed {
		if len(answer) > 1000 {
			t.Errorf("%d bytes are kept", len(answer))
		}
	}
}

func TestCancelledRequestReleasesTheKey(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	a, _ := keyed(t, public, func(c *call) error {
		if c.r.Header.Get("Leaves") != "" {
			cancel()
			return c.r.Context().Err()
		}
		return c.succeed()
	})
	leaving := withKey("k", "{}").WithContext(ctx)
	leaving.Header.Set("Leaves", "1")
	send(a, leaving)
	if w := send(a, withKey("k", "{}")); w.Code != 200 || w.Header().Get("Idempotent-Replayed") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestConcurrentRequestsWithOneKeyRunOnce(t *testing.T) {
	const others = 8
	started, finish := make(chan bool), make(chan bool)
	a, _ := keyed(t, public, func(c *call) error {
		started <- true
		<-finish
		return c.succeed()
	})
	answers := make(chan *httptest.ResponseRecorder)
	go func() { answers <- send(a, withKey("k", "{}")) }()
	<-started
	var wg sync.WaitGroup
	for range others {
		wg.Go(func() {
			if w := send(a, withKey("k", "{}")); w.Code != http.StatusConflict {
				t.Errorf("another gets %d", w.Code)
			}
		})
	}
	wg.Wait()
	close(finish)
	if w := <-answers; w.Code != 200 {
		t.Errorf("the first gets %d", w.Code)
	}
	if w := send(a, withKey("k", "{}")); w.Code != 200 || w.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("afterwards it is %d %v", w.Code, w.Header())
	}
}

func TestIdempotencyKeyFormat(t *testing.T) {
	a, _ := keyed(t, public, (*call).succeed)
	for _, key := range []string{"", "a\tb", "é", "a\x7f", strings.Repeat("k", 256)} {
		refused(t, send(a, withKey(key, "{}")), 400)
	}
	if w := send(a, withKey(strings.Repeat("k", 255), "{}")); w.Code != 200 {
		t.Errorf("255 characters are %d", w.Code)
	}
	two := withKey("a", "{}")
	two.Header.Add("Idempotency-Key", "b")
	refused(t, send(a, two), 400)
	refused(t, send(a, withKey("big", strings.Repeat(" ", body.MaxJSON+1))), 413)
}

func TestIdempotencyKeyOwner(t *testing.T) {
	names := map[string]bool{}
	for _, c := range []*call{
		{caller: access.Caller{User: "u", Org: "o"}}, {caller: access.Caller{User: "u", Org: "p"}}, {caller: access.Caller{User: "v", Org: "o"}},
		{caller: access.Caller{User: "u"}}, {address: "u"}, {address: "192.0.2.1"},
	} {
		names[keyOwner(c)] = true
	}
	if len(names) != 6 {
		t.Errorf("callers share a name: %v", names)
	}
}

// key gives a request of a conversation a key.
func key(k string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", k) }
}

func TestChatStreamWithIdempotencyKey(t *testing.T) {
	within(t, "is sent as it comes, and again byte for byte", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 3 {
			time.Sleep(10 * time.Second)
			_ = say(to, "a")
		}
		time.Sleep(20 * time.Second)
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, key("k"))
		want := comment
		for range 3 {
			synctest.Wait()
			must.Is(w, want, l.text())
			time.Sleep(10 * time.Second)
			want += textEvent("a")
		}
		want += comment + doneEvent
		l.expect(w, want)
		again := w.ask(client, true, key("k"))
		again.expect(w, want)
		for name, values := range l.answer.Header {
			switch name {
			case "X-Request-Id", "X-Accel-Buffering", "Date":
			default:
				if !slices.Equal(again.answer.Header[name], values) {
					w.Errorf("%s is %q, want %q", name, again.answer.Header[name], values)
				}
			}
		}
		if again.answer.Header.Get("Idempotent-Replayed") != "true" || l.answer.Header.Get("Idempotent-Replayed") != "" {
			w.Errorf("the headers are %v, then %v", l.answer.Header, again.answer.Header)
		}
		must.Is(w, 1, len(w.entries()))
	})

	within(t, "holds the key for as long as it takes", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 25 {
			time.Sleep(time.Minute)
			to.Alive()
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, key("k"))
		for range 24 {
			time.Sleep(time.Minute)
			if other := w.ask(client, true, key("k")); other.answer.StatusCode != http.StatusConflict {
				w.Fatalf("another gets %d", other.answer.StatusCode)
			}
		}
		<-l.done
		w.ask(client, true, key("k")).expect(w, l.text())
		must.Is(w, 1, len(w.entries()))
	})

	calls := 0
	within(t, "is not kept when it ended in a panic", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		if calls++; calls%2 == 1 {
			panic("boom")
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, key("k"))
		if <-l.done; l.end == nil || l.text() != errorEvent {
			w.Errorf("heard %q, %v", l.text(), l.end)
		}
		synctest.Wait()
		w.ask(client, true, key("k")).expect(w, doneEvent)
	})

	long := strings.Repeat("x", 100_000)
	within(t, "is not kept when it is long, and sent to its end", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 12 {
			_ = to.Chunk(says(long))
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		for n := range 2 {
			w.ask(client, true, key("k")).expect(w, strings.Repeat(textEvent(long), 12)+doneEvent)
			must.Is(w, n+1, len(w.entries()))
		}
	})

}

func TestSettledKeyIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serving(t, http.MethodPost, public, func(c *call) error {
			time.Sleep(idempotency.RenewEvery) // to be renewed as it is settled
			return c.succeed()
		}, func(o *Options) {
			o.Idempotency = idempotency.New(memory.NewStore(), newVault(t), system.Clock{}, &memory.Secrets{})
		})
		const keys = 50
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { send(a, withKey(fmt.Sprint(i), "{}")) })
		}
		all.Wait()
		time.Sleep(time.Hour)
		for i := range keys {
			if w := send(a, withKey(fmt.Sprint(i), "{}")); w.Header().Get("Idempotent-Replayed") != "true" {
				t.Fatal("what was kept is gone")
			}
		}
	})
}
