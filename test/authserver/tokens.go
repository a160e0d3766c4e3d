package authserver

import (
	"context"
	"crypto/rand"
	"net/url"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/models"
)

// codes generates authorization codes with the prefix code-.
type codes struct{}

func (codes) Token(context.Context, *oauth2.GenerateBasic) (string, error) {
	return "code-" + rand.Text(), nil
}

// access generates tokens with the prefixes access- and refresh-.
type access struct{}

func (access) Token(_ context.Context, _ *oauth2.GenerateBasic, refresh bool) (string, string, error) {
	if !refresh {
		return "access-" + rand.Text(), "", nil
	}
	return "access-" + rand.Text(), "refresh-" + rand.Text(), nil
}

// Names of the extension values of codes and tokens.
const (
	resource = "resource" // the parameter of RFC 8707
	family   = "family"   // an id of the authorization
)

// remember stores the values with a code, from which the tokens that are exchanged for it inherit them.
func (s *Server) remember(r *oauth2.TokenGenerateRequest, t oauth2.ExtendableTokenInfo) {
	if t.GetExtension().Get(family) == "" {
		t.SetExtension(url.Values{resource: {r.Request.FormValue(resource)}, family: {rand.Text()}})
	}
}

// tokens are the codes and tokens that were issued. Callers hold a lock, and get copies, because the library
// modifies them.
type tokens struct {
	byCode, byAccess, byRefresh map[string]models.Token
	used                        map[string]string // the families of used refresh tokens
}

func newTokens() *tokens {
	return &tokens{map[string]models.Token{}, map[string]models.Token{}, map[string]models.Token{}, map[string]string{}}
}

// end removes all tokens of a family.
func (t *tokens) end(of string) {
	for _, all := range []map[string]models.Token{t.byCode, t.byAccess, t.byRefresh} {
		for name, token := range all {
			if token.Extension.Get(family) == of {
				delete(all, name)
			}
		}
	}
}

func (t *tokens) Create(_ context.Context, info oauth2.TokenInfo) error {
	token := *info.(*models.Token)
	if token.Code != "" {
		t.byCode[token.Code] = token
		return nil
	}
	t.byAccess[token.Access] = token
	if token.Refresh != "" {
		t.byRefresh[token.Refresh] = token
	}
	return nil
}

func (t *tokens) RemoveByCode(_ context.Context, code string) error {
	delete(t.byCode, code)
	return nil
}

func (t *tokens) RemoveByAccess(_ context.Context, access string) error {
	delete(t.byAccess, access)
	return nil
}

func (t *tokens) RemoveByRefresh(_ context.Context, refresh string) error {
	t.used[refresh] = t.byRefresh[refresh].Extension.Get(family)
	delete(t.byRefresh, refresh)
	return nil
}

func (t *tokens) GetByCode(_ context.Context, code string) (oauth2.TokenInfo, error) {
	return found(t.byCode, code)
}

func (t *tokens) GetByAccess(_ context.Context, access string) (oauth2.TokenInfo, error) {
	return found(t.byAccess, access)
}

func (t *tokens) GetByRefresh(_ context.Context, refresh string) (oauth2.TokenInfo, error) {
	return found(t.byRefresh, refresh)
}

// found returns a copy of the token, or nil if there is none, as oauth2.TokenStore requires.
func found(all map[string]models.Token, name string) (oauth2.TokenInfo, error) {
	token, ok := all[name]
	if !ok {
		return nil, nil
	}
	return &token, nil
}
