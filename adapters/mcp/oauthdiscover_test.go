package mcp_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"collab/adapters/mcp"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/test/authserver"
	"collab/test/must"
)

func TestDiscoverySendsARequestOfTheProtocol(t *testing.T) {
	s := newFixture(t, "")
	s.discover(t)
	want := []string{"POST /mcp", "GET /.well-known/oauth-protected-resource/mcp"}
	must.Equal(t, want, s.tool.requests())
	if r := s.tool.asked[0]; r.Header.Get("Authorization") != "" || r.Header.Get("Content-Type") != "application/json" ||
		!strings.Contains(s.tool.bodies[0], `"method":"server/discover"`) {
		t.Errorf("asked %v %s", r.Header, s.tool.bodies[0])
	}
	must.Do(s.Discover(t.Context(), connector.Provider{Transport: connector.SSE}, s.tool.address)).Or(t)
	if all := s.tool.requests(); all[2] != "GET /mcp" {
		t.Errorf("asked %v over SSE", all)
	}
}

// Paths of a tool server's metadata.
const (
	ofOrigin = "/.well-known/oauth-protected-resource"
	ofPath   = ofOrigin + "/mcp"
)

// fill replaces TOOL, ORIGIN and AUTH by the URLs of the tool server, its origin and the
// authorization server.
func (s *fixture) fill(text string) string {
	return strings.NewReplacer("TOOL", s.tool.address, "ORIGIN", s.tool.url, "AUTH", s.auth.URL).Replace(text)
}

func TestMetadataOfAToolServerIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		address   string // of the tool server; empty: the default
		place     string // path of the metadata; empty: none
		resource  string // in the metadata and the result
		status    int    // 0: 401
		challenge string
		issuer    string // empty: the default
	}{
		"at the URL of the challenge": {
			place: "/about", resource: "TOOL", challenge: `Basic realm="x", Bearer realm="y", resource_metadata="ORIGIN/about", scope="a b"`,
		},
		"at the well-known URL of the path, after a challenge with a missing URL": {
			place: ofPath, resource: "TOOL", challenge: `Bearer resource_metadata="ORIGIN/.well-known/nothing"`,
		},
		"at the well-known URL of the path, after a malformed challenge": {place: ofPath, resource: "TOOL", challenge: `Bearer resource_metadata="`},
		"without a challenge":           {place: ofPath, resource: "TOOL", status: 200},
		"without following a redirect":  {place: ofPath, resource: "TOOL", status: 307},
		"at the origin, for the origin": {place: ofOrigin, resource: "ORIGIN"},
		"at the origin, with a slash":   {place: ofOrigin, resource: "ORIGIN/"},
		"at the origin, for the address, if the challenge names it": {
			place: ofOrigin, resource: "TOOL", challenge: `Bearer resource_metadata="ORIGIN` + ofOrigin + `"`,
		},
		"at the well-known URL of path and query":            {address: "TOOL?team=a%20b", place: ofPath + "?team=a%20b", resource: "TOOL"},
		"for an address that is an origin":                   {address: "ORIGIN/", place: ofOrigin, resource: "ORIGIN"},
		"no metadata: the origin is the issuer":              {address: "AUTH/mcp", resource: "TOOL"},
		"no metadata: the origin with a slash is the issuer": {address: "AUTH/mcp", resource: "TOOL", issuer: "AUTH/"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			s.tool.removeAll()
			s.auth.Set(func(b *authserver.Script) { b.Issuer = cmp.Or(s.fill(test.issuer), b.Issuer) })
			s.tool.address = cmp.Or(s.fill(test.address), s.tool.address)
			if test.place != "" {
				s.tool.describe(test.place, s.fill(test.resource), s.auth.Issuer)
			}
			s.tool.response(cmp.Or(test.status, 401), cmp.Or(s.fill(test.challenge), "Bearer"))
			if found := s.discover(t); found.Resource != s.fill(test.resource) || found.Token != s.auth.Issuer+"/token" {
				t.Errorf("found %+v", found)
			}
		})
	}
	t.Run("after an HTML page at the first URL", func(t *testing.T) {
		s := newFixture(t, "")
		s.tool.put(ofPath, "<!doctype html>")
		s.tool.describe(ofOrigin, s.tool.url, s.auth.Issuer)
		if found := s.discover(t); found.Resource != s.tool.url {
			t.Errorf("found %+v", found)
		}
	})
}

func TestMetadataOfTheAuthorizationServerIsComplete(t *testing.T) {
	s := newFixture(t, "/tenant")
	s.auth.Set(func(b *authserver.Script) { b.Documents, b.Scopes = true, []string{"offline_access"} })
	s.tool.response(401, `Bearer scope="read write"`)
	at := s.auth.URL + "/tenant"
	want := connector.AuthServer{
		Issuer: at, Authorization: at + "/authorize", Token: at + "/token", Registration: at + "/register", Revocation: at + "/revoke",
		AuthMethods: []string{"client_secret_basic", "client_secret_post", "none"}, Documents: true, ReturnsIssuer: true,
		Resource: s.tool.address, Scopes: []string{"read", "write", "offline_access"},
	}
	must.Equal(t, want, s.discover(t))
}

func TestMetadataURLsAreTriedInOrder(t *testing.T) {
	for _, path := range []string{"", "/tenant", "/a/b"} {
		for _, place := range []authserver.Place{authserver.Inserted, authserver.OIDCInserted, authserver.OIDCAppended} {
			t.Run(string(place)+" of "+path, func(t *testing.T) {
				s := newFixture(t, path)
				s.auth.Set(func(b *authserver.Script) { b.MetadataPlaces = []authserver.Place{place} })
				s.discover(t)
			})
		}
	}
	s := newFixture(t, "/tenant")
	s.auth.Set(func(b *authserver.Script) { b.MetadataPlaces = []authserver.Place{authserver.OIDCAppended} })
	s.discover(t)
	var paths []string
	for _, r := range s.auth.Requests(authserver.Metadata) {
		paths = append(paths, r.Path)
	}
	want := []string{
		"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant", "/tenant/.well-known/openid-configuration",
	}
	must.Equal(t, want, paths)
}

func TestTheFirstUsableAuthorizationServerIsSelected(t *testing.T) {
	s := newFixture(t, "")
	s.tool.describe(ofPath, s.tool.address, "", map[string]any{
		"authorization_servers": []string{"javascript:alert(1)", s.tool.url, s.auth.Issuer},
	})
	if found := s.discover(t); found.Issuer != s.auth.Issuer {
		t.Errorf("selected %s", found.Issuer)
	}
	s.tool.describe(ofPath, s.tool.address, "", map[string]any{
		"authorization_servers": append(slices.Repeat([]string{s.tool.url}, 4), s.auth.Issuer),
	})
	must.Fail(t, must.ErrorOf(s.Discover(t.Context(), connector.Provider{}, s.tool.address)), fault.Invalid) // after four unusable ones
}

func TestScopesAreSelected(t *testing.T) {
	long := strings.Repeat("s", 3000)
	for name, test := range map[string]struct {
		challenge string
		catalog   []string
		known     []string
		offered   []string
		want      []string
	}{
		"none":                           {want: nil},
		"the challenge's before all":     {`Bearer scope="a b a"`, []string{"c"}, []string{"d"}, nil, []string{"a", "b"}},
		"the catalog's before the known": {"Bearer", []string{"c"}, []string{"d"}, nil, []string{"c"}},
		"the known":                      {"Bearer", nil, []string{"d", "e"}, nil, []string{"d", "e"}},
		"offline access where offered":   {"Bearer", nil, []string{"d"}, []string{"x", "offline_access"}, []string{"d", "offline_access"}},
		"offline access once":            {`Bearer scope="offline_access"`, nil, nil, []string{"offline_access"}, []string{"offline_access"}},
		"offline access not alone":       {"Bearer", nil, nil, []string{"offline_access"}, nil},
		"invalid scopes are skipped":     {"Bearer", nil, []string{"", "a b", "d\"", "e\\", "ü", "f\n", "g"}, nil, []string{"g"}},
		"up to the limit of bytes":       {"Bearer", nil, []string{long, long + "2", "h"}, nil, []string{long}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			s.tool.response(401, test.challenge)
			s.tool.describe(ofPath, s.tool.address, s.auth.Issuer, map[string]any{"scopes_supported": test.known})
			s.auth.Set(func(b *authserver.Script) { b.Scopes = test.offered })
			found := must.Do(s.Discover(t.Context(), connector.Provider{Scopes: test.catalog}, s.tool.address)).Or(t)
			must.Equal(t, test.want, found.Scopes)
		})
	}
}

func TestDiscoveryFails(t *testing.T) {
	metadata := func(name string, value any) func(*fixture) {
		return func(s *fixture) {
			s.auth.Set(func(b *authserver.Script) { b.Metadata = func(m map[string]any) { m[name] = value } })
		}
	}
	described := func(place, resource, issuer string) func(*fixture) {
		return func(s *fixture) { s.tool.describe(place, s.fill(resource), s.fill(issuer)) }
	}
	fails := func(f authserver.Fault) func(*fixture) {
		return func(s *fixture) { s.auth.Fail(authserver.Metadata, f, -1) }
	}
	for name, test := range map[string]struct {
		prepare func(*fixture)
		want    fault.Kind
		says    string
	}{
		"no PKCE":                                               {func(s *fixture) { s.auth.Set(func(b *authserver.Script) { b.Challenges = nil }) }, fault.Invalid, "PKCE"},
		"PKCE without S256":                                     {func(s *fixture) { s.auth.Set(func(b *authserver.Script) { b.Challenges = []string{"plain"} }) }, fault.Invalid, "PKCE"},
		"another issuer":                                        {metadata("issuer", "https://evil.example"), fault.Invalid, "another issuer"},
		"the issuer with a slash":                               {func(s *fixture) { s.auth.Set(func(b *authserver.Script) { b.Issuer = s.auth.URL + "/" }) }, fault.Invalid, "another issuer"},
		"no issuer":                                             {metadata("issuer", ""), fault.Invalid, "another issuer"},
		"no endpoint to go to":                                  {metadata("authorization_endpoint", ""), fault.Invalid, "address"},
		"an endpoint that is a script":                          {metadata("authorization_endpoint", "javascript:alert(1)"), fault.Invalid, "address"},
		"an endpoint in other letters":                          {metadata("authorization_endpoint", "https://аccounts.example/"), fault.Invalid, "address"}, // the first letter is Cyrillic
		"an endpoint with a fragment":                           {metadata("authorization_endpoint", "http://127.0.0.1/a#b"), fault.Invalid, "address"},
		"an endpoint with a user":                               {metadata("token_endpoint", "http://a:b@127.0.0.1/"), fault.Invalid, "address"},
		"an endpoint without a host":                            {metadata("revocation_endpoint", "http:///revoke"), fault.Invalid, "address"},
		"an endpoint that is too long":                          {metadata("registration_endpoint", "http://a/"+strings.Repeat("b", 3000)), fault.Invalid, "address"},
		"no metadata":                                           {func(s *fixture) { s.auth.Set(func(b *authserver.Script) { b.MetadataPlaces = nil }) }, fault.Invalid, "publishes no metadata"},
		"metadata that is a page":                               {fails(authserver.Status(200)), fault.Invalid, "publishes no metadata"},
		"enormous metadata":                                     {fails(authserver.Enormous), fault.Unavailable, "cannot be used"},
		"metadata that is cut off":                              {fails(authserver.Cut), fault.Unavailable, "cannot be reached"},
		"metadata that is no HTTP":                              {fails(authserver.Garble), fault.Unavailable, "cannot be reached"},
		"a broken authorization server":                         {fails(authserver.Status(500)), fault.Unavailable, "status 500"},
		"a busy authorization server":                           {fails(authserver.Status(429)), fault.Unavailable, "status 429"},
		"a redirect into a private network":                     {fails(authserver.Redirect("http://10.0.0.1/.well-known/oauth-authorization-server")), fault.Invalid, "may be called"},
		"a redirect to the metadata service":                    {fails(authserver.Redirect("http://169.254.169.254/latest/meta-data")), fault.Invalid, "may be called"},
		"an issuer in a private network":                        {described(ofPath, "TOOL", "http://10.0.0.1"), fault.Invalid, "may be called"},
		"an issuer with a query":                                {described(ofPath, "TOOL", "AUTH?a=b"), fault.Invalid, "may be called"},
		"a description in a private network":                    {func(s *fixture) { s.tool.response(401, `Bearer resource_metadata="http://10.0.0.1/"`) }, fault.Invalid, "may be called"},
		"a description of another server":                       {described(ofPath, "https://bank.example/mcp", "AUTH"), fault.Invalid, "another resource"},
		"a description of the origin, in the place of the path": {described(ofPath, "ORIGIN", "AUTH"), fault.Invalid, "another resource"},
		"a description of the address, in the place of the origin": {
			func(s *fixture) {
				s.tool.removeAll()
				s.tool.describe(ofOrigin, s.tool.address, s.auth.Issuer)
			}, fault.Invalid, "another resource",
		},
		"a description of another server, though the origin could be the issuer": {
			func(s *fixture) {
				s.tool.removeAll()
				s.tool.put("/.well-known/oauth-authorization-server", `{"issuer":"`+s.tool.url+`"}`)
				s.tool.describe(ofOrigin, "https://bank.example/mcp", s.auth.Issuer)
			}, fault.Invalid, "names another resource",
		},
		"a description without authorization servers": {
			func(s *fixture) { s.tool.put(ofPath, s.fill(`{"resource":"TOOL"}`)) }, fault.Invalid, "names no authorization server",
		},
		"an enormous description": {
			func(s *fixture) { s.tool.put(ofPath, `{"resource":"`+strings.Repeat("x", 70_000)+`"}`) }, fault.Unavailable, "cannot be used",
		},
		"no description, and no metadata at the origin": {func(s *fixture) { s.tool.removeAll() }, fault.Invalid, "publishes no metadata"},
		"a broken tool server":                          {func(s *fixture) { s.tool.response(503) }, fault.Unavailable, "tool server answered with status 503"},
		"a busy tool server":                            {func(s *fixture) { s.tool.response(429) }, fault.Unavailable, "tool server answered with status 429"},
		"a tool server in a private network":            {func(s *fixture) { s.tool.address = "http://192.168.1.1/mcp" }, fault.Invalid, "may be called"},
		"an invalid address":                            {func(s *fixture) { s.tool.address = "http://[::1" }, fault.Invalid, "may be called"},
		"a file":                                        {func(s *fixture) { s.tool.address = "file:///etc/passwd" }, fault.Invalid, "may be called"},
		"an address with a fragment":                    {func(s *fixture) { s.tool.address += "#a" }, fault.Invalid, "may be called"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, "")
			test.prepare(s)
			_, err := s.Discover(t.Context(), connector.Provider{}, s.tool.address)
			if fault.KindOf(err) != test.want || err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, of kind %d", err, fault.KindOf(err))
			}
		})
	}
}

func TestDiscoveryHasATimeout(t *testing.T) {
	quiet := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection after the body
		<-r.Context().Done()
	}))
	t.Cleanup(quiet.Close)
	s := newFixture(t, "")
	for name, transport := range map[string]connector.Transport{"over HTTP": connector.HTTP, "over SSE": connector.SSE} {
		if _, err := s.shortTimeout.Discover(t.Context(), connector.Provider{Transport: transport}, quiet.URL+"/mcp"); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]authserver.Fault{"none": authserver.Hang, "half of one": authserver.Stall} {
		s.auth.Fail(authserver.Metadata, f, -1)
		if _, err := s.shortTimeout.Discover(t.Context(), connector.Provider{}, s.tool.address); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyHTTPSIsAllowedOutsideDevelopment(t *testing.T) {
	s := newFixture(t, "", func(o *mcp.AuthorizerOptions) { o.Plain = false })
	must.Fail(t, must.ErrorOf(s.Discover(t.Context(), connector.Provider{}, s.tool.address)), fault.Invalid) // a tool server over http
	if all := s.tool.requests(); len(all) != 0 {
		t.Errorf("it was asked %v", all)
	}
	document := `{"issuer":"https://a.example","authorization_endpoint":"https://a.example/a","token_endpoint":"` + "%" + `","code_challenge_methods_supported":["S256"]}`
	for endpoint, good := range map[string]bool{"https://a.example/t": true, "http://a.example/t": false, "http://127.0.0.1/t": false} {
		_, err := mcp.ReadMetadata([]byte(strings.Replace(document, "%", endpoint, 1)), "https://a.example")
		if (err == nil) != good {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestReadChallenge(t *testing.T) {
	for name, test := range map[string]struct {
		headers []string
		address string
		scopes  []string
	}{
		"none":                         {},
		"a scheme alone":               {[]string{"Bearer"}, "", nil},
		"another scheme":               {[]string{`Basic resource_metadata="https://a/"`}, "", nil},
		"all of it":                    {[]string{`Bearer error="invalid_token", resource_metadata="https://a/", scope="a b"`}, "https://a/", []string{"a", "b"}},
		"in another case":              {[]string{`bEARER Resource_Metadata="https://a/", SCOPE=c`}, "https://a/", []string{"c"}},
		"the second of a header":       {[]string{`Basic realm="a, b", Bearer resource_metadata="https://a/"`}, "https://a/", nil},
		"the second header":            {[]string{`Basic realm="a"`, `Bearer resource_metadata="https://a/"`}, "https://a/", nil},
		"the first address":            {[]string{`Bearer resource_metadata="https://a/"`, `Bearer resource_metadata="https://b/"`}, "https://a/", nil},
		"with quotes":                  {[]string{`Bearer realm="a\"b", resource_metadata="https://a/"`}, "https://a/", nil},
		"malformed":                    {[]string{`Bearer resource_metadata="https://a/`}, "", nil},
		"too long":                     {[]string{`Bearer resource_metadata="https://a/"`, strings.Repeat("x", 9000)}, "", nil},
		"of nothing but commas":        {[]string{strings.Repeat(",", 8000)}, "", nil},
		"of quotes and equality signs": {[]string{strings.Repeat(`="`, 4000)}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			address, scopes := mcp.ReadChallenge(test.headers...)
			if address != test.address || !slices.Equal(scopes, test.scopes) {
				t.Errorf("read %q, %q", address, scopes)
			}
		})
	}
}
