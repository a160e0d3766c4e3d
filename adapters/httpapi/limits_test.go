package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/adapters/memory"
	"collab/app/ratelimit"
	"collab/domain/plan"
	"collab/test/must"
)

func TestAnonymousRequestsAreLimitedPerAddress(t *testing.T) {
	manual := memory.NewClock(time.Unix(1_800_000_000, 0))
	a := serveEndpoint(t, http.MethodGet, public, (*call).succeed, func(o *Options) {
		o.Now, o.Rates = manual.Now, limit.Rates{Address: limit.Rate{Count: 3, Per: time.Minute}}
	})
	from := func(address string) *http.Request {
		r := get("/test")
		r.RemoteAddr = address
		return r
	}
	for left := 2; left >= 0; left-- {
		w := send(a, from("192.0.2.1:1000"))
		must.Is(t, 200, w.Code)
		reset := fmt.Sprint((3 - left) * 20)
		checkHeader(t, w.Header(), map[string]string{
			"RateLimit-Limit": "3", "RateLimit-Remaining": fmt.Sprint(left), "RateLimit-Reset": reset,
			"RateLimit-Policy": `"address";q=3;w=60`, "RateLimit": fmt.Sprintf(`"address";r=%d;t=%s`, left, reset), "Retry-After": "",
		})
	}
	w := send(a, from("192.0.2.1:2000"))
	checkError(t, w, http.StatusTooManyRequests)
	must.Is(t, "20", w.Header().Get("Retry-After"))
	must.Is(t, 200, send(a, from("192.0.2.2:1000")).Code)
	manual.Advance(20 * time.Second)
	must.Is(t, 200, send(a, from("192.0.2.1:1000")).Code)
}

func TestRequestsAreLimitedByPlan(t *testing.T) {
	const invalid = `{"message":7}` // a 400 is charged, too
	w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 22, Per: time.Hour}})
	manual := memory.NewClock(time.Date(2026, 1, 2, 3, 4, 15, 0, time.UTC))
	w.PlanLimiter = ratelimit.New(w.store, manual, plan.RequestLimits{plan.Premium: 20}, func(err error) { t.Error(err) })
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { w.PlanLimiter.Run(ctx) })
	defer work.Wait()
	defer cancel()
	for i := range 20 {
		last := w.chat(invalid)
		checkError(t, last, http.StatusBadRequest)
		if i == 19 {
			checkHeader(t, last.Header(), map[string]string{"RateLimit": `"PREMIUM";r=0;t=45`})
		}
	}
	over := w.chat(invalid)
	if e := checkError(t, over, http.StatusTooManyRequests); !strings.Contains(e.Message, "PREMIUM") {
		t.Error(e.Message)
	}
	checkHeader(t, over.Header(), map[string]string{
		"Retry-After": "45", "RateLimit-Limit": "20", "RateLimit-Remaining": "0", "RateLimit-Reset": "45",
		"RateLimit-Policy": `"PREMIUM";q=20;w=60`, "RateLimit": `"PREMIUM";r=0;t=45`,
	})
	manual.Advance(45 * time.Second)
	next := w.chat(invalid)
	checkError(t, next, http.StatusBadRequest)
	checkHeader(t, next.Header(), map[string]string{"RateLimit-Limit": "22", "RateLimit-Remaining": "0"}) // of the caller, who has fewer left
}
