// Package catalog reads the catalog of tool servers from JSON: the built-in one, or a
// file of the deployment.
package catalog

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"collab/adapters/loopback"
	"collab/adapters/strictjson"
	"collab/domain/check"
	"collab/domain/connector"
)

// Limits of a catalog, for texts in characters unless stated otherwise.
const (
	maxBytes       = 1 << 20
	maxProviders   = 500
	maxClients     = 100
	maxDescription = 1000
	maxFields      = 20
	maxTemplates   = 20
	maxCommand     = 50   // words
	maxWord        = 1000 // of a command, or of a credential template, in bytes
	maxScopes      = 50
	maxScope       = 200  // bytes
	maxSecret      = 4096 // of a client's id or secret, in bytes
)

var (
	slug        = regexp.MustCompile(`\A[a-z0-9][a-z0-9-]{0,63}\z`)
	fieldName   = regexp.MustCompile(`\A[a-zA-Z][a-zA-Z0-9_]{0,63}\z`)
	headerName  = regexp.MustCompile("\\A[0-9A-Za-z!#$%&'*+.^_`|~-]{1,100}\\z")
	variable    = regexp.MustCompile(`\A[A-Z_][A-Z0-9_]{0,99}\z`)
	scope       = regexp.MustCompile(`\A[\x21\x23-\x5B\x5D-\x7E]+\z`) // RFC 6749, 3.3
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
)

// reservedHeaders are the headers, in lower case, that HTTP and the Model Context Protocol set;
// reservedPrefixes are prefixes of others.
var (
	reservedHeaders = []string{
		"accept", "accept-charset", "accept-encoding", "connection", "expect", "host", "http2-settings", "keep-alive", "last-event-id", "origin",
		"te", "trailer", "transfer-encoding", "upgrade",
	}
	reservedPrefixes = []string{"content-", "mcp-", "proxy-", "sec-"}
)

//go:embed catalog.json
var builtIn []byte

// BuiltIn returns the built-in catalog.
func BuiltIn() (connector.Catalog, error) { return Parse(builtIn) }

// Parse returns a catalog: a JSON object with providers, which are records with the fields
// of GET /connector-providers and some others, and with clients. If builtIn is true, the
// built-in providers precede them, and one with the same serverId replaces the built-in
// one. Unknown fields are errors. An error names the entry and the field and contains no
// secret.
func Parse(data []byte) (connector.Catalog, error) {
	f, err := decode(data)
	if err != nil {
		return connector.Catalog{}, err
	}
	if !f.builtIn {
		return connector.NewCatalog(f.providers, f.clients), nil
	}
	base, err := decode(builtIn)
	if err != nil {
		return connector.Catalog{}, fmt.Errorf("built-in catalog: %w", err)
	}
	all := base.providers
	for _, p := range f.providers {
		if i := slices.IndexFunc(all, func(other connector.Provider) bool { return other.ID == p.ID }); i >= 0 {
			all[i] = p
		} else {
			all = append(all, p)
		}
	}
	return connector.NewCatalog(all, f.clients), nil
}

// file is a decoded catalog file.
type file struct {
	builtIn   bool
	providers []connector.Provider
	clients   map[string]connector.Client // by issuer
}

// decode decodes a catalog file.
func decode(data []byte) (file, error) {
	f := file{clients: map[string]connector.Client{}}
	d, err := strictjson.NewDecoder(data, maxBytes)
	if err != nil {
		return f, err
	}
	seen, err := strictjson.Object(d, "a catalog", map[string]any{
		"builtIn":   &f.builtIn,
		"providers": func() error { return strictjson.Array(d, "providers", "providers", maxProviders, f.readProvider) },
		"clients":   func() error { return strictjson.Array(d, "clients", "clients", maxClients, f.readClient) },
	})
	if err != nil {
		return f, err
	}
	if err := strictjson.End(d, "object"); err != nil {
		return f, err
	}
	if !seen["providers"] && !f.builtIn {
		return f, errors.New("providers: must be given unless builtIn is true")
	}
	return f, nil
}

// readProvider reads the provider with index i.
func (f *file) readProvider(d *json.Decoder, i int) error {
	e := entry{Provider: connector.Provider{Enabled: true}}
	err := e.decode(d)
	if err == nil {
		err = e.check()
	}
	if err == nil && slices.ContainsFunc(f.providers, func(other connector.Provider) bool { return other.ID == e.ID }) {
		err = errors.New("serverId: must not be another provider's")
	}
	if err != nil {
		return fmt.Errorf("provider %d %q: %w", i+1, strictjson.Shorten(e.ID), err)
	}
	f.providers = append(f.providers, e.Provider)
	return nil
}

// readClient reads the client with index i. Its errors quote no value: a secret may be in the
// wrong field.
func (f *file) readClient(d *json.Decoder, i int) error {
	var issuer string
	var c connector.Client
	seen, err := strictjson.Object(d, "a client", map[string]any{
		"issuer": &issuer, "clientId": &c.ID, "clientSecret": &c.Secret, "authMethod": &c.Method,
	})
	if err == nil {
		err = checkClient(issuer, c, seen)
	}
	if err == nil {
		if _, taken := f.clients[issuer]; taken {
			err = errors.New("issuer: must not be another client's")
		}
	}
	if err != nil {
		return fmt.Errorf("client %d: %w", i+1, err)
	}
	if c.Method == "" {
		c.Method = "none"
		if c.Secret != "" {
			c.Method = "client_secret_basic"
		}
	}
	f.clients[issuer] = c
	return nil
}

// checkClient returns an error that names the invalid field of a client. Seen has the fields in the file.
func checkClient(issuer string, c connector.Client, seen map[string]bool) error {
	if err := checkURL("issuer", issuer); err != nil {
		return err
	}
	switch {
	case strings.ContainsAny(issuer, "?#"):
		return errors.New("issuer: must be without a query or a fragment")
	case !printable(c.ID, maxSecret):
		return fmt.Errorf("clientId: must be 1 to %d visible ASCII characters", maxSecret)
	case seen["clientSecret"] && !printable(c.Secret, maxSecret):
		return fmt.Errorf("clientSecret: must be 1 to %d visible ASCII characters, or left out", maxSecret)
	}
	switch c.Method {
	case "client_secret_basic", "client_secret_post":
		if c.Secret == "" {
			return errors.New("authMethod: must be none, or left out, without a clientSecret")
		}
	case "none":
		if c.Secret != "" {
			return errors.New("authMethod: must not be none with a clientSecret")
		}
	default:
		if seen["authMethod"] {
			return errors.New("authMethod: must be client_secret_basic, client_secret_post or none, or left out")
		}
	}
	return nil
}

// entry is a provider of the file. Its credential templates are headers or environment variables,
// depending on its transport.
type entry struct {
	connector.Provider
	headers, env map[string]string
	seen         map[string]bool // the fields in the file
}

// decode reads the entry. After an error it has the fields before the error.
func (e *entry) decode(d *json.Decoder) (err error) {
	e.seen, err = strictjson.Object(d, "a provider", map[string]any{
		"serverId": &e.ID, "displayName": &e.Name, "description": &e.Description, "iconUrl": &e.IconURL, "category": &e.Category,
		"authMode": &e.Auth, "mcpTransport": &e.Transport, "mcpUrl": &e.URL, "command": &e.Command, "scopes": &e.Scopes, "enabled": &e.Enabled,
		"credentials": func() error { return strictjson.Array(d, "credentials", "credentials", maxFields, e.readCredential) },
		"headers":     func() error { return decodeStrings(d, "headers", &e.headers) },
		"env":         func() error { return decodeStrings(d, "env", &e.env) },
	})
	return err
}

// readCredential reads the credential with index i.
func (e *entry) readCredential(d *json.Decoder, i int) error {
	var f connector.Field
	if _, err := strictjson.Object(d, "credentials", map[string]any{"name": &f.Name, "label": &f.Label, "optional": &f.Optional}); err != nil {
		return fmt.Errorf("credentials[%d]: %w", i, err)
	}
	e.Fields = append(e.Fields, f)
	return nil
}

// check checks the entry and sets its credential templates.
func (e *entry) check() error {
	if !slug.MatchString(e.ID) {
		return errors.New("serverId: must be 1 to 64 lower-case letters, digits and hyphens")
	}
	if err := checkText("displayName", e.Name, check.MaxName); err != nil {
		return err
	}
	if err := checkText("description", e.Description, maxDescription); err != nil {
		return err
	}
	if e.seen["iconUrl"] {
		if err := checkURL("iconUrl", e.IconURL); err != nil {
			return err
		}
	}
	if e.seen["category"] && !slug.MatchString(e.Category) {
		return errors.New("category: must be 1 to 64 lower-case letters, digits and hyphens, or left out")
	}
	switch e.Auth {
	case connector.ServerMediated, connector.RemoteOAuth, connector.APIKey, connector.NoAuth:
	default:
		return errors.New("authMode: must be SERVER_MEDIATED, REMOTE_OAUTH, API_KEY or NONE")
	}
	var err error
	switch e.Transport {
	case connector.Stdio:
		err = e.checkLocal()
	case connector.SSE, connector.HTTP:
		err = e.checkRemote()
	default:
		err = errors.New("mcpTransport: must be STDIO, SSE or HTTP")
	}
	if err != nil {
		return err
	}
	return e.checkCredentials()
}

// checkLocal checks the fields of a server that the client runs.
func (e *entry) checkLocal() error {
	switch {
	case e.Auth.UsesOAuth():
		return errors.New("authMode: must be API_KEY or NONE with the transport STDIO")
	case e.seen["mcpUrl"]:
		return errors.New("mcpUrl: must not be given with the transport STDIO")
	case e.seen["headers"]:
		return errors.New("headers: must not be given with the transport STDIO")
	case len(e.Command) == 0 || len(e.Command) > maxCommand:
		return fmt.Errorf("command: must be 1 to %d words with the transport STDIO", maxCommand)
	}
	for i, word := range e.Command {
		if word == "" || len(word) > maxWord || strings.ContainsFunc(word, unicode.IsControl) {
			return fmt.Errorf("command[%d]: must be 1 to %d bytes without control characters", i, maxWord)
		}
	}
	for name, value := range e.env {
		switch {
		case !variable.MatchString(name):
			return fmt.Errorf("env: %q: must be 1 to 100 capital letters, digits and _, and begin with no digit", strictjson.Shorten(name))
		case value == "" || len(value) > maxWord || strings.ContainsFunc(value, unicode.IsControl):
			return fmt.Errorf("env: %s: must be 1 to %d bytes without control characters", name, maxWord)
		}
	}
	e.CredentialTemplates = e.env
	return e.checkPlaceholders("env")
}

// checkRemote checks the fields of a server that its provider runs.
func (e *entry) checkRemote() error {
	if e.seen["command"] {
		return errors.New("command: must not be given without the transport STDIO")
	}
	if e.seen["env"] {
		return errors.New("env: must not be given without the transport STDIO")
	}
	if e.seen["mcpUrl"] {
		if err := checkURL("mcpUrl", e.URL); err != nil {
			return err
		}
	}
	canonical := map[string]bool{}
	for name, value := range e.headers {
		lower := strings.ToLower(name)
		switch {
		case !headerName.MatchString(name):
			return fmt.Errorf("headers: %q: must be 1 to 100 characters of a header's name", strictjson.Shorten(name))
		case slices.Contains(reservedHeaders, lower),
			slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(lower, prefix) }):
			return fmt.Errorf("headers: %s: must not be a header that HTTP or the Model Context Protocol sets", name)
		case lower == "authorization" && e.Auth.UsesOAuth():
			return fmt.Errorf("headers: %s: must not be given, as the access token goes there", name)
		case canonical[http.CanonicalHeaderKey(name)]:
			return fmt.Errorf("headers: %s: must not be given twice, in whatever case", name)
		case !printable(value, maxWord) || value != strings.TrimSpace(value):
			return fmt.Errorf("headers: %s: must be 1 to %d visible ASCII characters without spaces around them", name, maxWord)
		}
		canonical[http.CanonicalHeaderKey(name)] = true
	}
	e.CredentialTemplates = e.headers
	return e.checkPlaceholders("headers")
}

// checkPlaceholders checks that every {name} in a credential template is an entry of the
// credentials, and that there are no other braces.
func (e *entry) checkPlaceholders(field string) error {
	for name, value := range e.CredentialTemplates {
		for _, p := range placeholder.FindAllString(value, -1) {
			if !slices.ContainsFunc(e.Fields, func(f connector.Field) bool { return p == "{"+f.Name+"}" }) {
				return fmt.Errorf("%s: %s: must have in braces only names of credentials", field, name)
			}
		}
		if strings.ContainsAny(placeholder.ReplaceAllString(value, ""), "{}") {
			return fmt.Errorf("%s: %s: must have each brace in a pair", field, name)
		}
	}
	return nil
}

// checkCredentials checks the credentials and scopes.
func (e *entry) checkCredentials() error {
	if e.Auth != connector.APIKey && e.seen["credentials"] {
		return errors.New("credentials: must not be given without the mode API_KEY")
	}
	if e.Auth == connector.APIKey && len(e.Fields) == 0 {
		return errors.New("credentials: must be one at least with the mode API_KEY")
	}
	anyUsed := false
	for i, f := range e.Fields {
		if !fieldName.MatchString(f.Name) || slices.ContainsFunc(e.Fields[:i], func(other connector.Field) bool { return other.Name == f.Name }) {
			return fmt.Errorf("credentials[%d]: name: must be 1 to 64 letters, digits and _, begin with a letter, and not be given twice", i)
		}
		if err := checkText("label", f.Label, check.MaxName); err != nil {
			return fmt.Errorf("credentials[%d]: %w", i, err)
		}
		used := false
		for _, value := range e.CredentialTemplates {
			used = used || strings.Contains(value, "{"+f.Name+"}")
		}
		if !used && !f.Optional {
			return fmt.Errorf("credentials[%d]: name: must be in headers or env, in braces, unless it is optional", i)
		}
		anyUsed = anyUsed || used
	}
	if e.Auth == connector.APIKey && e.Transport.Hosting() == connector.Cloud && !anyUsed {
		return errors.New("headers: must have one at least that uses an entry of the credentials")
	}
	if e.seen["scopes"] && !e.Auth.UsesOAuth() {
		return errors.New("scopes: must not be given without OAuth")
	}
	if len(e.Scopes) > maxScopes {
		return fmt.Errorf("scopes: must be at most %d", maxScopes)
	}
	for i, s := range e.Scopes {
		if len(s) > maxScope || !scope.MatchString(s) || slices.Contains(e.Scopes[:i], s) {
			return fmt.Errorf("scopes[%d]: must be 1 to %d characters of a scope, and not be given twice", i, maxScope)
		}
	}
	return nil
}

// checkURL returns an error unless the value is an absolute https URL, or an http URL of a loopback host.
func checkURL(field, value string) error {
	invalid := fmt.Errorf("%s: must be an https address of at most %d characters, without a user or a fragment; "+
		"http only of this machine", field, check.MaxURL)
	if len(value) > check.MaxURL || !printable(value, check.MaxURL) || strings.ContainsAny(value, " #") {
		return invalid
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return invalid
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback.IsHost(u.Hostname()) {
		return nil
	}
	return invalid
}

// checkText returns an error unless the value is 1 to limit characters that can be shown in one line.
func checkText(field, value string, limit int) error {
	if value == "" || value != strings.TrimSpace(value) || utf8.RuneCountInString(value) > limit || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("%s: must be 1 to %d characters without control characters or spaces around them", field, limit)
	}
	return nil
}

// printable reports whether s is 1 to limit bytes of printable ASCII.
func printable(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// decodeStrings decodes an object of at most maxTemplates strings.
func decodeStrings(d *json.Decoder, field string, into *map[string]string) error {
	invalid := fmt.Errorf("%s: must be an object of texts", field)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return invalid
	}
	values := map[string]string{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return invalid
		}
		name, _ := key.(string)
		value, err := d.Token()
		if err != nil {
			return invalid
		}
		content, ok := value.(string)
		_, duplicate := values[name]
		switch {
		case !ok:
			return invalid
		case duplicate:
			return fmt.Errorf("%s: %q: must not be given twice", field, strictjson.Shorten(name))
		case len(values) == maxTemplates:
			return fmt.Errorf("%s: must be at most %d", field, maxTemplates)
		}
		values[name] = content
	}
	if _, err := d.Token(); err != nil {
		return invalid
	}
	*into = values
	return nil
}
