package outbound_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"collab/adapters/outbound"
)

// road is servers that redirect to one another: one of https and two of http,
// all under names that the resolver knows.
type road struct {
	secure, plain, other *httptest.Server
	roots                *x509.CertPool
	names                *dns

	mu    sync.Mutex
	goals map[string]string // by path; a path that is not there is answered with its name
	code  int               // of the redirects
	seen  []*http.Request
}

func newRoad(t *testing.T) *road {
	r := &road{goals: map[string]string{}, code: http.StatusFound, names: newDNS(t, func(name string, _ int) []netip.Addr {
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

func (r *road) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, q)
	if goal, ok := r.goals[q.URL.Path]; ok {
		w.Header().Set("Location", r.fill(goal))
		w.WriteHeader(r.code)
		return
	}
	_, _ = w.Write([]byte(q.URL.Path))
}

// fill puts the servers' addresses into a text.
func (r *road) fill(s string) string {
	return strings.NewReplacer(
		"SECURE", "https://example.com:"+port(r.secure), "PLAIN", "http://plain.test:"+port(r.plain), "OTHER", "http://plain.test:"+port(r.other),
		"PORT", port(r.plain),
	).Replace(s)
}

func (r *road) client(t *testing.T) *http.Client {
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
	if err != nil {
		t.Fatal(err)
	}
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
		goals   map[string]string
		method  string
		start   string
		content string
		header  http.Header
		outcome int
		seen    int // requests
	}{
		"three":                       {goals: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4"}, start: "PLAIN/1", seen: 4},
		"four":                        {goals: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5"}, start: "PLAIN/1", outcome: failed, seen: 4},
		"three over https":            {goals: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4"}, start: "SECURE/1", seen: 4},
		"four over https":             {goals: map[string]string{"/1": "/2", "/2": "/3", "/3": "/4", "/4": "/5"}, start: "SECURE/1", outcome: failed, seen: 4},
		"to a private address":        {goals: map[string]string{"/1": "http://" + closed + ":PORT/2?token=" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to a private name":           {goals: map[string]string{"/1": "http://private.test:PORT/2?token=" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to a private one, the third": {goals: map[string]string{"/1": "OTHER/2", "/2": "PLAIN/3", "/3": "http://private.test:PORT/4"}, start: "PLAIN/1", outcome: blocked, seen: 3},
		"to a user's address":         {goals: map[string]string{"/1": "http://user:" + secret + "@plain.test:PORT/2"}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to another scheme":           {goals: map[string]string{"/1": "ftp://plain.test/" + secret}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to no address":               {goals: map[string]string{"/1": "http://plain.test:" + secret + "/"}, start: "PLAIN/1", outcome: blocked, seen: 1},
		"to nowhere":                  {goals: map[string]string{"/1": ""}, start: "PLAIN/1", seen: 1},
		"from https to http":          {goals: map[string]string{"/1": "PLAIN/2?token=" + secret}, start: "SECURE/1", outcome: blocked, seen: 1},
		"from https to http, later":   {goals: map[string]string{"/1": "SECURE/2", "/2": "PLAIN/3"}, start: "PLAIN/1", outcome: blocked, seen: 2},
		"from http to https":          {goals: map[string]string{"/1": "SECURE/2"}, start: "PLAIN/1", seen: 2},
		"to another port":             {goals: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"Accept": {"*/*"}, "Mcp-Protocol-Version": {"2026-07-28"}}, seen: 2},
		"with credentials, at home":   {goals: map[string]string{"/1": "/2"}, start: "PLAIN/1", header: credentials, seen: 2},
		"with credentials, at home, written otherwise": {goals: map[string]string{"/1": "http://Plain.Test:PORT/2"}, start: "PLAIN/1", header: credentials, seen: 2},
		"with credentials, to another port":            {goals: map[string]string{"/1": "OTHER/2?token=" + secret}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, to another host":            {goals: map[string]string{"/1": "http://other.test:PORT/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, to a host below":            {goals: map[string]string{"/1": "http://sub.plain.test:PORT/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, from http to https":         {goals: map[string]string{"/1": "SECURE/2"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 1},
		"with credentials, over another page":          {goals: map[string]string{"/1": "/2", "/2": "OTHER/3"}, start: "PLAIN/1", header: credentials, outcome: blocked, seen: 2},
		"with a key in a header of its own":            {goals: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"X-Api-Key": {secret}}, outcome: blocked, seen: 1},
		"with a cookie":                                {goals: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"Cookie": {"a=" + secret}}, outcome: blocked, seen: 1},
		"with a header in lower case":                  {goals: map[string]string{"/1": "OTHER/2"}, start: "PLAIN/1", header: http.Header{"x-key": {secret}}, outcome: blocked, seen: 1},
		"with a body, at home":                         {code: 307, goals: map[string]string{"/1": "/2"}, method: "POST", start: "PLAIN/1", content: secret, seen: 2},
		"with a body that goes on":                     {code: 307, goals: map[string]string{"/1": "OTHER/2"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that goes on, by 308":             {code: 308, goals: map[string]string{"/1": "OTHER/2"}, method: "PUT", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that stays":                       {code: 303, goals: map[string]string{"/1": "OTHER/2"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 1},
		"with a body that stays, over another page":    {code: 302, goals: map[string]string{"/1": "/2", "/2": "OTHER/3"}, method: "POST", start: "PLAIN/1", content: secret, outcome: blocked, seen: 2},
		"with a body, over https":                      {code: 307, goals: map[string]string{"/1": "PLAIN/2"}, method: "POST", start: "SECURE/1", content: secret, outcome: blocked, seen: 1},
		"not of a status that redirects":               {code: 201, goals: map[string]string{"/1": "http://" + closed + "/"}, start: "PLAIN/1", seen: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoad(t)
			private := trap(t, r.plain)
			r.goals = tt.goals
			if tt.code != 0 {
				r.code = tt.code
			}
			// Libraries make clients of their own that have the transport.
			for which, c := range map[string]*http.Client{"the client": r.client(t), "another client": {Transport: r.client(t).Transport}} {
				r.seen = nil
				_, err := do(c, request(t, tt.method, r.fill(tt.start)+"?token="+secret, tt.content, tt.header))
				if (err == nil) != (tt.outcome == followed) || outbound.Blocked(err) != (tt.outcome == blocked) {
					t.Errorf("%s: got %v", which, err)
				}
				if err != nil && strings.Contains(outbound.Cause(err).Error(), secret) {
					t.Errorf("%s: the error says %v", which, outbound.Cause(err))
				}
				if len(r.seen) != tt.seen {
					t.Errorf("%s: %d requests arrive, want %d", which, len(r.seen), tt.seen)
				}
				for _, q := range r.seen {
					if q.Header.Get("Referer") != "" {
						t.Errorf("%s: a server is told %s", which, q.Header.Get("Referer"))
					}
				}
			}
			empty(t, private)
		})
	}
}

// bearer adds credentials to every request, as the transport of a library does.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+secret)
	return b.RoundTripper.RoundTrip(r)
}

func TestCredentialsAddedByATransportAreNotRedirectedToAnotherOrigin(t *testing.T) {
	r := newRoad(t)
	r.goals = map[string]string{"/away": "OTHER/2", "/stay": "/2"}
	c := &http.Client{Transport: bearer{r.client(t).Transport}}
	if text, err := get(t, c, r.fill("PLAIN/stay")); text != "/2" || err != nil {
		t.Errorf("at home: got %q, %v", text, err)
	}
	if _, err := get(t, c, r.fill("PLAIN/away")); !outbound.Blocked(err) || len(r.seen) != 3 {
		t.Errorf("elsewhere: got %v after %d requests", err, len(r.seen))
	}
}

func TestRedirectsToARefusedSchemeAreRefused(t *testing.T) {
	r := newRoad(t)
	r.goals = map[string]string{"/1": "PLAIN/2", "/3": "/4"}
	c := newClient(t, outbound.Options{Networks: opened, Resolver: r.names.resolver(), Roots: r.roots})
	if _, err := get(t, c, r.fill("SECURE/1")); !outbound.Blocked(err) || len(r.seen) != 1 {
		t.Errorf("got %v after %d requests", err, len(r.seen))
	}
	if text, err := get(t, c, r.fill("SECURE/3")); text != "/4" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestCredentialsGoToOneOrigin(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to string
		same     bool
	}{
		"the default port":           {"https://example.com/a", "https://example.com:443/b", true},
		"the default port, left out": {"http://example.com:80/a", "http://example.com/b", true},
		"capitals":                   {"https://example.com/a", "https://EXAMPLE.com/b", true},
		"another port":               {"https://example.com/a", "https://example.com:8443/b", false},
		"another name":               {"https://example.com/a", "https://example.org/b", false},
		"a dot at the end":           {"https://example.com/a", "https://example.com./b", false},
		"another scheme":             {"http://example.com/a", "https://example.com/b", false},
		"another scheme alone":       {"http://example.com:443/a", "https://example.com/b", false},
	} {
		for where, bare := range map[string]bool{"all along": false, "only then": true} {
			header := http.Header{"Authorization": {secret}}
			first, next := request(t, http.MethodGet, tt.from, "", header), request(t, http.MethodGet, tt.to, "", header)
			if bare {
				first.Header = http.Header{}
			}
			next.Response = &http.Response{Request: first}
			c := newClient(t, outbound.Options{Insecure: true, Resolver: newDNS(t, always("8.8.8.8")).resolver()})
			w := follow(c, true)
			_, err := c.Transport.RoundTrip(next)
			if outbound.Blocked(err) == tt.same || (len(w.addresses()) > 0) != tt.same {
				t.Errorf("%s, with credentials %s: got %v", name, where, err)
			}
		}
	}
}

func TestCheckRedirectAllowsWhatTheTransportChecks(t *testing.T) {
	if err := newClient(t, outbound.Options{}).CheckRedirect(nil, make([]*http.Request, 10)); err != nil {
		t.Error(err)
	}
}
