// Package ports has the interfaces between the core and its adapters, in domain terms, one
// file for each area.
//
// Every collection keeps these rules unless its comment says otherwise:
//
//   - Errors are fault.Error: NotFound for a record that does not exist or is another
//     organisation's, Conflict for a key that is taken, Unavailable if the store cannot be
//     reached. A method that fails has changed nothing.
//   - Arguments and results belong to the caller: a collection retains no reference into
//     them.
//   - Methods may be called concurrently. Outside Atomic each is a transaction of its own.
//   - Times are UTC with millisecond precision and are returned as they were stored.
package ports

import (
	"context"

	"collab/domain/id"
)

// Store hands over all collections, and runs transactions over them.
type Store interface {
	Records

	// Atomic runs fn with the collections of one transaction, which is committed if fn
	// returns nil and rolled back otherwise, also if fn panics. An error of fn is returned
	// unchanged. Fn may run more than once, so it has no other side effects. It uses only
	// the collections that it is given and does not call Atomic.
	//
	// Reads inside fn see fn's own writes. Only methods whose comments say so take locks;
	// fn reads what it decides by with one of them.
	Atomic(ctx context.Context, fn func(Records) error) error

	// At returns the collections for reading with rights of an epoch of the organisation (see
	// Epochs). Before each method reads, it compares the epoch: if the organisation has another
	// one or does not exist, the method returns org.ErrEpochChanged. It sees what Epochs sees.
	// Methods that change records must not be called, nor those that read several tables in one
	// snapshot.
	At(o id.Org, epoch int64) Records

	// Position returns a position of the store that follows every transaction that was committed
	// before it was called, or the known one unless that is none of the store's. It is empty if the
	// store has no replicas.
	Position(ctx context.Context, known string) (string, error)

	// From returns the collections for reading what may be stale. Of these, Members.List, Audit.List,
	// Ledger.Summary, Ledger.Daily and Adoption.List may be called. They see every transaction that was committed
	// before a call of Position that returned the position, on this server or another one, and may
	// miss those that were committed after it and less than about ten seconds ago. At a position that
	// is empty or none of the store's they miss nothing.
	From(position string) Records
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

// Directory hands over the collections of users and organisations.
type Directory interface {
	Users() Users
	Organisations() Organisations
	Members() Members
	Seats() Seats
	Invitations() Invitations
	InvitationSets() InvitationSets
	Subscriptions() Subscriptions
}

// Work hands over the collections of teams, workspaces and tasks.
type Work interface {
	Teams() Teams
	TeamMembers() TeamMembers
	Workspaces() Workspaces
	Orders() Orders
	Tasks() Tasks
	// TasksAt returns the tasks as seen by an actor of the epoch.
	TasksAt(epoch int64) TasksAt
	TaskSets() TaskSets
	TaskHistory() TaskHistory
}

// Journal hands over the collections of messages, audit entries, replays, sessions, exports and
// resumable uploads.
type Journal interface {
	Inbox() Inbox
	Audit() Audit
	Replays() Replays
	Sessions() Sessions
	Exports() Exports
	Uploads() Uploads
}

// Health checks the store.
type Health interface {
	// Ready returns nil when the store answers and has its present schema.
	Ready(ctx context.Context) error
}
