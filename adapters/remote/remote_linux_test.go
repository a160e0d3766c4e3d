package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"collab/adapters/apiclient"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/mirror"
	"collab/domain/object"
	"collab/domain/upload"
	"collab/test/collabd"
	"collab/test/must"
)

func TestMain(m *testing.M) { os.Exit(collabd.Run(m)) }

// fixture is a place of an organisation of its own on a server.
type fixture struct {
	*Remote
	t *testing.T
}

func open(t *testing.T, s *collabd.Server) fixture {
	t.Helper()
	return connect(t, s.URL, s.SignIn(t, must.Sum(t.Name())[:12]+"@example.com", t.Name(), "owner").Token)
}

// connect returns the shared place of a token's organisation.
func connect(t *testing.T, server, token string) fixture {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	client := must.Do(apiclient.New(apiclient.Config{Server: server, Token: token, Attempts: 1, Transport: transport})).Or(t)
	return fixture{New(client, shared), t}
}

// served returns the shared place of a server that replies as respond does, until the test ends.
func served(t *testing.T, respond http.HandlerFunc) fixture {
	t.Helper()
	server := httptest.NewServer(respond)
	t.Cleanup(server.Close)
	return connect(t, server.URL, "token")
}

// counting counts the bytes of requests' contents.
type counting struct {
	http.RoundTripper
	bytes atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if body := r.Body; body != nil {
		r = r.Clone(r.Context())
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(body, c), body}
	}
	return c.RoundTripper.RoundTrip(r)
}

func (c *counting) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

// cutting breaks the first requests of an upload's content off in their middle, and loses the response
// to the one after them.
type cutting struct {
	http.RoundTripper
	cuts int
	lost bool
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return c.RoundTripper.RoundTrip(r)
	}
	if c.cuts > 0 {
		c.cuts--
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 5<<20), iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode < 300 && !c.lost {
		c.lost = true
		response.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return response, err
}

var shared = object.Place{Kind: object.Artifact, Scope: object.Shared}

func (f fixture) create(path, text string) mirror.Record {
	f.t.Helper()
	return must.Do(f.Create(f.t.Context(), path, must.Sum(text), int64(len(text)), strings.NewReader(text))).Or(f.t)
}

func (f fixture) replace(r mirror.Record, text string) mirror.Record {
	f.t.Helper()
	return must.Do(f.Replace(f.t.Context(), r, must.Sum(text), int64(len(text)), strings.NewReader(text))).Or(f.t)
}

// read returns the records of the place, all if from is nil.
func (f fixture) read(from *object.Cursor) (all []mirror.Record, cursor object.Cursor) {
	f.t.Helper()
	each := func(r mirror.Record) error { all = append(all, r); return nil }
	var err error
	if from == nil {
		cursor, err = f.Manifest(f.t.Context(), each)
	} else {
		cursor, err = f.Since(f.t.Context(), *from, each)
	}
	must.NoError(f.t, err)
	return all, cursor
}

// download returns the content of r from the offset on and the record that it is of.
func (f fixture) download(r mirror.Record, offset int64) (mirror.Record, string) {
	f.t.Helper()
	now, content, err := f.Download(f.t.Context(), r, offset)
	must.NoError(f.t, err)
	defer content.Close()
	text := must.Do(io.ReadAll(content)).Or(f.t)
	return now, string(text)
}

func TestRemote(t *testing.T) {
	s := collabd.Start(t)
	t.Run("the manifest and what changed since have the records of the place alone", func(t *testing.T) {
		f := open(t, s)
		personal := fixture{New(f.client, object.Place{Kind: object.Artifact, Scope: object.Personal}), t}
		a, b := f.create("Büro/100% a.md", "a"), f.create("b", "b")
		hidden := personal.create("mine", "x")
		all, cursor := f.read(nil)
		must.Equal(t, []mirror.Record{a, b}, all)
		mine, _ := personal.read(nil)
		must.Equal(t, []mirror.Record{hidden}, mine)

		a = f.replace(a, "aa")
		must.NoError(t, f.Delete(t.Context(), b))
		personal.create("other", "x")
		b.Deleted = true
		changed, later := f.read(&cursor)
		must.Equal(t, []mirror.Record{b, a}, changed)
		changed, _ = f.read(&later)
		must.Equal(t, []mirror.Record(nil), changed)

		must.Fail(t, must.ErrorOf(f.Since(t.Context(), object.Cursor{Epoch: 1, N: 1}, func(mirror.Record) error { return nil })), fault.Gone) // a cursor of another life of the log
	})
	t.Run("changes are conditional", func(t *testing.T) {
		f := open(t, s)
		first := f.create("a", "1")
		second := f.replace(first, "2")
		must.Fail(t, must.ErrorOf(f.Replace(t.Context(), first, must.Sum("3"), 1, strings.NewReader("3"))), fault.Conflict)                                                         // replacing an earlier version
		must.Fail(t, f.Delete(t.Context(), first), fault.Conflict)                                                                                                                  // deleting an earlier version
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "A", must.Sum("3"), 1, strings.NewReader("3"))), fault.Conflict)                                                            // a path that is taken
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "c", must.Sum("4"), 1, strings.NewReader("3"))), fault.Invalid)                                                             // a wrong checksum
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "con", must.Sum("3"), 1, strings.NewReader("3"))), fault.Invalid)                                                           // a path that other systems cannot have
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "d", must.Sum("34"), 2, io.MultiReader(strings.NewReader("3"), iotest.ErrReader(io.ErrUnexpectedEOF)))), fault.Unavailable) // content that cannot be read
		must.NoError(t, f.Delete(t.Context(), second))
		must.Fail(t, f.Delete(t.Context(), second), fault.NotFound) // deleting what is gone
		gone := New(f.client, object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: new(id.Workspace("gone"))})
		if err := must.ErrorOf(gone.Create(t.Context(), "a", must.Sum("1"), 1, strings.NewReader("1"))); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "The workspace was deleted") {
			t.Error(err)
		}
	})
	t.Run("a download goes on at the offset, or begins anew", func(t *testing.T) {
		f := open(t, s)
		first := f.create("Ü/a 100%", "first content")
		for offset, want := range map[int64]string{0: "first content", 6: "content", 13: "", 99: ""} {
			now, text := f.download(first, offset)
			must.Equal(t, first, now)
			must.Equal(t, want, text)
		}
		second := f.replace(first, "second content")
		now, text := f.download(first, 6)
		must.Equal(t, second, now)
		must.Equal(t, "second content", text)

		restored := second
		restored.Checksum = first.Checksum
		now, text = f.download(restored, 6)
		must.Equal(t, second, now)
		must.Equal(t, "second content", text)

		_, _, err := f.Download(t.Context(), mirror.Record{ID: "0198a1b2-0000-7000-8000-000000000001"}, 0)
		must.Fail(t, err, fault.NotFound) // a file that is not there
	})
	t.Run("small files are downloaded together, each for itself", func(t *testing.T) {
		f := open(t, s)
		limits, err := f.Limits(t.Context())
		if err != nil || limits.ReadFiles < 100 || limits.ReadFileSize < 64<<10 || limits.ReadBytes < 4*limits.ReadFileSize {
			t.Errorf("the limits are %+v, %v", limits, err)
		}
		a, empty, b := f.create("a", "the line\nof {\"index\":0}\n"), f.create("empty", ""), f.create("b", "bb")
		changed, restored := f.create("c", "c"), f.create("d", "d")
		f.replace(changed, "cc")
		restored.Checksum = must.Sum("another")
		large := f.create("large", strings.Repeat("x", int(limits.ReadFileSize)+1))
		gone := mirror.Record{ID: "0198a1b2-0000-7000-8000-000000000001", Version: 1}
		kinds := []fault.Kind{0, fault.Conflict, 0, fault.Conflict, fault.NotFound, fault.TooLarge, 0}
		contents := []string{"the line\nof {\"index\":0}\n", "", "", "", "", "", "bb"}
		next := 0
		if err := f.DownloadAll(t.Context(), []mirror.Record{a, changed, empty, restored, gone, large, b}, func(i int, content []byte, err error) error {
			if i != next || kinds[i] == 0 && (err != nil || string(content) != contents[i]) || kinds[i] != 0 && !fault.Is(err, kinds[i]) {
				t.Errorf("file %d is %q, %v", i, content, err)
			}
			next++
			return nil
		}); err != nil || next != len(kinds) {
			t.Errorf("%d files, %v", next, err)
		}
		no := errors.New("no")
		if err := f.DownloadAll(t.Context(), []mirror.Record{a, b}, func(i int, _ []byte, _ error) error {
			if i > 0 {
				t.Error("files are passed after an error")
			}
			return no
		}); err != no {
			t.Error(err)
		}
	})
	t.Run("a large upload goes on where it was cut off, also in another process", func(t *testing.T) {
		f := open(t, s)
		content := strings.Repeat("0123456789abcdef", (apiclient.ResumableSize+1<<20)/16)
		cut := func() io.Reader {
			return io.MultiReader(strings.NewReader(content[:8<<20]), iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		again := func(to string, send func(f fixture, body io.Reader) (mirror.Record, error)) mirror.Record {
			t.Helper()
			_, err := send(f, cut())
			must.Fail(t, err, fault.Unavailable) // an upload that is cut off
			sent := &counting{RoundTripper: http.DefaultTransport}
			client := must.Do(apiclient.New(apiclient.Config{Server: s.URL, Token: f.client.Token, Transport: sent})).Or(t)
			r, err := send(fixture{New(client, shared), t}, strings.NewReader(content))
			for i := 0; i < 10 && fault.Is(err, fault.Conflict); i++ { // the first one is still being stored
				r, err = send(fixture{New(client, shared), t}, strings.NewReader(content))
			}
			must.NoError(t, err)
			if n := sent.bytes.Load(); n > int64(len(content))-4<<20 {
				t.Errorf("%d bytes are sent of %d to %s, of which at least 4 MiB had arrived", n, len(content), to)
			}
			if now, text := f.download(r, 0); now != r || text != content {
				t.Errorf("%+v has %d bytes", now, len(text))
			}
			return r
		}
		r := again("a new file", func(f fixture, body io.Reader) (mirror.Record, error) {
			return f.Create(t.Context(), "large", must.Sum(content), int64(len(content)), body)
		})
		content = content[:len(content)-1] + "x"
		r = again("a file", func(f fixture, body io.Reader) (mirror.Record, error) {
			return f.Replace(t.Context(), r, must.Sum(content), int64(len(content)), body)
		})
		must.NoError(t, f.Delete(t.Context(), r))
		for range 2 { // what was uploaded once can be uploaded again
			r, err := f.Create(t.Context(), "twice", must.Sum(content), int64(len(content)), strings.NewReader(content))
			if err == nil {
				err = f.Delete(t.Context(), r)
			}
			must.NoError(t, err)
		}
	})
	t.Run("a file that can be read again is sent in one call, however often it is cut off", func(t *testing.T) {
		f := open(t, s)
		content := strings.Repeat("0123456789abcdef", (apiclient.ResumableSize+1<<20)/16)
		cut := &cutting{RoundTripper: http.DefaultTransport, cuts: 3}
		client := must.Do(apiclient.New(apiclient.Config{Server: s.URL, Token: f.client.Token, Transport: cut})).Or(t)
		u, err := client.OpenUpload(t.Context(), apiclient.CreateResumableUploadParams{Path: "again", Checksum: must.Sum(content)}, int64(len(content)))
		must.NoError(t, err)
		o, err := client.SendUpload(t.Context(), u, strings.NewReader(content), int64(len(content)))
		if err != nil || o.Checksum != must.Sum(content) || cut.cuts != 0 || !cut.lost {
			t.Errorf("%+v, %v; %d cuts are left, an answer was lost: %v", o, err, cut.cuts, cut.lost)
		}
	})
	t.Run("large uploads of files that change are cancelled", func(t *testing.T) {
		f := open(t, s)
		content := strings.Repeat("x", apiclient.ResumableSize)
		changed := iotest.ErrReader(fault.New(fault.Conflict, "The file was changed."))
		for i := range upload.MaxOpen {
			must.Fail(t, must.ErrorOf(f.Create(t.Context(), fmt.Sprint("changing ", i), must.Sum(content), int64(len(content)), changed)), fault.Unavailable) // content that changes
		}
		if _, err := f.Create(t.Context(), "large", must.Sum(content), int64(len(content)), strings.NewReader(content)); err != nil {
			t.Errorf("after %d uploads that were given up: %v", upload.MaxOpen, err)
		}
	})
	t.Run("files and directories move", func(t *testing.T) {
		f := open(t, s)
		a, b := f.create("old/a", "a"), f.create("b", "b")
		_, cursor := f.read(nil)
		must.NoError(t, f.MoveDirectory(t.Context(), "old", "Old"))
		moved, err := f.Move(t.Context(), b, "Old/b")
		must.NoError(t, err)
		must.Equal(t, mirror.Record{ID: b.ID, Path: "Old/b", Version: 2, Checksum: b.Checksum, Size: 1}, moved)
		a.Path, a.Version = "Old/a", 2
		changed, _ := f.read(&cursor)
		must.Equal(t, []mirror.Record{a, moved}, changed)
		must.Fail(t, must.ErrorOf(f.Move(t.Context(), b, "c")), fault.Conflict)         // moving an earlier version
		must.Fail(t, must.ErrorOf(f.Move(t.Context(), moved, "OLD/A")), fault.Conflict) // a path that is taken
		must.Fail(t, f.MoveDirectory(t.Context(), "Old", "Old/c"), fault.Invalid)       // a directory into itself

		personal := fixture{New(f.client, object.Place{Kind: object.Artifact, Scope: object.Personal}), t}
		mine := personal.create("old/a", "a")
		must.NoError(t, personal.MoveDirectory(t.Context(), "old", "new"))
		mine.Path, mine.Version = "new/a", 2
		all, _ := personal.read(nil)
		must.Equal(t, []mirror.Record{mine}, all)
	})
	t.Run("a batch makes changes in their order, each for itself", func(t *testing.T) {
		f := open(t, s)
		a, b, c := f.create("a", "a"), f.create("b", "b"), f.create("c", "c")
		limits, err := f.Limits(t.Context())
		if err != nil || limits.MaxFile != 100<<20 || limits.BatchFiles < 100 || limits.BatchFileSize < 512<<10 || limits.BatchBytes < 4*limits.BatchFileSize {
			t.Errorf("the limits are %+v, %v", limits, err)
		}
		bytes := "\x00\xff<>"
		results, err := f.Batch(t.Context(), []mirror.Write{
			{Path: "new/d", Checksum: must.Sum(bytes), Content: []byte(bytes)},
			{ID: a.ID, Version: 1, Checksum: must.Sum("aa"), Content: []byte("aa")},
			{ID: b.ID, Version: 1, Move: true, Path: "new/b"},
			{ID: c.ID, Version: 1, Delete: true},
			{Path: "new/D", Checksum: must.Sum("x"), Content: []byte("x")},
			{ID: a.ID, Version: 1, Checksum: must.Sum("x"), Content: []byte("x")},
			{Path: "e", Checksum: must.Sum("y"), Content: []byte("x")},
			{ID: c.ID, Version: 1, Delete: true},
			{Path: "empty", Checksum: must.Sum("")},
		})
		if err != nil || len(results) != 9 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		d, empty := results[0].Record, results[8].Record
		a.Version, a.Checksum, a.Size = 2, must.Sum("aa"), 2
		b.Version, b.Path = 2, "new/b"
		want := []mirror.Record{{ID: d.ID, Path: "new/d", Version: 1, Checksum: must.Sum(bytes), Size: 4}, a, b, {}}
		for i, r := range want {
			must.Equal(t, r, results[i].Record)
		}
		for i, kind := range []fault.Kind{fault.Conflict, fault.Conflict, fault.Invalid, fault.NotFound} {
			must.Fail(t, results[4+i].Err, kind) // a change that cannot be made
		}
		all, _ := f.read(nil)
		must.Equal(t, []mirror.Record{a, empty, b, d}, all)
	})
	t.Run("a change wakes whoever watches", func(t *testing.T) {
		f := open(t, s)
		_, cursor := f.read(nil)
		f.create("before", "x")
		ctx, stop := context.WithCancel(t.Context())
		woken, ended := make(chan bool, 10), make(chan error, 1)
		go func() { ended <- f.Watch(ctx, cursor, func() { woken <- true }) }()
		<-woken
		f.create("after", "x")
		<-woken
		stop()
		must.Succeed(t, <-ended)
	})
	t.Run("a server that does not answer is unavailable, and a wrong token ends the session", func(t *testing.T) {
		f := connect(t, s.URL, "wrong")
		must.Fail(t, must.ErrorOf(f.Manifest(t.Context(), nil)), fault.Unauthenticated)                                         // a manifest
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "a", must.Sum("a"), 1, strings.NewReader("a"))), fault.Unauthenticated) // an upload
		must.Fail(t, f.Watch(t.Context(), object.Cursor{}, nil), fault.Unauthenticated)                                         // watching
		f.client.Server = "http://127.0.0.1:1"
		must.Fail(t, must.ErrorOf(f.Manifest(t.Context(), nil)), fault.Unavailable) // a manifest of no server
	})
}

func TestResponsesWithManyFilesThatAreNoneOfTheInterface(t *testing.T) {
	line := func(index, length int) string {
		return fmt.Sprintf(`{"index":%d,"status":200,"length":%d,"file":{"checksum":%q}}`+"\n", index, length, must.Sum("content"))
	}
	for about, c := range map[string]struct {
		status int
		body   string
		whole  int // files that are passed
		kind   fault.Kind
	}{
		"an older server":                {404, `{"statusCode":404,"message":"No such endpoint","error":"Not Found"}`, 0, fault.Unsupported},
		"one with other methods":         {405, `{"statusCode":405,"message":"This endpoint allows only GET","error":"Method Not Allowed"}`, 0, fault.Unsupported},
		"one that is down":               {503, `{"statusCode":503,"message":"Later","error":"Service Unavailable"}`, 0, fault.Unavailable},
		"an answer cut off in a content": {200, line(0, 7) + "content" + line(1, 7) + "con", 1, fault.Unavailable},
		"an answer cut off in a line":    {200, line(0, 7) + "content" + line(1, 7)[:20], 1, fault.Unavailable},
		"another file":                   {200, line(0, 7) + "content" + line(2, 7) + "content", 1, fault.Unavailable},
		"no line":                        {200, "content\n", 0, fault.Unavailable},
		"an endless line":                {200, strings.Repeat("x", 1<<20), 0, fault.Unavailable},
		"a content of negative length":   {200, line(0, -1), 0, fault.Unavailable},
		"an endless content":             {200, line(0, 1<<40), 0, fault.Unavailable},
	} {
		f := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		whole := 0
		record := mirror.Record{ID: "0198a1b2-0000-7000-8000-000000000001", Version: 1, Checksum: must.Sum("content"), Size: 7}
		err := f.DownloadAll(t.Context(), []mirror.Record{record, record}, func(_ int, content []byte, err error) error {
			if whole++; err != nil || string(content) != "content" {
				t.Errorf("%s: %q, %v", about, content, err)
			}
			return nil
		})
		if !fault.Is(err, c.kind) || whole != c.whole {
			t.Errorf("%s: %d files, %v", about, whole, err)
		}
	}
}

func TestABatchWithoutAllOutcomesIsUnavailable(t *testing.T) {
	for _, body := range []string{"", `{"index":1,"status":200,"file":{"id":"a"}}`, `{"index":0,"status":200}`} {
		f := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		must.Fail(t, must.ErrorOf(f.Batch(t.Context(), []mirror.Write{{Path: "a"}})), fault.Unavailable)
	}
}

func TestAManifestWithAnIncompleteRecordIsUnavailable(t *testing.T) {
	record := `"version":1,"kind":"ARTIFACT","scope":"SHARED"`
	for _, body := range []string{
		`[{"id":"a","path":"a",` + record + `}]`,
		`[{"id":"a","checksum":"c",` + record + `}]`,
		`[{"path":"a","checksum":"c",` + record + `}]`,
		`[{"id":"a","path":"a","checksum":"c"}]`,
	} {
		f := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Sync-Cursor", "1-1")
			_, _ = io.WriteString(w, body)
		})
		must.Fail(t, must.ErrorOf(f.Manifest(t.Context(), func(mirror.Record) error { return nil })), fault.Unavailable)
	}
}

func TestAPartThatWasNotAskedForIsNoContent(t *testing.T) {
	var requests atomic.Int64
	f := served(t, func(w http.ResponseWriter, _ *http.Request) {
		n := requests.Add(1)
		for name, value := range map[string]string{"Path": "a", "Version": "1", "Size": "7", "Id": "a", "Checksum": must.Sum(fmt.Sprint(n))} {
			w.Header().Set("X-Collab-"+name, value)
		}
		w.WriteHeader(http.StatusPartialContent)
	})
	_, _, err := f.Download(t.Context(), mirror.Record{ID: "a", Version: 1, Checksum: must.Sum("content"), Size: 7}, 3)
	if !fault.Is(err, fault.Unavailable) || requests.Load() != 2 {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

const unauthorized = `{"statusCode":401,"message":"The token has expired","error":"Unauthorized"}`

// TestARefusalOfAProxyIsNoneOfTheServer expects that a refused file keeps no other, and that nothing else ends the session
// or the access.
func TestARefusalOfAProxyIsNoneOfTheServer(t *testing.T) {
	for status, ofFile := range map[int]fault.Kind{http.StatusUnauthorized: fault.Unavailable, http.StatusForbidden: fault.Forbidden} {
		for _, expired := range []bool{false, true} {
			f := served(t, func(w http.ResponseWriter, r *http.Request) {
				if expired && !strings.HasSuffix(r.URL.Path, "/auth/refresh") {
					http.Error(w, unauthorized, http.StatusUnauthorized)
					return
				}
				http.Error(w, "<html>", status)
			})
			must.Fail(t, must.ErrorOf(f.Manifest(t.Context(), nil)), fault.Unavailable)
			must.Fail(t, must.ErrorOf(f.Limits(t.Context())), fault.Unavailable)
			if !expired {
				must.Fail(t, f.Delete(t.Context(), mirror.Record{ID: "a", Version: 1}), ofFile)
			}
			ctx, stop := context.WithCancel(t.Context())
			f.client.Wait = func(context.Context, time.Duration) error { stop(); return ctx.Err() }
			must.Succeed(t, f.Watch(ctx, object.Cursor{}, func() {}))
		}
	}
}

func TestAFeedWakesForItsPlaceAndWhenItIsSilent(t *testing.T) {
	change := func(key, from string) string {
		return fmt.Sprintf("id: 1-2\ndata: {\"type\":\"file-changed\",\"storageKey\":%q,\"from\":%q}\n\n", key, from)
	}
	const unavailable = `{"statusCode":503,"message":"Later","error":"Service Unavailable"}`
	desk := object.Place{Kind: object.Artifact, Scope: object.Shared, Workspace: new(id.Workspace("w"))}
	mine := object.Place{Kind: object.Artifact, Scope: object.Personal}
	for about, c := range map[string]struct {
		place  object.Place
		status int
		feed   string
		wakes  int
	}{
		"a change in the place":        {shared, 200, change("o/shared/artifacts/a", ""), 1},
		"one that came from the place": {shared, 200, change("o/shared/brand/a", "o/shared/artifacts/a"), 1},
		"changes elsewhere":            {shared, 200, change("o/workspaces/w/artifacts/a", "") + change("o/personal/u/a", "o/personal/u/shared/artifacts/a"), 0},
		"a change in the workspace":    {desk, 200, change("o/workspaces/w/artifacts/a", ""), 1},
		"one of its memory":            {desk, 200, change("o/workspaces/w/memory/a", ""), 0},
		"one in another":               {desk, 200, change("o/workspaces/w2/artifacts/a", ""), 0},
		"a personal one":               {mine, 200, change("o/personal/u/a", ""), 1},
		"one that is not":              {mine, 200, change("o/shared/artifacts/personal/u/a", ""), 0},
		"a change of access":           {shared, 200, "event: resync\nid: 1-2\ndata: {\"id\":\"1-2\"}\n\n", 1},
		"a feed without changes":       {shared, 200, "retry: 3000\nid: 1-1\n\n:\n\n", 0},
		"a feed that is kept back":     {shared, 200, "", 1},
		"a feed that a proxy forbids":  {shared, 403, "<html>", 1},
		"a server that is overloaded":  {shared, 503, unavailable, 0},
	} {
		f := served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.feed)
		})
		f.place = c.place
		ctx, stop := context.WithCancel(t.Context())
		f.client.Wait = func(context.Context, time.Duration) error { stop(); return ctx.Err() }
		wakes := 0
		if err := f.Watch(ctx, object.Cursor{}, func() { wakes++ }); err != nil || wakes != c.wakes {
			t.Errorf("%s: it wakes %d times in the place of %d, %v", about, wakes, c.wakes, err)
		}
	}
}

func TestABatchHasTheRefusalsOfTheServer(t *testing.T) {
	f := served(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"index":0,"status":401,"error":`+unauthorized+`}`)
	})
	results := must.Do(f.Batch(t.Context(), []mirror.Write{{Path: "a"}})).Or(t)
	must.Fail(t, results[0].Err, fault.Unauthenticated)
}

func TestAnUploadIsRepeatedUnlessTheTokenCannotBeRenewedForGood(t *testing.T) {
	for status, want := range map[int]fault.Kind{
		http.StatusUnauthorized: fault.Unauthenticated, http.StatusTooManyRequests: fault.Limited, http.StatusServiceUnavailable: fault.Unavailable, 0: fault.Unavailable,
	} {
		f := served(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/auth/refresh"):
				http.Error(w, unauthorized, http.StatusUnauthorized)
			case status == 0:
				panic(http.ErrAbortHandler) // the network
			default:
				http.Error(w, unauthorized, status)
			}
		})
		must.Fail(t, must.ErrorOf(f.Create(t.Context(), "a", must.Sum("a"), 1, strings.NewReader("a"))), want)
	}
}
