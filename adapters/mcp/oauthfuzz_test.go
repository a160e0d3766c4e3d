package mcp_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"collab/adapters/mcp"
)

func FuzzChallenge(f *testing.F) {
	for _, h := range []string{
		"", "Bearer", `Bearer resource_metadata="https://a/", scope="a b"`, `Basic realm="x", Bearer scope=a`, "Negotiate abc==",
		`Bearer realm="a\"b", error=invalid_token`, `Bearer resource_metadata="`, `,,,`, `"`, "Bearer =", "Bearer a=b=c", "bearer\tscope=\"\xff\"",
		"DPoP algs=\"ES256\", Bearer resource_metadata=https://a/", `Bearer scope="\`,
	} {
		f.Add(h, "Bearer scope=b")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		address, scopes := mcp.ReadChallenge(first, second)
		length := len(address)
		for _, s := range scopes {
			if len(strings.Fields(s)) != 1 {
				t.Errorf("%q is a scope", s)
			}
			length += len(s)
		}
		if length > len(first)+len(second) || length > 0 && !strings.Contains(strings.ToLower(first+second), "bearer") {
			t.Errorf("read %q and %q", address, scopes)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	const issuer = "https://a.example"
	good := `{"issuer":"https://a.example","authorization_endpoint":"https://a.example/a","token_endpoint":"https://a.example/t","code_challenge_methods_supported":["S256"]}`
	for _, d := range []string{
		good, "", "{}", "null", "[]", `{"issuer":1}`, strings.Replace(good, "S256", "plain", 1), strings.Replace(good, "https://a.example/t", "http://a.example/t", 1),
		strings.Replace(good, "https://a.example/a", "javascript:alert(1)//", 1), strings.Replace(good, `"issuer"`, `"ISSUER"`, 1),
		strings.Replace(good, "{", `{"registration_endpoint":"https://b@c/","token_endpoint_auth_methods_supported":["none"],`, 1),
		strings.Replace(good, "{", `{"revocation_endpoint":"https://c/#d",`, 1), good + "x", strings.Repeat("[", 200),
	} {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		s, err := mcp.ReadMetadata(document, issuer)
		if err != nil {
			return
		}
		if s.Issuer != issuer || !json.Valid(document) || s.Authorization == "" || s.Token == "" {
			t.Fatalf("read %+v", s)
		}
		for _, e := range []string{s.Authorization, s.Token, s.Registration, s.Revocation} {
			if e == "" {
				continue
			}
			if u, err := url.Parse(e); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
				t.Errorf("%q is an endpoint", e)
			}
		}
		for _, m := range s.AuthMethods {
			if !slices.Contains([]string{"none", "client_secret_basic", "client_secret_post"}, m) {
				t.Errorf("%q is a method", m)
			}
		}
	})
}
