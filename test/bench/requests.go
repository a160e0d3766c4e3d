package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"collab/test/must"
)

// The table of requests.
const (
	requestRows = 10_000
	pageRows    = 50
	filter      = "status=TODO&limit=50"
)

var (
	requestRate = atLeast("requests", "requests/s, of net/http + pgx", "%.2f", 0.85)
	sqliteCPU   = atMost("requests", "CPU on SQLite, of that on Postgres with the database", "%.2f", 1)
)

// requests measures single requests: Collab on Postgres, the bare server on
// the same Postgres, and Collab on SQLite, in turns.
func (b *bench) requests(ctx context.Context) {
	pg, bare := b.startBesideBare(ctx, "requests", requestRows, direct)
	sqlite := b.startOnSQLite(ctx, "requests", requestRows)
	b.checkSameResponses(ctx, pg, bare)

	var all []*series
	for _, connections := range []int{16, 64} {
		for _, kind := range []string{"get", "list", "create"} {
			s := &series{kind: kind, connections: connections}
			for range b.rounds {
				b.round(ctx, connections,
					measurement{pg.process, workloadOf(kind, pg.address, pg.token, pg.ids), pg.database, &s.postgres},
					measurement{bare, workloadOf(kind, bare.address, "", pg.ids), pg.database, &s.bare},
					measurement{sqlite.process, workloadOf(kind, sqlite.address, sqlite.token, sqlite.ids), nil, &s.sqlite})
				if kind == "create" {
					must.NoError(b, errors.Join(pg.trim(ctx), sqlite.trim(ctx)))
				}
			}
			all = append(all, s)
		}
	}
	b.printRequests(all)
}

func workloadOf(kind, address, token string, ids []string) workload {
	switch kind {
	case "get":
		return get(address, token, ids)
	case "list":
		return list(kind, address, token, filter, pageRows)
	}
	return create(address, token)
}

func (b *bench) printRequests(all []*series) {
	t := b.newTable(fmt.Sprintf("Requests over %d tasks, Postgres %s with fsync (bare: net/http + pgx without authentication, on the same indexes)", requestRows, b.postgres),
		"", "connections", "requests/s", "bare", "ratio", "", "CPU µs", "bare", "with Postgres", "bare", "p50 ms", "bare", "p99 ms", "bare")
	for _, s := range all {
		load := fmt.Sprintf("%s, Postgres, %d connections", s.kind, s.connections)
		share := ratio(s.postgres, s.bare, rate)
		cells := []string{
			s.kind, strconv.Itoa(s.connections), thousands(median(s.postgres, rate)), thousands(median(s.bare, rate)),
			fmt.Sprintf("%.2f", share), b.judge(requestRate, load, share),
		}
		for _, f := range []func(figures) float64{cpuOf, totalCPU} {
			cells = append(cells, micros(median(s.postgres, f)), micros(median(s.bare, f)))
		}
		for _, f := range []func(figures) float64{p50, p99} {
			cells = append(cells, millis(median(s.postgres, f)), millis(median(s.bare, f)))
		}
		t.row(cells...)
	}
	t.print()

	t = b.newTable(fmt.Sprintf("The same on SQLite, %d tasks", requestRows),
		"", "connections", "requests/s", "CPU µs", "on Postgres", "with Postgres", "SQLite / with Postgres", "", "p50 ms", "p99 ms")
	for _, s := range all {
		share := median(s.sqlite, cpuOf) / median(s.postgres, totalCPU)
		t.row(s.kind, strconv.Itoa(s.connections), thousands(median(s.sqlite, rate)),
			micros(median(s.sqlite, cpuOf)), micros(median(s.postgres, cpuOf)), micros(median(s.postgres, totalCPU)),
			fmt.Sprintf("%.2f", share), b.judge(sqliteCPU, fmt.Sprintf("%s, %d connections", s.kind, s.connections), share),
			millis(median(s.sqlite, p50)), millis(median(s.sqlite, p99)))
	}
	t.print()
}

// checkSameResponses fails unless both servers give equal responses to the same requests, apart from the generated
// fields of a new task.
func (b *bench) checkSameResponses(ctx context.Context, pg *onPostgres, bare *process) {
	for _, one := range []struct {
		method, path, body string
		generated          []string // fields that differ
	}{
		{"GET", "/api/v1/tasks/" + pg.ids[len(pg.ids)/2], "", nil},
		{"GET", "/api/v1/tasks?" + filter, "", nil},
		{"POST", "/api/v1/tasks", draft(0), []string{"id", "sortOrder", "createdAt", "updatedAt"}},
	} {
		ours := b.decoded(ctx, one.method, "http://"+pg.address+one.path, pg.token, one.body, one.generated)
		theirs := b.decoded(ctx, one.method, "http://"+bare.address+one.path, "", one.body, one.generated)
		if !reflect.DeepEqual(ours, theirs) {
			b.Errorf("%s %s: the bare server replies otherwise:\n%v\n%v", one.method, one.path, ours, theirs)
		}
	}
	must.NoError(b, pg.trim(ctx))
}

// decoded returns the JSON of a response, without some fields of its object.
func (b *bench) decoded(ctx context.Context, method, address, token, body string, without []string) (response any) {
	_, text, err := fetch(ctx, method, address, token, "application/json", body)
	must.NoError(b, err)
	must.NoError(b, json.Unmarshal(text, &response))
	for _, name := range without {
		delete(response.(map[string]any), name)
	}
	return response
}
