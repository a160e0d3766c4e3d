package outbound_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/outbound"
	"collab/test/must"
)

func TestACallGoesOverHTTP2WithAVerifiedCertificate(t *testing.T) {
	s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto + " " + r.Host)) })
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	names := newDNS(t, always(open))
	c := newClient(t, outbound.Options{Networks: opened, Roots: roots, Resolver: names.resolver()})
	host := "example.com:" + port(s)
	if text, err := get(t, c, "https://"+host+"/"); text != "HTTP/2.0 "+host || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	for name, tt := range map[string]struct {
		host  string
		roots *x509.CertPool
	}{"another name": {"another.test", roots}, "an authority that nobody knows": {"example.com", x509.NewCertPool()}} {
		c := newClient(t, outbound.Options{Networks: opened, Roots: tt.roots, Resolver: names.resolver()})
		_, err := get(t, c, "https://"+tt.host+":"+port(s)+"/")
		if err == nil || outbound.Blocked(err) || cause(err).Error() != "the certificate of the server cannot be verified" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// piped replaces the client's connections by pipes and calls serve with their other ends.
func piped(c *http.Client, serve func(net.Conn)) {
	outbound.Dial(c, func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go serve(far)
		return near, nil
	})
}

// timed makes a call with a timeout of an hour and returns its duration.
func timed(t *testing.T, c *http.Client, address string) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	must.NoError(t, err)
	begin := time.Now()
	_, err = do(c, r)
	return time.Since(begin), err
}

func TestTimeLimits(t *testing.T) {
	// The resolver's state must not belong to a synctest bubble.
	_, _ = newDNS(t, always(open)).resolver().LookupHost(t.Context(), "name.test")
	silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
	for name, tt := range map[string]struct {
		address string
		set     func(*testing.T, *http.Client)
		limit   time.Duration
	}{
		"names":     {"https://name.test/", func(*testing.T, *http.Client) {}, 5 * time.Second},
		"handshake": {"https://name.test/", func(_ *testing.T, c *http.Client) { piped(c, silent) }, 5 * time.Second},
		"head":      {"http://name.test/", func(_ *testing.T, c *http.Client) { piped(c, silent) }, 10 * time.Second},
		"head that arrives slowly": {"http://name.test/", func(t *testing.T, c *http.Client) {
			piped(c, func(conn net.Conn) {
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				for _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err == nil; _, err = io.WriteString(conn, "X: y\r\n") {
					time.Sleep(time.Second)
				}
			})
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, outbound.Options{Insecure: true, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}})
				tt.set(t, c)
				took, err := timed(t, c, tt.address)
				if took != tt.limit || cause(err).Error() != "the server did not answer in time" {
					t.Errorf("took %v, got %v", took, err)
				}
				if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
					t.Errorf("%v is no timeout", err)
				}
				time.Sleep(time.Minute) // until the resolver's goroutines end
			})
		})
	}
}

func TestReadingABodyHasNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, outbound.Options{Insecure: true})
		piped(c, func(conn net.Conn) {
			defer func() { _ = conn.Close() }()
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n")
			for err := error(nil); err == nil; _, err = io.WriteString(conn, ".") {
				time.Sleep(time.Minute)
			}
		})
		took, err := timed(t, c, "http://name.test/")
		if took != time.Hour || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("took %v, got %v", took, err)
		}
		time.Sleep(time.Minute) // until the server's goroutine ends
	})
}

func TestAConnectionIsKeptForThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, outbound.Options{Insecure: true})
		var ended time.Duration
		begin := time.Now()
		piped(c, func(conn net.Conn) {
			from := bufio.NewReader(conn)
			for {
				if _, err := http.ReadRequest(from); err != nil {
					ended = time.Since(begin)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		must.Do(get(t, c, "http://name.test/")).Or(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		if ended != 30*time.Second {
			t.Errorf("the connection ends after %v", ended)
		}
	})
}

func TestHeadersAreLimited(t *testing.T) {
	for kind, start := range map[string]func(testing.TB, http.HandlerFunc) *httptest.Server{"HTTP/1": serve, "HTTP/2": serveTLS} {
		s := start(t, func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
			for range n / 1000 {
				w.Header().Add("X-Filler", strings.Repeat("x", 1000-len("X-Filler: \r\n")))
			}
		})
		roots := x509.NewCertPool()
		if s.TLS != nil {
			roots.AddCert(s.Certificate())
		}
		c := newClient(t, outbound.Options{Insecure: true, Networks: opened, Roots: roots})
		if _, err := get(t, c, s.URL+"?bytes=60000"); err != nil {
			t.Errorf("%s: 60 kB: %v", kind, err)
		}
		if _, err := get(t, c, s.URL+"?bytes=70000"); err == nil {
			t.Errorf("%s: 70 kB are accepted", kind)
		}
	}
}

func TestABodyThatIsTooLongFails(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
		var to io.Writer = w
		if r.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer func() { _ = z.Close() }()
			to = z
		}
		_, _ = io.CopyN(to, zeros{}, int64(n))
	})
	for name, tt := range map[string]struct {
		limit, length, read int
		gzip                bool
	}{
		"as long as may be":           {limit: 1000, length: 1000, read: 1000},
		"one longer":                  {limit: 1000, length: 1001, read: 1000},
		"much longer":                 {limit: 1000, length: 1 << 20, read: 1000},
		"nothing":                     {limit: 1000},
		"the limit that is not given": {length: 1 << 20, read: 1 << 20},
		"one longer than that":        {length: 1<<20 + 1, read: 1 << 20},
		"another limit":               {limit: 4 << 20, length: 3 << 20, read: 3 << 20},
		"compressed":                  {limit: 1 << 20, length: 1 << 20, read: 1 << 20, gzip: true},
		"compressed, one longer":      {limit: 1 << 20, length: 1<<20 + 1, read: 1 << 20, gzip: true},
		"a bomb":                      {limit: 1 << 20, length: 16 << 20, read: 1 << 20, gzip: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, outbound.Options{Insecure: true, Networks: opened, MaxBody: int64(tt.limit)})
			address := s.URL + "?bytes=" + strconv.Itoa(tt.length)
			if tt.gzip {
				address += "&gzip"
			}
			res := must.Do(c.Get(address)).Or(t)
			defer func() { _ = res.Body.Close() }()
			text, err := io.ReadAll(res.Body)
			if len(text) != tt.read {
				t.Errorf("%d bytes are read, want %d", len(text), tt.read)
			}
			if tt.read == tt.length {
				must.NoError(t, err)
				return
			}
			if e, ok := errors.AsType[*http.MaxBytesError](err); !ok || e.Limit != int64(tt.read) || err.Error() != "the answer is too long" {
				t.Errorf("got %v", err)
			}
			if n, err := res.Body.Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("after that %d more are read, %v", n, err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestNeitherProxiesNorCookies requests a named host, because net/http uses no proxy for loopback addresses.
func TestNeitherProxiesNorCookies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b", Path: "/"})
		_, _ = w.Write([]byte("direct" + r.Header.Get("Cookie")))
	})
	c := newClient(t, outbound.Options{Insecure: true, Networks: opened, Resolver: newDNS(t, always(open)).resolver()})
	for range 2 {
		if text, err := get(t, c, "http://name.test:"+port(s)+"/"); text != "direct" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
	}
}
