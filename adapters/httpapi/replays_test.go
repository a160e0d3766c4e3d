package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/adapters/httpapi/stream"
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

// keyHeader is the header of an idempotency key.
const keyHeader = "Idempotency-Key: k"

// newVault returns a vault with a new key.
func newVault(t testing.TB) *vault.Vault {
	t.Helper()
	return must.Do(vault.New(must.Do(vault.Generate()).Or(t))).Or(t)
}

// recordingVault records the plaintexts that it seals.
type recordingVault struct {
	*vault.Vault
	sealed [][]byte
	err    error // of Seal
}

func (v *recordingVault) Seal(plain, context []byte) ([]byte, error) {
	v.sealed = append(v.sealed, plain)
	if v.err != nil {
		return nil, v.err
	}
	return v.Vault.Seal(plain, context)
}

// slowVault takes a second to seal.
type slowVault struct{ *vault.Vault }

func (v slowVault) Seal(plain, context []byte) ([]byte, error) {
	time.Sleep(time.Second)
	return v.Vault.Seal(plain, context)
}

// serveKeyed returns an interface whose endpoint takes idempotency keys, and the vault that seals its responses.
func serveKeyed(t *testing.T, g guard, handle handler) (*api, *recordingVault) {
	v := &recordingVault{Vault: newVault(t)}
	return serveEndpoint(t, http.MethodPost, g, handle, everything, func(o *Options) {
		o.Idempotency = idempotency.New(memory.NewStore(), v, memory.NewClock(time.Unix(1_800_000_000, 0)), &memory.Secrets{})
	}), v
}

// postWithKey returns a request with an idempotency key for /test.
func postWithKey(key string) *http.Request { return post("/test", "{}", "Idempotency-Key: "+key) }

func TestReplayHasTheCurrentPosition(t *testing.T) {
	a, _ := serveKeyed(t, public, (*call).succeed)
	for _, at := range []string{"1", "2"} {
		a.Position = func(context.Context, string) (string, error) { return at, nil }
		if w := send(a, postWithKey("k")); w.Code != 200 || w.Header().Get("Collab-Position") != at {
			t.Errorf("%d %s %v, want the position %s", w.Code, w.Body, w.Header(), at)
		}
	}
}

func TestResponsesStoredForTheKey(t *testing.T) {
	for _, test := range []struct {
		guard  guard
		err    error
		status int
		calls  int // of the handler, for two requests
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
			a, _ := serveKeyed(t, test.guard, func(c *call) error {
				calls++
				return c.succeedUnless(test.err)
			})
			for range 2 {
				w := send(a, post("/test", "{}", keyHeader, "X-Admin-Secret: "+a.AdminSecret))
				must.Is(t, test.status, w.Code)
				if test.err != nil {
					checkError(t, w, test.status)
				}
			}
			must.Is(t, test.calls, calls)
		})
	}
}

func TestPanicReleasesTheKey(t *testing.T) {
	calls := 0
	a, _ := serveKeyed(t, public, func(c *call) error {
		if calls++; calls == 1 {
			panic("boom")
		}
		return c.succeed()
	})
	checkError(t, send(a, postWithKey("k")), 500)
	if w := send(a, postWithKey("k")); w.Code != 200 || calls != 2 {
		t.Errorf("%d after %d calls", w.Code, calls)
	}
}

func TestResponseIsSentIfItCannotBeStored(t *testing.T) {
	a, v := serveKeyed(t, public, (*call).succeed)
	v.err = errors.New("disk full")
	if w := send(a, postWithKey("k")); w.Code != 200 || w.Body.String() != string(success) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLongResponseIsNotStored(t *testing.T) {
	calls := 0
	var failure error
	a, v := serveKeyed(t, public, func(c *call) error {
		calls++
		for range 3 {
			if _, err := c.Write(make([]byte, maxStored/2)); err != nil {
				return err
			}
		}
		return failure
	})
	for i, err := range []error{nil, errors.New("broken")} {
		key := fmt.Sprint("k", i)
		failure = err
		func() {
			defer func() { _ = recover() }() // the response is aborted if the handler fails
			if w := send(a, postWithKey(key)); w.Code != 200 || w.Body.Len() != 3*(maxStored/2) {
				t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
			}
		}()
		checkError(t, send(a, postWithKey(key)), 409)
		must.Is(t, i+1, calls)
	}
	for _, stored := range v.sealed {
		if len(stored) > 1000 {
			t.Errorf("%d bytes are stored", len(stored))
		}
	}
}

func TestStoredResponsesAreChargedToTheCaller(t *testing.T) {
	calls := 0
	a, _ := serveKeyed(t, public, func(c *call) error {
		calls++
		c.Set("Location", "/made")
		c.send(http.StatusCreated, make([]byte, maxStored/2))
		return nil
	})
	budget := a.budgets.anonymous
	for range 2 { // the first is the response of the handler
		a.budgets.anonymous = limit.NewBudget(maxStored / 2)
		w := send(a, postWithKey("k"))
		checkBusy(t, w)
		checkHeader(t, w.Header(), map[string]string{"Location": "", "Cache-Control": "private, no-cache"})
		must.Is(t, 0, a.budgets.anonymous.Used())
	}
	a.budgets.anonymous = budget
	w := send(a, postWithKey("k"))
	must.Is(t, http.StatusCreated, w.Code)
	must.Is(t, maxStored/2, w.Body.Len())
	checkHeader(t, w.Header(), map[string]string{"Location": "/made", "Idempotent-Replayed": "true"})
	must.Is(t, 1, calls)
	must.Is(t, 0, budget.Used())
}

func TestStreamsThatAreRecordedAreChargedToTheCaller(t *testing.T) {
	const size = 300 << 10
	var w *chatServer
	var used int64
	w = newChatServer(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		err := say(to, strings.Repeat("x", size))
		used = w.budgets.callers.Used()
		return whole, err
	})
	request := func(key string) *httptest.ResponseRecorder {
		got := send(w, post("/test", hello, "Idempotency-Key: "+key))
		if want := textEvent(strings.Repeat("x", size)) + doneEvent; got.Code != http.StatusOK || got.Body.String() != want {
			t.Errorf("%d with %d bytes", got.Code, got.Body.Len())
		}
		return got
	}
	request("a")
	if used < size {
		t.Errorf("a stream of which %d bytes are recorded is charged with %d bytes", size, used)
	}
	checkHeader(t, request("a").Header(), map[string]string{"Idempotent-Replayed": "true"})
	w.budgets.callers = limit.NewBudget(2 * size)
	for range 2 { // there is no memory to store the response
		checkHeader(t, request("b").Header(), map[string]string{"Idempotent-Replayed": ""})
	}
	must.Is(t, 3, len(w.entries()))
	must.Is(t, 0, w.budgets.callers.Used())
}

func TestExtendedDeadlinesOutlastTheRecording(t *testing.T) {
	a, _ := serveKeyed(t, public, func(c *call) error {
		c.deadlines.Extend(time.Hour)
		_ = http.NewResponseController(c).SetWriteDeadline(time.Unix(1, 0)) // by which a list ends its sender
		return c.succeed()
	})
	began := time.Now()
	deadlines := serveDeadlines(a, postWithKey("k")).writes
	if last := deadlines[len(deadlines)-1].Sub(began); last < stream.ResponseTimeout+time.Hour {
		t.Errorf("the last deadline is after %v", last)
	}
}

func TestCanceledRequestReleasesTheKey(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	a, _ := serveKeyed(t, public, func(c *call) error {
		if ctx.Err() == nil {
			cancel()
			return c.r.Context().Err()
		}
		return c.succeed()
	})
	send(a, postWithKey("k").WithContext(ctx))
	if w := send(a, postWithKey("k")); w.Code != 200 || w.Header().Get("Idempotent-Replayed") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestIdempotencyKeyFormat(t *testing.T) {
	a, _ := serveKeyed(t, public, (*call).succeed)
	for _, key := range []string{"", "a\tb", "é", "a\x7f", strings.Repeat("k", 256)} {
		checkError(t, send(a, postWithKey(key)), 400)
	}
	must.Is(t, 200, send(a, postWithKey(strings.Repeat("k", 255))).Code)
	two := postWithKey("a")
	two.Header.Add("Idempotency-Key", "b")
	checkError(t, send(a, two), 400)
	checkError(t, send(a, post("/test", strings.Repeat(" ", body.MaxJSON+1), keyHeader)), 413)
}

func TestIdempotencyKeyOwner(t *testing.T) {
	owners := map[string]bool{}
	for _, c := range []*call{
		{caller: access.Caller{User: "u", Org: "o"}}, {caller: access.Caller{User: "u", Org: "p"}}, {caller: access.Caller{User: "v", Org: "o"}},
		{caller: access.Caller{User: "u"}}, {address: "u"}, {address: "192.0.2.1"},
	} {
		owners[keyOwner(c)] = true
	}
	must.Is(t, 6, len(owners))
}

func TestChatStreamWithIdempotencyKey(t *testing.T) {
	runChat(t, "is sent live and replayed unchanged", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 3 {
			time.Sleep(10 * time.Second)
			_ = say(to, "a")
		}
		time.Sleep(20 * time.Second)
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, keyHeader)
		want := comment
		for range 3 {
			synctest.Wait()
			must.Is(w, want, l.text())
			time.Sleep(10 * time.Second)
			want += textEvent("a")
		}
		want += comment + doneEvent
		time.Sleep(20 * time.Second)
		synctest.Wait()
		must.Is(w, want, l.text()) // before the response is stored
		l.expect(w, want)
		replay := w.ask(client, true, keyHeader)
		replay.expect(w, want)
		for name, values := range l.response.Header {
			switch name {
			case "X-Request-Id", "X-Accel-Buffering", "Date":
			default:
				must.Equal(w, values, replay.response.Header[name])
			}
		}
		if replay.response.Header.Get("Idempotent-Replayed") != "true" || l.response.Header.Get("Idempotent-Replayed") != "" {
			w.Errorf("the headers are %v, then %v", l.response.Header, replay.response.Header)
		}
		must.Is(w, 1, len(w.entries()))
	}, func(o *Options) {
		o.Idempotency = idempotency.New(memory.NewStore(), slowVault{newVault(t)}, system.Clock{}, &memory.Secrets{})
	})

	runChat(t, "holds the key until its end", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 25 {
			time.Sleep(time.Minute)
			to.Alive()
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, keyHeader)
		for range 24 {
			time.Sleep(time.Minute)
			busy := w.ask(client, true, keyHeader).response
			must.Is(w, http.StatusConflict, busy.StatusCode)
			must.Is(w, "1", busy.Header.Get("Retry-After"))
		}
		<-l.done
		w.ask(client, true, keyHeader).expect(w, l.text())
		must.Is(w, 1, len(w.entries()))
	})

	calls := 0
	runChat(t, "is not stored after a panic or a failure", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		switch calls++; calls % 3 {
		case 1:
			panic("boom")
		case 2:
			return chat.Reply{}, &chat.Failure{Kind: chat.OtherFailure}
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true, keyHeader)
		if <-l.done; l.end == nil || l.text() != errorEvent {
			w.Errorf("read %q, %v", l.text(), l.end)
		}
		synctest.Wait()
		w.ask(client, true, keyHeader).expect(w, errorEvent)
		w.ask(client, true, keyHeader).expect(w, doneEvent)
	})

	long := strings.Repeat("x", 100_000)
	runChat(t, "is not stored if it is long", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 12 {
			_ = to.Chunk(says(long))
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		for n := range 2 {
			w.ask(client, true, keyHeader).expect(w, strings.Repeat(textEvent(long), 12)+doneEvent)
			must.Is(w, n+1, len(w.entries()))
		}
	})
}

func TestSettledKeyIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveEndpoint(t, http.MethodPost, public, func(c *call) error {
			time.Sleep(idempotency.RenewEvery) // the key is settled when it is due for renewal
			return c.succeed()
		}, func(o *Options) {
			o.Idempotency = idempotency.New(memory.NewStore(), newVault(t), system.Clock{}, &memory.Secrets{})
		})
		const keys = 50
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { send(a, postWithKey(fmt.Sprint(i))) })
		}
		all.Wait()
		time.Sleep(time.Hour)
		for i := range keys {
			must.Is(t, "true", send(a, postWithKey(fmt.Sprint(i))).Header().Get("Idempotent-Replayed"))
		}
	})
}
