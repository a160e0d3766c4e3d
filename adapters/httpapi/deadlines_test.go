package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/stream"
	"collab/domain/fault"
	"collab/test/must"
)

// late sets a clock by which the deadline of a request's body is the beginning of the request.
func late(o *Options) {
	o.Now = func() time.Time { return time.Now().Add(-stream.BodyTimeout) }
}

// roundTrip sends the text to a server, and returns what the server sends until it closes the connection.
func roundTrip(t *testing.T, a *api, request string) string {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
	defer conn.Close()
	must.Do(io.WriteString(conn, request)).Or(t)
	response, _ := io.ReadAll(conn) // the server may reset the connection
	return string(response)
}

func TestStalledBodyTimesOut(t *testing.T) {
	const stalled = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	t.Run("while it is read", func(t *testing.T) {
		var failure error
		a := serveEndpoint(t, http.MethodPost, public, func(c *call) error {
			_, failure = c.fields()
			return failure
		}, late)
		if response := roundTrip(t, a, "POST /test"+stalled); !strings.Contains(response, "400 Bad Request") || !strings.Contains(response, "The body did not come within 30 seconds") {
			t.Errorf("the response is %q", response)
		}
		must.FailIs(t, failure, os.ErrDeadlineExceeded)
		must.Fail(t, failure, fault.Invalid)
	})
	t.Run("after the response", func(t *testing.T) {
		// The server must close the connection.
		if response := roundTrip(t, newAPI(t, late), "POST /nowhere"+stalled); !strings.Contains(response, "404 Not Found") {
			t.Errorf("the response is %q", response)
		}
	})
}

// TestTruncatedBodyIsInvalid closes the client's half of the connection before the end of the body, which also
// cancels the request's context.
func TestTruncatedBodyIsInvalid(t *testing.T) {
	server := httptest.NewServer(newFileServer(t))
	defer server.Close()
	conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t).(*net.TCPConn)
	defer conn.Close()
	must.Do(io.WriteString(conn, "POST "+batchPath+" HTTP/1.1\r\nHost: x\r\nX-Actor: ada\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{")).Or(t)
	must.NoError(t, conn.CloseWrite())
	if response := string(must.Do(io.ReadAll(conn)).Or(t)); !strings.Contains(response, "400 Bad Request") || !strings.Contains(response, "The body ended before its length") {
		t.Errorf("the response is %q", response)
	}
}

func TestUnreadResponseTimesOut(t *testing.T) {
	l := serveTexts(t, 1<<20, stream.FlushAt, false, nil, func(o *Options) {
		// The extensions for the bytes that are sent do not reach the present.
		o.Now = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	})
	roundTrip(t, l.api, "GET /test HTTP/1.1\r\nHost: x\r\n\r\n")
	if l.read > stream.ListQueue+2 {
		t.Errorf("%d records were read", l.read)
	}
}

func TestLongResponseExtendsWriteDeadline(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	a := serveTexts(t, 100, stream.FlushAt, false, nil)
	a.Now = func() time.Time { return began }
	deadlines := serveDeadlines(a, get("/test")).writes
	if len(deadlines) < 10 /* buffered records are sent together */ || !deadlines[0].Equal(began.Add(stream.ResponseTimeout)) {
		t.Fatalf("%d deadlines, the first is %v", len(deadlines), deadlines[0])
	}
	if last, want := deadlines[len(deadlines)-1].Sub(began), stream.ResponseTimeout+100*time.Second*stream.FlushAt/stream.MinRate; last < want || last > want+time.Second {
		t.Errorf("the last deadline is %v, want %v", last, want)
	}
}

// deadlineRecorder records deadlines.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	reads, writes []time.Time
}

func (w *deadlineRecorder) SetReadDeadline(t time.Time) error {
	w.reads = append(w.reads, t)
	return nil
}

func (w *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	w.writes = append(w.writes, t)
	return nil
}

// serveDeadlines returns the response to r with its deadlines.
func serveDeadlines(h http.Handler, r *http.Request) *deadlineRecorder {
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, r)
	return w
}

func TestHandlerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serveEndpoint(t, http.MethodGet, public, func(c *call) error {
			<-c.r.Context().Done() // like a database that does not respond
			return c.r.Context().Err()
		})
		began := time.Now()
		checkError(t, send(a, get("/test")), http.StatusServiceUnavailable)
		must.Is(t, stream.WorkTimeout, time.Since(began))
	})
}

func TestReadinessTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, func(o *Options) {
			o.Ready = func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
		checkError(t, send(a, get("/readyz")), http.StatusServiceUnavailable)
	})
}

func TestConcurrentProbesShareACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, end := 0, make(chan struct{})
		a := newAPI(t, func(o *Options) {
			o.Ready = func(context.Context) error {
				checks++
				<-end
				return nil
			}
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { must.Is(t, http.StatusOK, send(a, get("/readyz")).Code) })
		}
		synctest.Wait()
		close(end)
		all.Wait()
		must.Is(t, 1, checks)
		must.Is(t, http.StatusOK, send(a, get("/readyz")).Code)
		must.Is(t, 2, checks)
	})
}
