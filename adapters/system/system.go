// Package system answers what the core asks of the machine it runs on: the
// time, new identifiers and randomness.
package system

import (
	"crypto/rand"
	"encoding/base64"
	mathrand "math/rand/v2"
	"time"

	"collab/ports"

	"github.com/google/uuid"
)

var (
	_ ports.Clock   = Clock{}
	_ ports.IDs     = IDs{}
	_ ports.Secrets = Secrets{}
	_ ports.Alarms  = Alarms{}
)

// Clock is the machine's clock.
type Clock struct{}

// Now returns the present in UTC, cut to whole milliseconds.
func (Clock) Now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// IDs makes UUIDv7. Its order is that of the whole process, whichever value
// makes them, and holds when the machine's clock is set back.
type IDs struct{}

// New returns an identifier greater than all before it. It panics when the
// machine has no randomness left to give, as nothing could go on then.
func (IDs) New() string { return uuid.Must(uuid.NewV7()).String() }

// Secrets draws from the machine's source of randomness.
type Secrets struct{}

// Secret returns 256 random bits in 43 characters.
func (Secrets) Secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Share returns a part of a duration that nobody knows before, so that those who
// wait for the same do not come back at once.
func Share(of time.Duration) time.Duration { return mathrand.N(of) }

// Alarms are the machine's timers.
type Alarms struct{}

// Set calls fn when the time has passed.
func (Alarms) Set(after time.Duration, fn func()) ports.Alarm {
	return alarm{time.AfterFunc(after, fn)}
}

type alarm struct{ timer *time.Timer }

// Reset leaves one that went off alone, which time.Timer would start again.
func (a alarm) Reset(after time.Duration) {
	if a.timer.Stop() {
		a.timer.Reset(after)
	}
}

func (a alarm) Stop() { a.timer.Stop() }
