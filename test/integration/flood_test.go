package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/test/collabd"
)

// dial opens a connection to the server, which ends with the test.
func dial(t testing.TB, s *collabd.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1"+strings.TrimPrefix(s.URL, "http://localhost"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestWebhookBodiesTakeBoundedMemory(t *testing.T) {
	const (
		connections = 1500
		promised    = 512 << 10
		sent        = 500 << 10
		budget      = 64 << 20
	)
	s := collabd.Start(t)
	u := s.SignIn(t, "ada@example.com", "Flooded", "owner")
	before := anonymous(t, s.PID(), "VmRSS")
	var refused, waiting atomic.Int64
	var attack sync.WaitGroup
	head := fmt.Sprintf("POST /api/v1/auth/webhook HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", promised)
	body := make([]byte, sent)
	for range connections {
		conn := dial(t, s)
		attack.Go(func() {
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			// A refusal comes before the server has read the body.
			attack.Go(func() { _, _ = conn.Write(append([]byte(head), body...)) })
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				waiting.Add(1)
				return
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			if answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
				t.Errorf("refused with %s, Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
			}
			refused.Add(1)
		})
	}
	began := time.Now()
	u.Must(t, http.StatusOK, "GET", "/tasks", nil, nil)
	took := time.Since(began)
	attack.Wait()
	grown := anonymous(t, s.PID(), "VmHWM") - before
	t.Logf("%d connections: %d refused, %d not answered; the peak is %.1f MiB above idle; a member waited %s", connections, refused.Load(), waiting.Load(), float64(grown)/(1<<20), took)
	if grown > 2*budget+growth+connections*(32<<10) && !collabd.Race {
		t.Errorf("the server's memory grew by %d bytes", grown)
	}
	if refused.Load() < connections/2 {
		t.Errorf("%d of %d were refused", refused.Load(), connections)
	}
}
