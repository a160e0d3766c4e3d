package httpapi

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/app/onboarding"
	"collab/app/webhooks"
	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/identity"
	"collab/domain/org"
	"collab/domain/session"
)

// maxMessage is the largest webhook message, in bytes.
const maxMessage = 512 << 10

type sessionView struct {
	Token string     `json:"token"`
	User  personView `json:"user"`
	userOrgView
}

// userOrgView is a user's organisation with the user's role and onboarding.
type userOrgView struct {
	Org                 *orgView `json:"org"`
	Role                *string  `json:"role"`
	OnboardingCompleted bool     `json:"onboardingCompleted"`
	OnboardingSeeded    bool     `json:"onboardingSeeded"`
}

type personView struct {
	ID    id.User `json:"id"`
	Name  *string `json:"name"`
	Email *string `json:"email"`
}

type orgView struct {
	ID   id.Org  `json:"id"`
	Name *string `json:"name"`
	Slug *string `json:"slug"`
}

type meView struct {
	User profileView `json:"user"`
	userOrgView
}

type profileView struct {
	personView
	AvatarURL *string `json:"avatarUrl"`
}

func viewPerson(u org.User) personView {
	return personView{ID: u.ID, Name: textOrNull(u.Name), Email: textOrNull(u.Email)}
}

func viewOrg(o *org.Organisation) *orgView {
	if o == nil {
		return nil
	}
	return &orgView{ID: o.ID, Name: textOrNull(o.Name), Slug: textOrNull(o.Slug)}
}

func viewUserOrg(u access.UserInfo) userOrgView {
	return userOrgView{
		Org: viewOrg(u.Org), Role: textOrNull(u.Role), OnboardingCompleted: u.OnboardingCompleted, OnboardingSeeded: u.OnboardingSeeded,
	}
}

func viewSession(u access.UserInfo) sessionView {
	return sessionView{u.Token, viewPerson(u.User), viewUserOrg(u)}
}

func viewMe(u access.UserInfo) meView {
	return meView{profileView{viewPerson(u.User), textOrNull(u.User.AvatarURL)}, viewUserOrg(u)}
}

func (a *api) exchange(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	x := access.Exchange{
		IdentityToken: body.Required(o, "identityToken", body.Text),
		UserName:      body.OrZero(o, "userName", body.Text),
		UserEmail:     body.OrZero(o, "userEmail", body.Text),
		UserAvatarURL: body.OrZero(o, "userAvatarUrl", body.Text),
		OrgName:       body.OrZero(o, "orgName", body.Text),
		OrgSlug:       body.OrZero(o, "orgSlug", body.Text),
		From:          c.client(),
	}
	if err := o.Err(); err != nil {
		return err
	}
	return replyUnstored(c, viewSession)(a.Access.Exchange(c.r.Context(), x))
}

func (a *api) refresh(c *call) error {
	o, err := c.fields()
	if err != nil {
		return err
	}
	token, to := body.Required(o, "token", body.Text), body.OrZero(o, "orgId", body.Parsed("must be the id of an organisation of the caller", id.Parse[id.Org]))
	if err := o.Err(); err != nil {
		return err
	}
	if to != "" {
		return replyUnstored(c, viewSession)(a.Access.Switch(c.r.Context(), token, to, c.client()))
	}
	return replyUnstored(c, viewSession)(a.Access.Refresh(c.r.Context(), token, c.client()))
}

type membershipView struct {
	orgView
	Role    org.Role `json:"role"`
	Current bool     `json:"current"`
}

func (a *api) listOwnOrganisations(c *call, actor org.Actor) error {
	view := func(p access.UserOrganisation) membershipView {
		return membershipView{*viewOrg(&p.Organisation), p.Role, p.ID == actor.Org}
	}
	return replyUnstored(c, viewEach(view))(a.Access.Organisations(c.r.Context(), actor))
}

func (a *api) me(c *call) error {
	return replyUnstored(c, viewMe)(tryUnconfirmed(a, c,
		func(cached org.Actor) (access.UserInfo, error) { return a.Access.MeUnconfirmed(c.r.Context(), cached) },
		func(actor org.Actor) (access.UserInfo, error) { return a.Access.Me(c.r.Context(), actor) }))
}

// replyUnstored is replyWith for responses that caches must not store.
func replyUnstored[R, V any](c *call, view func(R) V) func(R, error) error {
	return replyWith(c, http.StatusOK, func(r R) V {
		c.Header()["Cache-Control"] = noStore
		return view(r)
	})
}

// client returns the address and user agent of the request.
func (c *call) client() session.Client {
	return session.Client{Address: c.address, UserAgent: c.r.UserAgent()}
}

type signInView struct {
	ID         id.Session `json:"id"`
	CreatedAt  jsonTime   `json:"createdAt"`
	LastUsedAt jsonTime   `json:"lastUsedAt"`
	Address    *string    `json:"address"`
	UserAgent  *string    `json:"userAgent"`
	Current    bool       `json:"current"`
}

func (a *api) listSessions(c *call, actor org.Actor) error {
	own := access.FromContext(c.r.Context()).Session
	return replyUnstored(c, viewEach(func(s session.Session) signInView {
		return signInView{
			ID: s.ID, CreatedAt: jsonTime(s.CreatedAt), LastUsedAt: jsonTime(s.LastUsedAt), Address: textOrNull(s.Address), UserAgent: textOrNull(s.UserAgent),
			Current: s.ID == own,
		}
	}))(a.Access.Sessions(c.r.Context(), actor))
}

type onboardingView struct {
	Success             bool `json:"success"`
	OnboardingCompleted bool `json:"onboardingCompleted"`
}

func (a *api) completeOnboarding(c *call, actor org.Actor) error {
	if err := a.Onboarding.Complete(c.r.Context(), actor); err != nil {
		return err
	}
	return c.reply(http.StatusOK, onboardingView{Success: true, OnboardingCompleted: true})
}

type seededView struct {
	Seeded              bool      `json:"seeded"`
	SharedTeamID        *string   `json:"sharedTeamId"`
	PersonalTeamID      *string   `json:"personalTeamId"`
	SharedWorkspaceID   *string   `json:"sharedWorkspaceId"`
	PersonalWorkspaceID *string   `json:"personalWorkspaceId"`
	TaskIDs             []id.Task `json:"taskIds"`
}

func viewSeeded(s onboarding.Seeded) seededView {
	return seededView{
		Seeded: s.Seeded, SharedTeamID: textOrNull(s.SharedTeam), PersonalTeamID: textOrNull(s.PersonalTeam),
		SharedWorkspaceID: textOrNull(s.SharedWorkspace), PersonalWorkspaceID: textOrNull(s.PersonalWorkspace),
		TaskIDs: append([]id.Task{}, s.Tasks...),
	}
}

var received = []byte(`{"received":true}` + "\n")

// unsignedCost is the number of messages that a message with a wrong signature is charged as.
const unsignedCost = 10

// identityWebhook handles a message of the identity provider.
func (a *api) identityWebhook(c *call) error {
	return a.receiveMessage(c, a.Webhooks.Identity, refusedCredentials...)
}

// receiveMessage calls take with the raw bytes of a provider's message, which are signed. If take refuses
// the message with one of the kinds, it is charged to the address as unsignedCost messages.
func (a *api) receiveMessage(c *call, take func(context.Context, func(string) string, []byte, webhooks.Admit) error, unsigned ...fault.Kind) error {
	body, err := c.read(maxMessage)
	if err != nil {
		return err
	}
	if err := take(c.r.Context(), c.r.Header.Get, body, a.acquireWebhook(c)); err != nil {
		if fault.Is(err, unsigned...) {
			a.webhooks.Charge(limit.Network(c.address), unsignedCost-1)
		}
		return a.chargeRefusal(c, err, unsigned...)
	}
	c.send(http.StatusOK, received)
	return nil
}

// startCLI redirects the browser to the identity provider. If another site has linked to it, it asks for
// confirmation first, because that site could have chosen the local port that gets the token.
func (a *api) startCLI(c *call) error {
	c.hideAddress()
	q := c.r.URL.Query()
	port, state := q.Get("port"), q.Get("state")
	if crossSite(c.r) && !a.confirmedCLI(c.r, port, state) {
		return a.showCLIPrompt(c, port, state)
	}
	to, cookie, err := a.Access.StartCLI(c.r.Context(), port, state)
	if err != nil {
		return err
	}
	a.setFlow(c, cookie, int(access.CLILifetime.Seconds()))
	c.redirect(http.StatusFound, to)
	return nil
}

// crossSite reports whether a page began the navigation, according to Sec-Fetch-Site.
func crossSite(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Sec-Fetch-Site"], func(site string) bool { return site != "none" })
}

// cookieCLI is the prefix of the cookie that the confirmation page of a command line's sign-in sets.
const cookieCLI = "collab_cli_asked_"

// cliRequest returns the key of a command line's sign-in in cookies and confirmations.
func cliRequest(port, state string) string { return port + " " + state }

// confirmedCLI reports whether the request comes from the link of the page that
// showCLIPrompt showed in this browser for this port and state.
func (a *api) confirmedCLI(r *http.Request, port, state string) bool {
	flow := cliRequest(port, state)
	secret := cookieValue(r, a.flowCookie(cookieCLI, flow))
	return secret != "" && access.EqualSecrets(r.URL.Query().Get("confirm"), confirmation(secret, flow))
}

// showCLIPrompt shows a page that names the port and asks for confirmation.
func (a *api) showCLIPrompt(c *call, port, state string) error {
	if _, err := access.CheckCLI(port, state); err != nil {
		return err
	}
	flow := cliRequest(port, state)
	secret := cookieValue(c.r, a.flowCookie(cookieCLI, flow))
	if secret == "" {
		secret = rand.Text()
	}
	a.setFlowCookie(c, cookieCLI, flow, secret)
	link := url.URL{Path: c.r.URL.Path, RawQuery: url.Values{"port": {port}, "state": {state}, "confirm": {confirmation(secret, flow)}}.Encode()}
	return c.page(http.StatusOK, "command line", map[string]any{"Port": port, "Link": link.String()}, "'none'")
}

// finishCLI handles the callback of the identity provider, for command lines and devices.
func (a *api) finishCLI(c *call) error {
	c.hideAddress()
	q := c.r.URL.Query()
	response := access.CLIReturn{
		Port: q.Get("port"), From: c.client(),
		Return: identity.Return{
			Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss"), Error: q.Get("error"), Session: cookieValue(c.r, a.Access.SessionCookie),
		},
	}
	flow := cookieValue(c.r, access.CLICookie)
	a.setFlow(c, "", -1)
	signIn, err := a.Access.FinishSignIn(c.r.Context(), flow, response)
	if err != nil {
		return err
	}
	to := signIn.Redirect
	if signIn.UserCode != "" {
		a.setFlowCookie(c, cookieDevice, signIn.UserCode, signIn.Decider)
		to = verificationPath(signIn.UserCode)
	}
	c.redirect(http.StatusFound, to)
	return nil
}

func cookieValue(r *http.Request, name string) string {
	cookie, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setFlow sets the cookie with the sign-in of a command line or a device. A negative age removes it.
func (a *api) setFlow(c *call, value string, age int) {
	http.SetCookie(c, &http.Cookie{
		Name: access.CLICookie, Value: value, Path: prefix + "/auth", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.secure,
	})
}

// hideAddress keeps the address of a sign-in, which contains secrets, out of caches and Referer
// headers.
func (c *call) hideAddress() {
	h := c.Header()
	h["Cache-Control"], h["Referrer-Policy"] = noStore, noReferrer
}

// redirect replies with a redirect.
func (c *call) redirect(status int, to string) {
	c.Set("Location", to)
	c.Set("Content-Length", "0")
	c.WriteHeader(status)
}
