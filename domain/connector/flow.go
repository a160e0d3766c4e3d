package connector

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// FlowLifetime is how long an authorization may take, from its start.
const FlowLifetime = 10 * time.Minute

// Times of registered clients.
const (
	// ClientRetention is how long a client is kept without an authorization.
	ClientRetention = 30 * 24 * time.Hour

	minClientUseInterval = 24 * time.Hour // the least advance of UsedAt
)

// AuthServer is the metadata of an authorization server (RFC 8414), with that of the tool
// server that names it (RFC 9728).
type AuthServer struct {
	Issuer        string
	Authorization string // the authorization endpoint
	Token         string // the token endpoint
	Registration  string // the endpoint of dynamic registration; empty: not supported
	Revocation    string // empty: not supported
	AuthMethods   []string
	Documents     bool     // it accepts the address of a metadata document as a client's id
	ReturnsIssuer bool     // its responses carry iss (RFC 9207)
	Resource      string   // the tool server's identifier, for RFC 8707
	Scopes        []string // to ask for
}

// Client is our registration at an authorization server.
type Client struct {
	ID       string
	Secret   string // empty: a public client
	Method   string // of client authentication at the token endpoint
	Redirect string // the redirect address, which no other issuer has
}

// issuerKeyLength is that of an issuer's key: 130 bits.
const issuerKeyLength = 26

// IssuerKey returns the key of an issuer in redirect addresses: the first 130 bits
// of its SHA-256 in base32.
func IssuerKey(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:issuerKeyLength])
}

// IsIssuerKey reports whether a text has the form of an issuer's key.
func IsIssuerKey(text string) bool {
	return len(text) == issuerKeyLength && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Redirect returns the redirect address, below callback, of a client that an operator
// registered at the issuer, or that was registered dynamically.
func Redirect(callback, issuer string) string { return callback + "/" + IssuerKey(issuer) }

// DocumentRedirect returns the redirect address of a client metadata document for the
// issuer of the key. It differs from Redirect's because any server accepts the document of
// any issuer: a response to it needs its iss.
func DocumentRedirect(callback, key string) string { return callback + "/document-" + key }

// SupportsClientDocument reports whether the address of a metadata document may be the
// client's id. The server has to name itself in its responses for that.
func (s AuthServer) SupportsClientDocument() bool { return s.Documents && s.ReturnsIssuer }

// Registered is a stored client that was registered dynamically, for an issuer and
// a redirect address.
type Registered struct {
	Issuer    string
	Redirect  string
	ID        string
	Secret    []byte // sealed, for RegisteredContext; empty: a public client
	Method    string
	ExpiresAt *time.Time // of the secret; nil: never
	UsedAt    time.Time  // when an authorization last began with it, or it was registered; precise to a day
}

// Used returns the client after an authorization began with it at now, and whether
// it has to be stored: UsedAt advances by a day or more.
func (r Registered) Used(now time.Time) (Registered, bool) {
	if now.Sub(r.UsedAt) < minClientUseInterval {
		return r, false
	}
	r.UsedAt = now
	return r, true
}

// RegisteredContext returns the context in which the secret of a registered client is sealed.
func RegisteredContext(issuer, client string) []byte {
	return []byte("client|" + issuer + "|" + client)
}

// UnknownClient is the cause of a refusal by an authorization server that does not
// know one of our clients any more.
type UnknownClient struct {
	Issuer string
	Client string // its id
}

func (*UnknownClient) Error() string { return "the authorization server does not know the client" }

// FlowStatus is the state of a flow.
type FlowStatus string

const (
	Pending   FlowStatus = "pending"
	Redeeming FlowStatus = "redeeming" // the code is being exchanged
	Ready     FlowStatus = "ready"
	Refused   FlowStatus = "error"
)

// Flow is an authorization between its start and the provider's response.
type Flow struct {
	State     string // the SHA-256 of state, which is known to the browser alone
	Org       id.Org
	User      id.User // who started it
	Instance  id.Connector
	Server    AuthServer
	Client    string // its id
	Redirect  string // the redirect address
	Verifier  []byte // of PKCE, sealed, for FlowContext
	Browser   string // the SHA-256 of the secret of the browser that confirmed it; empty: not confirmed
	Error     string // while refused: the reason, safe to show to users
	CreatedAt time.Time
	ExpiresAt time.Time

	status FlowStatus
}

// FlowContext returns the context in which the verifier of a flow is sealed.
func FlowContext(state string) []byte { return []byte("flow|" + state) }

// Started returns the flow as it begins at now.
func (f Flow) Started(now time.Time) Flow {
	f.status, f.CreatedAt, f.ExpiresAt = Pending, now, now.Add(FlowLifetime)
	return f
}

func (f Flow) Status() FlowStatus { return f.status }

// Restore returns the flow with its stored state.
func (f Flow) Restore(s FlowStatus) Flow {
	f.status = s
	return f
}

// CheckOpen returns NotFound unless the flow is pending and has not expired at now.
func (f Flow) CheckOpen(now time.Time) error {
	if f.status != Pending || !now.Before(f.ExpiresAt) {
		return fault.New(fault.NotFound, "This authorization was used already, or took longer than %d minutes", int(FlowLifetime.Minutes()))
	}
	return nil
}

// CheckVisible returns NotFound unless the user started the flow and it has not expired.
func (f Flow) CheckVisible(o id.Org, user id.User, now time.Time) error {
	if f.Org != o || f.User != user || !now.Before(f.ExpiresAt) {
		return fault.Missing("Authorization")
	}
	return nil
}

// Confirmed returns the flow after a user agreed to go to the provider, in the
// browser that holds the secret of this digest.
func (f Flow) Confirmed(browser string, now time.Time) (Flow, error) {
	if err := f.CheckOpen(now); err != nil {
		return f, err
	}
	f.Browser = browser
	return f, nil
}

// Declined returns the flow after a user decided not to go to the provider.
func (f Flow) Declined(now time.Time) (Flow, error) {
	if err := f.CheckOpen(now); err != nil {
		return f, err
	}
	return f.Failed("The authorization was declined"), nil
}

// Redeemed returns the flow after the provider's response arrived from the browser that
// holds the secret of this digest. It can be redeemed once. It fails with Forbidden for a
// browser that did not confirm it, so that a user cannot have another one consent.
func (f Flow) Redeemed(browser string, now time.Time) (Flow, error) {
	if err := f.CheckOpen(now); err != nil {
		return f, err
	}
	if f.Browser == "" || subtle.ConstantTimeCompare([]byte(f.Browser), []byte(browser)) != 1 {
		return f, fault.New(fault.Forbidden, "This authorization was begun in another browser")
	}
	f.status = Redeeming
	return f, nil
}

// Done returns the flow after its credentials were stored.
func (f Flow) Done() Flow {
	f.status = Ready
	return f
}

// Failed returns the flow after it failed, with a reason that is safe to show to
// users.
func (f Flow) Failed(reason string) Flow {
	f.status, f.Error = Refused, reason
	return f
}

// CheckResponse returns Forbidden unless a response comes from the flow's authorization
// server. Its redirect address must be the one that no other issuer uses (RFC 9700,
// section 4.4). Its iss (RFC 9207) must equal the issuer; it may be empty unless the
// server announces that it always sends one.
func (f Flow) CheckResponse(redirect, iss string) error {
	if redirect == f.Redirect && (iss == f.Server.Issuer || iss == "" && !f.Server.ReturnsIssuer) {
		return nil
	}
	return fault.New(fault.Forbidden, "The answer does not come from the server that was asked")
}
