package natsbus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/object"
	"collab/ports"
	"collab/test/contract"
	"collab/test/must"
	natsserver "collab/test/nats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout limits a test's wait.
const timeout = 30 * time.Second

// waitFor waits until the log contains the text the number of times.
func waitFor(t *testing.T, log *must.Log, text string, times int) {
	t.Helper()
	must.Wait(t, fmt.Sprintf("%q is %d times in the log", text, times), func() bool { return strings.Count(log.String(), text) >= times })
}

func open(t *testing.T, address string) (*Bus, *must.Log) {
	t.Helper()
	log := &must.Log{}
	b := must.Do(Open(address, slog.New(slog.NewTextHandler(log, nil)))).Or(t)
	t.Cleanup(func() {
		must.Succeed(t, b.Close())
	})
	return b, log
}

// subscribe returns the hints of a bus.
func subscribe(t *testing.T, b *Bus) <-chan object.Hint {
	t.Helper()
	hints := make(chan object.Hint, 100)
	cancel := must.Do(b.Subscribe(func(h object.Hint) { hints <- h })).Or(t)
	t.Cleanup(cancel)
	return hints
}

func next(t *testing.T, hints <-chan object.Hint) object.Hint {
	t.Helper()
	select {
	case h := <-hints:
		return h
	case <-time.After(timeout):
		t.Fatal("no hint comes")
		return object.Hint{}
	}
}

const someOrg id.Org = "0198c0de-0000-7000-8000-000000000001"

func TestBus(t *testing.T) {
	server := natsserver.Start(t)
	contract.Bus(t, func(t *testing.T) (a, b ports.Bus) {
		// Each sub-test has its own subject.
		address := server.URL + "?subject=test." + fmt.Sprint(time.Now().UnixNano())
		one, _ := open(t, address)
		other, _ := open(t, address)
		return one, other
	})
}

func TestTheBusReconnects(t *testing.T) {
	server := natsserver.Start(t)
	server.Stop()
	a, log := open(t, server.URL)
	b, other := open(t, server.URL)
	waitFor(t, log, "bus unreachable", 2)
	must.Fail(t, a.Ready(t.Context()), fault.Unavailable) // without a server
	hints := subscribe(t, b)
	for n := range int64(2) {
		server.Restart(t)
		for _, l := range []*must.Log{log, other} {
			waitFor(t, l, []string{"bus connected", "bus reconnected"}[n], 2)
		}
		for _, bus := range []*Bus{a, b} {
			must.NoError(t, bus.Ready(t.Context()))
		}
		// The server processes messages in order, so a response confirms earlier
		// subscriptions.
		must.NoError(t, b.in.FlushTimeout(timeout))
		want := object.Hint{Org: someOrg, N: n + 1}
		a.Publish(want)
		must.Is(t, want, next(t, hints))
		server.Stop()
		for _, l := range []*must.Log{log, other} {
			waitFor(t, l, "bus disconnected", 2*(int(n)+1))
		}
	}
	if stats := a.Stats(); stats.Published != 2 || stats.Dropped != 0 || stats.Disconnects != 4 {
		t.Errorf("the figures are %+v", stats)
	}
	if stats := b.Stats(); stats.Received != 2 {
		t.Errorf("the figures of the other are %+v", stats)
	}
}

func TestHintsWithoutAServerAreDropped(t *testing.T) {
	server := natsserver.Start(t)
	server.Stop()
	b, _ := open(t, server.URL)
	b.Publish(object.Hint{Org: someOrg, N: 1})
	must.NoError(t, b.Close())
	if stats := b.Stats(); stats.Published != 0 || stats.Dropped != 1 {
		t.Errorf("the figures are %+v", stats)
	}
}

func TestForeignMessagesAreIgnored(t *testing.T) {
	server := natsserver.Start(t)
	b, _ := open(t, server.URL)
	hints := subscribe(t, b)
	conn := must.Do(nats.Connect(server.URL)).Or(t)
	defer conn.Close()
	for _, message := range []string{"", "{}", strings.Repeat("\x01", 1<<20), "\x01" + strings.Repeat("\x00", 16)} {
		must.NoError(t, conn.Publish(defaultSubject, []byte(message)))
	}
	good, _ := encode(object.Hint{Org: someOrg, N: 7})
	must.NoError(t, conn.Publish(defaultSubject, good))
	if got := next(t, hints); got.N != 7 {
		t.Errorf("got %+v", got)
	}
	if stats := b.Stats(); stats.Malformed != 4 || stats.Received != 1 {
		t.Errorf("the figures are %+v", stats)
	}
}

func TestAnUnresponsiveServerDelaysNoPublisher(t *testing.T) {
	// The listener accepts no connections.
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(t)
	defer l.Close()
	b, log := open(t, "nats://"+l.Addr().String())
	for n := range int64(100_000) {
		b.Publish(object.Hint{Org: someOrg, N: n})
	}
	waitFor(t, log, "bus unreachable", 2)
}

func TestASlowSubscriberIsCounted(t *testing.T) {
	server := natsserver.Start(t)
	b, log := open(t, server.URL)
	release := make(chan struct{})
	cancel := must.Do(b.Subscribe(func(object.Hint) { <-release })).Or(t)
	conn := must.Do(nats.Connect(server.URL)).Or(t)
	defer conn.Close()
	message, _ := encode(object.Hint{Org: someOrg, N: 1})
	for range maxPending + 2 {
		must.NoError(t, conn.Publish(defaultSubject, message))
	}
	waitFor(t, log, "too slow", 1)
	close(release)
	cancel()
	if stats := b.Stats(); stats.Slow == 0 {
		t.Errorf("the figures are %+v", stats)
	}
}

func TestClosing(t *testing.T) {
	server := natsserver.Start(t)
	a, _ := open(t, server.URL)
	b, _ := open(t, server.URL)
	hints := subscribe(t, b)
	a.Publish(object.Hint{Org: someOrg, N: 1})
	must.NoError(t, a.Close())
	if got := next(t, hints); got.N != 1 {
		t.Errorf("what waited is %+v", got)
	}
	a.Publish(object.Hint{Org: someOrg, N: 2})
	must.Fail(t, must.ErrorOf(a.Subscribe(func(object.Hint) {})), fault.Unavailable)
	must.Fail(t, a.Ready(context.Background()), fault.Unavailable)
	if stats := a.Stats(); stats.Published != 1 || stats.Dropped != 1 {
		t.Errorf("the figures are %+v", stats)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	b := &Bus{queued: map[id.Org]int64{}, wake: make(chan struct{}, 1)}
	for n := range maxQueued + 10 {
		b.Publish(object.Hint{Org: id.Org(fmt.Sprint(n)), N: 1})
	}
	b.Publish(object.Hint{Org: "0", N: 5})
	if len(b.queued) != maxQueued || b.queued["0"] != 5 || b.Stats().Dropped != 10 {
		t.Errorf("%d wait, %+v", len(b.queued), b.Stats())
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"nats://host": "nats://host collab.hints", "nats://u:p@host:4222,tls://b?subject=a.b-c_9": "nats://u:p@host:4222,tls://b a.b-c_9",
		"nats://[::1]:4222/": "nats://[::1]:4222/ collab.hints",
	} {
		if servers, subject, err := parse(address); err != nil || servers+" "+subject != want {
			t.Errorf("%s is %s %s, %v", address, servers, subject, err)
		}
	}
	for _, address := range []string{
		"", "host", "http://hunter2", "nats://", "nats://a,", "nats://u:hunter2@a,b", "nats://u:hunter2@a/path", "nats://u:hunter2%zz@a",
		"nats://hunter2?subject=a.*", "nats://hunter2?subject=.a", "nats://hunter2?subject=a b", "nats://hunter2?subject=%3E", "nats://hunter2?x=1", "nats://hunter2?%zz",
		"nats://hunter2?subject=" + strings.Repeat("a", maxSubject+1),
	} {
		if _, err := Open(address, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s gives %v", address, err)
		}
	}
}

func TestHints(t *testing.T) {
	t.Run("a hint is read as it was written", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			digits := rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, "org")
			h := object.Hint{Org: id.Org(digits), N: rapid.Int64Min(0).Draw(t, "n")}
			b, ok := encode(h)
			if got, read := decode(b); !ok || !read || got != h {
				t.Fatalf("%+v is %x, which is %+v", h, b, got)
			}
		})
	})
	t.Run("invalid hints are not encoded", func(t *testing.T) {
		for _, h := range []object.Hint{{}, {Org: "o", N: 1}, {Org: someOrg, N: -1}, {Org: someOrg + "0"}, {Org: "0198C0DE-0000-7000-8000-000000000001"}} {
			if b, ok := encode(h); ok {
				t.Errorf("%+v is %x", h, b)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, n := range []int64{0, 1, 127, 128, 1<<63 - 1} {
		b, _ := encode(object.Hint{Org: someOrg, N: n})
		f.Add(b)
		f.Add(append(b, 0))
		f.Add(b[:len(b)-1])
	}
	f.Add(append(make([]byte, 17), 0x80, 0x00))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := decode(b)
		if !ok {
			return
		}
		if again, ok := encode(h); !ok || !bytes.Equal(again, b) {
			t.Errorf("%x is read as %+v, which is %x", b, h, again)
		}
	})
}
