package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"collab/test/must"
)

func TestConcurrentDoctorRequestIs429(t *testing.T) {
	findings := []Finding{
		{"database", "ok", "answers", "", []Variable{}},
		{"bus", "wrong", "does not answer", "set COLLAB_BUS_URL", []Variable{{"COLLAB_BUS_URL", "the bus"}}},
	}
	running, end := make(chan struct{}), make(chan struct{})
	a := newAPI(t, func(o *Options) {
		o.AdminSecret = "secret"
		o.Doctor = func(context.Context) []Finding {
			close(running)
			<-end
			return findings
		}
	})
	check := func() *httptest.ResponseRecorder {
		return send(a, get("/api/v1/admin/doctor", "X-Admin-Secret: secret"))
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- check() }()
	<-running
	second := check()
	checkError(t, second, http.StatusTooManyRequests)
	must.Is(t, "15", second.Header().Get("Retry-After"))
	close(end)
	must.Equal(t, doctorView{Checks: findings}, read[doctorView](t, <-first, http.StatusOK))
}
