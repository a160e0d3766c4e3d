package mcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/ports"
)

var _ ports.Authorizer = (*Authorizer)(nil)

// Bounds of what is taken from servers.
const (
	maxAnswer     = 64 << 10             // bytes of a document, or of an answer
	maxChallenges = 8 << 10              // bytes of a 401's challenges
	maxServers    = 4                    // authorization servers that are asked for one tool server
	maxScopes     = 4 << 10              // bytes of all scopes together
	maxToken      = 16 << 10             // bytes of a token
	maxClient     = 2 << 10              // bytes of a client's id, and of its secret
	maxLife       = 366 * 24 * time.Hour // of an access token
	maxSeconds    = 253_402_300_799      // the end of the year 9999, since 1970
)

// defaultTimeout is that of a request.
const defaultTimeout = 10 * time.Second

// The servers that are asked, in messages.
const (
	toolServer = "tool server"
	authServer = "authorization server"
)

// AuthorizerOptions are what an Authorizer works with.
type AuthorizerOptions struct {
	Client  *http.Client     // refuses addresses that must not be called, also those it is redirected to
	Blocked func(error) bool // reports whether an error of Client is such a refusal
	Clock   ports.Clock
	Plain   bool          // http is taken where https is demanded otherwise: for development
	Timeout time.Duration // of a request; a discovery takes three times as long at most; zero: 10 seconds
	Name    string        // of this service, by which registrations call it
	Home    string        // its address, likewise; empty: none
}

// Authorizer is a client of authorization servers, as the revision of 2026-07-28 of
// the Model Context Protocol wants it.
type Authorizer struct {
	AuthorizerOptions
	direct *http.Client // follows no redirects
}

// NewAuthorizer returns an Authorizer. It keeps nothing from one call to the next.
func NewAuthorizer(o AuthorizerOptions) *Authorizer {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	direct := *o.Client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Authorizer{o, &direct}
}

// address checks an address that somebody else told: it is absolute, by https or
// where plain by http, and without user, password and fragment.
func address(text string, plain bool) (*url.URL, bool) {
	if len(text) > check.MaxURL || strings.Contains(text, "#") {
		return nil, false
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Opaque != "" {
		return nil, false
	}
	// People are shown where they are sent: letters of other scripts look like others.
	if !isText(u.Host, false, check.MaxURL) {
		return nil, false
	}
	return u, u.Scheme == "https" || plain && u.Scheme == "http"
}

// reply is what a server answered.
type reply struct {
	status int
	body   []byte
}

// ask makes a request and reads the whole answer.
func (a *Authorizer) ask(client *http.Client, r *http.Request, who string) (reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r.WithContext(ctx))
	if err != nil {
		return reply{}, a.unreachable(err, who)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return reply{}, a.unreachable(err, who)
	}
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= http.StatusInternalServerError {
		return reply{}, answered(answer.StatusCode, who)
	}
	if len(body) > maxAnswer {
		return reply{}, unusable(who)
	}
	return reply{answer.StatusCode, body}, nil
}

// post sends a body that may hold secrets, which is why it goes to this address
// and is taken nowhere else by a redirect.
func (a *Authorizer) post(ctx context.Context, to, contentType string, body []byte, sign func(*http.Request)) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return reply{}, refusedAddress(authServer) // the error quotes the address
	}
	r.Header.Set("Content-Type", contentType)
	if sign != nil {
		sign(r)
	}
	return a.ask(a.direct, r, authServer)
}

// unreachable is the error for a request that got no answer.
func (a *Authorizer) unreachable(err error, who string) error {
	if a.Blocked(err) {
		return refusedAddress(who)
	}
	return fault.Wrap(fault.Unavailable, reason(err), "The %s cannot be reached", who)
}

// reason says why a request got no answer in words of its own, because errors of
// net/http name addresses and quote what servers sent, and with it what these were
// sent.
func reason(err error) error {
	var (
		timeout interface{ Timeout() bool }
		name    *net.DNSError
		number  syscall.Errno
		proof   *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &timeout) && timeout.Timeout():
		return context.DeadlineExceeded
	case errors.As(err, &name):
		return errors.New("its name does not resolve")
	case errors.As(err, &number):
		return number
	case errors.As(err, &proof):
		return errors.New("its certificate is not valid")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it closed the connection")
	}
	return errors.New("it does not speak HTTP as it should")
}

func refusedAddress(who string) error {
	return fault.New(fault.Invalid, "The address of the %s is not one that may be called", who)
}

func answered(status int, who string) error {
	return fault.New(fault.Unavailable, "The %s answered with status %d", who, status)
}

func unusable(who string) error {
	return fault.New(fault.Unavailable, "The %s gave an answer that cannot be used", who)
}

// seconds is a number of seconds as servers write it: also as a text, and with a
// fraction. Zero is for what is no number, and for what is below one.
type seconds int64

// UnmarshalJSON takes everything.
func (s *seconds) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || math.IsNaN(n) || n < 1 {
		*s = 0
		return nil
	}
	*s = seconds(min(n, maxSeconds))
	return nil
}

// decode reads a JSON object. Its error quotes nothing.
func decode(body []byte, v any) error {
	if body = bytes.TrimSpace(body); len(body) == 0 || body[0] != '{' {
		return errors.New("no JSON object")
	}
	if json.Unmarshal(body, v) != nil {
		return errors.New("no JSON object of the form")
	}
	return nil
}

// isText reports whether a text has only visible ASCII, and the space where it is
// said, and is no longer than the limit.
func isText(text string, spaces bool, limit int) bool {
	if len(text) > limit {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || r == ' ' && !spaces
	})
}

// status tells a log which answer a refusal was.
func status(code int) error { return fmt.Errorf("status %d", code) }
