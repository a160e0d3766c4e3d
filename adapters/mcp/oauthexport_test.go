package mcp

import (
	"collab/domain/connector"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// ReadChallenge returns the metadata URL and the scopes of a challenge's headers.
func ReadChallenge(headers ...string) (string, []string) {
	c := parseChallenge(headers)
	return c.metadata, c.scopes
}

// ReadMetadata reads a document of an authorization server, for an https issuer.
func ReadMetadata(document []byte, issuer string) (connector.AuthServer, error) {
	var m oauthex.AuthServerMeta
	if err := decode(document, &m); err != nil {
		return connector.AuthServer{}, err
	}
	return authServerOf(m, []string{issuer}, false)
}
