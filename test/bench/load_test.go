package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"collab/test/must"
)

// testServer returns a server of the handler, whose processor time is that of this process.
func testServer(t *testing.T, h http.HandlerFunc) *process {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	self, err := os.FindProcess(os.Getpid())
	must.NoError(t, err)
	return &process{name: "server", address: strings.TrimPrefix(s.URL, "http://"), command: &exec.Cmd{Process: self}}
}

func page(rows int) string {
	return "[" + strings.Repeat(`{"sortOrder":1},`, rows-1) + `{"sortOrder":1}]` + "\n"
}

func TestMeasure(t *testing.T) {
	const warm, run = time.Millisecond, 50 * time.Millisecond

	t.Run("every request reaches the server unchanged", func(t *testing.T) {
		ids := []string{"0190a000-0000-7000-8000-000000000001", "0190a000-0000-7000-8000-000000000002"}
		var wrong atomic.Value
		p := testServer(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			id := strings.TrimPrefix(r.URL.Path, "/api/v1/tasks/")
			if r.Method == "GET" && (id != ids[0] && id != ids[1] || r.Header.Get("Authorization") != "Bearer token") {
				wrong.Store(fmt.Sprint(r.Method, r.URL, r.Header))
			}
			if r.Method == "POST" {
				if string(body) != draft(0) || r.Header.Get("Content-Type") != "application/json" {
					wrong.Store(string(body))
				}
				w.WriteHeader(http.StatusCreated)
				id = ids[0]
			}
			fmt.Fprintf(w, "{\"id\":%q,\"title\":%q}\n", id, taskTitle(0))
		})
		for _, w := range []workload{get(p.address, "token", ids), create(p.address, "token")} {
			f, err := measure(t.Context(), p, w, 3, warm, run, nil)
			must.NoError(t, err)
			if f.rate <= 0 || f.p50 <= 0 || f.p99 < f.p50 {
				t.Errorf("%s: %+v", w.name, f)
			}
		}
		if v := wrong.Load(); v != nil {
			t.Error(v)
		}
	})

	t.Run("responses in chunks are read like others", func(t *testing.T) {
		p := testServer(t, func(w http.ResponseWriter, _ *http.Request) {
			for _, part := range strings.SplitAfter(page(50), ",") {
				fmt.Fprint(w, part)
				w.(http.Flusher).Flush()
			}
		})
		must.Succeed(t, must.ErrorOf(measure(t.Context(), p, list("list", p.address, "", "limit=50", 50), 2, warm, run, nil)))
	})

	for name, h := range map[string]http.HandlerFunc{
		"a page that is too short":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page(49)) },
		"another status":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); fmt.Fprint(w, page(50)) },
		"a response that is cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name+" ends the measurement with an error", func(t *testing.T) {
			p := testServer(t, h)
			if f, err := measure(t.Context(), p, list("list", p.address, "", "limit=50", 50), 2, warm, run, nil); err == nil {
				t.Errorf("no error, but %+v", f)
			}
		})
	}

	t.Run("the measurement ends with its context", func(t *testing.T) {
		p := testServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page(50)) })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := measure(ctx, p, list("list", p.address, "", "limit=50", 50), 2, time.Hour, time.Hour, nil); err == nil {
			t.Error("no error")
		}
	})
}

func TestRatio(t *testing.T) {
	these := []figures{{rate: 50}, {rate: 10}, {rate: 30}}
	those := []figures{{rate: 100}, {rate: 100}, {rate: 50}}
	if got := ratio(these, those, rate); got != 0.5 {
		t.Errorf("the median of .5, .1 and .6 is %v", got)
	}
}
