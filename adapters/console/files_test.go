package console

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"collab/test/must"
)

// discarded is a response whose body is discarded.
type discarded struct{ http.ResponseWriter }

func (discarded) Write(b []byte) (int, error) { return len(b), nil }

func TestClientsWithoutGzipShareTheUncompressedFile(t *testing.T) {
	f := must.Do(readFiles(dist)).Or(t)
	send := func() {
		must.NoError(t, f.serve(discarded{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, prefix, nil)))
	}
	send()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		send()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 16<<10 {
		t.Errorf("a response takes %d bytes", each)
	}
}
