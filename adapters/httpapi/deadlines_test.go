package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/httpapi/stream"
	"collab/domain/fault"
	"collab/test/must"
)

// late is a clock by which every request began so long ago that its body is
// due.
func late(o *Options) {
	o.Now = func() time.Time { return time.Now().Add(-stream.BodyTimeout) }
}

// talk sends a text to a server and returns all that comes back until it closes
// the connection.
func talk(t *testing.T, a *api, request string) string {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t)
	defer conn.Close()
	must.Do(io.WriteString(conn, request)).Or(t)
	answer, _ := io.ReadAll(conn) // a reset is an end as well
	return string(answer)
}

func TestStalledBodyTimesOut(t *testing.T) {
	const begun = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	t.Run("while it is read", func(t *testing.T) {
		var failure error
		a := serving(t, http.MethodPost, public, func(c *call) error {
			_, failure = c.fields()
			return failure
		}, late)
		if answer := talk(t, a, "POST /test"+begun); !strings.Contains(answer, "400 Bad Request") || !strings.Contains(answer, "The body did not come within 30 seconds") {
			t.Errorf("the answer is %q", answer)
		}
		if !errors.Is(failure, os.ErrDeadlineExceeded) || !fault.Is(failure, fault.Invalid) {
			t.Errorf("reading ended with %v", failure)
		}
	})
	t.Run("when the request was refused without it", func(t *testing.T) {
		// The connection ends, or this hangs.
		if answer := talk(t, built(t, late), "POST /nowhere"+begun); !strings.Contains(answer, "404 Not Found") {
			t.Errorf("the answer is %q", answer)
		}
	})
}

// TestABodyThatIsCutIsInvalid has the client close its half of the connection before the end of the body, which
// ends the request's context as well.
func TestABodyThatIsCutIsInvalid(t *testing.T) {
	server := httptest.NewServer(newFileServer(t))
	defer server.Close()
	conn := must.Do(net.Dial("tcp", server.Listener.Addr().String())).Or(t).(*net.TCPConn)
	defer conn.Close()
	must.Do(io.WriteString(conn, "POST "+batchPath+" HTTP/1.1\r\nHost: x\r\nX-Actor: ada\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{")).Or(t)
	must.NoError(t, conn.CloseWrite())
	if answer := string(must.Do(io.ReadAll(conn)).Or(t)); !strings.Contains(answer, "400 Bad Request") || !strings.Contains(answer, "The body ended before its length") {
		t.Errorf("the answer is %q", answer)
	}
}

func TestReadDeadlineIsClearedAfterTheBody(t *testing.T) {
	var deadlines []time.Time
	a := serving(t, http.MethodPost, public, func(c *call) error {
		if _, err := c.fields(); err != nil {
			return err
		}
		return c.succeed()
	})
	a.ServeHTTP(deadlined{httptest.NewRecorder(), &deadlines, nil}, post("/test", "{}"))
	if len(deadlines) != 2 || deadlines[0].IsZero() || !deadlines[1].IsZero() {
		t.Errorf("the deadlines are %v", deadlines)
	}
}

func TestUnreadAnswerTimesOut(t *testing.T) {
	l := serveTexts(t, 1<<20, stream.FlushAt, false, nil, func(o *Options) {
		// So late that what was sent of the list does not earn it more time.
		o.Now = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	})
	talk(t, l.api, "GET /test HTTP/1.1\r\nHost: x\r\n\r\n")
	if l.read > stream.ListQueue+2 {
		t.Errorf("%d records were read for nobody", l.read)
	}
}

func TestLongAnswerExtendsWriteDeadline(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	var deadlines []time.Time
	a := serveTexts(t, 100, stream.FlushAt, false, nil)
	a.Now = func() time.Time { return began }
	a.ServeHTTP(deadlined{httptest.NewRecorder(), nil, &deadlines}, get("/test"))
	if len(deadlines) < 10 /* records that wait are sent together */ || !deadlines[0].Equal(began.Add(stream.AnswerTimeout)) {
		t.Fatalf("there are %d deadlines, the first %v", len(deadlines), deadlines[0])
	}
	if last, want := deadlines[len(deadlines)-1].Sub(began), stream.AnswerTimeout+100*time.Second*stream.FlushAt/stream.MinRate; last < want || last > want+time.Second {
		t.Errorf("the last byte has %v, want %v", last, want)
	}
}

// deadlined notes the deadlines that are set.
type deadlined struct {
	*httptest.ResponseRecorder
	read, write *[]time.Time
}

func (d deadlined) SetReadDeadline(t time.Time) error  { return appendTime(d.read, t) }
func (d deadlined) SetWriteDeadline(t time.Time) error { return appendTime(d.write, t) }

func appendTime(all *[]time.Time, t time.Time) error {
	if all != nil {
		*all = append(*all, t)
	}
	return nil
}

func TestHandlerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := serving(t, http.MethodGet, public, func(c *call) error {
			<-c.r.Context().Done() // as a database does that no longer answers
			return c.r.Context().Err()
		})
		began := time.Now()
		refused(t, send(a, get("/test")), http.StatusServiceUnavailable)
		must.Is(t, stream.WorkTimeout, time.Since(began))
	})
}

func TestReadinessTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := built(t, func(o *Options) {
			o.Ready = func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
		refused(t, send(a, get("/readyz")), http.StatusServiceUnavailable)
	})
}
