package ports

import (
	"context"
	"time"

	"collab/domain/mail"
)

// Clock tells the time.
type Clock interface {
	// Now returns the present in UTC, cut to whole milliseconds.
	Now() time.Time
}

// IDs makes identifiers.
type IDs interface {
	// New returns a UUIDv7 in canonical form, greater than those it returned before.
	New() string
}

// Secrets makes what must not be guessed.
type Secrets interface {
	// Secret returns 256 random bits in the URL-safe alphabet without padding.
	Secret() string
}

// Sealer encrypts what must not be read where it is kept, and authenticates what is
// only compared there.
type Sealer interface {
	// Seal encrypts and authenticates plain; only Open with the same context
	// returns it.
	Seal(plain, context []byte) ([]byte, error)

	// Open fails with Invalid for anything that Seal did not make with this
	// context and a key that is still known.
	Open(sealed, context []byte) ([]byte, error)

	// Old reports whether something was sealed with another key than Seal uses now,
	// and so is to be sealed anew before that key goes.
	Old(sealed []byte) bool

	// MAC returns the message authentication code of data in this context, the same
	// as long as the keys are. Without them nobody can tell what it was made of.
	MAC(data, context []byte) ([]byte, error)

	// Verify reports whether MAC made mac of data in this context, in constant time.
	// It fails with Invalid for what MAC never makes or made with a key that is not
	// known any more.
	Verify(mac, data, context []byte) (bool, error)
}

// Mailer sends e-mail.
type Mailer interface {
	// Send takes the message over for delivery and returns without waiting for it;
	// Unavailable when it cannot take more. What could not be taken or delivered is
	// in the log.
	Send(ctx context.Context, m mail.Message) error
}

// Alarms calls functions at a time.
type Alarms interface {
	// Set calls fn once, in a goroutine of its own, when the time has passed.
	Set(after time.Duration, fn func()) Alarm
}

// Alarm is one that was set.
type Alarm interface {
	// Reset begins the time anew; it does nothing once fn was called.
	Reset(after time.Duration)
	// Stop keeps fn from being called, unless it was.
	Stop()
}
