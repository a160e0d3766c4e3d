package ports

import (
	"context"
	"time"

	"collab/domain/audit"
	"collab/domain/id"
	"collab/domain/replay"
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
