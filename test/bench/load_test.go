package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
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

func TestAWrongResponseEndsAMeasurement(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a page that is too short":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page(49)) },
		"another status":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); fmt.Fprint(w, page(50)) },
		"a response that is cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			p := testServer(t, h)
			if f, err := measure(t.Context(), p, list("list", p.address, "", "limit=50", 50), 2, time.Millisecond, 50*time.Millisecond, nil); err == nil {
				t.Errorf("no error, but %+v", f)
			}
		})
	}
}

func TestRatio(t *testing.T) {
	these := []figures{{rate: 50}, {rate: 10}, {rate: 30}}
	those := []figures{{rate: 100}, {rate: 100}, {rate: 50}}
	if got := ratio(these, those, rate); got != 0.5 {
		t.Errorf("the median of .5, .1 and .6 is %v", got)
	}
}
