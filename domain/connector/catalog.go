// Package connector has the tool servers that organisations connect: the catalog, the
// instances with their states and credentials, and the authorizations that issue
// credentials.
package connector

import (
	"maps"
	"slices"
	"strings"

	"collab/domain/fault"
)

// AuthMode is how a tool server authenticates its clients.
type AuthMode string

const (
	ServerMediated AuthMode = "SERVER_MEDIATED" // OAuth, run by this service for its clients
	RemoteOAuth    AuthMode = "REMOTE_OAUTH"    // OAuth, which a client can also run by itself
	APIKey         AuthMode = "API_KEY"         // credentials that users obtain from the provider
	NoAuth         AuthMode = "NONE"
)

// UsesOAuth reports whether credentials are issued by an authorization.
func (m AuthMode) UsesOAuth() bool { return m == ServerMediated || m == RemoteOAuth }

// Transport is the transport of a tool server.
type Transport string

// The transports of the Model Context Protocol.
const (
	Stdio Transport = "STDIO" // a process beside the client
	SSE   Transport = "SSE"   // HTTP with server-sent events, as the protocol had it in 2024
	HTTP  Transport = "HTTP"  // streamable HTTP
)

// Hosting says where a tool server runs.
type Hosting string

const (
	Cloud Hosting = "CLOUD" // at its provider: this service reaches it
	Local Hosting = "LOCAL" // beside the client: this service does not
)

// Hosting returns where servers of this transport run.
func (t Transport) Hosting() Hosting {
	if t == Stdio {
		return Local
	}
	return Cloud
}

// Provider is an entry of the catalog: a tool server that organisations can connect.
type Provider struct {
	ID          string // the slug
	Name        string
	Description string
	IconURL     string // empty: none
	Category    string // empty: none
	Auth        AuthMode
	Transport   Transport
	URL         string   // of a CLOUD server; empty: each instance's config has it
	Command     []string // with which a client starts a LOCAL one
	Fields      []Field  // of its credentials
	// CredentialTemplates are how credentials are sent to the server: values of HTTP headers for a
	// CLOUD server, of environment variables for a LOCAL one, in which {name} is replaced
	// by the entry of that name. A server that is authorised by OAuth needs none.
	CredentialTemplates map[string]string
	Scopes              []string // to ask for where the server does not say; may be empty
	Enabled             bool     // new instances can be made of it
}

// Field is an entry of the credentials of a provider.
type Field struct {
	Name     string
	Label    string // for people
	Optional bool
}

// CheckCredentials returns Invalid unless credentials have the entries that the provider
// needs. Texts has those of their entries that are strings.
func (p Provider) CheckCredentials(texts map[string]string) error {
	switch p.Auth {
	case NoAuth:
		return fault.Field("credentials", "must not be given: %s needs none", p.ID)
	case ServerMediated:
		return fault.Field("credentials", "must not be given: %s is authorised through /mcp-oauth/start", p.ID)
	}
	fields := p.Fields
	if p.Auth == RemoteOAuth {
		fields = []Field{{Name: AccessToken}}
	}
	for _, f := range fields {
		if !f.Optional && strings.TrimSpace(texts[f.Name]) == "" {
			return fault.Field("credentials."+f.Name, "must be given, as a text that is not empty")
		}
	}
	return nil
}

// AccessToken is the entry of credentials that an authorization issued.
const AccessToken = "accessToken"

// Catalog has the providers, and the clients that operators registered at authorization
// servers.
type Catalog struct {
	providers []Provider
	clients   map[string]Client
}

// NewCatalog returns the catalog of the providers, in their order, and of the
// clients by issuer.
func NewCatalog(providers []Provider, clients map[string]Client) Catalog {
	return Catalog{slices.Clone(providers), maps.Clone(clients)}
}

// Enabled returns the providers that instances can be made of.
func (c Catalog) Enabled() []Provider {
	return slices.DeleteFunc(slices.Clone(c.providers), func(p Provider) bool { return !p.Enabled })
}

// Get returns a provider, enabled or not, since its instances stay when it is disabled, and
// whether there is one.
func (c Catalog) Get(slug string) (Provider, bool) {
	i := slices.IndexFunc(c.providers, func(p Provider) bool { return p.ID == slug })
	if i < 0 {
		return Provider{}, false
	}
	return c.providers[i], true
}

// Issuers returns the issuers of the clients, in order.
func (c Catalog) Issuers() []string { return slices.Sorted(maps.Keys(c.clients)) }

// Client returns the client that an operator registered at an authorization server.
func (c Catalog) Client(issuer string) (Client, bool) {
	client, ok := c.clients[issuer]
	return client, ok
}
