package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"collab/adapters/httpapi/limit"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/ports"
	"collab/test/harness"
	"collab/test/must"
)

// fileReading is the part of one file in the response to a request for several.
type fileReading struct {
	fileOutcome
	Length  int `json:"length"`
	content string
}

// readFilesRequest returns a request for several files.
func readFilesRequest(ids []string) *http.Request {
	body := `{"files":[{"id":"` + strings.Join(ids, `"},{"id":"`) + `"}]}`
	return syncRequest(http.MethodPost, "/batch/read", strings.NewReader(body), "Content-Type: application/json")
}

// readings decodes the response to a request for n files.
func readings(t testing.TB, w *httptest.ResponseRecorder, n int) (all []fileReading) {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/vnd.collab.files" {
		t.Fatalf("%d %.300s", w.Code, w.Body)
	}
	response := bufio.NewReader(w.Body)
	for {
		line, err := response.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			break
		}
		var of fileReading
		if err := json.Unmarshal(line, &of); err != nil || of.Index != len(all) || (of.Error == nil) != (of.Status == 200) || of.Error != nil && (of.Error.StatusCode != of.Status || of.Length != 0) {
			t.Fatalf("line %d is %s, %v", len(all), line, err)
		}
		content := make([]byte, of.Length)
		if _, err := io.ReadFull(response, content); err != nil {
			t.Fatalf("the content of %d bytes after line %d: %v", of.Length, len(all), err)
		}
		of.content = string(content)
		if of.Status == 200 && (of.File == nil || of.File.Checksum != harness.Checksum(of.content)) {
			t.Fatalf("%+v does not have the checksum of %+v", of, of.File)
		}
		all = append(all, of)
	}
	if len(all) != n {
		t.Fatalf("%d lines", len(all))
	}
	return all
}

func TestReadFilesKeepsOrder(t *testing.T) {
	o := newFileServer(t)
	var ids, contents []string
	for i, size := range []int{0, 5, 20_000, 256 << 10, 33_000, 1, 256 << 10, 100_000, 100_000, 100_000} {
		contents = append(contents, strings.Repeat(fmt.Sprintf("line %d\n", i), size)[:size])
		ids = append(ids, o.store(t, fmt.Sprintf("%d.txt", i), contents[i]).ID)
	}
	for i, of := range readings(t, send(o, readFilesRequest(ids)), len(ids)) {
		if of.Status != 200 || of.content != contents[i] || of.File.ID != ids[i] {
			t.Errorf("file %d is %d with %d bytes, want %d", i, of.Status, of.Length, len(contents[i]))
		}
	}
}

func TestReadFilesRefusesContentBeyondItsLimit(t *testing.T) {
	o := newFileServer(t)
	large := o.store(t, "large.txt", strings.Repeat("x", objects.MaxReadFile)).ID
	ids := slices.Repeat([]string{large}, objects.MaxReadBytes/objects.MaxReadFile+2)
	refused := 0
	for i, of := range readings(t, send(o, readFilesRequest(ids)), len(ids)) {
		if of.Status == 200 {
			continue
		}
		if refused++; of.Status != http.StatusRequestEntityTooLarge || of.File == nil || of.File.Size != objects.MaxReadFile || i < len(ids)-2 {
			t.Errorf("file %d is %+v", i, of)
		}
	}
	if refused != 2 || readings(t, send(o, readFilesRequest(ids[:refused])), 2)[1].Status != 200 {
		t.Errorf("%d files are refused", refused)
	}
}

// failingBlobs calls fails before it opens content.
type failingBlobs struct {
	ports.Blobs
	fails func() error
}

func (b *failingBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	return b.Blobs.Open(ctx, name, offset, length)
}

func TestReadFilesReportsStoreErrorsPerFile(t *testing.T) {
	blobs := &failingBlobs{fails: func() error { return nil }}
	o := newFileServer(t, func(o *objects.Options) { blobs.Blobs, o.Blobs = o.Blobs, blobs })
	logs, logged := logging(slog.LevelWarn)
	logs(&o.Options)
	var ids []string
	for i := range 6 {
		ids = append(ids, o.store(t, fmt.Sprintf("%d.txt", i), strings.Repeat("x", 100_000+i)).ID)
	}
	failAfter := func(n int64) func() error {
		var opened atomic.Int64
		return func() error {
			if opened.Add(1) > n {
				return fault.New(fault.Unavailable, "the store is down")
			}
			return nil
		}
	}
	blobs.fails = failAfter(0)
	if w := send(o, readFilesRequest(ids[:1])); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	blobs.fails = failAfter(2) // two fit into the buffer
	logged.Reset()
	all := readings(t, send(o, readFilesRequest(append(slices.Clone(ids[:2]), ids[2], "none"))), 4)
	for i, want := range []int{200, 200, 503, 404} {
		if all[i].Status != want {
			t.Errorf("file %d is %+v", i, all[i])
		}
	}
	must.Is(t, 1, strings.Count(logged.String(), "\n"))

	blobs.fails = func() error { return fault.New(fault.NotFound, "no such blob") }
	logged.Reset()
	for i, of := range readings(t, send(o, readFilesRequest(ids)), len(ids)) {
		if of.Status != 500 || of.Error.Message != "Internal server error" {
			t.Errorf("file %d is %+v", i, of)
		}
	}
	must.Is(t, len(ids), strings.Count(logged.String(), "\n"))
}

func TestReadFilesIsCharged(t *testing.T) {
	o := newFileServer(t)
	o.limitCallers(8 << 20)
	short := o.store(t, "short.txt", "short").ID
	many := slices.Repeat([]string{short}, 1000)
	readings(t, send(o, readFilesRequest(many)), len(many))
	must.Is(t, 11, o.remaining())
	must.Is(t, 0, o.budgets.callers.Used())
	o.budgets.callers = limit.NewBudget(5 << 20)
	readings(t, send(o, readFilesRequest(many[:500])), 500)
	checkBusy(t, send(o, readFilesRequest(many)))
}
