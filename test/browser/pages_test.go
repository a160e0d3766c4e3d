//go:build browser

package browser

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"collab/adapters/devidp"
	"collab/test/must"
)

// identityServer starts the development identity provider without the server.
func identityServer(t *testing.T, redirects ...string) *devidp.Provider {
	t.Helper()
	var provider *devidp.Provider
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { provider.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	directory := t.TempDir()
	provider = must.Do(devidp.New(devidp.Options{
		Development: true, Listen: server.Listener.Addr().String(), PublicURL: server.URL, Redirects: redirects,
		CallbackPath: "/api/v1/auth/cli-callback", ExchangePath: "/api/v1/auth/exchange-token",
		KeyFile: filepath.Join(directory, "key"), AccountsFile: filepath.Join(directory, "accounts"),
		Clock: system{}, IDs: system{}, Secrets: system{},
		Invitation: func(context.Context, string) (devidp.Invite, error) {
			return devidp.Invite{Email: "grace@example.com", OrgID: "org_1", OrgName: "Analytical Engines", OrgSlug: "engines", Role: "ADMIN"}, nil
		},
	})).Or(t)
	return provider
}

type system struct{}

func (system) Now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

func (system) New() string { return uuid.Must(uuid.NewV7()).String() }

func (system) Secret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// account creates an account by the token endpoint.
func account(t *testing.T, provider *devidp.Provider, email, name, org, role string) {
	t.Helper()
	res := must.Do(http.PostForm(provider.Issuer()+"/token", url.Values{"email": {email}, "name": {name}, "org": {org}, "role": {role}})).Or(t)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", email, res.Status)
	}
}

var screens = []struct {
	name          string
	width, height int64
	colours       string
}{{"desktop", 1280, 800, "light"}, {"phone", 360, 740, "light"}, {"dark", 1280, 800, "dark"}}

func TestPages(t *testing.T) {
	fresh, used := identityServer(t), identityServer(t)
	account(t, used, "ada@example.com", "Ada Lovelace", "Analytical Engines", "owner")
	account(t, used, "ada@example.com", "", "Royal Society", "member")
	account(t, used, "charles.babbage@example.com", "Charles Babbage", "Analytical Engines", "member")
	account(t, used, "a-very-long-address-that-has-no-place-to-break@department.of.computation.example.com", "Augusta Ada King, Countess of Lovelace", "", "")
	authorize := used.Issuer() + "/authorize?" + url.Values{
		"client_id": {devidp.ClientID}, "redirect_uri": {strings.TrimSuffix(used.Issuer(), devidp.Prefix) + "/api/v1/auth/cli-callback"},
		"response_type": {"code"}, "scope": {"openid"}, "code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("x", 43)},
	}.Encode()

	for name, address := range map[string]string{
		"first":     fresh.SignInURL(),
		"sign-in":   used.SignInURL(),
		"authorize": authorize,
		"invite":    used.InviteURL("1"),
	} {
		t.Run(name+" fits, is labelled and loads nothing from elsewhere, on every screen", func(t *testing.T) {
			b := openTab(t)
			b.do(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("h1")))
			b.checkScreens(name)
			b.checkProblems(strings.TrimSuffix(fresh.Issuer(), devidp.Prefix), strings.TrimSuffix(used.Issuer(), devidp.Prefix))
		})
	}

	t.Run("with many accounts the page scrolls on a phone, and the list beside the other one on a wide screen", func(t *testing.T) {
		provider := identityServer(t)
		for i := range 12 {
			account(t, provider, fmt.Sprintf("person-%d@example.com", i), "", "Analytical Engines", "member")
		}
		b := openTab(t)
		b.do(chromedp.Navigate(provider.SignInURL()), chromedp.WaitVisible(chromedp.CSS("h1")))
		for width, want := range map[int64]bool{320: false, 1280: true} {
			b.resize(width, 740, "light")
			if got := read(b, chromedp.Evaluate[bool](`[...document.querySelectorAll(".list")].some((e) => e.scrollHeight > e.clientHeight)`)); got != want {
				t.Errorf("at %d a list scrolls: %t", width, got)
			}
		}
	})
	t.Run("a page that says what is wrong fits and is readable", func(t *testing.T) {
		b := openTab(t) // which also reports the status as an error
		b.do(chromedp.Navigate(used.Issuer()+"/nothing"), chromedp.WaitVisible(chromedp.CSS("h1")))
		b.checkScreens("problem")
	})
	t.Run("the first page can be sent as it is, with the keyboard alone", func(t *testing.T) {
		provider := identityServer(t)
		b := openTab(t)
		b.do(chromedp.Navigate(provider.SignInURL()))
		b.enter("E-mail address")
		b.checkScreens("session")
		b.checkText("Ada Lovelace", "Owner of Example")
		b.checkProblems(strings.TrimSuffix(provider.Issuer(), devidp.Prefix))
	})
	t.Run("fields of what is new are shown when they are chosen, and say what is wrong, with the keyboard alone", func(t *testing.T) {
		b := openTab(t)
		b.do(chromedp.Navigate(used.SignInURL()), chromedp.WaitNotVisible(chromedp.ID("email")), chromedp.WaitNotVisible(chromedp.ID("org-name")))
		send := func() {
			t.Helper()
			b.tabTo("Sign in")
			b.leadsTo(http.StatusBadRequest, chromedp.KeyEvent(kb.Enter))
		}
		b.key(kb.Tab)
		b.keyTo(kb.ArrowDown, "+")
		b.tabTo("E-mail address")
		b.key("nobody", kb.Tab)
		b.keyTo(kb.ArrowDown, "+")
		b.tabTo("Role there")
		b.key("Admin")
		send()
		b.checkInvalid("org-name", "The organisation’s name must not be empty.")
		b.key("Somewhere")
		send()
		b.checkInvalid("email", "The e-mail address must be an e-mail address.")
		b.checkScreens("mistake")
		b.key(kb.End, "@example.com")
		b.enter("Sign in")
		b.checkText("nobody@example.com", "Admin of Somewhere")
	})
	t.Run("the redirects after a sign-in may lead through the client to a local server", func(t *testing.T) {
		arrived := make(chan string, 1)
		local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/callback" {
				arrived <- r.URL.RawQuery
			}
			fmt.Fprint(w, "<h1>Done</h1>")
		}))
		t.Cleanup(local.Close)
		client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(local.URL, "127.0.0.1", "localhost", 1)+"/callback?state="+url.QueryEscape(r.FormValue("state")), http.StatusFound)
		}))
		t.Cleanup(client.Close)
		provider := identityServer(t, client.URL+"/back")
		b := openTab(t)
		b.do(chromedp.Navigate(provider.Issuer() + "/authorize?" + url.Values{
			"client_id": {devidp.ClientID}, "redirect_uri": {client.URL + "/back"}, "state": {"as it was"},
			"response_type": {"code"}, "scope": {"openid"}, "code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("x", 43)},
		}.Encode()))
		b.press("Sign in")
		select {
		case query := <-arrived:
			if query != "state=as+it+was" {
				t.Errorf("the local server was sent %s", query)
			}
		case <-b.Done():
			t.Error("nothing came to the local server")
		}
	})
}

// accessible checks that the page has a language, a title and one heading, runs no scripts, does not scroll
// horizontally, and names every control and image.
func (b *tab) accessible() {
	b.t.Helper()
	found := read(b, chromedp.Evaluate[[]string](`(() => {
		const found = []
		const must = (ok, what) => { if (!ok) found.push(what) }
		must(document.documentElement.lang === "en", "no language")
		must(document.title !== "", "no title")
		must(document.querySelectorAll("h1").length === 1, "not one heading")
		must(document.querySelectorAll("main").length === 1, "not one main part")
		must(document.scripts.length === 0, "scripts")
		must(document.documentElement.scrollWidth <= window.innerWidth, "scrolls sideways: " + document.documentElement.scrollWidth + " in " + window.innerWidth)
		for (const control of document.querySelectorAll("input:not([type=hidden]), textarea, select"))
			must(control.labels.length === 1 && control.labels[0].innerText.trim() !== "" || control.offsetParent === null, "no label: " + control.outerHTML)
		for (const group of document.querySelectorAll("fieldset"))
			must(group.querySelector("legend"), "no legend: " + group.outerHTML)
		for (const image of document.images)
			must(image.hasAttribute("alt") && (image.complete && image.naturalWidth > 0), "picture: " + image.outerHTML)
		for (const part of document.querySelectorAll("main, main *"))
			must(part.scrollWidth <= part.clientWidth + 1 || part.clientWidth === 0 || getComputedStyle(part).overflowX !== "visible" || getComputedStyle(part).display === "inline" || part.tagName === "INPUT", "runs over: " + part.outerHTML.slice(0, 80))
		return found
	})()`))
	for _, what := range found {
		b.t.Error(what)
	}
}
