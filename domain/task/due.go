package task

import (
	"time"

	"collab/domain/check"
)

const (
	dayLayout     = "2006-01-02"
	instantLayout = "2006-01-02T15:04:05.000Z"
	lastOfDay     = 24*time.Hour - time.Millisecond
)

// Due is when a task is due: a whole day in UTC or an instant in milliseconds.
// It keeps the precision it came with. The zero value is not a due date.
type Due struct {
	at  time.Time
	day bool
}

// ParseDue reads an ISO date (2026-01-31) or an RFC 3339 instant, whose offset
// is turned into UTC and whose fraction is cut to milliseconds. Years from 1
// to 9999 can be written, and no others are accepted.
func ParseDue(s string) (Due, bool) {
	if len(s) == len(dayLayout) {
		t, err := time.Parse(dayLayout, s)
		if err != nil || t.Year() < 1 {
			return Due{}, false
		}
		return Due{at: t, day: true}, true
	}
	t, ok := check.Time(s)
	if !ok {
		return Due{}, false
	}
	return Due{at: t}, true
}

// DueOn returns the due date of a whole day, given any instant of it.
func DueOn(t time.Time) Due {
	return Due{at: t.UTC().Truncate(24 * time.Hour), day: true}
}

// DueAt returns the due date of an instant.
func DueAt(t time.Time) Due { return Due{at: t.UTC().Truncate(time.Millisecond)} }

// String writes the due date as it came, instants in UTC with milliseconds.
func (d Due) String() string {
	if d.day {
		return d.at.Format(dayLayout)
	}
	return d.at.Format(instantLayout)
}

// Start returns the first millisecond of the due date.
func (d Due) Start() time.Time { return d.at }

// End returns the last millisecond of the due date.
func (d Due) End() time.Time {
	if d.day {
		return d.at.Add(lastOfDay)
	}
	return d.at
}
