package mirror_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	client "collab/app/mirror"
	"collab/domain/fault"
	"collab/domain/mirror"
	"collab/test/must"
)

// together is a remote that counts downloads and changes the responses for several files.
type together struct {
	*remote
	singles, requests int
	response          func(i int, content []byte, err error) ([]byte, error)
	fails             error
}

func (d *together) Download(ctx context.Context, r mirror.Record, offset int64) (now mirror.Record, content io.ReadCloser, err error) {
	d.singles++
	return d.remote.Download(ctx, r, offset)
}

func (d *together) DownloadAll(ctx context.Context, records []mirror.Record, each func(int, []byte, error) error) error {
	d.requests++
	if d.fails != nil {
		return d.fails
	}
	return d.remote.DownloadAll(ctx, records, func(i int, content []byte, err error) error {
		if d.response != nil {
			content, err = d.response(i, content, err)
		}
		return each(i, content, err)
	})
}

// newTogether returns a client of a server with small files.
func newTogether(t *testing.T, files int) (s *single, d *together, contents map[string]string) {
	s = newSingle(t, func(o *client.Options) {
		d = &together{remote: o.Remote.(*remote)}
		o.Remote = d
	})
	s.remote.batches = 20
	contents = map[string]string{}
	for i := range files {
		s.put(contents, fmt.Sprintf("d%d/f%02d", i%2, i), fmt.Sprintf("content %d", i))
	}
	return s, d, contents
}

// put stores a file on the server, and in contents.
func (s *single) put(contents map[string]string, path, content string) {
	s.t.Helper()
	must.Do(s.server.create(s.t.Context(), path, strings.NewReader(content), int64(len(content)), "")).Or(s.t)
	contents[path] = content
}

func TestSmallFilesShareRequests(t *testing.T) {
	s, d, contents := newTogether(t, 30)
	s.put(contents, "large", strings.Repeat("x", 300))
	s.put(contents, "empty", "")
	s.put(contents, "middle", strings.Repeat("y", 250))
	must.Is(t, len(contents), must.Do(s.round()).Or(t).Done)
	s.want(contents)
	if d.requests != 2 || d.singles != 1 { // 20 files, then 12, then the large one
		t.Errorf("%d requests for several files, %d for one", d.requests, d.singles)
	}
}

func TestFilesOfAnOlderServerAreDownloadedOneByOne(t *testing.T) {
	s, d, contents := newTogether(t, 30)
	d.fails = fault.New(fault.Unsupported, "no such endpoint")
	must.Is(t, len(contents), must.Do(s.round()).Or(t).Done)
	s.want(contents)
	if d.requests != 1 || d.singles != 30 {
		t.Errorf("%d requests for several files, %d for one", d.requests, d.singles)
	}
}

func TestAFileThatTheServerLeavesOutIsDownloadedByItself(t *testing.T) {
	s, d, contents := newTogether(t, 5)
	d.response = func(i int, content []byte, err error) ([]byte, error) {
		if i == 2 {
			return nil, fault.New(fault.TooLarge, "no room")
		}
		return content, err
	}
	must.Is(t, 5, must.Do(s.round()).Or(t).Done)
	s.want(contents)
	if d.requests != 1 || d.singles != 1 {
		t.Errorf("%d requests for several files, %d for one", d.requests, d.singles)
	}
}

func TestADamagedFileIsHeldAndThoseOfItsRequestAreNot(t *testing.T) {
	for about, damage := range map[string]func([]byte) ([]byte, error){
		"the server says so":         func([]byte) ([]byte, error) { return nil, fault.New(fault.Internal, "damaged") },
		"another content came":       func([]byte) ([]byte, error) { return []byte("Content 2"), nil },
		"a part of the content came": func(content []byte) ([]byte, error) { return content[:3], nil },
	} {
		t.Run(about, func(t *testing.T) {
			s, d, contents := newTogether(t, 5)
			d.response = func(_ int, content []byte, err error) ([]byte, error) {
				if string(content) == "content 2" {
					return damage(content)
				}
				return content, err
			}
			out, err := s.round()
			if err != nil || out.Done != 4 || len(out.Held) != 1 || !out.Retry || out.Held[0].Path != "d0/f02" {
				t.Fatalf("%+v, %v", out, err)
			}
			here := map[string]string{}
			for p, f := range s.disk.files {
				here[p] = f.content
			}
			want := maps.Clone(contents)
			delete(want, "d0/f02")
			if !maps.Equal(here, want) {
				t.Errorf("the directory has %q", here)
			}
			d.response = nil
			s.server.core.Clock.Advance(time.Hour)
			if out, err := s.round(); err != nil || len(out.Held) > 0 {
				t.Errorf("%+v, %v", out, err)
			}
			s.want(contents)
		})
	}
}

func TestWhatCameBeforeAResponseWasCutOffIsKept(t *testing.T) {
	s, d, contents := newTogether(t, 10)
	s.at("download all", func() (bool, error) { return true, fault.New(fault.Unavailable, "cut off") })
	if out, err := s.round(); err == nil {
		t.Fatalf("%+v", out)
	}
	asked := 0
	d.response = func(_ int, content []byte, err error) ([]byte, error) {
		asked++
		return content, err
	}
	if out, err := s.round(); err != nil || out.Done == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	s.want(contents)
	must.Is(t, 5, asked)
}

func TestAFileThatChangesBeforeItIsReadIsReadAgain(t *testing.T) {
	s, _, contents := newTogether(t, 5)
	s.at("download all", func() (bool, error) {
		r := s.records()["d1/f01"]
		must.Succeed(t, must.ErrorOf(s.server.replace(t.Context(), r, strings.NewReader("changed"), 7, "")))
		must.Succeed(t, s.server.delete(t.Context(), s.records()["d0/f02"]))
		return false, nil
	})
	if out, err := s.round(); err != nil || len(out.Held) > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	contents["d1/f01"] = "changed"
	delete(contents, "d0/f02")
	s.want(contents)
}

func TestFilesWhoseBatchIsRefusedAreSentOneByOne(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unsupported, fault.TooLarge} {
		s := newSingle(t)
		s.remote.batches = 10
		contents, batches := map[string]string{}, 0
		for i := range 25 {
			name := fmt.Sprint("f", i)
			contents[name] = "content of " + name
			s.disk.write(name, contents[name])
		}
		s.remote.before = func(call string) (bool, error) {
			if call != "batch" {
				return false, nil
			}
			batches++
			return false, fault.New(kind, "refused")
		}
		out, err := s.round()
		if err != nil || out.Done != len(contents) || batches != 3 {
			t.Errorf("%d batches, then %+v, %v", batches, out, err)
		}
		s.want(contents)
	}
}

// growing is a disk on which each file is longer when it is read first, and then is as before.
type growing struct {
	*disk
	read map[string]bool
}

func (d growing) Open(ctx context.Context, e mirror.Entry) (io.ReadCloser, error) {
	content, err := d.disk.Open(ctx, e)
	if err != nil || d.read[e.Name] {
		return content, err
	}
	d.read[e.Name] = true
	return io.NopCloser(io.MultiReader(io.LimitReader(content, e.Facts.Size), strings.NewReader("more"))), nil
}

func TestAFileThatIsLongerWhileItIsReadForABatchIsReadAgain(t *testing.T) {
	s := newSingle(t, func(o *client.Options) { o.Disk = growing{o.Disk.(*disk), map[string]bool{}} })
	s.remote.batches = 10
	contents := map[string]string{"a": "content of a", "empty": ""}
	for name, content := range contents {
		s.disk.write(name, content)
	}
	if out, err := s.round(); err != nil || len(out.Held)+len(out.Failed) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
	s.want(contents)
}

// waiting is a remote whose batches wait until they are released, and are then made one after the other.
type waiting struct {
	*remote
	begun    atomic.Int64
	released chan struct{}
	lock     sync.Mutex
}

func (w *waiting) Batch(ctx context.Context, writes []mirror.Write) ([]mirror.Result, error) {
	w.begun.Add(1)
	<-w.released
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.remote.Batch(ctx, writes)
}

func TestFewBatchesAreInMemoryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{released: make(chan struct{})}
		s := newSingle(t, func(o *client.Options) {
			w.remote = o.Remote.(*remote)
			o.RemoteWriter, o.Workers = w, 8
		})
		s.remote.batches = 2
		contents := map[string]string{}
		for i := range 20 {
			name := fmt.Sprintf("f%02d", i)
			contents[name] = "content of " + name
			s.disk.write(name, contents[name])
		}
		done := make(chan error)
		go func() {
			_, err := s.round()
			done <- err
		}()
		synctest.Wait()
		must.Is(t, 4, w.begun.Load())
		close(w.released)
		if err := <-done; err != nil || w.begun.Load() != 10 {
			t.Errorf("%d batches, %v", w.begun.Load(), err)
		}
		s.want(contents)
	})
}
