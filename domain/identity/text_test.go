package identity_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"collab/domain/identity"

	"pgregory.net/rapid"
)

func TestCleanNameKeepsWhatCanBeStored(t *testing.T) {
	for in, want := range map[string]string{
		"  Ada Lovelace ":                 "Ada Lovelace",
		"Ada\x00\r\nLovelace":             "Ada   Lovelace",
		"Ada\xff\xfe":                     "Ada",
		"\x00\n":                          "",
		strings.Repeat("é", 201):          strings.Repeat("é", 200),
		strings.Repeat("a", 199) + " bcd": strings.Repeat("a", 199),
	} {
		if got := identity.CleanName(in); got != want {
			t.Errorf("CleanName(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := identity.CleanName(string(rapid.SliceOfN(rapid.Byte(), 0, 900).Draw(t, "name")))
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > 200 || strings.ContainsFunc(got, unicode.IsControl) || got != identity.CleanName(got) {
			t.Fatalf("got %q", got)
		}
	})
}

func TestMalformedTextsAreDropped(t *testing.T) {
	for in, want := range map[string]string{
		" ada@example.com ":                            "ada@example.com",
		"+441234567890":                                "",
		"ada@example.com\r\nBcc: eve@example.com":      "",
		strings.Repeat("a", 250) + "@example.com":      "",
		"ada\x00@example.com":                          "",
		"Ada <ada@example.com>, Eve <eve@example.com>": "",
	} {
		if got := identity.CleanEmail(in); got != want {
			t.Errorf("CleanEmail(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"https://img.example.com/a.png":              "https://img.example.com/a.png",
		"javascript:alert(1)":                        "",
		"https://img.example.com/a b":                "",
		"https://" + strings.Repeat("a", 2048):       "",
		"data:text/html;base64,PHNjcmlwdD4=":         "",
		"https://img.example.com/\x00":               "",
		"http://localhost:8080/dev/identity/ada.svg": "http://localhost:8080/dev/identity/ada.svg",
	} {
		if got := identity.CleanURL(in); got != want {
			t.Errorf("CleanURL(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]bool{"user_1": true, "": false, "a\x00": false, "\xff": false, strings.Repeat("a", 255): true, strings.Repeat("a", 256): false} {
		if got := identity.ValidID(in); got != want {
			t.Errorf("ValidID(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestEmailAddressesThatAreComparedAsOne(t *testing.T) {
	keys := map[string]string{}
	for _, same := range [][]string{
		{" Ada@Example.com", "ada@example.COM "},
		{"caf\u00e9@example.com", "CAFE\u0301@example.com"},
		{"\u212a@example.com", "k@example.com"},
		{"\u0130@example.com", "I\u0307@example.com", "i\u0307@example.com"},
		{"\u0131@example.com"},
		{"i@example.com", "I@example.com"},
		{"s@example.com", "S@example.com"},
		{"\u017f@example.com"},
		{"ss@example.com"},
		{"\u00df@example.com", "\u1e9e@example.com"},
		{"\uff46@example.com", "\uff26@example.com"},
		{"f@example.com"},
	} {
		key := identity.FoldEmail(same[0])
		if other, taken := keys[key]; taken {
			t.Errorf("%+q and %+q have the key %+q", same[0], other, key)
		}
		keys[key] = same[0]
		for _, email := range same[1:] {
			if got := identity.FoldEmail(email); got != key {
				t.Errorf("FoldEmail(%+q) = %+q, want %+q", email, got, key)
			}
		}
	}
}
