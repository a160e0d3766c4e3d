package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// median returns the middle of the values of what f takes from each.
func median[S any, T cmp.Ordered](all []S, f func(S) T) T {
	values := make([]T, len(all))
	for i, v := range all {
		values[i] = f(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func itself[T any](v T) T { return v }

// ratio is the median of what is measured divided, round by round, by what it
// is measured against: both ran right after one another.
func ratio[S any](these, those []S, f func(S) float64) float64 {
	rounds := make([]float64, len(these))
	for i := range these {
		rounds[i] = f(these[i]) / f(those[i])
	}
	return median(rounds, itself)
}

func rate(f figures) float64     { return f.rate }
func cpuOf(f figures) float64    { return float64(f.cpu) }
func together(f figures) float64 { return float64(f.cpu + f.database) }
func p50(f figures) float64      { return float64(f.p50) }
func p99(f figures) float64      { return float64(f.p99) }

func micros(ns float64) string { return fmt.Sprintf("%.0f", ns/float64(time.Microsecond)) }

func millis(ns float64) string { return fmt.Sprintf("%.2f", ns/float64(time.Millisecond)) }

func thousands(v float64) string { return fmt.Sprintf("%.1fk", v/1000) }

// verdict says whether a figure is within its target.
func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "MISSED"
}

func atLeast(got, want float64) string {
	return fmt.Sprintf("at least %.2f: %s", want, verdict(got >= want))
}

func atMost(got, want float64, format string) string {
	return fmt.Sprintf("at most "+format+": %s", want, verdict(got <= want))
}

// table prints columns under one another.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, title string, columns ...string) table {
	fmt.Fprintf(out, "\n%s\n\n", title)
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(columns...)
	return t
}

func (t table) row(cells ...string) {
	fmt.Fprintln(t.w, "  "+strings.Join(cells, "\t"))
}

func (t table) print() { _ = t.w.Flush() }
