package mcp

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"unicode"

	"collab/domain/connector"
	"collab/domain/fault"
)

// headersFor returns the headers with the credentials. It returns Forbidden for credentials that cannot be in
// a header. The catalog refuses the names of headers that HTTP and the protocol set.
func headersFor(a connector.Access) (http.Header, error) {
	entries, err := stringEntries(a.Entries)
	if err != nil {
		return nil, err
	}
	templates := map[string]string{}
	maps.Copy(templates, a.CredentialTemplates)
	if a.Auth.UsesOAuth() {
		templates["Authorization"] = "Bearer {" + connector.AccessToken + "}"
	}
	headers := http.Header{"User-Agent": {"collab"}}
	for name, pattern := range templates {
		value, ok := expand(pattern, entries)
		if !ok {
			continue
		}
		if value, ok = latin1(value); !ok {
			return nil, fault.New(fault.Forbidden, "The credentials hold characters that cannot be sent")
		}
		headers.Set(name, value)
	}
	return headers, nil
}

// stringEntries returns the credentials that are strings, without surrounding space, which copied
// keys often have.
func stringEntries(entries string) (map[string]string, error) {
	found := map[string]string{}
	if entries == "" {
		return found, nil
	}
	var all map[string]any
	if json.Unmarshal([]byte(entries), &all) != nil {
		return nil, fault.New(fault.Forbidden, "The credentials cannot be read")
	}
	for name, value := range all {
		if text, ok := value.(string); ok {
			found[name] = strings.TrimSpace(text)
		}
	}
	return found, nil
}

// expand replaces each {name} of the pattern by the entry of that name. It returns false if
// one is missing or empty.
func expand(pattern string, entries map[string]string) (string, bool) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "{")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		name, after, _ := strings.Cut(rest, "}")
		if entries[name] == "" {
			return "", false
		}
		b.WriteString(entries[name])
		pattern = after
	}
}

// latin1 encodes a header's value in ISO 8859-1, HTTP's encoding of characters beyond
// ASCII. It returns false for other characters and for control characters.
func latin1(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > unicode.MaxLatin1 || unicode.IsControl(r) {
			return "", false
		}
		b = append(b, byte(r))
	}
	return string(b), true
}
