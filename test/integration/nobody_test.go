package integration

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"collab/test/collabd"
)

func TestCallersWithoutATokenTakeBoundedMemory(t *testing.T) {
	const (
		each   = 12 // connections of every row
		size   = 512 << 10
		budget = 64 << 20
	)
	rows := routeTable(t)
	s := collabd.Start(t, "COLLAB_ADMIN_SECRET="+adminSecret)
	u := s.SignIn(t, "ada@example.com", "Flooded", "owner")
	before := anonymous(t, s.PID(), "VmRSS")
	body := make([]byte, size-1) // the last byte never comes
	parameter := regexp.MustCompile(`\{\w+\}`)
	var refused, waiting atomic.Int64
	var attack sync.WaitGroup
	for _, row := range rows {
		method, path, _ := strings.Cut(row, " ")
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, parameter.ReplaceAllString(path, u.Org), size)
		for range each {
			conn := dial(t, s)
			attack.Go(func() {
				_ = conn.SetDeadline(time.Now().Add(8 * time.Second))
				// An answer may come before the server has read the body.
				attack.Go(func() { _, _ = conn.Write(append([]byte(head), body...)) })
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					waiting.Add(1)
					return
				}
				defer answer.Body.Close()
				_, _ = io.Copy(io.Discard, answer.Body)
				refused.Add(1)
			})
		}
	}
	u.Must(t, http.StatusOK, "GET", "/tasks", nil, nil)
	attack.Wait()
	grown := anonymous(t, s.PID(), "VmHWM") - before
	connections := len(rows) * each
	t.Logf("%d connections: %d answered, %d not; the peak is %.1f MiB above idle", connections, refused.Load(), waiting.Load(), float64(grown)/(1<<20))
	if grown > 2*budget+growth+int64(connections)*(32<<10) && !collabd.Race {
		t.Errorf("the server's memory grew by %d bytes", grown)
	}
}
