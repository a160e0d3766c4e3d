package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// feedServer is an interface with the feed of an organisation for a member, at /test. It implements io.Writer for
// its log.
type feedServer struct {
	testing.TB
	*api
	store  *memory.Store
	feed   *changes.Feed
	actor  org.Actor
	ended  chan map[string]any // the log lines of streams
	handle handler             // of /test: followChanges for the actor
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
	addUser(t, s.store)
	inOrganisation(t, s.store, func(r ports.Records) error {
		return r.Directory().Members().Put(t.Context(), someID, org.Membership{Org: someID, User: someID, Role: org.Member})
	})
	s.actor = must.Do(people.Reauthorize(t.Context(), org.Actor{Org: someID, User: someID})).Or(t)
	log := func(o *Options) { o.Access, o.Feed, o.Log = people, s.feed, slog.New(slog.NewJSONHandler(s, nil)) }
	s.api = serveEndpoint(t, http.MethodGet, unlimited, func(c *call) error { return s.handle(c) }, append([]func(*Options){log}, change...)...)
	s.handle = s.as(&s.actor, s.authorized(s.followChanges))
	return s
}

// Write implements io.Writer. Each call has a line of the log.
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

// write appends changes of files to the log. The member cannot see files whose path begins with a slash.
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

// hijackable is a response whose connection can be hijacked. Hijack fails if conn is nil.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (w hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.conn == nil {
		return nil, nil, os.ErrClosed
	}
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// feedClient is a client that reads the feed.
type feedClient struct {
	streamReader
	header     http.Header
	disconnect context.CancelFunc // without a connection
	deadlines  []time.Time        // that were set, without a connection
}

// events returns the events that were read. Their lines are joined by |, and data is replaced by its path or id.
func (c *feedClient) events() []string {
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

// connect begins a stream over a hijacked connection. The client reads the body if reads is set.
func (s *feedServer) connect(reads bool, headers ...string) *feedClient {
	s.Helper()
	r := get("/test", headers...)
	client, server := net.Pipe()
	s.ServeHTTP(hijackable{httptest.NewRecorder(), server}, r)
	response := must.Do(http.ReadResponse(bufio.NewReaderSize(client, 16), r)).Or(s)
	c := &feedClient{header: response.Header}
	c.start(response.Body, reads)
	return c
}

// attend begins a stream of HTTP/1.0 or HTTP/2, without a connection that can be hijacked.
func (s *feedServer) attend(version int, headers ...string) *feedClient {
	r := get("/test", headers...)
	r.ProtoMajor, r.ProtoMinor = version, 0
	c := &feedClient{streamReader: streamReader{done: make(chan struct{})}, header: http.Header{}}
	var ctx context.Context
	ctx, c.disconnect = context.WithCancel(r.Context())
	go func() {
		defer close(c.done)
		s.ServeHTTP(&flushWriter{feedClient: c}, r.WithContext(ctx))
	}()
	return c
}

// flushWriter is a response of which the client reads flushed bytes.
type flushWriter struct {
	*feedClient
	buffered bytes.Buffer
}

func (w *flushWriter) Header() http.Header         { return w.header }
func (w *flushWriter) WriteHeader(int)             {}
func (w *flushWriter) Write(b []byte) (int, error) { return w.buffered.Write(b) }
func (w *flushWriter) Flush()                      { _, _ = w.buffered.WriteTo(w.feedClient) }
func (w *flushWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadlines = append(w.deadlines, t)
	return nil
}

// checkEvents checks the events that the client has read when the server is idle, from the index on.
func (s *feedServer) checkEvents(c *feedClient, from int, want ...string) {
	s.Helper()
	synctest.Wait()
	got := c.events()
	must.Equal(s, want, got[min(from, len(got)):])
}

// checkEnd waits for the log line of the end of a stream, checks its reason and returns it.
func (s *feedServer) checkEnd(reason string) map[string]any {
	s.Helper()
	line := <-s.ended
	if line["reason"] != reason {
		s.Errorf("the log line is %v, want the reason %s", line, reason)
	}
	return line
}

const greeting = "retry: 3000|: the changes of the organisation"

// feedStreams has a function for each kind of stream, which begins one.
var feedStreams = map[string]func(*feedServer) *feedClient{
	"over HTTP/1.0": func(s *feedServer) *feedClient { return s.attend(1) },
	"over HTTP/1.1": func(s *feedServer) *feedClient { return s.connect(true) },
	"over HTTP/2":   func(s *feedServer) *feedClient { return s.attend(2) },
}

func TestFeed(t *testing.T) {
	for kind, begin := range feedStreams {
		run := func(name string, fn func(*feedServer), change ...func(*Options)) {
			runSynctest(t, name+" "+kind, func(t *testing.T) { fn(newFeedServer(t, change...)) })
		}
		run("begins with the current id and sends changes", func(s *feedServer) {
			s.write("before")
			c := begin(s)
			synctest.Wait()
			s.write("a", "/hidden", "b")
			s.checkEvents(c, 0, greeting+"|id: 1-1", "id: 1-2|a", "id: 1-4|b")
			s.feed.Drain()
			<-c.done
			must.Succeed(s, c.end)
			checkHeader(s, c.header, map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Sync-Cursor": "1-1", "X-Request-Id": "id-1",
			})
			line := s.checkEnd("drained")
			if line["events"] != 2.0 || line["user"] != someID || line["org"] != someID || line["request"] != "id-1" {
				s.Errorf("the log line is %v", line)
			}
		})
		run("sends heartbeats, with the id if it has changed", func(s *feedServer) {
			c := begin(s)
			time.Sleep(20 * time.Second)
			s.write("a")
			time.Sleep(10 * time.Second)
			s.checkEvents(c, 0, greeting+"|id: 1-0", "id: 1-1|a", ":")
			s.write("/hidden")
			time.Sleep(30 * time.Second)
			s.checkEvents(c, 3, ":|id: 1-2")
			time.Sleep(30 * time.Second)
			s.checkEvents(c, 4, ":")
		})
		run("sends heartbeats at the configured interval", func(s *feedServer) {
			c := begin(s)
			time.Sleep(3500 * time.Millisecond)
			s.checkEvents(c, 0, greeting+"|id: 1-0", ":", ":", ":")
		}, func(o *Options) { o.Heartbeat = time.Second })
		var behind atomic.Int64 // how far the clock was set back
		run("sends heartbeats after the clock was set back", func(s *feedServer) {
			c := begin(s)
			time.Sleep(20 * time.Second)
			behind.Store(int64(5 * time.Second))
			time.Sleep(50 * time.Second)
			s.checkEvents(c, 0, greeting+"|id: 1-0", ":", ":")
		}, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) } })
		run("has no deadline", func(s *feedServer) {
			c := begin(s)
			time.Sleep(10 * stream.WorkTimeout)
			synctest.Wait()
			before := len(c.events())
			s.write("a")
			s.checkEvents(c, before, "id: 1-1|a")
		})
		endsWithToken := func(s *feedServer) {
			follow, expires := s.handle, time.Now().Add(45*time.Second)
			s.handle = func(c *call) error {
				c.setRequest(access.Request{Expires: expires})
				return follow(c)
			}
			began := time.Now()
			c := begin(s)
			<-c.done
			if took := time.Since(began); took != 45*time.Second || c.end != nil {
				s.Errorf("the end is %v after %v", c.end, took)
			}
			s.checkEnd("expired")
			s.checkEvents(c, 0, greeting+"|id: 1-0", ":")
		}
		run("ends when the token expires", endsWithToken)
		run("ends when the token expires, on a machine whose clock is ahead", endsWithToken, func(o *Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Hour) }
		})
	}
	runSynctest(t, "is refused when the server shuts down", func(t *testing.T) {
		s := newFeedServer(t)
		s.feed.Drain()
		checkError(t, send(s, get("/test")), http.StatusServiceUnavailable)
	})
}

func TestFeedClientThatDoesNotRead(t *testing.T) {
	runSynctest(t, "is disconnected and can resume", func(t *testing.T) {
		s := newFeedServer(t)
		began := time.Now()
		s.connect(false)
		s.write("a", "b")
		s.checkEnd("slow")
		if took := time.Since(began); took < stream.WriteTimeout || took > stream.WriteTimeout+stream.WriteSlack {
			t.Errorf("disconnected after %v", took)
		}
		synctest.Wait()
		must.Is(t, 0, s.feed.Stats().Subscribers)
		c := s.connect(true, "Last-Event-ID: 1-0")
		s.checkEvents(c, 0, greeting+"|id: 1-0", "id: 1-1|a", "id: 1-2|b")
	})
	runSynctest(t, "does not block others", func(t *testing.T) {
		s := newFeedServer(t)
		for range 20 {
			s.connect(false)
		}
		c := s.connect(true)
		synctest.Wait()
		s.write("a")
		s.checkEvents(c, 0, greeting+"|id: 1-0", "id: 1-1|a")
	})
	runSynctest(t, "does not delay shutdown", func(t *testing.T) {
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
			t.Errorf("closed after %v", took)
		}
		<-reads.done
		must.Succeed(t, reads.end)
	})
}

func TestFeedHoldsAPermitUntilItsEnd(t *testing.T) {
	for kind, begin := range feedStreams {
		runSynctest(t, kind, func(t *testing.T) {
			s := newFeedServer(t, withShares)
			follow := s.handle
			s.handle = func(c *call) (err error) {
				if c.requestPermit, err = s.shares.streams.Acquire(c.r.Context(), string(someID)); err != nil {
					return err
				}
				return follow(c)
			}
			c := begin(s)
			synctest.Wait()
			must.Is(t, 1, s.shares.streams.Stats().Used)
			s.feed.Drain()
			<-c.done
			s.checkEnd("drained")
			synctest.Wait()
			must.Is(t, 0, s.shares.streams.Stats().Used)
		})
	}
}

func TestFeedOverHTTP2SetsADeadlineForEachWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFeedServer(t)
		c := s.attend(2)
		time.Sleep(time.Second)
		s.write("a")
		synctest.Wait()
		c.disconnect()
		<-c.done
		s.checkEnd("gone")
		// The deadline of the request is the first, before those of the greeting and the event.
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
		other := s.connect(true)
		client, server := net.Pipe()
		defer client.Close()
		s.ServeHTTP(hijackable{httptest.NewRecorder(), panicConn{server}}, get("/test"))
		if line := <-s.ended; line["msg"] != "panic" || line["error"] != "boom" {
			t.Errorf("the log line is %v", line)
		}
		s.checkEnd("crashed")
		s.write("a")
		s.checkEvents(other, 0, greeting+"|id: 1-0", "id: 1-1|a")
	})
}

type panicConn struct{ net.Conn }

func (panicConn) Write([]byte) (int, error) { panic("boom") }

func TestFeedFailsIfHijackFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFeedServer(t)
		w := hijackable{httptest.NewRecorder(), nil}
		s.ServeHTTP(w, get("/test"))
		checkError(t, w.ResponseRecorder, http.StatusInternalServerError)
		must.Is(t, 0, s.feed.Stats().Subscribers)
	})
}

func TestFeedMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meter, collect := collecting(t)
		s := newFeedServer(t, meter)
		a, b := s.connect(true), s.attend(1, "Last-Event-ID: unknown")
		synctest.Wait()
		s.write("a", "b")
		synctest.Wait()
		b.disconnect()
		<-b.done
		got := sums(collect())
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

// TestFeedOverTheNetwork reads the feed over sockets, with net/http.
func TestFeedOverTheNetwork(t *testing.T) {
	// nextEvent reads the next event and returns its id.
	nextEvent := func(t *testing.T, r *bufio.Reader) string {
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
		begin := func(t *testing.T, change ...func(*Options)) (*feedServer, *http.Response) {
			t.Helper()
			s := newFeedServer(t, change...)
			server := httptest.NewUnstartedServer(s)
			start(server)
			t.Cleanup(server.Close)
			s.write("a")
			r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/test?lastEventId=1-0", nil)).Or(t)
			response := must.Do(server.Client().Do(r)).Or(t)
			t.Cleanup(func() { _ = response.Body.Close() })
			if !strings.HasPrefix(name, response.Proto) {
				t.Fatalf("the protocol is %s", response.Proto)
			}
			return s, response
		}
		t.Run(name+" sends events and ends", func(t *testing.T) {
			s, response := begin(t)
			body := bufio.NewReader(response.Body)
			must.Is(t, "1-1", nextEvent(t, body))
			s.write("b")
			must.Is(t, "1-2", nextEvent(t, body))
			s.feed.Drain()
			if rest, err := io.ReadAll(body); err != nil {
				t.Errorf("the end is %v after %q", err, rest)
			}
			s.checkEnd("drained")
		})
		t.Run(name+" ends if the client disconnects", func(t *testing.T) {
			s, response := begin(t, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
			nextEvent(t, bufio.NewReader(response.Body))
			_ = response.Body.Close()
			s.checkEnd("gone")
		})
	}
	t.Run("HTTP/1.0 is not chunked", func(t *testing.T) {
		s := newFeedServer(t)
		server := httptest.NewServer(s)
		defer server.Close()
		conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
		defer conn.Close()
		fmt.Fprint(conn, "GET /test HTTP/1.0\r\n\r\n")
		r := bufio.NewReader(conn)
		for line := ""; line != "id: 1-0\n"; {
			line = must.Do(r.ReadString('\n')).Or(t)
		}
		s.feed.Drain()
		must.Is(t, "\n", string(must.Do(io.ReadAll(r)).Or(t)))
	})
	t.Run("pipelined requests are dropped", func(t *testing.T) {
		s := newFeedServer(t, func(o *Options) { o.Heartbeat = 5 * time.Millisecond })
		server := httptest.NewServer(s)
		defer server.Close()
		conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
		fmt.Fprint(conn, "GET /test HTTP/1.1\r\nHost: x\r\n\r\n"+strings.Repeat("GET /test HTTP/1.1\r\nHost: x\r\n\r\n", 10))
		r := bufio.NewReader(conn)
		for heartbeats := 0; heartbeats < 3; {
			if must.Do(r.ReadString('\n')).Or(t) == ":\n" {
				heartbeats++
			}
		}
		must.Is(t, 1, s.feed.Stats().Subscribers)
		_ = conn.Close()
		s.checkEnd("gone")
	})
}
