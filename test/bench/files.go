package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"collab/test/must"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

var (
	uploadRate    = atLeast("files", "bytes/s, of net/http", "%.2f", 0.95)
	bigUploadRate = atLeast("files", "bytes/s, of net/http", "%.2f", 0.8)
	smallRate     = atLeast("files", "bytes/s, of net/http", "%.2f", 0.7)
	largeRate     = atLeast("files", "bytes/s, of net/http", "%.2f", 0.9)
	uploadMemory  = atMost("files", "memory above idle", "%.1f MiB", 32)
)

// Settings of the transfer of files.
const (
	bigUploads     = 4   // at once
	bigSize        = 100 // MiB
	fileTimeout    = 5 * time.Minute
	storedOfAKind  = 32 // files of each size that are downloaded
	fileBoundary   = "bench-boundary-of-a-form-7d1e5c"
	smallTransfers = 16 // connections
	largeTransfers = 4
)

// fileServer is a server of files.
type fileServer struct {
	*process
	token   string // empty: without authentication
	uploads string // the path to post to
	reads   string // the path to download from, up to the id
	query   string // the rest of it
}

// fileSeries are the measurements of one kind of transfer.
type fileSeries struct {
	kind        string
	size        int
	connections int
	rate        *goal // nil: none
	at          [3][]figures
}

// The servers of a round.
const (
	collabOnSQLite = iota
	bareFolder
	collabOnPostgres
)

// files measures uploads and downloads: Collab on SQLite and on Postgres, with its files in a folder, and the
// bare server, in turns. Each round starts new servers.
func (b *bench) files(ctx context.Context) {
	big := &fileSeries{kind: "upload of 100 MiB", size: bigSize * mib, connections: bigUploads, rate: bigUploadRate}
	uploads := []*fileSeries{
		{kind: "upload of 4 KiB", size: 4 * kib, connections: 1},
		{kind: "upload of 4 KiB", size: 4 * kib, connections: smallTransfers, rate: smallRate},
		{kind: "upload of 1 MiB", size: mib, connections: largeTransfers, rate: uploadRate},
	}
	downloads := []*fileSeries{
		{kind: "download of 4 KiB", size: 4 * kib, connections: smallTransfers, rate: smallRate},
		{kind: "download of 1 MiB", size: mib, connections: largeTransfers, rate: largeRate},
	}
	var memory [3][]int64
	for round := range b.rounds {
		b.scoped(func() { b.filesOnce(ctx, round, big, uploads, downloads, &memory) })
	}
	b.printFiles(slices.Concat(uploads, []*fileSeries{big}, downloads), memory)
}

func (b *bench) filesOnce(
	ctx context.Context, round int, big *fileSeries, uploads, downloads []*fileSeries, memory *[3][]int64,
) {
	servers := b.startFileServers(ctx, fmt.Sprintf("files_%d", round))
	must.NoError(b, sleep(ctx, settling))
	content := randomBytes(mib)
	for i, s := range servers {
		idle := must.Do(s.resident()).Or(b)
		must.NoError(b, s.resetPeak())
		f := must.Do(s.atOnce(ctx, s.form(content, bigSize), big.connections)).Or(b)
		most := must.Do(s.peak()).Or(b)
		big.at[i] = append(big.at[i], f)
		memory[i] = append(memory[i], most-idle)
	}
	for _, series := range uploads {
		for i, s := range servers {
			b.round(ctx, series.connections, measurement{s.process, s.form(content[:series.size], 1), nil, &series.at[i]})
		}
	}
	for _, series := range downloads {
		content := randomBytes(series.size)
		var ids [3][]string
		for i, s := range servers {
			ids[i] = must.Do(s.stock(ctx, content)).Or(b)
		}
		// The server hashes a file in each download until its modification is two seconds old.
		must.NoError(b, sleep(ctx, settling))
		for i, s := range servers {
			b.round(ctx, series.connections, measurement{s.process, s.download(content, ids[i]), nil, &series.at[i]})
		}
	}
}

// startFileServers starts a new server of each kind.
func (b *bench) startFileServers(ctx context.Context, name string) (servers [3]fileServer) {
	s := b.startServers(ctx, name)
	for i, c := range map[int]*collab{collabOnSQLite: s.sqlite, collabOnPostgres: s.pg} {
		servers[i] = fileServer{c.process, c.token, "/api/v1/sync/files", "/api/v1/sync/files/", "?raw=1"}
	}
	servers[bareFolder] = fileServer{s.bare, "", bareUploads, bareUploads + "/", ""}
	return servers
}

// randomBytes returns n pseudo-random bytes, which are no text and cannot be compressed.
func randomBytes(n int) []byte {
	b := make([]byte, 0, n+8)
	random := rand.New(rand.NewPCG(uint64(n), 3))
	for len(b) < n {
		v := random.Uint64()
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	return b[:n]
}

// uploaded is the number of uploads, which makes their paths unique.
var uploaded atomic.Int64

func serial(*rand.Rand) string { return fmt.Sprintf("%012d", uploaded.Add(1)) }

// form returns the upload of a repeated block in a form whose fields precede it.
func (s fileServer) form(block []byte, times int) workload {
	field := func(name, value string) string {
		return fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s", fileBoundary, name, value)
	}
	const digits = 12
	before := field("kind", "ARTIFACT") + "\r\n" + field("scope", "SHARED") + "\r\n" + field("path", "bench/")
	after := fmt.Sprintf(".bin\r\n--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"content.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n", fileBoundary)
	end := fmt.Sprintf("\r\n--%s--\r\n", fileBoundary)
	length := len(before) + digits + len(after) + times*len(block) + len(end)
	want := checksumOf(block, times)
	return workload{
		name: fmt.Sprintf("upload of %d bytes", times*len(block)), status: http.StatusCreated, next: serial,
		head: []byte("POST " + s.uploads + headers(s.address, s.token,
			"Content-Type: multipart/form-data; boundary="+fileBoundary, fmt.Sprintf("Content-Length: %d", length)) + before),
		tail: []byte(after), block: block, blocks: times, end: []byte(end),
		valid: func(body []byte, _ string) bool { return bytes.Contains(body, want) },
	}
}

// checksumOf returns the checksum of a repeated block, as it is in a response.
func checksumOf(block []byte, times int) []byte {
	sum := sha256.New()
	for range times {
		sum.Write(block)
	}
	return []byte(`"checksum":"` + hex.EncodeToString(sum.Sum(nil)) + `"`)
}

// download returns the workload that requests one of the files with the content.
func (s fileServer) download(content []byte, ids []string) workload {
	edge := min(len(content), 64)
	return workload{
		name: fmt.Sprintf("download of %d bytes", len(content)), status: http.StatusOK, ids: ids,
		head: []byte("GET " + s.reads), tail: []byte(s.query + headers(s.address, s.token)),
		// stock has compared the whole content, which would take processor time here.
		valid: func(body []byte, _ string) bool {
			return len(body) == len(content) && bytes.HasPrefix(body, content[:edge]) && bytes.HasSuffix(body, content[len(content)-edge:])
		},
	}
}

// stock stores files of the content, and returns an error unless the first has the same content.
func (s fileServer) stock(ctx context.Context, content []byte) (ids []string, err error) {
	for range storedOfAKind {
		var made struct{ ID string }
		_, body, err := fetch(ctx, "POST", "http://"+s.address+s.uploads+"?path=bench/"+serial(nil)+".bin", s.token, "application/octet-stream", string(content))
		if err == nil {
			err = json.Unmarshal(body, &made)
		}
		if err != nil {
			return nil, fmt.Errorf("storing a file on %s: %w", s.name, err)
		}
		ids = append(ids, made.ID)
	}
	_, body, err := fetch(ctx, "GET", "http://"+s.address+s.reads+ids[0]+s.query, s.token, "", "")
	if err == nil && !bytes.Equal(body, content) {
		err = fmt.Errorf("a file on %s has %d other bytes", s.name, len(body))
	}
	return ids, err
}

// atOnce sends one request over each of the connections at the same time, and measures until the last
// response.
func (p *process) atOnce(ctx context.Context, w workload, connections int) (f figures, err error) {
	before, err := p.cpu()
	if err != nil {
		return f, err
	}
	m := newConnectionGroup(connections)
	began := time.Now()
	for range connections {
		c, failed := dial(p.address, fileTimeout)
		if err = errors.Join(err, failed); failed == nil {
			m.add(c, func() ([]time.Duration, error) {
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				_, err := c.exchange(w, w.next(nil))
				return []time.Duration{time.Since(began)}, err
			})
		}
	}
	durations, broken := m.end()
	after, failed := p.cpu()
	if err := errors.Join(err, broken, failed, ctx.Err()); err != nil {
		return f, fmt.Errorf("%s on %s: %w", w.name, p.name, err)
	}
	slices.Sort(durations)
	last := durations[len(durations)-1]
	return figures{
		rate: float64(connections) / last.Seconds(), cpu: (after - before) / time.Duration(connections),
		p50: durations[len(durations)/2], p99: last,
	}, nil
}

func (b *bench) printFiles(all []*fileSeries, memory [3][]int64) {
	t := b.newTable("Files of random bytes in a folder, Collab on SQLite (bare: net/http without records and authentication; an upload is hashed and synced once, a download is copied by the kernel)",
		"", "connections", "MB/s", "bare", "ratio", "", "Collab on Postgres", "ratio to bare", "", "CPU µs", "bare", "p50 ms", "bare", "p99 ms", "bare")
	for _, s := range all {
		speed := func(f figures) float64 { return f.rate * float64(s.size) / 1e6 }
		ours, bare, postgres := s.at[collabOnSQLite], s.at[bareFolder], s.at[collabOnPostgres]
		share, onPostgres := ratio(ours, bare, speed), ratio(postgres, bare, speed)
		target, there := "", ""
		if s.rate != nil {
			target = b.judge(s.rate, fmt.Sprintf("%s, SQLite, %d connections", s.kind, s.connections), share)
			there = b.judge(s.rate, fmt.Sprintf("%s, Postgres, %d connections", s.kind, s.connections), onPostgres)
		}
		t.row(s.kind, fmt.Sprint(s.connections),
			fmt.Sprintf("%.0f", median(ours, speed)), fmt.Sprintf("%.0f", median(bare, speed)), fmt.Sprintf("%.2f", share), target,
			fmt.Sprintf("%.0f", median(postgres, speed)), fmt.Sprintf("%.2f", onPostgres), there,
			micros(median(ours, cpuOf)), micros(median(bare, cpuOf)),
			millis(median(ours, p50)), millis(median(bare, p50)), millis(median(ours, p99)), millis(median(bare, p99)))
	}
	t.print()
	t = b.newTable(fmt.Sprintf("Memory above idle at most, with %d uploads of %d MiB at once", bigUploads, bigSize), "", "MiB", "")
	for _, i := range []int{collabOnSQLite, collabOnPostgres, bareFolder} {
		name := []string{"Collab on SQLite", "bare", "Collab on Postgres"}[i]
		held, target := float64(median(memory[i], identity))/mib, ""
		if i != bareFolder {
			target = b.judge(uploadMemory, fmt.Sprintf("%d uploads of %d MiB, %s", bigUploads, bigSize, name), held)
		}
		t.row(name, fmt.Sprintf("%.1f", held), target)
	}
	t.print()
}
