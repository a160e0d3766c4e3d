package httpapi

import (
	"testing"
	"time"

	"collab/domain/quota"
	"collab/domain/usage"
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
