//go:build browser

package browser

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/authserver"
	"collab/test/must"
	"collab/test/toolserver"
)

// pollInterval is the time between reads of a status.
const pollInterval = 50 * time.Millisecond

// connectorServer is a server with one connector to a tool server that an authorization server protects.
type connectorServer struct {
	*server
	auth  *authserver.Server
	owner session
}

// authorization is the response of /mcp-oauth/start.
type authorization struct{ AuthURL, State, InstanceID string }

// newConnectorServer starts a server whose provider notes has the name. It calls before with the server before the
// first sign-in.
func newConnectorServer(t *testing.T, name string, before func(*server), settings ...string) *connectorServer {
	t.Helper()
	w := &connectorServer{auth: authserver.Start(t, "")}
	tools := toolserver.Start(t)
	tools.Protect(w.auth.Issuer)
	tools.RequireBearer(w.auth.Valid)
	catalog := must.Do(json.Marshal(map[string]any{"providers": []any{map[string]string{
		"serverId": "notes", "displayName": name, "description": "Notes.", "authMode": "SERVER_MEDIATED", "mcpTransport": "HTTP", "mcpUrl": tools.HTTP(),
	}}})).Or(t)
	path := filepath.Join(t.TempDir(), "connectors.json")
	must.NoError(t, os.WriteFile(path, catalog, 0o600))
	w.server = startServer(t, append(settings, "COLLAB_CONNECTORS_FILE="+path, "COLLAB_CONNECTOR_NETWORKS=127.0.0.0/8,::1/128")...)
	before(w.server)
	w.owner = w.signIn("ada@collab.example", "Analytical Engines", "")
	return w
}

// direct is the argument of newConnectorServer for a server without a proxy.
func direct(*server) {}

// begin starts the authorization of a new connector.
func (w *connectorServer) begin() authorization {
	w.t.Helper()
	return decode[authorization](w.t, w.call("POST", "/mcp-oauth/start", bearer(w.owner.Token), map[string]string{"providerId": "notes"}, http.StatusOK))
}

// checkStatus fails unless the authorization has the status.
func (w *connectorServer) checkStatus(f authorization, want string) {
	w.t.Helper()
	got := decode[struct {
		Status string
		Error  *string
	}](w.t, w.call("GET", "/mcp-oauth/poll?state="+url.QueryEscape(f.State), bearer(w.owner.Token), nil, http.StatusOK))
	if got.Status != want {
		w.t.Errorf("the authorization is %s, not %s: %v", got.Status, want, got.Error)
	}
}

// waitConnected waits until the authorised connector has its tools.
func (w *connectorServer) waitConnected(b *tab, f authorization) {
	w.t.Helper()
	w.checkStatus(f, "ready")
	for tick := time.Tick(pollInterval); ; {
		for _, i := range decode[[]struct {
			ID, Status string
			Tools      []struct{ Name string }
		}](w.t, w.call("GET", "/connectors", bearer(w.owner.Token), nil, http.StatusOK)) {
			if i.ID == f.InstanceID && i.Status == "CONNECTED" && len(i.Tools) == 1 && i.Tools[0].Name == "echo" {
				return
			}
		}
		select {
		case <-tick:
		case <-b.Done():
			w.t.Fatal("the connector does not become CONNECTED")
		}
	}
}

// startTLS starts a server that logs no errors about its certificate.
func startTLS(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// startTLSProxy starts a proxy with TLS to the server with which to is called. It returns the address of the proxy and the
// file of its certificate, which the server must trust.
func startTLSProxy(t *testing.T) (address, certificate string, to func(*server)) {
	t.Helper()
	var behind *url.URL
	proxy := startTLS(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(behind)
		r.Out.Host = r.In.Host
	}})
	certificate = filepath.Join(t.TempDir(), "certificate.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}
	must.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(block), 0o600))
	return proxy.URL, certificate, func(s *server) {
		behind = must.Do(url.Parse(s.base)).Or(t)
	}
}

// leadsTo runs actions, and checks the status of the page that they load.
func (b *tab) leadsTo(status int64, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	r, err := chromedp.RunResponse(b, actions...)
	if err != nil {
		b.fail(err)
	}
	if r == nil || r.Status != status {
		b.fail(fmt.Errorf("the page is %+v, not of status %d", r, status))
	}
}

// continueLabel returns the label of the button that confirms an authorization.
func (w *connectorServer) continueLabel() string {
	return "Continue to " + strings.TrimPrefix(w.auth.URL, "http://")
}

func button(text string) string { return fmt.Sprintf(`//button[normalize-space()=%q]`, text) }

// hasProblem reports whether the browser has reported an error with the text.
func (b *tab) hasProblem(text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.problems, func(p string) bool { return strings.Contains(p, text) })
}

// checkScreens checks the page on every screen without reloading it. Without Node it does not run axe.
func (b *tab) checkScreens(name string) {
	b.t.Helper()
	whole := b.t
	for _, screen := range axeScreens {
		b.resize(screen.width, 800, screen.colours)
		b.accessible()
		b.checkPreferences()
	}
	whole.Run(name+" is accessible to everybody", func(t *testing.T) {
		b.t = t
		b.axe(name)
	})
	b.t = whole
}

// enter focuses the button or link by Tab, and loads its page by Enter.
func (b *tab) enter(text string) {
	b.t.Helper()
	b.tabTo(text)
	b.leadsTo(http.StatusOK, chromedp.KeyEvent(kb.Enter))
}

// checkInvalid checks that the field with the id has the focus, is invalid, and is described by the problem.
func (b *tab) checkInvalid(field, problem string) {
	b.t.Helper()
	b.eventually(field+", true, "+problem, func() string {
		return read(b, chromedp.Evaluate[string](`(() => {
			const field = document.activeElement
			return [field.id, field.getAttribute("aria-invalid"), document.getElementById(field.getAttribute("aria-describedby"))?.innerText].join(", ")
		})()`))
	})
}

// cookies returns the cookies for an address, by their names without the part that differs between
// authorizations.
func (b *tab) cookies(address string) map[string]*network.Cookie {
	b.t.Helper()
	got := call(b, network.GetCookies, network.GetCookiesParams{URLs: []string{address}})
	all := map[string]*network.Cookie{}
	for _, c := range got.Cookies {
		all[c.Name[:strings.LastIndex(c.Name, "_")]] = c
	}
	return all
}

func TestConnector(t *testing.T) {
	const evil = `</title></bdi></style><script>document.title = "evil"</script><img src=x onerror="document.title = 'evil'"> &lt;b&gt; {{.}}`
	name, organisation := "Provider"+evil+strings.Repeat("W", 40), "Office"+evil
	w, b := newConnectorServer(t, name, direct), openTab(t)
	w.owner = w.signIn("ada@collab.example", organisation, "")
	f := w.begin()
	b.leadsTo(http.StatusOK, chromedp.Navigate(f.AuthURL))
	b.checkScreens("connect")
	must.Is(t, "Connect "+name+" · Collab", read(b, chromedp.Title()))
	b.checkText("Connect "+name, organisation, "ada@collab.example", strings.TrimPrefix(w.auth.URL, "http://"))
	held := b.cookies(w.base)
	if c := held["collab_asked"]; len(held) != 1 || c == nil || !c.HTTPOnly || c.Secure || c.SameSite != network.CookieSameSiteLax || c.Path != "/" {
		t.Errorf("the browser holds %+v", held)
	}

	// By keyboard, then back, then by a double click.
	b.do(chromedp.KeyEvent(kb.Tab))
	must.Is(t, w.continueLabel()+", solid", read(b, chromedp.Evaluate[string](`document.activeElement.innerText + ", " + getComputedStyle(document.activeElement).outlineStyle`)))
	b.screenshot("connect-focus")
	b.leadsTo(http.StatusOK, chromedp.KeyEvent(kb.Enter))
	b.checkText("Authorization server of the tests")
	b.leadsTo(http.StatusOK, chromedp.NavigateBack())
	b.checkText("Connect " + name)
	if !read(b, chromedp.Evaluate[bool](`const form = document.forms[0]; form.requestSubmit(); form.requestSubmit(); true`)) {
		t.Error("the form is not sent")
	}
	b.do(chromedp.WaitVisible(button("Allow")))
	w.checkStatus(f, "pending")
	b.leadsTo(http.StatusOK, chromedp.Click(button("Allow")))
	b.checkText("Connected", "You can close this window.")
	b.checkScreens("connected")
	w.waitConnected(b, f)
	if held := b.cookies(w.base); held["collab_confirmed"] != nil {
		t.Errorf("the browser still holds %+v", held)
	}
	b.checkProblems(w.base, w.auth.URL)

	// A user who navigates back sees that it is done.
	b.do(chromedp.NavigateBack(), chromedp.WaitVisible(button("Allow")))
	b.leadsTo(http.StatusNotFound, chromedp.Click(button("Allow")))
	b.checkText("This authorization was used already")
	b.checkScreens("used")
	b.leadsTo(http.StatusNotFound, chromedp.Navigate(f.AuthURL))
	w.waitConnected(b, f)
	must.Is(t, 1, len(w.auth.Redeemed()))
}

// TestConnectorBehindTLS is redirected from https over https to http and back: browsers hold redirects after a
// form against the policy of its page.
func TestConnectorBehindTLS(t *testing.T) {
	address, certificate, to := startTLSProxy(t)
	w, b := newConnectorServer(t, "Notes", to, "COLLAB_PUBLIC_URL="+address, "SSL_CERT_FILE="+certificate), openTab(t)
	must.Do(chromedp.Call(b, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})).Or(t)
	front := startTLS(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, w.auth.Issuer+r.URL.RequestURI(), http.StatusFound)
	}))
	w.auth.Set(func(s *authserver.Script) {
		s.Metadata = func(m map[string]any) { m["authorization_endpoint"] = front.URL + "/authorize" }
	})

	f := w.begin()
	b.leadsTo(http.StatusOK, chromedp.Navigate(f.AuthURL))
	held := b.cookies(address)
	if c := held["__Host-collab_asked"]; len(held) != 1 || c == nil || !c.HTTPOnly || !c.Secure || c.SameSite != network.CookieSameSiteLax {
		t.Errorf("the browser holds %+v", held)
	}
	b.leadsTo(http.StatusOK, chromedp.Click(button("Continue to "+strings.TrimPrefix(front.URL, "https://"))))
	b.checkText("Authorization server of the tests")
	b.leadsTo(http.StatusOK, chromedp.Click(button("Allow")))
	b.checkText("Connected")
	w.waitConnected(b, f)
	b.checkProblems(address, front.URL, w.auth.URL)
}

func TestConnectorOfAnother(t *testing.T) {
	w, mallory, victim := newConnectorServer(t, "Notes", direct), openTab(t), openTab(t)
	f := w.begin()
	mallory.leadsTo(http.StatusOK, chromedp.Navigate(f.AuthURL))
	mallory.leadsTo(http.StatusOK, chromedp.Click(button(w.continueLabel())))
	victim.leadsTo(http.StatusOK, chromedp.Navigate(read(mallory, chromedp.Location())))
	victim.leadsTo(http.StatusForbidden, chromedp.Click(button("Allow")))
	victim.checkText("This authorization was begun in another browser")
	victim.checkScreens("refused")
	w.checkStatus(f, "pending")
	if all := w.auth.Redeemed(); len(all) != 0 {
		t.Errorf("redeemed %v", all)
	}
	mallory.leadsTo(http.StatusOK, chromedp.Click(button("Allow")))
	w.waitConnected(mallory, f)
	mallory.checkProblems(w.base, w.auth.URL)
}

// attackPage has the contents of the page of authorizations in a form and in a script, and that page in a frame.
var attackPage = template.Must(template.New("").Parse(`<!DOCTYPE html>
<title>Win a prize</title>
<form method="post" action="{{.Action}}"><input name="state" value="{{.State}}"><input name="token" value="{{.Token}}"></form>
<button onclick="document.forms[0].submit()">Send</button>
<iframe src="{{.Page}}"></iframe>
<script>
const fetched = () => fetch({{.Action}}, {
	method: "POST", mode: "no-cors", credentials: "include", body: new URLSearchParams({state: {{.State}}, token: {{.Token}}}),
}).then(() => "sent")
</script>
`))

func TestConnectorUnderAttack(t *testing.T) {
	w := newConnectorServer(t, "Notes", direct)
	f := w.begin()
	var token string
	attacker := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		action, _, _ := strings.Cut(f.AuthURL, "?")
		must.Succeed(t, attackPage.Execute(rw, map[string]string{"Action": action, "State": f.State, "Token": token, "Page": f.AuthURL}))
	}))
	t.Cleanup(attacker.Close)
	for about, address := range map[string]string{
		"another site":               attacker.URL,
		"another origin of the site": strings.Replace(attacker.URL, "127.0.0.1", "localhost", 1),
	} {
		t.Run(about, func(t *testing.T) {
			b := openTab(t)
			b.leadsTo(http.StatusOK, chromedp.Navigate(f.AuthURL))
			token = read(b, chromedp.Value(chromedp.CSS("[name=token]"))) // which other sites cannot know

			b.leadsTo(http.StatusOK, chromedp.Navigate(address))
			if !b.hasProblem("frame-ancestors 'none'") {
				t.Error("the page can be framed")
			}
			must.Is(t, "sent", read(b, chromedp.Evaluate[string](`fetched()`, chromedp.EvalAwaitPromise)))
			b.leadsTo(http.StatusForbidden, chromedp.Click(button("Send")))
			b.checkText("This form can only be sent from its own page")
			if held := b.cookies(w.base); held["collab_asked"] == nil || held["collab_confirmed"] != nil {
				t.Errorf("the browser holds %+v", held)
			}
			b.leadsTo(http.StatusOK, chromedp.Navigate(f.AuthURL))
			if again := read(b, chromedp.Value(chromedp.CSS("[name=token]"))); again != token {
				t.Error("the attack has spoilt the form of the page that was open")
			}
			must.Is(t, 0, len(w.auth.Requests(authserver.Authorization)))
		})
	}
}
