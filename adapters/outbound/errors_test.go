package outbound_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"collab/adapters/outbound"
	"collab/test/must"
)

// speak starts a server that answers every request with the text.
func speak(t *testing.T, text string) string {
	t.Helper()
	l := must.Do(net.Listen("tcp", open+":0")).Or(t)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func TestErrorsContainNeitherURLsNorResponses(t *testing.T) {
	names := newDNS(t, func(name string, _ int) []netip.Addr {
		if strings.HasPrefix(name, "nobody") {
			return nil
		}
		return parsed(open)
	})
	broken := "the connection broke off, or the server does not speak HTTP"
	for name, tt := range map[string]struct {
		address string
		is      error // nil: anything
		what    string
	}{
		"no HTTP":                              {"http://" + speak(t, secret+"\r\n\r\n"), nil, broken},
		"no status":                            {"http://" + speak(t, "HTTP/1.1 "+secret+"\r\n\r\n"), nil, broken},
		"no header":                            {"http://" + speak(t, "HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n"), nil, broken},
		"no length":                            {"http://" + speak(t, "HTTP/1.1 200 OK\r\nContent-Length: "+secret+"\r\n\r\n"), nil, broken},
		"a body that is short":                 {"http://" + speak(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+secret), io.ErrUnexpectedEOF, broken},
		"a body in bad chunks":                 {"http://" + speak(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+secret+"\r\n"), nil, broken},
		"a body with a wrong Content-Encoding": {"http://" + speak(t, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\n"+secret), nil, broken},
		"nothing":                              {"http://" + speak(t, ""), nil, broken},
		"no TLS":                               {"https://" + speak(t, secret), nil, "TLS handshake failed"},
		"nobody there":                         {"http://" + net.JoinHostPort(open, "1"), syscall.ECONNREFUSED, "the network says: connection refused"},
		"no such name":                         {"http://nobody.test", nil, "the name of the server could not be resolved"},
		"a private address":                    {"http://10.0.0.1", nil, "The address leads into a network that is not public"},
	} {
		c := newClient(t, outbound.Options{Insecure: true, Networks: opened, Resolver: names.resolver()})
		_, err := get(t, c, tt.address+"/?token="+secret)
		if err == nil || tt.is != nil && !errors.Is(err, tt.is) || cause(err).Error() != tt.what {
			t.Errorf("%s: got %v", name, err)
		}
		if outbound.Blocked(err) != strings.HasPrefix(tt.what, "The address") {
			t.Errorf("%s: blocked is %v", name, outbound.Blocked(err))
		}
	}
}

func TestACancelledCallReturnsCanceled(t *testing.T) {
	arrived := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"?token="+secret, nil)
	must.NoError(t, err)
	_, err = do(newClient(t, outbound.Options{Insecure: true, Networks: opened}), r)
	if !errors.Is(err, context.Canceled) || cause(err).Error() != "context canceled" {
		t.Errorf("got %v", err)
	}
}

// closer records that a body was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

func TestTheBodyOfARequestThatIsRefusedIsClosed(t *testing.T) {
	content := &closer{Reader: strings.NewReader(secret)}
	r := must.Do(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://name.test/", content)).Or(t)
	if _, err := newClient(t, outbound.Options{}).Transport.RoundTrip(r); !outbound.Blocked(err) || !content.closed {
		t.Errorf("got %v, closed is %v", err, content.closed)
	}
}

func TestBlockedOfOtherErrors(t *testing.T) {
	_, noURL := new(url.URL).Parse("https://user:" + secret + "/x@name.test/")
	if plain := errors.New("plain"); outbound.Blocked(nil) || outbound.Blocked(plain) || outbound.Blocked(&url.Error{Op: "Get", Err: plain}) || !outbound.Blocked(noURL) {
		t.Error("an error is classified wrongly")
	}
}
