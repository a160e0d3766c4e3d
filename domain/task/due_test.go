package task_test

import (
	"testing"
	"time"

	"collab/domain/task"

	"pgregory.net/rapid"
)

func TestDueDatesKeepThePrecisionTheyCameWith(t *testing.T) {
	for in, out := range map[string]string{
		"2026-01-31":                          "2026-01-31",
		"2028-02-29":                          "2028-02-29",
		"0001-01-01":                          "0001-01-01",
		"9999-12-31":                          "9999-12-31",
		"2026-01-31T10:00:00Z":                "2026-01-31T10:00:00.000Z",
		"2026-01-31T10:00:00.123456789Z":      "2026-01-31T10:00:00.123Z",
		"2026-01-31T00:30:00+01:00":           "2026-01-30T23:30:00.000Z",
		"2026-01-31T23:30:00.5-01:00":         "2026-02-01T00:30:00.500Z",
		"9999-12-31T23:59:59.999Z":            "9999-12-31T23:59:59.999Z",
		"":                                    "",
		"2026-02-29":                          "",
		"2026-13-01":                          "",
		"2026-1-31":                           "",
		"0000-01-01":                          "",
		"10000-01-01":                         "",
		"tomorrow":                            "",
		"2026-01-31 10:00":                    "",
		"2026-01-31T10:00:00":                 "",
		"2026-01-31T24:00:00Z":                "",
		"2026-01-31T10:00:60Z":                "",
		"2026-01-31T1:00:00Z":                 "",
		"2026-01-31T10:00:00,5Z":              "",
		"2026-01-31T10:00:00+24:00":           "",
		"2026-01-31T10:00:00+23:60":           "",
		"2026-01-31T10:00:00+23:59":           "2026-01-30T10:01:00.000Z",
		"9999-12-31T23:59:59-01:00":           "",
		"0001-01-01T00:00:00+01:00":           "",
		" 2026-01-31":                         "",
		"2026-01-31T10:00:00Z; drop table t;": "",
	} {
		d, ok := task.ParseDue(in)
		if ok != (out != "") || ok && d.String() != out {
			t.Errorf("%q is %q, %v; want %q", in, d, ok, out)
		}
	}
}

func TestADateCoversItsWholeDayAndAnInstantNothingBesideItself(t *testing.T) {
	day, _ := task.ParseDue("2026-01-31")
	if day.Start() != time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC) || day.End() != time.Date(2026, 1, 31, 23, 59, 59, 999e6, time.UTC) {
		t.Errorf("from %v to %v", day.Start(), day.End())
	}
	instant, _ := task.ParseDue("2026-01-31T10:00:00Z")
	if instant.Start() != instant.End() || instant.Start() != time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC) {
		t.Errorf("from %v to %v", instant.Start(), instant.End())
	}
}

func TestDueDatesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms")).UTC()
		for _, text := range []string{at.Format("2006-01-02T15:04:05.000Z"), at.Format(time.DateOnly)} {
			d, ok := task.ParseDue(text)
			if !ok || d.String() != text {
				t.Fatalf("%s was read as %s", text, d)
			}
			if at.Before(d.Start()) || at.After(d.End()) {
				t.Fatalf("%v is not within %s", at, d)
			}
		}
	})
}
