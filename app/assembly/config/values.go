package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"collab/adapters/loopback"
	"collab/adapters/outbound"
	"collab/domain/id"
)

// redacted is printed in place of a secret.
const redacted = "…"

// Secret is a value that is never printed: formatting, logging and encoding give redacted. The
// zero value is not set.
type Secret struct {
	value *string // behind a pointer, because fmt calls no methods of unexported fields
}

// newSecret returns a secret with the value; an empty one is not set.
func newSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// Value returns the secret itself, which must not be printed.
func (s Secret) Value() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String returns redacted, or "" if the secret is not set.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// Format writes what String returns, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText returns what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) secrets() []string { return []string{s.Value()} }

// Secrets is a list of secrets. An empty list that is set differs from one that is not set.
type Secrets struct {
	IsSet bool
	all   []Secret
}

// Values returns the non-empty secrets without surrounding spaces. They must not be printed.
func (s Secrets) Values() []string {
	var all []string
	for _, one := range s.all {
		if v := strings.TrimSpace(one.Value()); v != "" {
			all = append(all, v)
		}
	}
	return all
}

func (s Secrets) secrets() []string { return s.Values() }

// URL is an address that may contain credentials, which are never printed. The zero value is
// not set.
type URL struct{ full Secret }

// NewURL returns the URL of a text.
func NewURL(text string) URL { return URL{newSecret(text)} }

// IsSet reports whether there is an address.
func (u URL) IsSet() bool { return u.full.IsSet() }

// Text returns the whole address, credentials included, which must not be printed.
func (u URL) Text() string { return u.full.Value() }

// Scheme returns the part before "://", with "postgres" for "postgresql".
func (u URL) Scheme() string {
	s, _, _ := strings.Cut(u.Text(), "://")
	if s = strings.ToLower(s); s == "postgresql" {
		return "postgres"
	}
	return s
}

// Path returns the part after "://".
func (u URL) Path() string {
	_, p, _ := strings.Cut(u.Text(), "://")
	return p
}

// Host returns the host with its port.
func (u URL) Host() string {
	if p, err := url.Parse(u.Text()); err == nil {
		return p.Host
	}
	return ""
}

// Hostname returns the host without its port.
func (u URL) Hostname() string {
	if p, err := url.Parse(u.Text()); err == nil {
		return p.Hostname()
	}
	return ""
}

// loopback reports whether the host is this machine.
func (u URL) loopback() bool { return loopback.IsHost(u.Hostname()) }

// Plaintext reports whether requests to the address leave this machine unencrypted.
func (u URL) Plaintext() bool { return u.Scheme() == "http" && !u.loopback() }

// String returns the address without credentials, parameters and fragment.
func (u URL) String() string {
	if !u.IsSet() {
		return ""
	}
	p, err := url.Parse(u.Text())
	if err != nil || p.Opaque != "" {
		kind, _, _ := strings.Cut(u.Text(), ":")
		return kind + ":" + redacted
	}
	p.User, p.RawQuery, p.Fragment = nil, "", ""
	return p.String()
}

// Format writes what String returns, whatever the verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText returns what String returns.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// secrets returns the credentials of an address, or of each in a list.
func (u URL) secrets() (all []string) {
	for _, address := range append(strings.Split(u.Text(), ","), u.Text()) {
		// The part between : and @ of an unparsable address may be a password.
		if _, rest, found := strings.Cut(address, "://"); found {
			if at := strings.LastIndexByte(rest, '@'); at >= 0 {
				_, password, _ := strings.Cut(rest[:at], ":")
				all = append(all, password)
			}
		}
		if p, err := url.Parse(address); err == nil {
			password, set := p.User.Password()
			if !set && p.Scheme != "postgres" && p.Scheme != "postgresql" {
				password = p.User.Username() // a token
			}
			all = append(all, password, p.Query().Get("password"), p.Query().Get("sslpassword"))
		}
	}
	return all
}

// check returns an error unless the address begins with one of the schemes.
func (u URL) check(schemes []string) error {
	if !u.IsSet() || slices.Contains(schemes, u.Scheme()) && (!strings.HasPrefix(u.Scheme(), "http") || u.Host() != "") {
		return nil
	}
	return fmt.Errorf("must begin with %s", alternatives(schemes, "://"))
}

// alternatives joins the allowed values, each with a suffix.
func alternatives(all []string, suffix string) string {
	last := len(all) - 1
	if last == 0 {
		return all[0] + suffix
	}
	return strings.Join(all[:last], suffix+", ") + suffix + " or " + all[last] + suffix
}

// HostPort is an address to listen on.
type HostPort string

func parseHostPort(text string) (HostPort, error) {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return "", errors.New("must be host:port, such as 127.0.0.1:8080")
	}
	return HostPort(text), nil
}

// loopback reports whether only this machine can reach the address.
func (a HostPort) loopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	return err == nil && loopback.IsHost(host)
}

// elements splits a list at its commas.
func elements(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Proxies are the addresses and networks of proxies.
type Proxies []netip.Prefix

// maxProxies is the most proxies, because a request's addresses are compared with each.
const maxProxies = 100

func parseProxies(text string) (Proxies, error) {
	all, err := outbound.ParseNetworks(text)
	if err != nil {
		return nil, err
	}
	for _, n := range all {
		if n.Bits() == 0 {
			return nil, fmt.Errorf("%q contains all addresses, so that any client could claim any address", n)
		}
	}
	if len(all) > maxProxies {
		return nil, fmt.Errorf("there are %d addresses and networks, of which %d are allowed: name networks", len(all), maxProxies)
	}
	return all, nil
}

// Hosts are names of hosts, without scheme and port.
type Hosts []string

func parseHosts(text string) (Hosts, error) {
	all := elements(text)
	for _, h := range all {
		if h == "" || strings.ContainsAny(h, "/:@ ") {
			return nil, fmt.Errorf("must be names of hosts, without scheme and port, and %q is none", h)
		}
	}
	return all, nil
}

// Origins are origins of web pages, each with at most one * for any characters.
type Origins []string

var origin = regexp.MustCompile(`^(?i:\*|null|file://|[a-z][a-z0-9+.-]*://[^/?#@* ]*\*?[^/?#@* ]*)$`)

func parseOrigins(text string) (Origins, error) {
	all := elements(text)
	for _, o := range all {
		if !origin.MatchString(o) {
			return nil, fmt.Errorf("must be origins like https://app.example.com, without a path or a slash "+
				"at the end and with at most one *, and %q is none", o)
		}
	}
	return all, nil
}

func parseOrgs(text string) (all []id.Org, err error) {
	for _, o := range elements(text) {
		org, ok := id.Parse[id.Org](o)
		if !ok {
			return nil, fmt.Errorf("must be ids of organisations, and %q is none", o)
		}
		all = append(all, org)
	}
	return all, nil
}
