package limits

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

// dial opens a connection to the server, which ends with the test.
func dial(t testing.TB, s *collabd.Server) net.Conn {
	t.Helper()
	conn := must.Do(net.Dial("tcp", "127.0.0.1"+strings.TrimPrefix(s.URL, "http://localhost"))).Or(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// manyConnections are those of one attack.
const manyConnections = 3000

// flooded attacks a server while a member reads and writes. It reports how far the
// process's memory grew and how long the slowest request of the member took, and fails
// where that is more than a bound.
func flooded(t *testing.T, s *collabd.Server, bound int64, attack func()) {
	t.Helper()
	u := s.SignIn(t, "ada@example.com", "Flooded", "owner")
	u.Grant(t, "PREMIUM")
	before := anonymous(t, s.PID(), "VmRSS")
	over := make(chan struct{})
	var member sync.WaitGroup
	var slowest time.Duration
	member.Go(func() {
		for {
			began := time.Now()
			if status, body, err := u.Do("POST", "/tasks", map[string]any{"title": "meanwhile"}); err != nil || status != http.StatusCreated {
				t.Errorf("a member's request is answered %d %s, %v", status, body, err)
			}
			slowest = max(slowest, time.Since(began))
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	attack()
	close(over)
	member.Wait()
	grown := anonymous(t, s.PID(), "VmHWM") - before
	t.Logf("the peak is %.1f MiB above idle; the slowest request of a member took %s", float64(grown)/(1<<20), slowest)
	if grown > bound && !race.Enabled {
		t.Errorf("the server's memory grew by %d bytes, more than %d", grown, bound)
	}
}

func TestUnfinishedHeadersTakeBoundedMemory(t *testing.T) {
	var lines strings.Builder
	for i := 0; lines.Len() < 60<<10; i++ {
		fmt.Fprintf(&lines, "%x:\n", i)
	}
	for name, begin := range map[string]string{
		"a few":             "GET / HTTP/1.1\r\nHost: x\r\n",
		"many lines":        "GET / HTTP/1.1\r\nHost: x\r\n" + lines.String(),
		"many short lines":  "GET / HTTP/1.1\r\nHost: x\r\n" + lines.String()[:7<<10],
		"a block of HTTP/2": unfinishedBlock(),
	} {
		t.Run(name, func(t *testing.T) {
			const budget = 200 << 20
			s := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret, fmt.Sprint("COLLAB_CONNECTIONS=total=", manyConnections+100), fmt.Sprintf("COLLAB_BUDGETS=connections=%dMiB", budget>>20))
			flooded(t, s, 2*budget+growth, func() {
				var sending sync.WaitGroup
				for range manyConnections {
					conn := dial(t, s)
					_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
					sending.Go(func() {
						if _, err := io.WriteString(conn, begin); err == nil {
							_, _ = io.Copy(io.Discard, conn) // until the deadline, or until it is closed
						}
					})
				}
				sending.Wait()
			})
		})
	}
}

// unfinishedBlock is the beginning of a connection of HTTP/2 with as many headers as a
// request may have, without the end of their block.
func unfinishedBlock() string {
	frame := func(kind, flags byte, stream uint32, content []byte) []byte {
		head := []byte{byte(len(content) >> 16), byte(len(content) >> 8), byte(len(content)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), content...)
	}
	var block []byte
	for i := range 1900 {
		name := fmt.Sprintf("%x", i)
		block = append(append(block, 0, byte(len(name))), name...) // a literal that is not indexed
		block = append(block, 0)
	}
	begin := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, nil)...)
	return string(append(begin, frame(1, 0, 1, block)...))
}

func TestAnAddressHasItsShareOfConnections(t *testing.T) {
	const address = 20
	s := collabd.Start(t, fmt.Sprintf("COLLAB_CONNECTIONS=address=%d", address), "COLLAB_TRUSTED_PROXIES=192.0.2.1")
	for i := range address + 1 {
		conn := dial(t, s)
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(conn, "POST /api/v1/auth/webhook HTTP/1.1\r\nHost: x\r\n")
		if i < address {
			continue
		}
		response := must.Do(http.ReadResponse(bufio.NewReader(conn), nil)).Or(t)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("one more is answered %s, %v", response.Status, response.Header)
		}
	}
}

func TestAnIdleConnectionIsClosedForAnotherAndALongResponseIsNot(t *testing.T) {
	s := collabd.Start(t)
	ada := s.SignIn(t, "ada@example.com", "Plant", "owner") // for which the server connects to itself
	s.Stop(t)
	must.NoError(t, s.Restart("COLLAB_CONNECTIONS=total=2"))
	http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(patience)
	// A connection is refused, with 503 or by a reset, while the one before has just been answered.
	request := func(path string) (net.Conn, *http.Response) {
		for {
			conn := dial(t, s)
			_ = conn.SetDeadline(deadline)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, ada.Token)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			switch {
			case err == nil && response.StatusCode == http.StatusOK:
				return conn, response
			case err == nil && response.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline):
				t.Fatalf("%s is answered %v, %v", path, response, err)
			}
		}
	}
	_, feed := request("/api/v1/sync/changes")
	idle, _ := request("/healthz")
	request("/healthz")
	if n, err := io.Copy(io.Discard, idle); err != nil {
		t.Errorf("the idle connection is open: %d bytes, %v", n, err)
	}
	status, err := 0, error(nil)
	for status != http.StatusCreated && time.Now().Before(deadline) {
		status, _, err = ada.Do("POST", "/sync/files", map[string]string{"path": "a.txt", "content": "a"})
	}
	if status != http.StatusCreated {
		t.Fatalf("POST /sync/files is %d, %v", status, err)
	}
	lines := bufio.NewScanner(feed.Body)
	for !strings.HasPrefix(lines.Text(), "data:") {
		if !lines.Scan() {
			t.Fatalf("the feed ends: %v", lines.Err())
		}
	}
}
