package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"

	"collab/domain/fault"
	"collab/domain/org"
)

// guard says who may call an endpoint.
type guard string

// The guards.
const (
	free      guard = "free"     // anyone, without limits on how often
	open      guard = "open"     // anyone
	browser   guard = "browser"  // anyone; errors are pages where Accept names text/html
	signed    guard = "signed"   // who signed the body, which the use case verifies
	caller    guard = "caller"   // a valid token; the organisation may be absent
	member    guard = "member"   // a valid token of a member
	writer    guard = "writer"   // a member who is not VIEWER
	manager   guard = "manager"  // OWNER and ADMIN
	owner     guard = "owner"    // OWNER
	operating guard = "operator" // the operator's secret
)

// keyed reports whether a POST may bring an idempotency key. Messages have ids of
// their own, and forms are for browsers, which bring none.
func (g guard) keyed() bool { return g != signed && g != browser }

// token reports whether the guard asks for a bearer token.
func (g guard) token() bool {
	switch g {
	case caller, member, writer, manager, owner:
		return true
	}
	return false
}

// admit lets a request in or says why not, and sets whom it acts as. Requests
// are charged to their caller, and to the client's address where there is none
// or where the credentials do not count.
func (a *api) admit(c *call, g guard) error {
	switch g {
	case free, signed:
		return nil
	case open, browser:
		return a.addresses.take(c, network(c.address))
	case operating:
		if err := a.addresses.take(c, network(c.address)); err != nil {
			return err
		}
		if !same(c.r.Header.Get("X-Admin-Secret"), a.AdminSecret) {
			return fault.New(fault.Unauthenticated, "X-Admin-Secret is missing or wrong")
		}
		c.actor = org.Actor{Operator: true, Address: c.address, Request: c.id}
		return nil
	}
	if !a.presume(c, g) {
		if err := a.authenticate(c); err != nil {
			return err
		}
	}
	if err := a.callers.take(c, string(c.actor.User)); err != nil {
		return err
	}
	return g.check(c.actor)
}

// authenticate sets the actor that the request's token stands for.
func (a *api) authenticate(c *call) error {
	actor, err := a.Access.Authenticate(c.r.Context(), bearer(c.r.Header["Authorization"]))
	if err != nil {
		withdrawLimits(c) // of whom the caller was presumed to be
		return a.charged(c, err, refusedCredentials...)
	}
	actor.Address, actor.Request = c.address, c.id
	c.actor = actor
	return nil
}

// presume sets the actor that a chat's token is known to have stood for, if it
// would be let in. The reservation of its tokens then finds out whether that holds,
// with one look at the database for both; any refusal needs confirm first. A request
// with a key is not worth it, as it looks for the first answer before.
func (a *api) presume(c *call, g guard) bool {
	if c.route.Path != chatPath || c.r.Header["Idempotency-Key"] != nil {
		return false
	}
	actor, known := a.Access.Presume(bearer(c.r.Header["Authorization"]))
	if !known || g.check(actor) != nil {
		return false
	}
	actor.Address, actor.Request = c.address, c.id
	c.actor = actor
	return true
}

// confirm looks at a caller who was presumed, and refuses them as admit does.
func (a *api) confirm(c *call) error {
	c.actor = org.Actor{}
	if err := a.authenticate(c); err != nil {
		return err
	}
	return c.route.Guard.check(c.actor)
}

// refusedCredentials are the kinds of errors that say so of credentials.
var refusedCredentials = []fault.Kind{fault.Unauthenticated, fault.Forbidden}

// charged counts a request that was refused with one of the kinds against the
// client's address, and refuses it for that alone once there were too many.
func (a *api) charged(c *call, err error, kinds ...fault.Kind) error {
	if slices.ContainsFunc(kinds, func(k fault.Kind) bool { return fault.Is(err, k) }) {
		if limited := a.addresses.take(c, network(c.address)); limited != nil {
			return limited
		}
	}
	return err
}

// check decides by the role.
func (g guard) check(actor org.Actor) error {
	switch g {
	case member:
		return actor.Belongs()
	case writer:
		return actor.Writes()
	case manager:
		return actor.Manages()
	case owner:
		return actor.Owns()
	}
	return nil
}

// bearer returns the token of an Authorization header, empty where there is
// none.
func bearer(header []string) string {
	if len(header) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// same compares secrets in a time that says nothing about them.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
