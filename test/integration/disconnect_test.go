package integration

import (
	"bufio"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/chat"
	"collab/domain/plan"
	"collab/test/collabd"
	"collab/test/contract/provider"
	"collab/test/must"
	"collab/test/race"
	"collab/test/soak"
)

// The number of concurrent clients that leave, and a time.
const (
	leaversAtOnce = 50
	soon          = 20 * time.Second // until the provider's work ends, which is before its silence is long enough to end it
)

// leavers is how many clients leave before the end, on each database.
var leavers = soak.Count(1000)

// loud is how many of the streams of a stopping server never pause.
var loud = max(2, soak.Count(10))

// goneWithin is how long a server takes to go away.
var goneWithin = 2 * time.Second

func init() {
	if race.Enabled {
		goneWithin *= 5
	}
}

// stream is a stream on a connection of its own.
type stream struct {
	net.Conn
	*bufio.Reader               // of the connection
	events        *bufio.Reader // once the head has come
}

// open sends a request.
func (w *chatTest) open(s *collabd.Server, model string, who member, a *chatRequest) (*stream, error) {
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		return nil, err
	}
	r, err := who.client.At(s).Request(w.Context(), "POST", "/chat", json.RawMessage(a.body(model)))
	if err == nil {
		err = r.Write(conn)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &stream{Conn: conn, Reader: bufio.NewReader(conn)}, nil
}

// head reads the head, after which the request was admitted.
func (l *stream) head(t testing.TB) bool {
	res, err := http.ReadResponse(l.Reader, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("the head is %+v, %v", res, err)
		return false
	}
	l.events = bufio.NewReader(res.Body)
	return true
}

// disconnect closes the connection, in order or not.
func (l *stream) disconnect(abruptly bool) {
	if c, ok := l.Conn.(*net.TCPConn); ok && abruptly {
		_ = c.SetLinger(0)
	}
	_ = l.Close()
}

// disconnect is a moment at which a client leaves: what the provider does, which never
// comes to its end, and how far the client reads.
type disconnect struct {
	about string
	steps provider.Script
	until func(l *stream, random *rand.Rand) error
}

func chunks(n int) func(*stream, *rand.Rand) error {
	return func(l *stream, _ *rand.Rand) error {
		for range n {
			if f, err := next(l.events); err != nil || f.Type != "text" {
				return err
			}
		}
		return nil
	}
}

var several = provider.Script{
	provider.Text("one "), provider.Text("two "), provider.Text("three "), provider.Text("four "), provider.Text("five "), provider.Text("six "),
	provider.Silence(),
}

var departures = []disconnect{
	{"before the provider's head", provider.Script{provider.HoldBack(nil)}, chunks(0)},
	{"before the first chunk", provider.Script{provider.Silence()}, chunks(0)},
	{"between chunks", several, func(l *stream, random *rand.Rand) error { return chunks(1+random.IntN(5))(l, random) }},
	{"while chunks come", several, chunks(0)},
	{"during a burst", provider.Script{provider.Flood(20_000, "drop "), provider.Silence()}, func(l *stream, random *rand.Rand) error {
		_, err := io.CopyN(io.Discard, l.events, random.Int64N(64<<10))
		return err
	}},
	{"without having read any of a burst", provider.Script{provider.Flood(20_000, "drop "), provider.Silence()}, chunks(0)},
	{"after the last chunk", several, chunks(6)},
	{"during a call of a tool", provider.Script{provider.Text("Let me see"), provider.Call("c1", "look", `{"at":`, `"it"}`), provider.Silence()}, chunks(1)},
}

// eachLeaver calls leave with the number of each client that leaves, several at a time, and with its random
// numbers.
func eachLeaver(t *testing.T, seed uint64, leave func(i int, random *rand.Rand)) {
	for from := 0; from < leavers && !t.Failed(); from += leaversAtOnce {
		var batch sync.WaitGroup
		for i := from; i < min(from+leaversAtOnce, leavers); i++ {
			batch.Go(func() { leave(i, rand.New(rand.NewPCG(seed, uint64(i)))) })
		}
		batch.Wait()
	}
}

// TestADisconnectedClientIsMeteredOnceAndTheProviderStops has clients leave at every
// moment of a stream.
func TestADisconnectedClientIsMeteredOnceAndTheProviderStops(t *testing.T) {
	seed := seeded(t)
	withChats(t, func(t *testing.T, w *chatTest) {
		var all []member
		for i := range 5 {
			all = append(all, w.member("Leavers", i))
		}
		all[0].client.Grant(t, string(plan.Enterprise))
		eachLeaver(t, seed, func(i int, random *rand.Rand) {
			m := departures[i%len(departures)]
			a := w.request()
			ended := make(chan struct{}, 1)
			a.steps = append(provider.Script{provider.Ended(func() { ended <- struct{}{} })}, m.steps...)
			l, err := w.open(w.servers[random.IntN(len(w.servers))], chatModels[random.IntN(2)], all[random.IntN(len(all))], a)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			if !a.saw(t) || !l.head(t) {
				return
			}
			if err := m.until(l, random); err != nil {
				t.Errorf("%s: %v", m.about, err)
				return
			}
			select {
			case <-ended:
				t.Errorf("%s: the provider's work ended before the client left", m.about)
				return
			default:
			}
			l.disconnect(random.IntN(2) == 0)
			select {
			case <-ended:
			case <-time.After(soon):
				t.Errorf("%s: the provider's work does not end", m.about)
			}
		})
		if t.Failed() {
			return
		}
		if outcomes := w.settled(all...); len(outcomes) != 1 || outcomes[chat.ClientGone] != leavers {
			t.Errorf("of %d who left the ledger has %v", leavers, outcomes)
		}
	})
}

// TestADisconnectBeforeTheFirstByteLeavesNothing has clients disconnect about when they are admitted.
func TestADisconnectBeforeTheFirstByteLeavesNothing(t *testing.T) {
	seed := seeded(t)
	withChats(t, func(t *testing.T, w *chatTest) {
		all := []member{w.member("Hasty", 0), w.member("Hasty", 1)}
		all[0].client.Grant(t, string(plan.Enterprise))
		requests := make([]*chatRequest, leavers)
		eachLeaver(t, seed, func(i int, random *rand.Rand) {
			requests[i] = w.request()
			requests[i].steps = provider.Script{provider.Text("Hello"), provider.Silence()}
			l, err := w.open(w.servers[random.IntN(len(w.servers))], chatModels[random.IntN(2)], all[random.IntN(len(all))], requests[i])
			if err != nil {
				t.Error(err)
				return
			}
			// A response may come in that time.
			_ = l.SetReadDeadline(time.Now().Add(time.Duration(random.Int64N(int64(time.Millisecond << random.IntN(9))))))
			_, _ = l.ReadByte()
			l.disconnect(random.IntN(2) == 0)
		})
		// Calls of disconnected clients have ended when their server has stopped.
		for _, s := range w.servers {
			s.Stop(t)
			must.NoError(t, s.Restart())
		}
		outcomes := w.settled(all...)
		seen := 0
		for _, a := range requests {
			select {
			case <-a.seen:
				seen++
			default:
			}
		}
		gone, late := outcomes[chat.ClientGone], outcomes[chat.ShutDown]
		delete(outcomes, chat.ClientGone)
		delete(outcomes, chat.ShutDown)
		if len(outcomes) > 0 || gone+late < seen {
			t.Errorf("the provider saw %d; of the calls %d were ended by their clients, %d by a stop, and others %v", seen, gone, late, outcomes)
		}
		t.Logf("of %d that left early the provider saw %d; %d calls were ended by their clients, and %d by a stop", leavers, seen, gone, late)
	})
}

// TestShutdownEndsStreamsAndStoresTheirUsage stops a server in
// order while it streams.
func TestShutdownEndsStreamsAndStoresTheirUsage(t *testing.T) {
	withChats(t, func(t *testing.T, w *chatTest) {
		const streams = 50 // the loud ones come last, as they leave little time to others
		all := []member{w.member("Stopped", 0), w.member("Stopped", 1)}
		all[0].client.Grant(t, string(plan.Enterprise))
		s := w.servers[len(w.servers)-1]
		quiet := []provider.Script{{provider.HoldBack(nil)}, {provider.Silence()}, {provider.Text("Hello"), provider.Silence()}}
		var over sync.WaitGroup
		var stopped atomic.Int64 // of the provider's work
		ends := make([]frame, streams)
		for i := range ends {
			a := w.request()
			steps := quiet[i%len(quiet)]
			if i >= streams-loud {
				steps = provider.Script{provider.Flood(1<<30, "drop ")}
			}
			a.steps = append(provider.Script{provider.Ended(func() { stopped.Add(1) })}, steps...)
			l, err := w.open(s, chatModels[i%2], all[i%2], a)
			if err != nil || !a.saw(t) || !l.head(t) {
				t.Fatalf("no stream: %v", err)
			}
			over.Go(func() {
				defer l.Close()
				var err error
				if ends[i], err = last(l.events); err != nil {
					t.Errorf("stream %d is cut off: %v", i, err)
				}
			})
		}
		began := time.Now()
		s.Stop(t) // which finds an exit code that is not 0
		took := time.Since(began)
		if took > goneWithin {
			t.Errorf("the server took %s to go away", took)
		}
		within(t, "a stream", over.Wait)
		for i, f := range ends {
			if f.Type != "error" || f.Error != "An error occurred while processing your request." {
				t.Errorf("stream %d ends with %+v", i, f)
			}
		}
		if n := stopped.Load(); n != streams {
			t.Errorf("the provider's work of %d ended", n)
		}
		must.NoError(t, s.Restart())
		if outcomes := w.settled(all...); len(outcomes) != 1 || outcomes[chat.ShutDown] != streams {
			t.Errorf("the ledger has %v", outcomes)
		}
		t.Logf("the server went away in %s", took.Round(time.Millisecond))
	})
}
