package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// median returns the median of the values of f.
func median[S any, T cmp.Ordered](all []S, f func(S) T) T {
	values := make([]T, len(all))
	for i, v := range all {
		values[i] = f(v)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func identity[T any](v T) T { return v }

// ratio returns the median over the rounds of the figure of a divided by that of b, which were measured one
// after the other.
func ratio[S any](a, b []S, f func(S) float64) float64 {
	rounds := make([]float64, len(a))
	for i := range a {
		rounds[i] = f(a[i]) / f(b[i])
	}
	return median(rounds, identity)
}

func rate(f figures) float64     { return f.rate }
func cpuOf(f figures) float64    { return float64(f.cpu) }
func totalCPU(f figures) float64 { return float64(f.cpu + f.database) }
func p50(f figures) float64      { return float64(f.p50) }
func p99(f figures) float64      { return float64(f.p99) }

func micros(ns float64) string { return fmt.Sprintf("%.0f", ns/float64(time.Microsecond)) }

func tenths(ns float64) string { return fmt.Sprintf("%.1f", ns/float64(time.Microsecond)) }

func millis(ns float64) string { return fmt.Sprintf("%.2f", ns/float64(time.Millisecond)) }

func thousands(v float64) string { return fmt.Sprintf("%.1fk", v/1000) }

// A goal is a lower or an upper bound of a figure of a part.
type goal struct {
	part, figure string
	bound        float64
	peak         bool   // it is an upper bound
	format       string // of figure and bound
}

// goals are the goals of all parts.
var goals []*goal

// atLeast declares a lower bound for a figure of a part with a format, such as "%.0f ms".
func atLeast(part, figure, format string, bound float64) *goal {
	goals = append(goals, &goal{part, figure, bound, false, format})
	return goals[len(goals)-1]
}

// atMost declares an upper bound.
func atMost(part, figure, format string, bound float64) *goal {
	g := atLeast(part, figure, format, bound)
	g.peak = true
	return g
}

func (g *goal) String() string {
	if g.peak {
		return fmt.Sprintf("at most "+g.format, g.bound)
	}
	return fmt.Sprintf("at least "+g.format, g.bound)
}

// verdict returns "reached" if the printed figure reaches the goal, else "MISSED".
func (g *goal) verdict(printed string) string {
	number, _, _ := strings.Cut(printed, " ")
	got, err := strconv.ParseFloat(number, 64)
	if err == nil && (got == g.bound || (got < g.bound) == g.peak) {
		return "reached"
	}
	return "MISSED"
}

// judge records a figure under a load, such as "get, 16 connections", and returns the cell of a table with its
// verdict.
func (b *bench) judge(g *goal, load string, got float64) string {
	v := verdict{part: g.part, load: load, figure: g.figure, delivered: fmt.Sprintf(g.format, got), goal: g.String()}
	v.result = g.verdict(v.delivered)
	b.result.verdicts = append(b.result.verdicts, v)
	return v.goal + ": " + v.result
}

// table prints aligned columns, and writes them to the page.
type table struct {
	w    *tabwriter.Writer
	page *strings.Builder
}

func (b *bench) newTable(title string, columns ...string) table {
	fmt.Fprintf(b.out, "\n%s\n\n", title)
	t := table{tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0), &b.result.tables}
	fmt.Fprintf(t.page, "\n%s:\n\n", title)
	t.row(columns...)
	t.page.WriteString(strings.Repeat("|---", len(columns)) + "|\n")
	return t
}

func (t table) row(cells ...string) {
	fmt.Fprintln(t.w, "  "+strings.Join(cells, "\t"))
	writeRow(t.page, cells...)
}

func (t table) print() { _ = t.w.Flush() }
