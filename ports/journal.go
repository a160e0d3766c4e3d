package ports

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/replay"
	"collab/domain/session"
)

// Inbox holds the ids of providers' messages that were applied.
type Inbox interface {
	// Accept stores the id of a message of a source; Conflict if it is stored already. It
	// is called in the transaction of the message's effect, which then happens once.
	Accept(ctx context.Context, source, message string, now time.Time) error

	// Prune removes ids that were stored before the time.
	Prune(ctx context.Context, before time.Time) error
}

// Audit holds the audit log. An entry without organisation is the deployment's, and List
// never returns it.
type Audit interface {
	Add(ctx context.Context, e audit.Entry) error

	// List calls each with the organisation's entries that the filter selects, the newest
	// first (At, then id, both descending). An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, f audit.Filter, each func(audit.Entry) error) error
}

// Replays holds records of requests with idempotency keys.
type Replays interface {
	// Begin stores and returns r if there is no record with its key that is live at now;
	// else it changes nothing and returns that record. Of concurrent calls exactly one
	// stores its record.
	Begin(ctx context.Context, r replay.Record, now time.Time) (replay.Record, error)

	// Finish replaces the record with the same key and claim. NotFound if another claim
	// has the key.
	Finish(ctx context.Context, r replay.Record) error

	// Abandon removes the record with the key and claim, if there is one.
	Abandon(ctx context.Context, key, claim string) error

	// Prune removes records that expired before the time.
	Prune(ctx context.Context, before time.Time) error
}

// Sessions holds the sessions of users, across organisations.
type Sessions interface {
	// Get returns the session, even if it has ended. Inside Atomic it locks the session
	// until the transaction ends.
	Get(ctx context.Context, s id.Session) (session.Session, error)

	// Put adds the session, or replaces the one with its id; Conflict if that has ended.
	Put(ctx context.Context, s session.Session) error

	// List returns the user's sessions that have not ended, the most recently used
	// first (LastUsedAt, then ID, both descending).
	List(ctx context.Context, user id.User) ([]session.Session, error)

	// Remove removes the session, if it exists.
	Remove(ctx context.Context, s id.Session) error

	// Use raises LastUsedAt of each session that exists and has not ended to the time; it
	// never lowers it.
	Use(ctx context.Context, uses map[id.Session]time.Time) error

	// Prune removes sessions that expired before the time.
	Prune(ctx context.Context, before time.Time) error
}
