// Package calendar holds calendar days.
package calendar

import "time"

// Day is a UTC day, as 2026-01-31.
type Day string

// DayOf returns the day of a time.
func DayOf(t time.Time) Day { return Day(t.UTC().Format(time.DateOnly)) }

// ParseDay reads a day; ok is false for anything else.
func ParseDay(s string) (d Day, ok bool) {
	t, err := time.Parse(time.DateOnly, s)
	return Day(s), err == nil && t.Format(time.DateOnly) == s
}

// Start returns the first instant of the day.
func (d Day) Start() time.Time {
	t, _ := time.Parse(time.DateOnly, string(d)) // every Day is valid
	return t
}

// End returns the first instant of the day after.
func (d Day) End() time.Time { return d.Start().AddDate(0, 0, 1) }
