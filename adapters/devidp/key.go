package devidp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
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
	algorithm jose.SignatureAlgorithm
	public    jose.JSONWebKey
	signer    jose.Signer
}

// openKey reads the private key (PKCS #8 in PEM, RSA or P-256). It creates a P-256 key if
// the file is missing.
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
	k := signingKey{}
	switch key := private.(type) {
	case *rsa.PrivateKey:
		k.algorithm, k.public.Key = jose.RS256, key.Public()
	case *ecdsa.PrivateKey:
		if key.Curve != elliptic.P256() {
			return signingKey{}, fmt.Errorf("%s: the curve must be P-256", path)
		}
		k.algorithm, k.public.Key = jose.ES256, key.Public()
	default:
		return signingKey{}, fmt.Errorf("%s: must be an RSA or a P-256 key", path)
	}
	print, err := k.public.Thumbprint(crypto.SHA256)
	if err != nil {
		return signingKey{}, fmt.Errorf("%s: %w", path, err)
	}
	k.public.KeyID = base64.RawURLEncoding.EncodeToString(print)
	k.public.Algorithm, k.public.Use = string(k.algorithm), "sig"
	k.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: k.algorithm, Key: jose.JSONWebKey{Key: private, KeyID: k.public.KeyID}},
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
