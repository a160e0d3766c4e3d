package connector

import (
	"slices"

	"collab/domain/fault"
)

// Status is the state of an instance.
type Status string

// The states. None is the state before creation.
const (
	None         Status = ""
	Disconnected Status = "DISCONNECTED" // it has no credentials yet
	Connecting   Status = "CONNECTING"   // it has, and the server is being checked
	Connected    Status = "CONNECTED"
	Failing      Status = "ERROR" // LastError says why
)

// Statuses lists all states, without None.
func Statuses() []Status { return []Status{Disconnected, Connecting, Connected, Failing} }

// Trigger is an event that changes an instance's state.
type Trigger string

const (
	CreatedWithoutAuth Trigger = "POST /connectors, no credentials needed"
	CreatedWithAuth    Trigger = "POST /connectors, credentials needed"
	StoredCloud        Trigger = "credentials stored, CLOUD"
	StoredLocal        Trigger = "credentials stored, LOCAL"
	Renewed            Trigger = "access token refreshed"
	Answered           Trigger = "the server answers over MCP"
	Failed             Trigger = "the server cannot be reached, or refuses"
	Revoked            Trigger = "the authorization is withdrawn"
)

// Transition is a row of the table. The specification has no transitions: all
// are decisions.
type Transition struct {
	From    []Status
	Trigger Trigger
	To      Status
	Effects string // in addition
}

var (
	existing = Statuses()
	// checkable are the states of instances whose server can be checked.
	checkable = slices.DeleteFunc(Statuses(), func(s Status) bool { return s == Disconnected })
)

// Table returns all transitions. A trigger that has no row for a state is refused.
func Table() []Transition {
	return []Transition{
		{From: []Status{None}, Trigger: CreatedWithoutAuth, To: Connected, Effects: "a CLOUD server is checked soon"},
		{From: []Status{None}, Trigger: CreatedWithAuth, To: Disconnected},
		{From: existing, Trigger: StoredCloud, To: Connecting, Effects: "the server is checked at once; lastError is cleared"},
		{From: existing, Trigger: StoredLocal, To: Connected, Effects: "only a client can check it; lastError is cleared"},
		{From: []Status{Connecting}, Trigger: Renewed, To: Connecting},
		{From: []Status{Connected}, Trigger: Renewed, To: Connected},
		{From: []Status{Failing}, Trigger: Renewed, To: Connecting, Effects: "the server is checked at once; lastError is cleared"},
		{From: checkable, Trigger: Answered, To: Connected, Effects: "tools and lastUsedAt are set; lastError is cleared"},
		{
			From: checkable, Trigger: Failed, To: Failing,
			Effects: "lastError has the reason; checked again with backoff; also if the credentials cannot be opened",
		},
		{From: checkable, Trigger: Revoked, To: Failing, Effects: "not checked again without new credentials"},
	}
}

type transitionKey struct {
	from    Status
	trigger Trigger
}

var transitions = func() map[transitionKey]Status {
	all := map[transitionKey]Status{}
	for _, t := range Table() {
		for _, from := range t.From {
			all[transitionKey{from, t.Trigger}] = t.To
		}
	}
	return all
}()

// after returns the state after a trigger. Conflict where the table has no row.
func (s Status) after(trigger Trigger) (Status, error) {
	to, ok := transitions[transitionKey{s, trigger}]
	if !ok {
		return s, fault.New(fault.Conflict, "A connector that is %s cannot change by this: %s", s, trigger)
	}
	return to, nil
}
