package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"collab/adapters/outbound"
	"collab/domain/check"
	"collab/domain/fault"
	"collab/ports"
)

var _ ports.Authorizer = (*Authorizer)(nil)

// Limits of server responses.
const (
	maxResponse       = 64 << 10             // bytes of a response
	maxChallengeBytes = 8 << 10              // bytes of a 401's challenges
	maxServers        = 4                    // authorization servers tried for one tool server
	maxScopes         = 4 << 10              // bytes of all scopes together
	maxToken          = 16 << 10             // bytes of a token
	maxClient         = 2 << 10              // bytes of a client's id, and of its secret
	maxLifetime       = 366 * 24 * time.Hour // of an access token
	maxSeconds        = 253_402_300_799      // the end of the year 9999, since 1970
)

// defaultTimeout limits a request.
const defaultTimeout = 10 * time.Second

// Names of servers in errors.
const (
	toolServer = "tool server"
	authServer = "authorization server"
)

// AuthorizerOptions configure NewAuthorizer.
type AuthorizerOptions struct {
	Client  *http.Client // refuses addresses that must not be called, also after redirects
	Clock   ports.Clock
	Plain   bool          // accepts http, for development
	Timeout time.Duration // of a request; a discovery takes three times as long at most; zero: 10 seconds
	Home    string        // its URL in registrations; empty: none
}

// Authorizer implements ports.Authorizer by revision 2026-07-28 of the Model Context
// Protocol.
type Authorizer struct {
	AuthorizerOptions
	direct *http.Client // follows no redirects
}

// NewAuthorizer returns an Authorizer. It has no state.
func NewAuthorizer(o AuthorizerOptions) *Authorizer {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	direct := *o.Client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Authorizer{o, &direct}
}

// address parses a URL of a foreign server. It must be absolute, https or, with plain, http,
// and have neither user nor fragment.
func address(text string, plain bool) (*url.URL, bool) {
	if len(text) > check.MaxURL || strings.Contains(text, "#") {
		return nil, false
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, false
	}
	// Hosts are displayed: letters of other scripts look alike.
	if !isASCII(u.Host, '!', check.MaxURL) {
		return nil, false
	}
	return u, u.Scheme == "https" || plain && u.Scheme == "http"
}

// response is a complete HTTP response.
type response struct {
	status int
	body   []byte
}

// do makes a request and reads the response.
func (a *Authorizer) do(client *http.Client, r *http.Request, server string) (response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
	defer cancel()
	r.Header.Set("Accept", "application/json")
	res, err := client.Do(r.WithContext(ctx))
	if err != nil {
		return response{}, a.unreachable(err, server)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return response{}, a.unreachable(err, server)
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError {
		return response{}, statusError(res.StatusCode, server)
	}
	if len(body) > maxResponse {
		return response{}, invalidResponse(server)
	}
	return response{res.StatusCode, body}, nil
}

// post sends a body. It follows no redirects, because the body may contain secrets.
func (a *Authorizer) post(ctx context.Context, to, contentType string, body []byte, sign func(*http.Request)) (response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return response{}, refusedAddress(authServer) // the error quotes the address
	}
	r.Header.Set("Content-Type", contentType)
	if sign != nil {
		sign(r)
	}
	return a.do(a.direct, r, authServer)
}

// unreachable returns the error for a request without a response.
func (a *Authorizer) unreachable(err error, server string) error {
	if outbound.Blocked(err) {
		return refusedAddress(server)
	}
	return fault.Wrap(fault.Unavailable, reason(err), "The %s cannot be reached", server)
}

// reason returns the cause of a missing response, without URLs and text of servers.
func reason(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case outbound.IsTimeout(err):
		return context.DeadlineExceeded
	}
	return errors.New(outbound.Reason(err))
}

func refusedAddress(server string) error {
	return fault.New(fault.Invalid, "The address of the %s is not one that may be called", server)
}

func statusError(status int, server string) error {
	return fault.New(fault.Unavailable, "The %s answered with status %d", server, status)
}

func invalidResponse(server string) error {
	return fault.New(fault.Unavailable, "The %s gave an answer that cannot be used", server)
}

// seconds is a number of seconds, which may be a JSON string and have a fraction. It is zero
// for other values and below one.
type seconds int64

// UnmarshalJSON never fails.
func (s *seconds) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err == nil && n >= 1 {
		*s = seconds(min(n, maxSeconds))
	}
	return nil
}

// decode decodes a JSON object. Its errors contain no content.
func decode(body []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, v) != nil {
		return errors.New("no JSON object of the form")
	}
	return nil
}

// isASCII reports whether text is at most limit bytes of ASCII from first to ~. A first of ' '
// allows spaces, '!' does not.
func isASCII(text string, first rune, limit int) bool {
	return len(text) <= limit && !strings.ContainsFunc(text, func(r rune) bool { return r < first || r > '~' })
}

// status returns an HTTP status as the cause of an error.
func status(code int) error { return fmt.Errorf("status %d", code) }
