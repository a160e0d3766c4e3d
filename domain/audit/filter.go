package audit

import (
	"slices"
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// MaxTarget is the largest length of a filter's target, in bytes.
const MaxTarget = 255

// Source is whose entries a filter selects.
type Source string

// The sources that are no users.
const (
	Operators Source = "operator" // operators of the service
	Automatic Source = "system"   // neither a user nor an operator: the service itself and the providers
)

// Filter selects entries; all conditions must hold. The zero value selects all.
type Filter struct {
	Actor  id.User   // the acting user; empty: anyone
	Source Source    // empty: anyone
	Action Action    // empty: any
	Kind   string    // the noun of the action; empty: any
	Target string    // empty: any
	From   time.Time // the entry is not older; zero: of any age
	To     time.Time // the entry is older; zero: of any age
	After  id.Entry  // only entries after this one in the order of lists, for paging
	Limit  int       // at most so many; 0: all
}

// WithActor returns the filter with a condition on the actor: the id of a user, or a source.
func (f Filter) WithActor(text string) (Filter, error) {
	if of := Source(text); of == Operators || of == Automatic {
		f.Source = of
		return f, nil
	}
	user, ok := id.Parse[id.User](text)
	if !ok {
		return f, fault.Field("actor", "must be the id of a user, %s or %s", Operators, Automatic)
	}
	f.Actor = user
	return f, nil
}

// WithAction returns the filter with a condition on the action: one of Actions, or the kind of one.
func (f Filter) WithAction(text string) (Filter, error) {
	if a := Action(text); slices.Contains(Actions, a) {
		f.Action = a
		return f, nil
	}
	if !slices.ContainsFunc(Actions, func(a Action) bool { return a.Kind() == text }) {
		return f, fault.Field("action", "must be an action, such as %s, or the part before its dot", MemberRemoved)
	}
	f.Kind = text
	return f, nil
}

// Check returns an error if the filter's times or its target select nothing in any log.
func (f Filter) Check() error {
	switch {
	case len(f.Target) > MaxTarget:
		return fault.Field("target", "must have at most %d bytes", MaxTarget)
	case !f.To.IsZero() && !f.From.Before(f.To):
		return fault.Field("to", "must be after from")
	}
	return nil
}

// Selects reports whether the filter selects the entry, apart from paging. Adapters express the
// same in SQL; the contract suite compares them.
func (f Filter) Selects(e Entry) bool {
	return (f.Actor == "" || e.Actor == f.Actor) &&
		(f.Source == "" || e.Actor == "" && e.Operator == (f.Source == Operators)) &&
		(f.Action == "" || e.Action == f.Action) &&
		(f.Kind == "" || e.Action.Kind() == f.Kind) &&
		(f.Target == "" || e.Target == f.Target) &&
		!e.At.Before(f.From) &&
		(f.To.IsZero() || e.At.Before(f.To))
}
