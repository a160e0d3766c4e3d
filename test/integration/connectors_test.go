package integration

import (
	"context"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"collab/domain/connector"
	"collab/test/authserver"
	"collab/test/collabd"
	"collab/test/forms"
	"collab/test/must"
	"collab/test/toolserver"
)

// toolsKey is the key of the tool server that uses keys.
const toolsKey = "key-of-the-tools-of-the-integration-tests"

// connectorTest has servers, their database, and the tool servers of these connectors:
//
//	notes      lets people in by the authorization server
//	known      does by another one, at which we are known beforehand
//	search     takes the key
//	elsewhere  has its address in config.url, and takes any key
type connectorTest struct {
	testing.TB
	servers   []*collabd.Server
	first     *collabd.Server
	database  database
	rows      *sql.DB
	auth      *authserver.Server
	preferred *authserver.Server
	notes     *toolserver.Server
	search    *toolserver.Server
	ada, ben  collabd.Client // an owner and a member
	postgres  bool
}

// withConnectors runs a test on SQLite with one server and on Postgres with two, side by
// side: most of it is waiting.
func withConnectors(t *testing.T, test func(p *connectorTest), settings ...string) {
	onBoth(t, func(t *testing.T, d database) {
		t.Parallel()
		test(newConnectorTest(t, d, settings...))
	})
}

func newConnectorTest(t *testing.T, d database, settings ...string) *connectorTest {
	t.Helper()
	p := &connectorTest{
		TB: t, database: d, rows: d.rows(t), postgres: d.driver == "pgx", auth: authserver.Start(t, "/tenant"), preferred: authserver.Start(t, ""),
		notes: toolserver.Start(t), search: toolserver.Start(t),
	}
	p.notes.Protect(p.auth.Issuer, "notes:read")
	p.notes.RequireBearer(p.auth.Valid)
	p.auth.Set(func(s *authserver.Script) { s.Refreshing, s.RevokesOnReuse = authserver.RotateToken, true })
	p.search.Require("X-Api-Key", toolsKey)
	known := toolserver.Start(t)
	known.Protect(p.preferred.Issuer)
	known.RequireBearer(p.preferred.Valid)
	p.preferred.Set(func(s *authserver.Script) { s.Documents = true })

	catalog := filepath.Join(t.TempDir(), "connectors.json")
	text := fmt.Sprintf(`{"providers": [
		{"serverId": "notes", "displayName": "Notes", "description": "Notes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[1]q},
		{"serverId": "known", "displayName": "Known", "description": "Known.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[2]q},
		{"serverId": "search", "displayName": "Search", "description": "Finds.", "authMode": "API_KEY", "mcpTransport": "HTTP", "mcpUrl": %[3]q,
		 "credentials": [{"name": "apiKey", "label": "Key"}], "headers": {"X-Api-Key": "{apiKey}"}},
		{"serverId": "elsewhere", "displayName": "Elsewhere", "description": "Any.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		 "credentials": [{"name": "apiKey", "label": "Key"}], "headers": {"Authorization": "Bearer {apiKey}"}}
	], "clients": [{"issuer": %[4]q, "clientId": "ours", "clientSecret": "secret-of-ours-9f3c"}]}`,
		p.notes.HTTP(), known.HTTP(), p.search.HTTP(), p.preferred.Issuer)
	must.NoError(t, os.WriteFile(catalog, []byte(text), 0o600))
	p.servers = d.start(t, append([]string{
		"COLLAB_CONNECTORS_FILE=" + catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8,::1/128", "COLLAB_ADMIN_SECRET=" + collabd.AdminSecret,
	}, settings...)...)
	p.first = p.servers[0]
	p.preferred.Know("ours", "secret-of-ours-9f3c", "client_secret_basic", connector.Redirect(p.first.URL+"/api/v1/mcp-oauth/callback", p.preferred.Issuer))
	p.ada, p.ben = p.first.SignIn(p, "ada@example.com", "Plant", "owner"), p.first.SignIn(p, "ben@example.com", "Plant", "member")
	return p
}

// server returns the server with the number, modulo the number of servers.
func (p *connectorTest) server(n int) *collabd.Server { return by(p.servers, n) }

// exec executes a statement, which must change one row.
func (p *connectorTest) exec(statement string) {
	p.Helper()
	if n := p.change(statement); n != 1 {
		p.Fatalf("%s changed %d rows", statement, n)
	}
}

// expire makes the token of a connector expired and due for renewal.
func (p *connectorTest) expire(connector string) {
	p.Helper()
	p.exec("UPDATE connectors SET expires_at = 2000, renew_at = 1000, due_at = 1000 WHERE id = '" + connector + "'")
}

func (p *connectorTest) change(statement string) int64 {
	p.Helper()
	done := must.Do(p.rows.ExecContext(p.Context(), statement)).Or(p)
	return must.Do(done.RowsAffected()).Or(p)
}

// count returns the number that a query returns.
func (p *connectorTest) count(query string) (n int) {
	p.Helper()
	if err := p.rows.QueryRowContext(context.WithoutCancel(p.Context()), query).Scan(&n); err != nil {
		p.Fatalf("%s: %v", query, err)
	}
	return n
}

// instance is a connector as clients see it.
type instance struct {
	ID, ServerID, Status string
	LastError            *string
	Tools                []struct{ Name string }
	HasCredentials       bool
}

func (i instance) error() string {
	if i.LastError == nil {
		return ""
	}
	return *i.LastError
}

func (p *connectorTest) create(c collabd.Client, body map[string]any) (i instance) {
	p.Helper()
	c.Must(p, 201, "POST", "/connectors", body, &i)
	return i
}

func (p *connectorTest) get(c collabd.Client, id string) instance {
	p.Helper()
	var all []instance
	c.Must(p, 200, "GET", "/connectors", nil, &all)
	at := slices.IndexFunc(all, func(i instance) bool { return i.ID == id })
	if at < 0 {
		p.Fatalf("there is no connector %s in %v", id, all)
	}
	return all[at]
}

// awaitStatus waits for a status.
func (p *connectorTest) awaitStatus(c collabd.Client, id, status string) (i instance) {
	p.Helper()
	must.Wait(p, "the connector is "+status, func() bool {
		i = p.get(c, id)
		return i.Status == status
	})
	return i
}

type flow struct{ AuthURL, State, InstanceID string }

// start begins an authorization.
func (p *connectorTest) start(c collabd.Client, body map[string]any) (f flow) {
	p.Helper()
	c.Must(p, 200, "POST", "/mcp-oauth/start", body, &f)
	return f
}

type pollResult struct {
	Status, InstanceID string
	Error              *string
}

func (p *connectorTest) poll(c collabd.Client, f flow) (was pollResult) {
	p.Helper()
	c.Must(p, 200, "GET", "/mcp-oauth/poll?state="+url.QueryEscape(f.State), nil, &was)
	return was
}

// browser is a user's browser, which follows no redirects by itself.
type browser struct {
	*http.Client
	token string // of the last form
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	b := &browser{Client: forms.New(t).Client}
	b.Timeout = patience
	return b
}

// at returns the address with the origin of a server.
func at(s *collabd.Server, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return s.URL + u.RequestURI()
}

var input = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// confirm opens the page on one server, presses its button on another, and returns
// the address that it redirects to.
func (b *browser) confirm(page string, shown, pressed *collabd.Server) (*url.URL, error) {
	response, text, err := whole(b.Get(at(shown, page)))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the page is %s: %s", response.Status, text)
	}
	form := url.Values{}
	for _, field := range input.FindAllStringSubmatch(text, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	b.token = form.Get("token")
	response, text, err = whole(b.PostForm(at(pressed, page[:strings.Index(page, "?")]), form))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("the form is %s: %s", response.Status, text)
	}
	return response.Location()
}

// confirmed calls confirm and ends the test on an error.
func (p *connectorTest) confirmed(b *browser, page string, shown, pressed *collabd.Server) *url.URL {
	p.Helper()
	return must.Do(b.confirm(page, shown, pressed)).Or(p)
}

// finish opens an address on a server, and returns the status with the page.
func (b *browser) finish(address string, s *collabd.Server) (int, string, error) {
	response, text, err := whole(b.Get(at(s, address)))
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, text, nil
}

// whole returns a response with its body, which it reads and closes.
func whole(response *http.Response, err error) (*http.Response, string, error) {
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

func (p *connectorTest) finished(b *browser, address string, s *collabd.Server, want int) string {
	p.Helper()
	status, text, err := b.finish(address, s)
	if err != nil || status != want {
		p.Fatalf("the answer is %d, want %d: %v, %s", status, want, err, text)
	}
	return text
}

// approved returns the callback of an approved authorization.
func (p *connectorTest) approved(of *authserver.Server, b *browser, f flow) *url.URL {
	p.Helper()
	return must.Do(of.Approve(p.confirmed(b, f.AuthURL, p.server(1), p.server(0)).String())).Or(p)
}

// authorised returns the id of a new connector that was authorised and tested.
func (p *connectorTest) authorised(c collabd.Client, body map[string]any) string {
	p.Helper()
	f, b := p.start(c, body), newBrowser(p)
	p.finished(b, p.approved(p.auth, b, f).String(), p.first, 200)
	p.awaitStatus(c, f.InstanceID, "CONNECTED")
	return f.InstanceID
}

// token returns the access token that a member reads.
func (p *connectorTest) token(c collabd.Client, id string) string {
	p.Helper()
	var read struct{ Credentials struct{ AccessToken string } }
	c.Must(p, 200, "GET", "/connectors/"+id+"/credentials", nil, &read)
	return read.Credentials.AccessToken
}

func TestAnAuthorizationOverServers(t *testing.T) {
	withConnectors(t, func(p *connectorTest) {
		one, two := p.server(0), p.server(1)
		f, b := p.start(p.ada.At(one), map[string]any{"providerId": "notes"}), newBrowser(p)
		if got := p.poll(p.ada.At(two), f); got.Status != "pending" || got.InstanceID != f.InstanceID {
			p.Errorf("it is %+v", got)
		}
		page := p.confirmed(b, f.AuthURL, two, two)
		back := must.Do(p.auth.Approve(page.String())).Or(p)
		p.finished(b, back.String(), one, 200)
		if got := p.poll(p.ada.At(two), f); got.Status != "ready" || got.InstanceID != f.InstanceID {
			p.Errorf("it is %+v", got)
		}
		if i := p.awaitStatus(p.ben.At(two), f.InstanceID, "CONNECTED"); len(i.Tools) != 1 || i.Tools[0].Name != "echo" || !i.HasCredentials {
			p.Errorf("the connector is %+v", i)
		}
		token := p.token(p.ben.At(two), f.InstanceID)
		if !p.auth.Valid(token) {
			p.Errorf("the token %q does not let in", token)
		}

		// Both servers find the token expired at once, and one of them refreshes it.
		requests := len(p.auth.Requests(authserver.Token))
		p.expire(f.InstanceID)
		if got := atOnce(p, 8, func(i int) (int, []byte, error) {
			return p.ben.At(p.server(i)).Do("GET", "/connectors/"+f.InstanceID+"/credentials", nil)
		}); got[200] != 8 {
			p.Errorf("statuses %v", got)
		}
		expired := token
		token = p.token(p.ben.At(one), f.InstanceID)
		if n := len(p.auth.Requests(authserver.Token)) - requests; n != 1 || p.auth.Reused() != 0 || token == expired || !p.auth.Valid(token) {
			p.Errorf("%d renewals, %d of them with a used refresh token; the new token is %q after %q", n, p.auth.Reused(), token, expired)
		}

		// The token of a connector that is deleted while the authorization server is down is revoked later.
		p.auth.Fail(authserver.Revocation, authserver.Status(503), 1)
		p.ben.At(two).Must(p, 200, "DELETE", "/connectors/"+f.InstanceID, nil, nil)
		must.Wait(p, "the failure is noted", func() bool { return p.count("SELECT count(*) FROM connector_revocations WHERE attempts = 1") == 1 })
		if !p.auth.Valid(token) || len(p.auth.Revoked()) != 0 {
			p.Error("it was taken back by a server that is down")
		}
		p.exec("UPDATE connector_revocations SET due_at = 0")
		must.Wait(p, "it is taken back", func() bool { return !p.auth.Valid(token) })
		must.Wait(p, "that is forgotten", func() bool { return p.count("SELECT count(*) FROM connector_revocations") == 0 })
		if n := p.count("SELECT count(*) FROM connector_credentials") + p.count("SELECT count(*) FROM connector_flows"); n != 0 {
			p.Errorf("%d records are left", n)
		}
	})
}

// TestAnAuthorizationByAMetadataDocument has the authorization server take a client's metadata
// document, which only a client that is reached over https has.
func TestAnAuthorizationByAMetadataDocument(t *testing.T) {
	p := newConnectorTest(t, sqliteDatabase(t))
	p.first.Stop(t)
	to := &url.URL{Scheme: "http"}
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	t.Cleanup(front.Close)
	certificate := filepath.Join(t.TempDir(), "front.pem")
	must.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600))
	behind := p.first.Peer(t, "COLLAB_PUBLIC_URL="+front.URL, "SSL_CERT_FILE="+certificate)
	to.Host = strings.TrimPrefix(behind.URL, "http://")
	ada, public, b := behind.SignIn(t, "ada@example.com", "Plant", "owner"), &collabd.Server{URL: front.URL}, newBrowser(t)
	b.Transport = front.Client().Transport

	var client struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
	}
	key := connector.IssuerKey(p.auth.Issuer)
	document := public.URL + "/api/v1/mcp-oauth/client-metadata/" + key
	if status, text, err := b.finish(document, public); err != nil || status != 200 || json.Unmarshal([]byte(text), &client) != nil || client.ID != document {
		t.Fatalf("the document is %d %s, %v", status, text, err)
	}
	p.auth.Know(client.ID, "", "none", client.Redirects...)
	p.auth.Set(func(s *authserver.Script) { s.Documents = true })

	f := p.start(ada, map[string]any{"providerId": "notes"})
	back := must.Do(p.auth.Approve(p.confirmed(b, f.AuthURL, public, public).String())).Or(t)
	p.finished(b, back.String(), public, 200)
	p.awaitStatus(ada, f.InstanceID, "CONNECTED")
	if !strings.HasSuffix(back.Path, "/callback/document-"+key) || len(p.auth.Requests(authserver.Registration)) > 0 {
		t.Errorf("the callback is %s after %d registrations", back, len(p.auth.Requests(authserver.Registration)))
	}
	if got := p.auth.Requests(authserver.Token)[0].Form.Get("client_id"); got != document || !p.auth.Valid(p.token(ada, f.InstanceID)) {
		t.Errorf("the token's client is %s", got)
	}
}
