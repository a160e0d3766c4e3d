package mcp

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"collab/domain/connector"
	"collab/domain/fault"
)

// reserved are the headers that the protocol and HTTP itself set.
var reserved = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
	"Expect", "Host", "Http2-Settings", "Keep-Alive", "Last-Event-Id", "Origin", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// headersFor returns the headers with the credentials. It returns Forbidden for credentials
// that cannot be in a header, and Invalid for reserved headers.
func headersFor(a connector.Access) (http.Header, error) {
	entries, err := texts(a.Entries)
	if err != nil {
		return nil, err
	}
	headers := http.Header{"User-Agent": {"collab"}}
	for _, name := range slices.Sorted(maps.Keys(a.Carriers)) {
		key, ok := headerName(name)
		if !ok {
			return nil, fault.New(fault.Invalid, "The connector's credentials go into a header that is not theirs")
		}
		value, ok := expand(a.Carriers[name], entries)
		if !ok {
			continue
		}
		if value, ok = latin1(value); !ok {
			return nil, credentialsNotSendable()
		}
		headers[key] = []string{value}
	}
	if token := entries[connector.AccessToken]; a.Auth.UsesOAuth() && token != "" {
		value, ok := latin1("Bearer " + token)
		if !ok {
			return nil, credentialsNotSendable()
		}
		headers["Authorization"] = []string{value}
	}
	return headers, nil
}

func credentialsNotSendable() error {
	return fault.New(fault.Forbidden, "The credentials hold characters that cannot be sent")
}

// texts returns the credentials that are strings, without surrounding space, which copied
// keys often have.
func texts(entries string) (map[string]string, error) {
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
		name, after, found := strings.Cut(rest, "}")
		if !found {
			b.WriteString("{" + rest)
			return b.String(), true
		}
		if entries[name] == "" {
			return "", false
		}
		b.WriteString(entries[name])
		pattern = after
	}
}

// headerName returns the canonical form of a header's name; false if it is invalid or
// reserved.
func headerName(name string) (string, bool) {
	if !httpguts.ValidHeaderFieldName(name) {
		return "", false
	}
	key := http.CanonicalHeaderKey(name)
	return key, !slices.Contains(reserved, key) && !strings.HasPrefix(key, "Mcp-") && !strings.HasPrefix(key, "Proxy-") && !strings.HasPrefix(key, "Sec-")
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
