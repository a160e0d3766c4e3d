package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"collab/test/must"
)

// updateRate is the goal of checks per second. The bare server has prepared responses.
var updateRate = atLeast("updates", "checks/s, of net/http", "%.2f", 0.95)

const (
	publishedReleases = 10_000
	askingDevices     = 8_192
	followWithin      = 10 * time.Second // limit of the time until the server has read the releases
)

// updates measures checks for updates by thousands of devices with versions of all ages among thousands of
// releases. The bare server sends the verified responses of Collab.
func (b *bench) updates(ctx context.Context) {
	servers := b.startServers(ctx, "updates")
	sqlite, pg, bare := servers.sqlite, servers.pg, servers.bare
	db := b.openSQLite(filepath.Join(sqlite.folder, "collab.db"))
	must.NoError(b, insertRows(ctx, db, countChanges, "releases", releaseColumns, publishedReleases, releaseRecord))
	must.NoError(b, pgx.BeginFunc(ctx, servers.conn, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"releases"}, releaseColumns, pgx.CopyFromSlice(publishedReleases, func(i int) ([]any, error) {
			return releaseRecord(i), nil
		}))
		if err == nil {
			_, err = tx.Exec(ctx, countChanges)
		}
		return err
	}))

	devices := deviceList(askingDevices)
	responses := must.Do(sqlite.responses(ctx, devices)).Or(b)
	must.NoError(b, bare.setResponses(ctx, responses))
	others := must.Do(pg.responses(ctx, devices)).Or(b)
	for query, one := range responses {
		if !bytes.Equal(one, others[query]) {
			b.Errorf("%s: the servers differ:\n%s\n%s", query, one, others[query])
		}
	}
	must.NoError(b, verify(bare, devices, responses))

	all := []*series{{connections: 16}, {connections: 64}, {connections: 16, kind: freshConnections}, {connections: 16, kind: freshTLS}}
	for _, s := range all {
		turns := []measurement{
			{sqlite.process, checks(sqlite.address, devices, responses), nil, &s.sqlite},
			{bare, checks(bare.address, devices, responses), nil, &s.bare},
			{pg.process, checks(pg.address, devices, responses), nil, &s.postgres},
		}
		for i := range turns {
			t := &turns[i]
			t.w.fresh = s.kind != ""
			if s.kind == freshTLS {
				t.target, t.w.secured = b.behindTLS(t.target)
			}
		}
		b.measureInTurns(ctx, s.connections, turns...)
	}
	b.printUpdates(all, responses)
}

// Kinds of series whose checks have a new connection each, on request with TLS, which this process terminates.
const (
	freshConnections = ", a new one each"
	freshTLS         = ", a new one with TLS each"
)

func (b *bench) printUpdates(all []*series, responses map[string][]byte) {
	size, offers := 0, 0
	for _, one := range responses {
		size += len(one)
		if bytes.Contains(one, offered) {
			offers++
		}
	}
	t := b.newTable(fmt.Sprintf("Checks for updates among %d releases by %d devices, of which %d are offered one; responses of %d bytes on average (bare: net/http that sends the same bytes)",
		publishedReleases, len(responses), offers, size/len(responses)),
		"connections", "on", "checks/s", "bare", "ratio", "", "CPU µs", "bare", "p50 ms", "bare", "p99 ms", "bare")
	for _, s := range all {
		for _, d := range []struct {
			name    string
			figures []figures
		}{{"SQLite", s.sqlite}, {"Postgres", s.postgres}} {
			share := ratio(d.figures, s.bare, rate)
			t.row(strconv.Itoa(s.connections)+s.kind, d.name, thousands(median(d.figures, rate)), thousands(median(s.bare, rate)),
				fmt.Sprintf("%.2f", share), b.judge(updateRate, fmt.Sprintf("%s, %d connections%s", d.name, s.connections, s.kind), share), tenths(median(d.figures, cpuOf)), tenths(median(s.bare, cpuOf)),
				millis(median(d.figures, p50)), millis(median(s.bare, p50)), millis(median(d.figures, p99)), millis(median(s.bare, p99)))
		}
	}
	t.print()
}

// Platforms, architectures and channels of releases.
var (
	platforms     = []string{"DARWIN", "WIN32", "LINUX"}
	architectures = []string{"X64", "ARM64", "UNIVERSAL"}
	channels      = []string{"STABLE", "BETA", "CANARY"}
)

// targets is the number of targets. Every 27th release has the same one.
const targets = 27

func targetOf(i int) (platform, arch, channel string) {
	return platforms[i%3], architectures[i/3%3], channels[i/9%3]
}

// releaseVersion returns the n-th version. The oldest is number 0.
func releaseVersion(n int) string { return fmt.Sprintf("%d.%d.%d", 1+n/100, n/10%10, n%10) }

func isActive(i int) bool { return i%7 != 0 }

func rolloutOf(i int) int { return []int{100, 50, 25, 10}[i%4] }

// releaseColumns are the columns of the table of releases, in the order of
// releaseRecord.
var releaseColumns = []string{
	"id", "version", "version_key", "platform", "arch", "channel", "download_url", "sha512", "sha1", "file_size_bytes",
	"notes", "min_os_version", "signature", "is_mandatory", "rollout", "is_active", "published_at", "updated_at", "revision",
}

// releaseRecord returns the i-th release.
func releaseRecord(i int) []any {
	platform, arch, channel := targetOf(i)
	version := releaseVersion(i / targets)
	at := firstDay.Add(time.Duration(i) * time.Minute).UnixMilli()
	return []any{
		taskID(at, rand.New(rand.NewPCG(uint64(i), 3))), version, version, platform, arch, channel,
		fmt.Sprintf("https://downloads.example.com/%s/%s/%s/Collab-%s.zip", channel, platform, arch, version),
		strings.Repeat(fmt.Sprintf("%08x", i), 16), nil, int64(90e6 + i),
		fmt.Sprintf("## %s\n\n- Folders are synchronised while the lid is closed.\n- Long answers scroll \"smoothly\" again.\n", version), "13.0",
		strings.Repeat("dW50cnVzdGVk", 8), i%50 == 0, int64(rolloutOf(i)), isActive(i), at, at, 1,
	}
}

// countChanges increments the revision of the releases.
const countChanges = "UPDATE release_revision SET n = n + 1"

// device is a device that checks for updates with one query.
type device struct {
	query   string
	version string // installed
	offer   string // the version of the update that must be offered; empty: none
}

// deviceList returns devices of all targets with versions of all ages, and computes the update of each
// independently of the server.
func deviceList(n int) []device {
	var latest [targets]int
	for target := range latest {
		latest[target] = latestOf(target)
	}
	all := make([]device, n)
	for i := range all {
		random := rand.New(rand.NewPCG(uint64(i), 4))
		target := random.IntN(targets)
		platform, arch, channel := targetOf(target)
		has := random.IntN(publishedReleases/targets + 2)
		client := taskID(firstDay.UnixMilli(), random)
		d := device{version: releaseVersion(has)}
		d.query = fmt.Sprintf("version=%s&platform=%s&arch=%s&channel=%s&clientId=%s",
			d.version, strings.ToLower(platform), strings.ToLower(arch), strings.ToLower(channel), client)
		if now := latest[target]; now/targets > has && bucketOf(client) < rolloutOf(now) {
			d.offer = releaseVersion(now / targets)
		}
		all[i] = d
	}
	return all
}

// latestOf returns the latest active release of a target.
func latestOf(target int) int {
	universal := target%3 + 6 + target/9*9 // of the platform and channel
	latest := -1
	for i := range publishedReleases {
		if !isActive(i) || i%targets != target && i%targets != universal {
			continue
		}
		if latest < 0 || i/targets > latest/targets || i/targets == latest/targets && i%targets == target {
			latest = i
		}
	}
	return latest
}

func bucketOf(client string) int {
	sum := sha256.Sum256([]byte(client))
	return int(binary.BigEndian.Uint64(sum[:]) % 100)
}

// checks returns the workload of one of the devices at random.
func checks(address string, devices []device, responses map[string][]byte) workload {
	w := workload{
		name: "check", status: http.StatusOK, head: []byte("GET " + checkPath + "?"), tail: []byte(headers(address, "")),
		valid: func(body []byte, query string) bool { return bytes.Equal(body, responses[query]) },
	}
	for _, d := range devices {
		w.ids = append(w.ids, d.query)
	}
	return w
}

var offered = []byte(`"updateAvailable":true`)

// responses returns the verified response to one check of every device, after the server has read the releases.
func (c *collab) responses(ctx context.Context, devices []device) (map[string][]byte, error) {
	if err := c.subscribe(ctx, devices); err != nil {
		return nil, err
	}
	link, err := dial(c.address, fileTimeout)
	if err != nil {
		return nil, err
	}
	defer link.Close()
	w := checks(c.address, nil, nil)
	all := make(map[string][]byte, len(devices))
	for _, d := range devices {
		w.valid = func(body []byte, _ string) bool { return d.valid(body) }
		body, err := link.exchange(w, d.query)
		if err != nil {
			return nil, fmt.Errorf("%s on %s, which is to offer %q: %w", d.query, c.name, d.offer, err)
		}
		all[d.query] = bytes.Clone(body)
	}
	return all, nil
}

// subscribe waits until the server has read the releases.
func (c *collab) subscribe(ctx context.Context, devices []device) error {
	ctx, cancel := context.WithTimeout(ctx, followWithin)
	defer cancel()
	i := slices.IndexFunc(devices, func(d device) bool { return d.offer != "" })
	if i < 0 {
		return errors.New("no device is to be offered anything")
	}
	var response struct{ UpdateAvailable bool }
	var failed error
	err := c.await(ctx, 10*time.Millisecond, func() bool {
		_, failed = c.call(ctx, "GET", checkPath+"?"+devices[i].query, "", "", &response)
		return failed != nil || response.UpdateAvailable
	})
	return errors.Join(failed, err)
}

// valid reports whether a response is correct.
func (d device) valid(body []byte) bool {
	var response struct {
		UpdateAvailable               bool
		CurrentVersion, LatestVersion string
		DownloadURL, SHA512           string
	}
	if err := json.Unmarshal(body, &response); err != nil || response.CurrentVersion != d.version {
		return false
	}
	if d.offer == "" {
		return !response.UpdateAvailable && response.DownloadURL == ""
	}
	return response.UpdateAvailable && response.LatestVersion == d.offer &&
		strings.HasSuffix(response.DownloadURL, "/Collab-"+d.offer+".zip") && len(response.SHA512) == 2*64
}

// verify returns an error unless the server sends every device its response.
func verify(p *process, devices []device, responses map[string][]byte) error {
	link, err := dial(p.address, fileTimeout)
	if err != nil {
		return err
	}
	defer link.Close()
	w := checks(p.address, nil, responses)
	for _, d := range devices {
		if _, err := link.exchange(w, d.query); err != nil {
			return fmt.Errorf("%s on %s: %w", d.query, p.name, err)
		}
	}
	return nil
}
