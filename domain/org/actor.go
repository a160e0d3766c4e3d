package org

import (
	"time"

	"collab/domain/fault"
	"collab/domain/id"
)

// Actor is who a request acts as. An actor without an organisation has an
// empty Org and Role and may do only what needs none.
type Actor struct {
	User    id.User
	Org     id.Org
	Role    Role
	Address string // the network address the request came from, for the audit log
	Request string // the request's id

	Session id.Session // of the service token that the request came with; empty for an identity token
	// Operator is set for calls with the operator's secret, which have no user.
	Operator bool

	// Until is when the token expires that the request came with; zero for none.
	Until time.Time

	Visibility *Visibility

	// Presumed is set for an actor whom a token stood for at the epoch in Visibility and
	// who was not looked at since. What it does has to depend on that epoch.
	Presumed bool

	// Mark is the organisation's when the actor was looked at; zero for an actor
	// that was not.
	Mark Mark
}

// From returns the actor as who goes on with the request of another: that request's
// address, id and token.
func (a Actor) From(request Actor) Actor {
	a.Session, a.Until, a.Address, a.Request = request.Session, request.Until, request.Address, request.Request
	return a
}

// Mark says how far an organisation has come. What was read of it at a mark, or
// later, is as new as anybody needs it who finds the same mark.
type Mark struct {
	Epoch int64 // moves with every change of who is in it, or who sees what

	// Of its log of changes, which every change of a stored object is in: the log's
	// epoch, and the number of the last entry, 0 where there is none.
	LogEpoch int64
	LogN     int64
}

// Belongs decides whether the actor acts in an organisation at all.
func (a Actor) Belongs() error {
	if a.Org == "" {
		return fault.New(fault.Forbidden, "This needs an organisation, and the caller has none")
	}
	return nil
}

// Writes decides whether the actor may change anything in its organisation.
func (a Actor) Writes() error {
	if err := a.Belongs(); err != nil {
		return err
	}
	if !a.Role.MayWrite() {
		return fault.New(fault.Forbidden, "A VIEWER has read-only access")
	}
	return nil
}

// Owns decides whether the actor is an owner of the organisation.
func (a Actor) Owns() error {
	if err := a.Belongs(); err != nil {
		return err
	}
	if a.Role != Owner {
		return fault.New(fault.Forbidden, "This needs the role OWNER")
	}
	return nil
}

// Manages decides whether the actor may manage members and settings.
func (a Actor) Manages() error {
	if err := a.Belongs(); err != nil {
		return err
	}
	if !a.Role.MayManage() {
		return fault.New(fault.Forbidden, "This needs the role OWNER or ADMIN")
	}
	return nil
}
