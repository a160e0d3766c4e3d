package limit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"collab/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseConnections(t *testing.T) {
	parse := func(text string) (ConnectionLimits, error) { return ParseConnections("total=16384,address=512", text) }
	checkParser(t, parse, map[string]ConnectionLimits{
		"total=9": {9, 512}, "address=7, total=8": {8, 7},
	}, "", "off", "total", "total=", "total=0", "total=-1", "total=x", "other=1", "total=1,total=2", "total=1,")
}

// pipeConn is the server's end of a pipe, with the address of the client.
type pipeConn struct {
	net.Conn
	remote net.Addr
}

func (c pipeConn) RemoteAddr() net.Addr { return c.remote }

// pipeListener is a listener of pipes, which ends when the channel is closed.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// server accepts connections with limits.
type server struct {
	*Connections
	listener pipeListener
	accepted chan net.Conn
}

// open returns a server with the limits of connections and their memory, in bytes. The address 10.0.0.1 is exempt.
func open(t *testing.T, total, address int, memory int64) *server {
	l := NewConnections(ConnectionLimits{total, address}, NewBudget(memory), options(func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }))
	s := &server{l, make(pipeListener), make(chan net.Conn, 1)}
	t.Cleanup(func() { close(s.listener) })
	go func() {
		in := l.Listener(s.listener)
		for c, err := in.Accept(); err == nil; c, err = in.Accept() {
			s.accepted <- c
		}
	}()
	return s
}

// dial connects from an address, and returns the ends of the client and of the server, which is nil if the connection
// was refused.
func (s *server) dial(t *testing.T, from string) (client, accepted net.Conn) {
	t.Helper()
	client, far := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	s.listener <- pipeConn{far, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 4000))}
	synctest.Wait()
	select {
	case accepted = <-s.accepted:
		t.Cleanup(func() { _ = accepted.Close() })
		s.ConnState(accepted, http.StateNew)
	default:
	}
	return client, accepted
}

// active is dial whose connection has begun a request.
func (s *server) active(t *testing.T, from string) net.Conn {
	t.Helper()
	_, c := s.dial(t, from)
	if c != nil {
		s.ConnState(c, http.StateActive)
	}
	return c
}

// closed reports whether the server has closed a connection.
func closed(c net.Conn) bool {
	_ = c.SetWriteDeadline(time.Unix(1, 0))
	_, err := c.Write([]byte("x"))
	return errors.Is(err, io.ErrClosedPipe)
}

func TestLongestIdleConnectionIsEvictedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 3, 9, 1<<30)
		all := []net.Conn{s.active(t, "192.0.2.1"), s.active(t, "192.0.2.1"), s.active(t, "192.0.2.1")}
		for _, i := range []int{1, 2, 0} {
			s.ConnState(all[i], http.StateIdle)
			time.Sleep(time.Millisecond)
		}
		_, fresh := s.dial(t, "192.0.2.2")
		if fresh == nil || !closed(all[1]) || closed(all[2]) || closed(all[0]) {
			t.Errorf("accepted: %t, closed: %t %t %t", fresh != nil, closed(all[1]), closed(all[2]), closed(all[0]))
		}
		if s.Open() != 3 || s.Evicted() != 1 || s.Refused() != 0 {
			t.Errorf("%d open, %d evicted, %d refused", s.Open(), s.Evicted(), s.Refused())
		}
	})
}

func TestSlowConnectionsAreEvictedAfterIdleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 4, 9, 1<<30)
		_, head := s.dial(t, "192.0.2.1")
		time.Sleep(time.Millisecond)
		body := s.active(t, "192.0.2.2")
		_ = body.SetReadDeadline(time.Now().Add(time.Hour))
		working := s.active(t, "192.0.2.3")
		_ = working.SetReadDeadline(time.Now().Add(time.Hour))
		_ = working.SetReadDeadline(time.Time{}) // the body was read
		stream := s.active(t, "192.0.2.4")
		s.ConnState(stream, http.StateHijacked)

		if _, early := s.dial(t, "192.0.2.5"); early != nil {
			t.Fatal("a request that has just begun is evicted")
		}
		time.Sleep(2 * slowAfter)
		for i, want := range []net.Conn{head, body} {
			if fresh := s.active(t, "192.0.2.6"); fresh == nil || !closed(want) {
				t.Fatalf("%d: accepted: %t, closed: %t", i, fresh != nil, closed(want))
			}
		}
		if _, more := s.dial(t, "192.0.2.7"); more != nil || closed(working) || closed(stream) {
			t.Errorf("accepted: %t, closed: %t %t", more != nil, closed(working), closed(stream))
		}
		time.Sleep(2 * refusalTimeout)
	})
}

func TestUploadingConnectionIsNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 1, 9, 1<<30)
		c := s.active(t, "192.0.2.1")
		for range 10 {
			_ = c.SetReadDeadline(time.Now().Add(time.Hour))
			time.Sleep(slowAfter / 2)
		}
		if _, other := s.dial(t, "192.0.2.2"); other != nil || closed(c) {
			t.Error("an upload is evicted")
		}
		time.Sleep(2 * refusalTimeout)
	})
}

// readerFrom is a connection with ReadFrom, which sends the sizes that it is called with.
type readerFrom struct {
	pipeConn
	sizes chan int64
}

func (c readerFrom) ReadFrom(r io.Reader) (int64, error) {
	c.sizes <- r.(*io.LimitedReader).N
	return io.Copy(io.Discard, r)
}

func TestFilesAreCopiedInPartsAndSlowClientsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 1, 9, 1<<30)
		client, far := net.Pipe()
		defer client.Close()
		sizes := make(chan int64)
		s.listener <- readerFrom{pipeConn{far, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))}, sizes}
		c := <-s.accepted
		s.ConnState(c, http.StateActive)
		copies := func(bytes int64) {
			if n, err := c.(io.ReaderFrom).ReadFrom(io.LimitReader(strings.NewReader(strings.Repeat("x", 3*maxCopy)), bytes)); n != bytes || err != nil {
				t.Errorf("%d bytes of %d: %v", n, bytes, err)
			}
		}
		go copies(2*maxCopy + 5)
		for _, part := range []struct {
			size     int64
			patience time.Duration
		}{{maxCopy, 2 * slowAfter}, {maxCopy, 2 * slowAfter}, {5, slowAfter}} {
			time.Sleep(part.patience * 3 / 4)
			if _, other := s.dial(t, "192.0.2.2"); other != nil {
				t.Fatal("a client that reads maxWrite bytes in slowAfter is evicted")
			}
			must.Is(t, part.size, <-sizes)
		}
		synctest.Wait()
		go copies(1)
		time.Sleep(2 * slowAfter)
		if _, other := s.dial(t, "192.0.2.3"); other == nil {
			t.Error("a client that reads nothing is not evicted")
		}
		<-sizes
		time.Sleep(2 * refusalTimeout)
	})
}

func TestHijackedConnectionIsIdleWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 1, 9, 1<<30)
		client, c := s.dial(t, "192.0.2.1")
		s.ConnState(c, http.StateActive)
		s.ConnState(c, http.StateHijacked)
		_ = c.SetReadDeadline(time.Now().Add(time.Hour))
		read := make(chan error, 1)
		once := func() {
			go func() {
				_, err := c.Read(make([]byte, 1))
				read <- err
			}()
			synctest.Wait()
		}
		once()
		if _, err := client.Write([]byte("x")); err != nil || <-read != nil {
			t.Fatal("nothing was read")
		}
		if _, other := s.dial(t, "192.0.2.2"); other != nil {
			t.Error("a connection with a request is evicted")
		}
		time.Sleep(2 * refusalTimeout)
		once()
		if _, other := s.dial(t, "192.0.2.2"); other == nil || <-read == nil {
			t.Error("an idle connection is not evicted")
		}
	})
}

func TestConnectionsPerAddressAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 100, 2, 1<<30)
		for range 2 {
			if s.active(t, "192.0.2.1") == nil || s.active(t, "2001:db8::1") == nil || s.active(t, "10.0.0.1") == nil {
				t.Fatal("refused within the limit")
			}
		}
		for from, want := range map[string]bool{"192.0.2.1": false, "::ffff:192.0.2.1": false, "2001:db8::2": false, "2001:db8:0:1::1": true, "192.0.2.2": true, "10.0.0.1": true} {
			if got := s.active(t, from) != nil; got != want {
				t.Errorf("%s is accepted: %t", from, got)
			}
		}
		time.Sleep(2 * refusalTimeout)
	})
}

func TestRefusedConnectionGets503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 1, 9, 1<<30)
		first := s.active(t, "192.0.2.1")
		client, refused := s.dial(t, "192.0.2.2")
		if refused != nil {
			t.Fatal("the connection is accepted")
		}
		answer := must.Do(http.ReadResponse(bufio.NewReader(client), nil)).Or(t)
		body, err := io.ReadAll(answer.Body)
		if answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "1" || answer.Header.Get("X-Request-Id") != "id-1" || err != nil || !strings.HasPrefix(string(body), `{"statusCode":503,`) || s.Refused() != 1 {
			t.Errorf("%s %v %s %v", answer.Status, answer.Header, body, err)
		}
		_ = first.Close()
		time.Sleep(evictionPause)
		if _, c := s.dial(t, "192.0.2.3"); c == nil || s.Open() != 1 {
			t.Errorf("after one was closed: %d open", s.Open())
		}
	})
}

// send sends the head of a request over a new connection from an address. It returns the connection, and the status
// line of the response if there is no memory for the request.
func (s *server) send(t *testing.T, from, head string) (c net.Conn, response string) {
	t.Helper()
	client, c := s.dial(t, from)
	if c == nil {
		return nil, ""
	}
	go func() { _, _ = io.CopyN(io.Discard, c, int64(len(head))) }()
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(client).ReadString('\n')
		answer <- line
	}()
	go func() { _, _ = io.WriteString(client, head) }()
	time.Sleep(2 * refusalTimeout)
	select {
	case response = <-answer:
	default:
	}
	return c, response
}

func TestHeadersAreChargedToTheirNetwork(t *testing.T) {
	for name, head := range map[string]string{"long line": strings.Repeat("x", 64<<10), "many lines": strings.Repeat("a:\n", 200)} {
		runSynctest(t, name, func(t *testing.T) {
			s := open(t, 1000, 1000, 2<<20)
			var all []net.Conn
			response := ""
			for response == "" && len(all) < 100 {
				var c net.Conn
				c, response = s.send(t, "192.0.2.1", head)
				all = append(all, c)
			}
			if len(all) < 9 || !strings.Contains(response, " 503 ") || s.Refused() != 1 || s.Budget().Used() > 1<<20 {
				t.Errorf("%d connections, response %q, %d refused, %d bytes", len(all), response, s.Refused(), s.Budget().Used())
			}
			if _, response := s.send(t, "192.0.2.2", head); response != "" {
				t.Errorf("another network: %s", response)
			}
			_ = all[len(all)-1].Close()
			for _, c := range all {
				s.ConnState(c, http.StateActive)
				s.ConnState(c, http.StateIdle)
			}
			if _, response := s.send(t, "192.0.2.1", head); response != "" {
				t.Errorf("after the end of the requests: %s", response)
			}
			for c := range s.Connections.open {
				_, _ = c.Close(), c.Close()
			}
			must.Is(t, 0, s.Budget().Used())
		})
	}
}
