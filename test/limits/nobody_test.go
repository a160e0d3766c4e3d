package limits

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
	"collab/test/race"
)

// sendUnfinished sends headers and the beginning of a body over a connection of its own, beside the other
// goroutines of an attack, and counts the connection if a response comes within eight seconds.
func sendUnfinished(t *testing.T, s *collabd.Server, attack *sync.WaitGroup, head string, body []byte, answered *atomic.Int64) {
	conn := dial(t, s)
	attack.Go(func() {
		_ = conn.SetDeadline(time.Now().Add(8 * time.Second))
		// A response may come before the server has read the body.
		attack.Go(func() { _, _ = conn.Write(append([]byte(head), body...)) })
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		answered.Add(1)
	})
}

func TestCallersWithoutATokenTakeBoundedMemory(t *testing.T) {
	race.Skip(t, "it measures memory")
	const (
		each   = 12 // connections of every row
		size   = 512 << 10
		budget = 64 << 20
	)
	rows, _ := routeTable(t)
	s := collabd.Start(t, "COLLAB_ADMIN_SECRET="+collabd.AdminSecret)
	u := s.SignIn(t, "ada@example.com", "Flooded", "owner")
	before := anonymous(t, s.PID(), "VmRSS")
	body := make([]byte, size-1) // the last byte never comes
	parameter := regexp.MustCompile(`\{\w+\}`)
	var answered atomic.Int64
	var attack sync.WaitGroup
	for _, row := range rows {
		method, path, _ := strings.Cut(row, " ")
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, parameter.ReplaceAllString(path, u.Org), size)
		for range each {
			sendUnfinished(t, s, &attack, head, body, &answered)
		}
	}
	u.Must(t, http.StatusOK, "GET", "/tasks", nil, nil)
	attack.Wait()
	grown := anonymous(t, s.PID(), "VmHWM") - before
	connections := len(rows) * each
	t.Logf("%d of %d connections were answered; the peak is %.1f MiB above idle", answered.Load(), connections, float64(grown)/(1<<20))
	if grown > 2*budget+growth+int64(connections)*(32<<10) {
		t.Errorf("the server's memory grew by %d bytes", grown)
	}
}
