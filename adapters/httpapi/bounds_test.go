package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/spool"
	"collab/adapters/httpapi/stream"
	"collab/app/objects"
	"collab/ports"
	"collab/test/must"
	"collab/test/race"
)

// heapMeter implements io.Writer. It discards what is written and measures the heap about every 8 MiB.
type heapMeter struct {
	written, measured int64
	base, most        uint64 // bytes of the heap: at the beginning, and at most
}

func (m *heapMeter) Write(p []byte) (int, error) {
	m.written += int64(len(p))
	if m.written-m.measured > 8<<20 {
		m.measured, m.most = m.written, max(m.most, heapSize())
	}
	return len(p), nil
}

// reset begins a measurement.
func (m *heapMeter) reset() {
	runtime.GC()
	*m = heapMeter{base: heapSize()}
}

// check checks that the heap was measured and has not grown by more than 32 MiB.
func (m *heapMeter) check(t testing.TB) {
	t.Helper()
	if m.most == 0 || m.most > m.base+32<<20 {
		t.Errorf("the heap grew from %d to %d MiB", m.base>>20, m.most>>20)
	}
}

func heapSize() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// sizeBlobs stores only the sizes of blobs. Their content is read as x.
type sizeBlobs struct {
	ports.Blobs
	sizes map[string]int64
	heap  heapMeter
}

func (b *sizeBlobs) Put(_ context.Context, name, _ string, _ int64, r io.Reader) (err error) {
	b.sizes[name], err = io.Copy(&b.heap, r)
	return err
}

func (b *sizeBlobs) Open(_ context.Context, name string, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(&repeated{text: filled}, b.sizes[name])), nil
}

var filled = bytes.Repeat([]byte("x"), spool.BlockSize)

// xs returns a reader of size times x.
func xs(size int64) io.Reader { return io.LimitReader(&repeated{text: filled}, size) }

// repeated reads a text again and again.
type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestLargeContentIsStreamed(t *testing.T) {
	race.Skip(t, "it measures memory")
	const size = 64 << 20
	b := &sizeBlobs{sizes: map[string]int64{}}
	o := newFileServer(t, func(o *objects.Options) { b.Blobs, o.Blobs, o.MaxSize = o.Blobs, b, size })
	utf8 := func() io.Reader { return xs(size) }
	base64 := func() io.Reader { // of "xxx" repeated, without the last byte of size
		return io.LimitReader(&repeated{text: bytes.Repeat([]byte("eHh4"), 16<<10)}, (size+2)/3*4-4)
	}
	field := "\r\n--b\r\n" + formField("path", "%s")
	fields := `"path":"%s","kind":"ARTIFACT","scope":"SHARED"`
	for name, test := range map[string]struct {
		contentType   string
		before, after string
		content       func() io.Reader
	}{
		"raw":                    {"", "", "", utf8},
		"multipart":              {"multipart/form-data; boundary=b", field + "\r\n--b\r\n" + formField("kind", "ARTIFACT") + "\r\n--b\r\n" + formField("scope", "SHARED") + "\r\n--b\r\n" + filePart[:len(filePart)-len("content")], "\r\n--b--", utf8},
		"multipart, fields last": {"multipart/form-data; boundary=b", "--b\r\n" + filePart[:len(filePart)-len("content")], field + "\r\n--b--", utf8},
		"JSON":                   {"application/json", "{" + fields + `,"encoding":"utf8","content":"`, `"}`, utf8},
		"JSON, fields last":      {"application/json", `{"content":"`, `",` + fields + `}`, utf8},
		"base64":                 {"application/json", "{" + fields + `,"encoding":"base64","content":"`, `eA=="}`, base64},
		"base64, encoding last":  {"application/json", `{"content":"`, `eA==",` + fields + `,"encoding":"base64"}`, base64},
	} {
		t.Run(name, func(t *testing.T) {
			withPath := func(s string) io.Reader {
				return strings.NewReader(strings.ReplaceAll(s, "%s", strings.ReplaceAll(name, " ", "-")))
			}
			target := "/files"
			if name == "raw" {
				target += "?path=raw"
			}
			r := syncRequest(http.MethodPost, target, io.MultiReader(withPath(test.before), test.content(), withPath(test.after)), "Content-Type: "+test.contentType)
			r.ContentLength = -1
			b.heap.reset()
			must.Is(t, size, read[record](t, send(o, r), http.StatusCreated).Size)
			b.heap.check(t)
		})
	}
	stored := read[[]record](t, o.get("/files?limit=1"), http.StatusOK)[0]
	for _, form := range []string{"", "?raw=1"} {
		t.Run("download"+form, func(t *testing.T) {
			b.heap.reset()
			o.ServeHTTP(funcWriter{httptest.NewRecorder(), func(p []byte) { _, _ = b.heap.Write(p) }}, syncRequest(http.MethodGet, "/files/"+stored.ID+form, nil))
			if b.heap.written < size {
				t.Errorf("%d bytes", b.heap.written)
			}
			b.heap.check(t)
		})
	}
}

func TestUploadExtendsDeadlines(t *testing.T) {
	const size = 10 * stream.MinRate
	began := time.Unix(1_800_000_000, 0)
	o := newFileServer(t)
	o.Now = func() time.Time { return began }
	w := serveDeadlines(o, syncRequest(http.MethodPost, "/files?path=p", xs(size)))
	if w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	reads, writes, last := w.reads, w.writes, len(w.reads)-1
	if len(reads) < 3 || !reads[0].Equal(began.Add(stream.BodyTimeout)) || !reads[last-1].Equal(began.Add(stream.BodyTimeout+size/stream.MinRate*time.Second)) || !reads[last].IsZero() {
		t.Errorf("the read deadlines are %v", reads)
	}
	if last := writes[len(writes)-1].Sub(began); !writes[0].Equal(began.Add(stream.ResponseTimeout)) || last < stream.ResponseTimeout+size/stream.MinRate*time.Second || last > stream.ResponseTimeout+(size/stream.MinRate+1)*time.Second {
		t.Errorf("the write deadlines are %v", writes)
	}
	if !slices.IsSortedFunc(reads[:last], time.Time.Compare) || !slices.IsSortedFunc(writes, time.Time.Compare) {
		t.Error("a deadline is earlier than the one before")
	}
}

func TestUploadMayOutlastWorkTimeout(t *testing.T) {
	o := newFileServer(t, func(o *objects.Options) { o.MaxSize = 1 << 30 })
	synctest.Test(t, func(t *testing.T) {
		began, content := time.Now(), xs(100*stream.MinRate)
		slow := readFunc(func(p []byte) (int, error) {
			time.Sleep(time.Second)
			return content.Read(p[:min(len(p), stream.MinRate)])
		})
		stored := read[record](t, send(o, syncRequest(http.MethodPost, "/files?path=p", slow)), http.StatusCreated)
		if took := time.Since(began); took < 2*stream.WorkTimeout || stored.Size != 100*stream.MinRate {
			t.Errorf("%d bytes after %v", stored.Size, took)
		}
	})
}

func TestStalledUploadTimesOut(t *testing.T) {
	o := newFileServer(t)
	for after, message := range map[int64]string{
		100:                "The body did not come within 30 seconds",
		2 * stream.MinRate: "The body came more slowly than 65536 bytes a second",
	} {
		for _, headers := range [][]string{nil, {keyHeader}} {
			stalled := io.MultiReader(xs(after), iotest.ErrReader(os.ErrDeadlineExceeded))
			must.Is(t, message, checkError(t, send(o, syncRequest(http.MethodPost, "/files?path=p", stalled, headers...)), 400).Message)
		}
	}
	t.Run("over a connection", func(t *testing.T) {
		late(&o.Options)
		response := roundTrip(t, o.api, "POST /api/v1/sync/files?path=p HTTP/1.1\r\nHost: x\r\nX-Actor: ada\r\nContent-Length: 1000\r\n\r\nabc")
		if !strings.Contains(response, "400 Bad Request") || !strings.Contains(response, "The body did not come within 30 seconds") {
			t.Errorf("the response is %q", response)
		}
	})
	if all := read[[]record](t, o.get("/files"), 200); len(all) > 0 {
		t.Errorf("stored %+v", all)
	}
}

func TestUploadWithIdempotencyKeyIsStoredOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	content := strings.Repeat("0123456789", 60_000) // too long for the memory of a spool
	for form := range forms {
		t.Run(form, func(t *testing.T) {
			o := newFileServer(t)
			contentType, query, body := forms[form](content, "content", "path=p")
			upload := func(body []byte) *httptest.ResponseRecorder {
				return send(o, syncRequest(http.MethodPost, "/files?"+query, bytes.NewReader(body), "Content-Type: "+contentType, keyHeader))
			}
			first := upload(body)
			stored := read[record](t, first, http.StatusCreated)
			again := upload(body)
			if again.Code != 201 || again.Body.String() != first.Body.String() {
				t.Errorf("%d %s", again.Code, again.Body)
			}
			checkHeader(t, again.Header(), map[string]string{"Idempotent-Replayed": "true", "Location": filesPath + "/" + stored.ID, "Etag": `"1"`})
			other := bytes.Clone(body)
			other[1+max(bytes.Index(other, []byte("MDEy")), bytes.Index(other, []byte("0123")))] ^= 1
			checkError(t, upload(other), 422)
			if got := o.content(t, stored.ID); got != content {
				t.Errorf("%d bytes are stored", len(got))
			}
			if all := read[[]record](t, o.get("/files"), 200); len(all) != 1 {
				t.Errorf("stored %+v", all)
			}
		})
	}
	type multipartUpload struct{ path, file, mimeType, content string }
	for name, test := range map[string]struct {
		again multipartUpload
		code  int
	}{
		"other boundary":  {multipartUpload{"p", "f", "text/plain", content}, 201},
		"other path":      {multipartUpload{"q", "f", "text/plain", content}, 422},
		"other file name": {multipartUpload{"p", "g", "text/plain", content}, 422},
		"other type":      {multipartUpload{"p", "f", "text/html", content}, 422},
		"other content":   {multipartUpload{"p", "f", "text/plain", content + "x"}, 422},
		"no content":      {multipartUpload{"p", "f", "text/plain", ""}, 422},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFileServer(t)
			upload := func(boundary string, u multipartUpload) *httptest.ResponseRecorder {
				body := "--" + boundary + "\r\nContent-Disposition: form-data; name=path\r\n\r\n" + u.path +
					"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=file; filename=" + u.file + "\r\nContent-Type: " + u.mimeType + "\r\n\r\n" + u.content +
					"\r\n--" + boundary + "--\r\n"
				return send(o, syncRequest(http.MethodPost, "/files", strings.NewReader(body), "Content-Type: multipart/form-data; boundary="+boundary, keyHeader))
			}
			stored := read[record](t, upload("one", multipartUpload{"p", "f", "text/plain", content}), http.StatusCreated)
			if w := upload("another", test.again); w.Code != test.code || w.Code == 201 && w.Header().Get("Idempotent-Replayed") != "true" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if got := o.content(t, stored.ID); got != content {
				t.Errorf("%d bytes are stored", len(got))
			}
		})
	}
	t.Run("other type of a raw upload", func(t *testing.T) {
		o := newFileServer(t)
		for _, test := range []struct {
			mimeType string
			code     int
		}{{"text/html", 201}, {"text/plain", 422}, {"text/html", 201}} {
			if w := send(o, syncRequest(http.MethodPost, "/files?path=p", strings.NewReader("x"), "Content-Type: "+test.mimeType, keyHeader)); w.Code != test.code {
				t.Errorf("%s: %d %s", test.mimeType, w.Code, w.Body)
			}
		}
	})
	t.Run("too large content releases the key", func(t *testing.T) {
		o := newFileServer(t)
		for _, size := range []int64{1<<20 + 1, 1 << 20} {
			for _, length := range []int64{size, -1} {
				r := syncRequest(http.MethodPost, "/files?path=p", xs(size), keyHeader)
				r.ContentLength = length
				if w := send(o, r); (w.Code == http.StatusRequestEntityTooLarge) != (size > 1<<20) {
					t.Errorf("%d bytes of the declared length %d: %d", size, length, w.Code)
				}
			}
		}
	})
	checkNoTempFiles(t)
}
