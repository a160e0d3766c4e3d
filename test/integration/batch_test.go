package integration

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/race"
)

// smallFile is the n-th of many files.
type smallFile struct{ path, content string }

func newSmallFile(n, size int) smallFile {
	random := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	content := make([]byte, size/2)
	_, _ = random.Read(content) // never fails
	return smallFile{fmt.Sprintf("tree/%02d/%d.txt", n%100, n), hex.EncodeToString(content)}
}

// sendFiles sends files as one batch, and returns the status of the response and of each operation.
func sendFiles(of collabd.Client, files []smallFile) (status int, outcomes []batchOutcome, err error) {
	var body bytes.Buffer
	for _, f := range files {
		_, _ = fmt.Fprintf(&body, "{\"op\":\"put\",\"path\":%q,\"checksum\":%q,\"content\":%q}\n", f.path, must.Sum(f.content), f.content) // never fails
	}
	status, response, err := of.Do("POST", "/sync/batch", &body, "Content-Type: application/x-ndjson")
	if err != nil || status != 200 {
		return status, nil, err
	}
	for line := range strings.Lines(string(response)) {
		var o batchOutcome
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return status, nil, err
		}
		outcomes = append(outcomes, o)
	}
	return status, outcomes, nil
}

type batchOutcome struct {
	Status int
	File   struct{ ID, Path, Checksum string }
}

func TestManySmallFilesTakeFewRequests(t *testing.T) {
	race.Skip(t, "what a crash leaves is on the disk")
	const files, size, together = 10_000, 4 << 10, 1000
	s := collabd.Start(t, "COLLAB_RATE_LIMITS=caller=1200/m,address=600/m,chat=60/m,credentials=60/m,webhook=6000/m")
	ada, ben := s.SignIn(t, "ada@example.com", "Batches", "owner"), s.SignIn(t, "ben@example.com", "Batches", "member")
	all := make([]smallFile, files)
	for n := range all {
		all[n] = newSmallFile(n, size)
	}
	requests := 0
	for n := 0; n < files-together; n += together {
		requests++
		status, outcomes, err := sendFiles(ada, all[n:n+together])
		if err != nil || status != 200 || len(outcomes) != together {
			t.Fatalf("batch %d is answered with %d and %d outcomes, %v", requests, status, len(outcomes), err)
		}
		for i, o := range outcomes {
			if o.Status != 201 || o.File.Checksum != must.Sum(all[n+i].content) {
				t.Fatalf("operation %d: %+v", n+i, o)
			}
		}
	}

	// The server is killed when a part of the last batch is visible.
	used := func() (used int64) {
		var limits struct{ Storage struct{ Used int64 } }
		ben.Must(t, 200, "GET", "/sync/limits", nil, &limits)
		return limits.Storage.Used
	}
	before := used()
	answered := make(chan int, 1)
	go func() {
		status, _, _ := sendFiles(ada, all[files-together:])
		answered <- status
	}()
	for polls := 0; used() == before && polls < 1000 && len(answered) == 0; {
		polls++ // as many as the rate allows
	}
	s.Kill()
	killed := <-answered
	must.NoError(t, s.Restart())
	ada, ben = ada.At(s), ben.At(s)
	requests++
	status, outcomes, err := sendFiles(ada, all[files-together:])
	if err != nil || status != 200 || len(outcomes) != together {
		t.Fatalf("the last batch is answered with %d and %d outcomes, %v", status, len(outcomes), err)
	}
	again := 0
	for i, o := range outcomes {
		if o.Status == 409 {
			again++
		} else if o.Status != 201 {
			t.Fatalf("operation %d: %+v", i, o)
		}
		if o.File.Checksum != must.Sum(all[files-together+i].content) {
			t.Fatalf("operation %d is of another content: %+v", i, o)
		}
	}
	if requests++; requests > 20 {
		t.Errorf("%d requests were sent", requests)
	}
	if killed == 200 && again != together {
		t.Errorf("the batch was acknowledged, and %d of its files are there", again)
	}
	var manifest []struct{ ID, Path, Checksum string }
	ada.Must(t, 200, "GET", "/sync/manifest", nil, &manifest)
	byPath := map[string]string{}
	for _, m := range manifest {
		byPath[m.Path] = m.Checksum
	}
	for n, f := range all {
		if byPath[f.path] != must.Sum(f.content) {
			t.Fatalf("file %d is %q", n, byPath[f.path])
		}
	}
	if len(manifest) != files || used() != files*size {
		t.Errorf("%d files have %d bytes", len(manifest), used())
	}
	for n := 0; n < files; n += 997 {
		status, content, err := ada.Do("GET", "/sync/files/"+manifest[n].ID+"?raw=1", nil)
		if err != nil || status != 200 || must.Sum(content) != manifest[n].Checksum {
			t.Errorf("%s is %d with %d bytes, %v", manifest[n].Path, status, len(content), err)
		}
	}
}
