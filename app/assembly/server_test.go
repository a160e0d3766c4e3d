package assembly

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/test/must"
)

func TestTheAddressOfAServerLeadsToIt(t *testing.T) {
	for listening, want := range map[string]string{"127.0.0.1:0": "http://localhost:", "0.0.0.0:0": "http://localhost:", "127.0.0.2:0": "http://127.0.0.2:"} {
		l, base, err := listen(read(t, "COLLAB_LISTEN="+listening, "COLLAB_IDENTITY_ISSUER=https://id.example.com", "COLLAB_OPENAI_API_KEY=k",
			"COLLAB_STRIPE_SECRET_KEY=k", "COLLAB_STRIPE_PRICE_STANDARD=a", "COLLAB_STRIPE_PRICE_PREMIUM=b"))
		must.NoError(t, err)
		if address := want + strconv.Itoa(l.Addr().(*net.TCPAddr).Port); string(base) != address {
			t.Errorf("on %s it is %s, want %s", listening, base, address)
		}
		must.NoError(t, l.Close())
	}
}

func TestWorkThatPanicsIsDoneAgainAtItsNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		log, lines, buffered := capturedLogs()
		turns := 0
		repeat(ctx, time.Minute, nil, func(context.Context) error {
			turns++
			panic("boom")
		}, log, "work failed")
		must.NoError(t, buffered.flush())
		if all := strings.Join(lines.take(), ""); turns != 2 || strings.Count(all, `msg="work failed" error="panic: boom\ngoroutine `) != 2 {
			t.Errorf("after %d turns the log is %s", turns, all)
		}
	})
}

func TestTimeoutsOfAStopShareOneDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithTimeout(t.Context(), stopTimeout)
		defer cancel()
		began := time.Now()
		for _, limit := range []time.Duration{drainTimeout, mailTimeout} {
			ctx, over := withStopLimit(stop, limit)
			<-ctx.Done()
			over()
			if took := time.Since(began); took != limit {
				t.Errorf("what has until %v ended after %v", limit, took)
			}
		}
		if stop.Err() != nil {
			t.Error("nothing is left for closing the database")
		}
	})
}
