package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"collab/adapters/httpapi/body"
	"collab/adapters/httpapi/limit"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/session"
)

// Paths of the sign-in of devices (RFC 8628): of its start and of the page for the user code, and of the decision on
// the page with the device.
const (
	devicePath         = prefix + "/auth/device"
	deviceDecisionPath = devicePath + "/decision"

	// devicePagePath is devicePath for browsers, short enough to be typed.
	devicePagePath = "/device"
)

// The number of requests that the creation of a record without a caller, and a wrong user code, are charged as.
const (
	deviceStartCost = 10
	wrongCodeCost   = 30
)

// deviceGrantType is the grant type of RFC 8628, section 3.4.
const deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"

// cookieDevice is the prefix of the cookie of the user who has signed in to decide about a device.
const cookieDevice = "collab_device_"

// deviceStartView has the fields of RFC 8628, section 3.2.
type deviceStartView struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code"`
	Page            string `json:"verification_uri"`
	PageWithCode    string `json:"verification_uri_complete"`
	LifetimeSeconds int    `json:"expires_in"`
	IntervalSeconds int    `json:"interval"`
}

// deviceSessionView is a session with the fields of RFC 6749, section 5.1.
type deviceSessionView struct {
	sessionView
	AccessToken     string `json:"access_token"`
	TokenType       string `json:"token_type"`
	LifetimeSeconds int    `json:"expires_in"`
}

// refusalView is an error with the fields of RFC 6749, section 5.2, and of errorView.
type refusalView struct {
	Status  int                   `json:"statusCode"`
	Message string                `json:"message"`
	Error   session.DeviceRefusal `json:"error"`
}

// verificationPath returns the path of the page with the user code of a device.
func verificationPath(code string) string {
	return devicePagePath + "?" + url.Values{"user_code": {session.FormatUserCode(code)}}.Encode()
}

// readForm reads the fields of a body of at most maxForm bytes, which is a form or JSON. The response
// must not be stored.
func (c *call) readForm() (*body.Fields, error) {
	c.Header()["Cache-Control"] = noStore
	data, err := c.read(maxForm)
	if err != nil {
		return nil, err
	}
	return body.ParseFormFields(c.r.Header.Get("Content-Type"), data, c)
}

// startDevice starts the sign-in of a device.
func (a *api) startDevice(c *call) error {
	var name string
	if c.r.ContentLength != 0 {
		o, err := c.readForm()
		if err != nil {
			return err
		}
		name = body.OrZero(o, "client_name", body.Text)
		if err := o.Err(); err != nil {
			return err
		}
	}
	a.addresses.Charge(limit.Network(c.address), deviceStartCost-1)
	device, user, err := a.Access.StartDevice(c.r.Context(), name, c.client())
	if err != nil {
		return err
	}
	c.Header()["Cache-Control"] = noStore
	return c.reply(http.StatusOK, deviceStartView{
		DeviceCode: device, UserCode: session.FormatUserCode(user), Page: a.PublicURL + devicePagePath, PageWithCode: a.PublicURL + verificationPath(user),
		LifetimeSeconds: int(session.DeviceLifetime.Seconds()), IntervalSeconds: int(session.DeviceInterval.Seconds()),
	})
}

// claimDevice replies to a device that polls for its token.
func (a *api) claimDevice(c *call) error {
	o, err := c.readForm()
	if err != nil {
		return err
	}
	code, grant := body.Required(o, "device_code", body.Text), body.OrZero(o, "grant_type", body.Text)
	if grant != "" && grant != deviceGrantType {
		o.Refuse("grant_type", "must be "+deviceGrantType)
	}
	if err := o.Err(); err != nil {
		return err
	}
	s, err := a.Access.ClaimDevice(c.r.Context(), code, c.client())
	if refused := session.DeviceRefusal(""); errors.As(err, &refused) {
		return c.reply(http.StatusBadRequest, refusalView{http.StatusBadRequest, refused.Error(), refused})
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, deviceSessionView{viewSession(s), s.Token, "Bearer", int(session.Lifetime.Seconds())})
}

// showDevice shows the page for the user code of a device, or the page on which the user who has signed in in this
// browser decides about the device. Between the two it redirects the browser to the identity provider.
func (a *api) showDevice(c *call) error {
	c.hidePage()
	q, err := body.ParseForm(c.r.URL.RawQuery)
	if err != nil {
		return err
	}
	text := q.Get("user_code")
	switch {
	case !q.Has("user_code"):
		return a.askUserCode(c, http.StatusOK, "", "")
	case strings.TrimSpace(text) == "" && c.prefersPage():
		return a.askUserCode(c, http.StatusBadRequest, "", "Type the code that the device shows")
	}
	code, ok := session.ParseUserCode(text)
	if !ok {
		return a.refuseUserCode(c, text, fault.New(fault.NotFound, "The code (user_code) must be 8 letters, none of them a vowel"))
	}
	cookie := cookieValue(c.r, a.flowCookie(cookieDevice, code))
	asked, signedIn, err := a.Access.DeviceRequest(c.r.Context(), cookie, code)
	if err != nil {
		return a.refuseUserCode(c, text, err)
	}
	if signedIn {
		// "no-referrer" would remove the Origin of the page's form.
		c.Header()["Referrer-Policy"] = sameOrigin
		return c.page(http.StatusOK, "device", map[string]any{
			"Asked": asked, "Action": deviceDecisionPath, "Code": session.FormatUserCode(code), "Token": confirmation(cookie, code),
		}, "'self'")
	}
	to, flow, err := a.Access.StartDeviceSignIn(c.r.Context(), code)
	if err != nil {
		return a.refuseUserCode(c, text, err)
	}
	a.setFlow(c, flow, int(session.DeviceLifetime.Seconds()))
	c.redirect(http.StatusFound, to)
	return nil
}

// askUserCode shows the page for a user code, with the previous code and its problem.
func (a *api) askUserCode(c *call, status int, text, problem string) error {
	// Browsers check the redirect after a form against form-action, and the provider is elsewhere.
	return c.page(status, "device code", map[string]string{"Action": devicePagePath, "Code": text, "Problem": problem}, "'self' https: http:")
}

// refuseUserCode charges a wrong user code to the address as wrongCodeCost requests, and shows browsers the page for
// another one.
func (a *api) refuseUserCode(c *call, text string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	a.addresses.Charge(limit.Network(c.address), wrongCodeCost-1)
	if !c.prefersPage() {
		return err
	}
	return a.askUserCode(c, http.StatusNotFound, text, viewError(err).Message)
}

// decideDevice handles the form with the decision about a device.
func (a *api) decideDevice(c *call) error {
	form, err := a.readPageForm(c)
	if err != nil {
		return err
	}
	decision, ok := check.OneOf(form.Get("decision"), "allow", "deny")
	if !ok {
		return fault.Field("decision", "must be allow or deny")
	}
	code, _ := session.ParseUserCode(form.Get("user_code"))
	cookie := cookieValue(c.r, a.flowCookie(cookieDevice, code))
	if err := checkConfirmation(form, cookie, code); err != nil {
		return err
	}
	if err := a.Access.DecideDevice(c.r.Context(), cookie, code, decision == "allow"); err != nil {
		return err
	}
	a.setFlowCookie(c, cookieDevice, code, "")
	if decision == "deny" {
		return a.showOutcome(c, "Denied", "The device was not signed in. You can close this window.")
	}
	return a.showOutcome(c, "Allowed", "The device is being signed in. You can close this window.")
}
