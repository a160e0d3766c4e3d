// Package toolserver has servers of the Model Context Protocol for tests, over HTTP on loopback
// ports. They use the official SDK, except for requests with a Behaviour.
package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"collab/domain/connector"
	"collab/test/must"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Paths of a server.
const (
	httpPath     = "/mcp"
	ssePath      = "/sse"
	metadataPath = "/.well-known/oauth-protected-resource" + httpPath
)

const (
	pageSize = 50      // of the list of tools
	maxBody  = 4 << 20 // bytes of a request that are read
)

// Request is a request that the server received.
type Request struct {
	Method string
	Host   string
	Path   string
	Header http.Header
	Call   string // the method of JSON-RPC; empty if the body is no message
	Body   []byte

	id  json.RawMessage // of the message
	ctx context.Context // done when the client has disconnected
}

// Server is a server that offers tools.
type Server struct {
	URL string // without a path

	t     testing.TB
	tools *sdk.Server

	mu        sync.Mutex
	offered   []string             // guarded by mu
	admits    func(Request) bool   // guarded by mu
	challenge string               // guarded by mu; of a refusal
	metadata  []byte               // guarded by mu; of the protected resource; empty: there are none
	scripts   map[string]Behaviour // guarded by mu
	seen      []Request            // guarded by mu
}

// Start starts a server that offers the tool echo to every client, and ends with the
// test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t:       t,
		tools:   sdk.NewServer(&sdk.Implementation{Name: "toolserver", Version: "1"}, &sdk.ServerOptions{PageSize: pageSize}),
		scripts: map[string]Behaviour{},
	}
	s.admit(func(Request) bool { return true })
	s.Offer(connector.Tool{Name: "echo", Description: "Says what it is told."})

	one := func(*http.Request) *sdk.Server { return s.tools }
	mux := http.NewServeMux()
	mux.Handle(httpPath, sdk.NewStreamableHTTPHandler(one, nil))
	mux.Handle(ssePath, sdk.NewSSEHandler(one, nil))
	server := httptest.NewServer(s.around(mux))
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close() // before the sessions: one that just begins cannot be closed
		for session := range s.tools.Sessions() {
			_ = session.Close() // its connection is gone
		}
	})
	return s
}

// HTTP returns the address of the streamable transport.
func (s *Server) HTTP() string { return s.URL + httpPath }

// SSE returns the address of the transport with server-sent events.
func (s *Server) SSE() string { return s.URL + ssePath }

// Offer replaces the tools.
func (s *Server) Offer(tools ...connector.Tool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools.RemoveTools(s.offered...)
	s.offered = nil
	for _, tool := range tools {
		s.offered = append(s.offered, tool.Name)
		s.tools.AddTool(&sdk.Tool{Name: tool.Name, Description: tool.Description, InputSchema: json.RawMessage(`{"type":"object"}`)}, echo)
	}
}

func echo(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}}}, nil
}

// admit sets the function that authenticates requests. The response to others is 401.
func (s *Server) admit(fn func(Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admits = fn
}

// Require authenticates requests by a header with the value.
func (s *Server) Require(header, value string) {
	s.admit(func(r Request) bool { return r.Header.Get(header) == value })
}

// RequireBearer authenticates requests by a valid bearer token.
func (s *Server) RequireBearer(valid func(token string) bool) {
	s.admit(func(r Request) bool {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return ok && valid(token)
	})
}

// Revoke refuses all requests from now on.
func (s *Server) Revoke() { s.admit(func(Request) bool { return false }) }

// Challenge sets the WWW-Authenticate of refusals; empty: there is none.
func (s *Server) Challenge(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge = value
}

// Protect publishes metadata with the authorization server and the scopes to request, and names it
// in refusals. It authenticates no request: see RequireBearer.
func (s *Server) Protect(issuer string, scopes ...string) {
	document := must.Do(json.Marshal(map[string]any{
		"resource": s.HTTP(), "authorization_servers": []string{issuer}, "scopes_supported": scopes,
		"bearer_methods_supported": []string{"header"},
	})).Or(s.t)
	s.Challenge(`Bearer resource_metadata="` + s.URL + metadataPath + `"`)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata = document
}

// On has b answer the requests of a method of JSON-RPC, of a method of HTTP for requests without a
// message, or of all methods that have no other behaviour if it is empty. A nil b restores the server's own.
func (s *Server) On(what string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[what] = b
}

// Requests returns all requests until now.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Calls counts the requests of a method of JSON-RPC, or of HTTP for those without
// a message.
func (s *Server) Calls(what string) int {
	n := 0
	for _, r := range s.Requests() {
		if r.what() == what {
			n++
		}
	}
	return n
}

func (r Request) what() string {
	if r.Call != "" {
		return r.Call
	}
	return r.Method
}

// around records requests. It replies to those with a script and to those for metadata, refuses unauthenticated
// ones, and passes the others to next.
func (s *Server) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return // the client has disconnected, or the body is too long
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var message struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &message) // not every request has one
		seen := Request{r.Method, r.Host, r.URL.Path, r.Header.Clone(), message.Method, body, message.ID, r.Context()}

		s.mu.Lock()
		s.seen = append(s.seen, seen)
		admits, challenge, metadata := s.admits, s.challenge, s.metadata
		script := s.scripts[seen.what()]
		if script == nil {
			script = s.scripts[""]
		}
		s.mu.Unlock()

		switch {
		case script != nil:
			script(w, seen)
		case r.URL.Path == metadataPath && metadata != nil:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(metadata) // the client may have disconnected
		case !admits(seen):
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
