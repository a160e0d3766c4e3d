package usage_test

import (
	"testing"
	"time"

	"collab/domain/plan"
	"collab/domain/usage"
	"collab/test/must"

	"pgregory.net/rapid"
)

func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

func subscribed(p plan.Plan, start, end *time.Time) plan.Subscription {
	return plan.Subscription{Org: "o", Plan: p, CurrentPeriodStart: start, CurrentPeriodEnd: end}
}

func TestTheBillingPeriodOfEveryPlan(t *testing.T) {
	start, end := date(2026, 1, 20), date(2026, 2, 20)
	own := usage.Period{Start: start, End: end}
	january := usage.Period{Start: date(2026, 1, 1), End: date(2026, 2, 1)}
	february := usage.Period{Start: date(2026, 2, 1), End: date(2026, 3, 1)}
	now := date(2026, 2, 3)
	for _, c := range []struct {
		about string
		s     plan.Subscription
		now   time.Time
		want  usage.Period
	}{
		{"none has the calendar month", plan.Unsubscribed("o"), now, february},
		{"none has it whatever an operator has set", subscribed(plan.None, &start, &end), now, february},
		{"free has the calendar month", subscribed(plan.Free, nil, nil), now, february},
		{"free has it also where a period is left from before", subscribed(plan.Free, &start, &end), now, february},
		{"standard has its own", subscribed(plan.Standard, &start, &end), now, own},
		{"premium has its own", subscribed(plan.Premium, &start, &end), now, own},
		{"enterprise has its own", subscribed(plan.Enterprise, &start, &end), now, own},
		{"enterprise without an end has the calendar month", subscribed(plan.Enterprise, &start, nil), now, february},
		{"standard without a start has the calendar month", subscribed(plan.Standard, nil, &end), now, february},
		{"the first instant is of the period", subscribed(plan.Standard, &start, &end), start, own},
		{"the instant before is not", subscribed(plan.Standard, &start, &end), start.Add(-1), january},
		{"the last instant is of the period", subscribed(plan.Standard, &start, &end), end.Add(-1), own},
		{"the end is not", subscribed(plan.Standard, &start, &end), end, february},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := usage.PeriodOf(c.s, c.now); !got.Start.Equal(c.want.Start) || !got.End.Equal(c.want.End) {
				t.Errorf("got %s to %s, want %s to %s", got.Start, got.End, c.want.Start, c.want.End)
			}
		})
	}
}

func TestCalendarMonthsAreThoseOfUTC(t *testing.T) {
	east, west := time.FixedZone("east", 14*60*60), time.FixedZone("west", -12*60*60)
	for _, c := range []struct {
		about      string
		now        time.Time
		start, end time.Time
	}{
		{"the last instant of January", date(2026, 2, 1).Add(-1), date(2026, 1, 1), date(2026, 2, 1)},
		{"the first of February", date(2026, 2, 1), date(2026, 2, 1), date(2026, 3, 1)},
		{"a February with 29 days", date(2028, 2, 29), date(2028, 2, 1), date(2028, 3, 1)},
		{"the 31st", date(2026, 8, 31), date(2026, 8, 1), date(2026, 9, 1)},
		{"the last of a year", date(2027, 1, 1).Add(-1), date(2026, 12, 1), date(2027, 1, 1)},
		{"where the next month has begun", time.Date(2026, 4, 1, 13, 0, 0, 0, east), date(2026, 3, 1), date(2026, 4, 1)},
		{"where the month before has not ended", time.Date(2026, 3, 31, 12, 0, 0, 0, west), date(2026, 4, 1), date(2026, 5, 1)},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := usage.PeriodOf(plan.Unsubscribed("o"), c.now); got != (usage.Period{Start: c.start, End: c.end}) {
				t.Errorf("got %s to %s, want %s to %s", got.Start, got.End, c.start, c.end)
			}
		})
	}
}

func TestEveryInstantIsInItsPeriod(t *testing.T) {
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "seconds"), 0).
			In(time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "offset")))
	})
	rapid.Check(t, func(t *rapid.T) {
		start, now := instant.Draw(t, "start"), instant.Draw(t, "now")
		end := start.AddDate(0, rapid.IntRange(0, 24).Draw(t, "months"), 0)
		p := rapid.SampledFrom([]plan.Plan{plan.None, plan.Free, plan.Standard, plan.Premium, plan.Enterprise}).Draw(t, "plan")
		s := subscribed(p, &start, &end)
		got := usage.PeriodOf(s, now)
		if now.Before(got.Start) || !now.Before(got.End) {
			t.Fatalf("%s is not from %s to %s", now, got.Start, got.End)
		}
		for _, edge := range []time.Time{got.Start, got.End.Add(-1)} {
			if p == plan.None && usage.PeriodOf(s, edge) != got {
				t.Fatalf("%s is of another month than %s", edge, now)
			}
		}
	})
}

func TestSumsAddUp(t *testing.T) {
	got := usage.Sum{Input: 1, Output: 20, Requests: 300}.Plus(usage.Sum{Input: 4_000, Output: 50_000, Requests: 600_000})
	must.Is(t, usage.Sum{Input: 4_001, Output: 50_020, Requests: 600_300}, got)
}
