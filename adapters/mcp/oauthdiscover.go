package mcp

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"collab/domain/connector"
	"collab/domain/fault"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// discoverRequest is a request without authorization. Servers of every revision answer it
// with a challenge.
const discoverRequest = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// Discover finds the authorization server of a tool server (RFC 9728) and reads its metadata
// (RFC 8414, OpenID Connect Discovery).
func (a *Authorizer) Discover(ctx context.Context, p connector.Provider, server string) (connector.AuthServer, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*a.Timeout)
	defer cancel()
	u, ok := address(server, a.Plain)
	if !ok {
		return connector.AuthServer{}, refusedAddress(toolServer)
	}
	u.Host = strings.ToLower(u.Host)
	c, err := a.challenge(ctx, p.Transport, u)
	if err != nil {
		return connector.AuthServer{}, err
	}
	r, err := a.resource(ctx, u, c.metadata)
	if err != nil {
		return connector.AuthServer{}, err
	}
	var firstErr error
	for _, issuers := range r.servers[:min(len(r.servers), maxServers)] {
		s, supported, err := a.server(ctx, issuers)
		if err == nil {
			s.Resource = r.id
			s.Scopes = scopes(c.scopes, p.Scopes, r.scopes, supported)
			return s, nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return connector.AuthServer{}, firstErr
}

// challenge has the parameters of WWW-Authenticate.
type challenge struct {
	metadata string // the URL of the metadata; empty: none
	scopes   []string
}

// challenge requests the tool server's challenge. A server without one may still have
// metadata.
func (a *Authorizer) challenge(ctx context.Context, t connector.Transport, u *url.URL) (challenge, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	method, body := http.MethodPost, discoverRequest
	if t == connector.SSE {
		method, body = http.MethodGet, ""
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return challenge{}, refusedAddress(toolServer)
	}
	r.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "server/discover")
	}
	res, err := a.direct.Do(r)
	if err != nil {
		return challenge{}, a.unreachable(err, toolServer)
	}
	// The body, which may be an endless stream, is not read.
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= http.StatusInternalServerError:
		return challenge{}, statusError(res.StatusCode, toolServer)
	case res.StatusCode != http.StatusUnauthorized:
		return challenge{}, nil
	}
	return parseChallenge(res.Header.Values("WWW-Authenticate")), nil
}

// parseChallenge parses the headers. The challenge is empty if they are malformed or too
// long.
func parseChallenge(headers []string) challenge {
	length := 0
	for _, h := range headers {
		if length += len(h); length > maxChallengeBytes {
			return challenge{}
		}
	}
	all, err := oauthex.ParseWWWAuthenticate(headers)
	if err != nil {
		return challenge{}
	}
	var c challenge
	for _, parsed := range all {
		if parsed.Scheme != "bearer" {
			continue
		}
		if c.metadata == "" {
			c.metadata = parsed.Params["resource_metadata"]
		}
		if c.scopes == nil {
			c.scopes = strings.Fields(parsed.Params["scope"])
		}
	}
	return c
}

// resource is the metadata of a tool server.
type resource struct {
	id      string
	servers [][]string // authorization servers, each by the accepted spellings of its issuer
	scopes  []string
}

// resourceMetadataURL is a URL of a tool server's metadata, with the resource ids that are valid
// there.
type resourceMetadataURL struct {
	address string
	ids     []string
}

// resourceMetadataURLs returns the URLs in the order in which they are tried: the one of the
// challenge, the well-known URL of the address, and the one of its origin. Metadata must
// be that of the address, at the last URL that of the origin.
func (a *Authorizer) resourceMetadataURLs(u *url.URL, challenged string) []resourceMetadataURL {
	const wellKnown = "/.well-known/oauth-protected-resource"
	origin := u.Scheme + "://" + u.Host
	// An origin is the same resource with and without its slash.
	origins := []string{origin, origin + "/"}
	own := []string{u.String()}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	if path == "" {
		own = origins
	}
	var all []resourceMetadataURL
	if _, ok := address(challenged, a.Plain); ok {
		all = append(all, resourceMetadataURL{challenged, own})
	}
	for _, d := range []resourceMetadataURL{{origin + wellKnown + path, own}, {origin + wellKnown, origins}} {
		i := slices.IndexFunc(all, func(o resourceMetadataURL) bool { return o.address == d.address })
		if i < 0 {
			all = append(all, d)
		} else {
			all[i].ids = slices.Concat(all[i].ids, d.ids)
		}
	}
	return all
}

// resource reads the tool server's metadata. For a tool server of an older revision, which
// has none, its origin is the issuer.
func (a *Authorizer) resource(ctx context.Context, u *url.URL, challenged string) (resource, error) {
	otherResource := false
	for _, d := range a.resourceMetadataURLs(u, challenged) {
		var m oauthex.ProtectedResourceMetadata
		found, err := a.document(ctx, d.address, toolServer, &m)
		if err != nil {
			return resource{}, err
		}
		if !found {
			continue
		}
		if !slices.Contains(d.ids, m.Resource) {
			otherResource = true
			continue
		}
		if len(m.AuthorizationServers) == 0 {
			return resource{}, fault.New(fault.Invalid, "The tool server names no authorization server")
		}
		r := resource{id: m.Resource, scopes: m.ScopesSupported}
		for _, issuer := range m.AuthorizationServers {
			r.servers = append(r.servers, []string{issuer})
		}
		return r, nil
	}
	if otherResource {
		return resource{}, fault.New(fault.Invalid, "The tool server's metadata names another resource")
	}
	origin := u.Scheme + "://" + u.Host
	return resource{id: u.String(), servers: [][]string{{origin, origin + "/"}}}, nil
}

// document reads a JSON document. It returns false if there is none.
func (a *Authorizer) document(ctx context.Context, url, server string, v any) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, refusedAddress(server)
	}
	res, err := a.do(a.Client, r, server)
	if err != nil {
		return false, err
	}
	// A site may answer every path with an HTML page.
	return res.status == http.StatusOK && decode(res.body, v) == nil, nil
}

// server reads the metadata of the authorization server, whose issuer must equal one of
// the issuers. It also returns the scopes that the server supports.
func (a *Authorizer) server(ctx context.Context, issuers []string) (connector.AuthServer, []string, error) {
	u, ok := address(issuers[0], a.Plain)
	if !ok || u.RawQuery != "" || u.ForceQuery {
		return connector.AuthServer{}, nil, refusedAddress(authServer)
	}
	for _, at := range authServerMetadataURLs(u) {
		var m oauthex.AuthServerMeta
		found, err := a.document(ctx, at, authServer, &m)
		if err != nil {
			return connector.AuthServer{}, nil, err
		}
		if found {
			s, err := authServerOf(m, issuers, a.Plain && u.Scheme == "http")
			return s, m.ScopesSupported, err
		}
	}
	return connector.AuthServer{}, nil, fault.New(fault.Invalid, "The authorization server publishes no metadata (RFC 8414)")
}

// authServerMetadataURLs returns the URLs of an issuer's metadata in the order in which they are
// tried.
func authServerMetadataURLs(issuer *url.URL) []string {
	origin, path := issuer.Scheme+"://"+issuer.Host, strings.TrimSuffix(issuer.EscapedPath(), "/")
	all := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		all = append(all, origin+path+"/.well-known/openid-configuration")
	}
	return all
}

// authServerOf checks the metadata: the issuer, PKCE with S256, and valid URLs of the
// required endpoints.
func authServerOf(m oauthex.AuthServerMeta, issuers []string, plain bool) (connector.AuthServer, error) {
	if !slices.Contains(issuers, m.Issuer) {
		return connector.AuthServer{}, fault.New(fault.Invalid, "The authorization server's metadata names another issuer")
	}
	if !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return connector.AuthServer{}, fault.New(fault.Invalid, "The authorization server does not offer PKCE with S256")
	}
	for _, e := range []struct {
		address  string
		required bool
	}{
		{m.AuthorizationEndpoint, true}, {m.TokenEndpoint, true},
		{m.RegistrationEndpoint, false}, {m.RevocationEndpoint, false},
	} {
		if e.address == "" && !e.required {
			continue
		}
		if _, ok := address(e.address, plain); !ok {
			return connector.AuthServer{}, refusedAddress(authServer)
		}
	}
	return connector.AuthServer{
		Issuer: m.Issuer, Authorization: m.AuthorizationEndpoint, Token: m.TokenEndpoint,
		Registration: m.RegistrationEndpoint, Revocation: m.RevocationEndpoint,
		AuthMethods:   authMethods(m.TokenEndpointAuthMethodsSupported),
		Documents:     m.ClientIDMetadataDocumentSupported,
		ReturnsIssuer: m.AuthorizationResponseIssParameterSupported,
	}, nil
}

// offlineAccess is the scope for refresh tokens, at servers that have one for them.
const offlineAccess = "offline_access"

// scopes returns the scopes to request: those of the challenge, else of the catalog, else of
// the tool server's metadata, and offline_access if the authorization server supports it. Without any of these it
// returns none: offline_access alone would replace the server's default scopes.
func scopes(challenged, catalog, supported, authServer []string) []string {
	for _, from := range [][]string{challenged, catalog, supported} {
		all := validScopes(from)
		if len(all) == 0 {
			continue
		}
		if slices.Contains(authServer, offlineAccess) && !slices.Contains(all, offlineAccess) {
			all = append(all, offlineAccess)
		}
		return all
	}
	return nil
}

// validScopes returns the scopes without invalid and repeated ones, up to maxScopes bytes.
func validScopes(all []string) []string {
	var valid []string
	length := 0
	for _, s := range all {
		if s == "" || !isASCII(s, '!', maxScopes) || strings.ContainsAny(s, `"\`) || slices.Contains(valid, s) {
			continue
		}
		if length += len(s) + 1; length > maxScopes {
			break
		}
		valid = append(valid, s)
	}
	return valid
}
