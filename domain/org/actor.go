package org

import (
	"collab/domain/fault"
	"collab/domain/id"
)

// Actor is the caller that a request acts as. An actor without an organisation
// has an empty Org and Role and may do only what needs none.
type Actor struct {
	User id.User
	Org  id.Org
	Role Role

	// Operator is set for calls with the operator's secret, which have no user.
	Operator bool

	Visibility *Visibility // nil without an organisation
}

// Epoch returns the epoch of the organisation at which the actor's visibility was read, 0
// without one.
func (a Actor) Epoch() int64 {
	if a.Visibility == nil {
		return 0
	}
	return a.Visibility.Epoch
}

// CheckMember decides whether the actor acts in an organisation at all.
func (a Actor) CheckMember() error {
	if a.Org == "" {
		return fault.New(fault.Forbidden, "This needs an organisation, and the caller has none")
	}
	return nil
}

// CheckWrite decides whether the actor may change anything in its organisation.
func (a Actor) CheckWrite() error {
	return a.allowed(a.Role.MayWrite(), "A VIEWER has read-only access")
}

// CheckOwner decides whether the actor is an owner of the organisation.
func (a Actor) CheckOwner() error {
	return a.allowed(a.Role == Owner, "This needs the role OWNER")
}

// CheckManager decides whether the actor may manage members and settings.
func (a Actor) CheckManager() error {
	return a.allowed(a.Role.MayManage(), "This needs the role OWNER or ADMIN")
}

// CheckOperator decides whether the actor is an operator of the deployment.
func (a Actor) CheckOperator() error {
	if !a.Operator {
		return fault.New(fault.Unauthenticated, "This needs the operator's secret")
	}
	return nil
}

func (a Actor) allowed(may bool, refusal string) error {
	if err := a.CheckMember(); err != nil {
		return err
	}
	if !may {
		return fault.New(fault.Forbidden, "%s", refusal)
	}
	return nil
}
