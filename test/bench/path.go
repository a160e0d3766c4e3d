package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"collab/test/must"
)

// signedInCost is the goal of the processor time of a signed-in request that does nothing, divided by that of the
// bare server for a response of the same bytes.
var signedInCost = atMost("path", "CPU", "%.2f of net/http", 1.25)

// pathConnections is the number of connections of path.
const pathConnections = 16

// pathStep is a request that passes more layers than the step before it.
type pathStep struct {
	name, path   string
	token        string
	response     []byte
	collab, bare []figures // bare: with the same bytes
}

// path measures the processor time of requests that do nothing. Each row of its table adds layers to the row
// before. The bare server sends the same bytes.
func (b *bench) path(ctx context.Context) {
	c := b.startCollab(ctx, "collabd-path", "sqlite")
	bare := b.startBare(ctx, "")
	steps := []*pathStep{
		{name: "public, without limits", path: "/healthz"},
		{name: "public, limited, logged", path: checkPath + "?version=1.0.0&platform=linux&arch=x64"},
		{name: "signed in", path: "/api/v1/models", token: c.token},
	}
	responses := map[string][]byte{}
	for _, s := range steps {
		_, response, err := fetch(ctx, "GET", "http://"+c.address+s.path, s.token, "", "")
		must.NoError(b, err)
		s.response = response
		responses["path="+s.path] = s.response
	}
	must.NoError(b, bare.setResponses(ctx, responses))
	for _, s := range steps {
		b.measureInTurns(ctx, pathConnections,
			measurement{c.process, s.request(c.address, s.path), nil, &s.collab},
			measurement{bare, s.request(bare.address, checkPath+"?path="+s.path), nil, &s.bare})
	}
	b.printPath(steps)
}

// request returns the workload of the step.
func (s *pathStep) request(address, path string) workload {
	return workload{
		name: s.name, status: http.StatusOK, head: []byte("GET " + path), tail: []byte(headers(address, s.token)),
		valid: func(body []byte, _ string) bool { return bytes.Equal(body, s.response) },
	}
}

func (b *bench) printPath(steps []*pathStep) {
	t := b.newTable(fmt.Sprintf("Requests that do nothing, %d connections, SQLite (bare: net/http that sends the same bytes)", pathConnections),
		"", "bytes", "CPU µs", "bare", "ratio", "", "requests/s", "bare", "ratio")
	for _, s := range steps {
		cost, target := ratio(s.collab, s.bare, cpuOf), ""
		if s.token != "" {
			target = b.judge(signedInCost, fmt.Sprintf("%s, %d connections", s.name, pathConnections), cost)
		}
		t.row(s.name, strconv.Itoa(len(s.response)), tenths(median(s.collab, cpuOf)), tenths(median(s.bare, cpuOf)), fmt.Sprintf("%.2f", cost), target,
			thousands(median(s.collab, rate)), thousands(median(s.bare, rate)), fmt.Sprintf("%.2f", ratio(s.collab, s.bare, rate)))
	}
	t.print()
}
