package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"collab/domain/check"
)

// MaxID is the longest provider's id that is accepted, in bytes (OpenID Connect
// Core, section 2).
const MaxID = 255

// ValidID reports whether s can be a provider's id: 1 to MaxID bytes of valid
// UTF-8 without control characters.
func ValidID(s string) bool {
	return s != "" && len(s) <= MaxID && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// CleanName returns a name that the provider sent as valid UTF-8 on one line of at most
// check.MaxName characters, so that no name makes the provider's message fail.
func CleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	n := 0
	for i := range s {
		if n == check.MaxName {
			return strings.TrimSpace(s[:i])
		}
		n++
	}
	return s
}

// CleanEmail returns an e-mail address that the provider sent, empty if it is malformed.
func CleanEmail(s string) string {
	var c check.List
	if s = c.Email("email", s); c.Err() != nil {
		return ""
	}
	return s
}

// CleanURL returns the address of a picture that the provider sent, empty if it is not safe
// for clients to load.
func CleanURL(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > check.MaxURL || !utf8.ValidString(s) ||
		!strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://") ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return ""
	}
	return s
}
