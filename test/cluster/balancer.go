package cluster

import (
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// balancer forwards each request to a random server, and to the next one if it refuses the connection.
type balancer struct {
	url    string
	server *http.Server

	mu      sync.RWMutex
	targets []*url.URL // the first one runs the development providers
}

// newBalancer starts a balancer on a free loopback port.
func newBalancer() (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	b := &balancer{url: "http://localhost:" + port}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1024
	b.server = &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
		Transport:     roundTripper{b, transport},
		FlushInterval: -1,                         // streams
		ErrorLog:      log.New(io.Discard, "", 0), // a server that ends is no error of the balancer
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	go func() { _ = b.server.Serve(l) }() // until Close
	return b, nil
}

// add adds a server.
func (b *balancer) add(address string) {
	target, err := url.Parse(address)
	if err != nil {
		panic(err) // it was made of a port
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, target)
}

// choose returns the servers for a path in the order in which they are tried.
func (b *balancer) choose(path string) []*url.URL {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if strings.HasPrefix(path, "/dev/") {
		return b.targets[:1]
	}
	order := make([]*url.URL, len(b.targets))
	for i, j := range rand.Perm(len(b.targets)) {
		order[i] = b.targets[j]
	}
	return order
}

// roundTripper sends a request to the first server that accepts the connection.
type roundTripper struct {
	balancer *balancer
	base     http.RoundTripper
}

func (t roundTripper) RoundTrip(r *http.Request) (response *http.Response, err error) {
	body := r.Body
	if body != nil {
		defer body.Close()
		r.Body = io.NopCloser(body) // a refused connection closes the body, of which nothing was read
	}
	for _, target := range t.balancer.choose(r.URL.Path) {
		r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
		response, err = t.base.RoundTrip(r)
		var failed *net.OpError
		if !errors.As(err, &failed) || failed.Op != "dial" {
			return response, err
		}
	}
	return response, err
}
