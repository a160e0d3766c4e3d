package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
	a := serving(t, http.MethodGet, public, (*call).succeed, func(o *Options) {
		o.Now, o.Rates = manual.Now, limit.Rates{Address: limit.Rate{Count: 3, Per: time.Minute}}
	})
	from := func(address string) *http.Request {
		r := get("/test")
		r.RemoteAddr = address
		return r
	}
	for left := 2; left >= 0; left-- {
		w := send(a, from("192.0.2.1:1000"))
		reset := fmt.Sprint((3 - left) * 20)
		for header, want := range map[string]string{
			"RateLimit-Limit": "3", "RateLimit-Remaining": fmt.Sprint(left), "RateLimit-Reset": reset,
			"RateLimit-Policy": `"address";q=3;w=60`, "RateLimit": fmt.Sprintf(`"address";r=%d;t=%s`, left, reset), "Retry-After": "",
		} {
			if got := w.Header().Get(header); w.Code != 200 || got != want {
				t.Errorf("with %d left: %d, %s is %q, want %q", left, w.Code, header, got, want)
			}
		}
	}
	w := send(a, from("192.0.2.1:2000"))
	refused(t, w, http.StatusTooManyRequests)
	must.Is(t, "20", w.Header().Get("Retry-After"))
	if w := send(a, from("192.0.2.2:1000")); w.Code != 200 {
		t.Errorf("another address gets %d", w.Code)
	}
	manual.Advance(20 * time.Second)
	if w := send(a, from("192.0.2.1:1000")); w.Code != 200 {
		t.Errorf("after Retry-After it is %d", w.Code)
	}
}

func TestRequestsAreLimitedByPlan(t *testing.T) {
	const refusedBody = `{"message":7}` // 400, which counts as well
	w := newMemberServer(t, limit.Rates{Caller: limit.Rate{Count: 22, Per: time.Hour}})
	manual := memory.NewClock(time.Date(2026, 1, 2, 3, 4, 15, 0, time.UTC))
	w.PlanLimiter = ratelimit.New(w.store, manual, plan.RequestLimits{plan.Premium: 20}, func(err error) { t.Error(err) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.PlanLimiter.Work(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	headers := func(w *httptest.ResponseRecorder, want map[string]string) {
		t.Helper()
		for name, v := range want {
			if got := w.Header().Get(name); got != v {
				t.Errorf("%s is %q, want %q", name, got, v)
			}
		}
	}
	for i := range 20 {
		last := w.chat(refusedBody)
		refused(t, last, http.StatusBadRequest)
		if i == 19 {
			headers(last, map[string]string{"RateLimit": `"PREMIUM";r=0;t=45`})
		}
	}
	over := w.chat(refusedBody)
	if e := refused(t, over, http.StatusTooManyRequests); !strings.Contains(e.Message, "PREMIUM") {
		t.Error(e.Message)
	}
	headers(over, map[string]string{
		"Retry-After": "45", "RateLimit-Limit": "20", "RateLimit-Remaining": "0", "RateLimit-Reset": "45",
		"RateLimit-Policy": `"PREMIUM";q=20;w=60`, "RateLimit": `"PREMIUM";r=0;t=45`,
	})
	manual.Advance(45 * time.Second)
	next := w.chat(refusedBody)
	refused(t, next, http.StatusBadRequest)
	headers(next, map[string]string{"RateLimit-Limit": "22", "RateLimit-Remaining": "0"}) // of the caller, who has less left
}
