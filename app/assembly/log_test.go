package assembly

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/test/must"
)

// writes are what a writer was given, one after the other.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(b))
	return len(b), nil
}

// take returns what came since it was called last.
func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// capturedLogs returns a logger without times, what it writes to, and what it gathers.
func capturedLogs() (*slog.Logger, *writes, *bufferedLog) {
	var out writes
	g := newBufferedLog(&out)
	h := slog.NewTextHandler(g, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	return slog.New(flushingHandler{h, g}), &out, g
}

func TestLinesBelowWarningsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out, g := capturedLogs()
		log = log.With("a", "b").WithGroup("in")
		wrote := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got, want := strings.Join(out.take(), "|"), strings.Join(want, "|"); got != want {
				t.Fatalf("wrote %q, want %q", got, want)
			}
		}
		request := func(n int) { log.Info("request", "n", n) }
		const one, two, three, four = "msg=request a=b in.n=1\n", "msg=request a=b in.n=2\n", "msg=request a=b in.n=3\n", "msg=request a=b in.n=4\n"

		wrote(time.Second)
		request(1) // after a pause
		wrote(0, one)
		request(2)
		request(3)
		wrote(flushInterval - 1)
		wrote(1, two+three)
		request(4)
		wrote(flushInterval-1, "")
		wrote(1, four)
		wrote(flushInterval)
		request(1) // after another one
		wrote(0, one)

		request(2)
		log.Warn("trouble")
		wrote(0, two+"msg=trouble a=b\n")
		request(3)
		must.NoError(t, g.flush())
		wrote(0, three)
		must.NoError(t, g.flush())
		wrote(time.Hour)
	})
}

func TestMuchIsWrittenBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		g := newBufferedLog(&out)
		line := bytes.Repeat([]byte("a"), maxBuffer/4)
		for range 9 {
			if n, err := g.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if all := out.take(); len(all) != 2 || len(all[0]) != maxBuffer || len(all[1]) != maxBuffer {
			t.Errorf("%d writes", len(all))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if all := out.take(); len(all) != 1 || len(all[0]) != len(line) {
			t.Errorf("%d writes", len(all))
		}
	})
}
