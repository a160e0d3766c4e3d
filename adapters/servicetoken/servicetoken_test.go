package servicetoken_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"time"

	"collab/adapters/servicetoken"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/session"
	"collab/test/must"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

const issuer = "https://collab.example.com"

var someone = session.Issue("jti-1", "0190a0a0-0000-7000-8000-000000000001", "0190a0a0-0000-7000-8000-000000000002", org.Admin, time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC))

// seeded is a key that is the same in every run.
func seeded(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func issue(t testing.TB, tokens *servicetoken.Tokens, c session.Claims) string {
	t.Helper()
	return must.Do(tokens.Issue(c)).Or(t)
}

func header(t *testing.T, token string) map[string]any {
	t.Helper()
	text := must.Do(base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])).Or(t)
	var h map[string]any
	must.NoError(t, json.Unmarshal(text, &h))
	return h
}

func TestATokenHasTheClaimsItWasIssuedWith(t *testing.T) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	none := session.Issue("jti-2", someone.User, "", "", someone.IssuedAt)
	for _, c := range []session.Claims{someone, none} {
		token := issue(t, tokens, c)
		must.Is(t, c, must.Do(tokens.Read(token)).Or(t))
		if !tokens.IssuedHere(token) {
			t.Error("our own token is not ours")
		}
	}
	if h := header(t, issue(t, tokens, someone)); h["alg"] != "EdDSA" || h["typ"] != "JWT" || len(h) != 3 {
		t.Errorf("the header is %v", h)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(issue(t, tokens, someone), ".")[1])
	var got map[string]any
	must.NoError(t, json.Unmarshal(payload, &got))
	for name, want := range map[string]any{"iss": issuer, "sub": string(someone.User), "org_id": string(someone.Org), "org_role": "ADMIN",
		"iat": float64(someone.IssuedAt.Unix()), "exp": float64(someone.IssuedAt.Unix() + 30*86400), "jti": "jti-1"} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if len(got) != 7 {
		t.Errorf("the claims are %v", got)
	}
}

func TestExpiredTokensAreRead(t *testing.T) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	for _, at := range []time.Time{time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2990, 1, 1, 0, 0, 0, 0, time.UTC)} {
		c := session.Issue("jti", someone.User, someone.Org, someone.Role, at)
		must.Is(t, c, must.Do(tokens.Read(issue(t, tokens, c))).Or(t))
	}
}

func TestKeysAreNamedByTheirThumbprint(t *testing.T) {
	// RFC 8037, appendix A.
	seed, _ := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	tokens := servicetoken.New(servicetoken.Keys{ed25519.NewKeyFromSeed(seed)}, issuer)
	const want = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	must.Is(t, want, header(t, issue(t, tokens, someone))["kid"])
}

func TestOthersCanVerifyWithThePublishedKeys(t *testing.T) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1), seeded(2)}, issuer)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(tokens.JWKS(), &set); err != nil || len(set.Keys) != 2 {
		t.Fatalf("%d keys, %v: %s", len(set.Keys), err, tokens.JWKS())
	}
	for _, k := range set.Keys {
		if !k.IsPublic() || k.Algorithm != "EdDSA" || k.Use != "sig" {
			t.Errorf("published %+v", k)
		}
	}
	signed := must.Do(jose.ParseSignedCompact(issue(t, tokens, someone), []jose.SignatureAlgorithm{jose.EdDSA})).Or(t)
	found := set.Key(signed.Signatures[0].Header.KeyID)
	if len(found) != 1 {
		t.Fatalf("%d keys of that id", len(found))
	}
	must.Do(signed.Verify(found[0])).Or(t)
	tokens.JWKS()[0] = 'x'
	if tokens.JWKS()[0] != '{' {
		t.Error("the document can be changed from outside")
	}
}

func TestKeysCanBeRotated(t *testing.T) {
	before := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	during := servicetoken.New(servicetoken.Keys{seeded(2), seeded(1)}, issuer)
	after := servicetoken.New(servicetoken.Keys{seeded(2)}, issuer)
	older, newer := issue(t, before, someone), issue(t, during, someone)
	for name, c := range map[string]struct {
		tokens *servicetoken.Tokens
		token  string
		want   bool
	}{
		"the old token before": {before, older, true},
		"the old token during": {during, older, true},
		"the old token after":  {after, older, false},
		"the new token before": {before, newer, false},
		"the new token during": {during, newer, true},
		"the new token after":  {after, newer, true},
	} {
		got, err := c.tokens.Read(c.token)
		if c.want && (err != nil || got != someone) || !c.want && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// forge makes a token of any header and claims with any key.
func forge(t testing.TB, method jwt.SigningMethod, key any, head map[string]any, c jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	maps.Copy(token.Header, head)
	return must.Do(token.SignedString(key)).Or(t)
}

func TestForgedTokensAreRefused(t *testing.T) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	good := issue(t, tokens, someone)
	kid := header(t, good)["kid"]
	head := map[string]any{"kid": kid}
	pub := seeded(1).Public().(ed25519.PublicKey)
	pubPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must.Get(x509.MarshalPKIXPublicKey(pub))})
	ec := must.Do(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)).Or(t)
	claims := jwt.MapClaims{"iss": issuer, "sub": string(someone.User), "iat": someone.IssuedAt.Unix(), "exp": someone.ExpiresAt.Unix(), "jti": "jti-1"}
	without := func(name string) jwt.MapClaims {
		c := maps.Clone(claims)
		delete(c, name)
		return c
	}
	with := func(name string, value any) jwt.MapClaims {
		c := without(name)
		c[name] = value
		return c
	}
	if _, err := tokens.Read(forge(t, jwt.SigningMethodEdDSA, seeded(1), head, claims)); err != nil {
		t.Fatalf("the model of the forgeries is not accepted: %v", err)
	}
	part := strings.Split(good, ".")
	other := strings.Split(issue(t, tokens, session.Issue("jti-9", "someone-else", "", "", someone.IssuedAt)), ".")
	flipped := []byte(good)
	flipped[len(flipped)-10] ^= 1
	for name, token := range map[string]string{
		"nothing":                              "",
		"dots":                                 "..",
		"no signature":                         part[0] + "." + part[1] + ".",
		"two parts":                            part[0] + "." + part[1],
		"four parts":                           good + "." + part[2],
		"its signature cut":                    good[:len(good)-4],
		"its signature changed":                string(flipped),
		"another token's claims":               part[0] + "." + other[1] + "." + part[2],
		"a space before":                       " " + good,
		"padding":                              good + "==",
		"sixty-four kilobytes":                 good + strings.Repeat("A", 64<<10),
		"algorithm none":                       forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, head, claims),
		"HMAC with the public key":             forge(t, jwt.SigningMethodHS256, []byte(pub), head, claims),
		"HMAC with the public key as PEM":      forge(t, jwt.SigningMethodHS256, pubPEM, head, claims),
		"ECDSA of another key":                 forge(t, jwt.SigningMethodES256, ec, head, claims),
		"an unknown key":                       forge(t, jwt.SigningMethodEdDSA, seeded(2), map[string]any{"kid": "other"}, claims),
		"another key under our key's id":       forge(t, jwt.SigningMethodEdDSA, seeded(2), head, claims),
		"another key brought along":            forge(t, jwt.SigningMethodEdDSA, seeded(2), map[string]any{"jwk": map[string]string{"kty": "OKP"}}, claims),
		"no key id":                            forge(t, jwt.SigningMethodEdDSA, seeded(1), nil, claims),
		"a key id that is no string":           forge(t, jwt.SigningMethodEdDSA, seeded(1), map[string]any{"kid": 7}, claims),
		"another issuer":                       forge(t, jwt.SigningMethodEdDSA, seeded(1), head, with("iss", issuer+"/")),
		"no issuer":                            forge(t, jwt.SigningMethodEdDSA, seeded(1), head, without("iss")),
		"no subject":                           forge(t, jwt.SigningMethodEdDSA, seeded(1), head, without("sub")),
		"no id":                                forge(t, jwt.SigningMethodEdDSA, seeded(1), head, without("jti")),
		"no time of issue":                     forge(t, jwt.SigningMethodEdDSA, seeded(1), head, without("iat")),
		"no time of expiry":                    forge(t, jwt.SigningMethodEdDSA, seeded(1), head, without("exp")),
		"a time of expiry in words":            forge(t, jwt.SigningMethodEdDSA, seeded(1), head, with("exp", "never")),
		"a subject that is no string":          forge(t, jwt.SigningMethodEdDSA, seeded(1), head, with("sub", 7)),
		"an organisation that is not a string": forge(t, jwt.SigningMethodEdDSA, seeded(1), head, with("org_id", []string{"o"})),
	} {
		if got, err := tokens.Read(token); !fault.Is(err, fault.Unauthenticated) || got != (session.Claims{}) {
			t.Errorf("a token with %s gives %+v, %v", name, got, err)
		}
	}
}

func TestOursComparesTheIssuer(t *testing.T) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	if forged := forge(t, jwt.SigningMethodEdDSA, seeded(2), nil, jwt.MapClaims{"iss": issuer}); !tokens.IssuedHere(forged) {
		t.Error("a token that names us is not ours: its bad signature would be tried with the provider's keys")
	}
	for name, token := range map[string]string{
		"of another issuer":     issue(t, servicetoken.New(servicetoken.Keys{seeded(1)}, issuer+"/"), someone),
		"without issuer":        forge(t, jwt.SigningMethodEdDSA, seeded(1), nil, jwt.MapClaims{"sub": "u"}),
		"that is nothing":       "",
		"of one part":           "abc",
		"of two parts":          "abc.e30",
		"that is not base64":    "a.!!!.c",
		"that is not JSON":      "a.YWJj.c",
		"that is far too long":  issue(t, tokens, someone) + strings.Repeat("A", 8<<10),
		"whose issuer is a map": forge(t, jwt.SigningMethodEdDSA, seeded(1), nil, jwt.MapClaims{"iss": map[string]string{"a": issuer}}),
	} {
		if tokens.IssuedHere(token) {
			t.Errorf("a token %s is ours", name)
		}
	}
}

func TestAGeneratedFileHoldsOneNewKey(t *testing.T) {
	one, other := must.Get(servicetoken.Parse(must.Get(servicetoken.Generate()))), must.Get(servicetoken.Parse(must.Get(servicetoken.Generate())))
	if len(one) != 1 || len(other) != 1 || one[0].Equal(other[0]) {
		t.Errorf("%d and %d keys, or the same", len(one), len(other))
	}
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestKeyFilesHoldEd25519KeysAndNothingElse(t *testing.T) {
	first, second := block("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(seeded(1)))), block("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(seeded(2))))
	keys, err := servicetoken.Parse([]byte("\n" + first + "\n\n" + second + "\n"))
	if err != nil || len(keys) != 2 || !keys[0].Equal(seeded(1)) || !keys[1].Equal(seeded(2)) {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	ec := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	for name, text := range map[string]string{
		"nothing":            "",
		"white space":        " \n",
		"no PEM":             "secret",
		"text after a key":   first + "secret",
		"half a key":         first + second[:60],
		"a public key":       first + block("PUBLIC KEY", must.Get(x509.MarshalPKIXPublicKey(seeded(1).Public()))),
		"an elliptic key":    block("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(ec))),
		"a key of no format": block("PRIVATE KEY", []byte("secret")),
		"one key twice":      first + second + first,
	} {
		if _, err := servicetoken.Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a file with %s gives %v", name, err)
		}
	}
}

// FuzzRead looks for a token that is accepted though our key did not sign it.
// As an Ed25519 signature is a function of key and content, every accepted
// token's signature is the one that signing the content again gives.
func FuzzRead(f *testing.F) {
	tokens := servicetoken.New(servicetoken.Keys{seeded(1)}, issuer)
	good := issue(f, tokens, someone)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good + ".")
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("eyJhbGciOiJFZERTQSIsImtpZCI6bnVsbH0.bnVsbA.AA")
	f.Add(forge(f, jwt.SigningMethodHS256, []byte(seeded(1).Public().(ed25519.PublicKey)), nil, jwt.MapClaims{"iss": issuer}))
	f.Fuzz(func(t *testing.T, token string) {
		tokens.IssuedHere(token)
		c, err := tokens.Read(token)
		if err != nil {
			if !fault.Is(err, fault.Unauthenticated) || c != (session.Claims{}) {
				t.Errorf("got %+v, %v", c, err)
			}
			return
		}
		i := strings.LastIndexByte(token, '.')
		signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
		if err != nil || string(signature) != string(ed25519.Sign(seeded(1), []byte(token[:i]))) || !tokens.IssuedHere(token) || c.User == "" {
			t.Errorf("accepted %q as %+v", token, c)
		}
	})
}
