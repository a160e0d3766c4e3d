// Package ports is the core's whole outward face: what it needs of the world,
// as interfaces in domain terms, one file for each part of it.
//
// What holds for every collection unless its comment says otherwise:
//
//   - Errors are fault.Error: NotFound for a record that is not there or is of
//     another organisation, Conflict for a key that is taken, Unavailable when
//     the store cannot be reached. A method that fails has changed nothing.
//   - Values that are passed in or handed out are the caller's: a collection
//     keeps no reference into them and gives none out.
//   - Methods may be called concurrently. Outside Atomic each is a transaction
//     of its own.
//   - Times are UTC with millisecond precision and come back as they went in.
package ports

import "context"

// Store is all that is kept, with transactions over it.
type Store interface {
	Records

	// Atomic runs fn with the collections of one transaction, which is committed
	// when fn returns nil and rolled back otherwise, also when fn panics. Fn may
	// run more than once, when the database asks for a retry, and so touches
	// nothing else. Fn uses only the collections that it is given; Atomic inside
	// fn is not allowed. What fn returns comes back unchanged.
	//
	// Reads inside fn see fn's own writes. They lock nothing, except for the
	// methods that say so: what a decision rests on is read by one of those.
	Atomic(ctx context.Context, fn func(Records) error) error
}

// Records hands over the collections.
type Records interface {
	Directory() Directory
	Work() Work
	Journal() Journal
	Storage() Storage
	Usage() Usage
	Connections() Connections
	Deployment() Deployment
}

// Directory holds who there is.
type Directory interface {
	Users() Users
	Organisations() Organisations
	Members() Members
	Seats() Seats
	Invitations() Invitations
	Subscriptions() Subscriptions
}

// Work holds what people work on.
type Work interface {
	Teams() Teams
	TeamMembers() TeamMembers
	Workspaces() Workspaces
	Orders() Orders
	Tasks() Tasks
	TaskSets() TaskSets
	TaskHistory() TaskHistory
}

// Journal holds what has happened.
type Journal interface {
	Inbox() Inbox
	Audit() Audit
	Replays() Replays
	Sessions() Sessions
}

// Health says whether the store answers.
type Health interface {
	// Ready returns nil when the store answers and has its present schema.
	Ready(ctx context.Context) error
}
