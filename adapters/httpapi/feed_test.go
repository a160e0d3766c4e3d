package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"collab/adapters/httpapi/stream"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/access"
	"collab/app/changes"
	"collab/domain/id"
	"collab/domain/object"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

// feedServer is an interface with a feed of one organisation at /test, for a
// member of it.
type feedServer struct {
	testing.TB
	*api
	store *memory.Store
	feed  *changes.Feed
	actor org.Actor
	ended chan map[string]any // the log lines of streams

	following handler // followChanges, for the actor
}

func newFeedServer(t testing.TB, change ...func(*Options)) *feedServer {
	t.Helper()
	s := &feedServer{TB: t, store: memory.NewStore(), ended: make(chan map[string]any, 10_000)}
	bus := &memory.Bus{}
	s.store.OnChange(bus.Publish)
	people := access.New(access.Options{Store: s.store, Epochs: s.store, Clock: system.Clock{}})
	s.feed = changes.New(changes.Options{
		Store: s.store, Epochs: s.store, Bus: bus, Clock: system.Clock{}, Log: slog.New(slog.DiscardHandler),
		Alarms: system.Alarms{}, Reauthorizer: people.Reauthorizer, Encode: EncodeChange,
	})
	tick := time.NewTicker(changes.PollEvery)
	must.NoError(t, s.feed.Start(tick.C))
	t.Cleanup(func() {
		tick.Stop()
		must.Succeed(t, s.feed.Close(context.Background()))
	})
	s.actor.Org, s.actor.User = someID, someID
	s.regroup(func(r ports.Records) error {
		_, err := r.Directory().Users().Upsert(t.Context(), org.User{ID: someID, ProviderID: "u"}, func(u org.User) (org.User, error) { return u, nil })
		return errors.Join(err, r.Directory().Members().Put(t.Context(), someID, org.Membership{Org: someID, User: someID, Role: org.Member}))
	})
	s.actor = must.Do(people.Reauthorize(t.Context(), s.actor)).Or(t)
	log := func(o *Options) { o.Feed, o.Log = s.feed, slog.New(slog.NewJSONHandler(s, nil)) }
	s.api = serving(t, http.MethodGet, unlimited, func(c *call) error {
		return s.following(c)
	}, append([]func(*Options){log}, change...)...)
	s.following = s.as(&s.actor, s.authorized(s.followChanges))
	return s
}

// Write takes a line of the log.
func (s *feedServer) Write(line []byte) (int, error) {
	var entry map[string]any
	if err := json.Unmarshal(line, &entry); err != nil {
		return 0, err
	}
	if entry["msg"] != "request" {
		s.ended <- entry
	}
	return len(line), nil
}

// regroup changes who is in the organisation.
func (s *feedServer) regroup(fn func(ports.Records) error) {
	s.Helper()
	inOrganisation(s, s.store, fn)
}

// write appends changes of files of the organisation; one that begins with a
// slash is another user's alone.
func (s *feedServer) write(paths ...string) {
	s.Helper()
	must.NoError(s, s.store.Atomic(s.Context(), func(r ports.Records) error {
		for _, path := range paths {
			o := object.Object{Org: someID, ID: someID, Path: path, Version: 1, Place: object.Place{Kind: object.HubMemory, Scope: object.Shared}}
			if path[0] == '/' {
				o.Place = object.Place{Kind: object.HubMemory, Scope: object.Personal, Owner: new(id.User)}
			}
			if _, err := r.Storage().Changes().Append(s.Context(), someID, object.Change{Type: object.Changed, Object: o}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// hijackable is a writer whose connection can be taken over: the server's end of a
// pipe.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (t hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return t.conn, bufio.NewReadWriter(bufio.NewReader(t.conn), bufio.NewWriter(t.conn)), nil
}

// client is one that follows the feed.
type client struct {
	answerText
	header    http.Header
	leave     context.CancelFunc
	deadlines []time.Time // that were set, without a connection
}

// events are the frames that came, without their data's details.
func (c *client) events() []string {
	var all []string
	for _, block := range strings.Split(strings.TrimSuffix(c.text(), "\n\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		for i, line := range lines {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var event struct{ Path, ID string }
				if json.Unmarshal([]byte(data), &event) == nil {
					lines[i] = event.Path + event.ID
				}
			}
		}
		all = append(all, strings.Join(lines, "|"))
	}
	return all
}

// connect begins a stream over a connection that is taken over. A client that
// does not read gets the head of the answer and no more.
func (s *feedServer) connect(reads bool, change ...func(*http.Request)) *client {
	s.Helper()
	r := get("/test")
	for _, fn := range change {
		fn(r)
	}
	near, far := net.Pipe()
	s.ServeHTTP(hijackable{httptest.NewRecorder(), far}, r)
	answer := must.Do(http.ReadResponse(bufio.NewReaderSize(near, 16), r)).Or(s)
	c := &client{answerText: answerText{done: make(chan struct{})}, header: answer.Header}
	c.readFrom(answer.Body, reads)
	return c
}

// attend begins a stream through a writer that cannot be taken over.
func (s *feedServer) attend(change ...func(*http.Request)) *client {
	r := get("/test")
	for _, fn := range change {
		fn(r)
	}
	c := &client{answerText: answerText{done: make(chan struct{})}}
	var ctx context.Context
	ctx, c.leave = context.WithCancel(r.Context())
	w := &flushWriter{client: c, header: http.Header{}}
	go func() {
		defer close(c.done)
		s.ServeHTTP(w, r.WithContext(ctx))
		c.header = w.header
	}()
	return c
}

// flushWriter is a writer without a connection; what is not flushed is not there.
type flushWriter struct {
	*client
	header  http.Header
	waiting bytes.Buffer
}

func (p *flushWriter) Header() http.Header         { return p.header }
func (p *flushWriter) WriteHeader(int)             {}
func (p *flushWriter) Write(b []byte) (int, error) { return p.waiting.Write(b) }
func (p *flushWriter) Flush()                      { _, _ = p.waiting.WriteTo(p.client) }
func (p *flushWriter) SetWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadlines = append(p.deadlines, t)
	return nil
}

func resuming(id string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Last-Event-ID", id) }
}

func (s *feedServer) same(got []string, want ...string) {
	s.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		s.Errorf("got  %q\nwant %q", got, want)
	}
}

// finished waits for the line that says how a stream ended.
func (s *feedServer) finished(reason string) map[string]any {
	s.Helper()
	line := <-s.ended
	if line["reason"] != reason {
		s.Errorf("it ended as %v, want %s", line, reason)
	}
	return line
}

const greeting = "retry: 3000|: the changes of the organisation"

// feedStreams begin a stream in the ways that the server has.
var feedStreams = map[string]func(*feedServer, ...func(*http.Request)) *client{
	"over a hijacked connection": func(s *feedServer, change ...func(*http.Request)) *client { return s.connect(true, change...) },
	"through net/http":           (*feedServer).attend,
}

func TestFeed(t *testing.T) {
	for way, begin := range feedStreams {
		in := func(name string, fn func(*feedServer), change ...func(*Options)) {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fn(newFeedServer(t, change...)) })
			})
		}
		in("begins with an id to go on from, and brings what happens", func(s *feedServer) {
			s.write("before")
			c := begin(s)
			synctest.Wait()
			s.write("a", "/hidden", "b")
			synctest.Wait()
			s.same(c.events(), greeting+"|id: 1-1", "id: 1-2|a", "id: 1-4|b")
			s.feed.Drain()
			<-c.done
			if c.end != nil {
				s.Errorf("it ended in %v", c.end)
			}
			for name, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Sync-Cursor": "1-1", "X-Request-Id": "made-1",
			} {
				if got := c.header.Get(name); got != want {
					s.Errorf("%s is %q", name, got)
				}
			}
			line := s.finished("drained")
			if line["events"] != 2.0 || line["user"] != someID || line["org"] != someID || line["request"] != "made-1" {
				s.Errorf("the line is %v", line)
			}
		})
		in("is kept open on a beat of its own, with the id that moved unseen", func(s *feedServer) {
			c := begin(s)
			time.Sleep(20 * time.Second)
			s.write("a")
			time.Sleep(10 * time.Second)
			synctest.Wait()
			s.same(c.events(), greeting+"|id: 1-0", "id: 1-1|a", ":")
			s.write("/hidden")
			time.Sleep(30 * time.Second)
			synctest.Wait()
			s.same(c.events()[3:], ":|id: 1-2")
			time.Sleep(30 * time.Second)
			synctest.Wait()
			s.same(c.events()[4:], ":")
		})
		in("beats as it is configured to", func(s *feedServer) {
			c := begin(s)
			time.Sleep(3500 * time.Millisecond)
			s.same(c.events(), greeting+"|id: 1-0", ":", ":", ":")
		}, func(o *Options) { o.Heartbeat = time.Second })
		in("outlives the time that work has", func(s *feedServer) {
			c := begin(s)
			time.Sleep(10 * stream.WorkTimeout)
			s.write("a")
			synctest.Wait()
			if all := c.events(); all[len(all)-1] != "id: 1-1|a" {
				s.Errorf("it got %q", all)
			}
		})
		in("ends when the token expires", func(s *feedServer) {
			follow, expires := s.following, time.Now().Add(45*time.Second)
			s.following = func(c *call) error {
				c.setRequest(access.Request{Expires: expires})
				return follow(c)
			}
			began := time.Now()
			c := begin(s)
			<-c.done
			if took := time.Since(began); took != 45*time.Second || c.end != nil {
				s.Errorf("it ended after %v with %v", took, c.end)
			}
			s.finished("expired")
			s.same(c.events(), greeting+"|id: 1-0", ":")
		})
		in("is refused when the server goes away", func(s *feedServer) {
			s.feed.Drain()
			r := get("/test")
			r.ProtoMajor = 2
			refused(s.TB, send(s, r), http.StatusServiceUnavailable)
		})
	}
}

func TestFeedClientThatDoesNotRead(t *testing.T) {
	timed(t, "is disconnected, and misses nothing", func(t *testing.T) {
		s := newFeedServer(t)
		began := time.Now()
		s.connect(false)
		s.write("a", "b")
		s.finished("slow")
		if took := time.Since(began); took < stream.WriteTimeout || took > stream.WriteTimeout+stream.WriteSlack {
			t.Errorf("it had %v", took)
		}
		synctest.Wait()
		must.Is(t, 0, s.feed.Figures().Subscribers)
		c := s.connect(true, resuming("1-0"))
		synctest.Wait()
		s.same(c.events(), greeting+"|id: 1-0", "id: 1-1|a", "id: 1-2|b")
	})
	timed(t, "holds up nobody", func(t *testing.T) {
		s := newFeedServer(t)
		for range 20 {
			s.connect(false)
		}
		c := s.connect(true)
		synctest.Wait()
		s.write("a")
		synctest.Wait()
		s.same(c.events(), greeting+"|id: 1-0", "id: 1-1|a")
	})
	timed(t, "has little time when the server goes away", func(t *testing.T) {
		s := newFeedServer(t)
		for range 50 {
			s.connect(false)
		}
		reads := s.connect(true)
		synctest.Wait()
		s.write("a")
		synctest.Wait()
		began := time.Now()
		must.NoError(t, s.feed.Close(t.Context()))
		if took := time.Since(began); took > 2*stream.EndTimeout {
			t.Errorf("it took %v", took)
		}
		<-reads.done
		if reads.end != nil {
			t.Errorf("who reads got %v for an end", reads.end)
		}
	})
}

func TestFeedHoldsAPlaceUntilItsEnd(t *testing.T) {
	for name, connect := range feedStreams {
		timed(t, name, func(t *testing.T) {
			s := newFeedServer(t, withShares)
			follow := s.following
			s.following = func(c *call) (err error) {
				if c.requestPlace, err = s.shares.streams.Enter(c.r.Context(), string(someID)); err != nil {
					return err
				}
				return follow(c)
			}
			c := connect(s)
			synctest.Wait()
			if f := s.shares.streams.Figures(); f.Used != 1 {
				t.Errorf("%+v", f)
			}
			s.feed.Drain()
			<-c.done
			s.finished("drained")
			synctest.Wait()
			if f := s.shares.streams.Figures(); f.Used != 0 {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestFeedOverHTTP2SetsADeadlineForEachWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFeedServer(t)
		c := s.attend(func(r *http.Request) { r.ProtoMajor, r.ProtoMinor = 2, 0 })
		time.Sleep(time.Second)
		s.write("a")
		synctest.Wait()
		c.leave()
		<-c.done
		s.finished("gone")
		// The request's own comes first; then those of the greeting and the event.
		for i, set := range c.deadlines[1:] {
			if i%2 == 0 && set.Before(time.Now().Add(stream.WriteTimeout-time.Second)) || i%2 == 1 && !set.IsZero() {
				t.Errorf("deadline %d is %v", i, set)
			}
		}
		must.Is(t, 5, len(c.deadlines))
	})
}

func TestFeedPanicEndsOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFeedServer(t)
		well := s.connect(true)
		near, far := net.Pipe()
		defer near.Close()
		s.ServeHTTP(hijackable{httptest.NewRecorder(), panicConn{far}}, get("/test"))
		if line := <-s.ended; line["msg"] != "panic" || line["error"] != "boom" {
			t.Errorf("the log says %v", line)
		}
		s.finished("crashed")
		s.write("a")
		synctest.Wait()
		s.same(well.events(), greeting+"|id: 1-0", "id: 1-1|a")
	})
}

type panicConn struct{ net.Conn }

func (panicConn) Write([]byte) (int, error) { panic("boom") }

func TestFeedFailsWhereHijackFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFeedServer(t)
		w := blockedRecorder{httptest.NewRecorder()}
		s.ServeHTTP(w, get("/test"))
		refused(t, w.ResponseRecorder, http.StatusInternalServerError)
		must.Is(t, 0, s.feed.Figures().Subscribers)
	})
}

type blockedRecorder struct{ *httptest.ResponseRecorder }

func (blockedRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, os.ErrClosed }

func TestFeedMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		s := newFeedServer(t, func(o *Options) { o.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test") })
		a, b := s.connect(true), s.attend(resuming("elsewhere"))
		synctest.Wait()
		s.write("a", "b")
		synctest.Wait()
		b.leave()
		<-b.done
		var all metricdata.ResourceMetrics
		must.NoError(t, reader.Collect(t.Context(), &all))
		got := map[string]int64{}
		for _, m := range all.ScopeMetrics[0].Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					reason, _ := p.Attributes.Value(attribute.Key("reason"))
					got[m.Name+reason.AsString()] = p.Value
				}
			}
		}
		for name, want := range map[string]int64{
			"collab.feed.subscribers": 1, "collab.feed.events": 5, "collab.feed.resyncs": 1, "collab.feed.backlog_reads": 0, "collab.feed.disconnectsgone": 1,
		} {
			if got[name] != want {
				t.Errorf("%s is %d, want %d", name, got[name], want)
			}
		}
		s.feed.Drain()
		<-a.done
	})
}

// TestFeedOverTheNetwork reads the feed over sockets, with HTTP/1.1 and HTTP/2 of net/http.
func TestFeedOverTheNetwork(t *testing.T) {
	// event reads on to the first event and returns its id.
	event := func(t *testing.T, r *bufio.Reader) string {
		t.Helper()
		id := ""
		for {
			line := must.Do(r.ReadString('\n')).Or(t)
			if v, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(v)
			}
			if strings.HasPrefix(line, "data: ") {
				return id
			}
		}
	}
	begin := func(t *testing.T, s *feedServer, server *httptest.Server) *http.Response {
		t.Helper()
		s.write("a")
		r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/test?lastEventId=1-0", nil)).Or(t)
		answer := must.Do(server.Client().Do(r)).Or(t)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2.0": func(server *httptest.Server) {
			server.EnableHTTP2 = true
			server.StartTLS()
		},
		"HTTP/1.1 over TLS": func(server *httptest.Server) {
			server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
			server.StartTLS()
		},
	} {
		begun := func(t *testing.T, change ...func(*Options)) (*feedServer, *http.Response) {
			t.Helper()
			s := newFeedServer(t, change...)
			server := httptest.NewUnstartedServer(s)
			start(server)
			t.Cleanup(server.Close)
			answer := begin(t, s, server)
			if !strings.HasPrefix(name, answer.Proto) {
				t.Fatalf("it is %s", answer.Proto)
			}
			return s, answer
		}
		t.Run(name+" brings events and a clean end", func(t *testing.T) {
			s, answer := begun(t)
			body := bufio.NewReader(answer.Body)
			must.Is(t, "1-1", event(t, body))
			s.write("b")
			must.Is(t, "1-2", event(t, body))
			s.feed.Drain()
			if rest, err := io.ReadAll(body); err != nil {
				t.Errorf("it ended in %v after %q", err, rest)
			}
			s.finished("drained")
		})
		t.Run(name+" notices that the client has gone", func(t *testing.T) {
			s, answer := begun(t, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
			event(t, bufio.NewReader(answer.Body))
			_ = answer.Body.Close()
			s.finished("gone")
		})
	}
	t.Run("HTTP/1.0 is not chunked", func(t *testing.T) {
		s := newFeedServer(t)
		server := httptest.NewServer(s)
		defer server.Close()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must.NoError(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /test HTTP/1.0\r\n\r\n")
		r := bufio.NewReader(conn)
		for line := ""; line != "id: 1-0\n"; {
			line = must.Do(r.ReadString('\n')).Or(t)
		}
		s.feed.Drain()
		must.Is(t, "\n", string(must.Do(io.ReadAll(r)).Or(t)))
	})
	t.Run("what the client sends meanwhile is dropped", func(t *testing.T) {
		s := newFeedServer(t, func(o *Options) { o.Heartbeat = 5 * time.Millisecond })
		server := httptest.NewServer(s)
		defer server.Close()
		conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
		fmt.Fprint(conn, "GET /test HTTP/1.1\r\nHost: x\r\n\r\n"+strings.Repeat("GET /test HTTP/1.1\r\nHost: x\r\n\r\n", 10))
		r := bufio.NewReader(conn)
		for beats := 0; beats < 3; {
			line := must.Do(r.ReadString('\n')).Or(t)
			if line == ":\n" {
				beats++
			}
		}
		must.Is(t, 1, s.feed.Figures().Subscribers)
		_ = conn.Close()
		s.finished("gone")
	})
}
