package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"collab/test/must"
)

var (
	publishedOnSQLite   = atLeast("publish", "writes/s", "%.0f", 1_000)
	publishedOnPostgres = atLeast("publish", "writes/s", "%.0f", 500)
)

// publishers is the number of organisations that write, each with one log.
const publishers = 100

// note is the content of a small write.
var note = strings.Repeat("What everybody of the team knows by now. ", 5)[:200]

// publish measures small writes of many organisations. Each is stored in a file, recorded, and appended to the
// log of its organisation before it is acknowledged. The bare server only stores the file.
func (b *bench) publish(ctx context.Context) {
	s := b.startServers(ctx, "publish")
	bare := s.bare
	onPostgres := must.Do(postmasterOf(ctx, s.conn)).Or(b)
	sqlite, pg := b.newPublishing(ctx, s.sqlite), b.newPublishing(ctx, s.pg)
	alone := workload{
		name: "the file alone", status: http.StatusCreated,
		head:  []byte("POST " + bareUploads + headers(bare.address, "", "Content-Type: text/plain", fmt.Sprintf("Content-Length: %d", len(note))) + note),
		valid: func(body []byte, _ string) bool { return bytes.Contains(body, []byte(`"size":200`)) },
	}

	var all []*series
	for _, connections := range []int{16, 64} {
		for _, kind := range []string{"memory", "new file"} {
			s := &series{kind: kind, connections: connections}
			b.measureInTurns(ctx, connections,
				measurement{sqlite.process, sqlite.workload(kind), nil, &s.sqlite},
				measurement{bare, alone, nil, &s.bare},
				measurement{pg.process, pg.workload(kind), onPostgres, &s.postgres})
			all = append(all, s)
		}
	}
	b.printPublished(all)
}

func (b *bench) printPublished(all []*series) {
	t := b.newTable(fmt.Sprintf("Writes of %d bytes in %d organisations, files in a folder, everything with fsync, Postgres %s (bare: net/http and the file alone)", len(note), publishers, b.postgres),
		"", "connections", "on", "writes/s", "", "bare", "ratio", "p50 ms", "bare", "p99 ms", "bare", "CPU µs", "with the database", "bare")
	for _, s := range all {
		for _, d := range []struct {
			name    string
			figures []figures
			goal    *goal
		}{{"SQLite", s.sqlite, publishedOnSQLite}, {"Postgres", s.postgres, publishedOnPostgres}} {
			got := median(d.figures, rate)
			t.row(s.kind, strconv.Itoa(s.connections), d.name,
				fmt.Sprintf("%.0f", got), b.judge(d.goal, fmt.Sprintf("%s, %s, %d connections", s.kind, d.name, s.connections), got),
				fmt.Sprintf("%.0f", median(s.bare, rate)), fmt.Sprintf("%.2f", ratio(d.figures, s.bare, rate)),
				millis(median(d.figures, p50)), millis(median(s.bare, p50)), millis(median(d.figures, p99)), millis(median(s.bare, p99)),
				micros(median(d.figures, cpuOf)), micros(median(d.figures, totalCPU)), micros(median(s.bare, cpuOf)))
		}
	}
	t.print()
}

// publishing is a server with an owner of each of many organisations.
type publishing struct {
	*collab
	tokens []string
}

func (b *bench) newPublishing(ctx context.Context, c *collab) *publishing {
	p := &publishing{collab: c}
	orgs := map[string]bool{c.org: true}
	for i := range publishers {
		var s session
		must.NoError(b, c.exchangeIn(ctx, fmt.Sprintf("Publisher %d", i), fmt.Sprintf("publisher%d", i), "owner", &s))
		if orgs[s.Org.ID] {
			b.Errorf("publisher %d has no organisation of its own", i)
		}
		orgs[s.Org.ID] = true
		p.tokens = append(p.tokens, s.Token)
	}
	return p
}

// workload returns the workload that writes for one of the organisations at random: its memory, or a new
// file.
func (p *publishing) workload(kind string) workload {
	w := workload{name: kind, status: http.StatusOK, valid: func(body []byte, _ string) bool {
		return bytes.Contains(body, []byte(`"size":200,`)) && bytes.HasSuffix(body, []byte("}\n"))
	}}
	const digits = 12
	request, path := "PUT /api/v1/sync/memory/org", ""
	if kind != "memory" {
		w.status, request, path = http.StatusCreated, "POST /api/v1/sync/files", `"path":"notes/`
	}
	rest := `"content":"` + note + `"}`
	length := len("{") + len(path) + len(rest)
	if path != "" {
		length += digits + len(`",`)
	}
	head := headers(p.address, "", "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", length))
	w.head = []byte(request + strings.TrimSuffix(head, "\r\n") + "Authorization: Bearer ")
	w.tail = []byte(rest)
	w.next = func(random *rand.Rand) string {
		one := p.tokens[random.IntN(len(p.tokens))] + "\r\n\r\n{" + path
		if path == "" {
			return one
		}
		return one + serial(random) + `",`
	}
	return w
}
