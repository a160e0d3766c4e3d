// Package console serves the web console: its files, the sign-in of browsers, and the bridge by
// which its scripts use the HTTP interface with a cookie instead of a bearer token.
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"collab/app/access"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/session"
)

// prefix is the path below which everything of the console is.
const prefix = "/console"

// CallbackPath is where the identity provider redirects browsers to after a sign-in.
const CallbackPath = prefix + "/callback"

// SignedOutPath is that of the page to which the identity provider redirects browsers that have
// signed out there.
const SignedOutPath = prefix + "/signed-out"

// Paths that are neither files nor bridged.
const (
	signInPath  = prefix + "/sign-in"
	signOutPath = prefix + "/sign-out"
	switchPath  = prefix + "/switch"
	refusedPath = prefix + "/refused" // of requests that the bridge does not admit

	operatorSignInPath  = prefix + "/operator/sign-in"
	operatorSessionPath = prefix + "/operator/session"
	operatorSignOutPath = prefix + "/operator/sign-out"
)

// accountHeader names the account of the page that sends a request, as access.WithBrowser takes it. A page
// stays open when another tab switches the organisation or signs another person in, and the
// browser sends the new session's cookie with what the page sends then.
const accountHeader = "Collab-Console-Account"

const (
	secretLength = 43  // characters of 256 bits in base64url
	maxSwitch    = 256 // bytes of the body that names an organisation
)

// Console serves the console.
type Console struct {
	access *access.Access
	files  files

	secure        bool   // cookies are for https only
	sessionCookie string // the name of the cookie with the secret of the session
	flowCookie    string // the name of the cookie with the state of a sign-in
	opCookie      string // the name of the cookie with the token of an operator's session
}

// New returns the console of a server at an address without a trailing slash. Over https the name
// of the session's cookie binds it to the host; otherwise, in development, it has the port, as
// servers of one machine share cookies.
func New(a *access.Access, publicURL string) (*Console, error) {
	u, err := url.Parse(publicURL)
	if err != nil {
		return nil, err
	}
	c := &Console{
		access: a, secure: u.Scheme == "https", sessionCookie: "__Host-collab_console",
		flowCookie: "__Secure-collab_console_sign_in", opCookie: "__Host-collab_operator",
	}
	if !c.secure {
		c.sessionCookie, c.flowCookie, c.opCookie = "collab_console_"+u.Port(), "collab_console_sign_in_"+u.Port(), "collab_operator_"+u.Port()
	}
	if c.files, err = readFiles(dist); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	return c, nil
}

// Bridge returns a handler that passes requests below the console's path followed by root to the
// interface's root, authenticated by the sessions of the cookies alone: that of a member, and below
// /admin of the root that of an operator. Authorization, the operator's secret and cookies are removed.
// It refuses what a page of this origin has not sent, and requests of a page of another account
// than the member's session's, if they name theirs. Other requests are passed on unchanged.
func (c *Console) Bridge(root string, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.EscapedPath(), prefix+root+"/") {
			api.ServeHTTP(w, r)
			return
		}
		ctx, to := r.Context(), *r.URL
		to.Path, to.RawPath = strings.TrimPrefix(to.Path, prefix), strings.TrimPrefix(to.RawPath, prefix)
		switch secret := c.secret(r); {
		case !sameOrigin(r):
			to.Path, to.RawPath = refusedPath, ""
		case strings.HasPrefix(to.EscapedPath(), root+"/admin/"):
			if _, err := c.access.VerifyOperator(cookieValue(r, c.opCookie)); err == nil {
				ctx = access.WithOperator(ctx)
			}
		case secret != "":
			ctx = access.WithBrowser(ctx, secret, r.Header.Get(accountHeader))
		}
		passed := r.WithContext(ctx)
		passed.URL, passed.Header = &to, r.Header.Clone()
		passed.Header.Del("Authorization")
		passed.Header.Del("X-Admin-Secret")
		passed.Header.Del("Cookie")
		passed.Header.Del(accountHeader)
		api.ServeHTTP(w, passed)
	})
}

// sameOrigin reports whether a page of this origin has sent the request, as browsers say.
func sameOrigin(r *http.Request) bool {
	site := r.Header["Sec-Fetch-Site"]
	return len(site) == 1 && site[0] == "same-origin"
}

// secret returns the secret of the session in a request's cookie, empty if there is none that can
// be one.
func (c *Console) secret(r *http.Request) string {
	if v := cookieValue(r, c.sessionCookie); len(v) == secretLength {
		return v
	}
	return ""
}

func cookieValue(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// IsFile reports whether the path is that of a page or another file.
func (c *Console) IsFile(path string) bool {
	switch path {
	case signInPath, CallbackPath, refusedPath:
		return false
	}
	return !scripted(path)
}

// Serve replies to a request below /console, or returns an error before anything was sent.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request, from session.Client, requestID string) error {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	origin := audit.Origin{Address: from.Address, Request: requestID}
	switch path := r.URL.Path; {
	case path == refusedPath, scripted(path) && (r.Method != http.MethodPost || !sameOrigin(r)):
		return fault.New(fault.Forbidden, "The console's own pages alone may send this request")
	case path == signOutPath:
		return c.signOut(w, r, origin)
	case path == switchPath:
		return c.switchOrganisation(w, r, from, origin)
	case path == operatorSignInPath:
		return c.beginOperator(w, r, origin)
	case path == operatorSessionPath:
		return c.renewOperator(w, r)
	case path == operatorSignOutPath:
		c.reply(w, c.operatorCookie(""), -time.Second, http.StatusNoContent)
		return nil
	case !read:
		return fault.New(fault.NotFound, "There is no such page")
	case path == signInPath:
		return c.signIn(w, r)
	case path == CallbackPath:
		return c.finishSignIn(w, r, from, origin)
	}
	return c.files.serve(w, r)
}

// scripted reports whether only scripts of the console's pages send requests to the path.
func scripted(path string) bool {
	switch path {
	case signOutPath, switchPath, operatorSignInPath, operatorSessionPath, operatorSignOutPath:
		return true
	}
	return false
}

// signIn redirects the browser to the identity provider. The query's "to" is the page to return to.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) error {
	hideAddress(w)
	to, state, err := c.access.StartBrowser(r.Context(), ownPage(r.URL.Query().Get("to")), c.secret(r))
	if err != nil {
		return err
	}
	c.setFlow(w, state, access.CLILifetime)
	redirect(w, to)
	return nil
}

// finishSignIn handles the callback of the identity provider. The session that the browser had when
// the sign-in started ends; a browser that came from another site has not shown it.
func (c *Console) finishSignIn(w http.ResponseWriter, r *http.Request, from session.Client, origin audit.Origin) error {
	hideAddress(w)
	q := r.URL.Query()
	back := identity.Return{Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss"), Error: q.Get("error")}
	if name := c.access.SessionCookie; name != "" {
		back.Session = cookieValue(r, name)
	}
	state := cookieValue(r, c.flowCookie)
	c.setFlow(w, "", -time.Second)
	secret, path, err := c.access.FinishBrowser(r.Context(), state, back, from, origin)
	if err != nil {
		return err
	}
	c.setCookie(w, c.browserCookie(secret), session.BrowserLifetime)
	redirect(w, path)
	return nil
}

// signOut ends the session of the cookie. It replies with a JSON object whose url is the address at
// which the browser signs out at the identity provider too, null if there is none.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request, origin audit.Origin) error {
	var response struct {
		URL *string `json:"url"`
	}
	if secret := c.secret(r); secret != "" {
		provider, err := c.access.EndBrowser(r.Context(), secret, origin)
		if err != nil {
			return err
		}
		if provider != "" {
			response.URL = &provider
		}
	}
	c.reply(w, c.browserCookie(""), -time.Second, http.StatusOK)
	return json.NewEncoder(w).Encode(response)
}

// switchOrganisation begins a session in the organisation that the body names, a JSON object with
// orgId, and ends that of the cookie. After an error the cookie stays, as it may be the one that
// another tab's switch has set meanwhile.
func (c *Console) switchOrganisation(w http.ResponseWriter, r *http.Request, from session.Client, origin audit.Origin) error {
	var body struct {
		OrgID string `json:"orgId"`
	}
	ok, err := readBody(r, maxSwitch, &body)
	if err != nil {
		return err
	}
	to := id.Org("")
	if ok {
		to, ok = id.Parse[id.Org](body.OrgID)
	}
	if !ok {
		return fault.Field("orgId", "must be the id of an organisation of the caller")
	}
	secret, left, err := c.access.SwitchBrowser(r.Context(), c.secret(r), to, from, origin)
	if err != nil {
		return err
	}
	c.reply(w, c.browserCookie(secret), left, http.StatusNoContent)
	return nil
}

// readBody reads a body of at most some bytes, and reports whether it is JSON for v.
func readBody(r *http.Request, most int64, v any) (ok bool, err error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, most))
	return err == nil && json.Unmarshal(data, v) == nil, err
}

// reply begins the response to a script with a new cookie; a negative age removes it. With a status
// that has a body, that is JSON.
func (c *Console) reply(w http.ResponseWriter, cookie http.Cookie, age time.Duration, status int) {
	c.setCookie(w, cookie, age)
	w.Header().Set("Cache-Control", "no-store")
	if status != http.StatusNoContent {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
}

// browserCookie returns the cookie with the secret of the session.
func (c *Console) browserCookie(secret string) http.Cookie {
	return http.Cookie{Name: c.sessionCookie, Value: secret, Path: "/", SameSite: http.SameSiteStrictMode}
}

// operatorCookie returns the cookie with the token of an operator's session.
func (c *Console) operatorCookie(token string) http.Cookie {
	return http.Cookie{Name: c.opCookie, Value: token, Path: "/", SameSite: http.SameSiteStrictMode}
}

// setFlow sets the cookie with the state of a sign-in; a negative age removes it.
func (c *Console) setFlow(w http.ResponseWriter, state string, age time.Duration) {
	c.setCookie(w, http.Cookie{Name: c.flowCookie, Value: state, Path: CallbackPath, SameSite: http.SameSiteLaxMode}, age)
}

func (c *Console) setCookie(w http.ResponseWriter, made http.Cookie, age time.Duration) {
	made.MaxAge, made.HttpOnly, made.Secure = int(age.Seconds()), true, c.secure
	http.SetCookie(w, &made)
}

// ownPage returns the path and query of a page of the console, the first page for anything else.
func ownPage(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.Contains(address, `\`) || !strings.HasPrefix(u.EscapedPath(), prefix+"/") {
		return prefix
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

// hideAddress keeps the address of a sign-in, which contains secrets, out of caches and Referer
// headers.
func hideAddress(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
}

func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusSeeOther)
}
