package scenario

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/test/harness"
)

// statuses are the statuses of the kinds of errors, for acts that are no requests.
var statuses = [...]int{
	fault.Internal: http.StatusInternalServerError, fault.Invalid: http.StatusBadRequest, fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden: http.StatusForbidden, fault.NotFound: http.StatusNotFound, fault.Gone: http.StatusGone, fault.Conflict: http.StatusConflict,
	fault.Stale: http.StatusPreconditionFailed, fault.Mismatch: http.StatusUnprocessableEntity, fault.TooLarge: http.StatusRequestEntityTooLarge,
	fault.Unsupported: http.StatusUnsupportedMediaType, fault.Limited: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable,
}

// party is an actor that is no person.
type party string

const (
	person    party = "a person"
	clock     party = "clock"
	device    party = "device"
	operator  party = "operator"
	identity  party = "identity-provider"
	payments  party = "payments"
	models    party = "model"
	tools     party = "tools"
	machinery party = "server"
)

// parties are all of them, in the order of the documents.
var parties = []party{person, clock, device, operator, identity, payments, models, tools, machinery}

// partyOf returns the party that the first word of a line names.
func partyOf(actor string) party {
	if p := party(actor); p != person && slices.Contains(parties, p) {
		return p
	}
	return person
}

// act is something that can be done in a scenario.
type act struct {
	party   party
	name    string // empty for the clock, which has one act
	subject string // what the argument without a name is; empty: there is none; with a ? it is optional
	args    string // the names of the others, those with a * are required
	does    string // what it does and replies with, for people
	free    bool   // it takes arguments of any name
	begins  bool   // a person may begin with it
	do      func(*call) (any, error)
}

// title is the act as people write it.
func (a *act) title() string {
	if a.party == person {
		return a.name
	}
	return strings.TrimSpace(string(a.party) + " " + a.name)
}

func (a *act) needsSubject() bool { return a.subject != "" && !strings.HasSuffix(a.subject, "?") }

// names are the names of all arguments.
func (a *act) names() []string { return strings.Fields(strings.ReplaceAll(a.args, "*", "")) }

func (a *act) takes(name string) bool { return a.free || slices.Contains(a.names(), name) }

// required are the names of the arguments that must be given.
func (a *act) required() (names []string) {
	for _, n := range strings.Fields(a.args) {
		if name, ok := strings.CutSuffix(n, "*"); ok {
			names = append(names, name)
		}
	}
	return names
}

// acts are all acts.
var acts = slices.Concat(requestActs(), personActs, providerActs, queueActs(identity), queueActs(payments), serverActs)

// actOf returns an act of a party, nil when there is none of the name.
func actOf(p party, name string) *act {
	for _, a := range acts {
		if a.party == p && a.name == name {
			return a
		}
	}
	return nil
}

// call is an act that is being done.
type call struct {
	*run
	ctx     context.Context
	step    *step
	act     *act
	actor   string
	account *harness.Account   // nil: a party acts
	on      *string            // the argument without a name; nil: none
	args    map[string]*string // the others; nil: none
	wrong   *misuse            // the first argument that makes no sense
}

// findAccount finds the account of a person, who may begin with this act.
func (c *call) findAccount() error {
	if c.act.party != person {
		return nil
	}
	if !isPerson(c.actor) || partyOf(c.actor) != person {
		return &misuse{fmt.Sprintf("%q cannot act", c.actor)}
	}
	c.account = c.Identity.Accounts[c.actor]
	_, taken := c.results[c.actor]
	switch {
	case c.account != nil:
	case !c.act.begins:
		return &misuse{fmt.Sprintf("%s has no account yet: people begin with sign-up, join or accept", c.actor)}
	case taken:
		return &misuse{fmt.Sprintf("@%s is the name of a result", c.actor)}
	default:
		c.account = c.Identity.AddAccount(c.actor)
	}
	return nil
}

// misuse records an argument that makes no sense.
func (c *call) misuse(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = &misuse{fmt.Sprintf(format, args...)}
	}
}

// subject returns the argument without a name.
func (c *call) subject() string {
	if c.on == nil {
		return ""
	}
	return *c.on
}

// given reports whether an argument was given.
func (c *call) given(name string) bool {
	_, ok := c.args[name]
	return ok
}

// text returns an argument, empty where it is not given or none.
func (c *call) text(name string) string { return c.or(name, "") }

// or returns an argument, or something else where it is not given or none.
func (c *call) or(name, other string) string {
	if v := c.args[name]; v != nil {
		return *v
	}
	return other
}

// number returns an argument that is a whole number.
func (c *call) number(name string, other int64) int64 {
	v := c.args[name]
	if v == nil {
		return other
	}
	n, err := strconv.ParseInt(*v, 10, 64)
	if err != nil {
		c.misuse("%s=%s is no whole number", name, *v)
	}
	return n
}

// times returns an argument that is a number of repetitions, by default 1.
func (c *call) times(name string) int64 {
	n := c.number(name, 1)
	if n < 1 || n > 100 {
		c.misuse("%s is 1 to 100", name)
		return 0
	}
	return n
}

// flag returns an argument that is true or false.
func (c *call) flag(name string) bool {
	v := c.or(name, "false")
	if v != "true" && v != "false" {
		c.misuse("%s=%s is neither true nor false", name, v)
	}
	return v == "true"
}

// organisation returns the provider's side of the organisation with our id; where that is
// empty, of the one that the person is active in, or of the only one.
func (c *call) organisation(ours string) (*harness.Organisation, error) {
	if ours != "" {
		return c.Identity.OrganisationOf(c.ctx, ours)
	}
	if c.account != nil && c.account.Active != nil {
		return c.account.Active, nil
	}
	if len(c.Identity.Organisations) == 1 {
		for _, o := range c.Identity.Organisations {
			return o, nil
		}
	}
	return nil, &misuse{"say which organisation: there is none or more than one"}
}

// ourOrganisation returns our id of what organisation returns for the argument without a name.
func (c *call) ourOrganisation() (id.Org, error) {
	o, err := c.organisation(c.subject())
	if err != nil {
		return "", err
	}
	ours, err := c.Store.Directory().Organisations().ByProvider(c.ctx, o.ID)
	return ours.ID, err
}

// without makes an act of a function without a result.
func without(do func(*call) error) func(*call) (any, error) {
	return func(c *call) (any, error) { return nil, do(c) }
}

// about makes an act of a function whose first parameter has to be found.
func about[V any](find func(*call) (V, error), do func(*call, V) error) func(*call) (any, error) {
	return func(c *call) (any, error) {
		v, err := find(c)
		if err != nil {
			return nil, err
		}
		return nil, do(c, v)
	}
}
