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

// CLICookie is the name of the cookie with the state of a command line's sign-in, which
// expires after CLILifetime.
const (
	CLICookie   = "collab_cli"
	CLILifetime = 10 * time.Minute
)

const maxState = 512 // characters

// CLIReturn is the request to the callback. Port and State are those of the query, empty if
// absent.
type CLIReturn struct {
	Port  string
	State string
	From  session.Client
	identity.Return
}

// CheckCLI checks the port and state of a command line's sign-in, and returns the port.
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

// StartCLI starts the sign-in of a command line that listens on a local port. It returns the
// address to redirect the browser to, and the value of CLICookie.
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

// FinishCLI completes the sign-in and returns the command line's local address with a service
// token of the user.
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

// callback returns our redirect address. It has a query only with a provider that signs in by
// session, because others compare the address exactly.
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
