// Package system implements clock, ids, secrets and alarms with the operating system.
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

// IDs returns UUIDv7, which increase within the process also when the clock is set back.
type IDs struct{}

// New returns an id greater than all before it. It panics if there is no randomness.
func (IDs) New() string { return uuid.Must(uuid.NewV7()).String() }

// Secrets draws from the machine's source of randomness.
type Secrets struct{}

// Secret returns 256 random bits in 43 characters.
func (Secrets) Secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Jitter returns a random part of a duration, for retries.
func Jitter(limit time.Duration) time.Duration { return mathrand.N(limit) }

// Alarms are the machine's timers.
type Alarms struct{}

// Set calls fn when the time has passed.
func (Alarms) Set(after time.Duration, fn func()) ports.Alarm {
	return alarm{time.AfterFunc(after, fn)}
}

type alarm struct{ timer *time.Timer }

// Reset does nothing to an alarm that has fired, which time.Timer would restart.
func (a alarm) Reset(after time.Duration) {
	if a.timer.Stop() {
		a.timer.Reset(after)
	}
}

func (a alarm) Stop() { a.timer.Stop() }
