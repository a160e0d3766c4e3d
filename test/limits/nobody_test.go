package limits

import (
	"fmt"
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
	var refused, waiting atomic.Int64
	var attack sync.WaitGroup
	for _, row := range rows {
		method, path, _ := strings.Cut(row, " ")
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", method, parameter.ReplaceAllString(path, u.Org), size)
		for range each {
			sendUnfinished(t, s, &attack, head, body, 8*time.Second, func(answer *http.Response) {
				if answer == nil {
					waiting.Add(1)
					return
				}
				refused.Add(1)
			})
		}
	}
	u.Must(t, http.StatusOK, "GET", "/tasks", nil, nil)
	attack.Wait()
	grown := anonymous(t, s.PID(), "VmHWM") - before
	connections := len(rows) * each
	t.Logf("%d connections: %d answered, %d not; the peak is %.1f MiB above idle", connections, refused.Load(), waiting.Load(), float64(grown)/(1<<20))
	if grown > 2*budget+growth+int64(connections)*(32<<10) {
		t.Errorf("the server's memory grew by %d bytes", grown)
	}
}
