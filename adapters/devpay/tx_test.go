package devpay

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMonths checks the ends of periods.
func TestMonths(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		anchor := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(r, "anchor"), 0).UTC()
		n := rapid.IntRange(0, 600).Draw(r, "months")
		end := monthsAfter(anchor, n)
		first := time.Date(anchor.Year(), anchor.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		last := first.AddDate(0, 1, -1).Day()
		if end.Month() != first.Month() || end.Year() != first.Year() || end.Day() != min(anchor.Day(), last) || end.Hour() != anchor.Hour() {
			r.Fatalf("%d months after %s is %s", n, anchor, end)
		}
	})
}
