package ports

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/replay"
	"collab/domain/session"
)

// Inbox remembers which messages of providers have been dealt with.
type Inbox interface {
	// Accept notes the message of a source. Conflict when it was noted before. In
	// the same transaction as the message's effect it makes the effect happen once.
	Accept(ctx context.Context, source, message string, now time.Time) error

	// Prune forgets messages noted before the time.
	Prune(ctx context.Context, before time.Time) error
}

// Audit holds the audit log. An entry without organisation belongs to the
// deployment and is in no organisation's list.
type Audit interface {
	Add(ctx context.Context, e audit.Entry) error

	// List calls each with the organisation's entries, the newest first (At, then
	// id, both descending), starting after the given entry when there is one; at
	// most limit, 0: all. An error of each ends the list and is returned.
	List(ctx context.Context, o id.Org, after id.Entry, limit int, each func(audit.Entry) error) error
}

// Replays holds what is known of requests with idempotency keys.
type Replays interface {
	// Begin stores r and returns it when its key is free or what is there is no
	// longer live at now; else it changes nothing and returns what is there. Of
	// many at once exactly one stores its own.
	Begin(ctx context.Context, r replay.Record, now time.Time) (replay.Record, error)

	// Finish replaces the record with the same key and claim. NotFound when
	// another attempt holds the key by now.
	Finish(ctx context.Context, r replay.Record) error

	// Abandon frees the key if the claim still holds it.
	Abandon(ctx context.Context, key, claim string) error

	// Prune forgets records that expired before the time.
	Prune(ctx context.Context, before time.Time) error
}

// Sessions holds who is signed in from where, by users and across organisations.
type Sessions interface {
	// Get returns the session, also an ended one. Inside Atomic it keeps others from
	// changing the session until the transaction ends.
	Get(ctx context.Context, s id.Session) (session.Session, error)

	// Put adds the session, or replaces the one with its id. It never replaces an
	// ended one: Conflict then.
	Put(ctx context.Context, s session.Session) error

	// List returns the user's sessions that have not ended, the most recently used
	// first (LastUsedAt, then ID, both descending).
	List(ctx context.Context, user id.User) ([]session.Session, error)

	// Remove removes the session, if it is there.
	Remove(ctx context.Context, s id.Session) error

	// Use brings LastUsedAt of each session that is there and has not ended forward
	// to the time, never back.
	Use(ctx context.Context, uses map[id.Session]time.Time) error

	// Prune removes sessions that expired before the time.
	Prune(ctx context.Context, before time.Time) error
}
