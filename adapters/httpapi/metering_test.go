package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"collab/app/metering"
	"collab/domain/chat"
	"collab/domain/org"
	"collab/domain/plan"
	"collab/domain/quota"
	"collab/domain/usage"
	"collab/ports"
)

func TestQuotaView(t *testing.T) {
	s := quota.Status{Used: 74, Limit: 1_000_000, Remaining: 999_926, ResetsAt: time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)}
	want := `{"used":74,"limit":1000000,"remaining":999926,"resetsAt":"2026-01-03T00:00:00.000Z"}`
	checkView(t, viewQuota(s), want)
}

// checkView checks the JSON of a view.
func checkView(t *testing.T, view any, want string) {
	t.Helper()
	if got, err := appendView(nil, view); err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

func TestUsageSummaryView(t *testing.T) {
	base := usage.Summary{
		Period: usage.Period{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)},
		Sum:    usage.Sum{Input: 12, Output: 7, Requests: 2},
	}
	const head = `{"periodStart":"2026-01-01T00:00:00.000Z","periodEnd":"2026-02-01T00:00:00.000Z","inputTokens":12,"outputTokens":7,"totalTokens":19,"requests":2,`
	const sums = `"inputTokens":12,"outputTokens":7,"totalTokens":19,"requests":2}]`
	parts := func(of string) []usage.Part { return []usage.Part{{Of: of, Sum: base.Sum}} }
	filled := base
	filled.ByModel, filled.ByDay = parts("one"), parts("2026-01-31")
	for want, s := range map[string]usage.Summary{
		head + `"byModel":[],"byDay":[]}`: base,
		head + `"byModel":[{"model":"one",` + sums + `,"byDay":[{"date":"2026-01-31",` + sums + `}`: filled,
	} {
		checkView(t, viewSummary(s), want)
	}
}

// serveUsage is an interface whose endpoint at /test shows what a member has used.
func serveUsage(t *testing.T, w *chatServer, show func(*api) handler) *api {
	t.Helper()
	var a *api
	a = serving(t, http.MethodGet, open, func(c *call) error {
		return a.as(&w.actor, show(a))(c)
	}, func(o *Options) { o.Metering = metering.New(w.store, w.Chats.Clock) })
	return a
}

func TestUsageOfChats(t *testing.T) {
	w := newChatServer(t, func(_ context.Context, to ports.Sink) (chat.Reply, error) { return whole, nil })
	quotas := serveUsage(t, w, func(a *api) handler { return a.authorized(a.quotaToday) })
	own := serveUsage(t, w, func(a *api) handler { return a.authorized(a.ownUsage) })
	everyone := serveUsage(t, w, func(a *api) handler { return a.orgUsage })
	shows := func(a *api, want string, not ...string) {
		t.Helper()
		r := send(a, get("/test"))
		if r.Code != 200 || !strings.Contains(r.Body.String(), want) {
			t.Errorf("%d %s lacks %s", r.Code, r.Body, want)
		}
		for _, part := range not {
			if strings.Contains(r.Body.String(), part) {
				t.Errorf("%s has %s", r.Body, part)
			}
		}
	}
	shows(quotas, `{"used":0,"limit":10000000,"remaining":10000000,"resetsAt":"`)
	shows(own, `"totalTokens":0,"requests":0,"byModel":[],"byDay":[]}`)
	shows(everyone, `"totalTokens":0,"requests":0,"byModel":[],"byDay":[],"byUser":[]}`)

	send(w, post("/test", hello))
	w.actor.User = otherID
	send(w, post("/test", hello))
	shows(quotas, `{"used":19,"limit":10000000,"remaining":9999981,`)
	shows(own, `"totalTokens":19,"requests":1,"byModel":[{"model":"one",`, "byUser")
	shows(everyone, `"totalTokens":38,"requests":2,`)
	const each = `"inputTokens":12,"outputTokens":7,"totalTokens":19,"requests":1}`
	shows(everyone, `"byUser":[{"userId":"`+min(someID, otherID)+`",`+each+`,{"userId":"`+max(someID, otherID)+`",`+each+`]}`+"\n")
	for _, role := range []org.Role{org.Member, org.Viewer} {
		w.actor.Role = role
		shows(everyone, `"totalTokens":38,"requests":2,`, "byUser", someID)
	}
	w.subscribe(plan.None)
	shows(quotas, `{"used":19,"limit":0,"remaining":0,`)

	w.actor.Org = otherID // another organisation has used nothing
	shows(quotas, `{"used":0,`)
	shows(own, `"totalTokens":0,"requests":0,`)
	shows(everyone, `"totalTokens":0,"requests":0,`)
	w.actor.Org = ""
	for _, a := range []*api{quotas, own, everyone} {
		refused(t, send(a, get("/test")), http.StatusForbidden)
	}
}
