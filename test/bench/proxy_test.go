package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHTTP2Connections(t *testing.T) {
	const warm, run = time.Millisecond, 500 * time.Millisecond
	const event = "id: 1-1\ndata: {\"type\":\"file-changed\"}\n\n"
	feed := &bareFeed{clients: map[chan []byte]<-chan struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/tasks", func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != draft(0) || r.Header.Get("Authorization") != "Bearer token" {
			http.Error(w, string(body), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "{\"id\":\"1\",\"title\":%q}\n", taskTitle(0))
	})
	mux.HandleFunc("GET /api/v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range strings.SplitAfter(page(50), ",") {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("POST "+barePublish, feed.publish)
	mux.HandleFunc("GET /api/v1/sync/changes", feed.follow)
	serve := func(t *testing.T, version2 bool) *process {
		p := testServer(t, mux.ServeHTTP)
		s := httptest.NewUnstartedServer(mux)
		s.EnableHTTP2 = version2
		s.StartTLS()
		t.Cleanup(s.Close)
		p.address = s.URL
		return p
	}
	t.Run("carry requests with bodies, and responses with a length or in chunks", func(t *testing.T) {
		p := serve(t, true)
		for _, w := range []workload{create(p.address, "token"), list("list", p.address, "", "limit=50", 50)} {
			if f, err := measure(t.Context(), p, w, 3, warm, run, nil); err != nil || f.rate <= 0 {
				t.Errorf("%s: %+v: %v", w.name, f, err)
			}
		}
	})
	t.Run("carry a feed, which the client leaves", func(t *testing.T) {
		p := serve(t, true)
		write := workload{status: http.StatusOK, head: slices.Concat([]byte("POST "+barePublish+headers(p.address, "", fmt.Sprintf("Content-Length: %d", len(event)))), []byte(event))}
		a := &feedClients{process: p, write: write, burst: slices.Repeat([]workload{write}, 2)}
		f, err := a.measure(t.Context(), &bench{run: 20 * time.Millisecond}, feedLoad{subscribers: 10, every: 2 * time.Millisecond, burst: 50}, func(int) string { return "" })
		if err != nil || f.p50 <= 0 || string(a.event) != event {
			t.Errorf("%+v of %q: %v", f, a.event, err)
		}
	})
	t.Run("to a server of HTTP/1.1 are an error", func(t *testing.T) {
		p := serve(t, false)
		if _, err := measure(t.Context(), p, list("list", p.address, "", "limit=50", 50), 1, warm, run, nil); err == nil || !strings.Contains(err.Error(), "HTTP/1.1") {
			t.Errorf("it ended with %v", err)
		}
	})
}
