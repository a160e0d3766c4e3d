package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"collab/domain/upload"
	"collab/test/must"
)

// Goals of the synchroniser.
var (
	firstSync     = atMost("mirror", "time, of copying over net/http", "%.2f", 1.5)
	firstOfPeers  = atMost("mirror", "time, of the peer's", "%.2f", 1)
	savedMedian   = atMost("mirror", "p50 until it is on the other device", "%.0f ms", 700)
	savedMost     = atMost("mirror", "p99 until it is on the other device", "%.0f ms", 1200)
	idleResident  = atMost("mirror", "memory", "%.1f MB", 60)
	idleProcessor = atMost("mirror", "share of a processor", "%.2f %%", 0.2)
	renamedBytes  = atMost("mirror", "bytes sent and received, of the contents", "%.2f", 0.1)
	resumedParts  = atMost("mirror", "bytes sent twice, in parts", "%.2f", 1)
)

// Settings of the synchronisation of directories.
const (
	mirrorWorkers = 8 // of the bare client, as many as collab has
	mirrorTimeout = 5 * time.Minute
	mirrorPoll    = 50 * time.Millisecond // for the files of a directory
	savePoll      = time.Millisecond      // for one file
	filesInOne    = 100                   // directory
)

// mirrorRows are the measurements of mirror. The flag -rows selects some.
var mirrorRows = []struct {
	name string
	run  func(*bench, context.Context)
}{
	{"first", (*bench).firstSyncs},
	{"saved", (*bench).savedFiles},
	{"idle", (*bench).idleClients},
	{"renamed", (*bench).renamedDirectory},
	{"resumed", (*bench).resumedFile},
	{"apart", (*bench).divergedReplicas},
}

// mirror measures the client that synchronises directories.
func (b *bench) mirror(ctx context.Context) {
	if b.client == "" {
		b.client = filepath.Join(b.folder, "collab")
		must.NoError(b, b.build(ctx, b.client, "./cmd/collab"))
	}
	for _, row := range mirrorRows {
		if b.rows != "" && !slices.Contains(strings.Split(b.rows, ","), row.name) {
			continue
		}
		b.named(row.name, func() { row.run(b, ctx) })
	}
}

// replica is a directory that a client synchronises with the shared files of an organisation.
type replica struct {
	b       *bench
	dir     string
	environ []string
}

// newReplica returns a replica in a new directory. The address is that of the server, or of a meter before it.
func (b *bench) newReplica(c *collab, address string) *replica {
	home := must.Do(os.MkdirTemp(b.folder, "replica-")).Or(b)
	r := &replica{b, filepath.Join(home, "files"), append(os.Environ(), "COLLAB_SERVER=http://"+address, "COLLAB_TOKEN="+c.token, "COLLAB_CONFIG_DIR="+home)}
	must.NoError(b, os.Mkdir(r.dir, 0o700))
	return r
}

// newReplicas returns two replicas of the server's files.
func (b *bench) newReplicas(c *collab) (sides [2]*replica) {
	for i := range sides {
		sides[i] = b.newReplica(c, c.address)
	}
	return sides
}

// once synchronises once.
func (r *replica) once(ctx context.Context) error {
	c := exec.CommandContext(ctx, r.b.client, "sync", r.dir, "--once")
	c.Env = r.environ
	var problem bytes.Buffer
	c.Stderr = &problem
	if err := c.Run(); err != nil {
		return fmt.Errorf("collab sync: %w\n%s", err, problem.String())
	}
	return nil
}

// launch starts a process that synchronises.
func (r *replica) launch() *process {
	return r.b.launch(filepath.Base(filepath.Dir(r.dir)), r.b.folder, "", r.b.client, r.environ, "sync", r.dir)
}

// start starts a process that synchronises, and waits for its first round.
func (r *replica) start(ctx context.Context) *process {
	p := r.launch()
	ctx, cancel := context.WithTimeout(ctx, mirrorTimeout)
	defer cancel()
	must.NoError(r.b, p.await(ctx, mirrorPoll, func() bool {
		text, err := os.ReadFile(p.log)
		return err == nil && bytes.Contains(text, []byte(`"event":"round"`))
	}))
	return p
}

// pair starts the synchronisation of two replicas of one server.
func (b *bench) pair(ctx context.Context, c *collab, address string) (dirs [2]string) {
	for i := range dirs {
		r := b.newReplica(c, address)
		r.start(ctx)
		dirs[i] = r.dir
	}
	return dirs
}

// waitUntil waits until the condition holds, for at most mirrorTimeout.
func (b *bench) waitUntil(ctx context.Context, poll time.Duration, holds func() bool) {
	for deadline := time.Now().Add(mirrorTimeout); !holds(); {
		if time.Now().After(deadline) {
			b.Fatal("the directories do not become the same")
		}
		must.NoError(b, sleep(ctx, poll))
	}
}

// fill creates n files of random bytes in directories.
func (b *bench) fill(dir string, n, size int) {
	content := randomBytes(n + size) // the files have different parts of it
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("d%04d/f%06d.bin", i/filesInOne, i))
		if i%filesInOne == 0 {
			must.NoError(b, os.Mkdir(filepath.Dir(file), 0o777))
		}
		must.NoError(b, os.WriteFile(file, content[i:i+size], 0o666))
	}
}

// each calls fn with the files of a directory, except the hidden ones of the synchronising programs.
func each(dir string, fn func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		hidden := path != dir && strings.HasPrefix(filepath.Base(path), ".")
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && hidden && !e.IsDir():
			return nil
		case err == nil && e.IsDir() && hidden:
			return fs.SkipDir
		case err != nil || e.IsDir():
			return err
		}
		return fn(path)
	})
}

// count returns the number of files in a directory.
func count(dir string) (n int) {
	_ = each(dir, func(string) error { n++; return nil })
	return n
}

// filled reports whether a directory has the n files of fill. It stops at the first incomplete directory, so
// that it takes little time from the program that fills it.
func filled(dir string, n int) bool {
	for ; n > 0; n -= filesInOne {
		entries, err := os.ReadDir(filepath.Join(dir, fmt.Sprintf("d%04d", (n-1)/filesInOne)))
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".bin") || e.Name()[0] == '.' })
		if err != nil || len(entries) < min(n, filesInOne) {
			return false
		}
	}
	return true
}

// compare fails unless two directories have the same files.
func (b *bench) compare(a, z string) {
	must.NoError(b, each(a, func(path string) error {
		one, err := os.ReadFile(path)
		two, other := os.ReadFile(z + strings.TrimPrefix(path, a))
		if err == nil && other == nil && !bytes.Equal(one, two) {
			err = fmt.Errorf("%s differs", path)
		}
		return errors.Join(err, other)
	}))
	must.Is(b, count(a), count(z))
}

// timed returns the duration of fn, after syncing earlier writes to the disk.
func timed(fn func()) time.Duration {
	syscall.Sync()
	began := time.Now()
	fn()
	return time.Since(began)
}

func secondsOf(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// firstSyncs measures the time of many small files from one directory over the server to another, while the
// programs of both directories run. No directory is removed before the end, because ext4 creates files
// slowly shortly after others were removed.
func (b *bench) firstSyncs(ctx context.Context) {
	n, size := 10_000, 4*kib
	if b.quick {
		n = 1_000
	}
	var ours, bare []time.Duration
	var asked []int
	theirs := map[*peer][]time.Duration{}
	for range b.rounds {
		from := must.Do(os.MkdirTemp(b.folder, "from-")).Or(b)
		b.fill(from, n, size)
		b.scoped(func() {
			took, requests := b.syncFirst(ctx, from, n)
			ours, asked = append(ours, took), append(asked, requests)
		})
		b.scoped(func() { bare = append(bare, b.copyFirst(ctx, from)) })
		b.eachPeer(ctx, func(p *peer) {
			_, took := p.filled(ctx, b, from, n)
			theirs[p] = append(theirs[p], took)
		})
	}
	t := b.newTable(fmt.Sprintf("First sync of %d files of %d KiB from one directory to another, from the start of the programs, which run at once; Collab by a server on SQLite that runs already (net/http: %d at a time, each file is hashed and synced by the bare server, and by the client that gets it; others: from directory to directory, without a server)", n, size/kib, mirrorWorkers),
		"", "s", "ratio of Collab", "", "requests")
	whole := func(d time.Duration) float64 { return float64(d) }
	row := func(name, requests string, took []time.Duration, of *goal) {
		cells := []string{name, secondsOf(median(took, identity)), "", "", requests}
		if of != nil {
			share := ratio(ours, took, whole)
			cells[2], cells[3] = fmt.Sprintf("%.2f", share), b.judge(of, fmt.Sprintf("first sync of %d files, %s", n, name), share)
		}
		t.row(cells...)
	}
	row("Collab", fmt.Sprint(slices.Max(asked)), ours, nil)
	row("net/http", fmt.Sprint(2*n), bare, firstSync)
	for _, p := range b.peers(ctx) {
		row(p.name+" "+p.version, "", theirs[p], firstOfPeers)
	}
	t.print()
}

// syncFirst measures the first synchronisation of two clients, and counts their requests.
func (b *bench) syncFirst(ctx context.Context, from string, n int) (took time.Duration, requests int) {
	c := b.startCollab(ctx, "collabd-mirror", "sqlite")
	sides := b.newReplicas(c)
	// The first replica has the files before its client starts.
	must.NoError(b, errors.Join(os.Remove(sides[0].dir), os.CopyFS(sides[0].dir, os.DirFS(from))))
	before := must.Do(c.requests(ctx)).Or(b)
	took = timed(func() {
		for _, side := range sides {
			side.launch()
		}
		b.waitUntil(ctx, mirrorPoll, func() bool { return filled(sides[1].dir, n) })
	})
	requests = must.Do(c.requests(ctx)).Or(b)
	b.compare(from, sides[1].dir)
	return took, requests - before
}

// copyFirst measures the copying of the files over a bare server, each downloaded as soon as it is stored.
func (b *bench) copyFirst(ctx context.Context, from string) (took time.Duration) {
	bare := b.startBare(ctx, "")
	var paths []string
	must.NoError(b, each(from, func(path string) error { paths = append(paths, path); return nil }))
	to := must.Do(os.MkdirTemp(b.folder, "to-")).Or(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: mirrorWorkers}}
	defer client.CloseIdleConnections()
	took = timed(func() {
		var copies errgroup.Group
		copies.SetLimit(mirrorWorkers)
		for _, path := range paths {
			copies.Go(func() error {
				id, sum, err := uploadFile(ctx, client, bare.address, path)
				if err != nil {
					return err
				}
				return downloadFile(ctx, client, bare.address, id, sum, to+strings.TrimPrefix(path, from))
			})
		}
		must.NoError(b, copies.Wait())
	})
	b.compare(from, to)
	return took
}

// uploadFile posts a file to the bare server and returns its id and checksum there.
func uploadFile(ctx context.Context, client *http.Client, address, path string) (id, checksum string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(content)
	response, err := request(ctx, client, "POST", "http://"+address+bareUploads, content)
	if err != nil {
		return "", "", err
	}
	var made struct{ ID, Checksum string }
	if err := json.Unmarshal(response, &made); err != nil {
		return "", "", err
	}
	if made.Checksum != hex.EncodeToString(sum[:]) {
		err = fmt.Errorf("%s has another checksum", path)
	}
	return made.ID, made.Checksum, err
}

// downloadFile gets a file of the bare server and stores it durably.
func downloadFile(ctx context.Context, client *http.Client, address, id, checksum, path string) error {
	content, err := request(ctx, client, "GET", "http://"+address+bareUploads+"/"+id, nil)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != checksum {
		return fmt.Errorf("%s has another checksum", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// request makes a request of the bare client and returns the body of its response.
func request(ctx context.Context, client *http.Client, method, address string, content []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	_, body, err := send(client, r)
	return body, err
}

const savesOfPeers = 50

// savedFiles measures the time from saving a file until it is in the other directory.
func (b *bench) savedFiles(ctx context.Context) {
	saves := 1000
	if b.quick {
		saves = 30
	}
	t := b.newTable(fmt.Sprintf("From saving a file of 4 KiB to its being in another directory, %d times after pauses of up to 100 ms (others: %d times), Collab by a server on SQLite", saves, min(saves, savesOfPeers)),
		"", "p50 ms", "", "p99 ms", "")
	c := b.startCollab(ctx, "collabd-mirror-saved", "sqlite")
	whole := func(d time.Duration) string { return fmt.Sprintf("%.0f", millisOf(d)) }
	b.scoped(func() {
		dirs := b.pair(ctx, c, c.address)
		p50, p99 := b.save(ctx, dirs[0], dirs[1], saves)
		t.row("Collab", whole(p50), b.judge(savedMedian, "saved file", millisOf(p50)), whole(p99), b.judge(savedMost, "saved file", millisOf(p99)))
	})
	b.eachWatcher(ctx, func(p *peer) {
		p50, p99 := p.saved(ctx, b, min(saves, savesOfPeers))
		t.row(p.name+" "+p.version, whole(p50), "", whole(p99), "")
	})
	t.print()
}

// save saves n files in one directory, one after the other, and returns the percentiles of the times until
// they are in the other one.
func (b *bench) save(ctx context.Context, from, to string, n int) (p50, p99 time.Duration) {
	var took []time.Duration
	random := rand.New(rand.NewPCG(7, 7))
	for i := range n + 1 {
		must.NoError(b, sleep(ctx, time.Duration(random.Int64N(int64(100*time.Millisecond)))))
		content, name := randomBytes(4*kib+i), fmt.Sprintf("saved%d", i%10)
		must.NoError(b, os.WriteFile(filepath.Join(from, name), content, 0o666))
		began := time.Now()
		b.waitUntil(ctx, savePoll, func() bool {
			info, err := os.Stat(filepath.Join(to, name))
			return err == nil && info.Size() == int64(len(content))
		})
		if i > 0 { // the first waits for the start of the programs
			took = append(took, time.Since(began))
		}
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || !bytes.Equal(got, content) {
			b.Errorf("%s has other content, %v", name, err)
		}
	}
	return percentiles(took)
}

// idleClients measures a client of many files that do not change.
func (b *bench) idleClients(ctx context.Context) {
	n, settled, watched := 100_000, 90*time.Second, time.Minute
	if b.quick {
		n, settled, watched = 10_000, 3*time.Second, 5*time.Second
	}
	c := b.startCollab(ctx, "collabd-mirror-idle", "sqlite")
	r := b.newReplica(c, c.address)
	b.fill(r.dir, n, 100)
	first := timed(func() { must.NoError(b, r.once(ctx)) })
	p := r.start(ctx)
	started := time.Since(p.began)
	load := fmt.Sprintf("idle with %d files", n)
	t := b.newTable(fmt.Sprintf("A client with %d files of 100 bytes in %d directories", n, n/filesInOne),
		"", "s of the first sync", "s of a start", "MB at most", "MB idle", "", fmt.Sprintf("of a processor in %v", watched), "")
	i := b.idle(ctx, p, settled, watched)
	t.row("Collab", secondsOf(first), secondsOf(started), megabytes(i.peak), megabytes(i.resident), b.judge(idleResident, load, float64(i.resident)/1e6),
		fmt.Sprintf("%.2f %%", i.share), b.judge(idleProcessor, load, i.share))
	b.eachWatcher(ctx, func(other *peer) {
		o, took := other.filled(ctx, b, r.dir, n)
		i := b.idle(ctx, o.running[0], settled, watched)
		name := other.name + " " + other.version
		if len(other.serve) == 1 {
			name += ", with both directories"
		}
		t.row(name, secondsOf(took), "", megabytes(i.peak), megabytes(i.resident), "", fmt.Sprintf("%.2f %%", i.share), "")
	})
	t.print()
}

// megabytes formats a number of bytes in units of 1,000,000.
func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

// idleStats are the resources of an idle process.
type idleStats struct {
	peak, resident int64   // bytes of memory: the peak, and at the end
	share          float64 // of a processor, in percent
}

// idle waits until the process has settled, and measures it for the duration watched.
func (b *bench) idle(ctx context.Context, p *process, settled, watched time.Duration) (s idleStats) {
	must.NoError(b, sleep(ctx, settled))
	s.peak = must.Do(p.peak()).Or(b)
	before := must.Do(p.cpu()).Or(b)
	must.NoError(b, sleep(ctx, watched))
	s.share = 100 * float64(must.Do(p.cpu()).Or(b)-before) / float64(watched)
	s.resident = must.Do(p.resident()).Or(b)
	return s
}

// renamedDirectory measures the transferred bytes when directories are renamed.
func (b *bench) renamedDirectory(ctx context.Context) {
	n, size := 1_000, 16*kib
	c := b.startCollab(ctx, "collabd-mirror-renamed", "sqlite")
	m := b.newMeter(c.address)
	dirs := b.pair(ctx, c, m.address)
	b.fill(dirs[0], n, size)
	b.waitUntil(ctx, mirrorPoll, func() bool { return count(dirs[1]) == n })
	must.NoError(b, sleep(ctx, settling))
	before := m.bytes()
	took := b.rename(ctx, dirs[0], dirs[1], n)
	must.NoError(b, sleep(ctx, settling)) // for late transfers of contents
	share := float64(m.bytes()-before) / float64(2*n*size)
	t := b.newTable(fmt.Sprintf("%d files of %d KiB in directories that get another name", n, size/kib), "", "s until the other has it", "KiB moved", "of the contents, up and down", "")
	t.row("Collab, two clients", secondsOf(took), fmt.Sprint((m.bytes()-before)/kib), fmt.Sprintf("%.3f", share), b.judge(renamedBytes, fmt.Sprintf("renamed directories of %d files", n), share))
	b.compare(dirs[0], dirs[1])
	from := must.Do(os.MkdirTemp(b.folder, "from-")).Or(b)
	b.fill(from, n, size)
	b.eachWatcher(ctx, func(p *peer) {
		r, _ := p.filled(ctx, b, from, n)
		must.NoError(b, sleep(ctx, settling))
		t.row(p.name+" "+p.version, secondsOf(b.rename(ctx, r.a, r.z, n)), "", "", "")
	})
	t.print()
}

// rename moves the directories of n files into one, and measures the time until the other directory has them.
func (b *bench) rename(ctx context.Context, a, z string, n int) time.Duration {
	return timed(func() {
		must.NoError(b, os.Mkdir(filepath.Join(a, "in"), 0o777))
		for d := range n / filesInOne {
			name := fmt.Sprintf("d%04d", d)
			must.NoError(b, os.Rename(filepath.Join(a, name), filepath.Join(a, "in", name)))
		}
		b.waitUntil(ctx, mirrorPoll, func() bool { return filled(filepath.Join(z, "in"), n) && count(z) == n })
	})
}

// resumedFile measures the bytes of a large file that are sent twice when its connection is cut in the middle.
func (b *bench) resumedFile(ctx context.Context) {
	size := int64(1 << 30)
	if b.quick {
		size = 64 * mib
	}
	c := b.startCollab(ctx, "collabd-mirror-resumed", "sqlite", fmt.Sprint("COLLAB_MAX_UPLOAD_BYTES=", 2*size))
	m := b.newMeter(c.address)
	t := b.newTable(fmt.Sprintf("A file of %d MiB whose connection is cut in the middle (part: %d MiB)", size/mib, upload.PartSize/mib), "", "s", "KiB moved twice", "parts", "")
	var dirs [2]string
	for i, server := range []string{"upload", "download"} {
		r := b.newReplica(c, m.address)
		if dirs[i] = r.dir; i == 0 {
			must.NoError(b, writeLarge(filepath.Join(r.dir, "large"), size))
		}
		before := m.bytes()
		m.cutAfter(size / 2)
		took := timed(func() {
			err := r.once(ctx)
			for range 2 { // restart the client unless it resumes by itself
				if err != nil {
					err = r.once(ctx)
				}
			}
			must.NoError(b, err)
		})
		twice := max(0, m.bytes()-before-size)
		parts := float64(twice) / upload.PartSize
		t.row(server, secondsOf(took), fmt.Sprint(twice/kib), fmt.Sprintf("%.2f", parts), b.judge(resumedParts, fmt.Sprintf("%s of %d MiB, cut", server, size/mib), parts))
	}
	t.print()
	b.compare(dirs[0], dirs[1])
	must.NoError(b, errors.Join(os.RemoveAll(dirs[0]), os.RemoveAll(dirs[1])))
}

// divergedReplicas measures the time and the requests for two directories to be equal again after one or both
// have changed while no client ran.
func (b *bench) divergedReplicas(ctx context.Context) {
	n, conflicts := 10_000, 500
	if b.quick {
		n, conflicts = 1_000, 50
	}
	c := b.startCollab(ctx, "collabd-mirror-apart", "sqlite")
	sides := b.newReplicas(c)
	t := b.newTable("Two directories after their clients were stopped for a while, one after the other", "", "s of the one that changed", "s of the other", "requests", "files")
	measure := func(what string, order ...*replica) {
		before := must.Do(c.requests(ctx)).Or(b)
		cells := []string{what}
		for _, r := range order {
			cells = append(cells, secondsOf(timed(func() { must.NoError(b, r.once(ctx)) })))
		}
		after := must.Do(c.requests(ctx)).Or(b)
		t.row(append(cells, fmt.Sprint(after-before), fmt.Sprint(count(order[len(order)-1].dir)))...)
	}
	b.fill(sides[0].dir, n, 4*kib)
	measure(fmt.Sprintf("%d new files of 4 KiB", n), sides[0], sides[1])
	i := 0
	must.NoError(b, each(sides[0].dir, func(path string) (err error) {
		switch i++; i % 10 {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.Rename(path, path+".renamed")
		case 2, 3, 4, 5:
			err = os.WriteFile(path+".new", randomBytes(4*kib+i), 0o666)
		default:
			err = os.WriteFile(path, randomBytes(4*kib+i), 0o666)
		}
		return err
	}))
	measure(fmt.Sprintf("%d changes: 4 in 10 new, 4 changed, 1 renamed, 1 deleted", n), sides[0], sides[1])
	b.compare(sides[0].dir, sides[1].dir)
	for s, r := range sides {
		left := conflicts
		must.NoError(b, each(r.dir, func(path string) error {
			if left--; left < 0 {
				return fs.SkipAll
			}
			return os.WriteFile(path, randomBytes(5*kib+2*left+s), 0o666)
		}))
	}
	before := count(sides[0].dir)
	measure(fmt.Sprintf("%d files changed in both", conflicts), sides[0], sides[1])
	must.NoError(b, sides[0].once(ctx))
	t.print()
	if made := count(sides[0].dir) - before; made != conflicts {
		b.Errorf("%d conflicts are %d more files", conflicts, made)
	}
	b.compare(sides[0].dir, sides[1].dir)
}

// requests returns the number of requests that the server has answered.
func (c *collab) requests(ctx context.Context) (n int, err error) {
	all, err := c.metrics(ctx)
	for name, of := range all {
		if strings.HasPrefix(name, "http_server_request_duration_seconds_count{") {
			n += int(of)
		}
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("/metrics of %s has no requests", c.name)
	}
	return n, err
}

// writeLarge writes a file whose blocks differ.
func writeLarge(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := randomBytes(mib)
	for i := int64(0); i < size && err == nil; i += mib {
		copy(block, fmt.Sprint(i))
		_, err = f.Write(block)
	}
	return errors.Join(err, f.Close())
}

// meter is a proxy that counts the bytes in both directions, and can close all connections once.
type meter struct {
	address string

	mu          sync.Mutex
	transferred int64
	cut         int64 // number of further bytes after which connections are closed; 0: they are not
	open        map[net.Conn]bool
}

// newMeter starts a meter before a server until the end of the scope.
func (b *bench) newMeter(to string) *meter {
	l := must.Do(net.Listen("tcp", "127.0.0.1:0")).Or(b)
	m := &meter{address: l.Addr().String(), open: map[net.Conn]bool{}}
	b.relay(l, to, m.count)
	return m
}

func (m *meter) bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.transferred
}

// cutAfter closes the open connections after n further bytes.
func (m *meter) cutAfter(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = n
}

// count returns a connection whose written bytes are counted, and which is closed with the others.
func (m *meter) count(c net.Conn) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[c] = true
	return metered{c, m}
}

// metered is an open connection of a meter.
type metered struct {
	net.Conn
	m *meter
}

func (c metered) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.transferred += int64(n)
	if c.m.cut > 0 {
		if c.m.cut -= int64(n); c.m.cut <= 0 {
			c.m.cut = 0
			for open := range c.m.open {
				_ = open.Close()
			}
		}
	}
	return n, err
}

func (c metered) Close() error {
	c.m.mu.Lock()
	delete(c.m.open, c.Conn)
	c.m.mu.Unlock()
	return c.Conn.Close()
}
