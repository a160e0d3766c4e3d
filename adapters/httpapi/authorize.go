package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/app/access"
	"collab/app/connectors"
	"collab/domain/connector"
	"collab/domain/fault"
	"collab/domain/id"
)

// Paths of an authorization: the page that browsers are sent to, the callback, and the client
// metadata document that authorization servers read. Below the last two each issuer has a path
// of its own.
const (
	AuthorizePath      = prefix + "/mcp-oauth/authorize"
	CallbackPath       = prefix + "/mcp-oauth/callback"
	ClientDocumentPath = prefix + "/mcp-oauth/client-metadata"
)

// Bounds of the parameters that browsers send, in bytes.
const (
	maxState   = 200
	maxCode    = 4096
	maxIssuer  = 2048
	maxRefusal = 200 // an authorization server's error code
	maxForm    = 8 << 10
)

// Prefixes of cookies' names, each followed by a part of the state's digest, so that
// concurrent authorizations have separate cookies.
const (
	cookieAsked     = "collab_asked_"     // set by the confirmation page
	cookieConfirmed = "collab_confirmed_" // set when its form is sent
)

var noIndex, sameOrigin = []string{"noindex"}, []string{"same-origin"}

// hidePage keeps the pages of an authorization, whose addresses contain secrets, out of
// caches, indexes and other sites' logs.
func (c *call) hidePage() {
	c.hideAddress()
	c.Header()["X-Robots-Tag"] = noIndex
}

// checkLengths checks that parameters are within their limits, in bytes, and that there is a state.
func checkLengths(values url.Values, limits map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if len(values.Get(name)) > limits[name] {
			return fault.Field(name, "must be at most %d bytes", limits[name])
		}
	}
	if values.Get("state") == "" {
		return fault.Field("state", "must be given")
	}
	return nil
}

// showAuthorizationPrompt shows the confirmation page of an authorization. Its form leads
// to the provider.
func (a *api) showAuthorizationPrompt(c *call) error {
	c.hidePage()
	q, err := body.ParseForm(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	if err := checkLengths(q, map[string]int{"state": maxState}); err != nil {
		return err
	}
	state := q.Get("state")
	asked, err := a.Connectors.Confirmation(c.r.Context(), state)
	if err != nil {
		return err
	}
	// Reuse the secret, so that open pages remain valid.
	secret := cookieValue(c.r, a.flowCookie(cookieAsked, state))
	if secret == "" {
		secret = rand.Text()
	}
	a.setFlowCookie(c, cookieAsked, state, secret)
	// "no-referrer" would remove the Origin of the page's form.
	c.Header()["Referrer-Policy"] = sameOrigin
	// Browsers check the whole chain of redirects after a form against form-action, and
	// a provider may redirect to any site.
	return c.page(http.StatusOK, "ask", map[string]any{
		"Asked": asked, "Action": AuthorizePath, "State": state, "Token": confirmation(secret, state),
	}, "'self' https: http:")
}

// confirmation returns the token of a form that belongs to the cookie's secret. Other sites
// cannot compute it.
func confirmation(secret, state string) string { return deriveToken("confirm", secret, state) }

// checkConfirmation returns Forbidden unless the form has the token of the cookie's secret.
func checkConfirmation(form url.Values, secret, state string) error {
	if secret == "" || !access.EqualSecrets(form.Get("token"), confirmation(secret, state)) {
		return fault.New(fault.Forbidden, "This form is not from a page that was recently shown in this browser")
	}
	return nil
}

// readPageForm reads the form of one of the server's pages. The headers of the response are those of hidePage.
func (a *api) readPageForm(c *call) (url.Values, error) {
	c.hidePage()
	if err := a.checkOrigin(c.r); err != nil {
		return nil, err
	}
	text, err := c.read(maxForm)
	if err != nil {
		return nil, err
	}
	return body.ParseForm(string(text))
}

// deriveToken returns a digest of a browser's secret and a state, for one purpose.
func deriveToken(purpose, secret, state string) string {
	sum := sha256.Sum256([]byte(purpose + "\n" + secret + "\n" + state))
	return hex.EncodeToString(sum[:])
}

// confirmAuthorization redirects the browser to the provider, or ends the authorization if the form was submitted
// by its button Cancel.
func (a *api) confirmAuthorization(c *call) error {
	form, err := a.readPageForm(c)
	if err != nil {
		return err
	}
	if err := checkLengths(form, map[string]int{"state": maxState}); err != nil {
		return err
	}
	state := form.Get("state")
	secret := cookieValue(c.r, a.flowCookie(cookieAsked, state))
	if err := checkConfirmation(form, secret, state); err != nil {
		return err
	}
	if form.Has("cancel") {
		if err := a.Connectors.Decline(c.r.Context(), state); err != nil {
			return err
		}
		return a.showOutcome(c, "Cancelled", "Nothing was connected. You can close this window.")
	}
	// The cookie is the same for each submission, because the form may be sent twice.
	browser := deriveToken("confirmed", secret, state)
	page, err := a.Connectors.Confirm(c.r.Context(), state, browser)
	if err != nil {
		return err
	}
	a.setFlowCookie(c, cookieConfirmed, state, browser)
	c.redirect(http.StatusSeeOther, page)
	return nil
}

// checkOrigin returns Forbidden for a form of another site, according to the browser's headers.
func (a *api) checkOrigin(r *http.Request) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return fault.New(fault.Unsupported, "The content type must be application/x-www-form-urlencoded")
	}
	origins, sites := r.Header["Origin"], r.Header["Sec-Fetch-Site"]
	foreign := func(site string) bool { return site != "same-origin" && site != "none" }
	if slices.ContainsFunc(origins, func(o string) bool { return o != a.origin }) || slices.ContainsFunc(sites, foreign) {
		return fault.New(fault.Forbidden, "This form can only be sent from its own page")
	}
	return nil
}

// finishAuthorization handles the callback of an authorization server.
func (a *api) finishAuthorization(c *call) error {
	c.hidePage()
	q, err := body.ParseForm(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	if err := checkLengths(q, map[string]int{"state": maxState, "code": maxCode, "iss": maxIssuer, "error": maxRefusal}); err != nil {
		return err
	}
	response := connectors.AuthorizationResponse{
		State: q.Get("state"), Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss"),
		Redirect: a.PublicURL + c.r.URL.Path,
	}
	browser := cookieValue(c.r, a.flowCookie(cookieConfirmed, response.State))
	err = a.Connectors.Finish(c.r.Context(), response, browser)
	if !fault.Is(err, fault.Unavailable) { // then the page can be loaded again
		a.setFlowCookie(c, cookieConfirmed, response.State, "")
	}
	if err != nil {
		return err
	}
	return a.showOutcome(c, "Connected", "The connector is authorised. You can close this window.")
}

// originOf returns the origin of an address in the serialization of browsers.
func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", errors.New("httpapi: the public address has no host")
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host, nil
}

// flowCookie returns the name of a cookie for an authorization. Browsers accept a cookie with
// the prefix __Host- from this host only.
func (a *api) flowCookie(kind, state string) string {
	name := kind + id.Digest(state)[:12]
	if a.secure {
		return "__Host-" + name
	}
	return name
}

// setFlowCookie sets a cookie for as long as the authorization may take; an empty value
// removes it.
func (a *api) setFlowCookie(c *call, kind, state, value string) {
	age := int(connector.FlowLifetime.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(c, &http.Cookie{
		Name: a.flowCookie(kind, state), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.secure,
	})
}

// clientView is a client id metadata document, with the fields of RFC 7591.
type clientView struct {
	ID            string   `json:"client_id"`
	Name          string   `json:"client_name"`
	URI           string   `json:"client_uri"`
	Redirects     []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	Application   string   `json:"application_type"`
}

// describeClient replies with the client metadata document for the issuer of a key.
func (a *api) describeClient(c *call) error {
	key := c.vars["issuer"]
	if !connector.IsIssuerKey(key) {
		return fault.Missing("Client")
	}
	return a.replyClientMetadata(c, ClientDocumentPath+"/"+key, connector.DocumentRedirect(CallbackPath, key))
}

// describeFormerClient replies with the document of authorizations from before each issuer had its own, because
// their refreshes name it. Callbacks to its address are refused.
func (a *api) describeFormerClient(c *call) error {
	return a.replyClientMetadata(c, ClientDocumentPath+".json", CallbackPath)
}

func (a *api) replyClientMetadata(c *call, document, redirect string) error {
	c.public(cacheHour)
	return c.reply(http.StatusOK, clientView{
		ID: a.PublicURL + document, Name: "Collab", URI: a.PublicURL, Redirects: []string{a.PublicURL + redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, AuthMethod: "none", Application: "web",
	})
}
