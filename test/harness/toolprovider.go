package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"collab/adapters/memory"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/ports"
)

// Issuer is the authorization server of the tool servers.
const Issuer = "https://auth.tools.invalid"

// CallbackURL is the address below which each issuer has one for its answers.
const CallbackURL = PublicURL + "/callback"

// catalog is the deployment's: an entry for each way to be let in, and one beside the
// client.
var catalog = connector.NewCatalog([]connector.Provider{
	{ID: "notes", Name: "Notes", Description: "Lets people in by an authorization.", Auth: connector.ServerMediated, Transport: connector.HTTP, URL: "https://notes.tools.invalid/mcp", Enabled: true},
	{ID: "calendar", Name: "Calendar", Description: "Lets people in by an authorization, which a client can run by itself too.", Auth: connector.RemoteOAuth, Transport: connector.SSE, URL: "https://calendar.tools.invalid/mcp", Enabled: true},
	{ID: "search", Name: "Search", Description: "Wants a key.", Auth: connector.APIKey, Transport: connector.HTTP, URL: "https://search.tools.invalid/mcp", Fields: []connector.Field{{Name: "apiKey", Label: "Key"}}, Enabled: true},
	{ID: "weather", Name: "Weather", Description: "Lets everybody in.", Auth: connector.NoAuth, Transport: connector.HTTP, URL: "https://weather.tools.invalid/mcp", Enabled: true},
	{ID: "shell", Name: "Shell", Description: "Runs beside the client, and wants a key.", Auth: connector.APIKey, Transport: connector.Stdio, Command: []string{"shell"}, Fields: []connector.Field{{Name: "apiKey", Label: "Key"}}, Enabled: true},
	{ID: "retired", Name: "Retired", Description: "No new connectors can be made of it.", Auth: connector.NoAuth, Transport: connector.HTTP, URL: "https://retired.tools.invalid/mcp"},
}, nil)

// Tools are the tool servers of the catalog, and the authorization server of those
// that have one.
type Tools struct {
	clock *memory.Clock

	mu        sync.Mutex
	responses map[string]ToolResponse // by the server's address; guarded by mu, as are those below
	renewals  map[string]bool         // the refresh tokens that are good for something
	lifetime  time.Duration           // of access tokens
	n         int                     // of what was made last
	looks     int                     // at servers
	revoked   int
}

// ToolResponse is the response of a tool server to tools/list. The zero value has one tool.
type ToolResponse struct {
	Names []string
	Err   error
}

var (
	_ ports.ToolServers = (*Tools)(nil)
	_ ports.Authorizer  = (*Tools)(nil)
)

func newTools(c *memory.Clock) *Tools {
	return &Tools{clock: c, responses: map[string]ToolResponse{}, renewals: map[string]bool{}, lifetime: time.Hour}
}

// SetResponse sets the response of a server.
func (t *Tools) SetResponse(slug string, a ToolResponse) error {
	p, ok := catalog.Get(slug)
	if !ok {
		return fault.Missing("Tool server")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.responses[p.URL] = a
	return nil
}

// Tools returns the tools of the server's response.
func (t *Tools) Tools(_ context.Context, a connector.Access) ([]connector.Tool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	is := t.responses[a.URL]
	if is.Err != nil {
		return nil, is.Err
	}
	if is.Names == nil {
		return []connector.Tool{{Name: "echo"}}, nil
	}
	var tools []connector.Tool
	for _, name := range is.Names {
		tools = append(tools, connector.Tool{Name: name})
	}
	return tools, nil
}

// Discover describes the authorization server.
func (t *Tools) Discover(_ context.Context, _ connector.Provider, address string) (connector.AuthServer, error) {
	return connector.AuthServer{
		Issuer: Issuer, Authorization: Issuer + "/authorize", Token: Issuer + "/token", Registration: Issuer + "/register", Revocation: Issuer + "/revoke",
		ReturnsIssuer: true, Resource: address,
	}, nil
}

// Register registers a client.
func (t *Tools) Register(context.Context, connector.AuthServer, string) (connector.Client, *time.Time, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	return connector.Client{ID: fmt.Sprint("client-", t.n), Secret: "client-secret", Method: "client_secret_basic"}, nil, nil
}

// AuthCodeURL returns a URL at which nothing answers.
func (t *Tools) AuthCodeURL(s connector.AuthServer, c connector.Client, _, state, _ string) (string, error) {
	return s.Authorization + "?client_id=" + c.ID + "&state=" + state, nil
}

// Exchange returns credentials for any code.
func (t *Tools) Exchange(context.Context, connector.AuthServer, connector.Client, string, string, string) (connector.Credentials, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grant(), nil
}

// grant returns new credentials. The caller must hold mu.
func (t *Tools) grant() connector.Credentials {
	t.n++
	renewal := fmt.Sprint("renewal-", t.n)
	t.renewals[renewal] = true
	ends := t.clock.Now().Add(t.lifetime)
	return connector.Credentials{Entries: fmt.Sprintf(`{"accessToken":"access-%d"}`, t.n), Renewal: renewal, Renewable: true, ExpiresAt: &ends}
}

// Renew exchanges a refresh token, which is then invalid.
func (t *Tools) Renew(_ context.Context, renewal string) (connector.Credentials, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.renewals[renewal] {
		return connector.Credentials{}, fault.New(fault.Forbidden, "The authorization server refuses the authorization")
	}
	delete(t.renewals, renewal)
	return t.grant(), nil
}

// Revoke revokes an authorization.
func (t *Tools) Revoke(_ context.Context, renewal string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.renewals, renewal)
	t.revoked++
	return nil
}

// RevokeAll revokes all authorizations at their provider.
func (t *Tools) RevokeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.renewals)
}

// ToolCounts are the numbers of requests to the tool servers and the authorization server.
type ToolCounts struct{ Listings, Authorizations, Revoked int }

// Counts returns the numbers of requests so far.
func (t *Tools) Counts() ToolCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return ToolCounts{t.looks, len(t.renewals), t.revoked}
}
