package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"collab/adapters/bucket"
	"collab/adapters/httpapi/spool"
	"collab/app/access"
	"collab/app/objects"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/ports"
	"collab/test/must"
)

func TestFileRecordHasMetadataAndContent(t *testing.T) {
	o := newFileServer(t)
	for name, content := range map[string]string{
		"text":        "a\n\"\\\x00é文👩\u2028",
		"binary":      "\x00\xff\xfe",
		"empty":       "",
		"long text":   strings.Repeat("文\n", 200_000),
		"long binary": strings.Repeat("\xff\x00\x01", 100_001) + "\xfe",
		"escapes":     strings.Repeat("\x01", 300_000),
		"one block":   strings.Repeat("x", spool.BlockSize),
		"split runes": strings.Repeat("x", maxWriteChunk-1) + strings.Repeat("👩", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			stored := o.store(t, url.QueryEscape(name), content)
			w := o.get("/files/" + stored.ID)
			got := read[recordWithContent](t, w, 200)
			if !cmp.Equal(got.record, stored) {
				t.Errorf("the record is %+v, want %+v", got.record, stored)
			}
			decoded, encoding := got.Content, "utf8"
			if strings.Contains(name, "binary") {
				decoded, encoding = string(must.Do(base64.StdEncoding.DecodeString(got.Content)).Or(t)), "base64"
			}
			if decoded != content || got.Encoding != encoding {
				t.Errorf("%d bytes in %s, want %d in %s", len(decoded), got.Encoding, len(content), encoding)
			}
			checkHeader(t, w.Header(), map[string]string{"Etag": `"1-json"`, "Vary": "Accept", "Content-Type": "application/json"})
			if length := w.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(w.Body.Len()) {
				t.Errorf("Content-Length is %s of %d", length, w.Body.Len())
			}
		})
	}
}

func TestPathUnescapeDecodesHeaderTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		if back, err := url.PathUnescape(percentEncode(s)); err != nil || back != s {
			t.Fatalf("%q is %q: %v", s, percentEncode(s), err)
		}
		if back, err := url.PathUnescape(escapedName(s)); err != nil || back != s[strings.LastIndexByte(s, '/')+1:] {
			t.Fatalf("%q is %q: %v", s, escapedName(s), err)
		}
	})
}

func TestFileRepresentationIsNegotiated(t *testing.T) {
	o := newFileServer(t)
	id := o.store(t, "a.png", "x").ID
	document := o.store(t, "a.json", "{}").ID
	for _, test := range []struct {
		id, query string
		accept    []string
		bytes     bool
	}{
		{id, "", nil, false},
		{id, "?raw=1", nil, true},
		{id, "?raw=1", []string{"application/json"}, true},
		{id, "?raw=0", []string{"image/png"}, false},
		{id, "", []string{"*/*"}, false},
		{id, "", []string{"application/octet-stream"}, true},
		{id, "", []string{"IMAGE/PNG"}, true},
		{id, "", []string{"image/*"}, false},
		{id, "", []string{"text/html, image/png;q=0.9, */*;q=0.1"}, true},
		{id, "", []string{"application/json, image/png"}, false},
		{id, "", []string{"image/png, application/json"}, true},
		{id, "", []string{"application/json;q=0.5, image/png"}, true},
		{id, "", []string{"application/json;q=0.5", "image/png"}, true},
		{id, "", []string{"image/png;q=0"}, false},
		{id, "", []string{"image/png;q=x, image/png;q=nan, image/png;q=7"}, false},
		{id, "", []string{"image/gif"}, false},
		{document, "", []string{"application/json"}, false},
		{document, "?raw=1", nil, true},
	} {
		t.Run(fmt.Sprint(test.query, test.accept), func(t *testing.T) {
			r := syncRequest(http.MethodGet, "/files/"+test.id+test.query, nil)
			r.Header["Accept"] = test.accept
			w := send(o, r)
			if got := w.Header().Get("X-Collab-Id") != ""; w.Code != 200 || got != test.bytes {
				t.Errorf("%d, raw: %v", w.Code, got)
			}
		})
	}
	for query, message := range map[string]string{"?raw=yes": "raw must be 1 or 0", "?raw=1&raw=1": "raw must not be repeated", "?%zz": "The query could not be read"} {
		must.Is(t, message, checkError(t, o.get("/files/"+id+query), 400).Message)
	}
}

func TestContentIsNotOpenedForConditionalAndHeadRequests(t *testing.T) {
	opened := 0
	o := newFileServer(t, func(o *objects.Options) {
		o.Blobs = &failingBlobs{o.Blobs, func() error { opened++; return nil }}
	})
	id := o.store(t, "a.txt", "content").ID
	read[record](t, o.put("/profile", "application/json", `{"a":1}`), 200)
	read[record](t, o.put("/memory/user", "text/plain", `text`), 200)
	opened = 0
	for _, test := range []struct {
		target, tag string
	}{
		{"/files/" + id + "?raw=1", `"1"`}, {"/files/" + id, `"1-json"`}, {"/profile", `"1"`}, {"/memory/user", `"1"`},
	} {
		for _, header := range []string{test.tag, `"9", W/` + test.tag, "*"} {
			w := o.get(test.target, "If-None-Match: "+header)
			if w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("Etag") != test.tag {
				t.Errorf("%s with %s: %d %v", test.target, header, w.Code, w.Header())
			}
		}
		w := send(o, syncRequest(http.MethodHead, test.target, nil))
		if w.Code != 200 || w.Body.Len() > 0 || w.Header().Get("Etag") != test.tag || w.Header().Get("Content-Type") == "" {
			t.Errorf("HEAD %s: %d %v", test.target, w.Code, w.Header())
		}
	}
	if w := send(o, syncRequest(http.MethodHead, "/files/"+id+"?raw=1", nil, "Range: bytes=0-1")); w.Code != 200 || w.Header().Get("Content-Length") != "7" {
		t.Errorf("HEAD with a range: %d %v", w.Code, w.Header())
	}
	must.Is(t, 0, opened)
	for _, tag := range []string{`"1"`, `"2-json"`, `1-json`} {
		if w := o.get("/files/"+id, "If-None-Match: "+tag); w.Code != 200 {
			t.Errorf("%s: %d", tag, w.Code)
		}
	}
}

func TestFileRanges(t *testing.T) {
	o := newFileServer(t)
	content := "0123456789"
	id := o.store(t, "a.txt", content).ID
	for _, test := range []struct {
		header, condition string
		status            int
		contentRange      string
		body              string // or the message of the error
	}{
		{"bytes=2-4", "", 206, "bytes 2-4/10", "234"},
		{"bytes=7-", "", 206, "bytes 7-9/10", "789"},
		{"bytes=-3", "", 206, "bytes 7-9/10", "789"},
		{"bytes=-30", "", 206, "bytes 0-9/10", content},
		{"bytes=0-9", "", 206, "bytes 0-9/10", content},
		{"bytes=8-90", "", 206, "bytes 8-9/10", "89"},
		{"bytes=0-0,50-", "", 206, "bytes 0-0/10", "0"},
		{"bytes=10-", "", 416, "bytes */10", "Range lies beyond the end of the content"},
		{"bytes=-0", "", 416, "bytes */10", "Range lies beyond the end of the content"},
		{"bytes=x", "", 416, "bytes */10", "Range must name bytes, as in bytes=0-99"},
		{"bytes=4-2", "", 416, "bytes */10", "Range must name bytes, as in bytes=0-99"},
		{"bytes=99999999999999999999-", "", 416, "bytes */10", "Range must name bytes, as in bytes=0-99"},
		{"bytes=0-7,0-7", "", 200, "", content},
		{"bytes=" + strings.Repeat("0-0,", maxRanges+1), "", 200, "", content},
		{"lines=1-2", "", 200, "", content},
		{"bytes=", "", 200, "", content},
		{"bytes=2-4", `"1"`, 206, "bytes 2-4/10", "234"},
		{"bytes=2-4", `"2"`, 200, "", content},
		{"bytes=2-4", `W/"1"`, 200, "", content},
		{"bytes=2-4", `"1-json"`, 200, "", content},
		{"bytes=2-4", "Thu, 01 Jan 2026 00:00:00 GMT", 200, "", content},
	} {
		t.Run(test.header+" "+test.condition, func(t *testing.T) {
			headers := []string{"Range: " + test.header}
			if test.condition != "" {
				headers = append(headers, "If-Range: "+test.condition)
			}
			w := o.get("/files/"+id+"?raw=1", headers...)
			must.Is(t, test.contentRange, w.Header().Get("Content-Range"))
			body := w.Body.String()
			if test.status == 416 {
				body = checkError(t, w, 416).Message
			}
			if w.Code != test.status || body != test.body {
				t.Errorf("%d %q, want %d %q", w.Code, body, test.status, test.body)
			}
		})
	}
	t.Run("several ranges", func(t *testing.T) {
		w := o.get("/files/"+id+"?raw=1", "Range: bytes=0-1, -2,4-5")
		media, params, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
		if w.Code != 206 || err != nil || media != "multipart/byteranges" || w.Header().Get("Etag") != `"1"` {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		var got []string
		for parts := multipart.NewReader(w.Body, params["boundary"]); ; {
			p, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			must.NoError(t, err)
			b := must.Do(io.ReadAll(p)).Or(t)
			got = append(got, p.Header.Get("Content-Type")+" "+p.Header.Get("Content-Range")+" "+string(b))
		}
		must.Is(t, "[text/plain bytes 0-1/10 01 text/plain bytes 8-9/10 89 text/plain bytes 4-5/10 45]", fmt.Sprint(got))
	})
	t.Run("empty content", func(t *testing.T) {
		empty := o.store(t, "empty.txt", "").ID
		for _, header := range []string{"bytes=0-", "bytes=-5", "bytes=0-0"} {
			if w := o.get("/files/"+empty+"?raw=1", "Range: "+header); w.Code != 200 || w.Header().Get("Content-Length") != "0" {
				t.Errorf("%s: %d %v", header, w.Code, w.Header())
			}
		}
	})
	t.Run("JSON", func(t *testing.T) {
		must.Is(t, 200, o.get("/files/"+id, "Range: bytes=0-1").Code)
	})
}

// FuzzRange compares the ranges of a header with those that net/http serves, except for headers for which net/http
// does not follow RFC 9110: other units, which it refuses, ranges of no bytes, numbers with a sign, and any number of
// ranges, which it serves.
func FuzzRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=2-", "bytes=-2", "bytes= 0 - 1 , 3-", "bytes=0-,1-", "bytes=5-4", "bytes=20-", "bytes=0-1,20-x", "bytes=,", "bytes", "bytes=-", "lines=0-1", "bytes=0-1,4-5", "bytes=-0", "bytes=-\r0,-1", "bytes=+1-2", ""} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, header string, size int) {
		if size < 1 || size > 1000 || !strings.HasPrefix(header, "bytes=") || strings.Contains(header, "+") || strings.Count(header, ",") >= maxRanges {
			return
		}
		for one := range strings.SplitSeq(header[len("bytes="):], ",") {
			first, last, _ := strings.Cut(textproto.TrimString(one), "-")
			last = textproto.TrimString(last)
			if strings.HasPrefix(last, "-") || first == "" && last != "" && strings.Trim(last, "0") == "" {
				return
			}
		}
		content := bytes.Repeat([]byte{'x'}, size)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Range"] = []string{header}
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "text/plain")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))

		ranges, err := parseRanges(r, "", int64(size))
		status, contentRange := http.StatusOK, ""
		switch {
		case err != nil:
			status = http.StatusRequestedRangeNotSatisfiable
		case len(ranges) == 1:
			status, contentRange = http.StatusPartialContent, ranges[0].contentRange(int64(size))
		case len(ranges) > 1:
			status = http.StatusPartialContent
			_, params, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
			parts := multipart.NewReader(w.Body, params["boundary"])
			for _, r := range ranges {
				p, err := parts.NextPart()
				if err != nil || p.Header.Get("Content-Range") != r.contentRange(int64(size)) {
					t.Fatalf("%q of %d: %v, want %v (%v)", header, size, r, p, err)
				}
			}
			if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
				t.Fatalf("%q of %d has more than %v", header, size, ranges)
			}
		}
		if w.Code != status || status == http.StatusPartialContent && contentRange != w.Header().Get("Content-Range") {
			t.Fatalf("%q of %d is %d %q, want %d %q", header, size, status, contentRange, w.Code, w.Header().Get("Content-Range"))
		}
	})
}

func TestDamagedContentIsNeverComplete(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	for name, change := range map[string]func([]byte) []byte{
		"changed byte":      func(b []byte) []byte { b[0] ^= 1; return b },
		"missing last byte": func(b []byte) []byte { return b[:len(b)-1] },
		"empty":             func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			logs, logged := logging(slog.LevelError)
			o := newFileServer(t, func(o *objects.Options) { o.Blobs = damagedBlobs{o.Blobs, change} })
			logs(&o.Options)
			server := httptest.NewServer(o)
			defer server.Close()
			short, text := o.store(t, "short.txt", "short"), o.store(t, "long.txt", long)
			binary := o.store(t, "long.bin", long+"\xff")
			read[record](t, o.put("/profile", "application/json", `{"a":1}`), 200)
			for _, target := range []string{"/profile", "/files/" + short.ID, "/files/" + short.ID + "?raw=1"} {
				checkError(t, o.get(target), 500)
			}
			for _, target := range []string{"/files/" + text.ID, "/files/" + text.ID + "?raw=1", "/files/" + binary.ID, "/files/" + binary.ID + "?raw=1"} {
				if status, content, err := download(server, target); status == 200 && err == nil {
					t.Errorf("%s: %d bytes without an error", target, len(content))
				}
			}
			server.Close() // the log is complete after that
			if n := strings.Count(logged.String(), `"level":"ERROR"`); n < 7 {
				t.Errorf("%d errors are logged: %s", n, logged)
			}
		})
	}
}

// download returns the status and body of a response of the server. The error may be that of reading the body.
func download(server *httptest.Server, target string, headers ...string) (status int, content string, err error) {
	response, err := server.Client().Do(toServer(server, syncRequest(http.MethodGet, target, nil, headers...)))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	return response.StatusCode, string(got), err
}

// interruptedBlobs fails to read content after its first byte.
type interruptedBlobs struct{ ports.Blobs }

func (b interruptedBlobs) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Blobs.Open(ctx, name, offset, length)
	if err != nil {
		return nil, err
	}
	broken := fault.Wrap(fault.Unavailable, io.ErrUnexpectedEOF, "The object store does not answer")
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, 1), iotest.ErrReader(broken)), r}, nil
}

func TestInterruptedReadOfTheStoreIs503(t *testing.T) {
	o := newFileServer(t, func(o *objects.Options) { o.Blobs = interruptedBlobs{o.Blobs} })
	id := o.store(t, "short.txt", "short").ID
	read[record](t, o.put("/profile", "application/json", `{"a":1}`), 200)
	for _, target := range []string{"/profile", "/files/" + id, "/files/" + id + "?raw=1"} {
		checkError(t, o.get(target), 503)
	}
}

// copyCounter is a listener that counts the calls of ReadFrom, with which the kernel copies parts of files.
type copyCounter struct {
	net.Listener
	calls  atomic.Int64
	before func(call int64) // called before the copy; may be nil
}

type countedConn struct {
	*net.TCPConn
	l *copyCounter
}

func (l *copyCounter) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{c.(*net.TCPConn), l}, nil
}

func (c countedConn) ReadFrom(r io.Reader) (int64, error) {
	n := c.l.calls.Add(1)
	if c.l.before != nil {
		c.l.before(n)
	}
	return c.TCPConn.ReadFrom(r)
}

func TestKernelCopiesVerifiedFiles(t *testing.T) {
	dir := t.TempDir()
	o := newFileServer(t, func(o *objects.Options) { o.Blobs = must.Do(bucket.Open(t.Context(), "file://"+dir)).Or(t) })
	server := httptest.NewUnstartedServer(o)
	count := &copyCounter{Listener: server.Listener}
	server.Listener = count
	server.Start()
	defer server.Close()
	content := strings.Repeat("0123456789abcdef", 50_000)
	file := o.store(t, "long.bin", content)
	var path string
	old := time.Now().Add(-time.Hour) // file times may be coarse
	if err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(p, "long.bin") && e.Type().IsRegular() {
			path = p
			err = os.Chtimes(p, old, old)
		}
		return err
	}); err != nil || path == "" {
		t.Fatalf("the file is %q: %v", path, err)
	}
	get := func(headers ...string) (status int, body string, err error) {
		return download(server, "/files/"+file.ID+"?raw=1", headers...)
	}
	mustAbort := func(state string) {
		t.Helper()
		if status, got, err := get(); err == nil {
			t.Errorf("%s: status %d, %d bytes without an error", state, status, len(got))
		}
	}
	for i, test := range []struct {
		header string
		status int
		want   string
		copied bool
	}{
		{"Accept: */*", 200, content, false}, // verified while it is sent
		{"Accept: */*", 200, content, true},
		{"Range: bytes=3-700002", 206, content[3:700_003], true},
		{"Range: bytes=0-1,5-6", 206, "", false},
	} {
		before := count.calls.Load()
		status, got, err := get(test.header)
		if status != test.status || test.want != "" && got != test.want || err != nil || count.calls.Load() > before != test.copied {
			t.Errorf("%d: status %d, %d bytes, %v, %d copies", i, status, len(got), err, count.calls.Load()-before)
		}
	}
	first := count.calls.Load()
	count.before = func(call int64) {
		if call == first+2 {
			must.Succeed(t, os.WriteFile(path, []byte(content[:len(content)-1]+"x"), 0o600))
		}
	}
	mustAbort("a file that is written during the response")
	if status, got, err := get(); err == nil && status == 200 {
		t.Errorf("a file that was written: %d bytes without an error", len(got))
	}

	// If a file is damaged and has its time of modification set back, only its change time differs.
	put := func(text string, at int64) {
		f := must.Do(os.OpenFile(path, os.O_WRONLY, 0)).Or(t)
		must.Do(f.WriteAt([]byte(text), at)).Or(t)
		must.NoError(t, f.Close())
		must.NoError(t, os.Chtimes(path, old, old))
	}
	count.before = nil
	put(content, 0)
	before := count.calls.Load()
	for range 2 {
		if status, got, err := get(); status != 200 || got != content || err != nil {
			t.Errorf("the restored file: status %d, %d bytes, %v", status, len(got), err)
		}
	}
	if count.calls.Load() == before {
		t.Error("the restored file is not copied")
	}
	changeTime := func() syscall.Timespec { return must.Do(os.Stat(path)).Or(t).Sys().(*syscall.Stat_t).Ctim }
	for was := changeTime(); changeTime() == was; { // until the file system's clock has advanced
		put("x", 0)
	}
	mustAbort("a damaged file")
}

// writeHook calls fn before each part of a body.
type writeHook struct {
	*httptest.ResponseRecorder
	fn func()
}

func (w writeHook) Write(b []byte) (int, error) {
	w.fn()
	return w.ResponseRecorder.Write(b)
}

func TestContentIsSentWhileTheCallerMayHaveIt(t *testing.T) {
	const block = spool.BlockSize
	o := newFileServer(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.Now = func() time.Time { return now }
	file := o.store(t, "long.bin", strings.Repeat("x", 3*block), "workspaceId="+string(o.desk))
	var parts []string
	for i, of := range []string{"", "", "workspaceId=" + string(o.desk)} {
		parts = append(parts, o.store(t, fmt.Sprint(i, ".bin"), strings.Repeat("x", block), of).ID)
	}
	authorize := o.actorOf
	for name, test := range map[string]struct {
		after time.Duration
		actor func(org.Actor) (org.Actor, error)
		want  int
	}{
		"a member":                 {time.Minute, func(a org.Actor) (org.Actor, error) { return a, nil }, 3 * block},
		"a former member":          {time.Minute, func(a org.Actor) (org.Actor, error) { return a, fault.New(fault.Forbidden, "no member") }, block},
		"of another team":          {time.Minute, func(org.Actor) (org.Actor, error) { return o.actor(t, "vic"), nil }, block},
		"a former member, at once": {time.Second, func(a org.Actor) (org.Actor, error) { return a, fault.New(fault.Forbidden, "no member") }, 3 * block},
		"while nobody can tell":    {time.Minute, func(a org.Actor) (org.Actor, error) { return a, fault.New(fault.Unavailable, "no database") }, 3 * block},
	} {
		ended := func(t *testing.T, r *http.Request) int {
			o.actorOf = authorize
			defer func() { o.actorOf = authorize }()
			w := writeHook{httptest.NewRecorder(), func() {
				now = now.Add(test.after)
				o.actorOf = func(ctx context.Context, c access.Caller) (org.Actor, error) {
					a, err := authorize(ctx, c)
					must.NoError(t, err)
					return test.actor(a)
				}
			}}
			func() {
				defer func() {
					if p := recover(); (p == http.ErrAbortHandler) != (test.want < 3*block) {
						t.Errorf("it ends with %v", p)
					}
				}()
				o.ServeHTTP(w, r)
			}()
			return w.Body.Len()
		}
		t.Run(name, func(t *testing.T) {
			must.Is(t, test.want, ended(t, syncRequest(http.MethodGet, "/files/"+file.ID+"?raw=1", nil)))
		})
		t.Run(name+", of several files", func(t *testing.T) {
			if got := ended(t, readFilesRequest(parts)); got/block != test.want/block {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}
