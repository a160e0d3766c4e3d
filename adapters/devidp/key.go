package devidp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"collab/adapters/atomicfile"
)

// signingKey signs tokens and is published for their verification.
type signingKey struct {
	public jose.JSONWebKey
	signer jose.Signer
}

// openKey reads the private key (PKCS #8 in PEM, P-256). It creates one if the file is missing.
func openKey(path string) (signingKey, error) {
	text, err := atomicfile.ReadOrCreate(path, generateKey)
	if err != nil {
		return signingKey{}, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return signingKey{}, fmt.Errorf("%s: no PEM block", path)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return signingKey{}, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return signingKey{}, fmt.Errorf("%s: must be a P-256 key", path)
	}
	k := signingKey{public: jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.ES256), Use: "sig"}}
	thumbprint, err := k.public.Thumbprint(crypto.SHA256)
	if err != nil {
		return signingKey{}, fmt.Errorf("%s: %w", path, err)
	}
	k.public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	k.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: k.public.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	return k, err
}

// generateKey returns a new P-256 key in PEM.
func generateKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// claims are those of version 2 of the provider's tokens, with the organisation in compact
// form.
type claims struct {
	Issuer          string    `json:"iss"`
	Subject         string    `json:"sub"`
	Audience        string    `json:"aud,omitempty"`
	AuthorizedParty string    `json:"azp"`
	IssuedAt        int64     `json:"iat"`
	NotBefore       int64     `json:"nbf"`
	ExpiresAt       int64     `json:"exp"`
	ID              string    `json:"jti"`
	Nonce           string    `json:"nonce,omitempty"`
	Status          string    `json:"sts"`
	Version         int       `json:"v"`
	Name            string    `json:"name"`
	Email           string    `json:"email"`
	EmailVerified   bool      `json:"email_verified"`
	Picture         string    `json:"picture"`
	Org             *orgClaim `json:"o,omitempty"`
}

type orgClaim struct {
	ID   string `json:"id"`
	Role string `json:"rol"`
	Slug string `json:"slg"`
}

func (k signingKey) sign(c claims) (string, error) {
	return jwt.Signed(k.signer).Claims(c).Serialize()
}
