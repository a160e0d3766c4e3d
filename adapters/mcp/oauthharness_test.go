package mcp_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"collab/adapters/mcp"
	"collab/adapters/memory"
	"collab/adapters/outbound"
	"collab/domain/connector"
	"collab/test/authserver"
	"collab/test/must"
)

// Parameters of all authorizations in these tests.
const (
	redirect = "https://collab.example/api/v1/mcp-oauth/callback"
	verifier = "verifier-verifier-verifier-verifier-verifier-verifier"
	state    = "state-of-the-flow"
)

// now is the time of the clock.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// fixture is an authorization server, a tool server whose metadata names it, and the tested
// Authorizer, whose guarded client allows loopback.
type fixture struct {
	*mcp.Authorizer
	shortTimeout *mcp.Authorizer // with a short timeout, for servers that never answer
	auth         *authserver.Server
	tool         *tool
}

// newFixture starts the servers; the issuer has the path.
func newFixture(t *testing.T, path string, change ...func(*mcp.AuthorizerOptions)) *fixture {
	t.Helper()
	client := outbound.New(outbound.Options{Insecure: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(client.CloseIdleConnections)
	o := mcp.AuthorizerOptions{
		Client: client, Clock: memory.NewClock(now), Plain: true, Timeout: time.Minute, Home: "https://collab.example",
	}
	for _, c := range change {
		c(&o)
	}
	authorizer := mcp.NewAuthorizer(o)
	o.Timeout = 50 * time.Millisecond
	s := &fixture{authorizer, mcp.NewAuthorizer(o), authserver.Start(t, path), openTool(t)}
	s.tool.describe("/.well-known/oauth-protected-resource/mcp", s.tool.address, s.auth.Issuer)
	return s
}

// authorizer returns the Authorizer for a fault: the one with the short timeout if the server hangs.
func (s *fixture) authorizer(hangs bool) *mcp.Authorizer {
	if hangs {
		return s.shortTimeout
	}
	return s.Authorizer
}

func (s *fixture) discover(t *testing.T) connector.AuthServer {
	t.Helper()
	return must.Do(s.Discover(t.Context(), connector.Provider{}, s.tool.address)).Or(t)
}

// consent registers a client and approves its authorization request.
func (s *fixture) consent(t *testing.T) (server connector.AuthServer, client connector.Client, code string) {
	t.Helper()
	server = s.discover(t)
	client, _, err := s.Register(t.Context(), server, redirect)
	must.NoError(t, err)
	return server, client, s.agree(t, server, client)
}

// approve approves an authorization request and returns the URL of the redirect.
func (s *fixture) approve(t *testing.T, server connector.AuthServer, client connector.Client) *url.URL {
	t.Helper()
	page := must.Do(s.AuthCodeURL(server, client, redirect, state, verifier)).Or(t)
	return must.Do(s.auth.Approve(page)).Or(t)
}

// agree approves an authorization request and returns the code.
func (s *fixture) agree(t *testing.T, server connector.AuthServer, client connector.Client) string {
	t.Helper()
	back := s.approve(t, server, client)
	q := back.Query()
	if q.Get("state") != state || q.Get("code") == "" || !strings.HasPrefix(back.String(), redirect+"?") {
		t.Fatalf("redirected to %s", back)
	}
	must.NoError(t, (connector.Flow{Server: server, Redirect: redirect}).CheckResponse(redirect, q.Get("iss")))
	return q.Get("code")
}

// authorise returns the credentials of a new authorization.
func (s *fixture) authorise(t *testing.T) connector.Credentials {
	t.Helper()
	server, client, code := s.consent(t)
	return s.exchange(t, server, client, code)
}

func (s *fixture) exchange(t *testing.T, server connector.AuthServer, client connector.Client, code string) connector.Credentials {
	t.Helper()
	return must.Do(s.Exchange(t.Context(), server, client, redirect, code, verifier)).Or(t)
}

// fields returns the string fields of a JSON object.
func fields(t *testing.T, object string) map[string]string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(object), &all); err != nil {
		t.Fatalf("%q: %v", object, err)
	}
	texts := map[string]string{}
	for name, value := range all {
		if text, ok := value.(string); ok {
			texts[name] = text
		}
	}
	return texts
}

// tool is a tool server that replies with challenges and metadata only.
type tool struct {
	url     string // the origin
	address string

	mu         sync.Mutex
	status     int
	challenges []string
	documents  map[string]string
	asked      []*http.Request
	bodies     []string
}

func openTool(t *testing.T) *tool {
	f := &tool{status: http.StatusUnauthorized, challenges: []string{"Bearer"}, documents: map[string]string{}}
	front := httptest.NewServer(f)
	t.Cleanup(front.Close)
	f.url, f.address = front.URL, front.URL+"/mcp"
	return f
}

func (f *tool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // tests check the body
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.bodies = append(f.asked, r), append(f.bodies, string(body))
	if document, ok := f.documents[r.URL.RequestURI()]; ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, document)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		http.NotFound(w, r)
		return
	}
	w.Header()["Www-Authenticate"] = slices.Clone(f.challenges)
	w.Header().Set("Location", "http://10.0.0.1/") // for redirect statuses
	w.WriteHeader(f.status)
}

// describe serves metadata at a path, with more fields.
func (f *tool) describe(path, resource, issuer string, more ...map[string]any) {
	d := map[string]any{"resource": resource, "authorization_servers": []string{issuer}}
	for _, m := range more {
		maps.Copy(d, m)
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	f.put(path, string(text))
}

func (f *tool) put(path, document string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.documents[path] = document
}

func (f *tool) removeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.documents)
}

func (f *tool) response(status int, challenges ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.challenges = status, challenges
}

// requests returns the methods and addresses of all requests.
func (f *tool) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.asked {
		all = append(all, r.Method+" "+r.URL.RequestURI())
	}
	return all
}
