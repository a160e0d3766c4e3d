package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// At the start of a machine the network may be missing; a refusal is final.
func TestASynchroniserWaitsForItsServerAtTheStart(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "600") // more than a request waits for
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	for _, once := range []bool{true, false} {
		requests.Store(0)
		a, _, errs := terminal(t, 80, map[string]string{"COLLAB_SERVER": server.URL, "COLLAB_TOKEN": "token"})
		args, want := []string{"sync", t.TempDir()}, exitSignIn
		if once {
			args, want = append(args, "--once"), exitFailure
		}
		if code := a.run(t.Context(), args); code != want || strings.Contains(errs.String(), "is asked again") == once {
			t.Errorf("with --once %v it exits with %d after %q", once, code, errs)
		}
	}
}
