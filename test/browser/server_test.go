//go:build browser

package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"collab/test/collabd"
	"collab/test/must"
)

func TestMain(m *testing.M) {
	code := collabd.Run(m)
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "closing the browser:", err)
		}
	}
	os.Exit(code)
}

// server is a server with the default configuration.
type server struct {
	t    *testing.T
	base string
}

// startServer starts a server with further settings.
func startServer(t *testing.T, settings ...string) *server {
	t.Helper()
	return &server{t, collabd.Start(t, append([]string{"COLLAB_ADMIN_SECRET=" + collabd.AdminSecret}, settings...)...).URL}
}

// startOwned starts a server with the organisation Analytical Engines, and returns the Authorization header of its
// owner Ada.
func startOwned(t *testing.T, settings ...string) (s *server, as string) {
	t.Helper()
	s = startServer(t, settings...)
	return s, bearer(s.signIn("ada@collab.example", "Analytical Engines", "").Token)
}

// grant gives the caller's organisation a plan, as the operator.
func (s *server) grant(as, plan string) {
	s.t.Helper()
	me := decode[session](s.t, s.call("GET", "/auth/me", as, nil, http.StatusOK))
	s.call("PUT", "/admin/organisations/"+me.Org.ID+"/subscription", "X-Admin-Secret: "+collabd.AdminSecret, map[string]string{"plan": plan}, http.StatusOK)
}

// call sends a request, with a JSON body unless it is nil, and returns the response. It ends the test on another
// status. Header is "Name: value", or empty.
func (s *server) call(method, path, header string, body any, status int) json.RawMessage {
	s.t.Helper()
	var headers []string
	if header != "" {
		headers = []string{header}
	}
	got, response, err := collabd.Client{Base: s.base}.Do(method, path, body, headers...)
	if err != nil || got != status {
		s.t.Fatalf("%s %s answered %d, not %d: %v %s", method, path, got, status, err, response)
	}
	return response
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// decode decodes a response.
func decode[T any](t *testing.T, response json.RawMessage) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(response, &value); err != nil {
		t.Fatalf("%v: %s", err, response)
	}
	return value
}

// session is the response of /auth/exchange-token and /auth/me.
type session struct {
	Token string
	User  struct{ Name, Email string }
	Org   *struct{ ID, Name, Slug string }
	Role  *string
}

// check checks the user, the organisation and the role of a session.
func (s session) check(t *testing.T, email, org, role string) {
	t.Helper()
	if s.User.Email != email || s.Org == nil || s.Org.Name != org || s.Role == nil || *s.Role != role {
		response, _ := json.Marshal(s)
		t.Errorf("the session is %s, not of %s as %s of %s", response, email, role, org)
	}
}

func (s *server) exchange(identityToken string) session {
	s.t.Helper()
	return decode[session](s.t, s.call("POST", "/auth/exchange-token", "", map[string]string{"identityToken": identityToken}, http.StatusOK))
}

// signIn creates an account, and returns a session of it.
func (s *server) signIn(email, org, role string) session {
	s.t.Helper()
	token := must.Do(collabd.IdentityToken(s.base, email, "", org, role)).Or(s.t)
	return s.exchange(token)
}

func TestDeviceSignIn(t *testing.T) {
	s, b := startServer(t), openTab(t)
	device := decode[struct {
		Code string `json:"device_code"`
		User string `json:"user_code"`
		Page string `json:"verification_uri"`
	}](t, s.call("POST", "/auth/device", "", map[string]string{"client_name": "<b>Build</b> server"}, http.StatusOK))

	b.do(chromedp.Navigate(device.Page), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.checkScreens("device-code")
	b.tabTo("Continue")
	b.leadsTo(http.StatusBadRequest, chromedp.KeyEvent(kb.Enter))
	b.checkInvalid("user-code", "Type the code that the device shows.")
	b.key("nonsensical")
	b.leadsTo(http.StatusNotFound, chromedp.KeyEvent(kb.Enter))
	b.checkInvalid("user-code", "The code (user_code) must be 8 letters, none of them a vowel.")
	b.checkScreens("device-code-wrong")
	must.Is(t, "nonsensical", b.value("user-code"))
	b.clearProblems() // of 400 and 404
	b.fill("Code", strings.ToLower(strings.ReplaceAll(device.User, "-", "")))
	b.press("Continue")
	b.fill("Name", "Grace Hopper")
	b.fill("E-mail address", "grace@collab.example")
	b.fill("Organisation’s name", "Navy Yard")
	b.press("Sign in")
	b.checkText(device.User, "<b>Build</b> server", "Grace Hopper", "grace@collab.example", "Navy Yard")
	b.checkScreens("device")
	b.press("Allow")
	b.checkText("Allowed")
	claimed := decode[session](t, s.call("POST", "/auth/device/token", "", map[string]string{"device_code": device.Code}, http.StatusOK))
	decode[session](t, s.call("GET", "/auth/me", bearer(claimed.Token), nil, http.StatusOK)).check(t, "grace@collab.example", "Navy Yard", "OWNER")
	b.checkProblems(s.base)
}
