package connector

import (
	"hash/fnv"
	"time"

	"collab/domain/check"
	"collab/domain/fault"
	"collab/domain/id"
)

// Bounds.
const (
	MaxInstances   = 200      // of an organisation
	MaxConfig      = 16 << 10 // of an instance's config, in bytes of JSON
	MaxCredentials = 64 << 10 // of an instance's credentials, in bytes of JSON
	MaxTools       = 256      // that are stored of a server
	MaxToolName    = 128      // characters
	MaxToolText    = 500      // characters of a tool's description
	MaxToolTexts   = 64 << 10 // bytes of the names and descriptions of a server's tools together
)

// Times of the work on instances.
const (
	// ClaimDuration is how long a claim of an instance lasts. It is longer than all work on
	// an instance takes.
	ClaimDuration = 2 * time.Minute

	checkInterval      = time.Hour        // after a success
	minRetry           = time.Minute      // after a failure; doubled each time
	maxRetry           = 6 * time.Hour    // at most
	minUseInterval     = time.Minute      // the least advance of lastUsedAt
	minRenewalInterval = 30 * time.Second // at most, however short the token lives
	minRenewalRetry    = 2 * time.Second  // at least, while the token has not expired
)

// Instance is a provider's tool server as one organisation uses it.
type Instance struct {
	ID        id.Connector
	Org       id.Org
	Provider  string  // the slug
	Label     string  // the display name: the name, or the provider's
	Name      *string // as it was given
	Config    string  // a JSON object that only clients interpret
	URL       string  // of the server; empty for a LOCAL one
	Hosting   Hosting
	Transport Transport
	CreatedBy id.User
	CreatedAt time.Time

	LastUsedAt *time.Time // when the credentials were last read or the server last answered
	LastError  string     // while the status is ERROR
	Tools      []Tool     // as the server listed them last
	Failures   int        // consecutive, the latest included

	Version   int64      // of the credentials, incremented by each change; 0: there are none
	ExpiresAt *time.Time // of the access token; nil: not known
	RenewAt   *time.Time // when the token is to be refreshed; nil: it cannot be

	// DueAt is when the instance's server is to be checked or its token renewed. A
	// server that claims the work sets it to ClaimDuration from now first. Nil: no work is
	// due, as for a LOCAL instance.
	DueAt *time.Time

	status Status
}

// Tool is a tool of a server.
type Tool struct {
	Name        string
	Description string // may be empty
}

// Draft has the fields of a new instance.
type Draft struct {
	ID       id.Connector // empty: a new one
	Provider string
	Name     *string
	Config   string // a JSON object; empty: none
	URL      string // the config's url, where it is a text
}

// New returns an instance of the provider, created by the user at now.
func New(instance id.Connector, o id.Org, creator id.User, p Provider, d Draft, now time.Time) (Instance, error) {
	i := Instance{
		ID: instance, Org: o, Provider: p.ID, Label: p.Name, Config: d.Config, URL: p.URL,
		Hosting: p.Transport.Hosting(), Transport: p.Transport, CreatedBy: creator, CreatedAt: now,
	}
	var c check.List
	if d.Name != nil {
		name := c.Name("name", *d.Name)
		i.Name, i.Label = &name, name
	}
	if len(d.Config) > MaxConfig {
		c.Add("config", "must be at most %d bytes", MaxConfig)
	}
	if i.Config == "" {
		i.Config = "{}"
	}
	if i.Hosting == Cloud && i.URL == "" {
		if i.URL = d.URL; i.URL == "" {
			c.Add("config.url", "must be the server's address")
		} else if len(i.URL) > check.MaxURL {
			c.Add("config.url", "must be at most %d bytes", check.MaxURL)
		}
	}
	if err := c.Err(); err != nil {
		return Instance{}, err
	}
	trigger := CreatedWithAuth
	if p.Auth == NoAuth {
		trigger = CreatedWithoutAuth
	}
	var err error
	i.status, err = i.status.after(trigger)
	if trigger == CreatedWithoutAuth && i.Hosting == Cloud {
		i.DueAt = &now
	}
	return i, err
}

// WithServerOf returns the instance with the current address and transport of its provider p. It keeps its
// own if p has no address, or another hosting than the instance.
func (i Instance) WithServerOf(p Provider) Instance {
	if p.URL != "" && p.Transport.Hosting() == i.Hosting {
		i.URL, i.Transport = p.URL, p.Transport
	}
	return i
}

func (i Instance) Status() Status { return i.status }

// Restore returns the instance with its stored state.
func (i Instance) Restore(s Status) Instance {
	i.status = s
	return i
}

// Stored returns the instance after it was given credentials at now.
func (i Instance) Stored(c Credentials, now time.Time) (Instance, error) {
	trigger := StoredCloud
	if i.Hosting == Local {
		trigger = StoredLocal
	}
	to, err := i.status.after(trigger)
	if err != nil {
		return i, err
	}
	i.status, i.LastError, i.Failures = to, "", 0
	i = i.withCredentials(c, now)
	if i.Hosting == Cloud {
		i.DueAt = &now
	}
	return i, nil
}

// Renewed returns the instance after its token was refreshed at now.
func (i Instance) Renewed(c Credentials, now time.Time) (Instance, error) {
	to, err := i.status.after(Renewed)
	if err != nil {
		return i, err
	}
	i.status, i.LastError, i.Failures = to, "", 0
	return i.withCredentials(c, now), nil
}

// withCredentials returns the instance with other credentials, received at now.
func (i Instance) withCredentials(c Credentials, now time.Time) Instance {
	i.Version++
	i.ExpiresAt, i.RenewAt = c.ExpiresAt, nil
	if c.ExpiresAt != nil && c.Renewable {
		at := renewalTime(i.ID, now, *c.ExpiresAt)
		i.RenewAt = &at
	}
	return i
}

// Answered returns the instance after its server has listed its tools at now.
func (i Instance) Answered(tools []Tool, now time.Time) (Instance, error) {
	to, err := i.status.after(Answered)
	if err != nil {
		return i, err
	}
	i.status, i.LastError, i.Failures, i.Tools = to, "", 0, tools
	i.LastUsedAt = &now
	i.DueAt = i.nextDue(now.Add(checkInterval))
	return i, nil
}

// Retired returns the instance with no work due any more, as for a closed
// organisation.
func (i Instance) Retired() Instance {
	i.DueAt = nil
	return i
}

// Released returns the instance as due at now, so that any server can claim it.
func (i Instance) Released(now time.Time) Instance {
	i.DueAt = &now
	return i
}

// Failed returns the instance after its server could not be used at now, with a
// reason that is safe to show to users.
func (i Instance) Failed(reason string, now time.Time) (Instance, error) {
	i, err := i.failed(reason, now)
	if err == nil {
		i.DueAt = i.nextDue(*i.DueAt)
	}
	return i, err
}

// Unreadable returns the instance after its credentials could not be opened at now.
// It is not due earlier for its token, which cannot be refreshed either.
func (i Instance) Unreadable(reason string, now time.Time) (Instance, error) {
	return i.failed(reason, now)
}

// failed returns the instance after a failure at now, to be tried again later.
func (i Instance) failed(reason string, now time.Time) (Instance, error) {
	to, err := i.status.after(Failed)
	if err != nil {
		return i, err
	}
	i.status, i.LastError = to, reason
	i.Failures++
	retryAt := now.Add(backoff(i.Failures))
	i.DueAt = &retryAt
	return i, nil
}

// NotRenewed returns the instance after its token could not be refreshed for now.
// It is failing once the token has expired.
func (i Instance) NotRenewed(reason string, now time.Time) (Instance, error) {
	if i.ExpiresAt != nil && !i.Expired(now) {
		i.Failures++
		retryAt := now.Add(min(backoff(i.Failures), max(minRenewalRetry, i.ExpiresAt.Sub(now)/2)))
		i.DueAt = &retryAt
		return i, nil
	}
	return i.failed(reason, now)
}

// Revoked returns the instance after its authorization was revoked. It is not due
// before it gets other credentials.
func (i Instance) Revoked(reason string) (Instance, error) {
	to, err := i.status.after(Revoked)
	if err != nil {
		return i, err
	}
	i.status, i.LastError, i.DueAt = to, reason, nil
	return i, nil
}

// Used returns the instance after its credentials were read at now: LastUsedAt advances by useInterval
// or more.
func (i Instance) Used(now time.Time) Instance {
	if i.LastUsedAt == nil || now.Sub(*i.LastUsedAt) >= minUseInterval {
		i.LastUsedAt = &now
	}
	return i
}

// Claimed returns the instance as claimed at now, for ClaimDuration. It fails with Conflict
// if no work is due, as while another claim lasts.
func (i Instance) Claimed(now time.Time) (Instance, error) {
	if i.DueAt == nil || i.DueAt.After(now) {
		return i, fault.New(fault.Conflict, "Nothing is to be done for the connector now")
	}
	until := now.Add(ClaimDuration)
	i.DueAt = &until
	return i, nil
}

// ClaimedToUse is Claimed for a caller that needs the token at now: an instance
// whose token has expired is due, also before RenewAt.
func (i Instance) ClaimedToUse(now time.Time) (Instance, error) {
	if i.Expired(now) && i.DueAt != nil && i.RenewAt != nil && i.DueAt.Equal(*i.RenewAt) { // not claimed
		i = i.Released(now)
	}
	return i.Claimed(now)
}

// RenewalDue reports whether the token is to be refreshed at now, or has expired
// and cannot be.
func (i Instance) RenewalDue(now time.Time) bool {
	at := i.expiry()
	return at != nil && !now.Before(*at)
}

// Expired reports whether the token has expired at now.
func (i Instance) Expired(now time.Time) bool { return i.ExpiresAt != nil && !now.Before(*i.ExpiresAt) }

// expiry returns when the token is to be renewed, else when it expires. Nil: never.
func (i Instance) expiry() *time.Time {
	if i.RenewAt != nil {
		return i.RenewAt
	}
	return i.ExpiresAt
}

// renewalTime returns when a token issued at now is to be refreshed: after about four
// fifths of its lifetime, spread by instance, so that instances that were
// authorised together are not all refreshed at once. A token with a lifetime below
// minRenewalInterval has expired by then.
func renewalTime(i id.Connector, now, expires time.Time) time.Time {
	h := fnv.New32a()
	_, _ = h.Write([]byte(i)) // a hash takes it all
	percent := 75 + time.Duration(h.Sum32()%11)
	after := max(minRenewalInterval, expires.Sub(now)/100*percent)
	return now.Add(after).UTC().Truncate(time.Millisecond)
}

// nextDue returns when the instance is due again: at the time, or earlier for its
// token.
func (i Instance) nextDue(at time.Time) *time.Time {
	if e := i.expiry(); e != nil && e.Before(at) {
		return e
	}
	return &at
}

// backoff returns the delay before the next attempt after consecutive failures.
func backoff(failures int) time.Duration {
	if failures > 10 {
		return maxRetry
	}
	return min(minRetry<<(failures-1), maxRetry)
}
