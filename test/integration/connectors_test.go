package integration

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"collab/domain/connector"
	"collab/test/authserver"
	"collab/test/collabd"
	"collab/test/race"
	"collab/test/toolserver"
)

// toolsKey lets in at the tool server that takes a key.
const toolsKey = "key-of-the-tools-of-the-integration-tests"

// connectorTest is servers of ours, the database under them, and whom they connect to:
//
//	notes, calendar  let people in by the authorization server
//	known            does by another one, at which we are known beforehand
//	hostile          names an authorization server that is after others' codes
//	search           takes the key
//	elsewhere        has its address in config.url, and takes any key
//	weather          is open
type connectorTest struct {
	testing.TB
	servers   []*collabd.Server
	first     *collabd.Server
	database  database
	rows      *sql.DB
	auth      *authserver.Server
	preferred *authserver.Server
	hostile   *authserver.Server
	notes     *toolserver.Server
	search    *toolserver.Server
	ada, ben  collabd.Client // an owner and a member
	postgres  bool
	settings  []string                              // of the first server
	mallory   collabd.Client                        // of another organisation
	front     *httptest.Server                      // speaks TLS before the first server; nil: there is none
	behind    atomic.Pointer[httputil.ReverseProxy] // of front
}

// withConnectors runs a test on SQLite with one server and on Postgres with two, side by
// side: most of it is waiting.
func withConnectors(t *testing.T, test func(p *connectorTest), settings ...string) {
	onBoth(t, func(t *testing.T, d database) {
		t.Parallel()
		p := newConnectorTest(t, d, settings...)
		p.open()
		test(p)
	})
}

func newConnectorTest(t *testing.T, d database, settings ...string) *connectorTest {
	t.Helper()
	p := &connectorTest{
		TB: t, database: d, rows: d.rows(t), postgres: d.driver == "pgx", auth: authserver.Start(t, "/tenant"), preferred: authserver.Start(t, ""), hostile: authserver.Start(t, "/evil"),
		notes: toolserver.Start(t), search: toolserver.Start(t),
	}
	p.notes.Protect(p.auth.Issuer, "notes:read")
	p.notes.RequireBearer(p.auth.Valid)
	p.auth.Set(func(s *authserver.Script) { s.Refreshing, s.Punishes = authserver.Rotates, true })
	p.search.Require("X-Api-Key", toolsKey)
	known, open := toolserver.Start(t), toolserver.Start(t)
	known.Protect(p.preferred.Issuer)
	known.RequireBearer(p.preferred.Valid)
	hostile := toolserver.Start(t)
	hostile.Protect(p.hostile.Issuer)
	p.preferred.Set(func(s *authserver.Script) { s.Documents = true })

	catalog := filepath.Join(t.TempDir(), "connectors.json")
	text := fmt.Sprintf(`{"providers": [
		{"serverId": "notes", "displayName": "Notes", "description": "Notes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[1]q},
		{"serverId": "calendar", "displayName": "Calendar", "description": "Days.", "authMode": "REMOTE_OAUTH", "mcpTransport": "HTTP", "mcpUrl": %[1]q},
		{"serverId": "known", "displayName": "Known", "description": "Known.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[2]q},
		{"serverId": "hostile", "displayName": "Hostile", "description": "Takes codes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": %[6]q},
		{"serverId": "search", "displayName": "Search", "description": "Finds.", "authMode": "API_KEY", "mcpTransport": "HTTP", "mcpUrl": %[3]q,
		 "credentials": [{"name": "apiKey", "label": "Key"}], "headers": {"X-Api-Key": "{apiKey}"}},
		{"serverId": "elsewhere", "displayName": "Elsewhere", "description": "Any.", "authMode": "API_KEY", "mcpTransport": "HTTP",
		 "credentials": [{"name": "apiKey", "label": "Key"}], "headers": {"Authorization": "Bearer {apiKey}"}},
		{"serverId": "weather", "displayName": "Weather", "description": "Warm.", "authMode": "NONE", "mcpTransport": "HTTP", "mcpUrl": %[4]q}
	], "clients": [{"issuer": %[5]q, "clientId": "ours", "clientSecret": "secret-of-ours-9f3c"}]}`,
		p.notes.HTTP(), known.HTTP(), p.search.HTTP(), open.HTTP(), p.preferred.Issuer, hostile.HTTP())
	if err := os.WriteFile(catalog, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.settings = append([]string{
		"COLLAB_CONNECTORS_FILE=" + catalog, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8,::1/128", "COLLAB_ADMIN_SECRET=" + collabd.AdminSecret,
	}, settings...)
	return p
}

// open starts the servers and signs people in.
func (p *connectorTest) open() {
	p.Helper()
	p.servers = p.database.start(p, p.settings...)
	p.first = p.servers[0]
	if p.front != nil {
		to, err := url.Parse(p.first.URL)
		if err != nil {
			p.Fatal(err)
		}
		p.behind.Store(httputil.NewSingleHostReverseProxy(to))
	}
	p.preferred.Know("ours", "secret-of-ours-9f3c", "client_secret_basic", p.callback(p.preferred.Issuer))
	p.ada, p.ben = p.first.SignIn(p, "ada@example.com", "Plant", "owner"), p.first.SignIn(p, "ben@example.com", "Plant", "member")
	p.mallory = p.first.SignIn(p, "mallory@example.com", "Elsewhere", "owner")
	if p.front != nil {
		p.first.URL = p.front.URL
	}
}

// callback is where an issuer sends people back to.
func (p *connectorTest) callback(issuer string) string {
	return connector.Redirect(p.first.URL+"/api/v1/mcp-oauth/callback", issuer)
}

// server is one of the servers, by turns.
func (p *connectorTest) server(n int) *collabd.Server { return by(p.servers, n) }

// exec changes the database, which has to change rows so many.
func (p *connectorTest) exec(rows int64, statement string) {
	p.Helper()
	if n := p.change(statement); n != rows {
		p.Fatalf("%s changed %d rows, want %d", statement, n, rows)
	}
}

func (p *connectorTest) change(statement string) int64 {
	p.Helper()
	done, err := p.rows.ExecContext(p.Context(), statement)
	if err != nil {
		p.Fatal(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		p.Fatal(err)
	}
	return n
}

// count returns the number that a query has.
func (p *connectorTest) count(query string) (n int) {
	p.Helper()
	if err := p.rows.QueryRowContext(context.WithoutCancel(p.Context()), query).Scan(&n); err != nil {
		p.Fatalf("%s: %v", query, err)
	}
	return n
}

// until waits for something that is to happen in a moment.
func (p *connectorTest) until(about string, is func() bool) {
	p.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(retryDelay) {
		if time.Now().After(deadline) {
			p.Fatalf("it does not come to pass that %s", about)
		}
	}
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
	p.until("the connector is "+status, func() bool {
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

type polled struct {
	Status, InstanceID string
	Error              *string
}

func (p *connectorTest) poll(c collabd.Client, f flow) (was polled) {
	p.Helper()
	c.Must(p, 200, "GET", "/mcp-oauth/poll?state="+url.QueryEscape(f.State), nil, &was)
	return was
}

// browser is somebody's browser, which goes only where it is told to.
type browser struct {
	*http.Client
	jar *cookiejar.Jar
}

// newBrowser is a browser that takes the certificate of the proxy.
func (p *connectorTest) newBrowser() *browser {
	b := newBrowser(p)
	if p.front != nil {
		b.Transport = p.front.Client().Transport
	}
	return b
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{&http.Client{
		Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, jar}
}

// at is the same page of ours on a server.
func at(s *collabd.Server, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return s.URL + u.RequestURI()
}

var input = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// confirm opens the page on one server, presses its button on another, and returns
// where that leads.
func (b *browser) confirm(page string, shown, pressed *collabd.Server) (*url.URL, error) {
	answer, err := b.Get(at(shown, page))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the page is %s: %s", answer.Status, text)
	}
	form := url.Values{}
	for _, field := range input.FindAllSubmatch(text, -1) {
		form.Set(string(field[1]), html.UnescapeString(string(field[2])))
	}
	answer, err = b.PostForm(at(pressed, page[:strings.Index(page, "?")]), form)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSeeOther {
		return nil, fmt.Errorf("the form is %s: %s", answer.Status, text)
	}
	return answer.Location()
}

// confirmed is confirm where nothing may go wrong.
func (p *connectorTest) confirmed(b *browser, page string, shown, pressed *collabd.Server) *url.URL {
	p.Helper()
	to, err := b.confirm(page, shown, pressed)
	if err != nil {
		p.Fatal(err)
	}
	return to
}

// finish opens an address on a server, and returns the status with the page.
func (b *browser) finish(address string, s *collabd.Server) (int, string, error) {
	answer, err := b.Get(at(s, address))
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

func (p *connectorTest) finished(b *browser, address string, s *collabd.Server, want int) string {
	p.Helper()
	status, text, err := b.finish(address, s)
	if err != nil || status != want {
		p.Fatalf("the answer is %d, want %d: %v, %s", status, want, err, text)
	}
	return text
}

// approved is a callback of who goes through an authorization.
func (p *connectorTest) approved(of *authserver.Server, b *browser, f flow) *url.URL {
	p.Helper()
	back, err := of.Approve(p.confirmed(b, f.AuthURL, p.server(1), p.server(0)).String())
	if err != nil {
		p.Fatal(err)
	}
	return back
}

// authorised is a connector that went through it.
func (p *connectorTest) authorised(c collabd.Client, body map[string]any) string {
	p.Helper()
	f, b := p.start(c, body), newBrowser(p)
	p.finished(b, p.approved(p.auth, b, f).String(), p.first, 200)
	p.awaitStatus(c, f.InstanceID, "CONNECTED")
	return f.InstanceID
}

// token is the access token that a member reads.
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
		back, err := p.auth.Approve(page.String())
		if err != nil {
			p.Fatal(err)
		}
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

		// Deleted while the authorization server is down, it is taken back later.
		p.auth.Fail(authserver.Revocation, authserver.Status(503), 1)
		p.ben.At(two).Must(p, 200, "DELETE", "/connectors/"+f.InstanceID, nil, nil)
		p.until("the failure is noted", func() bool { return p.count("SELECT count(*) FROM connector_revocations WHERE attempts = 1") == 1 })
		if !p.auth.Valid(token) || len(p.auth.Revoked()) != 0 {
			p.Error("it was taken back by a server that is down")
		}
		p.exec(1, "UPDATE connector_revocations SET due_at = 0")
		p.until("it is taken back", func() bool { return !p.auth.Valid(token) })
		p.until("that is forgotten", func() bool { return p.count("SELECT count(*) FROM connector_revocations") == 0 })
		if n := p.count("SELECT count(*) FROM connector_credentials") + p.count("SELECT count(*) FROM connector_flows"); n != 0 {
			p.Errorf("%d records are left", n)
		}
	})
}

// mixedUp has a hostile authorization server send people on to the honest one, so
// that its code comes back in the flow of the hostile one (RFC 9700, section 4.4),
// whoever of the two names itself in its answers. The honest one stays usable.
func (p *connectorTest) mixedUp() {
	p.Helper()
	for _, silent := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
		about := fmt.Sprintf("the honest server without iss: %t, the hostile one: %t", silent[0], silent[1])
		p.auth.Set(func(s *authserver.Script) { s.Silent = silent[0] })
		p.hostile.Set(func(s *authserver.Script) { s.Silent = silent[1] })

		b := p.newBrowser()
		good := p.start(p.ben, map[string]any{"providerId": "notes"})
		honest := p.confirmed(b, good.AuthURL, p.server(0), p.server(1))
		callback := p.first.URL + "/api/v1/mcp-oauth/callback"
		for _, redirect := range []string{
			p.callback(p.hostile.Issuer), p.callback(p.auth.Issuer), callback,
			connector.DocumentRedirect(callback, connector.IssuerKey(p.hostile.Issuer)), connector.DocumentRedirect(callback, connector.IssuerKey(p.auth.Issuer)),
		} {
			f := p.start(p.ben, map[string]any{"providerId": "hostile"})
			asked := p.confirmed(b, f.AuthURL, p.server(0), p.server(1)).Query()
			asked.Set("client_id", honest.Query().Get("client_id"))
			asked.Set("resource", honest.Query().Get("resource"))
			asked.Set("redirect_uri", redirect)
			to := *honest
			to.RawQuery = asked.Encode()
			back, err := p.auth.Approve(to.String())
			switch {
			case err == nil:
				p.finished(b, back.String(), p.server(0), 403)
			case !errors.Is(err, http.ErrNoLocation):
				p.Fatal(err)
			}
			if n := len(p.hostile.Requests(authserver.Token)); n != 0 {
				p.Fatalf("%s: the hostile server was sent a code for %s", about, redirect)
			}
			p.ben.Must(p, 200, "DELETE", "/connectors/"+f.InstanceID, nil, nil)
		}

		back, err := p.auth.Approve(honest.String())
		if err != nil {
			p.Fatal(err)
		}
		p.finished(b, back.String(), p.server(1), 200)
		if got := p.poll(p.ben, good); got.Status != "ready" {
			p.Errorf("%s: the honest authorization is %+v", about, got)
		}
		p.ben.Must(p, 200, "DELETE", "/connectors/"+good.InstanceID, nil, nil)
	}
	p.auth.Set(func(s *authserver.Script) { s.Silent = false })
}

// TestAuthorizationsByMetadataDocumentsThatAreAttacked has both authorization servers
// know us by a document, which they fetch over TLS.
func TestAuthorizationsByMetadataDocumentsThatAreAttacked(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	certificate := filepath.Join(t.TempDir(), "front.pem")
	var p *connectorTest
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.behind.Load().ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	roots := x509.NewCertPool()
	roots.AddCert(front.Certificate())
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	p = newConnectorTest(t, sqliteDatabase(t), "COLLAB_PUBLIC_URL="+front.URL, "SSL_CERT_FILE="+certificate)
	p.front = front
	p.open()
	for _, of := range []*authserver.Server{p.auth, p.hostile} {
		of.Trust(roots)
		of.Set(func(s *authserver.Script) { s.Documents = true })
	}
	p.mixedUp()
	document := front.URL + "/api/v1/mcp-oauth/client-metadata/" + connector.IssuerKey(p.auth.Issuer)
	if clients := p.auth.Clients(); !slices.Contains(clients, document) {
		t.Errorf("the clients are %q, without %s", clients, document)
	}
}

func TestAuthorizationsThatAreAttacked(t *testing.T) {
	race.Skip(t, "its requests come one after another")
	withConnectors(t, func(p *connectorTest) {
		victim := newBrowser(p)
		redeemed := func() int { return len(p.auth.Redeemed()) }
		nothing := func(about string, f flow, c collabd.Client, status string) {
			p.Helper()
			if got := p.poll(c, f); got.Status != status {
				p.Errorf("%s: it is %+v, want %s", about, got, status)
			}
			if i := p.get(c, f.InstanceID); i.Status != "DISCONNECTED" || i.HasCredentials {
				p.Errorf("%s: the connector is %+v", about, i)
			}
		}

		// Mallory confirms, and the victim consents.
		f, hers := p.start(p.mallory, map[string]any{"providerId": "notes"}), newBrowser(p)
		back := p.approved(p.auth, hers, f)
		p.finished(victim, back.String(), p.server(1), 403)
		nothing("another browser", f, p.mallory, "pending")
		// Also where the victim has a flow of their own under way.
		own := p.start(p.ada, map[string]any{"providerId": "notes"})
		p.confirmed(victim, own.AuthURL, p.server(0), p.server(1))
		p.finished(victim, back.String(), p.server(0), 403)
		nothing("another browser with a flow", f, p.mallory, "pending")
		// A form without the page's cookie, and one of another page.
		answer, err := newBrowser(p).PostForm(at(p.first, f.AuthURL[:strings.Index(f.AuthURL, "?")]), url.Values{"state": {f.State}, "token": {"made up"}})
		if err != nil {
			p.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 403 {
			p.Errorf("a form of another site is %s", answer.Status)
		}

		// Who may ask about it.
		for _, c := range []collabd.Client{p.ada, p.ben} {
			c.Must(p, 404, "GET", "/mcp-oauth/poll?state="+f.State, nil, nil)
		}
		p.mallory.Must(p, 404, "GET", "/mcp-oauth/poll?state="+own.State, nil, nil)
		p.ben.Must(p, 404, "GET", "/mcp-oauth/poll?state="+own.State, nil, nil)

		// Answers that are changed on their way.
		ways := map[string]struct {
			change func(q url.Values)
			status int
			left   string
		}{
			"another iss":    {func(q url.Values) { q.Set("iss", p.preferred.Issuer) }, 403, "error"},
			"no iss":         {func(q url.Values) { q.Del("iss") }, 403, "error"},
			"denied":         {func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }, 403, "error"},
			"another state":  {func(q url.Values) { q.Set("state", own.State) }, 403, "pending"},
			"no state":       {func(q url.Values) { q.Del("state") }, 400, "pending"},
			"iss twice":      {func(q url.Values) { q.Add("iss", p.preferred.Issuer) }, 400, "pending"},
			"state twice":    {func(q url.Values) { q.Add("state", own.State) }, 400, "pending"},
			"a made up code": {func(q url.Values) { q.Set("code", "code-made-up") }, 403, "error"},
			"two codes":      {func(q url.Values) { q.Add("code", "another") }, 400, "pending"},
		}
		for about, way := range ways {
			b := newBrowser(p)
			f := p.start(p.ben, map[string]any{"providerId": "notes"})
			back := p.approved(p.auth, b, f)
			q := back.Query()
			way.change(q)
			changed := *back
			changed.RawQuery = q.Encode()
			before := redeemed()
			p.finished(b, changed.String(), p.server(1), way.status)
			nothing(about, f, p.ben, way.left)
			if redeemed() != before {
				p.Errorf("%s: the code was redeemed", about)
			}
			if way.left == "error" { // it was used up
				p.finished(b, back.String(), p.server(0), 404)
				nothing(about, f, p.ben, "error")
			}
		}

		p.mixedUp()

		// Twice.
		b := newBrowser(p)
		f = p.start(p.ben, map[string]any{"providerId": "notes"})
		back = p.approved(p.auth, b, f)
		p.finished(b, back.String(), p.server(1), 200)
		cookies := b.jar.Cookies(back)
		again := newBrowser(p)
		again.jar.SetCookies(back, cookies)
		for _, b := range []*browser{b, again} {
			if status, text, err := b.finish(back.String(), p.server(0)); err != nil || status < 400 {
				p.Errorf("a second answer is %d, %v, %s", status, err, text)
			}
		}
		if got := p.poll(p.ben, f); got.Status != "ready" {
			p.Errorf("it is %+v", got)
		}

		// Too late.
		f = p.start(p.ben, map[string]any{"instanceId": f.InstanceID})
		back = p.approved(p.auth, b, f)
		if p.change("UPDATE connector_flows SET expires_at = 1000") == 0 {
			p.Error("there is no flow")
		}
		before := redeemed()
		p.finished(b, back.String(), p.server(1), 404)
		p.ben.Must(p, 404, "GET", "/mcp-oauth/poll?state="+f.State, nil, nil)

		// By who may no more.
		for _, change := range []func(){
			func() { p.first.SignIn(p, "ben@example.com", "Plant", "viewer") },
			func() { p.ada.Must(p, 200, "DELETE", "/org/members/"+p.ben.User, nil, nil) },
		} {
			f = p.start(p.ben, map[string]any{"providerId": "calendar"})
			back = p.approved(p.auth, b, f)
			change()
			p.finished(b, back.String(), p.server(1), 403)
			if i := p.get(p.ada, f.InstanceID); i.HasCredentials || redeemed() != before {
				p.Errorf("the connector is %+v", i)
			}
			p.ben = p.first.SignIn(p, "ben@example.com", "Plant", "member")
		}
	})
}
