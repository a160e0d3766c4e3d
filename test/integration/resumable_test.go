package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"collab/test/collabd"
	"collab/test/must"
	"collab/test/tempdir"
)

// TestUploadsThatResumeOverServersThatAreKilled sends a file to three servers of a deployment in turn. Its
// requests are cut at random, repeated at the same time, and servers are killed while they receive it.
func TestUploadsThatResumeOverServersThatAreKilled(t *testing.T) {
	const size, cuts = 64 << 20, 8
	seed := seeded(t)
	random := rand.New(rand.NewPCG(seed, 0))
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(content)
	checksum := must.Sum(content)

	first := collabd.Start(t, "COLLAB_DATABASE_URL="+collabd.Postgres(t), "COLLAB_BLOB_URL=file://"+tempdir.New(t))
	servers := []*collabd.Server{first, first.Peer(t), first.Peer(t)}
	anna := servers[0].SignIn(t, "anna@example.com", "Films", "owner")
	var made struct{ ID, FileID string }
	anna.Must(t, 201, "POST", "/sync/resumable-uploads?path=film.bin&checksum="+checksum, nil, &made, "Upload-Complete: ?0", fmt.Sprint("Upload-Length: ", size))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	ask := func(s *collabd.Server, method string, offset int64, body io.Reader, length int64) (*http.Response, []byte, error) {
		r := must.Do(anna.At(s).Request(t.Context(), method, "/sync/resumable-uploads/"+made.ID, body)).Or(t)
		if r.ContentLength = length; method == "PATCH" {
			r.Header.Set("Content-Type", "application/partial-upload")
			r.Header.Set("Upload-Complete", "?1")
			r.Header.Set("Upload-Offset", strconv.FormatInt(offset, 10))
		}
		response, err := client.Do(r)
		if err != nil {
			return nil, nil, err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		return response, data, err
	}
	last := int64(0)
	for cut := 0; ; cut++ {
		s := servers[random.IntN(3)]
		head, _, err := ask(s, "HEAD", 0, nil, 0)
		if err != nil || head.StatusCode != 200 {
			t.Fatalf("HEAD: %v, %v", head, err)
		}
		offset, err := strconv.ParseInt(head.Header.Get("Upload-Offset"), 10, 64)
		if err != nil || offset < last {
			t.Fatalf("the offset went from %d to %q", last, head.Header.Get("Upload-Offset"))
		}
		last = offset
		rest := content[offset:]
		if cut >= cuts || len(rest) == 0 {
			response, data, err := ask(s, "PATCH", offset, bytes.NewReader(rest), int64(len(rest)))
			if (err != nil || response.StatusCode == 409) && cut < 2*cuts {
				continue // an earlier request has ended meanwhile; net/http may close before the client reads that
			}
			if err != nil || response.StatusCode != 201 || response.Header.Get("Upload-Complete") != "?1" {
				t.Fatalf("the end: %v, %s, %v", response, data, err)
			}
			break
		}
		n := random.IntN(len(rest) + 1)
		kills := random.IntN(3) == 0
		kill := sync.OnceFunc(s.Kill)
		broken := errors.New("cut")
		body := func() io.Reader {
			parts := []io.Reader{bytes.NewReader(rest[:n/2]), bytes.NewReader(rest[n/2 : n]), iotest.ErrReader(broken)}
			if kills {
				parts[1] = readerFunc(func([]byte) (int, error) {
					kill()
					return 0, broken
				})
			}
			return io.MultiReader(parts...)
		}
		var both sync.WaitGroup
		both.Go(func() { _, _, _ = ask(s, "PATCH", offset, body(), int64(len(rest))) })
		if other := servers[random.IntN(3)]; random.IntN(3) == 0 && other != s {
			both.Go(func() { _, _, _ = ask(other, "PATCH", offset, bytes.NewReader(rest[:n]), int64(len(rest))) })
		}
		both.Wait()
		if kills {
			kill() // an early answer ends a request before the second half of its body is read
			must.NoError(t, s.Restart())
		}
	}
	for _, s := range servers {
		response, data, err := ask(s, "PATCH", size, nil, 0)
		var file struct {
			ID, Checksum  string
			Size, Version int64
		}
		if err != nil || response.StatusCode != 201 || json.Unmarshal(data, &file) != nil || file.ID != made.FileID || file.Checksum != checksum || file.Size != size || file.Version != 1 {
			t.Errorf("repeated: %v, %s, %v", response, data, err)
		}
		status, got, err := anna.At(s).Do("GET", "/sync/files/"+made.FileID+"?raw=1", nil)
		if err != nil || status != 200 || !bytes.Equal(got, content) {
			t.Errorf("the file has %d bytes, %d, %v", len(got), status, err)
		}
	}
}

// readerFunc implements io.Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
