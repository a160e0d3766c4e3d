package access

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/identity"
	"collab/domain/session"
)

// CLICookie is the name of the cookie with the state of a sign-in for a command line or a device,
// which expires after CLILifetime.
const (
	CLICookie   = "collab_cli"
	CLILifetime = 10 * time.Minute
)

const maxState = 512 // characters

// CLIReturn is the request to the callback. Port is that of the query, empty if absent.
type CLIReturn struct {
	Port string
	From session.Client
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
	return a.startSignIn(ctx, identity.Flow{Port: n, State: state})
}

// startSignIn starts the sign-in of a browser for the client that f names. It returns the address to redirect
// the browser to, and the value of the cookie with the state.
func (a *Access) startSignIn(ctx context.Context, f identity.Flow) (redirect, cookie string, err error) {
	f.Own, f.Nonce, f.Verifier = a.Secrets.Secret(), a.Secrets.Secret(), a.Secrets.Secret()
	f.Expires = a.Clock.Now().Add(CLILifetime)
	if cookie, err = a.sealCookie(CLICookie, f); err != nil {
		return "", "", err
	}
	redirect, err = a.SignIn.Start(ctx, f, a.callback(f))
	return redirect, cookie, err
}

// sealCookie returns the value of a cookie for this purpose.
func (a *Access) sealCookie(purpose string, v any) (string, error) {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false) // six bytes for <, > and &: browsers accept at most 4,096 in all
	if err := e.Encode(v); err != nil {
		return "", err
	}
	sealed, err := a.Sealer.Seal(plain.Bytes(), []byte(purpose))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// openCookie reads what sealCookie returned for this purpose, and reports whether it could.
func (a *Access) openCookie(purpose, cookie string, v any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || cookie == "" {
		return false
	}
	plain, err := a.Sealer.Open(sealed, []byte(purpose))
	return err == nil && json.Unmarshal(plain, v) == nil
}

// SignedIn is a completed sign-in of a browser.
type SignedIn struct {
	Redirect string // the command line's local address with its token; empty for a device
	UserCode string // of the device
	Decider  string // the value of a cookie with which the browser may decide about the device
}

// FinishSignIn completes the sign-in that StartCLI or StartDeviceSignIn started.
func (a *Access) FinishSignIn(ctx context.Context, cookie string, q CLIReturn) (SignedIn, error) {
	f, err := a.openFlow(cookie, false)
	if err != nil {
		return SignedIn{}, err
	}
	if a.SessionCookie != "" && !maps.EqualFunc(a.callbackQuery(f), url.Values{"port": {q.Port}, "state": {q.State}}, slices.Equal) {
		return SignedIn{}, fault.New(fault.Invalid, "port and state must be those that the sign-in was started with")
	}
	token, err := a.SignIn.Finish(ctx, f, a.callback(f), q.Return)
	if err != nil {
		return SignedIn{}, err
	}
	x := Exchange{IdentityToken: token, From: q.From}
	if f.UserCode != "" {
		return a.signInDecider(ctx, f, x)
	}
	s, err := a.Exchange(ctx, x)
	if err != nil {
		return SignedIn{}, err
	}
	to := url.URL{
		Scheme: "http", Host: "localhost:" + strconv.Itoa(f.Port), Path: "/callback",
		RawQuery: url.Values{"token": {s.Token}, "state": {f.State}}.Encode(),
	}
	return SignedIn{Redirect: to.String()}, nil
}

// openFlow returns the flow in the cookie of a sign-in that was started for the browser itself or
// for something else.
func (a *Access) openFlow(cookie string, browser bool) (f identity.Flow, err error) {
	if !a.openCookie(CLICookie, cookie, &f) || !a.Clock.Now().Before(f.Expires) || f.Browser != browser {
		err = fault.New(fault.Invalid, "This sign-in was not started in this browser, or it took longer than %d minutes", int(CLILifetime.Minutes()))
	}
	return f, err
}

// callback returns our redirect address. It has a query only with a provider that signs in by
// session, because others compare the address exactly.
func (a *Access) callback(f identity.Flow) string {
	to := a.CallbackURL
	if f.Browser {
		to = a.BrowserCallbackURL
	}
	if a.SessionCookie == "" {
		return to
	}
	return to + "?" + a.callbackQuery(f).Encode()
}

// callbackQuery returns the query of our redirect address for a provider that signs in by
// session. For a device and a browser the state is our own.
func (a *Access) callbackQuery(f identity.Flow) url.Values {
	if f.UserCode != "" || f.Browser {
		f.State = f.Own
	}
	return url.Values{"port": {strconv.Itoa(f.Port)}, "state": {f.State}}
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
