package httpapi

import (
	"bytes"
	"context"
	"errors"
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

// sizeBlobs keeps of blobs only how long they are: their content is all the same
// byte. It notes how large the heap becomes meanwhile.
type sizeBlobs struct {
	ports.Blobs
	sizes map[string]int64
	most  uint64
}

const filling = 'x'

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (b *sizeBlobs) Put(_ context.Context, name, _ string, _ int64, r io.Reader) error {
	block := make([]byte, 64<<10)
	for measured := int64(0); ; {
		n, err := r.Read(block)
		b.sizes[name] += int64(n)
		if b.sizes[name]-measured > 8<<20 {
			measured, b.most = b.sizes[name], max(b.most, heapNow())
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (b *sizeBlobs) Open(_ context.Context, name string, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(fill{}, b.sizes[name])), nil
}

// fill is filling without end.
type fill struct{}

var filled = bytes.Repeat([]byte{filling}, spool.BlockSize)

func (fill) Read(p []byte) (int, error) { return copy(p, filled), nil }

func TestLargeContentIsStreamed(t *testing.T) {
	race.Skip(t, "it measures memory")
	const growth = 32 << 20
	const size = 256 << 20
	b := &sizeBlobs{sizes: map[string]int64{}}
	o := newFileServer(t, func(o *objects.Options) { b.Blobs, o.Blobs, o.MaxSize = o.Blobs, b, size })
	body := func(before string, content io.Reader, after string) io.Reader {
		return io.MultiReader(strings.NewReader(before), content, strings.NewReader(after))
	}
	utf8 := func() io.Reader { return io.LimitReader(fill{}, size) }
	base64 := func() io.Reader {
		return io.LimitReader(&repeated{text: bytes.Repeat([]byte("eHh4"), 16<<10)}, (size+2)/3*4-4)
	} // "xxx", and one byte is left
	field := "\r\n--b\r\n" + formField("path", "%s")
	fields := `"path":"%s","kind":"ARTIFACT","scope":"SHARED"`
	for name, test := range map[string]struct {
		contentType   string
		before, after string
		content       func() io.Reader
	}{
		"raw":                             {"", "", "", utf8},
		"multipart":                       {"multipart/form-data; boundary=b", field + "\r\n--b\r\n" + formField("kind", "ARTIFACT") + "\r\n--b\r\n" + formField("scope", "SHARED") + "\r\n--b\r\n" + filePart[:len(filePart)-len("content")], "\r\n--b--", utf8},
		"multipart that is kept first":    {"multipart/form-data; boundary=b", "--b\r\n" + filePart[:len(filePart)-len("content")], field + "\r\n--b--", utf8},
		"JSON":                            {"application/json", "{" + fields + `,"encoding":"utf8","content":"`, `"}`, utf8},
		"JSON that is kept first":         {"application/json", `{"content":"`, `",` + fields + `}`, utf8},
		"base64":                          {"application/json", "{" + fields + `,"encoding":"base64","content":"`, `eA=="}`, base64},
		"base64 that is known only later": {"application/json", `{"content":"`, `eA==",` + fields + `,"encoding":"base64"}`, base64},
	} {
		t.Run(name, func(t *testing.T) {
			path := strings.ReplaceAll(name, " ", "-")
			target := "/files"
			if name == "raw" {
				target += "?path=raw"
			}
			fillIn := func(s string) string { return strings.ReplaceAll(s, "%s", path) }
			r := request(http.MethodPost, target, body(fillIn(test.before), test.content(), fillIn(test.after)), "Content-Type: "+test.contentType)
			r.ContentLength = -1
			runtime.GC()
			base := heapNow()
			b.most = 0
			stored := read[record](t, send(o, r), http.StatusCreated)
			if stored.Size != size {
				t.Errorf("%d bytes are stored", stored.Size)
			}
			if b.most == 0 || b.most > base+growth {
				t.Errorf("the heap grew from %d to %d MiB", base>>20, b.most>>20)
			}
			t.Logf("the heap grew by %d KiB", (int64(b.most)-int64(base))>>10)
		})
	}
	stored := read[[]record](t, o.get("/files?limit=1"), http.StatusOK)[0]
	for _, form := range []string{"", "?raw=1"} {
		t.Run("a download"+form, func(t *testing.T) {
			runtime.GC()
			base := heapNow()
			w := &discardWriter{header: http.Header{}}
			o.ServeHTTP(w, request(http.MethodGet, "/files/"+stored.ID+form, nil))
			if w.bytes < size || w.most > base+growth {
				t.Errorf("of %d bytes the heap grew from %d to %d MiB", w.bytes, base>>20, w.most>>20)
			}
		})
	}
}

// repeated is a text without end.
type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// discardWriter is an answer that is thrown away, and notes how large the heap
// becomes meanwhile.
type discardWriter struct {
	header  http.Header
	bytes   int64
	weighed int64
	most    uint64
}

func (w *discardWriter) Header() http.Header { return w.header }
func (w *discardWriter) WriteHeader(int)     {}
func (w *discardWriter) Write(b []byte) (int, error) {
	w.bytes += int64(len(b))
	if w.bytes-w.weighed > 8<<20 {
		w.weighed, w.most = w.bytes, max(w.most, heapNow())
	}
	return len(b), nil
}

func TestUploadExtendsDeadlines(t *testing.T) {
	const size = 10 * stream.MinRate
	began := time.Unix(1_800_000_000, 0)
	o := newFileServer(t)
	o.api.Now = func() time.Time { return began }
	var reads, writes []time.Time
	w := deadlined{httptest.NewRecorder(), &reads, &writes}
	o.ServeHTTP(w, request(http.MethodPost, "/files?path=p", io.LimitReader(fill{}, size)))
	if w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	last := len(reads) - 1
	if len(reads) < 3 || !reads[0].Equal(began.Add(stream.BodyTimeout)) || !reads[last-1].Equal(began.Add(stream.BodyTimeout+size/stream.MinRate*time.Second)) || !reads[last].IsZero() {
		t.Errorf("the body has until %v", reads)
	}
	if last := writes[len(writes)-1].Sub(began); !writes[0].Equal(began.Add(stream.AnswerTimeout)) || last < stream.AnswerTimeout+size/stream.MinRate*time.Second || last > stream.AnswerTimeout+(size/stream.MinRate+1)*time.Second {
		t.Errorf("the answer has until %v", writes)
	}
	if !slices.IsSortedFunc(reads[:last], time.Time.Compare) || !slices.IsSortedFunc(writes, time.Time.Compare) {
		t.Error("a deadline comes nearer")
	}
}

// slowBody is content of which a little comes every second.
type slowBody struct{ left int }

func (s *slowBody) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	n := min(len(p), s.left, stream.MinRate)
	s.left -= n
	return n, nil
}

func TestUploadMayOutlastWorkTimeout(t *testing.T) {
	o := newFileServer(t, func(o *objects.Options) { o.MaxSize = 1 << 30 })
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		stored := read[record](t, send(o, request(http.MethodPost, "/files?path=p", &slowBody{100 * stream.MinRate})), http.StatusCreated)
		if took := time.Since(began); took < 2*stream.WorkTimeout || stored.Size != 100*stream.MinRate {
			t.Errorf("%d bytes after %v", stored.Size, took)
		}
	})
}

func TestStalledUploadTimesOut(t *testing.T) {
	o := newFileServer(t)
	stuck := func(after int64) io.Reader {
		return io.MultiReader(io.LimitReader(fill{}, after), iotest.ErrReader(os.ErrDeadlineExceeded))
	}
	for after, message := range map[int64]string{
		100:                "The body did not come within 30 seconds",
		2 * stream.MinRate: "The body came more slowly than 65536 bytes a second",
	} {
		for _, key := range []string{"", "k"} {
			r := request(http.MethodPost, "/files?path=p", stuck(after))
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			must.Is(t, message, refused(t, send(o, r), 400).Message)
		}
	}
	t.Run("a connection that says nothing more ends", func(t *testing.T) {
		late(&o.api.Options)
		answer := talk(t, o.api, "POST /api/v1/sync/files?path=p HTTP/1.1\r\nHost: x\r\nX-Actor: ada\r\nContent-Length: 1000\r\n\r\nabc")
		if !strings.Contains(answer, "400 Bad Request") || !strings.Contains(answer, "The body did not come within 30 seconds") {
			t.Errorf("the answer is %q", answer)
		}
	})
	if all := read[[]record](t, o.get("/files"), 200); len(all) > 0 {
		t.Errorf("stored %+v", all)
	}
}

func TestUploadWithIdempotencyKeyIsStoredOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	content := strings.Repeat("0123456789", 60_000) // more than is kept in memory
	for form := range forms {
		t.Run(form, func(t *testing.T) {
			o := newFileServer(t)
			contentType, query, body := forms[form](content, "content", "path=p")
			ask := func(body []byte) *httptest.ResponseRecorder {
				return send(o, request(http.MethodPost, "/files?"+query, bytes.NewReader(body), "Content-Type: "+contentType, "Idempotency-Key: k"))
			}
			first := ask(body)
			stored := read[record](t, first, http.StatusCreated)
			again := ask(body)
			if again.Code != 201 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotent-Replayed") != "true" ||
				again.Header().Get("Location") != filesPath+"/"+stored.ID || again.Header().Get("Etag") != `"1"` {
				t.Errorf("%d %s %v", again.Code, again.Body, again.Header())
			}
			other := bytes.Clone(body)
			other[1+max(bytes.Index(other, []byte("MDEy")), bytes.Index(other, []byte("0123")))] ^= 1
			refused(t, ask(other), 422)
			if back := o.content(t, stored.ID); back != content {
				t.Errorf("%d bytes are stored", len(back))
			}
			if all := read[[]record](t, o.get("/files"), 200); len(all) != 1 {
				t.Errorf("stored %+v", all)
			}
		})
	}
	for name, parts := range map[string]struct {
		again [4]string // the path, the name and type of the file, what is in it
		code  int
	}{
		"under another boundary it is the same form": {[4]string{"p", "f", "text/plain", content}, 201},
		"another path is another form":               {[4]string{"q", "f", "text/plain", content}, 422},
		"another file name is another form":          {[4]string{"p", "g", "text/plain", content}, 422},
		"another type is another form":               {[4]string{"p", "f", "text/html", content}, 422},
		"other content is another form":              {[4]string{"p", "f", "text/plain", content + "x"}, 422},
		"nothing is another form":                    {[4]string{"p", "f", "text/plain", ""}, 422},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFileServer(t)
			ask := func(boundary string, say [4]string) *httptest.ResponseRecorder {
				body := "--" + boundary + "\r\nContent-Disposition: form-data; name=path\r\n\r\n" + say[0] +
					"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=file; filename=" + say[1] + "\r\nContent-Type: " + say[2] + "\r\n\r\n" + say[3] +
					"\r\n--" + boundary + "--\r\n"
				return send(o, request(http.MethodPost, "/files", strings.NewReader(body), "Content-Type: multipart/form-data; boundary="+boundary, "Idempotency-Key: k"))
			}
			stored := read[record](t, ask("one", [4]string{"p", "f", "text/plain", content}), http.StatusCreated)
			if w := ask("another", parts.again); w.Code != parts.code || w.Code == 201 && w.Header().Get("Idempotent-Replayed") != "true" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if back := o.content(t, stored.ID); back != content {
				t.Errorf("%d bytes are stored", len(back))
			}
		})
	}
	t.Run("bytes of another type are another upload", func(t *testing.T) {
		o := newFileServer(t)
		for _, of := range []struct {
			mimeType string
			code     int
		}{{"text/html", 201}, {"text/plain", 422}, {"text/html", 201}} {
			if w := send(o, request(http.MethodPost, "/files?path=p", strings.NewReader("x"), "Content-Type: "+of.mimeType, "Idempotency-Key: k")); w.Code != of.code {
				t.Errorf("%s: %d %s", of.mimeType, w.Code, w.Body)
			}
		}
	})
	t.Run("what is too large uses no key up", func(t *testing.T) {
		o := newFileServer(t)
		for _, size := range []int64{1<<20 + 1, 1 << 20} {
			for _, length := range []int64{size, -1} {
				r := request(http.MethodPost, "/files?path=p", io.LimitReader(fill{}, size), "Idempotency-Key: k")
				r.ContentLength = length
				if w := send(o, r); (w.Code == http.StatusRequestEntityTooLarge) != (size > 1<<20) {
					t.Errorf("%d of %d is %d", size, length, w.Code)
				}
			}
		}
	})
	tempEmpty(t)
}
