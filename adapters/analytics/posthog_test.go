package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/adapters/analytics"
	"collab/domain/id"

	"github.com/google/go-cmp/cmp"
)

const (
	key  = "phc_secret"
	late = 30 * time.Second // limits a test's wait
)

// captured is a request to the server.
type captured struct {
	body  string
	batch []struct {
		Event      string         `json:"event"`
		UUID       string         `json:"uuid"`
		DistinctID string         `json:"distinct_id"`
		Timestamp  time.Time      `json:"timestamp"`
		Properties map[string]any `json:"properties"`
	}
}

// captureServer is a server with PostHog's capture API.
type captureServer struct {
	*httptest.Server
	batches chan captured // all requests
}

// capture starts a server that answers with the function, 200 without one.
func capture(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) (*captureServer, *clock) {
	t.Helper()
	c := &captureServer{batches: make(chan captured, 1000)}
	var n atomic.Int64
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client closed the connection
		}
		var body struct {
			Key   string `json:"api_key"`
			Batch json.RawMessage
		}
		got := captured{body: string(b)}
		if err := json.Unmarshal(b, &body); err != nil || body.Key != key || json.Unmarshal(body.Batch, &got.batch) != nil || len(got.batch) == 0 {
			t.Errorf("%s is no batch: %v", b, err)
		}
		for _, e := range got.batch {
			if _, ok := id.Parse[id.Request](e.UUID); !ok || e.DistinctID == "" || e.Event != "$ai_generation" || e.Timestamp.IsZero() {
				t.Errorf("%+v is no event", e)
			}
		}
		if r.Method != http.MethodPost || r.URL.Path != "/in/batch/" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s came", r.Method, r.URL)
		}
		nth := int(n.Add(1))
		c.batches <- got
		if answer != nil {
			answer(nth, w, r)
		}
	}))
	t.Cleanup(c.Close)
	return c, &clock{asked: make(chan timer, 10_000)}
}

func (c *captureServer) next(t *testing.T) captured {
	t.Helper()
	select {
	case b := <-c.batches:
		return b
	case <-time.After(late):
		t.Fatal("no batch came")
		return captured{}
	}
}

// clock is advanced by fire, which takes the calls of after from asked.
type clock struct {
	asked chan timer
	now   atomic.Int64
}

func (c *clock) Now() time.Time { return time.Unix(0, c.now.Load()) }

type timer struct {
	after time.Duration
	rings chan time.Time
}

func (c *clock) after(d time.Duration) <-chan time.Time {
	a := timer{d, make(chan time.Time, 1)}
	c.asked <- a
	return a.rings
}

// fire waits for a call of after, ends its pause and returns the duration.
func (c *clock) fire(t *testing.T) time.Duration {
	t.Helper()
	select {
	case a := <-c.asked:
		c.now.Add(int64(a.after))
		a.rings <- time.Time{}
		return a.after
	case <-time.After(late):
		t.Fatal("nobody waits")
		return 0
	}
}

// open returns a PostHog of the server that logs to log.
func open(t *testing.T, server *captureServer, tick *clock, log io.Writer) *analytics.PostHog {
	t.Helper()
	p, err := analytics.NewPostHog(analytics.Options{
		Key: key, URL: server.URL + "/in", Log: slog.New(slog.NewTextHandler(log, nil)), Client: &http.Client{Transport: &http.Transport{}}, Clock: tick, After: tick.after,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx) // if the test has not
	})
	return p
}

// end closes p without a deadline.
func end(t *testing.T, p *analytics.PostHog) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), late)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func counts(t *testing.T, p *analytics.PostHog, sent, dropped int64) {
	t.Helper()
	if p.Sent() != sent || p.Dropped() != dropped {
		t.Errorf("%d sent and %d dropped, not %d and %d", p.Sent(), p.Dropped(), sent, dropped)
	}
}

func record(p *analytics.PostHog, n int) {
	for range n {
		p.Record(some())
	}
}

func TestPostHogReceivesGenerations(t *testing.T) {
	server, tick := capture(t, nil)
	p := open(t, server, tick, io.Discard)
	p.Record(some())
	p.Record(broken())
	end(t, p)
	got := server.next(t).batch
	if len(got) != 2 {
		t.Fatalf("%d events", len(got))
	}
	e := got[0]
	if e.UUID != string(some().ID) || e.DistinctID != string(some().User) || !e.Timestamp.Equal(time.Date(2026, 1, 2, 3, 4, 7, 178e6, time.UTC)) {
		t.Errorf("the event is %+v", e)
	}
	if diff := cmp.Diff(map[string]any{
		"$lib": "collab", "$geoip_disable": true, "$groups": map[string]any{"company": "019a0000-0000-7000-8000-000000000002"},
		"$ai_trace_id": "019a0000-0000-7000-8000-000000000001", "$ai_model": "claude-sonnet-5-5", "$ai_provider": "anthropic",
		"$ai_latency": 1.5, "$ai_time_to_first_token": 0.25, "$ai_stream": true,
		"$ai_input_tokens": 1230., "$ai_output_tokens": 45., "$ai_cache_read_input_tokens": 200., "$ai_cache_creation_input_tokens": 30.,
		"$ai_cache_reporting_exclusive": false, "$ai_web_search_count": 2., "$ai_is_error": false, "$ai_stop_reason": "end_turn",
		"outcome": "completed", "usage_source": "provider", "tools": 3., "web_search": true, "attempts": 2.,
	}, e.Properties); diff != "" {
		t.Errorf("other properties (-want +got):\n%s", diff)
	}
	f := got[1].Properties
	if f["$ai_is_error"] != true || f["$ai_error"] != "overloaded" || f["$ai_time_to_first_token"] != nil || f["$ai_stop_reason"] != nil {
		t.Errorf("a failure has the properties %v", f)
	}
}

func TestABatch(t *testing.T) {
	t.Run("is sent when it is full, or after the interval", func(t *testing.T) {
		server, tick := capture(t, nil)
		p := open(t, server, tick, io.Discard)
		record(p, 250)
		for range 2 {
			if n := len(server.next(t).batch); n != 100 {
				t.Fatalf("%d events in a batch", n)
			}
		}
		for over := time.After(late); ; {
			select {
			case a := <-tick.asked: // the pause before an incomplete batch is sent
				if a.after != 5*time.Second {
					t.Fatalf("somebody waits for %v", a.after)
				}
				tick.now.Add(int64(a.after))
				a.rings <- time.Time{}
			case b := <-server.batches:
				if len(b.batch) != 50 {
					t.Errorf("%d events in the last batch", len(b.batch))
				}
				end(t, p)
				counts(t, p, 250, 0)
				return
			case <-over:
				t.Fatal("the rest did not come")
			}
		}
	})
	t.Run("has the events in order", func(t *testing.T) {
		server, tick := capture(t, nil)
		p := open(t, server, tick, io.Discard)
		for i := range 150 {
			g := some()
			g.ID = id.Request(fmt.Sprintf("019a0000-0000-7000-8000-%012d", i))
			p.Record(g)
		}
		end(t, p)
		i := 0
		for range 2 {
			for _, e := range server.next(t).batch {
				if e.UUID != fmt.Sprintf("019a0000-0000-7000-8000-%012d", i) {
					t.Fatalf("%s came as the event %d", e.UUID, i)
				}
				i++
			}
		}
	})
}

func TestAnAttemptThatFails(t *testing.T) {
	t.Run("is retried with the same events after growing pauses", func(t *testing.T) {
		server, tick := capture(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusTooManyRequests)
			case 3:
				panic(http.ErrAbortHandler) // the connection is lost
			case 4:
				w.Header().Set("Retry-After", "10000000000")
				w.WriteHeader(http.StatusBadGateway)
			case 5:
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusRequestTimeout)
			}
		})
		p := open(t, server, tick, io.Discard)
		record(p, 1)
		var waits []time.Duration
		for range 6 {
			waits = append(waits, tick.fire(t))
		}
		first := server.next(t)
		for range 5 {
			if again := server.next(t); again.body != first.body {
				t.Errorf("%s came after %s", again.body, first.body)
			}
		}
		end(t, p)
		counts(t, p, 1, 0)
		if diff := cmp.Diff([]time.Duration{5 * time.Second, time.Second, 20 * time.Second, 10 * time.Second, time.Minute, time.Minute}, waits); diff != "" {
			t.Errorf("other waits (-want +got):\n%s", diff)
		}
	})
	t.Run("is dropped after the last retry, and the next batch is sent", func(t *testing.T) {
		server, tick := capture(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 6 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		var log bytes.Buffer
		p := open(t, server, tick, &log)
		record(p, 1)
		for range 6 {
			tick.fire(t)
			server.next(t)
		}
		record(p, 2)
		tick.fire(t)
		if n := len(server.next(t).batch); n != 2 {
			t.Errorf("%d events came next", n)
		}
		end(t, p)
		counts(t, p, 2, 1)
		if !strings.Contains(log.String(), "calls=1") || !strings.Contains(log.String(), "status 500") {
			t.Errorf("the log has %q", log.String())
		}
	})
	t.Run("delays the batches behind it", func(t *testing.T) {
		release := make(chan struct{})
		server, tick := capture(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				<-release
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		p := open(t, server, tick, io.Discard)
		record(p, 100)
		server.next(t)
		record(p, 200)
		close(release)
		pause := <-tick.asked
		for pause.after != time.Second {
			pause = <-tick.asked
		}
		if n := len(server.batches); n > 0 {
			t.Errorf("%d batches were sent before it", n)
		}
		tick.now.Add(int64(pause.after))
		pause.rings <- time.Time{}
		end(t, p)
		counts(t, p, 300, 0)
	})
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusTemporaryRedirect} {
		t.Run(fmt.Sprintf("with %d is not made again, and the key stays secret", status), func(t *testing.T) {
			server, tick := capture(t, func(n int, w http.ResponseWriter, r *http.Request) {
				if n == 1 {
					w.Header().Set("Location", "/in/batch/")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, strings.Repeat("x", 195)+key+strings.Repeat(" long", 50_000))
				}
			})
			var log bytes.Buffer
			p := open(t, server, tick, &log)
			record(p, 100)
			server.next(t)
			record(p, 100)
			server.next(t)
			end(t, p)
			counts(t, p, 100, 100)
			if !strings.Contains(log.String(), fmt.Sprint("status ", status)) || strings.Contains(log.String(), "phc_") || log.Len() > 1000 {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

func TestAFullQueueDropsGenerations(t *testing.T) {
	release := make(chan struct{})
	server, tick := capture(t, func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			<-release
		}
	})
	var log bytes.Buffer
	p := open(t, server, tick, &log)
	record(p, 100)
	server.next(t) // the worker is busy from here on
	const room = 8192
	record(p, room)
	counts(t, p, 0, 0)
	record(p, 7)
	counts(t, p, 0, 7)
	close(release)
	end(t, p)
	counts(t, p, 100+room, 7)
	if strings.Count(log.String(), "analytics queue full") != 1 || !strings.Contains(log.String(), "calls=7") {
		t.Errorf("the log has %q", log.String())
	}
}

func TestClose(t *testing.T) {
	t.Run("sends queued generations and accepts no more", func(t *testing.T) {
		server, tick := capture(t, nil)
		p := open(t, server, tick, io.Discard)
		record(p, 130)
		end(t, p)
		record(p, 3)
		end(t, p)
		if n := len(server.next(t).batch) + len(server.next(t).batch); n != 130 {
			t.Errorf("%d events came", n)
		}
		counts(t, p, 130, 3)
	})
	t.Run("returns at once without generations", func(t *testing.T) {
		server, tick := capture(t, nil)
		p := open(t, server, tick, io.Discard)
		end(t, p)
		counts(t, p, 0, 0)
	})
	outOfTime := errors.New("no time left")
	for name, answer := range map[string]func(int, http.ResponseWriter, *http.Request){
		"gives up a server that does not answer when its time is over": func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"gives up a server that is down when its time is over":         func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			server, tick := capture(t, answer)
			p := open(t, server, tick, io.Discard)
			record(p, 250)
			server.next(t)
			ctx, cancel := context.WithCancelCause(context.Background())
			closed := make(chan error)
			go func() { closed <- p.Close(ctx) }()
			cancel(outOfTime)
			select {
			case err := <-closed:
				if err != outOfTime {
					t.Errorf("%v came, not the cause", err)
				}
			case <-time.After(late):
				t.Fatal("it did not end")
			}
			counts(t, p, 0, 250)
		})
	}
	t.Run("with concurrent calls of Record counts every generation", func(t *testing.T) {
		server, tick := capture(t, nil)
		p := open(t, server, tick, io.Discard)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { record(p, 500) })
		}
		server.next(t)
		end(t, p)
		all.Wait()
		if n := p.Sent() + p.Dropped(); n != 4000 {
			t.Errorf("%d sent and %d dropped of 4000", p.Sent(), p.Dropped())
		}
	})
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]analytics.Options{
		"COLLAB_POSTHOG_KEY": {Key: " ", URL: "https://example.com"},
		"COLLAB_POSTHOG_URL": {Key: key, URL: "example.com"},
	} {
		if _, err := analytics.NewPostHog(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, url := range []string{"ftp://example.com", "https://", "https://example.com?key=1", "https://example.com#a", "://"} {
		if _, err := analytics.NewPostHog(analytics.Options{Key: key, URL: url}); err == nil || !strings.Contains(err.Error(), "COLLAB_POSTHOG_URL") {
			t.Errorf("%v for %s", err, url)
		}
	}
}
