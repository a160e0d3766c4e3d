package outbound_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"collab/adapters/outbound"
	"collab/test/must"
)

// redirector has servers that redirect to one another: one with https and two with http,
// under names of its resolver.
type redirector struct {
	secure, plain, other *httptest.Server
	roots                *x509.CertPool
	names                *dns

	mu      sync.Mutex
	targets map[string]string // by path; the response to another path is the path
	code    int               // of the redirects
	seen    []*http.Request
}

func newRedirector(t *testing.T) *redirector {
	r := &redirector{targets: map[string]string{}, code: http.StatusFound, names: newDNS(t, func(name string, _ int) []netip.Addr {
		if name == "private.test" {
			return parsed(closed)
		}
		return parsed(open)
	})}
	r.secure, r.plain, r.other = serveTLS(t, r.serve), serve(t, r.serve), serve(t, r.serve)
	r.roots = x509.NewCertPool()
	r.roots.AddCert(r.secure.Certificate())
	return r
}

func (r *redirector) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, q)
	if goal, ok := r.targets[q.URL.Path]; ok {
		w.Header().Set("Location", r.fill(goal))
		w.WriteHeader(r.code)
		return
	}
	_, _ = w.Write([]byte(q.URL.Path))
}

// fill replaces SECURE, PLAIN, OTHER and PORT by those of the servers.
func (r *redirector) fill(s string) string {
	return strings.NewReplacer(
		"SECURE", "https://example.com:"+port(r.secure), "PLAIN", "http://plain.test:"+port(r.plain), "OTHER", "http://plain.test:"+port(r.other),
		"PORT", port(r.plain),
	).Replace(s)
}

func (r *redirector) client(t *testing.T) *http.Client {
	return newClient(t, outbound.Options{Insecure: true, Networks: opened, Resolver: r.names.resolver(), Roots: r.roots})
}

func request(t *testing.T, method, address, content string, header http.Header) *http.Request {
	t.Helper()
	var body *strings.Reader
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if content != "" {
		body = strings.NewReader(content)
		r, err = http.NewRequestWithContext(t.Context(), method, address, body)
	}
	must.NoError(t, err)
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	return r
}

func TestRedirects(t *testing.T) {
	const (
		followed = iota
		blocked
		failed
	)
	credentials := http.Header{"Authorization": {"Bearer " + secret}}
	for name, tt := range map[string]struct {
		code    int
		targets map[string]string
		method  string
		start   string
		content string
		header  http.Header
		outcome int
		seen    int // requests
	}{
		"three":                         {targets: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4"}, start: "PLAIN/1", seen: 4},
		"four":                          {targets: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5"}, start: "PLAIN/1", outcome: failed, seen: 4},
		"to a private address":          {targets: map[string]string{"/1": "http://" + closed + ":PORT/2?token=" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to a private name":             {targets: map[string]string{"/1": "http://private.test:PORT/2?token=" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to a private one, the third":   {targets: map[string]string{"/1": "OTHER/2", "/2": "PLAIN/3", "/3": "http://private.test:PORT/4"}, start: "PLAIN/1", outcome: blocked, seen: 3},
		"to a user's address":           {targets: map[string]string{"/1": "http://user:" + secret + "@plain.test:PORT/2"}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to another scheme":             {targets: map[string]string{"/1": "ftp://plain.test/" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to no address":                 {targets: map[string]string{"/1": "http://plain.test:" + secret + "/"}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to nowhere":                    {targets: map[string]string{"/1": ""}, start: "PLAIN/1", seen: 1},
		"from https to http":            {targets: map[string]string{"/1": "PLAIN/2?token=" + secret}, start: "SECURE/1", outcome: blocked, seen: 1},
		"from https to http, later":     {targets: map[string]string{"/1": "SECURE/2", "/2": "PLAIN/3"}, start: "PLAIN/1", outcome: blocked, seen: 2},
		"from https to https":           {targets: map[string]string{"/1": "/2"}, start: "SECURE/1", seen: 2},
		"from http to https":            {targets: map[string]string{"/1": "SECURE/2"}, start: "PLAIN/1", seen: 2},
		"to another port":               {targets: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"Accept": {"*/*"}, "Mcp-Protocol-Version": {"2026-07-28"}}, seen: 2},
		"with credentials, same origin": {targets: map[string]string{"/1": "/2"}, start: "PLAIN/1", header: credentials, seen: 2},
		"with credentials, same origin, written otherwise": {targets: map[string]string{"/1": "http://Plain.Test:PORT/2"}, start: "PLAIN/1", header: credentials, seen: 2},
		"with credentials, to another port":                {targets: map[string]string{"/1": "OTHER/2?token=" + secret}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, to another host":                {targets: map[string]string{"/1": "http://other.test:PORT/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, to a host below":                {targets: map[string]string{"/1": "http://sub.plain.test:PORT/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, from http to https":             {targets: map[string]string{"/1": "SECURE/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, over another page":              {targets: map[string]string{"/1": "/2", "/2": "OTHER/3"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 2},
		"with a key in a header of its own":                {targets: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"X-Api-Key": {secret}}, outcome: blocked, seen: 1},
		"with a cookie":                                    {targets: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"Cookie": {"a=" + secret}}, outcome: blocked, seen: 1},
		"with a header in lower case":                      {targets: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"x-key": {secret}}, outcome: blocked, seen: 1},
		"with a body, same origin":                         {code: 307, targets: map[string]string{"/1": "/2"}, method: "POST", start: "PLAIN/1", content: secret, seen: 2},
		"with a body that is sent again":                   {code: 307, targets: map[string]string{"/1": "OTHER/2"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that is sent again, by 308":           {code: 308, targets: map[string]string{"/1": "OTHER/2"}, method: "PUT", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that is dropped":                      {code: 303, targets: map[string]string{"/1": "OTHER/2"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that is dropped, over another page":   {code: 302, targets: map[string]string{"/1": "/2", "/2": "OTHER/3"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 2},
		"with a body, over https":                          {code: 307, targets: map[string]string{"/1": "PLAIN/2"}, method: "POST", start: "SECURE/1", content: secret, outcome: blocked, seen: 1},
		"not of a status that redirects":                   {code: 201, targets: map[string]string{"/1": "http://" + closed + "/"}, start: "PLAIN/1", seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRedirector(t)
			private := trap(t, r.plain)
			r.targets = tt.targets
			if tt.code != 0 {
				r.code = tt.code
			}
			// Libraries create their own clients with the transport.
			for which, c := range map[string]*http.Client{"the client": r.client(t), "another client": {Transport: r.client(t).Transport}} {
				r.seen = nil
				_, err := do(c, request(t, tt.method, r.fill(tt.start)+"?token="+secret, tt.content, tt.header))
				if (err == nil) != (tt.outcome == followed) || outbound.Blocked(err) != (tt.outcome == blocked) {
					t.Errorf("%s: got %v", which, err)
				}
				if err != nil && strings.Contains(cause(err).Error(), secret) {
					t.Errorf("%s: the error says %v", which, cause(err))
				}
				if len(r.seen) != tt.seen {
					t.Errorf("%s: %d requests arrive, want %d", which, len(r.seen), tt.seen)
				}
				for _, q := range r.seen {
					if q.Header.Get("Referer") != "" {
						t.Errorf("%s: the Referer is %s", which, q.Header.Get("Referer"))
					}
				}
			}
			empty(t, private)
		})
	}
}

// bearer adds credentials to every request, as the transport of a library does.
type bearer struct {
	http.RoundTripper
	redirected bool // only to redirected requests
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.redirected || r.Response != nil {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return b.RoundTripper.RoundTrip(r)
}

func TestCredentialsAddedByATransportAreNotRedirectedToAnotherOrigin(t *testing.T) {
	for _, redirected := range []bool{false, true} {
		r := newRedirector(t)
		r.targets = map[string]string{"/away": "OTHER/2", "/stay": "/2"}
		c := &http.Client{Transport: bearer{r.client(t).Transport, redirected}}
		if text, err := get(t, c, r.fill("PLAIN/stay")); text != "/2" || err != nil {
			t.Errorf("same origin: got %q, %v", text, err)
		}
		if _, err := get(t, c, r.fill("PLAIN/away")); !outbound.Blocked(err) || len(r.seen) != 3 {
			t.Errorf("elsewhere: got %v after %d requests", err, len(r.seen))
		}
	}
}

func TestOrigin(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/a":       "https://example.com:443",
		"http://EXAMPLE.com?a":        "http://example.com:80",
		"http://example.com:443/":     "http://example.com:443",
		"https://example.com.:8443/a": "https://example.com.:8443",
	} {
		must.Is(t, want, outbound.Origin(must.Do(url.Parse(address)).Or(t)))
	}
}

func TestCheckRedirectAllowsWhatTheTransportChecks(t *testing.T) {
	must.NoError(t, newClient(t, outbound.Options{}).CheckRedirect(nil, make([]*http.Request, 10)))
}
