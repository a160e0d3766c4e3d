package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"collab/test/must"
)

func TestAnAudience(t *testing.T) {
	const event = "id: 1-1\ndata: {\"type\":\"file-changed\"}\n\n"
	b := &bench{run: 20 * time.Millisecond}
	load := feedLoad{subscribers: 20, every: 2 * time.Millisecond, burst: 100}
	// newClients returns clients of a bare feed with another handler of published events.
	newClients := func(t *testing.T, publish func(f *bareFeed, w http.ResponseWriter, r *http.Request)) *feedClients {
		t.Helper()
		feed := &bareFeed{clients: map[chan []byte]<-chan struct{}{}}
		p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == barePublish:
				publish(feed, w, r)
			case r.Header.Get("Authorization") == "Bearer reader":
				feed.subscribe(w, r)
			default:
				http.Error(w, "no", http.StatusUnauthorized)
			}
		})
		head := headers(p.address, "", fmt.Sprintf("Content-Length: %d", len(event)))
		write := workload{status: http.StatusOK, head: slices.Concat([]byte("POST "+barePublish+head), []byte(event))}
		return &feedClients{process: p, write: write, burst: slices.Repeat([]workload{write}, burstWriters)}
	}
	reader := func(int) string { return "reader" }
	measure := func(a *feedClients, token func(int) string) (f figures, err error) {
		err = must.Catch(func() {
			b.scoped(func() { f = a.measure(t.Context(), b, load, token) })
		})
		return f, err
	}
	t.Run("gets every event and is measured", func(t *testing.T) {
		a := newClients(t, (*bareFeed).publish)
		f, err := measure(a, reader)
		must.NoError(t, err)
		if f.p50 <= 0 || f.p99 < f.p50 || f.rate <= 0 || string(a.event) != event {
			t.Errorf("%+v of %q", f, a.event)
		}
		if got, want := a.delivered.Load(), int64(len(a.requestedAt)*load.subscribers); got != want {
			t.Errorf("%d deliveries, want %d", got, want)
		}
	})
	t.Run("of whom one is refused is an error", func(t *testing.T) {
		a := newClients(t, (*bareFeed).publish)
		_, err := measure(a, func(i int) string { return []string{"reader", "nobody"}[i/10] })
		if err == nil || !strings.Contains(err.Error(), "subscriber 10") {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("that gets an event twice is an error", func(t *testing.T) {
		a := newClients(t, func(f *bareFeed, w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(event + event))
			f.publish(w, r)
		})
		if _, err := measure(a, reader); err == nil || !strings.Contains(err.Error(), "an event too many") {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("whose events cannot be made is an error", func(t *testing.T) {
		a := newClients(t, func(_ *bareFeed, w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) })
		if _, err := measure(a, reader); err == nil || !strings.Contains(err.Error(), "status 409") {
			t.Errorf("it ended with %v", err)
		}
	})
}
