package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/stream"
	"collab/adapters/memory"
	"collab/adapters/system"
	"collab/app/access"
	"collab/app/chats"
	"collab/app/idempotency"
	"collab/app/metering"
	"collab/domain/calendar"
	"collab/domain/chat"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/usage"
	"collab/ports"
	"collab/test/must"
)

// modelFunc implements ports.Models.
type modelFunc func(ctx context.Context, to ports.Sink) (chat.Reply, error)

func (fn modelFunc) Stream(ctx context.Context, _ chat.Call, to ports.Sink) (chat.Reply, error) {
	to.Alive()
	return fn(ctx, to)
}

// whole is the reply of a model after its last chunk.
var whole = chat.Reply{Usage: chat.Usage{Input: 12, Output: 7}, InputKnown: true, OutputKnown: true}

const (
	doneEvent  = `data: {"type":"done","usage":{"inputTokens":12,"outputTokens":7}}` + "\n\n"
	errorEvent = `data: {"type":"error","error":"An error occurred while processing your request."}` + "\n\n"
)

func textEvent(text string) string { return `data: {"type":"text","text":"` + text + `"}` + "\n\n" }

func says(text string) chat.Chunk { return chat.Chunk{Type: chat.TextChunk, Text: text} }

// say sends a text and flushes it.
func say(to ports.Sink, text string) error { return errors.Join(to.Chunk(says(text)), to.Wait()) }

// silent is a model that sends nothing until its context ends. talkative is one that sends text until then.
var (
	silent modelFunc = func(ctx context.Context, _ ports.Sink) (chat.Reply, error) {
		<-ctx.Done()
		return chat.Reply{}, context.Cause(ctx)
	}
	talkative modelFunc = func(ctx context.Context, to ports.Sink) (chat.Reply, error) {
		for {
			if err := errors.Join(to.Chunk(says(strings.Repeat("x", stream.FlushAt))), context.Cause(ctx)); err != nil {
				return chat.Reply{}, err
			}
		}
	}
)

// chatServer is an interface with the chat of an actor at /test. It implements ports.Generations.
type chatServer struct {
	testing.TB
	*api
	store  *memory.Store
	actor  org.Actor
	server *http.Server // nil before listen
	cancel func()       // of the contexts of its requests
	log    *bytes.Buffer

	mu          sync.Mutex
	generations []chat.Generation // guarded by mu
}

func newChatServer(t testing.TB, model modelFunc, change ...func(*Options)) *chatServer {
	t.Helper()
	w := &chatServer{TB: t, store: memory.NewStore(), actor: org.Actor{User: someID, Org: someID, Role: org.Owner}}
	w.subscribe(plan.Premium)
	var logs func(*Options)
	logs, w.log = logging(slog.LevelInfo)
	registry := must.Do(chat.NewRegistry([]chat.Model{testModel}, "", func(string) bool { return true })).Or(t)
	options := func(o *Options) {
		o.Chats = chats.New(chats.Options{
			Store: w.store, Registry: registry, Providers: map[string]ports.Models{"test": model}, Generations: w,
			Clock: system.Clock{}, Alarms: system.Alarms{}, IDs: &memory.IDs{}, Log: slog.New(slog.DiscardHandler), Origin: access.Origin,
			Subscription: func(ctx context.Context, r ports.Records, actor org.Actor) (plan.Subscription, error) {
				return r.Directory().Subscriptions().Get(ctx, actor.Org)
			},
			Reauthorize: func(ctx context.Context, actor org.Actor) (org.Actor, error) {
				epoch, err := w.store.Directory().Members().Epoch(ctx, actor.Org)
				actor.Visibility = &org.Visibility{Epoch: epoch}
				return actor, err
			},
			Pause: func(context.Context, int) error { return nil },
		})
		o.Metering = metering.New(w.store, access.From(w.store), system.Clock{}, nil)
		o.Idempotency = idempotency.New(w.store, newVault(t), system.Clock{}, &memory.Secrets{})
	}
	var start handler
	w.api = serveEndpoint(t, http.MethodPost, public, func(c *call) error { return start(c) }, append([]func(*Options){options, logs}, change...)...)
	start = w.as(&w.actor, w.startChat)
	return w
}

// subscribe puts the organisation on a plan.
func (w *chatServer) subscribe(p plan.Plan) {
	w.Helper()
	inOrganisation(w, w.store, func(r ports.Records) error {
		sub, err := plan.Unsubscribed(someID).Granted(plan.Grant{Plan: p}, time.Now())
		return errors.Join(err, r.Directory().Subscriptions().Put(w.Context(), someID, sub))
	})
}

// inOrganisation runs fn in a transaction that has locked the organisation someID. It adds the organisation if it is
// missing.
func inOrganisation(t testing.TB, store *memory.Store, fn func(ports.Records) error) {
	t.Helper()
	must.NoError(t, store.Atomic(t.Context(), func(r ports.Records) error {
		all := r.Directory().Organisations()
		_, err := all.Upsert(t.Context(), org.Organisation{ID: someID, ProviderID: "o"}, func(o org.Organisation) (org.Organisation, error) { return o, nil })
		if err != nil {
			return err
		}
		if _, err := all.Lock(t.Context(), someID); err != nil {
			return err
		}
		return fn(r)
	}))
}

// Record implements ports.Generations.
func (w *chatServer) Record(g chat.Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.generations = append(w.generations, g)
}

// checkUsage checks the log line, generation, ledger entry and account of the only chat, and returns the entry.
func (w *chatServer) checkUsage(status int, outcome chat.Outcome) usage.Entry {
	w.Helper()
	requests := slices.DeleteFunc(lines(w, w.log), func(line map[string]any) bool { return line["msg"] != requestLine })
	w.mu.Lock()
	generations := slices.Clone(w.generations)
	w.mu.Unlock()
	if len(requests) != 1 || requests[0]["status"] != float64(status) || requests[0]["user"] != someID {
		w.Errorf("the log lines are %v, want the status %d", requests, status)
	}
	if len(generations) != 1 || generations[0].Outcome != outcome {
		w.Errorf("the generations are %+v, want one with the outcome %s", generations, outcome)
	}
	all := w.entries()
	if len(all) != 1 || all[0].Outcome != outcome {
		w.Fatalf("the entries are %+v, want one with the outcome %s", all, outcome)
	}
	account, err := w.store.Usage().Quotas().Account(context.Background(), someID, someID, calendar.DayOf(all[0].At))
	if err != nil || account.Reserved != 0 || account.Used != all[0].Tokens.Total() {
		w.Errorf("the account is %+v, %v; the entry is %+v", account, err, all[0])
	}
	return all[0]
}

// entries returns the ledger.
func (w *chatServer) entries() (all []usage.Entry) {
	w.Helper()
	now := time.Now()
	must.NoError(w, w.store.Usage().Ledger().Entries(context.Background(), someID, usage.Period{Start: now.AddDate(-1, 0, 0), End: now.AddDate(1, 0, 0)}, func(e usage.Entry) error {
		all = append(all, e)
		return nil
	}))
	return all
}

// pipeListener is a listener whose connections are pipes.
type pipeListener struct {
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.dialed <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listen serves over pipes, and returns a client.
func (w *chatServer) listen(http2 bool) *http.Client {
	w.Helper()
	p := &pipeListener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	ctx, cancel := context.WithCancel(w.Context())
	w.cancel = cancel
	w.server = &http.Server{BaseContext: func(net.Listener) context.Context { return ctx }, Handler: w, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = w.server.Serve(p)
	}()
	transport := &http.Transport{DialContext: p.dial, Protocols: protocols}
	w.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		must.Succeed(w, w.server.Close())
		<-served
	})
	return &http.Client{Transport: transport}
}

// chatClient is a client that reads the response to a chat.
type chatClient struct {
	streamReader
	response   *http.Response
	disconnect context.CancelFunc
}

// streamReader reads a response in the background.
type streamReader struct {
	mu   sync.Mutex
	read bytes.Buffer  // guarded by mu
	done chan struct{} // closed at the end of the response
	end  error         // of the response, once done is closed
}

// text returns what was read.
func (r *streamReader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.String()
}

func (r *streamReader) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.Write(b)
}

// start reads the response, or nothing of it if reads is false.
func (r *streamReader) start(response io.Reader, reads bool) {
	r.done = make(chan struct{})
	if !reads {
		close(r.done)
		return
	}
	go func() {
		defer close(r.done)
		_, r.end = io.Copy(r, response)
	}()
}

const hello = `{"message":"Hello"}`

// ask starts a chat and returns after the head of the response. The client reads the body if reads is set.
func (w *chatServer) ask(client *http.Client, reads bool, headers ...string) *chatClient {
	w.Helper()
	l := &chatClient{}
	var ctx context.Context
	ctx, l.disconnect = context.WithCancel(context.Background())
	r := post("http://collab/test", hello, headers...).WithContext(ctx)
	r.RequestURI = ""
	l.response = must.Do(client.Do(r)).Or(w)
	w.Cleanup(func() {
		l.disconnect()
		_ = l.response.Body.Close()
		<-l.done
	})
	l.start(l.response.Body, reads)
	return l
}

// expect waits for the end of the response and checks it.
func (l *chatClient) expect(t testing.TB, want string) {
	t.Helper()
	<-l.done
	if got := l.text(); got != want || l.end != nil {
		t.Errorf("read %q and %v, want %q", got, l.end, want)
	}
}

// runChat runs fn as a subtest over each protocol, in a bubble of synctest.
func runChat(t *testing.T, name string, model modelFunc, fn func(*chatServer, *http.Client), change ...func(*Options)) {
	t.Helper()
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		runSynctest(t, name+" over "+protocol, func(t *testing.T) {
			w := newChatServer(t, model, change...)
			fn(w, w.listen(http2))
		})
	}
}

func TestChatStream(t *testing.T) {
	runChat(t, "begins with a comment and ends with the usage", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		time.Sleep(time.Second)
		for _, text := range []string{"Hel", "lo"} {
			if err := to.Chunk(says(text)); err != nil {
				return chat.Reply{}, err
			}
		}
		return whole, to.Wait()
	}, func(w *chatServer, client *http.Client) {
		began := time.Now()
		l := w.ask(client, true)
		synctest.Wait()
		if took := time.Since(began); took != firstSilence || l.text() != comment {
			t.Errorf("read %q after %v", l.text(), took)
		}
		l.expect(w, comment+textEvent("Hel")+textEvent("lo")+doneEvent)
		checkHeader(w, l.response.Header, map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Length": ""})
		synctest.Wait()
		if e := w.checkUsage(http.StatusOK, chat.Completed); e.Tokens != whole.Usage {
			w.Errorf("the entry is %+v", e)
		}
	})

	runChat(t, "begins with a chunk that is sent soon", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		time.Sleep(firstSilence - time.Millisecond)
		_ = say(to, "a")
		time.Sleep(chatSilence + time.Second)
		_ = to.Chunk(says("b"))
		return whole, to.Wait()
	}, func(w *chatServer, client *http.Client) {
		w.ask(client, true).expect(w, textEvent("a")+comment+textEvent("b")+doneEvent)
	})

	runChat(t, "buffers chunks until they are flushed", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		time.Sleep(2 * firstSilence)
		_ = to.Chunk(says("a"))
		_ = to.Chunk(says("b"))
		time.Sleep(time.Second)
		_ = to.Wait()
		time.Sleep(time.Second)
		_ = to.Chunk(says("c"))
		_ = to.Chunk(says(strings.Repeat("d", stream.FlushAt)))
		time.Sleep(time.Second)
		return whole, to.Wait()
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true)
		want := comment
		for _, more := range []string{"", "", textEvent("a") + textEvent("b"), textEvent("c") + textEvent(strings.Repeat("d", stream.FlushAt))} {
			synctest.Wait()
			if want += more; l.text() != want {
				w.Errorf("read %d bytes, want %d", len(l.text()), len(want))
			}
			time.Sleep(time.Second)
		}
		l.expect(w, want+doneEvent)
	})

	runChat(t, "has comments only while the model is silent", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 4 {
			time.Sleep(10 * time.Second)
			_ = say(to, "a")
		}
		time.Sleep(50 * time.Second)
		_ = say(to, "b")
		time.Sleep(14 * time.Second)
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		w.ask(client, true).expect(w, comment+strings.Repeat(textEvent("a"), 4)+strings.Repeat(comment, 3)+textEvent("b")+doneEvent)
	})

	runChat(t, "has no deadline", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		for range 20 {
			time.Sleep(80 * time.Second)
			to.Alive()
			_ = say(to, "a")
		}
		return whole, nil
	}, func(w *chatServer, client *http.Client) {
		w.ask(client, true).expect(w, comment+strings.Repeat(strings.Repeat(comment, 5)+textEvent("a"), 20)+doneEvent)
		synctest.Wait()
		w.checkUsage(http.StatusOK, chat.Completed)
	})

	runChat(t, "is canceled if the client does not read", talkative, func(w *chatServer, client *http.Client) {
		began := time.Now()
		w.ask(client, false)
		time.Sleep(stream.WriteTimeout + stream.WriteSlack + time.Second)
		synctest.Wait()
		e := w.checkUsage(statusClientClosed, chat.ClientGone)
		if took := w.generations[0].Duration; took < stream.WriteTimeout || took > stream.WriteTimeout+stream.WriteSlack {
			w.Errorf("canceled after %v", took)
		}
		if e.Tokens.Output == 0 || e.At.Before(began) {
			w.Errorf("the entry is %+v", e)
		}
	})

	runChat(t, "is canceled if the client does not read comments", silent, func(w *chatServer, client *http.Client) {
		// Comments never fill the windows of HTTP/2.
		l := w.ask(client, false)
		if l.response.ProtoMajor == 2 {
			l.disconnect()
		}
		time.Sleep(chatSilence + stream.WriteTimeout + stream.WriteSlack + time.Second)
		synctest.Wait()
		w.checkUsage(statusClientClosed, chat.ClientGone)
	})

	runChat(t, "is canceled when the client disconnects", func(ctx context.Context, to ports.Sink) (chat.Reply, error) {
		_ = say(to, "a")
		return silent(ctx, to)
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true)
		synctest.Wait()
		began := time.Now()
		l.disconnect()
		<-l.done
		synctest.Wait()
		w.checkUsage(statusClientClosed, chat.ClientGone)
		must.Is(w, 0, time.Since(began))
	})

	runChat(t, "ends with an error after a panic", func(_ context.Context, to ports.Sink) (chat.Reply, error) {
		_ = to.Chunk(says("a"))
		panic("boom")
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true)
		<-l.done
		// The response is aborted after its last chunk.
		if l.text() != textEvent("a")+errorEvent || l.end == nil {
			w.Errorf("read %q, %v", l.text(), l.end)
		}
		synctest.Wait()
		if e := w.checkUsage(http.StatusOK, chat.Failed); e.Tokens.Output == 0 {
			w.Errorf("the entry is %+v", e)
		}
		if !strings.Contains(w.log.String(), `"msg":"panic"`) || !strings.Contains(w.log.String(), `"error":"boom"`) {
			w.Errorf("the log is %s", w.log)
		}
	})

	runChat(t, "ends with an error when the server shuts down", func(ctx context.Context, to ports.Sink) (chat.Reply, error) {
		_ = to.Chunk(says("a"))
		return silent(ctx, to)
	}, func(w *chatServer, client *http.Client) {
		l := w.ask(client, true)
		synctest.Wait()
		must.NoError(w, w.Chats.Close(w.Context()))
		l.expect(w, textEvent("a")+errorEvent)
		synctest.Wait()
		w.checkUsage(http.StatusOK, chat.ShutDown)
		checkError(w, send(w, post("/test", hello)), http.StatusServiceUnavailable)
	})

	runChat(t, "does not delay shutdown if the client does not read", talkative, func(w *chatServer, client *http.Client) {
		w.ask(client, false)
		synctest.Wait()
		began := time.Now()
		w.Chats.Drain()
		w.cancel()
		must.NoError(w, errors.Join(w.server.Close(), w.Chats.Close(w.Context())))
		must.Is(w, 0, time.Since(began))
		synctest.Wait()
		w.checkUsage(statusClientClosed, chat.ClientGone)
	})

	runChat(t, "ends with an error if the model stays silent", silent, func(w *chatServer, client *http.Client) {
		w.ask(client, true).expect(w, strings.Repeat(comment, 7)+errorEvent)
		synctest.Wait()
		w.checkUsage(http.StatusOK, chat.TimedOut)
	}, func(o *Options) { o.Heartbeat = 14 * time.Second })

	runChat(t, "ends with an error after half an hour", func(ctx context.Context, to ports.Sink) (chat.Reply, error) {
		for {
			to.Alive()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return chat.Reply{}, context.Cause(ctx)
			}
		}
	}, func(w *chatServer, client *http.Client) {
		w.ask(client, true).expect(w, strings.Repeat(comment, 120)+errorEvent)
		synctest.Wait()
		w.checkUsage(http.StatusOK, chat.TimedOut)
	})
}

// funcWriter is a response whose body is written to a function.
type funcWriter struct {
	http.ResponseWriter
	write func([]byte)
}

func (w funcWriter) Write(b []byte) (int, error) {
	w.write(b)
	return len(b), nil
}

func (w funcWriter) Flush() {}

func TestChatWritesNothingAfterItsEnd(t *testing.T) {
	for _, heartbeat := range []time.Duration{time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newChatServer(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) {
				time.Sleep(min(firstSilence, heartbeat) + 9*heartbeat) // the next comment is due at the end
				return whole, nil
			}, func(o *Options) { o.Heartbeat = heartbeat })
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					ended := false // unguarded, so that the race detector reports late writes, too
					w.ServeHTTP(funcWriter{httptest.NewRecorder(), func(b []byte) {
						if ended {
							t.Errorf("%q is written after the end", b)
						}
					}}, post("/test", hello))
					ended = true
				})
			}
			all.Wait()
			time.Sleep(time.Minute)
		})
	}
}

// brokenWriter is a response that cannot be written.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestChatIsCanceledIfACommentCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newChatServer(t, silent)
		w.ServeHTTP(brokenWriter{httptest.NewRecorder()}, post("/test", hello))
		w.checkUsage(statusClientClosed, chat.ClientGone)
		must.Is(t, firstSilence, w.generations[0].Duration)
	})
}

func TestChatThatIsSentAtItsEndLeavesNoTimer(t *testing.T) {
	c := &call{w: httptest.NewRecorder(), r: post("/test", hello)}
	w := &chatStream{c: c, to: stream.NewWriter(c, c.r, time.Now), silence: time.Hour, now: time.Now, timer: time.NewTimer(time.Hour)}
	must.NoError(t, w.Chunk(chat.Chunk{Type: chat.DoneChunk}))
	if w.finish(); w.timer.Stop() {
		t.Error("the timer runs")
	}
}

func TestChatIsCompletedIfClientDisconnectsAfterLastChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, disconnect := context.WithCancel(context.Background())
		w := newChatServer(t, func(context.Context, ports.Sink) (chat.Reply, error) { return whole, nil })
		w.ServeHTTP(funcWriter{httptest.NewRecorder(), func(b []byte) {
			if strings.HasSuffix(string(b), doneEvent) {
				disconnect()
			}
		}}, post("/test", hello).WithContext(ctx))
		w.checkUsage(http.StatusOK, chat.Completed)
	})
}

func TestChatOverHTTP1Wire(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		read    func(io.Reader) ([]byte, error)
		head    string // of the bytes that were read
	}{
		"HTTP/1.0 closes the connection": {"POST /test HTTP/1.0\r\n", io.ReadAll, ""},
		// A read of a pipe returns bytes of one write.
		"HTTP/1.1 sends the head with the first chunk": {"POST /test HTTP/1.1\r\nHost: h\r\n", func(r io.Reader) ([]byte, error) {
			b := make([]byte, 4096)
			n, err := r.Read(b)
			return b[:n], err
		}, "HTTP/1.1 200 OK\r\n"},
	} {
		runSynctest(t, name, func(t *testing.T) {
			w := newChatServer(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) {
				return whole, to.Chunk(says("a"))
			})
			conn := must.Do(w.listen(false).Transport.(*http.Transport).DialContext(t.Context(), "", "")).Or(t)
			defer conn.Close()
			go func() {
				_, _ = io.WriteString(conn, test.request+"Content-Type: application/json\r\nContent-Length: 19\r\n\r\n"+hello)
			}()
			got, err := test.read(conn)
			if err != nil || !strings.HasPrefix(string(got), test.head) || !strings.Contains(string(got), textEvent("a")) ||
				test.head == "" && !strings.HasSuffix(string(got), "\r\n\r\n"+textEvent("a")+doneEvent) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
