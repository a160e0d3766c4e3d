package task

import (
	"time"

	"collab/domain/check"
)

const (
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
	if len(s) == len(time.DateOnly) {
		t, err := time.Parse(time.DateOnly, s)
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

// String writes the due date as it came, instants in UTC with milliseconds.
func (d Due) String() string {
	if d.day {
		return d.at.Format(time.DateOnly)
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
