package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"collab/test/must"
)

// The rows of the small table, and those of the longest page.
const (
	fewRows     = 1_000
	longestPage = 1_000
)

var pageGrowth = atMost("pages", "p50 of a page of the large table, of one of the small table", "%.2f", 1.2)

// taskServer is a server with a table of tasks.
type taskServer struct {
	*collab
	rows     int
	ids      []string
	database *postmaster // nil for SQLite
}

// pages measures sequential requests of a page in a small and in a large organisation, which have databases of
// their own.
func (b *bench) pages(ctx context.Context) {
	onPostgres := func(rows int) *taskServer { return &b.startOnPostgres(ctx, "pages", rows, direct).taskServer }
	onSQLite := func(rows int) *taskServer { return &b.startOnSQLite(ctx, "pages", rows).taskServer }
	b.scoped(func() { b.pagesOn(ctx, "Postgres", onPostgres) })
	b.pagesOn(ctx, "SQLite", onSQLite)
}

func (b *bench) pagesOn(ctx context.Context, name string, start func(rows int) *taskServer) {
	var servers [2]*taskServer
	for i, rows := range []int{fewRows, b.manyRows} {
		servers[i] = start(rows)
	}
	few, many := servers[0], servers[1]
	t := b.newTable(fmt.Sprintf("A page of %d of %d and of %d tasks in one organisation, %s", pageRows, few.rows, many.rows, name),
		"", "p50 ms", "", "ratio", "", "CPU µs (with the database)", "", "ratio")
	for _, p := range pageKinds {
		var found [2][]figures
		var turns []measurement
		for i, s := range servers {
			query := b.query(ctx, p, s)
			turns = append(turns, measurement{s.process, list(p.name, s.address, s.token, query, pageRows), s.database, &found[i]})
		}
		b.measureInTurns(ctx, 1, turns...)
		slower, dearer := ratio(found[1], found[0], p50), ratio(found[1], found[0], totalCPU)
		t.row(p.name, millis(median(found[0], p50)), millis(median(found[1], p50)), fmt.Sprintf("%.2f", slower), b.judge(pageGrowth, p.name+", "+name, slower),
			micros(median(found[0], totalCPU)), micros(median(found[1], totalCPU)), fmt.Sprintf("%.2f", dearer))
	}
	t.print()
}

// pageKind is a page of a list.
type pageKind struct {
	name   string
	filter func(s *taskServer) string
	middle bool // the page in the middle of the list instead of the first
}

func fixed(filter string) func(*taskServer) string { return func(*taskServer) string { return filter } }

var pageKinds = []pageKind{
	{"first page", fixed(""), false},
	{"from the middle", fixed(""), true},
	{"status", fixed("status=TODO"), false},
	{"status, from the middle", fixed("status=TODO"), true},
	{"status and priority", fixed("status=TODO&priority=HIGH"), false},
	{"assignee", func(s *taskServer) string { return "assigneeId=" + s.user }, false},
	{"workspace", func(s *taskServer) string { return "workspaceId=" + s.workspace }, false},
	{"tag", fixed("tags=" + tags[0]), false},
	{"due", fixed("dueBefore=2026-06-30"), false},
}

// query returns the query of a page. It follows the links to the page in the middle, as a client does.
func (b *bench) query(ctx context.Context, p pageKind, s *taskServer) string {
	filter := p.filter(s)
	if filter != "" {
		filter = "&" + filter
	}
	query := fmt.Sprintf("limit=%d%s", pageRows, filter)
	if !p.middle {
		return query
	}
	left := s.rows / 2
	if filter != "" {
		left /= len(statuses)
	}
	next := ""
	for left > 0 {
		step := min(left, longestPage)
		left -= step
		q := fmt.Sprintf("limit=%d%s", step, filter)
		if next != "" {
			q += "&cursor=" + next
		}
		header := must.Do(s.call(ctx, "GET", "/api/v1/tasks?"+q, "", "", nil)).Or(b)
		link, _, _ := strings.Cut(strings.TrimPrefix(header.Get("Link"), "<"), ">")
		u := must.Do(url.Parse(link)).Or(b)
		if next = u.Query().Get("cursor"); next == "" {
			b.Errorf("no next page after %q on %s", q, s.name)
		}
	}
	return query + "&cursor=" + next
}
