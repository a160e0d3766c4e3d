// Package connector holds what an organisation connects to: the catalog of tool
// servers, the instances that were made of its entries, with their states and
// credentials, and the authorizations by which credentials come.
package connector

import (
	"maps"
	"slices"
	"strings"

	"collab/domain/fault"
)

// AuthMode says how a tool server lets its users in.
type AuthMode string

// The modes.
const (
	ServerMediated AuthMode = "SERVER_MEDIATED" // by OAuth, which this service runs for its clients
	RemoteOAuth    AuthMode = "REMOTE_OAUTH"    // by OAuth, which a client can run by itself too
	APIKey         AuthMode = "API_KEY"         // with credentials that people obtain from the provider
	NoAuth         AuthMode = "NONE"
)

// UsesOAuth reports whether credentials come by an authorization.
func (m AuthMode) UsesOAuth() bool { return m == ServerMediated || m == RemoteOAuth }

// Transport is how a tool server is spoken to.
type Transport string

// The transports of the Model Context Protocol.
const (
	Stdio Transport = "STDIO" // a process beside the client
	SSE   Transport = "SSE"   // HTTP with server-sent events, as the protocol had it in 2024
	HTTP  Transport = "HTTP"  // streamable HTTP
)

// Hosting says where a tool server runs.
type Hosting string

// The places.
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

// Provider is an entry of the catalog: a tool server of which organisations make
// instances.
type Provider struct {
	ID          string // the slug
	Name        string
	Description string
	IconURL     string // empty: none
	Category    string // empty: none
	Auth        AuthMode
	Transport   Transport
	URL         string   // of a CLOUD server; empty: each instance says it in its config
	Command     []string // by which a client starts a LOCAL one
	Fields      []Field  // what its credentials consist of
	// Carriers say how credentials reach the server: values of HTTP headers for
	// a CLOUD server, of environment variables for a LOCAL one, in which {name}
	// stands for the entry of that name. A server that is let in by OAuth needs
	// none.
	Carriers map[string]string
	Scopes   []string // to ask for where the server does not say; may be empty
	Enabled  bool     // new instances can be made of it
}

// Field is an entry of the credentials of a provider.
type Field struct {
	Name     string
	Label    string // for people
	Optional bool
}

// Accepts checks that credentials have what the provider needs; texts are their
// entries that are texts.
func (p Provider) Accepts(texts map[string]string) error {
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

// AccessToken is the entry of credentials that come by an authorization.
const AccessToken = "accessToken"

// Catalog is all providers, and the clients by which this service is known to
// authorization servers beforehand.
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

// Get returns a provider, enabled or not: instances outlive what their entry is
// now. False: there is none.
func (c Catalog) Get(slug string) (Provider, bool) {
	i := slices.IndexFunc(c.providers, func(p Provider) bool { return p.ID == slug })
	if i < 0 {
		return Provider{}, false
	}
	return c.providers[i], true
}

// Issuers returns the issuers of the clients, in order.
func (c Catalog) Issuers() []string { return slices.Sorted(maps.Keys(c.clients)) }

// Client returns the client that an authorization server knows us by beforehand.
func (c Catalog) Client(issuer string) (Client, bool) {
	client, ok := c.clients[issuer]
	return client, ok
}
