package httpapi

import (
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
	"collab/domain/org"
)

// slowWriter is a client that takes nothing until it is let, or until its deadline
// is over.
type slowWriter struct {
	*httptest.ResponseRecorder
	let, late chan struct{}
}

func (r slowWriter) Write(b []byte) (int, error) {
	select {
	case <-r.let:
		return r.ResponseRecorder.Write(b)
	case <-r.late:
		return 0, os.ErrDeadlineExceeded
	}
}

func (r slowWriter) SetWriteDeadline(t time.Time) error {
	if t.Before(time.Now()) {
		close(r.late)
	}
	return nil
}

// textList serves a list of texts, and tells how many were read and when the reading ended.
type textList struct {
	*api
	read int
	end  time.Time
}

// serveTexts returns an interface with n texts of a size at /test, after which reading ends
// with fail.
func serveTexts(t testing.TB, n, size int, waits bool, fail error, change ...func(*Options)) *textList {
	l := &textList{}
	l.api = serving(t, http.MethodGet, public, func(c *call) error {
		q, p, err := c.listing()
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
			for ; l.read < n && (p.Limit == 0 || l.read < p.Fetch()); l.read++ {
				if err := each(l.read); err != nil {
					return err
				}
			}
			return fail
		})
	}, change...)
	return l
}

// serveTo serves the list to a client in the background, until answered is closed.
func (l *textList) serveTo(client http.ResponseWriter) (answered chan struct{}) {
	answered = make(chan struct{})
	go func() {
		defer close(answered)
		l.ServeHTTP(client, get("/test"))
	}()
	return answered
}

// tempEmpty checks that no file is left where temporary ones are.
func tempEmpty(t testing.TB) {
	t.Helper()
	if left, err := filepath.Glob(os.Getenv("TMPDIR") + "/*"); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestListIsReadToItsEndForASlowClient(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, size := range map[string]int{"a short one": stream.FlushAt / 50, "a long one": stream.FlushAt} {
		timed(t, name, func(t *testing.T) {
			l := serveTexts(t, 100, size, false, nil)
			client := slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
			began := time.Now()
			answered := l.serveTo(client)
			time.Sleep(stream.AnswerTimeout / 2)
			synctest.Wait()
			if l.read != 100 || l.end.Sub(began) > stream.ListPatience {
				t.Errorf("%d records were read, to the end after %v", l.read, l.end.Sub(began))
			}
			close(client.let)
			<-answered
			if all := read[[]string](t, client.ResponseRecorder, 200); len(all) != 100 {
				t.Errorf("%d records came", len(all))
			}
			tempEmpty(t)
		})
	}
}

func TestWaitingListIsReadAtTheClientsPace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nothing")) // there is no room for what waits
	synctest.Test(t, func(t *testing.T) {
		l := serveTexts(t, 100, stream.FlushAt, true, nil)
		client := slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		answered := l.serveTo(client)
		time.Sleep(stream.AnswerTimeout / 2)
		synctest.Wait()
		if l.read > stream.ListQueue+2 {
			t.Errorf("%d records were read though the client takes none", l.read)
		}
		close(client.let)
		<-answered
		if all := read[[]string](t, client.ResponseRecorder, 200); len(all) != 100 {
			t.Errorf("%d records came", len(all))
		}
	})
}

func TestFailedListDoesNotWaitForItsClient(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, fail := range map[string]error{"when it cannot be read": errors.New("lost"), "when there is no room for it": nil} {
		t.Run(name, func(t *testing.T) {
			if fail == nil {
				t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nothing"))
			}
			synctest.Test(t, func(t *testing.T) {
				client := slowWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
				began := time.Now()
				defer func() {
					if p := recover(); p != http.ErrAbortHandler || time.Since(began) > stream.ListPatience {
						t.Errorf("recovered %v after %v", p, time.Since(began))
					}
				}()
				serveTexts(t, 100, stream.FlushAt, false, fail).ServeHTTP(client, get("/test"))
			})
		})
	}
}
