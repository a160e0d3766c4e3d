// Package harness is the whole core in one process, offline: the use cases over
// the memory adapters, with a clock that is moved by hand and ids that are
// counted.
package harness

import (
	"time"

	"collab/adapters/memory"
	"collab/adapters/standardwebhooks"
	"collab/app/access"
	"collab/app/objects"
	"collab/app/webhooks"
	"collab/domain/org"
)

// WebhookSecret signs the identity provider's messages.
const WebhookSecret = "whsec_c2VjcmV0LW9mLXRoZS1vZmZsaW5lLWhhcm5lc3M="

// Core is the core with everything that a scenario steers.
type Core struct {
	Store    *memory.Store
	Clock    *memory.Clock
	IDs      *memory.IDs
	Access   *access.Access // without tokens
	Objects  *objects.Objects
	Webhooks *webhooks.Webhooks
}

// New returns an empty core whose clock stands at the time.
func New(at time.Time, roles org.RoleMap) (*Core, error) {
	c := &Core{Store: memory.NewStore(), Clock: memory.NewClock(at), IDs: &memory.IDs{}}
	events, err := standardwebhooks.New([]string{WebhookSecret}, c.Clock)
	if err != nil {
		return nil, err
	}
	c.Access = access.New(access.Options{Store: c.Store, Epochs: c.Store, Clock: c.Clock})
	c.Objects = objects.New(objects.Options{Store: c.Store, Clock: c.Clock, IDs: c.IDs, Secrets: &memory.Secrets{}})
	c.Webhooks = webhooks.New(webhooks.Options{Store: c.Store, Identity: events, Clock: c.Clock, IDs: c.IDs, Roles: roles, Objects: c.Objects})
	return c, nil
}
