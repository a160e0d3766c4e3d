package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
	"collab/domain/org"
	"collab/domain/patch"
)

// party is who acts. Whoever is none of those below is a person.
type party string

const (
	person     party = "a person"
	clock      party = "clock"
	server     party = "server"
	operating  party = "operator"
	idprovider party = "identity-provider"
	payers     party = "payments"
	modeller   party = "model"
	toolers    party = "tools"
	device     party = "device"
)

// parties are all of them, in the order of the documents.
var parties = []party{person, clock, device, operating, idprovider, payers, modeller, toolers, server}

// partyOf returns who a line's first word is.
func partyOf(who string) party {
	if p := party(who); p != person && slices.Contains(parties, p) {
		return p
	}
	return person
}

// act is something that can be done in a scenario.
type act struct {
	who    party
	name   string // empty for the clock, who does one thing
	on     string // what the argument without a name is; empty: there is none; with a ? it may be left out
	args   string // the names of the others, those with a * are needed
	does   string // what it does and answers with, for people
	open   bool   // without a token
	begins bool   // somebody may come with it
	// It needs no organisation, as every other act of somebody who is signed in does.
	anywhere bool
	do       func(*call) (any, error)
}

// tokenArg is the argument that all acts of people who are signed in take.
const tokenArg = "token"

// title is the act as people call it.
func (a *act) title() string {
	if a.who == person {
		return a.name
	}
	return strings.TrimSpace(string(a.who) + " " + a.name)
}

func (a *act) onRequired() bool { return a.on != "" && !strings.HasSuffix(a.on, "?") }
func (a *act) onName() string   { return strings.TrimSuffix(a.on, "?") }

// names are the names of all arguments.
func (a *act) names() []string {
	names := strings.Fields(strings.ReplaceAll(a.args, "*", ""))
	if a.who == person && !a.open && !slices.Contains(names, tokenArg) {
		names = append(names, tokenArg)
	}
	return names
}

func (a *act) takes(name string) bool { return slices.Contains(a.names(), name) }

// required are the names of those that are needed.
func (a *act) required() (names []string) {
	for _, n := range strings.Fields(a.args) {
		if name, ok := strings.CutSuffix(n, "*"); ok {
			names = append(names, name)
		}
	}
	return names
}

// acts are all acts, by who does them.
var acts = slices.Concat(peopleActs, orgActs, workActs, fileActs, chatActs, billingActs, connectorActs, releaseActs, outsideActs, serverActs)

// actOf returns an act of a party, nil when there is none of the name.
func actOf(p party, name string) *act {
	for _, a := range acts {
		if a.who == p && a.name == name {
			return a
		}
	}
	return nil
}

// suggestAct says which act may have been meant, of this party or another.
func suggestAct(p party, who, name string) string {
	var names []string
	for _, a := range acts {
		if a.who == p {
			names = append(names, a.name)
		}
	}
	if near := suggest(name, names); near != "" {
		return near
	}
	for _, a := range acts {
		if a.name == name {
			return fmt.Sprintf(": %s is what %s does, and not %s", name, a.who, who)
		}
	}
	return ""
}

// call is an act that is being done.
type call struct {
	*World
	run     *run
	ctx     context.Context
	act     *act
	who     string
	person  *account  // nil: somebody else acts
	actor   org.Actor // of acts of people who are signed in
	on      *string   // the argument without a name; nil: none
	args    map[string]*string
	wrong   *misuse // the first argument that makes no sense
	refused error   // the first argument that cannot be read
}

func (c *call) misuse(format string, args ...any) {
	if c.wrong == nil {
		c.wrong = &misuse{fmt.Sprintf(format, args...)}
	}
}

// given reports whether an argument stands in the scenario.
func (c *call) given(name string) bool {
	_, ok := c.args[name]
	return ok
}

// text returns an argument, empty where it is not given or none.
func (c *call) text(name string) string {
	if v := c.args[name]; v != nil {
		return *v
	}
	return ""
}

// or returns an argument, or something else where it is not given.
func (c *call) or(name, other string) string {
	if v := c.args[name]; v != nil {
		return *v
	}
	return other
}

// subject returns the argument without a name.
func (c *call) subject() string {
	if c.on == nil {
		return ""
	}
	return *c.on
}

// number returns an argument that is a whole number.
func (c *call) number(name string, other int64) int64 {
	v := c.args[name]
	if v == nil {
		return other
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(*v, "_", ""), 10, 64)
	if err != nil {
		c.misuse("%s=%s is no whole number", name, *v)
	}
	return n
}

// flag returns an argument that is true or false.
func (c *call) flag(name string) bool {
	v := c.args[name]
	if v == nil {
		return false
	}
	b, ok := flagOf(*v)
	if !ok {
		c.misuse("%s=%s is neither true nor false", name, *v)
	}
	return b
}

func flagOf(s string) (is, ok bool) { return s == "true", s == "true" || s == "false" }

// time returns an argument that is a time; nil where it is not given.
func (c *call) time(name string) *time.Time {
	v := c.args[name]
	if v == nil {
		return nil
	}
	t, ok := parseInstant(*v)
	if !ok {
		c.misuse("%s=%s is no time: write +14d, or 2026-03-02T09:00:00Z", name, *v)
	}
	return &t
}

// list returns an argument that is texts with commas between them.
func (c *call) list(name string) []string { return listOf(c.text(name)) }

func listOf(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// ids returns an argument that is ids with commas between them, of which each may
// be a name.
func ids[T ~string](c *call, s string) (all []T) {
	for _, part := range listOf(s) {
		v, err := c.run.value(word{text: strings.TrimSpace(part)})
		if err != nil || v == nil {
			c.misuse("%q is not a list of ids", s)
			return nil
		}
		all = append(all, T(*v))
	}
	return all
}

// optional returns an argument as the domain has optional ones.
func optional[T ~string](c *call, name string) *T {
	v := c.args[name]
	if v == nil {
		return nil
	}
	return new(T(*v))
}

// count returns an optional number.
func (c *call) count(name string) *int64 {
	if c.args[name] == nil {
		return nil
	}
	return new(c.number(name, 0))
}

// change returns an argument as a field of a partial update: none clears it.
func change[T any](c *call, name string, read func(string) (T, error)) patch.Field[T] {
	v, given := c.args[name]
	switch {
	case !given:
		return patch.Field[T]{}
	case v == nil:
		return patch.Null[T]()
	}
	t, err := read(*v)
	if err != nil {
		c.refuse(err)
	}
	return patch.Value(t)
}

// refuse has the act fail as a request fails whose body cannot be read.
func (c *call) refuse(err error) {
	if c.refused == nil {
		c.refused = err
	}
}

func asText(s string) (string, error) { return s, nil }

func asID[T ~string](s string) (T, error) { return T(s), nil }

// asNumber reads a whole number.
func asNumber[T ~int | ~int64](name string) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return 0, fault.Field(name, "must be an integer")
		}
		return T(n), nil
	}
}

// oneOf reads an enumeration, written exactly as in the interface.
func oneOf[T ~string](name string, parse func(string) (T, bool), all ...T) func(string) (T, error) {
	return func(s string) (T, error) {
		v, ok := parse(s)
		if !ok {
			texts := make([]string, len(all))
			for i, a := range all {
				texts[i] = string(a)
			}
			return v, fault.Field(name, "must be one of %s", strings.Join(texts, ", "))
		}
		return v, nil
	}
}

// read returns an argument read as something, the zero value where it is not
// given.
func read[T any](c *call, name string, as func(string) (T, error)) (t T) {
	v := c.args[name]
	if v == nil {
		return t
	}
	t, err := as(*v)
	if err != nil {
		c.refuse(err)
	}
	return t
}

// tenant returns the organisation that an argument names, the one without a name
// where name is empty; else the one that the person is in, or the only one.
func (c *call) tenant(name string) (*tenant, error) {
	ours := c.text(name)
	if name == "" {
		ours = c.subject()
	}
	if ours == "" {
		if c.person != nil && c.person.at != nil {
			return c.person.at, nil
		}
		if len(c.Identity.tenants) == 1 {
			for _, t := range c.Identity.tenants {
				return t, nil
			}
		}
		return nil, &misuse{"say which organisation: there is none or more than one"}
	}
	return c.Identity.tenantOf(c.ctx, ours)
}

// subjectTenant is tenant for the argument without a name.
func (c *call) subjectTenant() (*tenant, error) { return c.tenant("") }

// organisation returns our id of what tenant returns.
func (c *call) organisation(name string) (id.Org, error) {
	t, err := c.tenant(name)
	if err != nil {
		return "", err
	}
	o, err := c.Store.Directory().Organisations().ByProvider(c.ctx, t.id)
	return o.ID, err
}

// bad returns what is wrong with the arguments that were read so far.
func (c *call) bad() error {
	if c.wrong != nil {
		return c.wrong
	}
	return c.refused
}

// answered returns what an act answers with that has something to say, if the
// arguments were right.
func answered[V any](c *call, do func() (V, error)) (any, error) {
	if err := c.bad(); err != nil {
		return nil, err
	}
	v, err := do()
	if err != nil {
		return nil, err
	}
	return v, nil
}

// answers makes an act of one that needs no other arguments than texts.
func answers[V any](do func(*call) (V, error)) func(*call) (any, error) {
	return func(c *call) (any, error) { return answered(c, func() (V, error) { return do(c) }) }
}

// does is answers for an act that has nothing to say.
func does(do func(*call) error) func(*call) (any, error) {
	return func(c *call) (any, error) { return only(c, func() error { return do(c) }) }
}

// lists is answers for an act that hands over what it lists one by one.
func lists[V any](do func(c *call, each func(V) error) error) func(*call) (any, error) {
	return answers(func(c *call) ([]V, error) {
		return collect(func(each func(V) error) error { return do(c, each) })
	})
}

// with makes an act of one that is about something which has to be found first.
func with[V any](find func(*call) (V, error), do func(*call, V) (any, error)) func(*call) (any, error) {
	return func(c *call) (any, error) {
		v, err := find(c)
		if err != nil {
			return nil, err
		}
		return do(c, v)
	}
}

// only is answered for an act that has nothing to say.
func only(c *call, do func() error) (any, error) {
	return answered(c, func() (record, error) { return done, do() })
}

// collect gathers what is handed over one by one.
func collect[V any](list func(each func(V) error) error) ([]V, error) {
	all := []V{}
	err := list(func(v V) error {
		all = append(all, v)
		return nil
	})
	return all, err
}

// done is what an act answers with that has nothing else to say.
var done = record{{"success", "true"}}
