package httpapi

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"time"

	"collab/adapters/httpapi/limit"
	"collab/app/access"
	"collab/domain/audit"
	"collab/domain/fault"
	"collab/domain/org"
	"collab/domain/plan"
)

// guard names the callers that an endpoint admits.
type guard string

// The guards.
const (
	unlimited  guard = "unlimited" // anyone, without limits on how often
	public     guard = "public"    // anyone
	browser    guard = "browser"   // anyone; errors are pages where Accept names text/html
	webhook    guard = "webhook"   // the provider that signed the body, which the use case verifies
	caller     guard = "caller"    // a valid token; the organisation may be absent
	member     guard = "member"    // a valid token of a member
	writer     guard = "writer"    // a member who is not VIEWER
	manager    guard = "manager"   // OWNER and ADMIN
	owner      guard = "owner"     // OWNER
	byOperator guard = "operator"  // the operator's secret, or a session of the console by it
)

// token reports whether the guard requires a bearer token.
func (g guard) token() bool {
	switch g {
	case caller, member, writer, manager, owner:
		return true
	}
	return false
}

// admit decides whether a request is handled, and sets its caller. Requests are charged to
// their caller, or to the client's address if there is none or the credentials are refused.
// Admission is provisional, because rights are decided later, by authorize: a cached caller
// is enough to admit a request, but not to refuse it.
func (a *api) admit(c *call, g guard) error {
	switch g {
	case unlimited:
		return nil
	case public, browser, webhook:
		limiter := a.addresses
		if g == webhook {
			limiter = a.webhooks
		}
		if err := limiter.Take(c, limit.Network(c.address)); err != nil || c.route.Work == inMemory {
			return err
		}
		return c.Hold(requestMemory)
	case byOperator:
		if err := a.addresses.Take(c, limit.Network(c.address)); err != nil {
			return err
		}
		if !access.ByOperator(c.r.Context()) && !access.EqualSecrets(c.r.Header.Get("X-Admin-Secret"), a.AdminSecret) {
			return fault.New(fault.Unauthenticated, "X-Admin-Secret is missing or wrong")
		}
		c.operator = true
		c.setRequest(access.Request{Origin: audit.Origin{Address: c.address, Request: c.id}})
		return nil
	}
	if a.Access.BrowserUnread(c.r.Context()) {
		if err := a.addresses.Take(c, limit.Network(c.address)); err != nil {
			return err
		}
	}
	caller, err := a.Access.Verify(c.r.Context(), bearer(c.r.Header["Authorization"]))
	if err != nil {
		return a.chargeRefusal(c, err, refusedCredentials...)
	}
	caller.From = c.client()
	c.caller = caller
	request := caller.Request(c.id)
	request.Position = a.position(c)
	c.setRequest(request)
	actor, known := a.Access.Cached(caller)
	if c.provisional = known && g.check(actor) == nil; !c.provisional {
		if actor, err = a.lookup(c); err != nil {
			return err
		}
		c.releasePermit() // reading the body may take long
	}
	if err := a.callers.Take(c, string(caller.User)); err != nil {
		return err
	}
	if err := g.check(actor); err != nil {
		return err
	}
	c.provisional = true
	return a.chargePlan(c)
}

// chargePlan charges the request to the limit of the organisation's plan. It returns fault.Limited if the limit is
// reached.
func (a *api) chargePlan(c *call) error {
	if a.PlanLimiter == nil || c.caller.Org == "" {
		return nil
	}
	d := a.PlanLimiter.Take(c.r.Context(), c.caller.Org)
	if d.Limit == plan.Unlimited {
		return nil
	}
	reset := int(math.Ceil(d.Reset.Seconds()))
	limit.SetHeaders(c, string(d.Plan), d.Limit, d.Remaining, reset)
	if d.Allowed {
		return nil
	}
	return fault.New(fault.Limited, "The organisation's plan %s allows %d requests in a minute", d.Plan, d.Limit).RetryIn(reset)
}

// authorize returns the actor of the request according to the present records, or the error
// that a new request would get. It is the only way to an org.Actor. The body is read, and
// semaphores are acquired, before it, so that rights are those at the moment of the act.
// Only the content of an upload is read later, and its use case authorizes again.
func (a *api) authorize(c *call) (org.Actor, error) {
	c.provisional, c.authorized = false, true
	if c.operator {
		return org.Actor{Operator: true}, nil
	}
	actor, err := a.lookup(c)
	if err == nil {
		err = c.route.Guard.check(actor)
	}
	c.callerRefused = err != nil
	return actor, err
}

// setRequest adds r to the request's context.
func (c *call) setRequest(r access.Request) {
	c.deadlines.AddValue(func(parent context.Context) context.Context { return access.NewContext(parent, r) })
}

// unconfirmed returns the caller's actor from the cache, for an act that compares the
// organisation's epoch itself. Before such an actor is refused anything, authorize must be
// called. It returns false if there is none, or the route's guard does not admit it.
func (a *api) unconfirmed(c *call) (actor org.Actor, ok bool) {
	actor, ok = a.Access.Cached(c.caller)
	if !ok || c.route.Guard.check(actor) != nil || c.acquirePermit() != nil {
		return org.Actor{}, false
	}
	c.authorized = true
	return actor, true
}

// unconfirmedOrAuthorized returns the unconfirmed actor, or that of authorize if there is none, for use
// cases that compare the organisation's epoch themselves before they change or return anything.
func (a *api) unconfirmedOrAuthorized(c *call) (org.Actor, error) {
	if actor, ok := a.unconfirmed(c); ok {
		return actor, nil
	}
	return a.authorize(c)
}

// tryUnconfirmed calls try with the unconfirmed actor. If there is none or try refuses it, the caller is
// authorized. It then returns the refusal if the epoch is still the same, or calls do with the authorized actor.
func tryUnconfirmed[T any](a *api, c *call, try, do func(org.Actor) (T, error)) (v T, err error) {
	cached, tried := a.unconfirmed(c)
	var refused error
	if tried {
		v, refused = try(cached)
		switch {
		case refused == nil:
			return v, nil
		case fault.Is(refused, fault.Internal, fault.Unavailable):
			return v, refused // try may have changed records
		}
	}
	actor, err := a.authorize(c)
	if err != nil {
		return v, err
	}
	if tried && actor.Epoch() == cached.Epoch() {
		return v, refused
	}
	return do(actor)
}

// recheck returns the error of a request, or that of its caller if the caller was admitted
// provisionally and has no rights any more, as the error could reveal what such a caller
// must not know. That of a body that did not arrive in time reveals nothing, and net/http has canceled the context.
func (a *api) recheck(c *call, err error) error {
	if err != nil && c.provisional && !errors.Is(err, os.ErrDeadlineExceeded) {
		if _, refused := a.authorize(c); refused != nil {
			return refused
		}
	}
	return err
}

// lookup returns the caller's actor according to the present records.
func (a *api) lookup(c *call) (org.Actor, error) {
	if err := c.acquirePermit(); err != nil {
		return org.Actor{}, err
	}
	actor, err := a.actorOf(c.r.Context(), c.caller)
	if err != nil {
		limit.RemoveHeaders(c.Header()) // those of the provisional caller
		return org.Actor{}, a.chargeRefusal(c, err, refusedCredentials...)
	}
	return actor, nil
}

// confirmEvery is how long content or a list is sent before its client's rights are looked up again.
const confirmEvery = 30 * time.Second

// confirmation returns a function that is called before each piece of content. From time to time it returns the
// error of a caller who may not have the content any more, which must be visible to the actor. The operator always may.
func (a *api) confirmation(c *call, visible func(org.Actor) bool) func() error {
	last := a.Now()
	return func() error {
		now := a.Now()
		if c.operator || now.Sub(last) < confirmEvery {
			return nil
		}
		last = now
		actor, err := a.actorOf(c.r.Context(), c.caller.WithoutExpiry())
		if err == nil {
			err = c.route.Guard.check(actor)
		}
		switch {
		case fault.Is(err, fault.Unavailable, fault.Internal):
			return nil // rights are looked up again later
		case err == nil && !visible(actor):
			return fault.Missing("Content")
		}
		return err
	}
}

// action is a handler after the authorization, without a body.
type action func(*call, org.Actor) error

// authorized returns a handler that authorizes the caller and runs the action.
func (a *api) authorized(do action) handler {
	return func(c *call) error {
		actor, err := a.authorize(c)
		if err != nil {
			return err
		}
		return do(c, actor)
	}
}

// refusedCredentials are the kinds of errors of refused credentials.
var refusedCredentials = []fault.Kind{fault.Unauthenticated, fault.Forbidden}

// chargeRefusal charges a request that was refused with one of the kinds to the client's
// address, and returns a Limited error if there were too many.
func (a *api) chargeRefusal(c *call, err error, kinds ...fault.Kind) error {
	if fault.Is(err, kinds...) {
		if limited := a.addresses.Take(c, limit.Network(c.address)); limited != nil {
			return limited
		}
	}
	return err
}

// check returns an error if the guard does not admit the actor's role.
func (g guard) check(actor org.Actor) error {
	switch g {
	case member:
		return actor.CheckMember()
	case writer:
		return actor.CheckWrite()
	case manager:
		return actor.CheckManager()
	case owner:
		return actor.CheckOwner()
	}
	return nil
}

// bearer returns the token of an Authorization header, empty if there is none.
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
