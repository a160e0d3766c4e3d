package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"collab/adapters/oidc"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/test/must"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
)

func TestClaimsOfBothShapesAreRead(t *testing.T) {
	key, i, c, p := newProvider(t)
	for name, tt := range map[string]struct {
		claims map[string]any
		want   identity.Claims
	}{
		"the plain shape": {
			map[string]any{"org_id": "org_1", "org_role": "org:admin", "org_slug": "engines", "org_permissions": []string{"a"}},
			identity.Claims{Org: "org_1", OrgRole: "org:admin", OrgSlug: "engines"},
		},
		"the compact shape": {
			map[string]any{"v": 2, "o": map[string]any{"id": "org_1", "rol": "admin", "slg": "engines", "per": "a,b", "fpm": "3"}, "fva": []int{1, -1}},
			identity.Claims{Org: "org_1", OrgRole: "org:admin", OrgSlug: "engines"},
		},
		"the compact shape with the prefix": {
			map[string]any{"o": map[string]any{"id": "org_1", "rol": " ORG:Auditor"}},
			identity.Claims{Org: "org_1", OrgRole: "org:Auditor"},
		},
		"the compact shape in other letters": {
			map[string]any{"o": map[string]any{"id": "org_1", "ID": "org_2", "Rol": "admin", "\u017flg": "engines"}},
			identity.Claims{Org: "org_1"},
		},
		"a short role": {map[string]any{"o": map[string]any{"id": "org_1", "rol": "dev"}}, identity.Claims{Org: "org_1", OrgRole: "org:dev"}},
		"both shapes: the plain one has precedence": {
			map[string]any{"org_id": "org_1", "o": map[string]any{"id": "org_2", "rol": "admin"}},
			identity.Claims{Org: "org_1"},
		},
		"no organisation":             {nil, identity.Claims{}},
		"an organisation of null":     {map[string]any{"o": json.RawMessage("null"), "org_id": json.RawMessage("null")}, identity.Claims{}},
		"a role without organisation": {map[string]any{"org_role": "org:admin", "org_slug": "engines"}, identity.Claims{}},
		"a person": {
			map[string]any{"name": " Ada\nLovelace ", "email": "ada@example.com", "picture": "https://img.example.com/a.png"},
			identity.Claims{Name: "Ada Lovelace", Email: "ada@example.com", AvatarURL: "https://img.example.com/a.png"},
		},
		"an address that is not verified":            {map[string]any{"email": "ada@example.com", "email_verified": false}, identity.Claims{}},
		"an address that is not verified, as a text": {map[string]any{"email": "ada@example.com", "email_verified": "false"}, identity.Claims{}},
		"an address that is perhaps verified":        {map[string]any{"email": "ada@example.com", "email_verified": 0}, identity.Claims{}},
		"an address with an empty verification":      {map[string]any{"email": "ada@example.com", "email_verified": ""}, identity.Claims{}},
		"an address with a verification of null":     {map[string]any{"email": "ada@example.com", "email_verified": json.RawMessage("null")}, identity.Claims{Email: "ada@example.com"}},
		"an address that is verified":                {map[string]any{"email": "ada@example.com", "email_verified": "true"}, identity.Claims{Email: "ada@example.com"}},
		"names in other letters are other claims": {
			map[string]any{"name": "Ada", "Name": "Eve", "ORG_ID": "org_1", "Email": 7, "\u017fts": "pending"},
			identity.Claims{Name: "Ada"},
		},
		"invalid names and addresses": {
			map[string]any{"name": strings.Repeat("é", 300), "email": "nobody", "picture": "javascript:alert(1)"},
			identity.Claims{Name: strings.Repeat("é", 200)},
		},
		"an active session": {map[string]any{"sts": "active", "sid": "sess_1"}, identity.Claims{}},
		"times in fractions": {
			map[string]any{"iat": float64(c.Now().Unix()) - 0.75, "exp": float64(c.Now().Unix()) + 0.5},
			identity.Claims{IssuedAt: c.Now().Add(-750 * time.Millisecond), ExpiresAt: c.Now().Add(500 * time.Millisecond)},
		},
	} {
		tt.want.Subject = "user_1"
		if tt.want.IssuedAt.IsZero() {
			tt.want.IssuedAt, tt.want.ExpiresAt = c.Now(), c.Now().Add(time.Minute)
		}
		got, err := verify(p, key.token(t, i.claims(c, tt.claims)))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
}

func TestTheThreeAlgorithmsAreAccepted(t *testing.T) {
	keys := []signer{{"r", jose.RS256, rsaKey()}, {"e", jose.ES256, ecKey()}, {"d", jose.EdDSA, edKey(1)}}
	i, c := newIssuer(t, keys...), newClock()
	p := i.provider(t, c)
	for _, k := range keys {
		for _, kid := range []string{k.kid, ""} { // a token may have no key id
			if _, err := verify(p, signer{kid, k.alg, k.key}.token(t, i.claims(c))); err != nil {
				t.Errorf("%s with the kid %q is refused: %v", k.alg, kid, err)
			}
		}
	}
	i.wantReads(t, 1, 1)
}

func TestInvalidClaimsAreRefused(t *testing.T) {
	key := signer{"k1", jose.EdDSA, edKey(1)}
	i, c := newIssuer(t, key), newClock()
	open, now := i.provider(t, c), c.Now().Unix()
	forAudience := i.provider(t, c, func(o *oidc.Options) { o.Audiences = []string{"collab", "collab-cli"} })
	forParty := i.provider(t, c, func(o *oidc.Options) { o.AuthorizedParties = []string{"https://app.example.com", "collab-cli"} })
	for name, tt := range map[string]struct {
		p      *oidc.Provider
		claims map[string]any
		want   bool
	}{
		"any audience if none is required":         {open, map[string]any{"aud": "other", "azp": "other"}, true},
		"no audience if none is required":          {open, nil, true},
		"the audience":                             {forAudience, map[string]any{"aud": "collab"}, true},
		"the audience among several":               {forAudience, map[string]any{"aud": []string{"other", "collab-cli"}}, true},
		"another audience":                         {forAudience, map[string]any{"aud": "other"}, false},
		"other audiences":                          {forAudience, map[string]any{"aud": []string{"other", "another"}}, false},
		"a longer audience":                        {forAudience, map[string]any{"aud": "collab-cli-2"}, false},
		"no audience":                              {forAudience, nil, false},
		"an empty audience":                        {forAudience, map[string]any{"aud": ""}, false},
		"an empty list of audiences":               {forAudience, map[string]any{"aud": []string{}}, false},
		"an audience that is no string":            {forAudience, map[string]any{"aud": 7}, false},
		"the party":                                {forParty, map[string]any{"azp": "https://app.example.com"}, true},
		"another party":                            {forParty, map[string]any{"azp": "https://app.example.com/"}, false},
		"no party":                                 {forParty, nil, false},
		"an empty party":                           {forParty, map[string]any{"azp": ""}, false},
		"a party that is no string":                {forParty, map[string]any{"azp": []string{"collab-cli"}}, false},
		"a second subject in capitals":             {open, map[string]any{"SUB": "user_2"}, false},
		"an audience in capitals":                  {forAudience, map[string]any{"AUD": "collab"}, false},
		"an issuer in capitals":                    {open, map[string]any{"ISS": i.URL}, false},
		"a nonce in capitals":                      {open, map[string]any{"NONCE": "n"}, false},
		"a time in capitals":                       {open, map[string]any{"EXP": now - 60, "Iat": now + 61}, true},
		"another issuer":                           {open, map[string]any{"iss": "https://other.example.com"}, false},
		"the issuer with a slash":                  {open, map[string]any{"iss": i.URL + "/"}, false},
		"no issuer":                                {open, map[string]any{"iss": nil}, false},
		"no subject":                               {open, map[string]any{"sub": nil}, false},
		"an empty subject":                         {open, map[string]any{"sub": ""}, false},
		"a subject that is no string":              {open, map[string]any{"sub": 7}, false},
		"a subject with a null character":          {open, map[string]any{"sub": "user\x00"}, false},
		"a subject of 256 bytes":                   {open, map[string]any{"sub": strings.Repeat("u", 256)}, false},
		"an organisation with a control":           {open, map[string]any{"org_id": "org\n1"}, false},
		"an organisation that is no string":        {open, map[string]any{"org_id": 1}, false},
		"a compact organisation that is no object": {open, map[string]any{"o": "org_1"}, false},
		"a sign-in that is not complete":           {open, map[string]any{"sts": "pending"}, false},
		"a time: expired 59 seconds ago":           {open, map[string]any{"exp": now - 59}, true},
		"a time: expired a minute ago":             {open, map[string]any{"exp": now - 60}, false},
		"a time: issued in a minute":               {open, map[string]any{"iat": now + 60}, true},
		"a time: issued in 61 seconds":             {open, map[string]any{"iat": now + 61}, false},
		"a time: issued in a year":                 {open, map[string]any{"iat": now + 365*86400, "exp": now + 366*86400}, false},
		"a time: valid from a minute on":           {open, map[string]any{"nbf": now + 60}, true},
		"a time: valid from 61 seconds on":         {open, map[string]any{"nbf": now + 61}, false},
		"a time: without nbf":                      {open, map[string]any{"nbf": nil}, true},
		"a time: without exp":                      {open, map[string]any{"exp": nil}, false},
		"a time: without iat":                      {open, map[string]any{"iat": nil}, false},
		"a time: with an exp of null":              {open, map[string]any{"exp": json.RawMessage("null")}, false},
		"a time: with an exp in words":             {open, map[string]any{"exp": "tomorrow"}, false},
		"a time: with an exp after the year 9999":  {open, map[string]any{"exp": 1e18}, false},
		"a time: with an exp beyond a float":       {open, map[string]any{"exp": json.RawMessage("1e400")}, false},
		"a time: with an iat below zero":           {open, map[string]any{"iat": -1}, false},
		"a time: with an nbf that is no number":    {open, map[string]any{"nbf": true}, false},
		"a payload over the limit":                 {open, map[string]any{"x": strings.Repeat("x", 16<<10)}, false},
	} {
		got, err := verify(tt.p, key.token(t, i.claims(c, tt.claims)))
		if tt.want && err != nil || !tt.want && (!fault.Is(err, fault.Unauthenticated) || got != identity.Claims{}) {
			t.Errorf("a token with %s: %+v, %v", name, got, err)
		}
	}
}

func TestGooglesSecondNameIsNotTheIssuer(t *testing.T) {
	key, c := signer{"k1", jose.EdDSA, edKey(1)}, newClock()
	const google = "https://accounts.google.com"
	p := must.Do(oidc.New(oidc.Options{Issuer: google, Clock: c, Transport: published(google, google+"/keys", func() signer { return key })})).Or(t)
	claims := (&issuer{Server: &httptest.Server{URL: google}}).claims(c)
	wantVerify(t, p, key.token(t, claims), 0)
	claims["iss"] = "accounts.google.com"
	wantVerify(t, p, key.token(t, claims), fault.Unauthenticated)
}

func TestForgedTokensAreRefused(t *testing.T) {
	key, other := signer{"k1", jose.EdDSA, edKey(1)}, signer{"k1", jose.EdDSA, edKey(2)}
	rsaSigner := signer{"r1", jose.RS256, rsaKey()}
	i, c := newIssuer(t, key, rsaSigner), newClock()
	p := i.provider(t, c)
	good := key.token(t, i.claims(c))
	part := strings.Split(good, ".")
	eve := strings.Split(key.token(t, i.claims(c, map[string]any{"sub": "user_2"})), ".")
	head := func(h string) string { return base64.RawURLEncoding.EncodeToString([]byte(h)) }
	hmacWith := func(secret []byte) string {
		maker := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", "r1")))
		return must.Get(must.Get(maker.Sign(must.Get(json.Marshal(i.claims(c))))).CompactSerialize())
	}
	full := must.Get(jose.ParseSignedCompact(good, []jose.SignatureAlgorithm{jose.EdDSA})).FullSerialize()
	wantVerify(t, p, good, 0)
	for name, token := range map[string]string{
		"nothing":                          "",
		"dots":                             "..",
		"no signature":                     part[0] + "." + part[1] + ".",
		"two parts":                        part[0] + "." + part[1],
		"four parts":                       good + "." + part[2],
		"another token's claims":           part[0] + "." + eve[1] + "." + part[2],
		"its signature cut":                good[:len(good)-4],
		"white space before":               " " + good,
		"a line break inside":              part[0] + ".\n" + part[1] + "." + part[2],
		"padding":                          good + "==",
		"a megabyte":                       good + strings.Repeat("A", 1<<20),
		"the JSON form":                    full,
		"another key under the key's id":   other.token(t, i.claims(c)),
		"another key under another id":     signer{"k2", jose.EdDSA, edKey(2)}.token(t, i.claims(c)),
		"another key and no id":            signer{"", jose.EdDSA, edKey(2)}.token(t, i.claims(c)),
		"the algorithm none":               head(`{"alg":"none"}`) + "." + part[1] + ".",
		"the algorithm none and signature": head(`{"alg":"none","kid":"k1"}`) + "." + part[1] + "." + part[2],
		"the algorithm of another key":     head(`{"alg":"RS256","kid":"k1"}`) + "." + part[1] + "." + part[2],
		"HMAC with the public key":         hmacWith(must.Get(x509.MarshalPKIXPublicKey(rsaKey().Public()))),
		"RS512":                            signer{"r1", jose.RS512, rsaKey()}.token(t, i.claims(c)),
		"PS256":                            signer{"r1", jose.PS256, rsaKey()}.token(t, i.claims(c)),
		"claims that are no object":        key.sign(t, []byte(`["iss"]`)),
		"claims that are no JSON":          key.sign(t, []byte(`{`)),
	} {
		got, err := verify(p, token)
		if !fault.Is(err, fault.Unauthenticated) || got != (identity.Claims{}) {
			t.Errorf("a token with %s: %+v, %v", name, got, err)
		}
	}
}

func TestKeysThatAreNotForSigningOrTooWeakVerifyNothing(t *testing.T) {
	// Go generates so short a key only with this setting.
	t.Setenv("GODEBUG", "rsa1024min=0")
	good := signer{"good", jose.EdDSA, edKey(1)}
	short := signer{"short", jose.RS256, must.Get(rsa.GenerateKey(rand.Reader, 1024))}
	wide := must.Get(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	i, c := newIssuer(t), newClock()
	i.keys = []any{
		map[string]any{"kty": "of a kind to come", "kid": "x"},
		"no key at all", 7, nil,
		map[string]any{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
		map[string]any{"kty": "RSA", "kid": "broken", "n": "!!", "e": "AQAB"},
		jose.JSONWebKey{Key: edKey(2).Public(), KeyID: "for encryption", Use: "enc"},
		jose.JSONWebKey{Key: edKey(3).Public(), KeyID: "of another algorithm", Algorithm: "RS256"},
		short.public(),
		jose.JSONWebKey{Key: wide.Public(), KeyID: "wide"},
		jose.JSONWebKey{Key: edKey(4), KeyID: "private"},
		good.public(),
	}
	p := i.provider(t, c)
	wantVerify(t, p, good.token(t, i.claims(c)), 0)
	oct := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte("secret, but of enough bytes for HS256")}, nil))
	for name, token := range map[string]string{
		"for encryption":       signer{"for encryption", jose.EdDSA, edKey(2)}.token(t, i.claims(c)),
		"of another algorithm": signer{"of another algorithm", jose.EdDSA, edKey(3)}.token(t, i.claims(c)),
		"of 1024 bits":         short.token(t, i.claims(c)),
		"on another curve":     signer{"wide", jose.ES384, wide}.token(t, i.claims(c)),
		"that is not public":   signer{"private", jose.EdDSA, edKey(4)}.token(t, i.claims(c)),
		"that is symmetric":    must.Get(must.Get(oct.Sign(must.Get(json.Marshal(i.claims(c))))).CompactSerialize()),
	} {
		if _, err := verify(p, token); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("a key %s verifies: %v", name, err)
		}
	}
}

func TestInvalidTokensRefreshTheKeysFiveTimesAndThenOncePerHalfMinute(t *testing.T) {
	key, i, c, p := newProvider(t)
	flood := func() {
		t.Helper()
		var wg sync.WaitGroup
		var kinds atomic.Int64
		for n := range 8 {
			wg.Go(func() {
				for m := range 100 {
					kid := "k1"
					if m%2 == 0 {
						kid = fmt.Sprintf("random-%d-%d", n, m)
					}
					if _, err := verify(p, signer{kid, jose.EdDSA, edKey(2)}.token(t, i.claims(c))); fault.Is(err, fault.Unauthenticated) {
						kinds.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if kinds.Load() != 800 {
			t.Errorf("%d of 800 bad tokens are refused", kinds.Load())
		}
		if _, err := verify(p, key.token(t, i.claims(c))); err != nil {
			t.Errorf("after the flood a good token gives %v", err)
		}
	}
	for n := range 4 {
		flood()
		i.wantReads(t, 1, n+5)
		c.Advance(29999 * time.Millisecond)
		flood()
		i.wantReads(t, 1, n+5)
		c.Advance(time.Millisecond)
	}
}

func TestOnlyAnUnknownSignatureRefreshesTheKeys(t *testing.T) {
	key, i, c, p := newProvider(t)
	wantVerify(t, p, key.token(t, i.claims(c)), 0)
	c.Advance(time.Minute)
	for _, token := range []string{
		"", "a.b.c", "not a token", key.sign(t, []byte("{")), key.token(t, i.claims(c, map[string]any{"exp": 1})), key.token(t, i.claims(c, map[string]any{"iss": "other"})),
		signer{"r1", jose.RS512, rsaKey()}.token(t, i.claims(c)),
	} {
		if _, err := verify(p, token); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%q gives %v", token, err)
		}
	}
	i.wantReads(t, 1, 1)
}

func TestAKeyAddedAfterARefreshIsFoundAtOnce(t *testing.T) {
	i, c := newIssuer(t, signer{"k0", jose.EdDSA, edKey(10)}), newClock()
	p := i.provider(t, c)
	for n := range byte(5) {
		key := signer{fmt.Sprintf("k%d", n), jose.EdDSA, edKey(10 + n)}
		i.publish(key)
		if _, err := verify(p, key.token(t, i.claims(c))); err != nil {
			t.Errorf("a token of key %d: %v", n, err)
		}
		i.wantReads(t, 1, int(n)+1)
	}
}

func TestAnUnknownKeyIDRefreshesTheKeysOncePerHalfMinute(t *testing.T) {
	_, i, c, p := newProvider(t)
	for n := range 3 {
		for range 20 {
			wantVerify(t, p, signer{"nobody's", jose.EdDSA, edKey(2)}.token(t, i.claims(c)), fault.Unauthenticated)
		}
		i.wantReads(t, 1, n+2)
		c.Advance(30 * time.Second)
	}
}

func TestAKeyAddedDuringARefreshIsFoundByTheNextOne(t *testing.T) {
	const url = "https://id.example.com"
	older, newer := signer{"k1", jose.EdDSA, edKey(1)}, signer{"k2", jose.EdDSA, edKey(2)}
	synctest.Test(t, func(t *testing.T) {
		c, reads, release := newClock(), 0, make(chan struct{})
		p := must.Get(oidc.New(oidc.Options{Issuer: url, Clock: c, Transport: published(url, url+"/keys", func() signer {
			switch reads++; reads {
			case 2:
				<-release
			case 3:
				return newer
			}
			return older
		})}))
		now := c.Now().Unix()
		results := map[string]chan error{}
		for _, k := range []signer{older, {"nobody's", jose.EdDSA, edKey(3)}, newer} {
			result := make(chan error, 1)
			results[k.kid] = result
			token := k.token(t, map[string]any{"iss": url, "sub": "user_1", "iat": now, "exp": now + 60})
			go func() {
				_, err := verify(p, token)
				result <- err
			}()
			synctest.Wait()
		}
		close(release)
		if err := <-results["k1"]; err != nil {
			t.Error(err)
		}
		if err := <-results["nobody's"]; !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("a key that nobody published: %v", err)
		}
		if err := <-results["k2"]; err != nil || reads != 3 {
			t.Errorf("after %d readings: %v", reads, err)
		}
	})
}

func TestNewKeysAreFoundByTheNextAllowedRefresh(t *testing.T) {
	older, newer := signer{"k1", jose.EdDSA, edKey(1)}, signer{"k2", jose.RS256, rsaKey()}
	i, c := newIssuer(t, older), newClock()
	p := i.provider(t, c)
	accepts := func(k signer) bool {
		_, err := verify(p, k.token(t, i.claims(c)))
		if err != nil && !fault.Is(err, fault.Unauthenticated) {
			t.Fatal(err)
		}
		return err == nil
	}
	if !accepts(older) || accepts(newer) {
		t.Fatal("before the rotation")
	}
	i.publish(newer, older)
	c.Advance(29 * time.Second)
	if accepts(newer) || !accepts(older) {
		t.Error("the keys were read again for the same id before half a minute was over")
	}
	c.Advance(time.Second)
	if !accepts(newer) || !accepts(older) {
		t.Error("the new key is not found")
	}
	i.publish(newer)
	replaced := signer{"k2", jose.RS256, must.Get(rsa.GenerateKey(rand.Reader, 2048))}
	if accepts(replaced) {
		t.Error("a key that was never published verifies")
	}
	i.publish(replaced)
	c.Advance(30 * time.Second)
	if !accepts(replaced) || accepts(newer) || accepts(older) {
		t.Error("a key that was replaced under its id is not noticed")
	}
	i.wantReads(t, 1, 7)
}

func TestAWithdrawnKeyIsNoticedAfterAnHour(t *testing.T) {
	older, newer := signer{"k1", jose.EdDSA, edKey(1)}, signer{"k2", jose.EdDSA, edKey(2)}
	i, c := newIssuer(t, older), newClock()
	p := i.provider(t, c)
	wantVerify(t, p, older.token(t, i.claims(c)), 0)
	i.publish(newer)
	c.Advance(time.Hour)
	wantVerify(t, p, older.token(t, i.claims(c)), 0)
	c.Advance(time.Millisecond)
	// The first caller does not wait for the refresh that it begins.
	wantVerify(t, p, older.token(t, i.claims(c)), 0)
	p.Settle()
	wantVerify(t, p, older.token(t, i.claims(c)), fault.Unauthenticated)
	wantVerify(t, p, newer.token(t, i.claims(c)), 0)
}

func TestTheProviderMayBeDownAtFirst(t *testing.T) {
	key, i, c, p := newProvider(t)
	i.wantReads(t, 0, 0)
	i.set(func() { i.broken = true })
	token := key.token(t, i.claims(c))
	for range 20 {
		wantVerify(t, p, token, fault.Unavailable)
	}
	i.wantReads(t, 1, 0)
	i.set(func() { i.broken = false })
	wantVerify(t, p, token, fault.Unavailable)
	var e *fault.Error
	if _, err := verify(p, token); !errors.As(err, &e) || e.RetryAfter != 5 || e.Cause == nil {
		t.Errorf("got %+v", e)
	}
	c.Advance(5 * time.Second)
	wantVerify(t, p, token, 0)
}

func TestAClockThatIsSetBackDelaysNoRefresh(t *testing.T) {
	key, i, c, p := newProvider(t)
	i.set(func() { i.broken = true })
	wantVerify(t, p, key.token(t, i.claims(c)), fault.Unavailable)
	i.set(func() { i.broken = false })
	c.Advance(-time.Hour)
	wantVerify(t, p, key.token(t, i.claims(c)), fault.Unavailable)
	c.Advance(5 * time.Second)
	wantVerify(t, p, key.token(t, i.claims(c)), 0)

	newer := signer{"k2", jose.EdDSA, edKey(2)}
	i.publish(newer)
	c.Advance(-time.Hour)
	wantVerify(t, p, key.token(t, i.claims(c)), 0)
	p.Settle()
	wantVerify(t, p, key.token(t, i.claims(c)), fault.Unauthenticated) // the keys' age is unknown, so they were read again
}

func TestKnownKeysVerifyWhileTheProviderIsDown(t *testing.T) {
	key, newer := signer{"k1", jose.EdDSA, edKey(1)}, signer{"k2", jose.EdDSA, edKey(2)}
	i, c := newIssuer(t, key), newClock()
	p := i.provider(t, c)
	wantVerify(t, p, key.token(t, i.claims(c)), 0)
	i.set(func() { i.broken = true })
	for range 5 {
		c.Advance(2 * time.Hour)
		must.Do(verify(p, key.token(t, i.claims(c)))).Or(t) // a token of a known key
		p.Settle()
		must.Fail(t, must.ErrorOf(verify(p, newer.token(t, i.claims(c)))), fault.Unavailable) // a token that a new key may have signed
		// A forged token of a known key.
		must.Fail(t, must.ErrorOf(verify(p, signer{"k1", jose.EdDSA, edKey(3)}.token(t, i.claims(c)))), fault.Unauthenticated)
	}
	i.publish(key, newer)
	i.set(func() { i.broken = false })
	c.Advance(30 * time.Second)
	wantVerify(t, p, newer.token(t, i.claims(c)), 0)
}

func TestConcurrentCallersShareOneRefresh(t *testing.T) {
	key := signer{"k1", jose.RS256, rsaKey()}
	i, c := newIssuer(t, key), newClock()
	p := i.provider(t, c)
	token := key.token(t, i.claims(c))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if got, err := verify(p, token); err != nil || got.Subject != "user_1" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	i.wantReads(t, 1, 1)
}

func TestACancelledCallerDoesNotCancelTheRefresh(t *testing.T) {
	key := signer{"k1", jose.EdDSA, edKey(1)}
	i, c := newIssuer(t, key), newClock()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	p := i.provider(t, c, func(o *oidc.Options) {
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if isKeys(r) {
				arrived <- struct{}{}
				<-release
			}
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	token := key.token(t, i.claims(c))
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		_, err := p.Verify(ctx, token)
		gone <- err
	}()
	<-arrived
	cancel()
	if err := <-gone; !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("who went away gets %v", err)
	}
	close(release)
	wantVerify(t, p, token, 0)
	i.wantReads(t, 1, 1)
}

func TestInvalidResponsesAreNotUsed(t *testing.T) {
	key := signer{"k1", jose.EdDSA, edKey(1)}
	for name, change := range map[string]func(*issuer){
		"a discovery document of another issuer": func(i *issuer) { i.document["issuer"] = i.URL + "/" },
		"a discovery document without keys":      func(i *issuer) { i.document["jwks_uri"] = nil },
		"keys at an address that is none":        func(i *issuer) { i.document["jwks_uri"] = "/keys" },
		"keys in a file":                         func(i *issuer) { i.document["jwks_uri"] = "file:///keys" },
		"keys that are not there":                func(i *issuer) { i.document["jwks_uri"] = i.URL + "/elsewhere" },
		"a discovery document without end":       func(i *issuer) { i.document["x"] = strings.Repeat("x", 2<<20) },
		"keys without end":                       func(i *issuer) { i.keys = append(i.keys, strings.Repeat("x", 2<<20)) },
		"no keys":                                func(i *issuer) { i.keys = nil },
	} {
		i, c := newIssuer(t, key), newClock()
		change(i)
		if _, err := verify(i.provider(t, c), key.token(t, i.claims(c))); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	i, c := newIssuer(t, key), newClock()
	p := i.provider(t, c, func(o *oidc.Options) {
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if isKeys(r) {
				w := httptest.NewRecorder()
				http.Redirect(w, r, i.URL+"/keys?", http.StatusFound)
				return w.Result(), nil
			}
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	wantVerify(t, p, key.token(t, i.claims(c)), fault.Unavailable)
}

func TestKeysOfAnHTTPSIssuerAreReadWithHTTPS(t *testing.T) {
	key, c := signer{"k1", jose.EdDSA, edKey(1)}, newClock()
	for jwks, want := range map[string]bool{"https://id.example.com/keys": true, "http://id.example.com/keys": false} {
		p, err := oidc.New(oidc.Options{Issuer: "https://id.example.com", Clock: c, Transport: published("https://id.example.com", jwks, func() signer { return key })})
		must.NoError(t, err)
		claims := (&issuer{Server: &httptest.Server{URL: "https://id.example.com"}}).claims(c)
		if _, err := verify(p, key.token(t, claims)); want && err != nil || !want && !fault.Is(err, fault.Unavailable) {
			t.Errorf("with keys at %s: %v", jwks, err)
		}
	}
}

func TestAnIssuerIsAnAddress(t *testing.T) {
	for _, s := range []string{"", "id.example.com", "ftp://id.example.com", "https://", "://"} {
		if _, err := oidc.New(oidc.Options{Issuer: s, Clock: newClock()}); err == nil {
			t.Errorf("%q is taken for an issuer", s)
		}
	}
}

// FuzzVerify verifies random tokens, and random payloads signed with the provider's key.
// Accepted tokens are signed and have valid claims.
func FuzzVerify(f *testing.F) {
	const url = "https://id.example.com"
	key, c := signer{"k1", jose.EdDSA, edKey(1)}, newClock()
	p := must.Do(oidc.New(oidc.Options{Issuer: url, Clock: c, Transport: published(url, url+"/keys", func() signer { return key })})).Or(f)
	claims := (&issuer{Server: &httptest.Server{URL: url}}).claims(c, map[string]any{"o": map[string]any{"id": "org_1", "rol": "admin"}, "name": "Ada"})
	good := must.Get(json.Marshal(claims))
	for _, extra := range []map[string]any{{}, {"sub": ""}, {"exp": "x"}, {"aud": []any{1}}, {"o": []int{}}, {"iat": 1e17}, {"_claim_names": map[string]string{"a": "b"}}} {
		all := maps.Clone(claims)
		maps.Copy(all, extra)
		f.Add("", must.Get(json.Marshal(all)))
	}
	f.Add(key.sign(f, good), []byte(`{}`))
	f.Add(signer{"k1", jose.EdDSA, edKey(2)}.sign(f, good), []byte(`null`))
	f.Add(signer{"k2", jose.EdDSA, edKey(1)}.sign(f, good), []byte(``))
	f.Add("eyJhbGciOiJub25lIn0."+base64.RawURLEncoding.EncodeToString(good)+".", []byte(`[]`))
	public := key.key.Public().(ed25519.PublicKey)
	f.Fuzz(func(t *testing.T, token string, payload []byte) {
		for _, text := range []string{token, key.sign(t, payload)} {
			got, err := verify(p, text)
			if err != nil {
				if !fault.Is(err, fault.Unauthenticated) || got != (identity.Claims{}) {
					t.Errorf("%q gives %+v, %v", text, got, err)
				}
				continue
			}
			dot := strings.LastIndexByte(text, '.')
			signature, err := base64.RawURLEncoding.DecodeString(text[dot+1:])
			if err != nil || !ed25519.Verify(public, []byte(text[:dot]), signature) {
				t.Errorf("accepted %q, which the key did not sign", text)
			}
			if !identity.ValidID(got.Subject) || got.IssuedAt.IsZero() || !c.Now().Before(got.ExpiresAt.Add(time.Minute)) || c.Now().Add(time.Minute).Before(got.IssuedAt) {
				t.Errorf("accepted %+v", got)
			}
		}
	})
}
