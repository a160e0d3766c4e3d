package limit

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// streams are the requests of a connection of HTTP/2 that are being handled. The connection
// waits for its client if each of them does, as its own reads and writes do not show that.
type streams struct {
	mu        sync.Mutex
	open      map[*stream]struct{} // guarded by mu
	lastEnded atomic.Int64         // when one of them ended whose response may still be written; 0: none did
}

// waitingSince returns the time, as of Connections.now, since which all of the streams wait
// for the client, or 0.
func (s *streams) waitingSince() (since int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return s.lastEnded.Load()
	}
	for one := range s.open {
		at := earliest(one.readingSince, one.writingSince)
		if at == 0 {
			return 0
		}
		since = earliest(since, at)
	}
	return since
}

type connKey struct{}

// ConnContext is for http.Server: Handler finds the connection in it.
func (l *Connections) ConnContext(ctx context.Context, netConn net.Conn) context.Context {
	if c, ok := netConn.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// Handler returns a handler that records which connections have reached it and when a
// request of HTTP/2 waits for its client, and refuses requests beyond the memory budget.
func (l *Connections) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if ok {
			c.inHandler.Store(true)
		}
		if !ok || r.ProtoMajor != 2 {
			next.ServeHTTP(w, r)
			return
		}
		memory := Account{Budget: l.memory, Holder: c.account.Holder}
		if !memory.Take(streamMemory + headerMemory(r)) {
			l.refused.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.Header().Set("X-Request-Id", l.NewID())
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, tooManyConnections)
			return
		}
		defer memory.Close()
		s := &stream{ResponseWriter: w, conn: c}
		s.begin()
		defer s.end()
		next.ServeHTTP(s, r)
	})
}

// headerMemory returns the memory of the headers of a request, in bytes.
func headerMemory(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + headerLineMemory
		}
	}
	return int64(n)
}

// stream is a request of HTTP/2 that is being handled, with its response.
type stream struct {
	http.ResponseWriter
	conn *conn

	readingSince int64 // guarded by conn.streams.mu: since when its body is awaited; 0: it is not
	writingSince int64 // guarded by conn.streams.mu: since when a part of its response is being written; 0: none is
}

func (s *stream) begin() {
	all := &s.conn.streams
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open == nil {
		all.open = map[*stream]struct{}{}
	}
	all.open[s] = struct{}{}
}

func (s *stream) end() {
	all := &s.conn.streams
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.open, s)
	all.lastEnded.Store(s.conn.limiter.now())
}

// setTime sets one of the stream's times to now, or to 0.
func (s *stream) setTime(at *int64, waits bool) {
	s.conn.streams.mu.Lock()
	defer s.conn.streams.mu.Unlock()
	*at = 0
	if waits {
		*at = s.conn.limiter.now()
	}
}

// SetReadDeadline sets when reading the body ends; it is awaited as long as there is a
// deadline, as in conn.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.setTime(&s.readingSince, !t.IsZero())
	return http.NewResponseController(s.ResponseWriter).SetReadDeadline(t)
}

// Write sends a part of the response.
func (s *stream) Write(b []byte) (n int, err error) {
	defer s.setTime(&s.writingSince, false)
	for {
		part := b[n:min(len(b), n+maxWrite)]
		s.setTime(&s.writingSince, true)
		sent, err := s.ResponseWriter.Write(part)
		if n += sent; err != nil || n == len(b) {
			return n, err
		}
	}
}

// FlushError sends the buffered part of the response.
func (s *stream) FlushError() error {
	s.setTime(&s.writingSince, true)
	defer s.setTime(&s.writingSince, false)
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
