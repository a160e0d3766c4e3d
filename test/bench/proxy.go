package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"collab/test/debian"
	"collab/test/must"
)

// http2Scheme is the prefix of addresses of HTTP/2 over TLS.
const http2Scheme = "https://"

// proxyConfig configures nginx to terminate HTTP/2 and TLS, and to use HTTP/1.1 with persistent connections to a
// server.
const proxyConfig = `
daemon off; master_process off; pid proxy.pid; error_log stderr;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  upstream server { server %[2]s; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen %[1]s ssl http2;
    ssl_certificate certificate.pem; ssl_certificate_key key.pem;
    keepalive_requests 1000000000;
    location / {
      proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_buffering off; proxy_read_timeout 1h;
    }
  }
}
`

// proxyCertificate returns a certificate for loopback addresses and its key in PEM.
var proxyCertificate = sync.OnceValues(func() ([2][]byte, error) {
	s := httptest.NewTLSServer(nil) // for its certificate
	defer s.Close()
	own := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	return [2][]byte{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, err
})

// proxied starts a proxy before a server until the end of the scope. It returns the server with the proxy's address.
func (b *bench) proxied(ctx context.Context, p *process) *process {
	program := must.Do(debian.Program(ctx, "nginx", "nginx-light")).Or(b)
	folder := must.Do(os.MkdirTemp(b.folder, "proxy-")).Or(b)
	address := must.Do(freeAddress()).Or(b)
	pair := must.Do(proxyCertificate()).Or(b)
	for name, content := range map[string][]byte{
		"certificate.pem": pair[0], "key.pem": pair[1], "nginx.conf": fmt.Appendf(nil, proxyConfig, address, p.address),
	} {
		must.NoError(b, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	proxy := b.launch("nginx", folder, address, program, os.Environ(),
		"-p", folder, "-c", filepath.Join(folder, "nginx.conf"), "-e", "stderr")
	front := *p
	front.address = http2Scheme + address
	must.NoError(b, proxy.await(ctx, time.Millisecond, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}))
	return &front
}

// connect connects to host:port, or with HTTP/2 to an address with http2Scheme.
func connect(ctx context.Context, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, http2Scheme) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	}
	pair, err := proxyCertificate()
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pair[0])
	c := &http2Conn{address: address, block: make([]byte, 32<<10), transport: &http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true, IdleConnTimeout: time.Second, TLSClientConfig: &tls.Config{RootCAs: trusted},
	}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// http2Conn is an HTTP/2 connection with the bytes of HTTP/1.1 on the outside: each Write is a whole request, and
// Read returns its response.
type http2Conn struct {
	net.Conn  // nil: its methods are not called
	address   string
	transport *http.Transport
	ctx       context.Context
	cancel    context.CancelFunc
	closed    atomic.Bool
	body      io.ReadCloser // of the present response; nil: none
	chunked   bool
	block     []byte
	out       bytes.Buffer // read before more of the body
}

func (c *http2Conn) Write(request []byte) (int, error) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Clone(request))))
	if err != nil {
		return 0, err
	}
	r = r.WithContext(c.ctx)
	r.URL.Scheme, r.URL.Host = "https", strings.TrimPrefix(c.address, http2Scheme)
	r.RequestURI, r.Host = "", r.URL.Host
	response, err := c.transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	if response.ProtoMajor != 2 {
		return 0, errors.Join(fmt.Errorf("the proxy speaks %s", response.Proto), response.Body.Close())
	}
	c.body, c.chunked = response.Body, response.ContentLength < 0
	fmt.Fprintf(&c.out, "HTTP/1.1 %d -\r\n", response.StatusCode)
	if c.chunked {
		c.out.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	} else {
		fmt.Fprintf(&c.out, "Content-Length: %d\r\n\r\n", response.ContentLength)
	}
	return len(request), nil
}

func (c *http2Conn) Read(p []byte) (int, error) {
	if c.out.Len() == 0 && c.body != nil {
		n, err := c.body.Read(c.block)
		if c.chunked && n > 0 {
			fmt.Fprintf(&c.out, "%x\r\n%s\r\n", n, c.block[:n])
		} else {
			c.out.Write(c.block[:n])
		}
		switch {
		case errors.Is(err, io.EOF):
			if c.chunked {
				c.out.WriteString("0\r\n\r\n")
			}
			err = c.body.Close()
			c.body = nil
		case err != nil && c.closed.Load():
			return 0, net.ErrClosed
		}
		if err != nil {
			return 0, err
		}
	}
	return c.out.Read(p)
}

// SetDeadline cancels running requests at the time.
func (c *http2Conn) SetDeadline(t time.Time) error {
	end := time.AfterFunc(time.Until(t), c.cancel)
	context.AfterFunc(c.ctx, func() { end.Stop() })
	return nil
}

func (c *http2Conn) Close() error {
	c.closed.Store(true)
	c.cancel()
	c.transport.CloseIdleConnections()
	return nil
}
