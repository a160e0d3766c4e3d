package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

const (
	distanceRows = 1_000
	oneWay       = 500 * time.Microsecond // between a server and Postgres
	distanceAsks = 200                    // empty queries for the measurement of a round trip
)

// roundTripsGoal allows half of a round trip for the server's work.
var roundTripsGoal = atMost("distance", "p50 in round trips to Postgres", "%.2f", 1.5)

// distance measures sequential requests to servers whose round trip to Postgres takes a millisecond.
func (b *bench) distance(ctx context.Context) {
	pg, bare := b.startBesideBare(ctx, "distance", distanceRows, b.delayed)
	trip := b.tripTime(ctx, pg.url)
	t := b.newTable(fmt.Sprintf("Requests over one connection, %v each way between server and Postgres, of which a round trip with an empty query takes %s ms (bare: net/http + pgx without authentication)", oneWay, millis(float64(trip))),
		"", "p50 ms", "bare", "round trips", "bare", "")
	for _, kind := range []string{"get", "list", "create"} {
		var ours, theirs []figures
		b.measureInTurns(ctx, 1,
			measurement{pg.process, workloadOf(kind, pg.address, pg.token, pg.ids), nil, &ours},
			measurement{bare, workloadOf(kind, bare.address, "", pg.ids), nil, &theirs})
		trips := func(f figures) float64 { return p50(f) / float64(trip) }
		got := median(ours, trips)
		t.row(kind, millis(median(ours, p50)), millis(median(theirs, p50)),
			fmt.Sprintf("%.2f", got), fmt.Sprintf("%.2f", median(theirs, trips)), b.judge(roundTripsGoal, kind, got))
	}
	t.print()
}

// tripTime returns the median duration of an empty query.
func (b *bench) tripTime(ctx context.Context, address string) time.Duration {
	conn := must.Do(pgx.Connect(ctx, address)).Or(b)
	defer conn.Close(ctx)
	took := make([]time.Duration, distanceAsks)
	for i := range took {
		began := time.Now()
		must.NoError(b, conn.Ping(ctx))
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// delayed returns the address of Postgres through a relay that delays each direction by oneWay.
func (b *bench) delayed(address string) string {
	u := must.Do(url.Parse(address)).Or(b)
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(b)
	b.relay(l, u.Host, newDelayedConn)
	u.Host = l.Addr().String()
	return u.String()
}

// delayedConn is a connection that writes and closes with a delay of oneWay.
type delayedConn struct {
	net.Conn
	parts chan delayedPart
}

type delayedPart struct {
	due  time.Time
	text []byte // nil: close
}

func newDelayedConn(c net.Conn) net.Conn {
	d := delayedConn{c, make(chan delayedPart, 1024)}
	go func() {
		defer c.Close()
		for p := <-d.parts; p.text != nil; p = <-d.parts {
			for time.Now().Before(p.due) { // time.Sleep is not precise enough
				runtime.Gosched()
			}
			_, _ = c.Write(p.text) // the relay's next read returns the error
		}
	}()
	return d
}

func (d delayedConn) Write(p []byte) (int, error) {
	d.parts <- delayedPart{time.Now().Add(oneWay), bytes.Clone(p)}
	return len(p), nil
}

func (d delayedConn) Close() error {
	d.parts <- delayedPart{}
	return nil
}
