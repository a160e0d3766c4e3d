package ports

import (
	"context"
	"time"

	"collab/domain/mail"
)

// Clock returns the present time.
type Clock interface {
	// Now returns the present in UTC, cut to whole milliseconds.
	Now() time.Time
}

// IDs makes identifiers.
type IDs interface {
	// New returns a UUIDv7 in canonical form, greater than those it returned before.
	New() string
}

// Secrets makes random secrets.
type Secrets interface {
	// Secret returns 256 random bits in the URL-safe alphabet without padding.
	Secret() string
}

// Sealer encrypts stored secrets, and authenticates stored data that is only compared.
type Sealer interface {
	// Seal encrypts and authenticates plain together with context.
	Seal(plain, context []byte) ([]byte, error)

	// Open returns what Seal encrypted with this context. Invalid for anything else, and
	// if the key is not known.
	Open(sealed, context []byte) ([]byte, error)

	// OldKey reports whether sealed has another key than Seal uses now, and is to be sealed
	// again before that key is removed.
	OldKey(sealed []byte) bool

	// MAC returns the message authentication code of data in this context. It is the same
	// until the keys change.
	MAC(data, context []byte) ([]byte, error)

	// Verify reports in constant time whether mac is of data in this context. Invalid if
	// mac is malformed or its key is not known.
	Verify(mac, data, context []byte) (bool, error)
}

// Mailer sends e-mail.
type Mailer interface {
	// Send queues the message and returns without waiting for its delivery; Unavailable if
	// the queue is full. Messages that cannot be queued or delivered are logged.
	Send(ctx context.Context, m mail.Message) error
}

// Alarms calls functions at a time.
type Alarms interface {
	// Set calls fn once, in a goroutine of its own, after the duration.
	Set(after time.Duration, fn func()) Alarm
}

// Alarm is a pending call of Alarms.Set.
type Alarm interface {
	// Reset restarts the duration; it does nothing after fn was called.
	Reset(after time.Duration)
	// Stop cancels the call, unless fn was called.
	Stop()
}
