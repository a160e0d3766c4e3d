package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/session"
)

// CLICookie carries a command line's sign-in while the browser is at the
// identity provider, for CLILifetime.
const (
	CLICookie   = "collab_cli"
	CLILifetime = 10 * time.Minute
)

const maxState = 512 // characters

// CLIReturn is what the browser brings to the callback. Port and State are as
// in the query, empty when absent.
type CLIReturn struct {
	Port  string
	State string
	From  session.Client
	identity.Return
}

// CheckCLI returns the port of a command line that asks for a sign-in, and
// refuses a port or a state that no command line has.
func CheckCLI(port, state string) (int, error) {
	var c check.List
	n, err := strconv.Atoi(port)
	if err != nil || n < 1024 || n > 65535 || strconv.Itoa(n) != port {
		c.Add("port", "must be a number between 1024 and 65535")
	}
	if !utf8.ValidString(state) || state == "" || utf8.RuneCountInString(state) > maxState || !printable(state) {
		c.Add("state", "must be 1 to %d printable characters", maxState)
	}
	return n, c.Err()
}

// StartCLI begins the sign-in of a command line that listens on a local port.
// It returns where to send the browser, and the value of the cookie that the
// browser must bring back.
func (a *Access) StartCLI(ctx context.Context, port, state string) (redirect, cookie string, err error) {
	n, err := CheckCLI(port, state)
	if err != nil {
		return "", "", err
	}
	f := identity.Flow{
		Port: n, State: state,
		Own: a.Secrets.Secret(), Nonce: a.Secrets.Secret(), Verifier: a.Secrets.Secret(),
		Expires: a.Clock.Now().Add(CLILifetime),
	}
	plain, err := json.Marshal(f)
	if err != nil {
		return "", "", err
	}
	sealed, err := a.Sealer.Seal(plain, []byte(CLICookie))
	if err != nil {
		return "", "", err
	}
	redirect, err = a.SignIn.Start(ctx, f, a.callback(f))
	return redirect, base64.RawURLEncoding.EncodeToString(sealed), err
}

// FinishCLI takes the browser back from the identity provider and returns the
// command line's local address with a service token for who signed in.
func (a *Access) FinishCLI(ctx context.Context, cookie string, q CLIReturn) (redirect string, err error) {
	lost := fault.New(fault.Invalid, "This sign-in was not started in this browser, or it took longer than %d minutes", int(CLILifetime.Minutes()))
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || cookie == "" {
		return "", lost
	}
	plain, err := a.Sealer.Open(sealed, []byte(CLICookie))
	if err != nil {
		return "", lost
	}
	var f identity.Flow
	if err := json.Unmarshal(plain, &f); err != nil {
		return "", lost
	}
	if !a.Clock.Now().Before(f.Expires) {
		return "", lost
	}
	if a.SessionCookie != "" && (q.Port != strconv.Itoa(f.Port) || q.State != f.State) {
		return "", fault.New(fault.Invalid, "port and state must be those that the sign-in was started with")
	}
	q.Return.State = q.State
	token, err := a.SignIn.Finish(ctx, f, a.callback(f), q.Return)
	if err != nil {
		return "", err
	}
	s, err := a.Exchange(ctx, Exchange{IdentityToken: token, From: q.From})
	if err != nil {
		return "", err
	}
	to := url.URL{
		Scheme: "http", Host: "localhost:" + strconv.Itoa(f.Port), Path: "/callback",
		RawQuery: url.Values{"token": {s.Token}, "state": {f.State}}.Encode(),
	}
	return to.String(), nil
}

// callback is the address that the provider sends the browser back to. A
// provider that works by code compares it exactly, so that it carries nothing
// there.
func (a *Access) callback(f identity.Flow) string {
	if a.SessionCookie == "" {
		return a.CallbackURL
	}
	return a.CallbackURL + "?" + url.Values{"port": {strconv.Itoa(f.Port)}, "state": {f.State}}.Encode()
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
