package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/encode"
	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/stream"
	"collab/app/access"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/test/must"
)

// blockedWriter is a response whose writes block until resume is closed or a write deadline is in the past.
type blockedWriter struct {
	*httptest.ResponseRecorder
	resume, late chan struct{}
}

func newBlockedWriter() blockedWriter {
	return blockedWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
}

func (w blockedWriter) Write(b []byte) (int, error) {
	select {
	case <-w.resume:
		return w.ResponseRecorder.Write(b)
	case <-w.late:
		return 0, os.ErrDeadlineExceeded
	}
}

func (w blockedWriter) SetWriteDeadline(t time.Time) error {
	if t.Before(time.Now()) {
		close(w.late)
	}
	return nil
}

// textList is an interface with a list of texts at /test.
type textList struct {
	*api
	read int       // the number of texts that the last request has read
	end  time.Time // of reading
}

// serveTexts returns an interface with a list of n texts of a size, in bytes. If waits is set, reading waits for the
// client. It ends with the error fail.
func serveTexts(t testing.TB, n, size int, waits bool, fail error, change ...func(*Options)) *textList {
	l := &textList{}
	l.api = serveEndpoint(t, http.MethodGet, public, func(c *call) error {
		c.caller = access.Caller{User: id.User(c.r.Header.Get("X-User"))}
		q, p, err := c.listQuery()
		if err != nil {
			return err
		}
		p.Waits = waits
		key := func(i int) body.Position { return body.Position{Rank: int64(i), ID: someID} }
		write := func(dst []byte, _ int) ([]byte, error) {
			return encode.AppendString(dst, strings.Repeat("x", size)), nil
		}
		return list(l.api, c, q, p, key, write, func(_ org.Actor, each func(int) error) error {
			defer func() { l.end = time.Now() }()
			for l.read = 0; l.read < n && (p.Limit == 0 || l.read < p.Fetch()); l.read++ {
				if err := each(l.read); err != nil {
					return err
				}
			}
			return fail
		})
	}, change...)
	return l
}

// blocked serves the list to a client that reads nothing for half of stream.ResponseTimeout, calls check, and then has
// the client read the list to its end.
func (l *textList) blocked(t *testing.T, check func()) {
	t.Helper()
	w, answered := newBlockedWriter(), make(chan struct{})
	go func() {
		defer close(answered)
		l.ServeHTTP(w, get("/test"))
	}()
	time.Sleep(stream.ResponseTimeout / 2)
	synctest.Wait()
	check()
	close(w.resume)
	<-answered
	must.Is(t, 100, len(read[[]string](t, w.ResponseRecorder, 200)))
}

// checkNoTempFiles checks that there are no files in $TMPDIR.
func checkNoTempFiles(t testing.TB) {
	t.Helper()
	if files, err := filepath.Glob(os.Getenv("TMPDIR") + "/*"); err != nil || len(files) > 0 {
		t.Errorf("temporary files %v, %v", files, err)
	}
}

func TestListIsReadToItsEndForASlowClient(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, size := range map[string]int{"short": stream.FlushAt / 50, "long": stream.FlushAt} {
		runSynctest(t, name, func(t *testing.T) {
			l := serveTexts(t, 100, size, false, nil)
			began := time.Now()
			l.blocked(t, func() {
				if l.read != 100 || l.end.Sub(began) > stream.ListTimeout {
					t.Errorf("%d records were read after %v", l.read, l.end.Sub(began))
				}
			})
			checkNoTempFiles(t)
		})
	}
}

func TestListThatWaitsIsReadAtTheClientsPace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing")) // nothing can be spooled
	synctest.Test(t, func(t *testing.T) {
		l := serveTexts(t, 100, stream.FlushAt, true, nil)
		l.blocked(t, func() {
			if l.read > stream.ListQueue+2 {
				t.Errorf("%d records were read before the client read one", l.read)
			}
		})
	})
}

func TestFailedListDoesNotWaitForItsClient(t *testing.T) {
	for name, fail := range map[string]error{"read error": errors.New("lost"), "no space to spool": nil} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			if fail == nil {
				t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
			}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				defer func() {
					if p := recover(); p != http.ErrAbortHandler || time.Since(began) > stream.ListTimeout {
						t.Errorf("recovered %v after %v", p, time.Since(began))
					}
				}()
				serveTexts(t, 100, stream.FlushAt, false, fail).ServeHTTP(newBlockedWriter(), get("/test"))
			})
		})
	}
}

func TestListEndsWhenItsCallerLosesAccess(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, waits := range map[string]bool{"spooled": false, "read at the client's pace": true} {
		runSynctest(t, name, func(t *testing.T) {
			l := serveTexts(t, 100, stream.FlushAt, waits, nil)
			w, ended := newBlockedWriter(), make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				l.ServeHTTP(w, get("/test"))
			}()
			time.Sleep(confirmEvery)
			synctest.Wait()
			l.actorOf = func(context.Context, access.Caller) (org.Actor, error) {
				return org.Actor{}, fault.New(fault.Forbidden, "The caller is not a member of the organisation")
			}
			close(w.resume)
			if p := <-ended; p != http.ErrAbortHandler || w.Body.Len() > 20*stream.FlushAt {
				t.Errorf("recovered %v after %d bytes", p, w.Body.Len())
			}
		})
	}
}

func TestPagesAreChargedToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resume := make(chan struct{})
		var a *api
		serve := func(size int) {
			a = serveTexts(t, 1000, size, false, nil, func(o *Options) { o.Budgets.Callers = 16 << 20 }).api
		}
		page := func(user string) *http.Request { return get("/test?limit=57", "X-User: "+user) }
		block := func(user string) {
			go a.ServeHTTP(blockedWriter{httptest.NewRecorder(), resume, nil}, page(user))
			synctest.Wait()
		}
		serve(1000)
		block("ada")
		must.Is(t, 0, a.budgets.callers.Used()) // a small page
		serve(50 << 10)
		for range 2 {
			block("ada")
		}
		if used := a.budgets.callers.Used(); used < 2*57*50<<10 || used > 8<<20 {
			t.Errorf("two pages are charged with %d bytes", used)
		}
		checkBusy(t, send(a, page("ada")))
		must.Is(t, 57, len(read[[]string](t, send(a, page("bob")), 200)))
		close(resume)
		synctest.Wait()
		must.Is(t, 0, a.budgets.callers.Used())
	})
}

func TestPartsOfCompleteListsAreChargedToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size, budget = stream.ListQueue, 50 << 10, 2 << 20
		var a *api
		serve := func(n int) {
			a = serveTexts(t, n, size, true, nil, func(o *Options) { o.Budgets.Callers = budget }).api
		}
		request := get("/test", "X-User: ada")
		serve(n)
		resume := make(chan struct{})
		go a.ServeHTTP(blockedWriter{httptest.NewRecorder(), resume, nil}, request)
		synctest.Wait()
		used := a.budgets.callers.Used()
		if used < n*size || used > budget/2 {
			t.Errorf("a list of which nothing was read is charged with %d bytes", used)
		}
		a.budgets.callers.Take("ada", budget/2-used)
		checkBusy(t, send(a, request))
		a.budgets.callers.Give("ada", budget/2-used)
		close(resume)
		synctest.Wait()
		must.Is(t, 0, a.budgets.callers.Used())
		serve(100) // more than the budget
		must.Is(t, 100, len(read[[]string](t, send(a, request), 200)))
	})
}

func TestConcurrentListsAreLimitedPerCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := map[id.User]int{}
		more := make(chan struct{})
		var a *api
		a = serveEndpoint(t, http.MethodGet, public, func(c *call) error {
			c.caller = access.Caller{User: id.User(c.r.Header.Get("X-User"))}
			q, p, err := c.listQuery()
			if err != nil {
				return err
			}
			key := func(int) body.Position { return body.Position{ID: someID} }
			write := func(dst []byte, _ int) ([]byte, error) { return append(dst, '1'), nil }
			return list(a, c, q, p, key, write, func(actor org.Actor, _ func(int) error) error {
				running[actor.User]++
				<-more
				return nil
			})
		})
		begin := func(ctx context.Context, user, query string) {
			go send(a, get("/test"+query, "X-User: "+user).WithContext(ctx))
			synctest.Wait()
		}
		for range maxLists + 1 {
			begin(t.Context(), "slow", "")
		}
		canceled, cancel := context.WithCancel(t.Context())
		begin(canceled, "slow", "")
		cancel()
		begin(t.Context(), "other", "")
		begin(t.Context(), "slow", "?limit=1")
		if running["slow"] != maxLists+1 || running["other"] != 1 {
			t.Errorf("running lists: %v", running)
		}
		close(more)
		synctest.Wait()
		must.Is(t, maxLists+2, running["slow"])
	})
}
