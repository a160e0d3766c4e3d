package script

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"collab/domain/connector"
	"collab/test/authserver"
	"collab/test/must"
	"collab/test/toolserver"
)

// toolsKey is what lets somebody in at the tool server that asks for a key.
const toolsKey = "key-of-the-tools"

// externalServers are the tool servers beside a server, and the authorization server
// that lets people in at some of them.
type externalServers struct {
	catalog string // the file in which the server finds them
	origins []string
}

// newNeighbours starts them:
//
//	weather    is open, at its own address; older is the same over SSE
//	search     takes the key
//	notes      lets people in by OAuth, and calendar as well, who may bring a token
//	shell      is a process beside the client, which takes a key; clock needs none
//	elsewhere  has its address in config.url, and may want a key
//	retired    is not to be had any more
func newNeighbours(t *testing.T) *externalServers {
	t.Helper()
	open, keyed, mediated := toolserver.Start(t), toolserver.Start(t), toolserver.Start(t)
	open.Offer(connector.Tool{Name: "forecast", Description: "Says how warm it will be."}, connector.Tool{Name: "warnings"})
	keyed.Require("X-Api-Key", toolsKey)
	provider := authserver.Start(t, "/tenant")
	mediated.Protect(provider.Issuer, "notes:read")
	mediated.RequireBearer(provider.Valid)

	text := fmt.Sprintf(`{"providers": [
		{"serverId": "weather", "displayName": "Weather", "description": "How warm it will be.", "category": "nature", "iconUrl": "https://icons.example.com/weather.png",
		 "authMode": "NONE", "mcpTransport": "HTTP", "mcpUrl": %q},
		{"serverId": "older", "displayName": "Older weather", "description": "How warm it was.", "authMode": "NONE", "mcpTransport": "SSE", "mcpUrl": %q},
		{"serverId": "search", "displayName": "Search", "description": "Finds.", "authMode": "API_KEY", "mcpTransport": "HTTP", "mcpUrl": %q,
		 "credentials": [{"name": "apiKey", "label": "Key"}, {"name": "region", "label": "Region", "optional": true}], "headers": {"X-Api-Key": "{apiKey}"}},
		{"serverId": "notes", "displayName": "Notes", "description": "Notes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[4]q},
		{"serverId": "calendar", "displayName": "Calendar", "description": "Days.", "authMode": "REMOTE_OAUTH", "mcpTransport": "HTTP", "mcpUrl": %[4]q},
		{"serverId": "shell", "displayName": "Shell", "description": "Runs.", "authMode": "API_KEY", "mcpTransport": "STDIO", "command": ["npx", "-y", "shell"],
		 "credentials": [{"name": "apiKey", "label": "Key"}], "env": {"SHELL_KEY": "{apiKey}"}},
		{"serverId": "clock", "displayName": "Clock", "description": "What time it is.", "authMode": "NONE", "mcpTransport": "STDIO", "command": ["clock"]},
		{"serverId": "elsewhere", "displayName": "Other server", "description": "Any.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		 "credentials": [{"name": "apiKey", "label": "Key", "optional": true}], "headers": {"X-Api-Key": "{apiKey}"}},
		{"serverId": "retired", "displayName": "Retired", "description": "Was.", "authMode": "NONE", "mcpTransport": "STDIO", "command": ["retired"], "enabled": false}
	]}`, open.HTTP(), open.SSE(), keyed.HTTP(), mediated.HTTP())
	n := &externalServers{catalog: filepath.Join(t.TempDir(), "connectors.json"), origins: []string{open.URL, keyed.URL, mediated.URL, provider.URL}}
	must.NoError(t, os.WriteFile(n.catalog, []byte(text), 0o600))
	return n
}

// has reports whether an address is one of theirs.
func (n *externalServers) has(u *url.URL) bool {
	return n != nil && slices.Contains(n.origins, u.Scheme+"://"+u.Host)
}
