package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	distanceRows = 1_000
	oneWay       = 500 * time.Microsecond // between a server and Postgres
	distanceAsks = 200                    // empty queries for the measurement of a round trip
)

// roundTripsGoal allows half of a round trip for the server's work.
var roundTripsGoal = atMost("distance", "p50 in round trips to Postgres", "%.2f", 1.5)

// distance measures sequential requests to servers whose round trip to Postgres takes a millisecond.
func (b *bench) distance(ctx context.Context) (err error) {
	var away string
	pg, err := b.startOnPostgresVia(ctx, "distance", distanceRows, func(address string) (_ string, err error) {
		away, err = delayProxy(ctx, address)
		return away, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.close()) }()
	if err := pg.copyForBare(ctx); err != nil {
		return err
	}
	bare, err := b.startBare(ctx, away)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	trip, err := tripTime(ctx, away)
	if err != nil {
		return err
	}
	t := b.newTable(fmt.Sprintf("Requests over one connection, %v each way between server and Postgres, of which a round trip with an empty query takes %s ms (bare: net/http + pgx without authentication)", oneWay, millis(float64(trip))),
		"", "p50 ms", "bare", "round trips", "bare", "")
	for _, kind := range []string{"get", "list", "create"} {
		var ours, theirs []figures
		for range b.rounds {
			if err := b.round(ctx, 1,
				measurement{pg.process, workloadOf(kind, pg.address, pg.token, pg.ids), nil, &ours},
				measurement{bare, workloadOf(kind, bare.address, "", pg.ids), nil, &theirs}); err != nil {
				return err
			}
		}
		trips := func(f figures) float64 { return p50(f) / float64(trip) }
		got := median(ours, trips)
		t.row(kind, millis(median(ours, p50)), millis(median(theirs, p50)),
			fmt.Sprintf("%.2f", got), fmt.Sprintf("%.2f", median(theirs, trips)), b.judge(roundTripsGoal, kind, got))
	}
	t.print()
	return nil
}

// tripTime returns the median duration of an empty query.
func tripTime(ctx context.Context, address string) (time.Duration, error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	took := make([]time.Duration, distanceAsks)
	for i := range took {
		began := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// delayProxy starts a proxy that delays each direction by oneWay until the context ends, and returns the
// address of Postgres through it.
func delayProxy(ctx context.Context, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	target := u.Host
	u.Host = listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go delay(server, client)
			go delay(client, server)
		}
	}()
	return u.String(), nil
}

// delay copies from one connection to another with a delay of oneWay, and closes both when one of them ends.
func delay(to, from net.Conn) {
	type part struct {
		due  time.Time
		text []byte
	}
	parts := make(chan part, 1024)
	go func() {
		defer to.Close()
		for p := range parts {
			for time.Now().Before(p.due) { // time.Sleep is not precise enough
				runtime.Gosched()
			}
			if _, err := to.Write(p.text); err != nil {
				break
			}
		}
		_ = from.Close()
		for range parts { // until the reader ends
		}
	}()
	defer close(parts)
	for {
		text := make([]byte, 16<<10)
		n, err := from.Read(text)
		if n > 0 {
			parts <- part{time.Now().Add(oneWay), text[:n]}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			return
		}
	}
}
