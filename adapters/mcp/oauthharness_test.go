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
	"collab/adapters/outbound"
	"collab/domain/connector"
	"collab/test/authserver"
)

// Of every authorization in these tests.
const (
	redirect = "https://collab.example/api/v1/mcp-oauth/callback"
	verifier = "verifier-verifier-verifier-verifier-verifier-verifier"
	state    = "state-of-the-flow"
)

// began is the time of the clock.
var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

type stopped struct{}

func (stopped) Now() time.Time { return began }

// stage is an authorization server, a tool server that sends its callers there,
// and who is tested, with a guarded client that may call this machine.
type stage struct {
	*mcp.Authorizer
	brief *mcp.Authorizer // with a short timeout, for servers that never answer
	auth  *authserver.Server
	tool  *tool
}

// set starts a stage, for an issuer with the path.
func set(t *testing.T, path string, change ...func(*mcp.AuthorizerOptions)) *stage {
	t.Helper()
	client := outbound.New(outbound.Options{Insecure: true, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(client.CloseIdleConnections)
	o := mcp.AuthorizerOptions{
		Client: client, Blocked: outbound.Blocked, Clock: stopped{}, Plain: true, Timeout: time.Minute, Name: "Collab", Home: "https://collab.example",
	}
	for _, c := range change {
		c(&o)
	}
	authorizer := mcp.NewAuthorizer(o)
	o.Timeout = 50 * time.Millisecond
	s := &stage{authorizer, mcp.NewAuthorizer(o), authserver.Start(t, path), openTool(t)}
	s.tool.describe("/.well-known/oauth-protected-resource/mcp", s.tool.address, s.auth.Issuer)
	return s
}

// against returns who meets a fault: where that gives no answer, the one with the short timeout.
func (s *stage) against(hangs bool) *mcp.Authorizer {
	if hangs {
		return s.brief
	}
	return s.Authorizer
}

func (s *stage) discover(t *testing.T) connector.AuthServer {
	t.Helper()
	found, err := s.Discover(t.Context(), connector.Provider{}, s.tool.address)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// consent registers a client and has somebody agree.
func (s *stage) consent(t *testing.T) (server connector.AuthServer, client connector.Client, code string) {
	t.Helper()
	server = s.discover(t)
	client, _, err := s.Register(t.Context(), server, redirect)
	if err != nil {
		t.Fatal(err)
	}
	return server, client, s.agree(t, server, client)
}

// approve has somebody agree, and returns where the authorization server redirects to.
func (s *stage) approve(t *testing.T, server connector.AuthServer, client connector.Client) *url.URL {
	t.Helper()
	page, err := s.Page(server, client, redirect, state, verifier)
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.auth.Approve(page)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// agree has somebody agree, and returns the code.
func (s *stage) agree(t *testing.T, server connector.AuthServer, client connector.Client) string {
	t.Helper()
	back := s.approve(t, server, client)
	q := back.Query()
	if q.Get("state") != state || q.Get("code") == "" || !strings.HasPrefix(back.String(), redirect+"?") {
		t.Fatalf("sent back to %s", back)
	}
	if err := (connector.Flow{Server: server, Redirect: redirect}).From(redirect, q.Get("iss")); err != nil {
		t.Fatal(err)
	}
	return q.Get("code")
}

// authorise walks all the way.
func (s *stage) authorise(t *testing.T) connector.Credentials {
	t.Helper()
	server, client, code := s.consent(t)
	return s.redeem(t, server, client, code)
}

func (s *stage) redeem(t *testing.T, server connector.AuthServer, client connector.Client, code string) connector.Credentials {
	t.Helper()
	c, err := s.Redeem(t.Context(), server, client, redirect, code, verifier)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fields returns the texts of a JSON object.
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

// tool is a tool server as far as it lets nobody in.
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
	body, _ := io.ReadAll(r.Body) // an empty one is seen in the test
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.bodies = append(f.asked, r), append(f.bodies, string(body))
	if document, ok := f.documents[r.URL.RequestURI()]; ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, document) // what fails is the connection
		return
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		http.NotFound(w, r)
		return
	}
	w.Header()["Www-Authenticate"] = slices.Clone(f.challenges)
	w.Header().Set("Location", "http://10.0.0.1/") // counts with the status of a redirect
	w.WriteHeader(f.status)
}

// describe puts a description at a path, with pairs of more of its members.
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

func (f *tool) silence() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.documents)
}

func (f *tool) say(status int, challenges ...string) {
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
