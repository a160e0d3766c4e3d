package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"collab/test/must"
)

func TestTheConfigurationIsCheckedForOneRequestAtATime(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	a := built(t, func(o *Options) {
		o.AdminSecret = "secret"
		o.Doctor = func(context.Context) []Finding {
			close(begun)
			<-end
			return []Finding{
				{Check: "database", Verdict: "ok", Message: "answers"},
				{Check: "bus", Verdict: "wrong", Message: "does not answer", Remedy: "set COLLAB_BUS_URL", Variables: [][2]string{{"COLLAB_BUS_URL", "the bus"}}},
			}
		}
	})
	check := func() *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/admin/doctor", nil)
		r.Header.Set("X-Admin-Secret", "secret")
		a.ServeHTTP(w, r)
		return w
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- check() }()
	<-begun
	if w := check(); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "15" {
		t.Errorf("a second request gets %d %v", w.Code, w.Header())
	}
	close(end)
	w := <-first
	var got doctorView
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := doctorView{Checks: []findingView{
		{"database", "ok", "answers", "", []variableView{}},
		{"bus", "wrong", "does not answer", "set COLLAB_BUS_URL", []variableView{{"COLLAB_BUS_URL", "the bus"}}},
	}}
	must.Equal(t, want, got)
}
