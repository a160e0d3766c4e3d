package limits

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
	"collab/test/soak"

	_ "modernc.org/sqlite"
)

// growth is how much more memory of a server may be resident while it serves
// something large, in bytes.
const growth = 32 << 20

// memory is the resident memory of a process, in bytes.
func memory(t testing.TB, pid int) int64 {
	t.Helper()
	resident := processMemory(t, pid)["VmRSS"]
	if resident == 0 {
		t.Fatal("/proc has no resident memory")
	}
	return resident
}

// processMemory has the system's figures of a process's memory, in bytes.
func processMemory(t testing.TB, pid int) map[string]int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if os.IsNotExist(err) {
		t.Skip("this system has no /proc")
	}
	must.NoError(t, err)
	figures := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		var name string
		var kib int64
		if _, err := fmt.Sscanf(line, "%s %d kB", &name, &kib); err == nil {
			figures[strings.TrimSuffix(name, ":")] = kib << 10
		}
	}
	return figures
}

// watched does something and checks that the server's memory hardly grows.
func watched(t *testing.T, s *collabd.Server, about string, do func()) {
	t.Helper()
	before := memory(t, s.PID())
	peak := before
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				peak = max(peak, memory(t, s.PID()))
			}
		}
	})
	began := time.Now()
	do()
	close(stop)
	watching.Wait()
	t.Logf("%s: %s, %.1f MiB resident before, %.1f at most", about, time.Since(began).Round(time.Millisecond), float64(before)/(1<<20), float64(peak)/(1<<20))
	if peak-before >= growth {
		t.Errorf("%s: the server's memory grew from %d to %d bytes", about, before, peak)
	}
}

// generatedContent is content that is made while it is read, the same each time, and adds
// up to a checksum.
type generatedContent struct {
	left  int64
	n     uint64
	block [64 << 10]byte
	rest  []byte
	sum   hash.Hash
}

// record is a record of a file or of another thing, as it is answered.
type record struct{ ID, StorageKey, Checksum string }

func newNoise(size int64) *generatedContent { return &generatedContent{left: size, sum: sha256.New()} }

func (g *generatedContent) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, io.EOF
	}
	if len(g.rest) == 0 {
		for i := 0; i < len(g.block); i += 8 {
			g.n = g.n*6364136223846793005 + 1442695040888963407
			binary.LittleEndian.PutUint64(g.block[i:], g.n)
		}
		g.rest = g.block[:min(int64(len(g.block)), g.left)]
	}
	n := copy(p, g.rest)
	g.rest, g.left = g.rest[n:], g.left-int64(n)
	g.sum.Write(p[:n])
	return n, nil
}

func (g *generatedContent) checksum() string { return hex.EncodeToString(g.sum.Sum(nil)) }

func send(t *testing.T, u collabd.Client, method, path string, size int64, body io.Reader, headers ...string) *http.Response {
	t.Helper()
	r := must.Do(u.Request(t.Context(), method, path, body, headers...)).Or(t)
	r.ContentLength = size
	a := must.Do(http.DefaultClient.Do(r)).Or(t)
	t.Cleanup(func() { _ = a.Body.Close() })
	return a
}

func TestLargeFilesGoThroughLittleMemory(t *testing.T) {
	race.Skip(t, "it measures memory")
	size := int64(soak.Count(2 << 30)) // at any scale several times the memory that is allowed
	s := collabd.Start(t, fmt.Sprintf("COLLAB_MAX_UPLOAD_BYTES=%d", size))
	u := s.SignIn(t, "ada@example.com", "Large", "owner")
	// Memory that the first request of each kind keeps is not counted as growth.
	warm := send(t, u, "POST", "/sync/files?path=warm", 1<<20, newNoise(1<<20), "Content-Type: application/octet-stream")
	var small record
	if err := json.NewDecoder(warm.Body).Decode(&small); err != nil || warm.StatusCode != 201 {
		t.Fatalf("%d, %v", warm.StatusCode, err)
	}
	must.Do(io.Copy(io.Discard, send(t, u, "GET", "/sync/files/"+small.ID+"?raw=1", 0, nil).Body)).Or(t)

	var made record
	watched(t, s, "the upload", func() {
		content := newNoise(size)
		a := send(t, u, "POST", "/sync/files?path=large", size, content, "Content-Type: application/octet-stream")
		response, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != 201 {
			t.Fatalf("%d, %s, %v", a.StatusCode, response, err)
		}
		if err := json.Unmarshal(response, &made); err != nil || made.Checksum != content.checksum() {
			t.Errorf("the record is %s, %v; the checksum was %s", response, err, content.checksum())
		}
	})
	for about, path := range map[string]string{"the download": "?raw=1", "the download as JSON": ""} {
		watched(t, s, about, func() {
			a := send(t, u, "GET", "/sync/files/"+made.ID+path, 0, nil)
			if a.StatusCode != 200 {
				t.Fatalf("%s is %d", about, a.StatusCode)
			}
			if path == "" {
				if n, err := io.Copy(io.Discard, a.Body); err != nil || n < size/3*4 {
					t.Errorf("%s has %d bytes, %v", about, n, err)
				}
				return
			}
			got := sha256.New()
			if n, err := io.Copy(got, a.Body); err != nil || n != size || hex.EncodeToString(got.Sum(nil)) != made.Checksum {
				t.Errorf("%s has %d bytes with the checksum %x, %v; want %s", about, n, got.Sum(nil), err, made.Checksum)
			}
		})
	}
	if a := send(t, u, "POST", "/sync/files?path=larger", 2*size, newNoise(2*size), "Content-Type: application/octet-stream"); a.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("twice as much is %d", a.StatusCode)
	}
}
