package oidc

import (
	"context"
	"errors"
	"slices"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"collab/domain/fault"
)

// Findings are facts about the identity provider for the doctor.
type Findings struct {
	Keys       int      // that could sign a token for us
	Algorithms []string // of those keys
	Code       bool     // it has the authorization code flow
}

// Inspect reads the discovery document and the keys. It returns Mismatch if the document has
// another issuer, and Unavailable if either cannot be read.
func (p *Provider) Inspect(ctx context.Context) (Findings, error) {
	m, err := p.discover(ctx)
	var other *gooidc.IssuerMismatchError
	switch {
	case errors.As(err, &other):
		return Findings{}, fault.New(fault.Mismatch, "The discovery document names the issuer %q", other.Discovered)
	case err != nil:
		return Findings{}, fault.Wrap(fault.Unavailable, err, "The discovery document cannot be used")
	}
	text, err := p.get(ctx, m.keysURL)
	if err != nil {
		return Findings{}, fault.Wrap(fault.Unavailable, err, "The keys cannot be read")
	}
	set, err := parseKeys(text)
	if err != nil {
		return Findings{}, fault.Wrap(fault.Unavailable, err, "The keys cannot be used")
	}
	f := Findings{Keys: len(set), Code: m.endpoint.AuthURL != "" && m.endpoint.TokenURL != ""}
	for _, k := range set {
		if a := algorithmOf(k); !slices.Contains(f.Algorithms, a) {
			f.Algorithms = append(f.Algorithms, a)
		}
	}
	return f, nil
}
