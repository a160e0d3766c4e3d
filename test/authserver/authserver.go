// Package authserver is an OAuth authorization server for tests of clients. Codes, tokens and
// PKCE are those of go-oauth2. The package adds metadata (RFC 8414), client registration
// (RFC 7591), client ID metadata documents, the parameters iss and resource, and revocation
// (RFC 7009). A Script and faults at each endpoint configure the misbehaviour of real servers.
package authserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/server"
)

// Place is a path of metadata.
type Place string

// The places, for an issuer with a path; without one the last two are the same.
const (
	Inserted     Place = "RFC 8414"
	OIDCInserted Place = "OpenID Connect, path inserted"
	OIDCAppended Place = "OpenID Connect, path appended"
)

// RefreshMode is the effect of a refresh on the refresh token.
type RefreshMode int

// The modes.
const (
	RotateToken     RefreshMode = iota // a new one is issued, and the previous one is invalid
	RepeatToken                        // the same one is issued again
	OmitToken                          // none is issued, and the previous one stays valid
	NoRefreshTokens                    // none is ever issued
)

// Script configures the behaviour of the server.
type Script struct {
	Issuer         string   // in metadata; empty: the server's own
	MetadataPlaces []Place  // the paths that serve metadata
	Challenges     []string // PKCE methods in metadata
	Methods        []string // client authentication methods in metadata, which it accepts
	Scopes         []string // in metadata
	Documents      bool     // a client's id may be the address of a metadata document
	Revokes        bool     // supports revocation
	Metadata       func(map[string]any)

	Lifetime       time.Duration // of access tokens, whole seconds; zero: unlimited, without expires_in
	Refreshing     RefreshMode
	RevokesOnReuse bool                 // the second use of a refresh token revokes the authorization
	Answer         func(map[string]any) // may change token responses
	SecretEnds     time.Time            // expiry of the secrets of newly registered clients; zero: never
}

// Endpoint is a part of the server.
type Endpoint string

// The endpoints.
const (
	Metadata      Endpoint = "metadata"
	Authorization Endpoint = "authorize"
	Token         Endpoint = "token"
	Registration  Endpoint = "register"
	Revocation    Endpoint = "revoke"
)

// Request is a request that the server received.
type Request struct {
	Endpoint Endpoint
	Method   string
	Path     string
	Header   http.Header
	Form     url.Values // of query and body
	Body     []byte     // of a registration
}

// Server is a running authorization server.
type Server struct {
	URL    string // its origin
	Issuer string // the origin with the path

	http   *httptest.Server
	path   string
	closed chan struct{}

	mu       sync.Mutex
	script   Script
	faults   map[Endpoint]*fault
	requests []Request
	clients  map[string]*client
	tokens   *tokens
	manager  *manage.Manager
	protocol *server.Server
	redeemed []string
	reused   int
	revoked  []string
}

// fault is an injected fault of an endpoint.
type fault struct {
	do    Fault
	times int // requests that it still applies to; negative: all
}

// Start starts a server whose issuer has the path, empty or beginning with a slash,
// and that ends with the test.
func Start(t testing.TB, path string) *Server {
	t.Helper()
	s := &Server{
		path: path, closed: make(chan struct{}),
		faults: map[Endpoint]*fault{}, clients: map[string]*client{}, tokens: newTokens(),
		script: Script{
			MetadataPlaces: []Place{Inserted}, Challenges: []string{string(oauth2.CodeChallengeS256)},
			Methods: []string{"client_secret_basic", "client_secret_post", "none"},
			Revokes: true, Lifetime: time.Hour,
		},
	}
	s.manager = manage.NewManager()
	s.manager.MapAuthorizeGenerate(codes{})
	s.manager.MapAccessGenerate(access{})
	s.manager.MapTokenStorage(s.tokens)
	s.manager.MapClientStorage((*clients)(s))
	s.manager.SetValidateURIHandler(func(string, string) error { return nil }) // authorize checks redirect_uri
	s.manager.SetExtractExtensionHandler(s.remember)
	s.protocol = server.NewServer(&server.Config{
		TokenType:                   "Bearer",
		AllowedResponseTypes:        []oauth2.ResponseType{oauth2.Code},
		AllowedGrantTypes:           []oauth2.GrantType{oauth2.AuthorizationCode, oauth2.Refreshing},
		AllowedCodeChallengeMethods: []oauth2.CodeChallengeMethod{oauth2.CodeChallengeS256},
		ForcePKCE:                   true,
	}, s.manager)
	s.protocol.ClientInfoHandler = credentialsOf
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL, s.Issuer = s.http.URL, s.http.URL+path
	t.Cleanup(func() {
		close(s.closed)
		s.http.Close()
	})
	return s
}

// Set changes the script.
func (s *Server) Set(change func(*Script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.script)
}

// Fail injects a fault at the endpoint for a number of requests, or for all if the number is negative. It
// replaces an earlier one; zero removes it.
func (s *Server) Fail(e Endpoint, f Fault, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[e] = &fault{f, times}
}

// Requests returns the requests to the endpoint.
func (s *Server) Requests(e Endpoint) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r Request) bool { return r.Endpoint != e })
}

// Valid reports whether an access token is accepted.
func (s *Server) Valid(access string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.manager.LoadAccessToken(context.Background(), access)
	return err == nil
}

// Redeemed returns the codes that were exchanged for tokens.
func (s *Server) Redeemed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.redeemed)
}

// Reused returns the number of requests with a refresh token that was used before.
func (s *Server) Reused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reused
}

// Revoked returns the tokens that were revoked.
func (s *Server) Revoked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.revoked)
}
