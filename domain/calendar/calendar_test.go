package calendar_test

import (
	"testing"
	"time"

	"collab/domain/calendar"

	"pgregory.net/rapid"
)

func TestDaysAreThoseOfUTC(t *testing.T) {
	east, west := time.FixedZone("east", 14*60*60), time.FixedZone("west", -12*60*60)
	for _, c := range []struct {
		about      string
		at         time.Time
		want       calendar.Day
		start, end string
	}{
		{"the first instant", time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), "2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"the last instant", time.Date(2026, 1, 31, 23, 59, 59, 999_999_999, time.UTC), "2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"where it is tomorrow already", time.Date(2026, 2, 1, 13, 59, 0, 0, east), "2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"where it is still yesterday", time.Date(2025, 12, 31, 12, 0, 0, 0, west), "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"the last of a February with 29", time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), "2028-02-29", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"the last of a year", time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC), "2026-12-31", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		t.Run(c.about, func(t *testing.T) {
			d := calendar.DayOf(c.at)
			if start, end := d.Start().Format(time.RFC3339Nano), d.End().Format(time.RFC3339Nano); d != c.want || start != c.start || end != c.end {
				t.Errorf("got %s from %s to %s, want %s from %s to %s", d, start, end, c.want, c.start, c.end)
			}
		})
	}
}

func TestEveryInstantIsOfExactlyOneDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "offset"))
		at := time.Unix(rapid.Int64Range(0, 7_258_118_400).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
		d := calendar.DayOf(at)
		if at.Before(d.Start()) || !at.Before(d.End()) || d.End().Sub(d.Start()) != 24*time.Hour || calendar.DayOf(d.Start()) != d || calendar.DayOf(d.End()) == d {
			t.Fatalf("%s is of %s, from %s to %s", at, d, d.Start(), d.End())
		}
	})
}

func TestOnlyWrittenDaysAreParsed(t *testing.T) {
	if d, ok := calendar.ParseDay("2028-02-29"); !ok || d != "2028-02-29" {
		t.Errorf("a leap day is %s, %t", d, ok)
	}
	for _, s := range []string{"", "2026-1-1", "2026-02-29", "2026-13-01", "2026-01-01T00:00:00Z", " 2026-01-01", "20260101", "+2026-01-01", "２０２６-01-01"} {
		if _, ok := calendar.ParseDay(s); ok {
			t.Errorf("%q is a day", s)
		}
	}
}
